//! What of a task is not saved or not shown yet.

use super::{
    io::SaveToken,
    pending::{Pending, Unsaved},
};
use crate::domain::{ByteShare, text};

/// What a server sent and this task's history does not hold, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Messages that could not be read.
    pub(super) unreadable: u64,
    /// Steps and log lines that came faster than they could be saved.
    pub(super) hasty: u64,
    /// Questions that were too many or too large to be shown to a person.
    pub(super) questions: u64,
}

impl LeftOut {
    pub(super) fn message(self) -> String {
        let parts = [
            (self.unreadable, "message", "could not be read"),
            (self.hasty, "line", "arrived too fast to be saved"),
            (
                self.questions,
                "question",
                "not shown, because too many were open",
            ),
        ];
        let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(count, what, why)| format!("{} ({why})", text::plural(count, what)))
            .collect();
        format!("not recorded: {}", parts.join(", "))
    }
}

/// What of a task is not in the session file, or not shown, yet.
#[derive(Debug, Default)]
pub(super) struct SaveState {
    /// History that no save holds yet.
    pub(super) pending: Pending,
    pub(super) left_out: LeftOut,
    /// A result that no save holds yet.
    pub(super) result: Option<String>,
    /// How much memory it takes, also while a save is under way.
    pub(super) result_part: ByteShare,
    pub(super) is_dirty: bool,
    /// The save that has to be on disk before this may be shown.
    pub(super) held: Option<SaveToken>,
    pub(super) saved_seq: u64,
    pub(super) is_shown_stale: bool,
}

impl SaveState {
    pub(super) fn new(unsaved: &Unsaved, saved_seq: u64) -> Self {
        Self {
            pending: Pending::sharing(&unsaved.history),
            result_part: unsaved.results.share(),
            saved_seq,
            is_shown_stale: true,
            ..Self::default()
        }
    }
}
