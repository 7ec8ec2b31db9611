//! The keys and commands (`?` and `:`). Commands have the names of the command line.

use crate::app::{
    Action, Field, KeyPress, State,
    input::{actions::perform_named, command_line::run_line},
};

use super::keys::{moves, type_in};

pub(in crate::app) fn commands_key(
    state: &mut State,
    field: &mut Field,
    cursor: &mut usize,
    key: KeyPress,
) -> bool {
    let found = state.setup.settings.keys.found(field.text());
    if moves(state, key.action, cursor, found.last()) {
        return true;
    }
    match key.action {
        Some(Action::Back) => return false,
        Some(Action::Accept) => {}
        _ => return type_in(field, cursor, key.chord),
    }
    let typed = field.text().trim();
    // A row that the user moved to is meant, whatever is typed.
    if *cursor == 0 && run_line(state, typed) {
        return false;
    }
    let word = typed.split_whitespace().next().unwrap_or_default();
    match found.at(*cursor).map(|(_, binding)| binding) {
        None if found.last() > 0 => {
            state.reply("no command has this name; press Down to select one from the list");
        }
        None => state.reply("not a screen command; run other longhaul commands in a shell"),
        // An argument must not be dropped silently.
        Some(binding) if *cursor == 0 && word != typed && binding.command.starts_with(word) => {
            state.reply(format!("`{}` takes no arguments here", binding.command));
        }
        Some(binding) if !binding.acts_on_panes() => {
            let place = binding.scopes.first().map_or("", |scope| scope.title());
            let key = state.setup.settings.keys.first_key(binding);
            state.reply(format!("{key} works {}", place.to_lowercase()));
        }
        Some(binding) => {
            perform_named(state, binding);
            return false;
        }
    }
    true
}
