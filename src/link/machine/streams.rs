//! What arrives on exchanges, and how a broken stream is asked for again.

use core::time::Duration;

use super::{Errand, Kind, Link, era::refuses_what_it_speaks};
use crate::{
    domain::{
        Era, EventId, LostReason, Phase, ProtocolVersion, Status, TaskErrorKind, TaskId, Window,
        text,
    },
    link::{
        ExchangeId,
        checkpoint::Follow,
        path::{doubled, jittered},
        running::Line,
        seam::{Held, Seam},
    },
    protocol::{self, Arrival, Body, Incoming, Method, Refusal},
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
/// What may still come of an open stream whose session is gone has this long since its last news.
pub(super) const ORPHAN_FOR: Duration = Duration::from_secs(30);
/// Resumes that may follow each other within [`ASK_AGAIN`]: a 409 is soon over, and so is a short fault.
const SOON_TRIES: u32 = 12;
/// Failing resumes after which a checkpoint is the better way.
const TRIES_BEFORE_CHECKPOINT: u32 = 3;
/// A resume whose response head does not come; its connection may be half-open too.
pub(super) const HEAD_WITHIN: Duration = Duration::from_secs(15);
/// From here on the server's list is read, which tells where the work stands and not how it came there.
pub(super) const BY_CHECKPOINT: &str =
    "going on by its checkpoint, where single steps may pass unseen";
/// Fresh sessions that a refused call may cost before it is given up.
const REQUEUES: u32 = 3;
/// The code of the modern era for headers that do not fit the body.
const HEADER_MISMATCH: i64 = -32020;

impl Link {
    /// One arrival, to whoever waits for it.
    pub(super) fn arrived(&mut self, exchange: ExchangeId, arrival: Arrival) {
        let Some(errand) = self.errands.get_mut(&exchange) else {
            return;
        };
        self.heard_in = match errand.kind {
            // Opened before there was a session.
            Kind::Wire | Kind::Handshake { .. } => self.record.session_number,
            _ => errand.session_number,
        };
        if let Arrival::MoreRequests(more) = arrival {
            return self.took_more(exchange, more);
        }
        self.hears_modern = errand.is_modern;
        // The hot path first: an event of a task's stream.
        if let (Kind::Stream(id), Arrival::Event { .. } | Arrival::Alive) = (&errand.kind, &arrival)
        {
            let id = id.clone();
            return self.stream_brought(&id, exchange, arrival);
        }
        if let (Kind::Reread(id), Arrival::Event { .. } | Arrival::Alive) = (&errand.kind, &arrival)
        {
            let id = id.clone();
            return self.reread_brought(&id, exchange, arrival);
        }
        if matches!(errand.kind, Kind::Standalone) && brings_more(&arrival) {
            return self.standalone_brought(exchange, arrival);
        }
        let is_wire = matches!(errand.kind, Kind::Wire) && errand.is_opened;
        let is_posted = errand.is_by_wire && errand.awaits_answer();
        if is_wire && brings_more(&arrival) {
            return self.wire_brought(exchange, arrival);
        }
        if is_posted && self.was_posted(exchange, &arrival) {
            return;
        }
        let Some(errand) = self.errands.get_mut(&exchange) else {
            return;
        };
        if let Arrival::Event { id, data, .. } = &arrival {
            let of = match &errand.kind {
                Kind::Fetch(id) => Some(id.clone()),
                _ => None,
            };
            if id.is_some() && !errand.is_modern {
                // Whoever numbers the answer to a handshake numbers those of calls too.
                self.gives_ids(None, true);
            }
            self.last_traffic = self.now.mono;
            if let Some(id) = &of
                && let Some(running) = self.tasks.get_mut(id)
            {
                running.heard(self.now);
            }
            self.read(of.as_ref(), None, data);
            // Still there, so this was not its answer.
            if let Some(errand) = self.errands.get_mut(&exchange) {
                errand.came = no_answer(data).or_else(|| errand.came.take());
            }
            return;
        }
        if let Arrival::Opened { body, session } = arrival {
            errand.is_opened = true;
            if let Some(sent_at) = errand.sent_at {
                self.latency = Some(self.now.mono.since(sent_at));
                self.is_view_stale = true;
            }
            errand.came = no_message(&body).filter(|_| errand.request_id.is_some());
            match &mut errand.kind {
                Kind::Handshake { session: slot } => *slot = session,
                Kind::Stream(id) => {
                    let (id, session_number) = (id.clone(), errand.session_number);
                    self.session_lives(session_number);
                    self.stream_opened(&id, exchange, &body);
                }
                Kind::Reread(id) if body != Body::Stream => {
                    let id = id.clone();
                    self.reread_over(&id, exchange);
                }
                Kind::Standalone => self.standalone_opened(&body),
                _ => {}
            }
            return self.path_worked();
        }
        // What names an endpoint on any other stream means nothing.
        if brings_more(&arrival) {
            return;
        }
        self.is_restless = true;
        let Some(errand) = self.forget_errand(exchange) else {
            return;
        };
        self.path.prober_gone();
        if let Kind::Stream(id) = &errand.kind
            && self.is_kept(id, exchange)
        {
            return self.kept_ended(&id.clone(), &arrival);
        }
        if matches!(errand.kind, Kind::Wire) && self.wire.is_some() {
            return self.wire_ended(&match arrival {
                Arrival::Broken { why } => why,
                Arrival::TooLarge { cap } => over_the_cap(cap),
                _ => "its one stream ended".to_owned(),
            });
        }
        if let Kind::Reread(id) = &errand.kind {
            return self.reread_over(id, exchange);
        }
        match arrival {
            Arrival::Ended if errand.is_opened => self.exchange_ended(&errand, None),
            Arrival::Ended => {
                self.exchange_ended(&errand, Some("the connection was closed".to_owned()));
            }
            Arrival::Broken { why } => self.exchange_ended(&errand, Some(why)),
            Arrival::TooLarge { cap } => self.too_large(&errand, cap),
            Arrival::Refused(refusal) => {
                let is_gateway = matches!(refusal.status, 502..=504);
                if !is_gateway {
                    self.path_worked();
                } else if self.path.down().is_some() {
                    // A gateway that answers for a server that is down is no sign of the server.
                    self.path_failed(
                        format!("HTTP {}", refusal.status),
                        false,
                        refusal.retry_after,
                    );
                }
                match &errand.kind {
                    Kind::Stream(id) if errand.is_modern => {
                        self.modern_call_refused(&id.clone(), &errand, &refusal);
                    }
                    Kind::Stream(id) if self.wants_new_wire(&errand, &refusal) => {
                        self.requeue(&id.clone(), &refusal);
                        self.wire_ended(&format!("HTTP {}", refusal.status));
                    }
                    Kind::Stream(id) => {
                        self.stream_refused(&id.clone(), errand.session_number, &refusal);
                    }
                    _ if errand.is_answered_by(&refusal) => {
                        let error = refusal.error.clone().unwrap_or_default();
                        self.errand_answered(errand, Err(error));
                    }
                    _ => self.short_refused(&errand, *refusal),
                }
            }
            Arrival::NotSent { why, is_refused } => {
                self.path_failed(why.clone(), is_refused, None);
                self.unanswered(&errand, why, true);
            }
            Arrival::NoAnswer { why } => {
                self.path_failed(why.clone(), false, None);
                self.unanswered(&errand, why, false);
            }
            Arrival::Untrusted { why } => {
                self.path_failed(
                    format!("it could not prove who it is: {why}"),
                    false,
                    Some(SLOW_POLL),
                );
                self.unanswered(&errand, why, true);
            }
            Arrival::Opened { .. }
            | Arrival::Event { .. }
            | Arrival::Endpoint { .. }
            | Arrival::MoreRequests(_)
            | Arrival::Alive => {}
        }
    }

    /// An exchange took more requests than one. What a person asked for, and the looks at a pace that the server sets,
    /// are beyond the budget; so are theirs.
    fn took_more(&mut self, exchange: ExchangeId, more: u32) {
        self.requests += u64::from(more);
        let now = self.now;
        match self.errands.get(&exchange).map(|errand| &errand.kind) {
            Some(Kind::Stream(id)) => {
                if let Some(running) = self.tasks.get_mut(id)
                    && !matches!(running.line, Line::Calling(_))
                {
                    running.budget.charge(now.mono, more);
                }
            }
            Some(Kind::Standalone) => self.standalone.charge(now.mono, more),
            Some(Kind::Poll(_)) | None => {}
            Some(_) => self.path.charge(now, more),
        }
    }

    pub(super) fn unanswered(&mut self, errand: &Errand, why: String, is_unsent: bool) {
        match &errand.kind {
            Kind::Stream(id) => self.stream_unanswered(&id.clone(), &why, is_unsent),
            _ => self.short_failed(errand, why, None),
        }
    }

    pub(super) fn exchange_ended(&mut self, errand: &Errand, broken: Option<String>) {
        match &errand.kind {
            Kind::Stream(id) => self.stream_ended(&id.clone(), broken),
            Kind::Announce if broken.is_none() => self.announced(),
            Kind::Cancel(id) if broken.is_none() && errand.request_id.is_none() => {
                self.cancel_taken(&id.clone());
            }
            Kind::Reply(Some((id, key))) if broken.is_none() => {
                self.question_delivered(&id.clone(), &key.clone());
            }
            // Whatever it said, somebody is there.
            Kind::Ping { verifies: None } if broken.is_none() => {}
            Kind::Reply(None) | Kind::Goodbye => {}
            // An answer was due and did not come; where it did, the errand was removed with it.
            _ => self.short_failed(
                errand,
                errand
                    .came
                    .clone()
                    .or(broken)
                    .unwrap_or_else(|| "no answer".to_owned()),
                None,
            ),
        }
    }

    fn too_large(&mut self, errand: &Errand, cap: usize) {
        match &errand.kind {
            Kind::Stream(id) => {
                let id = id.clone();
                if let Some(running) = self.tasks.get_mut(&id) {
                    running.line = Line::None;
                }
                let cap = u64::try_from(cap).unwrap_or(u64::MAX);
                self.out_of_stream(&id, Status::Lost(LostReason::TooMuch { cap }), false);
            }
            _ => self.short_failed(errand, over_the_cap(cap), None),
        }
    }

    pub(super) fn stream_opened(&mut self, id: &TaskId, exchange: ExchangeId, body: &Body) {
        let now = self.now;
        self.is_restless = true;
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        running.last_byte = now;
        if running.cut.is_some() {
            // Our own asking again is no new contact.
            running.contact_since = now.mono;
        }
        running.is_shown_stale = true;
        (running.refusals, running.not_before) = (None, None);
        let is_stream = matches!(body, Body::Stream | Body::Json);
        running.went_out(now);
        match running.line {
            Line::Calling(_) if is_stream => {
                running.line = Line::Open {
                    on: exchange,
                    is_resumed: false,
                    since: now.mono,
                };
                if let Some(attempt) = running.attempt_mut() {
                    attempt.phase = Phase::Open;
                }
                running.touch(now);
                if running
                    .wish
                    .as_ref()
                    .is_some_and(|wish| wish.what == crate::domain::AskedFor::Resuming)
                {
                    running.set_wish(now, None);
                }
                self.saver.urge(now.mono);
            }
            Line::Calling(_) if *body == Body::Empty => {
                let words = "the server took the call without answering it (HTTP 202)".to_owned();
                self.fail(id, TaskErrorKind::Protocol, None, words);
            }
            Line::Calling(_) => {
                if let Some(words) = no_message(body) {
                    running.remark(now, words);
                }
                self.out_of_stream(id, Status::Unknown(Window::HttpStatus(200)), false);
            }
            Line::Asking { is_probe, .. } if is_stream => {
                running.line = Line::Open {
                    on: exchange,
                    is_resumed: true,
                    since: now.mono,
                };
                (running.has_news, running.live_gap) = (false, None);
                running.probe_found = false;
                running.seam = Seam::Ahead;
                // The time without contact is no step of the tool.
                running.last_step = None;
                if !is_probe && running.note_back(now) {
                    self.saver.touch(now.mono);
                }
            }
            Line::Asking { .. } => {
                running.line = Line::None;
                self.close(exchange);
                self.out_of_stream(id, Status::Unknown(Window::NoReplay), false);
            }
            _ => {}
        }
    }

    /// An event or a sign of life on a task's stream.
    fn stream_brought(&mut self, id: &TaskId, exchange: ExchangeId, arrival: Arrival) {
        let now = self.now;
        if self.is_kept(id, exchange) && !self.came_on_kept(id, &arrival) {
            return;
        }
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        running.heard(now);
        let Arrival::Event {
            id: event_id,
            retry_ms,
            data,
        } = arrival
        else {
            return;
        };
        let Some(attempt) = running.task.attempts.last_mut() else {
            return;
        };
        if let Some(retry) = retry_ms {
            // A day at most: a wait that nobody will live to see is a mistake.
            attempt.retry_ms = Some(retry.min(86_400_000));
            running.is_dirty = true;
        }
        let mut event = Held { id: event_id, data };
        if running.took_step(now, &mut event) {
            self.last_traffic = now.mono;
            return self.saver.touch(now.mono);
        }
        let Some(attempt) = running.task.attempts.last_mut() else {
            return;
        };
        let has_data = !event.data.is_empty();
        let mut is_bare = false;
        if let Some(event_id) = &event.id {
            let cursors = &attempt.cursors;
            let is_known = has_data
                && (running.ids.knows(event_id) || cursors.data.as_ref() == Some(event_id));
            if running.skip_to.is_some() {
                // A probe starts behind us: what it brings is known up to our own cursor.
                running.probe_found |= is_known;
                if running.skip_to.as_ref() == Some(event_id) {
                    running.skip_to = None;
                }
                return;
            }
            if is_known {
                return;
            }
        } else if running.skip_to.is_some() {
            return;
        } else if has_data
            && attempt.cursors.newest.is_none()
            && running.task.resumability.stream.is_none()
            // The modern era has no ids, which says nothing of this server's other streams.
            && attempt.version.map(ProtocolVersion::era) != Some(Era::Modern)
        {
            let is_answer = !matches!(running.line, Line::Open { .. })
                || protocol::decode(&event.data)
                    .iter()
                    .any(|message| matches!(message, Incoming::Response { .. }));
            // A bare answer says nothing about streams; a step without an id does.
            if !is_answer {
                running.task.resumability.stream = Some(false);
                running.touch(now);
                is_bare = true;
            }
        }
        if is_bare {
            self.gives_ids(Some(id), false);
        }
        if has_data {
            self.leave_kept(id, &event);
        }
        if let Some(event) = self.at_seam(id, event) {
            self.took(id, event);
        }
    }

    /// Takes an event of a task's stream that is new, in its turn.
    pub(super) fn took(&mut self, id: &TaskId, event: Held) {
        let now = self.now;
        let has_data = !event.data.is_empty();
        let is_ours = !has_data || self.read(Some(id), event.id.as_deref(), &event.data);
        let Some(running) = self.tasks.get(id) else {
            return;
        };
        if matches!(running.seam, Seam::Torn) {
            return self.reread_or_pass(id, event);
        }
        if is_ours && let Some(event_id) = event.id {
            self.came_to(id, event_id, has_data);
        }
        let Some(running) = self.tasks.get_mut(id).filter(|_| is_ours && has_data) else {
            return;
        };
        running.has_brought(now);
        self.last_traffic = now.mono;
    }

    /// Moves the cursors of a stream.
    fn came_to(&mut self, id: &TaskId, event_id: EventId, has_data: bool) {
        let now = self.now;
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let is_modern = running.is_modern();
        if running.came_to(now, event_id, has_data) {
            // From here on it can be found again: that has to be on disk at once.
            self.saver.urge(now.mono);
            if !is_modern {
                self.gives_ids(Some(id), true);
            }
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
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        running.is_shown_stale = true;
        if self.goes_on_reading(id, broken.is_some()) {
            return;
        }
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        if running.phase() == Phase::Ended || running.is_settled() || !running.is_active() {
            running.line = Line::None;
            return;
        }
        if self.recheck_ended(id, broken.is_some()) {
            return;
        }
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let line = std::mem::replace(&mut running.line, Line::None);
        if running.is_modern() {
            let why = broken.unwrap_or_else(|| "the stream ended without an answer".to_owned());
            running.note_cut(now, &why);
            let end = self.end_of_modern_call(id, &why);
            return self.out_of_stream(id, end, false);
        }
        // Servers that let a stream be resumed hang up on purpose too; there only the resumed stream tells.
        let is_resumable = running
            .attempt()
            .is_some_and(|attempt| attempt.cursors.newest.is_some());
        let was_cancelled = !is_resumable
            && running.wish.as_ref().is_some_and(|wish| {
                wish.what == crate::domain::AskedFor::Cancelling
                    && wish.is_taken
                    && broken.is_none()
            });
        if was_cancelled {
            running.remark(
                now,
                "the server ended the stream after the cancel".to_owned(),
            );
            return self.conclude(id, Status::Cancelled, None);
        }
        if let Some(orphan) = running.orphan.take() {
            return self.out_of_stream(id, Status::Lost(orphan.reason), false);
        }
        let is_probe = running.skip_to.is_some() || running.probe_found;
        let is_whole = broken.is_none();
        let why = broken
            .clone()
            .unwrap_or_else(|| "its stdout ended".to_owned());
        if let Some(why) = broken {
            running.note_cut(now, &why);
        } else if is_probe {
            return self.probe_ended(id);
        }
        let is_resumed = matches!(
            line,
            Line::Open {
                is_resumed: true,
                ..
            } | Line::Asking { .. }
        );
        running.skip_to = None;
        if is_resumed && !running.has_news {
            if running.has_failed_probe && is_whole {
                return self.replay_gone(id);
            }
            running.empties = running.empties.saturating_add(1);
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
    pub(super) fn window_without_id(&self, id: &TaskId) -> Window {
        let stream = self
            .tasks
            .get(id)
            .and_then(|running| running.task.resumability.stream);
        if stream.or(self.record.gives_ids()) == Some(false) {
            Window::NoIds
        } else {
            Window::BeforeFirstId
        }
    }

    pub(super) fn probe_ended(&mut self, id: &TaskId) {
        let now = self.now.mono;
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        running.skip_to = None;
        running.silent_probes = 0;
        if std::mem::take(&mut running.probe_found) || running.has_news {
            // It replays, so the stream lives; there is only nothing new on it.
            running.empties = running.empties.saturating_add(1);
            let times = running.empties.saturating_sub(EMPTIES_BEFORE_PROBE + 1);
            let wait = jittered(doubled(SLOW_POLL / 4, times, SLOW_POLL), &mut self.dice);
            running.line = Line::Waiting {
                until: now.after(wait),
            };
        } else {
            // The older event may have fallen out of the server's store just now; then the newest brings what is new.
            running.has_failed_probe = true;
            running.line = Line::Waiting { until: now };
        }
    }

    /// Neither the newest cursor nor an older one brings anything: the replay is gone.
    pub(super) fn replay_gone(&mut self, id: &TaskId) {
        if self.hopes_for_kept(id) {
            return;
        }
        let said = Some("it no longer brings back what it has sent before".to_owned());
        self.out_of_stream(id, Status::Lost(LostReason::ReplayGone { said }), false);
    }

    /// Sets the time of the next resume: soon, then doubling; never before the server's `retry`.
    pub(super) fn ask_later(&mut self, id: &TaskId) {
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let asked_for =
            Duration::from_millis(running.attempt().and_then(|a| a.retry_ms).unwrap_or(0));
        let lost_tries = running.empties.max(running.tries);
        let longest = if lost_tries > SOON_TRIES {
            SLOW_POLL
        } else {
            ASK_AGAIN
        };
        let ours = match lost_tries {
            0 => POLL_AT_LEAST,
            tries => jittered(
                doubled(Duration::from_secs(1), tries - 1, longest),
                &mut self.dice,
            ),
        };
        let until = self.now.mono.after(ours.max(asked_for));
        running.line = Line::Waiting {
            until: until.max(running.not_before.unwrap_or(until)),
        };
        running.is_shown_stale = true;
        self.is_restless = true;
    }

    /// Asks for a task's stream again, or probes whether the server still replays it.
    fn ask_for_stream(&mut self, id: &TaskId) {
        self.drop_reread(id);
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(attempt) = running.task.attempts.last() else {
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
        let is_due = running.empties == EMPTIES_BEFORE_PROBE
            || running.empties > EMPTIES_BEFORE_PROBE
                && running.empties.is_multiple_of(EMPTIES_BETWEEN_PROBES);
        let is_probe = is_due
            && !running.has_failed_probe
            && !running.is_beyond_probing
            && probe_from.is_some()
            && cursors.data.is_some();
        let cursor = if is_probe { probe_from } else { resume_from }.cloned();
        running.skip_to = if is_probe { cursors.data.clone() } else { None };
        (running.probe_found, running.has_news) = (false, false);
        running.is_shown_stale = true;
        let exchange = self.send(Kind::Stream(id.clone()), Method::Get { cursor }, None, None);
        if let Some(errand) = self.errands.get_mut(&exchange) {
            errand.until = Some(self.now.mono.after(HEAD_WITHIN));
        }
        if let Some(running) = self.tasks.get_mut(id) {
            running.line = Line::Asking {
                on: exchange,
                is_probe,
            };
        }
    }

    /// A call or a resume got no response head.
    fn stream_unanswered(&mut self, id: &TaskId, why: &str, is_unsent: bool) {
        let now = self.now;
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        running.is_shown_stale = true;
        match std::mem::replace(&mut running.line, Line::None) {
            Line::Calling(_) if is_unsent && self.record.session_number == 0 => {
                self.fail(
                    id,
                    TaskErrorKind::Unreachable,
                    None,
                    format!("{why}; nothing was sent"),
                );
            }
            Line::Calling(_) if is_unsent => self.unsend(id),
            Line::Calling(_) if running.is_modern() => {
                running.note_cut(now, why);
                let end = self.end_of_modern_call(id, why);
                self.out_of_stream(id, end, false);
            }
            Line::Calling(_) => {
                running.went_out(now);
                running.note_cut(now, why);
                let end = if self.record.is_process() {
                    self.end_without_id(id, why)
                } else {
                    Status::Unknown(Window::BeforeFirstId)
                };
                self.out_of_stream(id, end, false);
            }
            _ if running
                .attempt()
                .is_none_or(|attempt| attempt.cursors.newest.is_none()) =>
            {
                running.note_cut(now, why);
                let window = self.window_without_id(id);
                self.out_of_stream(id, Status::Unknown(window), false);
            }
            _ => {
                running.note_cut(now, why);
                running.skip_to = None;
                // Where no connection was made, the link's own back-off says when.
                let wait = if is_unsent {
                    Duration::ZERO
                } else {
                    running.tries = running.tries.saturating_add(1);
                    doubled(Duration::from_millis(250), running.tries, ASK_AGAIN)
                };
                running.line = Line::Waiting {
                    until: now.mono.after(jittered(wait, &mut self.dice)),
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
            return Status::Unknown(Window::BeforeTaskId);
        }
        Status::Lost(LostReason::CancelledByDisconnect {
            why: why.to_owned(),
        })
    }

    /// A call of the modern era was answered with something other than 2xx: nothing of it runs.
    fn modern_call_refused(&mut self, id: &TaskId, errand: &Errand, refusal: &Refusal) {
        let is_disproved = Self::disproves_era(true, refusal);
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        running.is_shown_stale = true;
        running.line = Line::None;
        match refusal.status {
            401 | 403 => {
                self.unsend(id);
                self.barred(refusal);
            }
            _ if is_disproved => {
                self.requeue(id, refusal);
                self.belief_failed(errand, refusal.said.as_deref());
            }
            400 | 404 => {
                let error = refusal.error.clone().unwrap_or_default();
                let is_stale = error.code == HEADER_MISMATCH || refuses_what_it_speaks(refusal);
                if is_stale && running.tries == 0 {
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
                    _ => Status::Unknown(Window::HttpStatus(refusal.status)),
                };
                self.out_of_stream(id, end, false);
            }
            _ => self.refused_call(id, refusal),
        }
    }

    /// A call, a resume or a probe was answered with something other than 2xx.
    fn stream_refused(&mut self, id: &TaskId, sent_in: u64, refusal: &Refusal) {
        let now = self.now;
        let has_session = self.record.session.is_some();
        let is_of_another = sent_in != self.record.session_number || !self.record.is_initialized;
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        running.is_shown_stale = true;
        if self.recheck_refused(id, refusal) {
            return;
        }
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let line = std::mem::replace(&mut running.line, Line::None);
        let is_probe = matches!(line, Line::Asking { is_probe: true, .. });
        let is_call = matches!(line, Line::Calling(_));
        running.skip_to = None;
        let said = refusal.said.clone();
        match refusal.status {
            401 | 403 => {
                if is_call {
                    self.unsend(id);
                } else {
                    running.line = Line::Waiting { until: now.mono };
                }
                self.barred(refusal);
            }
            // What was sent in a session that is known to be gone says nothing of the present one.
            400 | 404 | 410 if is_of_another && is_call => self.requeue(id, refusal),
            400 | 404 | 410 if is_of_another => {
                let reason = LostReason::SessionGone {
                    after_restart: false,
                    said,
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
                running.is_beyond_probing = true;
                running.empties = running.empties.saturating_add(1);
                self.ask_later(id);
            }
            400 if has_session => {
                // The cursor, the call or the session: a ping tells which.
                running.line = Line::Verifying {
                    said: Some(format!("HTTP 400 {}", said.unwrap_or_default())),
                };
                if is_call && let Some(attempt) = running.attempt_mut() {
                    attempt.phase = Phase::Queued;
                    running.was_unsent = true;
                    running.touch(now);
                }
                match self.path.spend(now) {
                    Ok(()) => self.ping(Some(id.clone())),
                    Err(_) => self.verify_later(id),
                }
            }
            408 | 425 | 429 | 500..=599 if is_call => match refusal.status {
                429 | 503 => self.refused_call(id, refusal),
                status => {
                    running.went_out(now);
                    self.out_of_stream(id, Status::Unknown(Window::HttpStatus(status)), false);
                }
            },
            300..=399 | 409 if is_call => self.refused_call(id, refusal),
            // Whoever stands in the way sends everything elsewhere, until one has signed in or left.
            300..=399 | 408 | 409 | 425 | 429 | 500..=599 => {
                running.note_cut(now, &format!("HTTP {}", refusal.status));
                running.tries = running.tries.saturating_add(1);
                running.not_before = refusal.retry_after.map(|wait| now.mono.after(wait));
                if running.tries >= TRIES_BEFORE_CHECKPOINT && running.task.resumability.checkpoint
                {
                    let said = Some(format!("HTTP {}", refusal.status));
                    let reason = LostReason::ReplayGone { said };
                    return self.out_of_stream(id, Status::Lost(reason), false);
                }
                self.ask_later(id);
            }
            _ if is_call => self.refused_call(id, refusal),
            _ => self.out_of_stream(id, Status::Unknown(Window::NoReplay), false),
        }
    }

    /// A call that the server refused before running it: it waits for a new session, within reason.
    pub(super) fn requeue(&mut self, id: &TaskId, refusal: &Refusal) {
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        running.tries += 1;
        if running.tries > REQUEUES {
            return self.refused_call(id, refusal);
        }
        self.unsend(id);
        self.saver.urge(self.now.mono);
        self.is_restless = true;
    }

    fn refused_call(&mut self, id: &TaskId, refusal: &Refusal) {
        let now = self.now;
        if let Some(running) = self.tasks.get_mut(id) {
            running.went_out(now);
        }
        let said = refusal
            .said
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
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let Line::Verifying { said } = running.line.clone() else {
            return;
        };
        if running.phase() == Phase::Queued {
            running.line = Line::None;
            running.went_out(self.now);
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
        self.out_of_stream(id, Status::Lost(LostReason::ReplayGone { said }), false);
    }

    /// The ping that was to verify a session failed; the stream is asked for again later.
    pub(super) fn verify_later(&mut self, id: &TaskId) {
        if let Some(running) = self.tasks.get_mut(id)
            && matches!(running.line, Line::Verifying { .. })
        {
            if running.phase() == Phase::Queued {
                running.line = Line::None;
            } else {
                // With distance, or the asking would use up the budget that the ping needs.
                running.tries = running.tries.saturating_add(1);
                self.ask_later(id);
            }
        }
    }

    /// The stream has no way back: the next handle, else `end`. This is where resumabilities meet.
    pub(super) fn out_of_stream(&mut self, id: &TaskId, end: Status, is_restarted: bool) {
        let now = self.now;
        let is_session_gone = matches!(end, Status::Lost(LostReason::SessionGone { .. }));
        let end = if is_session_gone && self.may_be_unnamed_task(id) {
            Status::Unknown(Window::BeforeTaskId)
        } else {
            end
        };
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let connections = running.take_connections();
        running.orphan = None;
        let mut fetching = None;
        if running.task.resumability.checkpoint {
            // Its server task is out of reach too, or it would not have come here.
            if running.task.server_task.take().is_some() {
                fetching = running.served.take().and_then(|served| served.fetching);
                running.task.resumability.task = false;
                running.task.server_task_id = None;
            }
            // In a session that is gone a late call is refused; in any other it runs whenever it comes.
            let is_adrift = running.phase() == Phase::Sent && !is_session_gone;
            if is_adrift {
                running.follow = Some(Follow::adrift(now.mono, running.longest_step));
            } else if running.follow.is_none() || is_restarted {
                running.follow = Some(Follow::new(now.mono, running.longest_step, is_restarted));
            }
            let words = match end.reason() {
                Some(reason) => format!("{reason}; {BY_CHECKPOINT}"),
                None => BY_CHECKPOINT.to_owned(),
            };
            if running.remark(now, words) {
                running.task.gap_at = Some(now.wall);
            }
            self.saver.urge(now.mono);
            self.is_restless = true;
        } else {
            self.conclude(id, end, None);
        }
        for exchange in connections.into_iter().chain([fetching]).flatten() {
            self.close(exchange);
        }
    }

    /// Whether the server may have made a task of a call, one that outlives the session, whose id never came.
    fn may_be_unnamed_task(&self, id: &TaskId) -> bool {
        let Some(running) = self.tasks.get(id) else {
            return false;
        };
        self.record.binds_tasks != Some(true)
            && running.task.server_task_id.is_none()
            && running
                .attempt()
                .is_some_and(|attempt| attempt.asks_for_task)
    }

    pub(super) fn step_stream(&mut self, id: &TaskId) {
        let now = self.now.mono;
        self.check_silence(id);
        let Some(running) = self.tasks.get(id) else {
            return;
        };
        let Line::Waiting { until } = running.line else {
            return;
        };
        if now < until || self.door != super::Door::Open {
            return;
        }
        // The modern era has no sessions and no streams to ask for again.
        let is_of_another = (self.record.session.is_some() || !self.record.is_stateful())
            && running
                .attempt()
                .is_some_and(|attempt| attempt.session_number != self.record.session_number);
        if is_of_another {
            let reason = LostReason::SessionGone {
                after_restart: false,
                said: None,
            };
            return self.out_of_stream(id, Status::Lost(reason), false);
        }
        // What waits for the way goes on the moment the prober is answered.
        if !self.path.may_send(self.now) {
            return;
        }
        let Some(running) = self.tasks.get_mut(id) else {
            return;
        };
        let spent = running
            .budget
            .spend(now)
            .or_else(|own| self.path.spend(self.now).map_err(|ours| ours.min(own)));
        match spent {
            Ok(()) => self.ask_for_stream(id),
            Err(later) => {
                running.line = Line::Waiting {
                    until: until.max(later),
                };
                running.is_shown_stale = true;
            }
        }
    }

    /// Short requests and resumes whose time is up.
    pub(super) fn expire_errands(&mut self) {
        let now = self.now.mono;
        let late: Vec<ExchangeId> = self
            .errands
            .iter()
            .filter(|(_, errand)| errand.until.is_some_and(|until| now >= until))
            .map(|(exchange, _)| *exchange)
            .collect();
        for exchange in late {
            let Some(errand) = self.errands.get_mut(&exchange) else {
                continue;
            };
            errand.until = None;
            if matches!(errand.kind, Kind::Stream(_)) && errand.is_opened {
                continue;
            }
            let errand = errand.clone();
            self.close(exchange);
            if let Kind::Reread(id) = &errand.kind {
                self.reread_over(id, exchange);
                continue;
            }
            let why = errand.came.clone();
            let why = why.unwrap_or_else(|| "no answer in time".to_owned());
            self.unanswered(&errand, why, false);
        }
    }
}

/// Whether an arrival is something inside a body.
fn brings_more(arrival: &Arrival) -> bool {
    matches!(
        arrival,
        Arrival::Event { .. } | Arrival::Endpoint { .. } | Arrival::Alive
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
