//! The link machine against a seeded model of servers, networks, disks, users and kills: thousands of schedules, each
//! to its end, each held against the promises of the README.
//!
//! `LONGHAUL_SIM_SCHEDULES` sets how many; a failing one prints the line that replays it with its trace.

#[cfg(test)]
#[path = "simulation"]
mod simulation {
    pub(crate) mod clients;
    pub(crate) mod crowd;
    pub(crate) mod file;
    mod rules;
    pub(crate) mod server;
    pub(crate) mod tasks;
    pub(crate) mod world;

    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{
            Mutex,
            atomic::{AtomicU64, Ordering},
        },
    };

    /// Schedules of each of the two tests in a plain `cargo test`.
    const SCHEDULES: u64 = 3_500;

    #[expect(clippy::disallowed_methods, reason = "a test's own switches")]
    fn number(name: &str) -> Option<u64> {
        std::env::var(name).ok()?.parse().ok()
    }

    /// Runs one schedule; a panic counts as a violation.
    fn attempt(seed: u64, is_traced: bool) -> world::Outcome {
        catch_unwind(AssertUnwindSafe(|| world::run(seed, is_traced))).unwrap_or_else(|_| {
            world::Outcome {
                violations: vec!["panicked".to_owned()],
                ..world::Outcome::default()
            }
        })
    }

    #[test]
    fn no_schedule_of_streams_and_sessions_breaks_a_promise() {
        run_from(0);
    }

    #[test]
    fn no_schedule_of_eras_tasks_and_questions_breaks_a_promise() {
        run_from(world::NEWER);
    }

    /// One schedule for each rule that was found broken among more schedules than a plain `cargo test` runs.
    #[test]
    fn schedules_that_broke_a_promise_once_keep_it() {
        for seed in [
            1_000_012_627,
            1_000_022_993,
            1_000_037_852,
            1_000_060_740,
            1_000_061_733,
            1_000_089_852,
            59_720,
            1_000_011_596,
            1_000_092_857,
            64_470,
            1_000_079_719,
            104_196,
            1_000_104_370,
            1_000_112_276,
            1_004_007_086,
            1_004_018_521,
            1_004_041_579,
            5_014_991,
            1_007_005_751,
            6_040_140,
            1_009_205_687,
            9_065_398,
            9_091_372,
            7_029_403,
            9_073_325,
            9_074_989,
            1_009_326_089,
            1_009_329_551,
            1_009_333_251,
            1_005_033_153,
            1_006_042_577,
            9_349_608,
            1_009_316_434,
            9_406_667,
            1_009_422_766,
            1_009_424_384,
            1_009_357_329,
        ] {
            let violations = attempt(seed, false).violations;
            assert!(violations.is_empty(), "{seed}: {violations:?}");
        }
    }

    fn run_from(base: u64) {
        let count = number("LONGHAUL_SIM_SCHEDULES").unwrap_or(SCHEDULES);
        let first = base + number("LONGHAUL_SIM_FIRST").unwrap_or(0);
        let next = AtomicU64::new(first);
        let failures = Mutex::new(Vec::new());
        let tally: Mutex<world::Outcome> = Mutex::default();
        let workers = std::thread::available_parallelism().map_or(2, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= first + count || failures.lock().unwrap().len() >= 10 {
                            break;
                        }
                        let outcome = attempt(seed, false);
                        if let Some(words) = outcome.violations.first() {
                            failures.lock().unwrap().push(format!(
                                "LONGHAUL_SIM_SEED={seed} cargo test --test simulation replay -- --nocapture   # {words}"
                            ));
                        }
                        let mut sums = tally.lock().unwrap();
                        sums.inputs += outcome.inputs;
                        sums.fallen.0 += outcome.fallen.0;
                        sums.fallen.1 += outcome.fallen.1;
                        for (status, times) in outcome.statuses {
                            *sums.statuses.entry(status).or_default() += times;
                        }
                    }
                });
            }
        });
        let tally = tally.into_inner().unwrap();
        let (statuses, inputs) = (tally.statuses, tally.inputs);
        println!("{count} schedules: {statuses:?}, {inputs} inputs");
        // A model whose calls are all refused would keep every promise.
        let completed = statuses.get("completed").copied().unwrap_or(0);
        assert!(
            completed * 2 >= statuses.values().sum::<u32>(),
            "most calls do not complete: {statuses:?}"
        );
        let (fell, is_missing) = tally.fallen;
        println!("{fell} events fell into a replay, {is_missing} never came");
        // A reading that meets a fault of the network too may come to nothing, and they come in clusters: one schedule
        // can have ten.
        assert!(
            is_missing * 10 <= fell + 150,
            "of {fell} events that fell into a replay {is_missing} never came"
        );
        let failures = failures.into_inner().unwrap();
        assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    }

    #[test]
    fn replay() {
        let Some(seed) = number("LONGHAUL_SIM_SEED") else {
            return;
        };
        let outcome = attempt(seed, true);
        for line in &outcome.trace {
            println!("{line}");
        }
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
    }
}
