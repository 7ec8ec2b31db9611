//! The progress of a task in the list: bar, percentage and rate.

use crate::{
    app::{Action, State, TaskRow, waits_for},
    domain::{Connectivity, Elicitation, Progress, Stamp, Status, Task, text},
    ui::{canvas::Canvas, labels, layout::Column, theme::Role},
};

/// Draws the PROGRESS cell: progress or outcome. Returns the width of the progress bar, 0 if there is none.
pub(super) fn progress(
    canvas: &mut Canvas<'_>,
    y: u16,
    column: Column,
    state: &State,
    task_row: &TaskRow,
    now: Stamp,
) -> u16 {
    let available = column.columns.saturating_sub(1);
    if available == 0 {
        return 0;
    }
    let task = &task_row.view.task;
    let at = task.progress.as_ref().map(labels::count);
    let mut cell = canvas.region(column.x, y, available, 1);
    if task_row.view.is_unsaved {
        let x = cell.put(0, 0, "NOT SAVED", Role::Failed);
        cell.put(x + 1, 0, &at.unwrap_or_default(), Role::Plain);
        return 0;
    }
    match &task.status {
        Status::Completed => {
            let line = task.result_summary().unwrap_or("done".into());
            cell.put(0, 0, &text::clean_line(&line), Role::Plain);
        }
        Status::Failed => {
            let message = task
                .error
                .as_ref()
                .map_or(String::new(), crate::domain::TaskError::message);
            let line = message.lines().find(|line| !line.trim().is_empty());
            let line = text::clean_line(line.unwrap_or("failed without a message")).into_owned();
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
            let last = Some(format!("{} for options", state.key(Action::Open)));
            with_last(&mut cell, &labels::unknown(window), last, Role::Plain);
        }
        Status::InputRequired => {
            let line = match task.open_question() {
                Some(question) => Elicitation::message_of(&question.request),
                None => "asks a question".to_owned(),
            };
            let last = Some(format!("{} answers", state.key(Action::Open)));
            with_last(&mut cell, &line, last, Role::Plain);
        }
        Status::Cancelled => {
            let line = at.map_or("stopped".to_owned(), |at| format!("stopped at {at}"));
            cell.put(0, 0, &line, Role::Cancelled);
        }
        Status::Running | Status::Paused => match waits_for(state, task_row) {
            Some(need) => with_last(&mut cell, &need, at, Role::Needs),
            None => return bar(&mut cell, state, task_row, now),
        },
    }
    0
}

/// Writes a text and a suffix; the text is cut first, but a text that fits only alone is shown without the suffix.
pub(super) fn with_last(cell: &mut Canvas<'_>, line: &str, last: Option<String>, role: Role) {
    let Some(last) = last else {
        cell.put(0, 0, line, role);
        return;
    };
    let width = u16::try_from(text::width(&last)).unwrap_or(u16::MAX);
    let available = cell.columns().saturating_sub(width.saturating_add(2));
    // If only one of them fits in full, show the text.
    let is_whole = text::width(line) <= usize::from(available);
    let would_fit = text::width(line) <= usize::from(cell.columns());
    if available < 8 || (!is_whole && would_fit) {
        cell.put(0, 0, line, role);
        return;
    }
    let x = cell.put_clipped(0, 0, available, line, role);
    cell.put(x + 2, 0, &last, Role::Dim);
}

/// The width reserved for a rate such as `49.3/s` and the gap before it, so that all bars have the same length.
pub(super) const RATE_COLUMNS: u16 = 9;

/// Draws the progress bar of an open task: with a total, a bar and a percentage; without one, a wave and the count.
/// Returns the bar's width.
pub(super) fn bar(cell: &mut Canvas<'_>, state: &State, task_row: &TaskRow, now: Stamp) -> u16 {
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
        return estimated_bar(cell, task, share, bar_role);
    }
    let Some(progress) = &task.progress else {
        return no_progress(cell, state, task_row, now);
    };
    let count = labels::count(progress);
    let message = progress.message.as_deref().map(text::clean_line);
    let (Some(ratio), Some(percent)) = (progress.ratio(), progress.percent()) else {
        // In a narrow column the wave shrinks to make space for the text, but enough stays to see it move.
        let text_width = text::width(&count)
            + message
                .as_ref()
                .map_or(0, |message| text::width(message) + 1);
        let text_width = u16::try_from(text_width + 1).unwrap_or(u16::MAX);
        let (width, gap) = if columns >= 26 {
            (columns.saturating_sub(16).min(20), 2)
        } else {
            (columns.saturating_sub(text_width).clamp(4, 10), 1)
        };
        wave(cell, width, progress.value, state, task_row, now);
        let x = cell.put(width + gap, 0, &count, Role::Plain);
        if let Some(message) = message {
            cell.put(x + 1, 0, &message, Role::Dim);
        }
        return width;
    };
    // The same length in every row, so that bars can be compared; a narrow column drops the count.
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
    let width = columns.saturating_sub(beside).min(20);
    let bar = stripe(cell, width, ratio, bar_role);
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

/// Draws a wave and what is known instead of progress; returns the width of the wave.
fn no_progress(cell: &mut Canvas<'_>, state: &State, task_row: &TaskRow, now: Stamp) -> u16 {
    let columns = cell.columns();
    let width = columns
        .saturating_sub(if columns >= 26 { 16 } else { 0 })
        .min(20);
    wave(cell, width, 0.0, state, task_row, now);
    let task = &task_row.view.task;
    let of_task = task.server_task.as_ref();
    let of_task = of_task.and_then(|it| it.message.as_deref());
    let status = task.notice.as_deref().or(of_task);
    let status = text::clean_line(status.unwrap_or("no progress yet"));
    cell.put(width + 2, 0, &status, Role::Dim);
    width
}

/// Draws a bar if there are at least 4 columns for it; returns the column after it.
pub(super) fn stripe(cell: &mut Canvas<'_>, width: u16, share: f64, role: Role) -> u16 {
    if width < 4 {
        return 0;
    }
    let glyphs = cell.glyphs();
    let done = labels::share(share, width);
    let x = cell.repeat(0, 0, done, glyphs.bar, role);
    cell.repeat(x, 0, width - done, glyphs.rest, Role::BarRest)
}

/// Draws the bar of a percentage that was estimated from the server's message, followed by that message. Returns the
/// bar's width.
pub(super) fn estimated_bar(cell: &mut Canvas<'_>, task: &Task, share: f64, role: Role) -> u16 {
    let percent = labels::estimate(share);
    let width = cell.columns();
    let width = width
        .saturating_sub(if width >= 26 { 16 } else { 6 })
        .min(20);
    let bar = stripe(cell, width, share, role);
    let x = cell.put(bar, 0, &format!("{percent:>5}"), Role::Plain);
    if let Some(message) = task.server_message() {
        cell.put(x + 2, 0, &text::clean_line(message), Role::Dim);
    }
    bar
}

/// Draws an indeterminate bar: a wave that moves while the task runs.
pub(super) fn wave(
    cell: &mut Canvas<'_>,
    width: u16,
    value: f64,
    state: &State,
    task_row: &TaskRow,
    now: Stamp,
) {
    let glyphs = cell.glyphs();
    cell.repeat(0, 0, width, glyphs.rest, Role::BarRest);
    let is_moving = task_row.is_running()
        && matches!(
            task_row.view.contact,
            Connectivity::Live { .. } | Connectivity::Quiet { .. }
        );
    if width < 4 || !is_moving {
        return;
    }
    let step = if state.setup.look.motion {
        now.mono.0 / crate::app::FRAME_MS
    } else {
        // With animations off, the position follows the count, so that progress is still visible.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "progress is clamped to what a u64 holds"
        )]
        let step = value as u64;
        step
    };
    let index = u16::try_from(step % u64::from(width.saturating_sub(2).max(1))).unwrap_or(0);
    for (sign, at) in glyphs.wave.into_iter().zip(index..) {
        if at < width {
            cell.put(at, 0, sign, Role::Bar);
        }
    }
}

/// The width of a percentage.
pub(super) const PERCENT: u16 = 5;
