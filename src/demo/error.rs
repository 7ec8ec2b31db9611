//! Errors of the demo server.

use std::{io, path::PathBuf};

use rmcp::model::ErrorCode;

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
    /// Another program listens on the port.
    #[error("port {0} is in use; choose another one with --port")]
    PortInUse(u16),
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
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// The JSON-RPC error code for a cancelled request. MCP defines none; LSP and other MCP servers use this one.
pub(super) const CANCELLED: ErrorCode = ErrorCode(-32800);
