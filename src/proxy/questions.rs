//! The questions of the server that the host was asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::TaskId;

/// The questions that the host was asked, by the ids of our requests.
#[derive(Debug, Default)]
pub(super) struct RelayedQuestions {
    pub(super) open: BTreeMap<String, Relayed>,
    /// What the host was asked already, whatever it answered.
    pub(super) known: BTreeSet<(TaskId, String)>,
    pub(super) asked: u64,
}

#[derive(Debug)]
pub(super) struct Relayed {
    pub(super) task: TaskId,
    pub(super) key: String,
}
