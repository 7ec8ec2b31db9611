//! Requests without a response yet, and who made them.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};

use crate::{
    domain::{RequestError, SessionEvent, SessionOutcome, SessionRequest, SessionRequestId},
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
    /// Requests without a response: if the driver dies they are sent again, which is safe for every request.
    pub(super) pending: PendingRequests,
}

/// Requests that wait for a response, by the engine's request number.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    next: SessionRequestId,
    open: BTreeMap<SessionRequestId, Envelope>,
    /// The last introduction of a host: the next driver has to know the host before its calls.
    introduction: Option<SessionRequest>,
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

    /// Sends the response to the requester.
    pub(super) fn answer(
        &mut self,
        snapshots: &Snapshots,
        number: SessionRequestId,
        outcome: SessionOutcome,
    ) {
        if let Some(asked) = self.open.remove(&number) {
            snapshots.tell(
                asked.reader,
                SessionEvent::Response {
                    request: asked.ask,
                    outcome,
                },
            );
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

    /// The last introduction of a host by this process.
    pub(super) fn introduction(&self) -> Option<SessionRequest> {
        self.introduction.clone()
    }

    /// The requester.
    pub(super) fn reader(&self, number: SessionRequestId) -> Option<ReaderId> {
        self.open.get(&number).map(|asked| asked.reader)
    }

    /// Whether it is a request to pause, resume or cancel a call.
    pub(super) fn is_control(&self, number: SessionRequestId) -> bool {
        let asked = self.open.get(&number).map(|asked| &asked.what);
        matches!(
            asked,
            Some(
                SessionRequest::Pause(_)
                    | SessionRequest::StopNow(_)
                    | SessionRequest::Resume(_)
                    | SessionRequest::Cancel(_)
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

    /// The open requests, to be sent to the next driver.
    pub(super) fn all(&self) -> Vec<(SessionRequestId, SessionRequest)> {
        self.open
            .iter()
            .map(|(number, asked)| (*number, asked.what.clone()))
            .collect()
    }
}
