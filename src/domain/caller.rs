//! Who made a call through `longhaul proxy`, and whether it has the result.

use serde::{Deserialize, Serialize};

use super::Wall;

/// The program behind `longhaul proxy` that made a call: an agent's host, such as an editor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// `clientInfo.name` of its handshake; not sanitized.
    pub host: String,
    /// `clientInfo.version`; not sanitized.
    pub version: String,
    /// Its working directory.
    pub directory: String,
    /// The JSON-RPC id of its request, as JSON text.
    pub request_id: String,
    /// Its own name for the call, if it sends one in `_meta`. A repeated call has a new one.
    #[serde(default)]
    pub call_id: Option<String>,
    /// The other members of its `_meta`, as the text of a JSON object; they are sent with the call.
    #[serde(default)]
    pub meta: Option<String>,
    /// When and why it last stopped waiting without a result.
    #[serde(default)]
    pub gave_up: Option<GaveUp>,
    /// After how many milliseconds it gave up because of its own limit, at the earliest.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// How many more times it made the same call and was attached to this one.
    #[serde(default)]
    pub repeats: u32,
    /// When it got the result.
    #[serde(default)]
    pub delivered_at: Option<Wall>,
}

/// A caller that stopped waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GaveUp {
    /// When.
    pub at: Wall,
    /// After how many milliseconds of waiting.
    pub after_ms: u64,
    /// Why.
    pub why: GaveUpReason,
}

/// Why a caller stopped waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GaveUpReason {
    /// It got a ticket instead of the result.
    Ticket,
    /// It cancelled its request, with this reason.
    Cancelled(String),
    /// It ended.
    Ended,
}

impl Caller {
    /// Notes what became of the call.
    pub fn note(&mut self, how: &Collected, now: Wall) {
        match how {
            Collected::Delivered => self.delivered_at = Some(now),
            Collected::TimedOut { after_ms } => {
                let earliest = self.timeout_ms.unwrap_or(u64::MAX);
                self.timeout_ms = Some(earliest.min(*after_ms));
            }
            Collected::GaveUp { after_ms, why } => {
                self.gave_up = Some(GaveUp {
                    at: now,
                    after_ms: *after_ms,
                    why: why.clone(),
                });
            }
            Collected::Repeated { request_id } => {
                self.repeats = self.repeats.saturating_add(1);
                self.request_id.clone_from(request_id);
                self.gave_up = None;
            }
        }
    }

    /// Whether both are the same program in the same directory.
    pub fn is_same_host(&self, other: &Self) -> bool {
        self.host == other.host && self.directory == other.directory
    }
}

/// What became of a call for its caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collected {
    /// It has the result.
    Delivered,
    /// It gave up because of its own limit.
    TimedOut {
        /// After how many milliseconds of waiting.
        after_ms: u64,
    },
    /// It made the same call again, and waits for this one.
    Repeated {
        /// The JSON-RPC id of its new request, as JSON text.
        request_id: String,
    },
    /// It stopped waiting.
    GaveUp {
        /// After how many milliseconds of waiting.
        after_ms: u64,
        /// Why.
        why: GaveUpReason,
    },
}

/// A server as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Introduction {
    /// The negotiated MCP revision.
    pub version: super::ProtocolVersion,
    /// The result of `initialize` or `server/discover`, verbatim JSON.
    pub result: String,
}

/// The outcome of a request that was passed on to a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forwarded {
    /// Its result, verbatim JSON.
    Result(String),
    /// Its JSON-RPC error object.
    Error(String),
}
