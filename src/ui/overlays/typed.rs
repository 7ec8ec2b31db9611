//! Text input: single-line and multi-line fields, the footer prompts, and the edit dialog.

use super::super::{canvas::Canvas, theme::Role};
use crate::{
    app::{EditForm, Field, State},
    domain::text,
    ui::wrap::wrap,
};

/// Draws a field with its label and returns the column after it. A focused field scrolls to show the cursor.
pub(super) fn field(
    canvas: &mut Canvas<'_>,
    x: u16,
    y: u16,
    label: &str,
    field: &Field,
    has_cursor: bool,
) -> u16 {
    let x = canvas.put(x, y, label, if has_cursor { Role::Key } else { Role::Dim });
    let available = usize::from(canvas.columns().saturating_sub(x));
    let clean = text::clean_line(field.text()).into_owned();
    let role = if field.is_untouched() {
        Role::Dim
    } else {
        Role::Plain
    };
    if !has_cursor {
        return canvas.put(x, y, &clean, role);
    }
    let before = text::clean_line(&field.before()).into_owned();
    let after = text::clean_line(&field.after()).into_owned();
    // Of the text before the cursor, only the end fits.
    let keep = available.saturating_sub(2);
    let before = tail(&before, keep);
    let end = canvas.put(x, y, &before, role);
    let mut chars = after.chars();
    let under = chars.next().map_or(" ".to_owned(), |ch| ch.to_string());
    let rest: String = chars.collect();
    let end = canvas.put(end, y, &under, Role::Cursor);
    canvas.put(end, y, &rest, Role::Plain)
}

/// Draws a multi-line field, scrolled to show the cursor.
pub(super) fn lines(canvas: &mut Canvas<'_>, field: &Field, has_cursor: bool) {
    let available = usize::from(canvas.columns()).max(1);
    let rows = usize::from(canvas.rows()).max(1);
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
    for (line, y) in whole.iter().skip(first).take(rows).zip(0_u16..) {
        canvas.put(0, y, line, Role::Plain);
    }
    if has_cursor {
        let column = at
            .last()
            .map_or(0, |line| text::width(line).saturating_sub(1));
        let y = u16::try_from(cursor_line - first).unwrap_or(u16::MAX);
        canvas.apply_style(u16::try_from(column).unwrap_or(0), y, 1, Role::Cursor);
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
pub(super) fn line(canvas: &mut Canvas<'_>, label: &str, typed: &Field, keys: &str) {
    let end = canvas.columns();
    let width = u16::try_from(keys.len()).unwrap_or(0);
    let show_keys = end > width + 30;
    let available = if show_keys { end - width - 3 } else { end };
    {
        let mut region = canvas.region(0, 0, available, 1);
        field(&mut region, 1, 0, &format!("{label}: "), typed, true);
    }
    if show_keys {
        canvas.put_right_aligned(end.saturating_sub(1), 0, keys, Role::Dim);
    }
}

/// Draws the dialog that edits a task's name, note and limits.
pub(super) fn edit(canvas: &mut Canvas<'_>, state: &State, form: &EditForm) {
    let rows = 11;
    let columns = canvas.window_columns(72);
    let mut window = canvas.window(columns, rows, &format!("Edit {}", form.task));
    if let Some(task_row) = state.task(&form.task) {
        let tool = text::clean_line(&task_row.view.task.tool).into_owned();
        window.put(0, 0, &tool, Role::Dim);
    }
    for (((label, typed), index), y) in EditForm::LABELS
        .iter()
        .zip(&form.fields)
        .zip(0..)
        .zip(2_u16..)
    {
        field(
            &mut window,
            0,
            y,
            &format!("{label:<12}"),
            typed,
            form.at == index,
        );
    }
    let (help, role) = match &form.error {
        Some(complaint) => (complaint.as_str(), Role::Failed),
        None => (
            "Limits cancel the call: 90s, 5m, 2h, or off. Enter saves.",
            Role::Dim,
        ),
    };
    let available = usize::from(window.columns()).max(1);
    for (line, y) in wrap(help, available).iter().take(2).zip(7_u16..) {
        window.put(0, y, line, role);
    }
}
