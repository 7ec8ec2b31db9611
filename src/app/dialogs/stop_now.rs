//! The dialog for a task that was asked to pause but is still making progress.

use crate::{
    app::{Dialog, MenuAction, MenuItem, State},
    domain::{ControlKind, SessionRequest, Stamp, TaskId, text},
};

use super::tasks::name_of;

pub(super) fn dialog(state: &State, id: &TaskId, now: Stamp) -> Dialog {
    let task = state.task(id).map(|task_row| &task_row.view.task);
    let asked = task.and_then(|task| task.control);
    let asked = asked.filter(|asked| asked.what == ControlKind::Pausing);
    let status = match asked {
        Some(asked) => format!(
            "Pause requested {} ago; the server has not stopped the call yet.",
            text::span(now.wall.since(asked.at))
        ),
        None => "The task is no longer pausing. Press Esc to close this dialog.".to_owned(),
    };
    let stop = MenuAction::Request(SessionRequest::StopNow(id.clone()));
    let stop = MenuItem::new('s', "stop the call now and keep the checkpoint", stop);
    let why_not = asked.is_none().then(|| "no pause is pending".to_owned());
    let wait = MenuItem::new('w', "wait for the server", MenuAction::Close);
    let items = vec![wait, stop.unless(why_not)];
    Dialog::new("Stop the call now?", [name_of(state, id), status], items)
}
