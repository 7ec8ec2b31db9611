//! How a task comes back from the session file, and what ended while no process watched.

use core::time::Duration;

use super::limits::HEAR_FIRST;
use crate::{
    domain::{
        ControlKind, EventId, HistoryEvent, IfCut, LostReason, Phase, Question, QuestionSource,
        Stamp, Status, Task, TaskId, UnknownReason, Wall, text,
    },
    link::{
        ActiveTask, ConnectionState, Link, StreamState, io::Unfollowed, recovery::Disconnection,
        server_task_poll::ServerTaskPoll,
    },
};

/// Why the program or the connection of a call ended, where longhaul itself ended it.
const ENDED_WITH_US: &str = "longhaul exited";
/// A hand-over between two processes of ours takes less, and is no gap.
const UNWATCHED_AT_LEAST: Duration = Duration::from_secs(1);

impl Link {
    /// Takes a task back from the session file: reading is automatic, side effects are not.
    pub(super) fn restore(&mut self, task: Task, ids: Vec<EventId>, unfollowed: Unfollowed) {
        let id = task.id.clone();
        let now = self.now;
        if task.forgotten_at.is_some() {
            self.exit.keeps_session |= !task.status.is_settled();
            return;
        }
        let watched_until = match unfollowed {
            Unfollowed::SinceDriver(None) => task.updated_at,
            Unfollowed::SinceDriver(Some(until)) => until.max(task.updated_at),
            Unfollowed::Removed => now.wall,
        };
        let watched_until = watched_until.min(now.wall);
        let is_removed = matches!(unfollowed, Unfollowed::Removed);
        let mut active = ActiveTask::new(now, task, ids, &self.saver.unsaved);
        active.limits_from = now.mono.after(HEAR_FIRST);
        active.activity.has_own_steps = !self.record.standalone.has_steps
            && active.attempt().is_some_and(|it| it.last_value.is_some());
        // A cancel that is not proved, also one for a pause, is requested again: its user must not find the work still
        // running. Any other request is repeated by the user, if it is still wanted.
        let asked = active.task.control.take();
        let asked_again = asked
            .map(|asked| asked.what)
            .filter(|what| *what == ControlKind::Cancelling || active.was_cancelled());
        if asked.is_some() {
            active.touch(now);
        } else if active.was_cancelled() {
            active.cancel_taken_at = Some(now.mono);
        }
        if let Some(attempt) = active.attempt() {
            let request_id = attempt.request_id.clone();
            self.index.by_request.insert(request_id, id.clone());
        }
        let is_unsettled = matches!(active.task.status, Status::Running | Status::InputRequired);
        let mut questions = active.task.questions.iter();
        let is_in_round = questions
            .any(|question| question.source == QuestionSource::Round && !question.is_delivered);
        let is_queued = active.phase() == Phase::Queued;
        // An answer that may not have got through: on a stream it goes out again, to a task once it is seen to ask.
        let is_unsent = |question: &Question| {
            question.answer.is_some()
                && !question.is_delivered
                && question.source != QuestionSource::TaskInput
        };
        if active.task.questions.iter().any(is_unsent) {
            active.answers_wait();
        }
        self.tasks.insert(id.clone(), active);
        self.schedule.needs_advance = true;
        if let Some(what) = asked_again.filter(|_| is_unsettled) {
            self.request_control(&id, what);
        }
        // Nothing runs until the answers of a round have gone out.
        if is_unsettled && !is_queued && !is_in_round {
            self.restore_call(&id, watched_until, is_removed);
        }
    }

    /// Picks up a call that was out when the last process left.
    fn restore_call(&mut self, id: &TaskId, watched_until: Wall, is_removed: bool) {
        self.note_unwatched(id, watched_until);
        let now = self.now.mono;
        let is_inherited =
            self.record.is_process() && self.connection == ConnectionState::OpeningSse;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let phase = active.phase();
        if is_inherited && matches!(phase, Phase::Sent | Phase::Open) {
            return self.continue_in_process(id);
        }
        if self.record.is_process() && phase != Phase::Ended {
            let end = if is_removed {
                Status::Lost(LostReason::Removed)
            } else {
                self.end_of(id, ENDED_WITH_US)
            };
            self.out_of_stream(id, end);
            return self.ended_at(id, watched_until);
        }
        if let Some(server_task) = &active.task.server_task {
            self.index
                .by_server_task
                .insert(server_task.id.clone(), id.clone());
            // The previous process may have delivered it without learning that it arrived.
            let may_have_answer = |question: &&Question| {
                question.source == QuestionSource::TaskInput
                    && question.answer.is_some()
                    && !(question.is_delivered || question.is_unsent)
            };
            let unheard = active.task.questions.iter().find(may_have_answer);
            active.served = Some(ServerTaskPoll {
                unheard: unheard.map(|question| (question.key.clone(), now)),
                ..ServerTaskPoll::new(now)
            });
            return self.gather();
        }
        if active.is_modern() {
            let why = if is_removed {
                "you removed it from the list"
            } else {
                "no longhaul process was running to keep the connection open"
            };
            let end = self.end_of(id, why);
            self.out_of_stream(id, end);
            return self.ended_at(id, watched_until);
        }
        let has_cursor = active.has_cursor();
        let is_same_session =
            self.record.is_initialized && active.is_of_session(self.record.session_number);
        let end = match phase {
            Phase::Open if has_cursor && is_same_session => {
                active.stream = StreamState::Waiting(now);
                return;
            }
            Phase::Open if has_cursor => Status::Lost(LostReason::session_gone(None)),
            // It was taken over, and no call of ours was ever made.
            Phase::Ended if active.task.resumability.checkpoint => Status::Running,
            Phase::Open => Status::Unknown(self.window_without_id(id)),
            _ => Status::Unknown(UnknownReason::BeforeFirstId),
        };
        self.out_of_stream(id, end);
    }

    /// The time in which no process followed a task is a line of its log, as a lost connection is.
    fn note_unwatched(&mut self, id: &TaskId, from: Wall) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let unwatched = now.wall.since(from);
        if unwatched < UNWATCHED_AT_LEAST {
            return;
        }
        let why = format!(
            "longhaul was not running for up to {}",
            text::span(unwatched)
        );
        let state = "unwatched".to_owned();
        active.recovery.disconnection = Some(Disconnection {
            at: now.mono,
            before: unwatched,
            why: why.clone(),
        });
        // It stands where it began: what reads the history sees this time as unwatched, not the time after it.
        let begun = Stamp { wall: from, ..now };
        active.note(begun, None, HistoryEvent::Contact { state, why });
        active.touch(now);
        self.saver.touch(now.mono);
    }

    /// What ended because no process was there ended when the last process left, not when the next one found out.
    pub(super) fn ended_at(&mut self, id: &TaskId, at: Wall) {
        let ended = self.tasks.get_mut(id).map(|active| &mut active.task);
        let Some(task) = ended.filter(|task| task.status.is_settled()) else {
            return;
        };
        let at = at.max(task.created_at);
        task.end.settled_at = Some(at);
        if let Some(attempt) = task.attempts.last_mut() {
            attempt.ended_at = Some(at);
        }
    }

    /// All connections are closed permanently: a call that can't be found again has ended, and the next process has
    /// nothing to find out about it.
    pub(super) fn connections_closed(&mut self) {
        let has_ended = |active: &ActiveTask| {
            let task = &active.task;
            let is_unsettled = matches!(task.status, Status::Running | Status::InputRequired);
            let was_sent = matches!(active.phase(), Phase::Sent | Phase::Open);
            is_unsettled && was_sent && IfCut::of_task(task).is_some_and(|it| it.is_lost())
        };
        for id in self.tasks_where(has_ended) {
            let detached = self.tasks.get_mut(&id).and_then(|it| it.detached.take());
            let end = match detached {
                Some(detached) => Status::Lost(detached.reason),
                None => self.end_of(&id, ENDED_WITH_US),
            };
            self.out_of_stream(&id, end);
        }
    }
}
