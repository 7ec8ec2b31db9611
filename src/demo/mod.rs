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
//! | elicitation | delivery, message types of the modern era | the forms, tokens and pages |
//!
//! Retention: the newest 20,000 events of a stream, streams for seven days after their response, server tasks for an
//! hour unless the client asks for another time (at most a week), elicitation tokens for an hour.

mod boot;
mod catalog;
mod checkpoints;
mod context;
mod control;
mod database;
mod elicitation;
mod elicitation_tokens;
mod events;
mod faults;
mod handler;
mod http;
mod modern;
mod passthrough;
mod process;
mod runs;
mod sessions;
mod stateful;
mod tasks;
mod tcp;
mod tools;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

pub use control::{control, stop};
pub use faults::{Fault, UnknownFault};
pub use process::{
    DemoServer, RunningServer, detach, find_running, run_blocking, serve, start_in_background,
};

/// How to start a demo server.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// The data directory, created with mode 0700 if missing.
    pub dir: PathBuf,
    /// The TCP port on 127.0.0.1. `None` reuses the previous port if it is free, else any; `Some(0)` takes any port.
    pub port: Option<u16>,
    /// On resume, replay the missed events of all streams in the server session, not only those of the stream named by
    /// the event id. Some real servers do this.
    pub cross_stream_replay: bool,
    /// Exit after this long without running work or connections; `None` never exits on its own.
    pub idle_exit: Option<Duration>,
}

/// An error from starting or controlling a demo server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// A file, directory, port or socket failed.
    #[error("could not {what}: {source}")]
    Io {
        /// The attempted operation, phrased to follow "could not".
        what: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The server's database failed.
    #[error("could not use the demo server's database: {0}")]
    Database(#[from] rusqlite::Error),
    /// Another demo server holds this directory's lock.
    #[error("a demo server is already running in {}; stop it with `longhaul demo --stop`", dir.display())]
    AlreadyRunning {
        /// The data directory.
        dir: PathBuf,
    },
    /// No demo server responds in this directory.
    #[error("no demo server is running in {}; start one with `longhaul demo`", dir.display())]
    NotRunning {
        /// The data directory.
        dir: PathBuf,
    },
    /// The server was started but did not become ready.
    #[error("the demo server did not start: {0}")]
    NotStarted(String),
    /// The server rejected a control command.
    #[error("the demo server rejected the command: {0}")]
    Refused(String),
}

impl DemoError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// Counts the records processed for a client id, from the database in `dir`; works with or without a running server.
pub fn rows(dir: &Path, client_id: &str) -> Result<u64, DemoError> {
    checkpoints::rows(dir, client_id)
}
