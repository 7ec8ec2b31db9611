//! The checkpoint convention of the tutorials: what its list of tasks says, and when a tool is called again.
//!
//! The tool takes a client id that outlives sessions and stores its step on the server's disk; continuing means calling
//! it again with the same arguments. Its companions list and pause such tasks. Nothing of it is in the MCP specification.

use core::time::Duration;

use serde_json::Value;

use crate::domain::{Checkpoint, Mono, Progress, Wall};

/// From here on the server's list is read, which shows the current step but not the steps in between.
pub(super) const BY_CHECKPOINT: &str =
    "longhaul looks for its checkpoint; some log lines may be missing";

/// One line of a server's list of checkpoints.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    pub(super) task_id: String,
    pub(super) tool: Option<String>,
    pub(super) status: String,
    pub(super) progress: Option<f64>,
    pub(super) total: Option<f64>,
    updated: String,
    /// A JSON object as text, if the list has it.
    arguments: Option<String>,
}

impl Listed {
    pub(super) fn is_paused(&self) -> bool {
        self.status == "paused"
    }

    pub(super) fn is_cancelled(&self) -> bool {
        matches!(self.status.as_str(), "cancelled" | "canceled")
    }

    /// Calling the tool again returns the result at once.
    fn is_finished(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "complete" | "done")
    }

    /// The server itself says that nothing is running.
    fn has_stopped(&self) -> bool {
        matches!(self.status.as_str(), "failed" | "error" | "interrupted")
    }

    /// As it is shown to a person who may want to continue it.
    pub(super) fn shown(self) -> Checkpoint {
        Checkpoint {
            is_unsettled: !self.is_finished()
                && !self.is_cancelled()
                && !matches!(self.status.as_str(), "failed" | "error"),
            progress: self
                .progress
                .and_then(|value| Progress::reported(value, self.total, None)),
            id: self.task_id,
            tool: self.tool,
            status: self.status,
            arguments: self.arguments,
        }
    }

    /// Whether anything differs that a running tool would change.
    fn differs(&self, other: &Self) -> bool {
        self.progress != other.progress
            || self.updated != other.updated
            || self.status != other.status
    }
}

/// Reads the text that `list_session_tasks` returned: an array of objects, under any key or none.
pub(super) fn read_list(text: &str) -> Vec<Listed> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let is_list = |value: &&Value| {
        value
            .as_array()
            .is_some_and(|all| all.iter().any(|entry| entry.get("task_id").is_some()))
    };
    let list = Some(&value)
        .filter(is_list)
        .or_else(|| value.get("tasks"))
        .or_else(|| value.as_object()?.values().find(is_list));
    list.and_then(Value::as_array)
        .map(|all| all.iter().filter_map(listed).collect())
        .unwrap_or_default()
}

fn listed(entry: &Value) -> Option<Listed> {
    let text = |keys: &[&str]| {
        keys.iter()
            .find_map(|key| entry.get(*key))
            .and_then(|value| match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            })
    };
    let number = |keys: &[&str]| keys.iter().find_map(|key| entry.get(*key).and_then(amount));
    Some(Listed {
        task_id: text(&["task_id", "id"])?,
        tool: text(&["tool", "tool_name", "task_name"]),
        status: text(&["status", "state"])
            .unwrap_or_default()
            .to_lowercase(),
        progress: number(&["progress", "current_step", "processed", "step"]),
        total: number(&["total", "total_records", "total_steps"]),
        updated: text(&["updated_at", "last_updated", "updated"]).unwrap_or_default(),
        arguments: ["arguments", "args", "params", "parameters"]
            .iter()
            .find_map(|key| entry.get(*key).filter(|value| value.is_object()))
            .map(Value::to_string),
    })
}

/// A number, or the first one in a text such as `15/50` or an object such as `{"current": 15}`.
fn amount(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text
            .split(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .next()?
            .parse()
            .ok(),
        Value::Object(fields) => ["current", "value", "processed"]
            .iter()
            .find_map(|key| fields.get(*key)?.as_f64()),
        _ => None,
    }
}

/// The task of ours in a list: by its id once known, else the newest of our tool.
pub(super) fn find<'l>(
    list: &'l [Listed],
    task_id: Option<&str>,
    tool: &str,
) -> Option<&'l Listed> {
    if let Some(known) = list
        .iter()
        .find(|entry| Some(entry.task_id.as_str()) == task_id)
    {
        return Some(known);
    }
    list.iter()
        .filter(|entry| entry.tool.as_deref().is_none_or(|listed| listed == tool))
        .max_by_key(|entry| (Wall::parse_rfc3339(&entry.updated), entry.updated.as_str()))
}

/// A shorter standstill proves nothing.
const STANDS_AT_LEAST: Duration = Duration::from_secs(10);
/// The same, where the list itself says paused.
const PAUSED_AT_LEAST: Duration = Duration::from_secs(5);

/// Refused connections and a lost session probably mean a restart; a tool that is still running would show within this
/// time.
const RESTARTED_AT_LEAST: Duration = Duration::from_secs(3);
/// After this many polls a tool is known to take long, and the link's budget is also for others.
const LOOKS_IN_A_HURRY: u32 = 60;
const LOOK_AT_LEISURE: Duration = Duration::from_secs(10);
/// The longest time between two looks that a step is measured by.
const LOOKS_APART: Duration = Duration::from_secs(5);

/// Follows a task by its server's list, because no stream carries it.
#[derive(Clone, Debug, Default)]
pub(super) struct Follow {
    last: Option<Listed>,
    /// When anything last advanced.
    pub(super) moved_at: Mono,
    seen_at: Mono,
    missing_since: Option<Mono>,
    looks: u32,
    /// How often it was seen to advance.
    moves: u32,
    longest_step: Duration,
    /// The server was restarted, so no old run can be left.
    pub(super) is_restarted: bool,
    /// The call may still be on its way: the list can be older than the effect of that call, which a proxy or a busy
    /// server can hold longer than its connection lives.
    pub(super) is_adrift: bool,
    /// When the list is to be read next; `None` while a reading is under way.
    pub(super) next: Option<Mono>,
    /// When the list was last read.
    pub(super) read_at: Option<Wall>,
}

/// The verdict of the checkpoint rule after the list was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It advances, or may: poll again.
    Watch,
    /// It is paused and has stopped.
    Paused,
    /// It was cancelled on the server.
    Cancelled,
    /// It is finished: the same call returns the result at once.
    Finished,
    /// The server itself says that nothing is running: as [`Self::CallAgain`], and proof that a cancel has nothing left
    /// to stop.
    Stopped,
    /// It has not advanced for so long that nothing is running: call the tool again with the same arguments and client
    /// id.
    CallAgain,
    /// The server was probably restarted, and it has not advanced since.
    Restarted,
    /// The server does not know it.
    Missing,
}

impl Follow {
    pub(super) fn new(now: Mono, longest_step: Duration) -> Self {
        Self {
            moved_at: now,
            seen_at: now,
            longest_step,
            next: Some(now),
            ..Self::default()
        }
    }

    /// How often the list is read: as often as it changes, within limits, and rarely after many polls.
    pub(super) fn pace(&self) -> Duration {
        if self.looks > LOOKS_IN_A_HURRY {
            return LOOK_AT_LEISURE;
        }
        self.longest_step
            .clamp(Duration::from_secs(1), Duration::from_secs(5))
    }

    /// Whether the list shows what an open stream would have told: that it moves, where the stream told of that before,
    /// or that it ended a while ago.
    pub(super) fn belies_stream(&self, now: Mono, tells_steps: bool) -> bool {
        let last = self.last.as_ref();
        let is_over =
            last.is_some_and(|it| it.is_finished() || it.is_cancelled() || it.has_stopped());
        tells_steps && self.moves > 1 || is_over && now.since(self.moved_at) >= STANDS_AT_LEAST
    }

    /// Takes a reading and applies the checkpoint rule: follow what advances, call again only what has stopped.
    pub(super) fn judge(&mut self, now: Mono, entry: Option<&Listed>) -> Verdict {
        self.looks = self.looks.saturating_add(1);
        let Some(entry) = entry else {
            // A call that was cut off may still be on its way to the server.
            let since = *self.missing_since.get_or_insert(now);
            return if now.since(since) >= STANDS_AT_LEAST {
                Verdict::Missing
            } else {
                Verdict::Watch
            };
        };
        self.missing_since = None;
        match &self.last {
            Some(last) if last.differs(entry) => {
                // It was stopped at least from the last change to the last poll; what happened between two distant
                // polls, because the network was cut, is unknown.
                let stood = self.seen_at.since(self.moved_at);
                let since = now.since(self.seen_at).min(LOOKS_APART);
                self.longest_step = self.longest_step.max(stood.saturating_add(since));
                self.moved_at = now;
                self.moves = self.moves.saturating_add(1);
            }
            Some(_) => {}
            None => self.moved_at = now,
        }
        self.last = Some(entry.clone());
        self.seen_at = now;
        let stood = now.since(self.moved_at);
        let stands = |at_least: Duration| stood >= at_least.max(self.longest_step * 3);
        if entry.is_finished() {
            Verdict::Finished
        } else if self.is_adrift && !stands(STANDS_AT_LEAST) {
            Verdict::Watch
        } else if entry.is_cancelled() {
            Verdict::Cancelled
        } else if entry.has_stopped() {
            Verdict::Stopped
        } else if entry.is_paused() {
            if stands(PAUSED_AT_LEAST) {
                Verdict::Paused
            } else {
                Verdict::Watch
            }
        } else if stands(STANDS_AT_LEAST) {
            Verdict::CallAgain
        } else if self.is_restarted && stood >= RESTARTED_AT_LEAST.max(self.longest_step) {
            Verdict::Restarted
        } else {
            Verdict::Watch
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"{"client_id":"c","tasks":[
        {"task_id":"a","tool":"work","status":"running","progress":15,"total":50,"updated_at":"2026-11-20T10:00:00Z"},
        {"task_id":"b","tool":"other","status":"paused","progress":3,"updated_at":"2026-11-20T11:00:00Z"}]}"#;

    #[test]
    fn a_list_is_read_in_any_of_its_shapes() {
        let list = read_list(LIST);
        assert_eq!(
            find(&list, None, "work").map(|entry| entry.progress),
            Some(Some(15.0))
        );
        assert_eq!(
            find(&list, Some("b"), "work").map(Listed::is_paused),
            Some(true)
        );
        assert_eq!(read_list(r#"[{"task_id":7}]"#).len(), 1);
        assert_eq!(read_list(r#"{"found":[{"task_id":"x"}]}"#).len(), 1);
        for nonsense in ["", "{}", "[]", "\u{1b}", r#"{"tasks":{}}"#] {
            assert!(read_list(nonsense).is_empty());
        }
    }

    #[test]
    fn calls_again_only_after_the_checkpoint_stalls() {
        let entry = read_list(LIST).remove(0);
        let mut follow = Follow::new(Mono(0), Duration::from_secs(4));
        assert_eq!(follow.judge(Mono(0), Some(&entry)), Verdict::Watch);
        assert_eq!(follow.judge(Mono(11_900), Some(&entry)), Verdict::Watch);
        let moved = Listed {
            progress: Some(20.0),
            ..entry.clone()
        };
        assert_eq!(follow.judge(Mono(11_950), Some(&moved)), Verdict::Watch);
        assert_eq!(
            follow.judge(Mono(40_000), Some(&moved)),
            Verdict::Watch,
            "three times the longest step"
        );
        assert_eq!(follow.judge(Mono(48_000), Some(&moved)), Verdict::CallAgain);
        assert_eq!(follow.judge(Mono(48_001), None), Verdict::Watch);
        assert_eq!(follow.judge(Mono(58_001), None), Verdict::Missing);
    }

    #[test]
    fn calls_a_restarted_server_sooner_unless_it_progresses() {
        let entry = read_list(LIST).remove(0);
        let mut follow = Follow::new(Mono(0), Duration::ZERO);
        follow.is_restarted = true;
        assert_eq!(follow.judge(Mono(0), Some(&entry)), Verdict::Watch);
        assert_eq!(follow.judge(Mono(3000), Some(&entry)), Verdict::Restarted);
        let moved = Listed {
            progress: Some(20.0),
            ..entry
        };
        assert_eq!(follow.judge(Mono(4000), Some(&moved)), Verdict::Watch);
    }

    #[test]
    fn a_finished_entry_is_fetched_at_once() {
        let entry = Listed {
            status: "completed".into(),
            ..read_list(LIST).remove(0)
        };
        let mut follow = Follow::new(Mono(0), Duration::ZERO);
        assert_eq!(follow.judge(Mono(0), Some(&entry)), Verdict::Finished);
    }

    #[test]
    fn paused_means_standing_still_too() {
        let entry = Listed {
            status: "paused".into(),
            ..read_list(LIST).remove(0)
        };
        let mut follow = Follow::new(Mono(0), Duration::from_secs(1));
        assert_eq!(follow.judge(Mono(0), Some(&entry)), Verdict::Watch);
        assert_eq!(follow.judge(Mono(5000), Some(&entry)), Verdict::Paused);
    }
}
