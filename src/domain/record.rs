//! The records of the session file: one [`Task`] a row of the screen, one [`LinkRecord`] a server, and the [`Row`]s
//! that one transaction writes.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    CheckpointConvention, ControlRequest, Entries, Era, EraReason, EventId, Limits, ModernSupport,
    NewCall, OnInput, Progress, ProtocolVersion, Question, Resumability, ServerName, ServerTask,
    Status, TaskCapability, TaskId, TaskKind, TaskSupport, Tool, Wall, fraction_in, server_url,
    text,
};

/// One tool call that the user cares about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Ours, short, random.
    pub id: TaskId,
    /// The user's name for it.
    pub name: Option<String>,
    /// The user's note.
    pub note: Option<String>,
    /// The user's tag.
    pub tag: Option<String>,
    /// The key of `call --once`.
    pub once: Option<String>,
    /// Where it runs.
    pub server: ServerName,
    /// What runs.
    pub tool: String,
    /// The arguments as the user gave them: the text of a JSON object.
    pub arguments: String,
    /// The task that this one repeats (`again`).
    pub origin: Option<TaskId>,
    /// What the server has shown.
    pub status: Status,
    /// The pause, resume or cancel that was requested and that the server hasn't confirmed yet.
    #[serde(rename = "asked")]
    pub control: Option<ControlRequest>,
    /// The ways to pick it up again.
    pub resumability: Resumability,
    /// The client id of a checkpoint tool, random per task unless the user gave one.
    pub client_id: Option<String>,
    /// The server's own id of the work: that of its server task, or of the checkpoint.
    pub server_task_id: Option<String>,
    /// MCP's own task object behind it, once the server made one.
    #[serde(default)]
    pub server_task: Option<ServerTask>,
    /// What the server asked, oldest first, answered or not.
    #[serde(default)]
    pub questions: Vec<Question>,
    /// What becomes of questions when nobody is asked.
    #[serde(default)]
    pub on_input: OnInput,
    /// The revision that `--protocol` asks for in its calls.
    #[serde(default)]
    pub protocol: Option<ProtocolVersion>,
    /// The newest progress.
    pub progress: Option<Progress>,
    /// When something of its history was last missed for good, as far as that can be known.
    #[serde(default)]
    pub gap_at: Option<Wall>,
    /// What longhaul last reported about it, e.g. that the server did not react.
    #[serde(rename = "remark")]
    pub notice: Option<String>,
    /// Length of the result's JSON text in bytes, once there is one.
    pub result_bytes: Option<u64>,
    /// The first line of the result's text, once there is one.
    pub result_line: Option<String>,
    /// What went wrong, if something did.
    pub error: Option<TaskError>,
    /// Idle and hard limit.
    pub limits: Limits,
    /// When the intent was saved.
    pub created_at: Wall,
    /// When anything last changed.
    pub updated_at: Wall,
    /// When it settled.
    pub settled_at: Option<Wall>,
    /// Whether the user has seen that it settled.
    pub is_seen: bool,
    /// When the user forgot it; it can be brought back for seven days.
    pub forgotten_at: Option<Wall>,
    /// Its calls on the wire, oldest first: the first and the newest of them ([`Self::attempts_made`]).
    pub attempts: Vec<Attempt>,
    /// The newest `seq` of its history.
    pub seq: u64,
}

/// Attempts of one task that are kept beside the rounds of questions, which are bounded by themselves. A tool that has to
/// be called again day and night makes any number of them, and each save writes all that are kept.
const ATTEMPTS: usize = 16;

impl Task {
    /// A task that was just asked for.
    pub fn new(now: Wall, call: NewCall) -> Self {
        Self {
            id: call.id,
            name: call.name,
            note: None,
            tag: call.tag,
            once: call.once,
            server: call.server,
            tool: call.tool,
            arguments: call.arguments,
            origin: call.origin,
            status: Status::Running,
            control: None,
            resumability: Resumability::default(),
            client_id: None,
            server_task_id: None,
            server_task: None,
            questions: Vec::new(),
            on_input: call.on_input,
            protocol: call.protocol,
            progress: None,
            gap_at: None,
            notice: None,
            result_bytes: None,
            result_line: None,
            error: None,
            limits: call.limits,
            created_at: now,
            updated_at: now,
            settled_at: None,
            is_seen: false,
            forgotten_at: None,
            attempts: Vec::new(),
            seq: 0,
        }
    }

    /// The present attempt.
    pub fn attempt(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// Whether its request has still to be sent.
    pub fn is_queued(&self) -> bool {
        let attempt = self.attempt().filter(|_| !self.status.is_settled());
        attempt.is_some_and(|attempt| attempt.phase == Phase::Queued)
    }

    /// How many there were, those that are not kept too.
    pub fn attempts_made(&self) -> u32 {
        self.attempt().map_or(0, |attempt| attempt.number)
    }

    /// Adds the attempt that is the present one from now on.
    pub fn begin(&mut self, attempt: Attempt) {
        // The first says when it all began.
        let mut later = self.attempts.iter().skip(1);
        if self.attempts.len() >= ATTEMPTS
            && let Some(oldest) = later.position(|attempt| attempt.input.is_none())
        {
            self.attempts.remove(oldest + 1);
        }
        self.attempts.push(attempt);
    }

    /// Why its present call is made in its revision, where that is known; `spoken` is what its server is known to speak,
    /// and `why`.
    pub fn era_why(&self, spoken: &str, why: &str) -> Option<String> {
        let attempt = self.attempt()?;
        let version = attempt.version?;
        if let Some(words) = attempt.era_reason.and_then(EraReason::message) {
            return Some(words.to_owned());
        }
        if attempt.era_reason == Some(EraReason::Asked) && self.protocol == Some(version) {
            return Some("--protocol asks for it".to_owned());
        }
        (spoken == version.label() && !why.is_empty()).then(|| why.to_owned())
    }

    /// The questions that wait for a person, oldest first.
    pub fn open_questions(&self) -> impl Iterator<Item = &Question> {
        self.questions.iter().filter(|question| question.is_open())
    }

    /// The oldest question that waits for a person.
    pub fn open_question(&self) -> Option<&Question> {
        self.open_questions().next()
    }

    /// The part of 1 that the server's words say is done, where no number of its does: a guess, never to be saved.
    pub fn fraction_in_message(&self) -> Option<f64> {
        let numbers = self.progress.as_ref();
        if self.status.is_settled() || numbers.is_some_and(|it| it.total.is_some()) {
            return None;
        }
        fraction_in(self.said()?)
    }

    /// What the server last said of how far it is, not sanitised: with a step, else of its task.
    pub fn said(&self) -> Option<&str> {
        let of_step = self.progress.as_ref().and_then(|it| it.message.as_deref());
        of_step.or_else(|| self.server_task.as_ref()?.message.as_deref())
    }

    /// The name to show: the user's own, else the tool's.
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.tool)
    }

    /// Why it stands as it does, in words: the status's own reason, else the error; not sanitised.
    pub fn why(&self) -> Option<String> {
        let error = || self.error.as_ref().map(TaskError::message);
        self.status.reason().or_else(error)
    }

    /// What came of it in one line, once there is a result: the first line of its text; where that is a JSON object,
    /// the words in it that are meant for people, e.g. `completed 50/50`. Not sanitised.
    pub fn result_summary(&self) -> Option<Cow<'_, str>> {
        let line = self.result_line.as_deref()?;
        let step = || match &self.progress {
            Some(Progress {
                value,
                total: Some(total),
                ..
            }) => format!(" {}/{}", text::exact(*value), text::exact(*total)),
            _ => String::new(),
        };
        // Laid out over several lines, of which this is the first.
        if line.trim() == "{" {
            return Some(Cow::Owned(format!("{}{}", self.status.label(), step())));
        }
        let Ok(object) = serde_json::from_str::<Map<String, Value>>(line) else {
            return Some(Cow::Borrowed(line));
        };
        let word = |key: &str| object.get(key).and_then(Value::as_str);
        let words = ["message", "summary", "text"].into_iter().find_map(word);
        let status = || word("status").map(|status| format!("{status}{}", step()));
        Some(match words {
            Some(words) => Cow::Owned(words.to_owned()),
            None => status().map_or(Cow::Borrowed(line), Cow::Owned),
        })
    }
}

/// What went wrong with a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    /// What kind of failure it is; decides the exit code.
    pub kind: TaskErrorKind,
    /// JSON-RPC code, or HTTP status for [`TaskErrorKind::RequestError`], where there is one.
    pub code: Option<i64>,
    /// In words, as the server gave them; not yet sanitised.
    pub message: String,
}

impl TaskError {
    /// What it means, before what the server said of it. Codes without a meaning of their own are left to the
    /// server's words (protocol codes of MCP 2025-11-25 and 2026-07-28; JSON-RPC 2.0).
    pub fn message(&self) -> String {
        let is_answer = matches!(self.kind, TaskErrorKind::Protocol | TaskErrorKind::Refused);
        let meaning = match self.code.filter(|_| is_answer) {
            Some(-32700) => "the server could not read our message",
            Some(-32601) => "not supported by the server",
            Some(-32602) => "the server does not take the call as it is",
            Some(-32603) => "server error",
            Some(-32020) => "our headers are out of date",
            Some(-32021) => "the server wants something that longhaul does not offer",
            Some(-32022) => "no common version",
            Some(-32042) => "a page has to be visited first",
            _ => return self.message.clone(),
        };
        match self.message.trim() {
            "" => meaning.to_owned(),
            said => format!("{meaning}: {said}"),
        }
    }
}

/// The kinds of [`TaskError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskErrorKind {
    /// The tool ran and said that it failed (`isError`).
    Tool,
    /// The server answered the call with a JSON-RPC error.
    Protocol,
    /// The call was refused before it could run.
    Refused,
    /// The server could not be reached and nothing was sent.
    Unreachable,
    /// A limit of the user's ended it.
    TimedOut,
}

/// One `tools/call` on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// JSON-RPC id, `<random per process>-<n>`; a replay after our own death carries this one.
    pub request_id: String,
    /// Progress token; a replay after our own death carries this one.
    pub token: String,
    /// How far it got on the wire.
    pub phase: Phase,
    /// Why [`Self::version`] was chosen for it; `None` before it was sent.
    #[serde(default)]
    pub era_reason: Option<EraReason>,
    /// Which session of the server carries it ([`LinkRecord::session_number`]).
    pub session_number: u64,
    /// The revision it was sent under; `None` before that.
    #[serde(default)]
    pub version: Option<ProtocolVersion>,
    /// Whether it asks for a server task of 2025-11-25; only then is what says `task` in its answer one, in a replay too.
    #[serde(default)]
    pub asks_for_task: bool,
    /// Whether a process of ours carries it, which ends with us.
    #[serde(default)]
    pub is_of_process: bool,
    /// What it carries beside the arguments: the JSON text of an object with `inputResponses` and `requestState`.
    #[serde(default)]
    pub input: Option<String>,
    /// What the server wants back with the answers that it asked this attempt for: opaque.
    #[serde(default)]
    pub request_state: Option<String>,
    /// Whether a cancel of it went out; it counts for this attempt only.
    #[serde(default)]
    pub was_cancelled: bool,
    /// Where its stream can be picked up.
    pub cursors: Cursors,
    /// The server's wish for the wait before a reconnect, in milliseconds.
    pub retry_ms: Option<u64>,
    /// The newest progress value of this attempt; a replayed or stale one is not above it.
    pub last_value: Option<f64>,
    /// When its intent was saved.
    pub started_at: Wall,
    /// When it ended.
    pub ended_at: Option<Wall>,
}

/// How far an attempt got on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Nothing was sent.
    Queued,
    /// The intent is saved and the request may have gone out.
    Sent,
    /// The server answered with a stream.
    Open,
    /// A response, a refusal or a proof ended it.
    Ended,
}

/// Event ids of one stream: opaque, never compared for order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursors {
    /// The first id seen; the oldest place to probe from.
    pub first: Option<EventId>,
    /// The newest id.
    pub newest: Option<EventId>,
    /// The newest id that came with data; resuming starts here.
    pub data: Option<EventId>,
    /// The one before it; a probe from here has to bring `data` back.
    pub before: Option<EventId>,
}

/// The stream of a bare GET, as one session of the server showed it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandaloneStream {
    /// The session that it belongs to ([`LinkRecord::session_number`]); in another one nothing of this holds.
    pub session_number: u64,
    /// Whether the server has no such stream.
    pub is_absent: bool,
    /// Where it can be resumed.
    pub cursors: Cursors,
    /// The server's wish for the wait before a reconnect, in milliseconds.
    pub retry_ms: Option<u64>,
}

/// What is known of a server and has to outlive this process.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// The user's name for it.
    pub name: ServerName,
    /// Its endpoint, without credentials.
    pub url: String,
    /// The negotiated revision.
    pub version: Option<ProtocolVersion>,
    /// The server's session id: a secret. Absent before the handshake and on sessionless servers.
    pub session: Option<String>,
    /// Counts the handshakes, so that an attempt knows whether its session is the present one.
    pub session_number: u64,
    /// Whether a handshake stands, as far as known.
    pub is_initialized: bool,
    /// Whether the server offers `logging/setLevel`.
    pub has_logging: bool,
    /// The server's name and version for itself; display only.
    pub server_info: Option<String>,
    /// Its tools, as last listed.
    pub tools: Vec<Tool>,
    /// When they were listed.
    pub tools_at: Option<Wall>,
    /// Whether its streams were seen to carry event ids.
    pub gives_ids: Option<bool>,
    /// Which of its tools were seen to stream events with ids, or without.
    #[serde(default)]
    pub gave_ids: BTreeMap<String, bool>,
    /// What it offers in the modern era; [`Self::version`] is the session's where it speaks both.
    #[serde(default)]
    pub modern: ModernSupport,
    /// It takes no handshake, or gives no session with it.
    #[serde(default)]
    pub refuses_session: bool,
    /// The revision that `--protocol` asked for in the present session's handshake. Nothing else may stick to it.
    #[serde(default, alias = "wish")]
    pub asked_version: Option<ProtocolVersion>,
    /// The one revision that is spoken under this name (the demo shows its server under two).
    #[serde(default)]
    pub pinned_version: Option<ProtocolVersion>,
    /// Why this revision was chosen, in words.
    #[serde(default)]
    pub era_why: Option<String>,
    /// What it offers of server tasks.
    #[serde(default)]
    pub tasks: Option<TaskCapability>,
    /// Whether its core tasks end with the server session, once that was seen.
    #[serde(default)]
    pub binds_tasks: Option<bool>,
    /// Which of its tools ran as a server task when they were last called; only where the server decides.
    #[serde(default)]
    pub ran_as_task: BTreeMap<String, bool>,
    /// What its checkpoint tools are called, as the configuration last said.
    #[serde(default)]
    pub convention: CheckpointConvention,
    /// The stream on which it sends what belongs to no call.
    #[serde(default)]
    pub standalone: StandaloneStream,
}

/// What a call can stand on at a server, as far as seen: it decides the price of leaving before anything is sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCapabilities {
    /// The revision spoken; `None` before the first contact.
    pub version: Option<ProtocolVersion>,
    /// Whether streams carry event ids.
    pub gives_ids: Option<bool>,
    /// What is offered of server tasks.
    pub tasks: Option<TaskCapability>,
    /// Whether core tasks end with the server session.
    pub binds_tasks: Option<bool>,
    /// Which tools ran as a server task when they were last called.
    pub ran_as_task: BTreeMap<String, bool>,
    /// Which tools were seen to stream events with ids, or without.
    #[serde(default)]
    pub gave_ids: BTreeMap<String, bool>,
    /// What is offered in the modern era.
    #[serde(default)]
    pub modern: ModernSupport,
    /// The one revision that calls are made in, where somebody asks for one.
    #[serde(default)]
    pub pinned: Option<ProtocolVersion>,
    /// What its checkpoint tools are called.
    #[serde(default)]
    pub convention: CheckpointConvention,
    /// Whether it is a process of ours, which ends with us.
    #[serde(default)]
    pub is_process: bool,
}

impl ServerCapabilities {
    /// The era that a tool is called in: the one that a call of it survives.
    pub fn era_of(
        &self,
        name: &str,
        tool: Option<&Tool>,
        keeps_checkpoint: bool,
    ) -> (Era, EraReason) {
        if let Some(version) = self.pinned {
            return (version.era(), EraReason::Asked);
        }
        let spoken = self.version.map_or(Era::Stateful, ProtocolVersion::era);
        let ModernSupport::Offered { has_tasks } = self.modern else {
            return (spoken, EraReason::OnlyOne);
        };
        if spoken == Era::Modern || self.is_process {
            return (spoken, EraReason::OnlyOne);
        }
        let support = tool.map_or(TaskSupport::Forbidden, |tool| tool.task_support);
        let is_task = support == TaskSupport::Required
            || support == TaskSupport::Optional && !keeps_checkpoint;
        let ran_as_task = self.ran_as_task.get(name).copied();
        // Such a tool must not be called there at all.
        let is_faulty = tool.is_some_and(|tool| tool.header_fault().is_some());
        let can_be_task = match ran_as_task {
            Some(true) => !keeps_checkpoint || is_task,
            Some(false) => false,
            None => is_task,
        };
        if has_tasks && can_be_task && !is_faulty {
            return (Era::Modern, EraReason::CanBeTask);
        }
        if self.tasks.is_some() && is_task {
            return (Era::Stateful, EraReason::CoreTask);
        }
        if keeps_checkpoint {
            return (Era::Stateful, EraReason::Checkpoint);
        }
        match self.gives_ids_of(name) {
            Some(true) => (Era::Stateful, EraReason::EventIds),
            Some(false) if !is_faulty => (Era::Modern, EraReason::NoIds),
            _ => (Era::Stateful, EraReason::MayGiveIds),
        }
    }

    /// Whether the stream of this tool carries event ids in the stateful era, as far as seen.
    pub fn gives_ids_of(&self, tool: &str) -> Option<bool> {
        self.gave_ids.get(tool).copied().or(self.gives_ids)
    }

    /// Whether tasks of the extension are offered.
    pub fn has_extension(&self) -> bool {
        let is_extension = |offer: TaskCapability| offer.kind == TaskKind::Extension;
        self.modern == (ModernSupport::Offered { has_tasks: true })
            || self.tasks.is_some_and(is_extension)
    }

    /// Whether the price of a call is known before it is sent, not only feared.
    pub fn is_known(&self, tool: &Tool, beside: &[Tool]) -> bool {
        if self.is_process {
            return true;
        }
        if self.version.is_none() {
            return false;
        }
        let keeps_checkpoint = tool.keeps_checkpoint(beside, &self.convention);
        match self.era_of(&tool.name, Some(tool), keeps_checkpoint).0 {
            // Where tasks are offered the server decides anew for each call; how the last one ran is a hint.
            Era::Modern => self.modern != ModernSupport::Unknown && !self.has_extension(),
            Era::Stateful => self.gives_ids_of(&tool.name).is_some(),
        }
    }
}

impl LinkRecord {
    /// What a call can stand on here.
    pub fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            version: self.version,
            gives_ids: self.gives_ids(),
            tasks: self.tasks,
            binds_tasks: self.binds_tasks,
            ran_as_task: self.ran_as_task.clone(),
            gave_ids: self.gave_ids.clone(),
            modern: self.modern,
            pinned: self.pinned_version,
            convention: self.convention.clone(),
            is_process: self.is_process(),
        }
    }

    /// Whether it offers tasks of the extension.
    pub fn has_extension(&self) -> bool {
        self.modern == (ModernSupport::Offered { has_tasks: true })
    }

    /// Whether its revision is one of the stateful era.
    pub fn is_stateful(&self) -> bool {
        self.version
            .is_none_or(|version| version.era() == Era::Stateful)
    }

    /// Whether it is a process of ours: its session, its calls and their results end with it.
    pub fn is_process(&self) -> bool {
        server_url::is_process(&self.url)
    }

    /// Whether what it streams carries event ids, as far as seen; on HTTP+SSE and on pipes they would be of no use.
    pub fn gives_ids(&self) -> Option<bool> {
        match self.version {
            _ if self.is_process() => Some(false),
            Some(ProtocolVersion::V20241105) => Some(false),
            _ => self.gives_ids,
        }
    }

    /// A server that nothing is known of but where it is.
    pub fn new(name: ServerName, url: impl Into<String>) -> Self {
        Self {
            name,
            url: url.into(),
            version: None,
            session: None,
            session_number: 0,
            is_initialized: false,
            has_logging: false,
            server_info: None,
            tools: Vec::new(),
            tools_at: None,
            gives_ids: None,
            gave_ids: BTreeMap::new(),
            modern: ModernSupport::Unknown,
            refuses_session: false,
            asked_version: None,
            pinned_version: None,
            era_why: None,
            tasks: None,
            binds_tasks: None,
            ran_as_task: BTreeMap::new(),
            convention: CheckpointConvention::default(),
            standalone: StandaloneStream::default(),
        }
    }
}

// Written by hand: the session id must not reach a log.
impl fmt::Debug for LinkRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkRecord")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("session", &self.session.as_ref().map(|_| "…"))
            .field("session_number", &self.session_number)
            .field("gives_ids", &self.gives_ids)
            .finish_non_exhaustive()
    }
}

/// One write to the session file. All rows of one save are one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// Insert or replace a task.
    Task(Box<Task>),
    /// Append to a task's history; the entries' `seq` follow one another.
    History {
        /// Whose.
        task: TaskId,
        /// What.
        entries: Entries,
    },
    /// Keep a result: the JSON text of a CallToolResult as the server sent it.
    Result {
        /// Whose.
        task: TaskId,
        /// What.
        json: String,
    },
    /// Insert or replace what is known of a server.
    Link(Box<LinkRecord>),
    /// Take a task out for good, with history and result; only for an intent that never went out.
    Erase(TaskId),
}
