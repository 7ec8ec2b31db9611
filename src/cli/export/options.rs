//! What is exported, and as what.

use secrecy::SecretString;

use crate::{
    auth::Logins,
    domain::{ServerConfig, Wall},
};

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
