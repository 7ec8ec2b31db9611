//! What both ways to adopt share: waiting until the tasks have started, and reporting them.

use std::time::Duration;

use crate::{
    cli::{CliError, CliResult, Context, LiveSession, code, format, task_document},
    domain::{CheckpointConvention, Phase, TaskId, TaskView, Tool},
    store::Reader,
};

/// How long to wait for an adopted call to start before leaving it to the next driver.
const START_WITHIN: Duration = Duration::from_secs(10);

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

/// Waits until the calls have started, so that leaving does no harm, or until [`START_WITHIN`] has passed.
pub(super) async fn wait_until_started(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    ids: &[TaskId],
) -> CliResult<()> {
    let has_started = |view: &TaskView| {
        let attempt = view.task.attempt();
        view.task.status.ends_waiting() || attempt.is_some_and(|it| it.phase >= Phase::Open)
    };
    let have_started = |live: &LiveSession| {
        let started = |id| live.tasks.get(id).is_some_and(|view| has_started(view));
        ids.iter().all(started)
    };
    let waited = live.wait_until(context, START_WITHIN, have_started).await;
    waited.map(drop)
}
