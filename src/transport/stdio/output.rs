//! Reads the stdout of a server process, one message per line.

use std::{os::fd::AsFd as _, sync::Arc};

use bytes::BytesMut;
use serde::de::IgnoredAny;
use tokio::{
    io::AsyncReadExt as _,
    process::ChildStdout,
    sync::{mpsc, watch},
};

use super::{outline::Outline, stderr::LOG_LINE_BYTES, supervisor::ServerProcess};
use crate::{
    domain::{ByteShare, Direction, text},
    protocol::{ExchangeEvent, encode::log_notification},
    transport::{
        http::body::{into_text, over_shared_limit, shared_limit_exceeded},
        secrets::Redactor,
        traffic::ExchangeRecorder,
    },
};

/// Lines of stdout that are not messages and go to the log; any further ones are dropped.
const LOGGED_STRAY_LINES: u8 = 20;

/// A line that exceeds the cap is skipped until it is this many times as long; then the process is ended.
const SKIPPED_CAPS: usize = 64;

/// The output of a process; dropping it ends the process.
pub(super) struct Output {
    pub(super) stdout: ChildStdout,
    pub(super) read: BytesMut,
    /// Bytes of `read` that are known to contain no line end.
    pub(super) scanned: usize,
    /// The line being read, if it exceeds the cap.
    pub(super) too_long: Option<Outline>,
    pub(super) cap: usize,
    pub(super) share: ByteShare,
    pub(super) log_lines: mpsc::Receiver<String>,
    /// How many waiting log lines were written before the bytes of `read`.
    pub(super) logged_before: usize,
    pub(super) process: Arc<ServerProcess>,
    pub(super) exit_reason: watch::Receiver<Option<String>>,
    /// Bytes in the pipe that the process may have written, once it has exited. Another process can hold the pipe open and
    /// keep writing, which must not hide the exit.
    pub(super) left_behind: Option<u64>,
    /// Whether stdout has been read to its end.
    pub(super) is_stdout_done: bool,
    /// How many lines that were not messages went to the log.
    pub(super) stray_lines: u8,
    pub(super) redactor: Redactor,
    pub(super) recorder: ExchangeRecorder,
}

impl Drop for Output {
    fn drop(&mut self) {
        self.process.end.notify_one();
    }
}

impl Output {
    pub(super) async fn next(&mut self) -> ExchangeEvent {
        loop {
            // Log lines that were written before a message come before it.
            if self.logged_before > 0 {
                self.logged_before -= 1;
                if let Ok(line) = self.log_lines.try_recv() {
                    return ExchangeEvent::message(line);
                }
            }
            while let Some(line) = self.line() {
                let event = match self.too_long.take() {
                    Some(outline) => Some(self.skipped(outline, &line)),
                    None => self.on_line(&line),
                };
                if let Some(event) = event {
                    return event;
                }
            }
            if self.read.len() > self.cap || self.too_long.is_some() {
                let part = std::mem::take(&mut self.read);
                self.scanned = 0;
                let outline = self.too_long.get_or_insert_default();
                outline.feed(&part);
                if outline.seen / SKIPPED_CAPS > self.cap {
                    return ExchangeEvent::TooLarge { cap: self.cap };
                }
            }
            if over_shared_limit(&mut self.share, self.read.len()) {
                return shared_limit_exceeded();
            }
            if self.is_stdout_done {
                let last = std::mem::take(&mut self.read);
                // A program may exit without a newline after its last message. A message that was cut off isn't valid JSON.
                if serde_json::from_slice::<IgnoredAny>(&last).is_ok()
                    && let Some(event) = self.on_line(&last)
                {
                    return event;
                }
                return self.finish().await;
            }
            self.read.reserve(8 * 1024);
            let has_exited = self.left_behind.is_some();
            let suspension = Arc::clone(&self.process.suspension);
            tokio::select! {
                () = suspension.wanted_of_stdout(), if !has_exited && self.too_long.is_none() => {
                    // Its log lines first: they were read already.
                    if let Ok(line) = self.log_lines.try_recv() {
                        return ExchangeEvent::message(line);
                    }
                    suspension.park_stdout(self.stdout.as_fd(), &self.read).await;
                }
                read = self.stdout.read_buf(&mut self.read) => {
                    let read = read.unwrap_or(0) as u64;
                    self.left_behind = self.left_behind.map(|left| left.saturating_sub(read));
                    self.is_stdout_done = read == 0 || self.left_behind == Some(0);
                    // Lets the reader of stderr catch up.
                    tokio::task::yield_now().await;
                    self.logged_before = self.log_lines.len();
                }
                Some(line) = self.log_lines.recv() => return ExchangeEvent::message(line),
                () = exited(&mut self.exit_reason), if !has_exited => {
                    let left = rustix::io::ioctl_fionread(&self.stdout).unwrap_or(u64::MAX);
                    self.left_behind = Some(left);
                    self.is_stdout_done = left == 0;
                }
            }
        }
    }

    /// The next whole line, without its end.
    fn line(&mut self) -> Option<BytesMut> {
        let new = self.read.get(self.scanned..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', new) else {
            self.scanned = self.read.len();
            return None;
        };
        let line = self.read.split_to(self.scanned + end + 1);
        self.scanned = 0;
        Some(line)
    }

    /// The end of a line that exceeds the cap: only the request that it answers gets no answer.
    fn skipped(&self, mut outline: Outline, rest: &[u8]) -> ExchangeEvent {
        outline.feed(rest);
        self.recorder.line(Direction::Received, b"(too large)");
        if let Some(request_id) = outline.answered_request() {
            let cap = self.cap;
            return ExchangeEvent::ResponseTooLarge { request_id, cap };
        }
        let limit = text::bytes(u64::try_from(self.cap).unwrap_or(u64::MAX));
        let message = format!("skipped: a message exceeds the limit of {limit}");
        ExchangeEvent::message(log_notification("warning", "stdout", &message))
    }

    fn on_line(&mut self, line: &[u8]) -> Option<ExchangeEvent> {
        let line = line.trim_ascii();
        if matches!(line.first(), Some(b'{' | b'[')) {
            let message = self.redactor.message(into_text(line.to_vec()));
            self.recorder.line(Direction::Received, message.as_bytes());
            return Some(ExchangeEvent::message(message));
        }
        if line.is_empty() {
            return None;
        }
        self.recorder.line(Direction::Received, line);
        // Many programs print a banner when they start.
        if self.stray_lines == LOGGED_STRAY_LINES {
            return None;
        }
        self.stray_lines += 1;
        let line = line.get(..LOG_LINE_BYTES).unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        let line = self.redactor.text(&line);
        let message = format!("not a message: {line}");
        let log = log_notification("warning", "stdout", &message);
        Some(ExchangeEvent::message(log))
    }

    /// After the end of stdout: the remaining log lines, then why the process exited.
    async fn finish(&mut self) -> ExchangeEvent {
        self.process.end.notify_one();
        let why = self.process.why().await;
        if let Ok(line) = self.log_lines.try_recv() {
            return ExchangeEvent::message(line);
        }
        ExchangeEvent::Broken { why }
    }
}

async fn exited(reason: &mut watch::Receiver<Option<String>>) {
    // The sender lives until the process has exited.
    let _ = reason.wait_for(Option::is_some).await;
}
