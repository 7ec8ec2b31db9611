//! `pause`, `resume`, `cancel`, `wait`, `rm` and `clean`: asking, and saying what came of it.

use std::time::Duration;

use super::{
    Context,
    args::{Clean, Rm, Wait, Which},
    block_on,
    fail::{Fail, code, outcome},
    json,
    live::{Event, Live},
    read,
    servers::Servers,
};
use crate::{
    domain::{Ask, Contact, Phase, Status, Task, TaskId, TaskView, text},
    store::ListFilter,
};

/// How long a server that cannot be reached is waited for before that is said.
const REACH_WITHIN: Duration = Duration::from_secs(10);

/// What is asked of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Pause,
    Resume,
    Cancel,
}

impl Wish {
    fn ask(self, id: TaskId) -> Ask {
        match self {
            Self::Pause => Ask::Pause(id),
            Self::Resume => Ask::Resume(id),
            Self::Cancel => Ask::Cancel(id),
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
pub(super) fn act(context: &mut Context<'_>, wish: Wish, which: &Which) -> Result<u8, Fail> {
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
    let servers = Servers::of(context, &mut reader)?;
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
        let mut worst = code::OK;
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
            worst = worst.max(came.code);
        }
        live.leave(context, &[]).await;
        Ok(worst)
    })
}

/// Asks, and waits for proof or for the limit.
async fn carry_out(
    context: &mut Context<'_>,
    live: &mut Live,
    wish: Wish,
    before: &Task,
) -> Result<Came, Fail> {
    let id = &before.id;
    live.ask(context, wish.ask(id.clone())).await?;
    let begin = tokio::time::Instant::now();
    let mut was_asked = false;
    loop {
        if let Some(view) = live.tasks.get(id).cloned() {
            let is_late = begin.elapsed() >= REACH_WITHIN;
            if let Some(came) = judge(wish, before, &view, was_asked, is_late) {
                return Ok(came);
            }
            was_asked |= view.task.asked.is_some();
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
            Ok(Ok(Event::News(_))) | Err(_) => {}
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
    wish: Wish,
    before: &Task,
    view: &TaskView,
    was_asked: bool,
    is_late: bool,
) -> Option<Came> {
    let task = &view.task;
    let id = &task.id;
    let is_over = was_asked && task.asked.is_none();
    let remark = task.remark.as_deref();
    if is_late && let Contact::Offline { why, .. } = &view.contact {
        let words = format!(
            "{} cannot be reached ({why}), so nothing came of it; {id} stays as it was",
            task.server
        );
        return Some(Came::new(code::UNREACHABLE, words));
    }
    if is_late && view.contact == Contact::NeedsLogin {
        let words = format!(
            "{} wants credentials; pass them with -H or --bearer-env",
            task.server
        );
        return Some(Came::new(code::NEEDS_LOGIN, words));
    }
    let came = match (wish, &task.status) {
        (Wish::Cancel, Status::Cancelled) => Came::new(
            code::OK,
            match remark {
                Some(remark) => format!("{id} is cancelled; {remark}"),
                None => format!("{id} is cancelled"),
            },
        ),
        (Wish::Pause, Status::Paused) => Came::new(
            code::OK,
            match &task.progress {
                Some(progress) => format!("{id} is paused at {}", super::lines::amount(progress)),
                None => format!("{id} is paused"),
            },
        ),
        (Wish::Resume, Status::Running) => {
            let has_new_attempt = task.attempts_made() > before.attempts_made();
            let is_taken = task
                .attempt()
                .is_some_and(|attempt| attempt.phase >= Phase::Open);
            if before.status != Status::Paused {
                // Looking for it takes a connection; without one the time limit above decides.
                if !matches!(view.contact, Contact::Live { .. } | Contact::Quiet { .. }) {
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
        (Wish::Pause | Wish::Cancel, status)
            if status.is_settled() || wish == Wish::Pause && status.ends_waiting() =>
        {
            let words = format!(
                "{id} is {} already: {}",
                status.word(),
                remark.unwrap_or("it was faster")
            );
            Came::new(code::TOOL_FAILED, words)
        }
        (Wish::Resume, status) if status.ends_waiting() => {
            Came::new(outcome(task), format!("{id} is {}", status.word()))
        }
        _ if is_over => Came::new(
            code::TOOL_FAILED,
            remark.map_or_else(
                || format!("nothing came of it; {id} is {}", task.status.word()),
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
    let mut tasks: Vec<Task> = Vec::new();
    for id in &wait.ids {
        let task = context.find(&mut reader, id)?;
        if !tasks.iter().any(|known| known.id == task.id) {
            tasks.push(task);
        }
    }
    let servers = Servers::of(context, &mut reader)?.all()?;
    let is_enough = |ended: usize, open: usize| open == 0 || wait.any && ended > 0;
    let (mut ended, mut open): (Vec<Task>, Vec<Task>) = tasks
        .into_iter()
        .partition(|task| task.status.ends_waiting());
    if !is_enough(ended.len(), open.len()) {
        block_on(async {
            let mut live = Live::open(context, servers)?;
            while !is_enough(ended.len(), open.len()) {
                match live.next(context).await {
                    Ok(Event::News(_)) => {}
                    Ok(Event::Interrupted | Event::Ended) => {
                        live.close();
                        return Err(Fail::new(code::INTERRUPTED, "interrupted; the tasks stay"));
                    }
                    Err(fail) => {
                        live.close();
                        return Err(fail);
                    }
                }
                open.retain(|task| match live.tasks.get(&task.id) {
                    Some(view) if view.task.status.ends_waiting() && !view.is_unsaved => {
                        ended.push(view.task.clone());
                        false
                    }
                    _ => true,
                });
            }
            live.leave(context, &[]).await;
            Ok(())
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
                .line(&format!("{} {}{reason}", task.id, task.status.word()))?;
            if task.status == Status::InputRequired {
                let (id, flags) = (&task.id, context.flags());
                context
                    .terminal
                    .say(&format!("longhaul: {id} asks: longhaul answer {id}{flags}"));
            }
        }
    }
    let codes = ended.iter().map(outcome).filter(|code| *code != code::OK);
    Ok(codes.into_iter().next().unwrap_or(code::OK))
}

/// `rm`.
pub(super) fn rm(context: &mut Context<'_>, rm: &Rm) -> Result<u8, Fail> {
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
    for task in &done {
        context.terminal.line(&format!("{} {already}", task.id))?;
    }
    each(context, &tasks, |id| {
        if rm.undo {
            Ask::Unforget(id)
        } else {
            Ask::Forget(id)
        }
    })?;
    for task in &tasks {
        let goes_on = !rm.undo && task.status == Status::Running;
        let more = if goes_on {
            "; the work itself goes on, nothing was sent"
        } else {
            ""
        };
        context
            .terminal
            .line(&format!("{} {word}{more}", task.id))?;
    }
    if !rm.undo && !tasks.is_empty() {
        let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        let flags = context.flags();
        context.terminal.remark(&format!(
            "within seven days: longhaul rm --undo {}{flags}",
            ids.join(" ")
        ));
    }
    Ok(code::OK)
}

/// `clean`.
pub(super) fn clean(context: &mut Context<'_>, clean: &Clean) -> Result<u8, Fail> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let now = context.clock.now().wall;
    let is_old = |task: &Task| {
        let age = now.since(task.settled_at.unwrap_or(task.updated_at));
        task.status.is_settled() && clean.older.is_none_or(|older| age >= older)
    };
    let mut tasks = reader.tasks(ListFilter {
        all: false,
        limit: None,
    })?;
    tasks.retain(is_old);
    each(context, &tasks, Ask::Forget)?;
    let count = u64::try_from(tasks.len()).unwrap_or(u64::MAX);
    context
        .terminal
        .line(&format!("{} forgotten", text::plural(count, "task")))?;
    Ok(code::OK)
}

/// Asks the same of each task.
fn each(
    context: &mut Context<'_>,
    tasks: &[Task],
    what: impl Fn(TaskId) -> Ask,
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
