//! What arrives on exchanges, and how a broken stream is asked for again.

use core::time::Duration;

use super::{answers::Belongs, replay_gaps::is_answer};
use crate::{
    domain::{
        ControlKind, Era, EventId, LostReason, Phase, ProtocolVersion, Status, TaskErrorKind,
        TaskId, UnknownReason,
    },
    link::{
        ActiveTask, ExchangeId, Link, ReplayGap, StreamState,
        in_flight::NoResponse,
        recovery::ReplayProbe,
        replay_gap::Held,
        stream_state::{ASK_AGAIN, Refused},
        time::{doubled, jittered},
    },
    protocol::{Body, ExchangeEvent},
};

impl Link {
    pub(super) fn stream_opened(&mut self, id: &TaskId, exchange: ExchangeId, body: &Body) {
        let now = self.now;
        self.schedule.needs_advance = true;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.activity.last_byte = now;
        active.answers.stream_opened();
        if active.recovery.disconnection.is_some() {
            // Our own retry is not new contact.
            active.activity.contact_since = now.mono;
        }
        active.saving.is_shown_stale = true;
        let is_stream = matches!(body, Body::Stream | Body::Json);
        if is_stream {
            (active.recovery.refusals, active.recovery.not_before) = (None, None);
        }
        active.went_out(now);
        match active.stream {
            StreamState::Calling(_) if is_stream => {
                active.stream = StreamState::open(exchange, false, now.mono);
                if let Some(attempt) = active.attempt_mut() {
                    attempt.phase = Phase::Open;
                }
                active.touch(now);
                if active.is_asked(ControlKind::Resuming) {
                    active.set_control(now, None);
                }
                self.saver.urge_soon(now.mono);
                self.cancel_again(id);
            }
            StreamState::Calling(_) => {
                let came = NoResponse::of_body(body);
                if let Some(came) = &came {
                    active.notice(now, came.to_string());
                }
                let reason = match (came, body) {
                    (Some(NoResponse::Other(media)), _) => UnknownReason::NotMcp(media),
                    (_, Body::Empty(status)) => UnknownReason::HttpStatus(*status),
                    _ => UnknownReason::HttpStatus(200),
                };
                self.out_of_stream(id, Status::Unknown(reason));
            }
            StreamState::Asking { is_probe, .. } if is_stream => {
                active.stream = StreamState::open(exchange, true, now.mono);
                (active.activity.has_news, active.activity.live_gap) = (false, None);
                active.replay_gap = ReplayGap::Expected;
                // The time without contact is no step of the tool.
                active.activity.last_step = None;
                if !is_probe && active.note_back(now) {
                    self.saver.touch(now.mono);
                }
            }
            StreamState::Asking { .. } => {
                let came = NoResponse::of_body(body);
                let said = came.map_or_else(String::new, |came| came.to_string());
                self.close(exchange);
                let meant = match body {
                    Body::Other { .. } => Refused::Page,
                    _ => Refused::Resumption,
                };
                self.verify(id, said, meant);
            }
            _ => {}
        }
    }

    /// An event or a sign of life on a task's stream.
    pub(super) fn on_stream_event(
        &mut self,
        id: &TaskId,
        exchange: ExchangeId,
        arrival: ExchangeEvent,
    ) {
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
            // A day at most: a longer wait is a mistake.
            attempt.retry_ms = Some(retry.min(86_400_000));
            active.saving.is_dirty = true;
        }
        let mut event = Held { id: event_id, data };
        if active.record_step(now, &mut event) {
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
            // An id should belong to one event, but a result may not be lost where it doesn't.
            if is_known && !is_answer(&event.data) {
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
            let is_answer =
                !matches!(active.stream, StreamState::Open { .. }) || is_answer(&event.data);
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
        let has_data = !event.data.is_empty();
        let belongs = if has_data {
            self.read(Some(id), event.id.as_deref(), &event.data)
        } else {
            Belongs::Unnamed
        };
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if matches!(active.replay_gap, ReplayGap::Suspected) {
            return self.reread_or_pass(id, event);
        }
        let is_ours = belongs != Belongs::Elsewhere;
        if belongs != Belongs::Unnamed {
            active.activity.is_of_another = !is_ours;
        }
        match event.id {
            Some(event_id) if is_ours && !active.activity.is_of_another => {
                self.advance_cursor(id, event_id, has_data);
            }
            // It was taken, and comes again.
            Some(event_id) if is_ours && has_data => active.ids.add(&event_id),
            _ => {}
        }
        let Some(active) = self.tasks.get_mut(id).filter(|_| is_ours && has_data) else {
            return;
        };
        active.has_brought(self.now);
        self.in_flight.last_traffic = self.now.mono;
    }

    /// Moves the cursors of a stream.
    fn advance_cursor(&mut self, id: &TaskId, event_id: EventId, has_data: bool) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if active.is_modern() {
            // That era has no resumption (MCP 2026-07-28, earlier Streamable HTTP revisions): an id that a server sends
            // anyway must not make a silent stream look like one that can be requested again.
            return self.saver.touch(now.mono);
        }
        if active.advance_cursor(now, event_id, has_data) {
            // From here on it can be resumed: that has to be on disk at once.
            self.saver.urge(now.mono);
            self.gives_ids(Some(id), true);
        } else {
            self.saver.touch(now.mono);
        }
    }

    /// What was seen of this server's streams: it prices the next call before it is sent.
    pub(super) fn gives_ids(&mut self, task: Option<&TaskId>, seen: bool) {
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
    pub(super) fn stream_ended(&mut self, id: &TaskId, broken: Option<String>) {
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
            active.note_disconnection(now, &why);
            let end = self.end_of(id, &why);
            return self.out_of_stream(id, end);
        }
        // Servers that let a stream be resumed hang up on purpose too; there only the resumed stream tells.
        let is_resumable = active.has_cursor();
        let was_cancelled = !is_resumable
            && broken.is_none()
            && active.is_asked(ControlKind::Cancelling)
            && active.control.as_ref().is_some_and(|it| it.is_taken);
        if was_cancelled {
            let message = "the server ended the stream after the cancel".to_owned();
            active.notice(now, message);
            return self.conclude(id, Status::Cancelled, None);
        }
        if let Some(detached) = active.detached.take() {
            return self.out_of_stream(id, Status::Lost(detached.reason));
        }
        let is_probe = active.recovery.probe != ReplayProbe::Off;
        let is_whole = broken.is_none();
        let why = broken
            .clone()
            .unwrap_or_else(|| "its stdout ended".to_owned());
        if let Some(why) = broken {
            active.note_disconnection(now, &why);
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
            active.recovery.empty_resumes += 1;
            active.recovery.closed_empty += u32::from(is_whole);
        }
        if is_resumable {
            self.ask_later(id);
        } else {
            let end = self.end_of(id, &why);
            self.out_of_stream(id, end);
        }
    }

    /// What a call ends as whose stream cannot be asked for again: that of a process is gone with it. A plain call of the
    /// modern era must be cancelled by the server, unless it may have made a task of it whose id never came.
    pub(super) fn end_of(&self, id: &TaskId, why: &str) -> Status {
        let why = why.to_owned();
        let is_modern = self.tasks.get(id).is_some_and(ActiveTask::is_modern);
        if self.record.is_process() {
            Status::Lost(LostReason::ProcessEnded { why })
        } else if !is_modern {
            Status::Unknown(self.window_without_id(id))
        } else if self.may_be_task(id) {
            Status::Unknown(UnknownReason::BeforeTaskId)
        } else {
            Status::Lost(LostReason::CancelledByDisconnect { why })
        }
    }

    /// Why a stream without a known event id can't be resumed.
    pub(super) fn window_without_id(&self, id: &TaskId) -> UnknownReason {
        let active = self.tasks.get(id);
        let stream = active.and_then(|active| active.task.resumability.stream);
        if stream.or(self.record.gives_ids()) == Some(false) {
            UnknownReason::NoIds
        } else {
            UnknownReason::BeforeFirstId
        }
    }

    /// A call or a resume got no response head.
    pub(super) fn stream_unanswered(&mut self, id: &TaskId, why: &str, is_unsent: bool) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.saving.is_shown_stale = true;
        match std::mem::replace(&mut active.stream, StreamState::None) {
            StreamState::Calling(_) if is_unsent && self.record.session_number == 0 => {
                let message = format!("{why}; nothing was sent");
                self.fail(id, TaskErrorKind::Unreachable, None, message);
            }
            StreamState::Calling(_) if is_unsent => self.unsend(id, Some(why)),
            StreamState::Calling(_) if active.is_modern() => {
                active.note_disconnection(now, why);
                let end = self.end_of(id, why);
                self.out_of_stream(id, end);
            }
            StreamState::Calling(_) => {
                active.went_out(now);
                active.note_disconnection(now, why);
                let end = if self.record.is_process() {
                    self.end_of(id, why)
                } else {
                    Status::Unknown(UnknownReason::BeforeFirstId)
                };
                self.out_of_stream(id, end);
            }
            _ if !active.has_cursor() => {
                active.note_disconnection(now, why);
                let window = self.window_without_id(id);
                self.out_of_stream(id, Status::Unknown(window));
            }
            _ => {
                active.note_disconnection(now, why);
                active.recovery.probe.stop_dropping();
                // Where no connection was made, the link's own back-off says when.
                let wait = if is_unsent {
                    Duration::ZERO
                } else {
                    active.recovery.tries += 1;
                    doubled(Duration::from_millis(250), active.recovery.tries, ASK_AGAIN)
                };
                active.stream = StreamState::Waiting(now.mono.after(jittered(wait, &mut self.rng)));
            }
        }
        self.saver.touch(now.mono);
    }
}
