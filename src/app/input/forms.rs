//! The keys of the forms, and what they send.

use core::time::Duration;

use crate::domain::{Ask, Chord, Limits, NewCall, OnInput, TaskId, text};

use super::{
    super::{
        CallForm, Command, EditForm, Field, FormField, Overlay, Stage, State, keymap::Action,
        state::Pending,
    },
    ask, ask_tools,
    layers::add_url,
    mark_seen,
};

/// Reads a length of time, `off` or nothing.
pub(super) fn read_limit(typed: &str) -> Result<Option<Duration>, String> {
    match typed.trim() {
        "" | "off" => Ok(None),
        typed => text::read_duration(typed).map(Some),
    }
}

/// Where a key takes the cursor of a form, if it moves it: Enter goes on as Tab does, until it stands on the last place.
pub(super) fn walk(action: Option<Action>, at: usize, last: usize) -> Option<usize> {
    match action? {
        Action::NextField => Some((at + 1).min(last)),
        Action::FieldBefore => Some(at.saturating_sub(1)),
        Action::Accept if at < last => Some(at + 1),
        _ => None,
    }
}

pub(super) fn edit_key(
    state: &mut State,
    mut form: Box<EditForm>,
    action: Option<Action>,
    chord: Chord,
    todo: &mut Vec<Command>,
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
                    let edit = Ask::Edit {
                        id: form.task.clone(),
                        name: some(name),
                        note: some(note),
                        limits: Limits { idle, hard },
                    };
                    ask(state, edit, Pending::Plain, todo);
                    return None;
                }
                (Err(complaint), _) | (_, Err(complaint)) => form.complaint = Some(complaint),
            }
        }
        _ => {
            form.complaint = None;
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
    todo: &mut Vec<Command>,
) -> Option<Overlay> {
    match form.stage {
        Stage::Server => {
            let last = state.servers.len();
            let is_at_url = form.server_at >= last;
            match action {
                Some(Action::Back) => return None,
                Some(Action::NextField) => form.server_at = (form.server_at + 1).min(last),
                Some(Action::FieldBefore) => {
                    form.server_at = form.server_at.min(last).saturating_sub(1);
                }
                Some(Action::Accept) => {
                    form.complaints.clear();
                    let server = if is_at_url {
                        let typed = form.url.text().to_owned();
                        add_url(state, &typed, todo)
                    } else {
                        let name = state
                            .servers
                            .get(form.server_at)
                            .map(|server| server.name.clone());
                        if let Some(name) = &name {
                            ask_tools(state, name, todo);
                        }
                        name
                    };
                    match server {
                        Some(server) => {
                            form.server = Some(server);
                            form.stage = Stage::Tool;
                            form.tool_at = 0;
                        }
                        None => {
                            if let Some(remark) = &state.remark {
                                form.complaints = vec![remark.text.clone()];
                            }
                        }
                    }
                }
                _ => {
                    // Typing anywhere in the list is typing a URL.
                    if form.url.key(chord) {
                        form.server_at = last;
                        form.complaints.clear();
                    }
                }
            }
        }
        Stage::Tool => {
            let last = form.matching(state).len().saturating_sub(1);
            match action {
                Some(Action::Back) => {
                    if state.servers.len() > 1 {
                        form.stage = Stage::Server;
                    } else {
                        return None;
                    }
                }
                Some(Action::NextField) => form.tool_at = (form.tool_at + 1).min(last),
                Some(Action::FieldBefore) => form.tool_at = form.tool_at.saturating_sub(1),
                Some(Action::Accept) => {
                    let tool = form
                        .matching(state)
                        .get(form.tool_at)
                        .map(|tool| (*tool).clone());
                    match tool {
                        Some(tool) => form.take_tool(tool, &serde_json::Map::new()),
                        None => state.answer("no tool fits"),
                    }
                }
                _ => {
                    if form.filter.key(chord) {
                        form.tool_at = 0;
                    }
                }
            }
        }
        Stage::Form => return arguments_key(state, form, action, chord, todo),
    }
    Some(Overlay::Call(form))
}

pub(super) fn arguments_key(
    state: &mut State,
    mut form: Box<CallForm>,
    action: Option<Action>,
    chord: Chord,
    todo: &mut Vec<Command>,
) -> Option<Overlay> {
    // While the intent is being saved only closing is possible; the answer closes the form.
    if form.sent.is_some() && action != Some(Action::Back) {
        state.answer("the intent is being saved");
        return Some(Overlay::Call(form));
    }
    if let Some(at) = walk(action, form.at, form.places().saturating_sub(1)) {
        form.at = at;
        return Some(Overlay::Call(form));
    }
    match action {
        Some(Action::Back) => {
            if form.origin.is_some() || form.sent.is_some() {
                return None;
            }
            form.stage = Stage::Tool;
            form.tool = None;
            form.raw = None;
            form.complaints.clear();
            let server = form.server.clone();
            if let Some(server) = server
                && !state.tools.contains_key(&server)
            {
                ask_tools(state, &server, todo);
            }
        }
        Some(Action::Raw) => form.toggle_raw(),
        Some(Action::Accept | Action::Send) => send(state, &mut form, todo),
        _ => {
            form.complaints.clear();
            match form.argument() {
                Some(field) => fill(state, field, action, chord),
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

/// A key on a field: it is typed, or it turns what is chosen.
pub(super) fn fill(state: &mut State, field: &mut FormField, action: Option<Action>, chord: Chord) {
    if let Some(typed) = field.typed() {
        typed.key(chord);
        return;
    }
    match action {
        Some(Action::ChoiceBefore) => field.turn(false),
        Some(Action::ChoiceAfter) => field.turn(true),
        _ if chord == Chord::char(' ') => field.toggle(),
        _ => state.answer("Space or the arrows turn this; Enter goes on"),
    }
}

/// Sends the call, unless something is seen to be wrong with it.
pub(super) fn send(state: &mut State, form: &mut CallForm, todo: &mut Vec<Command>) {
    let Some(server) = form.server.clone() else {
        form.complaints = vec!["no server is chosen".to_owned()];
        return;
    };
    let arguments = match form.arguments() {
        Ok(arguments) => arguments,
        Err(complaints) => {
            form.complaints = complaints;
            return;
        }
    };
    let id = new_id(state);
    let name = form.name.text().trim();
    let limits = state.setup.limits.of(&server);
    let call = NewCall {
        id: id.clone(),
        server,
        tool: form.tool_name.clone(),
        arguments: serde_json::Value::Object(arguments).to_string(),
        name: (!name.is_empty()).then(|| name.to_owned()),
        tag: None,
        once: None,
        origin: form.origin.clone(),
        goes_on: None,
        must_survive: false,
        limits,
        on_input: OnInput::Ask,
    };
    form.complaints.clear();
    form.sent = Some(id.clone());
    if let Some(origin) = &form.origin {
        mark_seen(state, origin, todo);
    }
    ask(state, Ask::Start(Box::new(call)), Pending::Start(id), todo);
}

/// The next task id from the seed; one that is taken is passed over.
pub(super) fn new_id(state: &mut State) -> TaskId {
    loop {
        state.ids_made = state.ids_made.wrapping_add(1);
        // SplitMix64: one step of it spreads a counter over all bits.
        let mut bits = state
            .setup
            .seed
            .wrapping_add(state.ids_made.wrapping_mul(0x9e37_79b9_7f4a_7c15));
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
