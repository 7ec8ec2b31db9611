//! The filter line.

use crate::app::{Action, Field, Filter, KeyPress, State, select};

pub(in crate::app) fn filter_key(state: &mut State, field: &mut Field, key: KeyPress) -> bool {
    match key.action {
        Some(Action::Accept) => {
            // What was found stays selected when the filter is cleared.
            state.list.wanted = None;
        }
        Some(Action::Back) => apply_filter(state, ""),
        _ => {
            field.key(key.chord);
            apply_filter(state, field.text());
            return true;
        }
    }
    false
}

pub(in crate::app) fn apply_filter(state: &mut State, typed: &str) {
    state.list.filter = Filter::parse(typed);
    select::arrange(state);
}
