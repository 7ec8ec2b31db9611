//! What was read of a task's history and result, bounded.

use std::{collections::VecDeque, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Document, document::is_markdown};
use crate::domain::{Block, Entry, Link, TaskId, is_markdown_type, text};

/// Entries of one task kept in memory; older ones stay in the session file and are counted here.
const ENTRIES: usize = 2_000;
/// Bytes of a result that are laid out for the screen.
const RESULT_BYTES: usize = 16 << 20;

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

/// Parts of a result that can be taken out on the screen; the command line reaches the others.
const PARTS: usize = 1_000;

/// A part of a result, as far as taking it out needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    /// Which one, from 0.
    pub number: usize,
    /// In clean words what it is.
    pub description: String,
    /// Where it leads, if it is a link.
    pub link: Option<Link>,
    /// The ending of the file that it is saved to.
    pub extension: &'static str,
    /// Why another program may not open it.
    pub why_not: Option<String>,
}

impl ResultPart {
    fn of(number: usize, block: &Block<'_>) -> Self {
        let why_not = match block {
            Block::Media(media) => media.opens_as().err(),
            Block::Link(_) => None,
            _ => Some("it is text; save it instead".to_owned()),
        };
        let link = match block {
            Block::Link(link) => Some(Link::read(link.uri)),
            _ => None,
        };
        Self {
            number,
            description: block.message(),
            link,
            extension: block.extension(),
            why_not,
        }
    }
}

/// What was recorded of the wire for one task, a message a line.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficText {
    /// Whose.
    pub task: TaskId,
    /// The newest messages, in order; `None` before the first read.
    pub lines: Option<Vec<String>>,
    /// Whether a read is under way.
    pub is_asked: bool,
    /// How far the task was then.
    pub asked_at: u64,
}

/// A result laid out in lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultText {
    /// What there is to read.
    pub document: Document,
    /// What can be taken out of it.
    pub parts: Vec<ResultPart>,
    /// Whether the read is still under way.
    pub is_asked: bool,
}

impl ResultText {
    /// Lays out the JSON text of a CallToolResult: its texts first, then the rest as JSON.
    pub(super) fn read(task: &TaskId, json: Option<String>) -> Self {
        let mut document = Document::default();
        let mut parts = Vec::new();
        match json {
            None => {}
            Some(json) if json.len() > RESULT_BYTES => {
                let shown = text::bytes(u64::try_from(json.len()).unwrap_or(u64::MAX));
                document.push_text(&format!(
                    "The result is {shown}, too much for this pane: longhaul result {task} --out FILE"
                ));
            }
            Some(json) => match serde_json::from_str::<Members<'_>>(&json) {
                Ok(members) => lay_out(&members.0, &mut document, &mut parts),
                Err(_) => document.push_json(&json),
            },
        }
        document.finish();
        Self {
            document,
            parts,
            is_asked: false,
        }
    }
}

/// The members of a JSON object in their order, each as it was written: a large one must not be held twice.
struct Members<'j>(Vec<(String, &'j RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Taken;

        impl<'de> Visitor<'de> for Taken {
            type Value = Members<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        from.deserialize_map(Taken)
    }
}

fn lay_out(members: &[(String, &RawValue)], document: &mut Document, parts: &mut Vec<ResultPart>) {
    for (key, value) in members {
        if key == "isError" && value.get() == "true" {
            document.push_text("The tool says that it failed (isError).\n\n");
        }
    }
    let mut is_first = true;
    for (key, value) in members {
        let blocks = serde_json::from_str::<Vec<&RawValue>>(value.get());
        if let (true, Ok(blocks)) = (key == "content", blocks) {
            is_first &= blocks.is_empty();
            for (number, block) in blocks.into_iter().enumerate() {
                let json = block.get();
                let block = serde_json::from_str(json).unwrap_or_default();
                let block = Block::of(&block);
                if number < PARTS {
                    document.begin_part(Some(number));
                    parts.push(ResultPart::of(number, &block));
                } else if number == PARTS {
                    document.begin_part(None);
                }
                lay_out_block(json, &block, document);
            }
            document.begin_part(None);
        }
    }
    for (key, value) in members {
        let is_content = key == "content" && value.get().starts_with('[');
        if key == "isError" || is_content {
            continue;
        }
        if !is_first {
            document.push_text("\n");
        }
        is_first = false;
        document.push_text(&format!("{}:", text::clean_line(key)));
        document.push_json(value.get());
    }
}

fn lay_out_block(json: &str, block: &Block<'_>, document: &mut Document) {
    match block {
        Block::Text {
            words: text,
            mime,
            uri,
        } => {
            // Of a text that is a resource it is told which.
            if !uri.is_empty() {
                document.push_notice(&format!("[{}]", block.message()));
            }
            if text.trim_start().starts_with(['{', '[']) {
                // A text that is JSON reads better laid out; it is not changed otherwise.
                document.push_json(text);
            } else if is_markdown_type(mime) || mime.is_empty() && is_markdown(text) {
                document.push_markdown(text);
            } else {
                document.push_text(text);
            }
        }
        Block::Media(_) | Block::Link(_) => document.push_notice(&format!("[{}]", block.message())),
        Block::Other(_) => document.push_json(json),
    }
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
        let long = of_text("line\n".repeat(500_000)).document;
        assert_eq!((long.len(), long.is_cut()), (400_000, true));
        let large = of_text("x".repeat(RESULT_BYTES)).document;
        let said = large.plain(usize::MAX);
        assert!(said.contains("16.8 MB, too much"), "{said}");
    }
}
