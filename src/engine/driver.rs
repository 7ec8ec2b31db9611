//! The driver: one loop that owns every link of the session, its exchanges and its saves.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{mpsc, oneshot};

use super::{
    clock::Clock,
    hook::Hooks,
    inbox::{Batches, Inbox, Reading},
    journal::{Job, Journal, Outcome},
    rest::Rest,
    server_configs::{Change, KnownConfigs},
    session::{Envelope, FailPoint, Options, PanicIn, PendingRequests, Requester},
    snapshots::{ReaderId, Snapshots},
    socket,
    tracer::Tracer,
};
use crate::{
    auth::{self, AuthError, Logins, NoticeSink, Now, SignInOptions, TokenManager},
    domain::{
        Connectivity, EventId, LinkRecord, Mono, NewCall, Notice, NoticeLevel, Program,
        ProtocolVersion, RequestError, Row, ServerConfig, ServerConfigs, ServerName,
        ServerObstacle, ServerRef, SessionEvent, SessionRequest, SessionRequestId, SessionResponse,
        SharedByteCount, SignInPage, Stamp, Task, TaskId, TaskView, Template, Wall, server_url,
        text,
    },
    link::{Choice, ExchangeId, Input, Link, Output, SaveToken, Sent, Unsaved},
    protocol::{ExchangeEvent, HttpError, Method},
    store::{DriverLock, Lookup, Opened, Paths, Reader, RestoredTask, StoreError, Writer},
    transport::{
        Fetcher, Http, HttpOptions, Secrets, SignIn, Stdio, StdioOptions, TrafficRecorder,
        ensure_provider,
    },
};

/// The newest values go to the readers at most this often; a person sees no more.
const PUBLISH_EVERY: Duration = Duration::from_millis(33);
/// With many tasks in motion, which nobody can follow one by one, the pace slows down to this; an ask of
/// the user is shown without that.
const PUBLISH_AT_LATEST: Duration = Duration::from_secs(1);
/// So many tasks in motion each make it slower by another [`PUBLISH_EVERY`].
const TASKS_AT_A_GLANCE: u32 = 4;
/// Tasks that a refusal names one by one; more of them are counted.
const DYING_LISTED: usize = 6;
/// A server that wants a sign-in is looked at so often: somebody may have signed in at another terminal.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What a process of ours knows of the environment; the rest is named in the configuration.
pub const USUAL_ENVIRONMENT: [&str; 8] = [
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
];
/// How long the servers that are processes of ours have for their last words; they end all the same.
const PROCESSES_HEAR_WITHIN: Duration = Duration::from_millis(700);
/// How long the links may take to leave.
const LEAVE_WITHIN: Duration = Duration::from_millis(1500);
/// How long leaving may take until what is left is saved: a process that is deaf has been killed by then.
const ENDS_WITHIN: Duration = Duration::from_millis(1900);

/// How long the hooks of what was saved last may take to be started, however late it is.
const HOOKS_START_WITHIN: Duration = Duration::from_millis(100);

/// Whose save it is.
#[derive(Debug)]
enum Saver {
    /// A link's.
    Link(usize, SaveToken),
    /// Our own, for a task that no link holds any more.
    Own(u64),
}

/// One link and what it is connected with.
struct Linked {
    link: Link,
    http: Option<Http>,
    /// Where the server is a process of ours; kept while that runs, whatever the configuration says since.
    stdio: Option<Stdio>,
    /// Who brings the token of a sign-in; goes with the client.
    keeper: Option<Arc<TokenManager>>,
    /// The job that gets a new token before the old one is over.
    refreshing: Option<tokio::task::AbortHandle>,
    /// The sign-in that waits for a browser.
    signing_in: Option<SignInJob>,
    /// What was given by hand.
    headers: Vec<(String, String)>,
    /// What whoever asked has filled in from the configuration, as long as that stays as it is.
    config_headers: Vec<(String, String)>,
    /// What its server must not make us show; older values stay known for as long as it stays where it is.
    secrets: Secrets,
    tap: TrafficRecorder,
    /// Outputs that wait for a save.
    held: VecDeque<(SaveToken, Output)>,
    /// The newest save on disk.
    durable: SaveToken,
    exchanges: BTreeMap<ExchangeId, Reading>,
    /// How many exchanges were left when those that came to their end were last taken out.
    left: usize,
    is_touched: bool,
}

/// A sign-in under way; dropping it ends it.
struct SignInJob {
    number: SessionRequestId,
    job: tokio::task::AbortHandle,
}

impl Drop for SignInJob {
    fn drop(&mut self) {
        self.job.abort();
    }
}

/// What comes of a sign-in.
enum SignInNews {
    /// Its page can be opened, or why there is none: the answer to this ask.
    Begun(SessionRequestId, Result<SignInPage, RequestError>),
    /// It is over, with this server.
    Over(ServerName, Result<(), AuthError>),
}

/// A change to a task that no link holds: shown and answered once it is on disk.
struct OwnSave {
    number: u64,
    ask: Option<SessionRequestId>,
    view: TaskView,
}

struct Driver<'d> {
    paths: &'d Paths,
    environment: fn(&str) -> Option<SecretString>,
    logins: &'d Logins,
    insecure_http: bool,
    /// Whether every server that becomes known is recorded.
    traces: bool,
    tracer: Tracer,
    fetcher: Arc<Fetcher>,
    /// A job that gets a new token has ended.
    refreshed: Arc<tokio::sync::Notify>,
    looked_at: Mono,
    sign_ins: mpsc::Sender<SignInNews>,
    /// What the configuration says, also of servers that this session does not know yet.
    configs: KnownConfigs,
    clock: Clock,
    snapshots: &'d Arc<Snapshots>,
    hooks: Option<Hooks>,
    begun_at: Wall,
    rest: &'d Rest,
    open: &'d mut PendingRequests,
    links: Vec<Linked>,
    inbox: Arc<Inbox>,
    /// What was taken out of the inbox; empty between two turns.
    arrivals: Batches,
    journal: Journal<Saver>,
    house: Vec<OwnSave>,
    next_house: u64,
    dice: fastrand::Rng,
    /// How much history and results of all links wait to be saved.
    unsaved: Unsaved,
    /// How much all exchanges hold of events that have not come to their end.
    unread: SharedByteCount,
    published_at: Mono,
    publish_every: Duration,
    outputs_done: u64,
    die_after: Option<u64>,
    fuse: &'d FailPoint,
    is_leaving: bool,
    /// Who drives from here on.
    heir: Option<u32>,
    trouble: Option<Trouble>,
}

/// Why the session file takes nothing at present, and how often it was tried in vain.
#[derive(Debug)]
struct Trouble {
    why: String,
    tries: u64,
    /// Whether it was said that nothing more is read.
    is_deaf: bool,
}

/// Drives the session until this process leaves, or until a client does it, whose id it gives; `Err` says in words why it
/// cannot.
pub(super) async fn drive(
    options: &Options,
    snapshots: &Arc<Snapshots>,
    rest: &Rest,
    asks: &mut mpsc::Receiver<Envelope>,
    leaving: &mut oneshot::Receiver<()>,
    open: &mut PendingRequests,
    lock: DriverLock,
) -> Result<Option<u32>, String> {
    let now = options.clock.now();
    let Opened {
        mut writer,
        restored,
        remarks,
    } = Writer::open(&options.paths, now.wall).map_err(|error| format!("could not {error}"))?;
    // The screen has its first frame before the first HTTP client is built.
    ensure_provider();
    let (sign_ins, mut of_sign_ins) = mpsc::channel(16);
    let mut driver = Driver {
        paths: &options.paths,
        logins: &options.logins,
        environment: options.environment,
        insecure_http: options.insecure_http,
        traces: options.traces,
        tracer: Tracer::new(&options.paths, snapshots, options.clock),
        fetcher: Arc::default(),
        refreshed: Arc::default(),
        looked_at: now.mono,
        sign_ins,
        // Known before anything is sent; what of it changes a link waits until its unsettled tasks are known.
        configs: KnownConfigs::of(&options.config),
        clock: options.clock,
        snapshots,
        hooks: options.hook.clone().and_then(|hook| {
            Hooks::start(hook, &options.paths, &mut writer, snapshots, options.clock)
        }),
        begun_at: now.wall,
        rest,
        open,
        links: Vec::new(),
        inbox: Arc::default(),
        arrivals: Batches::default(),
        journal: Journal::start(writer, options.clock, options.fuse.clone(), rest.clone()),
        house: Vec::new(),
        next_house: 1,
        dice: fastrand::Rng::with_seed(options.seed),
        unsaved: Unsaved::default(),
        unread: SharedByteCount::default(),
        published_at: now.mono,
        publish_every: PUBLISH_EVERY,
        outputs_done: 0,
        die_after: options.die_after,
        fuse: &options.fuse,
        is_leaving: false,
        heir: None,
        trouble: None,
    };
    let (remote_asks, mut from_clients) = mpsc::channel(1024);
    let listener = socket::listen(&options.paths, snapshots, rest, remote_asks);
    for text in remarks.into_iter().chain(listener.as_ref().err().cloned()) {
        snapshots.publish(SessionEvent::Notice(Notice {
            at: now.wall,
            level: NoticeLevel::Warning,
            text,
        }));
    }
    driver.restore(restored.links, restored.tasks, &options.servers, now);
    driver.configure(options.config.clone(), None, now);
    for server in &options.servers {
        if let Err(refused) = driver.know(server.clone(), now) {
            let text = refused.to_string();
            snapshots.publish(SessionEvent::Notice(Notice {
                at: now.wall,
                level: NoticeLevel::Error,
                text,
            }));
        }
    }
    snapshots.publish(SessionEvent::Driver {
        pid: std::process::id(),
        is_us: true,
    });
    for (number, what) in driver.open.all() {
        driver.ask(number, what, now);
    }
    driver.turn(now);
    options.fuse.burn(PanicIn::Network);
    let heir = driver
        .run(asks, &mut from_clients, &mut of_sign_ins, leaving)
        .await?;
    match heir {
        None => {
            drop(listener);
            driver.leave(&Input::Leave).await;
            drop(lock);
        }
        Some(heir) => {
            // The clients see it to its end: the moment they are let go there is a lock to take.
            driver.leave(&Input::HandOver).await;
            drop(listener);
            lock.hand_to(heir);
        }
    }
    Ok(heir)
}

impl Driver<'_> {
    async fn run(
        &mut self,
        asks: &mut mpsc::Receiver<Envelope>,
        from_clients: &mut mpsc::Receiver<Envelope>,
        of_sign_ins: &mut mpsc::Receiver<SignInNews>,
        leaving: &mut oneshot::Receiver<()>,
    ) -> Result<Option<u32>, String> {
        loop {
            let wake = self.next_wake();
            let timer = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(self.clock.instant(at)).await,
                    None => std::future::pending().await,
                }
            };
            let now;
            tokio::select! {
                () = self.inbox.filled(), if self.unsaved.has_room() => {
                    now = self.clock.now();
                    self.all_arrived(now);
                }
                Some(asked) = asks.recv() => {
                    now = self.clock.now();
                    let what = asked.what.clone();
                    let number = self.open.add(asked);
                    self.ask(number, what, now);
                }
                Some(asked) = from_clients.recv() => {
                    now = self.clock.now();
                    let what = asked.what.clone();
                    let number = self.open.add(asked);
                    self.ask(number, what, now);
                }
                outcomes = self.journal.outcomes() => {
                    now = self.clock.now();
                    let Some(outcomes) = outcomes else {
                        return Err("could not write the session: its writer ended; what was saved is safe, start again".to_owned());
                    };
                    self.all_written(outcomes, now);
                }
                Some(news) = of_sign_ins.recv() => {
                    now = self.clock.now();
                    self.sign_in_news(news, now);
                }
                () = self.refreshed.notified() => now = self.clock.now(),
                () = timer => {
                    now = self.clock.now();
                    for index in 0..self.links.len() {
                        self.feed(index, Input::Timer, now);
                    }
                    self.tend_logins(now);
                }
                _ = &mut *leaving => return Ok(None),
            }
            self.turn(now);
            if self.heir.is_some() {
                return Ok(self.heir);
            }
        }
    }

    /// When time alone makes something due: a link's timer, or the publishing of what changed.
    fn next_wake(&self) -> Option<Mono> {
        let links = self
            .links
            .iter()
            .filter_map(|linked| linked.link.next_wake());
        let publish = self
            .links
            .iter()
            .any(|linked| linked.is_touched)
            .then(|| self.published_at.after(self.publish_every));
        let is_watched = |linked: &Linked| linked.link.is_barred() && linked.keeper.is_some();
        let look = self
            .links
            .iter()
            .any(is_watched)
            .then(|| self.looked_at.after(LOOK_EVERY));
        let due = self.links.iter().filter_map(Linked::token_due).min();
        let due = due.map(|due| {
            let now = self.clock.now();
            now.mono.after(due.since(now.wall))
        });
        links.chain(publish).chain(look).chain(due).min()
    }

    /// Begins a sign-in; its answer comes once its page is known. An older one of the same server ends.
    fn sign_in(&mut self, number: SessionRequestId, name: &ServerName) {
        let linked = self
            .index_of(name)
            .and_then(|index| self.links.get_mut(index));
        let Some(linked) = linked else {
            let refused = self.unknown_server(name);
            return self.open.answer(self.snapshots, number, Err(refused));
        };
        let url = url::Url::parse(&linked.link.record().url).ok();
        let is_private = |url: &url::Url| !server_url::is_cleartext(url) || self.insecure_http;
        let Some(url) = url.filter(is_private) else {
            let words = format!(
                "a token for {name} would go over plain http, where it can be read on the way; use an https:// URL"
            );
            return self
                .open
                .answer(self.snapshots, number, Err(RequestError::Usage(words)));
        };
        let (logins, fetcher) = (self.logins.clone(), Arc::clone(&self.fetcher));
        let (clock, news) = (self.clock, self.sign_ins.clone());
        let (of, name) = (name, name.clone());
        let now: Now = Arc::new(move || clock.now().wall);
        let job = tokio::spawn(async move {
            let begun = auth::begin(&url, &SignInOptions::default(), logins, fetcher, now).await;
            let begun = match begun {
                Ok(begun) => begun,
                Err(error) => {
                    let refused = match error {
                        AuthError::Unreachable { .. } => {
                            RequestError::Unreachable(error.to_string())
                        }
                        _ => RequestError::Usage(error.to_string()),
                    };
                    // A driver that leaves has told everybody.
                    let _ = news.send(SignInNews::Begun(number, Err(refused))).await;
                    return;
                }
            };
            let page = SignInPage {
                host: begun.host.clone(),
                other_parties: begun.other_parties.clone(),
                url: begun.page.to_string(),
            };
            let _ = news.send(SignInNews::Begun(number, Ok(page))).await;
            let over = begun.finish().await.map(drop);
            let _ = news.send(SignInNews::Over(name, over)).await;
        });
        let job = job.abort_handle();
        let older = linked.signing_in.replace(SignInJob { number, job });
        if let Some(older) = older {
            let refused = RequestError::Usage(format!("another sign-in at {of} began since"));
            // Answered already if its page was shown.
            self.open.answer(self.snapshots, older.number, Err(refused));
        }
    }

    fn sign_in_news(&mut self, news: SignInNews, now: Stamp) {
        match news {
            SignInNews::Begun(number, page) => {
                self.open
                    .answer(self.snapshots, number, page.map(SessionResponse::SignIn));
            }
            SignInNews::Over(name, Ok(())) => {
                let words = format!("signed in to {name}; its tasks resume");
                self.notice(NoticeLevel::Info, words, now);
                if let Some(index) = self.index_of(&name) {
                    // No ask has the number 0.
                    let what = SessionRequest::RetryNow;
                    self.feed(index, Input::Ask { ask: 0, what }, now);
                }
            }
            SignInNews::Over(name, Err(error)) => {
                let words = format!("not signed in to {name}: {error}");
                self.notice(
                    NoticeLevel::Error,
                    text::clean_line(&words).into_owned(),
                    now,
                );
            }
        }
    }

    /// Goes on where somebody has signed in, and gets new tokens while the old ones are good.
    fn tend_logins(&mut self, now: Stamp) {
        for linked in &mut self.links {
            if let Some(keeper) = linked.keeper.clone()
                && linked.token_due().is_some_and(|due| due <= now.wall)
            {
                let refreshed = Arc::clone(&self.refreshed);
                let job = tokio::spawn(async move {
                    keeper.renew().await;
                    refreshed.notify_one();
                });
                linked.refreshing = Some(job.abort_handle());
            }
        }
        if now.mono.since(self.looked_at) < LOOK_EVERY {
            return;
        }
        self.looked_at = now.mono;
        let has_news = |linked: &Linked| {
            let keeper = linked.keeper.as_ref().filter(|_| linked.link.is_barred());
            keeper.is_some_and(|keeper| keeper.has_new_sign_in())
        };
        for index in 0..self.links.len() {
            if self.links.get(index).is_some_and(has_news) {
                // No ask has the number 0.
                let what = SessionRequest::RetryNow;
                self.feed(index, Input::Ask { ask: 0, what }, now);
            }
        }
    }

    /// The end of every turn: what changed is shown, at a pace that a person can see.
    fn turn(&mut self, now: Stamp) {
        self.inbox.read_on(self.unsaved.has_room());
        let is_due = now.mono.since(self.published_at) >= self.publish_every;
        if !is_due || !self.links.iter().any(|linked| linked.is_touched) {
            return;
        }
        self.published_at = now.mono;
        let mut moved = 0;
        for linked in self.links.iter_mut().filter(|linked| linked.is_touched) {
            linked.is_touched = false;
            // Before its tasks: what one of them waits for stands there.
            if let Some(mut view) = linked.link.take_server_view() {
                let configured = Configured {
                    server: self.configs.of_name(&view.name),
                    environment: self.environment,
                    insecure_http: self.insecure_http,
                };
                view.obstacle = linked.obstacle(&configured);
                self.snapshots.publish(SessionEvent::Server(Arc::new(view)));
            }
            for view in linked.link.take_views() {
                moved += 1;
                if let Some(hooks) = &mut self.hooks {
                    hooks.look_at(&view, view.task.created_at < self.begun_at);
                }
                self.snapshots.publish(SessionEvent::Task(Arc::new(view)));
            }
            for id in linked.link.take_erased() {
                self.snapshots.publish(SessionEvent::Erased(id));
            }
        }
        let pace = PUBLISH_EVERY.saturating_mul(1 + moved / TASKS_AT_A_GLANCE);
        self.publish_every = pace.min(PUBLISH_AT_LATEST);
        self.rest.shown_every(self.publish_every);
    }

    /// Continues what the file holds. The credentials that come with `servers` are there before anything is sent; those
    /// that come with a name alone are meant for the place that the configuration gives it.
    fn restore(
        &mut self,
        records: Vec<LinkRecord>,
        tasks: Vec<RestoredTask>,
        servers: &[ServerRef],
        now: Stamp,
    ) {
        for record in records {
            let origin = |url: &str| url::Url::parse(url).ok().map(|url| url.origin());
            let configured = self.configs.of_name(&record.name);
            let configured = configured.and_then(|it| it.url.as_deref());
            let is_there = configured.is_none_or(|url| origin(url) == origin(&record.url));
            let is_it = |server: &&ServerRef| {
                let is_named = server
                    .url
                    .as_ref()
                    .map_or(is_there, |url| *url == record.url);
                server.name == record.name && is_named
            };
            let server = servers.iter().find(is_it);
            let headers = server.map_or(Vec::new(), |server| server.headers.clone());
            self.add_link(record, headers, now);
            if let (Some(server), Some(linked)) = (server, self.links.last_mut()) {
                linked.config_headers.clone_from(&server.config_headers);
            }
        }
        let mut unsettled: BTreeMap<usize, Vec<(Task, Vec<EventId>)>> = BTreeMap::new();
        for RestoredTask { task, recent_ids } in tasks {
            let index = self.index_of(&task.server);
            match index {
                Some(index) if !task.status.is_settled() && task.forgotten_at.is_none() => {
                    unsettled.entry(index).or_default().push((task, recent_ids));
                }
                _ => self
                    .snapshots
                    .publish(SessionEvent::Task(Arc::new(at_rest(task)))),
            }
        }
        for (index, tasks) in unsettled {
            self.feed(index, Input::Restored(tasks), now);
        }
    }

    fn index_of(&self, name: &ServerName) -> Option<usize> {
        self.links
            .iter()
            .position(|linked| &linked.link.record().name == name)
    }

    fn add_link(&mut self, record: LinkRecord, headers: Vec<(String, String)>, now: Stamp) {
        let choice = Choice {
            version: record.pinned_version,
            is_configured: false,
        };
        let tap = self.tracer.tap(&record.name);
        let is_configured = self
            .configs
            .of_name(&record.name)
            .is_some_and(|it| it.trace);
        let link = Link::new(record, choice, self.dice.u64(..), now).sharing(self.unsaved.clone());
        self.links.push(Linked {
            link,
            http: None,
            stdio: None,
            keeper: None,
            refreshing: None,
            signing_in: None,
            headers,
            config_headers: Vec::new(),
            secrets: Secrets::default(),
            tap,
            held: VecDeque::new(),
            durable: 0,
            exchanges: BTreeMap::new(),
            left: 0,
            is_touched: true,
        });
        if (self.traces || is_configured)
            && let Err(why) = self.record(self.links.len() - 1, true)
        {
            self.notice(NoticeLevel::Warning, why, now);
        }
    }

    /// Begins or stops to record what goes over the wire with a server; `Err` says in words why not.
    fn record(&mut self, index: usize, is_on: bool) -> Result<(), String> {
        let Some(linked) = self.links.get(index) else {
            return Ok(());
        };
        if is_on {
            let calls = linked.link.calls();
            let calls = calls.map(|(request, task)| (request.clone(), task.clone()));
            self.tracer.record(&linked.tap, calls)
        } else {
            linked.tap.switch().set(false);
            Ok(())
        }
    }

    /// The answer to the ask to record, or to stop that.
    fn trace(
        &mut self,
        server: Option<&ServerName>,
        is_on: Option<bool>,
    ) -> Result<SessionResponse, RequestError> {
        let (of, name) = match server {
            Some(name) => {
                let index = self.index_of(name);
                let index = index.ok_or_else(|| self.unknown_server(name))?;
                (index..index + 1, name.as_str())
            }
            None => (0..self.links.len(), "every server"),
        };
        let is_recorded = |linked: &Linked| linked.tap.switch().is_on();
        let mut taps = self.links.iter().skip(of.start).take(of.len());
        let is_on = is_on.unwrap_or_else(|| !taps.any(is_recorded));
        if server.is_none() {
            self.traces = is_on;
        }
        for index in of {
            self.record(index, is_on)
                .map_err(RequestError::CannotSave)?;
        }
        Ok(SessionResponse::Done(if is_on {
            format!(
                "what goes over the wire with {name} is recorded from now on; `longhaul trace` shows it"
            )
        } else {
            format!("what goes over the wire with {name} is recorded no longer")
        }))
    }

    /// Takes in what a file of configuration says. A server of which it says where it is becomes known by that; one that it
    /// names no more keeps its link for what is under way there.
    fn configure(&mut self, config: ServerConfigs, from: Option<ReaderId>, now: Stamp) {
        let Self { configs, links, .. } = self;
        let elsewhere = |server: &ServerConfig, was_named: bool| {
            let mut links = links.iter().map(|linked| &linked.link);
            let link = links.find(|link| link.record().name == server.name)?;
            let place = |url: &str| url::Url::parse(url).ok();
            let here = &link.record().url;
            let is_there = |url: &String| place(url) == place(here);
            // Its credentials would become those of what is under way.
            let is_taken = was_named && link.has_unsettled();
            let is_it = server.url.as_ref().is_none_or(is_there) && !is_taken;
            (!is_it).then(|| server_url::redacted(here).into_owned())
        };
        let Change {
            told,
            gone,
            notices,
        } = configs.take(config, from, elsewhere);
        for text in notices {
            if let Some(reader) = from {
                self.snapshots.tell(
                    reader,
                    SessionEvent::Notice(Notice {
                        at: now.wall,
                        level: NoticeLevel::Warning,
                        text,
                    }),
                );
            }
        }
        for name in gone {
            let file = self.configs.gone_from(&name).cloned();
            self.show_gone_from(&name, file, now);
        }
        for (name, old) in told {
            let Some(server) = self.configs.of_name(&name).cloned() else {
                continue;
            };
            let credentials = |server: &ServerConfig| {
                let (headers, program) = (server.headers.clone(), server.program.clone());
                (headers, program, server.withheld.clone())
            };
            let was_traced = old.as_ref().is_some_and(|old| old.trace);
            self.show_gone_from(&name, None, now);
            if old.is_some_and(|old| credentials(&old) != credentials(&server))
                && let Some(index) = self.index_of(&name)
            {
                if let Some(linked) = self.links.get_mut(index) {
                    linked.http = None;
                    linked.config_headers.clear();
                }
                // What waited for a credential may have it now. No ask has the number 0.
                let what = SessionRequest::RetryNow;
                self.feed(index, Input::Ask { ask: 0, what }, now);
            }
            // Without a place it counts once somebody says where it is.
            if let (None, Some(url)) = (self.index_of(&name), server.url) {
                self.add_link(LinkRecord::new(name.clone(), url), Vec::new(), now);
            }
            if server.trace != was_traced
                && let Some(index) = self.index_of(&name)
                && let Err(why) = self.record(index, server.trace)
            {
                self.notice(NoticeLevel::Warning, why, now);
            }
            self.apply_config(&name, now);
        }
    }

    fn show_gone_from(&mut self, name: &ServerName, file: Option<String>, now: Stamp) {
        let Some(index) = self.index_of(name) else {
            return;
        };
        if let Some(linked) = self.links.get_mut(index) {
            linked.link.gone_from(file);
            // A program of which nothing is wanted any more ends by it.
            self.feed(index, Input::Timer, now);
        }
    }

    fn apply_config(&mut self, name: &ServerName, now: Stamp) {
        let (Some(config), Some(index)) = (self.configs.of_name(name), self.index_of(name)) else {
            return;
        };
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        let old_url = linked.link.record().url.clone();
        let mut config = config.clone();
        // The same place, written in another way, is no other place.
        let place = |url: &str| url::Url::parse(url).ok();
        let is_there = |url: &String| place(url) == place(&old_url);
        config.url = config.url.filter(|url| !is_there(url));
        let applied = linked.link.configure(&config);
        if linked.link.record().url != old_url {
            linked.http = None;
            let origin = |url: &str| place(url).map(|url| url.origin());
            if origin(&linked.link.record().url) != origin(&old_url) {
                // They were given for the server at the old place.
                linked.headers.clear();
                linked.config_headers.clear();
                linked.secrets = Secrets::default();
            }
        }
        linked.is_touched = true;
        if let Err(error) = applied {
            self.snapshots.publish(SessionEvent::Notice(Notice {
                at: now.wall,
                level: NoticeLevel::Info,
                text: error.to_string(),
            }));
        }
    }

    /// Makes a server known; a name that stands for another URL already is refused, and so is a revision that it is not
    /// spoken to in.
    fn know(&mut self, server: ServerRef, now: Stamp) -> Result<usize, RequestError> {
        let pinned = server.protocol.as_deref().and_then(ProtocolVersion::parse);
        let known = self.index_of(&server.name);
        match (known, server.url) {
            (Some(index), url) => {
                let Some(linked) = self.links.get_mut(index) else {
                    return Err(RequestError::Usage("no such server".to_owned()));
                };
                let known_url = linked.link.record().url.clone();
                if url.is_some_and(|url| url != known_url) {
                    let known_url = server_url::redacted(&known_url);
                    return Err(RequestError::Usage(format!(
                        "{} is {known_url} in this session; give the new one another name or use another --session",
                        server.name
                    )));
                }
                if let Some(version) = pinned
                    && let Err(error) = linked.link.pin_to(version)
                {
                    return Err(RequestError::Usage(error.to_string()));
                }
                if !server.headers.is_empty() {
                    (linked.headers, linked.http) = (server.headers, None);
                }
                if !server.config_headers.is_empty() {
                    (linked.config_headers, linked.http) = (server.config_headers, None);
                }
                Ok(index)
            }
            (None, Some(url)) => {
                Http::new(HttpOptions::new(url.clone()))
                    .map_err(|error| RequestError::Usage(error.to_string()))?;
                let mut record = LinkRecord::new(server.name.clone(), url);
                record.pinned_version = pinned;
                self.add_link(record, server.headers, now);
                if let Some(linked) = self.links.last_mut() {
                    linked.config_headers = server.config_headers;
                }
                self.apply_config(&server.name, now);
                Ok(self.links.len() - 1)
            }
            (None, None) => Err(self.unknown_server(&server.name)),
        }
    }

    /// The server that a reader calls by this name, for something new.
    fn to_ask(&self, from: Option<ReaderId>, name: &ServerName) -> Result<usize, RequestError> {
        match self.configs.why_not(from, name) {
            Some(words) => Err(RequestError::Usage(words)),
            None => self.index_of(name).ok_or_else(|| self.unknown_server(name)),
        }
    }

    fn unknown_server(&self, name: &ServerName) -> RequestError {
        let known: Vec<&str> = self
            .links
            .iter()
            .map(|linked| linked.link.record().name.as_str())
            .collect();
        let known = if known.is_empty() {
            "no server yet".to_owned()
        } else {
            known.join(", ")
        };
        RequestError::Usage(format!(
            "no server {name} in this session (it has {known}); give its URL with -s URL"
        ))
    }

    fn ask(&mut self, number: SessionRequestId, what: SessionRequest, now: Stamp) {
        self.publish_every = PUBLISH_EVERY;
        self.rest.shown_every(self.publish_every);
        let from = self.open.reader(number);
        let asked = match &what {
            SessionRequest::In(_, what) => what.as_ref(),
            what => what,
        };
        let index = match asked {
            // It is said where something is asked of it.
            SessionRequest::Server(ServerRef {
                name, url: None, ..
            }) if self.configs.why_not(from, name).is_some() => {
                return self
                    .open
                    .answer(self.snapshots, number, Ok(SessionResponse::Accepted));
            }
            SessionRequest::Server(server) => {
                self.configs.named_again(&server.name);
                self.show_gone_from(&server.name, None, now);
                self.know(server.clone(), now)
            }
            SessionRequest::Configure(config) => {
                let snapshots = self.snapshots;
                self.configs.forget_readers(|reader| snapshots.has(reader));
                self.configure(config.clone(), from, now);
                return self
                    .open
                    .answer(self.snapshots, number, Ok(SessionResponse::Accepted));
            }
            SessionRequest::HandOver { is_forced } => return self.hand_over(number, *is_forced),
            SessionRequest::SignIn(name) => return self.sign_in(number, name),
            // Nothing is asked in a revision of another.
            SessionRequest::In(..) => {
                let words = "asked in two revisions at once".to_owned();
                return self
                    .open
                    .answer(self.snapshots, number, Err(RequestError::Usage(words)));
            }
            SessionRequest::Trace { server, is_on } => {
                let outcome = self.trace(server.as_ref(), *is_on);
                return self.open.answer(self.snapshots, number, outcome);
            }
            SessionRequest::Tools(name)
            | SessionRequest::Adopt { server: name, .. }
            | SessionRequest::Checkpoints { server: name, .. } => self.to_ask(from, name),
            SessionRequest::Start(call) => match self.started_before(call) {
                Ok(Some(id)) => {
                    return self.open.answer(
                        self.snapshots,
                        number,
                        Ok(SessionResponse::Started(id)),
                    );
                }
                Ok(None) => self.to_ask(from, &call.server),
                Err(refused) => Err(refused),
            },
            SessionRequest::RetryNow => {
                for index in 0..self.links.len() {
                    // Answered once for all below; no ask has the number 0.
                    self.feed(
                        index,
                        Input::Ask {
                            ask: 0,
                            what: SessionRequest::RetryNow,
                        },
                        now,
                    );
                }
                return self
                    .open
                    .answer(self.snapshots, number, Ok(SessionResponse::Accepted));
            }
            SessionRequest::Pause(id)
            | SessionRequest::Resume(id)
            | SessionRequest::Cancel(id)
            | SessionRequest::GiveUp(id)
            | SessionRequest::Forget(id)
            | SessionRequest::Unforget(id)
            | SessionRequest::Seen(id)
            | SessionRequest::Answer { id, .. }
            | SessionRequest::Edit { id, .. } => {
                match self.links.iter().position(|linked| linked.link.holds(id)) {
                    Some(index) => Ok(index),
                    None => return self.ask_of_house(number, &what, now),
                }
            }
        };
        let needs_an_answer = matches!(
            asked,
            SessionRequest::Tools(_)
                | SessionRequest::Adopt { .. }
                | SessionRequest::Checkpoints { .. }
                | SessionRequest::Start(_)
        );
        if let Some(trouble) = self.trouble.as_ref().filter(|_| !self.unsaved.has_room())
            && needs_an_answer
            && index.is_ok()
        {
            let words = format!(
                "not asked: {}; nothing is read from servers until then",
                trouble.why
            );
            return self
                .open
                .answer(self.snapshots, number, Err(RequestError::CannotSave(words)));
        }
        if let (Ok(index), SessionRequest::Adopt { server, .. }) = (&index, asked)
            && let Err(error) = self.tell_known(*index, server)
        {
            let words = format!("could not {error}, so what is known already cannot be told");
            return self
                .open
                .answer(self.snapshots, number, Err(RequestError::CannotSave(words)));
        }
        match index {
            Ok(index) => self.feed(index, Input::Ask { ask: number, what }, now),
            Err(refused) => self.open.answer(self.snapshots, number, Err(refused)),
        }
    }

    /// Lets a client drive, unless that would end something. Its answer comes once it does.
    fn hand_over(&mut self, number: SessionRequestId, is_forced: bool) {
        let reader = self.open.reader(number);
        if !reader.is_some_and(|reader| self.snapshots.has(reader)) {
            // It stood in the line while we stood still, and whoever asked has gone since.
            return self.open.pass_on(number);
        }
        let refused = match self.open.asker(number) {
            Some(Requester::Client(Some(pid))) => match self.price_of_leaving() {
                Some(words) if !is_forced => RequestError::WouldLoseWork(words),
                _ => {
                    self.open.pass_on(number);
                    self.heir = Some(pid);
                    return;
                }
            },
            Some(Requester::Client(None)) => {
                RequestError::Usage("this system does not tell who asks to drive".to_owned())
            }
            Some(Requester::Us) | None => {
                return self
                    .open
                    .answer(self.snapshots, number, Ok(SessionResponse::Accepted));
            }
        };
        self.open.answer(self.snapshots, number, Err(refused));
    }

    /// What ends when this process drives no more, in words.
    fn price_of_leaving(&self) -> Option<String> {
        let dying = self.links.iter().flat_map(|linked| linked.link.dying());
        let dying: Vec<String> = dying.map(|(id, why)| format!("{id} ({why})")).collect();
        let is_open = |job: &SignInJob| !job.job.is_finished();
        let is_signing_in = |linked: &&Linked| linked.signing_in.as_ref().is_some_and(is_open);
        let sign_ins = self.links.iter().filter(is_signing_in);
        let sign_ins =
            sign_ins.map(|linked| format!("the sign-in at {}", linked.link.record().name));
        let unsaved = self.trouble.as_ref();
        let unsaved = unsaved.map(|trouble| format!("what is not saved ({})", trouble.why));
        let more = dying.len().saturating_sub(DYING_LISTED);
        let listed = dying.into_iter().take(DYING_LISTED);
        let ends: Vec<String> = listed
            .chain((more > 0).then(|| format!("and {more} more")))
            .chain(sign_ins)
            .chain(unsaved)
            .collect();
        (!ends.is_empty()).then(|| {
            let pid = std::process::id();
            let ends = ends.join("; ");
            let words =
                format!("process {pid} goes on driving, because this would end with it: {ends}");
            text::clean_line(&words).into_owned()
        })
    }

    /// A link holds what is unsettled; what it is to adopt could have settled long ago.
    fn tell_known(&mut self, index: usize, server: &ServerName) -> Result<(), StoreError> {
        let known = Reader::open(self.paths)?.server_tasks(server)?;
        if let Some(linked) = self.links.get_mut(index) {
            let shown = |(theirs, ours, is_forgotten): (String, TaskId, bool)| {
                (theirs, Some(ours).filter(|_| !is_forgotten))
            };
            linked.link.knows(known.into_iter().map(shown));
        }
        Ok(())
    }

    /// The task that an ask to start would repeat: the same id, or the same `--once` key.
    ///
    /// A file that cannot be read is no proof that the key is new, so then the call is refused.
    fn started_before(&self, call: &NewCall) -> Result<Option<TaskId>, RequestError> {
        if self.snapshots.task(&call.id).is_some() {
            return Ok(Some(call.id.clone()));
        }
        // What was started this moment is neither on the board yet nor on disk.
        let just_now = |linked: &Linked| linked.link.started_before(call);
        if let Some(id) = self.links.iter().find_map(just_now) {
            return Ok(Some(id));
        }
        let Some(once) = &call.once else {
            return Ok(None);
        };
        let on_board = self
            .snapshots
            .tasks()
            .into_iter()
            .find(|view| view.task.once.as_ref() == Some(once));
        if let Some(view) = on_board {
            return Ok(Some(view.task.id.clone()));
        }
        Reader::open(self.paths)
            .and_then(|mut reader| reader.once(once))
            .map_err(|error| RequestError::CannotSave(format!("could not {error}")))
    }

    /// Asks about a task that no link holds: settled, or forgotten.
    fn ask_of_house(&mut self, number: SessionRequestId, what: &SessionRequest, now: Stamp) {
        let (SessionRequest::Pause(id)
        | SessionRequest::Resume(id)
        | SessionRequest::Cancel(id)
        | SessionRequest::GiveUp(id)
        | SessionRequest::Forget(id)
        | SessionRequest::Unforget(id)
        | SessionRequest::Seen(id)
        | SessionRequest::Edit { id, .. }) = what
        else {
            let refused = RequestError::Usage("nothing to do".to_owned());
            return self.open.answer(self.snapshots, number, Err(refused));
        };
        let Some(mut task) = self.recall(id) else {
            let words = format!("no task {id}; `longhaul ls --all` lists them");
            return self
                .open
                .answer(self.snapshots, number, Err(RequestError::Usage(words)));
        };
        let word = task.status.label();
        let refusal = match what {
            SessionRequest::Pause(_) => Some(format!("Not paused: {id} is {word} already")),
            SessionRequest::Resume(_) => Some(format!(
                "{id} is {word}; `longhaul again {id}` runs it again"
            )),
            SessionRequest::Cancel(_) | SessionRequest::GiveUp(_) => {
                Some(format!("Not cancelled: {id} is {word} already"))
            }
            _ => None,
        };
        if let Some(words) = refusal {
            let refused = if task.status.is_settled() {
                RequestError::Settled(words)
            } else {
                RequestError::Usage(words)
            };
            return self.open.answer(self.snapshots, number, Err(refused));
        }
        match what {
            SessionRequest::Forget(_) => task.forgotten_at = Some(now.wall),
            SessionRequest::Unforget(_) => task.forgotten_at = None,
            SessionRequest::Seen(_) => task.is_seen = true,
            SessionRequest::Edit {
                name, note, limits, ..
            } => {
                (task.name, task.note, task.limits) = (name.clone(), note.clone(), *limits);
            }
            _ => {}
        }
        if !task.status.is_settled()
            && task.forgotten_at.is_none()
            && let Some(index) = self.index_of(&task.server)
        {
            // Brought back: it goes on where it was, and is the link's to save from now on.
            let (name, note, limits) = (task.name.clone(), task.note.clone(), task.limits);
            // Without them a replay would add something twice.
            let known = Reader::open(self.paths).and_then(|mut it| it.recent_ids(&task));
            let ids = known.unwrap_or_default();
            self.feed(index, Input::Restored(vec![(task, ids)]), now);
            let what = SessionRequest::Edit {
                id: id.clone(),
                name,
                note,
                limits,
            };
            return self.feed(index, Input::Ask { ask: number, what }, now);
        }
        let house = self.next_house;
        self.next_house += 1;
        let rows = Arc::new(vec![Row::Task(Box::new(task.clone()))]);
        self.house.push(OwnSave {
            number: house,
            ask: Some(number),
            view: at_rest(task),
        });
        self.write(Saver::Own(house), rows, true, now);
    }

    /// The record of a task that no link holds, as it will be on disk.
    fn recall(&self, id: &TaskId) -> Option<Task> {
        // What still waits to be saved says the most.
        let unsaved = self.house.iter().filter(|save| save.view.task.id == *id);
        if let Some(save) = unsaved.max_by_key(|save| save.number) {
            return Some(save.view.task.clone());
        }
        if let Some(view) = self.snapshots.task(id) {
            return Some(view.task.clone());
        }
        match Reader::open(self.paths).and_then(|mut reader| reader.task(id.as_str())) {
            Ok(Lookup::One(task)) => Some(*task),
            _ => None,
        }
    }

    fn all_arrived(&mut self, now: Stamp) {
        let mut batches = std::mem::take(&mut self.arrivals);
        self.inbox.take(&mut batches);
        self.rest.took(batches.count(), batches.used().count());
        for batch in batches.used() {
            for arrival in batch.arrivals.drain(..) {
                let exchange = batch.exchange;
                self.feed(batch.link, Input::Arrived { exchange, arrival }, now);
            }
        }
        self.arrivals = batches;
    }

    /// Feeds a link and carries out what follows.
    fn feed(&mut self, index: usize, input: Input, now: Stamp) {
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        linked.is_touched = true;
        linked.link.handle(now, input);
        for output in linked.link.take_outputs() {
            self.carry_out(index, output, now);
        }
    }

    fn carry_out(&mut self, index: usize, output: Output, now: Stamp) {
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        let waits_for = match &output {
            Output::Send { after, .. } | Output::Answer { after, .. } => *after,
            Output::Save { .. } | Output::Close { .. } => None,
        };
        if let Some(token) = waits_for.filter(|token| *token > linked.durable) {
            linked.held.push_back((token, output));
            return;
        }
        self.outputs_done += 1;
        self.fuse.burn(PanicIn::Network);
        if self
            .die_after
            .is_some_and(|limit| self.outputs_done > limit)
        {
            die();
        }
        match output {
            Output::Save {
                token,
                rows,
                is_vital,
            } => self.write(Saver::Link(index, token), rows, is_vital, now),
            // What a leaving driver cannot do any more is asked of the next one: a client whose ask is open asks again.
            Output::Answer {
                outcome: Err(_), ..
            } if self.is_leaving => {}
            Output::Answer { ask, outcome, .. } => self.open.answer(self.snapshots, ask, outcome),
            Output::Close { exchange } => {
                linked.exchanges.remove(&exchange);
                let is_other = |held: &(SaveToken, Output)| !matches!(&held.1, Output::Send { exchange: held, .. } if *held == exchange);
                linked.held.retain(is_other);
            }
            Output::Send {
                exchange, request, ..
            } => {
                let configured = Configured {
                    server: self.configs.to_connect(&linked.link.record().name),
                    environment: self.environment,
                    insecure_http: self.insecure_http,
                };
                let clock = self.clock;
                let sign_in = SigningIn {
                    logins: self.logins,
                    fetcher: &self.fetcher,
                    now: Arc::new(move || clock.now().wall),
                    remark: remark(self.snapshots, clock),
                };
                if linked.link.record().is_process() {
                    let is_start = matches!(request.method, Method::Get { .. });
                    let stdio = match linked.process(&configured, &self.unread, is_start) {
                        Ok(stdio) => stdio,
                        Err(arrival) => {
                            return self.feed(index, Input::Arrived { exchange, arrival }, now);
                        }
                    };
                    let task = linked.link.task_of(exchange).cloned();
                    let arrivals = stdio.exchange_for(task, request);
                    let reading = self.inbox.read(index, exchange, arrivals);
                    linked.reads(exchange, reading);
                    return;
                }
                let http = match linked.connection(&configured, sign_in, &self.unread) {
                    Ok(http) => http,
                    Err(arrival) => {
                        return self.feed(index, Input::Arrived { exchange, arrival }, now);
                    }
                };
                let task = linked.link.task_of(exchange).cloned();
                let arrivals = http.exchange_for(task, request);
                let reading = self.inbox.read(index, exchange, arrivals);
                linked.reads(exchange, reading);
            }
        }
    }

    fn write(&mut self, who: Saver, rows: Arc<Vec<Row>>, is_vital: bool, now: Stamp) {
        if let Err(who) = self.journal.save(Job {
            who,
            rows,
            is_vital,
        }) {
            self.written(
                &who,
                Err("could not write the session: its writer ended; start again".to_owned()),
                now,
            );
        }
    }

    fn all_written(&mut self, outcomes: Vec<Outcome<Saver>>, now: Stamp) {
        if let Some(hooks) = &self.hooks {
            hooks.saved();
        }
        for (who, outcome) in outcomes {
            self.written(&who, outcome, now);
        }
    }

    /// A save is on disk, or failed: what waited for it goes on, or is forgotten.
    fn written(&mut self, who: &Saver, outcome: Result<(), String>, now: Stamp) {
        match *who {
            Saver::Own(number) => {
                let Some(place) = self.house.iter().position(|save| save.number == number) else {
                    return;
                };
                let save = self.house.swap_remove(place);
                let answer = match outcome {
                    Ok(()) => {
                        let is_forgotten = save.view.task.forgotten_at.is_some();
                        let id = save.view.task.id.clone();
                        self.snapshots
                            .publish(SessionEvent::Task(Arc::new(save.view)));
                        if is_forgotten {
                            self.snapshots.publish(SessionEvent::Erased(id));
                        }
                        Ok(SessionResponse::Accepted)
                    }
                    Err(why) => Err(RequestError::CannotSave(why)),
                };
                if let Some(ask) = save.ask {
                    self.open.answer(self.snapshots, ask, answer);
                }
            }
            Saver::Link(index, token) => match outcome {
                Ok(()) => {
                    if let Some(Trouble { tries, .. }) = self.trouble.take() {
                        let tries = text::plural(tries, "failed attempt");
                        let words = format!("saving works again after {tries}");
                        self.notice(NoticeLevel::Info, words, now);
                    }
                    if let Some(linked) = self.links.get_mut(index) {
                        linked.durable = linked.durable.max(token);
                    }
                    let had_room = self.unsaved.has_room();
                    self.feed(index, Input::Saved(token), now);
                    self.release(index, now);
                    if !had_room && self.unsaved.has_room() {
                        for index in 0..self.links.len() {
                            self.feed(index, Input::Timer, now);
                        }
                    }
                }
                Err(why) => {
                    if let Some(linked) = self.links.get_mut(index) {
                        linked.held.retain(|(waits_for, _)| *waits_for != token);
                    }
                    // Tried once a second; it is said once.
                    match &mut self.trouble {
                        Some(trouble) if trouble.why == why => trouble.tries += 1,
                        trouble => {
                            let tries = trouble.as_ref().map_or(0, |before| before.tries) + 1;
                            let is_deaf = trouble.as_ref().is_some_and(|before| before.is_deaf);
                            *trouble = Some(Trouble {
                                why: why.clone(),
                                tries,
                                is_deaf,
                            });
                            self.notice(NoticeLevel::Error, why.clone(), now);
                        }
                    }
                    if let Some(trouble) = &mut self.trouble
                        && !self.unsaved.has_room()
                        && !std::mem::replace(&mut trouble.is_deaf, true)
                    {
                        let words = format!(
                            "results of {} wait for the disk: nothing more is read from any server until they are saved",
                            text::bytes(self.unsaved.result_bytes() as u64)
                        );
                        self.notice(NoticeLevel::Error, words, now);
                    }
                    self.feed(index, Input::SaveFailed { token, why }, now);
                }
            },
        }
    }

    fn notice(&self, level: NoticeLevel, text: String, now: Stamp) {
        self.snapshots.publish(SessionEvent::Notice(Notice {
            at: now.wall,
            level,
            text,
        }));
    }

    fn release(&mut self, index: usize, now: Stamp) {
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

    /// Ends what may be ended and saves the rest; bounded, because a person waits. `how` is what the links hear.
    async fn leave(mut self, how: &Input) {
        self.is_leaving = true;
        let begin = self.clock.now();
        let at = |after| self.clock.instant(begin.mono.after(after));
        let (processes_until, links_until, until) =
            (at(PROCESSES_HEAR_WITHIN), at(LEAVE_WITHIN), at(ENDS_WITHIN));
        for index in 0..self.links.len() {
            self.feed(index, how.clone(), begin);
        }
        let is_at_rest =
            |linked: &Linked| linked.link.is_at_rest() && !linked.link.awaits_first_id();
        self.tend_until(processes_until, |it| {
            let mut processes = it.links.iter().filter(|linked| linked.stdio.is_some());
            processes.all(is_at_rest)
        })
        .await;
        let with_process = self.links.iter().enumerate();
        let with_process = with_process.filter_map(|(at, it)| Some((at, it.stdio.clone()?)));
        let (of_processes, processes): (Vec<usize>, Vec<Stdio>) = with_process.unzip();
        let keepers: Vec<_> = self
            .links
            .iter()
            .filter_map(|it| it.keeper.clone())
            .collect();
        let ended = tokio::task::spawn_local(async move {
            futures_util::future::join_all(processes.iter().map(Stdio::end)).await;
        });
        self.tend_until(links_until, |it| {
            it.links.iter().all(is_at_rest) && it.house.is_empty()
        })
        .await;
        let settled =
            futures_util::future::join_all(keepers.iter().map(|it| it.wait_for_refresh()));
        let (ended, settled) = tokio::join!(
            tokio::time::timeout_at(until, ended),
            tokio::time::timeout_at(until, settled)
        );
        if ended.is_err() {
            tracing::warn!("left while a process did not end");
        } else {
            // We ended them, so we know what came of their calls; the next driver would only find out.
            let now = self.clock.now();
            for index in of_processes {
                self.feed(index, Input::ProgramEnded, now);
            }
            self.tend_until(until, |it| it.links.iter().all(is_at_rest))
                .await;
        }
        if settled.is_err() {
            tracing::warn!("left while a token was being refreshed");
        }
        self.journal.close();
        self.tracer.close();
        if let Some(hooks) = self.hooks {
            let least = self.clock.now().mono.after(HOOKS_START_WITHIN);
            hooks.close(least.max(begin.mono.after(ENDS_WITHIN)));
        }
    }

    /// Goes on without taking asks, until something is so or it is late.
    async fn tend_until(&mut self, until: tokio::time::Instant, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            let wake = self
                .next_wake()
                .map_or(until, |at| self.clock.instant(at).min(until));
            tokio::select! {
                () = self.inbox.filled(), if self.unsaved.has_room() => {
                    let now = self.clock.now();
                    self.all_arrived(now);
                }
                Some(outcomes) = self.journal.outcomes() => {
                    let now = self.clock.now();
                    self.all_written(outcomes, now);
                }
                () = tokio::time::sleep_until(wake) => {
                    let now = self.clock.now();
                    for index in 0..self.links.len() {
                        self.feed(index, Input::Timer, now);
                    }
                }
            }
            self.turn(self.clock.now());
            if self.clock.instant(self.clock.now().mono) >= until {
                return;
            }
        }
    }
}

/// What the configuration adds to a connection, and what it may take from the environment for that.
struct Configured<'c> {
    server: Option<&'c ServerConfig>,
    environment: fn(&str) -> Option<SecretString>,
    insecure_http: bool,
}

/// What it takes to keep the token of a sign-in.
struct SigningIn<'s> {
    logins: &'s Logins,
    fetcher: &'s Arc<Fetcher>,
    now: Now,
    remark: NoticeSink,
}

impl Linked {
    /// When a new token is due for what is open here, unless one is being got.
    fn token_due(&self) -> Option<Wall> {
        let due = self.keeper.as_ref()?.due()?;
        let is_busy = |job: &tokio::task::AbortHandle| !job.is_finished();
        let is_open = self.exchanges.values().any(|reading| !reading.is_over());
        (is_open && !self.refreshing.as_ref().is_some_and(is_busy)).then_some(due)
    }

    /// Keeps what reads an exchange. Those that came to their end go once they are as many as the others.
    fn reads(&mut self, exchange: ExchangeId, reading: Reading) {
        if self.exchanges.len() > 2 * self.left + 16 {
            self.exchanges.retain(|_, reading| !reading.is_over());
            self.left = self.exchanges.len();
        }
        self.exchanges.insert(exchange, reading);
    }

    /// The headers that came with what was asked; what is given by hand wins.
    fn given(&self) -> Vec<(String, String)> {
        let is_by_hand = |filled: &str| {
            let mut names = self.headers.iter().map(|(name, _)| name);
            names.any(|name| name.eq_ignore_ascii_case(filled))
        };
        let filled = self
            .config_headers
            .iter()
            .filter(|(name, _)| !is_by_hand(name));
        self.headers.iter().chain(filled).cloned().collect()
    }

    /// What a person has to do before anything can be sent there or started.
    fn obstacle(&self, configured: &Configured<'_>) -> Option<ServerObstacle> {
        let record = self.link.record();
        let mut server = configured.server?.clone();
        if record.is_process() {
            // One that runs needs nobody any more, whatever the configuration says since.
            server.program.as_ref().filter(|_| self.stdio.is_none())?;
        } else {
            let given = self.given();
            let wanted = configured.wanted(record, &given);
            server.headers = wanted.into_iter().cloned().collect();
            if server.headers.is_empty() {
                return None;
            }
        }
        server.obstacle(|variable| (configured.environment)(variable).is_some())
    }

    /// The process that its server is, taken from the configuration before each start; `Err` is what the machine hears
    /// instead of an answer.
    fn process(
        &mut self,
        configured: &Configured<'_>,
        unread: &SharedByteCount,
        is_start: bool,
    ) -> Result<Stdio, ExchangeEvent> {
        if let Some(stdio) = self.stdio.as_ref().filter(|_| !is_start) {
            return Ok(stdio.clone());
        }
        let name = &self.link.record().name;
        let program = configured
            .server
            .and_then(|server| Some((server.program.as_ref()?, &server.withheld)));
        let program = match program {
            Some((program, None)) => Ok(program),
            Some((_, Some(why))) => Err(why.clone()),
            None => Err(format!(
                "{name} is a program, and no configuration here says which, or this window is read-only"
            )),
        };
        let options = program.and_then(|program| {
            let process = configured.process(program, unread, &self.secrets);
            process.map_err(|variable| {
                format!("{name} wants the variable {variable}, and it is not set here; it was not started")
            })
        });
        let mut options = match options {
            Ok(options) => options,
            Err(why) => {
                self.link.takes_sign_in(false);
                self.link.withhold(why);
                return Err(refused_here());
            }
        };
        options.traffic = Some(self.tap.clone());
        // What ran before has ended, or is ended by the start of the new one.
        let older = self.stdio.take();
        Ok(self.stdio.insert(Stdio::replacing(older, options)).clone())
    }

    /// The client for its server, made where there is none yet; `Err` is what the machine hears instead of an answer.
    fn connection(
        &mut self,
        configured: &Configured<'_>,
        sign_in: SigningIn<'_>,
        unread: &SharedByteCount,
    ) -> Result<Http, ExchangeEvent> {
        if let Some(http) = &self.http {
            return Ok(http.clone());
        }
        let record = self.link.record();
        let given = self.given();
        let more = match configured.headers(record, &given, &self.secrets) {
            Ok(more) => more,
            Err(why) => {
                // As if the server had said what it says without the header.
                self.link.takes_sign_in(false);
                self.link.withhold(why);
                return Err(refused_here());
            }
        };
        let given = given.into_iter();
        let given = given.map(|(name, value)| (name, SecretString::from(value)));
        let mut options = HttpOptions::new(record.url.clone());
        options.buffered = unread.clone();
        options.headers = given.chain(more).collect();
        options.secrets = self.secrets.clone();
        options.traffic = Some(self.tap.clone());
        let is_authorized =
            |(name, _): &(String, SecretString)| name.trim().eq_ignore_ascii_case("authorization");
        let has_own = options.headers.iter().any(is_authorized);
        let url = url::Url::parse(&record.url).ok();
        let is_private =
            |url: &url::Url| !server_url::is_cleartext(url) || configured.insecure_http;
        self.keeper = url.filter(|url| !has_own && is_private(url)).map(|url| {
            let SigningIn {
                logins,
                fetcher,
                now,
                remark,
            } = sign_in;
            let name = record.name.as_str();
            let fetcher = Arc::clone(fetcher);
            Arc::new(TokenManager::new(&url, name, logins, fetcher, now, remark))
        });
        let sent = configured.sent(record, &self.headers);
        let keeper = self.keeper.clone();
        options.sign_in = keeper.map(|keeper| keeper as Arc<dyn SignIn>);
        self.link.takes_sign_in(self.keeper.is_some());
        self.link.sends(sent);
        let http = Http::new(options).map_err(|error| ExchangeEvent::NotSent {
            why: error.to_string(),
            is_refused: false,
        })?;
        Ok(self.http.insert(http).clone())
    }
}

/// What the machine hears where it is we who refuse.
fn refused_here() -> ExchangeEvent {
    ExchangeEvent::Refused(Box::new(HttpError {
        status: 401,
        retry_after: None,
        error: None,
        server_text: None,
    }))
}

impl Configured<'_> {
    /// How to start a program; `Err` names the first variable that holds nothing.
    fn process(
        &self,
        program: &Program,
        unread: &SharedByteCount,
        secrets: &Secrets,
    ) -> Result<StdioOptions, String> {
        let holds = |variable: &str| self.value(variable, secrets);
        let mut options = StdioOptions::new(program.command.clone());
        let args = program.expanded_args(holds)?;
        options.args = args.into_iter().map(SecretString::from).collect();
        let usual = |name: &&str| Some(((*name).to_owned(), (self.environment)(name)?));
        options.env = USUAL_ENVIRONMENT.iter().filter_map(usual).collect();
        for (name, value) in &program.env {
            let value = SecretString::from(value.expand(holds).map_err(str::to_owned)?);
            secrets.add(name, &value);
            options.env.push((name.clone(), value));
        }
        options.cwd.clone_from(&program.cwd);
        options.buffered = unread.clone();
        options.secrets = secrets.clone();
        Ok(options)
    }

    /// The value of a variable, which the server must not make us show.
    fn value(&self, variable: &str, secrets: &Secrets) -> Option<String> {
        let secret = (self.environment)(variable)?;
        secrets.add_variable(variable, &secret);
        Some(secret.expose_secret().to_owned())
    }

    /// The headers of the configuration that belong to where the link is and are not `given` already.
    fn wanted(&self, record: &LinkRecord, given: &[(String, String)]) -> Vec<&(String, Template)> {
        let place = |url: &str| url::Url::parse(url).ok().map(|url| url.origin());
        let Some(server) = self.server else {
            return Vec::new();
        };
        // While unsettled work keeps the link at an old place, what is meant for the new one stays here.
        let there = server.url.as_deref().and_then(place);
        if there.is_none() || there != place(&record.url) {
            return Vec::new();
        }
        let is_given = |name: &str| given.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let headers = server.headers.iter();
        headers.filter(|(name, _)| !is_given(name)).collect()
    }

    /// What goes there in headers, by name: what is given, and what the configuration says.
    fn sent(&self, record: &LinkRecord, given: &[(String, String)]) -> Sent {
        let mut sent = Sent::default();
        for (name, _) in given {
            sent.names.push(name.clone());
        }
        // Whoever asks by its name gives the headers of the configuration too.
        for (name, value) in self.wanted(record, &[]) {
            if !sent.names.iter().any(|it| it.eq_ignore_ascii_case(name)) {
                sent.names.push(name.clone());
            }
            sent.variables.extend(value.variables().map(str::to_owned));
        }
        sent
    }

    /// The headers of the configuration that are not `given` already, with their secrets; `Err` says in words why one
    /// of them cannot be sent.
    fn headers(
        &self,
        record: &LinkRecord,
        given: &[(String, String)],
        secrets: &Secrets,
    ) -> Result<Vec<(String, SecretString)>, String> {
        let wanted = self.wanted(record, given);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(why) = self.server.and_then(|server| server.withheld.as_ref()) {
            return Err(why.clone());
        }
        let name = &record.name;
        let is_open =
            url::Url::parse(&record.url).is_ok_and(|there| server_url::is_cleartext(&there));
        if is_open && !self.insecure_http {
            return Err(format!(
                "the headers of {name} in the configuration would go over plain http, where they can be read on the way; \
                 nothing was sent. Use an https:// URL, or say --insecure-http each time"
            ));
        }
        let holds = |variable: &str| self.value(variable, secrets);
        wanted
            .into_iter()
            .map(|(header, value)| match value.expand(holds) {
                Ok(value) => Ok((header.clone(), SecretString::from(value))),
                Err(variable) => Err(format!(
                    "{name} wants the variable {variable} for its header {header}, and it is not set here; nothing was sent"
                )),
            })
            .collect()
    }
}

/// Says a warning to whoever reads.
fn remark(snapshots: &Arc<Snapshots>, clock: Clock) -> NoticeSink {
    let snapshots = Arc::clone(snapshots);
    Arc::new(move |text| {
        snapshots.publish(SessionEvent::Notice(Notice {
            at: clock.now().wall,
            level: NoticeLevel::Warning,
            text,
        }));
    })
}

/// A task that nothing is connected for.
fn at_rest(task: Task) -> TaskView {
    TaskView {
        contact: Connectivity::Idle,
        ..TaskView::unwatched(task, None)
    }
}

/// Ends this process as `kill -9` would.
fn die() {
    let me = rustix::process::getpid();
    // If even this fails the test that asked for it says so.
    let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
}
