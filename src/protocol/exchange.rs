//! One HTTP exchange with an MCP endpoint as data: the request and all events that can follow.

use core::time::Duration;
use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::domain::{EventId, ProtocolVersion, text};

/// A request to the MCP endpoint (MCP 2025-11-25, basic/transports).
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// Its HTTP method and content.
    pub method: Method,
    /// `MCP-Session-Id`; a secret.
    pub session: Option<String>,
    /// `MCP-Protocol-Version`, once a revision is negotiated.
    pub version: Option<ProtocolVersion>,
    /// The URL to send it to, if not the endpoint: the target of an [`ExchangeEvent::Endpoint`], a secret.
    pub target: Option<String>,
}

// Written by hand: neither the session id nor the target, which contains one, may reach a log.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("has_session", &self.session.is_some())
            .field("has_target", &self.target.is_some())
            .finish_non_exhaustive()
    }
}

/// The kinds of [`Request`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// One JSON-RPC message.
    Post {
        /// Its text.
        body: String,
        /// `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` of the modern era, encoded.
        routing: Vec<(String, String)>,
    },
    /// Requests a stream: the rest of a broken one, or the standalone stream.
    Get {
        /// `Last-Event-ID`.
        cursor: Option<EventId>,
    },
    /// Ends the session.
    Delete,
}

impl Method {
    /// A POST without routing headers, as in the stateful era.
    pub fn post(body: String) -> Self {
        Self::Post {
            body,
            routing: Vec::new(),
        }
    }
}

/// Why a URL that a server sent is not used. The message continues a sentence whose subject is what holds the URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// It cannot be parsed.
    #[error("points to an invalid URL")]
    Invalid,
    /// It is of another origin.
    #[error("points to {0}, which is another origin")]
    OtherOrigin(String),
    /// It contains a user name.
    #[error("points to {0} with a user name")]
    UserName(String),
}

impl OriginError {
    /// The same error with a changed URL.
    #[must_use]
    pub fn map_url(mut self, change: impl FnOnce(&str) -> String) -> Self {
        if let Self::OtherOrigin(url) | Self::UserName(url) = &mut self {
            *url = change(url);
        }
        self
    }
}

/// The events of an exchange. First comes one of `Opened`, `Refused`, `NotSent`, `NoAnswer` or `Untrusted`. After
/// `Opened` follow any number of `Event`, `ResponseTooLarge`, `Endpoint` and `Alive`, and finally `Ended`, `Broken` or `TooLarge`.
#[derive(Clone, Debug, PartialEq)]
pub enum ExchangeEvent {
    /// The number of additional requests that were sent for redirects or for a retry with new credentials. Can precede
    /// any first event.
    MoreRequests(u32),
    /// A connection is open and the body of a POST is being written to it. Can precede any first event; a server that
    /// answers with JSON sends nothing else before the result.
    Sent,
    /// A successful response head (2xx).
    Opened {
        /// The kind of body that follows.
        body: Body,
        /// `Mcp-Session-Id` of the response; only relevant for `initialize`.
        session: Option<String>,
    },
    /// One SSE event, or a whole JSON body.
    Event {
        /// The event's own `id:` field, not the last event id that SSE carries forward; without NUL.
        id: Option<EventId>,
        /// The event's own `retry:` field in milliseconds.
        retry_ms: Option<u64>,
        /// The data; empty for an event that only carries an id or a retry.
        data: String,
    },
    /// The URL for POSTing messages, from an HTTP+SSE server (MCP 2024-11-05, basic/transports).
    Endpoint {
        /// The absolute URL, or why longhaul refuses to use it.
        target: Result<String, OriginError>,
    },
    /// The response to one request exceeded the size limit and was skipped; more messages follow.
    ResponseTooLarge {
        /// The id of the request.
        request_id: String,
        /// The limit in bytes.
        cap: usize,
    },
    /// Bytes arrived that aren't an event, such as a keep-alive comment.
    Alive,
    /// The body ended normally.
    Ended,
    /// The connection broke inside the body.
    Broken {
        /// The reason.
        why: String,
    },
    /// An event or body exceeded the size limit; the connection was closed.
    TooLarge {
        /// The limit in bytes.
        cap: usize,
    },
    /// A response other than 2xx; boxed to keep this enum small.
    Refused(Box<HttpError>),
    /// No connection was made, so the server received nothing.
    NotSent {
        /// The reason.
        why: String,
        /// Whether the machine refused the connection, so nothing listens on the port.
        is_refused: bool,
    },
    /// The request was sent at least partly, but no response head arrived.
    NoAnswer {
        /// The reason.
        why: String,
    },
    /// The server's TLS certificate isn't trusted; retrying won't help.
    Untrusted {
        /// The reason.
        why: String,
    },
}

impl ExchangeEvent {
    /// An event with only data.
    pub fn message(data: String) -> Self {
        Self::Event {
            id: None,
            retry_ms: None,
            data,
        }
    }

    /// [`Self::NotSent`], for another reason than a refused connection.
    pub fn not_sent(why: impl Into<String>) -> Self {
        let (why, is_refused) = (why.into(), false);
        Self::NotSent { why, is_refused }
    }
}

/// The kind of body of a 2xx response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// `text/event-stream`.
    Stream,
    /// `application/json`.
    Json,
    /// No body, with its status, which is 202 after a notification.
    Empty(u16),
    /// Any other type; read up to the size limit and discarded.
    Other {
        /// Its media type in lowercase, without parameters; not sanitized.
        media: Option<String>,
    },
}

/// A response other than 2xx, or a JSON-RPC error with a status of 200.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpError {
    /// HTTP status.
    pub status: u16,
    /// `Retry-After`, in either form.
    pub retry_after: Option<Duration>,
    /// A JSON-RPC error in the body.
    pub error: Option<RpcError>,
    /// The start of a text body, or the error's message; not sanitized.
    pub server_text: Option<String>,
    /// The token is valid but lacks a scope (RFC 6750, section 3.1).
    pub lacks_scope: bool,
    /// Why longhaul itself sent nothing, if this is not the server's response.
    pub withheld: Option<String>,
}

impl HttpError {
    /// The status and the server's message; not sanitized.
    pub fn message(&self) -> String {
        match &self.server_text {
            Some(said) => format!("HTTP {}: {said}", self.status),
            None => format!("HTTP {}", self.status),
        }
    }

    /// Whether this request is denied and a sign-in would not help: a 403 that names no missing scope.
    pub const fn is_denial(&self) -> bool {
        self.status == 403 && !self.lacks_scope
    }

    /// Whether the same request may succeed later because the server or a gateway was busy (RFC 9110 15.5.9 and 15.6,
    /// RFC 6585 4, RFC 8470 5.2). Excludes 500, which many servers return for features they don't implement.
    pub const fn is_transient(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 502..=504)
    }

    /// Whether a call may run although it was answered with this: a gateway may have passed it on before it gave up. A 503
    /// with `Retry-After` or a JSON-RPC error is the server's own refusal (RFC 9110 15.6.4).
    pub const fn may_run(&self) -> bool {
        let is_own = self.retry_after.is_some() || self.error.is_some();
        matches!(self.status, 408 | 425 | 500..=502 | 504..=599) || self.status == 503 && !is_own
    }

    /// Whether the server did not act on the request: it was busy, denied it, or a login page in its place redirected the
    /// request.
    pub const fn is_undelivered(&self) -> bool {
        self.is_transient() || self.is_denial() || matches!(self.status, 300..=399)
    }
}

impl From<RpcError> for HttpError {
    fn from(error: RpcError) -> Self {
        Self {
            status: 200,
            server_text: Some(error.message.clone()),
            error: Some(error),
            ..Self::default()
        }
    }
}

/// The response to a request: the JSON text of its result, or the error.
pub type RpcOutcome<'r> = Result<&'r str, RpcError>;

/// A JSON-RPC error object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcError {
    /// The error code.
    #[serde(default)]
    pub code: i64,
    /// The message, cut if it is long; not sanitized.
    #[serde(default, deserialize_with = "bounded_text")]
    pub message: String,
    /// Additional data: JSON text, as the server wrote it.
    #[serde(
        default,
        deserialize_with = "raw_text",
        serialize_with = "as_raw",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<String>,
}

impl RpcError {
    /// A list in its data.
    pub fn list(&self, name: &str) -> Vec<Value> {
        let data = self.data.as_deref().unwrap_or_default();
        let data: Value = serde_json::from_str(data).unwrap_or_default();
        let list = data.get(name).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    }
}

#[expect(clippy::ref_option, reason = "serde passes the field so")]
fn as_raw<S: serde::Serializer>(data: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
    let raw = data.as_deref().map(serde_json::from_str::<&RawValue>);
    let raw = raw.transpose().map_err(serde::ser::Error::custom)?;
    raw.serialize(to)
}

fn raw_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let raw = Box::<RawValue>::deserialize(from)?;
    Ok(Some(raw.get().to_owned()))
}

/// Deserializes a message of a server, cut to [`text::SERVER_TEXT_BYTES`].
pub(super) fn bounded_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let whole = Cow::<'de, str>::deserialize(from)?;
    Ok(text::bounded(whole, text::SERVER_TEXT_BYTES).into_owned())
}
