//! A server on the official Rust SDK (rmcp 3.8) with its task manager: both eras on one URL, the tasks extension in the
//! modern one. Without `--store` there is only the SDK's own cache of 16 events a stream in the stateful era.
//!
//! `interop-rmcp-server [--store] --port PORT [--journal FILE]`; the first line of stdout is `listening PORT`. The journal is as in
//! `parts.py`: one line `started RUN`, `step RUN N`, `asked`, `ended RUN` or `stopped RUN` each.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unsafe_derive_deserialize,
    reason = "a test program: it says its port on stdout, and a surprise ends it"
)]

use std::{
    error::Error,
    fs::{File, OpenOptions},
    future::Future,
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
        CreateTaskResult, ElicitRequest, ElicitRequestParams, GetTaskParams, GetTaskResult,
        InputRequest, InputRequests, InputRequiredResult, JsonObject, ListToolsResult,
        PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ServerCapabilities,
        ServerConfig, Tool, UpdateTaskParams,
    },
    service::RequestContext,
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::sleep};

mod store;

use store::MemoryStore;

/// What a question wants to know.
const KEY: &str = "who";
/// Carried through an MRTR round, to be given back byte for byte.
const STATE: &str = "st.ate/with+special=chars and \"quotes\"";
/// Suggested to clients that poll.
const POLL_MS: u64 = 500;

/// Tells the driver what really ran.
#[derive(Default)]
struct Journal {
    file: Option<File>,
    runs: AtomicU64,
}

impl Journal {
    fn note(&self, line: &str) {
        // One write a line, so that lines of several runs do not mix.
        if let Some(mut file) = self.file.as_ref() {
            file.write_all(format!("{line}\n").as_bytes())
                .expect("the journal can be written");
        }
    }

    fn run(self: &Arc<Self>) -> Run {
        let number = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        self.note(&format!("started {number}"));
        Run {
            journal: Arc::clone(self),
            number,
            finished: false,
        }
    }
}

/// One run of a tool; its end is noted also where its future is only dropped.
struct Run {
    journal: Arc<Journal>,
    number: u64,
    finished: bool,
}

impl Drop for Run {
    fn drop(&mut self) {
        let word = if self.finished { "ended" } else { "stopped" };
        self.journal.note(&format!("{word} {}", self.number));
    }
}

#[derive(Clone, Copy, Deserialize)]
struct Steps {
    steps: u64,
    delay_ms: u64,
}

impl Steps {
    /// The work of the slow tools: every step, and word of it; `None` where it was stopped.
    async fn work<Told: Future<Output = ()>>(
        self,
        journal: &Arc<Journal>,
        stop: impl Future<Output = ()>,
        tell: impl Fn(u64) -> Told,
    ) -> Option<CallToolResult> {
        let mut run = journal.run();
        let work = async {
            for step in 1..=self.steps {
                sleep(Duration::from_millis(self.delay_ms)).await; // sleep: the work of a step
                run.journal.note(&format!("step {} {step}", run.number));
                tell(step).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = stop => return None,
        }
        run.finished = true;
        Some(text(&format!("counted {}", self.steps)))
    }
}

fn text(words: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words)])
}

fn arguments(request: &CallToolRequestParams) -> Result<Steps, ErrorData> {
    serde_json::from_value(Value::Object(request.arguments.clone().unwrap_or_default()))
        .map_err(|error| ErrorData::invalid_params(error.to_string(), None))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

fn question() -> Result<ElicitRequestParams, ErrorData> {
    let schema = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "loud": {"type": "boolean", "default": false}},
        "required": ["name"],
    });
    Ok(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "What is your name?".into(),
        requested_schema: serde_json::from_value(schema)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?,
    })
}

/// What the tool makes of an answer, as it came on the wire.
fn greeting(answer: &Value) -> String {
    match answer["action"].as_str() {
        Some("accept") => format!(
            "hello {}",
            answer["content"]["name"].as_str().unwrap_or("?")
        ),
        other => format!("no name: {}", other.unwrap_or("?")),
    }
}

/// The handler; every session and every modern request gets a clone of it.
#[derive(Clone, Default)]
struct Server {
    journal: Arc<Journal>,
    tasks: TaskManager,
}

impl Server {
    fn task(
        &self,
        operation: impl FnOnce(TaskContext, Arc<Journal>) -> Operation,
    ) -> CallToolResponse {
        let journal = Arc::clone(&self.journal);
        let options = TaskOptions::new().with_poll_interval_ms(POLL_MS);
        let task = self
            .tasks
            .spawn(options, |context| operation(context, journal));
        CallToolResponse::Task(CreateTaskResult::new(task))
    }

    async fn count(
        &self,
        steps: Steps,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let token = context.meta.get_progress_token();
        let peer: Peer<RoleServer> = context.peer;
        let done = steps.work(&self.journal, context.ct.cancelled(), |step| {
            let (token, peer) = (token.clone(), peer.clone());
            async move {
                let Some(token) = token else { return };
                let told = ProgressNotificationParam::new(token, step as f64)
                    .with_total(steps.steps as f64)
                    .with_message(format!("step {step} of {}", steps.steps));
                // Nobody may be listening anymore; the work continues.
                let _ = peer.notify_progress(told).await;
            }
        });
        done.await
            .ok_or_else(|| ErrorData::internal_error("cancelled", None))
    }

    /// Asks in the way of the era: as the call's answer, or on its stream.
    async fn ask(
        &self,
        request: &CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let is_modern = context
            .protocol_version()
            .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let given = request
            .input_responses
            .as_ref()
            .and_then(|all| all.get(KEY))
            .cloned();
        let answer = match given {
            Some(answer) if request.request_state.as_deref() == Some(STATE) => answer,
            Some(_) => {
                return Err(ErrorData::invalid_params(
                    "the state did not come back as it was",
                    None,
                ));
            }
            None if is_modern => {
                self.journal.note("asked");
                let ask = InputRequest::Elicitation(ElicitRequest::new(question()?));
                let asks = InputRequests::from([(KEY.to_owned(), ask)]);
                return Ok(InputRequiredResult::new(Some(asks), Some(STATE.to_owned())).into());
            }
            None => {
                self.journal.note("asked");
                let answer = context.peer.create_elicitation(question()?).await;
                let answer =
                    answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                serde_json::to_value(answer).unwrap_or_default()
            }
        };
        let mut run = self.journal.run();
        run.finished = true;
        Ok(text(&greeting(&answer)).into())
    }
}

type Operation = rmcp::task_manager::TaskFuture;

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_tools()
                .enable_tasks()
                .build(),
        )
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let whole = json!({"type": "integer"});
        let steps = object(json!({
            "type": "object",
            "properties": {"steps": whole, "delay_ms": whole},
            "required": ["steps", "delay_ms"],
        }));
        let nothing = object(json!({"type": "object", "properties": {}}));
        Ok(ListToolsResult::with_all_items(vec![
            Tool::new(
                "slow_count",
                "Count to `steps`, never as a task",
                steps.clone(),
            ),
            Tool::new(
                "slow_task",
                "The same as a task, where the client knows tasks",
                steps,
            ),
            Tool::new("ask_name", "Ask for a name, and greet", nothing.clone()),
            Tool::new(
                "ask_task",
                "The same as a task, where the client knows tasks",
                nothing,
            ),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let knows_tasks = context
            .client_capabilities()
            .is_some_and(|known| known.supports_tasks());
        match (request.name.as_ref(), knows_tasks) {
            ("slow_task", true) => {
                let steps = arguments(&request)?;
                Ok(self.task(|context, journal| {
                    Box::pin(async move {
                        let tell = |step| {
                            context.set_status_message(format!("step {step} of {}", steps.steps));
                            std::future::ready(())
                        };
                        let done = steps.work(&journal, context.cancelled(), tell).await;
                        done.ok_or(TaskExit::Cancelled)
                    })
                }))
            }
            ("ask_task", true) => {
                let ask = question()?;
                Ok(self.task(|context, journal| {
                    Box::pin(async move {
                        journal.note("asked");
                        let ask = InputRequest::Elicitation(ElicitRequest::new(ask));
                        let answer = context.request_input(KEY, ask).await?;
                        let mut run = journal.run();
                        run.finished = true;
                        Ok(text(&greeting(&answer)))
                    })
                }))
            }
            ("slow_count" | "slow_task", _) => {
                Ok(self.count(arguments(&request)?, context).await?.into())
            }
            ("ask_name" | "ask_task", _) => self.ask(&request, context).await,
            (name, _) => Err(ErrorData::invalid_params(
                format!("unknown tool: {name}"),
                None,
            )),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks
            .update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (mut port, mut file) = (0, None);
    let mut words = std::env::args().skip(1).peekable();
    let mut sessions = LocalSessionManager::default();
    if words.next_if_eq("--store").is_some() {
        sessions = sessions.with_event_store(Arc::new(MemoryStore::default()));
    }
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        match name.as_str() {
            "--port" => port = value.parse()?,
            "--journal" => file = Some(OpenOptions::new().create(true).append(true).open(value)?),
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    let journal = Arc::new(Journal {
        file,
        runs: AtomicU64::new(0),
    });
    let server = Server {
        journal,
        tasks: TaskManager::new(),
    };
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(sessions),
        StreamableHttpServerConfig::default(),
    );
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening {}", listener.local_addr()?.port());
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
