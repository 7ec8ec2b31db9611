//! `servers add`.

use serde_json::json;

use crate::{
    cli::{
        context::Context,
        error::{CliError, code},
        live_session::notify_drivers,
        server_args::AddServerArgs,
    },
    config::{
        self, ConfigEdit, Endpoint, NewServer,
        consent::{command_line, variable_for},
        is_name, is_secret, url_of,
    },
    domain::{ProtocolVersion, ServerConfig, Template, server_url, text},
};

/// `servers add`.
pub(in crate::cli) fn add(context: &mut Context<'_>, add: &AddServerArgs) -> Result<u8, CliError> {
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
    let name = crate::domain::text::shell_word(name);
    if context.global.json {
        let document = json!({"added": add.name.trim(), "file": path});
        return context.terminal.print_compact(&document).map(|()| code::OK);
    }
    context.terminal.info(&format!(
        "added {name} to {path}; test it with `longhaul servers test {name}`, list its tools with `longhaul -s {name} tools`"
    ));
    Ok(code::OK)
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
            crate::domain::text::shell_word(name)
        ))),
        None => Ok(()),
    }
}
