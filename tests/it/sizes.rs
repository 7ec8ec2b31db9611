//! A server without measure: endless lines and bodies, packed ones, floods of requests, pages in circles,
//! nonsense for numbers. Nothing grows without bound, nothing stands still, and what was left out is told.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use crate::support::pty::{TestEnv, Tui};
use crate::support::{
    program::{Ran, Running, program, run},
    server,
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

/// The most that the whole program may take, in kB: itself in the debug build, and the cap of one event (16 MiB) a few
/// times over for the moment in which it is found to be too large.
const CEILING_KB: u64 = 160 * 1024;
/// Progress and log lines that a flood sends before the answer.
const FLOOD: usize = 5_000;

/// What the server heard: how often each method, answers under `answer`.
type Heard = Arc<Mutex<BTreeMap<String, usize>>>;

struct FloodServer {
    addr: SocketAddr,
    heard: Heard,
}

impl FloodServer {
    fn start() -> Self {
        let heard = Heard::default();
        let router = Router::new()
            .route("/mcp", post(posted))
            .with_state(Arc::clone(&heard));
        let addr = server::serve(router);
        Self { addr, heard }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    fn heard(&self, method: &str) -> usize {
        *self.heard.lock().unwrap().get(method).unwrap_or(&0)
    }
}

async fn posted(State(heard): State<Heard>, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let method = message["method"].as_str().unwrap_or("answer").to_owned();
    let count = {
        let mut heard = heard.lock().unwrap();
        let count = heard.entry(method.clone()).or_default();
        *count += 1;
        *count
    };
    let id = message["id"].clone();
    let answer = |result: Value| answered(&id, &result);
    match method.as_str() {
        "initialize" => answer(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "boundless", "version": "1"}})),
        "tools/list" => answer(page(count, message["params"]["cursor"].is_null())),
        "tools/call" => called(&message),
        "answer" => StatusCode::ACCEPTED.into_response(),
        _ if id.is_null() => StatusCode::ACCEPTED.into_response(),
        _ => answer(json!({})),
    }
}

/// A list of tools whose pages never end, and whose cursors are always new.
fn page(number: usize, is_first: bool) -> Value {
    let tools: Vec<Value> = (0..40)
        .map(|tool| json!({"name": format!("t{number}_{tool}"), "inputSchema": {"type": "object"}}))
        .collect();
    let mut page = json!({"tools": tools, "nextCursor": format!("page {number}")});
    if is_first {
        page["tools"][0]["name"] = json!("work");
    }
    page
}

fn answered(id: &Value, result: &Value) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn called(message: &Value) -> Response {
    let id = &message["id"];
    let token = &message["params"]["_meta"]["progressToken"];
    let result = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "the end"}]}});
    let step = |value: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{value},"total":100}}}}"#
        )
    };
    match message["params"]["arguments"]["how"].as_str().unwrap() {
        "line" => endless(
            "text/event-stream",
            None,
            &b"data: "[..],
            vec![b'x'; 1 << 16],
        ),
        "comment" => endless("text/event-stream", None, &b": "[..], vec![b'x'; 1 << 16]),
        "body" => endless("application/json", None, &b"\""[..], vec![b'x'; 1 << 16]),
        "other" => endless("text/html", None, &b"<"[..], vec![b'x'; 1 << 16]),
        "packed" => endless("application/json", Some("gzip"), GZIP, packed_mebibyte()),
        "packed stream" => endless("text/event-stream", Some("gzip"), GZIP, packed_mebibyte()),
        "heads" => headed(answered(id, &json!({})), 4_000, 1_000),
        "many heads" => headed(answered(id, &json!({})), 1_000, 1),
        "deep" => {
            let (open, close) = ("[".repeat(200_000), "]".repeat(200_000));
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"the end"}}],"structuredContent":{{"x":{open}{close}}}}}}}"#
            );
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        "requests" => {
            let mut messages = Vec::new();
            for number in 0..FLOOD {
                let method = ["ping", "roots/list", "sampling/createMessage"][number % 3];
                messages.push(format!(
                    r#"{{"jsonrpc":"2.0","id":{number},"method":"{method}"}}"#
                ));
                messages.push(format!(
                    r#"{{"jsonrpc":"2.0","id":"q{number}","method":"elicitation/create","params":{{"message":"{number}?","requestedSchema":{{"type":"object","properties":{{}}}}}}}}"#
                ));
            }
            messages.push(result.to_string());
            events(&messages)
        }
        "shapes" => {
            let steps = [
                "1", "2.5", "1", "NaN", "1e999", "1e308", "-5", "\"7\"", "null", "40", "30",
            ];
            let mut messages: Vec<String> = steps.iter().map(|value| step(value)).collect();
            let of = |token: &str, more: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":99{more}}}}}"#
                )
            };
            messages.extend([
                // Of nobody, twice said, and with totals that come and go.
                of("\"of nobody\"", ""),
                of("7", ""),
                of("null", ""),
                of(&token.to_string(), r#","progress":98"#),
                step("50").replace("\"total\":100", "\"total\":-1"),
                step("60").replace("\"total\":100", "\"total\":1e999"),
                step("70").replace("\"total\":100", "\"total\":3"),
                // Answers to nothing, under ids that no request of ours has.
                r#"{"jsonrpc":"2.0","id":1.5,"result":{}}"#.to_owned(),
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#.to_owned(),
                r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#.to_owned(),
                format!(r#"{{"jsonrpc":"2.0","id":{id},"id":{id},"result":{{"content":[]}}}}"#),
                format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
                "no JSON at all".to_owned(),
                "[1,2".to_owned(),
                result.to_string(),
                // After the end.
                result.to_string().replace("the end", "another end"),
                step("80"),
            ]);
            events(&messages)
        }
        how => panic!("{how}"),
    }
}

/// The same with so many headers of this length.
fn headed(mut response: Response, count: usize, bytes: usize) -> Response {
    for number in 0..count {
        let name = format!("x-{number}").parse::<header::HeaderName>().unwrap();
        let value = "x".repeat(bytes).parse().unwrap();
        response.headers_mut().insert(name, value);
    }
    response
}

/// An event stream of these messages.
fn events(messages: &[String]) -> Response {
    let mut body = String::new();
    for message in messages {
        write!(body, "data: {message}\n\n").unwrap();
    }
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// A body that continues as long as the client reads it.
fn endless(
    kind: &'static str,
    coding: Option<&'static str>,
    begin: &'static [u8],
    more: Vec<u8>,
) -> Response {
    let more = Bytes::from(more);
    let body = stream::iter([Bytes::from_static(begin)])
        .chain(stream::repeat(more))
        .map(Ok::<_, std::convert::Infallible>);
    let mut response = Body::from_stream(body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
    if let Some(coding) = coding {
        headers.insert(header::CONTENT_ENCODING, coding.parse().unwrap());
    }
    response
}

/// The beginning of a gzip file (RFC 1952).
const GZIP: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];

/// A mebibyte of spaces in 1,038 bytes (RFC 1951): a block of its own, so that any number of them make a stream.
fn packed_mebibyte() -> Vec<u8> {
    let mut block = vec![
        0xec, 0xc1, 0x31, 1, 0, 0, 0, 0xc2, 0xa0, 0x2a, 0xeb, 0x9f, 0xd2, 0x10, 0xbe, 0x40, 1,
    ];
    block.extend([0; 1015]);
    block.extend([0x7c, 6, 0, 0, 0xff, 0xff]);
    block
}

/// The most memory that a process ever had, in kB.
fn peak_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.unwrap().trim().trim_end_matches("kB").trim();
    number.parse().unwrap()
}

fn call(env: &TestEnv, server: &FloodServer, how: &str) -> Ran {
    let how = format!("how={how}");
    run(env.path(), &["-s", &server.url(), "call", "work", &how])
}

fn open(env: &TestEnv, server: &FloodServer) -> Tui {
    let mut tui = env.open(&["-s", &server.url()], (120, 36));
    tui.wait_for("longhaul default");
    tui
}

#[test]
fn endless_data_uses_bounded_memory_and_blocks_no_key() {
    let env = TestEnv::new();
    let server = FloodServer::start();
    // The screen drives, so it is its memory and its keys that are at stake.
    let mut tui = open(&env, &server);
    for (how, words) in [
        ("line", "16.8 MB"),
        ("comment", "16.8 MB"),
        ("body", "16.8 MB"),
        ("other", "text/html"),
        ("packed", "gzip"),
        ("packed stream", "gzip"),
    ] {
        let argument = format!("how={how}");
        let arguments = ["-s", &server.url(), "call", "work", &argument];
        let running = Running::start(&mut program(env.path(), &arguments));
        // While it comes.
        for key in ["4", "?", "\u{1b}", "1"] {
            let before = tui.text();
            tui.press(key);
            tui.wait_until("an answer to a key", |screen| screen.contents() != before);
        }
        let ran = running.end();
        assert_ne!(ran.code, Some(0), "{how}: {ran:#?}");
        assert!(ran.err.contains(words), "{how}: {}", ran.err);
    }
    let peak = peak_kb(tui.pid().as_raw_nonzero().get().cast_unsigned());
    println!("the most memory: {peak} kB");
    assert!(peak < CEILING_KB, "{peak} kB");
    tui.press("\u{3}\u{3}");
    assert_eq!(tui.end().0, 0);
}

#[test]
fn limits_answers_to_a_flood_of_server_requests() {
    let env = TestEnv::new();
    let server = FloodServer::start();
    let (url, how) = (server.url(), "how=requests");
    let arguments = ["-s", &url, "call", "work", how, "--on-input", "decline"];
    let ran = run(env.path(), &arguments);
    assert_eq!(ran.out, "the end\n", "{ran:#?}");
    let answers = server.heard("answer");
    println!("{answers} answers to {} requests", 2 * FLOOD);
    assert!(answers < 1000, "{answers}");
    let listed = run(env.path(), &["ls", "--all", "--json"]).document();
    let questions = listed[0]["questions"].as_array().unwrap().len();
    assert!(questions <= 288, "{questions}");
    let id = listed[0]["id"].as_str().unwrap();
    let shown = run(env.path(), &["show", id]);
    assert!(shown.out.contains("not recorded: "), "{shown:?}");
    let logs = run(env.path(), &["logs", id]);
    assert!(logs.out.lines().count() < 100, "{}", logs.out);
}

#[test]
fn nonsense_for_numbers_and_ids_is_passed_over_and_counted() {
    let env = TestEnv::new();
    let server = FloodServer::start();
    let ran = call(&env, &server, "shapes");
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "the end\n"),
        "{ran:#?}"
    );
    let listed = run(env.path(), &["ls", "--all", "--json"]).document();
    let id = listed[0]["id"].as_str().unwrap();
    let events = run(env.path(), &["logs", id, "--json"]).events();
    let of = |kind: &str| {
        let is_it = |event: &&Value| event["event"] == kind;
        events.iter().filter(is_it).cloned().collect::<Vec<_>>()
    };
    let steps: Vec<f64> = of("progress")
        .iter()
        .map(|step| step["value"].as_f64().unwrap())
        .collect();
    // A count that goes down is recorded: the stream was not resumed.
    assert_eq!(steps, [1.0, 2.5, 1.0, 40.0, 30.0, 50.0, 70.0]);
    // A total below what is done, or below nothing, is none.
    let totals: Vec<bool> = of("progress")
        .iter()
        .map(|step| step["total"].is_null())
        .collect();
    assert_eq!(totals, [false, false, false, false, false, true, true]);
    assert_eq!(of("settled").len(), 1);
    let shown = run(env.path(), &["show", id]).out;
    assert!(shown.contains("messages (unreadable"), "{shown}");
}

#[test]
fn stops_at_circular_pages_and_reports_it() {
    let env = TestEnv::new();
    let server = FloodServer::start();
    let ran = run(env.path(), &["-s", &server.url(), "tools"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let pages = server.heard("tools/list");
    println!("{pages} pages");
    assert!(pages < 300, "{pages}");
    assert!(
        ran.out.lines().count() <= 5_000,
        "{}",
        ran.out.lines().count()
    );
    assert!(
        ran.err.contains("more tools") || ran.err.contains("further tools"),
        "{}",
        ran.err
    );
}

#[test]
fn huge_headers_and_deep_json_end_with_an_error() {
    let env = TestEnv::new();
    let server = FloodServer::start();
    for heads in ["heads", "many heads"] {
        let ran = call(&env, &server, heads);
        assert!(!matches!(ran.code, Some(0 | 70) | None), "{ran:#?}");
        println!("{}", ran.err);
    }
    let ran = call(&env, &server, "deep");
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "the end\n"),
        "{ran:#?}"
    );
    let listed = run(env.path(), &["ls", "--all", "--json"]).document();
    let deep = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|task| task["status"] == "completed");
    let id = deep.unwrap()["id"].as_str().unwrap().to_owned();
    for arguments in [["result", &id, "--json"], ["show", &id, "--json"]] {
        let ran = run(env.path(), &arguments);
        assert_eq!(ran.code, Some(0));
        ran.document();
    }
    let mut tui = open(&env, &server);
    tui.wait_for_line(&["work", "completed"]);
    for _ in 0..2 {
        tui.press("]");
    }
    tui.wait_for("[Result]");
    tui.press("\u{3}\u{3}");
    assert_eq!(tui.end().0, 0);
}
