//! The default key bindings, and the bindings with the user's overrides. Key handling, the footer, the list of keys and
//! commands, and every message that names a key use them.

mod action;
mod bindings;
mod key_override;

use std::collections::BTreeMap;

use itertools::Itertools as _;

use crate::domain::{Chord, Key};

pub use action::{Action, Scope};
pub use bindings::{BINDINGS, Binding};
pub use key_override::KeyOverride;

/// The rank of a line of which only the description matches.
const DESCRIPTION_RANK: usize = 3;

/// A key press: the key, and what it is bound to in the current scope.
#[derive(Clone, Copy, Debug)]
pub(in crate::app) struct KeyPress {
    pub(in crate::app) chord: Chord,
    pub(in crate::app) action: Option<Action>,
}

/// A line in the list of keys and commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelpLine {
    /// The keys, or the command if it has no key; empty in a title.
    pub keys: String,
    /// What they do, or the title.
    pub text: String,
    /// The binding; `None` for a title.
    pub binding: Option<&'static Binding>,
}

impl HelpLine {
    fn title(text: &str) -> Self {
        Self {
            keys: String::new(),
            text: text.to_owned(),
            binding: None,
        }
    }
}

/// The lines for a typed text.
#[derive(Clone, Debug)]
pub struct FoundLines {
    /// The lines, best first.
    pub lines: Vec<HelpLine>,
    /// Whether Enter runs the first one: it has the typed name or key, or nothing is typed. Otherwise only descriptions
    /// match, and none is selected until the user moves to one.
    pub is_named: bool,
}

impl FoundLines {
    /// The index of the line at the cursor, and its binding.
    pub fn at(&self, cursor: usize) -> Option<(usize, &'static Binding)> {
        let at = cursor.checked_sub(usize::from(!self.is_named))?;
        self.bound().nth(at)
    }

    /// The highest cursor.
    pub fn last(&self) -> usize {
        (self.bound().count()).saturating_sub(usize::from(self.is_named))
    }

    fn bound(&self) -> impl Iterator<Item = (usize, &'static Binding)> {
        let lines = self.lines.iter().enumerate();
        lines.filter_map(|(index, line)| Some((index, line.binding?)))
    }
}

/// The key bindings in use: the defaults with the user's overrides.
#[derive(Clone, Debug, PartialEq)]
pub struct Keymap {
    /// Every binding with its keys; the first one is shown.
    rows: Vec<(&'static Binding, Vec<Chord>)>,
    /// The action of each chord in each scope.
    actions: BTreeMap<(Scope, Chord), Action>,
}

impl Default for Keymap {
    fn default() -> Self {
        let rows = BINDINGS.iter();
        let rows = rows.map(|binding| (binding, binding.defaults()));
        Self::new(rows.collect())
    }
}

impl Keymap {
    fn new(rows: Vec<(&'static Binding, Vec<Chord>)>) -> Self {
        let mut actions = BTreeMap::new();
        for (binding, chords) in &rows {
            for scope in binding.scopes {
                let keys = chords.iter().map(|chord| (*scope, *chord));
                actions.extend(keys.map(|key| (key, binding.action)));
            }
        }
        Self { rows, actions }
    }

    /// The action of a chord in a scope.
    pub fn lookup(&self, scope: Scope, chord: Chord) -> Option<Action> {
        self.actions.get(&(scope, chord)).copied()
    }

    /// An action's binding in a scope and the label of its first key, if it has one.
    pub fn key_of(&self, scope: Scope, action: Action) -> Option<(&'static Binding, String)> {
        let (binding, chords) = self.row(scope, action)?;
        Some((binding, pretty(*chords.first()?)))
    }

    /// The label of an action's key for messages: its key in this scope, else in another one, else its command.
    pub fn key_label(&self, scope: Scope, action: Action) -> String {
        let elsewhere = || self.rows.iter().find(|(row, _)| row.action == action);
        match self.row(scope, action).or_else(elsewhere) {
            Some((binding, chords)) => match chords.first() {
                Some(chord) => pretty(*chord),
                None => format!(":{}", binding.command),
            },
            None => String::new(),
        }
    }

    /// The label of a binding's first key; empty if it has none.
    pub fn first_key(&self, binding: &Binding) -> String {
        let mut rows = self.rows.iter();
        let row = rows.find(|(row, _)| *row == binding);
        row.and_then(|(_, chords)| chords.first())
            .map_or(String::new(), |chord| pretty(*chord))
    }

    fn row(&self, scope: Scope, action: Action) -> Option<&(&'static Binding, Vec<Chord>)> {
        self.rows
            .iter()
            .find(|(row, _)| row.action == action && row.scopes.contains(&scope))
    }

    /// The keys and commands for a typed text: all by scope if it is empty, else the matches. Names come before
    /// descriptions.
    pub fn found(&self, typed: &str) -> FoundLines {
        let typed = typed.trim();
        // A leading slash is a habit from pagers.
        let after_slash = typed.strip_prefix('/').filter(|it| !it.is_empty());
        let typed = after_slash.unwrap_or(typed);
        if typed.is_empty() {
            return FoundLines {
                lines: self.help_all(),
                is_named: true,
            };
        }
        let lower = typed.to_lowercase();
        let word = lower.split_whitespace().next().unwrap_or_default();
        let rank = |line: &HelpLine| {
            let binding = line.binding?;
            let matches = |text: &str| text.to_lowercase().contains(&lower);
            // Only a command can take arguments.
            let is_command = !binding.command.is_empty();
            let name = if is_command { word } else { &lower };
            let rules = [
                line.keys.split(' ').any(|key| key == typed),
                binding.name() == name,
                binding.name().starts_with(name),
                matches(&line.text) || matches(binding.label) || matches(&line.keys),
            ];
            rules.iter().position(|fits| *fits)
        };
        let lines = self.help_all().into_iter();
        let ranked = lines.filter_map(|line| Some((rank(&line)?, line)));
        let ranked: Vec<(usize, HelpLine)> = ranked.sorted_by_key(|(rank, _)| *rank).collect();
        FoundLines {
            is_named: ranked
                .first()
                .is_some_and(|(rank, _)| *rank < DESCRIPTION_RANK),
            lines: ranked.into_iter().map(|(_, line)| line).collect(),
        }
    }

    /// All bindings by scope; an action without a key is listed with its command.
    pub fn help_all(&self) -> Vec<HelpLine> {
        let mut lines = Vec::new();
        let mut seen: Vec<(Action, &str)> = Vec::new();
        for scope in Scope::ALL.iter().copied() {
            let of_scope: Vec<&(&'static Binding, Vec<Chord>)> = self
                .rows
                .iter()
                .filter(|(binding, _)| binding.scopes.contains(&scope))
                .filter(|(binding, _)| !seen.contains(&(binding.action, binding.help)))
                .collect();
            if of_scope.is_empty() {
                continue;
            }
            if !lines.is_empty() {
                lines.push(HelpLine::title(""));
            }
            lines.push(HelpLine::title(scope.title()));
            for (binding, chords) in of_scope {
                seen.push((binding.action, binding.help));
                let mut keys = chords.iter().map(|chord| pretty(*chord)).join(" ");
                if keys.is_empty() {
                    keys = format!(":{}", binding.command);
                }
                lines.push(HelpLine {
                    keys,
                    text: binding.help.to_owned(),
                    binding: Some(binding),
                });
            }
        }
        lines
    }
}

/// The label of a chord: `Enter`, `Esc`, `Ctrl-C`, `p`.
pub fn pretty(chord: Chord) -> String {
    let mut text = chord.held(["Ctrl-", "Alt-", "Shift-"]);
    let name = Chord::plain(chord.key).to_string();
    match chord.key {
        Key::BackTab => text.push_str("Shift-Tab"),
        Key::PageUp => text.push_str("PgUp"),
        Key::PageDown => text.push_str("PgDn"),
        Key::Char(letter) if letter != ' ' && !chord.ctrl => text.push(letter),
        Key::Char(letter) if letter != ' ' => text.extend(letter.to_uppercase()),
        _ => {
            let mut letters = name.chars();
            text.extend(letters.next().into_iter().flat_map(char::to_uppercase));
            text.push_str(letters.as_str());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chords_are_unique_per_scope() {
        for scope in Scope::ALL {
            let mut seen = Vec::new();
            for binding in BINDINGS
                .iter()
                .filter(|binding| binding.scopes.contains(scope))
            {
                for chord in binding.chords {
                    assert!(!seen.contains(chord), "{chord} twice in {scope:?}");
                    seen.push(chord);
                }
            }
        }
    }

    #[test]
    fn every_default_chord_finds_its_action() {
        let keys = Keymap::default();
        for binding in BINDINGS {
            for chord in binding.chords {
                let parsed: Chord = chord.parse().unwrap();
                assert_eq!(parsed.to_string(), *chord);
                for scope in binding.scopes {
                    assert_eq!(keys.lookup(*scope, parsed), Some(binding.action), "{chord}");
                }
            }
        }
    }

    #[test]
    fn every_action_has_a_binding_and_a_help_line() {
        let lines = Keymap::default().help_all();
        let last = Action::NextChoice as usize;
        let bound: std::collections::BTreeSet<usize> = BINDINGS
            .iter()
            .map(|binding| binding.action as usize)
            .collect();
        assert_eq!(bound, (0..=last).collect());
        for binding in BINDINGS {
            let keys: Vec<String> = binding.defaults().into_iter().map(pretty).collect();
            let keys = match keys.as_slice() {
                [] => format!(":{}", binding.command),
                keys => keys.join(" "),
            };
            let is_its = |line: &HelpLine| line.keys == keys && line.text == binding.help;
            assert!(lines.iter().any(is_its), "{keys} {}", binding.help);
        }
    }

    #[test]
    fn command_names_find_their_actions() {
        let keys = Keymap::default();
        let first = |typed: &str| keys.found(typed).at(0).map(|(_, it)| it.action);
        for (typed, action) in [
            ("pause", Action::Pause),
            ("again", Action::RunAgain),
            ("rm", Action::Forget),
            ("ls", Action::ShowTasks),
            ("cancel", Action::Cancel),
            ("call forecast", Action::NewCall),
            ("/trace", Action::Trace),
            ("p", Action::Pause),
            ("Ctrl-C", Action::Interrupt),
        ] {
            assert_eq!(first(typed), Some(action), "{typed}");
        }
        // What only a description has, and what nothing has.
        for typed in ["demo", "keeper", "no such thing at all"] {
            assert_eq!(first(typed), None, "{typed}");
        }
        let keeper = keys.found("keeper").at(1).map(|(_, it)| it.action);
        assert_eq!(keeper, Some(Action::StopKeeper));
        assert_eq!(keys.found(" ").lines.len(), keys.help_all().len());
    }

    #[test]
    fn formats_chords_for_display() {
        for (chord, shown) in [
            ("enter", "Enter"),
            ("ctrl-c", "Ctrl-C"),
            ("alt-x", "Alt-x"),
            ("alt-X", "Alt-X"),
            ("ctrl-pgup", "Ctrl-PgUp"),
            ("ctrl-space", "Ctrl-Space"),
            ("backtab", "Shift-Tab"),
            ("shift-down", "Shift-Down"),
            ("f12", "F12"),
            ("G", "G"),
        ] {
            assert_eq!(pretty(chord.parse().unwrap()), shown);
        }
    }
}
