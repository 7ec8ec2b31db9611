//! The list of keys and commands, and the text page.

use super::{
    super::spans::{fit, pad_to},
    typed,
};
use crate::{
    app::{Field, State, pane_scope, why_not},
    domain::text,
    ui::{Region, Role, wrap::wrap},
};

/// The columns of the keys, and of the keys and a command.
const KEYS: usize = 18;
const KEYS_AND_COMMAND: usize = 29;

/// Draws the keys and commands that match the typed text, with what they do or why they are unavailable.
pub(super) fn commands(region: &mut Region<'_>, state: &State, field: &Field, cursor: usize) {
    let found = state.setup.settings.keys.found(field.text());
    let lines = &found.lines;
    let most = above_footer(region.rows());
    let columns = region.window_columns(92);
    let total = u16::try_from(lines.len().max(1)).unwrap_or(u16::MAX);
    let rows = total.saturating_add(4).min(most);
    let mut window = region.window(columns, rows, "Keys and commands");
    let theme = window.theme;
    let (columns, rows) = (window.columns(), window.rows().saturating_sub(2));
    let mut prompt = typed::field(theme, columns, ": ", field, true);
    if field.is_empty() {
        let help = " type to search, Enter to run, Esc to close";
        prompt.push_span(theme.span(help, Role::Dim));
    }
    window.put(0, 0, prompt);
    if lines.is_empty() {
        let note = "Nothing in the list matches; Enter runs the line as a command.";
        window.put(0, 2, theme.span(note, Role::Dim));
        return;
    }
    let available = usize::from(rows).max(1);
    let here = found.at(cursor).map(|(index, _)| index);
    let first = here.map_or(0, |here| (here + 1).saturating_sub(available));
    let below = pane_scope(state);
    let mut choices = Vec::with_capacity(available);
    for (index, line) in lines.iter().enumerate().skip(first).take(available) {
        let Some(binding) = line.binding else {
            choices.push(theme.span(line.text.as_str(), Role::Heading).into());
            continue;
        };
        let reason = why_not(state, binding.action);
        let is_here = here == Some(index);
        let role = Role::of_choice(is_here, reason.is_none());
        let mut description = reason.unwrap_or_else(|| line.text.clone());
        // The list of all keys has titles that say where they work.
        if !field.is_empty() && !binding.scopes.contains(&below) {
            let place = binding.scopes.first().map_or("", |scope| scope.title());
            description = format!("({}) {description}", place.to_lowercase());
        }
        if is_here && text::width(&description) + KEYS_AND_COMMAND + 2 > usize::from(columns) {
            window.put(0, 1, theme.span(description.as_str(), Role::Plain));
        }
        let keys = theme.span(line.keys.as_str(), Role::Key);
        let mut row = fit(keys.into(), KEYS - 1, theme.glyphs.more);
        pad_to(&mut row, KEYS);
        row.push_span(theme.span(binding.command, role));
        pad_to(&mut row, KEYS_AND_COMMAND);
        row.push_span(theme.span(description, Role::Dim));
        choices.push(row);
    }
    let mut part = window.region(0, 2, columns, rows);
    part.put_choices(choices, here.map(|here| here - first));
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
