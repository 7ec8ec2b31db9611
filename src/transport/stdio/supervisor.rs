//! Waits for a server process, and ends it and everything in its process group.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, sync::Arc, time::Duration};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    inherit::{ProgramProcess, Suspension},
    stderr::StderrTail,
};
use crate::transport::process_guard::ProcessGuard;

/// How long a process may take to exit after its stdin is closed.
const STDIN_CLOSE_GRACE: Duration = Duration::from_millis(400);

/// How long it may take to exit after SIGTERM.
const SIGTERM_GRACE: Duration = Duration::from_millis(300);

/// How long the rest of its process group may take to exit.
const GROUP_GRACE: Duration = Duration::from_millis(100);

const EXITED: &str = "the server process exited";

/// The current or most recent process.
pub(super) struct ServerProcess {
    pub(super) pid: Option<Pid>,
    pub(super) input: mpsc::Sender<OutgoingLine>,
    /// Notified to end the process.
    pub(super) end: Notify,
    /// Why it exited; `None` while it runs.
    pub(super) exit_reason: watch::Receiver<Option<String>>,
    pub(super) tail: StderrTail,
    /// Stops its tasks for a while.
    pub(super) suspension: Arc<Suspension>,
}

/// A line for its stdin.
pub(super) struct OutgoingLine {
    pub(super) line: String,
    pub(super) written: oneshot::Sender<()>,
}

impl ServerProcess {
    /// Waits until the process has exited, and returns why.
    pub(super) async fn why(&self) -> String {
        match self.exit_reason.clone().wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => EXITED.to_owned(),
        }
    }
}

/// All processes that were started for one server. Dropping it kills those that are left.
pub(super) struct ProcessGroup {
    /// Its first process; `None` once all have ended.
    leader: Option<Pid>,
    guard: ProcessGuard,
}

impl ProcessGroup {
    /// `is_guarded`: the guard knows it already.
    pub(super) fn new(leader: Option<Pid>, guard: ProcessGuard, is_guarded: bool) -> Self {
        if let Some(leader) = leader.filter(|_| !is_guarded) {
            guard.add(leader);
        }
        Self { leader, guard }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.leader {
            // It may have exited already.
            let _ = kill_process_group(group, signal);
        }
    }

    fn exists(&self) -> bool {
        self.leader
            .is_some_and(|group| test_kill_process_group(group).is_ok())
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Waits until a process exits, or ends it on request.
pub(super) struct ProcessSupervisor {
    pub(super) child: ProgramProcess,
    pub(super) group: ProcessGroup,
    pub(super) process: Arc<ServerProcess>,
    pub(super) writer: JoinHandle<()>,
    pub(super) stderr_reader: JoinHandle<()>,
}

impl ProcessSupervisor {
    pub(super) async fn run(mut self, exit_sender: watch::Sender<Option<String>>) {
        let (status, is_requested) = tokio::select! {
            status = self.child.wait() => (status, false),
            () = self.process.end.notified() => (self.end().await, true),
        };
        self.writer.abort();
        if self.group.exists() {
            self.group.signal(Signal::TERM);
            sleep(GROUP_GRACE).await; // sleep: nothing reports the end of a process group
            self.group.signal(Signal::KILL);
        }
        if let Some(leader) = self.group.leader.take() {
            self.group.guard.remove(leader);
        }
        if timeout(GROUP_GRACE, &mut self.stderr_reader).await.is_err() {
            self.stderr_reader.abort();
        }
        let how = match status {
            Ok(status) => exit_message(status, is_requested),
            Err(error) => format!("could not wait for the server process: {error}"),
        };
        let stderr = self.process.tail.message();
        let why = if stderr.is_empty() {
            how
        } else {
            format!("{how}; stderr: {stderr}")
        };
        // The receiver may be gone.
        let _ = exit_sender.send(Some(why));
    }

    /// The shutdown sequence of the specification: close stdin, then SIGTERM, then SIGKILL.
    async fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.writer.abort();
        if let Ok(status) = timeout(STDIN_CLOSE_GRACE, self.child.wait()).await {
            return status;
        }
        self.group.signal(Signal::TERM);
        if let Ok(status) = timeout(SIGTERM_GRACE, self.child.wait()).await {
            return status;
        }
        self.group.signal(Signal::KILL);
        self.child.wait().await
    }
}

fn exit_message(status: ExitStatus, is_requested: bool) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) if is_requested => EXITED.to_owned(),
        (Some(code), _) => format!("{EXITED} with status {code}"),
        (None, Some(signal)) => format!("the server process was killed by signal {signal}"),
        (None, None) => EXITED.to_owned(),
    }
}
