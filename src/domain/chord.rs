//! A key press as a value, with the notation of help, footer and config: `j`, `G`, `ctrl-c`, `enter`.

use std::{
    fmt::{self, Write as _},
    str::FromStr,
};

/// A key without its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as on the keyboard")]
pub enum Key {
    /// A key that types a character. Uppercase letters are their own characters, without `shift`.
    Char(char),
    Enter,
    Esc,
    Tab,
    /// Shift+Tab, which terminals send as a separate key.
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
    /// A function key: `F(1)` is F1.
    F(u8),
}

/// Keys that are written by name. Space is one of them because ` ` would be invisible.
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

/// A key with its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chord {
    /// The key.
    pub key: Key,
    /// Whether Ctrl was held.
    pub ctrl: bool,
    /// Whether Alt was held.
    pub alt: bool,
    /// Whether Shift was held; never set for a character, whose case already shows it.
    pub shift: bool,
}

impl Chord {
    /// A key without modifiers.
    pub const fn plain(key: Key) -> Self {
        Self {
            key,
            ctrl: false,
            alt: false,
            shift: false,
        }
    }

    /// A character without modifiers.
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

    /// The names of the keys that are held with it, given those of ctrl, alt and shift.
    pub fn held(self, [ctrl, alt, shift]: [&str; 3]) -> String {
        let all = [(self.ctrl, ctrl), (self.alt, alt), (self.shift, shift)];
        let held = all.into_iter().filter(|(is_held, _)| *is_held);
        held.map(|(_, name)| name).collect()
    }

    /// Terminals report some chords in several ways; this picks one: Shift with a letter becomes the uppercase letter,
    /// Shift+Tab becomes [`Key::BackTab`].
    #[must_use]
    pub fn normalized(self) -> Self {
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
            Key::Tab | Key::BackTab if self.shift => Self {
                key: Key::BackTab,
                shift: false,
                ..self
            },
            _ => self,
        }
    }

    /// The character that this chord types into a text field, if any.
    pub fn typed(self) -> Option<char> {
        match self.key {
            Key::Char(letter) if !self.ctrl && !self.alt => Some(letter),
            _ => None,
        }
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.held(["ctrl-", "alt-", "shift-"]);
        match (self.key, NAMES.iter().find(|(key, _)| *key == self.key)) {
            (_, Some((_, name))) => text.push_str(name),
            (Key::F(number), None) => write!(text, "f{number}")?,
            (Key::Char(letter), None) => text.push(letter),
            // All other keys are in `NAMES`.
            (_, None) => {}
        }
        f.pad(&text)
    }
}

/// The text is not a chord.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown key {0:?}; write keys as j, G, ctrl-x, space or f5")]
pub struct ParseChordError(pub String);

impl FromStr for Chord {
    type Err = ParseChordError;

    fn from_str(text: &str) -> Result<Self, ParseChordError> {
        let error = || ParseChordError(text.to_owned());
        let mut chord = Self::char(' ');
        let mut rest = text;
        while let Some((held, after)) = rest.split_once('-').filter(|(_, after)| !after.is_empty())
        {
            let flag = match held {
                "ctrl" => &mut chord.ctrl,
                "alt" => &mut chord.alt,
                "shift" => &mut chord.shift,
                _ => return Err(error()),
            };
            if std::mem::replace(flag, true) {
                return Err(error());
            }
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
                    .ok_or_else(error)?,
            },
            _ => return Err(error()),
        };
        Ok(chord.normalized())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_the_usual_spellings() {
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
        for text in ["", "ctrl-", "ctrl-ctrl-x", "hyper-x", "f999", "enterr"] {
            assert_eq!(text.parse::<Chord>(), Err(ParseChordError(text.to_owned())));
        }
    }

    #[test]
    fn only_unmodified_characters_type_text() {
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
        fn every_chord_round_trips_through_its_text(key in any_key(), ctrl: bool, alt: bool, shift: bool) {
            let chord = Chord { key, ctrl, alt, shift }.normalized();
            prop_assert_eq!(chord.to_string().parse(), Ok(chord));
        }
    }
}
