//! Many tasks on many servers at 80x24, and one session in several hands (a screen that drives, one that may only look,
//! and commands from a third shell).
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::time::Duration;

use crate::support::pty::{TestEnv, Tui};
use crate::support::{program::run, server};
use longhaul::{
    domain::{Row, Status, Task, TaskId, Wall},
    store::{DriverLock, Durability, ListFilter, Opened, Paths, Reader, Writer, write_atomically},
};

/// The smallest terminal that is common.
const SMALL: (u16, u16) = (80, 24);
/// Ctrl-C twice leaves now, whatever is under way.
const LEAVE: &str = "\u{3}\u{3}";
const SERVERS: [&str; 5] = ["s1", "s2", "s3", "s4", "s5"];
/// Tasks of each server; half of them failed.
const EACH: usize = 100;

fn paths(env: &TestEnv, session: &str) -> Paths {
    Paths::resolve(Some(env.path().to_owned()), session).unwrap()
}

fn tasks(env: &TestEnv) -> Vec<Task> {
    tasks_of(env, "default")
}

fn tasks_of(env: &TestEnv, session: &str) -> Vec<Task> {
    let everything = ListFilter::ALL;
    let mut reader = Reader::open(&paths(env, session)).unwrap();
    reader.tasks(everything).unwrap()
}

fn is_failed_on_s3(task: &Task) -> bool {
    task.server.as_str() == "s3" && task.status == Status::Failed
}

/// Two real calls on each server, and copies of them.
fn fill(env: &TestEnv, url: &str) {
    let servers = SERVERS.map(|name| format!("[servers.{name}]\nurl = {url:?}\n"));
    write_atomically(&env.path().join("config.toml"), servers.concat().as_bytes()).unwrap();
    for name in SERVERS {
        for call in [["send_burst", "count=1"], ["pause_task", "task_id=nobody"]] {
            run(env.path(), &[&["-s", name, "call"][..], &call].concat());
        }
    }
    let _lock = DriverLock::try_take(&paths(env, "default")).unwrap();
    let mut rng = fastrand::Rng::with_seed(5);
    let mut rows = Vec::new();
    for task in tasks(env) {
        for place in 1..EACH / 2 {
            let mut copy = task.clone();
            copy.id = TaskId::from_bits(rng.u64(..));
            copy.created_at = Wall(task.created_at.0 - i64::try_from(place).unwrap() * 1000);
            rows.push(Row::Task(Box::new(copy)));
        }
    }
    let Opened { mut writer, .. } = Writer::open(&paths(env, "default"), Wall(1)).unwrap();
    writer.save(&rows, Durability::Full, Wall(1)).unwrap();
}

/// Looks until the file is as wanted.
fn wait_until_saved(tui: &mut Tui, env: &TestEnv, wanted: impl Fn(&[Task]) -> bool) {
    for _ in 0..1200 {
        if wanted(&tasks(env)) {
            return;
        }
        tui.watch_for(Duration::from_millis(50));
    }
    panic!("never saved:\n{}", tui.text());
}

#[test]
fn filters_and_marks_work_on_five_hundred_tasks() {
    let env = TestEnv::new();
    let server = server::demo(env.path().join("server"));
    fill(&env, &server.url());
    assert_eq!(tasks(&env).len(), SERVERS.len() * EACH);
    let mut tui = env.open(&[], SMALL);
    tui.wait_for("FINISHED 500");
    tui.press("/server:s3 status:failed\r");
    tui.wait_for("FINISHED 50");
    tui.press("a");
    tui.wait_for("50 tasks marked");
    tui.press("D");
    let forgotten = |all: &[Task]| -> Vec<Task> {
        let is_forgotten = |task: &&Task| task.forgotten_at.is_some();
        all.iter().filter(is_forgotten).cloned().collect()
    };
    wait_until_saved(&mut tui, &env, |all| forgotten(all).len() == 50);
    assert!(forgotten(&tasks(&env)).iter().all(is_failed_on_s3));
    // Esc takes the filter away: the rest is where it was, and `u` brings the fifty back.
    tui.press("\u{1b}");
    tui.wait_for("FINISHED 450");
    tui.press("u");
    wait_until_saved(&mut tui, &env, |all| forgotten(all).is_empty());
    tui.press("g");
    tui.wait_for("FINISHED 500");
    tui.press(LEAVE);
    tui.end();
}

#[test]
fn two_screens_and_a_shell_share_a_session() {
    let mut env = TestEnv::new();
    env.serve();
    let mut drives = env.open(&["demo"], SMALL);
    drives.wait_for_line(&["● running", "the whole archive"]);
    let asks = env.call(&["deploy", "env=lab", "step_ms=20"]);
    let long = env.call(&["crunch", "steps=1000", "step_ms=500", "as_task=true"]);
    drives.wait_for_line(&["asking", "deploy"]);
    drives.wait_for_line(&["running", "crunch"]);
    let mut looks = env.open(&["--session", "demo", "--readonly"], SMALL);
    looks.wait_for_line(&["asking", "deploy"]);
    looks.wait_for_line(&["running", "crunch"]);
    // It shows everything and does nothing.
    looks.press(&format!("/{long}\r"));
    looks.wait_for_line(&["▸", "crunch"]);
    looks.press("x");
    looks.wait_for("not available on a read-only screen");
    assert!(
        tasks_of(&env, "demo")
            .iter()
            .all(|task| !task.status.is_settled() || task.id.as_str() != long)
    );
    // A third shell acts on it.
    let cancelled = env.run(&["cancel", &long]);
    assert!(cancelled.status.success(), "{cancelled:?}");
    let answered = env.run(&["answer", &asks, "--accept", "version=1.2.3"]);
    assert!(answered.status.success(), "{answered:?}");
    for tui in [&mut drives, &mut looks] {
        tui.wait_for_line(&["cancelled", "crunch"]);
    }
    drives.wait_for_line(&["completed", "deploy"]);
    for mut tui in [looks, drives] {
        tui.press(LEAVE);
        tui.end();
    }
}
