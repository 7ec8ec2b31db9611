//! A key press with what it means here.

use crate::{app::Action, domain::Chord};

/// A key press: the key, and what it is bound to in the current scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyPress {
    pub(super) chord: Chord,
    pub(super) action: Option<Action>,
}
