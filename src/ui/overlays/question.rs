//! The dialog for a server's question: its origin and message, the form or link, and the answer buttons.

use ratatui::text::{Line, Span};

use super::{
    super::panes::list::name,
    call::put_hidden,
    fields::{FieldView, error_lines, form_fields, long_name, row_count, value_hint},
};
use crate::{
    app::{Action, Button, FormValue, QuestionForm, State, position_of, waits},
    domain::{ElicitationMode, Stamp, UrlPreview, text},
    ui::{Region, Role, Theme, wrap::wrap},
};

/// The maximum number of validation error lines; users fix one at a time.
const MAX_PROBLEM_LINES: usize = 3;

pub(super) fn question(region: &mut Region<'_>, state: &State, form: &QuestionForm, now: Stamp) {
    let Some(task_row) = state.task(&form.task) else {
        return;
    };
    let (number, count) = position_of(state, form);
    let title = match count {
        0 | 1 => "Question".to_owned(),
        _ => format!("Question {number} of {count}"),
    };
    let theme = region.theme;
    let columns = region.window_columns(88);
    let available = usize::from(columns.saturating_sub(4)).max(1);
    let task = &task_row.view.task;
    let name = name(state, task_row, available, theme.glyphs.more);
    let question = task.questions.iter().find(|it| it.key == form.key);
    let whose = match question.map_or(0, |question| question.shared_with.len()) {
        0 => format!("{} asks about {name} ({})", task.server, task.id),
        others => format!("{} asks about one of {} calls", task.server, others + 1),
    };
    let waits = waits(state, task, &form.key, now);
    let head = [(whose, Role::Strong), (waits, Role::Dim)].into_iter();
    let head = head.flat_map(|(line, role)| {
        let lines = wrap(&line, available).into_iter().take(2);
        lines.map(move |line| theme.span(line, role))
    });
    let head: Vec<Span<'_>> = head.collect();
    let message = message_lines(form, available);
    let page = form.link.as_ref();
    let page = page.map(|link| page_lines(theme, link, available));
    let fields_rows = || {
        let fields = form.fields.iter().enumerate();
        let rows = fields.map(|(index, field)| row_count(field, form.at == Some(index)));
        rows.sum()
    };
    let middle = page.as_ref().map_or_else(fields_rows, Vec::len);
    let (status_lines, status_role) = status_text(form, available);
    let most = usize::from(region.rows().saturating_sub(3));
    // When space is short, the server's message is cut first, then the blank lines go; the form scrolls.
    let fixed = head.len() + status_lines.len() + 1;
    let wanted = fixed + message.len() + middle + 3;
    let gap = usize::from(wanted <= most);
    let left = most.saturating_sub(fixed + 3 * gap);
    let middle_rows = middle.min(left.saturating_sub(message.len().min(2)).max(1));
    let message_rows = message.len().min(left.saturating_sub(middle_rows));
    let gaps = if middle == 0 { 2 } else { 3 };
    let rows = fixed + message_rows + middle_rows + gaps * gap;
    let rows = u16::try_from(rows + 2).unwrap_or(u16::MAX);
    let mut window = region.window(columns, rows, &title);
    let gap = u16::try_from(gap).unwrap_or(0);
    let y = window.put_lines(0, 0, head) + gap;
    let hidden = message.len() - message_rows;
    let lines = message.into_iter().take(message_rows);
    let mut y = window.put_text(0, y, lines, Role::Plain);
    if hidden > 0 && message_rows > 0 {
        let more = text::plural(hidden, "more line");
        let key = state.key(Action::PageDown);
        window.put_note(y.saturating_sub(1), format!(" {more}; {key} shows all"));
    }
    y += gap;
    match page {
        Some(page) => page_part(&mut window, y, page, middle_rows),
        None => fields(&mut window, y, form, middle_rows),
    }
    if middle > 0 {
        y = y.saturating_add(u16::try_from(middle_rows).unwrap_or(u16::MAX)) + gap;
    }
    let y = window.put_text(0, y, status_lines, status_role);
    window.put(0, y, buttons(theme, window.columns(), form));
}

fn message_lines(form: &QuestionForm, available: usize) -> Vec<String> {
    let clean = text::clean_block(&form.elicitation.message);
    let lines = clean.trim_end().lines();
    let mut lines: Vec<String> = lines.flat_map(|line| wrap(line, available)).collect();
    if lines.is_empty() {
        lines.push("(no message)".to_owned());
    }
    if let ElicitationMode::Form { warnings, .. } = &form.elicitation.mode {
        lines.extend(warnings.iter().flat_map(|it| wrap(it, available)));
    }
    lines
}

/// The link's host, its warnings, then the whole URL in rows with the host highlighted.
fn page_lines(theme: Theme, link: &UrlPreview, available: usize) -> Vec<Line<'static>> {
    // Host and warnings come first, because the URL may be arbitrarily long.
    let target = (!link.host.is_empty()).then(|| format!("This link opens {}.", link.host));
    let target = target.map(|line| (line, Role::Plain)).into_iter();
    let warnings = link.warnings.iter();
    let warnings = warnings.map(|it| (format!("Warning: {it}"), Role::Failed));
    let lines = target.chain(warnings).flat_map(|(line, role)| {
        let lines = wrap(&line, available).into_iter();
        lines.map(move |line| Line::from(theme.span(line, role)))
    });
    let mut lines: Vec<Line<'static>> = lines.collect();
    let mut row = Line::default();
    for (part, role) in [
        (&link.before, Role::Dim),
        (&link.host, Role::Needs),
        (&link.after, Role::Dim),
    ] {
        let part = theme.span(part.as_str(), role);
        for grapheme in part.styled_graphemes(theme.style(role)) {
            if row.width() + text::width(grapheme.symbol) > available {
                lines.push(std::mem::take(&mut row));
            }
            row.push_span(Span::styled(grapheme.symbol.to_owned(), grapheme.style));
        }
    }
    lines.push(row);
    lines
}

fn page_part(window: &mut Region<'_>, y: u16, page: Vec<Line<'_>>, rows: usize) {
    let hidden = page.len().saturating_sub(rows);
    let y = window.put_lines(0, y, page.into_iter().take(rows));
    if hidden > 0 && rows > 0 {
        let more = text::plural(hidden, "more line");
        window.put_note(y.saturating_sub(1), format!(" {more}"));
    }
}

fn fields(window: &mut Region<'_>, y: u16, form: &QuestionForm, rows: usize) {
    let shown = form.fields.iter().enumerate();
    let shown = shown.map(|(index, field)| FieldView {
        field,
        has_cursor: form.at == Some(index),
        is_rerun: false,
        is_wrong: false,
    });
    let shown: Vec<FieldView<'_>> = shown.collect();
    let rows = u16::try_from(rows).unwrap_or(u16::MAX);
    let mut region = window.region(0, y, window.columns(), rows);
    let (above, below) = form_fields(&mut region, &shown, form.at.unwrap_or(0));
    put_hidden(window, above, below);
}

/// The lines above the buttons: validation errors, help for the field, or help for the button.
fn status_text(form: &QuestionForm, available: usize) -> (Vec<String>, Role) {
    if !form.errors.is_empty() {
        let lines = error_lines(&form.errors, available, MAX_PROBLEM_LINES);
        return (lines, Role::Failed);
    }
    if form.is_opening {
        let host = form.link.as_ref().map_or("", |link| &link.host);
        let line = format!("Press o again to open {host} in your browser.");
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
                FormValue::Toggle(_) => "Left/Right to change".to_owned(),
            };
            format!("{}{need}{what}{about}", long_name(field))
        }
        (None, Some(Button::Accept), Some(_)) => {
            "This tells the server that you agree to open it, not that you did.".to_owned()
        }
        (None, Some(Button::Accept), None) => "Accept sends your answer.".to_owned(),
        (None, Some(Button::Decline), _) => "Decline refuses to answer.".to_owned(),
        (None, Some(Button::Dismiss), _) => {
            "Dismiss closes the question without choosing; the server may ask again.".to_owned()
        }
        (None, None, _) => "Press Tab to start answering, Esc to answer later.".to_owned(),
    };
    let mut lines = wrap(&help, available);
    lines.truncate(4);
    (lines, Role::Dim)
}

fn buttons(theme: Theme, columns: u16, form: &QuestionForm) -> Line<'static> {
    if form.is_sent {
        return theme.span("[ saving the answer ... ]", Role::Dim).into();
    }
    let mut line = Line::default();
    for button in Button::ALL {
        let label = match button {
            Button::Accept => "[ Accept ]",
            Button::Decline => "[ Decline ]",
            Button::Dismiss => "[ Dismiss ]",
        };
        let role = Role::of_button(form.button() == Some(button));
        line.extend([theme.span(label, role), Span::raw("  ")]);
    }
    let later = "Esc later";
    if line.width() + later.len() <= usize::from(columns) {
        line.push_span(theme.span(later, Role::Dim));
    }
    line
}
