//! The overlays on top of the screen: dialogs, footer prompts and toasts.

mod call;
mod fields;
mod menu;
mod pages;
mod question;
mod typed;

use super::{canvas::Canvas, theme::Role};
use crate::{
    app::{Action, Overlay, State},
    domain::{NoticeLevel, Stamp, text},
    ui::wrap::wrap,
};

/// The maximum number of lines of a toast; the messages pane shows the rest.
const TOAST_LINES: usize = 2;

/// Draws the dialogs from bottom to top. Footer prompts are drawn by [`prompt`].
pub(super) fn overlays(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    for overlay in &state.dialogs.stack {
        match overlay {
            Overlay::Help { field, cursor } => pages::help(canvas, state, field, *cursor),
            Overlay::Page {
                title,
                lines,
                scroll,
            } => pages::page(canvas, title, lines, *scroll),
            Overlay::Palette { field, cursor } => pages::palette(canvas, state, field, *cursor),
            Overlay::Menu { menu, cursor, .. } => menu::menu(canvas, state, menu, *cursor, now),
            Overlay::Call(form) => call::call(canvas, state, form, now),
            Overlay::Edit(form) => typed::edit(canvas, state, form),
            Overlay::Question(form) => question::question(canvas, state, form, now),
            Overlay::Filter(_) | Overlay::Search(_) | Overlay::SaveAs { .. } => {}
        }
    }
}

/// Draws the topmost overlay as a footer prompt, if it is one; returns whether it did.
pub(super) fn prompt(canvas: &mut Canvas<'_>, state: &State) -> bool {
    match state.dialogs.stack.last() {
        Some(Overlay::Filter(field)) => {
            typed::line(canvas, "filter", field, "Enter applies  Esc clears");
            true
        }
        Some(Overlay::Search(field)) => {
            typed::line(canvas, "search", field, "Enter searches  Esc cancels");
            true
        }
        Some(Overlay::SaveAs { field, tasks, .. }) => {
            let label = match tasks.len() {
                1 => "save to".to_owned(),
                count => format!("save {count} files to the directory"),
            };
            typed::line(canvas, &label, field, "Enter saves  Esc cancels");
            true
        }
        _ => false,
    }
}

/// Draws the toasts in the upper right corner, newest last; a small screen shows only the most severe one. They never
/// cover the cursor's rows.
pub(super) fn toasts(canvas: &mut Canvas<'_>, state: &State, top: u16) {
    let kept = canvas.cursor_rows();
    let columns = canvas.columns();
    let most = columns.saturating_sub(6).min(64);
    let most_severe = state
        .messages
        .toasts
        .iter()
        .enumerate()
        .max_by_key(|(index, toast)| {
            let severity = match toast.level {
                NoticeLevel::Info => 0,
                NoticeLevel::Warning => 1,
                NoticeLevel::Error => 2,
            };
            (severity, *index)
        })
        .map(|(index, _)| index);
    let is_small = canvas.rows() < 20;
    let mut y = top;
    for (index, toast) in state.messages.toasts.iter().enumerate() {
        if is_small && Some(index) != most_severe {
            continue;
        }
        let (sign, role) = match toast.level {
            NoticeLevel::Info => (canvas.glyphs().done, Role::Done),
            NoticeLevel::Warning => (canvas.glyphs().lost, Role::Needs),
            NoticeLevel::Error => (canvas.glyphs().failed, Role::Failed),
        };
        let lines = wrap(&toast.text, usize::from(most).max(1));
        let width = lines.iter().map(|line| text::width(line)).max();
        let width = u16::try_from(width.unwrap_or(0)).unwrap_or(most) + 5;
        let mut x = columns.saturating_sub(width + 1);
        let mut width = width;
        // Take the whole row rather than leave a few visible columns next to the toast.
        if x <= 8 {
            (x, width) = (0, columns);
        }
        // The cut text may contain the advice, so name the key that shows it.
        let more = if lines.len() > TOAST_LINES {
            let key = state.key(Action::ShowMessages);
            format!("{} {key} for details", canvas.glyphs().more)
        } else {
            String::new()
        };
        let more_wide = u16::try_from(text::width(&more)).unwrap_or(0);
        let rows = u16::try_from(lines.len().min(TOAST_LINES)).unwrap_or(1);
        if y < kept.end && kept.start < y + rows {
            y = kept.end;
        }
        for (at, line) in lines.iter().take(TOAST_LINES).enumerate() {
            let mut region = canvas.region(x, y, width, 1);
            region.clear();
            if at == 0 {
                region.put(1, 0, sign, role);
            }
            if at + 1 == TOAST_LINES && !more.is_empty() {
                let available = width.saturating_sub(4 + more_wide);
                let line = text::cut(line, usize::from(available), "");
                let end = region.put(3, 0, &line, Role::Strong);
                region.put(end, 0, &more, Role::Strong);
            } else {
                region.put(3, 0, line, Role::Strong);
            }
            y += 1;
        }
    }
}
