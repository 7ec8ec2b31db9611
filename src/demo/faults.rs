//! What can be broken on purpose, and the switches that the network and the streams read.
//!
//! Must not know who throws a switch. A one-shot fault is taken by the first who meets it.

use std::{
    fmt,
    str::FromStr,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::disk::locked;

/// Something to break in a running demo server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Refuse connections for so many seconds and reset the open ones; work goes on. 0 only resets.
    Cut {
        /// Seconds until connections are taken again.
        seconds: u64,
    },
    /// Behave as killed by `kill -9`, and come up again on the same port.
    Restart,
    /// Let no byte flow for so many seconds, on connections that stay open.
    Stall {
        /// Seconds until bytes flow again.
        seconds: u64,
    },
    /// Drop the connection that carries the next event, right after that event.
    DropAfterNext,
    /// Send the last events before the cursor again, with their ids, at the next replay.
    DuplicateOnReplay,
    /// Forget all server sessions (404 from now on); their tools go on.
    ForgetSession,
    /// Answer requests that look after a task with 503 for so many seconds.
    FailPolls {
        /// Seconds until they are answered again.
        seconds: u64,
    },
    /// Never answer the next request that looks after a task.
    HangPoll,
}

/// The seconds of `cut`, `stall` and `polls` when none are given.
const DEFAULT_SECONDS: u64 = 5;

impl Fault {
    /// Every fault, with its default length, and one line that says what it does.
    pub fn all() -> [(Self, &'static str); 8] {
        [
            (
                Self::Cut {
                    seconds: DEFAULT_SECONDS,
                },
                "cut the network: connections are reset and refused, work goes on",
            ),
            (
                Self::Restart,
                "kill the server as kill -9 does, and start it again",
            ),
            (
                Self::Stall {
                    seconds: DEFAULT_SECONDS,
                },
                "stall: connections stay open and no byte flows",
            ),
            (
                Self::DropAfterNext,
                "drop the connection right after the next event",
            ),
            (
                Self::DuplicateOnReplay,
                "send events twice at the next replay",
            ),
            (
                Self::ForgetSession,
                "forget all server sessions; their tools go on",
            ),
            (
                Self::FailPolls {
                    seconds: DEFAULT_SECONDS,
                },
                "answer polls of tasks with 503; the tasks go on",
            ),
            (Self::HangPoll, "never answer the next poll of a task"),
        ]
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { seconds } => write!(f, "cut={seconds}"),
            Self::Restart => f.write_str("restart"),
            Self::Stall { seconds } => write!(f, "stall={seconds}"),
            Self::DropAfterNext => f.write_str("drop"),
            Self::DuplicateOnReplay => f.write_str("duplicate"),
            Self::ForgetSession => f.write_str("forget"),
            Self::FailPolls { seconds } => write!(f, "polls={seconds}"),
            Self::HangPoll => f.write_str("hang"),
        }
    }
}

/// A word that names no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not something to break; there are cut[=SECONDS], restart, stall[=SECONDS], drop, duplicate, forget, polls[=SECONDS], hang"
)]
pub struct UnknownFault(
    /// What was given.
    pub String,
);

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownFault(text.to_owned());
        let (word, seconds) = match text.split_once('=') {
            // An hour is longer than anybody wants to look at a broken server.
            Some((word, number)) => {
                let seconds = number.parse::<u64>().ok().filter(|n| *n <= 3600);
                (word, Some(seconds.ok_or_else(unknown)?))
            }
            None => (text, None),
        };
        match (word, seconds) {
            ("cut", _) => Ok(Self::Cut {
                seconds: seconds.unwrap_or(DEFAULT_SECONDS),
            }),
            ("stall", _) => Ok(Self::Stall {
                seconds: seconds.unwrap_or(DEFAULT_SECONDS),
            }),
            ("restart", None) => Ok(Self::Restart),
            ("drop", None) => Ok(Self::DropAfterNext),
            ("duplicate", None) => Ok(Self::DuplicateOnReplay),
            ("forget", None) => Ok(Self::ForgetSession),
            ("polls", _) => Ok(Self::FailPolls {
                seconds: seconds.unwrap_or(DEFAULT_SECONDS),
            }),
            ("hang", None) => Ok(Self::HangPoll),
            _ => Err(unknown()),
        }
    }
}

/// The switches of one boot.
pub(super) struct Faults {
    /// Until when connections are refused.
    cut_until: watch::Sender<Option<Instant>>,
    /// Whether the TCP listener is open; set by the door.
    open: watch::Sender<bool>,
    /// Cancelled to reset every connection that was taken while it was current.
    cutter: Mutex<CancellationToken>,
    stall_until: Mutex<Option<Instant>>,
    drop_next: AtomicBool,
    duplicate_next: AtomicBool,
    fail_polls_until: Mutex<Option<Instant>>,
    hang_next_poll: AtomicBool,
}

impl Faults {
    pub(super) fn new() -> Self {
        Self {
            cut_until: watch::Sender::new(None),
            open: watch::Sender::new(true),
            cutter: Mutex::new(CancellationToken::new()),
            stall_until: Mutex::new(None),
            drop_next: AtomicBool::new(false),
            duplicate_next: AtomicBool::new(false),
            fail_polls_until: Mutex::new(None),
            hang_next_poll: AtomicBool::new(false),
        }
    }

    /// Cuts the network and returns once connections are refused.
    pub(super) async fn cut(&self, length: Duration) {
        self.cut_until.send_replace(Some(Instant::now() + length));
        std::mem::take(&mut *locked(&self.cutter)).cancel();
        if !length.is_zero() {
            let _ = self.open.subscribe().wait_for(|open| !open).await;
        }
    }

    /// Said by the door whenever it has opened or closed the listener.
    pub(super) fn door_is(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// When connections are taken again, for the door to watch.
    pub(super) fn cuts(&self) -> watch::Receiver<Option<Instant>> {
        self.cut_until.subscribe()
    }

    /// What a new connection watches for the next cut.
    pub(super) fn cutter(&self) -> CancellationToken {
        locked(&self.cutter).clone()
    }

    pub(super) fn stall(&self, length: Duration) {
        *locked(&self.stall_until) = Some(Instant::now() + length);
    }

    /// Until when no byte may flow, if that is in the future.
    pub(super) fn stalled_until(&self) -> Option<Instant> {
        locked(&self.stall_until).filter(|until| *until > Instant::now())
    }

    pub(super) fn drop_after_next(&self) {
        self.drop_next.store(true, Ordering::SeqCst);
    }

    pub(super) fn take_drop(&self) -> bool {
        self.drop_next.swap(false, Ordering::SeqCst)
    }

    pub(super) fn duplicate_on_replay(&self) {
        self.duplicate_next.store(true, Ordering::SeqCst);
    }

    pub(super) fn take_duplicate(&self) -> bool {
        self.duplicate_next.swap(false, Ordering::SeqCst)
    }

    pub(super) fn fail_polls(&self, length: Duration) {
        *locked(&self.fail_polls_until) = Some(Instant::now() + length);
    }

    pub(super) fn are_polls_failing(&self) -> bool {
        locked(&self.fail_polls_until).is_some_and(|until| until > Instant::now())
    }

    pub(super) fn hang_next_poll(&self) {
        self.hang_next_poll.store(true, Ordering::SeqCst);
    }

    pub(super) fn take_hang(&self) -> bool {
        self.hang_next_poll.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_reads_back_from_what_it_prints() {
        for (fault, _) in Fault::all() {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        assert_eq!("cut".parse(), Ok(Fault::Cut { seconds: 5 }));
        assert!("cut=x".parse::<Fault>().is_err());
        assert!("restart=3".parse::<Fault>().is_err());
        assert!("explode".parse::<Fault>().is_err());
    }
}
