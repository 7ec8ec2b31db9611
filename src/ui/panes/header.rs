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
    let mut flags: Vec<String> = [
        ("FROZEN", state.frozen.is_some()),
        ("READ ONLY", state.setup.readonly),
        ("NEEDS YOU ONLY", state.list.needs_only),
    ]
    .into_iter()
    .filter(|(_, is_on)| *is_on)
    .map(|(word, _)| word.to_owned())
    .collect();
    // Always shown: users must see that the list is filtered.
    if !state.list.filter.is_empty() {
        let typed = text::clean_line(state.list.filter.text().trim()).into_owned();
        let typed = text::cut(&typed, FILTER_COLUMNS, canvas.glyphs().more).into_owned();
        flags.push(format!("FILTER {typed}"));
    }
    let is_well = |server: &crate::domain::ServerView| labels::rank(state, server, now) > 2;
    // On a narrow screen, flags and problems take the space of the program name and of counts that need no action.
    let is_all_well = state.servers.iter().all(is_well);
    let is_tight = columns < 70 && (!flags.is_empty() || !is_all_well)
        || columns < 100 && !state.list.filter.is_empty() && !is_all_well;
    let counts = counts(state, columns, is_tight);
    let mut end = columns.saturating_sub(1);
    if columns >= 56 {
        let clock = state.clock_day(now.wall);
        // An idle screen is not redrawn, so a clock on it would show the wrong time.
        let clock = if ages(state) { &clock } else { "" };
        canvas.put_right_aligned(end, 0, clock, Role::Plain);
        end = end.saturating_sub(CLOCK_COLUMNS);
        end = end.saturating_sub(if is_tight { 2 } else { 4 });
    }
    let count_texts: Vec<String> = counts.iter().map(|(text, _)| text.clone()).collect();
    let width = u16::try_from(text::width(&count_texts.join("  "))).unwrap_or(u16::MAX);
    let start = end.saturating_sub(width);
    if start > 20 {
        let mut x = start;
        for (label, role) in &counts {
            x = canvas.put(x, 0, label, *role) + 2;
        }
        end = start.saturating_sub(2);
    }
    let mut left = canvas.region(0, 0, end, 1);
    let mut x = 0;
    if !is_tight {
        x = left.put(1, 0, "longhaul", Role::Strong);
    }
    x = left.put(x + 1, 0, &text::clean_line(&state.setup.session), Role::Dim);
    if let Some(driver) = state.session.driver
        && driver.is_keeper
        && columns >= 100
        && !state.session.is_driverless
    {
        let since = if columns >= 140 {
            format!(" since {}", state.clock_minutes(driver.since))
        } else {
            String::new()
        };
        x = left.put(
            x + 2,
            0,
            &format!("keeper {}{since}", driver.pid),
            Role::Dim,
        );
        if let Some(host) = &state.setup.host {
            let host = format!("on {}", text::clean_line(host));
            x = left.put(x + 1, 0, &host, Role::Dim);
        }
    }
    for word in flags {
        x = left.put(x + 1, 0, &format!(" {word} "), Role::Found);
    }
    if let Some(offline) = state.offline()
        && let LinkState::Down { since, why, .. } = &offline.state
    {
        let age = text::span(now.wall.since(*since));
        x = left.put(x + 3, 0, left.glyphs().offline, Role::Cut);
        left.put(
            x + 1,
            0,
            &format!("OFFLINE {age}: {}", text::clean_line(why)),
            Role::Cut,
        );
        return;
    }
    let glyphs = left.glyphs();
    let total = state.servers.len();
    // If not all fit, servers that need attention come first.
    let mut servers: Vec<(u8, String, labels::StateLabel, u16)> = state
        .servers
        .iter()
        .map(|server| {
            let shown = labels::server(state, server, glyphs, now);
            let name = text::clean_line(server.name.as_str()).into_owned();
            let width = text::width(&name) + text::width(&shown.text) + 6;
            let rank = labels::rank(state, server, now);
            (rank, name, shown, u16::try_from(width).unwrap_or(u16::MAX))
        })
        .collect();
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
    if let Some(line) = crate::app::away_line(state) {
        let end = canvas.put_right_aligned(canvas.columns().saturating_sub(1), y, "Esc", Role::Key);
        let available = end.saturating_sub(2);
        let mut line = line.as_str();
        let short;
        if text::width(line) > usize::from(available) {
            // First drop the number of updates, then shorten the beginning.
            line = line.split_once("; ").map_or(line, |(events, _)| events);
            if text::width(line) > usize::from(available) {
                short = line.replacen("While you were away", "Away", 1);
                line = &short;
            }
        }
        canvas.put_clipped(1, y, available, line, Role::Cut);
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
