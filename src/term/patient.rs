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
use signal_hook::consts::{SIGHUP, SIGQUIT, SIGTERM};

/// How often a write that nobody takes looks whether we are to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What a pipe that is ready takes without making anybody wait (`PIPE_BUF` of Linux and of the others).
const AT_ONCE: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// Set once a signal that leaves no choice has come.
static IS_TO_END: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on a signal that leaves no choice ends a write that nobody takes, too.
///
/// # Errors
///
/// Where the system does not let us listen.
pub fn end_writes_on_signals() -> io::Result<()> {
    let mut is_listening = true;
    let flag = IS_TO_END.get_or_init(|| {
        is_listening = false;
        Arc::default()
    });
    if !is_listening {
        for signal in [SIGTERM, SIGHUP, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::clone(flag))?;
        }
    }
    Ok(())
}

/// A writer that can be given up while its reader stands still; see [`end_writes_on_signals`].
#[derive(Debug)]
pub struct Patient<W>(pub W);

impl<W: Write + AsFd> Write for Patient<W> {
    /// Nobody reads any more, as far as who writes is concerned (`BrokenPipe`), once we are to end and nothing is taken.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while !is_ready(self.0.as_fd())? {
            if IS_TO_END.get().is_some_and(|it| it.load(Ordering::Relaxed)) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        let part = bytes.get(..AT_ONCE).unwrap_or(bytes);
        let written = self.0.write(part)?;
        self.0.flush()?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Each write has done so, when there was room.
        Ok(())
    }
}

/// Whether a write would be taken, or fail, at once; waits a little.
fn is_ready(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let every = Timespec::try_from(LOOK_EVERY).unwrap_or_default();
    match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&every)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
