//! Applies the configuration to the links.

use std::collections::BTreeSet;

use itertools::Itertools as _;
use secrecy::SecretString;

use crate::{
    domain::{
        ConfigureError, LinkRecord, MissingVariable, NoticeLevel, Program, ServerConfig,
        ServerConfigs, ServerName, SessionEvent, SessionRequest, SharedByteCount, Stamp, Template,
        Variables, server_url,
    },
    engine::{
        driver::state::{Driver, Linked},
        server_configs::{Change, Surroundings},
        snapshots::ReaderId,
    },
    link::{Input, Sent},
    transport::{ProcessGuard, Secrets, StdioOptions},
};

/// Why longhaul itself sends nothing to a server, or doesn't start it.
#[derive(Debug, thiserror::Error)]
pub(super) enum WithheldError {
    #[error("{0}")]
    NotApproved(String),
    #[error(
        "{0} is a stdio server, but its command is not in this configuration, or this process is read-only; to add it: `longhaul servers add {0} -- COMMAND`"
    )]
    NoProgram(ServerName),
    #[error(
        "the program of {name} was not started: {variable} is not set; set it in the shell from which you run longhaul"
    )]
    ProgramVariable { name: ServerName, variable: String },
    #[error(
        "the headers of {0} in the configuration would travel over plain http, unencrypted; nothing was sent. Use an https:// URL, or pass --insecure-http each time"
    )]
    Cleartext(ServerName),
    #[error(
        "nothing was sent to {name}: {variable} (for its {header} header) is not set; set it in the shell from which you run longhaul"
    )]
    HeaderVariable {
        name: ServerName,
        variable: String,
        header: String,
    },
}

/// What the configuration adds to a connection, and the environment variables that it may use.
pub(super) struct Configured<'c> {
    pub(super) server: Option<&'c ServerConfig>,
    pub(super) surroundings: &'c Surroundings,
    /// Whether credentials may be sent over plain http.
    pub(super) insecure_http: bool,
    pub(super) guard: &'c ProcessGuard,
}

impl Configured<'_> {
    /// How to start a program.
    pub(super) fn process(
        &self,
        program: &Program,
        unread: &SharedByteCount,
        secrets: &Secrets,
    ) -> Result<StdioOptions, MissingVariable> {
        let holds = |variable: &str| self.value(variable, secrets);
        let mut options = StdioOptions::new(program.command.clone());
        let args = program.expanded_args(holds)?;
        options.args = args.into_iter().map(SecretString::from).collect();
        let usual = |name: &&str| {
            let value = self.surroundings.variables.get(name)?;
            Some(((*name).to_owned(), SecretString::from(value)))
        };
        options.env = USUAL_ENVIRONMENT.iter().filter_map(usual).collect();
        for (name, value) in &program.env {
            let value = SecretString::from(value.expand(holds)?);
            secrets.add(name, &value);
            options.env.push((name.clone(), value));
        }
        let cwd = program.cwd.clone();
        options.cwd = cwd.or_else(|| self.surroundings.directory.clone());
        options.guard = self.guard.clone();
        options.buffered = unread.clone();
        options.secrets = secrets.clone();
        Ok(options)
    }

    /// The value of a variable, which is a secret.
    pub(super) fn value(&self, variable: &str, secrets: &Secrets) -> Option<String> {
        let value = self.surroundings.variables.get(variable)?;
        secrets.add_variable(variable, &SecretString::from(value));
        Some(value.to_owned())
    }

    /// The configured headers for the link's current address that are not `given` already.
    pub(super) fn wanted(
        &self,
        record: &LinkRecord,
        given: &[(String, String)],
    ) -> Vec<&(String, Template)> {
        // While unfinished tasks keep the link at an old address, headers for the new one are not used.
        let is_there = |url: &String| server_url::is_same_origin(url, &record.url);
        let Some(server) = self
            .server
            .filter(|it| it.url.as_ref().is_some_and(is_there))
        else {
            return Vec::new();
        };
        let is_given = |name: &str| given.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let headers = server.headers.iter();
        headers.filter(|(name, _)| !is_given(name)).collect()
    }

    /// The headers to send, by name: the given ones and the configured ones.
    pub(super) fn sent(&self, record: &LinkRecord, given: &[(String, String)]) -> Sent {
        let mut sent = Sent::default();
        for (name, _) in given {
            sent.names.push(name.clone());
        }
        // A request by name includes the configured headers.
        for (name, value) in self.wanted(record, &[]) {
            if !sent.names.iter().any(|it| it.eq_ignore_ascii_case(name)) {
                sent.names.push(name.clone());
            }
            sent.variables.extend(value.variables().map(str::to_owned));
        }
        sent
    }

    /// The configured headers that are not `given` already, with their secrets.
    pub(super) fn headers(
        &self,
        record: &LinkRecord,
        given: &[(String, String)],
        secrets: &Secrets,
    ) -> Result<Vec<(String, SecretString)>, WithheldError> {
        let wanted = self.wanted(record, given);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(why) = self.server.and_then(ServerConfig::why_withheld) {
            return Err(WithheldError::NotApproved(why));
        }
        let name = || record.name.clone();
        let is_open =
            url::Url::parse(&record.url).is_ok_and(|there| server_url::is_cleartext(&there));
        if is_open && !self.insecure_http {
            return Err(WithheldError::Cleartext(name()));
        }
        let holds = |variable: &str| self.value(variable, secrets);
        wanted
            .into_iter()
            .map(|(header, value)| match value.expand(holds) {
                Ok(value) => Ok((header.clone(), SecretString::from(value))),
                Err(MissingVariable(variable)) => Err(WithheldError::HeaderVariable {
                    name: name(),
                    variable,
                    header: header.clone(),
                }),
            })
            .collect()
    }
}

/// The environment variables that a child process gets; the configuration names the others.
pub const USUAL_ENVIRONMENT: [&str; 8] = [
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER",
];

impl Driver<'_> {
    /// Applies a configuration file. A server with an address is added; one that the file no longer
    /// defines keeps its link for running calls.
    pub(super) fn configure(&mut self, config: ServerConfigs, from: Option<ReaderId>, now: Stamp) {
        let snapshots = self.snapshots;
        self.configs.forget_readers(|reader| snapshots.has(reader));
        let file = config.file.as_deref();
        let older = file.map(|file| self.configs.variables_of(file).clone());
        let Self { configs, links, .. } = self;
        let elsewhere = |server: &ServerConfig, was_named: bool| {
            let mut links = links.iter().map(|linked| &linked.link);
            let link = links.find(|link| link.record().name == server.name)?;
            let here = &link.record().url;
            let is_there = |url: &String| server_url::is_same(url, here);
            // Its credentials would apply to running calls.
            let is_taken = was_named && link.has_unsettled();
            let is_it = server.url.as_ref().is_none_or(is_there) && !is_taken;
            (!is_it).then(|| server_url::redacted(here).into_owned())
        };
        let Change {
            told,
            gone,
            notices,
        } = configs.take(config, from, elsewhere);
        for text in notices {
            if let Some(reader) = from {
                self.snapshots.tell(
                    reader,
                    SessionEvent::notice(now.wall, NoticeLevel::Warning, text),
                );
            }
        }
        for name in gone {
            let file = self.configs.gone_from(&name).cloned();
            self.show_gone_from(&name, file, now);
        }
        for (name, old) in told {
            let Some(server) = self.configs.of_name(&name).cloned() else {
                continue;
            };
            let credentials = |server: &ServerConfig| {
                let (headers, program) = (server.headers.clone(), server.program.clone());
                (headers, program, server.is_withheld)
            };
            let was_traced = old.as_ref().is_some_and(|old| old.trace);
            self.show_gone_from(&name, None, now);
            // A keeper that has just started may have tried without the variables, which only its clients have.
            let has_new_variables = self.note_new_variables(&server, older.as_ref(), now);
            if old.is_none_or(|old| credentials(&old) != credentials(&server)) | has_new_variables
                && let Some(index) = self.index_of(&name)
            {
                if let Some(linked) = self.links.get_mut(index) {
                    linked.http = None;
                    linked.config_headers.clear();
                }
                // Tasks that waited for a credential may have it now.
                self.tell(index, SessionRequest::RetryNow, now);
            }
            // Without an address the entry applies once the server gets one.
            if let (None, Some(url)) = (self.index_of(&name), server.url) {
                self.add_link(LinkRecord::new(name.clone(), url), Vec::new(), now);
            }
            if server.trace != was_traced
                && let Some(index) = self.index_of(&name)
                && let Err(error) = self.record(index, server.trace)
            {
                self.notice(NoticeLevel::Warning, error.to_string(), now);
            }
            self.apply_config(&name, now);
        }
    }

    /// Reports the variables of a server that have another value than in `older`, because it is for all hosts. Returns
    /// whether any is new or has another value.
    fn note_new_variables(
        &self,
        server: &ServerConfig,
        older: Option<&Variables>,
        now: Stamp,
    ) -> bool {
        let before = |variable: &str| older.and_then(|older| older.get(variable));
        let values = &self.configs.surroundings(&server.name).variables;
        let (got, replaced): (BTreeSet<String>, BTreeSet<String>) = server
            .all_variables()
            .filter(|variable| before(variable) != values.get(variable))
            .partition(|variable| before(variable).is_none());
        if !replaced.is_empty() {
            let text = format!(
                "{} now uses a different value of {} for all calls: the one from the client that connected last",
                server.name,
                replaced.iter().join(" and ")
            );
            self.notice(NoticeLevel::Warning, text, now);
        }
        !got.is_empty() || !replaced.is_empty()
    }

    pub(super) fn show_gone_from(&mut self, name: &ServerName, file: Option<String>, now: Stamp) {
        let Some(index) = self.index_of(name) else {
            return;
        };
        if let Some(linked) = self.links.get_mut(index) {
            linked.link.gone_from(file);
            // This ends a program that is no longer needed.
            self.feed(index, Input::Timer, now);
        }
    }

    /// Applies what had to wait for the end of calls.
    pub(super) fn apply_waiting_config(&mut self, now: Stamp) {
        let is_free = |linked: &&Linked| match linked.link.waiting_config() {
            None => false,
            Some(ConfigureError::ProgramInUse(_)) => !linked.link.has_unsettled(),
            Some(_) => linked.link.may_move(),
        };
        let free = self.links.iter().filter(is_free);
        let names = free.map(|linked| linked.link.record().name.clone());
        for name in names.collect::<Vec<_>>() {
            self.apply_config(&name, now);
        }
    }

    pub(super) fn apply_config(&mut self, name: &ServerName, now: Stamp) {
        let (Some(config), Some(index)) = (self.configs.of_name(name), self.index_of(name)) else {
            return;
        };
        let Some(linked) = self.links.get_mut(index) else {
            return;
        };
        let old_url = linked.link.record().url.clone();
        let mut config = config.clone();
        // The same address, written differently, is not another address.
        config.url = config.url.filter(|url| !server_url::is_same(url, &old_url));
        let before = linked.link.waiting_config().cloned();
        linked.link.configure(&config);
        linked.moved_from(&old_url);
        linked.is_touched = true;
        let error = linked.link.waiting_config();
        if let Some(error) = error.filter(|_| error != before.as_ref()) {
            self.snapshots
                .notice(now.wall, NoticeLevel::Info, error.to_string());
        }
        // This ends a program that was started in another way and is not in use.
        self.feed(index, Input::Timer, now);
    }
}
