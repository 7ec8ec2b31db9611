//! Answers on their way to the server: each goes out once at a time, within the budget, and again only after a wait.
//!
//! What a person or a policy chose is the question's; here is only how often it was tried. Oldest first: what finds no
//! room waits, and its row says so.

use core::time::Duration;

use crate::{
    domain::{OnInput, Question, TaskId},
    link::{
        InFlight, Link, RequestKind,
        replies::{AT_ONCE, SOON, Turn, name, name_of},
    },
};

/// Answered requests that are remembered, and the longest of their keys in bytes.
const ANSWERED_KEPT: usize = 128;
const KEY_BYTES: usize = 64;

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
        if let Some(at) = self.replies.retry_at(&name, now.mono) {
            return Turn::Later(at);
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
        self.replies
            .failed(in_flight, at_least, self.now.mono, &mut self.rng)
    }

    /// The answer to a request of the server goes out.
    pub(super) fn note_answered(&mut self, key: &str) {
        let answered = &mut self.record.answered;
        if key.len() > KEY_BYTES || answered.iter().any(|known| known == key) {
            return;
        }
        if answered.len() >= ANSWERED_KEPT {
            answered.remove(0);
        }
        answered.push(key.to_owned());
        self.record_changed();
    }

    /// A call is about to go out. With no other call in the session, nothing that was answered can be replayed, and some
    /// servers number the questions of each call from 0.
    pub(super) fn forget_answered(&mut self) {
        if !self.record.answered.is_empty() && self.calls_in_session().is_empty() {
            self.record.answered.clear();
        }
    }

    /// Whether a request was answered, where its id cannot be another's after a restart of the server.
    pub(super) fn was_answered(&self, key: &str) -> bool {
        self.record.session.is_some() && self.record.answered.iter().any(|known| known == key)
    }
}
