//! The overlays on top of the screen: dialogs, footer prompts and toasts.

mod call;
mod fields;
mod menu;
mod pages;
mod question;
mod typed;

use core::ops::Range;

use ratatui::{
    text::{Line, Span},
    widgets::Clear,
};

use super::spans::fit;
use crate::{
    app::{Action, Overlay, State},
    domain::{NoticeLevel, Stamp, text},
    ui::{Region, Role, wrap::wrap},
};

/// The maximum number of lines of a toast; the messages pane shows the rest.
const TOAST_LINES: usize = 2;

/// Draws the dialogs from bottom to top. Footer prompts are drawn by [`prompt`].
pub(super) fn overlays(region: &mut Region<'_>, state: &State, now: Stamp) {
    for overlay in &state.dialogs.stack {
        match overlay {
            Overlay::Page {
                title,
                lines,
                scroll,
            } => pages::page(region, title, lines, *scroll),
            Overlay::Commands { field, cursor } => pages::commands(region, state, field, *cursor),
            Overlay::Menu { menu, selected, .. } => {
                menu::menu(region, &crate::app::dialog(state, menu, now), *selected);
            }
            Overlay::Call(form) => call::call(region, state, form, now),
            Overlay::Edit(form) => typed::edit(region, state, form),
            Overlay::Question(form) => question::question(region, state, form, now),
            Overlay::Filter(_) | Overlay::Search(_) | Overlay::SaveAs { .. } => {}
        }
    }
}

/// Draws the topmost overlay as a footer prompt, if it is one; returns whether it did.
pub(super) fn prompt(region: &mut Region<'_>, state: &State) -> bool {
    match state.dialogs.stack.last() {
        Some(Overlay::Filter(field)) => {
            typed::line(region, "filter", field, "Enter applies  Esc clears");
            true
        }
        Some(Overlay::Search(field)) => {
            typed::line(region, "search", field, "Enter searches  Esc cancels");
            true
        }
        Some(Overlay::SaveAs { field, .. }) => {
            typed::line(region, "save to", field, "Enter saves  Esc cancels");
            true
        }
        _ => false,
    }
}

/// Draws the toasts in the lower right corner, newest last; a small screen shows only the most severe one. They never
/// cover the cursor's rows.
pub(super) fn toasts(region: &mut Region<'_>, state: &State, body: Range<u16>) {
    let kept = region.cursor_rows();
    let theme = region.theme;
    let columns = region.columns();
    let most = columns.saturating_sub(6).min(64);
    let toasts = state.messages.toasts.iter().enumerate();
    let severities = toasts.clone().map(|(index, toast)| (toast.level, index));
    let most_severe = severities.max().map(|(_, index)| index);
    let is_small = region.rows() < 20;
    let mut bottom = body.end;
    let is_shown = |index| !is_small || Some(index) == most_severe;
    for (_, toast) in toasts.rev().filter(|(index, _)| is_shown(*index)) {
        let (sign, role) = match toast.level {
            NoticeLevel::Info => (theme.glyphs.done, Role::Done),
            NoticeLevel::Warning => (theme.glyphs.lost, Role::Needs),
            NoticeLevel::Error => (theme.glyphs.failed, Role::Failed),
        };
        let wrapped = wrap(&toast.text, usize::from(most).max(1));
        let width = wrapped.iter().map(|line| text::width(line)).max();
        let mut width = u16::try_from(width.unwrap_or(0)).unwrap_or(most) + 5;
        let mut x = columns.saturating_sub(width + 1);
        // Take the whole row rather than leave a few visible columns next to the toast.
        if x <= 8 {
            (x, width) = (0, columns);
        }
        let is_cut = wrapped.len() > TOAST_LINES;
        let shown = wrapped.into_iter().take(TOAST_LINES);
        let mut lines: Vec<Line<'_>> = shown
            .map(|line| vec![Span::raw("   "), theme.span(line, Role::Strong)].into())
            .collect();
        if let Some(last) = lines.last_mut().filter(|_| is_cut) {
            // The cut text may contain the advice, so name the key that shows it.
            let key = state.key(Action::ShowMessages);
            let more = format!("{} {key} for details", theme.glyphs.more);
            let available = usize::from(width).saturating_sub(1 + text::width(&more));
            *last = fit(std::mem::take(last), available, "");
            last.push_span(theme.span(more, Role::Strong));
        }
        let rows = u16::try_from(lines.len()).unwrap_or(1);
        if bottom.saturating_sub(rows) < kept.end && kept.start < bottom {
            bottom = kept.start;
        }
        let rows = rows.min(bottom.saturating_sub(body.start));
        bottom = bottom.saturating_sub(rows);
        let mut part = region.region(x, bottom, width, rows);
        part.render(Clear);
        part.put_lines(0, 0, lines);
        part.put(1, 0, theme.span(sign, role));
    }
}
