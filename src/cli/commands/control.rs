//! `pause`, `resume` and `cancel`.

use std::time::Duration;

use crate::{
    cli::{
        CliError, CliResult, Context, LiveEvent, LiveSession, Targets,
        args::TaskSelectionArgs,
        code,
        error::{exit_code_of, worst},
        live_session::in_session,
        outcome::{forgotten_error, sign_in_needed},
        task_document,
    },
    domain::{
        Connectivity, ControlKind, Phase, RequestError, SessionRequest, Status, Task, TaskId,
        TaskView,
    },
    store::{DriverLock, ListFilter, Reader},
};

/// How long a command waits for unreachable servers before it gives up.
const REACH_WITHIN: Duration = Duration::from_secs(10);

/// Whether `--all` includes this task.
fn applies_to(action: ControlKind, task: &Task) -> bool {
    match action {
        ControlKind::Pausing => task.status == Status::Running && task.resumability.checkpoint,
        ControlKind::Resuming => task.status == Status::Paused,
        ControlKind::Cancelling => {
            !task.status.is_settled() && !matches!(task.status, Status::Unknown(_))
        }
    }
}

/// How an action on one task ended: the exit code, and a message.
type ActionResult = (u8, String);

/// `pause`, `resume`, `cancel`.
pub(in crate::cli) fn control(
    context: &mut Context<'_>,
    action: ControlKind,
    which: &TaskSelectionArgs,
) -> CliResult {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let tasks = if which.all {
        let tasks = reader.tasks(ListFilter::default())?;
        // Without a process that runs them, running calls need one.
        let are_watched = DriverLock::holder(&context.paths).is_some();
        let is_meant = |task: &Task| {
            let is_open = matches!(task.status, Status::Running | Status::InputRequired);
            applies_to(action, task) || action == ControlKind::Resuming && !are_watched && is_open
        };
        tasks.into_iter().filter(is_meant).collect()
    } else {
        context.find_each(&mut reader, &which.ids)?
    };
    let servers = Targets::of(context, &mut reader)?;
    let servers = match tasks.as_slice() {
        [] => {
            let word = match action {
                ControlKind::Pausing => "paused",
                ControlKind::Resuming => "resumed",
                ControlKind::Cancelling => "cancelled",
            };
            context.info(&format!("no task in this session can be {word}"));
            return Ok(code::OK);
        }
        [task] => servers.for_task(&task.server)?,
        _ => servers.all()?,
    };
    let are_many = which.all || tasks.len() > 1;
    in_session(context, servers, async |context, live| {
        act(context, live, &mut reader, action, &tasks, are_many).await
    })
}

/// Sends the requests for all tasks, then waits for each result.
async fn act(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    reader: &mut Reader,
    action: ControlKind,
    tasks: &[Task],
    are_many: bool,
) -> CliResult {
    let late_at = tokio::time::Instant::now() + REACH_WITHIN;
    let mut codes = Vec::new();
    let mut pending = Vec::new();
    for before in tasks {
        let asked = ask(context, live, action, before).await;
        match result_of_one(asked.map(|()| None), are_many)? {
            Some(ended) => codes.push(report(context, reader, before, ended)?),
            None => pending.push(PendingAction {
                before,
                was_asked: false,
            }),
        }
    }
    loop {
        let mut waiting = Vec::new();
        for mut one in pending {
            let checked = one.check(context, live, action, late_at);
            match result_of_one(checked, are_many)? {
                Some(ended) => codes.push(report(context, reader, one.before, ended)?),
                None => waiting.push(one),
            }
        }
        pending = waiting;
        let Some(PendingAction { before, .. }) = pending.first() else {
            return Ok(worst(codes.into_iter()));
        };
        wait(context, live, &before.id, late_at).await?;
    }
}

/// Prints how an action on a task ended; returns the exit code.
fn report(
    context: &mut Context<'_>,
    reader: &mut Reader,
    task: &Task,
    (code, message): ActionResult,
) -> CliResult {
    if code == code::OK && context.global.json {
        let task = context.find(reader, task.id.as_str())?;
        let document = task_document::document(context, reader, &task)?;
        context.terminal.print_json(&document)?;
    } else if code == code::OK {
        context.print(&message)?;
    } else {
        context.warn(&message);
    }
    Ok(code)
}

/// Where there are many tasks, a failure is the result of one and does not stop the others. Any other one ends the command.
fn result_of_one(
    outcome: CliResult<Option<ActionResult>>,
    are_many: bool,
) -> CliResult<Option<ActionResult>> {
    match outcome {
        Err(CliError::Message { code, text }) if are_many && code < code::BUG => {
            Ok(Some((code, text)))
        }
        outcome => outcome,
    }
}

/// Sends the request for a task.
async fn ask(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    action: ControlKind,
    before: &Task,
) -> CliResult<()> {
    let request = SessionRequest::control(action, before.id.clone());
    match live.try_request(context, request).await? {
        Ok(_) => Ok(()),
        // It settled since it was looked up; the next view of it says how.
        Err(RequestError::Settled(_)) if !before.status.is_settled() => Ok(()),
        Err(refused) => Err(refused.into()),
    }
}

/// Waits for news. An unreachable server sends no events, so the time limit counts as news too.
async fn wait(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    id: &TaskId,
    late_at: tokio::time::Instant,
) -> CliResult<()> {
    let next = if tokio::time::Instant::now() < late_at {
        tokio::time::timeout_at(late_at, live.next(context)).await
    } else {
        Ok(live.next(context).await)
    };
    match next {
        Ok(Ok(LiveEvent::Session(_))) | Err(_) => Ok(()),
        Ok(Ok(LiveEvent::Interrupted)) if live.warn_of_loss(context, None) => Ok(()),
        Ok(Ok(LiveEvent::Interrupted | LiveEvent::Terminated)) => {
            let message = format!("interrupted; the request for {id} stays pending");
            Err(CliError::new(code::INTERRUPTED, message))
        }
        Ok(Err(fail)) => Err(fail),
    }
}

/// An action that was requested and has no result yet.
struct PendingAction<'t> {
    before: &'t Task,
    /// Whether a view has shown the request.
    was_asked: bool,
}

impl PendingAction<'_> {
    /// The result once there is proof of it, or after `late_at` if the server can't be reached.
    fn check(
        &mut self,
        context: &mut Context<'_>,
        live: &mut LiveSession,
        action: ControlKind,
        late_at: tokio::time::Instant,
    ) -> CliResult<Option<ActionResult>> {
        let id = &self.before.id;
        if live.erased.contains(id) {
            return Err(forgotten_error(id));
        }
        let Some(view) = live.tasks.get(id).cloned() else {
            return Ok(None);
        };
        let is_late = tokio::time::Instant::now() >= late_at;
        if view.task.forgotten_at.is_some() {
            return Err(forgotten_error(id));
        }
        if is_late && view.contact == Connectivity::NeedsLogin {
            let (why, hint) = sign_in_needed(context, live, &view.task.server);
            let message = format!("{why}; the request for {id} stays pending. {hint}");
            return Ok(Some((code::NEEDS_LOGIN, message)));
        }
        // What is reported must be on disk: a script may read it next.
        let is_saved = view.saved_seq >= view.task.seq || view.is_unsaved;
        // A request that was refused at once may never show, only what the server said. An end shows once it is saved.
        let is_refused = view.task.notice.is_some() && view.task.notice != self.before.notice
            || is_late && action == ControlKind::Pausing;
        let was_asked = self.was_asked || is_refused;
        let result = check_view(action, self.before, &view, was_asked, is_late);
        self.was_asked |= view.task.control.is_some();
        Ok(result.filter(|_| is_saved))
    }
}

/// The result that the newest view of a task shows, if any.
fn check_view(
    action: ControlKind,
    before: &Task,
    view: &TaskView,
    was_asked: bool,
    is_late: bool,
) -> Option<ActionResult> {
    let task = &view.task;
    let id = &task.id;
    let was_dropped = was_asked && task.control.is_none();
    let notice = task.notice.as_deref();
    if is_late && let Some(why) = view.contact.why() {
        let server = &task.server;
        let message =
            format!("could not reach {server} ({why}); the request for {id} stays pending");
        return Some((code::UNREACHABLE, message));
    }
    Some(match (action, &task.status) {
        (ControlKind::Cancelling, Status::Cancelled) => {
            let notice = notice.map_or(String::new(), |notice| format!("; {notice}"));
            (code::OK, format!("{id} is cancelled{notice}"))
        }
        (ControlKind::Pausing, Status::Paused) => {
            let at = task.progress.as_ref().map(crate::cli::format::amount);
            let at = at.map_or(String::new(), |at| format!(" at {at}"));
            (code::OK, format!("{id} is paused{at}"))
        }
        (ControlKind::Resuming, Status::Running) if before.status != Status::Paused => {
            // Finding it takes a connection; without one the time limit above decides.
            return view.contact.is_connected().then(|| {
                (
                    code::OK,
                    format!("{id} is already running and connected; nothing to resume"),
                )
            });
        }
        (ControlKind::Resuming, Status::Running) => {
            let number = task.attempts_made();
            let is_sent = task
                .attempt()
                .is_some_and(|attempt| attempt.phase >= Phase::Open);
            let has_resumed = number > before.attempts_made() && is_sent;
            return has_resumed.then(|| (code::OK, format!("{id} resumed, attempt {number}")));
        }
        (ControlKind::Pausing | ControlKind::Cancelling, status)
            if status.is_settled() || action == ControlKind::Pausing && status.ends_waiting() =>
        {
            let notice = notice.map_or(String::new(), |notice| format!(": {notice}"));
            let message = format!("{id} has ended ({}){notice}", status.label());
            (code::TOOL_FAILED, message)
        }
        (ControlKind::Resuming, Status::InputRequired) => {
            let message = format!(
                "{id} is waiting for your answer (`longhaul answer {id}`); nothing to resume"
            );
            (exit_code_of(task), message)
        }
        (ControlKind::Resuming, status) if status.ends_waiting() => {
            (exit_code_of(task), format!("{id} is {}", status.label()))
        }
        (ControlKind::Cancelling, _) if is_late && task.control.is_some() => {
            let message = format!("{id}: {}; the request stays pending", notice?);
            (code::UNREACHABLE, message)
        }
        (_, status) if was_dropped => {
            let no_effect = || format!("the request had no effect; {id} is {}", status.label());
            let message = notice.map_or_else(no_effect, |notice| format!("{id}: {notice}"));
            (code::TOOL_FAILED, message)
        }
        _ => return None,
    })
}
