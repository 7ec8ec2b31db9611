//! Alerts that wait to be shown outside the screen.

use core::time::Duration;

use crate::domain::{Mono, NotifyReason, OverallProgress};

/// Alerts closer together than this are combined into one.
const MIN_INTERVAL: Duration = Duration::from_secs(2);

/// Whether the terminal window has the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WindowFocus {
    /// The terminal has never reported it; assume that it has.
    #[default]
    Unreported,
    /// It has the focus.
    Focused,
    /// Another window has the focus.
    Lost,
}

/// A task that ended or needs the user.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Alert {
    pub(super) occasion: NotifyReason,
    pub(super) message: String,
}

/// Waiting alerts, and what was last shown outside the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AlertState {
    pub(super) waiting: Vec<Alert>,
    /// When alerts were last sent.
    sent_at: Option<Mono>,
    /// The title that was last set.
    pub(super) title: String,
    /// The progress in the taskbar, and when it was computed.
    pub(super) overall: OverallProgress,
    pub(super) progress_at: Option<Mono>,
    /// How many tasks were running then.
    pub(super) running: usize,
}

impl AlertState {
    /// When the waiting alerts are due.
    pub(super) fn due(&self) -> Option<Mono> {
        let apart = self.sent_at.map_or(Mono(0), |at| at.after(MIN_INTERVAL));
        (!self.waiting.is_empty()).then_some(apart)
    }

    /// Takes the waiting alerts, which are sent now.
    pub(super) fn take(&mut self, now: Mono) -> Vec<Alert> {
        self.sent_at = Some(now);
        std::mem::take(&mut self.waiting)
    }
}
