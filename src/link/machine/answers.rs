//! Handles the messages of a server: steps, log lines, responses, its own requests, and the end of a task.

use serde_json::Value;

use crate::{
    domain::{
        ControlKind, HistoryEvent, LogLevel, Progress, QuestionKind, Status, TaskError,
        TaskErrorKind, TaskId, TaskKind, UnknownReason, text,
    },
    link::{
        HandshakeError, InFlight, Link, RequestKind,
        in_flight::NoResponse,
        replies::{AT_ONCE, UNREAD},
    },
    protocol::{self, CallOutcome, HttpError, Incoming, RpcError, RpcOutcome, encode},
};

/// How much of a result's first line the row shows, in bytes.
const LINE_BYTES: usize = 400;
/// The most bytes that are kept of the additional data of an error.
const ERROR_DATA_BYTES: usize = 64 * 1024;
/// The code of 2025-11-25 for "visit these URLs first".
const VISIT_FIRST: i64 = -32042;

/// To which stream an event belongs. Of several messages, the last of these says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Belongs {
    /// It names another call.
    Elsewhere,
    /// It names no call, like a log line: most likely it belongs to the call named last.
    Unnamed,
    /// It names the call of this stream.
    Here,
}

impl Link {
    /// Reads one event: on the stream of `task`, with its id if it has one. Returns to which stream it belongs.
    ///
    /// Some servers replay the events of other calls too, and the questions of the standalone stream. They are taken, but a
    /// cursor of this stream that stood on one of them could be past steps of its own that never came.
    pub(super) fn read(
        &mut self,
        task: Option<&TaskId>,
        event_id: Option<&str>,
        data: &str,
    ) -> Belongs {
        let messages = protocol::decode(data);
        let mut belongs = None;
        let is_alone = messages.len() == 1;
        for message in messages {
            let is_named = |name: &str| {
                let active = task.and_then(|id| self.tasks.get(id));
                let mut attempts = active.iter().flat_map(|it| &it.task.attempts);
                attempts.any(|attempt| attempt.request_id == name || attempt.token == name)
            };
            let of = match message.names_request() {
                Some(name) if is_named(name) => Belongs::Here,
                Some(_) => Belongs::Elsewhere,
                None if matches!(message, Incoming::Request { .. })
                    && event_id.is_some_and(|id| self.standalone.recent.knows(id)) =>
                {
                    Belongs::Elsewhere
                }
                None => Belongs::Unnamed,
            };
            belongs = belongs.max(Some(of));
            let is_suspect = is_alone
                && matches!(&message, Incoming::Progress { token, value, .. }
                    if self.opens_replay_gap(task, self.call_of(task, token).as_ref(), *value));
            if is_suspect {
                return Belongs::Elsewhere;
            }
            if is_alone
                && of != Belongs::Here
                && let Some(recipient) = self.recipient_of(task, &message)
            {
                self.pass_notification(recipient, data);
            }
            self.take_message(task, event_id, message);
        }
        belongs.unwrap_or(Belongs::Unnamed)
    }

    /// Takes one message that came on the stream of `task`, or beside all streams.
    fn take_message(
        &mut self,
        task: Option<&TaskId>,
        event_id: Option<&str>,
        message: Incoming<'_>,
    ) {
        let is_modern = self.reading.is_modern;
        match message {
            Incoming::Progress {
                token,
                value,
                total,
                message,
            } => {
                let of = self.call_of(task, &token);
                let Some(id) = of.filter(|id| self.takes_steps_from(id, task)) else {
                    return;
                };
                let is_own = task == Some(&id) || self.record.is_process();
                self.note_stream_of_steps(&id, task);
                match (Progress::reported(value, total, None), message) {
                    (Some(mut progress), message) => {
                        progress.message = message.map(Into::into);
                        self.on_progress(&id, &token, progress, event_id, is_own);
                    }
                    // A server that does not know how far it is may send -1.
                    (None, Some(message)) => {
                        let line = HistoryEvent::Log {
                            level: LogLevel::Info,
                            logger: None,
                            data: message.into_owned(),
                        };
                        self.logged(Some(&id), event_id, line);
                    }
                    (None, None) => self.unreadable(&id),
                }
            }
            Incoming::Log {
                level,
                logger,
                data,
            } => {
                let line = HistoryEvent::Log {
                    level,
                    logger: logger.map(std::borrow::Cow::into_owned),
                    data: data.into_owned(),
                };
                self.logged(task, event_id, line);
            }
            Incoming::Response { id, outcome } => match outcome {
                Ok(result) => self.responded(id.as_ref(), Ok(result.get())),
                Err(error) => self.responded(id.as_ref(), Err(error)),
            },
            // The modern era has no requests of the server, and nothing to answer them with.
            Incoming::Request { .. } if is_modern => {}
            Incoming::Request { id, method, params } => match QuestionKind::of_method(&method) {
                Some(kind) => self.stream_asks(task, kind, id.get(), params),
                None if method == "ping" => self.reply(encode::empty_response(id)),
                None => self.reply(encode::unsupported_response(id.get(), &method)),
            },
            Incoming::ToolsChanged => self.forget_tools(),
            Incoming::TaskStatus(json) => self.told_of_task(json),
            Incoming::Acknowledged(json) => self.listening_to(json),
            Incoming::Cancelled(id) if is_modern => self.listening_withdrawn(id.get()),
            Incoming::Cancelled(id) => self.question_withdrawn(id.get()),
            Incoming::OtherChanged | Incoming::Other => {}
            Incoming::BadResponse(id) => self.responded_badly(&id),
            Incoming::Unreadable => {
                if let Some(id) = task {
                    self.unreadable(id);
                }
            }
        }
    }

    /// A response that says nothing. Another one may follow on the stream of its call, while there is one.
    fn responded_badly(&mut self, request_id: &str) {
        let of = self.call(request_id).cloned();
        let Some(id) = of.filter(|id| self.tasks.get(id).is_some_and(|it| it.served.is_none()))
        else {
            return;
        };
        self.unreadable(&id);
        let on = self.tasks.get(&id).and_then(|it| it.stream.exchange());
        if self.legacy_sse.is_some() {
            let reason = UnknownReason::BadResponse { is_json: true };
            self.out_of_stream(&id, Status::Unknown(reason));
        } else if let Some(in_flight) = on.and_then(|on| self.in_flight.get_mut(on)) {
            in_flight.came = Some(NoResponse::OtherJson);
        }
    }

    /// A message about a task that says nothing usable.
    fn unreadable(&mut self, id: &TaskId) {
        if let Some(active) = self.tasks.get_mut(id) {
            active.left_out(self.now);
            self.saver.touch(self.now.mono);
        }
    }

    /// A log line of the server.
    fn logged(&mut self, task: Option<&TaskId>, event_id: Option<&str>, line: HistoryEvent) {
        let of = task
            .cloned()
            .or_else(|| self.task_of_standalone_log(event_id))
            .or_else(|| self.task_of_shared_log());
        if let Some(active) = of.and_then(|id| self.tasks.get_mut(&id)) {
            if let Some(event_id) = event_id.filter(|_| task.is_none()) {
                active.ids.add(event_id);
            }
            active.note(self.now, event_id, line);
            self.saver.touch(self.now.mono);
        }
    }

    /// Answers a request of the server that needs no person.
    ///
    /// Answers count against the budget too: a server may not make us storm it. On a pipe they cost nothing.
    pub(super) fn reply(&mut self, answer: protocol::Method) {
        // A request of an ended session is no longer waiting, and in the current one its id may belong to another request.
        let is_awaited = self.reading.session_number == self.record.session_number;
        let has_room = if self.record.is_process() {
            self.replies_out() < UNREAD
        } else {
            self.replies_out() < AT_ONCE && self.reachability.spend_spare(self.now)
        };
        if is_awaited && has_room {
            self.send_now(RequestKind::Reply(None), answer);
            self.schedule.needs_advance = true;
        }
    }

    /// A step of a task, on whatever stream it came.
    pub(super) fn on_progress(
        &mut self,
        id: &TaskId,
        token: &str,
        progress: Progress,
        event_id: Option<&str>,
        is_own: bool,
    ) {
        let is_process = self.record.is_process();
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        if is_process {
            // All calls share the pipe, but a progress notification names its call.
            active.heard(self.now);
            active.activity.last_news = self.now.mono;
        }
        if active.on_progress(self.now, token, progress, event_id, is_own) {
            self.saver.touch(self.now.mono);
        }
    }

    /// The answer to one of our requests, on whatever stream it came.
    pub(super) fn responded(&mut self, request_id: &str, outcome: RpcOutcome<'_>) {
        let needed_advance = std::mem::replace(&mut self.schedule.needs_advance, true);
        if let Some(id) = self.call(request_id).cloned() {
            self.note_served();
            return self.call_answered(&id, outcome);
        }
        let Some((exchange, in_flight)) = self.in_flight.of_request(request_id) else {
            return;
        };
        let before = self
            .before_look(&in_flight.kind)
            .filter(|_| !needed_advance);
        self.close(exchange);
        self.in_flight_answered(in_flight, outcome);
        if let Some(before) = before {
            self.found_nothing_new(before);
        }
    }

    /// The response to one of our requests was too large to read; its stream continues.
    pub(super) fn response_too_large(&mut self, request_id: &str, cap: usize) {
        self.schedule.needs_advance = true;
        if let Some(id) = self.call(request_id).cloned() {
            self.call_too_large(&id, cap);
        } else if let Some((exchange, in_flight)) = self.in_flight.of_request(request_id) {
            self.close(exchange);
            self.too_large(&in_flight, cap);
        }
    }

    /// A short request was answered, by a result or an error.
    pub(super) fn in_flight_answered(&mut self, in_flight: InFlight, outcome: RpcOutcome<'_>) {
        self.schedule.needs_advance = true;
        self.session.answers = self.session.answers.wrapping_add(1);
        if !matches!(
            in_flight.kind,
            RequestKind::Handshake { .. } | RequestKind::FindServer | RequestKind::Discover
        ) {
            self.note_served();
            self.session_lives(in_flight.session());
        }
        match (in_flight.kind, outcome) {
            (RequestKind::Discover, Ok(result)) => self.discovered(result),
            (RequestKind::Discover, Err(error)) => self.discover_refused(&error.into()),
            (RequestKind::Handshake { session }, Ok(result)) => self.shook_hands(session, result),
            (RequestKind::FindServer, _) => self.server_found(),
            (RequestKind::Handshake { .. }, Err(error)) => {
                let why = format!("{} ({})", text::clean_line(&error.message), error.code);
                let refusal = HttpError::from(error);
                if !self.tries_other_era(&refusal) {
                    self.handshake_failed(&HandshakeError::of_request(why, Some(&refusal)));
                }
            }
            (RequestKind::ListTools { version, pages }, Ok(result)) => {
                self.tools_listed(version, pages, result);
            }
            (RequestKind::ListTools { .. }, Err(error)) => self.tools_refused(&error.message),
            // Any answer to a ping is a sign of life, an error too.
            (RequestKind::Ping { verifies: Some(id) }, _) => self.verified(&id),
            (RequestKind::Look(id), Ok(result)) => self.on_checkpoint_list(&id, result),
            (RequestKind::Look(id), Err(_)) => self.look_failed(&id, None),
            (RequestKind::Pause(id), Ok(result)) => self.pause_answered(&id, result),
            (RequestKind::Pause(id), Err(error)) => self.control_refused(&id, &error.message),
            (RequestKind::Poll(id), outcome) => self.polled(&id, outcome),
            (RequestKind::Fetch(id), outcome) => self.fetched(&id, outcome),
            (RequestKind::Update(id, key), Ok(_)) => self.answer_heard(&id, &key),
            (RequestKind::Update(id, key), Err(error)) => self.answer_refused(&id, &key, &error),
            (RequestKind::Cancel(id), outcome) => {
                self.task_cancel_answered(&id, outcome.as_ref().map(|result| *result));
            }
            (RequestKind::Listen, outcome) => self.listening_ended(outcome.is_err()),
            (RequestKind::ListTasks { ask, pages }, outcome) => {
                self.tasks_listed(ask, pages, outcome);
            }
            (RequestKind::Forward { ask, .. }, outcome) => self.forward_answered(ask, outcome),
            (RequestKind::ListCheckpoints { ask }, outcome) => {
                self.checkpoints_listed(ask, outcome);
            }
            (
                RequestKind::Adopt {
                    ask,
                    server_task,
                    kind,
                    has_other,
                },
                outcome,
            ) => self.adoption_answered(ask, &server_task, (kind, has_other), outcome),
            _ => {}
        }
    }

    fn call_answered(&mut self, id: &TaskId, outcome: RpcOutcome<'_>) {
        // Where it is a task of the server already, this is a replay of what made it one.
        let Some(active) = self.tasks.get_mut(id).filter(|it| it.served.is_none()) else {
            return;
        };
        active.went_out(self.now);
        let is_cancelling = active.is_asked(ControlKind::Cancelling);
        let result = match outcome {
            Ok(result) => result,
            Err(_) if is_cancelling || active.was_cancelled() => {
                return self.conclude(id, Status::Cancelled, None);
            }
            // A host gets the error, and calls again once the pages have been visited.
            Err(error)
                if error.code == VISIT_FIRST
                    && active.task.caller.is_none()
                    && self.call_wants_visits(id, &error) =>
            {
                return;
            }
            Err(error) if self.tries_other_mode(id, &error) => return,
            Err(error) => {
                return self.fail_with(id, TaskErrorKind::Protocol, error);
            }
        };
        let asks_for_task = active
            .attempt()
            .is_some_and(|attempt| attempt.asks_for_task);
        let era = active.era();
        match protocol::classify_call_result(result, asks_for_task, era) {
            CallOutcome::Complete => {
                if active.is_modern() {
                    self.ran_as_task(id, false);
                }
                self.took_result(id, result);
            }
            CallOutcome::Task(kind, shape) => self.became_task(id, kind, *shape),
            CallOutcome::InputRequired {
                input_requests,
                state,
            } => self.call_asks(id, input_requests, state),
            CallOutcome::Unsupported(word) => {
                let words = format!("longhaul does not know this kind of result: {word}");
                self.fail(id, TaskErrorKind::Protocol, None, words);
            }
        }
    }

    /// The CallToolResult of a task: it settles it, except where a checkpoint tool says that it paused.
    pub(super) fn took_result(&mut self, id: &TaskId, result: &str) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id).filter(|it| !it.is_settled()) else {
            return;
        };
        let is_cancelling = active.is_being_cancelled();
        let answer = protocol::parse_call_result(result);
        let text = answer.text.as_deref();
        let text = text.filter(|_| active.task.resumability.checkpoint);
        match text.and_then(checkpoint_status).as_deref() {
            Some("paused") if !answer.is_error => return self.paused(id),
            Some("cancelled" | "canceled") => return self.conclude(id, Status::Cancelled, None),
            _ => {}
        }
        active.task.end.result_bytes = u64::try_from(result.len()).ok();
        let shown = answer.text.as_deref().or(answer.bare.as_deref());
        active.task.end.result_line = shown.map(first_line);
        active.saving.result = Some(result.to_owned());
        active.saving.result_part.set(result.len());
        if answer.is_error && is_cancelling {
            self.conclude(id, Status::Cancelled, None);
        } else if answer.is_error {
            let text = answer.text.as_deref();
            let message = first_line(text.unwrap_or("the tool failed without a message"));
            self.fail(id, TaskErrorKind::Tool, None, message);
        } else {
            if is_cancelling || active.was_cancelled() {
                active.notice(now, "the cancel request had no effect".to_owned());
            }
            self.conclude(id, Status::Completed, None);
        }
    }

    /// A core-task server may want a tool called as a task, or not as one (2025-11-25, tool-level negotiation): nothing
    /// ran, so the other way is tried, once, with a fresh list of tools.
    fn tries_other_mode(&mut self, id: &TaskId, error: &RpcError) -> bool {
        let is_about_mode = matches!(error.code, -32601 | -32600)
            && self.record.tasks.map(|offer| offer.kind) == Some(TaskKind::Core);
        let Some(active) = self.tasks.get_mut(id) else {
            return false;
        };
        if !is_about_mode || active.is_flipped || active.is_modern() {
            return false;
        }
        active.is_flipped = true;
        self.record.tools_at = None;
        self.unsend(id, Some(&error.message));
        self.saver.urge(self.now.mono);
        true
    }

    /// The tool answered, or its list says, that it paused: the attempt has ended, the task has not.
    pub(super) fn paused(&mut self, id: &TaskId) {
        let now = self.now;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        let connections = active.let_go();
        active.end_attempts(now);
        active.task.status = Status::Paused;
        active.set_control(now, None);
        active.task.notice = None;
        active.note_status(now, "paused", None);
        active.saving.held = Some(self.saver.next_token);
        self.close_all(connections);
        self.save_vital();
    }

    /// Ends a task with a failure.
    pub(super) fn fail(
        &mut self,
        id: &TaskId,
        kind: TaskErrorKind,
        code: Option<i64>,
        message: String,
    ) {
        let error = TaskError {
            kind,
            code,
            message,
            data: None,
        };
        self.conclude(id, Status::Failed, Some(error));
    }

    /// Ends a task with a JSON-RPC error of the server.
    pub(super) fn fail_with(&mut self, id: &TaskId, kind: TaskErrorKind, error: RpcError) {
        let error = TaskError {
            kind,
            code: Some(error.code),
            message: error.message,
            data: error.data.filter(|data| data.len() <= ERROR_DATA_BYTES),
        };
        self.conclude(id, Status::Failed, Some(error));
    }

    /// Ends a task, or hands it to a person: on disk first, then on the screen.
    pub(super) fn conclude(&mut self, id: &TaskId, status: Status, error: Option<TaskError>) {
        let now = self.now;
        let token = self.saver.next_token;
        let Some(active) = self.tasks.get_mut(id) else {
            return;
        };
        // What was removed is left as it was, for as long as it is still here.
        if !active.task.is_open() {
            return;
        }
        // The user wanted it to pause, and stopped it because the server did not.
        if status == Status::Cancelled && active.is_stopped_for_pause() {
            return self.paused(id);
        }
        if active.never_ran(&status, error.as_ref()) {
            // The key is free for the next call.
            active.task.options.once = None;
        }
        let connections = active.let_go();
        active.set_control(now, None);
        active.recovery.disconnection = None;
        let reason = status
            .reason()
            .or_else(|| error.as_ref().map(|error| error.message.clone()));
        let word = status.label().to_owned();
        active.task.end.error = error;
        active.task.status = status;
        if matches!(active.task.status, Status::Lost(_)) {
            // What was said of the running call no longer holds.
            active.task.notice = None;
        }
        if active.is_settled() {
            active.task.end.settled_at = Some(now.wall);
            active.end_attempts(now);
            let status = word;
            active.note(now, None, HistoryEvent::Settled { status, reason });
        } else {
            active.note_status(now, &word, reason);
        }
        active.saving.held = Some(token);
        self.close_all(connections);
        self.save_vital();
    }
}

/// The `status` that a checkpoint tool's JSON text names.
fn checkpoint_status(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(value.get("status")?.as_str()?.to_lowercase())
}

/// The first line of a server's text, cut so that a row stays small.
fn first_line(said: &str) -> String {
    let line = said.lines().find(|line| !line.trim().is_empty());
    text::head(line.unwrap_or_default(), LINE_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_book_is_cut() {
        assert_eq!(first_line("\n \nshort\nmore"), "short");
        let cut = first_line(&"é".repeat(1000));
        assert!(
            (LINE_BYTES - 4..=LINE_BYTES).contains(&cut.len()),
            "{}",
            cut.len()
        );
    }
}
