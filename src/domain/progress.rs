//! The one clamp for numbers that a server sends as progress.

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
    pub message: Option<String>,
}

impl Progress {
    /// Takes what a server sent (MCP 2025-11-25, utilities/progress); `None` if the value is no number to show.
    pub fn reported(value: f64, total: Option<f64>, message: Option<String>) -> Option<Self> {
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
    pub fn copy_to(&self, slot: &mut Option<Self>) {
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
        self.ratio().map(|ratio| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a ratio is from 0 to 1"
            )]
            let whole = (ratio * 100.0) as u8;
            whole.min(99)
        })
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
    fn the_ratio_is_a_part_of_one() {
        let half = Progress::reported(15.0, Some(30.0), None).unwrap();
        assert_eq!(half.ratio(), Some(0.5));
        assert_eq!(Progress::reported(15.0, None, None).unwrap().ratio(), None);
    }
}
