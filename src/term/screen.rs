//! The screen: ratatui's terminal draws into a buffer, which is written once per frame.

use std::{
    cell::RefCell,
    io::{self, Write},
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    sync::Arc,
};

use ratatui::{
    Frame, Terminal,
    backend::{Backend, ClearType, CrosstermBackend, WindowSize},
    buffer::Cell,
    layout::{Position, Size},
};

use super::{
    guard::{Guard, note_progress, write_frame},
    input::size,
    osc::{Multiplexer, progress},
};
use crate::domain::OverallProgress;

/// Start and end of a frame that the terminal shows atomically (synchronized update).
const SYNC: Range<&str> = "\u{1b}[?2026h".."\u{1b}[?2026l";

/// The screen of the terminal that a [`Guard`] holds.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal<BufferedBackend>,
    frame: Rc<RefCell<Vec<u8>>>,
    shown: Option<OverallProgress>,
}

impl Screen {
    /// Draws nothing yet.
    pub fn new(guard: &Guard) -> io::Result<Self> {
        // The theme decides whether to use colors. crossterm's NO_COLOR would also remove bold and reverse, and the
        // selection would be invisible.
        crossterm::style::force_color_output(true);
        let frame = Rc::new(RefCell::new(Vec::new()));
        let backend = BufferedBackend {
            inner: CrosstermBackend::new(FrameWriter(Rc::clone(&frame))),
            tty: Arc::clone(&guard.tty),
            is_cursor_shown: false,
        };
        Ok(Self {
            terminal: Terminal::new(backend)?,
            frame,
            shown: None,
        })
    }

    /// Draws a frame: reads the terminal size, then writes only what changed, in one write. Returns whether anything has.
    ///
    /// Fails if the terminal has hung up or was restored.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<bool> {
        let drawn = self.terminal.draw(view).map(drop);
        let mut frame = std::mem::take(&mut *self.frame.borrow_mut());
        drawn?;
        if frame.is_empty() {
            return Ok(false);
        }
        frame.splice(0..0, SYNC.start.bytes());
        frame.extend(SYNC.end.bytes());
        let written = write_frame(&frame);
        // Reuse the buffer for the next frame.
        frame.clear();
        *self.frame.borrow_mut() = frame;
        written.map(|()| true)
    }

    /// Makes the next frame redraw everything: after Ctrl-L, and after the terminal was taken over again.
    pub fn clear(&mut self) -> io::Result<()> {
        self.terminal.backend_mut().is_cursor_shown = false;
        self.terminal.clear()
    }

    /// Writes a sequence from [`osc`](super::osc) between two frames.
    pub fn send(&mut self, sequence: &str) -> io::Result<()> {
        write_frame(sequence.as_bytes())
    }

    /// Shows the overall progress in the taskbar, if it changed. ExitWhen the terminal clears it.
    pub fn progress(
        &mut self,
        overall: OverallProgress,
        multiplexer: Multiplexer,
    ) -> io::Result<()> {
        let previous = self.shown.replace(overall);
        // Don't clear a progress that was never shown.
        if previous == Some(overall) || (previous.is_none() && overall == OverallProgress::None) {
            return Ok(());
        }
        match progress(overall, multiplexer) {
            Some(sequence) => {
                note_progress((overall != OverallProgress::None).then_some(multiplexer));
                self.send(&sequence)
            }
            None => Ok(()),
        }
    }
}

/// Collects what crossterm writes. It flushes several times per frame, which is ignored.
#[derive(Debug)]
struct FrameWriter(Rc<RefCell<Vec<u8>>>);

impl Write for FrameWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Crossterm's backend without its queries to the terminal: it would run a program to get the size, and read the keyboard
/// to get the cursor position.
#[derive(Debug)]
struct BufferedBackend {
    inner: CrosstermBackend<FrameWriter>,
    tty: Arc<OwnedFd>,
    is_cursor_shown: bool,
}

impl BufferedBackend {
    fn area(&self) -> Size {
        let (width, height) = size(self.tty.as_fd());
        Size { width, height }
    }
}

impl Backend for BufferedBackend {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut content = content.peekable();
        // crossterm writes attribute resets even for an empty iterator.
        if content.peek().is_none() {
            return Ok(());
        }
        self.inner.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        // Called for every frame; an unchanged frame must write nothing.
        if !std::mem::take(&mut self.is_cursor_shown) {
            return Ok(());
        }
        self.inner.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_cursor_shown, true) {
            return Ok(());
        }
        self.inner.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.inner.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.inner.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.inner.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.area())
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize {
            columns_rows: self.area(),
            pixels: Size::default(),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
