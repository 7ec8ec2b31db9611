//! The way to a keeper: its socket on this machine, or a tunnel to another one.
//!
//! A tunnel is a command such as `ssh HOST longhaul keeper connect`, whose standard input and output are the keeper's
//! socket. It needs no port and no credentials of its own.

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Join, join},
    net::UnixStream,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};
use tokio_util::{
    codec::{Framed, LinesCodec},
    either::Either,
};

use crate::domain::text;

/// The longest line: a call's arguments, or a task with its attempts.
pub(super) const LINE_BYTES: usize = 64 * 1024 * 1024;

/// How long a tunnel may take until the other end says hello; ssh has limits of its own for each step.
pub(super) const TUNNEL_WITHIN: Duration = Duration::from_secs(30);

/// How long the tunnel's command may take to say why it failed.
const REASON_WITHIN: Duration = Duration::from_millis(500);

/// The exit code of a shell that does not find a command.
const NOT_FOUND: i32 = 127;

/// Another machine, and the command that reaches its keeper.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name, as the user gave it.
    pub name: String,
    /// The program of the tunnel.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Why the other machine's keeper cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunnelError {
    /// The command does not exist here, or cannot run.
    #[error("could not run {program}: {error}", program = .program.display())]
    NoProgram {
        /// The command.
        program: PathBuf,
        /// The system's reason.
        error: String,
    },
    /// There is no longhaul on the other machine.
    #[error(
        "longhaul was not found on {0}; install it there: cargo install --path . --profile dist, in its source directory"
    )]
    NotInstalled(String),
    /// The other end cannot serve.
    #[error("{host}: {message}")]
    Refused {
        /// The other machine.
        host: String,
        /// What it said last.
        message: String,
        /// Whether trying again can help: ssh could not connect.
        is_passing: bool,
    },
}

impl TunnelError {
    /// Whether it is not the network's fault, so that trying again would not help.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::NoProgram { .. } | Self::NotInstalled(_) => true,
            Self::Refused { is_passing, .. } => !is_passing,
        }
    }
}

/// Lines to and from a keeper.
pub(super) type Lines = Framed<Connection, LinesCodec>;

/// The bytes to and from a keeper: on this machine, or through the standard input and output of a command.
pub(super) type Connection = Either<UnixStream, Join<ChildStdout, ChildStdin>>;

pub(super) fn lines_of(connection: Connection) -> Lines {
    Framed::new(connection, LinesCodec::new_with_max_length(LINE_BYTES))
}

/// The command of a tunnel, which is killed when this is dropped.
pub(super) struct Tunnel {
    child: Child,
    errors: Option<ChildStderr>,
    host: String,
}

impl Tunnel {
    /// Starts the command of a tunnel.
    pub(super) fn open(host: &Host) -> Result<(Self, Lines), TunnelError> {
        let no_program = |error: &str| TunnelError::NoProgram {
            program: host.program.clone(),
            error: error.to_owned(),
        };
        let mut child = Command::new(&host.program)
            .args(&host.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C in this terminal is for the screen.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| no_program(&error.to_string()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(no_program("it has no pipes"));
        };
        let tunnel = Self {
            errors: child.stderr.take(),
            child,
            host: host.name.clone(),
        };
        Ok((tunnel, lines_of(Either::Right(join(output, input)))))
    }

    /// Why the tunnel's command ended, from its exit code and its last words.
    pub(super) async fn reason(mut self) -> TunnelError {
        let errors = self.errors.take();
        let last_line = async {
            let mut last = String::new();
            if let Some(errors) = errors {
                let mut lines = BufReader::new(errors).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if !line.trim().is_empty() {
                        last = text::clean_line(line.trim()).into_owned();
                    }
                }
            }
            last
        };
        let last = tokio::time::timeout(REASON_WITHIN, last_line).await;
        let ended = tokio::time::timeout(REASON_WITHIN, self.child.wait()).await;
        let code = ended.ok().and_then(Result::ok).and_then(|it| it.code());
        let (otherwise, is_passing) = match code {
            Some(NOT_FOUND) => return TunnelError::NotInstalled(self.host),
            // ssh failed, the far end hung up, or there was a signal.
            Some(255 | 0) | None => ("no answer".to_owned(), true),
            Some(code) => (format!("the tunnel ended with exit code {code}"), false),
        };
        let said = last.ok().filter(|last| !last.is_empty());
        TunnelError::Refused {
            host: text::clean_line(&self.host).into_owned(),
            message: said.unwrap_or(otherwise),
            is_passing,
        }
    }
}
