//! Proof that a server session is gone.
//!
//! Behind a load balancer without sticky sessions, another replica answers 404 for a session that is alive. So before
//! anything is given up, the server is asked again on new connections; each request has one of its own. Only a refusal
//! every time is proof.
//!
//! And only a refusal by an MCP server: a proxy whose server is down answers 404 as well, and so does another program on
//! the port. Where no refusal was a JSON-RPC error, `initialize` shows which it is.

use crate::{
    domain::{Mono, Phase, TaskId, TaskKind},
    link::{
        ActiveTask, ConnectionState, Link, RequestKind,
        connection::{STREAM_GONE, SessionCheck},
        refusals::{Proof, Refusals},
    },
    protocol::HttpError,
};

impl Link {
    /// The server refused something because of its session.
    pub(super) fn doubt_session(&mut self, refusal: &HttpError) {
        if !self.record.is_initialized {
            return;
        }
        if !self.needs_proof() {
            return self.session_gone(refusal.server_text.as_deref());
        }
        let check = &mut self.session.check;
        let check = check.get_or_insert_with(|| SessionCheck::new(self.now.mono));
        if check.refused(refusal, self.now.mono) {
            let said = check.server_text.take();
            return self.session_gone(said.as_deref());
        }
        self.show_all();
    }

    /// An MCP server answered `initialize`, so what it refuses from now on proves something. The session that it opened
    /// expires unused: the old one may well be alive.
    pub(super) fn server_found(&mut self) {
        if let Some(check) = &mut self.session.check {
            // Begins again, with a server that is known to be there.
            *check = SessionCheck::new(self.now.mono);
            check.is_by_server = true;
            self.schedule.needs_advance = true;
        }
    }

    /// Something was served in a session.
    pub(super) fn session_lives(&mut self, session: Option<u64>) {
        if session == Some(self.record.session_number) && self.session.check.take().is_some() {
            self.show_all();
        }
    }

    /// Whether something would be lost with the session.
    fn needs_proof(&self) -> bool {
        let hangs_on_it = |active: &ActiveTask| {
            let is_here = active.is_of_session(self.record.session_number)
                && matches!(active.phase(), Phase::Sent | Phase::Open);
            let task = active.task.server_task.as_ref();
            let is_core = task.is_some_and(|task| task.kind == TaskKind::Core);
            // A restarted server has forgotten its sessions, and the checkpoint is the better way.
            let last_byte = active.activity.last_byte.mono;
            let can_continue = active.task.resumability.checkpoint
                && self.reachability.was_refused_lately(self.now, last_byte);
            is_here
                && active.is_active()
                && !active.is_settled()
                && (active.served.is_none() || is_core)
                && !can_continue
        };
        self.tasks.values().any(hangs_on_it)
    }

    /// Whether the session is doubted, so that nothing new is sent in it.
    pub(super) fn is_session_doubted(&self) -> bool {
        self.session.check.is_some()
    }

    /// When the next request of the check is due.
    pub(super) fn session_check_at(&self) -> Option<Mono> {
        let check = self.session.check.as_ref()?;
        let asks = |it: &_| matches!(it, RequestKind::Ping { .. } | RequestKind::FindServer);
        let is_asking = self.in_flight.has(asks);
        (self.connection == ConnectionState::Ready && !is_asking).then_some(check.next_at)
    }

    pub(super) fn step_session_check(&mut self) {
        let now = self.now.mono;
        if self.session_check_at().is_none_or(|at| now < at) || self.may_ask().is_err() {
            return;
        }
        let needs_server = |check: &mut SessionCheck| check.asks(now);
        if self.session.check.as_mut().is_some_and(needs_server) {
            self.initialize(RequestKind::FindServer);
        } else {
            self.ping(None);
        }
    }

    /// A resume was refused as if its session were gone: the session is checked, and the stream requested again.
    pub(super) fn resume_refused(&mut self, id: &TaskId, refusal: &HttpError) {
        let now = self.now;
        if let Some(active) = self.tasks.get_mut(id) {
            active.note_disconnection(now, &format!("HTTP {}", refusal.status));
            active.recovery.tries += 1;
        }
        self.ask_later(id);
        if self.is_stream_refused_for_long(id) {
            return self.refused_for_long(id, refusal.server_text.clone());
        }
        self.doubt_session(refusal);
    }

    /// A resume was refused although the session lives, which one replica of several may do. Returns whether that is proof.
    pub(super) fn is_stream_refused_for_long(&mut self, id: &TaskId) -> bool {
        !self.is_session_doubted() && self.is_stream_gone(id, STREAM_GONE)
    }

    /// Counts a refusal of a task's stream. Returns whether there have been enough: another replica may have refused it.
    pub(super) fn is_stream_gone(&mut self, id: &TaskId, proof: Proof) -> bool {
        let Some(active) = self.tasks.get_mut(id) else {
            return false;
        };
        Refusals::count_in(&mut active.recovery.refusals, proof, self.now.mono)
    }
}
