//! A menu dialog: explanatory lines, then the items, each with its key.

use ratatui::{
    layout::Constraint,
    text::{Line, Text},
    widgets::{Cell, Row},
};

use super::super::spans::pad_to;
use crate::{
    app::{BodyLine, Dialog, MenuItem},
    domain::text,
    ui::{Region, Role, Theme, panes::list::outcome_role, wrap},
};

pub(super) fn menu(region: &mut Region<'_>, dialog: &Dialog, selected: Option<char>) {
    let Dialog {
        title,
        body: body_lines,
        items,
        ..
    } = dialog;
    let cursor = dialog.index_of(selected);
    let most = usize::from(region.window_columns(88).saturating_sub(4)).clamp(1, 84);
    let has_outcomes = body_lines.iter().any(|line| line.outcome.is_some());
    let lead = if has_outcomes { 10 } else { 0 };
    let widest = body_lines
        .iter()
        .map(|line| text::width(&line.text) + lead)
        .chain(items.iter().map(|item| {
            let reason = item.why_not.as_ref().map_or(0, |why| text::width(why) + 3);
            text::width(&item.label) + reason + 6
        }))
        .chain([text::width(title) + 4, 34])
        .max()
        .unwrap_or(34)
        .min(most);
    // All items must be visible; the explanation is cut instead.
    let available = usize::from(region.rows().saturating_sub(3)).saturating_sub(items.len());
    let width = widest.saturating_sub(lead).max(1);
    let lines = wrapped_body(body_lines, width, available, region.theme.glyphs.more);
    let body_rows: usize = lines.iter().map(|(_, wrapped)| wrapped.len()).sum();
    let body_rows = body_rows.min(available);
    let gap = usize::from(body_rows > 0 && body_rows < available);
    let rows = body_rows + gap + items.len() + 2;
    let columns = u16::try_from(widest + 4).unwrap_or(u16::MAX);
    let mut window = region.window(columns, u16::try_from(rows).unwrap_or(u16::MAX), title);
    let theme = window.theme;
    body(&mut window, &lines, body_rows, lead);
    let y = u16::try_from(body_rows + gap).unwrap_or(u16::MAX);
    let (columns, rows) = (window.columns(), window.rows().saturating_sub(y));
    let choices = items.iter().enumerate();
    let choices = choices.map(|(index, item)| choice(theme, item, index == cursor));
    let mut part = window.region(0, y, columns, rows);
    part.put_choices(choices, Some(cursor));
}

/// Wraps the explanation, and cuts paragraphs if there are more rows than `available`.
fn wrapped_body<'l>(
    body: &'l [BodyLine],
    width: usize,
    available: usize,
    more: &str,
) -> Vec<(&'l BodyLine, Vec<String>)> {
    let wrapped = |line: &'l BodyLine| (line, wrap::wrap(&line.text, width));
    let mut lines: Vec<(&BodyLine, Vec<String>)> = body.iter().map(wrapped).collect();
    for most in [2, 1] {
        let rows: usize = lines.iter().map(|(_, wrapped)| wrapped.len()).sum();
        // Naming every task matters more than its full reason, which the detail pane shows.
        for (line, wrapped) in lines.iter_mut().filter(|_| rows > available) {
            *wrapped = wrap::wrap_to(&line.text, width, most, more);
        }
    }
    lines
}

/// Draws the explanation: what happens to each task, and why.
fn body(window: &mut Region<'_>, lines: &[(&BodyLine, Vec<String>)], rows: usize, lead: usize) {
    let theme = window.theme;
    let paragraphs = lines.iter().map(|(line, wrapped)| {
        let outcome = line.outcome.map_or(Line::default(), |outcome| {
            theme.span(outcome.label(), outcome_role(outcome)).into()
        });
        let height = u16::try_from(wrapped.len()).unwrap_or(u16::MAX);
        let lines = wrapped.iter();
        let text: Text<'_> = lines
            .map(|line| theme.span(line.as_str(), Role::Plain))
            .collect();
        Row::new([Cell::from(outcome), Cell::from(text)]).height(height)
    });
    let lead = Constraint::Length(u16::try_from(lead).unwrap_or(0));
    let columns = window.columns();
    let height = u16::try_from(rows).unwrap_or(u16::MAX);
    let mut part = window.region(0, 0, columns, height);
    part.put_rows(paragraphs, [lead, Constraint::Fill(1)], None);
    let all: usize = lines.iter().map(|(_, wrapped)| wrapped.len()).sum();
    if all > rows && rows > 0 {
        let more = text::plural(all - rows, "more line");
        part.put_note(height - 1, format!(" {more}"));
    }
}

/// An item of the menu with its key and, if unavailable, the reason.
fn choice(theme: Theme, item: &MenuItem, is_on: bool) -> Line<'_> {
    let can = item.why_not.is_none();
    let key_role = if can { Role::Key } else { Role::Dim };
    let role = Role::of_choice(is_on, can);
    let mut line = Line::from(theme.span(item.key.to_string(), key_role));
    pad_to(&mut line, 3);
    line.push_span(theme.span(item.label.as_str(), role));
    if let Some(why) = &item.why_not {
        line.push_span(theme.span(format!(" ({why})"), Role::Dim));
    }
    line
}
