//! What an event changes and what has to be done about it.

use std::{sync::Arc, time::Duration};

use crate::domain::{
    Connectivity, LinkState, NoticeLevel, RequestError, ServerView, SessionEvent, SessionRequest,
    SessionRequestId, SessionResponse, Stamp, Status, TaskId, TaskView, TrafficEntry, Wall, text,
};

use super::{
    Action, CallForm, Command, Consent, Event, Findings, Group, Leaving, Menu, Overlay, Pane,
    Reread, ResultText, Stage, State, Tab, WireText, away, input, leave_note, notify,
    select::{self, settle_places},
    state::{Mark, Pending, TaskRow, Tools},
};

/// Histories kept at once; the one looked at is never given up.
const LOGS: usize = 8;
/// Columns kept of a recorded message; `longhaul trace --full` has all of it.
const WIRE_COLUMNS: usize = 500;
/// Results kept at once.
const RESULTS: usize = 4;
/// A gap between two events in which the wall clock ran on by this much more than the machine is sleep.
const SLEPT: Duration = Duration::from_secs(60);

/// Takes an event in: the only way in which the state changes.
pub fn update(state: &mut State, event: Event, now: Stamp) -> Vec<Command> {
    update_all(state, [event], now)
}

/// Takes in what came at once. What follows from all of it, such as the order of the rows, is worked out once.
pub fn update_all(
    state: &mut State,
    events: impl IntoIterator<Item = Event>,
    now: Stamp,
) -> Vec<Command> {
    let mut todo = Vec::new();
    let mut has_come = false;
    for event in events {
        if state.over.is_none() {
            has_come = true;
            notice_slept(state, now);
            // Whatever comes may show, and a frame in which nothing changed writes nothing.
            state.is_dirty = true;
            take(state, event, now, &mut todo);
        }
    }
    if has_come {
        follow(state, now, &mut todo);
    }
    todo
}

fn take(state: &mut State, event: Event, now: Stamp, todo: &mut Vec<Command>) {
    match event {
        Event::Input(input) => input::take(state, input, now, todo),
        Event::Session(news) => take_news(state, news, now, todo),
        Event::Restored {
            views,
            servers,
            saved_at,
        } => restore(state, views, servers, saved_at, now),
        Event::History {
            task,
            entries,
            dropped,
        } => take_history(state, &task, entries, dropped),
        Event::ResultRead { task, json } => {
            let text = ResultText::read(&task, json);
            state.results.insert(task, text);
        }
        Event::WireRead { task, entries } => take_wire(state, &task, &entries),
        Event::ServersFound(found) if found.lines.is_empty() => {
            state.remark = None;
            state.say(NoticeLevel::Info, Findings::NONE, now);
        }
        Event::ServersFound(Findings { lines, new, .. }) => {
            // They are no longer looked for.
            state.remark = None;
            input::open_menu(state, Menu::Import { lines, new });
        }
        Event::ServersTaken(taken) => {
            for line in &taken.lines {
                state.note(NoticeLevel::Info, line, now.wall);
            }
            let count = text::plural(u64::try_from(taken.new).unwrap_or(u64::MAX), "server");
            let key = state.key(Action::ShowMessages);
            let words = format!("took {count} over; {key} lists what became of each");
            state.say(NoticeLevel::Info, &words, now);
            state.overlays.push(Overlay::Page {
                title: format!("Took {count} over"),
                lines: taken.lines,
                scroll: 0,
            });
            let _ = input::ask(
                state,
                SessionRequest::Configure(taken.server_configs),
                Pending::Plain,
                todo,
            );
            // Above what became of each: what waits for a word of the user's is asked for at once.
            state.to_agree = taken.waiting.into();
            input::ask_consent(state, todo);
        }
        Event::ConsentRead(server, consent) => {
            let Consent {
                to_agree: lines,
                digest,
                is_program,
                is_agreed,
                words,
                server_configs,
            } = consent;
            // It is no longer looked for.
            state.remark = None;
            if lines.is_empty() && is_agreed {
                state.say(NoticeLevel::Info, &words, now);
                input::ask_consent(state, todo);
            } else if lines.is_empty() {
                input::tell_need(state, &server, words, now, todo);
            } else {
                let menu = Menu::Consent {
                    server,
                    lines,
                    digest,
                    is_program,
                };
                input::open_menu(state, menu);
            }
            // It may be another one than this screen was started with.
            let _ = input::ask(
                state,
                SessionRequest::Configure(server_configs),
                Pending::Plain,
                todo,
            );
        }
        Event::ConfigRead(read) => take_config(state, *read, now, todo),
        Event::Worked(words) => state.say(NoticeLevel::Info, &words, now),
        Event::Tick => {}
        Event::Resumed => state.has_focus = true,
        Event::WantsToDrive => input::drive(state, todo),
        Event::Attached(task) => select::move_to_task(state, &task),
        Event::Failed(words) => state.say(NoticeLevel::Error, &words, now),
    }
}

/// Takes over what the file of configuration says now.
fn take_config(state: &mut State, read: Reread, now: Stamp, todo: &mut Vec<Command>) {
    if state.config.as_ref() == Some(&read) {
        if state.remark.is_some() {
            state.answer(format!("nothing in {} has changed", read.file));
        }
        return;
    }
    state.config = Some(read.clone());
    let Reread {
        file,
        server_configs,
        limits,
        theme,
        takes_mouse,
        views,
        keys,
        remarks,
    } = read;
    let count = u64::try_from(server_configs.servers.len()).unwrap_or(u64::MAX);
    let setup = &mut state.setup;
    (setup.limits, setup.views, setup.keys) = (limits, views, keys);
    setup.look.theme = theme;
    if std::mem::replace(&mut setup.takes_mouse, takes_mouse) != takes_mouse {
        todo.push(Command::ReportMouse(takes_mouse));
    }
    let count = text::plural(count, "server");
    // What was wrong with the file before is wrong no more, or is said anew.
    let is_of_file = |text: &str| text.contains(file.as_str());
    state.toasts.retain(|toast| !is_of_file(&toast.text));
    state.say(
        NoticeLevel::Info,
        &format!("read {file} again: {count}"),
        now,
    );
    for remark in remarks {
        state.say(NoticeLevel::Warning, &remark, now);
    }
    let _ = input::ask(
        state,
        SessionRequest::Configure(server_configs),
        Pending::Plain,
        todo,
    );
}

/// What every change, and the time, may have made due.
fn follow(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    let toasts = state.toasts.len();
    state.toasts.retain(|toast| toast.until > now.mono);
    state.is_dirty |= toasts != state.toasts.len();
    if state
        .remark
        .take_if(|remark| remark.until <= now.mono)
        .is_some()
    {
        state.is_dirty = true;
    }
    settle_places(state, now);
    want_files(state, todo);
    finish_leaving(state, now, todo);
    notify::follow(state, now, todo);
}

/// A jump of the wall clock beside the monotonic one is sleep: the banner counts what happened meanwhile.
fn notice_slept(state: &mut State, now: Stamp) {
    if let Some(last) = state.last_event.replace(now) {
        let (wall, mono) = (now.wall.since(last.wall), now.mono.since(last.mono));
        if wall > mono.saturating_add(SLEPT) && !state.open.is_empty() {
            state.away = Some(away::begin(state, last.wall, now.wall, true));
            for task_row in state.tasks.values_mut() {
                if !task_row.view.task.status.is_settled() {
                    task_row.mark(last.wall, Mark::Asleep);
                    task_row.mark(now.wall, super::state::mark_of(&task_row.view.contact));
                }
            }
        }
    }
}

fn take_news(state: &mut State, news: SessionEvent, now: Stamp, todo: &mut Vec<Command>) {
    match news {
        SessionEvent::Task(view) => {
            if let Some(frozen) = &mut state.frozen {
                frozen.held.insert(view.task.id.clone(), view);
            } else {
                take_task(state, view, now);
            }
        }
        SessionEvent::Erased(id) => erase(state, &id),
        SessionEvent::Server(server) => {
            let wants = ServerView::waits_for_consent;
            let did_want = state.server(&server.name).is_some_and(wants);
            let lets_in = did_want && !wants(&server);
            take_server(state, (*server).clone());
            let refused = |tools: &Tools| tools.refused.is_some();
            if lets_in && state.tools.get(&server.name).is_some_and(refused) {
                // Whoever looks for its tools got a refusal that holds no more.
                input::ask_tools(state, &server.name, todo);
            }
        }
        SessionEvent::Response {
            request: ask,
            outcome,
        } => take_answer(state, ask, outcome, now, todo),
        SessionEvent::Notice(notice) => state.say(notice.level, &notice.text, now),
        SessionEvent::Driver { pid, is_us } => {
            state.driver = Some((pid, is_us));
            state.is_driverless = false;
        }
        SessionEvent::Undriven => undriven(state, now),
        SessionEvent::Failed { message: words, .. } => {
            undriven(state, now);
            state.say(NoticeLevel::Error, &words, now);
        }
    }
}

/// Nobody drives any more: what is shown is as of now, if it was followed until now.
fn undriven(state: &mut State, now: Stamp) {
    // How they stand only a driver knows.
    for server in &mut state.servers {
        server.state = LinkState::Idle;
    }
    if !state.is_driverless && state.driver.is_some() {
        state.saved_at = Some(now.wall);
    }
    state.is_driverless = true;
}

pub(super) fn take_server(state: &mut State, server: ServerView) {
    match state
        .servers
        .iter_mut()
        .find(|known| known.name == server.name)
    {
        Some(known) => *known = server,
        None => state.servers.push(server),
    }
}

/// Takes the newest picture of a task, and says aloud what it means for the user.
pub(super) fn take_task(state: &mut State, view: Arc<TaskView>, now: Stamp) {
    let id = view.task.id.clone();
    state.count(&id, false);
    let mut before = state
        .tasks
        .get(&id)
        .map(|task_row| (task_row.belongs(), task_row.view.task.status.clone()));
    let is_asked_for;
    let mut is_renamed = false;
    let mut has_changed = false;
    if let Some(task_row) = state.tasks.get_mut(&id) {
        let (status, asked) = (
            task_row.view.task.status.clone(),
            task_row.view.task.control,
        );
        let was_forgotten = task_row.view.task.forgotten_at.is_some();
        let old_title = task_row.view.task.title().to_owned();
        let was_restored = matches!(task_row.view.contact, Connectivity::Unwatched { .. });
        task_row.take(view, now);
        let task = &task_row.view.task;
        has_changed = task.status != status || asked.is_some() && task.control.is_none();
        if was_restored && task_row.home != task_row.belongs() && task_row.settled_at.is_some() {
            // It ended while nobody looked: there is no row under anybody's eye to keep in its place.
            task_row.settled_at = None;
            task_row.home = task_row.belongs();
            state.is_order_stale = true;
        }
        if task_row.home != task_row.belongs() {
            state.moving.insert(id.clone());
        }
        is_asked_for = was_forgotten != task_row.view.task.forgotten_at.is_some();
        if is_asked_for
            || state.sort != super::SortKey::Newest
            || state.grouping == super::Grouping::Status
        {
            state.is_order_stale = true;
        }
        is_renamed = task_row.view.task.title() != old_title;
        // A filter may let it through, or no longer.
        state.is_order_stale |= !state.filter.is_empty() || state.needs_only;
    } else {
        let returns = state.returning.remove(&id);
        if !returns
            && state
                .restored_at
                .is_some_and(|at| view.task.created_at >= at)
        {
            // It may begin and end between two pictures; its end is told all the same.
            before = Some((Group::Running, Status::Running));
        }
        add_task(state, view, now);
        is_asked_for = state.wanted.as_ref() == Some(&id)
            || state.lines.is_empty()
            || (returns && state.returning.is_empty());
    }
    state.count(&id, true);
    if has_changed {
        state.has_changed(&id);
    }
    input::close_gone(state, &id, now);
    if is_renamed {
        index_arguments(state, &id);
    }
    // What the user has just asked for, and the very first row, need not wait for quiet.
    if is_asked_for {
        state.looked_since.get_or_insert(now.mono);
        select::rebuild(state);
    }
    if let Some((group, status)) = before {
        state.are_headings_stale |= state
            .task(&id)
            .is_some_and(|it| it.belongs() != group || it.view.task.status != status);
        notify::announce(state, &id, group, &status, now);
    }
}

fn add_task(state: &mut State, view: Arc<TaskView>, now: Stamp) {
    let id = view.task.id.clone();
    state.tasks.insert(id.clone(), TaskRow::new(view, now));
    index_arguments(state, &id);
    state.is_order_stale = true;
}

/// Notes which arguments differ among tasks of one title.
fn index_arguments(state: &mut State, id: &TaskId) {
    let Some(task_row) = state.tasks.get(id) else {
        return;
    };
    let title = task_row.view.task.title().to_owned();
    let index = state.differing.entry(title).or_default();
    for (key, value) in &task_row.arguments {
        index
            .entry(key.clone())
            .and_modify(|(first, differs)| *differs |= first != value)
            .or_insert_with(|| (value.clone(), false));
    }
}

fn erase(state: &mut State, id: &TaskId) {
    state.count(id, false);
    state.tasks.remove(id);
    state.logs.remove(id);
    state.results.remove(id);
    state.moving.remove(id);
    if let Some(frozen) = &mut state.frozen {
        frozen.held.remove(id);
    }
    // A dialog about it would act on nothing.
    state
        .overlays
        .retain(|overlay| !input::is_about(overlay, id));
    select::rebuild(state);
}

fn take_answer(
    state: &mut State,
    ask: SessionRequestId,
    outcome: Result<SessionResponse, RequestError>,
    now: Stamp,
    todo: &mut Vec<Command>,
) {
    let Some(pending) = state.pending.remove(&ask) else {
        return;
    };
    match (pending, outcome) {
        (Pending::Tools(server), Ok(SessionResponse::Tools(list))) => {
            let tools = state.tools.entry(server).or_default();
            tools.list = list
                .into_iter()
                .filter(crate::domain::Tool::is_offered)
                .collect();
            tools.is_known = true;
            tools.asked = None;
            tools.refused = None;
            with_call_form(state, |state, form| form.tool_known(state));
        }
        (Pending::Tools(server), Err(refused)) => {
            let tools = state.tools.entry(server).or_default();
            tools.asked = None;
            tools.refused = Some(refused.to_string());
            with_call_form(state, |state, form| form.tool_known(state));
        }
        (Pending::Start(id), Ok(SessionResponse::Started(started))) => {
            state.say(NoticeLevel::Info, &format!("{started} is started"), now);
            let is_ours = |overlay: &Overlay| matches!(overlay, Overlay::Call(form) if form.sent.as_ref() == Some(&id));
            state.overlays.retain(|overlay| !is_ours(overlay));
            state.pane = Pane::Tasks;
            // Whatever was read of another: of this there is only the present.
            input::show_tab(state, Tab::Now);
            state.wanted = Some(started);
            select::rebuild(state);
        }
        (Pending::Start(id), Err(refused)) => {
            let is_its = |form: &CallForm| form.sent.as_ref() == Some(&id);
            refused_in_form(state, &refused, is_its, |form| form.sent = None, now);
        }
        (Pending::Server(server), Ok(_)) => input::ask_tools(state, &server, todo),
        (Pending::Server(server), Err(refused)) => {
            let is_its = |form: &CallForm| form.server.as_ref() == Some(&server);
            let step_back = |form: &mut CallForm| form.stage = Stage::Server;
            refused_in_form(state, &refused, is_its, step_back, now);
        }
        (Pending::Answer { task, key, word }, outcome) => {
            input::took_answer(state, &task, &key, word, outcome, now);
        }
        (Pending::SignIn(server), Ok(SessionResponse::SignIn(page))) => {
            state.remark = None;
            input::open_menu(state, Menu::SignIn { server, page });
        }
        (Pending::Drive, Err(RequestError::WouldLoseWork(words))) => {
            input::open_menu(state, Menu::Drive(words));
        }
        (Pending::Adopt(server), Ok(SessionResponse::Adopted(tasks))) => {
            let name = text::clean_line(server.as_str());
            let words = match u64::try_from(tasks.len()) {
                Ok(0) => format!("{name} lists nothing that is not here already"),
                count => {
                    let count = text::plural(count.unwrap_or(u64::MAX), "task");
                    format!("{count} of {name} imported")
                }
            };
            state.say(NoticeLevel::Info, &words, now);
        }
        (_, Ok(SessionResponse::Done(words))) => state.say(NoticeLevel::Info, &words, now),
        (_, Err(refused)) => {
            let words = refused.to_string();
            state.say(NoticeLevel::Error, &words, now);
            // "asked: ..." is no longer the last word on it.
            if state.remark.is_some() {
                state.answer(text::clean_line(&words));
            }
        }
        (_, Ok(_)) => {}
    }
}

/// Says a refusal in the form that asked for it, which steps back, or as news where that was closed.
fn refused_in_form(
    state: &mut State,
    refused: &RequestError,
    is_its: impl Fn(&CallForm) -> bool,
    step_back: impl Fn(&mut CallForm),
    now: Stamp,
) {
    let words = refused.to_string();
    let mut is_told = false;
    for overlay in &mut state.overlays {
        if let Overlay::Call(form) = overlay
            && is_its(form)
        {
            step_back(form);
            form.complaints = vec![words.clone()];
            is_told = true;
        }
    }
    if is_told {
        state.note(NoticeLevel::Error, &words, now.wall);
    } else {
        state.say(NoticeLevel::Error, &words, now);
    }
}

fn with_call_form(state: &mut State, change: impl Fn(&State, &mut CallForm)) {
    let mut overlays = std::mem::take(&mut state.overlays);
    for overlay in &mut overlays {
        if let Overlay::Call(form) = overlay {
            change(state, form);
        }
    }
    state.overlays = overlays;
}

fn take_history(
    state: &mut State,
    task: &TaskId,
    entries: Vec<crate::domain::HistoryEntry>,
    dropped: u64,
) {
    let Some(log) = state.logs.get_mut(task) else {
        return;
    };
    let added = log.take(entries, dropped);
    let held = log.entries.len();
    if state.cursor.as_ref() == Some(task) && state.tab == Tab::Log && !state.is_following {
        // What is read stays where it is while new lines come in below.
        state.scroll = (state.scroll + added).min(held.saturating_sub(1));
    }
}

fn take_wire(state: &mut State, task: &TaskId, entries: &[TrafficEntry]) {
    let line = |entry: &TrafficEntry| {
        format!(
            "{}.{:03} {} {} {}",
            state.clock_seconds(entry.at),
            entry.at.0.rem_euclid(1000),
            entry.dir.sign(),
            entry.exchange,
            entry.what.line(WIRE_COLUMNS, "\u{2026}")
        )
    };
    let lines: Vec<String> = entries.iter().map(line).collect();
    if let Some(wire) = state.wire.as_mut().filter(|wire| wire.task == *task) {
        wire.lines = Some(lines);
        wire.is_asked = false;
    }
}

fn restore(
    state: &mut State,
    views: Vec<Arc<TaskView>>,
    servers: Vec<ServerView>,
    saved_at: Option<Wall>,
    now: Stamp,
) {
    for server in servers {
        take_server(state, server);
    }
    for view in views {
        take_task(state, view, now);
    }
    state.looked_since = Some(now.mono);
    (state.saved_at, state.restored_at) = (saved_at, Some(now.wall));
    select::rebuild(state);
    // Nobody has chosen a row yet: what comes first is what needs a person.
    if state.last_key.is_none() {
        select::move_by(state, isize::MIN / 2);
        state.wanted = None;
    }
    if let Some(saved_at) = saved_at
        && now.wall.since(saved_at) >= away::WORTH
        && state.living().any(|task_row| !task_row.is_seen)
    {
        state.away = Some(away::begin(state, saved_at, now.wall, false));
    }
    select::keep_in_sight(state);
}

/// Asks for what the open tabs show and is only in the session file.
fn want_files(state: &mut State, todo: &mut Vec<Command>) {
    if state.pane != Pane::Tasks {
        return;
    }
    let Some(task_row) = state.selected() else {
        return;
    };
    let (id, saved) = (task_row.view.task.id.clone(), task_row.view.saved_seq);
    let has_result = task_row.view.task.result_bytes.is_some();
    let log = state.logs.entry(id.clone()).or_default();
    if saved > log.newest() && !log.is_asked && saved > log.asked_at {
        log.is_asked = true;
        log.asked_at = saved;
        todo.push(Command::ReadHistory {
            task: id.clone(),
            after_seq: log.newest(),
        });
    }
    if has_result
        && !state.results.contains_key(&id)
        && (state.tab == Tab::Result || input::is_copying(state))
    {
        state.results.insert(
            id.clone(),
            ResultText {
                is_asked: true,
                ..ResultText::default()
            },
        );
        todo.push(Command::ReadResult(id.clone()));
    }
    want_wire(state, &id, saved, todo);
    forget_others(&mut state.logs, LOGS, &id);
    forget_others(&mut state.results, RESULTS, &id);
}

/// Asks for what was recorded of the wire as long as that is looked at, anew when the task has moved.
fn want_wire(state: &mut State, id: &TaskId, saved: u64, todo: &mut Vec<Command>) {
    let server = state
        .task(id)
        .map(|task_row| task_row.view.task.server.clone());
    let Some(server) = server.filter(|_| state.tab == Tab::Trace) else {
        state.wire = None;
        return;
    };
    let lines = match state.wire.take() {
        Some(wire) if wire.task == *id => {
            if wire.is_asked || wire.asked_at >= saved {
                state.wire = Some(wire);
                return;
            }
            wire.lines
        }
        _ => None,
    };
    state.wire = Some(WireText {
        task: id.clone(),
        lines,
        is_asked: true,
        asked_at: saved,
    });
    let task = id.clone();
    todo.push(Command::ReadWire { task, server });
}

/// Keeps a map small without giving up the entry that is looked at.
fn forget_others<V>(map: &mut std::collections::BTreeMap<TaskId, V>, most: usize, keep: &TaskId) {
    while map.len() > most {
        let Some(other) = map.keys().find(|id| *id != keep).cloned() else {
            return;
        };
        map.remove(&other);
    }
}

/// Leaves once what was waited for has come.
fn finish_leaving(state: &mut State, now: Stamp, todo: &mut Vec<Command>) {
    let is_time = match &state.leaving {
        Leaving::No | Leaving::Asked(_) => false,
        Leaving::OnceSafe => state.ledger.dies.is_empty(),
        Leaving::OnceCancelled(at) => state.open.is_empty() || now.mono >= *at,
    };
    if is_time {
        quit(state, todo);
    }
}

/// Ends the program.
pub(super) fn quit(state: &mut State, todo: &mut Vec<Command>) {
    // What ended well and is on the screen now was seen; what failed keeps asking.
    for id in select::visible_rows(state) {
        let is_plain_end = state
            .task(&id)
            .is_some_and(|task_row| task_row.is_new() && task_row.belongs() == Group::Done);
        if is_plain_end {
            input::mark_seen(state, &id, todo);
        }
    }
    let note = leave_note(state);
    state.over = Some(note.clone());
    todo.push(Command::Quit(note));
}

/// Whether a server can be asked for its tools without waiting for it to come back.
pub(super) fn is_reachable(state: &State, name: &crate::domain::ServerName) -> bool {
    state
        .server(name)
        .is_none_or(|server| !matches!(server.state, LinkState::Down { .. }))
}
