//! The mouse: what is under it, and what a click or the wheel does. A click never bypasses a confirmation that a key
//! would get: over a dialog only the wheel works.

use crate::domain::{Chord, Key, MouseAction};

use super::{
    super::{
        Focus, ListRow, Overlay, Pane, PaneHeights, State, Tab, first_line,
        layout::{servers_shown, tab_at, tools_shown},
        seen::note_presence,
        select,
    },
    moves::{pane_lines, scroll, show_tab, step},
    open::open,
};

/// Rows that one notch of the wheel moves.
const NOTCH: isize = 3;

/// What is under the mouse.
enum Hit {
    /// A row of the current pane, by index.
    Row(usize),
    /// A tab label.
    Tab(Tab),
    /// Anything else in the detail pane.
    Detail,
    Nothing,
}

/// Handles the mouse. Returns the key that does the same in a layer over the screen.
pub(super) fn on_mouse(state: &mut State, action: MouseAction, at: (u16, u16)) -> Option<Chord> {
    let wheel = match action {
        MouseAction::Press => None,
        MouseAction::WheelUp => Some((-NOTCH, Key::Up)),
        MouseAction::WheelDown => Some((NOTCH, Key::Down)),
    };
    if let Some(overlay) = state.dialogs.stack.last() {
        let is_list = matches!(
            overlay,
            Overlay::Help { .. }
                | Overlay::Palette { .. }
                | Overlay::Page { .. }
                | Overlay::Menu { .. }
        );
        let (_, key) = wheel.filter(|_| is_list)?;
        return Some(Chord::plain(key));
    }
    note_presence(state);
    let hit = hit(state, at);
    match wheel {
        Some((by, _)) => scroll_wheel(state, &hit, by),
        None => press(state, &hit),
    }
    None
}

/// What is at a cell of the screen.
fn hit(state: &State, (column, row): (u16, u16)) -> Hit {
    let heights = PaneHeights::of(state, state.size);
    let list = heights.header + heights.banner + heights.titles;
    let detail = list + heights.list;
    if row < list {
        return Hit::Nothing;
    }
    if row >= detail {
        return match state.selected() {
            Some(_) if row == detail && heights.detail > 0 => {
                tab_at(state, column).map_or(Hit::Detail, Hit::Tab)
            }
            Some(_) if row < detail + heights.detail => Hit::Detail,
            _ => Hit::Nothing,
        };
    }
    let below = usize::from(row - list);
    // The other panes have a title and an empty row above their lines.
    let line = match state.pane {
        Pane::Tasks => Some(first_line(state, usize::from(heights.list)) + below),
        Pane::Tools => {
            let (rows, columns, first) =
                tools_shown((state.size.0, heights.list), state.cursors[0]);
            let line = below.checked_sub(2);
            let line = line.filter(|at| *at < usize::from(rows) && column < columns);
            line.map(|line| first + line)
        }
        Pane::Servers => {
            let (_, first) = servers_shown(heights.list, state.cursors[1]);
            below.checked_sub(2).map(|below| first + below / 3)
        }
        Pane::Messages | Pane::Timeline => None,
    };
    line.map_or(Hit::Nothing, Hit::Row)
}

/// Scrolls what is under the mouse, regardless of the keyboard focus.
fn scroll_wheel(state: &mut State, hit: &Hit, by: isize) {
    match (state.pane, hit) {
        (Pane::Tasks, Hit::Detail | Hit::Tab(_)) => {
            // The Now tab has nothing to scroll.
            if state.detail.tab != Tab::Now {
                scroll(state, by);
            }
        }
        (Pane::Tasks, _) => {
            select::move_by(state, by);
        }
        (Pane::Servers, _) => step(state, by.signum()),
        _ => step(state, by),
    }
}

/// A click selects what is under the mouse; a second one on the same row opens it.
fn press(state: &mut State, hit: &Hit) {
    match (state.pane, hit) {
        (Pane::Tasks, Hit::Row(line)) => {
            let Some(ListRow::Task(id)) = state.list.rows.get(*line).cloned() else {
                return;
            };
            if state.detail.focus == Focus::List && state.list.cursor.as_ref() == Some(&id) {
                return open(state);
            }
            state.detail.focus = Focus::List;
            select::move_to_task(state, &id);
        }
        (Pane::Tasks, Hit::Tab(tab)) => {
            state.detail.focus = Focus::Detail;
            show_tab(state, *tab);
        }
        (Pane::Tasks, Hit::Detail) => state.detail.focus = Focus::Detail,
        (pane @ (Pane::Tools | Pane::Servers), Hit::Row(line)) => {
            let count = pane_lines(state, pane);
            let cursor = match pane {
                Pane::Tools => &mut state.cursors[0],
                _ => &mut state.cursors[1],
            };
            if *line >= count {
                return;
            }
            if std::mem::replace(cursor, *line) == *line {
                open(state);
            }
        }
        _ => {}
    }
}
