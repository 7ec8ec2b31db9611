//! The glyphs of the screen, in Unicode and in ASCII.

use ratatui::symbols::{bar, border};

/// Declares [`Glyphs`] and its two sets: in each line the name of a glyph, its type, and its form in Unicode and in ASCII.
macro_rules! glyphs {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $unicode:expr, $ascii:expr;)*) => {
        /// A set of glyphs, each one column wide.
        #[derive(Debug)]
        pub(crate) struct Glyphs {
            $($(#[$doc])* pub(crate) $name: $type,)*
        }

        const UNICODE: Glyphs = Glyphs { $($name: $unicode,)* };
        const ASCII: Glyphs = Glyphs { $($name: $ascii,)* };
    };
}

glyphs! {
    running: &'static str = "●", "*";
    reconnecting: &'static str = "◐", "~";
    offline: &'static str = "○", "o";
    restored: &'static str = "◌", ",";
    paused: &'static str = "‖", ":";
    asks: &'static str = "?", "?";
    failed: &'static str = "✗", "x";
    lost: &'static str = "!", "!";
    done: &'static str = "✓", "v";
    cancelled: &'static str = "–", "-";
    unknown: &'static str = "¿", "u";
    cursor: &'static str = "▸", ">";
    new: &'static str = "•", "'";
    mark: &'static str = "+", "+";
    bar: &'static str = "█", "#";
    rest: &'static str = "░", ".";
    /// The moving part of an indeterminate progress bar.
    wave: [&'static str; 3] = ["▒", "▓", "▒"], ["-", "=", "-"];
    line: &'static str = "─", "-";
    frame: border::Set<'static> = border::PLAIN, ASCII_FRAME;
    spark: bar::Set<'static> = bar::NINE_LEVELS, ASCII_SPARK;
    /// The timeline: running, disconnected, unwatched.
    trail: [&'static str; 3] = ["━", "╍", "·"], ["=", "~", "."];
    more: &'static str = "…", "~";
    arrows: [&'static str; 2] = ["↑", "↓"], ["^", "v"];
}

const ASCII_FRAME: border::Set<'_> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

const ASCII_SPARK: bar::Set<'_> = bar::Set {
    empty: " ",
    one_eighth: "_",
    one_quarter: "_",
    three_eighths: ".",
    half: ".",
    five_eighths: ":",
    three_quarters: ":",
    seven_eighths: "|",
    full: "|",
};

impl Glyphs {
    pub(crate) fn of(look: crate::app::Look) -> &'static Self {
        if look.ascii { &ASCII } else { &UNICODE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::text::width;

    fn statuses(set: &Glyphs) -> [&'static str; 11] {
        [
            set.running,
            set.reconnecting,
            set.offline,
            set.restored,
            set.paused,
            set.asks,
            set.failed,
            set.lost,
            set.done,
            set.cancelled,
            set.unknown,
        ]
    }

    #[test]
    fn no_sign_of_a_status_or_of_the_timeline_has_two_meanings() {
        for set in [&UNICODE, &ASCII] {
            let [running, disconnected, unwatched] = set.trail;
            let timeline = [
                running,
                disconnected,
                unwatched,
                set.paused,
                set.asks,
                set.restored,
            ];
            for signs in [&statuses(set)[..], &timeline] {
                let mut sorted = signs.to_vec();
                sorted.sort_unstable();
                assert!(sorted.is_sorted_by(|one, next| one < next), "{signs:?}");
            }
        }
    }

    #[test]
    fn ascii_set_is_ascii_and_all_glyphs_are_one_column_wide() {
        for set in [&UNICODE, &ASCII] {
            let others = [
                set.cursor, set.new, set.mark, set.bar, set.rest, set.line, set.more,
            ];
            let signs = statuses(set).into_iter().chain(others);
            for sign in signs.chain(set.wave).chain(set.trail) {
                assert_eq!(width(sign), 1, "{sign}");
            }
        }
        assert!(format!("{ASCII:?}").is_ascii());
    }
}
