//! `ls`, `show`, `result`, `logs` and `paths`: read the session file without a lock and without the network.

use std::{borrow::Cow, io::Write as _, path::Path};

use serde_json::{Value, json};

use super::{
    Context,
    args::{LogsArgs, LsArgs, ResultArgs},
    call::task_title,
    config,
    error::{CliError, code},
    follow::{self, HistoryPrinter, OutputStyle},
    format, json as documents,
    target::Targets,
};
use crate::{
    app::{Filter, View},
    domain::{
        Connectivity, ContentBlock, Elicitation, HistoryEntry, HistoryEvent, LeaveImpact,
        ProtocolVersion, Status, Task, TaskId, Wall, content_element, text,
    },
    engine::barred_tasks,
    store::{DriverLock, ListFilter, Reader, StoreError},
};

/// How many of the newest entries to search for the state of the connection.
const CONTACT_LOOKBACK: usize = 64;
/// The maximum width of a cell with free text.
const MAX_CELL_COLS: usize = 48;

/// Whether a process drives the session, and what only that process knows.
struct DriverInfo {
    is_running: bool,
    /// The tasks that wait for credentials.
    needs_login: Vec<TaskId>,
}

impl DriverInfo {
    /// Asks the driver only if one of the tasks is active.
    fn of(context: &Context<'_>, tasks: &[Task]) -> Self {
        let pid = DriverLock::holder(&context.paths);
        let is_another = pid.is_some_and(|pid| pid != std::process::id());
        let needs_login = if is_another && tasks.iter().any(is_active) {
            barred_tasks(&context.paths)
        } else {
            Vec::new()
        };
        Self {
            is_running: pid.is_some(),
            needs_login,
        }
    }
}

fn is_active(task: &Task) -> bool {
    !task.status.ends_waiting() && task.status != Status::Paused
}

/// The state of the connection, as far as the session file and the driver show it.
fn contact(
    reader: &mut Reader,
    task: &Task,
    driver: &DriverInfo,
) -> Result<Connectivity, CliError> {
    if !is_active(task) {
        return Ok(Connectivity::Idle);
    }
    if !driver.is_running {
        return Ok(Connectivity::Unwatched {
            as_of: task.updated_at,
        });
    }
    if driver.needs_login.contains(&task.id) {
        return Ok(Connectivity::NeedsLogin);
    }
    // The driver saves an entry when the connection is lost and when it is back.
    let tail = reader.history_tail(&task.id, CONTACT_LOOKBACK)?;
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

/// The task object of `--json`. An unreadable result is reported on stderr and becomes null, so that the rest is shown.
pub(super) fn document(
    context: &mut Context<'_>,
    reader: &mut Reader,
    task: &Task,
) -> Result<Value, CliError> {
    let driver = DriverInfo::of(context, std::slice::from_ref(task));
    document_with(context, reader, task, &driver)
}

fn document_with(
    context: &mut Context<'_>,
    reader: &mut Reader,
    task: &Task,
    driver: &DriverInfo,
) -> Result<Value, CliError> {
    let contact = contact(reader, task, driver)?;
    let now = context.clock.now().wall;
    let leaving = LeaveImpact::of_task(task).map(|impact| impact.at(now));
    let result = match task.result_bytes {
        Some(_) => match reader.result(&task.id) {
            Err(error @ StoreError::NotUnderstood { .. }) => {
                let message = format!(
                    "longhaul: could not show the result of {}: could not {error}",
                    task.id
                );
                context.terminal.report(&message);
                None
            }
            other => other?,
        },
        None => None,
    };
    Ok(documents::task(
        task,
        &documents::TaskExtras {
            contact: &contact,
            leaving: leaving.as_ref(),
            result: result.as_deref(),
        },
    ))
}

/// `ls`.
pub(super) fn ls(context: &mut Context<'_>, ls: &LsArgs) -> Result<u8, CliError> {
    let mut reader = context.reader()?;
    let listed = ListFilter {
        all: ls.all,
        limit: None,
    };
    let mut tasks = reader.tasks(listed)?;
    if let Some(remark) = reader.remark() {
        context.terminal.report(&format!("longhaul: {remark}"));
    }
    let is_empty = tasks.is_empty();
    // Reading needs no config, except for a server name that only it has.
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
    if let Some(error) = Filter::invalid_reason(&ls.filter.join(" ")) {
        return Err(CliError::usage(error));
    }
    let filter = Filter::parse(&format!("{} {}", view.filter, ls.filter.join(" ")));
    let needs_me = ls.needs_me || view.needs_only;
    let driver = DriverInfo::of(context, &tasks);
    tasks.retain(|task| {
        (ls.status.is_empty() || ls.status.iter().any(|label| *label == task.status.label()))
            && (!needs_me
                || task.status.needs_you(task.is_seen)
                || driver.needs_login.contains(&task.id))
            && (!ls.new || task.status.is_settled() && !task.is_seen)
            && (ls.tag.is_none() || task.tag == ls.tag)
            && (ls.tool.as_ref().is_none_or(|tool| *tool == task.tool))
            && (since.is_none_or(|since| task.created_at >= since))
            && (servers.is_empty() || servers.contains(&&task.server))
    });
    if !filter.is_empty() {
        // The filter language is the screen's and can refer to the connection.
        let mut matching = Vec::new();
        for task in tasks {
            let contact = contact(&mut reader, &task, &driver)?;
            if filter.matches_task(&task, &contact) {
                matching.push(task);
            }
        }
        tasks = matching;
    }
    if context.global.json {
        let documents = tasks
            .iter()
            .map(|task| document_with(context, &mut reader, task, &driver))
            .collect::<Result<Vec<_>, _>>()?;
        context
            .terminal
            .print_json(&documents::pretty(&Value::Array(documents)))?;
        return Ok(code::OK);
    }
    if tasks.is_empty() {
        let hint = is_empty
            .then(|| other_session_hint(context, listed))
            .flatten();
        let flags = context.flags();
        context.terminal.info(&hint.unwrap_or_else(|| {
            format!("no tasks to show; `longhaul{flags} call TOOL` starts one")
        }));
        return Ok(code::OK);
    }
    let now = context.clock.now().wall;
    let head = ["STATE", "ID", "TASK", "SERVER", "PROGRESS", "AGE", "LEAVE"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let ending = context.terminal.ending();
    // The reader of a pipe gets everything.
    let cell = context
        .terminal
        .out_columns()
        .map_or(usize::MAX, |_| MAX_CELL_COLS);
    for task in &tasks {
        let contact = contact(&mut reader, task, &driver)?;
        rows.push(row(task, &contact, now, (cell, ending)));
    }
    for line in format::table(&rows, context.terminal.out_columns(), 2, ending) {
        context.terminal.print(&line)?;
    }
    Ok(code::OK)
}

/// Names another session that has tasks, for an empty one.
fn other_session_hint(context: &Context<'_>, listed: ListFilter) -> Option<String> {
    let (name, count) = context
        .other_sessions()
        .into_iter()
        .find_map(|(name, mut reader)| {
            let count = reader.tasks(listed).ok()?.len();
            (count > 0).then_some((name, count))
        })?;
    let flags = context.flags_to(&name, &context.default_session);
    Some(format!(
        "no tasks in session {}; session {name} has {count}: longhaul{flags} ls",
        context.paths.session()
    ))
}

fn row(
    task: &Task,
    contact: &Connectivity,
    now: Wall,
    (cell, ending): (usize, &str),
) -> Vec<String> {
    let label = if task.is_queued() {
        "queued"
    } else {
        task.status.label()
    };
    let state = match (task.control, contact) {
        (Some(asked), _) => asked.what.label().to_owned(),
        // No process watches it, so it may have changed.
        (None, Connectivity::Unwatched { .. }) => format!("{label}?"),
        (None, Connectivity::Reconnecting { .. }) => format!("{label}, cut"),
        (None, contact @ Connectivity::NeedsLogin) => format!("{label}, {}", contact.label()),
        _ => label.to_owned(),
    };
    let state = match task.forgotten_at {
        Some(_) => format!("{state}, forgotten"),
        None => state,
    };
    let progress = match (&task.status, &task.progress) {
        (Status::Completed, _) => task.result_summary().unwrap_or_default().into_owned(),
        (Status::Failed | Status::Lost(_) | Status::Unknown(_), _) => {
            task.why().unwrap_or_default()
        }
        (Status::InputRequired, _) => task
            .open_question()
            .map(|question| Elicitation::message_of(&question.request))
            .unwrap_or_default(),
        (_, Some(progress)) => format::amount(progress),
        _ => String::new(),
    };
    let age = now.since(task.settled_at.unwrap_or(task.created_at));
    let leaving = LeaveImpact::of_task(task);
    vec![
        state,
        task.id.to_string(),
        text::cut(&task_title(task), cell, ending).into_owned(),
        text::clean_line(task.server.as_str()).into_owned(),
        text::cut(&text::clean_line(&progress), cell, ending).into_owned(),
        text::span(age),
        leaving.as_ref().map_or("", LeaveImpact::label).to_owned(),
    ]
}

/// `show`.
pub(super) fn show(context: &mut Context<'_>, id: &str) -> Result<u8, CliError> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, id)?;
    if context.global.json {
        let document = document(context, &mut reader, &task)?;
        context.terminal.print_json(&documents::pretty(&document))?;
        return Ok(code::OK);
    }
    let driver = DriverInfo::of(context, std::slice::from_ref(&task));
    let contact = contact(&mut reader, &task, &driver)?;
    let now = context.clock.now().wall;
    let flags = context.flags();
    let when = |at: Wall| format::clock(at, now);
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
        let asked_for = asked_for.map_or(String::new(), |asked_for| format!("{asked_for}; "));
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
    put("remark", task.notice.clone());
    put(
        "asked",
        task.control
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
            // The result is there, so 100 % is certain.
            let is_whole = task.status == Status::Completed && progress.ratio() == Some(1.0);
            format!(
                "{}{}  {}",
                format::amount(progress),
                if is_whole { " 100 %" } else { "" },
                progress.message.as_deref().unwrap_or_default()
            )
        }),
    );
    put(
        "if you leave",
        LeaveImpact::of_task(&task).map(|impact| format!("{}: {}", impact.label(), impact.why())),
    );
    put("resumable by", Some(task.resumability.label().to_owned()));
    put("revision", revision(&mut reader, &task)?);
    put("attempts", Some(task.attempts_made().to_string()));
    put("server's id", task.server_task_id.clone());
    put("client id", task.client_id.clone());
    put("created", Some(when(task.created_at)));
    put("updated", Some(when(task.updated_at)));
    put("ended", task.settled_at.map(when));
    put("result", task.result_summary().map(Cow::into_owned));
    put("idle limit", task.limits.idle.map(text::span));
    put("hard limit", task.limits.hard.map(text::span));
    for (key, value) in rows {
        context
            .terminal
            .print(format!("{key:<13} {}", text::clean_line(&value)).trim_end())?;
    }
    Ok(code::OK)
}

/// The task's MCP revision, and why it was chosen if the server still uses it.
fn revision(reader: &mut Reader, task: &Task) -> Result<Option<String>, CliError> {
    let Some(version) = task.attempt().and_then(|attempt| attempt.version) else {
        return Ok(None);
    };
    let links = reader.links()?;
    let link = links.into_iter().find(|link| link.name == task.server);
    let why = link.and_then(|link| {
        let current = link.version.map_or("", ProtocolVersion::label);
        task.era_why(current, link.era_why.as_deref().unwrap_or_default())
    });
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    Ok(Some(format!("{}{why}", version.label())))
}

/// `result`.
pub(super) fn result(context: &mut Context<'_>, which: &ResultArgs) -> Result<u8, CliError> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &which.id)?;
    let Some(result) = reader.result(&task.id)? else {
        let message = match &task.error {
            Some(error) => format!(
                "{} has no result because it failed: {}",
                task.id,
                text::clean_line(&error.message())
            ),
            None if task.status.ends_waiting() => {
                format!("{} has no result; it is {}", task.id, task.status.label())
            }
            None => format!(
                "{} has no result yet; it is {}; `longhaul watch {}{}` waits for it",
                task.id,
                task.status.label(),
                task.id,
                context.flags()
            ),
        };
        let code = super::error::exit_code_of(&task);
        return Err(CliError::new(
            if code == code::OK {
                code::TOOL_FAILED
            } else {
                code
            },
            message,
        ));
    };
    if let Some(number) = which.block {
        return block(context, which, &task, &result, number);
    }
    if let Some(path) = &which.out {
        let bytes = if context.global.json {
            result
        } else {
            format::raw_result(&result)
        };
        return write_out(path, bytes.as_bytes());
    }
    if which.raw {
        let bytes = if context.global.json {
            result
        } else {
            format::raw_result(&result)
        };
        context.terminal.raw(&bytes)?;
    } else if context.global.json {
        context
            .terminal
            .print_json(&documents::pretty(&documents::parsed(&result)))?;
    } else {
        context.terminal.print(&format::result(&result))?;
        if let Some(number) = format::first_media_block(&result) {
            let (id, flags) = (&task.id, context.flags());
            context.terminal.info(&format!(
                "save it: longhaul result {id}{flags} --block {number} --out FILE"
            ));
        }
    }
    Ok(code::OK)
}

/// Prints or saves one content block; `number` counts from 1.
fn block(
    context: &mut Context<'_>,
    which: &ResultArgs,
    task: &Task,
    result: &str,
    number: u32,
) -> Result<u8, CliError> {
    let index = usize::try_from(number).unwrap_or(usize::MAX) - 1;
    let Some(element) = content_element(result, index) else {
        return Err(CliError::usage(format!(
            "{} has no block {number}",
            task.id
        )));
    };
    let block = ContentBlock::parse(&element);
    let summary = block.message();
    let contents = if context.global.json {
        Cow::Owned(documents::pretty(&element).into_bytes())
    } else {
        block.contents().map_err(|why| {
            CliError::usage(format!("block {number} of {} is {summary}: {why}", task.id))
        })?
    };
    if let Some(path) = &which.out {
        return write_out(path, &contents);
    }
    match &block {
        ContentBlock::Media(_)
            if !context.global.json && context.terminal.out_columns().is_some() =>
        {
            Err(CliError::usage(format!(
                "block {number} of {} is {summary}, which a terminal cannot show; save it with --out FILE",
                task.id
            )))
        }
        ContentBlock::Media(_) if !context.global.json => {
            context.terminal.data(&contents)?;
            Ok(code::OK)
        }
        _ => {
            context.terminal.raw(&String::from_utf8_lossy(&contents))?;
            Ok(code::OK)
        }
    }
}

fn write_out(path: &Path, bytes: &[u8]) -> Result<u8, CliError> {
    let write = || std::fs::File::create(path)?.write_all(bytes);
    write().map_err(|error| {
        // Not `CANNOT_SAVE`, which is about the session.
        CliError::usage(format!("could not write {}: {error}", path.display()))
    })?;
    Ok(code::OK)
}

/// `logs`.
pub(super) fn logs(context: &mut Context<'_>, logs: &LogsArgs) -> Result<u8, CliError> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &logs.id)?;
    let now = context.clock.now().wall;
    let since = logs.since.map(|since| since.at(now));
    let is_recent = |entry: &HistoryEntry| since.is_none_or(|since| entry.at >= since);
    let style = if context.global.json {
        OutputStyle::Json
    } else {
        OutputStyle::Lines
    };
    let mut printer = HistoryPrinter::new(task.id.clone(), context.reader()?, style, 0);
    let mut last_seq = 0;
    match logs.lines {
        Some(count) => {
            for entry in reader.history_tail(&task.id, count)? {
                if is_recent(&entry) {
                    printer.print(context, &task, &entry)?;
                }
                last_seq = entry.seq;
            }
            // With `-n 0`, all saved entries count as printed.
            last_seq = last_seq.max(if count == 0 { task.seq } else { 0 });
        }
        None => loop {
            let entries = reader.history(&task.id, last_seq, 512)?;
            if entries.is_empty() {
                break;
            }
            for entry in &entries {
                if is_recent(entry) {
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
pub(super) fn paths(context: &mut Context<'_>) -> Result<u8, CliError> {
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
            .print_json(&documents::pretty(&Value::Object(document)))?;
        return Ok(code::OK);
    }
    for (key, path) in rows {
        context
            .terminal
            .print(&format!("{key:<8} {}", path.display()))?;
    }
    Ok(code::OK)
}
