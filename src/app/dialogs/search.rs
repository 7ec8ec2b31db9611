//! The search line.

use crate::app::{
    Field, Overlay, State, input::moves::find_from_here, key_press::KeyPress, keymap::Action,
};

pub(in crate::app) fn search_key(
    state: &mut State,
    mut field: Field,
    key: KeyPress,
) -> Option<Overlay> {
    match key.action {
        Some(Action::Accept) => {
            let typed = field.text().trim().to_owned();
            if typed.is_empty() {
                state.detail.search = None;
            } else {
                state.detail.search = Some(typed);
                find_from_here(state);
            }
            None
        }
        Some(Action::Back) => {
            state.detail.search = None;
            None
        }
        _ => {
            field.key(key.chord);
            Some(Overlay::Search(field))
        }
    }
}
