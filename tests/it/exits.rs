//! Every way out of the program, from every place in it: the terminal is as before, the session is saved,
//! and nothing is left running.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use crate::support::pty::{self, TestEnv, Tui};
use crate::support::server;
use longhaul::store::write_atomically;
use rustix::process::{Pid, Signal, kill_process};

/// The promise says 2 s; a machine that is busy with other tests may need more.
const SOON: Duration = Duration::from_secs(10);
const USUAL: (u16, u16) = (120, 36);

/// A place in the program: what leads there, and what then stands on the screen.
struct Place {
    name: &'static str,
    keys: &'static [&'static str],
    shown: &'static str,
    size: (u16, u16),
}

const fn place(name: &'static str, keys: &'static [&'static str], shown: &'static str) -> Place {
    Place {
        name,
        keys,
        shown,
        size: USUAL,
    }
}

/// `CRUNCH` and `DEPLOY` stand for the ids of a task that runs and of one that asks.
const PLACES: [Place; 15] = [
    place("list", &[], "q quit"),
    place("detail", &["/CRUNCH\r", "\r"], "Esc back"),
    place(
        "log search",
        &["/CRUNCH\r", "\r", "]", "/abc"],
        "search: abc",
    ),
    place("tools", &["2"], "Tools of"),
    place("call form", &["n", "\r", "orders"], "orders"),
    place("question", &["/DEPLOY\r", "\r"], "─ Question ─"),
    place("cancel dialog", &["x"], "no, don't cancel"),
    place("quit dialog", &["q"], "Quit?"),
    place("help", &["?"], "─ Keys and commands ─"),
    place("printed below", &["Y"], "(press Enter to return)"),
    place("filter", &["/abc"], "filter: abc"),
    place("command line", &[":wai"], ": wai"),
    place(
        "half a paste",
        &["/", "\u{1b}[200~half a p"],
        "Enter applies",
    ),
    place("half a sequence", &["\u{1b}[1"], "q quit"),
    Place {
        name: "too small",
        keys: &[],
        shown: "longhaul needs at least 40x10",
        size: (30, 8),
    },
];

/// A way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Signal(Signal, u32),
    /// A signal that may have no name.
    Number(u32),
    /// The terminal is closed.
    HangUp,
    Panic(&'static str),
    /// Ctrl-C, as often as it takes.
    Key(u32),
}

/// All of them on the screen, where the exit code tells what ended it.
const OF_SCREEN: [Way; 10] = [
    Way::Signal(Signal::INT, 130),
    Way::Signal(Signal::TERM, 143),
    Way::Signal(Signal::HUP, 129),
    Way::Signal(Signal::QUIT, 131),
    Way::HangUp,
    Way::Panic("screen"),
    Way::Panic("network"),
    Way::Panic("journal"),
    Way::Panic("input"),
    Way::Key(0),
];
/// And in a command: interrupted is interrupted.
const OF_COMMAND: [Way; 8] = [
    Way::Signal(Signal::INT, 130),
    Way::Signal(Signal::TERM, 130),
    Way::Signal(Signal::HUP, 130),
    Way::Signal(Signal::QUIT, 130),
    Way::HangUp,
    Way::Panic("network"),
    Way::Panic("journal"),
    Way::Key(130),
];

/// A session with a task that runs and one that asks.
struct Bench {
    env: TestEnv,
    crunch: String,
    deploy: String,
}

impl Bench {
    fn new(url: &str) -> Self {
        let env = TestEnv::new();
        let crunch = env.call_on(url, &["crunch", "steps=100000", "step_ms=100"]);
        let deploy = env.call_on(url, &["deploy", "env=prod", "steps=2", "step_ms=1"]);
        Self {
            env,
            crunch,
            deploy,
        }
    }

    fn fuse(&self) -> PathBuf {
        self.env.path().join("fuse")
    }

    fn named(&self, text: &str) -> String {
        text.replace("CRUNCH", &self.crunch)
            .replace("DEPLOY", &self.deploy)
    }

    /// Opens the program; a panic waits until it is wanted.
    fn open(&self, arguments: &[&str], way: Way) -> Tui {
        let fuse = self.fuse();
        let thread = if let Way::Panic(thread) = way {
            thread
        } else {
            ""
        };
        let variables = [
            ("LONGHAUL_PANIC_IN", thread),
            ("LONGHAUL_PANIC_WHEN", fuse.to_str().unwrap()),
        ];
        self.env
            .open_with(&variables, pty::program(), arguments, USUAL)
    }

    /// Goes from the list to a place.
    fn walk(&self, tui: &mut Tui, place: &Place) {
        tui.wait_for_line(&[&self.crunch, "● running"]);
        tui.wait_for_line(&[&self.deploy, "asking"]);
        if place.size != USUAL {
            tui.resize(place.size);
        }
        for keys in place.keys {
            tui.press(&self.named(keys));
            tui.watch_for(Duration::from_millis(30));
        }
        tui.wait_for(&self.named(place.shown));
    }

    /// The session as a fresh process sees it: both tasks, as they were.
    fn assert_saved(&self, what: &str) {
        let listed = self.env.run(&["ls", "--json"]);
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let status = |id: &str| {
            let task = listed
                .as_array()
                .unwrap()
                .iter()
                .find(|task| task["id"] == *id);
            task.unwrap_or_else(|| panic!("{what}: no {id} in {listed:#}"))["status"].clone()
        };
        assert_eq!(status(&self.crunch), "running", "{what}");
        // Who left soon has not been asked yet.
        let deploy = status(&self.deploy);
        assert!(
            deploy == "input-required" || deploy == "running",
            "{what}: {deploy}"
        );
    }
}

/// Whether every mode that the bytes switch stands at the end as it does in a fresh terminal.
fn assert_switched_back(raw: &[u8], what: &str) {
    let text = String::from_utf8_lossy(raw);
    let mut modes: BTreeMap<&str, char> = BTreeMap::new();
    for rest in text.split("\u{1b}[?").skip(1) {
        if let Some(end) = rest.find(|letter: char| !letter.is_ascii_digit() && letter != ';') {
            let (numbers, letter) = rest.split_at(end);
            for number in numbers.split(';') {
                modes.insert(number, letter.chars().next().unwrap());
            }
        }
    }
    for (mode, last) in &modes {
        // The cursor and the wrapping of lines are on.
        let usual = if ["25", "7"].contains(mode) { 'h' } else { 'l' };
        assert_eq!(*last, usual, "{what}: mode {mode} in {modes:?}");
    }
    let count = |sequence: &str| text.matches(sequence).count();
    assert_eq!(
        count("\u{1b}[22;2t"),
        count("\u{1b}[23;2t"),
        "{what}: the title"
    );
    assert_eq!(count("\u{1b}[>"), count("\u{1b}[<"), "{what}: kitty's keys");
    let progress = text
        .rsplit("\u{1b}]9;4;")
        .next()
        .filter(|_| count("\u{1b}]9;4;") > 0);
    assert!(
        progress.is_none_or(|last| last.starts_with('0')),
        "{what}: the progress"
    );
}

/// The processes that use this environment, with their command lines.
fn left_running(env: &TestEnv) -> Vec<String> {
    let dir = env.path().to_str().unwrap();
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let knows = |path: &PathBuf| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(dir)
    };
    processes
        .filter(knows)
        .map(|path| fs::read_to_string(path.join("stat")).unwrap_or_default())
        .collect()
}

/// Does each case, several at once.
fn each<T: Sync>(cases: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(case);
                }
            });
        }
    });
}

/// Takes a way out, and looks at what is left behind.
fn leave(way: Way, bench: &Bench, tui: &mut Tui, what: &str) {
    let code = match way {
        Way::Signal(signal, code) => {
            tui.signal(signal);
            code
        }
        Way::Number(number) => {
            let kill = format!("kill -{number} {}", tui.pid().as_raw_nonzero());
            let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
            assert!(sent.success(), "{what}");
            128 + number
        }
        Way::HangUp => {
            tui.hang_up();
            0
        }
        Way::Panic(thread) => {
            write_atomically(&bench.fuse(), b"").unwrap();
            if thread == "input" {
                // That one waits for a key, and a terminal that is lent out for the end of a line.
                tui.press(" \r");
            }
            70
        }
        Way::Key(code) => {
            // What is pressed while the program starts to listen counts for nothing.
            for _ in 0..100 {
                if tui.has_ended() {
                    break;
                }
                tui.press("\u{3}");
                tui.watch_for(Duration::from_millis(50));
            }
            code
        }
    };
    let (ended, took) = tui.end();
    assert!(took < SOON, "{what} took {took:?}");
    // Nobody is left to hear the code of a hang-up.
    if way != Way::HangUp {
        assert_eq!(ended, code, "{what}:\n{}", tui.text());
        assert!(tui.is_given_back(), "{what}");
        assert_switched_back(tui.raw(), what);
        let is_told = tui.text().contains("told to panic");
        let is_panic = matches!(way, Way::Panic(_));
        assert_eq!(is_told, is_panic, "{what}:\n{}", tui.text());
    }
    if matches!(way, Way::Panic(_)) {
        fs::remove_file(bench.fuse()).unwrap();
    }
    assert_eq!(left_running(&bench.env), Vec::<String>::new(), "{what}");
    bench.assert_saved(what);
}

#[test]
fn every_exit_restores_the_terminal_and_saves_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let server = server::demo(dir.path().join("demo"));
    each(&PLACES, |place| {
        let bench = Bench::new(&server.url());
        for way in OF_SCREEN {
            // There the terminal makes a signal of Ctrl-C, which goes back to the screen; and that takes no turns.
            let is_none = matches!(way, Way::Signal(Signal::INT, _) | Way::Panic("screen"));
            if place.name == "printed below" && is_none {
                continue;
            }
            let mut tui = bench.open(&["--session", "demo"], way);
            bench.walk(&mut tui, place);
            leave(way, &bench, &mut tui, &format!("{way:?} in {}", place.name));
        }
    });
}

/// The numbers of the signals that end a process which does not catch them, but for KILL and for those that report its own
/// faults.
#[cfg(target_os = "linux")]
fn all_that_end() -> impl Iterator<Item = u32> {
    [1, 2, 3, 5, 6, 10, 12, 14, 15, 16, 24, 26, 27, 29, 30, 31]
        .into_iter()
        // The first and the last of the signals without a meaning.
        .chain([34, 64])
}

#[cfg(target_os = "linux")]
#[test]
fn every_signal_leaves_the_terminal_restored() {
    let dir = tempfile::tempdir().unwrap();
    let server = server::demo(dir.path().join("demo"));
    let places = ["list", "detail", "call form", "question", "filter"];
    let places: Vec<&Place> = PLACES
        .iter()
        .filter(|place| places.contains(&place.name))
        .collect();
    each(&places, |place| {
        let bench = Bench::new(&server.url());
        for number in all_that_end() {
            let way = Way::Number(number);
            let mut tui = bench.open(&["--session", "demo"], way);
            bench.walk(&mut tui, place);
            leave(way, &bench, &mut tui, &format!("{way:?} in {}", place.name));
        }
        // These do not end it.
        let mut tui = bench.open(&["--session", "demo"], Way::Key(0));
        bench.walk(&mut tui, place);
        for signal in [
            Signal::PIPE,
            Signal::XFSZ,
            Signal::URG,
            Signal::WINCH,
            Signal::CHILD,
        ] {
            tui.signal(signal);
        }
        let way = Way::Signal(Signal::TERM, 143);
        leave(
            way,
            &bench,
            &mut tui,
            &format!("ignored ones in {}", place.name),
        );
    });
}

#[test]
fn every_exit_of_a_following_command_saves_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let server = server::demo(dir.path().join("demo"));
    let url = server.url();
    each(&["watch", "call"], |command| {
        let bench = Bench::new(&url);
        let call = [
            "--session",
            "demo",
            "-s",
            &url,
            "--protocol",
            "2025-06-18",
            "call",
            "crunch",
            "steps=100000",
            "step_ms=100",
        ];
        let arguments: &[&str] = match *command {
            "watch" => &["--session", "demo", "watch", &bench.crunch],
            _ => &call,
        };
        for way in OF_COMMAND {
            let mut tui = bench.open(arguments, way);
            tui.wait_for("step");
            leave(way, &bench, &mut tui, &format!("{way:?} in {command}"));
        }
    });
}

/// The program that a shell runs in this environment.
fn at_work(env: &TestEnv, shell: &Tui) -> Pid {
    let shell = shell.pid();
    let dir = env.path().to_str().unwrap();
    let is_ours = |pid: &Pid| {
        let of_proc = PathBuf::from(format!("/proc/{pid}"));
        let environment = fs::read(of_proc.join("environ")).unwrap_or_default();
        let name = fs::read_to_string(of_proc.join("comm")).unwrap_or_default();
        name == "longhaul\n" && String::from_utf8_lossy(&environment).contains(dir)
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found = pids.find_map(|pid| Pid::from_raw(pid).filter(|pid| *pid != shell && is_ours(pid)));
    found.unwrap()
}

#[test]
fn ctrl_z_and_back_keeps_every_place() {
    let dir = tempfile::tempdir().unwrap();
    let server = server::demo(dir.path().join("demo"));
    // What is pasted is text, whatever it is; and what is printed stands outside of the screen anyway.
    let is_meant = |it: &&Place| !["half a paste", "printed below"].contains(&it.name);
    let places: Vec<&Place> = PLACES.iter().filter(is_meant).collect();
    each(&places, |place| {
        let bench = Bench::new(&server.url());
        let what = place.name;
        let mut shell = bench.env.open_program("/bin/sh", &["-i"], USUAL);
        shell.wait_for("$");
        shell.press(&format!("{} --session demo\r", pty::program()));
        bench.walk(&mut shell, place);
        for is_key in [true, false, true] {
            if is_key {
                shell.press("\u{1a}");
            } else {
                kill_process(at_work(&bench.env, &shell), Signal::TSTP).unwrap();
            }
            shell.wait_for("Stopped");
            assert!(shell.is_given_back(), "{what}");
            assert_switched_back(shell.raw(), what);
            shell.press("clear; fg\r");
            shell.wait_for(&bench.named(place.shown));
            assert!(shell.screen().alternate_screen(), "{what}");
        }
        while shell.screen().alternate_screen() {
            shell.press("\u{3}");
            shell.watch_for(Duration::from_millis(100));
        }
        shell.press("exit 9; exit 9\r");
        assert_eq!(shell.end().0, 9, "{what}:\n{}", shell.text());
        assert!(shell.is_given_back(), "{what}");
        assert_switched_back(shell.raw(), what);
        bench.assert_saved(what);
    });
}

#[test]
fn every_view_repaints_after_stop_and_continue() {
    const TAKEN: &str = "\u{1b}[?1049h";
    let dir = tempfile::tempdir().unwrap();
    let server = server::demo(dir.path().join("demo"));
    each(&PLACES, |place| {
        let bench = Bench::new(&server.url());
        let mut tui = bench.open(&["--session", "demo"], Way::Key(0));
        bench.walk(&mut tui, place);
        let is_printed = place.name == "printed below";
        // No one could continue the first, so it resumes at once.
        for signals in [
            &[Signal::TSTP][..],
            &[Signal::STOP, Signal::CONT],
            &[Signal::CONT],
        ] {
            let what = format!("{signals:?} in {}", place.name);
            let taken = |tui: &Tui| String::from_utf8_lossy(tui.raw()).matches(TAKEN).count();
            let before = taken(&tui);
            for signal in signals {
                tui.signal(*signal);
            }
            if is_printed {
                // It stands outside of the screen anyway.
                tui.watch_for(Duration::from_millis(300));
                assert_eq!(taken(&tui), before, "{what}");
                continue;
            }
            for _ in 0..500 {
                if taken(&tui) > before {
                    break;
                }
                tui.watch_for(Duration::from_millis(20));
            }
            assert!(taken(&tui) > before, "{what}:\n{}", tui.text());
            tui.wait_for(&bench.named(place.shown));
            assert!(tui.screen().alternate_screen(), "{what}");
        }
        if is_printed {
            tui.press("\r");
            tui.wait_for("q quit");
        }
        let way = Way::Signal(Signal::TERM, 143);
        leave(
            way,
            &bench,
            &mut tui,
            &format!("after stops in {}", place.name),
        );
    });
}

#[test]
fn an_error_at_the_start_leaves_the_terminal_alone() {
    let env = TestEnv::new();
    let sessions = env.path().join("sessions");
    fs::create_dir(&sessions).unwrap();
    fs::create_dir(sessions.join("default.db")).unwrap();
    for arguments in [
        &[][..],
        &["attach", "abcdef"],
        &["--session", "../x"],
        &["-s", "nobody"],
    ] {
        let mut tui = env.open(arguments, USUAL);
        let (code, took) = tui.end();
        assert!(
            [2, 73].contains(&code),
            "{arguments:?}: {code}:\n{}",
            tui.text()
        );
        assert!(took < SOON, "{arguments:?} took {took:?}");
        assert!(tui.is_given_back(), "{arguments:?}");
        assert!(!tui.raw().contains(&0x1b), "{arguments:?}:\n{}", tui.text());
        assert_eq!(left_running(&env), Vec::<String>::new(), "{arguments:?}");
    }
}
