//! `longhaul` runs long MCP tool calls from a terminal. Calls survive network drops, a closed laptop or a killed
//! terminal: reopen longhaul and the call is still there, with its progress, log and result.
//!
//! All code is in the library crate: `longhaul::run` is the entry point, and `src/lib.rs` starts with an overview.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul::term::guard::install_panic_hook();
    let mut out = longhaul::term::interruptible::InterruptibleWriter::new(std::io::stdout().lock());
    longhaul::run(std::env::args_os(), &mut out)
}
