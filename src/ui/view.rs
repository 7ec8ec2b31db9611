//! The entry point: draws one frame.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    widgets::{Paragraph, Wrap},
};

use crate::{
    app::{Pane, PaneHeights, SMALLEST, State, is_large_enough},
    domain::Stamp,
};

use super::{
    overlays,
    panes::{bottom, detail, empty, header, list, messages, servers, timeline, tools},
    region::Region,
    theme::Theme,
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
    let heights = PaneHeights::of(state, (area.width, area.height));
    let rows = [
        heights.header,
        heights.banner,
        heights.titles,
        heights.list,
        heights.detail,
        heights.attention,
        heights.footer,
        heights.quit,
    ];
    let [
        header,
        banner,
        titles,
        list,
        detail,
        attention,
        footer,
        quit,
    ] = Layout::vertical(rows.map(Constraint::Length)).areas(area);
    let mut draw = |area: Rect, draw: &mut dyn FnMut(&mut Region<'_>)| {
        if area.height > 0 {
            draw(&mut region.at(area));
        }
    };
    draw(header, &mut |it| header::header(it, state, now));
    draw(banner, &mut |it| header::banner(it, state, now));
    match state.pane {
        Pane::Tasks if state.list.rows.is_empty() => {
            draw(list, &mut |it| empty::empty(it, state));
        }
        Pane::Tasks => {
            draw(titles, &mut |it| list::titles(it, state, heights.list));
            draw(list, &mut |it| list::list(it, state, now));
            draw(detail, &mut |it| detail::detail(it, state, now));
        }
        Pane::Tools => draw(list, &mut |it| tools::tools(it, state)),
        Pane::Servers => draw(list, &mut |it| servers::servers(it, state, now)),
        Pane::Timeline => draw(list, &mut |it| timeline::timeline(it, state, now)),
        Pane::Messages => draw(list, &mut |it| messages::messages(it, state)),
    }
    draw(attention, &mut |it| bottom::attention_line(it, state, now));
    draw(footer, &mut |it| {
        if !overlays::prompt(it, state) {
            bottom::footer(it, state);
        }
    });
    draw(quit, &mut |it| bottom::quit(it, state));
    // Drawn below the dialogs, which must be fully readable; the messages pane keeps every message.
    if state.pane != Pane::Messages {
        // Toasts start below the pane's titles.
        let top = match (state.pane, heights.list) {
            (Pane::Tasks, 0) => detail.y + 1,
            (Pane::Tasks, _) => list.y,
            _ => list.y + 1,
        };
        overlays::toasts(region, state, top - area.y);
    }
    overlays::overlays(region, state, now);
}
