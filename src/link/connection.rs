//! The state of the connection to the server, and what its session has shown.

use core::time::Duration;

use super::{
    io::ExchangeId,
    refusals::{Proof, Refusals},
    time::doubled,
};
use crate::{
    domain::{HostCapabilities, LogLevel, Mono},
    protocol::HttpError,
};

/// A session that was refused like this is gone.
pub(super) const SESSION_GONE: Proof = Proof {
    takes: Duration::from_secs(10),
    count: 4,
};
/// A stream that was refused like this while its session answers is gone: several replicas may answer in turn.
pub(super) const STREAM_GONE: Proof = Proof {
    takes: Duration::from_secs(300),
    count: 12,
};
/// A resumption that was refused like this, each time by a server that answers, is not supported.
pub(super) const UNSUPPORTED: Proof = Proof {
    takes: Duration::ZERO,
    count: 2,
};
/// The longest wait between two pings of a check.
const PING_AT_MOST: Duration = Duration::from_secs(4);
/// The longest wait between two requests that look for an MCP server.
const SEARCH_AT_MOST: Duration = Duration::from_secs(60);

/// The state of the connection to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// There is no server session.
    Disconnected,
    /// `server/discover` is in flight.
    Discovering,
    /// The stream of HTTP+SSE is requested and has not named its endpoint yet.
    OpeningSse,
    /// `initialize` is in flight.
    Initializing,
    /// `notifications/initialized` is in flight.
    Announcing,
    /// Requests may be sent.
    Ready,
    /// The server requires credentials, which only the user can provide.
    AuthRequired(String),
}

impl ConnectionState {
    /// The state without a handshake in flight.
    pub(super) fn of_session(is_initialized: bool) -> Self {
        if is_initialized {
            Self::Ready
        } else {
            Self::Disconnected
        }
    }
}

/// The single stream of HTTP+SSE, and the pipes of a program, which work the same way, once it has named where to POST. The
/// connection is the session: what it loses is lost, and nothing of it outlives this process.
///
/// Source: MCP 2024-11-05, basic/transports, HTTP with SSE.
#[derive(Clone, Debug)]
pub(super) struct LegacySse {
    pub(super) on: ExchangeId,
    /// Where requests are posted.
    pub(super) target: String,
}

/// What the server session has shown so far.
#[derive(Debug, Default)]
pub(super) struct McpSession {
    /// Handshakes in a row after which nothing worked.
    pub(super) handshake_tries: u32,
    /// How many short requests an MCP server has answered.
    pub(super) answers: u32,
    /// The session that replaced one that ended, until the server serves something in it.
    pub(super) unproven: Option<u64>,
    /// The number of the session whose `notifications/initialized` was answered with a page or refused without a JSON-RPC
    /// error, until the server has answered something: it may have been a captive portal.
    pub(super) maybe_unannounced: Option<u64>,
    /// The session was refused, and nothing was served in it since.
    pub(super) check: Option<SessionCheck>,
    /// What the `initialize` in flight declares that hosts can do.
    pub(super) declares: HostCapabilities,
    /// The last log level that was requested, and the number of the session.
    pub(super) log_level: Option<(u64, LogLevel)>,
    /// When this process listed the tools in this session.
    pub(super) listed_at: Option<Mono>,
    /// The server is there, but did not list its tools in time: calls no longer wait for the list.
    pub(super) is_unlisted: bool,
}

/// The current session was refused, and nothing was served in it since.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionCheck {
    refusals: Refusals,
    /// Whether one of them was a JSON-RPC error, so that an MCP server refuses.
    pub(super) is_by_server: bool,
    pings: u32,
    /// Requests that looked for the server, and the pings between them.
    searches: u32,
    /// When its next request is due.
    pub(super) next_at: Mono,
    /// What the server last said about it.
    pub(super) server_text: Option<String>,
}

impl SessionCheck {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            refusals: Refusals::none_since(now),
            next_at: now,
            ..Self::default()
        }
    }

    /// Counts a refusal. Returns whether the session is proved gone.
    pub(super) fn refused(&mut self, refusal: &HttpError, now: Mono) -> bool {
        self.refusals.add();
        self.is_by_server |= refusal.error.is_some();
        if let Some(server_text) = &refusal.server_text {
            self.server_text = Some(server_text.clone());
        }
        self.is_by_server && self.refusals.are(SESSION_GONE, now)
    }

    /// How often the session was asked for, or the server looked for.
    pub(super) fn tries(&self) -> u32 {
        self.pings.saturating_add(self.searches)
    }

    /// The session is asked for again. Returns whether the server is to be looked for instead.
    pub(super) fn asks(&mut self, now: Mono) -> bool {
        if self.is_by_server || !self.refusals.are(SESSION_GONE, now) {
            self.pings = self.pings.saturating_add(1);
            let wait = Duration::from_secs(1).saturating_mul(self.pings);
            self.next_at = now.after(wait.min(PING_AT_MOST));
            return false;
        }
        let wait = doubled(PING_AT_MOST, self.searches / 2, SEARCH_AT_MOST);
        self.next_at = now.after(wait);
        self.searches = self.searches.saturating_add(1);
        // In between, a ping may still find the session alive.
        self.searches % 2 == 1
    }
}
