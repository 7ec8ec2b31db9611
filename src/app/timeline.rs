//! What the timeline pane shows: the time, the selected lane, and what was read about the tasks.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::domain::{Milestone, Mono, TaskId, Wall};

/// The lengths of time that the pane can show, in minutes, shortest first.
pub(super) const SPANS: [(u64, &str); 8] = [
    (15, "15 min"),
    (60, "1 h"),
    (3 * 60, "3 h"),
    (8 * 60, "8 h"),
    (24 * 60, "24 h"),
    (3 * 24 * 60, "3 days"),
    (7 * 24 * 60, "7 days"),
    (28 * 24 * 60, "4 weeks"),
];

/// The span without unfinished tasks: a night.
pub(super) const NIGHT: usize = 3;

/// What the timeline pane shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The selected lane, if it was chosen.
    pub(super) cursor: Option<TaskId>,
    /// The index of the span.
    pub(super) zoom: usize,
    /// Whether the user or the first look has chosen the span.
    pub(super) is_zoomed: bool,
    pub(super) lives: BTreeMap<TaskId, Life>,
    /// When milestones were last requested.
    pub(super) asked_at: Option<Mono>,
}

/// What is known of a task's life.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Life {
    /// The newest history entry that was looked at.
    pub(super) read_to: u64,
    pub(super) milestones: Vec<Milestone>,
}

impl Timeline {
    /// How much time the pane shows, and its label.
    pub fn span(&self) -> (Duration, &'static str) {
        let (minutes, label) = SPANS.get(self.zoom).copied().unwrap_or(SPANS[NIGHT]);
        (Duration::from_secs(minutes * 60), label)
    }

    /// The time at the left edge; the right one is the present.
    pub fn begin(&self, now: Wall) -> Wall {
        let span = i64::try_from(self.span().0.as_millis()).unwrap_or(i64::MAX);
        Wall(now.0.saturating_sub(span))
    }
}
