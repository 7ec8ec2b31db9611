//! What a first `cargo run --release -- demo` costs, and how large the binary for other people is.
//!
//! `cargo bench --bench build`. It builds everything twice into a directory of its own and takes minutes; the time is wall
//! time, so the machine should have nothing else to do.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

#[path = "support/mod.rs"]
mod support;

use std::{path::Path, process::Command};

use support::{now, row};

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let begin = now();
    build("release", dir.path());
    let minutes = begin.elapsed().as_secs_f64() / 60.0;
    row(14, "a cold release build", minutes, " minutes", 3.5);
    build("dist", dir.path());
    let binary = dir.path().join("dist/longhaul");
    let size = std::fs::metadata(binary).unwrap().len();
    row(
        14,
        "the binary for distribution, with the demo",
        size as f64 / 1e6,
        " MB",
        18.0,
    );
}

fn build(profile: &str, target: &Path) {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success());
}
