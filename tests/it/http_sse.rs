//! HTTP+SSE of 2024-11-05 as the last resort: the real binary against a server written by hand.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::support::pty::TestEnv;
use crate::support::{
    program::{Running, program, run},
    proxy::FaultProxy,
    server,
};
use axum::{
    Router,
    body::Body,
    extract::{Query, State},
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt as _, stream};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

const WHY: &str = "this server uses HTTP+SSE (2024-11-05), which can't be resumed";

/// A server of the old transport.
#[derive(Clone)]
struct LegacyServer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// What the stream names; its own path when empty.
    endpoint: Mutex<String>,
    /// What a POST to the URL itself is refused with; 405 when empty.
    refusal: Mutex<Option<(u16, Value)>>,
    streams: Mutex<BTreeMap<usize, mpsc::Sender<String>>>,
    /// Every request: method, address, the headers that this transport does not have.
    seen: Mutex<Vec<(Method, String, bool)>>,
    calls: AtomicUsize,
    /// The call that asks.
    asker: Mutex<Value>,
    /// Lets a call that works end.
    release: Notify,
    /// The revision of the server with one endpoint that replaced it.
    renewed: Mutex<Option<&'static str>>,
}

impl LegacyServer {
    fn serve() -> (Self, SocketAddr) {
        let old = Self {
            shared: Arc::default(),
        };
        let router = Router::new().fallback(serve).with_state(old.clone());
        (old, server::serve(router))
    }

    fn seen(&self) -> Vec<String> {
        let seen = self.shared.seen.lock().unwrap();
        let path = |uri: &String| uri.split('?').next().unwrap().to_owned();
        seen.iter()
            .map(|(method, uri, _)| format!("{method} {}", path(uri)))
            .collect()
    }

    fn calls(&self) -> usize {
        self.shared.calls.load(Ordering::SeqCst)
    }
}

async fn serve(
    State(old): State<LegacyServer>,
    method: Method,
    uri: Uri,
    Query(query): Query<BTreeMap<String, usize>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let shared = &old.shared;
    let is_foreign =
        headers.contains_key("mcp-protocol-version") || headers.contains_key("mcp-session-id");
    let seen = (method.clone(), uri.to_string(), is_foreign);
    shared.seen.lock().unwrap().push(seen);
    if let Some(version) = *shared.renewed.lock().unwrap() {
        return renewed(&method, &body, version);
    }
    match (method.as_str(), uri.path()) {
        ("GET", "/sse") => {
            let (send, receive) = mpsc::channel(64);
            let mut streams = shared.streams.lock().unwrap();
            let number = streams.len() + 1;
            streams.insert(number, send);
            let endpoint = match shared.endpoint.lock().unwrap().as_str() {
                "" => format!("/messages?session={number}"),
                other => other.to_owned(),
            };
            let first = stream::iter([format!("event: endpoint\r\ndata: {endpoint}\r\n\r\n")]);
            let rest = stream::unfold(receive, |mut receive| async {
                receive.recv().await.map(|event| (event, receive))
            });
            let body = Body::from_stream(first.chain(rest).map(Ok::<_, Infallible>));
            ([("content-type", "text/event-stream")], body).into_response()
        }
        ("POST", "/messages") => {
            let streams = shared.streams.lock().unwrap();
            let Some(stream) = streams.get(&query["session"]).cloned() else {
                return StatusCode::NOT_FOUND.into_response();
            };
            let message = serde_json::from_str(&body).unwrap();
            tokio::spawn(answer(old.clone(), stream, message));
            (StatusCode::ACCEPTED, "Accepted").into_response()
        }
        ("POST", "/sse") => match &*shared.refusal.lock().unwrap() {
            Some((status, body)) => {
                (StatusCode::from_u16(*status).unwrap(), body.to_string()).into_response()
            }
            None => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        },
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn answer(old: LegacyServer, stream: mpsc::Sender<String>, message: Value) {
    let tell = async |message: Value| {
        // An id means nothing here; it must not be taken for a way back.
        let event = format!("id: 7\r\nevent: message\r\ndata: {message}\r\n\r\n");
        // A disconnected client does not receive it.
        let _ = stream.send(event).await;
    };
    let result = async |result: Value| {
        tell(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).await;
    };
    let done = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let params = &message["params"];
    match message["method"].as_str() {
        Some("initialize") => {
            let info = json!({"name": "old", "version": "1"});
            result(
                json!({"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": info}),
            )
            .await;
        }
        Some("ping") => result(json!({})).await,
        Some("tools/list") => result(json!({"tools": tools()})).await,
        Some("tools/call") => {
            old.shared.calls.fetch_add(1, Ordering::SeqCst);
            tell(
                json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": params["_meta"]["progressToken"], "progress": 1, "total": 2}}),
            )
            .await;
            tell(json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "at work"}}))
            .await;
            if params["name"] == "ask" {
                *old.shared.asker.lock().unwrap() = message["id"].clone();
                let schema = json!({"type": "object", "properties": {"env": {"type": "string"}}});
                return tell(
                    json!({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create",
                    "params": {"message": "Where to?", "requestedSchema": schema}}),
                )
                .await;
            }
            if params["name"] == "work" {
                old.shared.release.notified().await;
            }
            result(done("all of it")).await;
        }
        Some("notifications/cancelled") => {
            let error = json!({"code": 0, "message": "Request cancelled"});
            tell(json!({"jsonrpc": "2.0", "id": params["requestId"], "error": error})).await;
        }
        Some(_) => {}
        // The answer to the one question, which belongs to the newest call.
        None => {
            let text = message["result"]["content"]["env"].as_str().unwrap_or("-");
            let id = old.shared.asker.lock().unwrap().clone();
            tell(json!({"jsonrpc": "2.0", "id": id, "result": done(text)})).await;
        }
    }
}

fn tools() -> Value {
    let tool =
        |name: &str| json!({"name": name, "inputSchema": {"type": "object", "properties": {}}});
    json!([tool("work"), tool("ask"), tool("quick")])
}

/// A server with one endpoint, without sessions.
fn renewed(method: &Method, body: &str, version: &str) -> Response {
    if method != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let message: Value = serde_json::from_str(body).unwrap();
    let result = match message["method"].as_str().unwrap() {
        "initialize" => {
            json!({"protocolVersion": version,
            "capabilities": {"tools": {}}, "serverInfo": {"name": "new", "version": "2"}})
        }
        "tools/list" => json!({"tools": tools()}),
        "tools/call" => json!({"content": [{"type": "text", "text": "by POST"}]}),
        _ if message["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => return StatusCode::BAD_REQUEST.into_response(),
    };
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
    ([("content-type", "application/json")], answer.to_string()).into_response()
}

/// A state directory, the server, and a proxy before it.
struct Bench {
    env: TestEnv,
    old: LegacyServer,
    proxy: FaultProxy,
    url: String,
}

impl Bench {
    fn new() -> Self {
        let (old, addr) = LegacyServer::serve();
        let proxy = FaultProxy::start(addr);
        let url = format!("http://{}/sse", proxy.addr());
        Self {
            env: TestEnv::new(),
            old,
            proxy,
            url,
        }
    }

    fn run(&self, arguments: &[&str]) -> crate::support::program::Ran {
        let arguments = [&["-s", &self.url], arguments].concat();
        run(self.env.path(), &arguments)
    }

    /// Starts a call of `tool` and follows it until its first step.
    fn begin(&self, tool: &str) -> (Running, String) {
        let arguments = ["-s", &self.url, "call", tool, "--json"];
        let mut client = Running::start(&mut program(self.env.path(), &arguments));
        let started = client.prints(|event| event["event"] == "started");
        assert_eq!(started["era"], "2024-11-05");
        client.prints(|event| event["event"] == "progress");
        (client, started["id"].as_str().unwrap().to_owned())
    }

    fn show(&self, id: &str) -> Value {
        run(self.env.path(), &["show", id, "--json"]).document()
    }

    /// It is unknown, says why, and ran once.
    fn assert_unknown(&self, id: &str) {
        let shown = self.show(id);
        assert_eq!(shown["status"], "unknown", "{shown:#}");
        let reason = shown["reason"].as_str().unwrap();
        assert!(reason.contains("without event ids"), "{reason}");
        assert_eq!((self.old.calls(), &shown["attempts"]), (1, &json!(1)));
    }
}

#[test]
fn falls_back_to_legacy_sse_and_gives_the_reason() {
    let bench = Bench::new();
    let (client, id) = bench.begin("work");
    assert_eq!(
        bench.old.seen()[..4],
        ["POST /sse", "POST /sse", "GET /sse", "POST /messages"],
        "discover, initialize, the stream, and initialize on it"
    );
    let shown = bench.show(&id);
    let told = (&shown["if_cut"], &shown["resumability"]);
    assert_eq!(told, (&json!("lost"), &json!("none")), "{shown:#}");
    let text = run(bench.env.path(), &["show", &id]).out;
    let why = "the server has only the old SSE transport";
    for words in [WHY, why, "2024-11-05"] {
        assert!(text.contains(words), "{text}");
    }
    let mut screen = bench.env.open(&["attach", &id], (160, 36));
    screen.wait_for("[Now]");
    screen.press("]]]]]");
    screen.wait_for_line(&["if cut", "LOST", WHY]);
    screen.wait_for_line(&["revision", "2024-11-05"]);
    screen.wait_for_line(&[why]);
    screen.wait_for_line(&["event ids", "no"]);
    drop(screen);

    bench.old.shared.release.notify_one();
    let ran = client.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.out.contains("at work"), "its log is its own: {ran:#?}");
    assert!(ran.out.contains("all of it"), "{ran:#?}");
    let seen = bench.old.shared.seen.lock().unwrap().clone();
    let is_own = |uri: &String| uri.starts_with("/messages") || uri == "/sse";
    assert!(seen.iter().all(|(_, uri, _)| is_own(uri)), "{seen:#?}");
    let has_foreign = |(_, uri, is_foreign): &&(Method, String, bool)| {
        uri.starts_with("/messages") && *is_foreign
    };
    assert_eq!(seen.iter().find(has_foreign), None, "neither existed then");
}

#[test]
fn a_cut_stream_leaves_its_call_unknown() {
    let bench = Bench::new();
    let (client, id) = bench.begin("work");
    bench.proxy.cut();
    let ran = client.end();
    assert_eq!(ran.code, Some(5), "{ran:#?}");
    bench.assert_unknown(&id);
    bench.proxy.heal();
    let before = bench.old.seen().len();
    let ran = bench.run(&["call", "quick"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "all of it\n"));
    assert_eq!(bench.old.seen()[before], "GET /sse", "the era was believed");
}

#[test]
fn a_call_whose_client_was_killed_is_unknown() {
    let bench = Bench::new();
    let (client, id) = bench.begin("work");
    client.signal(Signal::KILL);
    client.end();
    let ran = run(bench.env.path(), &["watch", &id]);
    assert_eq!(ran.code, Some(5), "{ran:#?}");
    bench.assert_unknown(&id);
}

#[test]
fn refuses_detach_before_sending_anything() {
    let bench = Bench::new();
    let ran = bench.run(&["call", "quick", "--detach"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:#?}");
    assert!(ran.err.contains(WHY), "{ran:#?}");
    assert_eq!(bench.old.calls(), 0);
}

#[test]
fn a_cancel_is_answered_on_the_stream() {
    let bench = Bench::new();
    let (client, id) = bench.begin("work");
    run(bench.env.path(), &["cancel", &id]);
    assert_eq!(client.end().code, Some(8));
    assert_eq!(bench.show(&id)["status"], "cancelled");
}

#[test]
fn a_call_waits_for_an_answer_from_another_process() {
    let bench = Bench::new();
    let (mut client, id) = bench.begin("ask");
    let asked = client.prints(|event| event["event"] == "input_required");
    assert_eq!(asked["request"]["message"], "Where to?");
    client.says("staying until it is answered, because quitting would lose");
    let answered = run(bench.env.path(), &["answer", &id, "--accept", "env=prod"]);
    assert_eq!(answered.code, Some(0), "{answered:#?}");
    let ran = client.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.out.contains("prod"), "{ran:#?}");
}

#[test]
fn nothing_is_sent_to_an_endpoint_of_another_origin() {
    let (_, elsewhere) = LegacyServer::serve();
    let watched = FaultProxy::start(elsewhere);
    for (endpoint, words) in [
        (
            format!("http://{}/messages?session=1", watched.addr()),
            "which is another origin",
        ),
        (
            format!("//{}/messages", watched.addr()),
            "which is another origin",
        ),
        (
            "https://127.0.0.1/messages".to_owned(),
            "which is another origin",
        ),
        ("file:///messages".to_owned(), "which is another origin"),
        ("http://[broken".to_owned(), "an invalid URL"),
    ] {
        let bench = Bench::new();
        *bench.old.shared.endpoint.lock().unwrap() = endpoint.clone();
        let ran = bench.run(&["-H", "Authorization: Bearer canary", "call", "quick"]);
        assert_eq!(ran.code, Some(2), "{endpoint}: {ran:#?}");
        assert!(ran.err.contains(words), "{endpoint}: {ran:#?}");
        assert!(ran.err.contains("nothing is sent there"), "{ran:#?}");
        assert_eq!(bench.old.calls(), 0);
    }
    // An address that only looks foreign is not.
    let bench = Bench::new();
    let own = format!("http://{}/messages?session=1#part", bench.proxy.addr());
    *bench.old.shared.endpoint.lock().unwrap() = own;
    assert_eq!(bench.run(&["call", "quick"]).code, Some(0));
    assert_eq!(watched.connections(), 0);
}

#[test]
fn negotiates_again_after_a_server_was_replaced() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["call", "quick"]).out, "all of it\n");
    *bench.old.shared.renewed.lock().unwrap() = Some("2025-11-25");
    let ran = bench.run(&["call", "quick", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let started = &ran.events()[0];
    assert_eq!(started["era"], "2025-11-25", "{ran:#?}");
    assert!(ran.out.contains("by POST"), "{ran:#?}");
}

#[test]
fn a_server_with_one_endpoint_may_name_the_revision_before_that() {
    let bench = Bench::new();
    *bench.old.shared.renewed.lock().unwrap() = Some("2024-11-05");
    let ran = bench.run(&["call", "quick", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(ran.events()[0]["era"], "2025-03-26", "{ran:#?}");
    assert!(ran.out.contains("by POST"), "{ran:#?}");
}

#[test]
fn only_the_refusals_of_the_table_lead_to_the_stream() {
    let error =
        |code: i64| json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "no"}});
    for (status, body, leads) in [
        (400, json!("Bad Request"), true),
        (400, error(-32600), true),
        (404, json!("Not Found"), true),
        (405, Value::Null, true),
        (400, error(-32020), false),
        (401, Value::Null, false),
        (403, Value::Null, false),
        (406, Value::Null, false),
        (415, Value::Null, false),
        (503, Value::Null, false),
    ] {
        let bench = Bench::new();
        *bench.old.shared.refusal.lock().unwrap() = Some((status, body.clone()));
        let ran = bench.run(&["call", "quick"]);
        let has_asked = bench.old.seen().contains(&"GET /sse".to_owned());
        assert_eq!(has_asked, leads, "{status} {body}: {ran:#?}");
        assert_eq!(ran.code == Some(0), leads, "{status} {body}: {ran:#?}");
    }
}
