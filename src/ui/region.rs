//! A part of the frame to draw in: coordinates are relative to it, and text is cut at its edges.

use core::ops::Range;
use std::borrow::Cow;

use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Rect},
    style::Style,
    text::Line,
    widgets::{
        Block, Clear, HighlightSpacing, List, ListState, Padding, Paragraph, Row, StatefulWidget,
        Table, TableState, Widget,
    },
};

use super::spans::fit;
use crate::{
    domain::text::{cells, grouped, width},
    ui::{Role, Theme},
};

/// A window clears the columns beside it if they are no wider than this.
const MAX_CLEARED_MARGIN: u16 = 5;

/// A part of the frame with the theme to draw in.
pub(crate) struct Region<'b> {
    buffer: &'b mut Buffer,
    /// The screen rows of the focused item, which toasts avoid.
    cursor: &'b mut Range<u16>,
    area: Rect,
    /// How it looks.
    pub(crate) theme: Theme,
}

impl<'b> Region<'b> {
    pub(crate) fn new(
        buffer: &'b mut Buffer,
        cursor: &'b mut Range<u16>,
        area: Rect,
        theme: Theme,
    ) -> Self {
        let area = area.intersection(*buffer.area());
        Self {
            buffer,
            cursor,
            area,
            theme,
        }
    }

    /// A part of this region, clipped to it.
    pub(crate) fn region(&mut self, x: u16, y: u16, columns: u16, rows: u16) -> Region<'_> {
        let x = self.area.x.saturating_add(x);
        let y = self.area.y.saturating_add(y);
        let area = Rect::new(x, y, columns, rows).intersection(self.area);
        self.at(area)
    }

    /// The region of an absolute area.
    pub(crate) fn at(&mut self, area: Rect) -> Region<'_> {
        Region::new(self.buffer, self.cursor, area, self.theme)
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

    /// Draws a widget that fills the region.
    pub(crate) fn render(&mut self, widget: impl Widget) {
        widget.render(self.area, self.buffer);
    }

    /// Draws a line cut at the right edge, and returns the column after it.
    pub(crate) fn put<'t>(&mut self, x: u16, y: u16, line: impl Into<Line<'t>>) -> u16 {
        if y >= self.area.height || x >= self.area.width {
            return x;
        }
        let available = self.area.width - x;
        let line = fit(line.into(), usize::from(available), self.theme.glyphs.more);
        let (x, y) = (self.area.x + x, self.area.y + y);
        let (end, _) = self.buffer.set_line(x, y, &line, available);
        end - self.area.x
    }

    /// Draws a line that ends before column `end`, and returns its first column.
    pub(crate) fn put_right<'t>(&mut self, end: u16, y: u16, line: impl Into<Line<'t>>) -> u16 {
        let line = line.into();
        let wide: usize = line.spans.iter().map(|span| width(&span.content)).sum();
        let wide = u16::try_from(wide).unwrap_or(u16::MAX);
        let x = end.min(self.area.width).saturating_sub(wide);
        self.put(x, y, line);
        x
    }

    /// Draws a dim note at the right end of a row, and returns its first column.
    pub(crate) fn put_note<'t>(&mut self, y: u16, note: impl Into<Cow<'t, str>>) -> u16 {
        let note = self.theme.span(note, Role::Dim);
        let x = self.put_right(self.area.width, y, note);
        let cell = (self.area.x + x.saturating_sub(1), self.area.y + y);
        // The note covers the end of a long line.
        if x > 0 && self.buffer.cell(cell).is_some_and(|it| it.symbol() != " ") {
            let cut = self.theme.span(self.theme.glyphs.more, Role::Dim);
            self.put(x - 1, y, cut);
        }
        x
    }

    /// Notes in the last row how many lines follow.
    pub(crate) fn put_more_below(&mut self, below: usize) {
        if self.area.height > 0 && below > 0 {
            let y = self.area.height - 1;
            let more = format!(" {} more {}", grouped(below), self.theme.glyphs.arrows[1]);
            self.put_note(y, more);
        }
    }

    /// Draws lines from row `y` on, each cut at the right edge, and returns the row after them.
    pub(crate) fn put_lines<'t, L: Into<Line<'t>>>(
        &mut self,
        x: u16,
        y: u16,
        lines: impl IntoIterator<Item = L>,
    ) -> u16 {
        let (columns, rows) = (
            self.area.width.saturating_sub(x),
            self.area.height.saturating_sub(y),
        );
        let more = self.theme.glyphs.more;
        let lines = lines.into_iter().take(usize::from(rows));
        let lines: Vec<Line<'t>> = lines
            .map(|line| fit(line.into(), usize::from(columns), more))
            .collect();
        let count = u16::try_from(lines.len()).unwrap_or(rows);
        self.region(x, y, columns, count)
            .render(Paragraph::new(lines));
        y.saturating_add(count)
    }

    /// Like [`Self::put_lines`], for lines of text in one role.
    pub(crate) fn put_text<'t, T: Into<Cow<'t, str>>>(
        &mut self,
        x: u16,
        y: u16,
        lines: impl IntoIterator<Item = T>,
        role: Role,
    ) -> u16 {
        let theme = self.theme;
        let lines = lines.into_iter().map(|line| theme.span(line, role));
        self.put_lines(x, y, lines)
    }

    /// Draws a table of the rows in view, without blanks between its columns; the selected row is highlighted.
    pub(crate) fn put_rows<'t>(
        &mut self,
        rows: impl IntoIterator<Item = Row<'t>>,
        widths: impl IntoIterator<Item = Constraint>,
        selected: Option<usize>,
    ) {
        let table = Table::new(rows, widths)
            .column_spacing(0)
            .row_highlight_style(self.theme.style(Role::Selected));
        let mut state = TableState::new().with_selected(selected);
        StatefulWidget::render(table, self.area, self.buffer, &mut state);
    }

    /// Draws the choices in view, one per row; the selected one is marked with the cursor and highlighted.
    pub(crate) fn put_choices<'t>(
        &mut self,
        choices: impl IntoIterator<Item = Line<'t>>,
        selected: Option<usize>,
    ) {
        let theme = self.theme;
        let columns = usize::from(self.area.width.saturating_sub(2));
        let fitted = choices
            .into_iter()
            .map(|line| fit(line, columns, theme.glyphs.more));
        let selected_style = theme.style(Role::Selected);
        let cursor = theme.span(format!("{} ", theme.glyphs.cursor), Role::Focus);
        let list = List::new(fitted)
            .highlight_symbol(Line::from(cursor.patch_style(selected_style)))
            .highlight_spacing(HighlightSpacing::Always)
            .highlight_style(selected_style);
        let mut state = ListState::default().with_selected(selected);
        StatefulWidget::render(list, self.area, self.buffer, &mut state);
        if let Some(row) = selected.and_then(|row| u16::try_from(row).ok()) {
            self.keep_visible(row..row + 1);
        }
    }

    /// Applies a style to part of a row.
    pub(crate) fn set_style(&mut self, x: u16, y: u16, columns: u16, style: Style) {
        let area = self.region(x, y, columns, 1).area;
        self.buffer.set_style(area, style);
    }

    /// The width of a window of at most `max` columns: the full width on a narrow screen, else with a margin.
    pub(crate) fn window_columns(&self, max: u16) -> u16 {
        if self.area.width < 70 {
            self.area.width.min(max)
        } else {
            self.area.width.saturating_sub(4).min(max)
        }
    }

    /// A border in a role.
    pub(crate) fn block(&self, role: Role) -> Block<'static> {
        Block::bordered()
            .border_set(self.theme.glyphs.frame)
            .border_style(self.theme.style(role))
    }

    /// Draws a centered, empty window with border and title, and returns the region inside it.
    pub(crate) fn window(&mut self, columns: u16, rows: u16, title: &str) -> Region<'_> {
        let area = self.area;
        let (columns, rows) = (columns.min(area.width), rows.min(area.height));
        let x = (area.width - columns) / 2;
        let y = (area.height - rows) / 2;
        // Beside a window nearly as wide as the screen, the few visible columns are noise.
        for (from, wide) in [(0, x), (x + columns, area.width - x - columns)] {
            if wide <= MAX_CLEARED_MARGIN {
                self.region(from, y, wide, rows).render(Clear);
            }
        }
        let available = usize::from(columns.saturating_sub(4));
        let title = self.theme.span(format!(" {title} "), Role::Focus);
        let line = self.theme.span(self.theme.glyphs.line, Role::Focus);
        let title = fit(title.into(), available, self.theme.glyphs.more);
        let spans = [vec![line], title.spans].concat();
        let block = self
            .block(Role::Focus)
            .title(Line::from(spans))
            .padding(Padding::horizontal(1));
        let mut window = self.region(x, y, columns, rows);
        let inside = block.inner(window.area);
        window.render(Clear);
        window.render(block);
        self.at(inside)
    }

    /// Gives each part of a grapheme the cell in which the terminal draws it. Otherwise ratatui, which keeps the whole
    /// grapheme in its first cell, would not erase the others.
    pub(crate) fn split_graphemes(&mut self) {
        let has_parts = |symbol: &str| symbol.len() > 2 && symbol.chars().nth(1).is_some();
        let places = self.buffer.content.iter().enumerate();
        let places = places.filter(|(_, cell)| has_parts(cell.symbol()));
        let places: Vec<(u16, u16)> = places.map(|(index, _)| self.buffer.pos_of(index)).collect();
        for (mut x, y) in places {
            let Some(whole) = self.buffer.cell((x, y)).cloned() else {
                continue;
            };
            for (part, columns) in cells(whole.symbol()) {
                if x < self.area.right()
                    && let Some(cell) = self.buffer.cell_mut((x, y))
                {
                    *cell = whole.clone();
                    cell.set_symbol(part);
                }
                x = x.saturating_add(u16::try_from(columns).unwrap_or(u16::MAX));
            }
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
