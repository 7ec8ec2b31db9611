//! The dialog before quitting, or stopping the keeper, ends or endangers calls.

use crate::{
    app::{OpenCalls, State},
    domain::{CutOutcome, text},
};

use super::{
    menu::{BodyLine, Dialog, MenuAction, MenuItem},
    tasks::{MAX_LISTED, name_of},
};

pub(super) fn dialog(state: &State, stops_keeper: bool) -> Dialog {
    let calls = OpenCalls::of(state);
    let title = if stops_keeper {
        "Stop the keeper?"
    } else {
        "Quit?"
    };
    let mut body = body(state, &calls);
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
        on_close: MenuAction::Stay,
        ..Dialog::new(title, body, items(state, &calls, stops_keeper))
    }
}

fn body(state: &State, calls: &OpenCalls<'_>) -> Vec<BodyLine> {
    let mut lines = Vec::new();
    for (outcome, part) in [
        (CutOutcome::Lost, &calls.lost),
        (CutOutcome::Likely, &calls.likely),
        (CutOutcome::Pauses, &calls.pauses),
        (CutOutcome::Continues, &calls.continues),
    ] {
        let outcome = Some(outcome);
        for (id, if_cut) in part.iter().take(MAX_LISTED) {
            let until = if_cut.until.map_or(String::new(), |at| {
                format!(", until about {}", state.clock_day(at))
            });
            let (name, why) = (name_of(state, id), if_cut.reason.message());
            let text = format!("{name}: {why}{until}");
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

fn items(state: &State, calls: &OpenCalls<'_>, stops_keeper: bool) -> Vec<MenuItem> {
    let (verb, stay) = if stops_keeper {
        ("stop", "no, keep it running")
    } else {
        ("quit", "no, don't quit")
    };
    let mut items = vec![MenuItem::new('n', stay, MenuAction::Stay)];
    if !calls.lost.is_empty() {
        let lost = match calls.lost.len() {
            1 => "the call that would be lost has",
            _ => "the calls that would be lost have",
        };
        let label = format!("{verb} once {lost} ended");
        items.push(MenuItem::new('w', label, MenuAction::QuitOnceNothingLost));
    }
    items.push(MenuItem::new('y', format!("yes, {verb}"), MenuAction::Quit));
    let cancel = MenuItem::new(
        'c',
        format!("cancel all and {verb}"),
        MenuAction::CancelAllAndQuit,
    );
    let why_not = state.setup.readonly.then(|| "read-only".to_owned());
    items.push(cancel.unless(why_not));
    items
}
