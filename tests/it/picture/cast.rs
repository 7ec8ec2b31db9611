//! A recording of a terminal: asciicast, version 2, as players of it read it.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};

/// What a terminal showed, and when.
#[derive(Debug)]
pub(crate) struct Cast {
    text: String,
    /// When the present terminal was opened.
    begin: Duration,
    /// Up to when something was shown.
    end: Duration,
}

impl Cast {
    /// An empty one of so many columns and rows.
    pub(crate) fn new((columns, rows): (u16, u16), title: &str) -> Self {
        let head = json!({
            "version": 2, "width": columns, "height": rows, "title": title,
            "env": {"TERM": "xterm-256color"},
        });
        Self {
            text: format!("{head}\n"),
            begin: Duration::ZERO,
            end: Duration::ZERO,
        }
    }

    /// Adds all that one terminal showed: bytes, and up to which of them had come so long after it was opened.
    pub(crate) fn add(&mut self, bytes: &[u8], came: &[(Duration, usize)]) {
        if self.end > self.begin {
            // What the one before has left there.
            self.event(self.end, "\u{1b}c");
        }
        self.begin = self.end;
        let mut shown = 0;
        for &(after, count) in came {
            // A letter whose other half was still to come waits for it.
            let part = bytes.get(shown..count).unwrap_or_default();
            let whole = match std::str::from_utf8(part) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => part.len(),
            };
            let part = part.get(..whole).unwrap_or_default();
            if !part.is_empty() {
                self.event(self.begin + after, &String::from_utf8_lossy(part));
                shown += whole;
            }
        }
    }

    fn event(&mut self, at: Duration, text: &str) {
        self.end = at;
        let millis = u32::try_from(at.as_millis()).unwrap();
        let line = json!([f64::from(millis) / 1000.0, "o", text]);
        writeln!(self.text, "{line}").unwrap();
    }

    /// The recording as a file holds it.
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// A recording that is being played.
pub(crate) struct Replay {
    screen: vt100::Parser,
    events: std::vec::IntoIter<String>,
}

impl Replay {
    pub(crate) fn of(text: &str) -> Self {
        let mut lines = text.lines();
        let head: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(head["version"], 2, "{head}");
        let side = |name: &str| u16::try_from(head[name].as_u64().unwrap()).unwrap();
        let (rows, columns) = (side("height"), side("width"));
        let mut last = 0.0;
        let mut shown = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            let at = event[0].as_f64().unwrap();
            assert!(at >= last, "time runs backwards at {line}");
            last = at;
            event[2].as_str().unwrap().to_owned()
        };
        let events: Vec<String> = lines.map(&mut shown).collect();
        Self {
            screen: vt100::Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0),
            events: events.into_iter(),
        }
    }

    /// Plays until a line of the screen has all of this in it.
    pub(crate) fn until(&mut self, words: &[String]) {
        while !super::script::is_shown(self.screen.screen(), words) {
            let Some(event) = self.events.next() else {
                panic!(
                    "the recording does not show {words:?}; it ends with:\n{}",
                    self.screen.screen().contents()
                );
            };
            self.screen.process(event.as_bytes());
        }
    }
}
