//! Dialogs with a list of actions: their text, their items and what the items do.

mod body;
mod items;

use core::time::Duration;

use super::{ResultPart, SaveContent, State, View};
use crate::domain::{Mono, ServerName, SessionRequest, SignInPage, Stamp, TaskId, text};

pub use body::body;
pub use items::items;

/// Nobody reacts to a new dialog faster than this: an earlier key was meant for what lay below it. Short enough not to
/// slow down a user who knows the dialog.
const REACTION_TIME: Duration = Duration::from_millis(250);

/// Whether a key pressed now can be meant for a dialog that was first drawn at `drawn`.
pub(super) fn was_readable(drawn: Option<Mono>, now: Stamp) -> bool {
    drawn.is_some_and(|at| now.mono.since(at) >= REACTION_TIME)
}

/// The most bytes to copy to a terminal's clipboard (OSC 52); terminals refuse more.
const MAX_COPY_BYTES: usize = 1 << 20;

/// A dialog with a list of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Menu {
    /// Quitting would end or endanger calls.
    Leave,
    /// Cancel these tasks.
    Cancel(Vec<TaskId>),
    /// The task was asked to pause but is still making progress.
    StopNow(TaskId),
    /// The task failed, or is unknown or lost.
    WhatNow(TaskId),
    /// Copy something of the task.
    Copy(TaskId),
    /// Export each task to a file.
    Export(Vec<TaskId>),
    /// Inject a fault into the demo.
    InjectFault,
    /// Import servers from other MCP clients.
    Import {
        /// A line for each file and server.
        lines: Vec<String>,
        /// How many servers are new.
        new: usize,
    },
    /// Choose a view of the list.
    Views,
    /// Approve what the configuration would send to a server or start.
    Consent {
        /// The server.
        server: ServerName,
        /// A line for each item to approve.
        lines: Vec<String>,
        /// The digest of everything to approve.
        digest: String,
        /// Whether approval starts a program.
        is_program: bool,
    },
    /// Save or open a part of a result.
    Part {
        /// The task.
        task: TaskId,
        /// The part.
        part: Box<ResultPart>,
    },
    /// Confirm that the call in the form below repeats a tool that may not be safe to repeat.
    Repeat {
        /// The server.
        server: ServerName,
        /// The tool.
        tool: String,
        /// Why the repeat needs confirmation: the rest of a sentence that starts with the server's name.
        reason: &'static str,
        /// Whether to send arguments that the schema rejects.
        is_unchecked: bool,
    },
    /// Become the driver although that ends calls; the text names them.
    Drive(String),
    /// Open the sign-in page.
    SignIn {
        /// The server.
        server: ServerName,
        /// Its page.
        page: SignInPage,
    },
}

impl Menu {
    /// Whether keys that come right after the dialog opened are ignored, because one typed by accident could do harm.
    pub(super) fn ignores_early_keys(&self) -> bool {
        !matches!(
            self,
            Self::Copy(_) | Self::Export(_) | Self::InjectFault | Self::Views | Self::Import { .. }
        )
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
    /// Send requests to the engine.
    Request(Vec<SessionRequest>),
    /// Copy this text.
    Copy(String),
    /// Inject this fault.
    InjectFault(String),
    /// Show the list in this view.
    ShowView(View),
    /// Import the servers that were found.
    ImportServers,
    /// Approve what the dialog showed.
    Approve {
        /// The server.
        server: ServerName,
        /// The digest of what was shown.
        digest: String,
    },
    /// Open this page in the browser.
    OpenPage(String),
    /// Ask for the path to save to.
    SaveAs {
        /// The tasks.
        tasks: Vec<TaskId>,
        /// What to save.
        what: SaveContent,
        /// The suggested name of the file, or of the directory for several tasks.
        name: String,
    },
    /// Open a part of a result in the desktop's viewer.
    OpenPart {
        /// The task.
        task: TaskId,
        /// The index of the part.
        part: usize,
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
    /// Quit now.
    Leave,
    /// Quit once no call is left that quitting would end.
    LeaveOnceSafe,
    /// Cancel everything, then quit.
    CancelAllAndLeave,
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

fn item(key: char, label: impl Into<String>, action: MenuAction) -> MenuItem {
    MenuItem {
        key,
        label: label.into(),
        why_not: None,
        action,
    }
}

/// A line above the items: a label that stands out, and a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLine {
    /// `DIES`, `LIKELY`, `PAUSES` or `SAFE`; empty for plain text.
    pub label: &'static str,
    /// The text.
    pub text: String,
}

fn body_line(text: impl Into<String>) -> BodyLine {
    BodyLine {
        label: "",
        text: text.into(),
    }
}

fn name_of(state: &State, id: &TaskId) -> String {
    state.task(id).map_or_else(
        || id.to_string(),
        |task_row| {
            let (title, argument) = state.label(task_row);
            let argument = argument.map_or(String::new(), |(key, value)| format!(" {key}={value}"));
            let server = text::clean_line(task_row.view.task.server.as_str()).into_owned();
            format!("{id} {title}{argument} on {server}")
        },
    )
}

/// The title of a dialog.
pub fn title(menu: &Menu) -> String {
    match menu {
        Menu::Leave => "Leave?".to_owned(),
        Menu::Cancel(tasks) if tasks.len() == 1 => "Cancel?".to_owned(),
        Menu::Cancel(tasks) => format!("Cancel {} tasks?", tasks.len()),
        Menu::StopNow(_) => "Still running".to_owned(),
        Menu::WhatNow(id) => format!("What now? {id}"),
        Menu::Copy(id) => format!("Copy {id}"),
        Menu::Export(tasks) => match tasks.as_slice() {
            [id] => format!("Export {id}"),
            tasks => format!("Export {} tasks", tasks.len()),
        },
        Menu::Part { task, part } => match part.link {
            Some(_) => format!("Link in {task}"),
            None => format!("Part {} of {task}", part.number + 1),
        },
        Menu::InjectFault => "Inject a fault".to_owned(),
        Menu::Views => "Views".to_owned(),
        Menu::Import { .. } => "Import servers?".to_owned(),
        Menu::Consent {
            server, is_program, ..
        } => {
            let server = text::clean_line(server.as_str());
            if *is_program {
                format!("Start {server}?")
            } else {
                format!("Send this to {server}?")
            }
        }
        Menu::Repeat { .. } => "Run it again?".to_owned(),
        Menu::Drive(_) => "Drive from here?".to_owned(),
        Menu::SignIn { server, .. } => format!("Sign in to {}?", text::clean_line(server.as_str())),
    }
}
