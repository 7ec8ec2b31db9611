//! Edits the configuration file and keeps its comments, its order and all other content.
//!
//! Invariant: the written file is the one that was read plus one change; a file that another program has changed since is
//! not written.

use std::{
    fs::{File, TryLockError},
    path::PathBuf,
    time::Duration,
};

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use super::error::ConfigError;
use crate::{
    domain::{Program, Template},
    store,
};

/// The first line of a file that longhaul creates.
const HEAD: &str = "# longhaul configuration. `longhaul servers`, `longhaul wrap` and the screen edit this file and keep your comments.\n";

/// The pause between attempts to lock the directory, and how many there are.
const LOCK_EVERY: Duration = Duration::from_millis(20);
const LOCK_TRIES: u32 = 100;

/// A server to add.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NewServer {
    pub(crate) name: String,
    pub(crate) endpoint: Endpoint,
    /// The file that it was imported from.
    pub(crate) imported_from: Option<String>,
    /// The digest of what the user approved.
    pub(crate) approved: Option<String>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Endpoint {
    /// Over HTTP.
    Http {
        url: String,
        headers: Vec<(String, Template)>,
        protocol: Option<&'static str>,
    },
    /// As a child process.
    Stdio(Program),
}

impl Endpoint {
    /// The headers or the environment variables.
    pub(super) fn values(&self) -> &[(String, Template)] {
        match self {
            Self::Http { headers, .. } => headers,
            Self::Stdio(program) => &program.env,
        }
    }

    /// The variables of the environment that it needs.
    pub(super) fn variables(&self) -> Vec<String> {
        match self {
            Self::Http { headers, .. } => {
                let names = headers.iter().flat_map(|(_, value)| value.variables());
                names.map(str::to_owned).collect()
            }
            Self::Stdio(program) => program.variables(),
        }
    }

    /// One of [`Self::values`].
    pub(super) fn value(&self, key: &str) -> Option<&Template> {
        let mut values = self.values().iter();
        let found = values.find(|(it, _)| it.eq_ignore_ascii_case(key));
        found.map(|(_, value)| value)
    }

    /// Uses another variable in place of this one.
    pub(super) fn rename_variable(&mut self, old: &str, new: &str) {
        let (old, new) = (format!("${{{old}}}"), format!("${{{new}}}"));
        let (values, args) = match self {
            Self::Http { headers, .. } => (headers, &mut Vec::new()),
            Self::Stdio(program) => (&mut program.env, &mut program.args),
        };
        for (_, value) in values {
            let renamed = Template::parse(value.as_str().replace(&old, &new));
            // A name replaces a name, so it parses.
            *value = renamed.unwrap_or_else(|_| value.clone());
        }
        for arg in args {
            *arg = arg.replace(&old, &new);
        }
    }
}

/// The file, opened for one change.
#[derive(Debug)]
pub(crate) struct ConfigEdit {
    /// As set by the user, for messages.
    pub(crate) path: PathBuf,
    /// The file to write: the target if `path` is a symlink.
    target: PathBuf,
    /// The text that was read, to detect other changes.
    before: String,
    document: DocumentMut,
}

impl ConfigEdit {
    /// Reads the file; fails if it is not valid TOML or too large.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self, ConfigError> {
        let path = path.ok_or(ConfigError::NoHome)?;
        let target = match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                path.canonicalize().map_err(|error| ConfigError::Link {
                    path: path.display().to_string(),
                    why: error.to_string(),
                })?
            }
            _ => path.clone(),
        };
        let before = super::file::load(&path)?;
        super::file::parse(&path, &before)?;
        let text = if before.is_empty() { HEAD } else { &before };
        let unchangeable = |why: String| ConfigError::Unchangeable {
            path: path.display().to_string(),
            why,
        };
        let document: DocumentMut = text
            .parse()
            .map_err(|error: toml_edit::TomlError| unchangeable(error.message().to_owned()))?;
        if (document.get("servers")).is_some_and(|it| !it.is_table_like()) {
            return Err(unchangeable("`servers` must be a table".to_owned()));
        }
        Ok(Self {
            path,
            target,
            before,
            document,
        })
    }

    /// Whether there is an entry for a server, even one that is ignored because of an error in it.
    pub(crate) fn has_server(&self, name: &str) -> bool {
        let servers = self.document.get("servers");
        servers.is_some_and(|servers| servers.get(name).is_some())
    }

    /// Adds a new server after the existing ones.
    pub(crate) fn add(&mut self, server: &NewServer) {
        let mut table = Table::new();
        match &server.endpoint {
            Endpoint::Http {
                url,
                headers,
                protocol,
            } => {
                put(&mut table, "url", Some(url.as_str()));
                put(&mut table, "headers", inline(headers));
                put(&mut table, "protocol", *protocol);
            }
            Endpoint::Stdio(Program {
                command,
                args,
                env,
                cwd,
            }) => {
                put(&mut table, "command", Some(command.as_str()));
                let args = Some(args.iter().collect::<Array>());
                put(&mut table, "args", args.filter(|args| !args.is_empty()));
                put(&mut table, "env", inline(env));
                put(&mut table, "cwd", cwd.as_deref());
            }
        }
        put(&mut table, "imported_from", server.imported_from.as_deref());
        put(&mut table, "approved", server.approved.as_deref());
        // In a file without tables, comments are trailing and would end up below the new table.
        let is_first = self.document.as_table().is_empty();
        let above = self.document.trailing().as_str().unwrap_or_default();
        let above = above.to_owned();
        if is_first {
            self.document.set_trailing("");
        }
        let above = if is_first { above.as_str() } else { "\n" };
        let mut tables = Table::new();
        tables.set_implicit(true);
        let tables = (self.document.entry("servers")).or_insert(Item::Table(tables));
        // In the form of the tables that are there.
        if let Some(tables) = tables.as_table_mut() {
            table.decor_mut().set_prefix(above);
            tables.insert(&server.name, Item::Table(table));
        } else if let Some(tables) = tables.as_inline_table_mut() {
            tables.insert(&server.name, Value::InlineTable(table.into_inline_table()));
        }
    }

    /// Stores the digest of what the user approved for a server, and the directory in which its program then starts.
    pub(crate) fn approve(&mut self, name: &str, digest: &str, cwd: Option<&str>) {
        let servers = self.document.get_mut("servers");
        let server = servers.and_then(|servers| servers.get_mut(name));
        if let Some(server) = server.and_then(Item::as_table_like_mut) {
            if let Some(cwd) = cwd {
                server.insert("cwd", toml_edit::value(cwd));
            }
            // An older name of the key, which is still read.
            server.remove("consent");
            server.insert("approved", toml_edit::value(digest));
        }
    }

    /// Removes a server and the comment directly above it; returns whether it existed. Comments before an empty line stay.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let servers = self.document.get_mut("servers");
        let Some(servers) = servers.and_then(Item::as_table_like_mut) else {
            return false;
        };
        let Some(removed) = servers.remove(name) else {
            return false;
        };
        let Some(table) = removed.as_table() else {
            return true;
        };
        let above = table.decor().prefix().and_then(|prefix| prefix.as_str());
        let kept = above.and_then(|above| {
            let mut ends = ["\n", "\r\n"].into_iter();
            ends.find_map(|end| {
                let (kept, _) = above.rsplit_once(&end.repeat(2))?;
                Some(format!("{kept}{end}"))
            })
        });
        let kept = kept.unwrap_or_default();
        if kept.trim().is_empty() {
            return true;
        }
        let position = table.position();
        let next = next_position(self.document.as_table(), position);
        if let Some(next) = next.and_then(|next| at_position(self.document.as_table_mut(), next)) {
            let own = next.decor().prefix().and_then(|prefix| prefix.as_str());
            let prefix = format!("{kept}{}", own.unwrap_or("\n"));
            next.decor_mut().set_prefix(prefix);
        } else {
            let own = self.document.trailing().as_str().unwrap_or_default();
            let trailing = format!("{kept}{own}");
            self.document.set_trailing(trailing);
        }
        true
    }

    /// Writes the file atomically, with mode 0600.
    pub(crate) fn save(self) -> Result<(), ConfigError> {
        let shown = self.path.display();
        let failed = |why: &dyn std::fmt::Display| ConfigError::Unwritten {
            path: shown.to_string(),
            why: why.to_string(),
        };
        let text = self.document.to_string();
        // Never write a file that cannot be read again.
        super::file::parse(&self.path, &text).map_err(|why| ConfigError::Unsound(Box::new(why)))?;
        let directory = store::directory_of(&self.target);
        std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        // The lock covers the time from the check to the write. Without file locks the check must do.
        let lock = File::open(directory).map_err(|error| failed(&error))?;
        wait_for(&lock);
        if super::file::load(&self.path)? != self.before {
            return Err(ConfigError::Changed(shown.to_string()));
        }
        let written = store::write_atomically(&self.target, text.as_bytes());
        // A child process that is being started holds a copy of the lock, so closing ours might not release it.
        let _ = lock.unlock();
        Ok(written?)
    }
}

/// Locks the directory. Another command holds it for milliseconds; if that command is suspended, the check alone must do.
#[expect(
    clippy::disallowed_methods,
    reason = "a lock can't be awaited for a limited time"
)]
fn wait_for(lock: &File) {
    for _ in 0..LOCK_TRIES {
        if !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
            return;
        }
        std::thread::sleep(LOCK_EVERY); // sleep: nothing tells when another process releases a lock
    }
}

/// Sets a key that has a value other than the default.
fn put(table: &mut Table, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        table.insert(key, toml_edit::value(value));
    }
}

fn inline(templates: &[(String, Template)]) -> Option<InlineTable> {
    let members = templates.iter();
    let members = members.map(|(name, value)| (name.as_str(), value.as_str()));
    (!templates.is_empty()).then(|| members.collect())
}

/// The direct subtables.
fn tables(table: &Table) -> impl Iterator<Item = &Table> {
    table.iter().filter_map(|(_, item)| item.as_table())
}

/// The position in the file of the first table after `position`.
fn next_position(table: &Table, position: Option<isize>) -> Option<isize> {
    tables(table)
        .flat_map(|below| {
            let own = below.position().filter(|own| Some(*own) > position);
            own.into_iter().chain(next_position(below, position))
        })
        .min()
}

fn at_position(table: &mut Table, position: isize) -> Option<&mut Table> {
    for (_, item) in table.iter_mut() {
        let Some(below) = item.as_table_mut() else {
            continue;
        };
        if below.position() == Some(position) && !below.is_implicit() {
            return Some(below);
        }
        if let Some(found) = at_position(below, position) {
            return Some(found);
        }
    }
    None
}
