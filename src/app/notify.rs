//! What is told beside the screen: messages in words, the bell, notifications of the desktop, the taskbar and the title.

use core::time::Duration;

use crate::domain::{
    Mono, NoticeLevel, NotifyReason, OverallProgress, Stamp, Status, TaskId, text, whole_percent,
};

use super::{Command, Counts, State, select::Group};

/// What comes closer together than this is told as one.
const APART: Duration = Duration::from_secs(2);
/// A terminal that never speaks of its focus counts as looked at for so long after a key.
const LOOKED_AT: Duration = Duration::from_secs(60);
/// How often the overall progress is looked at; a taskbar is no gauge.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What is to be told, and what was.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Telling {
    /// The most important of what waits, and its words.
    waiting: Option<(NotifyReason, String)>,
    /// How many more wait.
    more: u64,
    /// When something was told last.
    at: Option<Mono>,
    /// The title last set.
    title: String,
    /// The overall progress last shown, and when it was looked at.
    overall: OverallProgress,
    looked_at: Option<Mono>,
    /// How many ran then.
    running: usize,
}

impl Telling {
    fn add(&mut self, occasion: NotifyReason, words: String) {
        if self.waiting.is_some() {
            self.more += 1;
        }
        if self
            .waiting
            .as_ref()
            .is_none_or(|(first, _)| *first < occasion)
        {
            self.waiting = Some((occasion, words));
        }
    }

    /// When what waits is due.
    pub(super) fn wake(&self) -> Option<Mono> {
        let due = self.at.map_or(Mono(0), |at| at.after(APART));
        self.waiting.as_ref().map(|_| due)
    }
}

/// Whether somebody looks at this window, as far as the terminal tells.
fn is_looked_at(state: &State, now: Stamp) -> bool {
    let is_at_work = || {
        let since = |key: Mono| now.mono.since(key);
        state.last_key.is_some_and(|key| since(key) < LOOKED_AT)
    };
    state.has_focus && (state.tells_focus || is_at_work())
}

/// Tells what is due.
pub(super) fn follow(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    if state.over.is_some() {
        return;
    }
    if state.told.wake().is_some_and(|due| due <= now.mono) {
        tell(state, now, todo);
    }
    if state.is_dirty {
        set_title(state, todo);
        show_progress(state, now, todo);
    }
}

fn tell(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    let Some((occasion, words)) = state.told.waiting.take() else {
        return;
    };
    let more = std::mem::take(&mut state.told.more);
    state.told.at = Some(now.mono);
    let notify = state.setup.notify;
    let is_looked_at = is_looked_at(state, now);
    // What needs a person rings beside him too: he may look at another row.
    if notify.bell.includes(occasion) && (occasion == NotifyReason::NeedsYou || !is_looked_at) {
        todo.push(Command::Bell);
    }
    if notify.desktop.includes(occasion) && !is_looked_at {
        todo.push(Command::Notify(match more {
            0 => words,
            more => format!("{words} (and {more} more)"),
        }));
    }
}

/// The mean of those that say how far they are; without any, that something runs.
fn show_progress(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    let running = state.counts.running;
    let told = &state.told;
    let is_fresh = told
        .looked_at
        .is_some_and(|at| now.mono.since(at) < PROGRESS_EVERY);
    if is_fresh && told.running == running {
        return;
    }
    let parts: Vec<f64> = state
        .open
        .iter()
        .filter_map(|id| state.task(id))
        .filter(|task_row| task_row.is_running())
        .filter_map(|task_row| task_row.view.task.progress.as_ref()?.ratio())
        .collect();
    let overall = if running == 0 {
        OverallProgress::None
    } else if parts.is_empty() {
        OverallProgress::Busy
    } else {
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        OverallProgress::Percent(whole_percent(mean))
    };
    (state.told.looked_at, state.told.running) = (Some(now.mono), running);
    if overall != std::mem::replace(&mut state.told.overall, overall) {
        todo.push(Command::Progress(overall));
    }
}

/// Rings for what needs a person, and tells of what ended.
pub(super) fn announce(
    state: &mut State,
    id: &TaskId,
    group_before: Group,
    status_before: &Status,
    now: Stamp,
) {
    let Some(task_row) = state.tasks.get(id) else {
        return;
    };
    let task = &task_row.view.task;
    if task.status == *status_before {
        return;
    }
    // As in the list: with the argument that tells it from others.
    let title = match state.label(task_row) {
        (title, Some((key, value))) => format!("{title} {key}={value}"),
        (title, None) => title,
    };
    let needs_you = task_row.belongs() == Group::NeedsYou && group_before != Group::NeedsYou;
    let words = match &task.status {
        Status::Completed => {
            let line = task.result_summary().unwrap_or("done".into());
            format!("{id} {title} is done: {}", text::clean_line(&line))
        }
        Status::Failed => {
            let message = task
                .error
                .as_ref()
                .map_or(String::new(), crate::domain::TaskError::message);
            let line = text::clean_line(message.lines().next().unwrap_or_default()).into_owned();
            format!("{id} {title} failed: {line}")
        }
        Status::Cancelled => format!("{id} {title} is cancelled"),
        Status::Lost(reason) => format!("{id} {title} is lost: {reason}"),
        Status::Unknown(window) => format!("{id} {title} is unknown: {window}"),
        Status::InputRequired => format!("{id} {title} asks something"),
        Status::Paused => format!("{id} {title} is paused"),
        Status::Running => return,
    };
    let level = match &task.status {
        Status::Failed | Status::Lost(_) => NoticeLevel::Error,
        Status::Unknown(_) | Status::InputRequired => NoticeLevel::Warning,
        _ => NoticeLevel::Info,
    };
    let occasion = if needs_you {
        Some(NotifyReason::NeedsYou)
    } else {
        task.status.is_settled().then_some(NotifyReason::Done)
    };
    state.say(level, &words, now);
    if let Some(occasion) = occasion {
        state.told.add(occasion, words);
    }
}

fn set_title(state: &mut State, todo: &mut Vec<Command>) {
    if !state.setup.notify.title {
        return;
    }
    let Counts { needs, running, .. } = state.counts;
    let session = text::clean_line(&state.setup.session).into_owned();
    let mut title = format!("longhaul {session}");
    if running > 0 {
        title = format!("{running} running - {title}");
    }
    if needs > 0 {
        let need = if needs == 1 { "needs" } else { "need" };
        title = format!("{needs} {need} you, {title}");
    }
    if title != state.told.title {
        state.told.title.clone_from(&title);
        todo.push(Command::SetTitle(title));
    }
}
