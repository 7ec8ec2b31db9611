//! The fields of a form, as the call and the question have them.

use crate::{
    app::{FormField, FormValue},
    domain::{ArgumentKind, text},
};

use super::{
    super::{canvas::Canvas, panes::tools::kind_word, theme::Role},
    typed,
};

/// Columns that what a field takes may have on its line.
pub(super) const HINT: usize = 44;

/// Columns below which a field has no room for its description.
pub(super) const NARROW: usize = 66;

/// Columns for the names of fields.
pub(super) fn label_columns<'n>(names: impl Iterator<Item = &'n str>) -> usize {
    names
        .map(|name| text::width(&text::clean_line(name)))
        .max()
        .unwrap_or(8)
        .clamp(6, 24)
}

/// A field as it is drawn.
pub(super) struct Shown<'f> {
    /// Which.
    pub(super) field: &'f FormField,
    /// What it is called; not sanitised.
    pub(super) name: &'f str,
    /// Whether it has the keys.
    pub(super) has_cursor: bool,
    /// Whether what was changed is worth a word.
    pub(super) is_again: bool,
    /// Whether something is wrong with it.
    pub(super) is_wrong: bool,
}

/// Lines that a field of JSON has while it is typed in.
const LINES: usize = 6;

/// Lines that a field takes.
pub(super) fn lines_of(field: &FormField, has_cursor: bool) -> usize {
    match &field.value {
        FormValue::Typed(typed) if typed.has_lines() && has_cursor => {
            typed.text().split('\n').count().clamp(1, LINES)
        }
        _ => 1,
    }
}

/// What a field takes, in a word or two; not sanitised.
pub(super) fn takes(field: &FormField) -> String {
    match &field.value {
        FormValue::Members { .. } => "object".to_owned(),
        FormValue::Items { each, .. } => match each.spec.kind {
            ArgumentKind::Json => "list".to_owned(),
            _ => format!("list, each {}", kind_word(&each.spec.kind)),
        },
        FormValue::Variant { labels, .. } => format!("one of {}", labels.join(", ")),
        FormValue::Choice(_) => format!("one of {}", choices(field).join(", ")),
        FormValue::Many { .. } => format!("any of {}", choices(field).join(", ")),
        _ => match &field.spec.format {
            Some(format) => format!("{}, {format}", kind_word(&field.spec.kind)),
            None => kind_word(&field.spec.kind),
        },
    }
}

/// What the choices are called; not sanitised.
fn choices(field: &FormField) -> Vec<String> {
    match &field.spec.kind {
        ArgumentKind::Choice(all) | ArgumentKind::Many(all) => (0..all.len())
            .map(|place| field.spec.label(place))
            .collect(),
        _ => Vec::new(),
    }
}

/// Columns that what is chosen takes, with the signs around it; nothing where it is typed.
fn chosen_columns(field: &FormField) -> usize {
    let wide = |word: &str| text::width(&text::clean_line(word));
    match &field.value {
        FormValue::Variant { at, labels, .. } => {
            let label = at.and_then(|at| labels.get(at));
            label.map_or(0, |label| wide(label) + 4)
        }
        FormValue::Choice(at) => at.map_or(0, |at| wide(&field.spec.label(at)) + 4),
        FormValue::Many { .. } => choices(field).iter().map(|word| wide(word) + 6).sum(),
        _ => 0,
    }
}

/// Whether the choices of a field have no room on its line beside what is chosen; they are told below the fields then.
fn are_choices_below(field: &FormField, hint: &str, room: usize) -> bool {
    let takes = chosen_columns(field);
    takes > 0 && takes + text::width(&text::clean_line(hint)) + 1 > room
}

/// A name in so many columns; of a path its end, which tells it from its neighbours.
fn fitted(name: &str, columns: usize, more: &str) -> String {
    if text::width(name) <= columns || !name.contains(['.', '[']) {
        return text::cut(name, columns, more).into_owned();
    }
    let room = columns.saturating_sub(text::width(more));
    format!("{more}{}", typed::tail(name, room))
}

/// One field, on one line unless it is JSON that is being typed.
pub(super) fn form_field(part: &mut Canvas<'_>, y: u16, shown: &Shown<'_>, label: usize) {
    let Shown {
        field,
        name,
        has_cursor,
        is_again,
        is_wrong,
    } = *shown;
    let glyphs = part.glyphs();
    let need = match (is_wrong, field.spec.is_required) {
        (true, _) => "!",
        (false, true) => "*",
        (false, false) => " ",
    };
    let name = fitted(&text::clean_line(name), label, glyphs.more);
    let pad = " ".repeat(label.saturating_sub(text::width(&name)));
    let head = format!("{name}{need}{pad} ");
    let end = part.columns();
    // What it takes stands at the right edge, as long as there is room.
    let mut hint = takes(field);
    // What is chosen is read whole before what else could be.
    let beside = usize::from(end).saturating_sub(label + 2);
    if are_choices_below(field, &hint, beside) {
        hint = match &field.value {
            FormValue::Many { chosen, .. } => {
                let taken = chosen.iter().filter(|chosen| **chosen).count();
                format!("{taken} of {}", chosen.len())
            }
            _ => String::new(),
        };
    }
    if is_again && field.is_changed() {
        hint = format!("changed, {hint}");
    }
    if let Some(words) = &field.spec.description
        && has_cursor
        && usize::from(end) >= NARROW
    {
        hint = format!("{hint}: {words}");
    }
    let hint = text::clean_line(&hint).into_owned();
    let value = match &field.value {
        // How many are taken is said whatever of them is seen.
        FormValue::Many { .. } => 0,
        _ => u16::try_from(chosen_columns(field)).unwrap_or(u16::MAX),
    };
    let room = end
        .saturating_sub(u16::try_from(label).unwrap_or(0) + value.saturating_add(3).max(26))
        .min(u16::try_from(HINT).unwrap_or(u16::MAX));
    let hint = text::cut(&hint, usize::from(room), glyphs.more).into_owned();
    let hint_wide = u16::try_from(text::width(&hint)).unwrap_or(0);
    {
        let lines = u16::try_from(lines_of(field, has_cursor)).unwrap_or(1);
        let mut left = part.part(0, y, end.saturating_sub(hint_wide + 1), lines);
        let role = if has_cursor { Role::Key } else { Role::Dim };
        match &field.value {
            FormValue::Typed(input) if input.has_lines() => {
                let x = left.put(0, 0, &head, role);
                if has_cursor {
                    let columns = left.columns().saturating_sub(x);
                    typed::lines(&mut left.part(x, 0, columns, lines), input, true);
                } else {
                    let words = input
                        .text()
                        .split_whitespace()
                        .collect::<Vec<_>>()
                        .join(" ");
                    left.put(x, 0, &text::clean_line(&words), Role::Plain);
                }
            }
            FormValue::Members { is_present, .. } => {
                let x = left.put(0, 0, &head, role);
                let word = if *is_present { "given" } else { "(left out)" };
                turned(&mut left, x, word, has_cursor);
            }
            FormValue::Items {
                is_present, fields, ..
            } => {
                let x = left.put(0, 0, &head, role);
                let word = if *is_present {
                    text::plural(fields.len() as u64, "item")
                } else {
                    "(left out)".to_owned()
                };
                turned(&mut left, x, &word, has_cursor);
            }
            FormValue::Variant { at, labels, .. } => {
                let x = left.put(0, 0, &head, role);
                let label = at.and_then(|at| labels.get(at));
                let word = label.map_or("(left out)", String::as_str);
                turned(&mut left, x, &text::clean_line(word), has_cursor);
            }
            FormValue::Typed(input) => {
                typed::field(&mut left, 0, 0, &head, input, has_cursor);
            }
            FormValue::Toggle(value) => {
                let x = left.put(0, 0, &head, if has_cursor { Role::Key } else { Role::Dim });
                let word = match value {
                    Some(true) => "yes",
                    Some(false) => "no",
                    None => "(left out)",
                };
                turned(&mut left, x, word, has_cursor);
            }
            FormValue::Choice(at) => {
                let x = left.put(0, 0, &head, if has_cursor { Role::Key } else { Role::Dim });
                let word = at.map_or("(left out)".to_owned(), |at| field.spec.label(at));
                turned(&mut left, x, &text::clean_line(&word), has_cursor);
            }
            FormValue::Many { chosen, at } => {
                let x = left.put(0, 0, &head, if has_cursor { Role::Key } else { Role::Dim });
                many(&mut left, x, field, chosen, has_cursor.then_some(*at));
            }
        }
    }
    part.put_before(end, y, &hint, Role::Dim);
}

/// A value that is turned rather than typed.
fn turned(left: &mut Canvas<'_>, x: u16, word: &str, has_cursor: bool) {
    if has_cursor {
        let x = left.put(x, 0, "< ", Role::Key);
        let x = left.put(x, 0, word, Role::Cursor);
        left.put(x, 0, " >", Role::Key);
    } else {
        left.put(x, 0, word, Role::Plain);
    }
}

/// The choices that can be taken; those before the one that Space means leave the line first.
fn many(left: &mut Canvas<'_>, x: u16, field: &FormField, chosen: &[bool], at: Option<usize>) {
    let words: Vec<String> = chosen
        .iter()
        .enumerate()
        .map(|(place, chosen)| {
            let sign = if *chosen { "[x]" } else { "[ ]" };
            format!("{sign} {}", text::clean_line(&field.spec.label(place)))
        })
        .collect();
    let room = usize::from(left.columns().saturating_sub(x));
    let upto = |first: usize| {
        let shown = words.iter().take(at.unwrap_or(0) + 1).skip(first);
        shown.map(|word| text::width(word) + 2).sum::<usize>()
    };
    let first = (0..=at.unwrap_or(0))
        .find(|first| upto(*first) <= room)
        .unwrap_or(at.unwrap_or(0));
    let mut x = x;
    for (place, word) in words.iter().enumerate().skip(first) {
        let role = match (at == Some(place), chosen.get(place)) {
            (true, _) => Role::Cursor,
            (false, Some(true)) => Role::Strong,
            _ => Role::Plain,
        };
        x = left.put(x, 0, word, role) + 2;
    }
}
