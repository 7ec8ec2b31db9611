//! The driver's socket: other longhaul processes of the session send requests over it and see what the driver
//! publishes.
//!
//! One JSON value per line. A client sends [`ToDriver`], the driver sends [`SessionEvent`]. The socket has mode 0600 in
//! a private directory; a process that can open it may do what the user may. In addition, a client checks that the
//! driver is alive with [`PING`] and gets [`PONG`], which distinguishes a stopped driver from a quiet one.

use std::{
    io::{BufRead as _, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    sync::Arc,
    time::Duration,
};

use futures_util::{SinkExt, StreamExt as _};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Notify, mpsc, oneshot, watch},
    task::AbortHandle,
};
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

use super::{
    file_watcher::FileWatcher,
    frames::{FirstFrame, Hello, KeeperStatus, Verb, VerbAnswer},
    pace::Pace,
    snapshots::Snapshots,
};
use crate::{
    domain::{
        Connectivity, Notice, NoticeLevel, RequestError, SessionDriver, SessionEvent,
        SessionRequest, SessionRequestId, TaskId, Wall, exit,
    },
    engine::{
        options::{Options, ProcessRole},
        pending_requests::{Envelope, PendingRequests, Requester},
    },
    store::{CONTRACT, DriverLock, Paths, process_state},
};

/// The longest line on the socket: a call's arguments, or a task with its attempts.
const LINE_BYTES: usize = 64 * 1024 * 1024;

/// A client's check that the driver is alive.
const PING: &str = "ping";

/// The driver's response to it.
const PONG: &str = "pong";

/// How long a client may take for its first frame.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// The delay after the system refused a connection, for example without free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// How often a silent driver is pinged.
const PING_EVERY: Duration = Duration::from_secs(2);

/// Unanswered pings after which the driver counts as stopped. Counted, not timed: our own sleep is not silence.
const PINGS_UNHEARD: u32 = 3;

/// How long a driver may take to send its snapshots to a command that only lists tasks.
const PICTURE_WITHIN: Duration = Duration::from_millis(500);

/// The request number with which a client adds the servers of its command line; others start at 1.
const OWN_SERVER: SessionRequestId = 0;

/// What a client sends.
#[derive(Debug, Serialize, Deserialize)]
struct ToDriver {
    ask: SessionRequestId,
    what: SessionRequest,
}

/// The listening socket; dropping it hangs up on every client.
pub(super) struct Listener {
    accepting: AbortHandle,
    path: std::path::PathBuf,
    /// The file at `path`, as device and inode.
    file: Option<(u64, u64)>,
}

impl Listener {
    /// Whether the socket's path still leads to this socket.
    pub(super) fn is_reachable(&self) -> bool {
        self.file.is_some() && self.file == file_id(&self.path)
    }

    /// Removes the socket's path, so that no new client comes, unless it leads to another driver's socket. The caller
    /// still holds the lock.
    pub(super) fn remove_socket(&self) {
        // The next driver replaces a leftover one.
        if self.is_reachable() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn file_id(path: &std::path::Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// What a driver's socket needs to serve its clients; cheap to clone.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) pace: Pace,
    pub(super) asks: mpsc::Sender<Envelope>,
    /// How many clients are connected.
    pub(super) clients: watch::Sender<usize>,
    /// Notified when a client stops the keeper; `None` if this driver is no keeper.
    pub(super) stop: Option<Arc<Notify>>,
    /// When this process began to drive.
    pub(super) since: Wall,
}

impl Host {
    fn status(&self) -> KeeperStatus {
        let Hello {
            contract, version, ..
        } = Hello::ours();
        let tasks = self.snapshots.tasks();
        KeeperStatus {
            pid: std::process::id(),
            version,
            contract,
            is_keeper: self.stop.is_some(),
            since_ms: self.since.0,
            unsettled: tasks
                .iter()
                .filter(|it| !it.task.status.is_settled())
                .count(),
            clients: *self.clients.borrow(),
        }
    }

    fn carry_out(&self, verb: Verb) -> VerbAnswer {
        match (verb, &self.stop) {
            (Verb::Status, _) => VerbAnswer::Status(self.status()),
            (Verb::Stop, Some(stop)) => {
                stop.notify_one();
                VerbAnswer::Stopping(self.status())
            }
            (Verb::Stop, None) => VerbAnswer::NotAKeeper(self.status()),
        }
    }
}

/// Counts a client while it is connected.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(clients: watch::Sender<usize>) -> Self {
        clients.send_modify(|count| *count += 1);
        Self(clients)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Opens the socket; the caller holds the lock, so an existing socket is a dead driver's.
///
/// The socket gets its name when clients can connect, so that a client never finds one that nobody serves.
pub(super) fn listen(paths: &Paths, host: Host) -> Result<Listener, String> {
    let path = paths.socket();
    let unnamed = path.with_extension("new");
    let fail = |error: std::io::Error| {
        format!(
            "could not open {} ({error}); other terminals cannot join this session",
            path.display()
        )
    };
    let _ = std::fs::remove_file(&unnamed);
    let listener = UnixListener::bind(&unnamed).map_err(fail)?;
    std::fs::set_permissions(&unnamed, std::fs::Permissions::from_mode(0o600))
        .and_then(|()| std::fs::rename(&unnamed, &path))
        .map_err(fail)?;
    let accepting = tokio::task::spawn_local(async move {
        let mut clients = tokio::task::JoinSet::new();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    host.pace.attend();
                    clients.spawn_local(serve(stream, host.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a client was refused");
                    tokio::time::sleep(ACCEPT_AGAIN).await; // sleep: it fails for want of file handles
                }
            }
            while clients.try_join_next().is_some() {}
        }
    });
    Ok(Listener {
        accepting: accepting.abort_handle(),
        file: file_id(&path),
        path: path.clone(),
    })
}

/// Serves one client: its requests in, the newest snapshots out.
async fn serve(stream: UnixStream, host: Host) {
    if !is_of_this_user(&stream) {
        return;
    }
    let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES));
    if send(&mut lines, &Hello::ours()).await.is_err() {
        return;
    }
    let Ok(Some(Ok(first))) = tokio::time::timeout(HELLO_WITHIN, lines.next()).await else {
        return;
    };
    match serde_json::from_str(&first) {
        Ok(FirstFrame::Hello(hello)) if hello.contract == CONTRACT => {}
        Ok(FirstFrame::Verb { verb }) => {
            let answer = host.carry_out(verb);
            if send(&mut lines, &answer).await.is_ok() {
                // After `stop`, hanging up tells the client that everything is saved.
                let _ = lines.next().await;
            }
            return;
        }
        _ => return,
    }
    let _counted = Counted::new(host.clients.clone());
    let Host {
        snapshots,
        pace,
        asks,
        ..
    } = host;
    let subscription = snapshots.subscribe();
    loop {
        tokio::select! {
            line = lines.next() => {
                let Some(Ok(line)) = line else { return };
                if line == PING {
                    if lines.send(PONG).await.is_err() {
                        return;
                    }
                    continue;
                }
                let Ok(ToDriver { ask, what }) = serde_json::from_str(&line) else { return };
                pace.attend();
                let asked = Envelope { reader: subscription.id, asker: Requester::Client, ask, what };
                if asks.send(asked).await.is_err() {
                    return;
                }
            }
            () = subscription.changed() => {
                for news in subscription.take() {
                    let news = match news {
                        SessionEvent::Driver(driver) => {
                            SessionEvent::Driver(SessionDriver { is_us: false, ..driver })
                        }
                        other => other,
                    };
                    let Ok(line) = serde_json::to_string(&news) else { continue };
                    if lines.feed(line).await.is_err() {
                        return;
                    }
                }
                if SinkExt::<String>::flush(&mut lines).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Follows the driver as its client until either exits; `None` if it does not answer.
///
/// Sends no request before the driver's first line: a request waiting in the socket of a stopped driver would be
/// carried out when it continues, long after the requester gave up.
pub(super) async fn follow(
    options: &mut Options,
    snapshots: &Arc<Snapshots>,
    asks: &mut mpsc::Receiver<Envelope>,
    leaving: &mut oneshot::Receiver<()>,
    open: &mut PendingRequests,
    glance: &mut FileWatcher,
) -> Option<Ending> {
    let stream = UnixStream::connect(options.paths.socket()).await.ok()?;
    if !is_of_this_user(&stream) {
        return None;
    }
    let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES));
    let hello = tokio::select! {
        hello = first_frame(&options.paths, &mut lines) => match hello {
            Some(line) => line?.ok()?,
            None => return Some(Ending::DriverSilent),
        },
        _ = &mut *leaving => return Some(Ending::Left),
    };
    if !is_understood(&hello) || send(&mut lines, &Hello::ours()).await.is_err() {
        return Some(sit_out(&mut lines, snapshots, asks, leaving, open).await);
    }
    // Another process may have driven in between without reporting what was removed.
    glance.look(snapshots, &options.paths, false);
    open.keep_own();
    // The servers of our command line are added first; nothing waits for the responses, but a refusal is reported.
    let servers = options
        .servers
        .iter()
        .map(|server| (OWN_SERVER, SessionRequest::Server(server.clone())));
    let is_watching = matches!(options.role, ProcessRole::Watch);
    let tells = options.config.file.is_some() && !is_watching;
    let config = tells.then(|| {
        (
            OWN_SERVER,
            SessionRequest::Configure(options.config.clone()),
        )
    });
    let traces = options.traces && !is_watching;
    let trace = traces.then_some((
        OWN_SERVER,
        SessionRequest::Trace {
            server: None,
            is_on: Some(true),
        },
    ));
    let known = config.into_iter().chain(servers).chain(trace);
    for (ask, what) in known.chain(open.all()) {
        if let Err(ending) = say(&mut lines, ask, what).await {
            return Some(ending);
        }
    }
    let mut ticks = tokio::time::interval(PING_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.reset();
    let mut unheard = 0;
    loop {
        tokio::select! {
            line = lines.next() => {
                let Some(Ok(line)) = line else { return Some(Ending::DriverGone) };
                unheard = 0;
                if line == PONG {
                    continue;
                }
                let Ok(news) = serde_json::from_str::<SessionEvent>(&line) else {
                    return Some(sit_out(&mut lines, snapshots, asks, leaving, open).await);
                };
                match news {
                    SessionEvent::Response { request: OWN_SERVER, outcome: Err(refused) } => {
                        snapshots.publish(SessionEvent::Notice(Notice {
                            at: options.clock.now().wall,
                            level: NoticeLevel::Error,
                            text: refused.to_string(),
                        }));
                    }
                    SessionEvent::Response { request: ask, outcome } => open.answer(snapshots, ask, outcome),
                    // Only a keeper says that: it was stopped.
                    SessionEvent::Undriven => return Some(Ending::Stopped),
                    other => snapshots.publish(other),
                }
            }
            asked = asks.recv() => {
                let Some(asked) = asked else { return Some(Ending::Left) };
                let what = asked.what.clone();
                let ask = open.add(asked);
                if let Err(ending) = say(&mut lines, ask, what).await {
                    return Some(ending);
                }
            }
            _ = ticks.tick() => {
                if unheard >= PINGS_UNHEARD {
                    return Some(Ending::DriverSilent);
                }
                unheard += 1;
                if tokio::time::timeout(DRIVER_WITHIN, lines.send(PING)).await.is_err() {
                    return Some(Ending::DriverSilent);
                }
            }
            _ = &mut *leaving => return Some(Ending::Left),
        }
    }
}

/// What the driver sends first, or the end of the connection; `None` if neither comes in time. A stopped process gets less
/// time.
async fn first_frame(
    paths: &Paths,
    lines: &mut Framed<UnixStream, LinesCodec>,
) -> Option<Option<Result<String, LinesCodecError>>> {
    if let Ok(line) = tokio::time::timeout(STOPPED_WITHIN, lines.next()).await {
        return Some(line);
    }
    if DriverLock::holder(paths).is_some_and(is_stopped) {
        return None;
    }
    let rest = DRIVER_WITHIN.saturating_sub(STOPPED_WITHIN);
    tokio::time::timeout(rest, lines.next()).await.ok()
}

/// Whether a process is stopped, as by Ctrl-Z.
pub(super) fn is_stopped(pid: u32) -> bool {
    process_state(pid) == Some('T')
}

/// Whether the process at the other end runs as the same user. The socket's directory and mode should see to that
/// already.
fn is_of_this_user(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == ours)
}

/// Sends a request to the driver of a session, if one answers, without opening the session.
pub async fn ask_driver(paths: &Paths, what: SessionRequest) {
    let asked = async {
        let stream = UnixStream::connect(paths.socket()).await.ok()?;
        let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES));
        let hello = lines.next().await?.ok()?;
        if !is_understood(&hello) {
            return None;
        }
        send(&mut lines, &Hello::ours()).await.ok()?;
        say(&mut lines, OWN_SERVER, what).await.ok()?;
        while let Some(Ok(line)) = lines.next().await {
            if let Ok(SessionEvent::Response {
                request: OWN_SERVER,
                ..
            }) = serde_json::from_str(&line)
            {
                break;
            }
        }
        Some(())
    };
    // A driver that does not answer reads the change at its next start.
    let _ = tokio::time::timeout(DRIVER_WITHIN, asked).await;
}

/// The tasks that wait for credentials, which only the driver of a session knows. Nothing is requested: the driver
/// sends its snapshots unasked, and they end with the first other event.
pub fn barred_tasks(paths: &Paths) -> Vec<TaskId> {
    let mut barred = Vec::new();
    let Ok(mut stream) = std::os::unix::net::UnixStream::connect(paths.socket()) else {
        return barred;
    };
    let hello = serde_json::json!(Hello::ours());
    if stream.set_read_timeout(Some(PICTURE_WITHIN)).is_err()
        || writeln!(stream, "{hello}").is_err()
    {
        return barred;
    }
    let mut lines = std::io::BufReader::new(stream).lines();
    if !matches!(lines.next(), Some(Ok(hello)) if is_understood(&hello)) {
        return barred;
    }
    for line in lines.map_while(Result::ok) {
        match serde_json::from_str(&line) {
            Ok(SessionEvent::Task(view)) => {
                if view.contact == Connectivity::NeedsLogin {
                    barred.push(view.task.id.clone());
                }
            }
            Ok(SessionEvent::Server(_)) => {}
            _ => break,
        }
    }
    barred
}

/// Waits beside a driver of another version until either exits; reports it once and refuses every request.
///
/// Disconnecting would mean reconnecting at once and reporting it again.
async fn sit_out(
    lines: &mut Framed<UnixStream, LinesCodec>,
    snapshots: &Arc<Snapshots>,
    asks: &mut mpsc::Receiver<Envelope>,
    leaving: &mut oneshot::Receiver<()>,
    open: &mut PendingRequests,
) -> Ending {
    let words = "the longhaul that drives this session has another version; end it and start again";
    snapshots.publish(SessionEvent::Failed {
        message: words.to_owned(),
        exit: exit::DRIVER_SILENT,
    });
    loop {
        open.refuse_all(snapshots, &RequestError::CannotSave(words.to_owned()));
        tokio::select! {
            line = lines.next() => {
                if !matches!(line, Some(Ok(_))) {
                    return Ending::DriverGone;
                }
            }
            asked = asks.recv() => {
                let Some(asked) = asked else { return Ending::Left };
                open.add(asked);
            }
            _ = &mut *leaving => return Ending::Left,
        }
    }
}

/// Whether a driver's first frame is one of our contract.
fn is_understood(hello: &str) -> bool {
    serde_json::from_str::<Hello>(hello).is_ok_and(|hello| hello.contract == CONTRACT)
}

/// Sends a frame.
async fn send(
    lines: &mut Framed<UnixStream, LinesCodec>,
    frame: &impl Serialize,
) -> Result<(), LinesCodecError> {
    let line = serde_json::to_string(frame).map_err(std::io::Error::from)?;
    lines.send(line).await
}

/// Sends a request to the driver, which may have exited or be stopped.
async fn say(
    lines: &mut Framed<UnixStream, LinesCodec>,
    ask: SessionRequestId,
    what: SessionRequest,
) -> Result<(), Ending> {
    let Ok(line) = serde_json::to_string(&ToDriver { ask, what }) else {
        return Err(Ending::DriverGone);
    };
    match tokio::time::timeout(DRIVER_WITHIN, lines.send(line)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Ending::DriverGone),
        Err(_) => Err(Ending::DriverSilent),
    }
}

/// How long a driver may take to answer before that is reported.
pub(super) const DRIVER_WITHIN: Duration = Duration::from_secs(5);

/// After this time without an answer, a client looks whether the driver is stopped.
const STOPPED_WITHIN: Duration = Duration::from_secs(1);

/// How a period as driver or client ended.
pub(super) enum Ending {
    /// This process exits.
    Left,
    /// The driver is gone; another process has to take over.
    DriverGone,
    /// The driver holds the session but is stopped.
    DriverSilent,
    /// A user has stopped the keeper.
    Stopped,
}
