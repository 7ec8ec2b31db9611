//! Requests of clients to the engine, its responses and its events. The same types are sent over a channel within one
//! process and as JSON over the session's socket.

use core::time::Duration;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Answer, Collected, ControlKind, Forwarded, HostProfile, HostRequest, Introduction,
    ProtocolVersion, ServerConfigs, ServerName, ServerView, Task, TaskId, TaskView, Tool, Wall,
    saved::{Saved, SavedRead},
};
use crate::domain::call::{Checkpoint, NewCall, ServerRef};

/// The id of a request, unique within one client; the response carries it.
pub type SessionRequestId = u64;

/// A request of a client to the engine. Each gets exactly one [`SessionEvent::Response`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionRequest {
    /// Add a server to the session, or connect to a known one. Headers are used but never saved.
    Server(ServerRef),
    /// Apply the servers of a config file. The response doesn't wait for them.
    Configure(ServerConfigs),
    /// List a server's tools; fetches the list unless it is fresh.
    Tools(ServerName),
    /// Save a new call and send it as soon as the server can be reached.
    Start(Box<NewCall>),
    /// Pause a call with the server's pause tool.
    Pause(TaskId),
    /// Cancel a call whose server does not react to a pause; its checkpoint stays, so the task is paused then.
    StopNow(TaskId),
    /// Resume a paused call, or retry the connection now.
    Resume(TaskId),
    /// Cancel a call.
    Cancel(TaskId),
    /// Mark a task as `lost` that is `unknown`, or whose cancellation the server ignores.
    GiveUp(TaskId),
    /// Remove a task from the list. Nothing is sent to the server.
    Forget(TaskId),
    /// Restore a removed task.
    Unforget(TaskId),
    /// Note that the user has seen that a task settled.
    Seen(TaskId),
    /// Change a task's name, note or limits.
    Edit {
        /// The task.
        id: TaskId,
        /// The changes to apply; other values keep what other clients have set.
        changes: Vec<TaskChange>,
    },
    /// Retry all unreachable servers now.
    RetryNow,
    /// Start to sign in to a server; the driver waits for the browser's redirect.
    SignIn(ServerName),
    /// Start or stop recording traffic.
    Trace {
        /// The server; all servers if absent.
        server: Option<ServerName>,
        /// Whether to record; toggles if absent.
        is_on: Option<bool>,
    },
    /// Answer a server's question.
    Answer {
        /// The task.
        id: TaskId,
        /// The key of the question; the oldest open question if absent.
        key: Option<String>,
        /// The answer.
        answer: Answer,
    },
    /// Ask how a server introduces itself. From then on this client gets its notifications, as
    /// [`SessionEvent::Notification`].
    Introduce {
        /// The server.
        server: ServerName,
        /// The host behind this client.
        host: Box<HostProfile>,
    },
    /// Pass a request of the host behind this client on to a server.
    Forward {
        /// The server.
        server: ServerName,
        /// The request.
        #[serde(flatten)]
        request: HostRequest,
    },
    /// Cancel a request that was passed on: the host does not wait for it any more.
    CancelForward {
        /// The server.
        server: ServerName,
        /// The key of the request.
        key: String,
        /// Why the host does not wait.
        reason: String,
    },
    /// Respond to what a server asked about a request that was passed on.
    Respond {
        /// The server.
        server: ServerName,
        /// The id of the server's request, as it was passed on.
        id: String,
        /// The host's response.
        outcome: Forwarded,
    },
    /// Pass a notification of the host behind this client on to a server.
    Notify {
        /// The server.
        server: ServerName,
        /// The JSON-RPC message.
        message: String,
    },
    /// The directories that the host behind this client works in, for [`SessionEvent::RootsWanted`].
    Roots {
        /// The server.
        server: ServerName,
        /// The number in the event.
        number: u64,
        /// The text of a JSON array of roots, or the host's error.
        roots: Forwarded,
    },
    /// Note that the host behind this client works in other directories now.
    RootsChanged(ServerName),
    /// Note that this client waits for the result of a call, to pass it on to its caller.
    Collect(TaskId),
    /// Give this client the snapshots of a task, even if it gets only those of its own tasks.
    Follow(TaskId),
    /// List the calls that a host made on a server.
    Calls {
        /// The server.
        server: ServerName,
        /// The name of the host.
        host: String,
        /// Its working directory.
        directory: String,
    },
    /// Note what became of a call for its caller.
    Collected {
        /// The task.
        id: TaskId,
        /// What became of it.
        how: Collected,
    },
    /// List a client's checkpoints on a server.
    Checkpoints {
        /// The server.
        server: ServerName,
        /// The client id whose checkpoints to list.
        client_id: String,
    },
    /// Import tasks that exist on a server but not in this session.
    Adopt {
        /// The server.
        server: ServerName,
        /// The id of a single server task; all tasks that the server lists if absent.
        server_task: Option<String>,
    },
    /// Read the session file on the machine where it is. Only the far end of a tunnel answers this.
    Read(SavedRead),
    /// Another request, with the MCP revision that `--protocol` sets.
    In(ProtocolVersion, Box<SessionRequest>),
}

/// A change by [`SessionRequest::Edit`]; `None` removes the value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskChange {
    /// The name.
    Name(Option<String>),
    /// The note.
    Note(Option<String>),
    /// The limit without activity.
    Idle(Option<Duration>),
    /// The limit for the total duration.
    Hard(Option<Duration>),
}

impl TaskChange {
    /// Changes the task.
    pub fn apply(&self, task: &mut Task) {
        match self {
            Self::Name(name) => task.name.clone_from(name),
            Self::Note(note) => task.note.clone_from(note),
            Self::Idle(limit) => task.options.limits.idle = *limit,
            Self::Hard(limit) => task.options.limits.hard = *limit,
        }
    }
}

impl SessionRequest {
    /// The request to control a task.
    pub fn control(kind: ControlKind, id: TaskId) -> Self {
        match kind {
            ControlKind::Pausing => Self::Pause(id),
            ControlKind::Resuming => Self::Resume(id),
            ControlKind::Cancelling => Self::Cancel(id),
        }
    }

    /// Carries out a request that changes only what is saved of a task.
    pub(crate) fn change(&self, task: &mut Task, now: Wall) {
        match self {
            Self::Forget(_) => task.forgotten_at = Some(now),
            Self::Unforget(_) => task.forgotten_at = None,
            Self::Seen(_) => task.end.is_seen = true,
            Self::Collected { how, .. } => {
                if let Some(caller) = &mut task.caller {
                    caller.note(how, now);
                }
            }
            Self::Edit { changes, .. } => {
                for change in changes {
                    change.apply(task);
                }
            }
            _ => {}
        }
    }

    /// Whether the request makes a link send something new to its server.
    pub(crate) fn starts_something(&self) -> bool {
        matches!(
            self,
            Self::Tools(_)
                | Self::Introduce { .. }
                | Self::Forward { .. }
                | Self::Notify { .. }
                | Self::Adopt { .. }
                | Self::Checkpoints { .. }
                | Self::Start(_)
        )
    }

    /// The request with the MCP revision that `--protocol` sets, if it contacts a server.
    #[must_use]
    pub fn in_version(self, version: Option<ProtocolVersion>) -> Self {
        match (self, version) {
            (Self::Start(mut call), Some(version)) => {
                call.protocol.get_or_insert(version);
                Self::Start(call)
            }
            (
                request @ (Self::Tools(_) | Self::Adopt { .. } | Self::Checkpoints { .. }),
                Some(version),
            ) => Self::In(version, Box::new(request)),
            (request, _) => request,
        }
    }
}

/// The outcome of a request.
pub type SessionOutcome = Result<SessionResponse, RequestError>;

/// The result of a successful request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionResponse {
    /// Accepted; the outcome will show in the task.
    Accepted,
    /// The task is saved (or existed already, with `--once`).
    Started(TaskId),
    /// The tools of a server.
    Tools(Vec<Tool>),
    /// The tasks that were imported.
    Adopted(Vec<TaskId>),
    /// What was read from the session file.
    Read(Saved),
    /// How a server introduces itself.
    Introduced(Introduction),
    /// The calls of a host, oldest first.
    Calls(Vec<TaskView>),
    /// The outcome of a request that was passed on.
    Forwarded(Forwarded),
    /// The checkpoints that the server lists.
    Checkpoints(Vec<Checkpoint>),
    /// The sign-in page that the user has to open.
    SignIn(SignInPage),
    /// Done; the text is a message for the user.
    #[serde(rename = "told")]
    Done(String),
}

/// A sign-in page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInPage {
    /// Its host, for the user to check before opening it.
    pub host: String,
    /// Other parties of the sign-in than the page's host, such as "for ISSUER".
    #[serde(default, rename = "beside")]
    pub other_parties: Vec<String>,
    /// Its URL; http or https.
    pub url: String,
}

/// Why a request was refused, with a message that says what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "because", content = "words")]
pub enum RequestError {
    /// Invalid request; nothing was sent.
    #[error("{0}")]
    Usage(String),
    /// The task has already settled; nothing was sent.
    #[error("{0}")]
    Settled(String),
    /// The server wants credentials.
    #[error("{0}")]
    NeedsLogin(String),
    /// The server can't be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The session file can't be written, so nothing new is started.
    #[error("{0}")]
    CannotSave(String),
}

/// The process that drives a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionDriver {
    /// Its process id.
    pub pid: u32,
    /// Whether that is this process.
    pub is_us: bool,
    /// Whether it is a keeper, which outlives its clients.
    pub is_keeper: bool,
    /// Since when it drives.
    pub since: Wall,
}

/// What the engine reports to its clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEvent {
    /// A snapshot of a task.
    Task(Arc<TaskView>),
    /// A task was deleted.
    Erased(TaskId),
    /// A snapshot of a server.
    Server(Arc<ServerView>),
    /// The only response to a request.
    #[serde(rename = "answer")]
    Response {
        /// The request that it belongs to.
        #[serde(rename = "ask")]
        request: SessionRequestId,
        /// How the request went.
        outcome: SessionOutcome,
    },
    /// A message for the user.
    Notice(Notice),
    /// A notification from a server, verbatim JSON, for a client that asked it to introduce itself.
    Notification {
        /// The server.
        server: ServerName,
        /// The message.
        message: String,
    },
    /// A server wants to know the directories that the host behind this client works in.
    RootsWanted {
        /// The server.
        server: ServerName,
        /// For the response, [`SessionRequest::Roots`].
        number: u64,
    },
    /// The session has a new driver.
    Driver(SessionDriver),
    /// The driver is gone, and no other process has taken over yet.
    Undriven,
    /// The session can't be used at the moment.
    #[serde(rename = "trouble")]
    Failed {
        /// What happened and what to do next.
        #[serde(rename = "words")]
        message: String,
        /// The [exit code](super::exit) for a headless command.
        exit: u8,
    },
}

impl SessionEvent {
    /// A message for the user.
    pub fn notice(at: Wall, level: NoticeLevel, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Notice(Notice { at, level, text })
    }

    /// Why the session cannot be used, and the exit code for that.
    pub fn failed(message: impl Into<String>, exit: u8) -> Self {
        let message = message.into();
        Self::Failed { message, exit }
    }
}

/// A line of the messages pane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// When it was made.
    pub at: Wall,
    /// Its severity.
    pub level: NoticeLevel,
    /// The message; sanitized.
    pub text: String,
}

/// The severity of a [`Notice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// For information.
    Info,
    /// A problem that doesn't stop longhaul from working.
    Warning,
    /// Something failed.
    Error,
}
