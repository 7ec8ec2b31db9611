//! MCP's task object, of both protocols. A server task is the most reliable way to recover a call.
//!
//! Sources: MCP 2025-11-25, basic/utilities/tasks (core); the tasks extension of 2026-07-28 (extension).

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::Wall;

/// The two task protocols of MCP, which are incompatible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// The experimental core feature of 2025-11-25: the client requests a task.
    Core,
    /// The extension of 2026-07-28: the server decides whether a call becomes a task.
    Extension,
}

/// A server's support of tasks, as declared at initialization or discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCapability {
    /// The task protocol.
    pub kind: TaskKind,
    /// Whether it supports `tasks/list` (core only).
    pub can_list: bool,
}

impl TaskCapability {
    /// What a server with the tasks extension offers.
    pub const EXTENSION: Self = Self {
        kind: TaskKind::Extension,
        can_list: false,
    };
}

/// The states of a server task; the last three are terminal and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TaskState {
    /// Running.
    Working,
    /// Waiting for an answer.
    InputRequired,
    /// Finished; the result is available.
    Completed,
    /// Ended with an error.
    Failed,
    /// Cancelled.
    Cancelled,
}

impl TaskState {
    /// Whether the state is final.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A server task as its server last showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTask {
    /// The server's id. It grants access to the task, so it is shown only on request.
    pub id: String,
    /// Its task protocol.
    pub kind: TaskKind,
    /// Its state.
    pub state: TaskState,
    /// `statusMessage`, not sanitized.
    pub message: Option<String>,
    /// When it began: when longhaul first saw it, because the server's clock may differ. For an imported task, when the
    /// server created it. Its time to live counts from here.
    pub since: Wall,
    /// How long the server keeps it after its creation, in milliseconds; `None` if unlimited.
    pub ttl_ms: Option<u64>,
    /// The poll interval that the server suggests, in milliseconds.
    pub poll_ms: Option<u64>,
    /// Whether it ends with the MCP session that created it; `None` until seen.
    pub is_bound: Option<bool>,
    /// `lastUpdatedAt` as sent.
    pub updated: Option<String>,
}

impl ServerTask {
    /// When the server may delete it.
    pub fn expires_at(&self) -> Option<Wall> {
        self.ttl_ms
            .map(|ttl| self.since.after(Duration::from_millis(ttl)))
    }
}
