//! How to open a session, and where tests end it.

use std::path::PathBuf;

use secrecy::SecretString;

use crate::{
    auth::Logins,
    domain::{ProtocolVersion, ServerConfigs, ServerRef},
    engine::{clock::Clock, hook::Hook},
    store::Paths,
};

/// How to use a session.
#[derive(Debug)]
pub struct Options {
    /// Where it is.
    pub paths: Paths,
    /// Servers named on the command line, with headers that are used and never stored.
    pub servers: Vec<ServerRef>,
    /// What the configuration says of servers.
    pub config: ServerConfigs,
    /// Reads that again, whenever another driver is followed or this process takes over; `None` where it cannot be read,
    /// and then what was read last holds.
    pub read_config: fn() -> Option<ServerConfigs>,
    /// Whether this process only looks: it tells a driver nothing of its configuration, and never takes over from one.
    pub readonly: bool,
    /// What a variable of the environment holds; asked only when a server is connected to whose headers want it.
    pub environment: fn(&str) -> Option<SecretString>,
    /// Who is signed in where.
    pub logins: Logins,
    /// Whether the headers of the configuration may go over plain http to another machine.
    pub insecure_http: bool,
    /// Whether what goes over the wire is recorded, of every server.
    pub traces: bool,
    /// The revision to insist on for every server.
    pub protocol: Option<ProtocolVersion>,
    /// Seeds ids and jitter.
    pub seed: u64,
    /// The clock, shared with the screen so that stamps agree.
    pub clock: Clock,
    /// What to run when something is worth telling; whoever drives runs it.
    pub hook: Option<Hook>,
    /// End this process without any clean-up after so many outputs: the kill tests' way to hit each window.
    pub die_after: Option<u64>,
    /// Where and when to panic; nowhere but in the exit tests.
    pub fuse: FailPoint,
}

/// The exit tests' way to see that a panic in every thread takes the one way out.
#[derive(Clone, Debug, Default)]
pub struct FailPoint {
    /// The thread that is to panic.
    pub thread: Option<PanicIn>,
    /// When: as soon as this file is there, or at once.
    pub lit_by: Option<PathBuf>,
}

impl FailPoint {
    /// Panics if it is the turn of this thread.
    ///
    /// # Panics
    ///
    /// That is what it is for.
    pub fn burn(&self, thread: PanicIn) {
        let is_lit = || self.lit_by.as_ref().is_none_or(|path| path.exists());
        assert!(
            self.thread != Some(thread) || !is_lit(),
            // As loud as what a server could have put into it.
            "{thread:?} was told to panic by \u{9b}2J"
        );
    }
}

/// A thread that is to panic, once there is a session to lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicIn {
    /// The one with the screen.
    Screen,
    /// The one with the links.
    Network,
    /// The one that writes.
    Journal,
    /// The one that reads the keys.
    Input,
}
