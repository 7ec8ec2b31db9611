//! The embedded demo server: a small, honest MCP server to break and to come back to.
//!
//! **Owns** a process of its own on 127.0.0.1, built on the official SDK (`rmcp`) and axum: its tools, its event store,
//! its checkpoints, its faults, and the Unix socket by which faults reach it. **Must not know** the rest of this crate:
//! it shares nothing with the client but the wire, so that what we test against is not our own reading of the protocol.
//! **Invariant**: an event is on disk before its id leaves the process, a batch of work is on disk together with the
//! checkpoint that counts it, and a server task is on disk before anybody hears its id. Whatever is in memory only (server
//! sessions, plain calls) dies with the process, and the next boot says so in words to those who ask; tasks go on.
//!
//! Every revision from 2025-03-26 to 2026-07-28 is spoken on one URL. Whose part is what:
//!
//! | part | the SDK's | ours |
//! |---|---|---|
//! | stateful eras: handshake, sessions, streams | all | events kept and replayed on disk, cancelled calls answered |
//! | modern era: discovery, checks and their codes, streams, cancellation by going | all | |
//! | server tasks of 2026-07-28 | their messages and checks | the tasks: the SDK's do not survive a restart |
//! | `subscriptions/listen` | checks, stream | the answer: the SDK's filter has no `taskIds` |
//! | server tasks of 2025-11-25 | sessions and streams | all else: the SDK knows none |
//! | questions | their ways, and the shapes of the modern era | what is asked, tickets, pages |
//!
//! The rooms: `disk` (the SQLite file), `events` (streams and replay), `checkpoints` and `runs` (resumable work), `tasks`
//! (server tasks), `tools` (the work), `catalogue` (how it is described), `call` (how work speaks to its client),
//! `questions` and `tickets` (what is asked, and what binds the answer to it), `handler` (what a client may ask),
//! `stateful` and `modern` (each era's own spelling), `dialect` (what the SDK has no types for), `sessions` (the SDK's
//! session manager, with resumption that goes on live), `front` (the HTTP layer before the SDK), `door` (TCP, and the
//! faults of a network), `faults`, `control` (the Unix socket), `life` (one boot), `process` (locks, ports, background).
//!
//! What is kept, and for how long: the newest 20,000 events of a stream, streams for seven days after their response,
//! server tasks for an hour or what their client wishes, at most a week, and tickets for an hour.

mod call;
mod catalogue;
mod checkpoints;
mod control;
mod dialect;
mod disk;
mod door;
mod events;
mod faults;
mod front;
mod handler;
mod life;
mod modern;
mod process;
mod questions;
mod runs;
mod sessions;
mod stateful;
mod tasks;
mod tickets;
mod tools;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

pub use control::{control, stop};
pub use faults::{Fault, UnknownFault};
pub use process::{
    Running, Server, detach, find_running, run_blocking, serve, start_in_background,
};

/// How a demo server is started.
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory of the server; made with mode 0700 if it is missing.
    pub dir: PathBuf,
    /// The TCP port on 127.0.0.1; `None` takes the port of the last time if it is free, else any; `Some(0)` takes any.
    pub port: Option<u16>,
    /// Replay what all streams of a server session missed, not only the stream of the id given (the looser variant).
    pub cross_stream_replay: bool,
    /// End once nothing runs and nobody has been connected for this long; `None` never ends by itself.
    pub idle_exit: Option<Duration>,
}

/// Why a demo server could not be started, reached or told something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// A file, directory, port or socket could not be used.
    #[error("could not {what}: {source}")]
    Io {
        /// What was attempted, as words that follow "could not".
        what: String,
        /// The reason of the operating system.
        #[source]
        source: io::Error,
    },
    /// The server's database could not be used.
    #[error("could not use the demo server's database: {0}")]
    Disk(#[from] rusqlite::Error),
    /// Another demo server holds this directory.
    #[error("a demo server already runs in {}; `longhaul demo --stop` ends it", dir.display())]
    AlreadyRunning {
        /// The data directory.
        dir: PathBuf,
    },
    /// No demo server answers in this directory.
    #[error("no demo server runs in {}; `longhaul demo` starts one", dir.display())]
    NotRunning {
        /// The data directory.
        dir: PathBuf,
    },
    /// The server was started and did not become ready.
    #[error("the demo server did not start: {0}")]
    NotStarted(String),
    /// The server answered a command with a refusal.
    #[error("the demo server refused: {0}")]
    Refused(String),
}

impl DemoError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// How many records have been processed for a client id, counted in the database of `dir`.
///
/// Works while a server runs there and when none does.
pub fn rows(dir: &Path, client_id: &str) -> Result<u64, DemoError> {
    checkpoints::rows(dir, client_id)
}
