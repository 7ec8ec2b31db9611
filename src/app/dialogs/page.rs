//! A page to read.

use crate::app::{Action, KeyPress, State};

pub(in crate::app) fn page_key(
    state: &mut State,
    lines: &[String],
    scroll: &mut usize,
    key: KeyPress,
) -> bool {
    // Lines may wrap, so a page is half the rows of the screen.
    let rows = usize::from(state.size.1 / 2).saturating_sub(2).max(1);
    if let Some(Action::Back | Action::Quit | Action::Accept) = key.action {
        return false;
    }
    let most = lines.len().saturating_sub(1);
    if let Some(position) = scrolled(*scroll, most, rows, key.action) {
        *scroll = position;
    } else {
        let [down, up, close] = [Action::Down, Action::Up, Action::Back].map(|it| state.key(it));
        state.reply(format!("press {down} or {up} to scroll, {close} to close"));
    }
    true
}

/// The scroll position after a key; `None` for a key that does not scroll.
pub(super) fn scrolled(
    at: usize,
    most: usize,
    rows: usize,
    action: Option<Action>,
) -> Option<usize> {
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
