//! Whether a dialog fits on the screen.

use crate::{app::State, domain::text};

/// Whether a dialog with these lines fits on the screen, by a conservative estimate of how they wrap.
pub(super) fn fits(state: &State, lines: &[String]) -> bool {
    let (columns, rows) = state.size;
    let width = usize::from(columns.min(80)).saturating_sub(10).max(1);
    let taken = lines.iter().map(|line| {
        let columns = text::width(&text::clean_line(line));
        if columns <= width {
            1
        } else {
            1 + columns.div_ceil(width.div_ceil(2))
        }
    });
    // The other rows: two lines of our own text, the items, the frame, and the header and footer of the screen.
    taken.sum::<usize>() + 12 <= usize::from(rows)
}
