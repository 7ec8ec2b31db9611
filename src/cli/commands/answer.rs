//! `answer`: shows and answers questions.

use std::time::Duration;

use itertools::Itertools as _;
use serde_json::{Map, Value, json};

use crate::{
    cli::{
        CliError, CliResult, Context, LiveSession, Targets,
        args::AnswerArgs,
        arguments::{apply_pairs, argument_usage, parse_pairs},
        code, json as documents,
        live_session::in_session,
        questions::{deadline, field_help, question_lines},
    },
    domain::{
        Answer, Elicitation, ElicitationMode, Question, SessionRequest, Task, TaskView, Wall, text,
    },
};

/// How long to wait for the server to take the answer. After that it is sent later, as it is on disk by then.
const DELIVER_WITHIN: Duration = Duration::from_secs(10);

/// `answer`.
pub(in crate::cli) fn answer(context: &mut Context<'_>, args: &AnswerArgs) -> CliResult {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &args.id)?;
    let question = find_question(&task, args.key.as_deref())?.clone();
    let elicitation = Elicitation::parse(&question.request);
    let Some(answer) = answer_from_args(args, &task, &elicitation)? else {
        show(context, &task, &question, &elicitation)?;
        return Ok(code::INPUT);
    };
    context.may_act()?;
    if let (Answer::Accept { .. }, Some(link)) = (&answer, elicitation.url_preview()) {
        context.print(&link.full_url())?;
        for warning in &link.warnings {
            context.warn(warning);
        }
        context.info("open this page yourself; `longhaul answer` never opens pages");
    }
    let servers = Targets::of(context, &mut reader)?.for_task(&task.server)?;
    in_session(context, servers, async |context, live| {
        send(context, live, &task, &question, answer).await
    })
}

/// The open question with this key, or the only one.
fn find_question<'t>(task: &'t Task, key: Option<&str>) -> CliResult<&'t Question> {
    let id = &task.id;
    let Some(key) = key else {
        return task.open_question().ok_or_else(|| {
            CliError::usage(format!(
                "{id} has no open question (status: {})",
                task.state_label()
            ))
        });
    };
    let open: Vec<&Question> = task.open_questions().collect();
    open.iter()
        .find(|question| question.key == key)
        .copied()
        .ok_or_else(|| {
            let keys = open.iter().map(|question| &question.key).join(", ");
            let keys = if keys.is_empty() { "none" } else { &keys };
            CliError::usage(format!(
                "{id} has no open question {key:?}; open questions: {keys}"
            ))
        })
}

/// The answer that the arguments give, or `None` if they give none.
fn answer_from_args(
    args: &AnswerArgs,
    task: &Task,
    elicitation: &Elicitation,
) -> CliResult<Option<Answer>> {
    let invalid = |errors: &[String]| {
        let id = &task.id;
        let why = errors.join("; ");
        CliError::usage(format!(
            "not sent: {why}; `longhaul answer {id}` shows the question"
        ))
    };
    if args.decline {
        return Ok(Some(Answer::Decline));
    }
    if args.dismiss {
        return Ok(Some(Answer::Dismiss));
    }
    if args.defaults {
        let accepted = elicitation.defaults().map_err(|missing| {
            let message = match elicitation.mode {
                ElicitationMode::Url { .. } => {
                    "it asks you to open a page and has no defaults".to_owned()
                }
                ElicitationMode::Form { .. } => format!("no default for {}", missing.join(", ")),
            };
            invalid(&[message])
        })?;
        return Ok(Some(Answer::Accept {
            content: Some(accepted),
        }));
    }
    if !args.accept && args.pairs.is_empty() {
        return Ok(None);
    }
    let pairs = parse_pairs(&args.pairs)?;
    let mut values = Map::new();
    apply_pairs(pairs, elicitation.fields(), &mut values)
        .map_err(|error| invalid(&[error.to_string()]))?;
    let accepted = elicitation
        .content(&values)
        .map_err(|errors| invalid(&errors))?;
    Ok(Some(Answer::Accept { content: accepted }))
}

/// Sends the answer, and waits until the server has it or cannot be reached.
async fn send(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    task: &Task,
    question: &Question,
    answer: Answer,
) -> CliResult {
    let id = &task.id;
    let outcome = answer.outcome();
    let request = SessionRequest::Answer {
        id: id.clone(),
        key: Some(question.key.clone()),
        answer,
    };
    live.request(context, request).await?;
    let has_it = |view: &TaskView| {
        let of_key = |known: &&Question| known.key == question.key;
        let known = view.task.questions.iter().find(of_key);
        // The answers of a round go out together.
        let waits_for_others = view.task.waits_in_round();
        view.task.status.is_settled()
            || known.is_none_or(|known| {
                known.is_delivered || known.answer.is_some() && waits_for_others
            })
    };
    let is_delivered = |live: &LiveSession| live.tasks.get(id).is_some_and(|view| has_it(view));
    if live
        .wait_until(context, DELIVER_WITHIN, is_delivered)
        .await?
    {
        let message =
            format!("interrupted; the answer to {id} ({outcome}) is saved and will be sent later");
        return Err(CliError::new(code::INTERRUPTED, message));
    }
    if !is_delivered(live) {
        let why = live.tasks.get(id).and_then(|view| view.contact.why());
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        let server = &task.server;
        let message = format!(
            "the answer to {id} ({outcome}) is saved, but {server} has not received it yet{why}; longhaul sends it when it runs and can reach the server"
        );
        return Err(CliError::new(code::UNREACHABLE, message));
    }
    let view = live.tasks.get(id);
    let more = view.and_then(|view| view.task.open_question().cloned());
    let document = json!({
        "id": id,
        "key": question.key,
        "answer": outcome,
        "open": live.tasks.get(id).map_or(0, |view| view.task.open_questions().count()),
    });
    context.answer(&document, &format!("{id}: answer saved ({outcome})"))?;
    if let Some(more) = more.filter(|more| more.key != question.key) {
        context.info(&format!(
            "next question: {}; `longhaul answer {id}`",
            Elicitation::message_of(&more.request)
        ));
    }
    Ok(code::OK)
}

fn show(
    context: &mut Context<'_>,
    task: &Task,
    question: &Question,
    elicitation: &Elicitation,
) -> CliResult<()> {
    if context.global.json {
        let document = question_json(task, question, elicitation);
        return context.terminal.print_pretty(document);
    }
    let mut out = question_lines(context.clock.now().wall, task, question, elicitation);
    let clean = |text: &str| text::clean_line(text).into_owned();
    let count = task.open_questions().count();
    if count > 1
        && let Some(timing) = out.get_mut(1)
    {
        let key = clean(&text::shell_word(&question.key));
        *timing = format!("{timing}; {count} questions are open, this is --key {key}");
    }
    let mut example = String::new();
    if !elicitation.fields().is_empty() {
        out.push(String::new());
    }
    for field in elicitation.fields() {
        out.push(format!(
            "  {}   {}",
            argument_usage(field),
            field_help(field)
        ));
        if field.is_required && field.default.is_none() {
            example = format!("{example} {}=...", clean(&text::shell_word(&field.name)));
        }
    }
    out.push(String::new());
    let key = match count {
        1 => String::new(),
        _ => format!(" --key {}", clean(&text::shell_word(&question.key))),
    };
    let command = format!("longhaul answer {}{}{key}", task.id, context.flags());
    out.push(format!("accept:  {command} --accept{example}"));
    if elicitation.defaults().is_ok() && !elicitation.fields().is_empty() {
        out.push(format!("         {command} --defaults"));
    }
    out.push(format!("decline: {command} --decline"));
    out.push(format!("dismiss: {command} --dismiss"));
    context.print_lines(out)
}

fn question_json(task: &Task, question: &Question, elicitation: &Elicitation) -> Value {
    let fields: Vec<Value> = elicitation
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
    let link = elicitation.url_preview();
    json!({
        "id": task.id,
        "server": task.server,
        "tool": task.tool,
        "key": question.key,
        "asked_at": question.asked_at.rfc3339(),
        "until": deadline(task).map(Wall::rfc3339),
        "open": task.open_questions().count(),
        "shared_with": question.shared_with,
        "message": elicitation.message,
        "mode": if link.is_some() { "url" } else { "form" },
        "fields": fields,
        "url": link.as_ref().map(crate::domain::UrlPreview::full_url),
        "warnings": link.map(|link| link.warnings),
        "request": documents::parsed(&question.request),
    })
}
