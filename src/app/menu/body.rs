//! The text above the items of each menu.

use crate::{
    app::{
        Action, LeaveImpacts, ResultPart, State,
        menu::{BodyLine, Menu, body_line, name_of},
        select::hidden_among_marked,
    },
    domain::{LeaveImpact, Stamp, TaskId, text},
};

/// The text above the items of a dialog.
pub fn body(state: &State, menu: &Menu, now: Stamp) -> Vec<BodyLine> {
    match menu {
        Menu::Leave => {
            let impacts = LeaveImpacts::of(state);
            let mut lines = Vec::new();
            for (label, part) in [
                ("DIES", &impacts.dies),
                ("LIKELY", &impacts.likely),
                ("PAUSES", &impacts.pauses),
                ("SAFE", &impacts.safe),
            ] {
                for (id, impact) in part.iter().take(MAX_LISTED) {
                    let until = match impact {
                        LeaveImpact::Likely {
                            until: Some(at), ..
                        } => format!(" until about {}", state.clock_minutes(*at)),
                        _ => String::new(),
                    };
                    lines.push(BodyLine {
                        label,
                        text: format!(
                            "{}{until}: {}",
                            name_of(state, id),
                            text::clean_line(impact.why())
                        ),
                    });
                }
                let more = part.len().saturating_sub(MAX_LISTED);
                if more > 0 {
                    lines.push(BodyLine {
                        label,
                        text: format!("and {more} more"),
                    });
                }
            }
            lines
        }
        Menu::Cancel(tasks) => {
            let mut lines: Vec<BodyLine> = tasks
                .iter()
                .take(MAX_LISTED)
                .map(|id| body_line(name_of(state, id)))
                .collect();
            let more = tasks.len().saturating_sub(MAX_LISTED);
            if more > 0 {
                lines.push(body_line(format!("and {more} more")));
            }
            let hidden = hidden_among_marked(state, tasks);
            if hidden > 0 {
                lines.push(body_line(format!("{hidden} of them hidden")));
            }
            let ended = state.list.marks.len().saturating_sub(tasks.len());
            if ended > 0 {
                let message = format!("{ended} more marked tasks have ended and stay as they are");
                lines.push(body_line(message));
            }
            let has_checkpoint = tasks
                .iter()
                .filter_map(|id| state.task(id))
                .all(|task_row| task_row.view.task.resumability.checkpoint);
            lines.push(body_line(if has_checkpoint {
                "The server will be asked to stop. The checkpoint is kept there."
            } else {
                "The server will be asked to stop. Work already done is not undone."
            }));
            lines
        }
        Menu::StopNow(id) => {
            let age = state
                .task(id)
                .and_then(|task_row| task_row.view.task.control)
                .map_or(String::new(), |asked| {
                    format!(" {} ago", text::span(now.wall.since(asked.at)))
                });
            vec![
                body_line(name_of(state, id)),
                body_line(format!(
                    "Pause requested{age}; the server is still making progress."
                )),
            ]
        }
        Menu::WhatNow(id) => {
            let Some(task_row) = state.task(id) else {
                return vec![body_line("This task no longer exists.")];
            };
            let task = &task_row.view.task;
            let mut lines = vec![body_line(name_of(state, id))];
            let label = task.status.label();
            match task.why() {
                Some(why) => {
                    let line = text::clean_line(why.lines().next().unwrap_or_default());
                    lines.push(body_line(format!(
                        "{label}: {}.",
                        line.trim_end_matches('.')
                    )));
                }
                None => lines.push(body_line(format!("Status: {label}."))),
            }
            if let Some(progress) = &task.progress {
                lines.push(body_line(format!(
                    "Last progress: {}{}.",
                    text::amount(progress.value),
                    progress.total.map_or(String::new(), |total| format!(
                        " of {}",
                        text::amount(total)
                    ))
                )));
            }
            lines
        }
        Menu::Copy(_) => vec![body_line(
            "Uses the terminal's clipboard (OSC 52), if it has one.",
        )],
        Menu::Export(tasks) => {
            let flags = &state.setup.flags;
            let id = tasks.first().map_or("ID", TaskId::as_str);
            let mut lines = vec![
                body_line("A record for bug reports. No secrets; text is replaced by its size."),
                body_line(format!(
                    "To include the text: longhaul export {id}{flags} --with-content"
                )),
            ];
            if tasks.len() > 1 {
                lines.insert(0, body_line("Each marked task gets its own file."));
            }
            let hidden = hidden_among_marked(state, tasks);
            if hidden > 0 && tasks.len() > 1 {
                lines.insert(1, body_line(format!("{hidden} of them hidden")));
            }
            lines
        }
        Menu::Repeat {
            server,
            tool,
            reason,
            ..
        } => vec![
            body_line(text::clean_line(&format!("{tool} on {server}"))),
            body_line(text::clean_line(&format!("{server} {reason}."))),
        ],
        Menu::Drive(message) => vec![
            body_line(text::clean_line(message)),
            body_line("Everything else continues."),
        ],
        Menu::InjectFault => vec![body_line(
            "Breaks the demo server or its connection on purpose.",
        )],
        Menu::Part { part, .. } => part_lines(state, part),
        Menu::SignIn { page, .. } => {
            let host = text::clean_line(&page.host);
            let mut lines = vec![body_line(format!("You sign in on a page at {host}."))];
            // On separate lines, so that a long host name doesn't push them out of view.
            lines.extend(
                page.other_parties
                    .iter()
                    .map(|who| body_line(text::clean_line(who))),
            );
            lines.push(body_line("longhaul waits 15 minutes for the result."));
            lines
        }
        Menu::Views => {
            let key = state.key(Action::Palette);
            vec![body_line(format!(
                "To save the current view: {key} save-view NAME"
            ))]
        }
        Menu::Consent {
            lines, is_program, ..
        } => {
            let first = body_line(if *is_program {
                "It runs with your permissions. It has not been started yet."
            } else {
                "It was imported, so nothing has been sent yet."
            });
            let last = body_line("Your approval holds until any of this changes.");
            let lines = lines.iter().map(|line| body_line(text::clean_line(line)));
            std::iter::once(first).chain(lines).chain([last]).collect()
        }
        Menu::Import { lines, .. } => {
            let first = body_line("This contacts no server and starts no program.");
            std::iter::once(first)
                .chain(lines.iter().map(|line| body_line(text::clean_line(line))))
                .collect()
        }
    }
}

/// Whether a dialog with these lines fits on the screen, by a conservative estimate of how they wrap.
pub(super) fn fits(state: &State, lines: &[String]) -> bool {
    let (columns, rows) = state.size;
    let width = usize::from(columns.min(80)).saturating_sub(10).max(1);
    let taken = lines.iter().map(|line| {
        let columns = text::width(&text::clean_line(line));
        if columns <= width {
            1
        } else {
            1 + columns.div_ceil(width.div_ceil(2))
        }
    });
    // The other rows: two lines of our own text, the items, the frame, and the header and footer of the screen.
    taken.sum::<usize>() + 12 <= usize::from(rows)
}

pub(super) fn part_lines(state: &State, part: &ResultPart) -> Vec<BodyLine> {
    let mut lines = vec![body_line(part.description.clone())];
    if let Some(link) = &part.link {
        if link.can_open {
            lines.push(body_line(format!("Opens a page at {}.", link.host)));
        }
        lines.extend(link.warnings.iter().cloned().map(body_line));
    } else if let (None, Some(viewer)) = (&part.why_not, &state.setup.viewer) {
        lines.push(body_line(format!(
            "Writes a private copy and runs: {viewer} FILE.{}",
            part.extension
        )));
        lines.push(body_line("The copy is deleted when longhaul exits."));
    }
    lines
}

/// Tasks to list; the others are counted.
pub(super) const MAX_LISTED: usize = 6;
