//! Disks that fail under the real program, and strangers at the place of its files.
//!
//! The disk is `tests/it/support/disk.c`, built here and loaded before the C library: it needs no rights, and works
//! for root as for anybody.
#![cfg(all(feature = "demo", target_os = "linux"))]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::support::pty::{self, TestEnv};
use crate::support::{
    demo_server,
    program::{Ran, Running, finish, program},
    server::{self, Call},
};
use crate::support::{disk::shim, kept::until};
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use longhaul::store::{Lookup, Paths, Reader, write_atomically};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{Mutex, watch};

/// How a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Well,
    Full,
    Errors,
    Unreadable,
    ReadOnly,
    Slow,
}

/// The demo server on a disk that is well, and a session on one that is not always.
struct Bench {
    dir: TempDir,
    server: demo_server::DemoServer,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("disk")).unwrap();
        let server = server::demo(dir.path().join("demo"));
        Self { dir, server }
    }

    fn disk(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    fn state(&self) -> PathBuf {
        self.disk().join("state")
    }

    fn paths(&self) -> Paths {
        Paths::resolve(Some(self.state()), "default").unwrap()
    }

    /// From now on the disk is so.
    fn becomes(&self, disk: Disk) {
        let order = match disk {
            Disk::Well => "well",
            Disk::Full => "full",
            Disk::Errors => "errors",
            Disk::Unreadable => "unreadable",
            Disk::ReadOnly => "read-only",
            Disk::Slow => "slow",
        };
        let orders = self.dir.path().join("disk.orders");
        longhaul::store::write_atomically(&orders, order.as_bytes()).unwrap();
    }

    fn environment(&self) -> [(&'static str, String); 2] {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        [
            ("LD_PRELOAD", text(shim())),
            ("LONGHAUL_TEST_DISK", text(&self.disk())),
        ]
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(&self.state(), arguments);
        command.envs(self.environment());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        finish(&mut self.command(arguments))
    }

    /// A call whose arguments name it.
    fn call(&self, tag: &str) -> Ran {
        let (url, city) = (self.server.url(), format!("city={tag}"));
        self.run(&with(
            &url,
            &["get_forecast", &city, "delay_ms=1", "--json"],
        ))
    }

    /// How often the server has begun it.
    fn runs(&self, tag: &str) -> usize {
        let file = rusqlite::Connection::open(self.dir.path().join("demo/demo.db")).unwrap();
        let sql = "SELECT count(*) FROM event WHERE data LIKE '%around ' || ?1 || '\"%'";
        file.query_row(sql, [tag], |row| row.get::<_, i64>(0))
            .map(|count| usize::try_from(count).unwrap())
            .unwrap()
    }
}

/// A call on a server whose streams can be resumed and that is asked for no tasks.
fn with<'a>(url: &'a str, call: &[&'a str]) -> Vec<&'a str> {
    [&["-s", url, "--protocol", "2025-06-18", "call"], call].concat()
}

fn steps(ran: &Ran) -> Vec<u64> {
    let events = ran.events();
    let steps = events.iter().filter(|event| event["event"] == "progress");
    steps.map(|step| step["value"].as_u64().unwrap()).collect()
}

#[test]
fn a_disk_failure_during_a_call_loses_nothing() {
    for (disk, words) in [
        (Disk::Full, "the disk is full"),
        (Disk::Errors, "the disk reports an error"),
        // What is open already tells no more than this.
        (Disk::ReadOnly, "the disk reports an error"),
    ] {
        let bench = Bench::new();
        let url = bench.server.url();
        let crunch = with(&url, &["crunch", "steps=40", "step_ms=100", "--json"]);
        let mut call = Running::start(&mut bench.command(&crunch));
        call.prints(|event| event["value"] == 2);
        bench.becomes(disk);
        call.says("NOT SAVED");
        let refused = bench.call("refused");
        assert_eq!(refused.code, Some(73), "{disk:?}: {refused:#?}");
        let is_said = refused.err.contains(words) || refused.err.contains("read-only");
        assert!(is_said, "{disk:?}: {refused:#?}");
        assert_eq!(refused.out, "", "{disk:?}");
        bench.becomes(Disk::Well);
        call.says("saving works again");
        let taken = bench.call("taken");
        assert_eq!(taken.code, Some(0), "{disk:?}: {taken:#?}");
        let ran = call.end();
        assert_eq!(ran.code, Some(0), "{disk:?}: {ran:#?}");
        assert_eq!(steps(&ran), (1..=40).collect::<Vec<_>>(), "{disk:?}");
        let db = bench.paths().db();
        let said = format!("longhaul: could not write {}: {words}", db.display());
        assert_eq!(ran.err.matches(&said).count(), 1, "{disk:?}: {ran:#?}");
        assert_eq!((bench.runs("refused"), bench.runs("taken")), (0, 1));
    }
}

#[test]
fn a_change_counts_as_saved_only_once_it_is() {
    let bench = Bench::new();
    let url = bench.server.url();
    let crunch = with(&url, &["crunch", "steps=600", "step_ms=100", "--json"]);
    let mut call = Running::start(&mut bench.command(&crunch));
    let id = call.prints(|event| event["event"] == "started")["id"].clone();
    let id = id.as_str().unwrap();
    call.prints(|event| event["value"] == 2);
    bench.becomes(Disk::Full);
    call.says("NOT SAVED");
    let edited = bench.run(&["edit", id, "--note", "mine"]);
    assert_eq!(edited.code, Some(73), "{edited:#?}");
    assert!(edited.err.contains("not saved: "), "{edited:#?}");
    bench.becomes(Disk::Well);
    call.says("saving works again");
    let shown = bench.run(&["show", id, "--json"]).document();
    assert_eq!(shown["note"], "mine", "it was saved later");
    let edited = bench.run(&["edit", id, "--note", "yours"]);
    assert_eq!(edited.code, Some(0), "{edited:#?}");
    call.signal(rustix::process::Signal::KILL);
    call.end();
    let shown = bench.run(&["show", id, "--json"]).document();
    assert_eq!(shown["note"], "yours");
}

#[test]
fn a_keeper_with_unsaved_changes_does_not_stop() {
    let bench = Bench::new();
    // One that a command starts would not load the disk.
    let mut keeper = bench.command(&["keeper", "run"]);
    let _keeper = Running::start(keeper.env_remove("LONGHAUL_KEEPER"));
    let status = || bench.run(&["keeper", "status", "--json"]).document()["keeper"].clone();
    until("the keeper runs", || status().is_object());
    let url = bench.server.url();
    let crunch = with(&url, &["crunch", "steps=600", "step_ms=100", "--detach"]);
    let started = bench.run(&crunch);
    assert_eq!(started.code, Some(0), "{started:#?}");
    bench.becomes(Disk::Full);
    until("a change could not be saved", || status()["unsaved"] == 1);
    let stopped = bench.run(&["keeper", "stop"]);
    assert_eq!(stopped.code, Some(73), "{stopped:#?}");
    assert!(stopped.err.contains("was not stopped"), "{stopped:#?}");
    for ran in [stopped, bench.run(&["ls"])] {
        assert!(ran.err.contains(": the disk is full"), "{ran:#?}");
    }
    let call = with(&url, &["get_forecast", "city=a", "delay_ms=1"]);
    assert_eq!(bench.run(&call).code, Some(73));
    bench.becomes(Disk::Well);
    // It does not wait until saving is tried again.
    let called = bench.run(&call);
    assert_eq!(called.code, Some(0), "{called:#?}");
    until("all is saved", || status()["unsaved"] == 0);
    let stopped = bench.run(&["keeper", "stop"]);
    assert_eq!(stopped.code, Some(0), "{stopped:#?}");
}

#[test]
fn a_keeper_that_finds_a_full_disk_exits_and_says_so() {
    let bench = Bench::new();
    let mut keeper = bench.command(&["keeper", "run", "--background"]);
    let log = bench.paths().open_log().unwrap();
    bench.becomes(Disk::Full);
    let keeper = keeper.env_remove("LONGHAUL_KEEPER").stderr(log).spawn();
    let mut keeper = keeper.unwrap();
    let mut exited = None;
    until("the keeper has exited", || {
        exited = keeper.try_wait().unwrap();
        exited.is_some()
    });
    let said = std::io::read_to_string(keeper.stdout.take().unwrap()).unwrap();
    let reason = said.strip_prefix("73 could not open ").unwrap();
    assert!(reason.contains("the disk is full"), "{said}");
    assert!(!bench.paths().db().exists());
}

#[test]
fn reports_a_disk_failure_at_start_with_the_path_and_a_fix() {
    for has_session in [false, true] {
        for (disk, words) in [
            (Disk::Full, ["the disk is full", "free some space"]),
            (Disk::Errors, ["the disk reports an error", "could not"]),
            (
                Disk::ReadOnly,
                ["read-only file system", "another directory"],
            ),
        ] {
            let bench = Bench::new();
            if has_session {
                assert_eq!(bench.call("before").code, Some(0));
            }
            bench.becomes(disk);
            let refused = bench.call("refused");
            let context = format!("{disk:?}, saved before {has_session}: {refused:#?}");
            assert_eq!(
                (refused.code, refused.out.as_str()),
                (Some(73), ""),
                "{context}"
            );
            for words in words {
                assert!(refused.err.contains(words), "{context}");
            }
            assert!(refused.err.contains("with --state-dir"), "{context}");
            let names_file = refused.err.contains(bench.state().to_str().unwrap());
            assert!(names_file, "{context}");
            if has_session {
                // Looking needs no room.
                let listed = bench.run(&["ls"]);
                let is_shown = listed.code == Some(0) && listed.out.contains("before");
                assert!(is_shown, "{disk:?}: {listed:#?}");
            }
            bench.becomes(Disk::Well);
            let taken = bench.call("taken");
            assert_eq!(taken.code, Some(0), "{disk:?}: {taken:#?}");
            assert!(!taken.err.contains("damaged"), "{taken:#?}");
            let runs = ["before", "refused", "taken"].map(|tag| bench.runs(tag));
            assert_eq!(runs, [usize::from(has_session), 0, 1], "{disk:?}");
        }
    }
}

#[test]
fn reads_what_a_killed_driver_left_on_a_failing_disk() {
    for disk in [Disk::Full, Disk::ReadOnly, Disk::Errors] {
        let bench = Bench::new();
        let url = bench.server.url();
        let crunch = with(&url, &["crunch", "steps=600", "step_ms=20", "--json"]);
        let mut call = Running::start(&mut bench.command(&crunch));
        call.prints(|event| event["value"] == 20);
        call.signal(rustix::process::Signal::KILL);
        call.end();
        let log = bench.paths().db().with_extension("db-wal");
        let logged = fs::read(&log).unwrap();
        assert!(!logged.is_empty());
        bench.becomes(disk);
        let listed = bench.run(&["ls", "--json"]);
        assert_eq!(listed.code, Some(0), "{disk:?}: {listed:#?}");
        let task = &listed.document()[0];
        let at_least_20 = task["progress"]["value"].as_u64() >= Some(20);
        assert!(at_least_20, "{disk:?}: {task:#}");
        let id = task["id"].as_str().unwrap();
        let shown = bench.run(&["show", id]);
        assert_eq!(shown.code, Some(0), "{disk:?}: {shown:#?}");
        let logs = bench.run(&["logs", id]);
        assert!(logs.out.contains("step 20 of 600"), "{disk:?}: {logs:#?}");
        let env = TestEnv::at(bench.state());
        let environment = bench.environment();
        let variables = environment
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        let mut tui = env.open_with(&variables, pty::program(), &[], (160, 36));
        tui.wait_for_line(&[id, "crunch"]);
        tui.wait_for("could not");
        tui.press("\u{3}\u{3}");
        tui.end();
        assert!(fs::read(&log).unwrap() == logged, "{disk:?}");
        bench.becomes(Disk::Well);
        let taken = bench.call("taken");
        assert_eq!(taken.code, Some(0), "{disk:?}: {taken:#?}");
        assert!(!taken.err.contains("damaged"), "{disk:?}: {taken:#?}");
    }
}

/// How long the results of [`LargeResultServer`] are.
const LARGE: usize = 8 << 20;

/// A server whose calls all wait for one moment, and give large results then, one after the other.
#[derive(Clone)]
struct LargeResultServer {
    may_end: Arc<watch::Sender<bool>>,
    turn: Arc<Mutex<()>>,
    called: Arc<AtomicUsize>,
    /// Results that were taken to their end.
    taken: Arc<AtomicUsize>,
}

/// What tells the calls of it apart.
fn tag(arguments: &Value) -> String {
    arguments["tag"].to_string().trim_matches('"').to_owned()
}

impl LargeResultServer {
    fn serve(&self) -> SocketAddr {
        let server = self.clone();
        server::one_tool("large", move |call| {
            server.clone().result_of(call.clone()).flatten_stream()
        })
    }

    async fn result_of(self, call: Call) -> impl Stream<Item = String> {
        self.called.fetch_add(1, Ordering::SeqCst);
        let mut moment = self.may_end.subscribe();
        moment.wait_for(|may_end| *may_end).await.unwrap();
        let turn = self.turn.lock_owned().await;
        let event = call.result(&format!("{}:{}", tag(call.arguments()), "x".repeat(LARGE)));
        let parts: Vec<String> = event
            .as_bytes()
            .chunks(1 << 16)
            .map(|part| String::from_utf8(part.to_vec()).unwrap())
            .collect();
        let end = stream::once(async move {
            self.taken.fetch_add(1, Ordering::SeqCst);
            drop(turn);
            String::new()
        });
        stream::iter(parts).chain(end)
    }
}

#[test]
fn a_full_disk_leaves_unread_results_at_their_servers() {
    const CALLS: usize = 14;
    // 64 MiB in memory, one on the way to there, and what the system keeps of the next.
    const READ: usize = (64 << 20) / LARGE + 2;
    let bench = Bench::new();
    let server = LargeResultServer {
        may_end: Arc::new(watch::Sender::new(false)),
        turn: Arc::default(),
        called: Arc::default(),
        taken: Arc::default(),
    };
    let url = format!("http://{}/mcp", server.serve());
    // It drives for the others, and shows what is said of the disk: tall enough for every message at once, because the
    // notices about results can come before and after it.
    fs::create_dir(bench.state()).unwrap();
    let env = TestEnv::at(bench.state());
    let environment = bench.environment();
    let variables = environment
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let mut tui = env.open_with(&variables, pty::program(), &[], (160, 90));
    tui.wait_until_it_drives(&bench.state());
    let calls: Vec<Running> = (0..CALLS)
        .map(|tag| {
            let tag = format!("tag={tag}");
            Running::start(&mut bench.command(&with(&url, &["large", &tag, "-q"])))
        })
        .collect();
    while server.called.load(Ordering::SeqCst) < CALLS {
        tui.watch_for(Duration::from_millis(20));
    }
    bench.becomes(Disk::Full);
    server.may_end.send_replace(true);
    tui.press("4");
    tui.wait_for("so longhaul has stopped reading from servers");
    let before = server.taken.load(Ordering::SeqCst);
    // After a few failed attempts the rest still waits.
    assert_eq!(bench.call("refused").code, Some(73));
    tui.watch_for(Duration::from_secs(3));
    let taken = server.taken.load(Ordering::SeqCst);
    assert!(before <= taken && taken <= READ, "{before}, {taken}");
    bench.becomes(Disk::Well);
    for call in calls {
        let ran = call.end();
        assert_eq!(ran.code, Some(0), "{ran:#?}");
    }
    assert_eq!(server.taken.load(Ordering::SeqCst), CALLS);
    let mut reader = Reader::open(&bench.paths()).unwrap();
    let all = reader
        .tasks(longhaul::store::ListFilter::default())
        .unwrap();
    let mut whole = 0;
    for task in all {
        let result = reader.result(&task.id).unwrap().unwrap();
        let tag = tag(&serde_json::from_str(&task.arguments).unwrap());
        assert!(
            result.contains(&format!("\"{tag}:xxx")) && result.len() > LARGE,
            "{tag}"
        );
        whole += 1;
    }
    assert_eq!(whole, CALLS);
    tui.press("\u{3}\u{3}");
    tui.end();
}

#[test]
fn reports_quarantine_even_when_no_file_can_be_created() {
    let bench = Bench::new();
    assert_eq!(bench.call("before").code, Some(0));
    let db = bench.paths().db();
    write_atomically(&db, &vec![7; 20_000]).unwrap();
    bench.becomes(Disk::Full);
    let refused = bench.call("refused");
    assert_eq!(refused.code, Some(73), "{refused:#?}");
    for words in [
        "the disk is full",
        "default.db was damaged and has been moved to default.damaged-",
    ] {
        assert!(refused.err.contains(words), "{words}: {refused:#?}");
    }
}

#[test]
fn an_unreadable_disk_is_reported_and_not_taken_for_damage() {
    let bench = Bench::new();
    assert_eq!(bench.call("before").code, Some(0));
    let db = bench.paths().db();
    let before = fs::read(&db).unwrap();
    bench.becomes(Disk::Unreadable);
    for ran in [bench.run(&["ls"]), bench.call("refused")] {
        assert_eq!((ran.code, ran.out.as_str()), (Some(73), ""), "{ran:#?}");
        for words in [
            db.to_str().unwrap(),
            "the disk reports an error",
            "copy the state directory to another disk and pass the copy with --state-dir",
        ] {
            assert!(ran.err.contains(words), "{words}: {ran:#?}");
        }
    }
    assert!(fs::read(&db).unwrap() == before);
    bench.becomes(Disk::Well);
    let taken = bench.call("taken");
    assert_eq!(taken.code, Some(0), "{taken:#?}");
    assert!(!taken.err.contains("damaged"), "{taken:#?}");
    let runs = ["before", "refused", "taken"].map(|tag| bench.runs(tag));
    assert_eq!(runs, [1, 0, 1]);
    assert!(bench.run(&["ls"]).out.contains("before"));
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a disk that takes a second each time is what is waited for"
)]
fn a_slow_sync_delays_calls_and_loses_nothing() {
    let bench = Bench::new();
    assert_eq!(bench.call("before").code, Some(0));
    bench.becomes(Disk::Slow);
    let begin = std::time::Instant::now();
    let url = bench.server.url();
    let call = with(&url, &["get_forecast", "city=slow", "delay_ms=1", "--json"]);
    let call = Running::start(&mut bench.command(&call));
    // The intent is on the disk before the request leaves, and the result before it is shown.
    while bench.runs("slow") == 0 {
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(60), "it never began");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    assert!(
        begin.elapsed() >= Duration::from_secs(1),
        "sent before it was on the disk"
    );
    let ran = call.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(
        begin.elapsed() >= Duration::from_secs(2),
        "shown before it was on the disk"
    );
    assert_eq!(steps(&ran), [1, 2, 3, 4, 5, 6]);
    assert_eq!(bench.runs("slow"), 1);
}

#[test]
fn the_screen_shows_not_saved_and_recovers() {
    let bench = Bench::new();
    fs::create_dir(bench.state()).unwrap();
    let env = TestEnv::at(bench.state());
    let url = bench.server.url();
    let environment = bench.environment();
    let variables = environment
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let arguments = ["-s", &url, "--protocol", "2025-06-18"];
    let mut tui = env.open_with(&variables, pty::program(), &arguments, (120, 36));
    tui.wait_for("longhaul default");
    let crunch = ["crunch", "steps=600", "step_ms=100", "--detach"];
    let id = bench.run(&with(&url, &crunch)).out.trim().to_owned();
    tui.wait_for_line(&[&id, "%"]);
    bench.becomes(Disk::Full);
    tui.wait_for_line(&[&id, "NOT SAVED"]);
    tui.wait_for("NOT SAVED: ");
    // The keys answer meanwhile.
    tui.press("?");
    tui.wait_for("─ Keys and commands ─");
    tui.press("\u{1b}");
    bench.becomes(Disk::Well);
    tui.wait_until("the mark to go", |screen| {
        let text = screen.contents();
        text.contains(&id) && !text.contains("NOT SAVED")
    });
    tui.press("\u{3}\u{3}");
    assert_eq!(tui.end().0, 0);
    let mut reader = Reader::open(&bench.paths()).unwrap();
    assert!(matches!(reader.task(&id), Ok(Lookup::One(_))));
}

/// Puts something at a place.
type Lay = fn(&Path);

/// What can stand where a file of ours should, and the words for it.
const STRANGERS: [(&str, Lay); 4] = [
    ("it is a symbolic link", |path| {
        symlink("/etc/passwd", path).unwrap();
    }),
    ("it is a directory", |path| fs::create_dir(path).unwrap()),
    ("it is a named pipe", |path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }),
    ("it belongs to another user", |path| {
        write_atomically(path, b"").unwrap();
        std::os::unix::fs::chown(path, Some(1), Some(1)).unwrap();
    }),
];

#[test]
fn reports_foreign_files_and_leaves_them_untouched() {
    let is_root = rustix::process::geteuid().is_root();
    for (words, put) in STRANGERS {
        if words.contains("another user") && !is_root {
            println!("only root can make files of others; nothing of that is seen here");
            continue;
        }
        for file in [
            "default.db",
            "default.db-wal",
            "default.db-shm",
            "default.lock",
            "default.log",
        ] {
            let bench = Bench::new();
            let sessions = bench.state().join("sessions");
            fs::create_dir_all(&sessions).unwrap();
            fs::set_permissions(&sessions, fs::Permissions::from_mode(0o700)).unwrap();
            let place = sessions.join(file);
            put(&place);
            let before = fs::symlink_metadata(&place).unwrap();
            let url = bench.server.url();
            let call = with(&url, &["get_forecast", "city=x", "delay_ms=1", "-v"]);
            let ran = bench.run(&call);
            let context = format!("{file}: {words}: {ran:#?}");
            assert_eq!((ran.code, ran.out.as_str()), (Some(73), ""), "{context}");
            assert!(ran.err.contains(words), "{context}");
            assert!(ran.err.contains(place.to_str().unwrap()), "{context}");
            assert!(ran.err.contains("--state-dir"), "{context}");
            assert_eq!(bench.runs("x"), 0, "{context}");
            let after = fs::symlink_metadata(&place).unwrap();
            assert_eq!(before.file_type(), after.file_type(), "{context}");
            assert_eq!(before.len(), after.len(), "{context}");
        }
    }
}

#[test]
fn a_session_from_the_future_is_shown_and_not_written() {
    let bench = Bench::new();
    assert_eq!(bench.call("before").code, Some(0));
    let db = bench.paths().db();
    let file = rusqlite::Connection::open(&db).unwrap();
    file.pragma_update(None, "user_version", 7).unwrap();
    drop(file);
    let listed = bench.run(&["ls"]);
    assert!(listed.out.contains("before"), "{listed:#?}");
    let refused = bench.call("refused");
    assert_eq!(refused.code, Some(73), "{refused:#?}");
    for words in [
        db.to_str().unwrap(),
        "a newer longhaul wrote it",
        "update longhaul",
    ] {
        assert!(refused.err.contains(words), "{refused:#?}");
    }
    assert_eq!(bench.runs("refused"), 0);
    let doctor = bench.run(&["doctor"]);
    assert!(
        doctor.out.contains("a newer longhaul wrote it"),
        "{doctor:#?}"
    );
    let env = TestEnv::at(bench.state());
    let mut tui = env.open(&[], (120, 36));
    tui.wait_for("before");
    tui.wait_for("a newer longhaul wrote it");
    tui.press("\u{3}\u{3}");
    tui.end();
}

#[test]
fn a_stale_lock_of_a_reused_pid_blocks_no_one() {
    let bench = Bench::new();
    let paths = bench.paths();
    // As a killed driver leaves it, whose number another process has got since.
    write_atomically(&paths.lock(), b"1").unwrap();
    assert_eq!(bench.call("x").code, Some(0));
}
