//! How dialogs name tasks.

use crate::{
    app::State,
    domain::{TaskId, text},
};

/// Tasks to list; the others are counted.
pub(super) const MAX_LISTED: usize = 6;

/// A task's id, title, telling argument and server.
pub(in crate::app) fn name_of(state: &State, id: &TaskId) -> String {
    let Some(task_row) = state.task(id) else {
        return id.to_string();
    };
    let server = text::clean_line(task_row.view.task.server.as_str());
    format!("{id} {} on {server}", state.whole_label(task_row))
}
