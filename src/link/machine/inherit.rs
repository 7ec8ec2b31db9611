//! How a link passes to the program that replaces this one (`keeper upgrade`), and continues there.
//!
//! The session file says most of it, as after a restart. But a server process keeps running, with what was sent to it.

use crate::{
    domain::{ControlKind, IfCut, Phase, Stamp, TaskId},
    link::{
        ConnectionState, InFlight, Link, RequestKind, StreamState, active_task::PendingControl,
    },
};

impl Link {
    /// Continues with a process that has kept running. Comes first of all, before any task is restored.
    ///
    /// `is_initialized`: whether its handshake was done, as the saved record says.
    pub fn inherit_process(&mut self, is_initialized: bool) {
        self.record.is_initialized = is_initialized;
        self.open_legacy_sse();
    }

    /// Whether everything is saved and nothing that was begun would be lost on the way to the next program.
    pub fn is_ready_to_pass_on(&self) -> bool {
        let is_connecting = matches!(
            self.connection,
            ConnectionState::Discovering
                | ConnectionState::OpeningSse
                | ConnectionState::Initializing
                | ConnectionState::Announcing
        );
        // What a process has not been sent entirely.
        let is_being_sent =
            |in_flight: &InFlight| in_flight.is_by_legacy_sse && !in_flight.is_opened;
        let waits = |control: &PendingControl| control.what != ControlKind::Cancelling;
        self.is_at_rest()
            && !(self.record.is_process()
                && (is_connecting || self.in_flight.values().any(is_being_sent)))
            && !self
                .tasks
                .values()
                .any(|active| active.control.as_ref().is_some_and(waits))
    }

    /// The calls that the next program could not continue: nothing leads back to them once their connection is closed.
    pub fn lost_if_passed_on(&self) -> Vec<TaskId> {
        self.tasks_where(|active| {
            !self.has_process()
                && IfCut::of_task(&active.task).is_some_and(|if_cut| if_cut.is_lost())
        })
    }

    /// Whether it uses a process of its own, on which it has opened the stream of messages.
    pub fn has_process(&self) -> bool {
        self.record.is_process() && self.legacy_sse.is_some()
    }

    /// Everything up to this moment was watched, and is to be saved at once.
    pub(super) fn save_all(&mut self, now: Stamp) {
        let tasks = self.tasks.values_mut();
        let open = tasks.filter(|active| !active.is_settled());
        for active in open {
            active.touch(now);
            self.saver.touch(now.mono);
        }
        self.saver.save_now(now.mono);
    }

    /// A call that is out in the inherited process: its answer comes on the same pipe.
    pub(super) fn continue_in_process(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let on = self.in_flight.insert(
            InFlight {
                kind: RequestKind::Stream(id.clone()),
                request_id: None,
                until: None,
                is_opened: true,
                sent_at: None,
                after: None,
                came: None,
                more_requests: 0,
                session_number: self.record.session_number,
                is_modern: active.is_modern(),
                is_by_legacy_sse: true,
            },
            self.now.mono,
        );
        active.stream = StreamState::open(on, false, self.now.mono);
        if let Some(attempt) = active.attempt_mut() {
            attempt.phase = Phase::Open;
        }
    }
}
