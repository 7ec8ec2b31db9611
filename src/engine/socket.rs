//! The driver's socket: other longhaul processes of the session send requests over it and see what the driver
//! publishes.
//!
//! One JSON value per line. A client sends [`ToDriver`], the driver sends [`SessionEvent`]. The socket has mode 0600 in
//! a private directory; a process that can open it may do what the user may. In addition, a client checks that the
//! driver is alive with [`PING`] and gets [`PONG`], which distinguishes a stopped driver from a quiet one.

use std::{io::BufRead as _, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt as _};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    task::AbortHandle,
};
use tokio_util::codec::{Framed, LinesCodec};

use super::{file_watcher::FileWatcher, pace::Pace, snapshots::Snapshots};
use crate::{
    domain::{
        Connectivity, Notice, NoticeLevel, RequestError, SessionEvent, SessionRequest,
        SessionRequestId, TaskId, exit,
    },
    engine::{
        options::Options,
        pending_requests::{Envelope, PendingRequests, Requester},
    },
    store::{DriverLock, Paths},
};

/// The longest line on the socket: a call's arguments, or a task with its attempts.
const LINE_BYTES: usize = 64 * 1024 * 1024;

/// A client's check that the driver is alive.
const PING: &str = "ping";

/// The driver's response to it.
const PONG: &str = "pong";

/// The driver's first line; it changes whenever the protocol changes, so that two versions never
/// misunderstand each other.
const GREETING: &str = "longhaul 4";

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

/// The listening socket; dropping it closes and removes it.
pub(super) struct Listener {
    accepting: AbortHandle,
    path: std::path::PathBuf,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
        // The next driver replaces a leftover socket.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens the socket; the caller holds the lock, so an existing socket is a dead driver's.
pub(super) fn listen(
    paths: &Paths,
    snapshots: &Arc<Snapshots>,
    pace: &Pace,
    asks: mpsc::Sender<Envelope>,
) -> Result<Listener, String> {
    let path = paths.socket();
    let fail = |error: std::io::Error| {
        format!(
            "could not open {} ({error}); other terminals cannot join this session",
            path.display()
        )
    };
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(fail)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
    let (snapshots, pace) = (Arc::clone(snapshots), pace.clone());
    let accepting = tokio::task::spawn_local(async move {
        let mut clients = tokio::task::JoinSet::new();
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    pace.attend();
                    clients.spawn_local(serve(
                        stream,
                        Arc::clone(&snapshots),
                        pace.clone(),
                        asks.clone(),
                    ));
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
        path: path.clone(),
    })
}

/// Serves one client: its requests in, the newest snapshots out.
async fn serve(
    stream: UnixStream,
    snapshots: Arc<Snapshots>,
    pace: Pace,
    asks: mpsc::Sender<Envelope>,
) {
    let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let client = Requester::Client(peer.and_then(|pid| u32::try_from(pid).ok()));
    let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES));
    let subscription = snapshots.subscribe();
    if lines.send(GREETING).await.is_err() {
        return;
    }
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
                let asked = Envelope { reader: subscription.id, asker: client, ask, what };
                if asks.send(asked).await.is_err() {
                    return;
                }
            }
            () = subscription.changed() => {
                for news in subscription.take() {
                    let news = match news {
                        SessionEvent::Driver { pid, .. } => SessionEvent::Driver { pid, is_us: false },
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
    let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES));
    let greeting = tokio::select! {
        greeting = tokio::time::timeout(DRIVER_WITHIN, lines.next()) => greeting.ok()??.ok()?,
        _ = &mut *leaving => return Some(Ending::Left),
    };
    if greeting != GREETING {
        return Some(sit_out(&mut lines, snapshots, asks, leaving, open).await);
    }
    // Another process may have driven in between without reporting what was removed.
    glance.look(snapshots, &options.paths, false);
    open.keep_own();
    open.follows(snapshots, DriverLock::holder(&options.paths));
    // The servers of our command line are added first; nothing waits for the responses, but a refusal is reported.
    let servers = options
        .servers
        .iter()
        .map(|server| (OWN_SERVER, SessionRequest::Server(server.clone())));
    let tells = options.config.file.is_some() && !options.readonly;
    let config = tells.then(|| {
        (
            OWN_SERVER,
            SessionRequest::Configure(options.config.clone()),
        )
    });
    let traces = options.traces && !options.readonly;
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

/// Sends a request to the driver of a session, if one answers, without opening the session.
pub async fn ask_driver(paths: &Paths, what: SessionRequest) {
    let asked = async {
        let stream = UnixStream::connect(paths.socket()).await.ok()?;
        let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(LINE_BYTES));
        let greeting = lines.next().await?.ok()?;
        if greeting == GREETING {
            say(&mut lines, OWN_SERVER, what).await.ok()?;
        }
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
    let Ok(stream) = std::os::unix::net::UnixStream::connect(paths.socket()) else {
        return barred;
    };
    if stream.set_read_timeout(Some(PICTURE_WITHIN)).is_err() {
        return barred;
    }
    let mut lines = std::io::BufReader::new(stream).lines();
    if !matches!(lines.next(), Some(Ok(greeting)) if greeting == GREETING) {
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

/// How a period as driver or client ended.
pub(super) enum Ending {
    /// This process exits.
    Left,
    /// The driver is gone; another process has to take over.
    DriverGone,
    /// The driver holds the session but is stopped.
    DriverSilent,
}
