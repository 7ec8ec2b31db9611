//! Many tasks and many sessions from a shell: finding, waiting, editing, forgetting, and removing for good.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

mod support;

use std::path::{Path, PathBuf};

use longhaul::demo;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{
    program::{Ran, Running, program, run},
    server,
};
use tempfile::TempDir;

/// The demo server in this process, and a state directory.
struct Bench {
    dir: TempDir,
    server: demo::Server,
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
    let views = "[views.night]\nfilter = \"tag:nightly\"\n[views.mine]\nneeds_you = true\n";
    longhaul::store::write_atomically(&state.join("config.toml"), views.as_bytes()).unwrap();
    let mut of_view = ids(state, &["--view", "night"]);
    of_view.sort();
    assert_eq!(of_view, both);
    assert_eq!(ids(state, &["--view", "night", "first"]), [one.as_str()]);
    assert_eq!(ids(state, &["--view", "mine"]), [""; 0]);
    let gone = run(state, &["ls", "--view", "gone"]);
    wrong(&gone, "no view gone; it has mine, night");

    let of = |words: &[&str]| ids(state, words);
    assert_eq!(of(&[]), [three.as_str(), two.as_str(), one.as_str()]);
    assert_eq!(of(&["--tool", "get_forecast"]), [two.as_str()]);
    assert_eq!(
        of(&["--tag", "nightly", "--status", "done"]),
        [two.as_str(), one.as_str()]
    );
    // The grammar of the screen, in one word or several.
    assert_eq!(of(&["status:completed", "!first"]), [two.as_str()]);
    assert_eq!(of(&["tag:night city=oslo"]), [two.as_str()]);
    assert_eq!(of(&["status:unwatched"]), [three.as_str()]);
    assert_eq!(
        of(&["--since", "2100-01-01T00:00:00Z"]),
        Vec::<String>::new()
    );
    assert_eq!(of(&["--since", "1h"]).len(), 3);

    wrong(&run(state, &["wait", "--tag", "weekly"]), "longhaul ls");
    wrong(&run(state, &["wait"]), "longhaul wait --tag TAG");
    wrong(&run(state, &["rm"]), "--help");
    wrong(&run(state, &["rm", &one, "--older-than", "7d"]), "--help");

    // Nothing is as old as that; what runs is never meant.
    assert_eq!(
        run(state, &["rm", "--older-than", "7d"]).out,
        "0 tasks forgotten\n"
    );
    let kept = run(state, &["clean", "--keep", "1", "--json"]).document();
    assert_eq!(kept, json!({"forgotten": [one]}), "the newest stays");
    let gone = run(state, &["rm", "--older-than", "1ms"]);
    assert_eq!(gone.out, "1 task forgotten\n", "{gone:#?}");
    assert_eq!(of(&[]), [three.as_str()]);
    let back = run(state, &["rm", "--undo", &one, &three, "--json"]).document();
    assert_eq!(back, json!({"brought_back": [one], "unchanged": [three]}));
}

#[test]
fn the_worst_outcome_of_several_decides() {
    let bench = Bench::new();
    let state = &bench.state();
    let good = bench.start(&QUICK);
    // More records than the server takes; whether that is seen before it is left is the luck of a moment.
    let huge = ["--name", "huge", "--detach"];
    let too_many = ["call", QUICK[0], "dataset_name=x", "total_records=99999999"];
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
fn name_note_and_limits_are_edited_at_rest_and_while_somebody_drives() {
    let bench = Bench::new();
    let state = &bench.state();
    let id = bench.start(&[&LONG[..], &["--name", "old", "--max-time", "2h"]].concat());
    let show = || run(state, &["show", &id, "--json"]).document();
    let edit = |words: &[&str]| run(state, &[&["edit", &id], words].concat());

    let edited = edit(&["--name", "nightly", "--idle-timeout", "10m"]);
    assert_eq!(edited.code, Some(0), "{edited:#?}");
    assert!(edited.out.contains("idle limit  10m"), "{edited:#?}");
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
fn sessions_are_listed_and_removed_but_never_under_somebody() {
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
    let counts = |name: &str| (of(name)["tasks"].clone(), of(name)["unsettled"].clone());
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
        ran.err.contains("kept open: 1 task in it unsettled"),
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
    // Nothing was sent: the work goes on, and its id is free to be found again.
    assert_eq!(
        run(state, &["--session", "open", "show", &open]).code,
        Some(2)
    );
    driver.prints(|event| event["event"] == "progress");
    driver.signal(Signal::INT);
    driver.end();
}

#[test]
fn what_leaving_has_stopped_already_is_cancelled_and_not_said_to_ignore_it() {
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
        &["servers", "consent", "lab"],
        &["servers", "remove", "lab", "--yes"],
        &["sessions", "list"],
        &["paths"],
        &["doctor", "--offline"],
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
