//! What lies over the screen and takes the keys.

mod call;
mod menu;
mod pages;
mod typed;

use crate::{
    app::{Overlay, State},
    domain::{NoticeLevel, Stamp, text},
};

use super::{canvas::Canvas, theme::Role};

/// The layers from bottom to top; the lines that are typed in the footer are drawn there.
pub(super) fn overlays(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    for overlay in &state.overlays {
        match overlay {
            Overlay::Help { scroll } => pages::help(canvas, *scroll),
            Overlay::Palette { field, cursor } => pages::palette(canvas, state, field, *cursor),
            Overlay::Menu { menu, cursor, .. } => menu::menu(canvas, state, menu, *cursor, now),
            Overlay::Call(form) => call::call(canvas, state, form, now),
            Overlay::Edit(form) => typed::edit(canvas, state, form),
            Overlay::Filter(_) | Overlay::Search(_) => {}
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
        _ => false,
    }
}

/// Short messages in the upper right corner, newest last; they never cover a dialog's keys.
pub(super) fn toasts(canvas: &mut Canvas<'_>, state: &State, top: u16) {
    let columns = canvas.columns();
    let most = columns.saturating_sub(4).min(64);
    for (toast, y) in state.toasts.iter().zip(top..) {
        let (sign, role) = match toast.level {
            NoticeLevel::Info => (canvas.glyphs().done, Role::Done),
            NoticeLevel::Warning => (canvas.glyphs().lost, Role::Needs),
            NoticeLevel::Error => (canvas.glyphs().failed, Role::Failed),
        };
        let words = text::cut(&toast.text, usize::from(most), canvas.glyphs().more).into_owned();
        let wide = u16::try_from(text::width(&words)).unwrap_or(most) + 5;
        let x = columns.saturating_sub(wide + 1);
        let mut part = canvas.part(x, y, wide, 1);
        part.clear();
        part.put(1, 0, sign, role);
        part.put(3, 0, &words, Role::Strong);
    }
}
