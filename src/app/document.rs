//! A long text as foldable lines, with a cursor and a search.
//!
//! Owns the layout of text and JSON in lines, the folds, the cursor and the matches of a search. Must not know of tasks,
//! keys or columns. Invariants: every line is sanitized and short, so that the cost of a frame depends on its rows only;
//! folding hides lines but never changes them; the cursor is on a visible line.

use std::borrow::Cow;

use crate::{
    app::{Search, SearchStep},
    domain::text,
};

/// The most lines in memory; the rest is in the session file.
const MAX_LINES: usize = 400_000;

/// The most bytes of text in memory.
const MAX_TEXT_BYTES: usize = 24 << 20;

/// The most bytes of one line; longer lines continue in the next ones.
const MAX_LINE_BYTES: usize = 1024;

/// Columns per indentation step.
const INDENT: usize = 2;

/// The most indentation steps in copied text, so that deep nesting doesn't make it huge.
const MAX_INDENT_STEPS: usize = 40;

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Plain text or JSON.
    Plain,
    /// Markdown.
    Markdown,
    /// A code block in Markdown, including its fences.
    Code,
    /// A description of a part that is not text.
    Notice,
}

/// One line, without its indentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredLine {
    start: u32,
    depth: u16,
    kind: LineKind,
    /// Whether it continues the previous line.
    is_continuation: bool,
}

/// The lines of a JSON object or array after its first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fold {
    /// The first line, which stays visible.
    head: u32,
    /// The last line to hide.
    last: u32,
    items: u32,
    is_folded: bool,
}

/// A visible line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentLine<'d> {
    /// The sanitized text without its indentation; for a closed fold, with its closing bracket.
    pub text: Cow<'d, str>,
    /// Its kind.
    pub kind: LineKind,
    /// Its indentation in steps.
    pub depth: usize,
    /// Whether its fold is closed; `None` if it can't be folded.
    pub fold: Option<bool>,
    /// The size of a closed fold, e.g. `12 items`; else empty.
    pub holds: String,
    /// Whether the cursor is here.
    pub is_here: bool,
}

/// A text as foldable lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// All lines, concatenated without line ends.
    text: String,
    lines: Vec<StoredLine>,
    /// Sorted by `head`.
    folds: Vec<Fold>,
    /// The first line of each part of a result, and the index of the part; `None` for text that belongs to no part.
    parts: Vec<(u32, Option<usize>)>,
    /// Whether it has parts that are not text.
    pub has_non_text: bool,
    /// The indices of the visible lines.
    shown: Vec<u32>,
    /// The cursor, as an index into `shown`.
    at: usize,
    /// The first line on the screen, as an index into `shown`.
    top: usize,
    /// Whether the text was cut off because it is too long.
    pub is_cut: bool,
    /// The last search text, and the lines in which its matches start.
    found: (String, Vec<u32>),
}

/// The number of a match, from 1, and the number of matches.
pub type Match = (usize, usize);

impl Document {
    /// Whether it has no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// How many lines are shown.
    pub fn len(&self) -> usize {
        self.shown.len()
    }

    /// How many bytes its text has.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Whether it has a cursor, because something can be folded, saved or opened.
    pub fn is_navigable(&self) -> bool {
        self.has_folds() || self.has_non_text
    }

    /// Whether something can be folded.
    pub fn has_folds(&self) -> bool {
        !self.folds.is_empty()
    }

    /// The index of the part under the cursor.
    pub(super) fn part_here(&self) -> Option<usize> {
        let here = self.here();
        let next = self.parts.partition_point(|(first, _)| *first <= here);
        self.parts.get(next.checked_sub(1)?)?.1
    }

    /// Starts a part of the result.
    pub(super) fn begin_part(&mut self, number: Option<usize>) {
        self.parts.push((index(self.lines.len()), number));
    }

    /// Adds plain text.
    pub(super) fn push_text(&mut self, text: &str) {
        self.push_lines(text, LineKind::Plain);
    }

    /// Adds the description of a part that is not text.
    pub(super) fn push_notice(&mut self, text: &str) {
        self.has_non_text = true;
        self.push_lines(text, LineKind::Notice);
    }

    /// Adds Markdown.
    pub(super) fn push_markdown(&mut self, text: &str) {
        let mut fence = "";
        for line in text.lines() {
            let begin = line.trim_start();
            let mark = ["```", "~~~"]
                .into_iter()
                .find(|mark| begin.starts_with(mark));
            let kind = match (fence, mark) {
                ("", None) => LineKind::Markdown,
                ("", Some(mark)) => {
                    fence = mark;
                    LineKind::Code
                }
                (open, Some(mark)) if open == mark => {
                    fence = "";
                    LineKind::Code
                }
                _ => LineKind::Code,
            };
            self.push_lines(line, kind);
            // `push_lines` adds nothing for an empty line.
            if line.is_empty() {
                self.push("", 0, kind);
            }
        }
    }

    fn push_lines(&mut self, text: &str, kind: LineKind) {
        for line in text.lines() {
            let line = text::clean_block(line);
            self.push(&line, 0, kind);
        }
    }

    /// Adds formatted JSON; adds invalid JSON as plain text.
    pub(super) fn push_json(&mut self, json: &str) {
        if serde_json::from_str::<serde::de::IgnoredAny>(json).is_err() {
            return self.push_text(json);
        }
        let mut open: Vec<usize> = Vec::new();
        let mut line = String::new();
        let mut rest = json;
        while let Some(first) = rest.chars().next() {
            if self.is_cut {
                break;
            }
            let long = token(rest);
            let (part, after) = rest.split_at_checked(long).unwrap_or((rest, ""));
            rest = after;
            match first {
                '{' | '[' => {
                    line.push(first);
                    let inside = rest.trim_start();
                    if let Some(end) = inside.chars().next().filter(|it| matches!(it, '}' | ']')) {
                        line.push(end);
                        rest = inside.strip_prefix(end).unwrap_or_default();
                    } else {
                        self.push(&std::mem::take(&mut line), open.len(), LineKind::Plain);
                        open.push(self.folds.len());
                        self.folds.push(Fold {
                            head: index(self.lines.len().saturating_sub(1)),
                            last: 0,
                            items: 1,
                            is_folded: false,
                        });
                    }
                }
                '}' | ']' => {
                    if !line.is_empty() {
                        self.push(&std::mem::take(&mut line), open.len(), LineKind::Plain);
                    }
                    let fold = open.pop().and_then(|row| self.folds.get_mut(row));
                    if let Some(fold) = fold {
                        // The line that starts with this bracket.
                        fold.last = index(self.lines.len());
                    }
                    line.push(first);
                }
                ',' => {
                    line.push(first);
                    self.push(&std::mem::take(&mut line), open.len(), LineKind::Plain);
                    let fold = open.last().and_then(|row| self.folds.get_mut(*row));
                    if let Some(fold) = fold {
                        fold.items = fold.items.saturating_add(1);
                    }
                }
                ':' => line.push_str(": "),
                '"' => line.push_str(&readable(part)),
                _ => line.push_str(part.trim()),
            }
        }
        if !line.is_empty() {
            self.push(&line, open.len(), LineKind::Plain);
        }
        // Unclosed folds of a text that was cut off end at the cut.
        let last = index(self.lines.len().saturating_sub(1));
        for row in open {
            if let Some(fold) = self.folds.get_mut(row) {
                fold.last = last;
            }
        }
        for fold in &mut self.folds {
            fold.last = fold.last.min(last);
        }
    }

    /// Adds one line, split into several if it is long.
    fn push(&mut self, line: &str, depth: usize, kind: LineKind) {
        let line = text::clean_line(line);
        let mut rest: &str = &line;
        let mut is_continuation = false;
        loop {
            if self.lines.len() >= MAX_LINES
                || self.text.len() + rest.len().min(MAX_LINE_BYTES) > MAX_TEXT_BYTES
            {
                self.is_cut = true;
                return;
            }
            let mut piece = text::head(rest, MAX_LINE_BYTES);
            if piece.len() < rest.len()
                && let Some((words, _)) = piece.rsplit_once(' ')
            {
                // Not inside a word, if there are words.
                piece = rest.get(..=words.len()).unwrap_or(piece);
            }
            self.lines.push(StoredLine {
                start: index(self.text.len()),
                depth: u16::try_from(depth).unwrap_or(u16::MAX),
                kind,
                is_continuation,
            });
            self.text.push_str(piece);
            rest = rest.get(piece.len()..).unwrap_or_default();
            is_continuation = true;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Finishes the document; nothing may be added after this.
    pub(super) fn finish(&mut self) {
        self.text.shrink_to_fit();
        self.lines.shrink_to_fit();
        // Drop folds that would hide nothing.
        self.folds.retain(|fold| fold.last > fold.head);
        self.folds.shrink_to_fit();
        self.update_shown();
    }

    fn line(&self, number: usize) -> &str {
        let range = self.start(number)..self.start(number + 1);
        self.text.get(range).unwrap_or_default()
    }

    /// Where a line begins in the text.
    fn start(&self, number: usize) -> usize {
        let line = self.lines.get(number);
        line.map_or(self.text.len(), |line| line.start as usize)
    }

    /// A visible line by its row.
    pub fn shown(&self, row: usize) -> Option<DocumentLine<'_>> {
        let number = *self.shown.get(row)?;
        let line = self.lines.get(number as usize)?;
        let text = self.line(number as usize);
        let fold = self.fold_at(number).and_then(|at| self.folds.get(at));
        let (text, holds) = match fold {
            Some(fold) if fold.is_folded => (
                Cow::Owned(format!("{text} … {}", self.line(fold.last as usize))),
                text::plural(u64::from(fold.items), "item"),
            ),
            _ => (Cow::Borrowed(text), String::new()),
        };
        Some(DocumentLine {
            text,
            kind: line.kind,
            depth: usize::from(line.depth),
            fold: fold.map(|fold| fold.is_folded),
            holds,
            is_here: self.is_navigable() && row == self.at,
        })
    }

    /// The first `limit` lines as one text, with nothing folded.
    pub fn plain(&self, limit: usize) -> String {
        let mut out = String::with_capacity(self.text.len());
        for (number, line) in self.lines.iter().enumerate().take(limit) {
            if !line.is_continuation {
                if number > 0 {
                    out.push('\n');
                }
                let depth = usize::from(line.depth).min(MAX_INDENT_STEPS);
                out.extend(std::iter::repeat_n(' ', depth * INDENT));
            }
            out.push_str(self.line(number));
        }
        out
    }

    /// The first row to draw on a screen of `rows`.
    pub fn top(&self, rows: usize) -> usize {
        let rows = rows.max(1);
        let top = self.top.min(self.shown.len().saturating_sub(rows));
        if self.is_navigable() {
            top.clamp((self.at + 1).saturating_sub(rows), self.at)
        } else {
            top
        }
    }

    /// Moves the cursor, or scrolls if the document has none, on a screen of `rows`.
    pub(super) fn step(&mut self, by: isize, rows: usize) {
        let last = self.shown.len().saturating_sub(1);
        if self.is_navigable() {
            self.at = self.at.saturating_add_signed(by).min(last);
            self.top = self.top(rows);
        } else {
            let most = self.shown.len().saturating_sub(rows.max(1));
            self.top = self.top(rows).saturating_add_signed(by).min(most);
            self.at = self.top;
        }
    }

    fn fold_at(&self, number: u32) -> Option<usize> {
        self.folds
            .binary_search_by_key(&number, |fold| fold.head)
            .ok()
    }

    /// Toggles the innermost fold at the cursor; returns `false` if there is none.
    pub(super) fn toggle(&mut self) -> bool {
        let Some(&number) = self.shown.get(self.at) else {
            return false;
        };
        let row = self.fold_at(number).or_else(|| {
            // The innermost fold is the last one that starts before this line and ends after it.
            self.folds
                .iter()
                .rposition(|fold| fold.head < number && number <= fold.last)
        });
        let Some(fold) = row.and_then(|row| self.folds.get_mut(row)) else {
            return false;
        };
        fold.is_folded = !fold.is_folded;
        let head = fold.head;
        self.update_shown();
        self.move_to_line(head);
        true
    }

    /// Folds everything, or unfolds everything if anything is folded; returns whether it is folded now.
    pub(super) fn toggle_all(&mut self) -> bool {
        let fold_all = !self.folds.iter().any(|fold| fold.is_folded);
        for fold in &mut self.folds {
            fold.is_folded = fold_all;
        }
        let here = self.here();
        self.update_shown();
        self.move_to_line(here);
        fold_all
    }

    /// Recomputes the visible lines.
    fn update_shown(&mut self) {
        self.shown.clear();
        let mut folds = self.folds.iter().filter(|fold| fold.is_folded).peekable();
        let mut number = 0;
        let end = index(self.lines.len());
        while number < end {
            self.shown.push(number);
            // Skip the folds inside a closed one.
            while folds.next_if(|fold| fold.head < number).is_some() {}
            number = match folds.next_if(|fold| fold.head == number) {
                Some(fold) => fold.last + 1,
                None => number + 1,
            };
        }
        self.at = self.at.min(self.shown.len().saturating_sub(1));
    }

    /// Moves the cursor to a line, or to the closed fold that hides it.
    fn move_to_line(&mut self, number: u32) {
        let next = self.shown.partition_point(|shown| *shown <= number);
        self.at = next.saturating_sub(1);
    }

    /// Searches from the cursor's line and goes to the match; `None` if there is none in that direction.
    pub(super) fn search(
        &mut self,
        search: &Search,
        which: SearchStep,
        rows: usize,
    ) -> Option<Match> {
        let here = self.here();
        self.find_matches(search);
        let hits = &self.found.1;
        let before = hits.partition_point(|hit| *hit < here);
        let next = match which {
            SearchStep::FromHere if before == hits.len() => 0,
            SearchStep::FromHere => before,
            SearchStep::Next => hits.partition_point(|hit| *hit <= here),
            SearchStep::Previous => before.checked_sub(1)?,
        };
        self.go_to_hit(next, rows)
    }

    /// How many lines the last search matched.
    pub fn hits(&self) -> usize {
        self.found.1.len()
    }

    fn here(&self) -> u32 {
        self.shown.get(self.at).copied().unwrap_or(0)
    }

    fn go_to_hit(&mut self, hit: usize, rows: usize) -> Option<Match> {
        let number = *self.found.1.get(hit)?;
        let mut is_hidden = false;
        for fold in &mut self.folds {
            if fold.is_folded && fold.head < number && number <= fold.last {
                fold.is_folded = false;
                is_hidden = true;
            }
        }
        if is_hidden {
            self.update_shown();
        }
        self.move_to_line(number);
        if self.at < self.top || self.at >= self.top + rows.max(1) {
            // Show a few lines above it for context.
            self.top = self.at.saturating_sub(rows / 3);
        }
        self.top = self.top(rows);
        Some((hit + 1, self.found.1.len()))
    }

    /// Finds every line in which a match starts, including folded ones.
    fn find_matches(&mut self, search: &Search) {
        if self.found.0 == search.text() {
            return;
        }
        let mut hits = Vec::new();
        let mut number = 0;
        while number < self.lines.len() {
            // A split line is searched as a whole.
            let mut end = number + 1;
            while self.lines.get(end).is_some_and(|line| line.is_continuation) {
                end += 1;
            }
            let first = self.start(number);
            let whole = self.text.get(first..self.start(end)).unwrap_or_default();
            if end == number + 1 {
                if search.is_in(whole) {
                    hits.push(index(number));
                }
            } else {
                let mut piece = number;
                for found in search.matches_in(whole) {
                    while piece + 1 < end && self.start(piece + 1) <= first + found.start {
                        piece += 1;
                    }
                    if hits.last() != Some(&index(piece)) {
                        hits.push(index(piece));
                    }
                }
            }
            number = end;
        }
        self.found = (search.text().to_owned(), hits);
    }
}

fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The length of the first token of valid JSON.
fn token(json: &str) -> usize {
    let bytes = json.as_bytes();
    match bytes.first() {
        Some(b'"') => {
            let mut is_escaped = false;
            let end = bytes.iter().skip(1).position(|byte| {
                let is_end = *byte == b'"' && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                is_end
            });
            end.map_or(bytes.len(), |end| end + 2)
        }
        Some(b'{' | b'}' | b'[' | b']' | b',' | b':') => 1,
        _ => bytes
            .iter()
            .position(|byte| matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':' | b'"'))
            .unwrap_or(bytes.len()),
    }
}

/// A JSON string with `\u` escapes resolved where possible.
fn readable(quoted: &str) -> Cow<'_, str> {
    if !quoted.contains("\\u") {
        return Cow::Borrowed(quoted);
    }
    let read = serde_json::from_str::<String>(quoted);
    let written = read.and_then(|read| serde_json::to_string(&read));
    written.map_or(Cow::Borrowed(quoted), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROWS: usize = 10;

    fn text(searched: &str) -> Search {
        Search::new(searched).unwrap()
    }

    fn of_json(json: &str) -> Document {
        let mut document = Document::default();
        document.push_json(json);
        document.finish();
        document
    }

    fn lines(document: &Document) -> Vec<String> {
        (0..document.len())
            .map(|row| {
                let line = document.shown(row).unwrap();
                format!("{}{}", "  ".repeat(line.depth), line.text)
            })
            .collect()
    }

    #[test]
    fn lays_out_and_folds_json() {
        let mut document = of_json(r#"{"a":[1, {"b" : "x,]\u00e9\u001b"}],"c":{},"d":[ ]}"#);
        let whole = [
            "{",
            "  \"a\": [",
            "    1,",
            "    {",
            "      \"b\": \"x,]é\\u001b\"",
            "    }",
            "  ],",
            "  \"c\": {},",
            "  \"d\": []",
            "}",
        ];
        assert_eq!(lines(&document), whole);
        // On the end of the list it is the list that folds.
        document.step(6, ROWS);
        assert!(document.toggle());
        let folded = lines(&document);
        assert_eq!(
            folded,
            ["{", "  \"a\": [ … ],", "  \"c\": {},", "  \"d\": []", "}"]
        );
        let head = document.shown(1).unwrap();
        assert_eq!(
            (head.fold, head.is_here, head.holds.as_str()),
            (Some(true), true, "2 items")
        );
        // What was folded before is folded still when the whole comes back.
        document.step(-1, ROWS);
        assert!(document.toggle());
        assert_eq!(lines(&document), ["{ … }"]);
        assert!(document.toggle());
        assert_eq!(lines(&document), folded);
        assert!(!document.toggle_all());
        assert_eq!(lines(&document), whole);
        assert_eq!(document.plain(usize::MAX), whole.join("\n"));
    }

    #[test]
    fn unfolds_only_what_hides_a_match() {
        let mut document =
            of_json(r#"{"a":{"x":{"deep":"Straße"}},"b":{"y":1},"z":"STRASSE, straße"}"#);
        assert!(document.toggle_all());
        document.toggle();
        assert_eq!(
            document.search(&text("straSSe"), SearchStep::FromHere, ROWS),
            Some((1, 1))
        );
        assert_eq!(
            document.search(&text("straße"), SearchStep::FromHere, ROWS),
            Some((2, 2))
        );
        assert_eq!(
            document.search(&text("straße"), SearchStep::Next, ROWS),
            None
        );
        assert_eq!(
            document.search(&text("straße"), SearchStep::Previous, ROWS),
            Some((1, 2))
        );
        let shown = lines(&document);
        let is_shown = |line: &str| shown.iter().any(|other| other == line);
        assert!(is_shown(r#"      "deep": "Straße""#), "{shown:?}");
        assert!(is_shown(r#"  "b": { … },"#), "{shown:?}");
        assert_eq!(
            document.search(&text("nowhere"), SearchStep::FromHere, ROWS),
            None
        );
    }

    #[test]
    fn shows_context_above_a_distant_match() {
        let mut document = of_json(&format!("[{}\"end\"{}]", "1,".repeat(50), ",2".repeat(50)));
        assert_eq!(
            document.search(&text("end"), SearchStep::FromHere, ROWS),
            Some((1, 1))
        );
        assert_eq!((document.at, document.top(ROWS)), (51, 48));
        // A match that is already visible does not scroll.
        assert_eq!(
            document.search(&text("2"), SearchStep::FromHere, ROWS),
            Some((1, 50))
        );
        assert_eq!((document.at, document.top(ROWS)), (52, 48));
    }

    #[test]
    fn splits_a_long_line_but_searches_it_as_one() {
        let mut document = Document::default();
        let long = format!(
            "{}needle{}",
            "x".repeat(MAX_LINE_BYTES - 3),
            "é".repeat(MAX_LINE_BYTES)
        );
        document.push_text(&long);
        document.finish();
        assert_eq!(document.len(), 4);
        assert_eq!(
            document.search(&text("NEEDLE"), SearchStep::FromHere, 1),
            Some((1, 1))
        );
        assert_eq!(document.top(1), 0);
        assert_eq!(document.plain(usize::MAX), long);
    }

    #[test]
    fn handles_huge_depth_and_length() {
        let deep = of_json(&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)));
        assert_eq!(deep.len(), 200_001);
        assert!(deep.bytes() < 300_000);
        let mut long = of_json(&format!("[{}1]", "[1,2],".repeat(200_000)));
        assert!(long.is_cut);
        assert_eq!(long.len(), MAX_LINES);
        // The list whose end was cut off folds up to the cut.
        assert!(long.toggle());
        assert_eq!(long.len(), 1);
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<i64>().prop_map(serde_json::Value::from),
            "[a-cA-CßİΣ,\"\\\\{}\\[\\]: \n\u{1b}\u{202e}]{0,12}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
                prop::collection::vec(("[a-c\"]{0,3}", inner), 0..5)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// A walk through a document, each step a number that chooses.
    fn walk(document: &mut Document, steps: &[u8]) {
        for step in steps {
            match step % 6 {
                0 => document.step(1, ROWS),
                1 => document.step(-1, ROWS),
                2 => document.step(isize::from(*step), ROWS),
                3 => {
                    document.toggle_all();
                }
                4 => {
                    let which = if step % 2 == 0 {
                        SearchStep::Next
                    } else {
                        SearchStep::Previous
                    };
                    document.search(&text("a"), which, ROWS);
                }
                _ => {
                    document.toggle();
                }
            }
        }
    }

    proptest! {
        #[test]
        fn json_layout_matches_serde_json(value in any_json()) {
            let compact = of_json(&value.to_string());
            let laid_out = serde_json::to_string_pretty(&value).unwrap();
            let clean: Vec<String> = laid_out.lines().map(|line| text::clean_line(line).into_owned()).collect();
            prop_assert_eq!(lines(&compact), clean);
            prop_assert_eq!(of_json(&laid_out), compact);
        }

        #[test]
        fn unfolding_restores_all_lines(value in any_json(), steps in prop::collection::vec(any::<u8>(), 0..30)) {
            let fresh = of_json(&value.to_string());
            let mut walked = fresh.clone();
            walk(&mut walked, &steps);
            let here = walked.shown(walked.at).map(|line| line.is_here);
            prop_assert!(here.is_some(), "the cursor is on a visible line");
            let top = walked.top(ROWS);
            prop_assert!(!walked.is_navigable() || (top <= walked.at && walked.at < top + ROWS));
            prop_assert_eq!(walked.plain(usize::MAX), fresh.plain(usize::MAX));
            if walked.toggle_all() {
                walked.toggle_all();
            }
            prop_assert_eq!(lines(&walked), lines(&fresh));
        }

        #[test]
        fn toggling_a_fold_twice_changes_nothing(value in any_json(), steps in prop::collection::vec(any::<u8>(), 0..30)) {
            let mut walked = of_json(&value.to_string());
            walk(&mut walked, &steps);
            let before = lines(&walked);
            if walked.toggle() {
                prop_assert_ne!(lines(&walked), before.clone());
                walked.toggle();
            }
            prop_assert_eq!(lines(&walked), before);
        }

        #[test]
        fn search_agrees_with_a_plain_text_search(
            value in any_json(),
            query in "[a-cA-CßİΣ\":\\[]{1,3}",
            steps in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let mut document = of_json(&value.to_string());
            walk(&mut document, &steps);
            let plain = document.plain(usize::MAX);
            let small = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
            let expected = plain
                .lines()
                .map(str::trim_start)
                .filter(|line| {
                    // A match begins with a letter of the line.
                    let begins = line.char_indices().map(|(from, _)| line.get(from..).unwrap());
                    begins.into_iter().any(|rest| small(rest).starts_with(&small(&query)))
                })
                .count();
            if let Some((number, count)) = document.search(&text(&query), SearchStep::FromHere, ROWS) {
                prop_assert_eq!(count, expected);
                prop_assert!((1..=count).contains(&number));
                let here = document.shown(document.at).unwrap().text.into_owned();
                prop_assert!(text(&query).is_in(&here), "{} in {}", query, here);
            } else {
                prop_assert_eq!(expected, 0);
            }
        }

        #[test]
        fn layout_survives_arbitrary_text(text in "\\PC{0,60}", json in "[\\[\\]{}:,\"\\\\a1 \n]{0,40}") {
            for source in [text, json] {
                let document = of_json(&source);
                let long = document.plain(usize::MAX).len();
                prop_assert!(long >= document.bytes());
            }
        }
    }
}
