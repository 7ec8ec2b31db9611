//! One running piece of work: how it speaks to its client, and how the client stops it.
//!
//! A tool is written once and runs as a call of either era or as a server task; here is the difference. A call sends
//! progress and log lines on its own stream and ends with its client; a task notes its steps and questions on disk and
//! ends by itself. Must not know what the tools do.

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
    disk::locked,
    events::Events,
    life::{Busy, Presence},
    questions::{self, Asking},
    runs::{Runs, Stop},
    sessions::Slot,
    tasks::{Task, Tasks},
    tickets::Tickets,
};

/// The logger that log lines name.
pub(super) const LOGGER: &str = "longhaul-demo";
/// The JSON-RPC code that other servers use too for a cancelled request.
pub(super) const CANCELLED: ErrorCode = ErrorCode(-32800);

/// What is the same for every request of a boot.
pub(super) struct Shared {
    pub(super) events: Arc<Events>,
    pub(super) runs: Arc<Runs>,
    pub(super) tasks: Arc<Tasks>,
    pub(super) tickets: Arc<Tickets>,
    pub(super) presence: Arc<Presence>,
    pub(super) boot: i64,
    pub(super) started_ms: i64,
}

/// The levels of log lines, mildest first.
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

#[derive(Clone, Copy)]
pub(super) enum Level {
    Debug = 0,
    Info = 1,
    Warning = 3,
}

/// One running piece of work.
pub(super) struct Call {
    pub(super) shared: Arc<Shared>,
    way: Way,
    /// The client cancelled it.
    cancel: CancellationToken,
    /// What carries it has ended: the server session, or in the modern era the connection.
    carrier_end: CancellationToken,
    _busy: Busy,
}

enum Way {
    Plain(Box<Plain>),
    Task { id: String, done: u64 },
}

struct Plain {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    /// The stream of the request in the event store; the modern era has none.
    stream: Option<String>,
    level: Arc<AtomicUsize>,
    asking: Asking,
    /// A modern call cannot ask while it runs: it ends with its question, and is called again with the answer.
    round: Option<Round>,
    /// Held as long as the call runs: a cancellation reaches only calls whose slot is alive.
    _slot: Option<Slot>,
}

/// One round of a modern call.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// What is called, with its arguments: a ticket counts for that only.
    work: String,
    /// The ticket that came with the answers, or goes out with the question.
    ticket: Mutex<Option<String>>,
    answers: InputResponses,
    question: Mutex<Option<(String, Value)>>,
}

impl Round {
    /// The round that a request is.
    pub(super) fn new(
        work: String,
        ticket: Option<String>,
        answers: Option<InputResponses>,
    ) -> Self {
        // Answers without the ticket of their question are answers to nothing.
        let answers = answers.filter(|_| ticket.is_some());
        Self {
            work,
            ticket: Mutex::new(ticket),
            answers: answers.unwrap_or_default(),
            question: Mutex::default(),
        }
    }
}

impl Call {
    /// A call that is answered on its own stream.
    pub(super) async fn plain(
        shared: &Arc<Shared>,
        level: &Arc<AtomicUsize>,
        context: RequestContext<RoleServer>,
        round: Option<Round>,
    ) -> Self {
        let slot = context.extensions.get::<Slot>().cloned();
        let (stream, cancel) = match &slot {
            Some(slot) => (Some(slot.stream().await.to_owned()), slot.cancel()),
            None => (None, CancellationToken::new()),
        };
        let token = context.meta.get_progress_token();
        let asking = Asking::of(context.client_capabilities().as_ref());
        Self {
            shared: Arc::clone(shared),
            way: Way::Plain(Box::new(Plain {
                peer: context.peer,
                token,
                stream,
                level: Arc::clone(level),
                asking,
                round,
                _slot: slot,
            })),
            cancel,
            carrier_end: context.ct,
            _busy: Presence::busy(&shared.presence),
        }
    }

    /// A server task, at the step where it stands.
    pub(super) fn of_task(shared: &Arc<Shared>, task: &Task, cancel: CancellationToken) -> Self {
        Self {
            shared: Arc::clone(shared),
            way: Way::Task {
                id: task.id.clone(),
                done: task.done,
            },
            cancel,
            carrier_end: CancellationToken::new(),
            _busy: Presence::busy(&shared.presence),
        }
    }

    /// The id of the server task that this is, if it is one.
    pub(super) fn task_id(&self) -> Option<&str> {
        match &self.way {
            Way::Task { id, .. } => Some(id),
            Way::Plain(_) => None,
        }
    }

    /// The steps that were done before: those of a task that the server's end interrupted.
    pub(super) fn done(&self) -> u64 {
        match &self.way {
            Way::Task { done, .. } => *done,
            Way::Plain(_) => 0,
        }
    }

    pub(super) async fn progress(&self, progress: u64, total: u64, message: String) {
        let plain = match &self.way {
            Way::Plain(plain) => plain,
            Way::Task { id, .. } => return self.shared.tasks.step(id, progress, &message),
        };
        let Some(token) = plain.token.clone() else {
            return;
        };
        let step = ProgressNotificationParam::new(token, progress as f64)
            .with_total(total as f64)
            .with_message(message);
        if let Err(error) = plain.peer.notify_progress(step).await {
            tracing::debug!(%error, "a progress step found no session");
        }
    }

    /// A log line. It is stored on the call's own stream: the SDK would send it to the standalone stream, where a call's
    /// history cannot find it.
    pub(super) fn log(&self, level: Level, data: impl Into<String>) {
        let Way::Plain(plain) = &self.way else { return };
        let index = level as usize;
        if index >= plain.level.load(Ordering::Relaxed) {
            let params = json!({"level": LEVELS.get(index), "logger": LOGGER, "data": data.into()});
            self.tell("notifications/message", &params);
        }
    }

    pub(super) async fn cancelled(&self) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = self.carrier_end.cancelled() => {}
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.carrier_end.is_cancelled()
    }

    /// Asks the client, in the way that suits it, and returns its answer as it came.
    pub(super) async fn ask(&self, key: &str, params: Value) -> Result<Value, ErrorData> {
        let answer = async {
            if let Some(round) = self.round() {
                if let Some(answer) = round.answers.get(key) {
                    return Ok(answer.clone());
                }
                *locked(&round.question) = Some((key.to_owned(), params));
                // Nobody hears this error: the question is the answer of this round.
                return Err(internal("the call waits for an answer"));
            }
            match &self.way {
                Way::Plain(plain) => {
                    // On the call's own stream, which stays open: the SDK sees that we are at that request.
                    let request = CustomRequest::new(questions::METHOD, Some(params));
                    let answer = plain.peer.send_request(request.into()).await;
                    serde_json::to_value(answer.map_err(internal)?).map_err(internal)
                }
                Way::Task { id, .. } => {
                    let request = json!({"method": questions::METHOD, "params": params});
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

    fn round(&self) -> Option<&Round> {
        match &self.way {
            Way::Plain(plain) => plain.round.as_ref(),
            Way::Task { .. } => None,
        }
    }

    /// The question with which this round ends, if it does: key, request, and the ticket for the next round.
    pub(super) fn question(&self) -> Result<Option<(String, Value, String)>, ErrorData> {
        let question = self
            .round()
            .and_then(|round| locked(&round.question).take());
        let Some((key, params)) = question else {
            return Ok(None);
        };
        let request = json!({"method": questions::METHOD, "params": params});
        Ok(Some((key, request, self.ticket()?)))
    }

    /// The ticket of this call, given out if it has none.
    pub(super) fn ticket(&self) -> Result<String, ErrorData> {
        let issue = |work| self.shared.tickets.issue(work).map_err(internal);
        let Some(round) = self.round() else {
            return issue("");
        };
        let mut ticket = locked(&round.ticket);
        if let Some(ticket) = &*ticket {
            return Ok(ticket.clone());
        }
        Ok(ticket.insert(issue(&round.work)?).clone())
    }

    /// Sends a notification on the call's own stream, if its era has such notifications.
    pub(super) fn tell(&self, method: &str, params: &Value) {
        let Way::Plain(plain) = &self.way else { return };
        let Some(stream) = &plain.stream else { return };
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Err(error) = self.shared.events.append_json(stream, &message) {
            tracing::warn!(%error, "a notification could not be stored");
        }
    }

    /// What the client can be asked. Whoever made a task has been looked at then.
    pub(super) fn asking(&self) -> Asking {
        match &self.way {
            Way::Plain(plain) => plain.asking,
            Way::Task { .. } => Asking::ANYTHING,
        }
    }

    /// Why resumable work is stopped for this call. A client that has only gone did not say that it wants no more of it.
    pub(super) fn stop(&self) -> Stop {
        if self.cancel.is_cancelled() {
            Stop::Cancel
        } else {
            Stop::Interrupt
        }
    }

    /// Waits, as work would take time; an error as soon as the client cancels.
    pub(super) async fn wait(&self, length: Duration) -> Result<(), ErrorData> {
        tokio::select! {
            biased;
            () = self.cancelled() => Err(cancelled()),
            () = sleep(length) => Ok(()), // sleep: it is the work
        }
    }
}

pub(super) fn cancelled() -> ErrorData {
    ErrorData::new(CANCELLED, "Request cancelled", None)
}

pub(super) fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

pub(super) fn invalid(words: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(words.into(), None)
}
