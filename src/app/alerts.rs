//! Alerts that wait to be shown outside the screen.

use core::time::Duration;

use crate::domain::{Mono, NotifyReason, OverallProgress, TaskId};

/// Alerts closer together than this are combined into one.
const MIN_INTERVAL: Duration = Duration::from_secs(2);

/// How long a window without the focus waits, so that one with the focus announces first and stays quiet.
const FOCUSED_FIRST: Duration = Duration::from_millis(300);

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
pub struct Alert {
    pub(super) id: TaskId,
    pub(super) occasion: NotifyReason,
    pub(super) message: String,
}

/// Waiting alerts, and what was last shown outside the screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AlertState {
    /// The waiting alerts, and since when the first one waits.
    waiting: Vec<Alert>,
    waiting_since: Option<Mono>,
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
    pub(super) fn add(&mut self, alert: Alert, now: Mono) {
        self.waiting_since.get_or_insert(now);
        self.waiting.push(alert);
    }

    /// When the waiting alerts are due.
    pub(super) fn wake(&self, window: WindowFocus) -> Option<Mono> {
        let since = self.waiting_since?;
        let yields = match window {
            WindowFocus::Focused => Duration::ZERO,
            WindowFocus::Lost | WindowFocus::Unreported => FOCUSED_FIRST,
        };
        let apart = self.sent_at.map_or(Mono(0), |at| at.after(MIN_INTERVAL));
        Some(apart.max(since.after(yields)))
    }

    /// Takes the waiting alerts, which are sent now.
    pub(super) fn take(&mut self, now: Mono) -> Vec<Alert> {
        self.sent_at = Some(now);
        self.waiting_since = None;
        std::mem::take(&mut self.waiting)
    }
}
