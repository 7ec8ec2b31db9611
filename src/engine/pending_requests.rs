//! Requests without a response yet, and who made them.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};

use crate::{
    domain::{RequestError, ServerName, SessionOutcome, SessionRequest, SessionRequestId},
    engine::snapshots::{ReaderId, Snapshots},
};

/// A request on its way to the engine.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) reader: ReaderId,
    /// Whether this process made it, and not another one on the socket.
    pub(super) is_ours: bool,
    pub(super) ask: SessionRequestId,
    pub(super) what: SessionRequest,
}

/// What this process asks of the engine, and when it exits.
#[derive(Debug)]
pub(super) struct OwnRequests {
    pub(super) incoming: mpsc::Receiver<Envelope>,
    /// Resolves when this process exits.
    pub(super) leaving: oneshot::Receiver<()>,
    /// Requests without a response: if the driver dies, those that are safe to repeat are sent again.
    pub(super) pending: PendingRequests,
}

/// Requests that wait for a response, by the engine's request number.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    next: SessionRequestId,
    open: BTreeMap<SessionRequestId, Envelope>,
    /// Requests up to this number were sent to a driver.
    sent: SessionRequestId,
    /// The last introduction of a host: the next driver has to know the host before its calls.
    pub(super) introduction: Option<SessionRequest>,
}

impl PendingRequests {
    /// Adds a request and returns its engine number.
    pub(super) fn add(&mut self, asked: Envelope) -> SessionRequestId {
        self.next += 1;
        if asked.is_ours && matches!(asked.what, SessionRequest::Introduce { .. }) {
            self.introduction = Some(asked.what.clone());
        }
        self.open.insert(self.next, asked);
        self.next
    }

    /// Adds a request that is sent to the driver at once.
    pub(super) fn add_sent(&mut self, asked: Envelope) -> SessionRequestId {
        self.sent = self.add(asked);
        self.sent
    }

    /// Sends the response to the requester.
    pub(super) fn answer(
        &mut self,
        snapshots: &Snapshots,
        number: SessionRequestId,
        outcome: SessionOutcome,
    ) {
        if let Some(asked) = self.open.remove(&number) {
            snapshots.answer(asked.reader, asked.ask, outcome);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether somebody still waits for a response.
    pub(super) fn is_awaited(&self, snapshots: &Snapshots) -> bool {
        let mut open = self.open.values();
        open.any(|asked| snapshots.has(asked.reader))
    }

    /// The requester.
    pub(super) fn reader(&self, number: SessionRequestId) -> Option<ReaderId> {
        self.open.get(&number).map(|asked| asked.reader)
    }

    /// The requests of hosts that have gone: their servers and keys.
    pub(super) fn forwards_of_gone(&self, snapshots: &Snapshots) -> Vec<(ServerName, String)> {
        let gone = (self.open.values()).filter(|asked| !snapshots.has(asked.reader));
        gone.filter_map(|asked| match &asked.what {
            SessionRequest::Forward { server, request } if !request.key.is_empty() => {
                Some((server.clone(), request.key.clone()))
            }
            _ => None,
        })
        .collect()
    }

    /// Whether its requester looks for the outcome in the views: what has become of a control, or what calls of the
    /// listed tools can rely on.
    pub(super) fn needs_views(&self, number: SessionRequestId) -> bool {
        let asked = self.open.get(&number).map(|asked| match &asked.what {
            SessionRequest::In(_, what) => what,
            what => what,
        });
        matches!(
            asked,
            Some(
                SessionRequest::Pause(_)
                    | SessionRequest::StopNow(_)
                    | SessionRequest::Resume(_)
                    | SessionRequest::Cancel(_)
                    | SessionRequest::Tools(_)
            )
        )
    }

    /// Whether this process made the request.
    pub(super) fn is_ours(&self, number: SessionRequestId) -> bool {
        self.open.get(&number).is_some_and(|asked| asked.is_ours)
    }

    /// Forgets the requests of other processes: they send them to the next driver themselves.
    pub(super) fn keep_own(&mut self) {
        self.open.retain(|_, asked| asked.is_ours);
    }

    /// Refuses every waiting request.
    pub(super) fn refuse_all(&mut self, snapshots: &Snapshots, refused: &RequestError) {
        for (number, _) in self.all() {
            self.answer(snapshots, number, Err(refused.clone()));
        }
    }

    /// The open requests, to be sent to the next driver. Those that must not run twice are refused instead.
    pub(super) fn for_next_driver(
        &mut self,
        snapshots: &Snapshots,
    ) -> Vec<(SessionRequestId, SessionRequest)> {
        let (again, refused): (Vec<_>, Vec<_>) = self
            .all()
            .into_iter()
            .partition(|(number, what)| *number > self.sent || is_repeatable(what));
        for (number, _) in refused {
            let words = "longhaul's keeper ended before the response; the request may have run";
            let outcome = Err(RequestError::Unreachable(words.to_owned()));
            self.answer(snapshots, number, outcome);
        }
        self.sent = self.next;
        again
    }

    fn all(&self) -> Vec<(SessionRequestId, SessionRequest)> {
        let open = self.open.iter();
        open.map(|(number, asked)| (*number, asked.what.clone()))
            .collect()
    }
}

/// Whether a request may reach its server twice. The session's own requests are made for that.
fn is_repeatable(what: &SessionRequest) -> bool {
    match what {
        SessionRequest::Forward { request, .. } => REPEATABLE.contains(&request.method.as_str()),
        SessionRequest::Notify { .. } | SessionRequest::Respond { .. } => false,
        _ => true,
    }
}

/// The methods of hosts that have no effect, or the same one twice.
const REPEATABLE: [&str; 11] = [
    "completion/complete",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "tools/list",
];
