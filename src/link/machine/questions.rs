//! Questions of the server, one shape for three ways: asked once, answered once, over restarts too.

use crate::{
    domain::{
        Answer, Elicitation, HistoryEvent, OnInput, Phase, Question, QuestionKind, QuestionSource,
        Stamp, TaskErrorKind, TaskId,
    },
    link::{ActiveTask, Link, replies::key_in},
    protocol::{InputRequest, RpcError, encode},
};

/// Questions of one task that wait for a person, or with their answer for the server; more are declined, and each is on
/// the screen and in the task's record.
const OPEN: usize = 32;
/// Questions of one task that are remembered, so that a replay does not ask them again.
const REMEMBERED: usize = 256;
/// Bytes of one question; a form of hundreds of choices is a third of it.
const QUESTION_BYTES: usize = 64 * 1024;
/// Maximum size of one sampling request in bytes, including its prompt.
const SAMPLING_BYTES: usize = 512 * 1024;
/// Requests for a host of one task that wait for their answers, and their bytes; more are refused.
const OPEN_FOR_HOST: usize = 16;
const BYTES_FOR_HOST: usize = 4 * SAMPLING_BYTES;
/// What stands for a question that was larger.
const TOO_LARGE: &str =
    r#"{"message":"(question left out: too many questions, or larger than 64 kB)"}"#;
/// Rounds in a row in which a server may ask nothing and be called again.
const EMPTY_ROUNDS: u32 = 10;
/// Rounds of one task in a row: where no person answers they follow each other at once.
const ROUNDS: u32 = 100;
/// Bytes that a server may have us keep for it between two rounds; they are written with every save of the task.
const STATE_BYTES: usize = 256 * 1024;
/// Earlier names of a question that are remembered.
const NAMES: usize = 8;

impl Link {
    /// The tasks that have a question. Once it is answered and forgotten, the next call may use its id again.
    fn asked_by(&self, key: &str, way: &QuestionSource, was_answered: bool) -> Vec<TaskId> {
        self.tasks_where(|active| {
            let counts = |it: &Question| it.is_open() || was_answered || !active.is_settled();
            let mut questions = active.task.questions.iter();
            questions.any(|it| it.key == key && it.source == *way && counts(it))
        })
    }

    /// A request on a stream of the stateful era asks something (MCP 2025-11-25, client).
    pub(super) fn stream_asks(
        &mut self,
        task: Option<&TaskId>,
        kind: QuestionKind,
        raw_id: &str,
        params: &str,
    ) {
        let value: serde_json::Value = serde_json::from_str(params).unwrap_or_default();
        let related = value
            .pointer("/_meta/io.modelcontextprotocol~1related-task/taskId")
            .and_then(|id| id.as_str());
        let of_related = related.and_then(|id| self.index.by_server_task.get(id));
        let way = QuestionSource::Request {
            id: raw_id.to_owned(),
            related_task: related.map(str::to_owned),
        };
        // Ids of the server's requests are unique within one of its sessions only.
        let key = key_in(self.reading.session_number, raw_id.trim_matches('"'));
        let was_answered = self.was_answered(&key);
        let had = self.asked_by(&key, &way, was_answered);
        if had.is_empty() && was_answered {
            return;
        }
        // On the only stream of a server, the task is a guess.
        let certain = of_related.or(task.filter(|_| self.legacy_sse.is_none()));
        let is_certain = certain.is_some();
        let forward = self.forward_asking(certain, kind);
        if let (Some((ask, None)), true) = (&forward, had.is_empty()) {
            return self.pass_request(*ask, kind, (raw_id, params));
        }
        let only_for = forward.and_then(|(_, only_for)| only_for);
        // Which call of a process asks for roots cannot be told, and all hosts share the process.
        let is_of_all = kind == QuestionKind::Roots && self.record.is_process();
        let task = task.filter(|_| !is_of_all);
        let mut whose = match of_related.or(task) {
            // Some servers also replay the requests of other streams; the first task to get a request keeps it.
            Some(id) if !had.is_empty() && !had.contains(id) => return,
            Some(id) if only_for.is_none() => vec![id.clone()],
            _ if !had.is_empty() => had,
            _ => self.calls_asked(kind),
        };
        whose.retain(|id| self.can_ask(id, kind));
        // The roots of one host are not for the call of another one.
        if whose.is_empty() && kind == QuestionKind::Roots && !is_certain {
            if self.pass_roots_request(raw_id) {
                return;
            }
            // A host of the modern era can be asked only during its own call.
            whose = self.calls_of_one_host(kind);
        }
        if whose.is_empty() && (only_for.is_some() || !kind.is_elicitation()) {
            return self.reply(encode::unsupported_response(raw_id, kind.method()));
        }
        let too_much = |id| excess(self.tasks.get(id)?, &key, kind, params);
        let why = whose.iter().find_map(too_much);
        if whose.is_empty() || why.is_some() {
            for id in &whose {
                if let Some(active) = self.tasks.get_mut(id) {
                    active.left_out(self.now);
                }
            }
            // An elicitation that belongs to no task that could show it is declined without a reason.
            let refusal = refusal(kind, why.unwrap_or_default(), &Answer::Decline);
            return self.reply(encode::question_response(raw_id, &refusal, related));
        }
        for id in &whose {
            let shared_with = whose.iter().filter(|it| *it != id).cloned().collect();
            let asked = (key.clone(), kind, params.to_owned());
            self.put_question(id, asked, way.clone(), shared_with);
            let asked = self.tasks.get_mut(id);
            let asked = asked.and_then(|it| it.task.questions.iter_mut().find(|it| it.key == key));
            if let Some(question) = asked {
                question.only_for.clone_from(&only_for);
            }
        }
    }

    /// Whether somebody can answer a question of this kind about a task.
    pub(super) fn can_ask(&self, id: &TaskId, kind: QuestionKind) -> bool {
        let caller = self.tasks.get(id).and_then(|it| it.task.caller.as_ref());
        kind.is_elicitation() || caller.is_some_and(|it| it.capabilities.can_answer(kind))
    }

    /// The kind of a request, if somebody can answer it.
    fn answerable(&self, id: &TaskId, method: &str) -> Option<QuestionKind> {
        QuestionKind::of_method(method).filter(|kind| self.can_ask(id, *kind))
    }

    /// A server task of the extension asks.
    pub(super) fn task_asks(&mut self, id: &TaskId, ask: InputRequest) {
        if let Some(kind) = self.answerable(id, &ask.method) {
            let asked = (ask.key, kind, ask.params);
            self.put_question(id, asked, QuestionSource::TaskInput, Vec::new());
        } else if let Some(active) = self.tasks.get_mut(id) {
            let words = format!("it asks for {}, which longhaul can't answer", ask.method);
            if active.task.notice.as_ref() != Some(&words) {
                active.notice(self.now, words);
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
        let mut methods = asks.iter().map(|ask| &ask.method);
        if let Some(foreign) = methods.find(|method| self.answerable(id, method).is_none()) {
            let words = format!("the server asks for {foreign}, which longhaul can't answer");
            return self.fail(id, TaskErrorKind::Protocol, None, words);
        }
        if state.as_ref().is_some_and(|it| it.len() > STATE_BYTES) {
            let words = "the server asked longhaul to keep more than 256 kB for it between calls";
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
                let words = "the server keeps asking to be called again, but asks no question";
                return self.fail(id, TaskErrorKind::Protocol, None, words.to_owned());
            }
            return self.next_round(id);
        }
        for ask in asks {
            let Some(kind) = self.answerable(id, &ask.method) else {
                continue;
            };
            if let Some(active) = self.tasks.get_mut(id) {
                // A new round: what it asks again was not answered to its liking.
                active.task.questions.retain(|question| {
                    question.key != ask.key || question.source != QuestionSource::Round
                });
            }
            let asked = (ask.key, kind, ask.params);
            self.put_question(id, asked, QuestionSource::Round, Vec::new());
        }
    }

    /// Code -32042 of 2025-11-25: URLs have to be visited before the call is made again.
    pub(super) fn call_wants_visits(&mut self, id: &TaskId, error: &RpcError) -> bool {
        let list = error.list("elicitations");
        if list.is_empty() {
            return false;
        }
        self.end_attempt_for_round(id, None);
        for (place, params) in list.iter().enumerate() {
            let named = params.get("elicitationId").and_then(|id| id.as_str());
            let key = named.map_or_else(|| place.to_string(), str::to_owned);
            if let Some(active) = self.tasks.get_mut(id) {
                active.task.questions.retain(|question| question.key != key);
            }
            let asked = (key, QuestionKind::Elicitation, params.to_string());
            self.put_question(id, asked, QuestionSource::Round, Vec::new());
        }
        true
    }

    fn end_attempt_for_round(&mut self, id: &TaskId, state: Option<String>) {
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let connections = active.take_connections();
        if let Some(attempt) = active.attempt_mut() {
            attempt.phase = Phase::Ended;
            attempt.ended_at = Some(self.now.wall);
            attempt.request_state = state;
        }
        active.touch(self.now);
        self.close_all(connections);
        self.save_vital();
    }

    /// Puts a question to who can answer it: its key, its kind and the parameters of the request.
    fn put_question(
        &mut self,
        id: &TaskId,
        (key, kind, mut request): (String, QuestionKind, String),
        way: QuestionSource,
        shared_with: Vec<TaskId>,
    ) {
        let (now, token) = (self.now, self.saver.next_token);
        // What one call may answer by itself is still asked where another call's person wants to be asked.
        let policy_of = |id| self.tasks.get(id).map(|it| it.task.options.on_input);
        let policy = policy_of(id).unwrap_or_default();
        let is_agreed = shared_with.iter().all(|id| policy_of(id) == Some(policy));
        let policy = if is_agreed { policy } else { OnInput::Ask };
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let (is_known, is_renamed) = recognize(active, now, &key, &way, &request);
        if is_renamed {
            self.saver.urge(now.mono);
        }
        if let Some(served) = &mut active.served
            && served.asked_here.len() < REMEMBERED
        {
            served.asked_here.push(key.clone());
        }
        if is_known {
            return;
        }
        let excess = excess(active, &key, kind, &request);
        if excess.is_some() {
            TOO_LARGE.clone_into(&mut request);
            active.left_out(now);
            let questions = &active.task.questions;
            if questions.len() >= REMEMBERED && !questions.iter().any(|it| it.is_delivered) {
                // Declining all of them would cost more than they are worth.
                return;
            }
        }
        let answer = match policy {
            _ if let Some(why) = excess => Some(refusal(kind, why, &Answer::Decline)),
            _ if !kind.is_elicitation() => None,
            OnInput::Ask => None,
            OnInput::Defaults => defaults(&request),
            OnInput::Decline => Some(Answer::Decline),
        };
        active.note(now, None, asked_entry(active, &key, kind, &request));
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
            kind,
            source: way,
            request,
            asked_at: now.wall,
            is_unsent: answer.is_some(),
            answer,
            is_delivered: false,
            shared_with,
            only_for: None,
        });
        active.refresh_status();
        active.saving.held = Some(token);
        self.save_vital();
    }

    /// The server continues without the answers that it asked for: another client gave them, or it no longer needs them.
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
            // It continues, so an answer on its way has arrived.
            question.is_delivered = true;
        }
        if was_open {
            active.notice(now, "no answer needed anymore".to_owned());
        }
        active.refresh_status();
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
                active.notice(now, "the server withdrew its question".to_owned());
                active.refresh_status();
            }
        }
    }
}

/// The entry of the history for a question.
fn asked_entry(active: &ActiveTask, key: &str, kind: QuestionKind, request: &str) -> HistoryEvent {
    if kind.is_elicitation() {
        return HistoryEvent::InputRequired {
            key: key.to_owned(),
            request: request.to_owned(),
        };
    }
    let host = active.task.caller.as_ref().map_or("", |it| &it.host);
    HistoryEvent::Status {
        status: active.task.status.label().to_owned(),
        reason: Some(format!("the server asks {host} for {}", kind.method())),
    }
}

/// The answer to a question that is refused. A person's own answer stays as it is.
pub(super) fn refusal(kind: QuestionKind, why: &str, by_person: &Answer) -> Answer {
    if kind.is_elicitation() {
        return by_person.clone();
    }
    // The code for a refusal of sampling (MCP 2025-11-25, client/sampling, error handling).
    let error = serde_json::json!({"code": -1, "message": why});
    Answer::Error {
        json: error.to_string(),
    }
}

/// Why a question can't be asked, if it is too large or too many are open.
fn excess(
    active: &ActiveTask,
    key: &str,
    kind: QuestionKind,
    request: &str,
) -> Option<&'static str> {
    let limit = match kind {
        QuestionKind::Elicitation | QuestionKind::Roots => QUESTION_BYTES,
        QuestionKind::Sampling => SAMPLING_BYTES,
    };
    if request.len() > limit {
        return Some("the request is too large");
    }
    let questions = &active.task.questions;
    let open = || questions.iter().filter(|question| !question.is_delivered);
    let for_host = || open().filter(|question| !question.kind.is_elicitation());
    let bytes = || for_host().map(|it| it.request.len()).sum::<usize>() + request.len();
    let is_full = open().count() >= OPEN
        || !kind.is_elicitation()
            && (for_host().count() >= OPEN_FOR_HOST || bytes() > BYTES_FOR_HOST);
    let is_new = || questions.iter().all(|question| question.key != key);
    (is_full && is_new()).then_some("too many requests at once")
}

/// Accepted as the server itself proposes; `None` where it proposes nothing, or wants a page to be visited.
fn defaults(request: &str) -> Option<Answer> {
    let content = Elicitation::parse(request).defaults().ok()?;
    Some(Answer::Accept {
        content: Some(content),
    })
}

/// Finds a question that was asked before, and gives it its new name. Returns whether there is one, and whether its name
/// has changed.
fn recognize(
    active: &mut ActiveTask,
    now: Stamp,
    key: &str,
    way: &QuestionSource,
    request: &str,
) -> (bool, bool) {
    // On a new stream of a task's result, what is still open is asked again under another name. Two equal questions on one
    // stream are two, and one whose answer the server may have is not answered again unasked.
    let here = active.served.as_ref().map(|served| &served.asked_here);
    let is_it = |question: &&mut Question| {
        let is_from_before = here.is_some_and(|here| !here.contains(&question.key));
        question.has_key(key)
            || (question.is_open() || question.is_unsent)
                && is_from_before
                && question.is_same_request(way, request)
    };
    let Some(known) = active.task.questions.iter_mut().find(is_it) else {
        return (false, false);
    };
    // Asked again: by a replay, or because the answer did not arrive.
    let is_undelivered = known.answer.is_some() && !known.is_delivered;
    let is_renamed = !known.has_key(key);
    if is_renamed {
        let before = std::mem::replace(&mut known.key, key.to_owned());
        known.earlier.push(before);
        if known.earlier.len() > NAMES {
            known.earlier.remove(0);
        }
        known.source = way.clone();
        active.touch(now);
    }
    if is_undelivered {
        active.answers_wait();
    }
    (true, is_renamed)
}
