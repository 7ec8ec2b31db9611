//! The servers pane.

use core::time::Duration;

use super::super::{canvas::Canvas, labels, theme::Role};
use crate::{
    app::{Action, State, server_needs, servers_shown, task_offer},
    domain::{LinkState, ServerView, Stamp, text},
    ui::wrap::wrap,
};

fn latency_text(latency: Duration) -> String {
    match latency.as_millis() {
        0 => "under 1 ms".to_owned(),
        ms @ 1..1000 => format!("{ms} ms"),
        _ => format!("{:.1} s", latency.as_secs_f64()),
    }
}

/// Draws each server on two lines: its state, then its properties.
pub(in crate::ui) fn servers(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    canvas.put(1, 0, "Servers", Role::Heading);
    if state.servers.is_empty() {
        canvas.put(1, 2, "No servers yet.", Role::Strong);
        let key = state.key(Action::AddServer);
        let note =
            format!("Press {key} to add one by URL; longhaul connects when you first use it.");
        canvas.put(1, 3, &note, Role::Plain);
        return;
    }
    let glyphs = canvas.glyphs();
    let columns = canvas.columns();
    let cursor = state.cursors[1].min(state.servers.len().saturating_sub(1));
    let (fitting, first) = servers_shown(canvas.rows(), cursor);
    for ((index, server), slot) in state
        .servers
        .iter()
        .enumerate()
        .skip(first)
        .take(fitting)
        .zip(0_u16..)
    {
        let y = 2 + slot * 3;
        let is_on = index == cursor;
        if is_on {
            canvas.put(1, y, glyphs.cursor, Role::Focus);
            canvas.keep_visible(y..y + 3);
        }
        let shown = labels::server(state, server, glyphs, now);
        canvas.put(3, y, shown.glyph, shown.role);
        let name = text::clean_line(server.name.as_str());
        let x = canvas.put(5, y, &name, if is_on { Role::Strong } else { Role::Plain });
        let (state_at, url_at) = if columns < 80 { (14, 28) } else { (20, 40) };
        let x = canvas.put(x.max(state_at) + 2, y, &shown.text, shown.role);
        let url = text::clean_line(&server.url);
        canvas.put(x.max(url_at) + 2, y, &url, Role::Dim);
        if is_on {
            canvas.apply_style(0, y, columns, Role::Selected);
        }
        let properties = properties(state, server, now).join(", ");
        let lines = wrap(&properties, usize::from(columns.saturating_sub(6)).max(1));
        for (line, y) in lines.iter().take(2).zip(y + 1..) {
            canvas.put(5, y, line, Role::Dim);
        }
    }
}

/// What is known of a server, the most urgent first.
fn properties(state: &State, server: &ServerView, now: Stamp) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(info) = &server.server_info {
        parts.push(text::clean_line(info).trim().to_owned());
    }
    if !server.era.is_empty() {
        parts.push(text::clean_line(&server.era).into_owned());
    }
    if let Some(tools) = server.tools {
        parts.push(text::plural(
            u64::try_from(tools).unwrap_or(u64::MAX),
            "tool",
        ));
    }
    if server.capabilities.tasks.is_some() || server.capabilities.has_extension() {
        parts.push(format!("tasks {}", task_offer(server)));
    }
    parts.push(
        match server.capabilities.gives_ids {
            _ if server.capabilities.is_process => "child process: ends when longhaul exits",
            Some(true) => "event ids: streams can be resumed",
            Some(false) => "no event ids: streams can't be resumed",
            None => "no event ids seen yet",
        }
        .to_owned(),
    );
    parts.push(text::plural(server.requests, "request"));
    if let Some(latency) = server.latency {
        parts.push(format!("latency {}", latency_text(latency)));
    }
    match &server.state {
        LinkState::Down { why, since, .. } => {
            let age = text::span(now.wall.since(*since));
            parts.insert(0, format!("down for {age}: {}", text::clean_line(why)));
        }
        _ => parts
            .splice(0..0, server_needs(state, server))
            .for_each(drop),
    }
    if let Some(file) = &server.gone_from {
        let warning = format!("no longer in {file}: running calls continue, new calls are blocked");
        parts.insert(0, text::clean_line(&warning).into_owned());
    }
    parts
}
