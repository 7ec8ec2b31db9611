//! A session as one process sees it: it drives if nobody does, else it is a client, and takes over if the driver goes.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use secrecy::SecretString;
use tokio::sync::{mpsc, oneshot};

use super::{
    clock::Clock,
    driver,
    file_watcher::FileWatcher,
    hook::Hook,
    rest::Rest,
    snapshots::{ReaderId, Snapshots, Subscription},
    socket,
};
use crate::{
    auth::Logins,
    domain::{
        Mono, Notice, NoticeLevel, ProtocolVersion, RequestError, ServerConfigs, ServerRef,
        SessionEvent, SessionRequest, SessionRequestId, SessionResponse, exit,
    },
    store::{DriverLock, Paths},
};

/// Asks that may wait for the engine.
const ASKS_WAITING: usize = 1024;
/// How often a lock that somebody holds without answering is tried again.
const TRY_EVERY: Duration = Duration::from_millis(50);
/// How often a process that only looks looks whether somebody drives again; that can take days.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const NOBODY_DRIVES: &str =
    "nobody drives this session, and with --readonly nobody begins to; leave it out to act";
/// How long the others wait for the process that the driver has handed the session to.
const HEIR_WITHIN: Duration = Duration::from_secs(3);
/// How long a driver may take to answer before that is said.
pub(super) const DRIVER_WITHIN: Duration = Duration::from_secs(5);

/// How to use a session.
#[derive(Debug)]
pub struct Options {
    /// Where it is.
    pub paths: Paths,
    /// Servers named on the command line, with headers that are used and never stored.
    pub servers: Vec<ServerRef>,
    /// What the configuration says of servers.
    pub config: ServerConfigs,
    /// Reads that again, whenever another driver is followed or this process takes over; `None` where it cannot be read,
    /// and then what was read last holds.
    pub read_config: fn() -> Option<ServerConfigs>,
    /// Whether this process only looks: it tells a driver nothing of its configuration, and never takes over from one.
    pub readonly: bool,
    /// What a variable of the environment holds; asked only when a server is connected to whose headers want it.
    pub environment: fn(&str) -> Option<SecretString>,
    /// Who is signed in where.
    pub logins: Logins,
    /// Whether the headers of the configuration may go over plain http to another machine.
    pub insecure_http: bool,
    /// Whether what goes over the wire is recorded, of every server.
    pub traces: bool,
    /// The revision to insist on for every server.
    pub protocol: Option<ProtocolVersion>,
    /// Seeds ids and jitter.
    pub seed: u64,
    /// The clock, shared with the screen so that stamps agree.
    pub clock: Clock,
    /// What to run when something is worth telling; whoever drives runs it.
    pub hook: Option<Hook>,
    /// End this process without any clean-up after so many outputs: the kill tests' way to hit each window.
    pub die_after: Option<u64>,
    /// Where and when to panic; nowhere but in the exit tests.
    pub fuse: FailPoint,
}

/// The exit tests' way to see that a panic in every thread takes the one way out.
#[derive(Clone, Debug, Default)]
pub struct FailPoint {
    /// The thread that is to panic.
    pub thread: Option<PanicIn>,
    /// When: as soon as this file is there, or at once.
    pub lit_by: Option<PathBuf>,
}

impl FailPoint {
    /// Panics if it is the turn of this thread.
    ///
    /// # Panics
    ///
    /// That is what it is for.
    pub fn burn(&self, thread: PanicIn) {
        let is_lit = || self.lit_by.as_ref().is_none_or(|path| path.exists());
        assert!(
            self.thread != Some(thread) || !is_lit(),
            // As loud as what a server could have put into it.
            "{thread:?} was told to panic by \u{9b}2J"
        );
    }
}

/// A thread that is to panic, once there is a session to lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanicIn {
    /// The one with the screen.
    Screen,
    /// The one with the links.
    Network,
    /// The one that writes.
    Journal,
    /// The one that reads the keys.
    Input,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requester {
    /// This process.
    Us,
    /// Another one, on the socket, with its id where the system tells.
    Client(Option<u32>),
}

/// An ask on its way to the engine.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) reader: ReaderId,
    pub(super) asker: Requester,
    pub(super) ask: SessionRequestId,
    pub(super) what: SessionRequest,
}

/// A session in use by this process.
#[derive(Debug)]
pub struct Session {
    /// What is asked here is asked in this revision.
    protocol: Option<ProtocolVersion>,
    snapshots: Arc<Snapshots>,
    rest: Rest,
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
        let rest = Rest::default();
        let protocol = options.protocol;
        let (on_thread, rests) = (Arc::clone(&snapshots), rest.clone());
        let thread = std::thread::Builder::new()
            .name("network".to_owned())
            .spawn(move || run(options, &on_thread, &rests, incoming, leaving));
        if let Err(error) = &thread {
            let words = format!("could not start a thread: {error}");
            snapshots.publish(SessionEvent::Failed {
                message: words,
                exit: exit::BUG,
            });
        }
        Self {
            protocol,
            snapshots,
            rest,
            asks,
            next_ask: AtomicU64::new(1),
            leave: Some(leave),
            thread: thread.ok(),
        }
    }

    /// A reader of everything that this session publishes.
    pub fn subscribe(&self) -> Subscription {
        self.snapshots.subscribe()
    }

    /// Asks for something; the one answer comes to `reader` as [`SessionEvent::Response`].
    pub fn ask(&self, reader: &Subscription, what: SessionRequest) -> SessionRequestId {
        let ask = self.next_ask.fetch_add(1, Ordering::Relaxed);
        self.ask_as(reader, ask, what);
        ask
    }

    /// As [`Self::ask`], with a number that the caller chose; unique among this reader's asks.
    pub fn ask_as(&self, reader: &Subscription, ask: SessionRequestId, what: SessionRequest) {
        let asked = Envelope {
            reader: reader.id,
            asker: Requester::Us,
            ask,
            what: what.in_version(self.protocol),
        };
        let is_sent = self.asks.try_send(asked).is_ok();
        self.rest.attend();
        if !is_sent {
            let words =
                "the engine does not answer; what was asked was not done, ask again".to_owned();
            self.snapshots.tell(
                reader.id,
                SessionEvent::Response {
                    request: ask,
                    outcome: Err(RequestError::CannotSave(words)),
                },
            );
        }
    }

    /// Leaves in order: what may end is ended, everything is saved, within two seconds or so.
    pub fn close(mut self) {
        self.leave.take();
        self.rest.attend();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// How a spell as driver or client ended.
pub(super) enum Ending {
    /// This process leaves.
    Left,
    /// The driver is gone; somebody has to take over.
    DriverGone,
    /// The driver holds the session and stands still.
    DriverSilent,
}

/// Tells everybody who waits if the network thread ends by a panic; nobody else could.
struct LastWords<'b>(&'b Snapshots);

impl Drop for LastWords<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let words = "longhaul met a bug of its own and ends; what was saved is safe".to_owned();
            self.0.publish(SessionEvent::Failed {
                message: words,
                exit: exit::BUG,
            });
        }
    }
}

fn run(
    options: Options,
    snapshots: &Arc<Snapshots>,
    rest: &Rest,
    asks: mpsc::Receiver<Envelope>,
    leaving: oneshot::Receiver<()>,
) {
    let _last_words = LastWords(snapshots);
    let resting = rest.clone();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || resting.pause())
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            let words = format!("could not start the network runtime: {error}");
            return snapshots.publish(SessionEvent::Failed {
                message: words,
                exit: exit::BUG,
            });
        }
    };
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, serve(options, snapshots, rest, asks, leaving));
}

/// Drives or follows, in turns, until this process leaves.
async fn serve(
    mut options: Options,
    snapshots: &Arc<Snapshots>,
    rest: &Rest,
    mut asks: mpsc::Receiver<Envelope>,
    mut leaving: oneshot::Receiver<()>,
) {
    // Asks without an answer yet: if the driver dies they are asked again, which every ask bears.
    let mut open = PendingRequests::default();
    let mut stuck_since = None;
    let mut has_followed = false;
    let mut is_undriven = false;
    let mut successor = None;
    let mut glance = FileWatcher::default();
    loop {
        let now = options.clock.now();
        let say = |text: String| {
            snapshots.publish(SessionEvent::Notice(Notice {
                at: options.clock.now().wall,
                level: NoticeLevel::Info,
                text,
            }));
        };
        let is_promised = waits_for(&mut successor, &options.paths, now.mono);
        let lock = if !is_promised && !options.readonly {
            DriverLock::try_take(&options.paths)
        } else {
            Ok(None)
        };
        match lock {
            Err(error) => {
                return end_in_trouble(snapshots, asks, leaving, format!("could not {error}"))
                    .await;
            }
            Ok(Some(lock)) => {
                if has_followed {
                    glance.look(snapshots, &options.paths, false);
                }
                if open.asks_to_drive() {
                    say("this window drives now".to_owned());
                } else if has_followed {
                    say("the driver of this session is gone; this window drives now".to_owned());
                }
                let driven = driver::drive(
                    &options,
                    snapshots,
                    rest,
                    &mut asks,
                    &mut leaving,
                    &mut open,
                    lock,
                );
                match driven.await {
                    Ok(None) => return,
                    Ok(Some(pid)) => {
                        snapshots.publish(SessionEvent::Undriven);
                        say(format!("driven from another window now (process {pid})"));
                        (stuck_since, has_followed) = (None, true);
                    }
                    Err(words) => return end_in_trouble(snapshots, asks, leaving, words).await,
                }
            }
            Ok(None) => {}
        }
        let followed = socket::follow(
            &mut options,
            snapshots,
            &mut asks,
            &mut leaving,
            &mut open,
            &mut glance,
        );
        match followed.await {
            Some(Ending::Left) => return,
            Some(Ending::DriverGone) => {
                snapshots.publish(SessionEvent::Undriven);
                (stuck_since, has_followed, is_undriven) = (None, true, true);
                // It may have changed since, and what we know of it would be told to the next.
                if let Some(config) = (options.read_config)() {
                    options.config = config;
                }
            }
            Some(Ending::DriverSilent) => {
                let now = options.clock.now().mono;
                (stuck_since, has_followed, is_undriven) = (Some(now), true, false);
                say_silent(&options.paths, snapshots);
            }
            // Nobody is silent: there is nobody yet.
            None if is_promised => stuck_since = None,
            // A window that only looks drives nothing, or it would send calls again to go on with them.
            None if options.readonly && DriverLock::holder(&options.paths).is_none() => {
                glance.look(snapshots, &options.paths, true);
                if !std::mem::replace(&mut is_undriven, true) {
                    snapshots.publish(SessionEvent::Undriven);
                }
                while let Ok(asked) = asks.try_recv() {
                    open.add(asked);
                }
                open.refuse_all(snapshots, &RequestError::Usage(NOBODY_DRIVES.to_owned()));
            }
            None => {
                // Not the time before we drove, if we did.
                let now = options.clock.now().mono;
                let since = *stuck_since.get_or_insert(now);
                if now.since(since) >= DRIVER_WITHIN {
                    say_silent(&options.paths, snapshots);
                    stuck_since = Some(now);
                }
            }
        }
        let wait = if options.readonly {
            LOOK_EVERY
        } else {
            TRY_EVERY
        };
        tokio::select! {
            () = tokio::time::sleep_until(tokio::time::Instant::now() + wait) => {}
            _ = &mut leaving => return,
        }
    }
}

/// Whether the lock was handed to another process, which has its time to take it.
fn waits_for(successor: &mut Option<(u32, Mono)>, paths: &Paths, now: Mono) -> bool {
    let named = DriverLock::successor(paths).filter(|pid| *pid != std::process::id());
    *successor = named.map(|pid| match *successor {
        Some((known, since)) if known == pid => (pid, since),
        _ => (pid, now),
    });
    successor.is_some_and(|(_, since)| now.since(since) < HEIR_WITHIN)
}

fn say_silent(paths: &Paths, snapshots: &Snapshots) {
    let holder = DriverLock::holder(paths);
    let pid = holder.map_or(String::new(), |pid| format!(" (process {pid})"));
    let words = if holder.is_some_and(is_stopped) {
        format!(
            "the longhaul that drives this session{pid} is stopped, as by Ctrl-Z; `fg` in its terminal lets it go on"
        )
    } else {
        format!(
            "the longhaul that drives this session{pid} does not answer; look at it, or end it and start again"
        )
    };
    snapshots.publish(SessionEvent::Failed {
        message: words,
        exit: exit::DRIVER_SILENT,
    });
}

/// Whether a process is stopped; where the system does not tell (proc(5)), it counts as one that is not.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the name in brackets, which may hold anything.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|rest| rest.starts_with('T'))
}

/// Nothing can be done with this session; every ask hears why until the process leaves.
async fn end_in_trouble(
    snapshots: &Arc<Snapshots>,
    mut asks: mpsc::Receiver<Envelope>,
    mut leaving: oneshot::Receiver<()>,
    words: String,
) {
    snapshots.publish(SessionEvent::Failed {
        message: words.clone(),
        exit: exit::CANNOT_SAVE,
    });
    loop {
        tokio::select! {
            asked = asks.recv() => match asked {
                Some(Envelope { reader, ask, .. }) => {
                    let outcome = Err(RequestError::CannotSave(words.clone()));
                    snapshots.tell(reader, SessionEvent::Response { request: ask, outcome });
                }
                None => return,
            },
            _ = &mut leaving => return,
        }
    }
}

/// Asks that wait for their answer, by a number of this process that the engine knows them by.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    next: SessionRequestId,
    open: BTreeMap<SessionRequestId, Envelope>,
    /// Who was asked.
    driver: Option<u32>,
}

impl PendingRequests {
    /// Takes an ask in; the number is the engine's.
    pub(super) fn add(&mut self, asked: Envelope) -> SessionRequestId {
        self.next += 1;
        self.open.insert(self.next, asked);
        self.next
    }

    /// Gives the answer to whoever asked.
    pub(super) fn answer(
        &mut self,
        snapshots: &Snapshots,
        number: SessionRequestId,
        outcome: Result<SessionResponse, RequestError>,
    ) {
        if let Some(asked) = self.open.remove(&number) {
            snapshots.tell(
                asked.reader,
                SessionEvent::Response {
                    request: asked.ask,
                    outcome,
                },
            );
        }
    }

    /// Who asked.
    pub(super) fn reader(&self, number: SessionRequestId) -> Option<ReaderId> {
        self.open.get(&number).map(|asked| asked.reader)
    }

    /// Who asked, as a process.
    pub(super) fn asker(&self, number: SessionRequestId) -> Option<Requester> {
        self.open.get(&number).map(|asked| asked.asker)
    }

    /// Leaves it to somebody else to answer.
    pub(super) fn pass_on(&mut self, number: SessionRequestId) {
        self.open.remove(&number);
    }

    /// Forgets what others asked of us: they ask the next driver themselves.
    pub(super) fn keep_own(&mut self) {
        self.open.retain(|_, asked| asked.asker == Requester::Us);
    }

    /// Whether this process wants to drive.
    pub(super) fn asks_to_drive(&self) -> bool {
        let mut open = self.open.values();
        open.any(|asked| {
            asked.asker == Requester::Us && matches!(asked.what, SessionRequest::HandOver { .. })
        })
    }

    /// This process is the one that is asked from here on. Whoever was asked to let us drive before is somebody else, if it is another one.
    pub(super) fn follows(&mut self, snapshots: &Snapshots, driver: Option<u32>) {
        if std::mem::replace(&mut self.driver, driver) == driver {
            return;
        }
        let who = driver.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        for (number, what) in self.all() {
            if matches!(what, SessionRequest::HandOver { .. }) {
                let words = format!("{who} drives now, and was not asked for it; ask again");
                self.answer(snapshots, number, Err(RequestError::Usage(words)));
            }
        }
    }

    /// Refuses everything that waits.
    pub(super) fn refuse_all(&mut self, snapshots: &Snapshots, refused: &RequestError) {
        for (number, _) in self.all() {
            self.answer(snapshots, number, Err(refused.clone()));
        }
    }

    /// What is still open, to be asked of the next driver.
    pub(super) fn all(&self) -> Vec<(SessionRequestId, SessionRequest)> {
        self.open
            .iter()
            .map(|(number, asked)| (*number, asked.what.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_successor_of_a_driver_has_limited_time() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::resolve(Some(dir.path().to_owned()), "default").unwrap();
        let hand_to = |pid| DriverLock::try_take(&paths).unwrap().unwrap().hand_to(pid);
        let mut successor = None;
        let mut waits = |at| waits_for(&mut successor, &paths, Mono(at));
        assert!(!waits(0));
        // Some process that lives and is not this one.
        hand_to(std::os::unix::process::parent_id());
        assert!(waits(1_000) && waits(3_999));
        assert!(!waits(4_000), "whoever comes first takes it");
        hand_to(std::process::id());
        assert!(!waits(4_000), "it is ours");
    }
}
