//! The requests that are in flight: what each is for, what it waits for, until when.

use core::time::Duration;
use std::collections::BTreeMap;

use super::io::{ExchangeId, SaveToken};
use crate::{
    domain::{
        HostRequest, Mono, ProtocolVersion, RequestError, SessionRequestId, TaskId, TaskKind, Tool,
        text,
    },
    protocol::{Body, HttpError},
};

/// The maximum bytes of a pagination cursor; all cursors are remembered, to detect a cycle. How
/// many there are is bounded by the budget of requests.
const CURSOR_BYTES: usize = 16 * 1024;
/// How long a short request may take before it counts as failed; calls have no such limit.
pub(super) const SHORT: Duration = Duration::from_secs(30);
/// How long a poll of a server task may take before it counts as failed.
const POLL_WITHIN: Duration = Duration::from_secs(20);
/// How long a ping may take.
const PING_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take to read a stream a second time.
const REREAD_WITHIN: Duration = Duration::from_secs(5);
/// How long a program may take until it answers its first request: many are downloaded when they start, or load a model.
const PROGRAM_STARTS_WITHIN: Duration = Duration::from_secs(5 * 60);

/// How long a stream may take to name its endpoint; one of another kind stays silent.
const ENDPOINT_WITHIN: Duration = Duration::from_secs(10);

/// What was read of a list that comes in pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages<T> {
    pub(super) so_far: Vec<T>,
    pub(super) cursors: Vec<String>,
}

impl<T> Pages<T> {
    /// The cursor of the page to ask for; the first page has none.
    pub(super) fn cursor(&self) -> Option<&str> {
        self.cursors.last().map(String::as_str)
    }

    /// Whether a cursor leads on; one that was used before leads in a circle.
    pub(super) fn leads_on(&self, next: &str) -> bool {
        next.len() <= CURSOR_BYTES && !self.cursors.iter().any(|cursor| cursor == next)
    }
}

/// The purpose of a request that is in flight.
#[derive(Clone, Debug)]
pub(super) enum RequestKind {
    /// The stream of a task: a call, a resume or a probe, as the task's `StreamState` says.
    Stream(TaskId),
    /// Reads a task's stream again from before its replay gap.
    Reread(TaskId),
    Discover,
    /// The single stream of HTTP+SSE.
    LegacySse,
    Handshake {
        session: Option<String>,
    },
    /// `initialize` while the session is doubted: whether it is an MCP server that refuses everything.
    FindServer,
    Announce,
    ListTools {
        version: ProtocolVersion,
        pages: Pages<Tool>,
    },
    Ping {
        verifies: Option<TaskId>,
    },
    /// Reads the server's list of checkpoints to see how the task is doing.
    Look(TaskId),
    Pause(TaskId),
    Cancel(TaskId),
    /// `tasks/get`.
    Poll(TaskId),
    /// `tasks/result`: stays open until the task ends, and brings its elicitation requests.
    Fetch(TaskId),
    /// The answer to one question of a server task.
    Update(TaskId, String),
    /// The stream of the server's task notifications (`subscriptions/listen`).
    Listen,
    /// The stream of a bare GET.
    Standalone,
    /// `tasks/list`, one page, for a client request.
    ListTasks {
        ask: SessionRequestId,
        pages: Pages<TaskId>,
    },
    /// Reads the server's list of checkpoints for a client request.
    ListCheckpoints {
        ask: SessionRequestId,
    },
    /// `tasks/get` of a task that a client wants to adopt.
    Adopt {
        ask: SessionRequestId,
        server_task: String,
        kind: TaskKind,
        /// Whether the id may belong to a task of the other kind.
        has_other: bool,
    },
    /// A request of a host behind `longhaul proxy`.
    Forward {
        ask: SessionRequestId,
        request: Box<HostRequest>,
        /// Whether it was refused before, for a session that the server did not know. The first time it is sent again.
        is_repeated: bool,
    },
    /// A response to a request of the server, or a notification that nothing depends on. Holds the task and the key of
    /// the question that it answers, if it answers one.
    Reply(Option<(TaskId, String)>),
    TerminateSession,
}

impl RequestKind {
    /// Whether its response is due soon, and not held open.
    pub(super) fn is_short(&self) -> bool {
        !matches!(
            self,
            Self::Stream(_)
                | Self::Fetch(_)
                | Self::Listen
                | Self::Standalone
                | Self::Reread(_)
                | Self::LegacySse
        )
    }

    /// Whether somebody waits for its response or its effect on a call.
    pub(super) fn is_awaited(&self) -> bool {
        !matches!(
            self,
            Self::LegacySse
                | Self::Listen
                | Self::Standalone
                | Self::Ping { .. }
                | Self::Reply(None)
        )
    }

    /// How long it may take before it counts as failed. Calls and streams have no such limit.
    pub(super) fn time_limit(&self, is_process: bool) -> Option<Duration> {
        match self {
            Self::Discover | Self::Handshake { .. } if is_process => Some(PROGRAM_STARTS_WITHIN),
            // The caller of `Forward` has a limit of its own.
            Self::Stream(_)
            | Self::Fetch(_)
            | Self::Listen
            | Self::Standalone
            | Self::Forward { .. } => None,
            Self::Reread(_) => Some(REREAD_WITHIN),
            Self::Ping { .. } => Some(PING_WITHIN),
            Self::Poll(_) => Some(POLL_WITHIN),
            Self::LegacySse => Some(ENDPOINT_WITHIN),
            _ => Some(SHORT),
        }
    }
}

/// What came where a response was due.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoResponse {
    /// Nothing in it has come yet.
    #[error("it answered with JSON that doesn't answer this request")]
    JsonBody,
    #[error("it answered with JSON that doesn't answer this request")]
    OtherJson,
    #[error("it answered with text that is not JSON")]
    Text,
    #[error("it sent an empty response")]
    Empty,
    /// A body of this media type, such as a page.
    #[error("it answered with {:.60}, not MCP", text::clean_line(.0))]
    Other(String),
}

impl NoResponse {
    /// What a body is that can hold no message.
    pub(super) fn of_body(body: &Body) -> Option<Self> {
        match body {
            Body::Stream | Body::Json => None,
            Body::Empty(_) => Some(Self::Empty),
            Body::Other { media } => {
                let media = media.as_deref().unwrap_or("an unnamed type");
                Some(Self::Other(media.to_owned()))
            }
        }
    }
}

/// A request that is in flight.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) kind: RequestKind,
    /// The JSON-RPC id of the response that it waits for; absent for the stream of a task.
    pub(super) request_id: Option<String>,
    pub(super) until: Option<Mono>,
    pub(super) is_opened: bool,
    /// When it was sent, if its response shows the server's latency.
    pub(super) sent_at: Option<Mono>,
    /// The save that must be on disk before it is sent.
    pub(super) after: Option<SaveToken>,
    /// What came instead of the response.
    pub(super) came: Option<NoResponse>,
    /// The server session that it was sent in; a refusal says nothing about any other session.
    pub(super) session_number: u64,
    pub(super) is_modern: bool,
    /// How many requests it took beyond the first, most likely because of redirects.
    pub(super) more_requests: u32,
    /// A POST of HTTP+SSE: its response comes on the single stream.
    pub(super) is_by_legacy_sse: bool,
}

impl InFlight {
    /// The number of the session that it was sent in. What is served in the modern era says nothing about a session.
    pub(super) fn session(&self) -> Option<u64> {
        (!self.is_modern).then_some(self.session_number)
    }

    /// Whether an HTTP error carries the JSON-RPC response: 2026-07-28 gives errors an HTTP status of their own, and some
    /// older servers do so for an unknown task.
    pub(super) fn is_answered_by(&self, refusal: &HttpError) -> bool {
        let Some(error) = refusal.error.as_ref().filter(|_| self.request_id.is_some()) else {
            return false;
        };
        if !self.is_modern {
            return refusal.status == 400
                && self.is_about_task()
                && matches!(error.code, -32603..=-32601);
        }
        !matches!(self.kind, RequestKind::Discover)
            && matches!(refusal.status, 200..=299 | 400 | 404)
            && matches!(error.code, -32603..=-32601 | -32021..=-32020)
    }

    /// Whether it is a POST whose answer comes on the single stream of HTTP+SSE.
    pub(super) fn is_posted(&self) -> bool {
        let awaits_answer =
            self.request_id.is_some() || matches!(self.kind, RequestKind::Stream(_));
        self.is_by_legacy_sse && awaits_answer
    }

    /// Whether a server may refuse it for a session that it does not know.
    pub(super) fn is_unknown(&self, refusal: &HttpError) -> bool {
        self.is_by_legacy_sse
            && !matches!(self.kind, RequestKind::Handshake { .. })
            && matches!(refusal.status, 400 | 404 | 410)
    }

    fn is_poll(&self) -> bool {
        matches!(self.kind, RequestKind::Poll(_))
    }

    fn is_about_task(&self) -> bool {
        matches!(
            self.kind,
            RequestKind::Poll(_)
                | RequestKind::Fetch(_)
                | RequestKind::Update(..)
                | RequestKind::Cancel(_)
                | RequestKind::ListTasks { .. }
                | RequestKind::Adopt { .. }
        )
    }
}

/// The requests that wait for their end, and what they show of the connection.
#[derive(Debug, Default)]
pub(super) struct InFlightRequests {
    by_exchange: BTreeMap<ExchangeId, InFlight>,
    next_exchange: ExchangeId,
    /// Random per process, so that a restarted process never uses a request id twice.
    prefix: String,
    /// How many request ids were made.
    counter: u64,
    /// How many [`RequestKind::Poll`]s are among them.
    pub(super) polls: usize,
    /// HTTP requests sent by this process, redirects included.
    pub(super) sent: u64,
    /// When the last byte went out or came in.
    pub(super) last_traffic: Mono,
    /// How long the server took to begin its latest answer to a short request.
    pub(super) latency: Option<Duration>,
}

impl InFlightRequests {
    pub(super) fn new(prefix: String, now: Mono) -> Self {
        Self {
            next_exchange: 1,
            prefix,
            last_traffic: now,
            ..Self::default()
        }
    }

    /// A fresh JSON-RPC id.
    pub(super) fn new_request_id(&mut self) -> String {
        self.counter += 1;
        format!("{}-{}", self.prefix, self.counter)
    }

    /// The requests of hosts.
    pub(super) fn forwards(
        &self,
    ) -> impl Iterator<Item = (ExchangeId, SessionRequestId, &HostRequest)> {
        self.iter().filter_map(|(exchange, it)| match &it.kind {
            RequestKind::Forward { ask, request, .. } => Some((exchange, *ask, &**request)),
            _ => None,
        })
    }

    /// The request of a host with this key.
    pub(super) fn forward(
        &self,
        key: &str,
    ) -> Option<(ExchangeId, SessionRequestId, &HostRequest)> {
        self.forwards().find(|(.., request)| request.key == key)
    }

    pub(super) fn insert(&mut self, in_flight: InFlight, now: Mono) -> ExchangeId {
        let exchange = self.next_exchange;
        self.next_exchange += 1;
        self.sent += 1;
        self.last_traffic = now;
        self.polls += usize::from(in_flight.is_poll());
        self.by_exchange.insert(exchange, in_flight);
        exchange
    }

    pub(super) fn remove(&mut self, exchange: ExchangeId) -> Option<InFlight> {
        let in_flight = self.by_exchange.remove(&exchange)?;
        self.polls -= usize::from(in_flight.is_poll());
        Some(in_flight)
    }

    pub(super) fn get(&self, exchange: ExchangeId) -> Option<&InFlight> {
        self.by_exchange.get(&exchange)
    }

    pub(super) fn get_mut(&mut self, exchange: ExchangeId) -> Option<&mut InFlight> {
        self.by_exchange.get_mut(&exchange)
    }

    /// The response has begun.
    pub(super) fn mark_opened(&mut self, exchange: ExchangeId, now: Mono) -> Option<&mut InFlight> {
        let in_flight = self.by_exchange.get_mut(&exchange)?;
        in_flight.is_opened = true;
        if let Some(sent_at) = in_flight.sent_at {
            self.latency = Some(now.since(sent_at));
        }
        Some(in_flight)
    }

    /// The request with this JSON-RPC id.
    pub(super) fn of_request(&self, request_id: &str) -> Option<(ExchangeId, InFlight)> {
        self.iter()
            .find(|(_, in_flight)| in_flight.request_id.as_deref() == Some(request_id))
            .map(|(exchange, in_flight)| (exchange, in_flight.clone()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ExchangeId, &InFlight)> {
        self.by_exchange
            .iter()
            .map(|(exchange, in_flight)| (*exchange, in_flight))
    }

    pub(super) fn has(&self, is_it: impl Fn(&RequestKind) -> bool) -> bool {
        self.values().any(|in_flight| is_it(&in_flight.kind))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &InFlight> {
        self.by_exchange.values()
    }

    /// The deadlines of all requests that have one.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Mono> {
        self.values().filter_map(|in_flight| in_flight.until)
    }

    /// The requests whose deadline has passed.
    pub(super) fn expired(&self, now: Mono) -> Vec<ExchangeId> {
        self.iter()
            .filter(|(_, in_flight)| in_flight.until.is_some_and(|until| now >= until))
            .map(|(exchange, _)| exchange)
            .collect()
    }

    /// Gives every request with a deadline at least until then.
    pub(super) fn extend_deadlines(&mut self, at_least: Mono) {
        for in_flight in self.by_exchange.values_mut() {
            in_flight.until = in_flight.until.map(|until| until.max(at_least));
        }
    }

    /// The requests that wait for this save, but those that carry a task's stream.
    pub(super) fn waiting_for(&self, token: SaveToken) -> Vec<ExchangeId> {
        let waits = |in_flight: &InFlight| {
            in_flight.after == Some(token) && !matches!(in_flight.kind, RequestKind::Stream(_))
        };
        self.iter()
            .filter(|(_, in_flight)| waits(in_flight))
            .map(|(exchange, _)| exchange)
            .collect()
    }
}

/// The refusal for a task that this link does not hold.
pub(super) fn no_such_task(id: &TaskId) -> RequestError {
    RequestError::Usage(format!(
        "{id} has ended or is not in this session; `longhaul ls --all` lists all tasks"
    ))
}
