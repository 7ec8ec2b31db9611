//! The list of tasks: window first, format second.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::{
    app::{
        Action, Focus, Group, GroupCounts, GroupTitle, ListRow, SortKey, State, TaskRow, until,
        waits_for,
    },
    domain::{
        Connectivity, Elicitation, LeaveImpact, Progress, ServerTask, Stamp, Status, Task, text,
    },
};

use super::super::{
    canvas::Canvas,
    labels,
    layout::{Column, Columns},
    theme::Role,
};

/// The titles of the columns; the one that the list is sorted by carries an arrow.
pub(in crate::ui) fn titles(canvas: &mut Canvas<'_>, state: &State, rows: u16) {
    let columns = columns_of(canvas, state);
    let end = if columns.is_narrow { "LEFT" } else { "END" };
    let sorted = |key: SortKey| state.sort == key;
    let titles = [
        (columns.state, "STATE", sorted(SortKey::State)),
        (columns.id, "ID", false),
        (columns.task, "TASK", sorted(SortKey::Task)),
        (columns.server, "SERVER", sorted(SortKey::Server)),
        (columns.progress, "PROGRESS", sorted(SortKey::Progress)),
        (columns.end, end, false),
        (
            columns.age,
            "AGE",
            state.is_reversed && sorted(SortKey::Newest),
        ),
        (columns.leave, "LEAVE", sorted(SortKey::Leave)),
    ];
    let [up, down] = canvas.glyphs().arrows;
    // What does not fit is said beside a title, where it covers nothing.
    let rows = usize::from(rows);
    let above = crate::app::first_line(state, rows);
    let below = state.lines.len().saturating_sub(above + rows);
    if above + below > 0 && columns.progress.columns > 0 {
        let room = columns.progress.columns.saturating_sub(10);
        let in_words = |has_room: bool| {
            let part = |count: usize, sign: &str| match count {
                0 => String::new(),
                _ if has_room => format!(" {count} more {sign}"),
                _ => format!(" {count}{sign}"),
            };
            format!("{}{}", part(above, up), part(below, down))
        };
        let long = in_words(true);
        let words = if text::width(&long) <= usize::from(room) {
            long
        } else {
            in_words(false)
        };
        canvas.put_in(columns.progress.x + 9, 0, room, &words, Role::Dim);
    }
    for (column, title, is_sorted) in titles {
        if column.columns > 0 {
            let x = canvas.put_in(column.x, 0, column.columns, title, Role::Heading);
            if is_sorted {
                canvas.put(x, 0, if state.is_reversed { up } else { down }, Role::Key);
            }
        }
    }
}

/// The visible lines.
pub(in crate::ui) fn list(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let columns = columns_of(canvas, state);
    let servers = server_names(state, columns.server, canvas.glyphs().more);
    let rows = usize::from(canvas.rows());
    let top = crate::app::first_line(state, rows);
    let lines = state.lines.iter().enumerate().skip(top).take(rows);
    for ((place, line), y) in lines.zip(0_u16..) {
        match line {
            ListRow::Heading(title, heads) => heading(canvas, y, state, title, *heads),
            ListRow::Task(id) => {
                if let Some(task_row) = state.task(id) {
                    let is_cursor = place == state.cursor_line;
                    if is_cursor && state.focus == Focus::List {
                        canvas.keep_in_sight(y..y + 1);
                    }
                    let server = &task_row.view.task.server;
                    let name = servers.get(server.as_str());
                    let name = name.map_or(server.as_str(), String::as_str);
                    let bar = row(canvas, y, (columns, name), state, task_row, is_cursor, now);
                    if is_cursor {
                        // All but the bar, of which the part that is done would be dark.
                        let wide = canvas.columns();
                        canvas.lay(0, y, bar.start, Role::Selected);
                        canvas.lay(bar.end, y, wide.saturating_sub(bar.end), Role::Selected);
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
    };
    let GroupCounts {
        count,
        left,
        paused,
        needs,
        new,
    } = heads;
    let is_of_done = *title == GroupTitle::Need(Group::Done);
    let is_of_server = matches!(title, GroupTitle::Server(_));
    let count = if is_of_server { count + paused } else { count };
    let mut words = format!(" {name} {}", text::grouped(count));
    if needs > 0 && is_of_server {
        words = format!("{words}, {needs} need you");
    }
    if paused > 0 && *title != GroupTitle::Status("paused") {
        words = format!("{words}, {paused} paused");
    }
    if new > 0 && (is_of_done || is_of_server) {
        words = format!("{words}, {new} new");
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
            words = format!("{words}, {} {word}", text::grouped(count));
        }
    }
    let x = canvas.put(1, y, line, Role::Border);
    let mut x = canvas.put(x, y, &words, role);
    if is_of_done || state.is_folded && !matches!(title, GroupTitle::Need(_)) {
        let fold = if state.is_folded {
            "   (. unfolds)"
        } else {
            "   (. folds)"
        };
        x = canvas.put(x, y, fold, Role::Dim);
    }
    let left = canvas.columns().saturating_sub(x + 1);
    canvas.repeat(x + 1, y, left, line, Role::Border);
}

/// The columns of the list as wide as the names of the servers want them.
fn columns_of(canvas: &Canvas<'_>, state: &State) -> Columns {
    let names = state.servers.iter().map(|server| server.name.as_str());
    let widest = names.map(|name| text::width(&text::clean_line(name))).max();
    Columns::of(
        canvas.columns(),
        u16::try_from(widest.unwrap_or(0)).unwrap_or(u16::MAX),
    )
}

/// The names of the servers that do not fit into their column, cut so that no two look the same.
fn server_names(state: &State, column: Column, more: &str) -> BTreeMap<String, String> {
    let room = usize::from(column.columns.saturating_sub(1));
    let names = state.servers.iter().map(|server| server.name.as_str());
    let clean: Vec<_> = names.clone().map(text::clean_line).collect();
    if room == 0 || clean.iter().all(|name| text::width(name) <= room) {
        return BTreeMap::new();
    }
    let clean: Vec<&str> = clean.iter().map(AsRef::as_ref).collect();
    let shown = text::cut_apart(&clean, room, more);
    names.map(str::to_owned).zip(shown).collect()
}

/// One task; returns the columns of its bar, none where there is none.
fn row(
    canvas: &mut Canvas<'_>,
    y: u16,
    (columns, server): (Columns, &str),
    state: &State,
    task_row: &TaskRow,
    is_cursor: bool,
    now: Stamp,
) -> Range<u16> {
    let glyphs = canvas.glyphs();
    let task = &task_row.view.task;
    let shown = labels::state_of(state, task_row, glyphs, now);
    let is_new = task_row.ended_unseen();
    let is_marked = state.marks.contains(&task.id);
    // Cursor, mark and news share two columns; the cursor steps aside for the news.
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
        // A blank has no style: an underlined one would be seen.
        if sign != " " {
            canvas.put(x, y, sign, role);
        }
    }
    canvas.put(2, y, shown.glyph, shown.role);
    put(canvas, y, columns.state, &shown.word, shown.role);
    put(canvas, y, columns.id, task.id.as_str(), Role::Dim);
    let name_role = if is_cursor || is_new {
        Role::Strong
    } else {
        Role::Plain
    };
    let mut at = columns.task;
    // Where LEAVE has no column, the row that must not be left says so before its name.
    if columns.leave.columns == 0
        && let Some(price @ LeaveImpact::Dies { .. }) = &task_row.view.leaving
        && !task.status.is_settled()
    {
        put(canvas, y, at, price.label(), price_role(price));
        at.x += DIES;
        at.columns = at.columns.saturating_sub(DIES);
    }
    let name = name(
        state,
        task_row,
        usize::from(at.columns.saturating_sub(1)),
        canvas.glyphs().more,
    );
    put(canvas, y, at, &name, name_role);
    put(canvas, y, columns.server, server, Role::Plain);
    let mut at = columns.progress;
    // Where STATE has no column, what does not simply run says so before its progress, as far as both fit.
    let is_open = matches!(task.status, Status::Running | Status::Paused);
    if columns.state.columns == 0 && is_open && shown.word != "running" {
        let wide = u16::try_from(text::width(&shown.word) + 1).unwrap_or(u16::MAX);
        if wide + PERCENT < at.columns {
            put(canvas, y, at, &shown.word, shown.role);
            at.x += wide;
            at.columns -= wide;
        }
    }
    let bar = progress(canvas, y, at, state, task_row, now);
    end(canvas, y, columns.end, state, task_row, now);
    let age = age(task_row, now);
    put(canvas, y, columns.age, &age, Role::Dim);
    if let Some(price) = task_row.leave_impact()
        && !task.status.is_settled()
    {
        let role = price_role(price);
        put(canvas, y, columns.leave, price.label(), role);
    }
    at.x..at.x + bar
}

/// Columns of a percentage.
const PERCENT: u16 = 5;
/// Columns of `DIES` and the blank after it.
const DIES: u16 = 5;

/// The role of a price's word.
pub(in crate::ui) fn price_role(price: &LeaveImpact) -> Role {
    match price {
        LeaveImpact::Safe { .. } => Role::Dim,
        LeaveImpact::Pauses { .. } | LeaveImpact::Likely { .. } => Role::Cut,
        LeaveImpact::Dies { .. } => Role::Failed,
    }
}

/// Writes a cell with a blank after it.
fn put(canvas: &mut Canvas<'_>, y: u16, column: Column, text: &str, role: Role) {
    let room = column.columns.saturating_sub(1);
    if room > 0 {
        canvas.put_in(column.x, y, room, text, role);
    }
}

/// The name with the argument that tells it from others, cut so that this argument stays readable.
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
        let room = columns - value_wide - 1;
        let with_key = room.saturating_sub(text::width(&key) + 1);
        // The key goes first, then the end of the name.
        if with_key >= text::width(&title) {
            return format!("{title} {key}={value}");
        }
        return format!("{} {value}", text::cut(&title, room, more));
    }
    let title_room = (columns / 2).max(8).min(columns);
    let title = text::cut(&title, title_room, more).into_owned();
    let rest = columns.saturating_sub(text::width(&title) + 1);
    format!("{title} {}", text::cut(&value, rest, more))
}

/// How far it is, or how it ended; returns the columns of its bar.
fn progress(
    canvas: &mut Canvas<'_>,
    y: u16,
    column: Column,
    state: &State,
    task_row: &TaskRow,
    now: Stamp,
) -> u16 {
    let room = column.columns.saturating_sub(1);
    if room == 0 {
        return 0;
    }
    let task = &task_row.view.task;
    let at = task.progress.as_ref().map(labels::count);
    let mut cell = canvas.part(column.x, y, room, 1);
    if task_row.view.is_unsaved {
        let x = cell.put(0, 0, "NOT SAVED", Role::Failed);
        cell.put(x + 1, 0, &at.unwrap_or_default(), Role::Plain);
        return 0;
    }
    match &task.status {
        Status::Completed => {
            let line = task.result_words().unwrap_or("done".into());
            cell.put(0, 0, &text::clean_line(&line), Role::Plain);
        }
        Status::Failed => {
            let message = task
                .error
                .as_ref()
                .map_or(String::new(), crate::domain::TaskError::message);
            let line = message.lines().find(|line| !line.trim().is_empty());
            let line = text::clean_line(line.unwrap_or("failed without a word")).into_owned();
            with_last(
                &mut cell,
                &line,
                at.map(|at| format!("(at {at})")),
                Role::Plain,
            );
        }
        Status::Lost(reason) => {
            let last = task.progress.as_ref().and_then(Progress::percent);
            let last = last.map(|percent| format!("(last {percent}%)"));
            with_last(&mut cell, labels::lost(reason), last, Role::Plain);
        }
        Status::Unknown(window) => {
            let last = Some(format!("{}: what now?", state.key(Action::Open)));
            with_last(&mut cell, &labels::unknown(window), last, Role::Plain);
        }
        Status::InputRequired => {
            let line = match task.open_question() {
                Some(question) => Elicitation::message_of(&question.request),
                None => "asks something".to_owned(),
            };
            let last = Some(format!("{} answers", state.key(Action::Open)));
            with_last(&mut cell, &line, last, Role::Plain);
        }
        Status::Cancelled => {
            let line = at.map_or("stopped".to_owned(), |at| format!("stopped at {at}"));
            cell.put(0, 0, &line, Role::Cancelled);
        }
        Status::Running | Status::Paused => match waits_for(state, task_row) {
            Some(words) => with_last(&mut cell, &words, at, Role::Needs),
            None => return bar(&mut cell, state, task_row, now),
        },
    }
    0
}

/// A text, and what has to stay readable behind it.
fn with_last(cell: &mut Canvas<'_>, line: &str, last: Option<String>, role: Role) {
    let Some(last) = last else {
        cell.put(0, 0, line, role);
        return;
    };
    let wide = u16::try_from(text::width(&last)).unwrap_or(u16::MAX);
    let room = cell.columns().saturating_sub(wide.saturating_add(2));
    // Where only one of them can be read in full, it is the text.
    let is_whole = text::width(line) <= usize::from(room);
    let would_fit = text::width(line) <= usize::from(cell.columns());
    if room < 8 || (!is_whole && would_fit) {
        cell.put(0, 0, line, role);
        return;
    }
    let x = cell.put_in(0, 0, room, line, role);
    cell.put(x + 2, 0, &last, Role::Dim);
}

/// Columns kept for a rate such as `49.3/s` and the gap before it, so that bars can be compared.
const RATE_COLUMNS: u16 = 9;

/// The bar of what is under way: with a total a part and a percentage, without one a wave and the count. Returns its
/// columns.
fn bar(cell: &mut Canvas<'_>, state: &State, task_row: &TaskRow, now: Stamp) -> u16 {
    let columns = cell.columns();
    let task = &task_row.view.task;
    let is_stale = !matches!(
        task_row.view.contact,
        Connectivity::Live { .. } | Connectivity::Quiet { .. } | Connectivity::Idle
    );
    let bar_role = if is_stale || task.status == Status::Paused {
        Role::Waiting
    } else {
        Role::Bar
    };
    if let Some(share) = task_row.view.guess {
        return guessed(cell, task, share, bar_role);
    }
    let Some(progress) = &task.progress else {
        let wide = columns
            .saturating_sub(if columns >= 26 { 16 } else { 0 })
            .min(20);
        wave(cell, wide, 0.0, state, task_row, now);
        let of_task = task
            .server_task
            .as_ref()
            .and_then(|it| it.message.as_deref());
        let words = task
            .remark
            .as_deref()
            .or(of_task)
            .unwrap_or("no progress yet");
        let words = text::clean_line(words);
        cell.put(wide + 2, 0, &words, Role::Dim);
        return wide;
    };
    let count = labels::count(progress);
    let message = progress.message.as_deref().map(text::clean_line);
    let (Some(ratio), Some(percent)) = (progress.ratio(), progress.percent()) else {
        // Where it is narrow, the wave gives way to the words as far as it can still be seen to move.
        let said = text::width(&count) + message.as_ref().map_or(0, |words| text::width(words) + 1);
        let said = u16::try_from(said + 1).unwrap_or(u16::MAX);
        let (wide, gap) = if columns >= 26 {
            (columns.saturating_sub(16).min(20), 2)
        } else {
            (columns.saturating_sub(said).clamp(4, 10), 1)
        };
        wave(cell, wide, progress.value, state, task_row, now);
        let x = cell.put(wide + gap, 0, &count, Role::Plain);
        if let Some(message) = message {
            cell.put(x + 1, 0, &message, Role::Dim);
        }
        return wide;
    };
    // The same length in every row, so that bars can be compared; where it is narrow, the count gives way.
    let count_wide = u16::try_from(text::width(&count)).unwrap_or(u16::MAX);
    let has_count = columns >= 26;
    let has_rate = columns >= 34;
    let beside = if has_count {
        count_wide
            .max(9)
            .saturating_add(if has_rate { 7 + RATE_COLUMNS } else { 7 })
    } else {
        5
    };
    let wide = columns.saturating_sub(beside).min(20);
    let bar = stripe(cell, wide, ratio, bar_role);
    let mut x = cell.put(bar, 0, &format!("{percent:>4}%"), Role::Plain);
    if has_count {
        x = cell.put(x + 2, 0, &count, Role::Plain);
    }
    if has_rate && let Some(rate) = task_row.pace.rate(now).filter(|_| task_row.is_running()) {
        x = cell.put(x + 2, 0, &labels::rate(rate), Role::Plain);
    }
    if let Some(message) = message
        && columns.saturating_sub(x) > 10
    {
        cell.put(x + 2, 0, &message, Role::Dim);
    }
    bar
}

/// The stripe of a bar, where there is room for one; returns the column after it.
fn stripe(cell: &mut Canvas<'_>, wide: u16, share: f64, role: Role) -> u16 {
    if wide < 4 {
        return 0;
    }
    let glyphs = cell.glyphs();
    let done = labels::share(share, wide);
    let x = cell.repeat(0, 0, done, glyphs.bar, role);
    cell.repeat(x, 0, wide - done, glyphs.rest, Role::BarRest)
}

/// The bar of a share that was read out of the server's words: with the sign of a guess, and those words. Returns its
/// columns.
fn guessed(cell: &mut Canvas<'_>, task: &Task, share: f64, role: Role) -> u16 {
    let percent = labels::guess(share);
    let wide = cell.columns();
    let wide = wide.saturating_sub(if wide >= 26 { 16 } else { 6 }).min(20);
    let bar = stripe(cell, wide, share, role);
    let x = cell.put(bar, 0, &format!("{percent:>5}"), Role::Plain);
    if let Some(said) = task.said() {
        cell.put(x + 2, 0, &text::clean_line(said), Role::Dim);
    }
    bar
}

/// A wave that runs through the bar while something works and nobody knows how long.
fn wave(
    cell: &mut Canvas<'_>,
    wide: u16,
    value: f64,
    state: &State,
    task_row: &TaskRow,
    now: Stamp,
) {
    let glyphs = cell.glyphs();
    cell.repeat(0, 0, wide, glyphs.rest, Role::BarRest);
    let is_moving = task_row.is_running()
        && matches!(
            task_row.view.contact,
            Connectivity::Live { .. } | Connectivity::Quiet { .. }
        );
    if wide < 4 || !is_moving {
        return;
    }
    let step = if state.setup.look.motion {
        now.mono.0 / crate::app::FRAME_MS
    } else {
        // Without motion the place tells the count, so that progress is seen all the same.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "progress is clamped to what a u64 holds"
        )]
        let step = value as u64;
        step
    };
    let place = u16::try_from(step % u64::from(wide.saturating_sub(2).max(1))).unwrap_or(0);
    for (sign, at) in glyphs.wave.into_iter().zip(place..) {
        if at < wide {
            cell.put(at, 0, sign, Role::Bar);
        }
    }
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
        let (words, role) = (state.clock_short(at, now), Role::Dim);
        put(canvas, y, column, &words, role);
        return;
    }
    if let Some(next) = labels::next_try(&task_row.view.contact)
        && !task.status.needs_a_person()
    {
        let words = match until(next, now).as_str() {
            "now" => "trying".to_owned(),
            left => format!("try {left}"),
        };
        put(canvas, y, column, &words, Role::Cut);
        return;
    }
    let left = task
        .progress
        .as_ref()
        .and_then(|progress| progress.total)
        .filter(|_| task_row.is_running())
        .and_then(|total| task_row.pace.left(now, total));
    // A question has to be answered by then; how long a server keeps what runs tells nothing of when it ends.
    let until = task
        .server_task
        .as_ref()
        .filter(|_| task.status == Status::InputRequired)
        .and_then(ServerTask::expires_at);
    match (left, until) {
        (Some(left), _) => put(canvas, y, column, &text::left(left), Role::Plain),
        (None, Some(at)) => {
            let at = state.clock_short(at, now);
            // An hour of one digit, so that it is not taken for the time at which something ended.
            let hour = at.strip_prefix('0').filter(|hour| hour.contains(':'));
            let words = format!("by {}", hour.unwrap_or(&at));
            put(canvas, y, column, &words, Role::Dim);
        }
        (None, None) => put(canvas, y, column, "-", Role::Dim),
    }
}

/// How long it has been running, or took; for what needs a person, how long ago it stopped.
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
