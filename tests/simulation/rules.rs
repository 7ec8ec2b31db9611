//! The rules that have a number or an order in them, one by one, against a bare machine.

use std::{sync::Arc, time::Duration};

use longhaul::{
    domain::{
        Connectivity, HistoryEvent, Limits, LinkRecord, LostReason, Mono, NewCall, Phase,
        ProtocolVersion, RequestError, Row, ServerName, SessionRequest, SessionResponse, Stamp,
        Status, Task, TaskCapability, TaskId, TaskKind, TaskView, UnknownReason, Wall,
    },
    link::{Choice, ExchangeId, Input, Link, Output, SaveToken},
    protocol::{Body, ExchangeEvent, HttpError, Method, Request, RpcError},
};
use serde_json::{Value, json};

use super::{crowd, world::restored};

mod bounds;
mod faults;
mod looks;
mod newer;
mod proofs;
mod recheck;
mod seams;
mod session_stream;
mod silence;

const START: i64 = 1_700_000_000_000;

/// A machine whose disk is as fast as a test wants it, and what it sent.
struct Bench {
    link: Link,
    now: u64,
    slept: u64,
    /// How far a hand has set the wall clock.
    jumped: i64,
    sent: Vec<(u64, ExchangeId, Request)>,
    closed: Vec<ExchangeId>,
    answers: Vec<Result<SessionResponse, RequestError>>,
    views: Vec<TaskView>,
    rows: Vec<Row>,
    /// Saves that wait for the test to decide.
    pending: Vec<SaveToken>,
    awaiting_save: Vec<(SaveToken, Output)>,
    saves_at_once: bool,
    asks: u64,
    /// Up to where a test has looked at what was sent.
    seen: usize,
    standalone: Standalone,
}

/// What the server makes of a bare GET.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Standalone {
    /// It answers 405, which most tests do not look at.
    Absent,
    /// It opens the stream at once.
    Opens,
    /// The test answers.
    Waits,
}

fn id() -> TaskId {
    TaskId::from_bits(7)
}

fn event(id: &str, data: &Value) -> ExchangeEvent {
    ExchangeEvent::Event {
        id: Some(id.into()),
        retry_ms: None,
        data: if data.is_null() {
            String::new()
        } else {
            data.to_string()
        },
    }
}

fn opened() -> ExchangeEvent {
    ExchangeEvent::Opened {
        body: Body::Stream,
        session: None,
    }
}

fn refused(status: u16) -> ExchangeEvent {
    ExchangeEvent::Refused(Box::new(HttpError {
        status,
        ..HttpError::default()
    }))
}

/// As an MCP server refuses a session that it does not know.
fn refused_by_server(status: u16) -> ExchangeEvent {
    let ExchangeEvent::Refused(mut refusal) = refused(status) else {
        unreachable!()
    };
    refusal.error = Some(RpcError {
        code: -32001,
        message: "Session not found".to_owned(),
        data: None,
    });
    ExchangeEvent::Refused(refusal)
}

/// A response without a body.
fn accepted() -> ExchangeEvent {
    ExchangeEvent::Opened {
        body: Body::Empty(202),
        session: None,
    }
}

impl Bench {
    fn new(record: LinkRecord) -> Self {
        // The rules in this file are those of the stateful era; finding the era has rules of its own.
        let choice = Choice {
            version: Some(ProtocolVersion::V20251125),
            is_configured: false,
        };
        Self::with(record, choice)
    }

    fn with(record: LinkRecord, choice: Choice) -> Self {
        let stamp = Stamp {
            mono: Mono(0),
            wall: Wall(START),
        };
        Self {
            link: Link::new(record, choice, 7, stamp),
            now: 0,
            slept: 0,
            jumped: 0,
            sent: Vec::new(),
            closed: Vec::new(),
            answers: Vec::new(),
            views: Vec::new(),
            rows: Vec::new(),
            pending: Vec::new(),
            awaiting_save: Vec::new(),
            saves_at_once: true,
            asks: 0,
            seen: 0,
            standalone: Standalone::Absent,
        }
    }

    /// A known server with a plain and a checkpoint tool.
    fn known() -> Self {
        let mut record = LinkRecord::new(ServerName::new("lab"), "http://lab/mcp");
        record.session = Some("s".to_owned());
        (record.session_number, record.is_initialized) = (1, true);
        record.version = Some(ProtocolVersion::V20251125);
        record.tools_at = Some(Wall(START));
        (
            record.standalone.session_number,
            record.standalone.is_absent,
        ) = (1, true);
        let tools = json!({"tools": [
            {"name": "steps", "inputSchema": {"type": "object"}},
            {"name": "work", "inputSchema": {"properties": {"client_id": {"type": "string"}}}},
            {"name": "list_session_tasks", "inputSchema": {}}, {"name": "pause_task", "inputSchema": {}}]});
        record.tools = longhaul::protocol::parse_tool_page(&tools.to_string()).0;
        Self::new(record)
    }

    /// The same as a stdio server, which has been started; with the exchange on which all it says comes.
    fn process() -> (Self, ExchangeId) {
        let mut record = Self::known().link.record().clone();
        record.url = "stdio:lab".to_owned();
        let mut bench = Self::new(record);
        bench.standalone = Standalone::Waits;
        bench.link.inherit_process(true);
        bench.feed(Input::Timer);
        let (_, pipe, _) = bench.gets().pop().expect("its start");
        let target = Ok("stdio:lab".to_owned());
        bench.bring(pipe, opened());
        bench.bring(pipe, ExchangeEvent::Endpoint { target });
        (bench, pipe)
    }

    /// The same with one tool, on a server that makes core tasks of calls; `binds`: whether to its session.
    fn core(support: &str, binds: Option<bool>) -> Self {
        let mut record = Self::known().link.record().clone();
        record.tasks = Some(TaskCapability {
            kind: TaskKind::Core,
            can_list: false,
        });
        record.binds_tasks = binds;
        let tools = json!({"tools": [{"name": "steps", "execution": {"taskSupport": support}}]});
        record.tools = longhaul::protocol::parse_tool_page(&tools.to_string()).0;
        Self::new(record)
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            mono: Mono(self.now),
            wall: Wall(START + self.jumped + i64::try_from(self.now + self.slept).unwrap()),
        }
    }

    fn feed(&mut self, input: Input) {
        let stamp = self.stamp();
        self.link.handle(stamp, input);
        self.views.extend(self.link.take_views());
        let mut bare = Vec::new();
        for output in self.link.take_outputs() {
            match output {
                Output::Send {
                    exchange,
                    request:
                        Request {
                            method: Method::Get { cursor: None },
                            ..
                        },
                    ..
                } if self.standalone == Standalone::Absent && self.link.record().is_initialized => {
                    bare.push((exchange, refused(405)));
                }
                Output::Send {
                    exchange,
                    request:
                        request @ Request {
                            method: Method::Get { cursor: None },
                            ..
                        },
                    ..
                } if self.standalone == Standalone::Opens => {
                    self.sent.push((self.now, exchange, request));
                    bare.push((exchange, opened()));
                }
                Output::Save { token, rows, .. } => {
                    self.rows.extend(Arc::unwrap_or_clone(rows));
                    self.pending.push(token);
                }
                Output::Send {
                    after: Some(after), ..
                }
                | Output::Answer {
                    after: Some(after), ..
                } if !self.saves_at_once => {
                    self.awaiting_save.push((after, output));
                }
                other => self.carry_out(other),
            }
        }
        for (exchange, arrival) in bare {
            self.bring(exchange, arrival);
        }
        while self.saves_at_once && !self.pending.is_empty() {
            let token = self.pending.remove(0);
            self.feed(Input::Saved(token));
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send {
                exchange, request, ..
            } => self.sent.push((self.now, exchange, request)),
            Output::Close { exchange } => self.closed.push(exchange),
            Output::Answer { outcome, .. } => self.answers.push(outcome),
            Output::Save { .. } => {}
        }
    }

    /// Lets time pass, with the timer whenever the machine wants it.
    fn wait(&mut self, time: Duration) {
        let end = self.now + u64::try_from(time.as_millis()).unwrap();
        while let Some(wake) = self.link.next_wake().filter(|wake| wake.0 <= end) {
            self.now = self.now.max(wake.0);
            self.feed(Input::Timer);
        }
        self.now = end;
    }

    fn secs(&mut self, seconds: u64) {
        self.wait(Duration::from_secs(seconds));
    }

    fn bring(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        self.feed(Input::Arrived { exchange, arrival });
    }

    fn ask(&mut self, what: SessionRequest) {
        self.asks += 1;
        let ask = self.asks;
        self.feed(Input::Ask { ask, what });
    }

    fn start(&mut self, tool: &str, limits: Limits) {
        self.start_as(id(), tool, limits);
    }

    fn start_as(&mut self, id: TaskId, tool: &str, limits: Limits) {
        self.ask(SessionRequest::Start(Box::new(NewCall {
            tool: tool.to_owned(),
            limits,
            ..super::crowd::call(id)
        })));
    }

    /// Starts a call and opens its stream; returns its exchange and request id.
    fn call(&mut self, tool: &str) -> (ExchangeId, String) {
        self.start(tool, Limits::default());
        let (exchange, request_id) = self.last_post("tools/call");
        self.bring(exchange, opened());
        (exchange, request_id)
    }

    /// Answers the newest request of this method; `{}` for those that want nothing.
    fn answer(&mut self, method: &str, result: &Value) {
        let (_, exchange, message) = self.posts(method).pop().expect(method);
        self.answer_on(exchange, &message.to_string(), result);
    }

    /// Answers one request.
    fn answer_on(&mut self, exchange: ExchangeId, request: &str, result: &Value) {
        let request: Value = serde_json::from_str(request).unwrap();
        self.bring(exchange, opened());
        let data = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
        self.bring(
            exchange,
            ExchangeEvent::Event {
                id: None,
                retry_ms: None,
                data,
            },
        );
        self.bring(exchange, ExchangeEvent::Ended);
    }

    fn list_says(&mut self, status: &str, progress: u32) {
        self.answer("tools/call", &listed(status, progress));
    }

    fn shake_hands(&mut self) {
        self.greet();
        let (exchange, _) = self.last_post("notifications/initialized");
        self.bring(
            exchange,
            ExchangeEvent::Opened {
                body: Body::Empty(202),
                session: None,
            },
        );
        self.bring(exchange, ExchangeEvent::Ended);
        if self.count("tools/list") > 0 {
            self.answer("tools/list", &json!({"tools": [{"name": "steps"}]}));
        }
    }

    /// Answers the handshake; its end is still to be announced.
    fn greet(&mut self) {
        let (exchange, request_id) = self.last_post("initialize");
        let session = Some("s2".to_owned());
        self.bring(
            exchange,
            ExchangeEvent::Opened {
                body: Body::Json,
                session,
            },
        );
        let data = json!({"jsonrpc": "2.0", "id": request_id, "result": {"protocolVersion": "2025-11-25"}});
        self.bring(
            exchange,
            ExchangeEvent::Event {
                id: None,
                retry_ms: None,
                data: data.to_string(),
            },
        );
    }

    fn posts(&self, method: &str) -> Vec<(u64, ExchangeId, Value)> {
        let read = |(at, exchange, request): &(u64, ExchangeId, Request)| match &request.method {
            // Most are about something else and need not be parsed.
            Method::Post { body, .. } if body.contains(method) => {
                let message: Value = serde_json::from_str(body).unwrap();
                (message["method"] == method).then_some((*at, *exchange, message))
            }
            _ => None,
        };
        self.sent.iter().filter_map(read).collect()
    }

    fn count(&self, method: &str) -> usize {
        self.posts(method).len()
    }

    fn last_post(&self, method: &str) -> (ExchangeId, String) {
        let (_, exchange, message) = self.posts(method).pop().expect(method);
        (
            exchange,
            message["id"].as_str().unwrap_or_default().to_owned(),
        )
    }

    /// The server answers the newest cancel as MCP wants it: 202, without a body.
    fn accept_cancel(&mut self) {
        let (cancel, _) = self.last_post("notifications/cancelled");
        self.bring(cancel, accepted());
        self.bring(cancel, ExchangeEvent::Ended);
    }

    /// The GETs so far: when, on which exchange, from which cursor.
    fn gets(&self) -> Vec<(u64, ExchangeId, String)> {
        let read = |(at, exchange, request): &(u64, ExchangeId, Request)| match &request.method {
            Method::Get { cursor } => {
                Some((*at, *exchange, cursor.clone().unwrap_or_default().into()))
            }
            _ => None,
        };
        self.sent.iter().filter_map(read).collect()
    }

    fn last_get(&self) -> (ExchangeId, String) {
        let (_, exchange, cursor) = self.gets().pop().expect("a GET");
        (exchange, cursor)
    }

    /// The server refuses its session for as long as it takes to prove that it is gone.
    fn refuse_session(&mut self, status: u16) {
        let mut refused = 0;
        for _ in 0..20 {
            let sent = self.sent.len();
            self.refuse_since(refused, status);
            refused = sent;
            self.secs(1);
        }
    }

    /// Refuses the pings and the resumes sent since.
    fn refuse_since(&mut self, seen: usize, status: u16) {
        let is_asked = |request: &Request| match &request.method {
            Method::Post { body, .. } => body.contains("\"ping\""),
            method => matches!(method, Method::Get { .. }),
        };
        let late: Vec<ExchangeId> = self.sent[seen..]
            .iter()
            .filter(|(.., request)| is_asked(request))
            .map(|(_, exchange, _)| *exchange)
            .collect();
        for exchange in late {
            self.bring(exchange, refused_by_server(status));
        }
    }

    /// The task as it was saved last.
    fn saved(&self) -> Task {
        let task = self.rows.iter().rev().find_map(|row| match row {
            Row::Task(task) => Some(task.as_ref().clone()),
            _ => None,
        });
        task.unwrap()
    }

    fn view(&self) -> &TaskView {
        self.views
            .iter()
            .rev()
            .find(|view| view.task.id == id())
            .expect("a view")
    }

    fn status(&self) -> &Status {
        &self.view().task.status
    }

    fn step(&mut self, exchange: ExchangeId, event_id: &str, token: &str, value: u32) {
        let data = json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": value}});
        self.bring(exchange, event(event_id, &data));
    }

    fn broken(&mut self, exchange: ExchangeId) {
        self.bring(
            exchange,
            ExchangeEvent::Broken {
                why: "reset".to_owned(),
            },
        );
    }
}

/// The answer of a list with one checkpoint.
fn listed(status: &str, progress: u32) -> Value {
    let list = json!({"tasks": [{"task_id": "cp", "tool": "work", "status": status, "progress": progress}]});
    json!({"content": [{"type": "text", "text": list.to_string()}]})
}

fn result(request_id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": request_id, "result": {"content": [{"type": "text", "text": "done"}]}})
}

#[test]
fn a_resume_starts_at_the_newest_id_that_came_with_data() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.bring(call, event("p", &Value::Null));
    bench.step(call, "a", &token, 1);
    bench.bring(call, event("newer", &Value::Null));
    bench.broken(call);
    bench.secs(1);
    assert_eq!(bench.last_get().1, "a");
}

#[test]
fn a_clean_end_is_not_an_end_and_the_result_is_taken_by_its_id() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.bring(call, ExchangeEvent::Ended);
    bench.secs(1);
    let (get, _) = bench.last_get();
    bench.bring(get, opened());
    bench.bring(get, event("b", &result(&token)));
    assert_eq!(bench.status(), &Status::Completed);
    assert!(bench.closed.contains(&get), "nothing more is wanted of it");
}

#[test]
fn reopens_a_resumed_stream_until_it_shows_life() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "e1", &token, 1);
    bench.broken(call);
    bench.secs(1);
    let mut get = bench.last_get().0;
    bench.bring(get, opened());
    // A replay in one go says nothing of what follows it.
    bench.step(get, "e2", &token, 2);
    bench.step(get, "e3", &token, 3);
    bench.secs(6);
    assert_eq!((bench.last_get().1.as_str(), bench.gets().len()), ("e3", 2));
    get = bench.last_get().0;
    bench.bring(get, opened());
    for step in 4..100 {
        bench.secs(4);
        bench.step(get, &format!("e{step}"), &token, step);
    }
    assert_eq!(bench.gets().len(), 2, "it tells as it goes");
    bench.secs(19);
    assert_eq!(bench.gets().len(), 2);
    bench.secs(2);
    assert_eq!(bench.gets().len(), 3, "and then it is silent");
}

#[test]
fn probes_an_older_cursor_after_two_empty_resumes() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.step(call, "b", &token, 2);
    bench.bring(call, ExchangeEvent::Ended);
    for _ in 0..2 {
        bench.secs(5);
        let (get, cursor) = bench.last_get();
        assert_eq!(cursor, "b");
        bench.bring(get, opened());
        bench.bring(get, ExchangeEvent::Ended);
    }
    bench.secs(10);
    let (probe, cursor) = bench.last_get();
    assert_eq!(cursor, "a");
    bench.bring(probe, opened());
    bench.step(probe, "b", &token, 2);
    bench.bring(probe, ExchangeEvent::Ended);
    assert_eq!(bench.status(), &Status::Running);
    bench.secs(60);
    assert_eq!(bench.last_get().1, "b", "slow polling goes on");
}

#[test]
fn lost_takes_an_empty_probe_and_one_more_empty_resume() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.step(call, "b", &token, 2);
    bench.bring(call, ExchangeEvent::Ended);
    for cursor in ["b", "b", "a", "b"] {
        assert_eq!(bench.status(), &Status::Running);
        bench.secs(10);
        let (get, from) = bench.last_get();
        assert_eq!(from, cursor);
        bench.bring(get, opened());
        bench.bring(get, ExchangeEvent::Ended);
    }
    assert!(matches!(
        bench.status(),
        Status::Lost(LostReason::ReplayGone { .. })
    ));
}

#[test]
fn a_probe_that_breaks_proves_nothing() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.step(call, "b", &token, 2);
    bench.bring(call, ExchangeEvent::Ended);
    for _ in 0..30 {
        bench.secs(80);
        let (get, _) = bench.last_get();
        bench.bring(get, opened());
        bench.broken(get);
    }
    assert_eq!(bench.status(), &Status::Running);
}

#[test]
fn reopens_a_silent_resumed_stream_with_backoff() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.broken(call);
    let mut asked = Vec::new();
    for _ in 0..400 {
        bench.secs(1);
        if bench.gets().len() > asked.len() {
            let (at, get, _) = bench.gets().pop().unwrap();
            asked.push(at / 1000);
            bench.bring(get, opened());
            // Keep-alive comments are no news.
            bench.bring(get, ExchangeEvent::Alive);
        }
    }
    let gaps: Vec<u64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // The first of the last repetitions comes early or late, so that all streams fall together from then on.
    let expected = [5..=7, 10..=12, 20..=22, 40..=42, 29..=92, 58..=62, 58..=62];
    for (gap, expected) in gaps.iter().zip(&expected) {
        assert!(expected.contains(gap), "{gaps:?}");
    }
    assert!(gaps.len() >= expected.len(), "{gaps:?}");
    assert_eq!(asked.last().map(|at| at % 60), Some(0), "{asked:?}");
}

#[test]
fn a_ping_keeps_the_session_after_a_minute_of_silence() {
    let mut bench = Bench::known();
    bench.call("steps");
    bench.secs(59);
    assert_eq!(bench.count("ping"), 0);
    bench.secs(2);
    assert_eq!(bench.count("ping"), 1);
    bench.answer("ping", &json!({}));
    bench.secs(300);
    assert!(bench.count("ping") <= 6);
}

#[test]
fn ends_the_session_only_when_all_tasks_are_settled() {
    for is_done in [false, true] {
        let mut bench = Bench::known();
        let (call, token) = bench.call("steps");
        bench.step(call, "a", &token, 1);
        if is_done {
            bench.bring(call, event("b", &result(&token)));
        }
        bench.feed(Input::Leave);
        let has_deleted = bench
            .sent
            .iter()
            .any(|(_, _, request)| request.method == Method::Delete);
        assert_eq!(has_deleted, is_done);
    }
}

#[test]
fn leaving_notes_when_a_quiet_call_was_last_watched() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.secs(60);
    let of_step = bench.saved().updated_at;
    bench.feed(Input::Leave);
    assert!(bench.saved().updated_at > of_step);
}

#[test]
fn the_session_is_ended_only_once_its_last_end_is_on_disk() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.saves_at_once = false;
    bench.bring(call, event("a", &result(&token)));
    bench.feed(Input::Leave);
    let has_delete = |bench: &Bench| {
        let is_delete = |sent: &(u64, ExchangeId, Request)| sent.2.method == Method::Delete;
        bench.sent.iter().any(is_delete)
    };
    assert!(!has_delete(&bench) && !bench.link.is_at_rest());
    while let Some(token) = bench.pending.pop() {
        bench.feed(Input::Saved(token));
    }
    assert!(has_delete(&bench));
}

#[test]
fn a_removed_task_that_still_runs_keeps_its_session() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::Forget(id()));
    bench.feed(Input::Leave);
    assert!(
        bench
            .sent
            .iter()
            .all(|(_, _, request)| request.method != Method::Delete)
    );
}

#[test]
fn gives_up_an_ignored_pause_after_a_minute() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("work");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::Pause(id()));
    for step in 2..70 {
        if bench.posts("tools/call").pop().unwrap().2["params"]["name"] == "list_session_tasks" {
            bench.list_says(if step % 2 == 0 { "paused" } else { "running" }, step);
        }
        if bench.posts("tools/call").pop().unwrap().2["params"]["name"] == "pause_task" {
            bench.answer("tools/call", &json!({"content": []}));
        }
        bench.secs(1);
        if bench.now < 58_000 {
            assert!(bench.view().task.control.is_some());
        }
    }
    assert_eq!(bench.status(), &Status::Running);
    assert!(bench.view().task.control.is_none());
    assert!(
        bench
            .view()
            .task
            .notice
            .as_deref()
            .unwrap_or_default()
            .contains("did not stop")
    );
}

#[test]
fn a_call_stopped_for_a_pause_is_paused_and_can_be_resumed() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("work");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::Pause(id()));
    for step in 2..5 {
        let name = bench.posts("tools/call").pop().unwrap().2["params"]["name"].clone();
        match name.as_str().unwrap() {
            "list_session_tasks" => bench.list_says("running", step),
            "pause_task" => bench.answer("tools/call", &json!({"content": []})),
            _ => {}
        }
        bench.secs(1);
    }
    assert_eq!(bench.status(), &Status::Running);
    bench.ask(SessionRequest::StopNow(id()));
    bench.accept_cancel();
    for _ in 0..20 {
        let name = bench.posts("tools/call").pop().unwrap().2["params"]["name"].clone();
        if name == "list_session_tasks" {
            bench.list_says("cancelled", 5);
        }
        bench.secs(1);
    }
    assert_eq!(bench.status(), &Status::Paused);
    let calls = bench.posts("tools/call").len();
    bench.ask(SessionRequest::Resume(id()));
    bench.secs(1);
    let again = bench.posts("tools/call");
    assert_eq!(again.len(), calls + 1);
    assert_eq!(again.last().unwrap().2["params"]["name"], "work");
}

#[test]
fn paused_needs_five_seconds_of_standing_still() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("work");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::Pause(id()));
    let mut paused_at = None;
    for second in 0..12 {
        let name = bench.posts("tools/call").pop().unwrap().2["params"]["name"].clone();
        match name.as_str().unwrap() {
            "list_session_tasks" => bench.list_says("paused", 4),
            "pause_task" => bench.answer("tools/call", &json!({"content": []})),
            _ => {}
        }
        if bench.status() == &Status::Paused {
            paused_at.get_or_insert(second);
        }
        bench.secs(1);
    }
    assert!(
        paused_at.is_some_and(|at| (5..=8).contains(&at)),
        "{paused_at:?}"
    );
}

#[test]
fn gives_up_an_unconfirmed_cancel_and_keeps_following() {
    let (mut bench, call, token) = cancelled_call();
    bench.secs(4);
    assert!(bench.view().task.control.is_some());
    bench.secs(2);
    assert!(bench.view().task.control.is_none());
    assert!(
        bench
            .view()
            .task
            .notice
            .as_deref()
            .unwrap_or_default()
            .contains("did not respond")
    );
    let error = json!({"jsonrpc": "2.0", "id": token, "error": {"code": 0, "message": "Request cancelled"}});
    bench.bring(call, event("b", &error));
    assert_eq!(bench.status(), &Status::Cancelled, "late proof is proof");
}

/// A call with one step, whose server has taken its cancel; its exchange and progress token.
fn cancelled_call() -> (Bench, ExchangeId, String) {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::Cancel(id()));
    bench.accept_cancel();
    (bench, call, token)
}

#[test]
fn a_cancelled_call_that_stays_silent_is_cancelled() {
    let (mut bench, call, token) = cancelled_call();
    // A step that was under way.
    bench.secs(2);
    bench.step(call, "b", &token, 2);
    bench.secs(25);
    assert_eq!(bench.status(), &Status::Running);
    bench.secs(120);
    assert_eq!(bench.status(), &Status::Cancelled);
    assert!(bench.view().task.end.is_unconfirmed);
}

#[test]
fn whatever_answers_a_cancel_is_fine() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::Cancel(id()));
    for _ in 0..10 {
        let (cancel, _) = bench.last_post("notifications/cancelled");
        let (event_id, retry_ms, data) = (None, None, "OK".to_owned());
        let body = Body::Json;
        bench.bring(
            cancel,
            ExchangeEvent::Opened {
                body,
                session: None,
            },
        );
        bench.bring(
            cancel,
            ExchangeEvent::Event {
                id: event_id,
                retry_ms,
                data,
            },
        );
        bench.bring(cancel, ExchangeEvent::Ended);
        bench.secs(1);
    }
    assert_eq!(bench.count("notifications/cancelled"), 1);
}

#[test]
fn a_cancel_that_may_have_overtaken_its_call_is_sent_again() {
    let mut bench = Bench::known();
    bench.start("steps", Limits::default());
    let (call, token) = bench.last_post("tools/call");
    bench.ask(SessionRequest::Cancel(id()));
    bench.accept_cancel();
    assert_eq!(bench.count("notifications/cancelled"), 1);
    bench.bring(call, opened());
    bench.step(call, "a", &token, 1);
    bench.secs(1);
    assert_eq!(bench.count("notifications/cancelled"), 2);
}

#[test]
fn a_cancelled_call_that_makes_progress_stays_running() {
    let (mut bench, call, token) = cancelled_call();
    bench.secs(10);
    bench.step(call, "b", &token, 2);
    bench.secs(600);
    assert_eq!(bench.status(), &Status::Running);
}

#[test]
fn a_call_that_ignores_cancel_can_be_abandoned() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::GiveUp(id()));
    assert!(
        matches!(&bench.answers.last(), Some(Err(refused)) if refused.to_string().contains("press x to cancel it first"))
    );
    bench.ask(SessionRequest::Cancel(id()));
    let (cancel, _) = bench.last_post("notifications/cancelled");
    bench.bring(cancel, refused(405));
    bench.ask(SessionRequest::GiveUp(id()));
    assert!(
        matches!(bench.answers.last(), Some(Err(_))),
        "it may react yet"
    );
    bench.secs(6);
    let notice = bench.view().task.notice.clone().unwrap_or_default();
    assert!(notice.contains("may still be running"), "{notice}");
    bench.ask(SessionRequest::GiveUp(id()));
    assert_eq!(bench.status(), &Status::Lost(LostReason::GivenUp));
    assert!(bench.closed.contains(&call));
    bench.feed(Input::Leave);
    let is_delete = |sent: &(u64, ExchangeId, Request)| sent.2.method == Method::Delete;
    assert!(!bench.sent.iter().any(is_delete), "it may work on");
}

#[test]
fn retries_an_undelivered_cancel_with_backoff() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::Cancel(id()));
    for _ in 0..600 {
        if let Some((_, cancel, _)) = bench.posts("notifications/cancelled").pop() {
            bench.bring(
                cancel,
                ExchangeEvent::NoAnswer {
                    why: "cut".to_owned(),
                },
            );
        }
        bench.secs(1);
    }
    assert!((10..200).contains(&bench.count("notifications/cancelled")));
}

#[test]
fn does_not_restart_a_cancelled_stalled_checkpoint() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("work");
    bench.step(call, "a", &token, 1);
    bench.bring(call, refused(500));
    bench.ask(SessionRequest::Cancel(id()));
    bench.broken(call);
    for _ in 0..60 {
        if let Some((_, get, _)) = bench.gets().pop() {
            bench.bring(get, refused(405));
        }
        if bench.count("ping") > 0 {
            bench.answer("ping", &json!({}));
        }
        if bench.posts("tools/call").pop().unwrap().2["params"]["name"] == "list_session_tasks" {
            bench.list_says("running", 4);
        }
        bench.secs(1);
    }
    assert_eq!(bench.status(), &Status::Cancelled);
    let calls = bench.posts("tools/call");
    assert_eq!(
        calls
            .iter()
            .filter(|(_, _, call)| call["params"]["name"] == "work")
            .count(),
        1
    );
}

#[test]
fn replaces_a_restored_session_lost_in_an_outage() {
    let mut bench = Bench::known();
    for _ in 0..3 {
        bench.ask(SessionRequest::Tools(ServerName::new("lab")));
        let (list, _) = bench.last_post("tools/list");
        let why = "no route".to_owned();
        let is_refused = true;
        bench.bring(list, ExchangeEvent::NotSent { why, is_refused });
        bench.secs(1);
    }
    bench.answers.clear();
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    let (list, _) = bench.last_post("tools/list");
    bench.bring(list, refused(404));
    bench.shake_hands();
    assert!(matches!(
        bench.answers.as_slice(),
        [Ok(SessionResponse::Tools(_))]
    ));
}

#[test]
fn asking_for_the_tools_in_an_outage_is_one_more_try_at_once() {
    let away = || ExchangeEvent::NotSent {
        why: "no route".to_owned(),
        is_refused: true,
    };
    let mut bench = Bench::known();
    bench.start("steps", Limits::default());
    for _ in 0..4 {
        let (call, _) = bench.last_post("tools/call");
        bench.bring(call, away());
        bench.secs(6);
    }
    let (call, _) = bench.last_post("tools/call");
    bench.bring(call, away());
    bench.answers.clear();
    for try_number in 1..=2 {
        bench.ask(SessionRequest::Tools(ServerName::new("lab")));
        assert_eq!(bench.count("tools/list"), try_number);
        assert!(bench.answers.is_empty(), "its outcome is not known yet");
        if try_number == 1 {
            let (list, _) = bench.last_post("tools/list");
            bench.bring(list, away());
            assert!(matches!(
                bench.answers.pop(),
                Some(Err(RequestError::Unreachable(_)))
            ));
        }
    }
    bench.answer("tools/list", &json!({"tools": [{"name": "steps"}]}));
    assert!(matches!(
        bench.answers.as_slice(),
        [Ok(SessionResponse::Tools(_))]
    ));
}

#[test]
fn a_call_does_not_wait_for_a_list_that_never_comes() {
    let (mut process, pipe) = Bench::process();
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    process.bring(pipe, event("", &changed));
    let mut record = Bench::known().link.record().clone();
    record.tools_at = None;
    let (mut http, mut unheard) = (Bench::new(record.clone()), Bench::new(record));
    for (bench, head, calls) in [
        (&mut process, Some(accepted()), 1),
        (&mut http, Some(opened()), 1),
        // Its server may be out of reach.
        (&mut unheard, None, 0),
    ] {
        bench.start("steps", Limits::default());
        let (list, _) = bench.last_post("tools/list");
        if let Some(head) = head {
            bench.bring(list, head);
        }
        bench.secs(29);
        assert_eq!(bench.count("tools/call"), 0);
        bench.secs(2);
        assert_eq!(bench.count("tools/call"), calls);
    }
}

#[test]
fn an_early_list_response_does_not_start_a_second_call() {
    let mut bench = Bench::known();
    bench.start("work", Limits::default());
    let (call, _) = bench.last_post("tools/call");
    bench.bring(
        call,
        ExchangeEvent::NoAnswer {
            why: "reset".to_owned(),
        },
    );
    let works = |bench: &Bench| {
        let calls = bench.posts("tools/call");
        let is_work = |call: &&(u64, ExchangeId, Value)| call.2["params"]["name"] == "work";
        calls.iter().filter(is_work).count()
    };
    let mut called_again_at = None;
    for second in 0..20 {
        bench.secs(1);
        if works(&bench) > 1 {
            called_again_at = Some(second);
            break;
        }
        // The words of a server that was restarted before the call: no loop is left, as far as it knows.
        bench.list_says("interrupted", 8);
    }
    assert!(
        called_again_at.is_some_and(|second| (10..14).contains(&second)),
        "called again after {called_again_at:?} s"
    );
}

#[test]
fn streams_reconnect_once_the_probe_is_answered() {
    let mut bench = Bench::known();
    let mut calls = Vec::new();
    for number in 0..3 {
        bench.start_as(TaskId::from_bits(number), "steps", Limits::default());
        let (exchange, request_id) = bench.last_post("tools/call");
        bench.bring(exchange, opened());
        bench.step(exchange, &format!("a{number}"), &request_id, 1);
        calls.push(exchange);
    }
    for call in calls {
        bench.broken(call);
    }
    bench.secs(1);
    let mut refused = 0;
    for _ in 0..20 {
        for (_, asked, _) in bench.gets().split_off(refused) {
            let why = "connection refused".to_owned();
            bench.bring(
                asked,
                ExchangeEvent::NotSent {
                    why,
                    is_refused: true,
                },
            );
            refused += 1;
        }
        bench.secs(1);
    }
    while bench.gets().len() == refused {
        bench.secs(1);
    }
    let before = bench.gets().len();
    let (prober, _) = bench.last_get();
    bench.bring(prober, opened());
    bench.secs(1);
    assert_eq!(
        bench.gets().len(),
        before + 2,
        "the two others, within a second"
    );
}

#[test]
fn a_wake_from_sleep_asks_at_once() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.bring(call, ExchangeEvent::Alive);
    bench.secs(1);
    bench.slept += 3_600_000;
    bench.feed(Input::Timer);
    assert_eq!(bench.gets().len(), 1);
    assert!(!bench.closed.contains(&call), "its socket may be alive");
}

#[test]
fn the_hard_limit_waits_after_a_sleep_for_what_the_server_has_to_tell() {
    let mut bench = Bench::known();
    let limits = Limits {
        hard: Some(Duration::from_secs(1800)),
        ..Limits::default()
    };
    bench.start("steps", limits);
    let (call, _) = bench.last_post("tools/call");
    bench.bring(call, opened());
    bench.secs(1);
    bench.slept += 3_600_000;
    bench.feed(Input::Timer);
    bench.secs(20);
    assert_eq!(bench.status(), &Status::Running);
    bench.secs(20);
    assert_eq!(bench.status(), &Status::Failed);
}

#[test]
fn retry_after_and_the_retry_of_the_stream_are_minimums() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.bring(
        call,
        ExchangeEvent::Event {
            id: None,
            retry_ms: Some(7000),
            data: String::new(),
        },
    );
    bench.broken(call);
    bench.wait(Duration::from_millis(6900));
    assert_eq!(bench.gets().len(), 0);
    bench.secs(1);
    let (get, _) = bench.last_get();
    bench.bring(
        get,
        ExchangeEvent::Refused(Box::new(HttpError {
            status: 503,
            retry_after: Some(Duration::from_secs(90)),
            ..HttpError::default()
        })),
    );
    bench.secs(89);
    assert_eq!(bench.gets().len(), 1);
    bench.secs(3);
    assert_eq!(bench.gets().len(), 2);
}

#[test]
fn retries_a_call_after_404_once_in_a_new_session() {
    let mut bench = Bench::known();
    bench.start("steps", Limits::default());
    for _ in 0..2 {
        let (call, _) = bench.last_post("tools/call");
        bench.bring(call, refused(404));
        bench.secs(40);
        if bench.status() == &Status::Running {
            bench.shake_hands();
        }
    }
    assert_eq!(bench.status(), &Status::Failed);
    assert_eq!(bench.count("tools/call"), 2);
    let ids: Vec<Value> = bench
        .posts("tools/call")
        .into_iter()
        .map(|(_, _, call)| call["id"].clone())
        .collect();
    assert!(
        ids.windows(2).all(|pair| pair[0] == pair[1]),
        "it is the same attempt"
    );
}

#[test]
fn a_late_404_of_an_old_session_leaves_the_new_one_alone() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.secs(61);
    bench.ask(SessionRequest::Cancel(id()));
    let (cancel, _) = bench.last_post("notifications/cancelled");
    bench.refuse_session(404);
    bench.broken(call);
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    bench.shake_hands();
    bench.bring(cancel, refused(404));
    bench.secs(5);
    assert_eq!(bench.count("initialize"), 1);
    assert!(bench.link.record().is_initialized);
}

#[test]
fn an_open_stream_can_deliver_after_its_session_ended() {
    for brings in [true, false] {
        let mut bench = Bench::known();
        let (call, token) = bench.call("steps");
        bench.step(call, "a", &token, 1);
        bench.secs(61);
        bench.refuse_session(404);
        assert_eq!(bench.status(), &Status::Running);
        if brings {
            bench.bring(call, event("b", &result(&token)));
            assert_eq!(bench.status(), &Status::Completed);
        } else {
            bench.secs(30);
            assert!(matches!(
                bench.status(),
                Status::Lost(LostReason::SessionGone { .. })
            ));
        }
    }
}

#[test]
fn a_call_waits_for_the_disk_and_a_failing_disk_refuses_it() {
    let mut bench = Bench::known();
    bench.saves_at_once = false;
    bench.start("steps", Limits::default());
    assert!(bench.sent.is_empty() && bench.answers.is_empty());
    let token = bench.pending.pop().unwrap();
    bench.awaiting_save.clear();
    bench.feed(Input::SaveFailed {
        token,
        why: "disk full".to_owned(),
    });
    assert!(matches!(
        bench.answers.as_slice(),
        [Err(RequestError::CannotSave(_))]
    ));
    assert!(!bench.link.holds(&id()));
    bench.rows.clear();
    bench.secs(2);
    assert!(
        matches!(bench.rows.as_slice(), [Row::Erase(_)]),
        "it may be on disk all the same"
    );
    bench.start("steps", Limits::default());
    // The disk may work again by now, so the next call is refused only once it can't be saved either.
    assert_eq!(bench.answers.len(), 1);
    for _ in 0..2 {
        let token = bench.pending.pop().unwrap();
        bench.awaiting_save.clear();
        bench.feed(Input::SaveFailed {
            token,
            why: "disk full".to_owned(),
        });
        bench.secs(2);
    }
    assert!(matches!(
        bench.answers.as_slice(),
        [_, Err(RequestError::CannotSave(_))]
    ));
}

#[test]
fn a_repeated_call_has_not_started_before_the_first_is_saved() {
    let mut bench = Bench::known();
    bench.saves_at_once = false;
    for number in [7, 8] {
        bench.ask(SessionRequest::Start(Box::new(NewCall {
            once: Some("nightly".to_owned()),
            ..crowd::call(TaskId::from_bits(number))
        })));
    }
    assert!(bench.answers.is_empty(), "{:?}", bench.answers);
    let token = bench.pending.pop().unwrap();
    bench.awaiting_save.clear();
    bench.feed(Input::SaveFailed {
        token,
        why: "disk full".to_owned(),
    });
    assert!(matches!(
        bench.answers.as_slice(),
        [
            Err(RequestError::CannotSave(_)),
            Err(RequestError::CannotSave(_))
        ]
    ));
}

#[test]
fn a_call_that_is_taken_and_not_answered_may_have_run() {
    let html = "text/html".to_owned();
    let media = Some(html.clone());
    for (body, reason) in [
        (Body::Empty(202), UnknownReason::HttpStatus(202)),
        (Body::Other { media }, UnknownReason::NotMcp(html)),
    ] {
        let mut bench = Bench::known();
        bench.start("steps", Limits::default());
        let (call, _) = bench.last_post("tools/call");
        let session = None;
        bench.bring(call, ExchangeEvent::Opened { body, session });
        bench.secs(1);
        assert_eq!(bench.saved().status, Status::Unknown(reason));
    }
}

#[test]
fn a_call_starts_once_it_is_known_to_be_sent() {
    let starts = |bench: &Bench| {
        let of_row = |row: &Row| match row {
            Row::History { entries, .. } => entries
                .iter()
                .filter(|entry| matches!(entry.what, HistoryEvent::Started { .. }))
                .count(),
            _ => 0,
        };
        bench.rows.iter().map(of_row).sum::<usize>()
    };
    let mut bench = Bench::known();
    bench.start("steps", Limits::default());
    for _ in 0..3 {
        let (call, _) = bench.last_post("tools/call");
        bench.bring(
            call,
            ExchangeEvent::NotSent {
                why: "no route".to_owned(),
                is_refused: true,
            },
        );
        bench.secs(6);
    }
    assert_eq!((bench.count("tools/call"), starts(&bench)), (4, 0));
    let (call, _) = bench.last_post("tools/call");
    bench.bring(call, opened());
    bench.secs(1);
    assert_eq!(starts(&bench), 1);

    let mut silent = Bench::known();
    silent.start("steps", Limits::default());
    silent.secs(11);
    assert_eq!(starts(&silent), 0, "a connection may take ten seconds");
    let (call, request_id) = silent.last_post("tools/call");
    silent.bring(call, ExchangeEvent::Sent);
    silent.secs(1);
    assert_eq!(
        starts(&silent),
        1,
        "some servers send no head before the result"
    );
    silent.bring(call, opened());
    silent.bring(call, event("a", &result(&request_id)));
    assert_eq!((silent.status(), starts(&silent)), (&Status::Completed, 1));
}

#[test]
fn a_settled_task_is_shown_only_once_it_is_saved() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.secs(1);
    bench.saves_at_once = false;
    bench.bring(call, event("b", &result(&token)));
    assert_eq!(bench.status(), &Status::Running);
    bench.ask(SessionRequest::Cancel(id()));
    assert!(
        matches!(bench.answers.last(), Some(Err(RequestError::Settled(_)))),
        "it is over"
    );
    while let Some(token) = bench.pending.pop() {
        bench.feed(Input::Saved(token));
    }
    assert_eq!(bench.status(), &Status::Completed);
}

#[test]
fn an_ignored_cancel_is_remembered_after_a_restart() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.ask(SessionRequest::Cancel(id()));
    let (cancel, _) = bench.last_post("notifications/cancelled");
    bench.bring(cancel, refused(405));
    bench.secs(6);
    let mut next = Bench::known();
    next.feed(restored(vec![(bench.saved(), vec!["a".into()])]));
    next.secs(1);
    let notice = next.view().task.notice.clone().unwrap_or_default();
    assert!(notice.contains("did not respond"), "{notice}");
    assert_eq!(next.count("notifications/cancelled"), 0, "it was told");
    next.ask(SessionRequest::GiveUp(id()));
    assert_eq!(next.status(), &Status::Lost(LostReason::GivenUp));
}

#[test]
fn accepts_old_tokens_and_request_ids_after_a_restart() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.secs(1);
    let task = bench.saved();
    let mut next = Bench::known();
    next.feed(restored(vec![(task, vec!["a".into()])]));
    next.secs(1);
    let (get, cursor) = next.last_get();
    assert_eq!(cursor, "a");
    next.bring(get, opened());
    next.step(get, "a", &token, 1);
    next.step(get, "b", &token, 2);
    next.bring(get, event("c", &result(&token)));
    assert_eq!(next.status(), &Status::Completed);
    let steps = next.rows.iter().filter_map(|row| match row {
        Row::History { entries, .. } => Some(
            entries
                .iter()
                .filter(|entry| entry.event_id.is_some())
                .count(),
        ),
        _ => None,
    });
    assert_eq!(steps.sum::<usize>(), 1, "the known step is not told again");
    assert_eq!(next.saved().attempts[0].phase, Phase::Ended);
}

#[test]
fn a_kill_before_the_first_id_leaves_the_task_unknown() {
    let mut bench = Bench::known();
    bench.start("steps", Limits::default());
    let mut next = Bench::known();
    next.feed(restored(vec![(bench.saved(), Vec::new())]));
    assert_eq!(
        next.status(),
        &Status::Unknown(UnknownReason::BeforeFirstId)
    );
    next.secs(100);
    assert!(next.sent.is_empty());
}

#[test]
fn a_call_as_prober_does_not_keep_the_link_waiting_for_ever() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.broken(call);
    bench.secs(1);
    let (get, _) = bench.last_get();
    let why = "no route".to_owned();
    let is_refused = false;
    bench.bring(get, ExchangeEvent::NotSent { why, is_refused });
    bench.start_as(TaskId::from_bits(0), "steps", Limits::default());
    bench.secs(8);
    assert_eq!((bench.count("tools/call"), bench.gets().len()), (2, 1));
    bench.secs(8);
    assert_eq!(bench.gets().len(), 2, "the call may be silent for hours");
}

#[test]
fn the_steps_of_another_call_do_not_move_a_cursor() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.step(call, "x", "another-token", 5);
    bench.bring(call, event("y", &result("another-id")));
    bench.broken(call);
    bench.secs(1);
    assert_eq!(bench.last_get().1, "a");
}

#[test]
fn a_late_404_of_an_old_stream_does_not_end_the_new_session() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.start_as(TaskId::from_bits(0), "steps", Limits::default());
    let (second, _) = bench.last_post("tools/call");
    bench.broken(call);
    bench.secs(1);
    bench.refuse_session(404);
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    bench.shake_hands();
    bench.bring(second, refused(404));
    bench.secs(5);
    assert_eq!(bench.count("initialize"), 1);
    assert_eq!(
        bench.count("tools/call"),
        3,
        "it goes out in the new session"
    );
}

#[test]
fn new_credentials_resume_everything() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("steps");
    bench.step(call, "a", &token, 1);
    bench.broken(call);
    bench.secs(1);
    let (get, _) = bench.last_get();
    bench.bring(get, refused(401));
    bench.secs(600);
    assert_eq!(bench.view().contact.label(), "needs-login");
    assert_eq!(bench.gets().len(), 1, "only a person can help");
    bench.ask(SessionRequest::RetryNow);
    assert_eq!(bench.last_get().1, "a");
    assert_eq!(bench.gets().len(), 2);
}

#[test]
fn every_call_that_longhaul_withholds_says_why() {
    let mut bench = Bench::known();
    let withheld = ExchangeEvent::Refused(Box::new(HttpError {
        status: 401,
        withheld: Some("KEY is not set".to_owned()),
        ..HttpError::default()
    }));
    let calls = [8, 9].map(|bits| {
        bench.start_as(TaskId::from_bits(bits), "steps", Limits::default());
        bench.last_post("tools/call").0
    });
    // The driver refuses both before the first refusal is handled.
    for call in calls {
        bench.link.withhold();
        bench.bring(call, withheld.clone());
    }
    for bits in [8, 9] {
        assert_eq!(bench.link.needed_credentials(), Some("KEY is not set"));
        bench.ask(SessionRequest::Cancel(TaskId::from_bits(bits)));
    }
    assert_eq!(bench.link.needed_credentials(), None);
}

#[test]
fn cancelling_a_call_refused_with_401_reports_it_never_ran() {
    let mut bench = Bench::known();
    bench.start("steps", Limits::default());
    let (call, _) = bench.last_post("tools/call");
    bench.bring(call, refused(401));
    bench.ask(SessionRequest::Cancel(id()));
    assert_eq!(bench.status(), &Status::Cancelled);
    let notice = bench.view().task.notice.as_deref();
    assert_eq!(notice, Some("it was never run"), "it was sent, and refused");
}

#[test]
fn the_hard_limit_ends_a_call_that_waits_to_be_sent() {
    let mut bench = Bench::known();
    let hard = Some(Duration::from_secs(60));
    bench.start("steps", Limits { idle: None, hard });
    let (call, _) = bench.last_post("tools/call");
    bench.bring(call, refused(401));
    bench.secs(59);
    assert_eq!(bench.status(), &Status::Running);
    bench.secs(2);
    let error = bench.view().task.end.error.clone().unwrap();
    assert_eq!(
        error.message,
        "the maximum time was reached; it was never run"
    );
}

#[test]
fn a_step_on_a_shared_pipe_is_activity_of_its_call_only() {
    let (mut bench, pipe) = Bench::process();
    let idle = Some(Duration::from_secs(60));
    let limits = Limits { idle, hard: None };
    let other = TaskId::from_bits(8);
    let mut tokens = Vec::new();
    for task in [id(), other.clone()] {
        bench.start_as(task, "steps", limits);
        let (call, token) = bench.last_post("tools/call");
        bench.bring(call, accepted());
        tokens.push(token);
    }
    for value in 1..6 {
        bench.secs(30);
        let data = json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": tokens[0], "progress": value}});
        bench.bring(pipe, event("", &data));
    }
    assert_eq!(bench.status(), &Status::Running);
    let mut views = bench.views.iter().rev();
    let silent = views.find(|view| view.task.id == other).unwrap();
    assert_eq!(silent.task.status, Status::Failed, "nothing named it");
}

#[test]
fn the_idle_limit_does_not_run_while_we_are_cut_off() {
    let mut bench = Bench::known();
    let idle = Some(Duration::from_secs(60));
    bench.start("steps", Limits { idle, hard: None });
    let (call, token) = bench.last_post("tools/call");
    bench.bring(call, opened());
    bench.step(call, "a", &token, 1);
    bench.broken(call);
    for _ in 0..300 {
        bench.secs(1);
        let (get, _) = bench.last_get();
        bench.bring(
            get,
            ExchangeEvent::NotSent {
                why: "no route".to_owned(),
                is_refused: false,
            },
        );
    }
    assert_eq!(bench.status(), &Status::Running);
    bench.secs(6);
    let (get, _) = bench.last_get();
    bench.bring(get, opened());
    bench.secs(4);
    for _ in 0..50 {
        assert_eq!(bench.status(), &Status::Running);
        let (get, _) = bench.last_get();
        bench.bring(get, opened());
        bench.secs(1);
    }
    bench.secs(10);
    assert_eq!(
        bench.status(),
        &Status::Failed,
        "asking again is no news from the server"
    );
}

#[test]
fn a_server_that_answers_and_does_not_serve_is_not_stormed() {
    for status in [400, 404, 500, 502] {
        let mut bench = Bench::known();
        bench.start("steps", Limits::default());
        for _ in 0..3600 {
            if let Some((_, exchange, _)) = bench.sent.last().cloned() {
                bench.bring(exchange, refused(status));
            }
            bench.secs(1);
        }
        assert!(bench.sent.len() < 200, "{status}: {}", bench.sent.len());
        let mut bench = Bench::known();
        let (call, token) = bench.call("steps");
        bench.step(call, "a", &token, 1);
        bench.broken(call);
        for _ in 0..3600 {
            if let Some((_, exchange, _)) = bench.sent.last().cloned() {
                bench.bring(exchange, refused(status));
            }
            bench.secs(1);
        }
        assert!(bench.sent.len() < 200, "{status}: {}", bench.sent.len());
    }
}

#[test]
fn describes_an_invalid_response() {
    let page = || ExchangeEvent::Opened {
        body: Body::Other {
            media: Some("text/html".to_owned()),
        },
        session: None,
    };
    let says = |data: &str| ExchangeEvent::Event {
        id: None,
        retry_ms: None,
        data: data.to_owned(),
    };
    let foreign_response = r#"{"jsonrpc":"2.0","id":"stranger","result":{"tools":[]}}"#;
    for (came, words) in [
        (vec![page()], "it answered with text/html, not MCP"),
        (vec![opened(), says("welcome")], "text that is not JSON"),
        (
            vec![opened(), says(foreign_response)],
            "JSON that doesn't answer",
        ),
        (vec![opened()], "(no answer)"),
    ] {
        let came = || came.iter().cloned().chain([ExchangeEvent::Ended]);
        let mut new = Bench::new(LinkRecord::new(ServerName::new("lab"), "http://lab/mcp"));
        new.start("steps", Limits::default());
        let (initialize, _) = new.last_post("initialize");
        came().for_each(|arrival| new.bring(initialize, arrival));
        let error = new.view().task.end.error.clone().unwrap();
        assert!(error.message.contains(words), "{error:?}");
        let is_somebody = error.message.contains("is the URL right?");
        assert_eq!(is_somebody, words != "(no answer)", "{error:?}");
        assert_eq!(error.code, None);

        let mut known = Bench::known();
        known.ask(SessionRequest::Tools(ServerName::new("lab")));
        let (list, _) = known.last_post("tools/list");
        came().for_each(|arrival| known.bring(list, arrival));
        let refused = known.answers.pop().unwrap().unwrap_err();
        assert!(refused.to_string().contains(words), "{refused:?}");
        let is_reached = matches!(refused, RequestError::Usage(_));
        assert_eq!(is_reached, is_somebody, "{refused:?}");
    }
}

#[test]
fn handshakes_that_fail_keep_their_distance() {
    let mut bench = Bench::known();
    let (call, token) = bench.call("work");
    bench.step(call, "a", &token, 1);
    bench.broken(call);
    bench.secs(1);
    bench.refuse_session(404);
    let mut seen = 0;
    for _ in 0..36_000 {
        let sent = bench.sent.len();
        if sent > seen
            && let Some((_, exchange, _)) = bench.posts("initialize").last()
        {
            bench.bring(*exchange, refused(500));
        }
        seen = sent;
        bench.wait(Duration::from_millis(100));
    }
    assert!(
        (60..200).contains(&bench.count("initialize")),
        "{}",
        bench.count("initialize")
    );
}

#[test]
fn accepts_a_404_that_repeats_in_a_new_session() {
    for method in ["tools/list", "notifications/initialized"] {
        let mut bench = Bench::new(LinkRecord::new(ServerName::new("lab"), "http://lab/mcp"));
        bench.ask(SessionRequest::Tools(ServerName::new("lab")));
        for _ in 0..2 {
            bench.greet();
            let (exchange, _) = bench.last_post("notifications/initialized");
            if method == "notifications/initialized" {
                bench.bring(exchange, refused(404));
                continue;
            }
            bench.bring(exchange, opened());
            bench.bring(exchange, ExchangeEvent::Ended);
            let (exchange, _) = bench.last_post(method);
            bench.bring(exchange, refused(404));
        }
        if method == "notifications/initialized" {
            bench.answer("tools/list", &json!({"tools": [{"name": "steps"}]}));
            assert!(matches!(
                bench.answers.as_slice(),
                [Ok(SessionResponse::Tools(_))]
            ));
        } else {
            assert!(matches!(
                bench.answers.as_slice(),
                [Err(RequestError::Usage(words))] if words.contains("HTTP 404")
            ));
        }
        assert_eq!(bench.count("initialize"), 2, "{method}");
    }
}

#[test]
fn reports_an_initialized_notification_that_fails() {
    let mut bench = Bench::new(LinkRecord::new(ServerName::new("lab"), "http://lab/mcp"));
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    bench.greet();
    bench.secs(31);
    assert!(matches!(
        bench.answers.as_slice(),
        [Err(RequestError::Unreachable(_))]
    ));
}

#[test]
fn saves_a_session_as_usable_once_initialized_is_accepted() {
    let mut bench = Bench::new(LinkRecord::new(ServerName::new("lab"), "http://lab/mcp"));
    bench.ask(SessionRequest::Tools(ServerName::new("lab")));
    bench.greet();
    bench.secs(5);
    let is_usable = |bench: &Bench| {
        let saved = bench.rows.iter().rev().find_map(|row| match row {
            Row::Link(record) => Some(record.is_initialized),
            _ => None,
        });
        saved.expect("the record was saved")
    };
    assert!(!is_usable(&bench));
    let (exchange, _) = bench.last_post("notifications/initialized");
    bench.bring(exchange, refused(405));
    bench.secs(5);
    assert!(is_usable(&bench));
}

#[test]
fn a_busy_gateway_during_initialized_opens_a_new_session() {
    let mut bench = Bench::new(LinkRecord::new(ServerName::new("lab"), "http://lab/mcp"));
    bench.start("steps", Limits::default());
    bench.greet();
    let (exchange, _) = bench.last_post("notifications/initialized");
    bench.bring(exchange, refused(503));
    assert_eq!(bench.count("tools/list"), 0);
    bench.secs(31);
    assert_eq!(bench.count("initialize"), 2);
}

/// How many tasks are looked at for each of so many calls that end within as many microseconds.
fn looks_an_end(calls: u64) -> u64 {
    let mut bench = Bench::known();
    let mut streams = Vec::new();
    for number in 0..calls {
        bench.start_as(TaskId::from_bits(number + 1), "steps", Limits::default());
        if let Some((_, exchange, request)) = bench.sent.pop() {
            streams.push((exchange, request_id(&request)));
        }
        bench.bring(streams.last().unwrap().0, opened());
    }
    bench.secs(1);
    let before = bench.link.steps();
    for (number, (exchange, request_id)) in streams.iter().enumerate() {
        bench.now += u64::from(number % 20 == 0);
        bench.bring(*exchange, event("z", &result(request_id)));
    }
    bench.secs(5);
    assert_eq!(
        bench
            .views
            .iter()
            .filter(|view| view.task.status.is_settled())
            .count() as u64,
        calls
    );
    (bench.link.steps() - before) / calls
}

#[test]
fn the_cost_of_an_end_is_independent_of_other_calls() {
    let (few, many) = (looks_an_end(150), looks_an_end(1500));
    assert!(many <= 3 * few.max(10) / 2, "{few}, then {many}");
}

/// The JSON-RPC id of a POST.
fn request_id(request: &Request) -> String {
    let Method::Post { body, .. } = &request.method else {
        return String::new();
    };
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let id = message.get("id").and_then(Value::as_str);
    id.unwrap_or_default().to_owned()
}
