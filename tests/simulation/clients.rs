//! The clients of the keeper: each request waits for its one response, and goes to the next keeper if this one dies, as
//! `engine/pending_requests.rs` does it.

use std::collections::{BTreeMap, BTreeSet};

use longhaul::domain::{SessionRequest, SessionRequestId};

/// The number of a request at its client; unique in a world.
pub(crate) type RequestNumber = u64;

/// What clients wait for.
#[derive(Default)]
pub(crate) struct Clients {
    next: RequestNumber,
    /// Requests whose response has not reached their client.
    waiting: BTreeMap<RequestNumber, SessionRequest>,
    /// Requests that got their response.
    done: BTreeSet<RequestNumber>,
    /// The numbers that this keeper gave them, and how often it has responded.
    at_keeper: BTreeMap<SessionRequestId, (RequestNumber, u32)>,
    next_at_keeper: SessionRequestId,
    /// Calls whose start was refused: they must never run.
    pub(crate) refused: Vec<SessionRequest>,
}

impl Clients {
    /// A client makes a request.
    pub(crate) fn ask(&mut self, what: SessionRequest) -> RequestNumber {
        self.next += 1;
        self.waiting.insert(self.next, what);
        self.next
    }

    /// The request reaches the keeper; gives its number there.
    pub(crate) fn reach(&mut self, number: RequestNumber) -> SessionRequestId {
        self.next_at_keeper += 1;
        self.at_keeper.insert(self.next_at_keeper, (number, 0));
        self.next_at_keeper
    }

    /// The keeper responds; gives the request, or `None` if it has responded before.
    pub(crate) fn responded(&mut self, ask: SessionRequestId) -> Option<RequestNumber> {
        let (number, times) = self.at_keeper.get_mut(&ask)?;
        *times += 1;
        (*times == 1).then_some(*number)
    }

    /// The response reaches the client, if it lives. Returns whether it is the first one.
    pub(crate) fn got(&mut self, number: RequestNumber, is_refused: bool) -> bool {
        if let Some(what) = self.waiting.remove(&number)
            && is_refused
            && matches!(what, SessionRequest::Start(_))
        {
            self.refused.push(what);
        }
        self.done.insert(number)
    }

    /// The keeper is gone.
    pub(crate) fn lose_keeper(&mut self) {
        self.at_keeper.clear();
    }

    /// These clients die as well: nobody waits for the responses, and nobody asks again.
    pub(crate) fn die(&mut self, mut dies: impl FnMut() -> bool) {
        self.waiting.retain(|_, _| !dies());
    }

    /// What is sent to the next keeper.
    pub(crate) fn waiting(&self) -> Vec<(RequestNumber, SessionRequest)> {
        let all = self.waiting.iter();
        all.map(|(number, what)| (*number, what.clone())).collect()
    }

    /// The requests that this keeper has not responded to.
    pub(crate) fn unanswered(&self) -> Vec<RequestNumber> {
        let open = self.at_keeper.values().filter(|(_, times)| *times == 0);
        open.map(|(number, _)| *number).collect()
    }

    /// Whether nobody waits.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
    }
}
