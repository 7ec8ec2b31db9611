//! What longhaul did and said, newest last.

use crate::{
    app::{Message, State},
    domain::{NoticeLevel, text},
};

use super::{
    super::{canvas::Canvas, theme::Role},
    detail::wrap,
};

/// The column of the words, after the time and how loud they are.
const WORDS_AT: u16 = 16;

/// The newest messages that fit; only these are formatted.
pub(in crate::ui) fn messages(canvas: &mut Canvas<'_>, state: &State) {
    canvas.put(1, 0, "Messages", Role::Heading);
    if state.messages.is_empty() {
        canvas.put(1, 2, "Nothing was said yet.", Role::Dim);
        return;
    }
    let rows = usize::from(canvas.rows().saturating_sub(2));
    let back = state.cursors[2].min(state.messages.len().saturating_sub(1));
    let room = usize::from(canvas.columns().saturating_sub(WORDS_AT + 1)).max(1);
    // From the newest up until the pane is full; a long message is wrapped, because its end says what to do.
    let mut shown: Vec<(&Message, Vec<String>)> = Vec::new();
    let mut used = 0;
    let mut first = state.messages.len() - back;
    for message in state.messages.iter().rev().skip(back) {
        let lines = wrap(&text::clean_line(&message.text), room);
        used += lines.len().max(1);
        if used > rows && !shown.is_empty() {
            break;
        }
        first -= 1;
        shown.push((message, lines));
    }
    if first == 0 && state.messages_dropped > 0 {
        let dropped = text::grouped(state.messages_dropped);
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
        for line in &lines {
            canvas.put(WORDS_AT, y, line, Role::Plain);
            y += 1;
        }
    }
    if back > 0 {
        let end = canvas.columns();
        canvas.put_before(end, 0, &format!("{back} newer below "), Role::Dim);
    }
}
