//! Text in the detail pane: foldable results and plain lines, with search matches highlighted.

use ratatui::text::{Line, Span};

use super::super::spans::{fit, highlight, plain, slice};
use crate::{
    app::{Document, DocumentLine, Focus, LineKind, Search, State, TaskRow},
    domain::text,
    ui::{Region, Role, wrap::wrap},
};

/// The columns before foldable text: cursor, fold marker and a blank.
const GUTTER: u16 = 3;

/// How the text of a tab is shown.
#[derive(Clone, Copy)]
pub(super) struct TextStyle<'s> {
    pub(super) is_wrapping: bool,
    pub(super) search: Option<&'s Search>,
}

impl<'s> TextStyle<'s> {
    pub(super) fn of(state: &'s State) -> Self {
        Self {
            is_wrapping: state.detail.text.is_wrapping,
            search: state.detail.search.as_ref(),
        }
    }

    /// How many lines a page of that many rows has at least.
    pub(super) fn page(self, rows: u16) -> usize {
        if self.is_wrapping { 1 } else { rows.into() }
    }
}

/// Draws a result document. Formats only the visible lines.
pub(super) fn document(
    region: &mut Region<'_>,
    state: &State,
    task_row: &TaskRow,
    document: &Document,
) {
    let (columns, rows) = (region.columns(), region.rows());
    let style = TextStyle::of(state);
    let theme = region.theme;
    let gutter = if document.is_navigable() { GUTTER } else { 0 };
    let mut y = 0;
    let mut index = document.top(style.page(rows));
    while y < rows
        && let Some(line) = document.shown(index)
    {
        put_signs(region, y, &line);
        let indent = u16::try_from(line.depth.saturating_mul(2)).unwrap_or(u16::MAX);
        let x = gutter.saturating_add(indent.min(columns / 2));
        let role = match line.kind {
            LineKind::Plain => Role::Plain,
            LineKind::Markdown => markdown_role(line.text.trim()),
            LineKind::Code => Role::Running,
            LineKind::Notice => Role::Strong,
        };
        let from = y;
        let spans = vec![theme.span(line.text.as_ref(), role)];
        y = put_text(region, (x, y), spans, style);
        if line.is_here && state.detail.focus == Focus::Detail {
            region.keep_visible(from..y);
        }
        if y == from + 1 && !line.holds.is_empty() {
            let after = u16::try_from(text::width(&line.text)).unwrap_or(u16::MAX);
            let holds = theme.span(format!("  {}", line.holds), Role::Dim);
            region.put(x.saturating_add(after), from, holds);
        }
        index += 1;
    }
    let below = document.len().saturating_sub(index);
    if below == 0 && document.is_cut && rows > 0 {
        let id = &task_row.view.task.id;
        let flags = &state.setup.flags;
        let note = format!(" truncated; full text: `longhaul result {id}{flags}`");
        region.put_note(rows - 1, note);
    } else {
        region.put_more_below(below);
    }
}

/// The role of a line of Markdown: heading, quote, rule or text.
fn markdown_role(line: &str) -> Role {
    let title = line.trim_start_matches('#');
    let is_rule =
        |sign: &str| line.len() >= 3 && line.replace([' '], "").replace(sign, "").is_empty();
    if title.starts_with(' ') && (1..=6).contains(&(line.len() - title.len())) {
        Role::Strong
    } else if line.starts_with('>') || ["-", "*", "_"].into_iter().any(is_rule) {
        Role::Dim
    } else {
        Role::Plain
    }
}

fn put_signs(region: &mut Region<'_>, y: u16, line: &DocumentLine<'_>) {
    let theme = region.theme;
    if line.is_here {
        region.put(0, y, theme.span(theme.glyphs.cursor, Role::Cursor));
    }
    if let Some(is_folded) = line.fold {
        let sign = if is_folded { "+" } else { "-" };
        region.put(1, y, theme.span(sign, Role::Key));
    }
}

/// Draws a line, wrapped if asked for, with the search matches in it highlighted; returns the row after it.
pub(super) fn put_text(
    region: &mut Region<'_>,
    (x, y): (u16, u16),
    mut spans: Vec<Span<'_>>,
    style: TextStyle<'_>,
) -> u16 {
    let available = usize::from(region.columns().saturating_sub(x)).max(1);
    let whole = plain(&spans);
    if !style.is_wrapping {
        spans = fit(spans.into(), available, region.theme.glyphs.more).spans;
    }
    if let Some(search) = style.search.filter(|it| it.is_in(&whole)) {
        spans = highlight(spans, search, region.theme.style(Role::Found));
    }
    if !style.is_wrapping {
        return region.put_lines(x, y, [spans]);
    }
    let mut past = 0;
    let lines = wrap(&whole, available).into_iter().map(|part| {
        // Wrapping drops nothing but the blanks between the rows.
        let rest = whole.get(past..).unwrap_or_default();
        let from = past + rest.find(&part).unwrap_or(0);
        past = from + part.len();
        Line::from(slice(&spans, from..past))
    });
    region.put_lines(x, y, lines)
}
