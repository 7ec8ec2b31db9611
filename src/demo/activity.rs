//! When the demo server has nothing left to do, and why it ends.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use crate::demo::database::locked;

/// Why a boot ended, and so what the process does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShutdownReason {
    /// Boot again on the same port.
    Restart,
    /// The control socket received `stop`.
    Stop,
    /// Nothing ran and no client was connected for the configured time.
    Idle,
    /// The owner in this process killed it; like `kill -9`, leaves the control socket behind.
    Kill,
}

/// Counts open connections and running work, for the idle exit.
pub(super) struct ActivityTracker {
    count: AtomicUsize,
    last_activity: Mutex<Instant>,
}

impl ActivityTracker {
    pub(super) fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            last_activity: Mutex::new(Instant::now()),
        }
    }

    /// Registers an open connection or running work until the guard is dropped.
    pub(super) fn start(activity: &Arc<Self>) -> ActivityGuard {
        activity.count.fetch_add(1, Ordering::SeqCst);
        ActivityGuard(Arc::clone(activity))
    }

    /// Returns after `limit` without connections or running work; never, without a limit.
    pub(super) async fn idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        loop {
            let last = *locked(&self.last_activity);
            let is_quiet = self.count.load(Ordering::SeqCst) == 0;
            let due = last + limit;
            if is_quiet && due <= Instant::now() {
                return;
            }
            // While busy there is no deadline yet: check again after the full limit.
            sleep_until(if is_quiet {
                due
            } else {
                Instant::now() + limit
            })
            .await;
        }
    }
}

/// Counts as an open connection or as running work until dropped.
pub(super) struct ActivityGuard(Arc<ActivityTracker>);

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        *locked(&self.0.last_activity) = Instant::now();
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}
