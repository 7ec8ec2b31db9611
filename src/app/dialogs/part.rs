//! The dialog to save or open a part of a result.

use crate::{
    app::{Dialog, MenuAction, MenuItem, ResultPart, SaveContent, State},
    domain::{TaskId, UrlPreview},
};

pub(super) fn dialog(state: &State, task: &TaskId, part: &ResultPart) -> Dialog {
    if let Some(link) = &part.link {
        return Dialog::new(
            format!("Link in {task}"),
            link_body(part, link),
            link_items(link),
        );
    }
    let title = format!("Block {} of {task}", part.number + 1);
    Dialog::new(title, body(state, part), items(state, task, part))
}

fn link_body(part: &ResultPart, link: &UrlPreview) -> Vec<String> {
    let opens = link
        .can_open
        .then(|| format!("Opens a page at {}.", link.host));
    let lines = std::iter::once(part.description.clone()).chain(opens);
    let warnings = link.warnings.iter().map(|it| format!("Warning: {it}"));
    lines.chain(warnings).collect()
}

fn link_items(link: &UrlPreview) -> Vec<MenuItem> {
    let open = MenuAction::OpenPage {
        url: link.full_url(),
        reply: "opening in your browser".to_owned(),
    };
    let why_not = (!link.can_open).then(|| link.warnings.first().cloned().unwrap_or_default());
    vec![
        MenuItem::new('y', "copy its URI", MenuAction::Copy(link.full_url())),
        MenuItem::new('o', format!("open {} in the browser", link.host), open).unless(why_not),
        MenuItem::new('n', "do nothing", MenuAction::Close),
    ]
}

fn body(state: &State, part: &ResultPart) -> Vec<String> {
    let mut lines = vec![part.description.clone()];
    if let (None, Some(viewer)) = (&part.why_not, &state.setup.viewer) {
        lines.push(format!(
            "Writes a private copy and runs: {viewer} FILE.{}",
            part.extension
        ));
        lines.push("The copy is deleted when longhaul exits.".to_owned());
    }
    lines
}

fn items(state: &State, task: &TaskId, part: &ResultPart) -> Vec<MenuItem> {
    let save = MenuAction::SaveAs {
        tasks: vec![task.clone()],
        what: SaveContent::Part(part.number),
        name: format!("{task}-{}.{}", part.number + 1, part.extension),
    };
    let open = MenuAction::OpenPart {
        task: task.clone(),
        part: part.number,
    };
    let (label, no_viewer) = match &state.setup.viewer {
        Some(viewer) => (format!("open it with {viewer}"), None),
        None => ("open it".to_owned(), Some("no desktop to open it on")),
    };
    let why_not = part.why_not.clone();
    let why_not = why_not.or_else(|| no_viewer.map(str::to_owned));
    vec![
        MenuItem::new('s', "save it to a file", save),
        MenuItem::new('o', label, open).unless(why_not),
        MenuItem::new('n', "do nothing", MenuAction::Close),
    ]
}
