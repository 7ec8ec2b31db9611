//! What users ask of the tasks of one link, and how a task comes back from the session file.

use core::time::Duration;

use crate::{
    domain::{
        ActionRefusal, ControlKind, LostReason, Phase, ProtocolVersion, RequestError,
        SessionOutcome, SessionRequest, SessionRequestId, SessionResponse, Status, TaskId,
    },
    link::{
        ConnectionState, Follow, Link, StreamState, in_flight::no_such_task, negotiation::MODERN,
        queued_requests::QueuedRequest,
    },
};

/// How long a list of tools answers requests for it. Most servers don't tell an idle client that it has changed.
const TOOLS_FRESH_FOR: Duration = Duration::from_secs(10);

impl Link {
    pub(super) fn asked(&mut self, ask: SessionRequestId, what: SessionRequest) {
        self.schedule.needs_advance = true;
        let (what, version) = match what {
            SessionRequest::In(version, what) => (*what, Some(version)),
            SessionRequest::Start(call) => {
                let version = call.protocol;
                (SessionRequest::Start(call), version)
            }
            what => (what, None),
        };
        if matches!(
            what,
            SessionRequest::Start(_)
                | SessionRequest::Tools(_)
                | SessionRequest::Adopt { .. }
                | SessionRequest::Checkpoints { .. }
        ) {
            if let Some(refused) = self.conflict(version) {
                return self.answer(ask, Err(refused));
            }
            self.unpin(version);
        }
        if let Some(refused) = self.comes_late(&what) {
            return self.answer(ask, Err(refused));
        }
        let what = match what {
            SessionRequest::Start(call) => return self.start(ask, *call),
            what if self.exit.is_leaving && what.starts_something() => {
                let refused = RequestError::Unreachable("longhaul is exiting".to_owned());
                return self.answer(ask, Err(refused));
            }
            what if what.starts_something() => return self.queue(ask, what, version),
            what => what,
        };
        // The user relies on the reply to these, so it waits until the change is on disk.
        let is_lasting = matches!(
            what,
            SessionRequest::Answer { .. } | SessionRequest::Edit { .. } | SessionRequest::Forget(_)
        );
        let outcome = self.carry_out(what);
        self.saver.touch(self.now.mono);
        if is_lasting && outcome.is_ok() {
            self.save_vital();
            let after = Some(self.saver.next_token);
            return self.answer_after(ask, outcome, after);
        }
        self.answer(ask, outcome);
    }

    /// Queues a request to the server, which in an outage is tried at once.
    fn queue(
        &mut self,
        id: SessionRequestId,
        what: SessionRequest,
        version: Option<ProtocolVersion>,
    ) {
        self.retry_auth();
        if matches!(what, SessionRequest::Tools(_)) && self.has_fresh_tools(version) {
            self.saver.touch(self.now.mono);
            let tools = self.record.tools.clone();
            return self.answer(id, Ok(SessionResponse::Tools(tools)));
        }
        self.reachability.hurry(self.now);
        self.queued_requests.push(QueuedRequest {
            id,
            what,
            version,
            is_repeated: false,
        });
    }

    /// Carries out a request that is answered at once.
    fn carry_out(&mut self, what: SessionRequest) -> SessionOutcome {
        let now = self.now;
        match what {
            SessionRequest::Pause(id) => self.ask_pause(&id)?,
            SessionRequest::StopNow(id) => self.ask_stop(&id)?,
            SessionRequest::Resume(id) => self.ask_resume(&id)?,
            SessionRequest::Cancel(id) => self.ask_cancel(&id)?,
            SessionRequest::GiveUp(id) => self.give_up(&id)?,
            SessionRequest::Forget(id) => self.forget(&id)?,
            SessionRequest::Edit { ref id, .. } | SessionRequest::Collected { ref id, .. } => {
                let active = self.tasks.get_mut(id).ok_or_else(|| no_such_task(id))?;
                what.change(&mut active.task, now.wall);
                active.touch(now);
            }
            SessionRequest::Answer { id, key, answer } => {
                self.answer_question(&id, key.as_deref(), &answer)?;
            }
            SessionRequest::RetryNow => self.retry_now(),
            SessionRequest::Server(_) => self.retry_auth(),
            SessionRequest::Configure(_) | SessionRequest::SignIn(_) => self.retry_denied(),
            SessionRequest::RootsChanged(_) => self.roots_changed(),
            SessionRequest::CancelForward { key, reason, .. } => self.cancel_forward(&key, &reason),
            SessionRequest::Respond { id, outcome, .. } => self.respond_of_host(&id, &outcome),
            // The driver carries these out, or `asked` has done it. Named, so that a new request is not accepted unseen.
            SessionRequest::Seen(_)
            | SessionRequest::Collect(_)
            | SessionRequest::Follow(_)
            | SessionRequest::Calls { .. }
            | SessionRequest::Roots { .. }
            | SessionRequest::Read(_)
            | SessionRequest::Unforget(_)
            | SessionRequest::Trace { .. }
            | SessionRequest::In(..)
            | SessionRequest::Start(_)
            | SessionRequest::Tools(_)
            | SessionRequest::Introduce { .. }
            | SessionRequest::Forward { .. }
            | SessionRequest::Notify { .. }
            | SessionRequest::Adopt { .. }
            | SessionRequest::Checkpoints { .. } => {}
        }
        Ok(SessionResponse::Accepted)
    }

    fn has_fresh_tools(&self, version: Option<ProtocolVersion>) -> bool {
        let is_known = version != Some(MODERN) && self.missing_for(version).is_none();
        let age = self.session.listed_at.map(|at| self.now.mono.since(at));
        let is_fresh = age.is_some_and(|age| age < TOOLS_FRESH_FOR);
        is_fresh && self.connection == ConnectionState::Ready && is_known
    }

    /// The refusal of an ask about what is settled or forgotten, and still here until that is on disk.
    fn comes_late(&self, what: &SessionRequest) -> Option<RequestError> {
        if let SessionRequest::Unforget(id) = what {
            let words =
                format!("the removal of {id} is not saved yet; try the undo again in a moment");
            return Some(RequestError::CannotSave(words));
        }
        let (SessionRequest::Pause(id)
        | SessionRequest::StopNow(id)
        | SessionRequest::Resume(id)
        | SessionRequest::Cancel(id)
        | SessionRequest::GiveUp(id)
        | SessionRequest::Answer { id, .. }) = what
        else {
            return None;
        };
        let active = self.tasks.get(id)?;
        if active.task.forgotten_at.is_some() {
            return Some(no_such_task(id));
        }
        let word = active.task.status.label();
        active
            .is_settled()
            .then(|| RequestError::Settled(format!("{id} has ended ({word})")))
    }

    fn ask_resume(&mut self, id: &TaskId) -> Result<(), RequestError> {
        self.retry_auth();
        let refusal = self.control_refusal(id, ControlKind::Resuming);
        let active = self.tasks.get_mut(id).ok_or_else(|| no_such_task(id))?;
        if let Some(refusal) = refusal {
            let why = active.task.status.reason().unwrap_or_default();
            return Err(RequestError::Usage(
                self.resume_refusal_message(id, refusal, &why),
            ));
        }
        match active.task.status {
            Status::Paused => {
                self.call_again(id);
                self.request_control(id, ControlKind::Resuming);
            }
            Status::Unknown(_) => self.look_for(id),
            _ => {
                if active.is_asked(ControlKind::Pausing) {
                    active.set_control(self.now, None);
                }
                self.retry_now();
            }
        }
        Ok(())
    }

    fn resume_refusal_message(&self, id: &TaskId, refusal: ActionRefusal, why: &str) -> String {
        let name = &self.record.name;
        let advice = format!(
            "`longhaul again {id}` runs it again, `longhaul rm {id}` removes it from the list"
        );
        match refusal {
            ActionRefusal::SessionlessEra => format!(
                "longhaul now uses MCP {} with {name}, which can't resume this call: {why}. {advice}",
                self.session_version().label()
            ),
            ActionRefusal::SessionGone => format!("its MCP session is gone: {why}. {advice}"),
            _ => format!("{name} offers no way to look for it: {why}. {advice}"),
        }
    }

    /// "Look for it on the server": by the strongest handle that an `unknown` task has.
    fn look_for(&mut self, id: &TaskId) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.task.status = Status::Running;
        // Its silence until now says nothing: nobody listened.
        active.activity.contact_since = now.mono;
        if active.task.resumability.checkpoint {
            active.follow = Some(Follow::new(now.mono, active.activity.longest_step));
        } else {
            active.stream = StreamState::Waiting(now.mono);
        }
        if let Some(attempt) = active.attempt_mut() {
            (attempt.phase, attempt.ended_at) = (Phase::Open, None);
        }
        let words = "looking for it on the server".to_owned();
        active.note_status(now, Status::Running.label(), Some(words));
    }

    fn retry_now(&mut self) {
        self.retry_denied();
        self.reachability.hurry(self.now);
        for active in self.tasks.values_mut() {
            let stream = match &mut active.stream {
                StreamState::Waiting(until) => Some(until),
                _ => None,
            };
            let look = active.served.as_mut().and_then(|it| it.next.as_mut());
            let list = active.follow.as_mut().and_then(|it| it.next.as_mut());
            for next in [stream, look, list].into_iter().flatten() {
                *next = self.now.mono;
            }
        }
        self.show_all();
        // The next views may wait for a save, and until then the old ones would still need a sign-in.
        self.publish();
    }

    fn give_up(&mut self, id: &TaskId) -> Result<(), RequestError> {
        let active = self.tasks.get_mut(id).ok_or_else(|| no_such_task(id))?;
        let is_unheard = active.was_cancelled() && active.control.is_none();
        if !is_unheard && !matches!(active.task.status, Status::Unknown(_)) {
            return Err(RequestError::Usage(format!(
                "{id} is still {}; press x to cancel it first",
                active.task.status.label()
            )));
        }
        active.task.notice = None;
        // Nobody proved that it does not work on.
        self.exit.keeps_session = true;
        self.conclude(id, Status::Lost(LostReason::GivenUp), None);
        Ok(())
    }

    fn forget(&mut self, id: &TaskId) -> Result<(), RequestError> {
        let now = self.now;
        let active = self.tasks.get_mut(id).ok_or_else(|| no_such_task(id))?;
        active.task.forgotten_at = Some(now.wall);
        active.touch(now);
        self.exit.keeps_session |= !active.is_settled();
        let connections = active.let_go();
        active.control = None;
        self.close_all(connections);
        self.saver.urge(now.mono);
        Ok(())
    }

    /// What is due for one task.
    pub(super) fn step(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        if !active.task.is_open() {
            return;
        }
        if !active.is_active() {
            // The server may still wait for the answer to a call whose result can't reach us any more.
            return self.step_answers(id);
        }
        let can_call = active.intent.is_none() && self.can_call(id);
        let (is_resent, is_queued) = (
            active.was_unsent,
            active.waits_to_be_sent() && active.stream == StreamState::None,
        );
        // A call that a person asks for goes out beyond the budget; what we repeat by ourselves does not.
        let may_call = |link: &mut Self| {
            if is_resent {
                link.may_ask().is_ok()
            } else {
                link.reachability.may_send(link.now)
            }
        };
        if is_queued && can_call && !self.waits_for_standalone(id) && may_call(self) {
            self.send_call(id);
        }
        // An answer to a question of a session means nothing in another one.
        if !self.is_session_doubted() {
            self.step_answers(id);
        }
        self.step_stream(id);
        self.step_follow(id);
        self.step_control(id);
        self.step_cancel(id);
        self.step_limits(id);
    }
}
