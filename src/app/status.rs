//! The attention line near the bottom of the screen, and the scope that has the keyboard focus.

use core::time::Duration;

use std::sync::Arc;

use crate::domain::{
    Connectivity, ControlKind, Stamp, TaskId, TaskView, Wall, text, unsaved_reason,
};

use super::{
    ExitWhen, Overlay, Stage, State,
    keymap::{Action, Scope},
    select::hidden_marks,
    state::pane_scope,
};

/// The kind of text in the attention line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// A hint.
    Calm,
    /// The reply to the last key, or the state of marks and filter.
    Reply,
    /// Something is wrong or about to happen.
    Pressing,
}

/// How long a task's notice is shown while it is connected; its log keeps all of them.
const NOTICE_TIME: Duration = Duration::from_secs(5);

/// Seconds after which a server that was asked to pause counts as not having stopped.
const DID_NOT_STOP_S: u64 = 60;

/// The most important message for the attention line, which has room for `columns`.
pub fn attention(state: &State, now: Stamp, columns: usize) -> (String, Attention) {
    if let Some(reply) = &state.messages.reply {
        return (reply.text.clone(), Attention::Reply);
    }
    if state.totals.counts.unsaved > 0 {
        let mut rows = state.tasks.values();
        let why = unsaved_reason(rows.find_map(|row| row.view.unsaved_why.as_deref()));
        let message = format!("NOT SAVED: {why}; fix the cause; longhaul retries");
        return (message, Attention::Pressing);
    }
    if let Some(message) = exit_line(state) {
        return (message, Attention::Pressing);
    }
    if let Some(frozen) = &state.frozen {
        // A sign of life is no change.
        let is_changed = |view: &&Arc<TaskView>| {
            let shown = state.task(&view.task.id).map(|it| &it.view.task);
            shown.is_none_or(|shown| shown.updated_at != view.task.updated_at)
        };
        let changed = frozen.held.values().filter(is_changed).count();
        let held = text::plural(changed, "task");
        let at = state.clock_seconds(frozen.at.wall);
        let key = state.key(Action::Freeze);
        let message = format!("display frozen at {at}; {held} changed ({key} to unfreeze)");
        return (message, Attention::Pressing);
    }
    // In other panes, Esc does something else.
    let is_in_list = pane_scope(state) == Scope::List;
    if is_in_list && !state.list.marks.is_empty() {
        return (marks_line(state), Attention::Reply);
    }
    if let Some(message) = control_line(state, now) {
        return (message, Attention::Pressing);
    }
    if is_in_list && !state.list.filter.is_empty() {
        let filter = text::clean_line(state.list.filter.text());
        return (format!("filter: {filter}   (Esc clears)"), Attention::Reply);
    }
    if let Some(message) = connectivity_line(state, now) {
        return (message, Attention::Pressing);
    }
    if state.setup.is_demo {
        return (demo_line(state, columns), Attention::Calm);
    }
    (String::new(), Attention::Calm)
}

/// What quitting still waits for.
fn exit_line(state: &State) -> Option<String> {
    match &state.exit.when {
        ExitWhen::NothingLost => {
            let lost = state.totals.by_outcome.lost.iter().take(4);
            let ids: Vec<&str> = lost.map(TaskId::as_str).collect();
            let have = if ids.len() == 1 { "has" } else { "have" };
            let ids = ids.join(", ");
            Some(format!(
                "longhaul quits when {ids} {have} ended; press Esc to stay"
            ))
        }
        ExitWhen::Cancelled(_) => {
            Some("longhaul quits when everything is cancelled; press Esc to stay".to_owned())
        }
        ExitWhen::No | ExitWhen::Asked(_) => None,
    }
}

fn marks_line(state: &State) -> String {
    let hidden = match hidden_marks(state) {
        0 => String::new(),
        count => format!(", {count} of them hidden"),
    };
    let marked = text::plural(state.list.marks.len(), "task");
    format!("{marked} marked{hidden}; Esc clears the marks")
}

/// `reindex: pause requested 8 s ago, still running (2.1k); after 60 s this counts as "did not stop"`.
fn control_line(state: &State, now: Stamp) -> Option<String> {
    let (task, asked) = state
        .totals
        .by_outcome
        .asked
        .iter()
        .filter_map(|(_, id)| state.task(id))
        .filter(|task_row| !matches!(task_row.view.contact, Connectivity::Unwatched { .. }))
        .map(|task_row| &task_row.view.task)
        .find_map(|task| task.control.map(|asked| (task, asked)))?;
    let age = now.wall.since(asked.at);
    let title = task.title();
    let since = text::span(age);
    let at = task.progress.as_ref().map_or(String::new(), |progress| {
        format!(" at step {}", text::amount(progress.value))
    });
    Some(match asked.what {
        ControlKind::Pausing if age.as_secs() < DID_NOT_STOP_S => format!(
            "{title}: pause requested {since} ago, still running{at}; waiting up to {DID_NOT_STOP_S} s"
        ),
        ControlKind::Pausing => format!(
            "{title}: pause requested {since} ago, still running{at}; press {} to stop the call now and keep the checkpoint",
            state.key(Action::Pause)
        ),
        ControlKind::Resuming => format!("{title}: resume requested {since} ago, not resumed yet"),
        ControlKind::Cancelling => {
            format!("{title}: cancel requested {since} ago, not confirmed yet")
        }
    })
}

fn connectivity_line(state: &State, now: Stamp) -> Option<String> {
    let task_row = state.selected()?;
    let status = &task_row.view.task.status;
    if status.is_settled() {
        return None;
    }
    let title = task_row.view.task.title();
    let message = match &task_row.view.contact {
        Connectivity::Reconnecting { attempt, next, why } => format!(
            "{title}: {why}; retry #{} {} ({} to retry now)",
            attempt.saturating_add(1),
            until_phrase(*next, now),
            state.key(Action::Resume)
        ),
        Connectivity::Offline { next, why, .. } => format!(
            "{title}: could not reach {} ({why}); {} ({} to retry now)",
            task_row.view.task.server,
            retry_phrase(*next, now),
            state.key(Action::Resume)
        ),
        contact => {
            let since = task_row.notice_since.max(task_row.connectivity_since);
            let is_needed = status.needs_decision() || matches!(contact, Connectivity::NeedsLogin);
            let notice = task_row.view.task.notice.as_ref();
            let is_shown = is_needed || now.wall.since(since) < NOTICE_TIME;
            let notice = notice.filter(|_| is_shown)?;
            format!("{title}: {notice}")
        }
    };
    Some(message)
}

/// What to try in the demo.
fn demo_line(state: &State, columns: usize) -> String {
    let [new, again, cut, quit] = [
        Action::NewCall,
        Action::RunAgain,
        Action::InjectFault,
        Action::Quit,
    ]
    .map(|action| state.key(action));
    if state.totals.open.is_empty() && !state.tasks.is_empty() {
        return format!("try: {new} new call, {again} run again, {cut} inject a fault");
    }
    let cut_network = format!("try: {cut}, then c to cut the network");
    let reopen = &state.setup.reopens_with;
    let whole = format!("{cut_network} for 5 s; or press {quit}, then reopen with `{reopen}`");
    if text::width(&whole) <= columns {
        whole
    } else {
        format!("{cut_network}; or {quit}, then `{reopen}`")
    }
}

/// The time left, such as `4 s`; `None` if there is none.
pub fn time_left(at: Wall, now: Stamp) -> Option<String> {
    let left = at.since(now.wall);
    // Rounded up: a countdown must not show zero seconds.
    (!left.is_zero()).then(|| text::span(left + Duration::from_millis(999)))
}

/// The time left as a phrase: `in 4 s`, or `now`.
pub fn until_phrase(at: Wall, now: Stamp) -> String {
    time_left(at, now).map_or("now".to_owned(), |left| format!("in {left}"))
}

/// When the next retry is due: `next retry in 4 s`, or `retrying now`.
pub fn retry_phrase(at: Wall, now: Stamp) -> String {
    let left = time_left(at, now);
    left.map_or("retrying now".to_owned(), |left| {
        format!("next retry in {left}")
    })
}

/// The scope that has the keyboard focus.
pub fn scope(state: &State) -> Scope {
    match state.dialogs.stack.last() {
        Some(Overlay::Page { .. } | Overlay::Menu { .. }) => Scope::Menu,
        Some(Overlay::Question(form)) if form.link.is_some() => Scope::Page,
        Some(Overlay::Call(form)) if form.stage != Stage::Form => Scope::Text,
        Some(Overlay::Call(_) | Overlay::Edit(_) | Overlay::Question(_)) => Scope::Form,
        Some(
            Overlay::Commands { .. }
            | Overlay::Filter(_)
            | Overlay::Search(_)
            | Overlay::SaveAs { .. },
        ) => Scope::Text,
        None => pane_scope(state),
    }
}
