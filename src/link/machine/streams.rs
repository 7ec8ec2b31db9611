//! What arrives on exchanges, and how a broken stream is asked for again.

use core::time::Duration;

use super::Link;
use crate::{
    domain::{
        Era, EventId, LostReason, Phase, ProtocolVersion, Status, TaskErrorKind, TaskId,
        UnknownReason, text,
    },
    link::{
        checkpoint::{BY_CHECKPOINT, Follow},
        in_flight::{InFlight, RequestKind},
        io::ExchangeId,
        negotiation::{HEADER_MISMATCH, refuses_what_it_speaks},
        reachability::{doubled, jittered},
        recovery::{ProbeResult, ReplayProbe},
        replay_gap::{Held, ReplayGap},
        stream_state::{HEAD_WITHIN, StreamState},
    },
    protocol::{self, Body, ExchangeEvent, HttpError, Incoming, Method},
};

/// Resumes without news after which an older cursor has to prove that the server still replays.
const EMPTIES_BEFORE_PROBE: u32 = 2;
/// Later probes of a stream that proved alive and stays empty.
const EMPTIES_BETWEEN_PROBES: u32 = 10;
/// The longest wait between polls of a stream that brings nothing.
const SLOW_POLL: Duration = Duration::from_secs(60);
/// Polls of a server that closes each replay at once keep at least this distance.
const POLL_AT_LEAST: Duration = Duration::from_millis(50);
/// The longest wait before a stream is asked for again that did not get as far as an answer.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// Resumes that may follow each other within [`ASK_AGAIN`]: a 409 is soon over, and so is a short fault.
const SOON_TRIES: u32 = 12;
/// Failing resumes after which a checkpoint is the better way.
const TRIES_BEFORE_CHECKPOINT: u32 = 3;
/// Fresh sessions that a refused call may cost before it is given up.
const REQUEUES: u32 = 3;

impl Link {
    /// One arrival, to whoever waits for it.
    pub(super) fn arrived(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        let Some(in_flight) = self.in_flight.get_mut(exchange) else {
            return;
        };
        self.reading.session_number = match in_flight.kind {
            // Opened before there was a session.
            RequestKind::LegacySse | RequestKind::Handshake { .. } => self.record.session_number,
            _ => in_flight.session_number,
        };
        if let ExchangeEvent::MoreRequests(more) = arrival {
            return self.took_more(exchange, more);
        }
        self.reading.is_modern = in_flight.is_modern;
        // The hot path first: an event of a task's stream.
        if let (RequestKind::Stream(id), ExchangeEvent::Event { .. } | ExchangeEvent::Alive) =
            (&in_flight.kind, &arrival)
        {
            let id = id.clone();
            return self.stream_brought(&id, exchange, arrival);
        }
        if let (RequestKind::Reread(id), ExchangeEvent::Event { .. } | ExchangeEvent::Alive) =
            (&in_flight.kind, &arrival)
        {
            let id = id.clone();
            return self.reread_brought(&id, exchange, arrival);
        }
        if matches!(in_flight.kind, RequestKind::Standalone) && brings_more(&arrival) {
            return self.standalone_brought(exchange, arrival);
        }
        let is_legacy_sse = matches!(in_flight.kind, RequestKind::LegacySse) && in_flight.is_opened;
        let is_posted = in_flight.is_by_legacy_sse && in_flight.awaits_answer();
        if is_legacy_sse && brings_more(&arrival) {
            return self.legacy_sse_brought(exchange, arrival);
        }
        if is_posted && self.was_posted(exchange, &arrival) {
            return;
        }
        let Some(in_flight) = self.in_flight.get_mut(exchange) else {
            return;
        };
        if let ExchangeEvent::Event { id, data, .. } = &arrival {
            let of = match &in_flight.kind {
                RequestKind::Fetch(id) => Some(id.clone()),
                _ => None,
            };
            if id.is_some() && !in_flight.is_modern {
                // Whoever numbers the answer to a handshake numbers those of calls too.
                self.gives_ids(None, true);
            }
            self.in_flight.last_traffic = self.now.mono;
            if let Some(id) = &of
                && let Some(active) = self.tasks.get_mut(id)
            {
                active.heard(self.now);
            }
            self.read(of.as_ref(), None, data);
            // Still there, so this was not its answer.
            if let Some(in_flight) = self.in_flight.get_mut(exchange) {
                in_flight.came = no_answer(data).or_else(|| in_flight.came.take());
            }
            return;
        }
        if let ExchangeEvent::Opened { body, session } = arrival {
            let Some(in_flight) = self.in_flight.mark_opened(exchange, self.now.mono) else {
                return;
            };
            self.published.is_server_stale |= in_flight.sent_at.is_some();
            in_flight.came = no_message(&body).filter(|_| in_flight.request_id.is_some());
            match &mut in_flight.kind {
                RequestKind::Handshake { session: slot } => *slot = session,
                RequestKind::Stream(id) => {
                    let (id, session_number) = (id.clone(), in_flight.session_number);
                    self.session_lives(session_number);
                    self.stream_opened(&id, exchange, &body);
                }
                RequestKind::Reread(id) if body != Body::Stream => {
                    let id = id.clone();
                    self.reread_over(&id, exchange);
                }
                RequestKind::Standalone => self.standalone_opened(&body),
                _ => {}
            }
            return self.mark_reachable();
        }
        // What names an endpoint on any other stream means nothing.
        if brings_more(&arrival) {
            return;
        }
        self.needs_advance = true;
        let Some(in_flight) = self.in_flight.remove(exchange) else {
            return;
        };
        self.reachability.prober_gone();
        if let RequestKind::Stream(id) = &in_flight.kind
            && self.is_kept(id, exchange)
        {
            return self.kept_ended(&id.clone(), &arrival);
        }
        if matches!(in_flight.kind, RequestKind::LegacySse) && self.legacy_sse.is_some() {
            return self.legacy_sse_ended(&match arrival {
                ExchangeEvent::Broken { why } => why,
                ExchangeEvent::TooLarge { cap } => over_the_cap(cap),
                _ => "its one stream ended".to_owned(),
            });
        }
        if let RequestKind::Reread(id) = &in_flight.kind {
            return self.reread_over(id, exchange);
        }
        match arrival {
            ExchangeEvent::Ended if in_flight.is_opened => self.exchange_ended(&in_flight, None),
            ExchangeEvent::Ended => {
                self.exchange_ended(&in_flight, Some("the connection was closed".to_owned()));
            }
            ExchangeEvent::Broken { why } => self.exchange_ended(&in_flight, Some(why)),
            ExchangeEvent::TooLarge { cap } => self.too_large(&in_flight, cap),
            ExchangeEvent::Refused(refusal) => {
                let is_gateway = matches!(refusal.status, 502..=504);
                if !is_gateway {
                    self.mark_reachable();
                } else if self.reachability.down().is_some() {
                    // A gateway that answers for a server that is down is no sign of the server.
                    self.mark_unreachable(
                        format!("HTTP {}", refusal.status),
                        false,
                        refusal.retry_after,
                    );
                }
                match &in_flight.kind {
                    RequestKind::Stream(id) if in_flight.is_modern => {
                        self.modern_call_refused(&id.clone(), &in_flight, &refusal);
                    }
                    RequestKind::Stream(id) if self.wants_new_legacy_sse(&in_flight, &refusal) => {
                        self.requeue(&id.clone(), &refusal);
                        self.legacy_sse_ended(&format!("HTTP {}", refusal.status));
                    }
                    RequestKind::Stream(id) => {
                        self.stream_refused(&id.clone(), in_flight.session_number, &refusal);
                    }
                    _ if in_flight.is_answered_by(&refusal) => {
                        let error = refusal.error.clone().unwrap_or_default();
                        self.in_flight_answered(in_flight, Err(error));
                    }
                    _ => self.short_refused(&in_flight, *refusal),
                }
            }
            ExchangeEvent::NotSent { why, is_refused } => {
                self.mark_unreachable(why.clone(), is_refused, None);
                self.unanswered(&in_flight, why, true);
            }
            ExchangeEvent::NoAnswer { why } => {
                self.mark_unreachable(why.clone(), false, None);
                self.unanswered(&in_flight, why, false);
            }
            ExchangeEvent::Untrusted { why } => {
                self.mark_unreachable(
                    format!("it could not prove who it is: {why}"),
                    false,
                    Some(SLOW_POLL),
                );
                self.unanswered(&in_flight, why, true);
            }
            ExchangeEvent::Opened { .. }
            | ExchangeEvent::Event { .. }
            | ExchangeEvent::Endpoint { .. }
            | ExchangeEvent::MoreRequests(_)
            | ExchangeEvent::Alive => {}
        }
    }

    /// An exchange took more requests than one. What a person asked for, and the looks at a pace that the server sets,
    /// are beyond the budget; so are theirs.
    fn took_more(&mut self, exchange: ExchangeId, more: u32) {
        self.in_flight.sent += u64::from(more);
        let now = self.now;
        match self
            .in_flight
            .get(exchange)
            .map(|in_flight| &in_flight.kind)
        {
            Some(RequestKind::Stream(id)) => {
                if let Some(active) = self.tasks.get_mut(id)
                    && !matches!(active.stream, StreamState::Calling(_))
                {
                    active.recovery.budget.charge(now.mono, more);
                }
            }
            Some(RequestKind::Standalone) => self.standalone.charge(now.mono, more),
            Some(RequestKind::Poll(_)) | None => {}
            Some(_) => self.reachability.charge(now, more),
        }
    }

    pub(super) fn unanswered(&mut self, in_flight: &InFlight, why: String, is_unsent: bool) {
        match &in_flight.kind {
            RequestKind::Stream(id) => self.stream_unanswered(&id.clone(), &why, is_unsent),
            _ => self.short_failed(in_flight, why, None),
        }
    }

    pub(super) fn exchange_ended(&mut self, in_flight: &InFlight, broken: Option<String>) {
        match &in_flight.kind {
            RequestKind::Stream(id) => self.stream_ended(&id.clone(), broken),
            RequestKind::Announce if broken.is_none() => self.announced(),
            RequestKind::Cancel(id) if broken.is_none() && in_flight.request_id.is_none() => {
                self.cancel_taken(&id.clone());
            }
            RequestKind::Reply(Some((id, key))) if broken.is_none() => {
                self.question_delivered(&id.clone(), &key.clone());
            }
            // Whatever it said, somebody is there.
            RequestKind::Ping { verifies: None } if broken.is_none() => {}
            RequestKind::Reply(None) | RequestKind::TerminateSession => {}
            // An answer was due and did not come; where it did, the request was removed with it.
            _ => self.short_failed(
                in_flight,
                in_flight
                    .came
                    .clone()
                    .or(broken)
                    .unwrap_or_else(|| "no answer".to_owned()),
                None,
            ),
        }
    }

    fn too_large(&mut self, in_flight: &InFlight, cap: usize) {
        match &in_flight.kind {
            RequestKind::Stream(id) => {
                let id = id.clone();
                if let Some(active) = self.tasks.get_mut(&id) {
                    active.stream = StreamState::None;
                }
                let cap = u64::try_from(cap).unwrap_or(u64::MAX);
                self.out_of_stream(&id, Status::Lost(LostReason::TooMuch { cap }), false);
            }
            _ => self.short_failed(in_flight, over_the_cap(cap), None),
        }
    }

    pub(super) fn stream_opened(&mut self, id: &TaskId, exchange: ExchangeId, body: &Body) {
        let now = self.now;
        self.needs_advance = true;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.activity.last_byte = now;
        if active.recovery.cut.is_some() {
            // Our own asking again is no new contact.
            active.activity.contact_since = now.mono;
        }
        active.saving.is_shown_stale = true;
        (active.recovery.refusals, active.recovery.not_before) = (None, None);
        let is_stream = matches!(body, Body::Stream | Body::Json);
        active.went_out(now);
        match active.stream {
            StreamState::Calling(_) if is_stream => {
                active.stream = StreamState::Open {
                    on: exchange,
                    is_resumed: false,
                    since: now.mono,
                };
                if let Some(attempt) = active.attempt_mut() {
                    attempt.phase = Phase::Open;
                }
                active.touch(now);
                if active
                    .control
                    .as_ref()
                    .is_some_and(|control| control.what == crate::domain::ControlKind::Resuming)
                {
                    active.set_control(now, None);
                }
                self.saver.urge(now.mono);
            }
            StreamState::Calling(_) if *body == Body::Empty => {
                let words = "the server took the call without answering it (HTTP 202)".to_owned();
                self.fail(id, TaskErrorKind::Protocol, None, words);
            }
            StreamState::Calling(_) => {
                if let Some(words) = no_message(body) {
                    active.remark(now, words);
                }
                self.out_of_stream(id, Status::Unknown(UnknownReason::HttpStatus(200)), false);
            }
            StreamState::Asking { is_probe, .. } if is_stream => {
                active.stream = StreamState::Open {
                    on: exchange,
                    is_resumed: true,
                    since: now.mono,
                };
                (active.activity.has_news, active.activity.live_gap) = (false, None);
                active.replay_gap = ReplayGap::Expected;
                // The time without contact is no step of the tool.
                active.activity.last_step = None;
                if !is_probe && active.note_back(now) {
                    self.saver.touch(now.mono);
                }
            }
            StreamState::Asking { .. } => {
                active.stream = StreamState::None;
                self.close(exchange);
                self.out_of_stream(id, Status::Unknown(UnknownReason::NoReplay), false);
            }
            _ => {}
        }
    }

    /// An event or a sign of life on a task's stream.
    fn stream_brought(&mut self, id: &TaskId, exchange: ExchangeId, arrival: ExchangeEvent) {
        let now = self.now;
        if self.is_kept(id, exchange) && !self.came_on_kept(id, &arrival) {
            return;
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.heard(now);
        let ExchangeEvent::Event {
            id: event_id,
            retry_ms,
            data,
        } = arrival
        else {
            return;
        };
        let Some(attempt) = active.task.attempts.last_mut() else {
            return;
        };
        if let Some(retry) = retry_ms {
            // A day at most: a wait that nobody will live to see is a mistake.
            attempt.retry_ms = Some(retry.min(86_400_000));
            active.saving.is_dirty = true;
        }
        let mut event = Held { id: event_id, data };
        if active.took_step(now, &mut event) {
            self.in_flight.last_traffic = now.mono;
            return self.saver.touch(now.mono);
        }
        let Some(attempt) = active.task.attempts.last_mut() else {
            return;
        };
        let has_data = !event.data.is_empty();
        let mut is_bare = false;
        if let Some(event_id) = &event.id {
            let cursors = &attempt.cursors;
            let is_known =
                has_data && (active.ids.knows(event_id) || cursors.data.as_ref() == Some(event_id));
            if active.recovery.probe.is_replaying() {
                active.recovery.probe.take(event_id, is_known);
                return;
            }
            if is_known {
                return;
            }
        } else if active.recovery.probe.is_replaying() {
            return;
        } else if has_data
            && attempt.cursors.newest.is_none()
            && active.task.resumability.stream.is_none()
            // The modern era has no ids, which says nothing of this server's other streams.
            && attempt.version.map(ProtocolVersion::era) != Some(Era::Modern)
        {
            let is_answer = !matches!(active.stream, StreamState::Open { .. })
                || protocol::decode(&event.data)
                    .iter()
                    .any(|message| matches!(message, Incoming::Response { .. }));
            // A bare answer says nothing about streams; a step without an id does.
            if !is_answer {
                active.task.resumability.stream = Some(false);
                active.touch(now);
                is_bare = true;
            }
        }
        if is_bare {
            self.gives_ids(Some(id), false);
        }
        if has_data {
            self.leave_kept(id, &event);
        }
        if let Some(event) = self.at_replay_gap(id, event) {
            self.took(id, event);
        }
    }

    /// Takes an event of a task's stream that is new, in its turn.
    pub(super) fn took(&mut self, id: &TaskId, event: Held) {
        let now = self.now;
        let has_data = !event.data.is_empty();
        let is_ours = !has_data || self.read(Some(id), event.id.as_deref(), &event.data);
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        if matches!(active.replay_gap, ReplayGap::Suspected) {
            return self.reread_or_pass(id, event);
        }
        if is_ours && let Some(event_id) = event.id {
            self.came_to(id, event_id, has_data);
        }
        let Some(active) = self.tasks.get_mut(id).filter(|_| is_ours && has_data) else {
            return;
        };
        active.has_brought(now);
        self.in_flight.last_traffic = now.mono;
    }

    /// Moves the cursors of a stream.
    fn came_to(&mut self, id: &TaskId, event_id: EventId, has_data: bool) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if active.is_modern() {
            // That era has no resumption (MCP 2026-07-28, earlier Streamable HTTP revisions): an id that a server sends
            // anyway must not make a silent stream look like one that can be requested again.
            return self.saver.touch(now.mono);
        }
        if active.came_to(now, event_id, has_data) {
            // From here on it can be resumed: that has to be on disk at once.
            self.saver.urge(now.mono);
            self.gives_ids(Some(id), true);
        } else {
            self.saver.touch(now.mono);
        }
    }

    /// What was seen of this server's streams: it prices the next call before it is sent.
    fn gives_ids(&mut self, task: Option<&TaskId>, seen: bool) {
        let tool = task.and_then(|id| Some(self.tasks.get(id)?.task.tool.clone()));
        if let Some(tool) = tool
            && self.record.gave_ids.insert(tool, seen) != Some(seen)
        {
            self.record_changed();
        }
        if self.record.gives_ids != Some(seen) {
            self.record.gives_ids = Some(seen);
            self.record_changed();
        }
    }

    /// The body of a task's stream ended. Only the response is an end; this is not.
    fn stream_ended(&mut self, id: &TaskId, broken: Option<String>) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.saving.is_shown_stale = true;
        if self.goes_on_reading(id, broken.is_some()) {
            return;
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if active.phase() == Phase::Ended || active.is_settled() || !active.is_active() {
            active.stream = StreamState::None;
            return;
        }
        if self.recheck_ended(id, broken.is_some()) {
            return;
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let line = std::mem::replace(&mut active.stream, StreamState::None);
        if active.is_modern() {
            let why = broken.unwrap_or_else(|| "the stream ended without an answer".to_owned());
            active.note_cut(now, &why);
            let end = self.end_of_modern_call(id, &why);
            return self.out_of_stream(id, end, false);
        }
        // Servers that let a stream be resumed hang up on purpose too; there only the resumed stream tells.
        let is_resumable = active
            .attempt()
            .is_some_and(|attempt| attempt.cursors.newest.is_some());
        let was_cancelled = !is_resumable
            && active.control.as_ref().is_some_and(|control| {
                control.what == crate::domain::ControlKind::Cancelling
                    && control.is_taken
                    && broken.is_none()
            });
        if was_cancelled {
            active.remark(
                now,
                "the server ended the stream after the cancel".to_owned(),
            );
            return self.conclude(id, Status::Cancelled, None);
        }
        if let Some(detached) = active.detached.take() {
            return self.out_of_stream(id, Status::Lost(detached.reason), false);
        }
        let is_probe = active.recovery.probe != ReplayProbe::Off;
        let is_whole = broken.is_none();
        let why = broken
            .clone()
            .unwrap_or_else(|| "its stdout ended".to_owned());
        if let Some(why) = broken {
            active.note_cut(now, &why);
        } else if is_probe {
            return self.probe_ended(id);
        }
        let is_resumed = matches!(
            line,
            StreamState::Open {
                is_resumed: true,
                ..
            } | StreamState::Asking { .. }
        );
        active.recovery.probe.stop_dropping();
        if is_resumed && !active.activity.has_news {
            if active.recovery.has_failed_probe() && is_whole {
                return self.replay_gone(id);
            }
            active.recovery.note_empty_resume();
        }
        if is_resumable {
            self.ask_later(id);
        } else {
            let end = self.end_without_id(id, &why);
            self.out_of_stream(id, end, false);
        }
    }

    /// What becomes of a call whose stream cannot be asked for again: that of a process is gone with it.
    pub(super) fn end_without_id(&self, id: &TaskId, why: &str) -> Status {
        if self.record.is_process() {
            return Status::Lost(LostReason::ProcessEnded {
                why: why.to_owned(),
            });
        }
        Status::Unknown(self.window_without_id(id))
    }

    /// Why a stream of which no id is known cannot be asked for again.
    pub(super) fn window_without_id(&self, id: &TaskId) -> UnknownReason {
        let stream = self
            .tasks
            .get(id)
            .and_then(|active| active.task.resumability.stream);
        if stream.or(self.record.gives_ids()) == Some(false) {
            UnknownReason::NoIds
        } else {
            UnknownReason::BeforeFirstId
        }
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
            active.recovery.note_empty_resume();
            let times = active
                .recovery
                .empty_resumes
                .saturating_sub(EMPTIES_BEFORE_PROBE + 1);
            let wait = jittered(doubled(SLOW_POLL / 4, times, SLOW_POLL), &mut self.rng);
            active.stream = StreamState::Waiting {
                until: now.after(wait),
            };
        } else {
            // The older event may have fallen out of the server's store just now; then the newest brings what is new.
            active.recovery.probe_result = ProbeResult::Failed;
            active.stream = StreamState::Waiting { until: now };
        }
    }

    /// Neither the newest cursor nor an older one brings anything: the replay is gone.
    pub(super) fn replay_gone(&mut self, id: &TaskId) {
        if self.hopes_for_kept(id) {
            return;
        }
        let said = Some("it no longer brings back what it has sent before".to_owned());
        self.out_of_stream(
            id,
            Status::Lost(LostReason::ReplayGone { server_text: said }),
            false,
        );
    }

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
        active.stream = StreamState::Waiting {
            until: until.max(active.recovery.not_before.unwrap_or(until)),
        };
        active.saving.is_shown_stale = true;
        self.needs_advance = true;
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
        let probe_from = cursors
            .before
            .as_ref()
            .or(cursors.first.as_ref())
            .filter(|from| Some(*from) != resume_from);
        let empty_resumes = active.recovery.empty_resumes;
        let is_due = empty_resumes == EMPTIES_BEFORE_PROBE
            || empty_resumes > EMPTIES_BEFORE_PROBE
                && empty_resumes.is_multiple_of(EMPTIES_BETWEEN_PROBES);
        let is_probe = is_due
            && !active.recovery.has_failed_probe()
            && !active.recovery.refuses_older_cursors
            && probe_from.is_some()
            && cursors.data.is_some();
        let cursor = if is_probe { probe_from } else { resume_from }.cloned();
        let newest = cursors.data.clone().filter(|_| is_probe);
        active.recovery.probe = newest.map_or(ReplayProbe::Off, |newest| ReplayProbe::Replaying {
            newest,
            has_matched: false,
        });
        active.activity.has_news = false;
        active.saving.is_shown_stale = true;
        let exchange = self.send(
            RequestKind::Stream(id.clone()),
            Method::Get { cursor },
            None,
            None,
        );
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

    /// A call or a resume got no response head.
    fn stream_unanswered(&mut self, id: &TaskId, why: &str, is_unsent: bool) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.saving.is_shown_stale = true;
        match std::mem::replace(&mut active.stream, StreamState::None) {
            StreamState::Calling(_) if is_unsent && self.record.session_number == 0 => {
                self.fail(
                    id,
                    TaskErrorKind::Unreachable,
                    None,
                    format!("{why}; nothing was sent"),
                );
            }
            StreamState::Calling(_) if is_unsent => self.unsend(id),
            StreamState::Calling(_) if active.is_modern() => {
                active.note_cut(now, why);
                let end = self.end_of_modern_call(id, why);
                self.out_of_stream(id, end, false);
            }
            StreamState::Calling(_) => {
                active.went_out(now);
                active.note_cut(now, why);
                let end = if self.record.is_process() {
                    self.end_without_id(id, why)
                } else {
                    Status::Unknown(UnknownReason::BeforeFirstId)
                };
                self.out_of_stream(id, end, false);
            }
            _ if active
                .attempt()
                .is_none_or(|attempt| attempt.cursors.newest.is_none()) =>
            {
                active.note_cut(now, why);
                let window = self.window_without_id(id);
                self.out_of_stream(id, Status::Unknown(window), false);
            }
            _ => {
                active.note_cut(now, why);
                active.recovery.probe.stop_dropping();
                // Where no connection was made, the link's own back-off says when.
                let wait = if is_unsent {
                    Duration::ZERO
                } else {
                    active.recovery.note_try();
                    doubled(Duration::from_millis(250), active.recovery.tries, ASK_AGAIN)
                };
                active.stream = StreamState::Waiting {
                    until: now.mono.after(jittered(wait, &mut self.rng)),
                };
            }
        }
        self.saver.touch(now.mono);
    }

    /// What a plain call of the modern era ends as when its connection does: the server must cancel it, unless it may
    /// have made a task of it whose id never came.
    pub(super) fn end_of_modern_call(&self, id: &TaskId, why: &str) -> Status {
        if self.record.is_process() {
            return self.end_without_id(id, why);
        }
        if self.may_be_task(id) {
            return Status::Unknown(UnknownReason::BeforeTaskId);
        }
        Status::Lost(LostReason::CancelledByDisconnect {
            why: why.to_owned(),
        })
    }

    /// A call of the modern era was answered with something other than 2xx: nothing of it runs.
    fn modern_call_refused(&mut self, id: &TaskId, in_flight: &InFlight, refusal: &HttpError) {
        let is_disproved = Self::disproves_era(true, refusal);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.saving.is_shown_stale = true;
        active.stream = StreamState::None;
        match refusal.status {
            401 | 403 => {
                self.unsend(id);
                self.auth_refused(refusal);
            }
            _ if is_disproved => {
                self.requeue(id, refusal);
                self.renegotiate(in_flight, refusal.server_text.as_deref());
            }
            400 | 404 => {
                let error = refusal.error.clone().unwrap_or_default();
                let is_stale = error.code == HEADER_MISMATCH || refuses_what_it_speaks(refusal);
                if is_stale && active.recovery.tries == 0 {
                    // Our headers follow from the list of tools, which is out of date.
                    self.record.tools_at = None;
                    return self.requeue(id, refusal);
                }
                self.fail(id, TaskErrorKind::Refused, Some(error.code), error.message);
            }
            // A gateway may have passed the call on before it gave up.
            408 | 425 | 500..=502 | 504..=599 => {
                let end = self.end_of_modern_call(id, &format!("HTTP {}", refusal.status));
                let end = match end {
                    Status::Unknown(_) => end,
                    _ => Status::Unknown(UnknownReason::HttpStatus(refusal.status)),
                };
                self.out_of_stream(id, end, false);
            }
            _ => self.refused_call(id, refusal),
        }
    }

    /// A call, a resume or a probe was answered with something other than 2xx.
    fn stream_refused(&mut self, id: &TaskId, sent_in: u64, refusal: &HttpError) {
        let now = self.now;
        let has_session = self.record.session.is_some();
        let is_of_another = sent_in != self.record.session_number || !self.record.is_initialized;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.saving.is_shown_stale = true;
        if self.recheck_refused(id, refusal) {
            return;
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let line = std::mem::replace(&mut active.stream, StreamState::None);
        let is_probe = matches!(line, StreamState::Asking { is_probe: true, .. });
        let is_call = matches!(line, StreamState::Calling(_));
        active.recovery.probe.stop_dropping();
        let said = refusal.server_text.clone();
        match refusal.status {
            401 | 403 => {
                if is_call {
                    self.unsend(id);
                } else {
                    active.stream = StreamState::Waiting { until: now.mono };
                }
                self.auth_refused(refusal);
            }
            // What was sent in a session that is known to be gone says nothing of the present one.
            400 | 404 | 410 if is_of_another && is_call => self.requeue(id, refusal),
            400 | 404 | 410 if is_of_another => {
                let reason = LostReason::SessionGone {
                    after_restart: false,
                    server_text: said,
                };
                self.out_of_stream(id, Status::Lost(reason), false);
            }
            404 | 410 if has_session && is_call => {
                self.requeue(id, refusal);
                self.doubt_session(said.as_deref());
            }
            404 | 410 if has_session => self.resume_refused(id, refusal),
            // It took the newest cursor and refuses an older one: so it knows the newest.
            400 | 405..=407 | 411..=424 if is_probe => {
                active.recovery.refuses_older_cursors = true;
                active.recovery.note_empty_resume();
                self.ask_later(id);
            }
            400 if has_session => {
                // The cursor, the call or the session: a ping tells which.
                active.stream = StreamState::Verifying {
                    said: Some(format!("HTTP 400 {}", said.unwrap_or_default())),
                };
                if is_call && let Some(attempt) = active.attempt_mut() {
                    attempt.phase = Phase::Queued;
                    active.was_unsent = true;
                    active.touch(now);
                }
                match self.reachability.spend(now) {
                    Ok(()) => self.ping(Some(id.clone())),
                    Err(_) => self.verify_later(id),
                }
            }
            408 | 425 | 429 | 500..=599 if is_call => match refusal.status {
                429 | 503 => self.refused_call(id, refusal),
                status => {
                    active.went_out(now);
                    self.out_of_stream(
                        id,
                        Status::Unknown(UnknownReason::HttpStatus(status)),
                        false,
                    );
                }
            },
            300..=399 | 409 if is_call => self.refused_call(id, refusal),
            // Whoever stands in the way sends everything elsewhere, until one has signed in or left.
            300..=399 | 408 | 409 | 425 | 429 | 500..=599 => {
                active.note_cut(now, &format!("HTTP {}", refusal.status));
                active.recovery.note_try();
                active.recovery.not_before = refusal.retry_after.map(|wait| now.mono.after(wait));
                if active.recovery.tries >= TRIES_BEFORE_CHECKPOINT
                    && active.task.resumability.checkpoint
                {
                    let said = Some(format!("HTTP {}", refusal.status));
                    let reason = LostReason::ReplayGone { server_text: said };
                    return self.out_of_stream(id, Status::Lost(reason), false);
                }
                self.ask_later(id);
            }
            _ if is_call => self.refused_call(id, refusal),
            _ => self.out_of_stream(id, Status::Unknown(UnknownReason::NoReplay), false),
        }
    }

    /// A call that the server refused before running it: it waits for a new session, within reason.
    pub(super) fn requeue(&mut self, id: &TaskId, refusal: &HttpError) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.recovery.note_try();
        if active.recovery.tries > REQUEUES {
            return self.refused_call(id, refusal);
        }
        self.unsend(id);
        self.saver.urge(self.now.mono);
        self.needs_advance = true;
    }

    fn refused_call(&mut self, id: &TaskId, refusal: &HttpError) {
        let now = self.now;
        if let Some(active) = self.tasks.get_mut(id) {
            active.went_out(now);
        }
        let said = refusal
            .server_text
            .as_deref()
            .map(|said| format!(": {said}"))
            .unwrap_or_default();
        let words = format!(
            "the server refused the call with HTTP {}{said}",
            refusal.status
        );
        self.fail(
            id,
            TaskErrorKind::Refused,
            Some(i64::from(refusal.status)),
            words,
        );
    }

    /// A ping after a 400 was answered: the session lives, so it was the cursor or the call itself.
    pub(super) fn verified(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let StreamState::Verifying { said } = active.stream.clone() else {
            return;
        };
        if active.phase() == Phase::Queued {
            active.stream = StreamState::None;
            active.went_out(self.now);
            let words = format!("the server refused the call: {}", said.unwrap_or_default());
            self.fail(id, TaskErrorKind::Refused, Some(400), words);
        } else if self.is_cursor_gone(id) {
            self.refused_for_long(id, said);
        } else {
            self.verify_later(id);
        }
    }

    /// The server refuses to bring a stream back.
    pub(super) fn refused_for_long(&mut self, id: &TaskId, said: Option<String>) {
        self.out_of_stream(
            id,
            Status::Lost(LostReason::ReplayGone { server_text: said }),
            false,
        );
    }

    /// The ping that was to verify a session failed; the stream is asked for again later.
    pub(super) fn verify_later(&mut self, id: &TaskId) {
        if let Some(active) = self.tasks.get_mut(id)
            && matches!(active.stream, StreamState::Verifying { .. })
        {
            if active.phase() == Phase::Queued {
                active.stream = StreamState::None;
            } else {
                // With distance, or the asking would use up the budget that the ping needs.
                active.recovery.note_try();
                self.ask_later(id);
            }
        }
    }

    /// The stream has no way back: the next handle, else `end`. This is where resumabilities meet.
    pub(super) fn out_of_stream(&mut self, id: &TaskId, end: Status, is_restarted: bool) {
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
        let connections = active.take_connections();
        active.detached = None;
        let mut fetching = None;
        if active.task.resumability.checkpoint {
            // Its server task is out of reach too, or it would not have come here.
            if active.task.server_task.take().is_some() {
                fetching = active.served.take().and_then(|served| served.fetching);
                active.task.resumability.task = false;
                active.task.server_task_id = None;
            }
            // In a session that is gone a late call is refused; in any other it runs whenever it comes.
            let is_adrift = active.phase() == Phase::Sent && !is_session_gone;
            if is_adrift {
                active.follow = Some(Follow::adrift(now.mono, active.activity.longest_step));
            } else if active.follow.is_none() || is_restarted {
                active.follow = Some(Follow::new(
                    now.mono,
                    active.activity.longest_step,
                    is_restarted,
                ));
            }
            let words = match end.reason() {
                Some(reason) => format!("{reason}; {BY_CHECKPOINT}"),
                None => BY_CHECKPOINT.to_owned(),
            };
            if active.remark(now, words) {
                active.task.gap_at = Some(now.wall);
            }
            self.saver.urge(now.mono);
            self.needs_advance = true;
        } else {
            self.conclude(id, end, None);
        }
        for exchange in connections.into_iter().chain([fetching]).flatten() {
            self.close(exchange);
        }
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

    pub(super) fn step_stream(&mut self, id: &TaskId) {
        let now = self.now.mono;
        self.check_silence(id);
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        let StreamState::Waiting { until } = active.stream else {
            return;
        };
        if now < until || self.connection != super::ConnectionState::Ready {
            return;
        }
        // The modern era has no sessions and no streams to ask for again.
        let is_of_another = (self.record.session.is_some() || !self.record.is_stateful())
            && active
                .attempt()
                .is_some_and(|attempt| attempt.session_number != self.record.session_number);
        if is_of_another {
            let reason = LostReason::SessionGone {
                after_restart: false,
                server_text: None,
            };
            return self.out_of_stream(id, Status::Lost(reason), false);
        }
        // What waits for the way goes on the moment the prober is answered.
        if !self.reachability.may_send(self.now) {
            return;
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let spent = active.recovery.budget.spend(now).or_else(|own| {
            self.reachability
                .spend(self.now)
                .map_err(|ours| ours.min(own))
        });
        match spent {
            Ok(()) => self.ask_for_stream(id),
            Err(later) => {
                active.stream = StreamState::Waiting {
                    until: until.max(later),
                };
                active.saving.is_shown_stale = true;
            }
        }
    }

    /// Short requests and resumes whose time is up.
    pub(super) fn expire_in_flight(&mut self) {
        let now = self.now.mono;
        for exchange in self.in_flight.expired(now) {
            let Some(in_flight) = self.in_flight.get_mut(exchange) else {
                continue;
            };
            in_flight.until = None;
            if matches!(in_flight.kind, RequestKind::Stream(_)) && in_flight.is_opened {
                continue;
            }
            let in_flight = in_flight.clone();
            self.close(exchange);
            if let RequestKind::Reread(id) = &in_flight.kind {
                self.reread_over(id, exchange);
                continue;
            }
            let why = in_flight.came.clone();
            let why = why.unwrap_or_else(|| "no answer in time".to_owned());
            self.unanswered(&in_flight, why, false);
        }
    }
}

/// Whether an arrival is something inside a body.
fn brings_more(arrival: &ExchangeEvent) -> bool {
    matches!(
        arrival,
        ExchangeEvent::Event { .. } | ExchangeEvent::Endpoint { .. } | ExchangeEvent::Alive
    )
}

fn over_the_cap(cap: usize) -> String {
    let cap = text::bytes(u64::try_from(cap).unwrap_or(u64::MAX));
    format!("an event over the cap of {cap}")
}

/// What a body is that can hold no message.
fn no_message(body: &Body) -> Option<String> {
    match body {
        Body::Stream | Body::Json => None,
        Body::Empty => Some("it answered with nothing".to_owned()),
        Body::Other { media } => Some(match media.as_deref().map(text::clean_line) {
            Some(media) => format!("it answered with {media:.60}, not MCP"),
            None => "it answered with something that is not MCP".to_owned(),
        }),
    }
}

/// What an event is that came where an answer was due; `None` for what may come beside one.
fn no_answer(data: &str) -> Option<String> {
    let mut messages = protocol::decode(data);
    messages.retain(|message| !matches!(message, Incoming::Unreadable));
    let is_response = |message: &Incoming<'_>| matches!(message, Incoming::Response { .. });
    if data.is_empty() || !messages.is_empty() && !messages.iter().any(is_response) {
        return None;
    }
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok();
    Some(if is_json {
        "it answered with JSON that is no answer to this request".to_owned()
    } else {
        "it answered with text that is not JSON".to_owned()
    })
}
