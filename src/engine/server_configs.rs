//! The configured servers of a session, as its driver knows them.
//!
//! Invariant: only a file itself changes what came from it, and then as a whole; another file adds the names that no
//! other file has.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::snapshots::ReaderId;
use crate::domain::{
    LinkRecord, ServerConfig, ServerConfigs, ServerName, Variables, server_url, text,
};

/// A server and the file that defines it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listed {
    file: String,
    server: ServerConfig,
}

/// What the last reader of a file had: the variables that headers and programs may use, and the directory where programs
/// start unless their entry says so.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Surroundings {
    pub(super) variables: Variables,
    pub(super) directory: Option<String>,
}

/// All server entries in effect. A keeper that is upgraded passes them on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct KnownConfigs {
    /// The driver's file, which overrides what the session remembers.
    own: Option<String>,
    listed: BTreeMap<ServerName, Listed>,
    /// Servers that no file defines any more. Their running calls continue unchanged.
    gone: BTreeMap<ServerName, Listed>,
    /// What the programs and headers of each file get, by file.
    surroundings: BTreeMap<String, Surroundings>,
    /// The stdio servers that run in the directories of hosts: their entry and their directory.
    #[serde(default)]
    in_directories: BTreeMap<ServerName, (ServerName, String)>,
    /// What an unknown file has.
    #[serde(skip)]
    no_surroundings: Surroundings,
    /// Entries of single readers whose name means another server here, with the reason why they are not used.
    #[serde(skip)]
    clashes: Vec<(ReaderId, ServerName, String)>,
    /// The names that single readers use for another URL, with the refusal that they get.
    #[serde(skip)]
    refused: BTreeMap<(ReaderId, ServerName), String>,
    /// The readers that allow credentials over plain http (`--insecure-http`).
    #[serde(skip)]
    insecure: BTreeSet<ReaderId>,
}

/// What changed in a file.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// The servers it defines, with their previous entries.
    pub(super) told: Vec<(ServerName, Option<ServerConfig>)>,
    /// The servers it no longer defines.
    pub(super) gone: Vec<ServerName>,
    /// The message for a process with another file.
    pub(super) notices: Vec<String>,
}

impl KnownConfigs {
    /// The entries of a new driver; `older` are those of the program that it replaced.
    pub(super) fn of(own: &ServerConfigs, older: Self) -> Self {
        let mut configs = Self {
            own: own.file.clone(),
            ..older
        };
        configs.take(own.clone(), None, |_, _| None);
        configs
    }

    /// Applies a file's current entries. `elsewhere` describes where the session has another server of the same name;
    /// it is told whether another file once defined that one.
    pub(super) fn take(
        &mut self,
        config: ServerConfigs,
        from: Option<ReaderId>,
        elsewhere: impl Fn(&ServerConfig, bool) -> Option<String>,
    ) -> Change {
        let mut change = Change::default();
        self.insecure.extend(from.filter(|_| config.insecure_http));
        let ServerConfigs {
            file: Some(file),
            mut servers,
            mut variables,
            directory,
            ..
        } = config
        else {
            return change;
        };
        variables.keep_older(self.variables_of(&file));
        let surroundings = Surroundings {
            variables,
            directory,
        };
        self.surroundings.insert(file.clone(), surroundings);
        self.clashes.retain(|(reader, ..)| Some(*reader) != from);
        servers.extend(self.in_directories_of(&servers));
        let is_theirs = |listed: &Listed| listed.file == file;
        let is_named = |name: &ServerName| servers.iter().any(|server| server.name == *name);
        let left = self.listed.iter();
        let left = left.filter(|(name, listed)| is_theirs(listed) && !is_named(name));
        let left: Vec<ServerName> = left.map(|(name, _)| name.clone()).collect();
        for name in left {
            if let Some(listed) = self.listed.remove(&name) {
                self.gone.insert(name.clone(), listed);
                change.gone.push(name);
            }
        }
        for server in servers {
            let name = server.name.clone();
            let other = match self.listed.get(&name) {
                Some(listed) if is_theirs(listed) => None,
                Some(listed) if listed.server.matches_except_limits(&server) => continue,
                Some(listed) => Some(format!("from {}", listed.file)),
                None if self.own.as_ref() == Some(&file) => None,
                None => {
                    let was_named = self.gone.get(&name).is_some_and(|it| !is_theirs(it));
                    elsewhere(&server, was_named).map(|url| format!("at {url}"))
                }
            };
            if let Some(other) = other {
                let notice = clash(&file, &name, &other);
                change.notices.push(notice.clone());
                self.clashes
                    .extend(from.map(|reader| (reader, name, notice)));
                continue;
            }
            let listed = Listed {
                file: file.clone(),
                server,
            };
            let old = self.listed.insert(name.clone(), listed);
            let old = old.or_else(|| self.gone.remove(&name));
            change.told.push((name, old.map(|old| old.server)));
        }
        change
    }

    /// Remembers a server that runs in a host's directory, with the entry of the configuration that it shares.
    pub(super) fn add_directory(&mut self, record: &LinkRecord) {
        let Some((entry, directory)) = server_url::process_in(&record.url) else {
            return;
        };
        let entry = ServerName::new(entry);
        let of_entry = self.listed.get(&entry).cloned();
        let place = (entry, directory.to_owned());
        self.in_directories.insert(record.name.clone(), place);
        let Some(Listed { file, server }) = of_entry else {
            return;
        };
        for server in self.in_directories_of(&[server]) {
            let (name, file) = (server.name.clone(), file.clone());
            self.listed.entry(name).or_insert(Listed { file, server });
        }
    }

    /// The servers that run the programs of these entries in the directories of hosts.
    fn in_directories_of(&self, entries: &[ServerConfig]) -> Vec<ServerConfig> {
        let servers = self.in_directories.iter();
        let servers = servers.filter_map(|(name, (of, directory))| {
            let entry = entries.iter().find(|entry| entry.name == *of)?;
            let mut program = entry.program.clone()?;
            program.cwd.get_or_insert_with(|| directory.clone());
            Some(ServerConfig {
                name: name.clone(),
                url: Some(server_url::for_process_in(of.as_str(), directory)),
                program: Some(program),
                ..entry.clone()
            })
        });
        servers.collect()
    }

    /// The current entry of a server.
    pub(super) fn of_name(&self, name: &ServerName) -> Option<&ServerConfig> {
        self.listed.get(name).map(|listed| &listed.server)
    }

    /// Whether the entry of a server has headers.
    pub(super) fn has_headers(&self, name: &ServerName) -> bool {
        self.of_name(name).is_some_and(|it| !it.headers.is_empty())
    }

    /// The same for connections: running calls keep their old entry.
    pub(super) fn to_connect(&self, name: &ServerName) -> Option<&ServerConfig> {
        let listed = self.listed.get(name).or_else(|| self.gone.get(name));
        listed.map(|listed| &listed.server)
    }

    /// The variables of a file.
    pub(super) fn variables_of(&self, file: &str) -> &Variables {
        let known = self.surroundings.get(file);
        &known.unwrap_or(&self.no_surroundings).variables
    }

    /// What the last reader of a server's file had.
    pub(super) fn surroundings(&self, name: &ServerName) -> &Surroundings {
        let listed = self.listed.get(name).or_else(|| self.gone.get(name));
        listed
            .and_then(|listed| self.surroundings.get(&listed.file))
            .unwrap_or(&self.no_surroundings)
    }

    /// The file that no longer defines a server.
    pub(super) fn gone_from(&self, name: &ServerName) -> Option<&String> {
        self.gone.get(name).map(|listed| &listed.file)
    }

    /// Users set the address themselves, whatever the configuration says.
    pub(super) fn named_again(&mut self, name: &ServerName) {
        self.gone.remove(name);
    }

    /// Refuses a reader's new requests to a server: by that name, it means another one.
    pub(super) fn refuse(&mut self, reader: ReaderId, name: ServerName, words: String) {
        self.refused.insert((reader, name), words);
    }

    /// A reader has named the URL that the session uses.
    pub(super) fn accept(&mut self, reader: ReaderId, name: &ServerName) {
        self.refused.remove(&(reader, name.clone()));
    }

    /// Why this reader may make no new requests to this server.
    pub(super) fn why_not(&self, from: Option<ReaderId>, name: &ServerName) -> Option<String> {
        let mut clashes = self.clashes.iter();
        let clash = clashes.find(|(reader, of, _)| Some(*reader) == from && of.shares_entry(name));
        let gone = self.gone.get(name).map(|listed| {
            let entry = ServerName::new(name.entry());
            if entry != *name && self.listed.contains_key(&entry) {
                return format!(
                    "{entry} in {} no longer runs a program in its host's directory; restart the host to use the new entry",
                    listed.file
                );
            }
            format!(
                "{name} is no longer in {}, so it gets no new calls; restore its entry there to put it back",
                listed.file
            )
        });
        let refused = from.and_then(|reader| self.refused.get(&(reader, name.clone())));
        let words = refused.cloned();
        let words = words.or_else(|| clash.map(|(.., words)| words.clone()));
        let words = words.or(gone)?;
        Some(text::clean_line(&words).into_owned())
    }

    /// Whether this reader allows credentials over plain http.
    pub(super) fn allows_insecure_http(&self, reader: ReaderId) -> bool {
        self.insecure.contains(&reader)
    }

    /// Forgets readers that have disconnected.
    pub(super) fn forget_readers(&mut self, is_there: impl Fn(ReaderId) -> bool) {
        self.insecure.retain(|reader| is_there(*reader));
        self.refused.retain(|(reader, _), _| is_there(*reader));
        self.clashes.retain(|(reader, ..)| is_there(*reader));
    }
}

fn clash(file: &str, name: &ServerName, other: &str) -> String {
    let pid = std::process::id();
    let words = format!(
        "{name} in {file}: not used, because the process that runs this session's calls (process {pid}) has another server of the same name, {other}; \
         rename yours, use one configuration for both (LONGHAUL_CONFIG), or use another --session",
    );
    text::clean_line(&words).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, url: &str) -> ServerConfig {
        ServerConfig {
            url: Some(url.to_owned()),
            ..ServerConfig::new(ServerName::new(name))
        }
    }

    fn config(file: &str, servers: &[(&str, &str)]) -> ServerConfigs {
        ServerConfigs {
            file: Some(file.to_owned()),
            servers: servers
                .iter()
                .map(|(name, url)| server(name, url))
                .collect(),
            ..ServerConfigs::default()
        }
    }

    fn url(configs: &KnownConfigs, name: &str) -> Option<String> {
        configs.of_name(&ServerName::new(name))?.url.clone()
    }

    #[test]
    fn reload_replaces_own_servers_and_other_files_only_add() {
        let mut configs = KnownConfigs::of(
            &config("/a", &[("lab", "u1"), ("ci", "u2")]),
            KnownConfigs::default(),
        );
        let known =
            |server: &ServerConfig, _| (server.name.as_str() == "old").then(|| "u9".to_owned());
        let theirs = [("lab", "u3"), ("ci", "u2"), ("new", "u4"), ("old", "u5")];
        let change = configs.take(config("/b", &theirs), Some(7), known);
        assert_eq!(
            change.told,
            [(ServerName::new("new"), None)],
            "only what nobody had; the same is no clash"
        );
        let [by_file, by_url] = change.notices.as_slice() else {
            panic!("{change:?}");
        };
        assert!(by_file.starts_with("lab in /b: not used") && by_file.contains("from /a"));
        assert!(by_url.starts_with("old in /b: not used") && by_url.contains("at u9"));
        let lab = ServerName::new("lab");
        assert!(
            configs.why_not(Some(7), &lab).is_some() && configs.why_not(Some(8), &lab).is_none()
        );
        configs.forget_readers(|reader| reader == 8);
        assert!(configs.why_not(Some(7), &lab).is_none());

        // This file cannot remove what another added.
        let change = configs.take(config("/a", &[("lab", "u6")]), None, known);
        assert_eq!(change.gone, [ServerName::new("ci")]);
        assert_eq!(url(&configs, "lab").as_deref(), Some("u6"));
        assert_eq!(url(&configs, "new").as_deref(), Some("u4"));
        let ci = ServerName::new("ci");
        assert!(configs.of_name(&ci).is_none() && configs.to_connect(&ci).is_some());
        assert!(
            configs
                .why_not(Some(8), &ci)
                .unwrap()
                .contains("no longer in /a")
        );
        let change = configs.take(config("/b", &[]), Some(7), known);
        assert_eq!(change.gone, [ServerName::new("new")]);

        // Without a file there are no entries.
        let change = configs.take(ServerConfigs::default(), Some(7), known);
        assert!(change.gone.is_empty() && url(&configs, "lab").is_some());
    }
}
