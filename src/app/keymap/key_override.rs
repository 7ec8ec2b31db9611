//! The user's key overrides: which ones apply, and why the others don't.
//!
//! Invariants: a chord has one meaning per scope; Esc, Enter, Ctrl-C and the keys of dialogs keep their default meaning;
//! an action without a command keeps a key, and so does quitting.

use itertools::Itertools as _;

use super::{Action, BINDINGS, Binding, Keymap, Scope, pretty};
use crate::{
    app::Field,
    domain::{Chord, Key, ParseChordError, text},
};

/// One line of `[keys]` in the config file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOverride {
    /// The action, by its [`Binding::command`].
    pub action: String,
    /// All its keys, as [`Chord`] parses them; empty for none.
    pub chords: Vec<String>,
}

/// Why an override is ignored. The text follows `is ignored: `.
#[derive(Debug, thiserror::Error)]
enum OverrideError {
    #[error("unknown action; press : on the screen for the names")]
    UnknownAction,
    #[error(transparent)]
    Chord(#[from] ParseChordError),
    #[error("quitting needs a key")]
    NoKeyToQuit,
    #[error("terminals send it as {0}")]
    SentAs(Chord),
    #[error("a key must be a visible character")]
    Invisible,
    #[error("{} can't be rebound", pretty(*.0))]
    Fixed(Chord),
    #[error(
        "this action must work while you type, but {} types or edits text; use a Ctrl combination or f1 to f12",
        pretty(*.0)
    )]
    Types(Chord),
    #[error("{} is already the key of {}", pretty(*.0), .1.command)]
    Taken(Chord, &'static Binding),
    #[error("\"{}\" needs {}", .1.name(), pretty(*.0))]
    Required(Chord, &'static Binding),
}

/// A valid override.
struct ParsedOverride {
    /// Its index in the input.
    at: usize,
    binding: &'static Binding,
    chords: Vec<Chord>,
}

impl Keymap {
    /// The default bindings with these overrides, and warnings: the index of an override, and why it is ignored or which
    /// key it takes from another action.
    pub fn with_overrides(overrides: &[KeyOverride]) -> (Self, Vec<(usize, String)>) {
        let mut accepted: Vec<ParsedOverride> = Vec::new();
        let mut warnings = Vec::new();
        let defaults = BINDINGS.iter().map(|row| (row, row.defaults()));
        let mut rows: Vec<(&'static Binding, Vec<Chord>)> = defaults.collect();
        // Quitting may only lose its key to another action once it has a new one.
        let quits = |(_, it): &(usize, &KeyOverride)| it.action != "quit";
        for (at, key_override) in overrides.iter().enumerate().sorted_by_key(quits) {
            let parsed = parse(at, key_override).and_then(|parsed| {
                find_conflict(&parsed, &rows, &accepted)?;
                Ok(parsed)
            });
            match parsed {
                Ok(parsed) => {
                    for (row, chords) in &mut rows {
                        if *row == parsed.binding {
                            chords.clone_from(&parsed.chords);
                        } else if share_scope(row, parsed.binding) {
                            chords.retain(|chord| !parsed.chords.contains(chord));
                        }
                    }
                    accepted.push(parsed);
                }
                Err(why) => {
                    let warning = format!("{} is ignored: {why}", key_override.action);
                    warnings.push((at, warning));
                }
            }
        }
        let keys = Self::new(rows);
        let is_default = |row: &&Binding| accepted.iter().all(|parsed| parsed.binding != *row);
        for parsed in &accepted {
            let others = BINDINGS.iter().filter(is_default);
            for row in others.filter(|row| share_scope(row, parsed.binding)) {
                let taken = row.defaults().into_iter();
                let taken = taken.filter(|chord| parsed.chords.contains(chord));
                let taken = taken.map(pretty).join(" ");
                if !taken.is_empty() {
                    let instead = match keys.first_key(row) {
                        key if key.is_empty() => "has no key now; give it one in [keys]".to_owned(),
                        key => format!("still has {key}"),
                    };
                    let (action, from) = (parsed.binding.command, row.name());
                    let warning = format!("{taken} now means `{action}`; `{from}` {instead}");
                    warnings.push((parsed.at, warning));
                }
            }
        }
        (keys, warnings)
    }
}

/// Whether two bindings act in the same scope.
fn share_scope(one: &Binding, other: &Binding) -> bool {
    one.scopes.iter().any(|scope| other.scopes.contains(scope))
}

/// Whether there is no other way to trigger it than a key.
fn needs_key(row: &Binding) -> bool {
    row.command.is_empty() || row.action == Action::Quit
}

/// Whether it acts while the user types.
fn acts_in_dialogs(row: &Binding) -> bool {
    let dialogs = [Scope::Form, Scope::Page, Scope::Text];
    row.scopes.iter().any(|scope| dialogs.contains(scope))
}

/// Parses an override.
fn parse(at: usize, key_override: &KeyOverride) -> Result<ParsedOverride, OverrideError> {
    let mut named = BINDINGS.iter().filter(|row| !row.command.is_empty());
    let binding = named
        .find(|row| row.command == key_override.action)
        .ok_or(OverrideError::UnknownAction)?;
    let mut chords = Vec::new();
    for written in &key_override.chords {
        let chord: Chord = written.parse()?;
        check(binding, chord)?;
        if !chords.contains(&chord) {
            chords.push(chord);
        }
    }
    if chords.is_empty() && needs_key(binding) {
        return Err(OverrideError::NoKeyToQuit);
    }
    Ok(ParsedOverride {
        at,
        binding,
        chords,
    })
}

/// Checks whether an action can have a key, regardless of other bindings.
fn check(row: &Binding, chord: Chord) -> Result<(), OverrideError> {
    let sent_as = match chord.key {
        Key::Char('i') if chord.ctrl => Some(Chord::plain(Key::Tab)),
        Key::Char('j' | 'm') if chord.ctrl => Some(Chord::plain(Key::Enter)),
        Key::Char('[') if chord.ctrl => Some(Chord::plain(Key::Esc)),
        Key::Char(letter) if chord.ctrl && letter.is_uppercase() => {
            Some(Chord::ctrl(letter.to_ascii_lowercase()))
        }
        _ => None,
    };
    if let Some(sent) = sent_as {
        return Err(OverrideError::SentAs(sent));
    }
    if let Key::Char(letter) = chord.key {
        let seen = letter.to_string();
        if text::clean_line(&seen) != seen || text::width(&seen) == 0 {
            return Err(OverrideError::Invisible);
        }
    }
    let is_fixed = matches!(chord.key, Key::Esc | Key::Enter) || chord == Chord::ctrl('c');
    if is_fixed && !row.defaults().contains(&chord) {
        return Err(OverrideError::Fixed(chord));
    }
    if acts_in_dialogs(row) && Field::default().key(chord) {
        return Err(OverrideError::Types(chord));
    }
    Ok(())
}

/// Whether an override takes a key from an accepted one, or a key that must stay.
fn find_conflict(
    parsed: &ParsedOverride,
    rows: &[(&'static Binding, Vec<Chord>)],
    accepted: &[ParsedOverride],
) -> Result<(), OverrideError> {
    let others = rows.iter().filter(|(row, _)| *row != parsed.binding);
    for (row, held) in others.filter(|(row, _)| share_scope(row, parsed.binding)) {
        let mut taken = held.iter().filter(|chord| parsed.chords.contains(chord));
        let Some(chord) = taken.next() else { continue };
        if accepted.iter().any(|other| other.binding == *row) {
            return Err(OverrideError::Taken(*chord, row));
        }
        let is_last = held.iter().all(|chord| parsed.chords.contains(chord));
        if needs_key(row) && (is_last || acts_in_dialogs(row)) {
            return Err(OverrideError::Required(*chord, row));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_override(action: &str, chords: &[&str]) -> KeyOverride {
        KeyOverride {
            action: action.to_owned(),
            chords: chords.iter().map(|chord| (*chord).to_owned()).collect(),
        }
    }

    fn with(overrides: &[(&str, &[&str])]) -> (Keymap, Vec<(usize, String)>) {
        let overrides: Vec<KeyOverride> = overrides
            .iter()
            .map(|(action, chords)| key_override(action, chords))
            .collect();
        Keymap::with_overrides(&overrides)
    }

    fn does(keys: &Keymap, scope: Scope, chord: &str) -> Option<Action> {
        keys.lookup(scope, chord.parse().unwrap())
    }

    #[test]
    fn replaces_the_keys_of_one_action_only() {
        let (keys, warnings) = with(&[
            ("pause", &["ctrl-p"]),
            ("cancel", &["X", "delete"]),
            ("undo", &[]),
        ]);
        assert_eq!(warnings, []);
        for scope in [Scope::List, Scope::Detail] {
            assert_eq!(does(&keys, scope, "ctrl-p"), Some(Action::Pause));
            for chord in ["X", "delete"] {
                assert_eq!(does(&keys, scope, chord), Some(Action::Cancel));
            }
            for chord in ["p", "x", "u"] {
                assert_eq!(does(&keys, scope, chord), None, "{chord}");
            }
            assert_eq!(does(&keys, scope, "r"), Some(Action::Resume));
        }
        assert_eq!(keys.key_label(Scope::List, Action::Pause), "Ctrl-P");
        assert_eq!(keys.key_label(Scope::Messages, Action::Cancel), "X");
        assert_eq!(keys.key_label(Scope::List, Action::Undo), ":undo");
        assert_eq!(keys.key_of(Scope::List, Action::Undo), None);
        let help = keys.help_all();
        for (label, words) in [("X Delete", "cancel (asks"), (":undo", "restore")] {
            let own = help.iter().find(|line| line.text.starts_with(words));
            assert_eq!(own.map(|line| line.keys.as_str()), Some(label));
        }
    }

    #[test]
    fn keeps_the_defaults_without_overrides() {
        assert_eq!(with(&[]), (Keymap::default(), Vec::new()));
        let mut words: Vec<&str> = BINDINGS.iter().map(|row| row.command).collect();
        words.retain(|word| !word.is_empty());
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all, "a command names one binding");
    }

    #[test]
    fn keys_can_change_focus_count() {
        let (keys, warnings) = with(&[("pause", &["x"]), ("cancel", &["p"])]);
        assert_eq!(warnings, []);
        assert_eq!(does(&keys, Scope::List, "x"), Some(Action::Pause));
        assert_eq!(does(&keys, Scope::List, "p"), Some(Action::Cancel));
        // A key may have another meaning in another scope.
        let (_, warnings) = with(&[("mark", &["f5"]), ("search", &["f5"])]);
        assert_eq!(warnings, []);
        let (keys, warnings) = with(&[("pause", &["q"]), ("quit", &["W"])]);
        assert_eq!(warnings, []);
        assert_eq!(does(&keys, Scope::Menu, "W"), Some(Action::Quit));
    }

    #[test]
    fn warns_about_keys_taken_from_other_actions() {
        let (keys, warnings) = with(&[("pause", &["x", "j"])]);
        let warnings: Vec<&str> = warnings.iter().map(|(_, words)| words.as_str()).collect();
        assert_eq!(
            warnings,
            [
                "j now means `pause`; `down` still has Down",
                "x now means `pause`; `cancel` has no key now; give it one in [keys]",
            ]
        );
        assert_eq!(does(&keys, Scope::List, "x"), Some(Action::Pause));
        assert_eq!(does(&keys, Scope::Detail, "j"), Some(Action::Pause));
        assert_eq!(does(&keys, Scope::List, "down"), Some(Action::Down));
    }

    #[test]
    fn ignores_an_invalid_override_and_keeps_the_others() {
        type Lines = &'static [(&'static str, &'static [&'static str])];
        let cases: [(Lines, &str); 22] = [
            (&[("paus", &["f5"])], "paus is ignored: unknown action"),
            (&[("", &["f5"])], " is ignored: unknown action"),
            (&[("pause", &["hyper-x"])], "unknown key \"hyper-x\""),
            (&[("pause", &["\u{7}"])], "visible character"),
            (&[("pause", &["\u{200b}"])], "visible character"),
            (&[("pause", &["esc"])], "Esc can't be rebound"),
            (&[("pause", &["f5", "ctrl-c"])], "Ctrl-C can't be rebound"),
            (&[("pause", &["enter"])], "Enter can't be rebound"),
            (&[("pause", &["ctrl-enter"])], "Ctrl-Enter can't be rebound"),
            (&[("pause", &["ctrl-m"])], "terminals send it as enter"),
            (&[("pause", &["ctrl-i"])], "terminals send it as tab"),
            (&[("pause", &["ctrl-P"])], "terminals send it as ctrl-p"),
            (&[("quit", &[])], "quitting needs a key"),
            (&[("pause", &["q"])], "\"quit\" needs q"),
            (&[("pause", &[":"])], "\"commands\" needs :"),
            (&[("pause", &["j", "down"])], "\"down\" needs j"),
            (&[("suspend", &["5"])], "5 types or edits"),
            (&[("redraw", &["ctrl-w"])], "Ctrl-W types or edits"),
            (&[("redraw", &["tab"])], "needs Tab"),
            (&[("suspend", &["ctrl-s"])], "needs Ctrl-S"),
            (&[("suspend", &["ctrl-c"])], "Ctrl-C can't be rebound"),
            (
                &[("fold", &["f5"]), ("sort", &["f6", "f5"])],
                "sort is ignored: F5 is already the key of fold",
            ),
        ];
        for (overrides, why) in cases {
            let (keys, warnings) = with(overrides);
            let [(at, words)] = warnings.as_slice() else {
                panic!("{overrides:?}: {warnings:?}");
            };
            assert_eq!(*at, overrides.len() - 1);
            assert!(words.contains(why), "{words} is not {why}");
            // The overrides before it apply as if it were not there.
            assert_eq!(keys, with(&overrides[..*at]).0, "{overrides:?}");
        }
    }

    #[test]
    fn a_rejected_override_gives_its_keys_back() {
        // Without a key of its own, quit needs the one that pause wants.
        let (keys, warnings) = with(&[("pause", &["q"]), ("quit", &[":"])]);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert_eq!(keys, Keymap::default());
    }

    proptest::proptest! {
        #[test]
        fn quitting_stays_possible_and_keys_stay_unique(
            overrides in proptest::collection::vec((0..BINDINGS.len(), proptest::collection::vec(0..BINDINGS.len(), 0..3)), 0..12)
        ) {
            let overrides: Vec<KeyOverride> = overrides
                .iter()
                .map(|(row, keys)| key_override(
                    BINDINGS[*row].command,
                    &keys.iter().filter_map(|row| BINDINGS[*row].chords.last().copied()).collect::<Vec<_>>(),
                ))
                .collect();
            let (keys, _) = Keymap::with_overrides(&overrides);
            for scope in Scope::ALL.iter().copied() {
                proptest::prop_assert_eq!(does(&keys, scope, "ctrl-c"), Some(Action::Interrupt));
                proptest::prop_assert_eq!(does(&keys, scope, "esc"), Some(Action::Back));
                let mut seen = Vec::new();
                for (row, chords) in keys.rows.iter().filter(|(row, _)| row.scopes.contains(&scope)) {
                    proptest::prop_assert!(!chords.is_empty() || !needs_key(row), "{:?}", row);
                    for chord in chords {
                        proptest::prop_assert!(!seen.contains(chord), "{} twice in {:?}", chord, scope);
                        seen.push(*chord);
                    }
                }
            }
        }
    }
}
