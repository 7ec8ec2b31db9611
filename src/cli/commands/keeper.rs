//! `keeper`: the background process that drives the session.

mod install;
mod upgrade;

use serde_json::json;

use crate::{
    cli::{
        CliError, CliResult, Context, LiveEvent, LiveSession,
        args::KeeperArgs,
        code,
        environment::{block_on, runtime},
        json as documents, log,
    },
    domain::{IfCut, SessionDriver, SessionEvent, Task, Wall, text, unsaved_reason},
    engine::{
        Inherited, KeeperError, KeeperStatus, ProcessRole, READY, RelayError, SessionPurpose,
        detach, inherit, keeper_status, leave_terminal, relay, run_trial, stop_keeper,
    },
    store::{ListFilter, Reader},
    transport::guard_processes,
};

/// What `keeper upgrade` has the new program do.
const TAKE_OVER: &str = "take over from the running keeper";

/// `keeper` with all its commands.
pub(in crate::cli) fn keeper(context: &mut Context<'_>, command: &KeeperArgs) -> CliResult {
    match command {
        KeeperArgs::Status => status(context),
        KeeperArgs::Stop { force } => stop(context, *force),
        KeeperArgs::Log { lines } => print_log(context, *lines),
        KeeperArgs::Connect => connect(context),
        KeeperArgs::Install => install::install(context),
        KeeperArgs::Guard => {
            guard_processes(std::io::stdin().lock());
            Ok(code::OK)
        }
        KeeperArgs::Upgrade { now, yes, to } => {
            upgrade::upgrade(context, *now, *yes, to.as_deref())
        }
        KeeperArgs::Run { trial: true, .. } => run_trial_of(context),
        KeeperArgs::Run {
            background,
            inherit,
            ..
        } => run(context, *background, *inherit),
    }
}

impl From<KeeperError> for CliError {
    fn from(error: KeeperError) -> Self {
        let code = match error {
            KeeperError::NotAKeeper(_) => code::REFUSED,
            _ => code::DRIVER_SILENT,
        };
        Self::new(code, error.to_string())
    }
}

/// Serves as the far end of a tunnel.
fn connect(context: &mut Context<'_>) -> CliResult {
    let ProcessRole::Client(keeper) = context.role()? else {
        let message = "the keeper is switched off here, so there is nothing to connect to";
        return Err(CliError::usage(message.to_owned()));
    };
    let runtime = runtime()?;
    let ended = runtime.block_on(relay(&context.paths, &keeper));
    // A thread still waits for standard input.
    runtime.shutdown_background();
    ended.map_err(|error| {
        let code = match &error {
            RelayError::Keeper(error) => error.exit(),
            RelayError::Socket(_) => code::DRIVER_SILENT,
        };
        CliError::new(code, error.to_string())
    })?;
    Ok(code::OK)
}

fn status(context: &mut Context<'_>) -> CliResult {
    let found = keeper_status(&context.paths)?;
    report(context, found.as_ref(), |what| what)
}

fn stop(context: &mut Context<'_>, is_forced: bool) -> CliResult {
    context.may_act()?;
    if !is_forced
        && let Some(status) = keeper_status(&context.paths)?
        && status.unsaved > 0
    {
        let message = format!(
            "the keeper was not stopped, because changes to {} are not saved yet: {}. Fix the cause (longhaul keeps trying to save), or discard the changes: `longhaul keeper stop --force`",
            text::plural(status.unsaved, "task"),
            unsaved_reason(status.unsaved_why.as_deref())
        );
        return Err(CliError::new(code::CANNOT_SAVE, message));
    }
    let tasks = Reader::open(&context.paths).and_then(|mut it| it.tasks(ListFilter::default()));
    let is_lost = |task: &&Task| IfCut::of_task(task).is_some_and(|it| it.is_lost());
    let lost = tasks.iter().flatten().filter(is_lost);
    let lost: Vec<&str> = lost.map(|task| task.id.as_str()).collect();
    let found = stop_keeper(&context.paths)?;
    if found.is_some() && !lost.is_empty() {
        let calls = text::plural(lost.len(), "call");
        let verb = if lost.len() == 1 { "was" } else { "were" };
        let ids = lost.join(", ");
        context.warn(format!(
            "{calls} {verb} cut off and can't be resumed: {ids}"
        ));
    }
    report(context, found.as_ref(), |what| format!("stopped {what}"))
}

/// Prints what drives the session, as a line or as JSON.
fn report(
    context: &mut Context<'_>,
    status: Option<&KeeperStatus>,
    line: impl Fn(String) -> String,
) -> CliResult {
    let document = json!({ "keeper": status.map(documents::keeper) });
    let Some(status) = status else {
        let session = &context.paths.session;
        let next = match context.role()? {
            ProcessRole::Drive => "none is started, because keepers are switched off here",
            _ => "the next command that needs one starts it",
        };
        let line = format!("no keeper is running for session {session}; {next}");
        return context.answer(&document, &line);
    };
    let kind = if status.is_keeper {
        "keeper process"
    } else {
        "no keeper; calls run in process"
    };
    let now = context.clock.now().wall;
    let unsaved = match status.unsaved {
        0 => String::new(),
        unsaved => {
            let why = unsaved_reason(status.unsaved_why.as_deref());
            format!(" ({unsaved} not saved: {why})")
        }
    };
    let what = format!(
        "{kind} {}, longhaul {}, up {}, {}{unsaved}, {}",
        status.pid,
        status.version,
        text::span(now.since(Wall(status.since_ms))),
        text::plural(status.unsettled, "unfinished task"),
        text::plural(status.clients, "client"),
    );
    context.answer(&document, &line(what))
}

fn print_log(context: &mut Context<'_>, lines: Option<usize>) -> CliResult {
    let path = context.paths.log();
    let log = match std::fs::read(&path) {
        Ok(log) => log,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            context.info("no keeper has written a log for this session");
            return Ok(code::OK);
        }
        Err(error) => {
            let message = format!("could not read {}: {error}", path.display());
            return Err(CliError::new(code::CANNOT_SAVE, message));
        }
    };
    let log = String::from_utf8_lossy(&log);
    let all: Vec<&str> = log.lines().collect();
    let first = lines.map_or(0, |lines| all.len().saturating_sub(lines));
    context.print_lines(all.iter().skip(first))?;
    Ok(code::OK)
}

/// Drives the session until nothing is left to do, a client stops it, or a signal arrives.
fn run(context: &mut Context<'_>, background: bool, inherits: bool) -> CliResult {
    context.may_act()?;
    let inherited = if inherits {
        inherit().map_err(CliError::bug(TAKE_OVER))?
    } else {
        Inherited::default()
    };
    if background && !inherits {
        detach().map_err(CliError::bug("detach from the terminal"))?;
    }
    log::start_keeper_log(&context.paths)?;
    let ended = block_on(drive(context, background, inherited));
    match &ended {
        Ok(_) => tracing::info!("the keeper has exited"),
        Err(fail) => {
            tracing::error!("{}", fail.message());
            if background {
                // The client that started it waits for this line.
                let line = format!("{} {}", fail.code(), text::clean_line(fail.message()));
                let out = &mut *context.terminal.out;
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            }
        }
    }
    ended
}

/// Works for a keeper that becomes this program.
fn run_trial_of(context: &mut Context<'_>) -> CliResult {
    let error = context.config().err();
    let obstacle = error.map(|error| error.message().to_owned());
    run_trial(&context.paths, obstacle.as_deref()).map_err(CliError::bug(TAKE_OVER))?;
    Ok(code::OK)
}

/// Moves to where a logout does not end the keeper, on a thread of its own: D-Bus may be slow.
#[cfg(target_os = "linux")]
fn enter_own_scope() {
    let systemd = crate::cli::environment::systemd();
    let thread = std::thread::Builder::new().name("systemd scope".to_owned());
    if let Err(error) = thread.spawn(move || systemd.enter_own_scope()) {
        tracing::warn!("no systemd scope: {error}");
    }
}

async fn drive(context: &mut Context<'_>, background: bool, inherited: Inherited) -> CliResult {
    let is_upgrade = inherited.is_something();
    let mut live = LiveSession::open_as(
        context,
        Vec::new(),
        ProcessRole::Keeper,
        inherited,
        SessionPurpose::Command,
    )?;
    // The engine does the work; this thread sleeps until something ends the keeper.
    live.subscription.ignore_views();
    loop {
        match live.next(context).await? {
            LiveEvent::Session(SessionEvent::Driver(SessionDriver { is_us, pid, .. })) => {
                tracing::info!(pid, is_us, "keeper started");
                if background {
                    let out = &mut *context.terminal.out;
                    let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
                    leave_terminal();
                    #[cfg(target_os = "linux")]
                    if is_us && !is_upgrade {
                        enter_own_scope();
                    }
                }
                if !is_us {
                    live.close();
                    let message = format!("process {pid} already runs this session's calls");
                    return if background {
                        Ok(code::OK)
                    } else {
                        Err(CliError::usage(message))
                    };
                }
                if !background {
                    context.report(&format!(
                        "keeper {pid} is running; `longhaul keeper stop` stops it"
                    ));
                }
            }
            LiveEvent::Session(SessionEvent::Undriven)
            | LiveEvent::Interrupted
            | LiveEvent::Terminated => {
                live.close();
                return Ok(code::OK);
            }
            LiveEvent::Session(_) => {}
        }
    }
}
