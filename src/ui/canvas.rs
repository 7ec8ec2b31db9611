//! A clipped part of the frame to write on: coordinates are relative, and what does not fit is cut.

use core::ops::Range;

use ratatui::{
    buffer::Buffer,
    layout::{Position, Rect},
};

use crate::{
    app::{Look, matches_in},
    domain::text::{clean_line, cut, width},
};

use super::{
    glyphs::Glyphs,
    theme::{Role, Theme},
};

/// A stretch beside a window that is no wider than this is emptied.
const MARGIN: u16 = 5;

/// Where to draw and with what.
pub(crate) struct Canvas<'b> {
    buffer: &'b mut Buffer,
    /// The rows of the screen that the cursor is in, as the panes tell.
    cursor: &'b mut Range<u16>,
    area: Rect,
    look: Look,
    theme: Theme,
}

impl<'b> Canvas<'b> {
    pub(crate) fn new(
        buffer: &'b mut Buffer,
        cursor: &'b mut Range<u16>,
        area: Rect,
        look: Look,
    ) -> Self {
        let area = area.intersection(*buffer.area());
        Self {
            buffer,
            cursor,
            area,
            look,
            theme: Theme::of(look),
        }
    }

    /// A part of this canvas; what lies outside is cut off.
    pub(crate) fn part(&mut self, x: u16, y: u16, columns: u16, rows: u16) -> Canvas<'_> {
        let x = self.area.x.saturating_add(x).min(self.area.right());
        let y = self.area.y.saturating_add(y).min(self.area.bottom());
        let area = Rect {
            x,
            y,
            width: columns.min(self.area.right() - x),
            height: rows.min(self.area.bottom() - y),
        };
        Canvas {
            buffer: self.buffer,
            cursor: self.cursor,
            area,
            look: self.look,
            theme: self.theme,
        }
    }

    /// Tells that the cursor of what has the focus is in these rows, which no message may cover.
    pub(crate) fn keep_in_sight(&mut self, rows: Range<u16>) {
        let row = |y: u16| self.area.y.saturating_add(y).min(self.area.bottom());
        *self.cursor = row(rows.start)..row(rows.end);
    }

    /// The rows of this canvas that are to be kept in sight.
    pub(crate) fn cursor_rows(&self) -> Range<u16> {
        let row = |y: u16| y.saturating_sub(self.area.y);
        row(self.cursor.start)..row(self.cursor.end)
    }

    pub(crate) fn columns(&self) -> u16 {
        self.area.width
    }

    pub(crate) fn rows(&self) -> u16 {
        self.area.height
    }

    pub(crate) fn glyphs(&self) -> &'static Glyphs {
        Glyphs::of(self.look)
    }

    /// Writes text at a place, cut to `columns`, and returns the column after it.
    pub(crate) fn put_in(&mut self, x: u16, y: u16, columns: u16, text: &str, role: Role) -> u16 {
        if y >= self.area.height || x >= self.area.width {
            return x;
        }
        let room = columns.min(self.area.width - x);
        // The one gate to the cells: whatever a caller forgot, nothing steers the terminal from here.
        let text = clean_line(text);
        let text = cut(&text, usize::from(room), self.glyphs().more);
        let style = self.theme.style(role);
        let (end, _) = self.buffer.set_stringn(
            self.area.x + x,
            self.area.y + y,
            &text,
            usize::from(room),
            style,
        );
        end.saturating_sub(self.area.x)
    }

    /// Writes text at a place, cut at the right edge, and returns the column after it.
    pub(crate) fn put(&mut self, x: u16, y: u16, text: &str, role: Role) -> u16 {
        self.put_in(x, y, u16::MAX, text, role)
    }

    /// Writes text that ends at column `end`, exclusive.
    pub(crate) fn put_before(&mut self, end: u16, y: u16, text: &str, role: Role) -> u16 {
        let wide = u16::try_from(width(text)).unwrap_or(u16::MAX);
        let x = end.min(self.area.width).saturating_sub(wide);
        self.put(x, y, text, role);
        x
    }

    /// Repeats a one-column sign.
    pub(crate) fn repeat(&mut self, x: u16, y: u16, count: u16, sign: &str, role: Role) -> u16 {
        let style = self.theme.style(role);
        let end = x.saturating_add(count).min(self.area.width);
        if y < self.area.height {
            for column in x..end {
                let at = Position::new(self.area.x + column, self.area.y + y);
                if let Some(cell) = self.buffer.cell_mut(at) {
                    cell.set_symbol(sign).set_style(style);
                }
            }
        }
        end.max(x)
    }

    /// Lays the style of a role over a stretch of a row.
    pub(crate) fn lay(&mut self, x: u16, y: u16, columns: u16, role: Role) {
        if y < self.area.height && x < self.area.width {
            let area = Rect {
                x: self.area.x + x,
                y: self.area.y + y,
                width: columns.min(self.area.width - x),
                height: 1,
            };
            self.buffer.set_style(area, self.theme.style(role));
        }
    }

    /// Marks what a search finds in these rows from column `from` on. They are one line in which it finds something: what
    /// is broken by the end of a row, or lies beyond the edge, is marked as the whole first row.
    pub(crate) fn mark_found(&mut self, from: u16, rows: Range<u16>, search: &str) {
        let first = rows.start;
        let mut is_marked = false;
        for y in rows {
            is_marked |= self.mark_row(from, y, search);
        }
        if !is_marked {
            self.lay(
                from,
                first,
                self.area.width.saturating_sub(from),
                Role::Found,
            );
        }
    }

    fn mark_row(&mut self, from: u16, y: u16, search: &str) -> bool {
        let mut row = String::new();
        let mut columns = Vec::new();
        let mut x = from;
        while x < self.area.width && y < self.area.height {
            let at = Position::new(self.area.x + x, self.area.y + y);
            let sign = self.buffer.cell(at).map_or(" ", |cell| cell.symbol());
            let wide = u16::try_from(width(sign)).unwrap_or(1).max(1);
            columns.push((row.len(), x));
            row.push_str(sign);
            x = x.saturating_add(wide);
        }
        columns.push((row.len(), x));
        let column = |byte: usize| {
            let place = columns.partition_point(|(at, _)| *at < byte);
            columns.get(place).map_or(x, |(_, x)| *x)
        };
        let found = matches_in(&row, search);
        for (begin, end) in &found {
            let (begin, end) = (column(*begin), column(*end));
            self.lay(begin, y, end.saturating_sub(begin), Role::Found);
        }
        !found.is_empty()
    }

    /// Moves the rows from `first` to `end`, exclusive, to the top and empties what they leave.
    pub(crate) fn scroll_up(&mut self, first: u16, end: u16) {
        let end = end.min(self.area.height);
        for y in 0..end {
            for x in 0..self.area.width {
                let from = Position::new(self.area.x + x, self.area.y + y.saturating_add(first));
                let moved = if y.saturating_add(first) < end {
                    self.buffer.cell(from).cloned().unwrap_or_default()
                } else {
                    ratatui::buffer::Cell::default()
                };
                let to = Position::new(self.area.x + x, self.area.y + y);
                if let Some(cell) = self.buffer.cell_mut(to) {
                    *cell = moved;
                }
            }
        }
    }

    /// The columns that a wide window takes: on a narrow screen all of them.
    pub(crate) fn window_columns(&self, most: u16) -> u16 {
        if self.area.width < 70 {
            self.area.width.min(most)
        } else {
            self.area.width.saturating_sub(4).min(most)
        }
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        for position in self.area.positions() {
            if let Some(cell) = self.buffer.cell_mut(position) {
                cell.reset();
            }
        }
    }

    /// Draws a frame around it and returns what is inside.
    pub(crate) fn framed(&mut self, role: Role) -> Canvas<'_> {
        let [side, top_left, top_right, bottom_left, bottom_right] = self.glyphs().frame;
        let line = self.glyphs().line;
        let (columns, rows) = (self.area.width, self.area.height);
        if columns >= 2 && rows >= 2 {
            let (last_x, last_y) = (columns - 1, rows - 1);
            for (y, left, right) in [
                (0, top_left, top_right),
                (last_y, bottom_left, bottom_right),
            ] {
                self.put(0, y, left, role);
                self.repeat(1, y, columns - 2, line, role);
                self.put(last_x, y, right, role);
            }
            for y in 1..last_y {
                self.put(0, y, side, role);
                self.put(last_x, y, side, role);
            }
        }
        self.part(1, 1, columns.saturating_sub(2), rows.saturating_sub(2))
    }

    /// A canvas of this size in the middle, empty and framed; returns what is inside.
    pub(crate) fn window(&mut self, columns: u16, rows: u16, title: &str) -> Canvas<'_> {
        let columns = columns.min(self.area.width);
        let rows = rows.min(self.area.height);
        let x = (self.area.width - columns) / 2;
        let y = (self.area.height - rows) / 2;
        // What peeps out beside a window that is nearly as wide as the screen is noise.
        for (from, wide) in [(0, x), (x + columns, self.area.width - x - columns)] {
            if wide <= MARGIN {
                self.part(from, y, wide, rows).clear();
            }
        }
        let area = Rect {
            x: self.area.x + x,
            y: self.area.y + y,
            width: columns,
            height: rows,
        };
        let mut frame = Canvas {
            buffer: self.buffer,
            cursor: self.cursor,
            area,
            look: self.look,
            theme: self.theme,
        };
        frame.clear();
        frame.framed(Role::Focus);
        frame.put_in(
            2,
            0,
            columns.saturating_sub(4),
            &format!(" {title} "),
            Role::Focus,
        );
        let inside = Rect {
            x: area.x.saturating_add(2).min(area.right()),
            y: area.y.saturating_add(1).min(area.bottom()),
            width: area.width.saturating_sub(4),
            height: area.height.saturating_sub(2),
        };
        Canvas {
            buffer: frame.buffer,
            cursor: frame.cursor,
            area: inside,
            look: frame.look,
            theme: frame.theme,
        }
    }

    /// Replaces what is not ASCII on the whole canvas; in ASCII mode nothing else may reach the terminal.
    pub(crate) fn force_ascii(&mut self) {
        for position in self.area.positions() {
            if let Some(cell) = self.buffer.cell_mut(position)
                && !cell.symbol().is_ascii()
            {
                let replacement = if cell.symbol() == "…" { "~" } else { "?" };
                cell.set_symbol(replacement);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Cell;

    use super::*;

    #[test]
    fn whatever_a_pane_forgot_to_clean_is_cleaned_here() {
        let area = Rect::new(0, 0, 20, 1);
        let mut buffer = Buffer::empty(area);
        let mut cursor = 0..0;
        let mut canvas = Canvas::new(&mut buffer, &mut cursor, area, Look::default());
        canvas.put(0, 0, "a\u{1b}[2J\u{9b}\u{202e}\u{e0041}\tb", Role::Plain);
        let row: String = buffer.content().iter().map(Cell::symbol).collect();
        assert_eq!(row.trim_end(), "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd} b");
    }
}
