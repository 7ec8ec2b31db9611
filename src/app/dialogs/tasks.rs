//! How dialogs name tasks.

use crate::{
    app::State,
    domain::{TaskId, text},
};

/// Tasks to list; the others are counted.
pub(super) const MAX_LISTED: usize = 6;

/// A task's id, title, telling argument and server.
pub(super) fn name_of(state: &State, id: &TaskId) -> String {
    state.task(id).map_or_else(
        || id.to_string(),
        |task_row| {
            let (title, argument) = state.label(task_row);
            let argument = argument.map_or(String::new(), |(key, value)| format!(" {key}={value}"));
            let server = text::clean_line(task_row.view.task.server.as_str()).into_owned();
            format!("{id} {title}{argument} on {server}")
        },
    )
}
