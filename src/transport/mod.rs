//! IO towards servers: each exchange takes one request and returns a stream of
//! [`ExchangeEvent`](crate::protocol::ExchangeEvent)s.
//!
//! Owns bytes, frames, HTTP, TLS, server processes, the recording of traffic, and the messages for network errors. Must not
//! know about JSON-RPC methods, tasks, retry policy or disks.
//!
//! Invariants:
//! - A request body is written to at most one connection, except after a redirect or rejected credentials, which mean that
//!   the first request was not acted on.
//! - `NotSent` is reported only if provably no byte of the request was sent.
//! - No secret reaches a log, an error message or another origin, even if a server echoes it (`secrets`).

mod error_response;
mod error_text;
mod fetch;
mod frame;
pub mod http;
mod json_text;
mod process_guard;
mod routing;
mod secrets;
pub mod sse;
pub mod stdio;
mod traffic;
mod written;

pub use fetch::{FetchError, FetchRequest, FetchResponse, Fetcher};
pub use frame::DEFAULT_CAP_BYTES;
pub use http::{
    Http,
    client::ensure_provider,
    exchange::Exchange,
    options::{HttpOptions, NoToken, SignIn, SignInError, TransportError},
};
pub use process_guard::{ProcessGuard, guard_processes};
pub(crate) use secrets::searchable_forms;
pub use secrets::{KnownSecret, Secrets};
pub use sse::Sse;
pub use stdio::{ProgramPipes, ProgramState, Stdio, StdioOptions};
pub use traffic::{RecordingSwitch, TrafficRecorder, TrafficWriter};
