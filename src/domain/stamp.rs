//! Times as values. A [`Stamp`] has a monotonic time, for elapsed time, and a wall-clock time, for display and storage.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Whole milliseconds.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since an arbitrary start; never goes back, and stops while the machine sleeps.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Mono(pub u64);

impl Mono {
    /// The time from `earlier` to `self`, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The moment `wait` after this one.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(millis(wait)))
    }

    /// The last moment up to this one that is a multiple of `step`.
    #[must_use]
    pub fn at_last_multiple_of(self, step: Duration) -> Self {
        let step = millis(step).max(1);
        Self(self.0 / step * step)
    }
}

/// Milliseconds since 1970-01-01 UTC, as saved; may jump when the clock is set.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Wall(pub i64);

impl Wall {
    /// The time from `earlier` to `self`, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The moment `wait` after this one.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// RFC 3339 in UTC with milliseconds, e.g. `2026-11-20T06:51:58.120Z`.
    pub fn rfc3339(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => format!("{time:.3}"),
            // Outside the years -9999 to 9999: the clock is wrong, so show the raw value.
            Err(_) => format!("@{}ms", self.0),
        }
    }

    /// Parses RFC 3339.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>()
            .ok()
            .map(|time| Self(time.as_millisecond()))
    }
}

/// One reading of both clocks. The event loops of shell and engine take one per iteration and pass it on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Monotonic time, for elapsed time.
    pub mono: Mono,
    /// Wall-clock time, for display and storage.
    pub wall: Wall,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_round_trips_through_rfc3339() {
        let time = Wall(1_795_157_518_120);
        assert_eq!(time.rfc3339(), "2026-11-20T06:51:58.120Z");
        assert_eq!(Wall::parse_rfc3339(&time.rfc3339()), Some(time));
        assert_eq!(Wall(i64::MAX).rfc3339(), format!("@{}ms", i64::MAX));
    }

    #[test]
    fn elapsed_time_is_never_negative() {
        assert_eq!(Mono(3).since(Mono(5)), Duration::ZERO);
        assert_eq!(Wall(3).since(Wall(5)), Duration::ZERO);
    }
}
