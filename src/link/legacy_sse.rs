//! The single stream of HTTP+SSE, and the pipes of a program, which work the same way.
//!
//! The connection is the session: what it loses is lost, and nothing of it outlives this process.
//!
//! Source: MCP 2024-11-05, basic/transports, HTTP with SSE.

use super::io::ExchangeId;

/// The open stream, once it has named where to POST.
#[derive(Clone, Debug)]
pub(super) struct LegacySse {
    pub(super) on: ExchangeId,
    /// Where requests are posted.
    pub(super) target: String,
}
