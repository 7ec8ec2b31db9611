//! The answers to the server's questions, on their way from the user to the server.

use core::time::Duration;

use super::questions::refusal;
use crate::{
    domain::{Answer, Mono, Question, QuestionSource, RequestError, Status, TaskErrorKind, TaskId},
    link::{
        ActiveTask, ConnectionState, InFlight, Link, RequestKind,
        active_task::new_attempt,
        replies::{self, AnswersDue, Turn, WAITS, key_in},
        time::earliest,
    },
    protocol::{HttpError, RpcError, encode},
};

/// Bytes of what a host's model may answer.
const RESULT_BYTES: usize = 1024 * 1024;

/// How long a server that refuses the copy of an answer may already have it and still ask: it may be slow to use it.
const MAY_HAVE_IT: Duration = Duration::from_secs(20);

impl Link {
    /// A person or a host answers.
    pub(super) fn answer_question(
        &mut self,
        id: &TaskId,
        key: Option<&str>,
        answer: &Answer,
    ) -> Result<(), RequestError> {
        let now = self.now;
        let active = self.tasks.get_mut(id).ok_or_else(|| {
            RequestError::Usage(format!(
                "{id} has ended or is not in this session; it has no question"
            ))
        })?;
        let is_it = |question: &&mut Question| match key {
            Some(key) => question.is_open() && question.has_key(key),
            None => question.is_open_for_person(),
        };
        let Some(question) = active.task.questions.iter_mut().find(is_it) else {
            return Err(RequestError::Usage(match key {
                Some(_) => format!("{id} has no such question, or it was already answered"),
                None => format!("{id} has no open question"),
            }));
        };
        let answer = match answer {
            Answer::Decline | Answer::Dismiss => &refusal(question.kind, "declined", answer),
            Answer::Result { json } if json.len() > RESULT_BYTES => {
                &refusal(question.kind, "the answer is too large", &Answer::Decline)
            }
            answer => answer,
        };
        let reason = format!("answer saved ({})", answer.outcome());
        let (key, shared_with) = (question.key.clone(), question.shared_with.clone());
        for id in shared_with.iter().chain([id]) {
            let Some(active) = self.tasks.get_mut(id) else {
                continue;
            };
            let is_it = |question: &&mut Question| question.is_open() && question.key == key;
            let Some(question) = active.task.questions.iter_mut().find(is_it) else {
                continue;
            };
            (question.answer, question.is_unsent) = (Some(answer.clone()), true);
            active.answers_wait();
            active.refresh_status();
            active.note_status(now, active.task.status.label(), Some(reason.clone()));
        }
        self.save_vital();
        Ok(())
    }

    /// Sends the answers that wait; what a person chose is on disk before it goes out.
    pub(super) fn step_answers(&mut self, id: &TaskId) {
        if self.connection != ConnectionState::Ready || !self.reachability.may_send(self.now) {
            if let Some(active) = self.tasks.get_mut(id) {
                active.answers.restart_wait();
            }
            return;
        }
        let (now, is_leaving) = (self.now.mono, self.exit.is_leaving);
        let is_due = |active: &&mut ActiveTask| active.answers.is_due(now, is_leaving);
        let Some(active) = self.tasks.get_mut(id).filter(is_due) else {
            return;
        };
        let policy = active.task.options.on_input;
        let questions = active.task.questions.iter();
        let waiting = questions.filter(|it| it.answer.is_some() && !it.is_delivered);
        let waiting: Vec<Question> = waiting.cloned().collect();
        let is_first_wait = matches!(active.answers, AnswersDue::At(_));
        let may_wait = !is_leaving && (is_first_wait || active.task_asks_later(&waiting));
        let stream_open_by = active
            .stream_for_answers(now, &waiting)
            .filter(|_| may_wait);
        active.answers = stream_open_by.map_or(AnswersDue::Never, AnswersDue::WithStream);
        if stream_open_by.is_some() {
            return;
        }
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
                // Its session is gone, so nothing waits for the answer.
                QuestionSource::Request { .. } if !question.key.starts_with(&here) => {
                    if question.is_unsent && question.is_of_task_stream() {
                        // The task may ask it again in this session.
                        continue;
                    }
                    self.answer_useless(id, &question.key, "the MCP session has ended");
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
                active.answers = AnswersDue::At(at);
            }
            if has_no_room {
                active.notice(now, WAITS.to_owned());
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
        let (token, version) = (self.saver.next_token, self.version_of(id));
        let active = self.tasks.get(id);
        let server_task = active.and_then(|active| active.task.server_task_id.clone());
        let (Some(answer), key) = (&question.answer, &question.key) else {
            return;
        };
        self.answer_leaves(id, question);
        match (&question.source, server_task) {
            (
                QuestionSource::Request {
                    id: raw,
                    related_task,
                },
                _,
            ) => {
                let method = encode::question_response(raw, answer, related_task.as_deref());
                let kind = RequestKind::Reply(Some((id.clone(), key.clone())));
                self.note_answered(key);
                self.send(kind, method, None, Some(token));
            }
            (QuestionSource::TaskInput, _) if matches!(answer, Answer::Error { .. }) => {
                // An update of a task has no errors either, and the task can't continue.
                self.question_delivered(id, key);
                let _ = self.ask_cancel(id);
                return;
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

    /// From the save on that the answer waits for, the server may have it.
    fn answer_leaves(&mut self, id: &TaskId, question: &Question) {
        for id in question.shared_with.iter().chain([id]) {
            let Some(active) = self.tasks.get_mut(id) else {
                continue;
            };
            let mut questions = active.task.questions.iter_mut();
            if let Some(question) = questions.find(|it| it.key == question.key && it.is_unsent) {
                question.is_unsent = false;
                active.touch(self.now);
            }
        }
    }

    /// The call goes out again with the answers of its round, once there is one for each question.
    pub(super) fn next_round(&mut self, id: &TaskId) {
        let request_id = self.in_flight.new_request_id();
        let (now, session_number) = (self.now, self.record.session_number);
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let of_round = |question: &&Question| {
            question.source == QuestionSource::Round && !question.is_delivered
        };
        let round: Vec<&Question> = active.task.questions.iter().filter(of_round).collect();
        if round.iter().any(|question| question.is_open()) {
            return;
        }
        let is_modern = active.is_modern();
        let attempt = active.attempt();
        let state = attempt.and_then(|attempt| attempt.request_state.clone());
        let answers = round.into_iter();
        let answers = answers.filter_map(|it| Some((it.key.as_str(), it.answer.as_ref()?)));
        let answers: Vec<(&str, &Answer)> = answers.collect();
        let is_refused = |(_, answer): &(&str, &Answer)| !matches!(answer, Answer::Accept { .. });
        let is_error = |(_, answer): &(&str, &Answer)| matches!(answer, Answer::Error { .. });
        if answers.iter().any(is_error) {
            // A round has no errors: the server is not waiting (MCP 2026-07-28, client/sampling, error handling).
            let words = "the host refused the server's request";
            return self.fail(id, TaskErrorKind::Refused, None, words.to_owned());
        }
        if !is_modern && answers.iter().any(is_refused) {
            let message = "not called again, because you did not agree".to_owned();
            active.notice(now, message);
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
        active.refresh_status();
        active.touch(now);
        self.save_vital();
    }

    /// The tasks here that have a question. The one that sent its answer may have ended since.
    fn askers(&self, id: &TaskId, key: &str) -> Vec<TaskId> {
        self.tasks_where(|active| {
            let mut questions = active.task.questions.iter().filter(|it| it.has_key(key));
            questions.any(|it| active.task.id == *id || it.shared_with.contains(id))
        })
    }

    /// The server has the answer to a question.
    pub(super) fn question_delivered(&mut self, id: &TaskId, key: &str) {
        let now = self.now;
        for asker in self.askers(id, key) {
            if let Some(active) = self.tasks.get_mut(&asker)
                && let mut questions = active.task.questions.iter_mut()
                && let Some(question) = questions.find(|question| question.has_key(key))
            {
                let name = replies::name(id, &question.key, &question.source);
                self.replies.arrived(&name);
                question.is_delivered = true;
                if let (false, Some(answer)) =
                    (question.kind.is_elicitation(), &mut question.answer)
                {
                    // They can be large, and nobody reads them again.
                    *answer = Answer::Result {
                        json: "{}".to_owned(),
                    };
                    "{}".clone_into(&mut question.request);
                }
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
    pub(super) fn answer_unheard(&mut self, id: &TaskId, key: &str) {
        let now = self.now.mono;
        if let Some(served) = self.served_mut(id) {
            served.unheard = Some((key.to_owned(), now));
        }
        self.look_soon(id);
    }

    /// The server did not take an answer. The user can give another one, unless this was the second copy of an answer that
    /// the server may have: then the next polls show whether it still asks.
    pub(super) fn answer_refused(&mut self, id: &TaskId, key: &str, error: &RpcError) {
        let now = self.now;
        if let Some(active) = self.tasks.get_mut(id) {
            let unheard = active.served.as_ref().and_then(|it| it.unheard.as_ref());
            let is_recent = |since: Mono| now.mono.since(since) < MAY_HAVE_IT;
            if unheard.is_some_and(|(of, since)| of == key && is_recent(*since)) {
                return;
            }
            for question in &mut active.task.questions {
                if question.key == key && !question.is_delivered {
                    question.answer = None;
                }
            }
            let said = crate::domain::text::clean_line(&error.message).into_owned();
            active.notice(now, format!("the answer was rejected: {said}"));
            active.refresh_status();
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
            self.answers_wait(id, key);
        } else {
            self.question_delivered(id, key);
        }
    }

    /// The answer to a request on a stream was refused, or got no response.
    pub(super) fn reply_came_to_nothing(
        &mut self,
        id: &TaskId,
        key: &str,
        in_flight: &InFlight,
        why: &str,
        refusal: Option<&HttpError>,
    ) {
        match refusal {
            // After a 500, the server may have a fault, or no use for the answer.
            Some(refusal)
                if refusal.is_undelivered()
                    || refusal.status == 500 && !self.replies.was_tried(key) =>
            {
                self.reply_unheard(id, in_flight, refusal.retry_after);
            }
            Some(refusal) if refusal.status == 500 => self.answer_useless(id, key, why),
            Some(_) => self.reply_refused(id, key, why),
            None => self.reply_unheard(id, in_flight, None),
        }
    }

    /// A server that refuses an answer no longer waits for it: it has an earlier copy, or has given up the question.
    fn reply_refused(&mut self, id: &TaskId, key: &str, why: &str) {
        if self.replies.was_tried(key) {
            self.question_delivered(id, key);
        } else {
            self.answer_useless(id, key, why);
        }
    }

    /// Nothing waits for an answer that the server has not got.
    fn answer_useless(&mut self, id: &TaskId, key: &str, why: &str) {
        self.question_delivered(id, key);
        for asker in self.askers(id, key) {
            if let Some(active) = self.tasks.get_mut(&asker) {
                let message = format!("the answer did not reach the server: {why}");
                active.notice(self.now, message);
            }
        }
    }

    /// The answer to a question is looked at again.
    pub(super) fn answers_wait(&mut self, id: &TaskId, key: &str) {
        for asker in self.askers(id, key) {
            if let Some(active) = self.tasks.get_mut(&asker) {
                active.answers_wait();
            }
        }
    }
}
