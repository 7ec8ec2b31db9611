//! Stdout and stderr, whose reader may stand still for hours: a pager nobody scrolls, a terminal stopped by Ctrl-S.
//!
//! Must not know what is written. Invariant: whoever was told to end is not held up by a reader.

use std::{
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::signals::others;

/// How often a write that nobody takes looks whether we are to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often it looks before Ctrl-C ends it: a reader that is only slow loses nothing by it.
const LOOKS_ONCE_INTERRUPTED: u32 = 10;
/// What a pipe that is ready takes without making anybody wait (`PIPE_BUF` of Linux and of the others).
const AT_ONCE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// What was heard so far.
#[derive(Debug, Default)]
struct Heard {
    /// A signal that leaves no choice.
    is_to_end: Arc<AtomicBool>,
    is_interrupted: Arc<AtomicBool>,
}

static HEARD: OnceLock<Heard> = OnceLock::new();

/// From now on a signal that is to end us ends a write that nobody takes, too.
///
/// # Errors
///
/// Where the system does not let us listen.
pub fn end_writes_on_signals() -> io::Result<()> {
    let mut is_listening = true;
    let heard = HEARD.get_or_init(|| {
        is_listening = false;
        Heard::default()
    });
    if !is_listening {
        for signal in [SIGTERM, SIGHUP, SIGQUIT].into_iter().chain(others()) {
            signal_hook::flag::register(signal, Arc::clone(&heard.is_to_end))?;
        }
        signal_hook::flag::register(SIGINT, Arc::clone(&heard.is_interrupted))?;
    }
    Ok(())
}

/// Whether a signal that leaves no choice has come.
fn is_to_end() -> bool {
    HEARD
        .get()
        .is_some_and(|heard| heard.is_to_end.load(Ordering::Relaxed))
}

/// Whether SIGINT has come; as a key it comes only where the terminal is not raw.
fn is_interrupted() -> bool {
    HEARD
        .get()
        .is_some_and(|heard| heard.is_interrupted.load(Ordering::Relaxed))
}

/// Whether any signal that ends a screen has come.
pub(super) fn is_signalled() -> bool {
    is_to_end() || is_interrupted()
}

/// A writer that can be given up while its reader stands still; see [`end_writes_on_signals`].
#[derive(Debug)]
pub struct Patient<W> {
    to: W,
    /// Its reader stood still for so long that a write was given up.
    is_stuck: bool,
}

impl<W> Patient<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> Self {
        let is_stuck = false;
        Self { to, is_stuck }
    }
}

impl<W: Write + AsFd> Write for Patient<W> {
    /// [`io::ErrorKind::TimedOut`] once we are to end and nobody takes anything.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut looks = 0;
        loop {
            let is_to_end = is_to_end();
            // Who has waited in vain once does not wait for every line.
            let wait = if is_to_end || self.is_stuck {
                Duration::ZERO
            } else {
                LOOK_EVERY
            };
            if is_ready(self.to.as_fd(), wait)? {
                break;
            }
            looks += u32::from(is_interrupted());
            if is_to_end || self.is_stuck || looks >= LOOKS_ONCE_INTERRUPTED {
                self.is_stuck = true;
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.is_stuck = false;
        let part = bytes.get(..AT_ONCE).unwrap_or(bytes);
        let written = self.to.write(part)?;
        self.to.flush()?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Each write has done so, when there was room.
        Ok(())
    }
}

/// Whether a write would be taken, or fail, within such a time.
fn is_ready(fd: BorrowedFd<'_>, wait: Duration) -> io::Result<bool> {
    let wait = Timespec::try_from(wait).unwrap_or_default();
    match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
