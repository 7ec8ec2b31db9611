//! The tool definitions that clients see: names, descriptions, schemas and task support.

use rmcp::model::{Tool, object};
use serde_json::{Value, json};

use super::tools::{DEFAULT_STATIONS, MAX_COUNT, PROCESSING};

/// Whether a tool can run as a server task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolTaskSupport {
    #[serde(rename = "forbidden")]
    Never,
    Optional,
    Required,
}

/// A tool's task support; `Never` for an unknown tool.
pub(super) fn task_support(name: &str) -> ToolTaskSupport {
    catalog()
        .into_iter()
        .find(|(tool, _)| tool.name == name)
        .map_or(ToolTaskSupport::Never, |(_, support)| support)
}

/// Name, description, task support, properties, and the required ones.
type Definition = (
    &'static str,
    &'static str,
    ToolTaskSupport,
    Value,
    &'static [&'static str],
);

fn text() -> Value {
    json!({"type": "string"})
}

fn count(default: u64, description: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "default": default, "description": description})
}

fn ms(default: u64, unit: &str) -> Value {
    let description = format!("milliseconds per {unit}");
    json!({"type": "integer", "minimum": 0, "default": default, "description": description})
}

/// The tool that keeps checkpoints, and the tools that manage them.
fn checkpoint_tools() -> [Definition; 3] {
    [
        (
            PROCESSING,
            "Process the records of a dataset in batches; interrupted work resumes from its checkpoint",
            ToolTaskSupport::Optional,
            json!({
                "dataset_name": text(),
                "total_records": count(100, "records to process"),
                "batch_size": count(10, "records per batch"),
                "client_id": {"type": ["string", "null"], "default": null,
                    "description": "owner of the checkpoint; a call with the same id and arguments resumes it"},
                "delay_ms": ms(1000, "batch"),
            }),
            &["dataset_name"],
        ),
        (
            "pause_task",
            "Pause a task at the end of its current batch",
            ToolTaskSupport::Never,
            json!({"task_id": text()}),
            &["task_id"],
        ),
        (
            "list_session_tasks",
            "List the tasks that belong to a client id, with their checkpoints",
            ToolTaskSupport::Never,
            json!({"client_id": text()}),
            &["client_id"],
        ),
    ]
}

/// The tools that keep no checkpoints.
fn other_tools() -> [Definition; 7] {
    [
        (
            "get_forecast",
            "Forecast the weather for a city; takes six seconds by default and keeps no checkpoint",
            ToolTaskSupport::Never,
            json!({
                "city": text(),
                "delay_ms": ms(1000, "station"),
                "stations": {"type": "integer", "minimum": 0, "maximum": u32::MAX, "default": DEFAULT_STATIONS},
            }),
            &["city"],
        ),
        (
            "send_burst",
            "Send numbered messages as fast as possible",
            ToolTaskSupport::Never,
            json!({"count": {"type": "integer", "minimum": 0, "maximum": MAX_COUNT}}),
            &["count"],
        ),
        (
            "crunch",
            "Count steps, each exactly once, as a call or a server task",
            ToolTaskSupport::Optional,
            json!({
                "steps": count(20, "steps to take"),
                "step_ms": ms(500, "step"),
                "as_task": {"type": "boolean", "default": false,
                    "description": "run as a server task where the request allows it"},
            }),
            &[],
        ),
        (
            "render_movie",
            "Render the frames of a scene; runs as a server task that survives a disconnect and a restart of the server",
            ToolTaskSupport::Required,
            json!({
                "scene": text(),
                "frames": count(120, "frames to render"),
                "frame_ms": ms(250, "frame"),
            }),
            &["scene"],
        ),
        (
            "deploy",
            "Deploy to an environment in steps; asks for release details halfway",
            ToolTaskSupport::Optional,
            json!({
                "env": text(),
                "steps": count(6, "steps to take"),
                "step_ms": ms(1000, "step"),
            }),
            &["env"],
        ),
        (
            "book_room",
            "Book a room; asks for the guest before it starts",
            ToolTaskSupport::Never,
            json!({"city": text()}),
            &["city"],
        ),
        (
            "sign_contract",
            "Sign a contract on this server's web page",
            ToolTaskSupport::Never,
            json!({"name": text()}),
            &["name"],
        ),
    ]
}

/// The tool definitions with their task support, in the order of `tools/list`.
pub(super) fn catalog() -> Vec<(Tool, ToolTaskSupport)> {
    checkpoint_tools()
        .into_iter()
        .chain(other_tools())
        .map(|(name, description, support, properties, required)| {
            let schema = json!({"type": "object", "properties": properties, "required": required});
            (Tool::new(name, description, object(schema)), support)
        })
        .collect()
}
