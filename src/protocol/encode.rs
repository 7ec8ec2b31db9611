//! Builds JSON-RPC messages in the form that each MCP revision requires.

use serde_json::{Map, Value, json, value::RawValue};

use super::{Method, header};
use crate::domain::{Answer, Era, ProtocolVersion};

/// The name of the tasks extension of 2026-07-28.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
/// `_meta` key that ties a message to a core task (2025-11-25).
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

fn client_info() -> Value {
    json!({"name": "longhaul", "version": env!("CARGO_PKG_VERSION")})
}

/// The elicitation modes that longhaul supports.
fn elicitation() -> Value {
    json!({"form": {}, "url": {}})
}

/// `initialize` with `version` and the capabilities of longhaul.
pub fn initialize(id: &str, version: ProtocolVersion) -> Method {
    let params = json!({
        "protocolVersion": version.label(),
        "capabilities": {"elicitation": elicitation()},
        "clientInfo": client_info(),
    });
    Method::post(request_text(id, "initialize", &params))
}

/// `notifications/initialized`, which completes the initialization.
pub fn initialized_notification() -> Method {
    Method::post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())
}

/// `server/discover` of the modern era.
pub fn discover(id: &str, version: ProtocolVersion) -> Method {
    request(version, id, "server/discover", Map::new(), None)
}

/// `ping` of the stateful era.
pub fn ping(id: &str) -> Method {
    Method::post(request_text(id, "ping", &json!({})))
}

/// `tools/list` for the page at `cursor`.
pub fn list_tools(version: ProtocolVersion, id: &str, cursor: Option<&str>) -> Method {
    request(version, id, "tools/list", page(cursor), None)
}

/// `tasks/list` (2025-11-25) for the page at `cursor`.
pub fn list_tasks(version: ProtocolVersion, id: &str, cursor: Option<&str>) -> Method {
    request(version, id, "tasks/list", page(cursor), None)
}

fn page(cursor: Option<&str>) -> Map<String, Value> {
    let mut params = Map::new();
    if let Some(cursor) = cursor {
        params.insert("cursor".to_owned(), cursor.into());
    }
    params
}

/// The parameters of a `tools/call`.
#[derive(Clone, Copy, Debug)]
pub struct CallParams<'a> {
    /// JSON-RPC id.
    pub id: &'a str,
    /// Progress token.
    pub token: &'a str,
    /// The tool's name.
    pub tool: &'a str,
    /// A JSON object.
    pub arguments: &'a Value,
    /// Requests a core task with this time to live in milliseconds (2025-11-25).
    pub task_ttl_ms: Option<u64>,
    /// Further members of `_meta`, the text of a JSON object.
    pub meta: Option<&'a str>,
    /// The output of [`retry_input`], whose members are added next to the arguments.
    pub input: Option<&'a str>,
    /// `Mcp-Param-*` headers from the tool's schema: name and unencoded value.
    pub params: &'a [(String, String)],
}

/// `tools/call` with a progress token.
pub fn call_tool(version: ProtocolVersion, call: &CallParams<'_>) -> Method {
    let mut params = Map::new();
    params.insert("name".to_owned(), call.tool.into());
    params.insert("arguments".to_owned(), call.arguments.clone());
    let mut meta = passed_meta(call.meta);
    meta.insert("progressToken".to_owned(), call.token.into());
    params.insert("_meta".to_owned(), Value::Object(meta));
    if let Some(ttl) = call.task_ttl_ms {
        params.insert("task".to_owned(), json!({"ttl": ttl}));
    }
    let input: Map<String, Value> = call
        .input
        .and_then(|input| serde_json::from_str(input).ok())
        .unwrap_or_default();
    params.extend(input);
    let mut method = request(version, call.id, "tools/call", params, Some(call.tool));
    if let (Method::Post { routing, .. }, Era::Modern) = (&mut method, version.era()) {
        let param_header = |(name, value): &(String, String)| {
            (
                format!("Mcp-Param-{name}"),
                header::encoded(value).into_owned(),
            )
        };
        routing.extend(call.params.iter().map(param_header));
    }
    method
}

/// Keys of `_meta` that belong to the connection and to the protocol.
const PROTOCOL_META: &str = "io.modelcontextprotocol/";

/// The members of a caller's `_meta` that belong to the request and not to its connection.
fn passed_meta(meta: Option<&str>) -> Map<String, Value> {
    let meta = meta.and_then(|meta| serde_json::from_str(meta).ok());
    let mut meta: Map<String, Value> = meta.unwrap_or_default();
    meta.retain(|key, _| key != "progressToken" && !key.starts_with(PROTOCOL_META));
    meta
}

/// A caller's request, as `version` requires it. Its `_meta` loses what belongs to the caller's connection.
pub fn forwarded(
    version: ProtocolVersion,
    id: &str,
    method: &str,
    mut params: Map<String, Value>,
) -> Method {
    if let Some(meta) = params.remove("_meta") {
        let meta = passed_meta(Some(&meta.to_string()));
        if !meta.is_empty() {
            params.insert("_meta".to_owned(), Value::Object(meta));
        }
    }
    let name = match method {
        "prompts/get" => params.get("name"),
        "resources/read" => params.get("uri"),
        _ => None,
    };
    let name = name.and_then(Value::as_str).map(str::to_owned);
    request(version, id, method, params, name.as_deref())
}

/// `tasks/get`.
pub fn get_task(version: ProtocolVersion, id: &str, task: &str) -> Method {
    request(version, id, "tasks/get", task_params(task), Some(task))
}

/// `tasks/result` (2025-11-25); the response comes when the task has ended.
pub fn task_result(version: ProtocolVersion, id: &str, task: &str) -> Method {
    request(version, id, "tasks/result", task_params(task), Some(task))
}

/// `tasks/cancel`.
pub fn cancel_task(version: ProtocolVersion, id: &str, task: &str) -> Method {
    request(version, id, "tasks/cancel", task_params(task), Some(task))
}

/// `tasks/update` of the extension, with the answer to one input request of a task.
pub fn update_task(
    version: ProtocolVersion,
    id: &str,
    task: &str,
    key: &str,
    answer: &Answer,
) -> Method {
    let mut params = task_params(task);
    params.insert("inputResponses".to_owned(), responses(&[(key, answer)]));
    request(version, id, "tasks/update", params, Some(task))
}

fn task_params(task: &str) -> Map<String, Value> {
    let mut params = Map::new();
    params.insert("taskId".to_owned(), task.into());
    params
}

/// `subscriptions/listen` for changes of these tasks and of the tool list.
pub fn listen(version: ProtocolVersion, id: &str, tasks: &[&str]) -> Method {
    let mut params = Map::new();
    let filter = json!({"toolsListChanged": true, "taskIds": tasks});
    params.insert("notifications".to_owned(), filter);
    request(version, id, "subscriptions/listen", params, None)
}

/// The extra parameters for retrying a call that asked for input: a JSON object with the answers and the server's
/// state.
///
/// The state must be returned unchanged, and only if the server sent one (2026-07-28, basic/patterns/mrtr).
pub fn retry_input(answers: &[(&str, &Answer)], state: Option<&str>) -> String {
    let mut input = Map::new();
    if !answers.is_empty() {
        input.insert("inputResponses".to_owned(), responses(answers));
    }
    if let Some(state) = state {
        input.insert("requestState".to_owned(), state.into());
    }
    Value::Object(input).to_string()
}

fn responses(answers: &[(&str, &Answer)]) -> Value {
    let all = answers
        .iter()
        .map(|(key, answer)| ((*key).to_owned(), elicit_result(answer)));
    Value::Object(all.collect())
}

/// An ElicitResult.
fn elicit_result(answer: &Answer) -> Value {
    let mut result = json!({"action": answer.action()});
    if let (
        Answer::Accept {
            content: Some(content),
        },
        Some(fields),
    ) = (answer, result.as_object_mut())
    {
        let content = serde_json::from_str(content).unwrap_or_else(|_| json!({}));
        fields.insert("content".to_owned(), content);
    }
    result
}

/// The response to `elicitation/create` in the stateful era. `id` is the raw JSON of the request's id.
pub fn elicitation_response(id: &str, answer: &Answer, related_task: Option<&str>) -> Method {
    let mut result = elicit_result(answer);
    if let (Some(task), Some(fields)) = (related_task, result.as_object_mut()) {
        fields.insert("_meta".to_owned(), json!({RELATED_TASK: {"taskId": task}}));
    }
    Method::post(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
    ))
}

/// `notifications/cancelled` for a request that longhaul sent.
pub fn cancelled_notification(request_id: &str, reason: &str) -> Method {
    let params = json!({"requestId": request_id, "reason": reason});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    Method::post(message.to_string())
}

/// An empty response to a request of the server, such as `ping`.
pub fn empty_response(id: &RawValue) -> Method {
    Method::post(format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#,
        id.get()
    ))
}

/// The error response to an unsupported request of the server.
pub fn unsupported_response(id: &RawValue, method: &str) -> Method {
    let error = json!({"code": -32601, "message": format!("not supported: {method}")});
    Method::post(format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#,
        id.get()
    ))
}

/// Wraps other output of a server, such as a line on stderr, as `notifications/message`.
pub fn log_notification(level: &str, logger: &str, text: &str) -> String {
    let params = json!({"level": level, "logger": logger, "data": text});
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}).to_string()
}

/// A request in the form that `version` requires: the modern era needs client info in each request and headers that
/// repeat parts of the body.
fn request(
    version: ProtocolVersion,
    id: &str,
    method: &str,
    mut params: Map<String, Value>,
    name: Option<&str>,
) -> Method {
    if version.era() == Era::Stateful {
        return Method::post(request_text(id, method, &Value::Object(params)));
    }
    let meta = params.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        let meta_key = |key: &str| format!("io.modelcontextprotocol/{key}");
        meta.insert(meta_key("protocolVersion"), version.label().into());
        meta.insert(meta_key("clientInfo"), client_info());
        let extensions = json!({TASKS: {}});
        let capabilities = json!({"elicitation": elicitation(), "extensions": extensions});
        meta.insert(meta_key("clientCapabilities"), capabilities);
        if method == "tools/call" {
            meta.insert(meta_key("logLevel"), "debug".into());
        }
    }
    let mut routing = vec![("Mcp-Method".to_owned(), method.to_owned())];
    if let Some(name) = name {
        routing.push(("Mcp-Name".to_owned(), header::encoded(name).into_owned()));
    }
    Method::Post {
        body: request_text(id, method, &Value::Object(params)),
        routing,
    }
}

fn request_text(id: &str, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: Method) -> (Value, Vec<(String, String)>) {
        let Method::Post { body, routing } = method else {
            panic!("a POST")
        };
        (serde_json::from_str(&body).unwrap(), routing)
    }

    #[test]
    fn responses_repeat_the_id_of_the_request_verbatim() {
        for id in ["7", "\"s-1\"", "7.0"] {
            let raw = RawValue::from_string(id.to_owned()).unwrap();
            let Method::Post { body, .. } = empty_response(&raw) else {
                panic!("a POST")
            };
            assert!(body.contains(&format!("\"id\":{id},")));
            let answer = elicitation_response(id, &Answer::Decline, Some("t-1"));
            let Method::Post { body, .. } = answer else {
                panic!("a POST")
            };
            assert!(body.contains(&format!("\"id\":{id},")) && body.contains("t-1"));
        }
    }

    fn call(version: ProtocolVersion) -> (Value, Vec<(String, String)>) {
        parts(call_tool(
            version,
            &CallParams {
                id: "p-1",
                token: "t-1",
                tool: "render",
                arguments: &json!({"scene": 12}),
                task_ttl_ms: None,
                meta: None,
                input: Some(r#"{"requestState":"a\u0000b"}"#),
                params: &[("Region".to_owned(), " eu".to_owned())],
            },
        ))
    }

    #[test]
    fn calls_contain_token_and_arguments() {
        let (call, routing) = call(ProtocolVersion::V20251125);
        assert_eq!(call["params"]["_meta"]["progressToken"], "t-1");
        assert_eq!(call["params"]["arguments"]["scene"], 12);
        assert_eq!(call["params"]["requestState"], "a\u{0}b");
        assert!(routing.is_empty());
    }

    #[test]
    fn modern_calls_have_client_info_and_routing_headers() {
        let (call, routing) = call(ProtocolVersion::V20260728);
        let meta = &call["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert!(
            meta["io.modelcontextprotocol/clientCapabilities"]["extensions"][TASKS].is_object()
        );
        assert_eq!(meta["progressToken"], "t-1");
        let header = |name: &str| {
            let found = routing.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(header("Mcp-Method"), Some("tools/call"));
        assert_eq!(header("Mcp-Name"), Some("render"));
        assert_eq!(header("Mcp-Param-Region"), Some("=?base64?IGV1?="));
    }

    #[test]
    fn retry_input_lists_answers_by_key() {
        let accept = Answer::Accept {
            content: Some(r#"{"name":"Ada"}"#.to_owned()),
        };
        let input: Value = serde_json::from_str(&retry_input(
            &[("who", &accept), ("why", &Answer::Dismiss)],
            Some("s"),
        ))
        .unwrap();
        assert_eq!(input["inputResponses"]["who"]["content"]["name"], "Ada");
        assert_eq!(input["inputResponses"]["why"], json!({"action": "cancel"}));
        assert_eq!(input["requestState"], "s");
        assert_eq!(retry_input(&[], None), "{}");
    }
}
