//! The standalone stream: the one of a bare GET, on which a server of the stateful era sends what belongs to no call.
//!
//! It is open while anything runs there. Where it can be resumed stands in the link's record and is saved together with
//! what its events changed. Its requests come out of a budget of its own, so that a server that ends it again and again
//! takes nothing from the calls.
//!
//! Source: MCP 2025-11-25, basic/transports, listening for messages from the server.

use core::time::Duration;

use super::{ConnectionState, Link, RequestKind, earliest};
use crate::{
    domain::{Era, Mono, Phase, ProtocolVersion, StandaloneStream, TaskId},
    link::{
        ExchangeId,
        active_task::{ActiveTask, HALF_OPEN_AFTER, RecentIds},
        reachability::{Budget, doubled, jittered},
    },
    protocol::{Body, ExchangeEvent, HttpError, Method},
};

/// How long a call waits for the head of this stream: what a server asks before it is open is lost at some of them.
const COMES_FIRST: Duration = Duration::from_secs(1);
/// The first wait before a stream that brought nothing is asked for again, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// While a call is silent, this stream may be on a dead connection too; it is looked after at most this often.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// One that brought something, or stood for as long as the longest wait, is asked for again after this.
const AT_ONCE: Duration = Duration::from_millis(50);

/// The standalone stream of one link.
#[derive(Debug)]
pub(super) struct Standalone {
    on: Option<ExchangeId>,
    /// A connection that may be dead, until the stream is open on a new one.
    kept: Option<ExchangeId>,
    checked_at: Option<Mono>,
    /// The session that it was opened in.
    session_number: u64,
    is_opened: bool,
    since: Mono,
    /// When it may be asked for again.
    next: Mono,
    /// Times in a row that it ended or was refused without having brought anything.
    failures: u32,
    last_byte: Mono,
    /// The widest gap between two signs of life, once there were two.
    heartbeat: Option<Duration>,
    recent: RecentIds,
    budget: Budget,
    /// What is read at this moment came on it.
    is_read: bool,
}

impl Standalone {
    pub(super) fn new(now: Mono) -> Self {
        Self {
            on: None,
            kept: None,
            checked_at: None,
            session_number: 0,
            is_opened: false,
            since: now,
            next: now,
            failures: 0,
            last_byte: now,
            heartbeat: None,
            recent: RecentIds::default(),
            budget: Budget::of_stream(now),
            is_read: false,
        }
    }

    /// Requests that asking for it took beyond the first.
    pub(super) fn charge(&mut self, now: Mono, requests: u32) {
        self.budget.charge(now, requests);
    }

    fn heard(&mut self, now: Mono) {
        let gap = now.since(self.last_byte);
        if gap > Duration::from_secs(1) {
            self.heartbeat = Some(self.heartbeat.unwrap_or_default().max(gap));
        }
        self.last_byte = now;
    }

    /// When its silence says that the connection is dead; a stream without keep-alive comments may be silent for ever.
    fn silent_at(&self) -> Option<Mono> {
        let gap = self
            .heartbeat
            .filter(|_| self.on.is_some() && self.is_opened)?;
        Some(self.last_byte.after(HALF_OPEN_AFTER.max(gap * 3)))
    }

    /// When a call stops waiting for its head.
    fn awaited_until(&self) -> Option<Mono> {
        (self.on.is_some() && self.kept.is_none() && !self.is_opened)
            .then(|| self.since.after(COMES_FIRST))
    }
}

impl Link {
    /// Whether the server may have such a stream: only its session of the stateful era does, and on the one stream of
    /// HTTP+SSE, or on pipes, everything comes unasked.
    fn may_have_standalone(&self) -> bool {
        let known = &self.record.standalone;
        let is_absent = known.is_absent && known.session_number == self.record.session_number;
        self.session_version().era() == Era::Stateful
            && self.record.version != Some(ProtocolVersion::V20241105)
            && self.record.is_initialized
            && !self.record.is_process()
            && self.wire.is_none()
            && !is_absent
    }

    /// Whether a task has a call at work in the present session of the stateful era.
    fn runs_here(&self, active: &ActiveTask) -> bool {
        let is_out = active.attempt().is_some_and(|attempt| {
            matches!(attempt.phase, Phase::Sent | Phase::Open)
                && attempt.session_number == self.record.session_number
        });
        !active.is_settled()
            && active.is_active()
            && active.task.forgotten_at.is_none()
            && (active.served.is_some() || is_out && !active.is_modern())
    }

    /// The calls that may have caused what the server sends beside all of them.
    pub(super) fn at_work(&self) -> Vec<TaskId> {
        let at_work = self
            .tasks
            .iter()
            .filter(|(_, active)| self.runs_here(active));
        at_work.map(|(id, _)| id.clone()).collect()
    }

    /// The only call that can have caused a log line of this stream, unless the line is a replay of what it has.
    pub(super) fn logged_beside(&self, event_id: Option<&str>) -> Option<TaskId> {
        let mut at_work = self
            .tasks
            .iter()
            .filter(|(_, active)| self.standalone.is_read && self.runs_here(active));
        let (id, active) = at_work.next()?;
        let is_new = event_id.is_none_or(|event_id| !active.ids.knows(event_id));
        (is_new && at_work.next().is_none()).then(|| id.clone())
    }

    /// Opens the stream before a call goes out, where it is not open; tells whether the call waits for that.
    pub(super) fn standalone_comes_first(&mut self) -> bool {
        if !self.may_have_standalone() || self.exit.is_leaving {
            return false;
        }
        if self.standalone.on.is_none() {
            self.open_standalone();
        }
        let until = self.standalone.awaited_until();
        until.is_some_and(|until| self.now.mono < until)
    }

    /// Opens the stream while something runs, and leaves it when nothing does.
    pub(super) fn step_standalone(&mut self) {
        let is_of_another = self.standalone.session_number != self.record.session_number;
        let is_wanted = |link: &Self| {
            let is_queued = |active: &ActiveTask| active.phase() == Phase::Queued;
            let mut tasks = link.tasks.values();
            // One that is about to go out needs it too, but does not open it: it may still be refused here.
            tasks.any(|active| {
                link.runs_here(active)
                    || link.standalone.on.is_some() && is_queued(active) && active.is_active()
            })
        };
        if self.exit.is_leaving || is_of_another && self.standalone.on.is_some() || !is_wanted(self)
        {
            self.close_standalone();
            if self.exit.is_leaving || !is_wanted(self) {
                return;
            }
        }
        let is_dead = self.standalone.silent_at();
        if is_dead.is_some_and(|at| self.now.mono >= at) {
            self.close_standalone();
            self.standalone.next = self.standalone.next.min(self.now.mono);
        }
        if self.standalone.on.is_none() && self.may_have_standalone() {
            self.open_standalone();
        }
    }

    fn open_standalone(&mut self) {
        let (now, session_number) = (self.now.mono, self.record.session_number);
        if self.standalone.session_number != session_number {
            self.close_standalone();
            let budget = self.standalone.budget.clone();
            self.standalone = Standalone {
                session_number,
                budget,
                ..Standalone::new(now)
            };
        }
        if now < self.standalone.next
            || self.connection != ConnectionState::Ready
            || !self.reachability.may_send(self.now)
        {
            return;
        }
        if let Err(later) = self.standalone.budget.spend(now) {
            self.standalone.next = later;
            return;
        }
        let cursors = &self.standalone_record().cursors;
        // What comes after a priming event may have been lost while the server replayed.
        let cursor = cursors.data.as_ref().or(cursors.first.as_ref()).cloned();
        let exchange = self.send(RequestKind::Standalone, Method::Get { cursor }, None, None);
        let standalone = &mut self.standalone;
        (standalone.on, standalone.is_opened, standalone.since) = (Some(exchange), false, now);
        (standalone.last_byte, standalone.heartbeat) = (now, None);
    }

    /// What is known of the stream in the present session.
    fn standalone_record(&mut self) -> &mut StandaloneStream {
        let session_number = self.record.session_number;
        let known = &mut self.record.standalone;
        if known.session_number != session_number {
            *known = StandaloneStream {
                session_number,
                ..StandaloneStream::default()
            };
        }
        known
    }

    pub(super) fn standalone_opened(&mut self, body: &Body) {
        let now = self.now.mono;
        // Anything else ends at once, and is asked for again later.
        self.standalone.is_opened = *body == Body::Stream;
        self.standalone.last_byte = now;
        self.needs_advance = true;
        if self.standalone.is_opened
            && let Some(kept) = self.standalone.kept.take()
        {
            self.close(kept);
        }
    }

    /// Something came on the stream.
    pub(super) fn standalone_brought(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        let now = self.now;
        if self.standalone.kept == Some(exchange) {
            // It is not dead.
            if let Some(needless) = self.return_to_kept_standalone() {
                self.close(needless);
            }
        }
        self.standalone.heard(now.mono);
        let ExchangeEvent::Event { id, retry_ms, data } = arrival else {
            return;
        };
        self.in_flight.last_traffic = now.mono;
        if let Some(retry) = retry_ms {
            self.standalone_record().retry_ms = Some(retry.min(86_400_000));
        }
        let has_data = !data.is_empty();
        if let Some(id) = &id {
            let is_known = has_data
                && (self.standalone.recent.knows(id)
                    || self.standalone_record().cursors.data.as_ref() == Some(id));
            if is_known {
                return;
            }
            self.standalone.recent.add(id);
        }
        if has_data {
            self.standalone.failures = 0;
            self.standalone.is_read = true;
            self.read(None, id.as_deref(), &data);
            self.standalone.is_read = false;
        }
        // Last, so that one save holds the cursor and what the event changed.
        if let Some(id) = id {
            let cursors = &mut self.standalone_record().cursors;
            cursors.first.get_or_insert_with(|| id.clone());
            if has_data {
                cursors.before = cursors.data.replace(id.clone());
            }
            cursors.newest = Some(id);
            self.saver.is_record_dirty = true;
            self.saver.touch(now.mono);
        }
    }

    /// The stream ended or was refused.
    pub(super) fn standalone_ended(&mut self, refusal: Option<&HttpError>) {
        let now = self.now.mono;
        self.needs_advance = true;
        let is_over = |exchange: &ExchangeId| self.in_flight.get(*exchange).is_none();
        if self.standalone.kept.as_ref().is_some_and(is_over) {
            self.standalone.kept = None;
            return;
        }
        if self.return_to_kept_standalone().is_some() {
            // The server serves no other beside it (409), or the new connection failed.
            return;
        }
        self.standalone.on = None;
        if self.standalone.session_number != self.record.session_number {
            return;
        }
        let is_temporary =
            |status: u16| matches!(status, 401 | 403 | 408 | 409 | 425 | 429) || status >= 500;
        // One 404 may come from another replica.
        let is_sure = |status: u16| !matches!(status, 404 | 410) || self.standalone.failures >= 2;
        if refusal.is_some_and(|it| !is_temporary(it.status) && is_sure(it.status)) {
            let known = self.standalone_record();
            // An unknown cursor is refused in many ways; without one only the stream itself can be.
            known.is_absent = known.cursors == crate::domain::Cursors::default();
            known.cursors = crate::domain::Cursors::default();
            self.record_changed();
        }
        let has_stood = now.since(self.standalone.since) >= LAST_WAIT;
        if self.standalone.is_opened && has_stood {
            self.standalone.failures = 0;
        }
        let wait = match self.standalone.failures {
            0 => AT_ONCE,
            failures => jittered(doubled(FIRST_WAIT, failures - 1, LAST_WAIT), &mut self.rng),
        };
        let asked_for = Duration::from_millis(self.standalone_record().retry_ms.unwrap_or(0));
        let at_least = refusal.and_then(|refusal| refusal.retry_after);
        let wait = wait.max(asked_for).max(at_least.unwrap_or_default());
        self.standalone.failures = self.standalone.failures.saturating_add(1);
        self.standalone.next = now.after(wait);
    }

    /// Its connection may be dead without a word: it is asked for on a new one, and the old one is kept until that is open.
    pub(super) fn recheck_standalone(&mut self) {
        let now = self.now.mono;
        self.standalone.checked_at = Some(now);
        self.standalone.next = self.standalone.next.min(now);
        self.needs_advance = true;
        let on = self.standalone.on.take();
        if self.standalone.is_opened && self.standalone.kept.is_none() {
            self.standalone.kept = on;
        } else if let Some(on) = on {
            self.close(on);
        }
        self.standalone.is_opened = false;
    }

    /// A call is silent: perhaps because its question came on a connection of this stream that is dead.
    pub(super) fn recheck_standalone_at_times(&mut self) {
        let is_due = |at: Mono| self.now.mono.since(at) >= CHECK_EVERY;
        if self.standalone.on.is_some() && self.standalone.checked_at.is_none_or(is_due) {
            self.recheck_standalone();
        }
    }

    /// Makes the connection that was kept the one of the stream again; gives the one that it replaces.
    fn return_to_kept_standalone(&mut self) -> Option<ExchangeId> {
        let kept = self.standalone.kept.take()?;
        self.standalone.is_opened = true;
        self.standalone.on.replace(kept)
    }

    fn close_standalone(&mut self) {
        let both = [self.standalone.on.take(), self.standalone.kept.take()];
        for exchange in both.into_iter().flatten() {
            self.close(exchange);
        }
    }

    /// When time alone makes something due for the stream.
    pub(super) fn standalone_due(&self) -> Option<Mono> {
        let standalone = &self.standalone;
        let awaited = standalone.awaited_until().filter(|at| *at > self.now.mono);
        let due = earliest(standalone.silent_at(), awaited);
        let is_wanted = standalone.on.is_none()
            && self.connection == ConnectionState::Ready
            && !self.exit.is_leaving
            && self.may_have_standalone()
            && self.tasks.values().any(|active| self.runs_here(active));
        if !is_wanted {
            return due;
        }
        let way = self.reachability.next_try().unwrap_or(standalone.next);
        earliest(due, Some(standalone.next.max(way)))
    }
}
