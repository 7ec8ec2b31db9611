//! The dialog for a server's question: its origin and message, the form or link, and the answer buttons.

use super::{
    super::{canvas::Canvas, panes::list::name, theme::Role},
    fields::{FieldView, form_field, label_columns, value_hint},
};
use crate::{
    app::{Button, FormField, FormValue, QuestionForm, State, position_of, waits},
    domain::{ElicitationMode, Stamp, UrlPreview, text},
    ui::wrap::wrap,
};

/// The maximum number of validation error lines; users fix one at a time.
const MAX_PROBLEM_LINES: usize = 3;

pub(super) fn question(canvas: &mut Canvas<'_>, state: &State, form: &QuestionForm, now: Stamp) {
    let Some(task_row) = state.task(&form.task) else {
        return;
    };
    let (number, count) = position_of(state, form);
    let title = match count {
        0 | 1 => "Question".to_owned(),
        _ => format!("Question {number} of {count}"),
    };
    let columns = canvas.window_columns(88);
    let available = usize::from(columns.saturating_sub(4)).max(1);
    let task = &task_row.view.task;
    let server = text::clean_line(task.server.as_str());
    let more = canvas.glyphs().more;
    let whose = format!(
        "{server} asks, for {} ({})",
        name(state, task_row, available, more),
        task.id
    );
    let mut head: Vec<(String, Role)> = Vec::new();
    head.extend(
        wrap(&whose, available)
            .into_iter()
            .take(2)
            .map(|line| (line, Role::Strong)),
    );
    let waits = wrap(&waits(state, task, &form.key, now), available);
    head.extend(waits.into_iter().take(2).map(|line| (line, Role::Dim)));
    let message = message_lines(form, available);
    let page = form.link.as_ref().map(|link| page_lines(link, available));
    let middle = match &page {
        Some(page) => page.len(),
        None => form.fields.len(),
    };
    let (status_lines, status_role) = status_text(form, available);
    let most = usize::from(canvas.rows().saturating_sub(3));
    // When space is short, the server's message is cut first, then the blank lines go; the form scrolls.
    let fixed = head.len() + status_lines.len() + 1;
    let wanted = fixed + message.len() + middle + 3;
    let is_tight = wanted > most;
    let gap = usize::from(!is_tight);
    let left = most.saturating_sub(fixed + 3 * gap);
    let middle_rows = middle.min(left.saturating_sub(message.len().min(2)).max(1));
    let message_rows = message.len().min(left.saturating_sub(middle_rows));
    let gaps = if middle == 0 { 2 } else { 3 };
    let rows = fixed + message_rows + middle_rows + gaps * gap;
    let mut window = canvas.window(columns, u16::try_from(rows + 2).unwrap_or(u16::MAX), &title);
    let mut y = 0;
    for (line, role) in &head {
        window.put(0, y, line, *role);
        y += 1;
    }
    y += u16::try_from(gap).unwrap_or(0);
    for line in message.iter().take(message_rows) {
        window.put(0, y, line, Role::Plain);
        y += 1;
    }
    if message_rows < message.len() && message_rows > 0 {
        let more = format!(
            " {} more lines in the Now tab",
            message.len() - message_rows
        );
        let end = window.columns();
        window.put_right_aligned(end, y - 1, &more, Role::Dim);
    }
    y += u16::try_from(gap).unwrap_or(0);
    match &page {
        Some(page) => page_part(&mut window, y, page, middle_rows),
        None => fields(&mut window, y, form, middle_rows),
    }
    let below = if middle == 0 { 0 } else { middle_rows + gap };
    y += u16::try_from(below).unwrap_or(0);
    for line in &status_lines {
        window.put(0, y, line, status_role);
        y += 1;
    }
    buttons(&mut window, y, form);
}

fn message_lines(form: &QuestionForm, available: usize) -> Vec<String> {
    let clean = text::clean_block(&form.elicitation.message);
    let lines = clean
        .trim_end()
        .lines()
        .flat_map(|line| wrap(line, available));
    let mut lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        lines.push("(no message)".to_owned());
    }
    if let ElicitationMode::Form { warnings, .. } = &form.elicitation.mode {
        let warnings = warnings.iter().map(|warning| text::clean_line(warning));
        lines.extend(warnings.flat_map(|warning| wrap(&warning, available)));
    }
    lines
}

/// The link's host, its warnings, then the whole URL in rows with the host highlighted.
fn page_lines(link: &UrlPreview, available: usize) -> Vec<Vec<(String, Role)>> {
    let mut url = Vec::new();
    let mut row: Vec<(String, Role)> = Vec::new();
    let mut used = 0;
    for (part, role) in [
        (&link.before, Role::Dim),
        (&link.host, Role::Needs),
        (&link.after, Role::Dim),
    ] {
        let mut piece = String::new();
        for ch in part.chars() {
            let width = text::width(ch.encode_utf8(&mut [0; 4]));
            if used + width > available {
                row.push((std::mem::take(&mut piece), role));
                url.push(std::mem::take(&mut row));
                used = 0;
            }
            piece.push(ch);
            used += width;
        }
        if !piece.is_empty() {
            row.push((piece, role));
        }
    }
    url.push(row);
    // Host and warnings come first, because the URL may be arbitrarily long.
    let mut lines = Vec::new();
    let target = (!link.host.is_empty()).then(|| format!("This link opens {}.", link.host));
    let warnings = link
        .warnings
        .iter()
        .map(|warning| (warning.clone(), Role::Failed));
    for (line, role) in target
        .map(|line| (line, Role::Plain))
        .into_iter()
        .chain(warnings)
    {
        let wrapped = wrap(&line, available).into_iter();
        lines.extend(wrapped.map(|line| vec![(line, role)]));
    }
    lines.extend(url);
    lines
}

fn page_part(window: &mut Canvas<'_>, y: u16, page: &[Vec<(String, Role)>], rows: usize) {
    for (line, y) in page.iter().take(rows).zip(y..) {
        let mut x = 0;
        for (piece, role) in line {
            x = window.put(x, y, piece, *role);
        }
    }
    if rows < page.len() && rows > 0 {
        let end = window.columns();
        let last = y + u16::try_from(rows - 1).unwrap_or(0);
        window.put_right_aligned(
            end,
            last,
            &format!(" {} more lines", page.len() - rows),
            Role::Dim,
        );
    }
}

fn fields(window: &mut Canvas<'_>, y: u16, form: &QuestionForm, rows: usize) {
    if form.fields.is_empty() {
        return;
    }
    let at = form
        .at
        .unwrap_or(0)
        .min(form.fields.len().saturating_sub(1));
    let first = (at + 1).saturating_sub(rows);
    let label = label_columns(form.fields.iter().map(FormField::name));
    let shown = form.fields.iter().enumerate().skip(first).take(rows);
    for ((index, field), y) in shown.zip(y..) {
        let shown = FieldView {
            field,
            name: field.name(),
            has_cursor: form.at == Some(index),
            is_rerun: false,
            is_wrong: false,
        };
        form_field(window, y, &shown, label);
    }
    let below = form.fields.len().saturating_sub(first + rows);
    let [up, down] = window.glyphs().arrows;
    let signs: Vec<String> = [(first, up), (below, down)]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, sign)| format!("{sign}{count}"))
        .collect();
    let end = window.columns();
    window.put_right_aligned(end, 0, &signs.join(" "), Role::Dim);
}

/// The lines above the buttons: validation errors, help for the field, or help for the button.
fn status_text(form: &QuestionForm, available: usize) -> (Vec<String>, Role) {
    if !form.errors.is_empty() {
        let problems = form.errors.iter().map(|line| text::clean_line(line));
        let lines = problems
            .flat_map(|line| wrap(&line, available))
            .take(MAX_PROBLEM_LINES);
        return (lines.collect(), Role::Failed);
    }
    if form.is_opening {
        let line = "Press o again to open it in your browser.".to_owned();
        return (wrap(&line, available), Role::Needs);
    }
    let field = form.at.and_then(|at| form.fields.get(at));
    let help = match (field, form.button(), &form.link) {
        (Some(field), ..) => {
            let need = if field.spec.is_required {
                "required: "
            } else {
                ""
            };
            let about = field.spec.description.as_deref();
            let about = about.map_or(String::new(), |about| format!("; {about}"));
            let what = match &field.value {
                FormValue::Typed(_) => field.spec.expected(),
                FormValue::Many { .. } => {
                    let all = value_hint(field);
                    format!("{all}; arrows to move, Space to select")
                }
                FormValue::Choice(_) => format!("{}; Left/Right to change", value_hint(field)),
                // Question forms have no lists.
                FormValue::Toggle(_) | FormValue::Items { .. } => "Left/Right to change".to_owned(),
            };
            format!("{need}{what}{about}")
        }
        (None, Some(Button::Accept), Some(_)) => {
            "Accept tells the server that you agree to open it, not that you did.".to_owned()
        }
        (None, Some(Button::Accept), None) => "Accept sends your answer.".to_owned(),
        (None, Some(Button::Decline), _) => "Decline refuses the request.".to_owned(),
        (None, Some(Button::Dismiss), _) => {
            "Dismiss closes the question without choosing; the server may ask again.".to_owned()
        }
        (None, None, _) => "Press Tab to start filling this in, Esc to answer later.".to_owned(),
    };
    let mut lines = wrap(&text::clean_line(&help), available);
    lines.truncate(4);
    (lines, Role::Dim)
}

fn buttons(window: &mut Canvas<'_>, y: u16, form: &QuestionForm) {
    if form.is_sent {
        window.put(0, y, "[ saving the answer ... ]", Role::Dim);
        return;
    }
    let mut x = 0;
    for button in Button::ALL {
        let label = match button {
            Button::Accept if form.link.is_some() => "[ I agree to open it ]",
            Button::Accept => "[ Accept ]",
            Button::Decline => "[ Decline ]",
            Button::Dismiss => "[ Dismiss ]",
        };
        let role = if form.button() == Some(button) {
            Role::Cursor
        } else {
            Role::Key
        };
        x = window.put(x, y, label, role) + 2;
    }
    if window.columns().saturating_sub(x) >= 9 {
        window.put(x, y, "Esc later", Role::Dim);
    }
}
