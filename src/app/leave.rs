//! Quitting: its impact on running calls, and the note printed afterwards.

use crate::domain::{LeaveImpact, TaskId, text};

use super::{LeaveNote, State};

/// What quitting would do to the tasks that have not ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeaveImpacts<'s> {
    /// Survive.
    pub safe: Vec<(&'s TaskId, &'s LeaveImpact)>,
    /// The server stops them at a checkpoint; they can be resumed.
    pub pauses: Vec<(&'s TaskId, &'s LeaveImpact)>,
    /// Can probably be resumed.
    pub likely: Vec<(&'s TaskId, &'s LeaveImpact)>,
    /// They, or their results, are lost.
    pub dies: Vec<(&'s TaskId, &'s LeaveImpact)>,
}

impl<'s> LeaveImpacts<'s> {
    /// Collects the impact on all open tasks.
    pub fn of(state: &'s State) -> Self {
        let mut impacts = Self::default();
        for task_row in state.open_tasks() {
            let Some(impact) = task_row.leave_impact() else {
                continue;
            };
            let line = (&task_row.view.task.id, impact);
            match impact {
                LeaveImpact::Safe { .. } => impacts.safe.push(line),
                LeaveImpact::Pauses { .. } => impacts.pauses.push(line),
                LeaveImpact::Likely { .. } => impacts.likely.push(line),
                LeaveImpact::Dies { .. } => impacts.dies.push(line),
            }
        }
        impacts
    }

    /// Whether every call survives.
    pub fn is_all_safe(&self) -> bool {
        self.pauses.is_empty() && self.likely.is_empty() && self.dies.is_empty()
    }

    /// Whether no task is open.
    pub fn is_empty(&self) -> bool {
        self.is_all_safe() && self.safe.is_empty()
    }
}

/// Whether another process is the driver, so that quitting this one changes nothing.
pub fn is_viewer(state: &State) -> bool {
    matches!(state.session.driver, Some((_, false))) && !state.session.is_driverless
}

/// The last line of the screen: `3 safe, 1 likely until about 07:20, 1 DIES (pd6xw8)`. Leaves the time out if the line
/// would be wider than `columns`.
pub fn leave_line(state: &State, columns: usize) -> String {
    let whole = leave_text(state, true);
    if text::width(&whole) <= columns {
        whole
    } else {
        leave_text(state, false)
    }
}

fn leave_text(state: &State, has_time: bool) -> String {
    if is_viewer(state) {
        let pid = state.session.driver.map_or(0, |(pid, _)| pid);
        return format!("process {pid} is the driver; leaving this one changes nothing");
    }
    let totals = &state.totals.leaving;
    if totals.safe + totals.pauses + totals.likely.len() + totals.dies.len() == 0 {
        return "nothing is running".to_owned();
    }
    let mut parts = Vec::new();
    if totals.safe > 0 {
        parts.push(format!("{} safe", text::grouped(totals.safe)));
    }
    if totals.pauses > 0 {
        parts.push(format!("{} pauses", text::grouped(totals.pauses)));
    }
    if let Some((until, _)) = totals.likely.first() {
        let until = if until.0 == i64::MAX || !has_time {
            String::new()
        } else {
            format!(" until about {}", state.clock_minutes(*until))
        };
        parts.push(format!(
            "{} likely{until}",
            text::grouped(totals.likely.len())
        ));
    }
    if !totals.dies.is_empty() {
        let ids: Vec<&str> = totals.dies.iter().take(3).map(TaskId::as_str).collect();
        let more = match totals.dies.len() - ids.len() {
            0 => String::new(),
            more => format!(" and {} more", text::grouped(more)),
        };
        parts.push(format!(
            "{} DIES ({}{more})",
            text::grouped(totals.dies.len()),
            ids.join(", ")
        ));
    }
    parts.join(", ")
}

/// The note for stderr after the screen has closed.
pub fn leave_note(state: &State) -> LeaveNote {
    let impacts = LeaveImpacts::of(state);
    let command = &state.setup.reopens_with;
    if is_viewer(state) {
        let pid = state.session.driver.map_or(0, |(pid, _)| pid);
        return LeaveNote {
            line: format!("process {pid} continues as the driver; to watch again: {command}"),
        };
    }
    if impacts.is_empty() {
        return LeaveNote {
            line: String::new(),
        };
    }
    let count = |part: &[(&TaskId, &LeaveImpact)], word: &str| {
        (!part.is_empty()).then(|| format!("{} {word}", part.len()))
    };
    let parts: Vec<String> = [
        count(&impacts.safe, "safe"),
        count(&impacts.pauses, "pauses"),
        count(&impacts.likely, "likely"),
        count(&impacts.dies, "DIES"),
    ]
    .into_iter()
    .flatten()
    .collect();
    LeaveNote {
        line: format!("left with {}; to continue: {command}", parts.join(", ")),
    }
}
