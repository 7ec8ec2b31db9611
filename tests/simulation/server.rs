//! A model of an MCP server: what it does with requests, and everything that real ones do wrong. The stateful era and its
//! streams are here, the rest in `tasks`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use longhaul::{
    domain::{EventId, Wall},
    protocol::{Body, ExchangeEvent, HttpError, Method, Request},
};
use serde_json::{Value, json};

use super::tasks::{TaskBehavior, TaskHost};

pub(crate) type Conn = usize;

/// What a GET with a cursor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replay {
    /// What is missing, then live.
    Good,
    /// What is missing, then the end.
    Closes,
    /// What is missing, then silence for ever.
    Silent,
    /// The event named by the cursor again, what is missing, then live.
    Inclusive,
    /// What happens while it replays is lost, then a newer priming id, then live.
    Loses,
}

/// What a GET with an unknown cursor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownCursor {
    Silent,
    Empty,
    Refused,
}

/// What a request in a lost session does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostSession {
    NotFoundJson,
    NotFoundText,
    BadText,
}

/// What `notifications/cancelled` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnCancel {
    Answers,
    StopsSilently,
    Ignores,
}

/// What GET does at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnGet {
    Works,
    NotAllowed,
    Breaks,
}

/// The checkpoint convention, as a good server and as the tutorial's keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convention {
    Good,
    Tutorial,
}

/// How one server behaves.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "habits that go in any mixture"
)]
pub(crate) struct Style {
    pub(crate) gives_ids: bool,
    pub(crate) primes: bool,
    pub(crate) retry_ms: Option<u64>,
    /// Events that its store keeps of a stream.
    pub(crate) keeps: usize,
    /// A finished stream is forgotten.
    pub(crate) forgets_done: bool,
    pub(crate) replay: Replay,
    pub(crate) unknown_cursor: UnknownCursor,
    /// 409 while the old connection counts as attached; otherwise it replays and closes.
    pub(crate) conflicts: bool,
    pub(crate) lost_session: LostSession,
    pub(crate) on_cancel: OnCancel,
    pub(crate) on_get: OnGet,
    pub(crate) convention: Option<Convention>,
    /// What the list of a restarted server says of a loop that died with it.
    pub(crate) says_interrupted: bool,
    pub(crate) has_session: bool,
    pub(crate) comments: bool,
    pub(crate) answers_json: bool,
    /// Replays bring the events of all streams of the session.
    pub(crate) crosses: bool,
    /// Sessions and events survive a restart; calls that died with it end in words.
    pub(crate) survives: bool,
    /// How long it takes a connection for dead that is.
    pub(crate) notices_ms: u64,
    /// It hangs up now and then on purpose.
    pub(crate) hangs_up: bool,
    /// Plain tools ask on the stream of a bare GET.
    pub(crate) asks_beside: bool,
    /// It serves a session only after `notifications/initialized`, as the Python SDK does.
    pub(crate) is_strict: bool,
    /// So many redirects lead to it.
    pub(crate) hops: u32,
}

impl Style {
    pub(crate) fn drawn(rng: &mut fastrand::Rng) -> Self {
        let mut one_in = |n: u32| rng.u32(0..n) == 0;
        let gives_ids = !one_in(5);
        let primes = gives_ids && !one_in(4);
        let (conflicts, forgets_done, has_session) = (one_in(5), one_in(8), !one_in(8));
        let (says_interrupted, comments, answers_json) = (one_in(2), !one_in(4), one_in(3));
        let (survives, hangs_up) = (one_in(4), gives_ids && one_in(6));
        let has_retry = one_in(3);
        let crosses = gives_ids && one_in(8);
        // A store that replays all streams together forgets them together.
        let (few, forgets_done) = (!crosses && one_in(8), forgets_done && !crosses);
        let replay = match rng.u32(0..10) {
            _ if crosses => Replay::Silent,
            0..4 => Replay::Good,
            4 | 5 => Replay::Closes,
            6 => Replay::Inclusive,
            7 => Replay::Silent,
            _ => Replay::Loses,
        };
        Self {
            gives_ids,
            primes,
            retry_ms: has_retry.then(|| rng.u64(10..3000)),
            keeps: if few { rng.usize(4..30) } else { usize::MAX },
            forgets_done,
            replay,
            unknown_cursor: match rng.u32(0..3) {
                0 => UnknownCursor::Silent,
                1 => UnknownCursor::Empty,
                _ => UnknownCursor::Refused,
            },
            conflicts,
            lost_session: match rng.u32(0..3) {
                0 => LostSession::NotFoundJson,
                1 => LostSession::NotFoundText,
                _ => LostSession::BadText,
            },
            on_cancel: match rng.u32(0..4) {
                0 | 1 => OnCancel::Answers,
                2 => OnCancel::StopsSilently,
                _ => OnCancel::Ignores,
            },
            on_get: match rng.u32(0..20) {
                0 => OnGet::NotAllowed,
                1 => OnGet::Breaks,
                _ => OnGet::Works,
            },
            convention: match rng.u32(0..5) {
                0 | 1 => Some(Convention::Good),
                2 | 3 => Some(Convention::Tutorial),
                _ => None,
            },
            says_interrupted,
            has_session,
            comments,
            answers_json,
            crosses,
            survives,
            notices_ms: *[20, 500, 8000, 60_000].get(rng.usize(0..4)).unwrap_or(&20),
            hangs_up,
            asks_beside: rng.u32(0..4) == 0,
            is_strict: rng.u32(0..2) == 0,
            hops: if rng.u32(0..8) == 0 { rng.u32(1..4) } else { 0 },
        }
    }
}

impl Style {
    /// Whether whatever was sent can be had again, at any time.
    pub(crate) fn always_replays(&self) -> bool {
        self.on_get == OnGet::Works && self.keeps == usize::MAX && !self.forgets_done
    }
}

/// What an event of a stream is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Prime,
    Progress(f64),
    Log(String),
    /// A request of the server, with its number.
    Ask(u64),
    Response,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) id: Option<EventId>,
    pub(crate) data: String,
    /// Its place among all events of the server.
    pub(crate) order: u64,
    pub(crate) what: What,
    /// The server itself let it fall.
    pub(crate) is_dropped: bool,
}

/// The stream of one call.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) session: Option<String>,
    pub(crate) request: String,
    pub(crate) token: Value,
    pub(crate) key: String,
    pub(crate) events: Vec<Event>,
    pub(crate) conn: Option<Conn>,
    pub(crate) is_done: bool,
    replays_until: u64,
    is_json: bool,
    /// Modern: no event ids, and a disconnect ends the work.
    is_modern: bool,
}

/// A plain tool at work.
#[derive(Clone, Debug)]
struct Run {
    stream: usize,
    key: String,
    step: u64,
    steps: u64,
    every: u64,
    next: u64,
    fails: bool,
    /// Questions that it still asks.
    asks: u64,
    /// The number of its question, and when it gives up.
    waits_for: Option<u64>,
}

/// A loop of a checkpoint tool.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    position: u64,
    every: u64,
    next: u64,
    pub(crate) moved: u64,
    streams: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    task_id: String,
    key: String,
    total: u64,
    batch: u64,
    position: u64,
    /// Rows written over all loops: more than the total if two ran.
    pub(crate) rows: u64,
    status: &'static str,
    updated: u64,
    is_pausing: bool,
    pub(crate) loops: Vec<Loop>,
}

/// The server.
pub(crate) struct Server {
    pub(crate) style: Style,
    pub(super) rng: fastrand::Rng,
    pub(crate) task_host: TaskHost,
    pub(crate) now: u64,
    pub(crate) sessions: BTreeSet<String>,
    /// The sessions whose `notifications/initialized` came in.
    announced: BTreeSet<String>,
    next_session: u64,
    pub(crate) streams: Vec<Stream>,
    by_id: HashMap<EventId, (usize, usize)>,
    by_request: HashMap<String, usize>,
    /// The stream beside all calls, of each session.
    beside: BTreeMap<Option<String>, usize>,
    order: u64,
    runs: Vec<Run>,
    pub(crate) checkpoints: BTreeMap<String, Checkpoint>,
    /// How often each plain call was begun.
    pub(crate) begun: BTreeMap<String, u32>,
    pub(crate) barred_until: u64,
    pub(crate) busy_until: u64,
    /// Until when something else answers.
    pub(crate) intercepted: Option<(u64, Interceptor)>,
    /// The ids of requests that were answered with a page.
    pub(crate) intercepted_ids: BTreeSet<String>,
    next_comment: u64,
    /// What goes down the wire, in order.
    pub(crate) wire: Vec<(Conn, ExchangeEvent)>,
    pub(crate) violations: Vec<String>,
    /// Work that a DELETE of its session ended.
    pub(crate) ended_by_delete: Vec<String>,
    /// Streams whose events cannot be had any more, for the truth about `lost`.
    forgotten: BTreeSet<usize>,
    pub(crate) requests: Vec<u64>,
    pub(crate) silent_conns: BTreeSet<Conn>,
}

/// What may answer in place of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interceptor {
    /// A reverse proxy that does not find its server.
    Proxy,
    /// A web server that serves files.
    StaticFiles,
    /// A redirect to another host, where a person logs in.
    LoginPage,
    /// A page in place of every response.
    Portal,
}

impl Interceptor {
    pub(crate) fn draw(rng: &mut fastrand::Rng) -> Self {
        match rng.u32(0..4) {
            0 => Self::Proxy,
            1 => Self::StaticFiles,
            2 => Self::LoginPage,
            _ => Self::Portal,
        }
    }
}

impl Server {
    pub(crate) fn new(style: Style, behavior: Option<TaskBehavior>, seed: u64) -> Self {
        let is_new = behavior.is_some();
        Self {
            style,
            rng: fastrand::Rng::with_seed(seed),
            task_host: TaskHost::new(behavior.unwrap_or_else(TaskBehavior::old), is_new),
            now: 0,
            sessions: BTreeSet::new(),
            announced: BTreeSet::new(),
            next_session: 1,
            streams: Vec::new(),
            by_id: HashMap::new(),
            by_request: HashMap::new(),
            beside: BTreeMap::new(),
            order: 0,
            runs: Vec::new(),
            checkpoints: BTreeMap::new(),
            begun: BTreeMap::new(),
            barred_until: 0,
            busy_until: 0,
            intercepted: None,
            intercepted_ids: BTreeSet::new(),
            next_comment: 15_000,
            wire: Vec::new(),
            violations: Vec::new(),
            ended_by_delete: Vec::new(),
            forgotten: BTreeSet::new(),
            requests: Vec::new(),
            silent_conns: BTreeSet::new(),
        }
    }

    pub(super) fn send(&mut self, conn: Conn, arrival: ExchangeEvent) {
        self.wire.push((conn, arrival));
    }

    pub(super) fn refuse(&mut self, conn: Conn, status: u16, said: &str, retry_after: Option<u64>) {
        let refusal = HttpError {
            status,
            retry_after: retry_after.map(std::time::Duration::from_secs),
            server_text: Some(said.to_owned()),
            ..HttpError::default()
        };
        self.send(conn, ExchangeEvent::Refused(Box::new(refusal)));
    }

    pub(super) fn open(&mut self, conn: Conn, body: Body, session: Option<String>) {
        self.send(conn, ExchangeEvent::Opened { body, session });
    }

    /// A short answer, as JSON or as a stream of one event.
    pub(super) fn answer(
        &mut self,
        conn: Conn,
        id: &Value,
        result: &Value,
        session: Option<String>,
    ) {
        let data = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let body = if self.style.answers_json {
            Body::Json
        } else {
            Body::Stream
        };
        self.open(conn, body, session);
        self.send(
            conn,
            ExchangeEvent::Event {
                id: None,
                retry_ms: None,
                data,
            },
        );
        self.send(conn, ExchangeEvent::Ended);
    }

    /// Whether a session is there.
    pub(crate) fn knows(&self, session: Option<&String>) -> bool {
        !self.style.has_session || session.is_some_and(|session| self.sessions.contains(session))
    }

    /// Something else answers a request.
    fn intercept(&mut self, conn: Conn, how: Interceptor, request: &Request) {
        match how {
            Interceptor::StaticFiles if !matches!(request.method, Method::Get { .. }) => {
                self.refuse(conn, 405, "405 Not Allowed", None);
            }
            Interceptor::Proxy | Interceptor::StaticFiles => {
                self.refuse(conn, 404, "404 page not found", None);
            }
            Interceptor::LoginPage => self.refuse(conn, 302, "", None),
            Interceptor::Portal => {
                if let Method::Post { body, .. } = &request.method {
                    let message: Value = serde_json::from_str(body).expect("we send JSON");
                    self.intercepted_ids.insert(message["id"].to_string());
                }
                let media = Some("text/html".to_owned());
                self.open(conn, Body::Other { media }, None);
                self.send(conn, ExchangeEvent::Ended);
            }
        }
    }

    /// A request has come in whole.
    pub(crate) fn request(&mut self, conn: Conn, request: &Request) {
        self.note_request(request);
        self.redirect(conn, request);
        if self.now < self.barred_until {
            return self.refuse(conn, 401, "who are you", None);
        }
        if self.now < self.busy_until {
            return self.refuse(conn, 503, "busy", Some(3));
        }
        if let Some((until, how)) = self.intercepted
            && self.now < until
        {
            return self.intercept(conn, how, request);
        }
        if self.task_host.is_new && self.meets_newer(conn, request) {
            return;
        }
        match &request.method {
            Method::Post { body, .. } => {
                let message: Value = serde_json::from_str(body).expect("we send JSON");
                self.posted(conn, request, &message);
            }
            Method::Get { cursor } => self.asked_for(conn, request, cursor.as_ref()),
            Method::Delete => self.deleted(conn, request),
        }
    }

    /// The hops of a request before it comes in; those of a call and of a look at a task are nobody's budget.
    fn redirect(&mut self, conn: Conn, request: &Request) {
        let is_free = match &request.method {
            Method::Post { body, .. } => {
                let message: Value = serde_json::from_str(body).expect("we send JSON");
                let is_call = !message["params"]["arguments"]["key"].is_null();
                is_call || message["method"] == "tasks/get"
            }
            _ => false,
        };
        if self.style.hops > 0 && !is_free {
            let hops = self.style.hops as usize;
            self.requests.extend(std::iter::repeat_n(self.now, hops));
            self.send(conn, ExchangeEvent::MoreRequests(self.style.hops));
        }
    }

    fn no_session(&mut self, conn: Conn) {
        match self.style.lost_session {
            LostSession::NotFoundJson => self.refuse_with(conn, 404, -32001, None),
            LostSession::NotFoundText => {
                self.refuse(conn, 404, "Not Found: Session not found", None);
            }
            LostSession::BadText => {
                self.refuse(conn, 400, "Bad Request: No valid session ID", None);
            }
        }
    }

    fn posted(&mut self, conn: Conn, request: &Request, message: &Value) {
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let id = message["id"].clone();
        if method == "initialize" {
            let session = self.style.has_session.then(|| {
                let session = format!("session-{}", self.next_session);
                self.next_session += 1;
                self.sessions.insert(session.clone());
                session
            });
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": self.capabilities(),
                "serverInfo": {"name": "model", "version": "1"}});
            return self.answer(conn, &id, &result, session);
        }
        if !self.knows(request.session.as_ref()) {
            return self.no_session(conn);
        }
        if let Some(session) = request.session.as_ref().filter(|_| self.style.is_strict) {
            if method == "notifications/initialized" {
                self.announced.insert(session.clone());
            } else if method != "ping" && !self.announced.contains(session) {
                self.violations
                    .push(format!("{method} before notifications/initialized"));
                return self.refuse(conn, 400, "Received request before initialization", None);
            }
        }
        match method.as_str() {
            "ping" => self.answer(conn, &id, &json!({}), None),
            "tools/list" => {
                let tools = self.tools(false);
                self.answer(conn, &id, &tools, None);
            }
            "tools/call" => self.called(conn, request, message),
            "notifications/cancelled" => {
                let wanted = message["params"]["requestId"].as_str().unwrap_or_default();
                self.cancelled(request.session.as_ref(), wanted);
                self.open(conn, Body::Empty(202), None);
                self.send(conn, ExchangeEvent::Ended);
            }
            _ => {
                self.open(conn, Body::Empty(202), None);
                self.send(conn, ExchangeEvent::Ended);
            }
        }
    }

    pub(super) fn tools(&self, is_modern: bool) -> Value {
        let mut plain = json!({"name": "steps", "inputSchema": {"type": "object", "properties": {
            "key": {"type": "string"}, "steps": {}, "every": {}, "fails": {}, "asks": {}, "rounds": {}}}});
        if let Some(support) = self.task_support().filter(|_| !is_modern) {
            plain["execution"] = json!({"taskSupport": support});
        }
        let work = json!({"name": "work", "inputSchema": {"type": "object", "properties": {
            "key": {"type": "string"}, "total": {}, "batch": {}, "every": {},
            "client_id": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}});
        let list = json!({"name": "list_session_tasks", "inputSchema": {"type": "object", "properties": {
            "client_id": {"type": "string"}}}});
        let pause = json!({"name": "pause_task", "inputSchema": {"type": "object", "properties": {
            "task_id": {"type": "string"}}}});
        let mut tools = vec![plain];
        if self.style.convention.is_some() {
            tools.extend([work, list, pause]);
        }
        if self.task_host.has_task_tool() {
            let mut job = json!({"name": "job", "inputSchema": {"type": "object"}});
            if !is_modern {
                job["execution"] = json!({"taskSupport": "optional"});
            }
            tools.push(job);
        }
        json!({"tools": tools})
    }

    fn companion(&mut self, conn: Conn, id: &Value, answer: &Value) {
        let result = json!({"content": [{"type": "text", "text": answer.to_string()}]});
        self.answer(conn, id, &result, None);
    }

    pub(super) fn called(&mut self, conn: Conn, request: &Request, message: &Value) {
        let params = &message["params"];
        let arguments = &params["arguments"];
        let id = message["id"].clone();
        let number = |key: &str, otherwise: u64| arguments[key].as_u64().unwrap_or(otherwise);
        let key = arguments["key"].as_str().unwrap_or_default().to_owned();
        match params["name"].as_str().unwrap_or_default() {
            "list_session_tasks" => {
                let client = arguments["client_id"].as_str().unwrap_or_default();
                let list: Vec<Value> = self
                    .checkpoints
                    .get(client)
                    .map(listed)
                    .into_iter()
                    .collect();
                self.companion(conn, &id, &json!({"tasks": list}));
            }
            "pause_task" => {
                let wanted = arguments["task_id"].as_str().unwrap_or_default();
                let answer = self.pause(wanted);
                self.companion(conn, &id, &answer);
            }
            "work" => {
                let client = arguments["client_id"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let stream = self.begin_stream(
                    conn,
                    request,
                    &id,
                    &params["_meta"]["progressToken"],
                    key,
                    false,
                );
                let size = (
                    number("total", 20),
                    number("batch", 2),
                    number("every", 500),
                );
                self.work(stream, client, size);
            }
            _ => {
                let steps = number("steps", 0);
                let is_json = self.style.answers_json && steps == 0 && number("asks", 0) == 0;
                let stream = self.begin_stream(
                    conn,
                    request,
                    &id,
                    &params["_meta"]["progressToken"],
                    key.clone(),
                    is_json,
                );
                *self.begun.entry(key.clone()).or_default() += 1;
                let every = number("every", 1000);
                let is_modern = self.streams.get(stream).is_some_and(|of| of.is_modern);
                self.runs.push(Run {
                    stream,
                    key,
                    step: 0,
                    steps,
                    every,
                    next: self.now + every,
                    fails: arguments["fails"].as_bool().unwrap_or_default(),
                    asks: number("asks", 0) * u64::from(!is_modern),
                    waits_for: None,
                });
            }
        }
    }

    fn begin_stream(
        &mut self,
        conn: Conn,
        request: &Request,
        id: &Value,
        token: &Value,
        key: String,
        is_json: bool,
    ) -> usize {
        let stream = self.streams.len();
        let request_id = id.as_str().unwrap_or_default().to_owned();
        let is_modern = request.version == Some(longhaul::domain::ProtocolVersion::V20260728);
        if self.by_request.insert(request_id.clone(), stream).is_some() {
            self.violations
                .push(format!("request id {request_id} was used twice"));
        }
        self.streams.push(Stream {
            session: request.session.clone(),
            request: request_id,
            token: token.clone(),
            key,
            events: Vec::new(),
            conn: Some(conn),
            is_done: false,
            replays_until: 0,
            is_json,
            is_modern,
        });
        if !is_json {
            self.open(conn, Body::Stream, None);
            if self.style.primes && !is_modern {
                self.emit(stream, &What::Prime, "");
            }
        }
        stream
    }

    fn emit(&mut self, stream: usize, what: &What, data: &str) {
        let gives_ids = self.style.gives_ids
            && self
                .streams
                .get(stream)
                .is_some_and(|s| !s.is_json && !s.is_modern);
        self.order += 1;
        let order = self.order;
        let retry_ms = self.style.retry_ms.filter(|_| *what == What::Prime);
        let Some(of) = self.streams.get_mut(stream) else {
            return;
        };
        let id = gives_ids
            .then(|| EventId::from(format!("{:x}/{}", stream * 7919 % 4093, of.events.len())));
        let is_lost = of.conn.is_some() && self.now < of.replays_until;
        let event = Event {
            id: id.clone(),
            data: data.to_owned(),
            order,
            is_dropped: is_lost || !gives_ids && of.conn.is_none(),
            what: what.clone(),
        };
        if let Some(id) = &id {
            self.by_id.insert(id.clone(), (stream, of.events.len()));
        }
        of.events.push(event);
        if *what == What::Response {
            of.is_done = true;
        }
        let conn = of.conn.filter(|_| !is_lost);
        // A result that fell into a replay leaves its stream open and silent.
        if *what == What::Response && !is_lost {
            of.conn = None;
        }
        if let Some(conn) = conn {
            if self.streams.get(stream).is_some_and(|s| s.is_json) {
                self.open(conn, Body::Json, None);
            }
            // Some servers number the events of the modern era too, which can resume nothing.
            let useless =
                self.streams.get(stream).is_some_and(|s| s.is_modern) && self.style.primes;
            let number = || EventId::from(format!("modern/{order}"));
            let arrival = ExchangeEvent::Event {
                id: id.clone().or_else(|| useless.then(number)),
                retry_ms,
                data: data.to_owned(),
            };
            self.send(conn, arrival.clone());
            if id.is_some() && self.rng.u32(0..60) == 0 {
                self.send(conn, arrival);
            }
            if *what == What::Response {
                self.send(conn, ExchangeEvent::Ended);
            } else if self.style.hangs_up && id.is_some() && self.rng.u32(0..20) == 0 {
                if let Some(of) = self.streams.get_mut(stream) {
                    of.conn = None;
                }
                self.send(conn, ExchangeEvent::Ended);
            }
        }
        if *what == What::Response && self.style.forgets_done {
            self.forgotten.insert(stream);
        }
    }

    fn report(&mut self, stream: usize, value: u64, total: u64, words: &str) {
        let Some(of) = self.streams.get(stream) else {
            return;
        };
        let data = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": of.token, "progress": value, "total": total, "message": words}});
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let value = value as f64;
        self.emit(stream, &What::Progress(value), &data.to_string());
    }

    fn log(&mut self, stream: usize, words: &str) {
        let data = json!({"jsonrpc": "2.0", "method": "notifications/message",
            "params": {"level": "info", "data": words}});
        self.emit(stream, &What::Log(words.to_owned()), &data.to_string());
    }

    fn result(&mut self, stream: usize, text: &str, is_error: bool) {
        let Some(of) = self.streams.get(stream) else {
            return;
        };
        let data = json!({"jsonrpc": "2.0", "id": of.request,
            "result": {"content": [{"type": "text", "text": text}], "isError": is_error}});
        self.emit(stream, &What::Response, &data.to_string());
    }

    fn error(&mut self, stream: usize, code: i64, words: &str) {
        let Some(of) = self.streams.get(stream).filter(|of| !of.is_done) else {
            return;
        };
        let data =
            json!({"jsonrpc": "2.0", "id": of.request, "error": {"code": code, "message": words}});
        self.emit(stream, &What::Response, &data.to_string());
    }

    fn work(&mut self, stream: usize, client: String, (total, batch, every): (u64, u64, u64)) {
        let now = self.now;
        let is_good = self.style.convention == Some(Convention::Good);
        let key = self
            .streams
            .get(stream)
            .map(|of| of.key.clone())
            .unwrap_or_default();
        let count = self.checkpoints.len();
        let checkpoint = self
            .checkpoints
            .entry(client)
            .or_insert_with(|| Checkpoint {
                task_id: format!("cp-{count}"),
                key,
                total,
                batch,
                position: 0,
                rows: 0,
                status: "running",
                updated: now,
                is_pausing: false,
                loops: Vec::new(),
            });
        let position = checkpoint.position;
        if checkpoint.status == "completed" {
            let text = json!({"status": "completed", "rows": checkpoint.total}).to_string();
            return self.result(stream, &text, false);
        }
        if is_good && let Some(running) = checkpoint.loops.first_mut() {
            running.streams.push(stream);
        } else {
            if let Some(old) = checkpoint
                .loops
                .iter()
                .find(|old| now.saturating_sub(old.moved) < 4000)
            {
                self.violations.push(format!(
                    "a second loop for {} while the first moved {} ms ago",
                    checkpoint.key,
                    now - old.moved
                ));
            }
            (checkpoint.status, checkpoint.updated, checkpoint.is_pausing) =
                ("running", now, false);
            checkpoint.loops.push(Loop {
                position,
                every,
                next: now + every,
                moved: now,
                streams: vec![stream],
            });
        }
        if position > 0 {
            self.report(stream, position, total, "resuming from the checkpoint");
        }
    }

    fn pause(&mut self, task_id: &str) -> Value {
        let is_good = self.style.convention == Some(Convention::Good);
        let sticks = is_good || self.rng.u32(0..5) == 0;
        let now = self.now;
        let Some(checkpoint) = self.checkpoints.values_mut().find(|c| c.task_id == task_id) else {
            return json!({"success": false});
        };
        if checkpoint.status == "running" || checkpoint.status == "interrupted" {
            checkpoint.is_pausing = sticks && !checkpoint.loops.is_empty();
            if !is_good || checkpoint.loops.is_empty() {
                // The tutorial's only sets the word; its loop writes over it unless it happens to read it first.
                (checkpoint.status, checkpoint.updated) = ("paused", now);
            }
        }
        json!({"success": true})
    }

    fn cancelled(&mut self, session: Option<&String>, request: &str) {
        let Some(stream) = self.by_request.get(request).copied() else {
            return;
        };
        let is_theirs = self.streams.get(stream).is_some_and(|of| {
            !of.is_done && (of.session.as_ref() == session || !self.style.has_session)
        });
        if !is_theirs || self.style.on_cancel == OnCancel::Ignores {
            return;
        }
        let is_good = self.style.convention == Some(Convention::Good);
        self.runs.retain(|run| run.stream != stream);
        let mut answered = vec![stream];
        for checkpoint in self.checkpoints.values_mut() {
            if let Some(at) = checkpoint
                .loops
                .iter()
                .position(|l| l.streams.contains(&stream))
            {
                answered = checkpoint.loops.remove(at).streams;
                if is_good {
                    (checkpoint.status, checkpoint.updated) = ("cancelled", self.now);
                }
            }
        }
        if self.style.on_cancel == OnCancel::Answers {
            for stream in answered {
                self.error(stream, 0, "Request cancelled");
            }
        }
    }

    /// The position of an event that its store still has.
    fn find(&self, cursor: &str) -> Option<(usize, usize)> {
        let (stream, at) = self.by_id.get(cursor).copied()?;
        let of = self.streams.get(stream)?;
        let is_kept = !self.forgotten.contains(&stream)
            && at.saturating_add(self.style.keeps) >= of.events.len();
        is_kept.then_some((stream, at))
    }

    fn asked_for(&mut self, conn: Conn, request: &Request, cursor: Option<&EventId>) {
        if !self.knows(request.session.as_ref()) {
            return self.no_session(conn);
        }
        if cursor.is_none() && self.style.asks_beside && self.style.on_get == OnGet::Works {
            return self.on_listen(conn, request.session.as_ref());
        }
        match (self.style.on_get, cursor) {
            (OnGet::NotAllowed, _) | (_, None) => return self.refuse(conn, 405, "no", None),
            (OnGet::Breaks, _) => return self.refuse(conn, 500, "oops", None),
            _ => {}
        }
        let known = cursor.and_then(|cursor| self.find(cursor));
        let Some((stream, at)) = known else {
            match self.style.unknown_cursor {
                UnknownCursor::Refused => self.refuse(conn, 400, "Invalid event ID", None),
                UnknownCursor::Empty => {
                    self.open(conn, Body::Stream, None);
                    self.send(conn, ExchangeEvent::Ended);
                }
                UnknownCursor::Silent => {
                    self.open(conn, Body::Stream, None);
                    self.silent_conns.insert(conn);
                }
            }
            return;
        };
        let is_attached = self.streams.get(stream).is_some_and(|of| of.conn.is_some());
        if is_attached && self.style.conflicts {
            return self.refuse(conn, 409, "Stream already has an active connection", None);
        }
        self.open(conn, Body::Stream, None);
        let from = at + usize::from(self.style.replay != Replay::Inclusive);
        let mut events: Vec<Event> = match self.streams.get(stream) {
            Some(of) => of.events.iter().skip(from).cloned().collect(),
            None => Vec::new(),
        };
        if self.style.crosses {
            let session = request.session.as_ref();
            let order = self
                .streams
                .get(stream)
                .and_then(|of| Some(of.events.get(at)?.order));
            let others = self.streams.iter().enumerate().filter(|(other, of)| {
                *other != stream
                    && !self.forgotten.contains(other)
                    && of.session.as_ref() == session
            });
            let more = others.flat_map(|(_, of)| of.events.iter());
            events.extend(more.filter(|event| Some(event.order) > order).cloned());
            events.sort_by_key(|event| event.order);
        }
        for event in events.into_iter().filter(|event| event.id.is_some()) {
            self.send(
                conn,
                ExchangeEvent::Event {
                    id: event.id,
                    retry_ms: None,
                    data: event.data,
                },
            );
        }
        let is_done = self.streams.get(stream).is_some_and(|of| of.is_done);
        let goes_live = !is_attached && !is_done;
        match self.style.replay {
            Replay::Good | Replay::Inclusive | Replay::Loses if goes_live => {
                let now = self.now;
                let loses = self.style.replay == Replay::Loses;
                if let Some(of) = self.streams.get_mut(stream) {
                    of.conn = Some(conn);
                    of.replays_until = if loses { now + 400 } else { 0 };
                }
            }
            Replay::Silent => {
                self.silent_conns.insert(conn);
            }
            // A resumed stream of one SDK stays open after the result.
            Replay::Loses if is_done => {
                self.silent_conns.insert(conn);
            }
            _ => self.send(conn, ExchangeEvent::Ended),
        }
    }

    /// Somebody listens to what belongs to no call.
    fn on_listen(&mut self, conn: Conn, session: Option<&String>) {
        let session = session.filter(|_| self.style.has_session).cloned();
        let next = self.streams.len();
        let stream = *self.beside.entry(session.clone()).or_insert(next);
        if stream == next {
            self.streams.push(Stream {
                request: format!("beside {session:?}"),
                session,
                token: Value::Null,
                key: String::new(),
                events: Vec::new(),
                conn: None,
                is_done: false,
                replays_until: 0,
                is_json: false,
                is_modern: false,
            });
        }
        let Some(of) = self.streams.get_mut(stream) else {
            return;
        };
        if of.conn.is_some() {
            return self.refuse(conn, 409, "Only one stream", None);
        }
        of.conn = Some(conn);
        self.open(conn, Body::Stream, None);
        if self.style.primes {
            self.emit(stream, &What::Prime, "");
        }
    }

    fn deleted(&mut self, conn: Conn, request: &Request) {
        let Some(session) = request.session.clone() else {
            return self.refuse(conn, 405, "no", None);
        };
        let is_of =
            |of: Option<&Stream>| of.is_some_and(|of| of.session.as_ref() == Some(&session));
        let ended = self
            .runs
            .iter()
            .filter(|run| is_of(self.streams.get(run.stream)));
        self.ended_by_delete
            .extend(ended.map(|run| run.key.clone()));
        self.end_session_of_tasks(&session);
        self.sessions.remove(&session);
        let streams = &self.streams;
        self.runs.retain(|run| {
            streams
                .get(run.stream)
                .is_none_or(|of| of.session.as_ref() != Some(&session))
        });
        self.open(conn, Body::Empty(202), None);
        self.send(conn, ExchangeEvent::Ended);
    }

    /// The server has noticed that a connection is dead.
    pub(crate) fn dropped(&mut self, conn: Conn) {
        self.silent_conns.remove(&conn);
        self.newer_dropped(conn);
        let left: Vec<usize> = (0..self.streams.len())
            .filter(|at| {
                let of = self.streams.get(*at);
                of.is_some_and(|of| of.is_modern && of.conn == Some(conn))
            })
            .collect();
        self.runs.retain(|run| !left.contains(&run.stream));
        for checkpoint in self.checkpoints.values_mut() {
            checkpoint
                .loops
                .retain(|l| !l.streams.iter().all(|stream| left.contains(stream)));
        }
        for stream in &mut self.streams {
            if stream.conn == Some(conn) {
                stream.conn = None;
            }
        }
    }

    pub(crate) fn forget_sessions(&mut self) {
        self.sessions.clear();
    }

    /// The process dies; what is on its disk stays.
    pub(crate) fn die(&mut self) {
        self.runs.clear();
        self.newer_died();
        self.silent_conns.clear();
        for checkpoint in self.checkpoints.values_mut() {
            if !checkpoint.loops.is_empty() && self.style.says_interrupted {
                checkpoint.status = "interrupted";
            }
            checkpoint.loops.clear();
            checkpoint.is_pausing = false;
        }
        for stream in &mut self.streams {
            stream.conn = None;
        }
        if !self.style.survives {
            self.sessions.clear();
            self.forgotten = (0..self.streams.len()).collect();
        }
    }

    /// It is back; calls whose stream survived their work end in words.
    pub(crate) fn boot(&mut self) {
        self.newer_booted();
        if self.style.survives {
            let beside: BTreeSet<usize> = self.beside.values().copied().collect();
            for stream in (0..self.streams.len()).filter(|stream| !beside.contains(stream)) {
                self.error(stream, -32603, "the server was restarted");
            }
        }
    }

    /// When it next does something by itself.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        let runs = self.runs.iter().map(|run| run.next);
        let loops = self
            .checkpoints
            .values()
            .flat_map(|c| c.loops.iter().map(|l| l.next));
        let primes = self
            .streams
            .iter()
            .filter(|of| of.replays_until > 0)
            .map(|of| of.replays_until);
        let has_listener =
            self.streams.iter().any(|of| of.conn.is_some()) || !self.silent_conns.is_empty();
        let comment =
            (self.style.comments && has_listener).then_some(self.next_comment.max(self.now));
        let newer = self.newer_tick_at();
        runs.chain(loops)
            .chain(primes)
            .chain(comment)
            .chain(newer)
            .min()
    }

    pub(crate) fn tick(&mut self, now: u64) {
        self.now = now;
        if self.style.comments && now >= self.next_comment {
            self.next_comment = now + 15_000;
            let conns: Vec<Conn> = self
                .streams
                .iter()
                .filter(|of| !of.is_json)
                .filter_map(|of| of.conn)
                .collect();
            for conn in conns.into_iter().chain(self.silent_conns.clone()) {
                self.send(conn, ExchangeEvent::Alive);
            }
        }
        for stream in 0..self.streams.len() {
            let is_over = self
                .streams
                .get(stream)
                .is_some_and(|of| of.replays_until > 0 && of.replays_until <= now);
            if is_over && let Some(of) = self.streams.get_mut(stream) {
                of.replays_until = 0;
                self.emit(stream, &What::Prime, "");
            }
        }
        self.newer_tick();
        self.tick_runs();
        let clients: Vec<String> = self.checkpoints.keys().cloned().collect();
        for client in clients {
            self.tick_checkpoint(&client);
        }
    }

    fn tick_runs(&mut self) {
        let due: Vec<usize> = (0..self.runs.len())
            .filter(|at| self.runs.get(*at).is_some_and(|run| run.next <= self.now))
            .collect();
        for at in due.into_iter().rev() {
            let Some(run) = self.runs.get_mut(at) else {
                continue;
            };
            if run.waits_for.take().is_some() {
                // Nobody answered in time.
                run.fails = true;
                self.task_host.vain.insert(run.key.clone());
                (run.step, run.next) = (run.steps, self.now);
            } else if run.asks > 0 && run.step >= run.steps / 2 {
                run.asks -= 1;
                let stream = run.stream;
                self.ask(at, stream);
                continue;
            }
            let Some(run) = self.runs.get_mut(at) else {
                continue;
            };
            run.step += 1;
            run.next = self.now + run.every;
            let run = run.clone();
            if run.step <= run.steps {
                self.report(run.stream, run.step, run.steps, "");
                if run.step % 2 == 0 {
                    self.log(run.stream, "half a pair");
                }
            }
            if run.step >= run.steps.max(1) {
                self.runs.remove(at);
                self.result(run.stream, &format!("result {}", run.key), run.fails);
            }
        }
    }

    /// A plain tool asks on its stream and waits for the answer, for a time.
    fn ask(&mut self, run: usize, stream: usize) {
        let session = self
            .streams
            .get(stream)
            .and_then(|of| of.session.clone())
            .filter(|_| self.style.has_session);
        let number = self.next_number(session.as_ref());
        let patience = *[60_000, 600_000]
            .get(self.rng.usize(0..2))
            .unwrap_or(&60_000);
        if let Some(run) = self.runs.get_mut(run) {
            (run.waits_for, run.next) = (Some(number), self.now + patience);
        }
        let data = json!({"jsonrpc": "2.0", "id": number, "method": "elicitation/create",
            "params": {"message": "go on?"}});
        let beside = self.beside.get(&session).copied().filter(|beside| {
            // What it does not keep for later it does not ask where nobody listens.
            let mut of = self.streams.get(*beside).into_iter();
            of.any(|of| of.conn.is_some() || self.style.gives_ids)
        });
        self.emit(
            beside.unwrap_or(stream),
            &What::Ask(number),
            &data.to_string(),
        );
    }

    /// The question of a plain tool was answered.
    pub(super) fn run_answered(&mut self, session: Option<&String>, number: u64) {
        let (now, has_session) = (self.now, self.style.has_session);
        let streams = &self.streams;
        for run in &mut self.runs {
            let of = streams.get(run.stream).and_then(|of| of.session.as_ref());
            if run.waits_for == Some(number) && (!has_session || of == session) {
                (run.waits_for, run.next) = (None, now + run.every);
            }
        }
    }

    fn tick_checkpoint(&mut self, client: &str) {
        let now = self.now;
        let is_good = self.style.convention == Some(Convention::Good);
        let Some(checkpoint) = self.checkpoints.get_mut(client) else {
            return;
        };
        let Some(at) = checkpoint.loops.iter().position(|l| l.next <= now) else {
            return;
        };
        let (total, batch) = (checkpoint.total, checkpoint.batch);
        if checkpoint.is_pausing {
            let ended = checkpoint.loops.remove(at);
            checkpoint.is_pausing = false;
            (checkpoint.status, checkpoint.updated) = ("paused", now);
            let text = json!({"status": "paused", "rows": checkpoint.position}).to_string();
            for stream in ended.streams {
                self.result(stream, &text, false);
            }
            return;
        }
        let Some(running) = checkpoint.loops.get_mut(at) else {
            return;
        };
        let wrote = batch.min(total - running.position);
        running.position += wrote;
        (running.moved, running.next) = (now, now + running.every);
        let (position, streams) = (running.position, running.streams.clone());
        checkpoint.rows += wrote;
        checkpoint.position = checkpoint.position.max(position);
        checkpoint.updated = now;
        if checkpoint.status != "paused" || !is_good {
            checkpoint.status = "running";
        }
        let is_done = position >= total;
        if is_done {
            checkpoint.loops.remove(at);
            checkpoint.status = "completed";
        }
        let text = json!({"status": "completed", "rows": total}).to_string();
        for stream in streams {
            self.report(stream, position, total, "");
            self.log(stream, "batch done");
            if is_done {
                self.result(stream, &text, false);
            }
        }
    }

    pub(crate) fn stream_of(&self, request: &str) -> Option<&Stream> {
        self.streams.get(*self.by_request.get(request)?)
    }

    /// Whether anything of a task is at work.
    pub(crate) fn is_working(&self, key: &str) -> bool {
        self.runs.iter().any(|run| run.key == key)
            || self
                .checkpoints
                .values()
                .any(|c| c.key == key && !c.loops.is_empty())
    }

    pub(crate) fn checkpoint_of(&self, key: &str) -> Option<&Checkpoint> {
        self.checkpoints.values().find(|c| c.key == key)
    }

    /// The truth about `lost`: whether a client with this cursor could still get the result.
    pub(crate) fn can_deliver(&self, request: &str, cursor: Option<&EventId>) -> bool {
        let Some(of) = self.stream_of(request) else {
            return false;
        };
        let has_result = of.events.iter().any(|event| event.what == What::Response);
        let comes = has_result || self.is_working(&of.key);
        let can_ask = self.style.on_get == OnGet::Works
            && cursor.is_some_and(|cursor| self.find(cursor).is_some());
        self.knows(of.session.as_ref()) && comes && can_ask
    }

    /// The place of an event id among all events.
    pub(crate) fn order_of(&self, id: &str) -> Option<u64> {
        let (stream, at) = self.by_id.get(id)?;
        Some(self.streams.get(*stream)?.events.get(*at)?.order)
    }
}

fn listed(checkpoint: &Checkpoint) -> Value {
    json!({"task_id": checkpoint.task_id, "tool_name": "work", "status": checkpoint.status,
        "progress": checkpoint.position, "total": checkpoint.total,
        "updated_at": Wall(1_700_000_000_000 + i64::try_from(checkpoint.updated).unwrap_or(0)).rfc3339()})
}
