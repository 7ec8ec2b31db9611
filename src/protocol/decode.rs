//! Parses the JSON-RPC messages in an event, borrowing from its text where possible.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::value::RawValue;
use smallvec::{SmallVec, smallvec};

use super::RpcError;
use crate::domain::{LogLevel, TaskCapability, TaskKind, Tool, text};

/// Maximum bytes of an input schema; the largest known ones have a tenth of that. A tool with a larger one is unusable.
const SCHEMA_BYTES: usize = 256 * 1024;

/// A string that borrows from the JSON text unless it contains an escape.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// One JSON-RPC message from a server.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// The response to a request of longhaul.
    Response {
        /// The id of the request. longhaul's ids are strings; responses with other ids are ignored.
        id: Cow<'a, str>,
        /// The raw result, or the error.
        outcome: Result<&'a RawValue, RpcError>,
    },
    /// `notifications/progress`.
    Progress {
        /// The progress token of the call. longhaul's tokens are strings.
        token: Cow<'a, str>,
        /// As sent, not validated.
        value: f64,
        /// As sent, not validated.
        total: Option<f64>,
        /// The server's message, not sanitized.
        message: Option<Cow<'a, str>>,
    },
    /// `notifications/message`.
    Log {
        /// The severity.
        level: LogLevel,
        /// The part of the server that logged it.
        logger: Option<Cow<'a, str>>,
        /// Text, or the JSON of any other value.
        data: Cow<'a, str>,
    },
    /// `notifications/tools/list_changed`.
    ToolsChanged,
    /// Other lists, or a resource, have changed.
    OtherChanged,
    /// A request of the server.
    Request {
        /// The raw JSON of its id, which the response must repeat.
        id: &'a RawValue,
        /// Its method.
        method: Cow<'a, str>,
        /// Its parameters, verbatim JSON.
        params: &'a str,
    },
    /// `notifications/tasks/status` or `notifications/tasks`: a task object, verbatim JSON.
    TaskStatus(&'a str),
    /// `notifications/subscriptions/acknowledged`: its parameters, verbatim JSON.
    Acknowledged(&'a str),
    /// `notifications/cancelled` with the raw id of the server's own request that it cancels.
    Cancelled(&'a RawValue),
    /// A notification that longhaul doesn't use itself; hosts get it all the same.
    Other,
    /// A response to the request with this id that has neither a result nor an error.
    BadResponse(Cow<'a, str>),
    /// Not a readable message; the link counts and reports these.
    Unreadable,
}

impl Incoming<'_> {
    /// The id or the progress token of the request that it is about, which may be a call.
    pub fn names_request(&self) -> Option<&str> {
        match self {
            Self::Progress { token: name, .. }
            | Self::Response { id: name, .. }
            | Self::BadResponse(name) => Some(name),
            Self::Log { .. }
            | Self::ToolsChanged
            | Self::OtherChanged
            | Self::Request { .. }
            | Self::TaskStatus(_)
            | Self::Acknowledged(_)
            | Self::Cancelled(_)
            | Self::Other
            | Self::Unreadable => None,
        }
    }
}

/// A JSON-RPC message.
#[derive(Deserialize)]
struct RawMessage<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Text<'a>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    /// `null` is a result too, unlike nothing at all.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

/// A progress notification as every SDK writes it, by far the most frequent message, read in one pass. Any other message
/// fails at its first other key or at its method.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgressMessage<'a> {
    #[serde(default, rename = "jsonrpc")]
    _version: IgnoredAny,
    #[serde(rename = "method")]
    _method: ProgressMethod,
    #[serde(borrow)]
    params: ProgressParams<'a>,
}

#[derive(Deserialize)]
enum ProgressMethod {
    #[serde(rename = "notifications/progress")]
    Progress,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    #[serde(borrow)]
    progress_token: &'a RawValue,
    progress: f64,
    total: Option<f64>,
    #[serde(borrow)]
    message: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelledParams<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

#[derive(Deserialize)]
struct LogParams<'a> {
    #[serde(borrow)]
    level: Option<Text<'a>>,
    #[serde(borrow)]
    logger: Option<Text<'a>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// The data of a log message of FastMCP 2; without `extra`, only the text says anything.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FastMcpLog<'a> {
    #[serde(borrow)]
    msg: Text<'a>,
    #[expect(dead_code, reason = "only null is accepted")]
    extra: (),
}

/// Parses the data of one event: one message, or a batch in 2025-03-26.
///
/// JSON that isn't a JSON-RPC message is skipped (replayed priming events come as `{}`). Anything that can't be parsed
/// becomes [`Incoming::Unreadable`].
pub fn decode(data: &str) -> SmallVec<[Incoming<'_>; 1]> {
    if data.is_empty() {
        return SmallVec::new();
    }
    if data.trim_start().starts_with('[') {
        let Ok(batch) = serde_json::from_str::<Vec<&RawValue>>(data) else {
            return smallvec![Incoming::Unreadable];
        };
        let messages = batch.into_iter();
        messages
            .filter_map(|message| decode_one(message.get()))
            .collect()
    } else {
        decode_one(data).into_iter().collect()
    }
}

/// The error in a response whose id is null: the server could not tell which request it answers (JSON-RPC 2.0, section 5).
pub fn error_without_id(data: &str) -> Option<RpcError> {
    #[derive(Deserialize)]
    struct Response<'a> {
        jsonrpc: &'a str,
        id: (),
        #[serde(borrow)]
        error: &'a RawValue,
    }
    let response: Response<'_> = serde_json::from_str(data).ok()?;
    let () = response.id;
    let is_error = response.jsonrpc == "2.0" && response.error.get().starts_with('{');
    is_error.then(|| rpc_error(response.error))
}

fn decode_one(data: &str) -> Option<Incoming<'_>> {
    if let Ok(message) = serde_json::from_str::<ProgressMessage<'_>>(data) {
        return progress(message.params);
    }
    match serde_json::from_str(data) {
        Ok(message) => interpret(message),
        Err(_) if data == "null" => None,
        Err(_) => Some(Incoming::Unreadable),
    }
}

fn interpret(message: RawMessage<'_>) -> Option<Incoming<'_>> {
    let Some(Text(method)) = message.method else {
        let id = string(message.id?)?;
        let outcome = match (message.result, message.error) {
            (_, Some(error)) => Err(rpc_error(error)),
            (Some(result), None) => Ok(result),
            (None, None) => return Some(Incoming::BadResponse(id)),
        };
        return Some(Incoming::Response { id, outcome });
    };
    let params = message.params.map_or("{}", RawValue::get);
    if let Some(id) = message.id {
        // Both are repeated in the response; real ones are much shorter.
        if id.get().len().max(method.len()) > text::NAME_BYTES {
            return Some(Incoming::Unreadable);
        }
        return Some(Incoming::Request { id, method, params });
    }
    Some(match method.as_ref() {
        "notifications/progress" => {
            return serde_json::from_str(params).map_or(Some(Incoming::Unreadable), progress);
        }
        "notifications/message" => {
            let Ok(log) = serde_json::from_str::<LogParams<'_>>(params) else {
                return Some(Incoming::Unreadable);
            };
            Incoming::Log {
                level: log
                    .level
                    .and_then(|level| level.0.parse().ok())
                    .unwrap_or_default(),
                logger: log
                    .logger
                    .map(|text| text::bounded(text.0, text::NAME_BYTES)),
                data: log.data.map_or(Cow::Borrowed(""), |data| {
                    let record = serde_json::from_str::<FastMcpLog<'_>>(data.get());
                    let text = record.map_or_else(|_| string(data), |record| Some(record.msg.0));
                    bounded(text.unwrap_or(Cow::Borrowed(data.get())))
                }),
            }
        }
        "notifications/tools/list_changed" => Incoming::ToolsChanged,
        "notifications/prompts/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/resources/updated" => Incoming::OtherChanged,
        "notifications/tasks/status" | "notifications/tasks" => Incoming::TaskStatus(params),
        "notifications/subscriptions/acknowledged" => Incoming::Acknowledged(params),
        "notifications/cancelled" => {
            let params: CancelledParams<'_> = serde_json::from_str(params).ok()?;
            Incoming::Cancelled(params.request_id)
        }
        _ => Incoming::Other,
    })
}

/// A message of a server, cut to [`text::SERVER_TEXT_BYTES`].
fn bounded(whole: Cow<'_, str>) -> Cow<'_, str> {
    text::bounded(whole, text::SERVER_TEXT_BYTES)
}

/// Parses an error of any form; a malformed error still ends the call.
pub fn rpc_error(raw: &RawValue) -> RpcError {
    #[derive(Default, Deserialize)]
    struct Parts<'a> {
        #[serde(borrow)]
        code: Option<&'a RawValue>,
        #[serde(borrow)]
        message: Option<&'a RawValue>,
    }
    serde_json::from_str(raw.get()).unwrap_or_else(|_| {
        let parts: Parts<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let code = parts.code.and_then(|code| code.get().parse::<f64>().ok());
        let message = parts.message.unwrap_or(raw);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a cast from a float stays within the bounds of the whole number"
        )]
        RpcError {
            code: code.unwrap_or_default() as i64,
            message: bounded(string(message).unwrap_or(Cow::Borrowed(message.get()))).into_owned(),
            data: None,
        }
    })
}

fn progress(params: ProgressParams<'_>) -> Option<Incoming<'_>> {
    Some(Incoming::Progress {
        // Only strings, because longhaul sends no other tokens.
        token: string(params.progress_token)?,
        value: params.progress,
        total: params.total,
        message: params.message.map(|text| bounded(text.0)),
    })
}

/// The text of a raw JSON string; `None` for any other kind of value.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get())
        .ok()
        .map(|text| text.0)
}

/// How a server introduces itself: the result of `initialize` or `server/discover`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduced {
    /// The one revision that it chose, or the modern ones that it supports.
    pub versions: Vec<String>,
    /// Its support of tasks, if any.
    pub tasks: Option<TaskCapability>,
    /// The name and version the server reports.
    pub server_info: Option<String>,
    /// The whole result, verbatim JSON, unless it is too large to keep.
    pub introduction: Option<String>,
}

impl Introduced {
    pub(super) fn new(
        result: &str,
        versions: Vec<String>,
        tasks: Option<TaskCapability>,
        info: Option<&serde_json::Value>,
    ) -> Self {
        let member = |key: &str| info?.get(key)?.as_str();
        let server_info = member("name").map(|name| match member("version") {
            Some(version) => format!("{name} {version}"),
            None => name.to_owned(),
        });
        Self {
            versions: versions.into_iter().map(bounded_name).collect(),
            tasks,
            server_info: server_info.map(bounded_name),
            introduction: introduction(result),
        }
    }
}

/// The most bytes of such a result that are kept.
const INTRODUCTION_BYTES: usize = 64 * 1024;

/// What is kept of such a result: all of it, or all but long instructions.
fn introduction(result: &str) -> Option<String> {
    let is_kept = |result: &String| result.len() <= INTRODUCTION_BYTES;
    Some(result.to_owned()).filter(is_kept).or_else(|| {
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(result).ok()?;
        members.remove("instructions");
        serde_json::to_string(&members).ok().filter(is_kept)
    })
}

/// A member that may be of another kind than the protocol says: it counts as absent then, instead of the whole message.
fn lenient<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    let value = <&RawValue>::deserialize(value)?;
    Ok(serde_json::from_str(value.get()).ok())
}

/// Parses the result of `initialize` (MCP 2025-11-25, basic/lifecycle); `None` if it is invalid.
pub fn parse_initialize_result(result: &str) -> Option<Introduced> {
    let value: serde_json::Value = serde_json::from_str(result).ok()?;
    let version = value.get("protocolVersion")?.as_str()?.to_owned();
    let tasks = value.pointer("/capabilities/tasks").and_then(core_tasks);
    let info = value.get("serverInfo");
    Some(Introduced::new(result, vec![version], tasks, info))
}

/// A name from a server, cut to [`text::NAME_BYTES`].
pub(super) fn bounded_name(whole: String) -> String {
    text::bounded(Cow::Owned(whole), text::NAME_BYTES).into_owned()
}

/// Support of core tasks (2025-11-25); only tasks for tool calls count.
fn core_tasks(tasks: &serde_json::Value) -> Option<TaskCapability> {
    tasks.pointer("/requests/tools/call")?;
    Some(TaskCapability {
        kind: TaskKind::Core,
        can_list: tasks.get("list").is_some(),
    })
}

/// The items of one page of a list, as its member `key`, and the cursor of the next page.
pub(super) fn page<'r>(result: &'r str, key: &str) -> (Vec<&'r RawValue>, Option<String>) {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(result).unwrap_or_default();
    let member = |key: &str| members.get(key).map(|value| value.get());
    let items = member(key).and_then(|json| serde_json::from_str(json).ok());
    let next = member("nextCursor").and_then(|json| serde_json::from_str(json).ok());
    (items.unwrap_or_default(), next)
}

/// Parses one page of `tools/list`: its tools and the cursor of the next page. Tools without a name are skipped.
pub fn parse_tool_page(result: &str) -> (Vec<Tool>, Option<String>) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shape<'a> {
        name: String,
        #[serde(default, deserialize_with = "lenient")]
        title: Option<String>,
        #[serde(default, deserialize_with = "lenient")]
        description: Option<String>,
        #[serde(borrow)]
        input_schema: Option<&'a RawValue>,
        #[serde(default, deserialize_with = "lenient")]
        annotations: Option<Annotations>,
        #[serde(default, deserialize_with = "lenient")]
        execution: Option<Execution>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Execution {
        task_support: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Annotations {
        #[serde(deserialize_with = "lenient")]
        title: Option<String>,
        #[serde(deserialize_with = "lenient")]
        read_only_hint: Option<bool>,
        #[serde(deserialize_with = "lenient")]
        destructive_hint: Option<bool>,
        #[serde(deserialize_with = "lenient")]
        idempotent_hint: Option<bool>,
    }
    let read = |raw: &RawValue| {
        let shape: Shape<'_> = serde_json::from_str(raw.get()).ok()?;
        let annotations = shape.annotations.unwrap_or_default();
        let schema = shape.input_schema.map_or("{}", RawValue::get);
        let fault = if shape.name.len() > text::NAME_BYTES {
            Some("its name is longer than 1 kB")
        } else if schema.len() > SCHEMA_BYTES {
            Some("its input schema is larger than 256 kB")
        } else {
            None
        };
        let schema = if fault.is_some() { "{}" } else { schema };
        Some(Tool {
            name: bounded_name(shape.name),
            title: shape.title.or(annotations.title).map(bounded_name),
            description: shape
                .description
                .map(|description| bounded(Cow::Owned(description)).into_owned()),
            input_schema: schema.to_owned(),
            read_only: annotations.read_only_hint,
            destructive: annotations.destructive_hint,
            idempotent: annotations.idempotent_hint,
            task_support: shape
                .execution
                .and_then(|execution| execution.task_support?.parse().ok())
                .unwrap_or_default(),
            fault: fault.map(str::to_owned),
        })
    };
    let (tools, next) = page(result, "tools");
    (tools.into_iter().filter_map(read).collect(), next)
}

/// The parts of a `tools/call` result that longhaul itself needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CallResult {
    /// `isError`: the tool ran and reported an error.
    pub is_error: bool,
    /// The text of the first text block.
    pub text: Option<String>,
    /// The start of the JSON of a result that has neither a list of content blocks nor structured content.
    pub bare: Option<String>,
}

/// Parses a CallToolResult of any form (MCP 2025-11-25, server/tools). Without `isError: true` it counts as success.
pub fn parse_call_result(result: &str) -> CallResult {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shape<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        structured_content: Option<&'a RawValue>,
        #[serde(borrow)]
        is_error: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Block {
        text: Option<String>,
    }
    let shape: Shape<'_> = serde_json::from_str(result).unwrap_or_default();
    let blocks = shape.content.map(RawValue::get);
    let blocks = blocks.and_then(|json| serde_json::from_str::<Vec<&RawValue>>(json).ok());
    let is_bare = blocks.is_none() && shape.structured_content.is_none();
    CallResult {
        is_error: shape.is_error.is_some_and(|raw| raw.get() == "true"),
        text: blocks.into_iter().flatten().find_map(|raw| {
            serde_json::from_str::<Block>(raw.get())
                .ok()
                .and_then(|b| b.text)
        }),
        bare: is_bare.then(|| bounded(Cow::Borrowed(result)).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(data: &str) -> Incoming<'_> {
        decode(data).into_iter().next().unwrap()
    }

    #[test]
    fn parses_progress_and_logs_in_any_member_order() {
        let data = r#"{"params":{"message":"Processed 15/50","total":50,"progress":15.0,"progressToken":"a-1"},
            "method":"notifications/progress","jsonrpc":"2.0","extra":1}"#;
        assert!(
            matches!(one(data), Incoming::Progress { token, value, total: Some(total), .. }
            if token == "a-1" && (value, total) == (15.0, 50.0))
        );
        let data =
            r#"{"method":"notifications/message","params":{"level":"warning","data":{"a":[1]}}}"#;
        assert!(
            matches!(one(data), Incoming::Log { level: LogLevel::Warning, data, .. } if data == r#"{"a":[1]}"#)
        );
        for (data, shown) in [
            (r#"{"msg":"did 1","extra":null}"#, "did 1"),
            (
                r#"{"msg":"did 1","extra":{"a":1}}"#,
                r#"{"msg":"did 1","extra":{"a":1}}"#,
            ),
        ] {
            let message =
                format!(r#"{{"method":"notifications/message","params":{{"data":{data}}}}}"#);
            assert!(matches!(one(&message), Incoming::Log { data, .. } if data == shown));
        }
    }

    #[test]
    fn skips_json_that_is_not_a_message() {
        for data in [
            "{}",
            "",
            "null",
            "[]",
            "{\"id\":1.5,\"result\":{}}",
            "{\"id\":null,\"error\":{}}",
        ] {
            assert!(decode(data).is_empty(), "{data}");
        }
        assert!(matches!(
            one(r#"{"method":"notifications/new"}"#),
            Incoming::Other
        ));
    }

    #[test]
    fn reports_unreadable_messages() {
        for data in [
            "[1]",
            "bare words",
            r#"{"id":"a","result":{}"#,
            r#"{"id":"a","id":"b","result":{}}"#,
            r#"{"method":"notifications/progress","params":{"progressToken":"a","progress":1e999}}"#,
            r#"{"method":"notifications/progress","params":{"progressToken":"a","progress":NaN}}"#,
            r#"{"method":"notifications/progress","params":{"progressToken":"a","progress":"5"}}"#,
            r#"{"method":"notifications/progress","params":{"progressToken":"a","progress":1,"progress":2}}"#,
        ] {
            let decoded = decode(data);
            assert!(matches!(decoded[..], [Incoming::Unreadable]), "{decoded:?}");
        }
        // No nesting depth overflows the stack.
        for (open, close) in [("[", "]"), ("{\"id\":", "}"), ("{\"params\":", "}")] {
            let (open, close) = (open.repeat(100_000), close.repeat(100_000));
            let _ = decode(&format!("{open}1{close}")).len();
            let deep = format!(r#"{{"id":"a","result":{{"x":{open}1{close}}}}}"#);
            assert!(matches!(
                one(&deep),
                Incoming::Response { outcome: Ok(_), .. }
            ));
        }
        assert!(matches!(one(r#"{"id":"a"}"#), Incoming::BadResponse(_)));
        // The rest of a batch is still read.
        let decoded = decode(r#"[7,{"id":"a","result":{}}]"#);
        assert!(matches!(
            decoded[..],
            [Incoming::Unreadable, Incoming::Response { .. }]
        ));
    }

    #[test]
    fn accepts_errors_of_any_form() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for (error, code, message) in [
            ("\"no\"".to_owned(), 0, "no"),
            (
                "{\"code\":-32601.0,\"message\":\"no\"}".to_owned(),
                -32601,
                "no",
            ),
            ("{\"code\":\"x\",\"message\":7}".to_owned(), 0, "7"),
            (
                format!("{{\"code\":5,\"message\":\"no\",\"data\":{deep}}}"),
                5,
                "no",
            ),
        ] {
            let data = format!("{{\"id\":\"a\",\"error\":{error}}}");
            let Incoming::Response { outcome, .. } = one(&data) else {
                panic!("{data}")
            };
            let error = outcome.unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (code, message));
        }
    }

    #[test]
    fn cuts_long_texts() {
        let long = "x".repeat(1 << 20);
        let kept =
            |text: &str| text.len() < text::SERVER_TEXT_BYTES + 100 && text.contains("omitted");
        let step = format!(
            r#"{{"method":"notifications/progress","params":{{"progressToken":"a","progress":1,"message":"{long}"}}}}"#
        );
        assert!(
            matches!(one(&step), Incoming::Progress { message: Some(message), .. } if kept(&message))
        );
        let line = format!(
            r#"{{"method":"notifications/message","params":{{"logger":"{long}","data":["{long}"]}}}}"#
        );
        assert!(
            matches!(one(&line), Incoming::Log { logger: Some(logger), data, .. } if kept(&data) && kept(&logger))
        );
        let error = format!(r#"{{"id":"a","error":{{"code":1,"message":"{long}"}}}}"#);
        assert!(
            matches!(one(&error), Incoming::Response { outcome: Err(error), .. } if kept(&error.message))
        );
        for request in [
            format!(r#"{{"id":"{long}","method":"ping"}}"#),
            format!(r#"{{"id":1,"method":"{long}"}}"#),
        ] {
            assert!(matches!(one(&request), Incoming::Unreadable));
        }
        let shake = format!(
            r#"{{"protocolVersion":"{long}","capabilities":{{}},"serverInfo":{{"name":"{long}","version":"1"}}}}"#
        );
        let shake = parse_initialize_result(&shake).unwrap();
        assert!(kept(&shake.versions[0]) && kept(shake.server_info.as_deref().unwrap()));
        let list = format!(
            r#"{{"tools":[{{"name":"a","description":"{long}"}},{{"name":"{long}"}},{{"name":"b","inputSchema":{{"x":"{long}"}}}}]}}"#
        );
        let (tools, _) = parse_tool_page(&list);
        assert!(kept(tools[0].description.as_deref().unwrap()));
        let offered: Vec<bool> = tools.iter().map(Tool::is_offered).collect();
        assert_eq!(offered, [true, false, false]);
        assert!(tools.iter().all(|tool| tool.input_schema == "{}"));
    }

    #[test]
    fn splits_batches_into_messages() {
        let batch = r#"[{"id":"a","result":{}},{"id":"b","error":{"code":-32601,"message":"no"}}]"#;
        let ids: Vec<_> = decode(batch)
            .into_iter()
            .map(|message| match message {
                Incoming::Response { id, outcome } => (id.into_owned(), outcome.is_ok()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(ids, [("a".to_owned(), true), ("b".to_owned(), false)]);
    }

    #[test]
    fn parses_initialize_tools_and_call_results() {
        let shake = parse_initialize_result(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"logging":{}},"serverInfo":{"name":"lab","version":"1"}}"#,
        );
        assert_eq!(shake.unwrap().server_info.as_deref(), Some("lab 1"));
        let (tools, next) = parse_tool_page(
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"title":"nameless"}],"nextCursor":""}"#,
        );
        assert_eq!((tools.len(), next.as_deref()), (1, Some("")));
        let result = parse_call_result(
            r#"{"content":[{"type":"image"},{"type":"text","text":"hi"}],"isError":true}"#,
        );
        assert_eq!(
            result,
            CallResult {
                is_error: true,
                text: Some("hi".into()),
                bare: None,
            }
        );
    }

    #[test]
    fn a_member_of_another_kind_does_not_end_a_handshake() {
        for rest in [
            r#""capabilities":{},"serverInfo":{"name":"lab","version":1.0}"#,
            r#""capabilities":[],"serverInfo":{"name":"lab"}"#,
            r#""capabilities":null,"serverInfo":{"name":"lab","version":null}"#,
            r#""serverInfo":{"name":"lab"}"#,
        ] {
            let shake = format!(r#"{{"protocolVersion":"2025-11-25",{rest}}}"#);
            let shake = parse_initialize_result(&shake).expect(rest);
            assert_eq!(shake.server_info.as_deref(), Some("lab"), "{rest}");
        }
        for info in ["{}", "[]", "7", r#"{"name":7}"#] {
            let shake = format!(r#"{{"protocolVersion":"2025-11-25","serverInfo":{info}}}"#);
            assert_eq!(
                parse_initialize_result(&shake).expect(info).server_info,
                None
            );
        }
        assert_eq!(parse_initialize_result(r#"{"capabilities":{}}"#), None);
    }

    #[test]
    fn only_instructions_that_are_too_long_are_dropped() {
        let long = "i".repeat(INTRODUCTION_BYTES);
        let shake = format!(
            r#"{{"protocolVersion":"x","capabilities":{{"n":1.50}},"instructions":"{long}"}}"#
        );
        let kept = parse_initialize_result(&shake).unwrap().introduction;
        let kept = kept.unwrap_or_default();
        assert!(
            kept.contains(r#""capabilities":{"n":1.50}"#) && !kept.contains("iii"),
            "{kept}"
        );
        let shake = format!(r#"{{"protocolVersion":"x","serverInfo":"{long}"}}"#);
        assert_eq!(parse_initialize_result(&shake).unwrap().introduction, None);
    }

    #[test]
    fn a_tool_with_an_odd_member_stays() {
        let list = r#"{"tools":[{"name":"a","annotations":{"readOnlyHint":"true","destructiveHint":false}},
            {"name":"b","description":["x"],"inputSchema":{"type":"object"}},{"name":"c","title":5},
            {"name":"d","execution":"x","annotations":[]},{"name":7},"e"],"nextCursor":5}"#;
        let (tools, next) = parse_tool_page(list);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((names, next), (vec!["a", "b", "c", "d"], None));
        assert_eq!(
            (tools[0].read_only, tools[0].destructive),
            (None, Some(false))
        );
        assert_eq!(tools[1].input_schema, r#"{"type":"object"}"#);
        let (tools, next) = parse_tool_page(r#"{"tools":null,"nextCursor":"c"}"#);
        assert_eq!((tools.len(), next.as_deref()), (0, Some("c")));
    }

    #[test]
    fn keeps_the_json_of_unusual_results() {
        for (result, is_error, text) in [
            ("7", false, None),
            ("\"done\"", false, None),
            ("[]", false, None),
            ("null", false, None),
            ("{}", false, None),
            (r#"{"ok":1,"isError":true}"#, true, None),
            (r#"{"content":"done","isError":true}"#, true, None),
        ] {
            let bare = Some(result.to_owned());
            let expected = CallResult {
                is_error,
                text,
                bare,
            };
            assert_eq!(parse_call_result(result), expected, "{result}");
        }
        for result in [
            r#"{"content":[]}"#,
            r#"{"structuredContent":{}}"#,
            r#"{"content":[{"type":"image"}]}"#,
        ] {
            assert_eq!(parse_call_result(result), CallResult::default(), "{result}");
        }
        let mixed = parse_call_result(r#"{"content":[{"text":"a"}],"isError":"yes"}"#);
        assert_eq!((mixed.is_error, mixed.text.as_deref()), (false, Some("a")));
    }

    proptest! {
        #[test]
        fn no_input_panics(data in any::<String>()) {
            let _ = (decode(&data).len(), parse_initialize_result(&data), parse_tool_page(&data), parse_call_result(&data));
        }
    }
}
