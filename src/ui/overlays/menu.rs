//! A menu dialog: explanatory lines, then the items, each with its key.

use super::super::{canvas::Canvas, theme::Role};
use crate::{
    app::{BodyLine, Dialog, Menu, MenuItem, State, dialog},
    domain::{Stamp, text},
    ui::{panes::list::outcome_role, wrap::wrap},
};

pub(super) fn menu(canvas: &mut Canvas<'_>, state: &State, menu: &Menu, cursor: usize, now: Stamp) {
    let Dialog {
        title,
        body: body_lines,
        items,
        ..
    } = dialog(state, menu, now);
    let most = usize::from(canvas.window_columns(88).saturating_sub(4)).clamp(1, 84);
    let lead = if body_lines.iter().any(|line| line.outcome.is_some()) {
        10
    } else {
        0
    };
    let widest = body_lines
        .iter()
        .map(|line| text::width(&line.text) + lead)
        .chain(items.iter().map(|item| {
            let reason = item.why_not.as_ref().map_or(0, |why| text::width(why) + 3);
            text::width(&item.label) + reason + 6
        }))
        .chain([text::width(&title) + 4, 34])
        .max()
        .unwrap_or(34)
        .min(most);
    // All items must be visible; the explanation is cut instead.
    let available = usize::from(canvas.rows().saturating_sub(3)).saturating_sub(items.len());
    let width = widest.saturating_sub(lead).max(1);
    let lines = wrapped_body(&body_lines, width, available, canvas.glyphs().more);
    let body_rows: usize = lines.iter().map(|(_, wrapped)| wrapped.len()).sum();
    let body_rows = body_rows.min(available);
    let gap = usize::from(body_rows > 0 && body_rows < available);
    let rows = body_rows + gap + items.len() + 2;
    let columns = u16::try_from(widest + 4).unwrap_or(u16::MAX);
    let mut window = canvas.window(columns, u16::try_from(rows).unwrap_or(u16::MAX), &title);
    let mut y = body(&mut window, &lines, body_rows, lead);
    y += u16::try_from(gap).unwrap_or(0);
    menu_items(&mut window, y, &items, cursor);
}

/// Wraps the explanation, and cuts paragraphs if there are more rows than `available`.
fn wrapped_body<'l>(
    body: &'l [BodyLine],
    width: usize,
    available: usize,
    more: &str,
) -> Vec<(&'l BodyLine, Vec<String>)> {
    let wrapped = |line: &'l BodyLine| (line, wrap(&line.text, width));
    let mut lines: Vec<(&BodyLine, Vec<String>)> = body.iter().map(wrapped).collect();
    for most in [2, 1] {
        let rows: usize = lines.iter().map(|(_, wrapped)| wrapped.len()).sum();
        // Naming every task matters more than its full reason, which the detail pane shows.
        for (_, wrapped) in lines.iter_mut().filter(|_| rows > available) {
            if wrapped.len() > most {
                wrapped.truncate(most);
                if let Some(last) = wrapped.last_mut() {
                    last.push_str(more);
                }
            }
        }
    }
    lines
}

/// Draws the explanation; returns the row below.
fn body(
    window: &mut Canvas<'_>,
    lines: &[(&BodyLine, Vec<String>)],
    rows: usize,
    lead: usize,
) -> u16 {
    let mut y = 0;
    'body: for (line, wrapped) in lines {
        for (index, row) in wrapped.iter().enumerate() {
            if usize::from(y) >= rows {
                break 'body;
            }
            if let (0, Some(outcome)) = (index, line.outcome) {
                window.put(0, y, outcome.label(), outcome_role(outcome));
            }
            window.put(u16::try_from(lead).unwrap_or(0), y, row, Role::Plain);
            y += 1;
        }
    }
    let all: usize = lines.iter().map(|(_, wrapped)| wrapped.len()).sum();
    if all > rows && y > 0 {
        let width = window.columns();
        window.put_right_aligned(
            width,
            y - 1,
            &format!(" {} more lines", all - rows),
            Role::Dim,
        );
    }
    y
}

fn menu_items(window: &mut Canvas<'_>, mut y: u16, items: &[MenuItem], cursor: usize) {
    let sign = window.glyphs().cursor;
    for (index, item) in items.iter().enumerate() {
        let is_on = index == cursor;
        if is_on {
            window.put(0, y, sign, Role::Focus);
        }
        let can = item.why_not.is_none();
        window.put(
            2,
            y,
            &item.key.to_string(),
            if can { Role::Key } else { Role::Dim },
        );
        let role = match (is_on, can) {
            (true, _) => Role::Strong,
            (false, true) => Role::Plain,
            (false, false) => Role::Dim,
        };
        let x = window.put(5, y, &item.label, role);
        if let Some(why) = &item.why_not {
            window.put(x + 1, y, &format!("({why})"), Role::Dim);
        }
        if is_on {
            let width = window.columns();
            window.apply_style(0, y, width, Role::Selected);
        }
        y += 1;
    }
}
