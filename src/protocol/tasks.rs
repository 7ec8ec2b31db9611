//! Shapes of the modern era and of both kinds of server tasks, read tolerantly.
//!
//! Sources: MCP 2025-11-25, basic/utilities/tasks; MCP 2026-07-28, server/discover, basic/patterns/mrtr and the tasks
//! extension. Where their examples contradict their text, both readings are taken.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{RpcError, decode::name, encode::TASKS};
use crate::domain::{TaskKind, TaskState, text};

/// Questions read of one message, and revisions of one server: more than anybody has or answers.
const MANY: usize = 64;

/// What `server/discover` says of a modern server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoverResult {
    /// The revisions that it speaks without a handshake.
    pub versions: Vec<String>,
    /// Whether it offers the tasks extension.
    pub has_tasks: bool,
    /// Its name and version for itself.
    pub server_info: Option<String>,
}

/// Reads the result of `server/discover`; `None` if it is none, so the server is not modern.
pub fn parse_discover_result(result: &str) -> Option<DiscoverResult> {
    let value: Value = serde_json::from_str(result).ok()?;
    let versions = value.get("supportedVersions")?.as_array()?;
    let capabilities = value.get("capabilities")?.as_object()?;
    let info = value
        .pointer("/_meta/io.modelcontextprotocol~1serverInfo")
        .or_else(|| value.get("serverInfo"));
    let of_info = |key: &str| info?.get(key)?.as_str();
    Some(DiscoverResult {
        versions: versions
            .iter()
            .filter_map(Value::as_str)
            .take(MANY)
            .map(|version| name(version.to_owned()))
            .collect(),
        has_tasks: capabilities
            .get("extensions")
            .and_then(|extensions| extensions.get(TASKS))
            .is_some_and(|tasks| !tasks.is_null()),
        server_info: of_info("name").map(|called| {
            name(match of_info("version") {
                Some(version) => format!("{called} {version}"),
                None => called.to_owned(),
            })
        }),
    })
}

/// One thing that a server asks while a call or a task waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// The server's key for it.
    pub key: String,
    /// The method that it stands for; only `elicitation/create` can be answered.
    pub method: String,
    /// The parameters, verbatim JSON.
    pub params: String,
}

/// A server task as one message shows it, of either kind.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskObject {
    /// The server's id of it.
    pub id: String,
    /// Its state.
    pub state: TaskState,
    /// `statusMessage`.
    pub message: Option<String>,
    /// Time to live from its creation in milliseconds; `None` without a limit, or not told.
    pub ttl_ms: Option<u64>,
    /// Pace of asking in milliseconds.
    pub poll_ms: Option<u64>,
    /// `lastUpdatedAt` as sent.
    pub updated: Option<String>,
    /// What it asks, all that is outstanding (extension only).
    pub asks: Vec<InputRequest>,
    /// The raw CallToolResult (extension only).
    pub result: Option<String>,
    /// The error that ended it (extension only).
    pub error: Option<RpcError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    task_id: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    status_message: Option<String>,
    #[serde(default, alias = "ttlMs")]
    ttl: Option<f64>,
    #[serde(default, alias = "pollIntervalMs")]
    poll_interval: Option<f64>,
    #[serde(default)]
    last_updated_at: Option<String>,
    #[serde(borrow, default)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

impl From<Wire<'_>> for TaskObject {
    fn from(wire: Wire<'_>) -> Self {
        Self {
            id: wire.task_id,
            state: TaskState::parse(wire.status.as_deref().unwrap_or_default()),
            message: wire
                .status_message
                .filter(|message| !message.is_empty())
                .map(|said| text::bounded(Cow::Owned(said), text::SERVER_TEXT_BYTES).into_owned()),
            ttl_ms: wire.ttl.and_then(milliseconds),
            poll_ms: wire.poll_interval.and_then(milliseconds),
            updated: wire.last_updated_at.map(name),
            asks: wire.input_requests.map(asked).unwrap_or_default(),
            result: wire.result.map(|raw| raw.get().to_owned()),
            error: wire.error,
        }
    }
}

/// Whole milliseconds, at most ten years: more is as good as for ever.
fn milliseconds(number: f64) -> Option<u64> {
    const TEN_YEARS: f64 = 10.0 * 365.0 * 86_400_000.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to lie between 0 and ten years"
    )]
    (0.0..=TEN_YEARS).contains(&number).then_some(number as u64)
}

fn asked(requests: &RawValue) -> Vec<InputRequest> {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(default)]
        method: String,
        #[serde(borrow, default)]
        params: Option<&'a RawValue>,
    }
    let requests: serde_json::Map<String, Value> =
        serde_json::from_str(requests.get()).unwrap_or_default();
    let read = |(key, value): (String, Value)| {
        let text = value.to_string();
        let request: Request<'_> = serde_json::from_str(&text).ok()?;
        Some(InputRequest {
            key,
            method: request.method,
            params: request.params.map_or("{}", RawValue::get).to_owned(),
        })
    };
    let is_usable = |(key, _): &(String, Value)| key.len() <= text::NAME_BYTES;
    let usable = requests.into_iter().filter(is_usable).take(MANY);
    usable.filter_map(read).collect()
}

/// Reads a task object as `tasks/get`, `tasks/cancel` and the status notifications carry it; wrapped or not.
pub fn parse_task_object(json: &str) -> Option<TaskObject> {
    #[derive(Deserialize)]
    struct Wrapped<'a> {
        #[serde(borrow)]
        task: &'a RawValue,
    }
    let inner = serde_json::from_str::<Wrapped<'_>>(json).map(|wrapped| wrapped.task.get());
    serde_json::from_str::<Wire<'_>>(inner.unwrap_or(json))
        .ok()
        // It goes back in a header and stands on the screen; nobody's is nearly as long.
        .filter(|wire| wire.task_id.len() <= text::NAME_BYTES)
        .map(TaskObject::from)
}

/// Reads one page of `tasks/list` (2025-11-25).
pub fn parse_task_page(result: &str) -> (Vec<TaskObject>, Option<String>) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page<'a> {
        #[serde(borrow, default)]
        tasks: Vec<&'a RawValue>,
        #[serde(default)]
        next_cursor: Option<String>,
    }
    let Ok(page) = serde_json::from_str::<Page<'_>>(result) else {
        return (Vec::new(), None);
    };
    let tasks = page
        .tasks
        .iter()
        .filter_map(|raw| parse_task_object(raw.get()));
    (tasks.collect(), page.next_cursor)
}

/// What the result of a `tools/call` is, before it is read as one.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// The tool's own result.
    Complete,
    /// A server task was made of it.
    Task(TaskKind, Box<TaskObject>),
    /// The server asks first (MRTR).
    InputRequired {
        /// What.
        asks: Vec<InputRequest>,
        /// `requestState`: goes back byte for byte.
        state: Option<String>,
    },
    /// A `resultType` that we did not offer to understand.
    Foreign(String),
}

/// Tells the kinds of `tools/call` results apart. `asks_for_task`: whether the call asked for a core task.
pub fn classify_call_result(result: &str, asks_for_task: bool) -> CallOutcome {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shape<'a> {
        #[serde(default)]
        result_type: Option<String>,
        #[serde(borrow, default)]
        task: Option<&'a RawValue>,
        #[serde(borrow, default)]
        input_requests: Option<&'a RawValue>,
        #[serde(default)]
        request_state: Option<String>,
    }
    let Ok(shape) = serde_json::from_str::<Shape<'_>>(result) else {
        return CallOutcome::Complete;
    };
    match shape.result_type.as_deref() {
        Some("task") => match parse_task_object(result) {
            Some(task) => CallOutcome::Task(TaskKind::Extension, Box::new(task)),
            None => CallOutcome::Foreign("task without an id".to_owned()),
        },
        Some("input_required") => CallOutcome::InputRequired {
            asks: shape.input_requests.map(asked).unwrap_or_default(),
            state: shape.request_state,
        },
        None | Some("complete") => match shape.task.filter(|_| asks_for_task) {
            Some(raw) => parse_task_object(raw.get()).map_or(CallOutcome::Complete, |task| {
                CallOutcome::Task(TaskKind::Core, Box::new(task))
            }),
            None => CallOutcome::Complete,
        },
        Some(other) => CallOutcome::Foreign(other.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_kinds_of_tasks_are_read_from_their_create_results() {
        let core = r#"{"task":{"taskId":"a:1","status":"working","ttl":3600000,"pollInterval":2000,"createdAt":"x"}}"#;
        let CallOutcome::Task(TaskKind::Core, task) = classify_call_result(core, true) else {
            panic!("a core task")
        };
        assert_eq!((task.ttl_ms, task.poll_ms), (Some(3_600_000), Some(2000)));
        assert_eq!(classify_call_result(core, false), CallOutcome::Complete);
        let flat = r#"{"resultType":"task","taskId":"b","status":"working","ttlMs":null,"pollIntervalMs":500}"#;
        let CallOutcome::Task(TaskKind::Extension, task) = classify_call_result(flat, false) else {
            panic!("a task of the extension")
        };
        assert_eq!((task.ttl_ms, task.poll_ms), (None, Some(500)));
    }

    #[test]
    fn questions_keep_their_keys_order_and_parameters() {
        let result = r#"{"resultType":"input_required","requestState":"s\u0001","inputRequests":{
            "b":{"method":"elicitation/create","params":{"message":"B?","n":1.0}},"a":{"method":"roots/list"}}}"#;
        let CallOutcome::InputRequired { asks, state } = classify_call_result(result, false) else {
            panic!("a question")
        };
        assert_eq!(state.as_deref(), Some("s\u{1}"));
        let keys: Vec<_> = asks.iter().map(|asked| asked.key.as_str()).collect();
        assert_eq!(keys, ["b", "a"]);
        assert_eq!(asks[0].params, r#"{"message":"B?","n":1.0}"#);
    }

    #[test]
    fn a_result_type_that_we_did_not_offer_is_told() {
        let outcome = classify_call_result(r#"{"resultType":"later"}"#, false);
        assert_eq!(outcome, CallOutcome::Foreign("later".to_owned()));
        assert_eq!(classify_call_result("[]", false), CallOutcome::Complete);
    }

    #[test]
    fn a_modern_server_is_known_by_its_versions_and_capabilities() {
        let found = parse_discover_result(
            r#"{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"lab","version":"1"}}}"#,
        )
        .unwrap();
        assert!(found.has_tasks && found.server_info.as_deref() == Some("lab 1"));
        assert_eq!(parse_discover_result("{}"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics_the_reader(data in any::<String>()) {
            let _ = (parse_discover_result(&data), parse_task_object(&data), parse_task_page(&data), classify_call_result(&data, true));
        }
    }

    #[test]
    fn of_a_task_without_measure_only_so_much_is_kept() {
        let long = "x".repeat(100_000);
        let named = |id: &str| {
            parse_task_object(
                &serde_json::json!({"taskId": id, "status": "working", "statusMessage": long, "lastUpdatedAt": long})
                    .to_string(),
            )
        };
        assert!(named(&long).is_none());
        let updated = named("t").and_then(|task| task.updated).unwrap();
        assert!(updated.len() < text::NAME_BYTES + 100, "{}", updated.len());
        let said = named("t").and_then(|task| task.message).unwrap();
        assert!(said.len() < text::SERVER_TEXT_BYTES + 100, "{}", said.len());
        let mut requests = serde_json::Map::new();
        requests.insert(long, serde_json::json!({"method": "m"}));
        for number in 0..1000 {
            requests.insert(number.to_string(), serde_json::json!({"method": "m"}));
        }
        let asking = serde_json::json!({"resultType": "input_required", "inputRequests": requests});
        let CallOutcome::InputRequired { asks, .. } =
            classify_call_result(&asking.to_string(), false)
        else {
            panic!("a question")
        };
        assert_eq!((asks.len(), asks[0].key.as_str()), (MANY, "0"));
        let versions: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let discovery = serde_json::json!({"supportedVersions": versions, "capabilities": {}});
        assert_eq!(discovery_of(&discovery), MANY);
    }

    fn discovery_of(json: &Value) -> usize {
        parse_discover_result(&json.to_string()).map_or(0, |found| found.versions.len())
    }
}
