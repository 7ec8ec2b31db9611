//! The tools: what they take and what they do.
//!
//! Owns their arguments, work, words and answers. Must not know HTTP, eras, or whether it runs as a call or as a server
//! task: all of that is behind `Call`.

use std::time::Duration;

use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, JsonObject},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    call::{Call, LOGGER, Level, cancelled, internal, invalid},
    checkpoints::{Checkpoint, Status},
    disk::{random_id, rfc3339},
    questions::{self, Reply},
    runs::{Step, Stop, Work},
};

/// The name of the checkpoint tool; part of the key of its checkpoints.
pub(super) const PROCESSING: &str = "resumable_data_processing";
/// Steps of a forecast, unless it is asked for more.
pub(super) const STATIONS: u32 = 6;
/// Records, steps and bursts above this are a slip of the keyboard.
pub(super) const MOST: u64 = 10_000_000;

/// A tool with its arguments: what is asked for, understood.
pub(super) enum Job {
    Process(Processing),
    Pause(OfTask),
    List(OfClient),
    Stats,
    Info,
    Cleanup(Cleanup),
    Forecast(Forecast),
    Burst(Burst),
    Crunch(Crunch),
    Render(Render),
    Deploy(Deploy),
    Book(Book),
    Sign(Sign),
}

impl Job {
    /// Understands a request.
    pub(super) fn of(tool: &str, given: Option<JsonObject>) -> Result<Self, ErrorData> {
        Ok(match tool {
            PROCESSING => Self::Process(arguments(given)?),
            "pause_task" => Self::Pause(arguments(given)?),
            "list_session_tasks" => Self::List(arguments(given)?),
            "get_checkpoint_stats" => Self::Stats,
            "get_session_info" => Self::Info,
            "cleanup_checkpoints" => Self::Cleanup(arguments(given)?),
            "get_forecast" => Self::Forecast(arguments(given)?),
            "send_burst" => Self::Burst(arguments(given)?),
            "crunch" => Self::Crunch(arguments(given)?),
            "render_movie" => Self::Render(arguments(given)?),
            "deploy" => Self::Deploy(arguments(given)?),
            "book_room" => Self::Book(arguments(given)?),
            "sign_contract" => Self::Sign(arguments(given)?),
            other => return Err(invalid(format!("there is no tool {other}"))),
        })
    }

    /// Does it.
    pub(super) async fn run(self, call: &Call) -> Result<CallToolResult, ErrorData> {
        match self {
            Self::Process(given) => process(call, given).await,
            Self::Pause(given) => pause(call, &given),
            Self::List(given) => list(call, &given),
            Self::Stats => {
                let stats = call.shared.runs.checkpoints.stats().map_err(internal)?;
                Ok(json_text(&stats))
            }
            Self::Info => Ok(session_info(call)),
            Self::Cleanup(given) => cleanup(call, &given),
            Self::Forecast(given) => forecast(call, given).await,
            Self::Burst(given) => burst(call, given).await,
            Self::Crunch(given) => crunch(call, given).await,
            Self::Render(given) => render(call, given).await,
            Self::Deploy(given) => deploy(call, given).await,
            Self::Book(given) => book(call, given).await,
            Self::Sign(given) => sign(call, given).await,
        }
    }
}

fn json_text(value: &Value) -> CallToolResult {
    text(value.to_string())
}

fn text(words: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words)])
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
pub(super) struct Processing {
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
pub(super) struct OfTask {
    task_id: String,
}

#[derive(Deserialize)]
pub(super) struct OfClient {
    client_id: String,
}

#[derive(Deserialize)]
pub(super) struct Cleanup {
    #[serde(default = "Cleanup::week")]
    max_age_days: u64,
}

impl Cleanup {
    fn week() -> u64 {
        7
    }
}

#[derive(Deserialize)]
pub(super) struct Forecast {
    city: String,
    #[serde(default = "a_second")]
    delay_ms: u64,
    #[serde(default = "six_stations")]
    stations: u32,
}

#[derive(Deserialize)]
pub(super) struct Burst {
    count: u64,
}

#[derive(Deserialize)]
pub(super) struct Crunch {
    #[serde(default = "Crunch::twenty")]
    steps: u64,
    #[serde(default = "Crunch::half_a_second")]
    step_ms: u64,
    /// In the modern era the server decides what becomes a task; this is how a client tells it to.
    #[serde(default)]
    pub(super) as_task: bool,
}

impl Crunch {
    fn twenty() -> u64 {
        20
    }

    fn half_a_second() -> u64 {
        500
    }
}

#[derive(Deserialize)]
pub(super) struct Render {
    scene: String,
    #[serde(default = "Render::frames")]
    frames: u64,
    #[serde(default = "Render::frame_ms")]
    frame_ms: u64,
}

impl Render {
    fn frames() -> u64 {
        120
    }

    fn frame_ms() -> u64 {
        250
    }
}

#[derive(Deserialize)]
pub(super) struct Deploy {
    env: String,
    #[serde(default = "Deploy::steps")]
    steps: u64,
    #[serde(default = "a_second")]
    step_ms: u64,
}

impl Deploy {
    fn steps() -> u64 {
        6
    }
}

#[derive(Deserialize)]
pub(super) struct Book {
    city: String,
}

#[derive(Deserialize)]
pub(super) struct Sign {
    name: String,
}

async fn process(call: &Call, given: Processing) -> Result<CallToolResult, ErrorData> {
    if !(1..=MOST).contains(&given.total_records) || given.batch_size == 0 {
        return Err(invalid(format!(
            "total_records must be 1 to {MOST} and batch_size at least 1"
        )));
    }
    let client_id = match given.client_id {
        Some(id) if !id.is_empty() => id,
        // A server task that the server's end interrupts must find its checkpoint again.
        _ => match call.task_id() {
            Some(task) => task.to_owned(),
            None => random_id().map_err(internal)?,
        },
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
    let mut joined = call
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
                call.shared.runs.stop(&task_id, call.stop());
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
    if call.is_cancelled() && matches!(status, Status::Cancelled | Status::Interrupted) {
        return Err(cancelled());
    }
    let words = match status {
        Status::Completed => format!("Finished {}", given.dataset_name),
        other => format!("Stopped at record {processed}: {}", other.label()),
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
        "status": status.label(),
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

fn pause(call: &Call, given: &OfTask) -> Result<CallToolResult, ErrorData> {
    let runs = &call.shared.runs;
    let was_running = runs.stop(&given.task_id, Stop::Pause);
    let Some(task) = runs.checkpoints.of_task(&given.task_id).map_err(internal)? else {
        return Ok(refusal(format!("there is no task {}", given.task_id)));
    };
    let message = if was_running {
        "pause requested, the batch that is being worked on ends first".to_owned()
    } else {
        format!("the task was not running, it is {}", task.status.label())
    };
    Ok(json_text(&json!({
        "task_id": task.task_id,
        "tool": task.tool,
        "status": task.status.label(),
        "progress": task.progress,
        "total": task.total,
        "message": message,
    })))
}

fn list(call: &Call, given: &OfClient) -> Result<CallToolResult, ErrorData> {
    let tasks = call
        .shared
        .runs
        .checkpoints
        .of_client(&given.client_id)
        .map_err(internal)?;
    let tasks: Vec<_> = tasks.iter().map(Checkpoint::json).collect();
    Ok(json_text(
        &json!({"client_id": given.client_id, "tasks": tasks}),
    ))
}

fn session_info(call: &Call) -> CallToolResult {
    json_text(&json!({
        "server": LOGGER,
        "version": env!("CARGO_PKG_VERSION"),
        "boot_id": call.shared.boot,
        "started_at": rfc3339(call.shared.started_ms),
        "pid": std::process::id(),
    }))
}

fn cleanup(call: &Call, given: &Cleanup) -> Result<CallToolResult, ErrorData> {
    let checkpoints = &call.shared.runs.checkpoints;
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
    for step in next_step(call)..=u64::from(given.stations) {
        call.wait(Duration::from_millis(given.delay_ms)).await?;
        let words = format!("Station {step} of {} has answered", given.stations);
        call.progress(step, u64::from(given.stations), words).await;
    }
    let (sky, degrees) = sky_over(&given.city);
    let words = format!("{}: {sky}, {degrees} °C", given.city);
    Ok(text(words))
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

/// The first step that is to be done.
fn next_step(call: &Call) -> u64 {
    call.done() + 1
}

async fn crunch(call: &Call, given: Crunch) -> Result<CallToolResult, ErrorData> {
    let steps = given.steps;
    if !(1..=MOST).contains(&steps) {
        return Err(invalid(format!("steps must be 1 to {MOST}")));
    }
    for step in next_step(call)..=steps {
        call.wait(Duration::from_millis(given.step_ms)).await?;
        call.progress(step, steps, format!("step {step} of {steps}"))
            .await;
    }
    Ok(text(format!("Crunched exactly {steps} steps")))
}

async fn render(call: &Call, given: Render) -> Result<CallToolResult, ErrorData> {
    let (scene, frames) = (given.scene, given.frames);
    if !(1..=MOST).contains(&frames) {
        return Err(invalid(format!("frames must be 1 to {MOST}")));
    }
    for frame in next_step(call)..=frames {
        call.wait(Duration::from_millis(given.frame_ms)).await?;
        call.progress(frame, frames, format!("frame {frame} of {frames}"))
            .await;
    }
    Ok(text(format!("Rendered {scene}: {frames} frames")))
}

async fn deploy(call: &Call, given: Deploy) -> Result<CallToolResult, ErrorData> {
    let (env, steps) = (given.env, given.steps);
    if !(1..=MOST).contains(&steps) {
        return Err(invalid(format!("steps must be 1 to {MOST}")));
    }
    let mut answers = Value::Null;
    for step in next_step(call)..=steps {
        // Also on the way back from a restart: an answer that was given then counts, without asking again.
        if step > steps / 2 && answers.is_null() {
            match questions::ask(call, "release", questions::release(&env)).await? {
                Reply::Accepted(content) => answers = content,
                Reply::Declined => return Ok(text(format!("Deployment to {env} declined"))),
                Reply::Cancelled => return Ok(refusal(format!("Deployment to {env} cancelled"))),
                Reply::CannotBeAsked => {
                    return Ok(refusal("deploy needs a client that can be asked"));
                }
            }
        }
        call.wait(Duration::from_millis(given.step_ms)).await?;
        call.progress(step, steps, format!("step {step} of {steps}"))
            .await;
    }
    Ok(json_text(
        &json!({"env": env, "status": "deployed", "steps": steps, "answers": answers}),
    ))
}

/// Needs to hear something before it can start.
async fn book(call: &Call, given: Book) -> Result<CallToolResult, ErrorData> {
    let city = given.city;
    let words = match questions::ask(call, "guest", questions::guest(&city)).await? {
        Reply::Accepted(guest) => {
            let name = guest.get("name").and_then(Value::as_str);
            let nights = guest.get("nights").and_then(Value::as_u64).unwrap_or(2);
            let name = name.unwrap_or("somebody");
            format!("Booked a room in {city} for {name}, nights: {nights}")
        }
        Reply::Declined => format!("The booking in {city} was declined"),
        Reply::Cancelled => return Ok(refusal(format!("The booking in {city} was cancelled"))),
        Reply::CannotBeAsked => return Ok(refusal("book_room needs a client that can be asked")),
    };
    Ok(text(words))
}

/// Is done on a page.
async fn sign(call: &Call, given: Sign) -> Result<CallToolResult, ErrorData> {
    let name = given.name;
    let ticket = call.ticket()?;
    let message = format!("{name}, please sign the contract on this page");
    let words = match questions::ask_page(call, "signature", &message, &ticket).await? {
        Reply::Accepted(_) => {
            call.progress(1, 2, "Waiting for the signature".to_owned())
                .await;
            tokio::select! {
                biased;
                () = call.cancelled() => return Err(cancelled()),
                visited = call.shared.tickets.visited(&ticket) => visited.map_err(internal)?,
            }
            let complete = json!({"elicitationId": ticket});
            call.tell("notifications/elicitation/complete", &complete);
            format!("{name} has signed the contract")
        }
        Reply::Declined => format!("{name} has declined to sign"),
        Reply::Cancelled => return Ok(refusal(format!("{name} has not signed"))),
        Reply::CannotBeAsked => {
            return Ok(refusal("sign_contract needs a client that can open a page"));
        }
    };
    Ok(text(words))
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
