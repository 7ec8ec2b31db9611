//! `[servers.NAME]`: the settings of one server.

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::{digest, error::ValueError};
use crate::{
    config::settings::{Parser, set},
    domain::{
        CheckpointConvention, Program, ServerConfig, ServerName, Template, is_variable, server_url,
        text,
    },
};

/// The keys of a server.
const KEYS: &str = "url, headers, protocol, idle_timeout, max_time, checkpoint, trace, proxy; for a stdio \
                    server: command, args, env, cwd, stop_when_idle";

/// Whether this can be a server name: `-s` can tell it from a URL, and it can be shown.
pub(crate) fn is_name(name: &str) -> bool {
    !name.trim().is_empty() && !name.contains("://") && !name.contains(text::is_hostile)
}

/// The settings of stdio and imported servers, until the whole table is read.
#[derive(Default)]
struct ExtraKeys {
    program: Program,
    has_command: bool,
    approved: Option<String>,
    imported_from: Option<String>,
}

impl Parser<'_> {
    pub(super) fn servers(&mut self, servers: &DeTable<'_>) {
        for (name, value) in servers {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            if !is_name(name) {
                self.notice(at, &format!("invalid server name {name:?}; ignored"));
            } else if let Some(table) = value.get_ref().as_table() {
                if let Err((at, why)) = self.server(at, name, table) {
                    self.notice(at, &format!("{name} is ignored: {why}"));
                }
            } else {
                self.notice(
                    at,
                    &format!("server {name} must be a table: [servers.{name}]"),
                );
            }
        }
    }

    /// Reads one table. `Err` is the offset and reason if a wrong key makes the whole server unusable.
    fn server(
        &mut self,
        at: usize,
        name: &str,
        table: &DeTable<'_>,
    ) -> Result<(), (usize, String)> {
        let mut extra = ExtraKeys::default();
        let mut server = ServerConfig::new(ServerName::new(name));
        for (key, value) in table {
            let at = value.span().start;
            let key_text = key.get_ref().as_ref();
            let needed_text = || {
                let text = value.get_ref().as_str();
                text.ok_or_else(|| (at, format!("{key_text} must be a string in quotes")))
            };
            match key_text {
                "url" => {
                    let url = server_url::parse(needed_text()?);
                    server.url = Some(url.map_err(|why| (at, why.to_string()))?.to_string());
                }
                "command" => {
                    needed_text()?.clone_into(&mut extra.program.command);
                    extra.has_command = true;
                }
                "args" => {
                    let args = value.get_ref().as_array().and_then(strings);
                    extra.program.args =
                        args.ok_or((at, "args must be a list of strings".to_owned()))?;
                }
                "headers" => server.headers = self.templates(key_text, value, header),
                "env" => extra.program.env = self.templates(key_text, value, variable),
                "cwd" => extra.program.cwd = self.string(key_text, value),
                // `consent` is its older name.
                "approved" | "consent" => extra.approved = self.string(key_text, value),
                "imported_from" => extra.imported_from = self.string(key_text, value),
                "protocol" => server.protocol = self.text(key_text, value, str::parse),
                "idle_timeout" => self.limit(key_text, value, &mut server.limits.idle),
                "max_time" => self.limit(key_text, value, &mut server.limits.hard),
                "proxy" => {
                    let settings = self.proxy(&format!("servers.{name}.proxy"), value);
                    let proxies = &mut self.config.server_proxies;
                    proxies.insert(server.name.clone(), settings);
                }
                "checkpoint" => self.checkpoint(value, &mut server.checkpoint),
                "stop_when_idle" => self.limit(key_text, value, &mut server.stop_when_idle),
                "trace" => server.trace = self.boolean(key_text, value).unwrap_or_default(),
                _ => self.unknown_key(key, &format!("in [servers.{name}]"), KEYS),
            }
        }
        if extra.has_command && server.url.is_some() {
            return Err((at, "it has both url and command; keep one".to_owned()));
        }
        self.finish(at, server, extra);
        Ok(())
    }

    fn finish(&mut self, at: usize, mut server: ServerConfig, extra: ExtraKeys) {
        if let Some(file) = extra.imported_from.clone() {
            let files = &mut self.config.imported_from;
            files.insert(server.name.clone(), file);
        }
        if extra.has_command {
            if !server.headers.is_empty() {
                self.notice(at, "headers need a url; use env with a command");
                server.headers.clear();
            }
            // Even if the user wrote it: files are copied around, and a program can do anything.
            server.is_withheld = extra.approved != Some(digest::digest_of_program(&extra.program));
            server.url = Some(server_url::for_process(server.name.as_str()));
            server.program = Some(extra.program);
            return self.config.servers.push(server);
        }
        match &server.url {
            None if !server.headers.is_empty() => {
                let message = "headers need a url in the same table, so that they go nowhere else";
                self.notice(at, message);
                server.headers.clear();
            }
            Some(url) if extra.imported_from.is_some() && !server.variables().is_empty() => {
                server.is_withheld = extra.approved != Some(digest::digest(url, &server.headers));
            }
            _ => {}
        }
        self.config.servers.push(server);
    }

    fn checkpoint(&mut self, value: &Spanned<DeValue<'_>>, convention: &mut CheckpointConvention) {
        let table = self.table("checkpoint", value, "list = \"NAME\"");
        for (key, value) in table.into_iter().flatten() {
            let key_text = key.get_ref().as_ref();
            let slot = match key_text {
                "client_id" => &mut convention.client_id,
                "list" => &mut convention.list,
                "pause" => &mut convention.pause,
                "task_id" => &mut convention.task_id,
                _ => {
                    self.unknown_key(key, "in checkpoint", "client_id, list, pause, task_id");
                    continue;
                }
            };
            let path = format!("checkpoint.{key_text}");
            let named = |text: &str| match text.trim() {
                "" => Err(ValueError::NoName),
                name => Ok(name.to_owned()),
            };
            set(slot, self.text(&path, value, named));
        }
    }

    /// Reads a table of strings that can contain variables.
    fn templates(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        read: fn(&str, &str) -> Result<Template, ValueError>,
    ) -> Vec<(String, Template)> {
        let table = self.table(key, value, "Name = \"value\"");
        let mut templates = Vec::new();
        for (name, value) in table.into_iter().flatten() {
            let name = name.get_ref().as_ref();
            let template = self.text(&format!("{name} in {key}"), value, |text| read(name, text));
            templates.extend(template.map(|template| (name.to_owned(), template)));
        }
        templates
    }
}

/// Parses a header. Errors never contain the value, which may be a secret.
pub(crate) fn header(name: &str, value: &str) -> Result<Template, ValueError> {
    let header = super::header::header(&format!("{name}: {value}"))?;
    if header.name != name {
        return Err(ValueError::OtherHeaderName);
    }
    Ok(Template::parse(header.value)?)
}

fn variable(name: &str, value: &str) -> Result<Template, ValueError> {
    if !is_variable(name) {
        return Err(ValueError::VariableName);
    }
    Ok(Template::parse(value)?)
}

fn strings(array: &DeArray<'_>) -> Option<Vec<String>> {
    let string = |value: &Spanned<DeValue<'_>>| value.get_ref().as_str().map(str::to_owned);
    array.iter().map(string).collect()
}
