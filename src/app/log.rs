//! What was read of a task's history and result, bounded.

use std::collections::VecDeque;

use serde_json::Value;

use crate::domain::{Block, Entry, TaskId, text};

/// Entries of one task kept in memory; older ones stay in the session file and are counted here.
const ENTRIES: usize = 2_000;
/// Lines of a result that are shown; the rest is in the session file.
const RESULT_LINES: usize = 20_000;
/// Bytes of a result that are laid out for the screen.
const RESULT_BYTES: usize = 4 << 20;

/// The newest part of a task's history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskLog {
    /// Oldest first.
    pub entries: VecDeque<Entry>,
    /// Older entries that are only in the session file.
    pub dropped: u64,
    /// The `saved_seq` at which the last read was asked for.
    pub(super) asked_at: u64,
    /// Whether a read is under way.
    pub(super) is_asked: bool,
}

impl TaskLog {
    /// The newest `seq` held.
    pub fn newest(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.seq)
    }

    /// Appends what was read and tells how many lines it added; what is held already is passed over.
    pub(super) fn take(&mut self, entries: Vec<Entry>, dropped: u64) -> usize {
        self.is_asked = false;
        self.dropped = self.dropped.saturating_add(dropped);
        let newest = self.newest();
        let mut added = 0;
        for entry in entries.into_iter().filter(|entry| entry.seq > newest) {
            self.entries.push_back(entry);
            added += 1;
            if self.entries.len() > ENTRIES {
                self.entries.pop_front();
                self.dropped += 1;
            }
        }
        added
    }
}

/// A result laid out in lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultText {
    /// Clean lines.
    pub lines: Vec<String>,
    /// Whether there is more on disk than is shown.
    pub is_cut: bool,
    /// The JSON as it was read, for copying; absent if there is none, or too much to hold.
    pub json: Option<String>,
    /// Whether the read is still under way.
    pub is_asked: bool,
}

impl ResultText {
    /// Lays out the JSON text of a CallToolResult: its texts first, then the rest as JSON.
    pub(super) fn read(task: &TaskId, json: Option<String>) -> Self {
        let Some(json) = json else {
            return Self::default();
        };
        if json.len() > RESULT_BYTES {
            let shown = text::bytes(u64::try_from(json.len()).unwrap_or(u64::MAX));
            return Self {
                lines: vec![format!(
                    "The result is {shown}, too much for this pane: longhaul result {task} --out FILE"
                )],
                is_cut: true,
                json: None,
                is_asked: false,
            };
        }
        let mut lines = Vec::new();
        match serde_json::from_str::<Value>(&json) {
            Ok(Value::Object(mut result)) => {
                if result.get("isError") == Some(&Value::Bool(true)) {
                    lines.push("The tool says that it failed (isError).".to_owned());
                    lines.push(String::new());
                }
                result.shift_remove("isError");
                if let Some(Value::Array(content)) = result.shift_remove("content") {
                    for block in &content {
                        lay_out_block(task, block, &mut lines);
                    }
                }
                for (key, value) in &result {
                    lines.push(String::new());
                    lines.push(format!("{}:", text::clean_line(key)));
                    push_json(value, &mut lines);
                }
            }
            Ok(other) => push_json(&other, &mut lines),
            Err(_) => push_text(&json, &mut lines),
        }
        let is_cut = lines.len() > RESULT_LINES;
        lines.truncate(RESULT_LINES);
        Self {
            lines,
            is_cut,
            json: Some(json),
            is_asked: false,
        }
    }
}

fn lay_out_block(task: &TaskId, block: &Value, lines: &mut Vec<String>) {
    match Block::of(block) {
        // A text that is JSON reads better laid out; it is not changed otherwise.
        Block::Text(words) => match serde_json::from_str::<Value>(words) {
            Ok(value @ (Value::Object(_) | Value::Array(_))) => push_json(&value, lines),
            _ => push_text(words, lines),
        },
        Block::Media(words) => lines.push(format!("[{words}; longhaul result {task} --out FILE]")),
        Block::Other(_) => push_json(block, lines),
    }
}

fn push_text(words: &str, lines: &mut Vec<String>) {
    lines.extend(text::clean_block(words).lines().map(str::to_owned));
}

fn push_json(value: &Value, lines: &mut Vec<String>) {
    let laid_out = serde_json::to_string_pretty(value).unwrap_or_default();
    push_text(&laid_out, lines);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_result_without_end_a_part_is_laid_out_and_that_is_told() {
        let task = TaskId::from_bits(7);
        let of_text = |text: String| {
            let json = serde_json::json!({"content": [{"type": "text", "text": text}]});
            ResultText::read(&task, Some(json.to_string()))
        };
        let long = of_text("line\n".repeat(30_000));
        assert_eq!((long.lines.len(), long.is_cut), (RESULT_LINES, true));
        let large = of_text("x".repeat(RESULT_BYTES));
        assert_eq!((large.lines.len(), large.is_cut), (1, true));
        assert!(large.json.is_none() && large.lines[0].contains("4.2 MB, too much"));
    }
}
