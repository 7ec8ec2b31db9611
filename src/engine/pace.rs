//! How often the network thread looks for data: at once when it is quiet, a few times a second while events trickle in,
//! because most of the cost of a single event is the wake-up.
//!
//! Between two looks the thread pauses (`session::run`), and what arrives waits in its socket. A single request and its
//! response never wait, nor does a user's request.

use std::{cell::RefCell, rc::Rc, time::Duration};

use tokio::sync::Notify;

use super::clock::Clock;
use crate::domain::Mono;

/// Turns without a pause: more than a handshake and a call need.
const AT_ONCE: u32 = 40;
/// The shortest pause; a person cannot see it.
const SHORT: Duration = Duration::from_millis(20);
/// The longest pause; a request ends it.
const LONG: Duration = Duration::from_millis(250);
/// Pauses grow from [`SHORT`] while each brings no more arrivals than this ...
const MANY: usize = 1000;
/// ... above that, this many streams share [`SHORT`], down to [`IN_A_FLOOD`]: the system buffers much for one busy
/// stream but little for each of many, and no server should wait for us.
const IN_A_FLOOD: Duration = Duration::from_millis(4);

/// The pace of the network thread; copies are handles to the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    credit: Rc<RefCell<Credit>>,
    /// Signals that the driver has ended a turn.
    turned: Rc<Notify>,
}

impl Pace {
    /// Waits until the thread should pause, and returns for how long: after a turn of the driver that nothing follows.
    pub(super) async fn pause(&self, clock: Clock) -> Duration {
        loop {
            self.turned.notified().await;
            if self.credit.borrow_mut().spend(clock.now().mono) {
                continue;
            }
            self.idle().await;
            return self.credit.borrow_mut().next(clock.now().mono);
        }
    }

    /// Waits until every task waits for data that has not arrived.
    async fn idle(&self) {
        loop {
            let turns = self.credit.borrow().turns;
            // The first runs what is ready and looks for data, the second runs what that has made ready.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            if self.credit.borrow().turns == turns {
                return;
            }
        }
    }

    /// Records a turn of the driver.
    pub(super) fn turned(&self) {
        self.credit.borrow_mut().turns += 1;
        self.turned.notify_one();
    }

    /// Sets how often readers look at the published snapshots.
    pub(super) fn shown_every(&self, pace: Duration) {
        self.credit.borrow_mut().longest = (pace / 4).clamp(SHORT, LONG);
    }

    /// Records that this many arrivals of this many streams were taken.
    pub(super) fn took(&self, arrivals: usize, streams: usize) {
        let mut credit = self.credit.borrow_mut();
        credit.taken = credit.taken.saturating_add(arrivals);
        credit.streams = credit.streams.max(streams);
    }

    /// A person waits: no pause for the next turns.
    pub(super) fn attend(&self) {
        self.credit.borrow_mut().left = AT_ONCE;
    }
}

/// Decides when to pause, and for how long.
#[derive(Debug)]
struct Credit {
    /// The turns that remain before the next pause.
    left: u32,
    /// All turns so far.
    turns: u64,
    /// The time until which waiting has been credited.
    refilled: Option<Mono>,
    /// Arrivals since the last pause.
    taken: usize,
    /// The maximum number of streams they came from at once.
    streams: usize,
    next: Duration,
    longest: Duration,
}

impl Default for Credit {
    fn default() -> Self {
        Self {
            left: AT_ONCE,
            turns: 0,
            refilled: None,
            taken: 0,
            streams: 0,
            next: SHORT,
            longest: SHORT,
        }
    }
}

impl Credit {
    /// Spends the credit for a turn; false if there is none left.
    fn spend(&mut self, now: Mono) -> bool {
        let since = now.since(*self.refilled.get_or_insert(now));
        let fresh = u32::try_from(since.as_millis() / SHORT.as_millis()).unwrap_or(u32::MAX);
        if fresh > 0 {
            self.left = self.left.saturating_add(fresh).min(AT_ONCE);
            self.refilled = Some(now);
        }
        if self.left == AT_ONCE {
            self.next = SHORT;
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// How long to pause.
    fn next(&mut self, now: Mono) -> Duration {
        let is_many = std::mem::take(&mut self.taken) > MANY;
        let streams = u32::try_from(std::mem::take(&mut self.streams)).unwrap_or(u32::MAX);
        let pause = if is_many {
            self.next = SHORT;
            (SHORT / streams.max(1)).max(IN_A_FLOOD)
        } else {
            let pause = self.next.min(self.longest);
            self.next = pause * 2;
            pause
        };
        // Pausing earns no credit, or each pause would allow more turns.
        self.refilled = Some(now.after(pause));
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pause after a turn.
    fn after_turn(credit: &mut Credit, now: Mono) -> Duration {
        if credit.spend(now) {
            Duration::ZERO
        } else {
            credit.next(now)
        }
    }

    #[test]
    fn a_calm_thread_never_pauses() {
        let (mut credit, mut now) = (Credit::default(), Mono(0));
        for _ in 0..1000 {
            assert!(credit.spend(now));
            now = now.after(SHORT);
        }
    }

    #[test]
    fn limits_the_turns_of_a_busy_thread_and_recovers() {
        let mut credit = Credit {
            longest: LONG,
            ..Credit::default()
        };
        let mut now = Mono(0);
        let mut turns = 0;
        while now < Mono(60_000) {
            now = now.after(after_turn(&mut credit, now) + Duration::from_millis(1));
            turns += 1;
        }
        let most = AT_ONCE + 60 * 4;
        assert!(turns <= most + most / 10, "{turns} turns in a minute");
        now = now.after(SHORT * AT_ONCE);
        for _ in 0..AT_ONCE {
            assert!(credit.spend(now));
        }
    }

    #[test]
    fn a_flood_is_taken_in_without_long_pauses() {
        let (mut credit, now) = (Credit::default(), Mono(0));
        credit.longest = LONG;
        while after_turn(&mut credit, now) < LONG {}
        for (streams, pause) in [(1, SHORT), (2, SHORT / 2), (100, IN_A_FLOOD)] {
            (credit.taken, credit.streams) = (MANY + 1, streams);
            assert_eq!(credit.next(now), pause);
        }
        assert_eq!(credit.next(now), SHORT);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn pauses_only_when_idle_and_not_after_a_request() {
        let (pace, clock) = (Pace::default(), Clock::start());
        let mut turns_left = 100;
        let pause = pace.pause(clock);
        // As the driver does while data is left: one turn after another.
        let turning = async {
            loop {
                if turns_left > 0 {
                    turns_left -= 1;
                    pace.turned();
                    tokio::task::yield_now().await;
                } else {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            pause = pause => assert!(!pause.is_zero()),
            () = turning => {}
        }
        assert_eq!(turns_left, 0);
        pace.attend();
        pace.turned();
        let mut pause = std::pin::pin!(pace.pause(clock));
        assert!(futures_util::poll!(&mut pause).is_pending());
    }
}
