//! The records of the session file: a [`Task`] per row on the screen, a [`LinkRecord`] per server, and the [`Row`]s of
//! one transaction.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{
    Caller, ControlKind, ControlRequest, EraReason, HistoryEntry, Limits, NewCall, OnInput,
    Progress, ProtocolVersion, Question, QuestionSource, Resumability, ServerName, ServerTask,
    Status, TaskId, Wall, text,
};
use crate::domain::link_record::{Cursors, LinkRecord};

/// One tool call that the user started or imported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The short random id that longhaul assigned.
    pub id: TaskId,
    /// The user's name for the task.
    pub name: Option<String>,
    /// The user's note.
    pub note: Option<String>,
    /// The user's tag.
    pub tag: Option<String>,
    /// The server it runs on.
    pub server: ServerName,
    /// The tool.
    pub tool: String,
    /// The arguments, as the text of a JSON object.
    pub arguments: String,
    /// The status, as far as the server has confirmed it.
    pub status: Status,
    /// The pause, resume or cancel that was requested and that the server hasn't confirmed yet.
    #[serde(rename = "asked")]
    pub control: Option<ControlRequest>,
    /// The ways to recover it after a disconnect.
    pub resumability: Resumability,
    /// The client id for a checkpoint tool; random unless the user set one.
    pub client_id: Option<String>,
    /// The server's id of its server task or checkpoint.
    pub server_task_id: Option<String>,
    /// The MCP task on the server, if the call runs as one.
    pub server_task: Option<ServerTask>,
    /// The server's questions, answered or not, oldest first.
    #[serde(default)]
    pub questions: Vec<Question>,
    /// Who made the call, if it came through `longhaul proxy`.
    pub caller: Option<Box<Caller>>,
    /// The latest progress.
    pub progress: Option<Progress>,
    /// When history was last lost for good, as far as known.
    pub gap_at: Option<Wall>,
    /// What longhaul last reported about it, e.g. that the server did not respond.
    #[serde(rename = "remark")]
    pub notice: Option<String>,
    /// What was chosen for the call.
    #[serde(flatten)]
    pub options: CallOptions,
    /// How it ended.
    #[serde(flatten)]
    pub end: TaskEnd,
    /// When the user's request was saved.
    pub created_at: Wall,
    /// When anything last changed.
    pub updated_at: Wall,
    /// When the user removed it from the list; it can be restored for seven days.
    pub forgotten_at: Option<Wall>,
    /// Its attempts, oldest first: the first one and the newest ones ([`Self::attempts_made`] counts all).
    #[serde(deserialize_with = "exact")]
    pub attempts: Vec<Attempt>,
    /// The highest `seq` of its history.
    pub seq: u64,
}

/// What was chosen for a call when it was made; a part of [`Task`]'s record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallOptions {
    /// The key of `call --once`.
    pub once: Option<String>,
    /// The task this one repeats (`again`).
    pub origin: Option<TaskId>,
    /// How its questions are handled.
    #[serde(default)]
    pub on_input: OnInput,
    /// The MCP revision that `--protocol` sets for its calls.
    pub protocol: Option<ProtocolVersion>,
    /// Its time limits.
    pub limits: Limits,
}

/// How a task ended; a part of [`Task`]'s record, and empty while the task is open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskEnd {
    /// When it settled.
    pub settled_at: Option<Wall>,
    /// Whether the user has seen that it settled.
    pub is_seen: bool,
    /// Whether a cancelled call may still be running: its server has been silent about it since the cancel.
    #[serde(default)]
    pub is_unconfirmed: bool,
    /// The size of the result's JSON in bytes, once there is a result.
    pub result_bytes: Option<u64>,
    /// The first line of the result's text, once there is a result.
    pub result_line: Option<String>,
    /// The error, if it failed.
    pub error: Option<TaskError>,
}

/// Reads a list without spare capacity: thousands of finished tasks are kept in memory, nearly all with one attempt.
fn exact<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(from)?;
    list.shrink_to_fit();
    Ok(list)
}

/// Attempts kept per task, not counting those that answer questions. A tool that is retried for days makes any number
/// of attempts, and each save writes all that are kept.
const ATTEMPTS_KEPT: usize = 16;

impl Task {
    /// The tool name of imported tasks, because servers don't report it.
    pub const NO_TOOL: &str = "imported task";

    /// What the server last said of its task (`statusMessage`); not sanitized.
    pub fn status_message(&self) -> Option<&str> {
        self.server_task.as_ref()?.message.as_deref()
    }

    /// Whether it is unfinished and in the list.
    pub fn is_open(&self) -> bool {
        !self.status.is_settled() && self.forgotten_at.is_none()
    }

    /// A new task, not sent yet.
    pub fn new(now: Wall, call: NewCall) -> Self {
        Self {
            id: call.id,
            name: call.name,
            tag: call.tag,
            server: call.server,
            tool: call.tool,
            arguments: call.arguments,
            caller: call.caller,
            options: CallOptions {
                once: call.once,
                origin: call.origin,
                on_input: call.on_input,
                protocol: call.protocol,
                limits: call.limits,
            },
            created_at: now,
            updated_at: now,
            ..Self::default()
        }
    }

    /// What [`Self::state_label`] returns for a call that waits to be sent.
    pub const QUEUED: &'static str = "queued";

    /// The current attempt.
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// Whether its request still has to be sent.
    pub fn is_queued(&self) -> bool {
        let attempt = self.attempt().filter(|_| !self.status.is_settled());
        attempt.is_some_and(|attempt| attempt.phase == Phase::Queued)
    }

    /// The status for people and scripts: a call that waits to be sent does not run.
    pub fn state_label(&self) -> &'static str {
        match self.status {
            Status::Running if self.is_queued() => Self::QUEUED,
            _ => self.status.label(),
        }
    }

    /// Whether it was cancelled, even if its server has not said so.
    pub fn was_cancelled(&self) -> bool {
        let is_asked = |control: &ControlRequest| control.what == ControlKind::Cancelling;
        self.status == Status::Cancelled
            || self.control.as_ref().is_some_and(is_asked)
            || self.attempt().is_some_and(|it| it.was_cancelled)
    }

    /// Whether an agent has not collected the result.
    pub fn is_owed(&self, now: Wall) -> bool {
        let settled_at = self.end.settled_at;
        let settled_at = settled_at.filter(|_| self.status != Status::Cancelled);
        let caller = self.caller.as_ref();
        caller.is_some_and(|caller| caller.is_owed(settled_at, now))
    }

    /// The number of requests sent or queued for the call, including those that carry answers and those no longer kept.
    pub fn attempts_made(&self) -> u32 {
        self.attempt().map_or(0, |attempt| attempt.number)
    }

    /// Adds an attempt, which becomes the current one.
    pub fn start_attempt(&mut self, attempt: Attempt) {
        // The first attempt is always kept: it tells when the call began.
        let mut later = self.attempts.iter().skip(1);
        if self.attempts.len() >= ATTEMPTS_KEPT
            && let Some(oldest) = later.position(|attempt| attempt.input.is_none())
        {
            self.attempts.remove(oldest + 1);
        }
        self.attempts.push(attempt);
    }

    /// Why its current attempt uses its revision, if known. `server_version` and `server_why` are the revision
    /// negotiated with the server and the reason for that.
    pub fn era_why(&self, server_version: &str, server_why: &str) -> Option<String> {
        let attempt = self.attempt()?;
        let version = attempt.version?;
        if let Some(message) = attempt.era_reason.and_then(EraReason::message) {
            return Some(message.to_owned());
        }
        if attempt.era_reason == Some(EraReason::Asked) && self.options.protocol == Some(version) {
            return Some("set for this call, not negotiated".to_owned());
        }
        (server_version == version.label() && !server_why.is_empty()).then(|| server_why.to_owned())
    }

    /// The questions that wait for an answer, oldest first; none once the task has ended.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        let questions = self.questions.iter().filter(|_| !self.status.is_settled());
        questions.filter(|question| question.is_open_for_person())
    }

    /// Whether the call has come back with questions, and goes out again with the answers: nothing runs until then.
    pub fn waits_in_round(&self) -> bool {
        let mut questions = self.questions.iter();
        questions.any(|question| question.is_open() && question.source == QuestionSource::Round)
    }

    /// The oldest of [`Self::open_questions`].
    pub fn open_question(&self) -> Option<&Question> {
        self.open_questions().next()
    }

    /// The server's latest progress message or, without one, its task's status message; not sanitized.
    pub fn server_message(&self) -> Option<&str> {
        let of_step = self.progress.as_ref().and_then(|it| it.message.as_deref());
        of_step.or_else(|| self.server_task.as_ref()?.message.as_deref())
    }

    /// Whether `call` would start this very task, so that asking again for it starts nothing.
    pub fn is_call(&self, call: &NewCall) -> bool {
        (&self.id, &self.server, &self.tool, &self.arguments)
            == (&call.id, &call.server, &call.tool, &call.arguments)
    }

    /// The name to show: the user's name for it, else the tool. Lists add arguments: `task_title` in `cli`, `State::label`
    /// in `app`.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.tool)
    }

    /// What [`Self::server_task_id`] is the id of.
    pub fn server_id_label(&self) -> &'static str {
        if self.server_task.is_some() {
            "server task id"
        } else {
            "checkpoint id"
        }
    }

    /// The reason for its status, else its error; not sanitized.
    pub fn why(&self) -> Option<String> {
        let error = || self.end.error.as_ref().map(TaskError::message);
        self.status.reason().or_else(error)
    }

    /// The result in one line, once there is one: the first line of its text or, if that is a JSON object, its message
    /// or status, such as `completed 50/50`. Not sanitized.
    pub fn result_summary(&self) -> Option<Cow<'_, str>> {
        let line = self.end.result_line.as_deref()?;
        let step = || match &self.progress {
            Some(Progress {
                value,
                total: Some(total),
                ..
            }) => format!(" {}/{}", text::exact(*value), text::exact(*total)),
            _ => String::new(),
        };
        // Pretty-printed JSON: the first line says nothing.
        if line.trim() == "{" {
            return Some(Cow::Owned(format!("{}{}", self.status.label(), step())));
        }
        let Ok(object) = serde_json::from_str::<Map<String, Value>>(line) else {
            return Some(Cow::Borrowed(line));
        };
        let text_of = |key: &str| object.get(key).and_then(Value::as_str);
        let message = ["message", "summary", "text"].into_iter().find_map(text_of);
        let status = || text_of("status").map(|status| format!("{status}{}", step()));
        Some(match message {
            Some(message) => Cow::Owned(message.to_owned()),
            None => status().map_or(Cow::Borrowed(line), Cow::Owned),
        })
    }
}

/// Why a task failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    /// The kind of failure; decides the exit code.
    pub kind: TaskErrorKind,
    /// The JSON-RPC error code or, for [`TaskErrorKind::Refused`], the HTTP status.
    pub code: Option<i64>,
    /// The server's message; not sanitized.
    pub message: String,
    /// The additional data of a JSON-RPC error, verbatim JSON.
    pub data: Option<String>,
}

impl TaskError {
    /// The meaning of the error code, followed by the server's message; for other codes only the message. Codes are
    /// those of JSON-RPC 2.0 and MCP 2025-11-25 and 2026-07-28.
    pub fn message(&self) -> String {
        let has_rpc_code = matches!(self.kind, TaskErrorKind::Protocol | TaskErrorKind::Refused);
        let meaning = match self.code.filter(|_| has_rpc_code) {
            Some(-32700) => "the server couldn't parse the request",
            Some(-32601) => "not supported by the server",
            Some(-32602) => "the server rejected the call",
            Some(-32603) => "server error",
            Some(-32020) => "the request's headers don't match its body",
            Some(-32021) => "the server needs a capability that longhaul doesn't have",
            Some(-32022) => "no common protocol version",
            Some(-32042) => "you have to visit a web page first",
            Some(code) if self.message.trim().is_empty() => {
                return format!("error {code}, without a message");
            }
            _ => return self.message.clone(),
        };
        match self.message.trim() {
            "" => meaning.to_owned(),
            message => format!("{meaning}: {message}"),
        }
    }
}

/// The kinds of [`TaskError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskErrorKind {
    /// The tool ran and reported an error (`isError`).
    Tool,
    /// The server responded with a JSON-RPC error.
    Protocol,
    /// The call was refused before it could run.
    Refused,
    /// The server couldn't be reached; nothing was sent.
    Unreachable,
    /// A time limit set by the user ended it.
    TimedOut,
}

/// One `tools/call` request for a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Counts from 1.
    pub number: u32,
    /// The JSON-RPC id, `<random per process>-<n>`. Saved, because a replay after a restart of longhaul refers to it.
    pub request_id: String,
    /// The progress token. Saved for the same reason.
    pub token: String,
    /// How far the request got.
    pub phase: Phase,
    /// Why [`Self::version`] was chosen; `None` before it was sent.
    pub era_reason: Option<EraReason>,
    /// The MCP session that carries it ([`LinkRecord::session_number`]).
    pub session_number: u64,
    /// The MCP revision it was sent with; `None` before it was sent.
    pub version: Option<ProtocolVersion>,
    /// Whether it requests a server task (2025-11-25). Otherwise a `task` member in the response means nothing.
    #[serde(default)]
    pub asks_for_task: bool,
    /// Whether it runs on a stdio server, whose process ends with longhaul.
    #[serde(default)]
    pub is_of_process: bool,
    /// Answers to questions sent with the call: a JSON object with `inputResponses` and `requestState`.
    pub input: Option<String>,
    /// Opaque state that the server wants back with the answers to the questions of this attempt.
    pub request_state: Option<String>,
    /// Whether a cancel notification was sent for this attempt.
    #[serde(default)]
    pub was_cancelled: bool,
    /// Where its stream can be resumed.
    pub cursors: Cursors,
    /// The server's `retry` time before reconnecting, in milliseconds.
    pub retry_ms: Option<u64>,
    /// The highest progress value of this attempt; lower values are replayed or stale.
    pub last_value: Option<f64>,
    /// When it was queued, before it was saved and sent.
    pub started_at: Wall,
    /// When it was first sent, as far as longhaul saw it. Sending it again, after a server refused it unrun, changes
    /// nothing.
    pub sent_at: Option<Wall>,
    /// When it ended.
    pub ended_at: Option<Wall>,
}

/// How far an attempt got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not sent.
    #[default]
    Queued,
    /// Saved; the request may have been sent.
    Sent,
    /// The server responded with a stream.
    Open,
    /// A response, an error or proof of loss ended it.
    Ended,
}

/// One write to the session file. All rows of a save form one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// Insert or replace a task.
    Task(Box<Task>),
    /// Append to a task's history; the entries have consecutive `seq`.
    History {
        /// The task.
        task: TaskId,
        /// The entries to append.
        entries: Vec<HistoryEntry>,
    },
    /// Save a result.
    Result {
        /// The task.
        task: TaskId,
        /// The JSON of the CallToolResult as the server sent it.
        json: String,
    },
    /// Insert or replace the record of a server.
    Link(Box<LinkRecord>),
    /// Delete a task with its history and result; only if its call was never sent.
    Erase(TaskId),
}
