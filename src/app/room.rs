//! How the rows of the screen are shared out: plain numbers, so that moving by pages and drawing agree.

use super::{Pane, State};

/// The smallest screen that can be used.
pub const SMALLEST: (u16, u16) = (40, 10);
/// Rows of the detail pane, with its border, where there is need for more in the list.
const DETAIL: u16 = 10;
/// Below this many rows there is no room for list and detail at once.
const BOTH: u16 = 20;

/// Rows for each part of the screen, from top to bottom; 0 means that it is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
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

impl Room {
    /// Shares out `rows`.
    pub fn of(state: &State, (_, rows): (u16, u16)) -> Self {
        let header = 1;
        let banner = u16::from(state.away.is_some()) + u16::from(state.has_status_line());
        let leave = u16::from(rows >= 12);
        let mut room = Self {
            header,
            banner,
            attention: 1,
            footer: 1,
            leave,
            ..Self::default()
        };
        let left = rows.saturating_sub(header + banner + 2 + leave);
        match (state.pane, state.is_zoomed) {
            (Pane::Tasks, true) => room.detail = left,
            (Pane::Tasks, false) => {
                room.titles = 1;
                let left = left.saturating_sub(1);
                if rows < BOTH || state.cursor.is_none() {
                    room.list = left;
                } else {
                    let wanted = u16::try_from(state.lines.len()).unwrap_or(u16::MAX).max(5);
                    let least = if rows >= 32 { DETAIL + 2 } else { DETAIL - 1 };
                    let detail = left.saturating_sub(wanted).max(least);
                    room.detail = detail;
                    room.list = left.saturating_sub(detail);
                }
            }
            _ => room.list = left,
        }
        room
    }
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
