//! `demo`: the built-in server and a separate session to try things on.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use crate::{
    cli::{
        CliError, CliResult, Context,
        args::{self, DemoArgs},
        code,
        environment::random_bits,
        screen,
    },
    demo::{self, DemoError, DemoOptions},
    domain::{LinkRecord, NewCall, ProtocolVersion, ServerName, ServerRef, SessionRequest, TaskId},
    engine::stop_unused_keeper,
    store::{DriverLock, ListFilter},
};

/// Name of the server in the demo session.
const SERVER: &str = "demo";

/// Name of the same server, reached with the 2026-07-28 protocol.
const MODERN: &str = "demo-modern";

/// A background server exits after this long without calls and clients.
const IDLE_EXIT: Duration = Duration::from_secs(120);

impl From<DemoError> for CliError {
    fn from(error: DemoError) -> Self {
        let code = match error {
            DemoError::NotRunning { .. }
            | DemoError::AlreadyRunning { .. }
            | DemoError::Refused(_) => code::REFUSED,
            _ => code::UNREACHABLE,
        };
        Self::new(code, error.to_string())
    }
}

/// `demo` with all its options.
pub(in crate::cli) fn run(context: &mut Context<'_>, args: &DemoArgs) -> CliResult {
    let dir = context.paths.demo_dir();
    if args.stop || args.reset || args.fault.is_some() {
        context.may_act()?;
    }
    if args.serve {
        serve(context, args, &dir)
    } else if args.stop {
        demo::stop(&dir)?;
        report(context, "demo server stopped")
    } else if args.reset {
        reset(context, &dir)
    } else if let Some(fault) = args.fault {
        let message = demo::control(&dir, fault)?;
        report(context, &message)
    } else {
        open(context, &dir)
    }
}

fn serve(context: &mut Context<'_>, args: &DemoArgs, dir: &Path) -> CliResult {
    let idle_exit = if args.background {
        demo::detach().map_err(CliError::bug("detach from the terminal"))?;
        Some(IDLE_EXIT)
    } else {
        None
    };
    let options = DemoOptions {
        dir: data_dir(context, args, dir),
        port: args.port,
        cross_stream_replay: args.cross_stream_replay,
        idle_exit,
    };
    demo::run_blocking(options, &mut *context.terminal.out)?;
    Ok(code::OK)
}

/// The data directory of a server: `dir`, or one per port if `--port` is set while the demo runs on another port. A
/// directory per port is used from then on.
fn data_dir(context: &mut Context<'_>, args: &DemoArgs, dir: &Path) -> PathBuf {
    let Some(port) = args.port.filter(|port| *port != 0 && !args.background) else {
        return dir.to_owned();
    };
    let port_dir = dir.with_file_name(format!("demo-{port}"));
    if port_dir.exists() {
        return port_dir;
    }
    // A server on the same port fails to start, with an error that says how to stop the other one.
    let is_other = |it: &demo::RunningServer| !it.url.contains(&format!(":{port}/"));
    let Some(running) = demo::find_running(dir).filter(is_other) else {
        return dir.to_owned();
    };
    context.info(&format!(
        "the demo is still running at {} (`longhaul demo --stop` stops it), so this server keeps its data in {}",
        running.url,
        port_dir.display()
    ));
    port_dir
}

fn reset(context: &mut Context<'_>, dir: &Path) -> CliResult {
    // If that fails, the lock says that the session is in use.
    let _ = stop_unused_keeper(&context.paths, true);
    let Some(lock) = DriverLock::try_take(&context.paths)? else {
        let who = DriverLock::holder(&context.paths);
        let who = who.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        return Err(CliError::usage(format!(
            "the demo is open ({who} runs its session); quit its screen first"
        )));
    };
    match demo::stop(dir) {
        Ok(()) | Err(DemoError::NotRunning { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let message = format!("could not remove {}: {error}", dir.display());
            return Err(CliError::new(code::CANNOT_SAVE, message));
        }
        _ => {}
    }
    lock.remove_session(&context.paths)?;
    report(context, "demo reset")
}

/// Prints what was done, as a line or as JSON.
fn report(context: &mut Context<'_>, message: &str) -> CliResult {
    context.answer(&json!({"done": message}), message)
}

/// Starts the server and opens the screen, which starts the first calls of a new demo.
fn open(context: &mut Context<'_>, dir: &Path) -> CliResult {
    context.may_act()?;
    // Fails before anything is started.
    screen::check(context)?;
    let exe = std::env::current_exe().map_err(CliError::bug("find the longhaul executable"))?;
    let state: OsString = context.paths.dir.clone().into();
    let args = ["demo", "--serve", "--background", "--state-dir"].map(OsString::from);
    let args: Vec<OsString> = args.into_iter().chain([state]).collect();
    let running = demo::start_in_background(dir, &exe, &args)?;
    let (mut reader, notices) = context.reader_to_show()?;
    let is_new = reader
        .tasks(ListFilter {
            all: true,
            limit: Some(1),
        })?
        .is_empty();
    let known = reader.links()?;
    // Both protocol eras are pinned, because the demo shows them side by side.
    let server = |name: &str, version: ProtocolVersion| {
        let name = server_name(&known, &running.url, name, version);
        ServerRef {
            protocol: Some(version.label().to_owned()),
            ..ServerRef::new(name, Some(running.url.clone()))
        }
    };
    let servers = vec![
        server(SERVER, ProtocolVersion::V20251125),
        server(MODERN, ProtocolVersion::V20260728),
    ];
    let caller = servers.first().filter(|_| is_new);
    let calls = caller.map_or(Vec::new(), |server| first_calls(&server.name));
    let extra = screen::ScreenOptions {
        reopens_with: format!(
            "longhaul demo{}",
            context.flags_to(&context.paths.session, args::DEMO_SESSION)
        ),
        servers,
        requests: calls
            .into_iter()
            .map(|call| SessionRequest::Start(Box::new(call)))
            .collect(),
        notices,
        is_demo: true,
        ..screen::ScreenOptions::default()
    };
    // Even with nothing to do, the server stays for as long as the screen that shows it.
    let _held = demo::hold(dir);
    screen::show(context, None, extra)
}

/// The server's name in the session. If the server now runs at another URL, this is a new name, so that old tasks keep
/// their URL.
fn server_name(
    known: &[LinkRecord],
    url: &str,
    base: &str,
    version: ProtocolVersion,
) -> ServerName {
    let is_same = |link: &&LinkRecord| {
        let is_pinned = |pinned: ProtocolVersion| pinned.era() == version.era();
        let is_named = link.name.as_str().starts_with(base);
        link.url == url && link.pinned_version.map_or(is_named, is_pinned)
    };
    if let Some(link) = known.iter().find(is_same) {
        return link.name.clone();
    }
    ServerName::free(base, |name| {
        known.iter().any(|link| link.name.as_str() == name)
    })
}

/// The calls that a new demo starts: about 4, 3 and 10 minutes long.
///
/// Their steps are short, so that each call has a rate and a time left within a second.
fn first_calls(server: &ServerName) -> Vec<NewCall> {
    let call = |name: &str, tool: &str, arguments: serde_json::Value| {
        let id = TaskId::from_bits(random_bits());
        let arguments = arguments.to_string();
        NewCall {
            name: Some(name.to_owned()),
            ..NewCall::new(id, server.clone(), tool.to_owned(), arguments)
        }
    };
    let processing = "resumable_data_processing";
    vec![
        call(
            "forecast for Lisbon",
            "get_forecast",
            json!({"city": "Lisbon", "stations": 1200, "delay_ms": 200}),
        ),
        call(
            "customers of 2026",
            processing,
            json!({"dataset_name": "customers-2026", "total_records": 900, "batch_size": 1, "delay_ms": 200}),
        ),
        call(
            "the whole archive",
            processing,
            json!({"dataset_name": "archive", "total_records": 60_000, "batch_size": 25, "delay_ms": 250}),
        ),
    ]
}
