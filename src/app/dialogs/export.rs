//! The dialog to export tasks to files.

use crate::{
    app::{SaveContent, State, select::hidden_among_marked},
    domain::TaskId,
};

use super::menu::{Dialog, MenuAction, MenuItem};

pub(super) fn dialog(state: &State, tasks: &[TaskId]) -> Dialog {
    let title = match tasks {
        [id] => format!("Export {id}"),
        tasks => format!("Export {} tasks", tasks.len()),
    };
    let save = MenuAction::SaveAs {
        tasks: tasks.to_vec(),
        what: SaveContent::Json,
        name: match tasks {
            [id] => format!("{id}.json"),
            _ => ".".to_owned(),
        },
    };
    let items = vec![
        MenuItem::new('j', "as JSON", save),
        MenuItem::new('n', "do nothing", MenuAction::Close),
    ];
    Dialog::new(title, body(state, tasks), items).harmless()
}

fn body(state: &State, tasks: &[TaskId]) -> Vec<String> {
    let flags = &state.setup.flags;
    let id = tasks.first().map_or("ID", TaskId::as_str);
    let mut lines = Vec::new();
    if tasks.len() > 1 {
        lines.push("Each marked task gets its own file.".to_owned());
        let hidden = hidden_among_marked(state, tasks);
        if hidden > 0 {
            lines.push(format!("{hidden} of them hidden"));
        }
    }
    lines.push(
        "A record for bug reports, without secrets. Text from you and from servers is replaced by its size.".to_owned(),
    );
    lines.push(format!(
        "To include the text: longhaul export {id}{flags} --with-content"
    ));
    lines
}
