//! The servers: adding, signing in, approval, and the tasks that they already have.

use crate::domain::{
    LinkState, NoticeLevel, ServerName, ServerRef, ServerView, SessionRequest,
    server_url::{self, UrlError},
    text,
};

use super::{
    Action, Approval, Command, Menu, Pane, ServerFindings, State,
    availability::{NoSignInNeeded, to_sign_in},
    input::moves::show,
    requests::{request, request_for, request_tools},
    server_needs,
    session::RequestPurpose,
};

pub(super) fn apply_server(state: &mut State, server: ServerView) {
    let mut servers = state.servers.iter_mut();
    match servers.find(|known| known.name == server.name) {
        Some(known) => *known = server,
        None => state.servers.push(server),
    }
}

/// The driver is gone. If this window was connected until now, the shown state is as of now.
pub(super) fn on_driver_lost(state: &mut State) {
    // Only a driver knows the state of the connections.
    for server in &mut state.servers {
        server.state = LinkState::Idle;
    }
    if !state.session.is_driverless && state.session.driver.is_some() {
        state.session.saved_at = Some(state.now().wall);
    }
    state.session.is_driverless = true;
}

/// Looks up a server by name.
pub(super) fn named(state: &State, name: &str) -> Option<ServerName> {
    let known = state.servers.iter().find(|it| it.name.as_str() == name);
    known.map(|server| server.name.clone())
}

/// The message for an unknown server name.
pub(super) fn unknown_server(state: &State, name: &str) -> String {
    let known: Vec<&str> = state.servers.iter().map(|it| it.name.as_str()).collect();
    let known = known.join(", ");
    format!("no server named {name:?}; known servers: {known}")
}

pub(super) fn no_server(state: &mut State) {
    let key = state.key(Action::AddServer);
    state.reply(format!("no servers yet; press {key} to add one by URL"));
}

/// The message for an invalid URL.
pub(super) fn invalid_url(state: &State, why: &UrlError) -> String {
    let message = format!("{why}; for a stdio server: `longhaul servers add NAME -- COMMAND`");
    text::add_flags(&message, &state.setup.flags, None)
}

/// Adds a server by URL unless it is known; returns its name.
pub(super) fn add_url(state: &mut State, typed: &str) -> Result<ServerName, UrlError> {
    let url = server_url::parse(typed.trim())?;
    let mut known = state.servers.iter();
    if let Some(known) = known.find(|known| server_url::is_same(&known.url, url.as_str())) {
        let name = known.name.clone();
        request_tools(state, &name);
        return Ok(name);
    }
    let name = ServerName::free(&server_url::short_name(&url), |name| {
        let mut servers = state.servers.iter();
        servers.any(|known| known.name.as_str() == name)
    });
    let server = ServerRef::new(name.clone(), Some(url.to_string()));
    request_for(
        state,
        SessionRequest::Server(server),
        RequestPurpose::Server(name.clone()),
    );
    Ok(name)
}

pub(super) fn adopt(state: &mut State) {
    let of_cursor = state.servers.get(state.cursors[1]);
    let of_task = || state.selected().map(|task_row| &task_row.view.task.server);
    let server = match state.pane {
        Pane::Servers => of_cursor.map(|server| &server.name),
        _ => of_task().or(state.servers.first().map(|server| &server.name)),
    };
    match server.cloned() {
        Some(server) => adopt_from(state, server),
        None => no_server(state),
    }
}

/// Imports tasks that exist on a server but not in this session.
pub(super) fn adopt_from(state: &mut State, server: ServerName) {
    let message = format!("asked {server} for its tasks");
    let adopt = SessionRequest::Adopt {
        server: server.clone(),
        server_task: None,
    };
    request_for(state, adopt, RequestPurpose::Adopt(server));
    state.reply(message);
}

pub(super) fn sign_in(state: &mut State) {
    match to_sign_in(state) {
        Ok(Some(server)) => sign_in_at(state, &server.name.clone()),
        Ok(None) => {
            show(state, Pane::Servers);
            let waits = ServerView::waits_for_user;
            state.cursors[1] = state.servers.iter().position(waits).unwrap_or(0);
            let key = state.key(Action::SignIn);
            state.reply(format!(
                "several servers need you; press {key} on one of them"
            ));
        }
        Err(NoSignInNeeded) => {}
    }
}

/// Starts the sign-in at a server, or looks up what it needs the user to approve.
pub(super) fn sign_in_at(state: &mut State, name: &ServerName) {
    let Some(server) = state.server(name) else {
        return;
    };
    let takes_sign_in = server.state.takes_sign_in();
    let name = server.name.clone();
    if takes_sign_in {
        state.reply(format!("requesting the sign-in page of {name}"));
        let sign_in = SessionRequest::SignIn(name.clone());
        request_for(state, sign_in, RequestPurpose::SignIn(name));
    } else {
        state.reply(format!("checking the configuration of {name}"));
        state.command(Command::ReadApproval(name));
    }
}

/// Opens the approval dialog of the next imported server that needs one.
pub(super) fn request_next_approval(state: &mut State) {
    if let Some(server) = state.dialogs.awaiting_approval.pop_front() {
        state.command(Command::ReadApproval(server));
    }
}

/// Shows what a server needs if nothing is left to approve.
pub(super) fn show_server_need(state: &mut State, server: &ServerName, message: String) {
    let why = state
        .server(server)
        .and_then(|server| server_needs(state, server));
    match why {
        Some(why) => {
            state.log_message(NoticeLevel::Warning, &message);
            let title = format!("What {server} needs");
            state.dialogs.open_page(title, vec![why, message]);
        }
        None => state.show_toast(NoticeLevel::Info, &message),
    }
    request_next_approval(state);
}

/// Asks whether to import the servers that were found.
pub(super) fn on_found(state: &mut State, found: ServerFindings) {
    state.messages.reply = None;
    if found.lines.is_empty() {
        return state.show_toast(NoticeLevel::Info, ServerFindings::NONE);
    }
    let ServerFindings { lines, new, .. } = found;
    state.dialogs.open_menu(Menu::Import { lines, new });
}

/// Shows what was imported, and then asks about each server that needs approval.
pub(super) fn on_imported(state: &mut State, imported: ServerFindings) {
    for line in &imported.lines {
        state.log_message(NoticeLevel::Info, line);
    }
    let count = text::plural(imported.new, "server");
    let key = state.key(Action::ShowMessages);
    let message = format!("imported {count} ({key} for details)");
    state.show_toast(NoticeLevel::Info, &message);
    let title = format!("Imported {count}");
    state.dialogs.open_page(title, imported.lines);
    request(state, SessionRequest::Configure(imported.server_configs));
    // The approval dialog opens on top of the page.
    state.dialogs.awaiting_approval = imported.waiting.into();
    request_next_approval(state);
}

/// Asks for the approval that a server needs, or says what else it needs.
pub(super) fn on_approval_read(state: &mut State, server: ServerName, mut approval: Approval) {
    let server_configs = std::mem::take(&mut approval.server_configs);
    state.messages.reply = None;
    if !approval.pending.is_empty() {
        let menu = Menu::Approval(server, Box::new(approval));
        state.dialogs.open_menu(menu);
    } else if approval.is_approved {
        state.show_toast(NoticeLevel::Info, &approval.message);
        request_next_approval(state);
    } else {
        show_server_need(state, &server, approval.message);
    }
    // The configuration may have changed since this screen started.
    request(state, SessionRequest::Configure(server_configs));
}
