//! How the rows of the screen are shared out: plain numbers, so that moving by pages and drawing agree.

use core::ops::Range;

use crate::domain::text;

use super::{Pane, State, Tab};

/// The smallest screen that can be used.
pub const SMALLEST: (u16, u16) = (40, 10);
/// Rows of the detail pane, with its border, where there is need for more in the list.
const DETAIL: u16 = 10;
/// Below this many rows there is no room for list and detail at once.
const BOTH: u16 = 20;

/// Rows for each part of the screen, from top to bottom; 0 means that it is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaneHeights {
    /// Servers, counts, clock.
    pub header: u16,
    /// Offline line and welcome-back banner.
    pub banner: u16,
    /// Column titles.
    pub titles: u16,
    /// List, or another pane.
    pub list: u16,
    /// Detail pane with its border.
    pub detail: u16,
    /// The one thing that wants attention, or the answer to a key.
    pub attention: u16,
    /// The keys that work here.
    pub footer: u16,
    /// What leaving would do.
    pub leave: u16,
}

impl PaneHeights {
    /// Shares out `rows`.
    pub fn of(state: &State, (_, rows): (u16, u16)) -> Self {
        let header = 1;
        let banner = u16::from(state.away.is_some()) + u16::from(state.has_status_line());
        let leave = u16::from(rows >= 12);
        let mut heights = Self {
            header,
            banner,
            attention: 1,
            footer: 1,
            leave,
            ..Self::default()
        };
        let left = rows.saturating_sub(header + banner + 2 + leave);
        match (state.pane, state.is_zoomed) {
            (Pane::Tasks, true) => heights.detail = left,
            (Pane::Tasks, false) => {
                heights.titles = 1;
                let left = left.saturating_sub(1);
                if rows < BOTH || state.cursor.is_none() {
                    heights.list = left;
                } else {
                    let wanted = u16::try_from(state.lines.len()).unwrap_or(u16::MAX).max(5);
                    let least = if rows >= 32 { DETAIL + 2 } else { DETAIL - 1 };
                    let detail = left.saturating_sub(wanted).max(least);
                    heights.detail = detail;
                    heights.list = left.saturating_sub(detail);
                }
            }
            _ => heights.list = left,
        }
        heights
    }
}

/// Columns left free on each side of the detail pane: on a wide screen its frame stands one column in, as the list does.
pub fn detail_margin(columns: u16) -> u16 {
    u16::from(columns >= 100)
}

/// Where the tabs of the detail pane stand in its first row, by the columns of the pane, and what they say.
pub fn tabs(state: &State, columns: u16) -> Vec<(Tab, Range<u16>, String)> {
    let id = state.cursor.as_ref().map_or("", |id| id.as_str());
    // The id between two blanks, a line and a blank.
    let wide = |label: &str| u16::try_from(text::width(label)).unwrap_or(u16::MAX);
    let mut x = wide(id).saturating_add(5);
    let is_shown = |tab: &Tab| columns >= 64 || *tab == state.tab;
    let mut tabs = Vec::new();
    for tab in Tab::ALL.into_iter().filter(is_shown) {
        let label = if tab == state.tab {
            format!("[{}]", tab.label())
        } else {
            tab.label().to_owned()
        };
        let end = x.saturating_add(wide(&label));
        tabs.push((tab, x..end, label));
        x = end.saturating_add(1);
    }
    tabs
}

/// The tab whose title stands in this column of the screen.
pub(super) fn tab_at(state: &State, column: u16) -> Option<Tab> {
    let margin = detail_margin(state.size.0);
    let column = column.checked_sub(margin)?;
    let tabs = tabs(state, state.size.0.saturating_sub(2 * margin));
    let found = tabs
        .into_iter()
        .find(|(_, columns, _)| columns.contains(&column));
    found.map(|(tab, ..)| tab)
}

/// Rows and columns of the list in the pane of tools, and the first tool shown.
pub fn tools_shown((columns, rows): (u16, u16), cursor: usize) -> (u16, u16, usize) {
    // Beside what is said of the chosen one, or above it.
    let (rows, columns) = if columns >= 90 {
        (rows.saturating_sub(2), columns * 2 / 5)
    } else {
        (rows.saturating_sub(2) / 2, columns)
    };
    let first = (cursor + 1).saturating_sub(usize::from(rows).max(1));
    (rows, columns, first)
}

/// How many servers fit into their pane, three rows each, and the first one shown.
pub fn servers_shown(rows: u16, cursor: usize) -> (usize, usize) {
    let fitting = usize::from(rows.saturating_sub(2) / 3).max(1);
    (fitting, (cursor + 1).saturating_sub(fitting))
}

/// The first line to show, so that `cursor` is inside `rows` of `count` lines and as little as possible moves.
pub(super) fn window(top: usize, cursor: usize, rows: usize, count: usize) -> usize {
    if rows == 0 || count <= rows {
        return 0;
    }
    let top = top.min(count - rows);
    // One line of context above, so that a heading is seen with its first row.
    let context = usize::from(rows >= 3);
    let highest = cursor.saturating_sub(context);
    let lowest = (cursor + 1).saturating_sub(rows);
    top.clamp(lowest, highest).min(count - rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_cursor_is_always_inside_the_window(top in 0_usize..500, cursor in 0_usize..300, rows in 1_usize..60) {
            let count = 300;
            let first = window(top, cursor, rows, count);
            prop_assert!(first <= cursor && cursor < first + rows && first + rows <= count);
        }
    }
}
