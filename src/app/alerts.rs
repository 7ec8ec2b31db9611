//! Alerts that wait to be shown outside the screen.

use core::time::Duration;

use crate::domain::{Mono, NotifyReason, OverallProgress};

/// Alerts closer together than this are combined into one.
const MIN_INTERVAL: Duration = Duration::from_secs(2);

/// Waiting alerts, and what was last shown outside the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AlertState {
    /// The most important waiting alert.
    pub(super) waiting: Option<(NotifyReason, String)>,
    /// How many other alerts wait.
    pub(super) more: u64,
    /// When an alert was last sent.
    pub(super) at: Option<Mono>,
    /// The title that was last set.
    pub(super) title: String,
    /// The progress in the taskbar, and when it was computed.
    pub(super) overall: OverallProgress,
    pub(super) progress_at: Option<Mono>,
    /// How many tasks were running then.
    pub(super) running: usize,
}

impl AlertState {
    pub(super) fn add(&mut self, occasion: NotifyReason, message: String) {
        if self.waiting.is_some() {
            self.more += 1;
        }
        if self
            .waiting
            .as_ref()
            .is_none_or(|(first, _)| *first < occasion)
        {
            self.waiting = Some((occasion, message));
        }
    }

    /// When the waiting alert is due.
    pub(super) fn wake(&self) -> Option<Mono> {
        let due = self.at.map_or(Mono(0), |at| at.after(MIN_INTERVAL));
        self.waiting.as_ref().map(|_| due)
    }
}
