//! The progress of a task in the list: bar, percentage and rate.

use ratatui::{
    style::Modifier,
    text::{Line, Span},
    widgets::LineGauge,
};

use crate::{
    app::{Action, FRAME_MS, State, TaskRow, waits_for},
    domain::{Connectivity, Elicitation, Progress, Stamp, Status, text},
    ui::{Region, Role, Theme, labels},
};

/// The PROGRESS cell of a task: its text with blanks in place of the bar, and the bar.
type ProgressCell = (Line<'static>, Option<Bar>);

/// The bar at the start of a cell.
pub(super) struct Bar {
    width: u16,
    shape: BarShape,
}

enum BarShape {
    /// The completed part of the whole.
    Share { ratio: f64, role: Role },
    /// Without a total, a wave that moves while the task runs.
    Wave { at: Option<u16> },
}

/// The width of a percentage.
pub(super) const PERCENT: u16 = 5;

/// The width reserved for a rate such as `49.3/s` and the gap before it, so that all bars have the same length.
const RATE_COLUMNS: u16 = 9;

/// The most columns of a bar, and the fewest of one that shows a share.
const BAR_COLUMNS: u16 = 20;
const LEAST_BAR: u16 = 4;

/// The width of a column that has room for a number beside the bar.
const ROOMY: u16 = 26;

/// The PROGRESS cell: progress or outcome, in `columns` columns.
pub(super) fn progress(
    columns: u16,
    state: &State,
    task_row: &TaskRow,
    now: Stamp,
) -> ProgressCell {
    let theme = Theme::of(state.setup.look);
    let task = &task_row.view.task;
    let at = task.progress.as_ref().map(labels::count);
    let enter = |what| {
        let can = !state.setup.readonly;
        can.then(|| format!("({}{what})", state.key(Action::Open)))
    };
    let with_last = |line: &str, last: Option<String>, role: Role| {
        with_last(theme, usize::from(columns), line, last, role)
    };
    let line = match &task.status {
        _ if task_row.view.is_unsaved => {
            let at = format!(" {}", at.unwrap_or_default());
            Line::from(vec![
                theme.span("NOT SAVED", Role::Failed),
                theme.span(at, Role::Plain),
            ])
        }
        Status::Completed => {
            let line = task.result_summary().unwrap_or("done".into());
            theme.span(line.into_owned(), Role::Plain).into()
        }
        Status::Failed => {
            let message = task.why().unwrap_or_default();
            let line = message.lines().find(|line| !line.trim().is_empty());
            let line = line.unwrap_or("failed without a message");
            with_last(line, at.map(|at| format!("(at {at})")), Role::Plain)
        }
        Status::Lost(reason) => {
            let last = task.progress.as_ref().and_then(Progress::percent);
            let last = last.map(|percent| format!("(at {percent}%)"));
            with_last(labels::lost(reason), last, Role::Plain)
        }
        Status::Unknown(window) => {
            let last = enter(": options");
            with_last(&labels::unknown(window), last, Role::Plain)
        }
        Status::InputRequired => {
            let line = match task.open_question() {
                Some(question) => Elicitation::message_of(&question.request),
                None => "asking a question".to_owned(),
            };
            with_last(&line, enter(" opens"), Role::Plain)
        }
        Status::Cancelled => {
            let line = at.map_or("stopped".to_owned(), |at| format!("stopped at {at}"));
            theme.span(line, Role::Cancelled).into()
        }
        Status::Running | Status::Paused => match waits_for(state, task_row) {
            Some(need) => with_last(&need, at, Role::Needs),
            None => return running(columns, state, task_row, now),
        },
    };
    (line, None)
}

/// A text and a suffix; the text is cut first, but a text that fits only alone is shown without the suffix.
fn with_last(
    theme: Theme,
    columns: usize,
    line: &str,
    last: Option<String>,
    role: Role,
) -> Line<'static> {
    let line = text::clean_line(line);
    let whole = || Line::from(theme.span(line.clone().into_owned(), role));
    let Some(last) = last else {
        return whole();
    };
    let available = columns.saturating_sub(text::width(&last) + 2);
    // If only one of them fits in full, show the text.
    let is_whole = text::width(&line) <= available;
    let would_fit = text::width(&line) <= columns;
    if available < 8 || (!is_whole && would_fit) {
        return whole();
    }
    let cut = text::cut(&line, available, theme.glyphs.more).into_owned();
    Line::from(vec![
        theme.span(cut, role),
        Span::raw("  "),
        theme.span(last, Role::Dim),
    ])
}

/// The progress of an open task: with a total, a bar and a percentage; without one, a wave and the count.
fn running(columns: u16, state: &State, task_row: &TaskRow, now: Stamp) -> ProgressCell {
    let theme = Theme::of(state.setup.look);
    let task = &task_row.view.task;
    let contact = &task_row.view.contact;
    let is_stale = !contact.is_connected() && *contact != Connectivity::Idle;
    let role = if is_stale || task.status == Status::Paused {
        Role::Waiting
    } else {
        Role::Bar
    };
    let Some(progress) = &task.progress else {
        return no_progress(columns, state, task_row, now);
    };
    let count = labels::count(progress);
    let message = progress.message.as_deref().map(text::clean_line);
    let (Some(ratio), Some(percent)) = (progress.ratio(), progress.percent()) else {
        // In a narrow column the wave shrinks to make space for the text, but enough stays to see it move.
        let message_width = message.as_ref().map_or(0, |it| text::width(it) + 1);
        let text_width = text::width(&count) + message_width + 1;
        let text_width = u16::try_from(text_width).unwrap_or(u16::MAX);
        let (width, gap) = if columns >= ROOMY {
            (columns.saturating_sub(16).min(BAR_COLUMNS), 2)
        } else {
            (columns.saturating_sub(text_width).clamp(LEAST_BAR, 10), 1)
        };
        let shape = wave(width, progress.value, state, task_row, now);
        let mut spans = vec![
            Span::raw(" ".repeat(gap)),
            theme.span(count, Role::Plain),
            Span::raw(" "),
        ];
        spans.extend(message.map(|message| theme.span(message.into_owned(), Role::Dim)));
        return beside(width, shape, spans);
    };
    // The same length in every row, so that bars can be compared; a narrow column drops the count.
    let count_wide = u16::try_from(text::width(&count)).unwrap_or(u16::MAX);
    let has_count = columns >= ROOMY;
    let has_rate = columns >= 34;
    let reserved = if has_count {
        let rate = if has_rate { RATE_COLUMNS } else { 0 };
        count_wide.max(9).saturating_add(7 + rate)
    } else {
        PERCENT
    };
    let width = share_columns(columns.saturating_sub(reserved));
    let mut label = format!("{percent:>4}%");
    if has_count {
        label = format!("{label}  {count}");
    }
    if has_rate && let Some(rate) = task_row.pace.rate(now).filter(|_| task_row.is_running()) {
        label = format!("{label}  {}", labels::rate(rate));
    }
    let used = usize::from(width) + text::width(&label);
    let mut spans = vec![theme.span(label, Role::Plain)];
    if let Some(message) = message
        && usize::from(columns).saturating_sub(used) > 10
    {
        spans.extend([Span::raw("  "), theme.span(message.into_owned(), Role::Dim)]);
    }
    beside(width, BarShape::Share { ratio, role }, spans)
}

/// A wave and what is known instead of progress.
fn no_progress(columns: u16, state: &State, task_row: &TaskRow, now: Stamp) -> ProgressCell {
    let theme = Theme::of(state.setup.look);
    let task = &task_row.view.task;
    let status = task.notice.as_deref().or(task.status_message());
    let width = match status {
        _ if columns >= ROOMY => columns.saturating_sub(16).min(BAR_COLUMNS),
        Some(_) => LEAST_BAR,
        None => columns.min(BAR_COLUMNS),
    };
    let shape = wave(width, 0.0, state, task_row, now);
    let status = status.unwrap_or("no progress yet").to_owned();
    let spans = vec![Span::raw("  "), theme.span(status, Role::Dim)];
    beside(width, shape, spans)
}

/// The width of a bar that shows a share; 0 if there is too little room.
fn share_columns(available: u16) -> u16 {
    let width = available.min(BAR_COLUMNS);
    if width < LEAST_BAR { 0 } else { width }
}

/// A bar and the text beside it.
fn beside(width: u16, shape: BarShape, spans: Vec<Span<'static>>) -> ProgressCell {
    let room = Span::raw(" ".repeat(usize::from(width)));
    let spans = std::iter::once(room).chain(spans);
    let bar = (width > 0).then_some(Bar { width, shape });
    (spans.collect(), bar)
}

/// A wave, at a position that follows the clock.
fn wave(width: u16, value: f64, state: &State, task_row: &TaskRow, now: Stamp) -> BarShape {
    if width < LEAST_BAR || !task_row.is_moving() {
        return BarShape::Wave { at: None };
    }
    let step = if state.setup.look.no_motion {
        // With animations off, the position follows the count, so that progress is still visible.
        text::whole_part(value)
    } else {
        now.mono.0 / FRAME_MS
    };
    let at = step % u64::from(width.saturating_sub(2).max(1));
    BarShape::Wave {
        at: u16::try_from(at).ok(),
    }
}

impl Bar {
    /// Draws the bar from column `x` of a row on. It is never shown reversed: its completed part would look empty.
    pub(super) fn draw(&self, list: &mut Region<'_>, x: u16, y: u16) {
        let theme = list.theme;
        let style = |role| theme.style(role).remove_modifier(Modifier::REVERSED);
        let glyphs = theme.glyphs;
        match self.shape {
            BarShape::Share { ratio, role } => {
                let gauge = LineGauge::default()
                    .label("")
                    .ratio(ratio.clamp(0.0, 1.0))
                    .filled_symbol(glyphs.bar)
                    .filled_style(style(role))
                    .unfilled_symbol(glyphs.rest)
                    .unfilled_style(style(Role::BarRest));
                // The widget leaves a column after its label, even without one.
                let mut region = list.region(x.saturating_sub(1), y, self.width + 1, 1);
                region.render(gauge);
            }
            BarShape::Wave { at } => {
                let width = usize::from(self.width);
                let rest = Span::styled(glyphs.rest.repeat(width), style(Role::BarRest));
                list.put(x, y, rest);
                if let Some(at) = at {
                    let wave = Span::styled(glyphs.wave.concat(), style(Role::Bar));
                    list.put(x + at, y, wave);
                }
            }
        }
    }
}
