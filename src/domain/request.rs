//! What a user interface asks of the engine and what it hears back: plain data, the same over a channel and a socket.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Answer, OnInput, Progress, ProtocolVersion, ServerConfigs, ServerName, ServerView, TaskId,
    TaskView, Tool, Wall,
};

/// The number of an ask, unique within one client; its one answer carries it.
pub type SessionRequestId = u64;

/// Something a user wants. Every ask is answered by exactly one [`SessionEvent::Response`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionRequest {
    /// Make a server known to this session, or connect to a known one; headers are used and never stored.
    Server(ServerRef),
    /// What a file of configuration says of servers, from now on; the answer does not wait for them.
    Configure(ServerConfigs),
    /// List a server's tools; asks the server unless the list is fresh.
    Tools(ServerName),
    /// Save the intent of a call and send it as soon as the server can be reached.
    Start(Box<NewCall>),
    /// Pause, by the server's pause tool.
    Pause(TaskId),
    /// Go on after a pause, or retry the connection now.
    Resume(TaskId),
    /// Cancel.
    Cancel(TaskId),
    /// Stop following something that is `unknown`, or whose cancel the server ignores: it becomes `lost`.
    GiveUp(TaskId),
    /// Stop showing a task; only here, nothing is sent.
    Forget(TaskId),
    /// Bring a forgotten task back.
    Unforget(TaskId),
    /// The user has seen that it settled.
    Seen(TaskId),
    /// Change name, note or limits.
    Edit {
        /// Which.
        id: TaskId,
        /// The new name; `None` takes it away.
        name: Option<String>,
        /// The new note; `None` takes it away.
        note: Option<String>,
        /// The new limits.
        limits: Limits,
    },
    /// Retry every server that is down, now.
    RetryNow,
    /// Drive in place of whoever drives; answered once the asker does. Refused where that would end something, unless
    /// `is_forced`.
    HandOver {
        /// Whatever it ends.
        is_forced: bool,
    },
    /// Begin a sign-in at a server; whoever drives waits for the browser's answer.
    SignIn(ServerName),
    /// Record what goes over the wire with a server, or with all of them, or stop that.
    Trace {
        /// Which server; all when absent.
        server: Option<ServerName>,
        /// Whether to record; the other way than now when absent.
        is_on: Option<bool>,
    },
    /// Answer a question of the server.
    Answer {
        /// Which task.
        id: TaskId,
        /// Which question; the oldest open one when absent.
        key: Option<String>,
        /// How.
        answer: Answer,
    },
    /// List what a client of a checkpoint server has there.
    Checkpoints {
        /// Which server.
        server: ServerName,
        /// Which client.
        client_id: String,
    },
    /// Take tasks that a server has and we do not know into the list.
    Adopt {
        /// Which server.
        server: ServerName,
        /// The one server task of this id; everything that the server lists when absent.
        server_task: Option<String>,
    },
    /// The same, in this revision and no other (`--protocol`).
    In(ProtocolVersion, Box<SessionRequest>),
}

impl SessionRequest {
    /// The same in the revision that `--protocol` asks for, where it asks something of a server.
    #[must_use]
    pub fn in_version(self, version: Option<ProtocolVersion>) -> Self {
        match (self, version) {
            (Self::Start(mut call), Some(version)) => {
                call.protocol.get_or_insert(version);
                Self::Start(call)
            }
            (
                what @ (Self::Tools(_) | Self::Adopt { .. } | Self::Checkpoints { .. }),
                Some(version),
            ) => Self::In(version, Box::new(what)),
            (what, _) => what,
        }
    }
}

/// A server by name and URL, with what must be sent to it but never stored.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerRef {
    /// The name; made from the URL's host and port if the user gave only a URL.
    pub name: ServerName,
    /// The endpoint; `None` for a server that the session knows already.
    pub url: Option<String>,
    /// Extra headers as name and value: secrets.
    pub headers: Vec<(String, String)>,
    /// Headers of the configuration whose variables hold something where this was asked, which may be elsewhere than where
    /// it is driven: secrets too, and good until the configuration says something else.
    pub filled: Vec<(String, String)>,
    /// The one revision that is spoken under this name, from now on.
    pub protocol: Option<String>,
}

// Written by hand: header values are secrets.
impl std::fmt::Debug for ServerRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerRef")
            .field("name", &self.name)
            .field("headers", &self.headers.len())
            .field("filled", &self.filled.len())
            .finish_non_exhaustive()
    }
}

/// A call to start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewCall {
    /// Chosen by the asker, so that asking twice after a lost answer starts one task.
    pub id: TaskId,
    /// Where.
    pub server: ServerName,
    /// What.
    pub tool: String,
    /// The text of a JSON object.
    pub arguments: String,
    /// The user's name for it.
    pub name: Option<String>,
    /// The user's tag.
    pub tag: Option<String>,
    /// With this key, return the task that used it before instead of starting another.
    pub once: Option<String>,
    /// The task that this one repeats.
    pub origin: Option<TaskId>,
    /// The server's id of a checkpoint that somebody else's call made: it is followed by the server's list, and called
    /// only when the checkpoint rule says so.
    #[serde(default)]
    pub goes_on: Option<String>,
    /// Refuse, with nothing sent, where leaving is known beforehand to end it (`--detach`).
    pub must_survive: bool,
    /// Send it even if its arguments are not what the tool's schema asks for.
    #[serde(default)]
    pub is_unchecked: bool,
    /// Idle and hard limit.
    pub limits: Limits,
    /// What becomes of the server's questions when nobody is asked.
    #[serde(default)]
    pub on_input: OnInput,
    /// The revision to make it in (`--protocol`).
    #[serde(default)]
    pub protocol: Option<ProtocolVersion>,
}

impl NewCall {
    /// A call with nothing said about it but what is called.
    pub fn new(id: TaskId, server: ServerName, tool: String, arguments: String) -> Self {
        Self {
            id,
            server,
            tool,
            arguments,
            name: None,
            tag: None,
            once: None,
            origin: None,
            goes_on: None,
            must_survive: false,
            is_unchecked: false,
            limits: Limits::default(),
            on_input: OnInput::Ask,
            protocol: None,
        }
    }
}

/// A checkpoint as its server lists it; every text is the server's and not yet sanitised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The server's id of it.
    pub id: String,
    /// The tool that works at it.
    pub tool: Option<String>,
    /// The server's word for how it stands.
    pub status: String,
    /// How far it is, where the list says that in numbers.
    pub progress: Option<Progress>,
    /// The arguments of its call as the text of a JSON object; most lists do not show them.
    pub arguments: Option<String>,
    /// Whether there is something left to go on with.
    pub is_unsettled: bool,
}

/// Limits of a task, both off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Cancel after this long without anything new from the server.
    pub idle: Option<Duration>,
    /// Cancel this long after the start.
    pub hard: Option<Duration>,
}

/// What an ask led to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionResponse {
    /// It is under way; what comes of it shows in the task.
    Accepted,
    /// The intent of this task is on disk (or was already, for `--once`).
    Started(TaskId),
    /// The tools of a server.
    Tools(Vec<Tool>),
    /// These were taken into the list.
    Adopted(Vec<TaskId>),
    /// What the server's list of checkpoints shows.
    Checkpoints(Vec<Checkpoint>),
    /// A sign-in waits for somebody to open its page.
    SignIn(SignInPage),
    /// Done; the text is a message for the user.
    #[serde(rename = "told")]
    Done(String),
}

/// The page of a sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInPage {
    /// Its host, to be looked at before it is opened.
    pub host: String,
    /// Who else has a part in the sign-in, where that is not who has the page, as "for ISSUER".
    #[serde(default)]
    pub beside: Vec<String>,
    /// Its URL; http or https.
    pub url: String,
}

/// Why an ask was refused, in words that say what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "because", content = "words")]
pub enum RequestError {
    /// It cannot be done; nothing was sent.
    #[error("{0}")]
    Usage(String),
    /// It has settled, maybe in this moment; nothing was sent.
    #[error("{0}")]
    Settled(String),
    /// It would end running work; sending it again with `is_forced` does it anyway.
    #[error("{0}")]
    #[serde(rename = "costs")]
    WouldLoseWork(String),
    /// The server wants credentials.
    #[error("{0}")]
    NeedsLogin(String),
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The session file cannot be written, so nothing new is started.
    #[error("{0}")]
    CannotSave(String),
}

impl RequestError {
    /// The same in other words.
    #[must_use]
    pub fn reworded(mut self, reword: impl FnOnce(&str) -> String) -> Self {
        let (Self::Usage(words)
        | Self::Settled(words)
        | Self::WouldLoseWork(words)
        | Self::NeedsLogin(words)
        | Self::Unreachable(words)
        | Self::CannotSave(words)) = &mut self;
        *words = reword(words);
        self
    }
}

/// What the engine tells its user interfaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEvent {
    /// The newest picture of a task.
    Task(Arc<TaskView>),
    /// A task is gone for good.
    Erased(TaskId),
    /// The newest picture of a server.
    Server(Arc<ServerView>),
    /// The only response to a request.
    #[serde(rename = "answer")]
    Response {
        /// The request that it belongs to.
        #[serde(rename = "ask")]
        request: SessionRequestId,
        /// How the request went.
        outcome: Result<SessionResponse, RequestError>,
    },
    /// Something that longhaul did or has to say.
    Notice(Notice),
    /// Who drives: this process, or the one with this id.
    Driver {
        /// Its process id.
        pid: u32,
        /// Whether it is this process.
        is_us: bool,
    },
    /// Whoever drove is gone, and nobody has taken over yet.
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

/// A line of the messages tab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// When.
    pub at: Wall,
    /// How loud.
    pub level: NoticeLevel,
    /// In words; sanitised.
    pub text: String,
}

/// How loud a [`Notice`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// Good to know.
    Info,
    /// Something is not as it should be.
    Warning,
    /// Something failed.
    Error,
}
