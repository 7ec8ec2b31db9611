//! What an era and a way to come back are worth: one long tool in every way, under every trouble.
//!
//! The real binary, real HTTP through a proxy that breaks it, the demo server and servers written by hand.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::support::pty::TestEnv;
use crate::support::{
    demo_server,
    program::{Ran, Running, program, run},
    proxy::FaultProxy,
    server,
};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::{StreamExt as _, stream};
use longhaul::{
    auth::{Keychain, Logins},
    demo::{self, Fault},
    domain::{IfCut, LinkRecord, LinkState, ProtocolVersion, SessionEvent},
    engine::{Clock, Options, ProcessRole, Session, SessionPurpose},
    store::{Paths, Reader},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything takes on a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// The demo server in this process behind a proxy, and a state directory.
struct Bench {
    dir: TempDir,
    _server: demo_server::DemoServer,
    proxy: FaultProxy,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = server::demo(dir.path().join("demo"));
        let proxy = FaultProxy::start(server.addr());
        Self {
            dir,
            _server: server,
            proxy,
        }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn demo_dir(&self) -> PathBuf {
        self.dir.path().join("demo")
    }

    fn break_it(&self, fault: Fault) {
        demo::control(&self.demo_dir(), fault).unwrap();
    }

    /// Starts a call and follows it until its server has shown a few steps; gives the task's id too.
    fn begin(&self, way: Way) -> (Running, String) {
        let url = format!("http://{}/mcp", self.proxy.addr());
        let mut arguments = vec!["-s", &url, "--json"];
        arguments.extend(way.revision().into_iter().flat_map(|it| ["--protocol", it]));
        arguments.push("call");
        arguments.extend(way.call());
        let mut client = Running::start(&mut program(&self.state(), &arguments));
        let started = client.prints(|event| event["event"] == "started");
        client.prints(has_stepped);
        (client, started["id"].as_str().unwrap().to_owned())
    }

    fn show(&self, id: &str) -> Value {
        run(&self.state(), &["show", id, "--json"]).document()
    }

    fn link(&self) -> LinkRecord {
        Reader::open(&paths(&self.state()))
            .unwrap()
            .links()
            .unwrap()
            .remove(0)
    }

    /// Waits until the client that drives has found the server unreachable so many times.
    fn wait_for_tries(&self, wanted: u32) {
        let follower = Session::open(Options {
            paths: paths(&self.state()),
            servers: Vec::new(),
            config: longhaul::domain::ServerConfigs::default(),
            read_config: || None,
            role: ProcessRole::Drive,
            purpose: SessionPurpose::Screen,
            logins: Logins::new(&paths(&self.state()).logins(), Keychain::none("a test")),
            traces: false,
            protocol: None,
            seed: 7,
            clock: Clock::start(),
            hook: None,
            args: Vec::new(),
            inherited: longhaul::engine::Inherited::default(),
            guard: longhaul::transport::ProcessGuard::default(),
        });
        let news = follower.subscribe();
        let wait = async {
            loop {
                for news in news.take() {
                    if let SessionEvent::Server(view) = news
                        && let LinkState::Down { tries, .. } = view.state
                        && tries >= wanted
                    {
                        return;
                    }
                }
                news.changed().await;
            }
        };
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(async { tokio::time::timeout(DEADLINE, wait).await })
            .unwrap();
        follower.close();
    }
}

fn paths(state: &Path) -> Paths {
    Paths::resolve(Some(state.to_owned()), "default").unwrap()
}

/// A step of a stream, or of a server task, whose steps are words.
fn has_stepped(event: &Value) -> bool {
    let words = event["reason"].as_str().unwrap_or_default();
    event["event"] == "progress" && event["value"].as_u64() >= Some(2)
        || event["event"] == "status" && words.contains("step ")
}

/// The ways that a long tool can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A stream whose events have ids.
    Stream,
    /// A checkpoint under such a stream.
    CheckpointOnStream,
    /// A checkpoint under a call that a disconnect cancels.
    CheckpointOnCall,
    /// A task of 2025-11-25.
    CoreTask,
    /// A task of the extension.
    ExtensionTask,
    /// A call that a disconnect cancels.
    ModernCall,
    /// A plain tool of a server that offers tasks too, without any option.
    Chosen,
}

/// What becomes of a long tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Every connection is reset, and the next works.
    ShortCut,
    /// Connections are refused until several tries have failed and the work has ended without us.
    LongCut,
    /// The client is killed, and comes back.
    Kill,
    /// The server is killed, and comes back.
    Restart,
}

impl Way {
    const ALL: [Self; 7] = [
        Self::Stream,
        Self::CheckpointOnStream,
        Self::CheckpointOnCall,
        Self::CoreTask,
        Self::ExtensionTask,
        Self::ModernCall,
        Self::Chosen,
    ];

    fn revision(self) -> Option<&'static str> {
        match self {
            Self::Stream | Self::CheckpointOnStream => Some("2025-06-18"),
            // What is chosen where the server speaks both eras.
            Self::Chosen => None,
            Self::CoreTask => Some("2025-11-25"),
            Self::CheckpointOnCall | Self::ExtensionTask | Self::ModernCall => Some("2026-07-28"),
        }
    }

    fn call(self) -> Vec<&'static str> {
        match self {
            Self::CheckpointOnStream | Self::CheckpointOnCall => vec![
                "resumable_data_processing",
                "dataset_name=d",
                "total_records=60",
                "batch_size=2",
                "delay_ms=120",
            ],
            Self::ExtensionTask => vec!["crunch", "steps=24", "step_ms=150", "as_task=true"],
            Self::Chosen => vec!["get_forecast", "city=Oslo", "stations=24", "delay_ms=150"],
            _ => vec!["crunch", "steps=24", "step_ms=150"],
        }
    }

    fn has_checkpoint(self) -> bool {
        matches!(self, Self::CheckpointOnStream | Self::CheckpointOnCall)
    }

    /// What leaving is (docs/recovery.md).
    fn price(self) -> &'static str {
        match self {
            // A server that was not seen to keep a task over its sessions may end it with them.
            Self::Stream | Self::CoreTask | Self::Chosen => "likely",
            Self::CheckpointOnStream | Self::ExtensionTask => "continues",
            Self::CheckpointOnCall => "pauses",
            Self::ModernCall => "LOST",
        }
    }

    /// The status at the end, and words of its reason.
    fn outcome(self, trouble: Trouble) -> (&'static str, &'static str) {
        match (self, trouble) {
            (Self::ModernCall, _) => (
                "lost",
                "in MCP 2026-07-28, that cancels any call that isn't a server task",
            ),
            (Self::Stream | Self::Chosen, Trouble::Restart) => ("lost", "session"),
            _ => ("completed", ""),
        }
    }
}

fn cell(way: Way, trouble: Trouble) {
    let bench = Bench::new();
    let state = bench.state();
    let (mut client, id) = bench.begin(way);
    let before = bench.show(&id);
    assert_eq!(before["if_cut"], way.price().to_lowercase(), "{before:#}");
    let link = bench.link();
    let tool = link.tools.iter().find(|tool| before["tool"] == tool.name);
    let mut capabilities = link.capabilities();
    capabilities.pinned = way.revision().and_then(ProtocolVersion::parse);
    let next = IfCut::of_call(tool.unwrap(), &link.tools, &capabilities);
    assert_eq!(
        next.label(),
        way.price(),
        "a new call costs the same: {next:?}"
    );

    let ran = match trouble {
        Trouble::ShortCut | Trouble::LongCut => {
            bench.proxy.cut();
            client.prints(|event| event["contact"] == "reconnecting");
            if trouble == Trouble::LongCut && way != Way::ModernCall {
                bench.wait_for_tries(4);
            }
            bench.proxy.heal();
            client.end()
        }
        Trouble::Restart => {
            bench.break_it(Fault::Restart);
            client.end()
        }
        Trouble::Kill => {
            client.signal(Signal::KILL);
            client.end();
            let alone = bench.show(&id);
            assert_eq!(
                (&alone["contact"], &alone["if_cut"]),
                (&json!("unwatched"), &json!(way.price().to_lowercase())),
                "{alone:#}"
            );
            run(&state, &["watch", &id, "--json"])
        }
    };

    let after = bench.show(&id);
    let (status, words) = way.outcome(trouble);
    assert_eq!(after["status"], status, "{after:#}\n{ran:#?}");
    assert_eq!(
        ran.code,
        Some(if status == "lost" { 5 } else { 0 }),
        "{ran:#?}"
    );
    let reason = after["reason"].as_str().unwrap_or_default();
    assert!(reason.contains(words), "{after:#}");
    if before["if_cut"] == "continues" || before["if_cut"] == "pauses" {
        assert_eq!(status, "completed", "what was called safe is there");
    }
    assert_eq!(before["if_cut"] == "lost", way == Way::ModernCall);

    let whole = run(&state, &["watch", &id, "--json"]);
    assert_whole(way, trouble, &whole);
    let calls = bench.proxy.calls("tools/call");
    if way.has_checkpoint() {
        let client_id = after["client_id"].as_str().unwrap();
        let rows = demo_server::rows(&bench.demo_dir(), client_id).unwrap();
        assert_eq!(rows, 60, "no record was processed twice");
    } else {
        assert_eq!((calls, &after["attempts"]), (1, &json!(1)), "it ran once");
    }
}

/// Each entry once and in order, one end, and each step once.
fn assert_whole(way: Way, trouble: Trouble, ran: &Ran) {
    let events = ran.events();
    let seqs: Vec<u64> = events
        .iter()
        .map(|it| it["seq"].as_u64().unwrap())
        .collect();
    let count = u64::try_from(seqs.len()).unwrap();
    assert_eq!(seqs, (1..=count).collect::<Vec<_>>(), "{events:#?}");
    let ends = events.iter().filter(|it| it["event"] == "settled").count();
    assert_eq!(ends, 1, "one end: {events:#?}");
    let is_step = |event: &&Value| event["event"] == "progress";
    let steps: Vec<u64> = events
        .iter()
        .filter(is_step)
        .map(|event| event["value"].as_u64().unwrap())
        .collect();
    assert!(steps.is_sorted_by(|a, b| a < b), "{steps:?}");
    if matches!(way, Way::Stream | Way::Chosen) && trouble != Trouble::Restart {
        assert_eq!(steps, (1..=24).collect::<Vec<_>>(), "every step is there");
    }
}

/// All ways under one trouble, at once.
fn every_way_under(trouble: Trouble) {
    thread::scope(|scope| {
        for way in Way::ALL {
            let name = format!("{way:?} under {trouble:?}");
            let begin = move || cell(way, trouble);
            thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, begin)
                .unwrap();
        }
    });
}

#[test]
fn a_short_cut_costs_what_was_promised() {
    every_way_under(Trouble::ShortCut);
}

#[test]
fn a_long_cut_costs_what_was_promised() {
    every_way_under(Trouble::LongCut);
}

#[test]
fn a_client_kill_costs_what_was_promised() {
    every_way_under(Trouble::Kill);
}

#[test]
fn a_server_restart_costs_what_was_promised() {
    every_way_under(Trouble::Restart);
}

/// A server task whose polls come to nothing for a while.
fn followed_through(way: Way, trouble: impl FnOnce(&Bench, &mut Running)) -> Vec<Value> {
    let bench = Bench::new();
    let (mut client, id) = bench.begin(way);
    trouble(&bench, &mut client);
    let ran = client.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(bench.show(&id)["status"], "completed");
    assert_eq!(bench.proxy.calls("tools/call"), 1, "it ran once");
    let whole = run(&bench.state(), &["watch", &id, "--json"]);
    assert_whole(way, Trouble::ShortCut, &whole);
    whole.events()
}

const TASKS: [Way; 2] = [Way::CoreTask, Way::ExtensionTask];

/// Ends what a server tells by itself, so that it has to be asked.
fn asked_from_now_on(bench: &Bench) {
    bench.proxy.cut();
    bench.proxy.heal();
}

#[test]
fn a_task_is_followed_through_polls_that_are_refused_with_503() {
    for way in TASKS {
        let events = followed_through(way, |bench, _| {
            let before = bench.proxy.calls("tasks/get");
            bench.proxy.refuse_polls(3);
            asked_from_now_on(bench);
            // A look that fails is no line of the log while the server tells of the task by itself, which may tell of its end
            // before there is another look.
            bench.proxy.wait_until("a look at the task", |proxy| {
                proxy.calls("tasks/get") > before
            });
        });
        let told = |word: &str| events.iter().filter(|it| it["contact"] == word).count();
        let (cut, back) = (told("reconnecting"), told("live"));
        assert_eq!(cut, back, "each outage has its end: {events:#?}");
    }
}

#[test]
fn a_task_is_followed_through_refused_connections() {
    for way in TASKS {
        followed_through(way, |bench, client| {
            bench.proxy.cut();
            client.prints(|event| event["contact"] == "reconnecting");
            // The waits between them are 0.5, 1, 2 and 4 s: about ten seconds without a connection.
            bench.wait_for_tries(5);
            bench.proxy.heal();
        });
    }
}

#[test]
fn a_task_is_followed_through_a_poll_that_hangs() {
    thread::scope(|scope| {
        for way in TASKS {
            let hang = |bench: &Bench, _: &mut Running| {
                bench.proxy.swallow_poll();
                let before = bench.proxy.calls("tasks/get");
                asked_from_now_on(bench);
                let is_asked = |proxy: &FaultProxy| proxy.calls("tasks/get") > before;
                bench.proxy.wait_until("a poll that hangs", is_asked);
            };
            scope.spawn(move || followed_through(way, hang));
        }
    });
}

/// A server written by hand, of which a test says what it is.
struct FakeServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

/// What a plant grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Both eras, and tasks in neither; its one tool makes one step and then works for ever.
    BothErasWithoutTasks,
    /// Tasks of 2025-11-25, a list of a thousand, made by others.
    ThousandTasks,
    /// The modern era with a checkpoint tool, whose list calls the end of a connection a cancel.
    CancelsCheckpoints,
    /// The same, which refuses the first request and names the very revision that it was made in.
    RefusesFirst,
    /// One that refuses every request so.
    RefusesAlways,
}

struct Shared {
    kind: Kind,
    /// When each task was asked for.
    polls: Mutex<BTreeMap<String, Vec<Instant>>>,
    /// Whether the tasks have ended.
    is_done: AtomicBool,
    /// Whether no task is known.
    has_forgotten: AtomicBool,
    calls: AtomicUsize,
    /// Discoveries so far.
    greetings: AtomicUsize,
    /// Calls whose connection is gone.
    disconnects: Arc<AtomicUsize>,
}

const THOUSAND: usize = 1000;
/// What the plant wants between two looks at a task.
const INTERVAL: Duration = Duration::from_secs(4);

impl Shared {
    /// Whether this request is refused for its revision.
    fn refuses_version(&self) -> bool {
        match self.kind {
            Kind::RefusesFirst => self.greetings.fetch_add(1, Ordering::SeqCst) == 0,
            kind => kind == Kind::RefusesAlways,
        }
    }
}

impl FakeServer {
    fn new(kind: Kind) -> Self {
        let shared = Arc::new(Shared {
            kind,
            polls: Mutex::default(),
            is_done: AtomicBool::new(false),
            has_forgotten: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            greetings: AtomicUsize::new(0),
            disconnects: Arc::default(),
        });
        let router = Router::new()
            .route("/mcp", post(handle_post))
            .with_state(Arc::clone(&shared));
        let addr = server::serve(router);
        Self { addr, shared }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    fn polls(&self) -> BTreeMap<String, Vec<Instant>> {
        self.shared.polls.lock().unwrap().clone()
    }
}

/// Counts a call whose connection ends before its answer.
struct DisconnectCounter(Arc<AtomicUsize>);

impl Drop for DisconnectCounter {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

async fn handle_post(
    State(fake): State<Arc<Shared>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let (id, params) = (&message["id"], &message["params"]);
    let version = headers.get("mcp-protocol-version");
    let is_modern = version.is_some_and(|version| version == "2026-07-28");
    let answer = |mut result: Value| {
        if is_modern {
            result["resultType"] = json!("complete");
        }
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let session = ("mcp-session-id", "s");
        ([("content-type", "application/json"), session], body).into_response()
    };
    let method = message["method"].as_str().unwrap();
    let is_modern_only = !matches!(fake.kind, Kind::BothErasWithoutTasks | Kind::ThousandTasks);
    match method {
        "server/discover" if fake.kind == Kind::ThousandTasks => {
            StatusCode::BAD_REQUEST.into_response()
        }
        "initialize" if is_modern_only => StatusCode::BAD_REQUEST.into_response(),
        "server/discover" if fake.refuses_version() => {
            let error = json!({"code": -32022, "message": "Unsupported protocol version",
                "data": {"supported": ["2026-07-28"], "requested": "2026-07-28"}});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            let kind = [("content-type", "application/json")];
            (StatusCode::BAD_REQUEST, kind, body).into_response()
        }
        _ if id.is_null() => StatusCode::ACCEPTED.into_response(),
        _ => answered(&fake, method, params, id, answer),
    }
}

/// The request of a session or era that stands.
fn answered(
    fake: &Arc<Shared>,
    method: &str,
    params: &Value,
    id: &Value,
    answer: impl Fn(Value) -> Response,
) -> Response {
    let info = json!({"name": "plant", "version": "1"});
    match method {
        "server/discover" => answer(json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "serverInfo": info})),
        "initialize" => {
            let tasks = json!({"list": {}, "requests": {"tools": {"call": {}}}});
            let capabilities = if fake.kind == Kind::ThousandTasks {
                json!({"tools": {}, "tasks": tasks})
            } else {
                json!({"tools": {}})
            };
            answer(json!({"protocolVersion": params["protocolVersion"],
                "capabilities": capabilities, "serverInfo": info}))
        }
        "tools/list" => {
            let tool = |name: &str, properties: Value| {
                json!({"name": name,
                "inputSchema": {"type": "object", "properties": properties}})
            };
            let client = json!({"client_id": {"type": ["string", "null"]}});
            answer(json!({"tools": if fake.kind == Kind::CancelsCheckpoints {
                vec![tool("work", client.clone()), tool("list_session_tasks", client)]
            } else {
                vec![tool("work", json!({}))]
            }}))
        }
        "tools/call" if params["name"] == "list_session_tasks" => {
            let status = if fake.disconnects.load(Ordering::SeqCst) > 0 {
                "cancelled"
            } else {
                "running"
            };
            let list = json!({"tasks": [{"task_id": "1", "tool": "work", "status": status,
                "progress": 2, "total": 3, "updated_at": "2026-11-20T10:00:00Z"}]});
            answer(json!({"content": [{"type": "text", "text": list.to_string()}]}))
        }
        "tools/call" => {
            let before = fake.calls.fetch_add(1, Ordering::SeqCst);
            if before > 0 {
                return answer(json!({"content": [{"type": "text", "text": "all of it"}]}));
            }
            let token = &params["_meta"]["progressToken"];
            let step = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 2, "total": 3}});
            let first = stream::iter([format!("id: 1\ndata: {step}\n\n")]);
            let counter = DisconnectCounter(Arc::clone(&fake.disconnects));
            let rest = stream::once(async move {
                let _held = counter;
                std::future::pending::<String>().await
            });
            let body = Body::from_stream(first.chain(rest).map(Ok::<_, Infallible>));
            ([("content-type", "text/event-stream")], body).into_response()
        }
        "tasks/list" => {
            let begin: usize = params["cursor"]
                .as_str()
                .map_or(0, |at| at.parse().unwrap());
            let tasks: Vec<Value> = (begin..THOUSAND)
                .take(100)
                .map(|n| task(fake, &n.to_string()))
                .collect();
            let next = (begin + 100 < THOUSAND).then(|| (begin + 100).to_string());
            answer(json!({"tasks": tasks, "nextCursor": next}))
        }
        "tasks/get" if !fake.has_forgotten.load(Ordering::SeqCst) => {
            let name = params["taskId"].as_str().unwrap();
            let mut polls = fake.polls.lock().unwrap();
            polls.entry(name.to_owned()).or_default().push(now());
            answer(task(fake, name))
        }
        "tasks/result" => answer(json!({"content": [{"type": "text", "text": "grown"}]})),
        "ping" => answer(json!({})),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            ([("content-type", "application/json")], body).into_response()
        }
    }
}

fn task(fake: &Shared, name: &str) -> Value {
    let is_done = fake.is_done.load(Ordering::SeqCst);
    json!({"taskId": name, "status": if is_done { "completed" } else { "working" },
        "createdAt": "2026-11-20T10:00:00Z", "lastUpdatedAt": "2026-11-20T10:00:00Z",
        "ttl": null, "pollInterval": INTERVAL.as_millis()})
}

#[expect(
    clippy::disallowed_methods,
    reason = "the server measures the pace of its client"
)]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn resumes_a_checkpoint_our_own_disconnect_cancelled() {
    let fake = FakeServer::new(Kind::CancelsCheckpoints);
    let proxy = FaultProxy::start(fake.addr);
    let url = format!("http://{}/mcp", proxy.addr());
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["-s", &url, "call", "work", "--json"];
    let mut client = Running::start(&mut program(dir.path(), &arguments));
    client.prints(|event| event["event"] == "progress");
    let listed = run(dir.path(), &["ls"]).out;
    assert!(listed.trim_end().ends_with("pauses"), "{listed}");
    proxy.cut();
    client.prints(|event| event["contact"] == "reconnecting");
    proxy.heal();
    let ran = client.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.out.contains("all of it"), "{ran:#?}");
    assert_eq!(fake.shared.calls.load(Ordering::SeqCst), 2);
}

#[test]
fn detaching_reports_that_a_checkpoint_tool_pauses() {
    let fake = FakeServer::new(Kind::CancelsCheckpoints);
    let dir = tempfile::tempdir().unwrap();
    let arguments = ["-s", &fake.url(), "call", "work", "--detach"];
    let ran = run(dir.path(), &arguments);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let id = ran.out.trim();
    let words = format!("{id} pauses until longhaul runs again: MCP 2026-07-28");
    assert!(ran.err.contains(&words), "{ran:#?}");
    let shown = run(dir.path(), &["ls"]).out;
    assert!(shown.trim_end().ends_with("pauses"), "{shown}");
}

#[test]
fn asks_again_for_a_version_that_the_server_refused_and_names() {
    let dir = tempfile::tempdir().unwrap();
    let tools = |kind| {
        let fake = FakeServer::new(kind);
        run(dir.path(), &["-s", &fake.url(), "tools"])
    };
    let served = tools(Kind::RefusesFirst);
    assert_eq!(served.code, Some(0), "{served:#?}");
    assert!(served.out.contains("work"), "{served:#?}");
    let refused = tools(Kind::RefusesAlways);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    let words = "it rejected MCP 2026-07-28 twice";
    assert!(refused.err.contains(words), "{refused:#?}");
}

#[test]
fn prefers_the_handshake_era_for_a_server_without_tasks() {
    let fake = FakeServer::new(Kind::BothErasWithoutTasks);
    let env = TestEnv::new();
    let arguments = ["-s", &fake.url(), "call", "work", "--json"];
    let mut client = Running::start(&mut program(env.path(), &arguments));
    let started = client.prints(|event| event["event"] == "started");
    assert_eq!(started["era"], "2025-11-25");
    client.prints(|event| event["event"] == "progress");
    let id = started["id"].as_str().unwrap();
    let why = "a stream with event ids can be resumed";
    let shown = run(env.path(), &["show", id]);
    let line = shown.out.lines().find(|line| line.starts_with("revision"));
    let line = line.unwrap_or_else(|| panic!("{shown:#?}"));
    assert!(line.contains("2025-11-25") && line.contains(why), "{line}");
    let document = run(env.path(), &["show", id, "--json"]).document();
    let told = (&document["if_cut"], &document["era"]);
    assert_eq!(told, (&json!("likely"), &json!("2025-11-25")));

    let mut screen = env.open(&["attach", id], (120, 36));
    screen.wait_for("[Now]");
    screen.press("]]]]]");
    screen.wait_for("[Resume]");
    screen.wait_for_line(&["if cut", "likely"]);
    screen.wait_for_line(&["revision", "2025-11-25"]);
    screen.wait_for_line(&[why]);
    drop(client);
}

/// The revision of a task's call, and the typed reason for it.
fn era_of(state: &Path, id: &str) -> (Value, Value) {
    let document = run(state, &["show", id, "--json"]).document();
    (document["era"].clone(), document["era_reason"].clone())
}

#[test]
fn plain_and_task_tools_of_one_server_survive_a_kill() {
    let bench = Bench::new();
    let state = bench.state();
    let url = format!("http://{}/mcp", bench.proxy.addr());
    let begin = |words: &[&str]| {
        let words = [&["-s", &url, "--json", "call"], words].concat();
        let mut client = Running::start(&mut program(&state, &words));
        let started = client.prints(|event| event["event"] == "started");
        client.prints(has_stepped);
        (client, started["id"].as_str().unwrap().to_owned())
    };
    let plain = ["get_forecast", "city=Oslo", "stations=30", "delay_ms=200"];
    let (mut driver, plain) = begin(&plain);
    let task = ["crunch", "as_task=true", "steps=40", "step_ms=200"];
    let (mut client, task) = begin(&task);
    assert_eq!(
        era_of(&state, &plain),
        (json!("2025-11-25"), json!("event-ids"))
    );
    assert_eq!(
        era_of(&state, &task),
        (json!("2026-07-28"), json!("can-be-task"))
    );
    // One discovery, one handshake, one list, whatever is called.
    let asked = |method| bench.proxy.calls(method);
    let greetings = ["server/discover", "initialize", "tools/list"].map(asked);
    assert_eq!(greetings, [1, 1, 1]);

    for running in [&mut driver, &mut client] {
        running.signal(Signal::KILL);
    }
    driver.end();
    client.end();
    for id in [&plain, &task] {
        let ran = run(&state, &["watch", id, "--json"]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    let watched = run(&state, &["watch", &plain, "--json"]).events();
    let steps = watched.iter().filter(|it| it["event"] == "progress");
    assert_eq!(steps.count(), 30, "{watched:#?}");
    assert_eq!(asked("tools/call"), 2, "each ran once");
    assert_eq!((asked("server/discover"), asked("initialize")), (1, 1));

    let shown = run(&state, &["show", &task]).out;
    let why = "2026-07-28: this tool can run as a task";
    assert!(shown.contains(why), "{shown}");
}

#[test]
fn remembers_that_a_modern_tool_made_no_task() {
    let bench = Bench::new();
    let url = format!("http://{}/mcp", bench.proxy.addr());
    let crunch = || {
        let words = [
            "-s",
            &url,
            "--json",
            "call",
            "crunch",
            "steps=2",
            "step_ms=1",
        ];
        let events = run(&bench.state(), &words).events();
        era_of(&bench.state(), events[0]["id"].as_str().unwrap())
    };
    assert_eq!(crunch(), (json!("2026-07-28"), json!("can-be-task")));
    assert_eq!(crunch(), (json!("2025-11-25"), json!("core-task")));
    let kept = bench.link().ran_as_task;
    assert_eq!(kept.get("crunch"), Some(&false), "{kept:?}");
}

#[test]
fn protocol_holds_for_its_own_command_and_its_tasks() {
    let demo_env = TestEnv::new();
    let demo = crate::support::server::demo(demo_env.path().join("server"));
    let env = TestEnv::new();
    let url = demo.url();
    let era_of = |words: &[&str]| {
        let ran = run(env.path(), &[&["--json"], words].concat());
        let started = ran.events().into_iter().find(|it| it["event"] == "started");
        let era = started.map_or(json!(null), |it| it["era"].clone());
        (ran.code, era.as_str().unwrap_or_default().to_owned())
    };
    let ran_in = |era: &str| (Some(0), era.to_owned());
    let quick = ["get_forecast", "city=Oslo", "delay_ms=1"];
    let usual = [&["-s", &url, "call"], &quick[..]].concat();
    let in_version = |version| [&["--protocol", version, "call"], &quick[..]].concat();
    assert_eq!(era_of(&usual), ran_in("2025-11-25"));
    for version in ["2025-06-18", "2026-07-28", "2025-03-26"] {
        let servers = ["tools", "-s", &url, "--protocol", version];
        run(env.path(), &servers);
        assert_eq!(era_of(&in_version(version)), ran_in(version));
        assert_eq!(era_of(&usual), ran_in("2025-11-25"), "after {version}");
    }
    // A command that fails leaves nothing behind either.
    let refused = ["--protocol", "2025-06-18", "call", "no_such_tool"];
    assert_eq!(run(env.path(), &refused).code, Some(2));
    assert_eq!(era_of(&usual), ran_in("2025-11-25"));

    // What is at work in a session keeps it: another revision of it has to wait.
    let disconnects = ["crunch", "steps=900", "step_ms=1000", "--detach"];
    let disconnects = [
        &["--json", "--protocol", "2025-06-18", "call"],
        &disconnects[..],
    ]
    .concat();
    let detached = run(env.path(), &disconnects);
    assert_eq!(detached.code, Some(0), "{detached:#?}");
    let id = detached.events()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(era_of(&in_version("2025-11-25")).0, Some(2));
    let refused = run(env.path(), &in_version("2025-11-25")).err;
    assert!(
        refused.contains("that a change to 2025-11-25 would lose"),
        "{refused}"
    );
    // The modern era needs no session.
    assert_eq!(era_of(&in_version("2026-07-28")), ran_in("2026-07-28"));
    assert_eq!(run(env.path(), &["cancel", &id]).code, Some(0));
    assert_eq!(era_of(&usual), ran_in("2025-11-25"), "undone with its task");
}

#[test]
fn a_plain_call_of_the_modern_era_dies_everywhere() {
    let fake = FakeServer::new(Kind::BothErasWithoutTasks);
    let proxy = FaultProxy::start(fake.addr);
    let url = format!("http://{}/mcp", proxy.addr());
    let env = TestEnv::new();
    let modern = ["-s", &url, "--protocol", "2026-07-28"];

    let arguments = [&modern[..], &["call", "work", "--detach"]].concat();
    let ran = run(env.path(), &arguments);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:#?}");
    assert!(
        ran.err.contains("closing the connection cancels"),
        "{ran:#?}"
    );
    assert!(proxy.calls("tools/list") > 0);
    assert_eq!(proxy.calls("tools/call"), 0, "nothing was sent");

    let arguments = [&modern[..], &["call", "work", "--json"]].concat();
    let mut client = Running::start(&mut program(env.path(), &arguments));
    let started = client.prints(|event| event["event"] == "started");
    client.prints(|event| event["event"] == "progress");
    let id = started["id"].as_str().unwrap();
    let document = run(env.path(), &["show", id, "--json"]).document();
    assert_eq!(document["if_cut"], "lost");
    let list = run(env.path(), &["ls"]).out;
    let row = list.lines().find(|line| line.contains(id)).unwrap();
    assert!(row.trim_end().ends_with("LOST"), "{list}");
    let shown = run(env.path(), &["show", id]).out;
    assert!(
        shown.contains("2026-07-28: set for this call, not negotiated"),
        "{shown}"
    );

    let mut screen = env.open(&["--protocol", "2026-07-28", "attach", id], (120, 36));
    screen.wait_for_line(&[id, "work", "LOST"]);
    screen.press("]]]]]");
    screen.wait_for_line(&[
        "if cut",
        "LOST: with MCP 2026-07-28, closing the connection",
    ]);
    screen.press("n");
    screen.wait_for("▸ work");
    screen.press("\r");
    screen.wait_for_line(&["if cut: LOST", "closing the connection cancels"]);
    screen.press("\x03\x03");
    screen.end();
    client.signal(Signal::KILL);
    client.end();

    // Once the server was seen the refusal comes from the session, for the same reason.
    let ran = run(
        env.path(),
        &["--protocol", "2026-07-28", "call", "work", "--detach"],
    );
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:#?}");
    assert!(
        ran.err.contains("closing the connection cancels"),
        "{ran:#?}"
    );
    assert_eq!(proxy.calls("tools/call"), 1, "nothing more was sent");
}

#[test]
fn adopts_a_thousand_tasks_once_and_polls_at_the_servers_pace() {
    let fake = FakeServer::new(Kind::ThousandTasks);
    let env = TestEnv::new();
    let url = fake.url();
    let adopt = || run(env.path(), &["-s", &url, "adopt"]);
    let first = adopt();
    assert_eq!(first.code, Some(0), "{first:#?}");
    assert_eq!(first.out.lines().count(), THOUSAND);
    let listed = || run(env.path(), &["ls", "--json"]).document();
    assert_eq!(listed().as_array().unwrap().len(), THOUSAND);
    assert_eq!(adopt().out, "", "each once");

    let mut screen = env.open(&[], (120, 36));
    screen.wait_for(" running  0 finished");
    screen.wait_for("imported from");
    let mut paints = Vec::new();
    for _ in 0..10 {
        screen.press("?");
        paints.push(screen.wait_for("─ Keys and commands ─"));
        screen.press("\x1b");
        screen.wait_until("the list", |screen| {
            !screen.contents().contains("─ Keys and commands ─")
        });
    }
    paints.sort();
    println!(
        "key to paint with 1,000 rows: median {:?}, longest {:?}",
        paints[5], paints[9]
    );
    assert_eq!(adopt().out, "", "each once, asked of another process too");
    // The first look of a process that has just begun is at nobody's pace.
    fake.shared.polls.lock().unwrap().clear();
    let are_asked_twice = |polls: &BTreeMap<String, Vec<Instant>>| {
        polls.len() == THOUSAND && polls.values().all(|times| times.len() >= 2)
    };
    while !are_asked_twice(&fake.polls()) {
        // The screen has to be read, or the program waits for it.
        screen.watch_for(Duration::from_millis(50));
    }
    for (name, times) in fake.polls() {
        let soonest = times.windows(2).map(|two| two[1] - two[0]).min();
        assert!(soonest >= Some(INTERVAL), "{name}: {soonest:?}");
    }
    fake.shared.is_done.store(true, Ordering::SeqCst);
    screen.wait_for_line(&["0 running", "000 finished"]);
    screen.press("q");
    screen.end();

    let all = listed();
    let ends = all.as_array().unwrap().iter();
    assert_eq!(
        ends.filter(|task| task["status"] == "completed").count(),
        THOUSAND
    );
    assert_eq!(adopt().out, "", "what has settled is not new");
    let seventh = all
        .as_array()
        .unwrap()
        .iter()
        .find(|task| task["server_task_id"] == "7");
    let named = run(env.path(), &["-s", &url, "adopt", "7"]);
    let id = seventh.unwrap()["id"].as_str().unwrap();
    assert!(
        named.out.starts_with(id),
        "by its name it is the one that is there: {named:#?}"
    );
    assert_eq!(listed().as_array().unwrap().len(), THOUSAND);
}

#[test]
fn a_lost_task_that_the_server_knows_again_can_be_adopted_again() {
    let fake = FakeServer::new(Kind::ThousandTasks);
    let env = TestEnv::new();
    let url = fake.url();
    let adopt = || run(env.path(), &["-s", &url, "adopt", "7"]);
    let first = adopt();
    assert_eq!(first.code, Some(0), "{first:#?}");
    let first = first.out.split_whitespace().next().unwrap().to_owned();

    fake.shared.has_forgotten.store(true, Ordering::SeqCst);
    let waited = run(env.path(), &["wait", &first]);
    assert_eq!(waited.code, Some(5), "{waited:#?}");
    let shown = run(env.path(), &["show", &first, "--json"]).document();
    assert_eq!(shown["status"], "lost", "{shown}");
    let refused = adopt();
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.err.contains("has no task 7"), "{refused:#?}");

    fake.shared.has_forgotten.store(false, Ordering::SeqCst);
    let again = adopt();
    assert_eq!(again.code, Some(0), "{again:#?}");
    let again = again.out.split_whitespace().next().unwrap();
    assert_ne!(again, first);
    let shown = run(env.path(), &["show", again, "--json"]).document();
    assert_eq!(shown["status"], "running", "{shown}");
}
