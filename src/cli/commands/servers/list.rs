//! `servers list`.

use serde_json::{Value, json};

use crate::{
    cli::{CliResult, Context, code, format, terminal::Terminal},
    config::approval::{command_line, obstacle},
    domain::{Limits, LinkRecord, ProtocolVersion, ServerConfig, server_url, text},
};

/// `servers list`.
pub(in crate::cli) fn list(context: &mut Context<'_>) -> CliResult {
    let links = context.reader()?.links()?;
    let config = context.config()?;
    let not_configured = links
        .iter()
        .filter(|link| !config.servers.iter().any(|it| it.name == link.name));
    let terminal = &context.terminal;
    let all = config.servers.iter();
    let configured = all.map(|it| configured(it, &links, terminal));
    let (mut rows, document): (Vec<Vec<String>>, Vec<Value>) =
        configured.chain(not_configured.map(session_only)).unzip();
    if context.global.json {
        return context.print_document(document);
    }
    for notice in config.notices.clone() {
        context.report(&notice);
    }
    if rows.is_empty() {
        context.info(
            "no servers yet; add one with `longhaul servers add NAME URL`, or import some with `longhaul servers import`",
        );
    }
    for row in &mut rows {
        for cell in row {
            *cell = text::clean_line(cell).into_owned();
        }
    }
    let ending = context.terminal.ending;
    for line in format::table(&rows, context.terminal.out_columns, 1, ending) {
        context.print(line.trim_end())?;
    }
    Ok(code::OK)
}

/// The table row and JSON of a configured server.
fn configured(
    server: &ServerConfig,
    links: &[LinkRecord],
    terminal: &Terminal<'_>,
) -> (Vec<String>, Value) {
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
    let note = terminal.with_flags(&note);
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
    let kind = if link.is_process() { "stdio" } else { "http" };
    let document = json!({
        "name": link.name,
        "kind": kind,
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
