//! `doctor`: checks the terminal, files, sessions, configuration and servers.
//!
//! Invariants: it drives no session, starts nothing and writes nothing except a traffic record with `--trace`, so that it
//! can run beside other longhauls; it prints no header, no token and no part of a URL but the origin.

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use url::Url;

use super::{
    Context,
    args::DoctorArgs,
    block_on, config,
    error::{CliError, code},
    json as documents,
    screen::capabilities,
    target::Targets,
};
use crate::{
    app::SMALLEST,
    auth::{AuthError, TokenState},
    domain::{
        CheckpointConvention, ColorDepth, DesktopProtocol, Program, ServerConfig, ServerName,
        ServerObstacle as Needs, ServerRef, server_url, text,
    },
    engine::{Flow, Obstacle, Probe, Recording, Stateful, probe},
    store::{DriverLock, Paths, Reader, StoreError},
    term::{caps::NotificationSupport, osc::Multiplexer},
};

/// With less free space than this, a session may soon fail to save.
const LOW_DISK_BYTES: u64 = 200_000_000;
/// With less free space than this, results are not saved.
const DISK_FULL_BYTES: u64 = 5_000_000;
/// The largest session file to check for damage; takes about a second.
const MAX_CHECKED_BYTES: u64 = 1_000_000_000;
/// The most checkpoint tools listed by name.
const MAX_NAMED_TOOLS: usize = 4;

/// The widest column for subjects; a longer subject shifts only its own line.
const MAX_SUBJECT_COLS: usize = 28;

/// The severity of a check result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Ok,
    Warning,
    Wrong,
}

impl Severity {
    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// The result of one check.
struct Check {
    /// E.g. `terminal`, `disk` or `server lab`.
    subject: String,
    severity: Severity,
    message: String,
    /// What to do about it.
    next: Option<String>,
}

#[derive(Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn ok(&mut self, subject: &str, message: impl Into<String>) {
        self.add(subject, Severity::Ok, message.into(), None);
    }

    fn warning(&mut self, subject: &str, message: impl Into<String>, next: impl Into<String>) {
        self.add(
            subject,
            Severity::Warning,
            message.into(),
            Some(next.into()),
        );
    }

    fn wrong(&mut self, subject: &str, message: impl Into<String>, next: impl Into<String>) {
        self.add(subject, Severity::Wrong, message.into(), Some(next.into()));
    }

    fn add(&mut self, subject: &str, severity: Severity, message: String, next: Option<String>) {
        self.0.push(Check {
            subject: subject.to_owned(),
            severity,
            message,
            next,
        });
    }
}

/// `doctor`.
///
/// `startup_errors` are failures to open the state directory or the log, which other commands exit with.
pub(super) fn doctor(
    context: &mut Context<'_>,
    args: &DoctorArgs,
    startup_errors: Vec<String>,
) -> Result<u8, CliError> {
    let mut checks = Checks::default();
    checks.ok(
        "longhaul",
        format!(
            "{} on {} {}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH
        ),
    );
    terminal(context, &mut checks);
    for message in startup_errors {
        checks.add("state", Severity::Wrong, message, None);
    }
    files(context, &mut checks);
    disk(context.paths.dir(), &mut checks);
    configuration(context, &mut checks);
    sessions(context, &mut checks);
    logins(context, &mut checks);
    proxies(&mut checks);
    if !args.offline {
        servers(context, &mut checks);
    }
    let is_wrong = checks
        .0
        .iter()
        .any(|check| check.severity == Severity::Wrong);
    print(context, &checks)?;
    Ok(if is_wrong {
        code::TOOL_FAILED
    } else {
        code::OK
    })
}

fn print(context: &mut Context<'_>, checks: &Checks) -> Result<(), CliError> {
    if context.global.json {
        let check = |it: &Check| json!({"of": it.subject, "verdict": it.severity.label(), "words": it.message, "next": it.next});
        let all: Vec<Value> = checks.0.iter().map(check).collect();
        return context
            .terminal
            .print_json(&documents::pretty(&Value::Array(all)));
    }
    let width = checks.0.iter().map(|check| text::width(&check.subject));
    let width = width.max().unwrap_or(0).min(MAX_SUBJECT_COLS);
    for check in &checks.0 {
        let next = check
            .next
            .as_ref()
            .map_or(String::new(), |next| format!("; {next}"));
        let (label, subject) = (check.severity.label(), &check.subject);
        let line = format!("{label:<8} {subject:<width$}  {}{next}", check.message);
        context.terminal.print(&text::clean_line(&line))?;
    }
    Ok(())
}

fn terminal(context: &Context<'_>, checks: &mut Checks) {
    const OF: &str = "terminal";
    if !context.terminal.is_for_people() {
        checks.ok(OF, "none, so only commands work, not the screen");
        return;
    }
    let term = std::env::var_os("TERM").unwrap_or_default();
    let term = term.to_string_lossy();
    let capabilities = capabilities(context);
    if capabilities.has_cursor {
        checks.ok(OF, format!("TERM is {term}"));
    } else {
        checks.wrong(
            OF,
            format!("TERM is {term:?}, which cannot move the cursor, so the screen does not work"),
            "set TERM to the type of your terminal, e.g. xterm-256color",
        );
    }
    if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
        let (columns, rows) = (size.ws_col, size.ws_row);
        if columns == 0 || rows == 0 {
            checks.ok(OF, "unknown size");
        } else if columns >= SMALLEST.0 && rows >= SMALLEST.1 {
            checks.ok(OF, format!("{columns} columns, {rows} rows"));
        } else {
            checks.warning(
                OF,
                format!("{columns} columns and {rows} rows are too small for the screen"),
                format!("enlarge it to at least {} by {}", SMALLEST.0, SMALLEST.1),
            );
        }
    }
    checks.ok(
        OF,
        match capabilities.colour {
            ColorDepth::Mono => "no colors; text and symbols show the same",
            ColorDepth::Ansi16 => "16 colors",
            ColorDepth::Ansi256 => "256 colors",
            ColorDepth::Truecolor => "true color",
        },
    );
    if capabilities.is_unicode {
        checks.ok(OF, "UTF-8");
    } else {
        checks.warning(
            OF,
            "the locale is not UTF-8, so only ASCII is shown",
            "set LANG, e.g. to C.UTF-8",
        );
    }
    notifications(context, capabilities.notifications, checks);
}

/// How the terminal can reach the user outside the screen.
fn notifications(context: &Context<'_>, known: NotificationSupport, checks: &mut Checks) {
    const OF: &str = "terminal";
    let aside = match &context.config {
        Ok(config) => known.with_overrides(&config.notify),
        Err(_) => known,
    };
    let desktop = match aside.desktop {
        Some(DesktopProtocol::Osc9) => "notifications with OSC 9",
        Some(DesktopProtocol::Osc777) => "notifications with OSC 777",
        Some(DesktopProtocol::Osc99) => "notifications with OSC 99",
        None => "no known way to notify",
    };
    let progress = if aside.has_progress {
        "taskbar progress with OSC 9;4"
    } else {
        "no known taskbar progress"
    };
    checks.ok(OF, format!("{desktop}, {progress}; copying with OSC 52"));
    if aside.multiplexer == (Multiplexer::Tmux { passthrough: false }) {
        checks.warning(
            OF,
            "tmux blocks notifications and progress unless passthrough is allowed",
            "run `tmux set -g allow-passthrough on`, and set tmux_passthrough = true in [notify] of the configuration",
        );
    }
}

/// Owner and mode of our directories and files.
fn files(context: &Context<'_>, checks: &mut Checks) {
    let paths = &context.paths;
    let mut check = |path: PathBuf, is_secret: bool| {
        let Ok(found) = fs::symlink_metadata(&path) else {
            return;
        };
        let shown = path.display().to_string();
        let mode = found.mode() & 0o777;
        let others = if is_secret { 0o077 } else { 0o022 };
        if found.uid() != rustix::process::geteuid().as_raw() {
            let next = format!("change its owner (`chown`), or use another directory: {shown}");
            checks.wrong("paths", format!("{shown} belongs to another user"), next);
        } else if mode & others != 0 {
            let next = format!("chmod go-rwx {}", super::quoted(&shown));
            let message = format!("other users have access to {shown} (mode {mode:o})");
            checks.warning("paths", message, next);
        } else {
            checks.ok("paths", format!("{shown} (mode {mode:o})"));
        }
    };
    check(paths.sessions_dir(), true);
    check(paths.db(), true);
    check(paths.log(), true);
    check(paths.logins(), true);
    if let Some(path) = config::path() {
        check(path, false);
    }
}

/// The file of sign-ins, which all sessions share.
fn logins(context: &Context<'_>, checks: &mut Checks) {
    const OF: &str = "sign-ins";
    let logins = &context.logins;
    match logins.read() {
        Ok(file) if file.logins.is_empty() => {}
        Ok(file) => {
            let count = u64::try_from(file.logins.len()).unwrap_or(u64::MAX);
            let protection = match logins.check_sealed() {
                Ok(()) => "encrypted with a key from the keychain".to_owned(),
                Err(why) => format!("not encrypted, readable only by you (mode 0600): {why}"),
            };
            checks.ok(
                OF,
                format!("{}, {protection}", text::plural(count, "server")),
            );
        }
        Err(error @ AuthError::Damaged { .. }) => {
            let next = "the next `longhaul login` sets it aside and starts a new one";
            checks.wrong(OF, error.to_string(), next);
        }
        Err(error) => checks.wrong(
            OF,
            error.to_string(),
            "saved sign-ins are not used until this is fixed",
        ),
    }
}

fn disk(dir: &Path, checks: &mut Checks) {
    const OF: &str = "disk";
    let free = match rustix::fs::statvfs(dir) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => {
            let message = format!("could not get the free space in {}: {error}", dir.display());
            return checks.warning(OF, message, "check it with df");
        }
    };
    let message = format!("{} free in the state directory", text::bytes(free));
    if free < DISK_FULL_BYTES {
        checks.wrong(
            OF,
            message,
            "free some space; tasks are not shown as done until they are saved",
        );
    } else if free < LOW_DISK_BYTES {
        checks.warning(OF, message, "free some space before a long task");
    } else {
        checks.ok(OF, message);
    }
}

fn configuration(context: &Context<'_>, checks: &mut Checks) {
    const OF: &str = "config";
    match &context.config {
        Err(message) => checks.wrong(
            OF,
            message.clone(),
            "no server can be used until this is fixed",
        ),
        Ok(config) => {
            for notice in &config.notices {
                checks.warning(OF, notice.clone(), "the rest of the file is used");
            }
            let count = config.servers.len();
            let count = text::plural(u64::try_from(count).unwrap_or(u64::MAX), "server");
            checks.ok(OF, format!("{count} configured"));
            let links = Reader::open(&context.paths).and_then(|mut reader| reader.links());
            let is_known = |name: &str| {
                config.servers.iter().any(|it| it.name.as_str() == name)
                    // An unreadable session is reported by its own check.
                    || links.as_ref().map_or(true, |links| links.iter().any(|it| it.name.as_str() == name))
            };
            let default = config.defaults.server.as_deref();
            if let Some(default) = default.filter(|name| !is_known(name)) {
                checks.warning(
                    OF,
                    format!("[defaults] has server = {default:?}, but no such server is known"),
                    format!(
                        "correct it, or add the server: longhaul servers add {} URL",
                        super::quoted(default)
                    ),
                );
            }
        }
    }
}

fn sessions(context: &Context<'_>, checks: &mut Checks) {
    let all = match context.paths.all() {
        Ok(all) => all,
        Err(error) => {
            let message = format!("could not {error}");
            return checks.add("sessions", Severity::Wrong, message, None);
        }
    };
    for paths in all {
        let session = paths.session();
        let subject = format!("session {session}");
        if session.contains(".damaged-") {
            checks.warning(
                &subject,
                "a damaged file that was set aside",
                format!(
                    "if you no longer need it: longhaul sessions rm {session} --force{}",
                    context.flags_to("", "")
                ),
            );
            continue;
        }
        driver(&subject, &paths, checks);
        integrity(&subject, &paths, checks);
    }
}

/// Which process is the driver, and whether it accepts connections.
fn driver(subject: &str, paths: &Paths, checks: &mut Checks) {
    let Some(pid) = DriverLock::holder(paths) else {
        return checks.ok(subject, "no driver");
    };
    match UnixStream::connect(paths.socket()) {
        Ok(_) => checks.ok(subject, format!("driven by process {pid}")),
        Err(error) => checks.wrong(
            subject,
            format!("process {pid} holds its lock but does not accept connections ({error})"),
            format!("if this persists, run `kill {pid}`; saved data is safe"),
        ),
    }
}

fn integrity(subject: &str, paths: &Paths, checks: &mut Checks) {
    let size = paths.size();
    let next = "the next driver sets it aside and starts a new one";
    let found = Reader::open(paths).and_then(|mut reader| {
        if size > MAX_CHECKED_BYTES {
            reader.links().map(|_| None)
        } else {
            reader.check().map(Some)
        }
    });
    let is_empty = size == 0;
    let size = text::bytes(size);
    match found {
        // The error says what happens next.
        Err(error @ StoreError::Damaged { .. }) => {
            checks.add(subject, Severity::Wrong, format!("could not {error}"), None);
        }
        Err(error) => checks.wrong(subject, format!("could not {error}"), next),
        Ok(_) if is_empty => checks.wrong(
            subject,
            "empty file (0 B); any tasks in it are lost",
            "look for a backup, or for a copy that was set aside",
        ),
        Ok(None) => checks.ok(
            subject,
            format!("readable ({size}, too large to check for damage)"),
        ),
        Ok(Some(found)) if found.is_empty() => checks.ok(subject, format!("intact ({size})")),
        Ok(Some(found)) => checks.wrong(subject, format!("damaged: {}", found.join("; ")), next),
    }
}

/// The proxy variables of the environment, without user names and passwords.
fn proxies(checks: &mut Checks) {
    const OF: &str = "proxy";
    let mut is_any = false;
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"] {
        let value = [name.to_owned(), name.to_lowercase()]
            .iter()
            .find_map(|name| std::env::var_os(name)?.into_string().ok())
            .filter(|value| !value.is_empty());
        let Some(value) = value else {
            continue;
        };
        is_any = true;
        match Url::parse(&value) {
            Ok(url) if url.has_host() => {
                let host = url.host_str().unwrap_or_default();
                let port = url.port_or_known_default();
                let port = port.map_or(String::new(), |port| format!(":{port}"));
                checks.ok(
                    OF,
                    format!("{name}={host}{port} (bypassed for this machine)"),
                );
            }
            _ => checks.warning(
                OF,
                format!("{name} is not a URL"),
                "write it as http://HOST:PORT, or unset it",
            ),
        }
    }
    if !is_any {
        checks.ok(OF, "none set in the environment");
    }
}

fn servers(context: &Context<'_>, checks: &mut Checks) {
    let found = Reader::open(&context.paths)
        .map_err(CliError::from)
        .and_then(|mut reader| probe_targets(context, &mut reader));
    let targets = match found {
        Ok(targets) => targets,
        Err(CliError::Message { text: words, .. }) => {
            return checks.wrong("servers", words, "then run doctor again");
        }
        Err(CliError::StdoutUnread(_)) => return,
    };
    let has_unapproved = unapproved(context, checks);
    if targets.is_empty() && !has_unapproved {
        checks.ok(
            "servers",
            "none yet; add one with `longhaul servers add NAME URL`",
        );
    }
    for (name, server, url) in targets {
        let subject = format!("server {name}");
        let server = match server {
            Ok(server) => server,
            Err(CliError::Message { text: words, .. }) => {
                checks.wrong(&subject, words, "then run doctor again");
                continue;
            }
            Err(CliError::StdoutUnread(_)) => return,
        };
        if server_url::is_process(&url) {
            if !check_config_obstacle(context, &subject, &server.name, checks) {
                let name = super::quoted(server.name.as_str());
                checks.ok(
                    &subject,
                    format!(
                        "stdio, approved; started when needed; test it with `longhaul servers test {name}`"
                    ),
                );
            }
            continue;
        }
        if check_config_obstacle(context, &subject, &server.name, checks) {
            continue;
        }
        let is_new = server.url.is_some();
        let headers = server.headers.into_iter().chain(server.config_headers);
        let headers = headers.map(|(name, value)| (name, SecretString::from(value)));
        let mut headers: Vec<(String, SecretString)> = headers.collect();
        let token = token_state(context, &url, &headers);
        let advice = CredentialAdvice::of(context, &server.name, is_new, &headers, &token);
        if let TokenState::Valid(secret) = &token {
            let value = format!("Bearer {}", secret.expose_secret());
            headers.push(("Authorization".to_owned(), value.into()));
        }
        let has_expired = matches!(token, TokenState::Expired);
        let recording = recording(context, &server.name, &subject, checks);
        let probed = block_on(async { Ok(probe(&url, headers, recording).await) });
        let probe = probed.as_ref().ok();
        if let Some(why) = probe.and_then(|probe| probe.unrecorded.as_ref()) {
            checks.warning(&subject, why.clone(), "the checks still ran");
        }
        match probed {
            Ok(Probe {
                stateful: Err(Obstacle::NeedsLogin),
                modern: None,
                ..
            }) if has_expired => checks.warning(
                &subject,
                "its sign-in token has expired",
                "the next call renews it if it can",
            ),
            Ok(probe) => {
                let config = context.config().ok();
                let convention = config.map(|config| config.convention(&server.name));
                let convention = convention.unwrap_or_default();
                report(&subject, &url, &probe, &advice, &convention, checks);
            }
            Err(CliError::Message { text: words, .. }) => {
                checks.wrong(&subject, words, "try again");
            }
            Err(CliError::StdoutUnread(_)) => return,
        }
    }
}

/// Where to record the requests to a server, if recording is on. Only the driver may write the record while there is one.
fn recording<'c>(
    context: &'c Context<'_>,
    server: &'c ServerName,
    subject: &str,
    checks: &mut Checks,
) -> Option<Recording<'c>> {
    let config = context.config().ok();
    let mut configured = config.iter().flat_map(|config| &config.servers);
    let is_traced = configured.any(|it| it.name == *server && it.trace);
    if !(context.global.trace || is_traced) {
        return None;
    }
    if let Some(pid) = DriverLock::holder(&context.paths) {
        let message = format!(
            "not recorded, because only the driver of this session (process {pid}) can record"
        );
        let flags = context.flags();
        let next = format!(
            "run `longhaul{flags} --trace servers test {}`, which the driver records",
            super::quoted(server.as_str())
        );
        checks.warning(subject, message, next);
        return None;
    }
    Some(Recording {
        paths: &context.paths,
        server,
        clock: context.clock,
    })
}

/// Reports the stdio servers that are not approved, which [`Targets::choices`] leaves out; returns whether there are any.
fn unapproved(context: &Context<'_>, checks: &mut Checks) -> bool {
    let Ok(config) = &context.config else {
        return false;
    };
    let named = &context.global.server;
    let is_selected = |name: &str| named.is_empty() || named.iter().any(|it| it == name);
    let unapproved = config.servers.iter().filter(|server| {
        server.program.is_some() && server.withheld.is_some() && is_selected(server.name.as_str())
    });
    let mut is_any = false;
    for server in unapproved {
        let subject = format!("server {}", server.name);
        is_any |= check_config_obstacle(context, &subject, &server.name, checks);
    }
    is_any
}

/// Reports what the user must do before a configured server can be used; returns whether there is anything to do.
fn check_config_obstacle(
    context: &Context<'_>,
    subject: &str,
    name: &ServerName,
    checks: &mut Checks,
) -> bool {
    let config = context.config.as_ref().ok();
    let server = config.and_then(|config| config.servers.iter().find(|it| it.name == *name));
    let Some(mut server) = server.cloned() else {
        return false;
    };
    // Headers on the command line replace those of the configuration.
    let has_headers = !server.headers.is_empty();
    let cli_headers = &context.global.header;
    server.headers.retain(|(header, _)| {
        let is_on_cli = cli_headers
            .iter()
            .any(|it| it.name.eq_ignore_ascii_case(header));
        let is_bearer =
            context.global.bearer_env.is_some() && header.eq_ignore_ascii_case("authorization");
        !is_on_cli && !is_bearer
    });
    if has_headers && server.headers.is_empty() {
        return false;
    }
    let obstacle = server.obstacle(|variable| super::env_secret(variable).is_some());
    let name = super::quoted(name.as_str());
    match obstacle {
        Some(obstacle @ Needs::Approval) => checks.warning(
            subject,
            format!("stdio, {}, so it is not started", obstacle.message()),
            format!("review it with `longhaul servers approve {name}`"),
        ),
        Some(Needs::Consent(variables)) => checks.warning(
            subject,
            format!(
                "needs consent for {}, so nothing is sent there",
                variables.join(", ")
            ),
            format!("review it with `longhaul servers consent {name}`"),
        ),
        Some(obstacle @ Needs::Variables(_)) => checks.wrong(
            subject,
            format!("{}, not set here", obstacle.message()),
            "set it where you start longhaul",
        ),
        None => {
            let why = server.program.as_ref().and_then(why_not_started);
            let is_any = why.is_some();
            if let Some(why) = why {
                checks.wrong(
                    subject,
                    format!("stdio, approved, but it cannot start: {why}"),
                    "install it, or correct it in the configuration",
                );
            }
            return is_any;
        }
    }
    true
}

/// Why a program cannot start, as far as can be told without starting it.
fn why_not_started(program: &Program) -> Option<String> {
    let cwd = program.cwd.as_deref().map(Path::new);
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        return Some(format!("its directory {} does not exist", cwd.display()));
    }
    let is_executable = |path: PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    };
    let command = &program.command;
    if command.contains('/') {
        let path = cwd.map_or_else(|| PathBuf::from(command), |cwd| cwd.join(command));
        return (!is_executable(path))
            .then(|| format!("{command} does not exist or is not executable"));
    }
    // The program gets its own PATH, in which its command is looked up.
    if program.env.iter().any(|(name, _)| name == "PATH") {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    let is_found = std::env::split_paths(&path).any(|dir| is_executable(dir.join(command)));
    (!is_found).then(|| format!("{command} is not in PATH"))
}

/// What to report for a server that needs credentials: what was sent, and what to do.
struct CredentialAdvice {
    message: String,
    next: String,
}

impl CredentialAdvice {
    /// `is_new`: the server was selected by its URL, so that its name is not stored yet.
    fn of(
        context: &Context<'_>,
        name: &ServerName,
        is_new: bool,
        headers: &[(String, SecretString)],
        token: &TokenState,
    ) -> Self {
        let login = if is_new {
            "`longhaul login URL`".to_owned()
        } else {
            let name = super::quoted(name.as_str());
            format!("`longhaul login {name}{}`", context.flags())
        };
        let config = context.config.as_ref().ok();
        let server = config.and_then(|config| config.servers.iter().find(|it| it.name == *name));
        let variables = server.map(ServerConfig::variables).unwrap_or_default();
        let (message, next) = if matches!(token, TokenState::Valid(_)) {
            (
                "refused the saved sign-in".to_owned(),
                format!("sign in again with {login}"),
            )
        } else if headers.is_empty() {
            (
                "requires credentials".to_owned(),
                format!(
                    "sign in with {login}, or pass them with -H, --bearer-env or a header in the configuration"
                ),
            )
        } else if variables.is_empty()
            || !context.global.header.is_empty()
            || context.global.bearer_env.is_some()
        {
            let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
            (
                format!("refused the credentials in {}", names.join(", ")),
                "pass others with -H, --bearer-env or a header in the configuration".to_owned(),
            )
        } else {
            let variables = variables.join(", $");
            (
                format!("refused the credentials from ${variables}"),
                format!("check ${variables} where you start longhaul"),
            )
        };
        Self { message, next }
    }
}

/// The saved sign-in that the driver would use for this URL.
fn token_state(context: &Context<'_>, url: &str, headers: &[(String, SecretString)]) -> TokenState {
    let has_authorization = headers
        .iter()
        .any(|(name, _)| name.trim().eq_ignore_ascii_case("authorization"));
    let is_private = |url: &Url| !server_url::is_cleartext(url) || context.global.insecure_http;
    let url = Url::parse(url).ok();
    let Some(url) = url.filter(|url| !has_authorization && is_private(url)) else {
        return TokenState::SignedOut;
    };
    // An unreadable file is reported by its own check.
    context
        .logins
        .token_state(&url, context.clock.now().wall)
        .unwrap_or(TokenState::SignedOut)
}

/// A server, its reference for the engine, and its URL.
type ProbeTarget = (ServerName, Result<ServerRef, CliError>, String);

/// The servers to check: those from `-s`, else all. Each can fail on its own.
fn probe_targets(context: &Context<'_>, reader: &mut Reader) -> Result<Vec<ProbeTarget>, CliError> {
    let all = Targets::of(context, reader)?;
    let named = all.names().into_iter().cloned().collect::<Vec<_>>();
    let urls = all.urls();
    let mut found: Vec<ProbeTarget> = all
        .choices()
        .filter(|(name, _)| named.is_empty() || named.contains(name))
        .filter_map(|(name, server)| {
            let (_, url) = urls.iter().find(|(known, _)| known == name)?;
            Some((name.clone(), server, url.clone()))
        })
        .collect();
    if named.is_empty() {
        return Ok(found);
    }
    // `choices` lacks a server that is selected by a new URL.
    for server in all.all()? {
        if let Some(url) = server.url.clone()
            && !found.iter().any(|(known, ..)| *known == server.name)
        {
            found.push((server.name.clone(), Ok(server), url));
        }
    }
    Ok(found)
}

fn report(
    subject: &str,
    url: &str,
    probe: &Probe,
    advice: &CredentialAdvice,
    convention: &CheckpointConvention,
    checks: &mut Checks,
) {
    let origin = Url::parse(url).map_or_else(
        |_| server_url::redacted(url).into_owned(),
        |url| url.origin().ascii_serialization(),
    );
    let answered = match &probe.stateful {
        Ok(answered) => Some(answered),
        Err(Obstacle::Refused(_) | Obstacle::Strange(_)) if probe.modern.is_some() => None,
        Err(obstacle) => return report_failure(subject, &origin, obstacle, advice, checks),
    };
    let tls = if url.starts_with("https:") {
        "over TLS with a valid certificate"
    } else if Url::parse(url).is_ok_and(|url| server_url::is_loopback(&url)) {
        "on this machine"
    } else {
        "without encryption"
    };
    let Some(answered) = answered else {
        checks.ok(
            subject,
            format!("{origin} answers {tls}; it supports only MCP 2026-07-28"),
        );
        return report_resumability(subject, None, probe.modern, convention, checks);
    };
    let who = answered.server_info.as_deref().unwrap_or("unnamed server");
    checks.ok(
        subject,
        format!(
            "{origin} answers in {} ms {tls}: {who}, MCP {}",
            answered.took.as_millis(),
            answered.version
        ),
    );
    report_resumability(subject, Some(answered), probe.modern, convention, checks);
    let is_here = Url::parse(url).is_ok_and(|url| server_url::is_loopback(&url));
    match answered.flow {
        Flow::AtOnce(took) => checks.ok(
            subject,
            format!("its stream is not buffered (first bytes after {} ms)", took.as_millis()),
        ),
        // Not a proof of buffering: some servers start only response streams with an event.
        Flow::HeldBack if !is_here => checks.warning(
            subject,
            "its standalone stream is silent although its responses start with an event; a buffering proxy may be holding \
             streams back, which would delay or hide progress",
            "if there is a proxy, turn off its buffering (nginx: proxy_buffering off; the server can send X-Accel-Buffering: no)",
        ),
        Flow::HeldBack | Flow::Silent => checks.ok(
            subject,
            "its stream is open but silent, so a buffering proxy cannot be ruled out",
        ),
        Flow::NoStream => checks.ok(
            subject,
            "it has no standalone stream, so a buffering proxy cannot be ruled out",
        ),
    }
}

/// Reports why the server did not answer.
fn report_failure(
    subject: &str,
    origin: &str,
    obstacle: &Obstacle,
    advice: &CredentialAdvice,
    checks: &mut Checks,
) {
    match obstacle {
        Obstacle::Unreachable(why) => checks.wrong(
            subject,
            format!("cannot reach {origin} ({why})"),
            "check that it is running and that the URL is right; its tasks wait for it",
        ),
        Obstacle::Untrusted(why) => checks.wrong(
            subject,
            format!("{origin} has no valid certificate: {why}"),
            "longhaul sends nothing to it until that is fixed, and no option changes that",
        ),
        Obstacle::NeedsLogin => {
            checks.wrong(
                subject,
                format!("{origin} {}", advice.message),
                advice.next.clone(),
            );
        }
        Obstacle::Refused(status) => checks.wrong(
            subject,
            format!("{origin} answers with HTTP {status}"),
            "check that this is the URL of its MCP endpoint",
        ),
        Obstacle::Strange(why) => checks.wrong(
            subject,
            format!(
                "{origin} gave an invalid MCP response: {}",
                text::truncate(why, 120)
            ),
            "check that this is the URL of its MCP endpoint",
        ),
    }
}

/// Reports the ways in which a call to the server can be resumed.
fn report_resumability(
    subject: &str,
    stateful: Option<&Stateful>,
    modern: Option<bool>,
    convention: &CheckpointConvention,
    checks: &mut Checks,
) {
    let mut ways: Vec<String> = Vec::new();
    if modern == Some(true) {
        ways.push("MCP 2026-07-28 tasks".to_owned());
    }
    if let Some(stateful) = stateful {
        if stateful.tasks.is_some() {
            ways.push("MCP 2025-11-25 tasks".to_owned());
        }
        let tools = stateful.checkpoint_tools(convention);
        if !tools.is_empty() {
            let named = tools
                .iter()
                .take(MAX_NAMED_TOOLS)
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            let more = tools.len().saturating_sub(MAX_NAMED_TOOLS);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            ways.push(format!("checkpoints ({named}{more})"));
        }
        if stateful.gives_ids == Some(true) {
            ways.push("event ids in its streams".to_owned());
        }
    }
    if ways.is_empty() {
        checks.warning(
            subject,
            "found no way to resume a call, so quitting may end it",
            "`longhaul servers test` shows what quitting would do to calls of each tool",
        );
    } else {
        checks.ok(
            subject,
            format!("calls can be resumed with {}", ways.join("; ")),
        );
    }
}
