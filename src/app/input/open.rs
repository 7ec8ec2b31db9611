//! Enter opens what is under the cursor, Esc and `q` go back, and some keys open the form of a new call.

use serde_json::Map;

use crate::domain::{LinkState, ServerName, ServerView, Status};

use super::{
    super::{
        CallForm, ExitWhen, Focus, Group, Menu, Overlay, Pane, Stage, State, Tab,
        availability::{has_folds, why_not},
        call::restore_draft,
        dialogs::{filter::apply_filter, question::open_question},
        form::InitialValue,
        keymap::Action,
        quit::quit_or_ask,
        requests::request_tools,
        seen::mark_seen,
        select,
        servers::no_server,
        tasks::freeze,
    },
    moves::{fold_here, show_tab, show_tools, to_selected_task, to_tasks},
};

/// Enter: opens what is under the cursor.
pub(super) fn open(state: &mut State) {
    match state.pane {
        Pane::Tasks => open_task(state),
        Pane::Tools => open_tool(state),
        Pane::Servers => match state.servers.get(state.cursors[1]) {
            Some(server) => {
                let name = server.name.clone();
                show_tools(state, name);
                state.tools_pane.from = Pane::Servers;
            }
            None => no_server(state),
        },
        Pane::Timeline => match to_selected_task(state) {
            Ok(()) => open_task(state),
            Err(error) => state.reply(error.to_string()),
        },
        Pane::Messages => {
            let key = state.key(Action::Print);
            state.reply(format!(
                "messages can't be opened; press {key} on a task to print it"
            ));
        }
    }
}

fn open_task(state: &mut State) {
    let Some(task_row) = state.selected() else {
        let key = state.key(Action::NewCall);
        return state.reply(format!("nothing to open; press {key} to start a call"));
    };
    let id = task_row.view.task.id.clone();
    let status = task_row.view.task.status.clone();
    let is_pressing = task_row.group() == Group::NeedsYou;
    if !is_pressing {
        mark_seen(state, &id);
    }
    match status {
        Status::Unknown(_) | Status::Lost(_) => state.dialogs.open_menu(Menu::WhatNow(id)),
        Status::InputRequired if why_not(state, Action::Answer).is_none() => {
            open_question(state);
        }
        // The user has read its error by now.
        Status::Failed
            if is_pressing && state.detail.focus == Focus::Detail && state.detail.is_zoomed =>
        {
            state.dialogs.open_menu(Menu::WhatNow(id));
        }
        _ if state.detail.focus == Focus::Detail && state.detail.is_zoomed && has_folds(state) => {
            fold_here(state);
        }
        _ if state.detail.focus == Focus::Detail && state.detail.is_zoomed => {
            state.reply("nothing more to open; Esc goes back");
        }
        status => {
            if matches!(status, Status::Completed | Status::Failed) {
                show_tab(state, Tab::Result);
            }
            if status == Status::Failed && is_pressing {
                let [key, remove] = [Action::Open, Action::Forget].map(|it| state.key(it));
                state.reply(format!(
                    "press {key} again for recovery options, or {remove} to remove it from the list"
                ));
            }
            if status == Status::InputRequired
                && let Some(reason) = why_not(state, Action::Answer)
            {
                state.reply(reason);
            }
            state.detail.focus = Focus::Detail;
            state.detail.is_zoomed = true;
        }
    }
}

fn open_tool(state: &mut State) {
    let chosen = state.tools_pane.server.clone().and_then(|server| {
        let tools = state.tools.get(&server)?;
        Some((server, tools.list.get(state.cursors[0])?.clone()))
    });
    let Some((server, tool)) = chosen else {
        let key = state.key(Action::ShowServers);
        return state.reply(format!("no tool to call; press {key} for the servers"));
    };
    if let Some(reason) = why_not(state, Action::NewCall) {
        return state.reply(reason);
    }
    let mut form = CallForm::new(state);
    form.server = Some(server);
    form.set_tool(tool, &Map::new(), InitialValue::Default);
    restore_draft(state, &mut form);
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}

/// Esc: goes back one step, but never quits.
pub(super) fn back(state: &mut State) {
    if state.pane == Pane::Tools && state.tools_pane.from == Pane::Servers {
        state.pane = Pane::Servers;
    } else if state.pane != Pane::Tasks {
        to_tasks(state);
    } else if state.detail.focus == Focus::Detail || state.detail.is_zoomed {
        // The search ends when its pane closes.
        state.detail.search = None;
        state.detail.focus = Focus::List;
        state.detail.is_zoomed = false;
    } else if matches!(
        state.exit.when,
        ExitWhen::NothingLost | ExitWhen::Cancelled(_)
    ) {
        state.exit.when = ExitWhen::No;
        state.reply("staying");
    } else if state.away.take().is_some() {
        // The banner is closed.
    } else if !state.list.marks.is_empty() {
        state.list.marks.clear();
    } else if !state.list.filter.is_empty() {
        apply_filter(state, "");
    } else if state.list.needs_only {
        state.list.needs_only = false;
        select::arrange(state);
    } else if state.frozen.is_some() {
        freeze(state);
    } else if !state.messages.toasts.is_empty() {
        state.messages.toasts.clear();
    } else {
        let key = state.key(Action::Quit);
        state.reply(format!("nothing to close; press {key} to quit"));
    }
    select::keep_in_sight(state);
}

/// `q`: goes back one step, and quits from the list.
pub(super) fn close_or_quit(state: &mut State) {
    if state.pane != Pane::Tasks {
        to_tasks(state);
    } else if state.detail.is_zoomed || state.detail.focus == Focus::Detail {
        state.detail.is_zoomed = false;
        state.detail.focus = Focus::List;
        select::keep_in_sight(state);
    } else {
        quit_or_ask(state);
    }
}

pub(super) fn new_call(state: &mut State) {
    let form = CallForm::new(state);
    if let (Stage::Tool, Some(server)) = (form.stage, form.server.clone()) {
        request_tools(state, &server);
    }
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}

/// Opens the tool search over all servers. Requests the tools of connected servers only; opens no connection.
pub(super) fn find_tool(state: &mut State) {
    let is_unasked = |server: &&ServerView| {
        let is_known = state.tools.get(&server.name).is_some_and(|it| it.is_known);
        !is_known && matches!(server.state, LinkState::Live)
    };
    let servers = state.servers.iter().filter(is_unasked);
    let names: Vec<ServerName> = servers.map(|server| server.name.clone()).collect();
    for name in &names {
        request_tools(state, name);
    }
    let mut form = CallForm::new(state);
    (form.server, form.stage, form.is_any_server) = (None, Stage::Tool, true);
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}

pub(super) fn add_server(state: &mut State) {
    let mut form = CallForm::new(state);
    form.stage = Stage::Server;
    form.server = None;
    form.server_at = state.servers.len();
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}
