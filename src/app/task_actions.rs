//! Actions on tasks: the one under the cursor, or the marked ones.

use itertools::Itertools as _;

use crate::domain::{
    ControlKind, LinkState, NoticeLevel, RequestError, ServerView, SessionRequest, Status, TaskId,
    text,
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

/// Unmarks the tasks that got a request and replies with their number, how many are hidden, and which marked tasks were
/// skipped; those stay marked.
pub(super) fn report_requested(state: &mut State, asked: &[TaskId], word: &str) {
    let what = match asked {
        [] => format!("nothing to {word}"),
        [one] => format!("{word} requested for {one}"),
        many => format!("{word} requested for {}", text::plural(many.len(), "task")),
    };
    let hidden = match hidden_among_marked(state, asked) {
        0 => String::new(),
        count => format!(", {count} of them hidden"),
    };
    for id in asked {
        state.list.marks.remove(id);
    }
    let passed = skipped_marks(state);
    state.reply(format!("{what}{hidden}{passed}"));
}

/// The rest of a reply: how many marked tasks were skipped, and their statuses.
fn skipped_marks(state: &State) -> String {
    let left = state.list.marks.iter().filter_map(|id| state.task(id));
    let statuses: Vec<&Status> = left.map(|task_row| &task_row.view.task.status).collect();
    let have = match statuses.len() {
        0 => return String::new(),
        1 => "it has",
        _ => "they have",
    };
    let why = if statuses.iter().all(|status| status.is_settled()) {
        format!("{have} ended")
    } else {
        let labels = statuses.iter().map(|status| status.row_label());
        labels.sorted().dedup().join(", ")
    };
    format!("; {} skipped ({why}), still marked", statuses.len())
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
        let (key, flags) = (state.key(Action::Cancel), &state.setup.flags);
        return state.reply(match going.as_slice() {
            [one] => format!(
                "{one} has not ended; press {key} to cancel it (`longhaul rm {one}{flags}` removes it anyway, but asks first if its result would be lost)"
            ),
            many => format!("{} tasks have not ended; press {key} to cancel them first", many.len()),
        });
    }
    let hidden = hidden_among_marked(state, &ended);
    for id in &ended {
        let purpose = RequestPurpose::Remove(id.clone());
        request_for(state, SessionRequest::Forget(id.clone()), purpose);
        state.list.marks.remove(id);
    }
    let key = state.key(Action::Undo);
    let now = state.now().wall;
    let owed = |id: &TaskId| state.task(id).is_some_and(|it| it.view.task.is_owed(now));
    let mut message = match ended.as_slice() {
        [one] if owed(one) => format!(
            "{one} removed from the list, so its agent can't collect the result; {key} restores it"
        ),
        [one] => format!("{one} removed from the list; {key} restores it"),
        many => format!(
            "{} tasks removed from the list; {key} restores them",
            many.len()
        ),
    };
    if hidden > 0 {
        message = format!("{message} ({hidden} of them were hidden)");
    }
    if !going.is_empty() {
        message = format!(
            "{message}; {} skipped (not ended), still marked",
            going.len()
        );
    }
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
