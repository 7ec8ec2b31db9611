//! What the driver owns.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use secrecy::SecretString;
use tokio::sync::mpsc;

use crate::{
    auth::{AuthError, Logins, NoticeSink, Now, TokenManager},
    domain::{
        Mono, RequestError, ServerName, SessionRequestId, SharedByteCount, SignInPage, TaskView,
        Wall,
    },
    engine::{
        clock::Clock,
        hook::Hooks,
        inbox::{Batches, Inbox, Reading},
        journal::Journal,
        options::FailPoint,
        pending_requests::PendingRequests,
        rest::Rest,
        server_configs::KnownConfigs,
        snapshots::Snapshots,
        tracer::Tracer,
    },
    link::{ExchangeId, Link, Output, SaveToken, Unsaved},
    store::Paths,
    transport::{Fetcher, Http, Secrets, Stdio, TrafficRecorder},
};

/// The newest values go to the readers at most this often; a person sees no more.
pub(super) const PUBLISH_EVERY: Duration = Duration::from_millis(33);

/// Whose save it is.
#[derive(Debug)]
pub(super) enum Saver {
    /// A link's.
    Link(usize, SaveToken),
    /// Our own, for a task that no link holds any more.
    Own(u64),
}

/// One link and what it is connected with.
pub(super) struct Linked {
    pub(super) link: Link,
    pub(super) http: Option<Http>,
    /// Where the server is a process of ours; kept while that runs, whatever the configuration says since.
    pub(super) stdio: Option<Stdio>,
    /// Who brings the token of a sign-in; goes with the client.
    pub(super) keeper: Option<Arc<TokenManager>>,
    /// The job that gets a new token before the old one is over.
    pub(super) refreshing: Option<tokio::task::AbortHandle>,
    /// The sign-in that waits for a browser.
    pub(super) signing_in: Option<SignInJob>,
    /// What was given by hand.
    pub(super) headers: Vec<(String, String)>,
    /// What whoever asked has filled in from the configuration, as long as that stays as it is.
    pub(super) config_headers: Vec<(String, String)>,
    /// What its server must not make us show; older values stay known for as long as it stays where it is.
    pub(super) secrets: Secrets,
    pub(super) tap: TrafficRecorder,
    /// Outputs that wait for a save.
    pub(super) held: VecDeque<(SaveToken, Output)>,
    /// The newest save on disk.
    pub(super) durable: SaveToken,
    pub(super) exchanges: BTreeMap<ExchangeId, Reading>,
    /// How many exchanges were left when those that came to their end were last taken out.
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

/// What comes of a sign-in.
pub(super) enum SignInNews {
    /// Its page can be opened, or why there is none: the answer to this ask.
    Begun(SessionRequestId, Result<SignInPage, RequestError>),
    /// It is over, with this server.
    Over(ServerName, Result<(), AuthError>),
}

/// A change to a task that no link holds: shown and answered once it is on disk.
pub(super) struct OwnSave {
    pub(super) number: u64,
    pub(super) ask: Option<SessionRequestId>,
    pub(super) view: TaskView,
}

/// Credentials, and the jobs that get new ones.
pub(super) struct SignIns<'d> {
    pub(super) environment: fn(&str) -> Option<SecretString>,
    pub(super) logins: &'d Logins,
    pub(super) insecure_http: bool,
    pub(super) fetcher: Arc<Fetcher>,
    /// A job that gets a new token has ended.
    pub(super) refreshed: Arc<tokio::sync::Notify>,
    pub(super) looked_at: Mono,
    pub(super) news: mpsc::Sender<SignInNews>,
}

/// When the screens get the newest views.
pub(super) struct Publishing {
    pub(super) last: Mono,
    pub(super) every: Duration,
}

/// Saves of the driver itself, not of a link.
pub(super) struct OwnSaves {
    pub(super) waiting: Vec<OwnSave>,
    pub(super) next_number: u64,
}

/// Where tests end the process.
pub(super) struct TestHooks<'d> {
    pub(super) outputs_done: u64,
    pub(super) die_after: Option<u64>,
    pub(super) fuse: &'d FailPoint,
}

pub(super) struct Driver<'d> {
    pub(super) paths: &'d Paths,
    /// Whether every server that becomes known is recorded.
    pub(super) traces: bool,
    pub(super) tracer: Tracer,
    /// What the configuration says, also of servers that this session does not know yet.
    pub(super) configs: KnownConfigs,
    pub(super) clock: Clock,
    pub(super) snapshots: &'d Arc<Snapshots>,
    pub(super) hooks: Option<Hooks>,
    pub(super) begun_at: Wall,
    pub(super) rest: &'d Rest,
    pub(super) open: &'d mut PendingRequests,
    pub(super) links: Vec<Linked>,
    pub(super) inbox: Arc<Inbox>,
    /// What was taken out of the inbox; empty between two turns.
    pub(super) arrivals: Batches,
    pub(super) journal: Journal<Saver>,
    pub(super) rng: fastrand::Rng,
    /// How much history and results of all links wait to be saved.
    pub(super) unsaved: Unsaved,
    /// How much all exchanges hold of events that have not come to their end.
    pub(super) unread: SharedByteCount,
    pub(super) is_leaving: bool,
    /// Who drives from here on.
    pub(super) successor: Option<u32>,
    pub(super) trouble: Option<Trouble>,
    pub(super) sign_in: SignIns<'d>,
    pub(super) publishing: Publishing,
    pub(super) own_saves: OwnSaves,
    pub(super) test_hooks: TestHooks<'d>,
}

/// Why the session file takes nothing at present, and how often it was tried in vain.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) why: String,
    pub(super) tries: u64,
    /// Whether it was said that nothing more is read.
    pub(super) is_deaf: bool,
}

/// What it takes to keep the token of a sign-in.
pub(super) struct SigningIn<'s> {
    pub(super) logins: &'s Logins,
    pub(super) fetcher: &'s Arc<Fetcher>,
    pub(super) now: Now,
    pub(super) remark: NoticeSink,
}
