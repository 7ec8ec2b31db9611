//! Requests without a response yet, and who made them.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    domain::{Mono, RequestError, SessionEvent, SessionRequest, SessionRequestId, SessionResponse},
    engine::snapshots::{ReaderId, Snapshots},
    store::{DriverLock, Paths},
};

/// Who made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    /// This process.
    Us,
    /// Another process, on the socket, with its process id if the system reports it.
    Client(Option<u32>),
}

/// A request on its way to the engine.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) reader: ReaderId,
    pub(super) asker: Requester,
    pub(super) ask: SessionRequestId,
    pub(super) what: SessionRequest,
}

/// Requests that wait for a response, by the engine's request number.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    next: SessionRequestId,
    open: BTreeMap<SessionRequestId, Envelope>,
    /// The driver that was asked.
    driver: Option<u32>,
}

impl PendingRequests {
    /// Adds a request and returns its engine number.
    pub(super) fn add(&mut self, asked: Envelope) -> SessionRequestId {
        self.next += 1;
        self.open.insert(self.next, asked);
        self.next
    }

    /// Sends the response to the requester.
    pub(super) fn answer(
        &mut self,
        snapshots: &Snapshots,
        number: SessionRequestId,
        outcome: Result<SessionResponse, RequestError>,
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

    /// The requester.
    pub(super) fn reader(&self, number: SessionRequestId) -> Option<ReaderId> {
        self.open.get(&number).map(|asked| asked.reader)
    }

    /// The requesting process.
    pub(super) fn asker(&self, number: SessionRequestId) -> Option<Requester> {
        self.open.get(&number).map(|asked| asked.asker)
    }

    /// Forgets a request that another process will answer.
    pub(super) fn pass_on(&mut self, number: SessionRequestId) {
        self.open.remove(&number);
    }

    /// Forgets the requests of other processes: they send them to the next driver themselves.
    pub(super) fn keep_own(&mut self) {
        self.open.retain(|_, asked| asked.asker == Requester::Us);
    }

    /// Whether this process has asked to drive.
    pub(super) fn asks_to_drive(&self) -> bool {
        let mut open = self.open.values();
        open.any(|asked| {
            asked.asker == Requester::Us && matches!(asked.what, SessionRequest::HandOver { .. })
        })
    }

    /// From now on requests go to this process. An earlier request to drive that went to a different process is
    /// refused.
    pub(super) fn follows(&mut self, snapshots: &Snapshots, driver: Option<u32>) {
        if std::mem::replace(&mut self.driver, driver) == driver {
            return;
        }
        let who = driver.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        for (number, what) in self.all() {
            if matches!(what, SessionRequest::HandOver { .. }) {
                let words = format!("{who} drives now and did not get this request; try again");
                self.answer(snapshots, number, Err(RequestError::Usage(words)));
            }
        }
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

/// Whether the lock was handed to another process, which is given time to take it.
pub(in crate::engine) fn waits_for(
    successor: &mut Option<(u32, Mono)>,
    paths: &Paths,
    now: Mono,
) -> bool {
    let named = DriverLock::successor(paths).filter(|pid| *pid != std::process::id());
    *successor = named.map(|pid| match *successor {
        Some((known, since)) if known == pid => (pid, since),
        _ => (pid, now),
    });
    successor.is_some_and(|(_, since)| now.since(since) < SUCCESSOR_WITHIN)
}

/// How long other processes wait for the one that the driver handed the session to.
pub(in crate::engine) const SUCCESSOR_WITHIN: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_of_a_driver_has_limited_time() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
        let hand_to = |pid| DriverLock::try_take(&paths).unwrap().unwrap().hand_to(pid);
        let mut successor = None;
        let mut waits = |at| waits_for(&mut successor, &paths, Mono(at));
        assert!(!waits(0));
        // A running process other than this one.
        hand_to(std::os::unix::process::parent_id());
        assert!(waits(1_000) && waits(3_999));
        assert!(!waits(4_000), "whoever comes first takes it");
        hand_to(std::process::id());
        assert!(!waits(4_000), "it is ours");
    }
}
