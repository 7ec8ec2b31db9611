//! Starts the keeper: the background process that drives a session for its clients.
//!
//! The order makes sure that there is only one: connect; take the start lock; connect again; only then start a keeper,
//! which takes the driver's lock before it touches the socket. What counts is a held lock, never that a file exists.

use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead as _, ErrorKind, Write as _},
    os::unix::net::UnixStream as StdUnixStream,
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::UnixStream,
    process::Command,
    time::{sleep, timeout},
};

use super::{
    frames::{
        FirstFrame, KeeperStatus, TaskConnections, UpgradeOutcome, UpgradeRequest, Verb, VerbAnswer,
    },
    upgrade::UpgradeError,
};
use crate::{
    domain::{exit, text},
    store::{DriverLock, Paths, StartLock, StoreError},
};

/// How long a keeper may take until it answers; loading a large session on a slow disk takes a part of that.
const START_WITHIN: Duration = Duration::from_secs(20);

/// How often to look whether another client has started the keeper.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a keeper prints once clients can connect. Anything else is the message why it cannot run.
pub const READY: &str = "ready";

/// The command that runs a keeper in the background.
#[derive(Clone, Debug)]
pub struct KeeperCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment; nothing else is inherited.
    pub env: Vec<(OsString, OsString)>,
}

/// Why no keeper could be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The lock or the log could not be opened.
    #[error("could not {0}")]
    Store(#[from] StoreError),
    /// The program could not be run.
    #[error("could not run {program} as the keeper: {error}", program = .program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The keeper could not run.
    #[error("{message}")]
    Refused {
        /// Its exit code.
        exit: u8,
        /// Its message.
        message: String,
    },
    /// It exited without a message.
    #[error("the keeper exited before it was ready; see {log}", log = .log.display())]
    Exited {
        /// The log file.
        log: PathBuf,
    },
    /// A keeper of another version drives the session, and it has work.
    #[error("{}", other_version(.0, *.1))]
    OtherVersion(KeeperStatus, u32),
    /// It did not become ready in time.
    #[error("the keeper did not answer within {} s; see {log}", START_WITHIN.as_secs(), log = .log.display())]
    Silent {
        /// The log file.
        log: PathBuf,
    },
}

impl StartError {
    /// The exit code of a command that needs the keeper.
    pub fn exit(&self) -> u8 {
        match self {
            Self::Refused { exit, .. } => *exit,
            Self::Store(_) => exit::CANNOT_SAVE,
            Self::OtherVersion(..)
            | Self::Spawn { .. }
            | Self::Exited { .. }
            | Self::Silent { .. } => exit::DRIVER_SILENT,
        }
    }
}

impl KeeperCommand {
    /// Starts a keeper, unless one answers or another client is starting one, and waits until it answers.
    pub(super) async fn start(&self, paths: &Paths) -> Result<(), StartError> {
        timeout(START_WITHIN, self.start_or_wait(paths))
            .await
            .unwrap_or_else(|_| Err(StartError::Silent { log: paths.log() }))
    }

    async fn start_or_wait(&self, paths: &Paths) -> Result<(), StartError> {
        let _lock = loop {
            if let Some(lock) = StartLock::try_take(paths)? {
                break lock;
            }
            sleep(LOOK_EVERY).await; // sleep: the system has no way to wait for a lock without a thread
            if answers(paths).await {
                return Ok(());
            }
        };
        if answers(paths).await {
            return Ok(());
        }
        let of_others = paths.clone();
        tokio::task::spawn_blocking(move || replace_other(&of_others))
            .await
            .unwrap_or(Ok(()))?;
        self.run(paths, paths.open_log()?).await
    }

    async fn run(&self, paths: &Paths, log: File) -> Result<(), StartError> {
        let spawned = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn();
        let mut keeper = spawned.map_err(|error| StartError::Spawn {
            program: self.program.clone(),
            error,
        })?;
        let exited = || StartError::Exited { log: paths.log() };
        let mut lines = BufReader::new(keeper.stdout.take().ok_or_else(exited)?).lines();
        match lines.next_line().await {
            Ok(Some(line)) if line == READY => Ok(()),
            Ok(Some(line)) => Err(refusal(&line).unwrap_or_else(exited)),
            Ok(None) | Err(_) => Err(exited()),
        }
    }
}

/// Stops an idle keeper of an older version. One that has work, or a newer one, stays.
fn replace_other(paths: &Paths) -> Result<(), StartError> {
    // Without an answer there is nothing to say about it; the lock decides.
    let Ok(Some(status)) = keeper_status(paths) else {
        return Ok(());
    };
    let ours = paths.contract;
    if status.contract == ours {
        return Ok(());
    }
    let is_replaceable = status.contract < ours && status.unsettled == 0 && status.is_keeper;
    if is_replaceable && stop_keeper(paths).is_ok() {
        return Ok(());
    }
    Err(StartError::OtherVersion(status, ours))
}

/// Which side is older, and what to do.
fn other_version(status: &KeeperStatus, ours: u32) -> String {
    let KeeperStatus {
        pid,
        version,
        unsettled,
        contract,
        ..
    } = status;
    let version = text::clean_line(version);
    let tasks = text::plural(*unsettled as u64, "unfinished task");
    if *contract > ours {
        format!(
            "the keeper (process {pid}, longhaul {version}, {tasks}) is newer than this longhaul; update this one, or stop the keeper: `longhaul keeper stop`"
        )
    } else {
        format!(
            "the keeper (process {pid}, longhaul {version}) is older than this longhaul and has {tasks}; upgrade it (`longhaul keeper upgrade`) or stop it (`longhaul keeper stop`)"
        )
    }
}

/// What a keeper prints that cannot run: its exit code and its message.
fn refusal(line: &str) -> Option<StartError> {
    let (exit, message) = line.split_once(' ')?;
    Some(StartError::Refused {
        exit: exit.parse().ok()?,
        message: message.to_owned(),
    })
}

/// Whether somebody listens on the session's socket.
async fn answers(paths: &Paths) -> bool {
    UnixStream::connect(paths.socket()).await.is_ok()
}

/// Separates a keeper from the terminal and the directory of the client that started it. Its signals and its standard
/// input are set already.
///
/// # Errors
/// The system's, for example if this process leads a process group.
pub fn detach() -> std::io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    std::env::set_current_dir("/")
}

/// Closes the pipe to the client that started this keeper.
pub fn leave_terminal() {
    // The client sees the end of the pipe when this process exits, at the latest.
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

/// How long a keeper may take to answer a verb.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long a driver may take to answer a command that only lists tasks.
const CONNECTIONS_WITHIN: Duration = Duration::from_millis(500);

/// How long an upgrade may take: a new program starts, and a keeper stops and starts.
const UPGRADES_WITHIN: Duration = Duration::from_secs(20);

/// How long a keeper may take to save everything and exit; its own limits add up to less.
const STOP_WITHIN: Duration = Duration::from_secs(10);

/// Why a keeper cannot be asked or stopped.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The lock's holder does not answer on its socket.
    #[error("process {0} runs this session's calls but does not answer")]
    Silent(u32),
    /// It answered with something else.
    #[error("the program that answers on {socket} is not longhaul: {why}", socket = .socket.display())]
    Strange {
        /// The socket.
        socket: PathBuf,
        /// What was wrong.
        why: String,
    },
    /// The driver is a command or a screen.
    #[error("process {} runs this session's calls itself, so there is no keeper; quit that process instead", .0.pid)]
    NotAKeeper(KeeperStatus),
    /// It is too old to be upgraded while it runs.
    #[error("the keeper (process {}, longhaul {}) can't be upgraded while it runs; wait until its calls have ended, or stop it: `longhaul keeper stop`", .0.pid, text::clean_line(&.0.version))]
    CannotUpgrade(KeeperStatus),
    /// It hung up during an upgrade.
    #[error(
        "the keeper (process {0}) ended during the upgrade; see `longhaul keeper log`. The next command that needs a keeper starts one"
    )]
    Died(u32),
    /// It said that it stops, and did not.
    #[error("the keeper (process {}) did not exit within {} s", .0.pid, STOP_WITHIN.as_secs())]
    Stays(KeeperStatus),
}

/// What drives a session; `None` if nothing does.
pub fn keeper_status(paths: &Paths) -> Result<Option<KeeperStatus>, KeeperError> {
    let Some((answer, _)) = ask(paths, Verb::Status, ANSWER_WITHIN)? else {
        return Ok(None);
    };
    match answer {
        VerbAnswer::Status(status) => Ok(Some(status)),
        _ => Err(strange(paths, "it did not give its status")),
    }
}

/// The connections of a session's tasks; `None` if no driver answers.
pub fn task_connections(paths: &Paths) -> Option<TaskConnections> {
    match ask(paths, Verb::Connections, CONNECTIONS_WITHIN) {
        Ok(Some((VerbAnswer::Connections(found), _))) => Some(found),
        _ => None,
    }
}

/// Stops the keeper of a session and waits until it has exited; `None` if nothing drives the session.
pub fn stop_keeper(paths: &Paths) -> Result<Option<KeeperStatus>, KeeperError> {
    let Some((answer, mut stream)) = ask(paths, Verb::Stop, ANSWER_WITHIN)? else {
        return Ok(None);
    };
    match answer {
        VerbAnswer::Stopping(status) => {
            // It hangs up when it has exited.
            let is_gone = stream
                .get_ref()
                .set_read_timeout(Some(STOP_WITHIN))
                .and_then(|()| stream.read_line(&mut String::new()));
            match is_gone {
                Ok(_) => Ok(Some(status)),
                Err(_) => Err(KeeperError::Stays(status)),
            }
        }
        VerbAnswer::NotAKeeper(status) => Err(KeeperError::NotAKeeper(status)),
        _ => Err(strange(paths, "it did not confirm that it is stopping")),
    }
}

/// Makes the keeper of a session another program; `None` if nothing drives the session.
pub fn upgrade_keeper(
    paths: &Paths,
    request: UpgradeRequest,
) -> Result<Option<UpgradeOutcome>, KeeperError> {
    let Some(status) = keeper_status(paths)? else {
        return Ok(None);
    };
    if !status.is_keeper {
        return Err(KeeperError::NotAKeeper(status));
    }
    let answer = match ask(paths, Verb::Upgrade(request), UPGRADES_WITHIN) {
        Ok(Some((answer, _))) => answer,
        Ok(None) => return Ok(None),
        // An old keeper hangs up on a verb that it does not know. One that exits in the middle of it is gone.
        Err(_) => {
            return match DriverLock::holder(paths) {
                Some(_) => Err(KeeperError::CannotUpgrade(status)),
                // Another upgrade is replacing its program, and until that is done, the lock is held by the trial run.
                None if matches!(keeper_status(paths), Ok(Some(it)) if it.pid == status.pid) => {
                    Ok(Some(UpgradeError::IN_PROGRESS.into()))
                }
                None => Err(KeeperError::Died(status.pid)),
            };
        }
    };
    match answer {
        VerbAnswer::Upgrade(outcome) => Ok(Some(outcome)),
        _ => Err(strange(paths, "it did not report the outcome")),
    }
}

/// Stops a keeper that has no clients and no unfinished tasks; with `is_forced`, also one with unfinished tasks. Any
/// other driver stays.
pub fn stop_unused_keeper(paths: &Paths, is_forced: bool) -> Result<(), KeeperError> {
    let Some(status) = keeper_status(paths)? else {
        return Ok(());
    };
    if status.is_keeper && status.clients == 0 && (is_forced || status.unsettled == 0) {
        stop_keeper(paths)?;
    }
    Ok(())
}

fn strange(paths: &Paths, why: impl Into<String>) -> KeeperError {
    KeeperError::Strange {
        socket: paths.socket(),
        why: why.into(),
    }
}

/// Connects to what drives the session. A keeper that starts takes the lock before it listens, and one that exits keeps
/// it until everything is saved; a command that only lists tasks doesn't wait for that.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing wakes a client when another process listens"
)]
fn connect(paths: &Paths, within: Duration) -> Option<(StdUnixStream, PathBuf)> {
    let begin = std::time::Instant::now();
    loop {
        let mut sockets = std::iter::once(paths.socket()).chain(paths.other_sockets());
        let connect = |socket| Some((StdUnixStream::connect(&socket).ok()?, socket));
        if let Some(connected) = sockets.find_map(connect) {
            return Some(connected);
        }
        DriverLock::holder(paths)?;
        if begin.elapsed() > within {
            return None;
        }
        std::thread::sleep(LOOK_EVERY); // sleep: the system has no way to wait for another process to listen
    }
}

/// Asks a question that every keeper of every version understands.
fn ask(
    paths: &Paths,
    verb: Verb,
    within: Duration,
) -> Result<Option<(VerbAnswer, std::io::BufReader<StdUnixStream>)>, KeeperError> {
    let silent = || DriverLock::holder(paths).map(KeeperError::Silent);
    let connects_within = match verb {
        Verb::Connections => within,
        _ => STOP_WITHIN,
    };
    let Some((stream, stream_path)) = connect(paths, connects_within) else {
        return silent().map_or(Ok(None), Err);
    };
    let exchange = || -> std::io::Result<(Vec<String>, std::io::BufReader<StdUnixStream>)> {
        stream.set_read_timeout(Some(within))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let mut stream = std::io::BufReader::new(stream);
        let question = serde_json::to_string(&FirstFrame::Verb { verb })?;
        writeln!(stream.get_mut(), "{question}")?;
        let mut lines = Vec::new();
        // Its hello, then the answer.
        for _ in 0..2 {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            lines.push(line);
        }
        Ok((lines, stream))
    };
    let (lines, stream) = match exchange() {
        Ok(exchanged) => exchanged,
        Err(error) => {
            let why = match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not answer".to_owned(),
                // It was exiting just now.
                _ if !stream_path.exists() => return silent().map_or(Ok(None), Err),
                _ => error.to_string(),
            };
            return Err(silent().unwrap_or_else(|| strange(paths, why)));
        }
    };
    let answer = lines.last().map_or("", String::as_str);
    serde_json::from_str(answer)
        .map(|answer| Some((answer, stream)))
        .map_err(|error| strange(paths, error.to_string()))
}
