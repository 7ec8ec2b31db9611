//! How to open a session.

use std::{ffi::OsString, time::Duration};

use crate::{
    auth::Logins,
    domain::{ProtocolVersion, ServerConfigs, ServerRef},
    engine::{clock::Clock, hook::Hook, keeper::KeeperCommand, tunnel::Host, upgrade::Inherited},
    store::Paths,
    transport::ProcessGuard,
};

/// How often a client looks for the next driver; that can take days.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How to open a session.
pub struct Options {
    /// Where the session is.
    pub paths: Paths,
    /// The servers of the command line, with headers that are used but never stored.
    pub servers: Vec<ServerRef>,
    /// The servers of the configuration.
    pub config: ServerConfigs,
    /// Reads them again whenever this process follows another driver or takes over; `None` if they cannot be read, and
    /// then the previous ones apply.
    pub read_config: fn() -> Option<ServerConfigs>,
    /// Who drives the session.
    pub role: ProcessRole,
    /// What the session is opened for.
    pub purpose: SessionPurpose,
    /// The stored sign-ins.
    pub logins: Logins,
    /// Whether the traffic of every server is recorded.
    pub traces: bool,
    /// The required protocol revision for every server.
    pub protocol: Option<ProtocolVersion>,
    /// The seed of ids and jitter.
    pub seed: u64,
    /// The clock, shared with the screen so that timestamps agree.
    pub clock: Clock,
    /// Ends the servers' processes if this process is killed.
    pub guard: ProcessGuard,
    /// The notification hook; the driver runs it.
    pub hook: Option<Hook>,
    /// The arguments of this process, for the program that replaces a keeper.
    pub args: Vec<OsString>,
    /// What the program left that this one has replaced, if it has.
    pub inherited: Inherited,
}

/// What a session is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPurpose {
    /// A person, who sees that the keeper was stopped and may continue later.
    Screen,
    /// One command, which fails if the keeper is stopped.
    Command,
    /// A host, whose proxy needs only the snapshots of the tasks that it starts or asks for.
    Proxy,
}

/// What a process does for the session that it opens.
#[derive(Clone, Debug)]
pub enum ProcessRole {
    /// Drives if no other process does, and takes over when the driver exits.
    Drive,
    /// Drives in the background, and exits when nothing is left to do.
    Keeper,
    /// Never drives: starts a keeper if there is none.
    Client(KeeperCommand),
    /// Never drives: reaches the keeper of another machine through a tunnel. The session's paths are not used.
    Remote(Host),
    /// Only watches: never drives, starts no keeper, and sends none of its configuration.
    Watch,
}
