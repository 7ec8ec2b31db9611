//! `logs`: the history of a task.

use crate::{
    cli::{
        args::LogsArgs,
        context::Context,
        error::{CliError, code},
        history::{HistoryPrinter, OutputStyle},
    },
    domain::HistoryEntry,
};

/// `logs`.
pub(in crate::cli) fn logs(context: &mut Context<'_>, logs: &LogsArgs) -> Result<u8, CliError> {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, &logs.id)?;
    let now = context.clock.now().wall;
    let since = logs.since.map(|since| since.at(now));
    let is_recent = |entry: &HistoryEntry| since.is_none_or(|since| entry.at >= since);
    let history = context.reader()?;
    let mut printer = HistoryPrinter::new(context, task.id.clone(), history, OutputStyle::Lines, 0);
    let mut last_seq = 0;
    match logs.lines {
        Some(count) => {
            for entry in reader.history_tail(&task.id, count)? {
                if is_recent(&entry) {
                    printer.print(context, &task, &entry)?;
                }
                last_seq = entry.seq;
            }
            // With `-n 0`, all saved entries count as printed.
            last_seq = last_seq.max(if count == 0 { task.seq } else { 0 });
        }
        None => loop {
            let entries = reader.history(&task.id, last_seq, 512)?;
            if entries.is_empty() {
                break;
            }
            for entry in &entries {
                if is_recent(entry) {
                    printer.print(context, &task, entry)?;
                }
                last_seq = entry.seq;
            }
        },
    }
    if logs.follow && !task.status.ends_waiting() {
        return crate::cli::follow::follow_after(context, &task, reader, last_seq, false);
    }
    Ok(code::OK)
}
