//! The proxy itself: what the host asks becomes requests to the session, what the session reports becomes answers.

use core::{fmt::Display, time::Duration};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Value, json};

use super::{
    cancel::{PendingCancels, Written},
    era,
    hosts::{self, Cancels, Limit},
    message::{self, HostMessage, Members},
    questions::{Relayed, RelayedQuestions, Round},
    ticket::{ResultPart, failure},
    tool_list::OutputSchemas,
};
use crate::domain::{
    Collected, GaveUpReason, HostProfile, Introduction, Limits, LogLevel, Mono, ProxySettings,
    ServerName, SessionEvent, SessionRequest, SessionRequestId, Stamp, TaskId, TaskView,
};

mod answers;
mod asked;
mod calls;
mod cancels;
mod forwards;
mod handshake;
mod host_tasks;
mod modern;
mod questions;
mod rounds;
mod server_state;
#[cfg(test)]
mod tests;

use asked::{Asked, CallList, IntroductionMethod};

/// The most calls of one host at a time.
const CALLS: usize = 1000;

/// Something for the proxy.
#[derive(Clone, Debug)]
pub enum ProxyInput {
    /// A line from the host.
    FromHost(String),
    /// A line from the host that is too long to read.
    TooLong {
        /// The id of the request, as JSON text, if it is one.
        id: Option<String>,
    },
    /// The host will send nothing more.
    EndOfInput {
        /// Whether it still reads, so that it has what was written to it.
        is_reading: bool,
    },
    /// The host is gone.
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

/// What the session file has of a result: verbatim JSON, or `None` if the task ended without one.
pub(super) type SavedResult = Result<Option<String>, Unreadable>;

/// Why the session file can't be read.
#[derive(Clone, Debug)]
pub struct Unreadable(pub String);

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

/// How a proxy works.
#[derive(Clone, Debug, Default)]
pub struct ProxyOptions {
    /// The server that it stands for.
    pub server: ServerName,
    /// The host's working directory.
    pub directory: String,
    /// The options that select the session on the command line, such as ` --session nightly`.
    pub flags: String,
    /// What the user has set.
    pub settings: ProxySettings,
    /// The limits of its calls.
    pub limits: Limits,
    /// What the host keeps in `MCP_TOOL_TIMEOUT`.
    pub tool_timeout: Option<String>,
    /// Seeds the ids of tasks.
    pub seed: u64,
}

/// What the host has said of itself.
#[derive(Clone, Debug, Default)]
struct Host {
    profile: HostProfile,
    limit: Option<Limit>,
    cancels: Cancels,
    /// Whether its last request was of the modern era.
    is_modern: bool,
    /// The least severe log messages that it wants.
    log_level: Option<LogLevel>,
    /// Whether it can follow calls as tasks.
    has_tasks: bool,
    /// Whether it has sent `notifications/initialized`, so that it may be asked something.
    is_initialized: bool,
}

/// What the host expects of a request about a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CallRole {
    /// `tools/call`: the result, or a ticket.
    #[default]
    Call,
    /// `tools/call` with which the host wants a task.
    WantsTask,
    /// `tools/call` that was answered with a task: only progress.
    Task,
    /// `tasks/result`: the result, however late.
    TaskResult,
    /// `tasks/get` of a task that has ended: the task with its result.
    TaskGet,
}

/// A request of the host that waits for a task.
#[derive(Clone, Debug, Default)]
struct Call {
    role: CallRole,
    /// The task, once it is started.
    task: Option<TaskId>,
    tool: String,
    /// Whether the host can follow it as a task of the modern era.
    can_follow: bool,
    /// The part of the result that the host asked for.
    part: Option<ResultPart>,
    /// In a form in which equal ones have equal text; only of a host that may give up without a cancellation.
    arguments: Option<String>,
    /// As JSON text.
    progress_token: Option<String>,
    began: Mono,
    /// When it gets a ticket.
    until: Option<Mono>,
    /// The last progress that was sent to the host, and when.
    sent: Option<f64>,
    sent_at: Mono,
    /// The last status that was sent to it.
    sent_status: Option<&'static str>,
    /// Whether its result is being read.
    is_reading: bool,
    /// Whether it repeats the call that the task was started for.
    is_repeat: bool,
}

/// The proxy of one host. Feed it with [`Proxy::handle`], carry out what it returns.
#[derive(Debug, Default)]
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
    /// The earliest time after which this host, in this version, has given up.
    seen_limit: Option<Duration>,
    /// The newest views of the calls that the host follows or asked for.
    views: BTreeMap<TaskId, Arc<TaskView>>,
    /// The tasks whose results the host has. Their views may not say so yet.
    delivered: BTreeSet<TaskId>,
    /// The tasks that the host has cancelled.
    cancelled: BTreeSet<TaskId>,
    /// How much of each result the host has read from its beginning on, in parts.
    read_to: BTreeMap<TaskId, usize>,
    /// The calls that the host made and whose results it has not got: their questions are for it.
    open_tasks: BTreeSet<TaskId>,
    /// Whether the driver is gone, so that the next one knows nothing of this host.
    is_undriven: bool,
    /// The results that were written; the host's next message proves that it has read them.
    written: Vec<Written>,
    schemas: OutputSchemas,
    cancels: PendingCancels,
    questions: RelayedQuestions,
    /// Requests that wait for answers of the host.
    rounds: BTreeMap<u64, Round>,
    next_round: u64,
    /// The level of log messages that was sent to a server of the other era.
    sent_level: Option<LogLevel>,
    /// The subscriptions of a modern host, and the notifications that they want.
    subscriptions: BTreeMap<String, Members>,
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
                profile: HostProfile {
                    name: "unknown".to_owned(),
                    ..HostProfile::default()
                },
                ..Host::default()
            },
            next_request: 1,
            ..Self::default()
        }
    }

    /// Takes one input in and returns what follows from it, in this order.
    pub fn handle(&mut self, now: Stamp, input: ProxyInput) -> Vec<Effect> {
        self.now = now;
        match input {
            ProxyInput::FromHost(line) => {
                let messages = message::parse(line);
                // The host has sent something after these results, so it has read them.
                let mut read = std::mem::take(&mut self.written);
                for message in messages.iter().flatten() {
                    self.result_cancelled(message, &mut read);
                }
                self.delivered.extend(read.iter().map(|it| it.task.clone()));
                let is_driven = !self.is_undriven;
                for result in read {
                    self.note(result.task, Collected::Delivered);
                }
                let notes = self.effects.len();
                for message in messages {
                    match message {
                        Ok(message) => self.host_said(message),
                        Err(malformed) => {
                            let id = malformed.id.as_deref().unwrap_or("null");
                            self.refuse(id, malformed.code, malformed.why);
                        }
                    }
                }
                if is_driven {
                    // What the host waits for goes first.
                    self.effects.rotate_left(notes);
                }
            }
            ProxyInput::TooLong { id } => {
                let words = "the message is too long";
                let id = id.as_deref().unwrap_or("null");
                self.refuse(id, message::INVALID_REQUEST, words);
            }
            ProxyInput::EndOfInput { is_reading } => {
                for result in std::mem::take(&mut self.written) {
                    if is_reading {
                        self.note(result.task, Collected::Delivered);
                    }
                }
            }
            ProxyInput::HostClosed => self.host_closed(),
            ProxyInput::Session(event) => self.session_reported(event),
            ProxyInput::Result { task, result } => self.result_read(&task, &result),
            ProxyInput::Timer => {}
        }
        self.tend_calls();
        self.tend_cancels();
        self.tend_roots();
        std::mem::take(&mut self.effects)
    }

    /// When [`ProxyInput::Timer`] is due.
    pub fn next_wake(&self) -> Option<Mono> {
        let calls = self.calls.values().filter_map(Call::due);
        let roots = self.questions.roots_due().map(|(.., until)| until);
        calls.chain(self.cancels.next()).chain(roots).min()
    }

    /// Whether requests of the host have yet to be answered or, if they are calls, saved.
    pub fn has_open_requests(&self) -> bool {
        let is_open = |asked: &Asked| !asked.is_note() && !matches!(asked, Asked::Unawaited);
        self.asked.values().any(is_open)
    }

    /// Whether calls of the host have no answer yet.
    pub fn has_open_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether the session still has to learn something: a cancel, or what the host has read.
    pub fn has_open_notes(&self) -> bool {
        self.asked.values().any(Asked::is_note)
    }

    fn host_said(&mut self, message: HostMessage) {
        match message {
            HostMessage::Request {
                id,
                method,
                params,
                text,
            } => self.requested(id, &method, &params, text),
            HostMessage::Notification {
                method,
                params,
                request,
                text,
            } => match method.as_str() {
                "notifications/cancelled" => self.request_cancelled(request.as_deref(), &params),
                "notifications/initialized" => {
                    self.host.is_initialized = true;
                    self.ask_for_roots();
                }
                "notifications/roots/list_changed" => {
                    let server = self.options.server.clone();
                    self.ask(Asked::Note, SessionRequest::RootsChanged(server));
                }
                // About requests and tasks of the server, which only longhaul knows.
                "notifications/progress" | "notifications/tasks/status" => {}
                _ => self.pass_notification(text),
            },
            HostMessage::Response { id, outcome } => self.question_answered(&id, outcome),
        }
    }

    /// `text` is that of the parameters.
    fn requested(&mut self, id: String, method: &str, params: &Members, text: String) {
        if !self.meets(&id, params) {
            return;
        }
        match method {
            "server/discover" => return self.discover(id),
            "subscriptions/listen" => return self.subscribe(id, params),
            _ => self.ensure_introduction(),
        }
        match method {
            "initialize" => self.initialize(id, params),
            "ping" | "logging/setLevel" if self.host.is_modern => {
                self.refuse(&id, message::METHOD_NOT_FOUND, "Method not found");
            }
            "ping" => self.respond(&id, &json!({})),
            "tools/call" => self.call(id, params, &text),
            // Servers of the modern era have a level for each request.
            "logging/setLevel" if self.is_server_modern() => {
                self.host.log_level = params.get("level").and_then(era::log_level);
                self.respond(&id, &json!({}));
            }
            _ if method.starts_with("tasks/") => {
                if !self.task_requested(&id, method, &text) {
                    let words = "no such method; long calls return a ticket";
                    self.refuse(&id, message::METHOD_NOT_FOUND, words);
                }
            }
            _ => {
                self.note_server_state(method, params);
                self.forward(0, id, method, text);
            }
        }
    }

    fn ask(&mut self, asked: Asked, request: SessionRequest) {
        if std::mem::take(&mut self.is_undriven) && self.introduction.is_some() {
            // The next driver has to know the host before it calls the server for it.
            self.ask(Asked::Introduce(None), self.introduce());
        }
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
        self.send(message::response(id, &result));
    }

    fn refuse(&mut self, id: &str, code: i64, words: &str) {
        self.send(message::error(id, code, words, None));
    }

    /// Sends a message as one line: what came from a server may be written over several. Strings contain no raw line breaks,
    /// so only whitespace is replaced.
    fn send(&mut self, message: String) {
        let line = if message.contains(['\n', '\r']) {
            message.replace(['\n', '\r'], " ")
        } else {
            message
        };
        self.effects.push(Effect::ToHost(line));
    }

    fn notify(&mut self, method: &str, params: &impl Display) {
        self.send(message::notification(method, params));
    }

    fn ask_host(&mut self, relayed: Relayed, method: &str, params: &impl Display) {
        let id = self.questions.add(relayed);
        self.send(message::request(&id, method, params));
    }

    fn note(&mut self, id: TaskId, how: Collected) {
        let mut asked = Asked::Note;
        if how == Collected::Delivered {
            self.views.remove(&id);
            self.open_tasks.remove(&id);
            self.questions.forget(&id);
            asked = Asked::Delivered(id.clone());
        }
        self.ask(asked, SessionRequest::Collected { id, how });
    }

    fn host_closed(&mut self) {
        for (_, call) in std::mem::take(&mut self.calls) {
            self.call_gave_up(&call, GaveUpReason::Ended);
        }
    }

    fn session_reported(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Task(view) => {
                if view.task.caller.is_none() {
                    return;
                }
                if !view.task.server.shares_entry(&self.options.server) {
                    return self.task_elsewhere(&view);
                }
                if view.task.forgotten_at.is_some() {
                    return self.task_erased(&view.task.id);
                }
                self.views.insert(view.task.id.clone(), Arc::clone(&view));
                self.task_changed(&view);
            }
            SessionEvent::Erased(id) => self.task_erased(&id),
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
            SessionEvent::Undriven => {
                self.is_undriven = true;
                if self.has_open_requests() {
                    // The driver that this starts gets them too.
                    self.ask(Asked::Note, self.introduce());
                }
            }
            SessionEvent::RootsWanted { server, number } if server == self.options.server => {
                self.questions.roots_wanted.push(number);
                self.ask_for_roots();
            }
            SessionEvent::Server(_)
            | SessionEvent::Notice(_)
            | SessionEvent::Notification { .. }
            | SessionEvent::RootsWanted { .. }
            | SessionEvent::Failed { .. } => {}
        }
    }

    /// How long a call is held before it gets a ticket.
    fn patience(&self) -> Option<Duration> {
        hosts::patience(
            self.options.settings.patience.unwrap_or_default(),
            self.host.limit,
            self.seen_limit,
        )
    }

    fn introduce(&self) -> SessionRequest {
        SessionRequest::Introduce {
            server: self.options.server.clone(),
            host: Box::new(HostProfile {
                is_modern: self.host.is_modern,
                log_level: self.host.log_level,
                directory: self.options.directory.clone(),
                ..self.host.profile.clone()
            }),
        }
    }

    /// The host gave up after this time because of its own limit.
    fn learn_limit(&mut self, after: Duration) {
        self.seen_limit = Some(self.seen_limit.map_or(after, |seen| seen.min(after)));
    }

    /// Whether a task was started by this host in this directory.
    fn is_ours(&self, view: &TaskView) -> bool {
        let (host, directory) = (&self.host.profile.name, &self.options.directory);
        let caller = view.task.caller.as_deref();
        caller.is_some_and(|caller| caller.is_host(host, directory))
    }

    /// A task is on another server. An agent with several servers may ask the wrong one for it.
    fn task_elsewhere(&mut self, view: &TaskView) {
        let is_ours = self.is_ours(view);
        for asked in self.asked.values_mut() {
            if let Asked::Task {
                task, other_server, ..
            } = asked
                && is_ours
                && *task == view.task.id
            {
                *other_server = Some(view.task.server.clone());
            }
        }
    }

    /// The host's requests that wait for a task.
    fn requests_for(&self, task: &TaskId) -> Vec<(String, CallRole)> {
        let waiting = (self.calls.iter()).filter(|(_, call)| call.task.as_ref() == Some(task));
        waiting.map(|(id, call)| (id.clone(), call.role)).collect()
    }

    /// A person removed a task: nothing more comes of it.
    fn task_erased(&mut self, task: &TaskId) {
        for (id, role) in self.requests_for(task) {
            self.calls.remove(&id);
            if role != CallRole::Task {
                self.respond(&id, &failure(&format!("{task} was removed in longhaul")));
            }
        }
        self.views.remove(task);
        self.open_tasks.remove(task);
        self.questions.forget(task);
    }
}
