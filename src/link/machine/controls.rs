//! Pausing, cancelling and limits, and watching a checkpoint by its server's list.

use core::time::Duration;

use serde_json::{Value, json};

use super::{Link, earliest};
use crate::{
    domain::{
        ControlKind, Mono, Phase, Progress, QuestionSource, RequestError, SessionResponse, Status,
        TaskErrorKind, TaskId, UnknownReason, text,
    },
    link::{
        active_task::PendingControl,
        checkpoint::{self, BY_CHECKPOINT, Follow, Verdict},
        connection::ConnectionState,
        in_flight::RequestKind,
        stream_state::StreamState,
    },
    protocol::{self, encode},
};

/// How long a pause may take before "the server did not stop".
const PAUSE_WITHIN: Duration = Duration::from_secs(60);
/// How long a cancel may take before "the server did not react".
const CANCEL_WITHIN: Duration = Duration::from_secs(5);
/// The same for a server task, whose server may take its time.
const TASK_CANCEL_WITHIN: Duration = Duration::from_secs(30);
/// How long a resume may take before it is no longer shown as asked for.
const RESUME_WITHIN: Duration = Duration::from_secs(60);
/// How long after a cancel or pause that did not get through it is sent again.
const WISH_AGAIN: Duration = Duration::from_secs(1);
/// How long after a look at the list behind a silent stream the next comes, at least and at most: a quarter of the silence.
const DOUBTS_APART: Duration = Duration::from_secs(10);
const DOUBTS_APART_AT_MOST: Duration = Duration::from_secs(60);
/// How long after a failed look at the list the next comes.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

impl Link {
    /// Sets what was asked for, with its limit.
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
            active.set_control(
                now,
                Some(PendingControl {
                    what,
                    until,
                    is_taken: false,
                    is_sent: false,
                    retry_at: None,
                }),
            );
        }
        self.saver.touch(now.mono);
        self.needs_advance = true;
    }

    /// Asks the server's pause tool; refused in words where there is none.
    pub(super) fn ask_pause(&mut self, id: &TaskId) -> Result<SessionResponse, RequestError> {
        let now = self.now;
        let name = self.record.name.clone();
        let pause = &self.record.convention.pause;
        let has_pause = self.record.tools.iter().any(|tool| tool.name == *pause);
        let active = self.tasks.get_mut(id).ok_or_else(|| {
            RequestError::Usage(format!(
                "Not paused: {id} is settled; there is nothing left to pause"
            ))
        })?;
        let refusal = if active.task.status == Status::Paused {
            Some("it is already paused; r resumes it".to_owned())
        } else if active.phase() == Phase::Queued {
            Some("it does not run yet; x takes it back".to_owned())
        } else if !has_pause {
            Some(format!("{name} has no pause tool; the call keeps running"))
        } else if !active.task.resumability.checkpoint {
            Some(format!(
                "{} keeps no checkpoint that {name}'s pause tool could stop at; the call keeps running",
                active.task.tool
            ))
        } else if matches!(active.task.status, Status::Unknown(_)) {
            Some("nobody knows whether it runs".to_owned())
        } else {
            None
        };
        if let Some(refusal) = refusal {
            let words = format!("Not paused: {refusal}");
            active.remark(now, words.clone());
            return Err(RequestError::Usage(words));
        }
        if active.follow.is_none() {
            active.follow = Some(Follow::new(now.mono, active.activity.longest_step, false));
        }
        self.request_control(id, ControlKind::Pausing);
        Ok(SessionResponse::Accepted)
    }

    /// Cancels: by notification where a call is out, at once where nothing runs.
    pub(super) fn ask_cancel(&mut self, id: &TaskId) -> Result<SessionResponse, RequestError> {
        let now = self.now;
        let active = self.tasks.get_mut(id).ok_or_else(|| {
            RequestError::Usage(format!(
                "Not cancelled: {id} is settled; there is nothing left to cancel"
            ))
        })?;
        let is_of_another = active
            .attempt()
            .is_some_and(|attempt| attempt.session_number != self.record.session_number);
        if active.is_modern() && active.is_out() && active.sending.is_none() {
            return Ok(self.hang_up(id));
        }
        let is_at_work = active.is_out() || active.served.is_some();
        let was_cancelled = active.attempt().is_some_and(|it| it.was_cancelled);
        if self.record.is_process() && is_at_work && was_cancelled && active.control.is_none() {
            return self.end_process(id);
        }
        let is_round = active.task.status == Status::InputRequired
            && active
                .task
                .open_question()
                .is_some_and(|q| q.source == QuestionSource::Round);
        match (&active.task.status, active.phase()) {
            (Status::InputRequired, _) if is_round => {
                active.remark(
                    now,
                    "nothing ran; the server's question stays unanswered".to_owned(),
                );
                self.conclude(id, Status::Cancelled, None);
            }
            (Status::Unknown(_), _)
                if (is_of_another || !self.record.is_initialized)
                    && !active.task.resumability.checkpoint =>
            {
                return Err(RequestError::Usage(
                    "Not cancelled: the server session that it ran in is gone; mark it lost or forget it"
                        .to_owned(),
                ));
            }
            (Status::Running, Phase::Queued) => {
                active.remark(now, "it was never run".to_owned());
                self.conclude(id, Status::Cancelled, None);
            }
            (Status::Paused, _) => {
                active.remark(
                    now,
                    "it was paused; its checkpoint stays on the server".to_owned(),
                );
                self.conclude(id, Status::Cancelled, None);
            }
            _ => {
                if active.task.resumability.checkpoint && active.follow.is_none() {
                    active.follow =
                        Some(Follow::new(now.mono, active.activity.longest_step, false));
                }
                self.request_control(id, ControlKind::Cancelling);
            }
        }
        Ok(SessionResponse::Accepted)
    }

    /// A plain call of the modern era is cancelled by closing its stream, on pipes by saying so; its server must say nothing
    /// to either (2026-07-28, basic/patterns/cancellation).
    fn hang_up(&mut self, id: &TaskId) -> SessionResponse {
        let now = self.now;
        let may_be_task = self.may_be_task(id);
        let is_process = self.record.is_process();
        let mut request_id = None;
        if let Some(active) = self.tasks.get_mut(id) {
            request_id = active.request_id().map(str::to_owned);
            // On pipes nothing tells that a call was taken.
            let is_unanswered = is_process || matches!(active.stream, StreamState::Calling(_));
            let mut words = if is_process {
                "its program was told, which cancels it".to_owned()
            } else {
                "its connection was closed, which cancels it".to_owned()
            };
            if is_unanswered && may_be_task {
                words.push_str("; if the server had made a task of it, that goes on");
            }
            active.remark(now, words);
        }
        if let Some(request_id) = request_id.filter(|_| is_process) {
            let method = encode::cancelled_notification(&request_id, "cancelled by the user");
            self.send(RequestKind::Cancel(id.clone()), method, None, None);
        }
        self.conclude(id, Status::Cancelled, None);
        SessionResponse::Accepted
    }

    /// A cancel to which the process did not react, asked for again: its end is the end of the call. MCP lets a server
    /// say nothing to a cancel, so this is the one proof that can be had.
    fn end_process(&mut self, id: &TaskId) -> Result<SessionResponse, RequestError> {
        let others = self.tasks.iter().filter(|(other, active)| {
            *other != id && !active.is_settled() && (active.is_out() || active.served.is_some())
        });
        let others = u64::try_from(others.count()).unwrap_or(u64::MAX);
        let name = self.record.name.clone();
        if others > 0 {
            let calls = text::plural(others, "other call");
            return Err(RequestError::Usage(format!(
                "Not cancelled: the program of {name} did not react, and {calls} would end with it"
            )));
        }
        if let Some(active) = self.tasks.get_mut(id) {
            let words = "its program did not react to the cancel and was ended".to_owned();
            active.remark(self.now, words);
        }
        self.conclude(id, Status::Cancelled, None);
        self.legacy_sse_ended("its program was ended after a cancel");
        Ok(SessionResponse::Accepted)
    }

    pub(super) fn step_control(&mut self, id: &TaskId) {
        let now = self.now;
        let can_send = self.connection == ConnectionState::Ready && self.reachability.may_send(now);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(control) = active.control.clone() else {
            return;
        };
        let is_due = control.waits_to_cancel()
            && active.sending.is_none()
            && control.retry_at.is_none_or(|at| now.mono >= at);
        if is_due && active.phase() == Phase::Queued {
            active.remark(now, "it was never run".to_owned());
            return self.conclude(id, Status::Cancelled, None);
        }
        // The first goes out because a person wants it, the next ones within the budget.
        if is_due
            && can_send
            && (control.retry_at.is_none() || self.reachability.spend(now).is_ok())
        {
            self.send_cancel(id);
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(control) = active.control.clone() else {
            return;
        };
        if now.mono < control.until {
            return;
        }
        let name = &self.record.name;
        let words = match control.what {
            ControlKind::Pausing if control.is_sent => {
                format!("{name} did not stop within a minute; x stops it, the checkpoint stays")
            }
            ControlKind::Pausing => format!("{name} could not be asked to pause within a minute"),
            ControlKind::Cancelling if !control.is_sent => {
                // Not reachable, or its call is not out yet: it is asked as soon as it can be.
                if let Some(control) = active.control.as_mut() {
                    control.until = now.mono.after(CANCEL_WITHIN);
                }
                return;
            }
            ControlKind::Cancelling if self.record.is_process() => {
                format!("{name} did not react to the cancel; a second one ends its program")
            }
            ControlKind::Cancelling => {
                format!(
                    "{name} did not react to the cancel; the call is still followed (D stops following)"
                )
            }
            ControlKind::Resuming => {
                active.set_control(now, None);
                return;
            }
        };
        active.set_control(now, None);
        active.remark(now, words);
        if active.stream != StreamState::None {
            active.follow = None;
        }
        self.saver.touch(now.mono);
    }

    fn send_cancel(&mut self, id: &TaskId) {
        let (now, session_number) = (self.now, self.record.session_number);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if active.is_modern() && active.is_out() {
            self.hang_up(id);
            return;
        }
        if let Some(attempt) = active.attempt_mut() {
            attempt.was_cancelled = true;
        }
        active.touch(now);
        let Some(attempt) = active.task.attempts.last() else {
            return;
        };
        // A request id means nothing in another session; what the list shows is all that can be known.
        // In the modern era whatever is out was hung up.
        let is_ours = attempt.session_number == session_number && !active.is_modern();
        let request_id = attempt.request_id.clone();
        let server_task = active
            .served
            .as_ref()
            .and(active.task.server_task_id.clone());
        if let Some(control) = active.control.as_mut() {
            // The limit runs from when the server could hear it.
            let within = if server_task.is_some() {
                TASK_CANCEL_WITHIN
            } else {
                CANCEL_WITHIN
            };
            control.until = now.mono.after(within);
            control.is_sent = true;
        }
        if let Some(server_task) = server_task {
            let request_id = self.in_flight.new_request_id();
            let method = encode::cancel_task(self.version_of(id), &request_id, &server_task);
            self.send(
                RequestKind::Cancel(id.clone()),
                method,
                Some(request_id),
                None,
            );
        } else if is_ours {
            let method = encode::cancelled_notification(&request_id, "cancelled by the user");
            self.send(RequestKind::Cancel(id.clone()), method, None, None);
        }
    }

    /// The server took `notifications/cancelled`.
    pub(super) fn cancel_taken(&mut self, id: &TaskId) {
        if let Some(active) = self.tasks.get_mut(id)
            && let Some(control) = active
                .control
                .as_mut()
                .filter(|control| control.what == ControlKind::Cancelling)
        {
            control.is_taken = true;
        }
    }

    /// The request for a pause or cancel did not get through; it goes out again within its limit.
    pub(super) fn control_unheard(&mut self, id: &TaskId) {
        let retry_at = self.now.mono.after(WISH_AGAIN);
        if let Some(control) = self.tasks.get_mut(id).and_then(|r| r.control.as_mut()) {
            (control.is_sent, control.retry_at) = (false, Some(retry_at));
        }
    }

    /// The pause tool refused, in its own words.
    pub(super) fn control_refused(&mut self, id: &TaskId, said: &str) {
        let now = self.now;
        let name = self.record.name.clone();
        if let Some(active) = self.tasks.get_mut(id) {
            active.set_control(now, None);
            active.remark(
                now,
                format!("Not paused: {name} says {}", text::clean_line(said)),
            );
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
            return self.control_refused(id, answer.text.as_deref().unwrap_or("no"));
        }
        if let Some(control) = self
            .tasks
            .get_mut(id)
            .and_then(|active| active.control.as_mut())
        {
            control.is_taken = true;
        }
    }

    /// A stream that fell silent and has no way back is doubted: the list tells whether it lives. A step may be as long
    /// as the silence, which keeps the tool from being called a second time too early.
    fn step_doubt(&mut self, id: &TaskId) {
        let now = self.now.mono;
        if let Some(active) = self.tasks.get_mut(id)
            && active.follow.is_none()
            && active.doubted_at().is_some_and(|at| now >= at)
        {
            let silence = now.since(active.activity.last_byte.mono);
            let longest_step = active.activity.longest_step.max(silence);
            active.follow = Some(Follow::new(now, longest_step, false));
        }
    }

    /// The stream is dead; its checkpoint is followed on the list, which was read already.
    fn follow_instead(&mut self, id: &TaskId) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let connections = active.take_connections();
        active.activity.last_byte = now;
        let words =
            format!("its stream stayed silent while its checkpoint went on; {BY_CHECKPOINT}");
        active.remark(now, words);
        self.saver.urge(now.mono);
        self.needs_advance = true;
        for exchange in connections.into_iter().flatten() {
            self.close(exchange);
        }
    }

    /// Looks at the server's list when it is time.
    pub(super) fn step_follow(&mut self, id: &TaskId) {
        self.step_doubt(id);
        let now = self.now.mono;
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        let is_due = active
            .follow
            .as_ref()
            .and_then(|follow| follow.next)
            .is_some_and(|next| now >= next);
        if !is_due || self.connection != ConnectionState::Ready {
            return;
        }
        match self.may_ask() {
            Ok(()) => {}
            Err(later) => {
                if let (Some(later), Some(follow)) = (
                    later,
                    self.tasks.get_mut(id).and_then(|r| r.follow.as_mut()),
                ) {
                    follow.next = Some(later.max(now));
                }
                return;
            }
        }
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let client_id = active.task.client_id.clone().unwrap_or_default();
        if let Some(follow) = active.follow.as_mut() {
            follow.next = None;
        }
        self.call_list(RequestKind::Look(id.clone()), &client_id);
    }

    /// Asks the companion that lists a client's checkpoints.
    pub(super) fn call_list(&mut self, kind: RequestKind, client_id: &str) {
        let convention = self.record.convention.clone();
        let arguments = json!({convention.client_id: client_id});
        self.call_companion(kind, &convention.list, &arguments);
    }

    pub(super) fn call_companion(&mut self, kind: RequestKind, tool: &str, arguments: &Value) {
        let request_id = self.in_flight.new_request_id();
        let call = encode::CallParams {
            id: &request_id,
            token: &request_id,
            tool,
            arguments,
            task_ttl_ms: None,
            input: None,
            params: &[],
        };
        let method = encode::call_tool(self.session_version(), &call);
        self.send(kind, method, Some(request_id), None);
    }

    /// The list could not be read; that says nothing about the task.
    pub(super) fn look_failed(&mut self, id: &TaskId, at_least: Option<Duration>) {
        let next = self
            .now
            .mono
            .after(LOOK_AGAIN.max(at_least.unwrap_or_default()));
        if let Some(follow) = self
            .tasks
            .get_mut(id)
            .and_then(|active| active.follow.as_mut())
        {
            follow.next = Some(next);
        }
    }

    /// The list was read: the checkpoint rule decides.
    pub(super) fn looked(&mut self, id: &TaskId, result: &str) {
        let now = self.now;
        let answer = protocol::parse_call_result(result);
        if answer.is_error {
            return self.look_failed(id, None);
        }
        let list = checkpoint::read_list(answer.text.as_deref().unwrap_or_default());
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let entry = checkpoint::find(
            &list,
            active.task.server_task_id.as_deref(),
            &active.task.tool,
        )
        .cloned();
        let is_live = active.stream != StreamState::None;
        let is_doubted =
            active.control.is_none() && active.doubted_at().is_some_and(|at| now.mono >= at);
        if is_live && active.control.is_none() && !is_doubted {
            // Its stream tells; the list was only read for a wish that is over.
            active.follow = None;
        }
        let Some(follow) = active.follow.as_mut() else {
            return;
        };
        follow.read_at = Some(now.wall);
        let was_moved_at = follow.moved_at();
        let verdict = follow.judge(now.mono, entry.as_ref());
        let pace = if active.control.is_some() {
            Duration::from_secs(1)
        } else if is_doubted {
            let silence = now.mono.since(active.activity.last_byte.mono);
            (silence / 4).clamp(DOUBTS_APART, DOUBTS_APART_AT_MOST)
        } else {
            follow.pace()
        };
        follow.next = Some(now.mono.after(pace));
        let has_moved = follow.moved_at() > was_moved_at;
        let tells_steps = active
            .task
            .attempts
            .last()
            .is_some_and(|attempt| attempt.last_value.is_some());
        if is_doubted && follow.belies_stream(now.mono, tells_steps) {
            return self.follow_instead(id);
        }
        if !is_doubted {
            active.activity.last_byte = now;
        }
        active.saving.is_shown_stale = true;
        if has_moved {
            active.activity.last_news = now.mono;
        }
        let token = active
            .attempt()
            .map(|attempt| attempt.token.clone())
            .unwrap_or_default();
        if let Some(entry) = &entry {
            if active.task.server_task_id.as_ref() != Some(&entry.task_id) {
                active.task.server_task_id = Some(entry.task_id.clone());
                active.touch(now);
            }
            // While a stream is open the steps come there, in full.
            if !is_live && let Some(value) = entry.progress {
                let total = entry
                    .total
                    .or(active.task.progress.as_ref().and_then(|p| p.total));
                if let Some(progress) =
                    Progress::reported(value, total, None).filter(|_| value > 0.0)
                {
                    let is_news = active
                        .task
                        .progress
                        .as_ref()
                        .is_none_or(|known| known.value < value);
                    if is_news {
                        self.progressed(id, &token, progress, None);
                    }
                }
            }
            self.pause_if_requested(id, &entry.task_id);
        }
        self.apply(id, verdict, is_live);
    }

    /// The pause goes out once the server's id of the work is known.
    fn pause_if_requested(&mut self, id: &TaskId, server_task_id: &str) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if let Some(control) = active
            .control
            .as_mut()
            .filter(|control| control.what == ControlKind::Pausing && !control.is_sent)
        {
            control.is_sent = true;
            let convention = self.record.convention.clone();
            let arguments = json!({convention.task_id: server_task_id});
            self.call_companion(
                RequestKind::Pause(id.clone()),
                &convention.pause,
                &arguments,
            );
        }
    }

    fn apply(&mut self, id: &TaskId, verdict: Verdict, is_live: bool) {
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        let asked = active.control.as_ref().map(|control| control.what);
        let is_wanted = active.was_cancelled() || asked == Some(ControlKind::Cancelling);
        let verdict = match verdict {
            // Nobody asked for it: the end of our connection cancelled the call, as it has to in that era.
            Verdict::Cancelled if active.is_modern() && !is_wanted => Verdict::CallAgain,
            other => other,
        };
        match (verdict, asked) {
            (Verdict::Watch, _) => {}
            (Verdict::Paused, _) => self.paused(id),
            (Verdict::Cancelled, Some(ControlKind::Cancelling)) => {
                self.conclude(id, Status::Cancelled, None);
            }
            // A live stream brings the outcome itself; what the list says of it is only a hint.
            (_, _) if is_live => {}
            (Verdict::Cancelled, _) => self.conclude(id, Status::Cancelled, None),
            // Not by us: in the modern era the end of our connection did, or the server's own.
            (Verdict::Stopped, Some(ControlKind::Cancelling)) => {
                self.stands(
                    id,
                    "nothing ran any more; its checkpoint stays on the server",
                );
                self.conclude(id, Status::Cancelled, None);
            }
            // Calling again would undo what was asked: what stands still is what was wanted.
            (Verdict::CallAgain | Verdict::Restarted, Some(ControlKind::Cancelling))
            | (Verdict::Restarted, Some(ControlKind::Pausing)) => {}
            (Verdict::Restarted, _) if active.was_cancelled() => {}
            (Verdict::Stopped | Verdict::CallAgain, _) if active.was_cancelled() => {
                self.stands(id, "it stands still since the cancel; its checkpoint stays");
                self.conclude(id, Status::Cancelled, None);
            }
            (Verdict::Stopped | Verdict::CallAgain, Some(ControlKind::Pausing)) => {
                self.stands(id, "it stood still already; its checkpoint stays");
                self.paused(id);
            }
            (Verdict::Stopped | Verdict::CallAgain | Verdict::Restarted | Verdict::Finished, _) => {
                self.call_again(id);
            }
            (Verdict::Missing, _) => {
                self.conclude(id, Status::Unknown(UnknownReason::NoCheckpoint), None);
            }
        }
    }

    fn stands(&mut self, id: &TaskId, words: &str) {
        let now = self.now;
        if let Some(active) = self.tasks.get_mut(id) {
            active.remark(now, words.to_owned());
        }
    }

    /// When a limit of the user's ends a task.
    pub(super) fn limit_ends(&self, active: &crate::link::active_task::ActiveTask) -> Option<Mono> {
        let limits = active.task.limits;
        if active.task.status != Status::Running {
            return None;
        }
        active
            .attempt()
            .filter(|attempt| attempt.number > 1 || attempt.phase != Phase::Queued)?;
        let started = active.task.attempts.first()?.started_at;
        let hard = limits.hard.map(|hard| {
            let spent = self.now.wall.since(started);
            self.now.mono.after(hard.saturating_sub(spent))
        });
        earliest(hard, self.idle_ends(active)).map(|at| at.max(active.limits_from))
    }

    /// When the idle limit ends a task; it runs only while the server could tell us something.
    fn idle_ends(&self, active: &crate::link::active_task::ActiveTask) -> Option<Mono> {
        let is_in_contact = matches!(
            active.stream,
            StreamState::Open { .. } | StreamState::Calling(_)
        ) || (active.follow.is_some() || active.served.is_some())
            && self.connection == ConnectionState::Ready
            && self.reachability.down().is_none();
        let idle = active.task.limits.idle.filter(|_| is_in_contact)?;
        Some(
            active
                .activity
                .last_news
                .max(active.activity.contact_since)
                .after(idle),
        )
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
            "nothing new came within your idle limit"
        } else {
            "your time limit was reached"
        };
        let can_send =
            self.connection == ConnectionState::Ready && self.reachability.may_send(self.now);
        let request_id = active.request_id().map(str::to_owned);
        let server_task = active
            .served
            .as_ref()
            .and(active.task.server_task_id.clone());
        let is_modern = active.is_modern();
        let outcome = if let Some(server_task) = server_task.filter(|_| can_send) {
            let request_id = self.in_flight.new_request_id();
            let method = encode::cancel_task(self.version_of(id), &request_id, &server_task);
            self.send(
                RequestKind::Cancel(id.clone()),
                method,
                Some(request_id),
                None,
            );
            "its task was cancelled"
        } else if is_modern && !self.record.is_process() {
            "its connection was closed, which cancels it"
        } else if let Some(request_id) = request_id.filter(|_| can_send) {
            let method = encode::cancelled_notification(&request_id, "timed out");
            self.send(RequestKind::Cancel(id.clone()), method, None, None);
            "the call was cancelled"
        } else {
            "the server could not be told"
        };
        self.fail(
            id,
            TaskErrorKind::TimedOut,
            None,
            format!("{which}; {outcome}"),
        );
    }
}
