//! The servers and their sign-ins.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::{
    auth::TokenState,
    cli::{
        CliError, CliResult, Context, Targets, commands::doctor::report::Checks,
        environment::block_on, target::TargetChoice,
    },
    domain::{
        Program, ServerConfig, ServerName, ServerObstacle as Needs, ServerRef, server_url, text,
    },
    engine::{Flow, Obstacle, Probe, probe},
    store::Reader,
};

pub(super) fn servers(context: &Context<'_>, checks: &mut Checks) {
    checks.about("servers");
    let found = Reader::open(&context.paths)
        .map_err(CliError::from)
        .and_then(|mut reader| probe_targets(context, &mut reader));
    let targets = match found {
        Ok(targets) => targets,
        Err(fail) => return checks.wrong(fail.message(), "then run doctor again"),
    };
    let has_unapproved = unapproved(context, checks);
    if targets.is_empty() && !has_unapproved {
        let message = "none yet; add one with `longhaul servers add NAME URL`";
        checks.about("servers");
        checks.ok(message);
    }
    for (name, server, url) in targets {
        checks.about(format!("server {name}"));
        let checked = server.and_then(|server| check_server(context, server, &url, checks));
        if let Err(fail) = checked {
            checks.wrong(fail.message(), "then run doctor again");
        }
    }
}

fn check_server(
    context: &Context<'_>,
    server: ServerRef,
    url: &str,
    checks: &mut Checks,
) -> CliResult<()> {
    if check_config_obstacle(context, &server.name, checks) {
        return Ok(());
    }
    if server_url::is_process(url) {
        let name = text::shell_word(server.name.as_str());
        checks.ok(format!(
            "stdio, approved; started when needed; test it with `longhaul servers test {name}`"
        ));
        return Ok(());
    }
    let is_new = server.url.is_some();
    let headers = server.headers.into_iter().chain(server.config_headers);
    let headers = headers.map(|(name, value)| (name, SecretString::from(value)));
    let mut headers: Vec<(String, SecretString)> = headers.collect();
    let token = token_state(context, url, &headers);
    let advice = credential_advice(context, &server.name, is_new, &headers, &token);
    if let TokenState::Valid(secret) = &token {
        let value = format!("Bearer {}", secret.expose_secret());
        headers.push(("Authorization".to_owned(), value.into()));
    }
    let probe = block_on(async { Ok(probe(url, headers).await) })?;
    let needs_login = matches!(probe.stateful, Err(Obstacle::NeedsLogin)) && !probe.is_modern;
    if needs_login && matches!(token, TokenState::Expired) {
        let next = "the next call renews it if it can";
        checks.warning("its sign-in token has expired", next);
        return Ok(());
    }
    report(url, &probe, &advice, checks);
    Ok(())
}

/// Reports the stdio servers that are not approved, which [`Targets::choices`] leaves out; returns whether there are any.
fn unapproved(context: &Context<'_>, checks: &mut Checks) -> bool {
    let Ok(config) = &context.config else {
        return false;
    };
    let named = &context.global.server;
    let is_selected = |name: &str| named.is_empty() || named.iter().any(|it| it == name);
    let unapproved = config.servers.iter().filter(|server| {
        server.program.is_some() && server.is_withheld && is_selected(server.name.as_str())
    });
    let mut is_any = false;
    for server in unapproved {
        checks.about(format!("server {}", server.name));
        is_any |= check_config_obstacle(context, &server.name, checks);
    }
    is_any
}

/// Reports what the user must do before a configured server can be used; returns whether there is anything to do.
fn check_config_obstacle(context: &Context<'_>, name: &ServerName, checks: &mut Checks) -> bool {
    let Some(mut server) = context.configured(name).cloned() else {
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
    let obstacle = server.obstacle(|variable| crate::config::env_secret(variable).is_some());
    let name = text::shell_word(server.name.as_str());
    match obstacle {
        Some(obstacle @ Needs::Approval) => checks.warning(
            format!("{}, so longhaul doesn't use it", obstacle.message()),
            format!("review it with `longhaul servers approve {name}`"),
        ),
        Some(obstacle @ Needs::Variables(_)) => checks.wrong(
            format!("{} (not set here)", obstacle.message()),
            "set it in the shell from which you run longhaul",
        ),
        None => {
            let Some(why) = server.program.as_ref().and_then(why_not_started) else {
                return false;
            };
            let message = format!("stdio, approved, but it can't start: {why}");
            let next = "install it, or correct it in the configuration";
            checks.wrong(message, next);
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
type CredentialAdvice = (String, String);

/// `is_new`: the server was selected by its URL, so that its name is not stored yet.
fn credential_advice(
    context: &Context<'_>,
    name: &ServerName,
    is_new: bool,
    headers: &[(String, SecretString)],
    token: &TokenState,
) -> CredentialAdvice {
    let login = if is_new {
        "`longhaul login URL`".to_owned()
    } else {
        let name = text::shell_word(name.as_str());
        format!("`longhaul login {name}{}`", context.flags())
    };
    let server = context.configured(name);
    let variables = server.map(ServerConfig::variables).unwrap_or_default();
    if matches!(token, TokenState::Valid(_)) {
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
            format!("check ${variables} in the shell from which you run longhaul"),
        )
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

/// The servers to check: those from `-s`, else all. Each can fail on its own.
fn probe_targets(context: &Context<'_>, reader: &mut Reader) -> CliResult<Vec<TargetChoice>> {
    let all = Targets::of(context, reader)?;
    let named = all.names().into_iter().cloned().collect::<Vec<_>>();
    let mut found: Vec<TargetChoice> = all.choices().collect();
    found.retain(|(name, ..)| named.is_empty() || named.contains(name));
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

fn report(url: &str, probe: &Probe, advice: &CredentialAdvice, checks: &mut Checks) {
    let origin = server_url::origin(url);
    let origin = origin.unwrap_or_else(|| server_url::redacted(url).into_owned());
    let answered = match &probe.stateful {
        Ok(answered) => Some(answered),
        Err(Obstacle::Refused(_) | Obstacle::Strange(_)) if probe.is_modern => None,
        Err(obstacle) => return report_failure(&origin, obstacle, advice, checks),
    };
    let is_here = Url::parse(url).is_ok_and(|url| server_url::is_loopback(&url));
    let tls = if url.starts_with("https:") {
        "over TLS with a valid certificate"
    } else {
        "without encryption"
    };
    let Some(answered) = answered else {
        return checks.ok(format!("{origin} answers {tls}: MCP 2026-07-28"));
    };
    let who = answered.server_info.as_deref().unwrap_or("unnamed server");
    checks.ok(format!(
        "{origin} answers in {} ms {tls}: {who}, MCP {}",
        answered.took.as_millis(),
        answered.version
    ));
    match answered.flow {
        Flow::AtOnce(took) => checks.ok(
            format!("its stream is not buffered (first bytes after {} ms)", took.as_millis()),
        ),
        // Not a proof of buffering: some servers start only response streams with an event.
        Flow::HeldBack if !is_here => checks.warning(
            "its standalone stream is silent although its responses start with an event; a buffering proxy may be holding \
             streams back, which would delay or hide progress",
            "if there is a proxy, turn off its buffering (nginx: proxy_buffering off; the server can send X-Accel-Buffering: no)",
        ),
        Flow::HeldBack | Flow::Unknown => checks.ok(
            "it sends nothing without a call, so a buffering proxy can't be ruled out",
        ),
    }
}

/// Reports why the server did not answer.
fn report_failure(
    origin: &str,
    obstacle: &Obstacle,
    advice: &CredentialAdvice,
    checks: &mut Checks,
) {
    match obstacle {
        Obstacle::Unreachable(why) => checks.wrong(
            format!("could not reach {origin} ({why})"),
            "check that it is running and that the URL is right",
        ),
        Obstacle::Untrusted(why) => checks.wrong(
            format!("{origin} has no valid certificate: {why}"),
            "longhaul sends nothing to it until that is fixed, and no option changes that",
        ),
        Obstacle::NeedsLogin => {
            let (message, next) = advice;
            checks.wrong(format!("{origin} {message}"), next);
        }
        Obstacle::Refused(status) => checks.wrong(
            format!("{origin} answers with HTTP {status}"),
            "check that this is the URL of its MCP endpoint",
        ),
        Obstacle::Strange(why) => checks.wrong(
            format!(
                "{origin} gave an invalid MCP response: {}",
                text::truncate(why, 120)
            ),
            "check that this is the URL of its MCP endpoint",
        ),
    }
}
