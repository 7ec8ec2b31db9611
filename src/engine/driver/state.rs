//! The state of the driver.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    auth::{AuthError, Logins, TokenManager},
    domain::{
        Mono, RateLimit, RequestError, ServerName, SessionRequestId, SharedByteCount, SignInPage,
        TaskView,
    },
    engine::{
        clock::Clock,
        driver::lifetime::Lifetime,
        driver::proxies::Proxies,
        hook::Hooks,
        inbox::{Arrival, Inbox, Reading},
        journal::{Journal, JournalError},
        pace::Pace,
        pending_requests::PendingRequests,
        server_configs::KnownConfigs,
        snapshots::{ReaderId, Snapshots},
        tracer::Tracer,
    },
    link::{ExchangeId, Link, Output, SaveToken, Unsaved},
    store::{Paths, Reader},
    transport::{Fetcher, Http, ProcessGuard, Secrets, Stdio, TrafficRecorder},
};

/// The pace of publications; a person sees no more.
pub(super) const PUBLISH_EVERY: Duration = Duration::from_millis(33);

/// The owner of a save.
#[derive(Debug)]
pub(super) enum Saver {
    /// A link's.
    Link(usize, SaveToken),
    /// The driver's, for a task that no link holds any more.
    Own(u64),
}

/// One link and its connections.
pub(super) struct Linked {
    pub(super) link: Link,
    pub(super) http: Option<Http>,
    /// The server's process, if it is a child; kept while it runs, even if the configuration changes.
    pub(super) stdio: Option<Stdio>,
    /// Provides the sign-in token; belongs to the client.
    pub(super) tokens: Option<Arc<TokenManager>>,
    /// The job that refreshes the token before it expires.
    pub(super) refreshing: Option<tokio::task::AbortHandle>,
    /// The sign-in that is waiting for a browser.
    pub(super) signing_in: Option<SignInJob>,
    /// The credentials given on a command line.
    pub(super) headers: Vec<(String, String)>,
    /// The requester's values from the configuration, while that is unchanged.
    pub(super) config_headers: Vec<(String, String)>,
    /// The client that last named this server.
    pub(super) named_by: Option<ReaderId>,
    /// Whether a client allowed its credentials to be sent over plain http.
    pub(super) insecure_http: bool,
    /// Secrets that its server must not make us show; old values stay known while its address is unchanged.
    pub(super) secrets: Secrets,
    pub(super) tap: TrafficRecorder,
    /// The outputs that wait for a save.
    pub(super) held: VecDeque<(SaveToken, Output)>,
    /// The newest save on disk.
    pub(super) durable: SaveToken,
    pub(super) exchanges: BTreeMap<ExchangeId, Reading>,
    /// How many exchanges were left when ended ones were last removed.
    pub(super) left: usize,
    pub(super) is_touched: bool,
}

/// A sign-in under way; dropping it ends it.
pub(super) struct SignInJob {
    pub(super) number: SessionRequestId,
    pub(super) job: tokio::task::AbortHandle,
}

impl Drop for SignInJob {
    fn drop(&mut self) {
        self.job.abort();
    }
}

/// The progress of a sign-in.
pub(super) enum SignInNews {
    /// Its page can be opened, or why not: the response to this request.
    Begun(SessionRequestId, Result<SignInPage, RequestError>),
    /// The sign-in with this server has ended.
    Over(ServerName, Result<(), AuthError>),
}

/// A change to a task that no link holds: published and answered once it is on disk.
pub(super) struct OwnSave {
    pub(super) number: u64,
    pub(super) ask: Option<SessionRequestId>,
    pub(super) view: TaskView,
}

/// Credentials, and the jobs that refresh them.
pub(super) struct SignIns<'d> {
    pub(super) logins: &'d Logins,
    /// Whether this process was started with `--insecure-http`. Its clients say for themselves.
    pub(super) insecure_http: bool,
    pub(super) fetcher: Arc<Fetcher>,
    /// Signals that a token refresh has ended.
    pub(super) refreshed: Arc<tokio::sync::Notify>,
    pub(super) looked_at: Mono,
    pub(super) news: mpsc::Sender<SignInNews>,
}

/// When the readers get the newest views.
pub(super) struct Publishing {
    pub(super) limit: RateLimit,
    pub(super) every: Duration,
    /// When they last got them.
    pub(super) at: Mono,
    /// How much has come from the servers since then.
    pub(super) arrivals: usize,
}

/// What has come from the servers and no link has handled.
#[derive(Default)]
pub(super) struct Received {
    pub(super) inbox: Arc<Inbox>,
    /// The arrivals taken from the inbox; empty between two turns.
    pub(super) arrivals: Vec<Arrival>,
    /// How much all exchanges hold of incomplete events.
    pub(super) unread: SharedByteCount,
}

/// What is on its way to the session file.
pub(super) struct Saves {
    /// Reads the session file for each call that starts; opened for the first one.
    pub(super) reader: Option<Reader>,
    pub(super) journal: Journal<Saver>,
    /// How much unsaved history and results all links hold.
    pub(super) unsaved: Unsaved,
    pub(super) trouble: Option<Trouble>,
    pub(super) own: OwnSaves,
}

/// Saves of the driver itself, not of a link.
#[derive(Default)]
pub(super) struct OwnSaves {
    pub(super) waiting: Vec<OwnSave>,
    pub(super) next_number: u64,
}

pub(super) struct Driver<'d> {
    pub(super) paths: &'d Paths,
    /// Whether every new server is traced.
    pub(super) traces: bool,
    pub(super) guard: &'d ProcessGuard,
    pub(super) tracer: Tracer,
    /// The configuration, including servers that this session does not know yet.
    pub(super) configs: KnownConfigs,
    pub(super) clock: Clock,
    pub(super) snapshots: &'d Arc<Snapshots>,
    pub(super) hooks: Option<Hooks>,
    /// When it exits by itself, if it is a keeper.
    pub(super) lifetime: Option<Lifetime>,
    pub(super) pace: &'d Pace,
    pub(super) open: &'d mut PendingRequests,
    pub(super) links: Vec<Linked>,
    pub(super) received: Received,
    pub(super) saves: Saves,
    pub(super) rng: fastrand::Rng,
    pub(super) is_leaving: bool,
    pub(super) sign_in: SignIns<'d>,
    pub(super) publishing: Publishing,
    pub(super) proxies: Proxies,
}

/// Why saves fail, and how many attempts have failed.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) error: JournalError,
    pub(super) tries: u64,
    /// Whether it was reported that no server is read.
    pub(super) is_deaf: bool,
}
