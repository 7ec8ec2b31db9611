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
mod proxy;
mod secret;
mod server;
mod settings;
mod views;
pub(crate) mod wrap;

pub(crate) use self::digest::digest;
pub(crate) use self::digest::digest_of_program;
pub(crate) use self::edit::ConfigEdit;
pub(crate) use self::edit::Endpoint;
pub(crate) use self::edit::NewServer;
pub(crate) use self::edit::save_view;
pub(crate) use self::error::ConfigError;
pub(crate) use self::error::PATH_VARIABLE;
pub(crate) use self::error::UrlError;
pub(crate) use self::error::ValueError;
pub(crate) use self::file::mark;
pub(crate) use self::file::missing;
pub(crate) use self::file::path;
pub(crate) use self::file::read;
pub(crate) use self::file::read_server_configs;
pub(crate) use self::file::server_configs;
pub(crate) use self::header::Header;
pub(crate) use self::header::header;
pub(crate) use self::mark::FileMark;
pub(crate) use self::secret::env_secret;
pub(crate) use self::secret::is_secret;
pub(crate) use self::secret::is_secret_name;
pub(crate) use self::secret::looks_like_token;
pub(crate) use self::secret::without_tokens;
pub(crate) use self::server::header as template_of;
pub(crate) use self::server::is_name;
pub(crate) use self::server::url_of;
pub(crate) use self::server::with_scheme;
pub(crate) use self::settings::Color;
pub use self::settings::Config;
pub(crate) use self::settings::Defaults;
