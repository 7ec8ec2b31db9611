//! `show`: everything about a task.

use std::borrow::Cow;

use crate::{
    cli::{
        CliResult, Context, code, format,
        task_document::{DriverInfo, document},
    },
    domain::{
        Connectivity, ControlRequest, Elicitation, IfCut, ProtocolVersion, Status, Task, Wall, text,
    },
    store::Reader,
};

/// `show`.
pub(in crate::cli) fn show(context: &mut Context<'_>, id: &str) -> CliResult {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, id)?;
    if context.global.json {
        let document = document(context, &mut reader, &task)?;
        return context.print_document(document);
    }
    let driver = DriverInfo::of(context, std::slice::from_ref(&task));
    let contact = driver.contact(&task);
    let revision = revision(&mut reader, &task)?;
    let (now, flags) = (context.clock.now().wall, context.flags());
    let of_call = call_rows(&task, now);
    let of_state = state_rows(&task, &contact, &flags, now);
    let of_server = server_rows(&task, revision, now);
    for (key, value) in of_call.into_iter().chain(of_state).chain(of_server) {
        context.print(format!("{key:<13} {value}").trim_end())?;
    }
    Ok(code::OK)
}

/// A label and its value.
type Line = (&'static str, String);

fn known<const N: usize>(lines: [(&'static str, Option<String>); N]) -> Vec<Line> {
    let known = |(key, value): (&'static str, Option<String>)| value.map(|value| (key, value));
    lines.into_iter().filter_map(known).collect()
}

/// What the call is, and who made it.
fn call_rows(task: &Task, now: Wall) -> Vec<Line> {
    let caller = task.caller.as_ref();
    let progress =
        caller.map(|it| it.progress(task.end.settled_at, now, |at| format::clock(at, now)));
    known([
        ("id", Some(task.id.to_string())),
        ("name", task.name.clone()),
        ("note", task.note.clone()),
        ("tag", task.tag.clone()),
        ("tool", Some(task.tool.clone())),
        ("server", Some(task.server.to_string())),
        ("arguments", Some(task.arguments.clone())),
        ("from", caller.map(|caller| caller.who())),
        ("agent host", progress),
        (
            "repeats",
            task.options.origin.as_ref().map(ToString::to_string),
        ),
    ])
}

/// How far the call is.
fn state_rows(task: &Task, contact: &Connectivity, flags: &str, now: Wall) -> Vec<Line> {
    let when = |at: Wall| format::clock(at, now);
    let reason = task
        .why()
        .map_or(String::new(), |reason| format!(": {reason}"));
    // As in `ls`: it may be out of date.
    let is_unwatched = matches!(contact, Connectivity::Unwatched { .. });
    let mark = if is_unwatched && task.is_open() {
        "?"
    } else {
        ""
    };
    let status = format!("{}{mark}{reason}", task.state_label());
    let mut rows = vec![("status", status)];
    for question in task.open_questions() {
        let asked_for = question.asked_for(&task.id);
        let asked_for = asked_for.map_or(String::new(), |asked_for| format!("{asked_for}; "));
        let line = format!(
            "{} ({asked_for}asked {}; `longhaul answer {}{flags}` shows it)",
            Elicitation::message_of(&question.request),
            when(question.asked_at),
            task.id
        );
        rows.push(("question", line));
    }
    let asked = |asked: ControlRequest| format!("{} since {}", asked.what.label(), when(asked.at));
    let contact = match contact {
        Connectivity::Idle => None,
        Connectivity::Unwatched { as_of } => Some(format!(
            "none (no keeper answers); last known state from {}",
            when(*as_of)
        )),
        Connectivity::NeedsLogin => Some(format!("waiting: the server {}", format::WAITS)),
        other => {
            let why = other.why().map(|why| format!(": {why}"));
            Some(format!("{}{}", other.label(), why.unwrap_or_default()))
        }
    };
    let progress = task.progress.as_ref().map(|progress| {
        // The result is there, so 100% is certain.
        let is_whole = task.status == Status::Completed && progress.ratio() == Some(1.0);
        format!(
            "{}{}  {}",
            format::amount(progress),
            if is_whole { " 100%" } else { "" },
            progress.message.as_deref().unwrap_or_default()
        )
    });
    let if_cut = IfCut::of_task(task);
    let if_cut = if_cut.map(|it| format!("{}: {}", it.label(), it.reason.message()));
    rows.extend(known([
        ("notice", task.notice.clone()),
        ("pending", task.control.map(asked)),
        ("connection", contact),
        ("progress", progress),
        ("message", task.status_message().map(str::to_owned)),
        ("if cut", if_cut),
    ]));
    rows
}

/// How the server is reached, the times, the result and the limits.
fn server_rows(task: &Task, revision: Option<String>, now: Wall) -> Vec<Line> {
    let when = |at: Wall| format::clock(at, now);
    known([
        (
            "recovery",
            task.resumability
                .strongest()
                .filter(|_| !task.status.is_settled())
                .map(|way| way.label().to_owned()),
        ),
        ("revision", revision),
        ("attempts", Some(task.attempts_made().to_string())),
        (task.server_id_label(), task.server_task_id.clone()),
        ("client id", task.client_id.clone()),
        ("created", Some(when(task.created_at))),
        ("updated", Some(when(task.updated_at))),
        ("ended", task.end.settled_at.map(when)),
        ("result", task.result_summary().map(Cow::into_owned)),
        (
            "error data",
            task.end.error.as_ref().and_then(|error| error.data.clone()),
        ),
        ("idle timeout", task.options.limits.idle.map(text::span)),
        ("max time", task.options.limits.hard.map(text::span)),
    ])
}

/// The task's MCP revision, and why it was chosen if the server still uses it.
fn revision(reader: &mut Reader, task: &Task) -> CliResult<Option<String>> {
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
