//! Text that is being typed: fields and the lines in the footer.

use crate::{
    app::{EditForm, Field, State},
    domain::text,
};

use super::super::{canvas::Canvas, panes::detail::wrap, theme::Role};

/// A field with its label; where it has the cursor, the text around the cursor stays in sight.
pub(super) fn field(
    canvas: &mut Canvas<'_>,
    x: u16,
    y: u16,
    label: &str,
    field: &Field,
    has_cursor: bool,
) -> u16 {
    let x = canvas.put(x, y, label, if has_cursor { Role::Key } else { Role::Dim });
    let room = usize::from(canvas.columns().saturating_sub(x));
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
    // The end of what stands before the cursor is what one looks at.
    let keep = room.saturating_sub(2);
    let before = tail(&before, keep);
    let end = canvas.put(x, y, &before, role);
    let mut letters = after.chars();
    let under = letters
        .next()
        .map_or(" ".to_owned(), |letter| letter.to_string());
    let rest: String = letters.collect();
    let end = canvas.put(end, y, &under, Role::Cursor);
    canvas.put(end, y, &rest, Role::Plain)
}

/// A field of several lines; the line of the cursor stays in sight.
pub(super) fn lines(canvas: &mut Canvas<'_>, field: &Field, has_cursor: bool) {
    let room = usize::from(canvas.columns()).max(1);
    let rows = usize::from(canvas.rows()).max(1);
    // Cut every `room` columns, so that the place of the cursor can be computed.
    let chopped = |words: &str| -> Vec<String> {
        let lines = words.split('\n').map(text::clean_line);
        lines.flat_map(|line| chop(&line, room)).collect()
    };
    let whole = chopped(field.text());
    let at = chopped(&format!("{}_", field.before()));
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
        canvas.lay(u16::try_from(column).unwrap_or(0), y, 1, Role::Cursor);
    }
}

/// Cuts text into lines of exactly so many columns.
fn chop(words: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for letter in words.chars() {
        let wide = text::width(letter.encode_utf8(&mut [0; 4]));
        if used + wide > columns && used > 0 {
            lines.push(String::new());
            used = 0;
        }
        if let Some(line) = lines.last_mut() {
            line.push(letter);
        }
        used += wide;
    }
    lines
}

/// The end of a text in at most `columns`.
pub(super) fn tail(text: &str, columns: usize) -> String {
    let mut used = 0;
    let mut kept: Vec<char> = Vec::new();
    for letter in text.chars().rev() {
        used += text::width(letter.encode_utf8(&mut [0; 4]));
        if used > columns {
            break;
        }
        kept.push(letter);
    }
    kept.into_iter().rev().collect()
}

/// A line in the footer.
pub(super) fn line(canvas: &mut Canvas<'_>, label: &str, typed: &Field, keys: &str) {
    let end = canvas.columns();
    let wide = u16::try_from(keys.len()).unwrap_or(0);
    let has_keys = end > wide + 30;
    let room = if has_keys { end - wide - 3 } else { end };
    {
        let mut part = canvas.part(0, 0, room, 1);
        field(&mut part, 1, 0, &format!("{label}: "), typed, true);
    }
    if has_keys {
        canvas.put_before(end.saturating_sub(1), 0, keys, Role::Dim);
    }
}

/// Name, note and limits of a task.
pub(super) fn edit(canvas: &mut Canvas<'_>, state: &State, form: &EditForm) {
    let rows = 11;
    let columns = canvas.window_columns(72);
    let mut window = canvas.window(columns, rows, &format!("Edit {}", form.task));
    if let Some(task_row) = state.task(&form.task) {
        let tool = text::clean_line(&task_row.view.task.tool).into_owned();
        window.put(0, 0, &tool, Role::Dim);
    }
    for (((label, typed), place), y) in EditForm::LABELS
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
            form.at == place,
        );
    }
    let (words, role) = match &form.error {
        Some(complaint) => (complaint.as_str(), Role::Failed),
        None => (
            "A limit cancels the call: 90s, 5m, 2h, or off. Enter saves.",
            Role::Dim,
        ),
    };
    let room = usize::from(window.columns()).max(1);
    for (line, y) in wrap(words, room).iter().take(2).zip(7_u16..) {
        window.put(0, y, line, role);
    }
}
