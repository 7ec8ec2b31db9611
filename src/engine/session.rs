//! A session as one process sees it: the process drives if none does, otherwise it is a client and takes over when the
//! driver exits.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::sync::{mpsc, oneshot};

use super::{
    driver,
    file_watcher::FileWatcher,
    follow,
    pace::Pace,
    snapshots::{Snapshots, Subscription},
    tunnel::{Host, LINE_BYTES},
};
use crate::{
    domain::{
        Mono, NoticeLevel, ProtocolVersion, RequestError, ServerConfigs, SessionEvent,
        SessionRequest, SessionRequestId, exit, text,
    },
    engine::{
        follow::{DRIVER_WITHIN, Ending, is_stopped},
        options::{LOOK_EVERY, Options, ProcessRole, SessionPurpose},
        pending_requests::{Envelope, OwnRequests, PendingRequests},
    },
    store::{DriverLock, Paths, StoreError},
};

/// The maximum number of requests that wait for the engine.
const ASKS_WAITING: usize = 1024;

/// How often a lock is tried again whose holder does not answer.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// Reported when a keeper was started in place of one that had exited.
const NEW_KEEPER: &str = "the keeper has exited; a new one continues this session's calls";

/// The error of a command whose keeper was stopped.
const COMMAND_STOPPED: &str =
    "the keeper was stopped; unfinished calls continue when longhaul runs again";

/// The notice after a person has stopped the keeper.
const KEEPER_STOPPED: &str = "the keeper was stopped; calls continue when your next action or another command starts a new keeper";

/// How long after its end a tunnel is opened again, at first and at last.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(5);

const NOBODY_DRIVES: &str = "no process is running this session's calls, and --readonly starts none; run without --readonly";

/// The most bytes of arguments in a request. As a string in JSON, they can need twice as many in a line to the keeper.
const LARGEST: usize = LINE_BYTES / 2 - 64 * 1024;

fn is_too_large(what: &SessionRequest) -> bool {
    let bytes = match what {
        SessionRequest::In(_, what) => return is_too_large(what),
        SessionRequest::Start(call) => call.arguments.len(),
        SessionRequest::Forward { request, .. } => request.params.len(),
        SessionRequest::Notify { message, .. } => message.len(),
        SessionRequest::Respond { outcome, .. } => outcome.json().len(),
        _ => 0,
    };
    bytes > LARGEST
}

/// A session in use by this process.
#[derive(Debug)]
pub struct Session {
    /// The protocol revision of requests made here.
    protocol: Option<ProtocolVersion>,
    snapshots: Arc<Snapshots>,
    asks: mpsc::Sender<Envelope>,
    next_ask: AtomicU64,
    leave: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Session {
    /// Starts the network thread and returns at once. The thread reports [`SessionEvent::Driver`] or
    /// [`SessionEvent::Failed`].
    pub fn open(options: Options) -> Self {
        let snapshots = Arc::new(Snapshots::default());
        let (asks, incoming) = mpsc::channel(ASKS_WAITING);
        let (leave, leaving) = oneshot::channel();
        let own = OwnRequests {
            incoming,
            leaving,
            pending: PendingRequests::default(),
        };
        let protocol = options.protocol;
        let on_thread = Arc::clone(&snapshots);
        let thread = std::thread::Builder::new()
            .name("network".to_owned())
            .spawn(move || run(options, &on_thread, own));
        if let Err(error) = &thread {
            let words = format!("could not start a thread: {error}");
            snapshots.publish(SessionEvent::failed(words, exit::BUG));
        }
        Self {
            protocol,
            snapshots,
            asks,
            next_ask: AtomicU64::new(1),
            leave: Some(leave),
            thread: thread.ok(),
        }
    }

    /// Subscribes to everything that this session publishes.
    pub fn subscribe(&self) -> Subscription {
        self.snapshots.subscribe()
    }

    /// Sends a request; its one response goes to `reader` as [`SessionEvent::Response`].
    pub fn ask(&self, reader: &Subscription, what: SessionRequest) -> SessionRequestId {
        let ask = self.next_ask.fetch_add(1, Ordering::Relaxed);
        self.ask_as(reader, ask, what);
        ask
    }

    /// As [`Self::ask`], with a number chosen by the caller that is unique among this reader's requests.
    pub fn ask_as(&self, reader: &Subscription, ask: SessionRequestId, what: SessionRequest) {
        let asked = Envelope {
            reader: reader.id,
            is_ours: true,
            ask,
            what: what.in_version(self.protocol),
        };
        let sent = if is_too_large(&asked.what) {
            let most = text::bytes(LARGEST as u64);
            let message = format!("not sent: longhaul sends at most {most} of arguments");
            Err(RequestError::Usage(message))
        } else {
            self.asks.try_send(asked).map_err(|_| {
                let message =
                    "too many requests are waiting, so this one was not carried out; try again";
                RequestError::CannotSave(message.to_owned())
            })
        };
        self.end_pause();
        if let Err(error) = sent {
            self.snapshots.answer(reader.id, ask, Err(error));
        }
    }

    fn end_pause(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Shuts down in order: ends what may end and saves everything, within about two seconds.
    pub fn close(mut self) {
        self.leave.take();
        self.end_pause();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic there.
            let _ = thread.join();
        }
    }
}

/// Notifies all waiting requesters if the network thread panics.
struct LastWords<'b>(&'b Snapshots);

impl Drop for LastWords<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let words = "longhaul hit a bug and is exiting; saved data is safe".to_owned();
            self.0.publish(SessionEvent::failed(words, exit::BUG));
        }
    }
}

fn run(options: Options, snapshots: &Arc<Snapshots>, own: OwnRequests) {
    let _last_words = LastWords(snapshots);
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let words = format!("could not start the network runtime: {error}");
            return snapshots.publish(SessionEvent::failed(words, exit::BUG));
        }
    };
    let local = tokio::task::LocalSet::new();
    let (pace, clock) = (Pace::default(), options.clock);
    let mut serving = pin!(serve(options, snapshots, &pace, own));
    loop {
        match local.block_on(&runtime, select(&mut serving, pin!(pace.pause(clock)))) {
            Either::Left(_) => return,
            // Everything that arrives meanwhile costs one wake-up.
            Either::Right((pause, _)) => std::thread::park_timeout(pause),
        }
    }
}

/// Drives or follows, alternately, until this process exits.
async fn serve(
    mut options: Options,
    snapshots: &Arc<Snapshots>,
    pace: &Pace,
    mut own: OwnRequests,
) {
    if let ProcessRole::Remote(host) = options.role.clone() {
        return serve_host(&host, &mut options, snapshots, &mut own).await;
    }
    if let Some((pid, pipe)) = options.inherited.guard.take() {
        options.guard.inherit(pid, pipe);
    }
    let mut other = OtherDriver::default();
    loop {
        match take_lock(&mut options) {
            Err(error) => {
                return end_in_trouble(snapshots, own, format!("could not {error}")).await;
            }
            Ok(Some(lock)) => {
                other.take_over(&options, snapshots);
                let driven = driver::drive(&mut options, snapshots, pace, &mut own, lock).await;
                return match driven {
                    Ok(()) => snapshots.publish(SessionEvent::Undriven),
                    Err(error) => end_in_trouble(snapshots, own, error.to_string()).await,
                };
            }
            Ok(None) => {}
        }
        let keeper_before = DriverLock::holder(&options.paths);
        let followed = follow::follow(&mut options, snapshots, &mut own, &mut other.watcher).await;
        if let (None, ProcessRole::Client(keeper)) = (&followed, &options.role) {
            let started = tokio::select! {
                started = keeper.start(&options.paths) => started,
                _ = &mut own.leaving => return,
            };
            let Err(error) = started else {
                if std::mem::take(&mut other.has_followed) {
                    let at = options.clock.now().wall;
                    snapshots.notice(at, NoticeLevel::Info, NEW_KEEPER);
                }
                continue;
            };
            snapshots.publish(SessionEvent::failed(error.to_string(), error.exit()));
            let refused = RequestError::CannotSave(error.to_string());
            own.pending.refuse_all(snapshots, &refused);
        }
        match followed {
            Some(Ending::Left) => return,
            Some(Ending::DriverSilent) => {
                other.is_silent(&options, snapshots);
                reread_config(&mut options);
            }
            Some(Ending::Stopped) if own.pending.is_empty() => {
                let stopped = other.was_stopped(keeper_before, &options, snapshots, &mut own);
                if !stopped.await {
                    return;
                }
                reread_config(&mut options);
                continue;
            }
            // What was asked of it needs the next one.
            Some(Ending::DriverGone | Ending::Stopped) => {
                other.is_gone(snapshots);
                reread_config(&mut options);
            }
            None => other.does_not_answer(&options, snapshots, &mut own),
        }
        let wait = match options.role {
            ProcessRole::Watch | ProcessRole::Client(_) | ProcessRole::Remote(_) => LOOK_EVERY,
            ProcessRole::Drive | ProcessRole::Keeper => TRY_EVERY,
        };
        tokio::select! {
            () = tokio::time::sleep_until(tokio::time::Instant::now() + wait) => {}
            _ = &mut own.leaving => return,
        }
    }
}

/// Reads the configuration again, so that the next driver gets the current one.
fn reread_config(options: &mut Options) {
    if let Some(config) = (options.read_config)() {
        let insecure_http = options.config.insecure_http;
        options.config = ServerConfigs {
            insecure_http,
            ..config
        };
    }
}

/// The lock of the session, if this process may drive it and no other one does.
fn take_lock(options: &mut Options) -> Result<Option<DriverLock>, StoreError> {
    if let Some(lock) = options.inherited.lock.take() {
        return Ok(Some(lock));
    }
    match options.role {
        ProcessRole::Drive | ProcessRole::Keeper => DriverLock::try_take(&options.paths),
        ProcessRole::Watch | ProcessRole::Client(_) | ProcessRole::Remote(_) => Ok(None),
    }
}

/// What this process knows of the one that drives the session, or drove it.
#[derive(Debug, Default)]
struct OtherDriver {
    /// Since when it holds the session and does not answer, or since that was last reported.
    stuck_since: Option<Mono>,
    has_followed: bool,
    /// Whether the readers know that nobody drives.
    is_undriven: bool,
    watcher: FileWatcher,
}

impl OtherDriver {
    /// It is gone, and this process drives instead.
    fn take_over(&mut self, options: &Options, snapshots: &Arc<Snapshots>) {
        if !self.has_followed {
            return;
        }
        self.watcher.look(snapshots, &options.paths, false);
        let text =
            "the process that ran this session's calls has exited; this process runs them now";
        let at = options.clock.now().wall;
        snapshots.notice(at, NoticeLevel::Info, text);
    }

    /// It has exited.
    fn is_gone(&mut self, snapshots: &Snapshots) {
        snapshots.publish(SessionEvent::Undriven);
        (self.stuck_since, self.has_followed, self.is_undriven) = (None, true, true);
    }

    /// A person has stopped it. Returns whether this process continues.
    async fn was_stopped(
        &mut self,
        before: Option<u32>,
        options: &Options,
        snapshots: &Snapshots,
        own: &mut OwnRequests,
    ) -> bool {
        let is_command = options.purpose == SessionPurpose::Command;
        if !is_command {
            self.is_gone(snapshots);
            let at = options.clock.now().wall;
            snapshots.notice(at, NoticeLevel::Warning, KEEPER_STOPPED);
        }
        let is_next = |holder: Option<u32>| holder != before && (is_command || holder.is_some());
        tokio::select! {
            // Starting another one at once would make `stop` mean nothing; the next request needs one.
            Some(asked) = own.incoming.recv(), if !is_command => {
                own.pending.add(asked);
            }
            () = self.until(&options.paths, snapshots, is_next) => {}
            _ = &mut own.leaving => return false,
        }
        if is_command {
            snapshots.publish(SessionEvent::Undriven);
            let why = COMMAND_STOPPED.to_owned();
            snapshots.publish(SessionEvent::failed(why, exit::DRIVER_SILENT));
            (&mut own.leaving).await.ok();
        }
        !is_command
    }

    /// Waits until `is_it` holds for the driver's process id. The previous driver may still save how its calls end.
    async fn until(
        &mut self,
        paths: &Paths,
        snapshots: &Snapshots,
        is_it: impl Fn(Option<u32>) -> bool,
    ) {
        while !is_it(DriverLock::holder(paths)) {
            self.watcher.look(snapshots, paths, true);
            tokio::time::sleep(LOOK_EVERY).await; // sleep: a lock that another process takes makes no event
        }
        self.watcher.look(snapshots, paths, true);
    }

    /// It has stopped answering.
    fn is_silent(&mut self, options: &Options, snapshots: &Snapshots) {
        self.stuck_since = Some(options.clock.now().mono);
        (self.has_followed, self.is_undriven) = (true, false);
        say_silent(&options.paths, snapshots);
    }

    /// Nobody answers: it does not exist, or it is stuck.
    fn does_not_answer(
        &mut self,
        options: &Options,
        snapshots: &Arc<Snapshots>,
        own: &mut OwnRequests,
    ) {
        // A read-only window never drives; driving would send calls again to continue them.
        if matches!(options.role, ProcessRole::Watch)
            && DriverLock::holder(&options.paths).is_none()
        {
            self.watcher.look(snapshots, &options.paths, true);
            if !std::mem::replace(&mut self.is_undriven, true) {
                snapshots.publish(SessionEvent::Undriven);
            }
            while let Ok(asked) = own.incoming.try_recv() {
                own.pending.add(asked);
            }
            let refused = RequestError::Usage(NOBODY_DRIVES.to_owned());
            return own.pending.refuse_all(snapshots, &refused);
        }
        // Without the time before this process drove, if it did.
        let now = options.clock.now().mono;
        let since = *self.stuck_since.get_or_insert(now);
        if now.since(since) >= DRIVER_WITHIN {
            say_silent(&options.paths, snapshots);
            self.stuck_since = Some(now);
        }
    }
}

/// Follows the keeper of another machine until this process exits, however often the tunnel breaks.
async fn serve_host(
    host: &Host,
    options: &mut Options,
    snapshots: &Arc<Snapshots>,
    own: &mut OwnRequests,
) {
    let mut wait = FIRST_RETRY;
    let mut reported = String::new();
    loop {
        let followed = follow::follow_host(host, options, snapshots, own);
        match followed.await {
            Ok(Ending::Left) => return,
            // What was asked of it needs the next one.
            Ok(Ending::Stopped) if !own.pending.is_empty() => {
                snapshots.publish(SessionEvent::Undriven);
            }
            Ok(Ending::Stopped) => {
                snapshots.publish(SessionEvent::Undriven);
                let (at, name) = (options.clock.now().wall, &host.name);
                let text = format!("the keeper on {name} was stopped; your next action starts it");
                snapshots.notice(at, NoticeLevel::Warning, text);
                // Connecting again would start a keeper, and make `stop` mean nothing; the next request needs one.
                tokio::select! {
                    Some(asked) = own.incoming.recv() => {
                        own.pending.add(asked);
                    }
                    _ = &mut own.leaving => return,
                }
                continue;
            }
            Ok(Ending::DriverGone | Ending::DriverSilent) => {
                wait = FIRST_RETRY;
                reported.clear();
                snapshots.publish(SessionEvent::Undriven);
            }
            Err(error) if error.is_final() => {
                let message = error.to_string();
                snapshots.publish(SessionEvent::failed(message.clone(), exit::DRIVER_SILENT));
                own.pending
                    .refuse_all(snapshots, &RequestError::CannotSave(message));
                wait = LAST_RETRY;
            }
            Err(error) => {
                snapshots.publish(SessionEvent::Undriven);
                let text = error.to_string();
                if text != reported {
                    snapshots.notice(options.clock.now().wall, NoticeLevel::Warning, &text);
                    reported = text;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {} // sleep: the backoff of a broken tunnel
            _ = &mut own.leaving => return,
        }
        wait = wait.saturating_mul(2).min(LAST_RETRY);
    }
}

fn say_silent(paths: &Paths, snapshots: &Snapshots) {
    let holder = DriverLock::holder(paths);
    let pid = holder.map_or(String::new(), |pid| format!(" (process {pid})"));
    let words = if holder.is_some_and(is_stopped) {
        format!(
            "the longhaul process that runs this session's calls is suspended; resume it with `fg` in its terminal, or with `kill -CONT {}`",
            holder.unwrap_or_default()
        )
    } else {
        format!(
            "the longhaul process that runs this session's calls{pid} does not answer; check it, or stop it with `kill` and try again"
        )
    };
    snapshots.publish(SessionEvent::failed(words, exit::DRIVER_SILENT));
}

/// This session cannot be used; every request gets the reason until the process exits.
async fn end_in_trouble(snapshots: &Arc<Snapshots>, mut own: OwnRequests, words: String) {
    snapshots.publish(SessionEvent::failed(words.clone(), exit::CANNOT_SAVE));
    loop {
        tokio::select! {
            asked = own.incoming.recv() => match asked {
                Some(Envelope { reader, ask, .. }) => {
                    let outcome = Err(RequestError::CannotSave(words.clone()));
                    snapshots.answer(reader, ask, outcome);
                }
                None => return,
            },
            _ = &mut own.leaving => return,
        }
    }
}
