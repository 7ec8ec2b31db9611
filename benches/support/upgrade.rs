//! Row 21: what an upgrade costs the calls that run, and row 22: what a slow way to another machine costs its screen.

use std::{
    fmt::Write as _,
    io::{Read, Write},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use longhaul::store::write_atomically;

use crate::{
    SIZE, key_times,
    support::{now, quantile, row, say},
    test_env::{Server, TestEnv, Tui},
};

/// Calls on streams with event ids, and on each of the server processes.
const STREAMS: usize = 20;
const PROGRAMS: usize = 20;
const CALLS_OF_PROGRAM: usize = 4;

/// How often the keeper is upgraded.
const UPGRADES: usize = 9;

/// Row 21: 20 server processes and 100 calls through some upgrades to the same program.
pub(crate) fn upgrades() {
    let (env, mut server) = (TestEnv::with_keeper(), Server::start());
    server.go();
    let dir = env.path().to_str().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/stdio_steps.sh");
    let mut config = String::new();
    for number in 0..PROGRAMS {
        let args = [script, dir];
        writeln!(
            config,
            "[servers.p{number}]\ncommand = \"/bin/sh\"\nargs = {args:?}"
        )
        .unwrap();
    }
    env.configure(&config);
    let mut ids = Vec::new();
    for number in 0..PROGRAMS {
        let name = format!("p{number}");
        env.start(&["servers", "approve", &name, "--yes"]).end();
        for _ in 0..CALLS_OF_PROGRAM {
            ids.push(
                env.start(&["-s", &name, "call", "--detach", "work"])
                    .output(),
            );
        }
    }
    for _ in 0..STREAMS {
        let steps = "{\"count\":600,\"every_ms\":100,\"batch\":1}";
        let words = [
            "-s",
            &server.url,
            "call",
            "--detach",
            "blast",
            "--args",
            steps,
        ];
        ids.push(env.start(&words).output());
    }
    let pids = || std::fs::read_to_string(env.path().join("pids")).unwrap();
    let (keeper, before) = (env.keeper().pid(), pids());
    let mut pauses: Vec<f64> = (0..UPGRADES)
        .map(|_| {
            let said = env.start(&["keeper", "upgrade", "--json"]).output();
            let said: serde_json::Value = serde_json::from_str(&said).unwrap();
            said["paused_ms"].as_f64().unwrap()
        })
        .collect();
    pauses.sort_by(f64::total_cmp);
    assert_eq!(env.keeper().pid(), keeper);
    let is_same = pids() == before && before.lines().count() == PROGRAMS;
    write_atomically(&env.path().join("finish"), b"").unwrap();
    let ids: Vec<&str> = ids.iter().map(|id| id.trim()).collect();
    env.start(&[&["-q", "wait"][..], &ids].concat()).end();
    let calls = STREAMS + PROGRAMS * CALLS_OF_PROGRAM;
    say(&format!(
        "       pauses of {UPGRADES} upgrades: {pauses:?} ms"
    ));
    let what = "an upgrade with 20 server processes and 100 calls: the longest pause";
    row(21, what, *pauses.last().unwrap(), " ms", 300.0);
    let lost = calls - env.completed();
    row(21, "calls lost", lost as f64, "", 0.0);
    row(
        21,
        "server processes started again",
        f64::from(!is_same),
        "",
        0.0,
    );
}

/// The time that each direction takes.
const DELAY: Duration = Duration::from_millis(100);

/// In place of ssh: runs the command on this machine, with everything [`DELAY`] later in each direction.
pub(crate) fn slow_ssh(command: &str) {
    let mut there = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (input, output) = (there.stdin.take().unwrap(), there.stdout.take().unwrap());
    std::thread::spawn(move || delayed(std::io::stdin(), input));
    delayed(output, std::io::stdout());
    let _ = there.wait();
}

fn delayed(mut from: impl Read + Send + 'static, mut to: impl Write) {
    let (sender, parts) = mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if sender.send((now(), buffer[..count].to_vec())).is_err() {
                break;
            }
        }
    });
    for (at, part) in parts {
        std::thread::park_timeout(DELAY.saturating_sub(at.elapsed()));
        if to.write_all(&part).and_then(|()| to.flush()).is_err() {
            break;
        }
    }
}

/// Row 22: a screen on another machine, 100 ms away.
pub(crate) fn far_away() {
    let (there, mut server) = (TestEnv::with_keeper(), Server::start());
    server.go();
    for _ in 0..20 {
        there.call(
            &server.url,
            "{\"count\":1000000,\"every_ms\":1000,\"batch\":1}",
        );
    }
    let ssh = there.path().join("slow-ssh");
    let this = std::env::current_exe().unwrap();
    let lines = format!(
        "#!/bin/sh\nfor last; do :; done\n\
         LONGHAUL_KEEPER=1 LONGHAUL_STATE_DIR={0}/state PATH={1}:$PATH exec {2} slow-ssh \"$last\"\n",
        there.path().display(),
        std::path::Path::new(env!("CARGO_BIN_EXE_longhaul"))
            .parent()
            .unwrap()
            .display(),
        this.display()
    );
    write_atomically(&ssh, lines.as_bytes()).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o700)).unwrap();
    let here = TestEnv::new().with_ssh(ssh.to_str().unwrap());
    let mut tui = here.open(&["--host", "box"], SIZE);
    tui.wait_for("on box");
    tui.wait_for("running");
    tui.press("g");
    tui.read_for(Duration::from_secs(1));
    let keys = key_times(&mut tui, 200);
    say(&format!(
        "       key to frame, {} ms away: p50 {:.2} ms, p99 {:.2} ms",
        DELAY.as_millis(),
        quantile(&keys, 0.5),
        quantile(&keys, 0.99)
    ));
    let what = "a screen 100 ms away: key to frame, p99";
    row(22, what, quantile(&keys, 0.99), " ms", 5.0);
    let steps = step_times(&there, &mut tui);
    say(&format!(
        "       from a step there to the far screen: p50 {:.0} ms, at most {:.0} ms",
        quantile(&steps, 0.5),
        quantile(&steps, 1.0)
    ));
    let what = "a screen 100 ms away: a step to frame, the longest of 30";
    row(22, what, quantile(&steps, 1.0), " ms", 250.0);
}

/// The time from when a server has sent a step until the far screen shows it, in milliseconds.
fn step_times(there: &TestEnv, tui: &mut Tui) -> Vec<f64> {
    let mut server = Server::start();
    server.go();
    let steps = "{\"count\":36,\"every_ms\":500,\"batch\":1,\"says_sent\":1}";
    there.call(&server.url, steps);
    // The row itself comes with the first ones.
    let skipped = 5;
    server.take(skipped, "sent");
    let times = (skipped + 1..=35).map(|step| {
        server.wait_for("sent");
        let sent_at = now();
        tui.wait_for(&format!("{step}/36"));
        sent_at.elapsed().as_secs_f64() * 1e3
    });
    times.collect()
}
