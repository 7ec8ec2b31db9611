//! The orderly exit of a driver.

use std::time::Duration;

use super::state::{Driver, Linked};
use crate::{engine::hook::START_WITHIN, link::Input, transport::Stdio};

/// How long the links may take to shut down.
const LEAVE_WITHIN: Duration = Duration::from_millis(1500);

/// How long the exit may take before the rest is saved: an unresponsive process has been killed by then.
const ENDS_WITHIN: Duration = Duration::from_millis(1900);

/// How long server processes have for their last output; they end in any case.
const PROCESSES_HEAR_WITHIN: Duration = Duration::from_millis(700);

impl Driver<'_> {
    /// Ends what may be ended and saves the rest; bounded, because a person waits.
    pub(super) async fn leave(mut self) {
        self.is_leaving = true;
        let begin = self.clock.now();
        let at = |after| self.clock.instant(begin.mono.after(after));
        let (processes_until, links_until, until) =
            (at(PROCESSES_HEAR_WITHIN), at(LEAVE_WITHIN), at(ENDS_WITHIN));
        self.feed_all(|| Input::Leave, begin);
        let is_at_rest =
            |linked: &Linked| linked.link.is_at_rest() && !linked.link.awaits_first_id();
        self.tend_until(processes_until, |it| {
            let mut processes = it.links.iter().filter(|linked| linked.stdio.is_some());
            processes.all(is_at_rest)
        })
        .await;
        let links = self.links.iter();
        let processes: Vec<Stdio> = links.filter_map(|it| it.stdio.clone()).collect();
        let links = self.links.iter();
        let tokens: Vec<_> = links.filter_map(|it| it.tokens.clone()).collect();
        let ended = tokio::task::spawn_local(async move {
            futures_util::future::join_all(processes.iter().map(Stdio::end)).await;
        });
        let is_saved =
            |it: &Self| it.links.iter().all(is_at_rest) && it.saves.own.waiting.is_empty();
        self.tend_until(links_until, is_saved).await;
        let settled = futures_util::future::join_all(tokens.iter().map(|it| it.wait_for_refresh()));
        let (ended, settled) = tokio::join!(
            tokio::time::timeout_at(until, ended),
            tokio::time::timeout_at(until, settled)
        );
        // Clients that wait for a call that ends with this process are told so; the next driver would have to find out.
        let now = self.clock.now();
        for index in 0..self.links.len() {
            let has_process = self.links.get(index).is_some_and(|it| it.stdio.is_some());
            if ended.is_ok() || !has_process {
                self.feed(index, Input::Closed, now);
            }
        }
        if ended.is_err() {
            tracing::warn!("exited before a process had ended");
        }
        self.tend_until(until, is_saved).await;
        self.publish_changes(self.clock.now());
        if settled.is_err() {
            tracing::warn!("exited while a token was being refreshed");
        }
        self.saves.journal.close();
        self.tracer.close();
        let rest = begin.mono.after(ENDS_WITHIN).since(self.clock.now().mono);
        if self
            .hooks
            .is_some_and(|it| !it.flush(rest.max(START_WITHIN)))
        {
            tracing::warn!("exited before the last hooks were started");
        }
    }
}
