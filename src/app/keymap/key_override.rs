//! The keys that the user wants: which of them hold, and why the others do not.
//!
//! Invariants: no chord means two things in one scope; Esc, Enter, Ctrl-C and the keys of the dialogs mean what the table
//! says; what has no command keeps a key, and so does leaving.

use super::{Action, BINDINGS, Binding, Keymap, Scope, pretty};
use crate::{
    app::Field,
    domain::{Chord, Key, text},
};

/// One line of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOverride {
    /// The action, by its [`Binding::label`].
    pub word: String,
    /// All the keys that it is to have, as [`Chord`] reads them; none takes its keys away.
    pub chords: Vec<String>,
}

/// A wish that can be read.
struct Line {
    /// Its place among the wishes.
    at: usize,
    binding: &'static Binding,
    chords: Vec<Chord>,
}

impl Line {
    /// The keys of a row that this line claims in a scope of that row.
    fn taken<'l>(&'l self, row: &'l Binding) -> impl Iterator<Item = Chord> + 'l {
        let meet = meet(self.binding, row);
        let defaults = row.defaults().into_iter();
        defaults.filter(move |chord| meet && self.chords.contains(chord))
    }
}

impl Keymap {
    /// The table with what the user wants, and what there is to say of it: the place of a wish, and why it does not
    /// hold, or what it costs.
    pub fn with(wishes: &[KeyOverride]) -> (Self, Vec<(usize, String)>) {
        let mut lines = Vec::new();
        let mut said = Vec::new();
        let passed_over = |word: &str, why: &str| format!("{word} is ignored: {why}");
        for (at, wish) in wishes.iter().enumerate() {
            match read(wish) {
                Ok((binding, chords)) => lines.push(Line {
                    at,
                    binding,
                    chords,
                }),
                Err(why) => said.push((at, passed_over(&wish.word, &why))),
            }
        }
        // A line that falls leaves its action with the keys of the table, which other lines may claim.
        while let Some((place, why)) = refused(&lines) {
            let line = lines.remove(place);
            said.push((line.at, passed_over(line.binding.word, &why)));
        }
        let rows = BINDINGS.iter().map(|row| {
            let own = lines.iter().find(|line| line.binding == row);
            (
                row,
                own.map_or_else(|| left(row, lines.iter()), |line| line.chords.clone()),
            )
        });
        let keys = Self::new(rows.collect());
        for line in &lines {
            for row in unnamed(&lines) {
                let taken: Vec<String> = line.taken(row).map(pretty).collect();
                if !taken.is_empty() {
                    let instead = match keys.first_key(row) {
                        key if key.is_empty() => "which has no key now".to_owned(),
                        key => format!("which keeps {key}"),
                    };
                    let (taken, by, of) = (taken.join(" "), line.binding.word, row.name());
                    said.push((line.at, format!("{by} takes {taken} from {of}, {instead}")));
                }
            }
        }
        (keys, said)
    }
}

/// Whether two rows act in one scope.
fn meet(one: &Binding, other: &Binding) -> bool {
    one.scopes.iter().any(|scope| other.scopes.contains(scope))
}

/// The rows that no line names.
fn unnamed(lines: &[Line]) -> impl Iterator<Item = &'static Binding> + '_ {
    let is_named = |row: &Binding| lines.iter().any(|line| line.binding == row);
    BINDINGS.iter().filter(move |row| !is_named(row))
}

/// What the lines leave of the keys of a row that none of them names.
fn left<'l>(row: &Binding, lines: impl Iterator<Item = &'l Line>) -> Vec<Chord> {
    let mut chords = row.defaults();
    for line in lines {
        let taken: Vec<Chord> = line.taken(row).collect();
        chords.retain(|chord| !taken.contains(chord));
    }
    chords
}

/// Whether there is no other way to it.
fn needs_key(row: &Binding) -> bool {
    row.word.is_empty() || row.action == Action::Leave
}

/// Whether it acts while something is typed.
fn is_in_dialogs(row: &Binding) -> bool {
    let dialogs = [Scope::Form, Scope::Page, Scope::Text];
    row.scopes.iter().any(|scope| dialogs.contains(scope))
}

/// What a line says.
fn read(wish: &KeyOverride) -> Result<(&'static Binding, Vec<Chord>), String> {
    let mut named = BINDINGS.iter().filter(|row| !row.word.is_empty());
    let row = named
        .find(|row| row.word == wish.word)
        .ok_or("unknown action; press : for the names")?;
    let mut chords = Vec::new();
    for written in &wish.chords {
        let chord: Chord = written.parse().map_err(|error| format!("{error}"))?;
        check(row, chord)?;
        if !chords.contains(&chord) {
            chords.push(chord);
        }
    }
    if chords.is_empty() && needs_key(row) {
        return Err("the way out keeps a key".to_owned());
    }
    Ok((row, chords))
}

/// Why a key cannot be that of an action, whatever else is bound.
fn check(row: &Binding, chord: Chord) -> Result<(), String> {
    let shown = pretty(chord);
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
        return Err(format!("terminals send it as {sent}"));
    }
    if let Key::Char(letter) = chord.key {
        let seen = letter.to_string();
        if text::clean_line(&seen) != seen || text::width(&seen) == 0 {
            return Err("a key is something that can be seen".to_owned());
        }
    }
    let is_fixed = matches!(chord.key, Key::Esc | Key::Enter) || chord == Chord::ctrl('c');
    if is_fixed && !row.defaults().contains(&chord) {
        return Err(format!("{shown} keeps its meaning everywhere"));
    }
    if is_in_dialogs(row) && Field::default().key(chord) {
        return Err(format!(
            "it works while you type, where {shown} types or edits; take one with Ctrl, or f1 to f12"
        ));
    }
    Ok(())
}

/// The first line that cannot stand beside those before it, and why.
fn refused(lines: &[Line]) -> Option<(usize, String)> {
    lines.iter().enumerate().find_map(|(place, line)| {
        let twice = lines.iter().take(place).find_map(|other| {
            let mut shared = line.chords.iter().filter(|it| other.chords.contains(it));
            let chord = shared
                .next()
                .filter(|_| meet(line.binding, other.binding))?;
            let (shown, by) = (pretty(*chord), other.binding.word);
            Some(format!("{shown} is the key of {by} already"))
        });
        let why = twice.or_else(|| {
            unnamed(lines).filter(|row| needs_key(row)).find_map(|row| {
                let chord = line.taken(row).next()?;
                let is_kept =
                    is_in_dialogs(row) || left(row, lines.iter().take(place + 1)).is_empty();
                let (shown, of) = (pretty(chord), row.name());
                is_kept.then(|| format!("\"{of}\" cannot do without {shown}"))
            })
        })?;
        Some((place, why))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(word: &str, chords: &[&str]) -> KeyOverride {
        KeyOverride {
            word: word.to_owned(),
            chords: chords.iter().map(|chord| (*chord).to_owned()).collect(),
        }
    }

    fn with(wishes: &[(&str, &[&str])]) -> (Keymap, Vec<(usize, String)>) {
        let wishes: Vec<KeyOverride> = wishes
            .iter()
            .map(|(word, chords)| wish(word, chords))
            .collect();
        Keymap::with(&wishes)
    }

    fn does(keys: &Keymap, scope: Scope, chord: &str) -> Option<Action> {
        keys.lookup(scope, chord.parse().unwrap())
    }

    #[test]
    fn a_wish_takes_the_place_of_the_keys_of_the_table_and_leaves_the_rest() {
        let (keys, said) = with(&[
            ("pause", &["ctrl-p"]),
            ("cancel", &["X", "delete"]),
            ("undo", &[]),
        ]);
        assert_eq!(said, []);
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
        assert_eq!(keys.said(Scope::List, Action::Pause), "Ctrl-P");
        assert_eq!(keys.said(Scope::Messages, Action::Cancel), "X");
        assert_eq!(keys.said(Scope::List, Action::Undo), ":undo");
        assert_eq!(keys.key_of(Scope::List, Action::Undo), None);
        let help = keys.help_lines();
        for (shown, words) in [("X Delete", "cancel (asks"), (":undo", "restore")] {
            let line = help.iter().find(|(_, help)| help.starts_with(words));
            assert_eq!(line.map(|(keys, _)| keys.as_str()), Some(shown));
        }
    }

    #[test]
    fn without_wishes_the_table_holds() {
        assert_eq!(with(&[]), (Keymap::default(), Vec::new()));
        let mut words: Vec<&str> = BINDINGS.iter().map(|row| row.word).collect();
        words.retain(|word| !word.is_empty());
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all, "a word names one row");
    }

    #[test]
    fn keys_can_change_places() {
        let (keys, said) = with(&[("pause", &["x"]), ("cancel", &["p"])]);
        assert_eq!(said, []);
        assert_eq!(does(&keys, Scope::List, "x"), Some(Action::Pause));
        assert_eq!(does(&keys, Scope::List, "p"), Some(Action::Cancel));
        // In other scopes a key may mean something else.
        let (_, said) = with(&[("mark", &["f5"]), ("search", &["f5"])]);
        assert_eq!(said, []);
        let (keys, said) = with(&[("pause", &["q"]), ("quit", &["Q"])]);
        assert_eq!(said, []);
        assert_eq!(does(&keys, Scope::Menu, "Q"), Some(Action::Leave));
    }

    #[test]
    fn what_is_taken_from_the_table_is_said_once() {
        let (keys, said) = with(&[("pause", &["x", "j"])]);
        let said: Vec<&str> = said.iter().map(|(_, words)| words.as_str()).collect();
        assert_eq!(
            said,
            [
                "pause takes j from down, which keeps Down",
                "pause takes x from cancel, which has no key now",
            ]
        );
        assert_eq!(does(&keys, Scope::List, "x"), Some(Action::Pause));
        assert_eq!(does(&keys, Scope::Detail, "j"), Some(Action::Pause));
        assert_eq!(does(&keys, Scope::List, "down"), Some(Action::Down));
    }

    #[test]
    fn a_wish_that_cannot_be_costs_only_itself() {
        type Lines = &'static [(&'static str, &'static [&'static str])];
        let cases: [(Lines, &str); 22] = [
            (&[("paus", &["f5"])], "paus is ignored: unknown action"),
            (&[("", &["f5"])], " is ignored: unknown action"),
            (&[("pause", &["hyper-x"])], "unknown key \"hyper-x\""),
            (&[("pause", &["\u{7}"])], "can be seen"),
            (&[("pause", &["\u{200b}"])], "can be seen"),
            (&[("pause", &["esc"])], "Esc keeps its meaning"),
            (&[("pause", &["f5", "ctrl-c"])], "Ctrl-C keeps its meaning"),
            (&[("pause", &["enter"])], "Enter keeps its meaning"),
            (&[("pause", &["ctrl-enter"])], "Ctrl-Enter keeps"),
            (&[("pause", &["ctrl-m"])], "terminals send it as enter"),
            (&[("pause", &["ctrl-i"])], "terminals send it as tab"),
            (&[("pause", &["ctrl-P"])], "terminals send it as ctrl-p"),
            (&[("quit", &[])], "the way out keeps a key"),
            (&[("pause", &["q"])], "\"quit\" cannot do without q"),
            (&[("pause", &[":"])], "\"commands\" cannot do without :"),
            (&[("pause", &["j", "down"])], "\"down\" cannot do without j"),
            (&[("suspend", &["5"])], "5 types or edits"),
            (&[("redraw", &["ctrl-w"])], "Ctrl-W types or edits"),
            (&[("redraw", &["tab"])], "cannot do without Tab"),
            (&[("suspend", &["ctrl-s"])], "cannot do without Ctrl-S"),
            (&[("suspend", &["ctrl-c"])], "Ctrl-C keeps its meaning"),
            (
                &[("fold", &["f5"]), ("sort", &["f6", "f5"])],
                "sort is ignored: F5 is the key of fold already",
            ),
        ];
        for (wishes, why) in cases {
            let (keys, said) = with(wishes);
            let [(at, words)] = said.as_slice() else {
                panic!("{wishes:?}: {said:?}");
            };
            assert_eq!(*at, wishes.len() - 1);
            assert!(words.contains(why), "{words} is not {why}");
            // What stands before it holds as if it were not there.
            assert_eq!(keys, with(&wishes[..*at]).0, "{wishes:?}");
        }
    }

    #[test]
    fn a_line_that_falls_gives_its_keys_back() {
        // Without a key of its own, quit needs the one that pause wants.
        let (keys, said) = with(&[("pause", &["q"]), ("quit", &[":"])]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(keys, Keymap::default());
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_wished_the_way_out_stays_and_no_key_means_two_things(
            wishes in proptest::collection::vec((0..BINDINGS.len(), proptest::collection::vec(0..BINDINGS.len(), 0..3)), 0..12)
        ) {
            let wishes: Vec<KeyOverride> = wishes
                .iter()
                .map(|(row, keys)| wish(
                    BINDINGS[*row].word,
                    &keys.iter().filter_map(|row| BINDINGS[*row].chords.last().copied()).collect::<Vec<_>>(),
                ))
                .collect();
            let (keys, _) = Keymap::with(&wishes);
            for scope in Scope::ALL {
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
