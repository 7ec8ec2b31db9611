//! Server tasks of both kinds: created, polled, notified, fetched, cancelled.
//!
//! One poller for all tasks of a link: it polls due tasks, a few at a time, so that a thousand tasks are neither a
//! thousand timers nor a thousand sockets.
//!
//! Sources: MCP 2025-11-25, basic/utilities/tasks; the tasks extension of 2026-07-28.

use core::time::Duration;

use crate::{
    domain::{ControlKind, LostReason, Mono, Status, TaskErrorKind, TaskId, TaskKind, TaskState},
    link::{
        ActiveTask, ConnectionState, InFlight, Link, RequestKind,
        server_task_poll::{ServerTaskPoll, is_before, made},
        time::{earliest, jittered},
    },
    protocol::{self, HttpError, RpcError, RpcOutcome, TaskObject, encode},
};

/// The maximum number of concurrent polls.
const POLLS_AT_ONCE: usize = 16;
/// Tasks due within this many milliseconds of each other are polled together.
const TOGETHER_MS: u64 = 50;
impl Link {
    /// The server turned a call into a task: from here on it is polled by its id.
    pub(super) fn became_task(&mut self, id: &TaskId, kind: TaskKind, shape: TaskObject) {
        let (now, token) = (self.now, self.saver.next_token);
        let is_bound = self.record.binds_tasks;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let task = made(&shape, kind, now.wall, is_bound);
        let connections = active.take_connections();
        active.recovery.disconnection = None;
        active.task.resumability.task = !self.record.is_process();
        active.task.server_task_id = Some(task.id.clone());
        let served = ServerTaskPoll::new(now.mono);
        let first = now.mono.after(served.pace(&task));
        active.served = Some(ServerTaskPoll::new(first));
        active.task.server_task = Some(task);
        if let Some(control) =
            (active.control.as_mut()).filter(|it| it.what == ControlKind::Cancelling)
        {
            // The cancel of the call does not reach its task; only `tasks/cancel` does.
            (control.is_sent, control.is_taken, control.retry_at) = (false, false, None);
        }
        let reason = "the server runs the call as a task".to_owned();
        active.note_status(now, "running", Some(reason));
        active.saving.held = Some(token);
        if kind == TaskKind::Extension {
            self.ran_as_task(id, true);
        }
        self.index
            .by_server_task
            .insert(shape.id.clone(), id.clone());
        self.gather();
        self.close_all(connections);
        self.save_vital();
        self.showed(id, shape);
    }

    /// What became of a call prices the next one of the same tool.
    pub(super) fn ran_as_task(&mut self, id: &TaskId, as_task: bool) {
        let Some(tool) = self.tasks.get(id).map(|active| active.task.tool.clone()) else {
            return;
        };
        if self.record.ran_as_task.insert(tool, as_task) != Some(as_task) {
            self.record_changed();
        }
    }

    /// Whether a message says that a task of the extension has completed, but not with what.
    fn lacks_result(&self, id: &TaskId, shape: &TaskObject) -> bool {
        let active = self.tasks.get(id);
        let task = active.and_then(|active| active.task.server_task.as_ref());
        task.is_some_and(|task| task.kind == TaskKind::Extension)
            && shape.state == TaskState::Completed
            && shape.result.is_none()
    }

    /// A message shows the state of a server task.
    pub(super) fn showed(&mut self, id: &TaskId, shape: TaskObject) {
        let now = self.now;
        if self.lacks_result(id, &shape) {
            // Only `tasks/get` has to bring it.
            return self.look_soon(id);
        }
        let Some(active) = self.tasks.get_mut(id).filter(|it| !it.is_settled()) else {
            return;
        };
        let Some(task) = active.task.server_task.as_mut() else {
            return;
        };
        // An end is final, whatever its time stamp says: the clocks of two replicas differ.
        let is_older = !shape.state.is_terminal()
            && is_before(shape.updated.as_deref(), task.updated.as_deref());
        if active.served.is_none() || task.id != shape.id || is_older {
            return;
        }
        if task.state.is_terminal() {
            // Its result may still have to be fetched: no way was open then, or our process ended in between.
            return self.fetch(id);
        }
        // Not `lastUpdatedAt`: one server sets it at every look.
        let has_moved =
            task.state != shape.state || shape.message.is_some() && task.message != shape.message;
        let words = shape.message.clone();
        let words = words.filter(|message| task.message.as_ref() != Some(message));
        // A message may vanish at the end, and the last one said more.
        task.message = shape.message.or(task.message.take());
        let has_changed = has_moved || task.ttl_ms != shape.ttl_ms || task.poll_ms != shape.poll_ms;
        (task.ttl_ms, task.poll_ms) = (shape.ttl_ms, shape.poll_ms);
        task.updated = shape.updated.or(task.updated.take());
        task.state = shape.state;
        let kind = task.kind;
        if has_moved {
            active.activity.last_news = now.mono;
        }
        if let Some(words) = words {
            active.note_status(now, active.task.status.label(), Some(words));
            self.saver.touch(now.mono);
        } else if has_changed {
            active.touch(now);
            self.saver.touch(now.mono);
        }
        if !shape.state.is_terminal()
            && let Some(served) = &mut active.served
        {
            served.result_refusals = 0;
        }
        match (shape.state, kind) {
            (TaskState::Working, _) => self.input_is_over(id),
            (TaskState::InputRequired, TaskKind::Extension) => {
                for ask in shape.input_requests {
                    self.task_asks(id, ask);
                }
            }
            (TaskState::Cancelled, _) => self.conclude(id, Status::Cancelled, None),
            // A core task that asks does so on the stream of its result.
            (_, TaskKind::Core) => self.fetch(id),
            (TaskState::Completed, TaskKind::Extension) => {
                self.took_result(id, &shape.result.unwrap_or_default());
            }
            (TaskState::Failed, TaskKind::Extension) => self.task_failed(id, shape.error),
        }
    }

    /// A task of the extension has failed, with an error of JSON-RPC or only with its message.
    fn task_failed(&mut self, id: &TaskId, error: Option<RpcError>) {
        let active = self.tasks.get(id);
        let task = active.and_then(|active| active.task.server_task.as_ref());
        let message = task.and_then(|task| task.message.clone());
        match error {
            Some(error) if error.code != 0 => {
                self.fail_with(id, TaskErrorKind::Protocol, error);
            }
            error => {
                let message = error.map(|error| error.message).or(message);
                let message =
                    message.unwrap_or_else(|| "the task failed without a message".to_owned());
                self.fail(id, TaskErrorKind::Protocol, None, message);
            }
        }
    }

    /// `notifications/tasks` or `notifications/tasks/status`; never relied on, always welcome.
    pub(super) fn told_of_task(&mut self, json: &str) {
        let Some(shape) = protocol::parse_task_object(json) else {
            return;
        };
        if let Some(id) = self.index.by_server_task.get(&shape.id).cloned() {
            self.schedule.needs_advance = true;
            self.heard_of(&id);
            self.showed(&id, shape);
        }
    }

    fn heard_of(&mut self, id: &TaskId) {
        let now = self.now;
        if let Some(active) = self.tasks.get_mut(id) {
            active.heard(now);
            // While the result is missing, a successful poll does not count as recovery.
            let is_refused = |served: &ServerTaskPoll| served.result_refusals > 0;
            if active.served.as_ref().is_some_and(is_refused) {
                return;
            }
            if active.note_back(now) {
                self.saver.touch(now.mono);
            }
            if let Some(served) = &mut active.served {
                active.saving.is_shown_stale |= served.failures > 0;
                (served.failures, served.why) = (0, None);
                served.refusals = None;
            }
        }
    }

    /// Whether a look at a task is due, or will be: its id is on disk before anything is made of it.
    fn next_look(active: &ActiveTask) -> Option<Mono> {
        let next = active.served.as_ref()?.next?;
        (active.task.is_open() && active.saving.held.is_none()).then_some(next)
    }

    /// Polls due tasks, a few at a time.
    pub(super) fn step_polls(&mut self) {
        if self.connection != ConnectionState::Ready || self.exit.is_leaving {
            return;
        }
        let free = POLLS_AT_ONCE.saturating_sub(self.in_flight.polls);
        if free == 0 || !self.reachability.may_send(self.now) {
            return;
        }
        let looks = self.tasks.iter();
        let looks = looks.filter_map(|(id, active)| Some((Self::next_look(active)?, id.clone())));
        let due = looks.filter(|(next, _)| self.now.mono >= *next);
        let mut due: Vec<(Mono, TaskId)> = due.collect();
        due.sort();
        for (_, id) in due.into_iter().take(free) {
            if !self.reachability.may_send(self.now) {
                return;
            }
            self.poll(&id);
        }
    }

    fn poll(&mut self, id: &TaskId) {
        let request_id = self.in_flight.new_request_id();
        let version = self.version_of(id);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(task) = &active.task.server_task else {
            return;
        };
        let method = encode::about_task(version, &request_id, "tasks/get", &task.id);
        if let Some(served) = &mut active.served {
            served.next = None;
            served.knew = active.task.questions.len();
        }
        self.send_request(RequestKind::Poll(id.clone()), method, request_id);
    }

    /// When the poller has something to do again; only the way counts, a pace is not ours to ration.
    pub(super) fn next_poll(&self) -> Option<Mono> {
        if self.connection != ConnectionState::Ready || self.exit.is_leaving {
            return None;
        }
        let mut next = None;
        if self.in_flight.polls < POLLS_AT_ONCE {
            for active in self.tasks.values() {
                next = earliest(next, Self::next_look(active));
            }
        }
        let subscription = self.subscription.next.filter(|_| self.may_listen());
        let next = earliest(next, subscription)?;
        let way = self.reachability.next_try();
        Some(way.map_or(next, |way| way.max(next)))
    }

    /// A poll got a response.
    pub(super) fn polled(&mut self, id: &TaskId, outcome: RpcOutcome<'_>) {
        match outcome.map(protocol::parse_task_object) {
            Ok(Some(shape)) => {
                self.heard_of(id);
                if let Some(active) = self.tasks.get_mut(id)
                    && active.is_bound_to_another(self.record.session_number)
                {
                    active.set_bound(false);
                    self.record.binds_tasks = Some(false);
                    self.record_changed();
                }
                let is_overtaken = shape.state == TaskState::Working && self.asked_since_look(id);
                if self.lacks_result(id, &shape) {
                    let message = "the server reported the task as completed, without its result";
                    self.fail(id, TaskErrorKind::Protocol, None, message.to_owned());
                } else if !is_overtaken {
                    self.showed(id, shape);
                }
                self.poll_again(id);
            }
            Ok(None) => self.poll_failed(id, "its answer contains no task", None),
            Err(error) if matches!(error.code, -32602 | -32601) => self.task_gone(id, &error),
            Err(error) => self.poll_failed(id, &error.message, None),
        }
    }

    /// Whether the server asked something, on another way, after the look that was just answered went out.
    fn asked_since_look(&self, id: &TaskId) -> bool {
        let knew = |active: &ActiveTask| {
            let served = active.served.as_ref()?;
            Some(active.task.questions.len() > served.knew)
        };
        self.tasks.get(id).and_then(knew).unwrap_or(false)
    }

    /// Sets the time of the next look; while a poll is in flight, its answer does.
    pub(super) fn poll_again(&mut self, id: &TaskId) {
        let now = self.now.mono;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let (Some(served), Some(task)) = (&mut active.served, &active.task.server_task) else {
            return;
        };
        // Up to an eighth more: half of it is random, so that tasks that started together are not polled together, and
        // half of it lets one round poll several tasks.
        let pace = served.pace(task);
        let more = u64::try_from(pace.as_millis() / 16).unwrap_or(0);
        let at = now.after(pace + Duration::from_millis(self.rng.u64(0..=more)));
        served.next = Some(Mono(at.0.next_multiple_of(more.clamp(1, TOGETHER_MS))));
    }

    /// What a look at a task is compared with, if nothing waits for its end.
    pub(super) fn before_look(&self, kind: &RequestKind) -> Option<(TaskId, u64)> {
        let RequestKind::Poll(id) = kind else {
            return None;
        };
        let is_last = self.in_flight.polls >= POLLS_AT_ONCE || self.reachability.down.is_some();
        let seq = self.tasks.get(id)?.task.seq;
        (!is_last).then(|| (id.clone(), seq))
    }

    /// Most looks show nothing new; then nothing is due but the next one, and no other task needs to be looked through.
    pub(super) fn found_nothing_new(&mut self, (id, seq): (TaskId, u64)) {
        let Some(active) = self.tasks.get(&id) else {
            return;
        };
        let is_same = active.task.seq == seq
            && active.is_parked()
            && !active.saving.is_dirty
            && !self.saver.is_record_dirty;
        if is_same && let Some(next) = Self::next_look(active) {
            self.schedule.needs_advance = false;
            self.schedule.wake = earliest(self.schedule.wake, Some(next));
        }
    }

    /// A poll failed, which says nothing about the task.
    fn poll_failed(&mut self, id: &TaskId, why: &str, at_least: Option<Duration>) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let (Some(served), Some(task)) = (&mut active.served, &active.task.server_task) else {
            return;
        };
        // If the server has reported on the task since the last poll, only polling is broken.
        let silent = now.mono.since(active.activity.last_byte.mono);
        let is_cut_off = !served.is_subscribed || silent >= served.pace(task);
        let wait = jittered(served.failed(task, why.to_owned()), &mut self.rng);
        served.next = Some(now.mono.after(wait.max(at_least.unwrap_or_default())));
        if is_cut_off {
            active.note_disconnection(now, why);
        }
        active.saving.is_shown_stale = true;
        self.saver.touch(now.mono);
    }

    /// A poll did not get through: the link's own back-off says when the way is tried again.
    fn poll_unanswered(&mut self, id: &TaskId, why: &str) {
        self.poll_failed(id, why, None);
        if let Some(active) = self.tasks.get_mut(id)
            && let (Some(served), Some(task)) = (&mut active.served, &active.task.server_task)
        {
            served.next = Some(self.now.mono.after(served.pace(task)));
            // The replica that has the task may be the one that can't be reached.
            served.refusals = None;
        }
    }

    /// The server does not know its task: over its time, or gone before it, or another replica has it.
    fn task_gone(&mut self, id: &TaskId, error: &RpcError) {
        let (now, wall, session) = (self.now.mono, self.now.wall, self.record.session_number);
        let is_proved = self
            .served_mut(id)
            .is_some_and(|served| served.is_gone(now));
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(task) = &active.task.server_task else {
            return;
        };
        if !is_proved {
            let why = format!("the server does not know the task: {}", error.message);
            return self.poll_failed(id, &why, None);
        }
        let is_bound = task.kind == TaskKind::Core && active.is_bound_to_another(session);
        let is_expired = task.expires_at().is_some_and(|at| wall >= at);
        if active.is_asked(ControlKind::Cancelling) && active.was_cancelled() {
            // A server may drop a task once it is cancelled.
            return self.conclude(id, Status::Cancelled, None);
        }
        let server_text = Some(error.message.clone());
        let reason = if is_expired {
            LostReason::TaskExpired
        } else if is_bound {
            LostReason::session_gone(server_text)
        } else {
            LostReason::TaskGone {
                server_text: server_text.filter(|said| !said.is_empty()),
            }
        };
        if is_bound {
            self.record.binds_tasks = Some(true);
            self.record_changed();
        }
        self.out_of_stream(id, Status::Lost(reason));
    }

    /// `tasks/result` (2025-11-25): the result once there is one, and before it what the task asks.
    fn fetch(&mut self, id: &TaskId) {
        let version = self.version_of(id);
        if self.connection != ConnectionState::Ready {
            return;
        }
        let Some(active) = self.tasks.get(id) else {
            return;
        };
        let (Some(served), Some(task)) = (&active.served, &active.task.server_task) else {
            return;
        };
        if self.now.mono < served.fetch_from {
            return;
        }
        let server_task = task.id.clone();
        if let Some(exchange) = served.fetching {
            // One in a session that is gone may look open forever, and no more requests are sent there.
            let here = self.record.session_number;
            let is_here = |in_flight: &InFlight| in_flight.session_number == here;
            if self.in_flight.get(exchange).is_some_and(is_here) {
                return;
            }
            self.close(exchange);
        }
        let request_id = self.in_flight.new_request_id();
        let method = encode::about_task(version, &request_id, "tasks/result", &server_task);
        let exchange = self.send_request(RequestKind::Fetch(id.clone()), method, request_id);
        if let Some(active) = self.tasks.get_mut(id)
            && let Some(served) = &mut active.served
        {
            (served.fetching, served.fetched_at) = (Some(exchange), self.now.mono);
            served.asked_here.clear();
            active.answers.restart_wait();
        }
    }

    /// `tasks/result` was answered.
    pub(super) fn fetched(&mut self, id: &TaskId, outcome: RpcOutcome<'_>) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(served) = &mut active.served else {
            return;
        };
        served.fetching = None;
        let was_withheld = std::mem::take(&mut served.fetch_failures) > 0;
        let state = active.task.server_task.as_ref().map(|task| task.state);
        match outcome {
            _ if state == Some(TaskState::Cancelled) => self.conclude(id, Status::Cancelled, None),
            // Some servers let the work fail when it is cancelled.
            Err(_) if state == Some(TaskState::Failed) && active.was_cancelled() => {
                self.conclude(id, Status::Cancelled, None);
            }
            Ok(result) => {
                if was_withheld {
                    active.task.notice = None;
                }
                self.took_result(id, result);
            }
            Err(error) if error.code == -32602 && state != Some(TaskState::Failed) => {
                self.result_refused(id, &error);
            }
            Err(_) if active.was_cancelled() && state != Some(TaskState::Completed) => {
                self.look_soon(id);
            }
            Err(error) => {
                self.fail_with(id, TaskErrorKind::Protocol, error);
            }
        }
    }

    /// `tasks/result` was refused as for an unknown task. Only a poll tells whether it is gone: another replica may have
    /// answered. Two that take turns would answer every poll and every `tasks/result` in the same way forever, so every
    /// second refusal is followed by another `tasks/result`.
    fn result_refused(&mut self, id: &TaskId, error: &RpcError) {
        let Some(served) = self.served_mut(id) else {
            return;
        };
        served.result_refusals = served.result_refusals.saturating_add(1);
        if served.result_refusals % 2 == 1 {
            return self.fetch(id);
        }
        let why = format!("the server did not send the result: {}", error.message);
        self.poll_failed(id, &why, None);
        self.schedule.needs_advance = true;
    }

    /// The stream of `tasks/result` ended without an answer; the next poll says whether it is still wanted.
    fn fetch_ended(&mut self, id: &TaskId, why: &str, at_least: Option<Duration>) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let Some(served) = &mut active.served else {
            return;
        };
        if !served.fetch_failed(now.mono, at_least.unwrap_or_default()) {
            // The polls between them show the connection; a line for each would flood the log.
            let state = active.task.server_task.as_ref().map(|task| task.state);
            if state.is_some_and(TaskState::is_terminal) {
                let message = format!("the server did not send the result: {why}");
                active.notice(now, message);
            }
        } else if served.next.is_some() {
            self.poll_failed(id, why, at_least);
        }
    }

    /// How a server task is polled.
    pub(super) fn served_mut(&mut self, id: &TaskId) -> Option<&mut ServerTaskPoll> {
        self.tasks.get_mut(id)?.served.as_mut()
    }

    /// Polls a task soon, because it has probably changed.
    pub(super) fn look_soon(&mut self, id: &TaskId) {
        let now = self.now.mono;
        if let Some(served) = self.served_mut(id) {
            served.look_soon(now);
        }
        self.schedule.needs_advance = true;
    }

    /// `tasks/cancel` was answered.
    pub(super) fn task_cancel_answered(&mut self, id: &TaskId, outcome: Result<&str, &RpcError>) {
        if let Ok(result) = outcome {
            self.cancel_taken(id);
            if let Some(shape) = protocol::parse_task_object(result) {
                self.showed(id, shape);
            }
        }
        self.look_soon(id);
    }

    /// A short request about a task got no answer or was refused in a way that says nothing of the task.
    pub(super) fn task_request_failed(
        &mut self,
        in_flight: &InFlight,
        why: &str,
        refusal: Option<&HttpError>,
    ) {
        let at_least = refusal.and_then(|refusal| refusal.retry_after);
        match &in_flight.kind {
            // Where no answer came at all, the back-off of the way says when.
            RequestKind::Poll(id) if refusal.is_none() => self.poll_unanswered(id, why),
            RequestKind::Poll(id) => self.poll_failed(id, why, at_least),
            RequestKind::Fetch(id) => self.fetch_ended(id, why, at_least),
            RequestKind::Update(id, key) => {
                self.reply_failed(in_flight, at_least);
                self.answer_unheard(id, key);
            }
            RequestKind::Listen => match refusal {
                Some(refusal) => self.listening_refused(refusal),
                None => self.listening_ended(false),
            },
            _ => {}
        }
    }
}
