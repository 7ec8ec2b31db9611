//! `longhaul proxy`: an MCP server on stdio that an agent host starts in place of the real one.
//!
//! A state machine without IO: lines from the host and events of the session come in, lines to the host and requests to
//! the session go out. The keeper makes the calls, so each is a task like any other. Must not know of processes, files
//! or terminals. Invariant: each request of the host gets exactly one response, before the host gives up on it.

mod cancel;
mod era;
mod host_task;
mod hosts;
mod machine;
mod message;
mod questions;
mod raw;
mod ticket;
mod tool_list;

pub use hosts::{CLAUDE_CODE_LIMIT, patience_before};
pub use machine::{Effect, Proxy, ProxyInput, ProxyOptions, Unreadable};
