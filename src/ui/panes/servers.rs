//! The servers pane.

use core::time::Duration;

use ratatui::text::{Line, Span};

use super::super::{labels, spans::pad_to};
use crate::{
    app::{Action, State, server_needs, task_offer},
    domain::{LinkState, ServerView, Stamp, text},
    ui::{Region, Role, wrap::wrap_to},
};

fn latency_text(latency: Duration) -> String {
    match latency.as_millis() {
        0 => "under 1 ms".to_owned(),
        ms @ 1..1000 => format!("{ms} ms"),
        _ => format!("{:.1} s", latency.as_secs_f64()),
    }
}

/// The rows of a server: its name, its properties, and a blank one.
const ROWS: u16 = 3;

/// Draws each server on two lines: its state, then its properties.
pub(in crate::ui) fn servers(region: &mut Region<'_>, state: &State, now: Stamp) {
    let theme = region.theme;
    region.put(1, 0, theme.span("Servers", Role::Heading));
    if state.servers.is_empty() {
        region.put(1, 2, theme.span("No servers yet.", Role::Strong));
        let key = state.key(Action::AddServer);
        let note = format!("Press {key} to add one by URL.");
        region.put(1, 3, theme.span(note, Role::Plain));
        return;
    }
    let columns = region.columns();
    let cursor = state.cursors[1].min(state.servers.len().saturating_sub(1));
    let fitting = usize::from(region.rows().saturating_sub(2) / ROWS).max(1);
    let first = (cursor + 1).saturating_sub(fitting);
    let shown = state.servers.iter().enumerate().skip(first).take(fitting);
    for ((index, server), slot) in shown.zip(0_u16..) {
        let y = 2 + slot * ROWS;
        let is_on = index == cursor;
        let sign = if is_on { theme.glyphs.cursor } else { " " };
        let name_role = Role::of_choice(is_on, true);
        let (state_at, url_at) = if columns < 80 { (14, 28) } else { (20, 40) };
        let (_, shown) = labels::server(state, server, theme.glyphs, now);
        let mut line = Line::from(vec![
            theme.span(format!(" {sign} "), Role::Focus),
            theme.span(shown.glyph, shown.role),
            theme.span(format!(" {}", server.name), name_role),
        ]);
        pad_to(&mut line, state_at);
        line.extend([Span::raw("  "), theme.span(shown.text, shown.role)]);
        pad_to(&mut line, url_at);
        line.push_span(theme.span(format!("  {}", server.url), Role::Dim));
        region.put(0, y, line);
        if is_on {
            region.set_style(0, y, columns, theme.style(Role::Selected));
            region.keep_visible(y..y + ROWS);
        }
        let properties = properties(state, server, now);
        let available = usize::from(columns.saturating_sub(6)).max(1);
        let lines = wrap_to(&properties, available, 2, theme.glyphs.more);
        region.put_text(5, y + 1, lines, Role::Dim);
    }
}

/// What is known of a server, the most urgent first.
fn properties(state: &State, server: &ServerView, now: Stamp) -> String {
    let info = server.server_info.as_ref();
    let mut parts: Vec<_> = info.map(|it| it.trim().to_owned()).into_iter().collect();
    if !server.era.is_empty() {
        parts.push(format!("MCP {}", server.era));
    }
    parts.extend(server.tools.map(|it| text::plural(it, "tool")));
    if server.capabilities.tasks.is_some() || server.capabilities.has_extension() {
        parts.push(format!("server tasks ({})", task_offer(server)));
    }
    parts.push(
        match server.capabilities.gives_ids {
            _ if server.capabilities.is_process => "stdio server",
            Some(true) => "resumable streams",
            Some(false) => "the last stream had no event ids",
            None if server.requests == 0 => "not contacted yet",
            None => "no event ids seen yet",
        }
        .to_owned(),
    );
    if server.requests > 0 {
        parts.push(format!("{} sent", text::plural(server.requests, "request")));
    }
    let latency = server.latency.map(latency_text);
    parts.extend(latency.map(|it| format!("latency {it}")));
    let gone_from = server
        .gone_from
        .as_ref()
        .map(|file| format!("removed from {file}: running calls continue, new calls are blocked"));
    let urgent = match &server.state {
        LinkState::Down { why, since, .. } => {
            let age = text::span(now.wall.since(*since));
            Some(format!("down for {age}: {why}"))
        }
        _ if gone_from.is_some() => None,
        _ => server_needs(state, server),
    };
    let waits = server.waiting_config.as_ref().map(ToString::to_string);
    let all = [gone_from, waits, urgent, Some(parts.join(", "))];
    all.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
