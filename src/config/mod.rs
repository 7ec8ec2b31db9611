//! The user's configuration file: reading and editing it, the consent that it records, and the import of servers from the
//! files of other programs.
//!
//! Must not know commands or the screen. The screen and the commands share it.

pub(crate) mod consent;
mod defaults;
mod digest;
mod edit;
mod error;
mod file;
mod header;
pub(crate) mod import;
mod keys;
mod mark;
mod notify;
mod secret;
mod server;
mod settings;
mod views;

pub use self::settings::Config;
pub(crate) use self::{
    defaults::{Color, Defaults},
    digest::{digest, digest_of_program},
    edit::{ConfigEdit, Endpoint, NewServer, save_view},
    error::{ConfigError, UrlError, ValueError},
    file::{mark, missing, path, read, read_server_configs, server_configs},
    header::{Header, header},
    mark::FileMark,
    secret::{env_secret, is_secret, is_secret_name, looks_like_token, without_tokens},
    server::{header as template_of, is_name, url_of, with_scheme},
};
