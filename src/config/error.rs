//! What can be wrong with the configuration file, and with a value in it.

use crate::{
    domain::{
        HeaderError, RevisionError, TemplateError, server_url::UrlError, text::DurationError,
    },
    store::StoreError,
};

/// Why the configuration cannot be read or changed. The text is a whole message.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("no home directory for the configuration; set {PATH_VARIABLE} to a file")]
    NoHome,
    #[error(
        "{PATH_VARIABLE} names a file that does not exist: {path}; create it, or correct or unset the variable"
    )]
    Missing { path: String },
    #[error("could not follow the link {path}: {why}")]
    Link { path: String, why: String },
    #[error(
        "could not read the configuration {path}: {why}; fix it, or set {PATH_VARIABLE} to another file"
    )]
    Unreadable { path: String, why: String },
    #[error(
        "could not read the configuration: {path}:{line}: {why}; fix that line, or set {PATH_VARIABLE} to another file"
    )]
    Syntax {
        path: String,
        line: usize,
        why: String,
    },
    #[error("could not change {path}: {why}")]
    Unchangeable { path: String, why: String },
    /// The change would make a file that cannot be read: our mistake.
    #[error("{0}")]
    Unsound(Box<ConfigError>),
    #[error("could not write {0}: another program has changed it; try again")]
    Changed(String),
    #[error("could not write {path}: {why}")]
    Unwritten { path: String, why: String },
    #[error("could not {0}")]
    Store(#[from] StoreError),
}

/// Why a value is not accepted. The text is a fragment that follows the name of the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("expected a string in quotes")]
    NotText,
    #[error("expected one of: {0}")]
    NotOneOf(String),
    #[error("expected a name")]
    NoName,
    #[error("expected a shell command")]
    NoCommand,
    #[error("invalid variable name")]
    VariableName,
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error(transparent)]
    Revision(#[from] RevisionError),
    // Of a header, whose text is never repeated, because it may be a secret.
    #[error("expected 'Name: value'")]
    NoColon,
    #[error("invalid header name")]
    OtherHeaderName,
    #[error(transparent)]
    Header(#[from] HeaderError),
}

/// The environment variable with the path of another file.
pub(crate) const PATH_VARIABLE: &str = "LONGHAUL_CONFIG";
