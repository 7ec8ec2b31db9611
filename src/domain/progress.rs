//! Validation of the progress numbers that servers send, and percentages in progress messages.

use std::sync::LazyLock;

use compact_str::CompactString;
use regex::Regex;
use serde::{Deserialize, Serialize};

use super::text;

/// Larger numbers are rejected: above 2^53, a float can't represent every integer.
const LIMIT: f64 = 9_007_199_254_740_992.0;

/// Progress as reported by the server, validated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Finite and from 0 to 2^53.
    pub value: f64,
    /// Finite, above 0 and not below `value`; `None` if the server sent none or an invalid one.
    pub total: Option<f64>,
    /// The server's message, not sanitized.
    pub message: Option<CompactString>,
}

impl Progress {
    /// Validates what a server sent (MCP 2025-11-25, utilities/progress); `None` if the value is unusable.
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
            // Turns -0 into 0.
            value: value + 0.0,
            total,
            message,
        })
    }

    /// Clones into `slot`, reusing its allocation: steps come by the hundred thousand.
    pub fn clone_into_slot(&self, slot: &mut Option<Self>) {
        match slot {
            Some(old) => {
                (old.value, old.total) = (self.value, self.total);
                old.message.clone_from(&self.message);
            }
            None => *slot = Some(self.clone()),
        }
    }

    /// The fraction done, from 0 to 1; `None` without a total. A fraction of 1 doesn't mean that the task completed.
    pub fn ratio(&self) -> Option<f64> {
        self.total.map(|total| (self.value / total).clamp(0.0, 1.0))
    }

    /// Percent done; `None` without a total. At most 99, because only the response means completion.
    pub fn percent(&self) -> Option<u8> {
        self.ratio().map(whole_percent)
    }
}

/// A fraction as whole percent. At most 99, because only the response means completion.
pub fn whole_percent(fraction: f64) -> u8 {
    // A quotient such as 29 / 50 can be a trifle too small.
    let whole = text::whole_part(fraction.clamp(0.0, 1.0) * 100.0 + 1e-9);
    u8::try_from(whole.min(99)).unwrap_or(99)
}

/// Characters that are read of a message; a line about progress is short.
const LETTERS_READ: usize = 400;
/// Fractions that differ by no more than this are the same value, rounded differently.
const ROUNDING: f64 = 0.01;

/// `35%`, `30/50`, `step 3 of 10`, `3 out of 10`. What has a `head` or a `tail` is something else: a negative number, a path,
/// a date, a version, a time of day.
static FRACTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r"(?ix)
        (?<head> [\w--[0-9]] | [-\u{2212}/\\.,] | [0-9]\s*: )?
        (?<done> [0-9][0-9.,]* ) \s*
        (?:
            % | percent\b |
            (?: / | of\b | out\s+of\b ) \s* (?<total> [0-9][0-9.,]* ) (?<tail> [/%]\S* )?
        )";
    Regex::new(pattern).ok()
});

/// The fraction done according to a message.
///
/// A guess, because MCP gives such text no meaning. `None` if the message has no such text, or contradictory ones.
pub fn fraction_in(text: &str) -> Option<f64> {
    let end = text.char_indices().nth(LETTERS_READ);
    let text = text.get(..end.map_or(text.len(), |(at, _)| at))?;
    let mut found = FRACTION.as_ref()?.captures_iter(text).filter_map(|found| {
        if found.name("head").or(found.name("tail")).is_some() {
            return None;
        }
        let done = number(found.name("done")?.as_str())?;
        let total = match found.name("total") {
            Some(total) => number(total.as_str())?,
            None => 100.0,
        };
        Progress::reported(done, Some(total), None)?.ratio()
    });
    let fraction = found.next()?;
    found
        .all(|other| (other - fraction).abs() <= ROUNDING)
        .then_some(fraction)
}

/// Parses digits with a decimal point or comma, or with commas between thousands; `None` for versions and the like.
fn number(digits: &str) -> Option<f64> {
    let digits = digits.trim_end_matches(['.', ',']);
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
    fn rejects_invalid_numbers() {
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
    fn percent_stays_below_100_until_the_response() {
        let percent =
            |value, total| Progress::reported(value, Some(total), None).and_then(|p| p.percent());
        assert_eq!(percent(50.0, 50.0), Some(99));
        assert_eq!(percent(29.0, 50.0), Some(58));
        assert_eq!(percent(57.0, 100.0), Some(57));
        assert_eq!(percent(4.0, f64::NAN), None);
    }

    #[test]
    fn finds_the_fraction_in_common_messages() {
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
            // The same fraction twice.
            ("30/50 records (60%)", 0.6),
            ("1/3, 33%", 1.0 / 3.0),
            // Unrelated numbers next to it.
            ("worker 7: 20 of 40 in 3.5 s", 0.5),
        ];
        for (text, fraction) in cases {
            let found = fraction_in(text);
            let is_it = found.is_some_and(|found| (found - fraction).abs() < 1e-9);
            assert!(is_it, "{text}: {found:?}, not {fraction}");
        }
    }

    #[test]
    fn finds_no_fraction_in_unclear_messages() {
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
    fn percent_of_a_guess_stays_below_100() {
        assert_eq!(fraction_in("100%").map(whole_percent), Some(99));
        assert_eq!(whole_percent(f64::NAN), 0);
    }

    #[test]
    fn ratio_is_from_0_to_1() {
        let half = Progress::reported(15.0, Some(30.0), None).unwrap();
        assert_eq!(half.ratio(), Some(0.5));
        assert_eq!(Progress::reported(15.0, None, None).unwrap().ratio(), None);
    }
}
