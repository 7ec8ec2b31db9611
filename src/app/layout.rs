//! The layout of the screen in plain numbers, shared by navigation and drawing.

use core::ops::Range;

use crate::domain::text;

use super::{Pane, State, Tab};

/// The smallest screen that can be used.
pub const SMALLEST: (u16, u16) = (40, 10);

/// Whether the screen can be used at a size.
pub fn is_large_enough((columns, rows): (u16, u16)) -> bool {
    columns >= SMALLEST.0 && rows >= SMALLEST.1
}

/// Rows of the detail pane, including its border, when the list needs the rest.
const DETAIL: u16 = 10;
/// Screens with fewer rows than this show either the list or the detail pane.
const BOTH: u16 = 20;

/// The height of each part of the screen, from top to bottom; 0 if it is hidden.
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
    /// The attention line.
    pub attention: u16,
    /// The footer with the keys.
    pub footer: u16,
    /// The line with the impact of quitting.
    pub quit: u16,
}

impl PaneHeights {
    /// Computes the heights for a screen size.
    pub fn of(state: &State, (_, rows): (u16, u16)) -> Self {
        let header = 1;
        let banner = u16::from(state.away.is_some()) + u16::from(state.has_status_line());
        let quit = u16::from(rows >= 12);
        let mut heights = Self {
            header,
            banner,
            attention: 1,
            footer: 1,
            quit,
            ..Self::default()
        };
        let left = rows.saturating_sub(header + banner + 2 + quit);
        match (state.pane, state.detail.is_zoomed) {
            (Pane::Tasks, true) => heights.detail = left,
            (Pane::Tasks, false) => {
                heights.titles = 1;
                let left = left.saturating_sub(1);
                if rows < BOTH || state.list.cursor.is_none() {
                    heights.list = left;
                } else {
                    let wanted = u16::try_from(state.list.rows.len())
                        .unwrap_or(u16::MAX)
                        .max(5);
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

/// The margin on each side of the detail pane: one column on a wide screen, to align with the list.
pub fn detail_margin(columns: u16) -> u16 {
    u16::from(columns >= 100)
}

/// The tabs of the detail pane: their columns in its first row, and their labels.
pub fn tabs(state: &State, columns: u16) -> Vec<(Tab, Range<u16>, String)> {
    let id = state.list.cursor.as_ref().map_or("", |id| id.as_str());
    // The id is surrounded by a border column and spaces.
    let wide = |label: &str| u16::try_from(text::width(label)).unwrap_or(u16::MAX);
    let mut x = wide(id).saturating_add(5);
    let is_shown = |tab: &Tab| columns >= 64 || *tab == state.detail.tab;
    let mut tabs = Vec::new();
    for tab in Tab::ALL.iter().copied().filter(is_shown) {
        let label = if tab == state.detail.tab {
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

/// The tab at this column of the screen.
pub(super) fn tab_at(state: &State, column: u16) -> Option<Tab> {
    let margin = detail_margin(state.size.0);
    let column = column.checked_sub(margin)?;
    let tabs = tabs(state, state.size.0.saturating_sub(2 * margin));
    let found = tabs
        .into_iter()
        .find(|(_, columns, _)| columns.contains(&column));
    found.map(|(tab, ..)| tab)
}

/// The rows and columns of the list in the tools pane, and the index of its first tool.
pub fn tools_shown((columns, rows): (u16, u16), cursor: usize) -> (u16, u16, usize) {
    // The description of the selected tool is beside the list, or below it on a narrow screen.
    let (rows, columns) = if columns >= 90 {
        (rows.saturating_sub(2), columns * 2 / 5)
    } else {
        (rows.saturating_sub(2) / 2, columns)
    };
    let first = (cursor + 1).saturating_sub(usize::from(rows).max(1));
    (rows, columns, first)
}

/// How many servers fit in the pane at three rows each, and the index of the first one.
pub fn servers_shown(rows: u16, cursor: usize) -> (usize, usize) {
    let fitting = usize::from(rows.saturating_sub(2) / 3).max(1);
    (fitting, (cursor + 1).saturating_sub(fitting))
}

/// The first of `count` lines to show in `rows`, so that `cursor` is visible with as little scrolling as possible.
pub(super) fn window(top: usize, cursor: usize, rows: usize, count: usize) -> usize {
    if rows == 0 || count <= rows {
        return 0;
    }
    let top = top.min(count - rows);
    // One line of context above the cursor, so that a heading is visible with its first row.
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
        fn cursor_is_always_inside_the_window(top in 0_usize..500, cursor in 0_usize..300, rows in 1_usize..60) {
            let count = 300;
            let first = window(top, cursor, rows, count);
            prop_assert!(first <= cursor && cursor < first + rows && first + rows <= count);
        }
    }
}
