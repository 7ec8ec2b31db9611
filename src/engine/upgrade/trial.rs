//! The trial: the new program, run as a child of the keeper. It shows that the new program works, and holds state and
//! files while the keeper replaces its program.
//!
//! It speaks over its standard input, which is a socket. Lines from the trial: its [`Hello`], then [`READY`] or a
//! message, after the state has come. Then it waits for [`GIVE`] from the replaced program, and sends the state on.

use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, WaitOptions, waitpid};

use super::{FORMAT, Inherited, KeeperFiles, KeeperState, UpgradeError, passing};
use crate::{
    domain::text,
    engine::frames::Hello,
    store::{Paths, Reader, StoreError},
};

const READY: &str = "ready";
const GIVE: &str = "give";

/// How long the new program may take to start.
const STARTS_WITHIN: Duration = Duration::from_secs(5);

/// How long it may take to read the state; the keeper serves nobody meanwhile.
const READS_WITHIN: Duration = Duration::from_secs(2);

/// How the new program is run.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Replacement {
    /// The program.
    pub(in crate::engine) program: PathBuf,
    /// The arguments of the keeper, without the following ones.
    pub(in crate::engine) args: Vec<OsString>,
}

/// The argument of the trial run.
const AS_TRIAL: &str = "--trial";
/// The argument of the next keeper.
const AS_KEEPER: &str = "--inherit";

impl Replacement {
    fn command(&self, role: &str, socket: OwnedFd) -> Command {
        let is_role = |arg: &&OsString| **arg == AS_TRIAL || **arg == AS_KEEPER;
        let mut command = Command::new(&self.program);
        command
            .args(self.args.iter().filter(|arg| !is_role(arg)))
            .arg(role)
            .stdin(Stdio::from(socket));
        command
    }

    fn broken(&self, why: impl Into<String>) -> UpgradeError {
        UpgradeError::Broken {
            program: self.program.clone(),
            why: why.into(),
        }
    }
}

/// The keeper's side of a trial run. Dropping it ends the child.
pub(in crate::engine) struct TrialRun {
    replacement: Replacement,
    child: Child,
    socket: UnixStream,
}

impl Drop for TrialRun {
    fn drop(&mut self) {
        // Both fail if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl TrialRun {
    /// Starts the new program and waits until it has identified itself. Blocks.
    pub(in crate::engine) fn start(replacement: Replacement) -> Result<Self, UpgradeError> {
        let (socket, theirs) = UnixStream::pair().map_err(UpgradeError::Passing)?;
        let child = replacement
            .command(AS_TRIAL, OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| UpgradeError::Spawn {
                program: replacement.program.clone(),
                error,
            })?;
        let trial = Self {
            replacement,
            child,
            socket,
        };
        let hello = trial.line(STARTS_WITHIN)?;
        match serde_json::from_str::<Hello>(&hello) {
            Ok(_) => Ok(trial),
            Err(_) => Err(trial.replacement.broken(text::clean_line(&hello))),
        }
    }

    fn line(&self, within: Duration) -> Result<String, UpgradeError> {
        let mut line = String::new();
        let read = self
            .socket
            .set_read_timeout(Some(within))
            .and_then(|()| BufReader::new(&self.socket).read_line(&mut line));
        match read {
            Ok(bytes) if bytes > 0 => Ok(line.trim_end().to_owned()),
            Ok(_) => Err(self
                .replacement
                .broken("it exited immediately; the keeper's log says why")),
            Err(_) => {
                let within = text::duration(within);
                let why = format!("it printed nothing for {within}");
                Err(self.replacement.broken(why))
            }
        }
    }

    /// Its process.
    pub(in crate::engine) fn pid(&self) -> i32 {
        Pid::from_child(&self.child).as_raw_nonzero().get()
    }

    /// Gives it everything, and waits until it has shown that it can continue. Blocks.
    pub(in crate::engine) fn rehearse(
        &self,
        state: &KeeperState,
        files: &KeeperFiles,
    ) -> Result<(), UpgradeError> {
        let failed = |error| UpgradeError::Passing(error);
        let text = serde_json::to_string(state).map_err(|error| failed(error.into()))?;
        // A program that stopped reading must not stop this one.
        let limit = self.socket.set_write_timeout(Some(READS_WITHIN));
        limit.map_err(failed)?;
        passing::send(&self.socket, &text, &files.all()).map_err(failed)?;
        match self.line(READS_WITHIN)? {
            line if line == READY => Ok(()),
            line => Err(self.replacement.broken(text::clean_line(&line))),
        }
    }

    /// Replaces this program, which ends here unless the system refuses.
    pub(in crate::engine) fn replace(self) -> UpgradeError {
        let Ok(socket) = self.socket.try_clone() else {
            return UpgradeError::Busy("it has reached its limit of open files");
        };
        let mut command = self.replacement.command(AS_KEEPER, OwnedFd::from(socket));
        let error = command.exec();
        undo_exec();
        UpgradeError::Spawn {
            program: self.replacement.program.clone(),
            error,
        }
    }
}

/// Undoes what a failed exec has changed in this process: a closed pipe would kill it, and its stdin is a socket.
fn undo_exec() {
    // With a handler, writing to a closed pipe is an error again. Ignoring the signal would take unsafe code.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGPIPE, Arc::default());
    if let Ok(nothing) = File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(nothing);
    }
}

/// Standard input, as the socket that the keeper made of it.
fn socket() -> std::io::Result<UnixStream> {
    let stdin = rustix::stdio::stdin().try_clone_to_owned()?;
    // What this process starts must not get it.
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(stdin))
}

/// Why the new program can't continue.
#[derive(Debug, thiserror::Error)]
enum TrialError {
    #[error("could not parse the state of the running keeper: {0}")]
    State(#[from] serde_json::Error),
    #[error("the running keeper is newer than this program")]
    NewerKeeper,
    #[error("could not {0}")]
    Session(#[from] StoreError),
    #[error("some files are missing")]
    MissingFiles,
}

fn parse(text: &str) -> Result<KeeperState, TrialError> {
    let state: KeeperState = serde_json::from_str(text)?;
    if state.format > FORMAT {
        return Err(TrialError::NewerKeeper);
    }
    Ok(state)
}

/// The trial run, in the child: tries the state out and passes it on. `obstacle` says why this program could not be a
/// keeper. `Err` is for the log; the keeper has been told.
pub fn run_trial(paths: &Paths, obstacle: Option<&str>) -> std::io::Result<()> {
    let socket = socket()?;
    if let Some(obstacle) = obstacle {
        return writeln!(&socket, "{}", text::clean_line(obstacle));
    }
    let hello = serde_json::to_string(&Hello::ours(paths.contract))?;
    writeln!(&socket, "{hello}")?;
    let (text, files) = passing::receive(&socket)?;
    let tried = parse(&text).and_then(|state| {
        drop(Reader::open(paths)?);
        KeeperFiles::sort(&state, files).ok_or(TrialError::MissingFiles)
    });
    let files = match tried {
        Ok(files) => files,
        Err(error) => return writeln!(&socket, "{}", text::clean_line(&error.to_string())),
    };
    writeln!(&socket, "{READY}")?;
    let mut line = String::new();
    BufReader::new(&socket).read_line(&mut line)?;
    if line.trim_end() != GIVE {
        // The keeper has taken everything back, or was killed.
        return Ok(());
    }
    passing::send(&socket, &text, &files.all())
}

/// Takes over from the program that this one has replaced.
///
/// # Errors
/// Nothing is left to continue with if this fails: the trial run has proved that it does not.
pub fn inherit() -> std::io::Result<Inherited> {
    let socket = socket()?;
    socket.set_nonblocking(false)?;
    writeln!(&socket, "{GIVE}")?;
    let (text, files) = passing::receive(&socket)?;
    drop(socket);
    let state = parse(&text).map_err(std::io::Error::other)?;
    if let Some(trial) = Pid::from_raw(state.trial) {
        // It has nothing left to do.
        let _ = waitpid(Some(trial), WaitOptions::empty());
    }
    let files = KeeperFiles::sort(&state, files)
        .ok_or_else(|| std::io::Error::other(TrialError::MissingFiles))?;
    Ok(Inherited::new(state, files))
}
