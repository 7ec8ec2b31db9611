//! A test that needs a process for itself.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::process::Command;

/// Set in the process of such a test.
const ALONE: &str = "LONGHAUL_TEST_ALONE";

/// Runs the calling test again in a process where no other test runs, and tells whether that was done here; in the new
/// process it was not. `name` is the whole name of the test, as `-- --list` shows it.
///
/// For a test that looks at the process itself, and for one that closes a lock or a port and takes it again at once: while
/// another test starts a child, that child holds them too for a moment.
#[expect(clippy::print_stdout, reason = "what the test printed")]
pub(crate) fn ran_alone(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return false;
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
    true
}
