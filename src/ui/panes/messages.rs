//! The messages pane: longhaul's notices, newest last.

use ratatui::{
    layout::Constraint,
    text::{Line, Text},
    widgets::Row,
};

use crate::{
    app::State,
    domain::{NoticeLevel, text},
    ui::{Region, Role, wrap::wrap},
};

/// The column of the text, after time and level.
const TEXT: u16 = 16;

/// Draws the newest messages that fit, and formats only these.
pub(in crate::ui) fn messages(region: &mut Region<'_>, state: &State) {
    let theme = region.theme;
    let end = region.put(1, 0, theme.span("Messages", Role::Heading));
    if state.messages.log.is_empty() {
        region.put(1, 2, theme.span("No messages yet.", Role::Dim));
        return;
    }
    let columns = region.columns();
    let rows = usize::from(region.rows().saturating_sub(2));
    let back = state.cursors[2].min(state.messages.log.len().saturating_sub(1));
    let newest = state.messages.log.len() - back;
    let available = usize::from(columns.saturating_sub(TEXT + 1)).max(1);
    // From the newest backward until the pane is full.
    let mut shown = Vec::new();
    let mut filled = 0;
    for message in state.messages.log.iter().take(newest).rev() {
        let lines = wrap(&message.text, available);
        if filled > 0 && filled + lines.len() > rows {
            break;
        }
        filled += lines.len();
        let (word, role) = match message.level {
            NoticeLevel::Info => ("info", Role::Dim),
            NoticeLevel::Warning => ("warn", Role::Warning),
            NoticeLevel::Error => ("error", Role::Failed),
        };
        let time = format!("{} ", state.clock_seconds(message.at));
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        let lines = lines.into_iter().map(|line| theme.span(line, Role::Plain));
        let head = Line::from(vec![theme.span(time, Role::Dim), theme.span(word, role)]);
        let cells = [Text::from(head), lines.collect()];
        shown.push(Row::new(cells).height(height));
    }
    if shown.len() == newest && state.messages.dropped > 0 {
        let dropped = text::grouped(state.messages.dropped);
        let note = format!("{dropped} older messages dropped");
        region.put(end + 3, 0, theme.span(note, Role::Dim));
    }
    shown.reverse();
    let widths = [Constraint::Length(TEXT - 1), Constraint::Fill(1)];
    let mut table = region.region(1, 2, columns, u16::MAX);
    table.put_rows(shown, widths, None);
    if back > 0 {
        region.put_note(0, format!("{back} newer below "));
    }
}
