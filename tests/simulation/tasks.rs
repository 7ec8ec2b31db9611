//! What the model server does of the newer things: the modern era, server tasks of both kinds, and questions.

use std::collections::{BTreeMap, BTreeSet};

use longhaul::{
    domain::{ProtocolVersion, TaskKind},
    protocol::{Body, ExchangeEvent, HttpError, Method, Request, RpcError},
};
use serde_json::{Value, json};

use super::server::{Conn, Server};

/// A server gives up an undelivered question after this.
const QUESTION_TIMEOUT: u64 = 60_000;
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The eras that a server speaks from one boot to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Stateful,
    Modern,
    Both,
}

impl Speaks {
    fn modern(self) -> bool {
        self != Self::Stateful
    }

    fn stateful(self) -> bool {
        self != Self::Modern
    }
}

/// What a call becomes where the server decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallMode {
    Task,
    Plain,
    Either,
}

/// What `subscriptions/listen` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnListen {
    Missing,
    Tells,
    /// Accepts and sends nothing.
    Mute,
    /// Accepts and hangs up at once.
    Drops,
}

/// What `tasks/cancel` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnTaskCancel {
    Cancels,
    /// The task is not known from then on.
    Drops,
    /// The cancel is acknowledged, but the work continues.
    Never,
}

/// How a server implements tasks and the modern era.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "habits that go in any mixture"
)]
pub(crate) struct TaskBehavior {
    /// One after the other, from boot to boot.
    speaks: Vec<Speaks>,
    has_extension: bool,
    call_mode: CallMode,
    /// Core tasks: whether they end with their session.
    core_is_bound: Option<bool>,
    support: &'static str,
    poll_ms: Option<u64>,
    ttl_ms: Option<u64>,
    keeps_tasks: bool,
    on_listen: OnListen,
    on_task_cancel: OnTaskCancel,
    /// How long after an answer a task still shows the question.
    late_ms: u64,
    /// What is first answered to each question is refused, whenever it comes; another answer is taken.
    is_picky: bool,
    /// Answers that are not wanted are refused instead of ignored.
    refuses_stale: bool,
    errors_in_400: bool,
    has_state: bool,
    /// A question of a core task comes again on each stream of its result.
    asks_again: bool,
    /// What a stateful server says to `server/discover`.
    at_discover: u32,
    /// Of a thousand short requests about tasks, how many come to nothing.
    pub(crate) trouble: u32,
    wants_as_task_error: bool,
    /// A second replica gets every other look at a task, and knows none of them.
    has_replica: bool,
}

impl TaskBehavior {
    /// A server of the stateful era that has none of it.
    pub(crate) fn old() -> Self {
        Self {
            speaks: vec![Speaks::Stateful],
            has_extension: false,
            call_mode: CallMode::Plain,
            core_is_bound: None,
            support: "forbidden",
            poll_ms: None,
            ttl_ms: None,
            keeps_tasks: false,
            on_listen: OnListen::Missing,
            on_task_cancel: OnTaskCancel::Cancels,
            late_ms: 0,
            is_picky: false,
            refuses_stale: false,
            errors_in_400: false,
            has_state: false,
            asks_again: true,
            at_discover: 0,
            trouble: 0,
            wants_as_task_error: false,
            has_replica: false,
        }
    }

    pub(crate) fn drawn(rng: &mut fastrand::Rng) -> Self {
        let one = |rng: &mut fastrand::Rng| match rng.u32(0..5) {
            0 | 1 => Speaks::Modern,
            2 => Speaks::Both,
            _ => Speaks::Stateful,
        };
        let first = one(rng);
        let speaks = if rng.u32(0..4) == 0 {
            vec![first, one(rng), one(rng)]
        } else {
            vec![first]
        };
        Self {
            speaks,
            has_extension: rng.u32(0..4) > 0,
            call_mode: match rng.u32(0..4) {
                0 | 1 => CallMode::Task,
                2 => CallMode::Plain,
                _ => CallMode::Either,
            },
            core_is_bound: match rng.u32(0..5) {
                0 => None,
                1 | 2 => Some(true),
                _ => Some(false),
            },
            support: *["optional", "optional", "required", "forbidden"]
                .get(rng.usize(0..4))
                .unwrap_or(&"optional"),
            poll_ms: *[None, Some(100), Some(500), Some(3000), Some(500)]
                .get(rng.usize(0..5))
                .unwrap_or(&None),
            ttl_ms: match rng.u32(0..5) {
                0 => Some(rng.u64(5000..90_000)),
                1 => None,
                _ => Some(3_600_000 * 4),
            },
            keeps_tasks: rng.u32(0..3) > 0,
            on_listen: match rng.u32(0..6) {
                0 | 1 => OnListen::Missing,
                2 | 3 => OnListen::Tells,
                4 => OnListen::Mute,
                _ => OnListen::Drops,
            },
            on_task_cancel: match rng.u32(0..4) {
                0 => OnTaskCancel::Never,
                1 => OnTaskCancel::Drops,
                _ => OnTaskCancel::Cancels,
            },
            late_ms: *[0, 0, 800, 6000].get(rng.usize(0..4)).unwrap_or(&0),
            is_picky: rng.u32(0..8) == 0,
            refuses_stale: rng.u32(0..3) == 0,
            errors_in_400: rng.bool(),
            has_state: rng.bool(),
            asks_again: rng.u32(0..3) > 0,
            at_discover: rng.u32(0..4),
            trouble: *[0, 0, 40, 200].get(rng.usize(0..4)).unwrap_or(&0),
            wants_as_task_error: rng.bool(),
            has_replica: rng.u32(0..10) == 0,
        }
    }

    /// Whether a call may become a task of the extension.
    pub(crate) fn may_make_tasks(&self) -> bool {
        self.has_extension
    }
}

/// One question of a task.
#[derive(Clone, Debug)]
struct Asking {
    key: String,
    /// The id of the request of the stateful era.
    number: u64,
    since: u64,
    was_sent: bool,
    /// An answer was taken and shows its effect then.
    answered_at: Option<u64>,
}

/// A server task at work.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) key: String,
    kind: TaskKind,
    session: Option<String>,
    step: u64,
    steps: u64,
    every: u64,
    next: u64,
    asks_left: u64,
    asked: u64,
    asking: Vec<Asking>,
    fails: bool,
    pub(crate) state: &'static str,
    created: u64,
    fetchers: Vec<(Conn, Value)>,
    is_vain: bool,
    looks: u64,
}

impl Job {
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, "completed" | "failed" | "cancelled")
    }

    fn result(&self) -> Value {
        json!({"content": [{"type": "text", "text": format!("result {}", self.key)}], "isError": self.fails || self.is_vain})
    }
}

/// The part of a server that runs tasks.
pub(crate) struct TaskHost {
    pub(crate) behavior: TaskBehavior,
    pub(crate) is_new: bool,
    boots: usize,
    pub(crate) jobs: Vec<Job>,
    made: u64,
    listeners: Vec<(Conn, Value, BTreeSet<String>)>,
    /// How often a call was asked back, and the state that has to return with the answer.
    rounds: BTreeMap<String, (u64, Option<String>)>,
    /// Every answer that came, by question.
    answers: BTreeMap<String, Vec<String>>,
    refused: BTreeMap<String, String>,
    /// Calls whose question nobody answered in time.
    pub(crate) vain: BTreeSet<String>,
    /// When each task was asked for.
    pub(crate) polls: BTreeMap<String, Vec<u64>>,
    /// What gives a reason to ask sooner than the pace.
    pub(crate) nudges: u64,
    pub(crate) trouble_until: u64,
    /// Request ids of the server, counted per session.
    numbers: BTreeMap<Option<String>, u64>,
}

impl TaskHost {
    pub(crate) fn new(behavior: TaskBehavior, is_new: bool) -> Self {
        Self {
            behavior,
            is_new,
            boots: 0,
            jobs: Vec::new(),
            made: 0,
            listeners: Vec::new(),
            rounds: BTreeMap::new(),
            answers: BTreeMap::new(),
            refused: BTreeMap::new(),
            vain: BTreeSet::new(),
            polls: BTreeMap::new(),
            nudges: 0,
            trouble_until: 0,
            numbers: BTreeMap::new(),
        }
    }

    pub(crate) fn speaks(&self) -> Speaks {
        let all = &self.behavior.speaks;
        *all.get(self.boots % all.len()).unwrap_or(&Speaks::Both)
    }

    /// The pace that this server asks for, as a client has to read it.
    pub(crate) fn pace(&self) -> u64 {
        self.behavior.poll_ms.unwrap_or(2000).clamp(250, 60_000)
    }

    /// Whether it lists a plain tool and one that can be a task of the extension, on one URL in both eras.
    pub(crate) fn has_task_tool(&self) -> bool {
        self.is_new && self.behavior.has_extension && self.behavior.speaks == [Speaks::Both]
    }

    /// What is said of the plain tool where it may be a core task; beside a task tool it is always plain.
    fn plain_support(&self) -> &'static str {
        if self.has_task_tool() {
            "forbidden"
        } else {
            self.behavior.support
        }
    }

    fn offers_core(&self) -> bool {
        self.is_new && self.behavior.core_is_bound.is_some() && self.speaks().stateful()
    }
}

impl Server {
    /// What a handshake offers.
    pub(super) fn capabilities(&self) -> Value {
        if self.task_host.offers_core() {
            json!({"tools": {}, "tasks": {"cancel": {}, "list": {}, "requests": {"tools": {"call": {}}}}})
        } else {
            json!({"tools": {}})
        }
    }

    /// What the list of tools says of the plain tool.
    pub(super) fn task_support(&self) -> Option<&'static str> {
        self.task_host
            .offers_core()
            .then_some(self.task_host.plain_support())
    }

    /// Takes note of a request; polls are counted apart.
    pub(super) fn note_request(&mut self, request: &Request) {
        if let Method::Post { body, .. } = &request.method {
            let message: Value = serde_json::from_str(body).expect("we send JSON");
            let method = message["method"].as_str().unwrap_or_default();
            if method == "tasks/get" {
                let id = message["params"]["taskId"].as_str().unwrap_or_default();
                let now = self.now;
                return self
                    .task_host
                    .polls
                    .entry(id.to_owned())
                    .or_default()
                    .push(now);
            }
            let is_nudge = matches!(
                method,
                "tasks/update" | "tasks/cancel" | "tasks/result" | "initialize" | "server/discover"
            ) || method.is_empty();
            self.task_host.nudges += u64::from(is_nudge);
        }
        self.requests.push(self.now);
    }

    /// Deals with what only a newer server knows; returns whether it did.
    pub(super) fn meets_newer(&mut self, conn: Conn, request: &Request) -> bool {
        let is_modern = request.version == Some(ProtocolVersion::V20260728);
        let speaks = self.task_host.speaks();
        let Method::Post { body, routing } = &request.method else {
            if is_modern {
                self.violations
                    .push("a GET or DELETE in the modern era".to_owned());
            }
            if !speaks.stateful() {
                self.refuse(conn, 405, "Method Not Allowed", None);
            }
            return !speaks.stateful();
        };
        let message: Value = serde_json::from_str(body).expect("we send JSON");
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let id = message["id"].clone();
        if is_modern {
            if !speaks.modern() {
                self.is_not_modern(conn, &id, &method);
                return true;
            }
            self.check_dress(routing, &message);
            if !self.troubled(conn, &method) {
                self.modern_posted(conn, request, &message, &method);
            }
            return true;
        }
        if !speaks.stateful() {
            if method == "initialize" && self.task_host.behavior.at_discover.is_multiple_of(2) {
                let data = json!({"supported": ["2026-07-28"], "requested": "2025-11-25"});
                self.refuse_with(conn, 400, -32022, Some(data));
            } else {
                self.refuse_with(conn, 400, -32020, None);
            }
            return true;
        }
        if !self.knows(request.session.as_ref()) {
            return false;
        }
        let params = &message["params"];
        let (is_plain_tool, support) = match params["name"].as_str() {
            Some("job") => (true, "optional"),
            name => (name == Some("steps"), self.task_host.plain_support()),
        };
        match method.as_str() {
            "" => {
                self.reply(request.session.as_ref(), &message);
                self.open(conn, Body::Empty(202), None);
                self.send(conn, ExchangeEvent::Ended);
                true
            }
            "tasks/get" | "tasks/result" | "tasks/cancel" => {
                if !self.task_host.offers_core() {
                    self.rpc_error(conn, &id, -32601, "Method not found");
                } else if !self.troubled(conn, &method) {
                    self.about_task(conn, request.session.as_ref(), &message, &method);
                }
                true
            }
            "tools/call" if is_plain_tool && self.task_host.offers_core() => {
                let wants_task = params["task"].is_object();
                match (support, wants_task) {
                    ("required", false) | ("forbidden", true) => {
                        let code = if self.task_host.behavior.wants_as_task_error {
                            -32601
                        } else {
                            -32600
                        };
                        self.rpc_error(conn, &id, code, "the other way");
                        true
                    }
                    ("required" | "optional", true) => {
                        let session = request.session.clone();
                        let made = self.new_task(TaskKind::Core, session, &params["arguments"]);
                        self.answer(conn, &id, &made, None);
                        true
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }

    pub(super) fn refuse_with(&mut self, conn: Conn, status: u16, code: i64, data: Option<Value>) {
        let error = RpcError {
            code,
            message: format!("error {code}"),
            data: data.map(|data| data.to_string()),
        };
        let refusal = HttpError {
            status,
            server_text: Some(error.message.clone()),
            error: Some(error),
            ..HttpError::default()
        };
        self.send(conn, ExchangeEvent::Refused(Box::new(refusal)));
    }

    /// A JSON-RPC error, with a status of its own or in a 200.
    fn rpc_error(&mut self, conn: Conn, id: &Value, code: i64, words: &str) {
        if self.task_host.behavior.errors_in_400 {
            let status = if code == -32601 { 404 } else { 400 };
            // A stateful server keeps 404 for sessions.
            let status = if self.task_host.speaks().modern() {
                status
            } else {
                400
            };
            return self.refuse_with(conn, status, code, None);
        }
        let data = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": words}});
        self.open(conn, Body::Json, None);
        self.event(conn, &data);
        self.send(conn, ExchangeEvent::Ended);
    }

    fn event(&mut self, conn: Conn, data: &Value) {
        self.send(
            conn,
            ExchangeEvent::Event {
                id: None,
                retry_ms: None,
                data: data.to_string(),
            },
        );
    }

    fn is_not_modern(&mut self, conn: Conn, id: &Value, method: &str) {
        match self.task_host.behavior.at_discover {
            0 if method == "server/discover" => {
                let data = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}});
                self.open(conn, Body::Stream, None);
                self.event(conn, &data);
                self.send(conn, ExchangeEvent::Ended);
            }
            1 => self.refuse_with(conn, 400, -32000, None),
            2 => self.refuse(conn, 400, "Bad Request: Unsupported protocol version", None),
            _ => self.refuse(conn, 404, "Not Found", None),
        }
    }

    fn check_dress(&mut self, routing: &[(String, String)], message: &Value) {
        let header = |name: &str| {
            let found = routing.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| value.as_str())
        };
        let params = &message["params"];
        let is_dressed = params["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
            && params["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"][TASKS]
                .is_object()
            && header("Mcp-Method") == message["method"].as_str();
        let name = params["taskId"].as_str().or(params["name"].as_str());
        if !is_dressed || name.is_some() && header("Mcp-Name") != name {
            self.violations
                .push(format!("headers do not fit: {message}"));
        }
    }

    /// A short request about a task meets an overloaded server; returns whether that was all.
    fn troubled(&mut self, conn: Conn, method: &str) -> bool {
        let is_about = method.starts_with("tasks/");
        let rate = self.task_host.behavior.trouble;
        if !is_about || self.now >= self.task_host.trouble_until || self.rng.u32(0..1000) >= rate {
            return false;
        }
        match self.rng.u32(0..4) {
            0 => self.refuse(conn, 503, "busy", None),
            1 => self.refuse(conn, 500, "oops", None),
            2 => {
                self.open(conn, Body::Json, None);
                self.event(conn, &json!("<html>no</html>"));
                self.send(conn, ExchangeEvent::Ended);
            }
            // Nothing, ever.
            _ => {}
        }
        true
    }

    fn modern_posted(&mut self, conn: Conn, request: &Request, message: &Value, method: &str) {
        let id = &message["id"];
        let has_tasks = self.task_host.behavior.has_extension;
        match method {
            "server/discover" => {
                let extensions = if has_tasks {
                    json!({TASKS: {}})
                } else {
                    json!({})
                };
                let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": {"tools": {}, "extensions": extensions}});
                self.answer(conn, id, &result, None);
            }
            "tools/list" => {
                let tools = self.tools(true);
                self.answer(conn, id, &tools, None);
            }
            "tools/call" => self.modern_called(conn, request, message),
            "tasks/get" | "tasks/update" | "tasks/cancel" if has_tasks => {
                self.about_task(conn, None, message, method);
            }
            "subscriptions/listen" if self.task_host.behavior.on_listen != OnListen::Missing => {
                let wanted = message["params"]["notifications"]["taskIds"].as_array();
                let ids: BTreeSet<String> = wanted
                    .into_iter()
                    .flatten()
                    .filter_map(|id| Some(id.as_str()?.to_owned()))
                    .collect();
                self.open(conn, Body::Stream, None);
                let ack = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                    "params": {"notifications": {"taskIds": ids}, "_meta": {"io.modelcontextprotocol/subscriptionId": id}}});
                self.event(conn, &ack);
                self.task_host.nudges += 2;
                if self.task_host.behavior.on_listen == OnListen::Drops {
                    self.send(conn, ExchangeEvent::Ended);
                } else {
                    self.task_host.listeners.push((conn, id.clone(), ids));
                }
            }
            _ => self.refuse_with(conn, 404, -32601, None),
        }
    }

    fn modern_called(&mut self, conn: Conn, request: &Request, message: &Value) {
        let params = &message["params"];
        let id = &message["id"];
        // Where tools of both kinds are listed, the plain one never becomes a task.
        let is_task_tool = params["name"] == "job";
        let is_plain_tool = params["name"] == "steps";
        if !is_task_tool && !is_plain_tool {
            return self.called(conn, request, message);
        }
        let arguments = &params["arguments"];
        let key = arguments["key"].as_str().unwrap_or_default().to_owned();
        let wanted = arguments["rounds"].as_u64().unwrap_or(0);
        let (asked, state) = self.task_host.rounds.get(&key).cloned().unwrap_or_default();
        if asked > 0 {
            if params["requestState"].as_str() != state.as_deref() {
                self.violations.push(format!(
                    "{key}: the state was {state:?} and came back as {}",
                    params["requestState"]
                ));
            }
            self.answered(
                &format!("{key}/round {asked}"),
                &params["inputResponses"]["who"],
            );
        } else if params.get("inputResponses").is_some() || params.get("requestState").is_some() {
            self.violations.push(format!("{key}: an answer to nothing"));
        }
        if asked < wanted {
            let nonce = self.rng.u64(..);
            let state = self
                .task_host
                .behavior
                .has_state
                .then(|| format!("{key}.\"\\\u{1}é\u{2028} {nonce}"));
            let mut result = json!({"resultType": "input_required", "inputRequests": {"who": {
                "method": "elicitation/create", "params": {"message": "who?"}}}});
            if let Some(state) = &state {
                result["requestState"] = json!(state);
            }
            self.task_host.rounds.insert(key, (asked + 1, state));
            return self.answer(conn, id, &result, None);
        }
        let becomes_task = self.task_host.behavior.has_extension
            && is_task_tool == self.task_host.has_task_tool()
            && match self.task_host.behavior.call_mode {
                CallMode::Task => true,
                CallMode::Plain => false,
                CallMode::Either => self.rng.bool(),
            };
        if becomes_task {
            let made = self.new_task(TaskKind::Extension, None, arguments);
            return self.answer(conn, id, &made, None);
        }
        self.called(conn, request, message);
    }

    /// Makes a task; gives the result that says so.
    fn new_task(&mut self, kind: TaskKind, session: Option<String>, arguments: &Value) -> Value {
        let key = arguments["key"].as_str().unwrap_or_default().to_owned();
        *self.begun.entry(key.clone()).or_default() += 1;
        let number = |name: &str| arguments[name].as_u64().unwrap_or(0);
        let every = number("every").max(1);
        self.task_host.made += 1;
        let job = Job {
            id: format!("task:{}", self.task_host.made),
            key,
            kind,
            session,
            step: 0,
            steps: number("steps"),
            every,
            next: self.now + every,
            asks_left: number("asks"),
            asked: 0,
            asking: Vec::new(),
            fails: arguments["fails"].as_bool().unwrap_or_default(),
            state: "working",
            created: self.now,
            fetchers: Vec::new(),
            is_vain: false,
            looks: 0,
        };
        let mut shape = self.shape(&job);
        let result = match kind {
            TaskKind::Core => json!({"task": shape}),
            TaskKind::Extension => {
                shape["resultType"] = json!("task");
                shape
            }
        };
        self.task_host.jobs.push(job);
        result
    }

    fn shape(&self, job: &Job) -> Value {
        let behavior = &self.task_host.behavior;
        let mut shape = json!({"taskId": job.id, "status": job.state});
        if !job.is_over() && job.step > 0 {
            shape["statusMessage"] = json!(format!("step {} of {}", job.step, job.steps));
        }
        match job.kind {
            TaskKind::Core => {
                shape["ttl"] = json!(behavior.ttl_ms);
                shape["pollInterval"] = json!(behavior.poll_ms);
            }
            TaskKind::Extension => {
                shape["ttlMs"] = json!(behavior.ttl_ms);
                shape["pollIntervalMs"] = json!(behavior.poll_ms);
                if job.state == "completed" {
                    shape["result"] = job.result();
                }
                if job.state == "input_required" {
                    let asks = job.asking.iter().map(|asking| {
                        let ask = json!({"method": "elicitation/create", "params": {"message": asking.key}});
                        (asking.key.clone(), ask)
                    });
                    shape["inputRequests"] = Value::Object(asks.collect());
                }
            }
        }
        shape
    }

    /// The place of a task that this asker may see.
    fn visible(&self, id: &str, session: Option<&String>) -> Option<usize> {
        let at = self.task_host.jobs.iter().position(|job| job.id == id)?;
        let job = self.task_host.jobs.get(at)?;
        let is_bound = job.kind == TaskKind::Core
            && self.task_host.behavior.core_is_bound == Some(true)
            && self.style.has_session;
        (!is_bound || job.session.as_ref() == session).then_some(at)
    }

    fn about_task(&mut self, conn: Conn, session: Option<&String>, message: &Value, method: &str) {
        let id = &message["id"];
        let task = message["params"]["taskId"].as_str().unwrap_or_default();
        let Some(at) = self.visible(task, session) else {
            return self.rpc_error(conn, id, -32602, "Task not found");
        };
        match method {
            "tasks/get" => {
                if let Some(job) = self.task_host.jobs.get_mut(at) {
                    job.looks += 1;
                    if self.task_host.behavior.has_replica && job.looks.is_multiple_of(2) {
                        return self.rpc_error(conn, id, -32602, "Task not found");
                    }
                }
                if let Some(job) = self.task_host.jobs.get(at) {
                    let shape = self.shape(job);
                    self.answer(conn, id, &shape, None);
                }
            }
            "tasks/update" => self.updated(conn, id, at, &message["params"]["inputResponses"]),
            "tasks/cancel" => self.task_cancelled(conn, id, at),
            _ => {
                self.moves_to(at, session);
                self.result_wanted(conn, id, at);
            }
        }
    }

    /// A task that is not bound to its session asks in the one that its result is waited for in.
    fn moves_to(&mut self, at: usize, session: Option<&String>) {
        let session = session.filter(|_| self.style.has_session).cloned();
        let Some(job) = self.task_host.jobs.get_mut(at) else {
            return;
        };
        if job.session == session {
            return;
        }
        job.session.clone_from(&session);
        let numbers = self.task_host.numbers.entry(session).or_default();
        for asking in job.asking.iter_mut().filter(|it| it.answered_at.is_none()) {
            (asking.number, asking.was_sent) = (*numbers, false);
            *numbers += 1;
        }
    }

    fn updated(&mut self, conn: Conn, id: &Value, at: usize, responses: &Value) {
        let (now, behavior) = (self.now, self.task_host.behavior.clone());
        let mut is_stale = false;
        // A refused request takes none of its answers, and what does not fit does not fit when it comes again, late or
        // repeated.
        let task = self
            .task_host
            .jobs
            .get(at)
            .map(|job| job.id.clone())
            .unwrap_or_default();
        let mut is_refused = false;
        for (key, value) in responses.as_object().into_iter().flatten() {
            let text = value.to_string();
            let refused = self.task_host.refused.entry(format!("{task}/{key}"));
            is_refused |= behavior.is_picky && *refused.or_insert_with(|| text.clone()) == text;
        }
        if is_refused {
            return self.rpc_error(conn, id, -32602, "not like that");
        }
        for (key, value) in responses.as_object().into_iter().flatten() {
            let Some(job) = self.task_host.jobs.get_mut(at) else {
                return;
            };
            let instance = format!("{}/{key}", job.id);
            let Some(asking) = job.asking.iter_mut().find(|asking| asking.key == *key) else {
                is_stale = true;
                continue;
            };
            if asking.answered_at.is_some() {
                is_stale = true;
            } else {
                asking.answered_at = Some(now + behavior.late_ms);
            }
            self.answered(&instance, value);
        }
        if is_stale && behavior.refuses_stale {
            return self.rpc_error(conn, id, -32602, "not asked");
        }
        self.settle_answers(at);
        self.answer(conn, id, &json!({"resultType": "complete"}), None);
    }

    /// An answer came; two different ones to one question are one too many.
    fn answered(&mut self, instance: &str, value: &Value) {
        let text = value.to_string();
        if value.is_null() {
            self.violations
                .push(format!("{instance}: the answer is missing"));
        }
        let all = self
            .task_host
            .answers
            .entry(instance.to_owned())
            .or_default();
        if all.iter().any(|old| *old != text) {
            self.violations.push(format!(
                "{instance} was answered {} and then {text}",
                all.join(", ")
            ));
        }
        all.push(text);
    }

    /// Answers whose time has come take effect.
    fn settle_answers(&mut self, at: usize) {
        let now = self.now;
        let Some(job) = self.task_host.jobs.get_mut(at) else {
            return;
        };
        if job.state != "input_required" {
            return;
        }
        job.asking
            .retain(|asking| asking.answered_at.is_none_or(|at| at > now));
        if job.asking.is_empty() {
            (job.state, job.next) = ("working", now + job.every);
            self.tell(at);
        }
    }

    fn task_cancelled(&mut self, conn: Conn, id: &Value, at: usize) {
        let Some(job) = self.task_host.jobs.get_mut(at) else {
            return;
        };
        if job.kind == TaskKind::Core {
            if job.is_over() {
                return self.rpc_error(conn, id, -32602, "it is over");
            }
            (job.state, job.asking) = ("cancelled", Vec::new());
            let job = job.clone();
            let shape = self.shape(&job);
            self.answer(conn, id, &shape, None);
            return self.tell(at);
        }
        let is_over = job.is_over();
        match self.task_host.behavior.on_task_cancel {
            OnTaskCancel::Never => {}
            _ if is_over => {}
            OnTaskCancel::Cancels => {
                (job.state, job.asking) = ("cancelled", Vec::new());
                self.tell(at);
            }
            OnTaskCancel::Drops => {
                self.task_host.jobs.remove(at);
            }
        }
        self.answer(conn, id, &json!({"resultType": "complete"}), None);
    }

    fn result_wanted(&mut self, conn: Conn, id: &Value, at: usize) {
        let Some(job) = self.task_host.jobs.get_mut(at) else {
            return;
        };
        self.wire.push((
            conn,
            ExchangeEvent::Opened {
                body: Body::Stream,
                session: None,
            },
        ));
        job.fetchers.push((conn, id.clone()));
        if job.is_over() {
            return self.hand_out(at);
        }
        self.ask_on_streams(at);
    }

    /// Sends the end of a core task to the clients that wait for its result.
    fn hand_out(&mut self, at: usize) {
        let Some(job) = self.task_host.jobs.get_mut(at) else {
            return;
        };
        let (job, fetchers) = (job.clone(), std::mem::take(&mut job.fetchers));
        for (conn, id) in fetchers {
            let data = if job.state == "cancelled" {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no result stored"}})
            } else {
                json!({"jsonrpc": "2.0", "id": id, "result": job.result()})
            };
            self.event(conn, &data);
            self.send(conn, ExchangeEvent::Ended);
        }
    }

    /// A core task asks on the stream of its result.
    fn ask_on_streams(&mut self, at: usize) {
        let again = self.task_host.behavior.asks_again;
        let Some(job) = self.task_host.jobs.get_mut(at) else {
            return;
        };
        let Some((conn, _)) = job.fetchers.last().cloned() else {
            return;
        };
        let mut asks = Vec::new();
        for asking in job.asking.iter_mut().filter(|a| a.answered_at.is_none()) {
            if again || !asking.was_sent {
                asking.was_sent = true;
                asks.push(asking.number);
            }
        }
        let task = job.id.clone();
        for number in asks {
            let data = json!({"jsonrpc": "2.0", "id": number, "method": "elicitation/create", "params": {
                "message": "sure?", "_meta": {"io.modelcontextprotocol/related-task": {"taskId": task}}}});
            self.event(conn, &data);
        }
    }

    /// The number of the next request of the server in a session.
    pub(super) fn next_number(&mut self, session: Option<&String>) -> u64 {
        let number = self.task_host.numbers.entry(session.cloned()).or_default();
        *number += 1;
        *number - 1
    }

    /// An answer to a request of the server.
    fn reply(&mut self, session: Option<&String>, message: &Value) {
        let Some(number) = message["id"].as_u64() else {
            return;
        };
        let session = session.filter(|_| self.style.has_session).cloned();
        let (now, late) = (self.now, self.task_host.behavior.late_ms);
        let mut value = message["result"].clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("_meta");
        }
        let instance = format!("{session:?}#{number}");
        for at in 0..self.task_host.jobs.len() {
            let Some(job) = self.task_host.jobs.get_mut(at) else {
                continue;
            };
            let is_of = job.kind == TaskKind::Core && job.session == session;
            let Some(asking) = job
                .asking
                .iter_mut()
                .find(|asking| is_of && asking.number == number)
            else {
                continue;
            };
            asking.answered_at.get_or_insert(now + late);
            self.settle_answers(at);
        }
        self.run_answered(session.as_ref(), number);
        self.answered(&instance, &value);
    }

    /// Notifies listening and waiting clients of a changed task.
    fn tell(&mut self, at: usize) {
        let Some(job) = self.task_host.jobs.get(at).cloned() else {
            return;
        };
        if job.kind == TaskKind::Core {
            if job.is_over() {
                self.hand_out(at);
            } else if job.state == "input_required" {
                self.ask_on_streams(at);
            }
            return;
        }
        if self.task_host.behavior.on_listen != OnListen::Tells {
            return;
        }
        let conns: Vec<Conn> = self
            .task_host
            .listeners
            .iter()
            .filter(|(_, _, ids)| ids.contains(&job.id))
            .map(|(conn, _, _)| *conn)
            .collect();
        let params = self.shape(&job);
        for conn in conns {
            self.task_host.nudges += 1;
            let data = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params});
            self.event(conn, &data);
        }
    }

    /// The server has noticed that a connection is dead.
    pub(super) fn newer_dropped(&mut self, conn: Conn) {
        self.task_host.listeners.retain(|(of, _, _)| *of != conn);
        for job in &mut self.task_host.jobs {
            job.fetchers.retain(|(of, _)| *of != conn);
        }
    }

    pub(super) fn newer_died(&mut self) {
        self.task_host.listeners.clear();
        if !self.task_host.behavior.keeps_tasks {
            self.task_host.jobs.clear();
        }
        for job in &mut self.task_host.jobs {
            job.fetchers.clear();
        }
    }

    pub(super) fn newer_booted(&mut self) {
        self.task_host.boots += 1;
        self.task_host.nudges += 2;
        let (speaks, now) = (self.task_host.speaks(), self.now);
        let has_core = self.task_host.offers_core();
        self.task_host.jobs.retain(|job| match job.kind {
            TaskKind::Core => has_core,
            TaskKind::Extension => speaks.modern(),
        });
        if !speaks.stateful() {
            self.sessions.clear();
        }
        for job in &mut self.task_host.jobs {
            job.next = job.next.max(now + job.every);
        }
    }

    pub(super) fn newer_tick_at(&self) -> Option<u64> {
        let ttl = self.task_host.behavior.ttl_ms;
        let jobs = self.task_host.jobs.iter().flat_map(|job| {
            let works = (job.state == "working").then_some(job.next);
            let expires = ttl.map(|ttl| job.created + ttl);
            let asking = job.asking.iter().map(|asking| {
                asking
                    .answered_at
                    .unwrap_or(asking.since.saturating_add(QUESTION_TIMEOUT))
            });
            asking.chain(works).chain(expires)
        });
        jobs.min()
    }

    pub(super) fn newer_tick(&mut self) {
        let now = self.now;
        if let Some(ttl) = self.task_host.behavior.ttl_ms {
            let is_over = |job: &Job| now >= job.created + ttl;
            for at in (0..self.task_host.jobs.len()).rev() {
                if self.task_host.jobs.get(at).is_some_and(is_over) {
                    self.task_host.jobs.remove(at);
                }
            }
        }
        for at in 0..self.task_host.jobs.len() {
            self.settle_answers(at);
            let asks_again = self.task_host.behavior.asks_again;
            let Some(job) = self.task_host.jobs.get_mut(at) else {
                continue;
            };
            if let Some(asking) = job.asking.iter_mut().find(|asking| {
                asking.answered_at.is_none() && now >= asking.since.saturating_add(QUESTION_TIMEOUT)
            }) {
                if job.kind == TaskKind::Core && !asks_again {
                    let key = job.key.clone();
                    (job.state, job.is_vain, job.asking) = ("failed", true, Vec::new());
                    self.task_host.vain.insert(key);
                    self.tell(at);
                } else {
                    asking.since = u64::MAX / 2;
                }
                continue;
            }
            if job.state != "working" || now < job.next {
                continue;
            }
            let asks_now = job.asks_left > 0 && job.step >= job.steps / 2;
            if asks_now {
                job.asks_left -= 1;
                let count = if job.asked.is_multiple_of(2) { 1 } else { 2 };
                let (session, kind) = (job.session.clone(), job.kind);
                let asked = job.asked;
                job.asked += 1;
                job.state = "input_required";
                for place in 0..count {
                    let number = if kind == TaskKind::Core {
                        self.next_number(session.as_ref())
                    } else {
                        0
                    };
                    if let Some(job) = self.task_host.jobs.get_mut(at) {
                        job.asking.push(Asking {
                            key: format!("k{asked}:{place}"),
                            number,
                            since: now,
                            was_sent: false,
                            answered_at: None,
                        });
                    }
                }
                self.tell(at);
                continue;
            }
            job.step += 1;
            job.next = now + job.every;
            if job.step >= job.steps.max(1) {
                let is_core = job.kind == TaskKind::Core;
                job.state = if is_core && job.fails {
                    "failed"
                } else {
                    "completed"
                };
            }
            self.tell(at);
        }
    }

    /// A session is ended by its client, and with it what is bound to it.
    pub(super) fn end_session_of_tasks(&mut self, session: &String) {
        if self.task_host.behavior.core_is_bound != Some(true) {
            return;
        }
        let is_of =
            |job: &&Job| job.kind == TaskKind::Core && job.session.as_ref() == Some(session);
        let ended = self.task_host.jobs.iter().filter(is_of);
        let keys = ended
            .filter(|job| !job.is_over())
            .map(|job| job.key.clone());
        self.ended_by_delete.extend(keys);
        self.task_host.jobs.retain(|job| !is_of(&job));
    }

    /// A task that a client could still ask for.
    pub(crate) fn task_in_reach(&self, key: &str) -> Option<&Job> {
        self.task_host.jobs.iter().find(|job| {
            job.key == key
                && (job.kind == TaskKind::Extension || {
                    let is_bound = self.task_host.behavior.core_is_bound == Some(true)
                        && self.style.has_session;
                    !is_bound
                        || job
                            .session
                            .as_ref()
                            .is_some_and(|session| self.sessions.contains(session))
                })
        })
    }
}
