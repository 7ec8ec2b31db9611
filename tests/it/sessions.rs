//! Many tasks and many sessions from a shell: finding, waiting, editing, forgetting, and removing for good.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use crate::support::pty::{TestEnv, Tui};
use crate::support::{
    demo_server,
    program::{Ran, Running, program, run},
    server,
};
use longhaul::store::{DriverLock, Paths};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The demo server in this process, and a state directory.
struct Bench {
    dir: TempDir,
    server: demo_server::DemoServer,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = server::demo(dir.path().join("demo"));
        Self { dir, server }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Starts a call and leaves it; its id.
    fn start(&self, words: &[&str]) -> String {
        let call = ["-s", &self.server.url(), "--protocol", "2025-06-18", "call"];
        let ran = run(&self.state(), &[&call[..], words, &["--detach"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        ran.out.trim().to_owned()
    }
}

const QUICK: [&str; 4] = [
    "resumable_data_processing",
    "total_records=10",
    "delay_ms=1",
    "dataset_name=eu",
];
/// As long as the test.
const LONG: [&str; 4] = [
    "resumable_data_processing",
    "total_records=100000",
    "delay_ms=1000",
    "dataset_name=us",
];

fn ids(state: &Path, words: &[&str]) -> Vec<String> {
    let ran = run(state, &[&["ls", "--json"], words].concat());
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let document = ran.document();
    let tasks = document.as_array().unwrap().iter();
    tasks
        .map(|task| task["id"].as_str().unwrap().to_owned())
        .collect()
}

fn wrong(ran: &Ran, words: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:#?}");
    assert!(ran.err.contains(words), "{ran:#?}");
}

#[test]
fn tasks_are_found_waited_for_and_forgotten_by_what_they_are() {
    let bench = Bench::new();
    let state = &bench.state();
    let one = bench.start(&[&QUICK[..], &["--tag", "nightly", "--name", "first"]].concat());
    let two = bench.start(&[
        "get_forecast",
        "city=Oslo",
        "delay_ms=1",
        "--tag",
        "nightly",
    ]);
    let ended = run(state, &["wait", "--tag", "nightly", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let mut of_tag: Vec<String> = ended
        .events()
        .iter()
        .map(|task| task["id"].as_str().unwrap().to_owned())
        .collect();
    of_tag.sort();
    let mut both = vec![one.clone(), two.clone()];
    both.sort();
    assert_eq!(of_tag, both);
    assert!(ended.events().iter().all(|task| task["result"].is_object()));
    let three = bench.start(&LONG);

    let of = |words: &[&str]| ids(state, words);
    assert_eq!(of(&[]), [three.as_str(), two.as_str(), one.as_str()]);
    assert_eq!(of(&["tool:get_forecast"]), [two.as_str()]);
    assert_eq!(
        of(&["--tag", "nightly", "--status", "done"]),
        [two.as_str(), one.as_str()]
    );
    // The grammar of the screen, in one word or several.
    assert_eq!(of(&["status:completed", "!first"]), [two.as_str()]);
    assert_eq!(of(&["tag:night city=oslo"]), [two.as_str()]);
    assert_eq!(of(&["status:unwatched"]), [three.as_str()]);
    assert_eq!(of(&["127.0.0.1:1 localhost:8931 http://x"]), [""; 0]);
    for (filter, words) in [
        (
            "status:foo",
            "\"status:foo\" matches nothing; expected one of: queued, running, input-required,",
        ),
        (
            "!stat:foo",
            "\"stat:\" is not a filter key; expected one of: status, server, tag, tool, id",
        ),
    ] {
        wrong(&run(state, &["ls", filter]), words);
    }
    assert_eq!(
        of(&["--since", "2100-01-01T00:00:00Z"]),
        Vec::<String>::new()
    );
    assert_eq!(of(&["--since", "1h"]).len(), 3);

    wrong(&run(state, &["wait", "--tag", "weekly"]), "longhaul ls");
    wrong(&run(state, &["wait"]), "longhaul wait --tag TAG");
    wrong(&run(state, &["rm"]), "--help");

    // Nothing is as old as that; what runs is never meant.
    assert_eq!(
        run(state, &["clean", "--older-than", "7d"]).out,
        "0 tasks removed\n"
    );
    let kept = run(state, &["clean", "--keep", "1", "--json"]).document();
    assert_eq!(
        kept,
        json!({"removed": [one], "kept": []}),
        "the newest stays"
    );
    let gone = run(state, &["clean", "--older-than", "1ms"]);
    assert_eq!(gone.out, "1 task removed\n", "{gone:#?}");
    assert_eq!(of(&[]), [three.as_str()]);
    let back = run(state, &["rm", "--undo", &one, &three, "--json"]).document();
    assert_eq!(back, json!({"restored": [one], "unchanged": [three]}));
}

#[test]
fn a_command_acts_on_each_named_task_once() {
    let bench = Bench::new();
    let state = &bench.state();
    let (done, one, two) = (bench.start(&QUICK), bench.start(&LONG), bench.start(&LONG));
    run(state, &["wait", &done]);
    let cancelled = run(state, &["cancel", &one, &done, &two, &one]);
    assert_eq!(cancelled.code, Some(2), "{cancelled:#?}");
    assert_eq!(cancelled.out.lines().count(), 2, "{cancelled:#?}");
    assert!(cancelled.err.contains(&done), "{cancelled:#?}");
    let listed = run(state, &["ls", "--status", "cancelled", "--json"]).document();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    let gone = run(state, &["rm", &one, &one]);
    assert_eq!(gone.out, format!("{one} removed\n"), "{gone:#?}");
    wrong(
        &run(state, &["edit", &two, "--max-time", "5m"]),
        "a limit has no effect",
    );
}

#[test]
fn watch_and_wait_refuse_removed_tasks() {
    let bench = Bench::new();
    let state = &bench.state();
    let (done, id) = (bench.start(&QUICK), bench.start(&LONG));
    run(state, &["wait", &done]);
    run(state, &["rm", &id]);
    wrong(&run(state, &["wait", &id]), "was removed");
    run(state, &["rm", "--undo", &id]);
    for command in ["wait", "watch"] {
        let waiting = Running::start(&mut program(state, &[command, &id]));
        until_driven(state);
        let gone = run(state, &["rm", &id]);
        assert_eq!(gone.code, Some(0), "{gone:#?}");
        let ran = waiting.end();
        assert_eq!(ran.code, Some(2), "{command}: {ran:#?}");
        assert!(ran.err.contains(&format!("rm --undo {id}")), "{ran:#?}");
        run(state, &["rm", "--undo", &id]);
    }
    // A task that ended before is still reported.
    let waiting = Running::start(&mut program(state, &["wait", &done, &id]));
    until_driven(state);
    run(state, &["rm", &id]);
    let ran = waiting.end();
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert_eq!(ran.out, format!("{done} completed\n"), "{ran:#?}");
}

#[test]
fn the_worst_outcome_of_several_decides() {
    let bench = Bench::new();
    let state = &bench.state();
    let good = bench.start(&QUICK);
    // More records than the server takes; whether that is seen before it is left is the luck of a moment.
    let huge = ["--name", "huge", "--detach"];
    let call = ["call", "--protocol", "2025-06-18"];
    let too_many = [
        &call[..],
        &[QUICK[0], "dataset_name=x", "total_records=99999999"],
    ]
    .concat();
    run(state, &[too_many.as_slice(), huge.as_slice()].concat());
    let failed = ids(state, &["huge"]).remove(0);
    let cancelled = bench.start(&LONG);
    assert_eq!(run(state, &["cancel", &cancelled]).code, Some(0));
    for order in [
        [&good, &cancelled, &failed],
        [&failed, &good, &cancelled],
        [&cancelled, &failed, &good],
    ] {
        let order = order.map(String::as_str);
        let waited = run(state, &[&["wait"], &order[..]].concat());
        assert_eq!(waited.code, Some(1), "{waited:#?}");
    }
    assert_eq!(run(state, &["wait", &good, &cancelled]).code, Some(8));
    assert_eq!(run(state, &["wait", &good]).code, Some(0));
}

#[test]
fn edits_name_note_and_limits_with_and_without_a_driver() {
    let bench = Bench::new();
    let state = &bench.state();
    let id = bench.start(&[&LONG[..], &["--name", "old", "--max-time", "2h"]].concat());
    let show = || run(state, &["show", &id, "--json"]).document();
    let edit = |words: &[&str]| run(state, &[&["edit", &id], words].concat());

    let edited = edit(&["--name", "nightly", "--idle-timeout", "10m"]);
    assert_eq!(edited.code, Some(0), "{edited:#?}");
    assert!(edited.out.contains("idle timeout  10m"), "{edited:#?}");
    let task = show();
    assert_eq!(
        (&task["name"], &task["note"]),
        (&json!("nightly"), &Value::Null)
    );
    assert_eq!(
        (&task["idle_timeout_s"], &task["max_time_s"]),
        (&json!(600), &json!(7200))
    );

    // From here on another process drives, and is asked over its socket.
    let mut driver = Running::start(&mut program(state, &["watch", &id, "--json"]));
    driver.prints(|event| event["event"] == "progress");
    let edited = edit(&[
        "--name",
        "",
        "--note",
        "ask Ann",
        "--max-time",
        "off",
        "--json",
    ]);
    assert_eq!(edited.code, Some(0), "{edited:#?}");
    let of_answer = edited.document();
    assert_eq!(
        (&of_answer["name"], &of_answer["note"]),
        (&Value::Null, &json!("ask Ann"))
    );
    let task = show();
    assert_eq!(
        (&task["name"], &task["note"]),
        (&Value::Null, &json!("ask Ann"))
    );
    assert_eq!(
        (&task["idle_timeout_s"], &task["max_time_s"]),
        (&json!(600), &Value::Null)
    );

    wrong(&edit(&[]), "--name");
    wrong(&edit(&["--max-time", "soon"]), "10m");
    wrong(
        &run(state, &["--readonly", "edit", &id, "--name", "x"]),
        "--readonly",
    );
    driver.signal(Signal::INT);
    driver.end();
}

#[test]
fn lists_sessions_and_removes_only_undriven_ones() {
    let bench = Bench::new();
    let state = &bench.state();
    let in_session = |name: &str, words: &[&str]| {
        let call = [
            "--session",
            name,
            "-s",
            &bench.server.url(),
            "--protocol",
            "2025-06-18",
            "call",
        ];
        let ran = run(state, &[&call[..], words].concat());
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        ran.out.trim().to_owned()
    };
    assert_eq!(
        run(state, &["sessions", "list", "--json"]).document(),
        json!([])
    );
    in_session("done", &QUICK);
    let open = in_session("open", &[&LONG[..], &["--detach"]].concat());
    let followed = in_session("driven", &[&LONG[..], &["--detach"]].concat());
    let watch = ["--session", "driven", "watch", &followed, "--json"];
    let mut driver = Running::start(&mut program(state, &watch));
    driver.prints(|event| event["event"] == "progress");

    let listed = run(state, &["sessions", "list", "--json"]).document();
    let of = |name: &str| {
        let found = listed
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["name"] == name);
        found.unwrap().clone()
    };
    let counts = |name: &str| (of(name)["tasks"].clone(), of(name)["unfinished"].clone());
    assert_eq!(counts("done"), (json!(1), json!(0)));
    assert_eq!(counts("open"), (json!(1), json!(1)));
    assert!(
        of("driven")["driver"].is_u64() && of("open")["driver"].is_null(),
        "{listed}"
    );
    assert!(of("done")["bytes"].as_u64().unwrap() > 0 && of("done")["saved_at"].is_string());
    let table = run(state, &["sessions", "list"]);
    assert!(
        table.out.contains("driven") && table.out.contains("process "),
        "{table:#?}"
    );

    let rm = |words: &[&str]| run(state, &[&["sessions", "rm"], words].concat());
    wrong(&rm(&["done", "nowhere"]), "sessions list");
    wrong(
        &run(state, &["--readonly", "sessions", "rm", "done"]),
        "--readonly",
    );
    let db = |name: &str| state.join(format!("sessions/{name}.db")).exists();
    assert!(db("done"), "nothing goes before every name was understood");

    let ran = rm(&["done", "open", "driven"]);
    assert_eq!(
        (ran.code, ran.out.contains("removed done (")),
        (Some(2), true),
        "{ran:#?}"
    );
    assert!(
        ran.err.contains("kept open: it has 1 unfinished task"),
        "{ran:#?}"
    );
    assert!(ran.err.contains("kept driven: process "), "{ran:#?}");
    assert!(!db("done") && db("open") && db("driven"));
    let left: Vec<String> = std::fs::read_dir(state.join("sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("done"))
        .collect();
    assert_eq!(left, Vec::<String>::new());

    let forced = rm(&["open", "driven", "--force", "--json"]);
    assert_eq!(forced.code, Some(2), "{forced:#?}");
    let removed: Vec<Value> = forced
        .document()
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["removed"].clone())
        .collect();
    assert_eq!(
        removed,
        [json!(true), json!(false)],
        "not under somebody, whoever asks"
    );
    assert!(!db("open") && db("driven"));
    // Nothing was sent: the work continues, and its id can be found again.
    assert_eq!(
        run(state, &["--session", "open", "show", &open]).code,
        Some(2)
    );
    driver.prints(|event| event["event"] == "progress");
    driver.signal(Signal::INT);
    driver.end();
}

#[test]
fn cancels_a_call_that_leaving_already_stopped() {
    let bench = Bench::new();
    let state = &bench.state();
    // In the era where the end of a connection cancels the call, so that nothing runs when the cancel comes.
    let call = [
        "-s",
        &bench.server.url(),
        "--protocol",
        "2026-07-28",
        "call",
    ];
    let started = run(state, &[&call[..], &LONG, &["--detach"]].concat());
    assert_eq!(started.code, Some(0), "{started:#?}");
    let id = started.out.trim();
    let cancelled = run(state, &["cancel", id]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:#?}");
    assert!(
        cancelled.out.contains("is cancelled") && cancelled.out.contains("checkpoint stays"),
        "{cancelled:#?}"
    );
    let task = run(state, &["show", id, "--json"]).document();
    assert_eq!(task["status"], "cancelled", "{task}");
}

#[test]
fn a_script_gets_json_from_every_command_that_it_asks_for_it() {
    let bench = Bench::new();
    let state = &bench.state();
    let url = bench.server.url();
    let id = bench.start(&QUICK);
    for words in [
        &["wait", &id][..],
        &["ls"],
        &["show", &id],
        &["result", &id],
        &["logs", &id],
        &["watch", &id],
        &["export", &id],
        &["edit", &id, "--name", "x"],
        &["-s", &url, "tools"],
        &["servers", "list"],
        &["servers", "add", "lab", &url],
        &["servers", "test", "lab"],
        &["servers", "approve", "lab"],
        &["servers", "remove", "lab", "--yes"],
        &["sessions", "list"],
        &["paths"],
        &["doctor"],
        &["man", "call"],
        &["completions", "bash"],
        &["rm", &id],
        &["rm", "--undo", &id],
        &["clean"],
        &["sessions", "rm", "default"],
    ] {
        let ran = run(state, &[words, &["--json"]].concat());
        assert_eq!(ran.code, Some(0), "{words:?}: {ran:#?}");
        let documents = serde_json::Deserializer::from_str(&ran.out).into_iter::<Value>();
        let documents: Result<Vec<Value>, _> = documents.collect();
        assert!(!documents.unwrap().is_empty(), "{words:?}: {ran:#?}");
    }
}

/// Longer than anything takes on a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Who drives a session.
fn driver(state: &Path) -> Option<u32> {
    let paths = Paths::resolve(Some(state.to_owned()), "default").unwrap();
    DriverLock::holder(&paths)
}

/// Waits until somebody drives.
#[expect(clippy::disallowed_methods, reason = "a deadline of a test")]
fn until_driven(state: &Path) {
    let until = std::time::Instant::now() + DEADLINE;
    while driver(state).is_none() {
        assert!(std::time::Instant::now() < until, "nobody drives");
        crate::support::pause();
    }
}

fn pid(tui: &Tui) -> Option<u32> {
    u32::try_from(tui.pid().as_raw_nonzero().get()).ok()
}

/// An environment, a server in this process, a shell that drives a call, and the call's id.
fn driven(revision: &str, words: &[&str]) -> (TestEnv, demo_server::DemoServer, Running, String) {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    let url = server.url();
    let call = ["-s", &url, "--protocol", revision, "--json", "call"];
    let mut shell = Running::start(&mut program(env.path(), &[&call[..], words].concat()));
    let started = shell.prints(|event| event["event"] == "started");
    shell.prints(|event| event["event"] == "progress");
    let id = started.get("id").and_then(Value::as_str).unwrap();
    let id = id.to_owned();
    (env, server, shell, id)
}

#[test]
fn a_readonly_window_never_takes_over() {
    let (env, _server, shell, id) = driven("2025-06-18", &LONG);
    let mut looks = env.open(&["--readonly"], (120, 36));
    looks.wait_for_line(&["running", "resumable_d"]);
    shell.signal(Signal::KILL);
    shell.end();
    looks.wait_for("No process is running the calls; this screen is read-only.");
    // It comes to look for a driver, which it would not if it were one: the lock is free, and this is nobody's socket.
    let paths = Paths::resolve(Some(env.path().to_owned()), "default").unwrap();
    std::fs::remove_file(paths.socket()).unwrap();
    let socket = UnixListener::bind(paths.socket()).unwrap();
    let (sender, come) = mpsc::channel();
    std::thread::spawn(move || sender.send(socket.accept().is_ok()));
    assert_eq!(come.recv_timeout(DEADLINE), Ok(true));
    assert_eq!(driver(env.path()), None);
    let mut shell = Running::start(&mut program(env.path(), &["watch", &id, "--json"]));
    shell.prints(|event| event["event"] == "progress");
    looks.wait_until("somebody drives", |screen| {
        !screen.contents().contains("No driver")
    });
    assert_ne!(driver(env.path()), pid(&looks));
    shell.signal(Signal::INT);
    shell.end();
    looks.press("q");
    looks.end();
}

#[cfg(target_os = "linux")]
#[test]
fn a_driver_out_of_file_descriptors_accepts_clients_later() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};

    let (env, _server, shell, _) = driven("2025-06-18", &LONG);
    let paths = Paths::resolve(Some(env.path().to_owned()), "default").unwrap();
    let join = || {
        let stream = UnixStream::connect(paths.socket()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        BufReader::new(stream)
    };
    let hear = |stream: &mut BufReader<UnixStream>, wanted: &str| {
        let mut line = String::new();
        while line.trim_end() != wanted {
            line.clear();
            assert_ne!(stream.read_line(&mut line).unwrap(), 0, "no {wanted}");
        }
    };
    let mut before = join();
    let mut greeting = String::new();
    before.read_line(&mut greeting).unwrap();
    // The first frame is the same in both directions.
    before.get_mut().write_all(greeting.as_bytes()).unwrap();
    let pid = i32::try_from(driver(env.path()).unwrap()).unwrap();
    let files = |limit: Rlimit| {
        let files = Resource::Nofile;
        prlimit(Pid::from_raw(pid), files, limit).unwrap()
    };
    let usual = files(Rlimit {
        current: Some(1),
        ..rustix::process::getrlimit(Resource::Nofile)
    });
    let mut after = join();
    // It accepts new clients before it has answered these.
    for _ in 0..3 {
        before.get_mut().write_all(b"ping\n").unwrap();
        hear(&mut before, "pong");
    }
    files(usual);
    hear(&mut after, greeting.trim_end());
    shell.signal(Signal::INT);
    shell.end();
}

#[test]
fn detaches_at_once_when_another_window_drives() {
    let (env, _server, mut shell, _) = driven("2026-07-28", &LONG);
    let plain = ["call", "crunch", "steps=1000", "step_ms=500", "--detach"];
    let ran = run(env.path(), &plain);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let shown = run(env.path(), &["show", ran.out.trim(), "--json"]).document();
    assert_eq!(
        (&shown["status"], &shown["if_cut"]),
        (&"running".into(), &"lost".into())
    );
    // Who drives it hears what leaving ends, though the own call would stay.
    let left = ran.out.trim();
    shell.signal(Signal::INT);
    shell.says(&format!("quitting would lose {left}: "));
    shell.signal(Signal::INT);
    shell.says(&format!("quitting also lost {left}"));
    assert_eq!(shell.end().code, Some(130));
}

#[test]
fn a_readonly_window_without_a_driver_sends_nothing() {
    let (env, server, shell, id) = driven("2025-06-18", &LONG);
    shell.signal(Signal::KILL);
    shell.end();
    let saved = |env: &TestEnv| run(env.path(), &["show", &id, "--json"]).document();
    let before = saved(&env);
    let watch = ["--readonly", "watch", &id];
    let mut looks = Running::start(&mut program(env.path(), &watch));
    looks.says("no process is running this session's calls; showing saved data");
    wrong(
        &run(env.path(), &["--readonly", "-s", &server.url(), "tools"]),
        "no process is running this session's calls, and --readonly starts none",
    );
    assert_eq!(driver(env.path()), None);
    assert_eq!(saved(&env), before);
    // It sees what others save, also where they come and go before it hears of them.
    let mut screen = env.open(&["--readonly"], (120, 36));
    screen.wait_for("No process is running the calls; this screen is read-only.");
    let url = server.url();
    let quick = [
        "-s",
        &url,
        "call",
        "get_forecast",
        "city=Oslo",
        "delay_ms=1",
    ];
    assert_eq!(run(env.path(), &quick).code, Some(0));
    screen.wait_for_line(&["completed", "get_forecast"]);
    let all = run(env.path(), &["ls", "--json"]).document();
    let mut all = all.as_array().unwrap().iter();
    let done = all.find(|task| task["tool"] == "get_forecast").unwrap();
    assert_eq!(
        run(env.path(), &["rm", done["id"].as_str().unwrap()]).code,
        Some(0)
    );
    screen.wait_until("it is gone", |screen| {
        !screen.contents().contains("get_forecast")
    });
    let mut shell = Running::start(&mut program(env.path(), &["watch", &id, "--json"]));
    shell.prints(|event| event["event"] == "progress");
    assert_eq!(run(env.path(), &["cancel", &id]).code, Some(0));
    assert_eq!(looks.end().code, Some(8));
    assert_eq!(shell.end().code, Some(8));
    assert_eq!(run(env.path(), &watch).code, Some(8));
}

/// What `ls --json` and `logs --json` of the program of 2026-11-22 printed for its own session file. The sentences among
/// it are left out, because they may be reworded.
const OLD_OUTPUT: &str = include_str!("../fixtures/session-2026-11-22.json");

/// Each field that was there is there now, with its value; there may be more.
fn assert_keeps(old: &Value, new: &Value) {
    for (key, value) in old.as_object().unwrap() {
        match value {
            Value::Object(_) => assert_keeps(value, &new[key]),
            _ => assert_eq!(&new[key], value, "{key} of {old}"),
        }
    }
}

#[test]
fn shows_an_old_session_file_as_its_program_did() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let paths = Paths::resolve(Some(state.clone()), "default").unwrap();
    std::fs::create_dir_all(paths.sessions_dir()).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    std::fs::copy(fixtures.join("session-2026-11-22.db"), paths.db()).unwrap();
    let old: Value = serde_json::from_str(OLD_OUTPUT).unwrap();

    let now = run(&state, &["ls", "--json"]).document();
    let (before, now) = (old["tasks"].as_array().unwrap(), now.as_array().unwrap());
    assert_eq!(now.len(), before.len());
    for (before, now) in before.iter().zip(now) {
        let mut before = before.clone();
        // It has another name now, and other words.
        let fields = before.as_object_mut().unwrap();
        fields.retain(|name, _| !name.starts_with("leaving"));
        assert_keeps(&before, now);
        let id = now["id"].as_str().unwrap();
        let history = run(&state, &["logs", "--json", id]).events();
        let recorded = old["history"][id].as_array().unwrap();
        assert_eq!(history.len(), recorded.len(), "{id}");
        for (before, now) in recorded.iter().zip(&history) {
            assert_keeps(before, now);
        }
    }
    // What was removed can still be brought back.
    let with_removed = run(&state, &["ls", "--all", "--json"]).document();
    assert_eq!(with_removed.as_array().unwrap().len(), before.len() + 1);
}
