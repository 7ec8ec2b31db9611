//! Escape sequences other than the frame: title, clipboard, taskbar progress, bell and desktop notifications.
//!
//! Every function returns the bytes, and [`Screen::send`](super::screen::Screen::send) writes them. Their text may come
//! from a server, so it is always sanitized here.

use crate::domain::{DesktopProtocol, OverallProgress, base64, text};

/// The bell.
pub const BELL: &str = "\u{7}";

/// The most bytes that can be copied at once; several terminals silently drop a sequence of more than 100,000 bytes.
pub const COPY_LIMIT: usize = 74_000;

/// The longest title or notification.
const MAX_COLUMNS: usize = 120;
/// Ends an OSC sequence. The older terminator, BEL, would ring in terminals that don't understand the sequence.
const STRING_TERMINATOR: &str = "\u{1b}\\";

/// A terminal multiplexer between us and the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Multiplexer {
    /// None that we know of.
    #[default]
    None,
    /// tmux. It drops sequences that it doesn't know unless its `allow-passthrough` is on.
    Tmux {
        /// Whether the user allows passthrough.
        passthrough: bool,
    },
}

/// A text is too long for the clipboard sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes exceed what terminals accept ({COPY_LIMIT} bytes)")]
pub struct TooLong {
    /// The length of the text in bytes.
    pub bytes: usize,
}

/// The window title (OSC 2); the guard restores the previous one when it leaves.
pub fn title(message: &str) -> String {
    format!("\u{1b}]2;{}{STRING_TERMINATOR}", single_line(message))
}

/// Copies text to the clipboard (OSC 52). The terminal does not report whether it did.
///
/// tmux handles this sequence itself (`set-clipboard`), so it is never wrapped.
pub fn copy(content: &str) -> Result<String, TooLong> {
    // Sanitized, because a shell acts on control characters in pasted text.
    let content = text::clean_block(content);
    if content.len() > COPY_LIMIT {
        return Err(TooLong {
            bytes: content.len(),
        });
    }
    Ok(format!(
        "\u{1b}]52;c;{}{STRING_TERMINATOR}",
        base64(content.as_bytes())
    ))
}

/// Text for the plain terminal, where the mouse can select it.
pub fn page(content: &str) -> String {
    format!(
        "{}\n\n(press Enter to return)\n",
        text::clean_block(content)
    )
}

/// The overall progress (OSC 9;4); `None` if a multiplexer would drop it.
pub fn progress(overall: OverallProgress, multiplexer: Multiplexer) -> Option<String> {
    let (state, value) = match overall {
        OverallProgress::None => (0, 0),
        OverallProgress::Percent(percent) => (1, percent.min(100)),
        OverallProgress::Busy => (3, 0),
    };
    wrap_for(
        format!("\u{1b}]9;4;{state};{value}{STRING_TERMINATOR}"),
        multiplexer,
    )
}

/// A desktop notification; `None` if a multiplexer would drop it.
pub fn notify(message: &str, by: DesktopProtocol, multiplexer: Multiplexer) -> Option<String> {
    let message = single_line(message);
    let sequence = match by {
        // The name comes first so that a message that starts with `4;` isn't taken for progress.
        DesktopProtocol::Osc9 => format!("\u{1b}]9;longhaul: {message}{STRING_TERMINATOR}"),
        DesktopProtocol::Osc777 => {
            format!("\u{1b}]777;notify;longhaul;{message}{STRING_TERMINATOR}")
        }
        DesktopProtocol::Osc99 => format!("\u{1b}]99;;longhaul: {message}{STRING_TERMINATOR}"),
    };
    wrap_for(sequence, multiplexer)
}

fn single_line(message: &str) -> String {
    text::truncate(&text::clean_line(message), MAX_COLUMNS).into_owned()
}

/// Wraps a sequence so that tmux passes it on (tmux(1), `allow-passthrough`).
fn wrap_for(sequence: String, multiplexer: Multiplexer) -> Option<String> {
    match multiplexer {
        Multiplexer::None => Some(sequence),
        Multiplexer::Tmux { passthrough: false } => None,
        Multiplexer::Tmux { passthrough: true } => {
            let doubled = sequence.replace('\u{1b}', "\u{1b}\u{1b}");
            Some(format!("\u{1b}Ptmux;{doubled}{STRING_TERMINATOR}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_title_cannot_end_its_sequence() {
        assert_eq!(
            title("a\u{1b}\\\u{7}\u{9c}\n]52;c;eA=="),
            "\u{1b}]2;a\u{fffd}\\\u{fffd}\u{fffd} ]52;c;eA==\u{1b}\\"
        );
    }

    #[test]
    fn removes_control_characters_from_text() {
        let hostile = "a\u{1b}\\\u{7}\u{9c}\u{202e}\u{e0041}\tb";
        let clean = "a\u{fffd}\\\u{fffd}\u{fffd}\u{fffd}\u{fffd}";
        assert_eq!(
            notify(hostile, DesktopProtocol::Osc9, Multiplexer::None).unwrap(),
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
    fn rejects_a_copy_that_terminals_would_drop() {
        assert_eq!(copy("hi").unwrap(), "\u{1b}]52;c;aGk=\u{1b}\\");
        assert_eq!(
            copy(&"x".repeat(COPY_LIMIT + 1)),
            Err(TooLong {
                bytes: COPY_LIMIT + 1
            })
        );
    }

    #[test]
    fn wraps_for_tmux_only_if_passthrough_is_allowed() {
        let tmux = |passthrough| Multiplexer::Tmux { passthrough };
        assert_eq!(
            progress(OverallProgress::Percent(40), Multiplexer::None).unwrap(),
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
        fn no_text_contains_control_characters(input in any::<String>()) {
            let notifications = <DesktopProtocol as strum::VariantArray>::VARIANTS.iter().map(|by| notify(&input, *by, Multiplexer::None));
            for sequence in notifications.chain([Some(title(&input)), copy(&input).ok()]) {
                let sequence = sequence.unwrap();
                let inner = sequence.strip_prefix('\u{1b}').unwrap().strip_suffix("\u{1b}\\").unwrap();
                prop_assert!(!inner.chars().any(char::is_control));
            }
        }
    }
}
