//! A choice: what has to be known, then what can be chosen, each with its letter.

use crate::{
    app::{BodyLine, Menu, State, body, items, title},
    domain::{Stamp, text},
};

use super::super::{canvas::Canvas, panes::detail::wrap, theme::Role};

pub(super) fn menu(canvas: &mut Canvas<'_>, state: &State, menu: &Menu, cursor: usize, now: Stamp) {
    let title = title(menu);
    let told = body(state, menu, now);
    let items = items(state, menu);
    let most = usize::from(canvas.window_columns(88).saturating_sub(4)).clamp(1, 84);
    let lead = if told.iter().any(|line| !line.label.is_empty()) {
        8
    } else {
        0
    };
    let widest = told
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
    let mut lines: Vec<(&BodyLine, Vec<String>)> = told
        .iter()
        .map(|line| (line, wrap(&line.text, widest.saturating_sub(lead).max(1))))
        .collect();
    // What can be chosen has to be seen; what is told gives way.
    let room = usize::from(canvas.rows().saturating_sub(3)).saturating_sub(items.len());
    let more = canvas.glyphs().more;
    for most in [2, 1] {
        let rows: usize = lines.iter().map(|(_, wrapped)| wrapped.len()).sum();
        // That each task is named matters more than its whole reason, which the detail pane has.
        for (_, wrapped) in lines.iter_mut().filter(|_| rows > room) {
            if wrapped.len() > most {
                wrapped.truncate(most);
                if let Some(last) = wrapped.last_mut() {
                    last.push_str(more);
                }
            }
        }
    }
    let body_rows: usize = lines.iter().map(|(_, wrapped)| wrapped.len()).sum();
    let body_rows = body_rows.min(room);
    let gap = usize::from(body_rows > 0 && body_rows < room);
    let rows = body_rows + gap + items.len() + 2;
    let columns = u16::try_from(widest + 4).unwrap_or(u16::MAX);
    let mut window = canvas.window(columns, u16::try_from(rows).unwrap_or(u16::MAX), &title);
    let mut y = 0;
    'told: for (line, wrapped) in &lines {
        for (place, words) in wrapped.iter().enumerate() {
            if usize::from(y) >= body_rows {
                break 'told;
            }
            let role = match line.label {
                "DIES" => Role::Failed,
                "LIKELY" => Role::Cut,
                _ => Role::Dim,
            };
            if place == 0 {
                window.put(0, y, line.label, role);
            }
            window.put(u16::try_from(lead).unwrap_or(0), y, words, Role::Plain);
            y += 1;
        }
    }
    let all: usize = lines.iter().map(|(_, wrapped)| wrapped.len()).sum();
    if all > body_rows && y > 0 {
        let wide = window.columns();
        window.put_before(
            wide,
            y - 1,
            &format!(" {} more lines", all - body_rows),
            Role::Dim,
        );
    }
    y += u16::try_from(gap).unwrap_or(0);
    let sign = window.glyphs().cursor;
    for (place, item) in items.iter().enumerate() {
        let is_on = place == cursor;
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
            let wide = window.columns();
            window.lay(0, y, wide, Role::Selected);
        }
        y += 1;
    }
}
