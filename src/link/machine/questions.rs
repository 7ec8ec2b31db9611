//! Questions of the server, one shape for three ways: asked once, answered once, over restarts too.

use core::time::Duration;

use super::{Link, earliest};
use crate::{
    domain::{
        Answer, Elicitation, HistoryEvent, OnInput, Phase, Question, QuestionSource, RequestError,
        SessionResponse, Status, TaskErrorKind, TaskId,
    },
    link::{
        active_task::{ActiveTask, new_attempt},
        connection::ConnectionState,
        in_flight::{InFlight, RequestKind},
        replies::{Turn, WAITS},
        stream_state::StreamState,
    },
    protocol::{InputRequest, RpcError, encode},
};

/// The one method by which a person can be asked.
const ELICIT: &str = "elicitation/create";
/// Questions of one task that wait for a person, or with their answer for the server; nobody answers more, and each is on
/// the screen and in the task's record.
const OPEN: usize = 32;
/// Questions of one task that are remembered, so that a replay does not ask them again.
const REMEMBERED: usize = 256;
/// Bytes of one question; a form of hundreds of choices is a third of it.
const QUESTION_BYTES: usize = 64 * 1024;
/// What stands for a question that was larger.
const TOO_LARGE: &str = r#"{"message":"(a question too many or of more than 64 kB, left out)"}"#;
/// Rounds in a row in which a server may ask nothing and be called again.
const EMPTY_ROUNDS: u32 = 10;
/// Rounds of one task in a row: where no person answers they follow each other at once.
const ROUNDS: u32 = 100;
/// Bytes that a server may have us keep for it between two rounds; they are written with every save of the task.
const STATE_BYTES: usize = 256 * 1024;
/// Earlier names of a question that are remembered.
const NAMES: usize = 8;

impl Link {
    /// A request on a stream of the stateful era asks something (MCP 2025-11-25, client/elicitation).
    pub(super) fn stream_asks(&mut self, task: Option<&TaskId>, raw_id: &str, params: &str) {
        let value: serde_json::Value = serde_json::from_str(params).unwrap_or_default();
        let related = value
            .pointer("/_meta/io.modelcontextprotocol~1related-task/taskId")
            .and_then(|id| id.as_str());
        let of_related = related.and_then(|id| self.index.of_server_task(id));
        let way = QuestionSource::Request {
            id: raw_id.to_owned(),
            related_task: related.map(str::to_owned),
        };
        // Ids of the server's requests are unique within one of its sessions only.
        let key = key_in(self.reading.session_number, raw_id.trim_matches('"'));
        let has_it = |active: &ActiveTask| {
            let mut questions = active.task.questions.iter();
            questions.any(|question| question.key == key && question.source == way)
        };
        let had = self.tasks.iter().filter(|(_, active)| has_it(active));
        let had: Vec<TaskId> = had.map(|(id, _)| id.clone()).collect();
        if had.is_empty() && self.was_answered(&key) {
            return;
        }
        let whose = match of_related.or(task) {
            // Some servers also replay the requests of other streams; the first task to get a request keeps it.
            Some(id) if !had.is_empty() && !had.contains(id) => return,
            Some(id) => vec![id.clone()],
            None if !had.is_empty() => had,
            // Whichever call of a process of ours it is about, its person is the same one.
            None if self.record.is_process() => {
                let only = self.only_one().or_else(|| self.newest_call());
                only.into_iter().collect()
            }
            None => self.at_work(),
        };
        let is_too_much = |id: &TaskId| {
            let active = self.tasks.get(id);
            active.is_some_and(|active| is_too_much(active, &key, params))
        };
        if whose.is_empty() || whose.iter().any(is_too_much) {
            for id in &whose {
                if let Some(active) = self.tasks.get_mut(id) {
                    active.left_out(self.now, |left_out| &mut left_out.questions);
                }
            }
            // Nobody can be shown what it is about, or nobody is shown so much.
            return self.reply(encode::elicitation_response(
                raw_id,
                &Answer::Decline,
                related,
            ));
        }
        for id in &whose {
            let others = whose.iter().filter(|other| *other != id);
            let shared_with = others.cloned().collect();
            self.ask_person(id, key.clone(), way.clone(), params.to_owned(), shared_with);
        }
    }

    /// The one task that a request without a name can only be about.
    pub(super) fn only_one(&self) -> Option<TaskId> {
        let mut active = self
            .tasks
            .iter()
            .filter(|(_, active)| !active.is_settled() && active.is_active());
        let (id, _) = active.next()?;
        active.next().is_none().then(|| id.clone())
    }

    /// The call that went out last and is still out.
    fn newest_call(&self) -> Option<TaskId> {
        let is_out = |active: &ActiveTask| matches!(active.stream, StreamState::Open { .. });
        let started = |active: &ActiveTask| active.attempt().map(|attempt| attempt.started_at);
        let out = self.tasks.iter().filter(|(_, active)| is_out(active));
        let newest = out.max_by_key(|(_, active)| started(active))?;
        Some(newest.0.clone())
    }

    /// A server task of the extension asks.
    pub(super) fn task_asks(&mut self, id: &TaskId, ask: InputRequest) {
        if ask.method == ELICIT {
            self.ask_person(
                id,
                ask.key,
                QuestionSource::TaskInput,
                ask.params,
                Vec::new(),
            );
        } else if let Some(active) = self.tasks.get_mut(id) {
            let words = format!("it asks for {}, which longhaul does not offer", ask.method);
            if active.task.notice.as_ref() != Some(&words) {
                active.remark(self.now, words);
            }
        }
    }

    /// The call came back asking (2026-07-28, basic/patterns/mrtr): nothing runs until it is sent again with answers.
    pub(super) fn call_asks(
        &mut self,
        id: &TaskId,
        asks: Vec<InputRequest>,
        state: Option<String>,
    ) {
        if let Some(foreign) = asks.iter().find(|ask| ask.method != ELICIT) {
            let words = format!(
                "the server asks for {}, which longhaul does not offer",
                foreign.method
            );
            return self.fail(id, TaskErrorKind::Protocol, None, words);
        }
        if state
            .as_ref()
            .is_some_and(|state| state.len() > STATE_BYTES)
        {
            let words = "the server wants more than 256 kB kept for it until it is called again";
            return self.fail(id, TaskErrorKind::Protocol, None, words.to_owned());
        }
        let is_endless = self.tasks.get(id).is_some_and(|active| {
            let mut newest = active.task.attempts.iter().skip(1);
            active.task.attempts_made() > ROUNDS && newest.all(|round| round.input.is_some())
        });
        if is_endless {
            let words = format!("the server asked to be called again {ROUNDS} times");
            return self.fail(id, TaskErrorKind::Protocol, None, words);
        }
        self.end_attempt_for_round(id, state);
        if asks.is_empty() {
            let Some(active) = self.tasks.get(id) else {
                return;
            };
            if active.task.attempts_made() > EMPTY_ROUNDS && active.task.questions.is_empty() {
                let words = "the server asks to be called again and again without a question";
                return self.fail(id, TaskErrorKind::Protocol, None, words.to_owned());
            }
            return self.next_round(id);
        }
        for ask in asks {
            if let Some(active) = self.tasks.get_mut(id) {
                // A new round: what it asks again was not answered to its liking.
                active.task.questions.retain(|question| {
                    question.key != ask.key || question.source != QuestionSource::Round
                });
            }
            self.ask_person(id, ask.key, QuestionSource::Round, ask.params, Vec::new());
        }
    }

    /// Code -32042 of 2025-11-25: URLs have to be visited before the call is made again.
    pub(super) fn call_wants_visits(&mut self, id: &TaskId, error: &RpcError) -> bool {
        let list = error
            .data
            .as_ref()
            .and_then(|data| data.get("elicitations")?.as_array().cloned());
        let Some(list) = list.filter(|list| !list.is_empty()) else {
            return false;
        };
        self.end_attempt_for_round(id, None);
        for (place, params) in list.iter().enumerate() {
            let named = params.get("elicitationId").and_then(|id| id.as_str());
            let key = named.map_or_else(|| place.to_string(), str::to_owned);
            if let Some(active) = self.tasks.get_mut(id) {
                active.task.questions.retain(|question| question.key != key);
            }
            self.ask_person(
                id,
                key,
                QuestionSource::Round,
                params.to_string(),
                Vec::new(),
            );
        }
        true
    }

    fn end_attempt_for_round(&mut self, id: &TaskId, state: Option<String>) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let connections = active.take_connections();
        if let Some(attempt) = active.attempt_mut() {
            attempt.phase = Phase::Ended;
            attempt.ended_at = Some(now.wall);
            attempt.request_state = state;
        }
        active.touch(now);
        for exchange in connections.into_iter().flatten() {
            self.close(exchange);
        }
        self.saver.urge(now.mono);
        self.needs_advance = true;
    }

    fn ask_person(
        &mut self,
        id: &TaskId,
        key: String,
        way: QuestionSource,
        mut request: String,
        shared_with: Vec<TaskId>,
    ) {
        let (now, token) = (self.now, self.saver.next_token());
        // What one call may answer by itself is still asked where another call's person wants to be asked.
        let policy_of = |id| self.tasks.get(id).map(|active| active.task.on_input);
        let policy = policy_of(id).unwrap_or_default();
        let is_agreed = shared_with
            .iter()
            .all(|other| policy_of(other) == Some(policy));
        let policy = if is_agreed { policy } else { OnInput::Ask };
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        // On a new stream of a task's result what is still open is asked anew, under another name. Two equal questions on
        // one stream are two, and one that was answered is not answered again unasked.
        let here = active.served.as_ref().map(|served| &served.asked_here);
        let is_it = |question: &&mut Question| {
            let is_from_before = here.is_some_and(|here| !here.contains(&question.key));
            question.has_key(&key)
                || question.is_open() && is_from_before && question.is_same_request(&way, &request)
        };
        let known = active.task.questions.iter_mut().find(is_it);
        let is_known = known.is_some();
        if let Some(known) = known {
            // Asked again: by a replay, or because the answer did not arrive.
            let is_undelivered = known.answer.is_some() && !known.is_delivered;
            if !known.has_key(&key) {
                let before = std::mem::replace(&mut known.key, key.clone());
                known.earlier.push(before);
                if known.earlier.len() > NAMES {
                    known.earlier.remove(0);
                }
                known.source = way.clone();
                active.touch(now);
                self.saver.urge(now.mono);
            }
            if is_undelivered {
                active.answers_wait();
            }
        }
        if let Some(served) = &mut active.served
            && served.asked_here.len() < REMEMBERED
        {
            served.asked_here.push(key.clone());
        }
        if is_known {
            return;
        }
        let is_too_much = is_too_much(active, &key, &request);
        if is_too_much {
            TOO_LARGE.clone_into(&mut request);
            active.left_out(now, |left_out| &mut left_out.questions);
        }
        let answer = match policy {
            _ if is_too_much => Some(Answer::Decline),
            OnInput::Ask => None,
            OnInput::Defaults => defaults(&request),
            OnInput::Decline => Some(Answer::Decline),
        };
        active.note(
            now,
            None,
            HistoryEvent::InputRequired {
                key: key.clone(),
                request: request.clone(),
            },
        );
        if answer.is_some() {
            active.answers_wait();
        }
        let questions = &mut active.task.questions;
        if questions.len() >= REMEMBERED
            && let Some(oldest) = questions.iter().position(|question| question.is_delivered)
        {
            questions.remove(oldest);
        }
        questions.push(Question {
            key,
            earlier: Vec::new(),
            source: way,
            request,
            asked_at: now.wall,
            answer,
            is_delivered: false,
            shared_with,
        });
        refresh(active);
        active.saving.held = Some(token);
        self.saver.urge(now.mono);
        self.needs_advance = true;
    }

    /// The server goes on without the answers that it asked for: somebody else gave them, or it changed its mind.
    pub(super) fn input_is_over(&mut self, id: &TaskId) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let mut was_open = false;
        for question in &mut active.task.questions {
            if question.source != QuestionSource::TaskInput {
                continue;
            }
            if question.is_open() {
                question.answer = Some(Answer::Dismiss);
                was_open = true;
            }
            // It goes on, so whatever was on its way has arrived.
            question.is_delivered = true;
        }
        if was_open {
            active.remark(now, "it goes on without an answer from here".to_owned());
        }
        refresh(active);
    }

    /// The server takes a question back.
    pub(super) fn question_withdrawn(&mut self, raw_id: &str) {
        let now = self.now;
        for active in self.tasks.values_mut() {
            let is_it = |question: &&mut Question| {
                question.is_open()
                    && matches!(&question.source, QuestionSource::Request { id, .. } if id == raw_id)
            };
            if let Some(question) = active.task.questions.iter_mut().find(is_it) {
                (question.answer, question.is_delivered) = (Some(Answer::Dismiss), true);
                active.remark(now, "the server took its question back".to_owned());
                refresh(active);
            }
        }
    }

    /// A person answers.
    pub(super) fn answer_question(
        &mut self,
        id: &TaskId,
        key: Option<&str>,
        answer: &Answer,
    ) -> Result<SessionResponse, RequestError> {
        let now = self.now;
        let active = self.tasks.get_mut(id).ok_or_else(|| {
            RequestError::Usage(format!(
                "{id} is settled or not of this session; nothing is asked there"
            ))
        })?;
        let is_it = |question: &&mut Question| {
            question.is_open() && key.is_none_or(|key| question.has_key(key))
        };
        let Some(question) = active.task.questions.iter_mut().find(is_it) else {
            return Err(RequestError::Usage(match key {
                Some(_) => format!("{id} does not ask that, or not any more"),
                None => format!("{id} asks nothing"),
            }));
        };
        let reason = format!("answered: {}", answer.action());
        let (key, shared_with) = (question.key.clone(), question.shared_with.clone());
        for id in shared_with.iter().chain([id]) {
            let Some(active) = self.tasks.get_mut(id) else {
                continue;
            };
            let is_it = |question: &&mut Question| question.is_open() && question.key == key;
            let Some(question) = active.task.questions.iter_mut().find(is_it) else {
                continue;
            };
            question.answer = Some(answer.clone());
            active.answers_wait();
            refresh(active);
            let (status, reason) = (active.task.status.label().to_owned(), Some(reason.clone()));
            active.note(now, None, HistoryEvent::Status { status, reason });
        }
        self.saver.urge(now.mono);
        self.needs_advance = true;
        Ok(SessionResponse::Accepted)
    }

    /// Sends the answers that wait; what a person chose is on disk before it goes out.
    pub(super) fn step_answers(&mut self, id: &TaskId) {
        if self.connection != ConnectionState::Ready || !self.reachability.may_send(self.now) {
            return;
        }
        let is_due =
            |active: &&mut ActiveTask| active.has_answers && self.now.mono >= active.answers_at;
        let Some(active) = self.tasks.get_mut(id).filter(is_due) else {
            return;
        };
        active.has_answers = false;
        let policy = active.task.on_input;
        let waiting: Vec<Question> = active
            .task
            .questions
            .iter()
            .filter(|question| question.answer.is_some() && !question.is_delivered)
            .cloned()
            .collect();
        // A server task outlives the session that its call was made in, and asks in whatever session it is followed.
        let here = key_in(self.record.session_number, "");
        let (mut has_round, mut has_no_room) = (false, false);
        let mut later = None;
        for question in &waiting {
            match &question.source {
                QuestionSource::Round => {
                    has_round = true;
                    continue;
                }
                // Its session is gone, and with it whoever waited for the answer.
                QuestionSource::Request { .. } if !question.key.starts_with(&here) => {
                    self.question_delivered(id, &question.key);
                    continue;
                }
                QuestionSource::Request { .. } | QuestionSource::TaskInput => {}
            }
            match self.turn_of(id, question, policy) {
                Turn::Now => self.send_answer(id, question),
                Turn::Out => {}
                Turn::Later(at) => later = earliest(later, Some(at)),
                Turn::NoRoom(at) => {
                    has_no_room = true;
                    later = earliest(later, Some(at));
                    // Oldest first.
                    break;
                }
            }
        }
        let now = self.now;
        if let Some(active) = self.tasks.get_mut(id) {
            if let Some(at) = later {
                (active.has_answers, active.answers_at) = (true, at);
            }
            if has_no_room {
                active.remark(now, WAITS.to_owned());
            } else if active.task.notice.as_deref() == Some(WAITS) {
                active.task.notice = None;
                active.touch(now);
            }
        }
        if has_round {
            self.next_round(id);
        }
    }

    fn send_answer(&mut self, id: &TaskId, question: &Question) {
        let (token, version) = (self.saver.next_token(), self.version_of(id));
        let server_task = self
            .tasks
            .get(id)
            .and_then(|it| it.task.server_task_id.clone());
        let (Some(answer), key) = (&question.answer, &question.key) else {
            return;
        };
        match (&question.source, server_task) {
            (
                QuestionSource::Request {
                    id: raw,
                    related_task,
                },
                _,
            ) => {
                let method = encode::elicitation_response(raw, answer, related_task.as_deref());
                let kind = RequestKind::Reply(Some((id.clone(), key.clone())));
                self.note_answered(key);
                self.send(kind, method, None, Some(token));
            }
            (QuestionSource::TaskInput, Some(server_task)) => {
                // One at a time: a refusal then says which.
                let request_id = self.in_flight.new_request_id();
                let method = encode::update_task(version, &request_id, &server_task, key, answer);
                let kind = RequestKind::Update(id.clone(), key.clone());
                self.send(kind, method, Some(request_id), Some(token));
            }
            _ => return,
        }
        self.saver.urge(self.now.mono);
    }

    /// The call goes out again with the answers of its round, once there is one for each question.
    fn next_round(&mut self, id: &TaskId) {
        let request_id = self.in_flight.new_request_id();
        let (now, session_number) = (self.now, self.record.session_number);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let of_round = |question: &&Question| {
            question.source == QuestionSource::Round && !question.is_delivered
        };
        if active
            .task
            .questions
            .iter()
            .filter(of_round)
            .any(Question::is_open)
        {
            return;
        }
        let is_modern = active.is_modern();
        let state = active
            .attempt()
            .and_then(|attempt| attempt.request_state.clone());
        let answers: Vec<(&str, &Answer)> = active
            .task
            .questions
            .iter()
            .filter(of_round)
            .filter_map(|question| Some((question.key.as_str(), question.answer.as_ref()?)))
            .collect();
        let is_refused = |(_, answer): &(&str, &Answer)| !matches!(answer, Answer::Accept { .. });
        if !is_modern && answers.iter().any(is_refused) {
            active.remark(
                now,
                "not called again, because you did not agree".to_owned(),
            );
            return self.conclude(id, Status::Cancelled, None);
        }
        let input = if is_modern {
            encode::retry_input(&answers, state.as_deref())
        } else {
            "{}".to_owned()
        };
        for question in &mut active.task.questions {
            question.is_delivered |= question.source == QuestionSource::Round;
        }
        let number = active.attempt().map_or(1, |attempt| attempt.number + 1);
        for earlier in &mut active.task.attempts {
            // Nothing sends it again; that there was a round is all that is still asked of it.
            earlier.request_state = None;
            earlier.input = earlier.input.take().map(|_| "{}".to_owned());
        }
        let mut attempt = new_attempt(now.wall, number, request_id, session_number);
        attempt.input = Some(input);
        active.task.start_attempt(attempt);
        refresh(active);
        active.touch(now);
        self.saver.urge(now.mono);
        self.needs_advance = true;
    }

    /// The server has the answer to a question.
    pub(super) fn question_delivered(&mut self, id: &TaskId, key: &str) {
        let now = self.now;
        let is_it = |question: &&Question| question.has_key(key);
        let active = self.tasks.get(id);
        let known = active.and_then(|active| active.task.questions.iter().find(is_it));
        let Some(known) = known.cloned() else {
            return;
        };
        self.reply_arrived(id, &known);
        for id in known.shared_with.iter().chain([id]) {
            if let Some(active) = self.tasks.get_mut(id)
                && let Some(question) = active
                    .task
                    .questions
                    .iter_mut()
                    .find(|question| question.has_key(key))
            {
                question.is_delivered = true;
                active.touch(now);
                self.saver.touch(now.mono);
            }
        }
    }

    /// A task has its answer; a look at it shows what it makes of it.
    pub(super) fn answer_heard(&mut self, id: &TaskId, key: &str) {
        self.question_delivered(id, key);
        self.look_soon(id);
    }

    /// An answer to a task may not have arrived: if it still asks, the next look shows it, and it is sent again.
    pub(super) fn answer_unheard(&mut self, id: &TaskId) {
        self.look_soon(id);
    }

    /// The server did not take an answer: it can be given anew.
    pub(super) fn answer_refused(&mut self, id: &TaskId, key: &str, error: &RpcError) {
        let now = self.now;
        if let Some(active) = self.tasks.get_mut(id) {
            for question in &mut active.task.questions {
                if question.key == key && !question.is_delivered {
                    question.answer = None;
                }
            }
            let said = crate::domain::text::clean_line(&error.message).into_owned();
            active.remark(now, format!("the answer was not taken: {said}"));
            refresh(active);
        }
        self.look_soon(id);
    }

    /// An answer to a request on a stream may not have got through. It goes out again after a wait: a second one to the
    /// same request does no harm, and one that the server began to answer twice has arrived.
    pub(super) fn reply_unheard(
        &mut self,
        id: &TaskId,
        in_flight: &InFlight,
        at_least: Option<Duration>,
    ) {
        let RequestKind::Reply(Some((_, key))) = &in_flight.kind else {
            return;
        };
        if self.reply_failed(in_flight, at_least) {
            self.answers_wait(id);
        } else {
            self.question_delivered(id, key);
        }
    }

    /// The answers of a task are looked at again.
    pub(super) fn answers_wait(&mut self, id: &TaskId) {
        if let Some(active) = self.tasks.get_mut(id) {
            active.answers_wait();
        }
    }
}

/// Whether a question is one that no person is asked.
fn is_too_much(active: &ActiveTask, key: &str, request: &str) -> bool {
    let is_new = |question: &Question| question.key != key;
    request.len() > QUESTION_BYTES
        || active.task.questions.iter().all(is_new)
            && active
                .task
                .questions
                .iter()
                .filter(|question| !question.is_delivered)
                .count()
                >= OPEN
}

/// The key of a question that a request asks, by the server session that it belongs to.
fn key_in(session_number: u64, request_id: &str) -> String {
    format!("{session_number}.{request_id}")
}

/// Accepted as the server itself proposes; `None` where it proposes nothing, or wants a page to be visited.
fn defaults(request: &str) -> Option<Answer> {
    let content = Elicitation::parse(request).defaults().ok()?;
    Some(Answer::Accept {
        content: Some(content),
    })
}

/// The status follows from whether anything waits for a person.
fn refresh(active: &mut ActiveTask) {
    if matches!(active.task.status, Status::Running | Status::InputRequired) {
        active.task.status = if active.task.open_question().is_some() {
            Status::InputRequired
        } else {
            Status::Running
        };
    }
    active.saving.is_shown_stale = true;
    active.saving.is_dirty = true;
}
