//! The tools as a client sees them: names, words, schemas, and which of them may run as a server task.

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use super::tools::{MOST, PROCESSING, STATIONS};

/// Whether a tool runs as a server task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Support {
    Never,
    Optional,
    Required,
}

impl Support {
    /// The word of 2025-11-25 for it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Never => "forbidden",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

/// A tool in the catalogue.
pub(super) struct Card {
    pub(super) tool: Tool,
    pub(super) support: Support,
}

/// Whether a tool runs as a server task; never, if there is no such tool.
pub(super) fn support(name: &str) -> Support {
    catalogue()
        .into_iter()
        .find(|card| card.tool.name == name)
        .map_or(Support::Never, |card| card.support)
}

/// The tools with their schemas, in the order in which they are listed.
pub(super) fn catalogue() -> Vec<Card> {
    let text = || json!({"type": "string"});
    let whole = |default: u64, words: &str| json!({"type": "integer", "minimum": 1, "default": default, "description": words});
    let ms = |default: u64, of: &str| json!({"type": "integer", "minimum": 0, "default": default, "description": format!("milliseconds that {of} takes")});
    let tools: [(&'static str, &'static str, Support, Value, &[&str]); 13] = [
        (
            PROCESSING,
            "Process the records of a dataset in batches; interrupted work goes on at its checkpoint",
            Support::Optional,
            json!({
                "dataset_name": text(),
                "total_records": whole(100, "records to process"),
                "batch_size": whole(10, "records of one batch"),
                "client_id": {"type": ["string", "null"], "default": null,
                    "description": "whose checkpoint; the same id and arguments go on where they stopped"},
                "delay_ms": ms(1000, "a batch"),
            }),
            &["dataset_name"],
        ),
        (
            "pause_task",
            "Asks a task to pause at the end of its batch",
            Support::Never,
            json!({"task_id": text()}),
            &["task_id"],
        ),
        (
            "list_session_tasks",
            "List the tasks of a client id, with their checkpoints",
            Support::Never,
            json!({"client_id": text()}),
            &["client_id"],
        ),
        (
            "get_checkpoint_stats",
            "Count checkpoints, records and events",
            Support::Never,
            json!({}),
            &[],
        ),
        (
            "get_session_info",
            "Say which server this is and since when it runs",
            Support::Never,
            json!({}),
            &[],
        ),
        (
            "cleanup_checkpoints",
            "Forget checkpoints that have not moved for some days",
            Support::Never,
            json!({"max_age_days": {"type": "integer", "minimum": 0, "default": 7}}),
            &[],
        ),
        (
            "get_forecast",
            "Forecast the weather of a city; takes six seconds and keeps no checkpoint",
            Support::Never,
            json!({
                "city": text(),
                "delay_ms": ms(1000, "a station"),
                "stations": {"type": "integer", "minimum": 0, "maximum": u32::MAX, "default": STATIONS},
            }),
            &["city"],
        ),
        (
            "send_burst",
            "Send numbered messages as fast as they go",
            Support::Never,
            json!({"count": {"type": "integer", "minimum": 0, "maximum": MOST}}),
            &["count"],
        ),
        (
            "crunch",
            "Count steps: as a call, as a server task, always each step once",
            Support::Optional,
            json!({
                "steps": whole(20, "steps to take"),
                "step_ms": ms(500, "a step"),
                "as_task": {"type": "boolean", "default": false,
                    "description": "run as a server task where the request allows it"},
            }),
            &[],
        ),
        (
            "render_movie",
            "Render the frames of a scene; a server task that outlives its client and the server",
            Support::Required,
            json!({
                "scene": text(),
                "frames": whole(120, "frames to render"),
                "frame_ms": ms(250, "a frame"),
            }),
            &["scene"],
        ),
        (
            "deploy",
            "Deploy to an environment in steps; asks for the release in the middle",
            Support::Optional,
            json!({
                "env": text(),
                "steps": whole(6, "steps to take"),
                "step_ms": ms(1000, "a step"),
            }),
            &["env"],
        ),
        (
            "book_room",
            "Book a room; asks for the guest before it starts",
            Support::Never,
            json!({"city": text()}),
            &["city"],
        ),
        (
            "sign_contract",
            "Have a contract signed on a page of this server",
            Support::Never,
            json!({"name": text()}),
            &["name"],
        ),
    ];
    tools
        .into_iter()
        .map(|(name, words, support, properties, required)| {
            let mut schema = JsonObject::new();
            schema.insert("type".to_owned(), "object".into());
            schema.insert("properties".to_owned(), properties);
            schema.insert("required".to_owned(), json!(required));
            Card {
                tool: Tool::new(name, words, schema),
                support,
            }
        })
        .collect()
}
