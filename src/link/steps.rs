//! The hot path: what a step does to its task.
//!
//! Nearly every event is the next step of the call whose stream it comes on. It is taken here in one piece; whatever else
//! an event can be is the machine's. Invariant: a step taken here leaves the same behind as one that went the long way.

use core::{cmp::Ordering, time::Duration};

use super::replay_gap::{Held, StepInterval};
use crate::{
    domain::{EventId, HistoryEvent, Progress, Stamp},
    link::{ActiveTask, ReplayGap, StreamState},
    protocol::{self, Incoming},
};

/// A replay comes in one go; an event later than this on a resumed stream shows that it is alive, and it is left alone.
pub(super) const REPLAY_PAUSES: Duration = Duration::from_secs(2);

impl ActiveTask {
    /// Whether its stream gave an event id, from which it can be resumed.
    pub(super) fn has_cursor(&self) -> bool {
        let attempt = self.attempt();
        attempt.is_some_and(|attempt| attempt.cursors.newest.is_some())
    }

    /// Whether its present attempt was made in this session.
    pub(super) fn is_of_session(&self, session_number: u64) -> bool {
        let attempt = self.attempt();
        attempt.is_some_and(|attempt| attempt.session_number == session_number)
    }

    /// Takes an event that is one step of the present attempt and nothing else, on a stream whose way back is known and
    /// which has no replay gap; its value says that it is new. Returns whether it was one; with any other event nothing has
    /// been done.
    pub(super) fn record_step(&mut self, now: Stamp, event: &mut Held) -> bool {
        let is_whole =
            matches!(self.replay_gap, ReplayGap::Whole) && !self.recovery.probe.is_replaying();
        if !self.has_cursor() || !is_whole || event.id.is_none() {
            return false;
        }
        let mut messages = protocol::decode(&event.data);
        let Some(Incoming::Progress {
            token,
            value,
            total,
            message,
        }) = messages.pop().filter(|_| messages.is_empty())
        else {
            return false;
        };
        let before = self.attempt().and_then(|attempt| attempt.last_value);
        if self.request_id() != Some(token.as_ref()) || before.is_none_or(|before| value <= before)
        {
            return false;
        }
        let Some(progress) = Progress::reported(value, total, message.map(Into::into)) else {
            return false;
        };
        self.on_progress(now, &token, progress, event.id.as_deref(), false);
        if let Some(event_id) = event.id.take() {
            self.advance_cursor(now, event_id, true);
        }
        self.has_brought(now);
        true
    }

    /// A step. Within an attempt a higher value is one, or the same value with another message, by which servers that don't
    /// know how far they are show that they work. On the call's own stream (`is_own`) a lower value is one too, where events
    /// come only once: some servers count each phase from the start. Replays and stale reports are not. Returns whether it
    /// was one.
    pub(super) fn on_progress(
        &mut self,
        now: Stamp,
        token: &str,
        progress: Progress,
        event_id: Option<&str>,
        is_own: bool,
    ) -> bool {
        if self.is_settled() {
            return false;
        }
        self.went_out(now);
        let is_resumed = self.recovery.kept.is_some()
            || !matches!(
                self.stream,
                StreamState::Open {
                    is_resumed: false,
                    ..
                }
            );
        let value = progress.value;
        let before = self.task.progress.as_ref().map(|progress| progress.value);
        let attempts = &mut self.task.attempts;
        let Some(attempt) = attempts.iter_mut().find(|attempt| attempt.token == token) else {
            return false;
        };
        let shown = self.task.progress.as_ref();
        // Where events can come twice, only a higher value is certain to be new.
        let has_replays = attempt.cursors.newest.is_some() && (is_resumed || !is_own);
        let comes_once = !has_replays && !self.task.resumability.checkpoint;
        let says_more = comes_once
            && progress.message.is_some()
            && shown.is_some_and(|shown| shown.message != progress.message);
        let is_news = |last: f64| match value.partial_cmp(&last) {
            Some(Ordering::Less) => comes_once && is_own,
            Some(Ordering::Equal) => says_more,
            _ => true,
        };
        if !attempt.last_value.is_none_or(is_news) {
            return false;
        }
        let is_first = attempt.last_value.replace(value).is_none();
        let is_where_it_left = is_first && attempt.number > 1 && before == Some(value);
        if is_first {
            self.step_interval = StepInterval::default();
        }
        if is_where_it_left {
            // A new attempt first says where it continues; that step is in the history already.
            let words = progress.message.as_deref();
            let reason = Some(words.unwrap_or("continues from its checkpoint").to_owned());
            let status = "running".to_owned();
            self.note(now, event_id, HistoryEvent::Status { status, reason });
            self.task.progress = Some(progress);
        } else {
            self.note_gap(now, value);
            if let Some(last) = self.activity.last_step {
                self.activity.longest_step = self.activity.longest_step.max(now.mono.since(last));
            }
            progress.clone_into_slot(&mut self.task.progress);
            self.note(now, event_id, HistoryEvent::Progress(progress));
        }
        self.step_interval.took(value);
        self.activity.last_step = Some(now.mono);
        true
    }

    /// Moves the cursors of the stream; they go to disk together with what the event changed. Returns whether this is the
    /// first id, with which the stream can be found again.
    pub(super) fn advance_cursor(&mut self, now: Stamp, event_id: EventId, has_data: bool) -> bool {
        let Some(attempt) = self.task.attempts.last_mut() else {
            return false;
        };
        let cursors = &mut attempt.cursors;
        let is_first = cursors.newest.is_none();
        cursors.first.get_or_insert_with(|| event_id.clone());
        if has_data {
            self.ids.add(&event_id);
            cursors.before = cursors.data.replace(event_id.clone());
        }
        cursors.newest = Some(event_id);
        self.task.resumability.stream = Some(true);
        self.activity.is_of_another = false;
        (self.saving.is_dirty, self.task.updated_at) = (true, now.wall);
        self.saving.is_shown_stale |= is_first;
        is_first
    }

    /// The stream has brought something new: whatever was doubted about it starts from the beginning.
    pub(super) fn has_brought(&mut self, now: Stamp) {
        if let StreamState::Open { since, .. } = self.stream {
            let gap = now.mono.since(since.max(self.activity.last_news));
            if gap > REPLAY_PAUSES {
                self.activity.live_gap = self.activity.live_gap.max(Some(gap));
            }
        }
        self.activity.has_news = true;
        self.recovery.succeeded();
        self.activity.last_news = now.mono;
    }
}
