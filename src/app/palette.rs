//! The command palette (`:`). It uses the names of the command line's commands.

use super::keymap::{BINDINGS, Binding};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::keymap::Action;

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
