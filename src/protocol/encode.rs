//! Builds JSON-RPC messages in the form that each MCP revision requires.

use std::{collections::BTreeMap, fmt::Display};

use itertools::Itertools as _;
use serde::Serialize;
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::{Method, header};
use crate::domain::{Answer, Caller, Era, Forwarded, HostProfile, HostRequest, ProtocolVersion};

/// The name of the tasks extension of 2026-07-28.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
/// `_meta` key that ties a message to a core task (2025-11-25).
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// The `clientInfo` of longhaul, or of a host for which it stands.
fn client_info(host: Option<&HostProfile>) -> Value {
    match host {
        Some(host) if !host.name.is_empty() => {
            json!({"name": format!("{} via longhaul", host.name), "version": host.version})
        }
        _ => json!({"name": "longhaul", "version": env!("CARGO_PKG_VERSION")}),
    }
}

/// The client capabilities of a connection or a call: longhaul's own, and what a host can do beside them.
fn capabilities(host: Option<&HostProfile>) -> Map<String, Value> {
    let mut all = host.map_or_else(Map::new, |host| host.capabilities.0.clone());
    // A person answers on the screen, whatever the host can do.
    all.insert("elicitation".to_owned(), elicitation());
    all
}

/// The elicitation modes that longhaul supports.
fn elicitation() -> Value {
    json!({"form": {}, "url": {}})
}

/// `initialize` with `version`, for a host if there is one.
pub fn initialize(id: &str, version: ProtocolVersion, host: Option<&HostProfile>) -> Method {
    let params = json!({
        "protocolVersion": version.label(),
        "capabilities": capabilities(host),
        "clientInfo": client_info(host),
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

/// `notifications/roots/list_changed` of the stateful era.
pub fn roots_changed_notification() -> Method {
    let message = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    Method::post(message.to_string())
}

/// `ping` of the stateful era.
pub fn ping(id: &str) -> Method {
    Method::post(request_text(id, "ping", &json!({})))
}

/// `tools/list` or `tasks/list` (2025-11-25) for the page at `cursor`.
pub fn list(version: ProtocolVersion, id: &str, method: &str, cursor: Option<&str>) -> Method {
    let cursor = cursor.map(|cursor| ("cursor".to_owned(), cursor.into()));
    request(version, id, method, Map::from_iter(cursor), None)
}

/// The parameters of a `tools/call`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallParams<'a> {
    /// JSON-RPC id.
    pub id: &'a str,
    /// Progress token.
    pub token: &'a str,
    /// The tool's name.
    pub tool: &'a str,
    /// The text of a JSON object, which is sent as it is: a [`Value`] does not hold every number.
    pub arguments: &'a str,
    /// Requests a core task with this time to live in milliseconds (2025-11-25).
    pub task_ttl_ms: Option<u64>,
    /// The output of [`retry_input`], whose members are added next to the arguments.
    pub input: Option<&'a str>,
    /// `Mcp-Param-*` headers from the tool's schema: name and unencoded value.
    pub params: &'a [(String, String)],
    /// The host that made the call.
    pub caller: Option<&'a Caller>,
}

/// `tools/call` with a progress token.
pub fn call_tool(version: ProtocolVersion, call: &CallParams<'_>) -> Method {
    let mut params = Map::new();
    params.insert("name".to_owned(), call.tool.into());
    params.insert("_meta".to_owned(), json!({PROGRESS_TOKEN: call.token}));
    if let Some(ttl) = call.task_ttl_ms {
        params.insert("task".to_owned(), json!({"ttl": ttl}));
    }
    let host = call.caller.map(Caller::profile);
    if let (Era::Modern, Some(host)) = (version.era(), &host) {
        present(&mut params, host, capabilities(Some(host)));
    }
    let others = call
        .caller
        .and_then(|caller| caller.other_params.as_deref());
    let mut verbatim = others.map(members).unwrap_or_default();
    verbatim.extend(call.input.map(members).unwrap_or_default());
    let meta = call.caller.and_then(|caller| caller.meta.as_deref());
    for (key, text) in [("arguments", Some(call.arguments)), ("_meta", meta)] {
        let value = text.and_then(|text| serde_json::from_str(text).ok());
        verbatim.extend(value.map(|value| (key.to_owned(), value)));
    }
    let name = Some(call.tool);
    let mut method = request_with(verbatim, version, call.id, "tools/call", params, name);
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

const PROGRESS_TOKEN: &str = "progressToken";

/// The members of a caller's `_meta` that belong to the request and not to its connection.
fn passed_meta(meta: &RawValue) -> Verbatim<'_> {
    let mut meta = members(meta.get());
    meta.retain(|key, _| key != PROGRESS_TOKEN && !key.starts_with(PROTOCOL_META));
    meta
}

/// Says in a request of the modern era which host it comes from, instead of longhaul.
fn present(params: &mut Map<String, Value>, host: &HostProfile, mut all: Map<String, Value>) {
    let meta = params.entry("_meta").or_insert_with(|| json!({}));
    if let Some(meta) = meta.as_object_mut() {
        add_tasks(&mut all);
        meta.insert(protocol_meta("clientInfo"), client_info(Some(host)));
        meta.insert(protocol_meta("clientCapabilities"), Value::Object(all));
    }
}

/// Declares the tasks extension of 2026-07-28.
fn add_tasks(capabilities: &mut Map<String, Value>) {
    let extensions = capabilities
        .entry("extensions")
        .or_insert_with(|| json!({}));
    if let Some(extensions) = extensions.as_object_mut() {
        extensions.insert(TASKS.to_owned(), json!({}));
    }
}

fn protocol_meta(key: &str) -> String {
    format!("{PROTOCOL_META}{key}")
}

/// A host's request, as `version` requires it, with these parameters. Its `_meta` loses what belongs to the host's
/// connection; its progress token is the request's key.
pub fn forwarded(
    version: ProtocolVersion,
    id: &str,
    request: &HostRequest,
    params: &str,
) -> Method {
    let HostRequest { method, host, .. } = request;
    let verbatim = members(params);
    let mut params = Map::new();
    if request.wants_progress {
        params.insert("_meta".to_owned(), json!({PROGRESS_TOKEN: request.key}));
    }
    let name = match method.as_str() {
        "tools/call" | "prompts/get" => verbatim.get("name"),
        "resources/read" => verbatim.get("uri"),
        _ => None,
    };
    let name: Option<String> = name.and_then(|name| serde_json::from_str(name.get()).ok());
    if version.era() == Era::Modern {
        present(&mut params, host, host.capabilities.0.clone());
    }
    request_with(verbatim, version, id, method, params, name.as_deref())
}

/// `tasks/get`, `tasks/cancel`, or `tasks/result` (2025-11-25), whose response comes when the task has ended.
pub fn about_task(version: ProtocolVersion, id: &str, method: &str, task: &str) -> Method {
    request(version, id, method, task_params(task), Some(task))
}

/// `tasks/update` of the extension, with the answer to one input request of a task.
pub fn update_task(
    version: ProtocolVersion,
    id: &str,
    task: &str,
    key: &str,
    answer: &Answer,
) -> Method {
    let answers = retry_input(&[(key, answer)], None);
    let (method, params) = ("tasks/update", task_params(task));
    request_with(members(&answers), version, id, method, params, Some(task))
}

fn task_params(task: &str) -> Map<String, Value> {
    Map::from_iter([("taskId".to_owned(), task.into())])
}

/// `subscriptions/listen` for changes of these tasks and of the tool list, and of all lists if hosts want to know them.
pub fn listen(
    version: ProtocolVersion,
    id: &str,
    tasks: Option<&[&str]>,
    has_hosts: bool,
) -> Method {
    let mut params = Map::new();
    let mut filter = Map::new();
    filter.insert("toolsListChanged".to_owned(), true.into());
    if let Some(tasks) = tasks {
        filter.insert("taskIds".to_owned(), json!(tasks));
    }
    if has_hosts {
        filter.insert("promptsListChanged".to_owned(), true.into());
        filter.insert("resourcesListChanged".to_owned(), true.into());
    }
    params.insert("notifications".to_owned(), Value::Object(filter));
    request(version, id, "subscriptions/listen", params, None)
}

/// The extra parameters for retrying a call that asked for input: a JSON object with the answers and the server's
/// state.
///
/// The state must be returned unchanged, and only if the server sent one (2026-07-28, basic/patterns/mrtr).
pub fn retry_input(answers: &[(&str, &Answer)], state: Option<&str>) -> String {
    let mut members = Vec::new();
    if !answers.is_empty() {
        let answers = answers.iter();
        let mut answers =
            answers.map(|(key, answer)| format!("{}:{}", json!(key), response(answer)));
        members.push(format!(r#""inputResponses":{{{}}}"#, answers.join(",")));
    }
    members.extend(state.map(|state| format!(r#""requestState":{}"#, json!(state))));
    format!("{{{}}}", members.join(","))
}

/// An ElicitResult, or what a host has answered, as JSON.
fn response(answer: &Answer) -> String {
    let is_json = |text: &&String| serde_json::from_str::<&RawValue>(text).is_ok();
    match answer {
        Answer::Result { json } | Answer::Error { json } => Some(json)
            .filter(is_json)
            .map_or_else(|| "{}".to_owned(), String::clone),
        Answer::Accept {
            content: Some(content),
        } => {
            let content = Some(content).filter(is_json).map_or("{}", String::as_str);
            format!(r#"{{"action":"accept","content":{content}}}"#)
        }
        other => json!({"action": other.action()}).to_string(),
    }
}

/// The response to a question in the stateful era. `id` is the raw JSON of the request's id.
pub fn question_response(id: &str, answer: &Answer, related_task: Option<&str>) -> Method {
    let result = response(answer);
    if let Answer::Error { .. } = answer {
        return respond(id, "error", &result);
    }
    let Some(task) = related_task else {
        return respond(id, "result", &result);
    };
    let mut verbatim = members(&result);
    let passed = verbatim.remove("_meta").map(|meta| members(meta.get()));
    let mut passed = passed.unwrap_or_default();
    passed.remove(RELATED_TASK);
    let related = Map::from_iter([(RELATED_TASK.to_owned(), json!({"taskId": task}))]);
    let meta = joined(passed, related);
    verbatim.insert("_meta".to_owned(), &meta);
    respond(id, "result", &joined(verbatim, Map::new()))
}

/// `notifications/cancelled` for a request that longhaul sent.
pub fn cancelled_notification(request_id: &str, reason: &str) -> Method {
    let params = json!({"requestId": request_id, "reason": reason});
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
    Method::post(message.to_string())
}

/// An empty response to a request of the server, such as `ping`.
pub fn empty_response(id: &RawValue) -> Method {
    respond(id.get(), "result", &"{}")
}

/// The error response to an unsupported request of the server.
pub fn unsupported_response(id: &str, method: &str) -> Method {
    let error = json!({"code": -32601, "message": format!("not supported: {method}")});
    respond(id, "error", &error)
}

/// The response to a request of the server that hosts have answered.
pub fn response_of_hosts(id: &str, outcome: &Forwarded) -> Method {
    match outcome {
        Forwarded::Result(result) => respond(id, "result", result),
        Forwarded::Error(error) => respond(id, "error", error),
    }
}

/// A response; `id` and `value` are JSON.
fn respond(id: &str, key: &str, value: &impl Display) -> Method {
    Method::post(format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":{value}}}"#))
}

/// What tells a message of [`log_notification`] from the server's own.
pub const OUTPUT_MARK: &str = r#","longhaul":"output"}"#;

/// Wraps other output of a server, such as a line on stderr, as `notifications/message`.
pub fn log_notification(level: &str, logger: &str, text: &str) -> String {
    let params = json!({"level": level, "logger": logger, "data": text});
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}{OUTPUT_MARK}"#)
}

/// A request in the form that `version` requires: the modern era needs client info in each request and headers that
/// repeat parts of the body.
fn request(
    version: ProtocolVersion,
    id: &str,
    method: &str,
    params: Map<String, Value>,
    name: Option<&str>,
) -> Method {
    request_with(Verbatim::new(), version, id, method, params, name)
}

/// Parameters that are sent as they were written: a [`Value`] does not hold every number.
type Verbatim<'a> = BTreeMap<String, &'a RawValue>;

/// The members of an object; none if it isn't one.
fn members(json: &str) -> Verbatim<'_> {
    serde_json::from_str(json).unwrap_or_default()
}

/// An object with the members of two.
fn joined(verbatim: Verbatim<'_>, others: Map<String, Value>) -> Box<RawValue> {
    #[derive(Serialize)]
    struct Joined<'a> {
        #[serde(flatten)]
        verbatim: Verbatim<'a>,
        #[serde(flatten)]
        others: Map<String, Value>,
    }
    to_raw_value(&Joined { verbatim, others }).unwrap_or_default()
}

/// A request with these parameters too. Their `_meta` loses what belongs to the connection of the host.
fn request_with(
    mut verbatim: Verbatim<'_>,
    version: ProtocolVersion,
    id: &str,
    method: &str,
    mut params: Map<String, Value>,
    name: Option<&str>,
) -> Method {
    let mut routing = Vec::new();
    if version.era() == Era::Modern {
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert(protocol_meta("protocolVersion"), version.label().into());
            meta.entry(protocol_meta("clientInfo"))
                .or_insert_with(|| client_info(None));
            meta.entry(protocol_meta("clientCapabilities"))
                .or_insert_with(|| {
                    let mut all = capabilities(None);
                    add_tasks(&mut all);
                    Value::Object(all)
                });
            if method == "tools/call" {
                meta.insert(protocol_meta("logLevel"), "debug".into());
            }
        }
        routing.push(("Mcp-Method".to_owned(), method.to_owned()));
        if let Some(name) = name {
            routing.push(("Mcp-Name".to_owned(), header::encoded(name).into_owned()));
        }
    }
    let passed = verbatim.remove("_meta").map(passed_meta);
    let passed = passed.unwrap_or_default();
    let meta = params.remove("_meta");
    let meta = meta.and_then(|meta| meta.as_object().cloned());
    let meta = meta.unwrap_or_default();
    let has_meta = !passed.is_empty() || !meta.is_empty();
    let meta = joined(passed, meta);
    let mut verbatim = verbatim;
    if has_meta {
        verbatim.insert("_meta".to_owned(), &meta);
    }
    let body = request_text(id, method, &joined(verbatim, params));
    Method::Post { body, routing }
}

fn request_text(id: &str, method: &str, params: &impl Serialize) -> String {
    let params = serde_json::to_string(params).unwrap_or_default();
    let (id, method) = (Value::from(id), Value::from(method));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#)
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
            let answer = question_response(id, &Answer::Decline, Some("t-1"));
            let Method::Post { body, .. } = answer else {
                panic!("a POST")
            };
            assert!(body.contains(&format!("\"id\":{id},")) && body.contains("t-1"));
        }
    }

    fn call_method(version: ProtocolVersion) -> Method {
        let caller = Caller {
            meta: Some(r#"{"a":18446744073709551616,"progressToken":7}"#.to_owned()),
            other_params: Some(r#"{"later":18446744073709551617}"#.to_owned()),
            ..Caller::of_test()
        };
        call_tool(
            version,
            &CallParams {
                id: "p-1",
                token: "t-1",
                tool: "render",
                arguments: r#"{"scene":12,"wei":1180591620717411303424}"#,
                task_ttl_ms: None,
                input: Some(r#"{"requestState":"a\u0000b"}"#),
                params: &[("Region".to_owned(), " eu".to_owned())],
                caller: Some(&caller),
            },
        )
    }

    fn call(version: ProtocolVersion) -> (Value, Vec<(String, String)>) {
        parts(call_method(version))
    }

    #[test]
    fn arguments_keep_all_their_digits() {
        for version in [ProtocolVersion::V20251125, ProtocolVersion::V20260728] {
            let Method::Post { body, .. } = call_method(version) else {
                panic!("a POST")
            };
            assert!(body.contains(r#""wei":1180591620717411303424"#), "{body}");
            assert!(body.contains(r#""a":18446744073709551616"#), "{body}");
            assert!(body.contains(r#""later":18446744073709551617"#), "{body}");
        }
    }

    #[test]
    fn the_parameters_of_a_host_keep_all_their_digits() {
        let params = r#"{"uri":"x","wei":1180591620717411303424,"_meta":{"a":1,"wei":1180591620717411303424,"progressToken":2}}"#;
        let request = HostRequest {
            method: "resources/read".to_owned(),
            key: "host-1".to_owned(),
            wants_progress: true,
            ..HostRequest::default()
        };
        for version in [ProtocolVersion::V20251125, ProtocolVersion::V20260728] {
            let method = forwarded(version, "f-1", &request, params);
            let Method::Post { body, .. } = &method else {
                panic!("a POST")
            };
            assert_eq!(
                body.matches(r#""wei":1180591620717411303424"#).count(),
                2,
                "{body}"
            );
            let (request, routing) = parts(method);
            let meta = &request["params"]["_meta"];
            assert_eq!(
                (&meta["a"], &meta["progressToken"]),
                (&json!(1), &json!("host-1"))
            );
            let is_named = routing.contains(&("Mcp-Name".to_owned(), "x".to_owned()));
            assert_eq!(is_named, version.era() == Era::Modern);
        }
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
