//! What the engine publishes: full snapshots of tasks and servers, never incremental changes.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    ConfigureError, Connectivity, IfCut, LinkRecord, ProtocolVersion, ServerCapabilities,
    ServerName, Task, Wall, server_url,
};
use crate::domain::config::ServerObstacle;

/// A snapshot of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// The saved record.
    pub task: Task,
    /// The state of its connection.
    pub contact: Connectivity,
    /// What a cut would do to it; `None` if it has settled or is unknown, or if no process follows it.
    pub if_cut: Option<IfCut>,
    /// History up to this `seq` can be read from the session file.
    pub saved_seq: u64,
    /// Whether the last save failed, so that this state may not survive a crash.
    pub is_unsaved: bool,
    /// Why it failed.
    #[serde(default)]
    pub unsaved_why: Option<String>,
}

impl TaskView {
    /// A task as it was saved, while the session has no driver.
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
            if_cut: None,
            is_unsaved: false,
            unsaved_why: None,
        }
    }
}

/// Why changes are not saved, for people. A driver of an older version gives no reason.
pub fn unsaved_reason(why: Option<&str>) -> &str {
    why.unwrap_or("could not write the session file")
}

/// A snapshot of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerView {
    /// The user's name for the server.
    pub name: ServerName,
    /// Its endpoint, without credentials.
    pub url: String,
    /// The state of its connection.
    pub state: LinkState,
    /// What the user has to do before longhaul contacts the server.
    pub obstacle: Option<ServerObstacle>,
    /// The negotiated revision, or empty.
    pub era: String,
    /// Why this revision was chosen, for the user.
    pub era_why: String,
    /// The name and version the server reports; not sanitized.
    pub server_info: Option<String>,
    /// The number of its tools; `None` before they were listed.
    pub tools: Option<usize>,
    /// What it supports for recovering calls, as far as known.
    pub capabilities: ServerCapabilities,
    /// Requests sent by this process.
    pub requests: u64,
    /// The config file that no longer contains it. Running calls continue, but new ones aren't started.
    pub gone_from: Option<String>,
    /// Why a part of its configuration has not been applied yet.
    #[serde(default)]
    pub waiting_config: Option<ConfigureError>,
    /// How long it took to start responding to the latest short request; `None` before the first.
    pub latency: Option<Duration>,
}

/// The state of a connection to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum LinkState {
    /// No connection is needed.
    #[default]
    Idle,
    /// Initializing.
    Connecting,
    /// The last exchange succeeded.
    Live,
    /// It can't be reached; one probe retries for all its tasks.
    Down {
        /// When it became unreachable.
        since: Wall,
        /// Retries so far.
        tries: u32,
        /// When the next retry is due.
        next: Wall,
        /// Why it can't be reached.
        why: String,
    },
    /// It requires credentials.
    NeedsLogin {
        /// The server's reason.
        why: String,
        /// Whether `longhaul login` works for it; otherwise the user has to set headers.
        #[serde(default)]
        takes_sign_in: bool,
    },
    /// A stdio server that can't be started yet.
    NotStarted {
        /// What the user has to do.
        why: String,
        /// Whether the user approved its command.
        is_approved: bool,
    },
}

impl LinkState {
    /// Whether `longhaul login` helps.
    pub fn takes_sign_in(&self) -> bool {
        match self {
            Self::NeedsLogin { takes_sign_in, .. } => *takes_sign_in,
            _ => false,
        }
    }
}

impl ServerView {
    /// What the saved record of a server contains.
    pub fn of_record(record: &LinkRecord) -> Self {
        Self {
            name: record.name.clone(),
            url: server_url::redacted(&record.url).into_owned(),
            era: record.version.map_or("", ProtocolVersion::label).to_owned(),
            era_why: record.era_why.clone().unwrap_or_default(),
            server_info: record.server_info.clone(),
            tools: record.tools_at.map(|_| record.tools.len()),
            capabilities: record.capabilities(),
            ..Self::default()
        }
    }

    /// Whether it waits for the user's sign-in, credentials or approval.
    pub fn waits_for_user(&self) -> bool {
        self.obstacle.is_some()
            || matches!(
                self.state,
                LinkState::NeedsLogin { .. } | LinkState::NotStarted { .. }
            )
    }
}
