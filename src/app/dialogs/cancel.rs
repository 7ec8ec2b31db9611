//! The dialog before tasks are cancelled.

use crate::{
    app::{Dialog, MenuAction, MenuItem, State, select::hidden_among_marked},
    domain::{Status, Task, TaskId},
};

use super::tasks::{MAX_LISTED, name_of};

pub(super) fn dialog(state: &State, tasks: &[TaskId]) -> Dialog {
    let (title, yes) = match tasks.len() {
        1 => ("Cancel?".to_owned(), "yes, cancel it".to_owned()),
        count => (
            format!("Cancel {count} tasks?"),
            format!("yes, cancel {count} tasks"),
        ),
    };
    let items = vec![
        MenuItem::new('n', "no, don't cancel", MenuAction::Close),
        MenuItem::new('y', yes, MenuAction::Cancel(tasks.to_vec())),
    ];
    Dialog::new(title, body(state, tasks), items)
}

fn body(state: &State, tasks: &[TaskId]) -> Vec<String> {
    let named = tasks.iter().take(MAX_LISTED);
    let mut lines: Vec<String> = named.map(|id| name_of(state, id)).collect();
    let more = tasks.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    let hidden = hidden_among_marked(state, tasks);
    if hidden > 0 {
        lines.push(format!("{hidden} of them hidden"));
    }
    let ended = state.list.marks.len().saturating_sub(tasks.len());
    if ended > 0 {
        let have = if ended == 1 { "has" } else { "have" };
        lines.push(format!("{ended} of the marked tasks {have} already ended"));
    }
    let all = |holds: fn(&Task) -> bool| {
        let mut rows = tasks.iter().filter_map(|id| state.task(id));
        rows.all(|task_row| holds(&task_row.view.task))
    };
    let effect = if all(|task| task.status == Status::Paused) {
        "The task is paused. Cancelling ends it here; its checkpoint stays on the server."
    } else if all(Task::is_queued) {
        "Nothing has been sent yet."
    } else if all(|task| task.resumability.checkpoint) {
        "longhaul will ask the server to stop. The server keeps the checkpoint."
    } else {
        "longhaul will ask the server to stop. Work already done is not undone."
    };
    lines.push(effect.to_owned());
    lines
}
