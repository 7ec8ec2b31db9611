//! The task list: filter, grouping, order and cursor.

use std::{cmp::Ordering, time::Duration};

use crate::domain::{Stamp, TaskId, text};

use super::{
    Pane, State,
    grouping::{GroupCounts, ListRow, SortKey, urgency},
    layout::{PaneHeights, window},
    task_row::{Group, TaskRow},
};

/// Rows keep their order for this long after a key, so that the user doesn't act on a row that has just moved.
pub(super) const HOLD_AFTER_KEY: Duration = Duration::from_secs(1);

/// The list is resorted at most this often because of changes to tasks.
pub(super) const MIN_REORDER_INTERVAL: Duration = Duration::from_millis(250);

/// Whether a task is listed.
fn is_shown(state: &State, task_row: &TaskRow) -> bool {
    let is_kept = || state.list.kept.as_ref() == Some(&task_row.view.task.id);
    task_row.view.task.forgotten_at.is_none() && (matches(state, task_row) || is_kept())
}

fn matches(state: &State, task_row: &TaskRow) -> bool {
    (!state.list.needs_only || task_row.group() == Group::NeedsYou)
        && state.list.filter.matches(task_row, state.now())
}

fn compare(state: &State, one: &TaskRow, two: &TaskRow) -> Ordering {
    let (a, b) = (&one.view.task, &two.view.task);
    let newest = || (b.created_at.cmp(&a.created_at)).then_with(|| a.id.cmp(&b.id));
    let order = match state.list.sort {
        SortKey::Newest => Ordering::Equal,
        SortKey::State => a.status.label().cmp(b.status.label()),
        SortKey::Task => text::clean_line(a.title()).cmp(&text::clean_line(b.title())),
        SortKey::Server => a.server.as_str().cmp(b.server.as_str()),
        SortKey::Progress => {
            let part = |task_row: &TaskRow| {
                let progress = task_row.view.task.progress.as_ref();
                progress.and_then(crate::domain::Progress::ratio)
            };
            part(two)
                .unwrap_or(-1.0)
                .total_cmp(&part(one).unwrap_or(-1.0))
        }
        SortKey::IfCut => {
            let outcome = |task_row: &TaskRow| {
                let if_cut = task_row.view.if_cut.as_ref();
                (if_cut.is_none(), if_cut.map(crate::domain::IfCut::outcome))
            };
            outcome(one).cmp(&outcome(two))
        }
    };
    let order = order.then_with(|| match one.listed_group {
        // Questions first, then unknown tasks, then failed and lost ones.
        Group::NeedsYou => (urgency(&a.status).cmp(&urgency(&b.status))).then_with(newest),
        Group::Finished => (b.end.settled_at.cmp(&a.end.settled_at)).then_with(newest),
        Group::Running => newest(),
    });
    if state.list.is_reversed {
        order.reverse()
    } else {
        order
    }
}

/// Rebuilds the list after the user changed what it shows: rows may move to their groups at once.
pub(super) fn arrange(state: &mut State) {
    state.list.refresh.regrouping.clear();
    for task_row in state.tasks.values_mut() {
        task_row.listed_group = task_row.group();
    }
    state.list.kept = None;
    build(state);
}

/// Rebuilds the list after tasks changed. The cursor stays on its task, which stays listed.
pub(super) fn rebuild(state: &mut State) {
    // The tasks of another machine arrive one by one. The cursor waits for all of them, so that it starts at the first row.
    if state.has_never_connected() {
        return;
    }
    let is_leaving = |id: &TaskId| {
        line_of(&state.list.rows, id).is_some()
            && !state.task(id).is_some_and(|it| matches(state, it))
    };
    state.list.kept = state.list.cursor.clone().filter(is_leaving);
    build(state);
}

fn build(state: &mut State) {
    state.list.refresh.is_order_stale = false;
    let tasks = state.tasks.values();
    let mut shown: Vec<&TaskRow> = tasks.filter(|it| is_shown(state, it)).collect();
    let by = state.list.grouping;
    shown.sort_by(|one, two| {
        by.compare(one, two)
            .then_with(|| one.listed_group.cmp(&two.listed_group))
            .then_with(|| compare(state, one, two))
    });
    let mut lines = Vec::with_capacity(shown.len() + 3);
    for group in shown.chunk_by(|one, two| by.compare(one, two).is_eq()) {
        let Some(first) = group.first() else { continue };
        let needs = group.iter().filter(|it| it.group() == Group::NeedsYou);
        let new = group.iter().filter(|it| it.ended_unseen());
        let counts = GroupCounts {
            count: group.len(),
            needs: needs.count(),
            new: new.count(),
        };
        lines.push(ListRow::Heading(by.title(first), counts));
        let rows = group
            .iter()
            .filter(|task_row| !(state.list.is_folded && task_row.listed_group == Group::Finished));
        lines.extend(rows.map(|task_row| ListRow::Task(task_row.view.task.id.clone())));
    }
    state.list.rows = lines;
    let tasks = &state.tasks;
    let is_there = |row: &TaskRow| row.view.task.forgotten_at.is_none();
    let is_kept = |id: &TaskId| tasks.get(id).is_some_and(is_there);
    state.list.marks.retain(is_kept);
    place_cursor(state);
}

fn line_of(lines: &[ListRow], id: &TaskId) -> Option<usize> {
    lines.iter().position(|line| line.task() == Some(id))
}

/// Puts the cursor on its task, or on the nearest row if that task is hidden.
fn place_cursor(state: &mut State) {
    // The cursor returns to the task that the user chose as soon as that is listed again.
    if let Some(wanted) = state.list.wanted.clone()
        && line_of(&state.list.rows, &wanted).is_some()
    {
        state.list.cursor = Some(wanted);
        state.list.wanted = None;
    }
    let cursor = state.list.cursor.as_ref();
    let found = cursor.and_then(|id| line_of(&state.list.rows, id));
    if let Some(line) = found {
        state.list.cursor_row = line;
    } else {
        let nearest = nearest_row(&state.list.rows, state.list.cursor_row);
        let next = nearest.and_then(|line| row_at(&state.list.rows, line));
        if let Some(hidden) = state.list.cursor.take()
            && state.tasks.contains_key(&hidden)
        {
            state.list.wanted.get_or_insert(hidden);
        }
        state.list.cursor_row = nearest.unwrap_or(0);
        state.list.cursor = next;
        state.detail.restart();
    }
    keep_in_sight(state);
}

pub(super) fn row_at(lines: &[ListRow], line: usize) -> Option<TaskId> {
    lines.get(line)?.task().cloned()
}

/// The row at `line`, or the first below it, or the last above it.
fn nearest_row(lines: &[ListRow], line: usize) -> Option<usize> {
    let is_row = |index: &usize| matches!(lines.get(*index), Some(ListRow::Task(_)));
    (line..lines.len())
        .find(is_row)
        .or_else(|| (0..line.min(lines.len())).rev().find(is_row))
}

/// Scrolls as little as possible so that the cursor is visible.
pub(super) fn keep_in_sight(state: &mut State) {
    let rows = usize::from(PaneHeights::of(state, state.size).list);
    state.list.top = first_line(state, rows);
}

/// Moves the cursor by rows, without wrapping around; returns whether it moved.
pub(super) fn move_by(state: &mut State, rows: isize) -> bool {
    let is_row = |index: &usize| matches!(state.list.rows.get(*index), Some(ListRow::Task(_)));
    let count = rows.unsigned_abs();
    let target = if rows >= 0 {
        (state.list.cursor_row + 1..state.list.rows.len())
            .filter(is_row)
            .take(count)
            .last()
    } else {
        (0..state.list.cursor_row)
            .rev()
            .filter(is_row)
            .take(count)
            .last()
    };
    if let Some(line) = target {
        move_to(state, line);
    }
    target.is_some()
}

/// Puts the cursor on the row at `line`.
pub(super) fn move_to(state: &mut State, line: usize) {
    let Some(id) = row_at(&state.list.rows, line) else {
        return;
    };
    if state.list.cursor.as_ref() != Some(&id) {
        state.detail.restart();
        // The row that the cursor leaves may not match any more.
        state.list.refresh.is_order_stale |= state.list.kept.is_some();
    }
    state.list.cursor = Some(id);
    state.list.cursor_row = line;
    state.list.wanted = None;
    keep_in_sight(state);
}

/// Puts the cursor on a task; returns `false` if it is not listed.
pub(super) fn move_to_task(state: &mut State, id: &TaskId) -> bool {
    let line = line_of(&state.list.rows, id);
    if let Some(line) = line {
        move_to(state, line);
    }
    line.is_some()
}

/// The tasks that an action applies to: the marked ones, else the one under the cursor.
pub(super) fn chosen(state: &State) -> Vec<TaskId> {
    if state.list.marks.is_empty() {
        state.list.cursor.iter().cloned().collect()
    } else {
        state.list.marks.iter().cloned().collect()
    }
}

/// How many marked tasks are hidden.
pub(super) fn hidden_marks(state: &State) -> usize {
    hidden(state, state.list.marks.iter())
}

/// How many of these tasks are hidden, if they were chosen by marks.
pub(super) fn hidden_among_marked(state: &State, tasks: &[TaskId]) -> usize {
    if state.list.marks.is_empty() {
        return 0;
    }
    hidden(state, tasks.iter())
}

/// How many of these tasks are hidden.
fn hidden<'t>(state: &State, tasks: impl Iterator<Item = &'t TaskId>) -> usize {
    let is_seen = |id: &TaskId| {
        state.task(id).is_some_and(|task_row| {
            is_shown(state, task_row)
                && !(state.list.is_folded && task_row.listed_group == Group::Finished)
        })
    };
    tasks.filter(|id| !is_seen(id)).count()
}

/// Whether rows may move: not within [`HOLD_AFTER_KEY`] of a key.
pub(super) fn may_reorder(state: &State, now: Stamp) -> bool {
    state
        .last_key
        .is_none_or(|key| now.mono.since(key) >= HOLD_AFTER_KEY)
}

/// Moves rows to their groups once the user has seen the change and the cursor is elsewhere.
pub(super) fn regroup(state: &mut State) {
    let now = state.now();
    if !may_reorder(state, now) {
        return;
    }
    let cursor = state.list.cursor.clone();
    let mut has_moved = false;
    for id in std::mem::take(&mut state.list.refresh.regrouping) {
        let Some(task_row) = state.tasks.get_mut(&id) else {
            continue;
        };
        let group = task_row.group();
        if task_row.listed_group == group {
            continue;
        }
        if cursor.as_ref() == Some(&id) {
            state.list.refresh.regrouping.insert(id);
            continue;
        }
        // A task that ended stays in place until the user has seen it (`mark_seen` queues it again). One that needs
        // attention moves at once.
        if group == Group::Finished && !task_row.is_seen {
            continue;
        }
        task_row.listed_group = group;
        has_moved = true;
    }
    let refresh = &mut state.list.refresh;
    let is_due = (refresh.rebuilt_at).is_none_or(|at| now.mono.since(at) >= MIN_REORDER_INTERVAL);
    if has_moved || (refresh.is_order_stale && is_due) {
        refresh.rebuilt_at = Some(now.mono);
        rebuild(state);
    }
}

/// The tasks whose rows are on the screen.
pub(super) fn visible_rows(state: &State) -> Vec<TaskId> {
    if state.pane != Pane::Tasks || state.detail.is_zoomed {
        return Vec::new();
    }
    let rows = usize::from(PaneHeights::of(state, state.size).list);
    let shown = state.list.rows.iter().skip(state.list.top).take(rows);
    shown.filter_map(ListRow::task).cloned().collect()
}

/// The first row to draw if the list has `rows` rows on the screen.
pub fn first_line(state: &State, rows: usize) -> usize {
    let list = &state.list;
    window(list.top, list.cursor_row, rows, list.rows.len())
}
