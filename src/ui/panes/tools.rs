//! The tools pane: a server's tools and the details of the selected one.

use super::{
    super::{canvas::Canvas, theme::Role},
    list::if_cut_role,
};
use crate::{
    app::{Action, State, tools_shown},
    domain::{ArgumentKind, LinkState, ServerName, ServerObstacle, Tool, text},
    ui::wrap::wrap,
};

/// Explains why a server's tools can't be listed, with the key that helps if the user has to act.
pub(in crate::ui) fn no_tools(state: &State, server: &ServerName, why: &str) -> String {
    let why = text::clean_line(why);
    let server = state.server(server).filter(|it| it.waits_for_consent());
    let Some(server) = server else {
        return format!("No tools: {why}");
    };
    let key = state.key(Action::SignIn);
    let help = match (&server.obstacle, &server.state) {
        (Some(ServerObstacle::Variables(_)), _) => "to see what to set",
        (Some(_), _) => "to fix this",
        (
            None,
            LinkState::NeedsLogin {
                takes_sign_in: true,
                ..
            },
        ) => "to sign in",
        (None, _) => "to see what it needs",
    };
    format!("No tools: {why}. In the list, press {key} {help}.")
}

/// Draws the tool list and, beside it or on a narrow screen below it, the selected tool.
pub(in crate::ui) fn tools(canvas: &mut Canvas<'_>, state: &State) {
    let Some(server) = &state.tools_of else {
        canvas.put(1, 1, "No servers yet.", Role::Strong);
        let key = state.key(Action::AddServer);
        canvas.put(
            1,
            2,
            &format!("Press {key} to add one by URL."),
            Role::Plain,
        );
        return;
    };
    let name = text::clean_line(server.as_str());
    let x = canvas.put(1, 0, "Tools of ", Role::Heading);
    let end = canvas.put(x, 0, &name, Role::Strong);
    let known = state.tools.get(server);
    let list = known.map_or(&[] as &[Tool], |tools| tools.list.as_slice());
    if list.is_empty() {
        let note = match known {
            Some(tools) if tools.request.is_some() => format!("Loading tools from {name} ..."),
            Some(tools) if tools.error.is_some() => {
                let why = tools.error.as_deref().unwrap_or_default();
                no_tools(state, server, why)
            }
            Some(tools) if tools.is_known => format!("{name} has no tools."),
            _ => "Tools not loaded yet.".to_owned(),
        };
        for (line, y) in wrap(&note, usize::from(canvas.columns().saturating_sub(2)))
            .iter()
            .zip(2..)
        {
            canvas.put(1, y, line, Role::Plain);
        }
        return;
    }
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let split = columns >= 90;
    let cursor = state.cursors[0].min(list.len().saturating_sub(1));
    let (list_rows, left, above) = tools_shown((columns, rows), cursor);
    let available = usize::from(list_rows).max(1);
    let [up, down] = canvas.glyphs().arrows;
    let more = [
        (above, up),
        (list.len().saturating_sub(above + available), down),
    ];
    let more: Vec<String> = more
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, sign)| format!("{count} more {sign}"))
        .collect();
    canvas.put(end + 3, 0, &more.join("  "), Role::Dim);
    {
        let mut region = canvas.region(1, 2, left.saturating_sub(1), list_rows);
        let shown = list.iter().map(|tool| (None, tool));
        tool_list(&mut region, shown, cursor, !split);
    }
    let Some(tool) = list.get(cursor) else { return };
    let mut about = if split {
        canvas.region(left + 1, 2, columns - left - 2, rows.saturating_sub(2))
    } else {
        canvas.region(
            1,
            list_rows + 3,
            columns.saturating_sub(2),
            rows.saturating_sub(list_rows + 3),
        )
    };
    about_tool(&mut about, state, tool, list);
}

/// Draws one tool per line, scrolled to the selected one, with its server if one is given.
pub(in crate::ui) fn tool_list<'t>(
    canvas: &mut Canvas<'_>,
    tools: impl Iterator<Item = (Option<&'t ServerName>, &'t Tool)>,
    cursor: usize,
    has_text: bool,
) {
    let rows = usize::from(canvas.rows()).max(1);
    let first = (cursor + 1).saturating_sub(rows);
    let sign = canvas.glyphs().cursor;
    for ((index, (server, tool)), y) in tools.enumerate().skip(first).take(rows).zip(0_u16..) {
        let is_on = index == cursor;
        if is_on {
            canvas.put(0, y, sign, Role::Focus);
            canvas.keep_visible(y..y + 1);
        }
        let name = text::clean_line(&tool.name);
        let mut x = canvas.put(2, y, &name, if is_on { Role::Strong } else { Role::Plain });
        if let Some(server) = server {
            x = canvas.put(
                x.max(28) + 2,
                y,
                &text::clean_line(server.as_str()),
                Role::Dim,
            );
        }
        let line = tool.description.as_deref().unwrap_or_default();
        let line = line
            .lines()
            .find(|line| has_text && !line.trim().is_empty());
        if let Some(line) = line {
            let min_x = if server.is_some() { 42 } else { 28 };
            canvas.put(
                x.max(min_x) + 2,
                y,
                &text::clean_line(line.trim()),
                Role::Dim,
            );
        }
        if is_on {
            let width = canvas.columns();
            canvas.apply_style(0, y, width, Role::Selected);
        }
    }
}

/// Draws a tool's description, arguments and leave impact.
pub(in crate::ui) fn about_tool(
    canvas: &mut Canvas<'_>,
    state: &State,
    tool: &Tool,
    beside: &[Tool],
) {
    let available = usize::from(canvas.columns()).max(1);
    let mut y = canvas.rows().min(1);
    canvas.put(0, 0, &text::clean_line(&tool.name), Role::Strong);
    let description = tool.description.as_deref().unwrap_or("No description.");
    let clean = text::clean_block(description.trim()).into_owned();
    for line in clean.lines().flat_map(|line| wrap(line, available)).take(8) {
        canvas.put(0, y, &line, Role::Plain);
        y += 1;
    }
    let hints = tool.hints();
    if !hints.is_empty() {
        // The server's claim, which longhaul can't verify.
        let name = state.tools_of.as_ref().map_or("", ServerName::as_str);
        let line = format!("{name} says: {}", hints.join(", "));
        canvas.put(0, y, &text::clean_line(&line), Role::Dim);
        y += 1;
    }
    y += 1;
    for spec in tool.arguments() {
        let name = text::clean_line(&spec.name).into_owned();
        let kind = kind_word(&spec.kind);
        let x = canvas.put(0, y, &name, Role::Strong);
        let need = if spec.is_required { ", required" } else { "" };
        let default = spec
            .default
            .as_ref()
            .map_or(String::new(), |value| format!(", default {value}"));
        let details = text::clean_line(&format!("{kind}{need}{default}")).into_owned();
        canvas.put(x.max(18) + 2, y, &details, Role::Dim);
        y += 1;
    }
    let server = state.tools_of.as_ref().and_then(|name| state.server(name));
    let capabilities = server
        .map(|server| server.capabilities.clone())
        .unwrap_or_default();
    let impact = crate::domain::IfCut::of_call(tool, beside, &capabilities);
    y += 1;
    let x = canvas.put(0, y, "if cut: ", Role::Dim);
    let x = canvas.put(x, y, impact.label(), if_cut_role(&impact));
    canvas.put(x, y, &format!(", {}", impact.reason.message()), Role::Dim);
    let (columns, rows) = (canvas.columns(), canvas.rows());
    if y >= rows {
        let down = canvas.glyphs().arrows[1];
        let key = state.key(Action::Open);
        let more = format!(" {} more {down} {key} to show all", y + 1 - rows);
        canvas.put_right_aligned(columns, rows.saturating_sub(1), &more, Role::Dim);
    }
}

/// The type of an argument, as shown to users.
pub(in crate::ui) fn kind_word(kind: &ArgumentKind) -> String {
    match kind {
        ArgumentKind::Text => "text".to_owned(),
        ArgumentKind::Number => "number".to_owned(),
        ArgumentKind::Integer => "whole number".to_owned(),
        ArgumentKind::Boolean => "yes or no".to_owned(),
        ArgumentKind::Choice(choices) => {
            let labels: Vec<String> = choices.iter().take(6).map(ToString::to_string).collect();
            format!("one of {}", labels.join(" "))
        }
        ArgumentKind::Many(choices) => {
            let labels: Vec<String> = choices.iter().take(6).map(ToString::to_string).collect();
            format!("any of {}", labels.join(" "))
        }
        ArgumentKind::Json => "JSON".to_owned(),
    }
}
