//! Taking the terminal and giving it back: once, whole, and from wherever the program ends.
//!
//! What has to be undone is kept in statics, because a panic hook and a signal have nothing else to reach it by.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt::Write as _,
    io::{self, Write as _},
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    io::Errno,
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr},
};
use tokio::sync::Notify;

use super::{
    osc::Between,
    patient::{end_writes_on_signals, is_signalled},
};
use crate::domain::text;

/// Save the title, alternate screen, hide the cursor, bracketed paste, focus events.
const ENTER: &str = "\u{1b}[22;2t\u{1b}[?1049h\u{1b}[?25l\u{1b}[?2004h\u{1b}[?1004h";
/// End a frame that may be half written; then the reverse of [`ENTER`], with plain attributes in between.
const LEAVE: &str =
    "\u{1b}[?2026l\u{1b}[?1004l\u{1b}[?2004l\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l\u{1b}[23;2t";
/// Reports of presses and the wheel, in numbers of any size (SGR); only where the user wants it, because the terminal then
/// no longer marks text.
const MOUSE: &str = "\u{1b}[?1000h\u{1b}[?1006h";
const NO_MOUSE: &str = "\u{1b}[?1006l\u{1b}[?1000l";
/// Takes the overall progress off the taskbar: nothing, by itself, or through tmux. Sent only if one was shown, in the same
/// way: elsewhere it would pop up as a message.
const CLEAR_PROGRESS: [&str; 3] = [
    "",
    "\u{1b}]9;4;0;0\u{1b}\\",
    "\u{1b}Ptmux;\u{1b}\u{1b}]9;4;0;0\u{1b}\u{1b}\\\u{1b}\\",
];

/// How long leaving waits for a frame that is being written, or for a terminal that takes no bytes, in milliseconds.
const PATIENCE_MS: u64 = 100;

/// How long others may take to read what was typed for them, before we look again.
const LET_OTHERS_READ: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// The terminal as it was found.
struct Found {
    tty: Arc<OwnedFd>,
    writer: Arc<OwnedFd>,
    modes: Termios,
}

/// Set with every enter. Held only to look or to put, never while writing.
static FOUND: Mutex<Option<Found>> = Mutex::new(None);
/// Whether the terminal is ours at the moment; whoever turns it off gives the terminal back.
static IS_OURS: AtomicBool = AtomicBool::new(false);
/// Held while a frame is written.
static PEN: Mutex<()> = Mutex::new(());
/// Whether the terminal reports the mouse while it is ours.
static HAS_MOUSE: AtomicBool = AtomicBool::new(false);
/// A place in [`CLEAR_PROGRESS`].
static PROGRESS_SHOWN: AtomicUsize = AtomicUsize::new(0);
static IS_OVER: AtomicBool = AtomicBool::new(false);
static OVER: Notify = Notify::const_new();

/// Holds the terminal; dropping it gives the terminal back.
#[derive(Debug)]
pub struct Guard {
    tty: Arc<OwnedFd>,
    writer: Arc<OwnedFd>,
}

impl Guard {
    /// Takes the terminal behind `out`: raw mode, alternate screen, no cursor, bracketed paste, focus events.
    ///
    /// Fails if `out` is no terminal, or if the terminal is taken already. After a failure it is as before.
    pub fn enter(out: impl AsFd) -> io::Result<Self> {
        end_writes_on_signals()?;
        let tty = Arc::new(out.as_fd().try_clone_to_owned()?);
        let writer = open_writer(&tty);
        enter(&tty, &writer)?;
        Ok(Self { tty, writer })
    }

    /// Takes the terminal again after [`leave`], or after something else may have changed its modes.
    ///
    /// The screen has to be cleared and painted anew.
    pub fn reenter(&self) -> io::Result<()> {
        leave();
        enter(&self.tty, &self.writer)
    }

    /// Gives the terminal back for a while; nothing can be painted until [`Guard::reenter`].
    pub fn leave(&self) {
        leave();
    }

    /// Lets the terminal report the mouse from now on, or no longer; it holds whenever the terminal is taken again.
    pub fn report_mouse(&self, is_on: bool) -> io::Result<()> {
        // Before the bytes, so that whoever leaves in between takes back what may have been sent.
        let was_on = HAS_MOUSE.swap(is_on, Ordering::SeqCst);
        match (was_on, is_on) {
            (false, true) => write_frame(MOUSE.as_bytes()),
            (true, false) => write_frame(NO_MOUSE.as_bytes()),
            _ => Ok(()),
        }
    }

    /// The terminal.
    pub fn tty(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.tty)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        leave();
    }
}

/// A panic elsewhere must not keep the terminal from being given back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The terminal, opened once more so that a write does not hold us up while nobody reads there; what we were started with
/// may be shared, and others would be surprised.
fn open_writer(tty: &Arc<OwnedFd>) -> Arc<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::termios::ttyname(tty, Vec::new())
        .and_then(|path| rustix::fs::open(path, flags, Mode::empty()));
    opened.map_or_else(|_| Arc::clone(tty), Arc::new)
}

fn enter(tty: &Arc<OwnedFd>, writer: &Arc<OwnedFd>) -> io::Result<()> {
    if IS_OURS.load(Ordering::SeqCst) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "the terminal is taken already",
        ));
    }
    // Read anew each time: while we were suspended the user may have changed them.
    let modes = retry(|| tcgetattr(tty.as_fd()))?;
    let mut raw = modes.clone();
    raw.make_raw();
    *lock(&FOUND) = Some(Found {
        tty: Arc::clone(tty),
        writer: Arc::clone(writer),
        modes,
    });
    // From here on a panic gives back what was found.
    IS_OURS.store(true, Ordering::SeqCst);
    let taken = retry(|| tcsetattr(tty.as_fd(), OptionalActions::Now, &raw))
        .map_err(io::Error::from)
        .and_then(|()| write_frame(ENTER.as_bytes()))
        .and_then(|()| {
            let is_on = HAS_MOUSE.load(Ordering::SeqCst);
            write_frame(if is_on { MOUSE.as_bytes() } else { b"" })
        });
    if taken.is_err() {
        leave();
    }
    taken
}

/// Gives the terminal back if it is ours; may be called from any thread, any number of times.
///
/// A terminal that has hung up takes nothing back, and that is no error here.
pub fn leave() {
    if !IS_OURS.swap(false, Ordering::SeqCst) {
        return;
    }
    // Let a frame end that another thread writes. If it is stuck, or is ours, go on without it.
    let mut waited = 0;
    let pen = loop {
        match PEN.try_lock() {
            Ok(pen) => break Some(pen),
            Err(std::sync::TryLockError::Poisoned(pen)) => break Some(pen.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) if waited >= PATIENCE_MS => break None,
            Err(std::sync::TryLockError::WouldBlock) => {
                std::thread::park_timeout(Duration::from_millis(1));
                waited += 1;
            }
        }
    };
    let Some(found) = lock(&FOUND).take() else {
        return;
    };
    let tty = found.tty.as_fd();
    let mut bytes = String::new();
    let shown = PROGRESS_SHOWN.swap(0, Ordering::SeqCst);
    bytes.push_str(CLEAR_PROGRESS.get(shown).unwrap_or(&""));
    if HAS_MOUSE.load(Ordering::SeqCst) {
        bytes.push_str(NO_MOUSE);
    }
    bytes.push_str(LEAVE);
    // Nobody can be told of a failure, and the modes are put back whatever became of the bytes.
    if takes_bytes(tty, Duration::from_millis(PATIENCE_MS)) {
        let _ = write_all(&found.writer, bytes.as_bytes());
    }
    // In the background the modes are those of whoever is in front, and setting them would stop us here for good.
    if is_foreground(tty) {
        let _ = retry(|| tcsetattr(tty, OptionalActions::Now, &found.modes));
    }
    drop(pen);
}

/// Writes bytes to the terminal while it is ours, in as few writes as the terminal allows.
///
/// Fails if the terminal was given back, or is gone: then the loop is over.
pub(super) fn write_frame(bytes: &[u8]) -> io::Result<()> {
    let pen = lock(&PEN);
    if !IS_OURS.load(Ordering::SeqCst) {
        return Err(io::Error::new(
            io::ErrorKind::NotConnected,
            "the terminal was given back",
        ));
    }
    let found = lock(&FOUND);
    let Some(writer) = found.as_ref().map(|found| Arc::clone(&found.writer)) else {
        return Err(io::ErrorKind::NotConnected.into());
    };
    drop(found);
    let written = write_all(&writer, bytes);
    drop(pen);
    written
}

/// Notes whether the taskbar shows a progress, and who stood in between, so that leaving takes it away.
pub(super) fn note_progress(shown: Option<Between>) {
    let place = match shown {
        None => 0,
        Some(Between::Nobody) => 1,
        Some(Between::Tmux { .. }) => 2,
    };
    PROGRESS_SHOWN.store(place, Ordering::SeqCst);
}

fn write_all(tty: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&tty, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Nobody reads there now.
            Err(Errno::AGAIN) if is_signalled() => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::AGAIN) => {
                takes_bytes(&tty, Duration::from_millis(PATIENCE_MS));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until the terminal takes bytes; false if it does not in time, or has hung up.
fn takes_bytes(tty: impl AsFd, wait: Duration) -> bool {
    let wait = Timespec::try_from(wait).unwrap_or_default();
    let mut fds = [PollFd::new(&tty, PollFlags::OUT)];
    let ready = retry(|| poll(&mut fds, Some(&wait)));
    let [tty] = fds;
    ready.is_ok() && tty.revents().contains(PollFlags::OUT) && !is_end(tty.revents())
}

/// Whether the terminal listens to our process group; where it cannot say, the next call on it will.
pub(super) fn is_foreground(tty: impl AsFd) -> bool {
    !tcgetpgrp(tty).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// Whether poll says that nothing will ever come again.
fn is_end(events: PollFlags) -> bool {
    events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// How a wait for bytes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// There is something for us to read.
    Bytes,
    /// Nothing came in time.
    Late,
    /// Nothing will come any more, or nobody wants it.
    End,
}

/// Waits until there is something for us to read, the time is over, the terminal hangs up, or `stop` is closed at its
/// other end.
pub(super) fn wait_for_bytes(tty: impl AsFd, stop: impl AsFd, patience: Option<Duration>) -> Wait {
    let tty = tty.as_fd();
    let patience = patience.map(|time| Timespec::try_from(time).unwrap_or_default());
    loop {
        let mut fds = [
            PollFd::new(&tty, PollFlags::IN),
            PollFd::new(&stop, PollFlags::empty()),
        ];
        let asked = retry(|| poll(&mut fds, patience.as_ref()));
        let [of_tty, of_stop] = fds.map(|fd| fd.revents());
        // After a hang-up the terminal is readable without end, and there is nothing in it.
        if asked.is_err() || is_end(of_tty) || is_end(of_stop) {
            return Wait::End;
        }
        if of_tty.is_empty() {
            return Wait::Late;
        }
        if is_foreground(tty) {
            return Wait::Bytes;
        }
        // Typed for whoever is in front; reading it would stop us.
        let _ = poll(
            &mut [PollFd::new(&stop, PollFlags::empty())],
            Some(&LET_OTHERS_READ),
        );
    }
}

/// Signals, SIGCONT among them, interrupt calls that are simply to be made again.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Makes every panic, in whatever thread, give the terminal back first, then report, then end the loop.
///
/// To be called once, at the start. The report is our own: a panic may quote what a server sent, which the one of the
/// standard library would hand to the terminal as it is.
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
        // A terminal that is gone has nobody to tell.
        let _ = writeln!(io::stderr().lock(), "{}", text::clean_block(&report));
        IS_OVER.store(true, Ordering::SeqCst);
        OVER.notify_waiters();
    }));
}

/// Whether a panic ended the program; the shell saves what it can and leaves with code 70.
pub fn is_over() -> bool {
    IS_OVER.load(Ordering::SeqCst)
}

/// Waits for [`is_over`].
pub async fn over() {
    loop {
        // Before looking, so that a panic in between is not missed.
        let notified = OVER.notified();
        if is_over() {
            return;
        }
        notified.await;
    }
}
