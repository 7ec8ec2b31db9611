//! What the screen knows about the session and its driver, and the requests to it that have no response yet.

use std::collections::BTreeMap;

use super::event::Command;
use crate::domain::SessionDriver;
use crate::domain::{ServerName, SessionRequestId, TaskId, Wall};

/// What the screen knows about the session and its driver.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionInfo {
    /// When the session was last saved, as read from the file.
    pub saved_at: Option<Wall>,
    /// When the session file was read; the user has not seen tasks created after that.
    pub restored_at: Option<Wall>,
    /// The driver.
    pub driver: Option<SessionDriver>,
    /// The session has no driver right now.
    pub is_driverless: bool,
}

/// What a request was for, kept until its response arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestPurpose {
    /// Anything else; only an error matters.
    Other,
    /// List the server's tools.
    Tools(ServerName),
    /// Start a call; the form stays open until the call is saved.
    Start(TaskId),
    /// Add the server that the user typed in; its tools are requested next.
    Server(ServerName),
    /// Answer a question; the dialog stays open until the answer is saved.
    Answer {
        /// The task that asked.
        task: TaskId,
        /// The key of the question.
        key: String,
        /// What the user chose, for the message about it.
        choice: &'static str,
    },
    /// Pause, resume or cancel this marked task, which stays marked if that is refused.
    OfMarked(TaskId),
    /// Remove this task from the list.
    Remove(TaskId),
    /// Undo the removal of this task.
    Restore(TaskId),
    /// Import tasks from this server.
    Adopt(ServerName),
    /// Start to sign in to this server.
    SignIn(ServerName),
}

/// The requests to the session, the ids that were made for them, and what else is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionRequests {
    /// Requests without a response.
    pub(super) pending: BTreeMap<SessionRequestId, RequestPurpose>,
    /// The id of the last request; the first is 1.
    pub(super) last: SessionRequestId,
    /// How many task ids were made from the seed.
    pub(super) ids_made: u64,
    /// What the current update asks the shell to do.
    pub(super) commands: Vec<Command>,
}
