//! Terminal input as values: `term` produces them, `app` consumes them.

use super::Chord;

/// One action of the user in the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserInput {
    /// A key press or repeat.
    Key(Chord),
    /// Pasted text, with line ends as `\n`; never interpreted as keys.
    Paste(String),
    /// The terminal's new size in columns and rows.
    Resize(u16, u16),
    /// The terminal window got the focus.
    FocusGained,
    /// The terminal window lost the focus.
    FocusLost,
}
