//! Signals as values, and stopping for a while as the shell's job control wants it.

use std::{future::poll_fn, io, task::Poll, time::Duration};

use tokio::signal::unix::{self, SignalKind};

use super::guard::{Guard, is_foreground};

/// Something that the system or the user tells the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: from outside, because in raw mode Ctrl-C is a key.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal is gone.
    HangUp,
    /// SIGQUIT.
    Quit,
    /// Another one that ends a process, by its number.
    Other(u8),
    /// SIGTSTP: from outside, because in raw mode Ctrl-Z is a key.
    Stop,
    /// SIGCONT: after a stop that we may not have asked for, so the terminal is to be taken anew.
    Continue,
}

impl Signal {
    /// Whether the program is to end.
    pub fn ends(self) -> bool {
        !matches!(self, Self::Stop | Self::Continue)
    }
}

/// The signals of this process, caught from the moment this is made. A change of size comes as
/// [`UserInput::Resize`](crate::domain::UserInput::Resize).
#[derive(Debug)]
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
    quit: unix::Signal,
    others: Others,
    stop: unix::Signal,
    resume: unix::Signal,
}

/// The other signals that end a process which does not catch them: timers, limits, power, and those without a meaning.
///
/// Those that report a fault of the process itself (ILL, FPE, SEGV, BUS) are not among them: whoever catches such a signal
/// and goes on meets the same fault again.
#[derive(Debug)]
pub struct Others(Vec<(u8, unix::Signal)>);

/// Their numbers.
pub(super) fn others() -> impl Iterator<Item = i32> {
    use rustix::process::Signal;
    let common = [
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
    // Elsewhere these are ignored or do not exist.
    #[cfg(target_os = "linux")]
    let of_linux = [Signal::IO, Signal::STKFLT, Signal::POWER];
    #[cfg(not(target_os = "linux"))]
    let of_linux: [Signal; 0] = [];
    #[cfg(target_os = "linux")]
    // Those below 34 belong to the C library.
    let real_time = 34..=64;
    #[cfg(not(target_os = "linux"))]
    let real_time = 0..0;
    let named = common.into_iter().chain(of_linux);
    named.map(Signal::as_raw).chain(real_time)
}

impl Others {
    /// Starts to catch them; has to be called within a runtime.
    ///
    /// # Errors
    /// Where the system does not let us listen.
    pub fn catch() -> io::Result<Self> {
        let caught = others().map(|number| {
            let signal = unix::signal(SignalKind::from_raw(number))?;
            Ok((u8::try_from(number).unwrap_or_default(), signal))
        });
        caught.collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next one, and gives its number. Dropping the wait loses nothing.
    pub async fn next(&mut self) -> u8 {
        poll_fn(|cx| {
            let came = |(number, signal): &mut (u8, unix::Signal)| {
                signal.poll_recv(cx).is_ready().then_some(*number)
            };
            self.0
                .iter_mut()
                .find_map(came)
                .map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Signals {
    /// Starts to catch them; has to be called within a runtime.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hang_up: unix::signal(SignalKind::hangup())?,
            quit: unix::signal(SignalKind::quit())?,
            others: Others::catch()?,
            stop: unix::signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
            resume: unix::signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
        })
    }

    /// Waits for the next one. Dropping the wait loses nothing.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            _ = self.hang_up.recv() => Signal::HangUp,
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.quit.recv() => Signal::Quit,
            number = self.others.next() => Signal::Other(number),
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.stop.recv() => Signal::Stop,
            _ = self.resume.recv() => Signal::Continue,
        }
    }
}

/// How long the signals that woke us may take to arrive, and how often it is looked whether the user is back: not every
/// shell wakes what it brings to the front if it thinks it awake.
const LOOK: Duration = Duration::from_millis(200);

/// Gives the terminal back, stops, and takes the terminal again once the user comes back to us. Woken in the background
/// (`bg`) the program goes on without a screen.
///
/// Gives back a signal that ends the program, if one came meanwhile; then the terminal is not taken again. Otherwise the
/// screen has to be cleared and painted.
pub async fn suspend(guard: &Guard, signals: &mut Signals) -> io::Result<Option<Signal>> {
    let ended = stop(guard, signals).await?;
    if ended.is_none() {
        guard.reenter()?;
    }
    Ok(ended)
}

/// As [`suspend`], without taking the terminal again.
pub async fn stop(guard: &Guard, signals: &mut Signals) -> io::Result<Option<Signal>> {
    guard.leave();
    stop_group()?;
    loop {
        match tokio::time::timeout(LOOK, signals.next()).await {
            Ok(signal) if signal.ends() => return Ok(Some(signal)),
            // Taking the terminal in the background would stop us within the call, deaf to SIGTERM; and a signal that
            // comes just before we stop ourselves would be heard only when somebody wakes us.
            _ if !is_foreground(guard.tty()) => {}
            _ => return Ok(None),
        }
    }
}

/// Stops the process group as Ctrl-Z would. Where nobody could wake us (no shell with job control) the system does not
/// stop us.
///
/// To be called on the main thread, where the system delivers the signal before the call ends.
pub fn stop_group() -> io::Result<()> {
    // Not SIGTSTP, which we catch so that whoever sends it finds the terminal given back.
    Ok(rustix::process::kill_current_process_group(
        rustix::process::Signal::TTOU,
    )?)
}
