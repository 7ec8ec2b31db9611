//! What a server would get or start, and the user's approval of it.

use std::{fmt::Write as _, path::Path};

use itertools::Itertools as _;

use super::{ConfigEdit, ConfigError, digest, digest_of_program};
use crate::{
    app::Approval,
    config::file::{path, read, server_configs},
    domain::{Program, ServerConfig, ServerName, ServerObstacle, Template, server_url, text},
    engine::USUAL_ENVIRONMENT,
};

/// Why a configured server cannot be used yet: its `state` in JSON, and the message.
pub(crate) fn obstacle(server: &ServerConfig) -> Option<(&'static str, String)> {
    let obstacle = server.obstacle(|name| super::secret::env_secret(name).is_some())?;
    let message = obstacle.message();
    Some(match &obstacle {
        ServerObstacle::Approval => {
            let name = text::shell_word(server.name.as_str());
            let next = format!("{message}: `longhaul servers approve {name}`");
            ("needs-approval", next)
        }
        ServerObstacle::Variables(_) => ("needs-variable", format!("{message} (not set here)")),
    })
}

/// The command line of a program, quoted for a shell.
pub(crate) fn command_line(program: &Program) -> String {
    let words = std::iter::once(&program.command).chain(&program.args);
    words.map(|word| visible(word)).join(" ")
}

/// Quotes a word for a shell and escapes control and invisible characters.
pub(crate) fn visible(word: &str) -> String {
    let Some(_) = word.find(text::is_hostile) else {
        return text::shell_word(word);
    };
    let mut escaped = "$'".to_owned();
    for letter in word.chars() {
        match letter {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\'' | '\\' => escaped.extend(['\\', letter]),
            letter if text::is_hostile(letter) => {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(letter));
            }
            letter => escaped.push(letter),
        }
    }
    escaped.push('\'');
    escaped
}

/// Whether an environment variable can change which code a program runs.
fn changes_code(name: &str) -> bool {
    const NAMES: [&str; 6] = ["PATH", "IFS", "ENV", "SHELL", "EDITOR", "JAVA_TOOL_OPTIONS"];
    const PREFIXES: [&str; 9] = [
        "LD_", "DYLD_", "NODE_", "NPM_", "PYTHON", "PERL", "RUBY", "BASH", "GIT_",
    ];
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Everything that a program would be started with, one line each, for approval.
pub(crate) fn start_summary(program: &Program) -> Vec<String> {
    let mut lines = vec![format!("program     {}", visible(&program.command))];
    for (number, arg) in (1..).zip(&program.args) {
        lines.push(format!("argument {number}  {}", visible(arg)));
    }
    lines.push(match &program.cwd {
        Some(cwd) => format!("directory   {}", visible(cwd)),
        None => "directory   where longhaul or the calling agent host was started".to_owned(),
    });
    lines.push(format!("environment {}", USUAL_ENVIRONMENT.join(", ")));
    for (name, value) in &program.env {
        // Only names of variables are shown, because the text around them may be a secret.
        let from = value.variables().join(", ");
        let shown = visible(name);
        lines.push(match from.as_str() {
            _ if changes_code(name) => format!("  {shown} = {}", visible(value.as_str())),
            "" => format!("  {shown} from the configuration"),
            from => format!("  {shown}, from your environment variable {from}"),
        });
    }
    let templates = program.args.iter();
    let templates = templates.filter_map(|arg| Template::parse(arg).ok());
    let in_args: Vec<String> = templates
        .flat_map(|arg| arg.variables().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    if !in_args.is_empty() {
        let names = in_args.join(", ");
        lines.push(format!(
            "its arguments contain {names}, which all users of this machine can see in the process list"
        ));
    }
    let clean = |line: String| text::clean_line(&line).into_owned();
    lines.into_iter().map(clean).collect()
}

/// The program as the user approves it. If it names something in the current directory, it will run there: the approval
/// must not cover another directory's file of the same name.
pub(crate) fn bound(program: &Program) -> Program {
    let mut program = program.clone();
    let is_relative = |word: &String| {
        let path = Path::new(word);
        let is_script = path
            .extension()
            .is_some_and(|it| SCRIPTS.iter().any(|known| it == *known));
        path.is_relative() && !word.contains("://") && (is_script || path.exists())
    };
    let is_relative_command = program.command.contains('/') && !program.command.starts_with('/');
    if program.cwd.is_none() && (is_relative_command || program.args.iter().any(is_relative)) {
        let here = std::env::current_dir().ok();
        program.cwd = here.map(|here| here.to_string_lossy().into_owned());
    }
    program
}

/// The endings of files that an interpreter runs.
const SCRIPTS: [&str; 9] = ["py", "js", "mjs", "cjs", "ts", "rb", "sh", "jar", "php"];

/// Suggests a variable for the value of a header, e.g. `LAB_TOKEN` for `Authorization`.
pub(crate) fn variable_for(server: &str, header: &str) -> String {
    let suffix = match header.to_ascii_lowercase().as_str() {
        "authorization" => "token".to_owned(),
        other => other.strip_prefix("x-").unwrap_or(other).to_owned(),
    };
    let letter = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_uppercase(),
        _ => '_',
    };
    let name: String = format!("{server}_{suffix}").chars().map(letter).collect();
    match name.bytes().next() {
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        _ => name,
    }
}

/// Approves what a server needs if `agreed_to` is the digest of that; otherwise returns what there is to approve.
pub(crate) fn approve(name: &ServerName, agreed_to: Option<&str>) -> Result<Approval, ConfigError> {
    let path = path();
    let config = read(path.as_deref())?;
    let server = config.entry(name);
    if let Some(server) = server.filter(|it| it.is_withheld) {
        let program = server.program.as_ref().map(bound);
        let (pending, digest) = match (&program, &server.url) {
            (Some(program), _) => (start_summary(program), digest_of_program(program)),
            (None, Some(url)) => (
                header_destinations(url, &server.headers, "would be sent"),
                digest(url, &server.headers),
            ),
            (None, None) => (Vec::new(), String::new()),
        };
        if agreed_to != Some(&digest) {
            return Ok(Approval {
                pending,
                digest,
                is_program: program.is_some(),
                server_configs: server_configs(config.servers),
                ..Approval::default()
            });
        }
        let mut edit = ConfigEdit::open(path.clone())?;
        let cwd = program.as_ref().and_then(|program| program.cwd.as_deref());
        edit.approve(server.name.as_str(), &digest, cwd);
        edit.save()?;
        return Ok(Approval {
            is_approved: true,
            message: approved_message(server),
            server_configs: server_configs(read(path.as_deref())?.servers),
            ..Approval::default()
        });
    }
    let headers = server.map_or(&[] as &[_], |server| server.headers.as_slice());
    let variables = headers.iter().flat_map(|(_, value)| value.variables());
    let sent = variables.map(|variable| format!("${variable}"));
    let sent: Vec<String> = sent.collect();
    let message = match server.and_then(not_set) {
        Some(missing) => format!("{name} is not ready: {missing}"),
        None if server.is_some_and(|it| it.program.is_some()) => format!(
            "{name} is approved; to change its variables, edit `env` in [servers.{name}] of the configuration"
        ),
        None if sent.is_empty() => format!(
            "{name} needs no sign-in or approval; to use other credentials, start longhaul with -H or --bearer-env"
        ),
        None => format!(
            "{name} gets {}; if the server refuses these credentials, change them and restart longhaul, or pass others with -H or --bearer-env",
            sent.join(", ")
        ),
    };
    Ok(Approval {
        message: text::clean_line(&message).into_owned(),
        server_configs: server_configs(config.servers),
        ..Approval::default()
    })
}

/// The message after an approval.
fn approved_message(server: &ServerConfig) -> String {
    let missing = not_set(server).map_or(String::new(), |missing| format!("; {missing}"));
    let name = text::clean_line(server.name.as_str());
    let program = server.program.as_ref();
    let what = program.map_or("receive its variables", |_| "be started");
    format!("{name} may now {what}; longhaul asks again if anything changes{missing}")
}

/// The message about variables that are not set, if any.
fn not_set(server: &ServerConfig) -> Option<String> {
    let is_set = |name: &String| super::secret::env_secret(name).is_some();
    let names: Vec<String> = server
        .all_variables()
        .filter(|name| !is_set(name))
        .collect();
    let names = names.join(", ");
    (!names.is_empty()).then(|| format!("set {names} in the shell from which you run longhaul"))
}

/// A line for each header with variables: `X would be sent to https://lab.example in the X-Key header`. `verb` is
/// 'would be sent' or 'will be sent'.
pub(crate) fn header_destinations(
    url: &str,
    headers: &[(String, Template)],
    verb: &str,
) -> Vec<String> {
    let host = server_url::origin(url).unwrap_or_else(|| server_url::redacted(url).into_owned());
    let line = |(header, value): &(String, Template)| {
        let variables = value.variables().join(", ");
        let line = format!("{variables} {verb} to {host} in the {header} header");
        (!variables.is_empty()).then(|| text::clean_line(&line).into_owned())
    };
    headers.iter().filter_map(line).collect()
}
