//! Which task a message is about that did not come on the stream of one.
//!
//! | message | task |
//! |---|---|
//! | progress | [`Link::call_of`]: the call with its token, if its progress is accepted from there ([`Link::takes_steps_from`]) |
//! | a question on the standalone stream | [`Link::calls_asked`]: all calls in the session; one answer settles it |
//! | a question of a stdio server | [`Link::calls_of_one_host`]: all calls, if one host made them |
//! | a question while other requests of hosts are open | [`Link::forward_asking`]: those requests |
//! | a log line on the standalone stream | [`Link::task_of_standalone_log`]: the only call in the session |
//! | a log line on the only stream of a stdio or HTTP+SSE server | [`Link::task_of_shared_log`]: the newest call |
//! | a log line of a stdio server, for its host | [`Link::task_of_process_log`]: the newest call of the only host |
//! | anything else on the only stream of a stdio or HTTP+SSE server | [`Link::only_active_task`] |

use std::cmp::Reverse;

use itertools::Itertools as _;

use crate::{
    domain::{Phase, QuestionKind, Task, TaskId},
    link::{ActiveTask, Link},
};

impl Link {
    /// The task whose call has this progress token.
    pub(super) fn call_of(&self, task: Option<&TaskId>, token: &str) -> Option<TaskId> {
        // Mostly it is the call of this stream, which needs no look-up.
        let is_own =
            |id: &&TaskId| self.tasks.get(id).and_then(ActiveTask::request_id) == Some(token);
        let own = task.filter(is_own);
        own.or_else(|| self.call(token)).cloned()
    }

    /// Whether progress of a call is accepted from a stream: that of `stream`, or the standalone one without it. If it comes
    /// on the call's own stream, it is accepted only there: on another one, a step could arrive before earlier ones.
    pub(super) fn takes_steps_from(&self, id: &TaskId, stream: Option<&TaskId>) -> bool {
        if stream == Some(id) {
            return true;
        }
        let Some(active) = self.tasks.get(id) else {
            return false;
        };
        // The stream of a call ends once the server has made a task of it.
        let has_ids = active.served.is_none()
            && active.attempt().is_some()
            && (active.has_cursor() || self.record.gives_ids() == Some(true));
        // Some servers send all steps on the standalone stream.
        !has_ids || stream.is_none() && !active.activity.has_own_steps
    }

    /// Remembers whether progress of a call arrives on its own stream or on the standalone one (without `stream`).
    pub(super) fn note_stream_of_steps(&mut self, id: &TaskId, stream: Option<&TaskId>) {
        let is_own = stream == Some(id);
        if !is_own && stream.is_some() || self.record.is_process() {
            return;
        }
        if let Some(active) = self.tasks.get_mut(id) {
            active.activity.has_own_steps |= is_own;
        }
        let has_steps = &mut self.standalone_record().has_steps;
        if std::mem::replace(has_steps, !is_own) == is_own {
            self.record_changed();
        }
    }

    /// The only task that is running, queued, asking or being controlled.
    pub(super) fn only_active_task(&self) -> Option<TaskId> {
        let tasks = self.tasks.iter();
        let mut active = tasks.filter(|(_, active)| !active.is_settled() && active.is_active());
        let (id, _) = active.next()?;
        active.next().is_none().then(|| id.clone())
    }

    /// The calls that are out and about which such a question can be asked, if one host made all of them, or none:
    /// another host must not see what a server asks about a call of this one. Where two processes of a host run in one
    /// directory, each of them sees that not all of the calls are its own. All calls without a host have the same person,
    /// so the newest one will do.
    pub(super) fn calls_of_one_host(&self, kind: QuestionKind) -> Vec<TaskId> {
        let is_out = |(id, active): &(&TaskId, &ActiveTask)| {
            let is_running = !active.is_settled() && !active.was_cancelled();
            is_running && active.attempt().is_some() && self.can_ask(id, kind)
        };
        let mut out: Vec<(&TaskId, &Task)> = (self.tasks.iter().filter(is_out))
            .map(|(id, active)| (id, &active.task))
            .sorted_by_key(|(_, task)| Reverse(task.created_at))
            .collect();
        let host_of =
            |task: &Task| (task.caller.as_ref()).map(|it| (it.host.clone(), it.directory.clone()));
        match out.first().map(|(_, newest)| host_of(newest)) {
            Some(one) if !out.iter().all(|(_, task)| host_of(task) == one) => out.clear(),
            Some(None) => out.truncate(1),
            _ => {}
        }
        // A process of the host that gave up on a call, or was killed, is not asked beside one that waits.
        let gave_up = |task: &Task| task.caller.as_ref().is_some_and(|it| it.gave_up.is_some());
        if !out.iter().all(|(_, task)| gave_up(task)) {
            out.retain(|(_, task)| !gave_up(task));
        }
        out.into_iter().map(|(id, _)| id.clone()).collect()
    }

    /// The calls that a question on no call's stream may be about.
    pub(super) fn calls_asked(&self, kind: QuestionKind) -> Vec<TaskId> {
        let of_host = self.calls_of_one_host(kind);
        match kind {
            // What the hosts work in concerns all of them, unless a call asks.
            QuestionKind::Roots => Vec::new(),
            QuestionKind::Sampling => of_host,
            // Whichever call of a process of ours it is about, its person is the same one, unless hosts make the calls.
            QuestionKind::Elicitation if self.record.is_process() && !of_host.is_empty() => of_host,
            QuestionKind::Elicitation => {
                let mut calls = self.calls_in_session();
                // Some servers never end a call that was cancelled, but one that runs is more likely to ask.
                let waits = |id: &TaskId| self.tasks.get(id).is_some_and(|it| !it.was_cancelled());
                if calls.iter().any(waits) {
                    calls.retain(waits);
                }
                calls
            }
        }
    }

    /// Whether a task has a call in the current session. A call of the modern era counts only as a server task.
    pub(super) fn is_in_session(&self, active: &ActiveTask) -> bool {
        let is_out = matches!(active.phase(), Phase::Sent | Phase::Open)
            && active.is_of_session(self.record.session_number);
        active.task.is_open()
            && active.is_active()
            && (active.served.is_some() || is_out && !active.is_modern())
    }

    /// The calls that may have caused what the server sends beside all of them.
    pub(super) fn calls_in_session(&self) -> Vec<TaskId> {
        self.tasks_where(|active| self.is_in_session(active))
    }

    /// The only call that can have caused a log line of this stream, unless the line is a replay of what it has.
    pub(super) fn task_of_standalone_log(&self, event_id: Option<&str>) -> Option<TaskId> {
        let tasks = self.tasks.iter();
        let mut in_session =
            tasks.filter(|(_, active)| self.standalone.is_being_read && self.is_in_session(active));
        let (id, active) = in_session.next()?;
        let is_new = event_id.is_none_or(|event_id| !active.ids.knows(event_id));
        (is_new && in_session.next().is_none()).then(|| id.clone())
    }

    /// The newest call that is out, which most likely caused a log line on the one stream that all calls share.
    pub(super) fn task_of_shared_log(&self) -> Option<TaskId> {
        self.legacy_sse.as_ref()?;
        let is_out = |(_, active): &(&TaskId, &ActiveTask)| {
            let is_sent = matches!(active.phase(), Phase::Sent | Phase::Open);
            !active.is_settled() && active.is_active() && (is_sent || active.served.is_some())
        };
        let newest = self.tasks.iter().filter(is_out);
        let newest =
            newest.max_by_key(|(_, active)| (!active.was_cancelled(), active.task.created_at));
        newest.map(|(id, _)| id.clone())
    }

    /// A call of the only host with calls, if there is one: a program's log message is for this host.
    pub(super) fn task_of_process_log(&self) -> Option<TaskId> {
        if !self.record.is_process() || !self.is_listened_to() || self.has_forwards() {
            return None;
        }
        let calls = self.calls_of_one_host(QuestionKind::Elicitation);
        calls.into_iter().next()
    }
}
