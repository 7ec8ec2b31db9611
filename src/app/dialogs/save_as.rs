//! The line with the path to save something to.

use crate::{
    app::{
        Command, Field, Overlay, SaveContent, State, key_press::KeyPress, keymap::Action,
        task_actions::report_requested,
    },
    domain::TaskId,
};

pub(in crate::app) fn save_key(
    state: &mut State,
    (mut field, tasks, what): (Field, Vec<TaskId>, SaveContent),
    key: KeyPress,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    match key.action {
        Some(Action::Accept) => {
            let path = field.text().trim().to_owned();
            if path.is_empty() {
                state.reply("not saved: no file name given");
            } else {
                save_each(state, &tasks, what, path, effects);
            }
            None
        }
        Some(Action::Back) => {
            state.reply("not saved");
            None
        }
        _ => {
            field.key(key.chord);
            Some(Overlay::SaveAs { field, tasks, what })
        }
    }
}

/// Saves one task to a file, or several tasks to a directory with one file each.
fn save_each(
    state: &mut State,
    tasks: &[TaskId],
    what: SaveContent,
    path: String,
    effects: &mut Vec<Command>,
) {
    if let [task] = tasks {
        let task = task.clone();
        return effects.push(Command::Save { task, what, path });
    }
    let ending = if what == SaveContent::Page {
        "html"
    } else {
        "json"
    };
    let directory = if path.ends_with('/') {
        path
    } else {
        path + "/"
    };
    effects.extend(tasks.iter().map(|task| Command::Save {
        task: task.clone(),
        what,
        path: format!("{directory}{task}.{ending}"),
    }));
    report_requested(state, tasks, "export");
}
