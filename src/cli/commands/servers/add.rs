//! `servers add`.

use serde_json::json;

use crate::{
    cli::{CliError, CliResult, Context, live_session::notify_drivers, server_args::AddServerArgs},
    config::{
        self, ConfigEdit, Endpoint, NewServer,
        approval::{bound, command_line, variable_for},
        digest_of_program, is_name, is_secret, scheme_of, secret_argument,
    },
    domain::{Program, ProtocolVersion, Template, is_variable, server_url, text},
};

/// `servers add`.
pub(in crate::cli) fn add(context: &mut Context<'_>, add: &AddServerArgs) -> CliResult {
    context.may_act()?;
    let name = add.name.trim();
    if !is_name(name) {
        return Err(CliError::usage(format!(
            "{name:?} is not a valid server name; use a word such as lab"
        )));
    }
    check_name_is_free(context, name)?;
    let endpoint = match &add.url {
        _ if add.command.is_empty() && !add.env.is_empty() => {
            let message = "--env is for stdio servers: give the command after --";
            return Err(CliError::usage(message));
        }
        Some(url) => http(context, name, url)?,
        None if add.command.is_empty() => {
            let message = "give a URL or a command: `longhaul servers add NAME URL`, or `longhaul servers add NAME -- COMMAND`";
            return Err(CliError::usage(message));
        }
        None => Endpoint::Stdio(program(add)?),
    };
    // Typing the command line of a stdio server approves it.
    let approved = match &endpoint {
        Endpoint::Stdio(program) => Some(digest_of_program(program)),
        Endpoint::Http { .. } => None,
    };
    let server = NewServer {
        name: name.to_owned(),
        endpoint,
        imported_from: None,
        approved,
    };
    let mut edit = ConfigEdit::open(config::path())?;
    if edit.has_server(name) {
        return Err(CliError::usage(format!(
            "the configuration has an entry for {name} that is ignored because of an error (`longhaul doctor` shows it); fix it or choose another name"
        )));
    }
    edit.add(&server);
    let path = edit.path.display().to_string();
    edit.save()?;
    notify_drivers(context);
    let name = text::shell_word(name);
    let message = format!(
        "added {name} to {path}; test it with `longhaul servers test {name}`, list its tools with `longhaul -s {name} tools`"
    );
    context.finish(&json!({"added": add.name.trim(), "file": path}), &message)
}

/// An HTTP server with the headers of the command line.
fn http(context: &Context<'_>, name: &str, url: &str) -> CliResult<Endpoint> {
    let url = server_url::parse(url).map_err(|why| {
        CliError::usage(format!(
            "invalid server URL: {why}; for a stdio server: `longhaul servers add {name} -- COMMAND`"
        ))
    })?;
    let mut headers = Vec::new();
    for header in &context.global.header {
        if is_secret(&header.name, &header.value) {
            // Configuration files are shared and backed up, and a secret would go with them.
            return Err(CliError::usage(format!(
                "the value of {0} looks like a secret, and secrets are never written to the configuration; put it into a variable \
                 and pass --header '{0}: {1}${{{2}}}' (the single quotes keep the shell from expanding it)",
                header.name,
                scheme_of(&header.value),
                variable_for(name, &header.name)
            )));
        }
        let template = Template::parse(header.value.clone())
            .map_err(|why| CliError::usage(format!("invalid header {}: {why}", header.name)))?;
        headers.push((header.name.clone(), template));
    }
    Ok(Endpoint::Http {
        url: url.to_string(),
        headers,
        protocol: context.global.protocol.0.map(ProtocolVersion::label),
    })
}

/// A stdio server.
fn program(add: &AddServerArgs) -> CliResult<Program> {
    let mut words = add.command.iter().cloned();
    let variable = |text: &String| {
        let (name, value) = text.split_once('=').filter(|(name, _)| is_variable(name))?;
        Some((name.to_owned(), Template::parse(value).ok()?))
    };
    // The message must not repeat the text: it may contain a secret.
    let env: Option<Vec<(String, Template)>> = add.env.iter().map(variable).collect();
    let program = Program {
        command: words.next().unwrap_or_default(),
        args: words.collect(),
        env: env.ok_or_else(|| {
            CliError::usage(
                "--env takes NAME=VALUE; the value may contain variables such as ${KEY}",
            )
        })?,
        cwd: None,
    };
    let mut env = program.env.iter();
    let variable = env.find(|(name, value)| is_secret(name, value.as_str()));
    let variable = variable.map(|(name, _)| format!("the value of {name}"));
    let argument = secret_argument(&program.args);
    let argument = argument.map(|number| format!("argument {number} of the command"));
    if let Some(what) = variable.or(argument) {
        // Configuration files are shared and backed up, and a secret would go with them.
        return Err(CliError::usage(format!(
            "{what} looks like a secret, and secrets are never written to the configuration; put it into a variable and pass \
             --env 'NAME=${{VARIABLE}}' (the single quotes keep the shell from expanding it)"
        )));
    }
    Ok(bound(&program))
}

/// Fails if the configuration has a server with this name.
fn check_name_is_free(context: &Context<'_>, name: &str) -> CliResult<()> {
    let Some(known) = context.config()?.server(name) else {
        return Ok(());
    };
    let location = match (&known.program, &known.url) {
        (Some(program), _) => command_line(program),
        (None, Some(url)) => server_url::redacted(url).into_owned(),
        (None, None) => "without a url".to_owned(),
    };
    Err(CliError::usage(format!(
        "{name} is already in the configuration ({location}); choose another name, or run `longhaul servers remove {}` first",
        text::shell_word(name)
    )))
}
