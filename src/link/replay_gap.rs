//! The replay gap of a resumed stream: where what was replayed ends and what is live begins.
//!
//! Some servers let events fall there: those of the moment between the end of the replay and the first live event. Their
//! store has them, so the stream is read a second time from before the replay gap while what is live waits its turn.

use crate::{domain::EventId, link::ExchangeId};

/// Live events that wait for a second reading; with more of them the stream continues without it.
const HELD_AT_MOST: usize = 1024;
/// The same in bytes of their data.
const HELD_BYTES_AT_MOST: usize = 1 << 20;
/// Equal steps in a row after which a longer one means that some are missing.
const STEPS_ALIKE: u32 = 3;

/// How far a resumed stream is seen to have come over its replay gap.
#[derive(Debug, Default)]
pub(super) enum ReplayGap {
    /// There is none, or it has been seen to.
    #[default]
    Whole,
    /// The stream was resumed; nothing has told where the replay ends.
    Expected,
    /// An event without data showed that the replay is over: the next event is live.
    Primed,
    /// A step is longer than those before it, and was not taken yet: some may be missing.
    Suspected,
    /// It is read a second time.
    Reread(Reread),
    /// It is passed without what may be missing.
    Passing,
}

/// A second reading of a stream from before its replay gap.
#[derive(Debug, Default)]
pub(super) struct Reread {
    pub(super) on: ExchangeId,
    /// What came live meanwhile, in order. The first is where both readings meet.
    pub(super) held: Vec<Held>,
    bytes: usize,
    /// Whether it has brought anything that was missing.
    pub(super) has_found: bool,
    /// The answer to the call is among what waits.
    pub(super) has_answer: bool,
}

/// An event that waits its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) id: Option<EventId>,
    pub(super) data: String,
}

impl Reread {
    pub(super) fn new(on: ExchangeId) -> Self {
        Self {
            on,
            ..Self::default()
        }
    }

    /// Lets an event wait; returns whether there is room for more.
    pub(super) fn hold(&mut self, event: Held) -> bool {
        self.bytes = self.bytes.saturating_add(event.data.len());
        self.held.push(event);
        self.held.len() < HELD_AT_MOST && self.bytes < HELD_BYTES_AT_MOST
    }

    /// Whether the second reading has come to what waits, so that nothing is missing between them.
    pub(super) fn meets(&self, id: &str) -> bool {
        let first = self.held.first().and_then(|event| event.id.as_deref());
        first == Some(id)
    }
}

/// How far apart the steps of an attempt are, as long as they are equally far apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StepInterval {
    last: Option<f64>,
    apart: f64,
    times: u32,
}

impl StepInterval {
    /// Takes a step into account.
    pub(super) fn took(&mut self, value: f64) {
        if let Some(last) = self.last.replace(value) {
            let apart = value - last;
            let (whole, rest) = (apart / self.apart, (apart / self.apart).fract());
            if is_near(whole, 1.0) {
                self.times = self.times.saturating_add(1);
            } else if self.times == 0 || !(is_near(rest, 0.0) || is_near(rest, 1.0)) {
                (self.apart, self.times) = (apart, 1);
            }
        }
    }

    /// The step before, where steps seem to be missing between it and this one.
    pub(super) fn missing_since(&self, value: f64) -> Option<f64> {
        let last = self.last?;
        (self.times >= STEPS_ALIKE && value - last > self.apart * 1.5).then_some(last)
    }
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: &[f64]) -> StepInterval {
        let mut step_interval = StepInterval::default();
        for step in steps {
            step_interval.took(*step);
        }
        step_interval
    }

    #[test]
    fn a_longer_step_after_equal_ones_shows_that_some_are_missing() {
        assert_eq!(after(&[1.0, 2.0, 3.0, 4.0]).missing_since(6.0), Some(4.0));
        assert_eq!(after(&[0.1, 0.2, 0.3, 0.4]).missing_since(0.6), Some(0.4));
        assert_eq!(after(&[1.0, 2.0, 3.0, 4.0]).missing_since(5.0), None);
        assert_eq!(after(&[10.0, 20.0, 30.0, 40.0]).missing_since(43.0), None);
        // What is missing once does not hide what is missing next.
        assert_eq!(
            after(&[1.0, 2.0, 3.0, 4.0, 7.0]).missing_since(9.0),
            Some(7.0)
        );
    }

    #[test]
    fn uneven_steps_show_nothing() {
        for steps in [
            vec![],
            vec![1.0, 2.0, 3.0],
            vec![1.0, 2.0, 4.0, 8.0, 16.0],
            vec![1.0, 2.5, 3.0, 7.0],
            vec![5.0, 5.0, 5.0, 5.0],
        ] {
            assert_eq!(after(&steps).missing_since(100.0), None, "{steps:?}");
        }
    }

    #[test]
    fn bounds_waiting_events() {
        let mut reread = Reread::new(1);
        let event = |data: &str| Held {
            id: Some("a".into()),
            data: data.to_owned(),
        };
        assert!(reread.hold(event("small")));
        assert!(!reread.hold(event(&"x".repeat(HELD_BYTES_AT_MOST))));
        let mut reread = Reread::new(1);
        let held = (0..5000).take_while(|_| reread.hold(event("{}"))).count();
        assert!(held < HELD_AT_MOST);
    }
}
