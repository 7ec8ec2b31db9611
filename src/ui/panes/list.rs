//! The task list. Finds the visible rows first and formats only those.

use core::time::Duration;

use ratatui::{
    text::{Line, Span},
    widgets::{Cell, Row},
};

use super::super::{
    columns::{Column, Columns},
    labels,
    spans::fit,
};
use crate::{
    app::{Focus, Group, GroupCounts, GroupTitle, ListRow, SortKey, State, TaskRow},
    domain::{CutOutcome, IfCut, ServerTask, Stamp, Status, text},
    ui::{
        Region, Role, Theme,
        panes::progress::{Bar, PERCENT, progress},
    },
};

/// Draws the column titles, with an arrow at the sort column.
pub(in crate::ui) fn titles(region: &mut Region<'_>, state: &State, rows: u16) {
    let columns = columns_of(region, state);
    let theme = region.theme;
    let [up, down] = theme.glyphs.arrows;
    let arrow = if state.list.is_reversed { up } else { down };
    let title = |column: Column, title: &'static str, is_sorted: bool| {
        let mut line = Line::from(theme.span(title, Role::Heading));
        if is_sorted {
            line.push_span(theme.span(arrow, Role::Key));
        }
        cell(theme, column, line)
    };
    let sorted = |column: Column, name, key: SortKey| title(column, name, state.list.sort == key);
    let is_oldest_first = state.list.is_reversed && state.list.sort == SortKey::Newest;
    let mut progress = Line::from(theme.span("PROGRESS", Role::Heading));
    let is_sorted = state.list.sort == SortKey::Progress;
    progress.push_span(theme.span(if is_sorted { arrow } else { " " }, Role::Key));
    let available = columns.progress.columns.saturating_sub(10);
    let hidden = hidden_rows(state, usize::from(rows), usize::from(available), [up, down]);
    progress.push_span(theme.span(hidden, Role::Dim));
    let cells: [Cell<'_>; Columns::COUNT as usize] = [
        Cell::from(""),
        sorted(columns.state, "STATE", SortKey::State),
        title(columns.id, "ID", false),
        sorted(columns.task, "TASK", SortKey::Task),
        sorted(columns.server, "SERVER", SortKey::Server),
        title(columns.from, "FROM", false),
        cell(theme, columns.progress, progress),
        title(columns.end, "END", false),
        title(columns.time, "TIME", is_oldest_first),
        sorted(columns.if_cut, "IF CUT", SortKey::IfCut),
    ];
    region.put_rows([Row::new(cells)], columns.widths(), None);
}

/// How many rows are above and below those in view, in at most `columns` columns.
fn hidden_rows(state: &State, rows: usize, columns: usize, [up, down]: [&str; 2]) -> String {
    let above = crate::app::first_line(state, rows);
    let below = state.list.rows.len().saturating_sub(above + rows);
    let both = |more: &str| {
        let part = |count: usize, sign: &str| match count {
            0 => String::new(),
            _ => format!(" {count}{more}{sign}"),
        };
        format!("{}{}", part(above, up), part(below, down))
    };
    let long = both(" more ");
    if text::width(&long) <= columns {
        long
    } else {
        both("")
    }
}

/// Draws the visible lines.
pub(in crate::ui) fn list(region: &mut Region<'_>, state: &State, now: Stamp) {
    let columns = columns_of(region, state);
    let theme = region.theme;
    let count = usize::from(region.rows());
    let top = crate::app::first_line(state, count);
    let lines = state.list.rows.iter().enumerate().skip(top).take(count);
    let (mut rows, mut bars) = (Vec::with_capacity(count), Vec::new());
    let mut selected = None;
    for ((index, line), y) in lines.zip(0_u16..) {
        let row = match line {
            ListRow::Heading(title, counts) => {
                let line = heading(region.columns(), state, title, *counts);
                Row::new([Cell::from(line).column_span(Columns::COUNT)])
            }
            ListRow::Task(id) => {
                let Some(task_row) = state.task(id) else {
                    continue;
                };
                if index == state.list.cursor_row {
                    selected = Some((rows.len(), y));
                }
                let (row, bar) = row(theme, columns, state, task_row, now);
                bars.extend(bar.map(|(x, bar)| (x, y, bar)));
                row
            }
        };
        rows.push(row);
    }
    if let Some((_, y)) = selected
        && state.detail.focus == Focus::List
    {
        region.keep_visible(y..y + 1);
    }
    region.put_rows(rows, columns.widths(), selected.map(|(index, _)| index));
    for (x, y, bar) in bars {
        bar.draw(region, x, y);
    }
}

/// A group's heading: its name, how many rows it has, and which of them need attention.
fn heading<'t>(
    columns: u16,
    state: &State,
    title: &'t GroupTitle,
    counts: GroupCounts,
) -> Line<'t> {
    let theme = Theme::of(state.setup.look);
    let (name, role) = match title {
        GroupTitle::Need(Group::NeedsYou) => ("NEEDS YOU".into(), Role::Needs),
        GroupTitle::Need(Group::Running) => ("RUNNING".into(), Role::Heading),
        GroupTitle::Need(Group::Finished) => ("FINISHED".into(), Role::Heading),
        GroupTitle::Server(server) => (text::clean_line(server.as_str()), Role::Heading),
        GroupTitle::Status(word) => (word.to_uppercase().into(), Role::Heading),
        GroupTitle::Caller(Some(label)) => (text::clean_line(label), Role::Heading),
        GroupTitle::Caller(None) => ("started here".into(), Role::Heading),
    };
    let is_of_done = *title == GroupTitle::Need(Group::Finished);
    let is_of_server = matches!(title, GroupTitle::Server(_) | GroupTitle::Caller(_));
    let count_if = |is_shown, count| if is_shown { count } else { 0 };
    let inside = text::counts(&[
        (
            count_if(is_of_server, counts.needs),
            text::needs_you(counts.needs),
        ),
        (count_if(is_of_done || is_of_server, counts.new), "new"),
    ]);
    let mut heading = format!(" {name} {}", text::grouped(counts.count));
    if !inside.is_empty() {
        heading = format!("{heading}, {inside}");
    }
    let fold = match (is_of_done, state.list.is_folded) {
        (true, true) => "   (. to unfold)",
        (true, false) => "   (. to fold)",
        (false, _) => "",
    };
    let used = text::width(&heading) + fold.len() + 3;
    let rest = usize::from(columns).saturating_sub(used);
    let spans = vec![
        Span::raw(" "),
        theme.span(theme.glyphs.line, Role::Border),
        theme.span(heading, role),
        theme.span(fold, Role::Dim),
        Span::raw(" "),
        theme.span(theme.glyphs.line.repeat(rest), Role::Border),
    ];
    fit(Line::from(spans), usize::from(columns), theme.glyphs.more)
}

/// The list's columns, for the widest server name.
fn columns_of(region: &Region<'_>, state: &State) -> Columns {
    let names = state.servers.iter().map(|server| server.name.as_str());
    let widest = names.map(|name| text::width(&text::clean_line(name))).max();
    let widest = u16::try_from(widest.unwrap_or(0)).unwrap_or(u16::MAX);
    Columns::of(region.columns(), widest, state.totals.has_callers)
}

/// A task's row, and its progress bar with the column where it begins.
fn row<'t>(
    theme: Theme,
    columns: Columns,
    state: &'t State,
    task_row: &'t TaskRow,
    now: Stamp,
) -> (Row<'t>, Option<(u16, Bar)>) {
    let glyphs = theme.glyphs;
    let task = &task_row.view.task;
    let shown = labels::state_of(state, task_row, glyphs, now);
    let is_cursor = state.list.cursor.as_ref() == Some(&task.id);
    let mut signs = lead(theme, state, task_row);
    signs.push(theme.span(shown.glyph, shown.role));
    let name_role = if is_cursor || task_row.ended_unseen() {
        Role::Strong
    } else {
        Role::Plain
    };
    let available = usize::from(columns.task.columns.saturating_sub(1));
    let name = name(state, task_row, available, glyphs.more);
    let server = text::clean_line(task.server.as_str());
    let available = usize::from(columns.server.columns.saturating_sub(1));
    let server = text::cut_middle(&server, available, glyphs.more).into_owned();
    let from = task.caller.as_ref().map_or(Span::raw(""), |caller| {
        // A result that no agent has collected stands out.
        let role = if task.is_owed(now.wall) {
            Role::Needs
        } else {
            Role::Dim
        };
        theme.span(caller.label(), role)
    });
    // Without a STATE column, states other than running are shown before the progress if both fit.
    let mut at = columns.progress;
    let mut before = None;
    let is_open = matches!(task.status, Status::Running | Status::Paused);
    if columns.state.columns == 0 && is_open && shown.text != "running" {
        let width = u16::try_from(text::width(&shown.text) + 1).unwrap_or(u16::MAX);
        if width + PERCENT < at.columns {
            let label = theme.span(shown.text.clone(), shown.role);
            before = Some([label, Span::raw(" ")]);
            at.x += width;
            at.columns -= width;
        }
    }
    let (mut progress, bar) = progress(at.columns.saturating_sub(1), state, task_row, now);
    let before = before.into_iter().flatten();
    progress.spans.splice(0..0, before);
    let if_cut = task_row.if_cut().filter(|_| !task.status.is_settled());
    let if_cut = if_cut.map_or(Span::raw(""), |if_cut| {
        theme.span(if_cut.label(), if_cut_role(if_cut))
    });
    let (end, end_role) = end(state, task_row, now);
    let time = theme.span(time(task_row, now), Role::Dim);
    let cells: [Cell<'_>; Columns::COUNT as usize] = [
        Cell::from(Line::from(signs)),
        cell(theme, columns.state, theme.span(shown.text, shown.role)),
        cell(theme, columns.id, theme.span(task.id.as_str(), Role::Dim)),
        cell(theme, columns.task, theme.span(name, name_role)),
        cell(theme, columns.server, theme.span(server, Role::Plain)),
        cell(theme, columns.from, from),
        cell(theme, columns.progress, progress),
        cell(theme, columns.end, theme.span(end, end_role)),
        cell(theme, columns.time, time),
        cell(theme, columns.if_cut, if_cut),
    ];
    (Row::new(cells), bar.map(|bar| (at.x, bar)))
}

/// The signs before the state. Cursor, mark and news dot share two columns; the news dot moves the cursor to the left one,
/// unless there is a mark.
fn lead(theme: Theme, state: &State, task_row: &TaskRow) -> Vec<Span<'static>> {
    let glyphs = theme.glyphs;
    let id = &task_row.view.task.id;
    let is_cursor = state.list.cursor.as_ref() == Some(id);
    let is_marked = state.list.marks.contains(id);
    let mark = if is_marked { glyphs.mark } else { " " };
    let lead = match (task_row.ended_unseen(), is_cursor) {
        (true, true) if !is_marked => [glyphs.cursor, glyphs.new],
        (true, false) => [mark, glyphs.new],
        (_, true) => [mark, glyphs.cursor],
        (false, false) => [mark, " "],
    };
    let signs = lead.into_iter().map(|sign| match sign {
        // A styled blank would be visible if the style underlines.
        " " => Span::raw(sign),
        _ if sign == glyphs.cursor => theme.span(sign, Role::Focus),
        _ => theme.span(sign, Role::Needs),
    });
    signs.collect()
}

/// A cell whose text is cut so that a blank remains after it.
fn cell<'t>(theme: Theme, column: Column, line: impl Into<Line<'t>>) -> Cell<'t> {
    let available = usize::from(column.columns.saturating_sub(1));
    Cell::from(fit(line.into(), available, theme.glyphs.more))
}

/// The role of an [`IfCut`] label.
pub(in crate::ui) fn if_cut_role(if_cut: &IfCut) -> Role {
    outcome_role(if_cut.outcome())
}

/// The role of a [`CutOutcome`].
pub(in crate::ui) fn outcome_role(outcome: CutOutcome) -> Role {
    match outcome {
        CutOutcome::Continues => Role::Dim,
        CutOutcome::Pauses | CutOutcome::Likely => Role::Warning,
        CutOutcome::Lost => Role::Failed,
    }
}

/// The task's name with its distinguishing argument, cut so that the argument stays readable.
pub(in crate::ui) fn name(state: &State, task_row: &TaskRow, columns: usize, more: &str) -> String {
    let (title, argument) = state.label(task_row);
    let Some((key, value)) = argument else {
        return title;
    };
    let whole = format!("{title} {key}={value}");
    if text::width(&whole) <= columns {
        return whole;
    }
    let value_wide = text::width(&value);
    if value_wide + 8 <= columns {
        // The argument's key is dropped first, then the end of the name.
        let available = columns - value_wide - 1;
        return format!("{} {value}", text::cut(&title, available, more));
    }
    let title_room = (columns / 2).max(8).min(columns);
    let title = text::cut(&title, title_room, more).into_owned();
    let rest = columns.saturating_sub(text::width(&title) + 1);
    format!("{title} {}", text::cut(&value, rest, more))
}

/// The END cell: when the task ended or will end, or when the next attempt to connect is due.
fn end(state: &State, task_row: &TaskRow, now: Stamp) -> (String, Role) {
    let task = &task_row.view.task;
    if let Some(at) = task.end.settled_at
        && task.status.is_settled()
    {
        return (state.clock_short(at, now), Role::Dim);
    }
    if let Some(next) = labels::next_try(&task_row.view.contact)
        && !task.status.needs_decision()
    {
        let label = match next.since(now.wall) {
            Duration::ZERO => "retrying".to_owned(),
            // Rounded up: a countdown must not show zero seconds.
            left => format!("retry {}", labels::brief(left + Duration::from_millis(999))),
        };
        return (label, Role::Warning);
    }
    let progress = task.progress.as_ref().filter(|_| task_row.is_running());
    let left = progress.and_then(|it| task_row.pace.time_left(now, it.total?));
    // Questions must be answered before the server task expires. For running tasks the expiry says nothing about when
    // they end.
    let asks = task.status == Status::InputRequired;
    let server_task = task.server_task.as_ref().filter(|_| asks);
    let until = server_task.and_then(ServerTask::expires_at);
    match (left, until) {
        (Some(left), _) => (text::time_left(left), Role::Plain),
        (None, Some(at)) => (format!("by {}", state.clock_short(at, now)), Role::Dim),
        (None, None) => ("-".to_owned(), Role::Dim),
    }
}

/// How long the task has been running or took.
fn time(task_row: &TaskRow, now: Stamp) -> String {
    let task = &task_row.view.task;
    let end = task.end.settled_at.unwrap_or(now.wall);
    let span = end.since(task.created_at);
    if task.end.settled_at.is_some() && span.as_secs() < 10 {
        return format!("{:.1}s", span.as_secs_f64());
    }
    text::short_span(span)
}
