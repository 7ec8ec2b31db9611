//! `proxy`: an MCP server on stdio that stands for another one. stdout carries nothing but JSON-RPC.

use std::{
    io::{self, BufRead, Read as _},
    path::Path,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

use crate::{
    cli::{
        CliError, CliResult, Context, LiveEvent, LiveSession, Targets,
        args::ProxyArgs,
        code,
        environment::{block_on, random_bits, tool_timeout},
    },
    config,
    domain::{
        Collected, Program, ProxySettings, ServerConfigs, ServerRef, SessionRequest,
        SessionRequestId, server_url,
    },
    engine::{Inherited, SessionPurpose},
    proxy::{Effect, Proxy, ProxyInput, ProxyOptions, Unreadable},
    store::Reader,
    transport::stdio::outline::Outline,
};

/// The longest line that is read from the host.
const LINE_BYTES: u64 = 32 << 20;

/// Lines from the host that wait to be handled.
const LINES_WAITING: usize = 64;

/// The number of a request whose response nobody waits for; the proxy's own begin at 1.
const UNWATCHED: SessionRequestId = 0;

/// How soon after our stdin our stdout closes if the host was killed.
const BOTH_CLOSE_WITHIN: Duration = Duration::from_millis(100);

/// How long after the host has closed its end its last requests may take, and then the last notes.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// `proxy SERVER`.
pub(in crate::cli) fn proxy(context: &mut Context<'_>, args: &ProxyArgs) -> CliResult {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    let server = Targets::of(context, &mut reader)?.named(&args.server)?;
    let directory = std::env::current_dir().unwrap_or_default();
    let given = ProxySettings {
        patience: args.patience,
        on_cancel: args.on_cancel,
        ..ProxySettings::default()
    };
    let settings = given.or(&context.config()?.proxy_settings(&server.name));
    let server = in_directory(context, server, &directory);
    let options = ProxyOptions {
        settings,
        limits: context.config()?.default_limits().for_server(&server.name),
        server: server.name.clone(),
        flags: context.flags(),
        directory: directory.to_string_lossy().into_owned(),
        tool_timeout: tool_timeout(),
        seed: random_bits(),
    };
    let (sender, mut lines) = mpsc::channel(LINES_WAITING);
    std::thread::Builder::new()
        .name("host input".to_owned())
        .spawn(move || read_host(&mut io::stdin().lock(), &sender))
        .map_err(CliError::bug("start a thread"))?;
    block_on(async {
        let mut proxy = Proxy::new(options, context.clock.now());
        let (role, inherited) = (context.role()?, Inherited::default());
        let mut live = LiveSession::open_as(
            context,
            vec![server],
            role,
            inherited,
            SessionPurpose::Proxy,
        )?;
        let outcome = serve(context, &mut proxy, &mut live, &mut lines, &mut reader).await;
        let notes = end(context, &mut proxy, &mut live);
        // A result that is not marked as collected in time can be collected again.
        let _ = tokio::time::timeout(ENDS_WITHIN, notes).await;
        live.close();
        outcome
    })
}

/// The server for a host in `directory`: a stdio server without a `cwd` runs in that directory, as if the host had
/// started it.
fn in_directory(context: &Context<'_>, server: ServerRef, directory: &Path) -> ServerRef {
    let configured = context.configured(&server.name);
    let program = configured.and_then(|it| Some((&it.name, it.program.as_ref()?)));
    match (program, directory.to_str()) {
        (Some((entry, Program { cwd: None, .. })), Some(path)) if path.starts_with('/') => {
            ServerRef {
                name: entry.in_directory(path),
                url: Some(server_url::for_process_in(entry.as_str(), path)),
                ..server
            }
        }
        _ => server,
    }
}

/// Reads lines until the host closes its end. Of a line that is too long, only the id is kept.
fn read_host(input: &mut impl BufRead, lines: &mpsc::Sender<ProxyInput>) {
    loop {
        let mut line = Vec::new();
        let mut limited = input.by_ref().take(LINE_BYTES + 1);
        let Ok(1..) = limited.read_until(b'\n', &mut line) else {
            return;
        };
        let is_full = limited.limit() == 0;
        let has_end = line.pop_if(|byte| *byte == b'\n').is_some();
        if is_full && !has_end {
            let mut outline = Outline::default();
            outline.feed(&line);
            drop(line);
            if skip_line(input, &mut outline).is_err()
                || lines
                    .blocking_send(ProxyInput::TooLong {
                        id: outline.request(),
                    })
                    .is_err()
            {
                return;
            }
            continue;
        }
        let input = match String::from_utf8(line) {
            Ok(line) if line.trim().is_empty() => continue,
            Ok(line) => ProxyInput::FromHost(line),
            // It is answered like a line that is not JSON.
            Err(_) => ProxyInput::FromHost(String::new()),
        };
        if lines.blocking_send(input).is_err() {
            return;
        }
    }
}

/// Passes over the rest of a line.
fn skip_line(input: &mut impl BufRead, outline: &mut Outline) -> io::Result<()> {
    loop {
        let chunk = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            chunk => chunk?,
        };
        let end = memchr::memchr(b'\n', chunk);
        let rest = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        outline.feed(rest);
        let is_over = end.is_some() || chunk.is_empty();
        let read = rest.len() + usize::from(end.is_some());
        input.consume(read);
        if is_over {
            return Ok(());
        }
    }
}

async fn serve(
    context: &mut Context<'_>,
    proxy: &mut Proxy,
    live: &mut LiveSession,
    lines: &mut mpsc::Receiver<ProxyInput>,
    reader: &mut Reader,
) -> CliResult {
    // Set once the host has closed its end: what it asked before that still counts.
    let mut ends_at = None;
    loop {
        if ends_at.is_some() && !proxy.has_open_requests() {
            break;
        }
        let clock = context.clock;
        let timer = clock.sleep_until(proxy.next_wake());
        let end = clock.sleep_until(ends_at);
        let input = tokio::select! {
            from_host = lines.recv(), if ends_at.is_none() => from_host.unwrap_or_else(|| {
                ends_at = Some(clock.now().mono.after(ENDS_WITHIN));
                end_of_input(BOTH_CLOSE_WITHIN)
            }),
            () = end => break,
            event = live.next(context) => match event? {
                LiveEvent::Session(event) => ProxyInput::Session(event),
                LiveEvent::Interrupted | LiveEvent::Terminated => {
                    ends_at = Some(clock.now().mono);
                    end_of_input(BOTH_CLOSE_WITHIN)
                }
            },
            () = timer => ProxyInput::Timer,
        };
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let effects = proxy.handle(context.clock.now(), input);
            // Before anything is asked: a snapshot that comes from then on is wanted.
            for effect in &effects {
                if let Effect::Ask(_, SessionRequest::Collected { id, how }) = effect
                    && *how == Collected::Delivered
                {
                    live.forget(id);
                }
            }
            for effect in effects {
                match effect {
                    Effect::ToHost(mut message) => {
                        let out = &mut *context.terminal.out;
                        message.push('\n');
                        let is_written =
                            out.write_all(message.as_bytes()).and_then(|()| out.flush());
                        if is_written.is_err() {
                            // The host no longer reads, and does not have what was to be written.
                            let is_reading = false;
                            proxy.handle(clock.now(), ProxyInput::EndOfInput { is_reading });
                            return Ok(code::OK);
                        }
                    }
                    Effect::Ask(number, request) => {
                        tell_changes(context, live);
                        live.send_as(number, request);
                    }
                    Effect::ReadResult(task) => {
                        let result = reader.result(&task);
                        let result = result.map_err(|error| Unreadable(error.to_string()));
                        inputs.push(ProxyInput::Result { task, result });
                    }
                }
            }
        }
    }
    if proxy.has_open_calls() {
        context.warn(
            "stdin was closed before all calls were answered; they continue: see `longhaul ls`",
        );
    }
    Ok(code::OK)
}

/// Tells the session the servers of the configuration if they have changed: a host can stay connected for days.
fn tell_changes(context: &mut Context<'_>, live: &LiveSession) {
    if let Some(servers) = config::changed_servers(&mut context.config_mark) {
        let config = ServerConfigs {
            insecure_http: context.global.insecure_http,
            ..servers
        };
        live.send_as(UNWATCHED, SessionRequest::Configure(config));
    }
}

/// The host has closed our stdin, or wants us to exit. A host that still reads our stdout does so deliberately; if it was
/// killed, both close, one right after the other, `within` some time.
fn end_of_input(within: Duration) -> ProxyInput {
    let wait = Timespec::try_from(within).ok();
    let stdout = io::stdout();
    // Linux reports it unasked, macOS does not.
    let mut ends = [PollFd::new(&stdout, PollFlags::HUP)];
    let is_reading = matches!(poll(&mut ends, wait.as_ref()), Ok(0));
    ProxyInput::EndOfInput { is_reading }
}

/// Sends the last notes and cancels, and waits until the session has all of them.
async fn end(
    context: &mut Context<'_>,
    proxy: &mut Proxy,
    live: &mut LiveSession,
) -> CliResult<()> {
    // What was written since the end of the input: a script may send its requests at once and then only read.
    let mut inputs = vec![end_of_input(Duration::ZERO), ProxyInput::HostClosed];
    loop {
        for input in inputs {
            for effect in proxy.handle(context.clock.now(), input) {
                if let Effect::Ask(number, request) = effect {
                    live.send_as(number, request);
                }
            }
        }
        if !proxy.has_open_notes() {
            return Ok(());
        }
        inputs = match live.next(context).await? {
            LiveEvent::Session(event) => vec![ProxyInput::Session(event)],
            LiveEvent::Interrupted | LiveEvent::Terminated => return Ok(()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_too_long_are_passed_over() {
        let padding = "x".repeat(usize::try_from(LINE_BYTES).unwrap());
        let call = |id: &str, rest: &str| {
            format!("{{{id}\"method\":\"a\",\"params\":[\"{padding}\"]{rest}}}\n")
        };
        let mut text =
            (call("\"id\":7,", "") + &call("", ",\"id\":1.50") + &call("", "") + &padding)
                .into_bytes();
        text.extend(b"x\nshort\n\n\xff\nlast");
        let (sender, mut lines) = mpsc::channel(10);
        read_host(&mut io::BufReader::new(&text[..]), &sender);
        let mut read = || lines.try_recv().unwrap();
        for id in [Some("7"), Some("1.50"), None, None] {
            assert!(matches!(read(), ProxyInput::TooLong { id: found } if found.as_deref() == id));
        }
        for expected in ["short", "", "last"] {
            assert!(matches!(read(), ProxyInput::FromHost(line) if line == expected));
        }
        assert!(lines.try_recv().is_err());
    }
}
