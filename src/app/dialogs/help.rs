//! The list of key bindings.

use crate::{
    app::{
        Command, Field, Overlay, State, input::actions::perform, key_press::KeyPress,
        keymap::Action,
    },
    domain::text,
};

use super::keys::{chosen_after, type_in};

pub(in crate::app) fn help_key(
    state: &mut State,
    mut field: Field,
    cursor: usize,
    key: KeyPress,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    let page = state.setup.keys.help_page(state.size.0, field.text());
    // Only the last line of a wrapped entry carries its binding.
    let found: Vec<_> = page.iter().filter_map(|line| line.binding).collect();
    let last = found.last().map_or(0, |(index, _)| *index);
    // Roughly the rows above the footer.
    let rows = usize::from(state.size.1).saturating_sub(10).max(1);
    if let Some(cursor) = chosen_after(key.action, cursor, last, rows) {
        return Some(Overlay::Help { field, cursor });
    }
    match key.action {
        Some(Action::Back) => None,
        Some(Action::Accept) => {
            match found.iter().find(|(index, _)| *index == cursor) {
                Some((_, binding)) if !binding.acts_on_panes() => {
                    let index = binding.scopes.first().map_or("", |scope| scope.title());
                    let key = state.setup.keys.first_key(binding);
                    state.reply(format!("{key} works {}", index.to_lowercase()));
                    return Some(Overlay::Help { field, cursor });
                }
                Some((_, binding)) => perform(state, binding.action, key.now, effects),
                None => {
                    let typed = text::clean_line(field.text()).into_owned();
                    state.reply(format!("no key or command matches {typed:?}"));
                    return Some(Overlay::Help { field, cursor });
                }
            }
            None
        }
        _ if type_in(&mut field, key.chord) => None,
        _ => Some(Overlay::Help { field, cursor: 0 }),
    }
}
