//! Prints the history of a task: committed entries, once and in order.

use crate::{
    cli::{CliError, CliResult, Context, format, json},
    domain::{
        Connectivity, HistoryEntry, HistoryEvent, Pace, Progress, Task, TaskId, TaskView, text,
    },
    store::{Lookup, Reader},
};

/// History entries read at a time.
pub(super) const CHUNK: usize = 512;

/// The width of the progress bar, in columns.
const BAR_COLS: usize = 20;

/// How history entries are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputStyle {
    /// NDJSON on stdout.
    Json,
    /// Lines on stdout: `watch`, `logs`.
    Lines,
    /// Progress on stderr, the result on stdout: `call`.
    Call,
}

/// Prints the history of one task.
pub(super) struct HistoryPrinter {
    pub(super) id: TaskId,
    pub(super) reader: Reader,
    pub(super) style: OutputStyle,
    /// With [`OutputStyle::Lines`]: leave out progress, logs and connection changes.
    pub(super) is_terse: bool,
    /// The `seq` of the last printed entry.
    pub(super) printed: u64,
    /// Whether lines of the server were thinned out before they could be printed.
    has_gaps: bool,
    progress: Option<Progress>,
    pace: Pace,
}

impl HistoryPrinter {
    /// Starts after the entry whose `seq` is `after`. With `--json`, the style is JSON.
    pub(super) fn new(
        context: &Context<'_>,
        id: TaskId,
        reader: Reader,
        style: OutputStyle,
        after: u64,
    ) -> Self {
        Self {
            id,
            reader,
            style: if context.global.json {
                OutputStyle::Json
            } else {
                style
            },
            is_terse: false,
            printed: after,
            has_gaps: false,
            progress: None,
            pace: Pace::default(),
        }
    }

    /// The task, as saved.
    pub(super) fn task(&mut self) -> CliResult<Task> {
        match self.reader.task(self.id.as_str())? {
            Lookup::One(task) => Ok(*task),
            _ => Err(CliError::usage(format!(
                "{} is gone from the session",
                self.id
            ))),
        }
    }

    /// Prints all saved entries that were not printed yet. Use it only if the history no longer grows.
    pub(super) fn catch_up(&mut self, context: &mut Context<'_>) -> CliResult<()> {
        while self.advance(context)? {}
        Ok(())
    }

    /// Prints the next [`CHUNK`] of saved entries and returns whether there may be more. A history can grow faster than it
    /// is printed, so the caller must handle events between chunks.
    fn advance(&mut self, context: &mut Context<'_>) -> CliResult<bool> {
        if self.style == OutputStyle::Call && context.global.quiet {
            // Nothing would be printed; the result is read separately.
            self.printed = self.task()?.seq;
            return Ok(false);
        }
        let entries = self.reader.history(&self.id, self.printed, CHUNK)?;
        if entries.is_empty() {
            return Ok(false);
        }
        // Read after the entries, so that it is at least as new as they are.
        let task = self.task()?;
        for entry in &entries {
            match entry.what {
                HistoryEvent::Log { .. } if self.printed > 0 => {
                    self.has_gaps |= entry.seq > self.printed + 1;
                }
                HistoryEvent::Settled { .. } if std::mem::take(&mut self.has_gaps) => {
                    let id = &self.id;
                    context.warn(format!(
                        "some lines came too fast to be printed; `longhaul logs {id}` shows those that were saved"
                    ));
                }
                _ => {}
            }
            self.print(context, &task, entry)?;
            self.printed = entry.seq;
        }
        Ok(true)
    }

    pub(super) fn print(
        &mut self,
        context: &mut Context<'_>,
        task: &Task,
        entry: &HistoryEntry,
    ) -> CliResult<()> {
        let now = context.clock.now();
        match self.style {
            OutputStyle::Json => {
                let result = match entry.what {
                    HistoryEvent::Settled { .. } => self.reader.result(&self.id)?,
                    _ => None,
                };
                context
                    .terminal
                    .print_json(&json::event(task, entry, result.as_deref()))
            }
            OutputStyle::Lines => {
                let is_step = matches!(
                    entry.what,
                    HistoryEvent::Started { .. }
                        | HistoryEvent::Progress(_)
                        | HistoryEvent::Log { .. }
                        | HistoryEvent::Contact { .. }
                );
                if self.is_terse && is_step {
                    return Ok(());
                }
                let line = format::entry(&self.id, entry, now.wall);
                context.print(&line)
            }
            OutputStyle::Call => {
                if let HistoryEvent::Progress(progress) = &entry.what {
                    self.pace.step(now, progress.value);
                    self.progress = Some(progress.clone());
                    if context.terminal.draws_bars() {
                        return Ok(());
                    }
                }
                let is_settled = matches!(entry.what, HistoryEvent::Settled { .. });
                let is_debug = matches!(entry.what, HistoryEvent::Log { level, .. } if level == crate::domain::LogLevel::Debug);
                if !is_settled && !is_debug {
                    let line = format::entry(&self.id, entry, now.wall);
                    context.terminal.history(&line);
                }
                Ok(())
            }
        }
    }

    pub(super) fn draw_bar(&self, context: &mut Context<'_>, view: &TaskView) {
        if self.style != OutputStyle::Call
            || !context.terminal.draws_bars()
            || view.task.status.ends_waiting()
        {
            return;
        }
        let now = context.clock.now();
        let contact = match view.contact.at(now) {
            Connectivity::Live { .. } | Connectivity::Idle => String::new(),
            other => format!("  {}", other.label()),
        };
        let asked = view.task.control;
        let asked = asked.map_or(String::new(), |asked| format!("  {}", asked.what.label()));
        let message = match &self.progress {
            Some(progress) => progress.message.as_deref(),
            None => view.task.server_message(),
        };
        let message = message.map_or(String::new(), |message| format!("  {message}"));
        let progress = self.progress.as_ref();
        let bar = progress.and_then(Progress::ratio).map(|ratio| {
            let full = text::whole_part(ratio * BAR_COLS as f64);
            let full = usize::try_from(full).unwrap_or(BAR_COLS);
            let (on, off) = if context.global.ascii {
                ("#", ".")
            } else {
                ("█", "░")
            };
            let rest = off.repeat(BAR_COLS.saturating_sub(full));
            format!("{}{rest}  ", on.repeat(full))
        });
        let bar = bar.unwrap_or_default();
        let amount = progress.map_or_else(|| view.task.state_label().into(), format::amount);
        let left = progress
            .and_then(|progress| self.pace.time_left(now, progress.total?))
            .map_or(String::new(), |left| format!("  {}", text::time_left(left)));
        context.terminal.bar(&format!(
            "{}  {bar}{amount}{left}{contact}{asked}{message}",
            self.id
        ));
    }
}

/// Prints the next saved entries and returns whether there may be more. Continues without printing if nobody reads stdout;
/// [`Follower::check_stdout`] decides whether to stay.
pub(super) fn print_new(
    context: &mut Context<'_>,
    printer: &mut HistoryPrinter,
) -> CliResult<bool> {
    match printer.advance(context) {
        Err(CliError::StdoutUnread(why)) => {
            context.terminal.unread = Some(why);
            printer.advance(context)
        }
        other => other,
    }
}
