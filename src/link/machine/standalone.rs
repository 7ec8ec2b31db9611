//! The standalone stream: the one of a bare GET, on which a server of the stateful era sends what belongs to no call.
//!
//! It is open while anything runs there. Its cursor is in the link's record and is saved together with
//! what its events changed. After a break it is opened from its cursor for what was missed, and then without one for
//! what follows: at several SDKs, a resumed stream brings nothing but its replay. Its requests come out of a budget of
//! its own, so that a server that ends it again and again takes nothing from the calls.
//!
//! Source: MCP 2025-11-25, basic/transports, listening for messages from the server.

use core::time::Duration;

use crate::{
    domain::{Cursors, Era, Mono, ProtocolVersion, StandaloneStream},
    link::{ConnectionState, ExchangeId, Link, RequestKind, time::earliest},
    protocol::{Body, ExchangeEvent, HttpError, Method},
};

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
            && self.legacy_sse.is_none()
            && !is_absent
    }

    /// Opens the stream before a call goes out, where it is not open; tells whether the call waits for that.
    pub(super) fn standalone_comes_first(&mut self) -> bool {
        if !self.may_have_standalone() || self.exit.is_leaving {
            return false;
        }
        if !self.standalone.is_on() {
            self.open_standalone();
        }
        let until = self.standalone.awaited_until();
        until.is_some_and(|until| self.now.mono < until)
    }

    /// Opens the stream while something runs, and leaves it when nothing does.
    pub(super) fn step_standalone(&mut self) {
        let is_of_another = !self.standalone.is_in(self.record.session_number);
        let is_wanted = |link: &Self| {
            let mut tasks = link.tasks.values();
            // One that is about to go out needs it too, but does not open it: it may still be refused here.
            tasks.any(|active| {
                link.is_in_session(active) || link.standalone.is_on() && active.waits_to_be_sent()
            }) || link.is_listened_to()
        };
        if self.exit.is_leaving || is_of_another && self.standalone.is_on() || !is_wanted(self) {
            self.close_standalone();
            if self.exit.is_leaving {
                return;
            }
            if !is_wanted(self) {
                // What comes until it is opened again is about nothing that runs here. What came since an earlier driver
                // ended is about what it ran.
                let known = self.standalone_record();
                if !is_of_another && known.cursors != Cursors::default() {
                    known.cursors = Cursors::default();
                    self.record_changed();
                }
                return;
            }
        }
        if (self.standalone.replayed_at()).is_some_and(|at| self.now.mono >= at) {
            self.standalone.replayed();
            self.recheck_standalone();
        }
        let is_dead = self.standalone.silent_at();
        if is_dead.is_some_and(|at| self.now.mono >= at) {
            self.close_standalone();
            self.standalone.hurry(self.now.mono);
        }
        if !self.standalone.is_on() && self.may_have_standalone() {
            self.open_standalone();
        }
    }

    fn open_standalone(&mut self) {
        let (now, session_number) = (self.now.mono, self.record.session_number);
        if !self.standalone.is_in(session_number) {
            self.close_standalone();
            self.standalone.enter_session(session_number, now);
        }
        if now < self.standalone.next
            || self.connection != ConnectionState::Ready
            || !self.reachability.may_send(self.now)
            || !self.standalone.spend(now)
        {
            return;
        }
        let is_bare = std::mem::take(&mut self.standalone.is_bare_next);
        let cursors = &self.standalone_record().cursors;
        // What comes after a priming event may have been lost while the server replayed.
        let cursor = cursors.data.as_ref().or(cursors.first.as_ref());
        let cursor = cursor.filter(|_| !is_bare).cloned();
        let is_resumed = cursor.is_some();
        let exchange = self.send_now(RequestKind::Standalone, Method::Get { cursor });
        self.standalone.requested(exchange, is_resumed, now);
    }

    /// What is known of the stream in the present session.
    pub(super) fn standalone_record(&mut self) -> &mut StandaloneStream {
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
        self.schedule.needs_advance = true;
        let is_stream = *body == Body::Stream;
        if let Some(needless) = self.standalone.opened(is_stream, self.now.mono) {
            self.close(needless);
        }
    }

    /// Something came on the stream.
    pub(super) fn standalone_brought(&mut self, exchange: ExchangeId, arrival: ExchangeEvent) {
        let now = self.now;
        // Whatever comes on the kept connection proves that it is not dead.
        if self.standalone.kept == Some(exchange)
            && let Some(needless) = self.standalone.return_to_kept()
        {
            self.close(needless);
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
            self.standalone.is_being_read = true;
            self.read(None, id.as_deref(), &data);
            self.standalone.is_being_read = false;
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
        self.schedule.needs_advance = true;
        let is_over = |kept: &mut ExchangeId| self.in_flight.get(*kept).is_none();
        if self.standalone.kept.take_if(is_over).is_some() {
            return;
        }
        if self.standalone.return_to_kept().is_some() {
            // The server serves no other beside it (409), or the new connection failed.
            return;
        }
        self.standalone.on = None;
        if !self.standalone.is_in(self.record.session_number) {
            return;
        }
        let is_temporary =
            |status: u16| matches!(status, 401 | 403 | 408 | 409 | 425 | 429) || status >= 500;
        // One 404 may come from another replica; after two refusals in a row it counts as proof.
        let is_sure = |status: u16| !matches!(status, 404 | 410) || self.standalone.failures >= 2;
        if let Some(refusal) = refusal.filter(|it| !is_temporary(it.status) && is_sure(it.status)) {
            let known = self.standalone_record();
            // An unknown cursor is refused in many ways; without one only the stream itself can be, or its session.
            known.is_absent = known.cursors == Cursors::default();
            known.cursors = Cursors::default();
            let may_be_session = known.is_absent && matches!(refusal.status, 404 | 410);
            self.record_changed();
            if may_be_session
                && self.record.session.is_some()
                && self.reachability.spend(self.now).is_ok()
            {
                self.ping(None);
            }
        }
        let asked_for = Duration::from_millis(self.standalone_record().retry_ms.unwrap_or(0));
        let at_least = refusal.and_then(|refusal| refusal.retry_after);
        let at_least = asked_for.max(at_least.unwrap_or_default());
        self.standalone.request_later(now, at_least, &mut self.rng);
    }

    /// Its connection may be dead without a word: it is asked for on a new one, and the old one is kept until that is open.
    pub(super) fn recheck_standalone(&mut self) {
        self.schedule.needs_advance = true;
        if let Some(needless) = self.standalone.set_aside(self.now.mono) {
            self.close(needless);
        }
    }

    /// A call is silent: perhaps because its question came on a connection of this stream that is dead.
    pub(super) fn recheck_standalone_at_times(&mut self) {
        if self.standalone.wants_check(self.now.mono) {
            self.recheck_standalone();
        }
    }

    pub(super) fn close_standalone(&mut self) {
        for exchange in self.standalone.take_connections() {
            self.close(exchange);
        }
    }

    /// When time alone makes something due for the stream.
    pub(super) fn standalone_due(&self) -> Option<Mono> {
        let standalone = &self.standalone;
        let awaited = standalone.awaited_until().filter(|at| *at > self.now.mono);
        let due = earliest(standalone.silent_at(), awaited);
        let due = earliest(due, standalone.replayed_at());
        let is_wanted = !standalone.is_on()
            && self.connection == ConnectionState::Ready
            && !self.exit.is_leaving
            && self.may_have_standalone()
            && (self.is_listened_to() || self.tasks.values().any(|it| self.is_in_session(it)));
        if !is_wanted {
            return due;
        }
        let way = self.reachability.next_try().unwrap_or(standalone.next);
        earliest(due, Some(standalone.next.max(way)))
    }
}
