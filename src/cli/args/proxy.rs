//! The arguments of `proxy`.

use clap::Args;

use crate::{
    cli::arg_values::one_of,
    domain::{OnCancel, PatienceChoice},
};

/// `proxy`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ProxyArgs {
    /// The server: a name from `longhaul servers list`, or a URL.
    pub(in crate::cli) server: String,
    /// How long to hold a call before the host gets a ticket, such as 45s; `off` holds the call until it ends [default: 80% of
    /// the host's timeout, or 50s if that is unknown].
    #[arg(long, value_name = "TIME", value_parser = PatienceChoice::parse)]
    pub(in crate::cli) patience: Option<PatienceChoice>,
    /// What a cancellation from the host does: `continue` ignores it, `stop` cancels the call, and `timeout-continues` ignores
    /// a timeout and obeys a person; if the host doesn't say which it was, longhaul cancels the call after 30 s [default:
    /// timeout-continues]
    #[arg(long, value_name = "WHAT", value_parser = one_of::<OnCancel>())]
    pub(in crate::cli) on_cancel: Option<OnCancel>,
}

/// `wrap` and `unwrap`.
#[derive(Debug, Args)]
pub(in crate::cli) struct WrapArgs {
    /// The agent host: claude-code, claude-desktop, codex, cursor, vscode, gemini, goose, zed or opencode; without it, only
    /// list the servers.
    #[arg(value_name = "AGENT_HOST")]
    pub(in crate::cli) agent_host: Option<String>,
    /// Servers to change, by their names in the host's configuration [default: all]
    pub(in crate::cli) servers: Vec<String>,
    /// List the servers of the host, or of all hosts, and change nothing.
    #[arg(long)]
    pub(in crate::cli) list: bool,
    /// Change the files without asking.
    #[arg(long, short)]
    pub(in crate::cli) yes: bool,
}
