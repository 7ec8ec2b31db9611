//! How often something that a person sees may be done: at once after a while without it, then at an even pace.

use core::time::Duration;

use super::Mono;

/// The shortest time between two.
const APART: Duration = Duration::from_millis(5);
/// How far ahead of the pace a burst may get.
const AHEAD: Duration = Duration::from_millis(250);

/// A rate limit that allows short bursts (the generic cell rate algorithm, ITU-T I.371).
#[derive(Clone, Copy, Debug, Default)]
pub struct RateLimit {
    last: Option<Mono>,
    /// How far ahead of the pace it was then.
    ahead: Duration,
}

impl RateLimit {
    /// When it may be done again; `None` if it was never done.
    pub fn next(&self) -> Option<Mono> {
        let wait = self.ahead.saturating_sub(AHEAD).max(APART);
        self.last.map(|last| last.after(wait))
    }

    /// Whether it may be done now.
    pub fn is_due(&self, now: Mono) -> bool {
        self.next().is_none_or(|at| now >= at)
    }

    /// Records that it was done, at a pace of once in this time.
    pub fn done(&mut self, now: Mono, every: Duration) {
        let passed = self.last.map_or(Duration::MAX, |last| now.since(last));
        self.ahead = self.ahead.saturating_sub(passed) + every;
        self.last = Some(now);
    }

    /// Lets it be done again after this long at the latest.
    pub fn within(&mut self, wait: Duration) {
        self.ahead = self.ahead.min(AHEAD + wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(50);

    /// When it is done if there is always something to do.
    fn moments(limit: &mut RateLimit, from: u64, until: u64) -> Vec<u64> {
        let due = |at: &u64| {
            let is_due = limit.is_due(Mono(*at));
            if is_due {
                limit.done(Mono(*at), EVERY);
            }
            is_due
        };
        (from..until).filter(due).collect()
    }

    #[test]
    fn a_burst_is_followed_by_an_even_pace() {
        let mut limit = RateLimit::default();
        assert_eq!(
            moments(&mut limit, 100, 240),
            [100, 105, 110, 115, 120, 125, 150, 200]
        );
        // After a pause it may be done at once again, and more often the longer the pause was.
        assert_eq!(moments(&mut limit, 350, 420), [350, 355, 360, 400]);
        let later = moments(&mut limit, 10_000, 10_050);
        assert_eq!(later, [10_000, 10_005, 10_010, 10_015, 10_020, 10_025]);
        assert_eq!(limit.next(), Some(Mono(10_050)));
        limit.within(Duration::from_millis(10));
        assert_eq!(limit.next(), Some(Mono(10_035)));
        limit.within(Duration::from_millis(40));
        assert_eq!(limit.next(), Some(Mono(10_035)));
    }
}
