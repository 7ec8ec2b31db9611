//! `doctor`: what longhaul stands on, looked at from outside.
//!
//! Invariants: it drives no session, starts nothing and changes nothing but a record of the wire that was asked for, so that
//! it can be asked while others work; no header, no token and nothing of a URL beside its origin is printed.

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
    args::Doctor,
    block_on, config,
    fail::{Fail, code},
    json as documents,
    screen::capabilities,
    target::Targets,
};
use crate::{
    app::SMALLEST,
    auth::{AuthError, TokenState},
    domain::{
        Colour, Convention, Desktop, Obstacle as Needs, Program, ServerConfig, ServerName,
        ServerRef, place, text,
    },
    engine::{Flow, Obstacle, Probe, Recording, Stateful, probe},
    store::{DriverLock, Paths, Reader, StoreError},
    term::{caps::NotificationSupport, osc::Multiplexer},
};

/// Below this a session may not be saved for long.
const SCARCE_BYTES: u64 = 200_000_000;
/// Below this results stop being saved.
const NONE_LEFT_BYTES: u64 = 5_000_000;
/// A file that is checked page by page in about a second.
const CHECKED_BYTES: u64 = 1_000_000_000;
/// Tools named of those whose calls are safe to leave.
const NAMED: usize = 4;

/// Columns for the names of what was looked at; a longer one moves its own line.
const WIDEST: usize = 28;

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warning,
    Wrong,
}

impl Verdict {
    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Wrong => "wrong",
        }
    }
}

/// One thing that was looked at.
struct Check {
    /// What it belongs to: `terminal`, `disk`, the name of a server.
    of: String,
    verdict: Verdict,
    words: String,
    /// What to do next, where something is to be done.
    next: Option<String>,
}

/// The checks so far.
#[derive(Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn ok(&mut self, of: &str, words: impl Into<String>) {
        self.add(of, Verdict::Ok, words.into(), None);
    }

    fn warning(&mut self, of: &str, words: impl Into<String>, next: impl Into<String>) {
        self.add(of, Verdict::Warning, words.into(), Some(next.into()));
    }

    fn wrong(&mut self, of: &str, words: impl Into<String>, next: impl Into<String>) {
        self.add(of, Verdict::Wrong, words.into(), Some(next.into()));
    }

    fn add(&mut self, of: &str, verdict: Verdict, words: String, next: Option<String>) {
        self.0.push(Check {
            of: of.to_owned(),
            verdict,
            words,
            next,
        });
    }
}

/// `doctor`.
///
/// `trouble` is what could not be opened before there was anything to look at.
pub(super) fn doctor(
    context: &mut Context<'_>,
    doctor: &Doctor,
    trouble: Vec<String>,
) -> Result<u8, Fail> {
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
    for words in trouble {
        checks.add("state", Verdict::Wrong, words, None);
    }
    files(context, &mut checks);
    disk(context.paths.dir(), &mut checks);
    configuration(context, &mut checks);
    sessions(context, &mut checks);
    logins(context, &mut checks);
    proxies(&mut checks);
    if !doctor.offline {
        servers(context, &mut checks);
    }
    let is_wrong = checks.0.iter().any(|check| check.verdict == Verdict::Wrong);
    print(context, &checks)?;
    Ok(if is_wrong {
        code::TOOL_FAILED
    } else {
        code::OK
    })
}

fn print(context: &mut Context<'_>, checks: &Checks) -> Result<(), Fail> {
    if context.global.json {
        let check = |it: &Check| json!({"of": it.of, "verdict": it.verdict.label(), "words": it.words, "next": it.next});
        let all: Vec<Value> = checks.0.iter().map(check).collect();
        return context
            .terminal
            .document(&documents::pretty(&Value::Array(all)));
    }
    let width = checks.0.iter().map(|check| text::width(&check.of));
    let width = width.max().unwrap_or(0).min(WIDEST);
    for check in &checks.0 {
        let next = check
            .next
            .as_ref()
            .map_or(String::new(), |next| format!("; {next}"));
        let (word, of) = (check.verdict.label(), &check.of);
        let line = format!("{word:<8} {of:<width$}  {}{next}", check.words);
        context.terminal.line(&text::clean_line(&line))?;
    }
    Ok(())
}

fn terminal(context: &Context<'_>, checks: &mut Checks) {
    const OF: &str = "terminal";
    if !context.terminal.is_for_people() {
        checks.ok(
            OF,
            "none here: commands print lines, and the screen needs one",
        );
        return;
    }
    let shown = |name: &str| std::env::var_os(name).map(|it| it.to_string_lossy().into_owned());
    let able = capabilities(context);
    let term = shown("TERM").unwrap_or_default();
    if able.has_cursor {
        checks.ok(OF, format!("TERM is {term}"));
    } else {
        checks.wrong(
            OF,
            format!("TERM is {term:?}, a terminal without a cursor, so there is no screen"),
            "set TERM to what your terminal is, e.g. xterm-256color",
        );
    }
    if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
        let (columns, rows) = (size.ws_col, size.ws_row);
        if columns == 0 || rows == 0 {
            checks.ok(OF, "it does not tell its size");
        } else if columns >= SMALLEST.0 && rows >= SMALLEST.1 {
            checks.ok(OF, format!("{columns} columns, {rows} rows"));
        } else {
            checks.warning(
                OF,
                format!("{columns} columns and {rows} rows are too small for the screen"),
                format!("make it {} by {} or larger", SMALLEST.0, SMALLEST.1),
            );
        }
    }
    checks.ok(
        OF,
        match able.colour {
            Colour::Mono => "no colours; words and signs say the same",
            Colour::Ansi16 => "16 colours",
            Colour::Ansi256 => "256 colours",
            Colour::Truecolor => "true colour",
        },
    );
    if able.is_unicode {
        checks.ok(OF, "UTF-8");
    } else {
        checks.warning(
            OF,
            "the locale is not UTF-8, so only ASCII is shown",
            "set LANG to e.g. C.UTF-8",
        );
    }
    aside(context, able.notifications, checks);
}

/// What reaches the user beside the picture.
fn aside(context: &Context<'_>, known: NotificationSupport, checks: &mut Checks) {
    const OF: &str = "terminal";
    let aside = match &context.config {
        Ok(config) => known.with_overrides(&config.notify),
        Err(_) => known,
    };
    let desktop = match aside.desktop {
        Some(Desktop::Osc9) => "notifications by OSC 9",
        Some(Desktop::Osc777) => "notifications by OSC 777",
        Some(Desktop::Osc99) => "notifications by OSC 99",
        None => "no notifications as far as is known of it",
    };
    let progress = if aside.has_progress {
        "progress in the taskbar by OSC 9;4"
    } else {
        "no progress in the taskbar as far as is known of it"
    };
    checks.ok(OF, format!("{desktop}, {progress}; copies go by OSC 52"));
    if aside.multiplexer == (Multiplexer::Tmux { passthrough: false }) {
        checks.warning(
            OF,
            "tmux stands between: it keeps notifications and progress to itself unless it may pass them on",
            "tmux set -g allow-passthrough on, and say tmux_passthrough in [notify] of the configuration",
        );
    }
}

/// Directories and files of ours: whose they are, and who else may look into them.
fn files(context: &Context<'_>, checks: &mut Checks) {
    let paths = &context.paths;
    let mut look = |path: PathBuf, is_secret: bool| {
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
            let words = format!("{shown} is open to others (mode {mode:o})");
            checks.warning("paths", words, next);
        } else {
            checks.ok("paths", format!("{shown} (mode {mode:o})"));
        }
    };
    look(paths.sessions_dir(), true);
    look(paths.db(), true);
    look(paths.log(), true);
    look(paths.logins(), true);
    if let Some(path) = config::path() {
        look(path, false);
    }
}

/// The file of logins, which all sessions share.
fn logins(context: &Context<'_>, checks: &mut Checks) {
    const OF: &str = "sign-ins";
    let logins = &context.logins;
    match logins.read() {
        Ok(book) if book.logins.is_empty() => {}
        Ok(book) => {
            let count = u64::try_from(book.logins.len()).unwrap_or(u64::MAX);
            let kept = match logins.check_sealed() {
                Ok(()) => "sealed with a key of the keychain".to_owned(),
                Err(why) => format!("in a file that only you can read (mode 0600): {why}"),
            };
            checks.ok(OF, format!("{}, {kept}", text::plural(count, "server")));
        }
        Err(error @ AuthError::Damaged { .. }) => {
            let next = "the next `longhaul login` sets it aside whole and begins a new one";
            checks.wrong(OF, error.to_string(), next);
        }
        Err(error) => checks.wrong(
            OF,
            error.to_string(),
            "no server is signed in to until then",
        ),
    }
}

fn disk(dir: &Path, checks: &mut Checks) {
    const OF: &str = "disk";
    let room = match rustix::fs::statvfs(dir) {
        Ok(found) => found.f_bavail.saturating_mul(found.f_frsize),
        Err(error) => {
            let words = format!("could not ask for the room in {}: {error}", dir.display());
            return checks.warning(OF, words, "look at it with df");
        }
    };
    let words = format!("{} free where sessions are kept", text::bytes(room));
    if room < NONE_LEFT_BYTES {
        checks.wrong(
            OF,
            words,
            "free some: what cannot be saved is not shown as done",
        );
    } else if room < SCARCE_BYTES {
        checks.warning(OF, words, "free some before a long task");
    } else {
        checks.ok(OF, words);
    }
}

fn configuration(context: &Context<'_>, checks: &mut Checks) {
    const OF: &str = "config";
    match &context.config {
        Err(words) => checks.wrong(OF, words.clone(), "no server can be spoken to until then"),
        Ok(config) => {
            for remark in &config.remarks {
                checks.warning(OF, remark.clone(), "the rest of the file holds");
            }
            let count = config.servers.len();
            let count = text::plural(u64::try_from(count).unwrap_or(u64::MAX), "server");
            checks.ok(OF, format!("{count} configured"));
            let links = Reader::open(&context.paths).and_then(|mut reader| reader.links());
            let is_known = |name: &str| {
                config.servers.iter().any(|it| it.name.as_str() == name)
                    // What cannot be read has a line of its own.
                    || links.as_ref().map_or(true, |links| links.iter().any(|it| it.name.as_str() == name))
            };
            let usual = config.defaults.server.as_deref();
            if let Some(usual) = usual.filter(|usual| !is_known(usual)) {
                checks.warning(
                    OF,
                    format!("[defaults] says server = {usual:?}, and no such server is known"),
                    format!(
                        "correct it, or add that server: longhaul servers add {} URL",
                        super::quoted(usual)
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
            let words = format!("could not {error}");
            return checks.add("sessions", Verdict::Wrong, words, None);
        }
    };
    for paths in all {
        let session = paths.session();
        let of = format!("session {session}");
        if session.contains(".damaged-") {
            checks.warning(
                &of,
                "a damaged file that was set aside",
                format!(
                    "once nothing of it is wanted any more: longhaul sessions rm {session} --force{}",
                    context.flags_to("", "")
                ),
            );
            continue;
        }
        driver(&of, &paths, checks);
        integrity(&of, &paths, checks);
    }
}

/// Who holds the lock, and whether that process answers.
fn driver(of: &str, paths: &Paths, checks: &mut Checks) {
    let Some(pid) = DriverLock::holder(paths) else {
        return checks.ok(of, "nobody drives it");
    };
    match UnixStream::connect(paths.socket()) {
        Ok(_) => checks.ok(of, format!("process {pid} drives it")),
        Err(error) => checks.wrong(
            of,
            format!("process {pid} holds its lock but accepts no connection ({error})"),
            format!("if this persists, run `kill {pid}`; saved data is safe"),
        ),
    }
}

fn integrity(of: &str, paths: &Paths, checks: &mut Checks) {
    let size = paths.size();
    let next = "the next start that drives it sets it aside whole and goes on with a new one";
    let found = Reader::open(paths).and_then(|mut reader| {
        if size > CHECKED_BYTES {
            reader.links().map(|_| None)
        } else {
            reader.check().map(Some)
        }
    });
    let is_empty = size == 0;
    let size = text::bytes(size);
    match found {
        // That says itself what comes next.
        Err(error @ StoreError::Damaged { .. }) => {
            checks.add(of, Verdict::Wrong, format!("could not {error}"), None);
        }
        Err(error) => checks.wrong(of, format!("could not {error}"), next),
        Ok(_) if is_empty => checks.wrong(
            of,
            "an empty file (0 B): whatever tasks it had are gone",
            "a copy of it that was set aside or saved elsewhere may have them",
        ),
        Ok(None) => checks.ok(
            of,
            format!("can be read ({size}: too large to be checked here)"),
        ),
        Ok(Some(found)) if found.is_empty() => checks.ok(of, format!("whole ({size})")),
        Ok(Some(found)) => checks.wrong(of, format!("damaged: {}", found.join("; ")), next),
    }
}

/// The environment's proxies: where they are, without what stands in them of names and passwords.
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
        checks.ok(OF, "none in the environment");
    }
}

fn servers(context: &Context<'_>, checks: &mut Checks) {
    let found = Reader::open(&context.paths)
        .map_err(Fail::from)
        .and_then(|mut reader| wanted(context, &mut reader));
    let wanted = match found {
        Ok(wanted) => wanted,
        Err(Fail::Said { words, .. }) => {
            return checks.wrong("servers", words, "then ask again");
        }
        Err(Fail::Unread(_)) => return,
    };
    let has_waiting = unapproved(context, checks);
    if wanted.is_empty() && !has_waiting {
        checks.ok(
            "servers",
            "none yet; `longhaul servers add NAME URL` adds one",
        );
    }
    for (name, server, url) in wanted {
        let of = format!("server {name}");
        let server = match server {
            Ok(server) => server,
            Err(Fail::Said { words, .. }) => {
                checks.wrong(&of, words, "then ask again");
                continue;
            }
            Err(Fail::Unread(_)) => return,
        };
        if place::is_process(&url) {
            if !is_in_the_way(context, &of, &server.name, checks) {
                let name = super::quoted(server.name.as_str());
                let words = "a program, approved; it is started when needed";
                checks.ok(
                    &of,
                    format!("{words}: `longhaul servers test {name}` tries it"),
                );
            }
            continue;
        }
        if is_in_the_way(context, &of, &server.name, checks) {
            continue;
        }
        let is_new = server.url.is_some();
        let headers = server.headers.into_iter().chain(server.filled);
        let headers = headers.map(|(name, value)| (name, SecretString::from(value)));
        let mut headers: Vec<(String, SecretString)> = headers.collect();
        let standing = standing(context, &url, &headers);
        let wants = Wants::of(context, &server.name, is_new, &headers, &standing);
        if let TokenState::Valid(token) = &standing {
            let value = format!("Bearer {}", token.expose_secret());
            headers.push(("Authorization".to_owned(), value.into()));
        }
        let is_over = matches!(standing, TokenState::Expired);
        let recording = recording(context, &server.name, &of, checks);
        let probed = block_on(async { Ok(probe(&url, headers, recording).await) });
        let unrecorded = probed.as_ref().ok();
        if let Some(why) = unrecorded.and_then(|probe| probe.unrecorded.as_ref()) {
            checks.warning(&of, why.clone(), "the checks still ran");
        }
        match probed {
            Ok(Probe {
                stateful: Err(Obstacle::NeedsLogin),
                modern: None,
                ..
            }) if is_over => checks.warning(
                &of,
                "its sign-in token has expired",
                "nothing, as long as the next call gets a new one",
            ),
            Ok(probe) => {
                let config = context.config().ok();
                let convention = config.map(|config| config.convention(&server.name));
                let convention = convention.unwrap_or_default();
                tell(&of, &url, &probe, &wants, &convention, checks);
            }
            Err(Fail::Said { words, .. }) => checks.wrong(&of, words, "try again"),
            Err(Fail::Unread(_)) => return,
        }
    }
}

/// Where the look at a server is recorded, if it is to be. Two who write one record would spoil it, and whoever drives
/// writes.
fn recording<'c>(
    context: &'c Context<'_>,
    server: &'c ServerName,
    of: &str,
    checks: &mut Checks,
) -> Option<Recording<'c>> {
    let config = context.config().ok();
    let mut configured = config.iter().flat_map(|config| &config.servers);
    let is_traced = configured.any(|it| it.name == *server && it.trace);
    if !(context.global.trace || is_traced) {
        return None;
    }
    if let Some(pid) = DriverLock::holder(&context.paths) {
        let words =
            format!("not recorded: process {pid} drives this session, and it alone records");
        let flags = context.flags();
        let next = format!(
            "`longhaul{flags} --trace servers test {}` is recorded by it",
            super::quoted(server.as_str())
        );
        checks.warning(of, words, next);
        return None;
    }
    Some(Recording {
        paths: &context.paths,
        server,
        clock: context.clock,
    })
}

/// Lists the programs that nobody approved, which are no choice of anybody; says whether there are any.
fn unapproved(context: &Context<'_>, checks: &mut Checks) -> bool {
    let Ok(config) = &context.config else {
        return false;
    };
    let named = &context.global.server;
    let is_meant = |name: &str| named.is_empty() || named.iter().any(|it| it == name);
    let waiting = config.servers.iter().filter(|server| {
        server.program.is_some() && server.withheld.is_some() && is_meant(server.name.as_str())
    });
    let mut is_any = false;
    for server in waiting {
        let of = format!("server {}", server.name);
        is_any |= is_in_the_way(context, &of, &server.name, checks);
    }
    is_any
}

/// Says what a person has to do before anything is sent to this server of the configuration, or started for it; whether
/// there is something.
fn is_in_the_way(context: &Context<'_>, of: &str, name: &ServerName, checks: &mut Checks) -> bool {
    let config = context.config.as_ref().ok();
    let server = config.and_then(|config| config.servers.iter().find(|it| it.name == *name));
    let Some(mut server) = server.cloned() else {
        return false;
    };
    // What the command line gives needs no header of the configuration.
    let has_headers = !server.headers.is_empty();
    let given = &context.global.header;
    server.headers.retain(|(header, _)| {
        let is_given = given.iter().any(|it| it.name.eq_ignore_ascii_case(header));
        let is_bearer =
            context.global.bearer_env.is_some() && header.eq_ignore_ascii_case("authorization");
        !is_given && !is_bearer
    });
    if has_headers && server.headers.is_empty() {
        return false;
    }
    let obstacle = server.obstacle(|variable| super::variable(variable).is_some());
    let name = super::quoted(name.as_str());
    match obstacle {
        Some(obstacle @ Needs::Approval) => checks.warning(
            of,
            format!("a program, {}, so it is not started", obstacle.message()),
            format!("`longhaul servers approve {name}` shows what would be started, and asks"),
        ),
        Some(Needs::Consent(variables)) => checks.warning(
            of,
            format!(
                "needs consent for {}, so nothing is sent there",
                variables.join(", ")
            ),
            format!("`longhaul servers consent {name}` shows what would go where, and asks"),
        ),
        Some(obstacle @ Needs::Variables(_)) => checks.wrong(
            of,
            format!("{}, not set here", obstacle.message()),
            "set it where you start longhaul",
        ),
        None => {
            let why = server.program.as_ref().and_then(why_not_started);
            let is_any = why.is_some();
            if let Some(why) = why {
                checks.wrong(
                    of,
                    format!("a program, approved, that cannot be started: {why}"),
                    "install it, or correct it in the configuration",
                );
            }
            return is_any;
        }
    }
    true
}

/// Why a program cannot be started, as far as that shows without starting it.
fn why_not_started(program: &Program) -> Option<String> {
    let cwd = program.cwd.as_deref().map(Path::new);
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        return Some(format!("its directory {} is not there", cwd.display()));
    }
    let is_program = |path: PathBuf| {
        fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
    };
    let command = &program.command;
    if command.contains('/') {
        let path = cwd.map_or_else(|| PathBuf::from(command), |cwd| cwd.join(command));
        return (!is_program(path)).then(|| format!("{command} is not there, or no program"));
    }
    // It is looked for by the PATH that it gets.
    if program.env.iter().any(|(name, _)| name == "PATH") {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    let is_found = std::env::split_paths(&path).any(|dir| is_program(dir.join(command)));
    (!is_found).then(|| format!("{command} is in no directory of PATH"))
}

/// What is said where a server wants credentials: what was sent to it, and what to do.
struct Wants {
    words: String,
    next: String,
}

impl Wants {
    /// `is_new` is a server that was named by its URL, whose name leads nowhere yet.
    fn of(
        context: &Context<'_>,
        name: &ServerName,
        is_new: bool,
        headers: &[(String, SecretString)],
        standing: &TokenState,
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
        let (words, next) = if matches!(standing, TokenState::Valid(_)) {
            (
                "refused the token of its sign-in".to_owned(),
                format!("sign in again with {login}"),
            )
        } else if headers.is_empty() {
            (
                "wants credentials".to_owned(),
                format!(
                    "sign in with {login}, or give them with -H or --bearer-env, or as a header in the configuration"
                ),
            )
        } else if variables.is_empty()
            || !context.global.header.is_empty()
            || context.global.bearer_env.is_some()
        {
            let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
            (
                format!(
                    "wants other credentials: it was sent {} and refused it",
                    names.join(", ")
                ),
                "give others with -H or --bearer-env, or as a header in the configuration"
                    .to_owned(),
            )
        } else {
            let variables = variables.join(", $");
            (
                format!(
                    "wants other credentials: the header from ${variables} was sent and refused"
                ),
                format!("look at what ${variables} holds where you start longhaul"),
            )
        };
        Self { words, next }
    }
}

/// The sign-in that a driver would use there.
fn standing(context: &Context<'_>, url: &str, headers: &[(String, SecretString)]) -> TokenState {
    let has_own = headers
        .iter()
        .any(|(name, _)| name.trim().eq_ignore_ascii_case("authorization"));
    let is_private = |url: &Url| !place::is_in_clear(url) || context.global.insecure_http;
    let url = Url::parse(url).ok();
    let Some(url) = url.filter(|url| !has_own && is_private(url)) else {
        return TokenState::SignedOut;
    };
    // A file that cannot be read has a line of its own.
    context
        .logins
        .token_state(&url, context.clock.now().wall)
        .unwrap_or(TokenState::SignedOut)
}

/// A server, what goes to the engine of it, and its URL.
type Wanted = (ServerName, Result<ServerRef, Fail>, String);

/// The servers to look at: the named ones, else all. What stands in the way of one says nothing of the others.
fn wanted(context: &Context<'_>, reader: &mut Reader) -> Result<Vec<Wanted>, Fail> {
    let all = Targets::of(context, reader)?;
    let named = all.names().into_iter().cloned().collect::<Vec<_>>();
    let urls = all.urls();
    let mut found: Vec<Wanted> = all
        .choices()
        .filter(|(name, _)| named.is_empty() || named.contains(name))
        .filter_map(|(name, server)| {
            let (_, url) = urls.iter().find(|(of, _)| of == name)?;
            Some((name.clone(), server, url.clone()))
        })
        .collect();
    if named.is_empty() {
        return Ok(found);
    }
    // A URL that is new has a name of its own.
    for server in all.all()? {
        if let Some(url) = server.url.clone()
            && !found.iter().any(|(known, ..)| *known == server.name)
        {
            found.push((server.name.clone(), Ok(server), url));
        }
    }
    Ok(found)
}

fn tell(
    of: &str,
    url: &str,
    probe: &Probe,
    wants: &Wants,
    convention: &Convention,
    checks: &mut Checks,
) {
    let origin = Url::parse(url).map_or_else(
        |_| place::shown(url).into_owned(),
        |url| url.origin().ascii_serialization(),
    );
    let answered = match &probe.stateful {
        Ok(answered) => Some(answered),
        Err(Obstacle::Refused(_) | Obstacle::Strange(_)) if probe.modern.is_some() => None,
        Err(obstacle) => return in_the_way(of, &origin, obstacle, wants, checks),
    };
    let tls = if url.starts_with("https:") {
        "over TLS, and could prove who it is"
    } else if Url::parse(url).is_ok_and(|url| place::is_loopback(&url)) {
        "on this machine"
    } else {
        "in the clear"
    };
    let Some(answered) = answered else {
        checks.ok(
            of,
            format!("{origin} answers {tls}; it speaks 2026-07-28 only"),
        );
        return resumes(of, None, probe.modern, convention, checks);
    };
    let who = answered
        .server_info
        .as_deref()
        .unwrap_or("a server without a name");
    checks.ok(
        of,
        format!(
            "{origin} answers in {} ms {tls}: {who}, MCP {}",
            answered.took.as_millis(),
            answered.version
        ),
    );
    resumes(of, Some(answered), probe.modern, convention, checks);
    let is_here = Url::parse(url).is_ok_and(|url| place::is_loopback(&url));
    match answered.flow {
        Flow::AtOnce(took) => checks.ok(
            of,
            format!("its stream comes as it is sent (first bytes after {} ms)", took.as_millis()),
        ),
        // Some servers begin only the streams of answers with an event, so elsewhere too this proves nothing.
        Flow::HeldBack if !is_here => checks.warning(
            of,
            "its own stream showed nothing, while its answers begin with an event: that is how the server is, or something between \
             here and there keeps streams back until they end, and then progress comes late or never",
            "if it does, switch buffering off there (nginx: proxy_buffering off; the server can send X-Accel-Buffering: no)",
        ),
        Flow::HeldBack | Flow::Silent => checks.ok(
            of,
            "its stream is open and silent, so whether something between buffers cannot be told",
        ),
        Flow::NoStream => checks.ok(
            of,
            "it has no stream of its own, so whether something between buffers cannot be told",
        ),
    }
}

/// What stands between us and an answer.
fn in_the_way(of: &str, origin: &str, obstacle: &Obstacle, wants: &Wants, checks: &mut Checks) {
    match obstacle {
        Obstacle::Unreachable(why) => checks.wrong(
            of,
            format!("{origin} cannot be reached ({why})"),
            "is it running, and is the address right? its tasks wait for it",
        ),
        Obstacle::Untrusted(why) => checks.wrong(
            of,
            format!("{origin} cannot prove who it is: {why}"),
            "nothing is sent to it until it can; there is no switch for that",
        ),
        Obstacle::NeedsLogin => {
            checks.wrong(of, format!("{origin} {}", wants.words), wants.next.clone());
        }
        Obstacle::Refused(status) => checks.wrong(
            of,
            format!("{origin} answers with HTTP {status}"),
            "is this the URL of its MCP endpoint?",
        ),
        Obstacle::Strange(why) => checks.wrong(
            of,
            format!(
                "{origin} does not speak MCP as we know it: {}",
                text::truncate(why, 120)
            ),
            "is this the URL of its MCP endpoint?",
        ),
    }
}

/// What a call there could be picked up by.
fn resumes(
    of: &str,
    stateful: Option<&Stateful>,
    modern: Option<bool>,
    convention: &Convention,
    checks: &mut Checks,
) {
    let mut ways: Vec<String> = Vec::new();
    if modern == Some(true) {
        ways.push("tasks of 2026-07-28".to_owned());
    }
    if let Some(stateful) = stateful {
        if stateful.tasks.is_some() {
            ways.push("tasks of 2025-11-25".to_owned());
        }
        let keeping = stateful.checkpoint_tools(convention);
        if !keeping.is_empty() {
            let named = keeping
                .iter()
                .take(NAMED)
                .copied()
                .collect::<Vec<_>>()
                .join(", ");
            let more = keeping.len().saturating_sub(NAMED);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            ways.push(format!("checkpoints ({named}{more})"));
        }
        if stateful.gives_ids == Some(true) {
            ways.push("event ids on its streams".to_owned());
        }
    }
    if ways.is_empty() {
        checks.warning(
            of,
            "nothing was seen by which a call could be picked up again, so leaving may end it",
            "`longhaul servers test` says what leaving would do to each tool",
        );
    } else {
        checks.ok(of, format!("calls can be picked up by {}", ways.join("; ")));
    }
}
