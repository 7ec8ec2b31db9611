//! Keys and pasted text: where they go, what they do, and the reason when they do nothing.

use core::time::Duration;

use crate::domain::{
    Ask, AskId, AskedFor, Chord, Limits, Mono, NewCall, NoticeLevel, ServerName, ServerRef, Stamp,
    Status, TaskId, text,
};

use super::{
    CallForm, Command, EditForm, Field, Filter, Focus, Frozen, Input, Leaving, Menu, Overlay, Pane,
    Prices, Stage, State, Tab,
    call::name_from_url,
    detail::{entry_text, print_text, tab_lines},
    keymap::{self, Action, lookup},
    leave::is_viewer,
    menu::{self, Act, REFLEX},
    palette,
    select::{self, chosen, hidden_marks},
    state::Pending,
    status::{finds, scope},
    update::{is_reachable, quit, take_task},
};

/// A row counts as looked at after the cursor has rested on it this long.
const DWELL: Duration = Duration::from_millis(1_500);
/// A row that ended on the screen counts as seen once a key proves that somebody is there, this long after.
const WATCHED: Duration = Duration::from_secs(3);
/// A second Ctrl-C within this time leaves at once.
const TWICE: Duration = Duration::from_secs(2);
/// How long "cancel all and leave" waits for proof.
const CANCEL_ALL: Duration = Duration::from_secs(5);

/// Takes what the user did.
pub(super) fn take(state: &mut State, input: Input, now: Stamp, todo: &mut Vec<Command>) {
    state.is_dirty = true;
    match input {
        Input::Key(chord) => take_key(state, chord.normal(), now, todo),
        Input::Paste(pasted) => paste(state, &pasted),
        Input::Resize(columns, rows) => {
            state.size = (columns, rows);
            select::keep_in_sight(state);
        }
        Input::FocusGained => state.has_focus = true,
        Input::FocusLost => state.has_focus = false,
    }
}

fn paste(state: &mut State, pasted: &str) {
    match state.overlays.last_mut() {
        Some(Overlay::Palette { field, cursor }) => {
            field.paste(pasted);
            *cursor = 0;
        }
        Some(Overlay::Filter(field)) => {
            field.paste(pasted);
            let typed = field.text().to_owned();
            apply_filter(state, &typed);
        }
        Some(Overlay::Search(field)) => field.paste(pasted),
        Some(Overlay::Edit(form)) => {
            let at = form.at;
            if let Some(field) = form.fields.get_mut(at) {
                field.paste(pasted);
            }
        }
        Some(Overlay::Call(form)) => {
            if let Some(field) = form.text_field() {
                field.paste(pasted);
            }
        }
        Some(Overlay::Help { .. } | Overlay::Menu { .. }) => {}
        None => state.answer("pasted text is never read as keys; open a field first (/ n : )"),
    }
}

fn take_key(state: &mut State, chord: Chord, now: Stamp, todo: &mut Vec<Command>) {
    see(state, now, todo);
    state.last_key = Some(now.mono);
    state.looked_since = Some(now.mono);
    state.remark = None;
    let scope = scope(state);
    let action = lookup(scope, chord);
    match action {
        Some(Action::Interrupt) => return interrupt(state, now, todo),
        Some(Action::Suspend) => return todo.push(Command::Suspend),
        Some(Action::Redraw) => return todo.push(Command::Redraw),
        _ => {}
    }
    // The layer on top takes the key; it is put back unless it closes itself.
    if let Some(overlay) = state.overlays.pop() {
        let stays = match overlay {
            Overlay::Help { scroll } => help_key(state, scroll, action),
            Overlay::Menu {
                menu,
                cursor,
                opened,
            } => menu_key(state, menu, cursor, opened, action, chord, now, todo),
            Overlay::Palette { field, cursor } => {
                palette_key(state, field, cursor, action, chord, now, todo)
            }
            Overlay::Filter(field) => filter_key(state, field, action, chord),
            Overlay::Search(field) => search_key(state, field, action, chord),
            Overlay::Call(form) => call_key(state, form, action, chord, todo),
            Overlay::Edit(form) => edit_key(state, form, action, chord, todo),
        };
        if let Some(overlay) = stays {
            state.overlays.push(overlay);
        }
        return;
    }
    match action {
        Some(action) => perform(state, action, now, todo),
        None => state.answer(format!(
            "{} does nothing here; ? shows the keys",
            keymap::pretty(&chord.to_string())
        )),
    }
}

/// A key proves that somebody is there: what they had under their eyes was seen.
fn see(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    if !state.overlays.is_empty() || state.pane != Pane::Tasks {
        return;
    }
    let has_rested = state
        .looked_since
        .is_some_and(|since| now.mono.since(since) >= DWELL);
    // What failed or is lost asks for more than a look: it stays until the user decided.
    let is_plain_end = |entity: &super::Entity| entity.belongs() == super::Group::Done;
    if has_rested
        && let Some(id) = state.cursor.clone()
        && state.task(&id).is_some_and(is_plain_end)
    {
        mark_seen(state, &id, todo);
    }
    for id in select::visible_rows(state) {
        let was_watched = state.task(&id).is_some_and(|entity| {
            entity.is_new()
                && entity.belongs() == super::Group::Done
                && entity
                    .settled_at
                    .is_some_and(|at| now.mono.since(at) >= WATCHED)
        });
        if was_watched {
            mark_seen(state, &id, todo);
        }
    }
}

/// Notes, here and on disk, that the user knows how a task ended.
pub(super) fn mark_seen(state: &mut State, id: &TaskId, todo: &mut Vec<Command>) {
    if !state.task(id).is_some_and(super::Entity::is_new) {
        return;
    }
    state.count(id, false);
    if let Some(entity) = state.tasks.get_mut(id) {
        entity.is_seen = true;
        if entity.home != entity.belongs() {
            state.moving.insert(id.clone());
        }
    }
    state.count(id, true);
    state.is_order_stale = true;
    state.are_headings_stale = true;
    if !state.setup.readonly {
        ask(state, Ask::Seen(id.clone()), Pending::Plain, todo);
    }
}

/// Sends an ask and remembers what it was for.
pub(super) fn ask(state: &mut State, ask: Ask, pending: Pending, todo: &mut Vec<Command>) -> AskId {
    let number = state.next_ask;
    state.next_ask = state.next_ask.wrapping_add(1);
    state.pending.insert(number, pending);
    todo.push(Command::Ask(number, ask));
    number
}

/// Asks for a server's tools unless that is under way.
pub(super) fn ask_tools(state: &mut State, server: &ServerName, todo: &mut Vec<Command>) {
    let is_asked = state
        .tools
        .get(server)
        .is_some_and(|tools| tools.asked.is_some());
    if is_asked {
        return;
    }
    let number = ask(
        state,
        Ask::Tools(server.clone()),
        Pending::Tools(server.clone()),
        todo,
    );
    let tools = state.tools.entry(server.clone()).or_default();
    tools.asked = Some(number);
    tools.refused = None;
}

/// Whether a layer is about one task only.
pub(super) fn is_about(overlay: &Overlay, id: &TaskId) -> bool {
    match overlay {
        Overlay::Menu { menu, .. } => match menu {
            Menu::StopNow(task) | Menu::WhatNow(task) | Menu::Copy(task) => task == id,
            Menu::Cancel(tasks) => tasks.contains(id),
            Menu::Leave | Menu::Break => false,
        },
        Overlay::Edit(form) => &form.task == id,
        _ => false,
    }
}

/// Whether the copy menu is open, which needs the result at hand.
pub(super) fn is_copying(state: &State) -> bool {
    state.overlays.iter().any(|overlay| {
        matches!(
            overlay,
            Overlay::Menu {
                menu: Menu::Copy(_),
                ..
            }
        )
    })
}

fn open_menu(state: &mut State, menu: Menu, now: Stamp) {
    state.overlays.push(Overlay::Menu {
        menu,
        cursor: 0,
        opened: now.mono,
    });
}

fn interrupt(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    let is_second = match state.leaving {
        Leaving::Asked(at) => {
            now.mono.since(at) <= TWICE
                || state.overlays.iter().any(|overlay| {
                    matches!(
                        overlay,
                        Overlay::Menu {
                            menu: Menu::Leave,
                            ..
                        }
                    )
                })
        }
        Leaving::OnceSafe | Leaving::OnceCancelled(_) => true,
        Leaving::No => false,
    };
    if is_second {
        return quit(state, todo);
    }
    leave(state, now, todo);
}

/// Leaves if that costs nothing, else says what it costs.
fn leave(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    // The prices must be those of now.
    if state.frozen.is_some() {
        freeze(state, now, todo);
    }
    if is_viewer(state) || Prices::of(state).is_all_safe() {
        return quit(state, todo);
    }
    state.leaving = Leaving::Asked(now.mono);
    state.overlays.retain(|overlay| {
        !matches!(
            overlay,
            Overlay::Menu {
                menu: Menu::Leave,
                ..
            }
        )
    });
    open_menu(state, Menu::Leave, now);
}

/// Why an action has no effect here and now; `None` if it has one.
pub fn why_not(state: &State, action: Action) -> Option<String> {
    let acts = matches!(
        action,
        Action::NewCall
            | Action::RunAgain
            | Action::Pause
            | Action::Resume
            | Action::Cancel
            | Action::Edit
            | Action::Forget
            | Action::Undo
            | Action::Break
            | Action::AddServer
    );
    if acts && state.setup.readonly {
        return Some("read only: nothing is started, changed or stopped".to_owned());
    }
    let needs_task = matches!(
        action,
        Action::RunAgain
            | Action::Pause
            | Action::Cancel
            | Action::Edit
            | Action::Forget
            | Action::CopyMenu
            | Action::Print
            | Action::Zoom
            | Action::TabBefore
            | Action::TabAfter
            | Action::Mark
            | Action::Follow
            | Action::Search
    );
    let Some(entity) = state.selected() else {
        if needs_task {
            return Some(if state.tasks.is_empty() {
                "there is no task yet; n starts one".to_owned()
            } else {
                "no task is shown; Esc clears the filter".to_owned()
            });
        }
        return why_not_anywhere(state, action);
    };
    let id = &entity.view.task.id;
    let word = entity.view.task.status.word();
    let is_alone = state.marks.is_empty();
    match action {
        Action::Pause if is_alone => match &entity.view.task.status {
            Status::Paused => Some(format!("{id} is paused already; r goes on")),
            Status::Running => None,
            Status::Unknown(_) => Some(format!("{id} is unknown; Enter: what now?")),
            _ => Some(format!("{id} is {word}; there is nothing to pause")),
        },
        Action::Resume if is_alone && state.pane == Pane::Tasks => match &entity.view.task.status {
            status if status.is_settled() => Some(format!("{id} is {word}; R runs it again")),
            Status::InputRequired => Some(format!("{id} waits for an answer, not for r")),
            _ => None,
        },
        Action::Cancel if is_alone && entity.view.task.status.is_settled() => {
            Some(format!("{id} is {word}; there is nothing to cancel"))
        }
        _ => why_not_anywhere(state, action),
    }
}

fn why_not_anywhere(state: &State, action: Action) -> Option<String> {
    match action {
        Action::Break if !state.setup.is_demo => Some("only in the demo: longhaul demo".to_owned()),
        Action::SignIn => {
            Some(
                if state.servers.iter().any(|server| {
                    matches!(server.state, crate::domain::LinkState::NeedsLogin { .. })
                }) {
                    "signing in is not built in yet; start with -H or --bearer-env".to_owned()
                } else {
                    "no server asks for sign-in".to_owned()
                },
            )
        }
        Action::Undo if state.undo.is_empty() => Some("nothing was forgotten here".to_owned()),
        Action::FindNext | Action::FindBefore if state.search.is_none() => {
            Some("nothing is searched for; / searches".to_owned())
        }
        Action::Search if state.tab == Tab::Now => {
            Some("the Now tab is not searched; ] goes to the log".to_owned())
        }
        Action::MarkAll if state.lines.is_empty() && !state.tasks.is_empty() => {
            Some("no task is shown; Esc clears the filter".to_owned())
        }
        _ => None,
    }
}

/// Does what a key or a command of the palette means.
pub(super) fn perform(state: &mut State, action: Action, now: Stamp, todo: &mut Vec<Command>) {
    if let Some(reason) = why_not(state, action) {
        return state.answer(reason);
    }
    match action {
        Action::Down => step(state, 1),
        Action::Up => step(state, -1),
        Action::PageDown => step(state, page(state)),
        Action::PageUp => step(state, -page(state)),
        Action::First => step(state, isize::MIN / 2),
        Action::Last => step(state, isize::MAX / 2),
        Action::Open => open(state, now, todo),
        Action::Back => back(state, now, todo),
        Action::NextPane => next_pane(state),
        Action::TabBefore => turn_tab(state, -1),
        Action::TabAfter => turn_tab(state, 1),
        Action::Zoom => {
            state.is_zoomed = !state.is_zoomed;
            state.focus = if state.is_zoomed {
                Focus::Detail
            } else {
                Focus::List
            };
            select::keep_in_sight(state);
        }
        Action::Filter => {
            let typed = Field::new(state.filter.text());
            state.overlays.push(Overlay::Filter(typed));
        }
        Action::Search => {
            let typed = Field::new(state.search.clone().unwrap_or_default());
            state.overlays.push(Overlay::Search(typed));
        }
        Action::FindNext => find(state, true),
        Action::FindBefore => find(state, false),
        Action::NeedsOnly => {
            state.needs_only = !state.needs_only;
            select::rebuild(state);
            if state.lines.is_empty() && state.needs_only {
                state.answer_empty("nothing needs you; ! shows all again");
            }
        }
        Action::Fold => {
            state.is_folded = !state.is_folded;
            select::rebuild(state);
        }
        Action::Sort => {
            state.sort = state.sort.next();
            select::rebuild(state);
            state.answer(format!("sorted by {}", state.sort.word()));
        }
        Action::Reverse => {
            state.is_reversed = !state.is_reversed;
            select::rebuild(state);
            let order = if state.is_reversed {
                "turned round"
            } else {
                "as usual"
            };
            state.answer(format!("sorted by {}, {order}", state.sort.word()));
        }
        Action::Mark => {
            if let Some(id) = state.cursor.clone() {
                if !state.marks.remove(&id) {
                    state.marks.insert(id);
                }
                select::move_by(state, 1);
            }
        }
        Action::MarkAll => mark_all(state),
        Action::ShowTasks => show(state, Pane::Tasks, todo),
        Action::ShowTools => show(state, Pane::Tools, todo),
        Action::ShowServers => show(state, Pane::Servers, todo),
        Action::ShowMessages => show(state, Pane::Messages, todo),
        Action::NewCall => new_call(state, todo),
        Action::RunAgain => {
            if let Some(id) = state.cursor.clone() {
                run_again(state, &id, todo);
            }
        }
        Action::Pause => pause(state, now, todo),
        Action::Resume => resume(state, todo),
        Action::Cancel => cancel(state, now),
        Action::Edit => edit(state),
        Action::CopyMenu => {
            if let Some(id) = state.cursor.clone() {
                open_menu(state, Menu::Copy(id), now);
            }
        }
        Action::Print => {
            if let Some(entity) = state.selected() {
                todo.push(Command::Print(print_text(state, entity)));
            }
        }
        Action::Forget => {
            let tasks = chosen(state);
            forget(state, tasks, now, todo);
        }
        Action::Undo => undo(state, now, todo),
        Action::Follow => {
            state.is_following = !state.is_following;
            if state.is_following {
                state.scroll = 0;
            }
            let word = if state.is_following {
                "following"
            } else {
                "not following"
            };
            state.answer(format!("the log is {word}"));
        }
        Action::Wrap => {
            state.is_wrapping = !state.is_wrapping;
            let word = if state.is_wrapping { "wrapped" } else { "cut" };
            state.answer(format!("long lines are {word}"));
        }
        Action::Times => state.has_times = !state.has_times,
        Action::Freeze => freeze(state, now, todo),
        Action::AddServer => add_server(state),
        Action::Palette => state.overlays.push(Overlay::Palette {
            field: Field::default(),
            cursor: 0,
        }),
        Action::Help => state.overlays.push(Overlay::Help { scroll: 0 }),
        Action::Break => open_menu(state, Menu::Break, now),
        Action::Leave => quit_key(state, now, todo),
        Action::Interrupt => interrupt(state, now, todo),
        Action::Suspend => todo.push(Command::Suspend),
        Action::Redraw => todo.push(Command::Redraw),
        // These belong to layers, which take them before.
        Action::SignIn
        | Action::Accept
        | Action::NextField
        | Action::FieldBefore
        | Action::Send
        | Action::Raw
        | Action::ChoiceBefore
        | Action::ChoiceAfter => {}
    }
}

/// `q`: closes the top layer, and leaves from the list.
fn quit_key(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    if state.pane != Pane::Tasks {
        state.pane = Pane::Tasks;
    } else if state.is_zoomed || state.focus == Focus::Detail {
        state.is_zoomed = false;
        state.focus = Focus::List;
        select::keep_in_sight(state);
    } else {
        leave(state, now, todo);
    }
}

/// Rows of a page, with one line of overlap.
fn page(state: &State) -> isize {
    let room = super::Room::of(state, state.size);
    let rows = if state.pane == Pane::Tasks && state.focus == Focus::Detail {
        room.detail.saturating_sub(4)
    } else {
        room.list.saturating_sub(1)
    };
    isize::try_from(rows.max(1)).unwrap_or(1)
}

fn moved(place: usize, by: isize, most: usize) -> usize {
    place.saturating_add_signed(by).min(most)
}

/// Moves whatever has the keys.
fn step(state: &mut State, by: isize) {
    match (state.pane, state.focus) {
        (Pane::Tasks, Focus::List) => {
            if !select::move_by(state, by) && by.unsigned_abs() == 1 {
                state.answer(if by > 0 {
                    "that is the last one"
                } else {
                    "that is the first one"
                });
            }
        }
        (Pane::Tasks, Focus::Detail) => scroll(state, by),
        (pane, _) => {
            let most = pane_lines(state, pane).saturating_sub(1);
            let at = match pane {
                Pane::Tools => &mut state.cursors[0],
                Pane::Servers => &mut state.cursors[1],
                _ => &mut state.cursors[2],
            };
            // Messages are read from the newest up, so up goes back in time.
            let by = if pane == Pane::Messages { -by } else { by };
            *at = moved(*at, by, most);
        }
    }
}

/// Lines that a pane has.
fn pane_lines(state: &State, pane: Pane) -> usize {
    match pane {
        Pane::Tasks => state.lines.len(),
        Pane::Tools => state
            .tools_of
            .as_ref()
            .and_then(|server| state.tools.get(server))
            .map_or(0, |tools| tools.list.len()),
        Pane::Servers => state.servers.len(),
        Pane::Messages => state.messages.len(),
    }
}

fn scroll(state: &mut State, by: isize) {
    // The last page stays full; wrapped lines take an unknown number of rows, so there the last line can be the first.
    let rows = usize::from(super::Room::of(state, state.size).detail);
    let (of_log, of_text) = if state.is_wrapping {
        (1, 1)
    } else {
        (rows.saturating_sub(3).max(1), rows.saturating_sub(2).max(1))
    };
    match state.tab {
        Tab::Now => {
            state.answer("the Now tab shows the present; ] goes to the log");
        }
        Tab::Log => {
            let held = state
                .cursor
                .as_ref()
                .and_then(|id| state.logs.get(id))
                .map_or(0, |log| log.entries.len());
            // Up goes back in time.
            state.scroll = moved(state.scroll, -by, held.saturating_sub(of_log));
            state.is_following = state.scroll == 0;
        }
        _ => {
            let lines = state
                .selected()
                .map_or(0, |entity| tab_lines(state, entity).len());
            state.scroll = moved(state.scroll, by, lines.saturating_sub(of_text));
        }
    }
}

fn turn_tab(state: &mut State, by: isize) {
    let place = Tab::ALL
        .iter()
        .position(|tab| *tab == state.tab)
        .unwrap_or(0);
    let next = moved(place, by, Tab::ALL.len() - 1);
    if let Some(tab) = Tab::ALL.get(next) {
        show_tab(state, *tab);
    }
}

fn show_tab(state: &mut State, tab: Tab) {
    if state.tab != tab {
        state.tab = tab;
        state.scroll = 0;
        state.is_following = true;
    }
}

fn next_pane(state: &mut State) {
    match (state.pane, state.focus) {
        (Pane::Tasks, Focus::List) if state.cursor.is_some() => {
            state.focus = Focus::Detail;
            // Without room for both, the pane gets the whole screen.
            if super::Room::of(state, state.size).detail == 0 {
                state.is_zoomed = true;
            }
        }
        (Pane::Tasks, _) => {
            state.focus = Focus::List;
            state.is_zoomed = false;
        }
        _ => state.pane = Pane::Tasks,
    }
    select::keep_in_sight(state);
}

fn show(state: &mut State, pane: Pane, todo: &mut Vec<Command>) {
    state.pane = pane;
    if pane == Pane::Tasks {
        state.focus = Focus::List;
        state.is_zoomed = false;
        select::keep_in_sight(state);
    }
    if pane == Pane::Tools {
        let of_task = state
            .selected()
            .map(|entity| entity.view.task.server.clone());
        let server = state
            .tools_of
            .clone()
            .or(of_task)
            .or_else(|| state.servers.first().map(|server| server.name.clone()));
        if let Some(server) = server {
            show_tools(state, server, todo);
        }
    }
}

fn show_tools(state: &mut State, server: ServerName, todo: &mut Vec<Command>) {
    state.pane = Pane::Tools;
    if state.tools_of.as_ref() != Some(&server) {
        state.cursors[0] = 0;
    }
    let is_known = state.tools.get(&server).is_some_and(|tools| tools.is_known);
    if !is_known || is_reachable(state, &server) {
        ask_tools(state, &server, todo);
    }
    state.tools_of = Some(server);
}

fn open(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    match state.pane {
        Pane::Tasks => {
            let Some(entity) = state.selected() else {
                return state.answer("there is nothing to open; n starts a call");
            };
            let id = entity.view.task.id.clone();
            let status = entity.view.task.status.clone();
            let is_pressing = entity.belongs() == super::Group::NeedsYou;
            if !is_pressing {
                mark_seen(state, &id, todo);
            }
            match status {
                Status::Unknown(_) | Status::Lost(_) => open_menu(state, Menu::WhatNow(id), now),
                // Its error has been read by now.
                Status::Failed
                    if is_pressing && state.focus == Focus::Detail && state.is_zoomed =>
                {
                    open_menu(state, Menu::WhatNow(id), now);
                }
                _ if state.focus == Focus::Detail && state.is_zoomed => {
                    state.answer("that is all of it; Esc goes back");
                }
                status => {
                    if matches!(status, Status::Completed | Status::Failed) {
                        show_tab(state, Tab::Result);
                    }
                    if status == Status::Failed && is_pressing {
                        state.answer("Enter: what now? Until you choose, it keeps asking");
                    }
                    if status == Status::InputRequired {
                        state.answer("answering is not built in yet; the question stays");
                    }
                    state.focus = Focus::Detail;
                    state.is_zoomed = true;
                }
            }
        }
        Pane::Tools => {
            let chosen = state.tools_of.clone().and_then(|server| {
                let tools = state.tools.get(&server)?;
                Some((server, tools.list.get(state.cursors[0])?.clone()))
            });
            let Some((server, tool)) = chosen else {
                return state.answer("there is no tool to call; 3 shows the servers");
            };
            if let Some(reason) = why_not(state, Action::NewCall) {
                return state.answer(reason);
            }
            let mut form = CallForm::new(state);
            form.server = Some(server);
            form.take_tool(tool, &serde_json::Map::new());
            state.overlays.push(Overlay::Call(Box::new(form)));
        }
        Pane::Servers => match state.servers.get(state.cursors[1]) {
            Some(server) => {
                let name = server.name.clone();
                show_tools(state, name, todo);
            }
            None => state.answer("there is no server yet; a adds one by its URL"),
        },
        Pane::Messages => state.answer("messages do not open; Y in the tasks prints one"),
    }
}

/// Esc: one layer, never out of the program.
fn back(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    if state.pane != Pane::Tasks {
        state.pane = Pane::Tasks;
    } else if state.focus == Focus::Detail || state.is_zoomed {
        if state.search.take().is_none() {
            state.focus = Focus::List;
            state.is_zoomed = false;
        }
    } else if matches!(state.leaving, Leaving::OnceSafe | Leaving::OnceCancelled(_)) {
        state.leaving = Leaving::No;
        state.answer("staying");
    } else if state.away.take().is_some() {
        // The banner is closed.
    } else if !state.marks.is_empty() {
        state.marks.clear();
    } else if !state.filter.is_empty() {
        apply_filter(state, "");
    } else if state.needs_only {
        state.needs_only = false;
        select::rebuild(state);
    } else if state.frozen.is_some() {
        freeze(state, now, todo);
    } else if !state.toasts.is_empty() {
        state.toasts.clear();
    } else {
        state.answer("nothing to close; q leaves");
    }
    select::keep_in_sight(state);
}

fn mark_all(state: &mut State) {
    if state.tasks.is_empty() {
        return add_server(state);
    }
    let shown: Vec<TaskId> = state
        .lines
        .iter()
        .filter_map(|line| match line {
            super::Line::Row(id) => Some(id.clone()),
            super::Line::Heading { .. } => None,
        })
        .collect();
    if shown.iter().all(|id| state.marks.contains(id)) {
        state.marks.clear();
    } else {
        state.marks.extend(shown);
    }
}

fn freeze(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    match state.frozen.take() {
        Some(frozen) => {
            for view in frozen.held.into_values() {
                take_task(state, view, now, todo);
            }
        }
        None => {
            state.frozen = Some(Frozen {
                at: now,
                held: std::collections::BTreeMap::new(),
            });
        }
    }
}

fn pause(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    let tasks = chosen(state);
    // A second time, while it is pausing and still moves: offer to stop it.
    if let [id] = tasks.as_slice()
        && let Some(entity) = state.task(id)
        && let Some(asked) = entity.view.task.asked
        && asked.what == AskedFor::Pausing
    {
        let age = text::span(now.wall.since(asked.at));
        if entity.view.task.resumability.checkpoint {
            let id = id.clone();
            return open_menu(state, Menu::StopNow(id), now);
        }
        return state.answer(format!(
            "pausing was asked {age} ago; x cancels it for good"
        ));
    }
    act_on(
        state,
        tasks,
        "pause",
        Ask::Pause,
        |status| *status == Status::Running,
        todo,
    );
}

fn resume(state: &mut State, todo: &mut Vec<Command>) {
    if state.pane == Pane::Servers || state.cursor.is_none() {
        ask(state, Ask::RetryNow, Pending::Plain, todo);
        return state.answer("every server that is down is tried now");
    }
    let tasks = chosen(state);
    act_on(
        state,
        tasks,
        "resume",
        Ask::Resume,
        |status| !status.is_settled() && *status != Status::InputRequired,
        todo,
    );
}

/// Asks the same of several tasks, and says of how many, and how many of these are hidden.
fn act_on(
    state: &mut State,
    tasks: Vec<TaskId>,
    word: &str,
    make: impl Fn(TaskId) -> Ask,
    fits: impl Fn(&Status) -> bool,
    todo: &mut Vec<Command>,
) {
    let all = tasks.len();
    let fitting: Vec<TaskId> = tasks
        .into_iter()
        .filter(|id| {
            state
                .task(id)
                .is_some_and(|entity| fits(&entity.view.task.status))
        })
        .collect();
    for id in &fitting {
        ask(state, make(id.clone()), Pending::Plain, todo);
    }
    if all == 1 {
        let Some(id) = fitting.first() else {
            return state.answer(format!("there is nothing to {word}"));
        };
        return state.answer(format!("asked: {word} {id}"));
    }
    let hidden = hidden_marks(state);
    let hidden = if hidden > 0 {
        format!(", {hidden} of them hidden")
    } else {
        String::new()
    };
    let skipped = all - fitting.len();
    let skipped = if skipped > 0 {
        format!("; {skipped} passed over, where it means nothing")
    } else {
        String::new()
    };
    let count = u64::try_from(fitting.len()).unwrap_or(u64::MAX);
    state.answer(format!(
        "asked: {word} {}{hidden}{skipped}",
        text::plural(count, "task")
    ));
}

fn cancel(state: &mut State, now: Stamp) {
    let tasks: Vec<TaskId> = chosen(state)
        .into_iter()
        .filter(|id| {
            state
                .task(id)
                .is_some_and(|entity| !entity.view.task.status.is_settled())
        })
        .collect();
    if tasks.is_empty() {
        return state.answer("all of these have ended; there is nothing to cancel");
    }
    open_menu(state, Menu::Cancel(tasks), now);
}

fn forget(state: &mut State, tasks: Vec<TaskId>, now: Stamp, todo: &mut Vec<Command>) {
    let (ended, going): (Vec<TaskId>, Vec<TaskId>) = tasks.into_iter().partition(|id| {
        state.task(id).is_some_and(|entity| {
            let status = &entity.view.task.status;
            status.is_settled() || matches!(status, Status::Unknown(_))
        })
    });
    if ended.is_empty() {
        return match going.as_slice() {
            // Its link knows whether a cancel was asked for and ignored, and says so if not.
            [one] => {
                ask(state, Ask::GiveUp(one.clone()), Pending::Plain, todo);
                state.answer(format!("asked to stop following {one}"));
            }
            _ => state.answer("these are still under way; x cancels them first"),
        };
    }
    let hidden = hidden_marks(state);
    for id in &ended {
        ask(state, Ask::Forget(id.clone()), Pending::Plain, todo);
        state.marks.remove(id);
    }
    let mut words = match ended.as_slice() {
        [one] => format!("{one} is forgotten here; u brings it back"),
        many => format!(
            "{} tasks are forgotten here; u brings them back",
            many.len()
        ),
    };
    if hidden > 0 {
        words = format!("{words} ({hidden} of them were hidden)");
    }
    if !going.is_empty() {
        words = format!("{words}; {} still under way were passed over", going.len());
    }
    state.undo.push(ended);
    state.say(NoticeLevel::Info, &words, now);
}

fn undo(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    let Some(tasks) = state.undo.pop() else {
        return;
    };
    let count = u64::try_from(tasks.len()).unwrap_or(u64::MAX);
    state.wanted = tasks.first().cloned();
    for id in tasks {
        ask(state, Ask::Unforget(id), Pending::Plain, todo);
    }
    let words = format!("{} brought back", text::plural(count, "task"));
    state.say(NoticeLevel::Info, &words, now);
}

fn new_call(state: &mut State, todo: &mut Vec<Command>) {
    let form = CallForm::new(state);
    if let (Stage::Tool, Some(server)) = (form.stage, form.server.clone()) {
        ask_tools(state, &server, todo);
    }
    state.overlays.push(Overlay::Call(Box::new(form)));
}

fn add_server(state: &mut State) {
    let mut form = CallForm::new(state);
    form.stage = Stage::Server;
    form.server = None;
    form.server_at = state.servers.len();
    state.overlays.push(Overlay::Call(Box::new(form)));
}

fn run_again(state: &mut State, id: &TaskId, todo: &mut Vec<Command>) {
    let Some(entity) = state.task(id) else { return };
    let task = entity.view.task.clone();
    let form = CallForm::again(state, &task);
    if form.tool.is_none() {
        ask_tools(state, &task.server, todo);
    }
    state.overlays.push(Overlay::Call(Box::new(form)));
}

fn edit(state: &mut State) {
    let Some(entity) = state.selected() else {
        return;
    };
    let task = &entity.view.task;
    let limit =
        |limit: Option<Duration>| Field::prefilled(limit.map_or("off".to_owned(), write_limit));
    let form = EditForm {
        task: task.id.clone(),
        fields: [
            Field::new(task.name.clone().unwrap_or_default()),
            Field::new(task.note.clone().unwrap_or_default()),
            limit(task.limits.idle),
            limit(task.limits.hard),
        ],
        at: 0,
        complaint: None,
    };
    state.overlays.push(Overlay::Edit(Box::new(form)));
}

fn write_limit(limit: Duration) -> String {
    let seconds = limit.as_secs();
    match seconds {
        _ if seconds > 0 && seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds > 0 && seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// Reads `90s`, `5m`, `2h`, `1d`, `off` or nothing.
pub(super) fn read_limit(typed: &str) -> Result<Option<Duration>, String> {
    let typed = typed.trim();
    if typed.is_empty() || typed == "off" {
        return Ok(None);
    }
    let digits = typed.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = typed.strip_prefix(digits).unwrap_or_default().trim();
    let factor = match unit {
        "s" | "" => 1,
        "m" | "min" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => 0,
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|seconds| *seconds > 0)
        .map(|seconds| Some(Duration::from_secs(seconds)))
        .ok_or_else(|| format!("{typed:?} is no limit; write 90s, 5m, 2h or off"))
}

fn help_key(state: &mut State, at: usize, action: Option<Action>) -> Option<Overlay> {
    let lines = keymap::help_page(state.size.0).len();
    let rows = usize::from(state.size.1).saturating_sub(4).max(1);
    let most = lines.saturating_sub(rows);
    let scroll = match action {
        Some(Action::Down) => (at + 1).min(most),
        Some(Action::Up) => at.saturating_sub(1),
        Some(Action::PageDown) => (at + rows).min(most),
        Some(Action::PageUp) => at.saturating_sub(rows),
        Some(Action::First) => 0,
        Some(Action::Last) => most,
        // Any other key has read enough.
        _ => return None,
    };
    Some(Overlay::Help { scroll })
}

#[expect(
    clippy::too_many_arguments,
    reason = "the parts of the layer, the key in both forms, and where the effects go"
)]
fn menu_key(
    state: &mut State,
    menu: Menu,
    cursor: usize,
    opened: Mono,
    action: Option<Action>,
    chord: Chord,
    now: Stamp,
    todo: &mut Vec<Command>,
) -> Option<Overlay> {
    let items = menu::items(state, &menu);
    let last = items.len().saturating_sub(1);
    let stay = |cursor: usize, menu: Menu| {
        Some(Overlay::Menu {
            menu,
            cursor,
            opened,
        })
    };
    let is_close = matches!(action, Some(Action::Back | Action::Leave));
    if is_close {
        if menu == Menu::Leave {
            state.leaving = Leaving::No;
        }
        return None;
    }
    if menu.is_grave() && now.mono.since(opened) < REFLEX {
        return stay(cursor, menu);
    }
    let letter = chord.typed();
    let by_key = letter.and_then(|letter| items.iter().position(|item| item.key == letter));
    let picked = match (by_key, action) {
        (Some(at), _) => at,
        (None, Some(Action::Accept)) => cursor.min(last),
        (None, Some(Action::Down)) => return stay((cursor + 1).min(last), menu),
        (None, Some(Action::Up)) => return stay(cursor.saturating_sub(1), menu),
        (None, Some(Action::First | Action::PageUp)) => return stay(0, menu),
        (None, Some(Action::Last | Action::PageDown)) => return stay(last, menu),
        _ => {
            state.answer("choose with j k and Enter, or by letter; Esc closes");
            return stay(cursor, menu);
        }
    };
    let item = items.get(picked)?;
    if let Some(reason) = &item.why_not {
        state.answer(format!("{}: {reason}", item.label));
        return stay(picked, menu);
    }
    if menu == Menu::Leave {
        state.leaving = Leaving::No;
    }
    if let Menu::WhatNow(id) = &menu {
        mark_seen(state, id, todo);
    }
    act(state, item.act.clone(), now, todo);
    None
}

fn act(state: &mut State, act: Act, now: Stamp, todo: &mut Vec<Command>) {
    match act {
        Act::Close => {}
        Act::Ask(asks) => {
            let count = asks.len();
            for one in asks {
                ask(state, one, Pending::Plain, todo);
            }
            if count > 1 {
                state.answer(format!("asked of {count} tasks"));
                state.marks.clear();
            }
        }
        Act::Copy(copied) => {
            todo.push(Command::Copy(copied));
            state.say(NoticeLevel::Info, "sent to the terminal's clipboard", now);
        }
        Act::Break(what) => todo.push(Command::Break(what)),
        Act::RunAgain(id) => run_again(state, &id, todo),
        Act::Forget(id) => forget(state, vec![id], now, todo),
        Act::Leave => quit(state, todo),
        Act::LeaveOnceSafe => state.leaving = Leaving::OnceSafe,
        Act::CancelAllAndLeave => {
            let open: Vec<TaskId> = state.open.iter().cloned().collect();
            for id in open {
                ask(state, Ask::Cancel(id), Pending::Plain, todo);
            }
            state.leaving = Leaving::OnceCancelled(now.mono.after(CANCEL_ALL));
        }
    }
}

fn palette_key(
    state: &mut State,
    mut field: Field,
    cursor: usize,
    action: Option<Action>,
    chord: Chord,
    now: Stamp,
    todo: &mut Vec<Command>,
) -> Option<Overlay> {
    let matches = palette::matches(field.text());
    let last = matches.len().saturating_sub(1);
    match action {
        Some(Action::Back) => None,
        Some(Action::NextField) => Some(Overlay::Palette {
            field,
            cursor: (cursor + 1).min(last),
        }),
        Some(Action::FieldBefore) => Some(Overlay::Palette {
            field,
            cursor: cursor.saturating_sub(1),
        }),
        Some(Action::Accept) => {
            let typed = field.text().trim().to_owned();
            if run_line(state, &typed, todo) {
                return None;
            }
            match matches.get(cursor) {
                Some(binding) => perform(state, binding.action, now, todo),
                None => state.answer(format!("no command is called {typed:?}")),
            }
            None
        }
        _ => {
            let before = field.text().len();
            field.key(chord);
            // Deleting what is not there closes the line, as in an editor.
            if before == 0 && chord.key == crate::domain::Key::Backspace {
                return None;
            }
            Some(Overlay::Palette { field, cursor: 0 })
        }
    }
}

/// Commands with an argument; `false` if the line is none of them.
fn run_line(state: &mut State, typed: &str, todo: &mut Vec<Command>) -> bool {
    let Some((word, rest)) = typed.split_once(char::is_whitespace) else {
        return false;
    };
    let rest = rest.trim();
    let action = match word {
        "filter" => Action::Filter,
        "call" | "run" => Action::NewCall,
        "add" => Action::AddServer,
        "sort" => Action::Sort,
        "attach" | "show" => Action::Open,
        _ => return false,
    };
    if let Some(reason) = why_not(state, action) {
        state.answer(reason);
        return true;
    }
    match action {
        Action::Filter => apply_filter(state, rest),
        Action::NewCall => {
            let mut form = CallForm::new(state);
            form.filter = Field::new(rest);
            let server = form.server.clone().or_else(|| {
                let of_cursor = state
                    .selected()
                    .map(|entity| entity.view.task.server.clone());
                of_cursor.or_else(|| state.servers.first().map(|server| server.name.clone()))
            });
            if let Some(server) = server {
                ask_tools(state, &server, todo);
                form.server = Some(server);
                form.stage = Stage::Tool;
            }
            state.overlays.push(Overlay::Call(Box::new(form)));
        }
        Action::AddServer => {
            let _ = add_url(state, rest, todo);
        }
        Action::Sort => match super::SortKey::ALL.iter().find(|key| key.word() == rest) {
            Some(key) => {
                state.sort = *key;
                select::rebuild(state);
            }
            None => state.answer(format!("no column is called {rest:?}")),
        },
        _ => {
            let mut fitting = state
                .tasks
                .keys()
                .filter(|id| id.as_str().starts_with(rest));
            match (fitting.next().cloned(), fitting.next()) {
                (Some(id), None) => {
                    select::move_to_task(state, &id);
                    if state.cursor.as_ref() != Some(&id) {
                        state.answer(format!("{id} is hidden by the filter or folded"));
                    }
                }
                (Some(_), Some(_)) => state.answer(format!("{rest} fits several tasks")),
                (None, _) => state.answer(format!("no task begins with {rest}")),
            }
        }
    }
    true
}

/// Makes a server known by its URL; its name, if it is a URL at all.
fn add_url(state: &mut State, url: &str, todo: &mut Vec<Command>) -> Option<ServerName> {
    let url = url.trim();
    let Some(base) = name_from_url(url) else {
        state.answer(
            "a server is a URL such as http://127.0.0.1:8931/mcp, without name or password",
        );
        return None;
    };
    let known = state
        .servers
        .iter()
        .find(|known| known.url == url)
        .map(|known| known.name.clone());
    if let Some(name) = known {
        ask_tools(state, &name, todo);
        return Some(name);
    }
    let name = ServerName::free(base.as_str(), |name| {
        state
            .servers
            .iter()
            .any(|known| known.name.as_str() == name)
    });
    let server = ServerRef {
        name: name.clone(),
        url: Some(url.to_owned()),
        headers: Vec::new(),
        protocol: None,
    };
    ask(
        state,
        Ask::Server(server),
        Pending::Server(name.clone()),
        todo,
    );
    Some(name)
}

fn apply_filter(state: &mut State, typed: &str) {
    state.filter = Filter::read(typed);
    select::rebuild(state);
}

fn filter_key(
    state: &mut State,
    mut field: Field,
    action: Option<Action>,
    chord: Chord,
) -> Option<Overlay> {
    match action {
        Some(Action::Accept) => {
            if state.lines.is_empty() && !state.filter.is_empty() {
                state.answer_empty("nothing fits; Esc clears the filter");
            }
            None
        }
        Some(Action::Back) => {
            apply_filter(state, "");
            None
        }
        _ => {
            field.key(chord);
            let typed = field.text().to_owned();
            apply_filter(state, &typed);
            Some(Overlay::Filter(field))
        }
    }
}

fn search_key(
    state: &mut State,
    mut field: Field,
    action: Option<Action>,
    chord: Chord,
) -> Option<Overlay> {
    match action {
        Some(Action::Accept) => {
            let typed = field.text().trim().to_owned();
            if typed.is_empty() {
                state.search = None;
            } else {
                state.search = Some(typed);
                find_from_here(state);
            }
            None
        }
        Some(Action::Back) => None,
        _ => {
            field.key(chord);
            Some(Overlay::Search(field))
        }
    }
}

/// The places that match, as scroll positions, nearest to the present one first.
fn matching(state: &State) -> Vec<usize> {
    let (Some(search), Some(entity)) = (&state.search, state.selected()) else {
        return Vec::new();
    };
    if state.tab == Tab::Log {
        let log = state.logs.get(&entity.view.task.id);
        return log
            .iter()
            .flat_map(|log| log.entries.iter().rev().enumerate())
            .filter(|(_, entry)| finds(&entry_text(entry), search))
            .map(|(back, _)| back)
            .collect();
    }
    tab_lines(state, entity)
        .iter()
        .enumerate()
        .filter(|(_, line)| finds(line, search))
        .map(|(down, _)| down)
        .collect()
}

fn find_from_here(state: &mut State) {
    let places = matching(state);
    let here = state.scroll;
    let next = places.iter().find(|place| **place >= here);
    if let Some(place) = next.or(places.first()) {
        go_to(state, *place, places.len());
    } else {
        let words = state.search.clone().unwrap_or_default();
        state.answer(format!("{words:?} is not found here"));
    }
}

/// `n` goes on in the direction of the search: back in time in a log, down in a text.
fn find(state: &mut State, forward: bool) {
    let places = matching(state);
    let here = state.scroll;
    let next = if forward {
        places.iter().find(|place| **place > here)
    } else {
        places.iter().rev().find(|place| **place < here)
    };
    match next {
        Some(place) => go_to(state, *place, places.len()),
        None if places.is_empty() => state.answer("not found here"),
        None => state.answer("no further match; N the other way"),
    }
}

fn go_to(state: &mut State, place: usize, count: usize) {
    state.scroll = place;
    state.is_following = state.tab == Tab::Log && place == 0;
    let word = if count == 1 { "match" } else { "matches" };
    state.answer(format!("{count} {word}"));
}

fn edit_key(
    state: &mut State,
    mut form: Box<EditForm>,
    action: Option<Action>,
    chord: Chord,
    todo: &mut Vec<Command>,
) -> Option<Overlay> {
    let last = form.fields.len() - 1;
    match action {
        Some(Action::Back) => return None,
        Some(Action::NextField) => form.at = (form.at + 1).min(last),
        Some(Action::FieldBefore) => form.at = form.at.saturating_sub(1),
        Some(Action::Accept) if form.at < last => form.at += 1,
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

fn call_key(
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

fn arguments_key(
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
    let last = form.places().saturating_sub(1);
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
        Some(Action::NextField) => form.at = (form.at + 1).min(last),
        Some(Action::FieldBefore) => form.at = form.at.saturating_sub(1),
        Some(Action::Raw) => form.toggle_raw(),
        Some(Action::Accept) if !form.is_at_button() => form.at = (form.at + 1).min(last),
        Some(Action::Accept | Action::Send) => send(state, &mut form, todo),
        Some(turn @ (Action::ChoiceBefore | Action::ChoiceAfter)) => {
            if !form.turn(turn == Action::ChoiceAfter)
                && let Some(field) = form.text_field()
            {
                field.key(chord);
            }
        }
        _ => {
            form.complaints.clear();
            let is_space = chord == Chord::char(' ');
            match form.text_field() {
                Some(field) => {
                    field.key(chord);
                }
                None if is_space => {
                    form.turn(true);
                }
                None => state.answer("Space or the arrows turn this; Enter goes on"),
            }
        }
    }
    Some(Overlay::Call(form))
}

/// Sends the call, unless something is seen to be wrong with it.
fn send(state: &mut State, form: &mut CallForm, todo: &mut Vec<Command>) {
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
    let call = NewCall {
        id: id.clone(),
        server,
        tool: form.tool_name.clone(),
        arguments: serde_json::Value::Object(arguments).to_string(),
        name: (!name.is_empty()).then(|| name.to_owned()),
        tag: None,
        once: None,
        origin: form.origin.clone(),
        must_survive: false,
        limits: Limits::default(),
        on_input: crate::domain::OnInput::Ask,
    };
    form.complaints.clear();
    form.sent = Some(id.clone());
    if let Some(origin) = &form.origin {
        mark_seen(state, origin, todo);
    }
    ask(state, Ask::Start(Box::new(call)), Pending::Start(id), todo);
}

/// The next task id from the seed; one that is taken is passed over.
fn new_id(state: &mut State) -> TaskId {
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
            assert_eq!(read_limit(&write_limit(limit)), Ok(Some(limit)));
        }
    }
}
