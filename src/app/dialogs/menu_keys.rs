//! Dialogs with a list of actions: what each one shows, and what its keys do.

use crate::{
    app::{
        Action, Command, Exit, ExitWhen, Field, Overlay, State,
        call::repeat,
        key_press::KeyPress,
        quit::{cancel_all_and_quit, quit as quit_now},
        requests::request,
        seen::mark_seen,
        select,
        servers::request_next_consent,
        task_actions::{forget, report_requested, run_again},
    },
    domain::{Mono, NoticeLevel, SessionRequest, Stamp},
};

use super::{
    cancel, consent, copy, export, import, inject_fault,
    keys::ignore_early_key,
    menu::{Dialog, Menu, MenuAction, was_readable},
    part, quit, repeat, sign_in, stop_now, views, what_now,
};

/// What a dialog shows, and what its keys do.
pub fn dialog(state: &State, menu: &Menu, now: Stamp) -> Dialog {
    match menu {
        Menu::Quit { stops_keeper } => quit::dialog(state, *stops_keeper),
        Menu::Cancel(tasks) => cancel::dialog(state, tasks),
        Menu::StopNow(id) => stop_now::dialog(state, id, now),
        Menu::WhatNow(id) => what_now::dialog(state, id),
        Menu::Copy(id) => copy::dialog(state, id),
        Menu::Export(tasks) => export::dialog(state, tasks),
        Menu::InjectFault => inject_fault::dialog(),
        Menu::Import { lines, new } => import::dialog(state, lines, *new),
        Menu::Views => views::dialog(state),
        Menu::Consent {
            server,
            lines,
            digest,
            is_program,
        } => consent::dialog(state, server, lines, digest, *is_program),
        Menu::Part { task, part } => part::dialog(state, task, part),
        Menu::Repeat {
            server,
            tool,
            reason,
            is_unchecked,
        } => repeat::dialog(server, tool, reason, *is_unchecked),
        Menu::SignIn { server, page } => sign_in::dialog(state, server, page),
    }
}

/// Handles a key. `drawn` is when the dialog was first drawn.
pub(in crate::app) fn menu_key(
    state: &mut State,
    menu: Menu,
    (cursor, drawn): (usize, Option<Mono>),
    key: KeyPress,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    let dialog = dialog(state, &menu, key.now);
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
        run(state, dialog.on_close, key.now, effects);
        return None;
    }
    let stay = |cursor: usize| Overlay::Menu {
        menu,
        cursor,
        drawn,
    };
    if dialog.ignores_early_keys && !was_readable(drawn, key.now) {
        ignore_early_key(state, key.chord);
        return Some(stay(cursor));
    }
    let picked = match (by_key, key.action) {
        (Some(at), _) => at,
        (None, Some(Action::Accept)) => cursor.min(last),
        (None, Some(Action::Down)) => return Some(stay((cursor + 1).min(last))),
        (None, Some(Action::Up)) => return Some(stay(cursor.saturating_sub(1))),
        (None, Some(Action::First | Action::PageUp)) => return Some(stay(0)),
        (None, Some(Action::Last | Action::PageDown)) => return Some(stay(last)),
        _ => {
            let [down, up] = [Action::Down, Action::Up].map(|it| state.key(it));
            state.reply(format!(
                "choose with {down} {up} and Enter, or by letter; Esc closes"
            ));
            return Some(stay(cursor));
        }
    };
    let item = dialog.items.into_iter().nth(picked)?;
    if let Some(reason) = &item.why_not {
        state.reply(format!("{}: {reason}", item.label));
        return Some(stay(picked));
    }
    if let MenuAction::Read { title, lines } = item.action {
        state.dialogs.stack.push(stay(picked));
        state.dialogs.open_page(title, lines);
        return None;
    }
    run(state, item.action, key.now, effects);
    None
}

fn run(state: &mut State, action: MenuAction, now: Stamp, effects: &mut Vec<Command>) {
    match action {
        // A page opens above the dialog, which stays open.
        MenuAction::Close | MenuAction::Read { .. } => {}
        MenuAction::Request(what) => request(state, what, effects),
        MenuAction::Cancel(tasks) => {
            for id in &tasks {
                request(state, SessionRequest::Cancel(id.clone()), effects);
            }
            report_requested(state, &tasks, "cancel");
        }
        MenuAction::Decide(id, then) => {
            mark_seen(state, &id, effects);
            run(state, *then, now, effects);
        }
        MenuAction::Copy(copied) => {
            effects.push(Command::Copy(copied));
            state.show_toast(NoticeLevel::Info, "sent to the terminal's clipboard", now);
        }
        MenuAction::InjectFault(what) => effects.push(Command::InjectFault(what)),
        MenuAction::ShowView(view) => {
            view.show(&mut state.list);
            select::arrange(state);
            state.reply(format!("view: {}", view.message()));
        }
        MenuAction::ImportServers => effects.push(Command::ImportServers),
        MenuAction::Approve { server, digest } => effects.push(Command::Approve { server, digest }),
        MenuAction::Refuse => request_next_consent(state, effects),
        MenuAction::Postpone => {
            state.dialogs.awaiting_consent.clear();
            let [key, servers] = [Action::SignIn, Action::ShowServers].map(|it| state.key(it));
            state.reply(format!(
                "not approved; to decide later, open the servers ({servers}) and press {key}"
            ));
        }
        MenuAction::OpenPage { url, reply } => {
            effects.push(Command::OpenPage(url));
            state.reply(reply);
        }
        MenuAction::SaveAs { tasks, what, name } => state.dialogs.stack.push(Overlay::SaveAs {
            field: Field::new(name),
            tasks,
            what,
        }),
        MenuAction::OpenPart { task, part } => {
            effects.push(Command::OpenPart { task, part });
            state.reply("opening it");
        }
        MenuAction::RunAgain(id) => run_again(state, &id, Vec::new(), effects),
        MenuAction::Repeat { is_unchecked } => repeat(state, is_unchecked, now, effects),
        MenuAction::Forget(id) => forget(state, vec![id], now, effects),
        MenuAction::Stay => state.exit = Exit::default(),
        MenuAction::Quit => quit_now(state, effects),
        MenuAction::QuitOnceNothingLost => state.exit.when = ExitWhen::NothingLost,
        MenuAction::CancelAllAndQuit => cancel_all_and_quit(state, now, effects),
    }
}
