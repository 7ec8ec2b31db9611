//! Answers to the server's questions that did not get through, and when each is sent again.

use core::time::Duration;
use std::collections::BTreeMap;

use super::{
    in_flight::{InFlight, RequestKind},
    time::{doubled, jittered},
};
use crate::domain::{Mono, QuestionSource, TaskId};

/// The first and the longest wait before an answer is sent again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// Answers that may be on their way at once.
pub(super) const AT_ONCE: usize = 16;
/// Answers that may wait until a program reads them; one that leaves more unread gets no others.
pub(super) const UNREAD: usize = 1024;
/// How soon there may be room for another one.
pub(super) const SOON: Duration = Duration::from_millis(200);
/// How often an answer is sent whose response head came each time and its body broke off: it most likely has arrived.
const CUTS: u32 = 2;
/// Answers whose tries are remembered.
const REMEMBERED: usize = 1024;
/// The message on the row of a task whose answers wait.
pub(super) const WAITS: &str =
    "answers are queued, oldest first: longhaul sends each server at most 1,000 requests an hour";

/// The tries of the answers that did not get through.
#[derive(Debug, Default)]
pub(super) struct Replies {
    tries: BTreeMap<String, Try>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Try {
    times: u32,
    cuts: u32,
    at: Mono,
}

/// When the answers of a task are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AnswersDue {
    /// There are none.
    #[default]
    Never,
    At(Mono),
    /// As soon as the stream of the call is open again, or then.
    WithStream(Mono),
}

impl AnswersDue {
    pub(super) fn at(self) -> Option<Mono> {
        match self {
            Self::Never => None,
            Self::At(at) | Self::WithStream(at) => Some(at),
        }
    }

    /// Whether they are sent now. A process that is leaving does not wait for the stream.
    pub(super) fn is_due(self, now: Mono, is_leaving: bool) -> bool {
        let is_due = self.at().is_some_and(|at| now >= at);
        is_due || is_leaving && matches!(self, Self::WithStream(_))
    }

    /// Restarts the wait for the stream.
    pub(super) fn restart_wait(&mut self) {
        if let Self::WithStream(_) = self {
            *self = Self::At(Mono(0));
        }
    }

    /// The stream is open.
    pub(super) fn stream_opened(&mut self) {
        if let Self::WithStream(at) = self {
            *at = Mono(0);
        }
    }
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
pub(super) fn name(id: &TaskId, key: &str, way: &QuestionSource) -> String {
    match way {
        QuestionSource::Request { .. } => key.to_owned(),
        QuestionSource::Round | QuestionSource::TaskInput => format!("{id} {key}"),
    }
}

pub(super) fn name_of(in_flight: &InFlight) -> Option<String> {
    match &in_flight.kind {
        RequestKind::Reply(Some((_, key))) => Some(key.clone()),
        RequestKind::Update(id, key) => Some(name(id, key, &QuestionSource::TaskInput)),
        _ => None,
    }
}

/// The key of a question that a request asks, by the server session that it belongs to.
pub(super) fn key_in(session_number: u64, request_id: &str) -> String {
    format!("{session_number}.{request_id}")
}

impl Replies {
    /// When an answer that failed may be sent again, if that is later than now.
    pub(super) fn retry_at(&self, name: &str, now: Mono) -> Option<Mono> {
        let tried = self.tries.get(name)?;
        (tried.at > now).then_some(tried.at)
    }

    /// An answer did not get through. Returns whether it is sent again.
    pub(super) fn failed(
        &mut self,
        in_flight: &InFlight,
        at_least: Option<Duration>,
        now: Mono,
        rng: &mut fastrand::Rng,
    ) -> bool {
        let Some(name) = name_of(in_flight) else {
            return false;
        };
        if self.tries.len() >= REMEMBERED {
            self.tries.retain(|_, tried| tried.at > now);
        }
        let tried = self.tries.entry(name).or_default();
        let wait = doubled(FIRST_WAIT, tried.times, LAST_WAIT).max(at_least.unwrap_or_default());
        tried.times = tried.times.saturating_add(1);
        tried.cuts += u32::from(in_flight.is_opened);
        tried.at = now.after(jittered(wait, rng));
        tried.cuts < CUTS
    }

    /// Whether an answer was sent before, and may have arrived.
    pub(super) fn was_tried(&self, name: &str) -> bool {
        self.tries.contains_key(name)
    }

    /// An answer has arrived.
    pub(super) fn arrived(&mut self, name: &str) {
        self.tries.remove(name);
    }
}
