//! The whole program against the least that does the same work: a bare `reqwest` reader with the scan of
//! `benches/stream.rs`, and the client of the official SDK.
//!
//! `cargo bench --bench program`, or some rows of it: `cargo bench --bench program -- 4 5`. Every side is a process of its
//! own; the server is another one, so that only the clients are measured. Figures are CPU time where the row allows,
//! else time on the wall; medians of alternated rounds. Row 13 needs `strace` to count the fsyncs.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot go on ends"
)]

#[path = "support/calls.rs"]
mod calls;
#[path = "support/clients.rs"]
mod clients;
#[path = "../tests/it/support/disk.rs"]
mod disk;
#[path = "support/keeper.rs"]
mod keeper;
#[path = "support/scan.rs"]
mod scan;
#[path = "support/server.rs"]
mod server;
#[path = "support/mod.rs"]
mod support;
#[path = "support/test_env.rs"]
mod test_env;
#[path = "support/upgrade.rs"]
mod upgrade;

use std::time::Duration;

use clients::Reader;
use support::{
    duel, duel_at_best, is_wanted, median, memory_of, now, pass, quantile, row, row_at_least, say,
};
use test_env::{Process, Server, TestEnv, Tui};

const SIZE: (u16, u16) = (120, 36);

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    match word(1) {
        "serve" => return server::serve(),
        "scan" => return clients::read(Reader::Scan, word(2), word(3).parse().unwrap(), word(4)),
        "ours" => return clients::read(Reader::Ours, word(2), word(3).parse().unwrap(), word(4)),
        "get" => return clients::get(word(2)),
        "rmcp" => return clients::rmcp(word(2), word(3)),
        "smallest" => return clients::smallest(),
        "slow-ssh" => return upgrade::slow_ssh(word(2)),
        "calls" => return calls::drive(word(2), word(3).parse().unwrap(), word(4)),
        _ => {}
    }
    let rows: [(u32, fn()); 19] = [
        (1, one_a_chunk),
        (2, large_chunks),
        (4, headless),
        (5, with_screen),
        (6, keys),
        (7, idle),
        (8, at_a_pace),
        (10, first_frame),
        (11, missed),
        (12, memory),
        (13, saving),
        (15, ends_together),
        (16, keeper::start),
        (17, keeper::many_at_once),
        (18, keeper::idle),
        (19, keeper::keys),
        (20, keeper::many_clients),
        (21, upgrade::upgrades),
        (22, upgrade::far_away),
    ];
    for (number, measure) in rows {
        if is_wanted(number) {
            measure();
        }
    }
}

/// Events of a burst.
const EVENTS: u64 = 200_000;

/// What an event costs a process that reads a burst, beyond what the process costs without one.
fn cost(run: &dyn Fn(u64) -> f64) -> f64 {
    (run(EVENTS) - run(1)) / EVENTS as f64
}

/// What an event costs one of the readers, with so many bytes of events in an HTTP chunk.
fn read_cost(reader: &str, chunk_bytes: usize) -> f64 {
    cost(&|count| {
        let mut server = Server::start();
        server.go();
        let arguments = format!("{{\"count\":{count},\"chunk_bytes\":{chunk_bytes}}}");
        Process::this(&[reader, &server.url, "1", &arguments]).end()
    })
}

/// Row 1: our reader against the bare scan, one event an HTTP chunk.
fn one_a_chunk() {
    let (mine, other) = duel(5, || read_cost("ours", 0), || read_cost("scan", 0));
    say(&format!(
        "       one event a chunk: ours {:.2} us, bare scan {:.2} us",
        mine * 1e6,
        other * 1e6
    ));
    let what = "splitter, eventsource-stream and parse against the scan";
    row(1, what, mine / other, " x", 2.2);
}

/// Row 2: the same from large HTTP chunks.
fn large_chunks() {
    let (mine, own) = duel(5, || read_cost("ours", 65_536), || read_cost("ours", 0));
    say(&format!(
        "       64 KiB a chunk: ours {:.2} us, one event a chunk {:.2} us",
        mine * 1e6,
        own * 1e6
    ));
    row(
        2,
        "64 KiB chunks against one event a chunk",
        mine / own,
        " x",
        0.7,
    );
}

/// Row 4: CPU an event, whole process, on a burst.
fn headless() {
    let ours = |count: u64| {
        let env = TestEnv::new();
        let mut server = Server::start();
        server.go();
        let count = format!("count:={count}");
        let arguments = ["-q", "-s", &server.url, "call", "blast", &count];
        env.start(&arguments).end()
    };
    let theirs = |count: u64| {
        let mut server = Server::start();
        server.go();
        Process::this(&["rmcp", &server.url, &format!("{{\"count\":{count}}}")]).end()
    };
    let (mine, other) = duel_at_best(9, || cost(&ours), || cost(&theirs));
    say(&format!(
        "       headless: ours {:.2} us an event, rmcp {:.2} us, bare scan {:.2} us",
        mine * 1e6,
        other * 1e6,
        read_cost("scan", 0) * 1e6
    ));
    row(
        4,
        "headless program against rmcp's client, CPU an event",
        mine / other,
        " x",
        0.33,
    );
}

/// Calls on a gated server, with the screen on.
fn on_screen(env: &TestEnv, server: &mut Server, calls: usize, arguments: &str) -> Tui {
    let mut tui = env.open(&["-s", &server.url], SIZE);
    // Whoever drives has its socket beside the session file; before, the first call would drive.
    tui.wait_for("longhaul");
    env.wait_for_driver();
    for _ in 0..calls {
        env.call(&server.url, arguments);
        server.wait_for("open");
    }
    tui.read_for(Duration::from_millis(500));
    tui
}

/// The same calls, read by the bare scan.
fn on_scan(server: &mut Server, calls: usize, arguments: &str) -> Process {
    let process = Process::this(&["scan", &server.url, &calls.to_string(), arguments]);
    for _ in 0..calls {
        server.wait_for("open");
    }
    process
}

/// Row 5: events a second with the screen on. The scan reads them as in row 1, from one stream; what it makes of as many
/// streams at once is told beside it.
fn with_screen() {
    for (calls, count, name) in [(1, 300_000, "1 task"), (100, 3000, "100 tasks")] {
        let arguments = format!("{{\"count\":{count}}}");
        let rate = |server: &mut Server, calls: usize, tui: Option<&mut Tui>| {
            server.go();
            if let Some(tui) = tui {
                tui.read_until(|| server.has(calls, "done"));
            }
            let slowest = server
                .take(calls, "done")
                .iter()
                .fold(0.0, |slowest: f64, line| {
                    let seconds = line.split(' ').nth(2).and_then(|word| word.parse().ok());
                    slowest.max(seconds.unwrap_or(f64::NAN))
                });
            300_000.0 / slowest
        };
        let scan = |calls: usize, arguments: &str| {
            let mut server = Server::start();
            let _scan = on_scan(&mut server, calls, arguments);
            rate(&mut server, calls, None)
        };
        let (mine, other) = duel(
            3,
            || {
                let (env, mut server) = (TestEnv::new(), Server::start());
                let mut tui = on_screen(&env, &mut server, calls, &arguments);
                let process = tui.process();
                let cpu = || {
                    let of = |thread: &str| process.cpu_of_thread(thread) * 1e3;
                    [of("network"), of("journal"), of("longhaul")]
                };
                let before = cpu();
                let rate = rate(&mut server, calls, Some(&mut tui));
                let after = cpu();
                let spent: Vec<String> = after
                    .iter()
                    .zip(before)
                    .map(|(after, before)| format!("{:.0}", after - before))
                    .collect();
                say(&format!(
                    "       CPU ms of network, journal and screen thread: {} in {:.0} ms",
                    spent.join(", "),
                    300_000.0 / rate * 1e3
                ));
                rate
            },
            || scan(1, "{\"count\":300000}"),
        );
        say(&format!(
            "       {name}: ours {mine:.0} events/s, bare scan {other:.0} events/s"
        ));
        if calls > 1 {
            let (first, second) = duel(3, || scan(calls, &arguments), || scan(calls, &arguments));
            let at_once = first.midpoint(second);
            say(&format!(
                "       the scan of {name}: {at_once:.0} events/s; against that {:.2} x",
                mine / at_once
            ));
        }
        let what = format!("screen on, {name}, events a second against the bare scan");
        row_at_least(5, &what, mine / other, " x", 0.6);
    }
}

/// Milliseconds from a key to the frame that shows it.
fn key_times(tui: &mut Tui, keys: usize) -> Vec<f64> {
    let mut dice = fastrand::Rng::with_seed(7);
    (0..keys)
        .map(|place| {
            tui.read_for(Duration::from_millis(dice.u64(20..60)));
            let before = tui.marked_row();
            let begin = now();
            tui.press(if place % 20 < 10 { "j" } else { "k" });
            tui.wait_until("the mark to move", |tui| tui.marked_row() != before);
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect()
}

/// 50,000 events a second over 100 tasks.
const FLOOD: &str = "{\"count\":1000000,\"every_ms\":10,\"batch\":5}";

/// Row 6: key to frame at 50,000 events a second over 100 tasks.
fn keys() {
    let (env, mut server) = (TestEnv::new(), Server::start());
    let mut tui = on_screen(&env, &mut server, 100, FLOOD);
    // To the top, so that the cursor has room to move.
    tui.press("g");
    tui.read_for(Duration::from_secs(1));
    let idle = key_times(&mut tui, 200);
    server.go();
    tui.read_for(Duration::from_secs(2));
    let busy = key_times(&mut tui, 400);
    say(&format!(
        "       key to frame: idle p50 {:.2} ms; at 50,000 events/s p50 {:.2} ms, p99 {:.2} ms",
        median(&idle),
        median(&busy),
        quantile(&busy, 0.99)
    ));
    row(
        6,
        "key to frame under load, p50 against idle",
        median(&busy) / median(&idle),
        " x",
        3.0,
    );
    row(
        6,
        "key to frame under load, p99",
        quantile(&busy, 0.99),
        " ms",
        16.0,
    );
}

/// Row 7: nothing to do.
fn idle() {
    let env = TestEnv::new();
    env.settled(1000);
    let mut tui = env.open(&[], SIZE);
    tui.wait_for("blast");
    tui.read_for(Duration::from_secs(5));
    let process = tui.process();
    let (cpu, wakes) = (process.cpu(), process.wakes());
    let span = Duration::from_secs(30);
    let bytes = tui.read_for(span);
    row(
        7,
        "idle, 1,000 settled tasks: bytes drawn",
        bytes as f64,
        "",
        0.0,
    );
    row(
        7,
        "idle: wake-ups a second",
        (process.wakes() - wakes) / span.as_secs_f64(),
        "",
        2.0,
    );
    row(
        7,
        "idle: CPU seconds a minute",
        (process.cpu() - cpu) / span.as_secs_f64() * 60.0,
        "",
        0.05,
    );
}

const SLOW: &str = "{\"count\":1000000,\"every_ms\":100,\"batch\":1}";

/// Row 8: 100 tasks at 10 events a second each.
fn at_a_pace() {
    let span = Duration::from_secs(10);
    let (mine, other) = duel(
        3,
        || {
            let (env, mut server) = (TestEnv::new(), Server::start());
            let mut tui = on_screen(&env, &mut server, 100, SLOW);
            server.go();
            tui.read_for(Duration::from_secs(2));
            let begin = tui.process().cpu();
            tui.read_for(span);
            tui.process().cpu() - begin
        },
        || {
            let mut server = Server::start();
            let reader = on_scan(&mut server, 100, SLOW);
            server.go();
            pass(Duration::from_secs(2));
            let begin = reader.cpu();
            pass(span);
            reader.cpu() - begin
        },
    );
    say(&format!(
        "       100 tasks at 10 events/s: ours {:.1} % of a core, bare scan {:.1} %",
        mine / span.as_secs_f64() * 100.0,
        other / span.as_secs_f64() * 100.0
    ));
    row(
        8,
        "100 tasks at 10 events/s with the screen on, CPU against the bare scan",
        mine / other,
        " x",
        1.5,
    );
}

/// Row 10: exec to the first frame.
fn first_frame() {
    let env = TestEnv::new();
    env.settled(100);
    let (mine, other) = duel(
        21,
        || env.open(&[], SIZE).wait_for("blast"),
        || env.open_this(&["smallest"], SIZE).wait_for("smallest"),
    );
    say(&format!(
        "       first frame: ours {:.1} ms, the smallest ratatui program {:.1} ms",
        mine * 1e3,
        other * 1e3
    ));
    row(
        10,
        "exec to first frame with 100 saved tasks",
        mine / other,
        " x",
        3.0,
    );
}

/// Row 11: exec to 10,000 missed events replayed and shown.
fn missed() {
    let (mine, other) = duel(
        7,
        || {
            let (env, mut server) = (TestEnv::new(), Server::start());
            // The stream is cut before the call leaves; it is resumed only by the screen, which therefore comes second.
            env.call(&server.url, "{\"count\":1,\"missed\":10000}");
            server.wait_for("open");
            let mut tui = env.open(&[], SIZE);
            tui.wait_for("10k/10k")
        },
        || {
            let (_env, mut server) = (TestEnv::new(), Server::start());
            let mut first =
                Process::this(&["scan", &server.url, "1", "{\"count\":1,\"missed\":10000}"]);
            server.wait_for("open");
            first.kill();
            let begin = now();
            let mut get = Process::this(&["get", &server.url]);
            get.wait_for_line();
            begin.elapsed().as_secs_f64()
        },
    );
    say(&format!(
        "       10,000 missed: ours {:.1} ms, bare GET {:.1} ms",
        mine * 1e3,
        other * 1e3
    ));
    row(
        11,
        "exec to 10,000 missed events shown, against a bare GET",
        mine / other,
        " x",
        2.5,
    );
}

/// Row 12: memory.
fn memory() {
    const CALLS: usize = 1000;
    let arguments = "{\"count\":10}";
    let mut server = Server::start();
    let env = TestEnv::new();
    let mut tui = on_screen(&env, &mut server, CALLS, arguments);
    tui.read_for(Duration::from_secs(2));
    let mine = memory_of(tui.process().pid());
    drop(tui);
    let mut server = Server::start();
    let scan = on_scan(&mut server, CALLS, arguments);
    let other = memory_of(scan.pid());
    let mb = 1024.0 * 1024.0;
    say(&format!(
        "       1,000 live calls: ours {:.1} MB, bare reqwest {:.1} MB",
        mine / mb,
        other / mb
    ));
    row(
        12,
        "memory with 1,000 live calls against bare reqwest",
        mine / other,
        " x",
        1.3,
    );
    let settled = |count: usize| {
        let env = TestEnv::new();
        env.settled(count);
        let mut tui = env.open(&[], SIZE);
        tui.wait_for("blast");
        tui.read_for(Duration::from_secs(2));
        memory_of(tui.process().pid())
    };
    row(
        12,
        "1,000 settled tasks more",
        (settled(1001) - settled(1)) / mb,
        " MB",
        2.0,
    );
}

/// What the screen says while the disk takes nothing.
const NOT_SAVED: &str = "NOT SAVED";

/// Row 13: what saving costs: the share of the thread that writes. What the network thread does for it stays in both.
fn saving() {
    let (env, mut server) = (TestEnv::new(), Server::start());
    let mut tui = on_screen(&env, &mut server, 100, SLOW);
    server.go();
    tui.read_for(Duration::from_secs(2));
    let process = tui.process();
    let (all, journal) = (process.cpu(), process.cpu_of_thread("journal"));
    tui.read_for(Duration::from_secs(10));
    let (all, journal) = (
        process.cpu() - all,
        process.cpu_of_thread("journal") - journal,
    );
    row(
        13,
        "saving: CPU with the saving thread against without it",
        all / (all - journal),
        " x",
        1.1,
    );
    let syncs = test_env::fsyncs(process.pid(), 10, || {
        tui.read_for(Duration::from_secs(10));
    });
    match syncs {
        Some(syncs) => row(13, "saving: fsyncs a second", syncs / 10.0, "", 2.0),
        None => say("row 13 saving: fsyncs a second: not measured, there is no strace"),
    }
    drop(tui);
    let (env, mut server) = (TestEnv::that_can_fail(), Server::start());
    let mut tui = on_screen(&env, &mut server, 100, FLOOD);
    tui.press("g");
    server.go();
    tui.read_for(Duration::from_secs(2));
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        on.extend(key_times(&mut tui, 200));
        env.fails(true);
        tui.wait_for(NOT_SAVED);
        off.extend(key_times(&mut tui, 200));
        env.fails(false);
        tui.wait_until("saving to go on", |tui| !tui.shows(NOT_SAVED));
    }
    let (on, off) = (quantile(&on, 0.99), quantile(&off, 0.99));
    say(&format!(
        "       key to frame at 50,000 events/s, p99: saving {on:.2} ms, while the disk takes nothing {off:.2} ms"
    ));
    row(
        13,
        "key to frame under row 6's load, p99, saving on against off",
        on / off,
        " x",
        1.5,
    );
}

/// CPU seconds of so many calls that end together, after all of them have begun.
fn cpu_of_ends(calls: usize) -> f64 {
    let (env, mut server) = (TestEnv::new(), Server::start());
    let state = env.path().to_string_lossy().into_owned();
    let mut driver = Process::this(&["calls", &server.url, &calls.to_string(), &state]);
    // Streams that were opened first must not look silent while the last ones open.
    for opened in 1..=calls {
        server.wait_for("open");
        if opened % 1000 == 0 {
            server.tick();
        }
    }
    pass(Duration::from_secs(5));
    let before = driver.cpu();
    server.go();
    driver.wait_for_line();
    driver.end() - before
}

/// Row 15: calls that end together cost each what they cost alone.
fn ends_together() {
    // A single run of either can cost twice as much as the next.
    let of_three = |calls| median(&[(); 3].map(|()| cpu_of_ends(calls)));
    let (few, many) = (of_three(1000), of_three(10_000));
    say(&format!(
        "       CPU of calls that end together: 1,000 {few:.2} s, 10,000 {many:.2} s"
    ));
    row(
        15,
        "10,000 calls that end together against ten times 1,000, CPU",
        many / (10.0 * few),
        " x",
        1.5,
    );
}
