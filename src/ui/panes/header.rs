//! The header line (session, servers, counts, clock) and the warning banner below it.

use ratatui::text::{Line, Span};

use super::super::labels;
use crate::{
    app::{Action, State, ages, until_phrase},
    domain::{LinkState, ServerView, Stamp, Task, text},
    ui::{Region, Role, Theme},
};

/// The maximum width of the filter text in the header.
const FILTER_COLUMNS: usize = 24;

/// The width of a clock such as `Fri 06:52`.
const CLOCK_COLUMNS: u16 = 9;

/// Draws the header line.
pub(in crate::ui) fn header(region: &mut Region<'_>, state: &State, now: Stamp) {
    let columns = region.columns();
    let theme = region.theme;
    let flags = flags(state, theme.glyphs.more);
    let end = clock_and_counts(region, state, now);
    let mut line = Line::from(" ");
    if columns >= 70 {
        line.push_span(theme.span("longhaul ", Role::Strong));
    }
    line.push_span(theme.span(state.setup.session.as_str(), Role::Dim));
    if columns >= 100 {
        line.extend(keeper(theme, state, columns >= 140));
    }
    for word in flags {
        line.extend([Span::raw(" "), theme.span(format!(" {word} "), Role::Found)]);
    }
    if let Some(offline) = state.offline()
        && let LinkState::Down { since, why, .. } = &offline.state
    {
        let age = text::span(now.wall.since(*since));
        let offline = format!("   {} OFFLINE {age}: {why}", theme.glyphs.offline);
        line.push_span(theme.span(offline, Role::Warning));
    } else {
        servers(theme, &mut line, usize::from(end), state, now);
    }
    region.region(0, 0, end, 1).put(0, 0, line);
}

/// What restricts the list or the keys.
fn flags(state: &State, more: &str) -> Vec<String> {
    let all = [
        ("FROZEN", state.frozen.is_some()),
        ("READ ONLY", state.setup.readonly),
        ("FILTER needs you", state.list.needs_only),
    ];
    let on = all.into_iter().filter(|(_, is_on)| *is_on);
    let mut flags: Vec<String> = on.map(|(word, _)| word.to_owned()).collect();
    // Always shown: users must see that the list is filtered.
    if !state.list.filter.is_empty() {
        let typed = text::clean_line(state.list.filter.text().trim()).into_owned();
        let shown = text::cut(&typed, FILTER_COLUMNS, more);
        flags.push(format!("FILTER {shown}"));
    }
    flags
}

/// Draws the right end of the line; returns where it begins.
fn clock_and_counts(region: &mut Region<'_>, state: &State, now: Stamp) -> u16 {
    let columns = region.columns();
    let theme = region.theme;
    let mut end = columns.saturating_sub(1);
    if columns >= 56 {
        // An idle screen is not redrawn, so a clock on it would show the wrong time.
        if ages(state) {
            let clock = theme.span(state.clock_day(now.wall), Role::Plain);
            region.put_right(end, 0, clock);
        }
        end = end.saturating_sub(CLOCK_COLUMNS + 4);
    }
    let mut line = Line::default();
    for (label, role) in counts(state, columns) {
        if !line.spans.is_empty() {
            line.push_span("  ");
        }
        line.push_span(theme.span(label, role));
    }
    let start = end.saturating_sub(u16::try_from(line.width()).unwrap_or(u16::MAX));
    if start > 20 {
        region.put_right(end, 0, line);
        end = start.saturating_sub(2);
    }
    end
}

/// Which keeper drives the session.
fn keeper(theme: Theme, state: &State, is_wide: bool) -> Option<Span<'static>> {
    let driver = state.session.driver.filter(|driver| driver.is_keeper);
    let driver = driver.filter(|_| !state.session.is_driverless)?;
    let mut line = format!("  keeper pid {}", driver.pid);
    if is_wide {
        line = format!("{line} since {}", state.clock_minutes(driver.since));
    }
    if let Some(host) = &state.setup.host {
        line = format!("{line} on {host}");
    }
    Some(theme.span(line, Role::Dim))
}

/// Adds the servers to the line. If not all fit, those that need attention come first.
fn servers<'t>(theme: Theme, line: &mut Line<'t>, columns: usize, state: &'t State, now: Stamp) {
    let total = state.servers.len();
    let spans = |server: &'t ServerView| {
        let (rank, shown) = labels::server(state, server, theme.glyphs, now);
        let spans = Line::from(vec![
            Span::raw("   "),
            theme.span(shown.glyph, shown.role),
            theme.span(format!(" {} ", server.name), Role::Plain),
            theme.span(shown.text, Role::Dim),
        ]);
        (rank, spans)
    };
    let mut servers: Vec<(u8, Line<'t>)> = state.servers.iter().map(spans).collect();
    let all: usize = servers.iter().map(|(_, spans)| spans.width()).sum();
    if line.width() + all > columns {
        servers.sort_by_key(|(rank, _)| *rank);
    }
    for ((_, spans), left) in servers.into_iter().zip((1..=total).rev()) {
        // Room for the number of those that don't fit.
        let others = theme.span(format!("  +{left}"), Role::Dim);
        let reserved = if left > 1 { others.width() } else { 0 };
        if line.width() + spans.width() + reserved > columns {
            line.push_span(others);
            break;
        }
        line.extend(spans);
    }
}

fn counts(state: &State, columns: u16) -> Vec<(String, Role)> {
    let all = state.totals.counts;
    let counted = |count, label: &str| format!("{} {label}", text::grouped(count));
    let mut counts = Vec::new();
    if all.needs > 0 {
        counts.push((counted(all.needs, text::needs_you(all.needs)), Role::Needs));
    }
    // On a narrow screen, servers get the space of counts that need no action.
    if columns < 70 {
        return counts;
    }
    counts.push((counted(all.running, "running"), Role::Plain));
    if columns < 100 {
        return counts;
    }
    for (count, label) in [(all.queued, Task::QUEUED), (all.paused, "paused")] {
        if count > 0 {
            counts.push((counted(count, label), Role::Plain));
        }
    }
    counts.push((counted(all.finished, "finished"), Role::Plain));
    counts
}

/// Draws the banner: unreachable servers, stale data, and what happened while the user was away.
pub(in crate::ui) fn banner(region: &mut Region<'_>, state: &State, now: Stamp) {
    let theme = region.theme;
    let mut y = 0;
    if state.has_status_line() {
        region.put(1, y, theme.span(status_line(state, now), Role::Warning));
        y += 1;
    }
    if let Some(line) = crate::app::away_line(state) {
        let end = region.columns().saturating_sub(1);
        let end = region.put_right(end, y, theme.span("Esc closes", Role::Key));
        let available = end.saturating_sub(2);
        let mut left = region.region(1, y, available, 1);
        left.put(0, 0, theme.span(line, Role::Warning));
    }
}

fn status_line(state: &State, now: Stamp) -> String {
    let saved_at = state.session.saved_at;
    let saved = saved_at.map(|at| format!("Saved at {}.", state.clock_seconds(at)));
    let mut parts: Vec<String> = Vec::new();
    if state.is_stale() {
        parts.extend(saved);
        parts.push("The server state is unknown.".to_owned());
    }
    match state.offline().map(|server| &server.state) {
        Some(LinkState::Down { next, .. }) => {
            let key = state.key(Action::Resume);
            let retry = until_phrase(*next, now);
            parts.push(format!("Next retry {retry} ({key} to retry now)"));
        }
        _ if let Some(connecting) = state.connecting_to_host() => parts.push(connecting),
        _ if state.session.is_driverless && state.setup.readonly => {
            parts.push("No process is running the calls; this screen is read-only.".to_owned());
        }
        _ if state.session.is_driverless
            && state.session.driver.is_some_and(|driver| driver.is_keeper) =>
        {
            parts.push("No keeper answers; longhaul starts one when needed.".to_owned());
        }
        _ if state.session.is_driverless => {
            parts.push("No process is running the calls; taking over.".to_owned());
        }
        _ if state.is_stale() => parts.push("Querying the servers.".to_owned()),
        _ => {}
    }
    parts.join(" ")
}
