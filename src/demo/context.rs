//! The context of a running tool: progress, log messages, questions and cancellation.
//!
//! Each tool is written once and runs as a call of either era or as a server task; this module hides the difference. A
//! call sends its messages on its own stream and is cancelled with its session or connection. A task saves its progress
//! and questions to disk and needs no client.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ErrorData, Peer, RoleServer,
    model::{
        ClientCapabilities, CustomRequest, ErrorCode, ProgressNotificationParam, ProgressToken,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{
    events::Events,
    runs::{Runs, StopReason},
    sessions::RequestHandle,
    tasks::{TaskRecord, TaskStore},
};
use crate::demo::{
    activity::{ActivityGuard, ActivityTracker},
    error::CANCELLED,
    options::NAME,
};

/// The JSON-RPC method of an elicitation.
const ELICITATION: &str = "elicitation/create";

/// The state that all requests of a boot share.
pub(super) struct SharedState {
    pub(super) events: Arc<Events>,
    pub(super) runs: Arc<Runs>,
    pub(super) tasks: Arc<TaskStore>,
    pub(super) activity: Arc<ActivityTracker>,
}

/// The log levels that the tools use.
#[derive(Clone, Copy, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LogSeverity {
    Debug,
    Info,
    Warning,
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
    /// The lowest [`LogSeverity`] that the client wants.
    min_severity: Arc<AtomicU8>,
    supports_forms: bool,
    /// Kept alive while the call runs, because a cancellation finds the call through it.
    _handle: Option<Arc<RequestHandle>>,
}

impl ToolContext {
    /// The context of a plain call, which is answered on its own stream.
    pub(super) async fn for_request(
        shared: &Arc<SharedState>,
        min_severity: &Arc<AtomicU8>,
        request: RequestContext<RoleServer>,
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
        let supports_forms = supports_forms(request.client_capabilities().as_ref());
        Self {
            shared: Arc::clone(shared),
            mode: CallMode::Request(Box::new(RequestCall {
                peer: request.peer,
                progress_token,
                stream,
                min_severity: Arc::clone(min_severity),
                supports_forms,
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

    /// Sends a log message on the call's own stream; does nothing for tasks and in the modern era. The SDK would use the
    /// standalone stream, where a client can't tell which call it belongs to.
    pub(super) fn log(&self, level: LogSeverity, data: impl Into<String>) {
        let CallMode::Request(call) = &self.mode else {
            return;
        };
        let Some(stream) = &call.stream else {
            return;
        };
        if (level as u8) < call.min_severity.load(Ordering::Relaxed) {
            return;
        }
        let params = json!({"level": level, "logger": NAME, "data": data.into()});
        let message =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
        let events = &self.shared.events;
        let appended = events.append(stream, None, Some(&message.to_string()), false);
        if let Err(error) = appended {
            tracing::warn!(%error, "could not store a log message");
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
            match &self.mode {
                CallMode::Request(call) => {
                    // The SDK sends this on the call's own stream, because it runs inside that request.
                    let request = CustomRequest::new(ELICITATION, Some(params));
                    let answer = call.peer.send_request(request.into()).await;
                    serde_json::to_value(answer.map_err(internal)?).map_err(internal)
                }
                CallMode::Task { id, .. } => {
                    let request = json!({"method": ELICITATION, "params": params});
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

    /// Whether the client shows forms. For a task this was checked when it was created.
    pub(super) fn supports_forms(&self) -> bool {
        match &self.mode {
            CallMode::Request(call) => call.supports_forms,
            CallMode::Task { .. } => true,
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

/// Whether a client shows forms; an empty `elicitation` object means that it does.
pub(super) fn supports_forms(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none())
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
