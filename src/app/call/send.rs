//! Sends the call in a form, once its arguments are valid and a repeat is confirmed.

use crate::{
    app::{
        CallForm, Menu, Overlay, RequestPurpose, State,
        dialogs::repeat::dialog,
        requests::{new_id, request_for},
        seen::mark_seen,
    },
    domain::{NewCall, NoticeLevel, PathSegment, SessionRequest, Tool},
};

/// Sends the call in the form below the dialog after the user confirmed to repeat it.
pub(in crate::app) fn repeat(state: &mut State, is_unchecked: bool) {
    let Some(Overlay::Call(mut form)) = state.dialogs.stack.pop() else {
        return;
    };
    form.is_confirmed = true;
    form.may_send_unchecked = is_unchecked;
    send(state, &mut form, is_unchecked);
    state.dialogs.stack.push(Overlay::Call(form));
}

/// Shows what is wrong and focuses it. If only the schema rejects the arguments, offers to send them anyway.
fn show_errors(form: &mut CallForm, lines: Vec<String>, wrong: Vec<Vec<PathSegment>>) {
    form.may_send_unchecked = !wrong.is_empty();
    (form.errors, form.wrong) = (lines, wrong);
    form.focus_first_error();
}

/// Sends the call, unless the form has errors or a repeat needs confirmation. `is_key` is set for the key that only
/// sends, as opposed to Enter on the button.
pub(super) fn send(state: &mut State, form: &mut CallForm, is_key: bool) {
    let Some(server) = form.server.clone() else {
        form.errors = vec!["no server selected".to_owned()];
        return;
    };
    let (arguments, unusable, is_unchecked) = match form.arguments() {
        Ok((arguments, unusable)) => (arguments, unusable, false),
        Err(errors) => match errors
            .arguments
            .filter(|_| form.may_send_unchecked && is_key)
        {
            Some(arguments) => (arguments, None, true),
            None => return show_errors(form, errors.lines, errors.wrong),
        },
    };
    if form.origin.is_some()
        && !form.is_confirmed
        && form.tool.as_ref().is_some_and(Tool::is_unsafe_to_repeat)
    {
        let reason = Tool::repeat_warning(form.tool.as_ref());
        let dialog = dialog(&server, &form.tool_name, reason, is_unchecked);
        return state.dialogs.open_menu(Menu::Fixed(Box::new(dialog)));
    }
    if let Some(why) = unusable.filter(|_| !arguments.is_empty()) {
        let line = format!("{}: unusable schema: {why}; sent unchecked", form.tool_name);
        state.log_message(NoticeLevel::Warning, &line);
    }
    let arguments = match form.unedited(state, &arguments) {
        Some(arguments) => arguments,
        None if form.would_round(state) => {
            form.errors = vec![
                "a whole number that doesn't fit in 64 bits would be rounded; use `longhaul call` with --args"
                    .to_owned(),
            ];
            return;
        }
        None => serde_json::Value::Object(arguments).to_string(),
    };
    let id = new_id(state);
    let name = form.name.text().trim();
    let limits = state.setup.settings.limits.for_server(&server);
    let call = NewCall {
        name: (!name.is_empty()).then(|| name.to_owned()),
        origin: form.origin.clone(),
        is_unchecked,
        limits,
        ..NewCall::new(id.clone(), server, form.tool_name.clone(), arguments)
    };
    form.clear_errors();
    state.dialogs.drafts.remove(&form.draft_key());
    form.sent = Some(id.clone());
    if let Some(origin) = &form.origin {
        mark_seen(state, origin);
    }
    request_for(
        state,
        SessionRequest::Start(Box::new(call)),
        RequestPurpose::Start(id),
    );
}
