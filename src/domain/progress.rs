//! Validation of the progress numbers that servers send.

use compact_str::CompactString;
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
        assert_eq!(whole_percent(f64::NAN), 0);
    }

    #[test]
    fn ratio_is_from_0_to_1() {
        let half = Progress::reported(15.0, Some(30.0), None).unwrap();
        assert_eq!(half.ratio(), Some(0.5));
        assert_eq!(Progress::reported(15.0, None, None).unwrap().ratio(), None);
    }
}
