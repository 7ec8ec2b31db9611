//! Ends server processes even if this process is killed: a helper process learns of each process group, and ends those
//! that are left when its pipe closes.
//!
//! Closing stdin tells a server to exit, and the system closes it when this process dies. This is for servers that don't
//! listen, and for the processes that they started.

use std::{
    collections::BTreeSet,
    io::{BufRead, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::process::{
    Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpid,
};

use crate::domain::locked;

/// How long servers may take to exit after SIGTERM.
const SIGTERM_GRACE: Duration = Duration::from_millis(500);

/// A handle to the helper process, which starts with the first server; cheap to clone. The default one has no helper.
#[derive(Clone, Debug, Default)]
pub struct ProcessGuard {
    /// The program and its arguments.
    command: Option<(PathBuf, Vec<&'static str>)>,
    helper: Arc<Mutex<Option<Helper>>>,
}

/// The helper process.
#[derive(Debug)]
struct Helper {
    pid: Pid,
    pipe: ChildStdin,
}

impl ProcessGuard {
    /// The helper is this program with these arguments; it has to call [`guard_processes`].
    pub fn new(program: PathBuf, args: &[&'static str]) -> Self {
        Self {
            command: Some((program, args.to_vec())),
            helper: Arc::default(),
        }
    }

    /// The helper as another process can take it over: its process id and its pipe; `None` if none has started.
    pub fn capture(&self) -> Option<(i32, OwnedFd)> {
        let helper = locked(&self.helper);
        let helper = helper.as_ref()?;
        let pipe = helper.pipe.as_fd().try_clone_to_owned().ok()?;
        Some((helper.pid.as_raw_nonzero().get(), pipe))
    }

    /// Continues with a helper that was started before this program was replaced.
    pub fn inherit(&self, pid: i32, pipe: OwnedFd) {
        let pipe = ChildStdin::from(pipe);
        let mut helper = locked(&self.helper);
        *helper = Pid::from_raw(pid).map(|pid| Helper { pid, pipe });
    }

    /// The group is ended if this process dies before [`Self::remove`].
    pub(super) fn add(&self, group: Pid) {
        self.tell('+', group);
    }

    /// The group has ended.
    pub(super) fn remove(&self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&self, sign: char, group: Pid) {
        let Some((program, args)) = &self.command else {
            return;
        };
        let mut helper = locked(&self.helper);
        if helper.is_none() {
            match start(program, args) {
                Ok(started) => *helper = Some(started),
                // Without it, a server that ignores the end of its stdin may outlive a killed keeper.
                Err(error) => return tracing::warn!(%error, "could not start the process guard"),
            }
        }
        let group = group.as_raw_nonzero();
        let pipe = helper.as_mut().map(|helper| &mut helper.pipe);
        if let Some(Err(error)) = pipe.map(|pipe| writeln!(pipe, "{sign}{group}")) {
            tracing::warn!(%error, "the process guard has ended");
            if let Some(ended) = helper.take() {
                let _ = waitpid(Some(ended.pid), WaitOptions::empty());
            }
        }
    }
}

fn start(program: &Path, args: &[&str]) -> std::io::Result<Helper> {
    let mut child = Command::new(program)
        .args(args)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C and a hang-up must not reach it.
        .process_group(0)
        .spawn()?;
    let pipe = child.stdin.take().ok_or(rustix::io::Errno::PIPE)?;
    let pid = Pid::from_child(&child);
    Ok(Helper { pid, pipe })
}

/// The helper process: reads `+GROUP` and `-GROUP` until the input ends, then ends the groups that are left.
pub fn guard_processes(input: impl BufRead) {
    let mut groups = BTreeSet::new();
    for line in input.lines().map_while(Result::ok) {
        let (sign, group) = line.split_at_checked(1).unwrap_or_default();
        match (sign, group.parse::<i32>()) {
            ("+", Ok(group)) => drop(groups.insert(group)),
            ("-", Ok(group)) => drop(groups.remove(&group)),
            _ => {}
        }
    }
    let left = || groups.iter().filter_map(|group| Pid::from_raw(*group));
    for group in left() {
        let _ = kill_process_group(group, Signal::TERM);
    }
    if left().any(|group| test_kill_process_group(group).is_ok()) {
        // Nothing reports the end of a process group.
        std::thread::park_timeout(SIGTERM_GRACE);
    }
    for group in left() {
        let _ = kill_process_group(group, Signal::KILL);
    }
}
