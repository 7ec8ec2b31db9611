//! What an event changes and what has to be done about it.

use std::sync::Arc;

use crate::domain::{
    Chord, Contact, Key, News, NoticeLevel, ServerView, Stamp, TaskId, TaskView, Wall,
};

use super::{
    Command, Event, Input, LeaveNote, State, away, leave_note,
    select::{self, settle_places},
    state::Entity,
};

/// Takes an event in: the only way in which the state changes.
pub fn update(state: &mut State, event: Event, now: Stamp) -> Vec<Command> {
    let mut todo = Vec::new();
    match event {
        Event::Input(input) => take_input(state, input, now, &mut todo),
        Event::News(news) => take_news(state, news, now, &mut todo),
        Event::Restored {
            views,
            servers,
            saved_at,
        } => restore(state, views, servers, saved_at, now),
        Event::History {
            task,
            entries,
            dropped,
        } => {
            let added = state
                .logs
                .entry(task.clone())
                .or_default()
                .take(entries, dropped);
            if state.cursor.as_ref() == Some(&task) && state.scroll > 0 {
                state.scroll = state.scroll.saturating_add(added);
            }
            state.is_dirty = true;
        }
        Event::ResultRead { task, json } => {
            state.results.insert(task, super::ResultText::read(json));
            state.is_dirty = true;
        }
        Event::FaultDone(words) => state.say(NoticeLevel::Info, &words, now),
        Event::Tick => state.is_dirty = true,
        Event::Resumed => state.is_dirty = true,
        Event::DriverLost => {
            state.is_driverless = true;
            state.say(NoticeLevel::Warning, "the driving process is gone", now);
        }
        Event::TookOver => {
            state.is_driverless = false;
            state.say(NoticeLevel::Info, "this process drives now", now);
        }
        Event::Attached(task) => select::move_to_task(state, &task),
        Event::Failed(words) => state.say(NoticeLevel::Error, &words, now),
    }
    settle_places(state, now);
    want_history(state, &mut todo);
    todo
}

fn take_input(state: &mut State, input: Input, now: Stamp, todo: &mut Vec<Command>) {
    state.is_dirty = true;
    match input {
        Input::Key(chord) => take_key(state, chord.normal(), now, todo),
        Input::Paste(_) => {}
        Input::Resize(columns, rows) => {
            state.size = (columns, rows);
            select::keep_in_sight(state);
        }
        Input::FocusGained => state.has_focus = true,
        Input::FocusLost => state.has_focus = false,
    }
}

fn take_key(state: &mut State, chord: Chord, now: Stamp, todo: &mut Vec<Command>) {
    state.last_key = Some(now.mono);
    match chord {
        _ if chord == Chord::char('j') || chord == Chord::plain(Key::Down) => {
            select::move_by(state, 1);
        }
        _ if chord == Chord::char('k') || chord == Chord::plain(Key::Up) => {
            select::move_by(state, -1);
        }
        _ if chord == Chord::char('q') || chord == Chord::ctrl('c') => {
            let note = leave_note(state);
            quit(state, note, todo);
        }
        _ => {}
    }
}

fn quit(state: &mut State, note: LeaveNote, todo: &mut Vec<Command>) {
    state.over = Some(note.clone());
    todo.push(Command::Quit(note));
}

fn take_news(state: &mut State, news: News, now: Stamp, _todo: &mut Vec<Command>) {
    match news {
        News::Task(view) => take_task(state, view, now),
        News::Erased(id) => erase(state, &id),
        News::Server(server) => take_server(state, (*server).clone()),
        News::Answer { outcome, .. } => {
            if let Err(refused) = outcome {
                state.say(NoticeLevel::Error, &refused.to_string(), now);
            }
        }
        News::Notice(notice) => state.say(notice.level, &notice.text, now),
        News::Driver { pid, is_us } => {
            state.driver = Some((pid, is_us));
            state.is_driverless = false;
        }
        News::Trouble { words, .. } => {
            state.is_driverless = true;
            state.say(NoticeLevel::Error, &words, now);
        }
    }
    state.is_dirty = true;
}

fn take_server(state: &mut State, server: ServerView) {
    match state
        .servers
        .iter_mut()
        .find(|known| known.name == server.name)
    {
        Some(known) => *known = server,
        None => state.servers.push(server),
    }
}

fn take_task(state: &mut State, view: Arc<TaskView>, now: Stamp) {
    let id = view.task.id.clone();
    count(state, &id, -1);
    match state.tasks.get_mut(&id) {
        Some(entity) => {
            let was_forgotten = entity.view.task.forgotten_at.is_some();
            entity.take(view, now);
            if was_forgotten != entity.view.task.forgotten_at.is_some() {
                state.is_order_stale = true;
            }
            if entity.home != entity.belongs() {
                state.moving.insert(id.clone());
            }
        }
        None => {
            index_arguments(state, &view, now, &id);
        }
    }
    count(state, &id, 1);
}

fn index_arguments(state: &mut State, view: &Arc<TaskView>, now: Stamp, id: &TaskId) {
    let entity = Entity::new(Arc::clone(view), now);
    let index = state.differing.entry(view.task.tool.clone()).or_default();
    for (key, value) in &entity.arguments {
        index
            .entry(key.clone())
            .and_modify(|(first, differs)| *differs |= first != value)
            .or_insert_with(|| (value.clone(), false));
    }
    state.tasks.insert(id.clone(), entity);
    state.is_order_stale = true;
}

/// Keeps the counts that say whether anything ages.
fn count(state: &mut State, id: &TaskId, by: isize) {
    let Some(entity) = state.tasks.get(id) else {
        return;
    };
    if entity.view.task.forgotten_at.is_some() || entity.view.task.status.is_settled() {
        return;
    }
    state.unsettled = state.unsettled.saturating_add_signed(by);
    if matches!(entity.view.contact, Contact::Unwatched { .. }) {
        state.unwatched = state.unwatched.saturating_add_signed(by);
    }
}

fn erase(state: &mut State, id: &TaskId) {
    count(state, id, -1);
    state.tasks.remove(id);
    state.logs.remove(id);
    state.results.remove(id);
    state.marks.remove(id);
    state.moving.remove(id);
    select::rebuild(state);
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
    state.is_restored = true;
    state.saved_at = saved_at;
    select::rebuild(state);
    if let Some(saved_at) = saved_at
        && now.wall.since(saved_at) >= away::WORTH
        && !state.tasks.is_empty()
    {
        state.away = Some(away::begin(state, saved_at, now.wall, false));
    }
    select::keep_in_sight(state);
    state.is_dirty = true;
}

/// Asks for the history of the task that is looked at, once more of it is on disk than is held.
fn want_history(state: &mut State, todo: &mut Vec<Command>) {
    let Some(entity) = state.selected() else {
        return;
    };
    let (id, saved) = (entity.view.task.id.clone(), entity.view.saved_seq);
    let log = state.logs.entry(id.clone()).or_default();
    if saved > log.newest() && !log.is_asked && saved > log.asked_at {
        log.is_asked = true;
        log.asked_at = saved;
        todo.push(Command::ReadHistory {
            task: id,
            after_seq: log.newest(),
        });
    }
}
