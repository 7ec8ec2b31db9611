//! How one server task is polled: when next, and how many polls failed.

use core::time::Duration;

use super::{
    io::ExchangeId,
    refusals::{Proof, Refusals},
    time::doubled,
};
use crate::{
    domain::{Mono, Question, ServerTask, TaskKind, TaskState, Wall},
    protocol::TaskObject,
};

/// The default poll interval.
const CORE_PACE: Duration = Duration::from_secs(2);
const EXTENSION_PACE: Duration = Duration::from_secs(5);
/// No server is polled more or less often than this, whatever it asks for.
const FASTEST: Duration = Duration::from_millis(250);
const SLOWEST: Duration = Duration::from_secs(60);
/// The poll interval if the server sends notifications; polling is then only for safety.
const SAFETY: u32 = 4;
/// The first wait after a failed poll.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// How long we ask a server to keep a core task: a day, so that a task survives more than a lunch break.
pub(super) const TTL_WISH_MS: u64 = 86_400_000;
/// A `tasks/result` that was open for this long did its work, although it ended without an answer.
const FETCH_HELD: Duration = Duration::from_secs(10);
/// After a notification, the task is polled this soon.
const SOON: Duration = Duration::from_millis(250);

/// A task that the server does not know each time is gone; of several replicas, perhaps only one knows it.
const TASK_GONE: Proof = Proof {
    takes: Duration::from_secs(10),
    count: 4,
};

/// How long an answer waits for the server to ask its question again.
pub(super) const ASKED_AGAIN_WITHIN: Duration = Duration::from_secs(3);

/// The polling of one server task.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerTaskPoll {
    /// When it is polled next; `None` while a poll is in flight.
    pub(super) next: Option<Mono>,
    /// Failed polls in a row.
    pub(super) failures: u32,
    /// Why the last one did, in words.
    pub(super) why: Option<String>,
    /// The server did not know the task, and has not told of it since.
    pub(super) refusals: Option<Refusals>,
    /// How often `tasks/result` was refused as for a task that the server does not know, although polls find it.
    pub(super) result_refusals: u32,
    /// `tasks/result` is out on this exchange.
    pub(super) fetching: Option<ExchangeId>,
    /// When `tasks/result` was last sent, and from when it may be sent again.
    pub(super) fetched_at: Mono,
    pub(super) fetch_from: Mono,
    /// How often in a row it soon ended without an answer, while polls find the task.
    pub(super) fetch_failures: u32,
    /// The keys of the questions that came on that exchange.
    pub(super) asked_here: Vec<String>,
    /// Whether the server notifies us of its changes.
    pub(super) is_subscribed: bool,
    /// The questions known when the current poll was sent; it says nothing about later ones.
    pub(super) knew: usize,
    /// The key of the answer that last got no response, and since when: the server may have it.
    pub(super) unheard: Option<(String, Mono)>,
}

impl ServerTaskPoll {
    /// To be polled at `next`.
    pub(super) fn new(next: Mono) -> Self {
        Self {
            next: Some(next),
            ..Self::default()
        }
    }

    /// How long after a response the next poll is due, before jitter.
    pub(super) fn pace(&self, task: &ServerTask) -> Duration {
        let usual = match task.kind {
            TaskKind::Core => CORE_PACE,
            TaskKind::Extension => EXTENSION_PACE,
        };
        let asked_for = task.poll_ms.map_or(usual, Duration::from_millis);
        let pace = asked_for.clamp(FASTEST, SLOWEST);
        if self.is_subscribed {
            (pace * SAFETY).min(SLOWEST.max(pace))
        } else {
            pace
        }
    }

    /// A poll failed; returns how long to wait, before jitter: never less than the interval.
    pub(super) fn failed(&mut self, task: &ServerTask, why: String) -> Duration {
        let wait = doubled(FIRST_RETRY, self.failures, SLOWEST);
        self.failures = self.failures.saturating_add(1);
        self.why = Some(why);
        wait.max(self.pace(task))
    }

    /// `tasks/result` ended without an answer. Returns whether the one before had stayed open, or brought a question.
    pub(super) fn fetch_failed(&mut self, now: Mono, at_least: Duration) -> bool {
        self.fetching = None;
        if now.since(self.fetched_at) >= FETCH_HELD || !self.asked_here.is_empty() {
            self.fetch_failures = 0;
        }
        let wait = doubled(FIRST_RETRY, self.fetch_failures, SLOWEST);
        self.fetch_from = now.after(wait.max(at_least));
        self.fetch_failures = self.fetch_failures.saturating_add(1);
        self.fetch_failures == 1
    }

    /// The server does not know the task. Returns whether that proves that it is gone.
    pub(super) fn is_gone(&mut self, now: Mono) -> bool {
        if self.refusals.is_none() {
            // The waits for an outage before do not delay the proof.
            self.failures = 0;
        }
        Refusals::count_in(&mut self.refusals, TASK_GONE, now)
    }

    /// Whether the server will probably ask one of these questions again, under another id, because the stream that it was
    /// asked on has ended.
    pub(super) fn asks_again(&self, questions: &[Question]) -> bool {
        let has_ended = |question: &Question| {
            self.fetching.is_none() || !self.asked_here.contains(&question.key)
        };
        let mut unsent = questions.iter().filter(|question| question.is_unsent);
        unsent.any(|question| question.is_of_task_stream() && has_ended(question))
    }

    /// Polls soon, because the task has probably changed. While a poll is in flight, its response sets the next time.
    pub(super) fn look_soon(&mut self, now: Mono) {
        if let Some(next) = &mut self.next {
            *next = now.after(SOON).min(*next);
        }
    }

    /// The server can be reached again: tasks that wait after a failure are polled now.
    pub(super) fn back_in_contact(&mut self, now: Mono) {
        (self.fetch_from, self.fetch_failures) = (now, 0);
        if self.failures > 0
            && let Some(next) = &mut self.next
        {
            *next = now;
        }
    }
}

/// A server task that was just heard of; the rest of `shape` is applied later.
pub(super) fn made(
    shape: &TaskObject,
    kind: TaskKind,
    since: Wall,
    is_bound: Option<bool>,
) -> ServerTask {
    ServerTask {
        id: shape.id.clone(),
        kind,
        state: TaskState::Working,
        message: None,
        since,
        ttl_ms: shape.ttl_ms,
        poll_ms: shape.poll_ms,
        is_bound: is_bound.filter(|_| kind == TaskKind::Core),
        updated: None,
    }
}

/// Whether one time stamp of a server is before another; unreadable ones are in no order.
pub(super) fn is_before(one: Option<&str>, other: Option<&str>) -> bool {
    let read = |text: Option<&str>| text.and_then(Wall::parse_rfc3339);
    matches!((read(one), read(other)), (Some(one), Some(other)) if one < other)
}
