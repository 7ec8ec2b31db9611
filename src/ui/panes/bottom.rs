//! The bottom lines: the attention line, the footer with its keys, and what quitting would do.

use crate::{
    app::{Attention, State, attention, footer_keys, quit_lines},
    domain::Stamp,
};

use super::super::{canvas::Canvas, theme::Role};

/// Draws what needs attention most, or the response to the last key.
pub(in crate::ui) fn attention_line(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let available = usize::from(canvas.columns().saturating_sub(1));
    let (line, weight) = attention(state, now, available);
    let role = match weight {
        Attention::Calm => Role::Dim,
        Attention::Reply => Role::Strong,
        Attention::Pressing => Role::Cut,
    };
    canvas.put(1, 0, &line, role);
}

/// Draws as many of the currently available keys as fit.
pub(in crate::ui) fn footer(canvas: &mut Canvas<'_>, state: &State) {
    let keys = footer_keys(state);
    let mut x = 1;
    // The last two (command palette and help) lead to all others, so they are always shown.
    let always = keys.len().saturating_sub(2);
    let width = |(key, label): &(String, String)| {
        u16::try_from(crate::domain::text::width(key) + crate::domain::text::width(label) + 3)
            .unwrap_or(u16::MAX)
    };
    let reserved: u16 = keys.iter().skip(always).map(width).sum();
    for (index, key) in keys.iter().enumerate() {
        let available = if index < always {
            canvas.columns().saturating_sub(reserved)
        } else {
            canvas.columns()
        };
        if x + width(key).saturating_sub(2) > available {
            continue;
        }
        x = canvas.put(x, 0, &key.0, Role::Key);
        x = canvas.put(x + 1, 0, &key.1, Role::Plain) + 2;
    }
}

/// Draws what quitting would do, and what stopping the keeper would.
pub(in crate::ui) fn quit(canvas: &mut Canvas<'_>, state: &State) {
    let mut x = 1;
    let columns = usize::from(canvas.columns());
    for (action, line) in quit_lines(state, columns) {
        x = canvas.put(x, 0, &state.key(action), Role::Key);
        x = canvas.put(x + 1, 0, &line, Role::Dim) + 2;
    }
}
