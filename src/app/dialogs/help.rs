//! The list of key bindings.

use crate::{
    app::{Action, Field, KeyPress, State, input::actions::perform_named},
    domain::text,
};

use super::keys::{moves, type_in};

pub(in crate::app) fn help_key(
    state: &mut State,
    field: &mut Field,
    cursor: &mut usize,
    key: KeyPress,
) -> bool {
    let keys = &state.setup.settings.keys;
    let page = keys.help_page(state.size.0, field.text());
    // Only the last line of a wrapped entry carries its binding.
    let found: Vec<_> = page.iter().filter_map(|line| line.binding).collect();
    let last = found.last().map_or(0, |(index, _)| *index);
    if moves(state, key.action, cursor, last) {
        return true;
    }
    match key.action {
        Some(Action::Back) => return false,
        Some(Action::Accept) => match found.iter().find(|(index, _)| *index == *cursor) {
            Some((_, binding)) if !binding.acts_on_panes() => {
                let index = binding.scopes.first().map_or("", |scope| scope.title());
                let key = state.setup.settings.keys.first_key(binding);
                state.reply(format!("{key} works {}", index.to_lowercase()));
            }
            Some((_, binding)) => {
                perform_named(state, binding);
                return false;
            }
            None => {
                let typed = text::clean_line(field.text()).into_owned();
                state.reply(format!("no key or command matches {typed:?}"));
            }
        },
        _ => return type_in(field, cursor, key.chord),
    }
    true
}
