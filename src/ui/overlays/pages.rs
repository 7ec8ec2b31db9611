//! The help page, the text page and the command palette.

use ratatui::text::Line;

use super::{
    super::spans::{fit, pad_to},
    typed,
};
use crate::{
    app::{Field, HelpLine, State, lines, matches, pane_scope, why_not},
    domain::text,
    ui::{Region, Role, wrap::wrap},
};

/// The columns of the keys in the help page.
const KEYS: usize = 18;

/// Draws the help: the keys and commands that match the typed text.
pub(super) fn help(region: &mut Region<'_>, state: &State, field: &Field, cursor: usize) {
    let keys = &state.setup.settings.keys;
    let lines = keys.help_page(region.columns(), field.text());
    let most = above_footer(region.rows());
    let columns = region.window_columns(92);
    let total = u16::try_from(lines.len().max(1)).unwrap_or(u16::MAX);
    let mut window = region.window(columns, total.saturating_add(4).min(most), "Keys");
    let theme = window.theme;
    let (columns, rows) = (window.columns(), window.rows().saturating_sub(2));
    let mut prompt = typed::field(theme, columns, "/ ", field, true);
    if field.is_empty() {
        let help = " type to search, Enter to run, Esc to close";
        prompt.push_span(theme.span(help, Role::Dim));
    }
    window.put(0, 0, prompt);
    if lines.is_empty() {
        let note = theme.span("No matching key or command.", Role::Dim);
        window.put(0, 2, note);
        return;
    }
    let available = usize::from(rows).max(1);
    let is_on = |line: &HelpLine| line.binding.is_some_and(|(index, _)| index == cursor);
    let end = lines.iter().rposition(is_on).map_or(0, |at| at + 1);
    let first = end.saturating_sub(available);
    let shown = lines.iter().skip(first).take(available);
    for (line, y) in shown.zip(2_u16..) {
        if line.binding.is_none() {
            window.put(0, y, theme.span(line.text.as_str(), Role::Heading));
            continue;
        }
        let role = Role::of_choice(is_on(line), true);
        let sign = if is_on(line) && !line.keys.is_empty() {
            theme.glyphs.cursor
        } else {
            " "
        };
        let keys = theme.span(line.keys.as_str(), Role::Key);
        let keys = fit(keys.into(), KEYS, theme.glyphs.more);
        let mut spans = Line::from(theme.span(format!("{sign} "), Role::Focus));
        spans.extend(keys);
        pad_to(&mut spans, KEYS + 3);
        spans.push_span(theme.span(line.text.as_str(), role));
        window.put(0, y, spans);
        if is_on(line) {
            window.set_style(0, y, columns, theme.style(Role::Selected));
        }
    }
    window.put_more_below(lines.len().saturating_sub(first + available));
}

/// The window height that leaves the footer visible, if there is room for both.
pub(super) fn above_footer(rows: u16) -> u16 {
    rows.saturating_sub(if rows < 20 { 1 } else { 4 })
}

/// Draws a page of wrapped text from line `scroll` on.
pub(super) fn page(region: &mut Region<'_>, title: &str, lines: &[String], scroll: usize) {
    let columns = region.window_columns(92);
    let available = usize::from(columns.saturating_sub(4)).max(1);
    let wrapped = |line: &String| wrap(line, available);
    let all: usize = lines.iter().map(|line| wrapped(line).len()).sum();
    let rows = u16::try_from(all + 2).unwrap_or(u16::MAX);
    let most = region.rows().saturating_sub(1);
    let mut window = region.window(columns, rows.min(most), title);
    let last = usize::from(window.rows());
    // Don't scroll beyond the point where the last line is at the bottom.
    let mut available = last;
    let fits = |line: &&String| {
        let rows = wrapped(line).len();
        let has_room = rows <= available;
        available = available.saturating_sub(rows);
        has_room
    };
    let at_the_end = lines.iter().rev().take_while(fits).count();
    let scroll = scroll.min(lines.len().saturating_sub(at_the_end.max(1)));
    let mut shown: Vec<String> = Vec::new();
    let mut read = scroll;
    for line in lines.iter().skip(scroll) {
        // If more lines follow, the last row is reserved for the note that says so.
        let rows = wrapped(line);
        let is_last = read + 1 == lines.len();
        let fitting = last.saturating_sub(usize::from(!is_last));
        if !shown.is_empty() && shown.len() + rows.len() > fitting {
            break;
        }
        shown.extend(rows);
        read += 1;
    }
    window.put_text(0, 0, shown, Role::Plain);
    window.put_more_below(lines.len().saturating_sub(read));
}

/// The columns of a command, and of a command and its key.
const COMMAND: usize = 11;
const COMMAND_AND_KEY: usize = 18;

/// Draws the command palette: the matching commands with their keys and, if unavailable, the reason.
pub(super) fn palette(region: &mut Region<'_>, state: &State, field: &Field, cursor: usize) {
    let found = matches(field.text());
    // Leave the footer visible.
    let most = region.rows().saturating_sub(7).clamp(1, 14);
    let rows = u16::try_from(found.len())
        .unwrap_or(u16::MAX)
        .clamp(1, most);
    let columns = region.window_columns(88);
    let mut window = region.window(columns, rows + 4, "Commands");
    let theme = window.theme;
    let (columns, rows) = (window.columns(), window.rows().saturating_sub(2));
    window.put(0, 0, typed::field(theme, columns, ": ", field, true));
    if found.is_empty() {
        let lines = lines(field.text());
        let line = *lines.first().unwrap_or(&"Unknown command.");
        window.put(0, 2, theme.span(line, Role::Dim));
        return;
    }
    let available = usize::from(rows).max(1);
    let cursor = cursor.min(found.len().saturating_sub(1));
    let first = (cursor + 1).saturating_sub(available);
    let below = pane_scope(state);
    let mut choices = Vec::with_capacity(available);
    for (index, binding) in found.iter().enumerate().skip(first).take(available) {
        let is_on = index == cursor;
        let reason = why_not(state, binding.action);
        let role = Role::of_choice(is_on, reason.is_none());
        let keys = &state.setup.settings.keys;
        // A key that does something else in this pane is shown with the pane where it works.
        let here = keys.lookup_first(below, binding);
        let elsewhere = match (&here, keys.first_key(binding).as_str(), binding.scopes) {
            (None, key, [scope, ..]) if !key.is_empty() => {
                format!("({key} {}) ", scope.title().to_lowercase())
            }
            _ => String::new(),
        };
        let description = match &reason {
            Some(why) => format!("{elsewhere}{}", text::clean_line(why)),
            None => format!("{elsewhere}{}", binding.help),
        };
        if is_on && text::width(&description) + 20 > usize::from(columns) {
            window.put(0, 1, theme.span(description.as_str(), Role::Plain));
        }
        let mut line = Line::from(theme.span(binding.command, role));
        pad_to(&mut line, COMMAND);
        line.push_span(theme.span(here.unwrap_or_default(), Role::Key));
        pad_to(&mut line, COMMAND_AND_KEY);
        line.push_span(theme.span(description, Role::Dim));
        choices.push(line);
    }
    let mut part = window.region(0, 2, columns, rows);
    part.put_choices(choices, Some(cursor - first));
}
