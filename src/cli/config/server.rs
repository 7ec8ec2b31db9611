//! `[servers.NAME]`: what is said of one server.

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};
use url::Url;

use super::{Reading, consent};
use crate::{
    cli::args,
    domain::{
        CheckpointConvention, Program, ServerConfig, ServerName, Template, is_variable, server_url,
        text,
    },
};

/// What can be said of a server.
const KEYS: &str = "url, headers, protocol, idle_timeout, max_time, checkpoint, progress_from_text and trace; for one that is a program \
                    there are command, args, env and cwd";

/// The URL that is meant by a host with a path and without a scheme, as `localhost:8931/mcp`; `None` where a text is none
/// of the kind. Only of this machine it is known to be http.
pub(in crate::cli) fn with_scheme(text: &str) -> Option<Result<String, String>> {
    let (authority, _) = text.split_once('/')?;
    if authority.is_empty() || text.contains("://") {
        return None;
    }
    let http = format!("http://{text}");
    let url = Url::parse(&http).ok().filter(Url::has_host)?;
    Some(if server_url::is_loopback(&url) {
        Ok(http)
    } else {
        Err(format!(
            "it has no scheme; write https://{text} (or http://, which anybody on the way can read)"
        ))
    })
}

/// Reads an endpoint that a person wrote; fails in words.
pub(in crate::cli) fn url_of(text: &str) -> Result<Url, String> {
    if text.contains("${") {
        return Err("it has a variable in it, and only headers can have those".to_owned());
    }
    let text = match with_scheme(text) {
        Some(whole) => whole?,
        None => text.to_owned(),
    };
    let url = Url::parse(&text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => {
            "it does not begin with http:// or https://".to_owned()
        }
        error => error.to_string(),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it does not begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "it holds a password; pass that with -H or --bearer-env, which store nothing"
                .to_owned(),
        );
    }
    Ok(url)
}

/// Whether `-s` could mean a server by this name, and a column can show it.
pub(in crate::cli) fn is_name(name: &str) -> bool {
    !name.trim().is_empty() && !name.contains("://") && !name.contains(text::is_hostile)
}

/// What a table says beside the things of a server over HTTP.
#[derive(Default)]
struct Rest {
    command: Option<String>,
    args: Vec<String>,
    env: Vec<(String, Template)>,
    cwd: Option<String>,
    approved: Option<String>,
    imported_from: Option<String>,
    consent: Option<String>,
}

impl Reading<'_> {
    pub(super) fn servers(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(servers) = value.get_ref().as_table() else {
            return self.remark(at, "servers are tables; write [servers.NAME]");
        };
        for (name, value) in servers {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            if !is_name(name) {
                let words = format!("{name:?} is not a valid server name; ignored");
                self.remark(at, &words);
            } else if let Some(table) = value.get_ref().as_table() {
                if let Err((at, why)) = self.server(at, name, table) {
                    self.remark(at, &format!("{name} is ignored: {why}"));
                }
            } else {
                self.remark(at, &format!("a server is a table; write [servers.{name}]"));
            }
        }
    }

    /// `Err` where the rest of the table would be said of another server than the one that is meant.
    fn server(
        &mut self,
        at: usize,
        name: &str,
        table: &DeTable<'_>,
    ) -> Result<(), (usize, String)> {
        let mut rest = Rest::default();
        let mut server = ServerConfig::new(ServerName::new(name));
        let own = |text: &str| Ok(text.to_owned());
        for (key, value) in table {
            let at = value.span().start;
            let key_text = key.get_ref().as_ref();
            match key_text {
                "url" => {
                    let text = value.get_ref().as_str();
                    let text = text.ok_or((at, "a url is a text in quotes".to_owned()))?;
                    server.url = Some(url_of(text).map_err(|why| (at, why))?.to_string());
                }
                "command" => {
                    let text = value.get_ref().as_str();
                    let text = text.ok_or((at, "a command is a text in quotes".to_owned()))?;
                    rest.command = Some(text.to_owned());
                }
                "args" => {
                    let words = value.get_ref().as_array().and_then(words);
                    rest.args = words.ok_or((at, "args are texts in [ ]".to_owned()))?;
                }
                "headers" => server.headers = self.templates(key_text, value, header),
                "env" => rest.env = self.templates(key_text, value, variable),
                "cwd" => rest.cwd = self.text(key_text, value, own),
                "approved" => rest.approved = self.text(key_text, value, own),
                "imported_from" => rest.imported_from = self.text(key_text, value, own),
                "consent" => rest.consent = self.text(key_text, value, own),
                "protocol" => server.protocol = self.text(key_text, value, str::parse),
                "idle_timeout" => self.limit(key_text, value, &mut server.limits.idle),
                "max_time" => self.limit(key_text, value, &mut server.limits.hard),
                "checkpoint" => self.checkpoint(value, &mut server.checkpoint),
                "progress_from_text" => {
                    server.progress_from_text = self.switch(key_text, value).unwrap_or_default();
                }
                "trace" => server.trace = self.switch(key_text, value).unwrap_or_default(),
                other => {
                    let words =
                        format!("unknown key {other:?} of a server; expected one of: {KEYS}");
                    self.remark(key.span().start, &words);
                }
            }
        }
        if rest.command.is_some() && server.url.is_some() {
            return Err((
                at,
                "it has both a url and a command; keep one of them".to_owned(),
            ));
        }
        self.finish(at, server, rest);
        Ok(())
    }

    fn finish(&mut self, at: usize, mut server: ServerConfig, rest: Rest) {
        if let Some(command) = rest.command {
            if !server.headers.is_empty() {
                self.remark(
                    at,
                    "`headers` only applies to a url; use `env` for a command",
                );
                server.headers.clear();
            }
            let program = Program {
                command,
                args: rest.args,
                env: rest.env,
                cwd: rest.cwd,
            };
            // Whoever wrote it down: files are copied, and what is started here may do anything.
            if rest.approved.as_deref() != Some(consent::digest_of_program(&program).as_str()) {
                server.withheld = Some(format!(
                    "{} is a program, not approved: `longhaul servers approve {}` shows what it would start",
                    server.name,
                    crate::cli::quoted(server.name.as_str())
                ));
            }
            server.url = Some(server_url::for_process(server.name.as_str()));
            server.program = Some(program);
            return self.config.servers.push(server);
        }
        match &server.url {
            None if !server.headers.is_empty() => {
                self.remark(
                    at,
                    "headers need a url beside them, so that they go nowhere else",
                );
                server.headers.clear();
            }
            Some(url) if rest.imported_from.is_some() && !server.variables().is_empty() => {
                let agreed = consent::digest(url, &server.headers);
                if rest.consent.as_deref() != Some(agreed.as_str()) {
                    server.withheld = Some(format!(
                        "{0} came by import, and nobody said that {1} may go there: `longhaul servers consent {2}`",
                        server.name,
                        server.variables().join(", "),
                        crate::cli::quoted(server.name.as_str())
                    ));
                }
            }
            _ => {}
        }
        self.config.servers.push(server);
    }

    fn checkpoint(&mut self, value: &Spanned<DeValue<'_>>, convention: &mut CheckpointConvention) {
        let Some(table) = value.get_ref().as_table() else {
            let words = "a checkpoint is a table; write checkpoint = { list = \"NAME\" }";
            return self.remark(value.span().start, words);
        };
        for (key, value) in table {
            let key_text = key.get_ref().as_ref();
            let slot = match key_text {
                "client_id" => &mut convention.client_id,
                "list" => &mut convention.list,
                "pause" => &mut convention.pause,
                "task_id" => &mut convention.task_id,
                other => {
                    let words = format!(
                        "{other:?} is not a checkpoint key; expected client_id, list, pause and task_id"
                    );
                    self.remark(key.span().start, &words);
                    continue;
                }
            };
            let what = format!("{key_text} of the checkpoint");
            let named = |text: &str| match text.trim() {
                "" => Err("it is a name".to_owned()),
                name => Ok(name.to_owned()),
            };
            if let Some(name) = self.text(&what, value, named) {
                *slot = name;
            }
        }
    }

    /// Texts with variables in them, by name.
    fn templates(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        read: fn(&str, &str) -> Result<Template, String>,
    ) -> Vec<(String, Template)> {
        let Some(table) = value.get_ref().as_table() else {
            let words = format!("{key} are a table; write {key} = {{ Name = \"value\" }}");
            self.remark(value.span().start, &words);
            return Vec::new();
        };
        let mut templates = Vec::new();
        for (name, value) in table {
            let name = name.get_ref().as_ref();
            let template = match value.get_ref().as_str() {
                Some(text) => read(name, text),
                None => Err("it is a text in quotes".to_owned()),
            };
            match template {
                Ok(template) => templates.push((name.to_owned(), template)),
                Err(why) => {
                    let words = format!("{name} among the {key} is ignored: {why}");
                    self.remark(value.span().start, &words);
                }
            }
        }
        templates
    }
}

/// A header as it can be sent; fails without repeating the value.
pub(in crate::cli) fn header(name: &str, value: &str) -> Result<Template, String> {
    let header = args::header(&format!("{name}: {value}"))?;
    if header.name != name {
        return Err("its name is not one of a header".to_owned());
    }
    Template::parse(header.value)
}

fn variable(name: &str, value: &str) -> Result<Template, String> {
    if !is_variable(name) {
        return Err("that is not a variable name".to_owned());
    }
    Template::parse(value)
}

fn words(array: &DeArray<'_>) -> Option<Vec<String>> {
    let word = |value: &Spanned<DeValue<'_>>| value.get_ref().as_str().map(str::to_owned);
    array.iter().map(word).collect()
}
