//! What is said to the terminal beside the picture: title, clipboard, overall progress, bell and notification.
//!
//! Every function gives the bytes back, [`Screen::send`](super::screen::Screen::send) writes them. Text in them may
//! come from a server, so it is sanitised here whatever was done before.

use std::fmt::Write as _;

use crate::domain::{DesktopProtocol, OverallProgress, base64, text};

/// The bell.
pub const BELL: &str = "\u{7}";

/// What can be copied at once, in bytes; several terminals drop a sequence of more than 100,000 bytes in silence.
pub const COPY_LIMIT: usize = 74_000;

/// Columns of a title or notification.
const LINE_LIMIT: usize = 120;
/// Ends a string sequence; the older ending, BEL, would ring where the sequence is not understood.
const END: &str = "\u{1b}\\";

/// Who stands between us and the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Between {
    /// Nobody that we know of.
    #[default]
    Nobody,
    /// tmux. It keeps to itself what it does not know, unless its `allow-passthrough` is on.
    Tmux {
        /// Whether the user said that passthrough may be used.
        passthrough: bool,
    },
}

/// A text was too long for the clipboard sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes are more than terminals take from a program ({COPY_LIMIT})")]
pub struct TooLong {
    /// Its length.
    pub bytes: usize,
}

/// The window title (OSC 2); what was there comes back when the guard leaves.
pub fn title(words: &str) -> String {
    format!("\u{1b}]2;{}{END}", line(words))
}

/// Puts text into the clipboard (OSC 52). Whether the terminal did it cannot be known.
///
/// tmux understands this one itself (`set-clipboard`), so it is never wrapped.
pub fn copy(words: &str) -> Result<String, TooLong> {
    // What is pasted into a shell is obeyed by it as by a terminal.
    let words = text::clean_block(words);
    if words.len() > COPY_LIMIT {
        return Err(TooLong { bytes: words.len() });
    }
    Ok(format!("\u{1b}]52;c;{}{END}", base64(words.as_bytes())))
}

/// Text for the plain terminal, where the mouse can take it.
pub fn page(words: &str) -> String {
    format!("{}\n\n(Enter goes back)\n", text::clean_block(words))
}

/// The overall progress (OSC 9;4); `None` where it could not reach the terminal.
pub fn progress(overall: OverallProgress, between: Between) -> Option<String> {
    let (state, value) = match overall {
        OverallProgress::None => (0, 0),
        OverallProgress::Percent(percent) => (1, percent.min(100)),
        OverallProgress::Busy => (3, 0),
    };
    through(format!("\u{1b}]9;4;{state};{value}{END}"), between)
}

/// A notification of the desktop; `None` where it could not reach the terminal.
pub fn notify(words: &str, by: DesktopProtocol, between: Between) -> Option<String> {
    let words = line(words);
    let sequence = match by {
        // The name in front keeps a text that begins with `4;` from being taken for progress.
        DesktopProtocol::Osc9 => format!("\u{1b}]9;longhaul: {words}{END}"),
        DesktopProtocol::Osc777 => format!("\u{1b}]777;notify;longhaul;{words}{END}"),
        DesktopProtocol::Osc99 => format!("\u{1b}]99;;longhaul: {words}{END}"),
    };
    through(sequence, between)
}

fn line(words: &str) -> String {
    text::truncate(&text::clean_line(words), LINE_LIMIT).into_owned()
}

/// Wraps a sequence so that tmux hands it on (tmux(1), `allow-passthrough`).
fn through(sequence: String, between: Between) -> Option<String> {
    match between {
        Between::Nobody => Some(sequence),
        Between::Tmux { passthrough: false } => None,
        Between::Tmux { passthrough: true } => {
            let mut out = String::from("\u{1b}Ptmux;");
            for letter in sequence.chars() {
                if letter == '\u{1b}' {
                    out.push(letter);
                }
                out.push(letter);
            }
            // Writing to a string cannot fail.
            let _ = write!(out, "{END}");
            Some(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hostile_title_cannot_end_its_sequence() {
        assert_eq!(
            title("a\u{1b}\\\u{7}\u{9c}\n]52;c;eA=="),
            "\u{1b}]2;a\u{fffd}\\\u{fffd}\u{fffd} ]52;c;eA==\u{1b}\\"
        );
    }

    #[test]
    fn nothing_steers_from_within_a_sequence() {
        let hostile = "a\u{1b}\\\u{7}\u{9c}\u{202e}\u{e0041}\tb";
        let clean = "a\u{fffd}\\\u{fffd}\u{fffd}\u{fffd}\u{fffd}";
        assert_eq!(
            notify(hostile, DesktopProtocol::Osc9, Between::Nobody).unwrap(),
            format!("\u{1b}]9;longhaul: {clean} b\u{1b}\\")
        );
        let copied = format!("{clean}    b");
        assert!(page(hostile).starts_with(&format!("{copied}\n")));
        assert_eq!(
            copy(hostile).unwrap(),
            format!("\u{1b}]52;c;{}\u{1b}\\", base64(copied.as_bytes()))
        );
    }

    #[test]
    fn a_copy_that_would_be_dropped_is_refused() {
        assert_eq!(copy("hi").unwrap(), "\u{1b}]52;c;aGk=\u{1b}\\");
        assert_eq!(
            copy(&"x".repeat(COPY_LIMIT + 1)),
            Err(TooLong {
                bytes: COPY_LIMIT + 1
            })
        );
    }

    #[test]
    fn tmux_gets_a_wrapper_only_when_that_is_allowed() {
        let tmux = |passthrough| Between::Tmux { passthrough };
        assert_eq!(
            progress(OverallProgress::Percent(40), Between::Nobody).unwrap(),
            "\u{1b}]9;4;1;40\u{1b}\\"
        );
        assert_eq!(progress(OverallProgress::None, tmux(false)), None);
        assert_eq!(
            notify("4;1;1", DesktopProtocol::Osc9, tmux(true)).unwrap(),
            "\u{1b}Ptmux;\u{1b}\u{1b}]9;longhaul: 4;1;1\u{1b}\u{1b}\\\u{1b}\\"
        );
    }

    proptest! {
        #[test]
        fn no_text_steers_the_terminal(words in any::<String>()) {
            let told = DesktopProtocol::ALL.map(|(_, by)| notify(&words, by, Between::Nobody));
            for sequence in told.into_iter().chain([Some(title(&words)), copy(&words).ok()]) {
                let sequence = sequence.unwrap();
                let inner = sequence.strip_prefix('\u{1b}').unwrap().strip_suffix("\u{1b}\\").unwrap();
                prop_assert!(!inner.chars().any(char::is_control));
            }
        }
    }
}
