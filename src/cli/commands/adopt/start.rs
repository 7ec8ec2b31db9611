//! What both ways to adopt share.

use crate::{
    cli::{CliError, CliResult, Context, code, format, task_document},
    domain::{CheckpointConvention, TaskId, Tool},
    store::Reader,
};

/// Prints one line for each task.
pub(super) fn report_adopted(
    context: &mut Context<'_>,
    reader: &mut Reader,
    ids: &[TaskId],
) -> CliResult {
    for id in ids {
        let task = context.find(reader, id.as_str())?;
        if context.global.json {
            let document = task_document::document(context, reader, &task)?;
            context.terminal.print_json(&document)?;
            continue;
        }
        let their_id = match (&task.server_task_id, &task.client_id) {
            (Some(id), _) => format!(", server task id {id}"),
            (None, Some(id)) => format!(", client id {id}"),
            (None, None) => String::new(),
        };
        let title = format::task_title(&task);
        let line = format!(
            "{id} added: {} on {}{their_id}",
            title.trim_end(),
            task.server
        );
        context.print(&line)?;
    }
    Ok(code::OK)
}

/// Refuses a tool that keeps no checkpoint: a call would start over.
pub(super) fn require_checkpoint(
    tools: &[Tool],
    name: &str,
    convention: &CheckpointConvention,
) -> CliResult<()> {
    let tool = tools.iter().find(|tool| tool.name == name);
    match tool.map(|tool| tool.keeps_checkpoint(tools, convention)) {
        Some(true) => Ok(()),
        Some(false) => Err(CliError::usage(format!(
            "{name} keeps no checkpoint, so it would start over; nothing was called"
        ))),
        None => Err(CliError::usage(format!(
            "the server has no tool {name}; nothing was called"
        ))),
    }
}
