//! Quitting: the keys for it, and when it happens.

use core::time::Duration;

use crate::domain::{SessionRequest, Stamp, TaskId};

use super::{
    Command, Group, LeaveImpacts, Leaving, Menu, Overlay, State, leave::is_viewer, leave_note,
    requests::request, seen::mark_seen, select, session::RequestPurpose, tasks::freeze,
};

/// A second Ctrl-C within this time quits at once.
const TWICE: Duration = Duration::from_secs(2);

/// How long "cancel all and leave" waits for confirmation that the calls were cancelled.
const CANCEL_ALL: Duration = Duration::from_secs(5);

/// Whether this is the dialog with the impact of quitting.
fn is_leave_dialog(overlay: &Overlay) -> bool {
    matches!(
        overlay,
        Overlay::Menu {
            menu: Menu::Leave,
            ..
        }
    )
}

/// Ctrl-C: the first one quits like `q`, a second one quits at once.
pub(super) fn interrupt(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    let is_second = match state.leave.when {
        Leaving::Asked(at) => {
            now.mono.since(at) <= TWICE || state.dialogs.stack.iter().any(is_leave_dialog)
        }
        Leaving::OnceSafe | Leaving::OnceCancelled(_) => true,
        Leaving::No => false,
    };
    if is_second {
        return quit(state, effects);
    }
    leave(state, now, effects);
}

/// Quits if every call survives that, else opens the dialog that shows the impact.
pub(super) fn leave(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    // The dialog must show the current impact, not the frozen one.
    if state.frozen.is_some() {
        freeze(state, now);
    }
    if is_viewer(state) || LeaveImpacts::of(state).is_all_safe() {
        return quit(state, effects);
    }
    state.leave.when = Leaving::Asked(now.mono);
    state
        .dialogs
        .stack
        .retain(|overlay| !is_leave_dialog(overlay));
    state.dialogs.open_menu(Menu::Leave);
}

/// Cancels every open task, and quits once that is confirmed.
pub(super) fn cancel_all_and_leave(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
    let open: Vec<TaskId> = state.totals.open.iter().cloned().collect();
    for id in open {
        let cancel = SessionRequest::Cancel(id);
        request(state, cancel, RequestPurpose::Other, effects);
    }
    state.leave.when = Leaving::OnceCancelled(now.mono.after(CANCEL_ALL));
}

/// Quits once the condition that the user chose is met.
pub(super) fn finish_leaving(state: &mut State, now: Stamp, effects: &mut Vec<Command>) {
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
            mark_seen(state, &id, effects);
        }
    }
    let note = leave_note(state);
    state.leave.note = Some(note.clone());
    effects.push(Command::Quit(note));
}
