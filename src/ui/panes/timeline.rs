//! The timeline pane: one lane per task over the last hours.

use super::super::{
    canvas::Canvas,
    labels::{self, StateLabel},
    theme::Role,
};
use crate::{
    app::{Lane, State, axis, time_at, visible_lanes},
    domain::{Activity, Period, Stamp, Wall},
};

/// The column of a lane's title, after cursor, state and id.
const TITLE: u16 = 12;

/// The fewest columns for the lanes themselves.
const LEAST_BAR: u16 = 20;

/// Draws a title with the time shown, the axis, the lanes and a legend.
pub(in crate::ui) fn timeline(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let x = canvas.put(1, 0, "Timeline", Role::Heading);
    let (begin, end) = state.timeline.window(now.wall);
    let until = if state.timeline.follows_now() {
        "now".to_owned()
    } else {
        state.clock_day(end)
    };
    let shown = format!(
        "{}: {} to {until}",
        state.timeline.span().1,
        state.clock_day(begin)
    );
    let x = canvas.put(x + 2, 0, &shown, Role::Dim);
    let (lanes, above, below) = visible_lanes(state, now);
    if above + below > 0 {
        let hidden = format!("{above} above, {below} below");
        canvas.put(x + 2, 0, &hidden, Role::Dim);
    }
    let columns = canvas.columns();
    let titles = (columns / 4).clamp(8, 30);
    let bar_at = TITLE + titles + 1;
    let wide = columns.saturating_sub(bar_at + 1);
    if wide < LEAST_BAR {
        canvas.put(1, 2, "Too narrow for the timeline.", Role::Dim);
        return;
    }
    let mut free_from = 0;
    for (column, label) in axis(state, now, wide) {
        let label = format!("{}{label}", canvas.glyphs().frame[0]);
        if column >= free_from {
            let end = canvas.put(bar_at + column, 1, &label, Role::Dim);
            free_from = end.saturating_sub(bar_at) + 1;
        }
    }
    if lanes.is_empty() {
        canvas.put(1, 3, "No task ran in this time.", Role::Plain);
    }
    for (lane, y) in lanes.iter().zip(2..) {
        let shown = labels::state_of(state, lane.task, canvas.glyphs(), now);
        label(canvas, state, lane, &shown, (y, titles));
        bar(canvas, lane, &shown, (bar_at, y, wide), (begin, end));
        if lane.is_selected {
            canvas.put(0, y, canvas.glyphs().cursor, Role::Focus);
            canvas.apply_style(1, y, columns, Role::Selected);
            canvas.keep_visible(y..y + 1);
        }
    }
    let y = canvas.rows().saturating_sub(1);
    let mut x = 1;
    for activity in [
        Activity::Running,
        Activity::Paused,
        Activity::Asking,
        Activity::Cut,
        Activity::Unwatched,
        Activity::Waiting,
    ] {
        let (sign, role) = sign(canvas, activity);
        let end = canvas.put(x, y, sign, role);
        x = canvas.put(end + 1, y, activity.label(), Role::Dim) + 2;
    }
}

/// State, id and title of a lane.
fn label(
    canvas: &mut Canvas<'_>,
    state: &State,
    lane: &Lane<'_>,
    shown: &StateLabel,
    (y, columns): (u16, u16),
) {
    canvas.put(2, y, shown.glyph, shown.role);
    canvas.put(4, y, lane.task.view.task.id.as_str(), Role::Dim);
    let title = match state.label(lane.task) {
        (title, Some((key, value))) => format!("{title} {key}={value}"),
        (title, None) => title,
    };
    canvas.put_clipped(TITLE, y, columns, &title, Role::Plain);
}

/// The lane itself; how the task ended stands where it ended.
fn bar(
    canvas: &mut Canvas<'_>,
    lane: &Lane<'_>,
    shown: &StateLabel,
    (x, y, columns): (u16, u16, u16),
    (begin, end): (Wall, Wall),
) {
    for column in 0..columns {
        let from = time_at(begin, end, column, columns);
        let to = time_at(begin, end, column + 1, columns);
        if let Some(activity) = most_notable(&lane.periods, from, to) {
            let (sign, role) = sign(canvas, activity);
            canvas.put(x + column, y, sign, role);
        }
    }
    let task = &lane.task.view.task;
    if let Some(at) = task.settled_at.filter(|at| (begin..=end).contains(at)) {
        let whole = end.since(begin).as_millis().max(1);
        let column = at.since(begin).as_millis() * u128::from(columns) / whole;
        let column = u16::try_from(column).unwrap_or(columns).min(columns - 1);
        canvas.put(x + column, y, shown.glyph, shown.role);
    }
}

/// What to show of a time: a short cut or question must stay visible beside a long run.
fn most_notable(periods: &[Period], from: Wall, to: Wall) -> Option<Activity> {
    let weight = |activity: &Activity| match activity {
        Activity::Waiting => 0,
        Activity::Running => 1,
        Activity::Unwatched => 2,
        Activity::Paused => 3,
        Activity::Cut => 4,
        Activity::Asking => 5,
    };
    let overlaps = |period: &&Period| period.from < to && period.to >= from;
    let during = periods.iter().filter(overlaps);
    during.map(|period| period.activity).max_by_key(weight)
}

fn sign(canvas: &Canvas<'_>, activity: Activity) -> (&'static str, Role) {
    let glyphs = canvas.glyphs();
    match activity {
        Activity::Running => (glyphs.trail[0], Role::Running),
        Activity::Cut => (glyphs.trail[1], Role::Cut),
        Activity::Unwatched => (glyphs.trail[3], Role::Dim),
        Activity::Paused => (glyphs.paused, Role::Waiting),
        Activity::Asking => (glyphs.asks, Role::Needs),
        Activity::Waiting => (glyphs.restored, Role::Dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_cut_stays_visible() {
        let period = |activity, from, to| Period {
            activity,
            from: Wall(from),
            to: Wall(to),
        };
        let periods = [
            period(Activity::Running, 0, 5_000),
            period(Activity::Cut, 5_000, 5_010),
            period(Activity::Running, 5_010, 90_000),
        ];
        let shown = |from, to| most_notable(&periods, Wall(from), Wall(to));
        assert_eq!(shown(0, 4_000), Some(Activity::Running));
        assert_eq!(shown(4_000, 60_000), Some(Activity::Cut));
        assert_eq!(shown(60_000, 80_000), Some(Activity::Running));
        assert_eq!(shown(90_001, 99_000), None);
    }
}
