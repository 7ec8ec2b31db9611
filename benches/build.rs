//! What a first `cargo run --release -- demo` costs: the time of a cold build and the size of the binary.
//!
//! `cargo bench --bench build`. It builds everything anew into a directory of its own and takes minutes; the time is that
//! of the wall, so the machine should have nothing else to do.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

#[path = "support/mod.rs"]
mod support;

use std::process::Command;

use support::{now, row};

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let begin = now();
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "--target-dir"])
        .arg(dir.path())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success());
    let minutes = begin.elapsed().as_secs_f64() / 60.0;
    let binary = dir.path().join("release/longhaul");
    let size = std::fs::metadata(binary).unwrap().len();
    row(
        14,
        "the stripped binary with the demo",
        size as f64 / 1e6,
        " MB",
        16.0,
    );
    row(14, "a cold release build", minutes, " minutes", 5.0);
}
