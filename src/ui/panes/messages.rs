//! What longhaul did and said, newest last.

use crate::{
    app::State,
    domain::{NoticeLevel, text},
};

use super::super::{canvas::Canvas, theme::Role};

/// The newest messages that fit; only these are formatted.
pub(in crate::ui) fn messages(canvas: &mut Canvas<'_>, state: &State) {
    canvas.put(1, 0, "Messages", Role::Heading);
    if state.messages.is_empty() {
        canvas.put(1, 2, "Nothing was said yet.", Role::Dim);
        return;
    }
    let rows = canvas.rows().saturating_sub(2);
    let back = state.cursors[2].min(state.messages.len().saturating_sub(1));
    let shown = usize::from(rows);
    let end = state.messages.len() - back;
    let first = end.saturating_sub(shown);
    if first == 0 && state.messages_dropped > 0 {
        let dropped = text::grouped(state.messages_dropped);
        canvas.put(
            12,
            0,
            &format!("{dropped} older messages dropped"),
            Role::Dim,
        );
    }
    for (message, y) in state
        .messages
        .iter()
        .skip(first)
        .take(end - first)
        .zip(2_u16..)
    {
        let (word, role) = match message.level {
            NoticeLevel::Info => ("info ", Role::Dim),
            NoticeLevel::Warning => ("warn ", Role::Cut),
            NoticeLevel::Error => ("error", Role::Failed),
        };
        let x = canvas.put(1, y, &state.clock_seconds(message.at), Role::Dim);
        let x = canvas.put(x + 1, y, word, role);
        canvas.put(x + 1, y, &text::clean_line(&message.text), Role::Plain);
    }
    if back > 0 {
        let end = canvas.columns();
        canvas.put_before(end, 0, &format!("{back} newer below "), Role::Dim);
    }
}
