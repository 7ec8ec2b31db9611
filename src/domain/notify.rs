//! What is told beside the screen, and how: the bell, the desktop, the taskbar, the title, a command of the user.

use super::{Connectivity, Status, Task, TaskView};

/// Something that a person may want to hear of while he looks elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotifyReason {
    /// It ended as it should.
    Done,
    /// It asks, wants a sign-in, or ended otherwise.
    NeedsYou,
}

impl NotifyReason {
    /// The word of `LONGHAUL_EVENT`, which the command of the user sees.
    pub fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NeedsYou => "needs-you",
        }
    }
}

impl TaskView {
    /// What its picture is worth telling of; `None` while it goes on by itself.
    pub fn notify_reason(&self) -> Option<NotifyReason> {
        let needs_login = matches!(self.contact, Connectivity::NeedsLogin);
        let of_task = self.task.notify_reason();
        of_task.or_else(|| needs_login.then_some(NotifyReason::NeedsYou))
    }
}

impl Task {
    /// What its status is worth telling of.
    pub fn notify_reason(&self) -> Option<NotifyReason> {
        match &self.status {
            Status::Completed | Status::Cancelled => Some(NotifyReason::Done),
            status => status.needs_you(false).then_some(NotifyReason::NeedsYou),
        }
    }
}

/// Which occasions are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NotifyLevel {
    /// None.
    Off,
    /// What needs a person.
    NeedsYou,
    /// What is done too.
    #[default]
    All,
}

impl NotifyLevel {
    /// What can be said, and what it means.
    pub const ALL: [(&str, Self); 3] = [
        ("off", Self::Off),
        ("needs-you", Self::NeedsYou),
        ("all", Self::All),
    ];

    /// Whether this occasion is among them.
    pub fn wants(self, occasion: NotifyReason) -> bool {
        match self {
            Self::Off => false,
            Self::NeedsYou => occasion == NotifyReason::NeedsYou,
            Self::All => true,
        }
    }
}

/// The sequence that a terminal takes a notification of the desktop by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesktopProtocol {
    /// OSC 9, as iTerm2 has it.
    Osc9,
    /// OSC 777, as rxvt-unicode has it.
    Osc777,
    /// OSC 99, as kitty has it.
    Osc99,
}

impl DesktopProtocol {
    /// What can be said, and what it means.
    pub const ALL: [(&str, Self); 3] = [
        ("osc9", Self::Osc9),
        ("osc777", Self::Osc777),
        ("osc99", Self::Osc99),
    ];
}

/// The state of all work, as shown by a taskbar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverallProgress {
    /// Nothing runs.
    #[default]
    None,
    /// A part of 100.
    Percent(u8),
    /// Something runs, nobody knows how far it is.
    Busy,
}

/// What `[notify]` of the configuration says of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotifyConfig {
    /// When to ring.
    pub bell: NotifyLevel,
    /// When to show a notification of the desktop.
    pub desktop: NotifyLevel,
    /// By which sequence; by what is known of the terminal when absent.
    pub desktop_by: Option<DesktopProtocol>,
    /// Whether the taskbar shows the overall progress; by what is known of the terminal when absent.
    pub progress: Option<bool>,
    /// Whether the title of the window is ours.
    pub title: bool,
    /// Whether tmux may be asked to hand sequences on.
    pub tmux_passthrough: bool,
}

impl Default for NotifyConfig {
    fn default() -> Self {
        Self {
            bell: NotifyLevel::default(),
            desktop: NotifyLevel::default(),
            desktop_by: None,
            progress: None,
            title: true,
            tmux_passthrough: false,
        }
    }
}
