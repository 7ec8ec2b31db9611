//! Keeps the server's session alive while calls are silent, and ends it at the exit.

use core::time::Duration;

use super::limits::HEAR_FIRST;
use crate::{
    domain::{Mono, TaskId},
    link::{ConnectionState, Link, RequestKind, StreamState},
    protocol::{Method, encode},
};

/// Silence after which the server's session is kept alive by a ping; one SDK ends it after five minutes.
const PING_AFTER: Duration = Duration::from_secs(60);

impl Link {
    /// After sleep, sockets are probably dead and waits are over. A step of the wall clock looks the same, so no connection
    /// is closed before a new one brings what it should have brought.
    pub(super) fn woke_up(&mut self) {
        self.reachability.hurry(self.now);
        self.recheck_all();
        for active in self.tasks.values_mut() {
            // The time away counts, but the call may have ended in it.
            active.limits_from = self.now.mono.after(HEAR_FIRST);
            if let StreamState::Waiting(until) = &mut active.stream {
                *until = self.now.mono;
            }
        }
        self.recheck_standalone();
        self.show_all();
    }

    /// Keeps the server's session while a call runs silently; a ping without an answer finds a dead socket.
    pub(super) fn keep_alive(&mut self) {
        let is_ping = |kind: &RequestKind| matches!(kind, RequestKind::Ping { .. });
        let is_due = self.keep_alive_at().is_some_and(|at| self.now.mono >= at);
        if is_due && !self.in_flight.has(is_ping) {
            match self.reachability.spend(self.now) {
                Ok(()) => {
                    self.ping(None);
                    self.recheck_standalone_at_times();
                }
                // A budget that is spent means traffic enough to keep the session.
                Err(_) => self.in_flight.last_traffic = self.now.mono,
            }
        }
    }

    pub(super) fn keep_alive_at(&self) -> Option<Mono> {
        let has_stream = || {
            let mut tasks = self.tasks.values();
            tasks.any(|active| active.is_out() && !active.is_modern())
        };
        let is_stateful = self.record.is_stateful();
        (is_stateful
            && self.connection == ConnectionState::Ready
            && self.reachability.down.is_none()
            && has_stream())
        .then(|| self.in_flight.last_traffic.after(PING_AFTER))
    }

    pub(super) fn ping(&mut self, verifies: Option<TaskId>) {
        let id = self.in_flight.new_request_id();
        let method = encode::ping(&id);
        self.send_request(RequestKind::Ping { verifies }, method, id);
    }

    /// On a clean exit with nothing unsettled the session is ended; with work in it that would cancel the work. What is
    /// settled and not on disk yet is still here, and unsettled for the next process.
    pub(super) fn terminate_session(&mut self) {
        let may_end = self.exit.is_leaving
            && self.tasks.is_empty()
            && !self.exit.keeps_session
            // The next driver continues it for the hosts that are connected.
            && !self.is_listened_to()
            && self.connection == ConnectionState::Ready
            && self.reachability.down.is_none()
            && self.in_flight.sent > 0
            && self.record.session.is_some();
        if may_end {
            self.send_now(RequestKind::TerminateSession, Method::Delete);
            self.connection = ConnectionState::Disconnected;
            (self.record.session, self.record.is_initialized) = (None, false);
            self.record_changed();
            self.saver.urge(self.now.mono);
        }
    }
}
