//! How to start the demo server.

use std::{path::PathBuf, time::Duration};

/// The server's name, also used as the logger name.
pub(super) const NAME: &str = "longhaul-demo";

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
