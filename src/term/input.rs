//! What the user does at the terminal, as values of ours.
//!
//! Read in a thread of its own; what the bytes mean is said by `keys`.

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
    guard::{Wait, wait_for_bytes},
    keys::Keys,
};
use crate::domain::UserInput;

/// Inputs on their way to the shell; more wait in the terminal.
const QUEUE: usize = 64;
/// Bytes read at once; a terminal gives no more.
const CHUNK: usize = 4096;

/// The inputs of one terminal. Dropping it ends its thread.
#[derive(Debug)]
pub struct InputStream {
    tty: Arc<OwnedFd>,
    inputs: mpsc::Receiver<UserInput>,
    resized: unix::Signal,
    /// Closed with this value, which the thread sees.
    _stop: PipeWriter,
}

impl InputStream {
    /// Starts to read the terminal; has to be called within a runtime, and once at a time. The thread calls `each_time`
    /// before it reads.
    pub fn open(tty: Arc<OwnedFd>, each_time: impl Fn() + Send + 'static) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let (sender, inputs) = mpsc::channel(QUEUE);
        let resized = unix::signal(SignalKind::window_change())?;
        let stdin = io::stdin();
        // The terminal of the picture may have been opened for writing only.
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

    /// Waits for the next input; `None` once the terminal has hung up. Dropping the wait loses nothing.
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

    /// Everything that has come by now, without waiting, at most `limit`.
    pub fn drain(&mut self, limit: usize) -> Vec<UserInput> {
        std::iter::from_fn(|| self.inputs.try_recv().ok())
            .take(limit)
            .collect()
    }
}

/// The largest part of a terminal that is drawn on, in columns and rows. Any program can set a terminal to 65,535 x 65,535,
/// and a picture of that takes hundreds of gigabytes.
const LARGEST: (u16, u16) = (1000, 500);

/// Columns and rows of a terminal, as far as they are drawn on; 80 by 24 where it does not say.
pub fn size(tty: impl AsFd) -> (u16, u16) {
    match rustix::termios::tcgetwinsize(tty) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
            (size.ws_col.min(LARGEST.0), size.ws_row.min(LARGEST.1))
        }
        _ => (80, 24),
    }
}

/// Reads until the terminal or the stream is gone.
fn read(
    tty: &OwnedFd,
    stopped: &PipeReader,
    sender: &mpsc::Sender<UserInput>,
    each_time: impl Fn(),
) {
    let mut keys = Keys::default();
    let mut chunk = [0; CHUNK];
    loop {
        let waited = wait_for_bytes(tty, stopped, keys.patience());
        each_time();
        let inputs = match waited {
            Wait::Bytes => match rustix::io::read(tty, &mut chunk) {
                // An end of file is Ctrl-D while the terminal is lent out; a hang-up is told by the wait.
                Ok(count) => keys.take(chunk.get(..count).unwrap_or_default()),
                // Another program of this terminal may have read it, or switched it to non-blocking.
                Err(Errno::INTR | Errno::AGAIN) => Vec::new(),
                Err(error) => {
                    tracing::warn!(%error, "could not read the terminal");
                    return;
                }
            },
            Wait::Late => keys.give_up().into_iter().collect(),
            Wait::End => return,
        };
        for input in inputs {
            if sender.blocking_send(input).is_err() {
                return;
            }
        }
    }
}
