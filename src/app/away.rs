//! The welcome-back banner: what happened while the user was away.

use core::time::Duration;

use crate::domain::{Status, Task, Wall, text};

use super::{Away, State, TaskRow};

/// Shorter absences are not worth a banner.
pub(super) const MIN_ABSENCE: Duration = Duration::from_secs(60);
/// What the engine learns within this time after the start happened during the absence.
const CATCH_UP: Duration = Duration::from_secs(30);

/// Records the current state as the baseline.
pub(super) fn begin(state: &State, from: Wall, until: Wall, asleep: bool) -> Away {
    let is_open = |it: &&TaskRow| !it.view.task.status.is_settled() || !asleep && !it.is_seen;
    let open = state.kept_tasks().filter(is_open);
    let open = open.map(|it| it.view.task.id.clone()).collect();
    Away {
        from,
        until,
        asleep,
        open,
    }
}

/// The first read of the session file has only the newest tasks; the others follow.
pub(super) fn note_older(state: &mut State, task: &Task) {
    if let Some(away) = state.away.as_mut().filter(|away| !away.asleep)
        && task.created_at < away.until
        && !task.end.is_seen
    {
        away.open.insert(task.id.clone());
    }
}

/// `6 h 21 min`: an absence, to the minute.
fn long(span: Duration) -> String {
    let minutes = (span.as_secs() + 30) / 60;
    match minutes {
        0..60 => format!("{minutes} min"),
        60..2_880 => format!("{} h {} min", minutes / 60, minutes % 60),
        _ => format!("{} days", minutes / 1_440),
    }
}

/// The banner's text; `None` without an absence.
pub fn away_line(state: &State) -> Option<String> {
    let away = state.away.as_ref()?;
    // A keeper that ran all the time has nothing to catch up on.
    let learned_by = match state.session.driver {
        Some(driver) if !away.asleep => driver.since.after(CATCH_UP).max(away.until),
        _ => away.until.after(CATCH_UP),
    };
    let tasks = away.open.iter().filter_map(|id| state.tasks.get(id));
    let tasks = tasks.map(|task_row| &task_row.view.task);
    let has_happened = |task: &&Task| {
        let asked_at = task.open_question().map(|question| question.asked_at);
        let at = task.end.settled_at.or(asked_at).unwrap_or(task.updated_at);
        at >= away.from && (at <= learned_by || !task.status.is_settled())
    };
    let labels = tasks.filter(has_happened).map(|it| it.status.label());
    let labels: Vec<&str> = labels.collect();
    let count = |label| labels.iter().filter(|it| **it == label).count();
    let asks = count(Status::InputRequired.label());
    let questions = if asks == 1 { "question" } else { "questions" };
    let ended = ["failed", "lost", "unknown", "completed", "cancelled"];
    let mut parts = vec![(asks, questions)];
    parts.extend(ended.map(|label| (count(label), label)));
    let happened = Some(text::counts(&parts)).filter(|it| !it.is_empty());
    let happened = happened.as_deref().unwrap_or("nothing new");
    let mut absence = long(away.until.since(away.from));
    if away.asleep {
        let (from, until) = (away.from, away.until);
        let [from, until] = [from, until].map(|at| state.clock_minutes(at));
        absence = format!("{absence}, computer asleep {from}-{until}");
    }
    Some(format!("While you were away ({absence}): {happened}"))
}
