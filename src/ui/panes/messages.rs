//! The messages pane: longhaul's notices, newest last.

use super::super::{canvas::Canvas, theme::Role};
use crate::{
    app::State,
    domain::{NoticeLevel, text},
    ui::wrap::wrap,
};

/// The column of the text, after time and level.
const TEXT: u16 = 16;

/// Draws the newest messages that fit, and formats only these.
pub(in crate::ui) fn messages(canvas: &mut Canvas<'_>, state: &State) {
    canvas.put(1, 0, "Messages", Role::Heading);
    if state.messages.log.is_empty() {
        canvas.put(1, 2, "No messages yet.", Role::Dim);
        return;
    }
    let rows = usize::from(canvas.rows().saturating_sub(2));
    let back = state.cursors[2].min(state.messages.log.len().saturating_sub(1));
    let end = state.messages.log.len() - back;
    let available = usize::from(canvas.columns().saturating_sub(TEXT + 1)).max(1);
    // From the newest backward until the pane is full.
    let mut shown = Vec::new();
    let mut filled = 0;
    for message in state.messages.log.iter().take(end).rev() {
        let lines = wrap(&text::clean_line(&message.text), available);
        if filled > 0 && filled + lines.len() > rows {
            break;
        }
        filled += lines.len();
        shown.push((message, lines));
    }
    if shown.len() == end && state.messages.dropped > 0 {
        let dropped = text::grouped(state.messages.dropped);
        canvas.put(
            12,
            0,
            &format!("{dropped} older messages dropped"),
            Role::Dim,
        );
    }
    let mut y = 2;
    for (message, lines) in shown.into_iter().rev() {
        let (word, role) = match message.level {
            NoticeLevel::Info => ("info ", Role::Dim),
            NoticeLevel::Warning => ("warn ", Role::Cut),
            NoticeLevel::Error => ("error", Role::Failed),
        };
        let x = canvas.put(1, y, &state.clock_seconds(message.at), Role::Dim);
        canvas.put(x + 1, y, word, role);
        for line in lines {
            canvas.put(TEXT, y, &line, Role::Plain);
            y += 1;
        }
    }
    if back > 0 {
        let end = canvas.columns();
        canvas.put_right_aligned(end, 0, &format!("{back} newer below "), Role::Dim);
    }
}
