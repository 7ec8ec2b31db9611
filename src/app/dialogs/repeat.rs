//! The dialog before a call repeats a tool that may not be safe to repeat.

use crate::domain::ServerName;

use super::menu::{Dialog, MenuAction, MenuItem};

/// `reason` continues a sentence that starts with the server's name. `is_unchecked` sends arguments that the schema
/// rejects.
pub(in crate::app) fn dialog(
    server: &ServerName,
    tool: &str,
    reason: &str,
    is_unchecked: bool,
) -> Dialog {
    let body = [format!("{tool} on {server}"), format!("{server} {reason}.")];
    let repeat = MenuAction::Repeat { is_unchecked };
    let items = vec![
        MenuItem::new('n', "no, back to the form", MenuAction::Close),
        MenuItem::new('y', "yes, run it again", repeat),
    ];
    Dialog::new("Run it again?", body, items)
}
