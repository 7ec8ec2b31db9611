//! Imports the servers of other programs, and reports the outcome of each.
//!
//! Invariants: no server is contacted or started; a variable goes to a host only after an approval that names both; every
//! skipped entry is reported with its reason.

mod entry;
pub(super) mod formats;
pub(crate) mod locations;
mod reason;
mod server;

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use itertools::Itertools as _;
use serde_json::Value;

pub(crate) use self::server::PassedVariables;
use self::{
    entry::{Editor, plain_name},
    reason::{FileError, SkipReason},
    server::{ImportEntry, ImportableServer},
};
use super::{ConfigEdit, ConfigError, Endpoint, NewServer, approval, digest};
use crate::{
    app::ServerFindings,
    config::{
        file::{path, server_configs},
        settings::Config,
        wrap::HostFile,
    },
    domain::{ServerConfigs, ServerName, Template, server_url, text},
    store::{Paths, Reader},
};

/// What was done with an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum ImportOutcome {
    Imported,
    /// Would be imported; shown before the user agrees.
    New,
    /// Already in the configuration.
    Known,
    #[default]
    Skipped,
}

impl ImportOutcome {
    fn label(self) -> &'static str {
        self.into()
    }

    /// The value in JSON output.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Imported => "taken",
            other => other.label(),
        }
    }
}

/// An entry and what was done with it.
#[derive(Default)]
pub(crate) struct EntryReport {
    pub(crate) file: String,
    /// As in the file.
    pub(crate) name: String,
    /// Its name in the configuration, if it is there.
    pub(crate) known_as: Option<String>,
    pub(crate) outcome: ImportOutcome,
    pub(crate) kind: Option<&'static str>,
    /// Its URL or command line, for messages.
    pub(crate) location: Option<String>,
    pub(crate) variables: Vec<String>,
    /// Whether the variables may be sent to the server.
    pub(crate) is_approved: bool,
    /// Why it was skipped, or what the user should know about it.
    pub(crate) notes: Vec<String>,
    /// The approval that it needs, with the command that gives it.
    pub(crate) needs: Option<String>,
}

/// The name of a server, and the texts that would be kept of it or why it is skipped.
type Imported = (String, Result<Vec<String>, SkipReason>);

/// The servers in the text of another program's file, for the fuzz tests. Errors follow `FILE: ` in a message.
#[doc(hidden)]
pub fn imported(path: &Path, text: &str) -> Result<Vec<Imported>, impl std::fmt::Display + use<>> {
    let kept = |ImportableServer { endpoint, .. }| {
        let mut kept = match &endpoint {
            Endpoint::Http { url, .. } => vec![url.clone()],
            Endpoint::Stdio(program) => std::iter::once(&program.command)
                .chain(&program.args)
                .cloned()
                .collect(),
        };
        let values = endpoint.values().iter();
        kept.extend(values.map(|(_, value)| value.as_str().to_owned()));
        kept
    };
    let imported = |entry: ImportEntry| (entry.name, entry.outcome.map(kept));
    let entries = formats::entries(path, text, &Editor::default())?;
    Ok::<_, FileError>(entries.into_iter().map(imported).collect())
}

/// Asks whether the variables in the headers of a server may be sent; takes its name, URL and headers.
pub(crate) type AskApproval<'a, E> =
    dyn FnMut(&str, &str, &[(String, Template)]) -> Result<bool, E> + 'a;

/// For the screen: lists what would be imported, or with `does_import` imports it. Gives no approval.
pub(crate) fn findings(paths: &Paths, does_import: bool) -> Result<ServerFindings, ConfigError> {
    let path = path();
    let config = super::read(path.as_deref())?;
    let (edit, mut reports) = plan(
        &locations::existing(),
        ExistingServers::of(&config, paths),
        &mut |_, _, _| Ok::<_, ConfigError>(false),
    )?;
    let new = reports.iter().filter(|report| report.is_imported()).count();
    if !does_import {
        for report in reports.iter_mut().filter(|report| report.is_imported()) {
            report.outcome = ImportOutcome::New;
        }
    }
    let (mut imported_configs, mut waiting) = (ServerConfigs::default(), Vec::new());
    if does_import && new > 0 {
        edit.save()?;
        let config = super::read(path.as_deref())?;
        let imported = reports.iter().filter(|report| report.is_imported());
        let is_imported = |name: &ServerName| {
            let mut names = imported.clone().filter_map(|it| it.known_as.as_deref());
            names.any(|imported| imported == name.as_str())
        };
        let withheld = config.servers.iter();
        let withheld = withheld.filter(|server| server.is_withheld);
        let withheld = withheld.map(|server| server.name.clone());
        waiting = withheld.filter(is_imported).collect();
        imported_configs = server_configs(config.servers);
    }
    Ok(ServerFindings {
        // After the import the screen asks for approval itself.
        lines: lines(&reports, !does_import),
        new,
        server_configs: imported_configs,
        waiting,
    })
}

pub(crate) fn read(file: &Path) -> Result<Vec<ImportEntry>, FileError> {
    let text = locations::read_text(file)?;
    formats::entries(file, &text, &locations::editor_for(file))
}

/// Adds the servers of the files to the configuration, without saving it, and reports on every entry.
pub(crate) fn plan<E: From<ConfigError>>(
    files: &[PathBuf],
    mut servers: ExistingServers,
    ask_approval: &mut AskApproval<'_, E>,
) -> Result<(ConfigEdit, Vec<EntryReport>), E> {
    let mut edit = ConfigEdit::open(path())?;
    let mut reports = Vec::new();
    for file in files {
        let entries = match read(file) {
            Ok(entries) => entries,
            Err(why) => {
                reports.push(EntryReport::skipped(file, String::new(), &why));
                continue;
            }
        };
        for entry in entries {
            reports.push(match entry.outcome {
                Err(why) => EntryReport::skipped(file, entry.name, &why),
                Ok(mut server) => {
                    let unset = server.unset.iter().map(|it| it.note.clone());
                    server.notes.extend(unset);
                    let known = servers.known(plain_name(&entry.name), &server.endpoint);
                    let server = (entry.name, server);
                    add(&mut edit, &mut servers, ask_approval, file, server, known)?
                }
            });
        }
    }
    Ok((edit, reports))
}

/// As [`plan`], for one entry of a file, of this project if the file has servers of several, and without approval. Its
/// secrets get variables that no other server has. `is_taken` tells whether a known server gets, or may get, another value
/// of a variable. Also returns the variables that the file has to pass on, with their values.
pub(crate) fn import_entry(
    edit: &mut ConfigEdit,
    servers: &mut ExistingServers,
    file: &HostFile,
    (name, fields): (&str, &Value),
    is_taken: impl Fn(&str, &PassedVariables) -> bool,
) -> Result<(EntryReport, PassedVariables), ConfigError> {
    let path = &file.path;
    let project_of = |path: &Path| locations::editor_for(path).directory;
    let project = project_of(path);
    let mut editor = locations::editor_for(path);
    editor.directory = file.project.clone().or(editor.directory);
    editor.keeps_values = true;
    let entry = formats::entry(path, name, fields, &editor);
    let server = match entry.outcome {
        Ok(server) => server,
        Err(why) => return Ok((EntryReport::skipped(path, entry.name, &why), Vec::new())),
    };
    let name = plain_name(&entry.name).to_owned();
    let mut same_place = servers.configured.iter().filter_map(|known| {
        let (endpoint, passed) = server.with_own_variables(&known.name);
        let is_edited = known.name == name;
        // A literal value in the configuration equals the same value in the file.
        let is_passed = |known: &Template, it: &Template| {
            passed.iter().any(|(name, value)| {
                let is = |template: &Template, text: &str| {
                    Template::parse(text).is_ok_and(|parsed| parsed == *template)
                };
                is(it, &format!("${{{name}}}")) && is(known, value)
            })
        };
        let is_known = |key: &str, it: &Template| {
            let known = known.endpoint.value(key);
            known.is_some_and(|known| known == it || is_passed(known, it))
        };
        let fits = is_same_place(&known.endpoint, &endpoint, is_edited)
            && endpoint.values().iter().all(|(key, it)| is_known(key, it))
            && (is_edited || endpoint.values().len() == known.endpoint.values().len())
            && !known.name.starts_with('-');
        let mut used = passed.clone();
        let variables = known.endpoint.variables();
        used.retain(|(name, _)| variables.contains(name));
        // Otherwise it could have other values from a file that can't be seen from here: of another project.
        let has_file_here = || {
            let file = known.imported_from.as_deref();
            file.is_some_and(|file| project_of(Path::new(file)) == project)
        };
        let is_free = used.is_empty() || has_file_here() && !is_taken(&known.name, &used);
        (fits && is_free).then(|| (known.name.clone(), endpoint, passed))
    });
    let known = same_place.next();
    drop(same_place);
    let (known, endpoint, passed) = if let Some((name, endpoint, passed)) = known {
        (Some(name), endpoint, passed)
    } else {
        let own = ServerName::free(&name, |name| servers.has(name) || edit.has_server(name));
        let (endpoint, passed) = server.with_own_variables(own.as_str());
        (None, endpoint, passed)
    };
    let server = (entry.name, ImportableServer { endpoint, ..server });
    let no_approval = &mut |_: &str, _: &str, _: &[(String, Template)]| Ok::<_, ConfigError>(false);
    let report = add(edit, servers, no_approval, path, server, known)?;
    Ok((report, passed))
}

/// Adds one server to the configuration, unless it is `known` there.
fn add<E>(
    edit: &mut ConfigEdit,
    servers: &mut ExistingServers,
    ask_approval: &mut AskApproval<'_, E>,
    file: &Path,
    (name, server): (String, ImportableServer),
    known: Option<String>,
) -> Result<EntryReport, E> {
    let mut report = EntryReport {
        outcome: ImportOutcome::Imported,
        notes: server.notes,
        ..EntryReport::skipped(file, name, &"")
    };
    report.describe(&server.endpoint);
    if let Some(name) = known {
        report.outcome = ImportOutcome::Known;
        report.notes = vec![format!("already configured as {name}")];
        let known = servers.configured.iter().find(|it| it.name == name);
        if known.is_some_and(|it| it.endpoint.values() != server.endpoint.values()) {
            let note =
                "longhaul keeps its own headers and variables and ignores those in this file";
            report.notes.push(note.to_owned());
        }
        report.known_as = Some(name);
        return Ok(report);
    }
    let mut new = NewServer {
        name: plain_name(&report.name).to_owned(),
        endpoint: server.endpoint,
        // Absolute, because the configuration is read from any directory.
        imported_from: std::path::absolute(file)
            .ok()
            .map(|file| file.display().to_string()),
        approved: None,
    };
    let own = ServerName::free(&new.name, |name| servers.has(name) || edit.has_server(name));
    let own = own.as_str().to_owned();
    if let Endpoint::Http { url, headers, .. } = &new.endpoint
        && !report.variables.is_empty()
    {
        report.is_approved = ask_approval(&own, url, headers)?;
        if report.is_approved {
            new.approved = Some(digest(url, headers));
            let lines = approval::header_destinations(url, headers, "will be sent");
            report.notes.extend(lines);
        } else {
            report.needs = Some(format!(
                "run `longhaul servers approve {}` to let {own} receive {}",
                text::shell_word(&own),
                report.variables.join(" and ")
            ));
        }
    }
    if let Endpoint::Stdio(_) = new.endpoint {
        report.needs = Some(format!(
            "run `longhaul servers approve {}` to let longhaul start it",
            text::shell_word(&own)
        ));
    }
    new.name.clone_from(&own);
    edit.add(&new);
    servers.configured.push(new);
    report.known_as = Some(own);
    Ok(report)
}

/// Whether both lead to the same place. A program in another directory is another program; approval may have added the
/// directory.
fn is_same_place(known: &Endpoint, new: &Endpoint, is_edited: bool) -> bool {
    match (known, new) {
        (Endpoint::Http { url, .. }, Endpoint::Http { url: other, .. }) => url == other,
        (Endpoint::Stdio(program), Endpoint::Stdio(other)) => {
            program.command == other.command
                && program.args == other.args
                && (program.cwd == other.cwd || is_edited && other.cwd.is_none())
        }
        _ => false,
    }
}

/// The servers in the configuration and in all sessions.
pub(crate) struct ExistingServers {
    configured: Vec<NewServer>,
    /// Names in any session. A server in the configuration applies to the tasks of a session server with the same name, so
    /// an imported file must not choose such a name.
    session_names: Vec<String>,
}

impl ExistingServers {
    pub(crate) fn of(config: &Config, paths: &Paths) -> Self {
        let configured = config.servers.iter().map(|server| NewServer {
            imported_from: config.imported_from.get(&server.name).cloned(),
            approved: None,
            name: server.name.as_str().to_owned(),
            endpoint: match &server.program {
                Some(program) => Endpoint::Stdio(program.clone()),
                None => Endpoint::Http {
                    url: server.url.clone().unwrap_or_default(),
                    headers: server.headers.clone(),
                    protocol: None,
                },
            },
        });
        Self {
            configured: configured.collect(),
            session_names: names_in_sessions(paths),
        }
    }

    /// The name of the configured server that this is. Other headers may mean another account, and other variables another
    /// program, unless the name is the same: then the user has edited an imported server.
    fn known(&self, name: &str, endpoint: &Endpoint) -> Option<String> {
        let is_same = |known: &&NewServer| {
            let is_edited = known.name == name;
            is_same_place(&known.endpoint, endpoint, is_edited)
                && (is_edited || known.endpoint.values() == endpoint.values())
        };
        let known = self.configured.iter().find(is_same);
        known.map(|known| known.name.clone())
    }

    fn has(&self, name: &str) -> bool {
        self.configured.iter().any(|known| known.name == name)
            || self.session_names.iter().any(|known| known == name)
    }
}

/// The names of the servers in all sessions that can be read.
fn names_in_sessions(paths: &Paths) -> Vec<String> {
    let sessions = paths.all().unwrap_or_default();
    let links = |paths: &Paths| Reader::open(paths).ok()?.links().ok();
    let all = sessions.iter().filter_map(links).flatten();
    all.map(|link| link.name.as_str().to_owned()).collect()
}

impl EntryReport {
    fn skipped(file: &Path, name: String, why: &dyn std::fmt::Display) -> Self {
        Self {
            file: text::clean_line(&file.display().to_string()).into_owned(),
            name,
            notes: vec![why.to_string()],
            ..Self::default()
        }
    }

    /// Sets kind, location and variables.
    fn describe(&mut self, endpoint: &Endpoint) {
        let (kind, location) = match endpoint {
            Endpoint::Http { url, .. } => ("http", url.clone()),
            Endpoint::Stdio(program) => ("stdio", approval::command_line(program)),
        };
        (self.kind, self.location) = (Some(kind), Some(location));
        self.variables = endpoint.variables().into_iter().sorted().dedup().collect();
    }

    pub(crate) fn is_imported(&self) -> bool {
        self.outcome == ImportOutcome::Imported
    }

    /// E.g. `imported lab: http://127.0.0.1:8931/mcp; a note`.
    fn line(&self, shows_needs: bool) -> String {
        let name = match &self.known_as {
            Some(known) if *known != self.name && self.outcome != ImportOutcome::Known => {
                format!("{} as {known}", self.name)
            }
            _ => self.name.clone(),
        };
        let location = self.location.as_deref().map(server_url::redacted);
        let needs = self.needs.iter().filter(|_| shows_needs);
        let notes = self.notes.iter().chain(needs).map(Cow::from);
        let parts = location.into_iter().chain(notes).join("; ");
        let name = if name.is_empty() {
            String::new()
        } else {
            format!(" {name}")
        };
        let outcome = self.outcome.label();
        text::clean_line(&format!("{outcome}{name}: {parts}")).into_owned()
    }
}

/// A line for each entry below the path of its file.
pub(crate) fn lines(reports: &[EntryReport], shows_needs: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut file = None;
    for report in reports {
        if file != Some(&report.file) {
            lines.push(format!("{}:", report.file));
            file = Some(&report.file);
        }
        lines.push(format!("  {}", report.line(shows_needs)));
    }
    lines
}
