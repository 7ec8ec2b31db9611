//! What users ask of the tasks of one link, and how a task comes back from the session file.

use core::time::Duration;

use serde_json::{Map, Value};

use super::Link;
use crate::{
    domain::{
        ControlKind, Era, EventId, HistoryEvent, LeaveImpact, LostReason, NewCall, Phase,
        QuestionSource, RequestError, SessionRequest, SessionRequestId, SessionResponse, Stamp,
        Status, Task, TaskErrorKind, TaskId, TaskKind, TaskSupport, Tool, UnknownReason, Wall,
        text,
    },
    link::{
        active_task::{ActiveTask, Intent, Start, new_attempt},
        checkpoint::Follow,
        connection::ConnectionState,
        in_flight::RequestKind,
        io::Output,
        negotiation::MODERN,
        queued_requests::Wanted,
        recovery::Cut,
        server_task_poll::{ServerTaskPoll, TTL_WISH_MS},
        stream_state::StreamState,
    },
    protocol::encode,
};

/// How long after a restart the limits wait for what the server has to tell.
const HEAR_FIRST: Duration = Duration::from_secs(30);

/// How the program of a call ended where it was no fault of its own.
const ENDED_WITH_US: &str = "longhaul ended, and it with longhaul";
/// A hand-over between two processes of ours takes less, and is no gap.
const UNWATCHED_AT_LEAST: Duration = Duration::from_secs(1);

/// What is said of a checkpoint that another client began.
const TAKEN_OVER: &str = "taken over; followed by the server's list until nobody works on it";

impl Link {
    pub(super) fn asked(&mut self, ask: SessionRequestId, what: SessionRequest) {
        self.needs_advance = true;
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
        let outcome = match what {
            SessionRequest::Start(call) => return self.start(ask, *call),
            SessionRequest::Tools(_)
            | SessionRequest::Adopt { .. }
            | SessionRequest::Checkpoints { .. }
                if self.exit.is_leaving =>
            {
                Err(RequestError::Unreachable("longhaul is leaving".to_owned()))
            }
            SessionRequest::Tools(_) => {
                self.retry_auth();
                let is_known = version != Some(MODERN) && self.missing_for(version).is_none();
                if self.session.has_fresh_tools
                    && self.connection == ConnectionState::Ready
                    && is_known
                {
                    Ok(SessionResponse::Tools(self.record.tools.clone()))
                } else {
                    // In an outage the answer is the outcome of one more try, made now, not of one long ago.
                    self.reachability.hurry(self.now);
                    self.queued_requests.push(ask, Wanted::Tools, version);
                    return;
                }
            }
            SessionRequest::Pause(id) => self.ask_pause(&id),
            SessionRequest::Resume(id) => self.ask_resume(&id),
            SessionRequest::Cancel(id) => self.ask_cancel(&id),
            SessionRequest::GiveUp(id) => self.give_up(&id),
            SessionRequest::Forget(id) => self.forget(&id),
            SessionRequest::Edit {
                id,
                name,
                note,
                limits,
            } => {
                let now = self.now;
                self.with(&id, |active| {
                    (active.task.name, active.task.note, active.task.limits) = (name, note, limits);
                    active.touch(now);
                })
            }
            SessionRequest::RetryNow => {
                self.retry_now();
                Ok(SessionResponse::Accepted)
            }
            SessionRequest::Server(_)
            | SessionRequest::Configure(_)
            | SessionRequest::HandOver { .. }
            | SessionRequest::SignIn(_) => {
                self.retry_auth();
                Ok(SessionResponse::Accepted)
            }
            SessionRequest::Answer { id, key, answer } => {
                self.answer_question(&id, key.as_deref(), &answer)
            }
            SessionRequest::Adopt { server_task, .. } => {
                self.retry_auth();
                let wanted = server_task.map_or(Wanted::ServerTasks, Wanted::ServerTask);
                self.queued_requests.push(ask, wanted, version);
                return;
            }
            SessionRequest::Checkpoints { client_id, .. } => {
                self.retry_auth();
                self.reachability.hurry(self.now);
                self.queued_requests
                    .push(ask, Wanted::Checkpoints { client_id }, version);
                return;
            }
            // The record is for whoever carries the messages.
            SessionRequest::Seen(_)
            | SessionRequest::Unforget(_)
            | SessionRequest::Trace { .. }
            | SessionRequest::In(..) => Ok(SessionResponse::Accepted),
        };
        self.saver.touch(self.now.mono);
        self.answer(ask, outcome);
    }

    /// The refusal of an ask about what is settled or forgotten, and still here until that is on disk.
    fn comes_late(&self, what: &SessionRequest) -> Option<RequestError> {
        let (SessionRequest::Pause(id)
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
            .then(|| RequestError::Settled(format!("{id} is {word} already")))
    }

    fn with(
        &mut self,
        id: &TaskId,
        change: impl FnOnce(&mut ActiveTask),
    ) -> Result<SessionResponse, RequestError> {
        let active = self.tasks.get_mut(id).ok_or_else(|| no_such_task(id))?;
        change(active);
        Ok(SessionResponse::Accepted)
    }

    fn start(&mut self, ask: SessionRequestId, call: NewCall) {
        if let Some(trouble) = self.disk_trouble() {
            return self.answer(ask, Err(trouble));
        }
        let id = call.id.clone();
        if let Some(active) = self.tasks.get_mut(&id) {
            // Asked twice, because the first answer was lost on the way.
            let after = active.intent.as_mut().map(|intent| {
                intent.asks.push(ask);
                intent.save
            });
            let outcome = Ok(SessionResponse::Started(id));
            return self.out.push(Output::Answer {
                ask,
                outcome,
                after,
            });
        }
        let (must_survive, is_unchecked) = (call.must_survive, call.is_unchecked);
        let goes_on = call.checkpoint.clone();
        let mut active = ActiveTask::new(
            self.now,
            Task::new(self.now.wall, call),
            Vec::new(),
            &self.saver.unsaved,
        );
        let request_id = self.in_flight.new_request_id();
        active.task.start_attempt(new_attempt(
            self.now.wall,
            1,
            request_id,
            self.record.session_number,
        ));
        active.must_survive = must_survive;
        active.is_unchecked = is_unchecked;
        if let Some(checkpoint) = goes_on {
            self.follow_checkpoint(&mut active, checkpoint);
        } else if let Some(refusal) = self.refusal_at_start(&active) {
            return self.answer(ask, Err(RequestError::Usage(refusal)));
        }
        active.touch(self.now);
        self.retry_auth();
        // The intent goes to disk before anything else; with a session at hand the call follows in the same save.
        let token = self.saver.next_token();
        active.intent = Some(Intent {
            save: token,
            asks: vec![ask],
        });
        active.saving.held = Some(token);
        self.tasks.insert(id.clone(), active);
        self.saver.urge(self.now.mono);
        self.out.push(Output::Answer {
            ask,
            outcome: Ok(SessionResponse::Started(id.clone())),
            after: Some(token),
        });
        let is_queued = self
            .tasks
            .get(&id)
            .is_some_and(|active| active.phase() == Phase::Queued);
        if is_queued
            && self.connection == ConnectionState::Ready
            && self.record.tools_at.is_some()
            && self.reachability.down().is_none()
            && !self.waits_for_standalone(&id)
            && self.is_ready_for(&id)
        {
            self.send_call(&id);
        }
    }

    /// Somebody else's call made this checkpoint: its list tells how far it is, and whether anybody works on it.
    fn follow_checkpoint(&self, active: &mut ActiveTask, checkpoint: String) {
        let task = &mut active.task;
        let arguments: Map<String, Value> =
            serde_json::from_str(&task.arguments).unwrap_or_default();
        task.client_id = arguments
            .get(&self.record.convention.client_id)
            .and_then(Value::as_str)
            .map(str::to_owned);
        task.server_task_id = Some(checkpoint);
        task.resumability.checkpoint = true;
        if let Some(attempt) = task.attempts.last_mut() {
            attempt.phase = Phase::Ended;
        }
        active.follow = Some(Follow::new(self.now.mono, Duration::ZERO, false));
        active.remark(self.now, TAKEN_OVER.to_owned());
    }

    /// Whether a call of this tool asks for a core task. A checkpoint outlives even a restart of the server.
    pub(super) fn wants_task(&self, tool: &Tool) -> bool {
        self.record.tasks.map(|offer| offer.kind) == Some(TaskKind::Core)
            && match tool.task_support {
                TaskSupport::Required => true,
                // A task of a process outlives nothing that a plain call of it would not.
                TaskSupport::Optional => {
                    !self.record.is_process()
                        && !tool.keeps_checkpoint(&self.record.tools, &self.record.convention)
                }
                TaskSupport::Forbidden => false,
            }
    }

    /// Whether what its call needs to know of the server is known.
    fn is_ready_for(&self, id: &TaskId) -> bool {
        let asked = self.tasks.get(id).and_then(|active| active.task.protocol);
        self.missing_for(asked).is_none()
    }

    /// Sends a queued call if everything it needs is there; its intent is saved first.
    pub(super) fn send_call(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        let tool = self
            .record
            .tools
            .iter()
            .find(|tool| tool.name == active.task.tool);
        if let Some(refusal) = self.refusal_of(active, tool) {
            return self.fail(id, TaskErrorKind::Refused, None, refusal);
        }
        let convention = &self.record.convention;
        // What a process keeps for a later call is its own affair: no call of ours goes on in another one.
        let is_of_process = self.record.is_process();
        let keeps = |tool: &Tool| tool.keeps_checkpoint(&self.record.tools, convention);
        let is_checkpoint = !is_of_process && tool.is_some_and(keeps);
        let client_id_key = convention.client_id.clone();
        let mut arguments: Map<String, Value> =
            serde_json::from_str(&active.task.arguments).unwrap_or_default();
        let wants_task = tool.is_some_and(|tool| self.wants_task(tool));
        let own_client_id = format!("longhaul-{:016x}", self.rng.u64(..));
        let (now, token) = (self.now, self.saver.next_token());
        let session_number = self.record.session_number;
        let capabilities = self.capabilities(Some(&active.task));
        let (era, era_reason) = capabilities.era_of(&active.task.tool, tool, is_checkpoint);
        let version = match era {
            Era::Modern => MODERN,
            Era::Stateful => self.session_version(),
        };
        let wants_task = wants_task && era == Era::Stateful;
        let gives_ids = capabilities
            .gives_ids_of(&active.task.tool)
            .filter(|_| era == Era::Stateful);
        let (era, has_legacy_sse) = (version.label().to_owned(), self.legacy_sse.is_some());
        let params = tool.map_or(Vec::new(), |tool| tool.header_values(&arguments));
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        active.task.resumability.checkpoint = is_checkpoint;
        if has_legacy_sse {
            active.task.resumability.stream = Some(false);
        }
        if is_checkpoint {
            let given = arguments
                .get(&client_id_key)
                .and_then(Value::as_str)
                .map(str::to_owned);
            let client_id = active
                .task
                .client_id
                .get_or_insert(given.unwrap_or(own_client_id));
            arguments.insert(client_id_key, Value::String(client_id.clone()));
        }
        let is_flipped = active.is_flipped && version != MODERN;
        let asks_for_task = wants_task != is_flipped;
        let Some(attempt) = active.task.attempts.last_mut() else {
            return;
        };
        attempt.phase = Phase::Sent;
        attempt.era_reason = Some(era_reason);
        attempt.asks_for_task = asks_for_task;
        attempt.is_of_process = is_of_process;
        (attempt.session_number, attempt.version) = (session_number, Some(version));
        let input = attempt.input.clone();
        let (number, request_id) = (attempt.number, attempt.request_id.clone());
        let token_of_call = attempt.token.clone();
        let arguments = Value::Object(arguments);
        let method = encode::call_tool(
            version,
            &encode::CallParams {
                id: &request_id,
                token: &token_of_call,
                tool: &active.task.tool,
                arguments: &arguments,
                task_ttl_ms: asks_for_task.then_some(TTL_WISH_MS),
                input: input.as_deref(),
                params: &params,
            },
        );
        let mut expected = active.task.resumability;
        expected.stream = expected.stream.or(gives_ids);
        active.start = (active.started < number).then(|| Start {
            since: now.mono,
            line: HistoryEvent::Started {
                era,
                resumability: expected.label().to_owned(),
            },
        });
        active.touch(now);
        (active.sending, active.saving.held) = (Some(token), Some(token));
        self.index.add_request(request_id, id.clone());
        let exchange = self.send(RequestKind::Stream(id.clone()), method, None, Some(token));
        if let Some(active) = self.tasks.get_mut(id) {
            active.stream = StreamState::Calling(exchange);
        }
        self.saver.urge(now.mono);
    }

    /// Whether a call waits until the standalone stream is open; one that is refused here sends nothing at all.
    fn waits_for_standalone(&mut self, id: &TaskId) -> bool {
        let goes_out = self.tasks.get(id).is_some_and(|active| {
            let mut tools = self.record.tools.iter();
            let tool = tools.find(|tool| tool.name == active.task.tool);
            self.refusal_of(active, tool).is_none()
        });
        goes_out && self.standalone_comes_first()
    }

    /// Notes that a call has gone out of which nothing was heard yet.
    fn step_start(&mut self, id: &TaskId) {
        let now = self.now;
        if let Some(active) = self.tasks.get_mut(id)
            && active.went_out_at().is_some_and(|at| now.mono >= at)
        {
            active.went_out(now);
        }
    }

    /// Why a call must not even be recorded, as far as that is known before it is queued. While there is no connection,
    /// the tools may be others by now.
    fn refusal_at_start(&self, active: &ActiveTask) -> Option<String> {
        let mut tools = self.record.tools.iter();
        let tool = tools.find(|tool| tool.name == active.task.tool);
        if self.connection == ConnectionState::Ready && self.record.tools_at.is_some() {
            return self.refusal_of(active, tool);
        }
        self.cost_of_leaving(active, tool?)
    }

    /// Why a call that is to be left alone must not be sent.
    fn cost_of_leaving(&self, active: &ActiveTask, tool: &crate::domain::Tool) -> Option<String> {
        let capabilities = self.capabilities(Some(&active.task));
        let price = LeaveImpact::of_call(tool, &self.record.tools, &capabilities);
        let dies = capabilities.is_known(tool, &self.record.tools) && price.dies();
        (active.must_survive && dies).then(|| {
            format!(
                "leaving would end this call: {}; nothing was sent. Call it without --detach and stay",
                price.why()
            )
        })
    }

    /// Why a call must not be sent, in words that say what to do next.
    fn refusal_of(
        &self,
        active: &ActiveTask,
        tool: Option<&crate::domain::Tool>,
    ) -> Option<String> {
        let name = &self.record.name;
        let Some(tool) = tool else {
            if self.record.tools.is_empty() {
                return None;
            }
            let known: Vec<&str> = self
                .record
                .tools
                .iter()
                .map(|tool| tool.name.as_str())
                .collect();
            return Some(format!(
                "{name} has no tool {}; it has: {}",
                active.task.tool,
                known.join(", ")
            ));
        };
        if let Some(fault) = &tool.fault {
            return Some(format!(
                "{name} describes {} in a way that must not be called: {fault}; nothing was sent",
                tool.name
            ));
        }
        let arguments = serde_json::from_str(&active.task.arguments).unwrap_or_default();
        let is_first = active.phase() == Phase::Queued && active.task.attempts_made() == 1;
        let complaints = if is_first && !active.is_unchecked {
            tool.argument_errors(&arguments)
        } else {
            Vec::new()
        };
        if !complaints.is_empty() {
            return Some(format!(
                "{}: {}; nothing was sent",
                tool.name,
                complaints.join(", ")
            ));
        }
        self.cost_of_leaving(active, tool)
    }

    /// The save that a call waited for failed, so the call never left.
    pub(super) fn unsend(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let exchange = active.stream.exchange();
        active.stream = StreamState::None;
        (active.was_unsent, active.sending, active.start) = (true, None, None);
        if let Some(attempt) = active.attempt_mut() {
            attempt.phase = Phase::Queued;
            let request_id = attempt.request_id.clone();
            self.index.remove_request(&request_id);
        }
        if let Some(exchange) = exchange {
            self.in_flight.remove(exchange);
            self.reachability.prober_gone();
        }
        if let Some(active) = self.tasks.get_mut(id) {
            active.touch(self.now);
        }
    }

    /// Another attempt of a checkpoint tool: same arguments, same client id.
    pub(super) fn call_again(&mut self, id: &TaskId) {
        let request_id = self.in_flight.new_request_id();
        let (now, session_number) = (self.now, self.record.session_number);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let connections = active.take_connections();
        active.follow = None;
        let fetching = active.served.take().and_then(|served| served.fetching);
        active.recovery.restart();
        (active.task.server_task, active.task.resumability.task) = (None, false);
        active.detached = None;
        active.activity.last_step = None;
        active.was_unsent = true;
        let mut old = None;
        if let Some(attempt) = active.attempt_mut() {
            attempt.phase = Phase::Ended;
            attempt.ended_at.get_or_insert(now.wall);
            old = Some(attempt.request_id.clone());
        }
        let number = active.attempt().map_or(1, |attempt| attempt.number + 1);
        active
            .task
            .start_attempt(new_attempt(now.wall, number, request_id, session_number));
        active.task.status = Status::Running;
        active.touch(now);
        if let Some(old) = old {
            self.index.remove_request(&old);
        }
        for exchange in connections.into_iter().chain([fetching]).flatten() {
            self.close(exchange);
        }
        self.saver.urge(now.mono);
        self.needs_advance = true;
    }

    fn ask_resume(&mut self, id: &TaskId) -> Result<SessionResponse, RequestError> {
        self.retry_auth();
        let now = self.now;
        let active = self.tasks.get_mut(id).ok_or_else(|| no_such_task(id))?;
        match active.task.status.clone() {
            Status::Paused => {
                self.call_again(id);
                self.request_control(id, ControlKind::Resuming);
                Ok(SessionResponse::Accepted)
            }
            Status::Unknown(window) => self.look_for(id, &window),
            _ => {
                if let Some(control) = &active.control
                    && control.what == ControlKind::Pausing
                {
                    active.set_control(now, None);
                }
                self.retry_now();
                Ok(SessionResponse::Accepted)
            }
        }
    }

    /// "Look for it on the server": by the strongest handle that an `unknown` task has.
    fn look_for(
        &mut self,
        id: &TaskId,
        window: &UnknownReason,
    ) -> Result<SessionResponse, RequestError> {
        let now = self.now;
        let name = self.record.name.clone();
        let version = self.session_version();
        let is_stateful = self.record.is_stateful();
        let active = self.tasks.get_mut(id).ok_or_else(|| no_such_task(id))?;
        let has_cursor = active
            .attempt()
            .is_some_and(|attempt| attempt.cursors.newest.is_some());
        if !active.is_modern() && !is_stateful && !active.task.resumability.checkpoint {
            return Err(RequestError::Usage(format!(
                "{name} is spoken to in MCP {} now, which has no way back to this call: {window}. `longhaul again {id}` runs it again, `longhaul rm {id}` forgets it",
                version.label()
            )));
        }
        if active.task.resumability.checkpoint {
            active.task.status = Status::Running;
            active.follow = Some(Follow::new(now.mono, active.activity.longest_step, false));
        } else if has_cursor {
            active.task.status = Status::Running;
            active.stream = StreamState::Waiting { until: now.mono };
        } else {
            return Err(RequestError::Usage(format!(
                "{name} offers no way to look for it: {window}. `longhaul again {id}` runs it again, `longhaul rm {id}` forgets it"
            )));
        }
        if let Some(attempt) = active.attempt_mut() {
            (attempt.phase, attempt.ended_at) = (Phase::Open, None);
            let request_id = attempt.request_id.clone();
            self.index.add_request(request_id, id.clone());
        }
        let active = self.tasks.get_mut(id).ok_or_else(|| no_such_task(id))?;
        active.remark(now, "looking for it on the server".to_owned());
        Ok(SessionResponse::Accepted)
    }

    fn retry_now(&mut self) {
        self.retry_auth();
        self.reachability.hurry(self.now);
        for active in self.tasks.values_mut() {
            if let StreamState::Waiting { until } = &mut active.stream {
                *until = self.now.mono;
            }
            if let Some(next) = active
                .served
                .as_mut()
                .and_then(|served| served.next.as_mut())
            {
                *next = self.now.mono;
            }
            if let Some(next) = active
                .follow
                .as_mut()
                .and_then(|follow| follow.next.as_mut())
            {
                *next = self.now.mono;
            }
        }
        self.show_all();
    }

    fn give_up(&mut self, id: &TaskId) -> Result<SessionResponse, RequestError> {
        let active = self.tasks.get(id).ok_or_else(|| no_such_task(id))?;
        let is_unheard = active.was_cancelled() && active.control.is_none();
        if !is_unheard && !matches!(active.task.status, Status::Unknown(_)) {
            return Err(RequestError::Usage(format!(
                "{id} is still under way ({}); x cancels it first",
                active.task.status.label()
            )));
        }
        // Nobody proved that it does not work on.
        self.exit.keeps_session = true;
        self.conclude(id, Status::Lost(LostReason::GivenUp), None);
        Ok(SessionResponse::Accepted)
    }

    fn forget(&mut self, id: &TaskId) -> Result<SessionResponse, RequestError> {
        let now = self.now;
        let active = self.tasks.get_mut(id).ok_or_else(|| no_such_task(id))?;
        active.task.forgotten_at = Some(now.wall);
        active.touch(now);
        self.exit.keeps_session |= !active.is_settled();
        let connections = active.take_connections();
        (active.follow, active.control) = (None, None);
        let fetching = active.served.take().and_then(|served| served.fetching);
        for attempt in &active.task.attempts {
            self.index.remove_request(&attempt.request_id);
        }
        for exchange in connections.into_iter().chain([fetching]).flatten() {
            self.close(exchange);
        }
        self.saver.urge(now.mono);
        Ok(SessionResponse::Accepted)
    }

    /// Takes a task back from the session file: reading is automatic, side effects are not.
    pub(super) fn restore(&mut self, task: Task, ids: Vec<EventId>) {
        let id = task.id.clone();
        let now = self.now;
        if task.forgotten_at.is_some() {
            self.exit.keeps_session |= !task.status.is_settled();
            return;
        }
        let watched_until = task.updated_at.min(now.wall);
        let mut active = ActiveTask::new(now, task, ids, &self.saver.unsaved);
        active.limits_from = now.mono.after(HEAR_FIRST);
        // A cancel that is not proved is asked for again: its user must not find the work going on. Any other wish
        // is asked again by the user, if he still has it.
        let asked = active.task.control.take();
        let was_cancelling = asked.is_some_and(|asked| asked.what == ControlKind::Cancelling);
        if asked.is_some() {
            active.touch(now);
        }
        let is_same_session = self.record.is_initialized
            && active
                .attempt()
                .is_some_and(|attempt| attempt.session_number == self.record.session_number);
        for attempt in active
            .task
            .attempts
            .iter()
            .filter(|attempt| attempt.phase != Phase::Ended)
        {
            self.index
                .add_request(attempt.request_id.clone(), id.clone());
        }
        let has_cursor = active
            .attempt()
            .is_some_and(|attempt| attempt.cursors.newest.is_some());
        let phase = active.phase();
        let is_unsettled = matches!(active.task.status, Status::Running | Status::InputRequired);
        let server_task = active.task.server_task.clone();
        let is_checkpoint = active.task.resumability.checkpoint;
        let (is_modern, why) = (active.is_modern(), "nobody was there to hold it");
        let is_round = active
            .task
            .open_question()
            .is_some_and(|q| q.source == QuestionSource::Round);
        // An answer that may not have got through: on a stream it goes out again, to a task once it is seen to ask.
        active.has_answers = active.task.questions.iter().any(|question| {
            question.answer.is_some()
                && !question.is_delivered
                && question.source != QuestionSource::TaskInput
        });
        self.tasks.insert(id.clone(), active);
        self.needs_advance = true;
        if was_cancelling && is_unsettled {
            self.request_control(&id, ControlKind::Cancelling);
        }
        if !is_unsettled || phase == Phase::Queued {
            return;
        }
        if is_round {
            // Nothing runs until it is answered.
            return;
        }
        self.note_unwatched(&id, watched_until);
        if self.record.is_process() && phase != Phase::Ended {
            let end = self.end_without_id(&id, ENDED_WITH_US);
            self.out_of_stream(&id, end, false);
            return self.ended_at(&id, watched_until);
        }
        if let Some(server_task) = server_task {
            self.index.add_server_task(server_task.id, id.clone());
            if let Some(active) = self.tasks.get_mut(&id) {
                active.served = Some(ServerTaskPoll::new(now.mono));
            }
            return self.gather();
        }
        if is_modern {
            let end = self.end_of_modern_call(&id, why);
            self.out_of_stream(&id, end, false);
            return self.ended_at(&id, watched_until);
        }
        if phase == Phase::Open && has_cursor && is_same_session {
            if let Some(active) = self.tasks.get_mut(&id) {
                active.stream = StreamState::Waiting { until: now.mono };
            }
        } else if phase == Phase::Open && has_cursor {
            let reason = LostReason::SessionGone {
                after_restart: false,
                server_text: None,
            };
            self.out_of_stream(&id, Status::Lost(reason), false);
        } else if phase == Phase::Ended && is_checkpoint {
            // It was taken over, and no call of ours was ever made.
            self.out_of_stream(&id, Status::Running, false);
        } else {
            let window = if phase == Phase::Open {
                self.window_without_id(&id)
            } else {
                UnknownReason::BeforeFirstId
            };
            self.out_of_stream(&id, Status::Unknown(window), false);
        }
    }

    /// The time in which no process followed a task is a line of its log, as a cut is.
    fn note_unwatched(&mut self, id: &TaskId, from: Wall) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let unwatched = now.wall.since(from);
        if unwatched < UNWATCHED_AT_LEAST {
            return;
        }
        let why = format!("nobody watched for {}", text::span(unwatched));
        let state = "unwatched".to_owned();
        active.recovery.cut = Some(Cut {
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

    /// What ended because nobody was there ended when the last process left, not when the next one found out.
    fn ended_at(&mut self, id: &TaskId, at: Wall) {
        let ended = self.tasks.get_mut(id).map(|active| &mut active.task);
        let Some(task) = ended.filter(|task| task.status.is_settled()) else {
            return;
        };
        let at = at.max(task.created_at);
        task.settled_at = Some(at);
        if let Some(attempt) = task.attempts.last_mut() {
            attempt.ended_at = Some(at);
        }
    }

    /// What ran in the program that is the server has ended with it.
    pub(super) fn program_ended(&mut self) {
        let has_ended = |active: &ActiveTask| {
            let is_unsettled =
                matches!(active.task.status, Status::Running | Status::InputRequired);
            is_unsettled && !matches!(active.phase(), Phase::Queued | Phase::Ended)
        };
        let active = self.tasks.iter();
        let ended = active.filter(|(_, active)| has_ended(active));
        let ended: Vec<TaskId> = ended.map(|(id, _)| id.clone()).collect();
        for id in ended {
            let end = self.end_without_id(&id, ENDED_WITH_US);
            self.out_of_stream(&id, end, false);
        }
    }

    /// What is due for one task.
    pub(super) fn step(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        if active.is_settled() || !active.is_active() || active.task.forgotten_at.is_some() {
            return;
        }
        let can_call = self.connection == ConnectionState::Ready
            && self.record.tools_at.is_some()
            && active.intent.is_none()
            && !self.is_session_doubted()
            && self.is_ready_for(id);
        let (is_resent, is_queued) = (
            active.was_unsent,
            active.phase() == Phase::Queued && active.stream == StreamState::None,
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
        self.step_start(id);
        self.step_stream(id);
        self.step_follow(id);
        self.step_control(id);
        self.step_limits(id);
    }
}

/// The refusal for a task that this link does not hold.
fn no_such_task(id: &TaskId) -> RequestError {
    RequestError::Usage(format!(
        "{id} is settled or not of this session; `longhaul ls --all` lists what there is"
    ))
}
