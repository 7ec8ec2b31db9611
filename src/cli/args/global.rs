//! The options that every command takes.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::{
    cli::arg_values::{GLOBAL, one_of},
    config::{Header, header},
    domain::{ColorChoice, ProtocolChoice},
};

/// The options that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = GLOBAL)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "command-line flags are independent of each other"
)]
pub(in crate::cli) struct GlobalArgs {
    /// Server to use: its name or URL.
    #[arg(short, long = "server", value_name = "NAME|URL", value_hint = ValueHint::Other, global = true)]
    pub(in crate::cli) server: Vec<String>,
    /// Session to use [default: default]
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other, global = true)]
    pub(in crate::cli) session: Option<String>,
    // Read without clap's `env`, which would show it as required in every usage line.
    /// Directory for sessions, sign-ins and logs [env: LONGHAUL_STATE_DIR]
    #[arg(long, value_name = "DIR", global = true)]
    pub(in crate::cli) state_dir: Option<PathBuf>,
    /// Use the session on MACHINE, through ssh (any name that ssh accepts); empty means the local machine [env: LONGHAUL_HOST]
    #[arg(long, value_name = "MACHINE", value_hint = ValueHint::Hostname, global = true)]
    pub(in crate::cli) host: Option<String>,
    /// Print JSON: one document; `call`, `again`, `watch`, `logs`, `wait`, `pause`, `resume`, `cancel`, `adopt` and `trace` print one object per line.
    #[arg(long, global = true)]
    pub(in crate::cli) json: bool,
    // No default here, because the configuration can set one.
    /// When to use color [default: auto]
    #[arg(long, value_name = "WHEN", value_parser = one_of::<ColorChoice>(), global = true)]
    pub(in crate::cli) color: Option<ColorChoice>,
    /// Use only ASCII characters on the screen.
    #[arg(long, global = true)]
    pub(in crate::cli) ascii: bool,
    /// Disable animations.
    #[arg(long, global = true)]
    pub(in crate::cli) no_motion: bool,
    /// Write a log file for the session; repeat for more detail.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(in crate::cli) verbose: u8,
    /// Print only data and errors, no progress or notes.
    #[arg(short, long, global = true)]
    pub(in crate::cli) quiet: bool,
    /// Refuse anything that would change tasks, sessions or the configuration.
    #[arg(long, global = true)]
    pub(in crate::cli) readonly: bool,
    /// Don't start a keeper: the session's first longhaul process runs the calls, and when that process exits, the calls lose their connection [env: LONGHAUL_KEEPER=0]
    #[arg(long, global = true)]
    pub(in crate::cli) no_keeper: bool,
    /// MCP revision, such as 2025-11-25, for this command and the tasks it starts (set `protocol` in [servers.NAME] to make
    /// it permanent).
    #[arg(long, value_name = "REVISION", default_value = "auto", global = true)]
    pub(in crate::cli) protocol: ProtocolChoice,
    /// Header to send to the server, as 'Name: value'; only `servers add` stores it.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header, global = true)]
    pub(in crate::cli) header: Vec<Header>,
    /// Environment variable with a bearer token to send; never stored.
    #[arg(long, value_name = "VAR", global = true)]
    pub(in crate::cli) bearer_env: Option<String>,
    /// Record the traffic with every server in the session (see `longhaul trace`).
    #[arg(long, global = true)]
    pub(in crate::cli) trace: bool,
    /// Allow sending credentials to another machine over plain http, where others can read them.
    #[arg(long, global = true)]
    pub(in crate::cli) insecure_http: bool,
}
