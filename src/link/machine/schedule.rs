//! When the passing of time makes something due.

use core::time::Duration;

use crate::{
    domain::Mono,
    link::{
        ActiveTask, ConnectionState, Link, StreamState, in_flight::SHORT, replies::AnswersDue,
        time::earliest,
    },
};

/// The streams of servers that were not read for this long are checked again.
const BACKPRESSURED: Duration = Duration::from_secs(5);
/// Looking through all tasks takes its time: with so many more of them, the next look is a millisecond later, so that
/// thousands of calls that end together are looked through a few times and not at every end.
const TASKS_A_MILLISECOND: u64 = 250;

impl Link {
    /// When [`Input::Timer`](crate::link::Input::Timer) is due.
    pub fn next_wake(&self) -> Option<Mono> {
        let may = self.may_advance_at();
        let is_put_off =
            self.schedule.needs_advance && may > self.now.mono && !self.exit.is_leaving;
        let due = earliest(self.due_at(), is_put_off.then_some(may));
        if self.exit.is_leaving {
            return due;
        }
        due.map(|at| at.max(may))
    }

    pub(super) fn due_at(&self) -> Option<Mono> {
        earliest(self.schedule.wake, self.saver.next_due())
    }

    /// When all tasks may be looked through again.
    pub(super) fn may_advance_at(&self) -> Mono {
        let tasks = u64::try_from(self.tasks.len()).unwrap_or(u64::MAX);
        let pause = Duration::from_millis(tasks / TASKS_A_MILLISECOND);
        self.schedule.advanced_at.after(pause)
    }

    /// The next moment at which time alone makes something due.
    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let mut next = earliest(self.keep_alive_at(), self.next_poll());
        next = earliest(next, self.in_flight.deadlines().min());
        next = earliest(next, self.program_ends_at());
        next = earliest(next, self.hosts.lists_due);
        let can_ask = self.connection == ConnectionState::Ready;
        let allowed_at = self.reachability.allowed_at(self.now);
        let when_allowed = |at: Mono| Some(allowed_at.map_or(at, |allowed| allowed.max(at)));
        let way_at = self.reachability.next_try();
        let when_allowed_by_way = |at: Mono| Some(way_at.map_or(at, |way| way.max(at)));
        next = earliest(next, self.standalone_due());
        if self.connection == ConnectionState::Disconnected && self.wants_session()
            || can_ask && self.wants_tools()
        {
            next = earliest(next, allowed_at);
        }
        next = earliest(next, self.session_check_at().and_then(when_allowed));
        for active in self.tasks.values() {
            if !active.task.is_open() {
                continue;
            }
            if !active.is_active() {
                let answers_at = active.answers.at().filter(|_| can_ask);
                next = earliest(next, answers_at.and_then(when_allowed_by_way));
                continue;
            }
            if can_ask {
                if let StreamState::Waiting(until) = active.stream {
                    let allowed = self
                        .reachability
                        .allowed_with(&active.recovery.budget, self.now);
                    next = earliest(next, Some(allowed.map_or(until, |at| at.max(until))));
                }
                let look_at = active.follow.as_ref().and_then(|follow| follow.next);
                next = earliest(next, look_at.and_then(when_allowed));
                if active.waits_to_be_sent() {
                    next = earliest(next, allowed_at);
                }
                let answers_at = active.answers.at().filter(|_| !self.is_session_doubted());
                next = earliest(next, answers_at.and_then(when_allowed_by_way));
            }
            next = earliest(next, self.host_question_expires(active));
            next = earliest(next, Self::silence_ends(active));
            if active.follow.is_none() && can_ask {
                next = earliest(next, active.doubted_at());
            }
            if let Some(control) = &active.control {
                next = earliest(next, Some(control.until));
                if can_ask && active.waits_to_cancel() && active.sending.is_none() {
                    let retry_at = control.retry_at.unwrap_or(self.now.mono);
                    next = earliest(next, when_allowed(retry_at));
                }
            }
            next = earliest(next, self.limit_ends(active));
            if can_ask && self.reachability.down.is_none() {
                next = earliest(next, Self::cancel_ends(active));
            }
        }
        // What is due but could not be done waits for something else to change; never spin.
        next.map(|at| at.max(self.now.mono.after(Duration::from_millis(1))))
    }

    /// Whether nothing is due for a task but what its open stream brings.
    pub(super) fn is_still(active: &ActiveTask, now: Mono) -> bool {
        let is_out = active.is_out()
            && active.answers == AnswersDue::Never
            && active.control.is_none()
            && active.follow.is_none()
            && active.cancel_taken_at.is_none()
            && active.task.options.limits == crate::domain::Limits::default();
        let due = earliest(Self::silence_ends(active), active.doubted_at());
        active.is_settled() || is_out && due.is_none_or(|at| now < at)
    }

    /// Whether what servers send is read. While it is not, their silence means nothing: no clock runs but the saver's.
    pub(super) fn can_read(&mut self) -> bool {
        let now = self.now.mono;
        if !self.saver.unsaved.has_room() {
            self.saver.backpressured_since.get_or_insert(now);
            return false;
        }
        let since = self.saver.backpressured_since.take();
        if since.is_some_and(|since| now.since(since) >= BACKPRESSURED) {
            // What they answered meanwhile is read now.
            let patience = now.after(SHORT);
            self.in_flight.extend_deadlines(patience);
            self.woke_up();
        }
        true
    }
}
