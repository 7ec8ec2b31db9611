//! `show`: everything about a task.

use std::borrow::Cow;

use crate::{
    cli::{
        context::Context,
        error::{CliError, code},
        format::{self},
        json as documents,
        task_document::{DriverInfo, contact, document},
    },
    domain::{Connectivity, Elicitation, IfCut, ProtocolVersion, Status, Task, Wall, text},
    store::Reader,
};

/// `show`.
pub(in crate::cli) fn show(context: &mut Context<'_>, id: &str) -> Result<u8, CliError> {
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
    put("from", task.caller.as_ref().map(|caller| caller.who()));
    put(
        "its caller",
        task.caller
            .as_ref()
            .map(|caller| caller.progress(task.settled_at, now, when)),
    );
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
        "if cut",
        IfCut::of_task(&task)
            .map(|if_cut| format!("{}: {}", if_cut.label(), if_cut.reason.message())),
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
pub(in crate::cli) fn revision(
    reader: &mut Reader,
    task: &Task,
) -> Result<Option<String>, CliError> {
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
