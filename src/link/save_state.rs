//! What of a task is not saved or not shown yet.

use super::{
    io::SaveToken,
    pending::{Pending, Unsaved},
};
use crate::domain::ByteShare;

/// What of a task is not in the session file, or not shown, yet.
#[derive(Debug, Default)]
pub(super) struct SaveState {
    /// History that no save holds yet.
    pub(super) pending: Pending,
    /// How many messages of the server the history leaves out.
    pub(super) left_out: u64,
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
