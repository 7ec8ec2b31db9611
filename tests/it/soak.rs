//! Many calls, a network that is cut again and again, and one screen over all of it.
//!
//! `cargo test` does a short run. The long one says once a minute what it costs:
//! `LONGHAUL_SOAK_MINUTES=40 cargo test --release --test it soak:: -- --nocapture`.
#![cfg(feature = "demo")]

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use crate::support::proxy::FaultProxy;
use crate::support::pty::{TestEnv, Tui};
use longhaul::{
    domain::{HistoryEvent, Progress, Status, TaskId},
    store::{Lookup, Paths, Reader},
};

/// What a run is to be.
struct Plan {
    calls: usize,
    steps: u32,
    step_ms: u32,
    /// The longest time between two cuts, and the longest of a cut, in milliseconds.
    cuts_ms: (u64, u64),
    /// How often a line with the figures is printed.
    every: Duration,
}

impl Plan {
    fn told() -> Self {
        #[expect(clippy::disallowed_methods, reason = "a test's own switch")]
        let minutes = std::env::var("LONGHAUL_SOAK_MINUTES");
        match minutes.ok().and_then(|minutes| minutes.parse::<u32>().ok()) {
            Some(minutes) => Self {
                calls: 100,
                steps: minutes * 60,
                step_ms: 1000,
                cuts_ms: (60_000, 4000),
                every: Duration::from_secs(60),
            },
            None => Self {
                calls: 40,
                steps: 80,
                step_ms: 100,
                cuts_ms: (500, 100),
                every: Duration::from_secs(1),
            },
        }
    }
}

/// What the program costs at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    rss_kb: u64,
    cpu_ms: u64,
    file_kb: u64,
    log_kb: u64,
}

impl Cost {
    fn of(tui: &Tui, db: &Path) -> Self {
        let pid = tui.pid().as_raw_nonzero();
        // Other systems than Linux tell these otherwise; there they stay 0.
        let of_proc = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        let status = of_proc("status").unwrap_or_default();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let stat = of_proc("stat").unwrap_or_default();
        let of_stat = |place| -> u64 {
            let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
            let field = fields.split(' ').nth(place).unwrap_or_default();
            field.parse().unwrap_or(0)
        };
        let kb = |path: &Path| fs::metadata(path).map_or(0, |found| found.len() / 1024);
        Self {
            rss_kb: rss
                .and_then(|rss| rss.trim().strip_suffix(" kB")?.parse().ok())
                .unwrap_or(0),
            // Told in hundredths of a second.
            cpu_ms: 10 * (of_stat(11) + of_stat(12)),
            file_kb: kb(db),
            log_kb: kb(&db.with_extension("db-wal")),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long it ran is a figure here"
)]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn many_calls_under_many_cuts_complete_without_growth() {
    let plan = Plan::told();
    let env = TestEnv::serving();
    let proxy = FaultProxy::start(env.server_addr());
    let url = format!("http://{}/mcp", proxy.addr());
    let server = ["--session", "demo", "-s", &url, "--protocol", "2025-06-18"];
    let mut tui = env.open(&server, (120, 36));
    tui.wait_for("longhaul demo");
    let steps = format!("steps={}", plan.steps);
    let step_ms = format!("step_ms={}", plan.step_ms);
    let ids: Vec<String> = (0..plan.calls)
        .map(|_| {
            tui.watch_for(Duration::ZERO);
            env.call_on(&url, &["crunch", &steps, &step_ms])
        })
        .collect();

    let paths = Paths::resolve(Some(env.path().to_owned()), "demo").unwrap();
    let mut rng = fastrand::Rng::with_seed(20_261_121);
    let (begin, mut cuts, mut first, mut last) = (now(), 0, None, Cost::default());
    let mut told = begin;
    while !tui.text().contains(" 0 running") {
        tui.watch_for(Duration::from_millis(rng.u64(0..plan.cuts_ms.0)));
        proxy.cut();
        tui.watch_for(Duration::from_millis(rng.u64(0..plan.cuts_ms.1)));
        proxy.heal();
        cuts += 1;
        if told.elapsed() >= plan.every {
            told = now();
            last = Cost::of(&tui, &paths.db());
            first.get_or_insert(last);
            println!(
                "{:5} s, {cuts} cuts: {} kB of memory, {} ms of CPU, {} kB of file and {} kB of its log",
                begin.elapsed().as_secs(),
                last.rss_kb,
                last.cpu_ms,
                last.file_kb,
                last.log_kb
            );
        }
    }
    tui.press("\u{3}\u{3}");
    assert_eq!(tui.end().0, 0);

    let mut reader = Reader::open(&paths).unwrap();
    let whole: Vec<f64> = (1..=plan.steps).map(f64::from).collect();
    for id in &ids {
        let Lookup::One(task) = reader.task(id).unwrap() else {
            panic!("{id} is gone");
        };
        assert_eq!(task.status, Status::Completed, "{task:#?}");
        let id = TaskId::parse(id).unwrap();
        let history = reader.history(&id, 0, usize::MAX).unwrap();
        let seen: Vec<f64> = history
            .iter()
            .filter_map(|entry| match entry.what {
                HistoryEvent::Progress(Progress { value, .. }) => Some(value),
                _ => None,
            })
            .collect();
        assert_eq!(seen, whole, "{id}");
    }
    assert_eq!(proxy.calls("tools/call"), plan.calls, "each ran once");
    assert!(cuts > 3, "{cuts}");
    let first = first.unwrap();
    let (grown, at_most) = (last.rss_kb.saturating_sub(first.rss_kb), first.rss_kb / 2);
    assert!(grown <= at_most, "memory grew from {first:?} to {last:?}");
    // The log of the file is folded back into it again and again, however long it is written to.
    assert!(last.log_kb <= 16 * 1024, "{last:?}");
}
