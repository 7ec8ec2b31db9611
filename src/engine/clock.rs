//! The one place that reads the clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::domain::{Mono, Stamp, Wall};

/// A wall clock and a monotonic clock that starts when this is created; copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: Instant,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one legal reader of the clock"
)]
impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self {
            begin: Instant::now(),
        }
    }

    /// Both clocks, read once.
    pub fn now(&self) -> Stamp {
        let mono = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Stamp {
            mono: Mono(mono),
            wall: Wall(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)),
        }
    }

    /// Waits until a time, or forever.
    pub async fn sleep_until(&self, at: Option<Mono>) {
        match at {
            Some(at) => tokio::time::sleep_until(self.instant(at)).await,
            None => std::future::pending().await,
        }
    }

    /// The moment of a timer, for the runtime.
    pub fn instant(&self, at: Mono) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.begin + std::time::Duration::from_millis(at.0))
    }
}
