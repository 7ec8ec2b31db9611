//! The MCP protocol without IO: JSON-RPC messages and the events of one HTTP exchange.
//!
//! Converts between JSON and domain types. Must not know of sockets, time or tasks. Invariant: unknown methods, fields
//! and values are kept or skipped, never fatal.

mod challenge;
mod decode;
pub mod encode;
mod exchange;
mod header;
mod tasks;

pub use challenge::{Challenge, merge_scopes, scopes};
pub use decode::{
    CallResult, Incoming, Introduced, decode, error_without_id, parse_call_result,
    parse_initialize_result, parse_tool_page, rpc_error,
};
pub use exchange::{
    Body, ExchangeEvent, HttpError, Method, OriginError, Request, RpcError, RpcOutcome,
};
pub use tasks::{
    CallOutcome, InputRequest, TaskObject, classify_call_result, parse_discover_result,
    parse_task_object, parse_task_page,
};
