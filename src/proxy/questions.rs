//! The questions of the server that the host was asked.

use std::collections::{BTreeMap, BTreeSet};

use super::raw::RawMembers;
use crate::domain::{Mono, Question, QuestionKind, TaskId, Wall};

/// The questions that the host was asked, by the ids of our requests.
#[derive(Debug, Default)]
pub(super) struct RelayedQuestions {
    pub(super) open: BTreeMap<String, Relayed>,
    /// When the questions came that the host was asked already, whatever it answered. A server may ask again under the
    /// same key.
    known: BTreeMap<(TaskId, String), Wall>,
    /// The servers' requests for roots that the host has not been asked yet.
    pub(super) roots_wanted: Vec<u64>,
    asked: u64,
}

/// A request of the host that goes to the server again once the host has answered the server's questions.
#[derive(Debug)]
pub(super) struct Round {
    /// The id of the host's request.
    pub(super) id: String,
    pub(super) method: String,
    pub(super) params: RawMembers,
    pub(super) rounds: u32,
    /// The keys of the questions without an answer.
    pub(super) waiting: BTreeSet<String>,
    pub(super) responses: RawMembers,
}

/// What a request of ours asks the host.
#[derive(Debug)]
pub(super) enum Relayed {
    /// A question about a task.
    Question {
        task: TaskId,
        key: String,
        kind: QuestionKind,
        asked_at: Wall,
    },
    /// A question of a round, by the number of the round.
    Round { number: u64, key: String },
    /// What the server asks in its request `id` about the host's request with this key, which is not a call.
    OfForward { id: String, key: String },
    /// The directories that it works in, for the server's request of this number, until then.
    Roots { number: u64, until: Mono },
}

impl RelayedQuestions {
    /// Whether the host was asked this question, about this task or another one that it may belong to.
    pub(super) fn is_known(&self, task: &TaskId, question: &Question) -> bool {
        let mut tasks = question.shared_with.iter().chain([task]);
        tasks.any(|task| {
            let keys = question.earlier.iter().chain([&question.key]);
            let mut asked = keys.filter_map(|key| self.known.get(&(task.clone(), key.clone())));
            asked.any(|at| *at == question.asked_at)
        })
    }

    /// Notes that the host was asked this question.
    pub(super) fn know(&mut self, task: &TaskId, question: &Question) {
        let key = (task.clone(), question.key.clone());
        self.known.insert(key, question.asked_at);
    }

    /// Forgets the questions of a task that has ended.
    pub(super) fn forget(&mut self, task: &TaskId) {
        self.known.retain(|(of, _), _| of != task);
    }

    /// When the host should have answered the requests for roots.
    pub(super) fn roots_due(&self) -> impl Iterator<Item = (&String, u64, Mono)> {
        self.open.iter().filter_map(|(id, relayed)| match relayed {
            Relayed::Roots { number, until } => Some((id, *number, *until)),
            _ => None,
        })
    }

    /// Notes a request to the host and returns its id.
    pub(super) fn add(&mut self, what: Relayed) -> String {
        self.asked += 1;
        let id = format!("longhaul-{}", self.asked);
        self.open.insert(id.clone(), what);
        id
    }
}
