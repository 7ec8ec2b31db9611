//! Takes over the terminal and restores it exactly once, wherever the program ends.
//!
//! The state to restore is in statics, because a panic hook can't reach anything else.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt::Write as _,
    io::{self, Write as _},
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    io::{Errno, retry_on_intr},
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};
use tokio::sync::Notify;

use super::{
    interruptible::{end_writes_on_signals, is_signalled},
    osc::Multiplexer,
};
use crate::domain::{locked, text};

/// Saves the title, enters the alternate screen, hides the cursor, enables bracketed paste and focus events.
const ENTER: &str = "\u{1b}[22;2t\u{1b}[?1049h\u{1b}[?25l\u{1b}[?2004h\u{1b}[?1004h";
/// Ends a frame that may be half written, then reverses [`ENTER`] and resets attributes.
const LEAVE: &str =
    "\u{1b}[?2026l\u{1b}[?1004l\u{1b}[?2004l\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l\u{1b}[23;2t";
/// Clears the taskbar progress: none was shown, directly, or through tmux. Sent only if it was set in the same way, because
/// a terminal that doesn't know the sequence may show it as a notification.
const CLEAR_PROGRESS: [&str; 3] = [
    "",
    "\u{1b}]9;4;0;0\u{1b}\\",
    "\u{1b}Ptmux;\u{1b}\u{1b}]9;4;0;0\u{1b}\u{1b}\\\u{1b}\\",
];

/// How long leaving waits for a frame that is being written, or for a blocked terminal.
const LEAVE_TIMEOUT_MS: u64 = 100;

/// How often to check, in the background, whether we are in the foreground again.
const BACKGROUND_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// The terminal and its original modes.
struct SavedTerminal {
    tty: Arc<OwnedFd>,
    writer: Arc<OwnedFd>,
    modes: Termios,
}

/// Set by each [`enter`]. Locked only to read or replace it, never while writing.
static SAVED: Mutex<Option<SavedTerminal>> = Mutex::new(None);
/// Whether the terminal is in our modes. The caller that sets it to false restores the terminal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);
/// Locked while a frame is written.
static WRITE_LOCK: Mutex<()> = Mutex::new(());
/// An index into [`CLEAR_PROGRESS`].
static PROGRESS_SHOWN: AtomicUsize = AtomicUsize::new(0);
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
static PANICKED: Notify = Notify::const_new();

/// Holds the terminal; dropping it restores the terminal.
#[derive(Debug)]
pub struct Guard {
    /// The terminal's file descriptor.
    pub tty: Arc<OwnedFd>,
    writer: Arc<OwnedFd>,
}

impl Guard {
    /// Takes over the terminal behind `out`: raw mode, alternate screen, no cursor, bracketed paste, focus events.
    ///
    /// Fails if `out` is not a terminal, or if the terminal is already taken. After a failure the terminal is unchanged.
    pub fn enter(out: impl AsFd) -> io::Result<Self> {
        end_writes_on_signals()?;
        let tty = Arc::new(out.as_fd().try_clone_to_owned()?);
        let writer = open_writer(&tty);
        enter(&tty, &writer)?;
        Ok(Self { tty, writer })
    }

    /// Takes over the terminal again after [`leave`], or after another program may have changed its modes.
    ///
    /// The caller must clear and redraw the screen.
    pub fn reenter(&self) -> io::Result<()> {
        leave();
        enter(&self.tty, &self.writer)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        leave();
    }
}

/// Opens the terminal a second time in non-blocking mode. The descriptor that we inherited may be shared with other
/// programs, which don't expect that mode.
fn open_writer(tty: &Arc<OwnedFd>) -> Arc<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::termios::ttyname(tty, Vec::new())
        .and_then(|path| rustix::fs::open(path, flags, Mode::empty()));
    opened.map_or_else(|_| Arc::clone(tty), Arc::new)
}

fn enter(tty: &Arc<OwnedFd>, writer: &Arc<OwnedFd>) -> io::Result<()> {
    if IS_TAKEN.load(Ordering::SeqCst) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the terminal is already in use",
        ));
    }
    // Read each time, because the user may have changed them while we were suspended.
    let modes = retry_on_intr(|| tcgetattr(tty.as_fd()))?;
    let mut raw = modes.clone();
    raw.make_raw();
    *locked(&SAVED) = Some(SavedTerminal {
        tty: Arc::clone(tty),
        writer: Arc::clone(writer),
        modes,
    });
    // From here on a panic restores the terminal.
    IS_TAKEN.store(true, Ordering::SeqCst);
    let taken = retry_on_intr(|| tcsetattr(tty.as_fd(), OptionalActions::Now, &raw))
        .map_err(io::Error::from)
        .and_then(|()| write_frame(ENTER.as_bytes()));
    if taken.is_err() {
        leave();
    }
    taken
}

/// Restores the terminal if it is taken over. May be called from any thread, any number of times.
///
/// Errors are ignored: a terminal that has hung up can't be restored.
pub fn leave() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // Wait for a frame that another thread is writing. Give up if it is stuck, or if this thread is the one writing.
    let mut waited = 0;
    let _write_lock = loop {
        match WRITE_LOCK.try_lock() {
            Ok(write_lock) => break Some(write_lock),
            Err(std::sync::TryLockError::Poisoned(write_lock)) => {
                break Some(write_lock.into_inner());
            }
            Err(std::sync::TryLockError::WouldBlock) if waited >= LEAVE_TIMEOUT_MS => break None,
            Err(std::sync::TryLockError::WouldBlock) => {
                std::thread::park_timeout(Duration::from_millis(1));
                waited += 1;
            }
        }
    };
    let Some(saved) = locked(&SAVED).take() else {
        return;
    };
    let tty = saved.tty.as_fd();
    let mut bytes = String::new();
    let shown = PROGRESS_SHOWN.swap(0, Ordering::SeqCst);
    bytes.push_str(CLEAR_PROGRESS.get(shown).unwrap_or(&""));
    bytes.push_str(LEAVE);
    // A failure can't be reported, and the modes are restored regardless.
    if wait_writable(tty, Duration::from_millis(LEAVE_TIMEOUT_MS)) {
        let _ = write_all(&saved.writer, bytes.as_bytes());
    }
    // In the background the modes belong to the foreground program, and setting them would stop this process.
    if is_foreground(tty) {
        let _ = retry_on_intr(|| tcsetattr(tty, OptionalActions::Now, &saved.modes));
    }
}

/// Writes bytes to the terminal, in as few writes as it allows.
///
/// Fails if the terminal was restored or has hung up; the screen loop then ends.
pub(super) fn write_frame(bytes: &[u8]) -> io::Result<()> {
    let _write_lock = locked(&WRITE_LOCK);
    if !IS_TAKEN.load(Ordering::SeqCst) {
        return Err(io::Error::new(
            io::ErrorKind::NotConnected,
            "the terminal was released",
        ));
    }
    let saved = locked(&SAVED);
    let Some(writer) = saved.as_ref().map(|saved| Arc::clone(&saved.writer)) else {
        return Err(io::ErrorKind::NotConnected.into());
    };
    drop(saved);
    write_all(&writer, bytes)
}

/// Remembers whether and how taskbar progress is shown, so that leaving clears it.
pub(super) fn note_progress(shown: Option<Multiplexer>) {
    let index = match shown {
        None => 0,
        Some(Multiplexer::None) => 1,
        Some(Multiplexer::Tmux { .. }) => 2,
    };
    PROGRESS_SHOWN.store(index, Ordering::SeqCst);
}

fn write_all(tty: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&tty, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // The terminal is blocked and we are about to exit.
            Err(Errno::AGAIN) if is_signalled() => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::AGAIN) => {
                wait_writable(&tty, Duration::from_millis(LEAVE_TIMEOUT_MS));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until the terminal accepts bytes; false after the timeout or a hang-up.
fn wait_writable(tty: impl AsFd, wait: Duration) -> bool {
    let wait = Timespec::try_from(wait).unwrap_or_default();
    let mut fds = [PollFd::new(&tty, PollFlags::OUT)];
    let ready = retry_on_intr(|| poll(&mut fds, Some(&wait)));
    let [tty] = fds;
    ready.is_ok() && tty.revents().contains(PollFlags::OUT) && !is_hangup(tty.revents())
}

/// Whether our process group is in the foreground of the terminal. True if unknown; the next call on the terminal fails then.
pub(super) fn is_foreground(tty: impl AsFd) -> bool {
    !tcgetpgrp(tty).is_ok_and(|group| group != rustix::process::getpgrp())
}

fn is_hangup(events: PollFlags) -> bool {
    events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// The result of [`wait_for_bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// There are bytes to read.
    Ready,
    TimedOut,
    /// The terminal has hung up, or `stop` was closed.
    Closed,
}

/// Waits for input while we are in the foreground, until `timeout` passes, the terminal hangs up, or the other end of the
/// pipe `stop` is closed.
pub(super) fn wait_for_bytes(
    tty: impl AsFd,
    stop: impl AsFd,
    timeout: Option<Duration>,
) -> Readiness {
    let tty = tty.as_fd();
    let timeout = timeout.map(|time| Timespec::try_from(time).unwrap_or_default());
    loop {
        let mut fds = [
            PollFd::new(&tty, PollFlags::IN),
            PollFd::new(&stop, PollFlags::empty()),
        ];
        let result = retry_on_intr(|| poll(&mut fds, timeout.as_ref()));
        let [of_tty, of_stop] = fds.map(|fd| fd.revents());
        // After a hang-up the terminal is always readable, but has no data.
        if result.is_err() || is_hangup(of_tty) || is_hangup(of_stop) {
            return Readiness::Closed;
        }
        if of_tty.is_empty() {
            return Readiness::TimedOut;
        }
        if is_foreground(tty) {
            return Readiness::Ready;
        }
        // The input is for the foreground program, and reading it would stop this process.
        let _ = poll(
            &mut [PollFd::new(&stop, PollFlags::empty())],
            Some(&BACKGROUND_POLL),
        );
    }
}

/// Makes a panic in any thread restore the terminal, print a report and end the screen loop.
///
/// Call it once, at startup. The report is sanitized: a panic message may quote what a server sent, and the standard
/// library's hook would write it to the terminal unchanged.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(move |panic| {
        leave();
        tracing::error!(%panic, "panic");
        let mut report = format!("longhaul: this is a bug: {panic}");
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            // Writing to a string cannot fail.
            let _ = write!(report, "\n{trace}");
        }
        // Nothing more can be done if stderr is gone.
        let _ = writeln!(io::stderr().lock(), "{}", text::clean_block(&report));
        HAS_PANICKED.store(true, Ordering::SeqCst);
        PANICKED.notify_waiters();
    }));
}

/// Whether any thread has panicked; the shell then saves what it can and exits with code 70.
pub fn has_panicked() -> bool {
    HAS_PANICKED.load(Ordering::SeqCst)
}

/// Waits until [`has_panicked`] is true.
pub async fn panicked() {
    loop {
        // Created before the check, so that a panic in between is not missed.
        let notified = PANICKED.notified();
        if has_panicked() {
            return;
        }
        notified.await;
    }
}
