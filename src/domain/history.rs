//! What happened to a task, in order and exactly once: the lines of `watch`, of the log and of the export.

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use super::{Elicitation, EventId, Wall, text};

/// One entry of a task's history. `seq` is given at the commit, rises within a task and never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEntry {
    /// Rising within a task from 1, without holes except where the middle was thinned.
    pub seq: u64,
    /// When we learned of it.
    pub at: Wall,
    /// The attempt that it belongs to, from 1.
    pub attempt: u32,
    /// The id of the event that brought it, where the server gave one; keeps a replay from adding it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// What happened.
    #[serde(flatten)]
    pub what: HistoryEvent,
}

/// Columns that the name of a logger may take from what it says.
const LOGGER_COLUMNS: usize = 24;

/// An entry in clean words, in the parts that a line is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryLine {
    /// What kind of line it is: `started`, `step`, the level of a log line, `contact`, `status`, `asks`.
    pub kind: &'static str,
    /// What stands before the text: the count of a step, who logs. Mostly empty.
    pub lead: String,
    /// The rest; may be empty.
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
    /// What it says, without the time.
    pub fn message(&self) -> HistoryLine {
        let clean = |text: &str| text::clean_line(text).into_owned();
        match &self.what {
            HistoryEvent::Started { era, resumability } => {
                let again = match self.attempt {
                    0 | 1 => String::new(),
                    attempt => format!(" again, attempt {attempt}"),
                };
                let way = match resumability.as_str() {
                    "task" => "way back: server task".to_owned(),
                    "checkpoint" => "way back: checkpoint".to_owned(),
                    "stream" => "way back: event ids".to_owned(),
                    "none" => "not resumable yet".to_owned(),
                    other => format!("way back: {}", clean(other)),
                };
                let text = format!("call sent{again} (MCP {}), {way}", clean(era));
                HistoryLine::new("started", text)
            }
            HistoryEvent::Progress {
                value,
                total,
                message,
            } => {
                // A log is a record: no digit is left out for want of room.
                let total = total.map_or(String::new(), |total| format!("/{}", text::exact(total)));
                HistoryLine {
                    lead: format!("{}{total}", text::exact(*value)),
                    ..HistoryLine::new("step", clean(message.as_deref().unwrap_or_default()))
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
                // `cut: connection reset` says its state already; others are told with it.
                let text = if why.is_empty() {
                    state
                } else if state == "live" || why.starts_with(&state) || why.starts_with("cut") {
                    why
                } else {
                    format!("{state}: {why}")
                };
                HistoryLine::new("contact", text)
            }
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

/// The kinds of history entries; the tags are the event names of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum HistoryEvent {
    /// An attempt went out.
    Started {
        /// Protocol revision spoken.
        era: String,
        /// The badge: strongest way to pick it up again, as far as known then.
        resumability: String,
    },
    /// The server reported a step.
    Progress {
        /// Done so far.
        value: f64,
        /// Of how much.
        total: Option<f64>,
        /// The server's words.
        message: Option<CompactString>,
    },
    /// The server said something.
    Log {
        /// How loud.
        level: LogLevel,
        /// Which part of the server.
        logger: Option<String>,
        /// Text, or compact JSON of anything else.
        data: String,
    },
    /// Contact ended or came back: `cut: connection reset`, `back after 2.1 s: 3 replayed`.
    Contact {
        /// The word of the new contact.
        state: String,
        /// In words.
        why: String,
    },
    /// The status or what we asked for changed, or longhaul has something to say about it.
    Status {
        /// The word of the status.
        status: String,
        /// In words.
        reason: Option<String>,
    },
    /// The server asks something.
    InputRequired {
        /// Which question.
        key: String,
        /// The request as JSON.
        request: String,
    },
    /// The end. The result itself is kept apart and added on printing.
    Settled {
        /// The word of the final status.
        status: String,
        /// Why, in words.
        reason: Option<String>,
    },
}

/// How loud a log line is (MCP 2025-11-25, utilities/logging), quietest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the words of RFC 5424 say it")]
pub enum LogLevel {
    Debug,
    #[default]
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    /// The word on the wire and on the screen.
    pub fn label(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Reads the word; an unknown one counts as info.
    pub fn read(word: &str) -> Self {
        match word {
            "debug" => Self::Debug,
            "notice" => Self::Notice,
            "warning" => Self::Warning,
            "error" => Self::Error,
            "critical" => Self::Critical,
            "alert" => Self::Alert,
            "emergency" => Self::Emergency,
            _ => Self::Info,
        }
    }
}
