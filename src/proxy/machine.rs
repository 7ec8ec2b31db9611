//! The proxy itself: what the host asks becomes requests to the session, what the session reports becomes answers.

use core::time::Duration;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Map, Value, json};

use super::{
    cancel::PendingCancels,
    era,
    hosts::{self, Limit, PatienceChoice},
    message::{self, HostMessage},
    questions::RelayedQuestions,
    tool_list::OutputSchemas,
};
use crate::domain::{
    Collected, GaveUpReason, Introduction, Mono, ProtocolVersion, ServerName, SessionEvent,
    SessionRequest, SessionRequestId, Stamp, TaskId, TaskView,
};

mod answers;
mod calls;
mod cancels;
mod handshake;
mod modern;
mod questions;

/// The most calls of one host at a time.
const CALLS: usize = 1000;

/// Something for the proxy.
#[derive(Clone, Debug)]
pub enum ProxyInput {
    /// A line from the host.
    FromHost(String),
    /// A line from the host that is too long to read.
    TooLong,
    /// The host has closed its end.
    HostClosed,
    /// An event of the session.
    Session(SessionEvent),
    /// The result of a task was looked for in the session file.
    Result {
        /// The task.
        task: TaskId,
        /// What was found.
        result: SavedResult,
    },
    /// Time has passed; due by [`Proxy::next_wake`].
    Timer,
}

/// What the session file has of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedResult {
    /// The result, verbatim JSON.
    Found(String),
    /// The task ended without one.
    None,
    /// It can't be read, for this reason.
    Unreadable(String),
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write a line to the host.
    ToHost(String),
    /// Send a request to the session; the response has this number.
    Ask(SessionRequestId, SessionRequest),
    /// Read the result of a task, then answer with [`ProxyInput::Result`].
    ReadResult(TaskId),
}

/// What a cancelled request of the host means for its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCancel {
    /// The call continues after a timeout, and is cancelled if a person stopped it.
    TimeoutContinues,
    /// The call always continues.
    Continue,
    /// The call is always cancelled.
    Stop,
}

/// How a proxy works.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// The server that it stands for.
    pub server: ServerName,
    /// The host's working directory.
    pub directory: String,
    /// How long calls are held.
    pub patience: PatienceChoice,
    /// What a cancel means.
    pub on_cancel: OnCancel,
    /// What the host keeps in `MCP_TOOL_TIMEOUT`.
    pub tool_timeout: Option<String>,
    /// Seeds the ids of tasks.
    pub seed: u64,
}

/// What the host has said of itself.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a host can do is independent"
)]
struct Host {
    name: String,
    version: String,
    limit: Option<Limit>,
    /// Whether it can show forms, and pages in a browser.
    shows_forms: bool,
    shows_pages: bool,
    /// Whether its last request was of the modern era, and asked for log messages.
    is_modern: bool,
    wants_logs: bool,
}

/// How a host asks who the server is.
#[derive(Clone, Copy, Debug)]
enum Greeting {
    /// `initialize`, answered in this revision.
    Initialize(ProtocolVersion),
    /// `server/discover`.
    Discover,
}

/// A request to the session that waits for its response.
#[derive(Clone, Debug)]
enum Asked {
    /// The introduction; with the id of the host's request and how it asked.
    Introduce(Option<(String, Greeting)>),
    Forward {
        id: String,
        method: String,
        is_first_page: bool,
    },
    Start {
        id: String,
    },
    Collect {
        id: String,
    },
    /// Nothing depends on it.
    Note,
}

/// A `tools/call` of the host that has no response yet.
#[derive(Clone, Debug)]
struct Call {
    /// The task, once it is started.
    task: Option<TaskId>,
    tool: String,
    progress_token: Option<Value>,
    began: Mono,
    /// When it gets a ticket.
    until: Option<Mono>,
    /// The last progress that the host was told, and when.
    told: Option<f64>,
    told_at: Mono,
    /// Whether its result is being read.
    is_reading: bool,
}

/// The proxy of one host. Feed it with [`Proxy::handle`], carry out what it returns.
#[derive(Debug)]
pub struct Proxy {
    options: ProxyOptions,
    rng: fastrand::Rng,
    now: Stamp,
    host: Host,
    introduction: Option<Introduction>,
    asked: BTreeMap<SessionRequestId, Asked>,
    next_request: SessionRequestId,
    /// The host's open calls by the ids of its requests.
    calls: BTreeMap<String, Call>,
    /// The earliest time after which each host, by name and version, has given up.
    seen_limits: BTreeMap<(String, String), Duration>,
    /// The newest views of all calls through proxies of this server.
    views: BTreeMap<TaskId, Arc<TaskView>>,
    /// The tasks whose results the host has. Their views may not say so yet.
    delivered: BTreeSet<TaskId>,
    /// The results that were written; the host's next message proves that it has read them.
    written: Vec<TaskId>,
    schemas: OutputSchemas,
    cancels: PendingCancels,
    questions: RelayedQuestions,
    /// The subscriptions of a modern host, and the notifications that they want.
    subscriptions: BTreeMap<String, Map<String, Value>>,
    effects: Vec<Effect>,
}

impl Proxy {
    /// A proxy whose host has said nothing yet.
    pub fn new(options: ProxyOptions, now: Stamp) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(options.seed),
            options,
            now,
            host: Host {
                name: "unknown".to_owned(),
                version: String::new(),
                limit: None,
                shows_forms: false,
                shows_pages: false,
                is_modern: false,
                wants_logs: false,
            },
            introduction: None,
            asked: BTreeMap::new(),
            next_request: 1,
            calls: BTreeMap::new(),
            seen_limits: BTreeMap::new(),
            views: BTreeMap::new(),
            delivered: BTreeSet::new(),
            written: Vec::new(),
            schemas: OutputSchemas::default(),
            cancels: PendingCancels::default(),
            questions: RelayedQuestions::default(),
            subscriptions: BTreeMap::new(),
            effects: Vec::new(),
        }
    }

    /// Takes one input in and returns what follows from it, in this order.
    pub fn handle(&mut self, now: Stamp, input: ProxyInput) -> Vec<Effect> {
        self.now = now;
        match input {
            ProxyInput::FromHost(line) => {
                // The host has sent something after these results, so it has read them.
                let read = std::mem::take(&mut self.written);
                self.delivered.extend(read.iter().cloned());
                match message::parse(&line) {
                    Ok(message) => self.host_said(message),
                    Err(malformed) => {
                        let id = malformed.id.as_deref().unwrap_or("null");
                        self.refuse(id, malformed.code, malformed.why);
                    }
                }
                // After what the host waits for now.
                for task in read {
                    self.note(task, Collected::Delivered);
                }
            }
            ProxyInput::TooLong => {
                let words = "the message is too long";
                self.refuse("null", message::INVALID_REQUEST, words);
            }
            ProxyInput::HostClosed => self.host_closed(),
            ProxyInput::Session(event) => self.session_reported(event),
            ProxyInput::Result { task, result } => self.result_read(&task, &result),
            ProxyInput::Timer => {}
        }
        self.tend_calls();
        self.tend_cancels();
        std::mem::take(&mut self.effects)
    }

    /// When [`ProxyInput::Timer`] is due.
    pub fn next_wake(&self) -> Option<Mono> {
        let calls = self.calls.values().filter_map(Call::due);
        calls.chain(self.cancels.next()).min()
    }

    fn host_said(&mut self, message: HostMessage) {
        match message {
            HostMessage::Request { id, method, params } => self.requested(id, &method, &params),
            HostMessage::Notification { method, params } => {
                if method == "notifications/cancelled" {
                    self.request_cancelled(&params);
                }
            }
            HostMessage::Response { id, outcome } => self.question_answered(&id, outcome),
        }
    }

    fn requested(&mut self, id: String, method: &str, params: &Map<String, Value>) {
        if !self.meets(&id, params) {
            return;
        }
        match method {
            "initialize" => self.initialize(id, params),
            "ping" => self.respond(&id, &json!({})),
            "tools/call" => self.call(id, params),
            // The modern era has levels per request.
            "logging/setLevel" if self.is_server_modern() => self.respond(&id, &json!({})),
            "server/discover" => self.discover(id),
            "subscriptions/listen" => self.subscribe(id, params),
            _ if method.starts_with("tasks/") => {
                let words = "longhaul proxy offers no tasks; long calls return a ticket";
                self.refuse(&id, message::METHOD_NOT_FOUND, words);
            }
            _ => self.forward(id, method, params),
        }
    }

    fn forward(&mut self, id: String, method: &str, params: &Map<String, Value>) {
        let request = SessionRequest::Forward {
            server: self.options.server.clone(),
            method: method.to_owned(),
            params: Value::Object(params.clone()).to_string(),
        };
        let asked = Asked::Forward {
            id,
            method: method.to_owned(),
            is_first_page: !params.contains_key("cursor"),
        };
        self.ask(asked, request);
    }

    fn ask(&mut self, asked: Asked, request: SessionRequest) {
        let number = self.next_request;
        self.next_request += 1;
        self.asked.insert(number, asked);
        self.effects.push(Effect::Ask(number, request));
    }

    /// Responds with a result of the proxy's own.
    fn respond(&mut self, id: &str, result: &Value) {
        self.respond_to(id, "", &result.to_string());
    }

    /// Responds with a server's result of this method.
    fn respond_to(&mut self, id: &str, method: &str, result: &str) {
        let result = era::result_for(self.host.is_modern, method, result);
        self.effects
            .push(Effect::ToHost(message::response(id, &result)));
    }

    fn refuse(&mut self, id: &str, code: i64, words: &str) {
        self.effects
            .push(Effect::ToHost(message::error(id, code, words, None)));
    }

    fn note(&mut self, id: TaskId, how: Collected) {
        self.ask(Asked::Note, SessionRequest::Collected { id, how });
    }

    fn host_closed(&mut self) {
        for (_, call) in std::mem::take(&mut self.calls) {
            self.gave_up(&call, GaveUpReason::Ended);
        }
    }

    fn gave_up(&mut self, call: &Call, why: GaveUpReason) {
        if let Some(task) = &call.task {
            let waited = self.now.mono.since(call.began);
            let how = Collected::GaveUp {
                after_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                why,
            };
            self.note(task.clone(), how);
        }
    }

    fn session_reported(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Task(view) => {
                self.learn_limit(&view);
                // Whose it is shows only after the handshake.
                if view.task.caller.is_none() || view.task.server != self.options.server {
                    return;
                }
                self.views.insert(view.task.id.clone(), Arc::clone(&view));
                self.task_changed(&view);
            }
            SessionEvent::Erased(id) => {
                self.views.remove(&id);
            }
            SessionEvent::Response { request, outcome } => {
                if let Some(asked) = self.asked.remove(&request) {
                    self.answered(asked, outcome);
                }
            }
            SessionEvent::Notification { server, message } if server == self.options.server => {
                if self.introduction.is_some() {
                    self.notified(message);
                }
            }
            SessionEvent::Driver(_) => self.driver_changed(),
            SessionEvent::Server(_)
            | SessionEvent::Notice(_)
            | SessionEvent::Notification { .. }
            | SessionEvent::Undriven
            | SessionEvent::Failed { .. } => {}
        }
    }

    /// How long a call is held before it gets a ticket.
    fn patience(&self) -> Option<Duration> {
        let host = (self.host.name.clone(), self.host.version.clone());
        let seen = self.seen_limits.get(&host).copied();
        hosts::patience(self.options.patience, self.host.limit, seen)
    }

    /// Every call of a proxy tells when its host gave up.
    fn learn_limit(&mut self, view: &TaskView) {
        let Some(caller) = &view.task.caller else {
            return;
        };
        if let Some(after) = caller.timeout_ms.map(Duration::from_millis) {
            let host = (caller.host.clone(), caller.version.clone());
            let seen = self.seen_limits.entry(host).or_insert(after);
            *seen = after.min(*seen);
        }
    }

    /// Whether a task was started by this host in this directory.
    fn is_ours(&self, view: &TaskView) -> bool {
        let is_host = |caller: &crate::domain::Caller| {
            caller.host == self.host.name && caller.directory == self.options.directory
        };
        view.task.caller.as_deref().is_some_and(is_host)
    }

    /// A new driver knows nothing of what its predecessor's clients wait for.
    fn driver_changed(&mut self) {
        if self.introduction.is_some() {
            let server = self.options.server.clone();
            self.ask(Asked::Introduce(None), SessionRequest::Introduce(server));
        }
        let calls = self.calls.values();
        let tasks: Vec<TaskId> = calls.filter_map(|call| call.task.clone()).collect();
        for task in tasks {
            self.ask(Asked::Note, SessionRequest::Collect(task));
        }
    }
}
