//! The task list. Finds the visible rows first and formats only those.

use core::ops::Range;
use std::collections::BTreeMap;

use super::super::{
    canvas::Canvas,
    labels,
    layout::{Column, Columns},
    theme::Role,
};
use crate::{
    app::{Focus, Group, GroupCounts, GroupTitle, ListRow, SortKey, State, TaskRow, until},
    domain::{CutOutcome, IfCut, ServerTask, Stamp, Status, text},
    ui::panes::progress::{PERCENT, progress},
};

/// Draws the column titles, with an arrow at the sort column.
pub(in crate::ui) fn titles(canvas: &mut Canvas<'_>, state: &State, rows: u16) {
    let columns = columns_of(canvas, state);
    let end = if columns.is_narrow { "LEFT" } else { "END" };
    let sorted = |key: SortKey| state.list.sort == key;
    let titles = [
        (columns.state, "STATE", sorted(SortKey::State)),
        (columns.id, "ID", false),
        (columns.task, "TASK", sorted(SortKey::Task)),
        (columns.server, "SERVER", sorted(SortKey::Server)),
        (columns.from, "FROM", false),
        (columns.progress, "PROGRESS", sorted(SortKey::Progress)),
        (columns.end, end, false),
        (
            columns.age,
            "AGE",
            state.list.is_reversed && sorted(SortKey::Newest),
        ),
        (columns.if_cut, "IF CUT", sorted(SortKey::IfCut)),
    ];
    let [up, down] = canvas.glyphs().arrows;
    // The number of hidden rows goes next to a title, where it covers nothing.
    let rows = usize::from(rows);
    let above = crate::app::first_line(state, rows);
    let below = state.list.rows.len().saturating_sub(above + rows);
    if above + below > 0 && columns.progress.columns > 0 {
        let available = columns.progress.columns.saturating_sub(10);
        let hidden_rows = |is_long: bool| {
            let part = |count: usize, sign: &str| match count {
                0 => String::new(),
                _ if is_long => format!(" {count} more {sign}"),
                _ => format!(" {count}{sign}"),
            };
            format!("{}{}", part(above, up), part(below, down))
        };
        let long = hidden_rows(true);
        let hidden = if text::width(&long) <= usize::from(available) {
            long
        } else {
            hidden_rows(false)
        };
        canvas.put_clipped(columns.progress.x + 9, 0, available, &hidden, Role::Dim);
    }
    for (column, title, is_sorted) in titles {
        if column.columns > 0 {
            let x = canvas.put_clipped(column.x, 0, column.columns, title, Role::Heading);
            if is_sorted {
                canvas.put(
                    x,
                    0,
                    if state.list.is_reversed { up } else { down },
                    Role::Key,
                );
            }
        }
    }
}

/// Draws the visible lines.
pub(in crate::ui) fn list(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let columns = columns_of(canvas, state);
    let servers = server_names(state, columns.server, canvas.glyphs().more);
    let rows = usize::from(canvas.rows());
    let top = crate::app::first_line(state, rows);
    let lines = state.list.rows.iter().enumerate().skip(top).take(rows);
    for ((index, line), y) in lines.zip(0_u16..) {
        match line {
            ListRow::Heading(title, heads) => heading(canvas, y, state, title, *heads),
            ListRow::Task(id) => {
                if let Some(task_row) = state.task(id) {
                    let is_cursor = index == state.list.cursor_row;
                    if is_cursor && state.detail.focus == Focus::List {
                        canvas.keep_visible(y..y + 1);
                    }
                    let server = &task_row.view.task.server;
                    let name = servers.get(server.as_str());
                    let name = name.map_or(server.as_str(), String::as_str);
                    let width = canvas.columns();
                    let mut line = canvas.region(0, y, width, 1);
                    let bar = row(&mut line, columns, name, state, task_row, now);
                    if is_cursor {
                        // Except the bar: reversed, its completed part would look empty.
                        canvas.apply_style(0, y, bar.start, Role::Selected);
                        canvas.apply_style(
                            bar.end,
                            y,
                            width.saturating_sub(bar.end),
                            Role::Selected,
                        );
                    }
                }
            }
        }
    }
}

fn heading(canvas: &mut Canvas<'_>, y: u16, state: &State, title: &GroupTitle, heads: GroupCounts) {
    let line = canvas.glyphs().line;
    let (name, role) = match title {
        GroupTitle::Need(Group::NeedsYou) => ("NEEDS YOU".into(), Role::Needs),
        GroupTitle::Need(Group::Running) => ("RUNNING".into(), Role::Heading),
        GroupTitle::Need(Group::Done) => ("DONE".into(), Role::Heading),
        GroupTitle::Server(server) => (text::clean_line(server.as_str()), Role::Heading),
        GroupTitle::Status(word) => (word.to_uppercase().into(), Role::Heading),
        GroupTitle::Caller(Some(label)) => (text::clean_line(label), Role::Heading),
        GroupTitle::Caller(None) => ("started here".into(), Role::Heading),
    };
    let GroupCounts {
        count,
        left,
        paused,
        needs,
        new,
    } = heads;
    let is_of_done = *title == GroupTitle::Need(Group::Done);
    let is_of_server = matches!(title, GroupTitle::Server(_) | GroupTitle::Caller(_));
    let count = if is_of_server { count + paused } else { count };
    let mut heading = format!(" {name} {}", text::grouped(count));
    if needs > 0 && is_of_server {
        heading = format!("{heading}, {needs} need you");
    }
    if paused > 0 && *title != GroupTitle::Status("paused") {
        heading = format!("{heading}, {paused} paused");
    }
    if new > 0 && (is_of_done || is_of_server) {
        heading = format!("{heading}, {new} new");
    }
    let [to_needs, to_running, to_done] = left;
    let need = if to_needs == 1 {
        "needs you"
    } else {
        "need you"
    };
    for (count, word) in [
        (to_needs, need),
        (to_running, "running"),
        (to_done, "ended"),
    ] {
        if count > 0 {
            heading = format!("{heading}, {} {word}", text::grouped(count));
        }
    }
    let x = canvas.put(1, y, line, Role::Border);
    let mut x = canvas.put(x, y, &heading, role);
    if is_of_done || state.list.is_folded && !matches!(title, GroupTitle::Need(_)) {
        let fold = if state.list.is_folded {
            "   (. to unfold)"
        } else {
            "   (. to fold)"
        };
        x = canvas.put(x, y, fold, Role::Dim);
    }
    let left = canvas.columns().saturating_sub(x + 1);
    canvas.repeat(x + 1, y, left, line, Role::Border);
}

/// The list's columns, for the widest server name.
fn columns_of(canvas: &Canvas<'_>, state: &State) -> Columns {
    let names = state.servers.iter().map(|server| server.name.as_str());
    let widest = names.map(|name| text::width(&text::clean_line(name))).max();
    let callers = state.list.callers.iter();
    let callers = callers.map(|label| text::width(&text::clean_line(label)));
    let narrow = |width: Option<usize>| u16::try_from(width.unwrap_or(0)).unwrap_or(u16::MAX);
    Columns::of(canvas.columns(), narrow(widest), narrow(callers.max()))
}

/// The server names, cut to their column so that no two look the same; empty if all names fit.
fn server_names(state: &State, column: Column, more: &str) -> BTreeMap<String, String> {
    let available = usize::from(column.columns.saturating_sub(1));
    let names = state.servers.iter().map(|server| server.name.as_str());
    let clean: Vec<_> = names.clone().map(text::clean_line).collect();
    if available == 0 || clean.iter().all(|name| text::width(name) <= available) {
        return BTreeMap::new();
    }
    let clean: Vec<&str> = clean.iter().map(AsRef::as_ref).collect();
    let shown = text::cut_distinct(&clean, available, more);
    names.map(str::to_owned).zip(shown).collect()
}

/// Draws a task on its line and returns the column range of its progress bar, empty if it has none.
fn row(
    canvas: &mut Canvas<'_>,
    columns: Columns,
    server: &str,
    state: &State,
    task_row: &TaskRow,
    now: Stamp,
) -> Range<u16> {
    let glyphs = canvas.glyphs();
    let task = &task_row.view.task;
    let shown = labels::state_of(state, task_row, glyphs, now);
    let is_cursor = state.list.cursor.as_ref() == Some(&task.id);
    let is_new = task_row.ended_unseen();
    let is_marked = state.list.marks.contains(&task.id);
    // Cursor, mark and news dot share two columns; the news dot moves the cursor to the left one.
    let mark = if is_marked { glyphs.mark } else { " " };
    let lead = match (is_new, is_cursor) {
        (true, true) => [glyphs.cursor, glyphs.new],
        (true, false) => [mark, glyphs.new],
        (false, true) => [mark, glyphs.cursor],
        (false, false) => [mark, " "],
    };
    for (sign, x) in lead.into_iter().zip(0_u16..) {
        let role = if sign == glyphs.cursor {
            Role::Focus
        } else {
            Role::Needs
        };
        // A styled blank would be visible if the style underlines.
        if sign != " " {
            canvas.put(x, 0, sign, role);
        }
    }
    canvas.put(2, 0, shown.glyph, shown.role);
    put(canvas, 0, columns.state, &shown.text, shown.role);
    put(canvas, 0, columns.id, task.id.as_str(), Role::Dim);
    let name_role = if is_cursor || is_new {
        Role::Strong
    } else {
        Role::Plain
    };
    let at = columns.task;
    let name = name(
        state,
        task_row,
        usize::from(at.columns.saturating_sub(1)),
        canvas.glyphs().more,
    );
    put(canvas, 0, at, &name, name_role);
    put(canvas, 0, columns.server, server, Role::Plain);
    if let Some(caller) = &task.caller {
        // A result that no agent has collected stands out.
        let is_owed = caller.is_owed(task.settled_at, now.wall);
        let role = if is_owed { Role::Needs } else { Role::Dim };
        let label = caller.label();
        put(canvas, 0, columns.from, &text::clean_line(&label), role);
    }
    let mut at = columns.progress;
    // Without a STATE column, states other than running are shown before the progress if both fit.
    let is_open = matches!(task.status, Status::Running | Status::Paused);
    if columns.state.columns == 0 && is_open && shown.text != "running" {
        let width = u16::try_from(text::width(&shown.text) + 1).unwrap_or(u16::MAX);
        if width + PERCENT < at.columns {
            put(canvas, 0, at, &shown.text, shown.role);
            at.x += width;
            at.columns -= width;
        }
    }
    let bar = progress(canvas, 0, at, state, task_row, now);
    end(canvas, 0, columns.end, state, task_row, now);
    let age = age(task_row, now);
    put(canvas, 0, columns.age, &age, Role::Dim);
    if let Some(impact) = task_row.if_cut()
        && !task.status.is_settled()
    {
        let role = if_cut_role(impact);
        put(canvas, 0, columns.if_cut, impact.label(), role);
    }
    at.x..at.x + bar
}

/// The role of an [`IfCut`] label.
pub(in crate::ui) fn if_cut_role(if_cut: &IfCut) -> Role {
    outcome_role(if_cut.outcome())
}

/// The role of a [`CutOutcome`].
pub(in crate::ui) fn outcome_role(outcome: CutOutcome) -> Role {
    match outcome {
        CutOutcome::Continues => Role::Dim,
        CutOutcome::Pauses | CutOutcome::Likely => Role::Cut,
        CutOutcome::Lost => Role::Failed,
    }
}

/// Writes text into a column, leaving a blank after it.
fn put(canvas: &mut Canvas<'_>, y: u16, column: Column, text: &str, role: Role) {
    let available = column.columns.saturating_sub(1);
    if available > 0 {
        canvas.put_clipped(column.x, y, available, text, role);
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
        let available = columns - value_wide - 1;
        let with_key = available.saturating_sub(text::width(&key) + 1);
        // Drop the argument's key first, then the end of the name.
        if with_key >= text::width(&title) {
            return format!("{title} {key}={value}");
        }
        return format!("{} {value}", text::cut(&title, available, more));
    }
    let title_room = (columns / 2).max(8).min(columns);
    let title = text::cut(&title, title_room, more).into_owned();
    let rest = columns.saturating_sub(text::width(&title) + 1);
    format!("{title} {}", text::cut(&value, rest, more))
}

fn end(
    canvas: &mut Canvas<'_>,
    y: u16,
    column: Column,
    state: &State,
    task_row: &TaskRow,
    now: Stamp,
) {
    let task = &task_row.view.task;
    if let Some(at) = task.settled_at
        && task.status.is_settled()
        && task_row.group() != Group::NeedsYou
    {
        let (label, role) = (state.clock_short(at, now), Role::Dim);
        put(canvas, y, column, &label, role);
        return;
    }
    if let Some(next) = labels::next_try(&task_row.view.contact)
        && !task.status.needs_decision()
    {
        let label = match until(next, now).as_str() {
            "now" => "trying".to_owned(),
            left => format!("try {left}"),
        };
        put(canvas, y, column, &label, Role::Cut);
        return;
    }
    let left = task
        .progress
        .as_ref()
        .and_then(|progress| progress.total)
        .filter(|_| task_row.is_running())
        .and_then(|total| task_row.pace.time_left(now, total));
    // Questions must be answered before the server task expires. For running tasks the expiry says nothing about when
    // they end.
    let until = task
        .server_task
        .as_ref()
        .filter(|_| task.status == Status::InputRequired)
        .and_then(ServerTask::expires_at);
    match (left, until) {
        (Some(left), _) => put(canvas, y, column, &text::time_left(left), Role::Plain),
        (None, Some(at)) => {
            let at = state.clock_short(at, now);
            // Without a leading zero, so that it does not look like an end time.
            let hour = at.strip_prefix('0').filter(|hour| hour.contains(':'));
            let label = format!("by {}", hour.unwrap_or(&at));
            put(canvas, y, column, &label, Role::Dim);
        }
        (None, None) => put(canvas, y, column, "-", Role::Dim),
    }
}

/// How long the task has been running or took; for a settled task that needs the user, how long ago it settled.
fn age(task_row: &TaskRow, now: Stamp) -> String {
    let task = &task_row.view.task;
    match task.settled_at {
        Some(at) if task_row.group() == Group::NeedsYou => text::span(now.wall.since(at)),
        Some(at) => {
            let took = at.since(task.created_at);
            if took.as_secs() < 10 {
                format!("{:.1} s", took.as_secs_f64())
            } else {
                text::span(took)
            }
        }
        None => text::span(now.wall.since(task.created_at)),
    }
}
