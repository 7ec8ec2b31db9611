//! Dialogs with a list of actions. What each one shows and does is in a file of its own; `menu_keys` brings them together.

use core::time::Duration;

use crate::{
    app::{Approval, Command},
    domain::{CutOutcome, Mono, ServerName, SessionRequest, Stamp, TaskId},
};

/// Nobody reacts to a new dialog faster than this: an earlier key was meant for what lay below it. Short enough not to
/// slow down a user who knows the dialog.
const REACTION_TIME: Duration = Duration::from_millis(250);

/// Whether a key pressed now can be meant for a dialog that was first drawn at `drawn`.
pub(in crate::app) fn was_readable(drawn: Option<Mono>, now: Stamp) -> bool {
    drawn.is_some_and(|at| now.mono.since(at) >= REACTION_TIME)
}

/// A dialog with a list of actions.
#[derive(Clone, Debug, PartialEq)]
pub enum Menu {
    /// Quitting would end or endanger calls.
    Quit {
        /// Whether it stops the keeper instead.
        stops_keeper: bool,
    },
    /// Cancel these tasks.
    Cancel(Vec<TaskId>),
    /// The task was asked to pause but is still making progress.
    StopNow(TaskId),
    /// The task failed, or is unknown or lost.
    WhatNow(TaskId),
    /// Copy something of the task.
    Copy(TaskId),
    /// What does not change while it is open.
    Fixed(Box<Dialog>),
    /// Import servers from other MCP clients.
    Import {
        /// A line for each file and server.
        lines: Vec<String>,
        /// How many servers are new.
        new: usize,
    },
    /// Approve what the configuration would send to a server or start.
    Approval(ServerName, Box<Approval>),
}

impl Menu {
    /// Whether it is about this task, and has nothing left to act on once the task is erased.
    pub(in crate::app) fn is_about(&self, id: &TaskId) -> bool {
        match self {
            Self::StopNow(task) | Self::WhatNow(task) | Self::Copy(task) => task == id,
            Self::Cancel(tasks) => tasks.contains(id),
            Self::Quit { .. } | Self::Fixed(_) | Self::Import { .. } | Self::Approval(..) => false,
        }
    }
}

/// What a dialog shows, and what its keys do.
#[derive(Clone, Debug, PartialEq)]
pub struct Dialog {
    /// The title.
    pub title: String,
    /// The lines above the items.
    pub body: Vec<BodyLine>,
    /// The items. The first one is selected initially and is always harmless.
    pub items: Vec<MenuItem>,
    /// What closing it without a choice does.
    pub(super) on_close: MenuAction,
    /// Whether keys that come right after it opened are ignored, because one typed by accident could do harm.
    pub(super) ignores_early_keys: bool,
}

impl Dialog {
    /// A dialog that ignores early keys, and that can be closed without any effect.
    pub(super) fn new(
        title: impl Into<String>,
        body: impl IntoIterator<Item: Into<String>>,
        items: Vec<MenuItem>,
    ) -> Self {
        Self {
            title: title.into(),
            body: body.into_iter().map(BodyLine::plain).collect(),
            items,
            on_close: MenuAction::Close,
            ignores_early_keys: true,
        }
    }

    /// The index of the item with this key; the first one if it is gone.
    pub fn index_of(&self, selected: Option<char>) -> usize {
        let mut items = self.items.iter();
        items
            .position(|item| Some(item.key) == selected)
            .unwrap_or_default()
    }

    /// A dialog without any item that could do harm by accident.
    pub(super) fn harmless(self) -> Self {
        Self {
            ignores_early_keys: false,
            ..self
        }
    }
}

/// What choosing an item does.
#[derive(Clone, Debug, PartialEq)]
pub enum MenuAction {
    /// Close the dialog.
    Close,
    /// Show the full text on a page above the dialog.
    Read {
        /// The title.
        title: String,
        /// The lines.
        lines: Vec<String>,
    },
    /// Send a request to the engine.
    Request(SessionRequest),
    /// Cancel these tasks.
    Cancel(Vec<TaskId>),
    /// Copy this text.
    Copy(String),
    /// Carry out this command.
    Command(Command),
    /// Don't approve it, and go on to the next server that waits for approval.
    Refuse,
    /// Decide later about every server that waits for approval.
    Postpone,
    /// Open a page in the browser.
    OpenPage {
        /// Its URL.
        url: String,
        /// The reply to the key.
        reply: String,
    },
    /// Open a call form with the task's arguments.
    RunAgain(TaskId),
    /// Send the call in the form below.
    Repeat {
        /// Send it even if the schema rejects the arguments.
        is_unchecked: bool,
    },
    /// Forget the task.
    Forget(TaskId),
    /// Don't quit.
    Stay,
    /// Quit now.
    Quit,
    /// Quit once no call is left that would be lost.
    QuitOnceNothingLost,
    /// Cancel everything, then quit.
    CancelAllAndQuit,
}

/// An item of a dialog.
#[derive(Clone, Debug, PartialEq)]
pub struct MenuItem {
    /// The key that chooses it.
    pub key: char,
    /// Its label.
    pub label: String,
    /// Why it is disabled.
    pub why_not: Option<String>,
    /// What it does.
    pub action: MenuAction,
}

impl MenuItem {
    /// An item that can be chosen.
    pub(super) fn new(key: char, label: impl Into<String>, action: MenuAction) -> Self {
        Self {
            key,
            label: label.into(),
            why_not: None,
            action,
        }
    }

    /// The item, disabled if there is a reason.
    pub(super) fn unless(self, why_not: Option<String>) -> Self {
        Self { why_not, ..self }
    }
}

/// A line above the items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLine {
    /// What a cut would do to the call that the text is about; `None` for plain text.
    pub outcome: Option<CutOutcome>,
    /// The text.
    pub text: String,
}

impl BodyLine {
    /// A line of plain text.
    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self {
            outcome: None,
            text: text.into(),
        }
    }
}
