//! The driver's socket: other longhaul processes of the session send requests over it and see what the driver
//! publishes.
//!
//! One JSON value per line. A client sends [`ToDriver`], the driver sends [`SessionEvent`]. The socket has mode 0600 in
//! a private directory; a process that can open it may do what the user may. In addition, a client checks that the
//! driver is alive with [`PING`] and gets [`PONG`], which distinguishes a stopped driver from a quiet one.

use std::{
    ffi::OsString,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{Sink, SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixListener, UnixStream},
    sync::{Mutex, Notify, OwnedMutexGuard, mpsc, watch},
    task::AbortHandle,
};
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

use super::{
    frames::{FirstFrame, Hello, KeeperStatus, TaskConnections, UpgradeRequest, Verb, VerbAnswer},
    pace::Pace,
    snapshots::{Snapshots, Subscription},
    tunnel::LINE_BYTES,
    upgrade::{Replacement, TrialRun, UpgradeError},
};
use crate::{
    domain::{RequestError, SessionDriver, SessionEvent, SessionRequest, SessionRequestId, Wall},
    engine::pending_requests::Envelope,
    store::Paths,
};

/// A client's check that the driver is alive.
pub(super) const PING: &str = "ping";

/// The driver's response to it.
pub(super) const PONG: &str = "pong";

/// How long a client may take for its first frame.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// The delay after the system refused a connection, for example without free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What a client sends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ToDriver {
    pub(super) ask: SessionRequestId,
    pub(super) what: SessionRequest,
}

/// What is read of a request or a response that this program does not know.
#[derive(Deserialize)]
pub(super) struct Numbered {
    pub(super) ask: SessionRequestId,
}

/// The response to a request that this program does not know: without one, the client would repeat it on each connection.
const UNKNOWN_REQUEST: &str = "this request comes from another version of longhaul; `longhaul keeper upgrade` switches the keeper to it";

/// The listening sockets, one for each contract; dropping this hangs up on every client.
pub(super) struct Listener {
    /// Our contract's first.
    sockets: Vec<ListeningSocket>,
}

struct ListeningSocket {
    accepting: AbortHandle,
    path: PathBuf,
    /// The file at `path`, as device and inode.
    file: Option<(u64, u64)>,
    handle: Option<OwnedFd>,
}

impl ListeningSocket {
    fn is_reachable(&self) -> bool {
        self.file.is_some() && self.file == file_id(&self.path)
    }
}

impl Listener {
    /// Whether the path of our contract's socket still leads to it.
    pub(super) fn is_reachable(&self) -> bool {
        let ours = self.sockets.first();
        ours.is_some_and(ListeningSocket::is_reachable)
    }

    /// Removes the sockets' paths, so that no new client comes, unless they lead to another driver's sockets. The caller
    /// still holds the lock.
    pub(super) fn remove_sockets(&self) {
        for socket in self.sockets.iter().filter(|socket| socket.is_reachable()) {
            // The next driver replaces a leftover one.
            let _ = std::fs::remove_file(&socket.path);
        }
    }

    /// A duplicate of our contract's socket, for the program that replaces this one.
    pub(super) fn duplicate(&self) -> Option<OwnedFd> {
        self.sockets.first()?.handle.as_ref()?.try_clone().ok()
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn file_id(path: &Path) -> Option<(u64, u64)> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// What a driver's socket needs to serve its clients; cheap to clone.
#[derive(Clone)]
pub(super) struct SocketService {
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) pace: Pace,
    pub(super) asks: mpsc::Sender<Envelope>,
    /// How many clients are connected.
    pub(super) clients: watch::Sender<usize>,
    /// Notified when a client stops the keeper; `None` if this driver is no keeper.
    pub(super) stop: Option<Arc<Notify>>,
    /// When this process began to drive.
    pub(super) since: Wall,
    /// The contract that this program speaks.
    pub(super) contract: u32,
    /// The arguments of this process, for the program that replaces it.
    pub(super) args: Vec<OsString>,
    /// Where upgrades are carried out.
    pub(super) upgrades: mpsc::Sender<UpgradeJob>,
    /// Held by the upgrade in progress: one that replaces the program would hang up on the client of another.
    pub(super) upgrading: Arc<Mutex<()>>,
}

impl SocketService {
    pub(super) fn status(&self) -> KeeperStatus {
        let Hello {
            contract, version, ..
        } = Hello::ours(self.contract);
        let tasks = self.snapshots.tasks();
        KeeperStatus {
            pid: std::process::id(),
            version,
            contract,
            is_keeper: self.stop.is_some(),
            since_ms: self.since.0,
            unsettled: tasks
                .iter()
                .filter(|it| it.task.is_open() || it.is_unsaved)
                .count(),
            unsaved: tasks.iter().filter(|it| it.is_unsaved).count(),
            unsaved_why: tasks.iter().find_map(|it| it.unsaved_why.clone()),
            clients: *self.clients.borrow(),
        }
    }

    fn connections(&self) -> TaskConnections {
        let tasks = self.snapshots.tasks();
        let status = self.status();
        let unsettled = tasks.iter().filter(|it| !it.task.status.is_settled());
        TaskConnections {
            tasks: unsettled
                .map(|it| (it.task.id.clone(), it.contact.clone()))
                .collect(),
            unsaved: status.unsaved,
            unsaved_why: status.unsaved_why,
        }
    }

    async fn carry_out(&self, verb: Verb, mut lines: Framed<UnixStream, LinesCodec>) {
        let answer = match (verb, &self.stop) {
            (Verb::Status, _) => VerbAnswer::Status(self.status()),
            (Verb::Connections, _) => VerbAnswer::Connections(self.connections()),
            (Verb::Stop, Some(stop)) => {
                stop.notify_one();
                VerbAnswer::Stopping(self.status())
            }
            (Verb::Upgrade(request), Some(_)) => match self.start_trial(&request).await {
                Ok((trial, turn)) => return self.upgrade(request, trial, turn, lines).await,
                Err(error) => VerbAnswer::Upgrade(error.into()),
            },
            (Verb::Stop | Verb::Upgrade(_), None) => VerbAnswer::NotAKeeper(self.status()),
        };
        if send(&mut lines, &answer).await.is_ok() {
            // After `stop`, hanging up tells the client that everything is saved.
            let _ = lines.next().await;
        }
    }

    /// Starts the new program while this one still serves its clients.
    async fn start_trial(
        &self,
        request: &UpgradeRequest,
    ) -> Result<(TrialRun, Turn), UpgradeError> {
        let turn = Arc::clone(&self.upgrading).try_lock_owned();
        let turn = turn.map_err(|_| UpgradeError::IN_PROGRESS)?;
        let replacement = Replacement {
            program: request.program.clone(),
            args: self.args.clone(),
        };
        let started = tokio::task::spawn_blocking(move || TrialRun::start(replacement));
        let trial = started.await;
        let trial = trial.unwrap_or(Err(UpgradeError::Busy("the keeper is exiting")))?;
        Ok((trial, turn))
    }

    async fn upgrade(
        &self,
        request: UpgradeRequest,
        trial: TrialRun,
        turn: Turn,
        lines: Framed<UnixStream, LinesCodec>,
    ) {
        let Ok(client) = lines.into_inner().into_std() else {
            return;
        };
        let job = UpgradeJob {
            request,
            trial,
            client,
            turn,
        };
        // A driver that exits hangs up on the client.
        let _ = self.upgrades.send(job).await;
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

/// An upgrade that a client has requested.
pub(super) struct UpgradeJob {
    pub(super) request: UpgradeRequest,
    pub(super) trial: TrialRun,
    /// Gets the answer.
    pub(super) client: std::os::unix::net::UnixStream,
    /// Ends with the job.
    pub(super) turn: Turn,
}

type Turn = OwnedMutexGuard<()>;

/// A listening socket that this program got from the one that it replaced, and its contract.
pub(super) type InheritedSocket = (u32, std::os::unix::net::UnixListener);

/// A socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("could not open {} ({error})", path.display())]
pub(super) struct ListenError {
    path: PathBuf,
    error: std::io::Error,
}

/// Opens the sockets; the caller holds the lock, so existing ones are a dead driver's.
///
/// A socket gets its name when clients can connect, so that a client never finds one that nobody serves.
pub(super) fn listen(
    paths: &Paths,
    host: &SocketService,
    mut inherited: Option<InheritedSocket>,
) -> Result<Listener, ListenError> {
    let mut sockets = Vec::new();
    for contract in paths.served_contracts() {
        let path = paths.socket_of(contract);
        let listener = match inherited.take_if(|(of, _)| *of == contract) {
            Some((_, listener)) => UnixListener::from_std(listener),
            None => bind(&path),
        };
        let listener = match listener {
            Ok(listener) => listener,
            Err(error) => return Err(ListenError { path, error }),
        };
        let handle = listener.as_fd().try_clone_to_owned().ok();
        let accepting = tokio::task::spawn_local(accept(listener, host.clone(), contract));
        sockets.push(ListeningSocket {
            accepting: accepting.abort_handle(),
            file: file_id(&path),
            path,
            handle,
        });
    }
    if let Some((contract, _)) = inherited {
        let _ = std::fs::remove_file(paths.socket_of(contract));
    }
    Ok(Listener { sockets })
}

fn bind(path: &Path) -> std::io::Result<UnixListener> {
    let unnamed = path.with_extension("new");
    let _ = std::fs::remove_file(&unnamed);
    let listener = UnixListener::bind(&unnamed)?;
    std::fs::set_permissions(&unnamed, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&unnamed, path)?;
    Ok(listener)
}

async fn accept(listener: UnixListener, host: SocketService, contract: u32) {
    let mut clients = tokio::task::JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                host.pace.attend();
                clients.spawn_local(serve(stream, host.clone(), contract));
            }
            Err(error) => {
                tracing::warn!(%error, "a client was refused");
                tokio::time::sleep(ACCEPT_AGAIN).await; // sleep: it fails for want of file handles
            }
        }
        while clients.try_join_next().is_some() {}
    }
}

/// Serves one client: its requests in, the newest snapshots out.
async fn serve(stream: UnixStream, host: SocketService, contract: u32) {
    if !is_of_this_user(&stream) {
        return;
    }
    let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES));
    if send(&mut lines, &Hello::ours(contract)).await.is_err() {
        return;
    }
    let Ok(Some(Ok(first))) = tokio::time::timeout(HELLO_WITHIN, lines.next()).await else {
        return;
    };
    let hello = match serde_json::from_str(&first) {
        Ok(FirstFrame::Hello(hello)) if hello.contract == contract => hello,
        Ok(FirstFrame::Verb { verb }) => return host.carry_out(verb, lines).await,
        _ => return,
    };
    let _counted = Counted::new(host.clients.clone());
    let SocketService {
        snapshots,
        pace,
        asks,
        ..
    } = host;
    let subscription = snapshots.subscribe();
    if hello.wants_only_followed() {
        subscription.ignore_views();
    }
    let (mut to_client, mut from_client) = lines.split();
    let pinged = Notify::new();
    // Reading never waits for writing. Otherwise both ends could wait for the other to read.
    let reading = async {
        while let Some(Ok(line)) = from_client.next().await {
            if line == PING {
                pinged.notify_one();
                continue;
            }
            let Ok(ToDriver { ask, what }) = serde_json::from_str(&line) else {
                let Ok(Numbered { ask }) = serde_json::from_str(&line) else {
                    return;
                };
                let refusal = RequestError::Usage(UNKNOWN_REQUEST.to_owned());
                snapshots.answer(subscription.id, ask, Err(refusal));
                continue;
            };
            pace.attend();
            let asked = Envelope {
                reader: subscription.id,
                is_ours: false,
                ask,
                what,
            };
            if asks.send(asked).await.is_err() {
                return;
            }
        }
    };
    let writing = async {
        loop {
            let written = tokio::select! {
                () = pinged.notified() => to_client.send(PONG.to_owned()).await,
                () = subscription.changed() => {
                    // What the same turn sends to a server goes first: the server can then work meanwhile.
                    tokio::task::yield_now().await;
                    write_events(&mut to_client, &subscription).await
                }
            };
            if written.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}

/// Writes everything that this client has not seen.
async fn write_events(
    to_client: &mut (impl Sink<String, Error = LinesCodecError> + Unpin),
    subscription: &Subscription,
) -> Result<(), LinesCodecError> {
    for news in subscription.take() {
        let news = match news {
            SessionEvent::Driver(driver) => SessionEvent::Driver(SessionDriver {
                is_us: false,
                ..driver
            }),
            other => other,
        };
        let Ok(line) = serde_json::to_string(&news) else {
            continue;
        };
        to_client.feed(line).await?;
    }
    to_client.flush().await
}

/// Whether the process at the other end runs as the same user. The socket's directory and mode should see to that
/// already.
pub(super) fn is_of_this_user(stream: &UnixStream) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == ours)
}

/// Sends a frame.
pub(super) async fn send<S: AsyncRead + AsyncWrite + Unpin>(
    lines: &mut Framed<S, LinesCodec>,
    frame: &impl Serialize,
) -> Result<(), LinesCodecError> {
    let line = serde_json::to_string(frame).map_err(std::io::Error::from)?;
    lines.send(line).await
}
