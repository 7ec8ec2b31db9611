//! How a running program passes from one process of longhaul to the next, with its pipes and what was read from them.
//!
//! First [`Suspension`] makes the tasks that read and write the pipes stop between two lines. Then their pipes are
//! duplicated, and another process, or this program after it was replaced, continues with the duplicates. Until then all of
//! it can be taken back.

use std::{
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::process::ExitStatusExt as _,
    },
    process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus},
    sync::Mutex,
};

use rustix::process::{Pid, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};
use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::domain::locked;

/// What one process tells the next about a running program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramState {
    /// Its process id, which is also the id of its process group.
    pub pid: i32,
    /// The beginning of a line of its stdout, in Base64.
    pub unread: String,
    /// The beginning of a line of its stderr, in Base64.
    pub unread_log: String,
    /// The last lines of its stderr.
    pub log: Vec<String>,
}

/// The pipes of a running program.
#[derive(Debug)]
pub struct ProgramPipes {
    /// Where it reads messages.
    pub stdin: OwnedFd,
    /// Where it writes messages.
    pub stdout: OwnedFd,
    /// Where it writes its log; `None` once it has closed that.
    pub stderr: Option<OwnedFd>,
}

impl ProgramPipes {
    pub(super) fn into_tokio(
        self,
    ) -> std::io::Result<(
        tokio::process::ChildStdin,
        tokio::process::ChildStdout,
        Option<tokio::process::ChildStderr>,
    )> {
        let stderr = self.stderr.map(ChildStderr::from);
        Ok((
            tokio::process::ChildStdin::from_std(ChildStdin::from(self.stdin))?,
            tokio::process::ChildStdout::from_std(ChildStdout::from(self.stdout))?,
            stderr
                .map(tokio::process::ChildStderr::from_std)
                .transpose()?,
        ))
    }
}

/// The process of a program, as its supervisor waits for it.
pub(super) enum ProgramProcess {
    /// This process started it.
    Started(Child),
    /// This program was another one when it started it: only the system knows that it is our child.
    Inherited(Pid),
}

impl ProgramProcess {
    pub(super) fn id(&self) -> Option<Pid> {
        match self {
            Self::Started(child) => Pid::from_raw(child.id()?.try_into().ok()?),
            Self::Inherited(pid) => Some(*pid),
        }
    }

    /// Waits until it has exited.
    pub(super) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let pid = match self {
            Self::Started(child) => return child.wait().await,
            Self::Inherited(pid) => *pid,
        };
        // Before the first look, so that an exit in between is not missed.
        let mut exits = signal(SignalKind::child())?;
        loop {
            if let Some((_, status)) = waitpid(Some(pid), WaitOptions::NOHANG)? {
                return Ok(ExitStatus::from_raw(status.as_raw()));
            }
            exits.recv().await;
        }
    }
}

/// Stops the tasks of one program between two lines.
#[derive(Debug)]
pub(super) struct Suspension {
    is_wanted: watch::Sender<bool>,
    parked: Mutex<Parked>,
    /// Changes whenever a task has stopped.
    changed: watch::Sender<()>,
}

/// What the tasks of a program left when they stopped.
#[derive(Debug, Default)]
struct Parked {
    stdin: Option<OwnedFd>,
    stdout: Option<(OwnedFd, Vec<u8>)>,
    stderr: Option<(OwnedFd, Vec<u8>)>,
    has_no_stderr: bool,
}

impl Parked {
    fn is_complete(&self) -> bool {
        self.stdin.is_some() && self.stdout.is_some() && self.has_log()
    }

    fn has_log(&self) -> bool {
        self.stderr.is_some() || self.has_no_stderr
    }
}

impl Suspension {
    pub(super) fn new(has_stderr: bool) -> Self {
        Self {
            is_wanted: watch::Sender::new(false),
            parked: Mutex::new(Parked {
                has_no_stderr: !has_stderr,
                ..Parked::default()
            }),
            changed: watch::Sender::new(()),
        }
    }

    /// Asks the tasks to stop, and waits until all have. Cancel-safe.
    pub(super) async fn suspend(&self) {
        self.is_wanted.send_replace(true);
        self.parked_as(Parked::is_complete).await;
    }

    async fn parked_as(&self, is_so: impl Fn(&Parked) -> bool) {
        let mut changes = self.changed.subscribe();
        while !is_so(&locked(&self.parked)) {
            // The sender lives as long as this.
            let _ = changes.changed().await;
        }
    }

    /// Lets the tasks continue.
    pub(super) fn resume(&self) {
        let mut parked = locked(&self.parked);
        (parked.stdin, parked.stdout, parked.stderr) = (None, None, None);
        drop(parked);
        self.is_wanted.send_replace(false);
    }

    /// What the stopped tasks left; `None` unless all have stopped.
    pub(super) fn capture(&self) -> Option<(ProgramPipes, Vec<u8>, Vec<u8>)> {
        let parked = locked(&self.parked);
        let duplicate = |pipe: &OwnedFd| pipe.try_clone().ok();
        let (stdout, unread) = parked.stdout.as_ref()?;
        let (stderr, unread_log) = match &parked.stderr {
            Some((stderr, unread)) => (Some(duplicate(stderr)?), unread.clone()),
            None if parked.has_no_stderr => (None, Vec::new()),
            None => return None,
        };
        let pipes = ProgramPipes {
            stdin: duplicate(parked.stdin.as_ref()?)?,
            stdout: duplicate(stdout)?,
            stderr,
        };
        Some((pipes, unread.clone(), unread_log))
    }

    /// Completes when the tasks have to stop. Cancel-safe.
    pub(super) async fn wanted(&self) {
        self.becomes(true).await;
    }

    /// The same for the task that reads stdout: what stderr brought goes first.
    pub(super) async fn wanted_of_stdout(&self) {
        self.wanted().await;
        self.parked_as(Parked::has_log).await;
    }

    async fn becomes(&self, is_wanted: bool) {
        let mut changes = self.is_wanted.subscribe();
        // The sender lives as long as this.
        let _ = changes.wait_for(|is| *is == is_wanted).await;
    }

    pub(super) async fn park_stdin(&self, stdin: BorrowedFd<'_>) {
        locked(&self.parked).stdin = stdin.try_clone_to_owned().ok();
        self.stay().await;
    }

    pub(super) async fn park_stdout(&self, stdout: BorrowedFd<'_>, unread: &[u8]) {
        let stdout = stdout.try_clone_to_owned().ok();
        locked(&self.parked).stdout = stdout.map(|stdout| (stdout, unread.to_vec()));
        self.stay().await;
    }

    pub(super) async fn park_stderr(&self, stderr: BorrowedFd<'_>, unread: &[u8]) {
        let stderr = stderr.try_clone_to_owned().ok();
        locked(&self.parked).stderr = stderr.map(|stderr| (stderr, unread.to_vec()));
        self.stay().await;
    }

    pub(super) fn stderr_ended(&self) {
        locked(&self.parked).has_no_stderr = true;
        self.changed.send_replace(());
    }

    async fn stay(&self) {
        self.changed.send_replace(());
        self.becomes(false).await;
    }
}
