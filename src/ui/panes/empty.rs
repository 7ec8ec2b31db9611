//! The empty task list: what a task is, and which keys to press next.

use crate::{
    app::{Action, Filter, State},
    domain::text,
};

use super::super::{canvas::Canvas, theme::Role};

/// Draws the welcome text of a new session, or a note that the filter matches nothing.
pub(in crate::ui) fn empty(canvas: &mut Canvas<'_>, state: &State) {
    let is_first = state.totals.counts == crate::app::Counts::default();
    if !is_first {
        let note = if state.list.needs_only {
            &format!(
                "Nothing needs you. Press {} or Esc to show all tasks.",
                state.key(Action::NeedsOnly)
            )
        } else {
            "No task matches the filter. Press Esc to clear it."
        };
        canvas.put(2, 1, note, Role::Plain);
        let available = usize::from(canvas.columns().saturating_sub(4)).max(1);
        let problem = Filter::invalid_reason(state.list.filter.text()).unwrap_or_default();
        for (line, y) in crate::ui::wrap::wrap(&problem, available).iter().zip(3..) {
            canvas.put(2, y, line, Role::Needs);
        }
        return;
    }
    let intro = [
        "No tasks yet.",
        "",
        "A task is one call of a tool on an MCP server. It survives network failures, and it is still here after you \
         close this terminal.",
        "",
    ];
    let keys: &[(Action, &str)] = if state.servers.is_empty() {
        &[
            (Action::MarkAll, "add a server by its URL"),
            (Action::Import, "import servers from other MCP clients"),
            (Action::Help, "all keys"),
            (
                Action::Quit,
                "quit; longhaul demo lets you try it without a server",
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
    let mut y = 1;
    for line in intro {
        let role = if y == 1 { Role::Strong } else { Role::Plain };
        for line in crate::ui::wrap::wrap(
            line,
            usize::from(canvas.columns().saturating_sub(4).min(86)).max(1),
        ) {
            canvas.put(2, y, &line, role);
            y += 1;
        }
    }
    let keys: Vec<(String, &str)> = keys
        .iter()
        .map(|(action, label)| (state.key(*action), *label))
        .collect();
    let widest = keys.iter().map(|(key, _)| text::width(key)).max();
    let x = u16::try_from(widest.unwrap_or_default()).map_or(7, |width| width.saturating_add(6));
    for (key, label) in keys {
        canvas.put(4, y, &key, Role::Key);
        canvas.put(x, y, label, Role::Plain);
        y += 1;
    }
}
