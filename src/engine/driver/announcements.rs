//! Which ends and questions a screen has announced, so that each is announced once, however many screens there are.

use std::collections::BTreeMap;

use crate::{
    domain::{NotifyReason, TaskId, TaskView},
    engine::snapshots::Snapshots,
};

/// What screens have announced of each task as it is now.
#[derive(Debug, Default)]
pub(super) struct Announcements(BTreeMap<TaskId, Occasion>);

/// Why a task is announced, and its status: a failure right after a question is another occasion.
type Occasion = (NotifyReason, &'static str);

fn occasion(view: &TaskView) -> Option<Occasion> {
    Some((view.notify_reason()?, view.task.status.label()))
}

impl Announcements {
    /// Forgets what a newer snapshot ends, so that a later question is announced again.
    pub(super) fn look_at(&mut self, view: &TaskView) {
        let id = &view.task.id;
        if self.0.get(id).copied() != occasion(view) {
            self.0.remove(id);
        }
    }

    /// The tasks that a screen has to announce: no other screen has, and there still is something to announce.
    pub(super) fn claim(&mut self, tasks: &[TaskId], snapshots: &Snapshots) -> Vec<TaskId> {
        let mut is_ours = |id: &TaskId| {
            let occasion = snapshots.task(id).and_then(|view| occasion(&view));
            occasion.is_some_and(|it| self.0.insert(id.clone(), it) != Some(it))
        };
        tasks.iter().filter(|id| is_ours(id)).cloned().collect()
    }
}
