//! A day of fifty tasks of every kind under cuts, in simulated time: the real machines, session file and screen state,
//! and what they hold and ask for at every hour.
//!
//! Alone in its process, so that the memory of the process is theirs. `-- --nocapture` prints each hour in the end.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

mod server;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    fs,
    sync::Arc,
};

use crate::support::alone::ran_alone;
use longhaul::{
    app::{Command, Event, Setup, State, UserInput as Key, update},
    domain::{
        HistoryEntry, HistoryEvent, LinkRecord, Mono, NewCall, Progress, ProtocolVersion, Row,
        Saved, SavedRead, ServerName, SessionEvent, SessionRequest, Stamp, Status, TaskCapability,
        TaskId, TaskKind, Wall,
    },
    link::{Choice, ExchangeId, Input, Link, Output},
    protocol::ExchangeEvent,
    store::{Durability, Lookup, Paths, Reader, Writer},
    ui,
};
use ratatui::{Terminal, backend::TestBackend};
use server::{Cost, Kind, POLL, Server, tools};

const START: i64 = 1_700_000_000_000;
const HOUR: u64 = 3600;
/// A quarter of it remains once all that is bounded is full.
const DAY: u64 = 16 * HOUR;
/// Tasks that are at work all day; beside them one after the other begins and ends.
const LONG: [(Kind, u64); 4] = [
    (Kind::Stream, 20),
    (Kind::Checkpoint, 10),
    (Kind::Core, 8),
    (Kind::Extension, 8),
];
/// Of the streams and checkpoint tools, so many are so loud that the middle of their histories is thinned.
const LOUD: u64 = 2;
/// More steps than a history keeps; the loud ones have made them before the second hour begins.
const MANY: u64 = 10_400;
/// More steps than a machine remembers the ids of; the others have made these by then.
const FEW: u64 = 1100;
/// Seconds between the beginnings of two short tasks, and how long one takes.
const SHORT_EVERY: u64 = 60;
const SHORT_LASTS: u64 = 720;
/// Seconds between two looks of the screen at what changed.
const LOOK_EVERY: u64 = 60;
const SHORT_STEPS: u64 = 12;
/// What a settled task may cost: in memory, in the file, in the screen's state in words, and as a server task that has to
/// be known if its server lists it.
const SETTLED_MEMORY: u64 = 4096;
const SETTLED_DISK: u64 = 8192;
const SETTLED_WORDS: usize = 3000;
const SETTLED_ID: usize = 64;
/// What the streams of a link may hold more while each is requested again beside its old connection.
const REQUESTED_AGAIN: usize = 40 * 300;

/// A link, its server, and what is under way between them.
struct Side {
    link: Link,
    server: Server,
    /// When the next cut comes.
    cut_at: u64,
    cuts: u64,
}

struct Day {
    now_ms: u64,
    sides: [Side; 3],
    writer: Writer,
    reader: Reader,
    state: State,
    paths: Paths,
    rng: fastrand::Rng,
    asks: u64,
    tasks: Vec<(TaskId, Kind, u64)>,
    terminal: Terminal<TestBackend>,
}

/// The memory and file sizes at an hour.
#[derive(Clone, Copy, Debug, Default)]
struct MemoryUse {
    /// Of a link in words: every collection of it is in there.
    links: [usize; 3],
    state: usize,
    /// Memory of the process that is no file's.
    anon: u64,
    file: u64,
    log: u64,
    settled: usize,
}

/// The step that an entry of a history tells.
fn step(entry: &HistoryEntry) -> Option<f64> {
    match entry.what {
        HistoryEvent::Progress(Progress { value, .. }) => Some(value),
        _ => None,
    }
}

/// Counts what is written.
struct Count(usize);

impl fmt::Write for Count {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

fn size_in_words(value: &impl fmt::Debug) -> usize {
    let mut count = Count(0);
    write!(count, "{value:?}").unwrap();
    count.0
}

/// A server with a known era.
fn record(name: &str) -> LinkRecord {
    let is_modern = name == "new";
    let mut record = LinkRecord::new(ServerName::new(name), format!("http://{name}/mcp"));
    (record.session_number, record.is_initialized) = (1, true);
    record.session = (!is_modern).then(|| "s".to_owned());
    record.version = Some(if is_modern {
        ProtocolVersion::V20260728
    } else {
        ProtocolVersion::V20251125
    });
    record.tasks = Some(TaskCapability {
        kind: if is_modern {
            TaskKind::Extension
        } else {
            TaskKind::Core
        },
        can_list: false,
    });
    record.binds_tasks = (!is_modern).then_some(false);
    record.tools_at = Some(Wall(START));
    record.tools = longhaul::protocol::parse_tool_page(&tools(is_modern).to_string()).0;
    record
}

impl Day {
    fn new(paths: Paths) -> Self {
        let stamp = Stamp {
            mono: Mono(0),
            wall: Wall(START),
        };
        let side = |name: &str| Side {
            link: Link::new(record(name), Choice::default(), 7, stamp),
            server: Server::new(name == "new"),
            cut_at: 200,
            cuts: 0,
        };
        let writer = Writer::open(&paths, stamp.wall).unwrap().writer;
        let mut state = State::new(Setup::default());
        update(&mut state, Event::Input(Key::Resize(120, 36)), stamp);
        Self {
            now_ms: 0,
            sides: ["lab", "mill", "new"].map(side),
            writer,
            reader: Reader::open(&paths).unwrap(),
            state,
            paths,
            rng: fastrand::Rng::with_seed(24),
            asks: 0,
            tasks: Vec::new(),
            terminal: Terminal::new(TestBackend::new(120, 36)).unwrap(),
        }
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            mono: Mono(self.now_ms),
            wall: Wall(START + i64::try_from(self.now_ms).unwrap()),
        }
    }

    /// Feeds a link, and carries out what follows until nothing does.
    fn feed(&mut self, at: usize, input: Input) {
        let now = self.stamp();
        let mut inputs = vec![input];
        while !inputs.is_empty() {
            for input in std::mem::take(&mut inputs) {
                self.sides[at].link.handle(now, input);
            }
            for output in self.sides[at].link.take_outputs() {
                match output {
                    Output::Save {
                        token,
                        rows,
                        is_vital,
                    } => {
                        self.save(&rows, is_vital, now.wall);
                        inputs.push(Input::Saved(token));
                    }
                    Output::Send {
                        exchange, request, ..
                    } => self.sides[at].server.take(exchange, &request),
                    Output::Close { exchange } => self.sides[at].server.closed(exchange),
                    Output::Answer { outcome, .. } => drop(outcome.unwrap()),
                }
            }
            inputs.extend(self.arrived(at));
        }
    }

    fn arrived(&mut self, at: usize) -> Vec<Input> {
        let out = self.sides[at].server.out.drain(..);
        let input =
            |(exchange, arrival): (ExchangeId, ExchangeEvent)| Input::Arrived { exchange, arrival };
        out.map(input).collect()
    }

    fn save(&mut self, rows: &[Row], is_vital: bool, wall: Wall) {
        let durability = if is_vital {
            Durability::Full
        } else {
            Durability::Normal
        };
        self.writer.save(rows, durability, wall).unwrap();
        self.writer.shorten_log();
    }

    /// Lets a second pass.
    fn second(&mut self) {
        let end = self.now_ms + 1000;
        for at in 0..self.sides.len() {
            self.now_ms = end - 1000;
            while let Some(wake) = self.sides[at].link.next_wake().filter(|wake| wake.0 < end) {
                self.now_ms = self.now_ms.max(wake.0);
                self.feed(at, Input::Timer);
            }
        }
        self.now_ms = end;
        let now = end / 1000;
        for at in 0..self.sides.len() {
            let side = &mut self.sides[at];
            side.server.now = now;
            side.server.tick();
            if now >= side.cut_at && now < DAY - 1800 {
                side.cuts += 1;
                side.cut_at = now + self.rng.u64(60..900);
                let broken = ExchangeEvent::Broken {
                    why: "connection reset by peer".to_owned(),
                };
                match self.rng.u32(0..4) {
                    0 => side.server.cut(Some(&ExchangeEvent::Ended)),
                    1 => side.server.cut(Some(&broken)),
                    // No one is notified; open streams deliver nothing more.
                    2 => side.server.cut(None),
                    _ => {
                        side.server.down_until = now + self.rng.u64(1..60);
                        side.server.cut(Some(&broken));
                    }
                }
                side.server.lose_loops(&mut self.rng);
            }
            for input in self.arrived(at) {
                self.feed(at, input);
            }
        }
    }

    fn side_of(kind: Kind) -> usize {
        match kind {
            Kind::Stream => 0,
            Kind::Checkpoint | Kind::Core => 1,
            Kind::Extension => 2,
        }
    }

    fn start(&mut self, kind: Kind, pace: u64, steps: u64, hurries: u64) {
        let at = Self::side_of(kind);
        self.asks += 1;
        let id = TaskId::from_bits(self.asks);
        self.tasks.push((id.clone(), kind, steps));
        let call = NewCall::new(
            id,
            self.sides[at].link.record().name.clone(),
            kind.tool().to_owned(),
            format!(r#"{{"pace":{pace},"steps":{steps},"hurries":{hurries}}}"#),
        );
        let (ask, what) = (self.asks, SessionRequest::Start(Box::new(call)));
        self.feed(at, Input::Ask { ask, what });
    }

    /// The screen takes in what changed, reads what it wants to show, and draws now and then.
    fn look(&mut self, draws: bool) {
        let mut events = Vec::new();
        for side in &mut self.sides {
            events.extend(
                side.link
                    .take_views()
                    .into_iter()
                    .map(|view| SessionEvent::Task(Arc::new(view))),
            );
            events.extend(
                side.link
                    .take_server_view()
                    .map(|view| SessionEvent::Server(Arc::new(view))),
            );
            assert!(side.link.take_erased().is_empty());
        }
        let now = self.stamp();
        let mut events: Vec<Event> = events.into_iter().map(Event::Session).collect();
        while let Some(event) = events.pop() {
            for command in update(&mut self.state, event, now) {
                if let Command::Read(SavedRead::History { task, after_seq }) = command {
                    let mut entries = self.reader.history_tail(&task, 2000).unwrap();
                    entries.retain(|entry| entry.seq > after_seq);
                    let saved = Saved::History {
                        entries,
                        dropped: 0,
                    };
                    let read = SavedRead::History { task, after_seq };
                    events.push(Event::Read(read, Some(saved)));
                }
            }
        }
        if draws {
            self.terminal
                .draw(|frame| ui::view(frame, &self.state, now))
                .unwrap();
        }
    }

    fn held(&self) -> MemoryUse {
        let of_proc = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let anon = of_proc
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let size = |path: &std::path::Path| fs::metadata(path).map_or(0, |found| found.len());
        MemoryUse {
            links: [0, 1, 2].map(|at| size_in_words(&self.sides[at].link)),
            state: size_in_words(&self.state),
            // Other systems than Linux tell it otherwise; there it stays 0.
            anon: anon
                .and_then(|anon| anon.trim().strip_suffix(" kB")?.parse().ok())
                .map_or(0, |kb: u64| kb * 1024),
            file: size(&self.paths.db()),
            log: size(&self.paths.db().with_extension("db-wal")),
            settled: self.sides.iter().map(|side| side.server.ended).sum(),
        }
    }
}

#[test]
fn a_day_of_tasks_under_cuts_does_not_grow_memory() {
    let name = "a_day_of_tasks_under_cuts_does_not_grow_memory";
    if ran_alone(&format!("day::{name}")) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::resolve(Some(dir.path().to_owned()), "day").unwrap();
    let mut day = Day::new(paths.clone());
    for (kind, count) in LONG {
        for number in 0..count {
            let is_loud = number < LOUD && matches!(kind, Kind::Stream | Kind::Checkpoint);
            let (pace, hurries) = if is_loud { (20, MANY) } else { (300, FEW) };
            day.start(kind, pace, 1_000_000, hurries);
        }
    }
    let mut held: Vec<MemoryUse> = Vec::new();
    for second in 1..=DAY {
        day.second();
        if second % SHORT_EVERY == 0 && second < DAY - 1800 {
            let kind = Kind::ALL[usize::try_from(second / SHORT_EVERY % 4).unwrap()];
            day.start(kind, SHORT_LASTS / SHORT_STEPS, SHORT_STEPS, 0);
        }
        if second % LOOK_EVERY == 0 {
            day.look(second % 600 == 0);
        }
        if second % HOUR == 0 {
            let hour = day.held();
            println!("{:2} h: {hour:?}", second / HOUR);
            held.push(hour);
        }
    }
    // What came in the last second is on its way to the file.
    day.second();
    day.check(&held);
}

#[expect(clippy::print_stdout, reason = "the figures of each hour")]
impl Day {
    fn check(mut self, held: &[MemoryUse]) {
        for (at, side) in self.sides.iter().enumerate() {
            let cost = &side.server.cost;
            let others = Cost::busiest_hour(&cost.others);
            let polls = Cost::busiest_hour(&cost.polls);
            println!(
                "server {at}: {others} requests and {polls} looks in the busiest hour, {} cuts",
                side.cuts
            );
            let of = |kind: &Kind| Day::side_of(*kind) == at;
            let mut at_once = LONG
                .iter()
                .filter(|(kind, _)| of(kind))
                .map(|(_, count)| count)
                .sum::<u64>();
            at_once += SHORT_LASTS / SHORT_EVERY;
            // Each look comes a minute after the one before, or after a cut.
            assert!(
                polls as u64 <= at_once * (HOUR / POLL + 12),
                "server {at}: {polls} looks"
            );
            assert!(
                others as u64 <= 1000 + 150 * at_once,
                "server {at}: {others} requests"
            );
        }
        let (first, full, last) = (held[1], held[11], held[held.len() - 1]);
        for (hour, now) in held.iter().enumerate().skip(2) {
            let settled = now.settled - first.settled;
            for (at, per_task) in [0, 0, SETTLED_ID].into_iter().enumerate() {
                // The newest attempts of a checkpoint tool are kept, up to a number that is reached in half a day.
                let was = if hour < 11 {
                    first.links[at] * 2
                } else {
                    full.links[at]
                };
                let at_most = was * 21 / 20 + per_task * settled + REQUESTED_AGAIN;
                assert!(
                    now.links[at] <= at_most,
                    "link {at} in hour {hour}: {now:?}, first {first:?}"
                );
            }
            let at_most = first.state * 5 / 4 + SETTLED_WORDS * settled;
            assert!(
                now.state <= at_most,
                "the screen in hour {hour}: {now:?}, first {first:?}"
            );
            assert!(now.log <= 16 << 20, "{now:?}");
        }
        let settled = last.settled - first.settled;
        // What the allocator keeps of the largest readings comes on top.
        let at_most = first.anon + SETTLED_MEMORY * settled as u64 + (12 << 20);
        assert!(last.anon <= at_most, "{first:?} and {last:?}");
        let at_most = first.file + SETTLED_DISK * settled as u64 + (6 << 20);
        assert!(last.file <= at_most, "{first:?} and {last:?}");
        self.check_tasks();
    }

    /// What the file holds of each task in the end.
    fn check_tasks(&mut self) {
        let mut calls: BTreeMap<Kind, usize> = BTreeMap::new();
        let mut at_work = Vec::new();
        for (id, kind, steps) in std::mem::take(&mut self.tasks) {
            let Lookup::One(task) = self.reader.task(id.as_str()).unwrap() else {
                panic!("{id} is gone");
            };
            *calls.entry(kind).or_default() += 1;
            let is_short = steps == SHORT_STEPS;
            let status = if is_short {
                Status::Completed
            } else {
                Status::Running
            };
            let history = self.reader.history(&id, 0, usize::MAX).unwrap();
            assert_eq!(task.status, status, "{kind:?} {task:#?} {history:#?}");
            let values: Vec<f64> = history.iter().filter_map(step).collect();
            let breaks = |pair: &&[f64]| pair[1] - pair[0] < 0.5;
            assert_eq!(values.windows(2).find(breaks), None, "{kind:?} {id}");
            assert!(values.len() <= 10_000, "{id} holds {} steps", values.len());
            if kind != Kind::Stream {
                continue;
            }
            // Of the loud ones the middle is left out.
            let newest = values
                .len()
                .saturating_sub(if is_short { values.len() } else { 1000 });
            let gap = |pair: &&[f64]| pair[1] - pair[0] > 1.5;
            assert_eq!(values[newest..].windows(2).find(gap), None, "{id}");
            let last = values.last().copied().unwrap_or_default();
            if is_short {
                assert_eq!(values.len(), 12, "{id}: {values:?}");
            } else {
                at_work.push(last.to_string());
            }
        }
        let mut wanted = self.sides[0].server.steps();
        at_work.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(at_work, wanted, "the file is where the servers are");
        for side in &self.sides {
            for (kind, times) in &side.server.calls {
                let is_once = *times == calls[kind];
                assert!(
                    is_once || *kind == Kind::Checkpoint && *times > calls[kind],
                    "{kind:?}: {times}"
                );
            }
        }
    }
}
