//! The bottom lines: the attention line, the footer with its keys, and what quitting would do.

use ratatui::text::Line;

use crate::{
    app::{Attention, State, attention, footer_keys, quit_lines},
    domain::{Stamp, text},
    ui::{Region, Role},
};

/// Draws what needs attention most, or the response to the last key.
pub(in crate::ui) fn attention_line(region: &mut Region<'_>, state: &State, now: Stamp) {
    let available = usize::from(region.columns().saturating_sub(1));
    let (line, weight) = attention(state, now, available);
    let role = match weight {
        Attention::Calm => Role::Dim,
        Attention::Reply => Role::Strong,
        Attention::Pressing => Role::Warning,
    };
    let theme = region.theme;
    let line = text::clean_line(&line);
    let line = text::cut(&line, available, theme.glyphs.more).into_owned();
    region.put(1, 0, theme.span(line, role));
}

/// Draws as many of the currently available keys as fit.
pub(in crate::ui) fn footer(region: &mut Region<'_>, state: &State) {
    let theme = region.theme;
    let keys = footer_keys(state).into_iter().map(|(key, label)| {
        let label = theme.span(format!(" {label}"), Role::Plain);
        Line::from(vec![theme.span(key, Role::Key), label])
    });
    let keys: Vec<Line<'_>> = keys.collect();
    // The last two (for all keys and commands) lead to all others, so they are always shown.
    let always = keys.len().saturating_sub(2);
    let reserved: usize = keys.iter().skip(always).map(|key| key.width() + 2).sum();
    let columns = usize::from(region.columns());
    let mut line = Line::from(" ");
    for (index, key) in keys.into_iter().enumerate() {
        let reserved = if index < always { reserved } else { 0 };
        if line.width() + key.width() + reserved <= columns {
            line.extend(key);
            line.push_span("  ");
        }
    }
    region.put(0, 0, line);
}

/// Draws what quitting would do, and what stopping the keeper would.
pub(in crate::ui) fn quit(region: &mut Region<'_>, state: &State) {
    let theme = region.theme;
    let mut line = Line::from(" ");
    for (action, effect) in quit_lines(state) {
        line.extend([
            theme.span(state.key(action), Role::Key),
            theme.span(format!(" {effect}  "), Role::Dim),
        ]);
    }
    region.put(0, 0, line);
}
