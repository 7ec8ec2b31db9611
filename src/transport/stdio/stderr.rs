//! The stderr of a server process: lines for the log, and the last ones for the reason why it exited.

use std::{
    collections::VecDeque,
    os::fd::AsFd as _,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::ChildStderr,
    sync::mpsc,
};

use super::inherit::Suspension;
use crate::{
    domain::{locked, text},
    protocol::encode::log_notification,
    transport::secrets::Secrets,
};

/// Bytes kept of a line that is not a message.
pub(super) const LOG_LINE_BYTES: usize = 4 * 1024;

/// Last lines of stderr that are shown when a process exits.
const TAIL_LINES: usize = 3;

/// The last lines of stderr.
#[derive(Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<String>>>);

impl StderrTail {
    pub(super) fn of(lines: &[String]) -> Self {
        Self(Arc::new(Mutex::new(lines.iter().cloned().collect())))
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let lines = locked(&self.0);
        lines.iter().cloned().collect()
    }

    fn add(&self, line: &str) {
        let mut lines = locked(&self.0);
        if lines.len() >= TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    pub(super) fn message(&self) -> String {
        self.lines().join(" / ")
    }
}

/// Reads stderr, which is a log for people; output there does not mean failure.
pub(super) struct StderrLog {
    pub(super) tail: StderrTail,
    pub(super) log_lines: mpsc::Sender<String>,
    pub(super) secrets: Secrets,
    pub(super) suspension: Arc<Suspension>,
}

impl StderrLog {
    /// Reads to the end. `line` is the beginning of the first line.
    pub(super) async fn read(self, stderr: Option<ChildStderr>, mut line: Vec<u8>) {
        if let Some(stderr) = stderr {
            self.read_lines(stderr, &mut line).await;
        }
        self.on_line(&line);
        self.suspension.stderr_ended();
    }

    async fn read_lines(&self, stderr: ChildStderr, line: &mut Vec<u8>) {
        let mut reader = BufReader::new(stderr);
        loop {
            let filled = tokio::select! {
                filled = reader.fill_buf() => filled,
                () = self.suspension.wanted() => {
                    self.suspension.park_stderr(reader.get_ref().as_fd(), line).await;
                    continue;
                }
            };
            let (used, is_whole) = match filled {
                Ok(chunk) if !chunk.is_empty() => {
                    let end = memchr::memchr(b'\n', chunk);
                    let piece = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
                    let room = LOG_LINE_BYTES.saturating_sub(line.len());
                    line.extend_from_slice(piece.get(..room).unwrap_or(piece));
                    (piece.len() + usize::from(end.is_some()), end.is_some())
                }
                _ => return,
            };
            reader.consume(used);
            if is_whole {
                self.on_line(&std::mem::take(line));
            }
        }
    }

    fn on_line(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = self.secrets.mask(line.trim_end());
        let line = text::clean_line(&line);
        if line.is_empty() {
            return;
        }
        self.tail.add(&line);
        // Dropped if the queue is full.
        let _ = self
            .log_lines
            .try_send(log_notification("info", "stderr", &line));
    }
}
