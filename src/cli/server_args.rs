//! The arguments of `servers`, `login` and `logout`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::{
    cli::arg_values::{GLOBAL, help},
    config::{Header, header},
};

/// `servers`.
#[derive(Debug, Subcommand)]
pub(super) enum ServersCommand {
    /// List the servers in the configuration and in this session (contacts no server).
    #[command(visible_alias = "ls", after_help = help("  longhaul servers list\n  longhaul servers list --json"))]
    List,
    /// Add a server to the configuration; the file keeps its comments and order.
    #[command(after_help = help("  longhaul servers add lab http://127.0.0.1:8931/mcp\n  longhaul servers add build https://build.example/mcp -H 'Authorization: Bearer ${BUILD_TOKEN}'\n  longhaul servers add files --env 'API_KEY=${FILES_KEY}' -- npx -y files-mcp /data"))]
    Add(AddServerArgs),
    /// Remove a server from the configuration and from this session; a session with unfinished tasks on the server keeps it until they end.
    #[command(visible_alias = "rm", after_help = help("  longhaul servers remove lab"))]
    Remove(RemoveServerArgs),
    /// Connect to servers and report what they support and what a lost connection does to calls.
    #[command(after_help = help("  longhaul servers test\n  longhaul servers test lab --json"))]
    Test {
        /// The server [default: all configured HTTP servers, all approved stdio servers, and those that this session has reached]
        name: Option<String>,
    },
    /// Import servers from Claude, Cursor, VS Code, MCP Inspector, Windsurf, Cline, Gemini, Codex, Goose, Zed and opencode; doesn't contact or start any server.
    #[command(after_help = help("  longhaul servers import\n  longhaul servers import .vscode/mcp.json\n  longhaul servers import ~/.cursor/mcp.json --yes"))]
    Import(ImportArgs),
    /// Approve a stdio server's command line, or allow an imported server to get the environment variables that its entry names.
    #[command(after_help = help("  longhaul servers approve files\n  longhaul servers approve lab --yes"))]
    Approve(ApproveServerArgs),
}

/// `servers add`.
#[derive(Debug, Args)]
pub(super) struct AddServerArgs {
    /// Name to use with `-s`.
    pub(super) name: String,
    /// Endpoint URL of an HTTP server.
    pub(super) url: Option<String>,
    /// For a stdio server: its command and arguments; adding it also approves it.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "url")]
    pub(super) command: Vec<String>,
    /// Environment variable for the command; write secrets as variables: 'KEY=${VAR}'
    #[arg(long, value_name = "NAME=VALUE", requires = "command")]
    pub(super) env: Vec<String>,
    // The global option again, with help for this command; clap sets both to the same value.
    /// Header to send, with the secret as a variable: 'Authorization: Bearer ${VAR}'
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header, help_heading = GLOBAL)]
    header: Vec<Header>,
}

/// `servers import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// File to import [default: every known file in its usual place and in this directory]
    pub(super) file: Option<PathBuf>,
    /// Allow longhaul to send the imported servers the environment variables that their entries name.
    #[arg(long)]
    pub(super) yes: bool,
}

/// `servers remove`.
#[derive(Debug, Args)]
pub(super) struct RemoveServerArgs {
    /// The server.
    pub(super) name: String,
    /// Don't ask, even if it has unfinished tasks.
    #[arg(long)]
    pub(super) yes: bool,
}

/// `servers approve`.
#[derive(Debug, Args)]
pub(super) struct ApproveServerArgs {
    /// The server.
    pub(super) name: String,
    /// Don't ask.
    #[arg(long)]
    pub(super) yes: bool,
}

/// `login`.
#[derive(Debug, Args)]
pub(super) struct LoginArgs {
    // Not named `server`: clap would set it and the global -s to the same value.
    /// The server's name or URL [default: the only server]
    #[arg(value_name = "SERVER")]
    pub(super) at: Option<String>,
    /// Command that opens the page; the URL is appended or replaces %s [env: BROWSER]
    #[arg(long, value_name = "CMD")]
    pub(super) browser: Option<String>,
    /// Client id from a manual registration with the authorization server.
    #[arg(long, value_name = "ID")]
    pub(super) client_id: Option<String>,
    /// Environment variable with the client secret.
    #[arg(long, value_name = "VAR", requires = "client_id")]
    pub(super) client_secret_env: Option<String>,
    /// URL of a client ID metadata document, if the authorization server supports such documents.
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    pub(super) client_metadata_url: Option<String>,
}
