//! The hosts behind `longhaul proxy` that listen to a server, and what waits for them.

use std::collections::BTreeSet;

use crate::domain::{HostProfile, LogLevel, Mono, SessionRequestId, TaskId};

/// The notifications and requests that a driver has not taken yet; more are dropped.
pub(super) const WAITING: usize = 1024;

/// A notification for the hosts that listen to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedNotification {
    /// Who gets it.
    pub recipient: Recipient,
    /// The message, verbatim JSON.
    pub message: String,
}

/// The hosts that get a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// All that listen to the server.
    AllHosts,
    /// The host of the call on whose stream it came.
    HostOfCall(TaskId),
    /// The host whose request the server has at work.
    HostOfRequest(SessionRequestId),
}

/// A server's request for the directories that the hosts work in, of no single call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootsRequest {
    /// The session that it came in.
    pub(super) session_number: u64,
    /// Its JSON-RPC id, raw JSON.
    pub(super) id: String,
}

/// The hosts that listen, and what waits for them.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    pub(super) profiles: Vec<HostProfile>,
    /// Whether they may know the lists of an earlier session.
    pub(super) know_lists: bool,
    /// When to notify them that the lists have changed, and when they were last notified.
    pub(super) lists_due: Option<Mono>,
    pub(super) lists_told: Option<Mono>,
    /// When they last changed.
    pub(super) since: Mono,
    /// Whether the server was not told what one of them can do, because it was at work.
    pub(super) are_undeclared: bool,
    pub(super) notifications: Vec<PassedNotification>,
    pub(super) roots_requests: Vec<RootsRequest>,
}

impl Hosts {
    /// How many can be asked for their directories at any time.
    pub(super) fn count_with_roots(&self) -> usize {
        let hosts = self.profiles.iter();
        hosts.filter(|host| host.lists_roots()).count()
    }

    /// The resources that at least one host has subscribed to.
    pub(super) fn resources(&self) -> BTreeSet<&String> {
        self.profiles.iter().flat_map(|it| &it.resources).collect()
    }

    /// The least severe log messages that a host has asked for.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        self.profiles.iter().filter_map(|it| it.log_level).min()
    }
}
