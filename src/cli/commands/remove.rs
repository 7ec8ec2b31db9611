//! `rm` and `clean`: removes tasks from the list.

use crate::{
    cli::{
        CliResult, Context,
        args::{CleanArgs, RmArgs},
        code,
        context::must_confirm,
        live_session::request_each,
    },
    domain::{Era, IfCut, ProtocolVersion, SessionRequest, Status, Task, text},
    store::ListFilter,
};

/// `rm`.
pub(in crate::cli) fn rm(context: &mut Context<'_>, rm: &RmArgs) -> CliResult {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let tasks = context.find_each(&mut reader, &rm.ids)?;
    let (done, already) = if rm.undo {
        ("restored", "is in the list; nothing to restore")
    } else {
        ("removed", "was already removed")
    };
    let (tasks, unchanged): (Vec<Task>, Vec<Task>) = tasks
        .into_iter()
        .partition(|task| task.forgotten_at.is_some() == rm.undo);
    if !rm.undo && !rm.yes {
        ask_before_loss(context, &tasks)?;
    }
    request_each(context, &tasks, |id| {
        if rm.undo {
            SessionRequest::Unforget(id)
        } else {
            SessionRequest::Forget(id)
        }
    })?;
    if context.global.json {
        let document = serde_json::json!({done: ids_of(&tasks), "unchanged": ids_of(&unchanged)});
        context.terminal.print_json(&document)?;
        return Ok(code::OK);
    }
    for task in &unchanged {
        context.print(&format!("{} {already}", task.id))?;
    }
    for task in &tasks {
        let keeps_running = !rm.undo && task.status == Status::Running;
        let attempt = task.attempt().filter(|_| task.server_task.is_none());
        let version = attempt.and_then(|attempt| attempt.version);
        let effect = match version.map(ProtocolVersion::era) {
            _ if !keeps_running => "",
            _ if task.is_queued() => "; it was not sent, and won't be",
            _ if attempt.is_some_and(|attempt| attempt.is_of_process) => {
                "; the call was not cancelled, but its server's process ends with the keeper"
            }
            Some(Era::Modern) => "; its connection was closed, which stops it for good",
            _ => "; the call keeps running on the server (not cancelled)",
        };
        context.print(&format!("{} {done}{effect}", task.id))?;
    }
    if !rm.undo {
        report_undo(context, &tasks);
    }
    Ok(code::OK)
}

/// Asks before running calls are removed whose connection, or process, can't be left without losing them, and before
/// calls are removed whose results agents wait for.
fn ask_before_loss(context: &mut Context<'_>, tasks: &[Task]) -> CliResult<()> {
    let now = context.clock.now().wall;
    let mut is_loss = false;
    for task in tasks {
        let id = &task.id;
        let lost = IfCut::of_task(task).filter(IfCut::is_lost);
        if let Some(if_cut) = lost.filter(|_| !task.is_queued()) {
            let why = if_cut.reason.message();
            context.warn(format!("removing {id} would lose the call: {why}"));
            is_loss = true;
        }
        if task.is_owed(now) || task.caller.is_some() && !task.status.is_settled() {
            context.warn(format!(
                "the agent that made the call {id} has not collected its result, and can't after the call is removed"
            ));
            is_loss = true;
        }
    }
    let refusal = "nothing was removed; wait, cancel running calls first, or rerun with --yes";
    must_confirm(context, !is_loss, "remove anyway? y/N", refusal)
}

/// Says how to bring the tasks back.
fn report_undo(context: &mut Context<'_>, forgotten: &[Task]) {
    if !forgotten.is_empty() {
        context.info(&format!(
            "to undo within seven days: `longhaul rm --undo {}`",
            ids_of(forgotten).join(" ")
        ));
    }
}

fn ids_of(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

/// `clean`.
pub(in crate::cli) fn clean(context: &mut Context<'_>, clean: &CleanArgs) -> CliResult {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let now = context.clock.now().wall;
    let ended_at = |task: &Task| task.end.settled_at.unwrap_or(task.updated_at);
    let mut tasks = reader.tasks(ListFilter::default())?;
    tasks.retain(|task| task.status.is_settled());
    tasks.sort_by_key(|task| std::cmp::Reverse(ended_at(task)));
    tasks.drain(..clean.keep.unwrap_or(0).min(tasks.len()));
    let is_old = |task: &Task| (clean.older_than).is_none_or(|it| now.since(ended_at(task)) >= it);
    tasks.retain(is_old);
    let (owed, tasks): (Vec<Task>, Vec<Task>) = tasks.into_iter().partition(|it| it.is_owed(now));
    request_each(context, &tasks, SessionRequest::Forget)?;
    if context.global.json {
        let document = serde_json::json!({"removed": ids_of(&tasks), "kept": ids_of(&owed)});
        context.terminal.print_json(&document)?;
        return Ok(code::OK);
    }
    let count = text::plural(tasks.len(), "task");
    context.print(&format!("{count} removed"))?;
    if !owed.is_empty() {
        let ids = ids_of(&owed).join(" ");
        context.info(&format!(
            "not removed, because agents have not collected their results: {ids}; `longhaul rm {ids}` removes them anyway"
        ));
    }
    report_undo(context, &tasks);
    Ok(code::OK)
}
