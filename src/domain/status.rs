//! The three facts about a task: its status on the server, our connectivity, and the control requested by the user.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Stamp, Wall, text};

/// The status of a task, as far as the server has confirmed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "reason")]
#[derive(strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Status {
    /// Started, or waiting to be sent ([`Task::is_queued`](super::Task::is_queued)), and not known to have ended.
    #[default]
    Running,
    /// The server waits for the user's answer to a question.
    InputRequired,
    /// Paused, as confirmed by the server, without progress since.
    Paused,
    /// The tool returned a result.
    Completed,
    /// The tool or the server reported an error, or the call was refused.
    Failed,
    /// Stopped on the user's request.
    Cancelled,
    /// The result is provably unreachable.
    Lost(LostReason),
    /// Unknown outcome; the user has to decide what to do.
    Unknown(UnknownReason),
}

impl Status {
    /// The labels of all statuses, in the order of the variants.
    pub const LABELS: &'static [&'static str] = <Self as strum::VariantNames>::VARIANTS;

    /// The name on the command line and in `--json`.
    pub fn label(&self) -> &'static str {
        self.into()
    }

    /// The text of its row and group on the screen.
    pub fn row_label(&self) -> &'static str {
        match self {
            Self::InputRequired => "asking",
            other => other.label(),
        }
    }

    /// Whether the status is final.
    pub fn is_settled(&self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Lost(_)
        )
    }

    /// Whether it can't continue without the user.
    pub fn needs_decision(&self) -> bool {
        matches!(self, Self::InputRequired | Self::Unknown(_))
    }

    /// Whether it should have the user's attention: a question, a decision, or a failure not seen yet.
    pub fn needs_you(&self, is_seen: bool) -> bool {
        // Users know what they gave up.
        let is_seen = is_seen || *self == Self::Lost(LostReason::GivenUp);
        self.needs_decision() || matches!(self, Self::Failed | Self::Lost(_)) && !is_seen
    }

    /// Whether `watch` and `wait` stop waiting.
    pub fn ends_waiting(&self) -> bool {
        self.is_settled() || self.needs_decision()
    }

    /// The explanation, if the status has one.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Lost(reason) => Some(reason.to_string()),
            Self::Unknown(window) => Some(window.to_string()),
            _ => None,
        }
    }
}

/// Why a result is provably unreachable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum LostReason {
    /// The server no longer knows the session that carried the call.
    #[error("the server no longer knows the MCP session of this call{}{}", restarted(*after_restart), said(server_text.as_deref()))]
    SessionGone {
        /// Whether connections were refused just before, which suggests that the server was restarted.
        after_restart: bool,
        /// The server's message, if any; not sanitized.
        #[serde(rename = "said")]
        server_text: Option<String>,
    },
    /// The server knows the session but no longer replays the stream that carries the result.
    #[error(
        "the server no longer replays the stream of this call{}",
        said(server_text.as_deref())
    )]
    ReplayGone {
        /// The server's message or other evidence, if any; not sanitized.
        #[serde(rename = "said")]
        server_text: Option<String>,
    },
    /// The server sent a larger message than longhaul accepts; a retry would bring the same message.
    #[error("the server sent a message larger than {}, the most that longhaul accepts", text::bytes(*cap))]
    TooMuch {
        /// The limit in bytes.
        cap: u64,
    },
    /// The connection of a plain call in the modern era ended, which cancels the call.
    #[error(
        "the connection was lost ({}); in MCP 2026-07-28, that cancels any call that isn't a server task",
        text::clean_line(why)
    )]
    CancelledByDisconnect {
        /// Why the connection ended.
        why: String,
    },
    /// The process of a stdio server ended.
    #[error("the server process ended ({})", text::clean_line(why))]
    ProcessEnded {
        /// How it ended.
        why: String,
    },
    /// The server no longer knows its task, although its time to live hadn't expired.
    #[error("the server no longer knows the server task of this call{}", said(server_text.as_deref()))]
    TaskGone {
        /// The server's message, if any; not sanitized.
        #[serde(rename = "said")]
        server_text: Option<String>,
    },
    /// The time to live of the server task expired.
    #[error("the TTL of its server task has expired")]
    TaskExpired,
    /// The user removed a call whose answer can't be asked for again.
    #[error("you removed it from the list while it was running, so its response was not read")]
    Removed,
    /// The user gave up on a task with unknown outcome.
    #[error("you marked it as lost")]
    GivenUp,
}

impl LostReason {
    /// The server no longer knows the session, and nothing suggests that it was restarted.
    pub(crate) fn session_gone(server_text: Option<String>) -> Self {
        Self::SessionGone {
            after_restart: false,
            server_text,
        }
    }
}

/// What the end of a session says about the server.
fn restarted(is_restarted: bool) -> &'static str {
    if is_restarted {
        "; the server has probably restarted"
    } else {
        ""
    }
}

/// What the server said, as the end of a message.
fn said(server_text: Option<&str>) -> String {
    let said = server_text.map(text::clean_line);
    said.map_or(String::new(), |said| format!(" (server: {said})"))
}

/// Why the outcome of a task is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownReason {
    /// longhaul ended or the connection broke after the call may have been sent and before the first event id arrived.
    #[error(
        "the call was sent, but neither a response nor an event id arrived; it may or may not have run"
    )]
    BeforeFirstId,
    /// The stream broke, and the server's events have no ids.
    #[error("the stream broke, and without event ids it can't be resumed")]
    NoIds,
    /// The stream broke, and the server can't resume streams (405).
    #[error("the stream broke, and this server can't resume streams")]
    NoReplay,
    /// A server or proxy responded to the call with this HTTP status; the tool may have run.
    #[error("the server answered the call with HTTP {0}; the tool may have run")]
    HttpStatus(u16),
    /// The call was answered with a body of this media type, such as a page.
    #[error("the server answered the call with {:.60}, not MCP; the tool may have run", text::clean_line(.0))]
    NotMcp(String),
    /// The call was answered with JSON or text that isn't its response.
    #[error("the server answered the call with {}; the tool may have run", if *is_json { "JSON that isn't its response" } else { "text that isn't JSON" })]
    BadResponse {
        /// Whether it was JSON.
        is_json: bool,
    },
    /// The call was sent, but the server's list of checkpoints doesn't contain it.
    #[error("the call was sent, but the server doesn't list a checkpoint for it")]
    NoCheckpoint,
    /// The connection broke before the response to the call; the server may have created a task whose id never arrived.
    #[error(
        "the connection broke before the response; the server may be running the call as a task whose id never arrived"
    )]
    BeforeTaskId,
}

/// A control that the user requested, until the server confirms it or time runs out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlRequest {
    /// The requested control.
    pub what: ControlKind,
    /// When it was requested.
    pub at: Wall,
}

/// The kinds of [`ControlRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum ControlKind {
    /// Pause was requested.
    Pausing,
    /// Resume was requested.
    Resuming,
    /// Cancel was requested.
    Cancelling,
}

impl ControlKind {
    /// The name on the screen and in `--json`.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// A live stream is shown as quiet after this long without data: longer than the usual keep-alive interval of 15 s.
const QUIET_AFTER: Duration = Duration::from_secs(20);

/// The state of the connection that carries a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Connectivity {
    /// A stream is open, or the server was polled recently.
    Live {
        /// When the last byte arrived.
        last_byte: Wall,
    },
    /// A stream is open, but nothing arrived for a while.
    Quiet {
        /// When the last byte arrived.
        last_byte: Wall,
    },
    /// The connection broke and will be retried.
    Reconnecting {
        /// Retries so far.
        attempt: u32,
        /// When the next retry is due.
        next: Wall,
        /// Why the last one failed.
        why: String,
    },
    /// The server can't be reached; one probe retries for all its tasks.
    Offline {
        /// When it became unreachable.
        since: Wall,
        /// When the next retry is due.
        next: Wall,
        /// Why it can't be reached.
        why: String,
    },
    /// The server wants credentials.
    NeedsLogin,
    /// The session has no driver; the task is shown as last saved.
    Unwatched {
        /// When the record was saved.
        as_of: Wall,
    },
    /// No connection is needed: the task has settled, is paused or waits for the user.
    Idle,
}

impl Connectivity {
    /// The name on the screen and in `--json`.
    pub fn label(&self) -> &'static str {
        self.into()
    }

    /// Whether a stream is open, or the server was polled recently.
    pub fn is_connected(&self) -> bool {
        matches!(self, Self::Live { .. } | Self::Quiet { .. })
    }

    /// Why the server can't be reached; not sanitized.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Reconnecting { why, .. } | Self::Offline { why, .. } => Some(why),
            _ => None,
        }
    }

    /// The state at `now`: live becomes quiet as time passes.
    #[must_use]
    pub fn at(&self, now: Stamp) -> Self {
        match self {
            Self::Live { last_byte } if now.wall.since(*last_byte) > QUIET_AFTER => Self::Quiet {
                last_byte: *last_byte,
            },
            other => other.clone(),
        }
    }
}

/// A way to recover a task after a disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Resumable {
    /// Poll its server task.
    Task,
    /// Call the tool again with the same client id.
    Checkpoint,
    /// Resume its stream after the last event id.
    Stream,
}

impl Resumable {
    /// The name on the screen and in `--json`.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// The ways to recover a task, best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumability {
    /// The call runs as a server task.
    #[serde(default)]
    pub task: bool,
    /// The tool keeps a checkpoint.
    pub checkpoint: bool,
    /// The stream's events have ids; `None` before the first event.
    pub stream: Option<bool>,
}

impl Resumability {
    /// The best way known to work.
    pub fn strongest(self) -> Option<Resumable> {
        if self.task {
            Some(Resumable::Task)
        } else if self.checkpoint {
            Some(Resumable::Checkpoint)
        } else if self.stream == Some(true) {
            Some(Resumable::Stream)
        } else {
            None
        }
    }

    /// The name of the best way, or `none`.
    pub fn label(self) -> &'static str {
        self.strongest().map_or("none", Resumable::label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_listed_in_variant_order() {
        let all = [
            Status::Running,
            Status::InputRequired,
            Status::Paused,
            Status::Completed,
            Status::Failed,
            Status::Cancelled,
            Status::Lost(LostReason::GivenUp),
            Status::Unknown(UnknownReason::NoIds),
        ];
        assert_eq!(all.map(|status| status.label()), Status::LABELS);
    }
}
