//! The servers and their sign-ins.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use url::Url;

use crate::{
    cli::{CliError, Context, Targets, commands::doctor::report::Checks},
    domain::{Program, ServerName, ServerObstacle as Needs, ServerRef, text},
    store::Reader,
};

pub(super) fn servers(context: &Context<'_>, checks: &mut Checks) {
    checks.about("servers");
    let found = Reader::open(&context.paths)
        .map_err(CliError::from)
        .and_then(|mut reader| Targets::of(context, &mut reader));
    let targets = match found {
        Ok(targets) => targets,
        Err(fail) => return checks.wrong(fail.message(), "then run doctor again"),
    };
    if targets.is_empty() {
        checks.ok("none yet; add one with `longhaul servers add NAME URL`");
    }
    unapproved(context, checks);
    let mut named = targets.names();
    let is_selected = !named.is_empty();
    for (name, server, url) in targets.choices() {
        if is_selected && !named.contains(&&name) {
            continue;
        }
        named.retain(|it| **it != name);
        checks.about(format!("server {name}"));
        match server {
            Ok(server) => check_server(context, &server, &url, checks),
            Err(fail) => checks.wrong(fail.message(), "then run doctor again"),
        }
    }
    named.retain(|name| context.configured(name).is_none());
    for name in named {
        checks.about(format!("server {name}"));
        let name = text::shell_word(name.as_str());
        checks.warning(
            "not in the configuration and not used in this session",
            format!("check the URL, or add it with `longhaul servers add {name} URL`"),
        );
    }
}

fn check_server(context: &Context<'_>, server: &ServerRef, url: &str, checks: &mut Checks) {
    if check_config_obstacle(context, &server.name, checks) {
        return;
    }
    let name = text::shell_word(server.name.as_str());
    let mut headers = server.headers.iter().chain(&server.config_headers);
    let has_authorization =
        headers.any(|(name, _)| name.trim().eq_ignore_ascii_case("authorization"));
    let now = context.clock.now().wall;
    let is_signed_in = Url::parse(url)
        .ok()
        // An unreadable file is reported by its own check.
        .and_then(|url| context.logins.is_signed_in(&url, now).ok()?);
    if is_signed_in == Some(false) && !has_authorization {
        return checks.warning(
            "its saved sign-in is no longer valid",
            format!("sign in again with `longhaul login {name}`"),
        );
    }
    checks.ok(format!(
        "configured; `longhaul servers test {name}` connects to it"
    ));
}

/// Reports the stdio servers that are not approved, which [`Targets::choices`] leaves out.
fn unapproved(context: &Context<'_>, checks: &mut Checks) {
    let Ok(config) = &context.config else {
        return;
    };
    let named = &context.global.server;
    let is_selected = |name: &str| named.is_empty() || named.iter().any(|it| it == name);
    let unapproved = config.servers.iter().filter(|server| {
        server.program.is_some() && server.is_withheld && is_selected(server.name.as_str())
    });
    for server in unapproved {
        checks.about(format!("server {}", server.name));
        check_config_obstacle(context, &server.name, checks);
    }
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
