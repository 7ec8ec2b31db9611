//! `edit`: name, note and limits of a task.

use std::time::Duration;

use crate::{
    cli::{
        CliError, CliResult, Context, arg_values::Limit, args::EditArgs, code,
        live_session::request_each, task_document,
    },
    domain::{SessionRequest, TaskChange, text},
};

/// `edit`.
pub(in crate::cli) fn edit(context: &mut Context<'_>, edit: EditArgs) -> CliResult {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let task = context.find(&mut reader, &edit.id)?;
    let id = task.id.clone();
    if task.status.is_settled() && (edit.idle_timeout.is_some() || edit.max_time.is_some()) {
        return Err(CliError::usage(format!(
            "{id} has ended ({}), so a limit has no effect; nothing was changed",
            task.state_label()
        )));
    }
    // An empty value clears the field.
    let or_none = |new: String| Some(new.trim().to_owned()).filter(|new| !new.is_empty());
    let name = edit.name.map(or_none).map(TaskChange::Name);
    let note = edit.note.map(or_none).map(TaskChange::Note);
    let idle = edit.idle_timeout.map(|Limit(new)| TaskChange::Idle(new));
    let hard = edit.max_time.map(|Limit(new)| TaskChange::Hard(new));
    let changes = [name, note, idle, hard];
    let changes: Vec<TaskChange> = changes.into_iter().flatten().collect();
    request_each(context, &[task], |id| SessionRequest::Edit {
        id,
        changes: changes.clone(),
    })?;
    let task = context.find(&mut reader, id.as_str())?;
    if context.global.json {
        let document = task_document::document(context, &mut reader, &task)?;
        return context.print_document(document);
    }
    let limit_text = |limit: Option<Duration>| Some(limit.map_or("off".to_owned(), text::duration));
    let rows = [
        ("name", task.name),
        ("note", task.note),
        ("idle timeout", limit_text(task.options.limits.idle)),
        ("max time", limit_text(task.options.limits.hard)),
    ];
    context.print(&format!("updated {id}"))?;
    for (key, value) in rows {
        let value = value.unwrap_or_else(|| "none".to_owned());
        context.print(&format!("  {key:<13} {value}"))?;
    }
    Ok(code::OK)
}
