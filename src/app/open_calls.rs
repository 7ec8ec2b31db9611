//! The calls that have not ended, by what a cut would do to them, and what the screen says about quitting.

use crate::domain::{CutOutcome, IfCut, SessionDriver, TaskId, text};

use super::{Action, ExitNote, State};

/// The calls of the list that have not ended, and to which a cut would do this.
pub fn open_calls(state: &State, outcome: CutOutcome) -> Vec<(&TaskId, &IfCut)> {
    let calls = state.open_tasks();
    let calls = calls.filter_map(|row| Some((&row.view.task.id, row.if_cut()?)));
    calls
        .filter(|(_, if_cut)| if_cut.outcome() == outcome)
        .collect()
}

/// The process that drives the session, if it is not this one: quitting this one changes nothing.
pub fn other_driver(state: &State) -> Option<SessionDriver> {
    let driver = state.session.driver.filter(|driver| !driver.is_us);
    driver.filter(|_| !state.session.is_driverless)
}

/// The last line of the screen, as keys and what they do. With a keeper: `quit: 4 calls stay in the background` and
/// `stop keeper: 2 continue, 1 paused, 1 likely resumable until about Fri 07:20, 1 LOST (pd6xw8)`. If it would be
/// wider than `columns`, without the time, and the worst outcome first because the end may be cut off.
pub fn quit_lines(state: &State, columns: usize) -> Vec<(Action, String)> {
    let width = |(action, text): &(Action, String)| {
        text::width(&state.key(*action)) + 1 + text::width(text) + 3
    };
    let fits = |lines: &[_]| lines.iter().map(width).sum::<usize>() <= columns;
    let is_long = fits(&quit_texts(state, true));
    quit_texts(state, is_long)
}

fn quit_texts(state: &State, is_long: bool) -> Vec<(Action, String)> {
    let open = state.totals.open.len();
    let Some(driver) = other_driver(state) else {
        let text = match outcomes(state, is_long) {
            Some(outcomes) => format!("quit: {outcomes}"),
            // Nobody knows whether the open calls are running.
            None if open > 0 => "quit".to_owned(),
            None => idle(state).to_owned(),
        };
        return vec![(Action::Quit, text)];
    };
    if !driver.is_keeper {
        let text = format!("quit: process {} keeps running the calls", driver.pid);
        return vec![(Action::Quit, text)];
    }
    let quit = match state.totals.by_outcome.known() {
        0 => idle(state).to_owned(),
        known => format!("quit: {}", kept(known)),
    };
    // Another machine's keeper is stopped there.
    let can_stop = state.setup.host.is_none() && !state.setup.readonly;
    let outcomes = outcomes(state, is_long).filter(|_| can_stop);
    let mut lines = vec![(Action::Quit, quit)];
    lines.extend(outcomes.map(|it| (Action::StopKeeper, format!("stop keeper: {it}"))));
    lines
}

fn idle(state: &State) -> &'static str {
    match state.totals.counts.unsaved {
        0 => "quit: nothing is running",
        _ => "quit: some results are not saved",
    }
}

/// `2 continue, 1 paused, 1 likely resumable until about Fri 07:20, 1 LOST (pd6xw8)`; `None` if nothing is open.
fn outcomes(state: &State, is_long: bool) -> Option<String> {
    let totals = &state.totals.by_outcome;
    let mut parts = Vec::new();
    for (count, one, many) in [
        (totals.continues, "continues", "continue"),
        (totals.pauses, "paused", "paused"),
    ] {
        if count > 0 {
            let verb = if count == 1 { one } else { many };
            parts.push(format!("{} {verb}", text::grouped(count)));
        }
    }
    if let Some((until, _)) = totals.likely.first() {
        let until = if until.0 == i64::MAX || !is_long {
            String::new()
        } else {
            let first = if totals.likely.len() > 1 {
                ", the first"
            } else {
                ""
            };
            format!("{first} until about {}", state.clock_day(*until))
        };
        parts.push(format!(
            "{} likely resumable{until}",
            text::grouped(totals.likely.len())
        ));
    }
    if !totals.lost.is_empty() {
        let ids: Vec<&str> = totals.lost.iter().map(TaskId::as_str).collect();
        let count = text::grouped(ids.len());
        parts.push(format!("{count} LOST ({})", text::first_of(&ids, 3)));
    }
    if !is_long {
        parts.reverse();
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What a keeper does with the open calls: some run, others may be paused or wait for an answer.
fn kept(open: usize) -> String {
    let verb = if open == 1 { "stays" } else { "stay" };
    format!("{} {verb} in the background", text::plural(open, "call"))
}

/// The note for stderr after the screen has closed.
pub fn exit_note(state: &State) -> ExitNote {
    let command = &state.setup.reopens_with;
    let stops_keeper = state.exit.stops_keeper;
    let line = match (other_driver(state), outcomes(state, true)) {
        (Some(driver), _) if !driver.is_keeper => {
            format!(
                "process {} keeps running the calls; to watch again: {command}",
                driver.pid
            )
        }
        (_, None) => String::new(),
        (Some(_), Some(_)) if !stops_keeper => {
            let open = state.totals.by_outcome.known();
            format!("{}; to watch them: {command}", kept(open))
        }
        (Some(_), Some(outcomes)) => {
            format!("keeper stopped ({outcomes}); to open the list again: {command}")
        }
        (None, Some(outcomes)) => format!("quit: {outcomes}; to open the list again: {command}"),
    };
    ExitNote { line, stops_keeper }
}
