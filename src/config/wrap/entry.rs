//! A server in a host's file, and what takes its place.

use std::ops::Range;

use serde_json::{Map, Value, json};

use crate::store::StoreError;

/// What only the host can use: ways to sign in to a server, and files of variables.
const ONLY_OF_HOST: [&str; 6] = [
    "auth",
    "authProviderType",
    "envFile",
    "headersHelper",
    "oauth",
    "scopes",
];

/// Why a file can't be wrapped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WrapError {
    /// It can't be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It can't be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is kept beside it can't be read.
    #[error("its backup {path}: {why}")]
    Backup { path: String, why: String },
    /// It has an error, or a form that can't be edited in place.
    #[error("{0}")]
    Form(&'static str),
    /// It was changed by another program just now.
    #[error("it was changed by another program just now; run the command again")]
    Changed,
}

/// A program and its arguments in place of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyCommand {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    /// Secrets of the entry, which stay in the file, under the names by which longhaul knows them.
    pub(crate) env: Vec<(String, String)>,
    /// Variables of the host's environment that the server needs; Codex and Gemini CLI have to be told to pass them on.
    pub(crate) forwarded: Vec<String>,
}

/// A server in a host's file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WrappableEntry {
    pub(crate) name: String,
    /// Its members.
    pub(crate) fields: Map<String, Value>,
    /// The text that is replaced.
    pub(super) range: Range<usize>,
    /// Why it can't be replaced.
    pub(super) unfit: Option<&'static str>,
}

/// A text without its byte order mark, which is no part of what the formats describe, and the bytes of the mark.
pub(super) fn without_mark(text: &str) -> (&str, usize) {
    let unmarked = text.trim_start_matches('\u{feff}');
    (unmarked, text.len() - unmarked.len())
}

impl WrappableEntry {
    /// Whether the entry already runs `longhaul proxy`.
    pub(crate) fn is_wrapped(&self) -> bool {
        is_wrapped(&self.fields)
    }

    /// Why the entry can't be wrapped: because of its form, or because it would lose something.
    pub(crate) fn obstacle(&self, host: &str) -> Option<String> {
        if let Some(why) = self.unfit {
            return Some(why.to_owned());
        }
        let key = first_set(&self.fields, &ONLY_OF_HOST)?;
        Some(format!("only {host} can use the {key} setting"))
    }

    /// Whether this is a proxy with these arguments that gets another value of one of the variables, perhaps from the
    /// environment of its host.
    pub(crate) fn differs(&self, args: &[String], variables: &[(String, String)]) -> bool {
        let words = words(&self.fields);
        let is_its = words.windows(args.len()).any(|it| it == args);
        let has_other = |(name, value): &(String, String)| {
            let tables = ["env", "envs", "environment"].iter();
            let mut theirs = tables.filter_map(|key| self.fields.get(*key)?.get(name)?.as_str());
            theirs.next() != Some(value)
        };
        is_its && variables.iter().any(has_other)
    }
}

/// The program and its arguments.
fn words(fields: &Map<String, Value>) -> Vec<&str> {
    let words = ["command", "cmd", "args"].iter();
    let words = words.filter_map(|key| fields.get(*key));
    let words = words.flat_map(|value| match value {
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        word => Vec::from_iter(word.as_str()),
    });
    words.collect()
}

/// The first of these members that sets something.
pub(in crate::config) fn first_set(
    fields: &Map<String, Value>,
    keys: &[&'static str],
) -> Option<&'static str> {
    let nothing = [json!(null), json!(false), json!({})];
    let is_set = |value: &Value| !nothing.contains(value);
    let mut keys = keys.iter().copied();
    keys.find(|key| fields.get(*key).is_some_and(is_set))
}

/// Whether an entry with these members starts `longhaul proxy`.
pub(in crate::config) fn is_wrapped(fields: &Map<String, Value>) -> bool {
    let words = words(fields);
    let this = std::env::current_exe().unwrap_or_default();
    // The program may have another name, such as `longhaul-0.2`.
    let is_longhaul = |word: &&str| {
        let name = word.rsplit('/').next();
        name.is_some_and(|name| name.contains("longhaul")) || this.as_os_str() == *word
    };
    words.iter().any(is_longhaul) && words.contains(&"proxy")
}
