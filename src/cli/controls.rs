//! `pause`, `resume`, `cancel`, `wait`, `edit`, `rm` and `clean`: send the request and report the result.

use std::{sync::Arc, time::Duration};

use super::{
    Context,
    args::{CleanArgs, EditArgs, Limit, RmArgs, TaskSelectionArgs, WaitArgs},
    block_on,
    error::{CliError, code, exit_code_of, worst},
    follow::{forgotten_error, sign_in_needed},
    inspect, json,
    live_session::{LiveEvent, LiveSession},
    target::Targets,
};
use crate::{
    domain::{
        Connectivity, Era, Limits, Phase, ProtocolVersion, RequestError, ServerName, SessionEvent,
        SessionRequest, Status, Task, TaskId, TaskView, text,
    },
    store::ListFilter,
};

/// How long to wait for an unreachable server before giving up.
const REACH_WITHIN: Duration = Duration::from_secs(10);

/// How long an edit may take to reach the session file; a driver saves four times a second.
const SAVED_WITHIN: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskAction {
    Pause,
    Resume,
    Cancel,
}

impl TaskAction {
    fn request(self, id: TaskId) -> SessionRequest {
        match self {
            Self::Pause => SessionRequest::Pause(id),
            Self::Resume => SessionRequest::Resume(id),
            Self::Cancel => SessionRequest::Cancel(id),
        }
    }

    /// Whether `--all` includes this task.
    fn applies_to(self, task: &Task) -> bool {
        match self {
            Self::Pause => task.status == Status::Running,
            Self::Resume => task.status == Status::Paused,
            Self::Cancel => !task.status.is_settled() && !matches!(task.status, Status::Unknown(_)),
        }
    }
}

/// How an action on one task ended.
struct ActionResult {
    code: u8,
    message: String,
}

impl ActionResult {
    fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// `pause`, `resume`, `cancel`.
pub(super) fn control(
    context: &mut Context<'_>,
    action: TaskAction,
    which: &TaskSelectionArgs,
) -> Result<u8, CliError> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let tasks = if let Some(id) = &which.id {
        vec![context.find(&mut reader, id)?]
    } else {
        let tasks = reader.tasks(ListFilter {
            all: false,
            limit: None,
        })?;
        tasks
            .into_iter()
            .filter(|task| action.applies_to(task))
            .collect()
    };
    let servers = Targets::of(context, &mut reader)?;
    let servers = match tasks.as_slice() {
        [] => {
            context
                .terminal
                .info("nothing to do: no task in this session is in that state");
            return Ok(code::OK);
        }
        [task] => servers.for_task(&task.server)?,
        _ => servers.all()?,
    };
    block_on(async {
        let mut live = LiveSession::open(context, servers)?;
        let mut codes = Vec::new();
        for task in &tasks {
            let result = match run_action(context, &mut live, action, task).await {
                Ok(result) => result,
                // With --all, one failure does not stop the others.
                Err(CliError::Message { code, text: words }) if which.all && code < code::BUG => {
                    ActionResult::new(code, words)
                }
                Err(fail) => {
                    live.close();
                    return Err(fail);
                }
            };
            let message = text::clean_line(&result.message).into_owned();
            if result.code == code::OK && context.global.json {
                let task = context.find(&mut reader, task.id.as_str())?;
                let document = inspect::document(context, &mut reader, &task)?;
                context.terminal.print_json(&json::compact(&document))?;
            } else if result.code == code::OK {
                context.terminal.print(&message)?;
            } else {
                context.terminal.report(&format!("longhaul: {message}"));
            }
            codes.push(result.code);
        }
        live.leave(context, &[]).await;
        Ok(worst(codes.into_iter()))
    })
}

/// Sends the request, then waits for proof that it worked, or for [`REACH_WITHIN`].
async fn run_action(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    action: TaskAction,
    before: &Task,
) -> Result<ActionResult, CliError> {
    let id = &before.id;
    match live
        .try_request(context, action.request(id.clone()))
        .await?
    {
        Ok(_) => {}
        // It settled since it was looked up; the next view of it says how.
        Err(RequestError::Settled(_)) if !before.status.is_settled() => {}
        Err(refused) => return Err(refused.into()),
    }
    let started = tokio::time::Instant::now();
    let mut was_asked = false;
    loop {
        if let Some(view) = live.tasks.get(id).cloned() {
            let is_late = started.elapsed() >= REACH_WITHIN;
            if view.task.forgotten_at.is_some() {
                return Err(forgotten_error(context, id));
            }
            if is_late && view.contact == Connectivity::NeedsLogin {
                let (why, hint) = sign_in_needed(context, live, &view.task.server);
                let message = format!("{why}; {id} is unchanged. {hint}");
                return Ok(ActionResult::new(code::NEEDS_LOGIN, message));
            }
            if let Some(result) = check_view(action, before, &view, was_asked, is_late) {
                return Ok(result);
            }
            was_asked |= view.task.control.is_some();
        }
        // An unreachable server sends no events, so wake up at the time limit too.
        let next = match started
            .checked_add(REACH_WITHIN)
            .filter(|at| *at > tokio::time::Instant::now())
        {
            Some(at) => tokio::time::timeout_at(at, live.next(context)).await,
            None => Ok(live.next(context).await),
        };
        match next {
            Ok(Ok(LiveEvent::Session(SessionEvent::Erased(gone)))) if gone == *id => {
                return Err(forgotten_error(context, id));
            }
            Ok(Ok(LiveEvent::Session(_))) | Err(_) => {}
            Ok(Ok(LiveEvent::Interrupted)) if live.warn_of_loss(context, None) => {}
            Ok(Ok(LiveEvent::Interrupted | LiveEvent::Terminated)) => {
                return Err(CliError::new(
                    code::INTERRUPTED,
                    format!("interrupted; the request for {id} stays pending"),
                ));
            }
            Ok(Err(fail)) => return Err(fail),
        }
    }
}

/// The result that the newest view of a task shows, if any.
fn check_view(
    action: TaskAction,
    before: &Task,
    view: &TaskView,
    was_asked: bool,
    is_late: bool,
) -> Option<ActionResult> {
    let task = &view.task;
    let id = &task.id;
    let was_dropped = was_asked && task.control.is_none();
    let remark = task.notice.as_deref();
    if is_late && let Connectivity::Offline { why, .. } = &view.contact {
        let message = format!("cannot reach {} ({why}); {id} is unchanged", task.server);
        return Some(ActionResult::new(code::UNREACHABLE, message));
    }
    let result = match (action, &task.status) {
        (TaskAction::Cancel, Status::Cancelled) => ActionResult::new(
            code::OK,
            match remark {
                Some(remark) => format!("{id} is cancelled; {remark}"),
                None => format!("{id} is cancelled"),
            },
        ),
        (TaskAction::Pause, Status::Paused) => ActionResult::new(
            code::OK,
            match &task.progress {
                Some(progress) => format!("{id} is paused at {}", super::format::amount(progress)),
                None => format!("{id} is paused"),
            },
        ),
        (TaskAction::Resume, Status::Running) => {
            let has_new_attempt = task.attempts_made() > before.attempts_made();
            let is_sent = task
                .attempt()
                .is_some_and(|attempt| attempt.phase >= Phase::Open);
            if before.status != Status::Paused {
                // Finding it takes a connection; without one the time limit above decides.
                if !matches!(
                    view.contact,
                    Connectivity::Live { .. } | Connectivity::Quiet { .. }
                ) {
                    return None;
                }
                ActionResult::new(code::OK, format!("{id} is running and connected"))
            } else if has_new_attempt && is_sent {
                ActionResult::new(
                    code::OK,
                    format!("{id} resumed, attempt {}", task.attempts_made()),
                )
            } else {
                return None;
            }
        }
        (TaskAction::Pause | TaskAction::Cancel, status)
            if status.is_settled() || action == TaskAction::Pause && status.ends_waiting() =>
        {
            let remark = remark.map_or(String::new(), |remark| format!(": {remark}"));
            let message = format!("{id} is already {}{remark}", status.label());
            ActionResult::new(code::TOOL_FAILED, message)
        }
        (TaskAction::Resume, status) if status.ends_waiting() => {
            ActionResult::new(exit_code_of(task), format!("{id} is {}", status.label()))
        }
        _ if was_dropped => ActionResult::new(
            code::TOOL_FAILED,
            remark.map_or_else(
                || format!("the request had no effect; {id} is {}", task.status.label()),
                str::to_owned,
            ),
        ),
        _ => return None,
    };
    Some(result)
}

/// `wait`.
pub(super) fn wait(context: &mut Context<'_>, wait: &WaitArgs) -> Result<u8, CliError> {
    let mut reader = context.reader()?;
    if wait.ids.is_empty() && wait.tag.is_none() {
        return Err(CliError::usage(format!(
            "no task given; name tasks, or a tag: longhaul wait --tag TAG{0}; `longhaul ls{0}` lists tasks and ids",
            context.flags()
        )));
    }
    let mut tasks: Vec<Task> = Vec::new();
    if let Some(tag) = &wait.tag {
        let of_tag = reader.tasks(ListFilter::default())?;
        tasks.extend(
            of_tag
                .into_iter()
                .filter(|task| task.tag.as_ref() == Some(tag)),
        );
        if tasks.is_empty() {
            return Err(CliError::usage(format!(
                "no task has the tag {tag:?}; `longhaul ls{}` lists all tasks",
                context.flags()
            )));
        }
    }
    for id in &wait.ids {
        let task = context.find(&mut reader, id)?;
        if !tasks.iter().any(|known| known.id == task.id) {
            tasks.push(task);
        }
    }
    let servers = Targets::of(context, &mut reader)?;
    let (mut ended, mut open): (Vec<Task>, Vec<Task>) = tasks
        .into_iter()
        .partition(|task| task.status.ends_waiting());
    let mut blocked = None;
    if !is_enough(wait, &ended, &open) {
        for task in &open {
            if task.forgotten_at.is_some() {
                return Err(forgotten_error(context, &task.id));
            }
            servers.must_know(&task.server)?;
        }
        let servers = servers.all()?;
        blocked = block_on(async {
            let mut live = LiveSession::open(context, servers)?;
            match wait_for(context, &mut live, wait, &mut ended, &mut open).await {
                Ok(blocked) => {
                    // Do not stay for tasks that cannot finish without a person.
                    let ours: Vec<TaskId> = match &blocked {
                        Some(_) => open.iter().map(|task| task.id.clone()).collect(),
                        None => Vec::new(),
                    };
                    live.leave(context, &ours).await;
                    Ok(blocked)
                }
                Err(fail) => {
                    live.close();
                    Err(fail)
                }
            }
        })?;
    }
    for task in &ended {
        if context.global.json {
            let document = inspect::document(context, &mut reader, task)?;
            context.terminal.print_json(&json::compact(&document))?;
        } else {
            let reason = task.why().map_or(String::new(), |reason| {
                format!(": {}", text::clean_line(&reason))
            });
            context
                .terminal
                .print(&format!("{} {}{reason}", task.id, task.status.label()))?;
            if task.status == Status::InputRequired {
                let (id, flags) = (&task.id, context.flags());
                context.terminal.report(&format!(
                    "longhaul: {id} has a question: longhaul answer {id}{flags}"
                ));
            }
        }
    }
    match blocked {
        Some(fail) => Err(fail),
        None => Ok(worst(ended.iter().map(exit_code_of))),
    }
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
) -> Result<Option<CliError>, CliError> {
    let mut reported: Vec<ServerName> = Vec::new();
    while !is_enough(wait, ended, open) {
        match live.next(context).await? {
            LiveEvent::Session(SessionEvent::Erased(gone))
                if open.iter().any(|task| task.id == gone) =>
            {
                return Ok(Some(forgotten_error(context, &gone)));
            }
            LiveEvent::Session(_) => {}
            LiveEvent::Interrupted if live.warn_of_loss(context, None) => {}
            LiveEvent::Interrupted | LiveEvent::Terminated => {
                return Err(CliError::new(
                    code::INTERRUPTED,
                    "interrupted; the tasks stay in the session",
                ));
            }
        }
        open.retain(|task| match live.tasks.get(&task.id) {
            Some(view) if view.task.status.ends_waiting() && !view.is_unsaved => {
                ended.push(view.task.clone());
                false
            }
            _ => true,
        });
        let views = || open.iter().filter_map(|task| live.tasks.get(&task.id));
        let is_forgotten = |view: &&Arc<TaskView>| {
            view.task.forgotten_at.is_some() && !view.task.status.ends_waiting()
        };
        if let Some(view) = views().find(is_forgotten) {
            return Ok(Some(forgotten_error(context, &view.task.id)));
        }
        let signed_out: Vec<ServerName> = views()
            .filter(|view| view.contact == Connectivity::NeedsLogin)
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
                let message = format!("longhaul: {why}; its tasks are waiting. {hint}");
                context.terminal.report(&text::clean_line(&message));
                reported.push(server);
            }
        }
    }
    Ok(None)
}

/// `edit`.
pub(super) fn edit(context: &mut Context<'_>, edit: EditArgs) -> Result<u8, CliError> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let task = context.find(&mut reader, &edit.id)?;
    let id = task.id.clone();
    // An empty value clears the field.
    let or_none = |new: Option<String>, before: Option<String>| match new {
        Some(new) => Some(new.trim().to_owned()).filter(|new| !new.is_empty()),
        None => before,
    };
    let limit = |new: Option<Limit>, before| new.map_or(before, |Limit(new)| new);
    let name = or_none(edit.name, task.name);
    let note = or_none(edit.note, task.note);
    let limits = Limits {
        idle: limit(edit.idle_timeout, task.limits.idle),
        hard: limit(edit.max_time, task.limits.hard),
    };
    let request = SessionRequest::Edit {
        id: id.clone(),
        name: name.clone(),
        note: note.clone(),
        limits,
    };
    let is_saved = |task: &Task| task.name == name && task.note == note && task.limits == limits;
    block_on(async {
        let mut live = LiveSession::open(context, Vec::new())?;
        if let Err(fail) = live.request(context, request).await {
            live.close();
            return Err(fail);
        }
        // Wait until the driver has saved it, so that the next command sees it.
        let until = tokio::time::Instant::now() + SAVED_WITHIN;
        while !is_saved(&context.find(&mut reader, id.as_str())?)
            && tokio::time::Instant::now() < until
        {
            let event = tokio::time::timeout(POLL_INTERVAL, live.next(context)).await;
            if matches!(
                event,
                Ok(Ok(LiveEvent::Interrupted | LiveEvent::Terminated) | Err(_))
            ) {
                break;
            }
        }
        live.leave(context, &[]).await;
        Ok(())
    })?;
    let task = context.find(&mut reader, id.as_str())?;
    if context.global.json {
        let document = inspect::document(context, &mut reader, &task)?;
        context.terminal.print_json(&json::pretty(&document))?;
        return Ok(code::OK);
    }
    let limit_text = |limit: Option<Duration>| Some(limit.map_or("off".to_owned(), text::duration));
    let rows = [
        ("name", task.name),
        ("note", task.note),
        ("idle limit", limit_text(task.limits.idle)),
        ("hard limit", limit_text(task.limits.hard)),
    ];
    context.terminal.print(&format!("updated {id}"))?;
    for (key, value) in rows {
        let value = value.unwrap_or_else(|| "none".to_owned());
        context
            .terminal
            .print(&format!("  {key:<11} {}", text::clean_line(&value)))?;
    }
    Ok(code::OK)
}

/// `rm`.
pub(super) fn rm(context: &mut Context<'_>, rm: &RmArgs) -> Result<u8, CliError> {
    if let Some(older_than) = rm.older_than {
        return forget_settled(context, Some(older_than), 0);
    }
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let tasks = rm
        .ids
        .iter()
        .map(|id| context.find(&mut reader, id))
        .collect::<Result<Vec<_>, _>>()?;
    let (key, done, already) = if rm.undo {
        ("brought_back", "restored", "was not forgotten")
    } else {
        ("forgotten", "forgotten", "was already forgotten")
    };
    let (tasks, unchanged): (Vec<Task>, Vec<Task>) = tasks
        .into_iter()
        .partition(|task| task.forgotten_at.is_some() == rm.undo);
    request_each(context, &tasks, |id| {
        if rm.undo {
            SessionRequest::Unforget(id)
        } else {
            SessionRequest::Forget(id)
        }
    })?;
    if context.global.json {
        let document = serde_json::json!({key: ids_of(&tasks), "unchanged": ids_of(&unchanged)});
        context.terminal.print_json(&json::compact(&document))?;
        return Ok(code::OK);
    }
    for task in &unchanged {
        context.terminal.print(&format!("{} {already}", task.id))?;
    }
    for task in &tasks {
        let keeps_running = !rm.undo && task.status == Status::Running;
        let attempt = task.attempt().filter(|_| task.server_task.is_none());
        let version = attempt.and_then(|attempt| attempt.version);
        let effect = match version.map(ProtocolVersion::era) {
            _ if !keeps_running => "",
            Some(Era::Modern) => "; its connection was closed, which stops it on the server",
            _ => "; the call keeps running on the server (nothing was sent)",
        };
        context
            .terminal
            .print(&format!("{} {done}{effect}", task.id))?;
    }
    if !rm.undo {
        report_undo(context, &tasks);
    }
    Ok(code::OK)
}

/// Says how to bring the tasks back.
fn report_undo(context: &mut Context<'_>, forgotten: &[Task]) {
    if !forgotten.is_empty() {
        let flags = context.flags();
        context.terminal.info(&format!(
            "to undo within seven days: longhaul rm --undo {}{flags}",
            ids_of(forgotten).join(" ")
        ));
    }
}

fn ids_of(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

/// `clean`.
pub(super) fn clean(context: &mut Context<'_>, clean: &CleanArgs) -> Result<u8, CliError> {
    forget_settled(context, clean.older_than, clean.keep.unwrap_or(0))
}

/// Forgets the tasks that ended at least `older_than` ago, except the newest `keep`.
fn forget_settled(
    context: &mut Context<'_>,
    older_than: Option<Duration>,
    keep: usize,
) -> Result<u8, CliError> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let now = context.clock.now().wall;
    let ended_at = |task: &Task| task.settled_at.unwrap_or(task.updated_at);
    let mut tasks = reader.tasks(ListFilter::default())?;
    tasks.retain(|task| task.status.is_settled());
    tasks.sort_by_key(|task| std::cmp::Reverse(ended_at(task)));
    tasks.drain(..keep.min(tasks.len()));
    tasks.retain(|task| older_than.is_none_or(|older| now.since(ended_at(task)) >= older));
    request_each(context, &tasks, SessionRequest::Forget)?;
    if context.global.json {
        let document = serde_json::json!({"forgotten": ids_of(&tasks)});
        context.terminal.print_json(&json::compact(&document))?;
        return Ok(code::OK);
    }
    let count = u64::try_from(tasks.len()).unwrap_or(u64::MAX);
    context
        .terminal
        .print(&format!("{} forgotten", text::plural(count, "task")))?;
    report_undo(context, &tasks);
    Ok(code::OK)
}

/// Sends the same request for each task.
fn request_each(
    context: &mut Context<'_>,
    tasks: &[Task],
    request_for: impl Fn(TaskId) -> SessionRequest,
) -> Result<(), CliError> {
    if tasks.is_empty() {
        return Ok(());
    }
    block_on(async {
        let mut live = LiveSession::open(context, Vec::new())?;
        for task in tasks {
            if let Err(fail) = live.request(context, request_for(task.id.clone())).await {
                live.close();
                return Err(fail);
            }
        }
        live.leave(context, &[]).await;
        Ok(())
    })
}
