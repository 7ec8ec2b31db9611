//! Unix signals as values, and suspending for the shell's job control.

use std::{future::poll_fn, io, task::Poll, time::Duration};

use tokio::signal::unix::{self, SignalKind};

use super::guard::{self, Guard, is_foreground};
use crate::term::interruptible::ending_signals;

/// A signal that longhaul handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, from another process: in raw mode Ctrl-C is a key.
    Interrupt,
    /// Another signal that ends the process, by its number.
    Ending(u8),
    /// SIGTSTP, from another process: in raw mode Ctrl-Z is a key.
    Stop,
    /// SIGCONT. The stop may not have been ours, so the terminal must be taken over again.
    Continue,
}

impl Signal {
    /// Whether the signal ends the process.
    pub fn is_fatal(self) -> bool {
        !matches!(self, Self::Stop | Self::Continue)
    }
}

/// Catches the signals of this process. SIGWINCH is not among them: it becomes
/// [`UserInput::Resize`](crate::domain::UserInput::Resize).
#[derive(Debug)]
pub struct Signals {
    interrupt: unix::Signal,
    ending: EndingSignals,
    stop: unix::Signal,
    resume: unix::Signal,
}

/// The signals other than SIGINT whose default action ends the process: SIGHUP, SIGTERM, SIGQUIT, timers, limits, power, and
/// user-defined ones.
///
/// It excludes signals that report a fault (ILL, FPE, SEGV, BUS), because returning from their handler repeats the fault.
#[derive(Debug)]
pub struct EndingSignals(Vec<(u8, unix::Signal)>);

impl EndingSignals {
    /// Starts to catch them. Requires a tokio runtime.
    ///
    /// # Errors
    /// The signal handlers can't be registered.
    pub fn catch() -> io::Result<Self> {
        let caught = ending_signals().map(|number| {
            let signal = unix::signal(SignalKind::from_raw(number))?;
            Ok((u8::try_from(number).unwrap_or_default(), signal))
        });
        caught.collect::<io::Result<_>>().map(Self)
    }

    /// The number of the next signal. Cancel safe.
    pub async fn next(&mut self) -> u8 {
        poll_fn(|cx| {
            let received = |(number, signal): &mut (u8, unix::Signal)| {
                signal.poll_recv(cx).is_ready().then_some(*number)
            };
            self.0
                .iter_mut()
                .find_map(received)
                .map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Signals {
    /// Starts to catch them. Requires a tokio runtime.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            ending: EndingSignals::catch()?,
            stop: unix::signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            resume: unix::signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    /// The next signal. Cancel safe.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            number = self.ending.next() => Signal::Ending(number),
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.stop.recv() => Signal::Stop,
            _ = self.resume.recv() => Signal::Continue,
        }
    }
}

/// How often to check whether we are in the foreground again. Some shells send no SIGCONT to a job that they believe is
/// running. Also how long to wait for the signals that woke us.
const FOREGROUND_POLL: Duration = Duration::from_millis(200);

/// Restores the terminal, stops the process, and takes over the terminal again when the user returns. If resumed in the
/// background (`bg`), the program continues without a screen.
///
/// Returns a signal that ends the program, if one arrived meanwhile; the terminal is not taken over then. Otherwise the
/// caller must clear and redraw the screen.
pub async fn suspend(guard: &Guard, signals: &mut Signals) -> io::Result<Option<Signal>> {
    let ended = stop(guard, signals).await?;
    if ended.is_none() {
        guard.reenter()?;
    }
    Ok(ended)
}

/// As [`suspend`], without taking over the terminal again.
pub async fn stop(guard: &Guard, signals: &mut Signals) -> io::Result<Option<Signal>> {
    guard::leave();
    stop_group()?;
    loop {
        match tokio::time::timeout(FOREGROUND_POLL, signals.next()).await {
            Ok(signal) if signal.is_fatal() => return Ok(Some(signal)),
            // Taking over the terminal in the background would stop us inside the call, where SIGTERM isn't handled. And a
            // signal that arrives just before we stop would be handled only after the next resume.
            _ if !is_foreground(&guard.tty) => {}
            _ => return Ok(None),
        }
    }
}

/// Stops the process group as Ctrl-Z would. Without a shell that has job control, the system ignores this.
///
/// Call it on the main thread, where the signal is delivered before the call returns.
pub fn stop_group() -> io::Result<()> {
    // Not SIGTSTP, which we catch in order to restore the terminal first.
    Ok(rustix::process::kill_current_process_group(
        rustix::process::Signal::TTOU,
    )?)
}
