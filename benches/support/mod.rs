//! What every benchmark needs: CPU time, medians of alternated rounds, and a line a figure.
//!
//! Figures are ratios within one run on one machine, so that a slow machine or a busy one does not decide. A line reads
//! `row 1  splitter ...: 1.93 x (reach: at most 2.20)  PASS`.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

/// Ticks of `/proc/PID/stat` in a second, on every Linux of today.
const TICKS: f64 = 100.0;

/// Whether the row was asked for: `cargo bench --bench NAME -- 4 5`; without numbers, all are.
pub(crate) fn is_wanted(row: u32) -> bool {
    let mut asked = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<u32>().ok())
        .peekable();
    asked.peek().is_none() || asked.any(|number| number == row)
}

/// The CPU time that this thread has used, in seconds.
pub(crate) fn thread_cpu() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

/// The CPU time that a process has used, user and system, all its threads; it may be a zombie.
pub(crate) fn cpu_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the name in brackets, which may hold anything.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks = |field: usize| -> f64 {
        let word = after.split_whitespace().nth(field);
        word.and_then(|word| word.parse().ok()).unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / TICKS
}

/// The resident memory of a process in bytes that it shares with nobody.
pub(crate) fn memory_of(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes
        .and_then(|word| word.parse::<f64>().ok())
        .unwrap_or(0.0)
        * 1024.0
}

/// The time by the clock on the wall.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Lets time pass.
#[expect(clippy::disallowed_methods, reason = "a pace has to be kept")]
pub(crate) fn pass(span: Duration) {
    std::thread::sleep(span);
}

/// The middle one.
pub(crate) fn median(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// The figure below which such a part of them lies.
pub(crate) fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len().saturating_sub(1) as f64 * part).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in a short list"
    )]
    sorted.get(place as usize).copied().unwrap_or(f64::NAN)
}

/// Runs both sides in turn, so that what else the machine does falls on both; gives the medians.
pub(crate) fn duel<O, T>(rounds: usize, ours: O, theirs: T) -> (f64, f64)
where
    O: FnMut() -> f64,
    T: FnMut() -> f64,
{
    let (mine, other) = rounds_of(rounds, ours, theirs);
    (median(&mine), median(&other))
}

fn rounds_of<O, T>(rounds: usize, mut ours: O, mut theirs: T) -> (Vec<f64>, Vec<f64>)
where
    O: FnMut() -> f64,
    T: FnMut() -> f64,
{
    let (mut mine, mut other) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        mine.push(ours());
        other.push(theirs());
    }
    (mine, other)
}

/// As [`duel`], giving the least of each: what else a machine does only adds to what a process costs.
pub(crate) fn duel_at_best<O, T>(rounds: usize, ours: O, theirs: T) -> (f64, f64)
where
    O: FnMut() -> f64,
    T: FnMut() -> f64,
{
    let (mine, other) = rounds_of(rounds, ours, theirs);
    let least = |figures: &[f64]| figures.iter().copied().fold(f64::INFINITY, f64::min);
    (least(&mine), least(&other))
}

/// Prints a figure and whether it is within reach.
pub(crate) fn row(number: u32, what: &str, figure: f64, unit: &str, reach: f64) {
    judge(
        number,
        what,
        figure,
        unit,
        "at most",
        reach,
        figure <= reach,
    );
}

/// Prints a figure that has to be large.
pub(crate) fn row_at_least(number: u32, what: &str, figure: f64, unit: &str, reach: f64) {
    judge(
        number,
        what,
        figure,
        unit,
        "at least",
        reach,
        figure >= reach,
    );
}

fn judge(
    number: u32,
    what: &str,
    figure: f64,
    unit: &str,
    bound: &str,
    reach: f64,
    is_reached: bool,
) {
    let verdict = if is_reached { "PASS" } else { "MISS" };
    say(&format!(
        "row {number:<2} {what}: {figure:.2}{unit} (reach: {bound} {reach}{unit})  {verdict}"
    ));
}

/// Prints a line.
pub(crate) fn say(line: &str) {
    // Nobody reads any more: nothing is left to say.
    let _ = writeln!(std::io::stdout(), "{line}");
}

// Each benchmark uses a part of this only; being named here counts as a use of the rest.
const _: () = {
    let _ = (is_wanted, thread_cpu, cpu_of, memory_of, now, pass);
    let _ = (row, row_at_least, quantile, median, say);
    let _ = duel::<fn() -> f64, fn() -> f64>;
    let _ = duel_at_best::<fn() -> f64, fn() -> f64>;
};
