//! The command line as scripts and people use it: the real binary, real files, real HTTP.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    collections::BTreeSet,
    io::Write as _,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::support::{
    agent_host::AgentHost,
    demo_server,
    kept::{Kept, until},
    program::{Running, finish, program, run},
    server,
};
use axum::{
    Router,
    body::Body,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::{StreamExt as _, stream};
use longhaul::{
    domain::{LinkRecord, ServerName, Task},
    store::{ListFilter, Paths, Reader, write_atomically},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The demo server in this process, and a state directory.
struct Bench {
    dir: TempDir,
    server: demo_server::DemoServer,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = server::demo(dir.path().join("demo"));
        Self { dir, server }
    }

    fn state(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn demo_dir(&self) -> PathBuf {
        self.dir.path().join("demo")
    }
}

/// Arguments of a run with the server's URL, in a revision whose streams can be resumed and that has no tasks.
fn with<'a>(url: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["-s", url, "--protocol", "2025-06-18"];
    all.extend(arguments);
    all
}

/// Starts a forecast and waits for an event of it; returns the task id too.
fn start_forecast(state: &Path, url: &str, delay: &str, event: &str) -> (Running, String) {
    let arguments = ["call", "get_forecast", "city=Oslo", delay, "--json"];
    let mut call = Running::start(&mut program(state, &with(url, &arguments)));
    let printed = call.prints(|it| it["event"] == event);
    let id = printed["id"].as_str().unwrap().to_owned();
    (call, id)
}

/// A server with unusual tools that counts the calls it receives.
struct FakeServer {
    addr: SocketAddr,
    seen: Arc<Seen>,
}

/// What the handlers of an odd server share.
struct Seen {
    calls: AtomicUsize,
    /// Calls of `gate-a` and `gate-b` end once `open-a` and `open-b` were called.
    gates: [tokio::sync::Semaphore; 2],
}

impl FakeServer {
    fn start() -> Self {
        let seen = Arc::new(Seen {
            calls: AtomicUsize::new(0),
            gates: [0, 0].map(tokio::sync::Semaphore::new),
        });
        let router = Router::new()
            .route("/mcp", post(fake))
            .route("/locked", post(|| async { StatusCode::UNAUTHORIZED }))
            .route("/guarded", post(guarded))
            .with_state(Arc::clone(&seen));
        let addr = server::serve(router);
        Self { addr, seen }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    fn calls(&self) -> usize {
        self.seen.calls.load(Ordering::SeqCst)
    }
}

async fn fake(State(seen): State<Arc<Seen>>, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let id = &message["id"];
    let answer = |result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    };
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    match message["method"].as_str() {
        Some("initialize") => answer(json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"}})),
        Some("tools/list") => answer(json!({"tools": [
            tool("gate-a"), tool("gate-b"), tool("slow-json"), tool("open-a"), tool("open-b"), tool("plain"), tool("fails"), tool("refuses"), tool("hostile"), tool("stream"), tool("hangs"), tool("busy"), tool("denied"),
            {"name": "strict", "annotations": {"idempotentHint": true}, "inputSchema": {"type": "object", "properties": {
                "to": {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}}}},
            {"name": "wipes", "annotations": {"destructiveHint": true}, "inputSchema": {"type": "object"}},
            {"name": "loops", "inputSchema": {"type": "object", "allOf": [{"$ref": "#"}]}}]})),
        Some("tools/call") => {
            seen.calls.fetch_add(1, Ordering::SeqCst);
            let text = |text: &str| json!([{"type": "text", "text": text}]);
            let token = &message["params"]["_meta"]["progressToken"];
            let step = |done: usize| {
                let step = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": done, "total": 3}});
                format!("data: {step}\n\n")
            };
            match message["params"]["name"].as_str() {
                Some("plain" | "strict" | "loops" | "wipes") => {
                    answer(json!({"content": text("plain text")}))
                }
                Some("fails") => answer(json!({"content": text("out of paper"), "isError": true})),
                Some("hostile") => {
                    answer(json!({"content": text("a\u{1b}]0;pwned\u{7}\u{202e}b")}))
                }
                Some("stream") => {
                    let last = json!({"jsonrpc": "2.0", "id": id, "result": {"content": text("streamed")}});
                    sse(
                        stream::iter([step(1), step(2), step(3), format!("data: {last}\n\n")])
                            .boxed(),
                    )
                }
                Some(name @ ("gate-a" | "gate-b")) => {
                    let which = usize::from(name == "gate-b");
                    let last =
                        json!({"jsonrpc": "2.0", "id": id, "result": {"content": text(name)}});
                    let opened = stream::once(async move {
                        let _ = seen.gates[which].acquire().await.unwrap();
                        format!("data: {last}\n\n")
                    });
                    sse(stream::iter([step(1)]).chain(opened).boxed())
                }
                Some("slow-json") => {
                    let _ = seen.gates[0].acquire().await.unwrap();
                    answer(json!({"content": text("at last")}))
                }
                Some(name @ ("open-a" | "open-b")) => {
                    seen.gates[usize::from(name == "open-b")].add_permits(1);
                    answer(json!({"content": text("opened")}))
                }
                Some("busy") => StatusCode::TOO_MANY_REQUESTS.into_response(),
                Some("denied") => StatusCode::FORBIDDEN.into_response(),
                Some("hangs") => sse(stream::iter([step(1)]).chain(stream::pending()).boxed()),
                _ => {
                    let error = json!({"code": -32000, "message": "not today"});
                    let body = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
                    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
                }
            }
        }
        _ if id.is_null() => StatusCode::ACCEPTED.into_response(),
        _ => answer(json!({})),
    }
}

/// It lets everybody in and wants credentials for calls.
async fn guarded(state: State<Arc<Seen>>, body: String) -> Response {
    if body.contains("tools/call") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    fake(state, body).await
}

/// A stream of events without ids.
fn sse(events: stream::BoxStream<'static, String>) -> Response {
    let body = Body::from_stream(events.map(Ok::<_, std::convert::Infallible>));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

fn tasks(state: &Path) -> Vec<Task> {
    let paths = Paths::resolve(Some(state.to_owned()), "default").unwrap();
    Reader::open(&paths)
        .unwrap()
        .tasks(ListFilter::ALL)
        .unwrap()
}

fn of<'v>(events: &'v [Value], word: &str) -> Vec<&'v Value> {
    events
        .iter()
        .filter(|event| event["event"] == word)
        .collect()
}

fn steps(events: &[Value]) -> Vec<u64> {
    of(events, "progress")
        .iter()
        .map(|event| event["value"].as_u64().unwrap())
        .collect()
}

/// Every entry once, in order, none missing.
fn assert_whole(events: &[Value]) {
    let seqs: Vec<u64> = events
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    let whole: Vec<u64> = (1..=u64::try_from(seqs.len()).unwrap()).collect();
    assert_eq!(seqs, whole, "{events:#?}");
}

const PROCESS: [&str; 6] = [
    "call",
    "resumable_data_processing",
    "dataset_name=d",
    "total_records=50",
    "batch_size=5",
    "delay_ms=5",
];

#[test]
fn a_call_prints_its_events_as_one_json_object_a_line() {
    let bench = Bench::new();
    let url = bench.server.url();
    let mut arguments = with(&url, &PROCESS);
    arguments.extend(["--json", "--name", "eu", "--tag", "t"]);
    let ran = run(&bench.state("a"), &arguments);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let events = ran.events();
    assert_whole(&events);
    for event in &events {
        assert_eq!(event["id"], events[0]["id"]);
        assert!(event["at"].as_str().unwrap().ends_with('Z'), "{event}");
    }
    let first = &events[0];
    assert_eq!(first["event"], "started");
    assert_eq!(first["tool"], "resumable_data_processing");
    assert_eq!(first["server"], bench.server.addr().to_string());
    assert_eq!(first["resumability"], "checkpoint");
    assert!(first["era"].as_str().unwrap().starts_with("20"));
    assert_eq!(steps(&events), [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]);
    let step = of(&events, "progress")[0];
    assert_eq!(
        (&step["total"], &step["message"]),
        (&json!(50), &json!("Processed 5/50 records"))
    );
    let log = of(&events, "log")[0];
    assert_eq!(
        (&log["level"], &log["logger"]),
        (&json!("info"), &json!("longhaul-demo"))
    );
    let last = events.last().unwrap();
    assert_eq!(
        (&last["event"], &last["status"], &last["error"]),
        (&json!("settled"), &json!("completed"), &Value::Null)
    );
    let text = last["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(text).unwrap()["processed"],
        50
    );
    let id = first["id"].as_str().unwrap();
    let again = run(&bench.state("a"), &["watch", id.split_at(3).0, "--json"]);
    assert_eq!(
        (again.out, again.code),
        (ran.out, Some(0)),
        "what was recorded is what was printed"
    );
}

#[test]
fn call_prints_the_result_on_stdout_and_the_rest_on_stderr() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    let ran = run(
        &state,
        &with(&url, &["call", "get_forecast", "city=Lisbon", "delay_ms=1"]),
    );
    assert_eq!(ran.code, Some(0));
    assert!(
        ran.out.starts_with("Lisbon: ") && ran.out.lines().count() == 1,
        "{ran:#?}"
    );
    assert!(
        ran.err.contains("3/6 50%") && !ran.err.contains('\x1b'),
        "{ran:#?}"
    );
    // The only server of the session needs no name.
    let quiet = run(
        &state,
        &["call", "get_forecast", "city=Lisbon", "delay_ms=1", "-q"],
    );
    assert_eq!((quiet.out, quiet.err), (ran.out, String::new()));
}

#[test]
fn task_json_has_every_field_and_null_for_missing_values() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    run(
        &state,
        &with(
            &url,
            &[
                "call",
                "get_forecast",
                "city=Lisbon",
                "delay_ms=1",
                "--tag",
                "x",
            ],
        ),
    );
    let detached = run(
        &state,
        &[
            "call",
            "get_forecast",
            "city=Oslo",
            "delay_ms=60000",
            "--detach",
        ],
    );
    assert_eq!(detached.code, Some(0), "{detached:#?}");
    let list = run(&state, &["ls", "--json"]).document();
    let [running, done] = list.as_array().unwrap().as_slice() else {
        panic!("{list:#}")
    };
    for key in [
        "id",
        "name",
        "server",
        "tool",
        "arguments",
        "status",
        "reason",
        "contact",
        "asked",
        "if_cut",
        "if_cut_reason",
        "if_cut_message",
        "if_cut_until",
        "resumability",
        "attempts",
        "progress",
        "created_at",
        "updated_at",
        "settled_at",
        "server_task_id",
        "result",
        "error",
    ] {
        assert!(
            running.get(key).is_some() && done.get(key).is_some(),
            "{key} in {list:#}"
        );
    }
    assert_eq!(running["id"], detached.out.trim());
    assert_eq!(
        (&running["status"], &running["contact"]),
        (&json!("running"), &json!("unwatched"))
    );
    assert_eq!(
        (&running["if_cut"], &running["result"]),
        (&json!("likely"), &Value::Null)
    );
    assert!(running["contact_as_of"].is_string());
    assert_eq!(done["arguments"], json!({"city": "Lisbon", "delay_ms": 1}));
    assert_eq!(
        done["progress"],
        json!({"value": 6, "total": 6, "message": "Station 6 of 6 has answered"})
    );
    assert_eq!(
        (&done["status"], &done["if_cut"]),
        (&json!("completed"), &Value::Null)
    );
    assert!(
        done["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("Lisbon")
    );
    let id = done["id"].as_str().unwrap();
    assert_eq!(run(&state, &["show", id, "--json"]).document(), *done);
    assert_eq!(
        run(&state, &["result", id, "--json"]).document(),
        done["result"]
    );
    for (filter, count) in [
        (vec!["--status", "completed"], 1),
        (vec!["--tag", "x"], 1),
        (vec!["--new"], 0),
        (vec!["--needs-you"], 0),
    ] {
        let arguments = [vec!["ls", "--json"], filter.clone()].concat();
        assert_eq!(
            run(&state, &arguments).document().as_array().unwrap().len(),
            count,
            "{filter:?}"
        );
    }
    let table = run(&state, &["ls"]);
    assert!(
        table.out.starts_with("STATE")
            && table.out.contains("running?")
            && table.out.contains("likely"),
        "{table:#?}"
    );
}

#[test]
fn every_end_has_its_exit_code() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a");
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let nobody = format!("http://{free}/mcp");
    let locked = format!("http://{}/locked", fake.addr);
    let guarded = format!("http://{}/guarded", fake.addr);
    for (code, arguments, words) in [
        (0, with(&url, &["call", "plain"]), ""),
        (1, with(&url, &["call", "fails"]), "out of paper"),
        (1, with(&url, &["call", "refuses"]), "not today"),
        (2, with(&url, &["call", "nothing"]), "has no tool nothing"),
        (
            2,
            with(&url, &["call", "plain", "--args", "[1]"]),
            "not a JSON object",
        ),
        (
            2,
            vec!["call", "plain", "--bearer-env", "NOT_SET"],
            "NOT_SET",
        ),
        (
            2,
            vec!["-s", "unheard-of", "call", "plain"],
            "no server named \"unheard-of\"",
        ),
        (2, vec!["show", "zzz"], "no task \"zzz\""),
        (2, vec!["--readonly", "call", "plain"], "--readonly"),
        (2, vec!["--readonly", "demo", "--reset"], "--readonly"),
        (
            2,
            vec!["--readonly", "demo", "--break", "cut"],
            "--readonly",
        ),
        (2, vec!["frobnicate"], "frobnicate"),
        (2, vec![], "needs a terminal"),
        (3, with(&locked, &["call", "plain"]), "credentials"),
        (3, with(&guarded, &["call", "plain"]), "nothing was run"),
        (4, with(&nobody, &["call", "plain"]), "could not reach"),
        (4, with(&nobody, &["tools"]), "could not reach"),
        (
            7,
            with(&url, &["call", "hangs", "--max-time", "100ms"]),
            "maximum time",
        ),
    ] {
        let ran = run(&state, &arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:#?}");
        assert!(ran.err.contains(words), "{arguments:?}: {ran:#?}");
    }
    let help = run(&state, &["--help"]);
    assert!(
        help.out.contains("Exit codes:") && help.out.contains("'tags:="),
        "{help:#?}"
    );
    std::fs::create_dir_all(dir.path().join("b/sessions/default.db")).unwrap();
    let ran = run(&dir.path().join("b"), &with(&url, &["call", "plain"]));
    assert_eq!(ran.code, Some(73), "{ran:#?}");
}

#[test]
fn server_text_is_sanitized_for_the_terminal() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let ran = run(state, &with(&url, &["call", "hostile"]));
    assert_eq!(ran.out, "a\u{fffd}]0;pwned\u{fffd}\u{fffd}b\n");
    let id = tasks(state)[0].id.to_string();
    for arguments in [
        vec!["ls"],
        vec!["ls", "--json"],
        vec!["result", &id, "--json"],
        vec!["watch", &id, "--json"],
        vec!["show", &id],
    ] {
        let ran = run(state, &arguments);
        assert!(
            !ran.out.contains(['\x1b', '\x07', '\u{202e}']),
            "{arguments:?}: {ran:#?}"
        );
        assert!(ran.out.contains("pwned"), "{arguments:?}: {ran:#?}");
    }
    let raw = run(state, &["result", &id, "--raw"]);
    assert_eq!(raw.out, "a\u{1b}]0;pwned\u{7}\u{202e}b");
}

#[test]
fn a_refused_call_leaves_its_key_to_the_next() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    for calls in 1..=2 {
        let ran = run(dir.path(), &with(&url, &["call", "busy", "--once", "k"]));
        assert_eq!((ran.code, fake.calls()), (Some(2), calls), "{ran:#?}");
    }
    for _ in 0..2 {
        let ran = run(dir.path(), &["call", "plain", "--once", "k"]);
        assert_eq!((ran.code, fake.calls()), (Some(0), 3), "{ran:#?}");
    }
    let ran = run(dir.path(), &["call", "plain", "--once", ""]);
    assert_eq!((ran.code, fake.calls()), (Some(2), 3), "{ran:#?}");
}

#[test]
fn a_denied_call_is_sent_once() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let ran = run(dir.path(), &with(&url, &["call", "denied"]));
    assert_eq!((ran.code, fake.calls()), (Some(3), 1), "{ran:#?}");
}

#[test]
fn a_key_starts_one_call_and_again_changes_what_it_names() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let first = run(
        state,
        &with(&url, &["call", "plain", "a:=1", "--once", "k", "--json"]),
    )
    .events();
    let second = run(state, &["call", "plain", "a:=1", "--once", "k", "--json"]).events();
    assert_eq!(first, second);
    assert_eq!(fake.calls(), 1);
    let id = first[0]["id"].as_str().unwrap();
    let detached = ["call", "plain", "a:=1", "--once", "k", "--detach"];
    let detached = run(state, &detached);
    let ended = format!("{id} had already ended: completed; `longhaul result {id}` shows it");
    assert!(detached.err.contains(&ended), "{detached:#?}");
    let other = run(state, &["call", "plain", "a:=2", "--once", "k"]);
    assert_eq!(
        (other.code, other.out.as_str()),
        (Some(2), ""),
        "{other:#?}"
    );
    assert!(
        other.err.contains("for a different call: plain {\"a\":1}"),
        "{other:#?}"
    );
    assert_eq!(fake.calls(), 1);
    // Naming a task to run again is confirmation enough.
    let again = run(state, &["again", id, "a:=2", "b=x"]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), "plain text\n"));
    assert!(
        again.err.contains("changed a: 1 -> 2") && again.err.contains("changed b: not set -> x"),
        "{again:#?}"
    );
    let repeated = tasks(state)
        .into_iter()
        .find(|task| task.options.origin.is_some())
        .unwrap();
    assert_eq!(repeated.options.origin.unwrap().as_str(), id);
    assert_eq!(repeated.arguments, r#"{"a":2,"b":"x"}"#);

    // A tool that its server calls destructive is asked for, and nobody is there to be asked.
    let wiped = run(state, &["call", "wipes", "--json"]).events();
    let id = wiped[0]["id"].as_str().unwrap();
    let asked = run(state, &["again", id]);
    assert_eq!((asked.code, fake.calls()), (Some(2), 3), "{asked:#?}");
    assert!(
        asked
            .err
            .contains("nothing was sent; use --yes to run it again"),
        "{asked:#?}"
    );
    assert_eq!(run(state, &["again", id, "--yes"]).code, Some(0));
    assert_eq!(fake.calls(), 4);
}

#[test]
fn help_is_a_command_too_and_shows_aliases() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    for words in [&[][..], &["call"], &["servers", "add"]] {
        let by_flag = run(state, &[words, &["--help"]].concat());
        let by_command = run(state, &[&["help"], words].concat());
        assert_eq!(by_command.code, Some(0), "{by_command:#?}");
        assert_eq!(by_command.out, by_flag.out);
    }
    let all = run(state, &["help"]).out;
    for aliases in ["run]", "[alias: rerun]", "[alias: ps]"] {
        assert!(all.contains(aliases), "{aliases}: {all}");
    }
    let wrong = run(state, &["help", "fly"]);
    assert_eq!(wrong.code, Some(2), "{wrong:#?}");
    assert!(wrong.err.contains("fly"), "{wrong:#?}");
}

#[test]
fn refuses_a_configuration_that_does_not_exist() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let missing = |arguments: &[&str]| {
        let mut command = program(state, arguments);
        command.env("LONGHAUL_CONFIG", state.join("typo.toml"));
        finish(&mut command)
    };
    for arguments in [&["ls"][..], &["servers", "list"], &["call", "t"], &[]] {
        let ran = missing(arguments);
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        assert!(
            ran.err
                .contains("LONGHAUL_CONFIG names a file that does not exist")
                && ran.err.contains("typo.toml"),
            "{ran:#?}"
        );
    }
    for arguments in [
        &["paths"][..],
        &["help"],
        &["man"],
        &["completions", "bash"],
    ] {
        let ran = missing(arguments);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:#?}");
    }
    let doctor = missing(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:#?}");
    assert!(doctor.out.contains("typo.toml"), "{doctor:#?}");
    let added = missing(&["servers", "add", "lab", "http://127.0.0.1:1/mcp"]);
    assert_eq!(added.code, Some(0), "{added:#?}");
    assert_eq!(missing(&["ls"]).code, Some(0), "the file was not made");
}

#[test]
fn takes_a_host_with_a_path_for_a_url() {
    let fake = FakeServer::start();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let place = format!("localhost:{}/mcp", fake.addr.port());
    let tools = run(state, &["-s", &place, "tools"]);
    assert_eq!(tools.code, Some(0), "{tools:#?}");
    // It is the same server by its whole URL.
    let url = format!("http://{place}");
    assert_eq!(run(state, &["-s", &url, "tools"]).code, Some(0));
    let known = run(state, &["servers", "list", "--json"]).document();
    assert_eq!(known.as_array().unwrap().len(), 1, "{known:#?}");
    assert_eq!(known[0]["url"], *url);
    let other = run(state, &["-s", "build.example:8443/mcp", "tools"]);
    assert_eq!(other.code, Some(2), "{other:#?}");
    assert!(
        other.err.contains("use https://build.example:8443/mcp"),
        "{other:#?}"
    );
    let name = run(state, &["-s", "nobody:1", "tools"]);
    assert!(
        name.err
            .contains("no server named \"nobody:1\" in the configuration or this session"),
        "{name:#?}"
    );
}

#[test]
fn checks_the_whole_schema_unless_unchecked() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let call = |more: &[&str]| run(state, &with(&url, more));
    let wrong = call(&["call", "strict", r#"to:={"street": 7}"#]);
    assert_eq!((wrong.code, fake.calls()), (Some(2), 0), "{wrong:#?}");
    assert!(
        wrong
            .err
            .contains("not sent: strict: to.street must be text;"),
        "{wrong:#?}"
    );
    assert!(
        wrong.err.contains("--unchecked sends the call anyway"),
        "{wrong:#?}"
    );
    let sent = call(&["call", "strict", r#"to:={"street": 7}"#, "--unchecked"]);
    assert_eq!((sent.code, fake.calls()), (Some(0), 1), "{sent:#?}");
    // What may be repeated safely is repeated without a question, but checked again.
    let id = tasks(state)[0].id.to_string();
    assert_eq!(run(state, &["again", &id]).code, Some(2));
    let again = run(state, &["again", &id, r#"to:={"street": "x"}"#]);
    assert_eq!((again.code, fake.calls()), (Some(0), 2), "{again:#?}");
    // A schema that cannot be used prevents nothing.
    let loops = call(&["call", "loops", "x=1"]);
    assert_eq!((loops.code, fake.calls()), (Some(0), 3), "{loops:#?}");
    let said =
        "arguments sent unchecked because its schema is unusable: it refers to itself endlessly";
    assert!(loops.err.contains(said), "{loops:#?}");
    // Of what was not sent nothing of the kind is said.
    assert_eq!(run(state, &["call", "stream"]).code, Some(0));
    for (words, says) in [
        (vec!["call", "loops", "x=1", "--detach"], "nothing was sent"),
        (vec!["call", "strict", "more=1", "--detach"], "not sent: "),
    ] {
        let kept = run(state, &words);
        assert_eq!((kept.code, fake.calls()), (Some(2), 4), "{kept:#?}");
        assert!(
            kept.err.contains(says) && !kept.err.contains("sent unchecked"),
            "{kept:#?}"
        );
    }
    // What is refused leaves nothing behind: no task that failed, and nothing that a hook would hear of.
    let all = run(state, &["ls", "--all", "--json"]).document();
    let settled = |task: &Value| task["status"] == "completed";
    assert_eq!(all.as_array().unwrap().len(), 4, "{all:#?}");
    assert!(all.as_array().unwrap().iter().all(settled), "{all:#?}");
}

#[test]
fn detaches_only_when_that_does_not_end_the_call() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    let ran = run(
        &state,
        &with(
            &url,
            &[
                "call",
                "get_forecast",
                "city=Oslo",
                "delay_ms=20",
                "--detach",
            ],
        ),
    );
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let is_waiting =
        |line: &str| line.starts_with("waiting, because quitting now would lose the call (");
    assert!(ran.err.lines().all(is_waiting), "{ran:#?}");
    let watched = run(&state, &["watch", ran.out.trim(), "--json"]);
    assert_eq!(watched.code, Some(0), "{watched:#?}");
    assert_whole(&watched.events());
    assert_eq!(steps(&watched.events()), [1, 2, 3, 4, 5, 6]);
    assert_eq!(tasks(&state)[0].attempts.len(), 1);

    // Where it shows only afterwards, it stays and says so.
    let fake = FakeServer::start();
    let url = fake.url();
    let state = bench.state("b");
    let mut stays = Running::start(&mut program(
        &state,
        &with(&url, &["call", "hangs", "--detach"]),
    ));
    stays.says("staying, because quitting would lose");
    stays.signal(Signal::INT);
    stays.says("quitting would lose");
    stays.signal(Signal::INT);
    assert_eq!(stays.end().code, Some(130));
    // Where it is known beforehand, nothing is sent.
    assert_eq!(fake.calls(), 1);
    let ran = run(&state, &["call", "hangs", "--detach"]);
    assert_eq!((ran.code, fake.calls()), (Some(2), 1), "{ran:#?}");
    assert!(
        ran.err.contains("nothing was sent") && ran.out.is_empty(),
        "{ran:#?}"
    );
    assert_eq!(tasks(&state).len(), 1, "what was refused left a task");
    // Beside another one that drives, leaving ends nothing.
    let other = FakeServer::start();
    let state = bench.state("d");
    let mut drives = Running::start(&mut program(
        &state,
        &with(&url, &["call", "hangs", "--json"]),
    ));
    drives.prints(|event| event["event"] == "progress");
    let ran = run(&state, &with(&other.url(), &["call", "hangs", "--detach"]));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    // The one that drives may be about to send it.
    until("the first call arrived", || other.calls() == 1);
    assert!(!ran.err.contains("would lose"), "{ran:#?}");
    let ran = run(&state, &with(&other.url(), &["call", "hangs", "--detach"]));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    until("the second call arrived", || other.calls() == 2);
    drop(drives);
    // A call that is over before it can be left is no secret.
    let ran = run(
        &bench.state("c"),
        &with(&url, &["call", "plain", "--detach"]),
    );
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(
        ran.err
            .contains("finished before longhaul could detach: completed"),
        "{ran:#?}"
    );
}

#[test]
fn hints_at_a_task_in_another_session() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let empty = run(state, &["ls"]);
    assert!(empty.err.contains("no tasks to show"), "{empty:#?}");
    let mut there = with(&url, &["--session", "demo", "call", "plain"]);
    assert_eq!(run(state, &there).code, Some(0));
    there.extend(["--name", "second"]);
    assert_eq!(run(state, &there).code, Some(0));
    let listed = run(state, &["ls"]);
    assert_eq!(
        (listed.code, listed.err.as_str()),
        (
            Some(0),
            "no tasks in session default; session demo has 2: `longhaul --session demo ls`\n"
        )
    );
    let document = run(state, &["--session", "demo", "ls", "--json"]).document();
    let id = document[0]["id"].as_str().unwrap();
    for command in ["show", "watch", "cancel", "again", "rm", "wait"] {
        let ran = run(state, &[command, id]);
        assert_eq!(ran.code, Some(2), "{command}: {ran:#?}");
        let words = format!(
            "no task \"{id}\" in session default, but session demo has it; add --session demo"
        );
        assert!(ran.err.contains(&words), "{command}: {ran:#?}");
    }
    // The hint leads there from another state directory too.
    let mut command = program(state, &["--state-dir", state.to_str().unwrap(), "ls"]);
    let ran = finish(command.env_remove("LONGHAUL_STATE_DIR"));
    let flags = format!("longhaul --state-dir {} --session demo ls", state.display());
    assert!(ran.err.contains(&flags), "{ran:#?}");
    let help = run(state, &["demo", "--help"]);
    assert!(help.out.contains("[default: demo]"), "{help:#?}");
    let (before, after) = (
        ["--session", "here", "demo", "--stop"],
        ["demo", "--stop", "--session", "here"],
    );
    for arguments in [before, after] {
        let arguments = [&arguments[..], &["-v"]].concat();
        assert_eq!(run(state, &arguments).code, Some(2));
        let log = state.join("sessions/here.log");
        std::fs::remove_file(log).unwrap();
    }
}

#[test]
fn arguments_are_checked_before_anything_is_recorded() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    for arguments in [
        vec!["call", "get_forecast"],
        vec!["call", "get_forecast", "--args", "{}"],
        vec!["call", "get_forecast", "city:=7"],
    ] {
        let ran = run(&state, &with(&url, &arguments));
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:#?}");
        assert!(ran.err.contains("not sent: "), "{ran:#?}");
        assert!(
            ran.err
                .contains(&format!("-s {} tools", bench.server.addr())),
            "{ran:#?}"
        );
    }
    assert_eq!(tasks(&state).len(), 0, "what was refused left a task");
}

#[test]
fn refuses_unknown_arguments_before_anything_is_sent() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    let slip = ["call", "get_forecast", "city=Oslo", "delay_m=1"];
    for more in [&[][..], &["--detach"]] {
        let arguments = [&slip[..], more].concat();
        let ran = run(&state, &with(&url, &arguments));
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        let words = "delay_m is not an argument of this tool (did you mean delay_ms?);";
        assert!(ran.err.contains(words), "{ran:#?}");
        assert!(ran.err.contains("not sent: "), "{ran:#?}");
        assert!(ran.err.contains("--unchecked"), "{ran:#?}");
    }
    let json = r#"{"city": "Oslo", "zebra": 1}"#;
    let ran = run(
        &state,
        &with(&url, &["call", "get_forecast", "--args", json]),
    );
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert_eq!(tasks(&state).len(), 0, "what was refused left a task");
    let sent = [
        "call",
        "get_forecast",
        "city=Oslo",
        "delay_ms=1",
        "zebra=1",
        "--unchecked",
    ];
    let ran = run(&state, &with(&url, &sent));
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let wrong = ["call", "get_forecast", "city=Oslo", "delay_ms=soon"];
    let refused = run(&state, &with(&url, &wrong));
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    let ran = run(
        &state,
        &with(&url, &[&wrong[..], &["--unchecked"]].concat()),
    );
    assert_ne!(ran.code, Some(2), "{ran:#?}");
    assert!(
        tasks(&state)
            .iter()
            .any(|task| task.arguments.contains("\"soon\""))
    );
    let large = format!("delay_ms=1{}", "0".repeat(30));
    let refused = run(
        &state,
        &with(&url, &["call", "get_forecast", "city=Oslo", &large]),
    );
    assert!(refused.err.contains("fits in 64 bits"), "{refused:#?}");
}

#[test]
fn lines_name_their_task_and_quiet_shows_only_the_outcome() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    let call = ["call", "get_forecast", "city=Oslo", "delay_ms=1"];
    let ran = run(&state, &with(&url, &call));
    let id = tasks(&state)[0].id.to_string();
    let started = format!("started  {id}, call sent (MCP ");
    assert_eq!(ran.err.matches(&id).count(), 1, "{ran:#?}");
    assert!(ran.err.contains(&started), "{ran:#?}");
    let loud = run(&state, &["watch", &id]).out;
    assert!(
        loud.contains(&started) && loud.contains(" step     6/6 "),
        "{loud}"
    );
    let quiet = run(&state, &["watch", &id, "-q"]).out;
    let lines: Vec<&str> = quiet.lines().collect();
    let [status, result] = lines.as_slice() else {
        panic!("{quiet}")
    };
    assert!(status.ends_with("status   completed"), "{quiet}");
    assert!(result.starts_with("Oslo: "), "{quiet}");
    // Removed tasks are marked, and plain output says done.
    assert_eq!(run(&state, &["rm", &id]).code, Some(0));
    let all = run(&state, &["ls", "--all", "--status", "done"]);
    assert!(all.out.contains("completed, removed"), "{all:#?}");
}

#[test]
fn adopts_a_tutorial_state_file_once_after_approval() {
    let bench = Bench::new();
    let state = bench.state("state");
    let file = bench.dir.path().join("session_state.json");
    let call = ["resumable_data_processing", "client_id=c-old"];
    let work = ["dataset_name=eu", "total_records=200", "batch_size=10"];
    let call = [&["--json", "call"], &call[..], &work[..]].concat();
    let mut other = Running::start(&mut program(
        &bench.state("other"),
        &with(&bench.server.url(), &call),
    ));
    other.prints(|event| event["event"] == "progress");
    let entry = |tool: &str, status: &str| {
        json!({"tool": tool, "status": status, "progress": 40,
            "arguments": {"dataset_name": "eu", "total_records": 200, "batch_size": 10}})
    };
    let put = |words: &str| {
        let mut file = std::fs::File::create(&file).unwrap();
        file.write_all(words.as_bytes()).unwrap();
    };
    let write = |tasks: Value| {
        let saved =
            json!({"client_id": "c-old", "server_url": bench.server.url(), "active_tasks": tasks});
        put(&saved.to_string());
    };
    let adopt = ["adopt", "--from", file.to_str().unwrap()];
    std::fs::create_dir(&state).unwrap();
    let mut config = std::fs::File::create(state.join("config.toml")).unwrap();
    config.write_all(b"[defaults]\nmax_time = '1h'\n").unwrap();
    write(
        json!({"t1": entry("resumable_data_processing", "running"), "t2": entry("x", "completed")}),
    );
    let shown = run(&state, &adopt);
    assert_eq!(shown.code, Some(2), "{shown:#?}");
    assert!(
        shown
            .err
            .contains("would continue resumable_data_processing")
            && shown.err.contains("c-old"),
        "{shown:#?}"
    );
    assert!(!state.join("sessions/default.db").exists() || tasks(&state).is_empty());

    let yes = [&adopt[..], &["--yes"]].concat();
    let taken = run(&state, &yes);
    assert_eq!(taken.code, Some(0), "{taken:#?}");
    let id = taken.out.split(' ').next().unwrap();
    let again = run(&state, &yes);
    let here = format!("is already here as {id}");
    assert!(again.err.contains(&here), "{again:#?}");
    assert_eq!(tasks(&state).len(), 1);
    assert_eq!(tasks(&state)[0].client_id.as_deref(), Some("c-old"));
    let hour = std::time::Duration::from_secs(3600);
    assert_eq!(tasks(&state)[0].options.limits.hard, Some(hour));
    let ended = run(&state, &["wait", id]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");

    write(json!({"t9": entry("get_forecast", "running")}));
    let refused = run(&state, &yes);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    let why = "get_forecast (t9) can't be continued: the server lists no checkpoint for it";
    assert!(refused.err.contains(why), "{refused:#?}");
    put("no json");
    assert!(run(&state, &yes).err.contains("not valid JSON"));
    assert_eq!(tasks(&state).len(), 1);
}

#[test]
fn adopt_requires_arguments_missing_from_a_state_file() {
    let bench = Bench::new();
    let url = bench.server.url();
    let work = ["dataset_name=eu", "total_records=50", "batch_size=5"];
    let call = [
        "--json",
        "call",
        "resumable_data_processing",
        "client_id=c-tutorial",
        "delay_ms=300",
    ];
    let left = with(&url, &[&call[..], &work].concat());
    let mut other = Running::start(&mut program(&bench.state("other"), &left));
    other.prints(|event| event["value"].as_f64() >= Some(25.0));
    other.signal(Signal::KILL);
    other.end();
    let file = bench.dir.path().join("session_state.json");
    let saved = json!({"client_id": "c-tutorial", "server_url": url, "active_tasks": {
        "task_1": {"tool": "resumable_data_processing", "status": "running", "progress": 25}}});
    let mut written = std::fs::File::create(&file).unwrap();
    written.write_all(saved.to_string().as_bytes()).unwrap();

    let state = bench.state("ours");
    let adopt = |more: &[&str]| {
        let flags = ["adopt", "--from", file.to_str().unwrap(), "--yes"];
        run(&state, &[&flags[..], more].concat())
    };
    let rows = || demo_server::rows(&bench.demo_dir(), "c-tutorial").unwrap();
    let short = adopt(&[]);
    assert_eq!(short.code, Some(2), "{short:#?}");
    assert!(short.err.contains("--client-id c-tutorial"), "{short:#?}");
    assert!(short.err.contains(" KEY=VALUE ..."), "{short:#?}");
    assert!(short.err.contains("nothing was imported"), "{short:#?}");
    assert!(tasks(&state).is_empty());
    let missing = adopt(&["task_2", "dataset_name=eu"]);
    assert!(
        missing
            .err
            .contains("no unfinished task task_2; the file has task_1"),
        "{missing:#?}"
    );
    assert!(tasks(&state).is_empty());

    let more = ["task_1", "delay_ms=100"];
    let taken = adopt(&[&more[..], &work].concat());
    assert_eq!(taken.code, Some(0), "{taken:#?}");
    let again = adopt(&[&more[..], &work].concat());
    let id = taken.out.split(' ').next().unwrap();
    let here = format!("is already here as {id}");
    assert!(again.err.contains(&here), "{again:#?}");
    let ended = run(&state, &["wait", id]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(rows(), 50, "no record twice, and none of another job");
    let task = &tasks(&state)[0];
    assert!(task.server_task_id.is_some(), "{task:#?}");
}

#[test]
fn adopt_follows_a_foreign_checkpoint_before_resuming_it() {
    let bench = Bench::new();
    let url = bench.server.url();
    let work = [
        "dataset_name=eu",
        "total_records=40",
        "batch_size=5",
        "delay_ms=800",
    ];
    let call = [
        "--json",
        "call",
        "resumable_data_processing",
        "client_id=c-9",
    ];
    let left = with(&url, &[&call[..], &work].concat());
    let mut other = Running::start(&mut program(&bench.state("other"), &left));
    other.prints(|event| event["event"] == "progress");
    other.signal(Signal::KILL);
    other.end();
    // Without a keeper, a command that leaves would cut the call it has just sent.
    let ours = Kept::new();
    let config = ours.path().join("config.toml");
    write_atomically(&config, b"[defaults]\nmax_time = '1h'\n").unwrap();
    let list = ["--json", "call", "list_session_tasks", "client_id=c-9"];
    let listed = run(&bench.state("looks"), &with(&url, &list));
    let text = of(&listed.events(), "settled")[0]["result"]["content"][0]["text"].clone();
    let listed: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
    let theirs = listed["tasks"][0]["task_id"].as_str().unwrap().to_owned();

    let adopt = |more: &[&str]| {
        let flags = ["adopt", "--client-id", "c-9"];
        ours.run(&with(&url, &[&flags[..], more].concat()))
    };
    // A checkpoint is found by its arguments, and this list does not show them.
    let short = adopt(&["--yes"]);
    assert_eq!(short.code, Some(2), "{short:#?}");
    let hint = format!("--client-id c-9 {theirs} KEY=VALUE");
    assert!(short.err.contains(&hint), "{short:#?}");
    let missing = adopt(&["t-0", "--yes"]);
    assert!(missing.err.contains(&format!(
        "has no task t-0 for that client; it lists {theirs}"
    )));
    let wrong = adopt(&[&theirs, "total_records=40", "--yes"]);
    assert!(wrong.err.contains("dataset_name"), "{wrong:#?}");
    let whole = [&[theirs.as_str()], &work[..]].concat();
    let asked = adopt(&whole);
    assert_eq!(asked.code, Some(2), "{asked:#?}");
    assert!(
        asked
            .err
            .contains("would continue resumable_data_processing")
    );
    assert!(tasks(ours.path()).is_empty(), "nothing without a yes");

    let taken = adopt(&[&whole[..], &["--yes"]].concat());
    assert_eq!(taken.code, Some(0), "{taken:#?}");
    let id = taken.out.split(' ').next().unwrap().to_owned();
    let again = adopt(&[&whole[..], &["--yes"]].concat());
    assert!(
        again
            .err
            .contains(&format!("{theirs} is already here as {id}")),
        "{again:#?}"
    );
    let ended = ours.run(&["wait", &id]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(
        demo_server::rows(&bench.demo_dir(), "c-9").unwrap(),
        40,
        "no record twice"
    );
    let tasks = tasks(ours.path());
    let [task] = tasks.as_slice() else {
        panic!("{tasks:#?}");
    };
    assert_eq!(task.server_task_id.as_ref(), Some(&theirs));
    assert_eq!(task.client_id.as_deref(), Some("c-9"));
    let hour = std::time::Duration::from_secs(3600);
    assert_eq!(task.options.limits.hard, Some(hour));
    let history = ours.ok(&["logs", &id]).out;
    assert_eq!(
        task.attempts.len(),
        2,
        "theirs, and the one that brought the result: {history}"
    );
    let taken_over = history.matches("imported; longhaul polls").count();
    let sent_again = history.matches("call sent again, attempt 2").count();
    assert!(
        taken_over == 1 && sent_again == 1,
        "said once each: {history}"
    );
}

#[test]
fn ctrl_c_leaves_the_task_running_and_tells_how_to_resume() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    let (call, id) = start_forecast(&state, &url, "delay_ms=200", "progress");
    call.signal(Signal::INT);
    let ran = call.end();
    assert_eq!(ran.code, Some(130));
    let note = format!(
        "detached from {id} (`longhaul watch {id}`, `longhaul cancel {id}`); if cut: likely ("
    );
    assert!(ran.err.contains(&note), "{ran:#?}");
    let watched = run(&state, &["watch", &id, "--json"]);
    assert_eq!(watched.code, Some(0));
    assert_eq!(steps(&watched.events()), [1, 2, 3, 4, 5, 6]);
    assert!(
        watched.out.starts_with(&ran.out),
        "what was printed once is recorded so"
    );

    // A session that is not the default one is named.
    let mut call = Running::start(&mut program(
        &state,
        &with(
            &url,
            &[
                "--session",
                "other",
                "call",
                "get_forecast",
                "city=Oslo",
                "delay_ms=200",
                "--json",
            ],
        ),
    ));
    call.prints(|event| event["event"] == "progress");
    call.signal(Signal::INT);
    assert!(call.end().err.contains("--session other"));
}

#[test]
fn pause_resume_and_cancel_report_their_outcome() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    let long = [
        "call",
        "resumable_data_processing",
        "dataset_name=d",
        "total_records=100000",
        "batch_size=5",
        "delay_ms=20",
        "--json",
    ];
    let mut call = Running::start(&mut program(&state, &with(&url, &long)));
    let id = call.prints(|event| event["event"] == "progress")["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let paused = run(&state, &["pause", &id]);
    assert_eq!(paused.code, Some(0), "{paused:#?}");
    assert!(paused.out.contains("is paused"), "{paused:#?}");
    call.prints(|event| event["event"] == "status" && event["status"] == "paused");
    let client_id = tasks(&state)[0].client_id.clone().unwrap();
    let rows = demo_server::rows(&bench.demo_dir(), &client_id).unwrap();
    let resumed = run(&state, &["resume", &id]);
    assert!(resumed.out.contains("attempt 2"), "{resumed:#?}");
    call.prints(|event| event["event"] == "progress" && event["value"].as_u64().unwrap() > rows);
    let cancelled = run(&state, &["cancel", &id]);
    assert_eq!(
        (cancelled.code, cancelled.out.trim()),
        (Some(0), format!("{id} is cancelled").as_str())
    );
    let ran = call.end();
    assert_eq!(ran.code, Some(8), "{ran:#?}");
    assert_whole(&ran.events());
    // What cannot be paused says so.
    let forecast = run(
        &state,
        &[
            "call",
            "get_forecast",
            "city=Oslo",
            "delay_ms=60000",
            "--detach",
        ],
    );
    let refused = run(&state, &["pause", forecast.out.trim()]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.err.contains("not paused") && refused.err.contains("the call keeps running"),
        "{refused:#?}"
    );
    assert_eq!(run(&state, &["cancel", "--all"]).code, Some(0));
    assert!(
        tasks(&state)
            .iter()
            .all(|task| task.status.label() == "cancelled")
    );
    assert_eq!(run(&state, &["clean"]).out, "2 tasks removed\n");
    assert_eq!(run(&state, &["ls", "--json"]).document(), json!([]));
    assert_eq!(run(&state, &["rm", "--undo", &id]).code, Some(0));
    assert_eq!(
        run(&state, &["ls", "--json"])
            .document()
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_watch_takes_over_when_the_driver_is_killed() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    let (call, id) = start_forecast(&state, &url, "delay_ms=150", "started");
    let mut watch = Running::start(&mut program(&state, &["watch", &id, "--json"]));
    watch.prints(|event| event["event"] == "progress");
    call.signal(Signal::KILL);
    let ran = watch.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_whole(&ran.events());
    assert_eq!(steps(&ran.events()), [1, 2, 3, 4, 5, 6]);
    assert!(ran.err.contains("runs them now"), "{ran:#?}");
}

#[test]
fn ten_calls_at_once_give_ten_results() {
    let bench = Bench::new();
    let url = bench.server.url();
    let state = bench.state("a");
    let barrier = Barrier::new(10);
    let results: BTreeSet<String> = thread::scope(|scope| {
        let calls: Vec<_> = (0..10)
            .map(|number| {
                let (url, state, barrier) = (&url, &state, &barrier);
                scope.spawn(move || {
                    let dataset = format!("dataset_name=d{number}");
                    let delay = format!("delay_ms={}", number * 2);
                    let arguments = [
                        "call",
                        "resumable_data_processing",
                        &dataset,
                        "total_records=20",
                        "batch_size=5",
                        &delay,
                        "--json",
                    ];
                    barrier.wait();
                    let ran = run(state, &with(url, &arguments));
                    assert_eq!(ran.code, Some(0), "{ran:#?}");
                    let events = ran.events();
                    assert_whole(&events);
                    let text = events.last().unwrap()["result"]["content"][0]["text"]
                        .as_str()
                        .unwrap()
                        .to_owned();
                    let result: Value = serde_json::from_str(&text).unwrap();
                    assert_eq!(result["processed"], 20, "{ran:#?}");
                    result["dataset_name"].as_str().unwrap().to_owned()
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(results.len(), 10);
    let tasks = tasks(&state);
    assert_eq!(tasks.len(), 10);
    for task in tasks {
        assert_eq!(task.attempts.len(), 1, "{task:#?}");
        assert_eq!(
            demo_server::rows(&bench.demo_dir(), task.client_id.as_ref().unwrap()).unwrap(),
            20
        );
    }
}

#[test]
fn a_driver_stays_while_leaving_would_end_the_calls_of_others() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let (state, elsewhere) = (dir.path().join("a"), dir.path().join("b"));
    let mut driver = Running::start(&mut program(
        &state,
        &with(&url, &["call", "gate-a", "--json"]),
    ));
    driver.prints(|event| event["event"] == "progress");
    let mut client = Running::start(&mut program(
        &state,
        &with(&url, &["call", "gate-b", "--json"]),
    ));
    client.prints(|event| event["event"] == "progress");
    run(&elsewhere, &with(&url, &["call", "open-a"]));
    driver.prints(|event| event["event"] == "settled");
    driver.says("staying, because quitting would lose 1 call");
    run(&elsewhere, &with(&url, &["call", "open-b"]));
    for ran in [client.end(), driver.end()] {
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        assert_eq!(ran.events().last().unwrap()["status"], "completed");
    }
}

#[test]
fn a_call_has_started_before_a_server_answers_with_json() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let (state, elsewhere) = (dir.path().join("a"), dir.path().join("b"));
    let call = with(&url, &["call", "slow-json", "--json"]);
    let mut caller = Running::start(&mut program(&state, &call));
    // Nothing opens the gate until it has.
    caller.prints(|event| event["event"] == "started");
    run(&elsewhere, &with(&url, &["call", "open-a"]));
    let ran = caller.end();
    assert_eq!(ran.events().last().unwrap()["status"], "completed");
    assert_eq!(of(&ran.events(), "started").len(), 1, "{ran:#?}");
}

#[test]
fn a_driver_that_does_not_answer_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
    let lock = longhaul::store::DriverLock::try_take(&paths)
        .unwrap()
        .unwrap();
    let ran = run(
        dir.path(),
        &["-s", "http://127.0.0.1:9/mcp", "call", "plain"],
    );
    drop(lock);
    assert_eq!(ran.code, Some(75), "{ran:#?}");
    let pid = std::process::id().to_string();
    assert!(ran.err.contains(&pid), "{ran:#?}");
}

#[test]
fn reports_a_stopped_driver_which_drops_late_requests() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeServer::start();
    let url = fake.url();
    let mut driver = Running::start(&mut program(
        dir.path(),
        &with(&url, &["call", "gate-a", "--json"]),
    ));
    let id = driver.prints(|event| event["event"] == "progress")["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut client = Running::start(&mut program(dir.path(), &["watch", &id, "--json"]));
    client.prints(|event| event["event"] == "progress");
    driver.signal(Signal::STOP);
    let late = run(dir.path(), &with(&url, &["call", "plain"]));
    let client = client.end();
    driver.signal(Signal::CONT);
    assert_eq!(late.code, Some(75), "{late:#?}");
    assert_eq!(client.code, Some(75), "{client:#?}");
    let opened = run(dir.path(), &with(&url, &["call", "open-a"]));
    assert_eq!(opened.code, Some(0), "{opened:#?}");
    assert_eq!(driver.end().code, Some(0));
    assert_eq!(fake.calls(), 2, "what was given up was done all the same");
}

#[test]
fn reports_that_a_call_is_queued_for_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let stand_in = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", stand_in.local_addr().unwrap());
    let mut record = LinkRecord::new(ServerName::new("lab"), &url);
    record.session_number = 1;
    // Known from an earlier time, and now nobody listens there.
    let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
    let mut opened = longhaul::store::Writer::open(&paths, longhaul::domain::Wall(1)).unwrap();
    record.tools_at = Some(longhaul::domain::Wall(1));
    opened
        .writer
        .save(
            &[longhaul::domain::Row::Link(Box::new(record))],
            longhaul::store::Durability::Full,
            longhaul::domain::Wall(1),
        )
        .unwrap();
    drop((opened, stand_in));
    let mut call = Running::start(&mut program(dir.path(), &["call", "plain", "--json"]));
    call.says("is queued and will be sent when");
    call.signal(Signal::INT);
    let ran = call.end();
    assert_eq!(ran.code, Some(130), "{ran:#?}");
    assert!(ran.err.contains("drop it: `longhaul cancel "), "{ran:#?}");
}

#[test]
fn the_next_acting_command_quarantines_a_damaged_session() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeServer::start();
    let sessions = dir.path().join("sessions");
    std::fs::create_dir(&sessions).unwrap();
    let damaged = vec![7; 20_000];
    longhaul::store::write_atomically(&sessions.join("default.db"), &damaged).unwrap();
    let looks = run(dir.path(), &["ls"]);
    assert_eq!(looks.code, Some(73), "{looks:#?}");
    let url = fake.url();
    let call = with(&url, &["call", "plain"]);
    for (arguments, code) in [
        (call.as_slice(), 0),
        (&["again", "aaa"], 2),
        (&["clean"], 0),
        (&["rm", "aaa"], 2),
        (&["cancel", "--all"], 0),
    ] {
        longhaul::store::write_atomically(&sessions.join("default.db"), &damaged).unwrap();
        let acts = run(dir.path(), arguments);
        assert_eq!(acts.code, Some(code), "{acts:#?}");
        assert!(acts.err.contains("has been moved to"), "{acts:#?}");
    }
    let doctor = run(dir.path(), &["doctor"]);
    let lines = doctor.out.lines();
    let aside = lines.filter(|line| line.contains("default.damaged-"));
    assert_eq!(aside.count(), 5, "{doctor:#?}");
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(dir.path(), &with(&url, &["call", "plain", "--json"]));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = finish(command.stdout(writer));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[test]
fn a_call_that_leaving_would_end_outlives_its_readers() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let mut command = program(dir.path(), &with(&url, &["call", "gate-a", "--json"]));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut call = Running::start(command.stdout(writer));
    call.says("stdout is not being read; staying");
    let opened = run(dir.path(), &with(&url, &["call", "open-a"]));
    assert_eq!(opened.code, Some(0), "{opened:#?}");
    assert_eq!(call.end().code, Some(0));
    let done = tasks(dir.path())
        .into_iter()
        .find(|task| task.tool == "gate-a")
        .unwrap();
    let result = run(dir.path(), &["result", done.id.as_str()]);
    assert_eq!(result.out, "gate-a\n", "{result:#?}");
}

#[test]
fn changes_the_revision_unless_work_is_unsettled() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let call = |version: &str| {
        let arguments = ["-s", &url, "--protocol", version, "call", "plain", "--json"];
        run(state, &arguments)
    };
    let (old, other) = ("2025-06-18", "2025-11-25");
    for version in [old, other, old] {
        let ran = call(version);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:#?}");
        assert_eq!(ran.events()[0]["era"], version);
    }
    let gate = ["--protocol", old, "call", "gate-a", "--json"];
    let mut driver = Running::start(&mut program(state, &gate));
    driver.prints(|event| event["event"] == "progress");
    let sent = fake.calls();
    let ran = call(other);
    assert_eq!((ran.code, fake.calls()), (Some(2), sent), "{ran:#?}");
    assert!(
        ran.err.contains("has unfinished calls in MCP 2025-06-18"),
        "{ran:#?}"
    );
    assert_eq!(run(state, &["call", "open-a"]).code, Some(0));
    assert_eq!(driver.end().code, Some(0));
}

#[test]
fn a_revision_that_the_server_lacks_is_refused_and_blocks_nothing() {
    let kept = Kept::new();
    let fake = FakeServer::start();
    let url = fake.url();
    let plain = ["-s", "lab", "call", "plain"];
    let wrong = |more: &[&str]| {
        let ran = kept.run(&[more, &plain].concat());
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        let words = "it doesn't support MCP 2026-07-28, which was requested";
        assert!(ran.err.contains(words), "{ran:#?}");
    };
    let configure = |more: &str| {
        let entry = format!("[servers.lab]\nurl = {url:?}\n{more}");
        write_atomically(&kept.path().join("config.toml"), entry.as_bytes()).unwrap();
    };
    configure("protocol = \"2026-07-28\"\n");
    wrong(&[]);
    // Without waiting for the next try at the refused revision.
    configure("");
    kept.ok(&plain);
    // Beside a session that stands.
    wrong(&["--protocol", "2026-07-28"]);
    kept.ok(&plain);
    assert_eq!(fake.calls(), 2);
}

#[test]
fn a_changed_revision_applies_once_its_calls_have_ended() {
    let kept = Kept::new();
    let fake = FakeServer::start();
    let configure = |protocol: &str| {
        let url = fake.url();
        let entry = format!("[servers.lab]\nurl = {url:?}\nprotocol = {protocol:?}\n");
        write_atomically(&kept.path().join("config.toml"), entry.as_bytes()).unwrap();
    };
    configure("2025-06-18");
    let mut host = AgentHost::start(&kept, &["lab"], &json!({}));
    let gate = host.start_call("gate-a", &json!({}));
    until("the server has the call", || fake.calls() == 1);
    configure("2025-11-25");
    host.call("open-a", &json!({}));
    host.response(gate);
    host.call("plain", &json!({}));
    let newest = kept.ok(&["ls", "--json"]).document()[0].clone();
    assert_eq!(
        (&newest["tool"], &newest["era"]),
        (&json!("plain"), &json!("2025-11-25"))
    );
    host.close();
}

#[test]
fn a_changed_url_applies_once_its_calls_have_ended() {
    let kept = Kept::new();
    let [old, new] = [(); 2].map(|()| FakeServer::start());
    let configure = |fake: &FakeServer| {
        let entry = format!("[servers.lab]\nurl = {:?}\n", fake.url());
        write_atomically(&kept.path().join("config.toml"), entry.as_bytes()).unwrap();
    };
    configure(&old);
    let gate = kept.start(&["call", "-s", "lab", "gate-a"]);
    until("the server has the call", || old.calls() == 1);
    configure(&new);
    let open = kept.ok(&["call", "-s", "lab", "open-a"]);
    let waits = format!("lab still uses {}", old.url());
    assert_eq!(open.err.matches(&waits).count(), 1, "{open:#?}");
    assert_eq!(gate.end().code, Some(0));
    let moved = kept.ok(&["call", "-s", "lab", "plain"]);
    assert!(!moved.err.contains("still uses"), "{moved:#?}");
    assert_eq!((old.calls(), new.calls()), (2, 1));
}

#[test]
fn shows_final_progress_and_results_of_ended_tasks() {
    let fake = FakeServer::start();
    let url = fake.url();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    // Three of three are a hundred percent once the answer is there, and no other number before.
    assert_eq!(run(state, &with(&url, &["call", "stream"])).code, Some(0));
    let id = tasks(state)[0].id.to_string();
    let shown = run(state, &["show", &id]);
    assert!(shown.out.contains("3/3 100%"), "{shown:#?}");
    let logs = run(state, &["logs", &id]);
    assert!(
        logs.out.contains("3/3") && !logs.out.contains("99%"),
        "{logs:#?}"
    );
    // A line for people, where the result is an object for programs; and nothing but ASCII if that is wished.
    let bench = Bench::new();
    let records = ["call", "resumable_data_processing", "total_records=5"];
    let name = "dataset_name=a-dataset-with-a-name-that-is-too-long-for-the-list";
    let ran = run(
        &bench.state("a"),
        &[
            with(&bench.server.url(), &records),
            vec!["delay_ms=1", name],
        ]
        .concat(),
    );
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let listed = run(&bench.state("a"), &["ls", "--ascii"]);
    assert!(
        listed.out.contains("completed 5/5") && !listed.out.contains('{'),
        "{listed:#?}"
    );
    let name = "a-dataset-with-a-name-that-is-too-long-for-the-list";
    assert!(
        listed.out.contains(name) && listed.out.is_ascii(),
        "{listed:#?}"
    );
    // Forgetting, and bringing back, is done once.
    for (arguments, first, second) in [
        (["rm", &id].as_slice(), "removed", "was already removed"),
        (
            &["rm", "--undo", &id],
            "restored",
            "is in the list; nothing to restore",
        ),
    ] {
        for words in [first, second] {
            let ran = run(state, arguments);
            assert_eq!(ran.code, Some(0), "{ran:#?}");
            assert_eq!(ran.out, format!("{id} {words}\n"));
        }
    }
    // A call that ends with its client leaves nothing to resume.
    let mut call = Running::start(&mut program(state, &["call", "hangs", "--json"]));
    call.prints(|event| event["event"] == "progress");
    call.signal(Signal::INT);
    call.says("Press Ctrl-C again to quit");
    call.signal(Signal::INT);
    let ran = call.end();
    assert_eq!(ran.code, Some(130));
    assert!(
        ran.err.contains("quitting closed the connection") && !ran.err.contains("detached;"),
        "{ran:#?}"
    );
}

#[test]
fn the_demo_server_is_started_broken_and_stopped_from_a_shell() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let none = run(state, &["demo"]);
    assert_eq!(none.code, Some(2), "{none:#?}");
    assert!(
        !state.join("demo").exists(),
        "without a terminal nothing is started"
    );
    assert_eq!(run(state, &["demo", "--stop"]).code, Some(2));
    let mut server = Running::start(&mut program(state, &["demo", "--serve"]));
    let url = server.line().unwrap();
    let url = url.trim();
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let file = state.join("arguments.json");
    std::fs::File::create(&file).unwrap();
    longhaul::store::write_atomically(&file, br#"{"city": "Oslo", "delay_ms": 1}"#).unwrap();
    let arguments = format!("@{}", file.display());
    let ran = run(
        state,
        &[
            "-s",
            url,
            "--session",
            "demo",
            "call",
            "get_forecast",
            "--args",
            &arguments,
        ],
    );
    assert!(ran.out.starts_with("Oslo"), "{ran:#?}");
    assert_eq!(run(state, &["demo", "--break", "duplicate"]).code, Some(0));
    assert_eq!(run(state, &["demo", "--break", "nonsense"]).code, Some(2));
    let reset = run(state, &["demo", "--reset"]);
    assert_eq!(reset.code, Some(0), "{reset:#?}");
    assert_eq!(server.end().code, Some(0));
    assert!(!state.join("demo").exists());
    assert_eq!(
        run(state, &["--session", "demo", "ls", "--json"]).document(),
        json!([])
    );
}
