//! The dialog to approve what the configuration would send to a server or start.

use crate::{
    app::{Approval, Command, Dialog, MenuAction, MenuItem, State},
    domain::{ServerName, text},
};

use super::fit::fits;

pub(super) fn dialog(state: &State, server: &ServerName, approval: &Approval) -> Dialog {
    let lines = &approval.pending;
    let name = text::clean_line(server.as_str());
    let (title, first) = if approval.is_program {
        (
            format!("Start {name}?"),
            "It runs with your permissions. It has not been started yet.",
        )
    } else {
        (
            format!("Send these values to {name}?"),
            "The server was imported. Nothing has been sent to it yet.",
        )
    };
    let shown = lines.iter().map(|line| text::clean_line(line));
    let last = "You will be asked again if anything above changes.";
    let body = [first.into()].into_iter().chain(shown).chain([last.into()]);
    let (no, yes) = if approval.is_program {
        ("no, don't start it", "yes, start it")
    } else {
        ("no, send nothing", "yes, send them")
    };
    let approve = MenuAction::Command(Command::Approve {
        server: server.clone(),
        digest: approval.digest.clone(),
    });
    // The user must be able to read everything before approving it.
    let why_not = (!fits(state, lines)).then(|| {
        let server = text::shell_word(server.as_str());
        let flags = &state.setup.flags;
        format!("too long to show here; run `longhaul servers approve {server}{flags}`")
    });
    let items = vec![
        MenuItem::new('n', no, MenuAction::Refuse),
        MenuItem::new('y', yes, approve).unless(why_not),
    ];
    Dialog {
        on_close: MenuAction::Postpone,
        ..Dialog::new(title, body, items)
    }
}
