//! Servers that are programs: nothing starts without an approval that showed all of it, a call works as on any server, and
//! what ends a program, or the driver, is told as it is.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::support::program::{Ran, Running, finish, program, run};
use crate::support::pty::{self, TestEnv};
use crate::support::server as servers;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process, test_kill_process},
};
use serde_json::Value;

/// Longer than anything takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The script that is an MCP server; see there what its tools do.
fn server() -> PathBuf {
    script("stdio.sh")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn write(path: PathBuf, text: &str) {
    use std::io::Write as _;
    let mut file = fs::File::create(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Writes the configuration with the server called `files`.
fn configure(state: &Path) {
    configure_as(state, &server());
}

fn configure_as(state: &Path, script: &Path) {
    let (script, dir) = (script.display(), state.display());
    write(
        state.join("config.toml"),
        &format!(
            "[servers.files]\ncommand = \"/bin/sh\"\nargs = [\"{script}\", \"{dir}\"]\n\
             env = {{ GIVEN = \"given\", SECRET = \"${{MY_SECRET}}\" }}\ncwd = \"/\"\n"
        ),
    );
}

fn ok(ran: Ran) -> Ran {
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    ran
}

/// A state directory whose server is approved.
fn approved() -> tempfile::TempDir {
    approved_as("stdio.sh")
}

/// As [`approved`], and the server is this script.
fn approved_as(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    configure_as(dir.path(), &script(name));
    ok(run(dir.path(), &["servers", "approve", "files", "--yes"]));
    dir
}

fn command(state: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = program(state, arguments);
    command.env("MY_SECRET", "hunter22");
    command
}

fn call(state: &Path, arguments: &[&str]) -> Ran {
    let arguments = [&["-s", "files", "call"], arguments].concat();
    finish(&mut command(state, &arguments))
}

/// The processes that the server has been.
fn pids(state: &Path) -> Vec<Pid> {
    let pids = text(state.join("pids"));
    let pid = |line: &str| Pid::from_raw(line.parse().unwrap()).unwrap();
    pids.lines().map(pid).collect()
}

/// Waits until none of them is there; a zombie of nobody's is none.
fn are_gone(state: &Path) {
    let pids = pids(state);
    assert!(!pids.is_empty());
    let is_there = |pid: &Pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        test_kill_process(*pid).is_ok() && !stat.contains(") Z ")
    };
    wait(|| !pids.iter().any(is_there));
}

fn wait(is_so: impl Fn() -> bool) {
    let (begun, waiting) = std::sync::mpsc::channel::<()>();
    let mut waited = Duration::ZERO;
    while !is_so() {
        assert!(waited < DEADLINE, "timed out");
        // Nobody sends: it is only the time-out that is wanted.
        let pause = Duration::from_millis(10);
        let _ = waiting.recv_timeout(pause);
        waited += pause;
    }
    drop(begun);
}

#[test]
fn a_refused_detach_leaves_no_task_and_runs_no_hook() {
    let dir = approved();
    let state = dir.path();
    let config = text(state.join("config.toml"));
    let heard = state.join("heard");
    let hook = format!("hook = 'cat >> {}'\nhook_on = \"all\"", heard.display());
    write(
        state.join("config.toml"),
        &format!("{config}\n[notify]\n{hook}\n"),
    );
    let refused = call(state, &["count", "--detach"]);
    assert_eq!(refused.code, Some(2), "{refused:#?}");
    assert!(refused.err.contains("nothing was sent"), "{refused:#?}");
    let left = run(state, &["ls", "--all", "--json"]).document();
    assert_eq!(left.as_array().unwrap().len(), 0, "{left:#?}");
    assert!(!heard.exists());
}

#[test]
fn starts_nothing_before_approval_and_asks_after_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    configure(state);
    let refused = call(state, &["count"]);
    assert_eq!(refused.code, Some(3), "{refused:#?}");
    assert!(
        refused.err.contains("servers approve files"),
        "{refused:#?}"
    );
    let tested = finish(&mut command(state, &["servers", "test", "files"]));
    assert_eq!(tested.code, Some(3), "{tested:#?}");
    ok(finish(&mut command(state, &["servers", "list"])));

    let asked = run(state, &["servers", "approve", "files"]);
    assert_eq!(asked.code, Some(2), "{asked:#?}");
    let shown = [
        "program     /bin/sh".to_owned(),
        format!("argument 1  {}", server().display()),
        format!("argument 2  {}", state.display()),
        "directory   /".to_owned(),
        "GIVEN from the configuration".to_owned(),
        "SECRET, from your environment variable MY_SECRET".to_owned(),
    ];
    for line in shown {
        assert!(asked.err.contains(&line), "{line}: {asked:#?}");
    }
    assert!(!state.join("pids").exists(), "nothing was started");

    ok(run(state, &["servers", "approve", "files", "--yes"]));
    ok(call(state, &["count"]));
    let runs = pids(state).len();
    let config = text(state.join("config.toml"));
    for (old, new) in [
        ("GIVEN = \"given\"", "GIVEN = \"other\""),
        ("cwd = \"/\"", "cwd = \"/tmp\""),
        ("args = [", "args = [\"-e\", "),
        ("/bin/sh", "/bin/bash"),
    ] {
        let changed = config.replace(old, new);
        assert_ne!(changed, config, "{old}");
        write(state.join("config.toml"), &changed);
        let refused = call(state, &["count"]);
        assert_eq!(refused.code, Some(3), "{new}: {refused:#?}");
    }
    assert_eq!(pids(state).len(), runs, "nothing more was started");
}

#[test]
fn an_imported_program_starts_only_after_approval() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let (script, place) = (server(), state.to_str().unwrap());
    let entry = serde_json::json!({"mcpServers": {"files": {
        "command": "/bin/sh", "args": [script.to_str().unwrap(), place],
    }}});
    write(state.join("mcp.json"), &entry.to_string());
    let file = state.join("mcp.json");
    let imported = ok(run(state, &["servers", "import", file.to_str().unwrap()]));
    assert!(
        imported.out.contains("longhaul servers approve files"),
        "{imported:#?}"
    );
    let listed = ok(run(state, &["servers", "list", "--json"])).document();
    assert_eq!(listed[0]["state"], "needs-approval", "{listed}");
    assert_eq!(call(state, &["count"]).code, Some(3));
    assert!(!state.join("pids").exists(), "nothing was started");
    ok(run(state, &["servers", "approve", "files", "--yes"]));
    ok(call(state, &["count"]));
    are_gone(state);
}

#[test]
fn a_hostile_command_is_shown_harmlessly() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let config = "[servers.evil]\ncommand = \"/bin/sh\"\n\
        args = [\"-c\", \"echo\\n  approve? y\\u001b[2J\\u202e\", \"it's\"]\n\
        env = { A = \"hunter22 ${B}\", LD_PRELOAD = \"/tmp/evil.so\" }\n";
    write(state.join("config.toml"), config);
    let asked = run(state, &["servers", "approve", "evil"]);
    let listed = ok(run(state, &["servers", "list"]));
    for shown in [&asked.err, &listed.out] {
        let is_hostile =
            |letter: char| letter != '\n' && letter.is_control() || letter == '\u{202e}';
        assert!(!shown.contains(is_hostile), "{shown:?}");
        assert!(
            shown.contains(r"$'echo\n  approve? y\u{1b}[2J\u{202e}'"),
            "{shown}"
        );
    }
    assert!(
        asked.err.contains("A, from your environment variable B")
            && !asked.err.contains("hunter22")
    );
    // What says which code is run is no secret.
    assert!(asked.err.contains("LD_PRELOAD = /tmp/evil.so"));
}

#[test]
fn a_call_shows_progress_log_and_result_and_leaves_no_process() {
    let dir = approved();
    let state = dir.path();
    let ran = ok(call(state, &["count", "--json"]));
    let events = ran.events();
    let of =
        |event: &str| -> Vec<&Value> { events.iter().filter(|it| it["event"] == event).collect() };
    assert_eq!(of("started")[0]["resumability"], "none");
    let steps: Vec<&Value> = of("progress").iter().map(|it| &it["value"]).collect();
    assert_eq!(steps, [1, 2, 3]);
    let settled = of("settled")[0];
    assert_eq!(settled["result"]["content"][0]["text"], "counted to 3");
    are_gone(state);
    // What it was given: the variable, the fixed value, its directory, and nothing of ours.
    assert_eq!(text(state.join("environment")), "hunter22 given / none\n");
    let id = settled["id"].as_str().unwrap();
    let logs = ok(run(state, &["logs", id])).out;
    assert!(
        !logs.contains("hunter22") && !ran.err.contains("hunter22"),
        "{logs}"
    );
}

#[test]
fn noise_on_stdout_is_passed_over() {
    let dir = approved();
    let ran = ok(call(dir.path(), &["noise"]));
    assert_eq!(ran.out.trim(), "after the noise");
    assert!(
        ran.err
            .contains("not a message: Loading the model with [redacted:secret] ..."),
        "{ran:#?}"
    );
    assert!(!ran.err.contains("hunter22"), "{ran:#?}");
}

#[test]
fn a_result_over_the_limit_loses_only_its_own_call() {
    let dir = approved();
    let state = dir.path();
    let (staying, id) = staying(state, "stay");
    let huge = call(state, &["huge"]);
    assert_eq!(huge.code, Some(5), "{huge:#?}");
    assert!(huge.err.contains("larger than 16.8 MB"), "{huge:#?}");
    ok(call(state, &["count"]));
    assert_eq!(pids(state).len(), 1, "the process keeps running");
    assert_cancels(staying, state, &id);
}

#[test]
fn a_new_message_with_the_same_value_is_progress() {
    let dir = approved();
    let events = ok(call(dir.path(), &["talk", "--json"])).events();
    let steps = events.iter().filter(|event| event["event"] == "progress");
    let words: Vec<&str> = steps
        .map(|step| step["message"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["reading", "writing"]);
}

#[test]
fn a_question_is_answered() {
    let dir = approved();
    let state = dir.path();
    let (asking, id) = start_until(state, "ask", "input_required");
    assert_takes_answer(asking, state, &id);
    are_gone(state);
}

#[test]
fn a_question_beside_another_call_is_one_of_the_newest() {
    let dir = approved();
    let state = dir.path();
    let (driver, _) = staying(state, "stay");
    let arguments = ["-s", "files", "call", "ask", "--json"];
    let mut asking = Running::start(&mut command(state, &arguments));
    let asked = asking.prints(|it| it["event"] == "input_required");
    let id = asked["id"].as_str().unwrap();
    // It drives nothing, so that it can go.
    assert_eq!(asking.end().code, Some(6));
    ok(run(state, &["answer", id, "colour=red"]));
    ok(run(state, &["wait", id]));
    assert!(ok(run(state, &["result", id])).out.contains("you said red"));
    assert_eq!(pids(state).len(), 1, "both are in one process");
    driver.signal(Signal::TERM);
    driver.end();
    are_gone(state);
}

/// Starts a tool that stays, and gives its id once it works.
fn staying(state: &Path, tool: &str) -> (Running, String) {
    start_until(state, tool, "progress")
}

/// A call of `tool`, followed as JSON lines, once an event of such a kind was printed, and its id.
fn start_until(state: &Path, tool: &str, event: &str) -> (Running, String) {
    let arguments = ["-s", "files", "call", tool, "--json"];
    let mut staying = Running::start(&mut command(state, &arguments));
    let step = staying.prints(|it| it["event"] == event);
    let id = step["id"].as_str().unwrap().to_owned();
    (staying, id)
}

/// Cancels a call, and expects that it ends so and that its program ends too.
fn assert_cancels(mut call: Running, state: &Path, id: &str) {
    ok(run(state, &["cancel", id]));
    let settled = call.prints(|it| it["event"] == "settled");
    assert_eq!(settled["status"], "cancelled", "{settled}");
    call.end();
    are_gone(state);
}

/// Answers the question of a call, and expects that the call completes with the answer.
fn assert_takes_answer(mut asking: Running, state: &Path, id: &str) {
    ok(run(state, &["answer", id, "colour=red"]));
    let settled = asking.prints(|it| it["event"] == "settled");
    assert_eq!(settled["result"]["content"][0]["text"], "you said red");
    assert_eq!(asking.end().code, Some(0));
}

/// Calls a tool that asks as a task, answers it, and expects the result.
fn assert_answerable_task(state: &Path) {
    let (asking, id) = start_until(state, "asking", "input_required");
    let (outcome, why) = if_cut(state, &id);
    assert_eq!((outcome.as_str(), why.as_str()), ("lost", "server_process"));
    assert_takes_answer(asking, state, &id);
}

#[test]
fn exits_within_two_seconds_of_sigterm_under_load() {
    let dir = approved();
    let state = dir.path();
    // Some of the steps that come too fast are dropped.
    let (flooded, _) = start_until(state, "flood", "log");
    flooded.signal(Signal::TERM);
    assert_eq!(flooded.end().code, Some(130));
    are_gone(state);
}

#[test]
fn exits_within_two_seconds_of_sigterm_with_stdout_blocked() {
    let dir = approved();
    let state = dir.path();
    let (_reader, writer) = std::io::pipe().unwrap();
    let mut command = command(state, &["-s", "files", "call", "flood", "--json"]);
    let stuck = Running::start(command.stdout(writer.try_clone().unwrap()));
    wait(|| {
        let mut room = [PollFd::new(&writer, PollFlags::OUT)];
        poll(&mut room, Some(&Timespec::default())).unwrap() == 0
    });
    stuck.signal(Signal::TERM);
    assert_eq!(stuck.end().code, Some(130));
    are_gone(state);
}

#[test]
fn a_call_is_cancelled() {
    let dir = approved();
    let state = dir.path();
    let (mut staying, id) = staying(state, "stay");
    let shown = ok(run(state, &["show", &id, "--json"])).document();
    assert_eq!(shown["resumability"], "none", "{shown}");
    assert_eq!(shown["if_cut"], "lost", "{shown}");
    assert!(
        shown["if_cut_message"]
            .as_str()
            .unwrap()
            .contains("this server is a child process of longhaul"),
        "{shown}"
    );
    ok(run(state, &["cancel", &id]));
    staying.prints(|it| it["event"] == "settled");
    assert_eq!(staying.end().code, Some(8));
    assert!(text(state.join("events")).contains("cancelled"));
    are_gone(state);
}

#[test]
fn a_second_cancel_ends_an_unresponsive_program() {
    let dir = approved();
    let state = dir.path();
    let (staying, id) = staying(state, "deaf");
    let first = run(state, &["cancel", &id]);
    assert!(
        format!("{first:?}").contains("cancel again to stop the stdio server"),
        "{first:#?}"
    );
    assert_cancels(staying, state, &id);
}

#[test]
fn a_dead_program_loses_its_call_and_the_next_gets_a_new_one() {
    let dir = approved();
    let state = dir.path();
    let died = call(state, &["die"]);
    assert_eq!(died.code, Some(5), "{died:#?}");
    for words in ["exited with status 7", "out of cheese", "longhaul again"] {
        assert!(died.err.contains(words), "{words}: {died:#?}");
    }
    let (mut staying, _) = staying(state, "stay");
    kill_process(*pids(state).last().unwrap(), Signal::KILL).unwrap();
    let settled = staying.prints(|it| it["event"] == "settled");
    assert_eq!(settled["status"], "lost", "{settled}");
    assert_eq!(staying.end().code, Some(5));
    ok(call(state, &["count"]));
    are_gone(state);
}

#[test]
fn the_last_line_needs_no_end_and_the_log_before_it_is_of_its_call() {
    let dir = approved();
    let state = dir.path();
    let ran = ok(call(state, &["last", "--json"]));
    let events = ran.events();
    let settled = events.last().unwrap();
    assert_eq!(
        settled["result"]["content"][0]["text"], "the last",
        "{settled}"
    );
    let logged = events.iter().filter(|it| it["event"] == "log");
    let logged = logged.filter(|it| it["data"].to_string().contains("log line"));
    assert_eq!(logged.count(), 5, "{events:#?}");
}

#[test]
fn a_child_that_keeps_writing_does_not_hide_the_end_of_its_program() {
    let dir = approved();
    let died = call(dir.path(), &["orphan"]);
    assert_eq!(died.code, Some(5), "{died:#?}");
    assert!(died.err.contains("exited with status 7"), "{died:#?}");
    are_gone(dir.path());
}

/// What a script told of what happened to it, a line each.
fn events(state: &Path) -> Vec<String> {
    let events = text(state.join("events"));
    events.lines().map(str::to_owned).collect()
}

/// What a cut does to a task, and the reason for it.
fn if_cut(state: &Path, id: &str) -> (String, String) {
    let shown = ok(run(state, &["show", id, "--json"])).document();
    let word = |key: &str| shown[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(shown["resumability"], "none", "{shown}");
    (word("if_cut"), word("if_cut_reason"))
}

#[test]
fn calls_a_modern_only_program_without_a_handshake() {
    let dir = approved_as("stdio28.sh");
    let state = dir.path();
    for _ in 0..2 {
        let ran = ok(call(state, &["count", "--json"]));
        let events = ran.events();
        let of = |event: &str| -> Vec<&Value> {
            events.iter().filter(|it| it["event"] == event).collect()
        };
        let steps: Vec<&Value> = of("progress").iter().map(|it| &it["value"]).collect();
        assert_eq!(steps, [1, 2, 3]);
        let started = of("started")[0];
        assert_eq!(started["era"], "2026-07-28", "{started}");
        assert_eq!(started["resumability"], "none", "{started}");
        let settled = of("settled")[0];
        let said = &settled["result"]["content"][0]["text"];
        assert_eq!(*said, "counted to 3", "{settled}");
    }
    assert_eq!(events(state), ["discover", "end", "discover", "end"]);
    are_gone(state);
    let died = call(state, &["die"]);
    assert_eq!(died.code, Some(5), "{died:#?}");
    for words in ["exited with status 7", "out of cheese", "longhaul again"] {
        assert!(died.err.contains(words), "{words}: {died:#?}");
    }
}

#[test]
fn restarts_an_old_program_that_dies_on_discover() {
    let dir = approved_as("stdio_old.sh");
    let state = dir.path();
    for _ in 0..2 {
        assert_eq!(ok(call(state, &["count"])).out.trim(), "counted to 3");
    }
    // Its revision is remembered.
    assert_eq!(events(state), ["broken", "end", "end"]);
    are_gone(state);
}

#[test]
fn a_call_without_a_handshake_is_cancelled_by_saying_so() {
    let dir = approved_as("stdio28.sh");
    let state = dir.path();
    let (mut staying, id) = staying(state, "stay");
    let (outcome, why) = if_cut(state, &id);
    assert_eq!((outcome.as_str(), why.as_str()), ("lost", "server_process"));
    ok(run(state, &["cancel", &id]));
    let settled = staying.prints(|it| it["event"] == "settled");
    assert_eq!(settled["status"], "cancelled", "{settled}");
    assert_eq!(staying.end().code, Some(8));
    let events = events(state);
    let call = events.iter().find_map(|it| it.strip_prefix("stay "));
    let cancelled = events.iter().find_map(|it| it.strip_prefix("cancelled "));
    assert_eq!(call, cancelled, "{events:?}");
    assert!(call.is_some(), "{events:?}");
    are_gone(state);
}

#[test]
fn a_question_without_a_handshake_is_answered_by_calling_again() {
    let dir = approved_as("stdio28.sh");
    let state = dir.path();
    let (asking, id) = start_until(state, "ask", "input_required");
    assert_takes_answer(asking, state, &id);
    are_gone(state);
}

#[test]
fn polls_notifies_answers_and_cancels_tasks_of_a_program() {
    let dir = approved_as("stdio28.sh");
    let state = dir.path();
    assert_eq!(ok(call(state, &["polled"])).out.trim(), "looked at");
    // The poll interval is a minute, so the notification comes first.
    assert_eq!(ok(call(state, &["told"])).out.trim(), "told of");
    assert_answerable_task(state);
    let (working, id) = start_until(state, "working", "status");
    assert_cancels(working, state, &id);
    let events = events(state);
    assert!(events.contains(&"tasks/cancel".to_owned()), "{events:?}");
}

#[test]
fn subscribes_again_for_new_tasks_or_after_a_revocation() {
    let dir = approved_as("stdio28.sh");
    let state = dir.path();
    let listened = || events(state).iter().filter(|it| *it == "listen").count();
    let (working, _) = start_until(state, "working", "status");
    wait(|| listened() == 1);
    assert_eq!(ok(call(state, &["told"])).out.trim(), "told of");
    // There is no stream to close: the program needs a notification that the first one ended.
    let heard = events(state);
    let listens = heard.iter().position(|it| it == "listen").unwrap();
    assert!(heard[listens + 1].starts_with("cancelled "), "{heard:?}");
    assert_eq!(listened(), 2);
    working.signal(Signal::TERM);
    working.end();
    are_gone(state);

    let before = listened();
    write(state.join("fickle"), "");
    assert_eq!(ok(call(state, &["told"])).out.trim(), "told of");
    assert_eq!(listened(), before + 2);
}

#[test]
fn a_task_is_lost_with_its_program_or_its_driver() {
    let dir = approved_as("stdio28.sh");
    let state = dir.path();
    let (mut working, _) = start_until(state, "working", "status");
    kill_process(*pids(state).last().unwrap(), Signal::KILL).unwrap();
    let settled = working.prints(|it| it["event"] == "settled");
    assert_eq!(settled["status"], "lost", "{settled}");
    assert_eq!(working.end().code, Some(5));
    let (working, id) = start_until(state, "working", "status");
    working.signal(Signal::KILL);
    working.end();
    are_gone(state);
    let runs = pids(state).len();
    let watched = finish(&mut command(state, &["watch", &id]));
    assert_eq!(watched.code, Some(5), "{watched:#?}");
    let shown = ok(run(state, &["show", &id, "--json"])).document();
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.contains("the server process ended"), "{shown}");
    assert_eq!(pids(state).len(), runs, "nothing was started to look");
}

#[test]
fn calls_a_program_tool_that_requires_a_task_as_a_task() {
    let dir = approved_as("stdio_tasks.sh");
    let state = dir.path();
    let ran = ok(call(state, &["work", "--json"]));
    let events = ran.events();
    let steps = events.iter().filter(|it| it["event"] == "progress");
    let steps: Vec<&Value> = steps.map(|it| &it["value"]).collect();
    assert_eq!(steps, [1, 2]);
    let settled = events.last().unwrap();
    assert_eq!(settled["result"]["content"][0]["text"], "worked");
    assert_eq!(ok(call(state, &["told"])).out.trim(), "told of");
    // Nothing of it outlives longhaul, so that it is a task only where it has to be.
    assert_eq!(ok(call(state, &["either"])).out.trim(), "at once");
    assert_answerable_task(state);
    let (mut working, id) = start_until(state, "working", "progress");
    let runs = pids(state).len();
    ok(run(state, &["cancel", &id]));
    let settled = working.prints(|it| it["event"] == "settled");
    assert_eq!(settled["status"], "cancelled", "{settled}");
    assert_eq!(working.end().code, Some(8));
    assert_eq!(text(state.join("events")), "tasks/cancel\n");
    assert_eq!(pids(state).len(), runs, "all of it in one program");
    are_gone(state);
}

#[test]
fn falls_back_to_initialize_for_an_old_program() {
    for mode in ["silent", "strict"] {
        let dir = approved();
        let state = dir.path();
        write(state.join(mode), "");
        for _ in 0..2 {
            assert_eq!(ok(call(state, &["count"])).out.trim(), "counted to 3");
        }
        let asked = events(state).iter().filter(|it| *it == "asked").count();
        assert_eq!(asked, 1, "{mode}: what was found out is remembered");
        are_gone(state);
    }
}

#[test]
fn a_program_of_both_eras_without_tasks_is_called_in_the_stateful_one() {
    let dir = approved_as("stdio_both.sh");
    let state = dir.path();
    write(state.join("untasked"), "");
    for programs in [2, 3] {
        let (asking, id) = start_until(state, "ask", "input_required");
        assert_takes_answer(asking, state, &id);
        assert_eq!(pids(state).len(), programs, "its revision is remembered");
    }
    are_gone(state);
}

#[test]
fn a_program_of_both_eras_is_started_in_the_revision_that_is_asked_for() {
    let dir = approved_as("stdio_both.sh");
    let state = dir.path();
    write(state.join("untasked"), "");
    ok(call(state, &["count"]));
    let asked = ["2026-07-28", "2025-11-25", "2026-07-28"];
    for (number, version) in asked.into_iter().enumerate() {
        let ran = ok(call(state, &["count", "--json", "--protocol", version]));
        assert_eq!(ran.events()[0]["era"], version, "{ran:#?}");
        assert_eq!(pids(state).len(), 3 + number, "one program each");
    }
    let requests = events(state).into_iter().filter(|it| it != "end");
    assert!(requests.eq(["discover"; 3]), "{:?}", events(state));
    are_gone(state);
}

#[test]
fn a_modern_only_program_without_tasks_is_called_whatever_it_makes_of_the_handshake() {
    let strict = vec!["discover", "initialize", "discover"];
    for (mode, first, second) in [
        ("untasked", vec!["discover", "initialize"], vec!["discover"]),
        // What may be a mishap is tried again.
        ("strict", strict.clone(), strict),
    ] {
        let dir = approved_as("stdio28.sh");
        let state = dir.path();
        write(state.join("untasked"), "");
        write(state.join(mode), "");
        let requests = || events(state).into_iter().filter(|it| it != "end");
        assert_eq!(ok(call(state, &["count"])).out.trim(), "counted to 3");
        assert!(requests().eq(first.clone()), "{mode}: {:?}", events(state));
        assert_eq!(ok(call(state, &["count"])).out.trim(), "counted to 3");
        assert!(
            requests().eq([first, second].concat()),
            "{mode}: {:?}",
            events(state)
        );
        are_gone(state);
    }
}

#[test]
fn uses_the_requested_revision_for_a_program() {
    let dir = approved_as("stdio28.sh");
    let state = dir.path();
    let refused = call(state, &["count", "--protocol", "2025-11-25"]);
    assert_ne!(refused.code, Some(0), "{refused:#?}");
    assert!(refused.err.contains("no handshake"), "{refused:#?}");
    assert_eq!(events(state)[0], "initialize");
    let dir = approved();
    let state = dir.path();
    let refused = call(state, &["count", "--protocol", "2026-07-28"]);
    let words = "doesn't support MCP 2026-07-28";
    assert!(refused.err.contains(words), "{refused:#?}");
    let config = text(state.join("config.toml"));
    write(
        state.join("config.toml"),
        &config.replace("cwd =", "protocol = \"2026-07-28\"\ncwd ="),
    );
    let refused = call(state, &["count", "--session", "other"]);
    assert!(refused.err.contains(words), "{refused:#?}");
}

#[test]
fn a_removed_servers_program_ends_when_idle() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let elsewhere = tempfile::tempdir().unwrap();
    configure(state);
    let config = text(state.join("config.toml"));
    let (script, other) = (server(), elsewhere.path().display());
    let script = script.display();
    let other = format!(
        "{config}\n[servers.other]\ncommand = \"/bin/sh\"\nargs = [\"{script}\", \"{other}\"]\n"
    );
    write(state.join("config.toml"), &other);
    for name in ["files", "other"] {
        ok(run(state, &["servers", "approve", name, "--yes"]));
    }
    let config = text(state.join("config.toml"));
    let arguments = ["-s", "other", "call", "stay", "--json"];
    let mut driving = Running::start(&mut command(state, &arguments));
    driving.prints(|it| it["event"] == "progress");

    // Idle: it stays for the next call until its server is removed.
    ok(call(state, &["count"]));
    ok(call(state, &["count"]));
    assert_eq!(pids(state).len(), 1);
    ok(run(state, &["servers", "remove", "files", "--yes"]));
    are_gone(state);
    assert_eq!(text(state.join("events")), "asked\nend\n", "by its stdin");

    // At work: it ends with its work.
    write(state.join("config.toml"), &config);
    let (mut staying, id) = staying(state, "stay");
    assert_eq!(pids(state).len(), 2, "a new one");
    ok(run(state, &["servers", "remove", "files", "--yes"]));
    ok(run(state, &["cancel", &id]));
    let settled = staying.prints(|it| it["event"] == "settled");
    assert_eq!(settled["status"], "cancelled", "{settled}");
    assert!(text(state.join("events")).contains("cancelled"));
    staying.end();
    are_gone(state);
    assert!(!driving_is_over(elsewhere.path()));
    driving.signal(Signal::TERM);
    driving.end();
    are_gone(elsewhere.path());
}

#[test]
fn a_program_without_work_ends_and_the_next_call_starts_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    configure(state);
    let config = text(state.join("config.toml")).replace(
        "[servers.files]\n",
        "[servers.files]\nstop_when_idle = \"300ms\"\n",
    );
    write(state.join("config.toml"), &config);
    ok(run(state, &["servers", "approve", "files", "--yes"]));
    // Another call keeps the driver.
    let demo = servers::demo(state.join("demo"));
    let url = demo.url();
    let arguments = ["-s", &url, "--json", "call", "crunch", "steps=100000"];
    let mut driving = Running::start(&mut command(state, &arguments));
    driving.prints(|it| it["event"] == "progress");
    for _ in 0..2 {
        ok(call(state, &["count"]));
        are_gone(state);
    }
    // Work keeps it, however quiet.
    let (mut staying, id) = staying(state, "stay");
    ok(run(state, &["cancel", &id]));
    let settled = staying.prints(|it| it["event"] == "settled");
    assert_eq!(settled["status"], "cancelled", "{settled}");
    staying.end();
    are_gone(state);
    driving.signal(Signal::TERM);
    driving.end();
}

/// Whether the program that tells of itself there has ended by its stdin.
fn driving_is_over(state: &Path) -> bool {
    text(state.join("events")).contains("end\n")
}

#[test]
fn reports_a_program_that_cannot_start_or_dies_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    write(
        state.join("config.toml"),
        "[servers.none]\ncommand = \"/no/such/program\"\n\
         [servers.short]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo no licence >&2; exit 4\"]\n",
    );
    for (name, words) in [("none", "could not start"), ("short", "no licence")] {
        ok(run(state, &["servers", "approve", name, "--yes"]));
        let ran = run(state, &["-s", name, "call", "x"]);
        assert_eq!(ran.code, Some(4), "{ran:#?}");
        assert!(ran.err.contains(words), "{ran:#?}");
        let tested = run(state, &["servers", "test", name]);
        assert_eq!(tested.code, Some(4), "{tested:#?}");
        assert!(tested.out.contains(words), "{tested:#?}");
    }
}

#[test]
fn a_call_whose_driver_was_killed_is_lost_and_its_program_ends() {
    let dir = approved();
    let state = dir.path();
    let (staying, id) = staying(state, "stay");
    staying.signal(Signal::KILL);
    staying.end();
    are_gone(state);
    let watched_until = ok(run(state, &["show", &id, "--json"])).document()["updated_at"].clone();
    let watched = finish(&mut command(state, &["watch", &id]));
    assert_eq!(watched.code, Some(5), "{watched:#?}");
    let shown = ok(run(state, &["show", &id, "--json"])).document();
    assert_eq!(shown["status"], "lost", "{shown}");
    assert_eq!(
        shown["settled_at"], watched_until,
        "not when that was found"
    );
    assert!(
        shown["reason"]
            .as_str()
            .unwrap()
            .contains("the server process ended"),
        "{shown}"
    );
}

#[test]
fn a_driver_that_leaves_records_the_end_of_the_call_it_ended() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = approved();
        let state = dir.path();
        let (mut staying, id) = staying(state, "stay");
        staying.signal(signal);
        if signal == Signal::INT {
            staying.says("Press Ctrl-C again to quit");
            staying.signal(signal);
        }
        staying.end();
        are_gone(state);
        let list = ok(run(state, &["ls", "--json"])).document();
        assert_eq!(list[0]["id"], id, "{list}");
        assert_eq!(list[0]["status"], "lost", "{list}");
        assert_eq!(list[0]["contact"], "idle", "{list}");
        let ended = list[0]["settled_at"].clone();
        ok(call(state, &["count"]));
        let shown = ok(run(state, &["show", &id, "--json"])).document();
        assert_eq!(
            shown["settled_at"], ended,
            "the next driver finds nothing new"
        );
    }
}

#[test]
fn a_leaving_driver_kills_a_program_that_ignores_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    let script = format!(
        "trap '' TERM; {} {}; echo $$ >> {1}/pids; while :; do read -r x || :; done",
        server().display(),
        state.display()
    );
    write(
        state.join("config.toml"),
        &format!("[servers.files]\ncommand = \"/bin/sh\"\nargs = [\"-c\", {script:?}]\n"),
    );
    ok(run(state, &["servers", "approve", "files", "--yes"]));
    let (staying, _) = staying(state, "stay");
    staying.signal(Signal::TERM);
    staying.end();
    are_gone(state);
}

#[test]
fn the_screen_shows_what_needs_approval() {
    let env = TestEnv::new();
    configure(env.path());
    let mut screen = env.open(&[], (120, 36));
    screen.wait_for("needs approval");
    screen.press("3");
    screen.wait_for("longhaul servers approve files");
    screen.press("L");
    screen.wait_for("Start files?");
    screen.wait_for("program     /bin/sh");
    assert!(!text(env.path().join("config.toml")).contains("approved"));
    // Keys typed right after a dialog opens are ignored.
    while screen.text().contains("Start files?") {
        screen.press("y");
        screen.watch_for(Duration::from_millis(50));
    }
    screen.wait_for("files may now be started; longhaul asks again");
    assert!(text(env.path().join("config.toml")).contains("approved"));
    screen.press("q");
    screen.wait_for("No tasks yet");
    screen.press("q");
    screen.end();
    // Its driver is gone; a window that only looks finds its call and starts no program for it.
    let mut starting = env.command(&["-s", "files", "call", "stay", "--json"]);
    starting.env("MY_SECRET", "hunter22");
    let mut staying = Running::start(&mut piped(starting));
    staying.prints(|it| it["event"] == "progress");
    let runs = pids(env.path()).len();
    staying.signal(Signal::KILL);
    staying.end();
    are_gone(env.path());
    let secret = [("MY_SECRET", "hunter22")];
    let mut screen = env.open_with(&secret, pty::program(), &["--readonly"], (120, 36));
    screen.wait_for("No process is running the calls; this screen is read-only.");
    screen.press("q");
    screen.end();
    assert_eq!(pids(env.path()).len(), runs);
}

fn piped(mut command: std::process::Command) -> std::process::Command {
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    command
}
