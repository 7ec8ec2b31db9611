//! Bytes of the keyboard to inputs: a value that knows no terminal and no clock.
//!
//! Ours and not the library's, because that one waits without end for the rest of a half-sent sequence, and a Ctrl-C is
//! to it one more byte of it. Invariant: a Ctrl-C that comes alone is always heard at once, and pasted text never
//! becomes keys unless its end was lost.

use core::time::Duration;

use crate::domain::{Chord, Key, MouseAction, UserInput};

const ESC: u8 = 0x1b;
const CTRL_C: u8 = 0x03;
const PASTE_END: &[u8] = b"\x1b[201~";

/// The bytes of one key come together; a person who presses Esc notices no more than this.
const FOR_A_KEY: Duration = Duration::from_millis(50);
/// A stalled network may hold up a paste, and what comes after we gave it up would be taken for keys.
const FOR_A_PASTE: Duration = Duration::from_secs(5);

/// What has come so far and is no whole input yet.
#[derive(Debug, Default)]
pub struct Keys {
    held: Vec<u8>,
    paste: Option<Vec<u8>>,
}

impl Keys {
    /// Takes the bytes of one read.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<UserInput> {
        let mut inputs = Vec::new();
        // In the midst of a paste it is text; a user who is stuck in one presses it alone.
        if bytes == [CTRL_C] {
            inputs.extend(self.give_up());
        }
        for byte in bytes {
            self.push(*byte, &mut inputs);
        }
        inputs
    }

    /// How long to wait for the rest before [`Keys::give_up`].
    pub fn patience(&self) -> Option<Duration> {
        match &self.paste {
            Some(_) => Some(FOR_A_PASTE),
            None => (!self.held.is_empty()).then_some(FOR_A_KEY),
        }
    }

    /// Takes what has come for all that will come.
    pub fn give_up(&mut self) -> Option<UserInput> {
        if let Some(text) = self.paste.take() {
            return Some(pasted(&text));
        }
        let held = std::mem::take(&mut self.held);
        match held.as_slice() {
            [ESC] => Some(UserInput::Key(Chord::plain(Key::Esc))),
            [ESC, letter @ (b'[' | b'O')] => {
                Some(key(char::from(*letter), Held { alt: true, ..NONE }))
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
        if !goes_on(&self.held, byte) {
            inputs.extend(self.give_up());
        }
        self.held.push(byte);
        let input = match read(&self.held) {
            Reading::Unfinished => return,
            Reading::Input(input) => input,
            Reading::PasteBegins => {
                self.paste = Some(Vec::new());
                None
            }
        };
        self.held.clear();
        inputs.extend(input);
    }
}

/// Whether a byte can be the next one of what is held.
fn goes_on(held: &[u8], byte: u8) -> bool {
    match held {
        [] => true,
        [ESC] => byte != ESC && byte != CTRL_C,
        [ESC, b'[' | b'O', ..] => (0x20..0x7f).contains(&byte),
        // The bytes of one character.
        _ => byte & 0xc0 == 0x80,
    }
}

/// What held bytes are.
enum Reading {
    Unfinished,
    /// Whole; `None` for what does not concern us.
    Input(Option<UserInput>),
    PasteBegins,
}

fn read(held: &[u8]) -> Reading {
    match held {
        [ESC] | [ESC, b'[' | b'O'] | [ESC, b'[', b'['] => Reading::Unfinished,
        [ESC, b'O', last] => Reading::Input(by_letter(*last, NONE)),
        // The Linux console.
        [ESC, b'[', b'[', last @ b'A'..=b'E'] => {
            Reading::Input(Some(press(Key::F(last - b'A' + 1), NONE)))
        }
        [ESC, b'[', parameters @ .., last @ 0x40..0x7f] => sequence(parameters, *last),
        [ESC, b'[', ..] => Reading::Unfinished,
        [ESC, rest @ ..] => letter(rest, Held { alt: true, ..NONE }),
        _ => letter(held, NONE),
    }
}

/// One character in UTF-8.
fn letter(bytes: &[u8], held: Held) -> Reading {
    match std::str::from_utf8(bytes) {
        Ok(text) => Reading::Input(text.chars().next().map(|letter| key(letter, held))),
        Err(error) if error.error_len().is_none() => Reading::Unfinished,
        Err(_) => Reading::Input(None),
    }
}

/// `ESC [ parameters last`.
fn sequence(parameters: &[u8], last: u8) -> Reading {
    if let [b'<', report @ ..] = parameters {
        return Reading::Input(mouse(report, last));
    }
    // Answers to questions of somebody else begin so.
    if matches!(parameters.first(), Some(b'<'..=b'?')) {
        return Reading::Input(None);
    }
    let numbers: Vec<Option<u32>> = parameters.split(|byte| *byte == b';').map(number).collect();
    let first = numbers.first().copied().flatten();
    let Some(held) = numbers.get(1).map_or(Some(NONE), |bits| Held::of(*bits)) else {
        return Reading::Input(None);
    };
    let input = match last {
        b'I' if parameters.is_empty() => Some(UserInput::FocusGained),
        b'O' if parameters.is_empty() => Some(UserInput::FocusLost),
        // A place of the cursor that somebody asked for.
        b'R' => None,
        b'~' if first == Some(200) => return Reading::PasteBegins,
        b'~' => first.and_then(by_number).map(|key| press(key, held)),
        b'u' => first
            .and_then(char::from_u32)
            .map(|letter| key(letter, held)),
        _ => by_letter(last, held),
    };
    Reading::Input(input)
}

/// What the mouse did, in the words of SGR mode 1006: `button;column;row`, then `M`, or `m` for a release.
fn mouse(report: &[u8], last: u8) -> Option<UserInput> {
    let mut numbers = report.split(|byte| *byte == b';').map(number);
    let mut next = || numbers.next().flatten();
    let (button, column, row) = (next()?, next()?, next()?);
    // Keys that are held down do not change what is meant.
    let action = match button & !(4 | 8 | 16) {
        0 => MouseAction::Press,
        64 => MouseAction::WheelUp,
        65 => MouseAction::WheelDown,
        _ => return None,
    };
    // The terminal counts from 1.
    let from_0 = |place: u32| u16::try_from(place.checked_sub(1)?).ok();
    (last == b'M').then_some(UserInput::Mouse(action, from_0(column)?, from_0(row)?))
}

/// The number of a parameter, without what may follow after a colon.
fn number(parameter: &[u8]) -> Option<u32> {
    let digits = parameter.split(|byte| *byte == b':').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn by_letter(last: u8, held: Held) -> Option<UserInput> {
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

fn by_number(number: u32) -> Option<Key> {
    // The numbers leave gaps, where a keyboard of long ago had its gaps.
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

/// A character as the terminal sends it, control characters among them.
fn key(letter: char, held: Held) -> UserInput {
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
    press(
        key,
        Held {
            ctrl: held.ctrl || is_ctrl,
            ..held
        },
    )
}

/// The character that stands as far after `base` as `letter` after `first`.
fn shifted(letter: char, base: char, first: u32) -> char {
    char::from_u32(u32::from(letter) - first + u32::from(base)).unwrap_or(letter)
}

fn press(key: Key, held: Held) -> UserInput {
    let Held { ctrl, alt, shift } = held;
    let chord = Chord {
        key,
        ctrl,
        alt,
        shift,
    };
    UserInput::Key(chord.normalized())
}

fn pasted(text: &[u8]) -> UserInput {
    let text = String::from_utf8_lossy(text);
    UserInput::Paste(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// What is held down beside a key.
#[derive(Clone, Copy, Debug)]
struct Held {
    ctrl: bool,
    alt: bool,
    shift: bool,
}

const NONE: Held = Held {
    ctrl: false,
    alt: false,
    shift: false,
};

impl Held {
    /// From the bits of a sequence, which are sent one too high; `None` with Super or Hyper, which are not for us.
    fn of(bits: Option<u32>) -> Option<Self> {
        let bits = bits.unwrap_or(1).saturating_sub(1);
        let (shift, alt, ctrl, foreign, meta) = (1, 2, 4, 8 | 16, 32);
        (bits & foreign == 0).then_some(Self {
            ctrl: bits & ctrl != 0,
            alt: bits & (alt | meta) != 0,
            shift: bits & shift != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(input: &UserInput) -> String {
        match input {
            UserInput::Key(chord) => chord.to_string(),
            UserInput::Paste(text) => format!("paste {text:?}"),
            other => format!("{other:?}").replace(' ', ""),
        }
    }

    /// What comes of the bytes of each read.
    fn read_all(keys: &mut Keys, reads: &[&str]) -> Vec<String> {
        let inputs = reads.iter().flat_map(|read| keys.take(read.as_bytes()));
        inputs.map(|input| said(&input)).collect()
    }

    #[test]
    fn every_key_has_its_bytes() {
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
            (
                "\u{1b}[<0;1;1M\u{1b}[<0;1;1m\u{1b}[<64;80;24M\u{1b}[<69;300;2Mj",
                "Mouse(Press,0,0) Mouse(WheelUp,79,23) Mouse(WheelDown,299,1) j",
            ),
            // Not for us: other buttons, a drag, the wheel to the side, no place at all.
            (
                "\u{1b}[<2;1;1M\u{1b}[<32;1;1M\u{1b}[<66;1;1M\u{1b}[<0;0;1M\u{1b}[<0;1M\u{1b}[<0;99999;1Mq",
                "q",
            ),
            // Not for us: Insert, Super, an answer, a place of the cursor.
            ("\u{1b}[2~\u{1b}[1;9A\u{1b}[?62;1c\u{1b}[3;4Rq", "q"),
        ] {
            assert_eq!(read_all(&mut Keys::default(), &[bytes]).join(" "), inputs);
        }
    }

    #[test]
    fn a_ctrl_c_is_heard_at_once_after_whatever_was_begun() {
        for begun in [
            "",
            "\u{1b}[",
            "\u{1b}[1",
            "\u{1b}[1;",
            "\u{1b}O",
            "\u{1b}[[",
        ] {
            let heard = read_all(&mut Keys::default(), &[begun, "\u{3}", "j"]);
            assert!(
                heard.ends_with(&["ctrl-c".into(), "j".into()]),
                "{begun:?}: {heard:?}"
            );
        }
        assert_eq!(
            read_all(&mut Keys::default(), &["\u{1b}", "\u{3}"]),
            ["esc", "ctrl-c"]
        );
        assert_eq!(
            read_all(&mut Keys::default(), &["\u{1b}[200~ab", "\u{3}", "j"]),
            ["paste \"ab\"", "ctrl-c", "j"]
        );
    }

    #[test]
    fn pasted_text_stays_text() {
        assert_eq!(
            read_all(
                &mut Keys::default(),
                &["\u{1b}[200~q\r\nx\u{3}\ry", "\u{1b}[A\n\u{1b}[20", "1~q"]
            ),
            ["paste \"q\\nx\\u{3}\\ny\\u{1b}[A\\n\"", "q"]
        );
    }

    #[test]
    fn what_stays_unfinished_is_given_up() {
        for (begun, comes) in [
            ("\u{1b}", Some("esc")),
            ("\u{1b}[", Some("alt-[")),
            ("\u{1b}[1;", None),
            ("\u{1b}[200~ab", Some("paste \"ab\"")),
        ] {
            let mut keys = Keys::default();
            assert_eq!(keys.patience(), None);
            keys.take(begun.as_bytes());
            assert!(keys.patience().is_some());
            assert_eq!(keys.give_up().map(|input| said(&input)).as_deref(), comes);
            assert_eq!(keys.patience(), None);
            assert_eq!(read_all(&mut keys, &["j"]), ["j"]);
        }
        // The first byte of two, and then another key.
        let mut keys = Keys::default();
        keys.take(&[0xc3]);
        assert_eq!(read_all(&mut keys, &["j"]), ["j"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_the_same_however_they_are_cut(
            bytes in prop::collection::vec(
                prop_oneof![Just(ESC), Just(b'['), Just(b'1'), Just(b';'), Just(b'~'), any::<u8>()],
                0..60,
            ),
            at in 0_usize..60,
        ) {
            // Alone it means more than in a heap.
            prop_assume!(!bytes.contains(&CTRL_C));
            let (one, two) = bytes.split_at(at.min(bytes.len()));
            let mut keys = Keys::default();
            let mut cut = keys.take(one);
            cut.extend(keys.take(two));
            prop_assert_eq!(cut, Keys::default().take(&bytes));
        }
    }
}
