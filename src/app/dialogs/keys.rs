//! Keys that several dialogs share.

use crate::{
    app::{Action, Field, FormField, State, keymap::pretty},
    domain::{Chord, Key},
};

/// Types into the line above a list and selects its first match; returns `false` to close the layer, which Backspace in
/// an empty line does.
pub(super) fn type_in(field: &mut Field, cursor: &mut usize, chord: Chord) -> bool {
    let was_empty = field.is_empty();
    field.key(chord);
    *cursor = 0;
    !was_empty || chord.key != Key::Backspace
}

/// Moves the selection of a list, if the key does that.
pub(in crate::app) fn moves(
    state: &State,
    action: Option<Action>,
    cursor: &mut usize,
    last: usize,
) -> bool {
    // Roughly the rows above the footer.
    let page = usize::from(state.size.1).saturating_sub(10).max(1);
    let moved = match action {
        Some(Action::NextField) => *cursor + 1,
        Some(Action::PreviousField) => cursor.saturating_sub(1),
        Some(Action::PageDown) => *cursor + page,
        Some(Action::PageUp) => cursor.saturating_sub(page),
        _ => return false,
    };
    *cursor = moved.min(last);
    true
}

/// The focus of a form after a key that moves it. Enter moves on like Tab, except at the end.
pub(in crate::app) fn walk(action: Option<Action>, at: usize, last: usize) -> Option<usize> {
    match action? {
        Action::NextField => Some((at + 1).min(last)),
        Action::PreviousField => Some(at.saturating_sub(1)),
        Action::Accept if at < last => Some(at + 1),
        _ => None,
    }
}

/// Handles a key on a field: types it or changes the choice.
pub(in crate::app) fn fill(
    state: &mut State,
    field: &mut FormField,
    action: Option<Action>,
    chord: Chord,
) {
    if let Some(typed) = field.typed() {
        typed.key(chord);
        return;
    }
    match action {
        Some(Action::PreviousChoice) => field.change(false),
        Some(Action::NextChoice) => field.change(true),
        _ if chord == Chord::char(' ') => field.toggle(),
        _ if chord.typed().is_some_and(|letter| field.jump_to(letter)) => {}
        _ => state.reply("Space or arrows to change; Enter for the next field"),
    }
}

/// Replies that a key was ignored because it came before the user could have read the dialog.
pub(super) fn ignore_early_key(state: &mut State, chord: Chord) {
    state.reply(format!(
        "ignored {}, because you pressed it before this appeared; press it again",
        pretty(chord)
    ));
}
