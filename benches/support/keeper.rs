//! Rows 16 to 20: what the keeper costs. Times are by the clock on the wall.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    time::Duration,
};

use crate::{
    FLOOD, key_times, on_screen,
    support::{duel, memory_of, now, pass, quantile, row, say},
    test_env::{Process, Server, TestEnv},
};

/// A call that is quiet after its first event.
const QUIET: &str = "{\"count\":1000000,\"every_ms\":100000,\"batch\":1}";

/// The seconds that a command takes.
fn time_of(env: &TestEnv, arguments: &[&str]) -> f64 {
    let begin = now();
    env.start(arguments).end();
    begin.elapsed().as_secs_f64()
}

/// Row 16: what starting a keeper adds to a command, and what a command costs with one.
pub(crate) fn start() {
    let server = Server::start();
    let tools = ["-s", &server.url, "tools"];
    let (alone, kept) = (TestEnv::new(), TestEnv::with_keeper());
    for env in [&alone, &kept] {
        time_of(env, &tools);
    }
    let (with_start, without) = duel(
        31,
        || {
            kept.start(&["keeper", "stop"]).end();
            time_of(&kept, &tools)
        },
        || time_of(&alone, &tools),
    );
    let what = "a command that starts a keeper, against one without a keeper: more time";
    row(16, what, (with_start - without) * 1e3, " ms", 25.0);
    let (through, without) = duel(31, || time_of(&kept, &tools), || time_of(&alone, &tools));
    let what = "a command with a running keeper, against one without a keeper";
    row(16, what, through / without, " x", 1.2);
    say(&format!(
        "       tools: starts a keeper {:.1} ms, uses one {:.1} ms, without one {:.1} ms",
        with_start * 1e3,
        through * 1e3,
        without * 1e3
    ));
}

/// Row 17: 50 calls at once on a fresh state directory, in `LONGHAUL_ROUNDS` rounds.
pub(crate) fn many_at_once() {
    #[expect(clippy::disallowed_methods, reason = "a switch of this benchmark")]
    let rounds = std::env::var("LONGHAUL_ROUNDS").map_or(200, |rounds| rounds.parse().unwrap());
    let (mut keepers, mut results, mut wrong) = (0, 0, 0);
    let begin = now();
    for _ in 0..rounds {
        let mut server = Server::start();
        server.go();
        let env = TestEnv::with_keeper();
        let words = ["-s", &server.url, "call", "--detach", "blast", "count:=3"];
        let calls: Vec<_> = (0..50).map(|_| env.start(&words)).collect();
        let ids: Vec<String> = calls.into_iter().map(Process::output).collect();
        let ids: Vec<&str> = ids.iter().map(|id| id.trim()).collect();
        env.start(&[&["-q", "wait"][..], &ids].concat()).end();
        let completed = env.completed();
        results += completed;
        wrong += usize::from(completed != 50);
        let log = env.start(&["keeper", "log"]).output();
        keepers += log.matches("this session has a driver").count();
        env.start(&["keeper", "stop"]).end();
    }
    say(&format!(
        "       {rounds} rounds in {:.0} s: {keepers} keepers, {results} results",
        begin.elapsed().as_secs_f64()
    ));
    let what = "50 calls at once on a fresh state: rounds with other than 50 results";
    row(17, what, wrong as f64, "", 0.0);
    let what = "keepers a round";
    row(17, what, keepers as f64 / f64::from(rounds), "", 1.0);
}

/// Row 18: wake-ups and memory with nothing to do.
pub(crate) fn idle() {
    let env = TestEnv::with_keeper();
    env.settled(1000);
    let server = Server::start();
    // The keeper of a command that is over exits after 10 s; this is measured before.
    env.start(&["-s", &server.url, "tools"]).end();
    let keeper = env.keeper();
    pass(Duration::from_secs(1));
    let wakes = keeper.wakes();
    let span = Duration::from_secs(7);
    pass(span);
    let per_second = (keeper.wakes() - wakes) / span.as_secs_f64();
    row(
        18,
        "1,000 settled tasks: wake-ups a second",
        per_second,
        "",
        0.0,
    );
    let memory = memory_of(keeper.pid()) / 1e6;
    row(18, "1,000 settled tasks: memory", memory, " MB", 20.0);

    let (env, mut server) = (TestEnv::with_keeper(), Server::start());
    server.go();
    for _ in 0..100 {
        env.call(&server.url, QUIET);
    }
    let keeper = env.keeper();
    // A silent stream is requested again after 20, 25, 35, 55 and 95 s, then once a minute. This is about the latter.
    pass(Duration::from_secs(170));
    let wakes = keeper.wakes();
    let span = Duration::from_secs(120);
    pass(span);
    let per_second = (keeper.wakes() - wakes) / span.as_secs_f64();
    row(
        18,
        "100 quiet calls: wake-ups a second",
        per_second,
        "",
        2.0,
    );
    let memory = memory_of(keeper.pid()) / 1e6;
    row(18, "100 quiet calls: memory", memory, " MB", 45.0);
}

/// Row 19: key to frame as a client of a keeper, against the screen that drives.
pub(crate) fn keys() {
    let p99 = |env: TestEnv| {
        let mut server = Server::start();
        let mut tui = on_screen(&env, &mut server, 100, FLOOD);
        // To the top, so that the cursor has room to move.
        tui.press("g");
        server.go();
        tui.read_for(Duration::from_secs(2));
        let times = key_times(&mut tui, 300);
        quantile(&times, 0.99)
    };
    let (client, driver) = duel(3, || p99(TestEnv::with_keeper()), || p99(TestEnv::new()));
    say(&format!(
        "       key to frame at 50,000 events/s, p99: client {client:.1} ms, driver {driver:.1} ms"
    ));
    let what = "key to frame under load as a client, p99 against the screen that drives";
    row(19, what, client / driver, " x", 1.3);
}

/// Row 20: what 200 other clients cost those who use the session.
pub(crate) fn many_clients() {
    let (env, mut server) = (TestEnv::with_keeper(), Server::start());
    server.go();
    env.call(&server.url, QUIET);
    let p99 = |arguments: &[&str]| {
        let times: Vec<f64> = (0..300).map(|_| time_of(&env, arguments)).collect();
        quantile(&times, 0.99) * 1e3
    };
    let read = ["-s", &server.url, "tools"];
    let saved = ["-s", &server.url, "call", "--detach", "blast"];
    for (what, arguments) in [("a command", &read[..]), ("a saved call", &saved[..])] {
        let beside = || {
            let clients = other_clients(&env);
            let figure = p99(arguments);
            drop(clients);
            figure
        };
        let (during, alone) = duel(5, beside, || p99(arguments));
        say(&format!(
            "       {what}, p99: {alone:.1} ms alone, {during:.1} ms beside 200 clients"
        ));
        let what = format!("{what} beside 200 clients, p99 against alone");
        row(20, &what, during / alone, " x", 1.2);
    }
}

/// 200 clients that are silent, read nothing, send garbage or are gone.
fn other_clients(env: &TestEnv) -> Vec<UnixStream> {
    let hello = |stream: &mut UnixStream| {
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap())
            .read_line(&mut line)
            .unwrap();
        stream.write_all(line.as_bytes()).unwrap();
    };
    let client = |number| {
        let mut stream = UnixStream::connect(env.socket()).unwrap();
        match number % 4 {
            // Silent from the start.
            0 => {}
            // A client that reads nothing.
            1 => hello(&mut stream),
            2 => stream.write_all(b"{\"gar\xffbage\n").unwrap(),
            _ => {
                hello(&mut stream);
                stream.shutdown(std::net::Shutdown::Both).unwrap();
            }
        }
        stream
    };
    (0..200).map(client).collect()
}
