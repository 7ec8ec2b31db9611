//! The dialog before quitting, or stopping the keeper, ends or endangers calls.

use crate::{
    app::{BodyLine, Dialog, MenuAction, MenuItem, State, open_calls},
    domain::{CutOutcome, text},
};

use super::tasks::{MAX_LISTED, name_of};

pub(super) fn dialog(state: &State, stops_keeper: bool) -> Dialog {
    let title = if stops_keeper {
        "Stop the keeper?"
    } else {
        "Quit?"
    };
    let mut body = body(state);
    if body.is_empty() {
        body.push(BodyLine::plain(match state.totals.open.len() {
            0 => "Nothing is running.".to_owned(),
            unknown => format!(
                "Nothing is running as far as longhaul knows ({}).",
                text::plural(unknown, "unknown task")
            ),
        }));
    }
    Dialog {
        body,
        on_close: MenuAction::Stay,
        ..Dialog::new(title, Vec::<String>::new(), items(state, stops_keeper))
    }
}

fn body(state: &State) -> Vec<BodyLine> {
    let mut lines = Vec::new();
    for outcome in [
        CutOutcome::Lost,
        CutOutcome::Likely,
        CutOutcome::Pauses,
        CutOutcome::Continues,
    ] {
        let part = open_calls(state, outcome);
        let outcome = Some(outcome);
        for (id, if_cut) in part.iter().take(MAX_LISTED) {
            let why = if_cut.message(|at| state.clock_day(at));
            let text = format!("{}: {why}", name_of(state, id));
            lines.push(BodyLine { outcome, text });
        }
        let more = part.len().saturating_sub(MAX_LISTED);
        if more > 0 {
            let text = format!("and {more} more");
            lines.push(BodyLine { outcome, text });
        }
    }
    lines
}

fn items(state: &State, stops_keeper: bool) -> Vec<MenuItem> {
    let (verb, stay) = if stops_keeper {
        ("stop", "no, keep it running")
    } else {
        ("quit", "no, don't quit")
    };
    let mut items = vec![MenuItem::new('n', stay, MenuAction::Stay)];
    let lost = state.totals.by_outcome.lost.len();
    if lost > 0 {
        let lost = match lost {
            1 => "the call that would be lost has",
            _ => "the calls that would be lost have",
        };
        let label = format!("{verb} once {lost} ended");
        items.push(MenuItem::new('w', label, MenuAction::QuitOnceNothingLost));
    }
    let yes = if stops_keeper {
        "stop it and quit"
    } else {
        "quit"
    };
    items.push(MenuItem::new('y', format!("yes, {yes}"), MenuAction::Quit));
    let cancel = MenuItem::new(
        'c',
        format!("cancel all, then {yes}"),
        MenuAction::CancelAllAndQuit,
    );
    let why_not = state.setup.readonly.then(|| "read-only".to_owned());
    if !state.totals.open.is_empty() {
        items.push(cancel.unless(why_not));
    }
    items
}
