//! A key press with what it means here.

use crate::domain::{Chord, Stamp};

use super::keymap::Action;

/// A key press: the key, what it is bound to in the current scope, and when it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyPress {
    pub(super) chord: Chord,
    pub(super) action: Option<Action>,
    pub(super) now: Stamp,
}
