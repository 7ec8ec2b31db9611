//! Changes to the file of configuration that leave its comments, its order and everything else in it as they are.
//!
//! Invariant: what is written is what was read, with one change; a file that somebody changed meanwhile is not written.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
};

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

use super::super::fail::{Fail, code};
use crate::{
    app::{Grouping, SortKey, View},
    domain::{Program, Template},
    store,
};

/// What stands at the top of a file that we made.
const HEAD: &str = "# The configuration of longhaul; `longhaul servers` and the screen write it and leave comments alone.\n";

/// A server as it is written down.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Written {
    pub(in crate::cli) name: String,
    pub(in crate::cli) how: How,
    /// The file that it came from, where it came by import.
    pub(in crate::cli) imported_from: Option<String>,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) enum How {
    /// Over HTTP.
    Http {
        url: String,
        headers: Vec<(String, Template)>,
        protocol: Option<&'static str>,
        /// The digest of what was agreed to.
        consent: Option<String>,
    },
    /// As a process of ours.
    Stdio(Program),
}

/// The file, being changed.
#[derive(Debug)]
pub(in crate::cli) struct Edit {
    /// As the user calls it.
    path: PathBuf,
    /// Where a link leads that the user put there.
    target: PathBuf,
    before: String,
    document: DocumentMut,
}

impl Edit {
    /// Reads the file. One that is no TOML, or too large, is not touched.
    pub(in crate::cli) fn open(path: Option<PathBuf>) -> Result<Self, Fail> {
        let path = path.ok_or_else(|| {
            let words = format!(
                "there is no home for a configuration; name a file with {}",
                super::PLACE
            );
            Fail::usage(words)
        })?;
        let target = match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => path.canonicalize().map_err(|error| {
                let shown = path.display();
                Fail::usage(format!("could not follow the link {shown}: {error}"))
            })?,
            _ => path.clone(),
        };
        let before = super::load(&path).map_err(Fail::usage)?;
        super::parse(&path, &before).map_err(Fail::usage)?;
        let text = if before.is_empty() { HEAD } else { &before };
        let document = text.parse().map_err(|error: toml_edit::TomlError| {
            let words = format!("could not change {}: {}", path.display(), error.message());
            Fail::usage(words)
        })?;
        Ok(Self {
            path,
            target,
            before,
            document,
        })
    }

    /// Where it is, for people.
    pub(in crate::cli) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a server that is not there yet, at the end of the servers.
    pub(in crate::cli) fn add(&mut self, server: &Written) {
        let mut table = Table::new();
        match &server.how {
            How::Http {
                url,
                headers,
                protocol,
                consent,
            } => {
                put(&mut table, "url", url.as_str());
                if !headers.is_empty() {
                    put(&mut table, "headers", inline(headers));
                }
                if let Some(protocol) = protocol {
                    put(&mut table, "protocol", *protocol);
                }
                if let Some(from) = &server.imported_from {
                    put(&mut table, "imported_from", from.as_str());
                }
                if let Some(consent) = consent {
                    put(&mut table, "consent", consent.as_str());
                }
            }
            How::Stdio(Program {
                command,
                args,
                env,
                cwd,
            }) => {
                put(&mut table, "command", command.as_str());
                if !args.is_empty() {
                    put(&mut table, "args", args.iter().collect::<Array>());
                }
                if !env.is_empty() {
                    put(&mut table, "env", inline(env));
                }
                if let Some(cwd) = cwd {
                    put(&mut table, "cwd", cwd.as_str());
                }
                if let Some(from) = &server.imported_from {
                    put(&mut table, "imported_from", from.as_str());
                }
            }
        }
        // What stands in a file without a table would come after the first one.
        let is_first = self.document.as_table().is_empty();
        let above = self.document.trailing().as_str().unwrap_or_default();
        let above = above.to_owned();
        if is_first {
            self.document.set_trailing("");
        }
        let servers = self.document.entry("servers").or_insert_with(|| {
            let mut servers = Table::new();
            servers.set_implicit(true);
            Item::Table(servers)
        });
        if let Some(servers) = servers.as_table_mut() {
            table
                .decor_mut()
                .set_prefix(if is_first { &above } else { "\n" });
            servers.insert(&server.name, Item::Table(table));
        } else if let Some(servers) = servers.as_inline_table_mut() {
            servers.insert(&server.name, Value::InlineTable(table.into_inline_table()));
        }
    }

    /// Puts a view in, or in the place of the one of its name.
    pub(in crate::cli) fn view(&mut self, view: &View) {
        let mut table = Table::new();
        if !view.filter.is_empty() {
            put(&mut table, "filter", view.filter.as_str());
        }
        if view.needs_only {
            put(&mut table, "needs_you", true);
        }
        if view.grouping != Grouping::default() {
            put(&mut table, "group", view.grouping.label());
        }
        if view.sort != SortKey::default() {
            put(&mut table, "sort", view.sort.label());
        }
        if view.is_reversed {
            put(&mut table, "reverse", true);
        }
        let mut views = Table::new();
        views.set_implicit(true);
        let views = self.document.entry("views").or_insert(Item::Table(views));
        if let Some(views) = views.as_table_mut() {
            table.decor_mut().set_prefix("\n");
            views.insert(&view.name, Item::Table(table));
        } else if let Some(views) = views.as_inline_table_mut() {
            views.insert(&view.name, Value::InlineTable(table.into_inline_table()));
        }
    }

    /// Writes down that a server's variables may go where they would; whether the server is there.
    pub(in crate::cli) fn consent(&mut self, name: &str, digest: &str) -> bool {
        self.agree(name, "consent", digest)
    }

    /// Writes down that a server's program may be started; whether the server is there.
    pub(in crate::cli) fn approve(&mut self, name: &str, digest: &str) -> bool {
        self.agree(name, "approved", digest)
    }

    fn agree(&mut self, name: &str, key: &str, digest: &str) -> bool {
        let server = self
            .document
            .get_mut("servers")
            .and_then(|servers| servers.get_mut(name))
            .and_then(Item::as_table_like_mut);
        server.is_some_and(|server| {
            server.insert(key, toml_edit::value(digest));
            true
        })
    }

    /// Takes a server away, and of the comments above it only those that stand right at it; whether it was there.
    pub(in crate::cli) fn remove(&mut self, name: &str) -> bool {
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
        let kept = above
            .and_then(|above| above.rsplit_once("\n\n"))
            .map_or(String::new(), |(kept, _)| format!("{kept}\n"));
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

    /// Writes it, whole or not at all, with mode 0600.
    pub(in crate::cli) fn save(self) -> Result<(), Fail> {
        let shown = self.path.display();
        let failed = |why: &dyn std::fmt::Display| {
            Fail::new(code::CANNOT_SAVE, format!("could not write {shown}: {why}"))
        };
        let text = self.document.to_string();
        // What cannot be read again is not written.
        super::parse(&self.path, &text).map_err(|why| Fail::new(code::BUG, why))?;
        let directory = match self.target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
        // Between the look and the writing nobody else may write. Where there are no locks the look has to do.
        let alone = File::open(directory).map_err(|error| failed(&error))?;
        let is_busy = matches!(alone.try_lock(), Err(TryLockError::WouldBlock));
        if is_busy || super::load(&self.path).map_err(Fail::usage)? != self.before {
            return Err(failed(&"somebody changed it meanwhile; try again"));
        }
        store::write_atomically(&self.target, text.as_bytes())
            .map_err(|error| Fail::new(code::CANNOT_SAVE, format!("could not {error}")))
    }
}

fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key, toml_edit::value(value));
}

fn inline(templates: &[(String, Template)]) -> InlineTable {
    templates
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

/// The tables below one, whatever their depth.
fn tables(table: &Table) -> impl Iterator<Item = &Table> {
    table.iter().filter_map(|(_, item)| item.as_table())
}

/// The place in the file of the table that comes next after `position`.
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
