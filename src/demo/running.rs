//! A demo server in another process: where it is and how to reach it.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::demo::error::DemoError;

/// A demo server that runs in this or another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningServer {
    /// The MCP endpoint.
    pub url: String,
    /// The process id.
    pub pid: u32,
}

/// The MCP endpoint on a port.
pub(super) fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/mcp")
}

/// The control socket of the last server in `dir`, if there was one.
pub(super) fn control_socket(dir: &Path) -> Option<PathBuf> {
    ServerFile::read(dir).map(|file| file.socket)
}

/// Calls `poll` every 20 ms until it returns a value, for at most ten seconds.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that polls another process"
)]
pub(super) fn poll_until_some<T>(mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    for _ in 0..MAX_POLLS {
        if let Some(value) = poll() {
            return Some(value);
        }
        thread::sleep(POLL_INTERVAL); // sleep: another process can't wake us
    }
    None
}

/// The longest path that fits into a Unix socket address: 108 bytes with the terminating NUL.
pub(super) const MAX_SOCKET_PATH: usize = 107;

/// The name prefix of socket directories outside the data directory.
pub(super) const SOCKET_DIR_PREFIX: &str = "longhaul-demo-";

pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The number of polls in ten seconds.
pub(super) const MAX_POLLS: u32 = 500;

/// The contents of `server.json`. The file outlives the server, so that the next one reuses the port.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServerFile {
    pub(super) port: u16,
    pub(super) pid: u32,
    pub(super) socket: PathBuf,
}

impl ServerFile {
    pub(super) fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join("server.json")).ok()?).ok()
    }

    pub(super) fn write(&self, dir: &Path) -> Result<(), DemoError> {
        let what = || DemoError::io(format!("write {}", dir.join("server.json").display()));
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(what())?;
        serde_json::to_writer(&mut file, self).map_err(|error| what()(error.into()))?;
        file.persist(dir.join("server.json"))
            .map_err(|error| what()(error.error))?;
        Ok(())
    }
}
