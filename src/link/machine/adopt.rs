//! Adopts server tasks that this session does not know.

use core::time::Duration;

use crate::{
    domain::{
        Era, NewCall, Phase, ProtocolVersion, RequestError, SessionRequest, SessionRequestId,
        SessionResponse, Status, Task, TaskCapability, TaskId, TaskKind, text,
    },
    link::{
        ActiveTask, ConnectionState, Link, RequestKind,
        active_task::new_attempt,
        checkpoint,
        in_flight::Pages,
        negotiation::MODERN,
        queued_requests::QueuedRequest,
        server_task_poll::{ServerTaskPoll, made},
    },
    protocol::{self, RpcOutcome, TaskObject, encode},
};

/// The maximum number of tasks adopted at once: each is a row, a record on disk and polled from then on.
const ADOPTED: usize = 10_000;
impl Link {
    /// Carries out the requests that wait until the server is connected.
    pub(super) fn tend_queued(&mut self) {
        if self.connection != ConnectionState::Ready {
            return;
        }
        // A request that was refused for its session would be refused again.
        if self.is_session_doubted() {
            return;
        }
        let is_next = |it: &mut QueuedRequest| !it.is_for_tools();
        let next: Vec<_> = self.queued_requests.extract_if(.., is_next).collect();
        for queued in next {
            let ask = queued.id;
            match queued.what {
                SessionRequest::Introduce { .. } => self.introduce(ask),
                SessionRequest::Forward { request, .. } => {
                    self.forward(ask, request, queued.is_repeated);
                }
                SessionRequest::Notify { message, .. } => self.notify_server(ask, message),
                SessionRequest::Adopt { server_task, .. } => {
                    self.adopt(ask, server_task, queued.version);
                }
                SessionRequest::Checkpoints { client_id, .. } => {
                    self.call_list(RequestKind::ListCheckpoints { ask }, &client_id);
                }
                _ => {}
            }
        }
    }

    /// The server's list of one client's checkpoints, or why there is none.
    pub(super) fn checkpoints_listed(&mut self, ask: SessionRequestId, outcome: RpcOutcome<'_>) {
        let name = &self.record.name;
        let outcome = match outcome.map(protocol::parse_call_result) {
            Ok(answer) if !answer.is_error => {
                let list = checkpoint::read_list(answer.text.as_deref().unwrap_or_default());
                let list = list.into_iter().map(checkpoint::Listed::shown).collect();
                Ok(SessionResponse::Checkpoints(list))
            }
            Ok(answer) => Err(answer.text.unwrap_or_default()),
            Err(error) => Err(error.message),
        };
        let outcome = outcome.map_err(|said| {
            RequestError::Usage(format!(
                "{name} did not list the checkpoints of that client: {}",
                text::clean_line(&said)
            ))
        });
        self.answer(ask, outcome);
    }

    fn adopt(
        &mut self,
        ask: SessionRequestId,
        server_task: Option<String>,
        asked: Option<ProtocolVersion>,
    ) {
        let name = self.record.name.clone();
        let is_core = |offer: &TaskCapability| offer.kind == TaskKind::Core;
        let era = asked
            .or(self.config.choice.version)
            .map(ProtocolVersion::era);
        let core = (self.record.tasks.filter(is_core)).filter(|_| era != Some(Era::Modern));
        let has_extension = self.record.has_extension() && era != Some(Era::Stateful);
        if core.is_none() && !has_extension {
            let words = format!(
                "{name} offers no server tasks, so there is nothing to import; to import the checkpoints of a client, use `longhaul adopt -s {} --client-id ID`",
                text::shell_word(name.as_str())
            );
            return self.answer(ask, Err(RequestError::Usage(words)));
        }
        match server_task {
            Some(server_task) => {
                if let Some(id) = self.index.shown_for(&server_task).cloned() {
                    return self.answer(ask, Ok(SessionResponse::Adopted(vec![id])));
                }
                let (kind, has_other) = if has_extension {
                    (TaskKind::Extension, core.is_some())
                } else {
                    (TaskKind::Core, false)
                };
                self.adopt_one(ask, server_task, kind, has_other);
            }
            None if core.is_some_and(|offer| offer.can_list) => {
                self.list_tasks(ask, Pages::default());
            }
            None => {
                let version = if core.is_some() {
                    self.session_version()
                } else {
                    MODERN
                };
                let words = format!(
                    "{name} can't list its tasks (MCP {}); pass a server task id: `longhaul adopt -s {} SERVER_TASK_ID`",
                    version.label(),
                    text::shell_word(name.as_str())
                );
                self.answer(ask, Err(RequestError::Usage(words)));
            }
        }
    }

    fn adopt_one(
        &mut self,
        ask: SessionRequestId,
        server_task: String,
        kind: TaskKind,
        has_other: bool,
    ) {
        let request_id = self.in_flight.new_request_id();
        let version = self.version_of_tasks(kind);
        let method = encode::about_task(version, &request_id, "tasks/get", &server_task);
        let kind = RequestKind::Adopt {
            ask,
            server_task,
            kind,
            has_other,
        };
        self.send_request(kind, method, request_id);
    }

    fn version_of_tasks(&self, kind: TaskKind) -> ProtocolVersion {
        match kind {
            TaskKind::Extension => MODERN,
            TaskKind::Core => self.session_version(),
        }
    }

    fn list_tasks(&mut self, ask: SessionRequestId, pages: Pages<TaskId>) {
        let request_id = self.in_flight.new_request_id();
        let method = encode::list(
            self.session_version(),
            &request_id,
            "tasks/list",
            pages.cursor(),
        );
        self.send_request(RequestKind::ListTasks { ask, pages }, method, request_id);
    }

    /// One page of the server's tasks.
    pub(super) fn tasks_listed(
        &mut self,
        ask: SessionRequestId,
        mut pages: Pages<TaskId>,
        outcome: RpcOutcome<'_>,
    ) {
        let result = match outcome {
            Ok(result) => result,
            Err(error) => {
                let words = format!(
                    "{} did not list its tasks: {}",
                    self.record.name, error.message
                );
                return self.answer(ask, Err(RequestError::Usage(words)));
            }
        };
        let (tasks, next) = protocol::parse_task_page(result);
        for shape in tasks {
            // Those that are known leave room for the others, so that asking again brings the rest.
            let is_known = self.index.knows_server_task(&shape.id);
            if !is_known && pages.so_far.len() < ADOPTED {
                pages.so_far.push(self.take_in(shape, TaskKind::Core));
            }
        }
        let has_room = pages.so_far.len() < ADOPTED;
        match next.filter(|next| has_room && pages.leads_on(next)) {
            Some(next) if self.reachability.spend(self.now).is_ok() => {
                pages.cursors.push(next);
                self.list_tasks(ask, pages);
            }
            _ => self.adopted(ask, pages.so_far),
        }
    }

    /// The answer about the task to adopt.
    pub(super) fn adoption_answered(
        &mut self,
        ask: SessionRequestId,
        server_task: &str,
        (kind, has_other): (TaskKind, bool),
        outcome: RpcOutcome<'_>,
    ) {
        let name = self.record.name.clone();
        match outcome.map(protocol::parse_task_object) {
            Ok(Some(shape)) => {
                // Somebody else may have asked for it too.
                let known = self.index.shown_for(&shape.id).cloned();
                let id = known.unwrap_or_else(|| self.take_in(shape, kind));
                self.adopted(ask, vec![id]);
            }
            Ok(None) => {
                let words = format!("{name} responded without a task");
                self.answer(ask, Err(RequestError::Usage(words)));
            }
            Err(_) if has_other => {
                self.adopt_one(ask, server_task.to_owned(), TaskKind::Core, false);
            }
            Err(error) => {
                let words = format!("{name} has no task {server_task}: {}", error.message);
                self.answer(ask, Err(RequestError::Usage(words)));
            }
        }
    }

    /// They are in the list only once they are on disk.
    fn adopted(&mut self, ask: SessionRequestId, ids: Vec<TaskId>) {
        let after = (!ids.is_empty()).then_some(self.saver.next_token);
        self.saver.urge(self.now.mono);
        self.answer_after(ask, Ok(SessionResponse::Adopted(ids)), after);
        self.gather();
        self.schedule.needs_advance = true;
    }

    /// Creates a task for a server task.
    pub(super) fn take_in(&mut self, shape: TaskObject, kind: TaskKind) -> TaskId {
        let (now, version) = (self.now, self.version_of_tasks(kind));
        let mut id = TaskId::from_bits(self.rng.u64(..));
        // Among 10,000 tasks, two would have the same id in one of twenty imports.
        while self.tasks.contains_key(&id) {
            id = TaskId::from_bits(self.rng.u64(..));
        }
        let call = NewCall::new(
            id.clone(),
            self.record.name.clone(),
            Task::NO_TOOL.to_owned(),
            "{}".to_owned(),
        );
        let mut task = Task::new(now.wall, call);
        // Ours only in name: another client's call made it.
        let request_id = self.in_flight.new_request_id();
        let mut attempt = new_attempt(now.wall, 1, request_id, self.record.session_number);
        (attempt.phase, attempt.version) = (Phase::Open, Some(version));
        attempt.is_of_process = self.record.is_process();
        task.resumability.task = !attempt.is_of_process;
        task.start_attempt(attempt);
        task.server_task_id = Some(shape.id.clone());
        // Its time to live began before it was imported.
        let since = shape.created_at.map_or(now.wall, |at| at.min(now.wall));
        task.server_task = Some(made(&shape, kind, since, self.record.binds_tasks));
        debug_assert_eq!(task.status, Status::Running);
        let mut active = ActiveTask::new(now, task, Vec::new(), &self.saver.unsaved);
        if let Some(task) = &active.task.server_task {
            // It was shown just now; of a long list not all are asked for at once.
            let mut served = ServerTaskPoll::new(now.mono);
            let pace = u64::try_from(served.pace(task).as_millis()).unwrap_or(0);
            let wait = Duration::from_millis(self.rng.u64(0..=pace));
            served.next = Some(now.mono.after(wait));
            active.served = Some(served);
        }
        active.notice(now, "imported from the server".to_owned());
        active.saving.held = Some(self.saver.next_token);
        self.index
            .by_server_task
            .insert(shape.id.clone(), id.clone());
        self.tasks.insert(id.clone(), active);
        self.saver.urge(now.mono);
        self.showed(&id, shape);
        id
    }
}
