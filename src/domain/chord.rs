//! A key press as a value, with a text form that help, footer and tests share: `j`, `G`, `ctrl-c`, `enter`.

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

/// A key without its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those on the keys")]
pub enum Key {
    /// Anything that types a character; an upper-case letter stands for itself, without shift.
    Char(char),
    Enter,
    Esc,
    Tab,
    /// Shift and tab, which terminals send as a key of its own.
    BackTab,
    Backspace,
    Delete,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// A function key by its number.
    F(u8),
}

/// Keys that are written by name; the space among them, because its text would not be seen.
const NAMES: [(Key, &str); 15] = [
    (Key::Char(' '), "space"),
    (Key::Enter, "enter"),
    (Key::Esc, "esc"),
    (Key::Tab, "tab"),
    (Key::BackTab, "backtab"),
    (Key::Backspace, "backspace"),
    (Key::Delete, "delete"),
    (Key::Up, "up"),
    (Key::Down, "down"),
    (Key::Left, "left"),
    (Key::Right, "right"),
    (Key::Home, "home"),
    (Key::End, "end"),
    (Key::PageUp, "pgup"),
    (Key::PageDown, "pgdn"),
];

/// A key with what was held down beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chord {
    /// The key.
    pub key: Key,
    /// Whether Ctrl was held.
    pub ctrl: bool,
    /// Whether Alt was held.
    pub alt: bool,
    /// Whether Shift was held; never set on a character, whose case says it already.
    pub shift: bool,
}

impl Chord {
    /// A key alone.
    pub const fn plain(key: Key) -> Self {
        Self {
            key,
            ctrl: false,
            alt: false,
            shift: false,
        }
    }

    /// A character alone.
    pub const fn char(letter: char) -> Self {
        Self::plain(Key::Char(letter))
    }

    /// A character with Ctrl.
    pub const fn ctrl(letter: char) -> Self {
        Self {
            ctrl: true,
            ..Self::char(letter)
        }
    }

    /// The one form of a chord that a terminal may report in several: shift goes into the letter's case, shift and
    /// tab become [`Key::BackTab`].
    #[must_use]
    pub fn normal(self) -> Self {
        match self.key {
            Key::Char(letter) => {
                let mut upper = letter.to_uppercase();
                let key = match (upper.next(), upper.next()) {
                    (Some(upper), None) if self.shift => upper,
                    _ => letter,
                };
                Self {
                    key: Key::Char(key),
                    shift: false,
                    ..self
                }
            }
            Key::Tab if self.shift => Self {
                key: Key::BackTab,
                shift: false,
                ..self
            },
            Key::BackTab => Self {
                shift: false,
                ..self
            },
            _ => self,
        }
    }

    /// The character that this chord types into a text field, if it types one.
    pub fn typed(self) -> Option<char> {
        match self.key {
            Key::Char(letter) if !self.ctrl && !self.alt => Some(letter),
            _ => None,
        }
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for (is_held, name) in [
            (self.ctrl, "ctrl-"),
            (self.alt, "alt-"),
            (self.shift, "shift-"),
        ] {
            if is_held {
                text.push_str(name);
            }
        }
        match (self.key, NAMES.iter().find(|(key, _)| *key == self.key)) {
            (_, Some((_, name))) => text.push_str(name),
            (Key::F(number), None) => write!(text, "f{number}")?,
            (Key::Char(letter), None) => text.push(letter),
            // Every other key has a name.
            (_, None) => {}
        }
        f.pad(&text)
    }
}

/// A text that names no chord.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no key; write it as j, G, ctrl-c, enter or f5")]
pub struct ParseChordError(pub String);

impl FromStr for Chord {
    type Err = ParseChordError;

    fn from_str(text: &str) -> Result<Self, ParseChordError> {
        let no_such = || ParseChordError(text.to_owned());
        let mut chord = Self::char(' ');
        let mut rest = text;
        loop {
            // What follows a modifier must not be empty, so that `-` itself can follow one: `ctrl--`.
            let held = [
                (&mut chord.ctrl, "ctrl-"),
                (&mut chord.alt, "alt-"),
                (&mut chord.shift, "shift-"),
            ]
            .into_iter()
            .find_map(|(flag, name)| rest.strip_prefix(name).map(|after| (flag, after)));
            let Some((flag, after)) = held else { break };
            *flag = true;
            rest = after;
        }
        let mut letters = rest.chars();
        chord.key = match (letters.next(), letters.next()) {
            (Some(letter), None) => Key::Char(letter),
            (Some(_), Some(_)) => match NAMES.iter().find(|(_, name)| *name == rest) {
                Some((key, _)) => *key,
                None => rest
                    .strip_prefix('f')
                    .and_then(|number| number.parse().ok())
                    .map(Key::F)
                    .ok_or_else(no_such)?,
            },
            _ => return Err(no_such()),
        };
        Ok(chord.normal())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn chords_read_as_people_write_them() {
        for (text, chord) in [
            ("j", Chord::char('j')),
            ("G", Chord::char('G')),
            ("shift-g", Chord::char('G')),
            ("ctrl-c", Chord::ctrl('c')),
            ("ctrl--", Chord::ctrl('-')),
            ("enter", Chord::plain(Key::Enter)),
            ("space", Chord::char(' ')),
            ("f12", Chord::plain(Key::F(12))),
            ("f", Chord::char('f')),
            ("shift-tab", Chord::plain(Key::BackTab)),
        ] {
            assert_eq!(text.parse(), Ok(chord), "{text}");
        }
        for text in ["", "ctrl-", "hyper-x", "f999", "enterr"] {
            assert_eq!(text.parse::<Chord>(), Err(ParseChordError(text.to_owned())));
        }
    }

    #[test]
    fn only_a_bare_character_types() {
        assert_eq!(Chord::char('ß').typed(), Some('ß'));
        assert_eq!(Chord::ctrl('c').typed(), None);
        assert_eq!(Chord::plain(Key::Tab).typed(), None);
    }

    fn any_key() -> impl Strategy<Value = Key> {
        prop_oneof![
            any::<char>().prop_map(Key::Char),
            any::<u8>().prop_map(Key::F),
            prop::sample::select(NAMES.map(|(key, _)| key).to_vec()),
        ]
    }

    proptest! {
        #[test]
        fn every_chord_survives_its_text(key in any_key(), ctrl: bool, alt: bool, shift: bool) {
            let chord = Chord { key, ctrl, alt, shift }.normal();
            prop_assert_eq!(chord.to_string().parse(), Ok(chord));
        }
    }
}
