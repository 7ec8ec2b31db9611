//! The questions of the server that the host was asked.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::{QuestionKind, TaskId};

/// The questions that the host was asked, by the ids of our requests.
#[derive(Debug, Default)]
pub(super) struct RelayedQuestions {
    pub(super) open: BTreeMap<String, Relayed>,
    /// What the host was asked already, whatever it answered.
    pub(super) known: BTreeSet<(TaskId, String)>,
    /// The servers' requests for roots that the host has not been asked yet.
    pub(super) roots_wanted: Vec<u64>,
    asked: u64,
}

/// What a request of ours asks the host.
#[derive(Debug)]
pub(super) enum Relayed {
    /// A question about a task.
    Question {
        task: TaskId,
        key: String,
        kind: QuestionKind,
    },
    /// A question of a round, by the number of the round.
    Round { number: u64, key: String },
    /// The directories that it works in, for the server's request of this number.
    Roots(u64),
}

impl RelayedQuestions {
    /// Notes a request to the host and returns its id.
    pub(super) fn add(&mut self, what: Relayed) -> String {
        self.asked += 1;
        let id = format!("longhaul-{}", self.asked);
        self.open.insert(id.clone(), what);
        id
    }
}
