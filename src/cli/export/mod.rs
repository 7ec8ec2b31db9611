//! `export`: everything known about one task, as a file for a bug report.
//!
//! Invariants: the file never contains a secret or an id that gives access: no header, server session, event id, client id
//! or server task id, no path or query of a URL, no answer to a question. Text from people and servers (names, arguments,
//! messages, logs, questions, results, errors) is included only with `--with-content`, without anything that looks like a
//! token; otherwise it is replaced by its size. It is not replaced by a hash, from which short text could be guessed.

mod redact;

use secrecy::SecretString;
use serde_json::{Value, json};

pub(in crate::cli) use self::redact::Exporter;
use self::redact::Redaction;
use crate::{
    cli::{Context, json as documents},
    config::env_secret,
    domain::{
        Attempt, HistoryEntry, HistoryEvent, LinkRecord, ProtocolVersion, Question, Task, Wall,
        server_url,
    },
    store::{Reader, StoreError},
};

/// The version of the export format; new fields do not change it.
const FORMAT: u32 = 1;

impl Exporter<'_> {
    /// The export as text, without a trailing newline.
    pub(super) fn render(&self, reader: &mut Reader, task: &Task) -> Result<String, StoreError> {
        let links = reader.links()?;
        let entries = reader.history(&task.id, 0, usize::MAX)?;
        let result = reader.result(&task.id)?;
        let redaction = Redaction::of(self, &links, task);
        let link = links.iter().find(|link| link.name == task.server);
        let trace = json!({
            "format": FORMAT,
            "longhaul": env!("CARGO_PKG_VERSION"),
            "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            "exported_at": self.now.rfc3339(),
            "has_content": self.has_content,
            "task": task_json(task, result.as_deref(), &redaction),
            "server": link.map(|link| server(link, task, &redaction)),
            "attempts": task.attempts.iter().map(attempt).collect::<Vec<_>>(),
            "questions": task.questions.iter().map(|it| question(it, &redaction)).collect::<Vec<_>>(),
            "history": entries.iter().map(|it| history_entry(it, &redaction)).collect::<Vec<_>>(),
        });
        Ok(documents::pretty(&trace))
    }
}

/// The secrets in `-H` and `--bearer-env`.
pub(super) fn cli_secrets(context: &Context<'_>) -> Vec<SecretString> {
    let headers = context.global.header.iter();
    let headers = headers.map(|header| SecretString::from(header.value.clone()));
    let bearer = context.global.bearer_env.as_deref().and_then(env_secret);
    headers.chain(bearer).collect()
}

fn task_json(task: &Task, result: Option<&str>, redaction: &Redaction) -> Value {
    let content = |text: Option<&str>| redaction.content(text);
    let version = task.attempt().and_then(|attempt| attempt.version);
    let progress = task.progress.as_ref().map(
        |it| json!({"value": it.value, "total": it.total, "message": content(it.message.as_deref())}),
    );
    let error = task.end.error.as_ref().map(|error| {
        json!({"kind": error.kind, "code": error.code, "message": content(Some(&error.message))})
    });
    json!({
        "id": task.id,
        "name": content(task.name.as_deref()),
        "note": content(task.note.as_deref()),
        "tag": content(task.tag.as_deref()),
        "tool": task.tool,
        "arguments": redaction.json(Some(&task.arguments)),
        "status": task.state_label(),
        "reason": content(task.status.reason().as_deref()),
        "asked": task.control.map(|asked| asked.what.label()),
        "notice": content(task.notice.as_deref()),
        "resumability": task.resumability,
        "era": version.map(ProtocolVersion::label),
        "attempts": task.attempts_made(),
        "is_repeat": task.options.origin.is_some(),
        "has_client_id": task.client_id.is_some(),
        "has_once_key": task.options.once.is_some(),
        "has_server_task": task.server_task_id.is_some(),
        "on_input": task.options.on_input,
        "progress": progress,
        "limits": {"idle_timeout_s": task.options.limits.idle.map(|it| it.as_secs_f64()),
            "max_time_s": task.options.limits.hard.map(|it| it.as_secs_f64())},
        "created_at": task.created_at.rfc3339(),
        "updated_at": task.updated_at.rfc3339(),
        "settled_at": task.end.settled_at.map(Wall::rfc3339),
        "gap_at": task.gap_at.map(Wall::rfc3339),
        "is_removed": task.forgotten_at.is_some(),
        "seq": task.seq,
        "result": redaction.json(result),
        "error": error,
    })
}

fn server(link: &LinkRecord, task: &Task, redaction: &Redaction) -> Value {
    let tool = link.tools.iter().find(|tool| tool.name == task.tool);
    json!({
        "name": redaction.masked(link.name.as_str()),
        "origin": server_url::origin(&link.url),
        "info": redaction.masked_option(link.server_info.as_deref()),
        "era": link.version.map(ProtocolVersion::label),
        "era_message": redaction.content(link.era_why.as_deref()),
        "pinned_version": link.pinned_version.map(ProtocolVersion::label),
        "has_session": link.session.is_some(),
        "handshakes": link.session_number,
        "is_initialized": link.is_initialized,
        "event_ids": link.gives_ids,
        "modern": link.modern,
        "tasks": link.tasks,
        "binds_tasks": link.binds_tasks,
        "tools": link.tools.len(),
        "tool": tool.map(|tool| json!({
            "read_only": tool.read_only,
            "destructive": tool.destructive,
            "idempotent": tool.idempotent,
            "input_schema": redaction.json(Some(&tool.input_schema)),
        })),
    })
}

fn attempt(attempt: &Attempt) -> Value {
    json!({
        "number": attempt.number,
        "request_id": attempt.request_id,
        "phase": attempt.phase,
        "era": attempt.version.map(ProtocolVersion::label),
        "handshake": attempt.session_number,
        "asks_for_task": attempt.asks_for_task,
        "has_answers": attempt.input.is_some(),
        "was_cancelled": attempt.was_cancelled,
        "has_cursor": attempt.cursors.data.is_some(),
        "retry_ms": attempt.retry_ms,
        "last_value": attempt.last_value,
        "started_at": attempt.started_at.rfc3339(),
        "ended_at": attempt.ended_at.map(Wall::rfc3339),
    })
}

fn question(question: &Question, redaction: &Redaction) -> Value {
    json!({
        "way": <&str>::from(&question.source),
        "request": redaction.json(Some(&question.request)),
        "asked_at": question.asked_at.rfc3339(),
        // Only the action: the values are private.
        "answer": question.answer.as_ref().map(crate::domain::Answer::action),
        "is_delivered": question.is_delivered,
    })
}

fn history_entry(entry: &HistoryEntry, redaction: &Redaction) -> Value {
    let content = |text: Option<&str>| redaction.content(text);
    let document = json!({
        "seq": entry.seq,
        "at": entry.at.rfc3339(),
        "attempt": entry.attempt,
        "has_event_id": entry.event_id.is_some(),
        "event": <&str>::from(&entry.what),
    });
    let details = match &entry.what {
        HistoryEvent::Started { era, resumability } => {
            json!({"era": era, "resumability": resumability})
        }
        HistoryEvent::Progress(step) => {
            json!({"value": step.value, "total": step.total, "message": content(step.message.as_deref())})
        }
        HistoryEvent::Log {
            level,
            logger,
            data,
        } => {
            json!({"level": level.label(), "logger": content(logger.as_deref()), "data": content(Some(data))})
        }
        HistoryEvent::Contact { state, why } => {
            json!({"contact": state, "why": redaction.of_contact(state, why)})
        }
        HistoryEvent::Status { status, reason } | HistoryEvent::Settled { status, reason } => {
            json!({"status": status, "reason": content(reason.as_deref())})
        }
        HistoryEvent::InputRequired { request, .. } => {
            json!({"request": redaction.json(Some(request))})
        }
    };
    documents::with(document, details)
}
