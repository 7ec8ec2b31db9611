//! Why a file of another program, or a server in it, cannot be imported.

use crate::{
    config::ValueError,
    domain::{TemplateError, server_url::UrlError},
};

/// Why a file cannot be read. The text follows the path of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    #[error("symlinks are not followed; if you trust this one, import {0} instead")]
    Symlink(String),
    #[error("{0}")]
    Io(String),
    #[error("not a regular file")]
    NotRegular,
    #[error("too large for a list of servers")]
    TooLarge,
    #[error("not UTF-8 text")]
    NotText,
    #[error("invalid {format} at line {line}")]
    Syntax { format: &'static str, line: usize },
    #[error("its top level is not a table")]
    NotTable,
    #[error(
        "no MCP servers found (no mcpServers, servers, mcp_servers, context_servers, mcp or extensions)"
    )]
    NoServers,
}

/// Why an entry is skipped. `what` is a part of the entry: `its X-Key header`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    #[error("invalid server name")]
    Name,
    #[error("not a table")]
    NotTable,
    #[error("it already goes through longhaul")]
    Wrapped,
    #[error("disabled in this file")]
    Disabled,
    #[error("only the program that this file belongs to can use the {0} setting")]
    OnlyOfHost(&'static str),
    #[error("built into Goose")]
    BuiltIn,
    #[error("longhaul does not support {0}")]
    Unsupported(String),
    #[error("it has both a url and a command")]
    TwoEndpoints,
    #[error("it has neither a url nor a command")]
    NoEndpoint,
    #[error("no url")]
    NoUrl,
    #[error("{what} {problem}")]
    Malformed { what: String, problem: &'static str },
    #[error("{what} contains a control or invisible character")]
    Hostile { what: String },
    #[error("{what} uses ${{{variable}}}, which only its own program can fill in")]
    ForeignVariable { what: String, variable: String },
    #[error("{what} is invalid: {why}")]
    Header { what: String, why: ValueError },
    #[error("its URL is invalid: {0}")]
    Url(UrlError),
    #[error("its URL contains spaces or invisible characters")]
    UrlSpaces,
    #[error(
        "its URL {0} contains a variable, which longhaul does not expand; add the server with its full URL"
    )]
    UrlVariable(String),
    #[error("its URL contains a password, and passwords are never copied")]
    UrlPassword,
    #[error(
        "its URL {0} seems to contain a key, and keys are never copied; add the server yourself if it is not a key"
    )]
    UrlKey(String),
    #[error(
        "its argument {0} seems to be a secret, and secrets are never copied; pass it in an environment variable"
    )]
    SecretArgument(usize),
    #[error("its environment has an invalid variable name")]
    VariableName,
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl SkipReason {
    pub(super) fn malformed(what: impl Into<String>, problem: &'static str) -> Self {
        Self::Malformed {
            what: what.into(),
            problem,
        }
    }
}
