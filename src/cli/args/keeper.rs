//! The arguments of `keeper`.

use clap::Subcommand;

use super::{help, whole_number};

/// `keeper`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum KeeperArgs {
    /// Show whether a keeper is running, and its process id, version, uptime, unfinished tasks and clients.
    #[command(after_help = help("  longhaul keeper status\n  longhaul keeper status --json"))]
    Status,
    /// Stop the keeper without asking; calls that `longhaul ls` marks LOST are lost.
    #[command(after_help = help("  longhaul keeper stop"))]
    Stop {
        /// Stop it even if it holds changes that could not be saved; they are lost.
        #[arg(long)]
        force: bool,
    },
    /// Print the log of the session's keepers.
    #[command(after_help = help("  longhaul keeper log\n  longhaul keeper log -n 50"))]
    Log {
        /// Only the newest N lines.
        #[arg(short = 'n', value_name = "N", value_parser = whole_number)]
        lines: Option<usize>,
    },
    /// Run a keeper in the foreground, for systemd and containers.
    #[command(after_help = help("  longhaul keeper run\n  longhaul --session nightly keeper run"))]
    Run {
        /// Detach from the terminal and print `ready`, as a client does that starts a keeper.
        #[arg(long, hide = true)]
        background: bool,
        /// Try out the state of a running keeper, and hold it while the keeper becomes this program.
        #[arg(long, hide = true)]
        trial: bool,
        /// Continue the keeper that this program has replaced.
        #[arg(long, hide = true)]
        inherit: bool,
    },
    /// Switch the running keeper to this version of longhaul; its calls and server processes continue.
    ///
    /// The upgrade first waits for calls that would be lost when their connection closes.
    #[command(after_help = help("  longhaul keeper upgrade\n  longhaul keeper upgrade --now --yes"))]
    Upgrade {
        /// Don't wait for calls that would be lost: list them and ask.
        #[arg(long)]
        now: bool,
        /// Don't ask.
        #[arg(long, requires = "now")]
        yes: bool,
        /// Program to switch to, instead of this one.
        #[arg(long, value_name = "PROGRAM")]
        to: Option<std::path::PathBuf>,
    },
    /// Connect stdin and stdout to the keeper, starting one if needed (`--host` runs this over ssh).
    #[command(after_help = help("  longhaul keeper connect"))]
    Connect,
    /// Write a service file that starts the keeper at boot (on macOS: at login), and print the commands that enable it.
    ///
    /// The service is a systemd user service, or a LaunchAgent on macOS.
    #[command(after_help = help("  longhaul keeper install\n  longhaul --session nightly keeper install"))]
    Install,
    /// End server processes whose driver was killed. A driver runs it as its child.
    #[command(hide = true, after_help = help("  longhaul keeper guard"))]
    Guard,
}
