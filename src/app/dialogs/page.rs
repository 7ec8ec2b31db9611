//! A page to read.

use crate::app::{Overlay, State, key_press::KeyPress, keymap::Action};

pub(in crate::app) fn page_key(
    state: &mut State,
    title: String,
    lines: Vec<String>,
    at: usize,
    key: KeyPress,
) -> Option<Overlay> {
    // Lines may wrap, so a page is half the rows of the screen.
    let rows = usize::from(state.size.1 / 2).saturating_sub(2).max(1);
    let is_close = matches!(
        key.action,
        Some(Action::Back | Action::Quit | Action::Accept)
    );
    if is_close {
        return None;
    }
    let scroll =
        scrolled(at, lines.len().saturating_sub(1), rows, key.action).unwrap_or_else(|| {
            let [down, up, close] =
                [Action::Down, Action::Up, Action::Back].map(|it| state.key(it));
            state.reply(format!("press {down} or {up} to scroll, {close} to close"));
            at
        });
    Some(Overlay::Page {
        title,
        lines,
        scroll,
    })
}

/// The scroll position after a key; `None` for a key that does not scroll.
fn scrolled(at: usize, most: usize, rows: usize, action: Option<Action>) -> Option<usize> {
    Some(match action {
        Some(Action::Down) => (at + 1).min(most),
        Some(Action::Up) => at.saturating_sub(1),
        Some(Action::PageDown) => (at + rows).min(most),
        Some(Action::PageUp) => at.saturating_sub(rows),
        Some(Action::First) => 0,
        Some(Action::Last) => most,
        _ => return None,
    })
}
