//! The log of a task in the detail pane.

use crate::{
    app::{Action, State, TaskLog, TaskRow, finds},
    domain::{HistoryEntry, HistoryEvent, HistoryLine, LogLevel, text},
    ui::{canvas::Canvas, theme::Role, wrap::wrap_hanging},
};

pub(super) fn log_tab(canvas: &mut Canvas<'_>, state: &State, task_row: &TaskRow) {
    let log = state.detail.logs.get(&task_row.view.task.id);
    log_lines(canvas, state, task_row, log, state.detail.scroll);
}

pub(super) fn nothing_yet(canvas: &mut Canvas<'_>, task_row: &TaskRow) {
    let note = if task_row.view.saved_seq == 0 {
        "Nothing recorded yet."
    } else {
        "Reading the history ..."
    };
    canvas.put(0, 0, note, Role::Dim);
}

/// Draws an entry on one line; a connection change is extended to a separator line.
pub(super) fn put_entry(
    canvas: &mut Canvas<'_>,
    y: u16,
    pieces: &[(String, Role)],
    is_separator: bool,
) {
    let mut x = 0;
    for (text, role) in pieces {
        x = canvas.put(x, y, text, *role);
    }
    if is_separator {
        let line = canvas.glyphs().line;
        let left = canvas.columns().saturating_sub(x + 1).min(12);
        canvas.repeat(x + 1, y, left, line, Role::Cut);
    }
}

/// Draws a task's newest entries, newest first. Progress entries are left out if there are log messages.
pub(super) fn newest_lines(
    canvas: &mut Canvas<'_>,
    state: &State,
    task_row: &TaskRow,
    log: Option<&TaskLog>,
) {
    let Some(log) = log.filter(|log| !log.entries.is_empty()) else {
        return nothing_yet(canvas, task_row);
    };
    let is_step = |entry: &HistoryEntry| matches!(entry.what, HistoryEvent::Progress { .. });
    let recent = || log.entries.iter().rev().take(200);
    let has_words = recent().any(|entry| matches!(entry.what, HistoryEvent::Log { .. }));
    let line = canvas.glyphs().line;
    let rows = canvas.rows();
    let shown = recent().filter(|entry| !has_words || !is_step(entry));
    for (entry, y) in shown.zip(0..rows) {
        let (pieces, _) = entry_pieces(state, entry, line);
        let is_separator = matches!(entry.what, HistoryEvent::Contact { .. });
        put_entry(canvas, y, &pieces, is_separator);
    }
}

/// The scroll position (entries before the end) reduced from `back` until the page is full.
pub(super) fn full_page(
    state: &State,
    log: &TaskLog,
    back: usize,
    rows: usize,
    columns: usize,
    line: &str,
) -> usize {
    let height = |entry: &HistoryEntry| {
        if !state.detail.text.is_wrapping || matches!(entry.what, HistoryEvent::Contact { .. }) {
            return 1;
        }
        let (pieces, indent) = entry_pieces(state, entry, line);
        let whole: String = pieces.into_iter().map(|(text, _)| text).collect();
        wrap_hanging(&whole, columns, indent).len()
    };
    let last = log.entries.len().saturating_sub(1);
    let mut back = back.min(last);
    let mut filled = 0;
    for entry in log.entries.iter().rev().skip(back) {
        if filled >= rows {
            break;
        }
        filled += height(entry);
    }
    while filled < rows && back > 0 {
        back -= 1;
        filled += log.entries.get(last - back).map_or(1, height);
    }
    back
}

/// Draws the entries that fit, ending `back` entries before the newest, oldest first. Formats only these.
pub(super) fn log_lines(
    canvas: &mut Canvas<'_>,
    state: &State,
    task_row: &TaskRow,
    log: Option<&TaskLog>,
    back: usize,
) {
    let rows = canvas.rows();
    let columns = usize::from(canvas.columns());
    let Some(log) = log.filter(|log| !log.entries.is_empty()) else {
        return nothing_yet(canvas, task_row);
    };
    let body = if rows > 1 { rows - 1 } else { rows };
    let back = full_page(
        state,
        log,
        back,
        usize::from(body),
        columns,
        canvas.glyphs().line,
    );
    let mut y = body;
    let search = state.detail.search.as_deref();
    for entry in log.entries.iter().rev().skip(back) {
        if y == 0 {
            break;
        }
        let (pieces, indent) = entry_pieces(state, entry, canvas.glyphs().line);
        let whole: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
        let is_separator = matches!(entry.what, HistoryEvent::Contact { .. });
        let end = y;
        if state.detail.text.is_wrapping && !is_separator && text::width(&whole) > columns {
            let role = pieces.last().map_or(Role::Plain, |(_, role)| *role);
            let lines = wrap_hanging(&whole, columns, indent);
            for (index, line) in lines.iter().enumerate().rev() {
                if y == 0 {
                    break;
                }
                y -= 1;
                let x = if index == 0 {
                    0
                } else {
                    u16::try_from(indent).unwrap_or(0)
                };
                canvas.put(x, y, line, role);
            }
        } else {
            y -= 1;
            put_entry(canvas, y, &pieces, is_separator);
        }
        if let Some(search) = search.filter(|search| finds(&whole, search)) {
            canvas.highlight_matches(0, y..end, search);
        }
    }
    if y > 0 && log.dropped > 0 {
        let note = format!(
            "{} older lines are only in the session file",
            text::grouped(log.dropped)
        );
        canvas.put(0, y - 1, &note, Role::Dim);
        y -= 1;
    }
    // A short log starts at the top.
    if y > 0 {
        canvas.scroll_up(y, body);
    }
    if rows > 1 {
        log_footer(canvas, state, back);
    }
}

/// Draws whether the log follows, and what is searched for.
fn log_footer(canvas: &mut Canvas<'_>, state: &State, back: usize) {
    let row = canvas.rows().saturating_sub(1);
    let key = state.key(Action::Follow);
    let follow = if back > 0 {
        format!("{} newer below ({key} to follow)", text::grouped(back))
    } else if state.detail.is_following {
        format!("following ({key})")
    } else {
        format!("not following ({key})")
    };
    canvas.put_right_aligned(canvas.columns(), row, &follow, Role::Dim);
    if let Some(search) = state.detail.search.as_deref() {
        canvas.put(0, row, &format!("/{search}  n next  N previous"), Role::Dim);
    }
}

/// An entry as styled pieces, and the indent of its continuation lines.
pub(super) fn entry_pieces(
    state: &State,
    entry: &HistoryEntry,
    line: &str,
) -> (Vec<(String, Role)>, usize) {
    let time = if state.detail.text.has_times {
        format!("{} ", state.clock_seconds(entry.at))
    } else {
        String::new()
    };
    let indent = time.len();
    let mut pieces = vec![(time, Role::Dim)];
    let HistoryLine { kind, lead, text } = entry.message();
    match &entry.what {
        HistoryEvent::Started { .. } | HistoryEvent::Status { .. } => {
            pieces.push((text, Role::Strong));
        }
        HistoryEvent::Progress { .. } => {
            pieces.push((format!("{kind:<5} "), Role::Dim));
            pieces.push((lead, Role::Running));
            if !text.is_empty() {
                pieces.push((format!("  {text}"), Role::Plain));
            }
        }
        HistoryEvent::Log { level, .. } => {
            let role = match level {
                LogLevel::Debug => Role::Dim,
                LogLevel::Info | LogLevel::Notice => Role::Plain,
                LogLevel::Warning => Role::Cut,
                _ => Role::Failed,
            };
            let word = match level {
                LogLevel::Warning => "warn",
                LogLevel::Critical => "crit",
                LogLevel::Emergency => "emerg",
                _ => kind,
            };
            let of_word = if role == Role::Plain { Role::Dim } else { role };
            pieces.push((format!("{word:<5} "), of_word));
            if !lead.is_empty() {
                pieces.push((format!("{lead} "), Role::Dim));
            }
            pieces.push((text, role));
        }
        HistoryEvent::Contact { .. } => {
            pieces.push((format!("{} {text}", line.repeat(4)), Role::Cut));
        }
        HistoryEvent::InputRequired { .. } => pieces.push((format!("{kind}: {text}"), Role::Needs)),
        HistoryEvent::Settled { status, .. } => {
            let role = match status.as_str() {
                "completed" => Role::Done,
                "cancelled" => Role::Cancelled,
                _ => Role::Failed,
            };
            pieces.push((text, role));
        }
    }
    (pieces, indent)
}
