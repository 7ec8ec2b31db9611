//! The filter line.

use crate::app::{Field, Filter, Overlay, State, key_press::KeyPress, keymap::Action, select};

pub(in crate::app) fn filter_key(
    state: &mut State,
    mut field: Field,
    key: KeyPress,
) -> Option<Overlay> {
    match key.action {
        Some(Action::Accept) => {
            if state.list.rows.is_empty() && !state.list.filter.is_empty() {
                state.reply_until_rows("no matching tasks; Esc clears the filter");
            }
            None
        }
        Some(Action::Back) => {
            apply_filter(state, "");
            None
        }
        _ => {
            field.key(key.chord);
            let typed = field.text().to_owned();
            apply_filter(state, &typed);
            Some(Overlay::Filter(field))
        }
    }
}

pub(in crate::app) fn apply_filter(state: &mut State, typed: &str) {
    state.list.filter = Filter::parse(typed);
    select::arrange(state);
}
