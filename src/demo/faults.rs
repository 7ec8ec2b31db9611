//! The faults that a client can inject, and their state, which the network and stream code reads.

use std::{
    str::FromStr,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::database::locked;

/// A fault to inject into a running demo server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Fault {
    /// Reset open connections and refuse new ones for a time, while work continues. 0 seconds only resets.
    #[strum(to_string = "cut={seconds}")]
    Cut {
        /// Seconds until connections are accepted again.
        seconds: u64,
    },
    /// Stop as if by `kill -9`, then start again on the same port.
    #[strum(to_string = "restart")]
    Restart,
    /// Keep connections open but transfer no bytes for a time.
    #[strum(to_string = "stall={seconds}")]
    Stall {
        /// Seconds until bytes are transferred again.
        seconds: u64,
    },
    /// Close the connection that carries the next event, right after that event.
    #[strum(to_string = "drop")]
    DropAfterNext,
    /// At the next replay, repeat the last events before the cursor, with their ids.
    #[strum(to_string = "duplicate")]
    DuplicateOnReplay,
    /// Forget all server sessions (404 from now on) while their tools keep running.
    #[strum(to_string = "forget")]
    ForgetSession,
}

/// The default duration of `cut` and `stall`.
const DEFAULT_SECONDS: u64 = 5;

/// The longest accepted duration.
const MAX_SECONDS: u64 = 3600;

/// Why a text is not a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// It has the name of none.
    #[error(
        "invalid fault {0:?}; expected one of: cut[=SECONDS], restart, stall[=SECONDS], drop, duplicate or forget"
    )]
    Name(String),
    /// It lasts too long, or not for a number of seconds.
    #[error("invalid fault {0:?}; SECONDS must be a whole number from 0 to {MAX_SECONDS}")]
    Seconds(String),
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, given) = match text.split_once('=') {
            Some((name, number)) => {
                let seconds = number.parse::<u64>().ok();
                let seconds = seconds.filter(|seconds| *seconds <= MAX_SECONDS);
                (
                    name,
                    Some(seconds.ok_or_else(|| FaultError::Seconds(text.to_owned()))?),
                )
            }
            None => (text, None),
        };
        let seconds = given.unwrap_or(DEFAULT_SECONDS);
        match (name, given) {
            ("cut", _) => Ok(Self::Cut { seconds }),
            ("stall", _) => Ok(Self::Stall { seconds }),
            ("restart", None) => Ok(Self::Restart),
            ("drop", None) => Ok(Self::DropAfterNext),
            ("duplicate", None) => Ok(Self::DuplicateOnReplay),
            ("forget", None) => Ok(Self::ForgetSession),
            _ => Err(FaultError::Name(text.to_owned())),
        }
    }
}

/// A fault that applies once, to the first taker.
#[derive(Default)]
pub(super) struct Once(AtomicBool);

impl Once {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// A fault that lasts for some time.
#[derive(Default)]
pub(super) struct Lasting(Mutex<Option<Instant>>);

impl Lasting {
    pub(super) fn start(&self, length: Duration) {
        *locked(&self.0) = Some(Instant::now() + length);
    }

    /// When it ends, if it has started and has not ended.
    pub(super) fn until(&self) -> Option<Instant> {
        locked(&self.0).filter(|until| *until > Instant::now())
    }
}

/// The fault state of one boot.
#[derive(Default)]
pub(super) struct Faults {
    /// When the current or last cut ends, for the listener to watch.
    pub(super) cut_until: watch::Sender<Option<Instant>>,
    /// Set by the listener after it opened or closed its port.
    pub(super) is_listening: watch::Sender<bool>,
    /// Cancelled to reset the open connections; each cut replaces it for the next ones.
    cut_token: Mutex<CancellationToken>,
    pub(super) stall: Lasting,
    pub(super) drop_next: Once,
    pub(super) duplicate_next: Once,
}

impl Faults {
    pub(super) fn new() -> Self {
        Self {
            is_listening: watch::Sender::new(true),
            ..Self::default()
        }
    }

    /// Cuts the network. Returns once new connections are refused.
    pub(super) async fn cut(&self, length: Duration) {
        self.cut_until.send_replace(Some(Instant::now() + length));
        std::mem::take(&mut *locked(&self.cut_token)).cancel();
        if !length.is_zero() {
            let mut is_listening = self.is_listening.subscribe();
            let _ = is_listening.wait_for(|is_listening| !is_listening).await;
        }
    }

    /// Cancelled at the next cut; taken by each new connection.
    pub(super) fn cut_token(&self) -> CancellationToken {
        locked(&self.cut_token).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displayed_faults_parse_back() {
        let seconds = DEFAULT_SECONDS;
        for fault in [
            Fault::Cut { seconds },
            Fault::Restart,
            Fault::Stall { seconds },
            Fault::DropAfterNext,
            Fault::DuplicateOnReplay,
            Fault::ForgetSession,
        ] {
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        assert_eq!("cut".parse(), Ok(Fault::Cut { seconds: 5 }));
        assert!("cut=x".parse::<Fault>().is_err());
        assert!("restart=3".parse::<Fault>().is_err());
        assert!("explode".parse::<Fault>().is_err());
    }
}
