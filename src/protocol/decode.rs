//! From the text of an event to what it means, borrowed from the text wherever possible.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::RpcError;
use crate::domain::{Level, TaskKind, TaskOffer, TaskSupport, Tool};

/// A string that borrows from the text it was read from unless it holds an escape.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// One JSON-RPC message from a server.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// The answer to one of our requests.
    Response {
        /// The id of the request; ours are strings, so another kind of id is nobody's.
        id: Cow<'a, str>,
        /// The raw result, or the error.
        outcome: Result<&'a RawValue, RpcError>,
    },
    /// `notifications/progress`.
    Progress {
        /// The token of the call; ours are strings.
        token: Cow<'a, str>,
        /// As sent; not yet clamped.
        value: f64,
        /// As sent; not yet clamped.
        total: Option<f64>,
        /// The server's words.
        message: Option<Cow<'a, str>>,
    },
    /// `notifications/message`.
    Log {
        /// How loud.
        level: Level,
        /// Which part of the server.
        logger: Option<Cow<'a, str>>,
        /// Text, or compact JSON of anything else.
        data: Cow<'a, str>,
    },
    /// `notifications/tools/list_changed`.
    ToolsChanged,
    /// A request of the server; its id goes back as it came.
    Request {
        /// The raw id.
        id: &'a RawValue,
        /// What it wants.
        method: Cow<'a, str>,
        /// Its parameters, verbatim.
        params: &'a str,
    },
    /// `notifications/tasks/status` or `notifications/tasks`: a task object, verbatim.
    TaskStatus(&'a str),
    /// `notifications/subscriptions/acknowledged`: its parameters, verbatim.
    Acknowledged(&'a str),
    /// `notifications/cancelled`: the server takes a request of its own back; the raw id.
    Withdrawn(&'a RawValue),
    /// A notification that means nothing to us.
    Other,
}

/// A string, or something else that is skipped.
struct Token<'a>(Option<Cow<'a, str>>);

impl<'de: 'a, 'a> Deserialize<'de> for Token<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct AnyValue;
        impl<'de> Visitor<'de> for AnyValue {
            type Value = Token<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a progress token")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Token(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Token(Some(Cow::Owned(text.to_owned()))))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Token(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Token(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Token(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Token(None))
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Token(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Token(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Token(None))
            }
        }
        from.deserialize_any(AnyValue)
    }
}

/// A JSON-RPC message. The parameters of a step are read in the same pass where the method stands before them, as all
/// SDKs write it.
#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a RawValue>,
    method: Option<Text<'a>>,
    params: Option<Params<'a>>,
    result: Option<&'a RawValue>,
    error: Option<RpcError>,
}

enum Params<'a> {
    Raw(&'a RawValue),
    Progress(ProgressParams<'a>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "lowercase")]
        enum Key {
            Id,
            Method,
            Params,
            Result,
            Error,
            #[serde(other)]
            Other,
        }

        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC message")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                /// A key that stands twice could mean two things; the message is dropped.
                fn set<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
                    slot: &mut Option<T>,
                    name: &'static str,
                    map: &mut A,
                ) -> Result<(), A::Error> {
                    if slot.is_some() {
                        return Err(serde::de::Error::duplicate_field(name));
                    }
                    *slot = map.next_value()?;
                    Ok(())
                }
                let mut read = Envelope::default();
                while let Some(key) = map.next_key()? {
                    match key {
                        Key::Id => set(&mut read.id, "id", &mut map)?,
                        Key::Method => set(&mut read.method, "method", &mut map)?,
                        Key::Result => set(&mut read.result, "result", &mut map)?,
                        Key::Error => set(&mut read.error, "error", &mut map)?,
                        Key::Params if read.params.is_some() => {
                            return Err(serde::de::Error::duplicate_field("params"));
                        }
                        Key::Params => {
                            let is_step = read.id.is_none()
                                && read.method.as_ref().is_some_and(|name| name.0 == PROGRESS);
                            read.params = if is_step {
                                Some(Params::Progress(map.next_value()?))
                            } else {
                                map.next_value::<Option<&RawValue>>()?.map(Params::Raw)
                            };
                        }
                        Key::Other => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(read)
            }
        }
        from.deserialize_map(Object)
    }
}

/// The hot one of the methods.
const PROGRESS: &str = "notifications/progress";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a> {
    #[serde(borrow)]
    progress_token: Token<'a>,
    progress: f64,
    #[serde(default)]
    total: Option<f64>,
    #[serde(borrow, default)]
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
    #[serde(borrow, default)]
    level: Option<Text<'a>>,
    #[serde(borrow, default)]
    logger: Option<Text<'a>>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// Reads the text of one event: one message, or in 2025-03-26 a batch of them.
///
/// What is not a JSON-RPC message (stored priming events come back as `{}`) brings nothing and is no error.
pub fn decode(data: &str) -> Vec<Incoming<'_>> {
    if data.trim_start().starts_with('[') {
        let batch: Vec<&RawValue> = serde_json::from_str(data).unwrap_or_default();
        batch
            .into_iter()
            .filter_map(|message| serde_json::from_str(message.get()).ok().and_then(read))
            .collect()
    } else {
        serde_json::from_str(data)
            .ok()
            .and_then(read)
            .into_iter()
            .collect()
    }
}

fn read(envelope: Envelope<'_>) -> Option<Incoming<'_>> {
    let Some(Text(method)) = envelope.method else {
        let id = string(envelope.id?)?;
        let outcome = match (envelope.result, envelope.error) {
            (_, Some(error)) => Err(error),
            (Some(result), None) => Ok(result),
            (None, None) => return None,
        };
        return Some(Incoming::Response { id, outcome });
    };
    let params = match (envelope.params, envelope.id) {
        (Some(Params::Progress(step)), None) => return step_of(step),
        // The id came last: a request of the server that is called as a notification is.
        (Some(Params::Progress(_)), Some(id)) => {
            let params = "{}";
            return Some(Incoming::Request { id, method, params });
        }
        (Some(Params::Raw(params)), _) => params.get(),
        (None, _) => "{}",
    };
    if let Some(id) = envelope.id {
        return Some(Incoming::Request { id, method, params });
    }
    Some(match method.as_ref() {
        PROGRESS => return step_of(serde_json::from_str(params).ok()?),
        "notifications/message" => {
            let log: LogParams<'_> = serde_json::from_str(params).ok()?;
            Incoming::Log {
                level: log
                    .level
                    .map(|text| Level::read(&text.0))
                    .unwrap_or_default(),
                logger: log.logger.map(|text| text.0),
                data: log.data.map_or(Cow::Borrowed(""), |data| {
                    string(data).unwrap_or(Cow::Borrowed(data.get()))
                }),
            }
        }
        "notifications/tools/list_changed" => Incoming::ToolsChanged,
        "notifications/tasks/status" | "notifications/tasks" => Incoming::TaskStatus(params),
        "notifications/subscriptions/acknowledged" => Incoming::Acknowledged(params),
        "notifications/cancelled" => {
            let of: CancelledParams<'_> = serde_json::from_str(params).ok()?;
            Incoming::Withdrawn(of.request_id)
        }
        _ => Incoming::Other,
    })
}

fn step_of(step: ProgressParams<'_>) -> Option<Incoming<'_>> {
    Some(Incoming::Progress {
        token: step.progress_token.0?,
        value: step.progress,
        total: step.total,
        message: step.message.map(|text| text.0),
    })
}

/// The text of a raw JSON string; `None` for any other kind of value.
fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(raw.get())
        .ok()
        .map(|text| text.0)
}

/// What an `initialize` result says.
#[derive(Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The revision that the server chose.
    pub version: String,
    /// Whether it offers `logging/setLevel`.
    pub has_logging: bool,
    /// What it offers of core tasks.
    pub tasks: Option<TaskOffer>,
    /// Its name and version for itself.
    pub server_info: Option<String>,
}

/// Reads the result of `initialize` (MCP 2025-11-25, basic/lifecycle); `None` if it is none.
pub fn handshake(result: &str) -> Option<Handshake> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        protocol_version: String,
        #[serde(default)]
        capabilities: serde_json::Map<String, serde_json::Value>,
        #[serde(default)]
        server_info: Option<Info>,
    }
    #[derive(Deserialize)]
    struct Info {
        name: String,
        #[serde(default)]
        version: Option<String>,
    }
    let read: Initialized = serde_json::from_str(result).ok()?;
    Some(Handshake {
        version: read.protocol_version,
        has_logging: read.capabilities.contains_key("logging"),
        tasks: read.capabilities.get("tasks").and_then(core_tasks),
        server_info: read.server_info.map(|info| match info.version {
            Some(version) => format!("{} {version}", info.name),
            None => info.name,
        }),
    })
}

/// Core tasks of 2025-11-25; only for tool calls they mean anything to us.
fn core_tasks(tasks: &serde_json::Value) -> Option<TaskOffer> {
    tasks.pointer("/requests/tools/call")?;
    Some(TaskOffer {
        kind: TaskKind::Core,
        can_list: tasks.get("list").is_some(),
        can_cancel: tasks.get("cancel").is_some(),
    })
}

/// Reads one page of `tools/list`: its tools, and the cursor of the next page.
///
/// A tool without a name is left out; the others stay.
pub fn tools(result: &str) -> (Vec<Tool>, Option<String>) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page<'a> {
        #[serde(borrow, default)]
        tools: Vec<&'a RawValue>,
        #[serde(default)]
        next_cursor: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shape<'a> {
        name: String,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        description: Option<String>,
        #[serde(borrow, default)]
        input_schema: Option<&'a RawValue>,
        #[serde(default)]
        annotations: Option<Annotations>,
        #[serde(default)]
        execution: Option<Execution>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Execution {
        #[serde(default)]
        task_support: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Annotations {
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        read_only_hint: Option<bool>,
        #[serde(default)]
        destructive_hint: Option<bool>,
    }
    let Ok(page) = serde_json::from_str::<Page<'_>>(result) else {
        return (Vec::new(), None);
    };
    let read = |raw: &&RawValue| {
        let shape: Shape<'_> = serde_json::from_str(raw.get()).ok()?;
        let annotations = shape.annotations.unwrap_or_default();
        Some(Tool {
            name: shape.name,
            title: shape.title.or(annotations.title),
            description: shape.description,
            input_schema: shape.input_schema.map_or("{}", RawValue::get).to_owned(),
            read_only: annotations.read_only_hint,
            destructive: annotations.destructive_hint,
            task_support: shape
                .execution
                .and_then(|execution| execution.task_support)
                .map_or(TaskSupport::Forbidden, |word| TaskSupport::read(&word)),
            fault: None,
        })
    };
    (
        page.tools.iter().filter_map(read).collect(),
        page.next_cursor,
    )
}

/// What a `tools/call` result says, as far as the program itself has to know.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CallResult {
    /// `isError`: the tool ran and failed.
    pub is_error: bool,
    /// The text of the first text block.
    pub text: Option<String>,
}

/// Reads a CallToolResult (MCP 2025-11-25, server/tools); anything else reads as a success without text.
pub fn call_result(result: &str) -> CallResult {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Shape<'a> {
        #[serde(borrow, default)]
        content: Vec<&'a RawValue>,
        #[serde(default)]
        is_error: Option<bool>,
    }
    #[derive(Deserialize)]
    struct Block {
        #[serde(default)]
        text: Option<String>,
    }
    let Ok(shape) = serde_json::from_str::<Shape<'_>>(result) else {
        return CallResult::default();
    };
    CallResult {
        is_error: shape.is_error.unwrap_or(false),
        text: shape.content.iter().find_map(|raw| {
            serde_json::from_str::<Block>(raw.get())
                .ok()
                .and_then(|b| b.text)
        }),
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
    fn progress_and_logs_are_read_in_any_dress() {
        let data = r#"{"params":{"message":"Processed 15/50","total":50,"progress":15.0,"progressToken":"a-1"},
            "method":"notifications/progress","jsonrpc":"2.0","extra":1}"#;
        assert!(
            matches!(one(data), Incoming::Progress { token, value, total: Some(total), .. }
            if token == "a-1" && (value, total) == (15.0, 50.0))
        );
        let data =
            r#"{"method":"notifications/message","params":{"level":"warning","data":{"a":[1]}}}"#;
        assert!(
            matches!(one(data), Incoming::Log { level: Level::Warning, data, .. } if data == r#"{"a":[1]}"#)
        );
    }

    #[test]
    fn what_is_no_message_brings_nothing() {
        for data in [
            "{}",
            "",
            "null",
            "[]",
            "[1]",
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
    fn a_batch_of_2025_03_26_is_read_message_by_message() {
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
    fn shapes_of_the_handshake_tools_and_results_are_read() {
        let shake = handshake(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"logging":{}},"serverInfo":{"name":"lab","version":"1"}}"#,
        );
        assert_eq!(shake.unwrap().server_info.as_deref(), Some("lab 1"));
        let (tools, next) = tools(
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"title":"nameless"}],"nextCursor":""}"#,
        );
        assert_eq!((tools.len(), next.as_deref()), (1, Some("")));
        let result = call_result(
            r#"{"content":[{"type":"image"},{"type":"text","text":"hi"}],"isError":true}"#,
        );
        assert_eq!(
            result,
            CallResult {
                is_error: true,
                text: Some("hi".into())
            }
        );
    }

    proptest! {
        #[test]
        fn no_text_panics_the_reader(data in any::<String>()) {
            let _ = (decode(&data).len(), handshake(&data), tools(&data), call_result(&data));
        }
    }
}
