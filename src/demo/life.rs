//! One boot of the server: everything that dies together.
//!
//! Owns the runtime of a boot, its HTTP service and its end. Whatever ends a boot, its runtime is dropped with all that
//! is in it, half-done or not, as `kill -9` would: only what is on disk is there at the next boot.

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
    call::Shared,
    checkpoints::Checkpoints,
    control::Control,
    disk::{Disk, locked, now_ms},
    door::{Door, Line},
    events::{Events, RETRY},
    faults::Faults,
    front::{self, Front},
    handler::{Handler, run_task},
    runs::Runs,
    sessions::Sessions,
    tasks::Tasks,
    tickets::{self, Tickets},
};

/// Silence after which a comment is sent on an open stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Why a boot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Come up again.
    Restart,
    /// Somebody asked for the end.
    Stop,
    /// Nothing ran and nobody was there.
    Idle,
    /// As `kill -9`.
    Kill,
}

/// What a boot is made of.
pub(super) struct Boot {
    pub(super) dir: PathBuf,
    pub(super) http: StdListener,
    pub(super) control: StdUnixListener,
    pub(super) cross_stream_replay: bool,
    pub(super) idle_exit: Option<Duration>,
    pub(super) kill: CancellationToken,
}

impl Boot {
    /// Runs until the boot ends; `ready` is called once requests are answered.
    pub(super) fn run(self, ready: impl FnOnce()) -> Result<End, DemoError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(DemoError::io("start a runtime"))?;
        // Dropping the runtime is what kills: every job in it goes at the point where it stands.
        runtime.block_on(self.live(ready))
    }

    async fn live(self, ready: impl FnOnce()) -> Result<End, DemoError> {
        let disk = Arc::new(Disk::open(&self.dir)?);
        let boot = disk.boot;
        let faults = Arc::new(Faults::new());
        let presence = Arc::new(Presence::new());
        let events = Arc::new(Events::open(
            Arc::clone(&disk),
            Arc::clone(&faults),
            self.cross_stream_replay,
        )?);
        let checkpoints = Arc::new(Checkpoints::open(Arc::clone(&disk))?);
        let tasks = Arc::new(Tasks::open(Arc::clone(&disk), Arc::clone(&presence))?);
        let what = || DemoError::io("use the server's sockets");
        let http = TcpListener::from_std(self.http).map_err(what())?;
        let port = http.local_addr().map_err(what())?.port();
        let tickets = Arc::new(Tickets::new(disk, port));
        let runs = Arc::new(Runs::new(checkpoints, Arc::clone(&presence)));
        let sessions = Arc::new(Sessions::new(Arc::clone(&events)));
        let shared = Arc::new(Shared {
            events: Arc::clone(&events),
            runs,
            tasks,
            tickets: Arc::clone(&tickets),
            presence: Arc::clone(&presence),
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
                // The modern era only: JSON where the answer is the first that is said, a stream where it is not.
                .with_json_response(true)
                .with_allowed_origins(front::own_origins(port))
                .enforce_origin_validation(),
        );
        let front = Front {
            origins: front::own_origins(port).into(),
            events,
            sessions: Arc::clone(&sessions),
            faults: Arc::clone(&faults),
        };
        let app = Router::new()
            .route_service("/mcp", service)
            .route(tickets::ROUTE, get(tickets::open).with_state(tickets))
            .layer(middleware::from_fn_with_state(front, front::answer))
            .into_make_service_with_connect_info::<Line>();

        let door = Door::new(http, Arc::clone(&faults), Arc::clone(&presence)).map_err(what())?;
        tokio::spawn(async move { axum::serve(door, app).await });

        let (end, mut ends) = mpsc::channel(1);
        let control = Control {
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
            () = self.kill.cancelled() => End::Kill,
            end = ends.recv() => end.unwrap_or(End::Stop),
            () = presence.idle(self.idle_exit) => End::Idle,
        })
    }
}

/// Who is there, and whether anything runs.
pub(super) struct Presence {
    connections: AtomicUsize,
    busy: AtomicUsize,
    last: Mutex<Instant>,
}

impl Presence {
    fn new() -> Self {
        Self {
            connections: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
        }
    }

    fn touch(&self) {
        *locked(&self.last) = Instant::now();
    }

    /// Somebody has connected.
    pub(super) fn connection(presence: &Arc<Self>) -> Present {
        presence.connections.fetch_add(1, Ordering::SeqCst);
        presence.touch();
        Present(Arc::clone(presence))
    }

    /// Something runs.
    pub(super) fn busy(presence: &Arc<Self>) -> Busy {
        presence.busy.fetch_add(1, Ordering::SeqCst);
        Busy(Arc::clone(presence))
    }

    /// Returns once nothing has run and nobody has been there for `limit`; never without a limit.
    async fn idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        loop {
            let last = *locked(&self.last);
            let is_quiet = self.busy.load(Ordering::SeqCst) == 0
                && self.connections.load(Ordering::SeqCst) == 0;
            let due = last + limit;
            if is_quiet && due <= Instant::now() {
                return;
            }
            // While somebody is there the end is not in sight: look again after a full length.
            sleep_until(if is_quiet {
                due
            } else {
                Instant::now() + limit
            })
            .await;
        }
    }
}

/// An open connection.
pub(super) struct Present(Arc<Presence>);

impl Present {
    /// Bytes came from the other side.
    pub(super) fn spoke(&self) {
        self.0.touch();
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
        self.0.touch();
    }
}

/// A call or a loop that runs.
pub(super) struct Busy(Arc<Presence>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
        self.0.touch();
    }
}

/// A listener for the runtime: bound before the boot, so that its address is known first.
pub(super) fn nonblocking(listener: StdListener) -> io::Result<StdListener> {
    listener.set_nonblocking(true)?;
    Ok(listener)
}
