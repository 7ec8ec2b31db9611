//! How often the network thread checks for data: immediately when it is quiet, a few times a second when events
//! trickle in constantly, because most of the cost of a single event is the wake-up.
//!
//! Data that arrives meanwhile waits in its socket. A single request and its response never wait, nor does a user
//! request.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::Thread,
    time::{Duration, Instant},
};

/// Wake-ups without a rest: more than a handshake and a call need.
const AT_ONCE: u32 = 40;
/// The shortest rest; a person cannot see it.
const SHORT: Duration = Duration::from_millis(20);
/// The longest rest; a request ends it.
const LONG: Duration = Duration::from_millis(250);
/// Rests grow from [`SHORT`] while each brings no more arrivals than this ...
const MANY: usize = 1000;
/// ... above that, this many streams share [`SHORT`], down to [`IN_A_FLOOD`]: the system buffers much for one busy
/// stream but little for each of many, and no server should wait for us.
const IN_A_FLOOD: Duration = Duration::from_millis(4);

/// The rests of one thread; copies are handles to the same ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Rest(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    breath: Mutex<Breath>,
    is_asked: AtomicBool,
    /// The thread that rests.
    thread: OnceLock<Thread>,
}

impl Rest {
    /// Rests the calling thread if it is time; called by the runtime before it parks.
    #[expect(
        clippy::disallowed_methods,
        reason = "it measures the thread, not what happens on it"
    )]
    pub(super) fn pause(&self) {
        self.0.thread.get_or_init(std::thread::current);
        let rest = {
            let mut breath = self.breath();
            if self.0.is_asked.swap(false, Ordering::Relaxed) {
                breath.left = AT_ONCE;
            }
            breath.next(Instant::now())
        };
        if !rest.is_zero() {
            std::thread::park_timeout(rest);
        }
    }

    /// How often readers look at the published snapshots.
    pub(super) fn shown_every(&self, pace: Duration) {
        self.breath().longest = (pace / 4).clamp(SHORT, LONG);
    }

    /// Records that this many arrivals of this many streams were taken.
    pub(super) fn took(&self, arrivals: usize, streams: usize) {
        let mut breath = self.breath();
        breath.taken = breath.taken.saturating_add(arrivals);
        breath.streams = breath.streams.max(streams);
    }

    /// A request arrived: no rest now, nor while the thread answers.
    pub(super) fn attend(&self) {
        self.0.is_asked.store(true, Ordering::Relaxed);
        self.end();
    }

    /// Ends the current rest, if any.
    pub(super) fn end(&self) {
        if let Some(thread) = self.0.thread.get() {
            thread.unpark();
        }
    }

    fn breath(&self) -> std::sync::MutexGuard<'_, Breath> {
        // Nothing that holds it can panic.
        self.0.breath.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decides when to rest, and for how long.
#[derive(Debug)]
struct Breath {
    /// The wake-ups that remain before the next rest.
    left: u32,
    /// The time until which waiting has been credited.
    refilled: Option<Instant>,
    /// Arrivals since the last rest.
    taken: usize,
    /// The maximum number of streams they came from at once.
    streams: usize,
    next: Duration,
    longest: Duration,
}

impl Default for Breath {
    fn default() -> Self {
        Self {
            left: AT_ONCE,
            refilled: None,
            taken: 0,
            streams: 0,
            next: SHORT,
            longest: SHORT,
        }
    }
}

impl Breath {
    /// How long to rest before the thread waits.
    fn next(&mut self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(*self.refilled.get_or_insert(now));
        let fresh = u32::try_from(since.as_millis() / SHORT.as_millis()).unwrap_or(u32::MAX);
        if fresh > 0 {
            self.left = self.left.saturating_add(fresh).min(AT_ONCE);
            self.refilled = Some(now);
        }
        if self.left == AT_ONCE {
            self.next = SHORT;
        }
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return Duration::ZERO;
        }
        let is_many = std::mem::take(&mut self.taken) > MANY;
        let streams = u32::try_from(std::mem::take(&mut self.streams)).unwrap_or(u32::MAX);
        let rest = if is_many {
            self.next = SHORT;
            (SHORT / streams.max(1)).max(IN_A_FLOOD)
        } else {
            let rest = self.next.min(self.longest);
            self.next = rest * 2;
            rest
        };
        // Resting earns no credit, or each rest would allow more wake-ups.
        self.refilled = Some(now + rest);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Instant {
        #[expect(clippy::disallowed_methods, reason = "any moment will do")]
        Instant::now()
    }

    #[test]
    fn a_calm_thread_never_rests() {
        let (mut breath, mut now) = (Breath::default(), begun());
        for _ in 0..1000 {
            assert_eq!(breath.next(now), Duration::ZERO);
            now += SHORT;
        }
    }

    #[test]
    fn limits_wakes_of_a_busy_thread_and_recovers() {
        let (mut breath, begin) = (Breath::default(), begun());
        breath.longest = LONG;
        let mut now = begin;
        let mut wakes = 0;
        while now < begin + Duration::from_secs(60) {
            now += breath.next(now) + Duration::from_millis(1);
            wakes += 1;
        }
        let reach = AT_ONCE + 60 * 4;
        assert!(wakes <= reach + reach / 10, "{wakes} wakes in a minute");
        now += SHORT * AT_ONCE;
        for _ in 0..AT_ONCE {
            assert_eq!(breath.next(now), Duration::ZERO);
        }
    }

    #[test]
    fn a_flood_is_taken_in_without_long_rests() {
        let (mut breath, now) = (Breath::default(), begun());
        breath.longest = LONG;
        while breath.next(now) == Duration::ZERO {}
        while breath.next(now) < LONG {}
        for (streams, rest) in [(1, SHORT), (2, SHORT / 2), (100, IN_A_FLOOD)] {
            (breath.taken, breath.streams) = (MANY + 1, streams);
            assert_eq!(breath.next(now), rest);
        }
        assert_eq!(breath.next(now), SHORT);
    }

    #[test]
    fn a_request_interrupts_the_pause_between_wakes() {
        let rest = Rest::default();
        let hour = Duration::from_secs(3600);
        rest.breath().longest = hour;
        let (said, heard) = std::sync::mpsc::channel();
        let handle = rest.clone();
        let thread = std::thread::spawn(move || {
            while !handle.breath().next(begun()).is_zero() {}
            loop {
                handle.breath().next = hour;
                handle.pause();
                if said.send(()).is_err() {
                    return;
                }
            }
        });
        let within = Duration::from_secs(30);
        // It is resting each time, except perhaps the first.
        for _ in 0..20 {
            rest.attend();
            for _ in 0..AT_ONCE {
                assert_eq!(heard.recv_timeout(within), Ok(()));
            }
        }
        drop(heard);
        rest.attend();
        thread.join().unwrap();
    }
}
