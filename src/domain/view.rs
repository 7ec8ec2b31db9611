//! What the engine publishes: the newest picture of a task or a server, never a stream of small changes.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Connectivity, LeaveImpact, ServerCapabilities, ServerName, Task, Wall};

/// A task as it stands now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// The record.
    pub task: Task,
    /// Whether we are in contact.
    pub contact: Connectivity,
    /// What leaving would do to it; `None` once it is settled, and while it is unknown.
    pub leaving: Option<LeaveImpact>,
    /// The newest `seq` that is on disk; history up to it can be read from the file.
    pub saved_seq: u64,
    /// A part of 1 that was read out of the server's words, where it gives no numbers and the configuration asks for
    /// it. Never saved: the server did not say it.
    #[serde(default)]
    pub guess: Option<f64>,
    /// Whether the last write failed, so that what is shown may not survive.
    pub is_unsaved: bool,
}

impl TaskView {
    /// A task as it was saved, while nobody is in contact with its server.
    pub fn unwatched(task: Task, saved_at: Option<Wall>) -> Self {
        let contact = if task.status.is_settled() {
            Connectivity::Idle
        } else {
            Connectivity::Unwatched {
                as_of: saved_at.unwrap_or(task.updated_at),
            }
        };
        Self {
            saved_seq: task.seq,
            task,
            contact,
            leaving: None,
            guess: None,
            is_unsaved: false,
        }
    }
}

/// A server as it stands now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerView {
    /// The user's name for it.
    pub name: ServerName,
    /// Its endpoint, without credentials.
    pub url: String,
    /// How it stands.
    pub state: LinkState,
    /// What a person has to do before anything is sent there, known before anybody asked it anything.
    #[serde(default)]
    pub obstacle: Option<ServerObstacle>,
    /// The negotiated revision, or empty.
    pub era: String,
    /// Why this revision, in words.
    pub era_why: String,
    /// The server's name and version for itself, not yet sanitised.
    pub server_info: Option<String>,
    /// How many tools it listed; `None` before it was asked.
    pub tools: Option<usize>,
    /// What a call can stand on there, as far as seen.
    pub capabilities: ServerCapabilities,
    /// Requests sent by this process.
    pub requests: u64,
    /// The file of configuration that named it and does so no more: what is under way there goes on, nothing new begins.
    #[serde(default)]
    pub gone_from: Option<String>,
    /// How long the server took to begin its newest answer to a short request; `None` before the first.
    #[serde(default)]
    pub latency: Option<Duration>,
}

/// How a link stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum LinkState {
    /// Nothing is open and nothing has to be.
    Idle,
    /// The handshake is under way.
    Connecting,
    /// The last exchange went well.
    Live,
    /// It cannot be reached; one prober tries for all its tasks.
    Down {
        /// Since when.
        since: Wall,
        /// Tries so far.
        tries: u32,
        /// When the next is due.
        next: Wall,
        /// Why, in words.
        why: String,
    },
    /// It wants credentials.
    NeedsLogin {
        /// What it said.
        why: String,
        /// Whether `longhaul login` brings them; else they are headers of the user's.
        #[serde(default)]
        takes_sign_in: bool,
    },
    /// It is a program that cannot be started yet.
    NotStarted {
        /// What to do, in words.
        why: String,
        /// Whether somebody said that it may run.
        is_approved: bool,
    },
}

impl ServerView {
    /// Whether it waits for a person's sign-in, credentials or consent.
    pub fn waits_for_consent(&self) -> bool {
        self.obstacle.is_some()
            || matches!(
                self.state,
                LinkState::NeedsLogin { .. } | LinkState::NotStarted { .. }
            )
    }
}

/// What a person has to do before anything is sent to a server of the configuration, or started for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "of")]
pub enum ServerObstacle {
    /// Say that its program may be started.
    Approval,
    /// Say that these variables may go to its host.
    Consent(Vec<String>),
    /// Set these variables where the driver is started.
    Variables(Vec<String>),
}

impl ServerObstacle {
    /// In a word or two: `needs consent`, `needs $LAB_TOKEN`.
    pub fn message(&self) -> String {
        match self {
            Self::Approval => "needs approval".to_owned(),
            Self::Consent(_) => "needs consent".to_owned(),
            Self::Variables(names) => format!("needs ${}", names.join(", $")),
        }
    }
}
