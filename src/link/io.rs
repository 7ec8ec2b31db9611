//! What a link takes in and what it wants done: its only way to the outside.

use std::sync::Arc;

use crate::{
    domain::{EventId, Row, SessionOutcome, SessionRequest, SessionRequestId, Task, Wall},
    protocol::{ExchangeEvent, Request},
};

/// The number of an exchange, unique within one link and process.
pub type ExchangeId = u64;

/// The number of a save; saves of one link are numbered and done in order.
pub type SaveToken = u64;

/// Why no link followed a task until it was restored.
#[derive(Clone, Copy, Debug)]
pub enum Unfollowed {
    /// No process drove the session; the last one did until then, as far as known.
    SinceDriver(Option<Wall>),
    /// It was removed from the list.
    Removed,
}

/// An input of a link.
#[derive(Clone, Debug)]
pub enum Input {
    /// Unsettled tasks from the session file, each with the event ids that its history holds.
    Restored {
        /// The tasks.
        tasks: Vec<(Task, Vec<EventId>)>,
        /// Why no link followed them.
        unfollowed: Unfollowed,
    },
    /// A request of a user.
    Ask {
        /// The number of the request, which its answer carries.
        ask: SessionRequestId,
        /// The request.
        what: SessionRequest,
    },
    /// Something arrived on an exchange.
    Arrived {
        /// The exchange.
        exchange: ExchangeId,
        /// What arrived.
        arrival: ExchangeEvent,
    },
    /// Time has passed; due by [`Link::next_wake`](crate::link::Link::next_wake).
    Timer,
    /// A save is on disk.
    Saved(SaveToken),
    /// A save failed. Probably nothing of it is on disk.
    SaveFailed {
        /// The save.
        token: SaveToken,
        /// Why it failed, for people; names the file.
        why: String,
    },
    /// Save at once what has happened until now.
    SaveAll,
    /// The driver exits: end what may be ended.
    Leave,
    /// The driver exits: it has ended the server's program, and no connection is read any more.
    Closed,
}

/// What a link wants done, in this order.
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
        /// The exchange.
        exchange: ExchangeId,
    },
    /// Answer a request of a user, but not before this save is on disk; if the save fails, forget the answer, unless it is
    /// a list of tools.
    Answer {
        /// The number of the request.
        ask: SessionRequestId,
        /// How it went.
        outcome: SessionOutcome,
        /// The save to wait for.
        after: Option<SaveToken>,
    },
}
