//! The search line.

use crate::app::{
    Field, Search, State, input::moves::find_from_here, key_press::KeyPress, keymap::Action,
};

pub(in crate::app) fn search_key(state: &mut State, field: &mut Field, key: KeyPress) -> bool {
    match key.action {
        Some(Action::Accept) => {
            state.detail.search = Search::new(field.text().trim());
            find_from_here(state);
        }
        Some(Action::Back) => state.detail.search = None,
        _ => {
            field.key(key.chord);
            return true;
        }
    }
    false
}
