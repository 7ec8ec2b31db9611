//! Puts `longhaul proxy` in place of servers in the configuration of agents' hosts, and takes it out again.
//!
//! Must not know of commands or screens. Only the text of a server's entry is replaced, so comments, unknown keys and line
//! ends stay. Invariant: what was replaced is kept beside the file, so that unwrapping restores every byte.

mod backup;
mod entry;
mod file;
mod hosts;
mod json;
mod toml;
mod yaml;

pub(in crate::config) use self::entry::{first_set, is_wrapped};
pub(crate) use self::{
    backup::{Backup, Replaced},
    entry::{ProxyCommand, WrapError, WrappableEntry},
    file::{WrapFile, seen_entries},
    hosts::{HostFile, files_of, host_names},
};
