//! The gaps of resumed streams: what a server dropped between its replay and the live events is read a second time.
//!
//! Both the official Python SDKs send nothing of what a tool reports while they replay, and then continue with a priming
//! event, although their store has it. Live events wait meanwhile, so that the history stays in order, and the
//! cursor stays before the replay gap until all of it is there. At most one reading a replay gap, with the requests that are spare.

use crate::{
    domain::{Phase, TaskId},
    link::{
        ActiveTask, ConnectionState, ExchangeId, Link, ReplayGap, RequestKind, StreamState,
        replay_gap::{Held, Reread},
        stream_state::HEAD_WITHIN,
    },
    protocol::{self, ExchangeEvent, Incoming, Method},
};

/// After this many readings without a single find, this is a server that loses nothing, whatever it looks like.
const USELESS_REREADS: u32 = 8;

impl Link {
    /// What the replay gap makes of a new event of a task's stream: it is given back if it is to be taken now.
    pub(super) fn at_replay_gap(&mut self, id: &TaskId, event: Held) -> Option<Held> {
        let active = self.tasks.get_mut(id)?;
        let has_data = !event.data.is_empty();
        match &mut active.replay_gap {
            // A store may replay the priming events of earlier gaps, so that the first is not always the one that counts.
            ReplayGap::Expected | ReplayGap::Whole if !has_data => {
                let is_resumed = matches!(
                    active.stream,
                    StreamState::Open {
                        is_resumed: true,
                        ..
                    }
                );
                let cursors = active.task.attempts.last().map(|attempt| &attempt.cursors);
                let is_new = event.id.is_some()
                    && cursors.is_some_and(|cursors| {
                        cursors.newest != event.id && cursors.first != event.id
                    });
                if is_new && is_resumed {
                    active.replay_gap = ReplayGap::Primed;
                }
                Some(event)
            }
            ReplayGap::Primed if has_data => {
                self.reread_or_pass(id, event);
                None
            }
            ReplayGap::Reread(reread) => {
                if has_data {
                    reread.has_answer |= is_answer(&event.data);
                    let (on, has_room) = (reread.on, reread.hold(event));
                    if !has_room {
                        self.reread_over(id, on);
                    }
                }
                None
            }
            _ => Some(event),
        }
    }

    /// Whether a step is longer than those before it, on a resumed stream whose replay gap was not seen yet: it is left alone
    /// until the stream has been read a second time.
    pub(super) fn opens_replay_gap(
        &mut self,
        stream: Option<&TaskId>,
        of: Option<&TaskId>,
        value: f64,
    ) -> bool {
        let Some(active) = stream
            .filter(|id| of == Some(*id))
            .and_then(|id| self.tasks.get_mut(id))
        else {
            return false;
        };
        let is_torn = matches!(active.replay_gap, ReplayGap::Expected)
            && active.step_interval.missing_since(value).is_some();
        if is_torn {
            active.replay_gap = ReplayGap::Suspected;
        }
        is_torn
    }

    /// The first event behind a replay gap: it waits for a second reading, or is taken as it is where there can be none.
    pub(super) fn reread_or_pass(&mut self, id: &TaskId, event: Held) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let cursor = active.task.attempts.last().and_then(|attempt| {
            let cursors = &attempt.cursors;
            cursors.data.as_ref().or(cursors.first.as_ref()).cloned()
        });
        let may_read = event.id.is_some()
            && cursor.is_some()
            && self
                .useless_rereads
                .is_none_or(|times| times < USELESS_REREADS)
            && self.connection == ConnectionState::Ready
            && self.reachability.down.is_none()
            && self.reachability.spend_spare(self.now);
        if !may_read {
            active.replay_gap = ReplayGap::Passing;
            self.took(id, event);
            return self.passed(id);
        }
        let has_answer = is_answer(&event.data);
        let exchange = self.send_now(RequestKind::Reread(id.clone()), Method::Get { cursor });
        if let Some(active) = self.tasks.get_mut(id) {
            let mut reread = Reread::new(exchange);
            reread.has_answer = has_answer;
            reread.hold(event);
            active.replay_gap = ReplayGap::Reread(reread);
        }
    }

    /// What a second reading brings: first what was missing, then what waits.
    pub(super) fn reread_brought(
        &mut self,
        id: &TaskId,
        exchange: ExchangeId,
        arrival: ExchangeEvent,
    ) {
        let Some(active) = self.tasks.get_mut(id) else {
            return self.close(exchange);
        };
        let ReplayGap::Reread(reread) = &mut active.replay_gap else {
            return self.close(exchange);
        };
        if reread.on != exchange {
            return self.close(exchange);
        }
        let ExchangeEvent::Event {
            id: Some(event_id),
            data,
            ..
        } = arrival
        else {
            return active.heard(self.now);
        };
        if reread.meets(&event_id) {
            // Both readings have met: nothing is missing.
            return self.release(id, ReplayGap::Whole);
        }
        if data.is_empty() || active.ids.knows(&event_id) {
            return;
        }
        reread.has_found = true;
        active.heard(self.now);
        let event = Held {
            id: Some(event_id),
            data,
        };
        self.took(id, event);
        if self.tasks.get(id).is_none_or(|active| !is_awaited(active)) {
            self.drop_reread(id);
        }
    }

    /// A second reading ended before it came to what waits.
    pub(super) fn reread_over(&mut self, id: &TaskId, exchange: ExchangeId) {
        self.close(exchange);
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        let ReplayGap::Reread(reread) = &active.replay_gap else {
            return;
        };
        if reread.on != exchange {
            return;
        }
        if !reread.has_answer && !matches!(active.stream, StreamState::Open { .. }) {
            // The stream is asked for again: taking what waits now would lose what did not come.
            return self.drop_reread(id);
        }
        self.release(id, ReplayGap::Passing);
    }

    /// What waited is taken in its turn.
    fn release(&mut self, id: &TaskId, replay_gap: ReplayGap) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let ReplayGap::Reread(reread) = std::mem::replace(&mut active.replay_gap, replay_gap)
        else {
            return;
        };
        self.close(reread.on);
        let useless = self.useless_rereads.filter(|_| !reread.has_found);
        self.useless_rereads = useless.map(|times| times.saturating_add(1));
        for event in reread.held {
            let is_open = self.tasks.get(id).is_some_and(|active| {
                let is_new = event.id.as_ref().is_none_or(|id| !active.ids.knows(id));
                is_new && is_awaited(active)
            });
            if is_open {
                self.took(id, event);
            }
        }
        self.passed(id);
    }

    fn passed(&mut self, id: &TaskId) {
        if let Some(active) = self.tasks.get_mut(id)
            && matches!(active.replay_gap, ReplayGap::Passing)
        {
            active.replay_gap = ReplayGap::Whole;
        }
    }

    /// The stream is asked for again from before the replay gap, so that nothing of what waits is needed.
    pub(super) fn drop_reread(&mut self, id: &TaskId) {
        if let Some(active) = self.tasks.get_mut(id)
            && let ReplayGap::Reread(reread) = std::mem::take(&mut active.replay_gap)
        {
            self.close(reread.on);
        }
    }

    /// The stream ended while it is read a second time. Returns whether nothing is to be done about that: its answer
    /// waits already, or the second reading continues as the stream, because the server closes one for the other.
    pub(super) fn goes_on_reading(&mut self, id: &TaskId, is_broken: bool) -> bool {
        let Some(active) = self.tasks.get_mut(id) else {
            return false;
        };
        let ReplayGap::Reread(reread) = &active.replay_gap else {
            return false;
        };
        if reread.has_answer {
            return true;
        }
        let on = reread.on;
        let Some(in_flight) = self.in_flight.get_mut(on).filter(|_| !is_broken) else {
            self.drop_reread(id);
            return false;
        };
        in_flight.kind = RequestKind::Stream(id.clone());
        active.replay_gap = ReplayGap::Expected;
        active.stream = if in_flight.is_opened {
            in_flight.until = None;
            StreamState::open(on, true, self.now.mono)
        } else {
            in_flight.until = Some(self.now.mono.after(HEAD_WITHIN));
            StreamState::Asking {
                on,
                is_probe: false,
            }
        };
        true
    }
}

/// Whether more of its stream can still mean something.
fn is_awaited(active: &ActiveTask) -> bool {
    !active.is_settled() && active.phase() != Phase::Ended
}

/// Whether an event holds an answer to a request of ours.
pub(super) fn is_answer(data: &str) -> bool {
    protocol::decode(data)
        .iter()
        .any(|message| matches!(message, Incoming::Response { .. }))
}
