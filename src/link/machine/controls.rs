//! Handles pause and cancel, and their time limits.

use core::time::Duration;

use crate::{
    domain::{
        ActionRefusal, ControlKind, Mono, Phase, RequestError, ServerSupport, Status, Task, TaskId,
        text,
    },
    link::{
        ActiveTask, ConnectionState, Follow, Link, RequestKind, StreamState,
        active_task::PendingControl, in_flight::no_such_task, time::doubled,
    },
    protocol::{self, encode},
};

/// How long a pause may take before "the server did not stop".
const PAUSE_WITHIN: Duration = Duration::from_secs(60);
/// How long a cancel may take before "the server did not respond".
const CANCEL_WITHIN: Duration = Duration::from_secs(5);
/// The same for a server task, whose server may take its time.
const TASK_CANCEL_WITHIN: Duration = Duration::from_secs(30);
/// How long a cancelled call is silent, at least and at most, until it counts as cancelled. A server need not confirm a
/// cancel (2025-11-25, basic/utilities/cancellation), so its silence is all that can be had.
const CANCEL_SILENCE: [Duration; 2] = [Duration::from_secs(30), Duration::from_secs(300)];
/// How long a resume is shown as requested.
const RESUME_WITHIN: Duration = Duration::from_secs(60);
/// How long after a cancel or pause that did not get through it is sent again: at first, and after many tries. Each try
/// costs the link's budget, which also has to last for what a call's recovery needs.
const WISH_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];
/// How many attempts fail before the user sees a notice.
const TOLD_AFTER: u32 = 3;

/// How a cancel ends a call that was not sent, or not sent again.
fn not_sent(task: &Task) -> &'static str {
    if task.attempts.len() > 1 {
        "cancelled before the call was sent again"
    } else {
        "it was never run"
    }
}

impl ActiveTask {
    /// Whether it is being cancelled only because the server did not pause it.
    pub(super) fn is_stopped_for_pause(&self) -> bool {
        self.was_cancelled() && self.is_asked(ControlKind::Pausing)
    }

    /// Whether a cancel is pending, for whatever reason.
    pub(super) fn is_being_cancelled(&self) -> bool {
        self.is_asked(ControlKind::Cancelling) || self.is_stopped_for_pause()
    }

    /// Whether its cancel must be sent.
    pub(super) fn waits_to_cancel(&self) -> bool {
        let control = self.control.as_ref();
        self.is_being_cancelled() && control.is_some_and(|control| !control.is_sent)
    }
}

impl Link {
    /// Sets the pending control, with its time limit.
    pub(super) fn request_control(&mut self, id: &TaskId, what: ControlKind) {
        let now = self.now;
        let within = match what {
            ControlKind::Pausing => PAUSE_WITHIN,
            ControlKind::Cancelling => CANCEL_WITHIN,
            ControlKind::Resuming => RESUME_WITHIN,
        };
        if let Some(active) = self.tasks.get_mut(id) {
            active.task.notice = None;
            let until = now.mono.after(within);
            let control = PendingControl {
                what,
                until,
                is_taken: false,
                is_sent: false,
                unheard: 0,
                retry_at: None,
            };
            active.set_control(now, Some(control));
        }
        self.saver.touch(now.mono);
        self.schedule.needs_advance = true;
    }

    /// Why the user can't pause, resume or cancel a task.
    pub(super) fn control_refusal(&self, id: &TaskId, what: ControlKind) -> Option<ActionRefusal> {
        let Some(active) = self.tasks.get(id) else {
            return Some(ActionRefusal::Settled);
        };
        let pause = &self.record.convention.pause;
        let is_of_another = active
            .attempt()
            .is_some_and(|attempt| attempt.session_number != self.record.session_number);
        let server = ServerSupport {
            has_pause_tool: self.record.tools.iter().any(|tool| tool.name == *pause),
            // Without MCP sessions, event ids stay valid.
            is_session_gone: is_of_another && self.record.session.is_some()
                || !self.record.is_initialized,
            has_left_session: !active.is_modern() && !self.record.is_stateful(),
        };
        active.task.refusal_at(what, &server)
    }

    /// Asks the server's pause tool to stop the call at a checkpoint.
    pub(super) fn ask_pause(&mut self, id: &TaskId) -> Result<(), RequestError> {
        let now = self.now;
        if let Some(refusal) = self.control_refusal(id, ControlKind::Pausing) {
            let words = self.pause_refusal_message(id, refusal);
            return Err(RequestError::Usage(words));
        }
        if let Some(active) = self.tasks.get_mut(id)
            && active.follow.is_none()
        {
            active.follow = Some(Follow::new(now.mono, active.activity.longest_step));
        }
        self.request_control(id, ControlKind::Pausing);
        Ok(())
    }

    /// Cancels a call that should pause. Once it has stopped, [`Self::conclude`] pauses the task.
    pub(super) fn ask_stop(&mut self, id: &TaskId) -> Result<(), RequestError> {
        let now = self.now;
        let can_send = self.connection == ConnectionState::Ready && self.reachability.may_send(now);
        let active = self.tasks.get(id).ok_or_else(|| no_such_task(id))?;
        if !active.is_asked(ControlKind::Pausing) {
            let message = format!("not stopped: no pause of {id} is pending");
            return Err(RequestError::Usage(message));
        }
        if !can_send {
            let name = &self.record.name;
            let message =
                format!("not stopped: {name} can't be reached now; the pause stays pending");
            return Err(RequestError::Unreachable(message));
        }
        let is_hung_up = active.is_modern() && active.is_out() && !self.record.is_process();
        self.request_control(id, ControlKind::Pausing);
        if is_hung_up {
            // Unlike after a cancel, the list has to show that the work has stopped.
            let active = self.tasks.get_mut(id);
            if let Some(attempt) = active.and_then(ActiveTask::attempt_mut) {
                attempt.was_cancelled = true;
            }
            let end = self.end_of(id, "stopped for a pause");
            self.out_of_stream(id, end);
        } else {
            self.send_cancel(id);
        }
        Ok(())
    }

    fn pause_refusal_message(&self, id: &TaskId, refusal: ActionRefusal) -> String {
        let name = &self.record.name;
        let tool = self.tasks.get(id).map(|active| active.task.tool.as_str());
        let tool = tool.unwrap_or_default();
        match refusal {
            ActionRefusal::AlreadyPaused => {
                format!("{id} is already paused; resume it to continue")
            }
            ActionRefusal::NotStarted => {
                format!("not paused: {id} has not been sent yet; you can cancel it")
            }
            ActionRefusal::NoPauseTool => {
                format!("not paused: {name} has no pause tool; the call keeps running")
            }
            ActionRefusal::NoCheckpoint => format!(
                "not paused: {tool} keeps no checkpoint, so {name}'s pause tool can't pause it; the call keeps running"
            ),
            ActionRefusal::Unknown => "not paused: it may not be running".to_owned(),
            _ => format!("not paused: {id} has ended"),
        }
    }

    /// Cancels: by notification where a call is out, at once where nothing runs.
    pub(super) fn ask_cancel(&mut self, id: &TaskId) -> Result<(), RequestError> {
        let now = self.now;
        if let Some(refusal) = self.control_refusal(id, ControlKind::Cancelling) {
            return Err(RequestError::Usage(match refusal {
                ActionRefusal::SessionGone => {
                    "not cancelled: its MCP session is gone; mark it as lost or remove it"
                        .to_owned()
                }
                _ => format!("not cancelled: {id} has ended"),
            }));
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return Err(no_such_task(id));
        };
        if active.is_modern() && active.is_out() && active.sending.is_none() {
            self.hang_up(id);
            return Ok(());
        }
        let is_at_work = active.is_out() || active.served.is_some();
        let was_cancelled = active.attempt().is_some_and(|it| it.was_cancelled);
        if self.record.is_process() && is_at_work && was_cancelled && active.control.is_none() {
            return self.end_process(id);
        }
        let is_round = active.task.waits_in_round();
        let idle = match (&active.task.status, active.phase()) {
            (Status::InputRequired | Status::Running, _) if is_round => {
                Some("nothing ran; the server's question stays unanswered")
            }
            (Status::Running, Phase::Queued) => Some(not_sent(&active.task)),
            (Status::Paused, _) => Some("it was paused; its checkpoint stays on the server"),
            _ => None,
        };
        if let Some(words) = idle {
            active.notice(now, words.to_owned());
            self.conclude(id, Status::Cancelled, None);
            return Ok(());
        }
        if active.task.resumability.checkpoint && active.follow.is_none() {
            active.follow = Some(Follow::new(now.mono, active.activity.longest_step));
        }
        self.request_control(id, ControlKind::Cancelling);
        Ok(())
    }

    /// A plain call of the modern era is cancelled by closing its stream, on pipes by saying so; its server must say nothing
    /// to either (2026-07-28, basic/patterns/cancellation).
    fn hang_up(&mut self, id: &TaskId) {
        let now = self.now;
        let may_be_task = self.may_be_task(id);
        let is_process = self.record.is_process();
        let mut request_id = None;
        if let Some(active) = self.tasks.get_mut(id) {
            request_id = active.request_id().map(str::to_owned);
            // Over stdio, nothing shows that a call was accepted.
            let is_unanswered = is_process || matches!(active.stream, StreamState::Calling(_));
            let mut words = if is_process {
                "the stdio server was notified".to_owned()
            } else {
                "longhaul closed the call's connection".to_owned()
            };
            if is_unanswered && may_be_task {
                words.push_str("; if the server had turned it into a task, that task continues");
            }
            active.notice(now, words);
        }
        if let Some(request_id) = request_id.filter(|_| is_process) {
            let method = encode::cancelled_notification(&request_id, "cancelled by the user");
            self.send_now(RequestKind::Cancel(id.clone()), method);
        }
        self.conclude(id, Status::Cancelled, None);
    }

    /// How many other calls of the server are running.
    fn others_at_work(&self, id: &TaskId) -> u64 {
        let others = self.tasks.iter().filter(|(other, active)| {
            let is_at_work = active.is_out() || active.served.is_some();
            *other != id && !active.is_settled() && is_at_work && !active.was_cancelled()
        });
        u64::try_from(others.count()).unwrap_or(u64::MAX)
    }

    /// A second cancel, after the process did not respond to the first: stopping the process ends the call. MCP lets a
    /// server ignore a cancel, so there is no other proof that the call has ended.
    fn end_process(&mut self, id: &TaskId) -> Result<(), RequestError> {
        let others = self.others_at_work(id);
        let name = self.record.name.clone();
        if others > 0 {
            let calls = text::plural(others, "other call");
            return Err(RequestError::Usage(format!(
                "not cancelled: the stdio server {name} did not respond, and stopping it would also end {calls}"
            )));
        }
        if let Some(active) = self.tasks.get_mut(id) {
            let words =
                "the stdio server did not respond to the cancel request and was stopped".to_owned();
            active.notice(self.now, words);
        }
        // Every other unfinished call of that server was cancelled too.
        for id in self.tasks_where(ActiveTask::was_cancelled) {
            self.conclude(&id, Status::Cancelled, None);
        }
        self.legacy_sse_ended("the stdio server was stopped after a cancel");
        Ok(())
    }

    pub(super) fn step_control(&mut self, id: &TaskId) {
        let now = self.now;
        // Credentials that were refused for another request may do for a cancel.
        let is_ready = self.connection == ConnectionState::Ready
            || self.is_barred() && self.record.is_initialized && !self.record.is_process();
        let can_send = is_ready && self.reachability.may_send(now);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(control) = active.control.clone() else {
            return;
        };
        let is_due = active.waits_to_cancel()
            && active.sending.is_none()
            && control.retry_at.is_none_or(|at| now.mono >= at);
        if is_due && active.phase() == Phase::Queued {
            active.notice(now, not_sent(&active.task).to_owned());
            return self.conclude(id, Status::Cancelled, None);
        }
        // The first goes out because a person wants it, the next ones within the budget.
        if is_due
            && can_send
            && (control.retry_at.is_none() || self.reachability.spend(now).is_ok())
        {
            self.send_cancel(id);
        }
        let control = self.tasks.get(id).and_then(|it| it.control.as_ref());
        if control.is_some_and(|control| now.mono >= control.until) {
            self.control_timed_out(id);
        }
    }

    /// Says why nothing came of a pause, resume or cancel in time.
    fn control_timed_out(&mut self, id: &TaskId) {
        let now = self.now;
        let can_end_process = self.record.is_process() && self.others_at_work(id) == 0;
        let name = &self.record.name;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(control) = active.control.clone() else {
            return;
        };
        let words = match control.what {
            ControlKind::Pausing if active.was_cancelled() => {
                format!("{name} did not confirm that the call stopped; it may still be running")
            }
            ControlKind::Pausing if control.is_sent => {
                format!(
                    "{name} did not stop the call in time, so the pause request was dropped; pause twice to stop the call now and keep the checkpoint"
                )
            }
            ControlKind::Pausing => {
                format!("the pause request could not be sent to {name} within a minute")
            }
            ControlKind::Cancelling if !control.is_sent => {
                // Not reachable, or its call is not out yet: it is asked as soon as it can be.
                if let Some(control) = active.control.as_mut() {
                    control.until = now.mono.after(CANCEL_WITHIN);
                }
                return;
            }
            ControlKind::Cancelling if can_end_process => {
                format!(
                    "{name} did not respond to the cancel request; cancel again to stop the stdio server"
                )
            }
            ControlKind::Cancelling if matches!(active.task.status, Status::Unknown(_)) => {
                format!("{name} was asked to cancel the call but can't confirm that it stopped")
            }
            ControlKind::Cancelling => {
                format!(
                    "{name} did not respond to the cancel request; the call may still be running"
                )
            }
            ControlKind::Resuming => {
                active.set_control(now, None);
                return;
            }
        };
        active.set_control(now, None);
        active.notice(now, words);
        if active.stream != StreamState::None {
            active.follow = None;
        }
        self.saver.touch(now.mono);
    }

    /// Asks the server to cancel its task.
    pub(super) fn send_task_cancel(&mut self, id: &TaskId, server_task: &str) {
        let request_id = self.in_flight.new_request_id();
        let method = encode::about_task(
            self.version_of(id),
            &request_id,
            "tasks/cancel",
            server_task,
        );
        let kind = RequestKind::Cancel(id.clone());
        self.send_request(kind, method, request_id);
    }

    fn send_cancel(&mut self, id: &TaskId) {
        let (now, session_number) = (self.now, self.record.session_number);
        let is_process = self.record.is_process();
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let longest_step = active.activity.longest_step;
        if active.is_modern() && active.is_out() && !active.is_asked(ControlKind::Pausing) {
            return self.hang_up(id);
        }
        let Some(attempt) = active.attempt_mut() else {
            return;
        };
        attempt.was_cancelled = true;
        let request_id = attempt.request_id.clone();
        active.cancel_taken_at = None;
        active.touch(now);
        // A request id means nothing in another session; what the list shows is all that can be known.
        // In the modern era whatever is out was hung up.
        let is_ours = active.is_of_session(session_number)
            && (!active.is_modern() || is_process && active.is_out());
        let server_task = active.polled_task();
        if let Some(control) = active.control.as_mut() {
            // The limit runs from when the server could hear it.
            let within = match (control.what, &server_task) {
                // Only the server's list proves that the call has stopped, and it may take a few steps.
                (ControlKind::Pausing, _) => PAUSE_WITHIN + longest_step * 4,
                (_, Some(_)) => TASK_CANCEL_WITHIN,
                (_, None) => CANCEL_WITHIN,
            };
            control.until = now.mono.after(within);
            control.is_sent = true;
        }
        if let Some(server_task) = server_task {
            self.send_task_cancel(id, &server_task);
        } else if is_ours {
            let method = encode::cancelled_notification(&request_id, "cancelled by the user");
            self.send_now(RequestKind::Cancel(id.clone()), method);
        }
    }

    /// The server took `notifications/cancelled`.
    pub(super) fn cancel_taken(&mut self, id: &TaskId) {
        let active = self.tasks.get_mut(id);
        let control = active.and_then(|active| active.control.as_mut());
        if let Some(control) = control.filter(|it| it.what == ControlKind::Cancelling) {
            control.is_taken = true;
        }
    }

    /// The server itself received `notifications/cancelled`.
    pub(super) fn cancel_arrived(&mut self, id: &TaskId) {
        let active = self.tasks.get_mut(id);
        if let Some(active) = active.filter(|active| active.was_cancelled()) {
            active.cancel_taken_at = Some(self.now.mono);
        }
    }

    /// The server has responded to a call. A cancel that was sent before may have overtaken the call, and goes out again.
    pub(super) fn cancel_again(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get_mut(id).filter(|it| it.was_cancelled()) else {
            return;
        };
        active.cancel_taken_at = None;
        match &mut active.control {
            Some(control) => (control.is_sent, control.retry_at) = (false, None),
            None => self.request_control(id, ControlKind::Cancelling),
        }
        self.schedule.needs_advance = true;
    }

    /// When the silence of a cancelled call ends it, if its server stays in contact.
    pub(super) fn cancel_ends(active: &ActiveTask) -> Option<Mono> {
        let taken_at = active.cancel_taken_at.filter(|_| active.was_cancelled())?;
        // A call without a response may arrive after its cancel.
        let has_arrived = active.phase() == Phase::Open;
        // Without its stream, nothing about it arrives, whatever else the server sends.
        let is_deaf = active.recovery.kept.is_none()
            && matches!(
                active.stream,
                StreamState::Waiting(_)
                    | StreamState::Asking { .. }
                    | StreamState::Verifying { .. }
            );
        let is_pausing = active.is_asked(ControlKind::Pausing);
        if !has_arrived || is_deaf || active.served.is_some() || is_pausing {
            return None;
        }
        let [least, most] = CANCEL_SILENCE;
        let silence = (active.activity.longest_step * 3).clamp(least, most);
        let activity = &active.activity;
        let since = taken_at.max(activity.last_news).max(activity.contact_since);
        Some(since.after(silence))
    }

    pub(super) fn step_cancel(&mut self, id: &TaskId) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let ignored_at = active.cancel_taken_at.map(|at| at.after(CANCEL_WITHIN));
        if ignored_at.is_some_and(|at| active.activity.last_news >= at) {
            // It made progress after the cancel, so silence no longer shows that it has stopped.
            active.cancel_taken_at = None;
        }
        let is_due = Self::cancel_ends(active).is_some_and(|at| now.mono >= at);
        let is_in_contact =
            self.connection == ConnectionState::Ready && self.reachability.down.is_none();
        if is_due && is_in_contact {
            let name = &self.record.name;
            let message = format!("{name} has sent nothing about it since the cancel");
            active.notice(now, message);
            active.task.end.is_unconfirmed = true;
            self.conclude(id, Status::Cancelled, None);
        }
    }

    /// The request for a pause or cancel did not get through; it goes out again within its limit.
    pub(super) fn control_unheard(&mut self, id: &TaskId, what: ControlKind) {
        let now = self.now;
        let is_cancel = what == ControlKind::Cancelling;
        // The user may have asked for something else meanwhile.
        if let Some(active) = self.tasks.get_mut(id)
            && (active.is_asked(what) || is_cancel && active.is_being_cancelled())
            && let Some(control) = &mut active.control
        {
            let [first, most] = WISH_AGAIN;
            let wait = doubled(first, control.unheard, most);
            control.unheard += 1;
            (control.is_sent, control.retry_at) = (false, Some(now.mono.after(wait)));
            if control.unheard == TOLD_AFTER {
                let words = format!("{} has not accepted the request yet", self.record.name);
                active.notice(now, words);
                active.touch(now);
            }
        }
    }

    /// The pause tool refused, in its own words.
    pub(super) fn control_refused(&mut self, id: &TaskId, said: &str) {
        let now = self.now;
        let name = self.record.name.clone();
        let active = self.tasks.get_mut(id);
        // The user may have cancelled it meanwhile.
        if let Some(active) = active.filter(|active| active.is_asked(ControlKind::Pausing)) {
            active.set_control(now, None);
            let message = format!("not paused: {name} says {}", text::clean_line(said));
            active.notice(now, message);
            if active.stream != StreamState::None {
                active.follow = None;
            }
        }
        self.saver.touch(now.mono);
    }

    /// The pause tool answered; only standing still is proof.
    pub(super) fn pause_answered(&mut self, id: &TaskId, result: &str) {
        let answer = protocol::parse_call_result(result);
        if answer.is_error {
            self.control_refused(id, answer.text.as_deref().unwrap_or("no"));
        }
    }
}
