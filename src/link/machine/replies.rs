//! Answers on their way to the server: each goes out once at a time, within the budget, and again only after a wait.
//!
//! What a person or a policy chose is the question's; here is only how often it was tried. Oldest first: what finds no
//! room waits, and its row says so.

use core::time::Duration;
use std::collections::BTreeMap;

use super::{InFlight, Link, RequestKind};
use crate::{
    domain::{Mono, OnInput, Question, QuestionSource, TaskId},
    link::{
        active_task::RecentIds,
        reachability::{doubled, jittered},
    },
};

/// The first and the longest wait before an answer is sent again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// Answers that may be on their way at once.
pub(super) const AT_ONCE: usize = 16;
/// How soon there may be room for another one.
const SOON: Duration = Duration::from_millis(200);
/// How often an answer is sent whose response head came each time and its body broke off: it most likely has arrived.
const CUTS: u32 = 2;
/// Answers whose tries are remembered.
const REMEMBERED: usize = 1024;
/// What is said on the row of a task whose answers wait.
pub(super) const WAITS: &str =
    "answers wait, oldest first: longhaul keeps to 1,000 requests an hour for each server";

/// The tries of the answers that did not get through.
#[derive(Debug, Default)]
pub(super) struct Replies {
    tries: BTreeMap<String, Try>,
    /// Requests that were answered: a replay on the stream of another call asks nobody again.
    answered: RecentIds,
}

#[derive(Clone, Copy, Debug, Default)]
struct Try {
    times: u32,
    cuts: u32,
    at: Mono,
}

/// Whether an answer goes out now.
pub(super) enum Turn {
    Now,
    /// It is on its way.
    Out,
    Later(Mono),
    /// The budget has no room for it before then.
    NoRoom(Mono),
}

/// What an answer is known by among those of a link: a request by its key, which is unique within it, an input of a
/// server task with its task.
fn name(id: &TaskId, key: &str, way: &QuestionSource) -> String {
    match way {
        QuestionSource::Request { .. } => key.to_owned(),
        QuestionSource::Round | QuestionSource::TaskInput => format!("{id} {key}"),
    }
}

fn name_of(in_flight: &InFlight) -> Option<String> {
    match &in_flight.kind {
        RequestKind::Reply(Some((_, key))) => Some(key.clone()),
        RequestKind::Update(id, key) => Some(name(id, key, &QuestionSource::TaskInput)),
        _ => None,
    }
}

impl Link {
    /// How many answers are out.
    pub(super) fn replies_out(&self) -> usize {
        let is_reply = |in_flight: &&InFlight| {
            matches!(
                in_flight.kind,
                RequestKind::Reply(_) | RequestKind::Update(..)
            )
        };
        self.in_flight.values().filter(is_reply).count()
    }

    /// Whether the answer to a question goes out now; where it does, its request is taken from the budget.
    pub(super) fn turn_of(&mut self, id: &TaskId, question: &Question, policy: OnInput) -> Turn {
        let (now, name) = (self.now, name(id, &question.key, &question.source));
        let mut in_flight = self.in_flight.values();
        if in_flight.any(|in_flight| name_of(in_flight).is_some_and(|other| other == name)) {
            return Turn::Out;
        }
        if let Some(tried) = self.replies.tries.get(&name).filter(|it| it.at > now.mono) {
            return Turn::Later(tried.at);
        }
        if self.replies_out() >= AT_ONCE {
            return Turn::Later(now.mono.after(SOON));
        }
        // What no person chose leaves room for what keeps the calls alive.
        let is_spent = match policy {
            OnInput::Ask => self.reachability.spend(now).is_ok(),
            OnInput::Defaults | OnInput::Decline => self.reachability.spend_spare(now),
        };
        if is_spent {
            Turn::Now
        } else {
            Turn::NoRoom(self.reachability.room_at(now, policy != OnInput::Ask))
        }
    }

    /// An answer came to nothing. Returns whether it is sent again.
    pub(super) fn reply_failed(
        &mut self,
        in_flight: &InFlight,
        at_least: Option<Duration>,
    ) -> bool {
        let Some(name) = name_of(in_flight) else {
            return false;
        };
        let now = self.now.mono;
        if self.replies.tries.len() >= REMEMBERED {
            self.replies.tries.retain(|_, tried| tried.at > now);
        }
        let tried = self.replies.tries.entry(name).or_default();
        let wait = doubled(FIRST_WAIT, tried.times, LAST_WAIT).max(at_least.unwrap_or_default());
        tried.times = tried.times.saturating_add(1);
        tried.cuts += u32::from(in_flight.is_opened);
        tried.at = now.after(jittered(wait, &mut self.rng));
        tried.cuts < CUTS
    }

    /// The answer to a request of the server goes out.
    pub(super) fn note_answered(&mut self, key: &str) {
        self.replies.answered.add(key);
    }

    /// Whether a request was answered, where its id cannot be another's after a restart of the server.
    pub(super) fn was_answered(&self, key: &str) -> bool {
        self.record.session.is_some() && self.replies.answered.knows(key)
    }

    /// An answer has arrived.
    pub(super) fn reply_arrived(&mut self, id: &TaskId, question: &Question) {
        let name = name(id, &question.key, &question.source);
        self.replies.tries.remove(&name);
    }
}
