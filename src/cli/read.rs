//! `ls`, `show`, `result`, `logs` and `paths`: what the session file says, without lock and without network.

use std::{borrow::Cow, io::Write as _, path::Path};

use serde_json::{Value, json};

use super::{
    Context,
    args::{Logs, Ls, ResultOf},
    calls::title,
    config,
    fail::{Fail, code},
    follow::{self, Printer, Style},
    json as documents, lines,
    target::Targets,
};
use crate::{
    app::{Filter, View},
    domain::{
        Block, Connectivity, Elicitation, Entry, HistoryEvent, LeaveImpact, ProtocolVersion,
        Status, Task, TaskId, Wall, element, text,
    },
    engine::barred_tasks,
    store::{DriverLock, ListFilter, Reader, StoreError},
};

/// Entries looked at to learn how contact stands.
const LOOK_BACK: usize = 64;
/// The widest cell of free text, in columns.
const CELL: usize = 48;

/// Who drives, and what only he knows.
struct Driver {
    is_there: bool,
    /// The tasks that wait for credentials.
    barred: Vec<TaskId>,
}

impl Driver {
    /// Asked only where one of the tasks may wait for something.
    fn of(context: &Context<'_>, tasks: &[Task]) -> Self {
        let pid = DriverLock::holder(&context.paths);
        let is_another = pid.is_some_and(|pid| pid != std::process::id());
        let barred = if is_another && tasks.iter().any(is_under_way) {
            barred_tasks(&context.paths)
        } else {
            Vec::new()
        };
        Self {
            is_there: pid.is_some(),
            barred,
        }
    }
}

fn is_under_way(task: &Task) -> bool {
    !task.status.ends_waiting() && task.status != Status::Paused
}

/// The contact as far as the file and the driver tell it.
fn contact(reader: &mut Reader, task: &Task, driver: &Driver) -> Result<Connectivity, Fail> {
    if !is_under_way(task) {
        return Ok(Connectivity::Idle);
    }
    if !driver.is_there {
        return Ok(Connectivity::Unwatched {
            as_of: task.updated_at,
        });
    }
    if driver.barred.contains(&task.id) {
        return Ok(Connectivity::NeedsLogin);
    }
    // The driver notes when contact ends and when it is back.
    let tail = reader.history_tail(&task.id, LOOK_BACK)?;
    let last = tail.into_iter().rev().find_map(|entry| match entry.what {
        HistoryEvent::Contact { state, why } => Some((state, why, entry.at)),
        HistoryEvent::Progress { .. } | HistoryEvent::Log { .. } => {
            Some(("live".to_owned(), String::new(), entry.at))
        }
        _ => None,
    });
    Ok(match last {
        Some((state, why, at)) if state != "live" => Connectivity::Reconnecting {
            attempt: 1,
            next: at,
            why,
        },
        _ => Connectivity::Live {
            last_byte: task.updated_at,
        },
    })
}

/// The task object of `--json`.
///
/// A result that is not understood is told and stands there as null: it must not hide what else there is.
pub(super) fn document(
    context: &mut Context<'_>,
    reader: &mut Reader,
    task: &Task,
) -> Result<Value, Fail> {
    let driver = Driver::of(context, std::slice::from_ref(task));
    document_beside(context, reader, task, &driver)
}

fn document_beside(
    context: &mut Context<'_>,
    reader: &mut Reader,
    task: &Task,
    driver: &Driver,
) -> Result<Value, Fail> {
    let contact = contact(reader, task, driver)?;
    let now = context.clock.now().wall;
    let leaving = LeaveImpact::of_task(task).map(|price| price.at(now));
    let result = match task.result_bytes {
        Some(_) => match reader.result(&task.id) {
            Err(error @ StoreError::NotUnderstood { .. }) => {
                let words = format!(
                    "longhaul: could not show the result of {}: could not {error}",
                    task.id
                );
                context.terminal.say(&words);
                None
            }
            other => other?,
        },
        None => None,
    };
    Ok(documents::task(
        task,
        &documents::Seen {
            contact: &contact,
            leaving: leaving.as_ref(),
            result: result.as_deref(),
        },
    ))
}

/// `ls`.
pub(super) fn ls(context: &mut Context<'_>, ls: &Ls) -> Result<u8, Fail> {
    let mut reader = context.reader()?;
    let listed = ListFilter {
        all: ls.all,
        limit: None,
    };
    let mut tasks = reader.tasks(listed)?;
    if let Some(remark) = reader.remark() {
        context.terminal.say(&format!("longhaul: {remark}"));
    }
    let is_empty = tasks.is_empty();
    // Reading needs no configuration, but for a name that only it knows.
    let servers = match context.global.server.as_slice() {
        [] => None,
        _ => Some(Targets::of(context, &mut reader)?),
    };
    let servers = servers.as_ref().map_or_else(Vec::new, Targets::names);
    let since = ls.since.map(|since| since.at(context.clock.now().wall));
    let view = match &ls.view {
        Some(name) => context.config()?.view(name)?.clone(),
        None => View::default(),
    };
    if let Some(words) = Filter::invalid_reason(&ls.filter.join(" ")) {
        return Err(Fail::usage(words));
    }
    let filter = Filter::parse(&format!("{} {}", view.filter, ls.filter.join(" ")));
    let needs_me = ls.needs_me || view.needs_only;
    let driver = Driver::of(context, &tasks);
    tasks.retain(|task| {
        (ls.status.is_empty() || ls.status.iter().any(|word| *word == task.status.label()))
            && (!needs_me
                || task.status.needs_you(task.is_seen)
                || driver.barred.contains(&task.id))
            && (!ls.new || task.status.is_settled() && !task.is_seen)
            && (ls.tag.is_none() || task.tag == ls.tag)
            && (ls.tool.as_ref().is_none_or(|tool| *tool == task.tool))
            && (since.is_none_or(|since| task.created_at >= since))
            && (servers.is_empty() || servers.contains(&&task.server))
    });
    if !filter.is_empty() {
        // The grammar is that of the screen, which knows the contact.
        let mut fitting = Vec::new();
        for task in tasks {
            let contact = contact(&mut reader, &task, &driver)?;
            if filter.matches_task(&task, &contact) {
                fitting.push(task);
            }
        }
        tasks = fitting;
    }
    if context.global.json {
        let documents = tasks
            .iter()
            .map(|task| document_beside(context, &mut reader, task, &driver))
            .collect::<Result<Vec<_>, _>>()?;
        context
            .terminal
            .document(&documents::pretty(&Value::Array(documents)))?;
        return Ok(code::OK);
    }
    if tasks.is_empty() {
        let hint = is_empty.then(|| elsewhere(context, listed)).flatten();
        let flags = context.flags();
        context.terminal.remark(
            &hint.unwrap_or_else(|| {
                format!("no task to show; `longhaul{flags} call TOOL` starts one")
            }),
        );
        return Ok(code::OK);
    }
    let now = context.clock.now().wall;
    let head = ["STATE", "ID", "TASK", "SERVER", "PROGRESS", "AGE", "LEAVE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let ending = context.terminal.ending();
    // Whoever reads a pipe may look for any of it.
    let cell = context.terminal.out_columns().map_or(usize::MAX, |_| CELL);
    for task in &tasks {
        let contact = contact(&mut reader, task, &driver)?;
        rows.push(row(task, &contact, now, (cell, ending)));
    }
    for line in lines::table(&rows, context.terminal.out_columns(), 2, ending) {
        context.terminal.line(&line)?;
    }
    Ok(code::OK)
}

/// Where tasks are, for somebody who looks into an empty session.
fn elsewhere(context: &Context<'_>, listed: ListFilter) -> Option<String> {
    let (name, count) = context
        .other_sessions()
        .into_iter()
        .find_map(|(name, mut reader)| {
            let count = reader.tasks(listed).ok()?.len();
            (count > 0).then_some((name, count))
        })?;
    let flags = context.flags_to(&name, &context.usual_session);
    Some(format!(
        "no task in session {}; session {name} has {count}: longhaul{flags} ls",
        context.paths.session()
    ))
}

fn row(
    task: &Task,
    contact: &Connectivity,
    now: Wall,
    (cell, ending): (usize, &str),
) -> Vec<String> {
    let word = if task.is_queued() {
        "queued"
    } else {
        task.status.label()
    };
    let state = match (task.asked, contact) {
        (Some(asked), _) => asked.what.label().to_owned(),
        // Nobody looks, so it may have moved on.
        (None, Connectivity::Unwatched { .. }) => format!("{word}?"),
        (None, Connectivity::Reconnecting { .. }) => format!("{word}, cut"),
        (None, contact @ Connectivity::NeedsLogin) => format!("{word}, {}", contact.label()),
        _ => word.to_owned(),
    };
    let state = match task.forgotten_at {
        Some(_) => format!("{state}, forgotten"),
        None => state,
    };
    let progress = match (&task.status, &task.progress) {
        (Status::Completed, _) => task.result_words().unwrap_or_default().into_owned(),
        (Status::Failed | Status::Lost(_) | Status::Unknown(_), _) => {
            task.why().unwrap_or_default()
        }
        (Status::InputRequired, _) => task
            .open_question()
            .map(|question| Elicitation::message_of(&question.request))
            .unwrap_or_default(),
        (_, Some(progress)) => lines::amount(progress),
        _ => String::new(),
    };
    let age = now.since(task.settled_at.unwrap_or(task.created_at));
    let leaving = LeaveImpact::of_task(task);
    vec![
        state,
        task.id.to_string(),
        text::cut(&title(task), cell, ending).into_owned(),
        text::clean_line(task.server.as_str()).into_owned(),
        text::cut(&text::clean_line(&progress), cell, ending).into_owned(),
        text::span(age),
        leaving.as_ref().map_or("", LeaveImpact::label).to_owned(),
    ]
}

/// `show`.
pub(super) fn show(context: &mut Context<'_>, id: &str) -> Result<u8, Fail> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, id)?;
    if context.global.json {
        let document = document(context, &mut reader, &task)?;
        context.terminal.document(&documents::pretty(&document))?;
        return Ok(code::OK);
    }
    let driver = Driver::of(context, std::slice::from_ref(&task));
    let contact = contact(&mut reader, &task, &driver)?;
    let now = context.clock.now().wall;
    let flags = context.flags();
    let when = |at: Wall| lines::clock(at, now);
    let mut rows: Vec<(&str, String)> = vec![("id", task.id.to_string())];
    let mut put = |key, value: Option<String>| rows.extend(value.map(|value| (key, value)));
    put("name", task.name.clone());
    put("note", task.note.clone());
    put("tag", task.tag.clone());
    put("tool", Some(task.tool.clone()));
    put("server", Some(task.server.to_string()));
    put("arguments", Some(task.arguments.clone()));
    put("repeats", task.origin.as_ref().map(ToString::to_string));
    let reason = task
        .why()
        .map_or(String::new(), |reason| format!(": {reason}"));
    put("status", Some(format!("{}{reason}", task.status.label())));
    for question in task.open_questions() {
        let asked_for = question.asked_for(&task.id);
        let asked_for = asked_for.map_or(String::new(), |words| format!("{words}; "));
        put(
            "asks",
            Some(format!(
                "{} ({asked_for}since {}; `longhaul answer {}{flags}` shows it)",
                Elicitation::message_of(&question.request),
                when(question.asked_at),
                task.id
            )),
        );
    }
    put("remark", task.remark.clone());
    put(
        "asked",
        task.asked
            .map(|asked| format!("{} since {}", asked.what.label(), when(asked.at))),
    );
    put(
        "contact",
        match &contact {
            Connectivity::Idle => None,
            Connectivity::Unwatched { as_of } => Some(format!("unwatched, as of {}", when(*as_of))),
            Connectivity::Reconnecting { why, .. } => Some(format!("reconnecting: {why}")),
            other => Some(other.label().to_owned()),
        },
    );
    put(
        "progress",
        task.progress.as_ref().map(|progress| {
            // The answer is there, so it may be said.
            let is_whole = task.status == Status::Completed && progress.ratio() == Some(1.0);
            format!(
                "{}{}  {}",
                lines::amount(progress),
                if is_whole { " 100 %" } else { "" },
                progress.message.as_deref().unwrap_or_default()
            )
        }),
    );
    put(
        "if you leave",
        LeaveImpact::of_task(&task).map(|price| format!("{}: {}", price.label(), price.why())),
    );
    put("resumable by", Some(task.resumability.label().to_owned()));
    put("revision", revision(&mut reader, &task)?);
    put("attempts", Some(task.attempts_made().to_string()));
    put("server's id", task.server_task_id.clone());
    put("client id", task.client_id.clone());
    put("created", Some(when(task.created_at)));
    put("updated", Some(when(task.updated_at)));
    put("ended", task.settled_at.map(when));
    put("result", task.result_words().map(Cow::into_owned));
    put("idle limit", task.limits.idle.map(text::span));
    put("hard limit", task.limits.hard.map(text::span));
    for (key, value) in rows {
        context
            .terminal
            .line(format!("{key:<13} {}", text::clean_line(&value)).trim_end())?;
    }
    Ok(code::OK)
}

/// The revision that a task is spoken of in, and why it was chosen where that still holds for its server.
fn revision(reader: &mut Reader, task: &Task) -> Result<Option<String>, Fail> {
    let Some(version) = task.attempt().and_then(|attempt| attempt.version) else {
        return Ok(None);
    };
    let links = reader.links()?;
    let link = links.into_iter().find(|link| link.name == task.server);
    let why = link.and_then(|link| {
        let spoken = link.version.map_or("", ProtocolVersion::label);
        task.era_why(spoken, link.era_why.as_deref().unwrap_or_default())
    });
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    Ok(Some(format!("{}{why}", version.label())))
}

/// `result`.
pub(super) fn result(context: &mut Context<'_>, which: &ResultOf) -> Result<u8, Fail> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &which.id)?;
    let Some(result) = reader.result(&task.id)? else {
        let words = match &task.error {
            Some(error) => format!(
                "{} has no result, it failed: {}",
                task.id,
                text::clean_line(&error.message())
            ),
            None if task.status.ends_waiting() => {
                format!("{} has no result, it is {}", task.id, task.status.label())
            }
            None => format!(
                "{} has no result yet, it is {}; `longhaul watch {}{}` waits for it",
                task.id,
                task.status.label(),
                task.id,
                context.flags()
            ),
        };
        let code = super::fail::outcome(&task);
        return Err(Fail::new(
            if code == code::OK {
                code::TOOL_FAILED
            } else {
                code
            },
            words,
        ));
    };
    if let Some(number) = which.block {
        return block(context, which, &task, &result, number);
    }
    if let Some(path) = &which.out {
        let bytes = if context.global.json {
            result
        } else {
            lines::raw_result(&result)
        };
        return write_out(path, bytes.as_bytes());
    }
    if which.raw {
        let bytes = if context.global.json {
            result
        } else {
            lines::raw_result(&result)
        };
        context.terminal.raw(&bytes)?;
    } else if context.global.json {
        context
            .terminal
            .document(&documents::pretty(&documents::parsed(&result)))?;
    } else {
        context.terminal.line(&lines::result(&result))?;
        if let Some(number) = lines::first_media(&result) {
            let (id, flags) = (&task.id, context.flags());
            context.terminal.remark(&format!(
                "save it: longhaul result {id}{flags} --block {number} --out FILE"
            ));
        }
    }
    Ok(code::OK)
}

/// One part of the content.
fn block(
    context: &mut Context<'_>,
    which: &ResultOf,
    task: &Task,
    result: &str,
    number: u32,
) -> Result<u8, Fail> {
    let usage = |words: String| Fail::new(code::REFUSED, words);
    let place = usize::try_from(number).unwrap_or(usize::MAX) - 1;
    let Some(element) = element(result, place) else {
        return Err(usage(format!("{} has no block {number}", task.id)));
    };
    let block = Block::of(&element);
    let words = block.message();
    let contents = if context.global.json {
        Cow::Owned(documents::pretty(&element).into_bytes())
    } else {
        block
            .contents()
            .map_err(|why| usage(format!("block {number} of {} is {words}: {why}", task.id)))?
    };
    if let Some(path) = &which.out {
        return write_out(path, &contents);
    }
    match &block {
        Block::Media(_) if !context.global.json && context.terminal.out_columns().is_some() => {
            Err(usage(format!(
                "block {number} of {} is {words}, which a terminal does not show; --out FILE saves it",
                task.id
            )))
        }
        Block::Media(_) if !context.global.json => {
            context.terminal.data(&contents)?;
            Ok(code::OK)
        }
        _ => {
            context.terminal.raw(&String::from_utf8_lossy(&contents))?;
            Ok(code::OK)
        }
    }
}

fn write_out(path: &Path, bytes: &[u8]) -> Result<u8, Fail> {
    let write = || std::fs::File::create(path)?.write_all(bytes);
    write().map_err(|error| {
        let words = format!("could not write {}: {error}", path.display());
        // The session itself is well.
        Fail::usage(words)
    })?;
    Ok(code::OK)
}

/// `logs`.
pub(super) fn logs(context: &mut Context<'_>, logs: &Logs) -> Result<u8, Fail> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &logs.id)?;
    let now = context.clock.now().wall;
    let since = logs.since.map(|since| since.at(now));
    let is_wanted = |entry: &Entry| since.is_none_or(|since| entry.at >= since);
    let style = if context.global.json {
        Style::Json
    } else {
        Style::Lines
    };
    let mut printer = Printer::new(task.id.clone(), context.reader()?, style, 0);
    let mut last_seq = 0;
    match logs.lines {
        Some(count) => {
            for entry in reader.history_tail(&task.id, count)? {
                if is_wanted(&entry) {
                    printer.print(context, &task, &entry)?;
                }
                last_seq = entry.seq;
            }
            // With nothing asked for, everything that is there counts as printed.
            last_seq = last_seq.max(if count == 0 { task.seq } else { 0 });
        }
        None => loop {
            let entries = reader.history(&task.id, last_seq, 512)?;
            if entries.is_empty() {
                break;
            }
            for entry in &entries {
                if is_wanted(entry) {
                    printer.print(context, &task, entry)?;
                }
                last_seq = entry.seq;
            }
        },
    }
    if logs.follow && !task.status.ends_waiting() {
        return follow::watch_after(context, &task, reader, last_seq);
    }
    Ok(code::OK)
}

/// `paths`.
pub(super) fn paths(context: &mut Context<'_>) -> Result<u8, Fail> {
    let paths = &context.paths;
    let rows = [
        ("config", config::path().unwrap_or_default()),
        ("state", paths.dir().to_path_buf()),
        ("session", paths.db()),
        ("lock", paths.lock()),
        ("socket", paths.socket()),
        ("log", paths.log()),
        ("trace", paths.trace_dir()),
        ("logins", paths.logins()),
        ("demo", paths.demo_dir()),
    ];
    if context.global.json {
        let document: serde_json::Map<String, Value> = rows
            .iter()
            .map(|(key, path)| ((*key).to_owned(), json!(path.to_string_lossy())))
            .collect();
        context
            .terminal
            .document(&documents::pretty(&Value::Object(document)))?;
        return Ok(code::OK);
    }
    for (key, path) in rows {
        context
            .terminal
            .line(&format!("{key:<8} {}", path.display()))?;
    }
    Ok(code::OK)
}
