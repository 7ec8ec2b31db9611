//! A question of a server: who asks and for what, what it says, what is filled in, and the ways out.

use crate::{
    app::{Button, FormField, FormValue, QuestionForm, State, position_of, waits},
    domain::{Link, Stamp, Wanted, text},
};

use super::{
    super::{
        canvas::Canvas,
        panes::{detail::wrap, list::name},
        theme::Role,
    },
    fields::{Shown, form_field, label_columns, takes},
};

/// Lines of complaints that are shown; one is mended at a time.
const COMPLAINTS: usize = 3;

pub(super) fn question(canvas: &mut Canvas<'_>, state: &State, form: &QuestionForm, now: Stamp) {
    let Some(task_row) = state.task(&form.task) else {
        return;
    };
    let (place, count) = position_of(state, form);
    let title = match count {
        0 | 1 => "A question".to_owned(),
        _ => format!("Question {place} of {count}"),
    };
    let columns = canvas.window_columns(88);
    let room = usize::from(columns.saturating_sub(4)).max(1);
    let task = &task_row.view.task;
    let server = text::clean_line(task.server.as_str());
    let more = canvas.glyphs().more;
    let whose = format!(
        "{server} asks, for {} ({})",
        name(state, task_row, room, more),
        task.id
    );
    let mut head: Vec<(String, Role)> = Vec::new();
    head.extend(
        wrap(&whose, room)
            .into_iter()
            .take(2)
            .map(|line| (line, Role::Strong)),
    );
    let waits = wrap(&waits(state, task, &form.key, now), room);
    head.extend(waits.into_iter().take(2).map(|line| (line, Role::Dim)));
    let message = message_lines(form, room);
    let page = form.link.as_ref().map(|link| page_lines(link, room));
    let middle = match &page {
        Some(page) => page.len(),
        None => form.fields.len(),
    };
    let (said, said_role) = said(form, room);
    let most = usize::from(canvas.rows().saturating_sub(3));
    // What is said by the server gives way first, then the blank lines; what is asked for scrolls.
    let fixed = head.len() + said.len() + 1;
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
        let words = format!(
            " {} more lines, in the Now tab",
            message.len() - message_rows
        );
        let end = window.columns();
        window.put_before(end, y - 1, &words, Role::Dim);
    }
    y += u16::try_from(gap).unwrap_or(0);
    match &page {
        Some(page) => page_part(&mut window, y, page, middle_rows),
        None => fields(&mut window, y, form, middle_rows),
    }
    let below = if middle == 0 { 0 } else { middle_rows + gap };
    y += u16::try_from(below).unwrap_or(0);
    for line in &said {
        window.put(0, y, line, said_role);
        y += 1;
    }
    buttons(&mut window, y, form);
}

fn message_lines(form: &QuestionForm, room: usize) -> Vec<String> {
    let clean = text::clean_block(&form.elicitation.message);
    let lines = clean.trim_end().lines().flat_map(|line| wrap(line, room));
    let mut lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        lines.push("(no message)".to_owned());
    }
    if let Wanted::Form { warnings, .. } = &form.elicitation.wanted {
        let warnings = warnings.iter().map(|warning| text::clean_line(warning));
        lines.extend(warnings.flat_map(|warning| wrap(&warning, room)));
    }
    lines
}

/// The whole URL cut into rows, its host told from the rest, then what is suspicious of it.
fn page_lines(link: &Link, room: usize) -> Vec<Vec<(String, Role)>> {
    let mut url = Vec::new();
    let mut row: Vec<(String, Role)> = Vec::new();
    let mut used = 0;
    for (part, role) in [
        (&link.before, Role::Dim),
        (&link.host, Role::Needs),
        (&link.after, Role::Dim),
    ] {
        let mut piece = String::new();
        for letter in part.chars() {
            let wide = text::width(letter.encode_utf8(&mut [0; 4]));
            if used + wide > room {
                row.push((std::mem::take(&mut piece), role));
                url.push(std::mem::take(&mut row));
                used = 0;
            }
            piece.push(letter);
            used += wide;
        }
        if !piece.is_empty() {
            row.push((piece, role));
        }
    }
    url.push(row);
    // First what a person has to know; a URL may be as long as its server likes.
    let mut lines = Vec::new();
    let leads = (!link.host.is_empty()).then(|| format!("It leads to {}.", link.host));
    let warnings = link
        .warnings
        .iter()
        .map(|warning| (warning.clone(), Role::Failed));
    for (words, role) in leads
        .map(|words| (words, Role::Plain))
        .into_iter()
        .chain(warnings)
    {
        let wrapped = wrap(&words, room).into_iter();
        lines.extend(wrapped.map(|line| vec![(line, role)]));
    }
    lines.extend(url);
    lines
}

fn page_part(window: &mut Canvas<'_>, y: u16, page: &[Vec<(String, Role)>], rows: usize) {
    for (line, y) in page.iter().take(rows).zip(y..) {
        let mut x = 0;
        for (words, role) in line {
            x = window.put(x, y, words, *role);
        }
    }
    if rows < page.len() && rows > 0 {
        let end = window.columns();
        let last = y + u16::try_from(rows - 1).unwrap_or(0);
        window.put_before(
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
    for ((place, field), y) in shown.zip(y..) {
        let shown = Shown {
            field,
            name: field.name(),
            has_cursor: form.at == Some(place),
            is_again: false,
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
    window.put_before(end, 0, &signs.join(" "), Role::Dim);
}

/// What is said above the buttons: what is wrong, what the field takes, or what a key does next.
fn said(form: &QuestionForm, room: usize) -> (Vec<String>, Role) {
    if !form.errors.is_empty() {
        let complaints = form.errors.iter().map(|line| text::clean_line(line));
        let lines = complaints
            .flat_map(|line| wrap(&line, room))
            .take(COMPLAINTS);
        return (lines.collect(), Role::Failed);
    }
    if form.is_opening {
        let line = "o once more opens it in your browser.".to_owned();
        return (wrap(&line, room), Role::Needs);
    }
    let field = form.at.and_then(|at| form.fields.get(at));
    let words = match (field, form.button(), &form.link) {
        (Some(field), ..) => {
            let need = if field.spec.is_required {
                "needed: "
            } else {
                ""
            };
            let about = field.spec.description.as_deref();
            let about = about.map_or(String::new(), |about| format!("; {about}"));
            let what = match &field.value {
                FormValue::Typed(_) => field.spec.wanted(),
                FormValue::Many { .. } => {
                    let all = takes(field);
                    format!("{all}; arrows to move, Space to select")
                }
                FormValue::Choice(_) => format!("{}; Left/Right to change", takes(field)),
                // A question has none of the latter.
                FormValue::Toggle(_)
                | FormValue::Members { .. }
                | FormValue::Items { .. }
                | FormValue::Variant { .. } => "Left/Right to change".to_owned(),
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
    let mut lines = wrap(&text::clean_line(&words), room);
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
