//! Case-insensitive search in lines of text.

use core::ops::Range;

use regex::{Regex, RegexBuilder};

/// Which match to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchStep {
    /// The first one from here on, or else the first of all.
    FromHere,
    /// The next one: back in time in a log, down in a text.
    Next,
    /// The previous one.
    Previous,
}

/// A text to search for, ignoring case.
#[derive(Clone, Debug)]
pub struct Search {
    text: String,
    pattern: Regex,
}

impl Search {
    /// `None` for an empty text, or one of thousands of letters.
    pub fn new(text: &str) -> Option<Self> {
        let mut pattern = RegexBuilder::new(&regex::escape(text));
        let pattern = pattern.case_insensitive(true).size_limit(1 << 20);
        let pattern = pattern.build().ok()?;
        let text = text.to_owned();
        (!text.is_empty()).then_some(Self { text, pattern })
    }

    /// The text as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a line contains the text.
    pub fn is_in(&self, line: &str) -> bool {
        self.pattern.is_match(line)
    }

    /// The byte ranges of the non-overlapping matches in a line.
    pub fn matches_in(&self, line: &str) -> impl Iterator<Item = Range<usize>> {
        self.pattern.find_iter(line).map(|found| found.range())
    }
}

impl PartialEq for Search {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_for_any_text_that_is_not_huge() {
        for text in ["K", "é", "\u{1F469}", "(["] {
            let text = text.repeat(1000);
            assert!(Search::new(&text).unwrap().is_in(&text.to_lowercase()));
            assert_eq!(Search::new(&text.repeat(60)), None);
        }
        assert_eq!(Search::new(""), None);
    }
}
