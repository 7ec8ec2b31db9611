//! One server as another program writes it down, and what of it is taken.
//!
//! Invariant: a variable stays a name, and a secret that was written out is not copied: its variable is named instead.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use url::Url;

use super::{super::servers::variable_for, formats::Dialect};
use crate::{
    cli::config::{How, is_name, is_secret, is_secret_name, looks_like_token, template_of, url_of},
    domain::{Program, Template, is_variable, server_url, text},
};

/// What editors fill in by themselves, though it looks like a variable of the environment.
const OF_EDITORS: [&str; 7] = [
    "workspaceFolder",
    "workspaceFolderBasename",
    "workspaceRoot",
    "userHome",
    "pathSeparator",
    "extensionPath",
    "cwd",
];

/// What an editor fills in, as far as it is known here.
#[derive(Clone, Debug, Default)]
pub(super) struct Editor {
    /// The directory that the file was made for; a file for all of them has none.
    pub(super) workspace: Option<String>,
    pub(super) home: Option<String>,
}

impl Editor {
    /// The text with what is known filled in.
    fn fill(&self, text: &str) -> String {
        let workspace = self.workspace.as_deref();
        let last = workspace.and_then(|workspace| workspace.rsplit('/').next());
        let known = [
            ("${workspaceFolder}", workspace),
            ("${workspaceRoot}", workspace),
            ("${workspaceFolderBasename}", last),
            ("${userHome}", self.home.as_deref()),
            ("${pathSeparator}", Some("/")),
            ("${/}", Some("/")),
        ];
        let mut filled = text.to_owned();
        for (name, value) in known {
            // A directory may be called like a variable, and none is to come out of it.
            if let Some(value) = value.filter(|value| !value.contains('$')) {
                filled = filled.replace(name, value);
            }
        }
        filled
    }
}

/// What an entry says, and why it is passed over if it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// As the file has it; not yet clean.
    pub(super) name: String,
    /// `Err` says in words why nothing of it is taken; they may hold what the file says.
    pub(super) outcome: Result<Taken, String>,
}

/// A server that can be taken over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Taken {
    pub(super) how: How,
    /// What has to be known of it, in words.
    pub(super) notes: Vec<String>,
}

/// Reads one entry.
pub(super) fn read(name: &str, value: &Value, dialect: Dialect, editor: &Editor) -> Entry {
    let outcome = match value.as_object() {
        _ if !is_name(name) => Err("its name has characters that no name may have".to_owned()),
        Some(said) => Reader {
            name,
            said,
            dialect,
            editor,
            notes: Vec::new(),
        }
        .read(),
        None => Err("it is not a table".to_owned()),
    };
    Entry {
        name: name.to_owned(),
        outcome,
    }
}

struct Reader<'e> {
    name: &'e str,
    said: &'e Map<String, Value>,
    dialect: Dialect,
    editor: &'e Editor,
    notes: Vec<String>,
}

/// What a program says of the way to a server.
enum Kind {
    Http,
    Sse,
    Stdio,
}

impl<'e> Reader<'e> {
    fn read(mut self) -> Result<Taken, String> {
        self.is_off()?;
        // Goose once kept what matters one table deeper.
        if let Some(Value::Object(config)) = self.said.get("config") {
            return Reader {
                said: config,
                ..self
            }
            .read();
        }
        let how = match self.kind()? {
            Kind::Stdio => self.stdio()?,
            Kind::Http => self.http()?,
            Kind::Sse => {
                self.notes
                    .push("HTTP+SSE of 2024-11-05, which cannot be resumed".to_owned());
                self.http()?
            }
        };
        Ok(Taken {
            how,
            notes: self.notes,
        })
    }

    fn is_off(&self) -> Result<(), String> {
        let says = |key: &str, switch: bool| self.said.get(key) == Some(&Value::Bool(switch));
        if says("disabled", true) || says("enabled", false) {
            return Err("it is switched off there".to_owned());
        }
        Ok(())
    }

    fn text(&self, keys: &[&str]) -> Option<&'e str> {
        keys.iter().find_map(|key| self.said.get(*key)?.as_str())
    }

    fn url(&self) -> Option<&'e str> {
        self.text(&["httpUrl", "url", "serverUrl", "uri"])
    }

    fn kind(&self) -> Result<Kind, String> {
        let kind = self.text(&["type", "transport", "transportType"]);
        let kind = kind.map(|kind| kind.to_ascii_lowercase().replace(['-', '_'], ""));
        match kind.as_deref() {
            Some("http" | "streamablehttp" | "remote") => Ok(Kind::Http),
            Some("sse") => Ok(Kind::Sse),
            Some("stdio" | "local") => Ok(Kind::Stdio),
            Some("builtin" | "platform" | "frontend" | "inlinepython")
                if self.dialect == Dialect::Goose =>
            {
                Err("it is a part of Goose itself".to_owned())
            }
            Some(_) => {
                let kind = self.text(&["type", "transport", "transportType"]);
                let kind = kind.unwrap_or_default();
                Err(format!("longhaul speaks no {kind}"))
            }
            None => {
                let has_command = ["command", "cmd"]
                    .iter()
                    .any(|it| self.said.contains_key(*it));
                match (self.url().is_some(), has_command) {
                    (true, true) => Err("it has a url and a command".to_owned()),
                    (false, true) => Ok(Kind::Stdio),
                    (false, false) => Err("it has neither a url nor a command".to_owned()),
                    (true, false)
                        if self.dialect == Dialect::Gemini && self.text(&["httpUrl"]).is_none() =>
                    {
                        Ok(Kind::Sse)
                    }
                    (true, false) => Ok(Kind::Http),
                }
            }
        }
    }

    fn http(&mut self) -> Result<How, String> {
        let text = self.url().ok_or("it has no url")?;
        let url = address(text)?;
        let mut headers: Vec<(String, Template)> = Vec::new();
        for key in ["headers", "http_headers"] {
            let Some(said) = self.said.get(key) else {
                continue;
            };
            let said = said.as_object().ok_or("its headers are no table")?;
            for (header, value) in said {
                let value = value
                    .as_str()
                    .ok_or_else(|| format!("its header {header} is not text"))?;
                headers.push((header.clone(), self.header(header, value)?));
            }
        }
        if let Some(named) = self.said.get("env_http_headers").and_then(Value::as_object) {
            for (header, variable) in named {
                let variable = variable.as_str().filter(|name| is_variable(name));
                let variable = variable
                    .ok_or_else(|| format!("its header {header} comes from no variable"))?;
                headers.push((
                    header.clone(),
                    template_of(header, &format!("${{{variable}}}"))?,
                ));
            }
        }
        let bearer = match (
            self.text(&["bearer_token_env_var"]),
            self.text(&["bearer_token"]),
        ) {
            (Some(variable), _) => Some(format!("Bearer ${{{variable}}}")),
            (None, Some(token)) => Some(format!("Bearer {token}")),
            (None, None) => None,
        };
        if let Some(bearer) = bearer {
            let header = "Authorization";
            headers.push((header.to_owned(), self.header(header, &bearer)?));
        }
        headers.sort_by(|(one, _), (other, _)| one.cmp(other));
        headers.dedup_by(|(one, _), (other, _)| one.eq_ignore_ascii_case(other));
        if !headers.is_empty() && server_url::is_cleartext(&url) {
            self.notes.push(
                "plain http to another machine: its headers go there with --insecure-http only"
                    .to_owned(),
            );
        }
        Ok(How::Http {
            url: url.to_string(),
            headers,
            protocol: None,
            consent: None,
        })
    }

    /// A header with its variables as names.
    fn header(&mut self, header: &str, value: &str) -> Result<Template, String> {
        let what = format!("its header {header}");
        if value.contains(text::is_hostile) {
            return Err(format!(
                "{what} has a control character or one that cannot be seen"
            ));
        }
        let mut value = self.with_names(&what, value)?;
        if is_secret(header, &value) {
            let variable = variable_for(self.name, header);
            let scheme = value.split_once(' ').map_or("", |(scheme, _)| scheme);
            value = match scheme.to_ascii_lowercase().as_str() {
                "bearer" | "basic" | "token" => format!("{scheme} ${{{variable}}}"),
                _ => format!("${{{variable}}}"),
            };
            self.notes.push(format!(
                "the secret in its header {header} was not copied: put it into {variable}"
            ));
        }
        template_of(header, &value).map_err(|why| format!("{what} cannot be sent: {why}"))
    }

    /// The text with every variable written as `${NAME}`.
    fn with_names(&mut self, what: &str, value: &str) -> Result<String, String> {
        let mut written = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once('$') {
            written.push_str(before);
            if let Some((inner, later)) = after.strip_prefix('{').and_then(|it| it.split_once('}'))
            {
                let name = self.variable(what, inner)?;
                let _ = write!(written, "${{{name}}}");
                rest = later;
                continue;
            }
            let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let end = after
                .find(|letter| !is_letter(letter))
                .unwrap_or(after.len());
            match after.split_at_checked(end) {
                Some((name, later)) if self.dialect != Dialect::Common && is_variable(name) => {
                    let _ = write!(written, "${{{name}}}");
                    rest = later;
                }
                _ => {
                    written.push('$');
                    rest = after;
                }
            }
        }
        written.push_str(rest);
        Ok(written)
    }

    /// The variable of the environment that stands for one of the other program's.
    fn variable(&mut self, what: &str, inner: &str) -> Result<String, String> {
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        if default.is_some_and(|default| !default.is_empty()) {
            self.notes
                .push(format!("the default of {name} in {what} was left out"));
        }
        if let Some(input) = name.strip_prefix("input:") {
            let letter = |letter: char| match letter {
                letter if letter.is_ascii_alphanumeric() => Some(letter.to_ascii_uppercase()),
                '_' | '-' | '.' | ' ' => Some('_'),
                _ => None,
            };
            let variable = input.chars().map(letter).collect::<Option<String>>();
            let variable = variable.unwrap_or_default();
            if is_variable(&variable) {
                self.notes.push(format!(
                    "what its program asks for as {input} comes from {variable} here"
                ));
                return Ok(variable);
            }
        }
        let name = name.strip_prefix("env:").unwrap_or(name);
        if is_variable(name) && !OF_EDITORS.contains(&name) {
            Ok(name.to_owned())
        } else {
            Err(format!(
                "{what} wants ${{{inner}}}, which only its own program knows"
            ))
        }
    }

    fn stdio(&mut self) -> Result<How, String> {
        let command = self
            .text(&["command", "cmd"])
            .filter(|command| !command.trim().is_empty())
            .map(|command| self.editor.fill(command))
            .ok_or("its command is not text")?;
        let mut args = Vec::new();
        if let Some(said) = self.said.get("args").filter(|said| !said.is_null()) {
            for arg in said.as_array().ok_or("its args are no list")? {
                let arg = arg.as_str().ok_or("its args are not all texts")?;
                let arg = self.editor.fill(arg);
                args.push(match wanted_of_editor(&arg) {
                    Some(_) => self.with_names("its command", &arg)?,
                    None => arg,
                });
            }
        }
        let cwd = self.text(&["cwd"]).map(|cwd| self.editor.fill(cwd));
        if let Some(name) = [Some(&command), cwd.as_ref()]
            .into_iter()
            .flatten()
            .find_map(|word| wanted_of_editor(word))
        {
            return Err(format!(
                "its command or directory wants ${{{name}}}, which only its own program knows"
            ));
        }
        for word in std::iter::once(&command).chain(&args).chain(&cwd) {
            if word.contains(text::is_hostile) {
                return Err(
                    "its command has line breaks or characters in it that cannot be seen"
                        .to_owned(),
                );
            }
        }
        if holds_secret(&args) {
            return Err("its arguments hold what looks like a secret, and none is copied; let its program read it from \
                        a variable"
                .to_owned());
        }
        let mut env = Vec::new();
        for key in ["env", "envs"] {
            let Some(said) = self.said.get(key).and_then(Value::as_object) else {
                continue;
            };
            for (name, value) in said {
                env.push((name.clone(), self.of_environment(name, value)?));
            }
        }
        for key in ["env_keys", "env_vars"] {
            let listed = self.said.get(key).and_then(Value::as_array);
            for name in listed.into_iter().flatten().filter_map(Value::as_str) {
                let value = Value::String(format!("${{{name}}}"));
                env.push((name.to_owned(), self.of_environment(name, &value)?));
            }
        }
        env.sort_by(|(one, _), (other, _)| one.cmp(other));
        env.dedup_by(|(one, _), (other, _)| one == other);
        Ok(How::Stdio(Program {
            command,
            args,
            env,
            cwd,
        }))
    }

    /// A variable that the program is given.
    fn of_environment(&mut self, name: &str, value: &Value) -> Result<Template, String> {
        if !is_variable(name) {
            return Err("its environment has a name that no variable can have".to_owned());
        }
        let value = match value {
            Value::String(text) => self.editor.fill(text),
            Value::Number(number) => number.to_string(),
            Value::Bool(switch) => switch.to_string(),
            _ => return Err(format!("its variable {name} is not text")),
        };
        if value.contains(text::is_hostile) {
            return Err(format!(
                "its variable {name} has line breaks or characters in it that cannot be seen"
            ));
        }
        let written = self.with_names(&format!("its variable {name}"), &value)?;
        if is_secret(name, &written) {
            self.notes.push(format!(
                "the secret in its variable {name} was not copied: put it into {name}"
            ));
            return Template::parse(format!("${{{name}}}"));
        }
        Template::parse(written)
    }
}

/// Where an entry says that its server is.
fn address(text: &str) -> Result<Url, String> {
    // A URL parser passes over line breaks; a person sees two lines.
    if text.contains(|letter: char| letter.is_whitespace() || text::is_hostile(letter)) {
        return Err("its address has characters that none may have".to_owned());
    }
    if text.contains('$') || text.contains("{{") {
        return Err(format!(
            "its address {} holds a variable, and longhaul puts none into an address; add it with the address written out",
            server_url::redacted(text)
        ));
    }
    let has_password = |url: Url| !url.username().is_empty() || url.password().is_some();
    if Url::parse(text).is_ok_and(has_password) {
        return Err("its address holds a password, and none is copied".to_owned());
    }
    let url = url_of(text).map_err(|why| format!("its address cannot be used: {why}"))?;
    let is_key = |(name, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        is_secret_name(&name) || looks_like_token(&value)
    };
    if url.query_pairs().any(is_key) {
        return Err(format!(
            "its address {} holds what looks like a key, and none is copied; add it yourself if it is none",
            server_url::redacted(text)
        ));
    }
    Ok(url)
}

/// The first variable of a text that is written in the words of an editor.
fn wanted_of_editor(word: &str) -> Option<&str> {
    let mut names = word
        .split("${")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('}')?.0));
    names.find(|name| {
        OF_EDITORS.contains(name) || name.starts_with("env:") || name.starts_with("input:")
    })
}

/// Whether a secret was written out among the arguments of a program.
fn holds_secret(args: &[String]) -> bool {
    let is_literal = |value: &str| !value.is_empty() && !value.contains('$');
    let is_named = |arg: &String| match arg.split_once(['=', ':']) {
        Some((name, value)) => is_secret(name.trim_start_matches('-'), value.trim()),
        None => false,
    };
    let follows_name = |pair: &[String]| match pair {
        [flag, value] => {
            flag.starts_with('-')
                && !flag.contains('=')
                && is_secret_name(flag)
                && !value.starts_with('-')
                && is_literal(value)
        }
        _ => false,
    };
    args.iter()
        .any(|arg| looks_like_token(arg) || is_named(arg))
        || args.windows(2).any(follows_name)
}
