//! Reads the terminal's input on a thread of its own; `keys` decodes the bytes.

use std::{
    io::{self, IsTerminal as _, PipeReader, PipeWriter},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use rustix::io::Errno;
use tokio::{
    signal::unix::{self, SignalKind},
    sync::mpsc,
};

use super::{
    guard::{Readiness, wait_for_bytes},
    keys::KeyDecoder,
};
use crate::domain::UserInput;

/// Inputs queued for the shell; further ones wait in the terminal.
const QUEUED_INPUTS: usize = 64;
/// Bytes read at once, which is as much as a terminal buffers.
const READ_BYTES: usize = 4096;

/// The inputs of a terminal. Dropping it ends its thread.
#[derive(Debug)]
pub struct InputStream {
    tty: Arc<OwnedFd>,
    inputs: mpsc::Receiver<UserInput>,
    resized: unix::Signal,
    /// Dropping it ends the thread, which polls the other end.
    _stop: PipeWriter,
}

impl InputStream {
    /// Starts to read the terminal. Requires a tokio runtime; only one may exist at a time. The thread calls `each_time`
    /// after each wait, before it reads.
    pub fn open(tty: Arc<OwnedFd>, each_time: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let (sender, inputs) = mpsc::channel(QUEUED_INPUTS);
        let resized = unix::signal(SignalKind::window_change())?;
        let stdin = io::stdin();
        // The output terminal may have been opened for writing only.
        let keyboard = if stdin.is_terminal() {
            stdin.as_fd().try_clone_to_owned()?
        } else {
            tty.try_clone()?
        };
        std::thread::Builder::new()
            .name("terminal input".into())
            .spawn(move || read(&keyboard, &stopped, &sender, each_time))?;
        Ok(Self {
            tty,
            inputs,
            resized,
            _stop: stop,
        })
    }

    /// The next input; `None` once the terminal has hung up. Cancel safe.
    pub async fn next(&mut self) -> Option<UserInput> {
        tokio::select! {
            biased;
            input = self.inputs.recv() => input,
            _ = self.resized.recv() => {
                let (columns, rows) = size(self.tty.as_fd());
                Some(UserInput::Resize(columns, rows))
            }
        }
    }

    /// All inputs received so far, at most `limit`, without waiting.
    pub fn drain(&mut self, limit: usize) -> Vec<UserInput> {
        std::iter::from_fn(|| self.inputs.try_recv().ok())
            .take(limit)
            .collect()
    }
}

/// The largest area that is drawn, in columns and rows. Any program can set a terminal's size to 65,535 x 65,535, and a
/// frame of that size would take hundreds of gigabytes.
const MAX_SIZE: (u16, u16) = (1000, 500);

/// Columns and rows of a terminal, limited to `MAX_SIZE`; 80 by 24 if unknown.
pub fn size(tty: impl AsFd) -> (u16, u16) {
    match rustix::termios::tcgetwinsize(tty) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (size.ws_col.min(MAX_SIZE.0), size.ws_row.min(MAX_SIZE.1))
        }
        _ => (80, 24),
    }
}

/// Reads until the terminal hangs up or the stream is dropped.
fn read(
    tty: &OwnedFd,
    stopped: &PipeReader,
    sender: &mpsc::Sender<UserInput>,
    each_time: impl Fn(),
) {
    let mut keys = KeyDecoder::default();
    let mut chunk = [0; READ_BYTES];
    loop {
        let readiness = wait_for_bytes(tty, stopped, keys.timeout());
        each_time();
        let inputs = match readiness {
            Readiness::Ready => match rustix::io::read(tty, &mut chunk) {
                // 0 bytes are Ctrl-D while the terminal is not raw; a hang-up is detected by the wait.
                Ok(count) => keys.take(chunk.get(..count).unwrap_or_default()),
                // Another program on this terminal may have read the input, or set it to non-blocking.
                Err(Errno::INTR | Errno::AGAIN) => Vec::new(),
                Err(error) => {
                    tracing::warn!(%error, "could not read the terminal");
                    return;
                }
            },
            Readiness::TimedOut => keys.flush().into_iter().collect(),
            Readiness::Closed => return,
        };
        for input in inputs {
            if sender.blocking_send(input).is_err() {
                return;
            }
        }
    }
}
