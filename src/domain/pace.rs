//! Rate and time left, from the steps seen lately.

use std::{collections::VecDeque, time::Duration};

use super::{Mono, Stamp, Wall};

/// Steps remembered; enough to smooth a batch, few enough to follow a change.
const SAMPLES: usize = 24;
/// Steps needed before a rate is shown; two can be an accident.
const ENOUGH: usize = 3;
/// Steps older than this say nothing about now.
const WINDOW: Duration = Duration::from_secs(60);
/// The wall running ahead of the monotonic clock by this means that the machine slept.
const SLEPT: Duration = Duration::from_secs(5);

/// The recent steps of one task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    steps: VecDeque<(Mono, f64)>,
    last_wall: Wall,
}

impl Pace {
    /// Takes note of a step; going back, or waking from sleep, starts over.
    pub fn step(&mut self, now: Stamp, value: f64) {
        if let Some((at, last)) = self.steps.back().copied() {
            let slept = now.wall.since(self.last_wall) > now.mono.since(at).saturating_add(SLEPT);
            if value < last || slept {
                self.steps.clear();
            } else if value <= last {
                return;
            }
        }
        self.last_wall = now.wall;
        self.steps.push_back((now.mono, value));
        if self.steps.len() > SAMPLES {
            self.steps.pop_front();
        }
    }

    /// Units a second over the recent steps; `None` before there are enough of them, or when they are stale.
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
        let silence = now.mono.since(last.0);
        // Three times the usual distance between steps without one: the rate no longer holds.
        let usual = took
            / u32::try_from(recent().count().saturating_sub(1))
                .ok()?
                .max(1);
        if took.is_zero() || silence > (usual * 3).max(Duration::from_secs(3)) {
            return None;
        }
        Some((last.1 - first.1) / took.as_secs_f64())
    }

    /// Time left until `total` at the present rate.
    pub fn left(&self, now: Stamp, total: f64) -> Option<Duration> {
        let rate = self.rate(now).filter(|rate| *rate > 0.0)?;
        let (at, value) = self.steps.back()?;
        let left = Duration::try_from_secs_f64(((total - value) / rate).max(0.0)).ok()?;
        Some(left.saturating_sub(now.mono.since(*at)))
    }

    /// Steps a second in each of the last `columns` equal slices of the window, oldest first; for a sparkline.
    pub fn spark(&self, now: Stamp, columns: usize) -> Vec<u64> {
        let mut slices = vec![0_u64; columns];
        let slice = WINDOW.as_millis() / u128::try_from(columns.max(1)).unwrap_or(1);
        for ((_, before), (at, value)) in self.steps.iter().zip(self.steps.iter().skip(1)) {
            let age = now.mono.since(*at).as_millis() / slice.max(1);
            let column = usize::try_from(age)
                .ok()
                .and_then(|age| columns.checked_sub(age + 1));
            if let Some(cell) = column.and_then(|column| slices.get_mut(column)) {
                // The clamp of `Progress` keeps the difference within what a u64 holds.
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "clamped and rising"
                )]
                let grown = ((value - before) * 10.0) as u64;
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
    fn a_rate_needs_three_steps_and_goes_stale() {
        let mut pace = Pace::default();
        pace.step(at(0), 0.0);
        pace.step(at(1), 5.0);
        assert_eq!(pace.rate(at(1)), None);
        pace.step(at(2), 10.0);
        assert_eq!(pace.rate(at(2)), Some(5.0));
        assert_eq!(pace.left(at(2), 50.0), Some(Duration::from_secs(8)));
        assert_eq!(pace.rate(at(9)), None);
    }

    #[test]
    fn sleep_and_going_back_start_over() {
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
