//! The output of a command: data goes to stdout, everything else to stderr.
//!
//! Must not know what is written. Invariants: all output passes through here, and the only control sequences that reach a
//! terminal are those of our progress bar. Raw bytes of a result go only to a file or a pipe.

use std::{
    fmt,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
};

use serde_json::Value;

use super::{error::StdoutLoss, json};
use crate::{cli::CliResult, domain::text};

/// The width of a terminal that does not report one.
const DEFAULT_COLS: usize = 80;

/// Stdout and stderr of a command.
pub(super) struct Terminal<'o> {
    pub(super) out: &'o mut dyn Write,
    err: &'o mut dyn Write,
    /// The width of stdout, or `None` if it is not a terminal.
    pub(super) out_columns: Option<usize>,
    err_columns: Option<usize>,
    is_quiet: bool,
    has_bar: bool,
    /// The text before the cursor while the user types an answer.
    prompt: Option<String>,
    /// Set if nobody reads stdout any more but the command continues.
    pub(super) unread: Option<StdoutLoss>,
    /// Marks the end of a cut line: `…` or `~`.
    pub(super) ending: &'static str,
    /// The options that suggested commands need to find this session.
    pub(super) flags: String,
    /// The URL from `-s`, for a suggested `longhaul login`.
    pub(super) server_url: Option<String>,
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.clear_bar();
    }
}

pub(super) fn ending(is_ascii: bool) -> &'static str {
    if is_ascii { "~" } else { "…" }
}

/// The width of a stream, if it is a terminal.
fn columns_of(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream);
    let columns = size.map_or(0, |size| usize::from(size.ws_col));
    let columns = if columns == 0 { DEFAULT_COLS } else { columns };
    stream.is_terminal().then_some(columns)
}

impl<'o> Terminal<'o> {
    /// Tests pass other writers than stdout and stderr.
    pub(super) fn new(
        out: &'o mut dyn Write,
        err: &'o mut dyn Write,
        is_quiet: bool,
        is_ascii: bool,
    ) -> Self {
        Self {
            out,
            err,
            out_columns: columns_of(&io::stdout()),
            err_columns: columns_of(&io::stderr()),
            is_quiet,
            has_bar: false,
            prompt: None,
            unread: None,
            ending: ending(is_ascii),
            flags: String::new(),
            server_url: None,
        }
    }

    /// Completes the commands between backticks in a message.
    pub(super) fn with_flags(&self, message: &str) -> String {
        text::add_flags(message, &self.flags, self.server_url.as_deref())
    }

    /// Whether stdin and stdout are a terminal.
    pub(super) fn is_for_people(&self) -> bool {
        self.out_columns.is_some() && io::stdin().is_terminal()
    }

    /// Whether the user can be asked on stderr. A background process cannot, because reading from the terminal would stop it.
    pub(super) fn can_ask(&self) -> bool {
        let is_foreground = || {
            let foreground = rustix::termios::tcgetpgrp(rustix::stdio::stdin());
            foreground.is_ok_and(|group| group == rustix::process::getpgrp())
        };
        self.err_columns.is_some() && io::stdin().is_terminal() && is_foreground()
    }

    /// Shows a prompt on stderr. Other output appears above it.
    pub(super) fn ask(&mut self, prompt: &str) {
        self.clear_bar();
        let prompt = text::clean_line(prompt).into_owned();
        let _ = write!(self.err, "{prompt} ").and_then(|()| self.err.flush());
        self.prompt = Some(prompt);
    }

    /// Ends the prompt, after a line was typed or because no answer is needed any more.
    pub(super) fn end_prompt(&mut self, was_typed: bool) {
        if self.prompt.take().is_some() && !was_typed {
            let _ = writeln!(self.err).and_then(|()| self.err.flush());
        }
    }

    /// Whether a progress bar can be drawn.
    pub(super) fn draws_bars(&self) -> bool {
        self.err_columns.is_some() && !self.is_quiet
    }

    /// Prints a line of data.
    pub(super) fn print(&mut self, line: &str) -> CliResult<()> {
        self.print_line(&text::clean_line(line))
    }

    /// Prints one or more lines of data.
    pub(super) fn print_text(&mut self, text: &str) -> CliResult<()> {
        self.print_line(&text::clean_block(text))
    }

    /// Prints a JSON document on one line.
    pub(super) fn print_json(&mut self, document: &Value) -> CliResult<()> {
        self.print_line(&json::compact(document))
    }

    /// Prints a JSON document over several lines.
    pub(super) fn print_pretty(&mut self, document: impl Into<Value>) -> CliResult<()> {
        self.print_line(&json::pretty(&document.into()))
    }

    /// Prints a result, cleaned for a terminal, or as little as possible for a file or pipe.
    pub(super) fn print_result(&mut self, text: &str) -> CliResult<()> {
        match self.out_columns {
            Some(_) => self.print_text(text),
            None => self.print_line(&text::clean_data(text)),
        }
    }

    /// Prints text that is known to be harmless.
    pub(super) fn print_line(&mut self, text: &str) -> CliResult<()> {
        self.data(format!("{text}\n").as_bytes())
    }

    /// Prints text unchanged to a file or pipe. A terminal gets cleaned text, and a notice if that differs.
    pub(super) fn raw(&mut self, raw: &str) -> CliResult<()> {
        if self.out_columns.is_none() {
            return self.data(raw.as_bytes());
        }
        let clean = text::clean_block(raw);
        self.data(clean.as_bytes())?;
        if clean != raw {
            self.info(
                "longhaul: replaced control characters that could affect your terminal; use `--out FILE` or a pipe to get \
                 the original bytes",
            );
        }
        Ok(())
    }

    /// Writes bytes unchanged.
    pub(super) fn data(&mut self, data: &[u8]) -> CliResult<()> {
        if self.unread.is_some() {
            return Ok(());
        }
        self.clear_bar();
        self.out.write_all(data)?;
        self.out.flush()?;
        Ok(())
    }

    /// Prints a line on stderr, unless `--quiet` is set.
    pub(super) fn info(&mut self, line: &str) {
        if !self.is_quiet {
            self.report(line);
        }
    }

    /// Prints a line of a history on stderr, unless `--quiet` is set. Its words are a server's, so they stay as they are.
    pub(super) fn history(&mut self, line: &str) {
        if !self.is_quiet {
            self.report_text(&text::clean_line(line));
        }
    }

    /// Prints a line on stderr, even with `--quiet`, with the options that its commands need.
    pub(super) fn report(&mut self, line: &str) {
        let line = self.with_flags(line);
        self.report_text(&text::clean_line(&line));
    }

    /// Prints one or more lines on stderr, even with `--quiet`.
    pub(super) fn report_text(&mut self, text: &str) {
        self.clear_bar();
        let prompt = self.prompt.take();
        let above = if prompt.is_some() { "\n" } else { "" };
        // If stderr is gone, there is nobody to report it to.
        let _ = writeln!(self.err, "{above}{}", text::clean_block(text))
            .and_then(|()| self.err.flush());
        if let Some(prompt) = prompt {
            self.ask(&prompt);
        }
    }

    /// Prints a message with the program's name on stderr, even with `--quiet`.
    pub(super) fn warn(&mut self, message: impl fmt::Display) {
        self.report(&format!("longhaul: {message}"));
    }

    /// Draws the progress bar, in place.
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

    /// Erases the progress bar.
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
    fn cleans_everything_that_reaches_a_terminal() {
        let hostile = "a\u{1b}]0;x\u{7}\u{9b}2J\u{202e}\u{e0041}\r\tb";
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut terminal = Terminal::new(&mut out, &mut err, false, false);
        terminal.err_columns = Some(DEFAULT_COLS);
        terminal.out_columns = Some(DEFAULT_COLS);
        terminal.print(hostile).unwrap();
        terminal.raw(hostile).unwrap();
        terminal.report(hostile);
        terminal.info(hostile);
        terminal.bar(hostile);
        drop(terminal);
        let err = String::from_utf8(err).unwrap();
        // The bar's own control sequences are allowed.
        let err = err.replace("\x1b[K", "").replace('\r', "");
        for (text, times) in [(String::from_utf8(out).unwrap(), 2), (err, 3)] {
            let is_foreign = |letter: char| letter != '\n' && text::is_hostile(letter);
            assert!(!text.contains(is_foreign), "{text:?}");
            assert_eq!(text.matches("a\u{fffd}]0;x").count(), times, "{text:?}");
        }
    }
}
