//! The three facts about a task: what the server has shown, whether we are in contact, and what we asked for.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{Stamp, Wall, text};

/// What the server has shown of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "reason")]
pub enum Status {
    /// The call was asked for and nothing has ended it.
    Running,
    /// The server waits for an answer of the user.
    InputRequired,
    /// The server's own list or answer says so, and nothing has moved since.
    Paused,
    /// The tool answered.
    Completed,
    /// The tool or the server answered with an error, or refused the call.
    Failed,
    /// The server stopped it because we asked.
    Cancelled,
    /// Proved out of reach.
    Lost(LostReason),
    /// Only a person can decide what became of it.
    Unknown(UnknownReason),
}

impl Status {
    /// Every word of a status, in the order of the variants.
    pub const LABELS: [&'static str; 8] = [
        "running",
        "input-required",
        "paused",
        "completed",
        "failed",
        "cancelled",
        "lost",
        "unknown",
    ];

    /// The word of the command line and of `--json`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::InputRequired => "input-required",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost(_) => "lost",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The word of its row and of its group on the screen.
    pub fn row_label(&self) -> &'static str {
        match self {
            Self::InputRequired => "asks",
            Self::Completed => "done",
            other => other.label(),
        }
    }

    /// Whether nothing more will come: absorbing.
    pub fn is_settled(&self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Lost(_)
        )
    }

    /// Whether a person has to act before it can go on.
    pub fn needs_a_person(&self) -> bool {
        matches!(self, Self::InputRequired | Self::Unknown(_))
    }

    /// Whether it is among what needs its person: a question, a decision, or an end that was not wanted and not seen.
    pub fn needs_you(&self, is_seen: bool) -> bool {
        self.needs_a_person() || matches!(self, Self::Failed | Self::Lost(_)) && !is_seen
    }

    /// Whether `watch` and `wait` have nothing to wait for.
    pub fn ends_waiting(&self) -> bool {
        self.is_settled() || self.needs_a_person()
    }

    /// Why, in words, where the status has a reason.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Lost(reason) => Some(reason.to_string()),
            Self::Unknown(window) => Some(window.to_string()),
            _ => None,
        }
    }
}

/// Why a task is provably out of reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LostReason {
    /// The server no longer knows the session that carried the call.
    SessionGone {
        /// Whether connections were refused just before, so that a restart is the likely cause.
        after_restart: bool,
        /// The server's words, if it said any.
        #[serde(rename = "said")]
        server_text: Option<String>,
    },
    /// The session is there, but the server no longer replays the stream that carries the result.
    ReplayGone {
        /// The server's words, or how it showed that.
        #[serde(rename = "said")]
        server_text: Option<String>,
    },
    /// The server sent more at once than is taken; asked again, it would send the same.
    TooMuch {
        /// What is taken at once, in bytes.
        cap: u64,
    },
    /// The connection of a plain call of the modern era ended, which cancels it.
    CancelledByDisconnect {
        /// What ended it, in words.
        why: String,
    },
    /// The server was a process of ours, and it ended.
    ProcessEnded {
        /// How, in words.
        why: String,
    },
    /// The server no longer knows its own task, although its time to live was not over.
    TaskGone {
        /// The server's words, if it said any.
        #[serde(rename = "said")]
        server_text: Option<String>,
    },
    /// The time to live of the server task is over.
    TaskExpired,
    /// The user said so, of a task that was unknown.
    GivenUp,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = match self {
            Self::SessionGone {
                after_restart: true,
                server_text: said,
            } => {
                f.write_str("the server was restarted and its session with this call is gone")?;
                said
            }
            Self::SessionGone {
                after_restart: false,
                server_text: said,
            } => {
                f.write_str("the server no longer knows the session of this call")?;
                said
            }
            Self::ReplayGone { server_text: said } => {
                f.write_str("the server no longer replays the stream of this call")?;
                said
            }
            Self::TooMuch { cap } => {
                return write!(
                    f,
                    "the server sent more at once than the {} that longhaul takes",
                    text::bytes(*cap)
                );
            }
            Self::CancelledByDisconnect { why } => {
                return write!(
                    f,
                    "the connection ended ({}), which cancels a plain call in MCP 2026-07-28",
                    text::clean_line(why)
                );
            }
            Self::ProcessEnded { why } => {
                return write!(
                    f,
                    "the process of its server is gone, and the result with it ({})",
                    text::clean_line(why)
                );
            }
            Self::TaskGone { server_text: said } => {
                f.write_str("the server no longer knows its task")?;
                said
            }
            Self::TaskExpired => {
                return f.write_str(
                    "the server kept its task only for its time to live, which is over",
                );
            }
            Self::GivenUp => return f.write_str("given up by you"),
        };
        match said {
            Some(said) => write!(f, " (it said: {})", text::clean_line(said)),
            None => Ok(()),
        }
    }
}

/// What we cannot know about an `unknown` task, named by the window in which contact ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownReason {
    /// Our process ended, or the connection broke, after the call was to go out and before the first event id came.
    BeforeFirstId,
    /// The stream broke on a server that gives its events no ids.
    NoIds,
    /// The server has no way to ask for a broken stream again (405).
    NoReplay,
    /// A server or proxy answered the call itself with this HTTP status; the tool may have run.
    HttpStatus(u16),
    /// The call went out, and the server's own list of checkpoints does not know it.
    NoCheckpoint,
    /// The call went out, and contact ended before an answer; the server may have made a task whose id never came.
    BeforeTaskId,
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeFirstId => f.write_str(
                "contact ended after the call was sent and before its first event id; it may or may not have run",
            ),
            Self::NoIds => f.write_str(
                "the stream broke and this server gives no event ids, so its result has no way back",
            ),
            Self::NoReplay => {
                f.write_str("the stream broke and this server does not let a client ask for it again")
            }
            Self::HttpStatus(status) => {
                write!(f, "the call was answered with HTTP {status}; the tool may have run")
            }
            Self::BeforeTaskId => f.write_str(
                "contact ended after the call was sent and before its answer; the server may have made a task of it whose id never came",
            ),
            Self::NoCheckpoint => {
                f.write_str("the call was sent, but the server's list shows no checkpoint of it")
            }
        }
    }
}

/// Something the user asked of a running task, until there is proof or a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlRequest {
    /// What was asked.
    pub what: ControlKind,
    /// When.
    pub at: Wall,
}

/// The kinds of [`ControlRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlKind {
    /// To pause.
    Pausing,
    /// To go on.
    Resuming,
    /// To stop for good.
    Cancelling,
}

impl ControlKind {
    /// The word of the screen and of `--json`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Pausing => "pausing",
            Self::Resuming => "resuming",
            Self::Cancelling => "cancelling",
        }
    }
}

/// Silence after which a live stream is shown as quiet: longer than the 15 s keep-alive of every known server.
const QUIET_AFTER: Duration = Duration::from_secs(20);

/// Whether we are in contact with what carries a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Connectivity {
    /// A stream is open or the server's list was read lately.
    Live {
        /// When the last byte came.
        last_byte: Wall,
    },
    /// Open, but nothing came for a while.
    Quiet {
        /// When the last byte came.
        last_byte: Wall,
    },
    /// The connection is gone and will be tried again.
    Reconnecting {
        /// Tries so far.
        attempt: u32,
        /// When the next one is due.
        next: Wall,
        /// What ended the last one, in words.
        why: String,
    },
    /// The server cannot be reached at all; one prober asks for all its tasks.
    Offline {
        /// Since when.
        since: Wall,
        /// When the next try is due.
        next: Wall,
        /// Why, in words.
        why: String,
    },
    /// The server wants credentials.
    NeedsLogin,
    /// Nobody drives; what is shown is as of then.
    Unwatched {
        /// When the record was saved.
        as_of: Wall,
    },
    /// Nothing is open, because nothing has to be: settled, paused or waiting for a person.
    Idle,
}

impl Connectivity {
    /// The word of the screen and of `--json`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Live { .. } => "live",
            Self::Quiet { .. } => "quiet",
            Self::Reconnecting { .. } => "reconnecting",
            Self::Offline { .. } => "offline",
            Self::NeedsLogin => "needs-login",
            Self::Unwatched { .. } => "unwatched",
            Self::Idle => "idle",
        }
    }

    /// The contact as it stands at `now`: live turns to quiet by the passing of time alone.
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

/// One way to pick a task up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resumable {
    /// By asking for its server task.
    Task,
    /// By calling the tool again with its client id.
    Checkpoint,
    /// By asking for its stream after the last event id.
    Stream,
}

impl Resumable {
    /// The word of the badge and of `--json`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Checkpoint => "checkpoint",
            Self::Stream => "stream",
        }
    }
}

/// The ways to pick a task up again, strongest first; none is a way too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumability {
    /// The server made a task of its own for it.
    #[serde(default)]
    pub task: bool,
    /// The tool follows the checkpoint convention.
    pub checkpoint: bool,
    /// The stream's events carry ids; `None` until its first event showed it.
    pub stream: Option<bool>,
}

impl Resumability {
    /// The strongest way known to be there.
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

    /// The word of the badge: the strongest way, or `none`.
    pub fn label(self) -> &'static str {
        self.strongest().map_or("none", Resumable::label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_word_in_the_list() {
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
