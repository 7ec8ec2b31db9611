//! The machine itself: inputs in, outputs out, one server.

use core::time::Duration;

use super::{
    active_task::{ActiveTask, Tasks},
    connection::{ConnectionState, LegacySse, McpSession},
    credentials::Credentials,
    hosts::Hosts,
    in_flight::{InFlightRequests, RequestKind},
    io::{ExchangeId, Input, Output},
    negotiation::{Choice, Negotiation},
    pending::Unsaved,
    queued_requests::QueuedRequest,
    reachability::Reachability,
    replies::Replies,
    saver::Saver,
    standalone::Standalone,
    stream_state::StreamState,
    subscription::TaskSubscription,
    task_index::TaskIndex,
};
use crate::domain::{
    ConfigureError, ControlKind, IfCut, LinkRecord, ModernSupport, Mono, NewCall, Program,
    ProtocolVersion, RequestError, ServerCapabilities, SessionRequestId, Stamp, Status, Task,
    TaskId, TaskView,
};

mod adopt;
mod answers;
mod arrivals;
mod attribution;
mod calls;
mod checkpoints;
mod configure;
mod connection;
mod controls;
mod forward;
mod hosts;
mod inherit;
mod keep_alive;
mod legacy_sse;
mod limits;
mod negotiation;
mod question_answers;
mod questions;
mod refused_streams;
mod replay_gaps;
mod replies;
mod requests;
mod restore;
mod resumes;
mod saves;
mod schedule;
mod sending;
mod session_check;
mod short_requests;
mod silence;
mod standalone;
mod streams;
mod subscription;
mod tasks;
mod tool_list;
mod versions;
mod views;

/// The wall clock running ahead of the monotonic one by this much means that the machine slept.
const SLEPT: Duration = Duration::from_secs(10);
/// What the user and the configuration say about the server.
#[derive(Debug, Default)]
struct LinkConfig {
    choice: Choice,
    /// The configuration file that no longer names the server.
    gone_from: Option<String>,
    /// Why a part of the configuration has not been applied yet.
    waits: Option<ConfigureError>,
    /// How long its program stays without anything to do, if not for the usual time.
    stop_when_idle: Option<Duration>,
    /// How its program is to be started.
    program: Option<Program>,
    /// How the running program was started. If this has changed since, the program is ended once nothing runs there.
    started_with: Option<Program>,
}

/// When the tasks are gone through.
#[derive(Debug, Default)]
struct Schedule {
    wake: Option<Mono>,
    /// When all tasks were last gone through.
    advanced_at: Mono,
    /// How many tasks that was, over all times.
    steps: u64,
    /// Tasks that were started since then.
    started: Vec<TaskId>,
    /// Since when the server's program has had nothing to do.
    program_idle_since: Option<Mono>,
    /// Whether something has happened that other parts have to look at.
    needs_advance: bool,
}

/// How this process stops driving.
#[derive(Debug, Default)]
struct Exit {
    is_leaving: bool,
    /// Something that was removed, given up or handed over may still run in the server's session: don't end it.
    keeps_session: bool,
}

/// What user interfaces have not been shown yet.
#[derive(Debug, Default)]
struct Published {
    is_server_stale: bool,
    tasks: Vec<TaskView>,
    erased: Vec<TaskId>,
}

/// What the message that is being read came on.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    /// The server session of its exchange: the ids of the server's requests are unique within one session only.
    session_number: u64,
    is_modern: bool,
    /// The request of a host that it responds to.
    forward: Option<SessionRequestId>,
}

/// The machine of one server's link. Feed it with [`Link::handle`], carry out what [`Link::take_outputs`] holds.
#[derive(Debug)]
pub struct Link {
    record: LinkRecord,
    rng: fastrand::Rng,
    now: Stamp,
    connection: ConnectionState,
    session: McpSession,
    config: LinkConfig,
    schedule: Schedule,
    exit: Exit,
    published: Published,
    /// What is believed and found out about the server's era.
    negotiation: Negotiation,
    legacy_sse: Option<LegacySse>,
    standalone: Standalone,
    replies: Replies,
    /// The subscription of the modern era.
    subscription: TaskSubscription,
    queued_requests: Vec<QueuedRequest>,
    /// Second readings that brought nothing that was missing; `None` once one did.
    useless_rereads: Option<u32>,
    reachability: Reachability,
    tasks: Tasks,
    index: TaskIndex,
    in_flight: InFlightRequests,
    saver: Saver,
    /// The exchange that is being read.
    reading: Reading,
    credentials: Credentials,
    hosts: Hosts,
    out: Vec<Output>,
}

impl Link {
    /// A machine for the server of `record`. `seed` feeds the jitter and the ids, so that a run can be repeated.
    pub fn new(mut record: LinkRecord, choice: Choice, seed: u64, now: Stamp) -> Self {
        // There the connection is the session, and it ended with the process that had it.
        record.is_initialized &=
            record.version != Some(ProtocolVersion::V20241105) && !record.is_process();
        // Saved before both eras were asked for: what else the server speaks is found out with the next call.
        record.is_initialized &= record.is_stateful() || record.modern != ModernSupport::Unknown;
        let mut rng = fastrand::Rng::with_seed(seed);
        let prefix = format!("{:08x}", rng.u32(..));
        let connection = ConnectionState::of_session(record.is_initialized);
        // A server that was never spoken to is not on disk: its URL goes there with the first intent, or a task that
        // was asked for and not sent would come back without a server to send it to.
        let is_new = record.session_number == 0;
        let negotiation = Negotiation::new(choice, &record);
        Self {
            record,
            rng,
            now,
            connection,
            session: McpSession::default(),
            config: LinkConfig {
                choice,
                ..LinkConfig::default()
            },
            schedule: Schedule::default(),
            exit: Exit::default(),
            published: Published {
                is_server_stale: true,
                ..Published::default()
            },
            negotiation,
            legacy_sse: None,
            standalone: Standalone::new(now.mono),
            replies: Replies::default(),
            subscription: TaskSubscription::default(),
            queued_requests: Vec::new(),
            useless_rereads: Some(0),
            reachability: Reachability::new(now),
            tasks: Tasks::new(),
            index: TaskIndex::default(),
            in_flight: InFlightRequests::new(prefix, now.mono),
            saver: Saver::new(is_new),
            reading: Reading::default(),
            credentials: Credentials::default(),
            hosts: Hosts::default(),
            out: Vec::new(),
        }
    }

    /// Counts what waits to be saved together with the other links that are given the same.
    #[must_use]
    pub fn sharing(mut self, unsaved: Unsaved) -> Self {
        self.saver.unsaved = unsaved;
        self
    }

    /// Whether something here has not come to its end.
    pub fn has_unsettled(&self) -> bool {
        self.tasks.values().any(|active| !active.is_settled())
    }

    /// Whether an unsettled task depends on how the server is reached. One that was never sent does not, nor does an
    /// unknown one that nothing can find again.
    pub fn has_sent(&self) -> bool {
        let is_independent = |(id, active): (&TaskId, &ActiveTask)| {
            let is_unknown = matches!(active.task.status, Status::Unknown(_));
            let is_unsent = active.has_not_run() && active.is_active();
            let is_beyond_recovery = is_unknown
                && active.control.is_none()
                && active.follow.is_none()
                && self.control_refusal(id, ControlKind::Resuming).is_some();
            active.stream == StreamState::None && (is_unsent || is_beyond_recovery)
        };
        let mut open = self.tasks.iter().filter(|(_, active)| !active.is_settled());
        !open.all(is_independent)
    }

    /// Whether nothing depends on how the server is reached.
    pub fn may_move(&self) -> bool {
        !self.has_sent() && !self.in_flight.has(RequestKind::is_awaited)
    }

    /// Takes one input in; what follows from it waits in [`Self::take_outputs`].
    pub fn handle(&mut self, now: Stamp, input: Input) {
        let has_slept =
            now.wall.since(self.now.wall) > now.mono.since(self.now.mono).saturating_add(SLEPT);
        self.now = now;
        if has_slept {
            self.woke_up();
        }
        match input {
            Input::Restored { tasks, unfollowed } => tasks
                .into_iter()
                .for_each(|(task, ids)| self.restore(task, ids, unfollowed)),
            Input::Ask { ask, what } => self.asked(ask, what),
            Input::Arrived { exchange, arrival } => self.arrived(exchange, arrival),
            Input::Timer => self.schedule.needs_advance = true,
            Input::Saved(token) => self.saved(token),
            Input::SaveFailed { token, why } => self.save_failed(token, why),
            Input::Closed => self.connections_closed(),
            Input::SaveAll => {
                self.save_all(now);
                self.schedule.needs_advance = true;
            }
            Input::Leave => {
                self.save_all(now);
                self.saver.hurry(now.mono);
                (self.exit.is_leaving, self.schedule.needs_advance) = (true, true);
                self.refuse_queued(&RequestError::Unreachable("longhaul is exiting".to_owned()));
            }
        }
        // The hot path ends here: a step of progress changes nothing that has to be looked at before the next flush.
        let is_due = self.schedule.needs_advance || self.due_at().is_some_and(|at| now.mono >= at);
        if !is_due {
            return;
        }
        if self.exit.is_leaving || now.mono >= self.may_advance_at() {
            self.advance();
        } else {
            self.do_urgent();
        }
    }

    /// With many tasks, a new call and what a promise depends on do not wait until all of them are looked through.
    fn do_urgent(&mut self) {
        if !self.can_read() {
            return;
        }
        for id in std::mem::take(&mut self.schedule.started) {
            self.step(&id);
        }
        if self.saver.is_due(self.now.mono) {
            self.flush();
        }
    }

    /// What is to be done, in this order; taking it empties it.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// How many tasks were looked at over all times, to measure what many of them cost.
    pub fn steps(&self) -> u64 {
        self.schedule.steps
    }

    /// What is known of the server.
    pub fn record(&self) -> &LinkRecord {
        &self.record
    }

    /// Whether nothing is open, unsaved or waited for, so that the driver may exit.
    pub fn is_at_rest(&self) -> bool {
        !self.saver.is_behind()
            && !self
                .in_flight
                .has(|kind| matches!(kind, RequestKind::TerminateSession | RequestKind::Cancel(_)))
    }

    /// Whether a call is out whose first event id may still come; exiting before it would lose the call.
    pub fn awaits_first_id(&self) -> bool {
        let is_lost = |active: &ActiveTask| {
            !active.is_modern()
                && self.record.capabilities().gives_ids_of(&active.task.tool) != Some(false)
                && IfCut::of_task(&active.task).is_some_and(|if_cut| if_cut.is_lost())
        };
        self.awaits_task_id() || self.record.is_stateful() && self.tasks.values().any(is_lost)
    }

    /// The task ids that this machine holds.
    pub fn holds(&self, id: &TaskId) -> bool {
        self.tasks.contains_key(id)
    }

    /// Whether the call of a task is not saved yet.
    pub fn is_starting(&self, id: &TaskId) -> bool {
        self.tasks.get(id).is_some_and(|it| it.intent.is_some())
    }

    /// A task that this machine holds.
    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.tasks.get(id).map(|active| &active.task)
    }

    /// The task that an exchange is for, where it is for one alone.
    pub fn task_of(&self, exchange: ExchangeId) -> Option<&TaskId> {
        match &self.in_flight.get(exchange)?.kind {
            RequestKind::Stream(id)
            | RequestKind::Reread(id)
            | RequestKind::Look(id)
            | RequestKind::Pause(id)
            | RequestKind::Cancel(id)
            | RequestKind::Poll(id)
            | RequestKind::Fetch(id)
            | RequestKind::Update(id, _)
            | RequestKind::Reply(Some((id, _)))
            | RequestKind::Ping { verifies: Some(id) } => Some(id),
            _ => None,
        }
    }

    /// The calls whose answer is awaited, by the ids of their requests, which are their progress tokens too.
    pub fn calls(&self) -> impl Iterator<Item = (&String, &TaskId)> {
        let calls = self.index.by_request.iter();
        calls.filter(|(request_id, _)| self.call(request_id).is_some())
    }

    /// The task whose call waits for the response to this request, until the server's task ends where it made one.
    fn call(&self, request_id: &str) -> Option<&TaskId> {
        let id = self.index.by_request.get(request_id)?;
        let active = self.tasks.get(id)?;
        (active.task.is_open() && active.request_id() == Some(request_id)).then_some(id)
    }

    /// The task here that a call would repeat: the same id, or the same `--once` key.
    pub fn started_before(&self, call: &NewCall) -> Option<TaskId> {
        self.tasks
            .values()
            .map(|active| &active.task)
            .find(|task| {
                task.id == call.id || call.once.is_some() && task.options.once == call.once
            })
            .map(|task| task.id.clone())
    }

    /// The session file knows these tasks of the server already, each with our task of it unless that is forgotten: what
    /// is adopted next is none of them.
    pub fn knows(&mut self, tasks: impl IntoIterator<Item = (String, Option<TaskId>)>) {
        self.index.on_file.extend(tasks);
    }

    /// The revision of the session, or the modern one where that is all that is spoken.
    fn session_version(&self) -> ProtocolVersion {
        let newest_stateful = ProtocolVersion::V20251125;
        let version = self.record.version.or(self.config.choice.version);
        version.unwrap_or(newest_stateful)
    }

    /// What a call can stand on here, as the user chose.
    fn capabilities(&self, task: Option<&Task>) -> ServerCapabilities {
        let asked = task.and_then(|task| task.options.protocol);
        let asked = asked.or(self.config.choice.version);
        self.record.capabilities().in_version(asked)
    }

    /// Everything that time or a change of state makes due.
    fn advance(&mut self) {
        self.schedule.advanced_at = self.now.mono;
        self.schedule.started.clear();
        // A step can make another one due (a handshake done, a list read); it never takes many.
        for _ in 0..8 {
            self.schedule.needs_advance = false;
            if !self.can_read() {
                break;
            }
            self.expire_in_flight();
            self.tend_connection();
            // Before the calls go out, because they may change a list.
            self.step_listening();
            self.tend_queued();
            // Before what tasks repeat, which could use up the budget.
            self.step_session_check();
            let now = self.now.mono;
            self.schedule.steps += u64::try_from(self.tasks.len()).unwrap_or(0);
            let is_busy = |active: &ActiveTask| !active.is_parked() && !Self::is_still(active, now);
            for id in self.tasks_where(is_busy) {
                self.step(&id);
            }
            self.step_polls();
            self.step_standalone();
            self.expire_host_questions();
            self.tell_of_lists();
            if self.hosts.are_undeclared {
                self.redeclare();
            }
            self.keep_alive();
            self.end_idle_program();
            self.terminate_session();
            if !self.schedule.needs_advance {
                break;
            }
        }
        if !self.saver.is_behind() && self.is_dirty() {
            self.saver.touch(self.now.mono);
        }
        if self.saver.is_due(self.now.mono) {
            self.flush();
        }
        self.publish();
        self.schedule.wake = match self.saver.backpressured_since {
            None => self.next_deadline(),
            Some(_) => None,
        };
    }

    /// The tasks that match, in the order of their ids.
    fn tasks_where(&self, is_it: impl Fn(&ActiveTask) -> bool) -> Vec<TaskId> {
        let found = self.tasks.iter().filter(|(_, active)| is_it(active));
        found.map(|(id, _)| id.clone()).collect()
    }
}
