//! Progress rate and time left, from recent progress steps.

use std::{collections::VecDeque, time::Duration};

use super::{Mono, Stamp, Wall, text};

/// Steps kept: enough to smooth out bursts, few enough to follow a change.
const SAMPLES: usize = 24;
/// Steps needed before a rate is shown; two say too little.
const ENOUGH: usize = 3;
/// Steps older than this say nothing about now.
const WINDOW: Duration = Duration::from_secs(60);
/// The time span of steps that a new task needs, short enough that a call shows a rate within a second.
const FRESH: Duration = Duration::from_millis(500);
/// The time span of steps that is needed after a lost connection.
const AFTER_A_BREAK: Duration = Duration::from_secs(2);
/// Steps that arrive this soon after reconnecting are replayed ones, which say nothing about the rate.
const CATCHING_UP: Duration = Duration::from_secs(1);
/// After this long without a step, and three times the usual interval, the last rate is stale.
const SILENCE: Duration = Duration::from_secs(3);
/// If the wall clock advances this much more than the monotonic clock, the machine was asleep.
const SLEPT: Duration = Duration::from_secs(5);

/// The recent steps of one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    steps: VecDeque<(Mono, f64)>,
    last_wall: Wall,
    restarted: Option<Mono>,
}

impl Pace {
    /// Starts over, because the connection was lost or the task stalled: the next steps will come in a burst.
    pub fn restart(&mut self, now: Stamp) {
        self.steps.clear();
        self.restarted = Some(now.mono);
    }

    /// Records a step. A lower value, a long silence or a sleep of the machine starts over.
    pub fn step(&mut self, now: Stamp, value: f64) {
        if let Some((at, last)) = self.steps.back().copied() {
            let slept = now.wall.since(self.last_wall) > now.mono.since(at).saturating_add(SLEPT);
            if value < last || slept || (value > last && self.is_silent(now)) {
                self.restart(now);
            } else if value <= last {
                return;
            }
        }
        if self
            .restarted
            .is_some_and(|at| now.mono.since(at) < CATCHING_UP)
        {
            self.steps.clear();
        }
        self.last_wall = now.wall;
        self.steps.push_back((now.mono, value));
        if self.steps.len() > SAMPLES {
            self.steps.pop_front();
        }
    }

    /// Whether steps have stopped coming at their usual rate.
    fn is_silent(&self, now: Stamp) -> bool {
        let (Some(first), Some(last)) = (self.steps.front(), self.steps.back()) else {
            return false;
        };
        let gaps = u32::try_from(self.steps.len().saturating_sub(1)).unwrap_or(u32::MAX);
        // A single step has no usual interval.
        gaps > 0 && now.mono.since(last.0) > (last.0.since(first.0) / gaps * 3).max(SILENCE)
    }

    /// Units per second over the recent steps; `None` if there are too few, or they are stale.
    pub fn rate(&self, now: Stamp) -> Option<f64> {
        let recent = || {
            self.steps
                .iter()
                .filter(|(at, _)| now.mono.since(*at) <= WINDOW)
        };
        let (first, last) = (recent().next()?, recent().next_back()?);
        if recent().count() < ENOUGH {
            return None;
        }
        let took = last.0.since(first.0);
        let min_span = if self.restarted.is_some() {
            AFTER_A_BREAK
        } else {
            FRESH
        };
        let silence = now.mono.since(last.0);
        let usual = took
            / u32::try_from(recent().count().saturating_sub(1))
                .ok()?
                .max(1);
        if took < min_span || silence > (usual * 3).max(SILENCE) {
            return None;
        }
        Some((last.1 - first.1) / took.as_secs_f64())
    }

    /// Time left until `total` at the current rate.
    pub fn time_left(&self, now: Stamp, total: f64) -> Option<Duration> {
        let rate = self.rate(now).filter(|rate| *rate > 0.0)?;
        let (at, value) = self.steps.back()?;
        let left = Duration::try_from_secs_f64(((total - value) / rate).max(0.0)).ok()?;
        Some(left.saturating_sub(now.mono.since(*at)))
    }

    /// The progress in each of `columns` equal slices of the last minute, in tenths of a unit, oldest first.
    pub fn sparkline(&self, now: Stamp, columns: usize) -> Vec<u64> {
        let mut slices = vec![0_u64; columns];
        let slice = WINDOW.as_millis() / u128::try_from(columns.max(1)).unwrap_or(1);
        for ((_, before), (at, value)) in self.steps.iter().zip(self.steps.iter().skip(1)) {
            let age = now.mono.since(*at).as_millis() / slice.max(1);
            let column = usize::try_from(age)
                .ok()
                .and_then(|age| columns.checked_sub(age + 1));
            if let Some(cell) = column.and_then(|column| slices.get_mut(column)) {
                // `Progress` clamps its values, so the difference fits a u64.
                let grown = text::whole_part((value - before) * 10.0);
                *cell = cell.saturating_add(grown);
            }
        }
        slices
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp {
            mono: Mono(seconds * 1000),
            wall: Wall(i64::try_from(seconds).unwrap() * 1000),
        }
    }

    #[test]
    fn rate_needs_three_steps_and_goes_stale() {
        let mut pace = Pace::default();
        pace.step(at(0), 0.0);
        pace.step(at(1), 5.0);
        assert_eq!(pace.rate(at(1)), None);
        pace.step(at(2), 10.0);
        assert_eq!(pace.rate(at(2)), Some(5.0));
        assert_eq!(pace.time_left(at(2), 50.0), Some(Duration::from_secs(8)));
        assert_eq!(pace.rate(at(9)), None);
    }

    fn at_millis(millis: u64) -> Stamp {
        Stamp {
            mono: Mono(millis),
            wall: Wall(i64::try_from(millis).unwrap()),
        }
    }

    #[test]
    fn new_call_has_a_rate_within_a_second() {
        let mut pace = Pace::default();
        for number in 0..4_u64 {
            pace.step(at_millis(number * 200), number as f64);
        }
        let rate = pace.rate(at_millis(600)).unwrap();
        assert!((rate - 5.0).abs() < 0.01, "{rate}");
    }

    #[test]
    fn ignores_the_burst_after_a_reconnect() {
        let mut pace = Pace::default();
        for number in 0..10_u64 {
            pace.step(at_millis(number * 200), number as f64);
        }
        pace.restart(at_millis(10_000));
        for number in 10..60_u64 {
            pace.step(at_millis(10_000 + number), number as f64);
            assert_eq!(pace.rate(at_millis(10_000 + number)), None);
        }
        for number in 60..80_u64 {
            let now = at_millis(10_200 + (number - 60) * 200);
            pace.step(now, number as f64);
            if let Some(rate) = pace.rate(now) {
                assert!((rate - 5.0).abs() < 0.01, "{rate}");
            }
        }
        assert!(pace.rate(at_millis(14_000)).is_some());
    }

    #[test]
    fn ignores_the_burst_after_a_stall() {
        let mut pace = Pace::default();
        for number in 0..10_u64 {
            pace.step(at_millis(number * 200), number as f64);
        }
        for number in 10..60_u64 {
            let now = at_millis(9_000 + number);
            pace.step(now, number as f64);
            assert_eq!(pace.rate(now), None);
        }
    }

    #[test]
    fn starts_over_after_sleep_or_a_lower_value() {
        let mut pace = Pace::default();
        for second in 0..4 {
            pace.step(at(second), second as f64);
        }
        assert!(pace.rate(at(3)).is_some());
        let woke = Stamp {
            mono: Mono(4000),
            wall: Wall(9_000_000),
        };
        pace.step(woke, 4.0);
        assert_eq!(pace.rate(woke), None);
    }
}
