//! `servers`: list, add, remove, test and approve servers.
//!
//! Invariant: only `test` contacts a server; the configuration never gets a secret, only the name of its variable.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use super::{
    Context,
    adopt::confirm,
    args::{AddServerArgs, ApproveServerArgs, RemoveServerArgs, TestServersArgs},
    block_on, call,
    config::{
        self, ConfigEdit, Endpoint, NewServer, digest, digest_of_program, is_name, is_secret,
        url_of,
    },
    error::{CliError, code, worst},
    format, json as documents,
    live_session::{LiveEvent, LiveSession},
    quoted,
    target::Targets,
};
use crate::{
    app::Consent,
    domain::{
        LeaveImpact, Limits, LinkRecord, Program, ProtocolVersion, ServerConfig, ServerName,
        ServerObstacle, ServerRef, ServerView, SessionRequest, Task, Template, Tool, server_url,
        text,
    },
    engine::{USUAL_ENVIRONMENT, ask_driver},
    store::{DriverLock, ListFilter, Writer},
};

/// How long to wait for the [`ServerView`] after the tools were listed.
const VIEW_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
/// The most tools listed by name per [`LeaveImpact`].
const MAX_NAMED_TOOLS: usize = 4;

/// Why a configured server cannot be used yet: its `state` in JSON, and the message.
fn obstacle(server: &ServerConfig) -> Option<(&'static str, String)> {
    let name = quoted(server.name.as_str());
    let obstacle = server.obstacle(|name| super::env_secret(name).is_some())?;
    let message = obstacle.message();
    Some(match &obstacle {
        ServerObstacle::Approval => (
            "needs-approval",
            format!("stdio, {message}: longhaul servers approve {name}"),
        ),
        ServerObstacle::Consent(variables) => (
            "needs-consent",
            format!(
                "{message} for {}: longhaul servers consent {name}",
                variables.join(", ")
            ),
        ),
        ServerObstacle::Variables(_) => ("needs-variable", format!("{message}, not set here")),
    })
}

/// The variables that a server needs and that are not set in this process.
fn missing_variables(server: &ServerConfig) -> Option<String> {
    let mut server = server.clone();
    server.withheld = None;
    match server.obstacle(|name| super::env_secret(name).is_some())? {
        ServerObstacle::Variables(names) => Some(names.join(", ")),
        ServerObstacle::Approval | ServerObstacle::Consent(_) => None,
    }
}

/// `servers list`.
pub(super) fn list(context: &mut Context<'_>) -> Result<u8, CliError> {
    let links = context.reader()?.links()?;
    let config = context.config()?;
    let not_configured = links
        .iter()
        .filter(|link| !config.servers.iter().any(|it| it.name == link.name));
    let (mut rows, document): (Vec<Vec<String>>, Vec<Value>) = config
        .servers
        .iter()
        .map(|server| configured(server, &links))
        .chain(not_configured.map(session_only))
        .unzip();
    if context.global.json {
        let document = documents::pretty(&Value::Array(document));
        context.terminal.print_json(&document)?;
        return Ok(code::OK);
    }
    if rows.is_empty() {
        context.terminal.info(
            "no servers yet; add one with `longhaul servers add NAME URL`, or import some with `longhaul servers import`",
        );
    }
    for row in &mut rows {
        for cell in row {
            *cell = text::clean_line(cell).into_owned();
        }
    }
    let ending = context.terminal.ending();
    for line in format::table(&rows, context.terminal.out_columns(), 1, ending) {
        context.terminal.print(line.trim_end())?;
    }
    Ok(code::OK)
}

/// The table row and JSON of a configured server.
fn configured(server: &ServerConfig, links: &[LinkRecord]) -> (Vec<String>, Value) {
    let of_session = links.iter().find(|link| link.name == server.name);
    let url = server.url.as_deref().or(of_session.map(|link| &*link.url));
    let (state, note) = match (obstacle(server), url) {
        (Some(obstacle), _) => obstacle,
        (None, None) => (
            "needs-url",
            "no url in the configuration or this session".to_owned(),
        ),
        (None, Some(_)) if server.program.is_some() => {
            ("ready", "stdio, approved; started when needed".to_owned())
        }
        (None, Some(_)) => ("ready", String::new()),
    };
    let name = server.name.to_string();
    if let Some(program) = &server.program {
        let document = json!({
            "name": server.name,
            "kind": "stdio",
            "command": program.command,
            "args": program.args,
            "cwd": program.cwd,
            "env": program.env.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "variables": program.variables(),
            "state": state,
            "why": note,
            "limits": limits(server.limits),
            "configured": true,
        });
        return (vec![name, command_line(program), note], document);
    }
    let document = json!({
        "name": server.name,
        "kind": "http",
        "url": url.map(server_url::redacted),
        "state": state,
        "why": note,
        "protocol": server.protocol.and_then(|it| it.0).map(ProtocolVersion::label),
        "headers": server.headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "variables": server.variables(),
        "limits": limits(server.limits),
        "configured": true,
    });
    let url = url.map_or(String::new(), |url| server_url::redacted(url).into_owned());
    (vec![name, url, note], document)
}

/// The table row and JSON of a server that is only in the session.
fn session_only(link: &LinkRecord) -> (Vec<String>, Value) {
    let (url, note) = (server_url::redacted(&link.url), "only in this session");
    let document = json!({
        "name": link.name,
        "kind": "http",
        "url": url,
        "state": "ready",
        "why": note,
        "configured": false,
    });
    let row = vec![link.name.to_string(), url.into_owned(), note.to_owned()];
    (row, document)
}

fn limits(limits: Limits) -> Value {
    json!({
        "idle_timeout_s": limits.idle.map(|limit| limit.as_secs_f64()),
        "max_time_s": limits.hard.map(|limit| limit.as_secs_f64()),
    })
}

/// The command line of a program, quoted for a shell.
pub(super) fn command_line(program: &Program) -> String {
    let words = std::iter::once(&program.command).chain(&program.args);
    words
        .map(|word| visible(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Quotes a word for a shell and escapes control and invisible characters.
fn visible(word: &str) -> String {
    let Some(_) = word.find(text::is_hostile) else {
        return quoted(word);
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
fn start_summary(program: &Program) -> Vec<String> {
    let mut lines = vec![format!("program    {}", visible(&program.command))];
    for (number, arg) in (1..).zip(&program.args) {
        lines.push(format!("argument {number} {}", visible(arg)));
    }
    lines.push(match &program.cwd {
        Some(cwd) => format!("directory  {}", visible(cwd)),
        None => "directory  where longhaul is started".to_owned(),
    });
    lines.push(format!("environment {}", USUAL_ENVIRONMENT.join(", ")));
    for (name, value) in &program.env {
        // Only names of variables are shown, because the text around them may be a secret.
        let from: Vec<&str> = value.variables().collect();
        let shown = visible(name);
        lines.push(match from.as_slice() {
            _ if changes_code(name) => format!("  {shown} = {}", visible(value.as_str())),
            [] => format!("  {shown} from the configuration"),
            from => format!("  {shown} from {}", from.join(", ")),
        });
    }
    let templates = program
        .args
        .iter()
        .filter_map(|arg| Template::parse(arg).ok());
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

/// `servers approve`.
pub(super) fn approve(context: &mut Context<'_>, args: &ApproveServerArgs) -> Result<u8, CliError> {
    context.may_act()?;
    let mut servers = context.config()?.servers.iter();
    let server = servers.find(|it| it.name.as_str() == args.name).cloned();
    let Some((server, program)) = server.and_then(|it| Some((it.clone(), it.program?))) else {
        return Err(CliError::usage(format!(
            "no stdio server {} in the configuration; `longhaul servers list` lists the servers",
            text::clean_line(&args.name)
        )));
    };
    if server.withheld.is_none() {
        let message = format!("{} is already approved", server.name);
        return print_approved(context, &server.name, &message);
    }
    let title = format!("{} would run with your permissions:", server.name);
    context.terminal.report(&text::clean_line(&title));
    for line in start_summary(&program) {
        context.terminal.report(&format!("  {line}"));
    }
    if !args.yes && !confirm(context, "approve? y/N")? {
        return Err(CliError::usage("not approved; rerun with --yes to approve"));
    }
    let mut edit = ConfigEdit::open(config::path())?;
    edit.approve(&args.name, &digest_of_program(&program));
    edit.save()?;
    notify_drivers(context);
    let message = format!(
        "approved until any of this changes; test it with `longhaul servers test {}`",
        quoted(&args.name)
    );
    print_approved(context, &server.name, &message)
}

fn print_approved(
    context: &mut Context<'_>,
    name: &ServerName,
    message: &str,
) -> Result<u8, CliError> {
    if context.global.json {
        let document = json!({"server": name, "is_approved": true});
        context
            .terminal
            .print_json(&documents::compact(&document))?;
    } else {
        context.terminal.info(message);
    }
    Ok(code::OK)
}

/// `servers add`.
pub(super) fn add(context: &mut Context<'_>, add: &AddServerArgs) -> Result<u8, CliError> {
    context.may_act()?;
    let name = add.name.trim();
    if !is_name(name) {
        return Err(CliError::usage(format!(
            "{:?} is not a valid server name; use a word such as lab",
            text::clean_line(name)
        )));
    }
    let url =
        url_of(&add.url).map_err(|why| CliError::usage(format!("invalid server URL: {why}")))?;
    check_name_is_free(context, name)?;
    let mut headers = Vec::new();
    for header in &context.global.header {
        if is_secret(&header.name, &header.value) {
            // Configuration files are shared and backed up, and a secret would go with them.
            return Err(CliError::usage(format!(
                "the value of {0} looks like a secret, and secrets are never written to the configuration; put it into a variable \
                 and pass --header '{0}: ${{{1}}}' (the single quotes keep the shell from expanding it)",
                header.name,
                variable_for(name, &header.name)
            )));
        }
        let template = Template::parse(header.value.clone())
            .map_err(|why| CliError::usage(format!("invalid header {}: {why}", header.name)))?;
        headers.push((header.name.clone(), template));
    }
    let server = NewServer {
        name: name.to_owned(),
        endpoint: Endpoint::Http {
            url: url.to_string(),
            headers,
            protocol: context.global.protocol.0.map(ProtocolVersion::label),
            consent: None,
        },
        imported_from: None,
    };
    let mut edit = ConfigEdit::open(config::path())?;
    edit.add(&server);
    let path = edit.path().display().to_string();
    edit.save()?;
    notify_drivers(context);
    let name = quoted(name);
    if context.global.json {
        let document = json!({"added": add.name.trim(), "file": path});
        return context
            .terminal
            .print_json(&documents::compact(&document))
            .map(|()| code::OK);
    }
    context.terminal.info(&format!(
        "added {name} to {path}; test it with `longhaul servers test {name}`, list its tools with `longhaul -s {name} tools`"
    ));
    Ok(code::OK)
}

/// Suggests a variable for the value of a header, e.g. `LAB_TOKEN` for `Authorization`.
pub(super) fn variable_for(server: &str, header: &str) -> String {
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

/// Fails if the configuration has a server with this name.
fn check_name_is_free(context: &Context<'_>, name: &str) -> Result<(), CliError> {
    let config = context.config()?;
    let has_name = |it: &&ServerConfig| it.name.as_str() == name;
    let found = config
        .servers
        .iter()
        .find(has_name)
        .map(|it| match (&it.program, &it.url) {
            (Some(program), _) => command_line(program),
            (None, Some(url)) => server_url::redacted(url).into_owned(),
            (None, None) => "without a url".to_owned(),
        });
    match found {
        Some(location) => Err(CliError::usage(format!(
            "{name} is already in the configuration ({}); choose another name, or run `longhaul servers remove {}` first",
            text::clean_line(&location),
            quoted(name)
        ))),
        None => Ok(()),
    }
}

/// `servers remove`: from the configuration, and from this session if it has no unfinished tasks there.
pub(super) fn remove(context: &mut Context<'_>, args: &RemoveServerArgs) -> Result<u8, CliError> {
    context.may_act()?;
    let name = args.name.as_str();
    let mut edit = ConfigEdit::open(config::path())?;
    let is_configured = edit.remove(name);
    let links = context.reader()?.links()?;
    let is_in_session = links.iter().any(|link| link.name.as_str() == name);
    if !is_configured && !is_in_session {
        return Err(CliError::usage(format!(
            "no server {} in the configuration or this session; `longhaul servers list` lists the servers",
            text::clean_line(name)
        )));
    }
    let unfinished = unfinished_tasks(context, name)?;
    let here = context.paths.session();
    let has_tasks = unfinished.iter().any(|(session, _)| session == here);
    if let Some((session, count)) = unfinished.first().filter(|_| is_configured || has_tasks) {
        let tasks = text::plural(*count, "unfinished task");
        if !is_configured {
            return Err(CliError::usage(text::clean_line(&format!(
                "not removed: {name} has {tasks} in session {session}; wait for them, or cancel them with \
                 `longhaul cancel ID{}`",
                context.flags()
            ))));
        }
        let warning = format!(
            "{name} has {tasks} in session {session}; the session keeps the server, but its configured headers and \
             limits are removed"
        );
        context.terminal.report(&text::clean_line(&warning));
        if !args.yes && !confirm(context, "remove it? y/N")? {
            return Err(CliError::usage(
                "not removed; rerun with --yes to remove it",
            ));
        }
    }
    let path = edit.path().display().to_string();
    if is_configured {
        edit.save()?;
        notify_drivers(context);
    }
    let mut from: Vec<String> = is_configured.then_some(path.clone()).into_iter().collect();
    if is_in_session && !has_tasks {
        match remove_from_session(context, name) {
            Ok(()) => from.push(format!("session {}", context.paths.session())),
            Err(fail) if is_configured => {
                let line = format!("longhaul: {}", fail.into_message());
                context.terminal.info(&line);
            }
            Err(fail) => return Err(fail),
        }
    }
    if context.global.json {
        let file = is_configured.then_some(path);
        let document = json!({"removed": name, "file": file});
        return context
            .terminal
            .print_json(&documents::compact(&document))
            .map(|()| code::OK);
    }
    let message = format!("removed {name} from {}", from.join(" and "));
    context.terminal.info(&text::clean_line(&message));
    Ok(code::OK)
}

/// Removes a server from the session file; fails while a driver has it open.
fn remove_from_session(context: &mut Context<'_>, name: &str) -> Result<(), CliError> {
    let Some(lock) = DriverLock::try_take(&context.paths)? else {
        return Err(CliError::usage(text::clean_line(&format!(
            "session {} still has the server {name}, because another longhaul has the session open; quit that one, \
             then run this again",
            context.paths.session()
        ))));
    };
    let mut writer = Writer::open(&context.paths, context.clock.now().wall)?.writer;
    writer.remove_link(&ServerName::new(name))?;
    drop((writer, lock));
    Ok(())
}

/// The sessions with unfinished tasks on a server, and the number of those tasks in each.
fn unfinished_tasks(context: &Context<'_>, name: &str) -> Result<Vec<(String, u64)>, CliError> {
    let here = (context.paths.session().to_owned(), context.reader()?);
    let is_unfinished = |task: &&Task| {
        let is_open = !task.status.is_settled() && task.forgotten_at.is_none();
        task.server.as_str() == name && is_open
    };
    let mut found = Vec::new();
    for (session, mut reader) in std::iter::once(here).chain(context.other_sessions()) {
        let all = ListFilter {
            all: true,
            limit: None,
        };
        let tasks = reader.tasks(all).unwrap_or_default();
        let count = tasks.iter().filter(is_unfinished).count();
        if count > 0 {
            found.push((session, u64::try_from(count).unwrap_or(u64::MAX)));
        }
    }
    Ok(found)
}

/// `servers consent`.
pub(super) fn consent(context: &mut Context<'_>, args: &ApproveServerArgs) -> Result<u8, CliError> {
    context.may_act()?;
    let mut servers = context.config()?.servers.iter();
    let server = servers.find(|it| it.name.as_str() == args.name).cloned();
    let Some(server) = server else {
        return Err(CliError::usage(format!(
            "no server {} in the configuration; `longhaul servers list` lists the servers",
            text::clean_line(&args.name)
        )));
    };
    let (Some(url), Some(_)) = (&server.url, &server.withheld) else {
        let message = format!("{} does not need consent", server.name);
        return print_consented(context, &server.name, &message);
    };
    if server.program.is_some() {
        return Err(CliError::usage(format!(
            "{} is a stdio server; use `longhaul servers approve {}`",
            text::clean_line(server.name.as_str()),
            quoted(server.name.as_str())
        )));
    }
    for line in header_destinations(url, &server.headers, "would go") {
        context.terminal.report(&line);
    }
    if !args.yes && !confirm(context, "allow? y/N")? {
        return Err(CliError::usage("not approved; rerun with --yes to approve"));
    }
    let mut edit = ConfigEdit::open(config::path())?;
    edit.consent(&args.name, &digest(url, &server.headers));
    edit.save()?;
    notify_drivers(context);
    print_consented(context, &server.name, &consent_given(&server))
}

/// `servers consent` and `servers approve` for the screen. Gives the consent if `agreed_to` is the digest of what it now
/// covers; otherwise returns what it would cover.
pub(super) fn consent_on_screen(
    name: &ServerName,
    agreed_to: Option<&str>,
) -> Result<Consent, String> {
    let path = config::path();
    let config = config::read(path.as_deref())?;
    let server = config.servers.iter().find(|it| it.name == *name);
    if let Some(server) = server.filter(|it| it.withheld.is_some()) {
        let (to_agree, digest) = match (&server.program, &server.url) {
            (Some(program), _) => (start_summary(program), digest_of_program(program)),
            (None, Some(url)) => (
                header_destinations(url, &server.headers, "would go"),
                digest(url, &server.headers),
            ),
            (None, None) => (Vec::new(), String::new()),
        };
        let is_program = server.program.is_some();
        if agreed_to != Some(&digest) {
            return Ok(Consent {
                pending: to_agree,
                digest,
                is_program,
                server_configs: config::server_configs(config.servers),
                ..Consent::default()
            });
        }
        let mut edit = ConfigEdit::open(path.clone()).map_err(CliError::into_message)?;
        if is_program {
            edit.approve(name.as_str(), &digest);
        } else {
            edit.consent(name.as_str(), &digest);
        }
        edit.save().map_err(CliError::into_message)?;
        return Ok(Consent {
            is_approved: true,
            message: consent_given(server),
            server_configs: config::server_configs(config::read(path.as_deref())?.servers),
            ..Consent::default()
        });
    }
    let headers = server.map_or(&[] as &[_], |server| server.headers.as_slice());
    let sent: Vec<String> = headers
        .iter()
        .flat_map(|(_, value)| value.variables())
        .map(|variable| format!("${variable}"))
        .collect();
    let message = match server.and_then(not_set) {
        Some(missing) => format!("{name} is not ready: {missing}"),
        None if sent.is_empty() => format!(
            "{name} needs no consent; to use other credentials, start longhaul with -H or --bearer-env"
        ),
        None => format!(
            "{name} gets {}; if the server refuses it, set it again and restart longhaul, or pass other credentials with -H or --bearer-env",
            sent.join(", ")
        ),
    };
    Ok(Consent {
        message: text::clean_line(&message).into_owned(),
        server_configs: config::server_configs(config.servers),
        ..Consent::default()
    })
}

/// The message after consent or approval.
fn consent_given(server: &ServerConfig) -> String {
    let missing = not_set(server).map_or(String::new(), |missing| format!("; {missing}"));
    let name = text::clean_line(server.name.as_str());
    format!("allowed for {name} until any of this changes{missing}")
}

/// The message about variables that are not set, if any.
fn not_set(server: &ServerConfig) -> Option<String> {
    missing_variables(server)
        .map(|names| format!("{names} is not set; set it where you start longhaul"))
}

/// Sends the new configuration to the drivers of all sessions.
pub(super) fn notify_drivers(context: &Context<'_>) {
    // The next command that reads the configuration reports why it can't be read.
    let Ok(config) = config::read(config::path().as_deref()) else {
        return;
    };
    let sessions = context.paths.all().unwrap_or_default();
    let server_configs = config::server_configs(config.servers);
    let sent = block_on(async {
        let requests = sessions
            .iter()
            .map(|paths| ask_driver(paths, SessionRequest::Configure(server_configs.clone())));
        futures_util::future::join_all(requests).await;
        Ok(())
    });
    if let Err(CliError::Message { text: words, .. }) = sent {
        tracing::warn!(%words, "could not send the configuration to the drivers");
    }
}

fn print_consented(
    context: &mut Context<'_>,
    name: &ServerName,
    message: &str,
) -> Result<u8, CliError> {
    if context.global.json {
        let document = json!({"server": name, "has_consent": true});
        context
            .terminal
            .print_json(&documents::compact(&document))?;
    } else {
        context.terminal.info(message);
    }
    Ok(code::OK)
}

/// A line for each header with variables: `X would go to https://lab.example in the header X-Key`. `verb` is 'would go' or
/// 'goes'.
pub(super) fn header_destinations(
    url: &str,
    headers: &[(String, Template)],
    verb: &str,
) -> Vec<String> {
    let host = url::Url::parse(url).map_or_else(
        |_| server_url::redacted(url).into_owned(),
        |url| url.origin().ascii_serialization(),
    );
    let line = |(header, value): &(String, Template)| {
        let variables: Vec<&str> = value.variables().collect();
        let line = format!(
            "{} {verb} to {host} in the header {header}",
            variables.join(", ")
        );
        (!variables.is_empty()).then(|| text::clean_line(&line).into_owned())
    };
    headers.iter().filter_map(line).collect()
}

/// The result of testing one server; `Err` is the exit code and message.
struct TestReport {
    name: ServerName,
    url: String,
    outcome: Result<TestSuccess, (u8, String)>,
}

struct TestSuccess {
    took_ms: u64,
    view: Option<ServerView>,
    tools: Vec<Tool>,
}

/// `servers test`.
pub(super) fn test(context: &mut Context<'_>, args: &TestServersArgs) -> Result<u8, CliError> {
    let mut reader = context.reader_to_act()?;
    let servers = Targets::of(context, &mut reader)?;
    let named = servers.names().into_iter().cloned().collect::<Vec<_>>();
    let one = |server: ServerRef| vec![(server.name.clone(), Ok(server))];
    let wanted: Vec<(ServerName, Result<ServerRef, CliError>)> =
        match (&args.name, named.as_slice()) {
            (Some(name), _) => one(servers.named(name)?),
            (None, []) => servers
                .choices()
                .map(|(name, server)| (name.clone(), server))
                .collect(),
            (None, _) => one(servers.one()?),
        };
    let urls = servers.urls();
    if wanted.is_empty() {
        return Err(CliError::usage(
            "no servers to test; add one with `longhaul servers add NAME URL`",
        ));
    }
    let mut codes = Vec::new();
    let mut json_reports = Vec::new();
    for (name, server) in wanted {
        let report = match server {
            Ok(server) => test_one(context, server)?,
            // One that fails does not keep the others from being tested.
            Err(CliError::Message { code, text: words }) => {
                let url = urls.iter().find(|(of, _)| *of == name);
                TestReport {
                    url: url.map_or(String::new(), |(_, url)| url.clone()),
                    name,
                    outcome: Err((code, words)),
                }
            }
            Err(fail) => return Err(fail),
        };
        codes.extend(report.outcome.as_ref().err().map(|(code, _)| *code));
        if context.global.json {
            json_reports.push(document(&report));
        } else {
            print(context, &report)?;
        }
    }
    if context.global.json {
        let document = documents::pretty(&Value::Array(json_reports));
        context.terminal.print_json(&document)?;
    }
    Ok(worst(codes.into_iter()))
}

fn test_one(context: &mut Context<'_>, server: ServerRef) -> Result<TestReport, CliError> {
    let name = server.name.clone();
    let configured = context.config()?.servers.iter().find(|it| it.name == name);
    let url = server
        .url
        .clone()
        .or(configured.and_then(|it| it.url.clone()))
        .unwrap_or_default();
    let outcome = block_on(async {
        let mut live = LiveSession::open(context, vec![server])?;
        let started = context.clock.now().mono;
        let tools = call::list_tools(context, &mut live, &name).await;
        let took = context.clock.now().mono.since(started);
        let outcome = match tools {
            Ok(tools) => Ok(TestSuccess {
                took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                view: server_view(context, &mut live, &name).await,
                tools,
            }),
            Err(CliError::Message { code, text: words }) if code != code::INTERRUPTED => {
                Err((code, words))
            }
            Err(fail) => return Err(fail),
        };
        live.leave(context, &[]).await;
        Ok(outcome)
    })?;
    Ok(TestReport { name, url, outcome })
}

/// The view of a server with its tools, which arrives shortly after the list of tools.
async fn server_view(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    name: &ServerName,
) -> Option<ServerView> {
    let deadline = tokio::time::Instant::now() + VIEW_TIMEOUT;
    loop {
        let view = live.servers.get(name);
        if let Some(view) = view.filter(|view| view.tools.is_some()) {
            return Some(ServerView::clone(view));
        }
        match tokio::time::timeout_at(deadline, live.next(context)).await {
            Ok(Ok(LiveEvent::Session(_))) => {}
            _ => return None,
        }
    }
}

/// What quitting would do to a call of each tool: the tools by impact, worst last.
fn impacts(success: &TestSuccess) -> Vec<(LeaveImpact, Vec<&str>)> {
    let Some(view) = &success.view else {
        return Vec::new();
    };
    let mut by_impact: BTreeMap<(u8, String), (LeaveImpact, Vec<&str>)> = BTreeMap::new();
    for tool in success.tools.iter().filter(|tool| tool.is_offered()) {
        let impact = LeaveImpact::of_call(tool, &success.tools, &view.capabilities);
        let rank = match impact {
            LeaveImpact::Safe { .. } => 0,
            LeaveImpact::Pauses { .. } => 1,
            LeaveImpact::Likely { .. } => 2,
            LeaveImpact::Dies { .. } => 3,
        };
        let entry = by_impact.entry((rank, impact.why().to_owned()));
        let (_, tools) = entry.or_insert((impact, Vec::new()));
        tools.push(&tool.name);
    }
    by_impact.into_values().collect()
}

fn document(report: &TestReport) -> Value {
    let mut document = json!({
        "server": report.name,
        "url": server_url::redacted(&report.url),
        "ok": report.outcome.is_ok(),
    });
    let more = match &report.outcome {
        Ok(success) => {
            let impact = |(impact, tools): (LeaveImpact, Vec<&str>)| json!({"leaving": impact.label(), "why": impact.why(), "tools": tools});
            let view = success.view.as_ref();
            json!({
                "took_ms": success.took_ms,
                "era": view.map(|view| &view.era),
                "era_why": view.map(|view| &view.era_why),
                "server_info": view.and_then(|view| view.server_info.as_ref()),
                "tools": success.tools.iter().filter(|tool| tool.is_offered()).count(),
                "event_ids": view.and_then(|view| view.capabilities.gives_ids),
                "calls": impacts(success).into_iter().map(impact).collect::<Vec<_>>(),
            })
        }
        Err((code, message)) => json!({"code": code, "error": message}),
    };
    if let (Some(document), Value::Object(more)) = (document.as_object_mut(), more) {
        document.extend(more);
    }
    document
}

fn print(context: &mut Context<'_>, report: &TestReport) -> Result<(), CliError> {
    let name = text::clean_line(report.name.as_str()).into_owned();
    let success = match &report.outcome {
        Ok(success) => success,
        Err((_, message)) => {
            let message = text::clean_line(message).into_owned();
            // Many messages start with the name already.
            let message = message
                .strip_prefix(&format!("{name} "))
                .unwrap_or(&message);
            return context.terminal.print(&format!("{name}: {message}"));
        }
    };
    let offered = success
        .tools
        .iter()
        .filter(|tool| tool.is_offered())
        .count();
    let tools = text::plural(u64::try_from(offered).unwrap_or(u64::MAX), "tool");
    let view = success.view.as_ref();
    let info = view
        .and_then(|view| view.server_info.as_deref())
        .map_or(String::new(), |info| format!(" {}", text::clean_line(info)));
    let era = view.map_or(String::new(), |view| {
        format!(", MCP {} ({})", view.era, view.era_why)
    });
    context.terminal.print(&format!(
        "{name}: answers in {} ms{info}{era}, {tools}",
        success.took_ms
    ))?;
    for (impact, tools) in impacts(success) {
        let named = tools
            .iter()
            .take(MAX_NAMED_TOOLS)
            .copied()
            .collect::<Vec<_>>();
        let more = match tools.len().saturating_sub(MAX_NAMED_TOOLS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let line = format!(
            "  if you quit: {} ({}): {}{more}",
            impact.label(),
            impact.why(),
            named.join(", ")
        );
        context.terminal.print(&text::clean_line(&line))?;
    }
    Ok(())
}
