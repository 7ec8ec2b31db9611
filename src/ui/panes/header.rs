//! The header line (session, servers, counts, clock) and the warning banner below it.

use crate::{
    app::{Action, Counts, State, ages, until},
    domain::{LinkState, Stamp, text},
};

use super::super::{canvas::Canvas, labels, theme::Role};

/// The maximum width of the filter text in the header.
const FILTER_COLUMNS: usize = 24;

/// The width of a clock such as `Fri 06:52`.
const CLOCK_COLUMNS: u16 = 9;

/// Draws the header line.
pub(in crate::ui) fn header(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let columns = canvas.columns();
    let flags = flags(state, canvas.glyphs().more);
    let is_well = |server: &crate::domain::ServerView| labels::rank(state, server, now) > 2;
    // On a narrow screen, flags and problems take the space of the program name and of counts that need no action.
    let is_all_well = state.servers.iter().all(is_well);
    let is_tight = columns < 70 && (!flags.is_empty() || !is_all_well)
        || columns < 100 && !state.list.filter.is_empty() && !is_all_well;
    let end = clock_and_counts(canvas, state, now, is_tight);
    let mut left = canvas.region(0, 0, end, 1);
    let mut x = 0;
    if !is_tight {
        x = left.put(1, 0, "longhaul", Role::Strong);
    }
    x = left.put(x + 1, 0, &text::clean_line(&state.setup.session), Role::Dim);
    if columns >= 100 {
        x = keeper(&mut left, x, state, columns >= 140);
    }
    for word in flags {
        x = left.put(x + 1, 0, &format!(" {word} "), Role::Found);
    }
    if let Some(offline) = state.offline()
        && let LinkState::Down { since, why, .. } = &offline.state
    {
        let age = text::span(now.wall.since(*since));
        x = left.put(x + 3, 0, left.glyphs().offline, Role::Cut);
        let line = format!("OFFLINE {age}: {}", text::clean_line(why));
        left.put(x + 1, 0, &line, Role::Cut);
        return;
    }
    servers(&mut left, x, state, now);
}

/// What restricts the list or the keys.
fn flags(state: &State, more: &str) -> Vec<String> {
    let all = [
        ("FROZEN", state.frozen.is_some()),
        ("READ ONLY", state.setup.readonly),
        ("NEEDS YOU ONLY", state.list.needs_only),
    ];
    let on = all.into_iter().filter(|(_, is_on)| *is_on);
    let mut flags: Vec<String> = on.map(|(word, _)| word.to_owned()).collect();
    // Always shown: users must see that the list is filtered.
    if !state.list.filter.is_empty() {
        let typed = text::clean_line(state.list.filter.text().trim()).into_owned();
        flags.push(format!(
            "FILTER {}",
            text::cut(&typed, FILTER_COLUMNS, more)
        ));
    }
    flags
}

/// Draws the right end of the line; returns where it begins.
fn clock_and_counts(canvas: &mut Canvas<'_>, state: &State, now: Stamp, is_tight: bool) -> u16 {
    let columns = canvas.columns();
    let mut end = columns.saturating_sub(1);
    if columns >= 56 {
        let clock = state.clock_day(now.wall);
        // An idle screen is not redrawn, so a clock on it would show the wrong time.
        let clock = if ages(state) { &clock } else { "" };
        canvas.put_right_aligned(end, 0, clock, Role::Plain);
        end = end.saturating_sub(CLOCK_COLUMNS);
        end = end.saturating_sub(if is_tight { 2 } else { 4 });
    }
    let counts = counts(state, columns, is_tight);
    let count_texts: Vec<&str> = counts.iter().map(|(text, _)| text.as_str()).collect();
    let width = u16::try_from(text::width(&count_texts.join("  "))).unwrap_or(u16::MAX);
    let start = end.saturating_sub(width);
    if start > 20 {
        let mut x = start;
        for (label, role) in &counts {
            x = canvas.put(x, 0, label, *role) + 2;
        }
        end = start.saturating_sub(2);
    }
    end
}

/// Draws which keeper drives the session; returns where that ends.
fn keeper(left: &mut Canvas<'_>, mut x: u16, state: &State, is_wide: bool) -> u16 {
    let driver = state.session.driver.filter(|driver| driver.is_keeper);
    let Some(driver) = driver.filter(|_| !state.session.is_driverless) else {
        return x;
    };
    let mut line = format!("keeper {}", driver.pid);
    if is_wide {
        line = format!("{line} since {}", state.clock_minutes(driver.since));
    }
    x = left.put(x + 2, 0, &line, Role::Dim);
    if let Some(host) = &state.setup.host {
        let host = format!("on {}", text::clean_line(host));
        x = left.put(x + 1, 0, &host, Role::Dim);
    }
    x
}

/// Draws the servers. If not all fit, those that need attention come first.
fn servers(left: &mut Canvas<'_>, mut x: u16, state: &State, now: Stamp) {
    let glyphs = left.glyphs();
    let total = state.servers.len();
    let shown = |server: &crate::domain::ServerView| {
        let shown = labels::server(state, server, glyphs, now);
        let name = text::clean_line(server.name.as_str()).into_owned();
        let width = text::width(&name) + text::width(&shown.text) + 6;
        let rank = labels::rank(state, server, now);
        (rank, name, shown, u16::try_from(width).unwrap_or(u16::MAX))
    };
    let mut servers: Vec<(u8, String, labels::StateLabel, u16)> =
        state.servers.iter().map(shown).collect();
    let all = servers.iter().fold(x, |x, it| x.saturating_add(it.3));
    if all > left.columns() {
        servers.sort_by_key(|it| it.0);
    }
    for (index, (_, name, shown, width)) in servers.into_iter().enumerate() {
        if x.saturating_add(width) > left.columns() {
            left.put(x + 2, 0, &format!("+{}", total - index), Role::Dim);
            break;
        }
        x = left.put(x + 3, 0, shown.glyph, shown.role);
        x = left.put(x + 1, 0, &name, Role::Plain);
        x = left.put(x + 1, 0, &shown.text, Role::Dim);
    }
}

fn counts(state: &State, columns: u16, is_tight: bool) -> Vec<(String, Role)> {
    let Counts {
        needs,
        running,
        paused,
        done,
        ..
    } = state.totals.counts;
    let mut counts = Vec::new();
    if needs > 0 {
        let need = if needs == 1 { "needs" } else { "need" };
        counts.push((format!("{} {need} you", text::grouped(needs)), Role::Needs));
    }
    // On a narrow screen, servers get the space of counts that need no action.
    let is_narrow = columns < 100;
    if is_tight || is_narrow && state.offline().is_some() {
        return counts;
    }
    counts.push((format!("{} running", text::grouped(running)), Role::Plain));
    if is_narrow {
        return counts;
    }
    if paused > 0 {
        counts.push((format!("{} paused", text::grouped(paused)), Role::Plain));
    }
    counts.push((format!("{} done", text::grouped(done)), Role::Plain));
    counts
}

/// Draws the banner: unreachable servers, stale data, and what happened while the user was away.
pub(in crate::ui) fn banner(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let mut y = 0;
    if state.has_status_line() {
        let mut line = status_line(state, now, false);
        if text::width(&line) + 1 > usize::from(canvas.columns()) {
            line = status_line(state, now, true);
        }
        canvas.put(1, y, &line, Role::Cut);
        y += 1;
    }
    if let Some(lines) = crate::app::away_lines(state) {
        let end = canvas.put_right_aligned(canvas.columns().saturating_sub(1), y, "Esc", Role::Key);
        let available = end.saturating_sub(2);
        let fits = |line: &String| text::width(line) <= usize::from(available);
        let line = lines.iter().find(|line| fits(line)).or(lines.last());
        canvas.put_clipped(1, y, available, line.map_or("", String::as_str), Role::Cut);
    }
}

fn status_line(state: &State, now: Stamp, is_short: bool) -> String {
    let saved = state
        .session
        .saved_at
        .map(|at| format!("Saved as of {}.", state.clock_seconds(at)));
    let mut parts: Vec<String> = Vec::new();
    if state.is_stale() {
        parts.extend(saved);
        let unknown = if is_short {
            "Now: unknown."
        } else {
            "Current server state is unknown."
        };
        parts.push(unknown.to_owned());
    }
    match state.offline().map(|server| &server.state) {
        Some(LinkState::Down { next, .. }) => {
            let key = state.key(Action::Resume);
            parts.push(format!("Next try {} ({key} now)", until(*next, now)));
        }
        _ if state.session.is_driverless && state.setup.host.is_some() => {
            let host = state.setup.host.as_deref().unwrap_or_default();
            let host = text::clean_line(host);
            let is_first = state.session.driver.is_none();
            let again = if is_first {
                "Connecting"
            } else {
                "Reconnecting"
            };
            parts.push(format!("{again} to {host}."));
        }
        _ if state.session.is_driverless && state.setup.readonly => {
            parts.push("No driver; this window is read-only.".to_owned());
        }
        _ if state.session.is_driverless
            && state.session.driver.is_some_and(|driver| driver.is_keeper) =>
        {
            parts.push("The keeper has stopped; your next action starts it.".to_owned());
        }
        _ if state.session.is_driverless => parts.push("No driver; taking over.".to_owned()),
        _ if state.is_stale() => parts.push("Querying the servers.".to_owned()),
        _ => {}
    }
    parts.join(" ")
}
