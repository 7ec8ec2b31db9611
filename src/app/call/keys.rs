//! The keys of the call form.

use serde_json::Map;

use crate::app::{
    Action, CallForm, FormField, KeyPress, Stage, State,
    dialogs::keys::{fill, moves, walk},
    form::InitialValue,
    requests::request_tools,
    servers::{add_url, invalid_url},
};

use super::{
    drafts::{keep_draft, restore_draft},
    send::send,
};

/// Handles a key; returns `false` to close the form.
pub(in crate::app) fn call_key(state: &mut State, form: &mut CallForm, key: KeyPress) -> bool {
    match form.stage {
        Stage::Server => server_key(state, form, key),
        Stage::Tool => tool_key(state, form, key),
        Stage::Form => arguments_key(state, form, key),
    }
}

/// Handles a key while the server is chosen; returns `false` to close the form.
fn server_key(state: &mut State, form: &mut CallForm, key: KeyPress) -> bool {
    let found = form.servers(state);
    let last = found.len();
    let here = found.get(form.server_at).map(|server| server.name.clone());
    // While nothing is typed, these move the cursor as in any list.
    let action = match key.chord.typed().filter(|_| form.url.is_empty()) {
        Some('j') => Some(Action::NextField),
        Some('k') => Some(Action::PreviousField),
        _ => key.action,
    };
    form.server_at = form.server_at.min(last);
    if moves(state, action, &mut form.server_at, last) {
        return true;
    }
    match action {
        Some(Action::Back) => return false,
        Some(Action::Accept) => {
            form.errors.clear();
            let server = match here {
                Some(name) => {
                    request_tools(state, &name);
                    Ok(name)
                }
                None => add_url(state, form.url.text()),
            };
            match server {
                Ok(server) => {
                    form.server = Some(server);
                    form.stage = Stage::Tool;
                    form.tool_at = 0;
                }
                Err(error) => form.errors = vec![invalid_url(state, &error)],
            }
        }
        _ => {
            // The text filters the servers; if it matches none, it is the URL of a new one.
            if form.url.key(key.chord) {
                form.server_at = 0;
                form.errors.clear();
            }
        }
    }
    true
}

/// Handles a key while the tool is chosen; returns `false` to close the form.
fn tool_key(state: &mut State, form: &mut CallForm, key: KeyPress) -> bool {
    let last = form.matching(state).len().saturating_sub(1);
    if moves(state, key.action, &mut form.tool_at, last) {
        return true;
    }
    match key.action {
        Some(Action::Back) => {
            if form.is_any_server {
                return false;
            }
            if state.servers.len() > 1 {
                form.stage = Stage::Server;
            } else {
                return false;
            }
        }
        Some(Action::Accept) => {
            let tool = form
                .matching(state)
                .get(form.tool_at)
                .map(|(server, tool)| ((*server).clone(), (*tool).clone()));
            match tool {
                Some((server, tool)) => {
                    form.server = Some(server);
                    let is_typed = !form.typed.is_empty();
                    form.set_typed(tool, Map::new(), InitialValue::Default);
                    if !is_typed {
                        restore_draft(state, form);
                    }
                }
                None if form.is_loading(state) => {
                    state.reply("the tools are still loading; press Enter again in a moment");
                }
                None => {
                    let tools = form.server.as_ref().and_then(|it| state.tools.get(it));
                    let has_failed = tools.is_some_and(|tools| tools.error.is_some());
                    match form.server.clone().filter(|_| has_failed) {
                        Some(server) => request_tools(state, &server),
                        None => state.reply("no matching tool"),
                    }
                }
            }
        }
        _ => {
            if form.filter.key(key.chord) {
                form.tool_at = 0;
            }
        }
    }
    true
}

/// Handles a key while the arguments are filled in; returns `false` to close the form.
fn arguments_key(state: &mut State, form: &mut CallForm, key: KeyPress) -> bool {
    let action = key.action;
    // While the call is being saved, the form can only be closed; the response closes it.
    if form.sent.is_some() && action != Some(Action::Back) {
        state.reply("saving the call");
        return true;
    }
    if insert(form, key) {
        form.clear_errors();
        return true;
    }
    if let Some(at) = walk(action, form.at, form.focus_count().saturating_sub(1)) {
        form.at = at;
        return true;
    }
    match action {
        Some(Action::Back) => {
            keep_draft(state, form);
            if form.origin.is_some() || form.sent.is_some() {
                return false;
            }
            back_to_tools(state, form);
        }
        Some(Action::Raw) => form.toggle_raw(),
        Some(Action::Accept | Action::Send) => send(state, form, action == Some(Action::Send)),
        _ => type_argument(state, form, key),
    }
    true
}

/// Inserts a template into an empty JSON field, or moves between the lines of a field with several lines, instead of
/// moving to another field.
fn insert(form: &mut CallForm, key: KeyPress) -> bool {
    let is_enter = key.action == Some(Action::Accept);
    is_enter && form.argument().is_some_and(FormField::insert_template)
        || form
            .text_field()
            .is_some_and(|field| field.line_key(key.chord))
}

fn back_to_tools(state: &mut State, form: &mut CallForm) {
    form.stage = Stage::Tool;
    form.tool = None;
    form.raw = None;
    form.errors.clear();
    if let Some(server) = form.server.clone()
        && !state.tools.contains_key(&server)
    {
        request_tools(state, &server);
    }
}

/// Types into the focused field, or changes its choice.
fn type_argument(state: &mut State, form: &mut CallForm, key: KeyPress) {
    form.clear_error_here();
    if let Some(field) = form.argument() {
        fill(state, field, key.action, key.chord);
    } else if let Some(field) = form.text_field() {
        field.key(key.chord);
    }
}
