//! The machine itself: inputs in, outputs out, one server.

use core::time::Duration;
use std::sync::Arc;

use super::{
    active_task::{ActiveTask, Tasks},
    connection::{ConnectionState, McpSession},
    credentials::{Credentials, Sent},
    in_flight::{InFlight, InFlightRequests, RequestKind, SHORT},
    io::{ExchangeId, Input, Output, SaveToken},
    legacy_sse::LegacySse,
    negotiation::{Choice, MODERN, Negotiation},
    pending::Unsaved,
    queued_requests::QueuedRequests,
    reachability::Reachability,
    replies::Replies,
    saver::Saver,
    standalone::Standalone,
    stream_state::StreamState,
    subscription::Subscription,
    task_index::TaskIndex,
};
use crate::{
    domain::{
        Connectivity, Era, LeaveImpact, LinkRecord, LinkState, ModernSupport, Mono, NewCall, Phase,
        ProtocolVersion, RequestError, Row, ServerCapabilities, ServerConfig, ServerView,
        SessionResponse, Stamp, Task, TaskId, TaskKind, TaskView, server_url,
    },
    protocol::{Method, Request, encode},
};

mod adopt;
mod answers;
mod connection;
mod controls;
mod legacy_sse;
mod negotiation;
mod questions;
mod replay_gaps;
mod replies;
mod requests;
mod session_check;
mod silence;
mod standalone;
mod streams;
mod tasks;

/// The wall clock running ahead of the monotonic one by this much means that the machine slept.
const SLEPT: Duration = Duration::from_secs(10);
/// Silence after which the server's session is kept alive by a ping; one SDK ends it after five minutes.
const PING_AFTER: Duration = Duration::from_secs(60);
/// Servers that were not read for this long are asked anew.
const BACKPRESSURED: Duration = Duration::from_secs(5);
/// Looking through all tasks takes its time: with so many more of them, the next look is a millisecond later, so that
/// thousands of calls that end together are looked through a few times and not at every end.
const TASKS_A_MILLISECOND: u64 = 250;

/// What the user and the configuration say about the server.
#[derive(Debug, Default)]
struct LinkConfig {
    choice: Choice,
    /// Whether a percentage in the server's text counts as progress.
    reads_progress: bool,
    /// The configuration file that no longer names the server.
    gone_from: Option<String>,
}

/// When the tasks are gone through.
#[derive(Debug, Default)]
struct Schedule {
    wake: Option<Mono>,
    /// When all tasks were last gone through.
    advanced_at: Mono,
    /// How many tasks that was, over all times.
    steps: u64,
}

/// How this process stops driving.
#[derive(Debug, Default)]
struct Exit {
    is_leaving: bool,
    /// Something that was forgotten, given up or handed over may still run in the server's session: don't end it.
    keeps_session: bool,
}

/// What user interfaces have not been shown yet.
#[derive(Debug)]
struct Published {
    is_server_stale: bool,
    tasks: Vec<TaskView>,
    erased: Vec<TaskId>,
}

impl Default for Published {
    fn default() -> Self {
        Self {
            is_server_stale: true,
            tasks: Vec::new(),
            erased: Vec::new(),
        }
    }
}

/// What the message that is being read came on.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    /// The server session of its exchange: the ids of the server's requests are unique within one session only.
    session_number: u64,
    is_modern: bool,
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
    subscription: Subscription,
    queued_requests: QueuedRequests,
    /// Second readings that brought nothing that was missing; `None` once one did.
    vain_rereads: Option<u32>,
    reachability: Reachability,
    tasks: Tasks,
    index: TaskIndex,
    in_flight: InFlightRequests,
    saver: Saver,
    /// The exchange that is being read.
    reading: Reading,
    needs_advance: bool,
    credentials: Credentials,
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
        let connection = if record.is_initialized {
            ConnectionState::Ready
        } else {
            ConnectionState::Disconnected
        };
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
            published: Published::default(),
            negotiation,
            legacy_sse: None,
            standalone: Standalone::new(now.mono),
            replies: Replies::default(),
            subscription: Subscription::default(),
            queued_requests: QueuedRequests::default(),
            vain_rereads: Some(0),
            reachability: Reachability::new(now),
            tasks: Tasks::new(),
            index: TaskIndex::default(),
            in_flight: InFlightRequests::new(prefix, now.mono),
            saver: Saver::new(is_new),
            reading: Reading::default(),
            needs_advance: false,
            credentials: Credentials::default(),
            out: Vec::new(),
        }
    }

    /// Counts what waits to be saved together with the other links that are given the same.
    #[must_use]
    pub fn sharing(mut self, unsaved: Unsaved) -> Self {
        self.saver.unsaved = unsaved;
        self
    }

    /// Only this revision is spoken under this name from now on.
    ///
    /// # Errors
    /// In words, where work that is under way would lose its way back with the change.
    pub fn pin_to(&mut self, version: ProtocolVersion) -> Result<(), String> {
        self.choose(Choice {
            version: Some(version),
            is_configured: false,
        })?;
        if self.record.pinned_version != Some(version) {
            self.record.pinned_version = Some(version);
            self.record_changed();
        }
        Ok(())
    }

    /// The next refusal of credentials is not the server's: nothing was sent, for this reason.
    pub fn withhold(&mut self, why: String) {
        self.credentials.withhold(why);
        // It was counted when it was meant to go out, and it never did.
        self.in_flight.sent = self.in_flight.sent.saturating_sub(1);
        self.published.is_server_stale = true;
    }

    /// The file of configuration that names the server no more; `None` once something names it again. A program of that
    /// server is ended by the next input at which nothing runs there.
    pub fn gone_from(&mut self, file: Option<String>) {
        self.published.is_server_stale |= self.config.gone_from != file;
        self.config.gone_from = file;
    }

    /// Whether credentials come from a sign-in, and not from the user's own headers.
    pub fn takes_sign_in(&mut self, does: bool) {
        self.credentials.from_sign_in = does;
    }

    /// What goes there of the user's own.
    pub fn sends(&mut self, sent: Sent) {
        self.credentials.headers = sent;
    }

    /// Whether the server wants credentials before anything else.
    pub fn is_barred(&self) -> bool {
        matches!(self.connection, ConnectionState::AuthRequired(_))
    }

    /// What the configuration says of this server holds from now on.
    ///
    /// # Errors
    /// In words, where something of it has to wait because work under way would lose its way back with the change.
    pub fn configure(&mut self, config: &ServerConfig) -> Result<(), String> {
        // Whatever stood in its way may be gone.
        self.published.is_server_stale = true;
        if self.config.reads_progress != config.progress_from_text {
            self.config.reads_progress = config.progress_from_text;
            self.show_all();
        }
        if self.record.convention != config.checkpoint {
            self.record.convention = config.checkpoint.clone();
            self.record_changed();
        }
        if let Some(url) = config.url.as_ref().filter(|url| **url != self.record.url) {
            self.move_to(url)?;
        }
        self.credentials.is_program_approved =
            config.program.is_some() && config.withheld.is_none();
        if self.record.is_process() && self.legacy_sse.is_none() {
            match &config.withheld {
                Some(why) => {
                    self.connection = ConnectionState::AuthRequired(why.clone());
                    self.show_all();
                }
                None => self.retry_auth(),
            }
        }
        let Some(choice) = config.protocol else {
            return Ok(());
        };
        self.choose(Choice {
            version: choice.0,
            is_configured: true,
        })
    }

    fn choose(&mut self, choice: Choice) -> Result<(), String> {
        let name = &self.record.name;
        let is_new = match choice.version {
            Some(version) => self.record.version.is_some_and(|known| known != version),
            // What was found out under a choice is not what survives.
            None => self.config.choice.version.is_some() && self.record.version.is_some(),
        };
        if is_new && self.has_unsettled() {
            let words = self.session_version().label();
            return Err(format!(
                "{name} has unsettled work in MCP {words}, which would be lost by a change to {}; let it end, or use another --session",
                choice.version.map_or("auto", ProtocolVersion::label)
            ));
        }
        if self.config.choice == choice {
            return Ok(());
        }
        self.config.choice = choice;
        if is_new {
            self.record.is_initialized = false;
            (self.record.session, self.record.version) = (None, None);
            (self.record.tools_at, self.record.gives_ids) = (None, None);
            self.record.gave_ids.clear();
            (self.record.modern, self.record.refuses_session) = (ModernSupport::Unknown, false);
            self.record.asked_version = None;
            self.session.has_fresh_tools = false;
            self.close_legacy_sse();
            self.connection = ConnectionState::Disconnected;
        }
        self.negotiation = Negotiation::new(self.config.choice, &self.record);
        self.record_changed();
        Ok(())
    }

    /// The server is somewhere else: nothing that was found out about the old place holds, and its session id must not
    /// reach the new one.
    fn move_to(&mut self, url: &str) -> Result<(), String> {
        let name = self.record.name.clone();
        let is_busy = |in_flight: &InFlight| !matches!(in_flight.kind, RequestKind::LegacySse);
        if self.has_unsettled() || self.in_flight.values().any(is_busy) {
            let (old, url) = (
                server_url::redacted(&self.record.url),
                server_url::redacted(url),
            );
            return Err(format!(
                "{name} is in use at {old}; the {url} of the configuration holds from the next start with nothing unsettled there"
            ));
        }
        self.close_legacy_sse();
        let moved = LinkRecord::new(name, url);
        let old = std::mem::replace(&mut self.record, moved);
        self.record.session_number = old.session_number;
        (self.record.pinned_version, self.record.convention) = (old.pinned_version, old.convention);
        self.negotiation = Negotiation::new(self.config.choice, &self.record);
        (self.session.has_fresh_tools, self.connection) = (false, ConnectionState::Disconnected);
        self.reachability = Reachability::new(self.now);
        self.record_changed();
        Ok(())
    }

    /// Whether something here has not come to its end.
    pub fn has_unsettled(&self) -> bool {
        self.tasks.values().any(|active| !active.is_settled())
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
            Input::Restored(tasks) => tasks
                .into_iter()
                .for_each(|(task, ids)| self.restore(task, ids)),
            Input::Ask { ask, what } => self.asked(ask, what),
            Input::Arrived { exchange, arrival } => self.arrived(exchange, arrival),
            Input::Timer => self.needs_advance = true,
            Input::Saved(token) => self.saved(token),
            Input::SaveFailed { token, why } => self.save_failed(token, why),
            Input::ProgramEnded => self.program_ended(),
            Input::Leave | Input::HandOver => {
                self.exit.keeps_session |= matches!(input, Input::HandOver);
                // Watched until this moment, however quiet it was.
                let open = self
                    .tasks
                    .values_mut()
                    .filter(|active| !active.is_settled());
                for active in open {
                    active.touch(now);
                    self.saver.touch(now.mono);
                }
                (self.exit.is_leaving, self.needs_advance) = (true, true);
                self.saver.hurry(now.mono);
                self.refuse_queued(&RequestError::Unreachable("longhaul is leaving".to_owned()));
            }
        }
        // The hot path ends here: a step of progress changes nothing that has to be looked at before the next flush.
        let is_due = self.needs_advance || self.due_at().is_some_and(|at| now.mono >= at);
        if is_due && (self.exit.is_leaving || now.mono >= self.may_advance_at()) {
            self.advance();
        }
    }

    /// What is to be done, in this order; taking it empties it.
    pub fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// Tasks that changed since they were last taken and may be shown.
    pub fn take_views(&mut self) -> Vec<TaskView> {
        self.publish();
        std::mem::take(&mut self.published.tasks)
    }

    /// Tasks that were taken out for good.
    pub fn take_erased(&mut self) -> Vec<TaskId> {
        std::mem::take(&mut self.published.erased)
    }

    /// The picture of the server, if it changed since it was last taken.
    pub fn take_server_view(&mut self) -> Option<ServerView> {
        std::mem::take(&mut self.published.is_server_stale).then(|| self.server_view())
    }

    /// When [`Input::Timer`] is due.
    pub fn next_wake(&self) -> Option<Mono> {
        let may = self.may_advance_at();
        let is_put_off = self.needs_advance && may > self.now.mono && !self.exit.is_leaving;
        let due = earliest(self.due_at(), is_put_off.then_some(may));
        due.map(|at| {
            if self.exit.is_leaving {
                at
            } else {
                at.max(may)
            }
        })
    }

    fn due_at(&self) -> Option<Mono> {
        earliest(self.schedule.wake, self.saver.next_due())
    }

    /// When all tasks may be looked through again.
    fn may_advance_at(&self) -> Mono {
        let tasks = u64::try_from(self.tasks.len()).unwrap_or(u64::MAX);
        let pause = Duration::from_millis(tasks / TASKS_A_MILLISECOND);
        self.schedule.advanced_at.after(pause)
    }

    /// How many tasks were looked at over all times, to measure what many of them cost.
    pub fn steps(&self) -> u64 {
        self.schedule.steps
    }

    /// What is known of the server.
    pub fn record(&self) -> &LinkRecord {
        &self.record
    }

    /// Whether nothing is open, unsaved or waited for, so that a leaving driver may go.
    pub fn is_at_rest(&self) -> bool {
        !self.saver.is_behind()
            && !self.in_flight.values().any(|in_flight| {
                matches!(
                    in_flight.kind,
                    RequestKind::TerminateSession | RequestKind::Cancel(_)
                )
            })
    }

    /// Whether a call is out whose first event id may still come; leaving before it would cut the way back.
    pub fn awaits_first_id(&self) -> bool {
        let dies = |active: &ActiveTask| {
            !active.is_modern()
                && self.record.capabilities().gives_ids_of(&active.task.tool) != Some(false)
                && LeaveImpact::of_task(&active.task).is_some_and(|price| price.dies())
        };
        self.awaits_task_id() || self.record.is_stateful() && self.tasks.values().any(dies)
    }

    /// The tasks that leaving would end, and why.
    pub fn dying(&self) -> impl Iterator<Item = (&TaskId, String)> {
        self.tasks.values().filter_map(|active| {
            let price = LeaveImpact::of_task(&active.task).filter(LeaveImpact::dies)?;
            Some((&active.task.id, price.why().to_owned()))
        })
    }

    /// The task ids that this machine holds.
    pub fn holds(&self, id: &TaskId) -> bool {
        self.tasks.contains_key(id)
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
        self.index.requests()
    }

    /// The task here that a call would repeat: the same id, or the same `--once` key.
    pub fn started_before(&self, call: &NewCall) -> Option<TaskId> {
        self.tasks
            .values()
            .map(|active| &active.task)
            .find(|task| task.id == call.id || call.once.is_some() && task.once == call.once)
            .map(|task| task.id.clone())
    }

    /// The session file knows these tasks of the server already, each with our task of it unless that is forgotten: what
    /// is adopted next is none of them.
    pub fn knows(&mut self, tasks: impl IntoIterator<Item = (String, Option<TaskId>)>) {
        self.index.add_saved(tasks);
    }

    /// The revision of the session, or the modern one where that is all that is spoken.
    fn session_version(&self) -> ProtocolVersion {
        let newest_stateful = ProtocolVersion::V20251125;
        self.record
            .version
            .or(self.config.choice.version)
            .unwrap_or(newest_stateful)
    }

    /// The revision of the requests about a task: that of its call or of its server task, whatever else is spoken.
    fn version_of(&self, id: &TaskId) -> ProtocolVersion {
        let active = self.tasks.get(id);
        let server_task = active.and_then(|active| active.task.server_task.as_ref());
        let is_modern = match server_task {
            Some(task) => task.kind == TaskKind::Extension,
            None => active.is_some_and(ActiveTask::is_modern),
        };
        if is_modern {
            return MODERN;
        }
        let of_session = self.session_version();
        let of_call = || active.and_then(|it| it.attempt()?.version);
        match of_session.era() {
            Era::Stateful => of_session,
            Era::Modern => of_call().unwrap_or(of_session),
        }
    }

    /// The revision that a request is dressed in.
    fn version_for(&self, kind: &RequestKind, is_request: bool) -> Option<ProtocolVersion> {
        match kind {
            RequestKind::Handshake { .. } | RequestKind::LegacySse => None,
            RequestKind::Stream(id)
            | RequestKind::Reread(id)
            | RequestKind::Cancel(id)
            | RequestKind::Poll(id)
            | RequestKind::Fetch(id)
            | RequestKind::Update(id, _) => Some(self.version_of(id)),
            RequestKind::ListTools { version, .. } => Some(*version),
            RequestKind::Discover
            | RequestKind::Adopt {
                kind: TaskKind::Extension,
                ..
            } => Some(MODERN),
            // That of the session is a GET.
            RequestKind::Listen if is_request => Some(MODERN),
            _ => self.record.version,
        }
    }

    /// What a call can stand on here, as the user chose.
    fn capabilities(&self, task: Option<&Task>) -> ServerCapabilities {
        let mut capabilities = self.record.capabilities();
        capabilities.pinned = task
            .and_then(|task| task.protocol)
            .or(self.config.choice.version)
            .or(capabilities.pinned);
        capabilities
    }

    fn server_view(&self) -> ServerView {
        let state = match (&self.connection, self.reachability.down()) {
            (ConnectionState::AuthRequired(why), _) if self.record.is_process() => {
                LinkState::NotStarted {
                    why: why.clone(),
                    is_approved: self.credentials.is_program_approved,
                }
            }
            (ConnectionState::AuthRequired(why), _) => LinkState::NeedsLogin {
                why: why.clone(),
                takes_sign_in: self.credentials.from_sign_in,
            },
            // Where nothing is wanted nothing is tried, and what was found then is not known to hold.
            (_, Some(down)) if self.wants_session() => LinkState::Down {
                since: down.since.wall,
                tries: down.tries,
                next: down.next_wall,
                why: down.why.clone(),
            },
            (
                ConnectionState::Discovering
                | ConnectionState::OpeningSse
                | ConnectionState::Initializing
                | ConnectionState::Announcing,
                None,
            ) => LinkState::Connecting,
            (ConnectionState::Ready, None) if self.in_flight.sent > 0 => LinkState::Live,
            _ => LinkState::Idle,
        };
        ServerView {
            name: self.record.name.clone(),
            url: server_url::redacted(&self.record.url).into_owned(),
            state,
            // The machine knows no variables; whoever fills them in does.
            obstacle: None,
            era: self
                .record
                .version
                .map_or(String::new(), |version| version.label().to_owned()),
            era_why: self.record.era_why.clone().unwrap_or_default(),
            server_info: self.record.server_info.clone(),
            tools: self.record.tools_at.map(|_| self.record.tools.len()),
            capabilities: self.capabilities(None),
            requests: self.in_flight.sent,
            gone_from: self.config.gone_from.clone(),
            latency: self.in_flight.latency,
        }
    }

    /// Everything that time or a change of state makes due.
    fn advance(&mut self) {
        self.schedule.advanced_at = self.now.mono;
        // A step can make another one due (a handshake done, a list read); it never takes many.
        for _ in 0..8 {
            self.needs_advance = false;
            if !self.can_read() {
                break;
            }
            self.expire_in_flight();
            self.tend_connection();
            self.tend_adoption();
            let now = self.now.mono;
            self.schedule.steps += u64::try_from(self.tasks.len()).unwrap_or(0);
            let is_busy = |active: &ActiveTask| !active.is_parked() && !Self::is_still(active, now);
            let busy = self.tasks.iter().filter(|(_, active)| is_busy(active));
            for id in busy.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
                self.step(&id);
            }
            self.step_polls();
            self.step_listening();
            self.step_session_check();
            self.step_standalone();
            self.keep_alive();
            self.end_idle_program();
            self.terminate_session();
            if !self.needs_advance {
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

    /// Whether nothing is due for a task but what its open stream brings.
    fn is_still(active: &ActiveTask, now: Mono) -> bool {
        let is_out = active.is_out()
            && !active.has_answers
            && active.control.is_none()
            && active.follow.is_none()
            && active.task.limits == crate::domain::Limits::default();
        let due = earliest(Self::silence_ends(active), active.doubted_at());
        let due = earliest(due, active.went_out_at());
        active.is_settled() || is_out && due.is_none_or(|at| now < at)
    }

    /// Whether what servers send is read. While it is not, their silence means nothing: no clock runs but the saver's.
    fn can_read(&mut self) -> bool {
        let now = self.now.mono;
        if !self.saver.unsaved.has_room() {
            self.saver.backpressured_since.get_or_insert(now);
            return false;
        }
        let was_long = |since: &Mono| now.since(*since) >= BACKPRESSURED;
        if self
            .saver
            .backpressured_since
            .take()
            .as_ref()
            .is_some_and(was_long)
        {
            // What they answered meanwhile is read now.
            let patience = now.after(SHORT);
            self.in_flight.extend_deadlines(patience);
            self.woke_up();
        }
        true
    }

    /// Sends a request; during an outage it is the prober.
    fn send(
        &mut self,
        kind: RequestKind,
        method: Method,
        request_id: Option<String>,
        after: Option<SaveToken>,
    ) -> ExchangeId {
        let version = self.version_for(&kind, request_id.is_some());
        let has_session = version.is_some_and(|version| version.era() == Era::Stateful);
        let target = self.legacy_sse.as_ref();
        let target = target.map(|legacy_sse| legacy_sse.target().to_owned());
        let (is_short, within) = (kind.is_short(), kind.time_limit());
        let exchange = self.in_flight.insert(
            InFlight {
                kind,
                request_id,
                until: within.map(|wait| self.now.mono.after(wait)),
                is_opened: false,
                // What waits for another request, or whose answer is held open, tells nothing of the way there.
                sent_at: (after.is_none() && is_short).then_some(self.now.mono),
                after,
                came: None,
                session_number: self.record.session_number,
                is_modern: version.is_some_and(|version| version.era() == Era::Modern),
                is_by_legacy_sse: target.is_some(),
            },
            self.now.mono,
        );
        self.reachability.sent(self.now);
        self.published.is_server_stale = true;
        self.out.push(Output::Send {
            exchange,
            request: Request {
                method,
                session: self.record.session.clone().filter(|_| has_session),
                version: version.filter(|version| *version != ProtocolVersion::V20241105),
                target,
            },
            after,
        });
        exchange
    }

    /// Drops an exchange; nothing more arrives of it.
    fn close(&mut self, exchange: ExchangeId) {
        if let Some(in_flight) = self.in_flight.remove(exchange) {
            if !in_flight.is_opened {
                self.reachability.prober_gone();
            }
            self.out.push(Output::Close { exchange });
        }
    }

    /// Something came back from the server: the way is open.
    fn mark_reachable(&mut self) {
        if self.reachability.worked() {
            self.needs_advance = true;
            self.published.is_server_stale = true;
            // Streams follow the prober staggered, so that a server that just came back is not run over.
            let mut place = 0;
            for active in self.tasks.values_mut() {
                active.saving.is_shown_stale = true;
                if let StreamState::Waiting { until } = &mut active.stream {
                    let turn = self
                        .now
                        .mono
                        .after(Duration::from_millis(place * 25 + self.rng.u64(0..25)));
                    // What waits because its server asked for it goes on waiting.
                    if *until < turn {
                        *until = turn;
                        place += 1;
                    }
                }
                if let Some(served) = &mut active.served {
                    served.back_in_contact(self.now.mono);
                }
            }
        }
    }

    fn mark_unreachable(&mut self, why: String, is_refused: bool, at_least: Option<Duration>) {
        self.reachability
            .failed(self.now, why, is_refused, at_least, &mut self.rng);
        self.show_all();
    }

    /// Every row shows the link's state, so all of them change with it.
    fn show_all(&mut self) {
        (self.needs_advance, self.published.is_server_stale) = (true, true);
        self.tasks
            .values_mut()
            .for_each(|active| active.saving.is_shown_stale = true);
    }

    /// After sleep, sockets are probably dead and waits are over. A step of the wall clock looks the same, so no connection
    /// is closed before a new one brings what it should have brought.
    fn woke_up(&mut self) {
        self.reachability.hurry(self.now);
        self.recheck_all();
        for active in self.tasks.values_mut() {
            if let StreamState::Waiting { until } = &mut active.stream {
                *until = self.now.mono;
            }
        }
        self.recheck_standalone();
        self.show_all();
    }

    /// Keeps the server's session while a call runs silently; a ping without an answer finds a dead socket.
    fn keep_alive(&mut self) {
        if self.keep_alive_at().is_some_and(|at| self.now.mono >= at) && !self.is_pinging() {
            match self.reachability.spend(self.now) {
                Ok(()) => {
                    self.ping(None);
                    self.recheck_standalone_at_times();
                }
                // A budget that is spent means traffic enough to keep the session.
                Err(_) => self.in_flight.last_traffic = self.now.mono,
            }
        }
    }

    fn keep_alive_at(&self) -> Option<Mono> {
        let has_stream = || {
            self.tasks.values().any(|active| {
                matches!(
                    active.stream,
                    StreamState::Open { .. } | StreamState::Calling(_)
                ) && !active.is_modern()
            })
        };
        let is_stateful = self.record.is_stateful();
        (is_stateful
            && self.connection == ConnectionState::Ready
            && self.reachability.down().is_none()
            && has_stream())
        .then(|| self.in_flight.last_traffic.after(PING_AFTER))
    }

    fn ping(&mut self, verifies: Option<TaskId>) {
        let id = self.in_flight.new_request_id();
        let method = encode::ping(&id);
        self.send(RequestKind::Ping { verifies }, method, Some(id), None);
    }

    /// On a clean exit with nothing unsettled the session is ended; with work in it that would cancel the work. What is
    /// settled and not on disk yet is still here, and unsettled for whoever comes next.
    fn terminate_session(&mut self) {
        let may_end = self.exit.is_leaving
            && self.tasks.is_empty()
            && !self.exit.keeps_session
            && self.connection == ConnectionState::Ready
            && self.reachability.down().is_none()
            && self.in_flight.sent > 0
            && self.record.session.is_some();
        if may_end {
            self.send(RequestKind::TerminateSession, Method::Delete, None, None);
            self.connection = ConnectionState::Disconnected;
            (self.record.session, self.record.is_initialized) = (None, false);
            self.record_changed();
            self.saver.urge(self.now.mono);
        }
    }

    fn record_changed(&mut self) {
        (self.saver.is_record_dirty, self.published.is_server_stale) = (true, true);
        self.saver.touch(self.now.mono);
    }

    /// Whether an automatic request may go out now. `Err` holds when the budget allows one; it holds nothing during an
    /// outage, because what waits for the way goes on the moment the prober is answered.
    fn may_ask(&mut self) -> Result<(), Option<Mono>> {
        if !self.reachability.may_send(self.now) {
            return Err(None);
        }
        self.reachability.spend(self.now).map_err(Some)
    }

    /// A server that was never reached and has no task is most likely a slip of the keyboard, unless its revision was
    /// chosen with care.
    fn is_worth_saving(&self) -> bool {
        let is_known = self.record.session_number > 0 || self.record.pinned_version.is_some();
        self.saver.is_record_dirty && (is_known || !self.tasks.is_empty())
    }

    fn is_dirty(&self) -> bool {
        self.is_worth_saving()
            || !self.saver.erasing.is_empty()
            || self.tasks.values().any(|active| active.saving.is_dirty)
    }

    fn flush(&mut self) {
        // First, so that a call asked for again under the same id is not taken out with its failed intent.
        let mut rows: Vec<Row> = self.saver.erasing.drain(..).map(Row::Erase).collect();
        if self.is_worth_saving() {
            self.saver.is_record_dirty = false;
            let mut record = self.record.clone();
            // A process that ends now may leave a session that the server does not serve yet.
            record.is_initialized &= self.connection != ConnectionState::Announcing;
            rows.push(Row::Link(Box::new(record)));
        }
        for active in self
            .tasks
            .values_mut()
            .filter(|active| active.saving.is_dirty)
        {
            active.saving.is_dirty = false;
            let task = &active.task;
            if !active.saving.pending.is_empty() {
                let entries = active.saving.pending.take();
                rows.push(Row::History {
                    task: task.id.clone(),
                    entries,
                });
            }
            if let Some(json) = active.saving.result.take() {
                rows.push(Row::Result {
                    task: task.id.clone(),
                    json,
                });
            }
            rows.push(Row::Task(Box::new(task.clone())));
        }
        let rows = Arc::new(rows);
        let (token, is_vital) = self.saver.begin(Arc::clone(&rows));
        self.out.push(Output::Save {
            token,
            rows,
            is_vital,
        });
    }

    fn saved(&mut self, token: SaveToken) {
        let Some(flight) = self.saver.done(token) else {
            return;
        };
        for row in flight.rows.iter() {
            match row {
                Row::Task(task) => {
                    if let Some(active) = self.tasks.get_mut(&task.id) {
                        (active.saving.saved_seq, active.saving.is_shown_stale) = (task.seq, true);
                    }
                }
                Row::Result { task, .. } => {
                    if let Some(active) = self.tasks.get_mut(task) {
                        active.saving.result_part.set(0);
                    }
                }
                _ => {}
            }
        }
        let is_past = |waits: Option<SaveToken>| waits.is_some_and(|waits| waits <= token);
        for active in self.tasks.values_mut() {
            if is_past(active.saving.held) {
                active.saving.held = None;
            }
            if is_past(active.sending) {
                active.sending = None;
                if let Some(start) = &mut active.start {
                    start.since = self.now.mono;
                }
            }
            if is_past(active.intent.as_ref().map(|intent| intent.save)) {
                active.intent = None;
            }
            if active.saving.is_unsaved {
                (active.saving.is_unsaved, active.saving.is_shown_stale) = (false, true);
            }
        }
        self.publish();
        // What is settled or forgotten, saved and shown is the session file's from now on.
        let index = &mut self.index;
        self.tasks.retain(|_, active| {
            let is_over = active.is_settled() || active.task.forgotten_at.is_some();
            let stays = !is_over
                || active.saving.is_dirty
                || active.saving.held.is_some()
                || active.saving.saved_seq < active.task.seq;
            if !stays && let Some(server_task) = &active.task.server_task {
                let is_shown = active.task.forgotten_at.is_none();
                let id = is_shown.then(|| active.task.id.clone());
                index.server_task_saved(&server_task.id, id);
            }
            stays
        });
        self.needs_advance = true;
    }

    fn save_failed(&mut self, token: SaveToken, why: String) {
        let Some(flight) = self.saver.failed(self.now.mono, token, why) else {
            return;
        };
        for row in Arc::unwrap_or_clone(flight.rows) {
            match row {
                Row::Link(_) => self.saver.is_record_dirty = true,
                Row::Task(task) => {
                    if let Some(active) = self.tasks.get_mut(&task.id) {
                        active.saving.is_dirty = true;
                    }
                }
                Row::History { task, entries } => {
                    if let Some(active) = self.tasks.get_mut(&task) {
                        active.saving.pending.put_back(&entries);
                    }
                }
                Row::Result { task, json } => {
                    if let Some(active) = self.tasks.get_mut(&task) {
                        active.saving.result.get_or_insert(json);
                    }
                }
                Row::Erase(id) => self.saver.erasing.push(id),
            }
        }
        let trouble = self.disk_trouble();
        // Whoever carries us out has forgotten what waited for this save; so nothing of it was sent.
        for id in self.tasks.keys().cloned().collect::<Vec<_>>() {
            let Some(active) = self.tasks.get_mut(&id) else {
                continue;
            };
            (active.saving.is_unsaved, active.saving.is_shown_stale) = (true, true);
            if active.sending == Some(token) {
                active.sending = None;
                self.unsend(&id);
            }
            let intent = self
                .tasks
                .get(&id)
                .and_then(|active| active.intent.as_ref());
            if let Some(intent) = intent.filter(|intent| intent.save == token).cloned() {
                self.tasks.remove(&id);
                self.index.remove_requests_of(&id);
                self.saver.erasing.push(id.clone());
                self.published.erased.push(id);
                for ask in intent.asks {
                    self.answer(
                        ask,
                        trouble.clone().map_or(Ok(SessionResponse::Accepted), Err),
                    );
                }
            }
        }
        self.never_went_out(token);
        // A view that waits for the disk is shown now, marked as not saved.
        self.tasks
            .values_mut()
            .for_each(|active| active.saving.held = None);
        self.needs_advance = true;
    }

    /// Answers that waited for a save that failed were forgotten with it; they are sent again with the next.
    fn never_went_out(&mut self, token: SaveToken) {
        for exchange in self.in_flight.waiting_for(token) {
            self.reachability.prober_gone();
            if let Some(InFlight {
                kind: RequestKind::Update(id, _) | RequestKind::Reply(Some((id, _))),
                ..
            }) = self.in_flight.remove(exchange)
            {
                self.reachability.refund(self.now);
                self.answers_wait(&id);
            }
        }
    }

    /// The words for refusing a new call while the disk fails.
    fn disk_trouble(&self) -> Option<RequestError> {
        self.saver.trouble().map(|why| {
            RequestError::CannotSave(format!(
                "not started: {why}; nothing was sent. Free the disk and ask again"
            ))
        })
    }

    fn publish(&mut self) {
        let mut views = Vec::new();
        for active in self
            .tasks
            .values()
            .filter(|active| active.saving.is_shown_stale && active.saving.held.is_none())
        {
            let price = LeaveImpact::of_task(&active.task).map(|price| price.at(self.now.wall));
            let mut view = active.view(self.contact(active), price);
            view.guess = view
                .task
                .fraction_in_message()
                .filter(|_| self.config.reads_progress);
            views.push(view);
        }
        for view in &views {
            if let Some(active) = self.tasks.get_mut(&view.task.id) {
                active.saving.is_shown_stale = false;
            }
        }
        self.published.tasks.append(&mut views);
    }

    /// The contact with one task, as one of three facts.
    fn contact(&self, active: &ActiveTask) -> Connectivity {
        if !active.is_active() || active.is_settled() {
            return Connectivity::Idle;
        }
        if matches!(self.connection, ConnectionState::AuthRequired(_)) {
            return Connectivity::NeedsLogin;
        }
        let last_byte = active.activity.last_byte.wall;
        let is_kept = active.recovery.kept.is_some() && self.reachability.down().is_none();
        if is_kept || matches!(active.stream, StreamState::Open { .. }) {
            return Connectivity::Live { last_byte };
        }
        if active
            .served
            .as_ref()
            .is_some_and(|served| served.failures == 0)
            && self.reachability.down().is_none()
        {
            return Connectivity::Live { last_byte };
        }
        if let Some(down) = self.reachability.down() {
            return Connectivity::Offline {
                since: down.since.wall,
                next: down.next_wall,
                why: down.why.clone(),
            };
        }
        let in_wall = |at: Mono| self.now.wall.after(at.since(self.now.mono));
        if let Some(served) = &active.served {
            return Connectivity::Reconnecting {
                attempt: served.failures,
                next: served.next.map_or(self.now.wall, in_wall),
                why: served.why.clone().unwrap_or_default(),
            };
        }
        match &active.stream {
            StreamState::Waiting { until } => Connectivity::Reconnecting {
                attempt: active.recovery.tries,
                next: in_wall(*until),
                why: active
                    .recovery
                    .cut
                    .as_ref()
                    .map_or("the stream ended".to_owned(), |cut| cut.why.clone()),
            },
            StreamState::Asking { .. } | StreamState::Verifying { .. } => {
                Connectivity::Reconnecting {
                    attempt: active.recovery.tries + 1,
                    next: self.now.wall,
                    why: active
                        .recovery
                        .cut
                        .as_ref()
                        .map_or("asking for the stream".to_owned(), |cut| cut.why.clone()),
                }
            }
            _ => Connectivity::Live {
                last_byte: active
                    .follow
                    .as_ref()
                    .and_then(|f| f.read_at)
                    .unwrap_or(last_byte),
            },
        }
    }

    /// The next moment at which time alone makes something due.
    fn next_deadline(&self) -> Option<Mono> {
        let mut next = earliest(self.keep_alive_at(), self.next_poll());
        next = earliest(next, self.in_flight.deadlines().min());
        let can_ask = self.connection == ConnectionState::Ready;
        let allowed_at = self.reachability.allowed_at(self.now);
        let when_allowed = |at: Mono| Some(allowed_at.map_or(at, |allowed| allowed.max(at)));
        let way_at = self.reachability.next_try();
        let when_allowed_by_way = |at: Mono| Some(way_at.map_or(at, |way| way.max(at)));
        next = earliest(next, self.standalone_due());
        if self.connection == ConnectionState::Disconnected && self.wants_session()
            || can_ask && self.wants_tools()
        {
            next = earliest(next, allowed_at);
        }
        if let Some(at) = self.session_check_at() {
            next = earliest(next, when_allowed(at));
        }
        for active in self.tasks.values() {
            if active.is_settled() || !active.is_active() || active.task.forgotten_at.is_some() {
                continue;
            }
            if can_ask {
                if let StreamState::Waiting { until } = active.stream {
                    let allowed = self
                        .reachability
                        .allowed_with(&active.recovery.budget, self.now);
                    next = earliest(next, Some(allowed.map_or(until, |at| at.max(until))));
                }
                if let Some(at) = active.follow.as_ref().and_then(|follow| follow.next) {
                    next = earliest(next, when_allowed(at));
                }
                if active.phase() == Phase::Queued {
                    next = earliest(next, allowed_at);
                }
                if active.has_answers && !self.is_session_doubted() {
                    next = earliest(next, when_allowed_by_way(active.answers_at));
                }
            }
            next = earliest(next, Self::silence_ends(active));
            if active.follow.is_none() && can_ask {
                next = earliest(next, active.doubted_at());
            }
            next = earliest(next, active.went_out_at());
            if let Some(control) = &active.control {
                next = earliest(next, Some(control.until));
                if can_ask && control.waits_to_cancel() && active.sending.is_none() {
                    next = earliest(
                        next,
                        when_allowed(control.retry_at.unwrap_or(self.now.mono)),
                    );
                }
            }
            next = earliest(next, self.limit_ends(active));
        }
        // What is due but could not be done waits for something else to change; never spin.
        next.map(|at| at.max(self.now.mono.after(Duration::from_millis(1))))
    }
}

/// The earlier of two moments that may be absent.
pub(super) fn earliest(one: Option<Mono>, other: Option<Mono>) -> Option<Mono> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
