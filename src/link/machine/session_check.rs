//! Proof that a server session is gone.
//!
//! Behind a load balancer without sticky sessions, another replica answers 404 for a session that is alive. So before
//! anything is given up, the server is asked again on new connections; each request has one of its own. Only a refusal
//! every time is proof.

use super::Link;
use crate::{
    domain::{Mono, Phase, TaskId, TaskKind},
    link::{
        active_task::ActiveTask,
        connection::{ConnectionState, STREAM_GONE, SessionCheck},
        in_flight::RequestKind,
        refusals::{Proof, Refusals},
    },
    protocol::HttpError,
};

impl Link {
    /// The server refused something because of its session.
    pub(super) fn doubt_session(&mut self, said: Option<&str>) {
        if !self.record.is_initialized {
            return;
        }
        if !self.needs_proof() {
            return self.session_gone(said);
        }
        let check = self
            .session
            .check
            .get_or_insert_with(|| SessionCheck::new(self.now.mono));
        if check.refused(said, self.now.mono) {
            let said = check.take_server_text();
            return self.session_gone(said.as_deref());
        }
        self.schedule.needs_advance = true;
    }

    /// Something was served in a session.
    pub(super) fn session_lives(&mut self, session: Option<u64>) {
        if session == Some(self.record.session_number) && self.session.check.take().is_some() {
            self.schedule.needs_advance = true;
        }
    }

    /// Whether something would be lost with the session.
    fn needs_proof(&self) -> bool {
        let hangs_on_it = |active: &ActiveTask| {
            let is_here = active.attempt().is_some_and(|attempt| {
                attempt.session_number == self.record.session_number
                    && matches!(attempt.phase, Phase::Sent | Phase::Open)
            });
            let task = active.task.server_task.as_ref();
            let is_core = task.is_some_and(|task| task.kind == TaskKind::Core);
            // A restarted server has forgotten its sessions, and the checkpoint is the better way.
            let can_continue = active.task.resumability.checkpoint
                && self
                    .reachability
                    .was_refused_lately(self.now, active.activity.last_byte.mono);
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

    /// When the next ping of the check is due.
    pub(super) fn session_check_at(&self) -> Option<Mono> {
        let check = self.session.check.as_ref()?;
        (self.connection == ConnectionState::Ready && !self.is_pinging()).then(|| check.next_ping())
    }

    pub(super) fn step_session_check(&mut self) {
        let now = self.now.mono;
        if self.session_check_at().is_none_or(|at| now < at) || self.may_ask().is_err() {
            return;
        }
        if let Some(check) = &mut self.session.check {
            check.pinged(now);
        }
        self.ping(None);
    }

    pub(super) fn is_pinging(&self) -> bool {
        let is_ping = |kind: &RequestKind| matches!(kind, RequestKind::Ping { .. });
        self.in_flight
            .values()
            .any(|in_flight| is_ping(&in_flight.kind))
    }

    /// A resume was refused as if its session were gone: the session is checked, and the stream requested again.
    pub(super) fn resume_refused(&mut self, id: &TaskId, refusal: &HttpError) {
        let now = self.now;
        if let Some(active) = self.tasks.get_mut(id) {
            active.note_disconnection(now, &format!("HTTP {}", refusal.status));
            active.recovery.note_try();
        }
        self.ask_later(id);
        if self.is_stream_refused_for_long(id) {
            return self.refused_for_long(id, refusal.server_text.clone());
        }
        self.doubt_session(refusal.server_text.as_deref());
    }

    /// A resume was refused although the session lives, which one replica of several may do. Returns whether that is proof.
    pub(super) fn is_stream_refused_for_long(&mut self, id: &TaskId) -> bool {
        self.is_stream_gone(id, STREAM_GONE)
    }

    /// Counts a refusal of a task's stream. Returns whether there have been enough: another replica may have refused it.
    pub(super) fn is_stream_gone(&mut self, id: &TaskId, proof: Proof) -> bool {
        let Some(active) = self.tasks.get_mut(id) else {
            return false;
        };
        let refusals = active
            .recovery
            .refusals
            .get_or_insert_with(|| Refusals::none_since(self.now.mono));
        refusals.add();
        refusals.are(proof, self.now.mono)
    }
}
