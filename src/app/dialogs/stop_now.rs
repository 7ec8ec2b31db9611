//! The dialog for a task that was asked to pause but is still making progress.

use crate::{
    app::State,
    domain::{SessionRequest, Stamp, TaskId, text},
};

use super::{
    menu::{Dialog, MenuAction, MenuItem},
    tasks::name_of,
};

pub(super) fn dialog(state: &State, id: &TaskId, now: Stamp) -> Dialog {
    let asked = state
        .task(id)
        .and_then(|task_row| task_row.view.task.control);
    let age = asked.map_or(String::new(), |asked| {
        format!(" {} ago", text::span(now.wall.since(asked.at)))
    });
    let body = [
        name_of(state, id),
        format!("Pause requested{age}; the server has not stopped the call yet."),
    ];
    let stop = MenuAction::Request(SessionRequest::Cancel(id.clone()));
    let items = vec![
        MenuItem::new('w', "wait for the server", MenuAction::Close),
        MenuItem::new('s', "cancel the call now and keep the checkpoint", stop),
    ];
    Dialog::new("Still running", body, items)
}
