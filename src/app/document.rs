//! A long text as lines that fold, and the search in it.
//!
//! Owns how text and JSON are laid out in lines, what is folded away, where the reader stands and what a search finds.
//! Must not know of tasks, keys or columns. Invariants: every line is clean and short, so that a frame costs what its rows
//! cost; folding changes what is shown and never what is there; the place of the reader is a line that is shown.

use std::borrow::Cow;

use crate::domain::text;

/// Lines kept; the rest is in the session file.
const MAX_LINES: usize = 400_000;
/// Bytes of text kept.
const MAX_TEXT_BYTES: usize = 24 << 20;
/// Bytes of one line; what is longer goes on in further ones.
const MAX_LINE_BYTES: usize = 1024;
/// Columns of one step of indentation.
const INDENT: usize = 2;
/// Indentation beyond this is not written out: a text that is copied must not grow without bound by its depth.
const MAX_INDENT_STEPS: usize = 40;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Text or JSON, as it is.
    Plain,
    /// A line of Markdown.
    Markdown,
    /// A line of code inside Markdown, or what fences it in.
    Code,
    /// What is said of a part that is no text.
    Notice,
}

/// One line, without its indentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StoredLine {
    start: u32,
    depth: u16,
    kind: LineKind,
    /// It goes on from the line before.
    is_continuation: bool,
}

/// Lines that belong to the one above them: the inside of an object or array, and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fold {
    /// The line that stays.
    head: u32,
    /// The last line that goes.
    last: u32,
    items: u32,
    is_folded: bool,
}

/// A line as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentLine<'d> {
    /// Clean text without its indentation; of a fold that is closed, with what ends it.
    pub text: Cow<'d, str>,
    /// What it is.
    pub kind: LineKind,
    /// How far it is indented, in steps.
    pub depth: usize,
    /// Whether it can be folded, and whether it is.
    pub fold: Option<bool>,
    /// What a closed fold holds, e.g. `12 items`; else nothing.
    pub holds: String,
    /// Whether the reader stands here.
    pub is_here: bool,
}

/// A text in lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// All lines, one behind the other without line ends.
    text: String,
    lines: Vec<StoredLine>,
    /// By their heads.
    folds: Vec<Fold>,
    /// The lines with which the parts of a result begin, and which part each is; what belongs to none has no number.
    parts: Vec<(u32, Option<usize>)>,
    has_markdown: bool,
    has_non_text: bool,
    /// The lines that no fold hides.
    shown: Vec<u32>,
    /// The shown line on which the reader stands.
    at: usize,
    /// The first shown line on the screen.
    top: usize,
    is_cut: bool,
    /// What was searched for last, and the lines in which it begins.
    found: (String, Vec<u32>),
}

/// What a search leads to: the number of the match, from 1, and how many there are.
pub type Match = (usize, usize);

impl Document {
    /// Whether something was left out, because there is too much of it.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

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

    /// Whether lines are walked through, not only read: there is something that folds, or something to take out.
    pub fn is_navigable(&self) -> bool {
        self.has_folds() || self.has_non_text
    }

    /// Whether there is something that folds.
    pub fn has_folds(&self) -> bool {
        !self.folds.is_empty()
    }

    /// Whether there is a part that is no text.
    pub fn has_non_text(&self) -> bool {
        self.has_non_text
    }

    /// Whether there is Markdown, which can be shown as it was written too.
    pub fn has_markdown(&self) -> bool {
        self.has_markdown
    }

    /// The part of the result in which the reader stands.
    pub(super) fn part_here(&self) -> Option<usize> {
        let here = self.here();
        let next = self.parts.partition_point(|(first, _)| *first <= here);
        self.parts.get(next.checked_sub(1)?)?.1
    }

    /// Begins a part of the result.
    pub(super) fn begin_part(&mut self, number: Option<usize>) {
        self.parts.push((index(self.lines.len()), number));
    }

    /// Adds a text of any kind.
    pub(super) fn push_text(&mut self, words: &str) {
        self.push_lines(words, LineKind::Plain);
    }

    /// Adds what is said of a part that is no text.
    pub(super) fn push_notice(&mut self, words: &str) {
        self.has_non_text = true;
        self.push_lines(words, LineKind::Notice);
    }

    /// Adds Markdown.
    pub(super) fn push_markdown(&mut self, words: &str) {
        self.has_markdown = true;
        let mut fence = "";
        for line in words.lines() {
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
            // An empty line is no line to `lines`.
            if line.is_empty() {
                self.push("", 0, kind);
            }
        }
    }

    fn push_lines(&mut self, words: &str, kind: LineKind) {
        for line in words.lines() {
            let line = text::clean_block(line);
            self.push(&line, 0, kind);
        }
    }

    /// Adds the text of a JSON value, laid out; other text is added as it is.
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
                        // The line that is begun here.
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
        // What was cut off in the middle folds up to the cut.
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

    /// Adds one line, in pieces if it is long.
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
            let end = (0..=MAX_LINE_BYTES.min(rest.len()))
                .rev()
                .find(|end| rest.is_char_boundary(*end))
                .unwrap_or(rest.len());
            let (piece, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            self.lines.push(StoredLine {
                start: index(self.text.len()),
                depth: u16::try_from(depth).unwrap_or(u16::MAX),
                kind,
                is_continuation,
            });
            self.text.push_str(piece);
            rest = after;
            is_continuation = true;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Makes it ready to be read; nothing is added after.
    pub(super) fn finish(&mut self) {
        self.text.shrink_to_fit();
        self.lines.shrink_to_fit();
        // A fold without a line that goes would do nothing.
        self.folds.retain(|fold| fold.last > fold.head);
        self.folds.shrink_to_fit();
        self.update_shown();
    }

    fn line(&self, number: usize) -> &str {
        let start = |number: usize| {
            self.lines
                .get(number)
                .map_or(self.text.len(), |line| line.start as usize)
        };
        self.text
            .get(start(number)..start(number + 1))
            .unwrap_or_default()
    }

    /// A shown line.
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

    /// All lines as one text, nothing folded; of a long one the first `limit` lines.
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

    /// The first line on a screen of `rows`.
    pub fn top(&self, rows: usize) -> usize {
        let rows = rows.max(1);
        let top = self.top.min(self.shown.len().saturating_sub(rows));
        if self.is_navigable() {
            top.clamp((self.at + 1).saturating_sub(rows), self.at)
        } else {
            top
        }
    }

    /// Moves the reader, or what is read where there is no place to go to, over a screen of `rows`.
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

    /// Folds what the reader stands on or in, or unfolds it; `false` if nothing there folds.
    pub(super) fn toggle(&mut self) -> bool {
        let Some(&number) = self.shown.get(self.at) else {
            return false;
        };
        let row = self.fold_at(number).or_else(|| {
            // The innermost is the last that begins before and ends after.
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

    /// Folds everything, or unfolds it if anything is folded; tells whether it is folded now.
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

    /// Works out which lines are shown.
    fn update_shown(&mut self) {
        self.shown.clear();
        let mut folds = self.folds.iter().filter(|fold| fold.is_folded).peekable();
        let mut number = 0;
        let end = index(self.lines.len());
        while number < end {
            self.shown.push(number);
            // Folds inside one that is closed are passed over with it.
            while folds.next_if(|fold| fold.head < number).is_some() {}
            number = match folds.next_if(|fold| fold.head == number) {
                Some(fold) => fold.last + 1,
                None => number + 1,
            };
        }
        self.at = self.at.min(self.shown.len().saturating_sub(1));
    }

    /// Puts the reader on a line, or on what it is folded into.
    fn move_to_line(&mut self, number: u32) {
        self.at = self
            .shown
            .partition_point(|shown| *shown <= number)
            .saturating_sub(1);
    }

    /// Looks for words from where the reader stands, that line included, and goes to the first match; after the last
    /// comes the first.
    pub(super) fn search(&mut self, words: &str, rows: usize) -> Option<Match> {
        let here = self.here();
        self.find_matches(words);
        let hits = &self.found.1;
        let next = hits.partition_point(|hit| *hit < here);
        let next = if next < hits.len() { next } else { 0 };
        self.go_to_hit(next, rows)
    }

    /// Goes to the next match, or to the one before; `None` if there is none that way.
    pub(super) fn search_next(&mut self, words: &str, forward: bool, rows: usize) -> Option<Match> {
        let here = self.here();
        self.find_matches(words);
        let hits = &self.found.1;
        let next = if forward {
            hits.partition_point(|hit| *hit <= here)
        } else {
            hits.partition_point(|hit| *hit < here).checked_sub(1)?
        };
        self.go_to_hit(next, rows)
    }

    /// In how many lines the words begin that were searched for last.
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
            // With a few lines above it, to see where it belongs.
            self.top = self.at.saturating_sub(rows / 3);
        }
        self.top = self.top(rows);
        Some((hit + 1, self.found.1.len()))
    }

    /// Notes every line in which a match begins, whatever is folded.
    fn find_matches(&mut self, words: &str) {
        if self.found.0 == words {
            return;
        }
        let mut hits = Vec::new();
        let mut number = 0;
        while number < self.lines.len() {
            // A line in pieces is searched as one.
            let mut end = number + 1;
            while self.lines.get(end).is_some_and(|line| line.is_continuation) {
                end += 1;
            }
            let start = |at: usize| {
                self.lines
                    .get(at)
                    .map_or(self.text.len(), |line| line.start as usize)
            };
            let first = start(number);
            let whole = self.text.get(first..start(end)).unwrap_or_default();
            if end == number + 1 {
                if finds(whole, words) {
                    hits.push(index(number));
                }
            } else {
                let mut piece = number;
                for (from, _) in matches_in(whole, words) {
                    while piece + 1 < end && start(piece + 1) <= first + from {
                        piece += 1;
                    }
                    if hits.last() != Some(&index(piece)) {
                        hits.push(index(piece));
                    }
                }
            }
            number = end;
        }
        self.found = (words.to_owned(), hits);
    }
}

fn index(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The length of the first token of JSON that was found to be right.
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

/// A string of JSON with the letters that many servers write as numbers.
fn readable(quoted: &str) -> Cow<'_, str> {
    if !quoted.contains("\\u") {
        return Cow::Borrowed(quoted);
    }
    let read = serde_json::from_str::<String>(quoted);
    let written = read.and_then(|read| serde_json::to_string(&read));
    written.map_or(Cow::Borrowed(quoted), Cow::Owned)
}

/// Whether a text is clearly Markdown by its shape: it has signs of it of more than one kind.
pub(super) fn is_markdown(words: &str) -> bool {
    let (mut headings, mut fences, mut lists, mut marks) = (false, 0, 0, false);
    // What it is shows at its beginning.
    for line in words.lines().take(200) {
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

/// Whether a line has what is searched for, without regard to case.
pub fn finds(line: &str, search: &str) -> bool {
    !matches_from(line, search, true).is_empty() || search.is_empty()
}

/// Where in a line the matches stand, in bytes from and to, without regard to case; they do not overlap.
pub fn matches_in(line: &str, search: &str) -> Vec<(usize, usize)> {
    matches_from(line, search, false)
}

fn matches_from(line: &str, search: &str, only_one: bool) -> Vec<(usize, usize)> {
    let mut matches = Vec::new();
    if search.is_empty() {
        return matches;
    }
    if line.is_ascii() && search.is_ascii() {
        let (line, search) = (line.as_bytes(), search.as_bytes());
        let Some(first) = search.first() else {
            return matches;
        };
        let begins =
            memchr::memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), line);
        let mut past = 0;
        for from in begins {
            let to = from + search.len();
            let here = line.get(from..to).unwrap_or_default();
            if from >= past && here.eq_ignore_ascii_case(search) {
                matches.push((from, to));
                past = to;
                if only_one {
                    break;
                }
            }
        }
        return matches;
    }
    let small: Vec<char> = search.chars().flat_map(char::to_lowercase).collect();
    let mut past = 0;
    for (from, _) in line.char_indices() {
        let rest = line.get(from..).unwrap_or_default();
        if from >= past
            && let Some(long) = match_of(rest, &small)
        {
            past = from + long;
            matches.push((from, past));
            if only_one {
                break;
            }
        }
    }
    matches
}

/// How many bytes at the beginning of a text match these small letters.
fn match_of(text: &str, small: &[char]) -> Option<usize> {
    let mut left = small;
    let mut long = 0;
    for letter in text.chars() {
        long += letter.len_utf8();
        for one in letter.to_lowercase() {
            match left.split_first() {
                Some((first, after)) if *first == one => left = after,
                Some(_) => return None,
                None => break,
            }
        }
        if left.is_empty() {
            return Some(long);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ROWS: usize = 10;

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
    fn json_is_laid_out_and_folds() {
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
    fn a_match_in_what_is_folded_unfolds_it_and_no_more() {
        let mut document =
            of_json(r#"{"a":{"x":{"deep":"Straße"}},"b":{"y":1},"z":"STRASSE, straße"}"#);
        assert!(document.toggle_all());
        document.toggle();
        assert_eq!(document.search("straSSe", ROWS), Some((1, 1)));
        assert_eq!(document.search("straße", ROWS), Some((2, 2)));
        assert_eq!(document.search_next("straße", true, ROWS), None);
        assert_eq!(document.search_next("straße", false, ROWS), Some((1, 2)));
        let shown = lines(&document);
        let is_shown = |line: &str| shown.iter().any(|other| other == line);
        assert!(is_shown(r#"      "deep": "Straße""#), "{shown:?}");
        assert!(is_shown(r#"  "b": { … },"#), "{shown:?}");
        assert_eq!(document.search("nowhere", ROWS), None);
    }

    #[test]
    fn a_match_that_is_far_away_is_shown_with_what_stands_before_it() {
        let mut document = of_json(&format!("[{}\"end\"{}]", "1,".repeat(50), ",2".repeat(50)));
        assert_eq!(document.search("end", ROWS), Some((1, 1)));
        assert_eq!((document.at, document.top(ROWS)), (51, 48));
        // What is on the screen already does not move.
        assert_eq!(document.search("2", ROWS), Some((1, 50)));
        assert_eq!((document.at, document.top(ROWS)), (52, 48));
    }

    #[test]
    fn a_line_without_end_goes_on_in_further_ones_and_is_searched_as_one() {
        let mut document = Document::default();
        let long = format!(
            "{}needle{}",
            "x".repeat(MAX_LINE_BYTES - 3),
            "é".repeat(MAX_LINE_BYTES)
        );
        document.push_text(&long);
        document.finish();
        assert_eq!(document.len(), 4);
        assert_eq!(document.search("NEEDLE", 1), Some((1, 1)));
        assert_eq!(document.top(1), 0);
        assert_eq!(document.plain(usize::MAX), long);
    }

    #[test]
    fn depth_and_length_without_measure_cost_little() {
        let deep = of_json(&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)));
        assert_eq!(deep.len(), 200_001);
        assert!(deep.bytes() < 300_000);
        let mut long = of_json(&format!("[{}1]", "[1,2],".repeat(200_000)));
        assert!(long.is_cut());
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
                    document.search_next("a", step % 2 == 0, ROWS);
                }
                _ => {
                    document.toggle();
                }
            }
        }
    }

    proptest! {
        #[test]
        fn json_reads_as_it_was_meant(value in any_json()) {
            let compact = of_json(&value.to_string());
            let laid_out = serde_json::to_string_pretty(&value).unwrap();
            let clean: Vec<String> = laid_out.lines().map(|line| text::clean_line(line).into_owned()).collect();
            prop_assert_eq!(lines(&compact), clean);
            prop_assert_eq!(of_json(&laid_out), compact);
        }

        #[test]
        fn whatever_was_folded_comes_back(value in any_json(), steps in prop::collection::vec(any::<u8>(), 0..30)) {
            let fresh = of_json(&value.to_string());
            let mut walked = fresh.clone();
            walk(&mut walked, &steps);
            let here = walked.shown(walked.at).map(|line| line.is_here);
            prop_assert!(here.is_some(), "the reader stands on a line that is shown");
            let top = walked.top(ROWS);
            prop_assert!(!walked.is_navigable() || (top <= walked.at && walked.at < top + ROWS));
            prop_assert_eq!(walked.plain(usize::MAX), fresh.plain(usize::MAX));
            if walked.toggle_all() {
                walked.toggle_all();
            }
            prop_assert_eq!(lines(&walked), lines(&fresh));
        }

        #[test]
        fn a_fold_that_is_closed_and_opened_changes_nothing(value in any_json(), steps in prop::collection::vec(any::<u8>(), 0..30)) {
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
        fn a_search_finds_what_a_plain_one_finds(
            value in any_json(),
            words in "[a-cA-CßİΣ\":\\[]{1,3}",
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
                    begins.into_iter().any(|rest| small(rest).starts_with(&small(&words)))
                })
                .count();
            if let Some((number, count)) = document.search(&words, ROWS) {
                prop_assert_eq!(count, expected);
                prop_assert!((1..=count).contains(&number));
                let here = document.shown(document.at).unwrap().text.into_owned();
                prop_assert!(finds(&here, &words), "{} in {}", words, here);
            } else {
                prop_assert_eq!(expected, 0);
            }
        }

        #[test]
        fn nothing_a_server_sends_breaks_the_layout(words in "\\PC{0,60}", json in "[\\[\\]{}:,\"\\\\a1 \n]{0,40}") {
            for text in [words, json] {
                let document = of_json(&text);
                let long = document.plain(usize::MAX).len();
                prop_assert!(long >= document.bytes());
            }
        }
    }
}
