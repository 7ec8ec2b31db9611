//! The tools pane: a server's tools and the details of the selected one.

use itertools::Itertools as _;
use ratatui::text::Line;

use super::{super::spans::pad_to, list::if_cut_role};
use crate::{
    app::{Action, State},
    domain::{ArgumentSpec, IfCut, ServerName, ServerObstacle, ServerView, Tool, text},
    ui::{Region, Role, wrap::wrap},
};

/// Explains why a server's tools can't be listed, with the key that helps if the user has to act.
pub(in crate::ui) fn no_tools(state: &State, server: &ServerName, why: &str) -> String {
    // No key sets a variable.
    let can_help = |it: &ServerView| {
        it.waits_for_user() && !matches!(it.obstacle, Some(ServerObstacle::Variables(_)))
    };
    if !state.server(server).is_some_and(can_help) {
        return format!("No tools: {why}");
    }
    let key = state.key(Action::SignIn);
    format!("No tools: {why}. Select this server in the servers pane and press {key} to fix this.")
}

/// Draws the tool list and, beside it or on a narrow screen below it, the selected tool.
pub(in crate::ui) fn tools(region: &mut Region<'_>, state: &State) {
    let theme = region.theme;
    let Some(server) = &state.tools_pane.server else {
        let key = state.key(Action::AddServer);
        let help = format!("Press {key} to add one by URL.");
        region.put(1, 1, theme.span("No servers yet.", Role::Strong));
        region.put(1, 2, theme.span(help, Role::Plain));
        return;
    };
    let name = server.as_str();
    let mut title = Line::from(theme.span("Tools of ", Role::Heading));
    title.push_span(theme.span(name, Role::Strong));
    let known = state.tools.get(server);
    let list = known.map_or(&[] as &[Tool], |tools| tools.list.as_slice());
    if list.is_empty() {
        region.put(1, 0, title);
        let note = match known {
            Some(tools) if tools.request.is_some() => format!("Loading tools from {name} ..."),
            Some(tools) if tools.error.is_some() => {
                let why = tools.error.as_deref().unwrap_or_default();
                no_tools(state, server, why)
            }
            Some(tools) if tools.is_known => format!("{name} has no tools."),
            _ => "Tools not loaded yet.".to_owned(),
        };
        let available = usize::from(region.columns().saturating_sub(2));
        let lines = wrap(&note, available);
        region.put_text(1, 2, lines, Role::Plain);
        return;
    }
    let (columns, rows) = (region.columns(), region.rows());
    let split = columns >= 90;
    let cursor = state.cursors[0].min(list.len().saturating_sub(1));
    // The description of the selected tool is beside the list, or below it on a narrow screen.
    let (list_rows, left) = if split {
        (rows.saturating_sub(2), columns * 2 / 5)
    } else {
        (rows.saturating_sub(2) / 2, columns)
    };
    let available = usize::from(list_rows).max(1);
    let above = (cursor + 1).saturating_sub(available);
    let [up, down] = theme.glyphs.arrows;
    let below = list.len().saturating_sub(above + available);
    let hidden = [(above, up), (below, down)].into_iter();
    let hidden = hidden.filter(|(count, _)| *count > 0);
    let mut hidden = hidden.map(|(count, sign)| format!("{count} more {sign}"));
    title.push_span(theme.span(format!("   {}", hidden.join("  ")), Role::Dim));
    region.put(1, 0, title);
    let mut part = region.region(1, 2, left.saturating_sub(1), list_rows);
    let shown = list.iter().map(|tool| (None, tool));
    tool_list(&mut part, shown, cursor, !split);
    let Some(tool) = list.get(cursor) else { return };
    let (x, y) = if split {
        (left + 1, 2)
    } else {
        (1, list_rows + 3)
    };
    let columns = columns.saturating_sub(x + 1);
    let mut about = region.region(x, y, columns, rows.saturating_sub(y));
    about_tool(&mut about, state, tool);
}

/// The columns of a tool's name, of its name and its server, and of an argument.
const NAME: usize = 26;
const NAME_AND_SERVER: usize = 40;
const ARGUMENT: usize = 18;

/// Draws one tool per line, scrolled to the selected one, with its server if one is given.
pub(in crate::ui) fn tool_list<'t>(
    region: &mut Region<'_>,
    tools: impl Iterator<Item = (Option<&'t ServerName>, &'t Tool)>,
    cursor: usize,
    has_text: bool,
) {
    let theme = region.theme;
    let count = usize::from(region.rows()).max(1);
    let first = (cursor + 1).saturating_sub(count);
    let row = |(index, (server, tool)): (usize, (Option<&ServerName>, &'t Tool))| {
        let role = Role::of_choice(index == cursor, true);
        let mut line = Line::from(theme.span(tool.name.as_str(), role));
        pad_to(&mut line, NAME);
        if let Some(server) = server {
            line.push_span(theme.span(format!("  {server}"), Role::Dim));
            pad_to(&mut line, NAME_AND_SERVER);
        }
        let about = tool.description.as_deref().unwrap_or_default();
        let about = about.lines().find(|line| !line.trim().is_empty());
        if let Some(about) = about.filter(|_| has_text) {
            line.push_span(theme.span(format!("  {}", about.trim()), Role::Dim));
        }
        line
    };
    let lines = tools.enumerate().skip(first).take(count).map(row);
    region.put_choices(lines, Some(cursor - first));
}

/// What a cut would do to a call of a tool, as far as known before it is sent.
pub(in crate::ui) fn if_cut(state: &State, server: Option<&ServerName>, tool: &Tool) -> IfCut {
    let known = server.and_then(|name| state.tools.get(name));
    let beside = known.map_or(&[] as &[Tool], |tools| tools.list.as_slice());
    let server = server.and_then(|name| state.server(name));
    let capabilities = server.map(|server| server.capabilities.clone());
    IfCut::of_call(tool, beside, &capabilities.unwrap_or_default())
}

/// Draws a tool's description, arguments and what a cut would cost.
pub(in crate::ui) fn about_tool(region: &mut Region<'_>, state: &State, tool: &Tool) {
    let theme = region.theme;
    let available = usize::from(region.columns()).max(1);
    let mut lines = vec![Line::from(theme.span(tool.name.as_str(), Role::Strong))];
    let description = tool.description.as_deref().unwrap_or("No description.");
    let clean = text::clean_block(description.trim());
    let wrapped = clean.lines().flat_map(|line| wrap(line, available)).take(8);
    lines.extend(wrapped.map(|line| Line::from(theme.span(line, Role::Plain))));
    let hints = tool.hints();
    if !hints.is_empty() {
        // The server's claim, which longhaul can't verify.
        let name = state
            .tools_pane
            .server
            .as_ref()
            .map_or("", ServerName::as_str);
        let line = format!("{name} says: {}", hints.join(", "));
        lines.push(theme.span(line, Role::Dim).into());
    }
    lines.push(Line::default());
    for spec in tool.arguments() {
        let mut line = Line::from(theme.span(spec.name.clone(), Role::Strong));
        pad_to(&mut line, ARGUMENT);
        let kind = kind_label(&spec);
        let need = if spec.is_required { ", required" } else { "" };
        let default = spec.default.as_ref();
        let default = default.map_or(String::new(), |value| format!(", default {value}"));
        let details = format!("  {kind}{need}{default}");
        line.push_span(theme.span(details, Role::Dim));
        lines.push(line);
    }
    let impact = if_cut(state, state.tools_pane.server.as_ref(), tool);
    lines.push(Line::default());
    lines.push(Line::from(vec![
        theme.span("if cut: ", Role::Dim),
        theme.span(impact.label(), if_cut_role(&impact)),
    ]));
    let why = wrap(&impact.reason.message(), available).into_iter();
    lines.extend(why.map(|line| theme.span(line, Role::Dim).into()));
    let rows = region.rows();
    let hidden = lines.len().saturating_sub(usize::from(rows));
    region.put_lines(0, 0, lines);
    if hidden > 0 {
        let down = theme.glyphs.arrows[1];
        let key = state.key(Action::Open);
        let more = format!(" {hidden} more {down} {key} opens the form");
        region.put_note(rows.saturating_sub(1), more);
    }
}

/// What an argument may be, as a label: `whole number from 1 to 9`.
pub(in crate::ui) fn kind_label(spec: &ArgumentSpec) -> String {
    let expected = spec.expected();
    let label = expected
        .strip_prefix("a ")
        .or_else(|| expected.strip_prefix("an "));
    label.unwrap_or(&expected).to_owned()
}
