//! The search line.

use crate::app::{Action, Field, KeyPress, Search, SearchStep, State, input::moves::find};

pub(in crate::app) fn search_key(state: &mut State, field: &mut Field, key: KeyPress) -> bool {
    match key.action {
        Some(Action::Accept) => {
            let typed = field.text().trim();
            state.detail.search = Search::new(typed);
            if state.detail.search.is_none() && !typed.is_empty() {
                state.reply("this text is too long to search for");
            }
            find(state, SearchStep::FromHere);
        }
        Some(Action::Back) => state.detail.search = None,
        _ => {
            field.key(key.chord);
            return true;
        }
    }
    false
}
