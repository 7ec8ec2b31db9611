//! What an era and a way to come back are worth: one long tool in every way, under every trouble (design.md 5).
//!
//! The real binary, real HTTP through a proxy that breaks it, the demo server and servers written by hand.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, its helpers too"
)]

mod support;

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use longhaul::{
    demo::{self, Fault},
    domain::{LinkRecord, LinkState, News, Price},
    engine::{Clock, Options, Session},
    store::{Paths, Reader},
};
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{
    program::{Ran, Running, program, run},
    proxy::FaultProxy,
};
use tempfile::TempDir;

/// Longer than anything takes on a busy machine; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// The demo server in this process behind a proxy, and a state directory.
struct Bench {
    dir: TempDir,
    _server: demo::Server,
    proxy: FaultProxy,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = demo::Options {
            dir: dir.path().join("demo"),
            port: None,
            cross_stream_replay: false,
            idle_exit: None,
        };
        let server = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(demo::serve(options))
            .unwrap();
        let proxy = FaultProxy::start(server.addr());
        Self {
            dir,
            _server: server,
            proxy,
        }
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn demo_dir(&self) -> PathBuf {
        self.dir.path().join("demo")
    }

    fn break_it(&self, fault: Fault) {
        demo::control(&self.demo_dir(), fault).unwrap();
    }

    /// Starts a call and follows it until its server has shown a few steps; gives the task's id too.
    fn begin(&self, way: Way) -> (Running, String) {
        let url = format!("http://{}/mcp", self.proxy.addr());
        let mut arguments = vec!["-s", &url, "--json"];
        arguments.extend(way.revision().into_iter().flat_map(|it| ["--protocol", it]));
        arguments.push("call");
        arguments.extend(way.call());
        let mut client = Running::start(&mut program(&self.state(), &arguments));
        let started = client.prints(|event| event["event"] == "started");
        client.prints(has_stepped);
        (client, started["id"].as_str().unwrap().to_owned())
    }

    fn show(&self, id: &str) -> Value {
        run(&self.state(), &["show", id, "--json"]).document()
    }

    fn link(&self) -> LinkRecord {
        Reader::open(&paths(&self.state()))
            .unwrap()
            .links()
            .unwrap()
            .remove(0)
    }

    /// Waits until the client that drives has found the server unreachable so many times.
    fn wait_for_tries(&self, wanted: u32) {
        let follower = Session::open(Options {
            paths: paths(&self.state()),
            servers: Vec::new(),
            protocol: None,
            seed: 7,
            clock: Clock::start(),
            die_after: None,
            panic_in: None,
        });
        let news = follower.subscribe();
        let wait = async {
            loop {
                for news in news.take() {
                    if let News::Server(view) = news
                        && let LinkState::Down { tries, .. } = view.state
                        && tries >= wanted
                    {
                        return;
                    }
                }
                news.changed().await;
            }
        };
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(async { tokio::time::timeout(DEADLINE, wait).await })
            .unwrap();
        follower.close();
    }
}

fn paths(state: &Path) -> Paths {
    Paths::resolve(Some(state.to_owned()), "default").unwrap()
}

/// A step of a stream, or of a server task, whose steps are words.
fn has_stepped(event: &Value) -> bool {
    let words = event["reason"].as_str().unwrap_or_default();
    event["event"] == "progress" && event["value"].as_u64() >= Some(2)
        || event["event"] == "status" && words.contains("step ")
}

/// The ways that a long tool can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A stream whose events have ids.
    Stream,
    /// A checkpoint under such a stream.
    CheckpointOnStream,
    /// A checkpoint under a call that a disconnect cancels.
    CheckpointOnCall,
    /// A task of 2025-11-25.
    CoreTask,
    /// A task of the extension.
    ExtensionTask,
    /// A call that a disconnect cancels.
    ModernCall,
}

/// What becomes of a long tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Every connection is reset, and the next works.
    ShortCut,
    /// Connections are refused until several tries have failed and the work has ended without us.
    LongCut,
    /// The client is killed, and comes back.
    Kill,
    /// The server is killed, and comes back.
    Restart,
}

impl Way {
    const ALL: [Self; 6] = [
        Self::Stream,
        Self::CheckpointOnStream,
        Self::CheckpointOnCall,
        Self::CoreTask,
        Self::ExtensionTask,
        Self::ModernCall,
    ];

    fn revision(self) -> Option<&'static str> {
        match self {
            Self::Stream | Self::CheckpointOnStream => Some("2025-06-18"),
            // What is chosen where the server offers tasks.
            Self::CheckpointOnCall => None,
            Self::CoreTask => Some("2025-11-25"),
            Self::ExtensionTask | Self::ModernCall => Some("2026-07-28"),
        }
    }

    fn call(self) -> Vec<&'static str> {
        match self {
            Self::CheckpointOnStream | Self::CheckpointOnCall => vec![
                "resumable_data_processing",
                "dataset_name=d",
                "total_records=60",
                "batch_size=2",
                "delay_ms=120",
            ],
            Self::ExtensionTask => vec!["crunch", "steps=24", "step_ms=150", "as_task=true"],
            _ => vec!["crunch", "steps=24", "step_ms=150"],
        }
    }

    fn has_checkpoint(self) -> bool {
        matches!(self, Self::CheckpointOnStream | Self::CheckpointOnCall)
    }

    /// The table of design.md 5: what leaving is.
    fn price(self) -> &'static str {
        match self {
            // A server that was not seen to keep a task over its sessions may end it with them.
            Self::Stream | Self::CoreTask => "likely",
            Self::CheckpointOnStream | Self::CheckpointOnCall | Self::ExtensionTask => "safe",
            Self::ModernCall => "DIES",
        }
    }

    /// The table of design.md 5: the status at the end, and words of its reason.
    fn outcome(self, trouble: Trouble) -> (&'static str, &'static str) {
        match (self, trouble) {
            (Self::ModernCall, _) => ("lost", "which cancels a plain call in MCP 2026-07-28"),
            (Self::Stream, Trouble::Restart) => ("lost", "session"),
            _ => ("completed", ""),
        }
    }
}

fn cell(way: Way, trouble: Trouble) {
    let bench = Bench::new();
    let state = bench.state();
    let (mut client, id) = bench.begin(way);
    let before = bench.show(&id);
    assert_eq!(before["leaving"], way.price(), "{before:#}");
    let link = bench.link();
    let tool = link.tools.iter().find(|tool| before["tool"] == tool.name);
    let next = Price::of_call(tool.unwrap(), &link.tools, &link.footing());
    assert_eq!(
        next.word(),
        way.price(),
        "a new call costs the same: {next:?}"
    );

    let ran = match trouble {
        Trouble::ShortCut | Trouble::LongCut => {
            bench.proxy.cut();
            client.prints(|event| event["contact"] == "reconnecting");
            if trouble == Trouble::LongCut && way != Way::ModernCall {
                bench.wait_for_tries(4);
            }
            bench.proxy.heal();
            client.end()
        }
        Trouble::Restart => {
            bench.break_it(Fault::Restart);
            client.end()
        }
        Trouble::Kill => {
            client.signal(Signal::KILL);
            client.end();
            let alone = bench.show(&id);
            assert_eq!(
                (&alone["contact"], &alone["leaving"]),
                (&json!("unwatched"), &json!(way.price())),
                "{alone:#}"
            );
            run(&state, &["watch", &id, "--json"])
        }
    };

    let after = bench.show(&id);
    let (status, words) = way.outcome(trouble);
    assert_eq!(after["status"], status, "{after:#}\n{ran:#?}");
    assert_eq!(
        ran.code,
        Some(if status == "lost" { 5 } else { 0 }),
        "{ran:#?}"
    );
    let reason = after["reason"].as_str().unwrap_or_default();
    assert!(reason.contains(words), "{after:#}");
    if before["leaving"] == "safe" {
        assert_eq!(status, "completed", "what was called safe is there");
    }
    assert_eq!(before["leaving"] == "DIES", way == Way::ModernCall);

    let whole = run(&state, &["watch", &id, "--json"]);
    assert_whole(way, trouble, &whole);
    let calls = bench.proxy.calls("tools/call");
    if way.has_checkpoint() {
        let client_id = after["client_id"].as_str().unwrap();
        let rows = demo::rows(&bench.demo_dir(), client_id).unwrap();
        assert_eq!(rows, 60, "no record was processed twice");
    } else {
        assert_eq!((calls, &after["attempts"]), (1, &json!(1)), "it ran once");
    }
}

/// Each entry once and in order, one end, and each step once.
fn assert_whole(way: Way, trouble: Trouble, ran: &Ran) {
    let events = ran.events();
    let seqs: Vec<u64> = events
        .iter()
        .map(|it| it["seq"].as_u64().unwrap())
        .collect();
    let count = u64::try_from(seqs.len()).unwrap();
    assert_eq!(seqs, (1..=count).collect::<Vec<_>>(), "{events:#?}");
    let ends = events.iter().filter(|it| it["event"] == "settled").count();
    assert_eq!(ends, 1, "one end: {events:#?}");
    let is_step = |event: &&Value| event["event"] == "progress";
    let steps: Vec<u64> = events
        .iter()
        .filter(is_step)
        .map(|event| event["value"].as_u64().unwrap())
        .collect();
    assert!(steps.is_sorted_by(|a, b| a < b), "{steps:?}");
    if way == Way::Stream && trouble != Trouble::Restart {
        assert_eq!(steps, (1..=24).collect::<Vec<_>>(), "every step is there");
    }
}

/// All ways under one trouble, at once.
fn every_way_under(trouble: Trouble) {
    thread::scope(|scope| {
        for way in Way::ALL {
            let name = format!("{way:?} under {trouble:?}");
            let begin = move || cell(way, trouble);
            thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, begin)
                .unwrap();
        }
    });
}

#[test]
fn a_short_cut_costs_what_was_said() {
    every_way_under(Trouble::ShortCut);
}

#[test]
fn a_long_cut_costs_what_was_said() {
    every_way_under(Trouble::LongCut);
}

#[test]
fn a_kill_of_the_client_costs_what_was_said() {
    every_way_under(Trouble::Kill);
}

#[test]
fn a_restart_of_the_server_costs_what_was_said() {
    every_way_under(Trouble::Restart);
}

/// A server task whose polls come to nothing for a while.
fn followed_through(way: Way, trouble: impl FnOnce(&Bench, &mut Running)) -> Vec<Value> {
    let bench = Bench::new();
    let (mut client, id) = bench.begin(way);
    trouble(&bench, &mut client);
    let ran = client.end();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(bench.show(&id)["status"], "completed");
    assert_eq!(bench.proxy.calls("tools/call"), 1, "it ran once");
    let whole = run(&bench.state(), &["watch", &id, "--json"]);
    assert_whole(way, Trouble::ShortCut, &whole);
    whole.events()
}

const TASKS: [Way; 2] = [Way::CoreTask, Way::ExtensionTask];

#[test]
fn a_task_is_followed_through_polls_that_are_refused_with_503() {
    for way in TASKS {
        let events = followed_through(way, |bench, client| {
            bench.break_it(Fault::FailPolls { seconds: 3 });
            client.prints(|event| event["contact"] == "reconnecting");
        });
        let is_said = |event: &Value| event["why"].as_str().is_some_and(|why| why.contains("503"));
        assert!(events.iter().any(is_said), "{events:#?}");
    }
}

#[test]
fn a_task_is_followed_through_refused_connections() {
    for way in TASKS {
        followed_through(way, |bench, client| {
            bench.proxy.cut();
            client.prints(|event| event["contact"] == "reconnecting");
            // The waits between them are 0.5, 1, 2 and 4 s: about ten seconds without a connection.
            bench.wait_for_tries(5);
            bench.proxy.heal();
        });
    }
}

#[test]
fn a_task_is_followed_through_a_poll_that_hangs() {
    thread::scope(|scope| {
        for way in TASKS {
            scope.spawn(move || followed_through(way, |bench, _| bench.break_it(Fault::HangPoll)));
        }
    });
}
