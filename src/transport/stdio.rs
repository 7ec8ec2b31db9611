//! The stdio transport: a server runs as a child process, with one message per line on its stdin and stdout.
//!
//! Owns the process, its pipes and its shutdown. It has the same interface as HTTP+SSE: a GET starts the process and streams
//! its output, a POST writes one message and has an empty response. Must not know what the messages mean. Invariant: at
//! most one process at a time; dropping the GET stream ends it and everything in its process group.
//!
//! Source: MCP 2025-11-25, basic/transports (stdio) and basic/lifecycle (shutdown).

mod inherit;
pub mod outline;
mod output;
mod stderr;
mod supervisor;

use std::{
    os::fd::AsFd as _,
    process::Stdio as Pipe,
    sync::{Arc, Mutex},
};

use bytes::BytesMut;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use rustix::process::Pid;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{
    io::AsyncWriteExt as _,
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    sync::{Notify, mpsc, oneshot, watch},
};

pub use self::inherit::{ProgramPipes, ProgramState};
use self::{
    inherit::{ProgramProcess, Suspension},
    output::Output,
    stderr::{StderrLog, StderrTail},
    supervisor::{OutgoingLine, ProcessGroup, ProcessSupervisor, ServerProcess},
};
use super::{
    frame::DEFAULT_CAP_BYTES,
    process_guard::ProcessGuard,
    secrets::Secrets,
    traffic::{DroppedExchange, ExchangeRecorder, TrafficRecorder},
};
use crate::{
    domain::{Direction, SharedByteCount, TaskId, base64, decode_base64, locked, text},
    protocol::{Body, ExchangeEvent, Method, Request},
};

/// Messages queued for stdin; when the queue is full, senders wait.
const QUEUED_MESSAGES: usize = 64;

/// Lines of stderr queued for the log; when the queue is full, lines are dropped.
const QUEUED_LOG_LINES: usize = 256;

/// How to start a server process.
#[derive(Default)]
pub struct StdioOptions {
    /// The program to run.
    pub command: String,
    /// Its arguments, with variables resolved.
    pub args: Vec<SecretString>,
    /// Its whole environment; nothing is inherited.
    pub env: Vec<(String, SecretString)>,
    /// Values to redact from its output.
    pub secrets: Secrets,
    /// Its working directory; by default ours.
    pub cwd: Option<String>,
    /// The cap on one message, in bytes.
    pub cap_bytes: usize,
    /// Bytes of incomplete messages; one tally is shared by all servers of a process.
    pub buffered: SharedByteCount,
    /// Records the traffic.
    pub traffic: Option<TrafficRecorder>,
    /// Ends the process if this one is killed.
    pub guard: ProcessGuard,
}

impl StdioOptions {
    /// A program with no arguments and an empty environment.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            cap_bytes: DEFAULT_CAP_BYTES,
            ..Self::default()
        }
    }
}

/// Why a server process was not started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(
        "could not start {}: its working directory {} does not exist",
        text::clean_line(program),
        text::clean_line(cwd)
    )]
    NoDirectory { program: String, cwd: String },
    #[error(
        "could not start {}: {}",
        text::clean_line(program),
        text::os_error(error)
    )]
    Spawn {
        program: String,
        error: std::io::Error,
    },
    #[error("could not start the server: its process has no pipes")]
    NoPipes,
}

/// A client for one server process; cheap to clone.
#[derive(Clone)]
pub struct Stdio {
    inner: Arc<Inner>,
}

struct Inner {
    options: StdioOptions,
    process: Mutex<Option<Arc<ServerProcess>>>,
    /// The output of a process that was inherited, until a GET reads it.
    inherited: Mutex<Option<Box<Output>>>,
}

// Manual: arguments and environment may be secrets.
impl Stdio {
    /// Starts nothing yet.
    pub fn new(options: StdioOptions) -> Self {
        Self::replacing(None, options)
    }

    /// Replaces `older`, whose process is ended before a new one starts.
    pub fn replacing(older: Option<Self>, options: StdioOptions) -> Self {
        let process = older.and_then(|older| locked(&older.inner.process).clone());
        Self {
            inner: Arc::new(Inner {
                options,
                process: Mutex::new(process),
                inherited: Mutex::default(),
            }),
        }
    }

    /// Continues a process that ran before this program was replaced. The first GET reads on where that program stopped.
    ///
    /// # Errors
    /// The system's, if a pipe is no pipe.
    pub fn inheriting(
        options: StdioOptions,
        state: &ProgramState,
        pipes: ProgramPipes,
    ) -> std::io::Result<Self> {
        let pid = Pid::from_raw(state.pid).ok_or(rustix::io::Errno::SRCH)?;
        let (stdin, stdout, stderr) = pipes.into_tokio()?;
        let unread = |text: &str| decode_base64(text).unwrap_or_default();
        let continued = Self::new(options);
        let mut output = continued.attend(
            ProgramProcess::Inherited(pid),
            Pipes {
                stdin,
                stdout,
                stderr,
                unread_log: unread(&state.unread_log),
                log: &state.log,
            },
        );
        output.read = BytesMut::from(unread(&state.unread).as_slice());
        *locked(&continued.inner.inherited) = Some(output);
        Ok(continued)
    }

    /// Whether it continues a process whose output nothing reads yet.
    pub fn is_inherited(&self) -> bool {
        locked(&self.inner.inherited).is_some()
    }

    /// Stops reading and writing between two lines, so that [`Self::capture`] can take everything. Waits for what is being
    /// written; cancel-safe, and taken back by [`Self::resume`].
    pub async fn suspend(&self) {
        let process = locked(&self.inner.process).clone();
        if let Some(process) = process {
            process.suspension.suspend().await;
        }
    }

    /// Reads and writes again.
    pub fn resume(&self) {
        if let Some(process) = locked(&self.inner.process).as_ref() {
            process.suspension.resume();
        }
    }

    /// What another process needs to continue the program; `None` if it is not suspended, has exited, or is to get more.
    pub fn capture(&self) -> Option<(ProgramState, ProgramPipes)> {
        let process = locked(&self.inner.process).clone()?;
        let is_written = process.input.capacity() == process.input.max_capacity();
        if process.exit_reason.borrow().is_some() || !is_written {
            return None;
        }
        let (pipes, unread, unread_log) = process.suspension.capture()?;
        let state = ProgramState {
            pid: process.pid?.as_raw_nonzero().get(),
            unread: base64(&unread),
            unread_log: base64(&unread_log),
            log: process.tail.lines(),
        };
        Some((state, pipes))
    }

    /// Starts an exchange, recorded as traffic of `task`. A GET starts the process when the stream is first polled; dropping
    /// that stream ends it.
    ///
    /// The events come in the order that [`ExchangeEvent`] documents.
    pub fn exchange_for(
        &self,
        task: Option<TaskId>,
        request: Request,
    ) -> BoxStream<'static, ExchangeEvent> {
        let stdio = self.clone();
        let options = &self.inner.options;
        let recorder = ExchangeRecorder::start(options.traffic.as_ref(), task, &options.secrets);
        match request.method {
            Method::Get { .. } => {
                let mut end_recorder = DroppedExchange::new(recorder.clone());
                let started = stream::once(async move { stdio.start(recorder).await });
                let events = started.flat_map(events_of).inspect(move |event| {
                    let is_last = matches!(
                        event,
                        ExchangeEvent::NotSent { .. }
                            | ExchangeEvent::Broken { .. }
                            | ExchangeEvent::TooLarge { .. }
                    );
                    if is_last {
                        end_recorder.record_end(event);
                    }
                });
                events.boxed()
            }
            Method::Post { body, .. } => {
                let posted = async move { stream::iter(stdio.post(body, recorder).await) };
                stream::once(posted).flatten().boxed()
            }
            // A stdio session ends with its process.
            Method::Delete => stream::iter(accepted()).boxed(),
        }
    }

    /// Ends the process, if one is running, and waits until it has exited.
    pub async fn end(&self) {
        let Some(process) = locked(&self.inner.process).clone() else {
            return;
        };
        process.end.notify_one();
        process.why().await;
    }

    /// Whether the process is running.
    pub fn is_running(&self) -> bool {
        let process = locked(&self.inner.process);
        process
            .as_ref()
            .is_some_and(|process| process.exit_reason.borrow().is_none())
    }

    async fn post(&self, body: String, recorder: ExchangeRecorder) -> Vec<ExchangeEvent> {
        let Some(process) = locked(&self.inner.process).clone() else {
            return vec![ExchangeEvent::not_sent("the server process is not running")];
        };
        if let Some(why) = process.exit_reason.borrow().clone() {
            return vec![ExchangeEvent::not_sent(why)];
        }
        let (written, is_written) = oneshot::channel();
        // JSON strings contain no raw line breaks, and between values they are only whitespace.
        let mut line = body.replace(['\n', '\r'], " ");
        line.push('\n');
        recorder.line(Direction::Sent, line.as_bytes());
        let secrets = &self.inner.options.secrets;
        let line = secrets.restore_in_json(&line).into_owned();
        let sent = process.input.send(OutgoingLine { line, written }).await;
        if sent.is_ok() && is_written.await.is_ok() {
            return accepted();
        }
        // The process no longer reads its stdin.
        process.end.notify_one();
        let why = process.why().await;
        vec![ExchangeEvent::NoAnswer { why }]
    }

    async fn start(&self, recorder: ExchangeRecorder) -> Result<Box<Output>, StartError> {
        let inherited = locked(&self.inner.inherited).take();
        if let Some(mut output) = inherited {
            output.recorder = recorder;
            return Ok(output);
        }
        // The old process may still hold what the new one needs, such as a file lock.
        self.end().await;
        let options = &self.inner.options;
        let mut child = self.command().spawn().map_err(|error| {
            let program = options.command.clone();
            match options.cwd.clone() {
                Some(cwd) if !std::path::Path::new(&cwd).is_dir() => {
                    StartError::NoDirectory { program, cwd }
                }
                _ => StartError::Spawn { program, error },
            }
        })?;
        let (Some(stdin), Some(stdout), stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(StartError::NoPipes);
        };
        let pipes = Pipes {
            stdin,
            stdout,
            stderr,
            unread_log: Vec::new(),
            log: &[],
        };
        let mut output = self.attend(ProgramProcess::Started(child), pipes);
        output.recorder = recorder;
        Ok(output)
    }

    fn command(&self) -> Command {
        let options = &self.inner.options;
        let mut command = Command::new(&options.command);
        command
            .args(options.args.iter().map(SecretString::expose_secret))
            .env_clear()
            .envs(
                options
                    .env
                    .iter()
                    .map(|(name, value)| (name, value.expose_secret())),
            )
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .stderr(Pipe::piped())
            // So that Ctrl-C reaches only longhaul, and the whole group can be ended.
            .process_group(0)
            .kill_on_drop(true);
        if let Some(cwd) = &options.cwd {
            command.current_dir(cwd);
        }
        command
    }

    /// Starts the tasks that supervise a process, write to it and read its log.
    fn attend(&self, process: ProgramProcess, pipes: Pipes<'_>) -> Box<Output> {
        let options = &self.inner.options;
        let pid = process.id();
        let is_known = matches!(process, ProgramProcess::Inherited(_));
        let group = ProcessGroup::new(pid, options.guard.clone(), is_known);
        let (input, messages) = mpsc::channel(QUEUED_MESSAGES);
        let (log_sender, log_lines) = mpsc::channel(QUEUED_LOG_LINES);
        let (exit_sender, exit_reason) = watch::channel(None);
        let tail = StderrTail::of(pipes.log);
        let suspension = Arc::new(Suspension::new(pipes.stderr.is_some()));
        let of_process = Arc::new(ServerProcess {
            pid,
            input,
            end: Notify::new(),
            exit_reason: exit_reason.clone(),
            tail: tail.clone(),
            suspension: Arc::clone(&suspension),
        });
        let log = StderrLog {
            tail,
            log_lines: log_sender,
            secrets: options.secrets.clone(),
            suspension: Arc::clone(&suspension),
        };
        let supervisor = ProcessSupervisor {
            child: process,
            group,
            process: Arc::clone(&of_process),
            writer: tokio::spawn(write(pipes.stdin, messages, Arc::clone(&suspension))),
            stderr_reader: tokio::spawn(log.read(pipes.stderr, pipes.unread_log)),
        };
        tokio::spawn(supervisor.run(exit_sender));
        *locked(&self.inner.process) = Some(Arc::clone(&of_process));
        Box::new(Output {
            stdout: pipes.stdout,
            read: BytesMut::new(),
            scanned: 0,
            too_long: None,
            cap: options.cap_bytes,
            share: options.buffered.share(),
            log_lines,
            logged_before: 0,
            process: of_process,
            exit_reason,
            left_behind: None,
            is_stdout_done: false,
            stray_lines: 0,
            redactor: options.secrets.redactor(),
            recorder: ExchangeRecorder::default(),
        })
    }
}

/// The pipes of a process, and what was read from them already.
struct Pipes<'p> {
    stdin: ChildStdin,
    stdout: ChildStdout,
    stderr: Option<ChildStderr>,
    unread_log: Vec<u8>,
    log: &'p [String],
}

/// An empty response.
fn accepted() -> Vec<ExchangeEvent> {
    let opened = ExchangeEvent::Opened {
        body: Body::Empty(202),
        session: None,
    };
    vec![opened, ExchangeEvent::Ended]
}

/// The events of a GET.
fn events_of(started: Result<Box<Output>, StartError>) -> BoxStream<'static, ExchangeEvent> {
    let output = match started {
        Ok(output) => output,
        Err(error) => {
            let not_sent = ExchangeEvent::not_sent(error.to_string());
            return stream::iter([not_sent]).boxed();
        }
    };
    let (body, session) = (Body::Stream, None);
    let target = Ok("stdin".to_owned());
    let opened = [
        ExchangeEvent::Opened { body, session },
        ExchangeEvent::Endpoint { target },
    ];
    let read = stream::unfold(Some(output), async |output| {
        let mut output = output?;
        let event = output.next().await;
        let goes_on = matches!(
            event,
            ExchangeEvent::Event { .. } | ExchangeEvent::ResponseTooLarge { .. }
        );
        Some((event, goes_on.then_some(output)))
    });
    stream::iter(opened).chain(read).boxed()
}

/// Writes messages one after the other; aborting this task closes the pipe.
async fn write(
    mut stdin: ChildStdin,
    mut messages: mpsc::Receiver<OutgoingLine>,
    suspension: Arc<Suspension>,
) {
    loop {
        let message = tokio::select! {
            biased;
            message = messages.recv() => message,
            () = suspension.wanted() => {
                suspension.park_stdin(stdin.as_fd()).await;
                continue;
            }
        };
        let Some(OutgoingLine { line, written }) = message else {
            return;
        };
        let sent = stdin.write_all(line.as_bytes()).await;
        if sent.is_err() || stdin.flush().await.is_err() {
            return;
        }
        // The sender may be gone.
        let _ = written.send(());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use tokio::time::{sleep, timeout};

    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    fn get() -> Request {
        Request {
            method: Method::Get { cursor: None },
            session: None,
            version: None,
            target: None,
        }
    }

    fn post(body: &str) -> Request {
        Request {
            method: Method::post(body.to_owned()),
            ..get()
        }
    }

    fn shell(script: &str) -> Stdio {
        let mut options = StdioOptions::new("/bin/sh");
        options.args = vec![SecretString::from("-c"), SecretString::from(script)];
        let path = SecretString::from("/usr/bin:/bin");
        options.env = vec![("PATH".to_owned(), path)];
        let secret = SecretString::from("hunter22");
        options.secrets.add("A_SECRET", &secret);
        Stdio::new(options)
    }

    async fn all(stdio: &Stdio, request: Request) -> Vec<ExchangeEvent> {
        timeout(TEST_TIMEOUT, stdio.exchange_for(None, request).collect())
            .await
            .unwrap()
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(test);
    }

    fn data(event: &ExchangeEvent) -> &str {
        match event {
            ExchangeEvent::Event { data, .. } => data,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn writes_and_reads_messages() {
        run(async {
            let stdio = shell(r#"read line; printf '{"got":%s}\n' "$line""#);
            assert!(matches!(
                all(&stdio, post("{}")).await[..],
                [ExchangeEvent::NotSent { .. }]
            ));
            let mut output = stdio.exchange_for(None, get());
            assert!(matches!(
                output.next().await,
                Some(ExchangeEvent::Opened { .. })
            ));
            assert!(matches!(
                output.next().await,
                Some(ExchangeEvent::Endpoint { .. })
            ));
            let posted = all(&stdio, post("{\"a\":\n1}")).await;
            assert!(
                matches!(
                    posted[..],
                    [ExchangeEvent::Opened { .. }, ExchangeEvent::Ended]
                ),
                "{posted:?}"
            );
            let first = timeout(TEST_TIMEOUT, output.next()).await.unwrap().unwrap();
            assert_eq!(data(&first), r#"{"got":{"a": 1}}"#);
            let last = timeout(TEST_TIMEOUT, output.next()).await.unwrap().unwrap();
            assert!(matches!(last, ExchangeEvent::Broken { .. }), "{last:?}");
            assert!(output.next().await.is_none() && !stdio.is_running());
        });
    }

    #[test]
    fn logs_stray_output_and_shows_stderr_on_exit() {
        run(async {
            let stdio =
                shell("echo Welcome; echo; echo '{}'; echo 'no hunter22 \x1b[2J' >&2; exit 3");
            let came = all(&stdio, get()).await;
            let texts: Vec<&str> = came[2..came.len() - 1].iter().map(data).collect();
            assert!(texts.contains(&"{}"), "{texts:?}");
            let of = |logger: &str| texts.iter().find(|it| it.contains(logger)).unwrap();
            assert!(of("stdout").contains("not a message: Welcome"));
            assert!(of("stderr").contains("no [redacted:a_secret] "));
            let Some(ExchangeEvent::Broken { why }) = came.last() else {
                panic!("{came:?}");
            };
            assert!(
                why.starts_with(
                    "the server process exited with status 3; stderr: no [redacted:a_secret] "
                ),
                "{why}"
            );
            assert!(!format!("{came:?}").contains("hunter22"));
        });
    }

    #[test]
    fn the_cap_stops_an_endless_line() {
        run(async {
            let mut options = StdioOptions::new("/bin/sh");
            let script = "while :; do printf '{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'; done";
            options.args = vec![SecretString::from("-c"), SecretString::from(script)];
            options.cap_bytes = 100_000;
            let stdio = Stdio::new(options);
            let came = all(&stdio, get()).await;
            assert!(
                matches!(came.last(), Some(ExchangeEvent::TooLarge { .. })),
                "{came:?}"
            );
            timeout(TEST_TIMEOUT, stdio.end()).await.unwrap();
            assert!(!stdio.is_running());
        });
    }

    #[test]
    fn kills_an_unresponsive_process_and_its_children() {
        run(async {
            let stdio = shell(
                "trap '' TERM; sleep 1000 & echo \"{\\\"pid\\\":$!}\"; while :; do sleep 1; done",
            );
            let mut output = stdio.exchange_for(None, get());
            let mut pid = None;
            while pid.is_none() {
                let event = timeout(TEST_TIMEOUT, output.next()).await.unwrap().unwrap();
                if let ExchangeEvent::Event { data, .. } = event {
                    let value: serde_json::Value = serde_json::from_str(&data).unwrap();
                    pid = value["pid"].as_i64();
                }
            }
            drop(output);
            timeout(TEST_TIMEOUT, stdio.end()).await.unwrap();
            let pid = Pid::from_raw(i32::try_from(pid.unwrap()).unwrap()).unwrap();
            let gone = async {
                // An orphaned zombie exists until init reaps it.
                let is_zombie = || {
                    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
                    stat.is_ok_and(|stat| stat.contains(") Z "))
                };
                while rustix::process::test_kill_process(pid).is_ok() && !is_zombie() {
                    sleep(Duration::from_millis(5)).await; // sleep: nothing reports the end of a grandchild
                }
            };
            timeout(TEST_TIMEOUT, gone).await.unwrap();
        });
    }

    #[test]
    fn reports_a_program_that_cannot_be_started() {
        run(async {
            let came = all(&Stdio::new(StdioOptions::new("/no/such\nprogram")), get()).await;
            let [ExchangeEvent::NotSent { why, .. }] = &came[..] else {
                panic!("{came:?}");
            };
            assert!(
                why.starts_with("could not start /no/such") && !why.contains('\n'),
                "{why}"
            );
        });
    }
}
