//! The line of servers, counts and clock, and the lines below it that say what is not as usual.

use crate::{
    app::{Action, Counts, State, ages, until},
    domain::{LinkState, Stamp, text},
};

use super::super::{canvas::Canvas, labels, theme::Role};

/// Columns of a filter in the first line.
const FILTER_COLUMNS: usize = 24;

/// Columns of `Fri 06:52`.
const CLOCK_COLUMNS: u16 = 9;

/// Session, servers, counts, clock.
pub(in crate::ui) fn header(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let columns = canvas.columns();
    let mut flags: Vec<String> = [
        ("FROZEN", state.frozen.is_some()),
        ("READ ONLY", state.setup.readonly),
        ("NEEDS YOU ONLY", state.needs_only),
    ]
    .into_iter()
    .filter(|(_, is_on)| *is_on)
    .map(|(word, _)| word.to_owned())
    .collect();
    // Whatever stands in the last lines: that rows are missing has to be seen.
    if !state.filter.is_empty() {
        let typed = text::clean_line(state.filter.text().trim()).into_owned();
        let typed = text::cut(&typed, FILTER_COLUMNS, canvas.glyphs().more).into_owned();
        flags.push(format!("FILTER {typed}"));
    }
    let is_well = |server: &crate::domain::ServerView| labels::rank(state, server, now) > 2;
    // On a narrow screen what is not as usual needs the room more than our name and what goes well.
    let is_all_well = state.servers.iter().all(is_well);
    let is_tight = columns < 70 && (!flags.is_empty() || !is_all_well)
        || columns < 100 && !state.filter.is_empty() && !is_all_well;
    let counts = counts(state, columns, is_tight);
    let mut end = columns.saturating_sub(1);
    if columns >= 56 {
        let clock = state.clock_day(now.wall);
        // Where nothing happens the screen is left alone, and a clock that stands still would lie.
        let clock = if ages(state) { &clock } else { "" };
        canvas.put_before(end, 0, clock, Role::Plain);
        end = end.saturating_sub(CLOCK_COLUMNS);
        end = end.saturating_sub(if is_tight { 2 } else { 4 });
    }
    let count_texts: Vec<String> = counts.iter().map(|(text, _)| text.clone()).collect();
    let wide = u16::try_from(text::width(&count_texts.join("  "))).unwrap_or(u16::MAX);
    let start = end.saturating_sub(wide);
    if start > 20 {
        let mut x = start;
        for (words, role) in &counts {
            x = canvas.put(x, 0, words, *role) + 2;
        }
        end = start.saturating_sub(2);
    }
    let mut left = canvas.part(0, 0, end, 1);
    let mut x = 0;
    if !is_tight {
        x = left.put(1, 0, "longhaul", Role::Strong);
    }
    x = left.put(x + 1, 0, &text::clean_line(&state.setup.session), Role::Dim);
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
    // Where not all fit, the ones that want attention come first.
    let mut servers: Vec<(u8, String, labels::Shown, u16)> = state
        .servers
        .iter()
        .map(|server| {
            let shown = labels::server(state, server, glyphs, now);
            let name = text::clean_line(server.name.as_str()).into_owned();
            let wide = text::width(&name) + text::width(&shown.word) + 6;
            let rank = labels::rank(state, server, now);
            (rank, name, shown, u16::try_from(wide).unwrap_or(u16::MAX))
        })
        .collect();
    let all = servers.iter().fold(x, |x, it| x.saturating_add(it.3));
    if all > left.columns() {
        servers.sort_by_key(|it| it.0);
    }
    for (place, (_, name, shown, wide)) in servers.into_iter().enumerate() {
        if x.saturating_add(wide) > left.columns() {
            left.put(x + 2, 0, &format!("+{}", total - place), Role::Dim);
            break;
        }
        x = left.put(x + 3, 0, shown.glyph, shown.role);
        x = left.put(x + 1, 0, &name, Role::Plain);
        x = left.put(x + 1, 0, &shown.word, Role::Dim);
    }
}

fn counts(state: &State, columns: u16, is_tight: bool) -> Vec<(String, Role)> {
    let Counts {
        needs,
        running,
        paused,
        done,
        ..
    } = state.counts;
    let mut counts = Vec::new();
    if needs > 0 {
        let need = if needs == 1 { "needs" } else { "need" };
        counts.push((format!("{} {need} you", text::grouped(needs)), Role::Needs));
    }
    // On a narrow screen the servers need the room more than what goes well.
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

/// What is not as usual: out of reach, from the file only, and what happened while nobody looked.
pub(in crate::ui) fn banner(canvas: &mut Canvas<'_>, state: &State, now: Stamp) {
    let mut y = 0;
    if state.has_status_line() {
        let mut words = status_line(state, now, false);
        if text::width(&words) + 1 > usize::from(canvas.columns()) {
            words = status_line(state, now, true);
        }
        canvas.put(1, y, &words, Role::Cut);
        y += 1;
    }
    if let Some(words) = crate::app::away_line(state) {
        let end = canvas.put_before(canvas.columns().saturating_sub(1), y, "Esc", Role::Key);
        let room = end.saturating_sub(2);
        let mut words = words.as_str();
        let short;
        if text::width(words) > usize::from(room) {
            // How many updates there were matters least, and the rest can be said in fewer words.
            words = words.split_once("; ").map_or(words, |(events, _)| events);
            if text::width(words) > usize::from(room) {
                short = words.replacen("While you were away", "Away", 1);
                words = &short;
            }
        }
        canvas.put_in(1, y, room, words, Role::Cut);
    }
}

fn status_line(state: &State, now: Stamp, is_short: bool) -> String {
    let saved = state
        .saved_at
        .map(|at| format!("Saved as of {}.", state.clock_seconds(at)));
    let mut parts: Vec<String> = Vec::new();
    if state.is_stale() {
        parts.extend(saved);
        let unknown = if is_short {
            "Now: unknown."
        } else {
            "What servers do now is unknown."
        };
        parts.push(unknown.to_owned());
    }
    match state.offline().map(|server| &server.state) {
        Some(LinkState::Down { next, .. }) => {
            let key = state.key(Action::Resume);
            parts.push(format!("Next try {} ({key} now)", until(*next, now)));
        }
        _ if state.is_driverless && state.setup.readonly => {
            parts.push("Nobody drives; this window only looks.".to_owned());
        }
        _ if state.is_driverless => parts.push("Nobody drives; taking over.".to_owned()),
        _ if state.is_stale() => parts.push("Asking the servers.".to_owned()),
        _ => {}
    }
    parts.join(" ")
}
