//! Tickets: what a host gets when its patience ends before its call does. And the tools that go with them.

use core::{ops::Range, time::Duration};

use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    message::{Members, with},
    raw::RawMembers,
};
use crate::domain::{
    Connectivity, Progress, ServerName, Status, Task, TaskId, TaskView, Wall, text, unquoted,
    unsaved_reason,
};

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
            "description": "Waits for a long-running tool call on this server and returns its result. Call it with the id from an \
                answer that begins with \"Still running as\" or \"Queued as\"; if it is still running, use this tool again. It never \
                runs anything a second time.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "The id of the call, such as q7m2xk."},
                    "from": {"type": "integer", "minimum": 0, "description": "Offset of the first character of the result's text to \
                        return; use it only if the whole result is too large."},
                    "length": {"type": "integer", "minimum": 1, "description": "How many characters of its text to \
                        return, 20000 if only `from` is given."},
                },
                "required": ["id"],
            },
            "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
        }),
        json!({
            "name": TASKS,
            "title": "List uncollected calls",
            "description": "Lists the long-running tool calls that were started on this server and whose results have not \
                been collected yet, with their ids, states and progress.",
            "inputSchema": {"type": "object", "properties": {}},
            "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
        }),
    ]
}

/// The part of a result's text that a host asks for, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResultPart {
    from: usize,
    length: usize,
}

/// The length of a part if the host names none.
const PART: usize = 20_000;

/// A part of a result that can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`from` must be a whole number, and `length` a whole number above 0")]
pub(super) struct BadPart;

impl ResultPart {
    /// From the arguments of [`COLLECT`]; `None` for the whole result. Models write numbers as texts too.
    pub(super) fn of(arguments: &Members) -> Result<Option<Self>, BadPart> {
        let number = |key: &str| match arguments.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let text = unquoted(value);
                let digits = text.trim().trim_end_matches(".0");
                digits.parse::<usize>().map(Some).map_err(|_| BadPart)
            }
        };
        match (number("from")?, number("length")?) {
            (_, Some(0)) => Err(BadPart),
            (None, None) => Ok(None),
            (from, length) => Ok(Some(Self {
                from: from.unwrap_or_default(),
                length: length.unwrap_or(PART),
            })),
        }
    }

    /// This part of a result, which is JSON text, with its place in the whole and the length of that, in characters.
    pub(super) fn cut(self, task: &TaskId, result: &str) -> (Value, Range<usize>, usize) {
        let value: Value = serde_json::from_str(result).unwrap_or_default();
        let blocks = value.get("content").and_then(Value::as_array);
        let texts: Option<Vec<&str>> = blocks.and_then(|blocks| {
            let texts = blocks.iter().map(|block| block.get("text")?.as_str());
            texts.collect()
        });
        // What is not only text is cut as JSON.
        let whole = texts.map_or_else(|| result.to_owned(), |texts| texts.join("\n"));
        let total = whole.chars().count();
        let from = self.from.min(total);
        let part: String = whole.chars().skip(from).take(self.length).collect();
        let end = from + part.chars().count();
        let more = if end >= total {
            "the end".to_owned()
        } else {
            format!("continue with {COLLECT} {{\"id\": \"{task}\", \"from\": {end}}}")
        };
        let words = format!("(characters {from} to {end} of {total}; {more})");
        let is_error = value.get("isError").cloned().unwrap_or(json!(false));
        let content = [
            json!({"type": "text", "text": part}),
            json!({"type": "text", "text": words}),
        ];
        let part = json!({"content": content, "isError": is_error});
        (part, from..end, total)
    }
}

/// The result with a text at its end that says how long ago its call ended.
pub(super) fn with_age(result: &str, task: &TaskId, age: Duration) -> String {
    let age = text::span(age);
    let words = format!(
        "(longhaul did not run this call again: this is the uncollected result of the same call made earlier, {task}, which \
         ended {age} ago. To run it again, make the call once more.)"
    );
    let note = to_raw_value(&json!({"type": "text", "text": words}));
    let members = RawMembers::parse(result);
    let content = members.as_ref().and_then(|members| members.get("content"));
    let content = content.and_then(|content| serde_json::from_str(content).ok());
    let (Some(mut members), Some::<Vec<Box<RawValue>>>(mut content)) = (members, content) else {
        return result.to_owned();
    };
    content.extend(note);
    members.set(
        "content",
        &serde_json::to_string(&content).unwrap_or_default(),
    );
    members.to_string()
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
/// or the text, so both say everything. `flags` select the session on the command line.
pub(super) fn ticket(view: &TaskView, is_structured: bool, flags: &str, now: Wall) -> Value {
    let id = &view.task.id;
    let again = ", or make the same call again: it won't run twice";
    let (lead, or_again) = match view.task.state_label() {
        _ if view.task.was_cancelled() => ("Not finished yet", ""),
        Task::QUEUED => ("Queued", again),
        _ => ("Still running", again),
    };
    let words = format!(
        "{lead} as {id}: {}. This is not the result. Call {COLLECT} on server {} with {{\"id\": \"{id}\"}} to wait for the \
         result{or_again}. A person can watch it with: longhaul attach {id}{flags}",
        state(view, now),
        text::clean_line(view.task.server.entry())
    );
    let ticket = json!({"content": [{"type": "text", "text": words}], "isError": false});
    let content = json!({"longhaul_ticket": {"message": words, "task": summary(view, now)}});
    with(
        ticket,
        "structuredContent",
        is_structured.then_some(content),
    )
}

/// The result of [`TASKS`].
pub(super) fn list<'v>(
    views: impl Iterator<Item = &'v TaskView>,
    server: &ServerName,
    now: Wall,
) -> Value {
    let views: Vec<&TaskView> = views.collect();
    let lines: Vec<String> = views
        .iter()
        .map(|view| {
            let tool = text::clean_line(&view.task.tool);
            format!("{} {tool}: {}", view.task.id, state(view, now))
        })
        .collect();
    let words = if lines.is_empty() {
        format!(
            "No call is open on server {}, and it has no results to collect. For calls on another server, call that \
             server's {TASKS}.",
            server.entry()
        )
    } else {
        lines.join("\n")
    };
    json!({"content": [{"type": "text", "text": words}], "isError": false})
}

/// A result that says that something failed.
pub(super) fn failure(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}], "isError": true})
}

/// The progress message for the host while the server is silent.
pub(super) fn heartbeat(view: &TaskView, now: Wall) -> String {
    format!("{}, task {}", state(view, now), view.task.id)
}

fn age(view: &TaskView, now: Wall) -> Duration {
    let until = view.task.end.settled_at.unwrap_or(now);
    until.since(view.task.created_at)
}

/// A state in a few words.
pub(super) fn state(view: &TaskView, now: Wall) -> String {
    let age = text::span(age(view, now));
    let task = &view.task;
    let ended = match task.status {
        Status::Running | Status::InputRequired if task.was_cancelled() => Some(format!(
            "being cancelled, started {age} ago; its server has not confirmed that it stopped"
        )),
        Status::Running if view.contact == Connectivity::NeedsLogin => Some(format!(
            "queued {age} ago: the server {server} needs a person to sign in, set credentials or approve its command; \
             `longhaul` shows what to do, and until then nothing is sent",
            server = text::clean_line(task.server.as_str())
        )),
        Status::Running if task.is_queued() => {
            let why = outage(view).map(|why| format!(": {why}"));
            let why = why.unwrap_or_default();
            Some(format!("queued {age} ago, not sent to the server yet{why}"))
        }
        Status::Running => None,
        Status::InputRequired => Some(format!(
            "waiting for the answer to a question; a person can answer with: longhaul answer {}",
            task.id
        )),
        _ if task.status.is_settled() && view.is_unsaved => Some(format!(
            "{} after {age}, but the result can't be saved yet, and a person has to fix this: {}",
            task.status.label(),
            unsaved_reason(view.unsaved_why.as_deref())
        )),
        _ if task.status.is_settled() => {
            let is_owed = task.is_owed(now);
            let rest = if is_owed { ", not collected yet" } else { "" };
            Some(format!("{} after {age}{rest}", task.status.label()))
        }
        _ => Some(format!("{}, started {age} ago", task.status.label())),
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
    let outage = outage(view).map(|why| format!("; its server can't be reached now: {why}"));
    let (step, outage) = (step.unwrap_or_default(), outage.unwrap_or_default());
    format!("running for {age}{step}{outage}")
}

/// Why the server can't be reached now.
fn outage(view: &TaskView) -> Option<String> {
    let why = text::clean_line(view.contact.why()?);
    Some(text::cut(&why, 200, "...").into_owned())
}

fn summary(view: &TaskView, now: Wall) -> Value {
    let task = &view.task;
    json!({
        "id": task.id.as_str(),
        "tool": task.tool,
        "status": task.state_label(),
        "age_seconds": age(view, now).as_secs(),
        "progress": task.progress.as_ref().and_then(Progress::ratio),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Attempt, NewCall, Phase};

    #[test]
    fn a_call_that_is_being_cancelled_is_not_called_running() {
        let call = NewCall::new(
            TaskId::from_bits(7),
            ServerName::new("lab"),
            "work".to_owned(),
            "{}".to_owned(),
        );
        let mut task = Task::new(Wall(0), call);
        task.attempts.push(Attempt {
            phase: Phase::Sent,
            was_cancelled: true,
            ..Attempt::default()
        });
        let mut view = TaskView::unwatched(task, None);
        view.contact = Connectivity::Reconnecting {
            attempt: 1,
            next: Wall(9_000),
            why: "the stream ended".to_owned(),
        };
        let words = state(&view, Wall(7_000));
        assert!(
            words.starts_with("being cancelled, started 7 s ago"),
            "{words}"
        );
        let again = "make the same call again";
        assert!(
            !ticket(&view, false, "", Wall(7_000))
                .to_string()
                .contains(again)
        );
    }

    #[test]
    fn an_old_result_says_its_age() {
        let task = TaskId::from_bits(7);
        let age = Duration::from_secs(7200);
        let aged = |result: &str| with_age(result, &task, age);
        let text = aged(r#"{"content":[{"type":"text","text":"a"} ] ,"n":1.50}"#);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["content"][0]["text"], "a");
        let note = value["content"][1]["text"].as_str().unwrap();
        assert!(note.contains("2 h ago") && text.contains("1.50"), "{text}");
        let value: Value = serde_json::from_str(&aged(r#"{"content":[ ]}"#)).unwrap();
        assert_eq!(value["content"].as_array().unwrap().len(), 1);
        assert_eq!(aged(r#"{"content":"x"}"#), r#"{"content":"x"}"#);
    }

    #[test]
    fn a_large_result_can_be_read_in_parts() {
        let task = TaskId::from_bits(7);
        let part = |arguments: Value| ResultPart::of(arguments.as_object().unwrap());
        assert_eq!(part(json!({"id": "x"})), Ok(None));
        for bad in [json!(-1), json!(1.5), json!("a")] {
            assert_eq!(part(json!({"from": bad})), Err(BadPart));
        }
        assert_eq!(part(json!({"length": 0})), Err(BadPart));
        let as_text = part(json!({"from": "5", "length": 10.0}));
        assert_eq!(as_text, part(json!({"from": 5, "length": 10})));
        let result = r#"{"content":[{"type":"text","text":"abc"},{"type":"text","text":"däf"}]}"#;
        let cut = |from, length| {
            let part = part(json!({"from": from, "length": length}))
                .unwrap()
                .unwrap();
            let (value, range, total) = part.cut(&task, result);
            let is_last = range.end >= total;
            let text = |index: usize| value["content"][index]["text"].as_str().unwrap().to_owned();
            (text(0), text(1), is_last)
        };
        let (text, more, is_last) = cut(2, 4);
        assert_eq!((text.as_str(), is_last), ("c\ndä", false));
        assert!(
            more.contains("2 to 6 of 7") && more.contains("\"from\": 6"),
            "{more}"
        );
        assert_eq!(cut(6, 9).0, "f");
        let (text, more, is_last) = cut(99, 1);
        assert!(
            text.is_empty() && is_last && more.contains("to 7 of 7"),
            "{more}"
        );
        let image = r#"{"content":[{"type":"image","data":"AA=="}]}"#;
        let whole = part(json!({"from": 0})).unwrap().unwrap();
        let (value, range, total) = whole.cut(&task, image);
        let is_last = range.end >= total;
        assert!(is_last && value["content"][0]["text"] == image, "{value}");
    }
}
