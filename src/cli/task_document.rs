//! A task as JSON, with what only its driver knows.

use serde_json::Value;

use crate::{
    cli::{context::Context, error::CliError, json as documents},
    domain::{Connectivity, HistoryEvent, IfCut, Status, Task, TaskId},
    engine::barred_tasks,
    store::{DriverLock, Reader, StoreError},
};

/// How many of the newest entries to search for the state of the connection.
const CONTACT_LOOKBACK: usize = 64;

/// Whether a process drives the session, and what only that process knows.
pub(in crate::cli) struct DriverInfo {
    is_running: bool,
    /// The tasks that wait for credentials.
    pub(in crate::cli) needs_login: Vec<TaskId>,
}

impl DriverInfo {
    /// Asks the driver only if one of the tasks is active.
    pub(in crate::cli) fn of(context: &Context<'_>, tasks: &[Task]) -> Self {
        let pid = DriverLock::holder(&context.paths);
        let is_another = pid.is_some_and(|pid| pid != std::process::id());
        let needs_login = if is_another && tasks.iter().any(is_active) {
            barred_tasks(&context.paths)
        } else {
            Vec::new()
        };
        Self {
            is_running: pid.is_some(),
            needs_login,
        }
    }
}

fn is_active(task: &Task) -> bool {
    !task.status.ends_waiting() && task.status != Status::Paused
}

/// The state of the connection, as far as the session file and the driver show it.
pub(in crate::cli) fn contact(
    reader: &mut Reader,
    task: &Task,
    driver: &DriverInfo,
) -> Result<Connectivity, CliError> {
    if !is_active(task) {
        return Ok(Connectivity::Idle);
    }
    if !driver.is_running {
        return Ok(Connectivity::Unwatched {
            as_of: task.updated_at,
        });
    }
    if driver.needs_login.contains(&task.id) {
        return Ok(Connectivity::NeedsLogin);
    }
    // The driver saves an entry when the connection is lost and when it is back.
    let tail = reader.history_tail(&task.id, CONTACT_LOOKBACK)?;
    let last = tail.into_iter().rev().find_map(|entry| match entry.what {
        HistoryEvent::Contact { state, why } => Some((state, why, entry.at)),
        HistoryEvent::Progress { .. } | HistoryEvent::Log { .. } => {
            Some(("live".to_owned(), String::new(), entry.at))
        }
        _ => None,
    });
    Ok(match last {
        Some((state, why, at)) if state != "live" => Connectivity::Reconnecting {
            attempt: 1,
            next: at,
            why,
        },
        _ => Connectivity::Live {
            last_byte: task.updated_at,
        },
    })
}

/// The task object of `--json`. An unreadable result is reported on stderr and becomes null, so that the rest is shown.
pub(in crate::cli) fn document(
    context: &mut Context<'_>,
    reader: &mut Reader,
    task: &Task,
) -> Result<Value, CliError> {
    let driver = DriverInfo::of(context, std::slice::from_ref(task));
    document_with(context, reader, task, &driver)
}

pub(in crate::cli) fn document_with(
    context: &mut Context<'_>,
    reader: &mut Reader,
    task: &Task,
    driver: &DriverInfo,
) -> Result<Value, CliError> {
    let contact = contact(reader, task, driver)?;
    let now = context.clock.now().wall;
    let if_cut = IfCut::of_task(task).map(|if_cut| if_cut.at(now));
    let result = match task.end.result_bytes {
        Some(_) => match reader.result(&task.id) {
            Err(error @ StoreError::NotUnderstood { .. }) => {
                let message = format!(
                    "longhaul: could not show the result of {}: could not {error}",
                    task.id
                );
                context.terminal.report(&message);
                None
            }
            other => other?,
        },
        None => None,
    };
    Ok(documents::task(
        task,
        &documents::TaskExtras {
            contact: &contact,
            if_cut: if_cut.as_ref(),
            result: result.as_deref(),
        },
    ))
}
