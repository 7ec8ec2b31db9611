//! The dialog to copy something of a task.

use crate::{
    app::{Dialog, MenuAction, MenuItem, State, Tab, TaskRow, call::command, detail},
    domain::{TaskId, text},
};

/// The most bytes to copy to a terminal's clipboard (OSC 52); terminals refuse more.
const MAX_COPY_BYTES: usize = 1 << 20;

pub(super) fn dialog(state: &State, id: &TaskId) -> Dialog {
    let body = "Copies through the terminal (OSC 52), if it allows that.";
    let items = match state.task(id) {
        Some(task_row) => items(state, task_row),
        None => vec![MenuItem::new('c', "close", MenuAction::Close)],
    };
    Dialog::new(format!("Copy {id}"), [body], items).harmless()
}

fn copy(key: char, label: impl Into<String>, text: impl Into<String>) -> MenuItem {
    MenuItem::new(key, label, MenuAction::Copy(text.into()))
}

fn items(state: &State, task_row: &TaskRow) -> Vec<MenuItem> {
    let task = &task_row.view.task;
    let id = &task.id;
    let attach = format!("longhaul attach {id}{}", state.setup.flags);
    let again = command(
        state,
        task.server.as_str(),
        &task.tool,
        &serde_json::from_str(&task.arguments).unwrap_or_default(),
        task.name.as_deref(),
    );
    let mut items = vec![
        copy('i', format!("id: {id}"), id.to_string()),
        copy('a', format!("command: {attach}"), attach),
        copy('n', "command that runs it again", again),
        copy('j', "arguments as JSON", text::clean_line(&task.arguments)),
        result_item(state, task_row),
    ];
    if let Some(error) = &task.end.error {
        items.push(copy('e', "error", text::clean_block(&error.message)));
    }
    // The link under the cursor.
    let here = state.detail.results.get(id);
    let here = here.filter(|_| state.detail.tab == Tab::Result);
    let part = here.and_then(|result| result.parts.get(result.document.part_here()?));
    if let Some(link) = part.and_then(|part| part.link.as_ref()) {
        items.push(copy('u', "URI of this link", link.full_url()));
    }
    if !state.list.marks.is_empty() {
        let ids: Vec<&str> = state.list.marks.iter().map(TaskId::as_str).collect();
        let label = match ids.len() {
            1 => "id of the marked task".to_owned(),
            count => format!("ids of the {}", text::plural(count, "marked task")),
        };
        items.push(copy('m', label, ids.join(" ")));
    }
    if let Some(line) = detail::curl(state, task_row) {
        items.push(copy('h', "curl command that resumes its stream", line));
    }
    items
}

fn result_item(state: &State, task_row: &TaskRow) -> MenuItem {
    let task = &task_row.view.task;
    let result = state.detail.results.get(&task.id);
    let document = result.map(|result| &result.document);
    let why_not = match document.filter(|document| !document.is_empty()) {
        Some(document) if document.bytes() <= MAX_COPY_BYTES => {
            return copy('r', "result", document.plain(usize::MAX));
        }
        Some(_) => "too long for a terminal's clipboard",
        None if task.end.result_bytes.is_some() => "still loading",
        None => "no result",
    };
    MenuItem::new('r', "result", MenuAction::Close).unless(Some(why_not.to_owned()))
}
