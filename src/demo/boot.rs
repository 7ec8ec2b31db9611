//! One boot of the server: its tokio runtime, HTTP service and shutdown.
//!
//! However a boot ends, its runtime is dropped with all its tasks, finished or not. That matches `kill -9`: only what is
//! on disk is left for the next boot.

use std::{
    net::TcpListener as StdListener,
    os::unix::net::UnixListener as StdUnixListener,
    sync::{Arc, atomic::AtomicU8},
    time::Duration,
};

use axum::{Router, middleware};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;

use super::{
    checkpoints::Checkpoints,
    context::{LogSeverity, SharedState},
    control::ControlSocket,
    database::Database,
    events::{Events, RETRY},
    faults::Faults,
    handler::{Handler, run_task},
    http::{self, HttpState},
    runs::Runs,
    sessions::Sessions,
    tasks::TaskStore,
    tcp::{ConnectionHandle, FaultyListener},
};
use crate::demo::{
    activity::{ActivityTracker, ShutdownReason},
    error::DemoError,
    options::DemoOptions,
};

/// The interval of keep-alive comments on an idle SSE stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The sockets and settings of one boot.
pub(super) struct Boot {
    pub(super) options: DemoOptions,
    pub(super) http: StdListener,
    pub(super) control: StdUnixListener,
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
        let database = Arc::new(Database::open(&self.options.dir)?);
        let boot = database.boot;
        let faults = Arc::new(Faults::new());
        let activity = Arc::new(ActivityTracker::new());
        let events = Arc::new(Events::open(
            Arc::clone(&database),
            Arc::clone(&faults),
            self.options.cross_stream_replay,
        )?);
        let checkpoints = Arc::new(Checkpoints::open(Arc::clone(&database))?);
        let tasks = Arc::new(TaskStore::open(database, Arc::clone(&activity))?);
        let what = || DemoError::io("use the server's sockets");
        let http = TcpListener::from_std(self.http).map_err(what())?;
        let port = http.local_addr().map_err(what())?.port();
        let runs = Arc::new(Runs::new(checkpoints, Arc::clone(&activity)));
        let sessions = Arc::new(Sessions::new(Arc::clone(&events)));
        let shared = Arc::new(SharedState {
            events: Arc::clone(&events),
            runs,
            tasks,
            activity: Arc::clone(&activity),
        });
        for task in shared.tasks.unfinished()? {
            run_task(&shared, &task);
        }

        let state = HttpState {
            origins: http::allowed_origins(port).into(),
            events,
            sessions: Arc::clone(&sessions),
            faults: Arc::clone(&faults),
        };
        let app =
            router(shared, state, port).into_make_service_with_connect_info::<ConnectionHandle>();
        let listener =
            FaultyListener::new(http, Arc::clone(&faults), Arc::clone(&activity)).map_err(what())?;
        tokio::spawn(async move { axum::serve(listener, app).await });

        let (end, mut ends) = mpsc::channel(1);
        let control = ControlSocket {
            faults,
            sessions,
            activity: Arc::clone(&activity),
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
            () = activity.idle(self.options.idle_exit) => ShutdownReason::Idle,
        })
    }
}

fn router(shared: Arc<SharedState>, state: HttpState, port: u16) -> Router {
    let service = StreamableHttpService::new(
        move || {
            let shared = Arc::clone(&shared);
            Ok(Handler {
                shared,
                min_severity: Arc::new(AtomicU8::new(LogSeverity::Info as u8)),
            })
        },
        Arc::clone(&state.sessions),
        StreamableHttpServerConfig::default()
            .with_sse_retry(Some(RETRY))
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            // Modern era only: plain JSON if the response is the first message, else an SSE stream.
            .with_json_response(true)
            .with_allowed_origins(http::allowed_origins(port))
            .enforce_origin_validation(),
    );
    Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn_with_state(state, http::handle))
}
