//! The IO edge towards servers: one exchange in, a stream of [`ExchangeEvent`](crate::protocol::ExchangeEvent)s out.
//!
//! Owns bytes, frames, HTTP, TLS, the processes that are servers, what is told of all that to be recorded, and the words for
//! what goes wrong with them. Must not
//! know of JSON-RPC methods, tasks, retries or disks: it never repeats a request and never gives up on one. Invariant: a request body is written to at
//! most one connection (a followed redirect and a refusal of credentials aside, which say that the first was not acted upon), `NotSent` is said only
//! where provably no byte of it left, and no secret reaches a log, an error or another origin, also where a server
//! repeats it (`secrets`).

mod fetch;
pub mod frame;
pub mod http;
mod messages;
mod refusal;
mod secrets;
pub mod sse;
pub mod stdio;
mod tap;

pub use fetch::{FetchError, Fetched, Fetcher, Sent};
pub use frame::{DEFAULT_CAP_BYTES, Found, Frame, Oversize, Splitter};
pub use http::{Exchange, Http, HttpOptions, SignIn, TransportError, ensure_provider};
pub use secrets::Secrets;
pub(crate) use secrets::parts_of;
pub use sse::Sse;
pub use stdio::{Stdio, StdioOptions};
pub use tap::{RecordingSwitch, TrafficRecorder, TrafficWriter};
