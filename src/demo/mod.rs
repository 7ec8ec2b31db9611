//! The embedded demo server: a small MCP server with faults that you can trigger.
//!
//! It runs as its own process on 127.0.0.1 and is built on the official SDK (`rmcp`) and axum. It shares no code with
//! the client, only the wire protocol, so the client is not tested against its own reading of the specification.
//!
//! **Invariants**: an event is on disk before its id leaves the process. A batch and the checkpoint that counts it are
//! committed together. A server task is on disk before any client learns its id. Server sessions and plain calls live
//! in memory and end with the process; after a restart, clients that resume such a call receive a log line that says so.
//! Server tasks continue after a restart.
//!
//! One URL serves every revision from 2025-03-26 to 2026-07-28. The SDK and this module share the work:
//!
//! | area | the SDK | this module |
//! |---|---|---|
//! | stateful eras: handshake, sessions, streams | all | stores and replays events, answers cancelled calls |
//! | modern era: discovery, validation, streams, cancel on disconnect | all | |
//! | server tasks of 2026-07-28 | messages, validation | task storage (the SDK loses tasks on restart) |
//! | `subscriptions/listen` | validation, stream | the response (the SDK's filter has no `taskIds`) |
//! | server tasks of 2025-11-25 | sessions, streams | everything else |
//! | elicitation | delivery | the form |
//!
//! Retention: the newest 20,000 events of a stream, streams for seven days after their response, server tasks for an
//! hour unless the client asks for another time (at most a week).

mod activity;
mod boot;
mod catalog;
mod checkpoints;
mod context;
mod control;
mod database;
mod dispatch;
mod elicitation;
mod error;
mod events;
mod faults;
mod handler;
mod http;
mod modern;
mod options;
mod passthrough;
mod process;
mod running;
mod runs;
mod sessions;
mod stateful;
mod tasks;
mod tcp;
mod tools;

pub use self::{
    control::{control, hold, stop},
    error::DemoError,
    faults::{Fault, FaultError},
    options::DemoOptions,
    process::{ServerLock, detach, find_running, run_blocking, start_in_background},
    running::RunningServer,
};
