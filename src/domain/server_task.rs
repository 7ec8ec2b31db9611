//! MCP's own task object, of both kinds: the strongest handle that a server can give out.
//!
//! Sources: MCP 2025-11-25, basic/utilities/tasks (core); the tasks extension of 2026-07-28 (extension).

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::Wall;

/// Which of the two task protocols a server task belongs to; they are not wire compatible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskKind {
    /// The experimental core feature of 2025-11-25: the client asks for a task.
    Core,
    /// The extension of 2026-07-28: the server decides.
    Extension,
}

/// What a server offers of tasks, as it declared in its handshake or on discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCapability {
    /// Which protocol.
    pub kind: TaskKind,
    /// Whether `tasks/list` is there (core only).
    pub can_list: bool,
    /// Whether `tasks/cancel` is there.
    pub can_cancel: bool,
}

/// The states of a server task; the last three are terminal and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// At work.
    Working,
    /// It waits for an answer.
    InputRequired,
    /// Done; the result can be had.
    Completed,
    /// It ended with an error.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl TaskState {
    /// Reads the word on the wire; an unknown one counts as working, so that the task is asked for again.
    pub fn read(word: &str) -> Self {
        match word {
            "input_required" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            _ => Self::Working,
        }
    }

    /// Whether nothing changes any more.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A server task as its server last showed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTask {
    /// The server's id of it: a capability, so it is shown only where it is asked for.
    pub id: String,
    /// Which protocol it speaks.
    pub kind: TaskKind,
    /// Its state.
    pub state: TaskState,
    /// `statusMessage`: the server's words, not yet sanitised.
    pub message: Option<String>,
    /// When we first heard of it; its time to live is counted from here, because the server's clock is not ours.
    pub since: Wall,
    /// How long the server keeps it from its creation, in milliseconds; `None` without a limit.
    pub ttl_ms: Option<u64>,
    /// The server's wish for the pace of asking, in milliseconds.
    pub poll_ms: Option<u64>,
    /// Whether it ends with the server session that made it; `None` until that was seen.
    pub is_bound: Option<bool>,
    /// `lastUpdatedAt` as sent.
    pub updated: Option<String>,
}

impl ServerTask {
    /// When the server may drop it.
    pub fn expires_at(&self) -> Option<Wall> {
        self.ttl_ms
            .map(|ttl| self.since.after(Duration::from_millis(ttl)))
    }
}
