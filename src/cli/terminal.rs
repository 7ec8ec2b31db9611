//! Where a command writes: data to stdout through the writer it was given, everything else to stderr.
//!
//! Must not know what is written. Invariant: this is the one gate to both, and no control sequence passes it but those of
//! our own bar; raw bytes of a result pass to a file or a pipe, never to a terminal.

use std::io::{self, IsTerminal as _, Write};

use super::fail::Fail;
use crate::domain::text;

/// The columns assumed where a terminal does not tell.
const COLUMNS: usize = 80;

/// Why stdout is written to no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It was closed.
    Closed,
    /// Its reader stands still, and we were told to end.
    Untaken,
}

/// Stdout and stderr of a command.
pub(super) struct Terminal<'o> {
    out: &'o mut dyn Write,
    err: &'o mut dyn Write,
    out_columns: Option<usize>,
    err_columns: Option<usize>,
    is_quiet: bool,
    has_bar: bool,
    /// What stands before the cursor while a line is typed.
    prompt: Option<String>,
    /// Nobody reads stdout any more, and the command goes on all the same.
    unread: Option<Unread>,
    /// What stands where a line was cut.
    ending: &'static str,
}

impl std::fmt::Debug for Terminal<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal")
            .field("out_columns", &self.out_columns)
            .finish_non_exhaustive()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.clear_bar();
    }
}

/// What stands where a text was cut.
fn ending(is_ascii: bool) -> &'static str {
    if is_ascii { "~" } else { "…" }
}

impl<'o> Terminal<'o> {
    /// The writers are stdout and stderr, or stand for them in a test.
    pub(super) fn new(
        out: &'o mut dyn Write,
        err: &'o mut dyn Write,
        is_quiet: bool,
        is_ascii: bool,
    ) -> Self {
        let columns = |is_terminal: bool, size: Result<rustix::termios::Winsize, _>| {
            let told = size.map_or(0, |size: rustix::termios::Winsize| usize::from(size.ws_col));
            is_terminal.then_some(if told == 0 { COLUMNS } else { told })
        };
        Self {
            out,
            err,
            out_columns: columns(
                io::stdout().is_terminal(),
                rustix::termios::tcgetwinsize(rustix::stdio::stdout()),
            ),
            err_columns: columns(
                io::stderr().is_terminal(),
                rustix::termios::tcgetwinsize(rustix::stdio::stderr()),
            ),
            is_quiet,
            has_bar: false,
            prompt: None,
            unread: None,
            ending: ending(is_ascii),
        }
    }

    /// Whether only ASCII characters may be shown from now on.
    pub(super) fn use_ascii(&mut self, is_ascii: bool) {
        self.ending = ending(is_ascii);
    }

    /// The same terminal, for a shorter time.
    pub(super) fn reborrow(&mut self) -> Terminal<'_> {
        Terminal {
            out: &mut *self.out,
            err: &mut *self.err,
            out_columns: self.out_columns,
            err_columns: self.err_columns,
            is_quiet: self.is_quiet,
            has_bar: self.has_bar,
            prompt: self.prompt.clone(),
            unread: self.unread,
            ending: self.ending,
        }
    }

    /// The width of stdout, if it is a terminal.
    pub(super) fn out_columns(&self) -> Option<usize> {
        self.out_columns
    }

    /// What stands where a line was cut.
    pub(super) fn ending(&self) -> &'static str {
        self.ending
    }

    /// Whether both sides of a conversation are a terminal.
    pub(super) fn is_for_people(&self) -> bool {
        self.out_columns.is_some() && io::stdin().is_terminal()
    }

    /// Whether somebody can be asked who reads stderr: a process in the background would be stopped as it reads.
    pub(super) fn can_ask(&self) -> bool {
        let is_in_front = || {
            let front = rustix::termios::tcgetpgrp(rustix::stdio::stdin());
            front.is_ok_and(|front| front == rustix::process::getpgrp())
        };
        self.err_columns.is_some() && io::stdin().is_terminal() && is_in_front()
    }

    /// Asks for a line on stderr; other output is printed above the question.
    pub(super) fn ask(&mut self, prompt: &str) {
        self.clear_bar();
        let prompt = text::clean_line(prompt).into_owned();
        let _ = write!(self.err, "{prompt} ").and_then(|()| self.err.flush());
        self.prompt = Some(prompt);
    }

    /// The line was typed, or nobody waits for it any more.
    pub(super) fn asked(&mut self, was_typed: bool) {
        if self.prompt.take().is_some() && !was_typed {
            let _ = writeln!(self.err).and_then(|()| self.err.flush());
        }
    }

    /// Whether a bar can be drawn.
    pub(super) fn draws_bars(&self) -> bool {
        self.err_columns.is_some() && !self.is_quiet
    }

    /// Writes no data from here on, because nobody reads it, or takes it.
    pub(super) fn give_up_out(&mut self, why: Unread) {
        self.unread = Some(why);
    }

    /// Whether, and why, data is not written any more.
    pub(super) fn unread(&self) -> Option<Unread> {
        self.unread
    }

    /// A line of data, or several.
    pub(super) fn line(&mut self, line: &str) -> Result<(), Fail> {
        self.data(format!("{}\n", text::clean_block(line)).as_bytes())
    }

    /// A document for a script, which [`json`](super::json) has made safe without changing what it says.
    pub(super) fn document(&mut self, json: &str) -> Result<(), Fail> {
        self.data(format!("{json}\n").as_bytes())
    }

    /// Text byte for byte, as far as nobody is in front of it: a terminal gets it clean, and hears why.
    pub(super) fn raw(&mut self, raw: &str) -> Result<(), Fail> {
        if self.out_columns.is_none() {
            return self.data(raw.as_bytes());
        }
        let clean = text::clean_block(raw);
        self.data(clean.as_bytes())?;
        if clean != raw {
            self.remark(
                "longhaul: a terminal would obey some of these bytes, so they are marked here; \
                 `--out FILE` or a pipe gets them as they are",
            );
        }
        Ok(())
    }

    /// Data as it is.
    pub(super) fn data(&mut self, data: &[u8]) -> Result<(), Fail> {
        if self.unread.is_some() {
            return Ok(());
        }
        self.clear_bar();
        self.out.write_all(data)?;
        self.out.flush()?;
        Ok(())
    }

    /// The writer itself, for who writes on his own.
    #[cfg(feature = "demo")]
    pub(super) fn writer(&mut self) -> &mut dyn Write {
        self.out
    }

    /// Something for the person who reads along; not said with `-q`.
    pub(super) fn remark(&mut self, line: &str) {
        if !self.is_quiet {
            self.say(line);
        }
    }

    /// Something that has to be said.
    pub(super) fn say(&mut self, line: &str) {
        self.clear_bar();
        let prompt = self.prompt.take();
        let above = if prompt.is_some() { "\n" } else { "" };
        // A stderr that is gone has nobody to tell about it.
        let _ = writeln!(self.err, "{above}{}", text::clean_block(line))
            .and_then(|()| self.err.flush());
        if let Some(prompt) = prompt {
            self.ask(&prompt);
        }
    }

    /// Draws the one line that changes in place.
    pub(super) fn bar(&mut self, line: &str) {
        let is_free = !self.is_quiet && self.prompt.is_none();
        let Some(columns) = self.err_columns.filter(|_| is_free) else {
            return;
        };
        let line = text::clean_line(line);
        let line = text::cut(&line, columns.saturating_sub(1), self.ending);
        let _ = write!(self.err, "\r{line}\x1b[K").and_then(|()| self.err.flush());
        self.has_bar = true;
    }

    /// Takes the bar away, so that a line can stand there.
    pub(super) fn clear_bar(&mut self) {
        if std::mem::take(&mut self.has_bar) {
            let _ = write!(self.err, "\r\x1b[K").and_then(|()| self.err.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_command_forgot_to_clean_is_cleaned_here() {
        let hostile = "a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\u{e0041}\r\tb";
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut terminal = Terminal::new(&mut out, &mut err, false, false);
        terminal.err_columns = Some(COLUMNS);
        terminal.out_columns = Some(COLUMNS);
        terminal.line(hostile).unwrap();
        terminal.raw(hostile).unwrap();
        terminal.say(hostile);
        terminal.remark(hostile);
        terminal.bar(hostile);
        drop(terminal);
        let err = String::from_utf8(err).unwrap();
        // What the bar is made of is ours.
        let err = err.replace("\x1b[K", "").replace('\r', "");
        for (text, times) in [(String::from_utf8(out).unwrap(), 2), (err, 3)] {
            let is_foreign = |letter: char| letter != '\n' && text::is_hostile(letter);
            assert!(!text.contains(is_foreign), "{text:?}");
            assert_eq!(text.matches("a\u{fffd}]0;x").count(), times, "{text:?}");
        }
    }
}
