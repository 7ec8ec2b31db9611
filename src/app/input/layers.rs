//! The keys of layers over the screen: help, palette, pages, dialogs, and text lines.

use core::time::Duration;

use crate::domain::{
    Chord, Key, Mono, NoticeLevel, ServerName, ServerRef, SessionRequest, Stamp, TaskId, text,
};

use super::{
    super::{
        CallForm, Command, Field, Focus, Grouping, Leaving, Menu, Overlay, SaveContent, SortKey,
        Stage, State, Tab, View,
        call::name_from_url,
        keymap::Action,
        menu::{self, MenuAction, was_readable},
        palette, select,
        session::RequestPurpose,
        typed_line::{self, TypedCall},
        update::quit,
    },
    actions::{
        READ_ONLY, adopt_from, apply_filter, forget, perform, report_requested, run_again,
        sign_in_at, why_not,
    },
    forms::repeat,
    ignore_early_key, mark_seen,
    moves::{find_from_here, show_tab, show_tools, to_tasks},
    request, request_next_consent, request_tools,
};

/// How long "cancel all and leave" waits for confirmation that the calls were cancelled.
const CANCEL_ALL: Duration = Duration::from_secs(5);

pub(super) fn help_key(
    state: &mut State,
    mut field: Field,
    cursor: usize,
    action: Option<Action>,
    chord: Chord,
    now: Stamp,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    let page = state.setup.keys.help_page(state.size.0, field.text());
    // Only the last line of a wrapped entry carries its binding.
    let found: Vec<_> = page.iter().filter_map(|line| line.binding).collect();
    let last = found.last().map_or(0, |(index, _)| *index);
    // Roughly the rows above the footer.
    let rows = usize::from(state.size.1).saturating_sub(10).max(1);
    if let Some(cursor) = chosen_after(action, cursor, last, rows) {
        return Some(Overlay::Help { field, cursor });
    }
    match action {
        Some(Action::Back) => None,
        Some(Action::Accept) => {
            let chosen = found.iter().find(|(index, _)| *index == cursor);
            match chosen {
                Some((_, binding)) if !binding.acts_on_panes() => {
                    let index = binding.scopes.first().map_or("", |scope| scope.title());
                    let key = state.setup.keys.first_key(binding);
                    state.reply(format!("{key} works {}", index.to_lowercase()));
                    return Some(Overlay::Help { field, cursor });
                }
                Some((_, binding)) => perform(state, binding.action, now, effects),
                None => {
                    let typed = text::clean_line(field.text()).into_owned();
                    state.reply(format!("no key or command matches {typed:?}"));
                    return Some(Overlay::Help { field, cursor });
                }
            }
            None
        }
        _ => {
            if type_in(&mut field, chord) {
                return None;
            }
            Some(Overlay::Help { field, cursor: 0 })
        }
    }
}

/// Types into the line above a list; returns whether that closes the layer: Backspace in an empty line does.
fn type_in(field: &mut Field, chord: Chord) -> bool {
    let was_empty = field.is_empty();
    field.key(chord);
    was_empty && chord.key == Key::Backspace
}

/// The selected index after a key that moves the selection; `None` for other keys.
fn chosen_after(action: Option<Action>, at: usize, last: usize, page: usize) -> Option<usize> {
    let moved = match action? {
        Action::NextField => at + 1,
        Action::PreviousField => at.saturating_sub(1),
        Action::PageDown => at + page,
        Action::PageUp => at.saturating_sub(page),
        _ => return None,
    };
    Some(moved.min(last))
}

pub(super) fn page_key(
    state: &mut State,
    title: String,
    lines: Vec<String>,
    at: usize,
    action: Option<Action>,
) -> Option<Overlay> {
    // Lines may wrap, so a page is half the rows of the screen.
    let rows = usize::from(state.size.1 / 2).saturating_sub(2).max(1);
    let is_close = matches!(action, Some(Action::Back | Action::Leave | Action::Accept));
    if is_close {
        return None;
    }
    let scroll = scrolled(at, lines.len().saturating_sub(1), rows, action).unwrap_or_else(|| {
        let [down, up, close] = [Action::Down, Action::Up, Action::Back].map(|it| state.key(it));
        state.reply(format!("press {down} or {up} to scroll, {close} to close"));
        at
    });
    Some(Overlay::Page {
        title,
        lines,
        scroll,
    })
}

/// The scroll position after a key; `None` for a key that does not scroll.
fn scrolled(at: usize, most: usize, rows: usize, action: Option<Action>) -> Option<usize> {
    Some(match action {
        Some(Action::Down) => (at + 1).min(most),
        Some(Action::Up) => at.saturating_sub(1),
        Some(Action::PageDown) => (at + rows).min(most),
        Some(Action::PageUp) => at.saturating_sub(rows),
        Some(Action::First) => 0,
        Some(Action::Last) => most,
        _ => return None,
    })
}

#[expect(
    clippy::too_many_arguments,
    reason = "the parts of the layer, the key in both forms, and where the effects go"
)]
pub(super) fn menu_key(
    state: &mut State,
    menu: Menu,
    cursor: usize,
    drawn: Option<Mono>,
    action: Option<Action>,
    chord: Chord,
    now: Stamp,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    let items = menu::items(state, &menu);
    let last = items.len().saturating_sub(1);
    let stay = |cursor: usize, menu: Menu| {
        Some(Overlay::Menu {
            menu,
            cursor,
            drawn,
        })
    };
    let letter = chord.typed();
    let by_key = letter.and_then(|letter| items.iter().position(|item| item.key == letter));
    // An item's letter wins over the user's key for quitting.
    let is_close = match action {
        Some(Action::Back) => true,
        Some(Action::Leave) => by_key.is_none(),
        _ => false,
    };
    if is_close {
        if menu == Menu::Leave {
            state.leave.when = Leaving::No;
        }
        if matches!(menu, Menu::Consent { .. }) {
            state.dialogs.awaiting_consent.clear();
            let [key, servers] = [Action::SignIn, Action::ShowServers].map(|it| state.key(it));
            state.reply(format!(
                "postponed; press {key} on a server in {servers} to decide"
            ));
        }
        return None;
    }
    if menu.ignores_early_keys() && !was_readable(drawn, now) {
        ignore_early_key(state, chord);
        return stay(cursor, menu);
    }
    let picked = match (by_key, action) {
        (Some(at), _) => at,
        (None, Some(Action::Accept)) => cursor.min(last),
        (None, Some(Action::Down)) => return stay((cursor + 1).min(last), menu),
        (None, Some(Action::Up)) => return stay(cursor.saturating_sub(1), menu),
        (None, Some(Action::First | Action::PageUp)) => return stay(0, menu),
        (None, Some(Action::Last | Action::PageDown)) => return stay(last, menu),
        _ => {
            let [down, up] = [Action::Down, Action::Up].map(|it| state.key(it));
            state.reply(format!(
                "choose with {down} {up} and Enter, or by letter; Esc closes"
            ));
            return stay(cursor, menu);
        }
    };
    let item = items.get(picked)?;
    if let Some(reason) = &item.why_not {
        state.reply(format!("{}: {reason}", item.label));
        return stay(picked, menu);
    }
    if menu == Menu::Leave {
        state.leave.when = Leaving::No;
    }
    if let Menu::WhatNow(id) = &menu {
        mark_seen(state, id, effects);
    }
    if let MenuAction::Read { title, lines } = item.action.clone() {
        let menu = Overlay::Menu {
            menu,
            cursor: picked,
            drawn,
        };
        state.dialogs.stack.push(menu);
        return Some(Overlay::Page {
            title,
            lines,
            scroll: 0,
        });
    }
    run_menu_action(state, item.action.clone(), now, effects);
    if let (Menu::SignIn { .. }, MenuAction::OpenPage(_)) = (&menu, &item.action) {
        let key = state.key(Action::SignIn);
        state.reply(format!(
            "opened in your browser; press {key} to see the page again"
        ));
    }
    if let (Menu::Cancel(tasks), MenuAction::Request(_)) = (&menu, &item.action) {
        report_requested(state, tasks, "cancel");
    }
    if matches!(menu, Menu::Consent { .. }) && item.action == MenuAction::Close {
        request_next_consent(state, effects);
    }
    None
}

pub(super) fn run_menu_action(
    state: &mut State,
    action: MenuAction,
    now: Stamp,
    effects: &mut Vec<Command>,
) {
    match action {
        // The page opens above the dialog, which stays open.
        MenuAction::Close | MenuAction::Read { .. } => {}
        MenuAction::Request(asks) => {
            for one in asks {
                request(state, one, RequestPurpose::Other, effects);
            }
        }
        MenuAction::Copy(copied) => {
            effects.push(Command::Copy(copied));
            state.show_toast(NoticeLevel::Info, "sent to the terminal's clipboard", now);
        }
        MenuAction::InjectFault(what) => effects.push(Command::InjectFault(what)),
        MenuAction::ShowView(view) => {
            view.show(state);
            state.reply(format!("view: {}", view.message()));
        }
        MenuAction::ImportServers => effects.push(Command::ImportServers),
        MenuAction::Approve { server, digest } => effects.push(Command::Approve { server, digest }),
        MenuAction::OpenPage(url) => {
            effects.push(Command::OpenPage(url));
            state.reply("opened in your browser");
        }
        MenuAction::SaveAs { tasks, what, name } => state.dialogs.stack.push(Overlay::SaveAs {
            field: Field::new(name),
            tasks,
            what,
        }),
        MenuAction::OpenPart { task, part } => {
            effects.push(Command::OpenPart { task, part });
            state.reply("opening it");
        }
        MenuAction::RunAgain(id) => run_again(state, &id, Vec::new(), effects),
        MenuAction::Repeat { is_unchecked } => repeat(state, is_unchecked, now, effects),
        MenuAction::Forget(id) => forget(state, vec![id], now, effects),
        MenuAction::Leave => quit(state, effects),
        MenuAction::LeaveOnceSafe => state.leave.when = Leaving::OnceSafe,
        MenuAction::CancelAllAndLeave => {
            let open: Vec<TaskId> = state.totals.open.iter().cloned().collect();
            for id in open {
                request(
                    state,
                    SessionRequest::Cancel(id),
                    RequestPurpose::Other,
                    effects,
                );
            }
            state.leave.when = Leaving::OnceCancelled(now.mono.after(CANCEL_ALL));
        }
    }
}

pub(super) fn palette_key(
    state: &mut State,
    mut field: Field,
    cursor: usize,
    action: Option<Action>,
    chord: Chord,
    now: Stamp,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    let matches = palette::matches(field.text());
    let last = matches.len().saturating_sub(1);
    let rows = usize::from(state.size.1).saturating_sub(10).max(1);
    if let Some(cursor) = chosen_after(action, cursor, last, rows) {
        return Some(Overlay::Palette { field, cursor });
    }
    match action {
        Some(Action::Back) => None,
        Some(Action::Accept) => {
            let typed = field.text().trim().to_owned();
            if run_line(state, &typed, now, effects) {
                return None;
            }
            match matches.get(cursor) {
                Some(binding) => perform(state, binding.action, now, effects),
                None => state.reply(format!("unknown command {typed:?}")),
            }
            None
        }
        _ => {
            if type_in(&mut field, chord) {
                return None;
            }
            Some(Overlay::Palette { field, cursor: 0 })
        }
    }
}

/// Saves the current view of the list under a name, here and in the configuration.
fn save_view(state: &mut State, name: &str, effects: &mut Vec<Command>) {
    if !View::is_name(name) {
        let message = format!("invalid view name {name:?}; use letters, digits, - and _");
        return state.reply(message);
    }
    let view = View::of(state, name);
    let views = &mut state.setup.views;
    views.retain(|known| known.name != name);
    views.push(view.clone());
    views.sort_by(|one, two| one.name.cmp(&two.name));
    effects.push(Command::SaveView(view));
}

/// Runs a palette command with an argument; returns `false` if the line is no such command.
pub(super) fn run_line(
    state: &mut State,
    typed: &str,
    now: Stamp,
    effects: &mut Vec<Command>,
) -> bool {
    let (word, rest) = typed
        .split_once(char::is_whitespace)
        .map_or((typed, ""), |(word, rest)| (word, rest.trim()));
    let is_read = matches!(word, "attach" | "show" | "watch" | "result" | "logs");
    if is_read || !rest.is_empty() && of_tasks(word).is_some() {
        on_tasks(state, word, &typed_line::split_words(rest), now, effects);
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    let action = match word {
        "filter" => Action::Filter,
        "call" | "run" => Action::NewCall,
        "add" => Action::AddServer,
        "view" | "save-view" => Action::Views,
        "group" => Action::Group,
        "sort" => Action::Sort,
        "adopt" => Action::Adopt,
        "tools" => Action::ShowTools,
        "login" => Action::SignIn,
        _ => return false,
    };
    let why_not = match why_not(state, action) {
        // Showing a view changes nothing, saving one does.
        None if word == "save-view" && state.setup.readonly => Some(READ_ONLY.to_owned()),
        // With a named server it doesn't matter which servers wait.
        why_not => why_not.filter(|_| action != Action::SignIn),
    };
    if let Some(reason) = why_not {
        state.reply(reason);
        return true;
    }
    match action {
        Action::Filter => apply_filter(state, rest),
        Action::NewCall => match typed_line::parse_call(&typed_line::split_words(rest)) {
            Ok(call) => call_line(state, call, effects),
            Err(message) => state.reply(message),
        },
        Action::SignIn if state.setup.readonly => {
            state.reply(READ_ONLY);
        }
        Action::SignIn => match named(state, rest) {
            Some(server) => sign_in_at(state, &server, effects),
            None => state.reply(no_server(state, rest)),
        },
        Action::ShowTools => {
            let name = rest.strip_prefix("-s ").unwrap_or(rest).trim();
            match named(state, name) {
                Some(server) => show_tools(state, server, effects),
                None => state.reply(no_server(state, name)),
            }
        }
        Action::AddServer => {
            let _ = add_url(state, rest, effects);
        }
        Action::Adopt => match named(state, rest) {
            Some(server) => adopt_from(state, server, effects),
            None => state.reply(no_server(state, rest)),
        },
        Action::Views if word == "save-view" => save_view(state, rest, effects),
        Action::Views => match state.setup.views.iter().find(|it| it.name == rest) {
            Some(view) => view.clone().show(state),
            None => state.reply(format!("no view named {rest:?}")),
        },
        Action::Group => match Grouping::ALL.iter().find(|by| by.label() == rest) {
            Some(by) => {
                state.list.grouping = *by;
                select::arrange(state);
            }
            None => state.reply(format!(
                "can't group by {rest:?}; expected need, server or status"
            )),
        },
        Action::Sort => match SortKey::ALL.iter().find(|key| key.label() == rest) {
            Some(key) => {
                state.list.sort = *key;
                select::arrange(state);
            }
            None => state.reply(format!("can't sort by {rest:?}; no such column")),
        },
        _ => {}
    }
    true
}

/// Looks up a server by name.
fn named(state: &State, name: &str) -> Option<ServerName> {
    let known = state.servers.iter().find(|it| it.name.as_str() == name);
    known.map(|server| server.name.clone())
}

/// Opens the form of a typed call, or the tool search if no tool has that name.
fn call_line(state: &mut State, call: TypedCall, effects: &mut Vec<Command>) {
    let wanted = match call.server.as_deref() {
        Some(url) if url.contains("://") => match add_url(state, url, effects) {
            Some(server) => Some(server),
            None => return,
        },
        Some(name) => match named(state, name) {
            Some(server) => Some(server),
            None => return state.reply(no_server(state, name)),
        },
        None => None,
    };
    let tools = |name: &ServerName| state.tools.get(name);
    let has = |name: &ServerName| {
        tools(name).is_some_and(|it| it.list.iter().any(|tool| tool.name == call.tool))
    };
    let of_cursor = (state.selected()).map(|task_row| task_row.view.task.server.clone());
    let mut names = state.servers.iter().map(|server| server.name.clone());
    let server = (wanted.clone())
        .or_else(|| of_cursor.clone().filter(has))
        .or_else(|| names.clone().find(has))
        .or(of_cursor)
        .or_else(|| names.next());
    let mut form = CallForm::new(state);
    let Some(server) = server else {
        form.filter = Field::new(call.tool);
        return state.dialogs.stack.push(Overlay::Call(Box::new(form)));
    };
    let is_unknown = tools(&server).is_none_or(|it| !it.is_known);
    let is_meant = wanted.is_some() || !call.arguments.is_empty();
    if has(&server) || is_unknown && is_meant && !call.tool.is_empty() {
        if !has(&server) {
            request_tools(state, &server, effects);
        }
        form = CallForm::from_line(state, server, call);
    } else {
        request_tools(state, &server, effects);
        form.server = Some(server);
        form.stage = Stage::Tool;
        form.filter = Field::new(call.tool);
        form.name = Field::new(call.name);
        form.typed = call.arguments;
    }
    state.dialogs.stack.push(Overlay::Call(Box::new(form)));
}

/// The action of a command that takes task ids.
fn of_tasks(word: &str) -> Option<Action> {
    Some(match word {
        "open" => Action::Open,
        "pause" => Action::Pause,
        "resume" => Action::Resume,
        "cancel" => Action::Cancel,
        "rm" => Action::Forget,
        "answer" => Action::Answer,
        "edit" => Action::Edit,
        "copy" => Action::CopyMenu,
        "export" => Action::Export,
        "print" => Action::Print,
        "again" | "rerun" => Action::RunAgain,
        _ => return None,
    })
}

/// Looks up a task by an unambiguous prefix of its id.
fn task_named(state: &State, name: &str) -> Result<TaskId, String> {
    let ids = state.kept_tasks().map(|task_row| &task_row.view.task.id);
    let mut fitting = ids.filter(|id| id.as_str().starts_with(name));
    match (fitting.next(), fitting.next()) {
        (Some(id), None) => Ok(id.clone()),
        (Some(_), Some(_)) => Err(format!("{name} matches several tasks")),
        (None, _) => Err(format!("no task id starts with {name}")),
    }
}

/// Goes to the named tasks and performs the command's action on them.
fn on_tasks(
    state: &mut State,
    word: &str,
    names: &[String],
    now: Stamp,
    effects: &mut Vec<Command>,
) {
    let is_again = of_tasks(word) == Some(Action::RunAgain);
    let (names, pairs) = names.split_at(if is_again {
        names.len().min(1)
    } else {
        names.len()
    });
    let tasks: Result<Vec<TaskId>, String> = match names {
        // Without an id: the task under the cursor.
        [] => Ok(state.list.cursor.iter().cloned().collect()),
        [all] if all == "--all" && word == "cancel" => {
            Ok(state.totals.open.iter().cloned().collect())
        }
        names => names.iter().map(|name| task_named(state, name)).collect(),
    };
    let tasks = match tasks {
        Ok(tasks) => tasks,
        Err(message) => return state.reply(message),
    };
    let Some(first) = tasks.first() else {
        return state.reply("no task to act on");
    };
    to_tasks(state);
    select::move_to_task(state, first);
    if state.list.cursor.as_ref() != Some(first) && tasks.len() == 1 {
        return state.reply(format!("{first} is hidden by the filter or folded"));
    }
    let tab = match word {
        "result" => Some(Tab::Result),
        "logs" => Some(Tab::Log),
        _ => None,
    };
    if let Some(tab) = tab {
        show_tab(state, tab);
        (state.detail.focus, state.detail.is_zoomed) = (Focus::Detail, true);
        return;
    }
    let Some(action) = of_tasks(word) else { return };
    if is_again && why_not(state, action).is_none() {
        let pairs: Result<Vec<_>, String> = pairs
            .iter()
            .map(|it| typed_line::parse_argument(it))
            .collect();
        return match pairs {
            Ok(pairs) => {
                let id = first.clone();
                run_again(state, &id, pairs.into_iter().flatten().collect(), effects);
            }
            Err(message) => state.reply(message),
        };
    }
    // The action applies to the named tasks, not to the marked ones.
    let several = if tasks.len() > 1 { tasks } else { Vec::new() };
    let marks = std::mem::replace(&mut state.list.marks, several.into_iter().collect());
    perform(state, action, now, effects);
    state.list.marks = marks;
}

/// Adds a server by URL unless it is known; returns its name, or `None` if the URL is invalid.
pub(super) fn add_url(
    state: &mut State,
    url: &str,
    effects: &mut Vec<Command>,
) -> Option<ServerName> {
    let url = url.trim();
    let Some(base) = name_from_url(url) else {
        state.reply("enter a URL such as http://127.0.0.1:8931/mcp (no credentials)");
        return None;
    };
    let known = state
        .servers
        .iter()
        .find(|known| known.url == url)
        .map(|known| known.name.clone());
    if let Some(name) = known {
        request_tools(state, &name, effects);
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
        config_headers: Vec::new(),
        protocol: None,
    };
    request(
        state,
        SessionRequest::Server(server),
        RequestPurpose::Server(name.clone()),
        effects,
    );
    Some(name)
}

pub(super) fn filter_key(
    state: &mut State,
    mut field: Field,
    action: Option<Action>,
    chord: Chord,
) -> Option<Overlay> {
    match action {
        Some(Action::Accept) => {
            if state.list.rows.is_empty() && !state.list.filter.is_empty() {
                state.reply_until_rows("no matching tasks; Esc clears the filter");
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

pub(super) fn save_key(
    state: &mut State,
    (mut field, tasks, what): (Field, Vec<TaskId>, SaveContent),
    action: Option<Action>,
    chord: Chord,
    effects: &mut Vec<Command>,
) -> Option<Overlay> {
    match action {
        Some(Action::Accept) => {
            let path = field.text().trim().to_owned();
            if path.is_empty() {
                state.reply("not saved: no file name given");
            } else {
                save_each(state, &tasks, what, path, effects);
            }
            None
        }
        Some(Action::Back) => {
            state.reply("not saved");
            None
        }
        _ => {
            field.key(chord);
            Some(Overlay::SaveAs { field, tasks, what })
        }
    }
}

/// Saves one task to a file, or several tasks to a directory with one file each.
fn save_each(
    state: &mut State,
    tasks: &[TaskId],
    what: SaveContent,
    path: String,
    effects: &mut Vec<Command>,
) {
    if let [task] = tasks {
        let task = task.clone();
        return effects.push(Command::Save { task, what, path });
    }
    let ending = if what == SaveContent::Page {
        "html"
    } else {
        "json"
    };
    let directory = if path.ends_with('/') {
        path
    } else {
        path + "/"
    };
    effects.extend(tasks.iter().map(|task| Command::Save {
        task: task.clone(),
        what,
        path: format!("{directory}{task}.{ending}"),
    }));
    report_requested(state, tasks, "export");
}

pub(super) fn search_key(
    state: &mut State,
    mut field: Field,
    action: Option<Action>,
    chord: Chord,
) -> Option<Overlay> {
    match action {
        Some(Action::Accept) => {
            let typed = field.text().trim().to_owned();
            if typed.is_empty() {
                state.detail.search = None;
            } else {
                state.detail.search = Some(typed);
                find_from_here(state);
            }
            None
        }
        Some(Action::Back) => {
            state.detail.search = None;
            None
        }
        _ => {
            field.key(chord);
            Some(Overlay::Search(field))
        }
    }
}

/// The message for an unknown server name.
fn no_server(state: &State, name: &str) -> String {
    let known: Vec<&str> = state.servers.iter().map(|it| it.name.as_str()).collect();
    let known = text::clean_line(&known.join(", ")).into_owned();
    format!("no server named {name:?}; known servers: {known}")
}
