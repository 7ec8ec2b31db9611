//! The new-call dialog: choose a server, choose a tool, fill in the arguments.

use itertools::Itertools as _;
use ratatui::text::Line;

use super::{
    super::{
        labels,
        panes::{
            list::if_cut_role,
            tools::{if_cut, no_tools, tool_list},
        },
        spans::{pad_to, slice},
    },
    fields::{FieldView, error_lines, form_fields, long_name, row_count, value_hint},
    pages::above_footer,
    typed,
};
use crate::{
    app::{Action, CallForm, FormField, Stage, State},
    domain::{ServerView, Stamp, Tool, text},
    ui::{Region, Role, Theme, wrap::wrap},
};

pub(super) fn call(region: &mut Region<'_>, state: &State, form: &CallForm, now: Stamp) {
    let title = match (&form.origin, form.stage) {
        (Some(origin), _) => format!("Run {origin} again"),
        (None, Stage::Server) if state.servers.is_empty() => "Add a server".to_owned(),
        (None, Stage::Server) => "Choose or add a server".to_owned(),
        (None, Stage::Tool) => "New call: tool".to_owned(),
        (None, Stage::Form) => "New call".to_owned(),
    };
    let columns = region.window_columns(96);
    let most = match region.rows() {
        rows if rows < 20 => rows.saturating_sub(2),
        rows => above_footer(rows),
    };
    let wanted = match form.stage {
        Stage::Server => u16::try_from(state.servers.len())
            .unwrap_or(u16::MAX)
            .saturating_add(6),
        Stage::Tool => 16,
        Stage::Form => form_rows(state, form, usize::from(columns.saturating_sub(4))),
    };
    let rows = wanted.saturating_add(2).min(most);
    let mut window = region.window(columns, rows, &title);
    match form.stage {
        Stage::Server => servers(&mut window, state, form, now),
        Stage::Tool => tools(&mut window, state, form),
        Stage::Form => arguments(&mut window, state, form),
    }
}

fn servers(window: &mut Region<'_>, state: &State, form: &CallForm, now: Stamp) {
    let theme = window.theme;
    let columns = window.columns();
    let found = form.servers(state);
    let last = found.len();
    let at = form.server_at.min(last);
    let available = usize::from(window.rows().saturating_sub(5)).max(1);
    let first = (at + 1)
        .saturating_sub(available)
        .min(last.saturating_sub(available.min(last)));
    let (state_at, url_at) = if columns < 70 { (11, 24) } else { (16, 34) };
    let choice = |(index, server): (usize, &ServerView)| {
        let (_, shown) = labels::server(state, server, theme.glyphs, now);
        let role = Role::of_choice(index == at, true);
        let mut line = Line::from(vec![
            theme.span(shown.glyph, shown.role),
            theme.span(format!(" {}", server.name), role),
        ]);
        pad_to(&mut line, state_at);
        // A long state is cut to keep the URL column aligned.
        let available = usize::saturating_sub(url_at, line.width() + 2).max(12);
        let label = text::cut(&shown.text, available, theme.glyphs.more).into_owned();
        line.push_span(theme.span(format!("  {label}"), Role::Dim));
        pad_to(&mut line, url_at);
        line.push_span(theme.span(format!("  {}", server.url), Role::Dim));
        line
    };
    let shown = found.into_iter().enumerate().skip(first).take(available);
    let choices: Vec<Line<'_>> = shown.map(choice).collect();
    let rows = u16::try_from(choices.len()).unwrap_or(u16::MAX);
    let selected = (at < last).then_some(at - first.min(at));
    let mut part = window.region(0, 0, columns, rows);
    part.put_choices(choices, selected);
    let mut y = rows + u16::from(last > 0);
    let is_on = at == last;
    let label = match last {
        0 if state.servers.is_empty() => "URL: ",
        0 => "name or URL: ",
        _ if last < state.servers.len() => "filter: ",
        _ => "name or URL: ",
    };
    let has_cursor = is_on || !form.url.is_empty();
    let room = columns.saturating_sub(2);
    let typed = typed::field(theme, room, label, &form.url, has_cursor);
    let sign = if is_on { theme.glyphs.cursor } else { " " };
    window.put(0, y, theme.span(sign, Role::Focus));
    window.put(2, y, typed);
    y += 2;
    let help = if state.servers.is_empty() {
        "Type the URL of an HTTP server, such as https://lab.example/mcp."
    } else {
        "Type a name to filter the list, or the URL of a new server."
    };
    let (lines, role) = problems(state, form, (usize::from(columns), STATUS_ROWS), help);
    window.put_text(0, y, lines, role);
}

fn tools(window: &mut Region<'_>, state: &State, form: &CallForm) {
    let theme = window.theme;
    let server = form.server.as_ref().map_or("", |server| server.as_str());
    let server = text::clean_line(server).into_owned();
    let label = if form.is_any_server {
        "tool on any server, filter: ".to_owned()
    } else {
        format!("tool on {server}: ")
    };
    let matching = form.matching(state);
    let mut typed = typed::field(theme, window.columns(), &label, &form.filter, true);
    let hint = if form.filter.is_empty() {
        " (type to filter)"
    } else {
        ""
    };
    let count = match matching.len() {
        count if count + 2 > usize::from(window.rows()) => format!(" {count} tools"),
        _ => String::new(),
    };
    typed.push_span(theme.span(format!("{hint}{count}"), Role::Dim));
    window.put(0, 0, typed);
    let known = form.server.as_ref();
    let known = known.and_then(|server| state.tools.get(server));
    if matching.is_empty() {
        let note = match known {
            Some(tools) if tools.error.is_some() => {
                let why = tools.error.as_deref().unwrap_or_default();
                let asked = form.server.as_ref();
                let note = asked.map_or(String::new(), |asked| no_tools(state, asked, why));
                format!("{}. Press Enter to try again.", note.trim_end_matches('.'))
            }
            Some(tools) if tools.is_known && tools.list.is_empty() => {
                format!("{server} has no tools.")
            }
            Some(tools) if tools.is_known => "No matching tool.".to_owned(),
            None if form.is_any_server => {
                "No matching tool on servers whose tools are loaded.".to_owned()
            }
            _ => format!("Loading tools from {server} ..."),
        };
        let available = usize::from(window.columns()).max(1);
        window.put_text(0, 2, wrap(&note, available), Role::Plain);
        return;
    }
    let (columns, rows) = (window.columns(), window.rows());
    let cursor = form.tool_at.min(matching.len().saturating_sub(1));
    let mut region = window.region(0, 2, columns, rows.saturating_sub(2));
    let shown = matching
        .iter()
        .map(|(name, tool)| (form.is_any_server.then_some(*name), *tool));
    tool_list(&mut region, shown, cursor, true);
}

/// The rows for errors or the help of the focused field.
const STATUS_ROWS: u16 = 3;

/// The width below which the dialog covers the keys in the footer, so that it shows the most important ones.
const NARROW: usize = 66;

/// The rows of the form with blank lines: heading, fields, name, cost of a cut, help and button.
fn form_rows(state: &State, form: &CallForm, columns: usize) -> u16 {
    let around = impact_lines(state, form, columns).len() + usize::from(STATUS_ROWS) + 6;
    let arguments = if let Some(raw) = &form.raw {
        raw.text().split('\n').count().max(3) + 1
    } else {
        let fields = form.fields.iter().enumerate();
        let rows = fields.map(|(index, field)| row_count(field, index == form.at));
        rows.sum::<usize>().max(1)
    };
    u16::try_from(arguments + around).unwrap_or(u16::MAX)
}

fn arguments(window: &mut Region<'_>, state: &State, form: &CallForm) {
    let theme = window.theme;
    let columns = window.columns();
    let server = form.server.as_ref().map_or("", |server| server.as_str());
    let title = Line::from(vec![
        theme.span(form.tool_name.as_str(), Role::Strong),
        theme.span(format!(" on {server}"), Role::Dim),
    ]);
    window.put(0, 0, title);
    let available = usize::from(columns).max(1);
    let rows = window.rows();
    // When space is short, the fields get it.
    let is_tight = rows < form_rows(state, form, available);
    let mut impact = impact_lines(state, form, available);
    if is_tight && !form.errors.is_empty() {
        // The errors say that the same key sends it unchecked.
        impact.clear();
    }
    let focused = form.fields.get(form.at).filter(|_| form.raw.is_none());
    let help = focused.map_or(String::new(), hint);
    let status_rows = if is_tight && !form.may_send_unchecked {
        2
    } else {
        STATUS_ROWS
    };
    let (status_lines, status_role) = problems(state, form, (available, status_rows), &help);
    let bottom = u16::try_from(impact.len()).unwrap_or(1) + status_rows + 2;
    let (head, gap) = if is_tight { (1, 0) } else { (3, 1) };
    let description = form.tool.as_ref().filter(|_| !is_tight);
    let description = description.and_then(|tool| tool.description.as_deref());
    let line = description.and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
    if let Some(line) = line {
        window.put(0, 1, theme.span(line.trim(), Role::Dim));
    }
    // Button, cost of a cut and errors stay at the bottom; the fields scroll above them.
    let fields_rows = rows.saturating_sub(head + bottom + gap).max(1);
    let mut region = window.region(0, head, columns, fields_rows);
    let (above, below) = fields(&mut region, form);
    put_hidden(window, above, below);
    let y = head + fields_rows;
    let label = "task name (optional): ";
    let name = typed::field(theme, columns, label, &form.name, form.is_at_name());
    window.put(0, y, name);
    let y = window.put_lines(0, y + 1, impact) + gap;
    window.put_text(0, y, status_lines, status_role);
    start_button(window, y + status_rows, form);
}

/// Notes in the first row how many fields are hidden above and below.
pub(super) fn put_hidden(window: &mut Region<'_>, above: usize, below: usize) {
    let [up, down] = window.theme.glyphs.arrows;
    let hidden = [(above, up), (below, down)].into_iter();
    let hidden = hidden.filter(|(count, _)| *count > 0);
    let mut signs = hidden.map(|(count, sign)| format!("{sign}{count}"));
    window.put_note(0, signs.join(" "));
}

/// Draws the fields, scrolled so that the focused one is visible; returns how many are hidden above and below.
fn fields(region: &mut Region<'_>, form: &CallForm) -> (usize, usize) {
    if let Some(raw) = &form.raw {
        raw_field(region, raw, form.at == 0);
        return (0, 0);
    }
    if form.fields.is_empty() {
        let note = if form.tool.as_ref().is_some_and(Tool::takes_unlisted) {
            "Press Ctrl-R to write the arguments as JSON."
        } else {
            "This tool takes no arguments."
        };
        region.put(0, 0, region.theme.span(note, Role::Dim));
        return (0, 0);
    }
    let shown = form.fields.iter().enumerate();
    let shown = shown.map(|(index, field)| FieldView {
        field,
        has_cursor: index == form.at,
        is_rerun: form.origin.is_some(),
        is_wrong: form.is_wrong(field),
    });
    form_fields(region, &shown.collect::<Vec<_>>(), form.at)
}

fn start_button(window: &mut Region<'_>, y: u16, form: &CallForm) {
    let theme = window.theme;
    let button = if form.sent.is_some() {
        "[ saving the call ... ]"
    } else {
        "[ Start ]"
    };
    let role = Role::of_button(form.is_at_button());
    let mut line = Line::from(theme.span(button, role));
    if usize::from(window.columns()) < NARROW {
        let keys = "  Ctrl-S send  Ctrl-R JSON/fields  Esc back";
        line.push_span(theme.span(keys, Role::Dim));
    }
    window.put(0, y, line);
}

/// The start of the line.
const IF_CUT: &str = "if cut: ";

/// What a cut would do, wrapped; the label has the same color as in the list.
fn impact_lines(state: &State, form: &CallForm, columns: usize) -> Vec<Line<'static>> {
    let theme = Theme::of(state.setup.look);
    let Some(tool) = &form.tool else {
        return vec![Line::default()];
    };
    let impact = if_cut(state, form.server.as_ref(), tool);
    let label = impact.label();
    let whole = format!("{IF_CUT}{label} ({})", impact.reason.message());
    let lines = wrap(&whole, columns).into_iter();
    let mut lines: Vec<Line<'static>> = lines
        .map(|line| theme.span(line, Role::Plain).into())
        .collect();
    if let Some(first) = lines.first_mut() {
        let from = IF_CUT.len() + label.len();
        let rest = slice(&first.spans, from..usize::MAX);
        *first = Line::from(vec![
            theme.span(IF_CUT, Role::Dim),
            theme.span(label, if_cut_role(&impact)),
        ]);
        first.extend(rest);
    }
    lines
}

/// Help for the focused field.
fn hint(field: &FormField) -> String {
    let mut whole = long_name(field) + &value_hint(field);
    if field.has_template() {
        whole.push_str("; Enter inserts a template");
    }
    match &field.spec.description {
        Some(description) => format!("{whole}: {description}"),
        None => whole,
    }
}

/// The form's validation errors, or `otherwise` if there are none, wrapped.
fn problems(
    state: &State,
    form: &CallForm,
    (columns, rows): (usize, u16),
    otherwise: &str,
) -> (Vec<String>, Role) {
    let most = usize::from(rows);
    if form.errors.is_empty() {
        let mut lines = wrap(otherwise, columns.max(1));
        lines.truncate(most);
        return (lines, Role::Dim);
    }
    if !form.may_send_unchecked {
        return (error_lines(&form.errors, columns, most), Role::Failed);
    }
    let mut lines = error_lines(&form.errors, columns, most - 1);
    let key = state.key(Action::Send);
    lines.push(format!("press {key} again to send the call unchecked"));
    (lines, Role::Failed)
}

fn raw_field(region: &mut Region<'_>, raw: &crate::app::Field, has_cursor: bool) {
    let theme = region.theme;
    let role = if has_cursor { Role::Key } else { Role::Dim };
    region.put(0, 0, theme.span("arguments as JSON:", role));
    if has_cursor {
        let (line, column) = raw.cursor_position();
        let position = format!("line {}, column {}", line + 1, column + 1);
        region.put_note(0, position);
    }
    let (columns, rows) = (region.columns(), region.rows().saturating_sub(1));
    typed::lines(&mut region.region(0, 1, columns, rows), raw, has_cursor);
}
