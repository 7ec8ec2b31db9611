//! How to open a session, and where tests make it fail.

use std::{ffi::OsString, path::PathBuf};

use crate::{
    auth::Logins,
    domain::{ProtocolVersion, ServerConfigs, ServerRef},
    engine::{clock::Clock, hook::Hook, keeper::KeeperCommand, tunnel::Host, upgrade::Inherited},
    store::Paths,
    transport::ProcessGuard,
};

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
    /// Whether this process needs only the snapshots of the tasks that it starts or asks for.
    pub only_followed: bool,
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
    /// Kills this process after this many outputs, so that the kill tests hit every window.
    pub die_after: Option<u64>,
    /// Where and when to panic; used only by the exit tests.
    pub fuse: FailPoint,
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

/// Lets the exit tests check that a panic in any thread exits the same way.
#[derive(Clone, Debug, Default)]
pub struct FailPoint {
    /// The thread to panic.
    pub thread: Option<PanicIn>,
    /// Panics once this file exists; immediately if there is none.
    pub lit_by: Option<PathBuf>,
}

impl FailPoint {
    /// Panics if this thread was chosen and the time has come.
    ///
    /// # Panics
    ///
    /// On purpose, as described.
    pub fn burn(&self, thread: PanicIn) {
        let is_lit = || self.lit_by.as_ref().is_none_or(|path| path.exists());
        assert!(
            self.thread != Some(thread) || !is_lit(),
            // With a control character, as a server could have sent it.
            "{thread:?} was told to panic by \u{9b}2J"
        );
    }
}

/// A thread that can be made to panic once there is a session to lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicIn {
    /// The screen's thread.
    Screen,
    /// The network thread.
    Network,
    /// The writer thread.
    Journal,
    /// The thread that reads the keyboard.
    Input,
}
