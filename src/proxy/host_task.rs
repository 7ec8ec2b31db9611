//! Tasks for hosts that support them: the experimental ones of 2025-11-25, and the extension of 2026-07-28.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{message::Members, raw::RawMembers, ticket};
use crate::domain::{Status, TaskId, TaskView, Wall};

/// The name of the extension of 2026-07-28.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The key of `_meta` that ties a message to a task (2025-11-25).
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// How often a host may ask for the state of a task, in milliseconds.
const POLL_MS: u32 = 1000;

/// The most tasks on one page of `tasks/list`.
pub(super) const PAGE: usize = 100;

/// The capability that offers tasks to a host of 2025-11-25.
pub(super) fn capability() -> Value {
    json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}})
}

/// The `_meta` of messages that belong to a task (2025-11-25).
pub(super) fn related(task: &TaskId) -> Value {
    json!({RELATED_TASK: {"taskId": task.as_str()}})
}

/// Names the task of a result of longhaul's own.
pub(super) fn relate(message: &mut Value, task: &TaskId) {
    let Some(members) = message.as_object_mut() else {
        return;
    };
    let meta = members.entry("_meta").or_insert_with(|| json!({}));
    if let (Some(meta), Value::Object(related)) = (meta.as_object_mut(), related(task)) {
        meta.extend(related);
    }
}

/// A result, or the parameters of a request, with the name of its task (2025-11-25).
pub(super) fn related_to(message: &str, task: &TaskId) -> String {
    let mut members = RawMembers::parse(message).unwrap_or_default();
    let mut meta = members.get("_meta").and_then(RawMembers::parse);
    let meta = meta.get_or_insert_default();
    meta.set(RELATED_TASK, &json!({"taskId": task.as_str()}).to_string());
    members.set("_meta", &meta.to_string());
    members.to_string()
}

/// A result without the task of the server that it came from: only longhaul knows that one.
pub(super) fn without_related(result: &str) -> Cow<'_, str> {
    if !result.contains(RELATED_TASK) {
        return result.into();
    }
    let Some(mut members) = RawMembers::parse(result) else {
        return result.into();
    };
    if let Some(mut meta) = members.get("_meta").and_then(RawMembers::parse) {
        meta.remove(RELATED_TASK);
        if meta.is_empty() {
            members.remove("_meta");
        } else {
            members.set("_meta", &meta.to_string());
        }
    }
    members.to_string().into()
}

/// The status of a task in the words of both revisions. `is_cancelled`: the host has cancelled it, and its server may
/// still be working.
pub(super) fn status(view: &TaskView, is_cancelled: bool) -> &'static str {
    let is_settled = view.task.status.is_settled();
    match &view.task.status {
        // A status that has ended never changes.
        _ if is_cancelled => "cancelled",
        _ if view.is_unsaved && is_settled => "working",
        Status::Completed => "completed",
        Status::Failed | Status::Lost(_) | Status::Unknown(_) => "failed",
        Status::Cancelled => "cancelled",
        Status::InputRequired => "input_required",
        Status::Running | Status::Paused => "working",
    }
}

/// A task as a host sees it.
pub(super) fn object(view: &TaskView, status: &str, is_modern: bool, now: Wall) -> Members {
    let task = &view.task;
    let (ttl, poll) = if is_modern {
        ("ttlMs", "pollIntervalMs")
    } else {
        ("ttl", "pollInterval")
    };
    let message = match status {
        "cancelled" => "cancelled".to_owned(),
        _ => ticket::state(view, now),
    };
    let fields = [
        ("taskId", json!(task.id.as_str())),
        ("status", json!(status)),
        ("statusMessage", json!(message)),
        ("createdAt", json!(task.created_at.rfc3339())),
        (
            "lastUpdatedAt",
            json!(task.end.settled_at.unwrap_or(now).rfc3339()),
        ),
        (ttl, Value::Null),
        (poll, json!(POLL_MS)),
    ];
    let fields = fields.into_iter();
    fields.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Whether a task will not change any more, as far as the host is concerned. A result that can't be saved can't be read
/// yet either.
pub(super) fn is_over(view: &TaskView) -> bool {
    let has_ended = view.task.status.is_settled() || matches!(view.task.status, Status::Unknown(_));
    has_ended && !view.is_unsaved
}
