//! `logs`: the history of a task.

use crate::{
    cli::{CliResult, Context, HistoryPrinter, OutputStyle, args::LogsArgs, code},
    domain::HistoryEntry,
};

/// `logs`.
pub(in crate::cli) fn logs(context: &mut Context<'_>, logs: &LogsArgs) -> CliResult {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &logs.id)?;
    let now = context.clock.now().wall;
    let since = logs.since.map(|since| since.at(now));
    let is_recent = |entry: &HistoryEntry| since.is_none_or(|since| entry.at >= since);
    let history = context.reader()?;
    let mut printer = HistoryPrinter::new(context, task.id.clone(), history, OutputStyle::Lines, 0);
    let entries = match logs.lines {
        Some(count) => reader.history_tail(&task.id, count)?,
        None => reader.history(&task.id, 0, usize::MAX)?,
    };
    for entry in entries.iter().filter(|entry| is_recent(entry)) {
        printer.print(context, &task, entry)?;
    }
    let last_seq = match (entries.last(), logs.lines) {
        (Some(last), _) => last.seq,
        // All saved entries count as printed.
        (None, Some(0)) => task.seq,
        (None, _) => 0,
    };
    if logs.follow && !task.status.ends_waiting() {
        return crate::cli::follow::follow_after(context, &task, reader, last_seq, false);
    }
    Ok(code::OK)
}
