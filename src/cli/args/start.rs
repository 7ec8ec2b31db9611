//! The arguments of the commands that start, adopt and answer calls.

use std::path::PathBuf;

use clap::{Args, builder::NonEmptyStringValueParser};

use crate::{
    cli::arg_values::{Limit, limit, one_of},
    domain::OnInput,
};

/// `call`.
#[derive(Debug, Args)]
pub(in crate::cli) struct CallArgs {
    /// The tool.
    pub(in crate::cli) tool: String,
    /// Arguments: key=value (converted to the tool's type), or key:=json.
    #[arg(value_name = "KEY=VALUE")]
    pub(in crate::cli) pairs: Vec<String>,
    /// All arguments as a JSON object; @FILE reads a file, - reads stdin.
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(in crate::cli) args: Option<String>,
    /// Reuse the task with this key, if there is one, instead of starting another.
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new())]
    pub(in crate::cli) once: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) how: StartArgs,
}

/// `again`.
#[derive(Debug, Args)]
pub(in crate::cli) struct AgainArgs {
    /// The task to repeat; a unique prefix of its id is enough.
    pub(in crate::cli) id: String,
    /// Arguments to change: key=value or key:=json.
    #[arg(value_name = "KEY=VALUE")]
    pub(in crate::cli) pairs: Vec<String>,
    /// Run again without asking, even if the server marks the tool as destructive.
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    #[command(flatten)]
    pub(in crate::cli) how: StartArgs,
}

/// Options of `call` and `again`.
#[derive(Debug, Args)]
pub(in crate::cli) struct StartArgs {
    /// Name for the new task.
    #[arg(long)]
    pub(in crate::cli) name: Option<String>,
    /// Tag for the new task, for filters.
    #[arg(long)]
    pub(in crate::cli) tag: Option<String>,
    /// Print the id and exit; the keeper runs the call. With --no-keeper, exit as soon as the call can be resumed; refuse
    /// a call that can't be resumed.
    #[arg(long)]
    pub(in crate::cli) detach: bool,
    /// Send the arguments even if they don't match the tool's schema.
    #[arg(long)]
    pub(in crate::cli) unchecked: bool,
    /// Give up after this long without activity, and ask the server to cancel: 90s, 10m, 2h or off.
    #[arg(long, value_name = "D", value_parser = limit)]
    pub(in crate::cli) idle_timeout: Option<Limit>,
    /// Give up this long after the start, and ask the server to cancel: 90s, 10m, 2h or off.
    #[arg(long, value_name = "D", value_parser = limit)]
    pub(in crate::cli) max_time: Option<Limit>,
    /// How to handle questions from the server [default: ask]. `defaults` accepts the defaults, but asks if a required field has none. Without a terminal, longhaul doesn't ask: it exits with code 6 and leaves the question for `longhaul answer`
    #[arg(long, value_name = "WHAT", value_parser = one_of::<OnInput>())]
    pub(in crate::cli) on_input: Option<OnInput>,
}

/// `answer`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "command-line flags are independent of each other"
)]
pub(in crate::cli) struct AnswerArgs {
    /// The task; a unique prefix of its id is enough.
    pub(in crate::cli) id: String,
    /// Values to submit (implies --accept): key=value or key:=json; key:=null omits a field. Other fields keep their defaults.
    #[arg(value_name = "KEY=VALUE", conflicts_with = "no")]
    pub(in crate::cli) pairs: Vec<String>,
    /// Accept, with the given values; if the question has a URL, agree to open it.
    #[arg(long, conflicts_with = "no")]
    pub(in crate::cli) accept: bool,
    /// Accept with the defaults; refused if a required field has none.
    #[arg(long, group = "no")]
    pub(in crate::cli) defaults: bool,
    /// Refuse to answer.
    #[arg(long, group = "no")]
    pub(in crate::cli) decline: bool,
    /// Close the question without choosing (the MCP action `cancel`, which doesn't cancel the task); the server may ask again.
    #[arg(long, alias = "cancel", group = "no")]
    pub(in crate::cli) dismiss: bool,
    /// The question to answer, if there are several [default: the oldest]
    #[arg(long, value_name = "KEY")]
    pub(in crate::cli) key: Option<String>,
}

/// `adopt`.
#[derive(Debug, Args)]
pub(in crate::cli) struct AdoptArgs {
    /// Server task id [default: all tasks on the server or in the file]
    #[arg(value_name = "SERVER_TASK_ID")]
    pub(in crate::cli) server_task: Option<String>,
    /// With --client-id or --from: the task's arguments, if they aren't in the server's list or the file.
    #[arg(value_name = "KEY=VALUE", requires = "source")]
    pub(in crate::cli) pairs: Vec<String>,
    /// Continue this client's tasks from their checkpoints, as listed by the server's list_session_tasks.
    #[arg(long, value_name = "ID", group = "source")]
    pub(in crate::cli) client_id: Option<String>,
    /// Continue the unfinished tasks in a client's JSON state file (with client_id and active_tasks), under that client id.
    #[arg(long, value_name = "FILE", group = "source")]
    pub(in crate::cli) from: Option<PathBuf>,
    /// With --client-id or --from: import without asking.
    #[arg(long, requires = "source")]
    pub(in crate::cli) yes: bool,
}
