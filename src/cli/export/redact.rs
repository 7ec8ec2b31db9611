//! Removes secrets, and without `--with-content` all content, from exported text.

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};
use url::Url;

use crate::{
    auth::Logins,
    cli::json::parsed,
    config::{env_secret, without_tokens},
    domain::{LinkRecord, ServerConfig, Task, Wall, is_credential_name},
    transport::searchable_forms,
};

/// Replaces a secret.
const REDACTED: &str = "[redacted]";

/// Shorter secrets are ignored, because they occur in too many ordinary words.
const MIN_SECRET_BYTES: usize = 4;

/// The reasons for a lost connection that longhaul itself writes; any other may contain text from a server.
const OWN_REASONS: [&str; 11] = [
    "connection refused",
    "connection reset by peer",
    "connection aborted",
    "the server closed the connection",
    "the connection timed out",
    "no route to the host",
    "no network",
    "no connection within",
    "the response was cut off",
    "the stream ended",
    "HTTP ",
];

/// The options of an export, and the secrets to keep out of it.
pub(in crate::cli) struct Exporter<'c> {
    /// For their tokens.
    pub(in crate::cli) logins: &'c Logins,
    /// For the secrets in their headers, variables and URLs.
    pub(in crate::cli) servers: &'c [ServerConfig],
    /// From `-H` and `--bearer-env`.
    pub(in crate::cli) cli_secrets: &'c [SecretString],
    pub(in crate::cli) has_content: bool,
    pub(in crate::cli) now: Wall,
}

/// The secrets to remove, and whether content may stay.
pub(super) struct Redaction {
    has_content: bool,
    /// Longest first, so that removing one never leaves a part of another.
    secrets: Vec<String>,
}

impl Redaction {
    /// Collects every secret that this process can know: session, resume and task ids in the session file, secrets in the
    /// configuration and on the command line, and the tokens of the sign-ins.
    pub(super) fn of(exporter: &Exporter<'_>, links: &[LinkRecord], task: &Task) -> Self {
        let mut secrets: Vec<String> = Vec::new();
        for link in links {
            secrets.extend(link.session.clone());
            secrets.extend(url_secrets(&link.url));
        }
        let of_task = [&task.client_id, &task.options.once, &task.server_task_id];
        secrets.extend(of_task.into_iter().flatten().cloned());
        for attempt in &task.attempts {
            let of_attempt = [&attempt.request_state, &attempt.input];
            secrets.extend(of_attempt.into_iter().flatten().cloned());
            secrets.push(attempt.token.clone());
            let cursors = &attempt.cursors;
            let ids = [
                &cursors.first,
                &cursors.newest,
                &cursors.data,
                &cursors.before,
            ];
            secrets.extend(ids.into_iter().flatten().map(|id| (**id).to_owned()));
        }
        for server in exporter.servers {
            let names = server.all_variables();
            let values = names.filter_map(|name| env_secret(&name));
            secrets.extend(values.flat_map(|value| searchable_forms(value.expose_secret())));
            secrets.extend(server.url.as_deref().map(url_secrets).unwrap_or_default());
        }
        let logins = exporter.logins.read().unwrap_or_default();
        for login in logins.logins.into_values() {
            let tokens = [login.access, login.refresh, login.client.secret];
            let texts = tokens.into_iter().flatten();
            secrets.extend(texts.map(|token| token.0.expose_secret().to_owned()));
        }
        let cli_secrets = exporter.cli_secrets.iter();
        secrets.extend(cli_secrets.flat_map(|value| searchable_forms(value.expose_secret())));
        secrets.retain(|secret| secret.len() >= MIN_SECRET_BYTES);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self {
            has_content: exporter.has_content,
            secrets,
        }
    }

    /// Replaces everything that is, or looks like, a secret.
    pub(super) fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret) {
                text = text.replace(secret, REDACTED);
            }
        }
        without_tokens(&text, REDACTED)
    }

    pub(super) fn masked_option(&self, text: Option<&str>) -> Value {
        text.map_or(Value::Null, |text| Value::String(self.masked(text)))
    }

    /// Text from a person or a server: the masked text with `--with-content`, else its size.
    pub(super) fn content(&self, text: Option<&str>) -> Value {
        match text {
            Some(text) if !self.has_content => json!({"bytes": text.len()}),
            _ => self.masked_option(text),
        }
    }

    /// As [`Self::content`], for JSON text.
    pub(super) fn json(&self, text: Option<&str>) -> Value {
        match text {
            Some(text) if self.has_content => self.masked_json(parsed(text)),
            _ => self.content(text),
        }
    }

    /// Why the connection changed; without `--with-content` only the part that longhaul itself writes.
    pub(super) fn of_contact(&self, state: &str, why: &str) -> Value {
        if self.has_content || state != "reconnecting" {
            return Value::String(self.masked(why));
        }
        let own = OWN_REASONS.iter().find(|own| why.starts_with(**own));
        match own {
            Some(&"HTTP ") => {
                let status: String = why.chars().skip(5).take(3).collect();
                let status = status
                    .parse::<u16>()
                    .map_or(String::new(), |it| it.to_string());
                json!(format!("HTTP {status}"))
            }
            Some(own) => json!(own),
            None => self.content(Some(why)),
        }
    }

    fn masked_json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.masked(&text)),
            Value::Array(items) => Value::Array(
                items
                    .into_iter()
                    .map(|item| self.masked_json(item))
                    .collect(),
            ),
            Value::Object(members) => {
                let member = |(name, value): (String, Value)| {
                    // In a schema, the member of such a name is a table that describes it, not a secret.
                    let is_secret =
                        is_credential_name(&name) && (value.is_string() || value.is_number());
                    let value = if is_secret {
                        Value::String(REDACTED.to_owned())
                    } else {
                        self.masked_json(value)
                    };
                    (self.masked(&name), value)
                };
                Value::Object(members.into_iter().map(member).collect::<Map<_, _>>())
            }
            other => other,
        }
    }
}

/// The parts of a URL that may be secret.
fn url_secrets(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else {
        return vec![url.to_owned()];
    };
    let segments = url.path_segments().into_iter().flatten();
    let values = url.query_pairs().map(|(_, value)| value.into_owned());
    let mut parts: Vec<String> = values.collect();
    parts.extend(url.query().map(str::to_owned));
    parts.extend(url.password().map(str::to_owned));
    // That of a stdio server is a directory.
    let fragment = url.fragment().filter(|_| url.has_host());
    parts.extend(fragment.map(str::to_owned));
    // Short path segments such as `mcp` are not secret.
    parts.extend(segments.filter(|it| it.len() > 12).map(str::to_owned));
    parts
}
