//! The line with the path to save something to.

use crate::{
    app::{
        Action, Command, Field, KeyPress, Overlay, SaveContent, State,
        task_actions::report_requested,
    },
    domain::TaskId,
};

/// Asks where to export tasks to: a file, or a directory for several.
pub(in crate::app) fn ask_for_path(state: &mut State, tasks: Vec<TaskId>) {
    let name = match tasks.as_slice() {
        [id] => format!("{id}.json"),
        _ => ".".to_owned(),
    };
    state.dialogs.stack.push(Overlay::SaveAs {
        field: Field::new(name),
        tasks,
        what: SaveContent::Json,
    });
}

pub(in crate::app) fn save_key(
    state: &mut State,
    field: &mut Field,
    tasks: &[TaskId],
    what: SaveContent,
    key: KeyPress,
) -> bool {
    match key.action {
        Some(Action::Accept) => {
            let path = field.text().trim().to_owned();
            if path.is_empty() {
                state.reply("not saved: no file name given");
            } else {
                save_each(state, tasks, what, path);
            }
        }
        Some(Action::Back) => state.reply("not saved"),
        _ => {
            field.key(key.chord);
            return true;
        }
    }
    false
}

/// Saves one task to a file, or several tasks to a directory with one file each.
fn save_each(state: &mut State, tasks: &[TaskId], what: SaveContent, path: String) {
    if let [task] = tasks {
        let task = task.clone();
        return state.command(Command::Save { task, what, path });
    }
    let directory = if path.ends_with('/') {
        path
    } else {
        path + "/"
    };
    for task in tasks {
        let path = format!("{directory}{task}.json");
        let task = task.clone();
        state.command(Command::Save { task, what, path });
    }
    report_requested(state, tasks, "export");
}
