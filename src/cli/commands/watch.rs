//! `watch`: the history of a task, then what happens now.

use crate::cli::{CliResult, Context, follow::follow_after};

/// `watch ID`.
pub(in crate::cli) fn watch(context: &mut Context<'_>, id: &str, is_new_only: bool) -> CliResult {
    let mut reader = context.reader()?;
    let task = context.find(&mut reader, id)?;
    let after = if is_new_only { task.seq } else { 0 };
    let is_terse = context.global.quiet;
    follow_after(context, &task, reader, after, is_terse)
}
