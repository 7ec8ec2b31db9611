//! The keys of the forms, and what they send.

use core::time::Duration;

use crate::domain::{
    Chord, Limits, NewCall, NoticeLevel, PathSegment, SessionRequest, Stamp, TaskId, Tool, text,
};

use super::{
    super::{
        CallForm, Command, EditForm, Field, FormField, Menu, Overlay, Stage, State, keymap::Action,
        state::Pending,
    },
    ask, ask_tools,
    layers::add_url,
    mark_seen, open_menu,
};

/// Reads a length of time, `off` or nothing.
pub(super) fn read_limit(typed: &str) -> Result<Option<Duration>, String> {
    match typed.trim() {
        "" | "off" => Ok(None),
        typed => text::parse_duration(typed).map(Some),
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
                    let edit = SessionRequest::Edit {
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
    now: Stamp,
    todo: &mut Vec<Command>,
) -> Option<Overlay> {
    match form.stage {
        Stage::Server => {
            let found = form.servers(state);
            let last = found.len();
            let is_at_url = form.server_at >= last;
            let here = found.get(form.server_at).map(|server| server.name.clone());
            // Where nothing is typed yet these move, as in any other choice.
            let action = match chord.typed().filter(|_| form.url.is_empty()) {
                Some('j') => Some(Action::NextField),
                Some('k') => Some(Action::FieldBefore),
                _ => action,
            };
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
                        if let Some(name) = &here {
                            ask_tools(state, name, todo);
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
                            if let Some(remark) = &state.remark {
                                form.complaints = vec![remark.text.clone()];
                            }
                        }
                    }
                }
                _ => {
                    // What is typed narrows the servers down, until it fits none: then it is the URL of another.
                    if form.url.key(chord) {
                        form.server_at = 0;
                        form.complaints.clear();
                    }
                }
            }
        }
        Stage::Tool => {
            let last = form.matching(state).len().saturating_sub(1);
            match action {
                Some(Action::Back) => {
                    if form.is_anywhere {
                        return None;
                    }
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
                        .map(|(server, tool)| ((*server).clone(), (*tool).clone()));
                    match tool {
                        Some((server, tool)) => {
                            form.server = Some(server);
                            form.take_tool(tool, None);
                            if form.typed.is_empty() {
                                *form = taken_up(state, *form);
                            }
                            form.fill_in();
                        }
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
        Stage::Form => return arguments_key(state, form, action, chord, now, todo),
    }
    Some(Overlay::Call(form))
}

pub(super) fn arguments_key(
    state: &mut State,
    mut form: Box<CallForm>,
    action: Option<Action>,
    chord: Chord,
    now: Stamp,
    todo: &mut Vec<Command>,
) -> Option<Overlay> {
    // While the intent is being saved only closing is possible; the answer closes the form.
    if form.sent.is_some() && action != Some(Action::Back) {
        state.answer("the intent is being saved");
        return Some(Overlay::Call(form));
    }
    // In several lines some keys mean lines, not fields.
    if form.text_field().is_some_and(|field| field.line_key(chord)) {
        form.unsay();
        return Some(Overlay::Call(form));
    }
    if let Some(at) = walk(action, form.at, form.places().saturating_sub(1)) {
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
            form.complaints.clear();
            let server = form.server.clone();
            if let Some(server) = server
                && !state.tools.contains_key(&server)
            {
                ask_tools(state, &server, todo);
            }
        }
        Some(Action::Raw) => form.toggle_raw(),
        Some(Action::Earlier) => match form.take_earlier(state) {
            Some(id) => state.answer(format!("filled in as in {id}")),
            None if form.tool.is_none() => {
                state.answer("the arguments of this tool are not known yet");
            }
            None if form.taken.is_some() => state.answer("no call of this tool is older"),
            None => state.answer("this tool was not called yet"),
        },
        Some(Action::CopyCommand) => match form.command(state) {
            Ok(line) => {
                todo.push(Command::Copy(line));
                state.say(NoticeLevel::Info, "sent to the terminal's clipboard", now);
            }
            Err(lines) => refuse(state, &mut form, lines, Vec::new()),
        },
        Some(Action::Accept | Action::Send) => {
            send(state, &mut form, action == Some(Action::Send), now, todo);
            // A question on top of the form is asked before anything is sent.
            if let Some(question) = asked_on_top(state) {
                state.overlays.push(Overlay::Call(form));
                return Some(question);
            }
        }
        _ => {
            form.unsay();
            match form.argument() {
                Some(field) => match field.begin_item(chord) {
                    // The letter belongs to the item that it began.
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

/// Keeps what is filled in, until it is sent; what is left as it was kept is dropped.
fn keep_draft(state: &mut State, form: &CallForm) {
    if form.sent.is_some() {
        return;
    }
    let key = form.draft_key();
    if let Some(draft) = state.drafts.remove(&key)
        && draft.is_filled_as(form)
    {
        return state.answer("what was filled in is dropped");
    }
    if form.is_filled() {
        let tool = text::clean_line(&form.tool_name).into_owned();
        state.drafts.insert(key, form.clone());
        state.answer(format!(
            "what is filled in for {tool} is kept until it is sent"
        ));
    }
}

/// The form as it was left, if it was filled in and not sent.
pub(super) fn taken_up(state: &mut State, form: CallForm) -> CallForm {
    let draft = state.drafts.get(&form.draft_key());
    // A tool that takes something else by now gets a fresh form.
    let Some(draft) = draft.filter(|it| form.tool.is_none() || it.tool == form.tool) else {
        return form;
    };
    let mut form = draft.clone();
    form.at = 0;
    form.unsay();
    state.answer("filled in as you left it; Esc drops that");
    form
}

/// The question of a repeat, if one was just opened.
fn asked_on_top(state: &mut State) -> Option<Overlay> {
    let is_it = |overlay: &Overlay| {
        matches!(
            overlay,
            Overlay::Menu {
                menu: Menu::Repeat { .. },
                ..
            }
        )
    };
    state.overlays.pop_if(|overlay| is_it(overlay))
}

/// The repeat below the question was agreed to.
pub(super) fn repeat(state: &mut State, is_unchecked: bool, now: Stamp, todo: &mut Vec<Command>) {
    let Some(Overlay::Call(mut form)) = state.overlays.pop() else {
        return;
    };
    form.is_agreed = true;
    form.is_doubted = is_unchecked;
    send(state, &mut form, is_unchecked, now, todo);
    state.overlays.push(Overlay::Call(form));
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
        _ => state.answer("Space or arrows to change; Enter for the next field"),
    }
}

/// Says what is wrong, goes to where it is, and offers to send it all the same where only the schema is against it.
fn refuse(
    state: &mut State,
    form: &mut CallForm,
    lines: Vec<String>,
    wrong: Vec<Vec<PathSegment>>,
) {
    form.is_doubted = !wrong.is_empty();
    (form.complaints, form.wrong) = (lines, wrong);
    if form.is_doubted {
        let key = state.key(Action::Send);
        state.answer(format!("{key} once more sends it unchecked"));
    }
    form.go_to_wrong();
}

/// Sends the call, unless something is seen to be wrong with it or a repeat of it has to be agreed to. `is_key` where the
/// key that means nothing but sending was pressed.
pub(super) fn send(
    state: &mut State,
    form: &mut CallForm,
    is_key: bool,
    now: Stamp,
    todo: &mut Vec<Command>,
) {
    let Some(server) = form.server.clone() else {
        form.complaints = vec!["no server is chosen".to_owned()];
        return;
    };
    let (arguments, unusable, is_unchecked) = match form.arguments() {
        Ok((arguments, unusable)) => (arguments, unusable, false),
        Err(refusal) => match refusal.arguments.filter(|_| form.is_doubted && is_key) {
            Some(arguments) => (arguments, None, true),
            None => return refuse(state, form, refusal.lines, refusal.wrong),
        },
    };
    if form.origin.is_some()
        && !form.is_agreed
        && form.tool.as_ref().is_some_and(Tool::is_unsafe_to_repeat)
    {
        let menu = Menu::Repeat {
            server,
            tool: form.tool_name.clone(),
            doubt: Tool::repeat_warning(form.tool.as_ref()),
            is_unchecked,
        };
        return open_menu(state, menu);
    }
    if let Some(why) = unusable.filter(|_| !arguments.is_empty()) {
        let line = format!(
            "{}: its schema cannot be used: {why}; sent unchecked",
            form.tool_name
        );
        state.note(NoticeLevel::Warning, &text::clean_line(&line), now.wall);
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
    form.unsay();
    state.drafts.remove(&form.draft_key());
    form.sent = Some(id.clone());
    if let Some(origin) = &form.origin {
        mark_seen(state, origin, todo);
    }
    ask(
        state,
        SessionRequest::Start(Box::new(call)),
        Pending::Start(id),
        todo,
    );
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
