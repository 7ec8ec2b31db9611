//! `longhaul`: long-running MCP tool calls from a terminal. Start one, watch it, lose the network, close the laptop, kill
//! the terminal, come back from another one: the call is still there, with its progress, its log and its result.
//!
//! Everything is in the library; see `longhaul::run` for the way in and the head of the crate for the map.

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul::term::guard::install_panic_hook();
    let mut out = longhaul::term::interruptible::InterruptibleWriter::new(std::io::stdout().lock());
    longhaul::run(std::env::args_os(), &mut out)
}
