//! A task's history, result and traffic in memory, with bounded size.

use std::collections::VecDeque;

use indexmap::IndexMap;
use serde_json::value::RawValue;

use super::Document;
use crate::domain::{
    ContentBlock, HistoryEntry, HistoryEvent, TaskId, UrlPreview, is_markdown_type, text,
};

/// History entries of one task in memory; older ones stay in the session file and are counted.
const MAX_ENTRIES: usize = 2_000;

/// The most bytes of a result to lay out for the screen.
const MAX_RESULT_BYTES: usize = 16 << 20;

/// The newest entries of a task's history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskLog {
    /// Oldest first; each line of a log message is an entry.
    pub entries: VecDeque<HistoryEntry>,
    /// Older lines that are only in the session file.
    pub dropped: u64,
    /// The task's `saved_seq` when the last read was requested.
    pub(super) asked_at: u64,
    /// Whether a read is in progress.
    pub(super) is_asked: bool,
}

impl TaskLog {
    /// The sequence number of the newest entry in memory.
    pub fn newest(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.seq)
    }

    /// Appends entries, skipping those that are in memory already; returns how many were added.
    pub(super) fn append(&mut self, entries: Vec<HistoryEntry>, dropped: u64) -> usize {
        self.is_asked = false;
        self.dropped = self.dropped.saturating_add(dropped);
        let newest = self.newest();
        let mut added = 0;
        let new = entries.into_iter().filter(|entry| entry.seq > newest);
        for entry in new.flat_map(lines_of) {
            self.entries.push_back(entry);
            added += 1;
            if self.entries.len() > MAX_ENTRIES {
                self.entries.pop_front();
                self.dropped += 1;
            }
        }
        added
    }
}

/// An entry, or the lines of a log message as entries.
fn lines_of(entry: HistoryEntry) -> Vec<HistoryEntry> {
    let HistoryEvent::Log {
        level,
        logger,
        data,
    } = &entry.what
    else {
        return vec![entry];
    };
    let with = |line: &str| HistoryEntry {
        event_id: entry.event_id.clone(),
        what: HistoryEvent::Log {
            level: *level,
            logger: logger.clone(),
            data: line.trim_end_matches('\r').replace('\t', "    "),
        },
        ..entry
    };
    data.trim_end().split('\n').map(with).collect()
}

/// The most parts of a result that can be saved on the screen; the command line can save any.
const MAX_PARTS: usize = 1_000;

/// A part of a result, with what is needed to save or open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    /// Its index in the result.
    pub number: usize,
    /// A sanitized description.
    pub description: String,
    /// The link, if it is one.
    pub link: Option<UrlPreview>,
    /// The file extension to save it with.
    pub extension: &'static str,
}

impl ResultPart {
    fn of(number: usize, block: &ContentBlock<'_>) -> Self {
        let link = match block {
            ContentBlock::Link(link) => Some(UrlPreview::parse(link.uri)),
            _ => None,
        };
        Self {
            number,
            description: block.message(),
            link,
            extension: block.extension(),
        }
    }
}

/// Recorded traffic of one task, one message per line.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficText {
    /// The task.
    pub task: TaskId,
    /// The newest messages, oldest first; `None` before the first read.
    pub lines: Option<Vec<String>>,
    /// Whether a read is in progress.
    pub is_asked: bool,
    /// The task's `saved_seq` when the last read was requested.
    pub asked_at: u64,
}

/// A result as lines of text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultText {
    /// The text.
    pub document: Document,
    /// The parts that can be saved or opened.
    pub parts: Vec<ResultPart>,
    /// Whether the read is still in progress.
    pub is_asked: bool,
}

impl ResultText {
    /// Whether it could not be read.
    pub(super) fn has_failed(&self) -> bool {
        !self.is_asked && self.document.is_empty()
    }

    /// Lays out the JSON text of a `CallToolResult`: the content first, then the other members as JSON.
    pub(super) fn read(task: &TaskId, json: Option<String>) -> Self {
        let mut document = Document::default();
        let mut parts = Vec::new();
        let is_read = json.is_some();
        match json {
            None => {}
            Some(json) if json.len() > MAX_RESULT_BYTES => {
                let shown = text::bytes(json.len());
                document.push_text(&format!(
                    "The result ({shown}) is too large for this pane. Save it: `longhaul result {task} --out FILE`"
                ));
            }
            // Borrows each value, so that a large result is not copied.
            Some(json) => match serde_json::from_str(&json) {
                Ok(members) => lay_out(&members, &mut document, &mut parts),
                Err(_) => document.push_json(&json),
            },
        }
        if is_read && document.is_empty() {
            document.push_text("The result is empty.");
        }
        document.finish();
        Self {
            document,
            parts,
            is_asked: false,
        }
    }
}

fn lay_out(
    members: &IndexMap<String, &RawValue>,
    document: &mut Document,
    parts: &mut Vec<ResultPart>,
) {
    for (key, value) in members {
        if key == "isError" && value.get() == "true" {
            document.push_text("The tool reported an error (isError).\n\n");
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
                let block = ContentBlock::parse(&block);
                if number < MAX_PARTS {
                    document.begin_part(Some(number));
                    parts.push(ResultPart::of(number, &block));
                } else if number == MAX_PARTS {
                    document.begin_part(None);
                }
                lay_out_block(json, &block, document);
            }
            document.begin_part(None);
        }
    }
    for (key, value) in members {
        let is_content = key == "content" && value.get().starts_with('[');
        // It names the kind of response and is not part of the result.
        let is_kind = key == "resultType" && value.get() == "\"complete\"";
        if key == "isError" || is_content || is_kind {
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

fn lay_out_block(json: &str, block: &ContentBlock<'_>, document: &mut Document) {
    match block {
        ContentBlock::Text { text, mime, uri } => {
            // An embedded resource gets a line with its URI.
            if !uri.is_empty() {
                document.push_notice(&format!("[{}]", block.message()));
            }
            if text.trim_start().starts_with(['{', '[']) {
                // JSON text is easier to read laid out.
                document.push_json(text);
            } else if is_markdown_type(mime) || mime.is_empty() && is_markdown(text) {
                document.push_markdown(text);
            } else {
                document.push_text(text);
            }
        }
        ContentBlock::Media(_) | ContentBlock::Link(_) => {
            document.push_notice(&format!("[{}]", block.message()));
        }
        ContentBlock::Other(_) => document.push_json(json),
    }
}

/// Whether a text is almost certainly Markdown: it has at least two kinds of Markdown syntax.
pub(super) fn is_markdown(text: &str) -> bool {
    let (mut headings, mut fences, mut lists, mut marks) = (false, 0, 0, false);
    // The beginning of the text is enough.
    for line in text.lines().take(200) {
        let line = line.trim_start();
        let rest = line.trim_start_matches('#');
        let level = line.len() - rest.len();
        headings |= (1..=6).contains(&level) && rest.starts_with(' ');
        fences += usize::from(line.starts_with("```"));
        lists += usize::from(["- ", "* "].iter().any(|mark| line.starts_with(mark)));
        marks |= line.matches("**").count() >= 2 || line.contains("](http");
    }
    let signs = [headings, fences >= 2, lists >= 2, marks];
    signs.into_iter().filter(|is_present| *is_present).count() >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_part_of_a_huge_result_and_says_so() {
        let task = TaskId::from_bits(7);
        let of_text = |text: String| {
            let json = serde_json::json!({"content": [{"type": "text", "text": text}]});
            ResultText::read(&task, Some(json.to_string()))
        };
        let long = of_text("line\n".repeat(500_000)).document;
        assert_eq!((long.len(), long.is_cut), (400_000, true));
        let large = of_text("x".repeat(MAX_RESULT_BYTES)).document;
        let said = large.plain(usize::MAX);
        assert!(said.contains("16.8 MB) is too large"), "{said}");
    }
}
