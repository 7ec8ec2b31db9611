//! Applies an event to the state and returns the commands that follow from it.

use core::time::Duration;

use crate::domain::{NoticeLevel, ServerView, SessionEvent, SessionRequest, Stamp, text};

use super::{
    Command, ConfigReread, Event, State,
    alerts::WindowFocus,
    away, input,
    loading::{on_read, request_missing_data},
    notify,
    quit::finish_exit,
    requests::{request, request_tools},
    responses::on_response,
    select::{self, regroup},
    servers::{apply_server, on_approval_read, on_driver_lost, on_found, on_imported},
    state::Tools,
    tasks::{erase, hold_task, restore},
};

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
    let mut is_any = false;
    for event in events {
        if state.exit.note.is_none() {
            is_any = true;
            detect_sleep(state, now);
            // An unnecessary frame is cheap: the terminal only gets what changed.
            state.is_dirty = true;
            apply(state, event);
        }
    }
    if is_any {
        settle(state);
    }
    std::mem::take(&mut state.requests.commands)
}

fn apply(state: &mut State, event: Event) {
    match event {
        Event::Input(input) => input::apply(state, input),
        Event::Session(news) => on_session_event(state, news),
        Event::Restored {
            views,
            servers,
            saved_at,
            watched_at,
        } => restore(state, views, servers, (saved_at, watched_at)),
        Event::Read(read, saved) => on_read(state, read, saved),
        Event::ServersFound(found) => on_found(state, found),
        Event::ServersImported(imported) => on_imported(state, imported),
        Event::ApprovalRead(server, approval) => {
            on_approval_read(state, server, approval);
        }
        Event::ConfigRead(config) => apply_config(state, *config),
        Event::Succeeded(message) => state.show_toast(NoticeLevel::Info, &message),
        Event::Tick => {}
        Event::Resumed => {
            if state.window == WindowFocus::Lost {
                state.window = WindowFocus::Focused;
            }
        }
        Event::Attached(task) => {
            select::move_to_task(state, &task);
            // It may arrive later, from another machine.
            if !state.tasks.contains_key(&task) {
                state.list.wanted = Some(task);
            }
        }
        Event::Failed(message) => state.show_toast(NoticeLevel::Error, &message),
    }
}

/// Switches to a reread configuration.
fn apply_config(state: &mut State, config: ConfigReread) {
    let ConfigReread {
        file,
        server_configs,
        theme,
        settings,
        warnings,
    } = config;
    state.setup.look.theme = theme;
    state.setup.settings = settings;
    let count = text::plural(server_configs.servers.len(), "server");
    // Warnings about the old contents no longer hold, or are repeated below.
    let names_file = |text: &str| text.contains(file.as_str());
    let toasts = &mut state.messages.toasts;
    toasts.retain(|toast| !names_file(&toast.text));
    state.show_toast(NoticeLevel::Info, &format!("reloaded {file}: {count}"));
    for warning in warnings {
        state.show_toast(NoticeLevel::Warning, &warning);
    }
    request(state, SessionRequest::Configure(server_configs));
}

/// Does what has become due through a change or through time.
fn settle(state: &mut State) {
    let now = state.now().mono;
    state.messages.toasts.retain(|toast| toast.until > now);
    state.messages.reply.take_if(|reply| reply.until <= now);
    regroup(state);
    request_missing_data(state);
    finish_exit(state);
    notify::send_alerts(state);
}

/// Shows the welcome-back banner after the machine was asleep.
fn detect_sleep(state: &mut State, now: Stamp) {
    if let Some(last) = state.last_event.replace(now) {
        let (wall, mono) = (now.wall.since(last.wall), now.mono.since(last.mono));
        if wall > mono.saturating_add(MIN_SLEEP) && !state.totals.open.is_empty() {
            state.away = Some(away::begin(state, last.wall, now.wall, true));
        }
    }
}

fn on_session_event(state: &mut State, news: SessionEvent) {
    match news {
        SessionEvent::Task(view) => hold_task(state, view),
        SessionEvent::Erased(id) => erase(state, &id),
        SessionEvent::Server(server) => {
            let needs_user = ServerView::waits_for_user;
            let was_blocked = state.server(&server.name).is_some_and(needs_user);
            let is_unblocked = was_blocked && !needs_user(&server);
            apply_server(state, (*server).clone());
            let has_failed = |tools: &Tools| tools.error.is_some();
            if is_unblocked && state.tools.get(&server.name).is_some_and(has_failed) {
                // The tools request failed for a reason that no longer holds.
                request_tools(state, &server.name);
            }
        }
        SessionEvent::Response {
            request: ask,
            outcome,
        } => on_response(state, ask, outcome),
        SessionEvent::Notice(notice) => state.show_toast(notice.level, &notice.text),
        SessionEvent::Driver(driver) => {
            let is_first = state.session.driver.replace(driver).is_none();
            state.session.is_driverless = false;
            if is_first {
                select::rebuild(state);
            }
        }
        // For clients that pass them on.
        SessionEvent::Notification { .. } | SessionEvent::RootsWanted { .. } => {}
        SessionEvent::Undriven => on_driver_lost(state),
        SessionEvent::Failed { message: words, .. } => {
            on_driver_lost(state);
            state.show_toast(NoticeLevel::Error, &words);
        }
    }
}
