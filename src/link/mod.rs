//! The state machine of one server's connection: what to send, when to retry, how each call ended. Pure and sans-IO.
//!
//! Owns every rule of following a call: eras, streams and their cursors, resumption, the checkpoint rule, backoff, the
//! keep-alive of sessions, and the order of disk before network and screen. Must not know how bytes travel, where rows are
//! kept or what time it is: [`Input`]s come in with a [`Stamp`](crate::domain::Stamp), [`Output`]s go out as data.
//!
//! Invariants, attacked by `tests/simulation.rs`:
//! - a call leaves only after the save of its intent, a settled task is shown only after the save of its result;
//! - a cursor is saved only in one transaction with everything that the events up to it changed;
//! - a plain tool is sent at most once; a checkpoint tool again only under the checkpoint rule;
//! - `lost` only with proof, `unknown` only in a window that [`UnknownReason`](crate::domain::UnknownReason) names.

mod active_task;
mod checkpoint;
mod connection;
mod credentials;
mod handshake_error;
mod hosts;
mod in_flight;
mod io;
mod machine;
mod negotiation;
mod pending;
mod queued_requests;
mod reachability;
mod recent_ids;
mod recovery;
mod refusals;
mod replay_gap;
mod replies;
mod save_state;
mod saver;
mod server_task_poll;
mod standalone;
mod steps;
mod stream_state;
mod subscription;
mod task_index;
mod time;

pub use credentials::Sent;
pub use hosts::{PassedNotification, Recipient, RootsRequest};
pub use io::{ExchangeId, Input, Output, SaveToken, Unfollowed};
pub use machine::Link;
pub use negotiation::Choice;
pub use pending::Unsaved;

// What most of these files use.
use active_task::ActiveTask;
use checkpoint::Follow;
use connection::ConnectionState;
use handshake_error::HandshakeError;
use in_flight::{InFlight, RequestKind};
use negotiation::NegotiationStep;
use replay_gap::ReplayGap;
use stream_state::StreamState;
