//! Starting a call, sending it once everything it needs is there, and sending it again.

use core::time::Duration;

use itertools::Itertools as _;
use serde_json::{Map, Value};

use crate::{
    domain::{
        Era, EraReason, HistoryEvent, IfCut, NewCall, Phase, ProtocolVersion, RequestError,
        SessionRequestId, SessionResponse, Status, Task, TaskErrorKind, TaskId, TaskKind,
        TaskSupport, Tool,
    },
    link::{
        ActiveTask, ConnectionState, Follow, Link, RequestKind, StreamState,
        active_task::{Intent, new_attempt},
        negotiation::MODERN,
        server_task_poll::TTL_WISH_MS,
    },
    protocol::encode,
};

/// The notice on a checkpoint that another client started.
const TAKEN_OVER: &str = "imported; longhaul polls the server's checkpoint list and continues the task once its work there has stopped";

/// How a call is made.
struct CallPlan {
    version: ProtocolVersion,
    era_reason: EraReason,
    is_checkpoint: bool,
    asks_for_task: bool,
    /// Whether the server numbers the events of its stream, as far as that is known.
    gives_ids: Option<bool>,
}

impl Link {
    pub(super) fn start(&mut self, ask: SessionRequestId, call: NewCall) {
        if let Some(first) = self.started_before(&call) {
            return self.repeat_start(ask, first);
        }
        let id = call.id.clone();
        let (must_survive, is_unchecked) = (call.must_survive, call.is_unchecked);
        let goes_on = call.checkpoint.clone();
        let task = Task::new(self.now.wall, call);
        let mut active = ActiveTask::new(self.now, task, Vec::new(), &self.saver.unsaved);
        let request_id = self.in_flight.new_request_id();
        let attempt = new_attempt(self.now.wall, 1, request_id, self.record.session_number);
        active.task.start_attempt(attempt);
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
        let token = self.saver.next_token;
        active.intent = Some(Intent {
            save: token,
            asks: vec![ask],
        });
        active.saving.held = Some(token);
        let is_queued = active.phase() == Phase::Queued;
        self.tasks.insert(id.clone(), active);
        self.schedule.started.push(id.clone());
        self.saver.urge_now(self.now.mono);
        self.answer_after(ask, Ok(SessionResponse::Started(id.clone())), Some(token));
        if is_queued
            && self.can_call(&id)
            && self.reachability.down.is_none()
            && !self.waits_for_standalone(&id)
        {
            self.send_call(&id);
        }
    }

    /// A call was asked for twice, because the first answer was lost on the way, or with the same `--once` key. Both are
    /// answered when its intent is on disk.
    pub fn repeat_start(&mut self, ask: SessionRequestId, first: TaskId) {
        let active = self.tasks.get_mut(&first);
        let intent = active.and_then(|active| active.intent.as_mut());
        let after = intent.map(|intent| {
            intent.asks.push(ask);
            intent.save
        });
        self.answer_after(ask, Ok(SessionResponse::Started(first)), after);
    }

    /// Another client's call created this checkpoint. The server's list shows its progress.
    fn follow_checkpoint(&self, active: &mut ActiveTask, checkpoint: String) {
        let task = &mut active.task;
        let arguments: Map<String, Value> =
            serde_json::from_str(&task.arguments).unwrap_or_default();
        let client_id = arguments.get(&self.record.convention.client_id);
        task.client_id = client_id.and_then(|it| Some(it.as_str()?.to_owned()));
        task.server_task_id = Some(checkpoint);
        task.resumability.checkpoint = true;
        if let Some(attempt) = task.attempts.last_mut() {
            attempt.phase = Phase::Ended;
        }
        active.follow = Some(Follow::new(self.now.mono, Duration::ZERO));
        active.notice(self.now, TAKEN_OVER.to_owned());
    }

    /// Whether a call of this tool asks for a core task. A checkpoint outlives even a restart of the server.
    fn wants_task(&self, tool: &Tool) -> bool {
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

    /// Whether there is a session that nothing speaks against, and what the call needs to know of the server is known.
    pub(super) fn can_call(&self, id: &TaskId) -> bool {
        let active = self.tasks.get(id);
        let asked = active.and_then(|active| active.task.options.protocol);
        self.connection == ConnectionState::Ready
            && (self.record.tools_at.is_some() || self.session.is_unlisted)
            && !self.is_session_doubted()
            && self.missing_for(asked).is_none()
    }

    /// Decides how a call is made.
    fn plan_call(&self, active: &ActiveTask, tool: Option<&Tool>) -> CallPlan {
        let keeps_checkpoint =
            |tool: &Tool| tool.keeps_checkpoint(&self.record.tools, &self.record.convention);
        // What a process keeps for a later call is its own affair: no call of ours continues in another one. Elsewhere, a
        // repeat without the client id would run the tool a second time, whatever the tool's schema says by now.
        let is_checkpoint = !self.record.is_process()
            && (active.task.resumability.checkpoint || tool.is_some_and(keeps_checkpoint));
        let capabilities = self.capabilities(Some(&active.task));
        let (era, era_reason) = capabilities.era_of(&active.task.tool, tool, is_checkpoint);
        let is_stateful = era == Era::Stateful;
        let version = if is_stateful {
            self.session_version()
        } else {
            MODERN
        };
        let wants_task = is_stateful && tool.is_some_and(|tool| self.wants_task(tool));
        let is_flipped = active.is_flipped && version != MODERN;
        CallPlan {
            version,
            era_reason,
            is_checkpoint,
            asks_for_task: wants_task != is_flipped,
            gives_ids: capabilities
                .gives_ids_of(&active.task.tool)
                .filter(|_| is_stateful),
        }
    }

    /// Sends a queued call if everything it needs is there; its intent is saved first.
    pub(super) fn send_call(&mut self, id: &TaskId) {
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        let tool = self.tool_of(active);
        if let Some(refusal) = self.refusal_of(active) {
            return self.fail(id, TaskErrorKind::Refused, None, refusal);
        }
        let mut text = active.task.arguments.clone();
        let mut arguments: Map<String, Value> = serde_json::from_str(&text).unwrap_or_default();
        let plan = self.plan_call(active, tool);
        let params = tool.map_or(Vec::new(), |tool| tool.header_values(&arguments));
        let own_client_id = format!("longhaul-{:016x}", self.rng.u64(..));
        let (now, token) = (self.now, self.saver.next_token);
        self.forget_answered();
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if self.legacy_sse.is_some() {
            active.task.resumability.stream = Some(false);
        }
        active.task.resumability.checkpoint = plan.is_checkpoint;
        if plan.is_checkpoint {
            let key = &self.record.convention.client_id;
            let given = arguments.get(key).and_then(Value::as_str);
            let client_id = active
                .task
                .client_id
                .get_or_insert_with(|| given.map_or(own_client_id, str::to_owned));
            arguments.insert(key.clone(), Value::String(client_id.clone()));
            text = Value::Object(arguments).to_string();
        }
        let Some(attempt) = active.task.attempts.last_mut() else {
            return;
        };
        attempt.phase = Phase::Sent;
        attempt.era_reason = Some(plan.era_reason);
        attempt.asks_for_task = plan.asks_for_task;
        attempt.is_of_process = self.record.is_process();
        attempt.session_number = self.record.session_number;
        attempt.version = Some(plan.version);
        let (is_first_time, request_id) = (attempt.sent_at.is_none(), attempt.request_id.clone());
        let method = encode::call_tool(
            plan.version,
            &encode::CallParams {
                id: &request_id,
                token: &attempt.token,
                tool: &active.task.tool,
                arguments: &text,
                task_ttl_ms: plan.asks_for_task.then_some(TTL_WISH_MS),
                input: attempt.input.as_deref(),
                params: &params,
                caller: active.task.caller.as_deref(),
            },
        );
        let mut expected = active.task.resumability;
        expected.stream = expected.stream.or(plan.gives_ids);
        active.start = Some(if is_first_time {
            HistoryEvent::Started {
                era: plan.version.label().to_owned(),
                resumability: expected.label().to_owned(),
            }
        } else {
            HistoryEvent::Status {
                status: Status::Running.label().to_owned(),
                reason: Some("call sent again".to_owned()),
            }
        });
        active.touch(now);
        (active.sending, active.saving.held) = (Some(token), Some(token));
        for earlier in &active.task.attempts {
            self.index.by_request.remove(&earlier.request_id);
        }
        self.index.by_request.insert(request_id, id.clone());
        let exchange = self.send(RequestKind::Stream(id.clone()), method, None, Some(token));
        if let Some(active) = self.tasks.get_mut(id) {
            active.stream = StreamState::Calling(exchange);
        }
        self.saver.urge(now.mono);
    }

    /// Whether a call waits until the standalone stream is open. A call that is refused here sends nothing at all.
    pub(super) fn waits_for_standalone(&mut self, id: &TaskId) -> bool {
        let active = self.tasks.get(id);
        let goes_out = active.is_some_and(|active| self.refusal_of(active).is_none());
        goes_out && self.standalone_comes_first()
    }

    /// Why a call must not even be recorded, as far as that is known before it is queued. While there is no connection,
    /// the tools may be others by now.
    fn refusal_at_start(&self, active: &ActiveTask) -> Option<String> {
        if self.connection == ConnectionState::Ready && self.record.tools_at.is_some() {
            return self.refusal_of(active);
        }
        self.refusal_to_detach(active, self.tool_of(active)?)
    }

    fn tool_of(&self, active: &ActiveTask) -> Option<&Tool> {
        let mut tools = self.record.tools.iter();
        tools.find(|tool| tool.name == active.task.tool)
    }

    /// Why a call that is to be left alone must not be sent.
    fn refusal_to_detach(&self, active: &ActiveTask, tool: &Tool) -> Option<String> {
        let capabilities = self.capabilities(Some(&active.task));
        let if_cut = IfCut::of_call(tool, &self.record.tools, &capabilities);
        let is_lost = capabilities.is_known(tool, &self.record.tools) && if_cut.is_lost();
        (active.must_survive && is_lost).then(|| {
            format!(
                "quitting would lose this call ({}), so nothing was sent; run it with a keeper, or without --detach",
                if_cut.reason.message()
            )
        })
    }

    /// Why a call must not be sent, as a message that says what to do next.
    fn refusal_of(&self, active: &ActiveTask) -> Option<String> {
        let name = &self.record.name;
        let Some(tool) = self.tool_of(active) else {
            // An agent's call gets the server's own answer, and so does one in a revision whose list may be another one.
            let asked = active.task.options.protocol;
            let is_elsewhere = asked.is_some_and(|asked| asked != self.session_version());
            if self.record.tools.is_empty() || active.task.caller.is_some() || is_elsewhere {
                return None;
            }
            let known = self.record.tools.iter().map(|tool| &tool.name).join(", ");
            let tool = &active.task.tool;
            return Some(format!("{name} has no tool {tool}; it has: {known}"));
        };
        if let Some(fault) = &tool.fault {
            return Some(format!(
                "{name} describes {} in a way that makes calls unsafe: {fault}; nothing was sent",
                tool.name
            ));
        }
        let is_first = active.phase() == Phase::Queued && active.task.attempts_made() == 1;
        if is_first && !active.is_unchecked {
            let arguments = serde_json::from_str(&active.task.arguments).unwrap_or_default();
            let errors = tool.argument_errors(&arguments).join(", ");
            if !errors.is_empty() {
                return Some(format!("{}: {errors}; nothing was sent", tool.name));
            }
        }
        self.refusal_to_detach(active, tool)
    }

    /// The call has not run: the save that it waited for failed, or the server refused it. It is queued again, unless it
    /// was cancelled meanwhile. `refusal` is for the history.
    pub(super) fn unsend(&mut self, id: &TaskId, refusal: Option<&str>) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let exchange = active.stream.exchange();
        active.stream = StreamState::None;
        (active.was_unsent, active.sending) = (true, None);
        // A try that sent nothing adds no entry to the history.
        let is_send_noted = active.start.take().is_none();
        if let Some(attempt) = active.attempt_mut() {
            attempt.phase = Phase::Queued;
            let was_sent = is_send_noted && attempt.sent_at.is_some();
            if let Some(refusal) = refusal.filter(|_| was_sent) {
                active.note_status(self.now, Task::QUEUED, Some(refusal.to_owned()));
            }
        }
        active.touch(self.now);
        let is_cancelled = active.is_to_be_cancelled();
        if is_cancelled {
            active.notice(self.now, "it did not run".to_owned());
        }
        if let Some(exchange) = exchange {
            self.close(exchange);
        }
        if is_cancelled {
            self.conclude(id, Status::Cancelled, None);
        }
    }

    /// Another attempt of a checkpoint tool: same arguments, same client id.
    pub(super) fn call_again(&mut self, id: &TaskId) {
        let request_id = self.in_flight.new_request_id();
        let (now, session_number) = (self.now, self.record.session_number);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let connections = active.let_go();
        active.recovery.restart();
        (active.task.server_task, active.task.resumability.task) = (None, false);
        active.detached = None;
        active.activity.last_step = None;
        active.was_unsent = true;
        if let Some(attempt) = active.attempt_mut() {
            attempt.phase = Phase::Ended;
            attempt.ended_at.get_or_insert(now.wall);
        }
        let number = active.attempt().map_or(1, |attempt| attempt.number + 1);
        active
            .task
            .start_attempt(new_attempt(now.wall, number, request_id, session_number));
        active.task.status = Status::Running;
        active.touch(now);
        self.close_all(connections);
        self.save_vital();
    }
}
