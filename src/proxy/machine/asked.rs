//! The proxy's requests to the session that have no response yet.

use super::Members;
use crate::domain::{ProtocolVersion, ServerName, TaskId};

/// A request of the host that was passed on.
#[derive(Clone, Debug)]
pub(super) struct ForwardedRequest {
    /// The id of the host's request.
    pub(super) id: String,
    pub(super) method: String,
    pub(super) is_first_page: bool,
    /// The text of the parameters, if the server may ask something before it answers.
    pub(super) params: Option<String>,
    /// How often it has asked already.
    pub(super) rounds: u32,
    /// The name of the request in the session, and its progress token there.
    pub(super) key: String,
    /// The host's own token, as JSON text.
    pub(super) progress_token: Option<String>,
}

/// A request to the session that waits for its response.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// The introduction; with the id of the host's request and how it asked.
    Introduce(Option<(String, IntroductionMethod)>),
    Forward(ForwardedRequest),
    Start {
        id: String,
        /// The task, unless the call repeats an earlier one.
        task: TaskId,
    },
    Collect {
        id: String,
        task: TaskId,
    },
    /// The snapshot of a task, for a request about it.
    Task {
        id: String,
        task: TaskId,
        method: String,
        /// The text of its parameters.
        params: String,
        /// The other server on which the host made the call.
        other_server: Option<ServerName>,
    },
    /// The host's calls, for a list of them.
    Calls {
        id: String,
        list: CallList,
    },
    /// The note that the host has read the result of this task.
    Delivered(TaskId),
    /// A request that was passed on and that the host has cancelled, or a notification.
    Unawaited,
    /// The host waits for nothing of it, for example of a cancel.
    Note,
}

impl Asked {
    /// Whether the host waits for nothing of it.
    pub(super) fn is_note(&self) -> bool {
        matches!(self, Self::Collect { .. } | Self::Delivered(_) | Self::Note)
    }
}

/// A list of the host's calls.
#[derive(Clone, Debug)]
pub(super) enum CallList {
    /// What `longhaul_tasks` returns.
    Tool,
    /// `tasks/list`, after this task.
    Tasks(Option<TaskId>),
}

/// How a host asks who the server is.
#[derive(Clone, Debug)]
pub(super) enum IntroductionMethod {
    /// `initialize`, answered in this revision.
    Initialize(ProtocolVersion),
    /// `server/discover`.
    Discover,
    /// `subscriptions/listen` for these notifications: which of them the server offers has to be known.
    Listen(Members),
}
