//! Passes messages through the SDK that its types can't represent.
//!
//! The SDK drops fields it does not know (`taskIds` of a subscription, `task` of a call, `execution` of a tool) and has
//! no tasks of 2025-11-25. But it passes requests with unknown methods through unchanged, with the usual sessions,
//! streams and validation. So a request with such fields gets a prefixed method name on its way in, and `stateful` or
//! `modern` answers it under its original name.

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

/// The prefix of a renamed method on its way through the SDK.
const PREFIX: &str = "longhaul/";

/// The largest accepted request body in bytes; the SDK has the same limit.
const MAX_BODY: usize = 4 * 1024 * 1024;

/// The first revision of the modern era.
const MODERN: &str = "2026-07-28";

/// The revision of the stateful eras that has tasks.
const STATEFUL_TASKS: &str = "2025-11-25";

/// The original name of a renamed method.
pub(super) fn original(method: &str) -> Option<&str> {
    method.strip_prefix(PREFIX)
}

/// Whether the `MCP-Protocol-Version` header names the modern era. Revisions are dates, which sort as text.
pub(super) fn is_modern(headers: &HeaderMap) -> bool {
    headers
        .get("mcp-protocol-version")
        .and_then(|version| version.to_str().ok())
        .is_some_and(|version| version >= MODERN)
}

/// The request as the SDK should see it.
pub(super) async fn read(request: Request) -> Result<Request, Response> {
    if request.method() != Method::POST {
        return Ok(request);
    }
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(body, MAX_BODY)
        .await
        .map_err(|_| StatusCode::PAYLOAD_TOO_LARGE.into_response())?;
    // The SDK rejects bodies that are not JSON objects.
    let mut message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let renamed = rename(&mut parts, &mut message);
    if let Some(renamed) = &renamed {
        parts
            .headers
            .insert(header::CONTENT_LENGTH, HeaderValue::from(renamed.len()));
    }
    let body = renamed.map_or(body, Bytes::from);
    Ok(Request::from_parts(parts, Body::from(body)))
}

/// The body with a prefixed method, or `None` if the SDK can represent the request.
fn rename(parts: &mut Parts, message: &mut Value) -> Option<String> {
    let method = message.get("method")?.as_str()?;
    if !is_unknown(is_modern(&parts.headers), method, message.get("params")) {
        return None;
    }
    let name = format!("{PREFIX}{method}");
    // A header that contradicts the body keeps contradicting it, so that the SDK rejects the request.
    if let Some(header) = parts.headers.get_mut("mcp-method")
        && header == method
    {
        *header = HeaderValue::from_str(&name).ok()?;
    }
    *message.get_mut("method")? = name.into();
    Some(message.to_string())
}

/// Whether the SDK lacks types for part of this request, or would answer it wrongly.
fn is_unknown(is_modern: bool, method: &str, params: Option<&Value>) -> bool {
    match method {
        "subscriptions/listen" => is_modern,
        // By default the SDK answers these with empty lists, but the server does not declare these capabilities.
        "prompts/list" | "resources/list" | "resources/templates/list" | "completion/complete" => {
            true
        }
        "tools/list" | "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" => !is_modern,
        "tools/call" => !is_modern && params.is_some_and(|params| params.get("task").is_some()),
        _ => false,
    }
}

/// Adds the `tasks` capability to an `initialize` response of 2025-11-25.
pub(super) fn with_task_capability(message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
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

/// Parses a stored message without losing fields that the SDK has no types for.
pub(super) fn parse_stored(text: &str) -> Result<ServerJsonRpcMessage, serde_json::Error> {
    type CustomMessage = JsonRpcMessage<CustomRequest, CustomResult, CustomNotification>;
    Ok(match serde_json::from_str::<CustomMessage>(text)? {
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
