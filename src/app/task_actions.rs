//! Actions on tasks: the one under the cursor, or the marked ones.

use crate::domain::{
    ControlKind, LinkState, NoticeLevel, RequestError, ServerView, SessionRequest, TaskId, text,
};

use super::{
    CallForm, Menu, Overlay, Pane, State, TaskRow, TypedArgument,
    call::restore_draft,
    keymap::Action,
    requests::{request, request_for, request_tools},
    select::{chosen, hidden_among_marked},
    session::RequestPurpose,
};

pub(super) fn pause(state: &mut State) {
    let tasks = chosen(state);
    // A second pause while the task is still running: offer to stop it now.
    if let [id] = tasks.as_slice()
        && let Some(task_row) = state.task(id)
        && let Some(asked) = task_row.view.task.control
        && asked.what == ControlKind::Pausing
    {
        let age = text::span(state.now().wall.since(asked.at));
        if task_row.view.task.resumability.checkpoint {
            let id = id.clone();
            return state.dialogs.open_menu(Menu::StopNow(id));
        }
        return state.reply(format!(
            "pause requested {age} ago; press {} to cancel the call",
            state.key(Action::Cancel)
        ));
    }
    act_on(state, ControlKind::Pausing, "pause");
}

pub(super) fn resume(state: &mut State) {
    if state.pane == Pane::Servers || state.list.cursor.is_none() {
        let is_down = |server: &&ServerView| matches!(server.state, LinkState::Down { .. });
        let down = state.servers.iter().filter(is_down).count();
        request(state, SessionRequest::RetryNow);
        return state.reply(match down {
            0 => "no server is down".to_owned(),
            down => format!("reconnecting to {}", text::plural(down, "server")),
        });
    }
    let running = match chosen(state).as_slice() {
        [id] if state.task(id).is_some_and(TaskRow::runs_undisturbed) => Some(id.clone()),
        _ => None,
    };
    act_on(state, ControlKind::Resuming, "resume");
    if let Some(id) = running {
        state.reply(format!("{id} is already running; checking its connection"));
    }
}

/// Sends the same request for each task that it applies to.
fn act_on(state: &mut State, what: ControlKind, word: &str) {
    let fitting = fitting(state, what);
    for id in &fitting {
        let purpose = if state.list.marks.contains(id) {
            RequestPurpose::OfMarked(id.clone())
        } else {
            RequestPurpose::Other
        };
        request_for(state, SessionRequest::control(what, id.clone()), purpose);
    }
    report_requested(state, &fitting, word);
}

/// Replies how many tasks got a request, how many of them are hidden, and how many marked tasks were skipped.
pub(super) fn report_requested(state: &mut State, asked: &[TaskId], word: &str) {
    let what = match asked {
        [] => format!("nothing to {word}"),
        asked => format!("{word} requested for {}", unmark(state, asked)),
    };
    let skipped = skipped(state.list.marks.len());
    state.reply(format!("{what}{skipped}"));
}

/// Unmarks tasks; returns their number, and how many of them are hidden.
fn unmark(state: &mut State, tasks: &[TaskId]) -> String {
    let what = match tasks {
        [one] => one.to_string(),
        many => text::plural(many.len(), "task"),
    };
    let hidden = match hidden_among_marked(state, tasks) {
        0 => String::new(),
        count => format!(", {count} of them hidden"),
    };
    for id in tasks {
        state.list.marks.remove(id);
    }
    what + &hidden
}

/// The rest of a reply: how many marked tasks were skipped.
fn skipped(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!("; {count} skipped, still marked"),
    }
}

/// The chosen tasks that can be asked for this.
fn fitting(state: &State, what: ControlKind) -> Vec<TaskId> {
    let mut tasks = chosen(state);
    let can = |task_row: &TaskRow| task_row.view.task.refusal(what).is_none();
    tasks.retain(|id| state.task(id).is_some_and(can));
    tasks
}

pub(super) fn cancel(state: &mut State) {
    let tasks = fitting(state, ControlKind::Cancelling);
    if tasks.is_empty() {
        return state.reply("all of these have ended; nothing to cancel");
    }
    state.dialogs.open_menu(Menu::Cancel(tasks));
}

pub(super) fn forget(state: &mut State, tasks: Vec<TaskId>) {
    let can_go = |id: &TaskId| {
        let task_row = state.task(id);
        task_row.is_some_and(|it| it.view.task.can_be_removed())
    };
    let (ended, going): (Vec<TaskId>, Vec<TaskId>) = tasks.into_iter().partition(can_go);
    if ended.is_empty() {
        let key = state.key(Action::Cancel);
        return state.reply(format!(
            "can't remove a task that is still running; press {key} to cancel it"
        ));
    }
    for id in &ended {
        let purpose = RequestPurpose::Remove(id.clone());
        request_for(state, SessionRequest::Forget(id.clone()), purpose);
    }
    let (what, skipped) = (unmark(state, &ended), skipped(going.len()));
    let key = state.key(Action::Undo);
    let message = format!("removed {what}; {key} undoes this{skipped}");
    state.list.undo.push(ended);
    state.show_toast(NoticeLevel::Info, &message);
}

pub(super) fn undo(state: &mut State) {
    let Some(tasks) = state.list.undo.pop() else {
        return;
    };
    let count = text::plural(tasks.len(), "task");
    state.list.wanted = tasks.first().cloned();
    state.list.returning.extend(tasks.iter().cloned());
    for id in tasks {
        let purpose = RequestPurpose::Restore(id.clone());
        request_for(state, SessionRequest::Unforget(id), purpose);
    }
    let message = format!("{count} restored");
    state.show_toast(NoticeLevel::Info, &message);
}

/// The removal of a task was refused, so there is nothing to undo.
pub(super) fn not_removed(state: &mut State, id: &TaskId) {
    for batch in &mut state.list.undo {
        batch.retain(|removed| removed != id);
    }
    state.list.undo.retain(|batch| !batch.is_empty());
}

/// The undo of a removal was refused; what may work in a moment can be tried again.
pub(super) fn not_restored(state: &mut State, id: TaskId, error: &RequestError) {
    state.list.returning.remove(&id);
    if matches!(error, RequestError::CannotSave(_)) {
        state.list.undo.push(vec![id]);
    }
}

/// Asks the driver to start or stop recording traffic.
pub(super) fn trace(state: &mut State) {
    let server = state.selected_server();
    if server.is_some() {
        let is_on = None;
        request(state, SessionRequest::Trace { server, is_on });
    }
}

pub(super) fn run_again(state: &mut State, id: &TaskId, changed: Vec<TypedArgument>) {
    let Some(task_row) = state.task(id) else {
        return;
    };
    let task = task_row.view.task.clone();
    let is_changed = !changed.is_empty();
    let mut form = CallForm::from_task(state, &task, changed);
    // The tool may have changed since its server was asked.
    request_tools(state, &task.server);
    if !is_changed {
        restore_draft(state, &mut form);
    }
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}
