//! The help page, the text page and the command palette.

use super::{
    super::{canvas::Canvas, theme::Role},
    typed,
};
use crate::{
    app::{Field, HelpLine, State, lines, matches, pane_scope, why_not},
    domain::text,
    ui::wrap::wrap,
};

/// Draws the help: the keys and commands that match the typed text.
pub(super) fn help(canvas: &mut Canvas<'_>, state: &State, field: &Field, cursor: usize) {
    let lines = state.setup.keys.help_page(canvas.columns(), field.text());
    let rows = canvas.rows();
    let columns = canvas.window_columns(92);
    let total = u16::try_from(lines.len().max(1)).unwrap_or(u16::MAX);
    let mut window = canvas.window(
        columns,
        total.saturating_add(4).min(above_footer(rows)),
        "Keys",
    );
    let x = typed::field(&mut window, 0, 0, "/ ", field, true);
    if field.is_empty() {
        let help = "type to search, Enter to run, Esc to close";
        window.put(x + 1, 0, help, Role::Dim);
    }
    if lines.is_empty() {
        window.put(0, 2, "No matching key or command.", Role::Dim);
        return;
    }
    let available = usize::from(window.rows().saturating_sub(2)).max(1);
    let is_on = |line: &HelpLine| line.binding.is_some_and(|(index, _)| index == cursor);
    let end = lines.iter().rposition(is_on).map_or(0, |at| at + 1);
    let first = end.saturating_sub(available);
    let sign = window.glyphs().cursor;
    for (line, y) in lines.iter().skip(first).take(available).zip(2_u16..) {
        let role = match line.binding {
            None => Role::Heading,
            Some(_) if is_on(line) => Role::Strong,
            Some(_) => Role::Plain,
        };
        if line.binding.is_none() {
            window.put(0, y, &line.text, role);
            continue;
        }
        if is_on(line) && !line.keys.is_empty() {
            window.put(0, y, sign, Role::Focus);
        }
        window.put_clipped(2, y, 18, &line.keys, Role::Key);
        window.put(21, y, &line.text, role);
        if is_on(line) {
            let width = window.columns();
            window.apply_style(0, y, width, Role::Selected);
        }
    }
    let below = lines.len().saturating_sub(first + available);
    if below > 0 {
        let last = window.rows().saturating_sub(1);
        let end = window.columns();
        let down = window.glyphs().arrows[1];
        window.put_right_aligned(end, last, &format!(" {below} more {down}"), Role::Dim);
    }
}

/// The window height that leaves the footer visible, if there is room for both.
pub(super) fn above_footer(rows: u16) -> u16 {
    rows.saturating_sub(if rows < 20 { 1 } else { 4 })
}

/// Draws a page of wrapped text from line `scroll` on.
pub(super) fn page(canvas: &mut Canvas<'_>, title: &str, lines: &[String], scroll: usize) {
    let columns = canvas.window_columns(92);
    let available = usize::from(columns.saturating_sub(4)).max(1);
    let wrapped = |line: &String| wrap(&text::clean_line(line), available);
    let all: usize = lines.iter().map(|line| wrapped(line).len()).sum();
    let rows = u16::try_from(all + 2).unwrap_or(u16::MAX);
    let most = canvas.rows().saturating_sub(1);
    let mut window = canvas.window(columns, rows.min(most), title);
    let last = window.rows();
    // Don't scroll beyond the point where the last line is at the bottom.
    let mut available = usize::from(last);
    let fits = |line: &&String| {
        let rows = wrapped(line).len();
        let has_room = rows <= available;
        available = available.saturating_sub(rows);
        has_room
    };
    let at_the_end = lines.iter().rev().take_while(fits).count();
    let scroll = scroll.min(lines.len().saturating_sub(at_the_end.max(1)));
    let mut y = 0;
    let mut read = scroll;
    for line in lines.iter().skip(scroll) {
        // If more lines follow, the last row is reserved for the note that says so.
        let rows = wrapped(line);
        let is_last = read + 1 == lines.len();
        let fitting = last.saturating_sub(u16::from(!is_last));
        if y > 0 && usize::from(y) + rows.len() > usize::from(fitting) {
            break;
        }
        for row in rows {
            window.put(0, y, &row, Role::Plain);
            y += 1;
        }
        read += 1;
    }
    let below = lines.len().saturating_sub(read);
    if below > 0 {
        let end = window.columns();
        let down = window.glyphs().arrows[1];
        let more = format!(" {below} more {down}");
        window.put_right_aligned(end, last.saturating_sub(1), &more, Role::Dim);
    }
}

/// Draws the command palette: the matching commands with their keys and, if unavailable, the reason.
pub(super) fn palette(canvas: &mut Canvas<'_>, state: &State, field: &Field, cursor: usize) {
    let found = matches(field.text());
    // Leave the footer visible.
    let most = canvas.rows().saturating_sub(7).clamp(1, 14);
    let rows = u16::try_from(found.len())
        .unwrap_or(u16::MAX)
        .clamp(1, most);
    let columns = canvas.window_columns(88);
    let mut window = canvas.window(columns, rows + 4, "Commands");
    typed::field(&mut window, 0, 0, ": ", field, true);
    if found.is_empty() {
        let lines = lines(field.text());
        let line = lines.first().unwrap_or(&"Unknown command.");
        window.put(0, 2, line, Role::Dim);
        return;
    }
    let available = usize::from(window.rows().saturating_sub(2)).max(1);
    let cursor = cursor.min(found.len().saturating_sub(1));
    let first = (cursor + 1).saturating_sub(available);
    let sign = window.glyphs().cursor;
    let below = pane_scope(state);
    for ((index, binding), y) in found
        .iter()
        .enumerate()
        .skip(first)
        .take(available)
        .zip(2_u16..)
    {
        let is_on = index == cursor;
        if is_on {
            window.put(0, y, sign, Role::Focus);
        }
        let reason = why_not(state, binding.action);
        let role = match (is_on, &reason) {
            (true, _) => Role::Strong,
            (false, None) => Role::Plain,
            (false, Some(_)) => Role::Dim,
        };
        window.put(2, y, binding.command, role);
        let keys = &state.setup.keys;
        // A key that does something else in this pane is shown with the pane where it works.
        let here = keys.lookup_first(below, binding);
        window.put_clipped(13, y, 6, here.as_deref().unwrap_or_default(), Role::Key);
        let elsewhere = match (&here, keys.first_key(binding).as_str(), binding.scopes) {
            (None, key, [scope, ..]) if !key.is_empty() => {
                format!("{key} {}: ", scope.title().to_lowercase())
            }
            _ => String::new(),
        };
        let description = match &reason {
            Some(why) => format!("{elsewhere}unavailable: {}", text::clean_line(why)),
            None => format!("{elsewhere}{}", binding.help),
        };
        if is_on && text::width(&description) + 20 > usize::from(window.columns()) {
            window.put(0, 1, &description, Role::Plain);
        }
        window.put(20, y, &description, Role::Dim);
        if is_on {
            let width = window.columns();
            window.apply_style(0, y, width, Role::Selected);
        }
    }
}
