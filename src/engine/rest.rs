//! How often the network thread looks whether something came: at once when it is calm, a few times a second when events
//! trickle in all the time from everywhere, because most of what a single event costs is the waking for it.
//!
//! What comes meanwhile waits in its socket. Alone, a request and its answer never wait; nor does anybody who asks.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::Thread,
    time::{Duration, Instant},
};

/// Wakes that follow each other at once: more than a handshake and a call take.
const AT_ONCE: u32 = 40;
/// A person sees no shorter one.
const SHORT: Duration = Duration::from_millis(20);
/// The longest; whoever asks ends it.
const LONG: Duration = Duration::from_millis(250);
/// Rests grow from [`SHORT`] while each brings no more arrivals than this ...
const MANY: usize = 1000;
/// ... above, so many streams share [`SHORT`], down to [`IN_A_FLOOD`]: the system gives much room to one that brings
/// much, little to each of many, and no server is to wait for us.
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
    /// Rests the calling thread if it is time to; for the runtime, before it waits for something to do.
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

    /// How often somebody looks at what the thread has to show.
    pub(super) fn shown_every(&self, pace: Duration) {
        self.breath().longest = (pace / 4).clamp(SHORT, LONG);
    }

    /// So many arrivals of so many streams were taken in.
    pub(super) fn took(&self, arrivals: usize, streams: usize) {
        let mut breath = self.breath();
        breath.taken = breath.taken.saturating_add(arrivals);
        breath.streams = breath.streams.max(streams);
    }

    /// Somebody asks: no rest now, nor while the thread answers.
    pub(super) fn attend(&self) {
        self.0.is_asked.store(true, Ordering::Relaxed);
        self.end();
    }

    /// Ends the present rest, if there is one.
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

/// When to rest, and for how long.
#[derive(Debug)]
struct Breath {
    /// How often the thread may still wait and be woken at once.
    left: u32,
    /// Up to when that was made up for by waiting.
    refilled: Option<Instant>,
    /// Arrivals since the last rest.
    taken: usize,
    /// The most streams that they came from at once.
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
        // Resting makes up for nothing, or each rest would allow some wakes more.
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
        // Each time but perhaps the first it is found resting.
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
