//! What a screen reads from the session file: the request and its answer. Both can cross a tunnel, because the file may be
//! on another machine.

use serde::{Deserialize, Serialize};

use super::{HistoryEntry, Milestone, ServerName, TaskId, TrafficEntry};

/// A request to read the session file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedRead {
    /// A task's history after an entry, at most the newest that a screen holds.
    History {
        /// The task.
        task: TaskId,
        /// The newest entry that is already known.
        after_seq: u64,
    },
    /// The milestones of tasks, each after an entry.
    Milestones(Vec<(TaskId, u64)>),
    /// A task's result.
    Result(TaskId),
    /// The recorded traffic of a task.
    Traffic {
        /// The task.
        task: TaskId,
        /// Its server.
        server: ServerName,
    },
    /// The bytes of a part of a task's result.
    Part {
        /// The task.
        task: TaskId,
        /// The index of the part.
        part: usize,
    },
}

/// The answer to a [`SavedRead`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Saved {
    /// To [`SavedRead::History`].
    History {
        /// The entries, oldest first.
        entries: Vec<HistoryEntry>,
        /// How many older ones were left out.
        dropped: u64,
    },
    /// To [`SavedRead::Milestones`].
    Milestones(Vec<(TaskId, Vec<Milestone>)>),
    /// To [`SavedRead::Result`]: the JSON of a CallToolResult, if there is one.
    Result(Option<String>),
    /// To [`SavedRead::Traffic`].
    Traffic(Vec<TrafficEntry>),
    /// To [`SavedRead::Part`]: its bytes in base64.
    Part(String),
}
