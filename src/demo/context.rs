//! The context of a running tool: progress, log messages, questions and cancellation.
//!
//! Each tool is written once and runs as a call of either era or as a server task; this module hides the difference. A
//! call sends its messages on its own stream and is cancelled with its session or connection. A task saves its progress
//! and questions to disk and needs no client.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{CustomRequest, ErrorCode, InputResponses, ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    database::locked,
    elicitation_support::METHOD,
    elicitation_tokens::ElicitationTokens,
    events::Events,
    runs::{Runs, StopReason},
    sessions::RequestHandle,
    tasks::{TaskRecord, TaskStore},
};
use crate::demo::{
    activity::{ActivityGuard, ActivityTracker},
    elicitation_support::ElicitationSupport,
    error::CANCELLED,
    options::NAME,
};

/// The state that all requests of a boot share.
pub(super) struct SharedState {
    pub(super) events: Arc<Events>,
    pub(super) runs: Arc<Runs>,
    pub(super) tasks: Arc<TaskStore>,
    pub(super) tokens: Arc<ElicitationTokens>,
    pub(super) activity: Arc<ActivityTracker>,
}

/// The MCP log levels, least severe first.
pub(super) const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// The log levels that the tools use, as indexes into [`LEVELS`].
#[derive(Clone, Copy)]
pub(super) enum LogSeverity {
    Debug = 0,
    Info = 1,
    Warning = 3,
}

/// The context of a running tool.
pub(super) struct ToolContext {
    pub(super) shared: Arc<SharedState>,
    mode: CallMode,
    /// Cancelled by the client's request.
    cancel: CancellationToken,
    /// Cancelled when the server session ends or, in the modern era, the connection.
    transport_end: CancellationToken,
    _busy: ActivityGuard,
}

enum CallMode {
    Request(Box<RequestCall>),
    Task { id: String, done: u64 },
}

struct RequestCall {
    peer: Peer<RoleServer>,
    progress_token: Option<ProgressToken>,
    /// The request's stream in the event store; `None` in the modern era.
    stream: Option<String>,
    /// The index into [`LEVELS`] set by `logging/setLevel`.
    min_level: Arc<AtomicUsize>,
    elicitation_support: ElicitationSupport,
    /// Modern era only: such a call cannot ask while it runs. It returns with the question, and the client repeats the
    /// call with the answer.
    input_round: Option<InputRound>,
    /// Kept alive while the call runs, because a cancellation finds the call through it.
    _handle: Option<Arc<RequestHandle>>,
}

/// One round of a modern call: the answers it came with, and the question it ends with.
#[derive(Debug, Default)]
pub(super) struct InputRound {
    /// Tool and arguments as JSON text, which the token is bound to.
    call_key: String,
    /// The `requestState` that came with the answers or is sent with the question.
    token: Mutex<Option<String>>,
    answers: InputResponses,
    question: Mutex<Option<(String, Value)>>,
}

impl InputRound {
    pub(super) fn new(
        call_key: String,
        token: Option<String>,
        answers: Option<InputResponses>,
    ) -> Self {
        // Answers without the token of their question are ignored.
        let answers = answers.filter(|_| token.is_some());
        Self {
            call_key,
            token: Mutex::new(token),
            answers: answers.unwrap_or_default(),
            question: Mutex::default(),
        }
    }
}

impl ToolContext {
    /// The context of a plain call, which is answered on its own stream.
    pub(super) async fn for_request(
        shared: &Arc<SharedState>,
        min_level: &Arc<AtomicUsize>,
        request: RequestContext<RoleServer>,
        input_round: Option<InputRound>,
    ) -> Self {
        let handle = request.extensions.get::<Arc<RequestHandle>>().cloned();
        let (stream, cancel) = match &handle {
            Some(handle) => (
                Some(handle.stream.wait().await.clone()),
                handle.cancel.clone(),
            ),
            None => (None, CancellationToken::new()),
        };
        let progress_token = request.meta.get_progress_token();
        let elicitation_support = ElicitationSupport::of(request.client_capabilities().as_ref());
        Self {
            shared: Arc::clone(shared),
            mode: CallMode::Request(Box::new(RequestCall {
                peer: request.peer,
                progress_token,
                stream,
                min_level: Arc::clone(min_level),
                elicitation_support,
                input_round,
                _handle: handle,
            })),
            cancel,
            transport_end: request.ct,
            _busy: ActivityTracker::start(&shared.activity),
        }
    }

    /// The context of a server task, which continues after its last completed step.
    pub(super) fn for_task(
        shared: &Arc<SharedState>,
        task: &TaskRecord,
        cancel: CancellationToken,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            mode: CallMode::Task {
                id: task.id.clone(),
                done: task.done,
            },
            cancel,
            transport_end: CancellationToken::new(),
            _busy: ActivityTracker::start(&shared.activity),
        }
    }

    /// The task id, if this is a server task.
    pub(super) fn task_id(&self) -> Option<&str> {
        match &self.mode {
            CallMode::Task { id, .. } => Some(id),
            CallMode::Request(_) => None,
        }
    }

    /// The first step of a call, or the first that a task did not complete before a restart.
    pub(super) fn next_step(&self) -> u64 {
        match &self.mode {
            CallMode::Task { done, .. } => done + 1,
            CallMode::Request(_) => 1,
        }
    }

    /// Sends or saves a progress update; does nothing if the client asked for no progress.
    pub(super) async fn progress(&self, progress: u64, total: u64, message: String) {
        let call = match &self.mode {
            CallMode::Request(call) => call,
            CallMode::Task { id, .. } => {
                return self.shared.tasks.save_progress(id, progress, &message);
            }
        };
        let Some(token) = call.progress_token.clone() else {
            return;
        };
        let progress = ProgressNotificationParam::new(token, progress as f64)
            .with_total(total as f64)
            .with_message(message);
        if let Err(error) = call.peer.notify_progress(progress).await {
            tracing::debug!(%error, "could not send progress");
        }
    }

    /// Sends a log message on the call's own stream. The SDK would use the standalone stream, where a client can't tell
    /// which call it belongs to.
    pub(super) fn log(&self, level: LogSeverity, data: impl Into<String>) {
        let CallMode::Request(call) = &self.mode else {
            return;
        };
        let index = level as usize;
        if index >= call.min_level.load(Ordering::Relaxed) {
            let params = json!({"level": LEVELS.get(index), "logger": NAME, "data": data.into()});
            self.notify("notifications/message", &params);
        }
    }

    /// Returns once the call is cancelled or its transport has ended.
    pub(super) async fn cancelled(&self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.transport_end.cancelled() => {}
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.transport_end.is_cancelled()
    }

    /// Sends a question to the client and returns its unparsed answer.
    pub(super) async fn ask(&self, key: &str, params: Value) -> Result<Value, ErrorData> {
        let answer = async {
            if let Some(round) = self.input_round() {
                if let Some(answer) = round.answers.get(key) {
                    return Ok(answer.clone());
                }
                *locked(&round.question) = Some((key.to_owned(), params));
                // The handler discards this error and returns the question instead.
                return Err(internal("waiting for the answer to a question"));
            }
            match &self.mode {
                CallMode::Request(call) => {
                    // The SDK sends this on the call's own stream, because it runs inside that request.
                    let request = CustomRequest::new(METHOD, Some(params));
                    let answer = call.peer.send_request(request.into()).await;
                    serde_json::to_value(answer.map_err(internal)?).map_err(internal)
                }
                CallMode::Task { id, .. } => {
                    let request = json!({"method": METHOD, "params": params});
                    let answer = self.shared.tasks.ask(id, key, &request).await;
                    answer.map_err(internal)
                }
            }
        };
        tokio::select! {
            biased;
            () = self.cancelled() => Err(cancelled()),
            answer = answer => answer,
        }
    }

    fn input_round(&self) -> Option<&InputRound> {
        match &self.mode {
            CallMode::Request(call) => call.input_round.as_ref(),
            CallMode::Task { .. } => None,
        }
    }

    /// The question that ends this round, if there is one: key, request, and `requestState` for the next round.
    pub(super) fn take_question(&self) -> Result<Option<(String, Value, String)>, ErrorData> {
        let question = self
            .input_round()
            .and_then(|round| locked(&round.question).take());
        let Some((key, params)) = question else {
            return Ok(None);
        };
        let request = json!({"method": METHOD, "params": params});
        Ok(Some((key, request, self.elicitation_token()?)))
    }

    /// The call's elicitation token, issued on first use.
    pub(super) fn elicitation_token(&self) -> Result<String, ErrorData> {
        let issue = |work| self.shared.tokens.issue(work).map_err(internal);
        let Some(round) = self.input_round() else {
            return issue("");
        };
        let mut token = locked(&round.token);
        if let Some(token) = &*token {
            return Ok(token.clone());
        }
        Ok(token.insert(issue(&round.call_key)?).clone())
    }

    /// Sends a notification on the call's own stream; does nothing for tasks and in the modern era.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        let CallMode::Request(call) = &self.mode else {
            return;
        };
        let Some(stream) = &call.stream else {
            return;
        };
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        // Not through the SDK.
        let message = message.to_string();
        let events = &self.shared.events;
        let appended = events.append(stream, None, Some(&message), false);
        if let Err(error) = appended {
            tracing::warn!(%error, "could not store a notification");
        }
    }

    /// What the client supports. For a task this was checked when it was created.
    pub(super) fn elicitation_support(&self) -> ElicitationSupport {
        match &self.mode {
            CallMode::Request(call) => call.elicitation_support,
            CallMode::Task { .. } => ElicitationSupport::ALL,
        }
    }

    /// Why resumable work stops for this call: a disconnect only interrupts it, so that it can be resumed.
    pub(super) fn stop_reason(&self) -> StopReason {
        if self.cancel.is_cancelled() {
            StopReason::Cancel
        } else {
            StopReason::Interrupt
        }
    }

    /// Simulates a step of work and reports it; fails as soon as the call is cancelled.
    pub(super) async fn step(
        &self,
        ms: u64,
        step: u64,
        total: u64,
        message: String,
    ) -> Result<(), ErrorData> {
        tokio::select! {
            biased;
            () = self.cancelled() => return Err(cancelled()),
            () = sleep(Duration::from_millis(ms)) => {} // sleep: simulated work
        }
        self.progress(step, total, message).await;
        Ok(())
    }
}

/// An object with one more member.
pub(super) fn with(mut object: Value, key: &str, value: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.insert(key.to_owned(), value);
    }
    object
}

pub(super) fn cancelled() -> ErrorData {
    ErrorData::new(CANCELLED, "Request cancelled", None)
}

pub(super) fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

pub(super) fn invalid(message: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(message.into(), None)
}

pub(super) fn not_found(message: impl Into<String>) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message.into(), None)
}
