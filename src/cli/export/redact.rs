//! What stays of a text when a stranger is to read it.

use secrecy::ExposeSecret as _;
use serde_json::{Map, Value, json};
use url::Url;

use super::Exporting;
use crate::{
    cli::{
        config::{is_secret_name, without_tokens},
        json::parsed,
        variable,
    },
    domain::{LinkRecord, Program, Task},
    transport::searchable_forms,
};

/// What stands where something was taken out.
const GONE: &str = "[redacted]";
/// Shorter than this, a secret is part of too many words to be looked for.
const SHORTEST: usize = 4;
/// Why contact ended, in words that are ours alone; a server may have written any other.
const OURS: [&str; 11] = [
    "connection refused",
    "connection reset by peer",
    "connection aborted",
    "the server closed the connection",
    "the connection timed out",
    "no route to the host",
    "no network",
    "no connection within",
    "the body ended early",
    "the stream ended",
    "HTTP ",
];

/// What must not be in a trace, and how much else may.
pub(super) struct Redaction {
    has_content: bool,
    /// Longest first, so that none leaves a part of another.
    secrets: Vec<String>,
}

impl Redaction {
    /// Of everything that this process can know to be a secret: what the session file keeps to come back, what the
    /// configuration and the command line send, and the tokens of the sign-ins.
    pub(super) fn of(by: &Exporting<'_>, links: &[LinkRecord], task: &Task) -> Self {
        let mut secrets: Vec<String> = Vec::new();
        for link in links {
            secrets.extend(link.session.clone());
            secrets.extend(of_url(&link.url));
        }
        secrets.extend(
            [&task.client_id, &task.once, &task.server_task_id]
                .into_iter()
                .flatten()
                .cloned(),
        );
        for attempt in &task.attempts {
            secrets.extend(
                [&attempt.request_state, &attempt.input]
                    .into_iter()
                    .flatten()
                    .cloned(),
            );
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
        for server in by.servers {
            let of_headers = server.variables().into_iter().map(str::to_owned);
            let of_program = server.program.iter().flat_map(Program::variables);
            let names = of_headers.chain(of_program);
            let values = names.filter_map(|name: String| variable(&name));
            secrets.extend(values.flat_map(|value| searchable_forms(value.expose_secret())));
            secrets.extend(server.url.as_deref().map(of_url).unwrap_or_default());
        }
        let logins = by.logins.read().unwrap_or_default();
        for login in logins.logins.into_values() {
            let tokens = [login.access, login.refresh, login.client.secret];
            let texts = tokens.into_iter().flatten();
            secrets.extend(texts.map(|token| token.0.expose_secret().to_owned()));
        }
        let given = by.given.iter();
        secrets.extend(given.flat_map(|value| searchable_forms(value.expose_secret())));
        secrets.retain(|secret| secret.len() >= SHORTEST);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self {
            has_content: by.has_content,
            secrets,
        }
    }

    /// A text without what is known to be, or looks like, a secret.
    pub(super) fn masked(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret) {
                text = text.replace(secret, GONE);
            }
        }
        without_tokens(&text, GONE)
    }

    pub(super) fn masked_option(&self, text: Option<&str>) -> Value {
        text.map_or(Value::Null, |text| Value::String(self.masked(text)))
    }

    /// What a person or a server wrote: itself, or its size.
    pub(super) fn said(&self, text: Option<&str>) -> Value {
        match text {
            Some(text) if !self.has_content => json!({"bytes": text.len()}),
            _ => self.masked_option(text),
        }
    }

    /// As [`Self::said`], of the text of a JSON document.
    pub(super) fn json(&self, text: Option<&str>) -> Value {
        match text {
            Some(text) if self.has_content => self.cleaned(parsed(text)),
            _ => self.said(text),
        }
    }

    /// Why contact ended or came back: the part of it that is ours.
    pub(super) fn of_contact(&self, why: &str) -> Value {
        let Some(cut) = why.strip_prefix("cut: ").filter(|_| !self.has_content) else {
            return Value::String(self.masked(why));
        };
        let ours = OURS.iter().find(|ours| cut.starts_with(**ours));
        let words = match ours {
            Some(&"HTTP ") => {
                let status: String = cut.chars().skip(5).take(3).collect();
                let status = status
                    .parse::<u16>()
                    .map_or(String::new(), |it| it.to_string());
                format!("cut: HTTP {status}")
            }
            Some(ours) => format!("cut: {ours}"),
            None => return json!({"cut": {"bytes": cut.len()}}),
        };
        Value::String(words)
    }

    fn cleaned(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.masked(&text)),
            Value::Array(items) => {
                Value::Array(items.into_iter().map(|item| self.cleaned(item)).collect())
            }
            Value::Object(members) => {
                let member = |(name, value): (String, Value)| {
                    // A schema describes a member of such a name, which is no secret.
                    let is_secret =
                        is_secret_name(&name) && (value.is_string() || value.is_number());
                    let value = if is_secret {
                        Value::String(GONE.to_owned())
                    } else {
                        self.cleaned(value)
                    };
                    (self.masked(&name), value)
                };
                Value::Object(members.into_iter().map(member).collect::<Map<_, _>>())
            }
            other => other,
        }
    }
}

/// Scheme, host and port of a URL; its path may be a key, as its query may.
pub(super) fn origin(url: &str) -> Option<String> {
    Some(Url::parse(url).ok()?.origin().ascii_serialization())
}

/// The parts of a URL that may be a key.
fn of_url(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else {
        return vec![url.to_owned()];
    };
    let segments = url.path_segments().into_iter().flatten();
    let values = url.query_pairs().map(|(_, value)| value.into_owned());
    let mut parts: Vec<String> = values.collect();
    parts.extend(url.query().map(str::to_owned));
    parts.extend(url.password().map(str::to_owned));
    parts.extend(url.fragment().map(str::to_owned));
    // `mcp` is the path of most servers, and no secret.
    parts.extend(segments.filter(|it| it.len() > 12).map(str::to_owned));
    parts
}
