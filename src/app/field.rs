//! A text field, of one line or of several.

use tui_input::{Input, InputRequest};

use crate::domain::{Chord, Key};

/// The most bytes of text in a field; many more would slow down the screen.
const LIMIT: usize = 256 * 1024;

/// A text field with its cursor.
#[derive(Clone, Debug, Default)]
pub struct Field {
    input: Input,
    /// Whether it still has its untouched default.
    pub is_untouched: bool,
    /// Whether it is a multi-line field.
    pub has_lines: bool,
}

// Not derived: `Input` has no `PartialEq`.
impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        self.input.value() == other.input.value()
            && self.input.cursor() == other.input.cursor()
            && self.is_untouched == other.is_untouched
            && self.has_lines == other.has_lines
    }
}

impl Field {
    /// A field with the cursor at the end of `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self {
            input: Input::new(value.into()),
            ..Self::default()
        }
    }

    /// A multi-line field with the cursor at the start.
    pub fn lines(value: impl Into<String>) -> Self {
        Self {
            input: Input::new(value.into()).with_cursor(0),
            has_lines: true,
            ..Self::default()
        }
    }

    /// The line and column of the cursor, both from 0.
    pub fn cursor_position(&self) -> (usize, usize) {
        let before = self.before();
        let line = before.matches('\n').count();
        let column = before.chars().rev().take_while(|it| *it != '\n').count();
        (line, column)
    }

    /// Moves the cursor to a line and column, or to the end of a shorter line.
    pub(super) fn go_to(&mut self, line: usize, column: usize) {
        let mut cursor = 0;
        for (index, content) in self.text().split('\n').enumerate() {
            let length = content.chars().count();
            if index == line {
                cursor += column.min(length);
                break;
            }
            cursor += length + 1;
        }
        let most = self.text().chars().count();
        self.input.handle(InputRequest::SetCursor(cursor.min(most)));
    }

    /// Handles a key that moves between the lines or adds one; returns `false` for other keys, at the first and last line,
    /// and for Enter in an empty field.
    pub(super) fn line_key(&mut self, chord: Chord) -> bool {
        if !self.has_lines || chord.ctrl || chord.alt {
            return false;
        }
        let (line, column) = self.cursor_position();
        let last = self.text().matches('\n').count();
        match chord.key {
            Key::Enter if !self.is_empty() && self.text().len() < LIMIT => {
                self.input.handle(InputRequest::InsertChar('\n'));
            }
            Key::Up if line > 0 => self.go_to(line - 1, column),
            Key::Down if line < last => self.go_to(line + 1, column),
            Key::Home => self.go_to(line, 0),
            Key::End => self.go_to(line, usize::MAX),
            _ => return false,
        }
        true
    }

    /// A field with a default value, which the first typed letter or pasted text replaces.
    pub fn prefilled(value: impl Into<String>) -> Self {
        let field = Self::new(value);
        Self {
            is_untouched: !field.is_empty(),
            ..field
        }
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.input.value()
    }

    /// Whether nothing is typed.
    pub fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// The text before the cursor.
    pub fn before(&self) -> String {
        self.text().chars().take(self.input.cursor()).collect()
    }

    /// The text from the cursor on.
    pub fn after(&self) -> String {
        self.text().chars().skip(self.input.cursor()).collect()
    }

    /// Handles a key; returns `false` if a text field has no use for it.
    pub fn key(&mut self, chord: Chord) -> bool {
        use InputRequest as Do;
        let request = match (chord.key, chord.ctrl || chord.alt) {
            (Key::Backspace, false) => Do::DeletePrevChar,
            (Key::Backspace, true) => Do::DeletePrevWord,
            (Key::Delete, _) => Do::DeleteNextChar,
            (Key::Left, false) => Do::GoToPrevChar,
            (Key::Left, true) => Do::GoToPrevWord,
            (Key::Right, false) => Do::GoToNextChar,
            (Key::Right, true) => Do::GoToNextWord,
            (Key::Home, _) => Do::GoToStart,
            (Key::End, _) => Do::GoToEnd,
            (Key::Char('a'), _) if chord.ctrl => Do::GoToStart,
            (Key::Char('e'), _) if chord.ctrl => Do::GoToEnd,
            (Key::Char('w'), _) if chord.ctrl => Do::DeletePrevWord,
            (Key::Char('u'), _) if chord.ctrl => Do::DeleteLine,
            (Key::Char('k'), _) if chord.ctrl => Do::DeleteTillEnd,
            _ => match chord.typed() {
                Some(letter) if !letter.is_control() => {
                    if self.text().len() < LIMIT {
                        Do::InsertChar(letter)
                    } else {
                        return true;
                    }
                }
                _ => return false,
            },
        };
        // Moving or deleting edits the default; typing replaces it.
        if std::mem::take(&mut self.is_untouched) && matches!(request, Do::InsertChar(_)) {
            self.input.handle(Do::DeleteLine);
        }
        self.input.handle(request);
        true
    }

    /// Inserts pasted text; a single-line field joins the lines. Returns whether it fits; otherwise nothing is inserted.
    #[must_use]
    pub fn paste(&mut self, pasted: &str) -> bool {
        let kept = if self.is_untouched {
            0
        } else {
            self.text().len()
        };
        if kept + pasted.len() > LIMIT {
            return false;
        }
        if std::mem::take(&mut self.is_untouched) {
            self.input = Input::default();
        }
        // Everything else stays, as it does when it is typed: some scripts need invisible letters.
        let pasted = pasted.replace("\r\n", "\n");
        let letters = pasted.chars().map(|letter| match letter {
            '\n' | '\r' if self.has_lines => '\n',
            '\t' => '\t',
            _ if letter.is_control() => ' ',
            _ => letter,
        });
        let letters: String = letters.collect();
        let value = format!("{}{letters}{}", self.before(), self.after());
        let cursor = self.input.cursor() + letters.chars().count();
        self.input = Input::new(value).with_cursor(cursor);
        true
    }
}
