//! The way to a keeper: its socket on this machine, or a tunnel to another one.
//!
//! A tunnel is a command such as `ssh HOST longhaul keeper connect`, whose standard input and output are the keeper's
//! socket. It needs no port and no credentials of its own.

use std::{
    ffi::OsString,
    path::PathBuf,
    pin::Pin,
    process::Stdio,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::UnixStream,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};
use tokio_util::codec::{Framed, LinesCodec};

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
    #[error("longhaul was not found on {0}; install it there: cargo install longhaul")]
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

/// The bytes to and from a keeper.
pub(super) enum Connection {
    /// On this machine.
    Socket(UnixStream),
    /// Through the standard input and output of a command, which is killed when this is dropped.
    Tunnel(Box<Tunnel>),
}

pub(super) struct Tunnel {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    errors: Option<ChildStderr>,
    host: String,
}

impl Connection {
    pub(super) fn into_lines(self) -> Lines {
        Framed::new(self, LinesCodec::new_with_max_length(LINE_BYTES))
    }

    /// Starts the command of a tunnel.
    pub(super) fn open(host: &Host) -> Result<Self, TunnelError> {
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
        let errors = child.stderr.take();
        Ok(Self::Tunnel(Box::new(Tunnel {
            child,
            input,
            output,
            errors,
            host: host.name.clone(),
        })))
    }

    /// Why the tunnel's command ended, from its exit code and its last words.
    pub(super) async fn reason(self) -> TunnelError {
        let Self::Tunnel(mut tunnel) = self else {
            return refused("this machine", "the keeper is gone".to_owned(), true);
        };
        let last_line = async {
            let mut last = String::new();
            if let Some(errors) = tunnel.errors.take() {
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
        let ended = tokio::time::timeout(REASON_WITHIN, tunnel.child.wait()).await;
        let code = ended.ok().and_then(Result::ok).and_then(|it| it.code());
        let message = last.unwrap_or_default();
        match code {
            Some(NOT_FOUND) => TunnelError::NotInstalled(tunnel.host),
            // ssh failed, the far end hung up, or there was a signal.
            Some(255 | 0) | None => {
                let message = if message.is_empty() {
                    "no answer".to_owned()
                } else {
                    message
                };
                refused(&tunnel.host, message, true)
            }
            Some(code) => {
                let message = if message.is_empty() {
                    format!("the tunnel ended with exit code {code}")
                } else {
                    message
                };
                refused(&tunnel.host, message, false)
            }
        }
    }
}

fn refused(host: &str, message: String, is_passing: bool) -> TunnelError {
    TunnelError::Refused {
        host: text::clean_line(host).into_owned(),
        message,
        is_passing,
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tunnel(tunnel) => Pin::new(&mut tunnel.output).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tunnel(tunnel) => Pin::new(&mut tunnel.input).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_flush(context),
            Self::Tunnel(tunnel) => Pin::new(&mut tunnel.input).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            Self::Socket(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tunnel(tunnel) => Pin::new(&mut tunnel.input).poll_shutdown(context),
        }
    }
}
