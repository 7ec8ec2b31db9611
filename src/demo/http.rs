//! The HTTP middleware in front of the SDK.
//!
//! It answers two kinds of resuming GET itself: with the rest of a stream from an earlier boot, and with 400 for an
//! event id that is unknown, expired or belongs to another session. It also injects the drop fault. Everything else
//! goes to the SDK. Host and Origin are checked here first, so this layer never answers a request that the SDK would
//! reject.

use std::{fmt::Write as _, sync::Arc};

use axum::{
    body::Body,
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;

use super::{
    events::{EventPosition, Events},
    faults::Faults,
    passthrough,
    sessions::{IS_MODERN, Sessions},
    tcp::ConnectionHandle,
};

const LOOPBACK_HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// The middleware's state.
#[derive(Clone)]
pub(super) struct HttpState {
    /// Accepted values of the Origin header.
    pub(super) origins: Arc<[String]>,
    pub(super) events: Arc<Events>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) faults: Arc<Faults>,
}

/// Answers a request or passes it on to the SDK.
pub(super) async fn handle(
    State(state): State<HttpState>,
    ConnectInfo(connection): ConnectInfo<ConnectionHandle>,
    request: Request,
    next: Next,
) -> Response {
    if let Some((event, session)) = resumption(&request, &state.origins)
        && let Some(response) = state.resume(event, session).await
    {
        return response;
    }
    let is_modern = passthrough::is_modern(request.headers());
    match passthrough::read(request).await {
        Ok(request) => {
            let response = IS_MODERN.scope(is_modern, next.run(request)).await;
            state.with_drop_fault(response, connection)
        }
        Err(response) => response,
    }
}

/// The event id and session of a GET that resumes a stream, from a client that the SDK would accept.
fn resumption<'r>(request: &'r Request, origins: &[String]) -> Option<(&'r str, &'r str)> {
    let headers = request.headers();
    let text = |name: &str| headers.get(name)?.to_str().ok();
    if request.method() != Method::GET || !is_local(headers, origins) {
        return None;
    }
    Some((text("last-event-id")?, text("mcp-session-id")?))
}

impl HttpState {
    /// Applies the drop fault to an SSE stream.
    fn with_drop_fault(&self, response: Response, connection: ConnectionHandle) -> Response {
        let kind = response.headers().get(header::CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != "text/event-stream") {
            return response;
        }
        let faults = Arc::clone(&self.faults);
        response.map(|body| {
            Body::from_stream(body.into_data_stream().inspect(move |chunk| {
                // A chunk is an event or a keep-alive comment.
                let is_event = chunk.as_ref().is_ok_and(|chunk| !chunk.starts_with(b":"));
                if is_event && faults.drop_next.take() {
                    connection.drop_after_flush();
                }
            }))
        })
    }

    async fn resume(&self, event: &str, session: &str) -> Option<Response> {
        let position = match self.events.find(event, session) {
            Ok(position) => position,
            Err(error) => {
                tracing::error!(%error, "could not look up an event id");
                return Some(StatusCode::INTERNAL_SERVER_ERROR.into_response());
            }
        };
        match position {
            Some(position) if !position.is_this_boot => self.replay_old_stream(&position),
            // The SDK rejects unknown sessions. Unknown ids and other sessions' ids get the same response.
            None if !self.events.cross_stream && self.sessions.is_live(session).await => {
                Some((StatusCode::BAD_REQUEST, "Bad Request: unknown event id").into_response())
            }
            Some(_) | None => None,
        }
    }

    /// The remaining events of a stream from an earlier boot; `None` if there are none, so that the SDK answers that
    /// the session is gone.
    fn replay_old_stream(&self, position: &EventPosition) -> Option<Response> {
        let remaining = self
            .events
            .remaining(position)
            .inspect_err(|error| tracing::error!(%error, "could not read events"))
            .ok()?;
        if remaining.is_empty() {
            return None;
        }
        let mut body = String::new();
        for (id, data) in remaining {
            // The JSON has no newlines, and writing to a String cannot fail.
            let _ = write!(body, "data: {data}\nid: {id}\n\n");
        }
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        Some((headers, Body::from(body)).into_response())
    }
}

/// The origins of pages that this server serves. A page that reaches this port through its own host name (DNS
/// rebinding) sends that name as Host and Origin.
pub(super) fn allowed_origins(port: u16) -> Vec<String> {
    LOOPBACK_HOSTS
        .iter()
        .map(|host| format!("http://{host}:{port}"))
        .collect()
}

/// Whether a request names a loopback host and comes from no foreign web page.
fn is_local(headers: &HeaderMap, origins: &[String]) -> bool {
    let host = headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_allowed_origin = headers.get_all(header::ORIGIN).iter().all(|origin| {
        origins
            .iter()
            .any(|allowed| allowed.as_bytes() == origin.as_bytes())
    });
    is_allowed_origin && LOOPBACK_HOSTS.contains(&name)
}
