//! Servers that hold little: a stream keeps its newest events only, so that what grows is not theirs.

use std::collections::{BTreeMap, VecDeque};

use longhaul::{
    link::ExchangeId,
    protocol::{Body, ExchangeEvent, HttpError, Method, Request},
};
use serde_json::{Value, json};

/// Events of a stream that can be replayed: more than the longest cut lets go by.
const KEPT: usize = 512;
/// Steps a second of a job that hurries.
const HURRY: u64 = 4;
/// The pace at which server tasks want to be asked for, in seconds.
pub(crate) const POLL: u64 = 60;
/// Seconds for which what has ended can be asked for.
const ENDED_KEPT: u64 = 600;
/// Seconds between two comments that keep a stream alive.
const ALIVE_EVERY: u64 = 20;
/// The words of a server task change once in so many of its steps.
const TELLS: u64 = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Stream,
    Checkpoint,
    Core,
    Extension,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Stream, Self::Checkpoint, Self::Core, Self::Extension];

    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Stream => "steps",
            Self::Checkpoint => "work",
            Self::Core => "make",
            Self::Extension => "run",
        }
    }

    fn of_tool(tool: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.tool() == tool)
    }

    fn is_task(self) -> bool {
        matches!(self, Self::Core | Self::Extension)
    }
}

/// The tools of a server, as it lists them.
pub(crate) fn tools(is_modern: bool) -> Value {
    if is_modern {
        return json!({"tools": [{"name": "run"}]});
    }
    json!({"tools": [
        {"name": "steps", "inputSchema": {"type": "object"}},
        {"name": "make", "execution": {"taskSupport": "required"}},
        {"name": "work", "inputSchema": {"properties": {
            "client_id": {"type": "string"}, "pace": {}, "steps": {}, "hurries": {}}}},
        {"name": "list_session_tasks", "inputSchema": {}}, {"name": "pause_task", "inputSchema": {}}]})
}

/// One call at work.
#[derive(Debug)]
struct Job {
    kind: Kind,
    /// The JSON-RPC id of the call, which is its progress token too.
    request: String,
    step: u64,
    steps: u64,
    /// Seconds between two steps.
    pace: u64,
    /// Up to this step it hurries.
    hurries: u64,
    next: u64,
    /// Counts its streams.
    stream: u32,
    sent: u64,
    events: VecDeque<(u64, String)>,
    conn: Option<ExchangeId>,
    fetch: Option<(ExchangeId, Value)>,
    /// It ended and is forgotten then.
    until: Option<u64>,
    /// Its loop died; a call with the same client id continues it.
    is_stopped: bool,
}

/// What it cost, in requests of each minute.
#[derive(Debug, Default)]
pub(crate) struct Cost {
    pub(crate) polls: Vec<usize>,
    pub(crate) others: Vec<usize>,
}

impl Cost {
    fn add(&mut self, now: u64, is_poll: bool) {
        let minute = usize::try_from(now / 60).unwrap_or(0);
        let minutes = if is_poll {
            &mut self.polls
        } else {
            &mut self.others
        };
        minutes.resize(minutes.len().max(minute + 1), 0);
        if let Some(count) = minutes.get_mut(minute) {
            *count += 1;
        }
    }

    /// The most in sixty minutes.
    pub(crate) fn busiest_hour(minutes: &[usize]) -> usize {
        let hours = minutes.windows(60.min(minutes.len().max(1)));
        hours.map(|hour| hour.iter().sum()).max().unwrap_or(0)
    }
}

/// One server.
#[derive(Debug, Default)]
pub(crate) struct Server {
    is_modern: bool,
    /// Seconds since the beginning of the day.
    pub(crate) now: u64,
    pub(crate) down_until: u64,
    jobs: BTreeMap<String, Job>,
    /// Nothing is due before.
    next: u64,
    by_client: BTreeMap<String, String>,
    pub(crate) out: VecDeque<(ExchangeId, ExchangeEvent)>,
    /// Exchanges that stand and bring nothing by themselves.
    idle: Vec<ExchangeId>,
    pub(crate) cost: Cost,
    pub(crate) calls: BTreeMap<Kind, usize>,
    made: usize,
    pub(crate) ended: usize,
}

impl Server {
    pub(crate) fn new(is_modern: bool) -> Self {
        Self {
            is_modern,
            ..Self::default()
        }
    }

    fn send(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        self.out.push_back((exchange, arrival));
    }

    fn open(&mut self, exchange: ExchangeId, body: Body) {
        let session = None;
        self.send(exchange, ExchangeEvent::Opened { body, session });
    }

    fn event(&mut self, exchange: ExchangeId, id: Option<String>, data: String) {
        let retry_ms = None;
        self.send(
            exchange,
            ExchangeEvent::Event {
                id: id.map(Into::into),
                retry_ms,
                data,
            },
        );
    }

    fn refuse(&mut self, exchange: ExchangeId, status: u16) {
        let refusal = HttpError {
            status,
            ..HttpError::default()
        };
        self.send(exchange, ExchangeEvent::Refused(Box::new(refusal)));
    }

    fn answer(&mut self, exchange: ExchangeId, id: &Value, result: &Value) {
        self.open(exchange, Body::Json);
        let data = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.event(exchange, None, data.to_string());
        self.send(exchange, ExchangeEvent::Ended);
    }

    pub(crate) fn take(&mut self, exchange: ExchangeId, request: &Request) {
        let message: Value = match &request.method {
            Method::Post { body, .. } => serde_json::from_str(body).unwrap(),
            _ => Value::Null,
        };
        let method = message["method"].as_str().unwrap_or_default();
        self.cost.add(self.now, method == "tasks/get");
        if self.now < self.down_until {
            let (why, is_refused) = ("no route".to_owned(), true);
            return self.send(exchange, ExchangeEvent::NotSent { why, is_refused });
        }
        if let Method::Get { cursor } = &request.method {
            return self.resume(exchange, cursor.as_deref());
        }
        let (id, params) = (&message["id"], &message["params"]);
        let of_task = params["taskId"].as_str().unwrap_or_default();
        match method {
            "tools/call" => self.call(exchange, id, params),
            "tools/list" => self.answer(exchange, id, &tools(self.is_modern)),
            "server/discover" if self.is_modern => {
                let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
                let found =
                    json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities});
                self.answer(exchange, id, &found);
            }
            "ping" => self.answer(exchange, id, &json!({})),
            "tasks/get" => {
                let Some(shape) = self.shape(of_task) else {
                    return self.refuse(exchange, 400);
                };
                self.answer(exchange, id, &shape);
                if shape.get("result").is_some() {
                    self.told(of_task);
                }
            }
            "tasks/result" => {
                self.open(exchange, Body::Stream);
                let Some(job) = self.jobs.get_mut(of_task) else {
                    return;
                };
                job.fetch = Some((exchange, id.clone()));
                if job.step >= job.steps {
                    self.end(of_task);
                }
            }
            "subscriptions/listen" => {
                self.open(exchange, Body::Stream);
                let ack = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                    "params": {"notifications": params["notifications"],
                        "_meta": {"io.modelcontextprotocol/subscriptionId": id}}});
                self.event(exchange, None, ack.to_string());
                self.idle.push(exchange);
            }
            _ => {
                self.open(exchange, Body::Empty(202));
                self.send(exchange, ExchangeEvent::Ended);
            }
        }
    }

    fn call(&mut self, exchange: ExchangeId, id: &Value, params: &Value) {
        let tool = params["name"].as_str().unwrap_or_default();
        let arguments = &params["arguments"];
        let client = arguments["client_id"].as_str().unwrap_or_default();
        let Some(kind) = Kind::of_tool(tool) else {
            let job = self
                .by_client
                .get(client)
                .and_then(|name| self.jobs.get(name));
            let listed = job.map(|job| {
                let status = if job.is_stopped { "interrupted" } else { "running" };
                json!({"task_id": client, "tool_name": "work", "status": status, "progress": job.step,
                    "total": job.steps})
            });
            let text = json!({"tasks": listed.into_iter().collect::<Vec<_>>()}).to_string();
            let result = json!({"content": [{"type": "text", "text": text}]});
            return self.answer(exchange, id, &result);
        };
        *self.calls.entry(kind).or_default() += 1;
        let request = id.as_str().unwrap_or_default().to_owned();
        if let Some(name) = self.by_client.get(client).cloned()
            && let Some(job) = self.jobs.get_mut(&name)
        {
            // It continues the run on a new stream.
            (job.request, job.is_stopped, job.conn) = (request, false, Some(exchange));
            (job.stream, job.sent) = (job.stream + 1, 0);
            job.next = self.now + 1;
            self.next = 0;
            job.events.clear();
            self.open(exchange, Body::Stream);
            return self.emit(&name, String::new());
        }
        let number = |key: &str| arguments[key].as_u64().unwrap_or(0);
        self.made += 1;
        let name = format!("{tool}:{}", self.made);
        let pace = number("pace").max(1);
        let job = Job {
            kind,
            request,
            step: 0,
            steps: number("steps"),
            pace,
            hurries: number("hurries"),
            next: self.now + 1,
            stream: 0,
            sent: 0,
            events: VecDeque::new(),
            conn: (!kind.is_task()).then_some(exchange),
            fetch: None,
            until: None,
            is_stopped: false,
        };
        self.jobs.insert(name.clone(), job);
        self.next = 0;
        if !client.is_empty() {
            self.by_client.insert(client.to_owned(), name.clone());
        }
        let Some(mut made) = self.shape(&name).filter(|_| kind.is_task()) else {
            self.open(exchange, Body::Stream);
            return self.emit(&name, String::new());
        };
        if kind == Kind::Core {
            return self.answer(exchange, id, &json!({"task": made}));
        }
        made["resultType"] = json!("task");
        self.answer(exchange, id, &made);
    }

    fn shape(&self, name: &str) -> Option<Value> {
        let job = self.jobs.get(name)?;
        let is_over = job.step >= job.steps;
        let status = if is_over { "completed" } else { "working" };
        let told = job.step - job.step % TELLS;
        let mut shape =
            json!({"taskId": name, "status": status, "statusMessage": format!("step {told}")});
        if job.kind == Kind::Core {
            (shape["ttl"], shape["pollInterval"]) = (Value::Null, json!(POLL * 1000));
        } else {
            (shape["ttlMs"], shape["pollIntervalMs"]) = (Value::Null, json!(POLL * 1000));
            if is_over {
                shape["result"] = json!({"content": [{"type": "text", "text": "done"}]});
            }
        }
        Some(shape)
    }

    fn resume(&mut self, exchange: ExchangeId, cursor: Option<&str>) {
        self.open(exchange, Body::Stream);
        let Some(cursor) = cursor else {
            return self.idle.push(exchange);
        };
        let found = cursor.split_once('/').and_then(|(stream, number)| {
            let (name, stream) = stream.rsplit_once('.')?;
            let job = self.jobs.get_mut(name)?;
            (job.stream.to_string() == stream).then_some((name.to_owned(), number.parse().ok()?))
        });
        let Some((name, after)) = found else {
            return self.send(exchange, ExchangeEvent::Ended);
        };
        let Some(job) = self.jobs.get_mut(&name) else {
            return;
        };
        let missed = job.events.iter().filter(|(number, _)| *number > after);
        let missed: Vec<(u64, String)> = missed.cloned().collect();
        let (stream, is_over) = (job.stream, job.step >= job.steps);
        job.conn = Some(exchange);
        for (number, data) in missed {
            let id = format!("{name}.{stream}/{number}");
            self.event(exchange, Some(id), data);
        }
        if is_over {
            self.told(&name);
            self.send(exchange, ExchangeEvent::Ended);
        }
    }

    fn emit(&mut self, name: &str, data: String) {
        let Some(job) = self.jobs.get_mut(name) else {
            return;
        };
        job.sent += 1;
        job.events.push_back((job.sent, data.clone()));
        if job.events.len() > KEPT {
            job.events.pop_front();
        }
        let id = format!("{name}.{}/{}", job.stream, job.sent);
        if let Some(conn) = job.conn {
            self.event(conn, Some(id), data);
        }
    }

    /// Somebody was told of the end.
    fn told(&mut self, name: &str) {
        if let Some(job) = self.jobs.get_mut(name)
            && job.until.is_none()
        {
            job.until = Some(self.now + ENDED_KEPT);
            self.ended += 1;
        }
    }

    /// The client has closed an exchange.
    pub(crate) fn closed(&mut self, exchange: ExchangeId) {
        self.idle.retain(|idle| *idle != exchange);
        for job in self.jobs.values_mut() {
            job.conn.take_if(|conn| *conn == exchange);
            job.fetch.take_if(|(fetch, _)| *fetch == exchange);
        }
    }

    /// Notifies the clients that wait for a finished job.
    fn end(&mut self, name: &str) {
        let Some(job) = self.jobs.get_mut(name) else {
            return;
        };
        let result = json!({"content": [{"type": "text", "text": "done"}]});
        if job.kind.is_task() {
            if let Some((exchange, id)) = job.fetch.take() {
                let data = json!({"jsonrpc": "2.0", "id": id, "result": result});
                self.event(exchange, None, data.to_string());
                self.send(exchange, ExchangeEvent::Ended);
                self.told(name);
            }
            return;
        }
        let data = json!({"jsonrpc": "2.0", "id": job.request, "result": result});
        let conn = job.conn;
        self.emit(name, data.to_string());
        if let Some(conn) = conn {
            self.send(conn, ExchangeEvent::Ended);
            self.told(name);
        }
    }

    /// A second has passed.
    pub(crate) fn tick(&mut self) {
        if self.now.is_multiple_of(ALIVE_EVERY) {
            let conns = self.jobs.values().filter_map(|job| job.conn);
            let alive = conns.chain(self.idle.iter().copied());
            self.out
                .extend(alive.map(|exchange| (exchange, ExchangeEvent::Alive)));
        }
        if self.now < self.next {
            return;
        }
        let is_at_work = |job: &&Job| job.step < job.steps && !job.is_stopped;
        let due = self
            .jobs
            .iter()
            .filter(|(_, job)| job.next <= self.now && is_at_work(job));
        for name in due.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            let Some(job) = self.jobs.get_mut(&name) else {
                continue;
            };
            let (kind, first) = (job.kind, job.step + 1);
            let is_in_hurry = first < job.hurries;
            let last = if is_in_hurry {
                first + HURRY - 1
            } else {
                first
            };
            job.step = last.min(job.steps);
            // All of one pace in step, as a pace that is given in whole seconds mostly is.
            let after_pace = (self.now / job.pace + 1) * job.pace;
            job.next = if is_in_hurry {
                self.now + 1
            } else {
                after_pace
            };
            let (last, is_over, token) = (job.step, job.step >= job.steps, job.request.clone());
            for step in first..=last {
                if !kind.is_task() {
                    let data = format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"{token}","progress":{step}}}}}"#
                    );
                    self.emit(&name, data);
                }
            }
            if is_over {
                self.end(&name);
            }
        }
        let now = self.now;
        self.jobs
            .retain(|_, job| job.until.is_none_or(|until| now < until));
        let jobs = &self.jobs;
        self.by_client.retain(|_, name| jobs.contains_key(name));
        let at_work = self.jobs.values().filter(is_at_work);
        self.next = at_work.map(|job| job.next).min().unwrap_or(u64::MAX);
    }

    /// How far each of the plain calls is that are at work.
    pub(crate) fn steps(&self) -> Vec<String> {
        let streams = self.jobs.values().filter(|job| job.kind == Kind::Stream);
        streams
            .filter(|job| job.step < job.steps)
            .map(|job| job.step.to_string())
            .collect()
    }

    /// Takes every connection away. `Some` says how those hear of it that stand at its other end.
    pub(crate) fn cut(&mut self, told: Option<&ExchangeEvent>) {
        let mut open = std::mem::take(&mut self.idle);
        for job in self.jobs.values_mut() {
            open.extend(job.conn.take());
            open.extend(job.fetch.take().map(|(exchange, _)| exchange));
        }
        if let Some(told) = told {
            for exchange in open {
                self.send(exchange, told.clone());
            }
        }
    }

    /// The loops of some checkpoint tools die, and their streams are forgotten.
    pub(crate) fn lose_loops(&mut self, rng: &mut fastrand::Rng) {
        let work = self
            .jobs
            .values_mut()
            .filter(|job| job.kind == Kind::Checkpoint);
        let mut lost = Vec::new();
        for job in work.filter(|_| rng.u32(0..3) == 0) {
            (job.is_stopped, job.stream) = (true, job.stream + 1);
            job.events.clear();
            lost.extend(job.conn.take());
        }
        for exchange in lost {
            self.send(exchange, ExchangeEvent::Ended);
        }
    }
}
