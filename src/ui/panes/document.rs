//! Text in the detail pane: foldable results and plain lines, with search matches highlighted.

use core::ops::Range;

use super::super::{canvas::Canvas, markdown, theme::Role};
use crate::{
    app::{Document, DocumentLine, Focus, LineKind, State, TaskRow, finds},
    domain::text,
    ui::wrap::wrap,
};

/// The columns before foldable text: cursor, fold marker and a blank.
const GUTTER: u16 = 3;

/// Draws a result document. Formats only the visible lines.
pub(super) fn document(
    canvas: &mut Canvas<'_>,
    state: &State,
    task_row: &TaskRow,
    document: &Document,
) {
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let page = if state.detail.text.is_wrapping {
        1
    } else {
        usize::from(rows)
    };
    let top = document.top(page);
    let search = state.detail.search.as_deref();
    let gutter = if document.is_navigable() { GUTTER } else { 0 };
    let mut y = 0;
    let mut index = top;
    while y < rows
        && let Some(line) = document.shown(index)
    {
        put_signs(canvas, y, &line);
        let indent = u16::try_from(line.depth.saturating_mul(2)).unwrap_or(u16::MAX);
        let x = gutter.saturating_add(indent.min(columns / 2));
        let holds = match line.holds.as_str() {
            "" => String::new(),
            holds => format!("  {holds}"),
        };
        let from = y;
        y = match line.kind {
            LineKind::Markdown if !state.detail.text.is_raw => {
                let pieces = markdown::pieces(&line.text, canvas.glyphs());
                put_pieces(
                    canvas,
                    (x, y),
                    &pieces,
                    state.detail.text.is_wrapping,
                    search,
                )
            }
            kind => {
                let role = match kind {
                    LineKind::Code if !state.detail.text.is_raw => Role::Running,
                    LineKind::Notice => Role::Strong,
                    _ => Role::Plain,
                };
                put_text(
                    canvas,
                    (x, y),
                    &line.text,
                    role,
                    state.detail.text.is_wrapping,
                    search,
                )
            }
        };
        if line.is_here && state.detail.focus == Focus::Detail {
            canvas.keep_visible(from..y);
        }
        if y == from + 1 && !holds.is_empty() {
            let after = u16::try_from(text::width(&line.text)).unwrap_or(u16::MAX);
            canvas.put(x.saturating_add(after), from, &holds, Role::Dim);
        }
        index += 1;
    }
    let below = document.len().saturating_sub(index);
    if below == 0 && document.is_cut() && rows > 0 {
        let id = &task_row.view.task.id;
        let note = format!(
            " truncated; full text: longhaul result {id}{}",
            state.setup.flags
        );
        canvas.put_right_aligned(columns, rows - 1, &note, Role::Dim);
    } else {
        more_below(canvas, below);
    }
}

fn put_signs(canvas: &mut Canvas<'_>, y: u16, line: &DocumentLine<'_>) {
    let cursor = canvas.glyphs().cursor;
    if line.is_here {
        canvas.put(0, y, cursor, Role::Cursor);
    }
    if let Some(is_folded) = line.fold {
        canvas.put(1, y, if is_folded { "+" } else { "-" }, Role::Key);
    }
}

/// Writes a line, optionally wrapped, highlights search matches in it, and returns the row after it.
pub(super) fn put_text(
    canvas: &mut Canvas<'_>,
    at: (u16, u16),
    line: &str,
    role: Role,
    is_wrapping: bool,
    search: Option<&str>,
) -> u16 {
    let pieces = [(line.to_owned(), role)];
    put_pieces(canvas, at, &pieces, is_wrapping, search)
}

/// Like [`put_text`], for text in several roles.
fn put_pieces(
    canvas: &mut Canvas<'_>,
    (x, y): (u16, u16),
    pieces: &[(String, Role)],
    is_wrapping: bool,
    search: Option<&str>,
) -> u16 {
    let whole: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
    let rows = canvas.rows();
    let mut end = y;
    let parts = if is_wrapping {
        let available = usize::from(canvas.columns().saturating_sub(x)).max(1);
        wrap(&whole, available)
    } else {
        vec![whole.clone()]
    };
    let mut past = 0;
    for part in parts {
        if end >= rows {
            break;
        }
        // Wrapping drops nothing but the blanks between the rows.
        let rest = whole.get(past..).unwrap_or_default();
        let from = past + rest.find(&part).unwrap_or(0);
        past = from + part.len();
        put_roles(canvas, (x, end), pieces, from..past);
        end += 1;
    }
    if let Some(search) = search.filter(|search| finds(&whole, search)) {
        canvas.highlight_matches(x, y..end, search);
    }
    end
}

/// Writes a byte range of the concatenated pieces.
fn put_roles(
    canvas: &mut Canvas<'_>,
    (x, y): (u16, u16),
    pieces: &[(String, Role)],
    bytes: Range<usize>,
) {
    let (mut x, mut begin) = (x, 0);
    for (text, role) in pieces {
        let end = begin + text.len();
        let from = bytes.start.clamp(begin, end) - begin;
        let to = bytes.end.clamp(begin, end) - begin;
        if let Some(part) = text.get(from..to).filter(|part| !part.is_empty()) {
            x = canvas.put(x, y, part, *role);
        }
        begin = end;
    }
}

/// Notes in the last row how many lines follow.
pub(super) fn more_below(canvas: &mut Canvas<'_>, below: usize) {
    let (columns, rows) = (canvas.columns(), canvas.rows());
    if rows > 0 && below > 0 {
        let down = canvas.glyphs().arrows[1];
        let more = format!(" {} more {down}", text::grouped(below));
        canvas.put_right_aligned(columns, rows - 1, &more, Role::Dim);
    }
}
