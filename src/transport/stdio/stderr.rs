//! The stderr of a server process: lines for the log, and the last ones for the reason why it exited.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::ChildStderr,
    sync::mpsc,
};

use crate::{domain::text, protocol::encode::log_notification, transport::secrets::Secrets};

/// Bytes kept of a line that is not a message.
pub(super) const LOG_LINE_BYTES: usize = 4 * 1024;

/// Last lines of stderr that are shown when a process exits.
const TAIL_LINES: usize = 3;

/// The last lines of stderr.
#[derive(Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<VecDeque<String>>>);

impl StderrTail {
    fn add(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    pub(super) fn message(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.join(" / ")
    }
}

/// Reads stderr, which is a log for people; output there does not mean failure.
pub(super) async fn read_stderr(
    stderr: ChildStderr,
    tail: StderrTail,
    log_lines: mpsc::Sender<String>,
    secrets: Secrets,
) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let (used, is_whole) = match reader.fill_buf().await {
            Ok(chunk) if !chunk.is_empty() => {
                let end = memchr::memchr(b'\n', chunk);
                let piece = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
                let room = LOG_LINE_BYTES.saturating_sub(line.len());
                line.extend_from_slice(piece.get(..room).unwrap_or(piece));
                (piece.len() + usize::from(end.is_some()), end.is_some())
            }
            _ => break,
        };
        reader.consume(used);
        if is_whole {
            on_stderr_line(&std::mem::take(&mut line), &tail, &log_lines, &secrets);
        }
    }
    on_stderr_line(&line, &tail, &log_lines, &secrets);
}

fn on_stderr_line(
    line: &[u8],
    tail: &StderrTail,
    log_lines: &mpsc::Sender<String>,
    secrets: &Secrets,
) {
    let line = String::from_utf8_lossy(line);
    let line = secrets.mask(line.trim_end());
    let line = text::clean_line(&line);
    if line.is_empty() {
        return;
    }
    tail.add(&line);
    // Dropped if the queue is full.
    let _ = log_lines.try_send(log_notification("info", "stderr", &line));
}
