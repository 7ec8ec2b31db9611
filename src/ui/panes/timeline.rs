//! The timeline pane: one lane per task over the last hours.

use ratatui::text::{Line, Span};

use super::super::{
    labels::{self, StateLabel},
    spans::pad_to,
};
use crate::{
    app::{Lane, State, axis, time_at, visible_lanes},
    domain::{Activity, Period, Stamp, Wall},
    ui::{Region, Role, Theme},
};

/// The column of a lane's title, after cursor, state and id.
const TITLE: u16 = 12;

/// The fewest columns for the lanes themselves.
const LEAST_BAR: u16 = 20;

/// Draws a title with the time shown, the axis, the lanes and a legend.
pub(in crate::ui) fn timeline(region: &mut Region<'_>, state: &State, now: Stamp) {
    let theme = region.theme;
    let (begin, end) = (state.timeline.begin(now.wall), now.wall);
    let (span, from) = (state.timeline.span().1, state.clock_day(begin));
    let (lanes, above, below) = visible_lanes(state, now);
    let mut shown = format!("  {span}: {from} to now");
    if above + below > 0 {
        shown = format!("{shown}  {above} above, {below} below");
    }
    let title = theme.span("Timeline", Role::Heading);
    region.put(1, 0, vec![title, theme.span(shown, Role::Dim)]);
    let columns = region.columns();
    let titles = (columns / 4).clamp(8, 30);
    let bar_at = TITLE + titles + 1;
    let wide = columns.saturating_sub(bar_at + 1);
    if wide < LEAST_BAR {
        let note = theme.span("Too narrow for the timeline.", Role::Dim);
        region.put(1, 2, note);
        return;
    }
    let mut times = Line::default();
    for (column, label) in axis(state, now, wide) {
        if times.width() < usize::from(column) || times.spans.is_empty() {
            pad_to(&mut times, usize::from(column));
            let label = format!("{}{label}", theme.glyphs.frame.vertical_left);
            times.push_span(theme.span(label, Role::Dim));
        }
    }
    region.put(bar_at, 1, times);
    if lanes.is_empty() {
        let note = theme.span("No tasks ran in this period.", Role::Plain);
        region.put(1, 3, note);
    }
    for (lane, y) in lanes.iter().zip(2..) {
        let shown = labels::state_of(state, lane.task, theme.glyphs, now);
        put_label(&mut region.region(0, y, bar_at - 1, 1), state, lane, &shown);
        let bar = bar(theme, lane, &shown, wide, (begin, end));
        region.put(bar_at, y, bar);
        if lane.is_selected {
            let cursor = theme.span(theme.glyphs.cursor, Role::Focus);
            region.put(0, y, cursor);
            region.set_style(1, y, columns, theme.style(Role::Selected));
            region.keep_visible(y..y + 1);
        }
    }
    region.put(0, region.rows().saturating_sub(1), legend(theme));
}

/// What the signs of a lane mean.
pub(super) fn legend(theme: Theme) -> Line<'static> {
    let mut legend = Line::from(" ");
    for activity in [
        Activity::Running,
        Activity::Paused,
        Activity::Asking,
        Activity::Disconnected,
        Activity::Unwatched,
        Activity::Queued,
    ] {
        let label = format!(" {}  ", activity.label());
        legend.extend([sign(theme, activity), theme.span(label, Role::Dim)]);
    }
    legend
}

/// Draws the state, id and title of a lane.
fn put_label(region: &mut Region<'_>, state: &State, lane: &Lane<'_>, shown: &StateLabel) {
    let theme = region.theme;
    let title = state.whole_label(lane.task);
    let id = lane.task.view.task.id.as_str();
    region.put(2, 0, theme.span(shown.glyph, shown.role));
    region.put(4, 0, theme.span(id, Role::Dim));
    region.put(TITLE, 0, theme.span(title, Role::Plain));
}

/// The lane itself; how the task ended stands where it ended.
pub(super) fn bar<'t>(
    theme: Theme,
    lane: &Lane<'_>,
    shown: &StateLabel,
    columns: u16,
    (begin, end): (Wall, Wall),
) -> Line<'t> {
    let settled_at = lane.task.view.task.end.settled_at;
    let ended = settled_at
        .filter(|at| (begin..=end).contains(at))
        .map(|at| {
            let whole = end.since(begin).as_millis().max(1);
            let column = at.since(begin).as_millis() * u128::from(columns) / whole;
            u16::try_from(column).unwrap_or(columns).min(columns - 1)
        });
    let column = |column: u16| {
        if ended == Some(column) {
            return theme.span(shown.glyph, shown.role);
        }
        let from = time_at(begin, end, column, columns);
        let to = time_at(begin, end, column + 1, columns);
        let activity = most_notable(&lane.periods, from, to);
        activity.map_or(Span::raw(" "), |activity| sign(theme, activity))
    };
    (0..columns).map(column).collect()
}

/// What to show of a time: a short cut or question must stay visible beside a long run.
fn most_notable(periods: &[Period], from: Wall, to: Wall) -> Option<Activity> {
    let overlaps = |period: &&Period| period.from < to && period.to >= from;
    let during = periods.iter().filter(overlaps);
    during.map(|period| period.activity).max()
}

fn sign(theme: Theme, activity: Activity) -> Span<'static> {
    let glyphs = theme.glyphs;
    let (sign, role) = match activity {
        Activity::Running => (glyphs.trail[0], Role::Running),
        Activity::Disconnected => (glyphs.trail[1], Role::Warning),
        Activity::Unwatched => (glyphs.trail[2], Role::Dim),
        Activity::Paused => (glyphs.paused, Role::Waiting),
        Activity::Asking => (glyphs.asks, Role::Needs),
        Activity::Queued => (glyphs.restored, Role::Dim),
    };
    theme.span(sign, role)
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
            period(Activity::Disconnected, 5_000, 5_010),
            period(Activity::Running, 5_010, 90_000),
        ];
        let shown = |from, to| most_notable(&periods, Wall(from), Wall(to));
        assert_eq!(shown(0, 4_000), Some(Activity::Running));
        assert_eq!(shown(4_000, 60_000), Some(Activity::Disconnected));
        assert_eq!(shown(60_000, 80_000), Some(Activity::Running));
        assert_eq!(shown(90_001, 99_000), None);
    }
}
