//! Tickets: what a host gets when its patience ends before its call does. And the tools that go with them.

use core::time::Duration;

use serde_json::{Value, json};

use crate::domain::{Progress, Status, TaskView, Wall, text};

/// The tool that waits for a call and returns its result.
pub(super) const COLLECT: &str = "longhaul_collect";

/// The tool that lists the calls whose results nobody has collected.
pub(super) const TASKS: &str = "longhaul_tasks";

/// The tools that every proxied server has.
pub(super) fn tools() -> [Value; 2] {
    [
        json!({
            "name": COLLECT,
            "title": "Collect a result",
            "description": "Waits for a long-running tool call and returns its result. Call it with the id from an \
                answer that begins with \"Still running as\"; if the call still runs then, call it again. It never \
                runs anything a second time.",
            "inputSchema": {
                "type": "object",
                "properties": {"id": {"type": "string", "description": "The id of the call, such as q7m2xk."}},
                "required": ["id"],
            },
            "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
        }),
        json!({
            "name": TASKS,
            "title": "List open calls",
            "description": "Lists the long-running tool calls that were started here and whose results were not \
                collected yet, with their ids, states and progress.",
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
        }),
    ]
}

/// The schema of [`ticket`]'s structured content.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"longhaul_ticket": {"type": "object"}},
        "required": ["longhaul_ticket"],
    })
}

/// The result that says that a call still runs.
///
/// `is_structured`: the tool has an output schema, so its results need structured content. Hosts show a model either that
/// or the text, so both say everything.
pub(super) fn ticket(view: &TaskView, is_structured: bool, now: Wall) -> Value {
    let id = &view.task.id;
    let words = format!(
        "Still running as {id}: {}. This is not the result. Call {COLLECT} with {{\"id\": \"{id}\"}} to wait for the \
         result, or make the same call again: it is not run twice. A person can watch it with: longhaul attach {id}",
        state(view, now)
    );
    let mut ticket = json!({"content": [{"type": "text", "text": words}], "isError": false});
    if is_structured && let Some(members) = ticket.as_object_mut() {
        let content = json!({"longhaul_ticket": {"message": words, "task": summary(view, now)}});
        members.insert("structuredContent".to_owned(), content);
    }
    ticket
}

/// The result of [`TASKS`].
pub(super) fn list<'v>(views: impl Iterator<Item = &'v TaskView>, now: Wall) -> Value {
    let views: Vec<&TaskView> = views.collect();
    let lines: Vec<String> = views
        .iter()
        .map(|view| {
            let tool = text::clean_line(&view.task.tool);
            format!("{} {tool}: {}", view.task.id, state(view, now))
        })
        .collect();
    let words = if lines.is_empty() {
        "No call is open, and every result was collected.".to_owned()
    } else {
        lines.join("\n")
    };
    json!({"content": [{"type": "text", "text": words}], "isError": false})
}

/// What the host is told while the server is silent.
pub(super) fn heartbeat(view: &TaskView, now: Wall) -> String {
    format!("{}, task {}", state(view, now), view.task.id)
}

fn age(view: &TaskView, now: Wall) -> Duration {
    let until = view.task.settled_at.unwrap_or(now);
    until.since(view.task.created_at)
}

/// A state in a few words.
pub(super) fn state(view: &TaskView, now: Wall) -> String {
    let age = text::span(age(view, now));
    let task = &view.task;
    let ended = match task.status {
        Status::Running => None,
        Status::InputRequired => Some(format!(
            "waiting for an answer to a question, which a person can give with: longhaul answer {}",
            task.id
        )),
        _ if task.status.is_settled() => Some(format!(
            "{} after {age}, not collected yet",
            task.status.label()
        )),
        _ => Some(format!("{}, begun {age} ago", task.status.label())),
    };
    if let Some(ended) = ended {
        return ended;
    }
    let step = task.progress.as_ref().map(|progress| {
        let share = progress.percent().map(|percent| format!(", {percent}%"));
        let message = progress.message.as_deref().map(|it| {
            let message = text::clean_line(it);
            format!(" ({})", text::cut(&message, 120, "..."))
        });
        share.unwrap_or_default() + &message.unwrap_or_default()
    });
    format!("running for {age}{}", step.unwrap_or_default())
}

fn summary(view: &TaskView, now: Wall) -> Value {
    let task = &view.task;
    json!({
        "id": task.id.as_str(),
        "tool": task.tool,
        "status": task.status.label(),
        "age_seconds": age(view, now).as_secs(),
        "progress": task.progress.as_ref().and_then(Progress::ratio),
    })
}
