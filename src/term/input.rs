//! What the user does at the terminal, as values of ours.
//!
//! The input library is kept in a thread of its own: inside it waits for the rest of a half-sent sequence, and after a
//! hang-up it spins without end. Neither may happen where the screen is drawn.

use std::{
    io::{self, PipeReader, PipeWriter},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::{
    signal::unix::{self, SignalKind},
    sync::{mpsc, oneshot},
};

use super::guard::{wait_for_bytes, wait_for_hang_up};
use crate::domain::{Chord, Input, Key};

/// Inputs on their way to the shell; more wait in the terminal.
const QUEUE: usize = 64;

/// How long the library is asked whether it has more; asked without waiting, it does not look.
const ASKING: Duration = Duration::from_millis(1);

/// The inputs of one terminal. Dropping it ends its threads.
#[derive(Debug)]
pub struct InputStream {
    tty: Arc<OwnedFd>,
    inputs: mpsc::Receiver<Input>,
    hung_up: oneshot::Receiver<()>,
    resized: unix::Signal,
    /// Closed with this value, which the threads see.
    _stop: PipeWriter,
}

impl InputStream {
    /// Starts to read the terminal; has to be called within a runtime, and once at a time.
    pub fn open(tty: Arc<OwnedFd>) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let stopped = Arc::new(stopped);
        let (sender, inputs) = mpsc::channel(QUEUE);
        let (end, hung_up) = oneshot::channel();
        let resized = unix::signal(SignalKind::window_change())?;
        spawn("input", {
            let (tty, stopped) = (Arc::clone(&tty), Arc::clone(&stopped));
            move || read(&tty, &stopped, &sender)
        })?;
        // A thread of its own, because the one above may be inside the library when the terminal goes.
        spawn("hang-up", {
            let tty = Arc::clone(&tty);
            move || {
                if wait_for_hang_up(tty.as_fd(), stopped.as_fd()) {
                    // The stream may be gone already, then nobody asks.
                    let _ = end.send(());
                }
            }
        })?;
        Ok(Self {
            tty,
            inputs,
            hung_up,
            resized,
            _stop: stop,
        })
    }

    /// Waits for the next input; `None` once the terminal has hung up. Dropping the wait loses nothing.
    pub async fn next(&mut self) -> Option<Input> {
        tokio::select! {
            biased;
            _ = &mut self.hung_up => {
                self.inputs.close();
                None
            }
            input = self.inputs.recv() => input,
            _ = self.resized.recv() => {
                let (columns, rows) = size(self.tty.as_fd());
                Some(Input::Resize(columns, rows))
            }
        }
    }

    /// Everything that has come by now, without waiting, at most `limit`.
    pub fn drain(&mut self, limit: usize) -> Vec<Input> {
        std::iter::from_fn(|| self.inputs.try_recv().ok())
            .take(limit)
            .collect()
    }
}

/// Columns and rows of a terminal; 80 by 24 where it does not say.
pub fn size(tty: impl AsFd) -> (u16, u16) {
    match rustix::termios::tcgetwinsize(tty) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => (80, 24),
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new()
        .name(format!("terminal {name}"))
        .spawn(work)
        .map(drop)
}

/// Reads until the terminal or the stream is gone.
fn read(tty: &OwnedFd, stopped: &PipeReader, sender: &mpsc::Sender<Input>) {
    while wait_for_bytes(tty, stopped) {
        // The library keeps what it read and did not give out yet, so it has to be asked until it has nothing.
        loop {
            match crossterm::event::poll(ASKING) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "could not read the terminal");
                    return;
                }
            }
            match crossterm::event::read() {
                Ok(event) => {
                    if let Some(input) = translate(event)
                        && sender.blocking_send(input).is_err()
                    {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "could not read the terminal");
                    return;
                }
            }
        }
    }
}

/// What an event of the library means to us; `None` for what does not concern us.
fn translate(event: Event) -> Option<Input> {
    match event {
        Event::Key(key) => chord(key).map(Input::Key),
        Event::Paste(text) => Some(Input::Paste(text.replace("\r\n", "\n").replace('\r', "\n"))),
        Event::FocusGained => Some(Input::FocusGained),
        Event::FocusLost => Some(Input::FocusLost),
        // The size comes by the signal itself, at once; the library notices it only with the next key.
        Event::Resize(..) | Event::Mouse(_) => None,
    }
}

fn chord(event: KeyEvent) -> Option<Chord> {
    let held = |modifier| event.modifiers.contains(modifier);
    let is_foreign = event
        .modifiers
        .intersects(KeyModifiers::SUPER | KeyModifiers::HYPER);
    if event.kind == KeyEventKind::Release || is_foreign {
        return None;
    }
    let mut ctrl = held(KeyModifiers::CONTROL);
    let key = match event.code {
        KeyCode::Char(letter) => Key::Char(letter),
        // Ctrl and space is sent as a zero byte.
        KeyCode::Null => {
            ctrl = true;
            Key::Char(' ')
        }
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::F(number) => Key::F(number),
        _ => return None,
    };
    let alt = held(KeyModifiers::ALT) || held(KeyModifiers::META);
    let shift = held(KeyModifiers::SHIFT);
    Some(
        Chord {
            key,
            ctrl,
            alt,
            shift,
        }
        .normal(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Option<String> {
        chord(KeyEvent::new(code, modifiers)).map(|chord| chord.to_string())
    }

    #[test]
    fn keys_become_chords_of_one_form() {
        for (code, modifiers, text) in [
            (KeyCode::Char('j'), KeyModifiers::NONE, "j"),
            (KeyCode::Char('G'), KeyModifiers::SHIFT, "G"),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, "ctrl-c"),
            (KeyCode::Char(' '), KeyModifiers::NONE, "space"),
            (KeyCode::Null, KeyModifiers::NONE, "ctrl-space"),
            (KeyCode::BackTab, KeyModifiers::SHIFT, "backtab"),
            (KeyCode::Up, KeyModifiers::ALT, "alt-up"),
            (KeyCode::F(5), KeyModifiers::SHIFT, "shift-f5"),
        ] {
            assert_eq!(pressed(code, modifiers).as_deref(), Some(text));
        }
        assert_eq!(pressed(KeyCode::Char('l'), KeyModifiers::SUPER), None);
        assert_eq!(pressed(KeyCode::CapsLock, KeyModifiers::NONE), None);
    }

    #[test]
    fn a_key_counts_when_pressed_and_repeated_and_not_when_let_go() {
        let of = |kind| {
            let event = KeyEvent::new_with_kind(KeyCode::Char('j'), KeyModifiers::NONE, kind);
            translate(Event::Key(event))
        };
        let j = Some(Input::Key(Chord::char('j')));
        assert_eq!(of(KeyEventKind::Press), j);
        assert_eq!(of(KeyEventKind::Repeat), j);
        assert_eq!(of(KeyEventKind::Release), None);
    }

    #[test]
    fn pasted_text_stays_text() {
        assert_eq!(
            translate(Event::Paste("q\r\nx\ry\n".into())),
            Some(Input::Paste("q\nx\ny\n".into()))
        );
    }
}
