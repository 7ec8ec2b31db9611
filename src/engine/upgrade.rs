//! `keeper upgrade`: the keeper becomes another program without losing a call.
//!
//! The keeper replaces its program (`exec`), so it stays the parent of the server processes and keeps its process id. What
//! a new program can't read from the session file is in the [`KeeperState`]: pipes, the lock, the socket, and values that
//! are never saved. A new program that doesn't work must not cost a call, so the keeper first tests it:
//!
//! 1. It starts the new program as a child, the [`TrialRun`], which says which version it is.
//! 2. It saves everything, stops between two lines of each pipe, and passes state and files to the child. The child
//!    tries them out and says that it could continue. Until here all of it can be taken back.
//! 3. It replaces its program. The new one asks the child for state and files, and continues ([`inherit`]).
//!
//! Values and files cross a socket pair, never a file or an environment.

mod passing;
mod trial;

use std::{
    fmt,
    fs::File,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

pub(super) use self::trial::{Replacement, TrialRun};
pub use self::trial::{inherit, run_trial};
use super::server_configs::KnownConfigs;
use crate::{
    domain::ServerName,
    store::DriverLock,
    transport::{KnownSecret, ProgramPipes, ProgramState},
};

/// The version of [`KeeperState`]. A program reads its own and older ones.
pub(super) const FORMAT: u32 = 1;

/// Why a keeper was not upgraded. It continues as it was.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpgradeError {
    /// The new program could not be run.
    #[error("could not run {program}: {error}", program = .program.display())]
    Spawn {
        /// The new program.
        program: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// It exited or sent something unexpected.
    #[error("{program} can't take over from the keeper: {why}", program = .program.display())]
    Broken {
        /// The new program.
        program: PathBuf,
        /// What it did.
        why: String,
    },
    /// Something is going on that takes a moment, such as a save.
    #[error("{0}")]
    Busy(&'static str),
    /// State and files could not be passed.
    #[error("could not pass its files to the new program: {0}")]
    Passing(std::io::Error),
}

impl UpgradeError {
    pub(super) const IN_PROGRESS: Self = Self::Busy("another upgrade is in progress");
}

/// What one keeper tells the program that replaces it. New fields get a default, so that an older keeper can be upgraded.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct KeeperState {
    /// [`FORMAT`] of the keeper that wrote it.
    pub(super) format: u32,
    /// The contract of the socket that is passed.
    pub(super) contract: u32,
    /// When the keeper began to drive, in milliseconds since 1970.
    pub(super) since_ms: Option<i64>,
    /// When it stopped for the upgrade, in milliseconds since 1970.
    pub(super) paused_at_ms: i64,
    /// What its clients configured, with the variables that only they have.
    pub(super) configs: KnownConfigs,
    /// Whether every new server is traced.
    pub(super) traces: bool,
    /// What is known about servers in addition to what is saved.
    pub(super) links: Vec<LinkState>,
    /// The process that ends server processes if the keeper is killed.
    pub(super) guard: Option<i32>,
    /// The process of the trial run.
    pub(super) trial: i32,
}

/// What is known about a server in addition to what is saved. `Debug` shows only its name, for the rest may be secret.
#[derive(Serialize, Deserialize)]
pub(super) struct LinkState {
    /// Its name.
    pub(super) server: ServerName,
    /// Headers from a command line.
    pub(super) headers: Vec<(String, String)>,
    /// Headers from a client's configuration.
    pub(super) config_headers: Vec<(String, String)>,
    /// Whether credentials may be sent over plain http.
    #[serde(default)]
    pub(super) insecure_http: bool,
    /// What its server must not make us show.
    pub(super) secrets: Vec<KnownSecret>,
    /// Whether its traffic is recorded.
    pub(super) is_traced: bool,
    /// Its running process, if it is a program.
    pub(super) program: Option<ProgramState>,
    /// Whether that has closed its stderr.
    #[serde(default)]
    pub(super) has_no_stderr: bool,
}

impl fmt::Debug for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkState")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// The files that cross with a [`KeeperState`], in this order.
pub(super) struct KeeperFiles {
    /// The lock of the driver, held.
    pub(super) lock: OwnedFd,
    /// The socket on which clients connect.
    pub(super) listener: OwnedFd,
    /// The client that waits for the upgrade.
    pub(super) client: OwnedFd,
    /// The pipe to the guard.
    pub(super) guard: Option<OwnedFd>,
    /// The pipes of each running program.
    pub(super) programs: Vec<ProgramPipes>,
}

impl KeeperFiles {
    fn all(&self) -> Vec<BorrowedFd<'_>> {
        let single = [&self.lock, &self.listener, &self.client];
        let of_programs = self.programs.iter().flat_map(|pipes| {
            [
                Some(&pipes.stdin),
                Some(&pipes.stdout),
                pipes.stderr.as_ref(),
            ]
        });
        let all = single.into_iter().map(Some).chain([self.guard.as_ref()]);
        let all = all.chain(of_programs).flatten();
        all.map(|file| file.as_fd()).collect()
    }

    /// Tells apart what [`Self::all`] put in a row.
    fn sort(state: &KeeperState, files: Vec<OwnedFd>) -> Option<Self> {
        let mut files = files.into_iter();
        let (lock, listener, client) = (files.next()?, files.next()?, files.next()?);
        let guard = match state.guard {
            Some(_) => Some(files.next()?),
            None => None,
        };
        let mut programs = Vec::new();
        for link in state.links.iter().filter(|link| link.program.is_some()) {
            programs.push(ProgramPipes {
                stdin: files.next()?,
                stdout: files.next()?,
                stderr: if link.has_no_stderr {
                    None
                } else {
                    Some(files.next()?)
                },
            });
        }
        Some(Self {
            lock,
            listener,
            client,
            guard,
            programs,
        })
    }
}

/// What a keeper continues with whose program was replaced. Without an upgrade, nothing.
#[derive(Debug, Default)]
pub struct Inherited {
    pub(super) state: KeeperState,
    pub(super) lock: Option<DriverLock>,
    pub(super) listener: Option<UnixListener>,
    /// Waits for the end of the upgrade.
    pub(super) client: Option<UnixStream>,
    pub(super) guard: Option<(i32, OwnedFd)>,
    /// The pipes of the programs, in the order of the links that have one.
    pub(super) programs: Vec<ProgramPipes>,
}

impl Inherited {
    /// Whether this program has replaced another one.
    pub fn is_something(&self) -> bool {
        self.lock.is_some()
    }

    fn new(state: KeeperState, files: KeeperFiles) -> Self {
        Self {
            lock: Some(DriverLock::inherit(File::from(files.lock))),
            listener: Some(UnixListener::from(files.listener)),
            client: Some(UnixStream::from(files.client)),
            guard: state.guard.zip(files.guard),
            programs: files.programs,
            state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a keeper of format 1 writes. It is never changed: a newer program reads it.
    const FORMAT_1: &str = r#"{"format":1,"contract":5,"since_ms":1700000000000,"paused_at_ms":1700000001000,
        "configs":{"own":"/c","listed":{"lab":{"file":"/c","server":{"name":"lab","url":"http://lab/mcp",
            "protocol":null,"progress_from_text":false}}},
            "gone":{},"surroundings":{"/c":{"variables":{"KEY":"hunter22"},"directory":"/home"}}},
        "insecure_http":false,"traces":true,
        "links":[{"server":"lab","headers":[["X-Key","hunter22"]],"config_headers":[],
            "secrets":[{"label":"x-key","value":"hunter22","kind":"shared"}],"is_traced":true,
            "program":{"pid":77,"unread":"eyJh","unread_log":"","log":["out of cheese"],"stray_lines":2}}],
        "guard":78,"trial":79}"#;

    #[test]
    fn reads_what_older_keepers_wrote() {
        let state: KeeperState = serde_json::from_str(FORMAT_1).unwrap();
        assert_eq!(
            (state.contract, state.guard, state.trial),
            (5, Some(78), 79)
        );
        let [link] = &state.links[..] else {
            panic!("{state:?}");
        };
        assert_eq!(link.program.as_ref().unwrap().unread, "eyJh");
        let name = ServerName::new("lab");
        assert_eq!(
            state.configs.surroundings(&name).variables.get("KEY"),
            Some("hunter22")
        );
        assert!(!format!("{state:?}").contains("hunter22"));
        // And nothing that this version writes is unknown there. It has no use for `stray_lines`.
        let written = serde_json::to_value(&state).unwrap();
        let mut before: serde_json::Value = serde_json::from_str(FORMAT_1).unwrap();
        before["links"][0]["has_no_stderr"] = false.into();
        before["links"][0]["insecure_http"] = false.into();
        let program = before["links"][0]["program"].as_object_mut();
        program.unwrap().remove("stray_lines");
        assert_eq!(written["links"], before["links"]);
    }
}
