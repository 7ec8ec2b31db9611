//! `answer`: what a server asks, and what is answered; checked before anything is sent.
//!
//! Must not know how an answer travels. Invariant: nothing is answered that was not asked for by a word of the command
//! line, and nothing is ever opened from here.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    Context,
    args::Answer as Args,
    block_on,
    calls::{Pair, pair, read_pairs, takes},
    fail::{Fail, code},
    json as documents, lines,
    live::{Event, Live},
    target::Targets,
};
use crate::domain::{
    Answer, Connectivity, Elicitation, ElicitationMode, Question, SessionRequest, Task, TaskView,
    Wall, text,
};

/// How long the way to the server is waited for; the answer is on disk by then and goes out later.
const ARRIVE_WITHIN: Duration = Duration::from_secs(10);

/// `answer`.
pub(super) fn answer(context: &mut Context<'_>, args: &Args) -> Result<u8, Fail> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &args.id)?;
    let question = question(&task, args.key.as_deref())?.clone();
    let asked = Elicitation::parse(&question.request);
    let Some(answer) = chosen(context, args, &task, &asked)? else {
        show(context, &task, &question, &asked)?;
        return Ok(code::INPUT);
    };
    context.may_act()?;
    if let (Answer::Accept { .. }, Some(link)) = (&answer, asked.url_preview()) {
        context.terminal.line(&link.full_url())?;
        for warning in &link.warnings {
            context.terminal.say(&format!("longhaul: {warning}"));
        }
        context
            .terminal
            .remark("open it yourself; longhaul opens nothing from the command line");
    }
    let servers = Targets::of(context, &mut reader)?.for_task(&task.server)?;
    block_on(async {
        let mut live = Live::open(context, servers)?;
        let done = send(context, &mut live, &task, &question, answer).await;
        match done {
            Ok(code) => {
                live.leave(context, &[]).await;
                Ok(code)
            }
            Err(fail) => {
                live.close();
                Err(fail)
            }
        }
    })
}

/// The question that is meant.
fn question<'t>(task: &'t Task, key: Option<&str>) -> Result<&'t Question, Fail> {
    let id = &task.id;
    let Some(key) = key else {
        return task.open_question().ok_or_else(|| {
            Fail::usage(format!("{id} asks nothing; it is {}", task.status.label()))
        });
    };
    let open: Vec<&Question> = task.open_questions().collect();
    open.iter()
        .find(|question| question.key == key)
        .copied()
        .ok_or_else(|| {
            let keys: Vec<&str> = open.iter().map(|question| question.key.as_str()).collect();
            let what = if keys.is_empty() {
                "nothing".to_owned()
            } else {
                keys.join(", ")
            };
            Fail::usage(format!(
                "{id} does not ask {key:?}, or not any more; it asks {what}"
            ))
        })
}

/// What the arguments choose; nothing if they choose nothing.
fn chosen(
    context: &Context<'_>,
    args: &Args,
    task: &Task,
    asked: &Elicitation,
) -> Result<Option<Answer>, Fail> {
    let refused = |complaints: &[String]| {
        let (id, flags) = (&task.id, context.flags());
        let why = complaints.join(", ");
        Fail::usage(format!(
            "{why}; nothing was sent. `longhaul answer {id}{flags}` shows what is asked"
        ))
    };
    if args.decline {
        return Ok(Some(Answer::Decline));
    }
    if args.cancel {
        return Ok(Some(Answer::Dismiss));
    }
    if args.defaults {
        let filled = asked.defaults().map_err(|missing| {
            let words = match asked.mode {
                ElicitationMode::Url { .. } => {
                    "it wants a page opened, which has no defaults".to_owned()
                }
                ElicitationMode::Form { .. } => format!("no default for {}", missing.join(", ")),
            };
            refused(&[words])
        })?;
        return Ok(Some(Answer::Accept {
            content: Some(filled),
        }));
    }
    if !args.accept && args.pairs.is_empty() {
        return Ok(None);
    }
    let pairs: Vec<Pair> = args
        .pairs
        .iter()
        .map(|text| pair(text))
        .collect::<Result<_, _>>()?;
    let mut given = Map::new();
    read_pairs(pairs, asked.fields(), &mut given).map_err(|complaint| refused(&[complaint]))?;
    let filled = asked
        .content(&given)
        .map_err(|complaints| refused(&complaints))?;
    Ok(Some(Answer::Accept { content: filled }))
}

/// Answers, and waits until the server has it or cannot be reached.
async fn send(
    context: &mut Context<'_>,
    live: &mut Live,
    task: &Task,
    question: &Question,
    answer: Answer,
) -> Result<u8, Fail> {
    let id = &task.id;
    let word = answer.outcome();
    let what = SessionRequest::Answer {
        id: id.clone(),
        key: Some(question.key.clone()),
        answer,
    };
    live.ask(context, what).await?;
    let is_there = |view: &TaskView| {
        let of_key = |known: &&Question| known.key == question.key;
        let known = view.task.questions.iter().find(of_key);
        view.task.status.is_settled() || known.is_none_or(|known| known.is_delivered)
    };
    let until = tokio::time::Instant::now() + ARRIVE_WITHIN;
    while !live.tasks.get(id).is_some_and(|view| is_there(view)) {
        match tokio::time::timeout_at(until, live.next(context)).await {
            Ok(Ok(Event::Session(_))) => {}
            Ok(Ok(Event::Interrupted | Event::Ended)) => {
                return Err(Fail::new(
                    code::INTERRUPTED,
                    format!(
                        "interrupted; {id} is {word} and that is saved, it goes out when it can"
                    ),
                ));
            }
            Ok(Err(fail)) => return Err(fail),
            Err(_) => {
                let why = match live.tasks.get(id).map(|view| &view.contact) {
                    Some(Connectivity::Offline { why, .. }) => {
                        format!(" ({})", text::clean_line(why))
                    }
                    _ => String::new(),
                };
                let server = text::clean_line(task.server.as_str()).into_owned();
                return Err(Fail::new(
                    code::UNREACHABLE,
                    format!(
                        "{id} is {word} and that is saved, but {server} did not take it yet{why}; it goes out when longhaul runs and can reach it"
                    ),
                ));
            }
        }
    }
    let more = live
        .tasks
        .get(id)
        .and_then(|view| view.task.open_question().cloned());
    if context.global.json {
        let document = json!({
            "id": id,
            "key": question.key,
            "answer": word,
            "open": live.tasks.get(id).map_or(0, |view| view.task.open_questions().count()),
        });
        context.terminal.document(&documents::text_of(&document))?;
    } else {
        context.terminal.line(&format!("{id} is {word}"))?;
    }
    if let Some(more) = more.filter(|more| more.key != question.key) {
        context.terminal.remark(&format!(
            "it asks more: {}; longhaul answer {id}{}",
            Elicitation::message_of(&more.request),
            context.flags()
        ));
    }
    Ok(code::OK)
}

/// Until when the server waits at most, as far as it told.
fn until(task: &Task) -> Option<Wall> {
    task.server_task.as_ref()?.expires_at()
}

/// The open questions of a task for `--json`.
pub(super) fn documents_of(task: &Task) -> Value {
    let open = task.open_questions();
    open.map(|question| {
        json!({
            "key": question.key,
            "message": Elicitation::parse(&question.request).message,
            "asked_at": question.asked_at.rfc3339(),
            "shared_with": question.shared_with,
        })
    })
    .collect()
}

fn show(
    context: &mut Context<'_>,
    task: &Task,
    question: &Question,
    asked: &Elicitation,
) -> Result<(), Fail> {
    if context.global.json {
        let document = document(task, question, asked);
        return context.terminal.document(&documents::pretty(&document));
    }
    let mut out = asking(context.clock.now().wall, task, question, asked);
    let clean = |words: &str| text::clean_line(words).into_owned();
    let count = task.open_questions().count();
    if count > 1
        && let Some(waits) = out.get_mut(1)
    {
        let key = clean(&super::quoted(&question.key));
        *waits = format!("{waits}; {count} questions are open, this one is --key {key}");
    }
    let mut example = String::new();
    if !asked.fields().is_empty() {
        out.push(String::new());
    }
    for field in asked.fields() {
        out.push(format!("  {}   {}", takes(field), about(field)));
        if field.is_required && field.default.is_none() {
            example = format!("{example} {}=...", clean(&super::quoted(&field.name)));
        }
    }
    out.push(String::new());
    let key = match count {
        1 => String::new(),
        _ => format!(" --key {}", clean(&super::quoted(&question.key))),
    };
    let command = format!("longhaul answer {}{}{key}", task.id, context.flags());
    out.push(format!("yes: {command} --accept{example}"));
    if asked.defaults().is_ok() && !asked.fields().is_empty() {
        out.push(format!("     {command} --defaults"));
    }
    out.push(format!(
        "no:  {command} --decline      dismiss it: --cancel"
    ));
    for line in out {
        context.terminal.line(&line)?;
    }
    Ok(())
}

/// What a field must be, and what it is for.
pub(super) fn about(field: &crate::domain::ArgumentSpec) -> String {
    let clean = |words: &str| text::clean_line(words).into_owned();
    let title = field.title.iter().chain(&field.description);
    let about: Vec<String> = title.map(|words| clean(words)).collect();
    let mut wanted = clean(&field.expected());
    if let Some(labels) = labels(field) {
        wanted = format!("{wanted} ({labels})");
    }
    let line = format!("{wanted}   {}", about.join(": "));
    line.trim_end().to_owned()
}

/// Who asks and what, without the fields of a form.
pub(super) fn asking(
    now: Wall,
    task: &Task,
    question: &Question,
    asked: &Elicitation,
) -> Vec<String> {
    let clean = |words: &str| text::clean_line(words).into_owned();
    let mut out = vec![format!(
        "{} asks, for {} ({})",
        clean(task.server.as_str()),
        clean(task.title()),
        task.id
    )];
    let mut waits = format!("since {}", text::span(now.since(question.asked_at)));
    if let Some(asked_for) = question.asked_for(&task.id) {
        waits = format!("{asked_for}, {waits}");
    }
    if let Some(until) = until(task) {
        waits = format!("{waits}, until {}", lines::clock(until, now));
    }
    out.push(waits);
    out.push(String::new());
    let message = text::clean_block(&asked.message).into_owned();
    let message = message.trim_end();
    out.extend(message.lines().map(|line| format!("  {line}")));
    match &asked.mode {
        ElicitationMode::Form { warnings, .. } => {
            let warnings = warnings.iter();
            out.extend(warnings.map(|warning| format!("  {}", clean(warning))));
        }
        ElicitationMode::Url { .. } => {
            if let Some(link) = asked.url_preview() {
                out.push(String::new());
                out.push(format!("  {}", link.full_url()));
                if !link.host.is_empty() {
                    out.push(format!("  it leads to {}", link.host));
                }
                out.extend(link.warnings.iter().map(|warning| format!("  {warning}")));
            }
        }
    }
    out
}

/// What choices are called, where that is not what is sent.
fn labels(field: &crate::domain::ArgumentSpec) -> Option<String> {
    let labels: Vec<String> = field
        .labels
        .iter()
        .take(12)
        .map(|label| text::clean_line(label).into_owned())
        .collect();
    (!labels.is_empty()).then(|| labels.join(", "))
}

fn document(task: &Task, question: &Question, asked: &Elicitation) -> Value {
    let fields: Vec<Value> = asked
        .fields()
        .iter()
        .map(|field| {
            json!({
                "name": field.name,
                "title": field.title,
                "description": field.description,
                "required": field.is_required,
                "default": field.default,
                "wanted": field.expected(),
            })
        })
        .collect();
    let link = asked.url_preview();
    json!({
        "id": task.id,
        "server": task.server,
        "tool": task.tool,
        "key": question.key,
        "asked_at": question.asked_at.rfc3339(),
        "until": until(task).map(Wall::rfc3339),
        "open": task.open_questions().count(),
        "shared_with": question.shared_with,
        "message": asked.message,
        "mode": if link.is_some() { "url" } else { "form" },
        "fields": fields,
        "url": link.as_ref().map(crate::domain::UrlPreview::full_url),
        "warnings": link.map(|link| link.warnings),
        "request": documents::parsed(&question.request),
    })
}
