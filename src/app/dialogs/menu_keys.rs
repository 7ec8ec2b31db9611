//! Dialogs with a list of actions: what each one shows, and what its keys do.

use crate::{
    app::{
        Action, Command, Dialog, Exit, ExitWhen, KeyPress, Menu, MenuAction, State,
        call::repeat,
        quit::{cancel_all_and_quit, quit as quit_now},
        requests::request,
        seen::mark_seen,
        servers::request_next_approval,
        task_actions::{forget, report_requested, run_again},
    },
    domain::{Mono, SessionRequest, Stamp},
};

use super::{
    approval, cancel, copy, import, keys::ignore_early_key, menu::was_readable, page::scrolled,
    quit, stop_now, what_now,
};

/// What a dialog shows, and what its keys do.
pub fn dialog(state: &State, menu: &Menu, now: Stamp) -> Dialog {
    match menu {
        Menu::Quit { stops_keeper } => quit::dialog(state, *stops_keeper),
        Menu::Cancel(tasks) => cancel::dialog(state, tasks),
        Menu::StopNow(id) => stop_now::dialog(state, id, now),
        Menu::WhatNow(id) => what_now::dialog(state, id),
        Menu::Copy(id) => copy::dialog(state, id),
        Menu::Fixed(dialog) => (**dialog).clone(),
        Menu::Import { lines, new } => import::dialog(state, lines, *new),
        Menu::Approval(server, approval) => approval::dialog(state, server, approval),
    }
}

/// Handles a key; returns `false` to close the dialog. `drawn` is when it was first drawn.
pub(in crate::app) fn menu_key(
    state: &mut State,
    menu: &Menu,
    selected: &mut Option<char>,
    drawn: Option<Mono>,
    key: KeyPress,
) -> bool {
    let dialog = dialog(state, menu, state.now());
    let last = dialog.items.len().saturating_sub(1);
    let letter = key.chord.typed();
    let by_key = letter.and_then(|letter| dialog.items.iter().position(|item| item.key == letter));
    // An item's letter wins over the user's key for quitting.
    let is_close = match key.action {
        Some(Action::Back) => true,
        Some(Action::Quit) => by_key.is_none(),
        _ => false,
    };
    if is_close {
        run(state, dialog.on_close);
        return false;
    }
    if dialog.ignores_early_keys && !was_readable(drawn, state.now()) {
        ignore_early_key(state, key.chord);
        return true;
    }
    let cursor = dialog.index_of(*selected);
    let chosen = match (by_key, key.action) {
        (Some(at), _) => at,
        (None, Some(Action::Accept)) => cursor,
        (None, action) => {
            if let Some(at) = scrolled(cursor, last, last, action) {
                *selected = dialog.items.get(at).map(|item| item.key);
            } else {
                let [down, up] = [Action::Down, Action::Up].map(|it| state.key(it));
                state.reply(format!(
                    "choose with {down} {up} and Enter, or by letter; Esc closes"
                ));
            }
            return true;
        }
    };
    let Some(item) = dialog.items.into_iter().nth(chosen) else {
        return false;
    };
    if let Some(reason) = &item.why_not {
        state.reply(format!("{}: {reason}", item.label));
        return true;
    }
    if let Menu::WhatNow(id) = menu {
        mark_seen(state, id);
    }
    // A page opens above the dialog, which stays open.
    let stays = matches!(item.action, MenuAction::Read { .. });
    run(state, item.action);
    stays
}

fn run(state: &mut State, action: MenuAction) {
    match action {
        MenuAction::Close => {}
        MenuAction::Read { title, lines } => state.dialogs.open_page(title, lines),
        MenuAction::Request(what) => request(state, what),
        MenuAction::Cancel(tasks) => {
            for id in &tasks {
                request(state, SessionRequest::Cancel(id.clone()));
            }
            report_requested(state, &tasks, "cancel");
        }
        MenuAction::Copy(copied) => state.copy(copied),
        MenuAction::Command(command) => state.command(command),
        MenuAction::Refuse => request_next_approval(state),
        MenuAction::Postpone => {
            state.dialogs.awaiting_approval.clear();
            let [key, servers] = [Action::SignIn, Action::ShowServers].map(|it| state.key(it));
            state.reply(format!(
                "nothing approved or sent; to decide later, press {key} in the servers pane ({servers})"
            ));
        }
        MenuAction::OpenPage { url, reply } => {
            state.command(Command::OpenPage(url));
            state.reply(reply);
        }
        MenuAction::RunAgain(id) => run_again(state, &id, Vec::new()),
        MenuAction::Repeat { is_unchecked } => repeat(state, is_unchecked),
        MenuAction::Forget(id) => forget(state, vec![id]),
        MenuAction::Stay => state.exit = Exit::default(),
        MenuAction::Quit => quit_now(state),
        MenuAction::QuitOnceNothingLost => state.exit.when = ExitWhen::NothingLost,
        MenuAction::CancelAllAndQuit => cancel_all_and_quit(state),
    }
}
