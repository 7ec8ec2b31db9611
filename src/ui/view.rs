//! The entry point: draws one frame.

use ratatui::{
    Frame,
    layout::Rect,
    widgets::{Paragraph, Wrap},
};

use crate::{
    app::{Pane, PaneHeights, SMALLEST, State, is_large_enough},
    domain::Stamp,
    ui::{Region, Theme},
};

use super::{
    overlays,
    panes::{bottom, detail, empty, header, list, messages, servers, timeline, tools},
};

/// Draws `state` as of `now`, at any terminal size.
pub fn view(frame: &mut Frame<'_>, state: &State, now: Stamp) {
    let area = frame.area();
    let shown_at = state.shown_at(now);
    let mut cursor = 0..0;
    let theme = Theme::of(state.setup.look);
    let mut region = Region::new(frame.buffer_mut(), &mut cursor, area, theme);
    if is_large_enough((area.width, area.height)) {
        screen(&mut region, state, area, shown_at);
    } else {
        too_small(&mut region);
    }
    if state.setup.look.ascii {
        region.force_ascii();
    }
    region.split_graphemes();
}

fn too_small(region: &mut Region<'_>) {
    let (columns, rows) = (region.columns(), region.rows());
    let message = format!(
        "longhaul needs at least {}x{}; this terminal is {columns}x{rows}. Ctrl-C quits.",
        SMALLEST.0, SMALLEST.1
    );
    // Wrapped rather than cut, because this message must be readable at any size.
    region.render(Paragraph::new(message).wrap(Wrap { trim: true }));
}

fn screen(region: &mut Region<'_>, state: &State, area: Rect, now: Stamp) {
    let rows = PaneHeights::of(state, (area.width, area.height));
    let mut y = area.y;
    // The parts follow one another from top to bottom.
    let mut draw = |height: u16, draw: &mut dyn FnMut(&mut Region<'_>)| {
        if height > 0 {
            draw(&mut region.at(Rect { y, height, ..area }));
        }
        y += height;
    };
    draw(rows.header, &mut |it| header::header(it, state, now));
    draw(rows.banner, &mut |it| header::banner(it, state, now));
    match state.pane {
        Pane::Tasks if state.list.rows.is_empty() => {
            draw(rows.titles, &mut |_| {});
            draw(rows.list, &mut |it| empty::empty(it, state));
            draw(rows.detail, &mut |_| {});
        }
        Pane::Tasks => {
            draw(rows.titles, &mut |it| list::titles(it, state, rows.list));
            draw(rows.list, &mut |it| list::list(it, state, now));
            draw(rows.detail, &mut |it| detail::detail(it, state, now));
        }
        Pane::Tools => draw(rows.list, &mut |it| tools::tools(it, state)),
        Pane::Servers => draw(rows.list, &mut |it| servers::servers(it, state, now)),
        Pane::Timeline => draw(rows.list, &mut |it| timeline::timeline(it, state, now)),
        Pane::Messages => draw(rows.list, &mut |it| messages::messages(it, state)),
    }
    draw(rows.attention, &mut |it| {
        bottom::attention_line(it, state, now);
    });
    draw(rows.footer, &mut |it| {
        if !overlays::prompt(it, state) {
            bottom::footer(it, state);
        }
    });
    draw(rows.quit, &mut |it| bottom::quit(it, state));
    // Drawn below the dialogs, which must be fully readable; the messages pane keeps every message.
    if state.pane != Pane::Messages {
        // Toasts are between the pane's titles and the footer.
        let top = rows.header + rows.banner + 1;
        let below = rows.attention + rows.footer + rows.quit;
        let bottom = region.rows().saturating_sub(below);
        overlays::toasts(region, state, top..bottom);
    }
    overlays::overlays(region, state, now);
}
