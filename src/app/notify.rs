//! Alerts outside the screen: the bell, desktop notifications, the taskbar and the terminal's title.

use core::time::Duration;

use crate::{
    app::{Group, TaskRow, WindowFocus},
    domain::{NoticeLevel, NotifyReason, OverallProgress, Status, text, whole_percent},
};

use super::{Counts, State, TerminalCommand, alerts::Alert, server_needs::waits_for};

/// A terminal that never reports its focus counts as watched for this long after a key.
const WATCHED_AFTER_KEY: Duration = Duration::from_secs(60);
/// How often the progress in the taskbar is updated.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Whether the user is probably looking at this window.
fn is_watched(state: &State) -> bool {
    let since_key = state.last_key.map(|key| state.now().mono.since(key));
    let was_key_pressed = || since_key.is_some_and(|since| since < WATCHED_AFTER_KEY);
    match state.window {
        WindowFocus::Focused => true,
        WindowFocus::Unreported => was_key_pressed(),
        WindowFocus::Lost => false,
    }
}

/// Sends what is due.
pub(super) fn send_alerts(state: &mut State) {
    let now = state.now();
    if state.exit.note.is_some() {
        return;
    }
    if state.alerts.due().is_some_and(|due| due <= now.mono) {
        let alerts = state.alerts.take(now.mono);
        send(state, alerts);
    }
    set_title(state);
    show_progress(state);
}

/// Rings and notifies for the alerts; their most important one gives the words.
fn send(state: &mut State, alerts: Vec<Alert>) {
    let more = alerts.len().saturating_sub(1);
    // The first one of the highest importance.
    let first = alerts.into_iter().rev().max_by_key(|alert| alert.occasion);
    let Some(Alert { occasion, message }) = first else {
        return;
    };
    let notify = state.setup.settings.notify;
    let is_watched = is_watched(state);
    // Ring for what needs the user even in a watched window: they may be looking at another task.
    if notify.bell.includes(occasion) && (occasion == NotifyReason::NeedsYou || !is_watched) {
        state.command(TerminalCommand::Bell);
    }
    if notify.desktop.includes(occasion) && !is_watched {
        state.command(TerminalCommand::Notify(match more {
            0 => message,
            more => format!("{message} (and {more} more)"),
        }));
    }
}

/// Shows the mean progress of the tasks with a known total, or just that something is running.
fn show_progress(state: &mut State) {
    let now = state.now();
    let running = state.totals.counts.running;
    let alerts = &state.alerts;
    let is_fresh = alerts
        .progress_at
        .is_some_and(|at| now.mono.since(at) < PROGRESS_INTERVAL);
    if is_fresh && alerts.running == running {
        return;
    }
    let running_tasks = state.open_tasks().filter(|it| it.is_running());
    let ratio = |it: &TaskRow| it.view.task.progress.as_ref()?.ratio();
    let parts: Vec<f64> = running_tasks.filter_map(ratio).collect();
    let overall = if running == 0 {
        OverallProgress::None
    } else if parts.is_empty() {
        OverallProgress::Busy
    } else {
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        OverallProgress::Percent(whole_percent(mean))
    };
    (state.alerts.progress_at, state.alerts.running) = (Some(now.mono), running);
    if overall != std::mem::replace(&mut state.alerts.overall, overall) {
        state.command(TerminalCommand::Progress(overall));
    }
}

/// Shows a toast for a task's new status, and queues an alert if the task ended or needs the user.
pub(super) fn announce(state: &mut State, task_row: &TaskRow, before: (Group, Status)) {
    let (group_before, status_before) = before;
    let task = &task_row.view.task;
    let needs_you = task_row.group() == Group::NeedsYou && group_before != Group::NeedsYou;
    let has_changed = task.status != status_before;
    if !has_changed && !needs_you {
        return;
    }
    let id = &task.id;
    // As in the list: with the argument that tells it apart from others.
    let title = state.whole_label(task_row);
    let message = match &task.status {
        // Its server needs the user, so the servers pane and the row say what to do.
        _ if !has_changed => {
            let needs = waits_for(state, task_row).unwrap_or("needs you".to_owned());
            format!("{id} {title} {needs}")
        }
        Status::Completed => {
            let line = task.result_summary().unwrap_or("done".into());
            // Such as `completed 50/50`.
            let is_status = line.starts_with(Status::Completed.label());
            let status = if is_status { "" } else { "completed: " };
            format!("{id} {title} {status}{}", text::clean_line(&line))
        }
        Status::Failed => {
            let message = task.why().unwrap_or_default();
            let line = text::clean_line(message.lines().next().unwrap_or_default()).into_owned();
            format!("{id} {title} failed: {line}")
        }
        Status::Cancelled => format!("{id} {title} was cancelled"),
        Status::Lost(reason) => format!("{id} {title} is lost: {reason}"),
        Status::Unknown(window) => format!("{id} {title} is unknown: {window}"),
        Status::InputRequired => format!("{id} {title} has a question"),
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
    if has_changed {
        state.show_toast(level, &message);
    }
    if let Some(occasion) = occasion {
        state.alerts.waiting.push(Alert { occasion, message });
    }
}

fn set_title(state: &mut State) {
    if state.setup.settings.notify.no_title {
        return;
    }
    let Counts { needs, running, .. } = state.totals.counts;
    let session = text::clean_line(&state.setup.session).into_owned();
    let mut title = format!("longhaul {session}");
    if running > 0 {
        title = format!("{running} running - {title}");
    }
    if needs > 0 {
        title = format!("{needs} {}, {title}", text::needs_you(needs));
    }
    if title != state.alerts.title {
        state.alerts.title.clone_from(&title);
        state.command(TerminalCommand::SetTitle(title));
    }
}
