//! The tools, as a client sees them.
//!
//! Owns their schemas, words and answers. Must not know HTTP. Progress goes through the SDK; log lines are stored on the
//! call's own stream (the SDK would send them to the standalone stream, where a call's history cannot find them).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode,
        Implementation, JsonObject, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    checkpoints::Status,
    disk::{random_id, rfc3339},
    events::Events,
    life::{Busy, Presence},
    runs::{Runs, Step, Stop, Work},
    sessions::Slot,
};

/// The logger that log lines name.
pub(super) const LOGGER: &str = "longhaul-demo";
/// The name of the checkpoint tool; part of the key of its checkpoints.
const PROCESSING: &str = "resumable_data_processing";
/// Steps of a forecast, unless it is asked for more.
const STATIONS: u32 = 6;
/// Records and bursts above this are a slip of the keyboard.
const MOST: u64 = 10_000_000;
/// The JSON-RPC code that other servers use too for a cancelled request.
pub(super) const CANCELLED: ErrorCode = ErrorCode(-32800);

/// What is the same for every session of a boot.
pub(super) struct Shared {
    pub(super) events: Arc<Events>,
    pub(super) runs: Arc<Runs>,
    pub(super) presence: Arc<Presence>,
    pub(super) boot: i64,
    pub(super) started_ms: i64,
}

/// The levels of log lines, mildest first.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

#[derive(Clone, Copy)]
enum Level {
    Debug = 0,
    Info = 1,
    Warning = 3,
}

/// The handler of one server session.
pub(super) struct Tools {
    shared: Arc<Shared>,
    /// Index into `LEVELS` of the mildest level that the client wants.
    level: Arc<AtomicUsize>,
}

impl Tools {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            level: Arc::new(AtomicUsize::new(Level::Info as usize)),
        }
    }
}

/// One running call: how it speaks to its client, and how the client stops it.
struct Call {
    events: Arc<Events>,
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    stream: Option<String>,
    level: Arc<AtomicUsize>,
    /// The client cancelled this request.
    cancel: CancellationToken,
    /// The server session ended, which ends what was asked in it.
    session_end: CancellationToken,
    /// Held as long as the call runs: a cancellation reaches only calls whose slot is alive.
    _slot: Option<Slot>,
    _busy: Busy,
}

impl Call {
    async fn new(tools: &Tools, context: RequestContext<RoleServer>) -> Self {
        let slot = context.extensions.get::<Slot>().cloned();
        let (stream, cancel) = match &slot {
            Some(slot) => (Some(slot.stream().await.to_owned()), slot.cancel()),
            None => (None, CancellationToken::new()),
        };
        Self {
            events: Arc::clone(&tools.shared.events),
            token: context.meta.get_progress_token(),
            peer: context.peer,
            stream,
            level: Arc::clone(&tools.level),
            cancel,
            session_end: context.ct,
            _slot: slot,
            _busy: Presence::busy(&tools.shared.presence),
        }
    }

    async fn progress(&self, progress: u64, total: u64, message: String) {
        let Some(token) = self.token.clone() else {
            return;
        };
        let step = ProgressNotificationParam::new(token, progress as f64)
            .with_total(total as f64)
            .with_message(message);
        if let Err(error) = self.peer.notify_progress(step).await {
            tracing::debug!(%error, "a progress step found no session");
        }
    }

    fn log(&self, level: Level, data: impl Into<String>) {
        let Some(stream) = &self.stream else { return };
        let index = level as usize;
        if index < self.level.load(Ordering::Relaxed) {
            return;
        }
        let message = json!({
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": {"level": LEVELS.get(index), "logger": LOGGER, "data": data.into()},
        });
        if let Err(error) = self.events.append_json(stream, &message) {
            tracing::warn!(%error, "a log line could not be stored");
        }
    }

    async fn cancelled(&self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.session_end.cancelled() => {}
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.session_end.is_cancelled()
    }

    /// Waits, as work would take time; an error as soon as the client cancels.
    async fn wait(&self, length: Duration) -> Result<(), ErrorData> {
        tokio::select! {
            biased;
            () = self.cancelled() => Err(cancelled()),
            () = sleep(length) => Ok(()), // sleep: it is the work
        }
    }
}

fn cancelled() -> ErrorData {
    ErrorData::new(CANCELLED, "Request cancelled", None)
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn invalid(words: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(words.into(), None)
}

fn json_text(value: &Value) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(value.to_string())])
}

fn refusal(words: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(words.into())])
}

fn arguments<T: DeserializeOwned>(given: Option<JsonObject>) -> Result<T, ErrorData> {
    serde_json::from_value(Value::Object(given.unwrap_or_default()))
        .map_err(|error| invalid(error.to_string()))
}

fn six_stations() -> u32 {
    STATIONS
}

fn a_second() -> u64 {
    1000
}

#[derive(Deserialize)]
struct Processing {
    dataset_name: String,
    #[serde(default = "Processing::total")]
    total_records: u64,
    #[serde(default = "Processing::batch")]
    batch_size: u64,
    #[serde(default)]
    client_id: Option<String>,
    #[serde(default = "a_second")]
    delay_ms: u64,
}

impl Processing {
    fn total() -> u64 {
        100
    }

    fn batch() -> u64 {
        10
    }
}

#[derive(Deserialize)]
struct OfTask {
    task_id: String,
}

#[derive(Deserialize)]
struct OfClient {
    client_id: String,
}

#[derive(Deserialize)]
struct Cleanup {
    #[serde(default = "Cleanup::week")]
    max_age_days: u64,
}

impl Cleanup {
    fn week() -> u64 {
        7
    }
}

#[derive(Deserialize)]
struct Forecast {
    city: String,
    #[serde(default = "a_second")]
    delay_ms: u64,
    #[serde(default = "six_stations")]
    stations: u32,
}

#[derive(Deserialize)]
struct Burst {
    count: u64,
}

impl Tools {
    async fn process(&self, call: &Call, given: Processing) -> Result<CallToolResult, ErrorData> {
        if !(1..=MOST).contains(&given.total_records) || given.batch_size == 0 {
            return Err(invalid(format!(
                "total_records must be 1 to {MOST} and batch_size at least 1"
            )));
        }
        let client_id = match given.client_id {
            Some(id) if !id.is_empty() => id,
            _ => random_id().map_err(internal)?,
        };
        let total = given.total_records;
        let work = Work {
            client_id: client_id.clone(),
            tool: PROCESSING,
            // The pace is no part of the key: the same work at another pace goes on where it stopped.
            arguments: json!([given.dataset_name, total, given.batch_size]).to_string(),
            dataset: given.dataset_name.clone(),
            total,
            batch: given.batch_size,
            delay: Duration::from_millis(given.delay_ms),
        };
        let mut joined = self
            .shared
            .runs
            .start_or_join(work)
            .await
            .map_err(internal)?;
        let task_id = joined.checkpoint.task_id.clone();
        let begin = joined.checkpoint.progress;
        if begin >= total {
            call.log(
                Level::Info,
                format!("{} has been processed before", given.dataset_name),
            );
            call.progress(
                begin,
                total,
                format!("Already processed {begin}/{total} records"),
            )
            .await;
        } else if begin > 0 || joined.was_running {
            let words = format!("Resuming processing from record {begin}");
            call.log(Level::Info, words.clone());
            call.progress(begin, total, words).await;
        } else {
            call.log(
                Level::Info,
                format!("Starting to process {}", given.dataset_name),
            );
        }
        if joined.was_running {
            call.log(Level::Debug, "Joined the run that was still going");
        }
        let mut is_stopping = false;
        let (status, processed) = loop {
            let step = tokio::select! {
                biased;
                step = joined.steps.recv() => step,
                () = call.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    self.shared.runs.stop(&task_id, Stop::Cancel);
                    continue;
                }
            };
            match step {
                Some(Step::Moved(done)) => {
                    call.log(
                        Level::Debug,
                        format!("Committed the batch up to record {done}"),
                    );
                    let words = format!("Processed {done}/{total} records");
                    call.progress(done, total, words).await;
                }
                Some(Step::Ended(status, done)) => break (status, done),
                None => return Err(internal("the run vanished")),
            }
        };
        if call.is_cancelled() && status == Status::Cancelled {
            return Err(cancelled());
        }
        let words = match status {
            Status::Completed => format!("Finished {}", given.dataset_name),
            other => format!("Stopped at record {processed}: {}", other.word()),
        };
        call.log(
            if status == Status::Failed {
                Level::Warning
            } else {
                Level::Info
            },
            words,
        );
        let answer = json!({
            "status": status.word(),
            "task_id": task_id,
            "client_id": client_id,
            "dataset_name": given.dataset_name,
            "processed": processed,
            "total": total,
            "resumed_from": begin,
        });
        if status == Status::Failed {
            return Ok(refusal(answer.to_string()));
        }
        Ok(json_text(&answer))
    }

    fn pause(&self, given: &OfTask) -> Result<CallToolResult, ErrorData> {
        let runs = &self.shared.runs;
        let was_running = runs.stop(&given.task_id, Stop::Pause);
        let Some(task) = runs.checkpoints.of_task(&given.task_id).map_err(internal)? else {
            return Ok(refusal(format!("there is no task {}", given.task_id)));
        };
        let message = if was_running {
            "pause requested, the batch that is being worked on ends first".to_owned()
        } else {
            format!("the task was not running, it is {}", task.status.word())
        };
        Ok(json_text(&json!({
            "task_id": task.task_id,
            "tool": task.tool,
            "status": task.status.word(),
            "progress": task.progress,
            "total": task.total,
            "message": message,
        })))
    }

    fn list(&self, given: &OfClient) -> Result<CallToolResult, ErrorData> {
        let tasks = self
            .shared
            .runs
            .checkpoints
            .of_client(&given.client_id)
            .map_err(internal)?;
        let tasks: Vec<_> = tasks
            .iter()
            .map(super::checkpoints::Checkpoint::json)
            .collect();
        Ok(json_text(
            &json!({"client_id": given.client_id, "tasks": tasks}),
        ))
    }

    fn session_info(&self) -> CallToolResult {
        json_text(&json!({
            "server": LOGGER,
            "version": env!("CARGO_PKG_VERSION"),
            "boot_id": self.shared.boot,
            "started_at": rfc3339(self.shared.started_ms),
            "pid": std::process::id(),
        }))
    }

    fn cleanup(&self, given: &Cleanup) -> Result<CallToolResult, ErrorData> {
        let checkpoints = &self.shared.runs.checkpoints;
        let forgotten = checkpoints
            .forget_older_than(given.max_age_days)
            .map_err(internal)?;
        Ok(json_text(
            &json!({"removed": forgotten, "max_age_days": given.max_age_days}),
        ))
    }

    async fn forecast(call: &Call, given: Forecast) -> Result<CallToolResult, ErrorData> {
        call.log(
            Level::Info,
            format!("Asking the stations around {}", given.city),
        );
        for step in 1..=given.stations {
            call.wait(Duration::from_millis(given.delay_ms)).await?;
            let words = format!("Station {step} of {} has answered", given.stations);
            call.progress(u64::from(step), u64::from(given.stations), words)
                .await;
        }
        let (sky, degrees) = sky_over(&given.city);
        let words = format!("{}: {sky}, {degrees} °C", given.city);
        Ok(CallToolResult::success(vec![ContentBlock::text(words)]))
    }

    async fn burst(call: &Call, given: Burst) -> Result<CallToolResult, ErrorData> {
        if given.count > MOST {
            return Err(invalid(format!("count must be at most {MOST}")));
        }
        for n in 1..=given.count {
            if call.is_cancelled() {
                return Err(cancelled());
            }
            call.progress(n, given.count, format!("Message {n}")).await;
        }
        Ok(json_text(&json!({"sent": given.count})))
    }

    async fn run(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let given = request.arguments;
        let call = Call::new(self, context).await;
        match request.name.as_ref() {
            PROCESSING => self.process(&call, arguments(given)?).await,
            "pause_task" => self.pause(&arguments(given)?),
            "list_session_tasks" => self.list(&arguments(given)?),
            "get_checkpoint_stats" => {
                let stats = self.shared.runs.checkpoints.stats().map_err(internal)?;
                Ok(json_text(&stats))
            }
            "get_session_info" => Ok(self.session_info()),
            "cleanup_checkpoints" => self.cleanup(&arguments(given)?),
            "get_forecast" => Self::forecast(&call, arguments(given)?).await,
            "send_burst" => Self::burst(&call, arguments(given)?).await,
            other => Err(invalid(format!("there is no tool {other}"))),
        }
    }
}

/// A sky that is the same each time for the same city, so that a repeated call can be compared.
fn sky_over(city: &str) -> (&'static str, i32) {
    let sum: u32 = city.bytes().map(u32::from).sum();
    let sky = match sum % 4 {
        0 => "sunny",
        1 => "cloudy",
        2 => "light rain",
        _ => "clear with some wind",
    };
    (sky, 12 + i32::try_from(sum % 17).unwrap_or(0))
}

/// The tools with their schemas, in the order in which they are listed.
fn catalogue() -> Vec<Tool> {
    let text = || json!({"type": "string"});
    let whole = |default: u64, words: &str| json!({"type": "integer", "minimum": 1, "default": default, "description": words});
    let delay = |of: &str| json!({"type": "integer", "minimum": 0, "default": 1000, "description": format!("milliseconds that {of} takes")});
    let tools: [(&'static str, &'static str, Value, &[&str]); 8] = [
        (
            PROCESSING,
            "Process the records of a dataset in batches; interrupted work goes on at its checkpoint",
            json!({
                "dataset_name": text(),
                "total_records": whole(100, "records to process"),
                "batch_size": whole(10, "records of one batch"),
                "client_id": {"type": ["string", "null"], "default": null,
                    "description": "whose checkpoint; the same id and arguments go on where they stopped"},
                "delay_ms": delay("a batch"),
            }),
            &["dataset_name"],
        ),
        (
            "pause_task",
            "Ask a task to pause at the end of its batch",
            json!({"task_id": text()}),
            &["task_id"],
        ),
        (
            "list_session_tasks",
            "List the tasks of a client id, with their checkpoints",
            json!({"client_id": text()}),
            &["client_id"],
        ),
        (
            "get_checkpoint_stats",
            "Count checkpoints, records and events",
            json!({}),
            &[],
        ),
        (
            "get_session_info",
            "Say which server this is and since when it runs",
            json!({}),
            &[],
        ),
        (
            "cleanup_checkpoints",
            "Forget checkpoints that have not moved for some days",
            json!({"max_age_days": {"type": "integer", "minimum": 0, "default": 7}}),
            &[],
        ),
        (
            "get_forecast",
            "Forecast the weather of a city; takes six seconds and keeps no checkpoint",
            json!({
                "city": text(),
                "delay_ms": delay("a station"),
                "stations": {"type": "integer", "minimum": 0, "maximum": u32::MAX, "default": STATIONS},
            }),
            &["city"],
        ),
        (
            "send_burst",
            "Send numbered messages as fast as they go",
            json!({"count": {"type": "integer", "minimum": 0, "maximum": MOST}}),
            &["count"],
        ),
    ];
    tools
        .into_iter()
        .map(|(name, words, properties, required)| {
            let mut schema = JsonObject::new();
            schema.insert("type".to_owned(), "object".into());
            schema.insert("properties".to_owned(), properties);
            schema.insert("required".to_owned(), json!(required));
            Tool::new(name, words, schema)
        })
        .collect()
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        // Spelled as JSON because the SDK marks its name for logging as deprecated; these eras still have it.
        let capabilities: ServerCapabilities =
            serde_json::from_value(json!({"tools": {}, "logging": {}})).unwrap_or_default();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(LOGGER, env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "A server to break and to come back to. resumable_data_processing keeps a checkpoint for each client_id.",
            )
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult {
            tools: catalogue(),
            ..ListToolsResult::default()
        })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        catalogue().into_iter().find(|tool| tool.name == name)
    }

    #[expect(
        deprecated,
        reason = "logging/setLevel exists in the stateful eras, which this server speaks"
    )]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let word = serde_json::to_value(request.level).map_err(internal)?;
        let index = LEVELS
            .iter()
            .position(|level| word == *level)
            .unwrap_or(Level::Info as usize);
        self.level.store(index, Ordering::Relaxed);
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.run(request, context).await.map(CallToolResponse::from)
    }
}
