//! `demo`: the embedded server and a session of its own to break and to come back to.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use serde_json::json;

use super::{
    Context, args, dice,
    fail::{Fail, code},
    screen,
};
use crate::{
    demo::{self, DemoError, DemoOptions},
    domain::{
        LinkRecord, NewCall, ProtocolVersion, ServerConfigs, ServerName, ServerRef, SessionRequest,
        TaskId,
    },
    store::{DriverLock, ListFilter},
};

/// The server's name there.
const SERVER: &str = "demo";
/// The same server by its other era.
const MODERN: &str = "demo-modern";
/// A server in the background ends after this long without work and without anybody.
const IDLE: Duration = Duration::from_secs(120);

impl From<DemoError> for Fail {
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

/// `demo` and its variants.
pub(super) fn run(context: &mut Context<'_>, what: &args::Demo) -> Result<ExitCode, Fail> {
    let dir = context.paths.demo_dir();
    if what.serve {
        serve(context, what, &dir)
    } else if what.stop {
        context.may_act()?;
        demo::stop(&dir)?;
        said(context, "the demo server has stopped")
    } else if what.reset {
        reset(context, &dir)
    } else if let Some(fault) = what.fault {
        let said = demo::control(&dir, fault)?;
        self::said(context, &said)
    } else {
        open(context, &dir)
    }
}

fn serve(context: &mut Context<'_>, what: &args::Demo, dir: &Path) -> Result<ExitCode, Fail> {
    let idle_exit = if what.background {
        demo::detach().map_err(|error| {
            Fail::new(code::BUG, format!("could not leave the terminal: {error}"))
        })?;
        Some(IDLE)
    } else {
        None
    };
    let options = DemoOptions {
        dir: free_dir(context, what, dir),
        port: what.port,
        cross_stream_replay: what.cross_stream_replay,
        idle_exit,
    };
    demo::run_blocking(options, context.terminal.writer())?;
    Ok(ExitCode::from(code::OK))
}

/// Where a server keeps its data: beside the demo's, where a port is named and the demo was running on another one when that
/// was first asked for.
fn free_dir(context: &mut Context<'_>, what: &args::Demo, dir: &Path) -> PathBuf {
    let Some(port) = what.port.filter(|port| *port != 0 && !what.background) else {
        return dir.to_owned();
    };
    let beside = dir.with_file_name(format!("demo-{port}"));
    if beside.exists() {
        return beside;
    }
    // The same server again is refused, which says how to stop it.
    let is_other = |it: &demo::RunningServer| !it.url.contains(&format!(":{port}/"));
    let Some(running) = demo::find_running(dir).filter(is_other) else {
        return dir.to_owned();
    };
    context.terminal.remark(&format!(
        "the demo is still running at {} (longhaul demo --stop ends it); this server keeps its data in {}",
        running.url,
        beside.display()
    ));
    beside
}

fn reset(context: &mut Context<'_>, dir: &Path) -> Result<ExitCode, Fail> {
    let Some(lock) = DriverLock::try_take(&context.paths)? else {
        let who = DriverLock::holder(&context.paths);
        let who = who.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        return Err(Fail::usage(format!(
            "{who} uses the demo's session; leave it first, then reset"
        )));
    };
    match demo::stop(dir) {
        Ok(()) | Err(DemoError::NotRunning { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let words = format!("could not remove {}: {error}", dir.display());
            return Err(Fail::new(code::CANNOT_SAVE, words));
        }
        _ => {}
    }
    context.paths.remove(lock)?;
    said(context, "demo reset")
}

/// What was done, in words or as a document.
fn said(context: &mut Context<'_>, words: &str) -> Result<ExitCode, Fail> {
    if context.global.json {
        let document = json!({"done": words});
        context
            .terminal
            .document(&super::json::text_of(&document))?;
    } else {
        context.terminal.line(words)?;
    }
    Ok(ExitCode::from(code::OK))
}

/// The server at work, then the screen, which starts the first calls of a new demo.
fn open(context: &mut Context<'_>, dir: &Path) -> Result<ExitCode, Fail> {
    context.may_act()?;
    // Said before anything is started.
    screen::check(context)?;
    let exe = std::env::current_exe()
        .map_err(|error| Fail::new(code::BUG, format!("could not find this program: {error}")))?;
    let state: OsString = context.paths.dir().into();
    let args: Vec<OsString> = ["demo", "--serve", "--background", "--state-dir"]
        .into_iter()
        .map(OsString::from)
        .chain([state])
        .collect();
    let running = demo::start_in_background(dir, &exe, &args)?;
    let (mut reader, remarks) = context.reader_to_show()?;
    let is_new = reader
        .tasks(ListFilter {
            all: true,
            limit: Some(1),
        })?
        .is_empty();
    let known = reader.links()?;
    // The demo shows both eras side by side, so neither is left to be chosen.
    let server = |name: &str, version: ProtocolVersion| ServerRef {
        name: name_of(&known, &running.url, name, version),
        url: Some(running.url.clone()),
        headers: Vec::new(),
        filled: Vec::new(),
        protocol: Some(version.label().to_owned()),
    };
    let servers = vec![
        server(SERVER, ProtocolVersion::V20251125),
        server(MODERN, ProtocolVersion::V20260728),
    ];
    let calls = if is_new {
        servers
            .first()
            .map_or(Vec::new(), |server| first_calls(&server.name))
    } else {
        Vec::new()
    };
    let extra = screen::Extra {
        server_configs: ServerConfigs::default(),
        drives: false,
        reopens_with: format!("longhaul demo{}", context.flags_beside(args::DEMO_SESSION)),
        servers,
        asks: calls
            .into_iter()
            .map(|call| SessionRequest::Start(Box::new(call)))
            .collect(),
        remarks,
        is_demo: true,
    };
    screen::show(context, None, extra)
}

/// The server's name in the session; another one if its port was taken meanwhile, so that old tasks keep their URL.
fn name_of(known: &[LinkRecord], url: &str, base: &str, version: ProtocolVersion) -> ServerName {
    let is_it = |link: &&LinkRecord| {
        let is_pinned = |pinned: ProtocolVersion| pinned.era() == version.era();
        let is_named = link.name.as_str().starts_with(base);
        link.url == url && link.pinned_version.map_or(is_named, is_pinned)
    };
    if let Some(link) = known.iter().find(is_it) {
        return link.name.clone();
    }
    let is_free = |name: &ServerName| known.iter().all(|link| link.name != *name);
    let numbered = (2..).map(|number| format!("{base}-{number}"));
    std::iter::once(base.to_owned())
        .chain(numbered)
        .map(ServerName::new)
        .find(is_free)
        .unwrap_or_else(|| ServerName::new(base))
}

/// The calls that a new demo begins with: about four, three and ten minutes long.
///
/// Their steps are short, so that within a second each has shown enough of them for a rate and a time left.
fn first_calls(server: &ServerName) -> Vec<NewCall> {
    let call = |name: &str, tool: &str, arguments: serde_json::Value| {
        let id = TaskId::from_bits(dice());
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
