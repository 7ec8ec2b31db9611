//! The one clamp for numbers that a server sends as progress.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// Numbers beyond this are taken as nonsense; 2^53 is where a float stops counting.
const LIMIT: f64 = 9_007_199_254_740_992.0;

/// How far a task is, as the server reported it, made safe to compute with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Finite and from 0 to 2^53.
    pub value: f64,
    /// Finite, above 0 and not below `value`; absent when the server gave none or nonsense.
    pub total: Option<f64>,
    /// The server's own words, not yet sanitised.
    pub message: Option<CompactString>,
}

impl Progress {
    /// Takes what a server sent (MCP 2025-11-25, utilities/progress); `None` if the value is no number to show.
    pub fn reported(
        value: f64,
        total: Option<f64>,
        message: Option<CompactString>,
    ) -> Option<Self> {
        if !(0.0..=LIMIT).contains(&value) {
            return None;
        }
        let total =
            total.filter(|total| (f64::MIN_POSITIVE..=LIMIT).contains(total) && *total >= value);
        Some(Self {
            // A zero may come with a sign.
            value: value + 0.0,
            total,
            message,
        })
    }

    /// Puts a copy where an older one stands, in its room: steps come by the hundred thousand.
    pub fn clone_into_slot(&self, slot: &mut Option<Self>) {
        match slot {
            Some(old) => {
                (old.value, old.total) = (self.value, self.total);
                old.message.clone_from(&self.message);
            }
            None => *slot = Some(self.clone()),
        }
    }

    /// Done as a part of 1; `None` without a total. Reaching 1 is not completion, only the response is.
    pub fn ratio(&self) -> Option<f64> {
        self.total.map(|total| (self.value / total).clamp(0.0, 1.0))
    }

    /// Done in whole percent; `None` without a total. Never 100, because only the response says that.
    pub fn percent(&self) -> Option<u8> {
        self.ratio().map(whole_percent)
    }
}

/// A part of 1 in whole percent. Never 100, because only the response says that.
pub fn whole_percent(share: f64) -> u8 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to what a percentage holds"
    )]
    let whole = (share.clamp(0.0, 1.0) * 100.0) as u8;
    whole.min(99)
}

/// Letters of a text that are looked at; a line about progress is short.
const LETTERS_READ: usize = 400;
/// Shares that differ by no more say the same, rounded in another way.
const SAME_SHARE: f64 = 0.01;

/// A piece of a text, and whether it follows the one before without a space.
#[derive(Debug, PartialEq)]
struct Piece {
    what: What,
    is_glued: bool,
}

#[derive(Debug, PartialEq)]
enum What {
    Number(f64),
    Word(String),
    Sign(char),
}

/// The part of 1 that is done, as a text of the server's says it: `35%`, `30/50`, `step 3 of 10`, `3 out of 10`.
///
/// A guess: nothing in MCP gives such words a meaning. `None` without such words, and where they contradict each other.
pub fn fraction_in(text: &str) -> Option<f64> {
    let pieces = pieces(text);
    let mut found = (0..pieces.len()).filter_map(|at| share_at(&pieces, at));
    let share = found.next()?;
    found
        .all(|other| (other - share).abs() <= SAME_SHARE)
        .then_some(share)
}

/// The share that begins with the number at `at`.
fn share_at(pieces: &[Piece], at: usize) -> Option<f64> {
    let what = |ahead: usize| pieces.get(at + ahead).map(|piece| &piece.what);
    let number = |ahead: usize| match what(ahead) {
        Some(What::Number(number)) => Some(*number),
        _ => None,
    };
    let is_word =
        |ahead: usize, word: &str| matches!(what(ahead), Some(What::Word(it)) if it == word);
    let done = number(0)?;
    let before = |back: usize| Some(&pieces.get(at.checked_sub(back)?)?.what);
    // The tail of something else: a negative number, a path, a date, a version, a time of day.
    let is_tail = match before(1) {
        Some(What::Word(_)) => true,
        Some(What::Sign(':')) => matches!(before(2), Some(What::Number(_))),
        Some(What::Sign(sign)) => "-\u{2212}/\\.,_".contains(*sign),
        _ => false,
    };
    if is_tail && pieces.get(at).is_some_and(|here| here.is_glued) {
        return None;
    }
    if matches!(what(1), Some(What::Sign('%'))) || is_word(1, "percent") {
        return (0.0..=100.0).contains(&done).then_some(done / 100.0);
    }
    let (total_at, total) = if matches!(what(1), Some(What::Sign('/'))) || is_word(1, "of") {
        (2, number(2)?)
    } else if is_word(1, "out") && is_word(2, "of") {
        (3, number(3)?)
    } else {
        return None;
    };
    let after = pieces.get(at + total_at + 1);
    if after.is_some_and(|after| after.is_glued && matches!(after.what, What::Sign('/' | '%'))) {
        return None;
    }
    Progress::reported(done, Some(total), None)?.ratio()
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut letters = text.chars().take(LETTERS_READ).peekable();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut is_glued = false;
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            is_glued = false;
            continue;
        }
        let what = if letter.is_ascii_digit() {
            let mut digits = String::from(letter);
            while let Some(next) = letters.next_if(|it| it.is_ascii_digit() || ".,".contains(*it)) {
                digits.push(next);
            }
            let whole = digits.trim_end_matches(['.', ',']);
            match number(whole) {
                Some(number) => What::Number(number),
                None => What::Word(digits),
            }
        } else if letter.is_alphabetic() {
            let mut word = String::from(letter);
            while let Some(next) = letters.next_if(|it| it.is_alphanumeric()) {
                word.push(next);
            }
            What::Word(word.to_lowercase())
        } else {
            What::Sign(letter)
        };
        pieces.push(Piece { what, is_glued });
        is_glued = true;
    }
    pieces
}

/// Digits with a point, a comma for it, or thousands set apart by commas; `None` for a version and the like.
fn number(digits: &str) -> Option<f64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let groups: Vec<&str> = whole.split(',').collect();
    let (first, rest) = groups.split_first()?;
    if rest.is_empty() || first.len() <= 3 && rest.iter().all(|group| group.len() == 3) {
        return format!("{}.{fraction}0", groups.concat()).parse().ok();
    }
    match rest {
        [decimals] if fraction.is_empty() => format!("{first}.{decimals}").parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_numbers_never_get_in() {
        let zero = Progress::reported(-0.0, None, None).map(|p| p.value.is_sign_negative());
        assert_eq!(zero, Some(false));
        for value in [f64::NAN, f64::INFINITY, -1.0, 1e308] {
            assert_eq!(Progress::reported(value, Some(10.0), None), None, "{value}");
        }
        for total in [f64::NAN, f64::INFINITY, 0.0, -5.0, 3.0, 1e308] {
            assert_eq!(
                Progress::reported(4.0, Some(total), None).and_then(|p| p.total),
                None
            );
        }
    }

    #[test]
    fn a_hundred_percent_is_never_shown_before_the_response() {
        let percent =
            |value, total| Progress::reported(value, Some(total), None).and_then(|p| p.percent());
        assert_eq!(percent(50.0, 50.0), Some(99));
        assert_eq!(percent(30.0, 50.0), Some(60));
        assert_eq!(percent(4.0, f64::NAN), None);
    }

    #[test]
    fn a_share_is_read_out_of_the_words_that_servers_use() {
        let cases = [
            ("35%", 0.35),
            ("Rendering (35 %) of the scene", 0.35),
            ("35.5 percent done", 0.355),
            ("12,5% gelesen", 0.125),
            ("30/50", 0.6),
            ("Processed 1,320 / 4,600 rows", 1320.0 / 4600.0),
            ("step 3 of 10: warming up", 0.3),
            ("Step 3 out of 10.", 0.3),
            ("[3/10] compile", 0.3),
            ("progress=0%", 0.0),
            ("step:3/10", 0.3),
            ("0/50", 0.0),
            ("30/50MB", 0.6),
            // It says the same twice.
            ("30/50 records (60%)", 0.6),
            ("1/3, 33%", 1.0 / 3.0),
            // Numbers beside it that say nothing of a share.
            ("worker 7: 20 of 40 in 3.5 s", 0.5),
        ];
        for (text, share) in cases {
            let found = fraction_in(text);
            let is_it = found.is_some_and(|found| (found - share).abs() < 1e-9);
            assert!(is_it, "{text}: {found:?}, not {share}");
        }
    }

    #[test]
    fn where_words_say_no_share_or_two_there_is_none() {
        let long = format!("{} 35%", "x".repeat(LETTERS_READ));
        let huge = format!("{}%", "9".repeat(400));
        let cases = [
            "",
            "working",
            "%",
            "35",
            "of 10",
            "3 of",
            "-5%",
            "\u{2212}5 of 10 and -5/10",
            "120%",
            "60/50",
            "3 of 0",
            "0/0",
            "NaN% of inf",
            "1e9%",
            "2026/11/20",
            "20/11/2026 10:05",
            "http://a.example/30/50",
            "v1.2.3/4",
            "12:30/45",
            "1,2,3/10",
            "9007199254740993 of 9007199254740994",
            "step 3 of 10: 35%",
            "10%, then 90%",
            "\u{1b}[31m",
            long.as_str(),
            huge.as_str(),
        ];
        for text in cases {
            assert_eq!(fraction_in(text), None, "{text}");
        }
    }

    #[test]
    fn a_share_out_of_words_is_never_shown_as_all() {
        assert_eq!(fraction_in("100%").map(whole_percent), Some(99));
        assert_eq!(whole_percent(f64::NAN), 0);
    }

    #[test]
    fn the_ratio_is_a_part_of_one() {
        let half = Progress::reported(15.0, Some(30.0), None).unwrap();
        assert_eq!(half.ratio(), Some(0.5));
        assert_eq!(Progress::reported(15.0, None, None).unwrap().ratio(), None);
    }
}
