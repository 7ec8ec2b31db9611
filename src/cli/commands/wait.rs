//! `wait`: until tasks have ended.

use std::sync::Arc;

use itertools::Itertools as _;

use crate::{
    cli::{
        CliError, CliResult, Context, LiveEvent, LiveSession, Targets,
        args::WaitArgs,
        code,
        environment::block_on,
        error::{exit_code_of, worst},
        live_session::RETRY,
        outcome::{forgotten_error, sign_in_needed},
        task_document,
    },
    domain::{
        Connectivity, ServerName, SessionEvent, SessionRequest, Status, Task, TaskId, TaskView,
    },
    store::{ListFilter, Reader},
};

/// `wait`.
pub(in crate::cli) fn wait(context: &mut Context<'_>, wait: &WaitArgs) -> CliResult {
    let mut reader = context.reader()?;
    if wait.ids.is_empty() && wait.tag.is_none() {
        return Err(CliError::usage(
            "no task given; pass task ids, or a tag: `longhaul wait --tag TAG`; `longhaul ls` lists the ids",
        ));
    }
    let tasks = named_tasks(context, &mut reader, wait)?;
    let servers = Targets::of(context, &mut reader)?;
    let (mut ended, mut open): (Vec<Task>, Vec<Task>) = tasks
        .into_iter()
        .partition(|task| task.status.ends_waiting());
    let mut blocked = None;
    if !is_enough(wait, &ended, &open) {
        for task in &open {
            if task.forgotten_at.is_some() {
                return Err(forgotten_error(&task.id));
            }
            servers.must_know(&task.server)?;
        }
        let servers = servers.all()?;
        blocked = block_on(async {
            let mut live = LiveSession::open(context, servers)?;
            // A sign-in may have just succeeded. A task may end before the response.
            live.send_as(RETRY, SessionRequest::RetryNow);
            let blocked = wait_for(context, &mut live, wait, &mut ended, &mut open).await;
            // Do not stay for tasks that cannot finish without a person.
            let ours: Vec<TaskId> = match &blocked {
                Ok(Some(_)) => open.iter().map(|task| task.id.clone()).collect(),
                _ => Vec::new(),
            };
            live.end(context, &ours, blocked).await
        })?;
    }
    for task in &ended {
        print_ended(context, &mut reader, task)?;
    }
    match blocked {
        Some(fail) => Err(fail),
        None => Ok(worst(ended.iter().map(exit_code_of))),
    }
}

/// The tasks named by id or tag.
fn named_tasks(
    context: &Context<'_>,
    reader: &mut Reader,
    wait: &WaitArgs,
) -> CliResult<Vec<Task>> {
    let mut tasks: Vec<Task> = Vec::new();
    if let Some(tag) = &wait.tag {
        tasks = reader.tasks(ListFilter::default())?;
        tasks.retain(|task| task.tag.as_ref() == Some(tag));
        if tasks.is_empty() {
            return Err(CliError::usage(format!(
                "no task has the tag {tag:?}; `longhaul ls` lists all tasks"
            )));
        }
    }
    tasks.extend(context.find_each(reader, &wait.ids)?);
    Ok(tasks
        .into_iter()
        .unique_by(|task| task.id.clone())
        .collect())
}

fn print_ended(context: &mut Context<'_>, reader: &mut Reader, task: &Task) -> CliResult<()> {
    if context.global.json {
        let document = task_document::document(context, reader, task)?;
        context.terminal.print_json(&document)?;
    } else {
        let why = task.why();
        let reason = why.map_or(String::new(), |reason| format!(": {reason}"));
        context.print(&format!("{} {}{reason}", task.id, task.state_label()))?;
        if task.status == Status::InputRequired {
            let id = &task.id;
            context.warn(format!("{id} has a question: `longhaul answer {id}`"));
        }
    }
    Ok(())
}

fn is_enough(wait: &WaitArgs, ended: &[Task], open: &[Task]) -> bool {
    open.is_empty() || wait.any && !ended.is_empty()
}

/// Waits until enough tasks have ended. Returns a failure if the open ones cannot end without a person.
async fn wait_for(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    wait: &WaitArgs,
    ended: &mut Vec<Task>,
    open: &mut Vec<Task>,
) -> CliResult<Option<CliError>> {
    let mut reported: Vec<ServerName> = Vec::new();
    let mut has_retried = false;
    while !is_enough(wait, ended, open) {
        match live.next(context).await? {
            LiveEvent::Session(SessionEvent::Response { .. }) => has_retried = true,
            LiveEvent::Session(_) => {}
            LiveEvent::Interrupted if live.warn_of_loss(context, None) => {}
            LiveEvent::Interrupted | LiveEvent::Terminated => {
                let message = "interrupted; the tasks stay in the session";
                return Err(CliError::new(code::INTERRUPTED, message));
            }
        }
        open.retain(|task| match live.tasks.get(&task.id) {
            Some(view) if view.task.status.ends_waiting() && !view.is_unsaved => {
                ended.push(view.task.clone());
                false
            }
            _ => true,
        });
        if let Some(gone) = open.iter().find(|task| live.erased.contains(&task.id)) {
            return Ok(Some(forgotten_error(&gone.id)));
        }
        let views = || open.iter().filter_map(|task| live.tasks.get(&task.id));
        let is_forgotten = |view: &&Arc<TaskView>| {
            view.task.forgotten_at.is_some() && !view.task.status.ends_waiting()
        };
        if let Some(view) = views().find(is_forgotten) {
            return Ok(Some(forgotten_error(&view.task.id)));
        }
        let signed_out: Vec<ServerName> = views()
            .filter(|view| has_retried && view.contact == Connectivity::NeedsLogin)
            .map(|view| view.task.server.clone())
            .collect();
        let is_blocked = signed_out.len() == open.len() && !is_enough(wait, ended, open);
        for server in signed_out {
            let (why, hint) = sign_in_needed(context, live, &server);
            if is_blocked {
                let message =
                    format!("{why}; the tasks stay in the session. {hint}; then wait again");
                return Ok(Some(CliError::new(code::NEEDS_LOGIN, message)));
            }
            if !reported.contains(&server) {
                let message = format!("{why}; its tasks are waiting. {hint}");
                context.warn(message);
                reported.push(server);
            }
        }
    }
    Ok(None)
}
