//! Applies an event to the state and returns the commands that follow from it.

use std::{sync::Arc, time::Duration};

use crate::domain::{
    Connectivity, LinkState, NoticeLevel, RequestError, ServerView, SessionEvent, SessionRequest,
    SessionRequestId, SessionResponse, Stamp, Status, TaskId, TaskView, TrafficEntry, Wall, text,
};

use super::{
    Action, CallForm, Command, ConfigReread, Consent, Event, Group, Leaving, Menu, Overlay, Pane,
    ResultText, ServerFindings, Stage, State, Tab, TrafficText, away, input, leave_note, notify,
    select::{self, regroup},
    session::RequestPurpose,
    state::{Tools, WindowFocus},
    task_row::{TaskRow, TimelineMark, timeline_mark},
};

/// Histories in memory; the selected task's is never evicted.
const LOGS: usize = 8;
/// Columns kept of a recorded message; `longhaul trace --full` prints it all.
const TRAFFIC_COLUMNS: usize = 500;
/// Results in memory.
const RESULTS: usize = 4;
/// If the wall clock advances this much more than the monotonic clock between two events, the machine was asleep.
const MIN_SLEEP: Duration = Duration::from_secs(60);

/// Applies one event.
pub fn update(state: &mut State, event: Event, now: Stamp) -> Vec<Command> {
    update_all(state, [event], now)
}

/// Applies a batch of events. Derived state, such as the order of the rows, is updated once at the end.
pub fn update_all(
    state: &mut State,
    events: impl IntoIterator<Item = Event>,
    now: Stamp,
) -> Vec<Command> {
    let mut effects = Vec::new();
    let mut is_any = false;
    for event in events {
        if state.leave.note.is_none() {
            is_any = true;
            detect_sleep(state, now);
            // An unnecessary frame is cheap: the terminal only gets what changed.
            state.is_dirty = true;
            apply(state, event, now, &mut effects);
        }
    }
    if is_any {
        settle(state, now, &mut effects);
    }
    effects
}

fn apply(state: &mut State, event: Event, now: Stamp, effects: &mut Vec<Command>) {
    match event {
        Event::Input(input) => input::apply(state, input, now, effects),
        Event::Session(news) => on_session_event(state, news, now, effects),
        Event::Restored {
            views,
            servers,
            saved_at,
        } => restore(state, views, servers, saved_at, now),
        Event::History {
            task,
            entries,
            dropped,
        } => on_history(state, &task, entries, dropped),
        Event::ResultRead { task, json } => {
            let text = ResultText::read(&task, json);
            state.detail.results.insert(task, text);
        }
        Event::TrafficRead { task, entries } => on_traffic(state, &task, &entries),
        Event::ServersFound(found) if found.lines.is_empty() => {
            state.messages.reply = None;
            state.show_toast(NoticeLevel::Info, ServerFindings::NONE, now);
        }
        Event::ServersFound(ServerFindings { lines, new, .. }) => {
            state.messages.reply = None;
            input::open_menu(state, Menu::Import { lines, new });
        }
        Event::ServersImported(imported) => {
            for line in &imported.lines {
                state.log_message(NoticeLevel::Info, line, now.wall);
            }
            let count = text::plural(u64::try_from(imported.new).unwrap_or(u64::MAX), "server");
            let key = state.key(Action::ShowMessages);
            let message = format!("imported {count} ({key} for details)");
            state.show_toast(NoticeLevel::Info, &message, now);
            state.dialogs.stack.push(Overlay::Page {
                title: format!("Imported {count}"),
                lines: imported.lines,
                scroll: 0,
            });
            let _ = input::request(
                state,
                SessionRequest::Configure(imported.server_configs),
                RequestPurpose::Other,
                effects,
            );
            // The consent dialog opens on top of the page.
            state.dialogs.awaiting_consent = imported.waiting.into();
            input::request_next_consent(state, effects);
        }
        Event::ConsentRead(server, consent) => {
            let Consent {
                pending: lines,
                digest,
                is_program,
                is_approved,
                message,
                server_configs,
            } = consent;
            state.messages.reply = None;
            if lines.is_empty() && is_approved {
                state.show_toast(NoticeLevel::Info, &message, now);
                input::request_next_consent(state, effects);
            } else if lines.is_empty() {
                input::show_server_need(state, &server, message, now, effects);
            } else {
                let menu = Menu::Consent {
                    server,
                    lines,
                    digest,
                    is_program,
                };
                input::open_menu(state, menu);
            }
            // The configuration may have changed since this screen started.
            let _ = input::request(
                state,
                SessionRequest::Configure(server_configs),
                RequestPurpose::Other,
                effects,
            );
        }
        Event::ConfigRead(config) => apply_config(state, *config, now, effects),
        Event::Succeeded(message) => state.show_toast(NoticeLevel::Info, &message, now),
        Event::Tick => {}
        Event::Resumed => {
            if state.window == WindowFocus::Lost {
                state.window = WindowFocus::Focused;
            }
        }
        Event::DriveRequested => input::drive(state, effects),
        Event::Attached(task) => select::move_to_task(state, &task),
        Event::Failed(message) => state.show_toast(NoticeLevel::Error, &message, now),
    }
}

/// Switches to a reread configuration.
fn apply_config(state: &mut State, config: ConfigReread, now: Stamp, effects: &mut Vec<Command>) {
    if state.config.as_ref() == Some(&config) {
        if state.messages.reply.is_some() {
            state.reply(format!("{} has not changed", config.file));
        }
        return;
    }
    state.config = Some(config.clone());
    let ConfigReread {
        file,
        server_configs,
        limits,
        theme,
        takes_mouse,
        views,
        keys,
        warnings,
    } = config;
    let count = u64::try_from(server_configs.servers.len()).unwrap_or(u64::MAX);
    let setup = &mut state.setup;
    (setup.limits, setup.views, setup.keys) = (limits, views, keys);
    setup.look.theme = theme;
    if std::mem::replace(&mut setup.takes_mouse, takes_mouse) != takes_mouse {
        effects.push(Command::ReportMouse(takes_mouse));
    }
    let count = text::plural(count, "server");
    // Warnings about the old contents no longer hold, or are repeated below.
    let names_file = |text: &str| text.contains(file.as_str());
    state
        .messages
        .toasts
        .retain(|toast| !names_file(&toast.text));
    state.show_toast(NoticeLevel::Info, &format!("reloaded {file}: {count}"), now);
    for warning in warnings {
        state.show_toast(NoticeLevel::Warning, &warning, now);
    }
    let _ = input::request(
        state,
        SessionRequest::Configure(server_configs),
        RequestPurpose::Other,
        effects,
    );
}

/// Does what has become due through a change or through time.
fn settle(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    let toasts = state.messages.toasts.len();
    state.messages.toasts.retain(|toast| toast.until > now.mono);
    state.is_dirty |= toasts != state.messages.toasts.len();
    if state
        .messages
        .reply
        .take_if(|reply| reply.until <= now.mono)
        .is_some()
    {
        state.is_dirty = true;
    }
    regroup(state, now);
    request_missing_data(state, effects);
    finish_leaving(state, now, effects);
    notify::send_alerts(state, now, effects);
}

/// Shows the welcome-back banner after the machine was asleep.
fn detect_sleep(state: &mut State, now: Stamp) {
    if let Some(last) = state.last_event.replace(now) {
        let (wall, mono) = (now.wall.since(last.wall), now.mono.since(last.mono));
        if wall > mono.saturating_add(MIN_SLEEP) && !state.totals.open.is_empty() {
            state.away = Some(away::begin(state, last.wall, now.wall, true));
            for task_row in state.tasks.values_mut() {
                if !task_row.view.task.status.is_settled() {
                    task_row.mark(last.wall, TimelineMark::Asleep);
                    task_row.mark(now.wall, timeline_mark(&task_row.view.contact));
                }
            }
        }
    }
}

fn on_session_event(state: &mut State, news: SessionEvent, now: Stamp, effects: &mut Vec<Command>) {
    match news {
        SessionEvent::Task(view) => {
            if let Some(frozen) = &mut state.frozen {
                frozen.held.insert(view.task.id.clone(), view);
            } else {
                apply_task(state, view, now);
            }
        }
        SessionEvent::Erased(id) => erase(state, &id),
        SessionEvent::Server(server) => {
            let needs_consent = ServerView::waits_for_consent;
            let was_blocked = state.server(&server.name).is_some_and(needs_consent);
            let is_unblocked = was_blocked && !needs_consent(&server);
            apply_server(state, (*server).clone());
            let has_failed = |tools: &Tools| tools.error.is_some();
            if is_unblocked && state.tools.get(&server.name).is_some_and(has_failed) {
                // The tools request failed for a reason that no longer holds.
                input::request_tools(state, &server.name, effects);
            }
        }
        SessionEvent::Response {
            request: ask,
            outcome,
        } => on_response(state, ask, outcome, now, effects),
        SessionEvent::Notice(notice) => state.show_toast(notice.level, &notice.text, now),
        SessionEvent::Driver { pid, is_us } => {
            state.session.driver = Some((pid, is_us));
            state.session.is_driverless = false;
        }
        SessionEvent::Undriven => on_driver_lost(state, now),
        SessionEvent::Failed { message: words, .. } => {
            on_driver_lost(state, now);
            state.show_toast(NoticeLevel::Error, &words, now);
        }
    }
}

/// The driver is gone. If this window was connected until now, the shown state is as of now.
fn on_driver_lost(state: &mut State, now: Stamp) {
    // Only a driver knows the state of the connections.
    for server in &mut state.servers {
        server.state = LinkState::Idle;
    }
    if !state.session.is_driverless && state.session.driver.is_some() {
        state.session.saved_at = Some(now.wall);
    }
    state.session.is_driverless = true;
}

pub(super) fn apply_server(state: &mut State, server: ServerView) {
    match state
        .servers
        .iter_mut()
        .find(|known| known.name == server.name)
    {
        Some(known) => *known = server,
        None => state.servers.push(server),
    }
}

/// Applies a task's newest snapshot and announces changes that matter to the user.
pub(super) fn apply_task(state: &mut State, view: Arc<TaskView>, now: Stamp) {
    let id = view.task.id.clone();
    state.count(&id, false);
    let mut before = state
        .tasks
        .get(&id)
        .map(|task_row| (task_row.group(), task_row.view.task.status.clone()));
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
        task_row.update(view, now);
        let task = &task_row.view.task;
        has_changed = task.status != status || asked.is_some() && task.control.is_none();
        if was_restored
            && task_row.listed_group != task_row.group()
            && task_row.settled_at.is_some()
        {
            // It ended before this screen opened, so its row need not stay in place until the user sees it.
            task_row.settled_at = None;
            task_row.listed_group = task_row.group();
            state.list.refresh.is_order_stale = true;
        }
        if task_row.listed_group != task_row.group() {
            state.list.refresh.regrouping.insert(id.clone());
        }
        is_asked_for = was_forgotten != task_row.view.task.forgotten_at.is_some();
        if is_asked_for
            || state.list.sort != super::SortKey::Newest
            || state.list.grouping == super::Grouping::Status
        {
            state.list.refresh.is_order_stale = true;
        }
        is_renamed = task_row.view.task.title() != old_title;
        // It may match the filter now, or no longer.
        state.list.refresh.is_order_stale |= !state.list.filter.is_empty() || state.list.needs_only;
    } else {
        let returns = state.list.returning.remove(&id);
        if !returns
            && state
                .session
                .restored_at
                .is_some_and(|at| view.task.created_at >= at)
        {
            // It may start and end between two snapshots; its end is announced anyway.
            before = Some((Group::Running, Status::Running));
        }
        add_task(state, view, now);
        is_asked_for = state.list.wanted.as_ref() == Some(&id)
            || state.list.rows.is_empty()
            || (returns && state.list.returning.is_empty());
    }
    state.count(&id, true);
    if has_changed {
        state.dismiss_reply_about(&id);
    }
    input::close_withdrawn_question(state, &id, now);
    if is_renamed {
        index_arguments(state, &id);
    }
    // What the user just asked for, and the very first row, appear at once.
    if is_asked_for {
        state.list.cursor_still_since.get_or_insert(now.mono);
        select::rebuild(state);
    }
    if let Some((group, status)) = before {
        state.list.refresh.are_headings_stale |= state
            .task(&id)
            .is_some_and(|it| it.group() != group || it.view.task.status != status);
        notify::announce(state, &id, group, &status, now);
    }
}

fn add_task(state: &mut State, view: Arc<TaskView>, now: Stamp) {
    let id = view.task.id.clone();
    state.tasks.insert(id.clone(), TaskRow::new(view, now));
    index_arguments(state, &id);
    state.list.refresh.is_order_stale = true;
}

/// Records which arguments differ among tasks with the same title.
fn index_arguments(state: &mut State, id: &TaskId) {
    let Some(task_row) = state.tasks.get(id) else {
        return;
    };
    let title = task_row.view.task.title().to_owned();
    let index = state.list.differing.entry(title).or_default();
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
    state.detail.forget(id);
    state.list.refresh.regrouping.remove(id);
    if let Some(frozen) = &mut state.frozen {
        frozen.held.remove(id);
    }
    // A dialog about it has nothing left to act on.
    state
        .dialogs
        .stack
        .retain(|overlay| !input::is_about(overlay, id));
    select::rebuild(state);
}

fn on_response(
    state: &mut State,
    request: SessionRequestId,
    response: Result<SessionResponse, RequestError>,
    now: Stamp,
    effects: &mut Vec<Command>,
) {
    let Some(pending) = state.requests.pending.remove(&request) else {
        return;
    };
    match (pending, response) {
        (RequestPurpose::Tools(server), Ok(SessionResponse::Tools(list))) => {
            let tools = state.tools.entry(server).or_default();
            tools.list = list
                .into_iter()
                .filter(crate::domain::Tool::is_offered)
                .collect();
            tools.is_known = true;
            tools.request = None;
            tools.error = None;
            update_call_forms(state, |state, form| form.on_tools(state));
        }
        (RequestPurpose::Tools(server), Err(error)) => {
            let tools = state.tools.entry(server).or_default();
            tools.request = None;
            tools.error = Some(error.to_string());
            update_call_forms(state, |state, form| form.on_tools(state));
        }
        (RequestPurpose::Start(id), Ok(SessionResponse::Started(started))) => {
            state.show_toast(NoticeLevel::Info, &format!("{started} started"), now);
            let is_ours = |overlay: &Overlay| matches!(overlay, Overlay::Call(form) if form.sent.as_ref() == Some(&id));
            state.dialogs.stack.retain(|overlay| !is_ours(overlay));
            state.pane = Pane::Tasks;
            // Only the Now tab has something to show for a new task.
            input::show_tab(state, Tab::Now);
            state.list.wanted = Some(started);
            select::rebuild(state);
        }
        (RequestPurpose::Start(id), Err(error)) => {
            let matches_form = |form: &CallForm| form.sent.as_ref() == Some(&id);
            show_form_error(state, &error, matches_form, |form| form.sent = None, now);
        }
        (RequestPurpose::Server(server), Ok(_)) => input::request_tools(state, &server, effects),
        (RequestPurpose::Server(server), Err(error)) => {
            let matches_form = |form: &CallForm| form.server.as_ref() == Some(&server);
            let step_back = |form: &mut CallForm| form.stage = Stage::Server;
            show_form_error(state, &error, matches_form, step_back, now);
        }
        (RequestPurpose::Answer { task, key, choice }, response) => {
            input::on_answer_saved(state, &task, &key, choice, response, now);
        }
        (RequestPurpose::SignIn(server), Ok(SessionResponse::SignIn(page))) => {
            state.messages.reply = None;
            input::open_menu(state, Menu::SignIn { server, page });
        }
        (RequestPurpose::Drive, Err(RequestError::WouldLoseWork(message))) => {
            input::open_menu(state, Menu::Drive(message));
        }
        (RequestPurpose::Adopt(server), Ok(SessionResponse::Adopted(tasks))) => {
            let name = text::clean_line(server.as_str());
            let message = match u64::try_from(tasks.len()) {
                Ok(0) => format!("{name} lists no tasks that are not here already"),
                count => {
                    let count = text::plural(count.unwrap_or(u64::MAX), "task");
                    format!("imported {count} from {name}")
                }
            };
            state.show_toast(NoticeLevel::Info, &message, now);
        }
        (_, Ok(SessionResponse::Done(message))) => {
            state.show_toast(NoticeLevel::Info, &message, now);
        }
        (_, Err(error)) => {
            let message = error.to_string();
            state.show_toast(NoticeLevel::Error, &message, now);
            // Replaces "requested: ...".
            if state.messages.reply.is_some() {
                state.reply(text::clean_line(&message));
            }
        }
        (_, Ok(_)) => {}
    }
}

/// Shows an error in the form that sent the request and takes the form back a step; shows a toast if it was closed.
fn show_form_error(
    state: &mut State,
    error: &RequestError,
    matches_form: impl Fn(&CallForm) -> bool,
    step_back: impl Fn(&mut CallForm),
    now: Stamp,
) {
    let message = error.to_string();
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
        state.log_message(NoticeLevel::Error, &message, now.wall);
    } else {
        state.show_toast(NoticeLevel::Error, &message, now);
    }
}

fn update_call_forms(state: &mut State, change: impl Fn(&State, &mut CallForm)) {
    let mut overlays = std::mem::take(&mut state.dialogs.stack);
    for overlay in &mut overlays {
        if let Overlay::Call(form) = overlay {
            change(state, form);
        }
    }
    state.dialogs.stack = overlays;
}

fn on_history(
    state: &mut State,
    task: &TaskId,
    entries: Vec<crate::domain::HistoryEntry>,
    dropped: u64,
) {
    let Some(log) = state.detail.logs.get_mut(task) else {
        return;
    };
    let added = log.append(entries, dropped);
    let held = log.entries.len();
    if state.list.cursor.as_ref() == Some(task)
        && state.detail.tab == Tab::Log
        && !state.detail.is_following
    {
        // The visible lines stay in place while new lines arrive below.
        state.detail.scroll = (state.detail.scroll + added).min(held.saturating_sub(1));
    }
}

fn on_traffic(state: &mut State, task: &TaskId, entries: &[TrafficEntry]) {
    let line = |entry: &TrafficEntry| {
        format!(
            "{}.{:03} {} {} {}",
            state.clock_seconds(entry.at),
            entry.at.0.rem_euclid(1000),
            entry.dir.sign(),
            entry.exchange,
            entry.what.line(TRAFFIC_COLUMNS, "\u{2026}")
        )
    };
    let lines: Vec<String> = entries.iter().map(line).collect();
    if let Some(wire) = state
        .detail
        .traffic
        .as_mut()
        .filter(|wire| wire.task == *task)
    {
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
        apply_server(state, server);
    }
    for view in views {
        apply_task(state, view, now);
    }
    state.list.cursor_still_since = Some(now.mono);
    (state.session.saved_at, state.session.restored_at) = (saved_at, Some(now.wall));
    select::rebuild(state);
    // No row was chosen yet: start at the first one, which may need the user.
    if state.last_key.is_none() {
        select::move_by(state, isize::MIN / 2);
        state.list.wanted = None;
    }
    if let Some(saved_at) = saved_at
        && now.wall.since(saved_at) >= away::MIN_ABSENCE
        && state.kept_tasks().any(|task_row| !task_row.is_seen)
    {
        state.away = Some(away::begin(state, saved_at, now.wall, false));
    }
    select::keep_in_sight(state);
}

/// Loads what the open tabs show but is only in the session file.
fn request_missing_data(state: &mut State, effects: &mut Vec<Command>) {
    if state.pane != Pane::Tasks {
        return;
    }
    let Some(task_row) = state.selected() else {
        return;
    };
    let (id, saved) = (task_row.view.task.id.clone(), task_row.view.saved_seq);
    let has_result = task_row.view.task.result_bytes.is_some();
    let log = state.detail.logs.entry(id.clone()).or_default();
    if saved > log.newest() && !log.is_asked && saved > log.asked_at {
        log.is_asked = true;
        log.asked_at = saved;
        effects.push(Command::ReadHistory {
            task: id.clone(),
            after_seq: log.newest(),
        });
    }
    if has_result
        && !state.detail.results.contains_key(&id)
        && (state.detail.tab == Tab::Result || input::is_copying(state))
    {
        state.detail.results.insert(
            id.clone(),
            ResultText {
                is_asked: true,
                ..ResultText::default()
            },
        );
        effects.push(Command::ReadResult(id.clone()));
    }
    request_traffic(state, &id, saved, effects);
    evict_others(&mut state.detail.logs, LOGS, &id);
    evict_others(&mut state.detail.results, RESULTS, &id);
}

/// Loads recorded traffic while the Trace tab is open, and again when the task has made progress.
fn request_traffic(state: &mut State, id: &TaskId, saved: u64, effects: &mut Vec<Command>) {
    let server = state
        .task(id)
        .map(|task_row| task_row.view.task.server.clone());
    let Some(server) = server.filter(|_| state.detail.tab == Tab::Trace) else {
        state.detail.traffic = None;
        return;
    };
    let lines = match state.detail.traffic.take() {
        Some(wire) if wire.task == *id => {
            if wire.is_asked || wire.asked_at >= saved {
                state.detail.traffic = Some(wire);
                return;
            }
            wire.lines
        }
        _ => None,
    };
    state.detail.traffic = Some(TrafficText {
        task: id.clone(),
        lines,
        is_asked: true,
        asked_at: saved,
    });
    let task = id.clone();
    effects.push(Command::ReadTraffic { task, server });
}

/// Shrinks a map to `most` entries without evicting `keep`.
fn evict_others<V>(map: &mut std::collections::BTreeMap<TaskId, V>, most: usize, keep: &TaskId) {
    while map.len() > most {
        let Some(other) = map.keys().find(|id| *id != keep).cloned() else {
            return;
        };
        map.remove(&other);
    }
}

/// Quits once the condition that the user chose is met.
fn finish_leaving(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    let is_time = match &state.leave.when {
        Leaving::No | Leaving::Asked(_) => false,
        Leaving::OnceSafe => state.totals.leaving.dies.is_empty(),
        Leaving::OnceCancelled(at) => state.totals.open.is_empty() || now.mono >= *at,
    };
    if is_time {
        quit(state, effects);
    }
}

/// Quits the program.
pub(super) fn quit(state: &mut State, effects: &mut Vec<Command>) {
    // Completed tasks on the screen count as seen; failed ones keep needing attention.
    for id in select::visible_rows(state) {
        let is_done = state
            .task(&id)
            .is_some_and(|task_row| task_row.ended_unseen() && task_row.group() == Group::Done);
        if is_done {
            input::mark_seen(state, &id, effects);
        }
    }
    let note = leave_note(state);
    state.leave.note = Some(note.clone());
    effects.push(Command::Quit(note));
}

/// Whether a tools request would be sent now instead of waiting for a reconnect.
pub(super) fn is_reachable(state: &State, name: &crate::domain::ServerName) -> bool {
    state
        .server(name)
        .is_none_or(|server| !matches!(server.state, LinkState::Down { .. }))
}
