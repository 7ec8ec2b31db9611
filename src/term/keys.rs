//! Decodes the bytes of the keyboard into inputs. Uses neither a terminal nor a clock.
//!
//! Not crossterm's decoder, because that one waits forever for the rest of an incomplete sequence, and takes Ctrl-C for
//! another byte of it. Invariant: a Ctrl-C that arrives alone always works at once, and pasted text never becomes keys
//! unless its end was lost.

use core::time::Duration;

use crate::domain::{Chord, Key, UserInput};

const ESC: u8 = 0x1b;
const CTRL_C: u8 = 0x03;
const PASTE_END: &[u8] = b"\x1b[201~";

/// How long to wait for the rest of a key's bytes: they arrive together, and a longer delay after Esc would be noticeable.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);
/// How long to wait for the rest of a paste. Long, because a stalled network may delay it, and what arrives after the
/// timeout would be taken for keys.
const PASTE_TIMEOUT: Duration = Duration::from_secs(5);

/// Decodes input incrementally, and keeps the bytes of an incomplete one.
#[derive(Debug, Default)]
pub struct KeyDecoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

impl KeyDecoder {
    /// Decodes the bytes of one read.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<UserInput> {
        let mut inputs = Vec::new();
        // Among other bytes of a paste, Ctrl-C is text. Alone, it gets a user out of a paste that never ends.
        if bytes == [CTRL_C] {
            inputs.extend(self.flush());
        }
        for byte in bytes {
            self.push(*byte, &mut inputs);
        }
        inputs
    }

    /// How long to wait for more bytes before calling [`KeyDecoder::flush`]; `None` if nothing is pending.
    pub fn timeout(&self) -> Option<Duration> {
        match &self.paste {
            Some(_) => Some(PASTE_TIMEOUT),
            None => (!self.pending.is_empty()).then_some(KEY_TIMEOUT),
        }
    }

    /// Decodes the pending bytes as complete, after the timeout.
    pub fn flush(&mut self) -> Option<UserInput> {
        if let Some(text) = self.paste.take() {
            return Some(pasted(&text));
        }
        let pending = std::mem::take(&mut self.pending);
        match pending.as_slice() {
            [ESC] => Some(UserInput::Key(Chord::plain(Key::Esc))),
            [ESC, letter @ (b'[' | b'O')] => {
                Some(key(char::from(*letter), Chord { alt: true, ..NONE }))
            }
            _ => None,
        }
    }

    fn push(&mut self, byte: u8, inputs: &mut Vec<UserInput>) {
        if let Some(text) = &mut self.paste {
            text.push(byte);
            if let Some(whole) = text.strip_suffix(PASTE_END) {
                inputs.push(pasted(whole));
                self.paste = None;
            }
            return;
        }
        if !continues(&self.pending, byte) {
            inputs.extend(self.flush());
        }
        self.pending.push(byte);
        let input = match decode(&self.pending) {
            Decoded::Unfinished => return,
            Decoded::UserInput(input) => input,
            Decoded::PasteBegins => {
                self.paste = Some(Vec::new());
                None
            }
        };
        self.pending.clear();
        inputs.extend(input);
    }
}

/// Whether a byte can continue the pending ones.
fn continues(pending: &[u8], byte: u8) -> bool {
    match pending {
        [] => true,
        [ESC] => byte != ESC && byte != CTRL_C,
        [ESC, b'[' | b'O', ..] => (0x20..0x7f).contains(&byte),
        // A UTF-8 continuation byte.
        _ => byte & 0xc0 == 0x80,
    }
}

/// The meaning of the pending bytes.
enum Decoded {
    Unfinished,
    /// Complete; `None` if it is to be ignored.
    UserInput(Option<UserInput>),
    PasteBegins,
}

fn decode(pending: &[u8]) -> Decoded {
    match pending {
        [ESC] | [ESC, b'[' | b'O'] | [ESC, b'[', b'['] => Decoded::Unfinished,
        [ESC, b'O', last] => Decoded::UserInput(key_by_final_byte(*last, NONE)),
        // The Linux console.
        [ESC, b'[', b'[', last @ b'A'..=b'E'] => {
            Decoded::UserInput(Some(press(Key::F(last - b'A' + 1), NONE)))
        }
        [ESC, b'[', parameters @ .., last @ 0x40..0x7f] => sequence(parameters, *last),
        [ESC, b'[', ..] => Decoded::Unfinished,
        [ESC, rest @ ..] => letter(rest, Chord { alt: true, ..NONE }),
        _ => letter(pending, NONE),
    }
}

/// One character in UTF-8.
fn letter(bytes: &[u8], held: Chord) -> Decoded {
    match std::str::from_utf8(bytes) {
        Ok(text) => Decoded::UserInput(text.chars().next().map(|letter| key(letter, held))),
        Err(error) if error.error_len().is_none() => Decoded::Unfinished,
        Err(_) => Decoded::UserInput(None),
    }
}

/// `ESC [ parameters last`.
fn sequence(parameters: &[u8], last: u8) -> Decoded {
    // Mouse reports and responses to terminal queries, which another program asked for.
    if matches!(parameters.first(), Some(b'<'..=b'?')) {
        return Decoded::UserInput(None);
    }
    let numbers: Vec<Option<u32>> = parameters.split(|byte| *byte == b';').map(number).collect();
    let first = numbers.first().copied().flatten();
    let held = numbers.get(1).map_or(Some(NONE), |bits| held_keys(*bits));
    let Some(held) = held else {
        return Decoded::UserInput(None);
    };
    let input = match last {
        b'I' if parameters.is_empty() => Some(UserInput::FocusGained),
        b'O' if parameters.is_empty() => Some(UserInput::FocusLost),
        // A cursor position report that another program requested.
        b'R' => None,
        b'~' if first == Some(200) => return Decoded::PasteBegins,
        b'~' => first.and_then(key_by_number).map(|key| press(key, held)),
        b'u' => first
            .and_then(char::from_u32)
            .map(|letter| key(letter, held)),
        _ => key_by_final_byte(last, held),
    };
    Decoded::UserInput(input)
}

/// The number of a parameter, without any sub-parameters after a colon.
fn number(parameter: &[u8]) -> Option<u32> {
    let digits = parameter.split(|byte| *byte == b':').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn key_by_final_byte(last: u8, held: Chord) -> Option<UserInput> {
    let key = match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'F' => Key::End,
        b'H' => Key::Home,
        b'M' => Key::Enter,
        b'P'..=b'S' => Key::F(last - b'P' + 1),
        b'Z' => Key::BackTab,
        _ => return None,
    };
    Some(press(key, held))
}

fn key_by_number(number: u32) -> Option<Key> {
    // The numbering has gaps where the VT220 keyboard had gaps.
    let function = |base: u32| u8::try_from(number - base).ok().map(Key::F);
    match number {
        1 | 7 => Some(Key::Home),
        3 => Some(Key::Delete),
        4 | 8 => Some(Key::End),
        5 => Some(Key::PageUp),
        6 => Some(Key::PageDown),
        11..=15 => function(10),
        17..=21 => function(11),
        23..=26 => function(12),
        28..=29 => function(13),
        31..=34 => function(14),
        _ => None,
    }
}

/// A key press from a character, which may be a control character.
fn key(letter: char, held: Chord) -> UserInput {
    let ctrl = |letter| (Key::Char(letter), true);
    let (key, is_ctrl) = match letter {
        '\r' | '\n' => (Key::Enter, false),
        '\t' => (Key::Tab, false),
        '\u{7f}' => (Key::Backspace, false),
        '\u{1b}' => (Key::Esc, false),
        '\0' => ctrl(' '),
        '\u{1}'..='\u{1a}' => ctrl(shifted(letter, 'a', 1)),
        '\u{1c}'..='\u{1f}' => ctrl(shifted(letter, '4', 0x1c)),
        letter => (Key::Char(letter), false),
    };
    let ctrl = held.ctrl || is_ctrl;
    press(key, Chord { ctrl, ..held })
}

/// The character at the same distance from `base` as `letter` from `first`.
fn shifted(letter: char, base: char, first: u32) -> char {
    char::from_u32(u32::from(letter) - first + u32::from(base)).unwrap_or(letter)
}

fn press(key: Key, held: Chord) -> UserInput {
    UserInput::Key(Chord { key, ..held }.normalized())
}

fn pasted(text: &[u8]) -> UserInput {
    let text = String::from_utf8_lossy(text);
    UserInput::Paste(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// No modifier key is held down; the key of this chord means nothing.
const NONE: Chord = Chord::plain(Key::Esc);

/// The modifier keys of a parameter, which is their bits plus one; `None` with Super or Hyper, which we ignore.
fn held_keys(bits: Option<u32>) -> Option<Chord> {
    let bits = bits.unwrap_or(1).saturating_sub(1);
    let (shift, alt, ctrl, unsupported, meta) = (1, 2, 4, 8 | 16, 32);
    (bits & unsupported == 0).then_some(Chord {
        ctrl: bits & ctrl != 0,
        alt: bits & (alt | meta) != 0,
        shift: bits & shift != 0,
        ..NONE
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn describe(input: &UserInput) -> String {
        match input {
            UserInput::Key(chord) => chord.to_string(),
            UserInput::Paste(text) => format!("paste {text:?}"),
            other => format!("{other:?}").replace(' ', ""),
        }
    }

    /// The inputs decoded from several reads.
    fn read_all(keys: &mut KeyDecoder, reads: &[&str]) -> Vec<String> {
        let inputs = reads.iter().flat_map(|read| keys.take(read.as_bytes()));
        inputs.map(|input| describe(&input)).collect()
    }

    #[test]
    fn decodes_every_key() {
        for (bytes, inputs) in [
            ("jG 木", "j G space 木"),
            (
                "\u{1}\u{3}\0\u{1f}\u{8}",
                "ctrl-a ctrl-c ctrl-space ctrl-7 ctrl-h",
            ),
            ("\r\n\t\u{7f}", "enter enter tab backspace"),
            (
                "\u{1b}[A\u{1b}OB\u{1b}[1;3C\u{1b}[1;2D",
                "up down alt-right shift-left",
            ),
            (
                "\u{1b}[H\u{1b}[4~\u{1b}[5~\u{1b}[6;5~\u{1b}[3~",
                "home end pgup ctrl-pgdn delete",
            ),
            (
                "\u{1b}OP\u{1b}[[B\u{1b}[15;2~\u{1b}[24~",
                "f1 f2 shift-f5 f12",
            ),
            (
                "\u{1b}[Z\u{1b}x\u{1b}\r\u{1b}ö",
                "backtab alt-x alt-enter alt-ö",
            ),
            ("\u{1b}[I\u{1b}[O", "FocusGained FocusLost"),
            ("\u{1b}[97;5u\u{1b}[13;2u", "ctrl-a shift-enter"),
            ("\u{1b}\u{1b}[A", "esc up"),
            // Ignored: the mouse, Insert, Super, a query response, a cursor position.
            (
                "\u{1b}[<0;1;1M\u{1b}[<0;1;1m\u{1b}[2~\u{1b}[1;9A\u{1b}[?62;1c\u{1b}[3;4Rq",
                "q",
            ),
        ] {
            assert_eq!(
                read_all(&mut KeyDecoder::default(), &[bytes]).join(" "),
                inputs
            );
        }
    }

    #[test]
    fn ctrl_c_works_at_once_after_an_incomplete_sequence() {
        for start in [
            "",
            "\u{1b}[",
            "\u{1b}[1",
            "\u{1b}[1;",
            "\u{1b}O",
            "\u{1b}[[",
        ] {
            let inputs = read_all(&mut KeyDecoder::default(), &[start, "\u{3}", "j"]);
            assert!(
                inputs.ends_with(&["ctrl-c".into(), "j".into()]),
                "{start:?}: {inputs:?}"
            );
        }
        assert_eq!(
            read_all(&mut KeyDecoder::default(), &["\u{1b}", "\u{3}"]),
            ["esc", "ctrl-c"]
        );
        assert_eq!(
            read_all(&mut KeyDecoder::default(), &["\u{1b}[200~ab", "\u{3}", "j"]),
            ["paste \"ab\"", "ctrl-c", "j"]
        );
    }

    #[test]
    fn pasted_text_stays_text() {
        assert_eq!(
            read_all(
                &mut KeyDecoder::default(),
                &["\u{1b}[200~q\r\nx\u{3}\ry", "\u{1b}[A\n\u{1b}[20", "1~q"]
            ),
            ["paste \"q\\nx\\u{3}\\ny\\u{1b}[A\\n\"", "q"]
        );
    }

    #[test]
    fn flushes_an_incomplete_sequence() {
        for (start, expected) in [
            ("\u{1b}", Some("esc")),
            ("\u{1b}[", Some("alt-[")),
            ("\u{1b}[1;", None),
            ("\u{1b}[200~ab", Some("paste \"ab\"")),
        ] {
            let mut keys = KeyDecoder::default();
            assert_eq!(keys.timeout(), None);
            keys.take(start.as_bytes());
            assert!(keys.timeout().is_some());
            assert_eq!(
                keys.flush().map(|input| describe(&input)).as_deref(),
                expected
            );
            assert_eq!(keys.timeout(), None);
            assert_eq!(read_all(&mut keys, &["j"]), ["j"]);
        }
        // The first of two bytes, then another key.
        let mut keys = KeyDecoder::default();
        keys.take(&[0xc3]);
        assert_eq!(read_all(&mut keys, &["j"]), ["j"]);
    }

    proptest! {
        #[test]
        fn decodes_the_same_in_any_chunking(
            bytes in prop::collection::vec(
                prop_oneof![Just(ESC), Just(b'['), Just(b'1'), Just(b';'), Just(b'~'), any::<u8>()],
                0..60,
            ),
            at in 0_usize..60,
        ) {
            // A lone Ctrl-C is special.
            prop_assume!(!bytes.contains(&CTRL_C));
            let (one, two) = bytes.split_at(at.min(bytes.len()));
            let mut keys = KeyDecoder::default();
            let mut cut = keys.take(one);
            cut.extend(keys.take(two));
            prop_assert_eq!(cut, KeyDecoder::default().take(&bytes));
        }
    }
}
