//! The list without a row: what a task is, and the next key.

use crate::{
    app::{Action, Filter, State},
    domain::text,
};

use super::super::{canvas::Canvas, theme::Role};

/// First run, or a filter that lets nothing through.
pub(in crate::ui) fn empty(canvas: &mut Canvas<'_>, state: &State) {
    let is_first = state.counts == crate::app::Counts::default();
    if !is_first {
        let words = if state.needs_only {
            &format!(
                "Nothing needs you. {} or Esc shows all.",
                state.key(Action::NeedsOnly)
            )
        } else {
            "No task fits the filter. Esc clears it."
        };
        canvas.put(2, 1, words, Role::Plain);
        let room = usize::from(canvas.columns().saturating_sub(4)).max(1);
        let odd = Filter::invalid_reason(state.filter.text()).unwrap_or_default();
        for (line, y) in super::detail::wrap(&odd, room).iter().zip(3..) {
            canvas.put(2, y, line, Role::Needs);
        }
        return;
    }
    let words = [
        "No task yet.",
        "",
        "A task is one tool call on an MCP server that you care about. It goes on while you watch, survives a cut \
         network, and is still here after this terminal is gone.",
        "",
    ];
    let keys: &[(Action, &str)] = if state.servers.is_empty() {
        &[
            (Action::MarkAll, "add a server by its URL"),
            (
                Action::Import,
                "import the servers that other programs know",
            ),
            (Action::Help, "all keys"),
            (
                Action::Leave,
                "leave; longhaul demo shows it all without a server",
            ),
        ]
    } else {
        &[
            (Action::NewCall, "start a call"),
            (Action::ShowTools, "look at the tools"),
            (Action::MarkAll, "add another server by its URL"),
            (Action::Help, "all keys"),
        ]
    };
    let mut y = 1;
    for line in words {
        let role = if y == 1 { Role::Strong } else { Role::Plain };
        for line in super::detail::wrap(
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
    let x = u16::try_from(widest.unwrap_or_default()).map_or(7, |wide| wide.saturating_add(6));
    for (key, label) in keys {
        canvas.put(4, y, &key, Role::Key);
        canvas.put(x, y, label, Role::Plain);
        y += 1;
    }
}
