//! A client of a driver's socket, on this machine or through a tunnel: it sends requests and receives what the driver
//! publishes.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    sync::Arc,
    time::Duration,
};

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use serde::Deserialize;
use tokio::{net::UnixStream, sync::mpsc};
use tokio_util::{codec::LinesCodecError, either::Either};

use super::{
    file_watcher::FileWatcher,
    frames::Hello,
    options::{Options, ProcessRole, SessionPurpose},
    pending_requests::{Envelope, OwnRequests, PendingRequests},
    snapshots::Snapshots,
    socket::{Numbered, PING, PONG, ToDriver, is_of_this_user, send},
    tunnel::{Host, Lines, TUNNEL_WITHIN, Tunnel, TunnelError, lines_of},
};
use crate::{
    domain::{
        NoticeLevel, RequestError, SessionEvent, SessionRequest, SessionRequestId, TaskId, exit,
        text,
    },
    store::{Paths, process_state},
};

/// How often a silent driver is pinged.
const PING_EVERY: Duration = Duration::from_secs(2);

/// Unanswered pings after which the driver counts as stopped. Counted, not timed: our own sleep is not silence.
const PINGS_UNHEARD: u32 = 3;

/// The error of a request whose response this program does not know.
const UNKNOWN_RESPONSE: &str = "the request may have run, but this longhaul can't read the keeper's response because their versions differ; run `longhaul keeper upgrade`, or use the keeper's version";

/// The request number with which a client adds the servers of its command line; others start at 1.
const OWN_SERVER: SessionRequestId = 0;

/// Follows the driver as its client until either exits; `None` if it does not answer.
///
/// Sends no request before the driver's first line: a request waiting in the socket of a stopped driver would be
/// carried out when it continues, long after the requester gave up.
pub(super) async fn follow(
    options: &mut Options,
    snapshots: &Arc<Snapshots>,
    own: &mut OwnRequests,
    watcher: &mut FileWatcher,
) -> Option<Ending> {
    let stream = UnixStream::connect(options.paths.socket()).await.ok()?;
    if !is_of_this_user(&stream) {
        return None;
    }
    let mut lines = lines_of(Either::Left(stream));
    let hello = tokio::select! {
        hello = tokio::time::timeout(DRIVER_WITHIN, lines.next()) => match hello {
            Ok(line) => line?.ok()?,
            Err(_) => return Some(Ending::DriverSilent),
        },
        _ = &mut own.leaving => return Some(Ending::Left),
    };
    let contract = options.paths.contract;
    let ours = if options.purpose == SessionPurpose::Proxy {
        Hello::of_follower(contract)
    } else {
        Hello::ours(contract)
    };
    if !is_understood(&hello, contract) {
        let words = other_here(&hello, &options.paths);
        return Some(sit_out(&mut lines, &words, snapshots, own).await);
    }
    if send(&mut lines, &ours).await.is_err() {
        return Some(Ending::DriverGone);
    }
    // Another process may have driven in between without reporting what was removed.
    watcher.look(snapshots, &options.paths, false);
    Some(attend(lines, options, snapshots, own).await)
}

/// Follows the keeper of another machine until the tunnel breaks or this process exits.
pub(super) async fn follow_host(
    host: &Host,
    options: &mut Options,
    snapshots: &Arc<Snapshots>,
    own: &mut OwnRequests,
) -> Result<Ending, TunnelError> {
    let (tunnel, mut lines) = Tunnel::open(host)?;
    let hello = tokio::select! {
        hello = tokio::time::timeout(TUNNEL_WITHIN, lines.next()) => hello,
        _ = &mut own.leaving => return Ok(Ending::Left),
    };
    let Ok(Some(Ok(hello))) = hello else {
        return Err(tunnel.reason().await);
    };
    let contract = options.paths.contract;
    if !is_understood(&hello, contract) {
        return Err(TunnelError::Refused {
            host: host.name.clone(),
            message: other_hello(&hello, contract),
            is_passing: false,
        });
    }
    if send(&mut lines, &Hello::ours(contract)).await.is_err() {
        return Err(tunnel.reason().await);
    }
    Ok(attend(lines, options, snapshots, own).await)
}

/// What is wrong with the first frame on the socket of this machine.
fn other_here(hello: &str, paths: &Paths) -> String {
    if serde_json::from_str::<Hello>(hello).is_ok() {
        return "the longhaul process that runs this session's calls is a different version; stop it with `longhaul keeper stop` and try again".to_owned();
    }
    format!(
        "{} is served by a program that is not longhaul; stop that program, remove the file and try again",
        paths.socket().display()
    )
}

/// Which side of a tunnel is older, and what to do.
fn other_hello(hello: &str, ours: u32) -> String {
    let Ok(theirs) = serde_json::from_str::<Hello>(hello) else {
        return "the program that answers there is not longhaul".to_owned();
    };
    let version = text::clean_line(&theirs.version);
    if theirs.contract > ours {
        format!("longhaul {version} there is newer than this one; update longhaul here")
    } else {
        format!("longhaul {version} there is older than this one; update longhaul there")
    }
}

/// Exchanges requests, responses and events with a driver that has said hello.
///
/// Reading never waits for writing. Otherwise both ends could wait for the other to read.
async fn attend(
    lines: Lines,
    options: &mut Options,
    snapshots: &Arc<Snapshots>,
    own: &mut OwnRequests,
) -> Ending {
    let OwnRequests {
        incoming,
        leaving,
        pending,
    } = own;
    pending.keep_own();
    let introduction = pending.introduction.clone().map(|what| (OWN_SERVER, what));
    let first: Vec<_> = opening_requests(options)
        .into_iter()
        .chain(introduction)
        .chain(pending.for_next_driver(snapshots))
        .collect();
    let (mut to_driver, mut from_driver) = lines.split();
    let pending = RefCell::new(pending);
    let unanswered_pings = Cell::new(0);
    let reading = read_events(
        &mut from_driver,
        options,
        snapshots,
        &pending,
        &unanswered_pings,
    );
    let writing = async {
        for (ask, what) in first {
            if let Err(ending) = say(&mut to_driver, ask, what).await {
                return ending;
            }
        }
        write_requests(&mut to_driver, incoming, &pending, &unanswered_pings).await
    };
    let mut reading = std::pin::pin!(reading);
    tokio::select! {
        // Requests made before this process exits are still sent.
        biased;
        ending = writing => match ending {
            // A keeper that was stopped has said so before it closed the connection.
            Ending::DriverGone => tokio::time::timeout(STOPPED_WITHIN, reading)
                .await
                .unwrap_or(Ending::DriverGone),
            ending => ending,
        },
        _ = leaving => Ending::Left,
        ending = &mut reading => ending,
    }
}

/// What a driver reports in a line; `None` if only another version understands it. A requester waits for each response,
/// so one that this version can't read becomes an error.
fn event_in(line: &str) -> Option<SessionEvent> {
    #[derive(Deserialize)]
    struct Unknown {
        answer: Numbered,
    }
    serde_json::from_str(line).ok().or_else(|| {
        let Unknown { answer } = serde_json::from_str(line).ok()?;
        Some(SessionEvent::Response {
            request: answer.ask,
            outcome: Err(RequestError::Unreachable(UNKNOWN_RESPONSE.to_owned())),
        })
    })
}

/// Publishes what the driver reports, except for what only another version understands.
async fn read_events(
    from_driver: &mut (impl Stream<Item = Result<String, LinesCodecError>> + Unpin),
    options: &Options,
    snapshots: &Snapshots,
    pending: &RefCell<&mut PendingRequests>,
    unanswered_pings: &Cell<u32>,
) -> Ending {
    let is_remote = matches!(options.role, ProcessRole::Remote(_));
    // The tasks of the first snapshots, until they are complete.
    let mut first = Some(BTreeSet::new());
    while let Some(Ok(line)) = from_driver.next().await {
        unanswered_pings.set(0);
        if line == PONG {
            continue;
        }
        let Some(news) = event_in(&line) else {
            continue;
        };
        match (&news, &mut first) {
            (SessionEvent::Task(view), Some(first)) => {
                first.insert(view.task.id.clone());
            }
            // These come before the tasks.
            (
                SessionEvent::Server(_)
                | SessionEvent::Notice(_)
                | SessionEvent::Notification { .. },
                _,
            )
            | (_, None) => {}
            _ => {
                let there = first.take().unwrap_or_default();
                if is_remote {
                    forget_others(snapshots, &there);
                }
            }
        }
        match news {
            SessionEvent::Response {
                request: OWN_SERVER,
                outcome: Err(refused),
            } => snapshots.notice(
                options.clock.now().wall,
                NoticeLevel::Error,
                refused.to_string(),
            ),
            SessionEvent::Response { request, outcome } => {
                pending.borrow_mut().answer(snapshots, request, outcome);
            }
            // Only a keeper says that: it was stopped.
            SessionEvent::Undriven => return Ending::Stopped,
            other => snapshots.publish(other),
        }
    }
    Ending::DriverGone
}

/// Sends requests as they come, and pings in between.
async fn write_requests(
    to_driver: &mut (impl Sink<String, Error = LinesCodecError> + Unpin),
    incoming: &mut mpsc::Receiver<Envelope>,
    pending: &RefCell<&mut PendingRequests>,
    unanswered_pings: &Cell<u32>,
) -> Ending {
    let mut ticks = tokio::time::interval(PING_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.reset();
    loop {
        tokio::select! {
            asked = incoming.recv() => {
                let Some(asked) = asked else { return Ending::Left };
                let what = asked.what.clone();
                let ask = pending.borrow_mut().add_sent(asked);
                if let Err(ending) = say(to_driver, ask, what).await {
                    return ending;
                }
            }
            _ = ticks.tick() => {
                if unanswered_pings.get() >= PINGS_UNHEARD {
                    return Ending::DriverSilent;
                }
                unanswered_pings.set(unanswered_pings.get() + 1);
                let sending = to_driver.send(PING.to_owned());
                if tokio::time::timeout(DRIVER_WITHIN, sending).await.is_err() {
                    return Ending::DriverSilent;
                }
            }
        }
    }
}

/// What a client requests before anything else: what its command line and its configuration say.
fn opening_requests(options: &Options) -> Vec<(SessionRequestId, SessionRequest)> {
    let is_watching = matches!(options.role, ProcessRole::Watch);
    // The configuration of this machine means nothing to another one.
    let is_remote = matches!(options.role, ProcessRole::Remote(_));
    let tells = options.config.file.is_some() && !is_watching && !is_remote;
    let config = tells.then(|| SessionRequest::Configure(options.config.clone()));
    // Nothing waits for the responses, but a refusal is reported.
    let servers = options.servers.iter().cloned().map(SessionRequest::Server);
    let traces = options.traces && !is_watching;
    let trace = traces.then_some(SessionRequest::Trace {
        server: None,
        is_on: Some(true),
    });
    let all = config.into_iter().chain(servers).chain(trace);
    all.map(|what| (OWN_SERVER, what)).collect()
}

/// Removes the tasks that another machine's keeper no longer has. On this machine, the session file tells.
fn forget_others(snapshots: &Snapshots, there: &BTreeSet<TaskId>) {
    for view in snapshots.tasks() {
        if !there.contains(&view.task.id) {
            snapshots.publish(SessionEvent::Erased(view.task.id.clone()));
        }
    }
}

/// Whether a process is stopped, as by Ctrl-Z.
pub(super) fn is_stopped(pid: u32) -> bool {
    process_state(pid) == Some('T')
}

/// Sends a request to the driver of a session, if one answers, without opening the session.
pub async fn ask_driver(paths: &Paths, what: SessionRequest) {
    let asked = async {
        let stream = UnixStream::connect(paths.socket()).await.ok()?;
        let mut lines = lines_of(Either::Left(stream));
        let hello = lines.next().await?.ok()?;
        if !is_understood(&hello, paths.contract) {
            return None;
        }
        send(&mut lines, &Hello::ours(paths.contract)).await.ok()?;
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

/// Waits beside a driver of another version until either exits; reports it once and refuses every request.
///
/// Disconnecting would mean reconnecting at once and reporting it again.
async fn sit_out(
    lines: &mut Lines,
    words: &str,
    snapshots: &Arc<Snapshots>,
    own: &mut OwnRequests,
) -> Ending {
    snapshots.publish(SessionEvent::failed(words.to_owned(), exit::DRIVER_SILENT));
    loop {
        own.pending
            .refuse_all(snapshots, &RequestError::CannotSave(words.to_owned()));
        tokio::select! {
            line = lines.next() => {
                if !matches!(line, Some(Ok(_))) {
                    return Ending::DriverGone;
                }
            }
            asked = own.incoming.recv() => {
                let Some(asked) = asked else { return Ending::Left };
                own.pending.add(asked);
            }
            _ = &mut own.leaving => return Ending::Left,
        }
    }
}

/// Whether a driver's first frame is one of our contract.
fn is_understood(hello: &str, contract: u32) -> bool {
    serde_json::from_str::<Hello>(hello).is_ok_and(|hello| hello.contract == contract)
}

/// Sends a request to the driver, which may have exited or be stopped.
async fn say(
    lines: &mut (impl Sink<String, Error = LinesCodecError> + Unpin),
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

/// How long the last words of a driver that closed the connection may take.
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
