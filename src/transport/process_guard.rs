//! Ends server processes even if this process is killed: a helper process learns of each process group, and ends those
//! that are left when its pipe closes.
//!
//! Closing stdin tells a server to exit, and the system closes it when this process dies. This is for servers that don't
//! listen, and for the processes that they started.

use std::{
    collections::BTreeSet,
    io::{BufRead, Write as _},
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// How long servers may take to exit after SIGTERM.
const SIGTERM_GRACE: Duration = Duration::from_millis(500);

/// A handle to the helper process, which starts with the first server; cheap to clone. The default one has no helper.
#[derive(Clone, Debug, Default)]
pub struct ProcessGuard {
    /// The program and its arguments.
    command: Option<(PathBuf, Vec<&'static str>)>,
    helper: Arc<Mutex<Option<Child>>>,
}

impl ProcessGuard {
    /// The helper is this program with these arguments; it has to call [`guard_processes`].
    pub fn new(program: PathBuf, args: &[&'static str]) -> Self {
        Self {
            command: Some((program, args.to_vec())),
            helper: Arc::default(),
        }
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
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        if helper.is_none() {
            let started = Command::new(program)
                .args(args)
                .env_clear()
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                // Ctrl-C and a hang-up must not reach it.
                .process_group(0)
                .spawn();
            match started {
                Ok(child) => *helper = Some(child),
                // Without it, a server that ignores the end of its stdin may outlive a killed keeper.
                Err(error) => return tracing::warn!(%error, "could not start the process guard"),
            }
        }
        let pipe = helper.as_mut().and_then(|helper| helper.stdin.as_mut());
        let group = group.as_raw_nonzero();
        if let Some(Err(error)) = pipe.map(|pipe| writeln!(pipe, "{sign}{group}")) {
            tracing::warn!(%error, "the process guard has ended");
            if let Some(mut ended) = helper.take() {
                let _ = ended.wait();
            }
        }
    }
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
