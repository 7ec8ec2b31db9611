//! The command line as data: flags, commands and their help.

use std::{path::PathBuf, time::Duration};

use clap::{
    Args, Parser, Subcommand, ValueEnum,
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
    #[arg(short, long = "server", value_name = "NAME|URL", global = true)]
    pub(super) server: Vec<String>,
    /// The saved session to use [default: default]
    #[arg(long, value_name = "NAME", global = true)]
    pub(super) session: Option<String>,
    // Not read through clap, which would show it in every usage line as required.
    /// Where sessions are kept [env: LONGHAUL_STATE_DIR]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) state_dir: Option<PathBuf>,
    /// One JSON document, or one JSON object a line while something is followed.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// When to use colour.
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    pub(super) color: Color,
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
    /// The MCP revision to speak.
    #[arg(long, value_name = "REVISION", default_value = "auto", global = true)]
    pub(super) protocol: ProtocolChoice,
    /// A header for the server, as 'Name: value'; used, never stored.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header, global = true)]
    pub(super) header: Vec<Header>,
    /// Send the content of this environment variable as bearer token; used, never stored.
    #[arg(long, value_name = "VAR", global = true)]
    pub(super) bearer_env: Option<String>,
    /// Let -H and --bearer-env go over plain http to another machine, where they can be read on the way.
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
    #[command(alias = "run")]
    #[command(after_help = help("  longhaul call get_forecast city=Lisbon\n  longhaul call reindex shard=4 'tags:=[\"a\"]' --name 'nightly reindex'\n  echo '{\"shard\": 4}' | longhaul call reindex --args -\n  longhaul call reindex shard=4 --detach --once nightly-2026-11-20"))]
    Call(Call),
    /// Run a task again, with the same or changed arguments.
    #[command(alias = "rerun")]
    #[command(after_help = help("  longhaul again q7m\n  longhaul again q7m shard=5 'tags:=[\"b\"]'"))]
    Again(Again),
    /// List the tasks of the session; reads the file, contacts nobody.
    #[command(alias = "ps")]
    #[command(after_help = format!("{LS_STATES}\n\n{}", help("  longhaul ls\n  longhaul ls --status running --status paused\n  longhaul ls --all --json")))]
    Ls(Ls),
    /// Everything that is known of a task.
    #[command(after_help = help("  longhaul show q7m\n  longhaul show q7m --json"))]
    Show(One),
    /// The result of a task.
    #[command(after_help = help("  longhaul result q7m\n  longhaul result q7m --out 'report 2026.txt'"))]
    Result(ResultOf),
    /// The history of a task.
    #[command(after_help = help("  longhaul logs q7m -n 20\n  longhaul logs q7m -f --since 10m"))]
    Logs(Logs),
    /// Open the screen on a task.
    #[command(after_help = help("  longhaul attach\n  longhaul attach q7m"))]
    Attach(Attach),
    /// Follow a task in lines: its history first, then live; ends with its outcome.
    #[command(after_help = help("  longhaul watch q7m\n  longhaul watch q7m --new --json"))]
    Watch(Watch),
    /// Wait until tasks have ended; ends with the first outcome that is not a success.
    #[command(after_help = help("  longhaul wait q7m k3v\n  longhaul wait q7m k3v --any"))]
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
    #[command(after_help = help("  longhaul answer k3v\n  longhaul answer k3v --accept count=3 'tags:=[\"a\"]'\n  longhaul answer k3v --defaults\n  longhaul answer k3v --decline"))]
    Answer(Answer),
    /// Take tasks into the list that a server has and this session does not know.
    #[command(after_help = help("  longhaul adopt -s lab\n  longhaul adopt -s lab 786512e2-9e0d\n  longhaul adopt -s lab --client-id nightly-7\n  longhaul adopt -s lab --client-id nightly-7 task-1 dataset=eu\n  longhaul adopt --from session_state.json"))]
    Adopt(Adopt),
    /// Forget tasks here; nothing is sent. Can be undone for seven days.
    #[command(after_help = help("  longhaul rm q7m k3v\n  longhaul rm --undo q7m"))]
    Rm(Rm),
    /// Forget every task that has ended.
    #[command(after_help = help("  longhaul clean\n  longhaul clean --older 7d"))]
    Clean(Clean),
    /// Where the files of this session are.
    #[command(after_help = help("  longhaul paths\n  longhaul --session nightly paths --json"))]
    Paths,
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
    /// Cancel it after so long without anything new, e.g. 90s, 10m, 2h.
    #[arg(long, value_name = "D", value_parser = text::read_duration)]
    pub(super) idle_timeout: Option<Duration>,
    /// Cancel it so long after its start.
    #[arg(long, value_name = "D", value_parser = text::read_duration)]
    pub(super) max_time: Option<Duration>,
    /// What becomes of the server's questions: ask (they wait for `longhaul answer`), defaults, decline.
    #[arg(long, value_name = "WHAT", value_parser = on_input())]
    pub(super) on_input: Option<OnInput>,
}

/// `ls`.
#[derive(Debug, Args)]
pub(super) struct Ls {
    /// Forgotten tasks too.
    #[arg(long)]
    pub(super) all: bool,
    /// Only tasks of this status.
    #[arg(long, value_name = "STATUS", value_parser = status_word())]
    pub(super) status: Vec<&'static str>,
    /// Only tasks that wait for you.
    #[arg(long)]
    pub(super) needs_me: bool,
    /// Only tasks that ended and that you have not seen yet.
    #[arg(long)]
    pub(super) new: bool,
    /// Only tasks with this tag.
    #[arg(long)]
    pub(super) tag: Option<String>,
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

/// `attach`.
#[derive(Debug, Args)]
pub(super) struct Attach {
    /// The task; a unique beginning of its id is enough.
    pub(super) id: Option<String>,
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
    #[arg(required = true)]
    pub(super) ids: Vec<String>,
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
    /// The server's id of one task; without it, everything that the server lists.
    #[arg(value_name = "SERVER_TASK_ID", conflicts_with = "from")]
    pub(super) server_task: Option<String>,
    /// With --client-id: the arguments of that task, where the server's list does not show them.
    #[arg(value_name = "KEY=VALUE", requires = "client_id")]
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
    #[arg(required = true)]
    pub(super) ids: Vec<String>,
    /// Bring them back.
    #[arg(long)]
    pub(super) undo: bool,
}

/// `clean`.
#[derive(Debug, Args)]
pub(super) struct Clean {
    /// Only tasks that ended longer ago than this, e.g. 7d.
    #[arg(long, value_name = "D", value_parser = text::read_duration)]
    pub(super) older: Option<Duration>,
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

fn header(text: &str) -> Result<Header, String> {
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

    #[test]
    fn a_header_that_is_none_is_refused_without_its_text() {
        assert!(header("Authorization: Bearer x").is_ok());
        for text in ["hunter2", ": hunter2", "a b: hunter2", "a: hunter2\r\nb: c"] {
            let words = header(text).unwrap_err();
            assert!(!words.contains("hunter2"), "{words}");
        }
    }
}
