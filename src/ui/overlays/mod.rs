//! What lies over the screen and takes the keys.

mod call;
mod fields;
mod menu;
mod pages;
mod question;
mod typed;

use crate::{
    app::{Action, Overlay, State},
    domain::{NoticeLevel, Stamp, text},
};

use super::{canvas::Canvas, panes::detail::wrap, theme::Role};

/// Lines of a message that lies over the screen; the messages pane has the rest.
const TOAST_LINES: usize = 2;

/// The layers from bottom to top; the lines that are typed in the footer are drawn there.
pub(super) fn overlays(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    for overlay in &state.overlays {
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

/// The line that is typed in the footer, if there is one.
pub(super) fn prompt(canvas: &mut Canvas<'_>, state: &State) -> bool {
    match state.overlays.last() {
        Some(Overlay::Filter(field)) => {
            typed::line(canvas, "filter", field, "Enter keeps  Esc clears");
            true
        }
        Some(Overlay::Search(field)) => {
            typed::line(canvas, "search", field, "Enter searches  Esc closes");
            true
        }
        Some(Overlay::SaveAs { field, tasks, .. }) => {
            let label = match tasks.len() {
                1 => "save to".to_owned(),
                count => format!("save {count} files to the directory"),
            };
            typed::line(canvas, &label, field, "Enter saves  Esc closes");
            true
        }
        _ => false,
    }
}

/// Short messages in the upper right corner, newest last; a small screen shows the one that matters most. None covers the
/// rows that the cursor is in.
pub(super) fn toasts(canvas: &mut Canvas<'_>, state: &State, top: u16) {
    let kept = canvas.cursor_rows();
    let columns = canvas.columns();
    let most = columns.saturating_sub(6).min(64);
    let loudest = state
        .toasts
        .iter()
        .enumerate()
        .max_by_key(|(place, toast)| {
            let loud = match toast.level {
                NoticeLevel::Info => 0,
                NoticeLevel::Warning => 1,
                NoticeLevel::Error => 2,
            };
            (loud, *place)
        })
        .map(|(place, _)| place);
    let is_small = canvas.rows() < 20;
    let mut y = top;
    for (place, toast) in state.toasts.iter().enumerate() {
        if is_small && Some(place) != loudest {
            continue;
        }
        let (sign, role) = match toast.level {
            NoticeLevel::Info => (canvas.glyphs().done, Role::Done),
            NoticeLevel::Warning => (canvas.glyphs().lost, Role::Needs),
            NoticeLevel::Error => (canvas.glyphs().failed, Role::Failed),
        };
        let lines = wrap(&toast.text, usize::from(most).max(1));
        let wide = lines.iter().map(|line| text::width(line)).max();
        let wide = u16::try_from(wide.unwrap_or(0)).unwrap_or(most) + 5;
        let mut x = columns.saturating_sub(wide + 1);
        let mut wide = wide;
        // The whole row rather than what peeps out beside it.
        if x <= 8 {
            (x, wide) = (0, columns);
        }
        // The rest may be the advice: the key to it is named.
        let more = if lines.len() > TOAST_LINES {
            let key = state.key(Action::ShowMessages);
            format!("{} {key} has it all", canvas.glyphs().more)
        } else {
            String::new()
        };
        let more_wide = u16::try_from(text::width(&more)).unwrap_or(0);
        let rows = u16::try_from(lines.len().min(TOAST_LINES)).unwrap_or(1);
        if y < kept.end && kept.start < y + rows {
            y = kept.end;
        }
        for (at, line) in lines.iter().take(TOAST_LINES).enumerate() {
            let mut part = canvas.part(x, y, wide, 1);
            part.clear();
            if at == 0 {
                part.put(1, 0, sign, role);
            }
            if at + 1 == TOAST_LINES && !more.is_empty() {
                let room = wide.saturating_sub(4 + more_wide);
                let line = text::cut(line, usize::from(room), "");
                let end = part.put(3, 0, &line, Role::Strong);
                part.put(end, 0, &more, Role::Strong);
            } else {
                part.put(3, 0, line, Role::Strong);
            }
            y += 1;
        }
    }
}
