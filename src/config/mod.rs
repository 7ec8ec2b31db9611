//! The user's configuration file: reading and editing it, the approvals that it records, and the import of servers from the
//! files of other programs.
//!
//! Must not know commands or the screen. The screen and the commands share it.

pub(crate) mod approval;
mod defaults;
mod digest;
mod edit;
mod error;
mod file;
mod header;
pub(crate) mod import;
mod keys;
mod notify;
mod proxy;
mod secret;
mod server;
mod settings;
pub(crate) mod wrap;

pub(crate) use self::digest::{digest, digest_of_program};
pub(crate) use self::edit::{ConfigEdit, Endpoint, NewServer};
pub(crate) use self::error::{ConfigError, PATH_VARIABLE, ValueError};
pub(crate) use self::file::{
    FileMark, changed_servers, mark, missing, path, read, read_server_configs, reread,
    server_configs,
};
pub(crate) use self::header::{Header, header};
pub(crate) use self::secret::{
    env_secret, has_literal, is_secret, looks_like_token, scheme_of, secret_argument,
    without_tokens,
};
pub(crate) use self::server::{header as template_of, is_name};
pub use self::settings::Config;
pub(crate) use self::settings::Defaults;
