//! An open session, as a command uses it: requests and responses, events, signals and an orderly exit.
//!
//! Must not know what commands print. Invariant: a driver quits only when that ends no call that somebody waits for, or
//! when the user insists with a second Ctrl-C.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    cli::{
        CliError, CliResult, Context,
        args::DEMO_SESSION,
        code,
        environment::{block_on, process_guard, random_bits},
    },
    config::{self, Config},
    domain::{
        CutReason, Notice, NoticeLevel, ServerConfigs, ServerName, ServerRef, ServerView,
        SessionEvent, SessionOutcome, SessionRequest, SessionRequestId, SessionResponse, TaskId,
        TaskView, text,
    },
    engine::{Inherited, Options, ProcessRole, Session, SessionPurpose, Subscription, ask_driver},
    term::{interruptible::end_writes_on_signals, signals::EndingSignals},
};

/// The number of a request to try again, which no other request gets.
pub(super) const RETRY: SessionRequestId = SessionRequestId::MAX;

/// How long a command is silent before it says why.
const SILENT_WAIT: Duration = Duration::from_secs(1);

/// An equal notice within this time is the same one.
const SAME_NOTICE: Duration = Duration::from_secs(1);

const NOT_DRIVEN: &str = "no process is running this session's calls; showing saved data";

/// What a command reacts to.
#[derive(Debug)]
pub(super) enum LiveEvent {
    /// An event of the engine. Its views are also kept in [`LiveSession::tasks`] and [`LiveSession::servers`].
    Session(SessionEvent),
    /// Ctrl-C.
    Interrupted,
    /// A signal that leaves no choice, e.g. SIGTERM or SIGHUP.
    Terminated,
}

pub(super) struct LiveSession {
    session: Session,
    pub(super) subscription: Subscription,
    queue: VecDeque<SessionEvent>,
    /// A signal that [`Self::is_ready`] found.
    signal: Option<LiveEvent>,
    /// The newest view of each task.
    pub(super) tasks: BTreeMap<TaskId, Arc<TaskView>>,
    /// The tasks that were deleted meanwhile.
    pub(super) erased: BTreeSet<TaskId>,
    /// The newest view of each server.
    pub(super) servers: BTreeMap<ServerName, Arc<ServerView>>,
    /// Whether this process drives the session.
    pub(super) is_driver: bool,
    /// The newest notice: a session may report the same thing to all its clients and to this one.
    last_notice: Option<Notice>,
    /// Whether [`Self::warn_of_loss`] has printed its warning.
    has_warned: bool,
    interrupt: Signal,
    terminations: EndingSignals,
}

/// The ids, separated by commas.
pub(super) fn join_ids(lost: &[(TaskId, CutReason)]) -> String {
    let ids: Vec<&str> = lost.iter().map(|(id, _)| id.as_str()).collect();
    ids.join(", ")
}

/// What a session of this process opens with, unless the caller changes it.
pub(super) fn engine_options(
    context: &Context<'_>,
    config: &Config,
    servers: Vec<ServerRef>,
    server_configs: ServerConfigs,
    role: ProcessRole,
) -> Options {
    Options {
        paths: context.paths.clone(),
        servers,
        config: ServerConfigs {
            insecure_http: context.global.insecure_http,
            ..server_configs
        },
        read_config: config::read_server_configs,
        role,
        purpose: SessionPurpose::Command,
        logins: context.logins.clone(),
        traces: context.global.trace,
        protocol: context.global.protocol.0,
        seed: random_bits(),
        clock: context.clock,
        hook: config.hook(crate::cli::json::hook_task),
        guard: process_guard(),
        args: Vec::new(),
        inherited: Inherited::default(),
    }
}

impl LiveSession {
    /// Opens the session. A failure arrives as [`SessionEvent::Failed`].
    pub(super) fn open(context: &mut Context<'_>, servers: Vec<ServerRef>) -> CliResult<Self> {
        let role = context.role()?;
        let purpose = SessionPurpose::Command;
        Self::open_as(context, servers, role, Inherited::default(), purpose)
    }

    /// As [`Self::open`], in a role other than the one that the options say, and with what a replaced program left.
    pub(super) fn open_as(
        context: &mut Context<'_>,
        servers: Vec<ServerRef>,
        role: ProcessRole,
        inherited: Inherited,
        purpose: SessionPurpose,
    ) -> CliResult<Self> {
        let signal_error = CliError::bug("listen for signals");
        end_writes_on_signals().map_err(signal_error)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(signal_error)?;
        let terminations = EndingSignals::catch().map_err(signal_error)?;
        let config = context.config()?;
        let server_configs = config::server_configs(config.servers.clone());
        let options = engine_options(context, config, servers, server_configs, role);
        context.report_config_notices();
        let session = Session::open(Options {
            purpose,
            args: std::env::args_os().skip(1).collect(),
            inherited,
            ..options
        });
        let subscription = session.subscribe();
        Ok(Self {
            session,
            subscription,
            queue: VecDeque::new(),
            signal: None,
            tasks: BTreeMap::new(),
            erased: BTreeSet::new(),
            servers: BTreeMap::new(),
            is_driver: false,
            last_notice: None,
            has_warned: false,
            interrupt,
            terminations,
        })
    }

    /// The next event. Prints notices; `Trouble` becomes an error.
    pub(super) async fn next(&mut self, context: &mut Context<'_>) -> CliResult<LiveEvent> {
        loop {
            // Signals go first, however many events are queued.
            self.is_ready().await;
            if let Some(signal) = self.signal.take() {
                return Ok(signal);
            }
            if let Some(event) = self.queue.pop_front() {
                match &event {
                    SessionEvent::Task(view) => {
                        self.erased.remove(&view.task.id);
                        self.tasks.insert(view.task.id.clone(), Arc::clone(view));
                    }
                    SessionEvent::Erased(id) => {
                        self.tasks.remove(id);
                        self.erased.insert(id.clone());
                    }
                    SessionEvent::Driver(driver) => self.is_driver = driver.is_us,
                    SessionEvent::Notice(notice) => {
                        let is_same = |last: &Notice| {
                            last.text == notice.text && notice.at.since(last.at) < SAME_NOTICE
                        };
                        if !self.last_notice.as_ref().is_some_and(is_same) {
                            print_notice(context, notice);
                        }
                        self.last_notice = Some(notice.clone());
                    }
                    SessionEvent::Failed { message, exit } => {
                        return Err(CliError::new(*exit, message.clone()));
                    }
                    SessionEvent::Server(view) => {
                        self.servers.insert(view.name.clone(), Arc::clone(view));
                    }
                    SessionEvent::Undriven if context.global.readonly => {
                        context.warn(NOT_DRIVEN);
                    }
                    SessionEvent::Undriven
                    | SessionEvent::Response { .. }
                    | SessionEvent::Notification { .. }
                    | SessionEvent::RootsWanted { .. } => {}
                }
                return Ok(LiveEvent::Session(event));
            }
            let signal = tokio::select! {
                biased;
                _ = self.interrupt.recv() => LiveEvent::Interrupted,
                _ = self.terminations.next() => LiveEvent::Terminated,
                () = self.subscription.changed() => continue,
            };
            return Ok(signal);
        }
    }

    /// The newest view of a server, about the calls of this command. It comes before the list of tools.
    pub(super) fn server(&self, context: &Context<'_>, name: &ServerName) -> Option<ServerView> {
        let mut view = ServerView::clone(self.servers.get(name)?);
        view.capabilities = view.capabilities.in_version(context.global.protocol.0);
        Some(view)
    }

    /// Forgets a task that this process needs no more.
    pub(super) fn forget(&mut self, id: &TaskId) {
        self.tasks.remove(id);
        self.subscription.forget(id);
    }

    /// Whether [`Self::next`] would return without waiting.
    pub(super) async fn is_ready(&mut self) -> bool {
        if self.queue.is_empty() {
            self.queue.extend(self.subscription.take());
        }
        // The runtime delivers signals only when it gets a turn.
        tokio::task::yield_now().await;
        self.signal = self.signal.take().or_else(|| self.pending_signal());
        self.signal.is_some() || !self.queue.is_empty()
    }

    /// A signal that has arrived, without waiting for one.
    fn pending_signal(&mut self) -> Option<LiveEvent> {
        let termination = || self.terminations.next().now_or_never();
        if std::iter::from_fn(termination).count() > 0 {
            return Some(LiveEvent::Terminated);
        }
        let interrupted = self.interrupt.recv().now_or_never();
        interrupted.map(|_| LiveEvent::Interrupted)
    }

    /// Sends a request; [`Self::next`] brings its response, with this number. The caller chooses all numbers.
    pub(super) fn send_as(&self, number: SessionRequestId, request: SessionRequest) {
        self.session.ask_as(&self.subscription, number, request);
    }

    /// Sends a request and waits for the response.
    pub(super) async fn request(
        &mut self,
        context: &mut Context<'_>,
        request: SessionRequest,
    ) -> CliResult<SessionResponse> {
        Ok(self.try_request(context, request).await??)
    }

    /// As [`Self::request`], with the engine's refusal as a value of its own.
    pub(super) async fn try_request(
        &mut self,
        context: &mut Context<'_>,
        request: SessionRequest,
    ) -> CliResult<SessionOutcome> {
        let request_id = self.session.ask(&self.subscription, request);
        loop {
            let Ok(event) = tokio::time::timeout(SILENT_WAIT, self.next(context)).await else {
                let waiting = "waiting for a response; press Ctrl-C to stop";
                context.terminal.bar(waiting);
                continue;
            };
            context.terminal.clear_bar();
            match event? {
                LiveEvent::Session(SessionEvent::Response { request, outcome })
                    if request == request_id =>
                {
                    return Ok(outcome);
                }
                LiveEvent::Session(_) => {}
                LiveEvent::Interrupted | LiveEvent::Terminated => {
                    let message = "interrupted before the response; the request may still be carried out: check with `longhaul ls`";
                    return Err(CliError::new(code::INTERRUPTED, message));
                }
            }
        }
    }

    /// Takes in events until `is_done`, or until `within` has passed; returns whether the user interrupted that.
    pub(super) async fn wait_until(
        &mut self,
        context: &mut Context<'_>,
        within: Duration,
        is_done: impl Fn(&Self) -> bool,
    ) -> CliResult<bool> {
        let until = tokio::time::Instant::now() + within;
        while !is_done(self) {
            match tokio::time::timeout_at(until, self.next(context)).await {
                Ok(Ok(LiveEvent::Session(_))) => {}
                Ok(Ok(LiveEvent::Interrupted | LiveEvent::Terminated)) => return Ok(true),
                Ok(Err(fail)) => return Err(fail),
                Err(_) => break,
            }
        }
        Ok(false)
    }

    /// Closes the session once that ends no call. Tasks in `ours` do not count; the user knows what leaving does to them.
    pub(super) async fn leave(mut self, context: &mut Context<'_>, ours: &[TaskId]) {
        let mut silent_until = Some(tokio::time::Instant::now() + SILENT_WAIT);
        while let Some(reason) = self.reason_to_stay(ours) {
            let next = self.next(context);
            let event = match silent_until {
                Some(until) => tokio::time::timeout_at(until, next).await,
                None => Ok(next.await),
            };
            match event {
                Ok(Ok(LiveEvent::Session(_))) => {}
                Ok(Ok(LiveEvent::Interrupted | LiveEvent::Terminated) | Err(_)) => break,
                Err(_) => {
                    context.warn(format!("{reason}; press Ctrl-C to quit anyway"));
                    silent_until = None;
                }
            }
        }
        self.session.close();
    }

    /// As [`Self::leave`], but closes the session at once if its work failed.
    pub(super) async fn end<T>(
        self,
        context: &mut Context<'_>,
        ours: &[TaskId],
        outcome: CliResult<T>,
    ) -> CliResult<T> {
        match &outcome {
            Ok(_) => self.leave(context, ours).await,
            Err(_) => self.close(),
        }
        outcome
    }

    /// Closes the session at once, even if that ends calls.
    pub(super) fn close(self) {
        self.session.close();
    }

    /// Why this driver should not leave yet.
    fn reason_to_stay(&self, ours: &[TaskId]) -> Option<String> {
        let mut lost = self.lost_by_quitting();
        lost.retain(|(id, _)| !ours.contains(id));
        let (id, why) = lost.first()?;
        Some(format!(
            "staying, because quitting would lose {} that this process is running ({id}: {})",
            text::plural(lost.len(), "call"),
            why.message()
        ))
    }

    /// The calls that quitting would lose, and why; always empty if another process drives.
    pub(super) fn lost_by_quitting(&self) -> Vec<(TaskId, CutReason)> {
        let views = self.tasks.values().filter(|_| self.is_driver);
        views
            .filter_map(|view| {
                let if_cut = view.if_cut.as_ref().filter(|if_cut| if_cut.is_lost())?;
                Some((view.task.id.clone(), if_cut.reason.clone()))
            })
            .collect()
    }

    /// On the first Ctrl-C, warns of the calls that quitting would lose, `ours` first. Returns whether it printed a warning.
    pub(super) fn warn_of_loss(
        &mut self,
        context: &mut Context<'_>,
        ours: Option<&TaskId>,
    ) -> bool {
        let mut lost = self.lost_by_quitting();
        lost.sort_by_key(|(id, _)| Some(id) != ours);
        let Some((_, why)) = lost.first().filter(|_| !self.has_warned) else {
            return false;
        };
        self.has_warned = true;
        let message = format!(
            "quitting would lose {}: {}. Press Ctrl-C again to quit",
            join_ids(&lost),
            why.message()
        );
        context.report(&message);
        true
    }
}

fn print_notice(context: &mut Context<'_>, notice: &Notice) {
    let message = &notice.text;
    if notice.level == NoticeLevel::Info {
        let line = format!("longhaul: {message}");
        return context.info(&line);
    }
    context.warn(message);
}

/// Opens the session for some work, and leaves it afterwards: at once if the work failed.
pub(super) fn in_session<T>(
    context: &mut Context<'_>,
    servers: Vec<ServerRef>,
    work: impl AsyncFnOnce(&mut Context<'_>, &mut LiveSession) -> CliResult<T>,
) -> CliResult<T> {
    block_on(async {
        let mut live = LiveSession::open(context, servers)?;
        let outcome = work(context, &mut live).await;
        live.end(context, &[], outcome).await
    })
}

/// Sends the same request for each task.
pub(super) fn request_each(
    context: &mut Context<'_>,
    tasks: &[crate::domain::Task],
    request_for: impl Fn(TaskId) -> SessionRequest,
) -> CliResult<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    in_session(context, Vec::new(), async |context, live| {
        for task in tasks {
            live.request(context, request_for(task.id.clone())).await?;
        }
        Ok(())
    })
}

/// How long a change may take to reach the session file; a driver saves four times a second.
pub(super) const SAVED_WITHIN: Duration = Duration::from_secs(5);

/// Sends the new configuration to the drivers of all sessions.
pub(super) fn notify_drivers(context: &Context<'_>) {
    // The next command that reads the configuration reports why it can't be read.
    let Ok(config) = config::read(config::path().as_deref()) else {
        return;
    };
    let mut sessions = context.paths.all().unwrap_or_default();
    // The demo ignores the configuration.
    sessions.retain(|paths| cfg!(not(feature = "demo")) || paths.session != DEMO_SESSION);
    let server_configs = config::server_configs(config.servers);
    let sent = block_on(async {
        let requests = sessions
            .iter()
            .map(|paths| ask_driver(paths, SessionRequest::Configure(server_configs.clone())));
        futures_util::future::join_all(requests).await;
        Ok(())
    });
    if let Err(CliError::Message { text: words, .. }) = sent {
        tracing::warn!(%words, "could not send the configuration to the running sessions");
    }
}
