//! The subscription to changes of our server tasks (`subscriptions/listen`), in the modern era.

use core::time::Duration;
use std::collections::BTreeSet;

use super::time::{doubled, jittered};
use crate::{domain::Mono, link::ExchangeId};

/// How long new tasks are collected before longhaul subscribes to them.
const GATHER: Duration = Duration::from_secs(1);
/// The first and the longest wait before a broken subscription is asked for again.
const FIRST_LISTEN: Duration = Duration::from_secs(1);
const LAST_LISTEN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub(super) struct TaskSubscription {
    pub(super) on: Option<ExchangeId>,
    /// The server tasks that it is about.
    pub(super) wanted: BTreeSet<String>,
    /// Whether it is about the lists that hosts want to know of, too.
    has_lists: bool,
    /// Whether list changes may have been missed while there was no subscription.
    pub(super) has_gap: bool,
    /// When the current one was requested.
    since: Mono,
    /// When it is requested again; set whenever the tasks change.
    pub(super) next: Option<Mono>,
    failures: u32,
    /// The server has none.
    pub(super) is_refused: bool,
}

impl TaskSubscription {
    /// The tasks changed. More changes are awaited before it is requested for them.
    pub(super) fn gather(&mut self, now: Mono) {
        let at = now.after(GATHER);
        self.next = Some(self.next.map_or(at, |next| next.max(at)));
    }

    /// Whether it reports on all of these already. One that nothing needs any more does not.
    pub(super) fn covers(&self, wanted: &BTreeSet<String>, wants_lists: bool) -> bool {
        let is_needed = wants_lists || !wanted.is_empty();
        let has_all = wanted.is_subset(&self.wanted) && (self.has_lists || !wants_lists);
        self.on.is_some() && is_needed && has_all
    }

    pub(super) fn requested(
        &mut self,
        on: ExchangeId,
        wanted: BTreeSet<String>,
        has_lists: bool,
        now: Mono,
    ) {
        (self.on, self.wanted, self.since) = (Some(on), wanted, now);
        self.has_lists = has_lists;
    }

    /// Whether list changes may have been missed before the server acknowledged this one. Clears the mark.
    pub(super) fn take_gap(&mut self) -> bool {
        self.has_lists && std::mem::take(&mut self.has_gap)
    }

    /// It ended. Returns whether it is requested again.
    pub(super) fn ended(&mut self, now: Mono, is_final: bool, rng: &mut fastrand::Rng) -> bool {
        self.on = None;
        self.has_gap |= self.has_lists;
        // A server may accept it and hang up at once.
        if now.since(self.since) >= LAST_LISTEN {
            self.failures = 0;
        }
        if is_final {
            self.is_refused = true;
            return false;
        }
        let wait = doubled(FIRST_LISTEN, self.failures, LAST_LISTEN);
        self.failures = self.failures.saturating_add(1);
        self.next = Some(now.after(jittered(wait, rng)));
        true
    }
}
