//! What following a thousand server tasks costs: one minute of simulated time on the bare machine, polls at their pace.

#[path = "../tests/simulation/crowd.rs"]
mod crowd;

use std::time::Instant;

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn main() {
    for (tasks, poll_ms) in [(10, 5000), (100, 5000), (1000, 5000), (1000, 1000)] {
        let began = Instant::now();
        let minute = crowd::minute(tasks, poll_ms);
        let spent = began.elapsed().as_secs_f64();
        let wanted = tasks * 60_000 / poll_ms;
        println!(
            "{tasks} tasks every {poll_ms} ms: {} polls of {wanted}, {} others, {spent:.3} s = {:.1} % of the simulated time",
            minute.polls,
            minute.others,
            spent * 100.0 / (62.0 + poll_ms as f64 / 500.0)
        );
    }
}
