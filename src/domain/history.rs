//! The history of a task: every event exactly once and in order, for `watch`, the log tab and exports.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use super::{Elicitation, EventId, LogLevel, Progress, Wall, text};

/// One entry of a task's history. `seq` is assigned when the entry is saved, rises within a task and never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Counts from 1 within a task, without gaps except where old entries were thinned out.
    pub seq: u64,
    /// When longhaul received it.
    pub at: Wall,
    /// The attempt it belongs to, from 1.
    pub attempt: u32,
    /// The id of the SSE event that carried it, if any; keeps a replay from adding it twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// What happened.
    #[serde(flatten)]
    pub what: HistoryEvent,
}

/// Columns for a logger's name, so that its message still fits.
const LOGGER_COLUMNS: usize = 24;

/// An entry as sanitized text, in the parts of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryLine {
    /// The kind of line: `started`, `step`, a log level, `contact`, `status` or `asks`.
    pub kind: &'static str,
    /// The text before the message: the count of a step or the name of a logger. Usually empty.
    pub lead: String,
    /// The message; may be empty.
    pub text: String,
}

impl HistoryLine {
    fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
            ..Self::default()
        }
    }
}

impl HistoryEntry {
    /// About how many bytes of memory it takes.
    pub fn weight(&self) -> usize {
        let text = match &self.what {
            HistoryEvent::Progress(step) => step.message.as_ref().map_or(0, CompactString::len),
            HistoryEvent::Log { logger, data, .. } => {
                data.len() + logger.as_ref().map_or(0, String::len)
            }
            _ => 0,
        };
        // The server chooses the id too, and a long one outweighs the rest of a step.
        let id = self.event_id.as_ref().map_or(0, EventId::len);
        text + id + size_of::<Self>()
    }

    /// The entry as text, without its time.
    pub fn message(&self) -> HistoryLine {
        let clean = |text: &str| text::clean_line(text).into_owned();
        match &self.what {
            HistoryEvent::Started { era, resumability } => {
                let attempt = match self.attempt {
                    0 | 1 => String::new(),
                    number => format!(" again, attempt {number}"),
                };
                let recovery = match resumability.as_str() {
                    "task" => "can be resumed as a server task".to_owned(),
                    "checkpoint" => "can be resumed from its checkpoint".to_owned(),
                    "stream" => "can be resumed once an event id has arrived".to_owned(),
                    "none" => "can't be resumed yet".to_owned(),
                    other => format!("can be resumed with {}", clean(other)),
                };
                let text = format!("call sent{attempt} (MCP {}); {recovery}", clean(era));
                HistoryLine::new("started", text)
            }
            HistoryEvent::Progress(step) => {
                // The log shows exact numbers; other places abbreviate them.
                let total = step.total.map(|total| format!("/{}", text::exact(total)));
                let message = step.message.as_deref().unwrap_or_default();
                HistoryLine {
                    lead: text::exact(step.value) + &total.unwrap_or_default(),
                    ..HistoryLine::new("step", clean(message))
                }
            }
            HistoryEvent::Log {
                level,
                logger,
                data,
            } => HistoryLine {
                lead: logger.as_deref().map_or(String::new(), |logger| {
                    format!("{}:", text::truncate(&clean(logger), LOGGER_COLUMNS))
                }),
                ..HistoryLine::new(level.label(), clean(data))
            },
            HistoryEvent::Contact { state, why } => {
                let (state, why) = (clean(state), clean(why));
                let text = match state.as_str() {
                    _ if why.is_empty() => state,
                    "live" | "unwatched" => why,
                    _ => format!("disconnected: {why}"),
                };
                HistoryLine::new("connection", text)
            }
            // The call is still running, so only the reason is news.
            HistoryEvent::Status {
                status,
                reason: Some(reason),
            } if status == "running" => HistoryLine::new("status", clean(reason)),
            HistoryEvent::Status { status, reason } | HistoryEvent::Settled { status, reason } => {
                let reason = reason
                    .as_deref()
                    .map(|reason| format!(": {}", clean(reason)));
                let text = format!("{}{}", clean(status), reason.unwrap_or_default());
                HistoryLine::new("status", text)
            }
            HistoryEvent::InputRequired { request, .. } => {
                HistoryLine::new("asks", Elicitation::message_of(request))
            }
        }
    }
}

/// What a history entry records; the tags are the event names of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "event", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum HistoryEvent {
    /// An attempt was sent.
    Started {
        /// The protocol revision.
        era: String,
        /// The best way to recover the call, as known at that time ([`super::Resumability::label`]).
        resumability: String,
    },
    /// The server reported progress.
    Progress(Progress),
    /// The server sent a log message.
    Log {
        /// Its severity.
        level: LogLevel,
        /// The part of the server that logged it.
        logger: Option<String>,
        /// Text, or compact JSON of any other value.
        data: String,
    },
    /// The connection was lost or came back: `connection reset`, `reconnected after 2.1 s: 3 events replayed`.
    Contact {
        /// The label of the new [`Connectivity`](super::Connectivity).
        state: String,
        /// The reason.
        why: String,
    },
    /// The status or the requested control changed, or longhaul reports something about the task.
    Status {
        /// The label of the status.
        status: String,
        /// The explanation, if there is one.
        reason: Option<String>,
    },
    /// The server asked a question (elicitation).
    InputRequired {
        /// The key of the question.
        key: String,
        /// The parameters of the request, as JSON.
        request: String,
    },
    /// The task ended. The result is stored separately and added when printing.
    Settled {
        /// The label of the final status.
        status: String,
        /// The reason, if there is one.
        reason: Option<String>,
    },
}
