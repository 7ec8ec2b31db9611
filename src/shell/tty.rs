//! The terminal of stdout as the loop uses it.

use std::{
    io::{self, Write as _},
    sync::Arc,
};

use super::{TerminalEvent, TerminalSurface};
use crate::{
    app::{Event, State, TerminalCommand, UserInput},
    domain::{Key, Stamp},
    engine::{PanicIn, panic_if_told},
    term::{
        caps::NotificationSupport,
        guard::{self, Guard},
        input::InputStream,
        osc,
        screen::Screen,
        signals::{self, Signal, Signals},
    },
    ui,
};

/// The terminal of stdout.
pub(super) struct Terminal {
    screen: Screen,
    inputs: InputStream,
    signals: Signals,
    pending: Option<Signal>,
    notifications: NotificationSupport,
    // Last, so that the terminal is restored after everything that draws on it is gone.
    pub(super) guard: Guard,
}

impl Terminal {
    pub(super) fn take(notifications: NotificationSupport) -> io::Result<Self> {
        // First: a signal in between would leave the terminal unrestored.
        let signals = Signals::catch()?;
        let guard = Guard::enter(io::stdout())?;
        let inputs = InputStream::open(Arc::clone(&guard.tty), || panic_if_told(PanicIn::Input))?;
        let mut screen = Screen::new(&guard)?;
        // A killed process may have left its frame there, and only differences are drawn.
        screen.clear()?;
        Ok(Self {
            screen,
            inputs,
            signals,
            pending: None,
            notifications,
            guard,
        })
    }

    pub(super) fn give_back(self) -> Signals {
        self.signals
    }

    /// Shows text on the plain terminal, where the mouse can select it, until Enter or Ctrl-C.
    async fn print(&mut self, text: &str) -> io::Result<()> {
        guard::leave();
        let mut out = io::stdout();
        out.write_all(osc::page(text).as_bytes())?;
        out.flush()?;
        loop {
            tokio::select! {
                biased;
                () = guard::panicked() => return Err(io::ErrorKind::NotConnected.into()),
                signal = self.signals.next() => match signal {
                    Signal::Continue => {}
                    Signal::Stop => {
                        self.pending = signals::stop(&self.guard, &mut self.signals).await?;
                        if self.pending.is_some() {
                            return Ok(());
                        }
                    }
                    // Ctrl-C is a signal in this mode.
                    Signal::Interrupt => break,
                    Signal::Ending(_) => {
                        self.pending = Some(signal);
                        return Ok(());
                    }
                },
                input = self.inputs.next() => match input {
                    Some(UserInput::Key(chord)) if chord.key == Key::Enter => break,
                    Some(_) => {}
                    None => return Err(io::ErrorKind::BrokenPipe.into()),
                },
            }
        }
        self.guard.reenter()?;
        self.screen.clear()
    }
}

impl TerminalSurface for Terminal {
    async fn next(&mut self) -> TerminalEvent {
        let signal = if let Some(signal) = self.pending.take() {
            signal
        } else {
            tokio::select! {
                biased;
                () = guard::panicked() => return TerminalEvent::Panic,
                signal = self.signals.next() => signal,
                input = self.inputs.next() => {
                    return input.map_or(TerminalEvent::HungUp, TerminalEvent::Input);
                }
            }
        };
        match signal {
            Signal::Interrupt => TerminalEvent::Signal(2),
            Signal::Ending(1) => TerminalEvent::HungUp,
            Signal::Ending(number) => TerminalEvent::Signal(number),
            Signal::Stop => TerminalEvent::Stop,
            Signal::Continue => {
                // Another process stopped this one; the terminal's modes may have changed.
                let is_back = self.guard.reenter().and_then(|()| self.screen.clear());
                if is_back.is_err() {
                    TerminalEvent::HungUp
                } else {
                    TerminalEvent::Continued
                }
            }
        }
    }

    fn drain(&mut self, limit: usize) -> Vec<UserInput> {
        self.inputs.drain(limit)
    }

    fn draw(&mut self, state: &State, now: Stamp) -> io::Result<bool> {
        // The program ends, and the terminal was restored for a stop before.
        if self.pending.is_some() {
            return Ok(false);
        }
        self.screen.draw(|frame| ui::view(frame, state, now))
    }

    async fn carry_out(&mut self, command: TerminalCommand) -> io::Result<Option<Event>> {
        match command {
            TerminalCommand::Copy(text) => match osc::copy(&text) {
                Ok(sequence) => self.screen.send(&sequence)?,
                Err(error) => return Ok(Some(Event::Failed(error.to_string()))),
            },
            TerminalCommand::Print(text) => {
                self.print(&text).await?;
                return Ok(Some(Event::Resumed));
            }
            TerminalCommand::Suspend => {
                self.pending = signals::suspend(&self.guard, &mut self.signals).await?;
                if self.pending.is_none() {
                    self.screen.clear()?;
                }
                return Ok(Some(Event::Resumed));
            }
            _ if self.pending.is_some() => {}
            TerminalCommand::Redraw => self.screen.clear()?,
            TerminalCommand::SetTitle(title) => self.screen.send(&osc::title(&title))?,
            TerminalCommand::Bell => self.screen.send(osc::BELL)?,
            TerminalCommand::Notify(words) => {
                let NotificationSupport {
                    desktop,
                    multiplexer,
                    ..
                } = self.notifications;
                let sequence = desktop.and_then(|by| osc::notify(&words, by, multiplexer));
                if let Some(sequence) = sequence {
                    self.screen.send(&sequence)?;
                }
            }
            TerminalCommand::Progress(overall) if self.notifications.has_progress => {
                self.screen
                    .progress(overall, self.notifications.multiplexer)?;
            }
            TerminalCommand::Progress(_) => {}
        }
        Ok(None)
    }
}
