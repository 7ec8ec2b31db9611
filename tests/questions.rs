//! Questions of a server on the command line: the real binary, a real stream, an answer that has to arrive once.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
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
use pty::{House, Tui};
use serde_json::{Value, json};
use support::{
    program::{Ran, run},
    server,
};
use tokio::sync::watch;

/// A server whose one tool asks a person before it works.
struct Asking {
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

impl Asking {
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
    let answer = |result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    };
    match message["method"].as_str() {
        Some("initialize") => answer(json!({
            "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "asking", "version": "1"}})),
        Some("tools/list") => {
            answer(json!({"tools": [{"name": "deploy", "inputSchema": {"type": "object"}}]}))
        }
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
        _ if id.is_null() => StatusCode::ACCEPTED.into_response(),
        _ => answer(json!({})),
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
fn a_call_that_is_asked_ends_with_six_and_its_answer_is_checked_sent_once_and_goes_on() {
    let server = Asking::start();
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
    let list = run(state, &["--json", "ls", "--needs-me"]).document();
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
        "asks, for deploy",
        "Roll out",
        "count=INTEGER   a whole number of 1 to 9   hosts at a time",
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
        (vec!["count=12"], "count must be a whole number of 1 to 9"),
        (vec!["--accept"], "count is missing"),
        (vec!["--defaults"], "no default for count"),
        (vec!["count=1", "more=2"], "more is not asked for"),
        (vec!["count=x"], "not \"x\""),
        (vec!["count=1", "--key", "other"], "does not ask \"other\""),
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
        (Some(0), format!("{id} is accepted\n").as_str()),
        "{accepted:#?}"
    );
    let ended = run(state, &["wait", &id]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let sent = json!({"action": "accept", "content": {"count": 3, "mode": "slow"}});
    assert_eq!(server.answers(), [sent]);
    let again = run(state, &["answer", &id, "count=4"]);
    assert_eq!(again.code, Some(2), "{again:#?}");
    assert!(again.err.contains("asks nothing"), "{again:#?}");
}

#[test]
fn a_question_is_declined_or_dismissed_by_a_word() {
    for (flag, action) in [("--decline", "decline"), ("--cancel", "cancel")] {
        let server = Asking::start();
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
fn a_call_may_say_beforehand_that_questions_are_declined() {
    let server = Asking::start();
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
    let server = Asking::start();
    let house = House::new();
    let mut tui = house.open(&["-s", &server.url(), "call", "deploy"], (120, 36));
    tui.wait_for_line(&["asks, for deploy"]);
    // What the server wrote steers nothing.
    tui.wait_for("[2J to how many?");
    tui.wait_for("hosts at a time");
    let choice = "[a]ccept, [d]ecline or answer [l]ater?";
    // Enter alone, as it is pressed by reflex, answers nothing.
    answer(&mut tui, choice, "");
    tui.wait_for("type a, d or l");
    answer(&mut tui, choice, "a");
    answer(&mut tui, "count:", "12");
    tui.wait_for("count must be a whole number of 1 to 9");
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
    let server = Asking::start();
    let house = House::new();
    let mut tui = house.open(&["-s", &server.url(), "call", "deploy"], (120, 36));
    answer(&mut tui, choice, "d");
    assert_eq!(tui.end().0, 0, "{}", tui.text());
    assert_eq!(server.answers(), [json!({"action": "decline"})]);

    let server = Asking::start();
    let mut tui = house.open(&["-s", &server.url(), "call", "deploy"], (120, 36));
    answer(&mut tui, choice, "l");
    tui.wait_for("Answer it: longhaul answer ");
    assert_eq!(tui.end().0, 6, "{}", tui.text());
    assert!(server.answers().is_empty());

    // Whoever says how questions are handled is not asked.
    let server = Asking::start();
    let url = server.url();
    let waits = ["-s", &url, "call", "deploy", "--on-input", "ask"];
    let mut tui = house.open(&waits, (120, 36));
    tui.wait_for("Answer it: longhaul answer ");
    assert_eq!(tui.end().0, 6, "{}", tui.text());
}

#[test]
fn ctrl_c_leaves_a_question_that_is_shown() {
    let server = Asking::start();
    let house = House::new();
    let mut tui = house.open(&["-s", &server.url(), "call", "deploy"], (120, 36));
    tui.wait_for("answer [l]ater?");
    tui.press("\u{3}");
    tui.wait_for("go on: longhaul attach");
    assert_eq!(tui.end().0, 130, "{}", tui.text());
    assert!(server.answers().is_empty());
}

#[test]
fn says_that_term_is_why_there_is_no_screen() {
    let house = House::new();
    let dumb = [("TERM", "dumb")];
    let mut tui = house.open_with(&dumb, pty::program(), &[], (80, 24));
    tui.wait_for("TERM=dumb");
    assert_eq!(tui.end().0, 2, "{}", tui.text());
}
