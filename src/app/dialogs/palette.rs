//! The command palette (`:`). It uses the names of the command line's commands.

use crate::app::{
    Field, State,
    input::{actions::perform_named, command_line::run_line},
    keymap::{Action, BINDINGS, Binding, KeyPress},
    typed_line,
};

use super::keys::{moves, type_in};

/// The commands that match the input, best first.
pub fn matches(typed: &str) -> Vec<&'static Binding> {
    let typed = typed.trim().to_lowercase();
    let word = typed.split_whitespace().next().unwrap_or_default();
    let named = || {
        BINDINGS
            .iter()
            .filter(|binding| !binding.command.is_empty())
    };
    let mut found: Vec<&'static Binding> = Vec::new();
    // Exact names first, then prefixes, then matches in the description.
    let rules: [&dyn Fn(&Binding) -> bool; 3] = [
        &|binding| binding.command == word,
        &|binding| binding.command.starts_with(word),
        &|binding| binding.help.contains(&typed) || binding.label.contains(&typed),
    ];
    for rule in rules {
        for binding in named().filter(|binding| rule(binding)) {
            if !found.iter().any(|known| known.action == binding.action) {
                found.push(binding);
            }
        }
    }
    found
}

pub(in crate::app) fn palette_key(
    state: &mut State,
    field: &mut Field,
    cursor: &mut usize,
    key: KeyPress,
) -> bool {
    let matches = matches(field.text());
    if moves(state, key.action, cursor, matches.len().saturating_sub(1)) {
        return true;
    }
    match key.action {
        Some(Action::Back) => {}
        Some(Action::Accept) => {
            let typed = field.text().trim();
            if !run_line(state, typed) {
                let word = typed.split_whitespace().next().unwrap_or_default();
                match matches.get(*cursor) {
                    _ if typed_line::IN_A_SHELL.contains(&word) => {
                        let flags = &state.setup.flags;
                        state.reply(format!("run `longhaul {typed}{flags}` in a shell"));
                    }
                    Some(binding) if binding.command == word && word != typed => {
                        state.reply(format!("`{word}` takes no arguments here"));
                    }
                    Some(binding) => perform_named(state, binding),
                    None => {
                        let key = state.key(Action::Palette);
                        state.reply(format!(
                            "unknown command {typed:?}; {key} lists the commands"
                        ));
                    }
                }
            }
        }
        _ => return type_in(field, cursor, key.chord),
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_names_find_their_actions() {
        for (word, action) in [
            ("pause", Action::Pause),
            ("again", Action::RunAgain),
            ("rm", Action::Forget),
            ("ls", Action::ShowTasks),
            ("cancel", Action::Cancel),
            ("call forecast", Action::NewCall),
        ] {
            assert_eq!(
                matches(word).first().map(|b| b.action),
                Some(action),
                "{word}"
            );
        }
        assert!(matches("no such thing at all").is_empty());
    }
}
