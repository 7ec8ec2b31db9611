//! What the user does at the terminal, as a value that the terminal's edge makes and the screen's state takes.

use super::Chord;

/// Something the user did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserInput {
    /// Pressed a key, or kept it pressed.
    Key(Chord),
    /// Pasted text, with line ends as `\n`; never to be taken for keys.
    Paste(String),
    /// Used the mouse at a column and a row of the terminal, from 0.
    Mouse(MouseAction, u16, u16),
    /// Changed the size of the terminal to so many columns and rows.
    Resize(u16, u16),
    /// Came to our window.
    FocusGained,
    /// Went to another one.
    FocusLost,
}

/// What was done with the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseAction {
    /// The left button was pressed.
    Press,
    /// The wheel was turned away from the user.
    WheelUp,
    /// The wheel was turned towards the user.
    WheelDown,
}
