//! The search line.

use crate::app::{Field, State, input::moves::find_from_here, key_press::KeyPress, keymap::Action};

pub(in crate::app) fn search_key(state: &mut State, field: &mut Field, key: KeyPress) -> bool {
    match key.action {
        Some(Action::Accept) => {
            let typed = field.text().trim();
            state.detail.search = (!typed.is_empty()).then(|| typed.to_owned());
            if state.detail.search.is_some() {
                find_from_here(state);
            }
        }
        Some(Action::Back) => state.detail.search = None,
        _ => {
            field.key(key.chord);
            return true;
        }
    }
    false
}
