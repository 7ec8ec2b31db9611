//! `export`: what is known of one task, as a trace that can go into a bug report.
//!
//! Invariants: no secret and no handle is in it, whatever was asked for: no header, no server session, no event id, client
//! id or id of a server task, no path or query of a URL, no answer to a question. What people and servers wrote (names,
//! arguments, messages, logs, questions, results, errors) is there only with `--with-content`, without what looks like a
//! token; else its size stands in its place. Not a hash either: of a short text it would tell the text.

mod html;
mod redact;

use std::io::Write as _;

use secrecy::SecretString;
use serde_json::{Map, Value, json};

use self::redact::Redaction;
use super::{
    Context,
    args::Export,
    config,
    fail::{Fail, code},
    json as documents, logins, variable,
};
use crate::{
    app::SaveContent,
    auth::Logins,
    domain::{
        Attempt, Entry, HistoryEvent, LinkRecord, ProtocolVersion, Question, ServerConfig, Task,
        TaskId, Wall,
    },
    store::{Lookup, Paths, Reader},
};

/// The shape of a trace; it is added to, and counts up where that is not enough.
const FORMAT: u32 = 1;
/// Entries read at a time.
const CHUNK: usize = 512;

/// What a trace is made with, beside what the session file has of the task.
struct Exporting<'c> {
    logins: &'c Logins,
    /// What is configured; none of its secrets gets out.
    servers: &'c [ServerConfig],
    /// The secrets of the command line.
    given: &'c [SecretString],
    has_content: bool,
    is_page: bool,
    now: Wall,
}

impl Exporting<'_> {
    /// The trace of a task, without a line end.
    fn text(&self, reader: &mut Reader, task: &Task) -> Result<String, Fail> {
        let links = reader.links()?;
        let entries = history(reader, task)?;
        let result = reader.result(&task.id)?;
        let redaction = Redaction::of(self, &links, task);
        let link = links.iter().find(|link| link.name == task.server);
        let trace = json!({
            "format": FORMAT,
            "longhaul": env!("CARGO_PKG_VERSION"),
            "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            "exported_at": self.now.rfc3339(),
            "has_content": self.has_content,
            "task": record(task, result.as_deref(), &redaction),
            "server": link.map(|link| server(link, task, &redaction)),
            "attempts": task.attempts.iter().map(attempt).collect::<Vec<_>>(),
            "questions": task.questions.iter().map(|it| question(it, &redaction)).collect::<Vec<_>>(),
            "history": entries.iter().map(|it| happening(it, &redaction)).collect::<Vec<_>>(),
        });
        Ok(if self.is_page {
            html::page(&trace, task, &entries)
        } else {
            documents::pretty(&trace)
        })
    }
}

/// The secrets of the command line.
pub(super) fn given(context: &Context<'_>) -> Vec<SecretString> {
    let headers = context.global.header.iter();
    let headers = headers.map(|header| SecretString::from(header.value.clone()));
    let bearer = context.global.bearer_env.as_deref().and_then(variable);
    headers.chain(bearer).collect()
}

/// `export`.
pub(super) fn export(context: &mut Context<'_>, export: &Export) -> Result<u8, Fail> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &export.id)?;
    let config = context.config.as_ref().ok();
    let text = Exporting {
        logins: &context.logins,
        servers: config.map_or(&[], |config| &config.servers),
        given: &given(context),
        has_content: export.with_content,
        is_page: export.html,
        now: context.clock.now().wall,
    }
    .text(&mut reader, &task)?;
    let Some(path) = &export.out else {
        context.terminal.document(&text)?;
        return Ok(code::OK);
    };
    let file = std::fs::File::create(path);
    file.and_then(|mut file| writeln!(file, "{text}"))
        .map_err(|error| {
            let words = format!("could not write {}: {error}", path.display());
            // The session itself is well.
            Fail::usage(words)
        })?;
    Ok(code::OK)
}

/// `export` for the screen, which writes it to a file.
pub(super) fn on_screen(
    paths: &Paths,
    id: &TaskId,
    what: SaveContent,
    now: Wall,
    given: &[SecretString],
) -> Result<String, String> {
    // One that cannot be read has nothing that could be sent.
    let config = config::read(config::path().as_deref()).unwrap_or_default();
    let made = || -> Result<String, Fail> {
        let mut reader = Reader::open(paths)?;
        let Lookup::One(task) = reader.task(id.as_str())? else {
            return Err(Fail::usage(format!("{id} is gone from the session")));
        };
        let exporting = Exporting {
            logins: &logins(paths, Some(&config.defaults)),
            servers: &config.servers,
            given,
            has_content: false,
            is_page: what == SaveContent::Page,
            now,
        };
        let text = exporting.text(&mut reader, &task)?;
        Ok(format!("{text}\n"))
    };
    made().map_err(Fail::into_words)
}

fn history(reader: &mut Reader, task: &Task) -> Result<Vec<Entry>, Fail> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |entry| entry.seq);
        let more = reader.history(&task.id, after, CHUNK)?;
        if more.is_empty() {
            return Ok(all);
        }
        all.extend(more);
    }
}

fn time(at: Option<Wall>) -> Value {
    at.map_or(Value::Null, |at| Value::String(at.rfc3339()))
}

fn record(task: &Task, result: Option<&str>, redaction: &Redaction) -> Value {
    let said = |text: Option<&str>| redaction.said(text);
    let version = task.attempt().and_then(|attempt| attempt.version);
    let progress = task.progress.as_ref().map(
        |it| json!({"value": it.value, "total": it.total, "message": said(it.message.as_deref())}),
    );
    let error = task.error.as_ref().map(|error| {
        json!({"kind": error.kind, "code": error.code, "message": said(Some(&error.message))})
    });
    json!({
        "id": task.id,
        "name": said(task.name.as_deref()),
        "note": said(task.note.as_deref()),
        "tag": said(task.tag.as_deref()),
        "tool": task.tool,
        "arguments": redaction.json(Some(&task.arguments)),
        "status": task.status.label(),
        "reason": said(task.status.reason().as_deref()),
        "asked": task.asked.map(|asked| asked.what.label()),
        "remark": said(task.remark.as_deref()),
        "resumability": task.resumability,
        "era": version.map(ProtocolVersion::label),
        "attempts": task.attempts_made(),
        "is_repeat": task.origin.is_some(),
        "has_client_id": task.client_id.is_some(),
        "has_once_key": task.once.is_some(),
        "has_server_task": task.server_task_id.is_some(),
        "on_input": task.on_input,
        "progress": progress,
        "limits": {"idle_s": task.limits.idle.map(|it| it.as_secs_f64()),
            "hard_s": task.limits.hard.map(|it| it.as_secs_f64())},
        "created_at": time(Some(task.created_at)),
        "updated_at": time(Some(task.updated_at)),
        "settled_at": time(task.settled_at),
        "gap_at": time(task.gap_at),
        "is_forgotten": task.forgotten_at.is_some(),
        "seq": task.seq,
        "result": redaction.json(result),
        "error": error,
    })
}

fn server(link: &LinkRecord, task: &Task, redaction: &Redaction) -> Value {
    let tool = link.tools.iter().find(|tool| tool.name == task.tool);
    json!({
        "name": redaction.masked(link.name.as_str()),
        "origin": redact::origin(&link.url),
        "info": redaction.masked_option(link.server_info.as_deref()),
        "era": link.version.map(ProtocolVersion::label),
        "era_why": redaction.said(link.era_why.as_deref()),
        "era_wished": link.pinned_version.map(ProtocolVersion::label),
        "has_session": link.session.is_some(),
        "handshakes": link.session_number,
        "is_initialized": link.is_initialized,
        "has_logging": link.has_logging,
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
        "is_round": attempt.input.is_some(),
        "was_cancelled": attempt.was_cancelled,
        "has_cursor": attempt.cursors.data.is_some(),
        "retry_ms": attempt.retry_ms,
        "last_value": attempt.last_value,
        "started_at": time(Some(attempt.started_at)),
        "ended_at": time(attempt.ended_at),
    })
}

fn question(question: &Question, redaction: &Redaction) -> Value {
    let way = match &question.way {
        crate::domain::QuestionWay::Request { .. } => "request",
        crate::domain::QuestionWay::Round => "round",
        crate::domain::QuestionWay::TaskInput => "task-input",
    };
    json!({
        "way": way,
        "request": redaction.json(Some(&question.request)),
        "asked_at": time(Some(question.asked_at)),
        // What a person answered is nobody else's business.
        "answer": question.answer.as_ref().map(crate::domain::Answer::action),
        "is_delivered": question.is_delivered,
    })
}

fn happening(entry: &Entry, redaction: &Redaction) -> Value {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("seq", json!(entry.seq));
    put("at", time(Some(entry.at)));
    put("attempt", json!(entry.attempt));
    put("has_event_id", json!(entry.event_id.is_some()));
    match &entry.what {
        HistoryEvent::Started { era, resumability } => {
            put("event", json!("started"));
            put("era", json!(era));
            put("resumability", json!(resumability));
        }
        HistoryEvent::Progress {
            value,
            total,
            message,
        } => {
            put("event", json!("progress"));
            put("value", json!(value));
            put("total", json!(total));
            put("message", redaction.said(message.as_deref()));
        }
        HistoryEvent::Log {
            level,
            logger,
            data,
        } => {
            put("event", json!("log"));
            put("level", json!(level.label()));
            put("logger", redaction.said(logger.as_deref()));
            put("data", redaction.said(Some(data)));
        }
        HistoryEvent::Contact { state, why } => {
            put("event", json!("contact"));
            put("contact", json!(state));
            put("why", redaction.of_contact(why));
        }
        HistoryEvent::Status { status, reason } => {
            put("event", json!("status"));
            put("status", json!(status));
            put("reason", redaction.said(reason.as_deref()));
        }
        HistoryEvent::InputRequired { request, .. } => {
            put("event", json!("input_required"));
            put("request", redaction.json(Some(request)));
        }
        HistoryEvent::Settled { status, reason } => {
            put("event", json!("settled"));
            put("status", json!(status));
            put("reason", redaction.said(reason.as_deref()));
        }
    }
    Value::Object(object)
}
