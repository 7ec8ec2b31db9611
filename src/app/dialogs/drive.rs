//! The dialog before this window becomes the driver although that ends calls.

use crate::domain::{SessionRequest, text};

use super::menu::{BodyLine, Dialog, MenuAction, MenuItem};

/// `calls` names the calls that end.
pub(super) fn dialog(calls: &str) -> Dialog {
    let body = vec![
        BodyLine::plain(text::clean_line(calls)),
        BodyLine::plain("Everything else continues."),
    ];
    let drive = MenuAction::Request(SessionRequest::HandOver { is_forced: true });
    let items = vec![
        MenuItem::new('n', "no, let it continue", MenuAction::Close),
        MenuItem::new('y', "yes, drive from here and end these calls", drive),
    ];
    Dialog::new("Drive from here?", body, items)
}
