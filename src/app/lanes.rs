//! The lanes of the timeline pane, its time axis, and its keys.

use core::time::Duration;

use crate::domain::{
    Connectivity, Milestone, Period, SavedRead, Stamp, Status, TaskId, Turn, Wall, periods,
};

use super::{Command, Pane, PaneHeights, State, Tab, TaskRow, timeline::SPANS};

/// Distances between two marks of the axis, in seconds.
const STEPS: [i64; 14] = [
    60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
];

/// The fewest columns between two marks of the axis.
const MARK_COLUMNS: u16 = 10;

const DAY_SECONDS: i64 = 86_400;

/// Milestones are read from the session file at most this often.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Rows of the pane that are no lanes: its title, the axis and the legend.
const OTHER_ROWS: u16 = 3;

/// A lane of the timeline.
#[derive(Clone, Debug)]
pub struct Lane<'s> {
    /// Its task.
    pub task: &'s TaskRow,
    /// What the task was doing.
    pub periods: Vec<Period>,
    /// Whether the cursor is on it.
    pub is_selected: bool,
}

/// The tasks of all lanes, the oldest first: those that existed at some time in the window.
fn lanes(state: &State, now: Wall) -> Vec<&TaskRow> {
    let begin = state.timeline.begin(now);
    let is_in_window = |row: &&TaskRow| (row.view.task.end.settled_at).is_none_or(|at| at >= begin);
    let mut lanes: Vec<&TaskRow> = state.kept_tasks().filter(is_in_window).collect();
    lanes.sort_by_key(|row| (row.view.task.created_at, row.view.task.id.clone()));
    lanes
}

/// The index of the selected lane: the chosen one, else the selected task of the list, else the newest.
fn cursor(state: &State, lanes: &[&TaskRow]) -> usize {
    let index_of = |id: &Option<TaskId>| {
        let id = id.as_ref()?;
        lanes.iter().position(|row| row.view.task.id == *id)
    };
    index_of(&state.timeline.cursor)
        .or_else(|| index_of(&state.list.cursor))
        .unwrap_or(lanes.len().saturating_sub(1))
}

/// The lanes that fit on the screen, and how many are above and below them.
pub fn visible_lanes(state: &State, now: Stamp) -> (Vec<Lane<'_>>, usize, usize) {
    let all = lanes(state, now.wall);
    let rows = PaneHeights::of(state, state.size).list;
    let rows = usize::from(rows.saturating_sub(OTHER_ROWS));
    let cursor = cursor(state, &all);
    let first = (cursor + 1)
        .saturating_sub(rows.max(1))
        .max(cursor.saturating_sub(rows / 2))
        .min(all.len().saturating_sub(rows));
    let count = all.len();
    let visible = all.into_iter().enumerate().skip(first).take(rows);
    let lanes: Vec<Lane<'_>> = visible
        .map(|(index, task)| Lane {
            is_selected: index == cursor,
            ..lane_of(state, task, now)
        })
        .collect();
    let below = count.saturating_sub(first + lanes.len());
    (lanes, first, below)
}

/// The lane of a task; without a cursor.
pub fn lane_of<'s>(state: &'s State, task: &'s TaskRow, now: Stamp) -> Lane<'s> {
    // The session file has this only once a process watches the task again.
    let unwatched = match task.view.contact {
        Connectivity::Unwatched { as_of } => Some((as_of, Turn::Unwatched)),
        _ => None,
    };
    let milestones = milestones_of(state, task).iter().copied().chain(unwatched);
    let end = match task.view.task.status {
        // That it became unknown is the last that is known.
        Status::Unknown(_) => milestones_of(state, task).last().map(|(at, _)| *at),
        _ => task.view.task.end.settled_at,
    };
    let end = end.unwrap_or(now.wall);
    Lane {
        task,
        periods: periods(task.view.task.created_at, end, milestones),
        is_selected: false,
    }
}

/// Whether anything is known of a task's life.
pub fn has_life(state: &State, task: &TaskRow) -> bool {
    !milestones_of(state, task).is_empty()
}

fn milestones_of<'s>(state: &'s State, task: &TaskRow) -> &'s [Milestone] {
    let life = state.timeline.lives.get(&task.view.task.id);
    life.map_or(&[], |life| &life.milestones)
}

/// The marks of the time axis over `columns` columns: each column with the label of its time.
pub fn axis(state: &State, now: Stamp, columns: u16) -> Vec<(u16, String)> {
    let (begin, end) = (state.timeline.begin(now.wall), now.wall);
    let seconds = i64::try_from(end.since(begin).as_secs()).unwrap_or(i64::MAX);
    let most = i64::from((columns / MARK_COLUMNS).max(1));
    let fits = |step: &i64| seconds / step <= most;
    let [.., longest] = STEPS;
    let step = STEPS.iter().copied().find(fits).unwrap_or(longest);
    // Counted in local time, so that marks are at whole hours and midnights.
    let local = |at: Wall| at.0.div_euclid(1_000).saturating_add(state.utc_offset(at));
    let mut marks = Vec::new();
    let mut last = local(begin).div_euclid(step);
    for column in 1..columns {
        let at = time_at(begin, end, column, columns);
        let number = local(at).div_euclid(step);
        if number != last {
            last = number;
            let time = Wall((number * step - state.utc_offset(at)).saturating_mul(1_000));
            let is_day = step >= DAY_SECONDS || (number * step).rem_euclid(DAY_SECONDS) == 0;
            let label = if is_day {
                state.clock_date(time)
            } else {
                state.clock_minutes(time)
            };
            marks.push((column, label));
        }
    }
    marks
}

/// The time at the left edge of a column.
pub fn time_at(begin: Wall, end: Wall, column: u16, columns: u16) -> Wall {
    let whole = end.since(begin).as_millis();
    let part = whole * u128::from(column) / u128::from(columns.max(1));
    let part = u64::try_from(part).unwrap_or(u64::MAX);
    begin.after(Duration::from_millis(part))
}

/// Moves the cursor.
pub(super) fn step(state: &mut State, by: isize) {
    let all = lanes(state, state.now().wall);
    let index = cursor(state, &all)
        .saturating_add_signed(by)
        .min(all.len().saturating_sub(1));
    state.timeline.cursor = all.get(index).map(|row| row.view.task.id.clone());
}

/// The task under the cursor.
pub(super) fn selected(state: &State) -> Option<TaskId> {
    let all = lanes(state, state.now().wall);
    all.get(cursor(state, &all))
        .map(|row| row.view.task.id.clone())
}

/// Opens the pane: its lanes are read at once. At the first look, chooses the shortest span that shows every unfinished
/// task from its begin.
pub(super) fn open(state: &mut State) {
    state.timeline.asked_at = None;
    if std::mem::replace(&mut state.timeline.is_zoomed, true) {
        return;
    }
    let created = state.open_tasks().map(|row| row.view.task.created_at);
    if let Some(oldest) = created.min() {
        let minutes = state.now().wall.since(oldest).as_secs() / 60;
        let fits = |(span, _): &(u64, &str)| *span >= minutes;
        state.timeline.zoom = SPANS.iter().position(fits).unwrap_or(SPANS.len() - 1);
    }
}

/// Shows more or less time.
pub(super) fn zoom(state: &mut State, zooms_in: bool) {
    let timeline = &mut state.timeline;
    let zoom = timeline
        .zoom
        .saturating_add_signed(if zooms_in { -1 } else { 1 });
    if zooms_in && timeline.zoom == 0 || zoom >= SPANS.len() {
        let way = if zooms_in { "in" } else { "out" };
        state.reply(format!("the timeline can't zoom {way} further"));
    } else {
        timeline.zoom = zoom;
    }
}

/// Requests the milestones of visible tasks that are only in the session file: at most once a second, except for the
/// first ones of the selected task.
pub(super) fn request_milestones(state: &mut State) {
    let now = state.now();
    let next_read = state.timeline.asked_at.map(|at| at.after(READ_INTERVAL));
    let may_read_again = next_read.is_none_or(|at| at <= now.mono);
    let visible: Vec<&TaskRow> = match state.pane {
        Pane::Timeline if may_read_again => {
            let (lanes, ..) = visible_lanes(state, now);
            lanes.iter().map(|lane| lane.task).collect()
        }
        Pane::Tasks if state.detail.tab == Tab::Now => state.selected().into_iter().collect(),
        _ => return,
    };
    let is_behind = |row: &&TaskRow| {
        let (view, lives) = (&row.view, &state.timeline.lives);
        let read_to = lives.get(&view.task.id).map_or(0, |life| life.read_to);
        let is_due = read_to == 0 || may_read_again;
        (is_due && view.saved_seq > read_to)
            .then(|| (view.task.id.clone(), read_to, view.saved_seq))
    };
    let behind: Vec<_> = visible.iter().filter_map(is_behind).collect();
    if behind.is_empty() {
        return;
    }
    let mut wanted = Vec::new();
    for (id, read_to, saved) in behind {
        state.timeline.lives.entry(id.clone()).or_default().read_to = saved;
        wanted.push((id, read_to));
    }
    state.timeline.asked_at = Some(now.mono);
    state.command(Command::Read(SavedRead::Milestones(wanted)));
}
