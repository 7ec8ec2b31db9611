//! The command line as data: flags, commands and their help.

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, Parser, Subcommand, ValueEnum, ValueHint,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _},
};

use crate::domain::{OnInput, ProtocolChoice, Status, Wall, text};

/// What stands under every help text: scripts rely on the exit codes.
const EXIT_CODES: &str = "\
Exit codes:
  0  success                      6  input needed
  1  the tool failed              7  timed out
  2  usage, or refused            8  cancelled
     before anything was sent    70  a bug of longhaul
  3  sign-in needed              73  cannot write the session
  4  unreachable                 75  the driver does not answer
  5  unknown or lost            130  interrupted; the task stays";

/// The first things that a person tries.
const EXAMPLES: &str = "\
Examples:
  longhaul demo
  longhaul -s http://127.0.0.1:8931/mcp tools
  longhaul -s http://127.0.0.1:8931/mcp call reindex shard=4 'tags:=[\"a\",\"b\"]'
  longhaul call reindex --args '{\"shard\": 4}' --detach
  longhaul ls --status running --json
  longhaul watch q7m --json";

/// Where the options that every command takes stand in its help.
const GLOBAL: &str = "Global options";

/// What the first column of `ls` says beside the status.
const LS_STATES: &str = "\
States:
  running?          nobody watches it now, so it may have moved on; attach, watch or wait looks
  running, cut      the connection is lost and is being made again
  ..., forgotten    forgotten here, with --all; `longhaul rm --undo ID` brings it back";

/// What a trace leaves out.
const EXPORTED: &str = "\
In it:
  always            states, times, steps, attempts, contact, versions, the tool's and the server's name and origin
  --with-content    names, notes, arguments, messages, logs, questions, results and errors; else their sizes
  never             headers, tokens, server sessions, event ids, client ids, paths and queries of URLs, answers";

/// What is recorded, and how.
const RECORDED: &str = "\
Recorded, once it is switched on:
  by --trace        with call, watch, tools, servers test and the screen: every server of the session, until whoever
                    drives it leaves; with doctor: what it asks, where nobody drives
  by trace = true   in [servers.NAME] of the configuration: that server, always
  by :trace         on the screen: the server of the task, until it is said again
  over HTTP         requests, answers, every event and body, and why an exchange ended; of a program its lines
  never             values of headers that are secrets, known tokens, keys in URLs, what a sign-in says
  bounded           to two files of 8 MB a server and 64 kB a body; the oldest goes, `sessions rm` takes all";

/// What stands under the help of a command: lines to copy, and how it ends.
fn help(examples: &str) -> String {
    format!("Examples:\n{examples}\n\n{EXIT_CODES}")
}

/// Long-running MCP tool calls: start one, lose the network, lose nothing.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(disable_help_subcommand = true)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// What holds for every command.
#[derive(Debug, Args)]
#[command(next_help_heading = GLOBAL)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of a command line are facts of their own"
)]
pub(super) struct Global {
    /// A server by its name in this session, or by its URL.
    #[arg(short, long = "server", value_name = "NAME|URL", value_hint = ValueHint::Other, global = true)]
    pub(super) server: Vec<String>,
    /// The saved session to use [default: default]
    #[arg(long, value_name = "NAME", value_hint = ValueHint::Other, global = true)]
    pub(super) session: Option<String>,
    // Not read through clap, which would show it in every usage line as required.
    /// Where sessions are kept [env: LONGHAUL_STATE_DIR]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) state_dir: Option<PathBuf>,
    /// One JSON document, or one JSON object a line while something is followed.
    #[arg(long, global = true)]
    pub(super) json: bool,
    // Without a default of clap's: the configuration may have one.
    /// When to use colour [default: auto]
    #[arg(long, value_name = "WHEN", global = true)]
    pub(super) color: Option<Color>,
    /// Only ASCII characters on the screen.
    #[arg(long, global = true)]
    pub(super) ascii: bool,
    /// Nothing on the screen moves by itself.
    #[arg(long, global = true)]
    pub(super) no_motion: bool,
    /// Write what longhaul does to the session's log file; twice for more.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(super) verbose: u8,
    /// No progress, no remarks: only data and errors.
    #[arg(short, long, global = true)]
    pub(super) quiet: bool,
    /// Refuse everything that would change a task or start one.
    #[arg(long, global = true)]
    pub(super) readonly: bool,
    /// MCP revision to use for this command and the tasks that it starts (`protocol` under [servers] sets it for good).
    #[arg(long, value_name = "REVISION", default_value = "auto", global = true)]
    pub(super) protocol: ProtocolChoice,
    /// A header for the server, as 'Name: value'; used, never stored.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header, global = true)]
    pub(super) header: Vec<Header>,
    /// Send the content of this environment variable as bearer token; used, never stored.
    #[arg(long, value_name = "VAR", global = true)]
    pub(super) bearer_env: Option<String>,
    /// Record what goes over the wire with every server of the session; `longhaul trace` shows it.
    #[arg(long, global = true)]
    pub(super) trace: bool,
    /// Let credentials go over plain http to another machine, where they can be read on the way.
    #[arg(long, global = true)]
    pub(super) insecure_http: bool,
}

/// The session that is used when none is named.
pub(super) const DEFAULT_SESSION: &str = "default";
/// The session of the demo, unless another one is named.
#[cfg(feature = "demo")]
pub(super) const DEMO_SESSION: &str = "demo";
/// The environment's way to say `--state-dir`.
pub(super) const STATE_DIR: &str = "LONGHAUL_STATE_DIR";

/// A header of the user's. The value is a secret, so that `Debug` keeps it to itself.
#[derive(Clone)]
pub(super) struct Header {
    pub(super) name: String,
    pub(super) value: String,
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A limit as it is typed: a length of time, or none at all, whatever the configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit(pub(super) Option<Duration>);

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Try it on the built-in demo server.
    #[cfg(feature = "demo")]
    #[command(after_help = help("  longhaul demo\n  longhaul demo --serve --port 8931\n  longhaul demo --break cut=5\n  longhaul demo --reset"))]
    Demo(Demo),
    /// List a server's tools with their arguments.
    #[command(after_help = help("  longhaul -s http://127.0.0.1:8931/mcp tools\n  longhaul -s build-box tools --json"))]
    Tools,
    /// Start a call and follow it: the result goes to stdout, progress to stderr.
    #[command(visible_alias = "run")]
    #[command(after_help = help("  longhaul call get_forecast city=Lisbon\n  longhaul call reindex shard=4 'tags:=[\"a\"]' --name 'nightly reindex'\n  echo '{\"shard\": 4}' | longhaul call reindex --args -\n  longhaul call reindex shard=4 --detach --once nightly-2026-11-20"))]
    Call(Call),
    /// Run a task again, with the same or changed arguments.
    #[command(visible_alias = "rerun")]
    #[command(after_help = help("  longhaul again q7m\n  longhaul again q7m shard=5 'tags:=[\"b\"]'"))]
    Again(Again),
    /// List the tasks of the session; reads the file, contacts nobody.
    #[command(visible_alias = "ps")]
    #[command(after_help = format!("{LS_STATES}\n\n{}", help("  longhaul ls\n  longhaul ls --status running --status paused\n  longhaul ls status:failed server:lab '!render'\n  longhaul ls --tool reindex --since 1d --json")))]
    Ls(Ls),
    /// Everything that is known of a task.
    #[command(after_help = help("  longhaul show q7m\n  longhaul show q7m --json"))]
    Show(One),
    /// The result of a task.
    #[command(after_help = help("  longhaul result q7m\n  longhaul result q7m --out 'report 2026.txt'\n  longhaul result q7m --block 2 --out picture.png"))]
    Result(ResultOf),
    /// The history of a task.
    #[command(after_help = help("  longhaul logs q7m -n 20\n  longhaul logs q7m -f --since 10m"))]
    Logs(Logs),
    /// Open the screen on a task.
    #[command(after_help = help("  longhaul attach\n  longhaul attach q7m\n  longhaul attach --drive"))]
    Attach(Attach),
    /// Follow a task in lines: its history first, then live; ends with its outcome.
    #[command(after_help = help("  longhaul watch q7m\n  longhaul watch q7m --new --json"))]
    Watch(Watch),
    /// Wait until tasks have ended; ends with the worst of their outcomes.
    #[command(after_help = help("  longhaul wait q7m k3v\n  longhaul wait q7m k3v --any\n  longhaul wait --tag nightly --json"))]
    Wait(Wait),
    /// Pause a task by its server's pause tool.
    #[command(after_help = help("  longhaul pause q7m\n  longhaul pause --all"))]
    Pause(Which),
    /// Go on after a pause, or retry the connection now.
    #[command(after_help = help("  longhaul resume q7m\n  longhaul resume --all"))]
    Resume(Which),
    /// Cancel a task.
    #[command(after_help = help("  longhaul cancel q7m\n  longhaul cancel --all"))]
    Cancel(Which),
    /// Show what the server asks for a task (code 6), or answer it.
    ///
    /// Where leaving would end the call from then on, and nobody else drives it, this stays until the call has ended.
    #[command(after_help = help("  longhaul answer k3v\n  longhaul answer k3v --accept count=3 'tags:=[\"a\"]'\n  longhaul answer k3v --defaults\n  longhaul answer k3v --decline"))]
    Answer(Answer),
    /// Take tasks into the list that a server has and this session does not know.
    #[command(after_help = help("  longhaul adopt -s lab\n  longhaul adopt -s lab 786512e2-9e0d\n  longhaul adopt -s lab --client-id nightly-7\n  longhaul adopt -s lab --client-id nightly-7 task-1 dataset=eu\n  longhaul adopt --from session_state.json"))]
    Adopt(Adopt),
    /// Change the name, note or limits of a task, also while it runs; what is not named stays.
    #[command(after_help = help("  longhaul edit q7m --name 'nightly reindex'\n  longhaul edit q7m --idle-timeout 10m --max-time off\n  longhaul edit q7m --note ''"))]
    Edit(EditTask),
    /// Forget tasks here; nothing is sent. Can be undone for seven days.
    #[command(after_help = help("  longhaul rm q7m k3v\n  longhaul rm --undo q7m\n  longhaul rm --older-than 7d"))]
    Rm(Rm),
    /// Forget every task that has ended.
    #[command(after_help = help("  longhaul clean\n  longhaul clean --older-than 7d\n  longhaul clean --keep 100"))]
    Clean(Clean),
    /// The servers of the configuration: list, add, remove and test them.
    #[command(after_help = help("  longhaul servers list\n  longhaul servers add lab http://127.0.0.1:8931/mcp\n  longhaul servers test lab"))]
    Servers {
        #[command(subcommand)]
        what: ServersCommand,
    },
    /// Write what is known of a task as a trace for a bug report; secrets are never in it.
    #[command(after_help = format!("{EXPORTED}\n\n{}", help("  longhaul export q7m > trace.json\n  longhaul export q7m --html --out trace.html\n  longhaul export q7m --with-content")))]
    Export(Export),
    /// What was recorded of the wire, a message a line; contacts nobody.
    #[command(after_help = format!("{RECORDED}\n\n{}", help("  longhaul trace\n  longhaul trace q7m --grep tools/call --full\n  longhaul trace lab -n 50 -f\n  longhaul trace --json")))]
    Trace(Trace),
    /// The saved sessions of this state directory: list and remove them.
    #[command(after_help = help("  longhaul sessions list\n  longhaul sessions rm nightly"))]
    Sessions {
        #[command(subcommand)]
        what: SessionsCommand,
    },
    /// Show the help of a command.
    #[command(after_help = help("  longhaul help call\n  longhaul help servers add"))]
    Help(Help),
    /// Print what makes a shell complete commands, options, tasks, servers, tools and their arguments.
    #[command(after_help = help("  longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul\n  longhaul completions zsh > ~/.zfunc/_longhaul\n  longhaul completions fish > ~/.config/fish/completions/longhaul.fish\n  longhaul completions powershell >> ~/.config/powershell/profile.ps1"))]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page of longhaul or of one of its commands, or write all of them.
    #[command(after_help = help("  longhaul man call\n  longhaul man servers add\n  longhaul man --dir ~/.local/share/man/man1"))]
    Man(Manual),
    /// Look at everything that longhaul stands on, and say what to do where something is wrong; changes nothing.
    #[command(after_help = help("  longhaul doctor\n  longhaul doctor --offline\n  longhaul -s lab doctor --json"))]
    Doctor(Doctor),
    /// Sign in to a server by way of a browser; its tasks that wait for it go on.
    #[command(after_help = help("  longhaul login lab\n  longhaul login https://lab.example/mcp\n  longhaul login lab --browser 'firefox --new-window'\n  longhaul login lab --client-id my-id --client-secret-env MY_SECRET"))]
    Login(Login),
    /// Delete the tokens of a server here, and revoke them there.
    #[command(after_help = help("  longhaul logout lab"))]
    Logout(Logout),
    /// Where the files of this session are.
    #[command(after_help = help("  longhaul paths\n  longhaul --session nightly paths --json"))]
    Paths,
}

/// `help`.
#[derive(Debug, Args)]
pub(super) struct Help {
    /// The command; without it, all commands.
    pub(super) command: Vec<String>,
}

impl Help {
    /// The command line that shows it.
    pub(super) fn line(&self) -> Vec<&str> {
        let words = self.command.iter().map(String::as_str);
        std::iter::once("longhaul")
            .chain(words)
            .chain(["--help"])
            .collect()
    }
}

/// `edit`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(super) struct EditTask {
    /// The task; a unique beginning of its id is enough.
    pub(super) id: String,
    /// Its name; '' takes it away.
    #[arg(long, group = "what")]
    pub(super) name: Option<String>,
    /// A note to it; '' takes it away.
    #[arg(long, value_name = "TEXT", group = "what")]
    pub(super) note: Option<String>,
    /// Cancel it after so long without anything new, e.g. 90s, 10m, 2h, or off.
    #[arg(long, value_name = "D", value_parser = limit, group = "what")]
    pub(super) idle_timeout: Option<Limit>,
    /// Cancel it so long after its start; or off.
    #[arg(long, value_name = "D", value_parser = limit, group = "what")]
    pub(super) max_time: Option<Limit>,
}

/// `doctor`.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Contact no server.
    #[arg(long)]
    pub(super) offline: bool,
}

/// `export`.
#[derive(Debug, Args)]
pub(super) struct Export {
    /// The task; a unique beginning of its id is enough.
    pub(super) id: String,
    /// As a page for people, with the timeline as a picture; it needs no other file and runs nothing.
    #[arg(long)]
    pub(super) html: bool,
    /// With what you and the server wrote, not only its sizes; what looks like a token is taken out.
    #[arg(long)]
    pub(super) with_content: bool,
    /// Write it to this file instead of stdout.
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

/// `trace`.
#[derive(Debug, Args)]
pub(super) struct Trace {
    /// Only what was for this task, or went to this server; a unique beginning of a task's id is enough.
    #[arg(value_name = "ID|SERVER")]
    pub(super) of: Option<String>,
    /// Only messages with this text in them, in any case of letters.
    #[arg(long, value_name = "TEXT")]
    pub(super) grep: Option<String>,
    /// Only the newest N of them.
    #[arg(short = 'n', value_name = "N")]
    pub(super) lines: Option<usize>,
    /// Go on with what is recorded from now on.
    #[arg(short, long)]
    pub(super) follow: bool,
    /// With headers and the whole body, JSON laid out.
    #[arg(long)]
    pub(super) full: bool,
}

/// `sessions`.
#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// List them: size, tasks, who drives and when it was last used.
    #[command(visible_alias = "ls", after_help = help("  longhaul sessions list\n  longhaul sessions list --json"))]
    List,
    /// Remove sessions for good, with all their tasks, histories and results; never one that is driven.
    #[command(visible_alias = "remove", after_help = help("  longhaul sessions rm nightly\n  longhaul sessions rm nightly old-lab --force"))]
    Rm(RemoveSessions),
}

/// `sessions rm`.
#[derive(Debug, Args)]
pub(super) struct RemoveSessions {
    /// The sessions.
    #[arg(required = true)]
    pub(super) names: Vec<String>,
    /// Also where tasks are unsettled, or where the file cannot be read.
    #[arg(long)]
    pub(super) force: bool,
}

/// `man`.
#[derive(Debug, Args)]
pub(super) struct Manual {
    /// The command; without it, the page of longhaul itself.
    #[arg(conflicts_with = "dir")]
    pub(super) command: Vec<String>,
    /// Write the page of every command into this directory.
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}

/// `servers`.
#[derive(Debug, Subcommand)]
pub(super) enum ServersCommand {
    /// List the servers of the configuration and of this session; contacts nobody.
    #[command(visible_alias = "ls", after_help = help("  longhaul servers list\n  longhaul servers list --json"))]
    List,
    /// Write a server into the configuration, whose comments and order stay as they are.
    #[command(after_help = help("  longhaul servers add lab http://127.0.0.1:8931/mcp\n  longhaul servers add build https://build.example/mcp -H 'Authorization: Bearer ${BUILD_TOKEN}'\n  longhaul servers add old https://old.example/mcp --protocol 2025-06-18"))]
    Add(AddServer),
    /// Remove a server from the configuration and from this session.
    #[command(visible_alias = "rm", after_help = help("  longhaul servers remove lab"))]
    Remove(RemoveServer),
    /// Connect, and say what a server speaks and what leaving a call there would do.
    #[command(after_help = help("  longhaul servers test\n  longhaul servers test lab --json"))]
    Test(TestServers),
    /// Take over the servers of Claude, Cursor, VS Code, Inspector, Windsurf, Cline, Gemini, Codex and Goose; contacts nobody and starts nothing.
    #[command(after_help = help("  longhaul servers import\n  longhaul servers import .vscode/mcp.json\n  longhaul servers import ~/.cursor/mcp.json --yes"))]
    Import(Import),
    /// Agree that the variables of an imported server go to its host.
    #[command(after_help = help("  longhaul servers consent lab\n  longhaul servers consent lab --yes"))]
    Consent(OfServer),
    /// Let a server that is a program be started, after its whole command was shown.
    #[command(after_help = help("  longhaul servers approve files\n  longhaul servers approve files --yes"))]
    Approve(OfServer),
}

/// `servers add`.
#[derive(Debug, Args)]
pub(super) struct AddServer {
    /// What `-s` is to call it.
    pub(super) name: String,
    /// Its endpoint.
    pub(super) url: String,
    // The global one in its words for this command; clap gives both the same value.
    /// A header to send to it, with its secret as a variable: 'Authorization: Bearer ${VAR}'
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header, help_heading = GLOBAL)]
    header: Vec<Header>,
}

/// `servers import`.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file of another program; without it, every one that is found in its usual place and in this directory.
    pub(super) file: Option<PathBuf>,
    /// Agree that their variables go to their hosts, as each line says.
    #[arg(long)]
    pub(super) yes: bool,
}

/// `servers remove`.
#[derive(Debug, Args)]
pub(super) struct RemoveServer {
    /// The server.
    pub(super) name: String,
    /// Remove it although tasks there are unsettled.
    #[arg(long)]
    pub(super) yes: bool,
}

/// `servers test`.
#[derive(Debug, Args)]
pub(super) struct TestServers {
    /// The server; without it, every one that there is.
    pub(super) name: Option<String>,
}

/// `servers consent` and `servers approve`.
#[derive(Debug, Args)]
pub(super) struct OfServer {
    /// The server.
    pub(super) name: String,
    /// Agree without a question.
    #[arg(long)]
    pub(super) yes: bool,
}

/// `login`.
#[derive(Debug, Args)]
pub(super) struct Login {
    // Not called `server`, which is the global -s: clap would give both the same value.
    /// The server, by its name or its URL [default: the only one].
    #[arg(value_name = "SERVER")]
    pub(super) at: Option<String>,
    /// The command that opens a page, its URL behind it or in place of %s [env: BROWSER]
    #[arg(long, value_name = "CMD")]
    pub(super) browser: Option<String>,
    /// An id that longhaul was registered with by hand at the authorization server.
    #[arg(long, value_name = "ID")]
    pub(super) client_id: Option<String>,
    /// The environment variable that holds the secret to that id.
    #[arg(long, value_name = "VAR", requires = "client_id")]
    pub(super) client_secret_env: Option<String>,
    /// Where a document that describes this client is; used where the authorization server reads such.
    #[arg(long, value_name = "URL", conflicts_with = "client_id")]
    pub(super) client_metadata_url: Option<String>,
}

/// `logout`.
#[derive(Debug, Args)]
pub(super) struct Logout {
    // Not called `server`, which is the global -s: clap would give both the same value.
    /// The server, by its name or its URL [default: the only one].
    #[arg(value_name = "SERVER")]
    pub(super) at: Option<String>,
}

/// `demo`.
#[cfg(feature = "demo")]
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of a command line are facts of their own"
)]
pub(super) struct Demo {
    /// Run only the server, in the foreground; the first line of stdout is its URL.
    #[arg(long, group = "what")]
    pub(super) serve: bool,
    /// The port for the server.
    #[arg(long, value_name = "N", requires = "serve")]
    pub(super) port: Option<u16>,
    /// Replay what all streams of a server session missed, not only the stream that is resumed, as looser servers do.
    #[arg(long, requires = "serve")]
    pub(super) cross_stream_replay: bool,
    /// Leave the terminal, and end when nobody needs the server any more.
    #[arg(long, hide = true, requires = "serve")]
    pub(super) background: bool,
    /// Stop the server.
    #[arg(long, group = "what")]
    pub(super) stop: bool,
    /// Stop the server and remove its data and the demo's session.
    #[arg(long, group = "what")]
    pub(super) reset: bool,
    /// Break something in the running server: cut[=SECONDS], restart, stall[=SECONDS], drop, duplicate, forget, polls[=SECONDS], hang.
    #[arg(long = "break", value_name = "WHAT", group = "what")]
    pub(super) fault: Option<crate::demo::Fault>,
    // The global one in its words for this command; clap gives both the same value.
    /// The saved session to use [default: demo]
    #[arg(long, value_name = "NAME", help_heading = GLOBAL)]
    session: Option<String>,
}

/// `call`.
#[derive(Debug, Args)]
pub(super) struct Call {
    /// The tool.
    pub(super) tool: String,
    /// Arguments: key=value as text (a number or yes/no where the tool wants one), key:=json as it is.
    #[arg(value_name = "KEY=VALUE")]
    pub(super) pairs: Vec<String>,
    /// All arguments as a JSON object, from a file with @FILE, from stdin with -.
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(super) args: Option<String>,
    /// Return the task that used this key before, instead of starting another.
    #[arg(long, value_name = "KEY")]
    pub(super) once: Option<String>,
    #[command(flatten)]
    pub(super) how: How,
}

/// `again`.
#[derive(Debug, Args)]
pub(super) struct Again {
    /// The task to repeat; a unique beginning of its id is enough.
    pub(super) id: String,
    /// Changed arguments: key=value or key:=json.
    #[arg(value_name = "KEY=VALUE")]
    pub(super) pairs: Vec<String>,
    /// Do not ask before running a tool again that its server calls destructive.
    #[arg(long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) how: How,
}

/// How a call is started.
#[derive(Debug, Args)]
pub(super) struct How {
    /// A name for it.
    #[arg(long)]
    pub(super) name: Option<String>,
    /// A tag, to find it by.
    #[arg(long)]
    pub(super) tag: Option<String>,
    /// Print the id and leave as soon as leaving does not end the call; refuse where it always would.
    #[arg(long)]
    pub(super) detach: bool,
    /// Send the arguments even if they are not what the tool's schema asks for.
    #[arg(long)]
    pub(super) unchecked: bool,
    /// Cancel it after so long without anything new, e.g. 90s, 10m, 2h, or off.
    #[arg(long, value_name = "D", value_parser = limit)]
    pub(super) idle_timeout: Option<Limit>,
    /// Cancel it so long after its start; or off.
    #[arg(long, value_name = "D", value_parser = limit)]
    pub(super) max_time: Option<Limit>,
    /// How to handle the server's questions: ask (they wait for `longhaul answer`), defaults, decline [default: ask at this terminal, else ask]
    #[arg(long, value_name = "WHAT", value_parser = on_input())]
    pub(super) on_input: Option<OnInput>,
}

/// `ls`.
#[derive(Debug, Args)]
pub(super) struct Ls {
    /// Only tasks that fit, as `/` on the screen: words, !word, status:, server:, tag:, tool: and id:.
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
    /// Forgotten tasks too.
    #[arg(long)]
    pub(super) all: bool,
    /// Only tasks of this status.
    #[arg(long, value_name = "STATUS", value_parser = status_word())]
    pub(super) status: Vec<&'static str>,
    /// Only what this view of the configuration shows.
    #[arg(long, value_name = "NAME")]
    pub(super) view: Option<String>,
    /// Only tasks that wait for you.
    #[arg(long)]
    pub(super) needs_me: bool,
    /// Only tasks that ended and that you have not seen yet.
    #[arg(long)]
    pub(super) new: bool,
    /// Only tasks with this tag.
    #[arg(long)]
    pub(super) tag: Option<String>,
    /// Only calls of this tool.
    #[arg(long)]
    pub(super) tool: Option<String>,
    /// Only tasks that began since: a time (2026-11-20T06:00:00Z) or how long ago (10m).
    #[arg(long, value_name = "T", value_parser = since)]
    pub(super) since: Option<Since>,
}

/// One task.
#[derive(Debug, Args)]
pub(super) struct One {
    /// The task; a unique beginning of its id is enough.
    pub(super) id: String,
}

/// One task or all.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(super) struct Which {
    /// The task; a unique beginning of its id is enough.
    #[arg(group = "which")]
    pub(super) id: Option<String>,
    /// Every task that this can be asked of.
    #[arg(long, group = "which")]
    pub(super) all: bool,
}

/// `result`.
#[derive(Debug, Args)]
pub(super) struct ResultOf {
    /// The task; a unique beginning of its id is enough.
    pub(super) id: String,
    /// Write it to this file instead of stdout, byte for byte.
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Only this part of the content, from 1, byte for byte: a picture as a picture.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) block: Option<u32>,
    /// The text exactly as the server sent it, control characters and all.
    #[arg(long)]
    pub(super) raw: bool,
}

/// `logs`.
#[derive(Debug, Args)]
pub(super) struct Logs {
    /// The task; a unique beginning of its id is enough.
    pub(super) id: String,
    /// Go on live.
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Only the newest N lines.
    #[arg(short = 'n', value_name = "N")]
    pub(super) lines: Option<usize>,
    /// Only what came since: a time (2026-11-20T06:00:00Z) or how long ago (10m).
    #[arg(long, value_name = "T", value_parser = since)]
    pub(super) since: Option<Since>,
}

/// `--since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// At a time.
    At(Wall),
    /// So long ago.
    Ago(Duration),
}

impl Since {
    /// The time that is meant, as of `now`.
    pub(super) fn at(self, now: Wall) -> Wall {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => {
                let ms = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
                Wall(now.0.saturating_sub(ms))
            }
        }
    }
}

/// `attach`.
#[derive(Debug, Args)]
pub(super) struct Attach {
    /// The task; a unique beginning of its id is enough.
    pub(super) id: Option<String>,
    /// Drive the session from here, in place of the longhaul that does; asks first where that ends something.
    #[arg(long)]
    pub(super) drive: bool,
}

/// `watch`.
#[derive(Debug, Args)]
pub(super) struct Watch {
    /// The task; a unique beginning of its id is enough.
    pub(super) id: String,
    /// Only what comes from now on.
    #[arg(long)]
    pub(super) new: bool,
}

/// `wait`.
#[derive(Debug, Args)]
pub(super) struct Wait {
    /// The tasks; a unique beginning of each id is enough.
    pub(super) ids: Vec<String>,
    /// Every task with this tag.
    #[arg(long)]
    pub(super) tag: Option<String>,
    /// End as soon as one of them has ended.
    #[arg(long)]
    pub(super) any: bool,
}

/// `answer`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of a command line are facts of their own"
)]
pub(super) struct Answer {
    /// The task; a unique beginning of its id is enough.
    pub(super) id: String,
    /// What is filled in, and yes: key=value, key:=json; key:=null leaves it out. What is not named keeps its default.
    #[arg(value_name = "KEY=VALUE", conflicts_with = "no")]
    pub(super) pairs: Vec<String>,
    /// Say yes, with what is filled in; to a page: you agree to open it.
    #[arg(long, conflicts_with = "no")]
    pub(super) accept: bool,
    /// Say yes with the defaults; refused where something has none.
    #[arg(long, group = "no")]
    pub(super) defaults: bool,
    /// Say no.
    #[arg(long, group = "no")]
    pub(super) decline: bool,
    /// Dismiss it without a choice.
    #[arg(long, group = "no")]
    pub(super) cancel: bool,
    /// Which question, where several are open [default: the oldest].
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
}

/// `adopt`.
#[derive(Debug, Args)]
pub(super) struct Adopt {
    /// The id of one task; without it, everything that the server lists or the file holds.
    #[arg(value_name = "SERVER_TASK_ID")]
    pub(super) server_task: Option<String>,
    /// With --client-id or --from: the arguments of that task, where the server's list or the file does not show them.
    #[arg(value_name = "KEY=VALUE", requires = "source")]
    pub(super) pairs: Vec<String>,
    /// Go on with what this client left on a checkpoint server, as its list_session_tasks shows it.
    #[arg(long, value_name = "ID", group = "source")]
    pub(super) client_id: Option<String>,
    /// Go on with the unfinished tasks of a tutorial client's state file, as checkpoint calls under its client id.
    #[arg(long, value_name = "FILE", group = "source")]
    pub(super) from: Option<PathBuf>,
    /// Do not ask before these are taken over.
    #[arg(long, requires = "source")]
    pub(super) yes: bool,
}

/// `rm`.
#[derive(Debug, Args)]
pub(super) struct Rm {
    /// The tasks; a unique beginning of each id is enough.
    #[arg(required_unless_present = "older_than")]
    pub(super) ids: Vec<String>,
    /// Bring them back.
    #[arg(long)]
    pub(super) undo: bool,
    /// Instead of naming tasks: all that ended longer ago than this, e.g. 7d; never what is unsettled.
    #[arg(long, value_name = "D", value_parser = text::read_duration, conflicts_with_all = ["ids", "undo"])]
    pub(super) older_than: Option<Duration>,
}

/// `clean`.
#[derive(Debug, Args)]
pub(super) struct Clean {
    /// Only tasks that ended longer ago than this, e.g. 7d.
    #[arg(long, visible_alias = "older", value_name = "D", value_parser = text::read_duration)]
    pub(super) older_than: Option<Duration>,
    /// Keep the newest N of those that ended.
    #[arg(long, value_name = "N")]
    pub(super) keep: Option<usize>,
}

/// A status by its word; `done` is what people say for `completed`.
fn status_word() -> impl clap::builder::TypedValueParser<Value = &'static str> {
    let completed = Status::Completed.word();
    let values = Status::WORDS.map(|word| {
        let value = PossibleValue::new(word);
        if word == completed {
            value.alias("done")
        } else {
            value
        }
    });
    PossibleValuesParser::new(values).map(move |typed| {
        let word = Status::WORDS.into_iter().find(|word| *word == typed);
        word.unwrap_or(completed)
    })
}

fn on_input() -> impl clap::builder::TypedValueParser<Value = OnInput> {
    PossibleValuesParser::new(["ask", "defaults", "decline"]).map(|typed| match typed.as_str() {
        "defaults" => OnInput::Defaults,
        "decline" => OnInput::Decline,
        _ => OnInput::Ask,
    })
}

pub(super) fn header(text: &str) -> Result<Header, String> {
    // The text itself stays out of the message: it may hold a secret.
    let (name, value) = text.split_once(':').ok_or("write it as 'Name: value'")?;
    let is_name =
        |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter);
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || !name.chars().all(is_name) {
        return Err("the name before the colon is not one of a header".to_owned());
    }
    if value
        .chars()
        .any(|letter| letter.is_control() && letter != '\t')
    {
        return Err(format!("the value of {name} has a control character in it"));
    }
    Ok(Header {
        name: name.to_owned(),
        value: value.to_owned(),
    })
}

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "off" => Ok(Limit(None)),
        _ => text::read_duration(text).map(|length| Limit(Some(length))),
    }
}

fn since(text: &str) -> Result<Since, String> {
    if let Some(at) = Wall::parse_rfc3339(text) {
        return Ok(Since::At(at));
    }
    text::read_duration(text)
        .map(Since::Ago)
        .map_err(|_| format!("{text:?} is no time; write it as 2026-11-20T06:00:00Z or 10m"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    /// What a shell gives to `longhaul` in a line.
    fn words_of(line: &str) -> Vec<String> {
        // A function takes the place of the program, and says what reached it.
        let script = format!("longhaul() {{ printf '%s\\0' longhaul \"$@\"; }}\n{line}");
        let ran = std::process::Command::new("sh")
            .args(["-euc", &script])
            .env("HOME", "/home/somebody")
            .current_dir(tempfile::tempdir().unwrap().path())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{line}: {ran:?}");
        let words = String::from_utf8(ran.stdout).unwrap();
        words.split_terminator('\0').map(str::to_owned).collect()
    }

    /// The lines to copy under a help text.
    fn examples(notes: &str) -> Vec<String> {
        let block = notes
            .split("\n\n")
            .find_map(|block| block.strip_prefix("Examples:\n"));
        let lines = block.unwrap_or_default().lines();
        lines.map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn every_command_shows_examples_and_each_of_them_is_one_of_it() {
        let mut root = Cli::command();
        root.build();
        let mut waiting: Vec<(Vec<String>, &clap::Command)> = vec![(Vec::new(), &root)];
        let mut count = 0;
        while let Some((path, command)) = waiting.pop() {
            for below in command.get_subcommands() {
                let name = below.get_name().to_owned();
                waiting.push(([path.clone(), vec![name]].concat(), below));
            }
            let notes = command
                .get_after_long_help()
                .or_else(|| command.get_after_help())
                .map(ToString::to_string)
                .unwrap_or_default();
            let examples = examples(&notes);
            assert!(!examples.is_empty(), "{path:?} shows no example");
            for line in examples {
                count += 1;
                // What is written into a file is for the reader; the words before it are for us.
                let call = line.split(" >").next().unwrap();
                let words = words_of(call);
                let found = Cli::command().try_get_matches_from(&words);
                let mut found = &found.unwrap_or_else(|error| panic!("{line}: {error}"));
                let mut named = Vec::new();
                while let Some((name, below)) = found.subcommand() {
                    named.push(name.to_owned());
                    found = below;
                }
                assert!(named.starts_with(&path), "{line} stands under {path:?}");
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn a_header_that_is_none_is_refused_without_its_text() {
        assert!(header("Authorization: Bearer x").is_ok());
        for text in ["hunter2", ": hunter2", "a b: hunter2", "a: hunter2\r\nb: c"] {
            let words = header(text).unwrap_err();
            assert!(!words.contains("hunter2"), "{words}");
        }
    }
}
