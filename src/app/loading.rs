//! Histories, results and traffic: what is in memory, and what must be read.

use std::collections::BTreeMap;

use crate::domain::{HistoryEntry, Saved, SavedRead, TaskId, TrafficEntry};

use super::{
    Command, Menu, Overlay, Pane, ResultText, State, Tab, TerminalCommand, TrafficText,
    detail::print_text, lanes::request_milestones,
};

/// Histories in memory; the selected task's is never evicted.
const LOGS: usize = 8;

/// Columns kept of a recorded message; `longhaul trace --full` prints it all.
const TRAFFIC_COLUMNS: usize = 500;

/// Results in memory.
const RESULTS: usize = 4;

/// Takes what was read from the session file.
pub(super) fn on_read(state: &mut State, read: SavedRead, saved: Option<Saved>) {
    match (read, saved) {
        (SavedRead::History { task, .. }, Some(Saved::History { entries, dropped })) => {
            on_history(state, &task, entries, dropped);
        }
        (SavedRead::History { task, .. }, _) => on_history(state, &task, Vec::new(), 0),
        (SavedRead::Result(task), saved) => {
            let json = match saved {
                Some(Saved::Result(json)) => json,
                _ => None,
            };
            let text = ResultText::read(&task, json);
            state.detail.results.insert(task, text);
        }
        (SavedRead::Traffic { task, .. }, Some(Saved::Traffic(entries))) => {
            on_traffic(state, &task, &entries);
        }
        (SavedRead::Traffic { task, .. }, _) => on_traffic(state, &task, &[]),
        (_, Some(Saved::Milestones(read))) => {
            for (id, milestones) in read {
                let life = state.timeline.lives.entry(id).or_default();
                life.milestones.extend(milestones);
            }
        }
        _ => {}
    }
}

fn on_history(state: &mut State, task: &TaskId, entries: Vec<HistoryEntry>, dropped: u64) {
    let Some(log) = state.detail.logs.get_mut(task) else {
        return;
    };
    let added = log.append(entries, dropped);
    let held = log.entries.len();
    if state.list.cursor.as_ref() == Some(task)
        && state.detail.tab == Tab::Log
        && !state.detail.is_following
    {
        // The visible lines stay in place while new lines arrive below.
        state.detail.scroll = (state.detail.scroll + added).min(held.saturating_sub(1));
    }
}

fn on_traffic(state: &mut State, task: &TaskId, entries: &[TrafficEntry]) {
    let line = |entry: &TrafficEntry| {
        format!(
            "{}.{:03} {} {} {}",
            state.clock_seconds(entry.at),
            entry.at.0.rem_euclid(1000),
            entry.dir.sign(),
            entry.exchange,
            entry.what.line(TRAFFIC_COLUMNS, "\u{2026}")
        )
    };
    let lines: Vec<String> = entries.iter().map(line).collect();
    let wire = state.detail.traffic.as_mut();
    if let Some(wire) = wire.filter(|wire| wire.task == *task) {
        wire.lines = Some(lines);
        wire.is_asked = false;
    }
}

/// Loads what the open tabs show but is only in the session file.
pub(super) fn request_missing_data(state: &mut State) {
    request_milestones(state);
    if state.pane != Pane::Tasks {
        state.detail.prints = None;
        return;
    }
    let Some(task_row) = state.selected() else {
        return;
    };
    let (id, saved) = (task_row.view.task.id.clone(), task_row.view.saved_seq);
    let has_result = task_row.view.task.end.result_bytes.is_some();
    // A read that failed is tried again once the user has been elsewhere.
    for (_, log) in state.detail.logs.iter_mut().filter(|(of, _)| **of != id) {
        log.asked_at = log.newest();
    }
    let log = state.detail.logs.entry(id.clone()).or_default();
    if saved > log.newest() && !log.is_asked && saved > log.asked_at {
        log.is_asked = true;
        log.asked_at = saved;
        let (task, after_seq) = (id.clone(), log.newest());
        state.command(Command::Read(SavedRead::History { task, after_seq }));
    }
    state.detail.prints.take_if(|of| *of != id);
    let prints = state.detail.prints.is_some();
    let is_shown = state.detail.tab == Tab::Result || is_copying(state) || prints;
    let shown = is_shown.then_some(&id);
    let results = &mut state.detail.results;
    results.retain(|of, text| !text.has_failed() || Some(of) == shown);
    if has_result && shown.is_some() && !results.contains_key(&id) {
        let asked = ResultText {
            is_asked: true,
            ..ResultText::default()
        };
        results.insert(id.clone(), asked);
        state.command(Command::Read(SavedRead::Result(id.clone())));
    }
    request_traffic(state, &id, saved);
    let detail = &state.detail;
    let is_reading = detail.results.get(&id).is_some_and(|it| it.is_asked)
        || detail.logs.get(&id).is_some_and(|it| it.is_asked)
        || detail.traffic.as_ref().is_some_and(|it| it.is_asked);
    if prints
        && !is_reading
        && let Some(task_row) = state.task(&id)
    {
        let text = print_text(state, task_row);
        state.command(TerminalCommand::Print(text));
        state.detail.prints = None;
    }
    evict_others(&mut state.detail.logs, LOGS, &id);
    evict_others(&mut state.detail.results, RESULTS, &id);
}

/// Whether the copy menu is open, which needs the result in memory.
fn is_copying(state: &State) -> bool {
    let mut menus = state.dialogs.stack.iter().filter_map(Overlay::menu);
    menus.any(|menu| matches!(menu, Menu::Copy(_)))
}

/// Loads recorded traffic while the Trace tab is open, and again when the task has made progress.
fn request_traffic(state: &mut State, id: &TaskId, saved: u64) {
    let server = state
        .task(id)
        .map(|task_row| task_row.view.task.server.clone());
    let Some(server) = server.filter(|_| state.detail.tab == Tab::Trace) else {
        state.detail.traffic = None;
        return;
    };
    let lines = match state.detail.traffic.take() {
        Some(wire) if wire.task == *id => {
            if wire.is_asked || wire.asked_at >= saved {
                state.detail.traffic = Some(wire);
                return;
            }
            wire.lines
        }
        _ => None,
    };
    state.detail.traffic = Some(TrafficText {
        task: id.clone(),
        lines,
        is_asked: true,
        asked_at: saved,
    });
    let task = id.clone();
    state.command(Command::Read(SavedRead::Traffic { task, server }));
}

/// Shrinks a map to `most` entries without evicting `keep`.
fn evict_others<V>(map: &mut BTreeMap<TaskId, V>, most: usize, keep: &TaskId) {
    while map.len() > most {
        let Some(other) = map.keys().find(|id| *id != keep).cloned() else {
            return;
        };
        map.remove(&other);
    }
}
