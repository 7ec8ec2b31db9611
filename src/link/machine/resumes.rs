//! How a broken stream is requested again: when, from which event, and when it is given up.

use core::time::Duration;

use crate::{
    domain::{LostReason, Mono, Phase, Status, TaskId, UnknownReason},
    link::{
        Follow, Link, RequestKind, StreamState,
        checkpoint::BY_CHECKPOINT,
        recovery::{EMPTIES_BEFORE_PROBE, ProbeResult, ReplayProbe},
        stream_state::{ASK_AGAIN, HEAD_WITHIN, SLOW_POLL},
        time::{doubled, jittered},
    },
    protocol::Method,
};

/// Later probes of a stream that proved alive and stays empty.
const EMPTIES_BETWEEN_PROBES: u32 = 10;
/// Refused resumes after which an older cursor is tried.
const REFUSALS_BETWEEN_PROBES: u32 = 15;
/// Polls of a server that closes each replay at once keep at least this distance.
const POLL_AT_LEAST: Duration = Duration::from_millis(50);
/// Resumes that may follow each other within [`ASK_AGAIN`]: a 409 is soon over, and so is a short fault.
const SOON_TRIES: u32 = 12;

impl Link {
    /// Sets the time of the next resume: soon, then doubling; never before the server's `retry`.
    pub(super) fn ask_later(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let asked_for =
            Duration::from_millis(active.attempt().and_then(|a| a.retry_ms).unwrap_or(0));
        let lost_tries = active.recovery.empty_resumes.max(active.recovery.tries);
        let longest = if lost_tries > SOON_TRIES {
            SLOW_POLL
        } else {
            ASK_AGAIN
        };
        let ours = match lost_tries {
            0 => POLL_AT_LEAST,
            tries => jittered(
                doubled(Duration::from_secs(1), tries - 1, longest),
                &mut self.rng,
            ),
        };
        let until = self.now.mono.after(ours.max(asked_for));
        active.stream =
            StreamState::Waiting(until.max(active.recovery.not_before.unwrap_or(until)));
        active.saving.is_shown_stale = true;
        self.schedule.needs_advance = true;
    }

    /// Asks for a task's stream again, or probes whether the server still replays it.
    fn ask_for_stream(&mut self, id: &TaskId) {
        self.drop_reread(id);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(attempt) = active.task.attempts.last() else {
            return;
        };
        let cursors = &attempt.cursors;
        // A priming event of a resumed stream can be newer than events that were lost; without data, start at the first.
        let resume_from = cursors.data.as_ref().or(cursors.first.as_ref());
        let empty_resumes = active.recovery.empty_resumes;
        let is_due = empty_resumes == EMPTIES_BEFORE_PROBE
            || empty_resumes > EMPTIES_BEFORE_PROBE
                && empty_resumes.is_multiple_of(EMPTIES_BETWEEN_PROBES);
        // What refused an older cursor may have been a proxy that stood in for the server.
        let is_long_empty =
            empty_resumes > 0 && empty_resumes.is_multiple_of(4 * EMPTIES_BETWEEN_PROBES);
        // A refusal that does not pass may be of this cursor alone: some servers' replays also bring events of other
        // streams, whose ids are then taken for this one's. The event before may be such a one too; the first is not.
        let tries = active.recovery.tries;
        let is_refused = tries > 0 && tries.is_multiple_of(REFUSALS_BETWEEN_PROBES);
        let is_refused_again = is_refused && tries.is_multiple_of(2 * REFUSALS_BETWEEN_PROBES);
        let before = cursors.before.as_ref().filter(|_| !is_refused_again);
        let probe_from = before
            .or(cursors.first.as_ref())
            .filter(|from| Some(*from) != resume_from);
        let is_probe = (is_due || is_refused)
            && !active.recovery.has_failed_probe()
            && (!active.recovery.refuses_older_cursors || is_long_empty)
            && probe_from.is_some()
            && cursors.data.is_some();
        let cursor = if is_probe { probe_from } else { resume_from }.cloned();
        let newest = cursors.data.clone().filter(|_| is_probe);
        active.recovery.probe = newest.map_or(ReplayProbe::Off, |newest| ReplayProbe::Replaying {
            newest,
            has_matched: false,
        });
        (active.activity.has_news, active.activity.is_of_another) = (false, false);
        active.saving.is_shown_stale = true;
        let exchange = self.send_now(RequestKind::Stream(id.clone()), Method::Get { cursor });
        if let Some(in_flight) = self.in_flight.get_mut(exchange) {
            in_flight.until = Some(self.now.mono.after(HEAD_WITHIN));
        }
        if let Some(active) = self.tasks.get_mut(id) {
            active.stream = StreamState::Asking {
                on: exchange,
                is_probe,
            };
        }
    }

    pub(super) fn step_stream(&mut self, id: &TaskId) {
        self.check_silence(id);
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        let StreamState::Waiting(until) = active.stream else {
            return;
        };
        if self.now.mono < until || self.connection != super::ConnectionState::Ready {
            return;
        }
        // The modern era has no sessions and no streams to ask for again.
        let is_of_another = (self.record.session.is_some() || !self.record.is_stateful())
            && active
                .attempt()
                .is_some_and(|attempt| attempt.session_number != self.record.session_number);
        if is_of_another {
            let reason = LostReason::session_gone(None);
            return self.out_of_stream(id, Status::Lost(reason));
        }
        // What waits for the server to be reachable continues when a probe is answered.
        if !self.reachability.may_send(self.now) {
            return;
        }
        match self.spend_on_stream(id) {
            Ok(()) => self.ask_for_stream(id),
            Err(later) => {
                if let Some(active) = self.tasks.get_mut(id) {
                    active.stream = StreamState::Waiting(until.max(later));
                    active.saving.is_shown_stale = true;
                }
            }
        }
    }

    /// Takes a request from a stream's budget, or else from the link's, or says when there will be one.
    pub(super) fn spend_on_stream(&mut self, id: &TaskId) -> Result<(), Mono> {
        let own = self.tasks.get_mut(id).map_or(Err(self.now.mono), |active| {
            active.recovery.budget.spend(self.now.mono)
        });
        own.or_else(|own| {
            let ours = self.reachability.spend(self.now);
            ours.map_err(|ours| ours.min(own))
        })
    }

    pub(super) fn probe_ended(&mut self, id: &TaskId) {
        let now = self.now.mono;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let has_matched = std::mem::take(&mut active.recovery.probe).has_matched();
        if has_matched || active.activity.has_news {
            // It replays, so the stream lives; there is only nothing new on it.
            active.recovery.probe_result = ProbeResult::None;
            active.recovery.empty_resumes += 1;
            active.recovery.closed_empty += 1;
            let empty_resumes = active.recovery.empty_resumes;
            let times = empty_resumes.saturating_sub(EMPTIES_BEFORE_PROBE + 1);
            let wait = jittered(doubled(SLOW_POLL / 4, times, SLOW_POLL), &mut self.rng);
            active.stream = StreamState::Waiting(now.after(wait));
        } else {
            // The older event may have fallen out of the server's store just now; then the newest brings what is new.
            active.recovery.probe_result = ProbeResult::Failed;
            active.stream = StreamState::Waiting(now);
        }
    }

    /// Neither the newest cursor nor an older one brings anything: the replay is gone.
    pub(super) fn replay_gone(&mut self, id: &TaskId) {
        if self.hopes_for_kept(id) {
            return;
        }
        let said = "it no longer replays earlier events".to_owned();
        self.refused_for_long(id, Some(said));
    }

    /// The stream has no way back: the next handle, else `end`.
    pub(super) fn out_of_stream(&mut self, id: &TaskId, end: Status) {
        self.leave_stream(id, end, false);
    }

    /// The same, where the server may have been restarted. This is where resumabilities meet.
    pub(super) fn leave_stream(&mut self, id: &TaskId, end: Status, is_restarted: bool) {
        let now = self.now;
        let is_session_gone = matches!(end, Status::Lost(LostReason::SessionGone { .. }));
        let end = if is_session_gone && self.may_be_unnamed_task(id) {
            Status::Unknown(UnknownReason::BeforeTaskId)
        } else {
            end
        };
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let mut connections = active.take_connections();
        active.detached = None;
        if active.task.resumability.checkpoint {
            // Its server task is out of reach too, or it would not have come here.
            if active.task.server_task.take().is_some() {
                connections.extend(active.served.take().and_then(|served| served.fetching));
                active.task.resumability.task = false;
                active.task.server_task_id = None;
            }
            // In a session that is gone a late call is refused; in any other it runs whenever it comes.
            let is_adrift = active.phase() == Phase::Sent && !is_session_gone;
            if is_adrift || is_restarted || active.follow.is_none() {
                let mut follow = Follow::new(now.mono, active.activity.longest_step);
                (follow.is_adrift, follow.is_restarted) = (is_adrift, is_restarted && !is_adrift);
                active.follow = Some(follow);
            }
            let words = match end.reason() {
                Some(reason) => format!("{reason}; {BY_CHECKPOINT}"),
                None => BY_CHECKPOINT.to_owned(),
            };
            if active.notice(now, words) {
                active.task.gap_at = Some(now.wall);
            }
            self.save_vital();
        } else {
            self.conclude(id, end, None);
        }
        self.close_all(connections);
    }

    /// Whether the server may have made a task of a call, one that outlives the session, whose id never came.
    fn may_be_unnamed_task(&self, id: &TaskId) -> bool {
        let Some(active) = self.tasks.get(id) else {
            return false;
        };
        self.record.binds_tasks != Some(true)
            && active.task.server_task_id.is_none()
            && active
                .attempt()
                .is_some_and(|attempt| attempt.asks_for_task)
    }
}
