//! Responses of the session to requests.

use crate::domain::{
    NoticeLevel, RequestError, SessionOutcome, SessionRequestId, SessionResponse, TaskId, Tool,
    text,
};

use super::{
    CallForm, Menu, Overlay, Pane, Stage, State, Tab,
    dialogs::{question::on_answer_saved, sign_in},
    input::moves::show_tab,
    requests::request_tools,
    select,
    session::RequestPurpose,
    task_actions,
};

pub(super) fn on_response(state: &mut State, request: SessionRequestId, response: SessionOutcome) {
    let Some(pending) = state.requests.pending.remove(&request) else {
        return;
    };
    match (pending, response) {
        (RequestPurpose::Tools(server), Ok(SessionResponse::Tools(list))) => {
            let tools = state.tools.entry(server).or_default();
            tools.list = list.into_iter().filter(Tool::is_offered).collect();
            tools.is_known = true;
            tools.request = None;
            tools.error = None;
            update_call_forms(state);
        }
        (RequestPurpose::Tools(server), Err(error)) => {
            let message = with_flags(state, &error.to_string());
            let tools = state.tools.entry(server).or_default();
            tools.request = None;
            tools.error = Some(message);
            update_call_forms(state);
        }
        (RequestPurpose::Start(id), Ok(SessionResponse::Started(started))) => {
            on_started(state, &id, started);
        }
        (RequestPurpose::Start(id), Err(error)) => {
            let matches_form = |form: &CallForm| form.sent.as_ref() == Some(&id);
            show_form_error(state, &error, matches_form, |form| form.sent = None);
        }
        (RequestPurpose::Server(server), Ok(_)) => request_tools(state, &server),
        (RequestPurpose::Server(server), Err(error)) => {
            let matches_form = |form: &CallForm| form.server.as_ref() == Some(&server);
            let step_back = |form: &mut CallForm| form.stage = Stage::Server;
            show_form_error(state, &error, matches_form, step_back);
        }
        (RequestPurpose::Answer { task, key, choice }, response) => {
            on_answer_saved(state, &task, &key, choice, response);
        }
        (RequestPurpose::SignIn(server), Ok(SessionResponse::SignIn(page))) => {
            state.messages.reply = None;
            let dialog = sign_in::dialog(state, &server, &page);
            state.dialogs.open_menu(Menu::Fixed(Box::new(dialog)));
        }
        (RequestPurpose::Adopt(server), Ok(SessionResponse::Adopted(tasks))) => {
            let message = match tasks.len() {
                0 => format!("{server} lists no new tasks"),
                count => format!("imported {} from {server}", text::plural(count, "task")),
            };
            state.show_toast(NoticeLevel::Info, &message);
        }
        (RequestPurpose::OfMarked(id), Err(error)) => {
            state.list.marks.insert(id);
            show_error(state, &error);
        }
        (RequestPurpose::Remove(id), Err(error)) => {
            task_actions::not_removed(state, &id);
            show_error(state, &error);
        }
        (RequestPurpose::Restore(id), Err(error)) => {
            task_actions::not_restored(state, id, &error);
            show_error(state, &error);
        }
        (_, Ok(SessionResponse::Done(message))) => {
            let message = with_flags(state, &message);
            state.show_toast(NoticeLevel::Info, &message);
        }
        (_, Err(error)) => show_error(state, &error),
        (_, Ok(_)) => {}
    }
}

/// A call was saved: its form closes, and the list shows it, unless the user has closed the form meanwhile.
fn on_started(state: &mut State, asked: &TaskId, started: TaskId) {
    state.show_toast(NoticeLevel::Info, &format!("{started} started"));
    let is_its = |form: &CallForm| form.sent.as_ref() == Some(asked);
    state.dialogs.drafts.retain(|_, draft| !is_its(draft));
    let is_ours = |overlay: &Overlay| matches!(overlay, Overlay::Call(form) if is_its(form));
    let Some(index) = state.dialogs.stack.iter().position(is_ours) else {
        return;
    };
    state.dialogs.stack.remove(index);
    state.pane = Pane::Tasks;
    // Only the Now tab has something to show for a new task.
    show_tab(state, Tab::Now);
    state.list.wanted = Some(started);
    select::rebuild(state);
}

fn show_error(state: &mut State, error: &RequestError) {
    let message = with_flags(state, &error.to_string());
    state.show_toast(NoticeLevel::Error, &message);
    // Replaces "pause requested for ...".
    if state.messages.reply.is_some() {
        state.reply(message);
    }
}

/// A message whose commands work on this session.
fn with_flags(state: &State, message: &str) -> String {
    text::add_flags(message, &state.setup.flags, None)
}

/// Shows an error in the form that sent the request and takes the form back a step; shows a toast if it was closed.
fn show_form_error(
    state: &mut State,
    error: &RequestError,
    matches_form: impl Fn(&CallForm) -> bool,
    step_back: impl Fn(&mut CallForm),
) {
    let message = with_flags(state, &error.to_string());
    let mut is_shown = false;
    for overlay in &mut state.dialogs.stack {
        if let Overlay::Call(form) = overlay
            && matches_form(form)
        {
            step_back(form);
            form.errors = vec![message.clone()];
            is_shown = true;
        }
    }
    if is_shown {
        state.log_message(NoticeLevel::Error, &message);
    } else {
        state.show_toast(NoticeLevel::Error, &message);
    }
}

fn update_call_forms(state: &mut State) {
    let mut overlays = std::mem::take(&mut state.dialogs.stack);
    for overlay in &mut overlays {
        if let Overlay::Call(form) = overlay {
            form.on_tools(state);
        }
    }
    state.dialogs.stack = overlays;
}
