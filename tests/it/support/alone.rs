//! A test that needs a process for itself.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::process::Command;

/// Set in the process of such a test.
const ALONE: &str = "LONGHAUL_TEST_ALONE";

/// Runs the test in a process where no other test runs. `name` is its whole name, as `-- --list` shows it.
#[expect(clippy::print_stdout, reason = "what the test printed")]
pub(crate) fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        test();
        return;
    }
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    let err = String::from_utf8_lossy(&ran.stderr);
    println!("{out}");
    assert!(
        ran.status.success() && out.contains("test result: ok. 1 passed"),
        "{name} in its own process: {}\n{out}{err}",
        ran.status
    );
}
