//! Counts over the tasks.

use std::collections::BTreeSet;

use crate::domain::{Connectivity, CutOutcome, Status, TaskId, Wall};

use super::task_row::{Group, TaskRow};

/// How many tasks are in which state. Updated with every change, so that drawing a frame never counts tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks that need the user's attention.
    pub needs: usize,
    /// Running tasks.
    pub running: usize,
    /// Tasks whose call waits to be sent.
    pub queued: usize,
    /// Paused tasks.
    pub paused: usize,
    /// Ended tasks.
    pub finished: usize,
    /// Tasks that have not ended and have no driver.
    pub unwatched: usize,
    /// Tasks whose last change could not be saved.
    pub unsaved: usize,
}

/// Totals over the tasks that have not ended, for the last lines of the screen. Updated with every change, so that
/// drawing a frame never scans the tasks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OpenTotals {
    /// Tasks that continue after a cut.
    pub(super) continues: usize,
    /// Tasks that the server will stop at a checkpoint.
    pub(super) pauses: usize,
    /// Tasks that a cut probably leaves resumable, by expiry time.
    pub(super) likely: BTreeSet<(Wall, TaskId)>,
    /// Tasks that a cut would lose.
    pub(super) lost: BTreeSet<TaskId>,
    /// Tasks with a pending pause, resume or cancel, by the time of the request.
    pub(super) asked: BTreeSet<(Wall, TaskId)>,
}

/// Counts over the tasks that are not forgotten.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskTotals {
    /// The tasks that have not ended.
    pub(super) open: BTreeSet<TaskId>,
    /// Whether agents have made calls.
    pub has_callers: bool,
    /// How many tasks are in which state.
    pub counts: Counts,
    /// Totals over the open tasks.
    pub(super) by_outcome: OpenTotals,
}

impl OpenTotals {
    /// How many tasks there are, except unknown ones: nobody knows whether those run.
    pub(super) fn known(&self) -> usize {
        self.continues + self.pauses + self.likely.len() + self.lost.len()
    }
}

impl TaskTotals {
    /// Adds a task to the counts, or removes it.
    pub(super) fn count(&mut self, task_row: &TaskRow, adds: bool) {
        let id = &task_row.view.task.id;
        if task_row.view.task.forgotten_at.is_some() {
            return;
        }
        let is_settled = task_row.view.task.status.is_settled();
        let is_unwatched = matches!(task_row.view.contact, Connectivity::Unwatched { .. });
        let counts = &mut self.counts;
        let count = match (task_row.group(), &task_row.view.task.status) {
            (Group::NeedsYou, _) => &mut counts.needs,
            (_, Status::Paused) => &mut counts.paused,
            (Group::Running, _) if task_row.view.task.is_queued() => &mut counts.queued,
            (Group::Running, _) => &mut counts.running,
            (Group::Finished, _) => &mut counts.finished,
        };
        let by = if adds { 1 } else { -1 };
        *count = count.saturating_add_signed(by);
        if task_row.view.is_unsaved {
            counts.unsaved = counts.unsaved.saturating_add_signed(by);
        }
        if !is_settled && is_unwatched {
            counts.unwatched = counts.unwatched.saturating_add_signed(by);
        }
        if is_settled {
            return;
        }
        let totals = &mut self.by_outcome;
        let update = |set: &mut BTreeSet<(Wall, TaskId)>, at: Wall| {
            if adds {
                set.insert((at, id.clone()));
            } else {
                set.remove(&(at, id.clone()));
            }
        };
        if let Some(if_cut) = task_row.if_cut() {
            match if_cut.outcome() {
                CutOutcome::Continues => {
                    totals.continues = totals.continues.saturating_add_signed(by);
                }
                CutOutcome::Pauses => totals.pauses = totals.pauses.saturating_add_signed(by),
                CutOutcome::Likely => {
                    update(&mut totals.likely, if_cut.until.unwrap_or(Wall(i64::MAX)));
                }
                CutOutcome::Lost if adds => {
                    totals.lost.insert(id.clone());
                }
                CutOutcome::Lost => {
                    totals.lost.remove(id);
                }
            }
        }
        if let Some(asked) = task_row.view.task.control {
            update(&mut totals.asked, asked.at);
        }
        if adds {
            self.open.insert(id.clone());
        } else {
            self.open.remove(id);
        }
    }
}
