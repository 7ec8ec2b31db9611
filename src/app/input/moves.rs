//! Navigation: the cursor of each pane, the tabs, and the search.

use crate::domain::{ServerName, text};

use super::super::{
    Action, Document, Focus, Match, Pane, PaneHeights, Search, SearchStep, State, Tab, TaskLog,
    detail::{entry_text, result_document, tab_lines},
    lanes,
    requests::{check_config, is_reachable, request_tools},
    select,
    typed_line::TypedLineError,
};

/// How many rows a page key moves: a page with some overlap.
pub(super) fn page(state: &State) -> isize {
    let heights = PaneHeights::of(state, state.size);
    let rows = if state.pane == Pane::Tasks && state.detail.focus == Focus::Detail {
        heights.detail.saturating_sub(4)
    } else {
        heights.list.saturating_sub(1)
    };
    isize::try_from(rows.max(1)).unwrap_or(1)
}

pub(super) fn moved(position: usize, by: isize, most: usize) -> usize {
    position.saturating_add_signed(by).min(most)
}

/// Moves the cursor of the focused pane.
pub(in crate::app) fn step(state: &mut State, by: isize) {
    match (state.pane, state.detail.focus) {
        (Pane::Tasks, Focus::List) => {
            if !select::move_by(state, by) && by.unsigned_abs() == 1 {
                state.reply(if by > 0 {
                    "already at the last row"
                } else {
                    "already at the first row"
                });
            }
        }
        (Pane::Tasks, Focus::Detail) => scroll(state, by),
        (Pane::Timeline, _) => lanes::step(state, by),
        (pane, _) => {
            let most = pane_lines(state, pane).saturating_sub(1);
            let at = match pane {
                Pane::Tools => &mut state.cursors[0],
                Pane::Servers => &mut state.cursors[1],
                _ => &mut state.cursors[2],
            };
            // Messages are read from the newest up, so up goes back in time.
            let by = if pane == Pane::Messages { -by } else { by };
            *at = moved(*at, by, most);
        }
    }
}

/// How many rows a pane has.
fn pane_lines(state: &State, pane: Pane) -> usize {
    match pane {
        Pane::Tasks => state.list.rows.len(),
        Pane::Tools => {
            let server = state.tools_pane.server.as_ref();
            let tools = server.and_then(|server| state.tools.get(server));
            tools.map_or(0, |tools| tools.list.len())
        }
        Pane::Servers => state.servers.len(),
        Pane::Messages => state.messages.log.len(),
        // Its lanes are counted where they are chosen.
        Pane::Timeline => 0,
    }
}

/// The rows on the screen for the log and for a text; scrolling stops at a full last page. Wrapped lines take an unknown
/// number of rows, so they can be scrolled until only the last one is left.
fn page_rows(state: &State) -> (usize, usize) {
    let rows = usize::from(PaneHeights::of(state, state.size).detail);
    if state.detail.text.is_wrapping {
        (1, 1)
    } else {
        (rows.saturating_sub(3).max(1), rows.saturating_sub(2).max(1))
    }
}

/// The document in the current tab, if it shows a result.
pub(super) fn document(state: &mut State) -> Option<&mut Document> {
    let id = state.list.cursor.as_ref()?;
    if state.detail.tab != Tab::Result || result_document(state, state.tasks.get(id)?).is_none() {
        return None;
    }
    Some(&mut state.detail.results.get_mut(id)?.document)
}

pub(super) fn scroll(state: &mut State, by: isize) {
    let (of_log, of_text) = page_rows(state);
    if let Some(document) = document(state) {
        return document.step(by, of_text);
    }
    match state.detail.tab {
        Tab::Now => {
            state.reply("nothing to scroll here; press ] for the log");
        }
        Tab::Log => {
            // A note about older lines takes a row above them.
            let rows = |log: &TaskLog| log.entries.len() + usize::from(log.dropped > 0);
            let held = state.selected_log().map_or(0, rows);
            // Up goes back in time.
            state.detail.scroll = moved(state.detail.scroll, -by, held.saturating_sub(of_log));
            state.detail.is_following = state.detail.scroll == 0;
        }
        _ => {
            let lines = state
                .selected()
                .map_or(0, |task_row| tab_lines(state, task_row).len());
            state.detail.scroll = moved(state.detail.scroll, by, lines.saturating_sub(of_text));
        }
    }
}

pub(super) fn turn_tab(state: &mut State, by: isize) {
    let position = Tab::ALL.iter().position(|tab| *tab == state.detail.tab);
    let position = position.unwrap_or(0);
    let next = moved(position, by, Tab::ALL.len() - 1);
    if let Some(tab) = Tab::ALL.get(next) {
        show_tab(state, *tab);
    }
}

pub(in crate::app) fn show_tab(state: &mut State, tab: Tab) {
    if state.detail.tab != tab {
        state.detail.tab = tab;
        state.detail.restart();
    }
}

pub(super) fn next_pane(state: &mut State) {
    match (state.pane, state.detail.focus) {
        (Pane::Tasks, Focus::List) if state.list.cursor.is_some() => {
            state.detail.focus = Focus::Detail;
            // If there is no room for both, the detail pane fills the screen.
            if PaneHeights::of(state, state.size).detail == 0 {
                state.detail.is_zoomed = true;
            }
        }
        (Pane::Tasks, _) => {
            state.detail.focus = Focus::List;
            state.detail.is_zoomed = false;
        }
        _ => return to_tasks(state),
    }
    select::keep_in_sight(state);
}

/// Goes to the tasks. Coming from another pane, rows move to their groups.
pub(in crate::app) fn to_tasks(state: &mut State) {
    if state.pane != Pane::Tasks {
        state.pane = Pane::Tasks;
        select::arrange(state);
    }
    select::keep_in_sight(state);
}

/// Puts the cursor of the list on the task that the pane shows as selected.
pub(in crate::app) fn to_selected_task(state: &mut State) -> Result<(), TypedLineError> {
    match state.pane {
        Pane::Tasks => Ok(()),
        Pane::Timeline => {
            let id = lanes::selected(state).ok_or(TypedLineError::NoTask)?;
            to_tasks(state);
            let is_listed = select::move_to_task(state, &id);
            is_listed
                .then_some(())
                .ok_or(TypedLineError::HiddenTask(id))
        }
        Pane::Tools | Pane::Servers | Pane::Messages => {
            Err(TypedLineError::NoTaskHere(state.key(Action::ShowTasks)))
        }
    }
}

pub(in crate::app) fn show(state: &mut State, pane: Pane) {
    if pane == Pane::Tasks {
        to_tasks(state);
    }
    state.pane = pane;
    if pane == Pane::Tasks {
        state.detail.focus = Focus::List;
        state.detail.is_zoomed = false;
        select::keep_in_sight(state);
    }
    if pane == Pane::Timeline {
        lanes::open(state);
    }
    if pane == Pane::Servers {
        check_config(state, false);
    }
    if pane == Pane::Tools {
        let of_task = state.selected_server();
        let first = || state.servers.first().map(|server| server.name.clone());
        let server = state.tools_pane.server.clone().or(of_task).or_else(first);
        if let Some(server) = server {
            show_tools(state, server);
        }
    }
}

pub(in crate::app) fn show_tools(state: &mut State, server: ServerName) {
    (state.pane, state.tools_pane.from) = (Pane::Tools, Pane::Tasks);
    if state.tools_pane.server.as_ref() != Some(&server) {
        state.cursors[0] = 0;
    }
    let is_known = state.tools.get(&server).is_some_and(|tools| tools.is_known);
    if !is_known || is_reachable(state, &server) {
        request_tools(state, &server);
    }
    state.tools_pane.server = Some(server);
}

/// The matches of the search as scroll positions, in ascending order.
fn matching(state: &State, search: &Search) -> Vec<usize> {
    let Some(task_row) = state.selected() else {
        return Vec::new();
    };
    if state.detail.tab == Tab::Log {
        return state
            .selected_log()
            .iter()
            .flat_map(|log| log.entries.iter().rev().enumerate())
            .filter(|(_, entry)| search.is_in(&entry_text(entry)))
            .map(|(back, _)| back)
            .collect();
    }
    tab_lines(state, task_row)
        .iter()
        .enumerate()
        .filter(|(_, line)| search.is_in(line))
        .map(|(down, _)| down)
        .collect()
}

/// Goes to a match of the search.
pub(in crate::app) fn find(state: &mut State, which: SearchStep) {
    let Some(search) = state.detail.search.clone() else {
        return;
    };
    let (_, rows) = page_rows(state);
    if let Some(document) = document(state) {
        let found = document.search(&search, which, rows);
        let hits = document.hits();
        return match found {
            Some(found) => answer_match(state, found),
            None => not_found(state, &search, which, hits),
        };
    }
    let positions = matching(state, &search);
    let here = state.detail.scroll;
    let mut all = positions.iter();
    let next = match which {
        SearchStep::FromHere => all
            .find(|position| **position >= here)
            .or(positions.first()),
        SearchStep::Next => all.find(|position| **position > here),
        SearchStep::Previous => all.rev().find(|position| **position < here),
    };
    match next {
        Some(position) => go_to(state, *position, &positions),
        None => not_found(state, &search, which, positions.len()),
    }
}

fn not_found(state: &mut State, search: &Search, which: SearchStep, hits: usize) {
    let other = match which {
        SearchStep::FromHere => {
            let more = match state.selected_log() {
                Some(log) if state.detail.tab == Tab::Log && log.dropped > 0 => {
                    "; `longhaul logs` prints the older lines too"
                }
                _ => "",
            };
            return state.reply(format!("no match for {:?} here{more}", search.text()));
        }
        _ if hits == 0 => return state.reply("no matches here"),
        SearchStep::Next => Action::FindPrevious,
        SearchStep::Previous => Action::FindNext,
    };
    let key = state.key(other);
    state.reply(format!(
        "no more matches; press {key} for the other direction"
    ));
}

pub(super) fn go_to(state: &mut State, position: usize, positions: &[usize]) {
    state.detail.scroll = position;
    state.detail.is_following = state.detail.tab == Tab::Log && position == 0;
    let number = positions.partition_point(|other| *other < position) + 1;
    answer_match(state, (number, positions.len()));
}

fn answer_match(state: &mut State, (number, count): Match) {
    state.reply(if count == 1 {
        "1 matching line".to_owned()
    } else {
        let [number, count] = [number, count].map(text::grouped);
        format!("{number} of {count} matching lines")
    });
}

/// Folds or unfolds the JSON value under the cursor.
pub(super) fn fold_here(state: &mut State) {
    if let Some(document) = document(state)
        && !document.toggle()
    {
        state.reply("nothing to fold here; only JSON objects and arrays fold");
    }
}

/// Folds the whole result, or unfolds it.
pub(super) fn fold_all(state: &mut State) {
    if let Some(document) = document(state) {
        let message = if document.toggle_all() {
            "everything folded"
        } else {
            "everything unfolded"
        };
        state.reply(message);
    }
}
