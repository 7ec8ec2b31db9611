//! The entry point: draws one frame.

use ratatui::Frame;

use crate::{
    app::{Pane, SMALLEST, State},
    domain::Stamp,
};

use super::{
    canvas::Canvas,
    layout::Layout,
    overlays,
    panes::{bottom, detail, empty, header, list, messages, servers, timeline, tools},
    theme::Role,
};

/// Draws `state` as of `now`, at any terminal size.
pub fn view(frame: &mut Frame<'_>, state: &State, now: Stamp) {
    let area = frame.area();
    let shown_at = state.shown_at(now);
    let mut cursor = 0..0;
    let mut canvas = Canvas::new(frame.buffer_mut(), &mut cursor, area, state.setup.look);
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        too_small(&mut canvas);
    } else {
        screen(&mut canvas, state, area, shown_at);
    }
    if state.setup.look.ascii {
        canvas.force_ascii();
    }
}

fn too_small(canvas: &mut Canvas<'_>) {
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let message = format!(
        "longhaul needs {}x{}, this is {columns}x{rows}",
        SMALLEST.0, SMALLEST.1
    );
    // Wrapped rather than cut, because this message must be readable at any size.
    let mut y = 0;
    let mut x = 0;
    for word in message.split(' ') {
        let width = u16::try_from(word.len()).unwrap_or(u16::MAX);
        if x > 0 && x + width > columns {
            y += 1;
            x = 0;
        }
        x = canvas.put(x, y, word, Role::Plain) + 1;
    }
}

fn screen(canvas: &mut Canvas<'_>, state: &State, area: ratatui::layout::Rect, now: Stamp) {
    let layout = Layout::of(state, area);
    let mut region = |rect: ratatui::layout::Rect, draw: &mut dyn FnMut(&mut Canvas<'_>)| {
        let mut region = canvas.region(
            rect.x.saturating_sub(area.x),
            rect.y.saturating_sub(area.y),
            rect.width,
            rect.height,
        );
        if region.rows() > 0 {
            draw(&mut region);
        }
    };
    region(layout.header, &mut |c| header::header(c, state, now));
    region(layout.banner, &mut |c| header::banner(c, state, now));
    match state.pane {
        Pane::Tasks if state.list.rows.is_empty() => {
            region(layout.list, &mut |c| empty::empty(c, state));
        }
        Pane::Tasks => {
            region(layout.titles, &mut |c| {
                list::titles(c, state, layout.list.height);
            });
            region(layout.list, &mut |c| list::list(c, state, now));
            region(layout.detail, &mut |c| detail::detail(c, state, now));
        }
        Pane::Tools => region(layout.list, &mut |c| tools::tools(c, state)),
        Pane::Servers => region(layout.list, &mut |c| servers::servers(c, state, now)),
        Pane::Timeline => region(layout.list, &mut |c| timeline::timeline(c, state, now)),
        Pane::Messages => region(layout.list, &mut |c| messages::messages(c, state)),
    }
    region(layout.attention, &mut |c| {
        bottom::attention_line(c, state, now);
    });
    region(layout.footer, &mut |c| {
        if !overlays::prompt(c, state) {
            bottom::footer(c, state);
        }
    });
    region(layout.quit, &mut |c| bottom::quit(c, state));
    // Drawn below the dialogs, which must be fully readable; the messages pane keeps every message.
    if state.pane != Pane::Messages {
        // Toasts start below the pane's titles.
        let shown = match (state.pane, layout.list.height) {
            (Pane::Tasks, 0) => layout.detail.y + 1,
            (Pane::Tasks, _) => layout.list.y,
            _ => layout.list.y + 1,
        };
        overlays::toasts(canvas, state, shown.saturating_sub(area.y));
    }
    overlays::overlays(canvas, state, now);
}
