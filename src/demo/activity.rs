//! When the demo server has nothing left to do, and why it ends.

use std::{
    io,
    net::TcpListener as StdListener,
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
    connections: AtomicUsize,
    busy: AtomicUsize,
    last_activity: Mutex<Instant>,
}

impl ActivityTracker {
    pub(super) fn new() -> Self {
        Self {
            connections: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            last_activity: Mutex::new(Instant::now()),
        }
    }

    fn touch(&self) {
        *locked(&self.last_activity) = Instant::now();
    }

    /// Registers an open connection until the guard is dropped.
    pub(super) fn connection(activity: &Arc<Self>) -> ConnectionGuard {
        activity.connections.fetch_add(1, Ordering::SeqCst);
        activity.touch();
        ConnectionGuard(Arc::clone(activity))
    }

    /// Registers running work until the guard is dropped.
    pub(super) fn busy(activity: &Arc<Self>) -> BusyGuard {
        activity.busy.fetch_add(1, Ordering::SeqCst);
        BusyGuard(Arc::clone(activity))
    }

    /// Returns after `limit` without connections, received bytes or running work; never, without a limit.
    pub(super) async fn idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        loop {
            let last = *locked(&self.last_activity);
            let is_quiet = self.busy.load(Ordering::SeqCst) == 0
                && self.connections.load(Ordering::SeqCst) == 0;
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

/// Counts as an open connection until dropped.
pub(super) struct ConnectionGuard(Arc<ActivityTracker>);

impl ConnectionGuard {
    /// Records that bytes were received.
    pub(super) fn touch(&self) {
        self.0.touch();
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
        self.0.touch();
    }
}

/// Counts as running work until dropped.
pub(super) struct BusyGuard(Arc<ActivityTracker>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
        self.0.touch();
    }
}

/// Prepares a listener that was bound before the runtime existed; its address had to be known first.
pub(super) fn nonblocking(listener: StdListener) -> io::Result<StdListener> {
    listener.set_nonblocking(true)?;
    Ok(listener)
}
