//! What the SDK's types cannot spell: carried through it under other names.
//!
//! The SDK drops what it has no field for (`taskIds` of a subscription, the `task` of a call, `execution` of a tool) and
//! knows no tasks of 2025-11-25. But it carries requests that it does not know, with their parameters as they are, over
//! the same sessions, streams and checks. So a request with such a part gets another method name on its way in, and is
//! answered by us (`stateful`, `modern`) under its real one.

use axum::{
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use rmcp::model::{
    CustomNotification, CustomRequest, CustomResult, JsonRpcMessage, ServerJsonRpcMessage,
    ServerResult,
};
use serde_json::{Value, json};

/// What stands before the name of a method on its way through the SDK.
const OURS: &str = "longhaul/";
/// The longest body that is read, in bytes; the SDK's own limit.
const LONGEST: usize = 4 * 1024 * 1024;
/// The first revision of the modern era.
const MODERN: &str = "2026-07-28";
/// The revision of the stateful eras that has tasks.
const STATEFUL_TASKS: &str = "2025-11-25";

/// The real name of a method that was renamed.
pub(super) fn original(method: &str) -> Option<&str> {
    method.strip_prefix(OURS)
}

/// Whether a request says that it is of the modern era. Revisions are dates, which order as text.
pub(super) fn is_modern(headers: &HeaderMap) -> bool {
    headers
        .get("mcp-protocol-version")
        .and_then(|version| version.to_str().ok())
        .is_some_and(|version| version >= MODERN)
}

/// A request as the SDK shall see it, and the method that its body names.
pub(super) async fn read(request: Request) -> Result<(Request, String), Response> {
    if request.method() != Method::POST {
        return Ok((request, String::new()));
    }
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(body, LONGEST)
        .await
        .map_err(|_| StatusCode::PAYLOAD_TOO_LARGE.into_response())?;
    // What is no JSON object is the SDK's to refuse.
    let mut message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let method = message.get("method").and_then(Value::as_str);
    let method = method.unwrap_or_default().to_owned();
    let renamed = rename(&mut parts, &mut message, &method);
    if let Some(renamed) = &renamed {
        parts
            .headers
            .insert(header::CONTENT_LENGTH, HeaderValue::from(renamed.len()));
    }
    let body = renamed.map_or(body, Bytes::from);
    Ok((Request::from_parts(parts, Body::from(body)), method))
}

/// The body with another method name, if it needs one.
fn rename(parts: &mut Parts, message: &mut Value, method: &str) -> Option<String> {
    if !is_unknown(is_modern(&parts.headers), method, message.get("params")) {
        return None;
    }
    let name = format!("{OURS}{method}");
    // Only a header that told the truth before tells it now.
    if let Some(header) = parts.headers.get_mut("mcp-method")
        && header == method
    {
        *header = HeaderValue::from_str(&name).ok()?;
    }
    *message.get_mut("method")? = name.into();
    Some(message.to_string())
}

/// Whether the SDK has types for all of this request.
fn is_unknown(is_modern: bool, method: &str, params: Option<&Value>) -> bool {
    match method {
        "subscriptions/listen" => is_modern,
        "tools/list" | "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" => !is_modern,
        "tools/call" => !is_modern && params.is_some_and(|params| params.get("task").is_some()),
        _ => false,
    }
}

/// The answer to `initialize`, with the tasks of a session of 2025-11-25.
pub(super) fn greeting(message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
    let ServerJsonRpcMessage::Response(response) = &message else {
        return message;
    };
    let Ok(mut result) = serde_json::to_value(&response.result) else {
        return message;
    };
    if result.get("protocolVersion") == Some(&json!(STATEFUL_TASKS))
        && let Some(Value::Object(capabilities)) = result.get_mut("capabilities")
    {
        let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        capabilities.insert("tasks".to_owned(), tasks);
        let result = ServerResult::CustomResult(CustomResult::new(result));
        return ServerJsonRpcMessage::response(result, response.id.clone());
    }
    message
}

/// A message as it was stored, whether the SDK has types for all of it or not.
pub(super) fn stored(text: &str) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    type Any = JsonRpcMessage<CustomRequest, CustomResult, CustomNotification>;
    Ok(match serde_json::from_str::<Any>(text)? {
        JsonRpcMessage::Request(message) => {
            ServerJsonRpcMessage::request(message.request.into(), message.id)
        }
        JsonRpcMessage::Response(message) => {
            ServerJsonRpcMessage::response(message.result.into(), message.id)
        }
        JsonRpcMessage::Notification(message) => {
            ServerJsonRpcMessage::notification(message.notification.into())
        }
        JsonRpcMessage::Error(message) => JsonRpcMessage::Error(message),
    })
}
