//! The dialog for a task that failed, or is unknown or lost.

use crate::{
    app::{Action, Dialog, MenuAction, MenuItem, State, TaskRow},
    domain::{SessionRequest, Status, TaskId, text},
};

use super::tasks::name_of;

pub(super) fn dialog(state: &State, id: &TaskId) -> Dialog {
    let (body, items) = match state.task(id) {
        Some(task_row) => (body(state, task_row), items(state, task_row)),
        None => (
            vec!["This task no longer exists.".to_owned()],
            vec![MenuItem::new('c', "close", MenuAction::Close)],
        ),
    };
    Dialog::new(format!("Recovery options: {id}"), body, items)
}

fn body(state: &State, task_row: &TaskRow) -> Vec<String> {
    let task = &task_row.view.task;
    let mut lines = vec![name_of(state, &task.id)];
    let label = task.status.label();
    lines.push(match task.why() {
        Some(why) => {
            let line = why.lines().next().unwrap_or_default();
            format!("{label}: {}.", line.trim_end_matches('.'))
        }
        None => format!("Status: {label}."),
    });
    if let Some(progress) = &task.progress {
        let total = progress.total.map_or(String::new(), |total| {
            format!(" of {}", text::amount(total))
        });
        let value = text::amount(progress.value);
        lines.push(format!("Last progress: {value}{total}."));
    }
    lines
}

fn items(state: &State, task_row: &TaskRow) -> Vec<MenuItem> {
    let task = &task_row.view.task;
    let id = &task.id;
    let is_unknown = matches!(task.status, Status::Unknown(_));
    let (key, nothing) = if is_unknown {
        ('n', "decide later")
    } else {
        ('n', "do nothing")
    };
    let mut items = vec![MenuItem::new(key, nothing, MenuAction::Close)];
    // The server has nothing left of a call that failed or is lost.
    if is_unknown {
        let attempt = task.attempt();
        let has_cursor = attempt.is_some_and(|attempt| attempt.cursors.newest.is_some());
        let is_lost = !task.resumability.checkpoint && !has_cursor;
        let look = MenuAction::Request(SessionRequest::Resume(id.clone()));
        let why_not = is_lost.then(|| "not possible: no event id or checkpoint".to_owned());
        items.push(MenuItem::new('l', "look for it on the server", look).unless(why_not));
    }
    items.push(MenuItem::new(
        'a',
        "run again with the same arguments",
        MenuAction::RunAgain(id.clone()),
    ));
    if is_unknown {
        let cancel = MenuAction::Request(SessionRequest::Cancel(id.clone()));
        items.push(MenuItem::new('x', "cancel it on the server", cancel));
        let give_up = MenuAction::Request(SessionRequest::GiveUp(id.clone()));
        items.push(MenuItem::new('m', "mark as lost", give_up));
    }
    let undo = state.key(Action::Undo);
    let forget = format!("remove it from the list ({undo} restores it)");
    items.push(MenuItem::new('f', forget, MenuAction::Forget(id.clone())));
    if state.setup.readonly {
        for item in items.iter_mut().skip(1) {
            item.why_not = Some("read-only".to_owned());
        }
    }
    items
}
