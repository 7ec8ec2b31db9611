//! The glyphs of the screen, in Unicode and in ASCII.

use ratatui::symbols::{bar, border};

/// A set of glyphs, each one column wide.
#[derive(Debug)]
pub(crate) struct Glyphs {
    pub(crate) running: &'static str,
    pub(crate) reconnecting: &'static str,
    pub(crate) offline: &'static str,
    pub(crate) restored: &'static str,
    pub(crate) paused: &'static str,
    pub(crate) asks: &'static str,
    pub(crate) failed: &'static str,
    pub(crate) lost: &'static str,
    pub(crate) done: &'static str,
    pub(crate) cancelled: &'static str,
    pub(crate) unknown: &'static str,
    pub(crate) cursor: &'static str,
    pub(crate) new: &'static str,
    pub(crate) mark: &'static str,
    pub(crate) bar: &'static str,
    pub(crate) rest: &'static str,
    /// The moving part of an indeterminate progress bar.
    pub(crate) wave: [&'static str; 3],
    pub(crate) line: &'static str,
    pub(crate) frame: border::Set<'static>,
    pub(crate) spark: bar::Set<'static>,
    /// The connection timeline: live, disconnected, asleep, unwatched, replay, gap.
    pub(crate) trail: [&'static str; 6],
    pub(crate) more: &'static str,
    pub(crate) arrows: [&'static str; 2],
}

const UNICODE: Glyphs = Glyphs {
    running: "●",
    reconnecting: "◐",
    offline: "○",
    restored: "◌",
    paused: "‖",
    asks: "?",
    failed: "✗",
    lost: "!",
    done: "✓",
    cancelled: "–",
    unknown: "¿",
    cursor: "▸",
    new: "•",
    mark: "+",
    bar: "█",
    rest: "░",
    wave: ["▒", "▓", "▒"],
    line: "─",
    frame: border::PLAIN,
    spark: bar::NINE_LEVELS,
    trail: ["━", "╍", "z", "·", "▲", "✗"],
    more: "…",
    arrows: ["↑", "↓"],
};

const ASCII: Glyphs = Glyphs {
    running: "*",
    reconnecting: "~",
    offline: "o",
    restored: ",",
    paused: ":",
    asks: "?",
    failed: "x",
    lost: "!",
    done: "v",
    cancelled: "-",
    unknown: "u",
    cursor: ">",
    new: "'",
    mark: "+",
    bar: "#",
    rest: ".",
    wave: ["-", "=", "-"],
    line: "-",
    frame: border::Set {
        top_left: "+",
        top_right: "+",
        bottom_left: "+",
        bottom_right: "+",
        vertical_left: "|",
        vertical_right: "|",
        horizontal_top: "-",
        horizontal_bottom: "-",
    },
    spark: bar::Set {
        empty: " ",
        one_eighth: "_",
        one_quarter: "_",
        three_eighths: ".",
        half: ".",
        five_eighths: ":",
        three_quarters: ":",
        seven_eighths: "|",
        full: "|",
    },
    trail: ["=", "~", "z", ".", "^", "x"],
    more: "~",
    arrows: ["^", "v"],
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
            let [live, disconnected, _, unwatched, ..] = set.trail;
            let timeline = [
                live,
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
