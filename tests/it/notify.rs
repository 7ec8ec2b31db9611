//! Notifications outside the screen: by the terminal and by a hook.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::support::pty::{self, TestEnv, Tui};
use crate::support::{
    program::{Ran, run},
    server,
};
use longhaul::store::write_atomically;
use serde_json::Value;

/// Ctrl-C twice leaves now, whatever is under way.
const LEAVE: &str = "\u{3}\u{3}";

/// The demo server under the name `lab`, and what `[notify]` says.
fn configure(env: &TestEnv, url: &str, notify: &str) {
    let text = format!("[servers.lab]\nurl = {url:?}\n[notify]\n{notify}\n");
    write_atomically(&env.path().join("config.toml"), text.as_bytes()).unwrap();
}

/// A hook that leaves a file for each time that it is run.
fn keeps(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "hook = 'f={dir}/part.$$ && cat > $f && mv $f {dir}/told.$LONGHAUL_EVENT.$LONGHAUL_TASK.$$'"
    )
}

/// What the hooks left; waits until there are so many.
fn told(dir: &Path, count: usize) -> Vec<(String, Value)> {
    // A minute, which only a hang reaches.
    for _ in 0..6000 {
        let entries = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let is_whole = |path: &PathBuf| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("told.")
        };
        let mut whole: Vec<PathBuf> = entries.filter(is_whole).collect();
        if whole.len() >= count {
            whole.sort();
            let read = |path: PathBuf| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
                (name, json)
            };
            return whole.into_iter().map(read).collect();
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("timed out waiting for {count}");
}

/// Opens the screen and waits until it drives.
fn drives(env: &TestEnv, variables: &[(&str, &str)]) -> Tui {
    let mut screen = env.open_with(variables, pty::program(), &[], (120, 36));
    screen.wait_for("longhaul default");
    screen.wait_until_it_drives(env.path());
    screen
}

fn call(env: &TestEnv, arguments: &[&str]) -> Ran {
    run(env.path(), &[&["-s", "lab", "call"], arguments].concat())
}

#[test]
fn a_hook_gets_each_ended_task_with_its_result() {
    let (env, left) = (TestEnv::new(), tempfile::tempdir().unwrap());
    let server = server::demo(env.path().join("server"));
    configure(&env, &server.url(), &keeps(left.path()));
    let well = call(&env, &["send_burst", "count=1", "--name", "first"]);
    assert_eq!(well.code, Some(0), "{well:#?}");
    let [(name, task)] = told(left.path(), 1).try_into().unwrap();
    let id = task["id"].as_str().unwrap();
    assert!(name.starts_with(&format!("told.done.{id}.")), "{name}");
    assert_eq!(task["status"], "completed");
    assert_eq!(task["name"], "first");
    assert!(task["result"].is_object(), "{task:#}");
    let badly = call(&env, &["pause_task", "task_id=nobody"]);
    assert_eq!(badly.code, Some(1), "{badly:#?}");
    let [_, (name, task)] = told(left.path(), 2).try_into().unwrap();
    assert!(name.starts_with("told.needs-you."), "{name}");
    assert_eq!(task["status"], "failed");
}

#[test]
fn only_who_drives_runs_the_hook_and_only_for_what_is_asked() {
    let (env, left) = (TestEnv::new(), tempfile::tempdir().unwrap());
    let server = server::demo(env.path().join("server"));
    let notify = format!("{}\nhook_on = \"needs-you\"", keeps(left.path()));
    configure(&env, &server.url(), &notify);
    let mut screen = drives(&env, &[]);
    call(&env, &["send_burst", "count=1"]);
    for nobody in ["task_id=nobody", "task_id=nothing"] {
        call(&env, &["pause_task", nobody]);
    }
    let told = told(left.path(), 2);
    screen.press(LEAVE);
    screen.end();
    let status = |(_, task): &(String, Value)| task["status"].as_str().unwrap().to_owned();
    let statuses: Vec<String> = told.iter().map(status).collect();
    assert_eq!(statuses, ["failed"; 2]);
    // What was told is not told again by the next one who drives.
    let mut screen = drives(&env, &[]);
    call(&env, &["pause_task", "task_id=nowhere"]);
    assert_eq!(self::told(left.path(), 3).len(), 3);
    screen.press(LEAVE);
    screen.end();
}

#[test]
fn reports_a_failing_hook_and_changes_nothing() {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    configure(&env, &server.url(), "hook = 'exit 3'");
    let mut screen = drives(&env, &[]);
    let ran = call(&env, &["send_burst", "count=1"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    screen.press("4");
    screen.wait_for("the hook for");
    screen.wait_for("ended with exit status: 3");
    screen.press(LEAVE);
    screen.end();
}

#[test]
fn does_not_wait_for_slow_hooks() {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    configure(&env, &server.url(), "hook = 'sleep 100'");
    let mut screen = drives(&env, &[]);
    for _ in 0..6 {
        call(&env, &["send_burst", "count=1"]);
    }
    // More than run at once have ended; leaving takes far less than one of them.
    screen.press(LEAVE);
    screen.end();
}

#[test]
fn notifies_an_unfocused_terminal_in_its_own_format() {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    configure(&env, &server.url(), "");
    let shows = |variables: &[(&str, &str)]| {
        let mut screen = drives(&env, variables);
        // The terminal says that it lost the focus.
        screen.press("\u{1b}[O");
        let ran = call(&env, &["get_forecast", "city=Lisbon", "delay_ms=500"]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        // The bell comes with the rest.
        for _ in 0..3000 {
            if screen.raw().contains(&7) {
                break;
            }
            screen.watch_for(Duration::from_millis(20));
        }
        screen.press(LEAVE);
        screen.end();
        String::from_utf8_lossy(screen.raw()).into_owned()
    };
    let ghostty = shows(&[("TERM_PROGRAM", "ghostty")]);
    let done = "\u{1b}]9;longhaul: ";
    assert!(ghostty.contains(done), "{ghostty:?}");
    let either = ["\u{1b}]9;4;1;", "\u{1b}]9;4;3;0"];
    assert!(either.iter().any(|it| ghostty.contains(it)), "{ghostty:?}");
    assert!(ghostty.contains("\u{1b}]9;4;0;0\u{1b}\\"), "{ghostty:?}");
    let kitty = shows(&[("KITTY_WINDOW_ID", "1")]);
    assert!(kitty.contains("\u{1b}]99;;longhaul: "), "{kitty:?}");
    assert!(!kitty.contains("\u{1b}]9;"), "{kitty:?}");
    for quiet in [
        &[][..],
        &[("TERM_PROGRAM", "ghostty"), ("TMUX", "/tmp/tmux")],
    ] {
        let quiet = shows(quiet);
        assert!(
            !quiet.contains("\u{1b}]9") && !quiet.contains("\u{1b}Ptmux"),
            "{quiet:?}"
        );
    }
    configure(
        &env,
        &server.url(),
        "tmux_passthrough = true\ndesktop_by = \"osc777\"",
    );
    let tmux = shows(&[("TMUX", "/tmp/tmux")]);
    let done = "\u{1b}Ptmux;\u{1b}\u{1b}]777;notify;longhaul;";
    assert!(tmux.contains(done), "{tmux:?}");
}
