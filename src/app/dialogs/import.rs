//! The dialog to import servers from other MCP clients.

use crate::{
    app::{Command, Dialog, MenuAction, MenuItem, State},
    domain::text,
};

use super::fit::fits;

/// `lines` has a line for each file and server, `new` is the number of new servers.
pub(super) fn dialog(state: &State, lines: &[String], new: usize) -> Dialog {
    let first = "This doesn't contact any server or start any program.";
    let found = lines.iter().map(|line| text::clean_line(line));
    let body = [first.into()].into_iter().chain(found);
    let count = text::plural(new, "server");
    let take = MenuItem::new(
        't',
        format!("import {count}"),
        MenuAction::Command(Command::ImportServers),
    );
    let mut items = match new {
        0 => vec![MenuItem::new(
            'n',
            "close; nothing new to import",
            MenuAction::Close,
        )],
        _ => vec![MenuItem::new('n', "not now", MenuAction::Close), take],
    };
    if !fits(state, lines) {
        let read = MenuAction::Read {
            title: "Servers found".to_owned(),
            lines: lines.to_vec(),
        };
        items.push(MenuItem::new('r', "show everything", read));
    }
    Dialog::new("Import servers?", body, items).harmless()
}
