//! The whole program on a real terminal: pressed, cut, killed, stopped, hung up, and opened again.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test fail by panic, as the test does"
)]

use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _, time::Duration};

use crate::support::pty::{self, TestEnv, Tui};
use longhaul::{
    domain::{HistoryEntry, HistoryEvent, Progress, Status, Task, TaskId},
    store::{ListFilter, Lookup, Paths, Reader},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};

/// A terminal as most are.
const USUAL: (u16, u16) = (120, 36);
/// What the promise of a hang-up says is 2 s; a busy machine may need some more.
const SOON: Duration = Duration::from_secs(4);

fn paths(env: &TestEnv) -> Paths {
    Paths::resolve(Some(env.path().to_owned()), "demo").unwrap()
}

fn tasks(env: &TestEnv) -> Vec<Task> {
    let everything = ListFilter::ALL;
    let mut reader = Reader::open(&paths(env)).unwrap();
    reader.tasks(everything).unwrap()
}

fn task(env: &TestEnv, id: &str) -> Task {
    match Reader::open(&paths(env)).unwrap().task(id).unwrap() {
        Lookup::One(task) => *task,
        other => panic!("no task {id}: {other:?}"),
    }
}

fn history(env: &TestEnv, id: &str) -> Vec<HistoryEntry> {
    let id = TaskId::parse(id).unwrap();
    let mut reader = Reader::open(&paths(env)).unwrap();
    reader.history(&id, 0, 100_000).unwrap()
}

/// The values of the progress steps that the session file holds.
fn steps(env: &TestEnv, id: &str) -> Vec<f64> {
    let steps = history(env, id).into_iter().map(|entry| entry.what);
    let value = |what| match what {
        HistoryEvent::Progress(Progress { value, .. }) => Some(value),
        _ => None,
    };
    steps.filter_map(value).collect()
}

fn five_to_fifty() -> Vec<f64> {
    (1..=10).map(|step| f64::from(step * 5)).collect()
}

/// Starts a call of 50 records in batches of 5; a batch takes `delay`.
fn process(env: &TestEnv, name: &str, delay: &str) -> String {
    let delay = format!("delay_ms={delay}");
    env.call(&[
        "resumable_data_processing",
        &format!("dataset_name={name}"),
        "total_records=50",
        "batch_size=5",
        &delay,
    ])
}

/// Opens the demo and waits for its first row.
fn open_demo(env: &TestEnv) -> Tui {
    let mut tui = env.open(&["demo"], USUAL);
    tui.wait_for_line(&["running", "the whole archive", "continues"]);
    tui
}

/// Shows only the row of this task, with the cursor on it.
fn select(tui: &mut Tui, id: &str) {
    tui.wait_for(id);
    tui.press(&format!("/{id}\r"));
    tui.wait_for_line(&["▸", id]);
    tui.wait_until("the task's detail", |screen| {
        let text = screen.contents();
        text.contains(&format!("┌ {id}")) && text.contains("filter:")
    });
}

/// Waits until the file holds a step of the three-minute task.
fn wait_until_saved(tui: &mut Tui, env: &TestEnv) {
    tui.wait_for_line(&["customers of 2026", "%"]);
    let is_saved =
        |task: &Task| task.name.as_deref() == Some("customers of 2026") && task.progress.is_some();
    while !tasks(env).iter().any(is_saved) {
        tui.watch_for(Duration::from_millis(50));
    }
}

/// Leaves by `q`, whatever it costs.
fn leave(tui: &mut Tui) {
    tui.press("q");
    tui.wait_for("Quit?");
    // What is typed before a person can have read it counts for nothing, so it is pressed until it is heard.
    while tui.text().contains("Quit?") && !tui.has_ended() {
        tui.press("y");
        tui.watch_for(Duration::from_millis(100));
    }
    assert_eq!(tui.end().0, 0);
}

#[test]
fn the_demo_moves_at_once_and_fits_every_terminal() {
    let env = TestEnv::new();
    let mut tui = env.open(&["demo"], USUAL);
    let names = [
        "forecast for Lisbon",
        "customers of 2026",
        "the whole archive",
    ];
    let are_moving = |text: &str| {
        names.iter().all(|name| {
            let is_moving = |line: &str| {
                let leave = line.contains("continues") || line.contains("likely");
                line.contains(name) && line.contains("● running") && leave && line.contains('%')
            };
            text.lines().any(is_moving)
        })
    };
    let moving = tui.wait_until("three moving rows", |screen| are_moving(&screen.contents()));
    println!("three tasks move after {moving:?}");
    assert!(moving < SOON, "{moving:?}");
    tui.wait_for_line(&["customers of 2026", "/s", "~"]);
    tui.wait_for("try: b, then c to cut the network");

    for size in [(80, 24), (60, 15)] {
        tui.resize(size);
        tui.wait_until("the whole list in the small terminal", |screen| {
            let text = screen.contents();
            names.iter().all(|name| {
                let begin: String = name.chars().take(8).collect();
                text.contains(&begin)
            }) && text.contains('%')
                && text
                    .lines()
                    .all(|line| line.chars().count() <= size.0.into())
        });
        tui.press("j");
        tui.press("k");
    }
    tui.resize((30, 8));
    tui.wait_for("longhaul needs at least 40x10");
    tui.wait_for("30x8");
    tui.resize(USUAL);
    tui.wait_for_line(&["the whole archive", "continues"]);
    leave(&mut tui);
    assert!(tui.is_given_back());
    // Under a minute of work is left to the server, and the note says how to see it again.
    tui.wait_for("to open the list again: `longhaul demo`");
}

#[test]
fn a_cut_network_costs_a_countdown_and_nothing_else() {
    let env = TestEnv::serving();
    let mut tui = open_demo(&env);
    let id = process(&env, "orders", "700");
    select(&mut tui, &id);
    tui.wait_for_line(&[&id, "%"]);
    tui.press("b");
    tui.wait_for("cut the network");
    tui.press("c");
    tui.wait_for_line(&[&id, "retry"]);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        tui.wait_until("the countdown to move", |screen| {
            countdown(&screen.contents(), &id).is_none_or(|left| !seen.contains(&left))
        });
        match countdown(&tui.text(), &id) {
            Some(left) => seen.push(left),
            // It is back already, before it had to wait that long.
            None => break,
        }
    }
    tui.wait_for_line(&[&id, "✓ completed"]);
    tui.wait_for("reconnected after");
    tui.wait_for("disconnected: ");
    leave(&mut tui);

    assert_eq!(steps(&env, &id), five_to_fifty());
    let entries = history(&env, &id);
    let cuts = entries.iter().filter(|entry| {
        matches!(&entry.what, HistoryEvent::Contact { state, .. } if state == "reconnecting" || state == "offline")
    });
    assert_eq!(cuts.count(), 1, "{entries:#?}");
    let seqs: Vec<u64> = entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let result = String::from_utf8(env.run(&["result", &id]).stdout).unwrap();
    assert!(result.contains("50"), "{result}");
}

/// `retry 3s` in the row of a task.
fn countdown(text: &str, id: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.contains('▸') && line.contains(id))?;
    let (_, left) = line.split_once("retry ")?;
    Some(left.chars().take(4).collect())
}

#[test]
fn reopening_after_a_kill_shows_saved_and_missed_progress() {
    let env = TestEnv::serving();
    let mut tui = open_demo(&env);
    let id = process(&env, "orders", "400");
    tui.wait_for_line(&[&id, "%"]);
    tui.signal(Signal::KILL);
    tui.end();
    let at_the_kill = steps(&env, &id).len();
    assert!(at_the_kill < 10, "the kill came too late to mean anything");
    // Two hours pass.
    let watched = paths(&env).watched();
    let before =
        std::fs::metadata(&watched).unwrap().modified().unwrap() - Duration::from_secs(7200);
    std::fs::File::open(watched)
        .unwrap()
        .set_modified(before)
        .unwrap();

    let mut tui = env.open(&["demo"], USUAL);
    let shown = tui.wait_for(&id);
    println!("the saved list after {shown:?}");
    tui.wait_for("While you were away (2 h 0 m");
    tui.wait_for_line(&[&id, "✓ completed"]);
    leave(&mut tui);
    assert_eq!(steps(&env, &id), five_to_fifty());
}

#[test]
fn shows_the_saved_list_and_its_age_without_a_server() {
    let mut env = TestEnv::serving();
    let mut tui = open_demo(&env);
    wait_until_saved(&mut tui, &env);
    tui.signal(Signal::KILL);
    tui.end();
    env.kill_server();
    let mut tui = env.open(&["--session", "demo"], USUAL);
    tui.wait_for_line(&["customers of 2026", "%"]);
    tui.wait_for("OFFLINE");
    tui.wait_for("Next retry");
    // The server comes back; tasks that can resume do so.
    env.serve();
    tui.wait_for_line(&["customers of 2026", "● running"]);
    tui.wait_for_line(&["forecast for Lisbon", "lost"]);
    tui.press("\u{3}");
    tui.wait_for("q quit");
    tui.press("\u{3}");
    assert_eq!(tui.end().0, 0);
}

#[test]
fn pausing_is_honest_and_resumes_where_it_stopped() {
    let env = TestEnv::serving();
    let mut tui = open_demo(&env);
    let id = process(&env, "orders", "700");
    select(&mut tui, &id);
    tui.wait_for_line(&[&id, "%"]);
    tui.press("p");
    // This server stops so soon that PAUSING is often over before a frame could show it.
    tui.wait_for_line(&[&id, "‖", "paused"]);
    let stood = task(&env, &id).progress.unwrap().value;
    assert!(stood < 50.0, "{stood}");
    tui.press("r");
    tui.wait_for_line(&[&id, "✓ completed"]);
    let task = task(&env, &id);
    assert_eq!((task.attempts.len(), &task.status), (2, &Status::Completed));
    let mut seen = steps(&env, &id);
    // The second attempt says first where it begins.
    seen.dedup();
    assert_eq!(seen, five_to_fifty());

    tui.press("\u{1b}");
    tui.wait_until("the whole list", |screen| {
        !screen.contents().contains("filter:")
    });
    let forecast = tasks(&env)
        .into_iter()
        .find(|task| task.tool == "get_forecast")
        .unwrap()
        .id;
    select(&mut tui, forecast.as_str());
    tui.press("p");
    tui.wait_for("not paused: get_forecast");
    tui.press("x");
    tui.wait_for("Cancel?");
    assert!(tui.text().contains("forecast for Lisbon"));
    while tui.text().contains("Cancel?") {
        tui.press("y");
        tui.watch_for(Duration::from_millis(100));
    }
    tui.wait_until("the end of the cancelled call", |screen| {
        let text = screen.contents();
        text.contains("was cancelled") || text.contains("did not respond")
    });
    leave_any(&mut tui);
}

/// Leaves by Ctrl-C twice.
fn leave_any(tui: &mut Tui) {
    tui.press("\u{3}\u{3}");
    assert_eq!(tui.end().0, 0);
}

#[test]
fn every_signal_restores_the_terminal_and_saves_the_session() {
    let env = TestEnv::serving();
    for (signal, code) in [
        (Signal::INT, 130),
        (Signal::TERM, 143),
        (Signal::HUP, 129),
        (Signal::QUIT, 131),
    ] {
        let mut tui = open_demo(&env);
        tui.signal(signal);
        let (ended, took) = tui.end();
        println!("{signal:?} took {took:?}");
        // The terminal library tells an end by signal and a code apart: this has to be a code.
        assert_eq!(ended, code, "{signal:?}");
        assert!(took < SOON, "{signal:?} took {took:?}");
        assert!(tui.is_given_back(), "{signal:?}");
        assert_eq!(tasks(&env).len(), 3);
    }
}

#[test]
fn a_hang_up_ends_the_program_with_its_state_saved() {
    let env = TestEnv::serving();
    let mut tui = open_demo(&env);
    wait_until_saved(&mut tui, &env);
    tui.hang_up();
    let (code, took) = tui.end();
    println!("a hang-up took {took:?}");
    assert_eq!(code, 129);
    assert!(took < SOON, "{took:?}");
    let saved = tasks(&env);
    assert!(
        saved.iter().any(|task| task.progress.is_some()),
        "{saved:#?}"
    );
}

#[cfg(debug_assertions)]
#[test]
fn a_panic_in_any_thread_restores_the_terminal() {
    let env = TestEnv::serving();
    // Something to lose.
    drop(open_demo(&env));
    for thread in ["screen", "network", "journal"] {
        let variable = [("LONGHAUL_PANIC_IN", thread)];
        let mut tui = env.open_with(&variable, pty::program(), &["demo"], USUAL);
        let (code, took) = tui.end();
        println!("a panic in {thread} took {took:?}");
        assert_eq!(code, 70, "{thread}:\n{}", tui.text());
        assert!(tui.is_given_back(), "{thread}");
        assert!(
            tui.text().contains("told to panic"),
            "{thread}:\n{}",
            tui.text()
        );
        // What a panic quotes may be a server's.
        let c1 = "\u{9b}".as_bytes();
        assert!(
            !tui.raw().windows(c1.len()).any(|bytes| bytes == c1),
            "{thread}"
        );
        assert_eq!(tasks(&env).len(), 3);
    }
    let mut tui = open_demo(&env);
    leave(&mut tui);
}

#[test]
fn it_stops_and_comes_back_as_the_shell_wants_it() {
    let env = TestEnv::serving();
    let mut shell = env.open_program("/bin/sh", &["-i"], USUAL);
    shell.wait_for("$");
    shell.press(&format!("{} demo\r", pty::program()));
    shell.wait_for_line(&["the whole archive", "continues"]);
    for _ in 0..2 {
        shell.press("\u{1a}");
        shell.wait_for("Stopped");
        assert!(!shell.screen().alternate_screen());
        assert!(!shell.screen().hide_cursor());
        shell.press("clear; fg\r");
        shell.wait_for_line(&["the whole archive", "continues"]);
        assert!(shell.screen().alternate_screen());
    }
    shell.press("\u{3}\u{3}");
    shell.wait_for("to open the list again: `longhaul demo`");
    shell.press("exit 9\r");
    assert_eq!(shell.end().0, 9);
}

#[test]
fn a_second_screen_and_commands_beside_it_share_the_one_driver() {
    let env = TestEnv::serving();
    let mut first = open_demo(&env);
    let mut second = env.open(&["demo"], USUAL);
    second.wait_for("keeps running the calls");
    second.wait_for_line(&["● running", "the whole archive"]);

    let id = process(&env, "orders", "2000");
    first.wait_for_line(&[&id, "running"]);
    second.wait_for_line(&[&id, "running"]);
    let listed = env.run(&["ls", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let listed = listed.to_string();
    assert!(
        listed.contains(&id) && listed.contains("the whole archive"),
        "{listed}"
    );
    let ran = env.run(&["cancel", &id]);
    assert!(ran.status.success(), "{ran:?}");
    for tui in [&mut first, &mut second] {
        tui.wait_for_line(&[&id, "cancelled"]);
    }
    // The driver goes; who is left drives, and says so.
    leave(&mut first);
    second.wait_for("runs them now");
    second.wait_until("its own price of leaving", |screen| {
        screen.contents().contains("q quit: ") && !screen.contents().contains("keeps running")
    });
    second.wait_for_line(&["● running", "the whole archive"]);
    leave(&mut second);
}

#[test]
fn watch_takes_over_from_a_killed_screen() {
    let env = TestEnv::serving();
    let mut tui = open_demo(&env);
    let id = process(&env, "orders", "500");
    let watch = env
        .command(&["--session", "demo", "watch", &id, "--json"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    tui.wait_for_line(&[&id, "%"]);
    tui.signal(Signal::KILL);
    tui.end();
    let watched = watch.wait_with_output().unwrap();
    assert_eq!(watched.status.code(), Some(0), "{watched:?}");
    let lines = String::from_utf8(watched.stdout).unwrap();
    let events: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let values: Vec<f64> = events
        .iter()
        .filter(|event| event["event"] == "progress")
        .map(|event| event["value"].as_f64().unwrap())
        .collect();
    assert_eq!(values, five_to_fifty(), "{lines}");
    let last = events.last().unwrap();
    assert_eq!(
        (&last["event"], &last["status"]),
        (&"settled".into(), &"completed".into())
    );
    assert_eq!(steps(&env, &id), five_to_fifty());
}

#[test]
fn a_blocked_terminal_does_not_block_the_exit() {
    let env = TestEnv::new();
    let (mut child, master) = env.open_unread(&[]);
    let mut keys = master.take_writer().unwrap();
    let slave = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(rustix::fs::OFlags::NOCTTY.bits().cast_signed())
        .open(master.tty_name().unwrap())
        .unwrap();
    let has_room = || {
        let mut slave = [PollFd::new(&slave, PollFlags::OUT)];
        poll(&mut slave, Some(&Timespec::default())).unwrap() > 0
    };
    // Two panes come and go until nothing of them is taken any more.
    let mut presses = 0;
    while has_room() {
        let key = if presses % 2 == 0 { b"4" } else { b"1" };
        keys.write_all(key).unwrap();
        std::thread::park_timeout(Duration::from_millis(10));
        presses += 1;
        assert!(presses < 6000, "it has drawn nothing");
    }
    let pid = Pid::from_raw(child.process_id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let mut waits = 0;
    while child.try_wait().unwrap().is_none() {
        std::thread::park_timeout(Duration::from_millis(10));
        waits += 1;
        assert!(waits < 6000, "it does not end");
    }
}

/// Every signal that a program can catch but those that stop it or report a fault of its own, some without a name among
/// them.
const SIGNALS: [u8; 34] = [
    1, 2, 3, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    34, 35, 36, 40, 49, 50, 62, 63, 64,
];
/// Those of them that do not end a program: they mean nothing, or another thing.
const HARMLESS: [u8; 9] = [7, 11, 13, 17, 18, 20, 23, 25, 28];

/// Where the program is when a signal comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    List,
    Overlay,
    Form,
    Plain,
    Call,
}

impl At {
    fn open(self, env: &TestEnv, number: u8) -> Tui {
        if self == Self::Call {
            let session = format!("s{number}");
            let url = format!("http://{}/mcp", env.server_addr());
            let call = ["--session", &session, "-s", &url, "call"];
            let slow = [
                "resumable_data_processing",
                "dataset_name=a",
                "delay_ms=60000",
            ];
            let mut tui = env.open(&[&call[..], &slow].concat(), USUAL);
            tui.wait_until("a word", |screen| !screen.contents().trim().is_empty());
            return tui;
        }
        let mut tui = env.open(&["--session", "demo"], USUAL);
        tui.wait_for_line(&["send_burst", "completed"]);
        match self {
            Self::List | Self::Call => {}
            Self::Overlay => {
                tui.press("?");
                tui.wait_for("─ Keys and commands ─");
            }
            Self::Form => {
                tui.press("n");
                tui.wait_for("get_forecast");
            }
            Self::Plain => {
                tui.press("Y");
                tui.wait_until("plain text", |screen| !screen.alternate_screen());
                tui.wait_for("(press Enter to return)");
            }
        }
        tui
    }
}

/// A task that is done.
fn burst(env: &TestEnv) {
    let url = format!("http://{}/mcp", env.server_addr());
    let ran = env.run(&["-s", &url, "call", "send_burst", "count=1"]);
    assert!(ran.status.success(), "{ran:?}");
}

fn send(number: u8, pid: Pid) {
    let kill = format!("kill -{number} {}", pid.as_raw_nonzero());
    // It may have ended already.
    let _ = std::process::Command::new("/bin/sh")
        .args(["-c", &kill])
        .stderr(std::process::Stdio::null())
        .status();
}

#[test]
fn every_signal_leaves_the_terminal_restored() {
    let places = [At::List, At::Overlay, At::Form, At::Plain, At::Call];
    std::thread::scope(|scope| {
        for at in places {
            scope.spawn(move || {
                let env = TestEnv::serving();
                burst(&env);
                for number in SIGNALS {
                    let mut tui = at.open(&env, number);
                    send(number, tui.pid());
                    // Ctrl-C comes back from plain text, and a call may ask for another one.
                    let is_asked = number == 2 && matches!(at, At::Plain | At::Call);
                    let is_harmless = HARMLESS.contains(&number) || is_asked;
                    if is_harmless {
                        send(15, tui.pid());
                    }
                    let (code, _) = tui.end();
                    assert!(
                        tui.is_given_back(),
                        "{at:?}, signal {number}:\n{}",
                        tui.text()
                    );
                    let expected = 128 + u32::from(if is_harmless { 15 } else { number });
                    // The exit code says that the task continues; 1 means that the program was killed.
                    let is_right = if at == At::Call {
                        code != 1
                    } else {
                        code == expected
                    };
                    assert!(is_right, "{at:?}, signal {number}: {code}\n{}", tui.text());
                }
            });
        }
    });
}

#[test]
fn draws_on_a_part_of_a_terminal_without_end() {
    let env = TestEnv::serving();
    burst(&env);
    let mut tui = env.open(&["--session", "demo"], USUAL);
    tui.wait_for_line(&["send_burst", "completed"]);
    tui.resize((1000, 500));
    tui.grow_without_end();
    tui.press("?");
    tui.wait_for("Keys");
    tui.press("\x1b");
    tui.wait_until("the list", |screen| {
        !screen.contents().contains("─ Keys and commands ─")
    });
    tui.press("q");
    assert_eq!(tui.end().0, 0);
    let mut addressed: Vec<(u32, u32)> = Vec::new();
    let raw = String::from_utf8_lossy(tui.raw()).into_owned();
    for piece in raw.split("\u{1b}[").skip(1) {
        let end = piece.find(|letter: char| !letter.is_ascii_digit() && letter != ';');
        let (place, rest) = piece.split_at(end.unwrap_or(piece.len()));
        if rest.starts_with('H')
            && let Some((row, column)) = place.split_once(';')
        {
            addressed.push((row.parse().unwrap(), column.parse().unwrap()));
        }
    }
    assert!(
        addressed.iter().any(|(row, _)| *row > 100),
        "it was drawn anew"
    );
    let is_inside = |(row, column): &(u32, u32)| *row <= 500 && *column <= 1000;
    assert!(addressed.iter().all(is_inside));
}
