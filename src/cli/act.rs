//! `pause`, `resume`, `cancel`, `wait`, `rm` and `clean`: asking, and saying what came of it.

use std::{sync::Arc, time::Duration};

use super::{
    Context,
    args::{Clean, EditTask, Limit, Rm, Wait, Which},
    block_on,
    fail::{Fail, code, outcome, worst},
    follow::{forgotten, wants},
    json,
    live::{Event, Live},
    read,
    target::Targets,
};
use crate::{
    domain::{
        Connectivity, Era, Limits, Phase, ProtocolVersion, RequestError, ServerName, SessionEvent,
        SessionRequest, Status, Task, TaskId, TaskView, text,
    },
    store::ListFilter,
};

/// How long a server that cannot be reached is waited for before that is said.
const REACH_WITHIN: Duration = Duration::from_secs(10);

/// How long a change may take until it stands in the session file; a driver saves four times a second.
const SAVED_WITHIN: Duration = Duration::from_secs(5);
/// How often that is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is asked of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskAction {
    Pause,
    Resume,
    Cancel,
}

impl TaskAction {
    fn ask(self, id: TaskId) -> SessionRequest {
        match self {
            Self::Pause => SessionRequest::Pause(id),
            Self::Resume => SessionRequest::Resume(id),
            Self::Cancel => SessionRequest::Cancel(id),
        }
    }

    /// Whether `--all` means this task.
    fn concerns(self, task: &Task) -> bool {
        match self {
            Self::Pause => task.status == Status::Running,
            Self::Resume => task.status == Status::Paused,
            Self::Cancel => !task.status.is_settled() && !matches!(task.status, Status::Unknown(_)),
        }
    }
}

/// What came of a wish.
struct Came {
    code: u8,
    words: String,
}

impl Came {
    fn new(code: u8, words: impl Into<String>) -> Self {
        Self {
            code,
            words: words.into(),
        }
    }
}

/// `pause`, `resume`, `cancel`.
pub(super) fn act(context: &mut Context<'_>, wish: TaskAction, which: &Which) -> Result<u8, Fail> {
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
            .filter(|task| wish.concerns(task))
            .collect()
    };
    let servers = Targets::of(context, &mut reader)?;
    let servers = match tasks.as_slice() {
        [] => {
            context
                .terminal
                .remark("nothing to do: no task of this session is in that state");
            return Ok(code::OK);
        }
        [task] => servers.for_task(&task.server)?,
        _ => servers.all()?,
    };
    block_on(async {
        let mut live = Live::open(context, servers)?;
        let mut codes = Vec::new();
        for task in &tasks {
            let came = match carry_out(context, &mut live, wish, task).await {
                Ok(came) => came,
                // Of many, one that cannot does not keep the others.
                Err(Fail::Said { code, words }) if which.all && code < code::BUG => {
                    Came { code, words }
                }
                Err(fail) => {
                    live.close();
                    return Err(fail);
                }
            };
            let words = text::clean_line(&came.words).into_owned();
            if came.code == code::OK && context.global.json {
                let task = context.find(&mut reader, task.id.as_str())?;
                let document = read::document(context, &mut reader, &task)?;
                context.terminal.document(&json::text_of(&document))?;
            } else if came.code == code::OK {
                context.terminal.line(&words)?;
            } else {
                context.terminal.say(&format!("longhaul: {words}"));
            }
            codes.push(came.code);
        }
        live.leave(context, &[]).await;
        Ok(worst(codes.into_iter()))
    })
}

/// Asks, and waits for proof or for the limit.
async fn carry_out(
    context: &mut Context<'_>,
    live: &mut Live,
    wish: TaskAction,
    before: &Task,
) -> Result<Came, Fail> {
    let id = &before.id;
    match live.outcome(context, wish.ask(id.clone())).await? {
        Ok(_) => {}
        // It settled since it was looked up: what it came to is the answer, and is in the news.
        Err(RequestError::Settled(_)) if !before.status.is_settled() => {}
        Err(refused) => return Err(refused.into()),
    }
    let begin = tokio::time::Instant::now();
    let mut was_asked = false;
    loop {
        if let Some(view) = live.tasks.get(id).cloned() {
            let is_late = begin.elapsed() >= REACH_WITHIN;
            if view.task.forgotten_at.is_some() {
                return Err(forgotten(context, id));
            }
            if is_late && view.contact == Connectivity::NeedsLogin {
                let (why, hint) = wants(context, live, &view.task.server);
                let words = format!("{why}; nothing came of it, {id} stays as it was. {hint}");
                return Ok(Came::new(code::NEEDS_LOGIN, words));
            }
            if let Some(came) = judge(wish, before, &view, was_asked, is_late) {
                return Ok(came);
            }
            was_asked |= view.task.control.is_some();
        }
        // Not only news move this on: what cannot be reached is given up by time.
        let next = match begin
            .checked_add(REACH_WITHIN)
            .filter(|at| *at > tokio::time::Instant::now())
        {
            Some(at) => tokio::time::timeout_at(at, live.next(context)).await,
            None => Ok(live.next(context).await),
        };
        match next {
            Ok(Ok(Event::Session(SessionEvent::Erased(gone)))) if gone == *id => {
                return Err(forgotten(context, id));
            }
            Ok(Ok(Event::Session(_))) | Err(_) => {}
            Ok(Ok(Event::Interrupted)) if live.warns(context, None) => {}
            Ok(Ok(Event::Interrupted | Event::Ended)) => {
                return Err(Fail::new(
                    code::INTERRUPTED,
                    format!("interrupted; what was asked of {id} stays asked"),
                ));
            }
            Ok(Err(fail)) => return Err(fail),
        }
    }
}

/// What the newest picture says of a wish.
fn judge(
    wish: TaskAction,
    before: &Task,
    view: &TaskView,
    was_asked: bool,
    is_late: bool,
) -> Option<Came> {
    let task = &view.task;
    let id = &task.id;
    let is_over = was_asked && task.control.is_none();
    let remark = task.notice.as_deref();
    if is_late && let Connectivity::Offline { why, .. } = &view.contact {
        let words = format!(
            "{} cannot be reached ({why}), so nothing came of it; {id} stays as it was",
            task.server
        );
        return Some(Came::new(code::UNREACHABLE, words));
    }
    let came = match (wish, &task.status) {
        (TaskAction::Cancel, Status::Cancelled) => Came::new(
            code::OK,
            match remark {
                Some(remark) => format!("{id} is cancelled; {remark}"),
                None => format!("{id} is cancelled"),
            },
        ),
        (TaskAction::Pause, Status::Paused) => Came::new(
            code::OK,
            match &task.progress {
                Some(progress) => format!("{id} is paused at {}", super::lines::amount(progress)),
                None => format!("{id} is paused"),
            },
        ),
        (TaskAction::Resume, Status::Running) => {
            let has_new_attempt = task.attempts_made() > before.attempts_made();
            let is_taken = task
                .attempt()
                .is_some_and(|attempt| attempt.phase >= Phase::Open);
            if before.status != Status::Paused {
                // Looking for it takes a connection; without one the time limit above decides.
                if !matches!(
                    view.contact,
                    Connectivity::Live { .. } | Connectivity::Quiet { .. }
                ) {
                    return None;
                }
                Came::new(code::OK, format!("{id} is running, contact is live"))
            } else if has_new_attempt && is_taken {
                Came::new(
                    code::OK,
                    format!("{id} goes on, attempt {}", task.attempts_made()),
                )
            } else {
                return None;
            }
        }
        (TaskAction::Pause | TaskAction::Cancel, status)
            if status.is_settled() || wish == TaskAction::Pause && status.ends_waiting() =>
        {
            let words = format!(
                "{id} is {} already: {}",
                status.label(),
                remark.unwrap_or("it was faster")
            );
            Came::new(code::TOOL_FAILED, words)
        }
        (TaskAction::Resume, status) if status.ends_waiting() => {
            Came::new(outcome(task), format!("{id} is {}", status.label()))
        }
        _ if is_over => Came::new(
            code::TOOL_FAILED,
            remark.map_or_else(
                || format!("nothing came of it; {id} is {}", task.status.label()),
                str::to_owned,
            ),
        ),
        _ => return None,
    };
    Some(came)
}

/// `wait`.
pub(super) fn wait(context: &mut Context<'_>, wait: &Wait) -> Result<u8, Fail> {
    let mut reader = context.reader()?;
    if wait.ids.is_empty() && wait.tag.is_none() {
        return Err(Fail::usage(format!(
            "wait for which tasks? name them, or all with a tag: longhaul wait --tag TAG{0}; `longhaul ls{0}` lists them",
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
            return Err(Fail::usage(format!(
                "no task has the tag {tag:?}; `longhaul ls{}` lists what there is",
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
    let mut stuck = None;
    if !is_enough(wait, &ended, &open) {
        for task in &open {
            if task.forgotten_at.is_some() {
                return Err(forgotten(context, &task.id));
            }
            servers.must_know(&task.server)?;
        }
        let servers = servers.all()?;
        stuck = block_on(async {
            let mut live = Live::open(context, servers)?;
            match wait_for(context, &mut live, wait, &mut ended, &mut open).await {
                Ok(stuck) => {
                    // What cannot end any more as things are keeps nobody.
                    let ours: Vec<TaskId> = match &stuck {
                        Some(_) => open.iter().map(|task| task.id.clone()).collect(),
                        None => Vec::new(),
                    };
                    live.leave(context, &ours).await;
                    Ok(stuck)
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
            let document = read::document(context, &mut reader, task)?;
            context.terminal.document(&json::text_of(&document))?;
        } else {
            let reason = task.why().map_or(String::new(), |reason| {
                format!(": {}", text::clean_line(&reason))
            });
            context
                .terminal
                .line(&format!("{} {}{reason}", task.id, task.status.label()))?;
            if task.status == Status::InputRequired {
                let (id, flags) = (&task.id, context.flags());
                context
                    .terminal
                    .say(&format!("longhaul: {id} asks: longhaul answer {id}{flags}"));
            }
        }
    }
    match stuck {
        Some(fail) => Err(fail),
        None => Ok(worst(ended.iter().map(outcome))),
    }
}

/// Whether `wait` has what it waits for.
fn is_enough(wait: &Wait, ended: &[Task], open: &[Task]) -> bool {
    open.is_empty() || wait.any && !ended.is_empty()
}

/// Waits until enough has ended; a failure comes back where what is still open cannot end any more as things are.
async fn wait_for(
    context: &mut Context<'_>,
    live: &mut Live,
    wait: &Wait,
    ended: &mut Vec<Task>,
    open: &mut Vec<Task>,
) -> Result<Option<Fail>, Fail> {
    let mut told: Vec<ServerName> = Vec::new();
    while !is_enough(wait, ended, open) {
        match live.next(context).await? {
            Event::Session(SessionEvent::Erased(gone))
                if open.iter().any(|task| task.id == gone) =>
            {
                return Ok(Some(forgotten(context, &gone)));
            }
            Event::Session(_) => {}
            Event::Interrupted if live.warns(context, None) => {}
            Event::Interrupted | Event::Ended => {
                return Err(Fail::new(code::INTERRUPTED, "interrupted; the tasks stay"));
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
            return Ok(Some(forgotten(context, &view.task.id)));
        }
        let unsigned: Vec<ServerName> = views()
            .filter(|view| view.contact == Connectivity::NeedsLogin)
            .map(|view| view.task.server.clone())
            .collect();
        let is_stuck = unsigned.len() == open.len() && !is_enough(wait, ended, open);
        for server in unsigned {
            let (why, hint) = wants(context, live, &server);
            if is_stuck {
                let words = format!("{why}; what is waited for stays. {hint}; then wait again");
                return Ok(Some(Fail::new(code::NEEDS_LOGIN, words)));
            }
            if !told.contains(&server) {
                let words = format!("longhaul: {why}; its tasks wait for that. {hint}");
                context.terminal.say(&text::clean_line(&words));
                told.push(server);
            }
        }
    }
    Ok(None)
}

/// `edit`.
pub(super) fn edit(context: &mut Context<'_>, edit: EditTask) -> Result<u8, Fail> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let task = context.find(&mut reader, &edit.id)?;
    let id = task.id.clone();
    // Without anything in it, it is taken away.
    let or_none = |given: Option<String>, before: Option<String>| match given {
        Some(given) => Some(given.trim().to_owned()).filter(|given| !given.is_empty()),
        None => before,
    };
    let limit = |given: Option<Limit>, before| given.map_or(before, |Limit(given)| given);
    let name = or_none(edit.name, task.name);
    let note = or_none(edit.note, task.note);
    let limits = Limits {
        idle: limit(edit.idle_timeout, task.limits.idle),
        hard: limit(edit.max_time, task.limits.hard),
    };
    let what = SessionRequest::Edit {
        id: id.clone(),
        name: name.clone(),
        note: note.clone(),
        limits,
    };
    let is_saved = |task: &Task| task.name == name && task.note == note && task.limits == limits;
    block_on(async {
        let mut live = Live::open(context, Vec::new())?;
        let outcome = live.ask(context, what).await;
        if let Err(fail) = outcome {
            live.close();
            return Err(fail);
        }
        // Whoever drives saves it in a moment, and what is asked next should find it.
        let until = tokio::time::Instant::now() + SAVED_WITHIN;
        while !is_saved(&context.find(&mut reader, id.as_str())?)
            && tokio::time::Instant::now() < until
        {
            let news = tokio::time::timeout(LOOK_EVERY, live.next(context)).await;
            if matches!(news, Ok(Ok(Event::Interrupted | Event::Ended) | Err(_))) {
                break;
            }
        }
        live.leave(context, &[]).await;
        Ok(())
    })?;
    let task = context.find(&mut reader, id.as_str())?;
    if context.global.json {
        let document = read::document(context, &mut reader, &task)?;
        context.terminal.document(&json::pretty(&document))?;
        return Ok(code::OK);
    }
    let told = |limit: Option<Duration>| Some(limit.map_or("off".to_owned(), text::duration));
    let rows = [
        ("name", task.name),
        ("note", task.note),
        ("idle limit", told(task.limits.idle)),
        ("hard limit", told(task.limits.hard)),
    ];
    context.terminal.line(&format!("{id} has now"))?;
    for (key, value) in rows {
        let value = value.unwrap_or_else(|| "none".to_owned());
        context
            .terminal
            .line(&format!("  {key:<11} {}", text::clean_line(&value)))?;
    }
    Ok(code::OK)
}

/// `rm`.
pub(super) fn rm(context: &mut Context<'_>, rm: &Rm) -> Result<u8, Fail> {
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
    let (word, already) = if rm.undo {
        ("brought back", "was not forgotten")
    } else {
        ("forgotten", "was forgotten already")
    };
    let (tasks, done): (Vec<Task>, Vec<Task>) = tasks
        .into_iter()
        .partition(|task| task.forgotten_at.is_some() == rm.undo);
    each(context, &tasks, |id| {
        if rm.undo {
            SessionRequest::Unforget(id)
        } else {
            SessionRequest::Forget(id)
        }
    })?;
    if context.global.json {
        let word = word.replace(' ', "_");
        let document = serde_json::json!({word: ids_of(&tasks), "unchanged": ids_of(&done)});
        context.terminal.document(&json::text_of(&document))?;
        return Ok(code::OK);
    }
    for task in &done {
        context.terminal.line(&format!("{} {already}", task.id))?;
    }
    for task in &tasks {
        let goes_on = !rm.undo && task.status == Status::Running;
        let attempt = task.attempt().filter(|_| task.server_task.is_none());
        let version = attempt.and_then(|attempt| attempt.version);
        let more = match version.map(ProtocolVersion::era) {
            _ if !goes_on => "",
            Some(Era::Modern) => "; its connection is closed, which stops its work",
            _ => "; the call itself keeps running, nothing was sent",
        };
        context
            .terminal
            .line(&format!("{} {word}{more}", task.id))?;
    }
    if !rm.undo {
        say_way_back(context, &tasks);
    }
    Ok(code::OK)
}

/// Says how what was forgotten comes back.
fn say_way_back(context: &mut Context<'_>, forgotten: &[Task]) {
    if !forgotten.is_empty() {
        let flags = context.flags();
        context.terminal.remark(&format!(
            "within seven days: longhaul rm --undo {}{flags}",
            ids_of(forgotten).join(" ")
        ));
    }
}

fn ids_of(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

/// `clean`.
pub(super) fn clean(context: &mut Context<'_>, clean: &Clean) -> Result<u8, Fail> {
    forget_settled(context, clean.older_than, clean.keep.unwrap_or(0))
}

/// Forgets what has ended, and ended so long ago, but for the newest `keep`.
fn forget_settled(
    context: &mut Context<'_>,
    older_than: Option<Duration>,
    keep: usize,
) -> Result<u8, Fail> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let now = context.clock.now().wall;
    let ended = |task: &Task| task.settled_at.unwrap_or(task.updated_at);
    let mut tasks = reader.tasks(ListFilter::default())?;
    tasks.retain(|task| task.status.is_settled());
    tasks.sort_by_key(|task| std::cmp::Reverse(ended(task)));
    tasks.drain(..keep.min(tasks.len()));
    tasks.retain(|task| older_than.is_none_or(|older| now.since(ended(task)) >= older));
    each(context, &tasks, SessionRequest::Forget)?;
    if context.global.json {
        let document = serde_json::json!({"forgotten": ids_of(&tasks)});
        context.terminal.document(&json::text_of(&document))?;
        return Ok(code::OK);
    }
    let count = u64::try_from(tasks.len()).unwrap_or(u64::MAX);
    context
        .terminal
        .line(&format!("{} forgotten", text::plural(count, "task")))?;
    say_way_back(context, &tasks);
    Ok(code::OK)
}

/// Asks the same of each task.
fn each(
    context: &mut Context<'_>,
    tasks: &[Task],
    what: impl Fn(TaskId) -> SessionRequest,
) -> Result<(), Fail> {
    if tasks.is_empty() {
        return Ok(());
    }
    block_on(async {
        let mut live = Live::open(context, Vec::new())?;
        for task in tasks {
            if let Err(fail) = live.ask(context, what(task.id.clone())).await {
                live.close();
                return Err(fail);
            }
        }
        live.leave(context, &[]).await;
        Ok(())
    })
}
