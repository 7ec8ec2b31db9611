//! The demo server over real HTTP, read by a client of its own: raw requests and a few lines of SSE.

#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    future::Future,
    io::Write as _,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    time::Duration,
};

use crate::support::{alone::ran_alone, demo_server};
use longhaul::demo::{self, DemoError, DemoOptions, Fault};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Long enough for the slowest machine; nothing waits for it in a good run.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a test with a deadline, on a runtime of its own.
fn within_deadline(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, test)
            .await
            .expect("the test hangs");
    });
}

fn options(dir: &Path) -> DemoOptions {
    DemoOptions {
        dir: dir.to_path_buf(),
        port: None,
        cross_stream_replay: false,
        idle_exit: None,
    }
}

async fn start() -> (TempDir, demo_server::DemoServer) {
    let dir = tempfile::tempdir().unwrap();
    let server = demo_server::serve(options(dir.path())).await.unwrap();
    (dir, server)
}

#[derive(Debug, Clone, PartialEq)]
struct Event {
    id: String,
    message: Option<Value>,
}

impl Event {
    fn number(&self) -> u64 {
        self.id.rsplit_once('-').unwrap().1.parse().unwrap()
    }

    fn stream(&self) -> &str {
        self.id.rsplit_once('-').unwrap().0
    }

    fn method(&self) -> &str {
        self.message
            .as_ref()
            .and_then(|m| m["method"].as_str())
            .unwrap_or_default()
    }

    /// The step of a progress notification.
    fn progress(&self) -> Option<u64> {
        let message = self.message.as_ref()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "steps of a test are small whole numbers"
        )]
        message["params"]["progress"].as_f64().map(|n| n as u64)
    }

    fn message(&self) -> &str {
        let Some(message) = &self.message else {
            return "";
        };
        let params = &message["params"];
        params["message"]
            .as_str()
            .or(params["data"].as_str())
            .unwrap_or_default()
    }

    fn is_response(&self) -> bool {
        self.message.as_ref().is_some_and(|m| m.get("id").is_some())
    }

    /// The JSON text of a tool's answer.
    fn answer(&self) -> Value {
        let text = &self.message.as_ref().unwrap()["result"]["content"][0]["text"];
        serde_json::from_str(text.as_str().unwrap()).unwrap()
    }
}

/// One SSE response, event by event.
struct Sse {
    response: Response,
    rest: String,
}

impl Sse {
    /// The next event; `None` at an orderly end, an error if the connection broke.
    async fn next(&mut self) -> Result<Option<Event>, reqwest::Error> {
        loop {
            while let Some((block, rest)) = self.rest.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.rest = rest;
                let field = |name: &str| {
                    block
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::trim_start)
                };
                // The answer to initialize has data and no id; a comment has neither.
                let (id, data) = (field("id:"), field("data:"));
                if id.is_some() || data.is_some() {
                    return Ok(Some(Event {
                        id: id.unwrap_or_default().to_owned(),
                        message: serde_json::from_str(data.unwrap_or_default()).ok(),
                    }));
                }
            }
            match self.response.chunk().await? {
                Some(chunk) => self.rest.push_str(std::str::from_utf8(&chunk).unwrap()),
                None => return Ok(None),
            }
        }
    }

    /// Everything up to the orderly end.
    async fn all(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await.unwrap() {
            events.push(event);
        }
        events
    }

    /// Events up to and including the first that fits.
    async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self
                .next()
                .await
                .unwrap()
                .expect("the stream ended too early");
            let is_last = fits(&event);
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    /// Events up to the break of the connection.
    async fn until_broken(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            match self.next().await {
                Ok(Some(event)) => events.push(event),
                Ok(None) => panic!("an orderly end instead of a break after {events:?}"),
                Err(_) => return events,
            }
        }
    }
}

struct Client {
    http: reqwest::Client,
    url: String,
    session: String,
    version: &'static str,
}

impl Client {
    /// Calls `send_burst` twice, one call after the other; returns the events of each.
    async fn two_bursts(&self, count: u64) -> [Vec<Event>; 2] {
        let burst = async |id| {
            let call = self.call(id, "send_burst", json!({"count": count})).await;
            call.all().await
        };
        [burst(1).await, burst(2).await]
    }

    async fn open(server: &demo_server::DemoServer) -> Self {
        Self::open_as(server, "2025-11-25").await
    }

    async fn open_as(server: &demo_server::DemoServer, version: &'static str) -> Self {
        Self::open_at(&server.url(), version).await
    }

    async fn open_at(url: &str, version: &'static str) -> Self {
        Self::open_able_to(url, version, json!({})).await
    }

    /// A client that can be asked.
    async fn open_askable(server: &demo_server::DemoServer) -> Self {
        let asked = json!({"elicitation": {"form": {}, "url": {}}});
        Self::open_able_to(&server.url(), "2025-11-25", asked).await
    }

    async fn open_able_to(url: &str, version: &'static str, capabilities: Value) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .pool_max_idle_per_host(0)
            .build()
            .unwrap();
        let mut client = Self {
            http,
            url: url.to_owned(),
            session: String::new(),
            version,
        };
        let response = client
            .post(&json!({
                "jsonrpc": "2.0", "id": 0, "method": "initialize",
                "params": {"protocolVersion": version, "capabilities": capabilities,
                    "clientInfo": {"name": "test", "version": "0"}},
            }))
            .await;
        response.headers()["mcp-session-id"]
            .to_str()
            .unwrap()
            .clone_into(&mut client.session);
        let events = Sse {
            response,
            rest: String::new(),
        }
        .all()
        .await;
        let answer = events.last().unwrap().message.clone().unwrap();
        assert_eq!(answer["result"]["protocolVersion"], version);
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.post(&done).await.status(), StatusCode::ACCEPTED);
        client
    }

    async fn post(&self, message: &Value) -> Response {
        let mut request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(message.to_string());
        if !self.session.is_empty() {
            request = request
                .header("mcp-session-id", &self.session)
                .header("mcp-protocol-version", self.version);
        }
        request.send().await.unwrap()
    }

    /// Starts a call; its progress token is its request id.
    async fn call(&self, id: u64, tool: &str, arguments: Value) -> Sse {
        let response = self
            .post(&json!({
                "jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": {"name": tool, "arguments": arguments, "_meta": {"progressToken": id}},
            }))
            .await;
        assert_eq!(response.status(), StatusCode::OK);
        Sse {
            response,
            rest: String::new(),
        }
    }

    /// Calls a tool that answers at once.
    async fn ask(&self, id: u64, tool: &str, arguments: Value) -> Value {
        self.call(id, tool, arguments)
            .await
            .all()
            .await
            .last()
            .unwrap()
            .answer()
    }

    async fn get(&self, cursor: &str) -> Result<Response, reqwest::Error> {
        self.http
            .get(&self.url)
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &self.session)
            .header("mcp-protocol-version", self.version)
            .header("last-event-id", cursor)
            .send()
            .await
    }

    /// The response to a request.
    async fn response(&self, id: u64, method: &str, params: Value) -> Value {
        self.stream(id, method, params)
            .await
            .all()
            .await
            .pop()
            .unwrap()
            .message
            .unwrap()
    }

    /// The result of a request.
    async fn result(&self, id: u64, method: &str, params: Value) -> Value {
        let mut response = self.response(id, method, params).await;
        assert_eq!(response["id"], id, "{response}");
        response["result"].take()
    }

    /// The stream of a request.
    async fn stream(&self, id: u64, method: &str, params: Value) -> Sse {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.post(&message).await;
        assert_eq!(response.status(), StatusCode::OK);
        Sse {
            response,
            rest: String::new(),
        }
    }

    /// Makes a task of a call and returns its id.
    async fn begin(&self, id: u64, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments, "task": {"ttl": 60_000}});
        let made = self.result(id, "tools/call", params).await;
        made["task"]["taskId"].as_str().unwrap().to_owned()
    }

    async fn task(&self, id: u64, task: &str) -> Value {
        self.result(id, "tasks/get", json!({"taskId": task})).await
    }

    /// The task as soon as its status is another.
    async fn task_after(&self, task: &str, status: &str) -> Value {
        for id in 1000.. {
            let task = self.task(id, task).await;
            if task["status"] != status {
                return task;
            }
        }
        unreachable!("ids do not end")
    }

    /// Answers a question.
    async fn reply(&self, question: &Value, result: Value) {
        let message = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
        assert_eq!(self.post(&message).await.status(), StatusCode::ACCEPTED);
    }

    async fn resume(&self, cursor: &str) -> Sse {
        let response = self.get(cursor).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Sse {
            response,
            rest: String::new(),
        }
    }

    /// Resumes as soon as the port takes connections again.
    async fn resume_when_back(&self, cursor: &str) -> Sse {
        loop {
            if let Ok(response) = self.get(cursor).await {
                assert_eq!(response.status(), StatusCode::OK);
                return Sse {
                    response,
                    rest: String::new(),
                };
            }
            tokio::task::yield_now().await;
        }
    }

    async fn cancel(&self, id: u64) {
        let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "test"}});
        assert_eq!(self.post(&message).await.status(), StatusCode::ACCEPTED);
    }
}

/// A client of the modern era: no session, everything in each request.
struct Modern {
    http: reqwest::Client,
    url: String,
    /// What it declares with each request.
    capabilities: Value,
}

impl Modern {
    fn open(server: &demo_server::DemoServer) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .pool_max_idle_per_host(0)
            .build()
            .unwrap();
        Self {
            http,
            url: server.url(),
            capabilities: json!({
                "elicitation": {"form": {}, "url": {}},
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            }),
        }
    }

    fn able_to(server: &demo_server::DemoServer, capabilities: Value) -> Self {
        Self {
            capabilities,
            ..Self::open(server)
        }
    }

    /// The message and the headers of a request, in order.
    fn request(
        &self,
        id: u64,
        method: &str,
        mut params: Value,
    ) -> (Value, Vec<(&'static str, String)>) {
        let mut headers = vec![
            ("accept", "application/json, text/event-stream".to_owned()),
            ("content-type", "application/json".to_owned()),
            ("mcp-protocol-version", "2026-07-28".to_owned()),
            ("mcp-method", method.to_owned()),
        ];
        if let Some(name) = params["name"].as_str().or(params["taskId"].as_str()) {
            headers.push(("mcp-name", name.to_owned()));
        }
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "progressToken": id,
        });
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (message, headers)
    }

    async fn send(&self, message: &Value, headers: Vec<(&'static str, String)>) -> Response {
        let mut request = self.http.post(&self.url).body(message.to_string());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        request.send().await.unwrap()
    }

    async fn post(&self, id: u64, method: &str, params: Value) -> Response {
        let (message, headers) = self.request(id, method, params);
        self.send(&message, headers).await
    }

    /// The whole answer to a request, JSON or stream: its notifications, and last its response.
    async fn exchange(&self, id: u64, method: &str, params: Value) -> (StatusCode, Vec<Value>) {
        read_whole(self.post(id, method, params).await).await
    }

    /// The result of a request.
    async fn ask(&self, id: u64, method: &str, params: Value) -> Value {
        let (status, messages) = self.exchange(id, method, params).await;
        let response = messages.last().unwrap();
        assert_eq!(
            (status, &response["id"]),
            (StatusCode::OK, &json!(id)),
            "{response}"
        );
        response["result"].clone()
    }

    async fn call(&self, id: u64, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.ask(id, "tools/call", params).await
    }

    /// Makes a task and returns its id.
    async fn begin(&self, tool: &str, arguments: Value) -> String {
        let made = self.call(1, tool, arguments).await;
        assert_eq!(made["resultType"], "task", "{made}");
        made["taskId"].as_str().unwrap().to_owned()
    }

    async fn task(&self, id: &str) -> Value {
        self.ask(2, "tasks/get", json!({"taskId": id})).await
    }

    /// The task as soon as it fits.
    async fn task_when(&self, id: &str, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let task = self.task(id).await;
            if fits(&task) {
                return task;
            }
        }
    }
}

/// A whole answer, JSON or stream.
async fn read_whole(response: Response) -> (StatusCode, Vec<Value>) {
    let status = response.status();
    let kind = response.headers()["content-type"].to_str().unwrap();
    if kind.starts_with("application/json") {
        let text = response.text().await.unwrap();
        return (status, vec![serde_json::from_str(&text).unwrap()]);
    }
    let sse = Sse {
        response,
        rest: String::new(),
    };
    let events = sse.all().await;
    let messages = events.into_iter().filter_map(|event| event.message);
    (status, messages.collect())
}

/// The text of a tool's result.
fn said(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn steps(events: &[Event]) -> Vec<u64> {
    events.iter().filter_map(Event::progress).collect()
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(Event::number).collect()
}

fn processing(client_id: &str, total: u64, delay_ms: u64) -> Value {
    json!({"dataset_name": "eu", "total_records": total, "batch_size": 5,
        "client_id": client_id, "delay_ms": delay_ms})
}

const TOOL: &str = "resumable_data_processing";

#[test]
fn a_call_is_primed_numbered_and_ends_with_its_response() {
    within_deadline(async {
        let (_dir, server) = start().await;
        for version in ["2025-11-25", "2025-06-18", "2025-03-26"] {
            let client = Client::open_as(&server, version).await;
            let arguments = json!({"city": "Lisbon", "delay_ms": 0});
            let events = client.call(7, "get_forecast", arguments).await.all().await;
            assert_eq!(events[0].message, None, "the priming event");
            assert_eq!(numbers(&events), (1..=9).collect::<Vec<_>>());
            assert_eq!(events[1].method(), "notifications/message");
            assert_eq!(steps(&events), [1, 2, 3, 4, 5, 6]);
            let progress = events[2].message.as_ref().unwrap();
            assert_eq!(progress["params"]["progressToken"], 7);
            assert_eq!(progress["params"]["total"].as_f64(), Some(6.0));
            let last = events.last().unwrap().message.clone().unwrap();
            assert_eq!(last["id"], 7);
            let text = last["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.starts_with("Lisbon: "), "{text}");
        }
    });
}

#[test]
fn the_tool_list_shows_what_a_checkpoint_tool_is_known_by() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open(&server).await;
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let response = client.post(&message).await;
        let events = Sse {
            response,
            rest: String::new(),
        }
        .all()
        .await;
        let answer = events.last().unwrap().message.clone().unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap();
        let names: Vec<_> = tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                TOOL,
                "pause_task",
                "list_session_tasks",
                "get_checkpoint_stats",
                "get_session_info",
                "cleanup_checkpoints",
                "get_forecast",
                "send_burst",
                "crunch",
                "render_movie",
                "deploy"
            ]
        );
        let properties = &tools[0]["inputSchema"]["properties"];
        assert_eq!(properties["client_id"]["type"], json!(["string", "null"]));
        assert_eq!(properties["total_records"]["default"], 100);
        let nobody = json!({"client_id": "nobody"});
        let list = client.ask(2, "list_session_tasks", nobody).await;
        assert_eq!(list["tasks"], json!([]));
        let message = client.call(3, "no_such_tool", json!({})).await.all().await;
        assert_eq!(
            message.last().unwrap().message.clone().unwrap()["error"]["code"],
            -32602
        );
    });
}

#[test]
fn a_cut_refuses_connections_and_a_resume_replays_once() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let arguments = json!({"city": "Porto", "delay_ms": 300});
        let mut call = client.call(1, "get_forecast", arguments).await;
        let mut events = call.until(|event| event.progress() == Some(2)).await;
        demo::control(dir.path(), Fault::Cut { seconds: 1 }).unwrap();
        assert!(
            std::net::TcpStream::connect(server.addr()).is_err(),
            "the port still answers"
        );
        events.extend(call.until_broken().await);
        let cursor = events.last().unwrap().id.clone();
        events.extend(client.resume_when_back(&cursor).await.all().await);
        assert_eq!(steps(&events), [1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(&events), (1..=9).collect::<Vec<_>>());
        assert!(events.last().unwrap().is_response());
        // Nothing is left: the stream ends at once, and is not refused.
        let cursor = events.last().unwrap().id.clone();
        assert_eq!(client.resume(&cursor).await.all().await, []);
    });
}

#[test]
fn a_replay_brings_one_stream_to_its_own_session_only() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open(&server).await;
        let [first, second] = client.two_bursts(3).await;
        assert_ne!(first[0].stream(), second[0].stream());
        let replayed = client.resume(&first[1].id).await.all().await;
        assert_eq!(replayed, first[2..]);

        let stranger = Client::open(&server).await;
        assert_eq!(
            stranger.get(&first[1].id).await.unwrap().status(),
            StatusCode::BAD_REQUEST
        );
        let beyond = format!("{}-99", first[0].stream());
        for unknown in ["0", "nonsense-1", &beyond] {
            assert_eq!(
                client.get(unknown).await.unwrap().status(),
                StatusCode::BAD_REQUEST
            );
        }
        let nobody = Client {
            session: "nobody".to_owned(),
            ..client
        };
        assert_eq!(
            nobody.get(&first[1].id).await.unwrap().status(),
            StatusCode::NOT_FOUND
        );
    });
}

#[test]
fn a_newer_connection_takes_a_stream_over() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut old = client.call(1, TOOL, processing("a", 10, 600_000)).await;
        let begun = old
            .until(|event| event.method() == "notifications/message")
            .await;
        let new = client.resume(&begun[0].id).await;
        assert_eq!(old.all().await, []);
        client.cancel(1).await;
        let rest = new.all().await;
        assert_eq!(rest[0], begun[1]);
        assert!(rest.last().unwrap().is_response());
    });
}

#[test]
fn cross_stream_replay_brings_what_the_whole_session_missed() {
    within_deadline(async {
        let dir = tempfile::tempdir().unwrap();
        let server = demo_server::serve(DemoOptions {
            cross_stream_replay: true,
            ..options(dir.path())
        })
        .await
        .unwrap();
        let client = Client::open(&server).await;
        let [first, second] = client.two_bursts(2).await;
        let replayed = client.resume(&first[1].id).await.all().await;
        let missed: Vec<_> = first[2..].iter().chain(&second).cloned().collect();
        // What has no stream of a call in it (the answer to `initialized`) is no event.
        assert_eq!(replayed, missed);
        let everything = client.resume("0").await.all().await;
        assert_eq!(everything, [first, second].concat());
    });
}

#[test]
fn a_flag_replays_across_streams_beside_a_running_demo() {
    within_deadline(async {
        let state = tempfile::tempdir().unwrap();
        // The demo of a tour is still running.
        let tour = demo_server::serve(options(&state.path().join("demo")))
            .await
            .unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        drop(free);
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["demo", "--serve", "--port", &port, "--cross-stream-replay"])
            .env("LONGHAUL_STATE_DIR", state.path())
            .env_remove("LONGHAUL_CONFIG")
            .env("XDG_CONFIG_HOME", state.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let out = program.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut url).unwrap();
        assert_eq!(url.trim(), format!("http://127.0.0.1:{port}/mcp"));
        let client = Client::open_at(url.trim(), "2025-11-25").await;
        let mut calls = Vec::new();
        for id in 1..=2 {
            let call = client.call(id, "send_burst", json!({"count": 2})).await;
            calls.extend(call.all().await);
        }
        let replayed = client.resume(&calls[0].id).await.all().await;
        assert_eq!(replayed, calls[1..]);
        program.kill().unwrap();
        program.wait().unwrap();
        assert_eq!(
            demo::find_running(&state.path().join("demo")).unwrap().url,
            tour.url()
        );
    });
}

#[test]
fn a_restart_closes_streams_with_an_error_and_ends_sessions() {
    within_deadline(async {
        let (dir, server) = start().await;
        let addr = server.addr();
        let client = Client::open(&server).await;
        let arguments = json!({"city": "Faro", "delay_ms": 600_000});
        let mut call = client.call(1, "get_forecast", arguments).await;
        let begun = call
            .until(|event| event.method() == "notifications/message")
            .await;
        demo::control(dir.path(), Fault::Restart).unwrap();
        assert_eq!(server.addr(), addr);
        assert_eq!(call.until_broken().await, []);

        let rest = client.resume(&begun[0].id).await.all().await;
        assert_eq!(
            rest[0], begun[1],
            "what was sent before the crash comes first"
        );
        assert_eq!(rest.len(), 2);
        let closing = rest[1].message.clone().unwrap();
        assert_eq!(closing["params"]["level"], "error");
        let words = rest[1].message();
        assert!(words.starts_with("The server restarted at "), "{words}");
        assert!(words.ends_with("; this call died with it."), "{words}");
        assert_eq!(
            client.get(&rest[1].id).await.unwrap().status(),
            StatusCode::NOT_FOUND
        );
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        assert_eq!(client.post(&ping).await.status(), StatusCode::NOT_FOUND);

        let stranger = Client::open(&server).await;
        assert_eq!(
            stranger.get(&begun[0].id).await.unwrap().status(),
            StatusCode::BAD_REQUEST
        );
    });
}

#[test]
fn rows_are_exact_after_kills_at_random_batches() {
    if ran_alone("demo::rows_are_exact_after_kills_at_random_batches") {
        return;
    }
    within_deadline(async {
        let dir = tempfile::tempdir().unwrap();
        let mut rng = fastrand::Rng::with_seed(11);
        let mut server = demo_server::serve(options(dir.path())).await.unwrap();
        let addr = server.addr();
        let mut seen = 0;
        for round in 0..12 {
            let client = Client::open(&server).await;
            let mut call = client.call(round, TOOL, processing("k", 200, 2)).await;
            let first = call.until(|event| event.progress().is_some()).await;
            let begin = first.last().unwrap();
            if seen > 0 {
                let at = begin.progress().unwrap();
                assert_eq!(
                    begin.message(),
                    format!("Resuming processing from record {at}")
                );
                assert!(at >= seen, "what was shown as done was lost: {at} < {seen}");
            }
            let aim = (begin.progress().unwrap() + rng.u64(0..4) * 5).min(195);
            if begin.progress().unwrap() < aim {
                call.until(|event| event.progress() == Some(aim)).await;
            }
            seen = aim;
            server.kill();
            server = demo_server::serve(options(dir.path())).await.unwrap();
            assert_eq!(server.addr(), addr);
            let tasks = Client::open(&server)
                .await
                .ask(1, "list_session_tasks", json!({"client_id": "k"}))
                .await;
            assert_eq!(tasks["tasks"][0]["status"], "interrupted");
        }
        let client = Client::open(&server).await;
        let events = client
            .call(99, TOOL, processing("k", 200, 0))
            .await
            .all()
            .await;
        let answer = events.last().unwrap().answer();
        assert_eq!(answer["status"], "completed");
        assert_eq!(answer["processed"], 200);
        assert_eq!(demo_server::rows(dir.path(), "k").unwrap(), 200);

        // A finished checkpoint answers at once and does nothing again.
        let again = client.ask(100, TOOL, processing("k", 200, 0)).await;
        assert_eq!(again["status"], "completed");
        assert_eq!(again["task_id"], answer["task_id"]);
        assert_eq!(demo_server::rows(dir.path(), "k").unwrap(), 200);
    });
}

#[test]
fn a_second_call_joins_the_run_that_is_going() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut first = client.call(1, TOOL, processing("j", 100, 20)).await;
        first.until(|event| event.progress() == Some(10)).await;
        let other = Client::open(&server).await;
        let second = other
            .call(1, TOOL, processing("j", 100, 0))
            .await
            .all()
            .await;
        let second_steps = steps(&second);
        let at = second_steps[0];
        assert!(at >= 10);
        let words = second
            .iter()
            .find(|event| event.progress().is_some())
            .unwrap()
            .message();
        assert_eq!(words, format!("Resuming processing from record {at}"));
        assert_eq!(second_steps, (at..=100).step_by(5).collect::<Vec<_>>());
        let rest = first.all().await;
        assert_eq!(steps(&rest), (15..=100).step_by(5).collect::<Vec<_>>());
        let answers = [
            rest.last().unwrap().answer(),
            second.last().unwrap().answer(),
        ];
        assert_eq!(answers[0]["task_id"], answers[1]["task_id"]);
        assert_eq!(demo_server::rows(dir.path(), "j").unwrap(), 100);
    });
}

#[test]
fn a_run_continues_without_its_client() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut call = client.call(1, TOOL, processing("g", 50, 5)).await;
        call.until(|event| event.progress() == Some(5)).await;
        drop(call);
        drop(client);
        let client = Client::open(&server).await;
        let answer = client.ask(1, TOOL, processing("g", 50, 5)).await;
        assert_eq!(answer["status"], "completed");
        assert_eq!(demo_server::rows(dir.path(), "g").unwrap(), 50);
    });
}

#[test]
fn a_paused_run_resumes_where_it_stopped() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut call = client.call(1, TOOL, processing("p", 1000, 2000)).await;
        call.until(|event| event.progress() == Some(5)).await;
        let list = async |id| {
            let client_id = json!({"client_id": "p"});
            client.ask(id, "list_session_tasks", client_id).await["tasks"][0].clone()
        };
        let task = list(2).await;
        assert_eq!(task["status"], "running");
        assert_eq!(task["tool"], TOOL);
        task["updated_at"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap();
        let asked = client
            .ask(3, "pause_task", json!({"task_id": task["task_id"]}))
            .await;
        let words = asked["message"].as_str().unwrap();
        assert!(words.starts_with("pause requested"), "{words}");
        // The answer comes before the batch is over, which is what pausing looks like.
        assert_eq!(asked["status"], "running");
        assert_eq!(list(6).await["status"], "running");
        let answer = call.all().await.last().unwrap().answer();
        assert_eq!(answer["status"], "paused");
        let done = answer["processed"].as_u64().unwrap();
        assert!(done > asked["progress"].as_u64().unwrap(), "the batch ends");
        let paused = list(7).await;
        assert_eq!(paused["status"], "paused");
        assert_eq!(paused["progress"], done);
        assert_eq!(demo_server::rows(dir.path(), "p").unwrap(), done);

        let events = client
            .call(4, TOOL, processing("p", 1000, 0))
            .await
            .all()
            .await;
        assert_eq!(steps(&events)[0], done);
        assert_eq!(events.last().unwrap().answer()["status"], "completed");
        assert_eq!(demo_server::rows(dir.path(), "p").unwrap(), 1000);

        let refused = client
            .call(5, "pause_task", json!({"task_id": "none"}))
            .await
            .all()
            .await;
        let refused = refused.last().unwrap().message.clone().unwrap();
        assert_eq!(refused["result"]["isError"], true);
    });
}

#[test]
fn a_cancelled_call_is_answered_and_its_run_stops() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut call = client.call(1, TOOL, processing("c", 1000, 20)).await;
        let begun = call.until(|event| event.progress() == Some(10)).await;
        client.cancel(1).await;
        let rest = call.all().await;
        let answer = rest.last().unwrap().message.clone().unwrap();
        assert_eq!(answer["id"], 1);
        assert_eq!(answer["error"]["code"], -32800);
        let list = client
            .ask(2, "list_session_tasks", json!({"client_id": "c"}))
            .await;
        assert_eq!(list["tasks"][0]["status"], "cancelled");
        let done = list["tasks"][0]["progress"].as_u64().unwrap();
        assert!(done < 1000);
        assert_eq!(demo_server::rows(dir.path(), "c").unwrap(), done);
        // The proof stays for those who come back.
        let replayed = client.resume(&begun[0].id).await.all().await;
        assert_eq!(replayed.last(), rest.last());

        let arguments = json!({"city": "Faro", "delay_ms": 600_000});
        let mut call = client.call(3, "get_forecast", arguments).await;
        call.until(|event| event.method() == "notifications/message")
            .await;
        client.cancel(3).await;
        let rest = call.all().await;
        assert_eq!(
            rest.last().unwrap().message.clone().unwrap()["error"]["code"],
            -32800
        );
        // A cancellation of what is long over changes nothing.
        client.cancel(3).await;
        client.cancel(77).await;
    });
}

#[test]
fn a_cancelled_call_leaves_the_run_to_another_call() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut first = client.call(1, TOOL, processing("c", 1000, 20)).await;
        first.until(|event| event.progress() == Some(10)).await;
        let mut second = client.call(2, TOOL, processing("c", 1000, 20)).await;
        second.until(|event| event.progress().is_some()).await;
        client.cancel(1).await;
        let rest = first.all().await;
        assert_eq!(
            rest.last().unwrap().message.clone().unwrap()["error"]["code"],
            -32800
        );
        assert_eq!(
            second.all().await.last().unwrap().answer()["processed"],
            1000
        );
        assert_eq!(demo_server::rows(dir.path(), "c").unwrap(), 1000);
    });
}

#[test]
fn a_deleted_session_ends_its_calls_with_an_answer() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut call = client.call(1, TOOL, processing("x", 1000, 20)).await;
        call.until(|event| event.progress() == Some(10)).await;
        let response = client
            .http
            .delete(&client.url)
            .header("mcp-session-id", &client.session)
            .send()
            .await
            .unwrap();
        assert!(response.status().is_success());
        let rest = call.all().await;
        assert_eq!(
            rest.last().unwrap().message.clone().unwrap()["error"]["code"],
            -32800
        );
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        assert_eq!(client.post(&ping).await.status(), StatusCode::NOT_FOUND);
        // The next call joins the run, or continues from where it stopped.
        let fresh = Client::open(&server).await;
        let events = fresh
            .call(1, TOOL, processing("x", 1000, 0))
            .await
            .all()
            .await;
        assert!(steps(&events)[0] >= 10);
        assert_eq!(demo_server::rows(dir.path(), "x").unwrap(), 1000);
    });
}

#[test]
fn without_a_client_id_the_server_makes_one() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let arguments = json!({"dataset_name": "x", "total_records": 3, "batch_size": 2,
            "client_id": null, "delay_ms": 0});
        let answer = client.ask(1, TOOL, arguments.clone()).await;
        let id = answer["client_id"].as_str().unwrap();
        assert_eq!(demo_server::rows(dir.path(), id).unwrap(), 3);
        let other = client.ask(2, TOOL, arguments).await;
        assert_ne!(other["client_id"], answer["client_id"]);
        let stats = client.ask(3, "get_checkpoint_stats", json!({})).await;
        assert_eq!(stats["by_status"], json!({"completed": 2}));
        assert_eq!(stats["records_processed"], 6);
        let clean = async |id, days: u64| {
            let age = json!({"max_age_days": days});
            client.ask(id, "cleanup_checkpoints", age).await["deleted"].clone()
        };
        assert_eq!(clean(4, 1).await, 0);
        assert_eq!(clean(5, u64::MAX).await, 0);
        assert_eq!(clean(6, 0).await, 2);
        assert_eq!(demo_server::rows(dir.path(), id).unwrap(), 0);
    });
}

#[test]
fn a_burst_arrives_whole_and_in_order() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open(&server).await;
        let events = client
            .call(1, "send_burst", json!({"count": 2000}))
            .await
            .all()
            .await;
        assert_eq!(steps(&events), (1..=2000).collect::<Vec<_>>());
        assert_eq!(events.last().unwrap().answer()["sent"], 2000);
    });
}

#[test]
fn the_log_level_is_the_clients() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open(&server).await;
        let levels = |events: Vec<Event>| -> Vec<String> {
            let is_log = |event: &&Event| event.method() == "notifications/message";
            let level = |event: &Event| event.message.clone().unwrap()["params"]["level"].clone();
            events
                .iter()
                .filter(is_log)
                .map(|event| level(event).as_str().unwrap().to_owned())
                .collect()
        };
        let events = client
            .call(1, TOOL, processing("l1", 10, 0))
            .await
            .all()
            .await;
        assert_eq!(levels(events), ["info", "info"]);
        for (id, level) in [(2, "debug"), (3, "warning")] {
            let message = json!({"jsonrpc": "2.0", "id": id, "method": "logging/setLevel",
                "params": {"level": level}});
            let response = client.post(&message).await;
            let events = Sse {
                response,
                rest: String::new(),
            }
            .all()
            .await;
            assert!(events.last().unwrap().message.clone().unwrap()["error"].is_null());
            let arguments = processing(level, 10, 0);
            let events = client.call(id + 10, TOOL, arguments).await.all().await;
            let expected: &[&str] = if id == 2 {
                &["info", "debug", "debug", "info"]
            } else {
                &[]
            };
            assert_eq!(levels(events), expected);
        }
    });
}

#[test]
fn a_drop_comes_right_after_the_next_event() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut call = client.call(1, TOOL, processing("d", 50, 100)).await;
        let mut events = call.until(|event| event.progress() == Some(5)).await;
        demo::control(dir.path(), Fault::DropAfterNext).unwrap();
        let after = call.until_broken().await;
        assert_eq!(after.len(), 1, "{after:?}");
        events.extend(after);
        let cursor = events.last().unwrap().id.clone();
        events.extend(client.resume(&cursor).await.all().await);
        assert_eq!(steps(&events), (5..=50).step_by(5).collect::<Vec<_>>());
        assert!(events.last().unwrap().is_response());
    });
}

#[test]
fn a_duplicating_replay_sends_the_last_events_again_once() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let events = client
            .call(1, "send_burst", json!({"count": 9}))
            .await
            .all()
            .await;
        demo::control(dir.path(), Fault::DuplicateOnReplay).unwrap();
        assert_eq!(client.resume(&events[5].id).await.all().await, events[3..]);
        assert_eq!(client.resume(&events[5].id).await.all().await, events[6..]);
    });
}

#[test]
fn forgotten_sessions_are_unknown_and_their_tools_go_on() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut call = client.call(1, TOOL, processing("f", 50, 20)).await;
        let begun = call.until(|event| event.progress() == Some(5)).await;
        let said = demo::control(dir.path(), Fault::ForgetSession).unwrap();
        assert_eq!(said, "forgot 1 MCP session");
        assert_eq!(
            client.get(&begun[0].id).await.unwrap().status(),
            StatusCode::NOT_FOUND
        );
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        assert_eq!(client.post(&ping).await.status(), StatusCode::NOT_FOUND);
        assert_eq!(call.all().await.last().unwrap().answer()["processed"], 50);
        let fresh = Client::open(&server).await;
        assert_eq!(
            fresh.ask(1, TOOL, processing("f", 50, 0)).await["status"],
            "completed"
        );
        assert_eq!(demo_server::rows(dir.path(), "f").unwrap(), 50);
    });
}

#[test]
fn a_stall_holds_every_byte_and_loses_none() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open(&server).await;
        let mut call = client.call(1, TOOL, processing("s", 50, 10)).await;
        let mut events = call.until(|event| event.progress() == Some(5)).await;
        let begin = tokio::time::Instant::now();
        demo::control(dir.path(), Fault::Stall { seconds: 1 }).unwrap();
        // A new connection stalls too.
        let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        assert_eq!(client.post(&ping).await.status(), StatusCode::OK);
        assert!(begin.elapsed() >= Duration::from_secs(1));
        events.extend(call.all().await);
        assert_eq!(steps(&events), (5..=50).step_by(5).collect::<Vec<_>>());
    });
}

#[test]
fn web_pages_and_foreign_hosts_are_refused() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open(&server).await;
        let port = server.addr().port();
        let evil = format!("http://evil.example:{port}");
        for (header, value) in [
            ("origin", "http://127.0.0.1"),
            ("origin", evil.as_str()),
            ("origin", "null"),
            ("host", "evil.example"),
        ] {
            let response = client
                .http
                .get(server.url())
                .header("accept", "text/event-stream")
                .header("mcp-session-id", &client.session)
                .header("last-event-id", "x-1")
                .header(header, value)
                .send()
                .await
                .unwrap();
            assert_eq!(response.status(), StatusCode::FORBIDDEN, "{header} {value}");
        }
        // A page of its own, and a resume from there.
        let burst = client.call(1, "send_burst", json!({"count": 2})).await;
        let burst = burst.all().await;
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let origin = format!("http://{host}:{port}");
            let request = |request: reqwest::RequestBuilder| {
                request
                    .header("accept", "application/json, text/event-stream")
                    .header("mcp-session-id", &client.session)
                    .header("origin", &origin)
                    .send()
            };
            let resumed = client.http.get(server.url());
            let resumed = request(resumed.header("last-event-id", &burst[0].id)).await;
            assert_eq!(resumed.unwrap().status(), StatusCode::OK, "{origin}");
            let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
            let pinged = request(client.http.post(server.url()).json(&ping)).await;
            assert_eq!(pinged.unwrap().status(), StatusCode::OK, "{origin}");
        }
    });
}

#[test]
fn undeclared_methods_are_not_found() {
    within_deadline(async {
        let (_dir, server) = start().await;
        for version in ["2025-06-18", "2025-11-25"] {
            let client = Client::open_as(&server, version).await;
            let requests = [
                ("prompts/list", json!({})),
                ("prompts/get", json!({"name": "x"})),
                ("resources/list", json!({})),
                ("resources/templates/list", json!({})),
                ("resources/read", json!({"uri": "file:///x"})),
                (
                    "completion/complete",
                    json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}),
                ),
            ];
            for (n, (method, params)) in requests.into_iter().enumerate() {
                let response = client.response(n as u64 + 1, method, params).await;
                assert_eq!(response["error"]["code"], -32601, "{method}: {response}");
            }
        }
    });
}

#[test]
fn a_directory_has_one_server_that_can_be_found_and_stopped() {
    if ran_alone("demo::a_directory_has_one_server_that_can_be_found_and_stopped") {
        return;
    }
    within_deadline(async {
        let (dir, server) = start().await;
        let running = demo::find_running(dir.path()).unwrap();
        assert_eq!(running.url, server.url());
        assert_eq!(running.pid, std::process::id());
        let second = demo_server::serve(options(dir.path())).await;
        assert!(matches!(second, Err(DemoError::AlreadyRunning { .. })));
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} is {mode:o}", entry.path().display());
        }
        let mode = std::fs::metadata(dir.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let url = server.url();
        demo::stop(dir.path()).unwrap();
        server.finished().await;
        assert_eq!(demo::find_running(dir.path()), None);
        let gone = demo::control(dir.path(), Fault::Restart);
        assert!(matches!(gone, Err(DemoError::NotRunning { .. })));
        // The port is kept for the next time.
        let next = demo_server::serve(options(dir.path())).await.unwrap();
        assert_eq!(next.url(), url);
    });
}

#[test]
fn a_long_directory_name_still_has_its_control_socket() {
    within_deadline(async {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120));
        let server = demo_server::serve(options(&deep)).await.unwrap();
        assert_eq!(demo::find_running(&deep).unwrap().url, server.url());
        demo::control(&deep, Fault::Restart).unwrap();
        demo::stop(&deep).unwrap();
        server.finished().await;
    });
}

#[test]
fn an_idle_server_ends_and_a_busy_one_does_not() {
    within_deadline(async {
        let dir = tempfile::tempdir().unwrap();
        // Long enough to connect on a busy machine, and shorter than what is left to do after the client went.
        let limit = Duration::from_millis(500);
        let server = demo_server::serve(DemoOptions {
            idle_exit: Some(limit),
            ..options(dir.path())
        })
        .await
        .unwrap();
        let held = demo::hold(dir.path()).unwrap();
        let client = Client::open(&server).await;
        let mut call = client.call(1, TOOL, processing("i", 50, 200)).await;
        call.until(|event| event.progress() == Some(5)).await;
        drop(call);
        drop(client);
        let mut finished = std::pin::pin!(server.finished());
        // A screen that shows the server holds it.
        while demo_server::rows(dir.path(), "i").unwrap() < 50 {
            tokio::task::yield_now().await;
        }
        let early = tokio::time::timeout(limit * 2, &mut finished).await;
        assert!(early.is_err(), "it ended under the screen");
        drop(held);
        finished.await;
    });
}

#[test]
fn the_process_prints_its_url_first_and_exits_on_signal() {
    within_deadline(async {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path());
        let thread = std::thread::spawn(move || {
            let mut out = Vec::new();
            demo::run_blocking(options, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        });
        let running = loop {
            if let Some(running) = demo::find_running(dir.path()) {
                break running;
            }
            crate::support::pause();
        };
        demo::stop(dir.path()).unwrap();
        assert_eq!(
            thread.join().unwrap().lines().next(),
            Some(running.url.as_str())
        );
    });
}

/// Kills the process when the test ends in whatever way.
struct Killed(u32);

impl Killed {
    fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_raw(i32::try_from(self.0).unwrap()).unwrap()
    }

    fn kill_9(&self) {
        let _ = rustix::process::kill_process(self.pid(), rustix::process::Signal::KILL);
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill_9();
    }
}

/// The other process of the test below: this test program again, with the directory as one more argument; without it
/// there is nothing to do.
#[test]
fn a_server_process() {
    let Some(dir) = std::env::args().find(|arg| arg.starts_with('/') && Path::new(arg).is_dir())
    else {
        return;
    };
    demo::detach().unwrap();
    let idle_exit = Some(Duration::from_secs(120));
    let options = DemoOptions {
        idle_exit,
        ..options(Path::new(&dir))
    };
    demo::run_blocking(options, &mut std::io::stdout()).unwrap();
}

/// The process id, port and boot number that the server of `dir` tells on its control socket.
fn control_status(dir: &Path) -> [u64; 3] {
    let file = std::fs::read_to_string(dir.join("server.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let mut socket = UnixStream::connect(file["socket"].as_str().unwrap()).unwrap();
    socket.write_all(b"status\n").unwrap();
    let line = std::io::read_to_string(socket).unwrap();
    let numbers = line.trim_end().strip_prefix("ok ").unwrap().split(' ');
    let numbers: Vec<u64> = numbers.map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn a_background_process_survives_restarts_and_sigkill() {
    within_deadline(async {
        let dir = tempfile::tempdir().unwrap();
        let exe = std::env::current_exe().unwrap();
        let start = || {
            let args = ["--exact", "demo::a_server_process", "--nocapture"];
            let args: Vec<_> = args
                .iter()
                .map(std::ffi::OsString::from)
                .chain([dir.path().as_os_str().to_owned()])
                .collect();
            demo::start_in_background(dir.path(), &exe, &args).unwrap()
        };
        let running = start();
        let process = Killed(running.pid);
        assert_ne!(running.pid, std::process::id());
        assert_eq!(start(), running);
        let session = rustix::process::getsid(Some(process.pid())).unwrap();
        assert_eq!(session, process.pid(), "it leads a session of its own");

        let [pid, port, boot] = control_status(dir.path());
        demo::control(dir.path(), Fault::Restart).unwrap();
        assert_eq!(demo::find_running(dir.path()), Some(running.clone()));
        assert_eq!(control_status(dir.path()), [pid, port, boot + 1]);

        let client = Client::open_at(&running.url, "2025-11-25").await;
        let mut call = client.call(2, TOOL, processing("b", 100, 10)).await;
        let begun = call.until(|event| event.progress() == Some(20)).await;
        process.kill_9();
        call.until_broken().await;
        std::mem::forget(process);
        let again = start();
        let process = Killed(again.pid);
        assert_ne!(again.pid, running.pid);
        assert_eq!(again.url, running.url);
        let rest = client.resume(&begun[0].id).await.all().await;
        assert_eq!(rest[..begun.len() - 1], begun[1..]);
        assert!(
            rest.last()
                .unwrap()
                .message()
                .starts_with("The server restarted at ")
        );
        let client = Client::open_at(&again.url, "2025-11-25").await;
        let answer = client.ask(1, TOOL, processing("b", 100, 0)).await;
        assert_eq!(answer["status"], "completed");
        assert_eq!(demo_server::rows(dir.path(), "b").unwrap(), 100);
        demo::stop(dir.path()).unwrap();
        // It has ended: its number may be another's by now.
        std::mem::forget(process);
    });
}

#[test]
fn the_modern_era_is_discovered_and_lists_its_tools() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let modern = Modern::open(&server);
        let found = modern.ask(1, "server/discover", json!({})).await;
        assert_eq!(found["resultType"], "complete");
        let versions = found["supportedVersions"].as_array().unwrap();
        assert!(versions.contains(&json!("2026-07-28")), "{found}");
        assert_eq!(
            found["capabilities"],
            json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
        );
        let list = modern.ask(2, "tools/list", json!({})).await;
        assert_eq!(list["resultType"], "complete");
        assert_eq!(list["ttlMs"], 60_000);
        assert_eq!(list["cacheScope"], "public");
        assert_eq!(list["tools"][0]["name"], TOOL);
        assert!(!list.to_string().contains("taskSupport"), "{list}");
    });
}

#[test]
fn a_modern_call_reports_each_step_once_on_its_own_stream() {
    within_deadline(async {
        let (_dir, server) = start().await;
        // It declares no tasks: what can be done without one is.
        let modern = Modern::able_to(&server, json!({}));
        for as_task in [false, true] {
            let arguments = json!({"steps": 5, "step_ms": 1, "as_task": as_task});
            let params = json!({"name": "crunch", "arguments": arguments});
            let (status, messages) = modern.exchange(7, "tools/call", params).await;
            assert_eq!(status, StatusCode::OK);
            let (response, progress) = messages.split_last().unwrap();
            let seen: Vec<_> = progress
                .iter()
                .map(|message| {
                    assert_eq!(message["method"], "notifications/progress");
                    assert_eq!(message["params"]["progressToken"], 7);
                    message["params"]["progress"].as_f64().unwrap()
                })
                .collect();
            assert_eq!(seen, [1.0, 2.0, 3.0, 4.0, 5.0]);
            assert_eq!(response["result"]["resultType"], "complete");
            assert_eq!(said(&response["result"]), "Crunched 5 of 5 steps");
        }
        // An answer without anything before it is plain JSON.
        let arguments = json!({"client_id": "nobody"});
        let params = json!({"name": "list_session_tasks", "arguments": arguments});
        let list = modern.post(8, "tools/call", params).await;
        assert_eq!(list.headers()["content-type"], "application/json");
    });
}

#[test]
fn a_modern_client_that_goes_has_cancelled() {
    within_deadline(async {
        let (dir, server) = start().await;
        let modern = Modern::open(&server);
        let status = async || {
            let arguments = json!({"client_id": "m"});
            let list = modern.call(9, "list_session_tasks", arguments).await;
            let list: Value = serde_json::from_str(said(&list)).unwrap();
            list["tasks"][0]["status"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let params = json!({"name": TOOL, "arguments": processing("m", 1_000_000, 50)});
        let mut stream = Sse {
            response: modern.post(1, "tools/call", params).await,
            rest: String::new(),
        };
        stream.until(|event| event.progress() == Some(5)).await;
        assert_eq!(status().await, "running");
        drop(stream);
        while status().await != "interrupted" {}
        let rows = demo_server::rows(dir.path(), "m").unwrap();
        assert!(rows < 1_000_000);
        // The checkpoint stays.
        let params = json!({"name": TOOL, "arguments": processing("m", 1_000_000, 50)});
        let mut stream = Sse {
            response: modern.post(2, "tools/call", params).await,
            rest: String::new(),
        };
        let events = stream.until(|event| event.progress().is_some()).await;
        assert_eq!(events.last().unwrap().progress(), Some(rows));
    });
}

#[test]
fn rejects_a_malformed_modern_request_with_a_reason() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let modern = Modern::open(&server);
        let bare = Modern::able_to(&server, json!({}));
        let call = json!({"name": "render_movie", "arguments": {"scene": "x"}});
        let without = |headers: &mut Vec<(&'static str, String)>, name: &str| {
            headers.retain(|(header, _)| *header != name);
        };
        let set = |headers: &mut Vec<(&'static str, String)>, name: &str, value: &str| {
            for (header, old) in headers {
                if *header == name {
                    value.clone_into(old);
                }
            }
        };
        let code = async |message: Value, headers| {
            let (status, messages) = read_whole(modern.send(&message, headers).await).await;
            (
                status.as_u16(),
                messages[0]["error"]["code"].as_i64().unwrap(),
            )
        };
        let version = "io.modelcontextprotocol/protocolVersion";
        let capabilities = "io.modelcontextprotocol/clientCapabilities";

        let (message, mut headers) = modern.request(1, "tools/call", call.clone());
        without(&mut headers, "mcp-protocol-version");
        assert_eq!(
            code(message, headers).await,
            (400, -32020),
            "no version header"
        );
        let (mut message, headers) = modern.request(1, "tools/call", call.clone());
        message["params"]["_meta"]
            .as_object_mut()
            .unwrap()
            .remove(version);
        assert_eq!(
            code(message, headers).await,
            (400, -32602),
            "no version in _meta"
        );
        let (mut message, headers) = modern.request(1, "tools/call", call.clone());
        message["params"]["_meta"]
            .as_object_mut()
            .unwrap()
            .remove(capabilities);
        assert_eq!(
            code(message, headers).await,
            (400, -32602),
            "no capabilities"
        );
        let (mut message, headers) = modern.request(1, "tools/call", call.clone());
        message["params"]["_meta"][version] = json!("2027-01-01");
        assert_eq!(code(message, headers).await, (400, -32020), "two versions");
        let (mut message, mut headers) = modern.request(1, "tools/call", call.clone());
        message["params"]["_meta"][version] = json!("2027-01-01");
        set(&mut headers, "mcp-protocol-version", "2027-01-01");
        assert_eq!(
            code(message, headers).await,
            (400, -32022),
            "an unknown version"
        );
        for (name, other) in [("mcp-method", "tools/list"), ("mcp-name", "other")] {
            let (message, mut headers) = modern.request(1, "tools/call", call.clone());
            set(&mut headers, name, other);
            assert_eq!(
                code(message, headers).await,
                (400, -32020),
                "a wrong {name}"
            );
            let (message, mut headers) = modern.request(1, "tools/call", call.clone());
            without(&mut headers, name);
            assert_eq!(code(message, headers).await, (400, -32020), "no {name}");
        }
        for method in ["no/such", "tasks/list", "tasks/result", "ping"] {
            let (message, headers) = modern.request(1, method, json!({}));
            assert_eq!(code(message, headers).await, (404, -32601), "{method}");
        }
        for (method, params) in [
            ("tools/call", call.clone()),
            ("tasks/get", json!({"taskId": "x"})),
            ("tasks/cancel", json!({"taskId": "x"})),
            (
                "subscriptions/listen",
                json!({"notifications": {"taskIds": ["x"]}}),
            ),
        ] {
            let (message, headers) = bare.request(1, method, params);
            assert_eq!(
                code(message, headers).await,
                (400, -32021),
                "{method} without tasks"
            );
        }
        let deploy = json!({"name": "deploy", "arguments": {"env": "x"}});
        let mute = Modern::able_to(
            &server,
            json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
        );
        let (message, headers) = mute.request(1, "tools/call", deploy);
        assert_eq!(
            code(message, headers).await,
            (400, -32021),
            "deploy without questions"
        );
        for (method, params) in [
            ("tasks/get", json!({"taskId": "x"})),
            ("tasks/update", json!({"taskId": "x", "inputResponses": {}})),
            ("tasks/cancel", json!({"taskId": "x"})),
            ("tools/call", json!({"name": "no_such_tool"})),
            ("tools/call", json!({"name": "render_movie"})),
        ] {
            let (message, headers) = modern.request(1, method, params);
            assert_eq!(code(message, headers).await, (200, -32602), "{method}");
        }
        for method in [reqwest::Method::GET, reqwest::Method::DELETE] {
            let asked = modern.http.request(method.clone(), server.url());
            let response = asked
                .header("accept", "text/event-stream")
                .header("mcp-protocol-version", "2026-07-28")
                .header("last-event-id", "x-1")
                .send()
                .await
                .unwrap();
            assert_eq!(
                response.status(),
                StatusCode::METHOD_NOT_ALLOWED,
                "{method}"
            );
        }
    });
}

#[test]
fn a_modern_task_reports_progress_and_keeps_its_result() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let modern = Modern::open(&server);
        let movie = json!({"scene": "dawn", "frames": 40, "frame_ms": 5});
        let made = modern.call(1, "render_movie", movie).await;
        assert_eq!(made["resultType"], "task");
        assert_eq!(made["status"], "working");
        assert_eq!(made["ttlMs"], 3_600_000);
        assert_eq!(made["pollIntervalMs"], 1000);
        for stamp in ["createdAt", "lastUpdatedAt"] {
            made[stamp]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .unwrap();
        }
        let id = made["taskId"].as_str().unwrap();
        let working = modern
            .task_when(id, |task| task["statusMessage"] != made["statusMessage"])
            .await;
        assert_eq!(working["resultType"], "complete");
        let words = working["statusMessage"].as_str().unwrap();
        assert!(
            words.starts_with("frame ") && words.ends_with(" of 40"),
            "{words}"
        );
        let done = modern
            .task_when(id, |task| task["status"] != "working")
            .await;
        assert_eq!(done["status"], "completed");
        assert_eq!(said(&done["result"]), "Rendered dawn: 40 frames");

        let id = modern
            .begin("crunch", json!({"steps": 3, "step_ms": 1, "as_task": true}))
            .await;
        let done = modern
            .task_when(&id, |task| task["status"] != "working")
            .await;
        assert_eq!(said(&done["result"]), "Crunched 3 of 3 steps");
        // Nothing else becomes a task.
        let plain = modern
            .call(5, "get_forecast", json!({"city": "Porto", "delay_ms": 0}))
            .await;
        assert_eq!(plain["resultType"], "complete");

        let id = modern.begin("render_movie", json!({"scene": "dusk"})).await;
        let ack = modern.ask(6, "tasks/cancel", json!({"taskId": id})).await;
        assert_eq!(ack, json!({"resultType": "complete"}));
        let task = modern
            .task_when(&id, |task| task["status"] != "working")
            .await;
        assert_eq!(task["status"], "cancelled");
        // What is over is acknowledged too, and stays what it is.
        modern.ask(7, "tasks/cancel", json!({"taskId": id})).await;
        assert_eq!(modern.task(&id).await, task);
    });
}

#[test]
fn a_modern_task_asks_and_uses_the_answer() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let modern = Modern::open(&server);
        let deployment = json!({"env": "test", "steps": 4, "step_ms": 1});
        let answer = async |id: &str, answers: Value| {
            let params = json!({"taskId": id, "inputResponses": answers});
            let ack = modern.ask(3, "tasks/update", params).await;
            assert_eq!(ack, json!({"resultType": "complete"}));
        };
        let id = modern.begin("deploy", deployment.clone()).await;
        let asking = modern
            .task_when(&id, |task| task["status"] == "input_required")
            .await;
        assert_eq!(asking["statusMessage"], "step 2 of 4");
        let question = &asking["inputRequests"]["release"];
        assert_eq!(question["method"], "elicitation/create");
        let form = &question["params"]["requestedSchema"];
        let fields = &form["properties"];
        assert_eq!(fields["version"]["minLength"], 3);
        assert_eq!(fields["replicas"]["maximum"], 9);
        assert_eq!(fields["notify"]["default"], true);
        assert_eq!(fields["strategy"]["oneOf"][1]["const"], "blue_green");
        assert_eq!(fields["regions"]["items"]["anyOf"][2]["title"], "Asia");
        // A key that was not asked changes nothing.
        answer(&id, json!({"other": {"action": "accept", "content": {}}})).await;
        assert_eq!(modern.task(&id).await["status"], "input_required");
        let content = json!({"version": "1.2", "replicas": 2, "notify": false,
            "strategy": "rolling", "regions": ["eu", "us"]});
        answer(
            &id,
            json!({"release": {"action": "accept", "content": content}}),
        )
        .await;
        let done = modern
            .task_when(&id, |task| task.get("result").is_some())
            .await;
        let result: Value = serde_json::from_str(said(&done["result"])).unwrap();
        assert_eq!(result["status"], "deployed");
        assert_eq!(result["answers"], content);

        for (action, is_error) in [("decline", Value::Null), ("cancel", json!(true))] {
            let id = modern.begin("deploy", deployment.clone()).await;
            modern
                .task_when(&id, |task| task["status"] == "input_required")
                .await;
            answer(&id, json!({"release": {"action": action}})).await;
            let done = modern
                .task_when(&id, |task| task.get("result").is_some())
                .await;
            assert_eq!(done["status"], "completed");
            assert!(said(&done["result"]).contains(action), "{done}");
            let error = done["result"]
                .get("isError")
                .filter(|error| **error != json!(false));
            assert_eq!(error.cloned().unwrap_or_default(), is_error);
        }
    });
}

#[test]
fn tasks_survive_a_restart_of_the_server() {
    if ran_alone("demo::tasks_survive_a_restart_of_the_server") {
        return;
    }
    within_deadline(async {
        let (dir, server) = start().await;
        let modern = Modern::open(&server);
        let finished = modern
            .begin("crunch", json!({"steps": 1, "step_ms": 0, "as_task": true}))
            .await;
        let before = modern
            .task_when(&finished, |task| task["status"] == "completed")
            .await;
        let asking = modern
            .begin("deploy", json!({"env": "test", "steps": 2, "step_ms": 0}))
            .await;
        let question = modern
            .task_when(&asking, |task| task["status"] == "input_required")
            .await;
        let movie = modern
            .begin(
                "render_movie",
                json!({"scene": "noon", "frames": 60, "frame_ms": 20}),
            )
            .await;
        let answered = modern
            .begin("deploy", json!({"env": "test", "steps": 3, "step_ms": 300}))
            .await;
        modern
            .task_when(&answered, |task| task["status"] == "input_required")
            .await;
        // The first answer counts, after the restart too.
        for version in ["1.0.0", "9.9.9"] {
            let content = json!({"version": version, "strategy": "rolling"});
            let params = json!({"taskId": answered, "inputResponses":
                {"release": {"action": "accept", "content": content}}});
            modern.ask(3, "tasks/update", params).await;
        }
        let frame = |task: &Value| -> u64 {
            let words = task["statusMessage"].as_str().unwrap();
            let frame = words.strip_prefix("frame ").unwrap_or("0 of");
            frame.split_once(' ').unwrap().0.parse().unwrap()
        };
        let working = modern.task_when(&movie, |task| frame(task) >= 3).await;

        server.kill();
        let server = demo_server::serve(options(dir.path())).await.unwrap();
        let modern = Modern::open(&server);
        assert_eq!(modern.task(&finished).await, before);
        // A session of the other era finds them too, in its own spelling.
        let client = Client::open(&server).await;
        let params = json!({"taskId": finished});
        let result = client.result(1, "tasks/result", params).await;
        assert_eq!(said(&result), "Crunched 1 of 1 steps");
        let back = modern.task(&movie).await;
        assert_eq!(back["createdAt"], working["createdAt"]);
        assert!(frame(&back) >= frame(&working), "it goes on at its frame");
        assert_eq!(
            modern.task(&asking).await["inputRequests"],
            question["inputRequests"]
        );
        let content = json!({"version": "2.0", "strategy": "rolling"});
        let params = json!({"taskId": asking, "inputResponses":
            {"release": {"action": "accept", "content": content}}});
        modern.ask(3, "tasks/update", params).await;
        let done = modern
            .task_when(&asking, |task| task.get("result").is_some())
            .await;
        assert!(said(&done["result"]).contains("2.0"));
        let done = modern
            .task_when(&answered, |task| task.get("result").is_some())
            .await;
        assert!(said(&done["result"]).contains("1.0.0"), "{done}");
        let done = modern
            .task_when(&movie, |task| task.get("result").is_some())
            .await;
        assert_eq!(said(&done["result"]), "Rendered noon: 60 frames");
    });
}

#[test]
fn a_subscription_reports_its_tasks_until_they_settle() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let modern = Modern::open(&server);
        let id = modern
            .begin("deploy", json!({"env": "test", "steps": 2, "step_ms": 0}))
            .await;
        let other = modern.begin("render_movie", json!({"scene": "x"})).await;
        modern
            .task_when(&id, |task| task["status"] == "input_required")
            .await;
        let filter = json!({"taskIds": [id, "unknown"], "toolsListChanged": true});
        let params = json!({"notifications": filter});
        let mut stream = Sse {
            response: modern.post(40, "subscriptions/listen", params).await,
            rest: String::new(),
        };
        let ack = stream.next().await.unwrap().unwrap().message.unwrap();
        let tied = json!({"io.modelcontextprotocol/subscriptionId": 40});
        assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(
            ack["params"],
            json!({"notifications": {"taskIds": [id]}, "_meta": tied})
        );
        let content = json!({"version": "2.0", "strategy": "rolling"});
        let params = json!({"taskId": id, "inputResponses":
            {"release": {"action": "accept", "content": content}}});
        modern.ask(3, "tasks/update", params).await;
        let events = stream.all().await;
        let (end, told) = events.split_last().unwrap();
        let end = end.message.clone().unwrap();
        assert_eq!(end["id"], 40);
        assert_eq!(
            end["result"],
            json!({"resultType": "complete", "_meta": tied})
        );
        for event in told {
            let params = &event.message.as_ref().unwrap()["params"];
            assert_eq!(event.method(), "notifications/tasks");
            assert_eq!((&params["taskId"], &params["_meta"]), (&json!(id), &tied));
        }
        let last = told.last().unwrap().message.clone().unwrap()["params"].clone();
        assert_eq!(last["status"], "completed");
        assert!(said(&last["result"]).contains("deployed"));
        assert_eq!(modern.task(&other).await["status"], "working");
    });
}

/// Whether an event asks the client something.
fn asks(event: &Event) -> bool {
    event.method() == "elicitation/create"
}

#[test]
fn supports_the_task_methods_of_2025_11_25() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open(&server).await;
        let list = client.result(1, "tools/list", json!({})).await;
        let support = |name: &str| {
            let tools = list["tools"].as_array().unwrap();
            let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
            tool["execution"]["taskSupport"].as_str().unwrap()
        };
        assert_eq!(support("render_movie"), "required");
        assert_eq!(support("crunch"), "optional");
        assert_eq!(support(TOOL), "optional");
        assert_eq!(support("get_forecast"), "forbidden");
        assert_eq!(support("send_burst"), "forbidden");

        let arguments = json!({"steps": 3, "step_ms": 1});
        let params = json!({"name": "crunch", "arguments": arguments, "task": {"ttl": 60_000}});
        let made = client.result(2, "tools/call", params).await["task"].clone();
        assert_eq!(made["status"], "working");
        assert_eq!(made["ttl"], 60_000);
        assert_eq!(made["pollInterval"], 1000);
        let id = made["taskId"].as_str().unwrap();
        let result = client
            .result(3, "tasks/result", json!({"taskId": id}))
            .await;
        assert_eq!(said(&result), "Crunched 3 of 3 steps");
        assert!(result.get("resultType").is_none(), "{result}");
        assert_eq!(
            result["_meta"],
            json!({"io.modelcontextprotocol/related-task": {"taskId": id}})
        );
        let done = client.task(4, id).await;
        assert_eq!(done["status"], "completed");
        assert_eq!(done["statusMessage"], "step 3 of 3");
        assert!(done.get("_meta").is_none());
        // A finished result stays.
        let again = client
            .result(5, "tasks/result", json!({"taskId": id}))
            .await;
        assert_eq!(again, result);

        // The long tools as tasks.
        for (n, tool, arguments) in [
            (
                10,
                TOOL,
                json!({"dataset_name": "t", "total_records": 20, "delay_ms": 1}),
            ),
            (11, "crunch", json!({"steps": 2, "step_ms": 1})),
        ] {
            let id = client.begin(n, tool, arguments).await;
            let result = client
                .result(n + 10, "tasks/result", json!({"taskId": id}))
                .await;
            assert!(result["content"][0]["text"].is_string(), "{result}");
        }

        let movie = json!({"scene": "x"});
        let mut ids = Vec::new();
        for n in 30..60 {
            ids.push(client.begin(n, "render_movie", movie.clone()).await);
        }
        let page = client.result(60, "tasks/list", json!({})).await;
        assert_eq!(page["tasks"].as_array().unwrap().len(), 20);
        assert_eq!(page["tasks"][0]["taskId"], id);
        let mut listed = page["tasks"].as_array().unwrap().clone();
        let rest = client
            .result(61, "tasks/list", json!({"cursor": page["nextCursor"]}))
            .await;
        listed.extend(rest["tasks"].as_array().unwrap().clone());
        assert!(rest.get("nextCursor").is_none(), "{rest}");
        assert_eq!(listed.len(), 33);
        assert_eq!(listed[32]["taskId"], json!(ids[29]));

        let waiting = client
            .stream(62, "tasks/result", json!({"taskId": ids[0]}))
            .await;
        let cancelled = client
            .result(63, "tasks/cancel", json!({"taskId": ids[0]}))
            .await;
        assert_eq!(cancelled["status"], "cancelled");
        let ended = waiting.all().await.pop().unwrap().message.unwrap();
        assert_eq!(ended["error"]["code"], -32800);
        let code = async |n, method: &str, params| {
            client.response(n, method, params).await["error"]["code"].clone()
        };
        assert_eq!(
            code(64, "tasks/cancel", json!({"taskId": ids[0]})).await,
            -32602
        );
        assert_eq!(
            code(65, "tasks/get", json!({"taskId": "none"})).await,
            -32602
        );
        assert_eq!(
            code(66, "tasks/list", json!({"cursor": "none"})).await,
            -32602
        );
        let plain = json!({"name": "render_movie", "arguments": movie});
        assert_eq!(code(67, "tools/call", plain).await, -32601);
        let burst = json!({"name": "send_burst", "arguments": {"count": 1}, "task": {}});
        assert_eq!(code(68, "tools/call", burst).await, -32601);
    });
}

#[test]
fn only_sessions_of_2025_11_25_have_tasks() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open_as(&server, "2025-06-18").await;
        let list = client.result(1, "tools/list", json!({})).await;
        assert!(!list.to_string().contains("taskSupport"), "{list}");
        // The wish to be a task is not seen, and what only runs as a task elsewhere runs on its stream.
        let movie = json!({"scene": "x", "frames": 2, "frame_ms": 0});
        let params = json!({"name": "render_movie", "arguments": movie, "task": {}});
        let result = client.result(2, "tools/call", params).await;
        assert_eq!(said(&result), "Rendered x: 2 frames");
        let response = client.response(3, "tasks/list", json!({})).await;
        assert_eq!(response["error"]["code"], -32601);
    });
}

#[test]
fn pushes_task_status_to_its_session() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open(&server).await;
        let standing = client
            .http
            .get(&client.url)
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &client.session)
            .header("mcp-protocol-version", client.version)
            .send()
            .await
            .unwrap();
        let mut standing = Sse {
            response: standing,
            rest: String::new(),
        };
        let id = client
            .begin(1, "crunch", json!({"steps": 3, "step_ms": 20}))
            .await;
        let told = standing
            .until(|event| {
                let params = &event.message.as_ref().unwrap_or(&Value::Null)["params"];
                params["status"] == "completed"
            })
            .await;
        let told: Vec<_> = told
            .into_iter()
            .filter(|event| event.method() == "notifications/tasks/status")
            .map(|event| event.message.unwrap()["params"].clone())
            .collect();
        assert!(
            told.iter().all(|task| task["taskId"] == json!(id)),
            "{told:?}"
        );
        assert_eq!(told.last(), Some(&client.task(2, &id).await));
    });
}

#[test]
fn a_task_of_2025_11_25_asks_while_its_result_is_waited_for() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open_askable(&server).await;
        let deployment = json!({"env": "test", "steps": 2, "step_ms": 1});
        let related = |id: &str| json!({"taskId": id});
        for (n, action, status) in [
            (1, "accept", "completed"),
            (2, "decline", "completed"),
            (3, "cancel", "failed"),
        ] {
            let id = client.begin(n, "deploy", deployment.clone()).await;
            let task = client.task_after(&id, "working").await;
            assert_eq!(task["status"], "input_required");
            let mut waiting = client
                .stream(n + 10, "tasks/result", json!({"taskId": id}))
                .await;
            let question = waiting.until(asks).await.pop().unwrap().message.unwrap();
            let meta = &question["params"]["_meta"]["io.modelcontextprotocol/related-task"];
            assert_eq!(*meta, related(&id));
            assert_eq!(
                question["params"]["requestedSchema"]["properties"]["strategy"]["oneOf"][0]["const"],
                "rolling"
            );
            // A client that lost its stream gets the question again on the next one; the first answer counts.
            let mut other = client
                .stream(n + 20, "tasks/result", json!({"taskId": id}))
                .await;
            let again = other.until(asks).await.pop().unwrap().message.unwrap();
            assert_ne!(again["id"], question["id"]);
            let content = json!({"version": "3.1", "strategy": "rolling"});
            client
                .reply(&again, json!({"action": action, "content": content}))
                .await;
            let [first, second] = [waiting, other].map(Sse::all);
            let first = first.await.pop().unwrap().message.unwrap();
            let second = second.await.pop().unwrap().message.unwrap();
            assert_eq!(first["result"], second["result"]);
            assert_eq!(client.task(n + 30, &id).await["status"], status);
            let words = said(&first["result"]);
            let expected = if action == "accept" { "3.1" } else { action };
            assert!(words.contains(expected), "{words}");
        }
        let mute = Client::open(&server).await;
        let params = json!({"name": "deploy", "arguments": deployment, "task": {}});
        let refused = mute.response(1, "tools/call", params).await;
        assert_eq!(refused["error"]["code"], -32602);
    });
}

#[test]
fn resends_a_question_to_a_resumed_stream() {
    within_deadline(async {
        let (dir, server) = start().await;
        let client = Client::open_askable(&server).await;
        let deployment = json!({"env": "test", "steps": 4, "step_ms": 1});
        let mut call = client.call(1, "deploy", deployment.clone()).await;
        let begun = call.until(asks).await;
        let question = begun.last().unwrap();
        assert_eq!(steps(&begun), [1, 2]);
        demo::control(dir.path(), Fault::Cut { seconds: 0 }).unwrap();
        call.until_broken().await;
        let mut call = client.resume(&begun[0].id).await;
        let again = call.until(asks).await;
        assert_eq!(again.last(), Some(question));
        let content = json!({"version": "1.2", "replicas": 2, "notify": false,
            "strategy": "rolling", "regions": ["eu", "us"]});
        let question = question.message.clone().unwrap();
        client
            .reply(&question, json!({"action": "accept", "content": content}))
            .await;
        let rest = call.all().await;
        assert_eq!(steps(&rest), [3, 4]);
        assert_eq!(rest.last().unwrap().answer()["answers"], content);

        for (n, action) in [(2, "decline"), (3, "cancel")] {
            let mut call = client.call(n, "deploy", deployment.clone()).await;
            let question = call.until(asks).await.pop().unwrap().message.unwrap();
            client.reply(&question, json!({"action": action})).await;
            let response = call.all().await.pop().unwrap().message.unwrap();
            assert!(said(&response["result"]).contains(action), "{response}");
            assert_eq!(response["result"]["isError"] == true, action == "cancel");
        }
        // A cancelled call is answered although its question is open.
        let mut call = client.call(4, "deploy", deployment.clone()).await;
        call.until(asks).await;
        client.cancel(4).await;
        let response = call.all().await.pop().unwrap().message.unwrap();
        assert_eq!(response["error"]["code"], -32800);
        let mute = Client::open(&server).await;
        let response = mute.call(1, "deploy", deployment).await.all().await;
        let response = response.last().unwrap().message.clone().unwrap();
        assert_eq!(response["result"]["isError"], true);
    });
}

#[test]
fn the_faults_reach_modern_streams_too() {
    within_deadline(async {
        let (dir, server) = start().await;
        let modern = Modern::open(&server);
        let status = async |client_id: &str| {
            let arguments = json!({"client_id": client_id});
            let list = modern.call(9, "list_session_tasks", arguments).await;
            let list: Value = serde_json::from_str(said(&list)).unwrap();
            list["tasks"][0]["status"].as_str().unwrap().to_owned()
        };
        for (client_id, fault) in [
            ("drop", Fault::DropAfterNext),
            ("cut", Fault::Cut { seconds: 0 }),
        ] {
            let params = json!({"name": TOOL, "arguments": processing(client_id, 1_000_000, 500)});
            let mut stream = Sse {
                response: modern.post(1, "tools/call", params).await,
                rest: String::new(),
            };
            stream.until(|event| event.progress() == Some(5)).await;
            demo::control(dir.path(), fault).unwrap();
            let rest = stream.until_broken().await;
            assert!(fault != Fault::DropAfterNext || rest.len() == 1, "{rest:?}");
            while status(client_id).await != "interrupted" {}
        }
    });
}

#[test]
fn removes_a_task_after_its_ttl() {
    within_deadline(async {
        let (_dir, server) = start().await;
        let client = Client::open(&server).await;
        let movie = json!({"scene": "x", "frames": 1000, "frame_ms": 1});
        let params = json!({"name": "render_movie", "arguments": movie, "task": {"ttl": 200}});
        let made = client.result(1, "tools/call", params).await["task"].clone();
        assert_eq!(made["ttl"], 200);
        let named = json!({"taskId": made["taskId"]});
        // A client that waits for its result is notified at once.
        let ended = client.response(2, "tasks/result", named.clone()).await;
        assert_eq!(ended["error"]["code"], -32602);
        let gone = client.response(3, "tasks/get", named).await;
        assert_eq!(gone["error"]["code"], -32602);
        let list = client.result(4, "tasks/list", json!({})).await;
        assert_eq!(list["tasks"], json!([]));
    });
}
