//! Command-line arguments: options, commands and their help text.

mod global;
mod keeper;
mod proxy;
mod start;

use std::{path::PathBuf, time::Duration};

use clap::{Arg, Args, Command, Parser, Subcommand};

pub(super) use self::{
    global::GlobalArgs,
    keeper::KeeperArgs,
    proxy::{ProxyArgs, WrapArgs},
    start::{AdoptArgs, AgainArgs, AnswerArgs, CallArgs, StartArgs},
};
use crate::{
    cli::{
        arg_values::{
            EXIT_CODES, Limit, Since, help, limit, number_from_1, since, status_label, whole_number,
        },
        server_args::{LoginArgs, ServersCommand},
    },
    domain::text,
};

/// The first commands to try.
const EXAMPLES: &str = "\
Examples:
  longhaul demo
  longhaul -s http://127.0.0.1:8931/mcp tools
  longhaul -s http://127.0.0.1:8931/mcp call reindex shard=4 'tags:=[\"a\",\"b\"]'
  longhaul call reindex --args '{\"shard\": 4}' --detach
  longhaul ls --status running --json
  longhaul watch q7m --json";

/// What the first column of `ls` shows beside the status.
const LS_STATES: &str = "\
States:
  queued            not sent yet; longhaul sends it as soon as it can
  pausing, cancelling, resuming
                    requested, but not confirmed by the server yet
  ..., needs you    the server needs a sign-in, your approval or a variable
  running?          may be out of date; `attach`, `watch` or `wait` updates it
  running, quiet    connected, but no data for 20 seconds or more
  running, reconnecting
                    the connection is lost, and longhaul is restoring it
  running, offline  the server can't be reached; longhaul keeps trying
  ..., removed      removed from the list (shown with --all); `longhaul rm --undo ID` restores it

IF CUT (what happens to the call if longhaul loses its connection for a long time):
  continues         the server keeps working, and longhaul finds the call again
  pauses            the call stops at its checkpoint, and longhaul continues from there,
                    unless you paused it
  likely            the call can probably be resumed, for an unknown or limited time
  LOST              the call or its result is lost";

/// What `demo --break` can inject.
#[cfg(feature = "demo")]
const FAULTS: &str = "\
Faults:
  cut[=SECONDS]     close all connections and accept none for this long
  restart           restart the server
  stall[=SECONDS]   keep connections open, but send nothing for this long
  drop              close the connection after the next event
  duplicate         send events twice at the next resume
  forget            forget all MCP sessions";

/// What an export contains.
const EXPORT_CONTENTS: &str = "\
Contents:
  always            states, times, progress, attempts, connection history, versions,
                    tool name, server name and origin
  --with-content    task names, notes, arguments, messages, logs, questions, results
                    and errors (otherwise only their sizes)
  never             headers, tokens, MCP session ids, event ids, client ids, URL paths and
                    queries, answers";

/// What `trace` shows and how to switch recording on.
const TRACE_NOTES: &str = "\
Recording is off by default. To switch it on:
  --trace           with the screen or any command that contacts a server: records every
                    server in the session, until the keeper (or the --no-keeper process) exits
  trace = true      in [servers.NAME] of the configuration: that server, always
  :trace            on the screen: the task's server, until you enter it again

What is recorded:
  HTTP servers      requests, responses, every event and body, and why each exchange ended
  stdio servers     every line
  never             secret header values, known tokens, keys in URLs, sign-in traffic
  limits            two 8 MB files per server, 64 kB per body; the older file is deleted
                    first, and `sessions rm` deletes both";

/// Run long MCP tool calls that survive closed terminals, network drops and restarts.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: GlobalArgs,
    #[command(subcommand)]
    pub(super) command: Option<CliCommand>,
}

/// The session used when none is named.
pub(super) const DEFAULT_SESSION: &str = "default";

/// The session of the demo, unless another one is named.
pub(super) const DEMO_SESSION: &str = "demo";

/// The environment variable for `--state-dir`.
pub(super) const STATE_DIR: &str = "LONGHAUL_STATE_DIR";

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum CliCommand {
    /// Try longhaul on a built-in demo server.
    #[cfg(feature = "demo")]
    #[command(after_help = format!("{FAULTS}\n\n{}", help("  longhaul demo\n  longhaul demo --serve --port 8931\n  longhaul demo --break cut=5\n  longhaul demo --reset")))]
    Demo(DemoArgs),
    /// List a server's tools with their arguments.
    #[command(after_help = help("  longhaul -s http://127.0.0.1:8931/mcp tools\n  longhaul -s build-box tools --json"))]
    Tools,
    /// Start a call and follow it: the result goes to stdout, progress to stderr.
    #[command(visible_alias = "run")]
    #[command(after_help = help("  longhaul call get_forecast city=Lisbon\n  longhaul call reindex shard=4 'tags:=[\"a\"]' --name 'nightly reindex'\n  echo '{\"shard\": 4}' | longhaul call reindex --args -\n  longhaul call reindex shard=4 --detach --once nightly-2026-11-20"))]
    Call(CallArgs),
    /// Run a task again, with the same or changed arguments.
    #[command(visible_alias = "rerun")]
    #[command(after_help = help("  longhaul again q7m\n  longhaul again q7m shard=5 'tags:=[\"b\"]'"))]
    Again(AgainArgs),
    /// List the tasks in the session (contacts no server).
    #[command(visible_alias = "ps")]
    #[command(after_help = format!("{LS_STATES}\n\n{}", help("  longhaul ls\n  longhaul ls --status running --status paused\n  longhaul ls status:failed server:lab '!render'\n  longhaul ls tool:reindex --since 1d --json")))]
    Ls(LsArgs),
    /// Show the details of a task.
    #[command(after_help = help("  longhaul show q7m\n  longhaul show q7m --json"))]
    Show {
        /// The task; a unique prefix of its id is enough.
        id: String,
    },
    /// Print the result of a task.
    #[command(after_help = help("  longhaul result q7m\n  longhaul result q7m --out 'report 2026.txt'\n  longhaul result q7m --block 2 --out picture.png"))]
    Result(ResultArgs),
    /// Print the log of a task.
    #[command(after_help = help("  longhaul logs q7m -n 20\n  longhaul logs q7m -f --since 10m"))]
    Logs(LogsArgs),
    /// Open the full-screen interface (the screen), on a task if one is given.
    #[command(after_help = help("  longhaul attach\n  longhaul attach q7m"))]
    Attach {
        /// The task; a unique prefix of its id is enough.
        id: Option<String>,
    },
    /// Print a task's log, then follow it live; the exit code reflects the task's outcome.
    #[command(after_help = help("  longhaul watch q7m\n  longhaul watch q7m --new --json"))]
    Watch {
        /// The task; a unique prefix of its id is enough.
        id: String,
        /// Skip the log so far and show only new events.
        #[arg(long)]
        new: bool,
    },
    /// Wait for tasks to finish; the exit code reflects the worst outcome.
    #[command(after_help = help("  longhaul wait q7m k3v\n  longhaul wait q7m k3v --any\n  longhaul wait --tag nightly --json"))]
    Wait(WaitArgs),
    /// Pause tasks with their server's pause tool.
    #[command(after_help = help("  longhaul pause q7m k3v\n  longhaul pause --all"))]
    Pause(TaskSelectionArgs),
    /// Resume paused tasks, or retry the connection now.
    #[command(after_help = help("  longhaul resume q7m k3v\n  longhaul resume --all"))]
    Resume(TaskSelectionArgs),
    /// Cancel tasks.
    #[command(after_help = help("  longhaul cancel q7m k3v\n  longhaul cancel --all"))]
    Cancel(TaskSelectionArgs),
    /// Show a server's question, or answer it.
    ///
    /// With --no-keeper, if exiting would lose the call, the command keeps running until the call ends.
    #[command(after_help = help("  longhaul answer k3v\n  longhaul answer k3v --accept count=3 'tags:=[\"a\"]'\n  longhaul answer k3v --defaults\n  longhaul answer k3v --decline"))]
    Answer(AnswerArgs),
    /// Import tasks that already exist on a server.
    #[command(after_help = help("  longhaul adopt -s lab\n  longhaul adopt -s lab 786512e2-9e0d\n  longhaul adopt -s lab --client-id nightly-7\n  longhaul adopt -s lab --client-id nightly-7 task-1 dataset=eu\n  longhaul adopt --from session_state.json"))]
    Adopt(AdoptArgs),
    /// Change the name, note or limits of a task, even while it runs.
    #[command(after_help = help("  longhaul edit q7m --name 'nightly reindex'\n  longhaul edit q7m --idle-timeout 10m --max-time off\n  longhaul edit q7m --note ''"))]
    Edit(EditArgs),
    /// Remove tasks from the list, without cancelling their calls (--undo can restore them within seven days).
    #[command(after_help = help("  longhaul rm q7m k3v\n  longhaul rm --undo q7m"))]
    Rm(RmArgs),
    /// Remove finished tasks from the list, except those whose results an agent has not collected.
    #[command(after_help = help("  longhaul clean\n  longhaul clean --older-than 7d\n  longhaul clean --keep 100"))]
    Clean(CleanArgs),
    /// List, add, remove and test servers.
    #[command(after_help = help("  longhaul servers list\n  longhaul servers add lab http://127.0.0.1:8931/mcp\n  longhaul servers test lab"))]
    Servers {
        #[command(subcommand)]
        command: ServersCommand,
    },
    /// Export a task for a bug report, without secrets.
    #[command(after_help = format!("{EXPORT_CONTENTS}\n\n{}", help("  longhaul export q7m > task.json\n  longhaul export q7m --with-content")))]
    Export(ExportArgs),
    /// Show recorded traffic, one message per line (contacts no server).
    #[command(after_help = format!("{TRACE_NOTES}\n\n{}", help("  longhaul trace\n  longhaul trace q7m --grep tools/call --full\n  longhaul trace lab -n 50 -f\n  longhaul trace --json")))]
    Trace(TraceArgs),
    /// List and remove saved sessions.
    #[command(after_help = help("  longhaul sessions list\n  longhaul sessions rm nightly"))]
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Generate a shell completion script.
    #[command(after_help = help("  longhaul completions bash > ~/.local/share/bash-completion/completions/longhaul\n  longhaul completions zsh > ~/.zfunc/_longhaul\n  longhaul completions fish > ~/.config/fish/completions/longhaul.fish\n  longhaul completions powershell >> ~/.config/powershell/profile.ps1"))]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page of longhaul or of a command, or write all of them to a directory.
    #[command(after_help = help("  longhaul man call\n  longhaul man servers add\n  longhaul man --dir ~/.local/share/man/man1"))]
    Man(ManArgs),
    /// Check the environment and suggest fixes (read-only).
    #[command(after_help = help("  longhaul doctor\n  longhaul -s lab doctor --json"))]
    Doctor,
    /// Sign in to a server in the browser; waiting tasks resume.
    #[command(after_help = help("  longhaul login lab\n  longhaul login https://lab.example/mcp\n  longhaul login lab --browser 'firefox --new-window'\n  longhaul login lab --client-id my-id --client-secret-env MY_SECRET"))]
    Login(LoginArgs),
    /// Revoke and delete a server's tokens.
    #[command(after_help = help("  longhaul logout lab"))]
    Logout {
        // Not named `server`: clap would set it and the global -s to the same value.
        /// The server's name or URL [default: the only server]
        #[arg(value_name = "SERVER")]
        at: Option<String>,
    },
    /// Control the background process that runs the session's calls.
    #[command(after_help = help("  longhaul keeper status\n  longhaul keeper stop\n  longhaul keeper log -n 50"))]
    Keeper {
        #[command(subcommand)]
        command: KeeperArgs,
    },
    /// Relay an agent host's calls to a server, so that no long call is lost to the host's timeout or run twice.
    ///
    /// Runs an MCP server on stdin and stdout. Each call from the host becomes a task in the session. Shortly before the host would time out, longhaul returns a ticket instead of the result: it says that the call is still running and names the task, whose result the host can collect later.
    #[command(after_help = help("  longhaul proxy lab\n  longhaul proxy https://lab.example/mcp --patience 45s"))]
    Proxy(ProxyArgs),
    /// Route the servers in an agent host's configuration through `longhaul proxy`.
    ///
    /// Shows the changes and asks before it writes them. The original entries, with any secrets in them, are saved next to the
    /// file, so that `unwrap` can restore them byte for byte. No secret is copied anywhere else.
    #[command(after_help = help("  longhaul wrap --list\n  longhaul wrap claude-code\n  longhaul wrap codex lab"))]
    Wrap(WrapArgs),
    /// Undo `wrap`.
    #[command(after_help = help("  longhaul unwrap claude-code\n  longhaul unwrap codex lab --yes"))]
    Unwrap(WrapArgs),
    /// Show where the files of this session are.
    #[command(after_help = help("  longhaul paths\n  longhaul --session nightly paths --json"))]
    Paths,
}

/// `edit`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(super) struct EditArgs {
    /// The task; a unique prefix of its id is enough.
    pub(super) id: String,
    /// Set the name; '' clears it.
    #[arg(long, group = "what")]
    pub(super) name: Option<String>,
    /// Set a note; '' clears it.
    #[arg(long, value_name = "TEXT", group = "what")]
    pub(super) note: Option<String>,
    /// Give up after this long without activity, and ask the server to cancel: 90s, 10m, 2h or off.
    #[arg(long, value_name = "D", value_parser = limit, group = "what")]
    pub(super) idle_timeout: Option<Limit>,
    /// Give up this long after the start, and ask the server to cancel: 90s, 10m, 2h or off.
    #[arg(long, value_name = "D", value_parser = limit, group = "what")]
    pub(super) max_time: Option<Limit>,
}

/// `export`.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The task; a unique prefix of its id is enough.
    pub(super) id: String,
    /// Include the text that you and the server wrote (otherwise only its size), without anything that looks like a token.
    #[arg(long)]
    pub(super) with_content: bool,
    /// Write to this file instead of stdout.
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

/// `trace`.
#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// Only the traffic of this task or server; a unique prefix of a task id is enough.
    #[arg(value_name = "ID|SERVER")]
    pub(super) of: Option<String>,
    /// Only messages containing this text (case-insensitive).
    #[arg(long, value_name = "TEXT")]
    pub(super) grep: Option<String>,
    /// Only the newest N messages.
    #[arg(short = 'n', value_name = "N", value_parser = whole_number)]
    pub(super) lines: Option<usize>,
    /// Keep printing new messages.
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Show headers and the recorded bodies, with formatted JSON.
    #[arg(long)]
    pub(super) full: bool,
}

/// `sessions`.
#[derive(Debug, Subcommand)]
pub(super) enum SessionsCommand {
    /// List sessions with their size, tasks, running process and last use.
    #[command(visible_alias = "ls", after_help = help("  longhaul sessions list\n  longhaul sessions list --json"))]
    List,
    /// Delete sessions with all their tasks, histories and results. A session in use is kept: one with a screen, a command or a proxy, or with unfinished tasks.
    #[command(visible_alias = "remove", after_help = help("  longhaul sessions rm nightly\n  longhaul sessions rm nightly old-lab --force"))]
    Rm(RemoveSessionsArgs),
}

/// `sessions rm`.
#[derive(Debug, Args)]
pub(super) struct RemoveSessionsArgs {
    /// The sessions.
    #[arg(required = true)]
    pub(super) names: Vec<String>,
    /// Delete even if tasks are unfinished or the file can't be read; stops the keeper, but doesn't cancel calls on the server.
    #[arg(long)]
    pub(super) force: bool,
}

/// `man`.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The command [default: longhaul itself]
    #[arg(conflicts_with = "dir")]
    pub(super) command: Vec<String>,
    /// Write the pages of all commands to this directory.
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}

/// `demo`.
#[cfg(feature = "demo")]
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "command-line flags are independent of each other"
)]
pub(super) struct DemoArgs {
    /// Run only the server, in the foreground; prints its URL as the first line of stdout.
    #[arg(long, group = "what")]
    pub(super) serve: bool,
    /// Port for the server.
    #[arg(long, value_name = "N", requires = "serve")]
    pub(super) port: Option<u16>,
    /// Replay missed events of all streams in an MCP session, not only those of the resumed stream.
    #[arg(long, requires = "serve")]
    pub(super) cross_stream_replay: bool,
    /// Run in the background; exits when idle.
    #[arg(long, hide = true, requires = "serve")]
    pub(super) background: bool,
    /// Stop the server.
    #[arg(long, group = "what")]
    pub(super) stop: bool,
    /// Stop the server and remove its data and the demo's session.
    #[arg(long, group = "what")]
    pub(super) reset: bool,
    /// Inject a fault into the running server (listed below; SECONDS defaults to 5, at most 3600).
    #[arg(long = "break", value_name = "FAULT", group = "what")]
    pub(super) fault: Option<crate::demo::Fault>,
    // The global option again, with help for this command; clap sets both to the same value.
    /// Session to use [default: demo]
    #[arg(long, value_name = "NAME", help_heading = crate::cli::arg_values::GLOBAL)]
    session: Option<String>,
}

/// `ls`.
#[derive(Debug, Args)]
pub(super) struct LsArgs {
    /// Filter, as with `/` on the screen: words, !word, status:, server:, tag:, tool:, id:, from: and dir:.
    #[arg(value_name = "FILTER")]
    pub(super) filter: Vec<String>,
    /// Include removed tasks.
    #[arg(long)]
    pub(super) all: bool,
    /// Only tasks with this status.
    #[arg(long, value_name = "STATUS", value_parser = status_label())]
    pub(super) status: Vec<&'static str>,
    /// Only tasks that need you: those with a question, an unknown outcome, or a missing sign-in, approval or
    /// variable, and failed or lost tasks that you haven't seen.
    #[arg(long)]
    pub(super) needs_you: bool,
    /// Only finished tasks that you haven't seen yet.
    #[arg(long)]
    pub(super) new: bool,
    /// Only tasks with this tag.
    #[arg(long)]
    pub(super) tag: Option<String>,
    /// Only calls from this agent host (such as claude-code) through `longhaul proxy`.
    #[arg(long, value_name = "AGENT_HOST")]
    pub(super) from: Option<String>,
    /// Only tasks started since a time (2026-11-20T06:00:00Z) or within a period (10m, 2h, 7d).
    #[arg(long, value_name = "T", value_parser = since)]
    pub(super) since: Option<Since>,
}

/// Some tasks or all.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(super) struct TaskSelectionArgs {
    /// The tasks; a unique prefix of each id is enough.
    #[arg(group = "which", value_name = "ID")]
    pub(super) ids: Vec<String>,
    /// Every task in the session that this command can act on.
    #[arg(long, group = "which")]
    pub(super) all: bool,
}

/// `result`.
#[derive(Debug, Args)]
pub(super) struct ResultArgs {
    /// The task; a unique prefix of its id is enough.
    pub(super) id: String,
    /// Write to this file instead of stdout, byte for byte.
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Only this content block, counting from 1; images are written as binary data.
    #[arg(long, value_name = "N", value_parser = number_from_1)]
    pub(super) block: Option<u32>,
    /// Print the text exactly as the server sent it, including control characters; with --json, the whole result.
    #[arg(long)]
    pub(super) raw: bool,
}

/// `logs`.
#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// The task; a unique prefix of its id is enough.
    pub(super) id: String,
    /// Keep printing new entries.
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Only the newest N lines.
    #[arg(short = 'n', value_name = "N", value_parser = whole_number)]
    pub(super) lines: Option<usize>,
    /// Only entries since a time (2026-11-20T06:00:00Z) or within a period (10m, 2h, 7d).
    #[arg(long, value_name = "T", value_parser = since)]
    pub(super) since: Option<Since>,
}

/// `wait`.
#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    /// The tasks; a unique prefix of each id is enough.
    pub(super) ids: Vec<String>,
    /// All tasks with this tag.
    #[arg(long)]
    pub(super) tag: Option<String>,
    /// Return as soon as one of them has finished.
    #[arg(long)]
    pub(super) any: bool,
}

/// `rm`.
#[derive(Debug, Args)]
pub(super) struct RmArgs {
    /// The tasks; a unique prefix of each id is enough.
    #[arg(required = true)]
    pub(super) ids: Vec<String>,
    /// Restore removed tasks.
    #[arg(long)]
    pub(super) undo: bool,
    /// Don't ask, even if calls or results would be lost.
    #[arg(short, long)]
    pub(super) yes: bool,
}

/// `clean`.
#[derive(Debug, Args)]
pub(super) struct CleanArgs {
    /// Only tasks that finished more than this long ago, e.g. 7d.
    #[arg(long, visible_alias = "older", value_name = "D", value_parser = text::parse_duration)]
    pub(super) older_than: Option<Duration>,
    /// Keep the newest N finished tasks.
    #[arg(long, value_name = "N", value_parser = whole_number)]
    pub(super) keep: Option<usize>,
}

/// The program name.
pub(super) const NAME: &str = "longhaul";

/// A copy of the command without hidden options and subcommands, which completion would otherwise offer.
pub(super) fn offered(command: &Command) -> Command {
    let is_shown = |argument: &&Arg| !argument.is_hide_set();
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set());
    let mut shown = Command::new(command.get_name().to_owned())
        .visible_aliases(command.get_visible_aliases().map(str::to_owned))
        .args(command.get_arguments().filter(is_shown).cloned())
        .subcommands(commands.map(offered));
    if let Some(about) = command.get_about() {
        shown = shown.about(about.clone());
    }
    match command.get_version() {
        Some(version) => shown.version(version.to_owned()),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::config::header;

    #[test]
    fn clap_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The arguments that a shell passes to `longhaul` for this line.
    fn shell_split(line: &str) -> Vec<String> {
        // A shell function in place of the program prints its arguments.
        let script = format!("longhaul() {{ printf '%s\\0' longhaul \"$@\"; }}\n{line}");
        let ran = std::process::Command::new("sh")
            .args(["-euc", &script])
            .env("HOME", "/home/somebody")
            .current_dir(tempfile::tempdir().unwrap().path())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{line}: {ran:?}");
        let args = String::from_utf8(ran.stdout).unwrap();
        args.split_terminator('\0').map(str::to_owned).collect()
    }

    /// The example command lines below a help text.
    fn examples(notes: &str) -> Vec<String> {
        let block = notes
            .split("\n\n")
            .find_map(|block| block.strip_prefix("Examples:\n"));
        let lines = block.unwrap_or_default().lines();
        lines.map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        let mut root = Cli::command().disable_help_subcommand(true);
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
            assert!(!examples.is_empty(), "{path:?} has no examples");
            for line in examples {
                count += 1;
                // Leave out the redirection, which a test must not run.
                let command_line = line.split(" >").next().unwrap();
                let args = shell_split(command_line);
                let found = Cli::command().try_get_matches_from(&args);
                let mut found = &found.unwrap_or_else(|error| panic!("{line}: {error}"));
                let mut named = Vec::new();
                while let Some((name, below)) = found.subcommand() {
                    named.push(name.to_owned());
                    found = below;
                }
                assert!(named.starts_with(&path), "{line} is an example of {path:?}");
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn invalid_header_error_omits_its_text() {
        assert!(header("Authorization: Bearer x").is_ok());
        for text in ["hunter2", ": hunter2", "a b: hunter2", "a: hunter2\r\nb: c"] {
            let error = header(text).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
