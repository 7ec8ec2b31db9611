//! What to do with a part of a result.

use crate::{
    app::{Dialog, Field, Menu, MenuAction, MenuItem, Overlay, ResultPart, State},
    domain::{TaskId, UrlPreview},
};

/// Asks for the path to save a part to, or what to do with a link.
pub(in crate::app) fn open(state: &mut State, task: TaskId, part: &ResultPart) {
    if let Some(link) = &part.link {
        let title = format!("Link in {task}");
        let dialog = Dialog::new(title, link_body(part, link), link_items(link));
        return state.dialogs.open_menu(Menu::Fixed(Box::new(dialog)));
    }
    state.dialogs.stack.push(Overlay::SaveAs {
        field: Field::new(format!("{task}-{}.{}", part.number + 1, part.extension)),
        task,
        part: part.number,
    });
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
