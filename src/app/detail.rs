//! The text of the detail pane's tabs.

use crate::domain::{
    Attempt, Connectivity, Era, EventId, HistoryEntry, HistoryEvent, Phase, ProtocolVersion,
    QuestionSource, Resumable, ServerTask, ServerView, Status, Task, TaskCapability, TaskKind,
    TaskState, text,
};

use super::{Action, Document, ResultText, State, Tab, dialogs::tasks::name_of, task_row::TaskRow};

/// The most lines of a result to print; the rest is in the session file.
const MAX_PRINTED_LINES: usize = 20_000;
/// The most bytes of arguments to show.
const MAX_ARGUMENTS_BYTES: usize = 256 * 1024;

/// The lines of the current tab; empty for tabs that are drawn in another way or show a [`tab_document`].
pub fn tab_lines(state: &State, task_row: &TaskRow) -> Vec<String> {
    match state.detail.tab {
        Tab::Now | Tab::Log => Vec::new(),
        Tab::Result if tab_document(state, task_row).is_some() => Vec::new(),
        Tab::Result => result_lines(state, task_row),
        Tab::Arguments => argument_lines(state, task_row),
        Tab::Trace => trace_lines(state, task_row),
        Tab::Resume => resume_lines(state, task_row),
    }
}

/// The document in the current tab, if it shows one.
pub fn tab_document<'s>(state: &'s State, task_row: &TaskRow) -> Option<&'s Document> {
    if state.detail.tab == Tab::Result {
        result_document(state, task_row)
    } else {
        None
    }
}

/// A task's result, once it is loaded.
pub(super) fn result_document<'s>(state: &'s State, task_row: &TaskRow) -> Option<&'s Document> {
    let result = state.detail.results.get(&task_row.view.task.id)?;
    (!result.is_asked && !result.document.is_empty()).then_some(&result.document)
}

/// The lines for a task without a result.
fn result_lines(state: &State, task_row: &TaskRow) -> Vec<String> {
    let task = &task_row.view.task;
    let mut lines = Vec::new();
    if let Some(error) = &task.end.error {
        let code = error
            .code
            .map_or(String::new(), |code| format!(" ({code})"));
        let kind = match error.kind {
            crate::domain::TaskErrorKind::Tool => "The tool failed",
            crate::domain::TaskErrorKind::Protocol => "The server responded with an error",
            crate::domain::TaskErrorKind::Refused => "The call was rejected",
            crate::domain::TaskErrorKind::Unreachable => "The server was unreachable",
            crate::domain::TaskErrorKind::TimedOut => "The call timed out",
        };
        lines.push(format!("{kind}{code}:"));
        lines.push(String::new());
        let data = error.data.as_deref().unwrap_or_default();
        let said = [error.message.as_str(), data].map(text::clean_block);
        lines.extend(said.iter().flat_map(|said| said.lines().map(str::to_owned)));
    } else if task.end.result_bytes.is_some() {
        let read = state.detail.results.get(&task.id);
        lines.push(if read.is_some_and(ResultText::has_failed) {
            "The result could not be read. To try again, leave this tab and come back.".to_owned()
        } else {
            "Reading the result ...".to_owned()
        });
    } else if let Some(reason) = task.status.reason() {
        lines.push(format!("No result: {reason}."));
        let key = state.key(Action::Open);
        lines.push(format!("Press {key} for recovery options."));
    } else if task.status.is_settled() {
        lines.push("No result.".to_owned());
    } else {
        lines.push("No result yet.".to_owned());
    }
    lines
}

fn argument_lines(state: &State, task_row: &TaskRow) -> Vec<String> {
    let task = &task_row.view.task;
    let mut lines = vec![format!(
        "{} on {}",
        text::clean_line(&task.tool),
        text::clean_line(task.server.as_str())
    )];
    if let Some(origin) = &task.options.origin {
        lines.push(format!("run again from {origin}"));
    }
    if let Some(client) = &task.client_id {
        lines.push(format!("client id {}", text::clean_line(client)));
    }
    lines.push(String::new());
    if task.arguments.len() > MAX_ARGUMENTS_BYTES {
        let size = text::bytes(task.arguments.len());
        lines.push(format!(
            "The arguments ({size}) are too large for this pane."
        ));
        return lines;
    }
    let origin = task.options.origin.as_ref();
    let origin = origin.and_then(|origin| state.task(origin));
    let changed = origin.map(|origin| origin.arguments.clone());
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&task.arguments) {
        Ok(arguments) if arguments.is_empty() => lines.push("No arguments.".to_owned()),
        Ok(arguments) => {
            for (key, value) in &arguments {
                let laid_out = serde_json::to_string_pretty(value).unwrap_or_default();
                let clean = text::clean_block(&laid_out).into_owned();
                let mut of_value = clean.lines();
                let first = of_value.next().unwrap_or_default();
                let key = text::clean_line(key);
                let was = changed.as_ref().and_then(|before| {
                    let was = before.iter().find(|(name, _)| *name == key)?;
                    let now = task_row.arguments.iter().find(|(name, _)| *name == key)?;
                    (was.1 != now.1).then(|| format!("   (was {})", was.1))
                });
                lines.push(format!("{key} = {first}{}", was.unwrap_or_default()));
                lines.extend(of_value.map(|line| format!("    {line}")));
            }
        }
        Err(_) => lines.extend(
            text::clean_block(&task.arguments)
                .lines()
                .map(str::to_owned),
        ),
    }
    lines
}

fn trace_lines(state: &State, task_row: &TaskRow) -> Vec<String> {
    let task = &task_row.view.task;
    let is_cut = matches!(
        task_row.view.contact,
        Connectivity::Reconnecting { .. }
            | Connectivity::Offline { .. }
            | Connectivity::Unwatched { .. }
    );
    let attempts = task.attempts.iter();
    let mut lines: Vec<String> = attempts
        .flat_map(|attempt| attempt_lines(state, attempt, is_cut))
        .collect();
    lines.push(String::new());
    lines.push("connection and status history:".to_owned());
    let before = lines.len();
    if let Some(log) = state.detail.logs.get(&task.id) {
        let labeled = log.entries.iter().filter(|entry| {
            !matches!(
                entry.what,
                HistoryEvent::Progress(_) | HistoryEvent::Log { .. }
            )
        });
        lines.extend(
            labeled
                .map(|entry| format!("  {} {}", state.clock_seconds(entry.at), entry_text(entry))),
        );
    }
    if lines.len() == before {
        lines.push("  none yet".to_owned());
    }
    lines.push(String::new());
    let server = text::clean_line(task.server.as_str());
    let wire = state.detail.traffic.as_ref();
    let wire = wire.filter(|wire| wire.task == task.id);
    match wire.and_then(|wire| wire.lines.as_ref()) {
        None => lines.push("traffic: loading ...".to_owned()),
        Some(recorded) if recorded.is_empty() => {
            lines.push(format!("traffic: nothing recorded for {server}."));
            let command = state.key(Action::Trace);
            lines.push(format!(
                "{command} starts and stops recording; --trace records from the start."
            ));
        }
        Some(recorded) => {
            lines.push(format!(
                "traffic with {server}, newest last (> sent, < received, followed by the request number):"
            ));
            lines.extend(recorded.iter().map(|line| format!("  {line}")));
        }
    }
    lines
}

fn attempt_lines(state: &State, attempt: &Attempt, is_cut: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let phase = match attempt.phase {
        Phase::Queued => "waiting to be sent",
        Phase::Sent => "then sent",
        Phase::Open if is_cut => "then sent; stream lost",
        Phase::Open => "then sent; stream open",
        Phase::Ended => "then sent; ended",
    };
    let ended = attempt.ended_at.map_or(String::new(), |at| {
        format!(" at {}", state.clock_seconds(at))
    });
    lines.push(format!(
        "attempt {}: saved at {}, {phase}{ended}",
        attempt.number,
        state.clock_seconds(attempt.started_at)
    ));
    let clean = |text: &str| text::clean_line(text).into_owned();
    let is_modern = attempt.version.is_some_and(|it| it.era() == Era::Modern);
    let session = match attempt.session_number {
        _ if is_modern => String::new(),
        number => format!(", MCP session {number}"),
    };
    lines.push(format!(
        "  request id {}, progress token {}{session}",
        clean(&attempt.request_id),
        clean(&attempt.token),
    ));
    let cursor = |id: &Option<EventId>| {
        id.as_deref()
            .map_or("none".to_owned(), |id| clean(&text::truncate(id, 40)))
    };
    lines.push(match &attempt.cursors.newest {
        None => "  no event ids received, so the stream can't be resumed".to_owned(),
        newest => format!(
            "  event ids: first {}, latest {}, latest with data {}",
            cursor(&attempt.cursors.first),
            cursor(newest),
            cursor(&attempt.cursors.data)
        ),
    });
    if let Some(retry) = attempt.retry_ms {
        lines.push(format!("  the server asks for {retry} ms between retries"));
    }
    lines
}

/// A line with a label column.
fn labeled(label: &str, text: &str) -> String {
    format!("{label:<18}{}", text::clean_line(text))
}

/// What happens to this task when the MCP session ends, or what it waits for.
fn cases(task: &Task) -> Vec<String> {
    let mut questions = task.questions.iter();
    let asks_in_rounds = questions.any(|it| it.is_open() && it.source == QuestionSource::Round);
    match task.status {
        Status::Paused => {
            let text = "the checkpoint stays on the server";
            return vec![labeled("until resumed", text)];
        }
        Status::InputRequired if asks_in_rounds => {
            let text = "nothing is running; the question stays open";
            return vec![labeled("until answered", text)];
        }
        Status::Running if task.is_queued() => {
            let text = "longhaul keeps the call and sends it as soon as it can";
            return vec![labeled("until sent", text)];
        }
        Status::Running | Status::InputRequired => {}
        // Nothing that is known to run.
        _ => return Vec::new(),
    }
    let without_session = match task.resumability.strongest() {
        _ if is_modern(task) => "this revision has no MCP sessions",
        Some(Resumable::Task) => match task.server_task.as_ref().and_then(|task| task.is_bound) {
            Some(false) => "longhaul polls the task in a new MCP session",
            _ => "longhaul polls the task in a new MCP session, if the server still has it",
        },
        Some(Resumable::Checkpoint) => "longhaul resumes from the checkpoint in a new MCP session",
        Some(Resumable::Stream) => "the call is lost: it can't be resumed in another MCP session",
        None => "the call is lost",
    };
    vec![labeled("MCP session ends", without_session)]
}

fn is_modern(task: &Task) -> bool {
    let version = task.attempt().and_then(|attempt| attempt.version);
    version.map(ProtocolVersion::era) == Some(Era::Modern)
}

/// The server's task object: its kind, state and retention.
fn server_task_lines(state: &State, task: &ServerTask) -> Vec<String> {
    let kind = match task.kind {
        TaskKind::Core => "MCP 2025-11-25",
        TaskKind::Extension => "tasks extension",
    };
    let state_label = match task.state {
        TaskState::Working => "working",
        TaskState::InputRequired => "waiting for an answer",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Cancelled => "cancelled",
    };
    let kept = match task.expires_at() {
        Some(at) => format!("kept until {}", state.clock_day(at)),
        None => "kept for an unknown time".to_owned(),
    };
    let whole = format!("{kind}, {state_label}, {kept}");
    let message = task.message.as_deref();
    let message_line = message.map(|message| labeled("message", message));
    std::iter::once(labeled("server task", &whole))
        .chain(message_line)
        .collect()
}

fn resume_lines(state: &State, task_row: &TaskRow) -> Vec<String> {
    let task = &task_row.view.task;
    let mut lines = Vec::new();
    if task.status.is_settled() {
        let key = state.key(Action::RunAgain);
        lines.push(format!(
            "It has ended; nothing to resume. Press {key} to run it again."
        ));
    } else {
        lines.extend(ways_back(task));
        if let Some(impact) = task_row.if_cut() {
            let impact = format!("{}: {}", impact.label(), impact.reason.message());
            lines.push(labeled("if cut", &impact));
        }
        lines.extend(cases(task));
    }
    if let Some(server_task) = &task.server_task {
        lines.extend(server_task_lines(state, server_task));
    }
    if let Some(server) = state.server(&task.server) {
        lines.extend(revision_lines(task, server));
    }
    if let Some(client) = &task.client_id {
        lines.push(labeled("client id", client));
    }
    if let Some(id) = &task.server_task_id {
        lines.push(labeled(task.server_id_label(), id));
    }
    if task.is_open()
        && task.status != Status::Paused
        && let Some(line) = curl(state, task_row)
    {
        lines.push(String::new());
        lines.push("to resume by hand (docs/recovery.md says how to set MCP_SESSION):".to_owned());
        lines.extend(line.lines().map(|line| format!("  {line}")));
    }
    lines
}

/// How longhaul gets back to the call.
fn ways_back(task: &Task) -> Vec<String> {
    let way = match task.resumability.strongest() {
        Some(Resumable::Task) => "the server's task: longhaul polls it by its id",
        Some(Resumable::Checkpoint) => {
            "the checkpoint: the tool is called again with this task's client id"
        }
        Some(Resumable::Stream) => {
            "the stream: a GET with the Last-Event-ID of the last event that had data"
        }
        None if is_modern(task) => "none: in this revision, only server tasks can be resumed",
        None if task.resumability.stream.is_none() => "not known yet: no event received",
        None => "none: the events have no ids",
    };
    let has_both = task.resumability.strongest() == Some(Resumable::Checkpoint)
        && task.resumability.stream == Some(true)
        && task.status != Status::Paused;
    let stream = "the stream, as long as the server keeps the events; otherwise";
    let mut lines = Vec::from_iter(has_both.then(|| labeled("recovery", stream)));
    lines.push(labeled(if has_both { "" } else { "recovery" }, way));
    lines
}

/// The revision of the server, and what it offers.
fn revision_lines(task: &Task, server: &ServerView) -> Vec<String> {
    let mut lines = Vec::new();
    let version = task.attempt().and_then(|attempt| attempt.version);
    let era = match version {
        Some(version) => version.label().to_owned(),
        None if server.era.is_empty() => "not negotiated yet".to_owned(),
        None => text::clean_line(&server.era).into_owned(),
    };
    lines.push(labeled("revision", &era));
    let why = match version {
        Some(_) => task.era_why(&server.era, &server.era_why),
        None => Some(server.era_why.clone()),
    };
    let why = why.filter(|why| !why.is_empty());
    lines.extend(why.map(|why| labeled("", &why)));
    if server.capabilities.version.is_some() || server.capabilities.tasks.is_some() {
        let offer = format!("server tasks: {}", task_offer(server));
        lines.push(labeled("server offers", &offer));
    }
    let ids = match server.capabilities.gives_ids {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not seen yet",
    };
    lines.push(labeled("event ids", ids));
    lines
}

/// Describes a server's support for tasks.
pub fn task_offer(server: &ServerView) -> &'static str {
    let has_extension = server.capabilities.has_extension();
    let extension = has_extension.then_some(TaskCapability::EXTENSION);
    let Some(offer) = extension.or(server.capabilities.tasks) else {
        return "not supported";
    };
    match offer.kind {
        TaskKind::Core => "2025-11-25",
        TaskKind::Extension => "tasks extension",
    }
}

/// A curl command that resumes the task's stream.
pub(super) fn curl(state: &State, task_row: &TaskRow) -> Option<String> {
    let task = &task_row.view.task;
    let server = state.server(&task.server)?;
    let cursor = task.attempt()?.cursors.data.as_deref()?;
    // In single quotes, a shell takes everything except a single quote literally.
    let quoted = |text: &str| text::clean_line(text).replace('\'', "'\\''");
    Some(format!(
        "curl -N '{}' \\\n  -H 'Accept: text/event-stream' -H \"MCP-Session-Id: $MCP_SESSION\" \\\n  -H 'MCP-Protocol-Version: {}' -H 'Last-Event-ID: {}'",
        quoted(&server.url),
        quoted(&server.era),
        quoted(cursor)
    ))
}

/// A history entry as one line of sanitized text, for searching and printing.
pub(super) fn entry_text(entry: &HistoryEntry) -> String {
    let message = entry.message();
    let kind = match &entry.what {
        HistoryEvent::Progress(_) | HistoryEvent::Log { .. } => message.kind,
        HistoryEvent::InputRequired { .. } => "asks:",
        // The text of other events needs no prefix.
        _ => "",
    };
    let parts = [kind, &message.lead, &message.text];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

/// The text to print: a line about the task, then the current tab.
pub(super) fn print_text(state: &State, task_row: &TaskRow) -> String {
    let task = &task_row.view.task;
    let mut head = format!("{}: {}", name_of(state, &task.id), task.state_label());
    if let Some(reason) = task.status.reason() {
        head = format!("{head} ({reason})");
    }
    let mut lines = vec![head, String::new()];
    let is_of_log = matches!(state.detail.tab, Tab::Now | Tab::Log);
    let document = if is_of_log {
        result_document(state, task_row)
    } else {
        tab_document(state, task_row)
    };
    match document {
        _ if is_of_log && task.status != Status::Completed => {
            let log = state.detail.logs.get(&task.id);
            let entries = log.iter().flat_map(|log| &log.entries);
            let line =
                |it: &HistoryEntry| format!("{} {}", state.clock_seconds(it.at), entry_text(it));
            lines.extend(entries.map(line));
        }
        Some(document) => lines.push(document.plain(MAX_PRINTED_LINES)),
        None if is_of_log => lines.extend(result_lines(state, task_row)),
        None => lines.extend(tab_lines(state, task_row)),
    }
    lines.join("\n") + "\n"
}
