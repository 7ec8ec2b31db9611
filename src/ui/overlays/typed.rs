//! Text input: single-line and multi-line fields, the footer prompts, and the edit dialog.

use ratatui::text::{Line, Span};

use crate::{
    app::{EditForm, Field, State},
    domain::text,
    ui::{Region, Role, Theme, wrap::wrap},
};

/// A field with its label, in `columns` columns. A focused field scrolls to show the cursor.
pub(super) fn field(
    theme: Theme,
    columns: u16,
    label: &str,
    field: &Field,
    has_cursor: bool,
) -> Line<'static> {
    let role = if has_cursor { Role::Key } else { Role::Dim };
    let mut line = Line::from(theme.span(label.to_owned(), role));
    let role = if field.is_untouched {
        Role::Dim
    } else {
        Role::Plain
    };
    if !has_cursor {
        line.push_span(theme.span(field.text().to_owned(), role));
        return line;
    }
    let available = usize::from(columns).saturating_sub(line.width());
    let after = field.after();
    // Of the text before the cursor, only the end fits.
    let before = field.before();
    let before = tail(&text::clean_line(&before), available.saturating_sub(2));
    let mut chars = after.chars();
    let under = chars.next().unwrap_or(' ').to_string();
    line.extend([
        theme.span(before, role),
        theme.span(under, Role::Cursor),
        theme.span(chars.as_str().to_owned(), Role::Plain),
    ]);
    line
}

/// Draws a multi-line field, scrolled to show the cursor.
pub(super) fn lines(region: &mut Region<'_>, field: &Field, has_cursor: bool) {
    let theme = region.theme;
    let available = usize::from(region.columns()).max(1);
    let rows = usize::from(region.rows()).max(1);
    // Hard-wrapped at `available` columns, so that the cursor position can be computed.
    let wrapped = |content: &str| -> Vec<String> {
        let lines = content.split('\n').map(text::clean_line);
        lines.flat_map(|line| hard_wrap(&line, available)).collect()
    };
    let whole = wrapped(field.text());
    let at = wrapped(&format!("{}_", field.before()));
    let cursor_line = at.len().saturating_sub(1);
    let first = if has_cursor {
        (cursor_line + 1).saturating_sub(rows)
    } else {
        0
    };
    region.put_text(0, 0, whole.into_iter().skip(first), Role::Plain);
    if has_cursor {
        let column = at
            .last()
            .map_or(0, |line| text::width(line).saturating_sub(1));
        let x = u16::try_from(column).unwrap_or(0);
        let y = u16::try_from(cursor_line - first).unwrap_or(u16::MAX);
        region.set_style(x, y, 1, theme.style(Role::Cursor));
    }
}

/// Breaks text into lines of `columns` columns, ignoring word boundaries.
fn hard_wrap(content: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for ch in content.chars() {
        let width = text::width(ch.encode_utf8(&mut [0; 4]));
        if used + width > columns && used > 0 {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            line.push(ch);
        }
        used += width;
    }
    lines
}

/// The longest end of a text that fits into `columns`.
pub(super) fn tail(text: &str, columns: usize) -> String {
    let mut used = 0;
    let mut kept: Vec<char> = Vec::new();
    for ch in text.chars().rev() {
        used += text::width(ch.encode_utf8(&mut [0; 4]));
        if used > columns {
            break;
        }
        kept.push(ch);
    }
    kept.into_iter().rev().collect()
}

/// Draws a prompt in the footer, with its key hints if they fit.
pub(super) fn line(region: &mut Region<'_>, label: &str, typed: &Field, keys: &str) {
    let theme = region.theme;
    let end = region.columns();
    let width = u16::try_from(keys.len()).unwrap_or(0);
    let show_keys = end > width + 30;
    let available = if show_keys { end - width - 3 } else { end };
    let mut left = region.region(1, 0, available.saturating_sub(1), 1);
    let field = field(theme, left.columns(), &format!("{label}: "), typed, true);
    left.put(0, 0, field);
    if show_keys {
        region.put_right(end.saturating_sub(1), 0, theme.span(keys, Role::Dim));
    }
}

/// Draws the dialog that edits a task's name, note and limits.
pub(super) fn edit(region: &mut Region<'_>, state: &State, form: &EditForm) {
    let columns = region.window_columns(72);
    let mut window = region.window(columns, 11, &format!("Edit {}", form.task));
    let theme = window.theme;
    let columns = window.columns();
    let tool = state
        .task(&form.task)
        .map(|task_row| &task_row.view.task.tool);
    let tool = tool.map_or(Span::raw(""), |tool| theme.span(tool.as_str(), Role::Dim));
    window.put(0, 0, tool);
    let fields = EditForm::LABELS.iter().zip(&form.fields).enumerate();
    let fields = fields.map(|(index, (label, typed))| {
        let label = format!("{label:<14}");
        field(theme, columns, &label, typed, form.at == index)
    });
    window.put_lines(0, 2, fields);
    let (help, role) = match &form.error {
        Some(complaint) => (complaint.as_str(), Role::Failed),
        None => (
            "Write limits as 90s, 5m, 2h or off. At a limit, the task fails, and longhaul asks the server to cancel the call.",
            Role::Dim,
        ),
    };
    let lines = wrap(help, usize::from(columns).max(1)).into_iter().take(2);
    window.put_text(0, 7, lines, role);
}
