//! The detail pane: one task in six tabs.

use crate::{
    app::{
        Action, Focus, State, Tab, TaskLog, TaskRow, TimelineMark, detail_margin, finds,
        server_needs, tabs, until_phrase, waits,
    },
    domain::{
        Connectivity, Elicitation, Entry, HistoryEvent, LeaveImpact, Level, Stamp, Wall, Words,
        text,
    },
};

use super::{
    super::{canvas::Canvas, labels, theme::Role},
    document::{document, more_below, put_text},
    list::price_role,
};

/// The pane with its border; nothing without a task.
pub(in crate::ui) fn detail(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let Some(task_row) = state.selected() else {
        return;
    };
    let has_keys = state.focus == Focus::Detail;
    let border = if has_keys { Role::Focus } else { Role::Border };
    let margin = detail_margin(canvas.columns());
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let mut canvas = canvas.part(margin, 0, columns.saturating_sub(2 * margin), rows);
    let canvas = &mut canvas;
    canvas.framed(border);
    titles(canvas, state, task_row);
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let mut inside = canvas.part(2, 1, columns.saturating_sub(4), rows.saturating_sub(2));
    match state.tab {
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
    for (tab, place, words) in tabs(state, columns) {
        let role = if tab == state.tab {
            Role::Focus
        } else {
            Role::Plain
        };
        x = canvas.put(place.start, 0, &words, role);
        x = canvas.put(x, 0, " ", Role::Plain);
    }
    let [before, after, zoom] =
        [Action::PreviousTab, Action::NextTab, Action::Zoom].map(|it| state.key(it));
    let word = if state.is_zoomed { "unzoom" } else { "zoom" };
    let hint = format!(" {before} {after} tab  {zoom} {word} ");
    let wide = u16::try_from(text::width(&hint)).unwrap_or(0);
    if x + wide + 2 < columns {
        canvas.put_before(columns.saturating_sub(2), 0, &hint, Role::Dim);
    }
}

/// The facts on the left, the end of the log on the right.
fn now_tab(canvas: &mut Canvas<'_>, state: &State, task_row: &TaskRow, now: Stamp) {
    let (columns, rows) = (canvas.columns(), canvas.rows());
    let split = columns >= 96;
    let left = if split { 56 } else { columns };
    let facts = facts(state, task_row, now);
    let timeline = rows >= 7 && columns >= 60;
    let fact_rows = if timeline { rows - 1 } else { rows };
    let label_wide = 14;
    let mut y = 0;
    {
        let mut part = canvas.part(0, 0, left.saturating_sub(1), fact_rows);
        for (label, words, role) in &facts {
            if y >= fact_rows {
                break;
            }
            part.put_in(0, y, label_wide, label, Role::Dim);
            let room = usize::from(part.columns().saturating_sub(label_wide)).max(1);
            for (place, line) in wrap(words, room).into_iter().enumerate() {
                if y >= fact_rows || place >= 3 {
                    break;
                }
                part.put(label_wide, y, &line, *role);
                y += 1;
            }
        }
        // The rate closes the facts, where there is room and something to say.
        if let Some(rate) = task_row.pace.rate(now)
            && task_row.is_running()
            && fact_rows > y
        {
            let x = part.put(0, y, "rate ", Role::Dim);
            let x = part.put(x, y, &labels::rate(rate), Role::Plain);
            spark(
                &mut part,
                x.max(label_wide.saturating_sub(1)) + 1,
                y,
                task_row,
                now,
            );
            y += 1;
        }
    }
    // Where the log has no place beside the facts, it gets the rows below them.
    if !split && fact_rows >= y + 3 {
        let mut below = canvas.part(0, y + 1, columns, fact_rows - y - 1);
        let log = state.logs.get(&task_row.view.task.id);
        newest_lines(&mut below, state, task_row, log);
    }
    if split {
        let mut right = canvas.part(left, 0, columns - left, fact_rows);
        let log = state.logs.get(&task_row.view.task.id);
        newest_lines(&mut right, state, task_row, log);
    }
    if timeline {
        trail(canvas, rows - 1, state, task_row, now);
    }
}

fn spark(canvas: &mut Canvas<'_>, x: u16, y: u16, task_row: &TaskRow, now: Stamp) {
    let signs = canvas.glyphs().spark;
    let columns = canvas.columns().saturating_sub(x).min(30);
    let slices = task_row.pace.spark(now, usize::from(columns));
    // Before the first step there was nothing to measure.
    let slices: Vec<u64> = slices.into_iter().skip_while(|slice| *slice == 0).collect();
    let most = slices.iter().copied().max().unwrap_or(0).max(1);
    for (slice, at) in slices.into_iter().zip(x..) {
        let height = usize::try_from(slice.saturating_mul(7) / most).unwrap_or(0);
        let sign = signs.get(height).copied().unwrap_or(" ");
        canvas.put(at, y, sign, Role::Running);
    }
}

/// The three facts, the price of leaving, the limits, and what longhaul has to say.
fn facts(state: &State, task_row: &TaskRow, now: Stamp) -> Vec<(&'static str, String, Role)> {
    let task = &task_row.view.task;
    let is_settled = task.status.is_settled();
    let mut facts = Vec::new();
    let mut says = if task.is_queued() && task.attempts.len() == 1 {
        "nothing yet; the call is still to be sent".to_owned()
    } else {
        task.status.label().to_owned()
    };
    if let Some(progress) = &task.progress {
        says = match progress.total {
            Some(total) => format!(
                "{says}, step {} of {}",
                text::amount(progress.value),
                text::amount(total)
            ),
            None => format!("{says}, at {}", text::amount(progress.value)),
        };
    }
    if let Some(share) = task_row.view.guess {
        says = format!("{says}, {} by its words", labels::guess(share));
    }
    // A settled task has said what it had to say.
    if let Some(said) = task
        .said()
        .filter(|_| task.progress.is_some() || !is_settled)
    {
        says = format!("{says}: {}", text::clean_line(said));
    }
    facts.push(("server says", says, Role::Plain));
    if let Some(reason) = task.status.reason() {
        facts.push(("why", reason, Role::Plain));
    }
    // What has ended asks nobody any more.
    for question in task.open_questions().filter(|_| !is_settled) {
        let asked = Elicitation::read(&question.request);
        let message = text::clean_line(asked.message.trim()).into_owned();
        let waits = waits(state, task, &question.key, now);
        facts.push((
            "it asks",
            format!("{message}   ({waits}; {} answers)", state.key(Action::Open)),
            Role::Needs,
        ));
    }
    if let Some(error) = &task.error {
        facts.push((
            "error",
            text::clean_line(&error.message()).into_owned(),
            Role::Failed,
        ));
    }
    if let Some(line) = task.result_words() {
        let size = task
            .result_bytes
            .map_or(String::new(), |size| format!(" ({})", text::bytes(size)));
        facts.push((
            "result",
            format!(
                "{}{size}   ({} shows it)",
                text::clean_line(&line),
                state.key(Action::Open)
            ),
            Role::Done,
        ));
    }
    if let Some(at) = task.settled_at
        && is_settled
    {
        facts.push((
            "ended",
            format!(
                "{} after {}",
                state.clock_day(at),
                text::span(at.since(task.created_at))
            ),
            Role::Plain,
        ));
    }
    let (contact, role) = contact(state, task_row, now);
    facts.push(("contact", contact, role));
    let asked = task.asked.map_or("nothing".to_owned(), |asked| {
        format!(
            "{}, {} ago",
            asked.what.label(),
            text::span(now.wall.since(asked.at))
        )
    });
    facts.push(("we asked", asked, Role::Plain));
    if let Some(price) = task_row.leave_impact()
        && !is_settled
    {
        let word = price.label().to_uppercase();
        let until = match price {
            LeaveImpact::Likely {
                until: Some(at), ..
            } => {
                format!(" until about {}", state.clock_minutes(*at))
            }
            _ => String::new(),
        };
        facts.push((
            "if you leave",
            format!("{word}{until}: {}", text::clean_line(price.why())),
            price_role(price),
        ));
    }
    if let Some(remark) = &task.remark {
        facts.push(("longhaul", text::clean_line(remark).into_owned(), Role::Cut));
    }
    if let Some(note) = &task.note {
        facts.push(("note", text::clean_line(note).into_owned(), Role::Plain));
    }
    if !is_settled {
        let limit = |limit: Option<std::time::Duration>| limit.map_or("off".to_owned(), text::span);
        facts.push((
            "limits",
            format!(
                "idle {}, hard {}   ({} edits)",
                limit(task.limits.idle),
                limit(task.limits.hard),
                state.key(Action::Edit)
            ),
            Role::Plain,
        ));
    }
    facts
}

fn contact(state: &State, task_row: &TaskRow, now: Stamp) -> (String, Role) {
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
            format!("quiet, last byte {} ago; still open", ago(last_byte)),
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
            let words = server.and_then(|server| server_needs(state, server));
            let words = words.unwrap_or_else(|| "the server server_needs sign-in".to_owned());
            (format!("waits: {words}"), Role::Needs)
        }
        Connectivity::Unwatched { as_of } => (
            format!("nobody drives; as of {}", state.clock_seconds(as_of)),
            Role::Waiting,
        ),
        Connectivity::Idle => ("idle: nothing has to be open".to_owned(), Role::Plain),
    }
}

/// `contact 06:51:51 ━━━━━╍╍╍╍▲━━━━━━━━ now`, with what the signs mean; of what has settled, up to its end.
fn trail(canvas: &mut Canvas<'_>, y: u16, state: &State, task_row: &TaskRow, now: Stamp) {
    let signs = canvas.glyphs().trail;
    let Some((first, _)) = task_row.timeline.front() else {
        return;
    };
    let task = &task_row.view.task;
    let settled_at = task.settled_at.filter(|_| task.status.is_settled());
    let last = settled_at.unwrap_or(now.wall);
    if last < *first {
        // It ended before this program looked.
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
    let start = canvas.put(0, y, "contact ", Role::Dim);
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
            // A short event must not vanish between two columns, nor behind what follows it in the same one.
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

fn log_tab(canvas: &mut Canvas<'_>, state: &State, task_row: &TaskRow) {
    let log = state.logs.get(&task_row.view.task.id);
    log_lines(canvas, state, task_row, log, state.scroll);
}

fn nothing_yet(canvas: &mut Canvas<'_>, task_row: &TaskRow) {
    let words = if task_row.view.saved_seq == 0 {
        "Nothing is recorded yet."
    } else {
        "Reading the history ..."
    };
    canvas.put(0, 0, words, Role::Dim);
}

/// One entry on one line; a change of contact is drawn out to a separator.
fn put_entry(canvas: &mut Canvas<'_>, y: u16, pieces: &[(String, Role)], is_separator: bool) {
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

/// The news of a task, newest first; steps stay out where there is anything else to read, the bar shows them.
fn newest_lines(canvas: &mut Canvas<'_>, state: &State, task_row: &TaskRow, log: Option<&TaskLog>) {
    let Some(log) = log.filter(|log| !log.entries.is_empty()) else {
        return nothing_yet(canvas, task_row);
    };
    let is_step = |entry: &Entry| matches!(entry.what, HistoryEvent::Progress { .. });
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

/// Comes forward from `back` until the page is full: what is looked for need not stand on the last line.
fn full_page(
    state: &State,
    log: &TaskLog,
    back: usize,
    rows: usize,
    columns: usize,
    line: &str,
) -> usize {
    let height = |entry: &Entry| {
        if !state.is_wrapping || matches!(entry.what, HistoryEvent::Contact { .. }) {
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

/// The newest entries that fit, `back` entries before the end, oldest first; only these are formatted.
fn log_lines(
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
    let search = state.search.as_deref();
    for entry in log.entries.iter().rev().skip(back) {
        if y == 0 {
            break;
        }
        let (pieces, indent) = entry_pieces(state, entry, canvas.glyphs().line);
        let whole: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
        let is_separator = matches!(entry.what, HistoryEvent::Contact { .. });
        let end = y;
        if state.is_wrapping && !is_separator && text::width(&whole) > columns {
            let role = pieces.last().map_or(Role::Plain, |(_, role)| *role);
            let lines = wrap_hanging(&whole, columns, indent);
            for (place, line) in lines.iter().enumerate().rev() {
                if y == 0 {
                    break;
                }
                y -= 1;
                let x = if place == 0 {
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
            canvas.mark_found(0, y..end, search);
        }
    }
    if y > 0 && log.dropped > 0 {
        let words = format!(
            "{} older lines are only in the session file",
            text::grouped(log.dropped)
        );
        canvas.put(0, y - 1, &words, Role::Dim);
        y -= 1;
    }
    // A short log starts at the top, as text does.
    if y > 0 {
        canvas.scroll_up(y, body);
    }
    if rows > 1 {
        let key = state.key(Action::Follow);
        let follow = if back > 0 {
            format!("{} newer below ({key} follows)", text::grouped(back))
        } else if state.is_following {
            format!("following ({key})")
        } else {
            format!("not following ({key})")
        };
        canvas.put_before(canvas.columns(), rows - 1, &follow, Role::Dim);
        if let Some(search) = search {
            canvas.put(
                0,
                rows - 1,
                &format!("/{search}  n next  N before"),
                Role::Dim,
            );
        }
    }
}

/// Result, arguments, trace and resume: lines of text, from the scroll position on.
fn text_tab(canvas: &mut Canvas<'_>, state: &State, task_row: &TaskRow) {
    if let Some(shown) = crate::app::tab_document(state, task_row) {
        return document(canvas, state, task_row, shown);
    }
    let rows = canvas.rows();
    let lines = crate::app::tab_lines(state, task_row);
    let page = if state.is_wrapping {
        1
    } else {
        usize::from(rows)
    };
    let scroll = state.scroll.min(lines.len().saturating_sub(page));
    let search = state.search.as_deref();
    let mut y = 0;
    let mut shown = 0;
    for line in lines.iter().skip(scroll) {
        if y >= rows {
            break;
        }
        y = put_text(canvas, (0, y), line, Role::Plain, state.is_wrapping, search);
        shown += 1;
    }
    more_below(canvas, lines.len().saturating_sub(scroll + shown));
}

/// One entry in pieces, and how far its further lines are indented.
fn entry_pieces(state: &State, entry: &Entry, line: &str) -> (Vec<(String, Role)>, usize) {
    let time = if state.has_times {
        format!("{} ", state.clock_seconds(entry.at))
    } else {
        String::new()
    };
    let indent = time.len();
    let mut pieces = vec![(time, Role::Dim)];
    let Words { kind, lead, text } = entry.message();
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
                Level::Debug => Role::Dim,
                Level::Info | Level::Notice => Role::Plain,
                Level::Warning => Role::Cut,
                _ => Role::Failed,
            };
            let word = match level {
                Level::Warning => "warn",
                Level::Critical => "crit",
                Level::Emergency => "emerg",
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

/// Breaks clean text into lines of at most `columns`, at blanks where there are any.
pub(in crate::ui) fn wrap(text: &str, columns: usize) -> Vec<String> {
    wrap_hanging(text, columns, 0)
}

/// As [`wrap`], with further lines shorter by `indent`.
fn wrap_hanging(words: &str, columns: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    let mut room = columns.max(1);
    for word in words.split_inclusive(' ') {
        let wide = text::width(word.trim_end());
        if used > 0 && used + wide > room {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            used = 0;
            room = columns.saturating_sub(indent).max(1);
        }
        if wide <= room {
            line.push_str(word);
            used += text::width(word);
            continue;
        }
        // A word longer than a line is cut wherever it has to be.
        for letter in word.chars() {
            let wide = text::width(letter.encode_utf8(&mut [0; 4]));
            if used > 0 && used + wide > room {
                lines.push(std::mem::take(&mut line));
                used = 0;
                room = columns.saturating_sub(indent).max(1);
            }
            line.push(letter);
            used += wide;
        }
    }
    if !line.trim().is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_blanks_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
    }
}
