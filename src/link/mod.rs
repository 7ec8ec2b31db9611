//! The machine of one server's link: what to send, when to ask again, what became of each call. Pure and sans-IO.
//!
//! Owns every rule of staying with a call: eras, streams and their cursors, resumption, the checkpoint rule, back-off, the
//! keep-alive of sessions, and the order of disk before wire and screen. Must not know how bytes travel, where rows are
//! kept or what time it is: [`Input`]s come in with a [`Stamp`](crate::domain::Stamp), [`Output`]s go out as data.
//!
//! Invariants, attacked by `tests/simulation.rs`:
//! - a call leaves only after the save of its intent, a settled task is shown only after the save of its result;
//! - a cursor is saved only in one transaction with everything that the events up to it changed;
//! - a plain tool is sent at most once; a checkpoint tool again only under the checkpoint rule;
//! - `lost` only with proof, `unknown` only in a window that [`UnknownReason`](crate::domain::UnknownReason) names.

mod active_task;
mod checkpoint;
mod machine;
mod pending;
mod reachability;
mod recovery;
mod refusals;
mod replay_gap;
mod saver;
mod server_task_poll;
mod steps;

pub use machine::Link;
pub use pending::Unsaved;

use std::sync::Arc;

use crate::{
    domain::{
        EventId, ProtocolVersion, RequestError, Row, SessionRequest, SessionRequestId,
        SessionResponse, Task,
    },
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

/// The headers of the user's that go to a server, for the words about its refusal; what they hold is not in here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Their names.
    pub names: Vec<String>,
    /// The variables that the configuration puts into them.
    pub variables: Vec<String>,
}

impl Sent {
    /// What was sent: `the header Authorization from $LAB_TOKEN`.
    pub(crate) fn message(&self) -> String {
        let header = match self.names.as_slice() {
            [_] => "header",
            _ => "headers",
        };
        let from = match self.variables.as_slice() {
            [] => String::new(),
            variables => format!(" from ${}", variables.join(", $")),
        };
        format!("the {header} {}{from}", self.names.join(", "))
    }

    /// What to do once that was refused.
    pub(crate) fn next(&self) -> String {
        match self.variables.as_slice() {
            [] => "pass other credentials with -H or --bearer-env".to_owned(),
            variables => format!(
                "set ${} to what it takes where longhaul is started, or pass other credentials with -H or --bearer-env",
                variables.join(", $")
            ),
        }
    }
}

/// What the user may insist on for a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The revision to ask for; the era that survives when absent.
    pub version: Option<ProtocolVersion>,
    /// Whether the configuration chose it, not `--protocol`.
    pub is_configured: bool,
}
