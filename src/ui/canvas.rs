//! A clipped region of the frame: coordinates are relative to it, and text is cut at its edges.

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

/// A window clears the columns beside it if they are no wider than this.
const MAX_CLEARED_MARGIN: u16 = 5;

/// A region of the buffer with the theme to draw in.
pub(crate) struct Canvas<'b> {
    buffer: &'b mut Buffer,
    /// The screen rows of the focused item, which toasts avoid.
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

    /// A region of this canvas, clipped to it.
    pub(crate) fn region(&mut self, x: u16, y: u16, columns: u16, rows: u16) -> Canvas<'_> {
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

    /// Marks these rows as the focused item's, so that toasts don't cover them.
    pub(crate) fn keep_visible(&mut self, rows: Range<u16>) {
        let row = |y: u16| self.area.y.saturating_add(y).min(self.area.bottom());
        *self.cursor = row(rows.start)..row(rows.end);
    }

    /// The rows that toasts must not cover.
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

    /// Writes text cut to `columns` and returns the column after it.
    pub(crate) fn put_clipped(
        &mut self,
        x: u16,
        y: u16,
        columns: u16,
        text: &str,
        role: Role,
    ) -> u16 {
        if y >= self.area.height || x >= self.area.width {
            return x;
        }
        let available = columns.min(self.area.width - x);
        // All text passes here, so no control sequence reaches the terminal even if a caller forgot to clean it.
        let text = clean_line(text);
        let text = cut(&text, usize::from(available), self.glyphs().more);
        let style = self.theme.style(role);
        let (end, _) = self.buffer.set_stringn(
            self.area.x + x,
            self.area.y + y,
            &text,
            usize::from(available),
            style,
        );
        end.saturating_sub(self.area.x)
    }

    /// Writes text cut at the right edge and returns the column after it.
    pub(crate) fn put(&mut self, x: u16, y: u16, text: &str, role: Role) -> u16 {
        self.put_clipped(x, y, u16::MAX, text, role)
    }

    /// Writes text that ends before column `end` and returns its first column.
    pub(crate) fn put_right_aligned(&mut self, end: u16, y: u16, text: &str, role: Role) -> u16 {
        let wide = u16::try_from(width(text)).unwrap_or(u16::MAX);
        let x = end.min(self.area.width).saturating_sub(wide);
        self.put(x, y, text, role);
        x
    }

    /// Repeats a one-column glyph and returns the column after it.
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

    /// Applies the style of a role to part of a row.
    pub(crate) fn apply_style(&mut self, x: u16, y: u16, columns: u16, role: Role) {
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

    /// Highlights the matches of a search in these rows, from column `from` on. The rows are one wrapped line that
    /// contains a match. If the match is split by a row break or beyond the edge, the whole first row is highlighted.
    pub(crate) fn highlight_matches(&mut self, from: u16, rows: Range<u16>, search: &str) {
        let first = rows.start;
        let mut is_marked = false;
        for y in rows {
            is_marked |= self.highlight_row(from, y, search);
        }
        if !is_marked {
            self.apply_style(
                from,
                first,
                self.area.width.saturating_sub(from),
                Role::Found,
            );
        }
    }

    fn highlight_row(&mut self, from: u16, y: u16, search: &str) -> bool {
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
            let index = columns.partition_point(|(at, _)| *at < byte);
            columns.get(index).map_or(x, |(_, x)| *x)
        };
        let found = matches_in(&row, search);
        for (begin, end) in &found {
            let (begin, end) = (column(*begin), column(*end));
            self.apply_style(begin, y, end.saturating_sub(begin), Role::Found);
        }
        !found.is_empty()
    }

    /// Moves the rows `first..end` to the top and clears the rest up to `end`.
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

    /// The width of a window of at most `max` columns: the full width on a narrow screen, else with a margin.
    pub(crate) fn window_columns(&self, max: u16) -> u16 {
        if self.area.width < 70 {
            self.area.width.min(max)
        } else {
            self.area.width.saturating_sub(4).min(max)
        }
    }

    /// Resets all cells.
    pub(crate) fn clear(&mut self) {
        for position in self.area.positions() {
            if let Some(cell) = self.buffer.cell_mut(position) {
                cell.reset();
            }
        }
    }

    /// Draws a border and returns the region inside it.
    pub(crate) fn bordered(&mut self, role: Role) -> Canvas<'_> {
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
        self.region(1, 1, columns.saturating_sub(2), rows.saturating_sub(2))
    }

    /// Draws a centered, empty window with border and title, and returns the region inside it.
    pub(crate) fn window(&mut self, columns: u16, rows: u16, title: &str) -> Canvas<'_> {
        let columns = columns.min(self.area.width);
        let rows = rows.min(self.area.height);
        let x = (self.area.width - columns) / 2;
        let y = (self.area.height - rows) / 2;
        // Beside a window nearly as wide as the screen, the few visible columns are noise.
        for (from, wide) in [(0, x), (x + columns, self.area.width - x - columns)] {
            if wide <= MAX_CLEARED_MARGIN {
                self.region(from, y, wide, rows).clear();
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
        frame.bordered(Role::Focus);
        frame.put_clipped(
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

    /// Replaces all non-ASCII cells, for ASCII mode.
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
    fn sanitizes_text_that_a_pane_did_not() {
        let area = Rect::new(0, 0, 20, 1);
        let mut buffer = Buffer::empty(area);
        let mut cursor = 0..0;
        let mut canvas = Canvas::new(&mut buffer, &mut cursor, area, Look::default());
        canvas.put(0, 0, "a\u{1b}[2J\u{9b}\u{202e}\u{e0041}\tb", Role::Plain);
        let row: String = buffer.content().iter().map(Cell::symbol).collect();
        assert_eq!(row.trim_end(), "a\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd} b");
    }
}
