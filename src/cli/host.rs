//! `--host`: commands run on another machine through ssh, and the screen shows its session through a tunnel.

use std::{
    ffi::OsString,
    io::IsTerminal as _,
    process::{Command, Stdio},
};

use crate::{
    cli::{
        CliError, CliResult,
        args::{CliCommand, GlobalArgs},
        code,
    },
    config::{self, Header},
    domain::text,
    engine::Host,
};

/// The environment variable for `--host`.
const HOST: &str = "LONGHAUL_HOST";

/// The environment variable with another program than `ssh`.
const SSH: &str = "LONGHAUL_SSH";

/// The exit code of ssh when it could not connect, or lost the connection.
const SSH_FAILED: i32 = 255;

/// The exit code of a shell that does not find a command.
const NOT_FOUND: i32 = 127;

/// The environment variable that tells a longhaul by which name the user's machine reached it: for the commands in its
/// messages, and so that it does not go on to a third machine.
pub(super) const REACHED_AS: &str = "LONGHAUL_REACHED_AS";

/// Directories that an ssh command often does not find, although the user's terminals do.
const MORE_PATHS: &str = "PATH=\"$PATH:$HOME/.cargo/bin:$HOME/.local/bin\"";

/// ssh notices a half-open connection within 15 s.
const HEARTBEAT: [&str; 4] = ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=2"];

/// The other machine whose session is used; `None` for this one.
pub(super) fn host_of(global: &GlobalArgs, defaults: Option<&config::Defaults>) -> Option<String> {
    if std::env::var_os(REACHED_AS).is_some() {
        return None;
    }
    let from_environment = || std::env::var_os(HOST)?.into_string().ok();
    let from_config = || defaults.and_then(|it| it.host.clone());
    let host = global.host.clone().or_else(from_environment);
    host.or_else(from_config).filter(|host| !host.is_empty())
}

/// The name by which the user's machine reaches that of the session, if it is another one.
pub(super) fn reached_as(command: Option<&CliCommand>, host: Option<&str>) -> Option<String> {
    let reached_as = std::env::var_os(REACHED_AS).and_then(|it| it.into_string().ok());
    let host = host.map(str::to_owned).or(reached_as);
    match command {
        #[cfg(feature = "demo")]
        Some(CliCommand::Demo(_)) => None,
        _ => host.filter(|host| !host.is_empty()),
    }
}

/// Whether a command runs on this machine whatever the host: the screen reaches the other one itself, and the rest is
/// about this program.
pub(super) fn is_local(command: Option<&CliCommand>) -> bool {
    match command {
        None
        | Some(CliCommand::Attach { .. } | CliCommand::Completions { .. } | CliCommand::Man(_)) => {
            true
        }
        #[cfg(feature = "demo")]
        Some(CliCommand::Demo(_)) => true,
        _ => false,
    }
}

fn ssh() -> OsString {
    std::env::var_os(SSH)
        .filter(|program| !program.is_empty())
        .unwrap_or_else(|| "ssh".into())
}

/// A name that starts with a dash would be an option of ssh.
fn checked(host: &str) -> CliResult<&str> {
    if host.starts_with('-') || host.chars().any(char::is_control) {
        return Err(CliError::usage(format!("{host:?} is not a host name")));
    }
    Ok(host)
}

/// Runs the same command line on another machine and returns its exit code.
pub(super) fn run_there(host: &str, global: &GlobalArgs, arguments: &[OsString]) -> CliResult {
    let host = checked(host)?;
    let is_literal = |header: &Header| !header.value.contains("${");
    if global.header.iter().any(is_literal) {
        return Err(CliError::usage(
            "-H with --host would show the value in the process lists of both machines; on that machine, set a variable and use \
             --bearer-env, or add the server there with the header in its configuration",
        ));
    }
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let ended = Command::new(ssh())
        .args(HEARTBEAT)
        .arg(if is_terminal { "-t" } else { "-T" })
        .args(["--", host])
        .arg(command_line(host, arguments)?)
        .stdin(Stdio::inherit())
        .status();
    let ended = ended.map_err(|error| {
        let message = format!("could not run {}: {error}", ssh().to_string_lossy());
        CliError::new(code::UNREACHABLE, message)
    })?;
    match ended.code() {
        Some(SSH_FAILED) | None => Err(CliError::new(
            code::UNREACHABLE,
            format!(
                "could not connect to {host}, or the connection broke; calls that a keeper runs there are not affected. `longhaul --host {} ls` lists them once the connection works",
                text::shell_word(host)
            ),
        )),
        Some(NOT_FOUND) => Err(CliError::new(
            code::UNREACHABLE,
            format!(
                "longhaul was not found on {host}; install it there: cargo install --path . --profile dist, in its source directory"
            ),
        )),
        Some(exit) => Ok(u8::try_from(exit).unwrap_or(code::BUG)),
    }
}

/// The far command for the remote shell, each argument in quotes.
fn command_line(host: &str, arguments: &[OsString]) -> CliResult<String> {
    let name = quoted(&format!("{REACHED_AS}={host}"));
    let mut line = format!("env {name} {MORE_PATHS} longhaul");
    for argument in arguments {
        let argument = argument.to_str().ok_or_else(|| {
            CliError::usage("arguments for another machine must be UTF-8".to_owned())
        })?;
        line.push(' ');
        line.push_str(&quoted(argument));
    }
    Ok(line)
}

/// A word in single quotes, as every shell reads it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The tunnel to a session on another machine. It asks for no password: a screen has no place for that.
pub(super) fn tunnel(host: &str, session: &[OsString]) -> CliResult<Host> {
    let host = checked(host)?;
    let far: Vec<OsString> = session
        .iter()
        .cloned()
        .chain(["keeper", "connect"].map(OsString::from))
        .collect();
    let mut args: Vec<OsString> = HEARTBEAT.map(OsString::from).to_vec();
    args.extend(["-T", "-o", "BatchMode=yes", "--", host].map(OsString::from));
    args.push(command_line(host, &far)?.into());
    Ok(Host {
        name: host.to_owned(),
        program: ssh().into(),
        args,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<OsString> {
        line.iter().map(OsString::from).collect()
    }

    #[test]
    fn quotes_for_the_far_shell() {
        let line = command_line("box", &words(&["call", "t", "a=it's; $(rm -rf ~)"])).unwrap();
        let end = r"longhaul 'call' 't' 'a=it'\''s; $(rm -rf ~)'";
        assert!(line.ends_with(end), "{line}");
    }

    #[test]
    fn a_host_is_no_option_of_ssh() {
        assert!(checked("-oProxyCommand=evil").is_err());
        assert!(checked("ann@box").is_ok());
    }
}
