//! The Unix socket by which faults reach the server: a path that no fault of the network touches.
//!
//! One line in, one line out: `ok ...` or `error ...`. Owns both ends of it. Must not know what the faults do.

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

use super::{
    DemoError, Fault,
    faults::Faults,
    life::End,
    process::{self, Running, patiently},
    sessions::Sessions,
};

/// The longest command, in bytes.
const LINE: u64 = 256;
/// How long the server may take to answer a command.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server's end.
#[derive(Clone)]
pub(super) struct Control {
    pub(super) faults: Arc<Faults>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) end: mpsc::Sender<End>,
    pub(super) boot: i64,
    pub(super) port: u16,
}

impl Control {
    /// Answers until the boot ends.
    pub(super) async fn listen(self, socket: UnixListener) {
        loop {
            match socket.accept().await {
                Ok((stream, _)) => {
                    tokio::spawn(self.clone().serve(stream));
                }
                Err(error) => {
                    tracing::error!(%error, "the control socket is gone");
                    return;
                }
            }
        }
    }

    async fn serve(self, stream: UnixStream) {
        let (read, mut write) = stream.into_split();
        let mut line = String::new();
        if AsyncBufReader::new(read.take(LINE))
            .read_line(&mut line)
            .await
            .is_err()
        {
            return;
        }
        let (answer, end) = self.obey(line.trim()).await;
        // The asker may have gone; what was asked is done all the same.
        let _ = write.write_all(format!("{answer}\n").as_bytes()).await;
        let _ = write.shutdown().await;
        if let Some(end) = end {
            let _ = self.end.send(end).await;
        }
    }

    async fn obey(&self, command: &str) -> (String, Option<End>) {
        let fault = match command {
            "status" => {
                return (
                    format!("ok {} {} {}", std::process::id(), self.port, self.boot),
                    None,
                );
            }
            "stop" => return ("ok stopping".to_owned(), Some(End::Stop)),
            other => match other.parse::<Fault>() {
                Ok(fault) => fault,
                Err(unknown) => return (format!("error {unknown}"), None),
            },
        };
        let words = match fault {
            Fault::Cut { seconds } => {
                self.faults.cut(Duration::from_secs(seconds)).await;
                format!("the network is cut for {seconds} s")
            }
            Fault::Restart => return ("ok restarting".to_owned(), Some(End::Restart)),
            Fault::Stall { seconds } => {
                self.faults.stall(Duration::from_secs(seconds));
                format!("no byte flows for {seconds} s")
            }
            Fault::DropAfterNext => {
                self.faults.drop_after_next();
                "the connection of the next event will be dropped after it".to_owned()
            }
            Fault::DuplicateOnReplay => {
                self.faults.duplicate_on_replay();
                "the next replay will send events twice".to_owned()
            }
            Fault::ForgetSession => {
                let count = self.sessions.forget_all().await;
                let unit = if count == 1 {
                    "server session"
                } else {
                    "server sessions"
                };
                format!("{count} {unit} forgotten")
            }
            Fault::FailPolls { seconds } => {
                self.faults.fail_polls(Duration::from_secs(seconds));
                format!("polls of tasks fail for {seconds} s")
            }
            Fault::HangPoll => {
                self.faults.hang_next_poll();
                "the next poll of a task will not be answered".to_owned()
            }
        };
        (format!("ok {words}"), None)
    }
}

/// Breaks something in the server of `dir`, and returns what it says. A restart returns once the server is up again.
pub fn control(dir: &Path, fault: Fault) -> Result<String, DemoError> {
    let before = status(dir)?;
    let answer = ask(dir, &fault.to_string())?;
    if fault != Fault::Restart {
        return Ok(answer);
    }
    patiently(|| status(dir).ok().filter(|now| now.boot != before.boot))
        .map(|now| format!("restarted (boot {})", now.boot))
        .ok_or_else(|| DemoError::NotStarted("it did not come back".to_owned()))
}

/// Ends the server of `dir`, and returns once it no longer answers.
pub fn stop(dir: &Path) -> Result<(), DemoError> {
    ask(dir, "stop")?;
    patiently(|| status(dir).is_err().then_some(()))
        .ok_or_else(|| DemoError::Refused("it goes on answering".to_owned()))
}

/// What a running server says of itself.
pub(super) struct Status {
    pub(super) pid: u32,
    pub(super) port: u16,
    pub(super) boot: i64,
}

impl Status {
    pub(super) fn running(&self) -> Running {
        Running {
            url: process::url(self.port),
            pid: self.pid,
        }
    }
}

/// Asks the server of `dir` who it is.
pub(super) fn status(dir: &Path) -> Result<Status, DemoError> {
    let answer = ask(dir, "status")?;
    let mut words = answer.split(' ');
    let status = (|| {
        Some(Status {
            pid: words.next()?.parse().ok()?,
            port: words.next()?.parse().ok()?,
            boot: words.next()?.parse().ok()?,
        })
    })();
    status.ok_or(DemoError::Refused(answer))
}

/// Sends one command, and returns what follows "ok".
fn ask(dir: &Path, command: &str) -> Result<String, DemoError> {
    let gone = || DemoError::NotRunning {
        dir: dir.to_path_buf(),
    };
    let socket = process::control_socket(dir).ok_or_else(gone)?;
    let mut stream = StdUnixStream::connect(socket).map_err(|_| gone())?;
    let what = || DemoError::io("speak to the demo server");
    stream.set_read_timeout(Some(PATIENCE)).map_err(what())?;
    stream
        .write_all(format!("{command}\n").as_bytes())
        .map_err(what())?;
    let mut answer = String::new();
    BufReader::new(stream)
        .read_line(&mut answer)
        .map_err(what())?;
    match answer.trim_end().split_once(' ') {
        Some(("ok", words)) => Ok(words.to_owned()),
        Some(("error", words)) => Err(DemoError::Refused(words.to_owned())),
        // It died before it could answer.
        _ => Err(gone()),
    }
}
