//! Watches the session file in a process that does not drive: removes from the snapshots what others removed from the
//! file and, while no process drives, adds what they saved.
//!
//! Must not know which process drives. Invariant: it only reads.

use std::{collections::BTreeSet, sync::Arc};

use super::snapshots::Snapshots;
use crate::{
    domain::{SessionEvent, TaskId, TaskView},
    store::{ListFilter, Paths, Reader, StoreError, Version},
};

/// The file, as of the last check.
#[derive(Debug, Default)]
pub(super) struct FileWatcher {
    reader: Option<Reader>,
    version: Option<Version>,
    was_undriven: bool,
    known: BTreeSet<TaskId>,
}

impl FileWatcher {
    /// Checks for changes and removes deleted tasks from the snapshots. If no process drives, adds what was saved. A
    /// file that cannot be read now is checked again next time.
    pub(super) fn look(&mut self, snapshots: &Snapshots, paths: &Paths, is_undriven: bool) {
        let is_pristine = self.known.is_empty() && snapshots.tasks().is_empty();
        if is_pristine && !is_undriven {
            return;
        }
        if self.try_look(snapshots, paths, is_undriven).is_err() {
            *self = Self {
                known: std::mem::take(&mut self.known),
                ..Self::default()
            };
        }
    }

    fn try_look(
        &mut self,
        snapshots: &Snapshots,
        paths: &Paths,
        is_undriven: bool,
    ) -> Result<(), StoreError> {
        let mut reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::open(paths)?,
        };
        let version = reader.version()?;
        let is_new =
            version.is_none() || version != self.version || is_undriven != self.was_undriven;
        if is_new {
            let tasks = reader.tasks(ListFilter::default())?;
            let saved_at = reader.saved_at()?;
            let there: BTreeSet<TaskId> = tasks.iter().map(|task| task.id.clone()).collect();
            let shown = snapshots.tasks();
            let shown = shown.iter().map(|view| &view.task.id);
            for id in self.known.iter().chain(shown).collect::<BTreeSet<_>>() {
                if !there.contains(id) {
                    snapshots.publish(SessionEvent::Erased(id.clone()));
                }
            }
            self.known = there;
            for task in tasks.into_iter().filter(|_| is_undriven) {
                // What only the driver knew no longer holds, in particular the connection state.
                let view = TaskView::unwatched(task, saved_at);
                if snapshots
                    .task(&view.task.id)
                    .is_none_or(|shown| *shown != view)
                {
                    snapshots.publish(SessionEvent::Task(Arc::new(view)));
                }
            }
        }
        (self.reader, self.version, self.was_undriven) = (Some(reader), version, is_undriven);
        Ok(())
    }
}
