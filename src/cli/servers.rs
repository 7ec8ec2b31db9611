//! `servers`: which servers there are, and what the configuration says of them.
//!
//! Invariant: only `test` contacts anybody; a secret is never written into the file, only the name of its variable.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use super::{
    Context,
    adopt::says_yes,
    args::{AddServer, OfServer, RemoveServer, TestServers},
    block_on, calls,
    config::{self, Edit, How, Written, digest, digest_of_program, is_name, is_secret, url_of},
    fail::{Fail, code, worst},
    json as documents, lines,
    live::{Event, Live},
    quoted,
    target::Targets,
};
use crate::{
    app::Consent,
    domain::{
        LeaveImpact, Limits, LinkRecord, Obstacle, Program, ProtocolVersion, ServerConfig,
        ServerName, ServerRef, ServerView, SessionRequest, Task, Template, Tool, place, text,
    },
    engine::{USUAL_ENVIRONMENT, ask_driver},
    store::{DriverLock, ListFilter, Writer},
};

/// How long the picture of a server may take that has answered already.
const PICTURE_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);
/// Tools named for each price.
const NAMED: usize = 4;

/// Why a server of the configuration cannot be used as it stands.
fn obstacle(server: &ServerConfig) -> Option<(&'static str, String)> {
    let name = quoted(server.name.as_str());
    let obstacle = server.obstacle(|name| super::variable(name).is_some())?;
    let words = obstacle.message();
    Some(match &obstacle {
        Obstacle::Approval => (
            "needs-approval",
            format!("stdio, {words}: longhaul servers approve {name}"),
        ),
        Obstacle::Consent(variables) => (
            "needs-consent",
            format!(
                "{words} for {}: longhaul servers consent {name}",
                variables.join(", ")
            ),
        ),
        Obstacle::Variables(_) => ("needs-variable", format!("{words}, not set here")),
    })
}

/// The variables that this process lacks, of a server that nothing else stands in the way of.
fn missing(server: &ServerConfig) -> Option<String> {
    let mut server = server.clone();
    server.withheld = None;
    match server.obstacle(|name| super::variable(name).is_some())? {
        Obstacle::Variables(names) => Some(names.join(", ")),
        Obstacle::Approval | Obstacle::Consent(_) => None,
    }
}

/// `servers list`.
pub(super) fn list(context: &mut Context<'_>) -> Result<u8, Fail> {
    let links = context.reader()?.links()?;
    let config = context.config()?;
    let of_session_only = links
        .iter()
        .filter(|link| !config.servers.iter().any(|it| it.name == link.name));
    let (mut rows, document): (Vec<Vec<String>>, Vec<Value>) = config
        .servers
        .iter()
        .map(|server| configured(server, &links))
        .chain(of_session_only.map(remembered))
        .unzip();
    if context.global.json {
        let document = documents::pretty(&Value::Array(document));
        context.terminal.document(&document)?;
        return Ok(code::OK);
    }
    if rows.is_empty() {
        context.terminal.remark(
            "no server yet; `longhaul servers add NAME URL` adds one, `longhaul servers import` takes those of other programs",
        );
    }
    for row in &mut rows {
        for cell in row {
            *cell = text::clean_line(cell).into_owned();
        }
    }
    let ending = context.terminal.ending();
    for line in lines::table(&rows, context.terminal.out_columns(), 1, ending) {
        context.terminal.line(line.trim_end())?;
    }
    Ok(code::OK)
}

/// The row and the document of a server of the configuration.
fn configured(server: &ServerConfig, links: &[LinkRecord]) -> (Vec<String>, Value) {
    let of_session = links.iter().find(|link| link.name == server.name);
    let url = server.url.as_deref().or(of_session.map(|link| &*link.url));
    let (state, words) = match (obstacle(server), url) {
        (Some(obstacle), _) => obstacle,
        (None, None) => (
            "needs-url",
            "no url here, and the session knows none".to_owned(),
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
            "why": words,
            "limits": limits(server.limits),
            "configured": true,
        });
        return (vec![name, command_line(program), words], document);
    }
    let document = json!({
        "name": server.name,
        "kind": "http",
        "url": url.map(place::shown),
        "state": state,
        "why": words,
        "protocol": server.protocol.and_then(|it| it.0).map(ProtocolVersion::label),
        "headers": server.headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "variables": server.variables(),
        "limits": limits(server.limits),
        "configured": true,
    });
    let url = url.map_or(String::new(), |url| place::shown(url).into_owned());
    (vec![name, url, words], document)
}

/// The row and the document of a server that only the session knows.
fn remembered(link: &LinkRecord) -> (Vec<String>, Value) {
    let (url, words) = (place::shown(&link.url), "of this session only");
    let document = json!({
        "name": link.name,
        "kind": "http",
        "url": url,
        "state": "ready",
        "why": words,
        "configured": false,
    });
    let row = vec![link.name.to_string(), url.into_owned(), words.to_owned()];
    (row, document)
}

fn limits(limits: Limits) -> Value {
    json!({
        "idle_timeout_s": limits.idle.map(|limit| limit.as_secs_f64()),
        "max_time_s": limits.hard.map(|limit| limit.as_secs_f64()),
    })
}

/// A command as a shell would take it.
pub(super) fn command_line(program: &Program) -> String {
    let words = std::iter::once(&program.command).chain(&program.args);
    words.map(|word| seen(word)).collect::<Vec<_>>().join(" ")
}

/// A word in quotes, with every character written out that moves the cursor or cannot be seen.
fn seen(word: &str) -> String {
    let Some(_) = word.find(text::is_hostile) else {
        return quoted(word);
    };
    let mut seen = "$'".to_owned();
    for letter in word.chars() {
        match letter {
            '\n' => seen.push_str("\\n"),
            '\r' => seen.push_str("\\r"),
            '\t' => seen.push_str("\\t"),
            '\'' | '\\' => seen.extend(['\\', letter]),
            letter if text::is_hostile(letter) => {
                // A String takes everything.
                let _ = write!(seen, "\\u{{{:x}}}", u32::from(letter));
            }
            letter => seen.push(letter),
        }
    }
    seen.push('\'');
    seen
}

/// Whether a variable of the environment says what is run rather than with what.
fn steers(name: &str) -> bool {
    const WHOLE: [&str; 6] = ["PATH", "IFS", "ENV", "SHELL", "EDITOR", "JAVA_TOOL_OPTIONS"];
    const FRONTS: [&str; 9] = [
        "LD_", "DYLD_", "NODE_", "NPM_", "PYTHON", "PERL", "RUBY", "BASH", "GIT_",
    ];
    let name = name.to_ascii_uppercase();
    WHOLE.contains(&name.as_str()) || FRONTS.iter().any(|front| name.starts_with(front))
}

/// All that a program would be started with, a line each.
fn starts(program: &Program) -> Vec<String> {
    let mut lines = vec![format!("program    {}", seen(&program.command))];
    for (place, arg) in (1..).zip(&program.args) {
        lines.push(format!("argument {place} {}", seen(arg)));
    }
    lines.push(match &program.cwd {
        Some(cwd) => format!("directory  {}", seen(cwd)),
        None => "directory  the one where longhaul is started".to_owned(),
    });
    lines.push(format!("environment {}", USUAL_ENVIRONMENT.join(", ")));
    for (name, value) in &program.env {
        // What stands around a variable may be a secret.
        let from: Vec<&str> = value.variables().collect();
        let shown = seen(name);
        lines.push(match from.as_slice() {
            _ if steers(name) => format!("  {shown} = {}", seen(value.as_str())),
            [] => format!("  {shown} as the configuration has it"),
            from => format!("  {shown} from {}", from.join(", ")),
        });
    }
    let of_args = program
        .args
        .iter()
        .filter_map(|arg| Template::parse(arg).ok());
    let in_args: Vec<String> = of_args
        .flat_map(|arg| arg.variables().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    if !in_args.is_empty() {
        let names = in_args.join(", ");
        lines.push(format!(
            "its arguments get {names}, and the list of processes shows them to everybody on this machine"
        ));
    }
    let clean = |line: String| text::clean_line(&line).into_owned();
    lines.into_iter().map(clean).collect()
}

/// `servers approve`.
pub(super) fn approve(context: &mut Context<'_>, of: &OfServer) -> Result<u8, Fail> {
    context.may_act()?;
    let mut servers = context.config()?.servers.iter();
    let server = servers.find(|it| it.name.as_str() == of.name).cloned();
    let Some((server, program)) = server.and_then(|it| Some((it.clone(), it.program?))) else {
        return Err(Fail::usage(format!(
            "the configuration has no program {}; `longhaul servers list` lists what there is",
            text::clean_line(&of.name)
        )));
    };
    if server.withheld.is_none() {
        let words = format!("{} is approved already", server.name);
        return approved(context, &server.name, &words);
    }
    let title = format!("{} would be started with your rights:", server.name);
    context.terminal.say(&text::clean_line(&title));
    for line in starts(&program) {
        context.terminal.say(&format!("  {line}"));
    }
    if !of.yes && !says_yes(context, "approve? y/N")? {
        return Err(Fail::usage("not approved; rerun with --yes to approve"));
    }
    let mut edit = Edit::open(config::path())?;
    edit.approve(&of.name, &digest_of_program(&program));
    edit.save()?;
    tell_drivers(context);
    let words = format!(
        "approved; it holds until anything of that changes; `longhaul servers test {}` tries it",
        quoted(&of.name)
    );
    approved(context, &server.name, &words)
}

fn approved(context: &mut Context<'_>, name: &ServerName, words: &str) -> Result<u8, Fail> {
    if context.global.json {
        let document = json!({"server": name, "is_approved": true});
        context.terminal.document(&documents::text_of(&document))?;
    } else {
        context.terminal.remark(words);
    }
    Ok(code::OK)
}

/// `servers add`.
pub(super) fn add(context: &mut Context<'_>, add: &AddServer) -> Result<u8, Fail> {
    context.may_act()?;
    let name = add.name.trim();
    if !is_name(name) {
        return Err(Fail::usage(format!(
            "{:?} is not a valid server name; use a word such as lab",
            text::clean_line(name)
        )));
    }
    let url = url_of(&add.url)
        .map_err(|why| Fail::usage(format!("could not use that URL as a server: {why}")))?;
    must_be_new(context, name)?;
    let mut headers = Vec::new();
    for header in &context.global.header {
        if is_secret(&header.name, &header.value) {
            // The file is shared and backed up as others are, and a secret in it would go along.
            return Err(Fail::usage(format!(
                "the value of {0} looks like a secret, and none is written into the configuration; put it into a variable \
                 and write --header '{0}: ${{{1}}}' in single quotes, so that the shell leaves it alone",
                header.name,
                variable_for(name, &header.name)
            )));
        }
        let template = Template::parse(header.value.clone())
            .map_err(|why| Fail::usage(format!("the header {}: {why}", header.name)))?;
        headers.push((header.name.clone(), template));
    }
    let server = Written {
        name: name.to_owned(),
        how: How::Http {
            url: url.to_string(),
            headers,
            protocol: context.global.protocol.0.map(ProtocolVersion::label),
            consent: None,
        },
        imported_from: None,
    };
    let mut edit = Edit::open(config::path())?;
    edit.add(&server);
    let path = edit.path().display().to_string();
    edit.save()?;
    tell_drivers(context);
    let name = quoted(name);
    if context.global.json {
        let document = json!({"added": add.name.trim(), "file": path});
        return context
            .terminal
            .document(&documents::text_of(&document))
            .map(|()| code::OK);
    }
    context.terminal.remark(&format!(
        "added {name} to {path}; `longhaul servers test {name}` tries it, `longhaul -s {name} tools` lists its tools"
    ));
    Ok(code::OK)
}

/// A variable that a header of a server could come from.
pub(super) fn variable_for(server: &str, what: &str) -> String {
    let what = match what.to_ascii_lowercase().as_str() {
        "authorization" => "token".to_owned(),
        other => other.strip_prefix("x-").unwrap_or(other).to_owned(),
    };
    let letter = |letter: char| match letter {
        letter if letter.is_ascii_alphanumeric() => letter.to_ascii_uppercase(),
        _ => '_',
    };
    let name: String = format!("{server}_{what}").chars().map(letter).collect();
    match name.bytes().next() {
        Some(first) if first.is_ascii_digit() => format!("_{name}"),
        _ => name,
    }
}

fn must_be_new(context: &Context<'_>, name: &str) -> Result<(), Fail> {
    let config = context.config()?;
    let is_it = |it: &&ServerConfig| it.name.as_str() == name;
    let found = config
        .servers
        .iter()
        .find(is_it)
        .map(|it| match (&it.program, &it.url) {
            (Some(program), _) => command_line(program),
            (None, Some(url)) => place::shown(url).into_owned(),
            (None, None) => "without a url".to_owned(),
        });
    match found {
        Some(what) => Err(Fail::usage(format!(
            "{name} is in the configuration already ({}); choose another name, or `longhaul servers remove {}` first",
            text::clean_line(&what),
            quoted(name)
        ))),
        None => Ok(()),
    }
}

/// `servers remove`: from the configuration, and from this session where nothing there needs it any more.
pub(super) fn remove(context: &mut Context<'_>, remove: &RemoveServer) -> Result<u8, Fail> {
    context.may_act()?;
    let name = remove.name.as_str();
    let mut edit = Edit::open(config::path())?;
    let is_configured = edit.remove(name);
    let links = context.reader()?.links()?;
    let is_of_session = links.iter().any(|link| link.name.as_str() == name);
    if !is_configured && !is_of_session {
        return Err(Fail::usage(format!(
            "neither the configuration nor this session has a server {}; `longhaul servers list` lists what there is",
            text::clean_line(name)
        )));
    }
    let unsettled = unsettled(context, name)?;
    let here = context.paths.session();
    let has_tasks = unsettled.iter().any(|(session, _)| session == here);
    if let Some((session, count)) = unsettled.first().filter(|_| is_configured || has_tasks) {
        let tasks = text::plural(*count, "unsettled task");
        if !is_configured {
            return Err(Fail::usage(text::clean_line(&format!(
                "not removed: {name} has {tasks} in session {session}; wait for them, or cancel them with \
                 `longhaul cancel ID{}`",
                context.flags()
            ))));
        }
        let words = format!(
            "{name} has {tasks} in session {session}; what the session knows of {name} stays there, but the headers and \
             limits of the configuration go"
        );
        context.terminal.say(&text::clean_line(&words));
        if !remove.yes && !says_yes(context, "remove it? y/N")? {
            return Err(Fail::usage("nothing was removed; --yes removes it"));
        }
    }
    let path = edit.path().display().to_string();
    if is_configured {
        edit.save()?;
        tell_drivers(context);
    }
    let mut from: Vec<String> = is_configured.then_some(path.clone()).into_iter().collect();
    if is_of_session && !has_tasks {
        match forget(context, name) {
            Ok(()) => from.push(format!("session {}", context.paths.session())),
            Err(fail) if is_configured => {
                let words = format!("longhaul: {}", fail.into_words());
                context.terminal.remark(&words);
            }
            Err(fail) => return Err(fail),
        }
    }
    if context.global.json {
        let file = is_configured.then_some(path);
        let document = json!({"removed": name, "file": file});
        return context
            .terminal
            .document(&documents::text_of(&document))
            .map(|()| code::OK);
    }
    let words = format!("removed {name} from {}", from.join(" and "));
    context.terminal.remark(&text::clean_line(&words));
    Ok(code::OK)
}

/// Takes a server out of the session file, which no driver may have open.
fn forget(context: &mut Context<'_>, name: &str) -> Result<(), Fail> {
    let Some(lock) = DriverLock::try_take(&context.paths)? else {
        return Err(Fail::usage(text::clean_line(&format!(
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

/// The sessions with unsettled tasks on a server, and how many each has.
fn unsettled(context: &Context<'_>, name: &str) -> Result<Vec<(String, u64)>, Fail> {
    let here = (context.paths.session().to_owned(), context.reader()?);
    let is_unsettled = |task: &&Task| {
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
        let count = tasks.iter().filter(is_unsettled).count();
        if count > 0 {
            found.push((session, u64::try_from(count).unwrap_or(u64::MAX)));
        }
    }
    Ok(found)
}

/// `servers consent`.
pub(super) fn consent(context: &mut Context<'_>, of: &OfServer) -> Result<u8, Fail> {
    context.may_act()?;
    let mut servers = context.config()?.servers.iter();
    let server = servers.find(|it| it.name.as_str() == of.name).cloned();
    let Some(server) = server else {
        return Err(Fail::usage(format!(
            "the configuration has no server {} with headers; `longhaul servers list` lists what there is",
            text::clean_line(&of.name)
        )));
    };
    let (Some(url), Some(_)) = (&server.url, &server.withheld) else {
        let words = format!("{} waits for no consent", server.name);
        return consented(context, &server.name, &words);
    };
    if server.program.is_some() {
        return Err(Fail::usage(format!(
            "{} is a program; `longhaul servers approve {}` shows what would be started, and asks",
            text::clean_line(server.name.as_str()),
            quoted(server.name.as_str())
        )));
    }
    for line in goes_where(url, &server.headers) {
        context.terminal.say(&line);
    }
    if !of.yes && !says_yes(context, "agree? y/N")? {
        return Err(Fail::usage("not approved; rerun with --yes to approve"));
    }
    let mut edit = Edit::open(config::path())?;
    edit.consent(&of.name, &digest(url, &server.headers));
    edit.save()?;
    tell_drivers(context);
    consented(context, &server.name, &agreed(&server))
}

/// `servers consent` and `servers approve` for the screen: what there is to agree to, agreed to where its digest is the one
/// of what was shown.
pub(super) fn consent_on_screen(
    name: &ServerName,
    agreed_to: Option<&str>,
) -> Result<Consent, String> {
    let path = config::path();
    let config = config::read(path.as_deref())?;
    let server = config.servers.iter().find(|it| it.name == *name);
    if let Some(server) = server.filter(|it| it.withheld.is_some()) {
        let (to_agree, digest) = match (&server.program, &server.url) {
            (Some(program), _) => (starts(program), digest_of_program(program)),
            (None, Some(url)) => (
                goes_where(url, &server.headers),
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
        let mut edit = Edit::open(path.clone()).map_err(Fail::into_words)?;
        if is_program {
            edit.approve(name.as_str(), &digest);
        } else {
            edit.consent(name.as_str(), &digest);
        }
        edit.save().map_err(Fail::into_words)?;
        return Ok(Consent {
            is_approved: true,
            message: agreed(server),
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
    let words = match server.and_then(not_set) {
        Some(missing) => format!("{name} waits: {missing}"),
        None if sent.is_empty() => format!(
            "nothing of the configuration waits for consent at {name}; for other credentials start longhaul with -H or --bearer-env"
        ),
        None => format!(
            "{name} gets {} as the configuration has it; where that was refused, set it again and restart longhaul, or pass other credentials with -H or --bearer-env",
            sent.join(", ")
        ),
    };
    Ok(Consent {
        message: text::clean_line(&words).into_owned(),
        server_configs: config::server_configs(config.servers),
        ..Consent::default()
    })
}

/// What is said once it is agreed to.
fn agreed(server: &ServerConfig) -> String {
    let missing = not_set(server).map_or(String::new(), |missing| format!("; {missing}"));
    let name = text::clean_line(server.name.as_str());
    format!("agreed for {name}; it holds until anything of that changes{missing}")
}

/// The same, and what to do.
fn not_set(server: &ServerConfig) -> Option<String> {
    missing(server)
        .map(|missing| format!("{missing} is not set here, so set it where you start longhaul"))
}

/// Lets every longhaul that drives a session know what the configuration says now.
pub(super) fn tell_drivers(context: &Context<'_>) {
    // What cannot be read has been said, or will be by the next who reads it.
    let Ok(config) = config::read(config::path().as_deref()) else {
        return;
    };
    let sessions = context.paths.all().unwrap_or_default();
    let server_configs = config::server_configs(config.servers);
    let told = block_on(async {
        let told = sessions
            .iter()
            .map(|paths| ask_driver(paths, SessionRequest::Configure(server_configs.clone())));
        futures_util::future::join_all(told).await;
        Ok(())
    });
    if let Err(Fail::Said { words, .. }) = told {
        tracing::warn!(%words, "the drivers were not told");
    }
}

fn consented(context: &mut Context<'_>, name: &ServerName, words: &str) -> Result<u8, Fail> {
    if context.global.json {
        let document = json!({"server": name, "has_consent": true});
        context.terminal.document(&documents::text_of(&document))?;
    } else {
        context.terminal.remark(words);
    }
    Ok(code::OK)
}

/// Which variables would go to which host, and in what: a line for each header.
pub(super) fn goes_where(url: &str, headers: &[(String, Template)]) -> Vec<String> {
    let host = url::Url::parse(url).map_or_else(
        |_| place::shown(url).into_owned(),
        |url| url.origin().ascii_serialization(),
    );
    let line = |(header, value): &(String, Template)| {
        let variables: Vec<&str> = value.variables().collect();
        let words = format!(
            "{} would go to {host} in the header {header}",
            variables.join(", ")
        );
        (!variables.is_empty()).then(|| text::clean_line(&words).into_owned())
    };
    headers.iter().filter_map(line).collect()
}

/// What a test found.
struct Found {
    name: ServerName,
    url: String,
    outcome: Result<Answered, (u8, String)>,
}

struct Answered {
    took_ms: u64,
    view: Option<ServerView>,
    tools: Vec<Tool>,
}

/// `servers test`.
pub(super) fn test(context: &mut Context<'_>, test: &TestServers) -> Result<u8, Fail> {
    let mut reader = context.reader_to_act()?;
    let servers = Targets::of(context, &mut reader)?;
    let named = servers.names().into_iter().cloned().collect::<Vec<_>>();
    let one = |server: ServerRef| vec![(server.name.clone(), Ok(server))];
    let wanted: Vec<(ServerName, Result<ServerRef, Fail>)> = match (&test.name, named.as_slice()) {
        (Some(name), _) => one(servers.named(name)?),
        (None, []) => servers
            .choices()
            .map(|(name, server)| (name.clone(), server))
            .collect(),
        (None, _) => one(servers.one()?),
    };
    let urls = servers.urls();
    if wanted.is_empty() {
        return Err(Fail::usage(
            "there is no server to test; `longhaul servers add NAME URL` adds one",
        ));
    }
    let mut codes = Vec::new();
    let mut documents_all = Vec::new();
    for (name, server) in wanted {
        let found = match server {
            Ok(server) => look(context, server)?,
            // What stands in the way of one says nothing of the others.
            Err(Fail::Said { code, words }) => {
                let url = urls.iter().find(|(of, _)| *of == name);
                Found {
                    url: url.map_or(String::new(), |(_, url)| url.clone()),
                    name,
                    outcome: Err((code, words)),
                }
            }
            Err(fail) => return Err(fail),
        };
        codes.extend(found.outcome.as_ref().err().map(|(code, _)| *code));
        if context.global.json {
            documents_all.push(document(&found));
        } else {
            tell(context, &found)?;
        }
    }
    if context.global.json {
        let document = documents::pretty(&Value::Array(documents_all));
        context.terminal.document(&document)?;
    }
    Ok(worst(codes.into_iter()))
}

fn look(context: &mut Context<'_>, server: ServerRef) -> Result<Found, Fail> {
    let name = server.name.clone();
    let configured = context.config()?.servers.iter().find(|it| it.name == name);
    let url = server
        .url
        .clone()
        .or(configured.and_then(|it| it.url.clone()))
        .unwrap_or_default();
    let outcome = block_on(async {
        let mut live = Live::open(context, vec![server])?;
        let begun = context.clock.now().mono;
        let tools = calls::list(context, &mut live, &name).await;
        let took = context.clock.now().mono.since(begun);
        let outcome = match tools {
            Ok(tools) => Ok(Answered {
                took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                view: picture(context, &mut live, &name).await,
                tools,
            }),
            Err(Fail::Said { code, words }) if code != code::INTERRUPTED => Err((code, words)),
            Err(fail) => return Err(fail),
        };
        live.leave(context, &[]).await;
        Ok(outcome)
    })?;
    Ok(Found { name, url, outcome })
}

/// The picture of a server after its tools were listed; it comes a moment after them.
async fn picture(
    context: &mut Context<'_>,
    live: &mut Live,
    name: &ServerName,
) -> Option<ServerView> {
    let until = tokio::time::Instant::now() + PICTURE_WITHIN;
    loop {
        let view = live.servers.get(name);
        if let Some(view) = view.filter(|view| view.tools.is_some()) {
            return Some(ServerView::clone(view));
        }
        match tokio::time::timeout_at(until, live.next(context)).await {
            Ok(Ok(Event::Session(_))) => {}
            _ => return None,
        }
    }
}

/// The prices of leaving a call of each tool, and the names of the tools, dearest last.
fn prices(answered: &Answered) -> Vec<(LeaveImpact, Vec<&str>)> {
    let Some(view) = &answered.view else {
        return Vec::new();
    };
    let mut by_price: BTreeMap<(u8, String), (LeaveImpact, Vec<&str>)> = BTreeMap::new();
    for tool in answered.tools.iter().filter(|tool| tool.is_offered()) {
        let price = LeaveImpact::of_call(tool, &answered.tools, &view.capabilities);
        let rank = match price {
            LeaveImpact::Safe { .. } => 0,
            LeaveImpact::Pauses { .. } => 1,
            LeaveImpact::Likely { .. } => 2,
            LeaveImpact::Dies { .. } => 3,
        };
        let entry = by_price.entry((rank, price.why().to_owned()));
        let (_, tools) = entry.or_insert((price, Vec::new()));
        tools.push(&tool.name);
    }
    by_price.into_values().collect()
}

fn document(found: &Found) -> Value {
    let mut document = json!({
        "server": found.name,
        "url": place::shown(&found.url),
        "ok": found.outcome.is_ok(),
    });
    let more = match &found.outcome {
        Ok(answered) => {
            let price = |(price, tools): (LeaveImpact, Vec<&str>)| json!({"leaving": price.label(), "why": price.why(), "tools": tools});
            let view = answered.view.as_ref();
            json!({
                "took_ms": answered.took_ms,
                "era": view.map(|view| &view.era),
                "era_why": view.map(|view| &view.era_why),
                "server_info": view.and_then(|view| view.server_info.as_ref()),
                "tools": answered.tools.iter().filter(|tool| tool.is_offered()).count(),
                "event_ids": view.and_then(|view| view.capabilities.gives_ids),
                "calls": prices(answered).into_iter().map(price).collect::<Vec<_>>(),
            })
        }
        Err((code, words)) => json!({"code": code, "error": words}),
    };
    if let (Some(document), Value::Object(more)) = (document.as_object_mut(), more) {
        document.extend(more);
    }
    document
}

fn tell(context: &mut Context<'_>, found: &Found) -> Result<(), Fail> {
    let name = text::clean_line(found.name.as_str()).into_owned();
    let answered = match &found.outcome {
        Ok(answered) => answered,
        Err((_, words)) => {
            let words = text::clean_line(words).into_owned();
            // Many begin with the name themselves.
            let words = words.strip_prefix(&format!("{name} ")).unwrap_or(&words);
            return context.terminal.line(&format!("{name}: {words}"));
        }
    };
    let offered = answered
        .tools
        .iter()
        .filter(|tool| tool.is_offered())
        .count();
    let tools = text::plural(u64::try_from(offered).unwrap_or(u64::MAX), "tool");
    let view = answered.view.as_ref();
    let who = view
        .and_then(|view| view.server_info.as_deref())
        .map_or(String::new(), |info| format!(" {}", text::clean_line(info)));
    let era = view.map_or(String::new(), |view| {
        format!(", MCP {} ({})", view.era, view.era_why)
    });
    context.terminal.line(&format!(
        "{name}: answers in {} ms{who}{era}, {tools}",
        answered.took_ms
    ))?;
    for (price, tools) in prices(answered) {
        let named = tools.iter().take(NAMED).copied().collect::<Vec<_>>();
        let more = match tools.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let line = format!(
            "  leaving is {}: {} ({}{more})",
            price.label(),
            price.why(),
            named.join(", ")
        );
        context.terminal.line(&text::clean_line(&line))?;
    }
    Ok(())
}
