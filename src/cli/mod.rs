//! The command line: arguments in, lines and exit codes out.
//!
//! Owns the commands, their output and their exit codes, and is the only module that reads environment variables. Must
//! not know of wire formats or SQL: it sends requests to the engine and reads through the store. Invariants: data goes to
//! stdout and everything else to stderr; history is printed from committed entries, once and in order; text from a server
//! is sanitized before it is printed, except with `--raw`.

mod arg_values;
mod args;
mod arguments;
mod client_state;
mod commands;
mod complete;
mod context;
mod detach;
mod environment;
mod error;
mod export;
mod follow;
mod format;
mod history;
mod host;
mod json;
mod live_session;
mod log;
mod outcome;
mod prompt;
mod questions;
mod screen;
mod server_args;
mod target;
mod task_document;
mod terminal;

use std::{
    ffi::OsString,
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

use clap::Parser as _;

#[doc(hidden)]
pub use self::client_state::{ClientState, ClientTask};
use self::{
    args::{Cli, CliCommand},
    environment::logins,
    terminal::Terminal,
};
// What most commands use.
use self::{
    context::Context,
    error::{CliError, CliResult, code},
    history::{HistoryPrinter, OutputStyle},
    live_session::{LiveEvent, LiveSession},
    target::Targets,
};
use crate::{
    cli::{error::StdoutLoss, server_args::ServersCommand},
    config,
    engine::Clock,
    store::{Paths, StoreError, is_session_name, survive_file_size_limit},
    term::{guard, interruptible::InterruptibleWriter},
};

/// Runs the program. `args` begins with the program name; data goes to `out`, everything else to stderr.
pub fn run(args: impl IntoIterator<Item = OsString>, out: &mut dyn Write) -> ExitCode {
    if let Some(shell) = std::env::var_os(complete::VARIABLE).filter(|it| !it.is_empty()) {
        complete::print_candidates(&shell, args.into_iter().collect(), out);
        return ExitCode::from(code::OK);
    }
    let args: Vec<OsString> = args.into_iter().collect();
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => {
            let is_error = error.use_stderr();
            let text = error.render().to_string();
            let written = if is_error {
                // The error repeats the arguments, which a script may have received from a server.
                let text = crate::domain::text::clean_block(&text);
                write!(std::io::stderr().lock(), "{text}")
            } else {
                write!(out, "{text}").and_then(|()| out.flush())
            };
            // A closed stdout is not an error for help.
            let _ = written;
            return ExitCode::from(if is_error { code::REFUSED } else { code::OK });
        }
    };
    let mut err = InterruptibleWriter::new(std::io::stderr());
    let (is_quiet, is_ascii) = (cli.global.quiet, cli.global.ascii);
    let terminal = Terminal::new(out, &mut err, is_quiet, is_ascii);
    guard::install_panic_hook();
    // If this fails, a write beyond the limit ends the process, which is the default.
    let _ = survive_file_size_limit();
    let outcome = catch_unwind(AssertUnwindSafe(|| dispatch(cli, &args, terminal)));
    let Ok(outcome) = outcome else {
        return ExitCode::from(code::BUG);
    };
    let code = match outcome {
        Ok(code) => code,
        // The reader has enough, as in `longhaul ls | head`.
        Err(CliError::StdoutUnread(StdoutLoss::Closed)) => code::OK,
        Err(CliError::StdoutUnread(StdoutLoss::Stalled)) => code::INTERRUPTED,
        Err(CliError::Message { code, text: words }) => {
            let mut terminal = Terminal::new(out, &mut err, is_quiet, is_ascii);
            terminal.warn(words);
            code
        }
    };
    // A background thread panicked.
    let is_bug = guard::has_panicked();
    ExitCode::from(if is_bug { code::BUG } else { code })
}

fn dispatch(cli: Cli, arguments: &[OsString], mut terminal: Terminal<'_>) -> CliResult {
    let Cli {
        mut global,
        command,
    } = cli;
    let is_doctor = matches!(command, Some(CliCommand::Doctor));
    let config_mark = config::mark();
    let config = match config::missing() {
        Some(message) if is_doctor => Err(message),
        Some(message) if !ignores_missing_config(command.as_ref()) => {
            return Err(message.into());
        }
        _ => config::read(config::path().as_deref()),
    };
    let defaults = config.as_ref().map(|it| &it.defaults).ok();
    let default_session = defaults
        .and_then(|it| it.session.clone())
        // `doctor` reports a wrong name instead of failing.
        .filter(|name| !is_doctor || is_session_name(name))
        .unwrap_or_else(|| args::DEFAULT_SESSION.to_owned());
    if let Some(defaults) = defaults {
        global.color = global.color.or(defaults.color);
        global.ascii |= defaults.ascii;
        global.no_motion |= defaults.no_motion;
        terminal.ending = terminal::ending(global.ascii);
    }
    let host = host::host_of(&global, defaults);
    if let Some(host) = &host
        && !host::is_local(command.as_ref())
    {
        let arguments = arguments.get(1..).unwrap_or_default();
        return host::run_there(host, &global, arguments);
    }
    let command_default = match &command {
        // The demo has its own session.
        #[cfg(feature = "demo")]
        Some(CliCommand::Demo(_)) => args::DEMO_SESSION,
        _ => &default_session,
    };
    let session = global.session.as_deref().unwrap_or(command_default);
    let from_environment = || {
        std::env::var_os(args::STATE_DIR)
            .filter(|dir| !dir.is_empty())
            .map(std::path::PathBuf::from)
    };
    let state_dir = global.state_dir.clone().or_else(from_environment);
    let mut startup_errors = Vec::new();
    let paths = match Paths::resolve(state_dir.clone(), session) {
        // `doctor` reports what cannot be opened instead of failing.
        Err(error) if is_doctor && !matches!(error, StoreError::BadName(_)) => {
            startup_errors.push(format!("could not {error}"));
            Paths::unopened(state_dir, session)?
        }
        Err(error) => {
            // They name the line of a wrong session name.
            let notices = config.iter().flat_map(|it| &it.notices);
            notices.for_each(|notice| terminal.warn(notice));
            return Err(error.into());
        }
        Ok(paths) => paths,
    };
    let paths = paths.speaking(environment::contract());
    match log::start_log(&global, &paths) {
        Err(fail) if is_doctor => startup_errors.push(fail.message().to_owned()),
        started => started?,
    }
    let logins = logins(&paths, defaults);
    let context = Context {
        logins,
        global,
        paths,
        terminal,
        clock: Clock::start(),
        config,
        config_mark,
        default_session,
        reached_as: host::reached_as(command.as_ref(), host.as_deref()),
    };
    run_command(context, command, host.as_deref(), startup_errors)
}

/// Runs a command; the commands that an error suggests get the options that they need.
fn run_command(
    mut context: Context<'_>,
    command: Option<CliCommand>,
    host: Option<&str>,
    startup_errors: Vec<String>,
) -> CliResult {
    context.complete_suggestions();
    let outcome = commands::carry_out(&mut context, command, host, startup_errors);
    outcome.map_err(|error| match error {
        CliError::Message { code, text } => CliError::Message {
            code,
            text: context.terminal.with_flags(&text),
        },
        other @ CliError::StdoutUnread(_) => other,
    })
}

/// Whether a command runs although the configuration file is missing, because it creates or does not use that file.
fn ignores_missing_config(command: Option<&CliCommand>) -> bool {
    matches!(
        command,
        Some(
            CliCommand::Paths
                | CliCommand::Man(_)
                | CliCommand::Completions { .. }
                | CliCommand::Servers {
                    command: ServersCommand::Add(_) | ServersCommand::Import(_)
                }
        )
    )
}
