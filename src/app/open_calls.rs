//! The calls that have not ended, by what a cut would do to them, and what the screen says about quitting.

use crate::domain::{CutOutcome, IfCut, SessionDriver, TaskId, Wall, text};

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

/// The last line of the screen, as keys and what they do. With a keeper: `quit: 4 unfinished calls stay in the background` and
/// `stop keeper: 1 LOST (pd6xw8), 1 likely resumable until about Fri 07:20, 1 paused, 2 continue`.
pub fn quit_lines(state: &State) -> Vec<(Action, String)> {
    let Some(driver) = other_driver(state) else {
        let text = match outcomes(state) {
            Some(outcomes) => format!("quit: {outcomes}"),
            // Nobody knows whether the open calls are running.
            None if !state.totals.open.is_empty() => "quit".to_owned(),
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
    let outcomes = outcomes(state).filter(|_| can_stop);
    let mut lines = vec![(Action::Quit, quit)];
    lines.extend(outcomes.map(|it| (Action::StopKeeper, format!("stop keeper: {it}"))));
    lines
}

fn idle(state: &State) -> &'static str {
    match state.totals.counts.unsaved {
        _ if state.has_never_connected() => "quit: not connected yet",
        0 => "quit: nothing is running",
        _ => "quit: some results are not saved",
    }
}

/// What a cut does to the open calls, worst first, because the end may be cut off; `None` if nothing is open.
fn outcomes(state: &State) -> Option<String> {
    let totals = &state.totals.by_outcome;
    let mut parts = Vec::new();
    if !totals.lost.is_empty() {
        let ids: Vec<&str> = totals.lost.iter().map(TaskId::as_str).collect();
        let count = text::grouped(ids.len());
        parts.push(format!("{count} LOST ({})", text::first_of(&ids, 3)));
    }
    if !totals.likely.is_empty() {
        let count = text::grouped(totals.likely.len());
        parts.push(format!("{count} likely resumable{}", likely_until(state)));
    }
    if totals.pauses > 0 {
        parts.push(format!("{} paused", text::grouped(totals.pauses)));
    }
    if totals.continues > 0 {
        let count = text::grouped(totals.continues);
        parts.push(format!("{count} {}", continues(totals.continues)));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Until when calls are likely resumable, if any of them have a limit.
fn likely_until(state: &State) -> String {
    let likely = &state.totals.by_outcome.likely;
    let times = likely.iter().map(|(until, _)| *until);
    let limited: Vec<Wall> = times.take_while(|it| it.0 < i64::MAX).collect();
    let (Some(first), Some(last)) = (limited.first(), limited.last()) else {
        return String::new();
    };
    let [until, latest] = [first, last].map(|at| state.clock_day(*at));
    let later = if until == latest { "" } else { " or later" };
    if limited.len() == likely.len() {
        format!(" until about {until}{later}")
    } else {
        let count = text::grouped(limited.len());
        format!(" ({count} until about {until}{later})")
    }
}

/// With a keeper, open calls stay in the background, whether they run, are paused or wait for an answer.
fn kept(open: usize) -> String {
    let stay = if open == 1 { "stays" } else { "stay" };
    format!(
        "{} {stay} in the background",
        text::plural(open, "unfinished call")
    )
}

fn continues(count: usize) -> &'static str {
    if count == 1 { "continues" } else { "continue" }
}

/// The note for stderr after the screen has closed.
pub fn exit_note(state: &State) -> ExitNote {
    let command = &state.setup.reopens_with;
    let stops_keeper = state.exit.stops_keeper;
    let line = match (other_driver(state), outcomes(state)) {
        (Some(driver), _) if !driver.is_keeper => {
            format!(
                "process {} keeps running the calls; to watch again: `{command}`",
                driver.pid
            )
        }
        (_, None) => String::new(),
        (Some(_), Some(_)) if !stops_keeper => {
            let open = state.totals.by_outcome.known();
            let what = if open == 1 { "it" } else { "them" };
            format!("{}; to watch {what}: `{command}`", kept(open))
        }
        (Some(_), Some(outcomes)) => {
            format!("keeper stopped: {outcomes}; to open the list again: `{command}`")
        }
        (None, Some(outcomes)) => format!("quit: {outcomes}; to open the list again: `{command}`"),
    };
    ExitNote { line, stops_keeper }
}
