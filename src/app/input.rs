//! Handles keys, pasted text and the mouse. A key that has no effect gets a reply with the reason.

mod actions;
mod forms;
mod layers;
mod mouse;
mod moves;
mod questions;

use core::time::Duration;

use crate::domain::{
    Chord, NoticeLevel, ServerName, SessionRequest, SessionRequestId, Stamp, TaskId, text,
};

use super::{
    Command, Group, Menu, Overlay, Pane, State, TaskRow, UserInput,
    keymap::{Action, pretty},
    select, server_needs,
    session::RequestPurpose,
    state::WindowFocus,
    status::scope,
};

pub(super) use actions::drive;
pub use actions::why_not;
pub(super) use moves::show_tab;
pub(super) use questions::{close_withdrawn_question, on_answer_saved};

use actions::{apply_filter, interrupt, perform};
use forms::{call_key, edit_key};
use layers::{filter_key, help_key, menu_key, page_key, palette_key, save_key, search_key};
use questions::question_key;

/// A row counts as seen after the cursor has rested on it this long.
const DWELL: Duration = Duration::from_millis(1_500);
/// A visible row that ended at least this long ago counts as seen at the next key press, which proves that the user is
/// there.
const WATCHED: Duration = Duration::from_secs(3);

/// Applies an input event.
pub(super) fn apply(state: &mut State, input: UserInput, now: Stamp, effects: &mut Vec<Command>) {
    match input {
        UserInput::Key(chord) => on_key(state, chord.normalized(), now, effects),
        UserInput::Mouse(action, column, row) => {
            mouse::on_mouse(state, action, (column, row), now, effects);
        }
        UserInput::Paste(pasted) => paste(state, &pasted, now),
        UserInput::Resize(columns, rows) => {
            state.size = (columns, rows);
            select::keep_in_sight(state);
        }
        UserInput::FocusGained => {
            state.window = WindowFocus::Focused;
            check_config(state, false, effects);
        }
        UserInput::FocusLost => state.window = WindowFocus::Lost,
    }
}

fn paste(state: &mut State, pasted: &str, now: Stamp) {
    match state.dialogs.stack.last_mut() {
        Some(Overlay::Palette { field, cursor } | Overlay::Help { field, cursor }) => {
            field.paste(pasted);
            *cursor = 0;
        }
        Some(Overlay::Filter(field)) => {
            field.paste(pasted);
            let typed = field.text().to_owned();
            apply_filter(state, &typed);
        }
        Some(Overlay::Search(field) | Overlay::SaveAs { field, .. }) => field.paste(pasted),
        Some(Overlay::Edit(form)) => {
            let at = form.at;
            if let Some(field) = form.fields.get_mut(at) {
                field.paste(pasted);
            }
        }
        Some(Overlay::Call(form)) => {
            form.clear_errors();
            if let Some(field) = form.text_field() {
                field.paste(pasted);
            }
        }
        Some(Overlay::Question(form)) => {
            let is_read = form.is_read(now);
            match form.text_field().filter(|_| is_read) {
                Some(field) => field.paste(pasted),
                None => state.reply("press Tab to focus a field, then paste"),
            }
        }
        Some(Overlay::Page { .. } | Overlay::Menu { .. }) => {}
        None => {
            let keys = [Action::Filter, Action::NewCall, Action::Palette].map(|it| state.key(it));
            let keys = keys.join(" ");
            state.reply(format!(
                "pasted text isn't read as keys; open a field first ({keys} )"
            ));
        }
    }
}

fn on_key(state: &mut State, chord: Chord, now: Stamp, effects: &mut Vec<Command>) {
    mark_seen_rows(state, now, effects);
    state.last_key = Some(now.mono);
    state.list.cursor_still_since = Some(now.mono);
    state.messages.reply = None;
    let scope = scope(state);
    let action = state.setup.keys.lookup(scope, chord);
    match action {
        Some(Action::Interrupt) => return interrupt(state, now, effects),
        Some(Action::Suspend) => return effects.push(Command::Suspend),
        Some(Action::Redraw) => return effects.push(Command::Redraw),
        _ => {}
    }
    // The top layer handles the key; it is put back unless it closes itself.
    if let Some(overlay) = state.dialogs.stack.pop() {
        let stays = match overlay {
            Overlay::Help { field, cursor } => {
                help_key(state, field, cursor, action, chord, now, effects)
            }
            Overlay::Page {
                title,
                lines,
                scroll,
            } => page_key(state, title, lines, scroll, action),
            Overlay::Menu {
                menu,
                cursor,
                drawn,
            } => menu_key(state, menu, cursor, drawn, action, chord, now, effects),
            Overlay::Palette { field, cursor } => {
                palette_key(state, field, cursor, action, chord, now, effects)
            }
            Overlay::Filter(field) => filter_key(state, field, action, chord),
            Overlay::Search(field) => search_key(state, field, action, chord),
            Overlay::SaveAs { field, tasks, what } => {
                save_key(state, (field, tasks, what), action, chord, effects)
            }
            Overlay::Call(form) => call_key(state, form, action, chord, now, effects),
            Overlay::Edit(form) => edit_key(state, form, action, chord, effects),
            Overlay::Question(form) => question_key(state, form, action, chord, now, effects),
        };
        if let Some(overlay) = stays {
            state.dialogs.stack.push(overlay);
        }
        return;
    }
    match action {
        Some(action) => perform(state, action, now, effects),
        None => state.reply(format!(
            "{} does nothing here; press {} for the keys",
            pretty(chord),
            state.key(Action::Help)
        )),
    }
}

/// Marks what was visible until now as seen: a key press proves that the user is there.
fn mark_seen_rows(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    if !state.dialogs.stack.is_empty() || state.pane != Pane::Tasks {
        return;
    }
    let is_read = state
        .list
        .cursor_still_since
        .is_some_and(|since| now.mono.since(since) >= DWELL);
    // A failed or lost task needs more than a look: it stays until the user decides.
    let is_done = |task_row: &TaskRow| task_row.group() == Group::Done;
    if is_read
        && let Some(id) = state.list.cursor.clone()
        && state.task(&id).is_some_and(is_done)
    {
        mark_seen(state, &id, effects);
    }
    for id in select::visible_rows(state) {
        let was_watched = state.task(&id).is_some_and(|task_row| {
            task_row.ended_unseen()
                && task_row.group() == Group::Done
                && task_row
                    .settled_at
                    .is_some_and(|at| now.mono.since(at) >= WATCHED)
        });
        if was_watched {
            mark_seen(state, &id, effects);
        }
    }
}

/// Records, here and on disk, that the user has seen how a task ended.
pub(super) fn mark_seen(state: &mut State, id: &TaskId, effects: &mut Vec<Command>) {
    if !state.task(id).is_some_and(TaskRow::ended_unseen) {
        return;
    }
    state.count(id, false);
    if let Some(task_row) = state.tasks.get_mut(id) {
        task_row.is_seen = true;
        if task_row.listed_group != task_row.group() {
            state.list.refresh.regrouping.insert(id.clone());
        }
    }
    state.count(id, true);
    state.list.refresh.is_order_stale = true;
    state.list.refresh.are_headings_stale = true;
    if !state.setup.readonly {
        request(
            state,
            SessionRequest::Seen(id.clone()),
            RequestPurpose::Other,
            effects,
        );
    }
}

/// Sends a request and remembers what it is for.
pub(super) fn request(
    state: &mut State,
    request: SessionRequest,
    pending: RequestPurpose,
    effects: &mut Vec<Command>,
) -> SessionRequestId {
    let id = state.requests.next;
    state.requests.next = state.requests.next.wrapping_add(1);
    state.requests.pending.insert(id, pending);
    effects.push(Command::Request(id, request));
    id
}

/// Checks whether the configuration has changed, unless this window ignores it.
pub(super) fn check_config(state: &State, force: bool, effects: &mut Vec<Command>) {
    if !state.setup.readonly && !state.setup.is_demo {
        effects.push(Command::CheckConfig { force });
    }
}

/// Requests a server's tools unless a request is in progress.
pub(super) fn request_tools(state: &mut State, server: &ServerName, effects: &mut Vec<Command>) {
    let is_requested = state
        .tools
        .get(server)
        .is_some_and(|tools| tools.request.is_some());
    if is_requested {
        return;
    }
    let id = request(
        state,
        SessionRequest::Tools(server.clone()),
        RequestPurpose::Tools(server.clone()),
        effects,
    );
    let tools = state.tools.entry(server.clone()).or_default();
    tools.request = Some(id);
    tools.error = None;
}

/// Opens the consent dialog of the next imported server that needs one.
pub(super) fn request_next_consent(state: &mut State, effects: &mut Vec<Command>) {
    if let Some(server) = state.dialogs.awaiting_consent.pop_front() {
        effects.push(Command::ReadConsent(server));
    }
}

/// Shows what a server needs if nothing is left to approve.
pub(super) fn show_server_need(
    state: &mut State,
    server: &ServerName,
    message: String,
    now: Stamp,
    effects: &mut Vec<Command>,
) {
    state.log_message(NoticeLevel::Warning, &message, now.wall);
    let why = state
        .server(server)
        .and_then(|server| server_needs(state, server));
    let lines = why.into_iter().chain([message]).collect();
    let name = text::clean_line(server.as_str());
    state.dialogs.stack.push(Overlay::Page {
        title: format!("What {name} needs"),
        lines,
        scroll: 0,
    });
    request_next_consent(state, effects);
}

/// Whether a layer is about this task.
pub(super) fn is_about(overlay: &Overlay, id: &TaskId) -> bool {
    match overlay {
        Overlay::Menu { menu, .. } => match menu {
            Menu::StopNow(task)
            | Menu::WhatNow(task)
            | Menu::Copy(task)
            | Menu::Part { task, .. } => task == id,
            Menu::Cancel(tasks) | Menu::Export(tasks) => tasks.contains(id),
            Menu::Leave
            | Menu::InjectFault
            | Menu::Views
            | Menu::Import { .. }
            | Menu::Consent { .. }
            | Menu::Repeat { .. }
            | Menu::Drive(_)
            | Menu::SignIn { .. } => false,
        },
        Overlay::SaveAs { tasks, .. } => tasks.contains(id),
        Overlay::Edit(form) => &form.task == id,
        Overlay::Question(form) => &form.task == id,
        _ => false,
    }
}

/// Whether the copy menu is open, which needs the result in memory.
pub(super) fn is_copying(state: &State) -> bool {
    state.dialogs.stack.iter().any(|overlay| {
        matches!(
            overlay,
            Overlay::Menu {
                menu: Menu::Copy(_),
                ..
            }
        )
    })
}

pub(super) fn open_menu(state: &mut State, menu: Menu) {
    state.dialogs.stack.push(Overlay::Menu {
        menu,
        cursor: 0,
        drawn: None,
    });
}

/// Replies that a key was ignored because it came before the user could have read the dialog.
pub(super) fn ignore_early_key(state: &mut State, chord: Chord) {
    state.reply(format!(
        "{} ignored: it came before you could read this; press it again",
        pretty(chord)
    ));
}
