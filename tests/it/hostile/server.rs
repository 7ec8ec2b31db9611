//! A server that puts everything which steers a terminal into every text that it can send.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::support::server;

/// What steers, hides, reorders or widens.
const ATTACKS: [&str; 24] = [
    "\u{1b}[2J\u{1b}[1;1HSPOOF",
    "\u{1b}]0;SPOOF\u{7}",
    "\u{1b}]2;SPOOF\u{1b}\\",
    "\u{1b}]8;;http://evil.example\u{1b}\\SPOOF\u{1b}]8;;\u{1b}\\",
    "\u{1b}]9;SPOOF\u{7}",
    "\u{1b}]52;c;U1BPT0Y=\u{7}",
    "\u{1b}]777;notify;SPOOF;SPOOF\u{7}",
    "\u{1b}P+q544e\u{1b}\\",
    "\u{1b}_SPOOF\u{1b}\\\u{1b}^SPOOF\u{1b}\\\u{1b}XSPOOF\u{1b}\\",
    "\u{1b}c\u{1b}#8\u{1b}(0",
    "\u{9b}2J\u{9b}31m",
    "\u{9d}0;SPOOF\u{9c}\u{90}SPOOF\u{9c}\u{9f}SPOOF\u{9c}",
    "\u{202e}SPOOF\u{202c}\u{2066}SPOOF\u{2069}\u{200f}\u{61c}",
    "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}\u{34f}",
    "\u{e0053}\u{e0050}\u{e004f}\u{e007f}",
    "\u{1f469}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466}\u{1f44d}\u{1f3fd}",
    "\rSPOOF\t\tSPOOF",
    "\nSPOOF\u{b}SPOOF\u{c}SPOOF\u{85}SPOOF\u{2028}SPOOF\u{2029}SPOOF",
    "\u{0}\u{1}\u{2}\u{3}\u{4}\u{5}\u{6}\u{8}\u{e}\u{f}\u{10}\u{11}\u{12}\u{13}\u{14}\u{15}\u{16}\u{17}\u{18}\u{19}\u{1a}\u{1c}\u{1d}\u{1e}\u{1f}\u{7f}",
    "\u{80}\u{81}\u{84}\u{86}\u{87}\u{88}\u{8d}\u{8e}\u{8f}\u{91}\u{92}\u{96}\u{97}\u{98}\u{99}\u{9a}\u{9e}",
    "\u{65e5}\u{672c}\u{8a9e}\u{ff33}\u{ff30}\u{ff2f}\u{ff2f}\u{ff26}",
    "x\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}\u{309}\u{30a}\u{30b}\u{30c}",
    "\u{fe00}\u{fe01}\u{e0100}\u{e01ef}\u{180e}\u{3164}",
    "\u{26a0}\u{fe0f}\u{fe0f}\u{2764}\u{fe0f}",
];

/// Stands for bytes that are no UTF-8, put in once the JSON is written.
const RAW: &str = "@RAW@";
const RAW_BYTES: &[u8] = b"\x9b2J\xff\xfe\xc3(\xe2\x82\xf0\x9f\x98";

/// A text that begins with `tag`, which tells where it came from, and holds every attack, in an order of its own.
pub(crate) fn hostile(tag: &str) -> String {
    let first = tag.bytes().map(usize::from).sum::<usize>() % ATTACKS.len();
    let (late, early) = ATTACKS.split_at(first);
    let mut text = tag.to_owned();
    for attack in early.iter().chain(late) {
        text.push_str(attack);
    }
    text.push_str(RAW);
    text.push_str(tag);
    text
}

/// One letter under ten thousand marks.
fn tower() -> String {
    format!("e{}", "\u{301}".repeat(10_000))
}

/// The server, as long as the test lives.
pub(crate) struct HostileServer {
    pub(crate) addr: SocketAddr,
}

#[derive(Default)]
struct Heard {
    /// The calls in the order in which they came: their id and how they are meant to end.
    calls: Mutex<Vec<(Value, String)>>,
}

impl HostileServer {
    pub(crate) fn start() -> Self {
        let heard = Arc::new(Heard::default());
        let router = Router::new()
            .route("/mcp", post(posted).get(resumed))
            .route("/kept", post(posted_to_kept))
            .with_state(heard);
        let addr = server::serve(router);
        Self { addr }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }
}

fn tools() -> Value {
    let name = hostile("TOOLNAME");
    json!({"tools": [
        {"name": "chat", "title": hostile("TOOLTITLE"), "description": hostile("TOOLDESC"),
            "annotations": {"title": hostile("ANNOTATION")},
            "inputSchema": {"type": "object", "properties": {
                "mode": {"type": "string", "description": hostile("ARGABOUT"), "default": "stay"},
                "kind": {"type": "string", "oneOf": [
                    {"const": hostile("CONST"), "title": hostile("CHOICE")}, {"const": "b", "title": "b"}]},
                hostile("ARGNAME"): {"type": "string", "default": hostile("DEFAULT")},
                "many": {"type": "array", "items": {"enum": [hostile("ENUM"), "b"]}}}}},
        {"name": name, "description": hostile("SECOND"), "inputSchema": {"type": "object"}},
        {"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}}]})
}

fn question() -> Value {
    json!({"message": format!("{}{}", hostile("QUESTION"), tower()), "requestedSchema": {
        "type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "title": hostile("FIELDTITLE"), "description": hostile("FIELDABOUT"),
                "default": hostile("FIELDDEFAULT")},
            "b": {"type": "string", "enum": ["x", "y"], "enumNames": [hostile("FIELDENUM"), "y"]},
            hostile("FIELDNAME"): {"type": "object"}}}})
}

fn result() -> Value {
    json!({"content": [
            {"type": "text", "text": format!("{}\n{}\n{}", hostile("RESULT"), tower(), hostile("RESULTTWO"))},
            {"type": "image", "mimeType": hostile("MIME"), "data": "AAAA"},
            {"type": "resource_link", "uri": hostile("LINK"), "name": hostile("LINKNAME")},
            {"type": hostile("KIND")}],
        "structuredContent": {hostile("STRUCTURED"): hostile("STRUCTUREDVALUE")}})
}

fn task() -> Value {
    json!({"taskId": hostile("TASKID"), "status": "working", "statusMessage": hostile("STATUSMSG"),
        "createdAt": hostile("CREATED"), "lastUpdatedAt": hostile("UPDATED"), "ttl": 3_600_000, "pollInterval": 500})
}

/// The same with a tool `PASSED` that keeps checkpoints, and a list with one of them.
async fn posted_to_kept(heard: State<Arc<Heard>>, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let id = &message["id"];
    // No bytes are put in: the file has the same name in UTF-8.
    let answer = |result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        ([("content-type", "application/json")], body).into_response()
    };
    let schema = json!({"type": "object", "properties": {"client_id": {"type": "string"}}});
    let name = hostile("PASSED").replace(['\0', '\u{7f}'], "");
    match message["method"].as_str() {
        Some("tools/list") => answer(json!({"tools": [
            {"name": name, "inputSchema": schema},
            {"name": "list_session_tasks", "inputSchema": schema}]})),
        Some("tools/call") => {
            let task =
                json!({"task_id": name, "tool": name, "status": "interrupted", "progress": 1});
            let list = json!({"tasks": [task]}).to_string();
            answer(json!({"content": [{"type": "text", "text": list}]}))
        }
        _ => posted(heard, body).await,
    }
}

async fn posted(State(heard): State<Arc<Heard>>, body: String) -> Response {
    let message: Value = serde_json::from_str(&body).unwrap();
    let id = &message["id"];
    let answer = |result: Value| json_body(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    match message["method"].as_str() {
        Some("initialize") => {
            let mut response = answer(json!({
                "protocolVersion": "2025-11-25", "instructions": hostile("INSTRUCTIONS"),
                "capabilities": {"tools": {}, "logging": {},
                    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}},
                "serverInfo": {"name": hostile("SERVERNAME"), "version": hostile("VERSION"),
                    "title": hostile("SERVERTITLE")}}));
            let session = "s1".parse().unwrap();
            response.headers_mut().insert("mcp-session-id", session);
            response
        }
        Some("tools/list") => answer(tools()),
        Some("tasks/get") => answer(task()),
        Some("tasks/list") => {
            let mut other = task();
            other["taskId"] = json!(hostile("OTHERTASK"));
            answer(json!({"tasks": [other]}))
        }
        Some("tasks/result") => events(&[], true),
        Some("tools/call") if message["params"]["name"] == "slow" => {
            answer(json!({"task": task()}))
        }
        Some("tools/call") => {
            let mode = message["params"]["arguments"]["mode"].clone();
            let mode = mode.as_str().unwrap_or("stay").to_owned();
            let mut calls = heard.calls.lock().unwrap();
            calls.push((id.clone(), mode.clone()));
            let call = calls.len();
            drop(calls);
            called(&message, &mode, call)
        }
        _ if id.is_null() || message["method"].is_null() => StatusCode::ACCEPTED.into_response(),
        _ => answer(json!({})),
    }
}

/// The stream of a call.
fn called(message: &Value, mode: &str, call: usize) -> Response {
    let token = &message["params"]["_meta"]["progressToken"];
    let notice =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    let log = |level: &str, data: Value| {
        notice(
            "notifications/message",
            json!({"level": level, "logger": hostile("LOGGER"), "data": data}),
        )
    };
    let mut messages = vec![
        log("info", json!(hostile("LOGDATA"))),
        log(
            &hostile("LEVEL"),
            json!({hostile("LOGKEY"): [hostile("LOGVALUE")]}),
        ),
        log("error", json!(tower())),
        notice(
            "notifications/progress",
            json!({"progressToken": token, "progress": 3, "total": 9, "message": hostile("PROGRESS")}),
        ),
        notice(&hostile("notifications/UNKNOWN"), json!({})),
    ];
    let answer = |key: &str, what: Value| json!({"jsonrpc": "2.0", "id": message["id"], key: what});
    let ask = |params: Value| {
        json!({"jsonrpc": "2.0", "id": hostile(&format!("ASKID{call}")),
        "method": "elicitation/create", "params": params})
    };
    let mut stays = false;
    match mode {
        "end" => messages.push(answer("result", result())),
        "fail" => messages.push(answer(
            "result",
            json!({"isError": true, "content": [{"type": "text", "text": hostile("TOOLFAIL")}]}),
        )),
        "error" => messages.push(answer(
            "error",
            json!({"code": -32000, "message": hostile("RPCERROR"), "data": hostile("ERRORDATA")}),
        )),
        "refuse" => {
            // With this byte in it, it would count as a picture or the like.
            let refusal = raw(&hostile("REFUSAL").replace('\0', ""));
            return (StatusCode::UNPROCESSABLE_ENTITY, refusal).into_response();
        }
        "ask" => {
            messages.push(ask(question()));
            stays = true;
        }
        "url" => {
            messages.push(ask(json!({"mode": "url", "message": hostile("VISIT"),
                "url": format!("http://evil.example/{}", hostile("URLPATH")), "elicitationId": "e"})));
            stays = true;
        }
        _ => stays = true,
    }
    let numbered = messages.iter().zip(1..).map(|(message, number)| {
        // An id goes back in a header, so the worst that comes through is what a header takes.
        let id = format!("id: c{call}/{number}\u{202e}\u{9b}\n");
        [id.into_bytes(), event(message)].concat()
    });
    events(&numbered.collect::<Vec<_>>(), stays)
}

async fn resumed(headers: HeaderMap) -> Response {
    if headers.get("last-event-id").is_none() {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "warning", "logger": hostile("LOGGER"), "data": hostile("RESUMED")}});
    let event = [b"id: later/1\n".to_vec(), event(&log)].concat();
    events(&[event], true)
}

fn event(message: &Value) -> Vec<u8> {
    [
        &b"event: message\ndata: "[..],
        &raw(&message.to_string()),
        b"\n\n",
    ]
    .concat()
}

/// The text with the bytes that no JSON writer writes.
fn raw(json: &str) -> Vec<u8> {
    let parts = json.split(RAW).map(str::as_bytes);
    parts.collect::<Vec<_>>().join(RAW_BYTES)
}

fn json_body(message: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, raw(&message.to_string())).into_response()
}

/// A stream in chunks of sizes that cut characters and lines in two; it then stays open, if wanted.
fn events(events: &[Vec<u8>], stays: bool) -> Response {
    let whole = events.concat();
    let mut chunks: Vec<Result<Bytes, std::convert::Infallible>> = Vec::new();
    let mut rest = &whole[..];
    for size in [1, 7, 1021, 3, 4093, 2].into_iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, later) = rest.split_at(size.min(rest.len()));
        chunks.push(Ok(Bytes::copy_from_slice(chunk)));
        rest = later;
    }
    let chunks = stream::iter(chunks);
    let body = if stays {
        Body::from_stream(chunks.chain(stream::pending()))
    } else {
        Body::from_stream(chunks)
    };
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}
