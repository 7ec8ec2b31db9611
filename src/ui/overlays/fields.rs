//! Form fields, shared by the call and question dialogs.

use crate::{
    app::{FormField, FormValue},
    domain::{ArgumentKind, text},
};

use super::{
    super::{canvas::Canvas, panes::tools::kind_word, theme::Role},
    typed,
};

/// The maximum width of a field's hint on its own line.
pub(super) const MAX_HINT: usize = 44;

/// The form width below which field descriptions are hidden.
pub(super) const NARROW: usize = 66;

/// The width of the label column.
pub(super) fn label_columns<'n>(names: impl Iterator<Item = &'n str>) -> usize {
    names
        .map(|name| text::width(&text::clean_line(name)))
        .max()
        .unwrap_or(8)
        .clamp(6, 24)
}

/// What is drawn of a field.
pub(super) struct FieldView<'f> {
    pub(super) field: &'f FormField,
    /// The displayed name; not sanitized.
    pub(super) name: &'f str,
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
        FormValue::Typed(typed) if typed.has_lines() && has_cursor => {
            typed.text().split('\n').count().clamp(1, MAX_ROWS)
        }
        _ => 1,
    }
}

/// A short description of a field's values, such as `list, each text`; not sanitized.
pub(super) fn value_hint(field: &FormField) -> String {
    match &field.value {
        FormValue::Items { each, .. } => format!("list, each {}", kind_word(&each.kind)),
        FormValue::Choice(_) => format!("one of {}", choices(field).join(", ")),
        FormValue::Many { .. } => format!("any of {}", choices(field).join(", ")),
        _ => match &field.spec.format {
            Some(format) => format!("{}, {format}", kind_word(&field.spec.kind)),
            None => kind_word(&field.spec.kind),
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

/// The width of a chosen value with the markers around it; 0 for typed values.
fn chosen_columns(field: &FormField) -> usize {
    let width = |label: &str| text::width(&text::clean_line(label));
    match &field.value {
        FormValue::Choice(at) => at.map_or(0, |at| width(&field.spec.label(at)) + 4),
        FormValue::Many { .. } => choices(field).iter().map(|label| width(label) + 6).sum(),
        _ => 0,
    }
}

/// Whether a field's choices don't fit on its line next to the chosen value, so that they are listed below the fields.
fn are_choices_below(field: &FormField, hint: &str, available: usize) -> bool {
    let chosen_width = chosen_columns(field);
    chosen_width > 0 && chosen_width + text::width(&text::clean_line(hint)) + 1 > available
}

/// Cuts a name to `columns`. A path keeps its end, which distinguishes it from its neighbors.
fn fitted(name: &str, columns: usize, more: &str) -> String {
    if text::width(name) <= columns || !name.contains(['.', '[']) {
        return text::cut(name, columns, more).into_owned();
    }
    let available = columns.saturating_sub(text::width(more));
    format!("{more}{}", typed::tail(name, available))
}

/// Draws a field on one line, or on several if it is a focused JSON field.
pub(super) fn form_field(region: &mut Canvas<'_>, y: u16, shown: &FieldView<'_>, label: usize) {
    let FieldView {
        field,
        name,
        has_cursor,
        is_wrong,
        ..
    } = *shown;
    let more = region.glyphs().more;
    let need = match (is_wrong, field.spec.is_required) {
        (true, _) => "!",
        (false, true) => "*",
        (false, false) => " ",
    };
    let name = fitted(&text::clean_line(name), label, more);
    let pad = " ".repeat(label.saturating_sub(text::width(&name)));
    let head = format!("{name}{need}{pad} ");
    let end = region.columns();
    let value = match &field.value {
        // The hint says how many are selected, even if not all choices are visible.
        FormValue::Many { .. } => 0,
        _ => u16::try_from(chosen_columns(field)).unwrap_or(u16::MAX),
    };
    let available = end
        .saturating_sub(u16::try_from(label).unwrap_or(0) + value.saturating_add(3).max(26))
        .min(u16::try_from(MAX_HINT).unwrap_or(u16::MAX));
    let hint = field_hint(shown, usize::from(end), label);
    let hint = text::cut(&text::clean_line(&hint), usize::from(available), more).into_owned();
    let hint_wide = u16::try_from(text::width(&hint)).unwrap_or(0);
    let lines = u16::try_from(row_count(field, has_cursor)).unwrap_or(1);
    let mut left = region.region(0, y, end.saturating_sub(hint_wide + 1), lines);
    field_value(&mut left, field, &head, has_cursor);
    region.put_right_aligned(end, y, &hint, Role::Dim);
}

/// What stands right of a field's value; not sanitized.
fn field_hint(shown: &FieldView<'_>, columns: usize, label: usize) -> String {
    let field = shown.field;
    let mut hint = value_hint(field);
    // Showing the chosen value in full takes priority over listing the choices.
    if are_choices_below(field, &hint, columns.saturating_sub(label + 2)) {
        hint = match &field.value {
            FormValue::Many { chosen, .. } => {
                let taken = chosen.iter().filter(|chosen| **chosen).count();
                format!("{taken} of {}", chosen.len())
            }
            _ => String::new(),
        };
    }
    if shown.is_rerun && field.is_changed() {
        hint = format!("changed, {hint}");
    }
    if let Some(description) = &field.spec.description
        && shown.has_cursor
        && columns >= NARROW
    {
        hint = format!("{hint}: {description}");
    }
    hint
}

/// Draws a field's name and value.
fn field_value(left: &mut Canvas<'_>, field: &FormField, head: &str, has_cursor: bool) {
    let role = if has_cursor { Role::Key } else { Role::Dim };
    if let FormValue::Typed(input) = &field.value
        && !input.has_lines()
    {
        typed::field(left, 0, 0, head, input, has_cursor);
        return;
    }
    let x = left.put(0, 0, head, role);
    let unset = || "(left out)".to_owned();
    let label = match &field.value {
        FormValue::Typed(input) if has_cursor => {
            let (columns, lines) = (left.columns().saturating_sub(x), left.rows());
            return typed::lines(&mut left.region(x, 0, columns, lines), input, true);
        }
        FormValue::Typed(input) => {
            let words: Vec<&str> = input.text().split_whitespace().collect();
            left.put(x, 0, &text::clean_line(&words.join(" ")), Role::Plain);
            return;
        }
        FormValue::Many { chosen, at } => {
            return multi_select(left, x, field, chosen, has_cursor.then_some(*at));
        }
        FormValue::Items {
            is_present: true,
            fields,
            ..
        } => text::plural(fields.len() as u64, "item"),
        FormValue::Items { .. } => unset(),
        FormValue::Toggle(value) => {
            value.map_or_else(unset, |value| if value { "yes" } else { "no" }.to_owned())
        }
        FormValue::Choice(at) => at.map_or_else(unset, |at| field.spec.label(at)),
    };
    selector(left, x, &text::clean_line(&label), has_cursor);
}

/// Draws a value that is changed with Left and Right.
fn selector(left: &mut Canvas<'_>, x: u16, label: &str, has_cursor: bool) {
    if has_cursor {
        let x = left.put(x, 0, "< ", Role::Key);
        let x = left.put(x, 0, label, Role::Cursor);
        left.put(x, 0, " >", Role::Key);
    } else {
        left.put(x, 0, label, Role::Plain);
    }
}

/// Draws check boxes on one line, scrolled so that the one at the cursor is visible.
fn multi_select(
    left: &mut Canvas<'_>,
    x: u16,
    field: &FormField,
    chosen: &[bool],
    at: Option<usize>,
) {
    let labels: Vec<String> = chosen
        .iter()
        .enumerate()
        .map(|(index, chosen)| {
            let sign = if *chosen { "[x]" } else { "[ ]" };
            format!("{sign} {}", text::clean_line(&field.spec.label(index)))
        })
        .collect();
    let available = usize::from(left.columns().saturating_sub(x));
    let upto = |first: usize| {
        let shown = labels.iter().take(at.unwrap_or(0) + 1).skip(first);
        shown.map(|label| text::width(label) + 2).sum::<usize>()
    };
    let first = (0..=at.unwrap_or(0))
        .find(|first| upto(*first) <= available)
        .unwrap_or(at.unwrap_or(0));
    let mut x = x;
    for (index, label) in labels.iter().enumerate().skip(first) {
        let role = match (at == Some(index), chosen.get(index)) {
            (true, _) => Role::Cursor,
            (false, Some(true)) => Role::Strong,
            _ => Role::Plain,
        };
        x = left.put(x, 0, label, role) + 2;
    }
}
