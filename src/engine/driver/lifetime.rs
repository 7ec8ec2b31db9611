//! When a keeper exits by itself.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, watch};

use crate::{
    domain::{Mono, Wall},
    engine::socket::Listener,
};

/// How long a keeper without work and clients waits for the next command.
const IDLE_FOR: Duration = Duration::from_secs(10);

/// How often a keeper checks that clients can still reach it.
const REACHABLE_EVERY: Duration = Duration::from_secs(60);

/// The end of a keeper: it has nothing to do, nobody can reach it, or a user stops it.
pub(super) struct Lifetime {
    /// Notified when a client stops it.
    pub(super) stop: Arc<Notify>,
    /// How many clients are connected.
    pub(super) clients: watch::Receiver<usize>,
    /// When the keeper began to drive; an upgrade does not change that.
    pub(super) since: Wall,
    idle_since: Option<Mono>,
    reachable_at: Mono,
}

impl Lifetime {
    pub(super) fn new(clients: watch::Receiver<usize>, since: Wall, now: Mono) -> Self {
        Self {
            stop: Arc::default(),
            clients,
            since,
            idle_since: None,
            reachable_at: now,
        }
    }

    /// When to look again.
    pub(super) fn deadline(&self) -> Mono {
        let idle = self.idle_since.map(|since| since.after(IDLE_FOR));
        let reachable = self.reachable_at.after(REACHABLE_EVERY);
        idle.map_or(reachable, |idle| idle.min(reachable))
    }

    /// Whether the keeper has to exit now. Some of its clients are `idle_proxies`, which can start another one.
    pub(super) fn is_over(
        &mut self,
        has_work: bool,
        idle_proxies: usize,
        listener: &Listener,
        now: Mono,
    ) -> bool {
        let is_idle = !has_work && *self.clients.borrow() <= idle_proxies;
        self.idle_since = is_idle.then(|| self.idle_since.unwrap_or(now));
        if now.since(self.reachable_at) >= REACHABLE_EVERY {
            self.reachable_at = now;
            if !listener.is_reachable() {
                tracing::warn!(
                    "another file has replaced this keeper's socket, so clients can't reach it"
                );
                return true;
            }
        }
        self.idle_since
            .is_some_and(|since| now.since(since) >= IDLE_FOR)
    }
}
