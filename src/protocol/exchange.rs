//! One HTTP exchange with an MCP endpoint as data: what goes out, and everything that can come back.

use core::time::Duration;
use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::domain::{EventId, ProtocolVersion, text};

/// A request to the MCP endpoint (MCP 2025-11-25, basic/transports).
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub method: Method,
    /// `MCP-Session-Id`; a secret.
    pub session: Option<String>,
    /// `MCP-Protocol-Version`, from the handshake on.
    pub version: Option<ProtocolVersion>,
    /// Where to, if not to the endpoint itself: what an [`ExchangeEvent::Endpoint`] named. A secret.
    pub target: Option<String>,
}

// Written by hand: the session id must not reach a log, nor the target, which holds one.
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
    /// Ask for a stream: the rest of a broken one, or the standalone one.
    Get {
        /// `Last-Event-ID`.
        cursor: Option<EventId>,
    },
    /// End the session.
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

/// What an exchange brings, in order: one of `Opened`, `RequestError`, `NotSent`, `NoAnswer`, `Untrusted`; after `Opened`
/// any number of `Event`, `Endpoint` and `Alive`, then `Ended`, `Broken` or `TooLarge`, which are the last.
#[derive(Clone, Debug, PartialEq)]
pub enum ExchangeEvent {
    /// So many requests went out beyond the first before what follows came: the hops of a redirect, or another try with
    /// new credentials.
    MoreRequests(u32),
    /// A successful response head (2xx).
    Opened {
        /// What kind of body follows.
        body: Body,
        /// `Mcp-Session-Id` of the response; only the handshake's counts.
        session: Option<String>,
    },
    /// One SSE event, or a JSON body as a whole.
    Event {
        /// The event's own `id:` line (not the sticky one), without NUL.
        id: Option<EventId>,
        /// The event's own `retry:` line in milliseconds.
        retry_ms: Option<u64>,
        /// The data; empty for an event that only carries an id or a retry.
        data: String,
    },
    /// HTTP+SSE names the address that messages are POSTed to (MCP 2024-11-05, basic/transports).
    Endpoint {
        /// The address in full; else why nothing is sent there, in words.
        target: Result<String, String>,
    },
    /// Bytes came that are no event, e.g. a keep-alive comment.
    Alive,
    /// The body ended in order.
    Ended,
    /// The connection broke inside the body.
    Broken {
        /// Why, in words.
        why: String,
    },
    /// One event or body was over the cap; the connection was closed.
    TooLarge {
        /// The cap in bytes.
        cap: usize,
    },
    /// A response other than 2xx; boxed, because every event is as large as the largest of these.
    Refused(Box<HttpError>),
    /// Nothing reached the server: no connection was made.
    NotSent {
        /// Why, in words.
        why: String,
        /// Whether the machine is there and nobody listens on the port (connection refused).
        is_refused: bool,
    },
    /// The request went out, or part of it, and no response head came back.
    NoAnswer {
        /// Why, in words.
        why: String,
    },
    /// The server could not prove who it is (TLS); trying again will not help.
    Untrusted {
        /// Why, in words.
        why: String,
    },
}

/// What kind of body a 2xx response has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// `text/event-stream`.
    Stream,
    /// `application/json`.
    Json,
    /// None, as after a notification (202).
    Empty,
    /// Something else; it is read to its cap and dropped.
    Other {
        /// Its media type in lower case, without parameters; the server's text, not yet sanitised.
        media: Option<String>,
    },
}

/// A response other than 2xx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpError {
    /// HTTP status.
    pub status: u16,
    /// `Retry-After`, in either form.
    pub retry_after: Option<Duration>,
    /// A JSON-RPC error in the body.
    pub error: Option<RpcError>,
    /// The beginning of a text body, or the error's message: the server's words, not yet sanitised.
    pub server_text: Option<String>,
}

impl HttpError {
    /// Whether the same request may succeed later: the server, or a gateway in front of it, was busy (RFC 9110 15.5.9
    /// and 15.6, RFC 6585 4, RFC 8470 5.2). 500 is not among them: many servers answer it to what they don't implement.
    pub const fn is_transient(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 502..=504)
    }
}

/// A JSON-RPC error object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcError {
    /// Its code; only the codes of the specification mean something.
    #[serde(default)]
    pub code: i64,
    /// Its words, not yet sanitised; of a long text the beginning.
    #[serde(default, deserialize_with = "said")]
    pub message: String,
    /// What else it says.
    #[serde(default)]
    pub data: Option<serde_json::Value>,
}

/// A text that a server writes for people, as much of it as is kept.
pub(super) fn said<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let whole = Cow::<'de, str>::deserialize(from)?;
    Ok(text::bounded(whole, text::SERVER_TEXT_BYTES).into_owned())
}
