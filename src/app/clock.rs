//! Times of day in the zone of the user.

use crate::domain::{Stamp, Wall};

use super::State;

/// Within this time, a weekday is unambiguous.
const SIX_DAYS_MS: u64 = 6 * 24 * 60 * 60 * 1000;

/// Times of day in the user's zone.
impl State {
    fn zoned(&self, at: Wall) -> Option<jiff::Zoned> {
        let time = jiff::Timestamp::from_millisecond(at.0).ok()?;
        Some(time.to_zoned(self.setup.tz.clone()))
    }

    fn formatted(&self, at: Wall, format: &str, unknown: &str) -> String {
        let time = self.zoned(at);
        time.map_or_else(|| unknown.to_owned(), |it| it.strftime(format).to_string())
    }

    /// `06:52:10`.
    pub fn clock_seconds(&self, at: Wall) -> String {
        self.formatted(at, "%H:%M:%S", "--:--:--")
    }

    /// `06:52`.
    pub fn clock_minutes(&self, at: Wall) -> String {
        self.formatted(at, "%H:%M", "--:--")
    }

    /// `Fri 06:52`, or `20 Nov 06:52` if the weekday would be ambiguous.
    pub fn clock_day(&self, at: Wall) -> String {
        let is_near = at.0.abs_diff(self.now().wall.0) < SIX_DAYS_MS;
        let format = if is_near { "%a %H:%M" } else { "%-d %b %H:%M" };
        self.formatted(at, format, "--- --:--")
    }

    /// `Fri 20`, for a midnight.
    pub(super) fn clock_date(&self, at: Wall) -> String {
        self.formatted(at, "%a %-d", "---")
    }

    /// How many seconds local time is ahead of UTC.
    pub(super) fn utc_offset(&self, at: Wall) -> i64 {
        self.zoned(at)
            .map_or(0, |time| i64::from(time.offset().seconds()))
    }

    /// `06:52` of today, else `11-02`: short enough for a column.
    pub fn clock_short(&self, at: Wall, now: Stamp) -> String {
        let (Some(time), Some(today)) = (self.zoned(at), self.zoned(now.wall)) else {
            return "-".to_owned();
        };
        if time.date() == today.date() {
            self.clock_minutes(at)
        } else {
            time.strftime("%m-%d").to_string()
        }
    }
}
