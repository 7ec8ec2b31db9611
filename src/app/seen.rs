//! Which ended tasks the user has seen.

use core::time::Duration;

use crate::domain::{SessionRequest, TaskId};

use super::{Group, Pane, State, TaskRow, requests::request, select};

/// A row counts as seen after the cursor has rested on it this long.
const DWELL: Duration = Duration::from_millis(1_500);

/// A visible row that ended at least this long ago counts as seen at the next key press, which proves that the user is
/// there.
const WATCHED: Duration = Duration::from_secs(3);

/// Notes that the user pressed a key, which replaces the reply to the one before.
pub(super) fn note_presence(state: &mut State) {
    mark_seen_rows(state);
    let now = state.now().mono;
    state.last_key = Some(now);
    state.list.cursor_still_since = Some(now);
    state.messages.reply = None;
}

/// Marks what was visible until now as seen: a key press proves that the user is there.
fn mark_seen_rows(state: &mut State) {
    let now = state.now();
    if !state.dialogs.stack.is_empty() || state.pane != Pane::Tasks {
        return;
    }
    let still_since = state.list.cursor_still_since;
    let is_read = still_since.is_some_and(|since| now.mono.since(since) >= DWELL);
    // A failed or lost task needs more than a look: it stays until the user decides.
    let is_done = |task_row: &TaskRow| task_row.group() == Group::Finished;
    if is_read
        && let Some(id) = state.list.cursor.clone()
        && state.task(&id).is_some_and(is_done)
    {
        mark_seen(state, &id);
    }
    for id in select::visible_rows(state) {
        let was_watched = state.task(&id).is_some_and(|task_row| {
            task_row.ended_unseen()
                && task_row.group() == Group::Finished
                && task_row
                    .settled_at
                    .is_some_and(|at| now.mono.since(at) >= WATCHED)
        });
        if was_watched {
            mark_seen(state, &id);
        }
    }
}

/// Records, here and on disk, that the user has seen how a task ended.
pub(super) fn mark_seen(state: &mut State, id: &TaskId) {
    if !state.task(id).is_some_and(TaskRow::ended_unseen) {
        return;
    }
    state.count(id, false);
    if let Some(task_row) = state.tasks.get_mut(id) {
        task_row.is_seen = true;
        if task_row.listed_group != task_row.group() {
            state.list.refresh.regrouping.insert(id.clone());
        }
    }
    state.count(id, true);
    state.list.refresh.is_order_stale = true;
    if !state.setup.readonly {
        request(state, SessionRequest::Seen(id.clone()));
    }
}
