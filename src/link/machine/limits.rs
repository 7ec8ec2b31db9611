//! The time limits that users set for their tasks.

use core::time::Duration;

use crate::{
    domain::{Mono, Status, TaskErrorKind, TaskId},
    link::{ConnectionState, Link, RequestKind, time::earliest},
    protocol::encode,
};

/// How long after a restart or a sleep the limits wait for what the server has to tell.
pub(super) const HEAR_FIRST: Duration = Duration::from_secs(30);

impl Link {
    /// When a limit of the user's ends a task.
    pub(super) fn limit_ends(&self, active: &crate::link::active_task::ActiveTask) -> Option<Mono> {
        let limits = active.task.options.limits;
        if active.task.status != Status::Running {
            return None;
        }
        let started = active.task.attempts.first()?.started_at;
        let hard = limits.hard.map(|hard| {
            let spent = self.now.wall.since(started);
            self.now.mono.after(hard.saturating_sub(spent))
        });
        earliest(hard, self.idle_ends(active)).map(|at| at.max(active.limits_from))
    }

    /// When the idle limit ends a task; it runs only while the server could tell us something.
    fn idle_ends(&self, active: &crate::link::active_task::ActiveTask) -> Option<Mono> {
        let is_in_contact = active.is_out()
            || (active.follow.is_some() || active.served.is_some())
                && self.connection == ConnectionState::Ready
                && self.reachability.down.is_none();
        // The silence after a cancel is not a failure.
        let counts = is_in_contact && Self::cancel_ends(active).is_none();
        let idle = active.task.options.limits.idle.filter(|_| counts)?;
        let since = active.activity.last_news.max(active.activity.contact_since);
        Some(since.after(idle))
    }

    pub(super) fn step_limits(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        if self.limit_ends(active).is_none_or(|at| self.now.mono < at) {
            return;
        }
        let is_idle = self.idle_ends(active).is_some_and(|at| self.now.mono >= at);
        let which = if is_idle {
            "no activity within the idle timeout"
        } else {
            "the maximum time was reached"
        };
        let can_send =
            self.connection == ConnectionState::Ready && self.reachability.may_send(self.now);
        let request_id = active.request_id().map(str::to_owned);
        let server_task = active.polled_task();
        let is_modern = active.is_modern();
        let outcome = if active.has_not_run() {
            "it was never run"
        } else if let Some(server_task) = server_task.filter(|_| can_send) {
            self.send_task_cancel(id, &server_task);
            "longhaul asked the server to cancel its task"
        } else if is_modern && !self.record.is_process() {
            "longhaul closed the call's connection"
        } else if let Some(request_id) = request_id.filter(|_| can_send) {
            let method = encode::cancelled_notification(&request_id, "timed out");
            self.send_now(RequestKind::Cancel(id.clone()), method);
            "longhaul asked the server to cancel the call"
        } else {
            "the server could not be notified"
        };
        let message = format!("{which}; {outcome}");
        self.fail(id, TaskErrorKind::TimedOut, None, message);
    }
}
