//! Calls whose connection is ended at every byte of its answer, by real HTTP through the fault proxy.
//!
//! A plain `cargo test` ends it at one byte in some; `LONGHAUL_EVERY_BYTE=1` at all of them.
#![cfg(feature = "demo")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::time::Duration;

use crate::support::{
    demo_server,
    proxy::FaultProxy,
    server,
    wire::{self, Ran},
};
use futures_util::{StreamExt as _, stream};
use longhaul::domain::{HistoryEntry, HistoryEvent, LinkRecord, Status, UnknownReason};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};

/// One byte in so many, unless all are asked for.
const STRIDE: usize = 8;
/// Calls at a time: they mostly wait for the half second that the server asks for before a stream is asked for again.
const AT_ONCE: usize = 64;
/// How much faster than the world's the clock of the machine runs.
const SPEED: u32 = 8;
/// A stream that is silent for this long is asked for again beside its connection.
const SILENCE: Duration = Duration::from_secs(20);
const BURST: &str = r#"{"count":20}"#;
/// Each of these tests holds some 500 connections open, and a process may often have 1024: they take turns.
static TURN: Mutex<()> = Mutex::const_new(());

struct Bench {
    dir: tempfile::TempDir,
    _server: demo_server::DemoServer,
    proxy: FaultProxy,
    /// The server as it is known after a handshake, which all calls share.
    record: LinkRecord,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    async fn new() -> Self {
        let turn = TURN.lock().await;
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("demo");
        let server = tokio::task::spawn_blocking(|| server::demo(at))
            .await
            .unwrap();
        let proxy = FaultProxy::start(server.addr());
        let url = format!("http://{}/mcp", proxy.addr());
        let record = wire::run(wire::unknown(&url), "send_burst", BURST, 1)
            .await
            .record;
        Self {
            dir,
            _server: server,
            proxy,
            record,
            _turn: turn,
        }
    }

    /// One call under these orders.
    async fn run(&self, orders: &str, tool: &str, arguments: &str) -> Ran {
        let mut record = self.record.clone();
        record.url = format!("http://{}/mcp?{orders}", self.proxy.addr());
        wire::run(record, tool, arguments, SPEED).await
    }

    /// An undisturbed call, and how many bytes its response has with its head.
    async fn whole(&self, tool: &str, arguments: &str) -> (Ran, usize) {
        let before = self.proxy.response_bytes();
        let ran = self.run("", tool, arguments).await;
        let bytes = self.proxy.response_bytes() - before;
        (ran, usize::try_from(bytes).unwrap())
    }

    fn rows(&self, client: &str) -> u64 {
        demo_server::rows(&self.dir.path().join("demo"), client).unwrap()
    }
}

/// The bytes after which a connection ends: `share` makes them fewer still.
fn bytes(of: usize, share: usize) -> impl Iterator<Item = usize> {
    let has_all = std::env::var_os("LONGHAUL_EVERY_BYTE").is_some();
    let stride = if has_all { 1 } else { STRIDE * share };
    (0..of).step_by(stride)
}

fn twenty() -> Vec<f64> {
    (1..=20).map(f64::from).collect()
}

/// A plain call that ended well, whole and once.
fn check_whole(ran: &Ran, words: &str) {
    assert_eq!(ran.task.status, Status::Completed, "{words}: {ran:#?}");
    assert_eq!(ran.steps(), twenty(), "{words}: {ran:#?}");
    assert!(
        ran.result.as_ref().is_some_and(|json| json.contains("20")),
        "{words}: {ran:#?}"
    );
    assert_eq!(ran.calls, 1, "{words}: {ran:#?}");
}

/// Every byte of the answer to a plain call; from the first event id on nothing is lost and nothing runs twice, and before
/// it nobody can know.
async fn a_plain_call(end: &str) {
    let bench = Bench::new().await;
    let (whole, total) = bench.whole("send_burst", BURST).await;
    check_whole(&whole, "undisturbed");
    assert_eq!(whole.gets, 0);
    let runs = stream::iter(bytes(total, 1).map(|byte| {
        let (bench, orders) = (&bench, format!("call={byte}&end={end}"));
        async move { (byte, bench.run(&orders, "send_burst", BURST).await) }
    }));
    let mut runs = runs.buffer_unordered(AT_ONCE);
    let (mut unknown, mut known, mut whole, mut resumed) = (0, usize::MAX, 0, 0);
    while let Some((byte, ran)) = runs.next().await {
        if ran.task.status == Status::Unknown(UnknownReason::BeforeFirstId) {
            unknown = unknown.max(byte);
            assert_eq!((ran.calls, ran.gets), (1, 0), "{ran:#?}");
        } else {
            known = known.min(byte);
            check_whole(&ran, &format!("{end} at byte {byte} of {total}"));
            whole += 1;
            resumed += usize::from(ran.gets > 0);
            // No way of cutting a chunked body looks like its end.
            let is_cut = |entry: &&HistoryEntry| matches!(&entry.what, HistoryEvent::Contact { state, .. } if state == "reconnecting");
            let cuts = ran.history.iter().filter(is_cut).count();
            // On a busy machine, this clock sees silences that are long enough to ask again.
            let mut pairs = ran.history.iter().zip(ran.history.iter().skip(1));
            let was_silent = pairs.any(|(one, next)| next.at.since(one.at) >= SILENCE);
            let is_right = (cuts > 0) == (ran.gets > 0) || was_silent && cuts == 0;
            assert!(is_right, "{end} at byte {byte}: {ran:#?}");
        }
    }
    assert!(unknown < known && known < 500, "{unknown} and {known}");
    // An answer in fewer chunks is shorter, and may end before its cut.
    assert!(resumed * 4 > whole * 3, "{resumed} of {whole} were cut");
}

#[tokio::test]
async fn a_plain_call_reset_at_any_byte_returns_its_result_once() {
    a_plain_call("rst").await;
}

#[tokio::test]
async fn a_plain_call_closed_at_any_byte_returns_its_result_once() {
    a_plain_call("fin").await;
}

#[tokio::test]
async fn a_checkpoint_tool_cut_at_any_byte_writes_each_row_once() {
    const TOOL: &str = "resumable_data_processing";
    let bench = Bench::new().await;
    let bench = &bench;
    let arguments = |client: &str| {
        json!({"dataset_name": "eu", "total_records": 20, "batch_size": 1, "delay_ms": 1, "client_id": client})
            .to_string()
    };
    let (whole, total) = bench.whole(TOOL, &arguments("whole")).await;
    check_whole(&whole, "undisturbed");
    let whole = &whole;
    let runs = stream::iter(bytes(total, 4).enumerate().map(|(place, byte)| {
        let end = ["rst", "fin"][place % 2];
        let (orders, client) = (format!("call={byte}&end={end}"), format!("at-{byte}"));
        let arguments = arguments(&client);
        async move {
            let ran = bench.run(&orders, TOOL, &arguments).await;
            let words = format!("{end} at byte {byte} of {total}");
            assert_eq!(bench.rows(&client), 20, "{words}: {ran:#?}");
            assert_eq!(ran.task.status, Status::Completed, "{words}: {ran:#?}");
            let has_ids = ran.history.iter().any(|entry| entry.event_id.is_some());
            if has_ids && byte > 500 {
                check_whole(&ran, &words);
                let (mut logs, mut all) = (ran.logs(), whole.logs());
                logs.sort_unstable();
                all.sort_unstable();
                assert_eq!(logs.len(), all.len(), "{words}: {ran:#?}");
            }
        }
    }));
    runs.buffer_unordered(AT_ONCE).for_each(|()| async {}).await;
}

#[tokio::test]
async fn resumed_streams_that_end_again_and_again_bring_every_step() {
    let bench = Bench::new().await;
    let bench = &bench;
    let mut rng = fastrand::Rng::with_seed(11);
    let draws: Vec<(usize, usize, &str)> = (0..60)
        .map(|_| {
            let end = if rng.bool() { "rst" } else { "fin" };
            (rng.usize(450..3000), rng.usize(600..1500), end)
        })
        .collect();
    let runs = stream::iter(draws.into_iter().map(|(call, get, end)| async move {
        let orders = format!("call={call}&get={get}&end={end}");
        let ran = bench.run(&orders, "send_burst", BURST).await;
        check_whole(&ran, &orders);
        ran.gets
    }));
    let gets: Vec<usize> = runs.buffer_unordered(AT_ONCE).collect().await;
    assert!(gets.iter().any(|gets| *gets >= 3), "{gets:?}");
}

#[tokio::test]
async fn buffering_and_splitting_proxies_change_nothing() {
    let bench = Bench::new().await;
    for hold in [2, 300, 1200, 100_000] {
        let words = format!("hold={hold}");
        check_whole(&bench.run(&words, "send_burst", BURST).await, &words);
    }
    for piece in [1, 2, 7] {
        bench.proxy.chunk(piece);
        let words = format!("pieces of {piece}");
        check_whole(&bench.run("call=1800", "send_burst", BURST).await, &words);
    }
}
