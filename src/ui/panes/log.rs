//! The log of a task in the detail pane.

use ratatui::{
    style::Style,
    text::{Line, Span},
};

use super::document::TextStyle;
use crate::{
    app::{Action, Search, State, TaskLog, TaskRow},
    domain::{HistoryEntry, HistoryEvent, HistoryLine, LogLevel, text},
    ui::{
        Region, Role, Theme,
        spans::{fit, highlight, plain},
        wrap::wrap_hanging,
    },
};

fn nothing_yet(region: &mut Region<'_>, task_row: &TaskRow) {
    let note = if task_row.view.saved_seq == 0 {
        "Nothing recorded yet."
    } else {
        "Reading the log ..."
    };
    region.put(0, 0, region.theme.span(note, Role::Dim));
}

/// A task's log, if it has entries.
fn log_of<'s>(state: &'s State, task_row: &TaskRow) -> Option<&'s TaskLog> {
    let log = state.detail.logs.get(&task_row.view.task.id);
    log.filter(|log| !log.entries.is_empty())
}

/// Draws a task's newest entries, newest first. Progress entries are left out if there are log messages.
pub(super) fn newest_lines(region: &mut Region<'_>, state: &State, task_row: &TaskRow) {
    let Some(log) = log_of(state, task_row) else {
        return nothing_yet(region, task_row);
    };
    let is_step = |entry: &HistoryEntry| matches!(entry.what, HistoryEvent::Progress(_));
    let recent = || log.entries.iter().rev().take(200);
    let has_words = recent().any(|entry| matches!(entry.what, HistoryEvent::Log { .. }));
    let theme = region.theme;
    let columns = usize::from(region.columns());
    let shown = recent().filter(|entry| !has_words || !is_step(entry));
    let lines = shown.map(|entry| entry_lines(theme, state, entry, columns, false));
    region.put_lines(0, 0, lines.flatten());
}

/// The scroll position (entries before the end) reduced from `back` until the page is full.
fn full_page(
    log: &TaskLog,
    back: usize,
    rows: usize,
    height: impl Fn(&HistoryEntry) -> usize,
) -> usize {
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
        filled += log.entries.get(last - back).map_or(1, &height);
    }
    back
}

/// Draws the entries that fit, from the scroll position up, oldest first. Formats only these.
pub(super) fn log_tab(region: &mut Region<'_>, state: &State, task_row: &TaskRow) {
    let Some(log) = log_of(state, task_row) else {
        return nothing_yet(region, task_row);
    };
    let theme = region.theme;
    let columns = usize::from(region.columns());
    let rows = region.rows();
    let body = usize::from(if rows > 1 { rows - 1 } else { rows });
    let style = TextStyle::of(state);
    let lines_of =
        |entry: &HistoryEntry| entry_lines(theme, state, entry, columns, style.is_wrapping);
    // At the top, a row is left for the note on older lines.
    let entry_rows = body.saturating_sub(usize::from(log.dropped > 0));
    let back = full_page(log, state.detail.scroll, entry_rows, |entry| {
        lines_of(entry).len()
    });
    // From the newest entry in view up to the first row.
    let mut lines: Vec<Line<'_>> = Vec::new();
    for entry in log.entries.iter().rev().skip(back) {
        if lines.len() >= body {
            break;
        }
        let mut of_entry = lines_of(entry);
        if let Some(search) = style.search {
            highlight_entry(theme, &mut of_entry, columns, search);
        }
        let hidden = (of_entry.len() + 1).saturating_sub(body);
        if lines.is_empty() && hidden > 1 && body > 1 {
            of_entry.truncate(body - 1);
            let note = format!("{hidden} more rows in this line");
            of_entry.push(theme.span(note, Role::Dim).into());
        }
        lines.extend(of_entry.into_iter().rev());
    }
    if lines.len() < body && log.dropped > 0 {
        let dropped = text::grouped(log.dropped);
        let note = format!("{dropped} older lines are not shown; see `longhaul logs`");
        lines.push(theme.span(note, Role::Dim).into());
    }
    lines.truncate(body);
    lines.reverse();
    region.put_lines(0, 0, lines);
    if rows > 1 {
        log_footer(region, state, back);
    }
}

/// Highlights the matches in an entry that contains any; if they are split or beyond the edge, its first line.
fn highlight_entry(theme: Theme, lines: &mut [Line<'_>], columns: usize, search: &Search) {
    let whole: String = lines.iter().map(|line| plain(&line.spans)).collect();
    if !search.is_in(&whole) {
        return;
    }
    let contains = |line: &Line<'_>| search.is_in(&plain(&line.spans));
    for line in lines.iter_mut() {
        *line = fit(std::mem::take(line), columns, theme.glyphs.more);
    }
    let is_in_view = lines.iter().any(contains);
    for (index, line) in lines.iter_mut().enumerate() {
        if contains(line) || !is_in_view && index == 0 {
            let spans = std::mem::take(&mut line.spans);
            line.spans = highlight(spans, search, theme.style(Role::Found));
        }
    }
}

/// Draws whether the log follows, and what is searched for.
fn log_footer(region: &mut Region<'_>, state: &State, back: usize) {
    let theme = region.theme;
    let row = region.rows().saturating_sub(1);
    let key = state.key(Action::Follow);
    let follow = if back > 0 {
        format!("{} newer below ({key} to follow)", text::grouped(back))
    } else if state.detail.is_following {
        format!("following ({key})")
    } else {
        format!("not following ({key})")
    };
    region.put_note(row, follow);
    if let Some(search) = &state.detail.search {
        let keys = format!("/{}  n next  N previous", search.text());
        region.put(0, row, theme.span(keys, Role::Dim));
    }
}

/// An entry's lines; several only if it is wrapped. A connection change is a separator line.
fn entry_lines(
    theme: Theme,
    state: &State,
    entry: &HistoryEntry,
    columns: usize,
    is_wrapping: bool,
) -> Vec<Line<'static>> {
    let (spans, indent) = entry_spans(theme, state, entry);
    let mut line = Line::from(spans);
    if matches!(entry.what, HistoryEvent::Contact { .. }) {
        let rest = columns.saturating_sub(line.width() + 1).min(12);
        let rest = format!(" {}", theme.glyphs.line.repeat(rest));
        line.push_span(theme.span(rest, Role::Warning));
    } else if is_wrapping && line.width() > columns {
        let style = line
            .spans
            .last()
            .map_or(Style::default(), |span| span.style);
        let lines = wrap_hanging(&plain(&line.spans), columns, indent).into_iter();
        let hanging = |(index, text): (usize, String)| {
            let lead = if index == 0 { 0 } else { indent };
            Line::from(vec![Span::raw(" ".repeat(lead)), Span::styled(text, style)])
        };
        return lines.enumerate().map(hanging).collect();
    }
    vec![line]
}

/// An entry as styled text, and the indent of its continuation lines.
fn entry_spans(theme: Theme, state: &State, entry: &HistoryEntry) -> (Vec<Span<'static>>, usize) {
    let time = if state.detail.text.has_times {
        format!("{} ", state.clock_seconds(entry.at))
    } else {
        String::new()
    };
    let indent = time.len();
    let mut spans = vec![theme.span(time, Role::Dim)];
    let HistoryLine { kind, lead, text } = entry.message();
    match &entry.what {
        HistoryEvent::Started { .. } | HistoryEvent::Status { .. } => {
            spans.push(theme.span(text, Role::Strong));
        }
        HistoryEvent::Progress(_) => {
            spans.push(theme.span(format!("{kind:<5} "), Role::Dim));
            spans.push(theme.span(lead, Role::Running));
            if !text.is_empty() {
                spans.push(theme.span(format!("  {text}"), Role::Plain));
            }
        }
        HistoryEvent::Log { level, .. } => {
            let role = match level {
                LogLevel::Debug => Role::Dim,
                LogLevel::Info | LogLevel::Notice => Role::Plain,
                LogLevel::Warning => Role::Warning,
                _ => Role::Failed,
            };
            let word = match level {
                LogLevel::Warning => "warn",
                LogLevel::Critical => "crit",
                LogLevel::Emergency => "emerg",
                _ => kind,
            };
            let of_word = if role == Role::Plain { Role::Dim } else { role };
            spans.push(theme.span(format!("{word:<5} "), of_word));
            if !lead.is_empty() {
                spans.push(theme.span(format!("{lead} "), Role::Dim));
            }
            spans.push(theme.span(text, role));
        }
        HistoryEvent::Contact { .. } => {
            spans.push(theme.span(
                format!("{} {text}", theme.glyphs.line.repeat(4)),
                Role::Warning,
            ));
        }
        HistoryEvent::InputRequired { .. } => {
            spans.push(theme.span(format!("{kind}: {text}"), Role::Needs));
        }
        HistoryEvent::Settled { status, .. } => {
            let role = match status.as_str() {
                "completed" => Role::Done,
                "cancelled" => Role::Cancelled,
                _ => Role::Failed,
            };
            spans.push(theme.span(text, role));
        }
    }
    (spans, indent)
}
