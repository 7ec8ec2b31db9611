//! Form fields, shared by the call and question dialogs.

use ratatui::text::{Line, Span};

use super::{super::panes::tools::kind_label, typed};
use crate::{
    app::{FormField, FormValue},
    domain::{ArgumentKind, TextFormat, text},
    ui::{Region, Role, Theme, wrap::wrap},
};

/// The maximum width of the label column.
const MAX_LABEL: usize = 24;

/// The name of a field whose label is cut, in front of its help; not sanitized.
pub(super) fn long_name(field: &FormField) -> String {
    let name = field.name();
    if text::width(name) > MAX_LABEL {
        format!("{name}: ")
    } else {
        String::new()
    }
}

/// The width of the label column.
fn label_columns<'n>(names: impl Iterator<Item = &'n str>) -> usize {
    names
        .map(|name| text::width(&text::clean_line(name)))
        .max()
        .unwrap_or(8)
        .clamp(6, MAX_LABEL)
}

/// What is drawn of a field.
pub(super) struct FieldView<'f> {
    pub(super) field: &'f FormField,
    pub(super) has_cursor: bool,
    /// Whether to mark changed values, because the form repeats an earlier call.
    pub(super) is_rerun: bool,
    pub(super) is_wrong: bool,
}

/// The maximum height of a focused JSON field.
const MAX_ROWS: usize = 6;

/// The height of a field.
pub(super) fn row_count(field: &FormField, has_cursor: bool) -> usize {
    match &field.value {
        FormValue::Typed(typed) if typed.has_lines && has_cursor => {
            typed.text().split('\n').count().clamp(1, MAX_ROWS)
        }
        _ => 1,
    }
}

/// A short description of a field's values, such as `list, each item: text`; not sanitized.
pub(super) fn value_hint(field: &FormField) -> String {
    if let Some(each) = &field.items {
        return format!("list, one per line: {}", kind_label(each));
    }
    match &field.value {
        FormValue::Choice(_) => format!("one of {}", choices(field).join(", ")),
        FormValue::Many { .. } => format!("any of {}", choices(field).join(", ")),
        _ => match &field.spec.format {
            Some(format) if format.parse::<TextFormat>().is_err() => {
                format!("{}, {format}", kind_label(&field.spec))
            }
            _ => kind_label(&field.spec),
        },
    }
}

/// The labels of a field's choices; not sanitized.
fn choices(field: &FormField) -> Vec<String> {
    match &field.spec.kind {
        ArgumentKind::Choice(all) | ArgumentKind::Many(all) => (0..all.len())
            .map(|index| field.spec.label(index))
            .collect(),
        _ => Vec::new(),
    }
}

/// Error messages in at most this many lines; the last one counts those that are left out.
pub(super) fn error_lines(errors: &[String], columns: usize, most: usize) -> Vec<String> {
    let lines = errors.iter().flat_map(|line| wrap(line, columns.max(1)));
    let mut lines: Vec<String> = lines.collect();
    let hidden = lines.len().saturating_sub(most);
    if hidden > 0 {
        lines.truncate(most.saturating_sub(1));
        lines.push(format!("and {}", text::plural(hidden + 1, "more line")));
    }
    lines
}

/// Draws fields, scrolled so that the one at `at` is visible; returns how many are hidden above and below.
pub(super) fn form_fields(
    region: &mut Region<'_>,
    fields: &[FieldView<'_>],
    at: usize,
) -> (usize, usize) {
    let label = label_columns(fields.iter().map(|shown| shown.field.name()));
    let rows = |shown: &FieldView<'_>| row_count(shown.field, shown.has_cursor);
    let available = usize::from(region.rows());
    // As many rows before that field as fit.
    let mut first = at.min(fields.len().saturating_sub(1));
    let mut used = fields.get(first).map_or(1, rows);
    while let Some(before) = first.checked_sub(1)
        && used < available
    {
        (first, used) = (before, used + 1);
    }
    let (mut y, mut last) = (0, first);
    for shown in fields.iter().skip(first) {
        if y >= available {
            break;
        }
        form_field(region, u16::try_from(y).unwrap_or(u16::MAX), shown, label);
        y += rows(shown);
        last += 1;
    }
    (first, fields.len().saturating_sub(last))
}

/// Draws a field on one line, or on several if it is a focused JSON field.
fn form_field(region: &mut Region<'_>, y: u16, shown: &FieldView<'_>, label: usize) {
    let (field, has_cursor) = (shown.field, shown.has_cursor);
    let more = region.theme.glyphs.more;
    let need = match (shown.is_wrong, field.spec.is_required) {
        (true, _) => "!",
        (false, true) => "*",
        (false, false) => " ",
    };
    let name = text::clean_line(field.name());
    let name = text::cut(&name, label, more);
    let pad = " ".repeat(label.saturating_sub(text::width(&name)));
    let changed = match (shown.is_rerun, field.is_changed()) {
        (true, true) => "changed ",
        (true, false) => "        ",
        (false, _) => "",
    };
    let head = format!("{name}{need}{pad} {changed}");
    let lines = u16::try_from(row_count(field, has_cursor)).unwrap_or(1);
    let mut line = region.region(0, y, region.columns(), lines);
    field_value(&mut line, field, &head, has_cursor);
}

/// Draws a field's name and value; what may be typed stands in place of a missing value.
fn field_value(left: &mut Region<'_>, field: &FormField, head: &str, has_cursor: bool) {
    let theme = left.theme;
    let columns = left.columns();
    let role = if has_cursor { Role::Key } else { Role::Dim };
    let mut line = Line::from(theme.span(head, role));
    let unset = || "(not set)".to_owned();
    let is_unset = match &field.value {
        FormValue::Typed(input) => input.is_empty(),
        FormValue::Toggle(value) => value.is_none(),
        FormValue::Choice(at) => at.is_none(),
        FormValue::Many { .. } => false,
    };
    if is_unset && !has_cursor {
        line.push_span(theme.span(value_hint(field), Role::Dim));
        left.put(0, 0, line);
        return;
    }
    let label = match &field.value {
        FormValue::Typed(input) if !input.has_lines => {
            left.put(0, 0, typed::field(theme, columns, head, input, has_cursor));
            return;
        }
        FormValue::Typed(input) if has_cursor => {
            let x = left.put(0, 0, line);
            let (columns, lines) = (columns.saturating_sub(x), left.rows());
            return typed::lines(&mut left.region(x, 0, columns, lines), input, true);
        }
        FormValue::Typed(input) => {
            let words: Vec<&str> = input.text().split_whitespace().collect();
            line.push_span(theme.span(words.join(" "), Role::Plain));
            left.put(0, 0, line);
            return;
        }
        FormValue::Many { chosen, at } => {
            let available = usize::from(columns).saturating_sub(line.width());
            let at = has_cursor.then_some(*at);
            line.extend(multi_select(theme, available, field, chosen, at));
            left.put(0, 0, line);
            return;
        }
        FormValue::Toggle(value) => value.map_or_else(unset, |value| value.to_string()),
        FormValue::Choice(at) => at.map_or_else(unset, |at| field.spec.label(at)),
    };
    if has_cursor {
        // Left and Right change the value.
        line.extend([
            theme.span("< ", Role::Key),
            theme.span(label, Role::Cursor),
            theme.span(" >", Role::Key),
        ]);
    } else {
        line.push_span(theme.span(label, Role::Plain));
    }
    left.put(0, 0, line);
}

/// Check boxes on one line, scrolled so that the one at the cursor is visible.
fn multi_select(
    theme: Theme,
    available: usize,
    field: &FormField,
    chosen: &[bool],
    at: Option<usize>,
) -> Vec<Span<'static>> {
    let boxes = chosen.iter().enumerate().map(|(index, is_chosen)| {
        let sign = if *is_chosen { "[x]" } else { "[ ]" };
        let role = match (at == Some(index), is_chosen) {
            (true, _) => Role::Cursor,
            (false, true) => Role::Strong,
            (false, false) => Role::Plain,
        };
        theme.span(format!("{sign} {}", field.spec.label(index)), role)
    });
    let boxes: Vec<Span<'static>> = boxes.collect();
    let last = at.unwrap_or(0);
    let upto = |first: usize| {
        let shown = boxes.iter().take(last + 1).skip(first);
        shown.map(|span| span.width() + 2).sum::<usize>()
    };
    let first = (0..=last).find(|first| upto(*first) <= available);
    let shown = boxes.iter().skip(first.unwrap_or(last));
    shown
        .flat_map(|span| [span.clone(), Span::raw("  ")])
        .collect()
}
