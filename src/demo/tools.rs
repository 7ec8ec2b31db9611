//! The tools: their arguments, work and results.
//!
//! `ToolContext` hides the protocol era and whether a tool runs as a call or as a server task.

use std::time::Duration;

use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, JsonObject},
    schemars::JsonSchema,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    checkpoints::{CheckpointRecord, CheckpointStatus, SESSION_INFO, STATS},
    context::{LogSeverity, ToolContext, cancelled, internal, invalid},
    database::random_id,
    elicitation::{self, ElicitationReply},
    runs::{RunSpec, RunSubscription, RunUpdate},
};

/// The name of the checkpoint tool, part of the key of its checkpoints.
pub(super) const PROCESSING: &str = "resumable_data_processing";

/// The maximum for records, steps and bursts, to catch typos.
pub(super) const MAX_COUNT: u64 = 10_000_000;

/// A tool with its parsed arguments. The doc comments of its parts are what clients see.
#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
#[serde(tag = "tool", content = "arguments", rename_all = "snake_case")]
pub(super) enum ToolInvocation {
    /// Process the records of a dataset in batches; interrupted work resumes from its checkpoint
    ResumableDataProcessing(ProcessArgs),
    /// Pause a task at the end of its current batch
    PauseTask { task_id: String },
    /// List the tasks that belong to a client id, with their checkpoints
    ListSessionTasks { client_id: String },
    /// Count checkpoints, processed records and stored events
    GetCheckpointStats {},
    /// Count this server's starts, and say when the last one was
    GetSessionInfo {},
    /// Delete checkpoints that have not changed for some days, with their records
    CleanupCheckpoints {
        #[serde(default = "number::<7>")]
        max_age_days: u64,
    },
    /// Forecast the weather for a city; takes six seconds by default and keeps no checkpoint
    GetForecast(ForecastArgs),
    /// Send numbered messages as fast as possible
    SendBurst {
        #[schemars(range(max = MAX_COUNT))]
        count: u64,
    },
    /// Count steps, each exactly once, as a call or a server task
    Crunch(CrunchArgs),
    /// Render the frames of a scene; runs as a server task that survives a disconnect and a restart of the server
    RenderMovie(RenderArgs),
    /// Deploy to an environment in steps; asks for release details halfway
    Deploy(DeployArgs),
}

impl ToolInvocation {
    /// Parses a tool name and its arguments.
    pub(super) fn parse(tool: &str, args: Option<JsonObject>) -> Result<Self, ErrorData> {
        let call = json!({"tool": tool, "arguments": args.unwrap_or_default()});
        serde_json::from_value(call).map_err(|error| invalid(error.to_string()))
    }

    /// Runs the tool to its result.
    pub(super) async fn run(self, context: &ToolContext) -> Result<CallToolResult, ErrorData> {
        match self {
            Self::ResumableDataProcessing(args) => process(context, args).await,
            Self::PauseTask { task_id } => pause(context, &task_id),
            Self::ListSessionTasks { client_id } => list(context, &client_id),
            Self::GetCheckpointStats {} => select(context, STATS),
            Self::GetSessionInfo {} => select(context, SESSION_INFO),
            Self::CleanupCheckpoints { max_age_days } => cleanup(context, max_age_days),
            Self::GetForecast(args) => forecast(context, args).await,
            Self::SendBurst { count } => burst(context, count).await,
            Self::Crunch(args) => crunch(context, args).await,
            Self::RenderMovie(args) => render(context, args).await,
            Self::Deploy(args) => deploy(context, args).await,
        }
    }
}

fn text_result(content: impl std::fmt::Display) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(content.to_string())])
}

fn error_result(message: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message.into())])
}

/// The default of an argument.
fn number<const N: u64>() -> u64 {
    N
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ProcessArgs {
    dataset_name: String,
    /// records to process
    #[serde(default = "number::<100>")]
    #[schemars(range(min = 1))]
    total_records: u64,
    /// records per batch
    #[serde(default = "number::<10>")]
    #[schemars(range(min = 1))]
    batch_size: u64,
    /// owner of the checkpoint; a call with the same id and arguments resumes it
    #[serde(default)]
    client_id: Option<String>,
    /// milliseconds per batch
    #[serde(default = "number::<1000>")]
    delay_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct ForecastArgs {
    city: String,
    /// milliseconds per station
    #[serde(default = "number::<1000>")]
    delay_ms: u64,
    #[serde(default = "number::<6>")]
    stations: u64,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct CrunchArgs {
    /// steps to take
    #[serde(default = "number::<20>")]
    #[schemars(range(min = 1))]
    steps: u64,
    /// milliseconds per step
    #[serde(default = "number::<500>")]
    step_ms: u64,
    /// run as a server task where the request allows it
    // In the modern era the server decides what becomes a task; this lets the client choose.
    #[serde(default)]
    pub(super) as_task: bool,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct RenderArgs {
    scene: String,
    /// frames to render
    #[serde(default = "number::<120>")]
    #[schemars(range(min = 1))]
    frames: u64,
    /// milliseconds per frame
    #[serde(default = "number::<250>")]
    frame_ms: u64,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct DeployArgs {
    env: String,
    /// steps to take
    #[serde(default = "number::<6>")]
    #[schemars(range(min = 1))]
    steps: u64,
    /// milliseconds per step
    #[serde(default = "number::<1000>")]
    step_ms: u64,
}

async fn process(context: &ToolContext, args: ProcessArgs) -> Result<CallToolResult, ErrorData> {
    if !(1..=MAX_COUNT).contains(&args.total_records) || args.batch_size == 0 {
        return Err(invalid(format!(
            "total_records must be 1 to {MAX_COUNT} and batch_size at least 1"
        )));
    }
    let client_id = match args.client_id {
        Some(id) if !id.is_empty() => id,
        // A server task uses its own id, to find its checkpoint again after a restart.
        _ => match context.task_id() {
            Some(task) => task.to_owned(),
            None => random_id().map_err(internal)?,
        },
    };
    let total = args.total_records;
    let spec = RunSpec {
        client_id: client_id.clone(),
        tool: PROCESSING,
        // The delay is not part of the key, so the same work can resume at another speed.
        arguments: json!([args.dataset_name, total, args.batch_size]).to_string(),
        dataset: args.dataset_name.clone(),
        total,
        batch: args.batch_size,
        delay: Duration::from_millis(args.delay_ms),
    };
    let run = context.shared.runs.start_or_join(spec).await;
    let mut run = run.map_err(internal)?;
    let task_id = run.checkpoint.task_id.clone();
    let start = run.checkpoint.progress;
    report_start(context, &run, &args.dataset_name, total).await;
    let (status, processed) = follow_run(context, &mut run, total).await?;
    let message = match status {
        CheckpointStatus::Completed => format!("Finished {}", args.dataset_name),
        other => format!("Stopped at record {processed}: {}", other.label()),
    };
    let severity = match status {
        CheckpointStatus::Failed => LogSeverity::Warning,
        _ => LogSeverity::Info,
    };
    context.log(severity, message);
    let response = json!({
        "status": status.label(),
        "task_id": task_id,
        "client_id": client_id,
        "dataset_name": args.dataset_name,
        "processed": processed,
        "total": total,
        "resumed_from": start,
    });
    if status == CheckpointStatus::Failed {
        return Ok(error_result(response.to_string()));
    }
    Ok(text_result(response))
}

async fn report_start(context: &ToolContext, run: &RunSubscription, dataset: &str, total: u64) {
    let start = run.checkpoint.progress;
    if start >= total {
        let line = format!("{dataset} was already processed");
        context.log(LogSeverity::Info, line);
        let message = format!("Already processed {start}/{total} records");
        context.progress(start, total, message).await;
    } else if start > 0 || run.was_running {
        let message = format!("Resuming processing from record {start}");
        context.log(LogSeverity::Info, message.clone());
        context.progress(start, total, message).await;
    } else {
        let message = format!("Starting to process {dataset}");
        context.log(LogSeverity::Info, message);
    }
    if run.was_running {
        context.log(LogSeverity::Debug, "Joined the run in progress");
    }
}

/// Reports the progress of a run until it ends; returns how, and how many records it has processed. Fails when the call
/// is cancelled.
async fn follow_run(
    context: &ToolContext,
    run: &mut RunSubscription,
    total: u64,
) -> Result<(CheckpointStatus, u64), ErrorData> {
    loop {
        let update = tokio::select! {
            biased;
            update = run.updates.recv() => update,
            () = context.cancelled() => {
                context.shared.runs.leave(run, context.stop_reason()).await;
                return Err(cancelled());
            }
        };
        match update {
            Some(RunUpdate::Progress(done)) => {
                context.log(
                    LogSeverity::Debug,
                    format!("Committed the batch up to record {done}"),
                );
                let message = format!("Processed {done}/{total} records");
                context.progress(done, total, message).await;
            }
            Some(RunUpdate::Ended(status, done)) => return Ok((status, done)),
            None => return Err(internal("the run ended without a status")),
        }
    }
}

fn pause(context: &ToolContext, task_id: &str) -> Result<CallToolResult, ErrorData> {
    let runs = &context.shared.runs;
    let was_running = runs.pause(task_id);
    let Some(task) = runs.checkpoints.of_task(task_id).map_err(internal)? else {
        return Ok(error_result(format!("unknown task {task_id}")));
    };
    let message = if was_running {
        "pause requested; the current batch finishes first".to_owned()
    } else {
        format!("the task is not running: it is {}", task.status.label())
    };
    Ok(text_result(json!({
        "task_id": task.task_id,
        "tool": task.tool,
        "status": task.status.label(),
        "progress": task.progress,
        "total": task.total,
        "message": message,
    })))
}

fn list(context: &ToolContext, client_id: &str) -> Result<CallToolResult, ErrorData> {
    let checkpoints = &context.shared.runs.checkpoints;
    let tasks = checkpoints.of_client(client_id).map_err(internal)?;
    let tasks: Vec<_> = tasks.iter().map(CheckpointRecord::json).collect();
    Ok(text_result(json!({"client_id": client_id, "tasks": tasks})))
}

/// Returns the JSON that a query of the database selects.
fn select(context: &ToolContext, sql: &str) -> Result<CallToolResult, ErrorData> {
    let selected = context.shared.runs.checkpoints.select_text(sql);
    Ok(text_result(selected.map_err(internal)?))
}

fn cleanup(context: &ToolContext, days: u64) -> Result<CallToolResult, ErrorData> {
    let checkpoints = &context.shared.runs.checkpoints;
    let deleted = checkpoints.delete_older_than(days).map_err(internal)?;
    Ok(text_result(json!({"deleted": deleted})))
}

async fn forecast(context: &ToolContext, args: ForecastArgs) -> Result<CallToolResult, ErrorData> {
    context.log(
        LogSeverity::Info,
        format!("Asking the stations around {}", args.city),
    );
    let stations = args.stations;
    for step in context.next_step()..=stations {
        let message = format!("Station {step} of {stations} has answered");
        context.step(args.delay_ms, step, stations, message).await?;
    }
    let (sky, degrees) = sky_over(&args.city);
    let message = format!("{}: {sky}, {degrees} °C", args.city);
    Ok(text_result(message))
}

async fn burst(context: &ToolContext, count: u64) -> Result<CallToolResult, ErrorData> {
    if count > MAX_COUNT {
        return Err(invalid(format!("count must be at most {MAX_COUNT}")));
    }
    for n in 1..=count {
        if context.is_cancelled() {
            return Err(cancelled());
        }
        context.progress(n, count, format!("Message {n}")).await;
    }
    Ok(text_result(json!({"sent": count})))
}

/// Takes the steps that are left, each after a delay.
async fn take_steps(
    context: &ToolContext,
    unit: &str,
    steps: u64,
    ms: u64,
) -> Result<(), ErrorData> {
    if !(1..=MAX_COUNT).contains(&steps) {
        return Err(invalid(format!("{unit}s must be 1 to {MAX_COUNT}")));
    }
    for step in context.next_step()..=steps {
        let message = format!("{unit} {step} of {steps}");
        context.step(ms, step, steps, message).await?;
    }
    Ok(())
}

async fn crunch(context: &ToolContext, args: CrunchArgs) -> Result<CallToolResult, ErrorData> {
    let steps = args.steps;
    take_steps(context, "step", steps, args.step_ms).await?;
    Ok(text_result(format!("Crunched {steps} of {steps} steps")))
}

async fn render(context: &ToolContext, args: RenderArgs) -> Result<CallToolResult, ErrorData> {
    let (scene, frames) = (args.scene, args.frames);
    take_steps(context, "frame", frames, args.frame_ms).await?;
    Ok(text_result(format!("Rendered {scene}: {frames} frames")))
}

async fn deploy(context: &ToolContext, args: DeployArgs) -> Result<CallToolResult, ErrorData> {
    let (env, steps) = (args.env, args.steps);
    if !(1..=MAX_COUNT).contains(&steps) {
        return Err(invalid(format!("steps must be 1 to {MAX_COUNT}")));
    }
    let mut answers = Value::Null;
    for step in context.next_step()..=steps {
        // After a restart the question is repeated; an answer from before is then returned at once.
        if step > steps / 2 && answers.is_null() {
            match elicitation::ask_form(context, "release", elicitation::release_form(&env)).await?
            {
                ElicitationReply::Accepted(fields) => answers = fields,
                ElicitationReply::Declined => {
                    return Ok(text_result(format!("Deployment to {env} declined")));
                }
                ElicitationReply::Cancelled => {
                    return Ok(error_result(format!("Deployment to {env} cancelled")));
                }
                ElicitationReply::Unsupported => {
                    let message = "deploy needs a client that supports form elicitation";
                    return Ok(error_result(message));
                }
            }
        }
        let message = format!("step {step} of {steps}");
        context.step(args.step_ms, step, steps, message).await?;
    }
    let response = json!({"env": env, "status": "deployed", "steps": steps, "answers": answers});
    Ok(text_result(response))
}

/// The weather, always the same for a city, so that repeated calls can be compared.
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
