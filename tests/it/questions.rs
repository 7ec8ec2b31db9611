//! Questions of a server on the command line: the real binary, a real stream, an answer that has to arrive once.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
};

use crate::support::pty::{self, TestEnv, Tui};
use crate::support::{
    program::{Ran, Running, program, run},
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
use serde_json::{Value, json};
use tokio::sync::watch;

/// A server whose one tool asks a person before it works.
struct AskingServer {
    addr: SocketAddr,
    heard: Arc<Heard>,
}

/// What it heard.
struct Heard {
    /// The id of the call that waits for an answer.
    call: Mutex<Value>,
    /// The answers, in order.
    answers: watch::Sender<Vec<Value>>,
}

impl AskingServer {
    fn start() -> Self {
        let heard = Arc::new(Heard {
            call: Mutex::new(Value::Null),
            answers: watch::Sender::new(Vec::new()),
        });
        let router = Router::new()
            .route("/mcp", post(posted).get(rest_of_the_stream))
            .with_state(Arc::clone(&heard));
        let addr = server::serve(router);
        Self { addr, heard }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    fn answers(&self) -> Vec<Value> {
        self.heard.answers.borrow().clone()
    }

    /// Calls the tool, and gives the id of the task that asks.
    fn asked(&self, state: &Path) -> (String, Ran) {
        let ran = run(state, &["-s", &self.url(), "--json", "call", "deploy"]);
        assert_eq!(ran.code, Some(6), "{ran:#?}");
        let id = ran.events()[0]["id"].as_str().unwrap().to_owned();
        (id, ran)
    }
}

fn question() -> Value {
    json!({"message": "Roll out\u{1b}[2J to how many?", "requestedSchema": {
        "type": "object", "required": ["count"], "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "description": "hosts at a time"},
            "mode": {"type": "string", "enum": ["slow", "fast"], "default": "slow"}}}})
}

async fn posted(State(heard): State<Arc<Heard>>, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let id = &message["id"];
    match message["method"].as_str() {
        Some("tools/call") => {
            *heard.call.lock().unwrap() = id.clone();
            let ask = json!({"jsonrpc": "2.0", "id": "ask-1", "method": "elicitation/create", "params": question()});
            let first = stream::iter([format!("id: e1\ndata: {ask}\n\n")]);
            sse(first.chain(the_end(heard)).boxed())
        }
        None if *id == "ask-1" => {
            let result = message["result"].clone();
            heard.answers.send_modify(|answers| answers.push(result));
            StatusCode::ACCEPTED.into_response()
        }
        _ => server::answer_with_one_tool("asking", "deploy", &message),
    }
}

async fn rest_of_the_stream(
    State(heard): State<Arc<Heard>>,
    headers: axum::http::HeaderMap,
) -> Response {
    match headers.get("last-event-id") {
        Some(_) => sse(the_end(heard).boxed()),
        None => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

/// The result, once there is an answer.
fn the_end(heard: Arc<Heard>) -> impl futures_util::Stream<Item = String> + Send {
    stream::once(async move {
        let mut answers = heard.answers.subscribe();
        let answers = answers
            .wait_for(|answers| !answers.is_empty())
            .await
            .unwrap()
            .clone();
        let id = heard.call.lock().unwrap().clone();
        let result = json!({"content": [{"type": "text", "text": answers[0].to_string()}]});
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        format!("id: e2\ndata: {message}\n\n")
    })
}

fn sse(events: stream::BoxStream<'static, String>) -> Response {
    let body = Body::from_stream(events.map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

#[test]
fn a_question_exits_with_six_and_its_answer_is_sent_once() {
    let server = AskingServer::start();
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let (id, called) = server.asked(state);
    let events = called.events();
    let asks: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "input_required")
        .collect();
    assert_eq!(asks.len(), 1, "{called:#?}");
    assert_eq!(asks[0]["request"]["message"], question()["message"]);
    assert!(
        called.err.contains(&format!("longhaul answer {id}")),
        "{called:#?}"
    );

    // Everything that reads the session tells of it, and nothing of it steers a terminal.
    let list = run(state, &["--json", "ls", "--needs-you"]).document();
    assert_eq!(list[0]["questions"][0]["key"], asks[0]["key"]);
    let shown = run(state, &["show", &id]);
    assert!(
        shown.out.contains("Roll out\u{fffd}[2J to how many?"),
        "{shown:#?}"
    );
    let watched = run(state, &["watch", &id]);
    assert_eq!(watched.code, Some(6), "{watched:#?}");
    let waited = run(state, &["wait", &id]);
    assert_eq!(waited.code, Some(6), "{waited:#?}");

    let asked = run(state, &["answer", &id]);
    assert_eq!(asked.code, Some(6), "{asked:#?}");
    for words in [
        "for deploy",
        "Roll out",
        "count=INTEGER   hosts at a time; a whole number from 1 to 9",
        "[mode=slow|fast (slow)]",
        &format!("longhaul answer {id} --accept count=..."),
        "--decline",
    ] {
        assert!(asked.out.contains(words), "{words} in {asked:#?}");
    }
    assert!(
        !asked.out.contains('\u{1b}') && !asked.out.contains("--defaults"),
        "{asked:#?}"
    );
    let document = run(state, &["--json", "answer", &id]).document();
    assert_eq!(document["fields"][0]["name"], "count");

    for (wrong, why) in [
        (vec!["count=12"], "count must be at most 9"),
        (vec!["--accept"], "count is missing"),
        (vec!["--defaults"], "no default for count"),
        (
            vec!["count=1", "more=2"],
            "more is not a field of this question",
        ),
        (vec!["count=x"], "not \"x\""),
        (
            vec!["count=1", "--key", "other"],
            "no open question \"other\"",
        ),
        (vec!["count=1", "--decline"], "cannot be used with"),
    ] {
        let mut arguments = vec!["answer", &id];
        arguments.extend(wrong);
        let refused = run(state, &arguments);
        assert_eq!(refused.code, Some(2), "{refused:#?}");
        assert!(refused.err.contains(why), "{why} in {refused:#?}");
    }
    assert_eq!(
        run(state, &["--readonly", "answer", &id, "count=1"]).code,
        Some(2)
    );
    assert!(server.answers().is_empty());

    let accepted = run(state, &["answer", &id, "--accept", "count=3"]);
    assert_eq!(
        (accepted.code, accepted.out.as_str()),
        (Some(0), format!("{id}: answer saved (accepted)\n").as_str()),
        "{accepted:#?}"
    );
    let ended = run(state, &["wait", &id]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let sent = json!({"action": "accept", "content": {"count": 3, "mode": "slow"}});
    assert_eq!(server.answers(), [sent]);
    let again = run(state, &["answer", &id, "count=4"]);
    assert_eq!(again.code, Some(2), "{again:#?}");
    assert!(again.err.contains("no open question"), "{again:#?}");
}

#[test]
fn a_question_is_declined_or_dismissed_by_a_word() {
    for (flag, action) in [("--decline", "decline"), ("--cancel", "cancel")] {
        let server = AskingServer::start();
        let dir = tempfile::tempdir().unwrap();
        let (id, _) = server.asked(dir.path());
        let answered = run(dir.path(), &["answer", &id, flag]);
        assert_eq!(answered.code, Some(0), "{answered:#?}");
        let ended = run(dir.path(), &["wait", &id]);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        assert_eq!(server.answers(), [json!({"action": action})]);
    }
}

#[test]
fn a_call_can_decline_questions_in_advance() {
    let server = AskingServer::start();
    let dir = tempfile::tempdir().unwrap();
    let called = run(
        dir.path(),
        &[
            "-s",
            &server.url(),
            "call",
            "deploy",
            "--on-input",
            "decline",
        ],
    );
    assert_eq!(called.code, Some(0), "{called:#?}");
    assert_eq!(server.answers(), [json!({"action": "decline"})]);
}

/// Types a line once what stands before the cursor is there.
fn answer(tui: &mut Tui, prompt: &str, line: &str) {
    tui.wait_until(prompt, |screen| {
        let text = screen.contents();
        text.trim_end().ends_with(prompt)
    });
    tui.press(&format!("{line}\r"));
}

#[test]
fn a_call_on_a_terminal_asks_there() {
    let server = AskingServer::start();
    let env = TestEnv::new();
    let mut tui = env.open(&["-s", &server.url(), "call", "deploy"], (120, 36));
    tui.wait_for_line(&["question from", "for deploy"]);
    // What the server wrote steers nothing.
    tui.wait_for("[2J to how many?");
    tui.wait_for("hosts at a time");
    let choice = "[a]ccept, [d]ecline or answer [l]ater?";
    // Enter alone, as it is pressed by reflex, answers nothing.
    answer(&mut tui, choice, "");
    tui.wait_for("type a, d or l");
    answer(&mut tui, choice, "a");
    answer(&mut tui, "count:", "12");
    tui.wait_for("count must be a whole number from 1 to 9");
    answer(&mut tui, "count:", "3");
    tui.wait_for("2) fast");
    answer(&mut tui, "mode [slow]:", "2");
    let (code, _) = tui.end();
    assert_eq!(code, 0, "{}", tui.text());
    let sent = json!({"action": "accept", "content": {"count": 3, "mode": "fast"}});
    assert_eq!(server.answers(), [sent]);
}

#[test]
fn a_question_on_a_terminal_is_declined_or_left_for_later() {
    let choice = "[a]ccept, [d]ecline or answer [l]ater?";
    let server = AskingServer::start();
    let env = TestEnv::new();
    let mut tui = env.open(&["-s", &server.url(), "call", "deploy"], (120, 36));
    answer(&mut tui, choice, "d");
    assert_eq!(tui.end().0, 0, "{}", tui.text());
    assert_eq!(server.answers(), [json!({"action": "decline"})]);

    let server = AskingServer::start();
    let mut tui = env.open(&["-s", &server.url(), "call", "deploy"], (120, 36));
    answer(&mut tui, choice, "l");
    tui.wait_for("Answer it: `longhaul answer ");
    assert_eq!(tui.end().0, 6, "{}", tui.text());
    assert!(server.answers().is_empty());

    // A call with a policy is not asked.
    let server = AskingServer::start();
    let url = server.url();
    let waits = ["-s", &url, "call", "deploy", "--on-input", "ask"];
    let mut tui = env.open(&waits, (120, 36));
    tui.wait_for("Answer it: `longhaul answer ");
    assert_eq!(tui.end().0, 6, "{}", tui.text());
}

#[test]
fn ctrl_c_leaves_a_question_that_is_shown() {
    let server = AskingServer::start();
    let env = TestEnv::new();
    let mut tui = env.open(&["-s", &server.url(), "call", "deploy"], (120, 36));
    tui.wait_for("answer [l]ater?");
    tui.press("\u{3}");
    tui.wait_for("detached from ");
    assert_eq!(tui.end().0, 130, "{}", tui.text());
    assert!(server.answers().is_empty());
}

#[test]
fn reports_an_unusable_term_variable() {
    let env = TestEnv::new();
    let dumb = [("TERM", "dumb")];
    let mut tui = env.open_with(&dumb, pty::program(), &[], (80, 24));
    tui.wait_for("TERM=dumb");
    assert_eq!(tui.end().0, 2, "{}", tui.text());
}

/// A server whose tools ask on the stream of a bare GET, as one SDK does where nothing says which call a question is for.
struct TwoCallServer {
    addr: SocketAddr,
    state: Arc<TwoCallState>,
}

#[derive(Default)]
struct TwoCallInner {
    /// What was sent beside the calls; the number of the event is its place, from 1.
    aside: Vec<Value>,
    /// How many listen there.
    listeners: usize,
    /// Questions that were asked while nobody listened: this server keeps none for later.
    unheard: usize,
    calls: Vec<Value>,
    answers: Vec<Value>,
    /// How often the stream was requested without a cursor, and the cursors of the other requests.
    bare: usize,
    resumed: Vec<String>,
}

struct TwoCallState {
    inner: Mutex<TwoCallInner>,
    /// Something has changed; a higher number cuts the stream beside the calls.
    changed: watch::Sender<u64>,
    has_stream: bool,
}

impl TwoCallState {
    fn change<T>(&self, change: impl FnOnce(&mut TwoCallInner) -> T) -> T {
        let done = change(&mut self.inner.lock().unwrap());
        self.changed.send_modify(|_| {});
        done
    }
}

impl TwoCallServer {
    fn start(has_stream: bool) -> Self {
        let state = Arc::new(TwoCallState {
            inner: Mutex::default(),
            changed: watch::Sender::new(0),
            has_stream,
        });
        let router = Router::new()
            .route("/mcp", post(beside_posted).get(beside_got))
            .with_state(Arc::clone(&state));
        let addr = server::serve(router);
        Self { addr, state }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    fn with<T>(&self, look: impl FnOnce(&mut TwoCallInner) -> T) -> T {
        look(&mut self.state.inner.lock().unwrap())
    }

    /// Waits until something is so.
    fn until(&self, what: &str, is_so: impl Fn(&TwoCallInner) -> bool) {
        let mut changed = self.state.changed.subscribe();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let wait = async {
            while !is_so(&self.state.inner.lock().unwrap()) {
                changed.changed().await.unwrap();
            }
        };
        let deadline = std::time::Duration::from_secs(60);
        let in_time = runtime.block_on(async { tokio::time::timeout(deadline, wait).await });
        assert!(in_time.is_ok(), "{what}");
    }
}

async fn beside_posted(State(state): State<Arc<TwoCallState>>, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let id = &message["id"];
    let answer = |result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let head = [
            ("content-type", "application/json"),
            ("mcp-session-id", "one"),
        ];
        (head, body).into_response()
    };
    match message["method"].as_str() {
        Some("initialize") => answer(json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "beside", "version": "1"}})),
        Some("tools/list") => {
            answer(json!({"tools": [{"name": "deploy", "inputSchema": {"type": "object"}}]}))
        }
        Some("tools/call") => {
            let place = state.change(|inner| {
                inner.calls.push(id.clone());
                let asks = &message["params"]["arguments"]["asks"];
                if !asks.is_null() && inner.listeners == 0 {
                    inner.unheard += 1;
                } else if !asks.is_null() {
                    let params = match asks.as_str() {
                        Some("url") => json!({"mode": "url", "message": "Look at this page",
                            "url": "https://example.com/page", "elicitationId": "p1"}),
                        _ => question(),
                    };
                    let number = inner.aside.len();
                    inner
                        .aside
                        .push(json!({"jsonrpc": "2.0", "id": format!("ask-{number}"),
                        "method": "elicitation/create", "params": params}));
                }
                inner.calls.len() - 1
            });
            let step = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": message["params"]["_meta"]["progressToken"], "progress": 1}});
            let first = stream::iter([format!("id: c{place}\ndata: {step}\n\n")]);
            sse(first.chain(beside_end(state, place)).boxed())
        }
        None if id.as_str().is_some_and(|id| id.starts_with("ask-")) => {
            state.change(|inner| inner.answers.push(message["result"].clone()));
            StatusCode::ACCEPTED.into_response()
        }
        _ if id.is_null() => StatusCode::ACCEPTED.into_response(),
        _ => answer(json!({})),
    }
}

/// The result of a call, once there is an answer.
fn beside_end(
    state: Arc<TwoCallState>,
    place: usize,
) -> impl futures_util::Stream<Item = String> + Send {
    stream::once(async move {
        let mut changed = state.changed.subscribe();
        loop {
            let (id, first) = {
                let inner = state.inner.lock().unwrap();
                (inner.calls[place].clone(), inner.answers.first().cloned())
            };
            if let Some(first) = first {
                let result = json!({"content": [{"type": "text", "text": first.to_string()}]});
                let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
                return format!("id: r{place}\ndata: {message}\n\n");
            }
            changed.changed().await.unwrap();
        }
    })
}

/// Counts who listens.
struct Listener(Arc<TwoCallState>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.change(|inner| inner.listeners -= 1);
    }
}

async fn beside_got(
    State(state): State<Arc<TwoCallState>>,
    headers: axum::http::HeaderMap,
) -> Response {
    let cursor = headers.get("last-event-id");
    let cursor = cursor.map(|cursor| cursor.to_str().unwrap().to_owned());
    if let Some(place) = cursor.as_deref().and_then(|it| it.strip_prefix('c')) {
        let place = place.parse().unwrap();
        return sse(beside_end(state, place).boxed());
    }
    let from = state.change(|inner| {
        if let Some(cursor) = cursor {
            let from = cursor.trim_start_matches('s').parse().unwrap();
            inner.resumed.push(cursor);
            inner.listeners += 1;
            return from;
        }
        inner.bare += 1;
        inner.listeners += usize::from(state.has_stream);
        inner.aside.len()
    });
    if !state.has_stream {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let (changed, cut_at) = (state.changed.subscribe(), *state.changed.borrow());
    let listener = Listener(state);
    let events = stream::unfold(
        (from, changed, listener),
        move |(at, mut changed, listener)| async move {
            loop {
                if *changed.borrow_and_update() != cut_at {
                    let cut = std::io::Error::other("cut");
                    return Some((Err(cut), (at, changed, listener)));
                }
                let message = listener.0.inner.lock().unwrap().aside.get(at).cloned();
                if let Some(message) = message {
                    let event = format!("id: s{}\ndata: {message}\n\n", at + 1);
                    return Some((Ok(event), (at + 1, changed, listener)));
                }
                changed.changed().await.ok()?;
            }
        },
    );
    let head = [(header::CONTENT_TYPE, "text/event-stream")];
    (head, Body::from_stream(events)).into_response()
}

#[test]
fn a_question_beside_the_only_call_reaches_the_user() {
    for (asks, answer) in [("form", "count=3"), ("url", "--accept")] {
        let server = TwoCallServer::start(true);
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        let asks = format!("asks={asks}");
        let ran = run(
            state,
            &["-s", &server.url(), "--json", "call", "deploy", &asks],
        );
        assert_eq!(ran.code, Some(6), "{ran:#?}");
        let id = ran.events()[0]["id"].as_str().unwrap().to_owned();
        let list = run(state, &["--json", "ls", "--needs-you"]).document();
        assert_eq!(list[0]["id"], *id);
        assert_eq!(list[0]["questions"][0]["shared_with"], json!([]));
        let answered = run(state, &["answer", &id, answer]);
        assert_eq!(answered.code, Some(0), "{answered:#?}");
        let ended = run(state, &["wait", &id]);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        server.with(|inner| {
            assert_eq!(
                (inner.answers.len(), inner.unheard, inner.calls.len()),
                (1, 0, 1)
            );
            assert_eq!(inner.answers[0]["action"], "accept");
        });
    }
}

#[test]
fn a_policy_answers_a_question_beside_its_call() {
    let server = TwoCallServer::start(true);
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let arguments = [
        "-s",
        &url,
        "call",
        "deploy",
        "asks=form",
        "--on-input",
        "decline",
    ];
    let ran = run(dir.path(), &arguments);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(
        server.with(|inner| inner.answers.clone()),
        [json!({"action": "decline"})]
    );
}

#[test]
fn a_question_survives_a_cut_and_a_kill_and_is_answered_once() {
    let server = TwoCallServer::start(true);
    let idle = server::one_tool("idle", |_| stream::pending());
    let dir = tempfile::tempdir().unwrap();
    let (state, url) = (dir.path(), server.url());
    let idle = format!("http://{idle}/mcp");
    let mut drives = Running::start(&mut program(
        state,
        &["-s", &idle, "--json", "call", "idle"],
    ));
    drives.prints(|line| line["event"] == "started");
    let begun = run(state, &["-s", &url, "call", "deploy", "--detach"]);
    assert_eq!(begun.code, Some(0), "{begun:#?}");
    let first = begun.out.trim().to_owned();
    server.until("the first call", |inner| inner.calls.len() == 1);
    let ran = run(
        state,
        &["-s", &url, "--json", "call", "deploy", "asks=form"],
    );
    assert_eq!(ran.code, Some(6), "{ran:#?}");
    let second = ran.events()[0]["id"].as_str().unwrap().to_owned();
    let list = run(state, &["--json", "ls", "--needs-you"]).document();
    let mut found: Vec<(&str, &str)> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|task| {
            let with = task["questions"][0]["shared_with"][0].as_str();
            (task["id"].as_str().unwrap(), with.unwrap())
        })
        .collect();
    let mut expected = [(&*first, &*second), (&*second, &*first)];
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected, "{list:#}");
    let shown = run(state, &["answer", &first]);
    let words = format!("asked by the server for {first} or {second}");
    assert!(shown.out.contains(&words), "{shown:#?}");
    // The stream is cut between question and answer, and the driver is killed there.
    server.state.changed.send_modify(|cuts| *cuts += 1);
    server.until("the stream again", |inner| inner.resumed == ["s1"]);
    drives.signal(rustix::process::Signal::KILL);
    drives.end();
    let answered = run(state, &["answer", &first, "count=3"]);
    assert_eq!(answered.code, Some(0), "{answered:#?}");
    for id in [&first, &second] {
        let ended = run(state, &["wait", id]);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
    }
    server.with(|inner| {
        assert_eq!((inner.bare, inner.unheard), (1, 0), "resumed ever since");
        assert!(inner.resumed.iter().all(|cursor| cursor == "s1"));
        assert_eq!((inner.answers.len(), inner.calls.len()), (1, 2));
    });
}

#[test]
fn requests_an_unsupported_stream_once_per_session() {
    let server = TwoCallServer::start(false);
    let dir = tempfile::tempdir().unwrap();
    server.with(|inner| inner.answers.push(json!("at once")));
    let url = server.url();
    let idle = server::one_tool("idle", |_| stream::pending());
    let idle = format!("http://{idle}/mcp");
    let arguments = ["-s", &idle, "--json", "call", "idle"];
    let mut drives = Running::start(&mut program(dir.path(), &arguments));
    drives.prints(|line| line["event"] == "started");
    for _ in 0..3 {
        let ran = run(dir.path(), &["-s", &url, "call", "deploy"]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    server.with(|inner| assert_eq!((inner.bare, inner.calls.len()), (1, 3)));
}

/// What a server got that asks without end.
#[derive(Default)]
struct Storm {
    requests: std::sync::atomic::AtomicUsize,
    /// How often each question was answered.
    answered: Mutex<std::collections::BTreeMap<String, usize>>,
}

/// A server that asks every 5 ms, two thousand times; each answer is sent on three times, and the connection that brings
/// it ends inside its response.
fn storm() -> (SocketAddr, Arc<Storm>) {
    use std::sync::atomic::Ordering;

    let storm = Arc::<Storm>::default();
    let heard = Arc::clone(&storm);
    let handle = async move |uri: axum::http::Uri, body: String| -> Response {
        heard.requests.fetch_add(1, Ordering::SeqCst);
        let message: Value = serde_json::from_str(&body).unwrap();
        let id = &message["id"];
        match message["method"].as_str() {
            Some("tools/call") => {
                let result = json!({"content": [{"type": "text", "text": "asked"}]});
                let end = json!({"jsonrpc": "2.0", "id": id, "result": result});
                let pace = tokio::time::interval(std::time::Duration::from_millis(5));
                let asks = stream::unfold((pace, 0), |(mut pace, number)| async move {
                    pace.tick().await;
                    let ask = json!({"jsonrpc": "2.0", "id": format!("ask-{number}"),
                        "method": "elicitation/create", "params": question()});
                    (number < 2000).then(|| (format!("data: {ask}\n\n"), (pace, number + 1)))
                });
                sse(asks
                    .chain(stream::iter([format!("data: {end}\n\n")]))
                    .boxed())
            }
            None if id.is_string() => {
                let hop = uri.query().unwrap_or_default().len();
                if hop < 3 {
                    let on = format!("/mcp?{}", "x".repeat(hop + 1));
                    return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, on)])
                        .into_response();
                }
                let mut answered = heard.answered.lock().unwrap();
                *answered.entry(id.to_string()).or_default() += 1;
                let cut = stream::iter([Ok("data: "), Err(std::io::Error::other("cut"))]);
                let media = [(header::CONTENT_TYPE, "text/event-stream")];
                (media, Body::from_stream(cut)).into_response()
            }
            _ => server::answer_with_one_tool("storm", "ask", &message),
        }
    };
    let addr = server::serve(Router::new().route("/mcp", post(handle)));
    (addr, storm)
}

#[test]
fn a_storm_of_questions_stays_within_the_budget() {
    let (addr, storm) = storm();
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{addr}/mcp");
    let arguments = ["-s", &url, "call", "ask", "--on-input", "decline"];
    let ran = run(dir.path(), &arguments);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let requests = storm.requests.load(std::sync::atomic::Ordering::SeqCst);
    assert!(requests < 300, "{requests} requests in ten seconds");
    let answered = storm.answered.lock().unwrap();
    assert!(answered.len() >= 20, "{answered:?}");
    assert!(answered.values().all(|times| *times <= 2), "{answered:?}");
}
