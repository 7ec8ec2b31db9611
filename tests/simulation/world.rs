//! The world around one link: its engine, disk, network, user and clock, all of it drawn from one seed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use longhaul::{
    domain::{
        Answer, HistoryEvent, IfCut, Limits, LinkRecord, LostReason, Mono, NewCall, Phase,
        RequestError, Row, ServerName, SessionRequest, SessionRequestId, SessionResponse, Stamp,
        Status, TaskId, TaskView, UnknownReason, Wall,
    },
    link::{Choice, ExchangeId, Input, Link, Output, SaveToken, Unfollowed},
    protocol::{ExchangeEvent, Request},
};
use serde_json::json;

use super::{
    clients::{Clients, RequestNumber},
    file::File,
    server::{Conn, Interceptor, Server, Style},
    tasks::TaskBehavior,
};

/// The tasks of the session file, for the next process.
pub(crate) fn restored(
    tasks: Vec<(longhaul::domain::Task, Vec<longhaul::domain::EventId>)>,
) -> Input {
    Input::Restored {
        tasks,
        unfollowed: Unfollowed::SinceDriver(None),
    }
}

/// Half-open connections are given up by the operating system after this, where it is our end that lost its peer.
const KERNEL_PATIENCE: u64 = 16 * 60_000;
/// Everything has to be decided within this after the last fault.
const HORIZON: u64 = 2 * 3_600_000;

/// Schedules from here on meet servers of both eras, tasks and questions.
pub(crate) const NEWER: u64 = 1_000_000_000;

/// What a schedule came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    pub(crate) trace: Vec<String>,
    pub(crate) statuses: BTreeMap<&'static str, u32>,
    pub(crate) inputs: u64,
    /// See [`File::fallen`].
    pub(crate) fallen: (u64, u64),
}

/// What the user wanted of a task.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "wishes and manners of a person, each apart from the others"
)]
pub(crate) struct Plan {
    pub(crate) key: String,
    pub(crate) is_checkpoint: bool,
    pub(crate) fails: bool,
    pub(crate) steps: u64,
    pub(crate) has_limit: bool,
    /// Its person never answers a question.
    pub(crate) is_ignored: bool,
}

#[derive(Debug)]
enum Event {
    Deliver {
        life: u32,
        conn: Conn,
        arrival: ExchangeEvent,
    },
    Reach {
        conn: Conn,
        request: Box<Request>,
    },
    Notice(Conn),
    Disk {
        life: u32,
        token: SaveToken,
    },
    Act(Act),
    Fault(Fault),
    /// A response reaches its client, if the keeper that sent it was not killed too early.
    Response {
        life: u32,
        number: RequestNumber,
        is_refused: bool,
    },
    Reborn,
    Boot,
    Wake(u64),
}

#[derive(Clone, Debug)]
enum Act {
    Reply(TaskId, String),
    Start,
    Pause(usize),
    Resume(usize),
    Cancel(usize),
    GiveUp(usize),
    Forget(usize),
    RetryNow,
    Tools,
    Leave,
    /// The keeper becomes another program.
    Upgrade,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    CutAll,
    StallAll,
    NetDown(u64),
    Restart(u64),
    Kill,
    Sleep(u64),
    WallJump(i64),
    ForgetSessions,
    Bar(u64),
    Busy(u64),
    /// Something between us and the server answers instead of it.
    Intercepted(u64, Interceptor),
    DiskFails(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Sound,
    /// Bytes are dropped without an error.
    Stalled,
    Over,
}

#[derive(Debug)]
struct Line {
    exchange: ExchangeId,
    life: u32,
    health: Health,
    is_opened: bool,
    last: u64,
}

#[derive(Debug)]
enum AwaitingSave {
    Send {
        exchange: ExchangeId,
        request: Box<Request>,
    },
    Answer {
        ask: SessionRequestId,
        is_refused: bool,
        is_answered_anyway: bool,
    },
}

pub(crate) struct World {
    rng: fastrand::Rng,
    now: u64,
    slept: u64,
    jumped: i64,
    asleep_until: u64,
    pub(crate) server: Server,
    is_up: bool,
    net_down_until: u64,
    disk_fails_until: u64,
    faults_end: u64,
    /// Of a thousand messages, how many meet a fault.
    trouble: u32,
    kills_left: u32,
    /// Of ten thousand outputs, before how many the process is killed.
    kill_rate: u32,
    link: Option<Link>,
    life: u32,
    pub(crate) file: File,
    writing: Option<(SaveToken, Vec<Row>)>,
    saved: SaveToken,
    awaiting_save: Vec<(SaveToken, AwaitingSave)>,
    lines: Vec<Line>,
    conns: HashMap<ExchangeId, Conn>,
    queue: BTreeMap<(u64, u64), Event>,
    count: u64,
    clients: Clients,
    pub(crate) plans: BTreeMap<TaskId, Plan>,
    order: Vec<TaskId>,
    views: BTreeMap<TaskId, TaskView>,
    is_traced: bool,
    out: Outcome,
    timers: BTreeMap<u64, u32>,
    last_stall: u64,
    unsent: BTreeSet<TaskId>,
    /// Request ids that left our machine.
    gone_out: BTreeSet<String>,
    is_leaving: bool,
    /// Until when an upgrade waits for saves.
    upgrades_until: Option<u64>,
    /// What the row of each task said of leaving when our process last went, and for which attempt.
    promised: BTreeMap<TaskId, (String, u32)>,
    /// Questions that a person is thinking about.
    pondered: BTreeSet<(TaskId, String)>,
    replies: u64,
}

/// Runs the schedule of a seed to its end.
pub(crate) fn run(seed: u64, is_traced: bool) -> Outcome {
    let mut world = World::drawn(seed, is_traced);
    world.live();
    world.judge();
    world.out
}

impl World {
    fn drawn(seed: u64, is_traced: bool) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let style = Style::drawn(&mut rng);
        let behavior = (seed >= NEWER).then(|| TaskBehavior::drawn(&mut rng));
        let faults_end = rng.u64(20_000..120_000);
        let trouble = *[0, 0, 5, 30].get(rng.usize(0..4)).unwrap_or(&0);
        let kill_rate = *[0, 0, 30, 300].get(rng.usize(0..4)).unwrap_or(&0);
        let mut world = Self {
            server: Server::new(style, behavior, rng.u64(..)),
            now: 1000,
            slept: 0,
            jumped: 0,
            asleep_until: 0,
            is_up: true,
            net_down_until: 0,
            disk_fails_until: 0,
            faults_end,
            trouble,
            kills_left: 4,
            kill_rate,
            link: None,
            life: 0,
            file: File::default(),
            writing: None,
            saved: 0,
            awaiting_save: Vec::new(),
            lines: Vec::new(),
            conns: HashMap::new(),
            queue: BTreeMap::new(),
            count: 0,
            clients: Clients::default(),
            plans: BTreeMap::new(),
            order: Vec::new(),
            views: BTreeMap::new(),
            is_traced,
            out: Outcome::default(),
            timers: BTreeMap::new(),
            last_stall: 0,
            unsent: BTreeSet::new(),
            gone_out: BTreeSet::new(),
            is_leaving: false,
            upgrades_until: None,
            promised: BTreeMap::new(),
            pondered: BTreeSet::new(),
            replies: 0,
            rng,
        };
        world.server.task_host.trouble_until = faults_end;
        world.say(|w| {
            format!(
                "style {:?}, manner {:?}, trouble {trouble}, kill rate {kill_rate}, faults until {faults_end}",
                w.server.style, w.server.task_host.behavior
            )
        });
        for _ in 0..world.rng.u32(0..6) {
            let fault = world.draw_fault();
            let at = world.rng.u64(0..faults_end);
            world.push(at, Event::Fault(fault));
        }
        let starts = world.rng.u32(1..4);
        for _ in 0..starts {
            let at = world.rng.u64(1000..faults_end / 2);
            world.push(at, Event::Act(Act::Start));
        }
        for _ in 0..world.rng.u32(0..6) {
            let (which, at) = (
                world.rng.usize(0..4),
                world.rng.u64(2000..faults_end + 20_000),
            );
            let act = match world.rng.u32(0..11) {
                8 => Act::Leave,
                9 => Act::Upgrade,
                0 | 1 => Act::Pause(which),
                2 | 3 => Act::Resume(which),
                4 => Act::Cancel(which),
                5 => Act::GiveUp(which),
                6 => Act::Forget(which),
                7 => Act::RetryNow,
                _ => Act::Tools,
            };
            world.push(at, Event::Act(act));
        }
        world.push(faults_end + 25_000, Event::Act(Act::RetryNow));
        if world.rng.bool() {
            // Paused tasks resume in the end, so that each one finishes.
            for which in 0..4 {
                world.push(faults_end + 90_000, Event::Act(Act::Resume(which)));
            }
        }
        world.reborn();
        world
    }

    fn draw_fault(&mut self) -> Fault {
        let rng = &mut self.rng;
        match rng.u32(0..14) {
            0 | 1 => Fault::CutAll,
            2 => Fault::StallAll,
            3 | 4 => Fault::NetDown(rng.u64(100..40_000)),
            5 | 6 => Fault::Restart(rng.u64(50..15_000)),
            7 | 8 => Fault::Kill,
            9 => Fault::Sleep(rng.u64(5000..3_600_000)),
            10 => {
                if rng.bool() {
                    Fault::ForgetSessions
                } else {
                    Fault::WallJump(rng.i64(-3_600_000..3_600_000))
                }
            }
            11 => Fault::Bar(rng.u64(1000..20_000)),
            12 if rng.bool() => {
                let how = Interceptor::draw(rng);
                Fault::Intercepted(rng.u64(500..400_000), how)
            }
            12 => Fault::Busy(rng.u64(500..10_000)),
            _ => Fault::DiskFails(rng.u64(100..20_000)),
        }
    }

    fn say(&mut self, words: impl FnOnce(&Self) -> String) {
        if self.is_traced {
            let line = format!("{:>9} {}", self.now, words(self));
            self.out.trace.push(line);
        }
    }

    fn wrong(&mut self, words: impl AsRef<str>) {
        let words = words.as_ref();
        self.say(|_| format!("VIOLATION {words}"));
        if self.out.violations.len() < 5 {
            self.out
                .violations
                .push(format!("at {}: {words}", self.now));
        }
    }

    fn push(&mut self, at: u64, event: Event) {
        self.count += 1;
        self.queue.insert((at.max(self.now), self.count), event);
    }

    fn stamp(&self) -> Stamp {
        let wall = 1_700_000_000_000_i64 + i64::try_from(self.now).unwrap_or(0) + self.jumped;
        Stamp {
            mono: Mono(self.now - self.slept),
            wall: Wall(wall),
        }
    }

    /// When the machine wants its timer, in the time of the world.
    fn timer(&self) -> Option<u64> {
        let wake = self.link.as_ref()?.next_wake()?;
        Some((wake.0 + self.slept).max(self.asleep_until).max(self.now))
    }

    fn live(&mut self) {
        let end = self.faults_end + HORIZON;
        for _ in 0..400_000 {
            let next = self.queue.keys().next().map(|(at, _)| *at);
            let tick = self
                .server
                .next_tick()
                .filter(|_| self.is_up)
                .map(|at| at.max(self.now));
            let timer = self.timer();
            let Some(at) = [next, tick, timer].into_iter().flatten().min() else {
                break;
            };
            if at > end || !self.out.violations.is_empty() {
                break;
            }
            self.now = at;
            self.server.now = at;
            if next == Some(at) {
                let Some((_, event)) = self.queue.pop_first() else {
                    break;
                };
                self.happen(event);
            } else if tick == Some(at) {
                self.server.tick(at);
                self.drain();
            } else {
                let second = self.now / 1000;
                let count = self.timers.entry(second).or_default();
                *count += 1;
                if *count > 60 {
                    self.wrong("the timer spins");
                }
                self.feed(Input::Timer);
            }
            self.collect_server_violations();
            if self.is_quiet() {
                return;
            }
        }
        if self.out.violations.is_empty() {
            self.stuck();
        }
    }

    fn collect_server_violations(&mut self) {
        for key in std::mem::take(&mut self.server.ended_by_delete) {
            let of = |id: &TaskId| self.plans.get(id).is_some_and(|plan| plan.key == key);
            if self
                .file
                .tasks
                .values()
                .any(|task| of(&task.id) && !task.status.is_settled())
            {
                self.wrong(format!("a DELETE ended {key}"));
            }
        }
        for words in std::mem::take(&mut self.server.violations) {
            self.wrong(words);
        }
    }

    /// Whether the user is done and every task is decided and saved.
    fn is_quiet(&self) -> bool {
        self.now > self.faults_end
            && !self.is_leaving
            && self.writing.is_none()
            && !self.queue.values().any(|event| {
                matches!(
                    event,
                    Event::Act(_) | Event::Fault(_) | Event::Reborn | Event::Boot | Event::Wake(_)
                )
            })
            && self.link.as_ref().is_some_and(Link::is_at_rest)
            && self.file.tasks.values().all(|task| {
                task.forgotten_at.is_some()
                    || task.status.is_settled()
                    || self.is_ignored(task)
                    || (task.control.is_none()
                        && matches!(task.status, Status::Paused | Status::Unknown(_)))
            })
            && self.clients.is_quiet()
    }

    /// Whether a task waits for an answer that never comes.
    fn is_ignored(&self, task: &longhaul::domain::Task) -> bool {
        task.status == Status::InputRequired
            && task.control.is_none()
            && self.plans.get(&task.id).is_some_and(|plan| plan.is_ignored)
    }

    /// The horizon has come and something is still under way: only what may wait for ever may.
    fn stuck(&mut self) {
        let running: Vec<TaskId> = self
            .file
            .tasks
            .values()
            .filter(|task| matches!(task.status, Status::Running | Status::InputRequired))
            .filter(|task| task.forgotten_at.is_none() && !self.is_ignored(task))
            .map(|task| task.id.clone())
            .collect();
        if running.is_empty() {
            let asks = self.clients.waiting();
            self.wrong(format!("never came to rest, unanswered asks {asks:?}"));
        }
        for id in running {
            match self.may_wait_for_ever(&id) {
                Some(why) => *self.out.statuses.entry(why).or_default() += 1,
                None => self.wrong(format!("{id} hangs")),
            }
        }
    }

    /// The cases in which longhaul never gives up: a person does, and sees why on the row.
    fn may_wait_for_ever(&self, id: &TaskId) -> Option<&'static str> {
        let task = self.file.tasks.get(id)?;
        let attempt = task.attempts.last()?;
        let cursors = &attempt.cursors;
        let has_older_cursor =
            cursors.data.is_some() && (cursors.before.is_some() || cursors.first != cursors.data);
        let stream = self.server.stream_of(&attempt.request_id);
        let is_stopped = stream
            .is_some_and(|of| !of.is_done && self.server.knows(of.session.as_ref()))
            && !self.server.is_working(&of_key(self, id));
        if self.server.style.on_get == super::server::OnGet::Breaks {
            Some("waits: every resume meets a 500")
        } else if is_stopped
            && self.server.style.on_cancel == super::server::OnCancel::StopsSilently
        {
            Some("waits: a cancelled call never answers")
        } else if is_stopped && !self.server.style.has_session {
            Some("waits: a server without sessions was restarted")
        } else if self.has_connection(id) && !self.server.style.always_replays() {
            Some("waits: open and silent, and nothing is replayed")
        } else if !has_older_cursor {
            Some("waits: no older cursor to probe with")
        } else {
            None
        }
    }

    /// Whether the task has a connection that nobody has closed.
    fn has_connection(&self, id: &TaskId) -> bool {
        let link = self.link.as_ref();
        let mut exchanges = self.conns.keys();
        exchanges.any(|exchange| link.and_then(|link| link.task_of(*exchange)) == Some(id))
    }

    fn happen(&mut self, event: Event) {
        let is_ours = matches!(
            event,
            Event::Deliver { .. }
                | Event::Disk { .. }
                | Event::Act(_)
                | Event::Response { .. }
                | Event::Reborn
        );
        if is_ours && self.now < self.asleep_until {
            let at = self.asleep_until;
            return self.push(at, event);
        }
        match event {
            Event::Deliver {
                life,
                conn,
                arrival,
            } => {
                let Some(line) = self.lines.get(conn) else {
                    return;
                };
                let exchange = line.exchange;
                if life == self.life && self.conns.get(&exchange) == Some(&conn) {
                    let is_last = !matches!(
                        arrival,
                        ExchangeEvent::Opened { .. }
                            | ExchangeEvent::Event { .. }
                            | ExchangeEvent::MoreRequests(_)
                            | ExchangeEvent::Sent
                            | ExchangeEvent::Alive
                    );
                    if is_last {
                        self.conns.remove(&exchange);
                    }
                    self.feed(Input::Arrived { exchange, arrival });
                }
            }
            Event::Reach { conn, request } => self.reach(conn, &request),
            Event::Notice(conn) => self.server.dropped(conn),
            Event::Disk { life, token } if life == self.life => self.written(token),
            Event::Disk { .. } => {}
            Event::Act(act) => self.act(act),
            Event::Fault(fault) => self.fault(fault),
            Event::Response {
                life,
                number,
                is_refused,
            } => {
                // What a killed keeper wrote to its socket may still be read, but not after the next one is reached.
                let is_read = life == self.life || self.link.is_none() && self.rng.bool();
                if is_read && !self.clients.got(number, is_refused) {
                    self.wrong(format!("request {number} was answered twice"));
                }
            }
            Event::Reborn => self.reborn(),
            // Of two restarts that overlap the first boot counts.
            Event::Boot if self.is_up => {}
            Event::Boot => {
                self.is_up = true;
                self.server.boot();
                self.drain();
            }
            Event::Wake(slept) => {
                self.slept += slept;
                self.feed(Input::Timer);
            }
        }
    }

    fn feed(&mut self, input: Input) {
        let stamp = self.stamp();
        if self.is_traced {
            let words = format!("{input:?}");
            let words: String = words.chars().take(330).collect();
            self.say(|_| format!("-> {words}"));
        }
        let Some(link) = self.link.as_mut() else {
            return;
        };
        self.out.inputs += 1;
        link.handle(stamp, input);
        let outputs = link.take_outputs();
        let views = link.take_views();
        let erased = link.take_erased();
        let _ = link.take_server_view();
        for id in erased {
            self.unsent.insert(id.clone());
            self.views.remove(&id);
        }
        for output in outputs {
            if self.kills_left > 0
                && self.now < self.faults_end
                && self.rng.u32(0..10_000) < self.kill_rate
            {
                return self.kill();
            }
            self.carry_out(output);
        }
        for view in views {
            self.shown(view);
        }
        if self.is_leaving && self.link.as_ref().is_some_and(Link::is_at_rest) {
            self.left();
        }
        self.try_upgrade();
    }

    /// A person who sees a question answers it after a while.
    fn ponder(&mut self, view: &TaskView) {
        let id = &view.task.id;
        if view.task.status != Status::InputRequired
            || self.plans.get(id).is_none_or(|plan| plan.is_ignored)
        {
            return;
        }
        for question in view.task.questions.iter().filter(|q| q.is_open()) {
            if self.pondered.insert((id.clone(), question.key.clone())) {
                let at = self.now + self.rng.u64(500..40_000);
                let act = Act::Reply(id.clone(), question.key.clone());
                self.push(at, Event::Act(act));
            }
        }
    }

    /// The driver has left in order; somebody starts it again later.
    fn left(&mut self) {
        self.say(|_| "LEFT".to_owned());
        if self.writing.is_some() {
            self.wrong("it is at rest and a save is under way");
        }
        if let Some(number) = self.clients.unanswered().first() {
            self.wrong(format!("it left without an answer to request {number}"));
        }
        self.drop_driver();
    }

    fn carry_out(&mut self, output: Output) {
        if self.is_traced {
            let words = match &output {
                Output::Save {
                    token,
                    rows,
                    is_vital,
                } => format!(
                    "save {token} vital {is_vital}: {}",
                    rows.iter().map(brief).collect::<Vec<_>>().join("; ")
                ),
                other => format!("{other:?}"),
            };
            let words: String = words.chars().take(900).collect();
            self.say(|_| format!("   <- {words}"));
        }
        match output {
            Output::Save { token, rows, .. } => {
                if self.writing.is_some() {
                    self.wrong("two saves at once");
                }
                self.writing = Some((token, Arc::unwrap_or_clone(rows)));
                let slow = self.rng.u32(0..30) == 0;
                let at = self.now
                    + if slow {
                        self.rng.u64(50..3000)
                    } else {
                        self.rng.u64(0..20)
                    };
                self.push(
                    at,
                    Event::Disk {
                        life: self.life,
                        token,
                    },
                );
            }
            Output::Send {
                exchange,
                request,
                after,
            } => match after {
                Some(token) if token > self.saved => {
                    let request = Box::new(request);
                    self.awaiting_save
                        .push((token, AwaitingSave::Send { exchange, request }));
                }
                _ => self.send(exchange, request),
            },
            Output::Close { exchange } => {
                self.awaiting_save.retain(|(_, awaiting_save)| !matches!(awaiting_save, AwaitingSave::Send { exchange: other, .. } if *other == exchange));
                if let Some(conn) = self.conns.remove(&exchange) {
                    self.hang_up(conn);
                }
            }
            Output::Answer {
                ask,
                after,
                outcome,
            } => {
                // A write that failed may be on disk all the same: if the keeper is killed before it can take that
                // back, the next one starts the call.
                let is_refused =
                    matches!(&outcome, Err(error) if !matches!(error, RequestError::CannotSave(_)));
                // The keeper answers these itself if the save fails: with the list, or that nothing is saved yet.
                let is_answered_anyway = matches!(
                    outcome,
                    Ok(SessionResponse::Tools(_) | SessionResponse::Accepted)
                );
                match after {
                    Some(token) if token > self.saved => self.awaiting_save.push((
                        token,
                        AwaitingSave::Answer {
                            ask,
                            is_refused,
                            is_answered_anyway,
                        },
                    )),
                    _ => self.answered(ask, is_refused),
                }
            }
        }
    }

    fn answered(&mut self, ask: SessionRequestId, is_refused: bool) {
        let Some(number) = self.clients.responded(ask) else {
            return self.wrong(format!("ask {ask} was answered twice"));
        };
        // A driver that exits leaves open requests to the next one.
        if !(self.is_leaving && is_refused) {
            self.respond(number, is_refused);
        }
    }

    fn respond(&mut self, number: RequestNumber, is_refused: bool) {
        let at = self.now + self.rng.u64(0..20);
        let life = self.life;
        let response = Event::Response {
            life,
            number,
            is_refused,
        };
        self.push(at, response);
    }

    /// A request reaches the keeper, which knows the calls that it has started before.
    fn request(&mut self, number: RequestNumber, what: SessionRequest) {
        if let SessionRequest::Start(call) = &what {
            let is_here = self
                .link
                .as_ref()
                .is_some_and(|link| link.started_before(call).is_some());
            if is_here || self.file.tasks.contains_key(&call.id) {
                return self.respond(number, false);
            }
        }
        let ask = self.clients.reach(number);
        self.feed(Input::Ask { ask, what });
    }

    /// Becomes another program once everything is saved, unless that would lose a call.
    fn try_upgrade(&mut self) {
        let (Some(until), Some(link)) = (self.upgrades_until, self.link.as_ref()) else {
            return;
        };
        let is_ready = link.is_ready_to_pass_on() && self.awaiting_save.is_empty();
        let is_held = !link.lost_if_passed_on().is_empty();
        if is_ready || self.now > until {
            self.upgrades_until = None;
        }
        if is_ready && !is_held {
            self.say(|_| "UPGRADE".to_owned());
            if self.writing.is_some() {
                self.wrong("it is ready and a save is under way");
            }
            self.end_driver(300);
            // Whatever a cut would have done: this was none.
            for (word, _) in self.promised.values_mut() {
                "upgraded".clone_into(word);
            }
        }
    }

    fn written(&mut self, token: SaveToken) {
        let Some((number, rows)) = self.writing.take_if(|(number, _)| *number == token) else {
            return;
        };
        let fails = self.now < self.disk_fails_until;
        // The worst failure: it is on disk, and nobody knows.
        if !fails || self.rng.u32(0..3) == 0 {
            self.apply(rows);
        }
        if fails {
            let (failed, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.awaiting_save)
                .into_iter()
                .partition(|(after, _)| *after == number);
            self.awaiting_save = stay;
            for (_, output) in failed {
                if let AwaitingSave::Answer {
                    ask,
                    is_refused,
                    is_answered_anyway: true,
                } = output
                {
                    self.answered(ask, is_refused);
                }
            }
            return self.feed(Input::SaveFailed {
                token,
                why: "disk full".to_owned(),
            });
        }
        self.saved = number;
        let (go, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.awaiting_save)
            .into_iter()
            .partition(|(after, _)| *after <= number);
        self.awaiting_save = stay;
        for (_, awaiting_save) in go {
            match awaiting_save {
                AwaitingSave::Send { exchange, request } => self.send(exchange, *request),
                AwaitingSave::Answer {
                    ask, is_refused, ..
                } => self.answered(ask, is_refused),
            }
        }
        self.feed(Input::Saved(token));
    }

    fn apply(&mut self, rows: Vec<Row>) {
        for request_id in starts(&rows) {
            if !self.gone_out.contains(&request_id) {
                self.wrong(format!(
                    "{request_id} is said to have started and never left"
                ));
            }
        }
        let changed = self.file.write(rows);
        let wrongs: Vec<String> = match changed {
            Ok(ids) => {
                let broken = ids.iter().filter_map(|id| self.broken_price(id));
                let mut wrongs: Vec<String> = broken.collect();
                let (server, plans) = (&self.server, &self.plans);
                let false_words = ids
                    .iter()
                    .filter_map(|id| self.file.check(id, server, plans).err());
                wrongs.extend(false_words);
                wrongs
            }
            Err(words) => vec![words],
        };
        for words in wrongs {
            self.wrong(words);
        }
    }

    /// A task that leaving was said not to end must not end by it.
    fn broken_price(&self, id: &TaskId) -> Option<String> {
        let task = self.file.tasks.get(id)?;
        let (word, attempt) = self.promised.get(id)?;
        let is_same = task.attempts.last().map_or(0, |attempt| attempt.number) == *attempt;
        let is_by_leaving = match &task.status {
            Status::Lost(LostReason::CancelledByDisconnect { why }) => {
                why.contains("no longhaul process")
            }
            Status::Unknown(window) => {
                matches!(window, UnknownReason::BeforeTaskId | UnknownReason::NoIds)
                    || word == "upgraded" && *window == UnknownReason::BeforeFirstId
            }
            _ => false,
        };
        (is_same && is_by_leaving && word != "LOST")
            .then(|| format!("{id} was {word} if cut, and is {:?}", task.status))
    }

    fn shown(&mut self, view: TaskView) {
        let id = view.task.id.clone();
        if view.task.status.is_settled() && !view.is_unsaved {
            let saved = self.file.tasks.get(&id).map(|task| task.status.clone());
            if saved.as_ref() != Some(&view.task.status) {
                self.wrong(format!(
                    "{id} is shown {} and saved as {saved:?}",
                    view.task.status.label()
                ));
            }
        }
        let newest = self
            .file
            .history
            .get(&id)
            .and_then(|all| all.keys().next_back().copied());
        if view.saved_seq > newest.unwrap_or(0) {
            self.wrong(format!(
                "{id} claims seq {} saved, the file has {newest:?}",
                view.saved_seq
            ));
        }
        if self
            .views
            .get(&id)
            .is_some_and(|old| old.task.status.is_settled() && old.task.status != view.task.status)
        {
            self.wrong(format!("{id} was settled and changed"));
        }
        self.ponder(&view);
        self.views.insert(id, view);
    }

    fn kill(&mut self) {
        self.say(|_| "KILL -9".to_owned());
        self.kills_left = self.kills_left.saturating_sub(1);
        if let Some((_, rows)) = self.writing.take()
            && self.rng.bool()
        {
            self.apply(rows);
        }
        self.drop_driver();
    }

    fn drop_driver(&mut self) {
        self.end_driver(20_000);
        // Some clients are killed with it, as by a reboot.
        if self.rng.u32(0..4) == 0 {
            let rng = &mut self.rng;
            self.clients.die(|| rng.bool());
        }
    }

    /// The driver is gone, and another one comes within this time.
    fn end_driver(&mut self, within: u64) {
        self.is_leaving = false;
        self.upgrades_until = None;
        self.promised = self
            .file
            .tasks
            .values()
            .filter_map(|task| {
                let price = IfCut::of_task(task)?;
                let attempt = task.attempts.last()?;
                let is_out = attempt.phase != Phase::Queued;
                is_out.then(|| (task.id.clone(), (price.label().to_owned(), attempt.number)))
            })
            .collect();
        self.pondered.clear();
        self.link = None;
        self.life += 1;
        self.awaiting_save.clear();
        self.clients.lose_keeper();
        let open: Vec<Conn> = std::mem::take(&mut self.conns).into_values().collect();
        for conn in open {
            self.hang_up(conn);
        }
        self.saved = 0;
        let at = self.now + self.rng.u64(1..within);
        self.push(at, Event::Reborn);
    }

    fn reborn(&mut self) {
        if self.link.is_some() {
            return;
        }
        let record = self
            .file
            .link
            .clone()
            .unwrap_or_else(|| LinkRecord::new(ServerName::new("lab"), "http://lab/mcp"));
        let seed = self.rng.u64(..);
        self.link = Some(Link::new(record, Choice::default(), seed, self.stamp()));
        self.views.clear();
        let open: Vec<_> = self
            .file
            .tasks
            .values()
            .filter(|task| !task.status.is_settled())
            .map(|task| {
                let attempt = task.attempts.last().map_or(0, |attempt| attempt.number);
                let entries = self
                    .file
                    .history
                    .get(&task.id)
                    .into_iter()
                    .flat_map(|all| all.values());
                let ids = entries
                    .filter(|entry| entry.attempt == attempt)
                    .filter_map(|entry| entry.event_id.clone());
                (task.clone(), ids.collect())
            })
            .collect();
        self.feed(restored(open));
        for (number, what) in self.clients.waiting() {
            if self.link.is_some() {
                self.request(number, what);
            }
        }
    }

    fn delay(&mut self) -> u64 {
        match self.rng.u32(0..40) {
            0 if self.now < self.faults_end => self.rng.u64(30..2500),
            _ => self.rng.u64(0..20),
        }
    }

    fn has_trouble(&mut self) -> bool {
        self.now < self.faults_end && self.rng.u32(0..1000) < self.trouble
    }

    fn send(&mut self, exchange: ExchangeId, request: Request) {
        let conn = self.lines.len();
        self.lines.push(Line {
            exchange,
            life: self.life,
            health: Health::Sound,
            is_opened: false,
            last: self.now,
        });
        self.conns.insert(exchange, conn);
        let why = "no route".to_owned();
        if !self.is_up || self.now < self.net_down_until {
            // A cut network does not answer; only a machine without its server refuses.
            let is_refused = !self.is_up && self.now >= self.net_down_until;
            return self.finish(conn, ExchangeEvent::NotSent { why, is_refused });
        }
        let at = self.now + self.delay();
        let request_id = request_id(&request);
        if self.has_trouble() {
            let trouble = self.rng.u32(0..4);
            if trouble > 0 {
                self.gone_out.extend(request_id);
            }
            match trouble {
                0 => {
                    return self.finish(
                        conn,
                        ExchangeEvent::NotSent {
                            why,
                            is_refused: false,
                        },
                    );
                }
                1 => {
                    return self.finish(
                        conn,
                        ExchangeEvent::NoAnswer {
                            why: "cut before it arrived".to_owned(),
                        },
                    );
                }
                2 => {
                    self.push(
                        at,
                        Event::Reach {
                            conn,
                            request: Box::new(request),
                        },
                    );
                    return self.finish(
                        conn,
                        ExchangeEvent::NoAnswer {
                            why: "cut before an answer".to_owned(),
                        },
                    );
                }
                _ => self.stall(conn),
            }
        } else {
            if request_id.is_some() {
                let (life, arrival) = (self.life, ExchangeEvent::Sent);
                self.push(
                    self.now,
                    Event::Deliver {
                        life,
                        conn,
                        arrival,
                    },
                );
            }
            self.gone_out.extend(request_id);
        }
        self.push(
            at,
            Event::Reach {
                conn,
                request: Box::new(request),
            },
        );
    }

    fn reach(&mut self, conn: Conn, request: &Request) {
        if !self.is_up || self.now < self.net_down_until {
            return self.cut(conn);
        }
        self.check_intent(request);
        self.server.request(conn, request);
        let is_gone = self.lines.get(conn).is_some_and(|line| {
            line.health == Health::Over || self.conns.get(&line.exchange) != Some(&conn)
        });
        if is_gone {
            let at = self.now + self.server.style.notices_ms;
            self.push(at, Event::Notice(conn));
        }
        self.drain();
    }

    /// A call that reaches the server has to be on disk.
    fn check_intent(&mut self, request: &Request) {
        let longhaul::protocol::Method::Post { body, .. } = &request.method else {
            return;
        };
        let message: serde_json::Value = serde_json::from_str(body).expect("we send JSON");
        if let Some(task) = message["params"]["taskId"].as_str()
            && message["method"] == "tasks/get"
            && self.now > self.disk_fails_until + 5000
        {
            let mut known = self
                .file
                .tasks
                .values()
                .filter_map(|of| of.server_task.as_ref());
            if !known.any(|of| of.id == task) {
                self.wrong(format!("{task} was asked for before its id was on disk"));
            }
        }
        if message["params"]["arguments"]["key"].is_null() {
            return;
        }
        let is_saved = self.file.tasks.values().any(|task| {
            task.attempts.iter().any(|attempt| {
                message["id"] == attempt.request_id && attempt.phase != Phase::Queued
            })
        });
        if !is_saved {
            self.wrong(format!(
                "{} reached the server before the disk",
                message["id"]
            ));
        }
    }

    /// Schedules what the server wrote.
    fn drain(&mut self) {
        for (conn, arrival) in std::mem::take(&mut self.server.wire) {
            if self.has_trouble() {
                match self.rng.u32(0..3) {
                    0 => self.cut(conn),
                    1 => {
                        self.deliver(conn, arrival);
                        self.cut(conn);
                        continue;
                    }
                    _ => self.stall(conn),
                }
            }
            self.deliver(conn, arrival);
        }
    }

    fn deliver(&mut self, conn: Conn, arrival: ExchangeEvent) {
        let delay = self.delay();
        let now = self.now;
        let Some(line) = self
            .lines
            .get_mut(conn)
            .filter(|line| line.health == Health::Sound)
        else {
            return;
        };
        line.last = line.last.max(now + delay);
        line.is_opened |= matches!(arrival, ExchangeEvent::Opened { .. });
        if matches!(arrival, ExchangeEvent::Ended | ExchangeEvent::Refused(_)) {
            line.health = Health::Over;
        }
        let (at, of) = (line.last, line.life);
        self.push(
            at,
            Event::Deliver {
                life: of,
                conn,
                arrival,
            },
        );
    }

    /// The last thing that a connection brings.
    fn finish(&mut self, conn: Conn, arrival: ExchangeEvent) {
        let delay = self.delay();
        let now = self.now;
        let Some(line) = self
            .lines
            .get_mut(conn)
            .filter(|line| line.health != Health::Over)
        else {
            return;
        };
        line.last = line.last.max(now + delay);
        line.health = Health::Over;
        let (at, of) = (line.last, line.life);
        self.push(
            at,
            Event::Deliver {
                life: of,
                conn,
                arrival,
            },
        );
    }

    /// Ends a connection. A request that is on its way on it still arrives: proxies and busy servers hold one longer
    /// than its connection lives.
    fn cut(&mut self, conn: Conn) {
        let Some(line) = self
            .lines
            .get(conn)
            .filter(|line| line.health != Health::Over)
        else {
            return;
        };
        let why = "connection reset by peer".to_owned();
        let arrival = if line.is_opened {
            ExchangeEvent::Broken { why }
        } else {
            ExchangeEvent::NoAnswer { why }
        };
        self.finish(conn, arrival);
        let at = self.now + self.server.style.notices_ms;
        self.push(at, Event::Notice(conn));
    }

    /// From here on its bytes go nowhere; a fair network does not do that to one connection after another.
    fn stall(&mut self, conn: Conn) {
        if self.now < self.last_stall + 120_000 {
            return self.cut(conn);
        }
        self.last_stall = self.now;
        self.stall_one(conn);
    }

    fn stall_one(&mut self, conn: Conn) {
        let Some(line) = self
            .lines
            .get_mut(conn)
            .filter(|line| line.health == Health::Sound)
        else {
            return;
        };
        line.health = Health::Stalled;
        let why = "timed out".to_owned();
        let arrival = if line.is_opened {
            ExchangeEvent::Broken { why }
        } else {
            ExchangeEvent::NoAnswer { why }
        };
        let (of, is_opened) = (line.life, line.is_opened);
        // A proxy that drops what it gets acknowledges it all the same, so that nobody ever learns of it.
        let is_proxy = is_opened && self.server.style.gives_ids && self.rng.bool();
        self.say(|_| format!("connection {conn} stalls, by a proxy: {is_proxy}"));
        if is_proxy {
            return;
        }
        let at = self.now + KERNEL_PATIENCE;
        self.push(
            at,
            Event::Deliver {
                life: of,
                conn,
                arrival,
            },
        );
        self.push(at, Event::Notice(conn));
    }

    fn hang_up(&mut self, conn: Conn) {
        if let Some(line) = self.lines.get_mut(conn) {
            line.health = Health::Over;
        }
        let at = self.now + self.server.style.notices_ms;
        self.push(at, Event::Notice(conn));
    }

    fn open_conns(&self) -> Vec<Conn> {
        let mut conns: Vec<Conn> = self.conns.values().copied().collect();
        conns.sort_unstable();
        conns
    }

    fn fault(&mut self, fault: Fault) {
        self.say(|_| format!("FAULT {fault:?}"));
        match fault {
            Fault::CutAll => self
                .open_conns()
                .into_iter()
                .for_each(|conn| self.cut(conn)),
            Fault::StallAll => {
                self.last_stall = self.now;
                self.open_conns()
                    .into_iter()
                    .for_each(|conn| self.stall_one(conn));
            }
            Fault::NetDown(time) => {
                self.net_down_until = self.now + time;
                if self.rng.bool() {
                    self.open_conns()
                        .into_iter()
                        .for_each(|conn| self.cut(conn));
                } else {
                    self.last_stall = self.now;
                    self.open_conns()
                        .into_iter()
                        .for_each(|conn| self.stall_one(conn));
                }
            }
            Fault::Restart(time) => {
                self.is_up = false;
                self.open_conns()
                    .into_iter()
                    .for_each(|conn| self.cut(conn));
                self.server.die();
                let at = self.now + time;
                self.push(at, Event::Boot);
            }
            Fault::Kill => {
                if self.link.is_some() {
                    self.kill();
                }
            }
            Fault::Sleep(time) => {
                if self.now < self.asleep_until {
                    return;
                }
                self.asleep_until = self.now + time;
                if self.rng.bool() {
                    self.last_stall = self.now + time;
                    self.open_conns()
                        .into_iter()
                        .for_each(|conn| self.stall_one(conn));
                }
                let at = self.asleep_until;
                self.push(at, Event::Wake(time));
            }
            Fault::WallJump(by) => self.jumped += by,
            Fault::ForgetSessions => self.server.forget_sessions(),
            Fault::Bar(time) => self.server.barred_until = self.now + time,
            Fault::Busy(time) => self.server.busy_until = self.now + time,
            Fault::Intercepted(time, how) => self.server.intercepted = Some((self.now + time, how)),
            Fault::DiskFails(time) => self.disk_fails_until = self.now + time,
        }
    }

    fn act(&mut self, act: Act) {
        if self.link.is_none() {
            let at = self.now + 21_000;
            return self.push(at, Event::Act(act));
        }
        if matches!(act, Act::RetryNow | Act::Resume(_)) {
            self.server.task_host.nudges += 4;
        }
        let chosen = |world: &Self, which: usize| {
            let count = world.order.len();
            (count > 0)
                .then(|| world.order.get(which % count).cloned())
                .flatten()
        };
        let what = match act {
            Act::Start => Some(self.new_call()),
            // A second pause stops the call.
            Act::Pause(which) => chosen(self, which).map(|id| match self.views.get(&id) {
                Some(view) if view.task.control.is_some() => SessionRequest::StopNow(id),
                _ => SessionRequest::Pause(id),
            }),
            Act::Resume(which) => chosen(self, which).map(SessionRequest::Resume),
            Act::Cancel(which) => chosen(self, which).map(SessionRequest::Cancel),
            Act::GiveUp(which) => chosen(self, which)
                .filter(|id| {
                    self.views
                        .get(id)
                        .is_some_and(|view| matches!(view.task.status, Status::Unknown(_)))
                })
                .map(SessionRequest::GiveUp),
            Act::Forget(which) => chosen(self, which).map(SessionRequest::Forget),
            Act::RetryNow => Some(SessionRequest::RetryNow),
            Act::Reply(id, key) => {
                self.pondered.remove(&(id.clone(), key.clone()));
                let is_open = self.views.get(&id).is_some_and(|view| {
                    let mut open = view.task.questions.iter().filter(|q| q.is_open());
                    open.any(|question| question.key == key)
                });
                self.replies += 1;
                let answer = match self.rng.u32(0..8) {
                    0 => Answer::Decline,
                    1 => Answer::Dismiss,
                    _ => Answer::Accept {
                        content: Some(json!({"n": self.replies}).to_string()),
                    },
                };
                let key = Some(key);
                is_open.then_some(SessionRequest::Answer { id, key, answer })
            }
            Act::Leave => {
                self.is_leaving = true;
                self.feed(Input::Leave);
                return;
            }
            Act::Upgrade => {
                self.upgrades_until = Some(self.now + 500);
                self.feed(Input::SaveAll);
                return;
            }
            Act::Tools => Some(SessionRequest::Tools(ServerName::new("lab"))),
        };
        if let Some(what) = what {
            let number = self.clients.ask(what.clone());
            self.request(number, what);
        }
    }

    fn new_call(&mut self) -> SessionRequest {
        let id = TaskId::from_bits(self.rng.u64(..));
        let is_checkpoint = self.server.style.convention.is_some() && self.rng.bool();
        let key = format!("k{}", self.order.len());
        let steps = *[0, 3, 12, 40].get(self.rng.usize(0..4)).unwrap_or(&3);
        let every = self.rng.u64(50..3000);
        let fails = self.rng.u32(0..10) == 0;
        let has_limit = self.rng.u32(0..12) == 0;
        let (asks, rounds, is_ignored) = if self.server.task_host.is_new {
            let some = |rng: &mut fastrand::Rng| rng.u64(0..5).saturating_sub(2);
            (
                some(&mut self.rng),
                some(&mut self.rng),
                self.rng.u32(0..15) == 0,
            )
        } else {
            (0, 0, false)
        };
        let arguments = if is_checkpoint {
            json!({"key": key, "total": steps * 2 + 4, "batch": 2, "every": every})
        } else {
            json!({"key": key, "steps": steps, "every": if steps == 0 { every * 20 } else { every }, "fails": fails,
                "asks": asks, "rounds": rounds})
        };
        let plan = Plan {
            key,
            is_checkpoint,
            fails,
            steps,
            has_limit,
            is_ignored,
        };
        self.plans.insert(id.clone(), plan);
        self.order.push(id.clone());
        let seconds = |rng: &mut fastrand::Rng| std::time::Duration::from_secs(rng.u64(5..200));
        let limits = Limits {
            idle: (has_limit && self.rng.bool()).then(|| seconds(&mut self.rng)),
            hard: (has_limit && self.rng.bool()).then(|| seconds(&mut self.rng)),
        };
        let is_job = !is_checkpoint && self.server.task_host.has_task_tool() && self.rng.bool();
        let tool = match (is_checkpoint, is_job) {
            (true, _) => "work",
            (_, true) => "job",
            _ => "steps",
        };
        let tool = tool.to_owned();
        SessionRequest::Start(Box::new(NewCall {
            limits,
            ..NewCall::new(id, ServerName::new("lab"), tool, arguments.to_string())
        }))
    }

    fn judge(&mut self) {
        for task in self.file.tasks.values() {
            let word = if task.forgotten_at.is_some() {
                "forgotten"
            } else {
                task.status.label()
            };
            *self.out.statuses.entry(word).or_default() += 1;
        }
        if !self.out.violations.is_empty() {
            return;
        }
        if let Some((number, what)) = self.clients.waiting().first() {
            self.wrong(format!("request {number} was never answered: {what:?}"));
        }
        for what in std::mem::take(&mut self.clients.refused) {
            let SessionRequest::Start(call) = what else {
                continue;
            };
            let plan = self.plans.get(&call.id);
            if plan.is_some_and(|plan| self.server.begun.contains_key(&plan.key)) {
                self.wrong(format!("{} was refused and ran", call.id));
            }
        }
        let ids: Vec<TaskId> = self.file.tasks.keys().cloned().collect();
        for id in ids {
            if let Err(words) = self.file.judge(&id, &self.server, &self.plans) {
                self.wrong(words);
            }
        }
        self.out.fallen = self.file.fallen;
        for (key, times) in self.server.begun.clone() {
            if times > 1 {
                self.wrong(format!("{key} ran {times} times"));
            }
        }
        for (task, polls) in &self.server.task_host.polls {
            let (Some(first), Some(last)) = (polls.first(), polls.last()) else {
                continue;
            };
            let pace = self.server.task_host.pace();
            let allowed = (last - first) / pace + 12 + 3 * self.server.task_host.nudges;
            if u64::try_from(polls.len()).unwrap_or(0) > allowed {
                let words = format!(
                    "{task} was asked for {} times, allowed {allowed}",
                    polls.len()
                );
                return self.wrong(words);
            }
        }
        let streams = 4;
        let mut from = 0;
        let requests = std::mem::take(&mut self.server.requests);
        for (to, at) in requests.iter().enumerate() {
            while requests
                .get(from)
                .is_some_and(|first| at - first > 3_600_000)
            {
                from += 1;
            }
            // A restarted process begins with a fresh budget: seconds of the next start, not a storm.
            if to - from > (1000 + 150 * streams) {
                return self.wrong("more requests in an hour than allowed");
            }
        }
    }
}

fn of_key(world: &World, id: &TaskId) -> String {
    world
        .plans
        .get(id)
        .map(|plan| plan.key.clone())
        .unwrap_or_default()
}

fn request_id(request: &Request) -> Option<String> {
    let longhaul::protocol::Method::Post { body, .. } = &request.method else {
        return None;
    };
    let message: serde_json::Value = serde_json::from_str(body).ok()?;
    Some(message["id"].as_str()?.to_owned())
}

/// The request ids of the attempts that these rows say have started.
fn starts(rows: &[Row]) -> Vec<String> {
    let mut started = Vec::new();
    for row in rows {
        let Row::History { task, entries } = row else {
            continue;
        };
        let attempts = rows.iter().find_map(|row| match row {
            Row::Task(of) if of.id == *task => Some(&of.attempts),
            _ => None,
        });
        for entry in entries {
            let is_start = matches!(entry.what, HistoryEvent::Started { .. });
            let attempt = attempts
                .into_iter()
                .flatten()
                .find(|attempt| is_start && attempt.number == entry.attempt);
            started.extend(attempt.map(|attempt| attempt.request_id.clone()));
        }
    }
    started
}

fn brief(row: &Row) -> String {
    match row {
        Row::Task(task) => format!(
            "task {} {:?} asked {:?} seq {} attempt {:?}",
            task.id,
            task.status,
            task.control.map(|a| a.what),
            task.seq,
            task.attempts.last().map(|a| (
                a.number,
                a.phase,
                a.session_number,
                a.cursors.newest.clone(),
                a.cursors.data.clone(),
                a.last_value
            ))
        ),
        Row::History { entries, .. } => format!(
            "history {:?}",
            entries
                .iter()
                .map(|e| (e.seq, e.event_id.clone(), e.what.clone()))
                .collect::<Vec<_>>()
        ),
        Row::Result { task, .. } => format!("result {task}"),
        Row::Link(link) => format!("link {link:?} initialized {}", link.is_initialized),
        Row::Erase(id) => format!("erase {id}"),
    }
}
