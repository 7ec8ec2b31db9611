//! The keys of the call form and the edit form, and the requests that they send.

use core::time::Duration;

use super::{
    super::{
        CallForm, Command, EditForm, Field, FormField, Menu, Overlay, Stage, State, keymap::Action,
        session::RequestPurpose,
    },
    layers::add_url,
    mark_seen, open_menu, request, request_tools,
};
use crate::domain::{
    Chord, Limits, NewCall, NoticeLevel, PathSegment, SessionRequest, Stamp, TaskId, Tool, text,
};

/// Parses a duration; `off` and an empty text mean no limit.
pub(super) fn read_limit(typed: &str) -> Result<Option<Duration>, String> {
    match typed.trim() {
        "" | "off" => Ok(None),
        typed => text::parse_duration(typed)
            .map(Some)
            .map_err(|error| error.to_string()),
    }
}

/// The focus of a form after a key that moves it. Enter moves on like Tab, except at the end.
pub(super) fn walk(action: Option<Action>, at: usize, last: usize) -> Option<usize> {
    match action? {
        Action::NextField => Some((at + 1).min(last)),
        Action::PreviousField => Some(at.saturating_sub(1)),
        Action::Accept if at < last => Some(at + 1),
        _ => None,
    }
}

pub(super) fn edit_key(
    state: &mut State,
    mut form: Box<EditForm>,
    action: Option<Action>,
    chord: Chord,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    if let Some(at) = walk(action, form.at, form.fields.len() - 1) {
        form.at = at;
        return Some(Overlay::Edit(form));
    }
    match action {
        Some(Action::Back) => return None,
        Some(Action::Accept | Action::Send) => {
            let [name, note, idle, hard] = &form.fields;
            match (read_limit(idle.text()), read_limit(hard.text())) {
                (Ok(idle), Ok(hard)) => {
                    let some = |field: &Field| {
                        let text = field.text().trim();
                        (!text.is_empty()).then(|| text.to_owned())
                    };
                    let edit = SessionRequest::Edit {
                        id: form.task.clone(),
                        name: some(name),
                        note: some(note),
                        limits: Limits { idle, hard },
                    };
                    request(state, edit, RequestPurpose::Other, effects);
                    return None;
                }
                (Err(error), _) | (_, Err(error)) => form.error = Some(error),
            }
        }
        _ => {
            form.error = None;
            let at = form.at;
            if let Some(field) = form.fields.get_mut(at) {
                field.key(chord);
            }
        }
    }
    Some(Overlay::Edit(form))
}

pub(super) fn call_key(
    state: &mut State,
    mut form: Box<CallForm>,
    action: Option<Action>,
    chord: Chord,
    now: Stamp,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    match form.stage {
        Stage::Server => {
            let found = form.servers(state);
            let last = found.len();
            let is_at_url = form.server_at >= last;
            let here = found.get(form.server_at).map(|server| server.name.clone());
            // While nothing is typed, these move the cursor as in any list.
            let action = match chord.typed().filter(|_| form.url.is_empty()) {
                Some('j') => Some(Action::NextField),
                Some('k') => Some(Action::PreviousField),
                _ => action,
            };
            match action {
                Some(Action::Back) => return None,
                Some(Action::NextField) => form.server_at = (form.server_at + 1).min(last),
                Some(Action::PreviousField) => {
                    form.server_at = form.server_at.min(last).saturating_sub(1);
                }
                Some(Action::Accept) => {
                    form.errors.clear();
                    let server = if is_at_url {
                        let typed = form.url.text().to_owned();
                        add_url(state, &typed, effects)
                    } else {
                        if let Some(name) = &here {
                            request_tools(state, name, effects);
                        }
                        here
                    };
                    match server {
                        Some(server) => {
                            form.server = Some(server);
                            form.stage = Stage::Tool;
                            form.tool_at = 0;
                        }
                        None => {
                            if let Some(remark) = &state.messages.reply {
                                form.errors = vec![remark.text.clone()];
                            }
                        }
                    }
                }
                _ => {
                    // The text filters the servers; if it matches none, it is the URL of a new one.
                    if form.url.key(chord) {
                        form.server_at = 0;
                        form.errors.clear();
                    }
                }
            }
        }
        Stage::Tool => {
            let last = form.matching(state).len().saturating_sub(1);
            match action {
                Some(Action::Back) => {
                    if form.is_any_server {
                        return None;
                    }
                    if state.servers.len() > 1 {
                        form.stage = Stage::Server;
                    } else {
                        return None;
                    }
                }
                Some(Action::NextField) => form.tool_at = (form.tool_at + 1).min(last),
                Some(Action::PreviousField) => form.tool_at = form.tool_at.saturating_sub(1),
                Some(Action::Accept) => {
                    let tool = form
                        .matching(state)
                        .get(form.tool_at)
                        .map(|(server, tool)| ((*server).clone(), (*tool).clone()));
                    match tool {
                        Some((server, tool)) => {
                            form.server = Some(server);
                            form.set_tool(tool, None);
                            if form.typed.is_empty() {
                                *form = with_draft(state, *form);
                            }
                            form.apply_typed();
                        }
                        None if form.is_loading(state) => {
                            state.reply(
                                "the tools are still loading; press Enter again in a moment",
                            );
                        }
                        None => state.reply("no matching tool"),
                    }
                }
                _ => {
                    if form.filter.key(chord) {
                        form.tool_at = 0;
                    }
                }
            }
        }
        Stage::Form => return arguments_key(state, form, action, chord, now, effects),
    }
    Some(Overlay::Call(form))
}

pub(super) fn arguments_key(
    state: &mut State,
    mut form: Box<CallForm>,
    action: Option<Action>,
    chord: Chord,
    now: Stamp,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    // While the call is being saved, the form can only be closed; the response closes it.
    if form.sent.is_some() && action != Some(Action::Back) {
        state.reply("saving the call");
        return Some(Overlay::Call(form));
    }
    if action == Some(Action::Accept) && form.argument().is_some_and(FormField::insert_template) {
        form.clear_errors();
        return Some(Overlay::Call(form));
    }
    // In a multi-line field some keys move between lines, not fields.
    if form.text_field().is_some_and(|field| field.line_key(chord)) {
        form.clear_errors();
        return Some(Overlay::Call(form));
    }
    if let Some(at) = walk(action, form.at, form.focus_count().saturating_sub(1)) {
        form.at = at;
        return Some(Overlay::Call(form));
    }
    match action {
        Some(Action::Back) => {
            keep_draft(state, &form);
            if form.origin.is_some() || form.sent.is_some() {
                return None;
            }
            form.stage = Stage::Tool;
            form.tool = None;
            form.raw = None;
            form.errors.clear();
            let server = form.server.clone();
            if let Some(server) = server
                && !state.tools.contains_key(&server)
            {
                request_tools(state, &server, effects);
            }
        }
        Some(Action::Raw) => form.toggle_raw(),
        Some(Action::Earlier) => match form.fill_from_earlier(state) {
            Some(id) => state.reply(format!("filled in the arguments of {id}")),
            None if form.tool.is_none() => {
                state.reply("the arguments of this tool aren't known yet");
            }
            None if form.filled_from.is_some() => state.reply("no earlier call of this tool"),
            None => state.reply("this tool has not been called yet"),
        },
        Some(Action::CopyCommand) => match form.command(state) {
            Ok(line) => {
                effects.push(Command::Copy(line));
                state.show_toast(NoticeLevel::Info, "sent to the terminal's clipboard", now);
            }
            Err(lines) => show_errors(state, &mut form, lines, Vec::new()),
        },
        Some(Action::Accept | Action::Send) => {
            send(state, &mut form, action == Some(Action::Send), now, effects);
            // The confirmation dialog opens above the form before anything is sent.
            if let Some(question) = take_repeat_dialog(state) {
                state.dialogs.stack.push(Overlay::Call(form));
                return Some(question);
            }
        }
        _ => {
            form.clear_errors();
            match form.argument() {
                Some(field) => match field.start_item(chord) {
                    // The letter goes into the new item.
                    Some(items) => {
                        form.at += items;
                        if let Some(typed) = form.text_field() {
                            typed.key(chord);
                        }
                    }
                    None => fill(state, field, action, chord),
                },
                None => {
                    if let Some(field) = form.text_field() {
                        field.key(chord);
                    }
                }
            }
        }
    }
    Some(Overlay::Call(form))
}

/// Saves the form as a draft until it is sent; closing an unchanged draft discards it.
fn keep_draft(state: &mut State, form: &CallForm) {
    if form.sent.is_some() {
        return;
    }
    let key = form.draft_key();
    if let Some(draft) = state.dialogs.drafts.remove(&key)
        && draft.has_same_input(form)
    {
        return state.reply("draft discarded");
    }
    if form.has_input() {
        let tool = text::clean_line(&form.tool_name).into_owned();
        state.dialogs.drafts.insert(key, form.clone());
        state.reply(format!("draft of {tool} saved until you send it"));
    }
}

/// The draft of this call if there is one, else the form itself.
pub(super) fn with_draft(state: &mut State, form: CallForm) -> CallForm {
    let draft = state.dialogs.drafts.get(&form.draft_key());
    // If the tool has changed since, the draft does not apply.
    let Some(draft) = draft.filter(|it| form.tool.is_none() || it.tool == form.tool) else {
        return form;
    };
    let mut form = draft.clone();
    form.at = 0;
    form.clear_errors();
    state.reply("draft restored; Esc discards it");
    form
}

/// Takes the confirmation dialog of a repeated call, if it was just opened.
fn take_repeat_dialog(state: &mut State) -> Option<Overlay> {
    let is_repeat = |overlay: &Overlay| {
        matches!(
            overlay,
            Overlay::Menu {
                menu: Menu::Repeat { .. },
                ..
            }
        )
    };
    state.dialogs.stack.pop_if(|overlay| is_repeat(overlay))
}

/// Sends the call in the form below the dialog after the user confirmed to repeat it.
pub(super) fn repeat(
    state: &mut State,
    is_unchecked: bool,
    now: Stamp,
    effects: &mut Vec<Command>,
) {
    let Some(Overlay::Call(mut form)) = state.dialogs.stack.pop() else {
        return;
    };
    form.is_confirmed = true;
    form.may_send_unchecked = is_unchecked;
    send(state, &mut form, is_unchecked, now, effects);
    state.dialogs.stack.push(Overlay::Call(form));
}

/// Handles a key on a field: types it or changes the choice.
pub(super) fn fill(state: &mut State, field: &mut FormField, action: Option<Action>, chord: Chord) {
    if let Some(typed) = field.typed() {
        typed.key(chord);
        return;
    }
    match action {
        Some(Action::PreviousChoice) => field.change(false),
        Some(Action::NextChoice) => field.change(true),
        _ if chord == Chord::char(' ') => field.toggle(),
        _ => state.reply("Space or arrows to change; Enter for the next field"),
    }
}

/// Shows what is wrong and focuses it. If only the schema rejects the arguments, offers to send them anyway.
fn show_errors(
    state: &mut State,
    form: &mut CallForm,
    lines: Vec<String>,
    wrong: Vec<Vec<PathSegment>>,
) {
    form.may_send_unchecked = !wrong.is_empty();
    (form.errors, form.wrong) = (lines, wrong);
    if form.may_send_unchecked {
        let key = state.key(Action::Send);
        state.reply(format!("press {key} again to send it unchecked"));
    }
    form.focus_first_error();
}

/// Sends the call, unless the form has errors or a repeat needs confirmation. `is_key` is set for the key that only
/// sends, as opposed to Enter on the button.
pub(super) fn send(
    state: &mut State,
    form: &mut CallForm,
    is_key: bool,
    now: Stamp,
    effects: &mut Vec<Command>,
) {
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
            None => return show_errors(state, form, errors.lines, errors.wrong),
        },
    };
    if form.origin.is_some()
        && !form.is_confirmed
        && form.tool.as_ref().is_some_and(Tool::is_unsafe_to_repeat)
    {
        let menu = Menu::Repeat {
            server,
            tool: form.tool_name.clone(),
            reason: Tool::repeat_warning(form.tool.as_ref()),
            is_unchecked,
        };
        return open_menu(state, menu);
    }
    if let Some(why) = unusable.filter(|_| !arguments.is_empty()) {
        let line = format!("{}: unusable schema: {why}; sent unchecked", form.tool_name);
        state.log_message(NoticeLevel::Warning, &text::clean_line(&line), now.wall);
    }
    let id = new_id(state);
    let name = form.name.text().trim();
    let limits = state.setup.limits.for_server(&server);
    let arguments = serde_json::Value::Object(arguments).to_string();
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
        mark_seen(state, origin, effects);
    }
    request(
        state,
        SessionRequest::Start(Box::new(call)),
        RequestPurpose::Start(id),
        effects,
    );
}

/// The next unused task id from the seed.
pub(super) fn new_id(state: &mut State) -> TaskId {
    loop {
        state.requests.ids_made = state.requests.ids_made.wrapping_add(1);
        // SplitMix64: one step of it spreads a counter over all bits.
        let mut bits = state
            .setup
            .seed
            .wrapping_add(state.requests.ids_made.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let id = TaskId::from_bits(bits ^ (bits >> 31));
        if !state.tasks.contains_key(&id) {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_read_as_people_write_them() {
        assert_eq!(read_limit("off"), Ok(None));
        assert_eq!(read_limit(""), Ok(None));
        assert_eq!(read_limit("90s"), Ok(Some(Duration::from_secs(90))));
        assert_eq!(read_limit("5 m"), Ok(Some(Duration::from_secs(300))));
        assert_eq!(read_limit("2h"), Ok(Some(Duration::from_secs(7_200))));
        for wrong in ["0", "5x", "abc", "-3s", "99999999999999999999h"] {
            assert!(read_limit(wrong).is_err(), "{wrong}");
        }
        for seconds in [1, 90, 300, 7_200] {
            let limit = Duration::from_secs(seconds);
            assert_eq!(read_limit(&text::duration(limit)), Ok(Some(limit)));
        }
    }
}
