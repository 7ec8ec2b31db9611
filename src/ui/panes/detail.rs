//! The detail pane: the selected task in six tabs.

use core::time::Duration;

use ratatui::{
    layout::Constraint,
    text::{Line, Span, Text},
    widgets::{Cell, Row, Sparkline},
};

use super::{
    super::labels,
    document::{TextStyle, document, put_text},
    list::if_cut_role,
    log::{log_tab, newest_lines},
    timeline::{bar, legend},
};
use crate::{
    app::{
        Action, Focus, State, Tab, TaskRow, has_life, lane_of, retry_phrase, server_needs,
        until_phrase, waits,
    },
    domain::{Caller, Connectivity, Elicitation, Question, Stamp, Status, Task, Wall, text},
    ui::{Region, Role, wrap::wrap},
};

/// Draws the pane with its border; nothing if no task is selected.
pub(in crate::ui) fn detail(region: &mut Region<'_>, state: &State, now: Stamp) {
    let Some(task_row) = state.selected() else {
        return;
    };
    let (columns, rows) = (region.columns(), region.rows());
    // Aligns with the list on a wide screen.
    let margin = u16::from(columns >= 100);
    let mut pane = region.region(margin, 0, columns.saturating_sub(2 * margin), rows);
    border(&mut pane, state, task_row);
    let (columns, rows) = (pane.columns(), pane.rows());
    let mut inside = pane.region(2, 1, columns.saturating_sub(4), rows.saturating_sub(2));
    match state.detail.tab {
        Tab::Now => now_tab(&mut inside, state, task_row, now),
        Tab::Log => log_tab(&mut inside, state, task_row),
        _ => text_tab(&mut inside, state, task_row),
    }
}

/// Draws the border with the task's id, the tabs and the keys that switch them.
fn border(pane: &mut Region<'_>, state: &State, task_row: &TaskRow) {
    let theme = pane.theme;
    let has_focus = state.detail.focus == Focus::Detail;
    let role = if has_focus { Role::Focus } else { Role::Border };
    let line = || theme.span(theme.glyphs.line, Role::Border);
    let id = format!(" {} ", task_row.view.task.id);
    let mut title = Line::from(vec![theme.span(id, Role::Strong), line(), Span::raw(" ")]);
    let columns = usize::from(pane.columns());
    for tab in Tab::ALL {
        let label = tab.label();
        if *tab == state.detail.tab {
            title.push_span(theme.span(format!("[{label}]"), Role::Focus));
        } else if columns >= 64 {
            title.push_span(theme.span(label, Role::Plain));
        } else {
            continue;
        }
        title.push_span(Span::raw(" "));
    }
    let [before, after, zoom] =
        [Action::PreviousTab, Action::NextTab, Action::Zoom].map(|it| state.key(it));
    let word = if state.detail.is_zoomed {
        "unzoom"
    } else {
        "zoom"
    };
    let hint = format!(" {before} {after} tab  {zoom} {word} ");
    let has_room = title.width() + text::width(&hint) + 3 < columns;
    let mut block = pane.block(role).title(title);
    if has_room {
        let hint = Line::from(vec![theme.span(hint, Role::Dim), line()]);
        block = block.title(hint.right_aligned());
    }
    pane.render(block);
}

/// The columns of the labels in the Now tab.
const LABEL: u16 = 14;

/// The most rows of a fact.
const FACT_ROWS: usize = 4;

/// Draws the facts on the left and the newest log entries on the right.
fn now_tab(region: &mut Region<'_>, state: &State, task_row: &TaskRow, now: Stamp) {
    let (columns, rows) = (region.columns(), region.rows());
    let split = columns >= 96;
    let left = if split { 56 } else { columns };
    let has_timeline = rows >= 7 && columns >= 60 && has_life(state, task_row);
    let fact_rows = if has_timeline { rows - 1 } else { rows };
    let mut part = region.region(0, 0, left.saturating_sub(1), fact_rows);
    let mut y = put_facts(&mut part, &facts(state, task_row, now));
    // The rate comes last, if it is known and there is room.
    if let Some(rate) = task_row.pace.rate(now)
        && task_row.is_running()
        && fact_rows > y
    {
        let theme = part.theme;
        let rate = theme.span(labels::rate(rate), Role::Plain);
        let x = part.put(0, y, Line::from(vec![theme.span("rate ", Role::Dim), rate]));
        let x = x.max(LABEL - 1) + 1;
        let columns = part.columns().saturating_sub(x).min(30);
        spark(&mut part.region(x, y, columns, 1), task_row, now);
        y += 1;
    }
    if split {
        let mut right = region.region(left, 0, columns - left, fact_rows);
        newest_lines(&mut right, state, task_row);
    } else if fact_rows >= y + 3 {
        // If the log does not fit beside the facts, it gets the rows below them.
        let mut below = region.region(0, y + 1, columns, fact_rows - y - 1);
        newest_lines(&mut below, state, task_row);
    }
    if has_timeline {
        timeline(region, rows - 1, state, task_row, now);
    }
}

/// Draws the labels and facts; returns the row below.
fn put_facts(region: &mut Region<'_>, facts: &[Fact]) -> u16 {
    let theme = region.theme;
    let available = usize::from(region.columns().saturating_sub(LABEL)).max(1);
    let mut height = 0;
    let rows = facts.iter().map(|(label, value, role)| {
        let mut lines = wrap(value, available);
        if lines.len() > FACT_ROWS {
            let rest = lines.split_off(FACT_ROWS - 1).join(" ");
            lines.push(text::cut(&rest, available, theme.glyphs.more).into_owned());
        }
        let lines = lines.into_iter().map(|line| theme.span(line, *role).into());
        let lines: Vec<Line<'_>> = lines.collect();
        let count = u16::try_from(lines.len()).unwrap_or(1);
        height += count;
        let cells = [
            Cell::from(theme.span(*label, Role::Dim)),
            Cell::from(Text::from(lines)),
        ];
        Row::new(cells).height(count)
    });
    let rows: Vec<Row<'_>> = rows.collect();
    region.put_rows(rows, [Constraint::Length(LABEL), Constraint::Fill(1)], None);
    height.min(region.rows())
}

/// Draws how fast the task has progressed since its first step.
fn spark(region: &mut Region<'_>, task_row: &TaskRow, now: Stamp) {
    let slices = task_row.pace.sparkline(now, usize::from(region.columns()));
    let theme = region.theme;
    let widget = Sparkline::default()
        .data(slices.into_iter().skip_while(|slice| *slice == 0))
        .bar_set(theme.glyphs.spark.clone())
        .style(theme.style(Role::Running));
    region.render(widget);
}

/// A labeled line of the Now tab.
type Fact = (&'static str, String, Role);

/// The labeled lines of the Now tab: what the server reported, connection, pending control, cost of a cut, limits.
fn facts(state: &State, task_row: &TaskRow, now: Stamp) -> Vec<Fact> {
    let task = &task_row.view.task;
    let is_settled = task.status.is_settled();
    let mut facts = vec![("status", server_says(task_row), Role::Plain)];
    let reason = task.status.reason();
    facts.extend(reason.map(|it| ("why", it, Role::Plain)));
    let questions = task.open_questions();
    facts.extend(questions.map(|it| ("question", question(state, task, it, now), Role::Needs)));
    let error = task.end.error.as_ref();
    facts.extend(error.map(|it| ("error", it.message(), Role::Failed)));
    if let Some(line) = task.result_summary() {
        let size = task.end.result_bytes;
        let size = size.map_or(String::new(), |size| format!(" ({})", text::bytes(size)));
        let key = state.key(Action::Open);
        let line = format!("{line}{size}   ({key} to open)");
        facts.push(("result", line, Role::Done));
    }
    if let Some(at) = task.end.settled_at.filter(|_| is_settled) {
        let took = text::span(at.since(task.created_at));
        let line = format!("{} after {took}", state.clock_day(at));
        facts.push(("ended", line, Role::Plain));
    }
    facts.extend(task.caller.as_deref().map(|it| from(state, task, it, now)));
    if !matches!(task.status, Status::Unknown(_)) {
        let (connection, role) = connection(state, task_row, now);
        facts.push(("connection", connection, role));
    }
    let is_on_its_way = |it: &Question| it.answer.is_some() && !it.is_delivered;
    if let Some(asked) = &task.control {
        let ago = text::span(now.wall.since(asked.at));
        let pending = format!("{}, requested {ago} ago", asked.what.label());
        facts.push(("pending", pending, Role::Plain));
    } else if !is_settled && task.questions.iter().any(is_on_its_way) {
        let pending = "the server does not have your answer yet".to_owned();
        facts.push(("pending", pending, Role::Plain));
    }
    if let Some(impact) = task_row.if_cut().filter(|_| !is_settled) {
        let why = impact.message(|at| state.clock_day(at));
        let line = format!("{}: {why}", impact.label());
        facts.push(("if cut", line, if_cut_role(impact)));
    }
    let (notice, note) = (task.notice.clone(), task.note.clone());
    facts.extend(notice.map(|it| ("notice", it, Role::Warning)));
    facts.extend(note.map(|it| ("note", it, Role::Plain)));
    if !is_settled {
        let limits = [task.options.limits.idle, task.options.limits.hard];
        let [idle, hard] = limits.map(|limit| limit.map_or("off".to_owned(), text::span));
        let key = state.key(Action::Edit);
        let line = format!("idle timeout {idle}, max time {hard} ({key}: edit)");
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
    // A settled task that never reported progress has nothing to add here.
    let has_more = task.progress.is_some() || !task.status.is_settled();
    match task.server_message().filter(|_| has_more) {
        Some(message) => format!("{report}: {message}"),
        None => report,
    }
}

fn question(state: &State, task: &Task, question: &Question, now: Stamp) -> String {
    let elicitation = Elicitation::parse(&question.request);
    let message = elicitation.message.trim();
    let waits = waits(state, task, &question.key, now);
    if state.setup.readonly {
        return format!("{message}   ({waits})");
    }
    let key = state.key(Action::Open);
    format!("{message}   ({waits}; {key} to answer)")
}

/// Who made the call, and what has become of its result.
fn from(state: &State, task: &Task, caller: &Caller, now: Stamp) -> Fact {
    let progress = caller.progress(task.end.settled_at, now.wall, |at| state.clock_day(at));
    let line = format!("{}: {progress}", caller.who());
    let role = if task.is_owed(now.wall) {
        Role::Needs
    } else {
        Role::Plain
    };
    ("from", line, role)
}

fn connection(state: &State, task_row: &TaskRow, now: Stamp) -> (String, Role) {
    let ago = |at: Wall| labels::fine(now.wall.since(at));
    match task_row.view.contact.at(now) {
        Connectivity::Live { last_byte } => (
            format!("live, last byte {} ago", ago(last_byte)),
            Role::Plain,
        ),
        Connectivity::Quiet { last_byte } => (
            format!("quiet, last byte {} ago; stream open", ago(last_byte)),
            Role::Plain,
        ),
        Connectivity::Reconnecting { attempt, next, why } => {
            let (number, until) = (attempt.saturating_add(1), until_phrase(next, now));
            let line = format!("disconnected: {why}; retry #{number} {until}");
            (line, Role::Warning)
        }
        Connectivity::Offline { since, next, why } => {
            let (age, retry) = (text::span(now.wall.since(since)), retry_phrase(next, now));
            (format!("offline for {age}: {why}; {retry}"), Role::Warning)
        }
        Connectivity::NeedsLogin => {
            let server = state.server(&task_row.view.task.server);
            let need = server.and_then(|server| server_needs(state, server));
            let need = need.unwrap_or_else(|| "the server requires sign-in".to_owned());
            (format!("waiting: {need}"), Role::Needs)
        }
        Connectivity::Unwatched { as_of } => (
            format!("none; last known state from {}", state.clock_seconds(as_of)),
            Role::Waiting,
        ),
        Connectivity::Idle => ("not needed".to_owned(), Role::Plain),
    }
}

/// Draws what the task did from its creation to now or to its end: `timeline Fri 06:51 ━━━━━╍╍╍╍━━━━━━━━ now`.
fn timeline(region: &mut Region<'_>, y: u16, state: &State, task_row: &TaskRow, now: Stamp) {
    let theme = region.theme;
    let lane = lane_of(state, task_row, now);
    let begin = task_row.view.task.created_at;
    let settled_at = task_row.view.task.end.settled_at;
    let end = settled_at.unwrap_or(now.wall);
    let clock = |at: Wall| {
        if end.since(begin) < Duration::from_secs(3600) {
            state.clock_seconds(at)
        } else {
            state.clock_day(at)
        }
    };
    let begin_label = format!("timeline {} ", clock(begin));
    let end_label = settled_at.map_or("now".to_owned(), clock);
    let labels = text::width(&begin_label) + text::width(&end_label) + 1;
    let available = usize::from(region.columns()).saturating_sub(labels);
    let columns = u16::try_from(available).unwrap_or(u16::MAX).min(60);
    let shown = labels::state_of(state, task_row, theme.glyphs, now);
    let mut row = Line::from(theme.span(begin_label, Role::Dim));
    row.extend(bar(theme, &lane, &shown, columns, (begin, end)));
    row.push_span(theme.span(format!(" {end_label}"), Role::Dim));
    let legend = legend(theme);
    if row.width() + legend.width() < usize::from(region.columns()) {
        row.extend(legend);
    }
    region.put(0, y, row);
}

/// Draws the text tabs (result, arguments, trace, resume) from the scroll position on.
fn text_tab(region: &mut Region<'_>, state: &State, task_row: &TaskRow) {
    if let Some(shown) = crate::app::tab_document(state, task_row) {
        return document(region, state, task_row, shown);
    }
    let rows = region.rows();
    let lines = crate::app::tab_lines(state, task_row);
    let style = TextStyle::of(state);
    let last = lines.len().saturating_sub(style.page(rows));
    let scroll = state.detail.scroll.min(last);
    let theme = region.theme;
    let mut y = 0;
    let mut shown = 0;
    for line in lines.iter().skip(scroll) {
        if y >= rows {
            break;
        }
        let spans = vec![theme.span(line.as_str(), Role::Plain)];
        y = put_text(region, (0, y), spans, style);
        shown += 1;
    }
    region.put_more_below(lines.len().saturating_sub(scroll + shown));
}
