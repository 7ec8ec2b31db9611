//! The keeper: it starts on demand, outlives its clients, exits when idle, and there is only one.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use axum::{Router, routing::post};
use longhaul::store::{CONTRACT, DriverLock, write_atomically};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::support::{
    kept::{Kept, until},
    program::{Running, finish},
    pty::{self, TestEnv},
    server,
};

const WIDE: (u16, u16) = (120, 36);

#[test]
fn the_configuration_turns_the_keeper_off_for_the_screen_too() {
    let kept = Kept::new();
    let config = kept.path().join("config.toml");
    write_atomically(&config, b"[defaults]\nkeeper = false\n").unwrap();
    let env = TestEnv::at(kept.path().to_owned());
    let mut screen = env.open_with(&[("LONGHAUL_KEEPER", "1")], pty::program(), &[], WIDE);
    screen.wait_for("No tasks yet");
    screen.wait_until_it_drives(kept.path());
    screen.press("q");
    assert_eq!(screen.end().0, 0);
}

#[test]
fn a_test_of_a_server_asks_the_server_itself() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let url = server.url();
    let test = ["-s", &url, "servers", "test"];
    assert!(kept.ok(&test).out.contains(" answers in "));
    server.kill();
    // The keeper still knows the server's tools.
    let ran = kept.run(&test);
    assert_eq!(ran.code, Some(4), "{ran:#?}");
    assert!(ran.out.contains("did not answer"), "{ran:#?}");
}

#[test]
fn a_server_is_removed_from_a_session_whose_keeper_has_nothing_to_do() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let url = server.url();
    kept.ok(&["-s", &url, "call", "crunch", "steps=1", "step_ms=1"]);
    let name = server.addr().to_string();
    assert!(kept.ok(&["servers", "list"]).out.contains(&name));
    kept.ok(&["servers", "remove", &name]);
    assert!(!kept.ok(&["servers", "list"]).out.contains(&name));
}

#[test]
fn a_call_outlives_the_client_that_started_it() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let url = server.url();
    // A plain call of the newest revision: nothing else than its connection leads back to it.
    let call = [
        "-s",
        &url,
        "--protocol",
        "2026-07-28",
        "--json",
        "call",
        "crunch",
        "steps=40",
        "step_ms=50",
    ];
    for signal in [Signal::KILL, Signal::HUP, Signal::TERM, Signal::INT] {
        let mut client = kept.start(&call);
        let started = client.prints(|event| event["event"] == "started");
        client.prints(|event| event["event"] == "progress");
        client.signal(signal);
        let ended = client.end();
        let id = started["id"].as_str().unwrap();
        if signal == Signal::INT {
            assert!(
                ended.err.contains(&format!(
                    "detached; {id} keeps running (`longhaul watch {id}`, `longhaul cancel {id}`)"
                )),
                "{ended:#?}"
            );
        }
        let shown = kept.ok(&["show", id, "--json"]).document();
        assert_eq!(shown["if_cut"], "lost", "{shown}");
        assert_eq!(shown["if_cut_reason"], "modern_call", "{shown}");
        kept.ok(&["wait", id]);
        let all: Vec<f64> = (1..=40).map(f64::from).collect();
        assert_eq!(kept.steps(id), all, "{signal:?}");
    }
}

#[test]
fn a_screen_quits_at_once_and_its_calls_continue() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let url = server.url();
    let id = kept.detach(&[
        "-s",
        &url,
        "--protocol",
        "2026-07-28",
        "crunch",
        "steps=100000",
        "step_ms=100",
    ]);
    let env = TestEnv::at(kept.path().to_owned());
    let open = || env.open_with(&[("LONGHAUL_KEEPER", "1")], pty::program(), &[], WIDE);
    let keeper = kept.keeper().unwrap();
    let mut screen = open();
    screen.wait_for_line(&["running", "crunch", "LOST"]);
    screen.wait_for(&format!("keeper pid {}", keeper.as_raw_nonzero()));
    screen.wait_for("q quit: 1 unfinished call stays in the background");
    screen.press("q");
    assert_eq!(screen.end().0, 0);
    assert!(
        screen
            .text()
            .contains("1 unfinished call stays in the background; to watch"),
        "{}",
        screen.text()
    );
    assert_eq!(kept.keeper(), Some(keeper));

    let mut screen = open();
    screen.wait_for_line(&["running", "crunch", "LOST"]);
    screen.press("Q");
    screen.wait_for("Stop the keeper?");
    screen.wait_for("closing the connection cancels");
    // Keys typed right after a dialog opens are ignored.
    while screen.text().contains("Stop the keeper?") && !screen.has_ended() {
        screen.press("y");
        screen.watch_for(Duration::from_millis(50));
    }
    assert_eq!(screen.end().0, 0);
    assert_eq!(kept.keeper(), None);
    let shown = kept.ok(&["show", &id, "--json"]).document();
    assert_eq!(shown["status"], "lost", "{shown}");
}

#[test]
fn clients_that_wait_for_a_call_lost_with_the_keeper_exit() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let id = kept.detach(&["-s", &server.url(), "crunch", "steps=100000", "step_ms=100"]);
    let waiting = kept.start(&["wait", &id]);
    let mut watching = kept.start(&["watch", &id, "--json"]);
    watching.prints(|event| event["event"] == "progress");
    let stopped = kept.ok(&["keeper", "stop"]);
    assert!(
        stopped.err.contains(&format!("can't be resumed: {id}")),
        "{stopped:#?}"
    );
    for client in [waiting, watching] {
        let ended = client.end();
        assert_eq!(ended.code, Some(5), "{ended:#?}");
    }
}

#[test]
fn many_clients_at_once_start_one_keeper() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let url = server.url();
    kept.ok(&["servers", "add", "lab", &url]);
    let barrier = Barrier::new(20);
    let results: BTreeSet<String> = thread::scope(|scope| {
        let calls: Vec<_> = (0..20)
            .map(|number| {
                let (kept, barrier) = (&kept, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let dataset = format!("dataset_name=d{number}");
                    kept.detach(&[
                        "-s",
                        "lab",
                        "resumable_data_processing",
                        &dataset,
                        "total_records=20",
                        "delay_ms=10",
                    ])
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(results.len(), 20);
    let words: Vec<&str> = ["wait"]
        .into_iter()
        .chain(results.iter().map(String::as_str))
        .collect();
    kept.ok(&words);
    let log = kept.ok(&["keeper", "log"]).out;
    assert_eq!(log.matches("keeper started").count(), 1, "{log}");
    let all = kept.ok(&["ls", "--all", "--json"]).document();
    assert_eq!(all.as_array().unwrap().len(), 20);
}

#[test]
fn a_killed_keeper_is_replaced_and_its_calls_recover() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let url = server.url();
    kept.ok(&["servers", "add", "lab", &url]);
    let id = kept.detach(&[
        "-s",
        "lab",
        "resumable_data_processing",
        "dataset_name=eu",
        "total_records=300",
        "batch_size=5",
        "delay_ms=50",
    ]);
    let mut watch = kept.start(&["watch", &id, "--json"]);
    watch.prints(|event| event["event"] == "progress");
    kept.kill_keeper();
    // A client that is connected starts the next one by itself.
    let ended = watch.end();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let steps = kept.steps(&id);
    let all: Vec<f64> = (1..=60).map(|step| f64::from(step * 5)).collect();
    assert_eq!(steps, all);
}

#[test]
fn resume_all_starts_a_keeper_for_calls_that_nobody_runs() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let url = server.url();
    let steps = ["-s", &url, "resumable_data_processing", "dataset_name=eu"];
    let id = kept.detach(&[&steps[..], &["total_records=400", "delay_ms=50"]].concat());
    kept.kill_keeper();
    let resumed = kept.ok(&["resume", "--all"]);
    assert!(resumed.out.contains(&id), "{resumed:#?}");
    assert!(kept.keeper().is_some());
    kept.ok(&["wait", &id]);
    let logs = kept.ok(&["logs", &id]).out;
    // The lock file tells for how long nobody ran it.
    assert!(!logs.contains("for up to 1m"), "{logs}");
}

#[test]
fn a_stopped_keeper_stays_stopped_until_it_is_needed() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let url = server.url();
    assert!(
        kept.ok(&["keeper", "status"])
            .out
            .contains("no keeper is running")
    );
    let id = kept.detach(&[
        "-s",
        &url,
        "resumable_data_processing",
        "dataset_name=eu",
        "total_records=100000",
        "delay_ms=50",
    ]);
    let status = kept.ok(&["keeper", "status"]).out;
    assert!(
        status.starts_with("keeper ") && status.contains("1 unfinished task"),
        "{status}"
    );
    let env = TestEnv::at(kept.path().to_owned());
    let mut screen = env.open_with(&[("LONGHAUL_KEEPER", "1")], pty::program(), &[], WIDE);
    // A screen that is not connected yet starts a keeper of its own.
    screen.wait_for("live, last byte");
    let mut watch = kept.start(&["watch", &id, "--json"]);
    watch.prints(|event| event["event"] == "progress");
    let stopped = kept.ok(&["keeper", "stop"]).out;
    assert!(stopped.starts_with("stopped keeper "), "{stopped}");
    let watched = watch.end();
    assert_eq!(watched.code, Some(75), "{watched:#?}");
    assert!(
        watched.err.contains("the keeper was stopped"),
        "{watched:#?}"
    );
    screen.wait_for("No keeper answers; longhaul starts one when needed.");
    assert_eq!(kept.keeper(), None);
    assert_eq!(DriverLock::holder(&kept.paths()), None);
    assert!(!kept.paths().socket().exists());
    screen.press("r");
    screen.wait_until("it is back", |screen| {
        !screen.contents().contains("No keeper answers")
    });
    assert!(kept.keeper().is_some());
    // The screen also follows a keeper that another process starts.
    kept.ok(&["keeper", "stop"]);
    screen.wait_for("No keeper answers");
    kept.ok(&["resume", &id]);
    screen.wait_until("it is back", |screen| {
        !screen.contents().contains("No keeper answers")
    });
    screen.press("q");
    assert_eq!(screen.end().0, 0);
    kept.ok(&["cancel", &id]);
}

/// A server whose tool list never comes when `hangs` says so of the number of lists before; how often it was asked for it.
fn server_with_slow_list(hangs: fn(usize) -> bool) -> (Arc<AtomicUsize>, String) {
    let lists = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&lists);
    let handle = async move |body: String| {
        let message: Value = serde_json::from_str(&body).unwrap();
        if message["method"] == "tools/list" && hangs(count.fetch_add(1, Ordering::Relaxed)) {
            std::future::pending::<()>().await;
        }
        server::answer_with_one_tool("slow", "work", &message)
    };
    let addr = server::serve(Router::new().route("/mcp", post(handle)));
    (lists, format!("http://{addr}/mcp"))
}

#[test]
fn a_call_does_not_wait_for_the_tools_of_a_known_server_that_hangs() {
    let kept = Kept::new();
    let (_, url) = server_with_slow_list(|before| before > 0);
    kept.ok(&["-s", &url, "tools"]);
    kept.ok(&["keeper", "stop"]);
    let id = kept.detach(&["-s", &url, "work", "text=x"]);
    assert_eq!(kept.ok(&["show", &id, "--json"]).document()["id"], id);
}

#[test]
fn a_request_that_a_stopped_keeper_leaves_open_goes_to_the_next_one() {
    let kept = Kept::new();
    let (lists, url) = server_with_slow_list(|before| before == 0);
    let tools = kept.start(&["-s", &url, "tools"]);
    until("the server is asked for its tools", || {
        lists.load(Ordering::Relaxed) == 1
    });
    kept.ok(&["keeper", "stop"]);
    let ran = tools.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.out.contains("work"), "{ran:#?}");
}

#[test]
fn the_next_command_knows_a_server_whose_tools_were_listed() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    kept.ok(&["-s", &server.url(), "tools"]);
    kept.detach(&["get_forecast", "city=Oslo", "delay_ms=1"]);
}

#[test]
fn a_wrong_path_does_not_keep_the_name_of_the_server() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let wrong = server.url().replace("/mcp", "/nothing");
    let ran = kept.run(&["-s", &wrong, "tools"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    let ran = kept.ok(&[
        "-s",
        &server.url(),
        "call",
        "get_forecast",
        "city=Oslo",
        "delay_ms=1",
    ]);
    assert!(ran.out.contains("Oslo"), "{ran:#?}");
}

#[test]
fn an_idle_keeper_exits() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    kept.ok(&["-s", &server.url(), "tools"]);
    assert!(kept.keeper().is_some());
    until("it has exited", || {
        DriverLock::holder(&kept.paths()).is_none()
    });
    assert!(!kept.paths().socket().exists());
    until("it says so in its log", || {
        kept.ok(&["keeper", "log"])
            .out
            .contains("the keeper has exited")
    });
}

#[test]
fn a_leftover_socket_does_not_stop_a_start() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let socket = kept.paths().socket();
    // As a keeper leaves it that was killed: the file is there, and nobody listens.
    drop(UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    kept.ok(&["-s", &server.url(), "tools"]);
    assert!(kept.keeper().is_some());
}

#[test]
fn a_keeper_without_a_socket_says_why_and_leaves_the_session() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    // Something else has its name.
    let socket = kept.paths().socket();
    std::fs::create_dir_all(socket.join("x")).unwrap();
    let ran = kept.run(&["-s", &server.url(), "tools"]);
    assert_eq!(ran.code, Some(73), "{ran:#?}");
    assert!(ran.err.contains(&*socket.to_string_lossy()), "{ran:#?}");
    assert_eq!(DriverLock::holder(&kept.paths()), None);
    std::fs::remove_dir_all(&socket).unwrap();
    kept.ok(&["-s", &server.url(), "tools"]);
}

// Elsewhere the system doesn't tell which files a process has open.
#[cfg(target_os = "linux")]
#[test]
fn an_id_in_a_leftover_lock_file_is_nobody() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    kept.ok(&["-s", &server.url(), "tools"]);
    kept.kill_keeper();
    // By now the number belongs to another process: this one.
    let pid = std::process::id().to_string();
    write_atomically(&kept.paths().lock(), pid.as_bytes()).unwrap();
    assert_eq!(DriverLock::holder(&kept.paths()), None);
    kept.ok(&["tools"]);
}

#[test]
fn a_suspended_keeper_is_reported_and_continues() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let url = server.url();
    let id = kept.detach(&[
        "-s",
        &url,
        "resumable_data_processing",
        "dataset_name=eu",
        "total_records=50",
        "delay_ms=50",
    ]);
    let keeper = kept.keeper().unwrap();
    kill_process(keeper, Signal::STOP).unwrap();
    let asked = kept.run(&["-s", &url, "tools"]);
    assert_eq!(asked.code, Some(75), "{asked:#?}");
    assert!(asked.err.contains("is suspended"), "{asked:#?}");
    kill_process(keeper, Signal::CONT).unwrap();
    kept.ok(&["-s", &url, "tools"]);
    kept.ok(&["wait", &id]);
    assert_eq!(kept.keeper(), Some(keeper));
}

#[test]
fn a_keeper_that_cannot_start_says_why() {
    let kept = Kept::new();
    let sessions = kept.paths().sessions_dir();
    // The session's file is a directory.
    std::fs::create_dir(kept.paths().db()).unwrap();
    let ran = kept.run(&["-s", "http://127.0.0.1:1/mcp", "tools"]);
    assert_eq!(ran.code, Some(73), "{ran:#?}");
    assert!(ran.err.contains(&*sessions.to_string_lossy()), "{ran:#?}");
    assert_eq!(DriverLock::holder(&kept.paths()), None);
}

/// What a keeper of another contract does: it greets, answers one verb, and tells which it was.
fn other_keeper(kept: &Kept, contract: u32, unsettled: u32) -> mpsc::Receiver<Value> {
    let socket = kept.paths().socket();
    let name = socket.file_name().unwrap().to_str().unwrap();
    let name = name.replace(&format!(".{CONTRACT}."), &format!(".{contract}."));
    let path = socket.with_file_name(name);
    let listener = UnixListener::bind(&path).unwrap();
    let (verbs, asked) = mpsc::channel();
    thread::spawn(move || {
        let hello = json!({"contract": contract, "version": "9.9.9", "capabilities": ["tea"]});
        let status = json!({"pid": 4711, "version": "9.9.9", "contract": contract, "is_keeper": true,
            "since_ms": 0, "unsettled": unsettled, "clients": 0, "tea": 1});
        for stream in listener.incoming() {
            let mut stream: UnixStream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            if writeln!(stream, "{hello}").is_err() || lines.read_line(&mut line).unwrap_or(0) == 0
            {
                continue;
            }
            let verb: Value = serde_json::from_str(&line).unwrap();
            let is_stop = verb["verb"] == "stop";
            let answer = if is_stop { "stopping" } else { "status" };
            let _ = writeln!(stream, "{}", json!({ answer: status }));
            if is_stop {
                std::fs::remove_file(&path).unwrap();
            }
            if verbs.send(verb["verb"].clone()).is_err() || is_stop {
                return;
            }
        }
    });
    asked
}

#[test]
fn says_which_side_is_older_and_can_stop_it() {
    for (contract, side) in [(CONTRACT + 1, "newer"), (CONTRACT - 1, "older")] {
        let kept = Kept::new();
        let asked = other_keeper(&kept, contract, 2);
        let ran = kept.run(&["-s", "http://127.0.0.1:1/mcp", "tools"]);
        assert_eq!(ran.code, Some(75), "{ran:#?}");
        assert!(
            ran.err.contains(&format!("is {side} than this longhaul")),
            "{ran:#?}"
        );
        assert!(ran.err.contains("longhaul keeper stop"), "{ran:#?}");
        let status = kept.ok(&["keeper", "status", "--json"]).document();
        assert_eq!(status["keeper"]["contract"], contract);
        kept.ok(&["keeper", "stop"]);
        let verbs: Vec<Value> = asked.iter().collect();
        // `stop` first asks whether anything is not saved.
        assert_eq!(verbs, ["status", "status", "status", "stop"]);
    }
}

#[test]
fn replaces_an_idle_older_keeper_at_once() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let asked = other_keeper(&kept, CONTRACT - 1, 0);
    kept.ok(&["-s", &server.url(), "tools"]);
    let verbs: Vec<Value> = asked.iter().collect();
    assert_eq!(verbs, ["status", "stop"]);
    assert!(kept.keeper().is_some());
}

#[test]
fn a_stdio_server_gets_its_variables_from_the_client() {
    let kept = Kept::new();
    let state = kept.path();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stdio.sh");
    let config = format!(
        "[servers.files]\ncommand = \"/bin/sh\"\nargs = [{:?}, {:?}]\nenv = {{ SECRET = \"${{MY_SECRET}}\" }}\n",
        script.display().to_string(),
        state.display().to_string(),
    );
    longhaul::store::write_atomically(&state.join("config.toml"), config.as_bytes()).unwrap();
    kept.ok(&["servers", "approve", "files", "--yes"]);
    // This one starts the keeper, and has no such variable.
    kept.ok(&["keeper", "status"]);
    let lab = server::demo(state.join("server"));
    kept.ok(&["-s", &lab.url(), "tools"]);
    let keeper = kept.keeper().unwrap();
    let mut call = kept.command(&["-s", "files", "--json", "call", "stay"]);
    let mut client = Running::start(call.env("MY_SECRET", "hunter22"));
    let started = client.prints(|event| event["event"] == "started");
    client.prints(|event| event["event"] == "progress");
    client.signal(Signal::KILL);
    client.end();
    let id = started["id"].as_str().unwrap();
    assert_eq!(kept.keeper(), Some(keeper));
    let shown = kept.ok(&["show", id, "--json"]).document();
    assert_eq!(
        (&shown["status"], &shown["if_cut_reason"]),
        (&"running".into(), &"server_process".into())
    );
    let environment = std::fs::read_to_string(state.join("environment")).unwrap();
    assert!(environment.starts_with("hunter22 "), "{environment}");
    assert!(environment.trim_end().ends_with(" none"), "{environment}");
    // Another value is used for everybody, so it is not used in silence.
    let mut screen = TestEnv::at(state.to_owned()).open(&[], (160, 36));
    screen.press("4");
    screen.wait_for("Messages");
    let mut other = kept.command(&["-s", "files", "tools"]);
    assert_eq!(finish(other.env("MY_SECRET", "hunter33")).code, Some(0));
    screen.wait_for("files now uses a different value of MY_SECRET");
    screen.press("\u{3}\u{3}");
    screen.end();
    kept.run(&["cancel", id]);
}

#[test]
fn no_server_process_outlives_a_killed_keeper() {
    let kept = Kept::new();
    let state = kept.path();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stdio.sh");
    // The server's child reads no stdin, and SIGTERM does not end it.
    let shell = format!(
        "(trap '' TERM; while :; do sleep 1; done) & echo $! > {0}/child; exec sh {1} {0}",
        state.display(),
        script.display()
    );
    let config = format!("[servers.files]\ncommand = \"/bin/sh\"\nargs = [\"-c\", {shell:?}]\n");
    longhaul::store::write_atomically(&state.join("config.toml"), config.as_bytes()).unwrap();
    kept.ok(&["servers", "approve", "files", "--yes"]);
    kept.detach(&["-s", "files", "stay"]);
    let child = std::fs::read_to_string(state.join("child")).unwrap();
    let child = Pid::from_raw(child.trim().parse().unwrap()).unwrap();
    assert!(test_kill_process(child).is_ok());
    kept.kill_keeper();
    until("its child has ended", || {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        test_kill_process(child).is_err() || stat.contains(") Z ")
    });
}

#[test]
fn an_unused_keeper_is_in_nobodys_way() {
    let kept = Kept::new();
    let server = server::demo(kept.path().join("server"));
    let tools = kept.ok(&["-s", &server.url(), "tools"]).out;
    assert!(
        tools.contains("crunch ") && tools.contains("  (if cut: "),
        "{tools}"
    );
    assert!(kept.keeper().is_some());
    kept.ok(&["sessions", "rm", "default"]);
    assert_eq!(kept.keeper(), None);
    assert!(!kept.paths().db().exists());

    let id = kept.detach(&["-s", &server.url(), "crunch", "steps=100000", "step_ms=100"]);
    let refused = kept.run(&["sessions", "rm", "default"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    kept.ok(&["show", &id]);
    let removed = kept.ok(&["sessions", "rm", "default", "--force"]);
    let left = "with 1 unfinished task (its calls are not cancelled on the server)";
    assert!(removed.out.contains(left), "{removed:#?}");
    assert_eq!(kept.keeper(), None);
}
