//! Requests of a host that wait for its answers to questions of the server.

use std::collections::BTreeSet;

use super::message::Members;

/// A request of the host that goes to the server again once the host has answered the server's questions.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The id of the host's request.
    pub(super) id: String,
    pub(super) method: String,
    pub(super) params: Members,
    pub(super) rounds: u32,
    /// The keys of the questions without an answer.
    pub(super) waiting: BTreeSet<String>,
    pub(super) responses: Members,
}
