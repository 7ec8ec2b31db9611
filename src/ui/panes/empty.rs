//! The empty task list: what a task is, and which keys to press next.

use ratatui::text::Line;

use super::super::{spans::pad_to, wrap::wrap};
use crate::{
    app::{Action, Filter, State, why_not},
    domain::text,
    ui::{Region, Role},
};

/// Draws the welcome text of a new session, or a note that the filter matches nothing.
pub(in crate::ui) fn empty(region: &mut Region<'_>, state: &State) {
    let theme = region.theme;
    let available = usize::from(region.columns().saturating_sub(4)).max(1);
    let is_first = state.totals.counts == crate::app::Counts::default();
    if !is_first {
        let note = if state.list.needs_only {
            let key = state.key(Action::NeedsOnly);
            format!("Nothing needs you. Press {key} or Esc to show all tasks.")
        } else {
            "No task matches the filter. Press Esc to clear it.".to_owned()
        };
        region.put(2, 1, theme.span(note, Role::Plain));
        let problem = Filter::invalid_reason(state.list.filter.text()).unwrap_or_default();
        region.put_text(2, 3, wrap(&problem, available), Role::Needs);
        return;
    }
    if state.has_never_connected() {
        let note = state.connecting_to_host().unwrap_or_default();
        region.put(2, 1, theme.span(note, Role::Plain));
        if let Some(newest) = state.messages.log.back() {
            region.put_text(2, 3, wrap(&newest.text, available), Role::Warning);
        }
        return;
    }
    let intro = [
        "No tasks yet.",
        "",
        "A task is one call to a tool on an MCP server. It stays in this list even if the network fails or you close this \
         terminal.",
        "",
    ];
    let keys: &[(Action, &str)] = if state.servers.is_empty() {
        &[
            (Action::MarkAll, "add a server by its URL"),
            (Action::Import, "import servers from other MCP clients"),
            (Action::Help, "all keys"),
            (
                Action::Quit,
                "quit (no server yet? quit and run longhaul demo)",
            ),
        ]
    } else {
        &[
            (Action::NewCall, "start a call"),
            (Action::ShowTools, "browse the tools"),
            (Action::MarkAll, "add another server by its URL"),
            (Action::Help, "all keys"),
        ]
    };
    let lines = intro.iter().flat_map(|line| wrap(line, available.min(86)));
    let lines = lines.zip(0..).map(|(line, index)| {
        let role = if index == 0 {
            Role::Strong
        } else {
            Role::Plain
        };
        theme.span(line, role)
    });
    let y = region.put_lines(2, 1, lines);
    let can = |(key, _): &&(Action, _)| why_not(state, *key).is_none();
    let keys = keys.iter().filter(can);
    let keys: Vec<(String, &&str)> = keys.map(|(key, it)| (state.key(*key), it)).collect();
    let widest = keys.iter().map(|(key, _)| text::width(key)).max();
    let lines = keys.iter().map(|(key, label)| {
        let mut line = Line::from(theme.span(key.as_str(), Role::Key));
        pad_to(&mut line, widest.unwrap_or_default() + 2);
        line.push_span(theme.span(**label, Role::Plain));
        line
    });
    region.put_lines(4, y, lines);
}
