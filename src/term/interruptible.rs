//! A writer for stdout and stderr, whose reader may block for hours: a pager, or a terminal stopped by Ctrl-S.
//!
//! Must not know what is written. Invariant: a blocked reader does not keep the process from exiting on a signal.

use std::{
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGINT;

/// How often a blocked write checks for signals.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Checks after Ctrl-C before a blocked write is given up, so that a slow reader loses nothing.
const CHECKS_AFTER_INTERRUPT: u32 = 10;

/// Bytes that a writable pipe accepts without blocking (`PIPE_BUF` on Linux and elsewhere).
const NON_BLOCKING_BYTES: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// The signals received so far.
#[derive(Debug, Default)]
struct SignalFlags {
    /// Whether the handlers that set the others are registered.
    are_registered: AtomicBool,
    /// Any signal other than SIGINT that ends the process.
    must_exit: Arc<AtomicBool>,
    is_interrupted: Arc<AtomicBool>,
}

static FLAGS: LazyLock<SignalFlags> = LazyLock::new(SignalFlags::default);

/// From now on, a signal that ends the process also ends a blocked write.
///
/// # Errors
///
/// The signal handlers can't be registered.
pub fn end_writes_on_signals() -> io::Result<()> {
    if !FLAGS.are_registered.swap(true, Ordering::Relaxed) {
        for signal in ending_signals() {
            signal_hook::flag::register(signal, Arc::clone(&FLAGS.must_exit))?;
        }
        signal_hook::flag::register(SIGINT, Arc::clone(&FLAGS.is_interrupted))?;
    }
    Ok(())
}

/// Whether a signal other than SIGINT told the process to exit.
fn must_exit() -> bool {
    FLAGS.must_exit.load(Ordering::Relaxed)
}

/// Whether SIGINT has been received. In raw mode Ctrl-C is a key and sends no signal.
fn is_interrupted() -> bool {
    FLAGS.is_interrupted.load(Ordering::Relaxed)
}

/// Whether any signal that ends the process has been received.
pub(super) fn is_signalled() -> bool {
    must_exit() || is_interrupted()
}

/// A writer whose blocked writes end on a signal; see [`end_writes_on_signals`].
#[derive(Debug)]
pub struct InterruptibleWriter<W> {
    to: W,
    /// Whether the last write was given up.
    is_stuck: bool,
}

impl<W> InterruptibleWriter<W> {
    /// Wraps `to`.
    pub fn new(to: W) -> Self {
        let is_stuck = false;
        Self { to, is_stuck }
    }
}

impl<W: Write + AsFd> Write for InterruptibleWriter<W> {
    /// [`io::ErrorKind::TimedOut`] if the reader is blocked after a signal.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut checks = 0;
        loop {
            let must_exit = must_exit();
            // After one timeout, don't wait for every line.
            let wait = if must_exit || self.is_stuck {
                Duration::ZERO
            } else {
                SIGNAL_CHECK_INTERVAL
            };
            if is_ready(self.to.as_fd(), wait)? {
                break;
            }
            checks += u32::from(is_interrupted());
            if must_exit || self.is_stuck || checks >= CHECKS_AFTER_INTERRUPT {
                self.is_stuck = true;
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        self.is_stuck = false;
        let part = bytes.get(..NON_BLOCKING_BYTES).unwrap_or(bytes);
        let written = self.to.write(part)?;
        self.to.flush()?;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Every write flushes.
        Ok(())
    }
}

/// Waits until a write would succeed or fail without blocking; false after `wait`.
fn is_ready(fd: BorrowedFd<'_>, wait: Duration) -> io::Result<bool> {
    let wait = Timespec::try_from(wait).unwrap_or_default();
    match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The signal numbers of [`EndingSignals`](super::signals::EndingSignals).
pub(super) fn ending_signals() -> impl Iterator<Item = i32> {
    use rustix::process::Signal;
    let common = [
        Signal::HUP,
        Signal::TERM,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::XCPU,
        Signal::VTALARM,
        Signal::PROF,
        Signal::TRAP,
        Signal::ABORT,
        Signal::SYS,
    ];
    // On other systems these are ignored by default or don't exist.
    #[cfg(target_os = "linux")]
    let of_linux = [Signal::IO, Signal::STKFLT, Signal::POWER];
    #[cfg(not(target_os = "linux"))]
    let of_linux: [Signal; 0] = [];
    #[cfg(target_os = "linux")]
    // glibc reserves 32 and 33.
    let real_time = 34..=64;
    #[cfg(not(target_os = "linux"))]
    let real_time = 0..0;
    let named = common.into_iter().chain(of_linux);
    named.map(Signal::as_raw).chain(real_time)
}
