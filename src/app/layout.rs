//! The layout of the screen in plain numbers, shared by navigation and drawing.

use super::{Pane, State};

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
