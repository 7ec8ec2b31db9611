//! `kill -9` at any moment: nothing lost, nothing twice, and a history that is what the server sent.
//!
//! `cargo test` does 15 rounds of the crowd; `LONGHAUL_KILL_ROUNDS=1000 cargo test --test it a_crowd` does more, and
//! `LONGHAUL_KILL_FIRST=SEED LONGHAUL_KILL_ROUNDS=1` the one that failed.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::support::{
    demo_server,
    program::{Ran, Running, program, run},
    server,
};
use futures_util::stream;
use longhaul::{
    demo,
    domain::{
        HistoryEntry, HistoryEvent, LinkRecord, Phase, Progress, ProtocolVersion, Row, ServerName,
        Status, Task, Wall,
    },
    store::{DriverLock, Durability, ListFilter, Paths, Reader, Writer},
};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Rounds of a plain `cargo test`.
const ROUNDS: u64 = 15;
/// Rounds at once: they mostly wait for the pace of server tasks.
const AT_ONCE: usize = 6;

/// The demo server in this process, and room for state directories.
struct Bench {
    dir: TempDir,
    server: demo_server::DemoServer,
    /// A server of the modern kind that gives no ids and makes no tasks, and the calls that reached it.
    plain: std::net::SocketAddr,
    plain_calls: std::sync::Arc<Mutex<Vec<String>>>,
}

/// The ways that a call can take, each of them kept on the server in another manner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A stream whose events have ids.
    Stream,
    /// A checkpoint tool on such a stream.
    Checkpoint,
    /// A task of 2025-11-25.
    Core,
    /// A task of the extension of 2026-07-28.
    Extension,
    /// A stream without ids: what is lost of it is lost.
    Plain,
}

impl Way {
    const ALL: [Self; 5] = [
        Self::Stream,
        Self::Checkpoint,
        Self::Core,
        Self::Extension,
        Self::Plain,
    ];

    fn server(self) -> &'static str {
        match self {
            Self::Stream | Self::Checkpoint => "streams",
            Self::Core => "core",
            Self::Extension => "extension",
            Self::Plain => "plain",
        }
    }

    /// What names the call of a round, so that the server can be asked what it did for it.
    fn tag(self, round: &str) -> String {
        format!("{round}-{}", self.server())
    }

    /// The call of a round.
    fn call(self, round: &str) -> Vec<String> {
        let tag = self.tag(round);
        let (tool, arguments): (&str, &[&str]) = match self {
            Self::Stream => ("get_forecast", &["city=TAG", "stations=10", "delay_ms=25"]),
            Self::Checkpoint => (
                "resumable_data_processing",
                &[
                    "dataset_name=TAG",
                    "total_records=50",
                    "batch_size=5",
                    "delay_ms=25",
                ],
            ),
            Self::Core | Self::Extension => {
                ("render_movie", &["scene=TAG", "frames=20", "frame_ms=20"])
            }
            Self::Plain => ("plain", &["tag=TAG"]),
        };
        let call = ["-s", self.server(), "call", tool, "--json"];
        let arguments = arguments.iter().map(|it| it.replace("TAG", &tag));
        call.into_iter()
            .map(str::to_owned)
            .chain(arguments)
            .collect()
    }

    fn of(task: &Task) -> Self {
        let is_its = |way: &Self| {
            let call = way.call("");
            way.server() == task.server.as_str() && call[3] == task.tool
        };
        Self::ALL.into_iter().find(is_its).unwrap()
    }
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = server::demo(dir.path().join("demo"));
        let plain_calls = std::sync::Arc::<Mutex<Vec<String>>>::default();
        let calls = std::sync::Arc::clone(&plain_calls);
        let plain = server::one_tool("plain", move |call| {
            let tag = call.arguments()["tag"].as_str().unwrap().to_owned();
            let last = call.result(&format!("done {tag}"));
            calls.lock().unwrap().push(tag);
            stream::iter([call.step(1), call.step(2), call.step(3), last])
        });
        Self {
            dir,
            server,
            plain,
            plain_calls,
        }
    }

    /// A state directory that knows each server by the name and in the revision of its ways.
    fn state(&self, name: &str) -> PathBuf {
        let state = self.dir.path().join(name);
        let paths = paths(&state);
        let demo = self.server.url();
        let plain = format!("http://{}/mcp", self.plain);
        let links = [
            ("streams", &demo, ProtocolVersion::V20250618),
            ("core", &demo, ProtocolVersion::V20251125),
            ("extension", &demo, ProtocolVersion::V20260728),
            ("plain", &plain, ProtocolVersion::V20250618),
        ];
        let rows = links.map(|(name, url, wish)| {
            let mut record = LinkRecord::new(ServerName::new(name), url);
            record.pinned_version = Some(wish);
            Row::Link(Box::new(record))
        });
        let mut opened = Writer::open(&paths, Wall(1)).unwrap();
        opened
            .writer
            .save(&rows, Durability::Normal, Wall(1))
            .unwrap();
        state
    }

    /// A question to the demo server's own file.
    fn ask<T: rusqlite::types::FromSql>(&self, sql: &str, of: &str) -> Vec<T> {
        let file = rusqlite::Connection::open(self.dir.path().join("demo/demo.db")).unwrap();
        let mut query = file.prepare(sql).unwrap();
        let rows = query.query_map([of], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    /// How often the server has begun a call.
    fn runs(&self, way: Way, tag: &str) -> usize {
        let quoted = format!("%\"{tag}\"%");
        match way {
            Way::Stream => {
                let sql = "SELECT id FROM event WHERE data LIKE '%around ' || ?1 || '\"%'";
                self.ask::<i64>(sql, tag).len()
            }
            Way::Checkpoint => {
                let sql = "SELECT DISTINCT task_id FROM processed WHERE dataset = ?1";
                self.ask::<String>(sql, tag).len()
            }
            Way::Core | Way::Extension => {
                let sql = "SELECT id FROM task WHERE arguments LIKE ?1";
                self.ask::<String>(sql, &quoted).len()
            }
            Way::Plain => {
                let calls = self.plain_calls.lock().unwrap();
                calls.iter().filter(|call| *call == tag).count()
            }
        }
    }

    /// What the server has sent of an attempt: the id and the message of each event, in order.
    fn sent(&self, token: &str) -> Vec<(String, Value)> {
        let sql = "SELECT stream || '-' || seq || ' ' || data FROM event WHERE data IS NOT NULL AND stream = \
                   (SELECT stream FROM event WHERE instr(data, ?1) LIMIT 1) ORDER BY seq";
        let lines = self.ask::<String>(sql, &format!("\"{token}\""));
        let apart = |line: &String| {
            let (id, data) = line.split_once(' ').unwrap();
            (id.to_owned(), serde_json::from_str(data).unwrap())
        };
        lines.iter().map(apart).collect()
    }
}

/// Three steps without ids, and a result.
fn paths(state: &Path) -> Paths {
    Paths::resolve(Some(state.to_owned()), "default").unwrap()
}

fn tasks(state: &Path) -> Vec<Task> {
    let everything = ListFilter::ALL;
    let mut reader = Reader::open(&paths(state)).unwrap();
    reader.tasks(everything).unwrap()
}

/// The lines that a killed process had printed whole.
fn whole_lines(out: &str) -> &str {
    out.rsplit_once('\n').map_or("", |(lines, _)| lines)
}

/// What holds of a task at the end, whatever was killed before; `watched` is what a last `watch` printed.
fn check(bench: &Bench, state: &Path, round: &str, task: &Task, watched: &Ran) {
    assert!(!watched.err.contains("damaged"), "{watched:#?}");
    let way = Way::of(task);
    let tag = &way.tag(round);
    let history = Reader::open(&paths(state))
        .unwrap()
        .history(&task.id, 0, usize::MAX)
        .unwrap();
    let events = watched.events();
    let seqs: Vec<u64> = events
        .iter()
        .map(|it| it["seq"].as_u64().unwrap())
        .collect();
    let whole: Vec<u64> = (1..=history.len() as u64).collect();
    assert_eq!(seqs, whole, "{way:?}: each entry once: {watched:#?}");
    let ends = |entry: &&HistoryEntry| matches!(entry.what, HistoryEvent::Settled { .. });
    let settled = history.iter().filter(ends).count();
    let runs = bench.runs(way, tag);
    let attempt = task.attempts.first().unwrap();
    let context = format!("{way:?} {tag}: {runs} runs, {task:#?}\n{history:#?}");
    match &task.status {
        Status::Completed => {
            assert_eq!((watched.code, settled, runs), (Some(0), 1, 1), "{context}");
            let result = &events.last().unwrap()["result"]["content"][0]["text"];
            let words = result
                .as_str()
                .unwrap_or_else(|| panic!("no result in {watched:#?}\n{context}"));
            match way {
                Way::Stream => assert!(words.starts_with(&format!("{tag}: ")), "{context}"),
                Way::Checkpoint => {
                    let answer: Value = serde_json::from_str(words).unwrap();
                    assert_eq!(answer["processed"], 50, "{context}");
                    let client_id = task.client_id.as_ref().unwrap();
                    let rows = demo_server::rows(&bench.dir.path().join("demo"), client_id);
                    assert_eq!(rows.unwrap(), 50, "{context}");
                }
                Way::Core | Way::Extension => {
                    assert_eq!(words, format!("Rendered {tag}: 20 frames"), "{context}");
                    let id = task.server_task_id.as_ref().unwrap();
                    let arguments =
                        bench.ask::<String>("SELECT arguments FROM task WHERE id = ?1", id);
                    assert!(arguments[0].contains(&format!("\"{tag}\"")), "{context}");
                }
                Way::Plain => assert_eq!(words, format!("done {tag}"), "{context}"),
            }
        }
        // What was sent and never heard of again is nobody's to repeat but the user's.
        Status::Unknown(_) => {
            let is_heard = attempt.cursors.newest.is_some() || task.server_task_id.is_some();
            assert!(attempt.phase >= Phase::Sent && !is_heard, "{context}");
            assert_eq!(
                (watched.code, settled, runs <= 1),
                (Some(5), 0, true),
                "{context}"
            );
            assert!(!task.status.reason().unwrap().is_empty(), "{context}");
        }
        other => panic!("{other:?}: {context}"),
    }
    if way != Way::Checkpoint {
        assert_eq!(task.attempts.len(), 1, "started twice: {context}");
    }
    for attempt in &task.attempts {
        let of_it: Vec<&HistoryEntry> = history
            .iter()
            .filter(|entry| entry.attempt == attempt.number)
            .collect();
        let is_last = attempt.number as usize == task.attempts.len();
        compare(
            way,
            &of_it,
            &bench.sent(&attempt.token),
            is_last && settled == 1,
            &context,
        );
    }
}

/// Holds the entries of an attempt against what the server sent of it.
fn compare(
    way: Way,
    entries: &[&HistoryEntry],
    sent: &[(String, Value)],
    is_whole: bool,
    context: &str,
) {
    let told: Vec<(&str, Value)> = entries
        .iter()
        .filter_map(|entry| {
            let what = match &entry.what {
                HistoryEvent::Progress(Progress { value, message, .. }) => json!([value, message]),
                HistoryEvent::Log { data, .. } => json!([data]),
                _ => return None,
            };
            Some((entry.event_id.as_deref().unwrap_or_default(), what))
        })
        .collect();
    let values: Vec<f64> = told
        .iter()
        .filter_map(|(_, what)| what[0].as_f64())
        .collect();
    assert!(values.is_sorted_by(|a, b| a < b), "a step twice: {context}");
    match way {
        Way::Core | Way::Extension => {
            let frames: Vec<u32> = entries
                .iter()
                .filter_map(|entry| match &entry.what {
                    HistoryEvent::Status { reason, .. } => {
                        let rest = reason.as_deref()?.strip_prefix("frame ")?;
                        rest.split(' ').next()?.parse().ok()
                    }
                    _ => None,
                })
                .collect();
            assert!(frames.is_sorted_by(|a, b| a < b), "a step twice: {context}");
        }
        Way::Plain => {
            let begin: Vec<f64> = [1.0, 2.0, 3.0].into_iter().take(values.len()).collect();
            assert_eq!(values, begin, "{context}");
            assert!(!is_whole || values.len() == 3, "{context}");
        }
        Way::Stream | Way::Checkpoint => {
            let steps: Vec<(&str, Value)> = sent
                .iter()
                .filter_map(|(id, message)| {
                    let params = &message["params"];
                    let what = match message["method"].as_str()? {
                        "notifications/progress" => {
                            json!([params["progress"].as_f64()?, params["message"]])
                        }
                        "notifications/message" => json!([params["data"]]),
                        _ => return None,
                    };
                    Some((id.as_str(), what))
                })
                .collect();
            // What the list of a checkpoint server told stands on no stream.
            let told: Vec<_> = told.into_iter().filter(|(id, _)| !id.is_empty()).collect();
            if is_whole && way == Way::Stream {
                assert_eq!(told, steps, "not what was sent: {context}");
            } else {
                let mut rest = steps.iter();
                let are_in_order = told.iter().all(|one| rest.any(|step| step == one));
                assert!(are_in_order, "not what was sent: {steps:?}\n{context}");
            }
        }
    }
}

/// When, and whom.
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// The driver, after this many outputs of its engine.
    Outputs(u64),
    /// When the first process has printed so many lines: all of them, or only who drives.
    Lines(usize, Whom),
    /// After a time.
    Moment(Duration, Whom),
}

#[derive(Clone, Copy, Debug)]
enum Whom {
    Everybody,
    Driver,
}

impl Kill {
    fn drawn(rng: &mut fastrand::Rng) -> Self {
        let whom = if rng.bool() {
            Whom::Everybody
        } else {
            Whom::Driver
        };
        match rng.u32(0..4) {
            0 => Self::Outputs(rng.u64(1..60)),
            1 => Self::Lines(rng.usize(1..12), whom),
            // Most of what there is to hit lies in the first half second.
            2 => Self::Moment(Duration::from_micros(rng.u64(0..400_000)), whom),
            _ => Self::Moment(Duration::from_micros(rng.u64(0..2_000_000)), whom),
        }
    }
}

/// Lets processes live until one of them, or all, are killed; gives what each had printed, and whether all lived on.
fn life(state: &Path, commands: &[Vec<String>], kill: Kill) -> (Vec<String>, bool) {
    let start = |arguments: &Vec<String>| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = program(state, &arguments);
        if let Kill::Outputs(count) = kill {
            command.env("LONGHAUL_DIE_AFTER", count.to_string());
        }
        Running::start(&mut command)
    };
    let mut running: Vec<Running> = commands.iter().map(start).collect();
    let whom = match kill {
        Kill::Outputs(_) => None,
        Kill::Lines(count, whom) => {
            let first = running.first_mut().into_iter();
            for running in first {
                for _ in 0..count {
                    if running.line().is_none() {
                        break;
                    }
                }
            }
            Some(whom)
        }
        Kill::Moment(moment, whom) => {
            thread::park_timeout(moment);
            Some(whom)
        }
    };
    match whom {
        Some(Whom::Everybody) => running.iter().for_each(|it| it.signal(Signal::KILL)),
        Some(Whom::Driver) => {
            let holder = DriverLock::holder(&paths(state));
            let pid = holder.and_then(|pid| Pid::from_raw(pid.cast_signed()));
            // It may have left this moment.
            pid.map(|pid| rustix::process::kill_process(pid, Signal::KILL));
        }
        None => {}
    }
    let ran: Vec<Ran> = running.into_iter().map(Running::end).collect();
    let all_lived = ran.iter().all(|ran| ran.code.is_some());
    (ran.into_iter().map(|ran| ran.out).collect(), all_lived)
}

/// Starts one call of each way, kills, comes back, kills again, and follows everything to its end. Says whether all of
/// the calls lived on.
fn round(bench: &Bench, state: &Path, tag: &str, ways: &[Way], kills: &[Kill]) -> bool {
    let mut printed = Vec::new();
    let mut all_lived = true;
    for (number, kill) in kills.iter().enumerate() {
        let commands: Vec<Vec<String>> = if number == 0 {
            ways.iter().map(|way| way.call(tag)).collect()
        } else {
            let watch = |task: &Task| ["watch", task.id.as_str(), "--json"].map(str::to_owned);
            tasks(state).iter().map(|it| watch(it).to_vec()).collect()
        };
        let (out, lived) = life(state, &commands, *kill);
        printed.extend(out);
        all_lived &= lived;
    }
    let known = tasks(state);
    let watched: Vec<Ran> = thread::scope(|scope| {
        let watch = |task: &Task| {
            let id = task.id.as_str().to_owned();
            scope.spawn(move || run(state, &["watch", &id, "--json"]))
        };
        let threads: Vec<_> = known.iter().map(watch).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let after = tasks(state);
    for way in ways {
        if !after.iter().any(|task| Way::of(task) == *way) {
            let tag = &way.tag(tag);
            assert_eq!(bench.runs(*way, tag), 0, "{tag} ran unsaved");
        }
    }
    assert_eq!(known.len(), after.len());
    for (task, watched) in after.iter().zip(&watched) {
        check(bench, state, tag, task, watched);
    }
    for out in printed.iter().map(|out| whole_lines(out)) {
        let is_known = out.is_empty() || watched.iter().any(|ran| ran.out.starts_with(out));
        assert!(
            is_known,
            "printed before it was on disk: {out}\n{watched:#?}"
        );
    }
    all_lived
}

/// Does the work for each number from 0 on, several at once, until it says that there is no more.
fn several_at_once(work: impl Fn(u64) -> bool + Sync) -> u64 {
    let (next, is_over) = (AtomicU64::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while is_over.load(Ordering::SeqCst) == 0 {
                    if !work(next.fetch_add(1, Ordering::SeqCst)) {
                        is_over.store(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    next.into_inner()
}

/// One window after another, until a run outlives them all.
fn every_window(way: Way) {
    let bench = Bench::new();
    let windows = several_at_once(|number| {
        assert!(number < 400, "the call never outlived its windows");
        let tag = format!("w{number}");
        let kill = Kill::Outputs(number + 1);
        !round(&bench, &bench.state(&tag), &tag, &[way], &[kill])
    });
    assert!(windows > 8, "so few outputs make a call: {windows}");
}

#[test]
fn a_stream_survives_a_kill_in_every_window() {
    every_window(Way::Stream);
}

#[test]
fn a_checkpoint_survives_a_kill_in_every_window() {
    every_window(Way::Checkpoint);
}

#[test]
fn a_task_of_2025_survives_a_kill_in_every_window() {
    every_window(Way::Core);
}

#[test]
fn a_task_of_2026_survives_a_kill_in_every_window() {
    every_window(Way::Extension);
}

#[test]
fn a_killed_plain_call_starts_at_most_once() {
    every_window(Way::Plain);
}

#[test]
fn stores_replayed_events_once_after_a_kill() {
    let bench = Bench::new();
    let way = Way::Checkpoint;
    for lines in [3, 4] {
        let tag = format!("again{lines}");
        let state = bench.state(&tag);
        let call = way.call(&tag).into_iter();
        // Slow enough to be met at work, right behind the log line at its beginning.
        let call = call.map(|word| word.replace("delay_ms=25", "delay_ms=300"));
        life(
            &state,
            &[call.collect()],
            Kill::Lines(lines, Whom::Everybody),
        );
        let killed = tasks(&state).remove(0);
        let demo = bench.dir.path().join("demo");
        demo::control(&demo, demo::Fault::DuplicateOnReplay).unwrap();
        let watched = run(&state, &["watch", killed.id.as_str(), "--json"]);
        let task = tasks(&state).remove(0);
        check(&bench, &state, &tag, &task, &watched);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own switches")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_crowd_of_calls_survives_kills_at_random_moments() {
    let bench = Bench::new();
    let rounds = number("LONGHAUL_KILL_ROUNDS").unwrap_or(ROUNDS);
    let first = number("LONGHAUL_KILL_FIRST").unwrap_or(0);
    let failed = Mutex::new(Vec::new());
    several_at_once(|number| {
        if number >= rounds {
            return false;
        }
        let seed = first + number;
        let mut rng = fastrand::Rng::with_seed(seed);
        let kills: Vec<Kill> = (0..rng.u32(1..4)).map(|_| Kill::drawn(&mut rng)).collect();
        let tag = format!("k{seed}");
        let run = || round(&bench, &bench.state(&tag), &tag, &Way::ALL, &kills);
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
            failed.lock().unwrap().push((seed, kills));
        }
        true
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "LONGHAUL_KILL_FIRST, and its kills: {failed:#?}"
    );
}
