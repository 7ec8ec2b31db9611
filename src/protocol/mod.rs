//! The wire, without IO: JSON-RPC envelopes, MCP shapes, and what one HTTP exchange can bring.
//!
//! Owns how bytes of JSON become words of the domain and back. Must not know of sockets, time or tasks. Invariant:
//! unknown methods, fields and shapes are kept or skipped, never fatal.

mod challenge;
mod decode;
pub mod encode;
mod exchange;
mod header;
mod tasks;

pub use challenge::{Challenge, both_scopes, scopes};
pub use decode::{CallResult, Incoming, InitializeResult, call_result, decode, handshake, tools};
pub use exchange::{Body, ExchangeEvent, HttpError, Method, Request, RpcError};
pub use tasks::{
    CallOutcome, DiscoverResult, InputRequest, TaskObject, call_outcome, discovery, task_list,
    task_shape,
};
