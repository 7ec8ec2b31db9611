//! A task as JSON, with what only its driver knows.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    cli::{CliResult, Context, json as documents},
    domain::{Connectivity, IfCut, Stamp, Status, Task, TaskId, text, unsaved_reason},
    engine::task_connections,
    store::{DriverLock, Reader, StoreError},
};

/// Whether a process drives the session, and what only that process knows.
pub(super) struct DriverInfo {
    is_running: bool,
    /// The connections of the tasks, if another process drives and answers.
    connections: Option<BTreeMap<TaskId, Connectivity>>,
    now: Stamp,
}

impl DriverInfo {
    /// Asks the driver only if one of the tasks has not ended. Warns if the file is behind.
    pub(super) fn of(context: &mut Context<'_>, tasks: &[Task]) -> Self {
        let pid = DriverLock::holder(&context.paths);
        let is_another = pid.is_some_and(|pid| pid != std::process::id());
        let is_asked = is_another && !tasks.iter().all(|task| task.status.is_settled());
        let found = is_asked.then(|| task_connections(&context.paths)).flatten();
        if let Some(found) = found.as_ref().filter(|it| it.unsaved > 0) {
            let tasks = text::plural(found.unsaved, "task");
            let why = unsaved_reason(found.unsaved_why.as_deref());
            context.warn(format!(
                "what follows is out of date for {tasks}: {why}; retrying"
            ));
        }
        Self {
            // A suspended driver holds the session and follows nothing.
            is_running: pid.is_some() && !(is_asked && found.is_none()),
            connections: found.map(|found| found.tasks),
            now: context.clock.now(),
        }
    }

    /// The state of a task's connection.
    pub(super) fn contact(&self, task: &Task) -> Connectivity {
        let needs_none = matches!(
            task.status,
            Status::Paused | Status::InputRequired | Status::Unknown(_)
        );
        let as_of = task.updated_at;
        match &self.connections {
            _ if task.status.is_settled() => Connectivity::Idle,
            Some(connections) => match connections.get(&task.id) {
                Some(contact) => contact.at(self.now),
                None => Connectivity::Unwatched { as_of },
            },
            None if needs_none => Connectivity::Idle,
            None if self.is_running => Connectivity::Live { last_byte: as_of }.at(self.now),
            None => Connectivity::Unwatched { as_of },
        }
    }
}

/// The task object of `--json`. An unreadable result is reported on stderr and becomes null, so that the rest is shown.
pub(super) fn document(
    context: &mut Context<'_>,
    reader: &mut Reader,
    task: &Task,
) -> CliResult<Value> {
    let driver = DriverInfo::of(context, std::slice::from_ref(task));
    document_with(context, reader, task, &driver)
}

pub(super) fn document_with(
    context: &mut Context<'_>,
    reader: &mut Reader,
    task: &Task,
    driver: &DriverInfo,
) -> CliResult<Value> {
    let contact = driver.contact(task);
    let now = context.clock.now().wall;
    let if_cut = IfCut::of_task(task).map(|if_cut| if_cut.at(now));
    let result = match task.end.result_bytes {
        Some(_) => match reader.result(&task.id) {
            Err(error @ StoreError::NotUnderstood { .. }) => {
                let id = &task.id;
                let message = format!("the result of {id} is left out: could not {error}");
                context.warn(message);
                None
            }
            other => other?,
        },
        None => None,
    };
    Ok(documents::task(
        task,
        &contact,
        if_cut.as_ref(),
        result.as_deref(),
    ))
}
