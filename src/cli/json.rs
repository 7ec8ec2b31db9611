//! The objects of `--json`: tasks, events, tools. Scripts rely on keys and values: add to them, never change them.

use crate::domain::{
    Caller, Connectivity, GaveUpReason, HistoryEntry, HistoryEvent, IfCut, ProtocolVersion, Task,
    TaskError, TaskView, Tool, Wall, json_number, text,
};
use crate::engine::KeeperStatus;
use serde_json::{Value, json, value::RawValue};
use std::collections::BTreeMap;

/// A document on one line. Characters that could move the cursor or reorder text are escaped as `\u`.
pub(super) fn compact(value: &Value) -> String {
    escape(&value.to_string())
}

/// As [`compact`], over several lines.
pub(super) fn pretty(value: &Value) -> String {
    escape(&serde_json::to_string_pretty(value).unwrap_or_default())
}

/// Escapes hostile characters. They only occur in JSON strings, where `\u` has the same meaning.
fn escape(json: &str) -> String {
    if json.is_ascii() && !json.contains('\u{7f}') {
        return json.to_owned();
    }
    let mut marks = 0;
    text::json_with_escapes(json, |letter| {
        marks = if text::is_mark(letter) { marks + 1 } else { 0 };
        let is_harmless = !text::is_hostile(letter) && marks <= text::MAX_MARKS_PER_GRAPHEME;
        letter != '\n' && !is_harmless
    })
}

/// Parses saved JSON. A member that is nested too deep to be parsed becomes a string; the other members are not affected.
pub(super) fn parsed(json: &str) -> Value {
    let or_text = |json: &str| serde_json::from_str(json).unwrap_or_else(|_| json.into());
    serde_json::from_str(json).unwrap_or_else(|_| {
        let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json) else {
            return json.into();
        };
        let members = members.into_iter();
        Value::Object(
            members
                .map(|(name, raw)| (name, or_text(raw.get())))
                .collect(),
        )
    })
}

fn error_of(error: &TaskError) -> Value {
    let data = error.data.as_deref().map(parsed);
    json!({"kind": error.kind, "code": error.code, "message": error.message, "data": data})
}

/// A task object.
pub(super) fn task(
    task: &Task,
    contact: &Connectivity,
    if_cut: Option<&IfCut>,
    result: Option<&str>,
) -> Value {
    let progress = task.progress.as_ref().map(|progress| {
        json!({"value": json_number(progress.value), "total": progress.total.map(json_number), "message": progress.message})
    });
    let as_of = match contact {
        Connectivity::Unwatched { as_of } => Some(*as_of),
        Connectivity::Live { last_byte } | Connectivity::Quiet { last_byte } => Some(*last_byte),
        Connectivity::Offline { since, .. } => Some(*since),
        _ => None,
    };
    json!({
        "id": task.id,
        "name": task.name,
        "note": task.note,
        "tag": task.tag,
        "once": task.options.once,
        "server": task.server,
        "tool": task.tool,
        "arguments": parsed(&task.arguments),
        "origin": task.options.origin,
        "caller": task.caller.as_deref().map(caller),
        "status": task.state_label(),
        "reason": task.why(),
        "notice": task.notice,
        "contact": contact.label(),
        "contact_reason": contact.why(),
        "contact_as_of": as_of.map(Wall::rfc3339),
        "asked": task.control.map(|asked| asked.what.label()),
        "asked_at": task.control.map(|asked| asked.at.rfc3339()),
        "if_cut": if_cut.map(|it| it.outcome().code()),
        "if_cut_reason": if_cut.map(|it| it.reason.code()),
        "if_cut_message": if_cut.map(|it| it.reason.message()),
        "if_cut_until": if_cut.and_then(|it| it.until).map(Wall::rfc3339),
        "resumability": task.resumability.label(),
        "era": task.attempt().and_then(|attempt| attempt.version).map(ProtocolVersion::label),
        "era_reason": task.attempt().and_then(|attempt| attempt.era_reason),
        "attempts": task.attempts_made(),
        "progress": progress,
        "client_id": task.client_id,
        "idle_timeout_s": task.options.limits.idle.map(|limit| limit.as_secs_f64()).map(json_number),
        "max_time_s": task.options.limits.hard.map(|limit| limit.as_secs_f64()).map(json_number),
        "created_at": task.created_at.rfc3339(),
        "updated_at": task.updated_at.rfc3339(),
        "settled_at": task.end.settled_at.map(Wall::rfc3339),
        "removed_at": task.forgotten_at.map(Wall::rfc3339),
        "is_seen": task.end.is_seen,
        "server_task_id": task.server_task_id,
        "status_message": task.status_message(),
        "questions": questions_json(task),
        "seq": task.seq,
        "result": result.map(parsed),
        "error": task.end.error.as_ref().map(error_of),
    })
}

fn caller(caller: &Caller) -> Value {
    let gave_up = caller.gave_up.as_ref().map(|gave_up| {
        let (why, reason) = match &gave_up.why {
            GaveUpReason::Ticket => ("ticket", None),
            GaveUpReason::Ended => ("ended", None),
            GaveUpReason::Cancelled(reason) => ("cancelled", Some(reason)),
        };
        json!({"at": gave_up.at.rfc3339(), "after_ms": gave_up.after_ms, "why": why, "reason": reason})
    });
    json!({
        "host": caller.host,
        "version": caller.version,
        "directory": caller.directory,
        "request_id": caller.request_id,
        "call_id": caller.call_id,
        "repeats": caller.repeats,
        "gave_up": gave_up,
        "delivered_at": caller.delivered_at.map(Wall::rfc3339),
    })
}

/// The task object on one line, as the notification hook gets it.
pub(super) fn hook_task(view: &TaskView, result: Option<&str>) -> String {
    let if_cut = view.if_cut.as_ref();
    compact(&task(&view.task, &view.contact, if_cut, result))
}

/// A document with more members.
pub(super) fn with(mut document: Value, more: Value) -> Value {
    if let (Some(document), Value::Object(more)) = (document.as_object_mut(), more) {
        document.extend(more);
    }
    document
}

/// An entry of a task's history. `result` goes into the one that settles it.
pub(super) fn event(task: &Task, entry: &HistoryEntry, result: Option<&str>) -> Value {
    let document = json!({
        "event": <&str>::from(&entry.what),
        "id": task.id,
        "seq": entry.seq,
        "at": entry.at.rfc3339(),
        "attempt": entry.attempt,
    });
    let details = match &entry.what {
        HistoryEvent::Started { era, resumability } => {
            json!({"server": task.server, "tool": task.tool, "era": era, "resumability": resumability})
        }
        HistoryEvent::Progress(step) => {
            json!({"value": json_number(step.value), "total": step.total.map(json_number), "message": step.message})
        }
        HistoryEvent::Log {
            level,
            logger,
            data,
        } => json!({"level": level.label(), "logger": logger, "data": data}),
        HistoryEvent::Contact { state, why } => json!({"contact": state, "why": why}),
        HistoryEvent::Status { status, reason } => json!({"status": status, "reason": reason}),
        HistoryEvent::InputRequired { key, request } => {
            json!({"key": key, "request": parsed(request)})
        }
        HistoryEvent::Settled { status, reason } => json!({
            "status": status,
            "reason": reason,
            "result": result.map(parsed),
            "error": task.end.error.as_ref().map(error_of),
        }),
    };
    with(document, details)
}

pub(super) fn tool(server: &str, tool: &Tool, if_cut: &IfCut) -> Value {
    json!({
        "server": server,
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": parsed(&tool.input_schema),
        "read_only": tool.read_only,
        "destructive": tool.destructive,
        "idempotent": tool.idempotent,
        "if_cut": if_cut.outcome().code(),
        "if_cut_reason": if_cut.reason.code(),
        "if_cut_message": if_cut.reason.message(),
    })
}

/// The open questions of a task for `--json`.
fn questions_json(task: &Task) -> Value {
    let open = task.open_questions();
    open.map(|question| {
        json!({
            "key": question.key,
            "message": crate::domain::Elicitation::parse(&question.request).message,
            "asked_at": question.asked_at.rfc3339(),
            "shared_with": question.shared_with,
        })
    })
    .collect()
}

/// What drives a session.
pub(super) fn keeper(status: &KeeperStatus) -> Value {
    json!({
        "pid": status.pid,
        "version": status.version,
        "contract": status.contract,
        "is_keeper": status.is_keeper,
        "since": Wall(status.since_ms).rfc3339(),
        "unfinished": status.unsettled,
        "unsaved": status.unsaved,
        "clients": status.clients,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_hostile_characters() {
        let stacked_marks = format!("é{}", "\u{301}".repeat(100));
        let hostile = json!({"a\u{202e}": "\u{1b}]0;x\u{7}\u{7f}\u{9b}31m\u{200b}\u{e0041}é", "b": stacked_marks});
        let text = compact(&hostile);
        assert_eq!(
            text.matches('\u{301}').count(),
            text::MAX_MARKS_PER_GRAPHEME
        );
        assert!(
            text.chars().all(|letter| !text::is_hostile(letter)),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), hostile);
    }

    #[test]
    fn whole_numbers_stay_whole() {
        assert_eq!(json_number(15.0).to_string(), "15");
        assert_eq!(json_number(0.5).to_string(), "0.5");
        assert_eq!(json_number(9e15 * 10.0).to_string(), "9e+16");
    }
}
