//! The tasks: their newest snapshots, and what the list and the alerts learn from them.

use core::time::Duration;
use std::{collections::BTreeMap, sync::Arc};

use crate::domain::{Connectivity, ServerView, Status, TaskId, TaskView, Wall};

use super::{
    Frozen, Group, Grouping, SortKey, State, away,
    dialogs::question::close_withdrawn_question,
    notify, select,
    servers::apply_server,
    task_row::{TaskRow, group_of},
};

/// How long ago a task that is new to this screen may have ended to be announced: it may have been removed and restored.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(10);

/// Applies a task's newest snapshot and announces changes that matter to the user.
pub(super) fn apply_task(state: &mut State, view: Arc<TaskView>) {
    let id = view.task.id.clone();
    if let Some(before) = update_task(state, view)
        && let Some(task_row) = state.tasks.get(&id).cloned()
    {
        notify::announce(state, &task_row, before);
    }
}

/// Announces a task's newest snapshot, and applies it once the display is no longer frozen.
pub(super) fn hold_task(state: &mut State, view: Arc<TaskView>) {
    let Some(frozen) = &mut state.frozen else {
        return apply_task(state, view);
    };
    let before = frozen.held.insert(view.task.id.clone(), Arc::clone(&view));
    let before = before.or_else(|| Some(Arc::clone(&state.tasks.get(&view.task.id)?.view)));
    let of = |view: &TaskView| {
        let group = group_of(view, view.task.end.is_seen);
        (group, view.task.status.clone())
    };
    let before = before.map(|view| of(&view));
    let is_new = before.is_none();
    let before = before.unwrap_or((Group::Running, Status::Running));
    // A task from before this screen, which is only back in the list, is no news.
    let restored_at = state.session.restored_at;
    if is_new && restored_at.is_none_or(|at| view.task.created_at < at) {
        return;
    }
    if before != of(&view) {
        let task_row = TaskRow::new(view, state.now());
        notify::announce(state, &task_row, before);
    }
}

/// Applies a task's newest snapshot. Returns its group and status before, if they have changed since this screen opened.
fn update_task(state: &mut State, view: Arc<TaskView>) -> Option<(Group, Status)> {
    let now = state.now();
    let id = view.task.id.clone();
    state.count(&id, false);
    let mut before = state
        .tasks
        .get(&id)
        .map(|task_row| (task_row.group(), task_row.view.task.status.clone()));
    let is_asked_for;
    let mut is_renamed = false;
    if let Some(task_row) = state.tasks.get_mut(&id) {
        let old = Arc::clone(&task_row.view);
        let was_restored = matches!(old.contact, Connectivity::Unwatched { .. });
        task_row.update(view, now);
        if was_restored && task_row.listed_group != task_row.group() {
            // Until now its row showed only what was saved, so it need not stay in place.
            task_row.settled_at = None;
            task_row.listed_group = task_row.group();
            state.list.refresh.is_order_stale = true;
        }
        if task_row.listed_group != task_row.group() {
            state.list.refresh.regrouping.insert(id.clone());
        }
        is_asked_for = old.task.forgotten_at.is_some() != task_row.view.task.forgotten_at.is_some();
        if is_asked_for
            || state.list.sort != SortKey::Newest
            || state.list.grouping == Grouping::Status
        {
            state.list.refresh.is_order_stale = true;
        }
        is_renamed = task_row.view.task.title() != old.task.title();
        // It may match the filter now, or no longer.
        state.list.refresh.is_order_stale |= !state.list.filter.is_empty() || state.list.needs_only;
    } else {
        let returns = state.list.returning.remove(&id);
        let is_new = (state.session.restored_at).is_some_and(|at| view.task.created_at >= at);
        let settled_at = view
            .task
            .end
            .settled_at
            .filter(|_| view.task.status.is_settled());
        let ended_long_ago = settled_at.is_some_and(|at| now.wall.since(at) > ANNOUNCED_WITHIN);
        if !returns && is_new && !ended_long_ago {
            // It may start and end between two snapshots; its end is announced anyway.
            before = Some((Group::Running, Status::Running));
        }
        add_task(state, view);
        is_asked_for = state.list.wanted.as_ref() == Some(&id)
            || state.list.rows.is_empty()
            || (returns && state.list.returning.is_empty());
    }
    state.count(&id, true);
    close_withdrawn_question(state, &id);
    if is_renamed {
        index_arguments(state, &id);
    }
    // What the user just asked for, and the very first row, appear at once.
    if is_asked_for {
        state.list.cursor_still_since.get_or_insert(now.mono);
        select::rebuild(state);
    }
    let task_row = state.tasks.get(&id)?;
    let before =
        before.filter(|before| *before != (task_row.group(), task_row.view.task.status.clone()))?;
    state.list.refresh.is_order_stale = true;
    Some(before)
}

fn add_task(state: &mut State, view: Arc<TaskView>) {
    away::note_older(state, &view.task);
    let id = view.task.id.clone();
    state.totals.has_callers |= view.task.caller.is_some();
    state
        .tasks
        .insert(id.clone(), TaskRow::new(view, state.now()));
    index_arguments(state, &id);
    state.list.refresh.is_order_stale = true;
}

/// Arguments with more values than this tell tasks apart equally well.
const VALUES_COUNTED: usize = 100;

/// Records which arguments differ among tasks with the same title.
fn index_arguments(state: &mut State, id: &TaskId) {
    let Some(task_row) = state.tasks.get(id) else {
        return;
    };
    let title = task_row.view.task.title().to_owned();
    let index = state.list.differing.entry(title).or_default();
    for (key, value) in &task_row.arguments {
        let values = index.entry(key.clone()).or_default();
        if values.len() < VALUES_COUNTED {
            values.insert(value.clone());
        }
    }
}

pub(super) fn erase(state: &mut State, id: &TaskId) {
    state.count(id, false);
    state.tasks.remove(id);
    state.detail.logs.remove(id);
    state.detail.results.remove(id);
    state.timeline.lives.remove(id);
    state.list.refresh.regrouping.remove(id);
    if let Some(frozen) = &mut state.frozen {
        frozen.held.remove(id);
    }
    // A dialog about it has nothing left to act on.
    state.dialogs.stack.retain(|overlay| !overlay.is_about(id));
    select::rebuild(state);
}

pub(super) fn restore(
    state: &mut State,
    views: Vec<Arc<TaskView>>,
    servers: Vec<ServerView>,
    (saved_at, watched_at): (Option<Wall>, Option<Wall>),
) {
    let now = state.now();
    for server in servers {
        apply_server(state, server);
    }
    for view in views {
        apply_task(state, view);
    }
    state.list.cursor_still_since = Some(now.mono);
    (state.session.saved_at, state.session.restored_at) = (saved_at, Some(now.wall));
    select::rebuild(state);
    // No row was chosen yet: start at the first one, which may need the user.
    if state.last_key.is_none() {
        select::move_by(state, isize::MIN / 2);
        state.list.wanted = None;
    }
    let unseen = state.kept_tasks().filter(|task_row| !task_row.is_seen);
    let oldest = unseen.map(|task_row| task_row.view.task.created_at).min();
    // At the first look, the user has been away since the first task.
    if let Some(oldest) = oldest
        && let since = watched_at.unwrap_or(oldest)
        && now.wall.since(since) >= away::MIN_ABSENCE
    {
        state.away = Some(away::begin(state, since, now.wall, false));
    }
    select::keep_in_sight(state);
}

/// Freezes the display, or shows what has changed meanwhile.
pub(super) fn freeze(state: &mut State) {
    match state.frozen.take() {
        Some(frozen) => {
            for view in frozen.held.into_values() {
                update_task(state, view);
            }
        }
        None => {
            state.frozen = Some(Frozen {
                at: state.now(),
                held: BTreeMap::new(),
            });
        }
    }
}
