//! What a link takes in and what it wants done: its only way to the outside.

use std::sync::Arc;

use crate::{
    domain::{EventId, RequestError, Row, SessionRequest, SessionRequestId, SessionResponse, Task},
    protocol::{ExchangeEvent, Request},
};

/// The number of an exchange, unique within one link and process.
pub type ExchangeId = u64;

/// The number of a save; saves of one link are numbered and done in order.
pub type SaveToken = u64;

/// What a link machine takes in.
#[derive(Clone, Debug)]
pub enum Input {
    /// Unsettled tasks from the session file, each with the event ids that its history holds.
    Restored(Vec<(Task, Vec<EventId>)>),
    /// A user wants something.
    Ask {
        /// The answer carries it.
        ask: SessionRequestId,
        /// What.
        what: SessionRequest,
    },
    /// An exchange brought something.
    Arrived {
        /// Which.
        exchange: ExchangeId,
        /// What.
        arrival: ExchangeEvent,
    },
    /// Time has passed; due by [`Link::next_wake`].
    Timer,
    /// A save is on disk.
    Saved(SaveToken),
    /// A save failed; nothing of it is on disk, or nobody knows.
    SaveFailed {
        /// Which.
        token: SaveToken,
        /// Why, in words that name the file.
        why: String,
    },
    /// The driver leaves in order: end what may be ended.
    Leave,
    /// The program that is the server was ended, because the driver leaves.
    ProgramEnded,
    /// Another process drives from here on: as [`Self::Leave`], but all stays as it is at the server.
    HandOver,
}

/// What a link machine wants done, in this order.
#[derive(Clone, Debug)]
pub enum Output {
    /// Write these rows in one transaction, then answer with `Saved` or `SaveFailed`.
    Save {
        /// The number of the save.
        token: SaveToken,
        /// What to write; the machine keeps it too until it is written.
        rows: Arc<Vec<Row>>,
        /// Whether the disk itself has to confirm (intents, first ids, results).
        is_vital: bool,
    },
    /// Send a request, but not before this save is on disk; if the save fails, forget the request.
    Send {
        /// What its arrivals carry.
        exchange: ExchangeId,
        /// What to send.
        request: Request,
        /// The save to wait for.
        after: Option<SaveToken>,
    },
    /// Drop an exchange and its connection; nothing more may arrive of it.
    Close {
        /// Which.
        exchange: ExchangeId,
    },
    /// Answer an ask, but not before this save is on disk; if the save fails, forget the answer.
    Answer {
        /// Which.
        ask: SessionRequestId,
        /// How it went.
        outcome: Result<SessionResponse, RequestError>,
        /// The save to wait for.
        after: Option<SaveToken>,
    },
}
