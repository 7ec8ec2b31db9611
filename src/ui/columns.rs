//! The positions of the list's columns: a pure function of the size.

use ratatui::layout::Constraint;

/// The position and width of a list column; a hidden column is 0 wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) x: u16,
    pub(crate) columns: u16,
}

/// The columns of the task list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) state: Column,
    pub(crate) id: Column,
    pub(crate) task: Column,
    pub(crate) server: Column,
    /// Who made an agent's call.
    pub(crate) from: Column,
    pub(crate) progress: Column,
    pub(crate) end: Column,
    pub(crate) time: Column,
    pub(crate) if_cut: Column,
}

/// Cursor, news mark, state glyph and a blank.
const LEAD: u16 = 4;
const STATE: u16 = 13;
const ID: u16 = 7;
const SERVER: u16 = 10;
const FROM: u16 = 17;
/// The least width with a FROM column.
const FROM_WIDTH: u16 = 120;
const END: u16 = 10;
const TIME: u16 = 7;
const IF_CUT: u16 = 9;

impl Columns {
    /// Distributes the screen's columns; the widest server name takes `server_name`. FROM is shown once agents have made
    /// calls. As the screen narrows, columns are hidden in this order: FROM, ID, TIME, SERVER, END and STATE (its glyph
    /// stays). TASK, PROGRESS and IF CUT always stay.
    pub(crate) fn of(columns: u16, server_name: u16, has_callers: bool) -> Self {
        let fixed = [ID, TIME, SERVER];
        let (task_least, progress_least) = (20, 28);
        let mut shown = fixed.len();
        let needs = |shown: usize| {
            let sum: u16 = fixed.iter().rev().take(shown).sum();
            LEAD + STATE + END + IF_CUT + sum + task_least + progress_least
        };
        while shown > 0 && needs(shown) > columns {
            shown -= 1;
        }
        let width = |rank: usize, columns: u16| if shown > rank { columns } else { 0 };
        let (time, id) = (width(1, TIME), width(2, ID));
        let state = if columns >= 58 { STATE } else { 0 };
        let end = if columns >= 70 { END } else { 0 };
        let flexible = columns.saturating_sub(LEAD + state + id + end + time + IF_CUT);
        // As wide as its names and a blank, if the other columns keep their minimum.
        let most = flexible.saturating_sub(task_least + progress_least);
        let most = most.min(columns / 6).max(SERVER);
        let server = width(0, server_name.saturating_add(1).clamp(SERVER, most));
        let from = if has_callers && columns >= FROM_WIDTH {
            FROM
        } else {
            0
        };
        let flexible = flexible.saturating_sub(server + from);
        let task = if columns < 80 {
            flexible * 52 / 100
        } else {
            (flexible * 40 / 100).clamp(20, 60)
        };
        let mut x = LEAD;
        let mut next_column = |columns: u16| {
            let column = Column { x, columns };
            x += columns;
            column
        };
        Self {
            state: next_column(state),
            id: next_column(id),
            task: next_column(task),
            server: next_column(server),
            from: next_column(from),
            progress: next_column(flexible.saturating_sub(task)),
            end: next_column(end),
            time: next_column(time),
            // The blank that ends a column is off the screen for the last one.
            if_cut: next_column(IF_CUT + 1),
        }
    }

    /// How many there are, with the signs before the first one.
    pub(crate) const COUNT: u16 = 10;

    /// The widths from left to right, with the signs before the first column.
    pub(crate) fn widths(&self) -> [Constraint; Self::COUNT as usize] {
        let fixed = |column: Column| Constraint::Length(column.columns);
        [
            Constraint::Length(LEAD),
            fixed(self.state),
            fixed(self.id),
            fixed(self.task),
            fixed(self.server),
            fixed(self.from),
            fixed(self.progress),
            fixed(self.end),
            fixed(self.time),
            Constraint::Fill(1),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hide_in_order_and_never_overlap() {
        let mut before = 10;
        for columns in (0..=300).rev() {
            let shared = Columns::of(columns, 40, true);
            let all = [
                shared.state,
                shared.id,
                shared.task,
                shared.server,
                shared.from,
                shared.progress,
                shared.end,
                shared.time,
                shared.if_cut,
            ];
            for pair in all.windows(2) {
                assert!(pair[0].x + pair[0].columns <= pair[1].x);
            }
            let shown = all.iter().filter(|column| column.columns > 0).count();
            assert!(
                shown <= before,
                "{columns} columns show more than {}",
                columns + 1
            );
            before = shown;
        }
        let narrow = Columns::of(80, 9, true);
        assert!(narrow.id.columns == 0 && narrow.if_cut.columns > 0 && narrow.end.columns > 0);
        assert!(Columns::of(120, 9, true).id.columns > 0);
    }

    #[test]
    fn gives_server_names_room_in_proportion() {
        for (columns, name, wide) in [
            (100, 30, 16),
            (120, 4, 10),
            (120, 15, 16),
            (120, 90, 20),
            (200, 30, 31),
            (200, 90, 33),
            (80, 30, 0),
        ] {
            let shared = Columns::of(columns, name, false);
            assert_eq!(shared.server.columns, wide, "{columns} {name}");
            assert!(shared.task.columns >= 19 && shared.progress.columns >= 20);
        }
    }

    #[test]
    fn shows_progress_rather_than_state_words_at_40_columns() {
        for columns in 40..58 {
            let shared = Columns::of(columns, 9, true);
            assert_eq!(shared.state.columns, 0);
            assert!(shared.progress.columns >= 12 && shared.task.columns >= 14);
        }
    }
}
