//! Parses messages of the modern era and task objects of both protocols, tolerantly.
//!
//! Sources: MCP 2025-11-25, basic/utilities/tasks; MCP 2026-07-28, server/discover, basic/patterns/mrtr and the tasks
//! extension. Where their examples contradict their text, both forms are accepted.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    RpcError,
    decode::{Introduced, bounded_name, page},
    encode::TASKS,
};
use crate::domain::{Era, TaskCapability, TaskKind, TaskState, Wall, text};

/// Maximum number of input requests in a message and of revisions of a server; real servers have far fewer.
const MAX_ITEMS: usize = 64;

/// Parses the result of `server/discover`; `None` if it is invalid, so the server isn't modern.
pub fn parse_discover_result(result: &str) -> Option<Introduced> {
    let value: Value = serde_json::from_str(result).ok()?;
    let versions = value.get("supportedVersions")?.as_array()?;
    let versions = versions.iter().filter_map(Value::as_str).take(MAX_ITEMS);
    let has_tasks = value
        .get("capabilities")
        .and_then(|capabilities| capabilities.get("extensions")?.get(TASKS))
        .is_some_and(|tasks| !tasks.is_null());
    let info = value
        .pointer("/_meta/io.modelcontextprotocol~1serverInfo")
        .or_else(|| value.get("serverInfo"));
    Some(Introduced::new(
        result,
        versions.map(str::to_owned).collect(),
        has_tasks.then_some(TaskCapability::EXTENSION),
        info,
    ))
}

/// One input request of a server while a call or task waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRequest {
    /// The server's key for the request.
    pub key: String,
    /// Its method; longhaul supports only `elicitation/create`.
    pub method: String,
    /// Its parameters, verbatim JSON.
    pub params: String,
}

/// A task object of either protocol, as one message contains it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskObject {
    /// The server's id.
    pub id: String,
    /// Its state.
    pub state: TaskState,
    /// `statusMessage`.
    pub message: Option<String>,
    /// Time to live after its creation in milliseconds; `None` if unlimited or unknown.
    pub ttl_ms: Option<u64>,
    /// Suggested poll interval in milliseconds.
    pub poll_ms: Option<u64>,
    /// `createdAt`, by the server's clock.
    pub created_at: Option<Wall>,
    /// `lastUpdatedAt` as sent.
    pub updated: Option<String>,
    /// All its open input requests (extension only).
    pub input_requests: Vec<InputRequest>,
    /// The raw CallToolResult (extension only).
    pub result: Option<String>,
    /// The error that ended it (extension only).
    pub error: Option<RpcError>,
}

/// Only the id is required: without it the task, which already runs, could not be found again.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawTask<'a> {
    task_id: String,
    status: Option<Value>,
    status_message: Option<Value>,
    ttl: Option<Value>,
    ttl_ms: Option<Value>,
    poll_interval: Option<Value>,
    poll_interval_ms: Option<Value>,
    created_at: Option<Value>,
    last_updated_at: Option<Value>,
    #[serde(borrow)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<Value>,
}

impl From<RawTask<'_>> for TaskObject {
    fn from(raw: RawTask<'_>) -> Self {
        let poll = raw.poll_interval_ms.or(raw.poll_interval);
        Self {
            id: raw.task_id,
            // An unknown state counts as working, so that the task is polled again.
            state: raw
                .status
                .and_then(|name| name.as_str()?.parse().ok())
                .unwrap_or(TaskState::Working),
            message: string(raw.status_message)
                .filter(|message| !message.is_empty())
                .map(|message| {
                    text::bounded(Cow::Owned(message), text::SERVER_TEXT_BYTES).into_owned()
                }),
            ttl_ms: raw.ttl_ms.or(raw.ttl).as_ref().and_then(milliseconds),
            poll_ms: poll.as_ref().and_then(milliseconds),
            created_at: string(raw.created_at).and_then(|text| Wall::parse_rfc3339(&text)),
            updated: string(raw.last_updated_at).map(bounded_name),
            input_requests: raw
                .input_requests
                .map(parse_input_requests)
                .unwrap_or_default(),
            result: raw.result.map(|json| json.get().to_owned()),
            error: raw.error.and_then(|it| serde_json::from_value(it).ok()),
        }
    }
}

fn string(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Whole milliseconds; `None` for more than ten years, which counts as unlimited.
fn milliseconds(value: &Value) -> Option<u64> {
    const TEN_YEARS: f64 = 10.0 * 365.0 * 86_400_000.0;
    let number = value.as_f64()?;
    let is_usual = (0.0..=TEN_YEARS).contains(&number);
    is_usual.then_some(text::whole_part(number))
}

fn parse_input_requests(requests: &RawValue) -> Vec<InputRequest> {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(default)]
        method: String,
        #[serde(borrow)]
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
    let usable = requests.into_iter().filter(is_usable).take(MAX_ITEMS);
    usable.filter_map(read).collect()
}

/// Parses a task object from `tasks/get`, `tasks/cancel` or a status notification, with or without a `task` wrapper.
pub fn parse_task_object(json: &str) -> Option<TaskObject> {
    #[derive(Deserialize)]
    struct Wrapped<'a> {
        #[serde(borrow)]
        task: &'a RawValue,
    }
    let inner = serde_json::from_str::<Wrapped<'_>>(json).map(|wrapped| wrapped.task.get());
    serde_json::from_str::<RawTask<'_>>(inner.unwrap_or(json))
        .ok()
        // The id is sent in headers and shown on the screen; real ones are much shorter.
        .filter(|raw| raw.task_id.len() <= text::NAME_BYTES)
        .map(TaskObject::from)
}

/// Parses one page of `tasks/list` (2025-11-25): its tasks and the cursor of the next page.
pub fn parse_task_page(result: &str) -> (Vec<TaskObject>, Option<String>) {
    let (tasks, next) = page(result, "tasks");
    let tasks = tasks
        .into_iter()
        .filter_map(|raw| parse_task_object(raw.get()));
    (tasks.collect(), next)
}

/// The kind of a `tools/call` result.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// The tool's own result.
    Complete,
    /// The call runs as a server task.
    Task(TaskKind, Box<TaskObject>),
    /// The server needs input before it continues (multi round-trip request).
    InputRequired {
        /// The input requests.
        input_requests: Vec<InputRequest>,
        /// `requestState`, to be returned unchanged.
        state: Option<String>,
    },
    /// An unsupported `resultType`.
    Unsupported(String),
}

/// Determines the kind of a `tools/call` result. `asks_for_task` tells whether the call requested a core task. Results have
/// types only in the modern era.
pub fn classify_call_result(result: &str, asks_for_task: bool, era: Era) -> CallOutcome {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shape<'a> {
        #[serde(borrow)]
        result_type: Option<&'a RawValue>,
        #[serde(borrow)]
        task: Option<&'a RawValue>,
        #[serde(borrow)]
        input_requests: Option<&'a RawValue>,
        #[serde(borrow)]
        request_state: Option<&'a RawValue>,
    }
    let text_of = |raw: &RawValue| serde_json::from_str::<String>(raw.get());
    let is_modern = era == Era::Modern;
    if result == "null" {
        return CallOutcome::Unsupported(result.to_owned());
    }
    let shape = match serde_json::from_str::<Shape<'_>>(result) {
        Ok(shape) => shape,
        // A question must not pass for a result.
        Err(_) if is_modern && result.contains("\"input_required\"") => {
            return CallOutcome::Unsupported("malformed input_required".to_owned());
        }
        Err(_) => Shape::default(),
    };
    let kind = shape.result_type.filter(|_| is_modern);
    let kind = kind.map(|raw| text_of(raw).unwrap_or_else(|_| raw.get().to_owned()));
    match kind.as_deref() {
        Some("task") => match parse_task_object(result) {
            Some(task) => CallOutcome::Task(TaskKind::Extension, Box::new(task)),
            None => CallOutcome::Unsupported("task without an id".to_owned()),
        },
        Some("input_required") => match shape.request_state.map(text_of).transpose() {
            Ok(state) => CallOutcome::InputRequired {
                input_requests: shape
                    .input_requests
                    .map(parse_input_requests)
                    .unwrap_or_default(),
                state,
            },
            Err(_) => CallOutcome::Unsupported("a requestState that is not a string".to_owned()),
        },
        None | Some("complete") => match shape.task.filter(|_| asks_for_task) {
            Some(raw) => parse_task_object(raw.get()).map_or(CallOutcome::Complete, |task| {
                CallOutcome::Task(TaskKind::Core, Box::new(task))
            }),
            None => CallOutcome::Complete,
        },
        Some(other) => CallOutcome::Unsupported(bounded_name(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parses_created_tasks_of_both_protocols() {
        let core = r#"{"task":{"taskId":"a:1","status":"working","ttl":3600000,"pollInterval":2000,"createdAt":"x"}}"#;
        let CallOutcome::Task(TaskKind::Core, task) =
            classify_call_result(core, true, Era::Stateful)
        else {
            panic!("a core task")
        };
        assert_eq!((task.ttl_ms, task.poll_ms), (Some(3_600_000), Some(2000)));
        assert_eq!(
            classify_call_result(core, false, Era::Stateful),
            CallOutcome::Complete
        );
        let flat = r#"{"resultType":"task","taskId":"b","status":"working","ttlMs":null,"pollIntervalMs":500}"#;
        let CallOutcome::Task(TaskKind::Extension, task) =
            classify_call_result(flat, false, Era::Modern)
        else {
            panic!("a task of the extension")
        };
        assert_eq!((task.ttl_ms, task.poll_ms), (None, Some(500)));
    }

    #[test]
    fn only_the_id_of_a_task_is_required() {
        let odd = r#"{"taskId":"c","status":7,"statusMessage":{},"ttl":"1","ttlMs":60000,"pollInterval":2000,
            "pollIntervalMs":"soon","lastUpdatedAt":12,"error":"none"}"#;
        let task = parse_task_object(odd).unwrap();
        assert_eq!((task.id.as_str(), task.state), ("c", TaskState::Working));
        assert_eq!((task.ttl_ms, task.poll_ms), (Some(60_000), None));
        assert_eq!(parse_task_object(r#"{"status":"working"}"#), None);
    }

    #[test]
    fn input_requests_keep_keys_order_and_parameters() {
        let result = r#"{"resultType":"input_required","requestState":"s\u0001","inputRequests":{
            "b":{"method":"elicitation/create","params":{"message":"B?","n":1.0}},"a":{"method":"roots/list"}}}"#;
        let CallOutcome::InputRequired {
            input_requests,
            state,
        } = classify_call_result(result, false, Era::Modern)
        else {
            panic!("a question")
        };
        assert_eq!(state.as_deref(), Some("s\u{1}"));
        let keys: Vec<_> = input_requests
            .iter()
            .map(|request| request.key.as_str())
            .collect();
        assert_eq!(keys, ["b", "a"]);
        assert_eq!(input_requests[0].params, r#"{"message":"B?","n":1.0}"#);
    }

    #[test]
    fn reports_unsupported_result_types() {
        let of = |result: &str| classify_call_result(result, false, Era::Modern);
        let outcome = of(r#"{"resultType":"later"}"#);
        assert_eq!(outcome, CallOutcome::Unsupported("later".to_owned()));
        assert_eq!(of("[]"), CallOutcome::Complete);
        // A question without an answer must not pass for a result.
        for result in [
            r#"{"resultType":"input_required","requestState":{"a":1}}"#,
            r#"{"resultType":"input_required","resultType":"input_required"}"#,
            r#"{"resultType":["input_required"]}"#,
        ] {
            assert!(
                matches!(of(result), CallOutcome::Unsupported(_)),
                "{result}"
            );
        }
        let asks = of(r#"{"resultType":"input_required","requestState":null}"#);
        assert!(
            matches!(asks, CallOutcome::InputRequired { state: None, .. }),
            "{asks:?}"
        );
    }

    #[test]
    fn results_have_types_only_in_the_modern_era() {
        for kind in ["table", "input_required", "task"] {
            let result = format!(r#"{{"content":[],"resultType":"{kind}","taskId":"a"}}"#);
            let outcome = classify_call_result(&result, false, Era::Stateful);
            assert_eq!(outcome, CallOutcome::Complete, "{kind}");
        }
    }

    #[test]
    fn parses_discover_results() {
        let found = parse_discover_result(
            r#"{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"lab","version":"1"}}}"#,
        )
        .unwrap();
        assert!(found.tasks.is_some() && found.server_info.as_deref() == Some("lab 1"));
        assert_eq!(parse_discover_result("{}"), None);
    }

    proptest! {
        #[test]
        fn no_input_panics(data in any::<String>()) {
            let _ = (parse_discover_result(&data), parse_task_object(&data), parse_task_page(&data), classify_call_result(&data, true, Era::Modern));
        }
    }

    #[test]
    fn cuts_oversized_task_objects() {
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
        let message = named("t").and_then(|task| task.message).unwrap();
        assert!(
            message.len() < text::SERVER_TEXT_BYTES + 100,
            "{}",
            message.len()
        );
        let mut requests = serde_json::Map::new();
        requests.insert(long, serde_json::json!({"method": "m"}));
        for number in 0..1000 {
            requests.insert(number.to_string(), serde_json::json!({"method": "m"}));
        }
        let asking = serde_json::json!({"resultType": "input_required", "inputRequests": requests});
        let CallOutcome::InputRequired { input_requests, .. } =
            classify_call_result(&asking.to_string(), false, Era::Modern)
        else {
            panic!("a question")
        };
        assert_eq!(
            (input_requests.len(), input_requests[0].key.as_str()),
            (MAX_ITEMS, "0")
        );
        let versions: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let discovery = serde_json::json!({"supportedVersions": versions, "capabilities": {}});
        assert_eq!(discovery_of(&discovery), MAX_ITEMS);
    }

    fn discovery_of(json: &Value) -> usize {
        parse_discover_result(&json.to_string()).map_or(0, |found| found.versions.len())
    }

    #[test]
    fn odd_members_do_not_hide_what_a_server_lists() {
        for capabilities in ["[]", "null"] {
            let found =
                format!(r#"{{"supportedVersions":["2026-07-28"],"capabilities":{capabilities}}}"#);
            let found = parse_discover_result(&found).expect(capabilities);
            assert!(found.tasks.is_none());
        }
        let page = parse_task_page(r#"{"tasks":[{"taskId":"a"}],"nextCursor":5}"#);
        assert_eq!((page.0.len(), page.1), (1, None));
    }
}
