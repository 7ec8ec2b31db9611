//! Quitting: the keys for it, and when it happens.

use core::time::Duration;

use crate::domain::{SessionRequest, TaskId};

use super::{
    Command, ExitWhen, Group, Menu, Overlay, State, exit_note, open_calls::other_driver,
    requests::request, seen::mark_seen, select, tasks::freeze,
};

/// A second Ctrl-C within this time quits at once.
const TWICE: Duration = Duration::from_secs(2);

/// How long "cancel all and quit" waits for confirmation that the calls were cancelled.
const CANCEL_ALL: Duration = Duration::from_secs(5);

/// Whether this is the dialog with the cost of quitting.
fn is_quit_dialog(overlay: &Overlay) -> bool {
    matches!(overlay.menu(), Some(Menu::Quit { .. }))
}

/// Ctrl-C: the first one quits like `q`, a second one quits at once.
pub(super) fn interrupt(state: &mut State) {
    let is_second = match state.exit.when {
        ExitWhen::Asked(at) => {
            state.now().mono.since(at) <= TWICE || state.dialogs.stack.iter().any(is_quit_dialog)
        }
        ExitWhen::NothingLost | ExitWhen::Cancelled(_) => true,
        ExitWhen::No => false,
    };
    if is_second {
        // A second Ctrl-C is not a decision to stop the keeper.
        state.exit.stops_keeper = false;
        return quit(state);
    }
    quit_or_ask(state);
}

/// Quits if that costs nothing, else opens the dialog that shows the cost.
pub(super) fn quit_or_ask(state: &mut State) {
    let totals = &state.totals.by_outcome;
    let all_continue = totals.pauses == 0 && totals.likely.is_empty() && totals.lost.is_empty();
    if other_driver(state).is_some() || all_continue {
        state.exit.stops_keeper = false;
        return quit(state);
    }
    ask(state, false);
}

/// `Q`: asks before it stops the keeper. Without one it is `q`.
pub(super) fn stop_keeper(state: &mut State) {
    match other_driver(state) {
        Some(driver) if driver.is_keeper => ask(state, true),
        _ => quit_or_ask(state),
    }
}

fn ask(state: &mut State, stops_keeper: bool) {
    // The dialog must show the current calls, not the frozen ones.
    if state.frozen.is_some() {
        freeze(state);
    }
    state.exit.when = ExitWhen::Asked(state.now().mono);
    state.exit.stops_keeper = stops_keeper;
    let is_other = |overlay: &Overlay| !is_quit_dialog(overlay);
    state.dialogs.stack.retain(is_other);
    state.dialogs.open_menu(Menu::Quit { stops_keeper });
}

/// Cancels every open task, and quits once that is confirmed.
pub(super) fn cancel_all_and_quit(state: &mut State) {
    let open: Vec<TaskId> = state.totals.open.iter().cloned().collect();
    for id in open {
        request(state, SessionRequest::Cancel(id));
    }
    state.exit.when = ExitWhen::Cancelled(state.now().mono.after(CANCEL_ALL));
}

/// Quits once the condition that the user chose is met.
pub(super) fn finish_exit(state: &mut State) {
    let is_time = match &state.exit.when {
        ExitWhen::No | ExitWhen::Asked(_) => false,
        ExitWhen::NothingLost => state.totals.by_outcome.lost.is_empty(),
        ExitWhen::Cancelled(at) => state.totals.open.is_empty() || state.now().mono >= *at,
    };
    if is_time {
        quit(state);
    }
}

/// Quits the program.
pub(super) fn quit(state: &mut State) {
    // Completed tasks on the screen count as seen; failed ones keep needing attention.
    for id in select::visible_rows(state) {
        let is_done = state
            .task(&id)
            .is_some_and(|task_row| task_row.ended_unseen() && task_row.group() == Group::Finished);
        if is_done {
            mark_seen(state, &id);
        }
    }
    let note = exit_note(state);
    state.exit.note = Some(note.clone());
    state.command(Command::Quit(note));
}
