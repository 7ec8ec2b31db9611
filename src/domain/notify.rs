//! Notifications outside the screen: bell, desktop, taskbar, window title and the user's hook command.

use super::{Status, Task};

/// Why the user should be notified about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum NotifyReason {
    /// The task completed or was cancelled. One that failed or was lost needs the user.
    Done,
    /// The task has a question, needs a sign-in, or ended in any other way.
    NeedsYou,
}

impl NotifyReason {
    /// The value of `LONGHAUL_EVENT` for the hook command.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

impl Task {
    /// Why to notify the user, by the status alone.
    pub fn notify_reason(&self) -> Option<NotifyReason> {
        match &self.status {
            Status::Completed | Status::Cancelled => Some(NotifyReason::Done),
            status => status.needs_you(false).then_some(NotifyReason::NeedsYou),
        }
    }
}

/// Which reasons cause a notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum NotifyLevel {
    /// No notifications.
    Off,
    /// Only tasks that need the user.
    NeedsYou,
    /// Finished tasks too.
    #[default]
    All,
}

impl NotifyLevel {
    /// Whether this level includes the reason.
    pub fn includes(self, reason: NotifyReason) -> bool {
        match self {
            Self::Off => false,
            Self::NeedsYou => reason == NotifyReason::NeedsYou,
            Self::All => true,
        }
    }
}

/// The escape sequence for desktop notifications; terminals differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum DesktopProtocol {
    /// OSC 9, as in iTerm2.
    Osc9,
    /// OSC 777, as in rxvt-unicode.
    Osc777,
    /// OSC 99, as in kitty.
    Osc99,
}

/// The combined progress of all tasks, for the taskbar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverallProgress {
    /// Nothing is running.
    #[default]
    None,
    /// Percent done.
    Percent(u8),
    /// Running, without a known percentage.
    Busy,
}

/// The `[notify]` section of the config file, except for the hook command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotifyConfig {
    /// When to ring the bell.
    pub bell: NotifyLevel,
    /// When to show a desktop notification.
    pub desktop: NotifyLevel,
    /// The escape sequence to use; detected from the terminal if absent.
    pub desktop_by: Option<DesktopProtocol>,
    /// Whether to show progress in the taskbar; detected from the terminal if absent.
    pub progress: Option<bool>,
    /// Whether to leave the window title alone.
    pub no_title: bool,
    /// Whether to wrap sequences for tmux passthrough.
    pub tmux_passthrough: bool,
}
