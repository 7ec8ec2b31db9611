//! The Unix control socket, both ends. Network faults don't affect it, so the server stays controllable.
//!
//! A client sends one line with a command and receives one line: `ok ...` or `error ...`.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream as StdUnixStream,
    path::Path,
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader as AsyncBufReader},
    net::{UnixListener, UnixStream},
    sync::mpsc,
};

use super::{Fault, faults::Faults, running, sessions::Sessions};
use crate::demo::{
    activity::{ActivityTracker, ShutdownReason},
    error::DemoError,
    running::{RunningServer, poll_until_some},
};

/// The maximum length of a command in bytes.
const MAX_COMMAND: u64 = 256;

const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The command that keeps the server from exiting while it is idle, until the connection is closed.
const HOLD: &str = "hold";

/// The server's end of the control socket.
#[derive(Clone)]
pub(super) struct ControlSocket {
    pub(super) faults: Arc<Faults>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) activity: Arc<ActivityTracker>,
    pub(super) end: mpsc::Sender<ShutdownReason>,
    pub(super) boot: i64,
    pub(super) port: u16,
}

impl ControlSocket {
    /// Serves commands until the boot ends.
    pub(super) async fn listen(self, socket: UnixListener) {
        loop {
            match socket.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(self.clone().serve(stream));
                }
                Err(error) => {
                    tracing::error!(%error, "could not accept on the control socket");
                    return;
                }
            }
        }
    }

    async fn serve(self, stream: UnixStream) {
        let (read, mut write) = stream.into_split();
        let mut line = String::new();
        let mut lines = AsyncBufReader::new(read.take(MAX_COMMAND));
        if lines.read_line(&mut line).await.is_err() {
            return;
        }
        if line.trim() == HOLD {
            let _open = ActivityTracker::start(&self.activity);
            // Nothing more is sent, so this waits until the other end closes.
            let _ = lines.read_line(&mut line).await;
            return;
        }
        let (response, end) = self.execute(line.trim()).await;
        // The client may have disconnected; the command still takes effect.
        let _ = write.write_all(format!("{response}\n").as_bytes()).await;
        let _ = write.shutdown().await;
        if let Some(end) = end {
            let _ = self.end.send(end).await;
        }
    }

    /// Runs a command; returns the response line and, for `stop` and `restart`, why to end the boot.
    async fn execute(&self, command: &str) -> (String, Option<ShutdownReason>) {
        let fault = match command {
            "status" => {
                return (
                    format!("ok {} {} {}", std::process::id(), self.port, self.boot),
                    None,
                );
            }
            "stop" => return ("ok stopping".to_owned(), Some(ShutdownReason::Stop)),
            other => match other.parse::<Fault>() {
                Ok(fault) => fault,
                Err(error) => return (format!("error {error}"), None),
            },
        };
        let message = match fault {
            Fault::Cut { seconds } => {
                self.faults.cut(Duration::from_secs(seconds)).await;
                format!("the network is cut for {seconds} s")
            }
            Fault::Restart => return ("ok restarting".to_owned(), Some(ShutdownReason::Restart)),
            Fault::Stall { seconds } => {
                self.faults.stall.start(Duration::from_secs(seconds));
                format!("connections stall for {seconds} s")
            }
            Fault::DropAfterNext => {
                self.faults.drop_next.set();
                "the connection will be closed after the next event".to_owned()
            }
            Fault::DuplicateOnReplay => {
                self.faults.duplicate_next.set();
                "the next replay will repeat events".to_owned()
            }
            Fault::ForgetSession => {
                let count = self.sessions.forget_all().await;
                let ending = if count == 1 { "" } else { "s" };
                format!("forgot {count} MCP session{ending}")
            }
        };
        (format!("ok {message}"), None)
    }
}

/// Injects a fault into the server of `dir` and returns its confirmation. After a restart, waits until the server is
/// up again.
pub fn control(dir: &Path, fault: Fault) -> Result<String, DemoError> {
    let (_, before) = status(dir)?;
    let confirmation = send_command(dir, &fault.to_string())?;
    if fault != Fault::Restart {
        return Ok(confirmation);
    }
    poll_until_some(|| status(dir).ok().filter(|(_, boot)| *boot != before))
        .map(|_| "demo server restarted".to_owned())
        .ok_or_else(|| {
            DemoError::NotStarted("it did not respond within 10 s of the restart".to_owned())
        })
}

/// Keeps the server of `dir` from exiting while it is idle, until the returned connection is dropped.
pub fn hold(dir: &Path) -> Result<StdUnixStream, DemoError> {
    send_line(dir, HOLD)
}

/// Stops the server of `dir` and returns once it no longer responds.
pub fn stop(dir: &Path) -> Result<(), DemoError> {
    send_command(dir, "stop")?;
    poll_until_some(|| status(dir).is_err().then_some(()))
        .ok_or_else(|| DemoError::Refused("it is still running after 10 s".to_owned()))
}

/// Queries the server of `dir`; also returns the number of its boot.
pub(super) fn status(dir: &Path) -> Result<(RunningServer, i64), DemoError> {
    let response = send_command(dir, "status")?;
    let mut fields = response.split(' ');
    let status = (|| {
        let pid = fields.next()?.parse().ok()?;
        let url = running::url(fields.next()?.parse().ok()?);
        Some((RunningServer { url, pid }, fields.next()?.parse().ok()?))
    })();
    status.ok_or(DemoError::Refused(response))
}

fn not_running(dir: &Path) -> DemoError {
    DemoError::NotRunning {
        dir: dir.to_path_buf(),
    }
}

const SEND: &str = "send a command to the demo server";

fn send_line(dir: &Path, line: &str) -> Result<StdUnixStream, DemoError> {
    let socket = running::control_socket(dir).ok_or_else(|| not_running(dir))?;
    let mut stream = StdUnixStream::connect(socket).map_err(|_| not_running(dir))?;
    let line = format!("{line}\n");
    let written = stream.write_all(line.as_bytes());
    written.map_err(DemoError::io(SEND))?;
    Ok(stream)
}

/// Sends one command and returns the text after "ok".
fn send_command(dir: &Path, command: &str) -> Result<String, DemoError> {
    let stream = send_line(dir, command)?;
    let mut response = String::new();
    let read = stream
        .set_read_timeout(Some(COMMAND_TIMEOUT))
        .and_then(|()| BufReader::new(stream).read_line(&mut response));
    read.map_err(DemoError::io(SEND))?;
    match response.trim_end().split_once(' ') {
        Some(("ok", message)) => Ok(message.to_owned()),
        Some(("error", message)) => Err(DemoError::Refused(message.to_owned())),
        // The server exited before it could respond.
        _ => Err(not_running(dir)),
    }
}
