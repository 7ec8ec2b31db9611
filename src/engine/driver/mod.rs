//! The driver: one loop that owns every link of the session, its exchanges and its saves.

mod callers;
mod configuring;
mod leaving;
mod lifetime;
mod links;
mod proxies;
mod requests;
mod saving;
mod sign_ins;
mod state;
mod upgrading;

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, mpsc, oneshot, watch};

pub use self::configuring::USUAL_ENVIRONMENT;
use self::state::{OwnSaves, Publishing, Received, Saves, SignIns};
use crate::{
    domain::{
        Mono, NoticeLevel, RateLimit, ServerName, SessionDriver, SessionEvent, Stamp, Wall, exit,
    },
    engine::{
        driver::{
            configuring::Configured,
            lifetime::Lifetime,
            proxies::Proxies,
            state::{Driver, Linked, PUBLISH_EVERY, SignInNews},
        },
        frames::KeeperStatus,
        hook::{Hooks, PATIENCE},
        journal::{Journal, JournalError},
        options::{Options, ProcessRole},
        pace::Pace,
        pending_requests::{Envelope, OwnRequests, PendingRequests},
        server_configs::KnownConfigs,
        snapshots::Snapshots,
        socket::{self, ListenError, Listener, SocketService, UpgradeJob},
        test_hooks::{PanicIn, panic_if_told},
        tracer::Tracer,
        upgrade::KeeperState,
    },
    link::{Input, Unsaved},
    store::{DriverLock, Opened, Writer},
    transport::ensure_provider,
};

/// With many active tasks, which no one can follow individually, the rate slows down to this; a request of
/// the user is shown immediately.
const PUBLISH_AT_LATEST: Duration = Duration::from_secs(1);

/// This many active tasks add another [`PUBLISH_EVERY`].
const TASKS_AT_A_GLANCE: u32 = 4;

/// How often a keeper without clients would have to publish: it reads in larger portions and wakes up less.
const UNWATCHED_EVERY: Duration = Duration::from_millis(400);

/// How often progress is published if events arrive very fast and only agent hosts receive them.
const FLOOD_EVERY: Duration = Duration::from_millis(200);

/// More arrivals than this in [`PUBLISH_EVERY`] are a flood.
const FLOOD: u128 = 10;

/// How often a server that requires a sign-in is checked: the user may have signed in at another terminal.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the driver writes the time to the lock file. From the last one, the next driver knows how long the session
/// had no driver.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// How long an upgrade waits for saves and server processes; the keeper serves nobody meanwhile.
const UPGRADE_PAUSE_AT_MOST: Duration = Duration::from_millis(500);

/// How long a stopped keeper waits until its clients have taken its last events.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Why a session can't be driven.
#[derive(Debug, thiserror::Error)]
pub(super) enum DriveError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Listen(#[from] ListenError),
}

/// Drives the session until this process exits.
pub(super) async fn drive(
    options: &mut Options,
    snapshots: &Arc<Snapshots>,
    pace: &Pace,
    own: &mut OwnRequests,
    lock: DriverLock,
) -> Result<(), DriveError> {
    let now = options.clock.now();
    let mut inherited = std::mem::take(&mut options.inherited);
    let options = &*options;
    let Opened {
        writer,
        restored,
        mut notices,
    } = Writer::open(&options.paths, now.wall).map_err(JournalError::from)?;
    // The screen has its first frame before the first HTTP client is built.
    ensure_provider();
    let (sign_ins, of_sign_ins) = mpsc::channel(16);
    let (clients, connected) = watch::channel(0);
    let (remote_asks, from_clients) = mpsc::channel(1024);
    let (upgrades, of_upgrades) = mpsc::channel(1);
    let is_keeper = matches!(options.role, ProcessRole::Keeper);
    let since = inherited.state.since_ms.map_or(now.wall, Wall);
    let lifetime = is_keeper.then(|| Lifetime::new(connected.clone(), since, now.mono));
    let service = SocketService {
        snapshots: Arc::clone(snapshots),
        pace: pace.clone(),
        asks: remote_asks,
        clients,
        stop: lifetime.as_ref().map(|it| Arc::clone(&it.stop)),
        since,
        contract: options.paths.contract,
        args: options.args.clone(),
        upgrades,
        upgrading: Arc::default(),
    };
    let inherited_socket = Some(inherited.state.contract).zip(inherited.listener);
    let listener = match socket::listen(&options.paths, &service, inherited_socket) {
        Ok(listener) => Some(listener),
        // Nobody could use or stop it.
        Err(error) if is_keeper => return Err(error.into()),
        Err(error) => {
            notices.push(format!("{error}; other terminals can't join this session"));
            None
        }
    };
    let mut driver = Driver::new(options, snapshots, pace, &mut own.pending, writer, sign_ins);
    driver.lifetime = lifetime;
    driver.inherit(options, &mut inherited.state);
    for text in notices {
        driver.notice(NoticeLevel::Warning, text, now);
    }
    let unsettled = restored.tasks.iter().filter(|it| it.task.is_open());
    let unsettled = unsettled.count();
    let links = (inherited.state.links, inherited.programs);
    driver.restore_links(restored.links, &options.servers, links, now);
    driver.restore_tasks(restored.tasks, lock.driven_until, now);
    driver.begin(options, since, now);
    if let Some(client) = inherited.client {
        let status = KeeperStatus {
            unsettled,
            ..service.status()
        };
        driver.confirm_upgrade(&client, inherited.state.paused_at_ms, status);
    }
    panic_if_told(PanicIn::Network);
    let inputs = Inputs {
        own: &mut own.incoming,
        from_clients,
        of_sign_ins,
        of_upgrades,
        connected,
        leaving: &mut own.leaving,
    };
    driver.run(inputs, listener.as_ref(), &lock).await?;
    end(driver, listener, lock).await;
    Ok(())
}

async fn end(driver: Driver<'_>, listener: Option<Listener>, lock: DriverLock) {
    // A client that came now would never get an answer. While this driver holds the lock, there is no other one.
    let listener = listener.inspect(Listener::remove_sockets);
    let snapshots = driver.snapshots;
    let is_keeper = driver.lifetime.is_some();
    driver.leave().await;
    if is_keeper {
        // A client that doesn't learn that the keeper was stopped assumes that it was killed, and starts another one.
        let _ = tokio::time::timeout(TOLD_WITHIN, snapshots.are_read()).await;
    }
    // In this order: a client that waits for the end of this driver must find the lock free.
    drop(lock);
    drop(listener);
}

/// What a driver waits for, apart from its links.
struct Inputs<'i> {
    /// The requests of this process.
    own: &'i mut mpsc::Receiver<Envelope>,
    from_clients: mpsc::Receiver<Envelope>,
    of_sign_ins: mpsc::Receiver<SignInNews>,
    of_upgrades: mpsc::Receiver<UpgradeJob>,
    /// The number of clients.
    connected: watch::Receiver<usize>,
    leaving: &'i mut oneshot::Receiver<()>,
}

impl<'d> Driver<'d> {
    fn new(
        options: &'d Options,
        snapshots: &'d Arc<Snapshots>,
        pace: &'d Pace,
        open: &'d mut PendingRequests,
        writer: Writer,
        sign_ins: mpsc::Sender<SignInNews>,
    ) -> Self {
        let now = options.clock.now();
        let hooks = options.hook.clone().and_then(|hook| {
            Hooks::start(hook, &options.paths, snapshots, options.clock, PATIENCE)
        });
        Self {
            paths: &options.paths,
            traces: options.traces,
            guard: &options.guard,
            tracer: Tracer::new(&options.paths, snapshots, options.clock),
            configs: KnownConfigs::default(),
            clock: options.clock,
            snapshots,
            hooks,
            lifetime: None,
            pace,
            open,
            links: Vec::new(),
            received: Received::default(),
            saves: Saves {
                reader: None,
                journal: Journal::start(writer, options.clock),
                unsaved: Unsaved::default(),
                trouble: None,
                own: OwnSaves::default(),
            },
            rng: fastrand::Rng::with_seed(options.seed),
            is_leaving: false,
            sign_in: SignIns {
                logins: &options.logins,
                insecure_http: options.config.insecure_http,
                fetcher: Arc::default(),
                refreshed: Arc::default(),
                looked_at: now.mono,
                news: sign_ins,
            },
            publishing: Publishing {
                limit: RateLimit::default(),
                every: PUBLISH_EVERY,
                at: now.mono,
                arrivals: 0,
            },
            proxies: Proxies::new(now.mono),
        }
    }
}

impl Driver<'_> {
    /// Takes over what the keeper knew that this process has replaced.
    fn inherit(&mut self, options: &Options, state: &mut KeeperState) {
        // Applied before anything is sent; changes to a link wait until its unfinished tasks are restored.
        self.configs = KnownConfigs::of(&options.config, std::mem::take(&mut state.configs));
        self.traces |= state.traces;
    }

    /// Applies the configuration to what was restored, and answers what has been asked until now.
    fn begin(&mut self, options: &Options, since: Wall, now: Stamp) {
        self.configure(options.config.clone(), None, now);
        for server in &options.servers {
            if let Err(refused) = self.know(server.clone(), None, now) {
                // What this process wants from that server must not go to another one.
                let failed = SessionEvent::failed(refused.to_string(), exit::REFUSED);
                self.snapshots.publish(failed);
            }
        }
        self.snapshots.publish(SessionEvent::Driver(SessionDriver {
            pid: std::process::id(),
            is_us: true,
            is_keeper: matches!(options.role, ProcessRole::Keeper),
            since,
        }));
        for (number, what) in self.open.for_next_driver(self.snapshots) {
            self.ask(number, what, now);
        }
        self.turn(now);
    }

    async fn run(
        &mut self,
        mut inputs: Inputs<'_>,
        listener: Option<&Listener>,
        lock: &DriverLock,
    ) -> Result<(), JournalError> {
        let lifetime = self.lifetime.as_ref();
        let stop = lifetime.map(|lifetime| Arc::clone(&lifetime.stop));
        let mut noted_at = Mono::default();
        loop {
            let at = self.clock.now();
            if at.mono.since(noted_at) >= NOTE_EVERY {
                noted_at = at.mono;
                lock.note_driven(at.wall);
            }
            if self.is_over(listener) {
                // Idle proxies start no other one until they have a request.
                self.snapshots.publish(SessionEvent::Undriven);
                return Ok(());
            }
            let wakes = [self.next_wake(), self.proxies.held_until()];
            let timer = self.clock.sleep_until(wakes.into_iter().flatten().min());
            tokio::select! {
                () = self.received.inbox.filled(), if self.saves.unsaved.has_room() => {
                    self.drain_inbox(self.clock.now());
                }
                Some(asked) = inputs.own.recv() => self.asked(asked),
                Some(asked) = inputs.from_clients.recv() => self.asked(asked),
                outcomes = self.saves.journal.outcomes() => {
                    let outcomes = outcomes.ok_or(JournalError::Ended)?;
                    self.all_written(outcomes, self.clock.now());
                }
                Some(news) = inputs.of_sign_ins.recv() => {
                    self.sign_in_news(news, self.clock.now());
                }
                () = self.sign_in.refreshed.notified() => {}
                () = timer => {
                    let now = self.clock.now();
                    self.feed_all(|| Input::Timer, now);
                    self.tend_logins(now);
                    self.start_held_calls(now);
                }
                Ok(()) = inputs.connected.changed() => self.update_listening(self.clock.now()),
                Some(job) = inputs.of_upgrades.recv() => {
                    if let Some(listener) = listener {
                        self.upgrade(job, listener, lock).await;
                    }
                }
                () = notified(stop.as_deref()) => {
                    // The clients start no other one until they have a request.
                    self.snapshots.publish(SessionEvent::Undriven);
                    return Ok(());
                }
                _ = &mut *inputs.leaving => return Ok(()),
            }
            self.turn(self.clock.now());
            self.pace.turned();
        }
    }

    /// Carries out a request.
    fn asked(&mut self, asked: Envelope) {
        let what = asked.what.clone();
        let number = self.open.add(asked);
        self.ask(number, what, self.clock.now());
    }

    /// The next deadline: a link's timer, or the publication of changes.
    fn next_wake(&self) -> Option<Mono> {
        let links = self.links.iter();
        let links = links.filter_map(|linked| linked.link.next_wake());
        let is_touched = self.links.iter().any(|linked| linked.is_touched);
        let publish = is_touched.then(|| self.publishing.limit.next()).flatten();
        let is_watched =
            |linked: &Linked| linked.tokens.is_some() && linked.link.needed_credentials().is_some();
        let is_any_watched = self.links.iter().any(is_watched);
        let look = is_any_watched.then(|| self.sign_in.looked_at.after(LOOK_EVERY));
        let due = self.links.iter().filter_map(Linked::token_due).min();
        let due = due.map(|due| {
            let now = self.clock.now();
            now.mono.after(due.since(now.wall))
        });
        let lifetime = self.lifetime.as_ref().map(Lifetime::deadline);
        links
            .chain(publish)
            .chain(look)
            .chain(due)
            .chain(lifetime)
            .min()
    }

    /// Whether this is a keeper that has nothing left to do.
    fn is_over(&mut self, listener: Option<&Listener>) -> bool {
        let (Some(lifetime), Some(listener)) = (&mut self.lifetime, listener) else {
            return false;
        };
        let has_work = !self.saves.own.waiting.is_empty()
            || self.saves.trouble.is_some()
            || self
                .links
                .iter()
                .any(|linked| linked.link.has_unsettled() || linked.is_signing_in())
            || self.open.is_awaited(self.snapshots);
        // A program keeps in its memory what a host has done with it, and updates of resources come only here.
        let is_held = |server: &ServerName| {
            let mut links = self.links.iter().map(|linked| &linked.link);
            links.any(|link| {
                let is_needed = link.record().is_process() || link.has_subscribers();
                link.record().name == *server && is_needed
            })
        };
        let idle = self.proxies.servers().filter(|server| !is_held(server));
        lifetime.is_over(has_work, idle.count(), listener, self.clock.now().mono)
    }

    /// Ends every turn: publishes changes at a rate that a person can see.
    pub(super) fn turn(&mut self, now: Stamp) {
        self.received.inbox.read_on(self.saves.unsaved.has_room());
        self.apply_waiting_config(now);
        if !self.publishing.limit.is_due(now.mono)
            || !self.links.iter().any(|linked| linked.is_touched)
        {
            return;
        }
        self.publish_changes(now);
    }

    /// Publishes what has changed since the last time.
    pub(super) fn publish_changes(&mut self, now: Stamp) {
        let (mut moved, mut is_touched) = (0, false);
        for linked in self.links.iter_mut().filter(|linked| linked.is_touched) {
            (linked.is_touched, is_touched) = (false, true);
            // Before its tasks: they may refer to it.
            if let Some(mut view) = linked.link.take_server_view() {
                let configured = Configured {
                    server: self.configs.of_name(&view.name),
                    surroundings: self.configs.surroundings(&view.name),
                    insecure_http: linked.insecure_http,
                    guard: self.guard,
                };
                view.obstacle = linked.obstacle(&configured);
                self.snapshots.publish(SessionEvent::Server(Arc::new(view)));
            }
            for view in linked.link.take_views() {
                moved += 1;
                let view = Arc::new(view);
                if let Some(hooks) = &mut self.hooks {
                    hooks.look_at(&view);
                }
                self.snapshots.publish(SessionEvent::Task(view));
            }
            for id in linked.link.take_erased() {
                if let Some(hooks) = &mut self.hooks {
                    hooks.erased(&id);
                }
                self.snapshots.publish(SessionEvent::Erased(id));
            }
        }
        if !is_touched {
            return;
        }
        let pace = PUBLISH_EVERY.saturating_mul(1 + moved / TASKS_AT_A_GLANCE);
        self.publishing.every = pace.min(PUBLISH_AT_LATEST);
        let clients = |lifetime: &Lifetime| *lifetime.clients.borrow();
        let clients = self.lifetime.as_ref().map(clients);
        let since = now
            .mono
            .since(std::mem::replace(&mut self.publishing.at, now.mono));
        let arrivals = std::mem::take(&mut self.publishing.arrivals) as u128;
        let many = FLOOD * (since.as_millis() / PUBLISH_EVERY.as_millis()).max(1);
        // Without a change of a task, it was a handshake or a list.
        let is_flood = arrivals > many && moved > 0;
        if is_flood && clients.is_some_and(|clients| clients <= self.proxies.servers().count()) {
            self.publishing.every = self.publishing.every.max(FLOOD_EVERY);
        }
        self.publishing.limit.done(now.mono, self.publishing.every);
        self.pace.shown_every(if clients == Some(0) {
            UNWATCHED_EVERY
        } else {
            self.publishing.every
        });
    }

    /// Continues without accepting requests until a condition holds or the deadline passes.
    async fn tend_until(&mut self, until: tokio::time::Instant, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            self.tend_once(until).await;
            if self.clock.instant(self.clock.now().mono) >= until {
                return;
            }
        }
    }

    /// One turn without accepting requests, at the deadline at the latest. Cancel-safe.
    async fn tend_once(&mut self, until: tokio::time::Instant) {
        let wake = self
            .next_wake()
            .map_or(until, |at| self.clock.instant(at).min(until));
        tokio::select! {
            () = self.received.inbox.filled(), if self.saves.unsaved.has_room() => {
                self.drain_inbox(self.clock.now());
            }
            Some(outcomes) = self.saves.journal.outcomes() => {
                self.all_written(outcomes, self.clock.now());
            }
            () = tokio::time::sleep_until(wake) => {
                self.feed_all(|| Input::Timer, self.clock.now());
            }
        }
        self.turn(self.clock.now());
    }

    pub(super) fn release(&mut self, index: usize, now: Stamp) {
        while let Some(linked) = self.links.get_mut(index) {
            let durable = linked.durable;
            let Some(place) = linked.held.iter().position(|(token, _)| *token <= durable) else {
                return;
            };
            let Some((_, output)) = linked.held.remove(place) else {
                return;
            };
            self.carry_out(index, output, now);
        }
    }

    pub(super) fn notice(&self, level: NoticeLevel, text: String, now: Stamp) {
        self.snapshots.notice(now.wall, level, text);
    }
}

async fn notified(notify: Option<&Notify>) {
    match notify {
        Some(notify) => notify.notified().await,
        None => std::future::pending().await,
    }
}
