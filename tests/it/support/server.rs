//! Servers inside the test's process.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    cell::RefCell,
    net::{SocketAddr, TcpListener},
    thread,
};

use axum::{
    Router,
    body::Body,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::post,
};
use futures_util::{Stream, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::oneshot;

thread_local! {
    /// Dropping these ends the servers of this thread.
    static SERVERS: RefCell<Vec<oneshot::Sender<()>>> = const { RefCell::new(Vec::new()) };
}

/// Serves `router` on a free port until the calling thread, one per test, ends. Hundreds of tests
/// run in one process, and what they hold open must not add up.
pub(crate) fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let (end, ended) = oneshot::channel();
    SERVERS.with_borrow_mut(|servers| servers.push(end));
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            tokio::select! {
                served = axum::serve(listener, router) => served.unwrap(),
                _ = ended => {}
            }
        });
    });
    addr
}

/// Keeps the servers that this thread started until the process ends, because tests share them.
pub(crate) fn keep() {
    SERVERS.take().into_iter().for_each(std::mem::forget);
}

/// A call that reached a server of [`one_tool`], and what can be sent to it.
#[derive(Clone)]
pub(crate) struct Call {
    id: Value,
    params: Value,
}

impl Call {
    pub(crate) fn arguments(&self) -> &Value {
        &self.params["arguments"]
    }

    /// A progress event.
    pub(crate) fn step(&self, value: u64) -> String {
        let params = json!({"progressToken": self.params["_meta"]["progressToken"], "progress": value,
            "message": format!("record {value}")});
        let message =
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        format!("data: {message}\n\n")
    }

    /// The event that ends it with a text.
    pub(crate) fn result(&self, words: &str) -> String {
        self.answer(&json!({"content": [{"type": "text", "text": words}]}))
    }

    /// The event that ends it with this result.
    pub(crate) fn answer(&self, result: &Value) -> String {
        let message = json!({"jsonrpc": "2.0", "id": self.id, "result": result});
        format!("data: {message}\n\n")
    }
}

/// Answers everything but `tools/call` for a server with one tool.
pub(crate) fn answer_with_one_tool(server: &str, tool: &str, message: &Value) -> Response {
    let id = &message["id"];
    let result = match message["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}}, "serverInfo": {"name": server, "version": "1"}}),
        Some("tools/list") => {
            json!({"tools": [{"name": tool, "inputSchema": {"type": "object"}}]})
        }
        _ if id.is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => json!({}),
    };
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    ([("content-type", "application/json")], answer).into_response()
}

/// A server without sessions and event ids whose only tool answers each call with the parts of a stream.
pub(crate) fn one_tool<A, S>(tool: &'static str, answer: A) -> SocketAddr
where
    A: Fn(&Call) -> S + Clone + Send + Sync + 'static,
    S: Stream<Item = String> + Send + 'static,
{
    let handle = async move |body: String| -> Response {
        let mut message: Value = serde_json::from_str(&body).unwrap();
        if message["method"] != "tools/call" {
            return answer_with_one_tool(tool, tool, &message);
        }
        let (id, params) = (message["id"].take(), message["params"].take());
        let parts = answer(&Call { id, params }).map(Ok::<_, std::io::Error>);
        let head = [("content-type", "text/event-stream")];
        (head, Body::from_stream(parts)).into_response()
    };
    serve(Router::new().route("/mcp", post(handle)))
}

/// The demo server on a free port, with its data in `dir`.
#[cfg(feature = "demo")]
pub(crate) fn demo(dir: std::path::PathBuf) -> super::demo_server::DemoServer {
    let options = longhaul::demo::DemoOptions {
        dir,
        port: None,
        cross_stream_replay: false,
        idle_exit: None,
    };
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(super::demo_server::serve(options))
        .unwrap()
}
