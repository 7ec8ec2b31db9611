//! The picture: ratatui's terminal on a buffer of ours, which goes out in one write a frame.

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
    osc::{Between, progress},
};
use crate::domain::OverallProgress;

/// Begin and end of a frame that the terminal is to show at once (synchronized update).
const SYNC: Range<&str> = "\u{1b}[?2026h".."\u{1b}[?2026l";

/// The screen of the terminal that a [`Guard`] holds.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal<Buffered>,
    frame: Rc<RefCell<Vec<u8>>>,
    shown: Option<OverallProgress>,
}

impl Screen {
    /// Makes the screen; nothing is painted yet.
    pub fn new(guard: &Guard) -> io::Result<Self> {
        // Whether colours are used is decided by the theme. The library's own NO_COLOR would take bold and reverse
        // away with them, and the selection could not be seen.
        crossterm::style::force_color_output(true);
        let frame = Rc::new(RefCell::new(Vec::new()));
        let backend = Buffered {
            inner: CrosstermBackend::new(Ink(Rc::clone(&frame))),
            tty: guard.tty(),
            is_cursor_shown: false,
        };
        Ok(Self {
            terminal: Terminal::new(backend)?,
            frame,
            shown: None,
        })
    }

    /// Paints a frame: only what changed, in one write. The size is read before.
    ///
    /// A failure means that the terminal is gone, or was given back.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        let drawn = self.terminal.draw(view).map(drop);
        let mut frame = std::mem::take(&mut *self.frame.borrow_mut());
        drawn?;
        if frame.is_empty() {
            return Ok(());
        }
        frame.splice(0..0, SYNC.start.bytes());
        frame.extend(SYNC.end.bytes());
        let written = write_frame(&frame);
        // Its room serves the next frame.
        frame.clear();
        *self.frame.borrow_mut() = frame;
        written
    }

    /// Forgets what is on the screen, so that the next frame clears it and paints everything: on Ctrl-L, and whenever
    /// the terminal was taken anew.
    pub fn clear(&mut self) -> io::Result<()> {
        self.terminal.backend_mut().is_cursor_shown = false;
        self.terminal.clear()
    }

    /// Writes a sequence of [`osc`](super::osc) between two frames.
    pub fn send(&mut self, sequence: &str) -> io::Result<()> {
        write_frame(sequence.as_bytes())
    }

    /// Shows the overall progress, if it changed; leaving takes it away.
    pub fn progress(&mut self, overall: OverallProgress, between: Between) -> io::Result<()> {
        let before = self.shown.replace(overall);
        // A terminal that never heard of it does not need to hear that there is none.
        if before == Some(overall) || (before.is_none() && overall == OverallProgress::None) {
            return Ok(());
        }
        match progress(overall, between) {
            Some(sequence) => {
                note_progress((overall != OverallProgress::None).then_some(between));
                self.send(&sequence)
            }
            None => Ok(()),
        }
    }

    /// Columns and rows.
    pub fn size(&self) -> Size {
        self.terminal.backend().area()
    }
}

/// Collects what the library writes; its flushes come several times a frame and mean nothing here.
#[derive(Debug)]
struct Ink(Rc<RefCell<Vec<u8>>>);

impl Write for Ink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The library's backend without its ways of asking the terminal: it would start a program to learn the size, and read
/// the keyboard to learn where the cursor is.
#[derive(Debug)]
struct Buffered {
    inner: CrosstermBackend<Ink>,
    tty: Arc<OwnedFd>,
    is_cursor_shown: bool,
}

impl Buffered {
    fn area(&self) -> Size {
        let (width, height) = size(self.tty.as_fd());
        Size { width, height }
    }
}

impl Backend for Buffered {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut content = content.peekable();
        // The library ends even an empty run with resets.
        if content.peek().is_none() {
            return Ok(());
        }
        self.inner.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        // Asked for with every frame; a frame in which nothing changed is not to be written.
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
