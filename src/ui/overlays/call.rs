//! The new-call dialog: choose a server, choose a tool, fill in the arguments.

use super::{
    super::{
        canvas::Canvas,
        labels,
        panes::{
            list::if_cut_role,
            tools::{no_tools, tool_list},
        },
        theme::Role,
    },
    fields::{FieldView, MAX_HINT, NARROW, form_field, label_columns, row_count, value_hint},
    pages::above_footer,
    typed,
};
use crate::{
    app::{CallForm, FormField, FormRow, FormValue, Stage, State},
    domain::{IfCut, Stamp, Tool, path_label, text},
    ui::wrap::wrap,
};

pub(super) fn call(canvas: &mut Canvas<'_>, state: &State, form: &CallForm, now: Stamp) {
    let title = match (&form.origin, form.stage) {
        (Some(origin), _) => format!("Run {origin} again"),
        (None, Stage::Server) => "New call: server".to_owned(),
        (None, Stage::Tool) => "New call: tool".to_owned(),
        (None, Stage::Form) => "New call".to_owned(),
    };
    let columns = canvas.window_columns(96);
    let most = match canvas.rows() {
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
    let mut window = canvas.window(columns, rows, &title);
    match form.stage {
        Stage::Server => servers(&mut window, state, form, now),
        Stage::Tool => tools(&mut window, state, form),
        Stage::Form => arguments(&mut window, state, form),
    }
}

fn servers(window: &mut Canvas<'_>, state: &State, form: &CallForm, now: Stamp) {
    let glyphs = window.glyphs();
    let found = form.servers(state);
    let last = found.len();
    let at = form.server_at.min(last);
    let available = usize::from(window.rows().saturating_sub(5)).max(1);
    let first = (at + 1)
        .saturating_sub(available)
        .min(last.saturating_sub(available.min(last)));
    let mut y = 0;
    for (index, server) in found.into_iter().enumerate().skip(first).take(available) {
        let is_on = index == at;
        if is_on {
            window.put(0, y, glyphs.cursor, Role::Focus);
        }
        let shown = labels::server(state, server, glyphs, now);
        window.put(2, y, shown.glyph, shown.role);
        let name = text::clean_line(server.name.as_str());
        let x = window.put(4, y, &name, if is_on { Role::Strong } else { Role::Plain });
        let (state_at, url_at) = if window.columns() < 70 {
            (13, 26)
        } else {
            (18, 36)
        };
        // A long state is cut to keep the URL column aligned.
        let word_at = x.max(state_at) + 2;
        let available = u16::saturating_sub(url_at, word_at).max(12);
        let x = window.put_clipped(word_at, y, available, &shown.text, Role::Dim);
        let url = text::clean_line(&server.url);
        window.put(x.max(url_at) + 2, y, &url, Role::Dim);
        y += 1;
    }
    y += u16::from(last > 0);
    let is_on = at == last;
    if is_on {
        window.put(0, y, glyphs.cursor, Role::Focus);
    }
    let label = if last < state.servers.len() && last > 0 {
        "named: "
    } else {
        "URL of another server: "
    };
    typed::field(
        window,
        2,
        y,
        label,
        &form.url,
        is_on || !form.url.is_empty(),
    );
    y += 2;
    let columns = usize::from(window.columns());
    let (lines, role) = problems(form, columns, "Enter connects. Type to filter.");
    for (line, y) in lines.iter().zip(y..) {
        window.put(0, y, line, role);
    }
}

fn tools(window: &mut Canvas<'_>, state: &State, form: &CallForm) {
    let server = form.server.as_ref().map_or("", |server| server.as_str());
    let server = text::clean_line(server).into_owned();
    let label = if form.is_any_server {
        "tool on any server: ".to_owned()
    } else {
        format!("tool on {server}: ")
    };
    let end = typed::field(window, 0, 0, &label, &form.filter, true);
    if form.filter.is_empty() {
        window.put(end + 1, 0, "(type to filter)", Role::Dim);
    }
    let known = form
        .server
        .as_ref()
        .and_then(|server| state.tools.get(server));
    let matching = form.matching(state);
    if matching.is_empty() {
        let note = match known {
            Some(tools) if tools.error.is_some() => {
                let why = tools.error.as_deref().unwrap_or_default();
                let asked = form.server.as_ref();
                asked.map_or(String::new(), |asked| no_tools(state, asked, why))
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
        for (line, y) in wrap(&note, available).iter().zip(2_u16..) {
            window.put(0, y, line, Role::Plain);
        }
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

/// The rows of the form with blank lines: heading, fields, name, cost of a cut, help and button.
fn form_rows(state: &State, form: &CallForm, columns: usize) -> u16 {
    let around = impact_lines(state, form, columns).len() + status_text(form, columns).2 + 6;
    let arguments = if let Some(raw) = &form.raw {
        raw.text().split('\n').count().max(3) + 1
    } else {
        let rows = form.rows();
        let lines = |(index, row): (usize, &FormRow<'_>)| row_count(row.field, index == form.at);
        rows.iter().enumerate().map(lines).sum::<usize>().max(1)
    };
    u16::try_from(arguments + around).unwrap_or(u16::MAX)
}

fn arguments(window: &mut Canvas<'_>, state: &State, form: &CallForm) {
    let columns = window.columns();
    let server = form.server.as_ref().map_or("", |server| server.as_str());
    let x = window.put(0, 0, &text::clean_line(&form.tool_name), Role::Strong);
    window.put(
        x,
        0,
        &format!(" on {}", text::clean_line(server)),
        Role::Dim,
    );
    let available = usize::from(columns).max(1);
    let impact = impact_lines(state, form, available);
    let (status_lines, status_role, status_rows) = status_text(form, available);
    let status_rows = u16::try_from(status_rows).unwrap_or(1);
    let bottom = u16::try_from(impact.len()).unwrap_or(1) + status_rows + 2;
    let rows = window.rows();
    // When space is short, the fields get it.
    let is_tight = rows < form_rows(state, form, available);
    let (head, gap) = if is_tight { (1, 0) } else { (3, 1) };
    if !is_tight {
        let description = form
            .tool
            .as_ref()
            .and_then(|tool| tool.description.as_deref());
        let line = description.and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
        if let Some(line) = line {
            window.put(0, 1, &text::clean_line(line.trim()), Role::Dim);
        }
    }
    // Button, cost of a cut and errors stay at the bottom; the fields scroll above them.
    let fields_rows = rows.saturating_sub(head + bottom + gap).max(1);
    let mut region = window.region(0, head, columns, fields_rows);
    let hidden = fields(&mut region, form);
    let [up, down] = window.glyphs().arrows;
    let signs: Vec<String> = [(hidden.0, up), (hidden.1, down)]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, sign)| format!("{sign}{count}"))
        .collect();
    window.put_right_aligned(columns, 0, &signs.join(" "), Role::Dim);
    let mut y = head + fields_rows;
    typed::field(
        window,
        0,
        y,
        "name (optional): ",
        &form.name,
        form.is_at_name(),
    );
    y += 1;
    y = put_impact(window, y, state, form, &impact);
    y += gap;
    for (line, y) in status_lines.iter().zip(y..) {
        window.put(0, y, line, status_role);
    }
    y += status_rows;
    start_button(window, y, form);
}

/// Draws the fields, scrolled so that the focused one is visible; returns how many are hidden above and below.
fn fields(region: &mut Canvas<'_>, form: &CallForm) -> (usize, usize) {
    if let Some(raw) = &form.raw {
        raw_field(region, raw, form.at == 0);
        return (0, 0);
    }
    if form.fields.is_empty() {
        region.put(0, 0, "This tool takes no arguments.", Role::Dim);
        return (0, 0);
    }
    let all = form.rows();
    let names: Vec<String> = all.iter().map(|row| path_label(&row.path)).collect();
    let label = label_columns(names.iter().map(String::as_str));
    let lines = |index: usize, row: &FormRow<'_>| row_count(row.field, index == form.at);
    let available = usize::from(region.rows());
    // As many lines before the focused field as fit.
    let at = form.at.min(all.len().saturating_sub(1));
    let mut first = at;
    let mut used = all.get(at).map_or(1, |row| lines(at, row));
    while let Some(before) = first.checked_sub(1)
        && used < available
    {
        (first, used) = (before, used + 1);
    }
    let mut y = 0;
    let mut last = first;
    for (index, (row, name)) in all.iter().zip(&names).enumerate().skip(first) {
        if usize::from(y) >= available {
            break;
        }
        let shown = FieldView {
            field: row.field,
            name,
            has_cursor: index == form.at,
            is_rerun: form.origin.is_some(),
            is_wrong: form.is_wrong(row),
        };
        form_field(region, y, &shown, label);
        y += u16::try_from(lines(index, row)).unwrap_or(1);
        last = index + 1;
    }
    (first, all.len().saturating_sub(last))
}

/// Draws what a cut would do; returns the row below.
fn put_impact(
    window: &mut Canvas<'_>,
    mut y: u16,
    state: &State,
    form: &CallForm,
    lines: &[String],
) -> u16 {
    for (index, line) in lines.iter().enumerate() {
        let mut x = 0;
        let mut rest = line.as_str();
        // The label has the same color as in the list.
        if let (0, Some(impact)) = (index, if_cut(state, form)) {
            x = window.put(0, y, IF_CUT, Role::Dim);
            x = window.put(x, y, impact.label(), if_cut_role(&impact));
            let drawn = IF_CUT.len() + impact.label().len();
            rest = rest.get(drawn..).unwrap_or_default();
        }
        window.put(x, y, rest, Role::Plain);
        y += 1;
    }
    y
}

fn start_button(window: &mut Canvas<'_>, y: u16, form: &CallForm) {
    let button = if form.sent.is_some() {
        "[ saving the call ... ]"
    } else {
        "[ Start ]"
    };
    let role = if form.is_at_button() {
        Role::Cursor
    } else {
        Role::Key
    };
    let x = window.put(0, y, button, role);
    if usize::from(window.columns()) < NARROW {
        window.put(x + 2, y, "Ctrl-S start  Ctrl-R JSON  Esc back", Role::Dim);
    }
}

/// The start of the line.
const IF_CUT: &str = "if cut: ";

/// What a cut would do to the call, as far as known before it is sent.
fn if_cut(state: &State, form: &CallForm) -> Option<IfCut> {
    let tool = form.tool.as_ref()?;
    let known = form
        .server
        .as_ref()
        .and_then(|server| state.tools.get(server));
    let beside = known.map_or(&[] as &[Tool], |tools| tools.list.as_slice());
    let server = form.server.as_ref().and_then(|name| state.server(name));
    let capabilities = server
        .map(|server| server.capabilities.clone())
        .unwrap_or_default();
    Some(IfCut::of_call(tool, beside, &capabilities))
}

fn impact_lines(state: &State, form: &CallForm, columns: usize) -> Vec<String> {
    match if_cut(state, form) {
        Some(impact) => wrap(
            &format!("{IF_CUT}{}, {}", impact.label(), impact.reason.message()),
            columns,
        ),
        None => vec![String::new()],
    }
}

/// Help for the focused field if its own line has no room for it, else the key hints (on a narrow screen those are next
/// to the button).
fn hint(field: Option<&FormField>, columns: usize) -> String {
    let is_narrow = columns < NARROW;
    if let Some(field) = field {
        let mut kind = value_hint(field);
        if let FormValue::Items { .. } = &field.value {
            kind = format!("{kind}; Space adds an item, Left removes the last");
        }
        let has_template = field.has_template();
        if has_template {
            kind = format!("{kind}; Enter inserts a template");
        }
        let whole = match &field.spec.description {
            Some(description) => format!("{kind}: {description}"),
            None => kind,
        };
        let is_list = matches!(field.value, FormValue::Items { .. });
        if is_narrow || is_list || has_template || text::width(&whole) > MAX_HINT {
            return whole;
        }
    }
    if is_narrow {
        String::new()
    } else {
        "Enter: next field, Ctrl-S: start, Ctrl-R: JSON, Ctrl-P: fill in the last call.".to_owned()
    }
}

/// The lines below the fields, and the rows reserved for them: the maximum over all fields, so that the layout does not
/// change with the focus.
fn status_text(form: &CallForm, columns: usize) -> (Vec<String>, Role, usize) {
    let rows = if form.raw.is_none() {
        form.rows()
    } else {
        Vec::new()
    };
    let fields = || rows.iter().map(|row| row.field);
    let (lines, role) = problems(form, columns, &hint(fields().nth(form.at), columns));
    let most = fields()
        .map(|field| problems(form, columns, &hint(Some(field), columns)).0.len())
        .max()
        .unwrap_or(1);
    let rows = most.max(lines.len());
    (lines, role, rows)
}

/// The form's validation errors, or `otherwise` if there are none, wrapped to at most 4 lines.
fn problems(form: &CallForm, columns: usize, otherwise: &str) -> (Vec<String>, Role) {
    let columns = columns.max(1);
    if form.errors.is_empty() {
        let mut lines = wrap(&text::clean_line(otherwise), columns);
        lines.truncate(4);
        return (lines, Role::Dim);
    }
    let lines = form
        .errors
        .iter()
        .flat_map(|complaint| wrap(&text::clean_line(complaint), columns))
        .take(4)
        .collect();
    (lines, Role::Failed)
}

fn raw_field(region: &mut Canvas<'_>, raw: &crate::app::Field, has_cursor: bool) {
    let role = if has_cursor { Role::Key } else { Role::Dim };
    region.put(0, 0, "arguments as JSON:", role);
    if has_cursor {
        let (line, column) = raw.cursor_position();
        let position = format!("line {}, column {}", line + 1, column + 1);
        region.put_right_aligned(region.columns(), 0, &position, Role::Dim);
    }
    let (columns, rows) = (region.columns(), region.rows().saturating_sub(1));
    typed::lines(&mut region.region(0, 1, columns, rows), raw, has_cursor);
}
