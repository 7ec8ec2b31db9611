//! One boot of the server: its tokio runtime, HTTP service and shutdown.
//!
//! However a boot ends, its runtime is dropped with all its tasks, finished or not. That matches `kill -9`: only what is
//! on disk is left for the next boot.

use std::{
    io,
    net::TcpListener as StdListener,
    os::unix::net::UnixListener as StdUnixListener,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, middleware, routing::get};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    DemoError,
    checkpoints::Checkpoints,
    context::SharedState,
    control::ControlSocket,
    database::{Database, locked, now_ms},
    elicitation_tokens::{self, ElicitationTokens},
    events::{Events, RETRY},
    faults::Faults,
    handler::{Handler, run_task},
    http::{self, HttpState},
    runs::Runs,
    sessions::Sessions,
    tasks::TaskStore,
    tcp::{FaultyListener, RequestConnection},
};

/// The interval of keep-alive comments on an idle SSE stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Why a boot ended, and so what the process does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShutdownReason {
    /// Boot again on the same port.
    Restart,
    /// The control socket received `stop`.
    Stop,
    /// Nothing ran and no client was connected for the configured time.
    Idle,
    /// The owner in this process killed it; like `kill -9`, leaves the control socket behind.
    Kill,
}

/// The sockets and settings of one boot.
pub(super) struct Boot {
    pub(super) dir: PathBuf,
    pub(super) http: StdListener,
    pub(super) control: StdUnixListener,
    pub(super) cross_stream_replay: bool,
    pub(super) idle_exit: Option<Duration>,
    pub(super) kill: CancellationToken,
}

impl Boot {
    /// Runs until the boot ends. Calls `ready` once the server accepts requests.
    pub(super) fn run(self, ready: impl FnOnce()) -> Result<ShutdownReason, DemoError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(DemoError::io("start a runtime"))?;
        // When the runtime is dropped, every task in it stops at its current await point.
        runtime.block_on(self.serve(ready))
    }

    async fn serve(self, ready: impl FnOnce()) -> Result<ShutdownReason, DemoError> {
        let database = Arc::new(Database::open(&self.dir)?);
        let boot = database.boot;
        let faults = Arc::new(Faults::new());
        let activity = Arc::new(ActivityTracker::new());
        let events = Arc::new(Events::open(
            Arc::clone(&database),
            Arc::clone(&faults),
            self.cross_stream_replay,
        )?);
        let checkpoints = Arc::new(Checkpoints::open(Arc::clone(&database))?);
        let tasks = Arc::new(TaskStore::open(
            Arc::clone(&database),
            Arc::clone(&activity),
        )?);
        let what = || DemoError::io("use the server's sockets");
        let http = TcpListener::from_std(self.http).map_err(what())?;
        let port = http.local_addr().map_err(what())?.port();
        let tokens = Arc::new(ElicitationTokens::new(database, port));
        let runs = Arc::new(Runs::new(checkpoints, Arc::clone(&activity)));
        let sessions = Arc::new(Sessions::new(Arc::clone(&events)));
        let shared = Arc::new(SharedState {
            events: Arc::clone(&events),
            runs,
            tasks,
            tokens: Arc::clone(&tokens),
            activity: Arc::clone(&activity),
            boot,
            started_ms: now_ms(),
        });
        for task in shared.tasks.unfinished()? {
            run_task(&shared, &task);
        }

        let service = StreamableHttpService::new(
            move || Ok(Handler::new(Arc::clone(&shared))),
            Arc::clone(&sessions),
            StreamableHttpServerConfig::default()
                .with_sse_retry(Some(RETRY))
                .with_sse_keep_alive(Some(KEEP_ALIVE))
                // Modern era only: plain JSON if the response is the first message, else an SSE stream.
                .with_json_response(true)
                .with_allowed_origins(http::allowed_origins(port))
                .enforce_origin_validation(),
        );
        let http_state = HttpState {
            origins: http::allowed_origins(port).into(),
            events,
            sessions: Arc::clone(&sessions),
            faults: Arc::clone(&faults),
        };
        let app = Router::new()
            .route_service("/mcp", service)
            .route(
                elicitation_tokens::ROUTE,
                get(elicitation_tokens::open).with_state(tokens),
            )
            .layer(middleware::from_fn_with_state(http_state, http::handle))
            .into_make_service_with_connect_info::<RequestConnection>();

        let listener =
            FaultyListener::new(http, Arc::clone(&faults), Arc::clone(&activity)).map_err(what())?;
        tokio::spawn(async move { axum::serve(listener, app).await });

        let (end, mut ends) = mpsc::channel(1);
        let control = ControlSocket {
            faults,
            sessions,
            end,
            boot,
            port,
        };
        let socket = UnixListener::from_std(self.control).map_err(what())?;
        tokio::spawn(control.listen(socket));

        ready();
        Ok(tokio::select! {
            () = self.kill.cancelled() => ShutdownReason::Kill,
            end = ends.recv() => end.unwrap_or(ShutdownReason::Stop),
            () = activity.idle(self.idle_exit) => ShutdownReason::Idle,
        })
    }
}

/// Counts open connections and running work, for the idle exit.
pub(super) struct ActivityTracker {
    connections: AtomicUsize,
    busy: AtomicUsize,
    last_activity: Mutex<Instant>,
}

impl ActivityTracker {
    fn new() -> Self {
        Self {
            connections: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            last_activity: Mutex::new(Instant::now()),
        }
    }

    fn touch(&self) {
        *locked(&self.last_activity) = Instant::now();
    }

    /// Registers an open connection until the guard is dropped.
    pub(super) fn connection(activity: &Arc<Self>) -> ConnectionGuard {
        activity.connections.fetch_add(1, Ordering::SeqCst);
        activity.touch();
        ConnectionGuard(Arc::clone(activity))
    }

    /// Registers running work until the guard is dropped.
    pub(super) fn busy(activity: &Arc<Self>) -> BusyGuard {
        activity.busy.fetch_add(1, Ordering::SeqCst);
        BusyGuard(Arc::clone(activity))
    }

    /// Returns after `limit` without connections, received bytes or running work; never, without a limit.
    async fn idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        loop {
            let last = *locked(&self.last_activity);
            let is_quiet = self.busy.load(Ordering::SeqCst) == 0
                && self.connections.load(Ordering::SeqCst) == 0;
            let due = last + limit;
            if is_quiet && due <= Instant::now() {
                return;
            }
            // While busy there is no deadline yet: check again after the full limit.
            sleep_until(if is_quiet {
                due
            } else {
                Instant::now() + limit
            })
            .await;
        }
    }
}

/// Counts as an open connection until dropped.
pub(super) struct ConnectionGuard(Arc<ActivityTracker>);

impl ConnectionGuard {
    /// Records that bytes were received.
    pub(super) fn touch(&self) {
        self.0.touch();
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
        self.0.touch();
    }
}

/// Counts as running work until dropped.
pub(super) struct BusyGuard(Arc<ActivityTracker>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
        self.0.touch();
    }
}

/// Prepares a listener that was bound before the runtime existed; its address had to be known first.
pub(super) fn nonblocking(listener: StdListener) -> io::Result<StdListener> {
    listener.set_nonblocking(true)?;
    Ok(listener)
}
