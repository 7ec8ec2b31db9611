//! A server that is a process of ours: messages on its stdin and stdout, a line each.
//!
//! Owns the process, its pipes and its end. It is spoken to as if it offered HTTP+SSE: a GET starts it and brings all
//! that it says, a POST writes one message and brings nothing. Must not know what the messages mean. Invariant: at most
//! one process at a time; whoever drops the GET ends it, and everything that it started in its process group.
//!
//! Source: MCP 2025-11-25, basic/transports (stdio) and basic/lifecycle (shutdown).

use std::{
    collections::VecDeque,
    fmt,
    os::unix::process::ExitStatusExt as _,
    process::{ExitStatus, Stdio as Pipe},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::BytesMut;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
    sync::{Notify, mpsc, oneshot, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    frame::DEFAULT_CAP_BYTES,
    http::{into_text, is_too_much, too_much},
    secrets::{Gate, Secrets},
    tap::{DroppedExchange, Tapped, TrafficRecorder},
};
use crate::{
    domain::{ByteShare, Direction, SharedByteCount, TaskId, text},
    protocol::{Body, ExchangeEvent, Method, Request, encode::log_notification},
};

/// How long a process may take to end by itself once its stdin is closed.
const END_WITHIN: Duration = Duration::from_millis(400);
/// How long it may take once it was told to.
const TERM_WITHIN: Duration = Duration::from_millis(300);
/// How long what it started may take after it.
const REST_WITHIN: Duration = Duration::from_millis(100);
/// How long the pipes of a process that has ended are read on; somebody else may hold them open.
const DRAIN_WITHIN: Duration = Duration::from_millis(200);
/// Messages that wait to be written; one that finds no room waits at its sender.
const MESSAGES: usize = 64;
/// Lines of stderr that wait to be read; what finds no room is left out.
const ASIDES: usize = 256;
/// Bytes kept of a line that is no message.
const ASIDE_BYTES: usize = 4 * 1024;
/// Lines of stdout that are no messages, and are told of; the further ones are only counted.
const STRAYS: u64 = 20;
/// Lines of stderr that say why a process ended.
const TAIL: usize = 3;

/// How to start a server.
pub struct StdioOptions {
    /// The program.
    pub command: String,
    /// Its arguments, filled in.
    pub args: Vec<SecretString>,
    /// Its whole environment.
    pub env: Vec<(String, SecretString)>,
    /// What it must not make us show.
    pub secrets: Secrets,
    /// Where it works; else where we do.
    pub cwd: Option<String>,
    /// The cap on one message, in bytes.
    pub cap_bytes: usize,
    /// What is held of messages that have not come to their end; a process shares one among all its servers.
    pub unread: SharedByteCount,
    /// Where what goes over the pipes is told.
    pub tap: Option<TrafficRecorder>,
}

impl StdioOptions {
    /// A program without arguments and environment.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            env: Vec::new(),
            secrets: Secrets::default(),
            cwd: None,
            cap_bytes: DEFAULT_CAP_BYTES,
            unread: SharedByteCount::default(),
            tap: None,
        }
    }
}

/// Speaks with one server that is a process of ours; cheap to clone.
#[derive(Clone)]
pub struct Stdio {
    inner: Arc<Inner>,
}

struct Inner {
    options: StdioOptions,
    present: Mutex<Option<Arc<Present>>>,
}

/// The process that runs, or ran last.
struct Present {
    input: mpsc::Sender<Message>,
    end: Notify,
    /// Why it ended, once it has.
    over: watch::Receiver<Option<String>>,
}

/// A line for its stdin.
struct Message {
    line: String,
    written: oneshot::Sender<()>,
}

// By hand: arguments and environment may be secrets.
impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio")
            .field("command", &self.inner.options.command)
            .finish_non_exhaustive()
    }
}

impl Stdio {
    /// Takes the options; nothing is started yet.
    pub fn new(options: StdioOptions) -> Self {
        Self::following(None, options)
    }

    /// Another way to start the server; what `older` started is ended before.
    pub fn following(older: Option<Self>, options: StdioOptions) -> Self {
        let present = older.and_then(|older| older.inner.present().clone());
        Self {
            inner: Arc::new(Inner {
                options,
                present: Mutex::new(present),
            }),
        }
    }

    /// Begins an exchange: a GET starts the process when the stream is first polled, and dropping that stream ends it.
    /// The arrivals come in the order that [`ExchangeEvent`] promises.
    pub fn exchange(&self, request: Request) -> BoxStream<'static, ExchangeEvent> {
        self.exchange_for(None, request)
    }

    /// As [`Self::exchange`]; the tap tells of it as this task's.
    pub fn exchange_for(
        &self,
        task: Option<TaskId>,
        request: Request,
    ) -> BoxStream<'static, ExchangeEvent> {
        let stdio = self.clone();
        let tapped = self.inner.options.tap.as_ref();
        let tapped = tapped.map(|tap| tap.exchange(task, &self.inner.options.secrets));
        match request.method {
            Method::Get { .. } => {
                let watched = tapped.clone().map(DroppedExchange::new);
                let begin = Listening::Unbegun(stdio, tapped);
                let arrivals = stream::unfold(begin, Listening::next).boxed();
                match watched {
                    Some(watched) => stream::unfold((arrivals, watched), told).boxed(),
                    None => arrivals,
                }
            }
            Method::Post { body, .. } => {
                let posted = async move { stream::iter(stdio.post(body, tapped).await) };
                stream::once(posted).flatten().boxed()
            }
            // The end of the process is the end of its session.
            Method::Delete => stream::iter(taken()).boxed(),
        }
    }

    /// Ends the process, if one runs, and waits until it is gone.
    pub async fn end(&self) {
        let Some(present) = self.inner.present().clone() else {
            return;
        };
        present.end.notify_one();
        present.why().await;
    }

    /// Whether a process runs.
    pub fn is_running(&self) -> bool {
        let present = self.inner.present();
        present
            .as_ref()
            .is_some_and(|present| present.over.borrow().is_none())
    }

    async fn post(&self, body: String, tapped: Option<Tapped>) -> Vec<ExchangeEvent> {
        let Some(present) = self.inner.present().clone() else {
            return unsent("its program does not run".to_owned());
        };
        if let Some(why) = present.over.borrow().clone() {
            return unsent(why);
        }
        let (written, is_written) = oneshot::channel();
        // Within a text JSON has no line ends, and between two values they mean nothing.
        let mut line = body.replace(['\n', '\r'], " ");
        line.push('\n');
        if let Some(tapped) = &tapped {
            tapped.line(Direction::Sent, line.as_bytes());
        }
        let line = self.inner.options.secrets.restore_json(&line).into_owned();
        let sent = present.input.send(Message { line, written }).await;
        if sent.is_ok() && is_written.await.is_ok() {
            return taken();
        }
        // Whatever still runs there does not listen any more.
        present.end.notify_one();
        let why = present.why().await;
        vec![ExchangeEvent::NoAnswer { why }]
    }

    async fn start(&self, tapped: Option<Tapped>) -> Result<Box<Output>, String> {
        // What a new one needs, e.g. a lock on its files, the old one may still have.
        self.end().await;
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
            // So that Ctrl-C means us alone, and that all of it can be ended.
            .process_group(0)
            .kill_on_drop(true);
        if let Some(cwd) = &options.cwd {
            command.current_dir(cwd);
        }
        let mut child = command.spawn().map_err(|error| {
            let program = text::clean_line(&options.command);
            match &options.cwd {
                Some(cwd) if !std::path::Path::new(cwd).is_dir() => {
                    let cwd = text::clean_line(cwd);
                    format!("could not start {program}: its directory {cwd} is not there")
                }
                _ => format!("could not start {program}: {error}"),
            }
        })?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let group = Group(pid);
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("could not start it: it has no pipes".to_owned());
        };
        let (input, messages) = mpsc::channel(MESSAGES);
        let (asides, of_asides) = mpsc::channel(ASIDES);
        let (over, is_over) = watch::channel(None);
        let present = Arc::new(Present {
            input,
            end: Notify::new(),
            over: is_over.clone(),
        });
        let tail = Tail::default();
        let secrets = options.secrets.clone();
        let keeper = ProcessSupervisor {
            child,
            group,
            present: Arc::clone(&present),
            writing: tokio::spawn(write(stdin, messages)),
            complaining: tokio::spawn(heed(stderr, tail.clone(), asides, secrets)),
            tail,
        };
        tokio::spawn(keeper.keep(over));
        *self.inner.present() = Some(Arc::clone(&present));
        Ok(Box::new(Output {
            stdout,
            read: BytesMut::new(),
            looked_at: 0,
            cap: options.cap_bytes,
            held: options.unread.share(),
            asides: of_asides,
            present,
            over: is_over,
            is_over: false,
            is_read: false,
            strays: 0,
            gate: options.secrets.gate(),
            tapped,
        }))
    }
}

impl Present {
    /// Waits for the end, and says why it came.
    async fn why(&self) -> String {
        match self.over.clone().wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "its program ended".to_owned(),
        }
    }
}

impl Inner {
    fn present(&self) -> MutexGuard<'_, Option<Arc<Present>>> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unsent(why: String) -> Vec<ExchangeEvent> {
    let is_refused = false;
    vec![ExchangeEvent::NotSent { why, is_refused }]
}

fn taken() -> Vec<ExchangeEvent> {
    let opened = ExchangeEvent::Opened {
        body: Body::Empty,
        session: None,
    };
    vec![opened, ExchangeEvent::Ended]
}

fn event(data: String) -> ExchangeEvent {
    ExchangeEvent::Event {
        id: None,
        retry_ms: None,
        data,
    }
}

/// The next arrival, looked at by whoever tells of the end.
async fn told(
    (mut arrivals, mut watched): (BoxStream<'static, ExchangeEvent>, DroppedExchange),
) -> Option<(
    ExchangeEvent,
    (BoxStream<'static, ExchangeEvent>, DroppedExchange),
)> {
    let arrival = arrivals.next().await?;
    let is_last = matches!(
        arrival,
        ExchangeEvent::NotSent { .. }
            | ExchangeEvent::Broken { .. }
            | ExchangeEvent::TooLarge { .. }
    );
    if is_last {
        watched.ended_by(&arrival);
    }
    Some((arrival, (arrivals, watched)))
}

/// How far a GET has come.
enum Listening {
    Unbegun(Stdio, Option<Tapped>),
    Unnamed(Box<Output>),
    Open(Box<Output>),
    Over,
}

impl Listening {
    async fn next(self) -> Option<(ExchangeEvent, Self)> {
        match self {
            Self::Unbegun(stdio, tapped) => Some(match stdio.start(tapped).await {
                Ok(output) => {
                    let opened = ExchangeEvent::Opened {
                        body: Body::Stream,
                        session: None,
                    };
                    (opened, Self::Unnamed(output))
                }
                Err(why) => {
                    let is_refused = false;
                    (ExchangeEvent::NotSent { why, is_refused }, Self::Over)
                }
            }),
            Self::Unnamed(output) => {
                let target = Ok("stdin".to_owned());
                Some((ExchangeEvent::Endpoint { target }, Self::Open(output)))
            }
            Self::Open(mut output) => {
                let arrival = output.next().await;
                let is_last = !matches!(arrival, ExchangeEvent::Event { .. });
                let next = if is_last {
                    Self::Over
                } else {
                    Self::Open(output)
                };
                Some((arrival, next))
            }
            Self::Over => None,
        }
    }
}

/// What a process says; dropping it ends the process.
struct Output {
    stdout: ChildStdout,
    read: BytesMut,
    /// Bytes of `read` in which there is no line end.
    looked_at: usize,
    cap: usize,
    held: ByteShare,
    asides: mpsc::Receiver<String>,
    present: Arc<Present>,
    over: watch::Receiver<Option<String>>,
    is_over: bool,
    /// Whether nothing more comes on stdout.
    is_read: bool,
    /// Lines that were no messages.
    strays: u64,
    gate: Gate,
    tapped: Option<Tapped>,
}

impl Drop for Output {
    fn drop(&mut self) {
        self.present.end.notify_one();
    }
}

impl Output {
    async fn next(&mut self) -> ExchangeEvent {
        loop {
            while let Some(line) = self.line() {
                if let Some(arrival) = self.heard(&line) {
                    return arrival;
                }
            }
            if self.read.len() > self.cap {
                return ExchangeEvent::TooLarge { cap: self.cap };
            }
            if is_too_much(&mut self.held, self.read.len()) {
                return too_much();
            }
            if self.is_read {
                return self.last().await;
            }
            self.read.reserve(8 * 1024);
            tokio::select! {
                read = self.stdout.read_buf(&mut self.read) => {
                    self.is_read = !matches!(read, Ok(bytes) if bytes > 0);
                }
                Some(aside) = self.asides.recv() => return event(aside),
                _ = self.over.wait_for(Option::is_some), if !self.is_over => self.is_over = true,
                () = sleep(DRAIN_WITHIN), if self.is_over => self.is_read = true, // sleep: who else holds the pipe is not told
            }
        }
    }

    /// The next whole line, without its end.
    fn line(&mut self) -> Option<BytesMut> {
        let new = self.read.get(self.looked_at..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', new) else {
            self.looked_at = self.read.len();
            return None;
        };
        let line = self.read.split_to(self.looked_at + end + 1);
        self.looked_at = 0;
        Some(line)
    }

    fn heard(&mut self, line: &[u8]) -> Option<ExchangeEvent> {
        let line = line.trim_ascii();
        if matches!(line.first(), Some(b'{' | b'[')) {
            let message = self.gate.message(into_text(line.to_vec()));
            if let Some(tapped) = &self.tapped {
                tapped.line(Direction::Received, message.as_bytes());
            }
            return Some(event(message));
        }
        if let Some(tapped) = self.tapped.as_ref().filter(|_| !line.is_empty()) {
            tapped.line(Direction::Received, line);
        }
        if line.is_empty() {
            return None;
        }
        // Many programs greet whoever starts them.
        self.strays += 1;
        let line = line.get(..ASIDE_BYTES).unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        let line = self.gate.text(&line);
        let words = format!("no message: {line}");
        (self.strays <= STRAYS).then(|| event(log_notification("warning", "stdout", &words)))
    }

    /// What comes once stdout has ended: what was said beside it, then why.
    async fn last(&mut self) -> ExchangeEvent {
        self.present.end.notify_one();
        let why = self.present.why().await;
        if let Ok(aside) = self.asides.try_recv() {
            return event(aside);
        }
        let strays = match self.strays {
            0 => String::new(),
            1 => " (1 line on its stdout was no message)".to_owned(),
            count => format!(" ({count} lines on its stdout were no messages)"),
        };
        ExchangeEvent::Broken {
            why: format!("{why}{strays}"),
        }
    }
}

/// Writes messages one after the other; dropping this closes the pipe.
async fn write(mut stdin: ChildStdin, mut messages: mpsc::Receiver<Message>) {
    while let Some(Message { line, written }) = messages.recv().await {
        let sent = stdin.write_all(line.as_bytes()).await;
        if sent.is_err() || stdin.flush().await.is_err() {
            return;
        }
        // Whoever sent it may have gone.
        let _ = written.send(());
    }
}

/// The last lines of stderr.
#[derive(Clone, Default)]
struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn add(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    fn message(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.join(" / ")
    }
}

/// Reads stderr, which is a log for people and means no failure.
async fn heed(stderr: ChildStderr, tail: Tail, asides: mpsc::Sender<String>, secrets: Secrets) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let (used, is_whole) = match reader.fill_buf().await {
            Ok(chunk) if !chunk.is_empty() => {
                let end = memchr::memchr(b'\n', chunk);
                let piece = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
                let room = ASIDE_BYTES.saturating_sub(line.len());
                line.extend_from_slice(piece.get(..room).unwrap_or(piece));
                (piece.len() + usize::from(end.is_some()), end.is_some())
            }
            _ => break,
        };
        reader.consume(used);
        if is_whole {
            complain(&std::mem::take(&mut line), &tail, &asides, &secrets);
        }
    }
    complain(&line, &tail, &asides, &secrets);
}

fn complain(line: &[u8], tail: &Tail, asides: &mpsc::Sender<String>, secrets: &Secrets) {
    let line = String::from_utf8_lossy(line);
    let line = secrets.mask(line.trim_end());
    let line = text::clean_line(&line);
    if line.is_empty() {
        return;
    }
    tail.add(&line);
    // A flood of them is left out where nobody reads them.
    let _ = asides.try_send(log_notification("info", "stderr", &line));
}

/// Everything that was started for one server. Dropping it kills what is left.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may have ended meanwhile.
            let _ = kill_process_group(group, signal);
        }
    }

    fn is_there(&self) -> bool {
        self.0
            .is_some_and(|group| test_kill_process_group(group).is_ok())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Waits for the end of a process, or sees to it.
struct ProcessSupervisor {
    child: Child,
    group: Group,
    present: Arc<Present>,
    writing: JoinHandle<()>,
    complaining: JoinHandle<()>,
    tail: Tail,
}

impl ProcessSupervisor {
    async fn keep(mut self, over: watch::Sender<Option<String>>) {
        let (status, is_ours) = tokio::select! {
            status = self.child.wait() => (status, false),
            () = self.present.end.notified() => (self.end().await, true),
        };
        self.writing.abort();
        if self.group.is_there() {
            self.group.signal(Signal::TERM);
            sleep(REST_WITHIN).await; // sleep: the end of a group is told to nobody, and each in it has this long
            self.group.signal(Signal::KILL);
        }
        self.group.0 = None;
        if timeout(REST_WITHIN, &mut self.complaining).await.is_err() {
            self.complaining.abort();
        }
        let how = match status {
            Ok(status) => how(status, is_ours),
            Err(error) => format!("its program was lost sight of: {error}"),
        };
        let said = self.tail.message();
        let why = if said.is_empty() {
            how
        } else {
            format!("{how}; it said: {said}")
        };
        // Nobody has to listen.
        let _ = over.send(Some(why));
    }

    /// The order that the protocol asks for: its stdin is closed, then it is told to end, then it is ended.
    async fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.writing.abort();
        if let Ok(status) = timeout(END_WITHIN, self.child.wait()).await {
            return status;
        }
        self.group.signal(Signal::TERM);
        if let Ok(status) = timeout(TERM_WITHIN, self.child.wait()).await {
            return status;
        }
        self.group.signal(Signal::KILL);
        self.child.wait().await
    }
}

fn how(status: ExitStatus, is_ours: bool) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) if is_ours => "its program ended".to_owned(),
        (Some(code), _) => format!("its program ended with status {code}"),
        (None, Some(signal)) => format!("its program was ended by signal {signal}"),
        (None, None) => "its program ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(20);

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
        timeout(WITHIN, stdio.exchange(request).collect())
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

    fn data(arrival: &ExchangeEvent) -> &str {
        match arrival {
            ExchangeEvent::Event { data, .. } => data,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_goes_in_and_one_comes_out() {
        run(async {
            let stdio = shell(r#"read line; printf '{"got":%s}\n' "$line""#);
            assert!(matches!(
                all(&stdio, post("{}")).await[..],
                [ExchangeEvent::NotSent { .. }]
            ));
            let mut said = stdio.exchange(get());
            assert!(matches!(
                said.next().await,
                Some(ExchangeEvent::Opened { .. })
            ));
            assert!(matches!(
                said.next().await,
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
            let came = timeout(WITHIN, said.next()).await.unwrap().unwrap();
            assert_eq!(data(&came), r#"{"got":{"a": 1}}"#);
            let last = timeout(WITHIN, said.next()).await.unwrap().unwrap();
            assert!(matches!(last, ExchangeEvent::Broken { .. }), "{last:?}");
            assert!(said.next().await.is_none() && !stdio.is_running());
        });
    }

    #[test]
    fn what_is_no_message_is_told_of_and_counted_and_a_death_has_its_last_words() {
        run(async {
            let stdio =
                shell("echo Welcome; echo; echo '{}'; echo 'no hunter22 \x1b[2J' >&2; exit 3");
            let came = all(&stdio, get()).await;
            let texts: Vec<&str> = came[2..came.len() - 1].iter().map(data).collect();
            assert!(texts.contains(&"{}"), "{texts:?}");
            let of = |logger: &str| texts.iter().find(|it| it.contains(logger)).unwrap();
            assert!(of("stdout").contains("no message: Welcome"));
            assert!(of("stderr").contains("no [redacted:a_secret] "));
            let Some(ExchangeEvent::Broken { why }) = came.last() else {
                panic!("{came:?}");
            };
            assert!(
                why.starts_with(
                    "its program ended with status 3; it said: no [redacted:a_secret] "
                ),
                "{why}"
            );
            assert!(why.ends_with("(1 line on its stdout was no message)"));
            assert!(!format!("{came:?}").contains("hunter22"));
        });
    }

    #[test]
    fn a_line_without_an_end_is_cut_off_at_the_cap() {
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
            timeout(WITHIN, stdio.end()).await.unwrap();
            assert!(!stdio.is_running());
        });
    }

    #[test]
    fn one_that_does_not_listen_is_ended_with_all_that_it_started() {
        run(async {
            let stdio = shell(
                "trap '' TERM; sleep 1000 & echo \"{\\\"pid\\\":$!}\"; while :; do sleep 1; done",
            );
            let mut said = stdio.exchange(get());
            let mut pid = None;
            while pid.is_none() {
                let came = timeout(WITHIN, said.next()).await.unwrap().unwrap();
                if let ExchangeEvent::Event { data, .. } = came {
                    let value: serde_json::Value = serde_json::from_str(&data).unwrap();
                    pid = value["pid"].as_i64();
                }
            }
            drop(said);
            timeout(WITHIN, stdio.end()).await.unwrap();
            let pid = Pid::from_raw(i32::try_from(pid.unwrap()).unwrap()).unwrap();
            let gone = async {
                // A zombie of nobody's is there until the first process of the machine has seen it.
                let is_zombie = || {
                    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
                    stat.is_ok_and(|stat| stat.contains(") Z "))
                };
                while rustix::process::test_kill_process(pid).is_ok() && !is_zombie() {
                    sleep(Duration::from_millis(5)).await; // sleep: nobody is told of the end of a grandchild
                }
            };
            timeout(WITHIN, gone).await.unwrap();
        });
    }

    #[test]
    fn what_cannot_be_started_is_said_and_nothing_was_sent() {
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
