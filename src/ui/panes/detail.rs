//! The detail pane: the selected task in six tabs.

use super::{
    super::{canvas::Canvas, labels, theme::Role},
    document::{document, more_below, put_text},
    list::if_cut_role,
};
use crate::{
    app::{
        Action, Focus, State, Tab, TaskRow, TimelineMark, detail_margin, server_needs, tabs,
        until_phrase, waits,
    },
    domain::{Caller, Connectivity, Elicitation, Question, Stamp, Task, Wall, text},
    ui::{
        panes::log::{log_tab, newest_lines},
        wrap::wrap,
    },
};

/// Draws the pane with its border; nothing if no task is selected.
pub(in crate::ui) fn detail(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let Some(task_row) = state.selected() else {
        return;
    };
    let has_focus = state.detail.focus == Focus::Detail;
    let border = if has_focus { Role::Focus } else { Role::Border };
    let margin = detail_margin(canvas.columns());
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let mut canvas = canvas.region(margin, 0, columns.saturating_sub(2 * margin), rows);
    let canvas = &mut canvas;
    canvas.bordered(border);
    titles(canvas, state, task_row);
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let mut inside = canvas.region(2, 1, columns.saturating_sub(4), rows.saturating_sub(2));
    match state.detail.tab {
        Tab::Now => now_tab(&mut inside, state, task_row, now),
        Tab::Log => log_tab(&mut inside, state, task_row),
        _ => text_tab(&mut inside, state, task_row),
    }
}

fn titles(canvas: &mut Canvas<'_>, state: &State, task_row: &TaskRow) {
    let id = task_row.view.task.id.as_str();
    let line = canvas.glyphs().line;
    let mut x = canvas.put(1, 0, &format!(" {id} "), Role::Strong);
    x = canvas.put(x, 0, line, Role::Border);
    canvas.put(x, 0, " ", Role::Plain);
    let columns = canvas.columns();
    for (tab, span, title) in tabs(state, columns) {
        let role = if tab == state.detail.tab {
            Role::Focus
        } else {
            Role::Plain
        };
        x = canvas.put(span.start, 0, &title, role);
        x = canvas.put(x, 0, " ", Role::Plain);
    }
    let [before, after, zoom] =
        [Action::PreviousTab, Action::NextTab, Action::Zoom].map(|it| state.key(it));
    let word = if state.detail.is_zoomed {
        "unzoom"
    } else {
        "zoom"
    };
    let hint = format!(" {before} {after} tab  {zoom} {word} ");
    let width = u16::try_from(text::width(&hint)).unwrap_or(0);
    if x + width + 2 < columns {
        canvas.put_right_aligned(columns.saturating_sub(2), 0, &hint, Role::Dim);
    }
}

/// Draws the facts on the left and the newest log entries on the right.
fn now_tab(canvas: &mut Canvas<'_>, state: &State, task_row: &TaskRow, now: Stamp) {
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let split = columns >= 96;
    let left = if split { 56 } else { columns };
    let facts = facts(state, task_row, now);
    let has_timeline = rows >= 7 && columns >= 60;
    let fact_rows = if has_timeline { rows - 1 } else { rows };
    let label_wide = 14;
    let mut y = 0;
    {
        let mut region = canvas.region(0, 0, left.saturating_sub(1), fact_rows);
        for (label, value, role) in &facts {
            if y >= fact_rows {
                break;
            }
            region.put_clipped(0, y, label_wide, label, Role::Dim);
            let available = usize::from(region.columns().saturating_sub(label_wide)).max(1);
            for (index, line) in wrap(value, available).into_iter().enumerate() {
                if y >= fact_rows || index >= 3 {
                    break;
                }
                region.put(label_wide, y, &line, *role);
                y += 1;
            }
        }
        // The rate comes last, if it is known and there is room.
        if let Some(rate) = task_row.pace.rate(now)
            && task_row.is_running()
            && fact_rows > y
        {
            let x = region.put(0, y, "rate ", Role::Dim);
            let x = region.put(x, y, &labels::rate(rate), Role::Plain);
            spark(
                &mut region,
                x.max(label_wide.saturating_sub(1)) + 1,
                y,
                task_row,
                now,
            );
            y += 1;
        }
    }
    // If the log does not fit beside the facts, it gets the rows below them.
    if !split && fact_rows >= y + 3 {
        let mut below = canvas.region(0, y + 1, columns, fact_rows - y - 1);
        let log = state.detail.logs.get(&task_row.view.task.id);
        newest_lines(&mut below, state, task_row, log);
    }
    if split {
        let mut right = canvas.region(left, 0, columns - left, fact_rows);
        let log = state.detail.logs.get(&task_row.view.task.id);
        newest_lines(&mut right, state, task_row, log);
    }
    if has_timeline {
        timeline(canvas, rows - 1, state, task_row, now);
    }
}

fn spark(canvas: &mut Canvas<'_>, x: u16, y: u16, task_row: &TaskRow, now: Stamp) {
    let signs = canvas.glyphs().spark;
    let columns = canvas.columns().saturating_sub(x).min(30);
    let slices = task_row.pace.sparkline(now, usize::from(columns));
    // Skip the time before the first step.
    let slices: Vec<u64> = slices.into_iter().skip_while(|slice| *slice == 0).collect();
    let most = slices.iter().copied().max().unwrap_or(0).max(1);
    for (slice, at) in slices.into_iter().zip(x..) {
        let height = usize::try_from(slice.saturating_mul(7) / most).unwrap_or(0);
        let sign = signs.get(height).copied().unwrap_or(" ");
        canvas.put(at, y, sign, Role::Running);
    }
}

/// A labeled line of the Now tab.
type Fact = (&'static str, String, Role);

/// The labeled lines of the Now tab: what the server reported, connection, pending control, cost of a cut, limits.
fn facts(state: &State, task_row: &TaskRow, now: Stamp) -> Vec<Fact> {
    let task = &task_row.view.task;
    let is_settled = task.status.is_settled();
    let mut facts = vec![("server says", server_says(task_row), Role::Plain)];
    if let Some(reason) = task.status.reason() {
        facts.push(("why", reason, Role::Plain));
    }
    // The open questions of a settled task are moot.
    let questions = task.open_questions().filter(|_| !is_settled);
    facts.extend(questions.map(|it| ("question", question(state, task, it, now), Role::Needs)));
    if let Some(error) = &task.error {
        let message = text::clean_line(&error.message()).into_owned();
        facts.push(("error", message, Role::Failed));
    }
    if let Some(line) = task.result_summary() {
        let size = task.result_bytes;
        let size = size.map_or(String::new(), |size| format!(" ({})", text::bytes(size)));
        let (line, key) = (text::clean_line(&line), state.key(Action::Open));
        facts.push((
            "result",
            format!("{line}{size}   ({key} to open)"),
            Role::Done,
        ));
    }
    if let Some(at) = task.settled_at.filter(|_| is_settled) {
        let took = text::span(at.since(task.created_at));
        let line = format!("{} after {took}", state.clock_day(at));
        facts.push(("ended", line, Role::Plain));
    }
    facts.extend(task.caller.as_deref().map(|it| from(state, task, it, now)));
    let (connection, role) = connection(state, task_row, now);
    facts.push(("connection", connection, role));
    let pending = task.control.map_or("none".to_owned(), |asked| {
        let ago = text::span(now.wall.since(asked.at));
        format!("{}, {ago} ago", asked.what.label())
    });
    facts.push(("pending", pending, Role::Plain));
    if let Some(impact) = task_row.if_cut().filter(|_| !is_settled) {
        let until = impact.until.map_or(String::new(), |at| {
            format!(" until about {}", state.clock_minutes(at))
        });
        let line = format!("{}{until}: {}", impact.label(), impact.reason.message());
        facts.push(("if cut", line, if_cut_role(impact)));
    }
    if let Some(remark) = &task.notice {
        facts.push(("longhaul", text::clean_line(remark).into_owned(), Role::Cut));
    }
    if let Some(note) = &task.note {
        facts.push(("note", text::clean_line(note).into_owned(), Role::Plain));
    }
    if !is_settled {
        let limit = |limit: Option<std::time::Duration>| limit.map_or("off".to_owned(), text::span);
        let (idle, hard) = (limit(task.limits.idle), limit(task.limits.hard));
        let key = state.key(Action::Edit);
        let line = format!("idle {idle}, hard {hard}   ({key} to edit)");
        facts.push(("limits", line, Role::Plain));
    }
    facts
}

/// The status, progress and message that the server reported last.
fn server_says(task_row: &TaskRow) -> String {
    let task = &task_row.view.task;
    let mut report = if task.is_queued() && task.attempts.len() == 1 {
        "nothing yet; the call has not been sent".to_owned()
    } else {
        task.status.label().to_owned()
    };
    if let Some(progress) = &task.progress {
        let value = text::amount(progress.value);
        report = match progress.total {
            Some(total) => format!("{report}, step {value} of {}", text::amount(total)),
            None => format!("{report}, at {value}"),
        };
    }
    if let Some(share) = task_row.view.guess {
        report = format!("{report}, {} (estimated)", labels::estimate(share));
    }
    // A settled task that never reported progress has nothing to add here.
    let has_more = task.progress.is_some() || !task.status.is_settled();
    match task.server_message().filter(|_| has_more) {
        Some(message) => format!("{report}: {}", text::clean_line(message)),
        None => report,
    }
}

fn question(state: &State, task: &Task, question: &Question, now: Stamp) -> String {
    let elicitation = Elicitation::parse(&question.request);
    let message = text::clean_line(elicitation.message.trim());
    let waits = waits(state, task, &question.key, now);
    let key = state.key(Action::Open);
    format!("{message}   ({waits}; {key} to answer)")
}

/// Who made the call, and what has become of its result.
fn from(state: &State, task: &Task, caller: &Caller, now: Stamp) -> Fact {
    let (settled_at, wall) = (task.settled_at, now.wall);
    let progress = caller.progress(settled_at, wall, |at| state.clock_minutes(at));
    let line = format!("{}: {progress}", caller.who());
    let role = if caller.is_owed(settled_at, wall) {
        Role::Needs
    } else {
        Role::Plain
    };
    ("from", text::clean_line(&line).into_owned(), role)
}

fn connection(state: &State, task_row: &TaskRow, now: Stamp) -> (String, Role) {
    let ago = |at: Wall| {
        let age = now.wall.since(at);
        if age.as_secs() < 10 {
            format!("{:.1} s", age.as_secs_f64())
        } else {
            text::span(age)
        }
    };
    match task_row.view.contact.at(now) {
        Connectivity::Live { last_byte } => (
            format!("live, last byte {} ago", ago(last_byte)),
            Role::Plain,
        ),
        Connectivity::Quiet { last_byte } => (
            format!("quiet, last byte {} ago; stream open", ago(last_byte)),
            Role::Plain,
        ),
        Connectivity::Reconnecting { attempt, next, why } => (
            format!(
                "cut: {}; try {} {}",
                text::clean_line(why.strip_prefix("cut: ").unwrap_or(&why)),
                attempt.saturating_add(1),
                until_phrase(next, now)
            ),
            Role::Cut,
        ),
        Connectivity::Offline { since, next, why } => (
            format!(
                "offline for {}: {}; next try {}",
                text::span(now.wall.since(since)),
                text::clean_line(&why),
                until_phrase(next, now)
            ),
            Role::Cut,
        ),
        Connectivity::NeedsLogin => {
            let server = state.server(&task_row.view.task.server);
            let need = server.and_then(|server| server_needs(state, server));
            let need = need.unwrap_or_else(|| "the server requires sign-in".to_owned());
            (format!("waiting: {need}"), Role::Needs)
        }
        Connectivity::Unwatched { as_of } => (
            format!("no driver; as of {}", state.clock_seconds(as_of)),
            Role::Waiting,
        ),
        Connectivity::Idle => ("not needed".to_owned(), Role::Plain),
    }
}

/// Draws the connection timeline with a legend, up to now or to the task's end: `06:51:51 ━━━━━╍╍╍╍▲━━━━━━━━ now`.
fn timeline(canvas: &mut Canvas<'_>, y: u16, state: &State, task_row: &TaskRow, now: Stamp) {
    let signs = canvas.glyphs().trail;
    let Some((first, _)) = task_row.timeline.front() else {
        return;
    };
    let task = &task_row.view.task;
    let settled_at = task.settled_at.filter(|_| task.status.is_settled());
    let last = settled_at.unwrap_or(now.wall);
    if last < *first {
        // The task ended before this process observed it.
        return;
    }
    let end_words = settled_at.map_or("now".to_owned(), |at| state.clock_seconds(at));
    let whole = last.since(*first).as_millis().max(1);
    let legend = format!(
        "{} live  {} cut  {} asleep  {} unwatched  {} replay  {} gap",
        signs[0], signs[1], signs[2], signs[3], signs[4], signs[5]
    );
    let legend_wide = u16::try_from(text::width(&legend)).unwrap_or(0);
    let has_legend = canvas.columns() >= legend_wide + 50;
    let start = canvas.put(0, y, "connection ", Role::Dim);
    let start = canvas.put(start, y, &state.clock_seconds(*first), Role::Dim) + 1;
    let end = canvas
        .columns()
        .saturating_sub(if has_legend { legend_wide + 3 } else { 0 } + 1)
        .saturating_sub(u16::try_from(text::width(&end_words)).unwrap_or(0));
    let columns = end.saturating_sub(start).min(60);
    let mut marks = task_row.timeline.iter().peekable();
    let mut present = task_row
        .timeline
        .front()
        .map_or(TimelineMark::Live, |(_, mark)| *mark);
    for column in 0..columns {
        let upto = whole * u128::from(column + 1) / u128::from(columns.max(1));
        let mut shown = present;
        let mut is_event = false;
        while let Some((at, mark)) = marks.peek() {
            if at.since(*first).as_millis() >= upto && column + 1 < columns {
                break;
            }
            // A short event must stay visible, even if other marks fall into the same column.
            let is_short = matches!(
                mark,
                TimelineMark::Replay | TimelineMark::Gap | TimelineMark::Cut
            );
            if is_short || !is_event {
                shown = *mark;
            }
            is_event |= is_short;
            present = *mark;
            marks.next();
        }
        let (sign, role) = match shown {
            TimelineMark::Live => (signs[0], Role::Done),
            TimelineMark::Cut => (signs[1], Role::Cut),
            TimelineMark::Asleep => (signs[2], Role::Dim),
            TimelineMark::Unwatched => (signs[3], Role::Dim),
            TimelineMark::Replay => (signs[4], Role::Running),
            TimelineMark::Gap => (signs[5], Role::Failed),
        };
        canvas.put(start + column, y, sign, role);
    }
    let x = canvas.put(start + columns + 1, y, &end_words, Role::Dim);
    if has_legend {
        canvas.put(x + 3, y, &legend, Role::Dim);
    }
}

/// Draws the text tabs (result, arguments, trace, resume) from the scroll position on.
fn text_tab(canvas: &mut Canvas<'_>, state: &State, task_row: &TaskRow) {
    if let Some(shown) = crate::app::tab_document(state, task_row) {
        return document(canvas, state, task_row, shown);
    }
    let rows = canvas.rows();
    let lines = crate::app::tab_lines(state, task_row);
    let page = if state.detail.text.is_wrapping {
        1
    } else {
        usize::from(rows)
    };
    let scroll = state.detail.scroll.min(lines.len().saturating_sub(page));
    let search = state.detail.search.as_deref();
    let mut y = 0;
    let mut shown = 0;
    for line in lines.iter().skip(scroll) {
        if y >= rows {
            break;
        }
        y = put_text(
            canvas,
            (0, y),
            line,
            Role::Plain,
            state.detail.text.is_wrapping,
            search,
        );
        shown += 1;
    }
    more_below(canvas, lines.len().saturating_sub(scroll + shown));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_at_blanks_and_breaks_long_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
    }
}
