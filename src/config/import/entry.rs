//! Converts a server entry of another program to one of ours.
//!
//! Invariant: variables stay references, and a literal secret is never copied but replaced by a variable.

use std::{fmt::Write as _, path::Path};

use serde_json::{Map, Value};
use url::Url;

use super::{
    reason::SkipReason,
    server::{ImportEntry, ImportableServer, UnsetVariable},
};
use crate::{
    config::{
        Endpoint,
        approval::variable_for,
        has_literal, is_name, is_secret, looks_like_token, scheme_of, secret_argument, template_of,
        without_tokens,
        wrap::{first_set, is_wrapped},
    },
    domain::{
        HeaderError, Program, Template, check_header, is_credential_name, is_variable, server_url,
        text,
    },
};

/// Variables that editors fill in themselves, although they look like environment variables.
const EDITOR_VARIABLES: [&str; 7] = [
    "workspaceFolder",
    "workspaceFolderBasename",
    "workspaceRoot",
    "userHome",
    "pathSeparator",
    "extensionPath",
    "cwd",
];

/// The values that an editor fills in, as far as longhaul knows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Editor {
    /// The project directory of the file; a user-wide file has none.
    pub(crate) workspace: Option<String>,
    /// Where the program that owns the file starts the servers of a project.
    pub(crate) directory: Option<String>,
    pub(crate) home: Option<String>,
    /// Whether the file keeps all values of headers and variables, because any of them may be a secret.
    pub(crate) keeps_values: bool,
}

impl Editor {
    /// Fills in the known variables.
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
            // A directory name that contains a variable must not introduce one.
            if let Some(value) = value.filter(|value| !value.contains('$')) {
                filled = filled.replace(name, value);
            }
        }
        filled
    }
}

/// The name that longhaul gives to the server of an entry. One with a leading `-` would be an option on a command line.
pub(super) fn plain_name(name: &str) -> &str {
    let is_dropped = |letter: char| letter == '-' || letter.is_whitespace();
    name.trim_start_matches(is_dropped).trim_end()
}

/// Reads one entry.
pub(crate) fn read(name: &str, value: &Value, dialect: Dialect, editor: &Editor) -> ImportEntry {
    let value = with_plain_command(value);
    let outcome = match value.as_object() {
        _ if !is_name(name) || plain_name(name).is_empty() => Err(SkipReason::Name),
        Some(fields) if is_wrapped(fields) => Err(SkipReason::Wrapped),
        Some(fields) => EntryReader {
            name,
            fields,
            dialect,
            editor,
            notes: Vec::new(),
            unset: Vec::new(),
        }
        .read(),
        None => Err(SkipReason::NotTable),
    };
    ImportEntry {
        name: name.to_owned(),
        outcome,
    }
}

/// An entry whose command is one string: opencode writes it as a list with its arguments, older versions of Zed as a table.
fn with_plain_command(entry: &Value) -> Value {
    let mut entry = entry.clone();
    let Some(fields) = entry.as_object_mut() else {
        return entry;
    };
    let is_open_code = fields.get("type").and_then(Value::as_str) == Some("local");
    match fields.get("command").cloned() {
        Some(Value::Array(words)) if is_open_code => {
            let mut words = words.into_iter();
            fields.insert("command".to_owned(), words.next().unwrap_or_default());
            fields.insert("args".to_owned(), words.collect());
        }
        Some(Value::Object(command)) => {
            fields.remove("command");
            let members = command.into_iter();
            fields.extend(members.map(|(key, value)| match key.as_str() {
                "path" => ("command".to_owned(), value),
                _ => (key, value),
            }));
        }
        _ => {}
    }
    if let Some(environment) = fields.remove("environment") {
        fields.entry("env").or_insert(environment);
    }
    entry
}

struct EntryReader<'e> {
    name: &'e str,
    fields: &'e Map<String, Value>,
    dialect: Dialect,
    editor: &'e Editor,
    notes: Vec<String>,
    unset: Vec<UnsetVariable>,
}

impl<'e> EntryReader<'e> {
    fn read(mut self) -> Result<ImportableServer, SkipReason> {
        let is_set = |key: &str, value: bool| self.fields.get(key) == Some(&Value::Bool(value));
        if is_set("disabled", true) || is_set("enabled", false) {
            return Err(SkipReason::Disabled);
        }
        // The program would lack its variables. A sign-in, in contrast, longhaul has too.
        if let Some(key) = first_set(self.fields, &["envFile"]) {
            return Err(SkipReason::OnlyOfHost(key));
        }
        // Older Goose versions nest the settings in `config`.
        if let Some(Value::Object(config)) = self.fields.get("config") {
            return EntryReader {
                fields: config,
                ..self
            }
            .read();
        }
        Ok(ImportableServer {
            endpoint: self.endpoint()?,
            notes: self.notes,
            unset: self.unset,
        })
    }

    fn text(&self, keys: &[&str]) -> Option<&'e str> {
        keys.iter().find_map(|key| self.fields.get(*key)?.as_str())
    }

    /// The members of a table; none if there is no such table.
    fn members(&self, key: &str) -> impl Iterator<Item = (&'e String, &'e Value)> + use<'e> {
        let table = self.fields.get(key).and_then(Value::as_object);
        table.into_iter().flatten()
    }

    fn url(&self) -> Option<&'e str> {
        self.text(&["httpUrl", "url", "serverUrl", "uri"])
    }

    fn endpoint(&mut self) -> Result<Endpoint, SkipReason> {
        let named = self.text(&["type", "transport", "transportType"]);
        let kind = named.map(|kind| kind.to_ascii_lowercase().replace(['-', '_'], ""));
        match kind.as_deref() {
            Some("http" | "streamablehttp" | "remote") => self.http(),
            Some("sse") => self.sse(),
            Some("stdio" | "local") => self.stdio(),
            Some("builtin" | "platform" | "frontend" | "inlinepython")
                if self.dialect == Dialect::Goose =>
            {
                Err(SkipReason::BuiltIn)
            }
            Some(kind) => Err(SkipReason::Unsupported(named.unwrap_or(kind).to_owned())),
            None => {
                let has_command = ["command", "cmd"]
                    .iter()
                    .any(|it| self.fields.contains_key(*it));
                match (self.url().is_some(), has_command) {
                    (true, true) => Err(SkipReason::TwoEndpoints),
                    (false, true) => self.stdio(),
                    (false, false) => Err(SkipReason::NoEndpoint),
                    (true, false)
                        if self.dialect == Dialect::Gemini && self.text(&["httpUrl"]).is_none() =>
                    {
                        self.sse()
                    }
                    (true, false) => self.http(),
                }
            }
        }
    }

    fn sse(&mut self) -> Result<Endpoint, SkipReason> {
        let note = "uses HTTP+SSE (2024-11-05), which can't be resumed";
        self.notes.push(note.to_owned());
        self.http()
    }

    fn http(&mut self) -> Result<Endpoint, SkipReason> {
        let text = self.url().ok_or(SkipReason::NoUrl)?;
        let url = parse_url(text)?;
        let mut headers: Vec<(String, Template)> = Vec::new();
        for key in ["headers", "http_headers"] {
            let Some(fields) = self.fields.get(key) else {
                continue;
            };
            let fields = fields
                .as_object()
                .ok_or_else(|| SkipReason::malformed("its headers", "are not a table"))?;
            for (header, value) in fields {
                if let Err(why @ HeaderError::Reserved(_)) = check_header(header, "") {
                    let note = format!("its {header} header was not copied: {why}");
                    self.notes.push(note);
                    continue;
                }
                let value = value.as_str().ok_or_else(|| {
                    SkipReason::malformed(format!("its {header} header"), "is not a string")
                })?;
                headers.push((header.clone(), self.header(header, value)?));
            }
        }
        for (header, variable) in self.members("env_http_headers") {
            let variable = variable.as_str().filter(|name| is_variable(name));
            let variable = variable.ok_or_else(|| {
                SkipReason::malformed(format!("its {header} header"), "does not name a variable")
            })?;
            let template = template_of(header, &format!("${{{variable}}}"))?;
            headers.push((header.clone(), template));
        }
        let variable = self.text(&["bearer_token_env_var"]);
        let variable = variable.map(|name| format!("Bearer ${{{name}}}"));
        let literal = || Some(format!("Bearer {}", self.text(&["bearer_token"])?));
        if let Some(bearer) = variable.or_else(literal) {
            let header = "Authorization";
            headers.push((header.to_owned(), self.header(header, &bearer)?));
        }
        headers.sort_by(|(one, _), (other, _)| one.cmp(other));
        headers.dedup_by(|(one, _), (other, _)| one.eq_ignore_ascii_case(other));
        if !headers.is_empty() && server_url::is_cleartext(&url) {
            self.notes.push(
                "plain http to another machine: headers are sent only with --insecure-http"
                    .to_owned(),
            );
        }
        Ok(Endpoint::Http {
            url: url.to_string(),
            headers,
            protocol: None,
        })
    }

    /// A header value; a literal secret becomes a variable.
    fn header(&mut self, header: &str, value: &str) -> Result<Template, SkipReason> {
        let what = format!("its {header} header");
        check_letters(value, &what)?;
        let noted = self.unset.len();
        let mut written = self.normalize_variables(&what, value)?;
        if self.stays(header, &written) {
            // Goose fills in variables in headers, but not in the environment of a program.
            if self.editor.keeps_values && self.dialect == Dialect::Goose && written.contains("${")
            {
                let problem = "combines a variable with other text, which only Goose can expand";
                return Err(SkipReason::malformed(what, problem));
            }
            self.unset.truncate(noted);
            let mut variable = variable_for(self.name, header);
            // `X-Token` and `Authorization` give the same name.
            while self.unset.iter().any(|unset| unset.name == variable) {
                variable.push('_');
            }
            let scheme = scheme_of(value);
            let secret = value.strip_prefix(scheme).unwrap_or_default();
            self.leave_out(&what, &variable, secret);
            written = format!("{scheme}${{{variable}}}");
        }
        template_of(header, &written).map_err(|why| SkipReason::Header { what, why })
    }

    /// Leaves out a literal secret, for which a variable stands in.
    fn leave_out(&mut self, what: &str, variable: &str, secret: &str) {
        self.unset.push(UnsetVariable {
            name: variable.to_owned(),
            written: secret.to_owned(),
            note: format!(
                "the secret in {what} was not copied; put it in the environment variable {variable}"
            ),
        });
    }

    /// Whether this value is not copied.
    fn stays(&self, name: &str, value: &str) -> bool {
        let is_literal = !value.is_empty() && (!value.contains("${") || has_literal(value));
        self.editor.keeps_values && is_literal || is_secret(name, value) || value.contains("{file:")
    }

    /// Writes every variable as `${NAME}`.
    fn normalize_variables(&mut self, what: &str, value: &str) -> Result<String, SkipReason> {
        let mut written = String::new();
        // opencode writes `{env:NAME}`.
        let value = value.replace("${env:", "{env:").replace("{env:", "${env:");
        let mut rest = value.as_str();
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

    /// The environment variable for a variable of the other program, e.g. `API_KEY` for `${input:api-key}`.
    fn variable(&mut self, what: &str, inner: &str) -> Result<String, SkipReason> {
        let (name, default) = inner.split_once(":-").unwrap_or((inner, ""));
        if let Some(input) = name.strip_prefix("input:") {
            let letter = |letter: char| match letter {
                letter if letter.is_ascii_alphanumeric() => Some(letter.to_ascii_uppercase()),
                '_' | '-' | '.' | ' ' => Some('_'),
                _ => None,
            };
            let variable = input.chars().map(letter).collect::<Option<String>>();
            let variable = variable.unwrap_or_default();
            if is_variable(&variable) {
                let note = format!("set {variable} to the value of the input {input}");
                return Ok(self.leave_in_file(variable, name, note));
            }
        }
        let name = name.strip_prefix("env:").unwrap_or(name);
        let foreign = || SkipReason::ForeignVariable {
            what: what.to_owned(),
            variable: inner.to_owned(),
        };
        if !is_variable(name) || EDITOR_VARIABLES.contains(&name) {
            return Err(foreign());
        }
        if default.is_empty() {
            return Ok(name.to_owned());
        }
        let written = format!("${{{inner}}}");
        let is_other = |unset: &UnsetVariable| unset.name == name && unset.written != written;
        if self.unset.iter().any(is_other) {
            return Err(foreign());
        }
        let note = format!("the default value of {name} in {what} was not copied");
        Ok(self.leave_in_file(name.to_owned(), inner, note))
    }

    /// Leaves `${inner}` in the other program's file, for only that program knows its value. Returns the variable that
    /// stands for it here.
    fn leave_in_file(&mut self, name: String, inner: &str, note: String) -> String {
        let unset = UnsetVariable {
            name: name.clone(),
            written: format!("${{{inner}}}"),
            note,
        };
        if !self.unset.contains(&unset) {
            self.unset.push(unset);
        }
        name
    }

    fn stdio(&mut self) -> Result<Endpoint, SkipReason> {
        let command = self
            .text(&["command", "cmd"])
            .filter(|command| !command.trim().is_empty())
            .map(|command| self.editor.fill(command))
            .ok_or_else(|| SkipReason::malformed("its command", "is not a string"))?;
        let mut args = Vec::new();
        if let Some(list) = self.fields.get("args").filter(|list| !list.is_null()) {
            for arg in list
                .as_array()
                .ok_or_else(|| SkipReason::malformed("its args", "are not a list"))?
            {
                let arg = arg
                    .as_str()
                    .ok_or_else(|| SkipReason::malformed("its args", "are not all strings"))?;
                let arg = self.editor.fill(arg);
                let has_variable = program_variable(&arg).is_some()
                    || self.dialect == Dialect::Gemini && arg.contains('$');
                args.push(if has_variable {
                    self.normalize_variables("its command", &arg)?
                } else {
                    arg
                });
            }
        }
        let cwd = self.text(&["cwd"]).map(|cwd| self.editor.fill(cwd));
        let cwd = match (cwd, &self.editor.directory) {
            (Some(cwd), Some(directory)) if !cwd.contains('$') => {
                let cwd = Path::new(directory).join(cwd);
                Some(cwd.to_string_lossy().into_owned())
            }
            (cwd, directory) => cwd.or_else(|| directory.clone()),
        };
        let mut texts = std::iter::once(&command).chain(&args).chain(&cwd);
        if let Some(name) = texts.find_map(|text| program_variable(text)) {
            return Err(SkipReason::ForeignVariable {
                what: "its command or directory".to_owned(),
                variable: name.to_owned(),
            });
        }
        for text in std::iter::once(&command).chain(&args).chain(&cwd) {
            check_letters(text, "its command")?;
        }
        if let Some(number) = secret_argument(&args) {
            return Err(SkipReason::SecretArgument(number));
        }
        let mut env = Vec::new();
        for key in ["env", "envs"] {
            for (name, value) in self.members(key) {
                env.push((name.clone(), self.env_value(name, value)?));
            }
        }
        for key in ["env_keys", "env_vars"] {
            let listed = self.fields.get(key).and_then(Value::as_array);
            let name_of = |it: &'e Value| it.as_str().or_else(|| it.get("name")?.as_str());
            for name in listed.into_iter().flatten().filter_map(name_of) {
                let value = Value::String(format!("${{{name}}}"));
                env.push((name.to_owned(), self.env_value(name, &value)?));
            }
        }
        env.sort_by(|(one, _), (other, _)| one.cmp(other));
        env.dedup_by(|(one, _), (other, _)| one == other);
        Ok(Endpoint::Stdio(Program {
            command,
            args,
            env,
            cwd,
        }))
    }

    /// The value of a variable in the environment of the program; a literal secret becomes a variable.
    fn env_value(&mut self, name: &str, value: &Value) -> Result<Template, SkipReason> {
        if !is_variable(name) {
            return Err(SkipReason::VariableName);
        }
        let what = format!("its variable {name}");
        let value = match value {
            Value::String(text) => self.editor.fill(text),
            Value::Number(number) => number.to_string(),
            Value::Bool(boolean) => boolean.to_string(),
            _ => return Err(SkipReason::malformed(what, "is not a string")),
        };
        check_letters(&value, &what)?;
        let noted = self.unset.len();
        let written = self.normalize_variables(&what, &value)?;
        if self.stays(name, &written) {
            self.unset.truncate(noted);
            self.leave_out(&what, name, &value);
            return Ok(Template::parse(format!("${{{name}}}"))?);
        }
        Ok(Template::parse(written)?)
    }
}

/// Refuses text with letters that a person would not see.
fn check_letters(value: &str, what: &str) -> Result<(), SkipReason> {
    if value.contains(text::is_hostile) {
        let what = what.to_owned();
        return Err(SkipReason::Hostile { what });
    }
    Ok(())
}

/// Parses the URL of an entry; refuses one that contains a variable or a secret.
fn parse_url(text: &str) -> Result<Url, SkipReason> {
    // URL parsers ignore line breaks, so the user would see another URL.
    if text.contains(|letter: char| letter.is_whitespace() || text::is_hostile(letter)) {
        return Err(SkipReason::UrlSpaces);
    }
    if text.contains('$') || text.contains("{{") {
        return Err(SkipReason::UrlVariable(
            server_url::redacted(text).into_owned(),
        ));
    }
    let has_password = |url: Url| !url.username().is_empty() || url.password().is_some();
    if Url::parse(text).is_ok_and(has_password) {
        return Err(SkipReason::UrlPassword);
    }
    let url = server_url::parse(text).map_err(SkipReason::Url)?;
    let is_key = |(name, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        is_credential_name(&name) || looks_like_token(&value)
    };
    let mut parts = url.path_segments().into_iter().flatten();
    if url.query_pairs().any(is_key) || parts.any(looks_like_token) {
        let shown = without_tokens(&server_url::redacted(text), "***");
        return Err(SkipReason::UrlKey(shown));
    }
    Ok(url)
}

/// The first variable in the text that is in the syntax of another program.
fn program_variable(text: &str) -> Option<&str> {
    let has_default = |name: &str| {
        name.split_once(":-")
            .is_some_and(|(name, _)| is_variable(name))
    };
    let parts = text.split('{').skip(1);
    let mut names = parts.filter_map(|rest| Some(rest.split_once('}')?.0));
    names.find(|name| {
        EDITOR_VARIABLES.contains(name)
            || ["env:", "file:", "input:"]
                .iter()
                .any(|kind| name.starts_with(kind))
            || has_default(name)
    })
}

/// How an entry must be read, where programs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `url` without a type means HTTP.
    Common,
    /// Gemini CLI: `url` means HTTP+SSE, `httpUrl` means HTTP, and `$NAME` is a variable.
    Gemini,
    /// Goose: `$NAME` is a variable, and built-in extensions have their own types.
    Goose,
}
