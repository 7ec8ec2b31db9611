//! `servers import`: the servers that other programs know, taken over with a line for each on what became of it.
//!
//! Invariants: nobody is contacted and nothing is started; a variable goes to a host only after a consent that names
//! both; what cannot be taken is told with its reason.

mod entry;
mod formats;
mod places;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use self::entry::{Editor, Entry, Taken};
use super::{
    Context,
    adopt::says_yes,
    args::Import,
    config::{self, Config, Edit, How, Written, digest},
    fail::{Fail, code},
    json as documents, quoted, servers,
};
use crate::{
    app::ServerFindings,
    domain::{Program, ServerConfigs, ServerName, Template, place, text},
    store::{Paths, Reader},
};

/// What became of an entry.
struct Told {
    file: String,
    /// As the file calls it.
    name: String,
    /// What it is called here, where it is.
    known_as: Option<String>,
    /// `taken`, `known` or `skipped`.
    outcome: &'static str,
    kind: Option<&'static str>,
    /// Its url or command, for people.
    place: Option<String>,
    /// Its variables, and whether they may go to it.
    variables: Vec<String>,
    is_agreed: bool,
    /// Why it was skipped, or what has to be known of it.
    words: Vec<String>,
    /// What it waits for, with the command that gives it.
    wants: Option<String>,
}

/// What another program's file says of a server, for those who attack its reader.
#[doc(hidden)]
#[derive(Debug)]
pub struct Imported {
    /// What it is called there.
    pub name: String,
    /// The texts that would be kept of it, its url or command first; or why it is passed over.
    pub outcome: Result<Vec<String>, String>,
}

impl Imported {
    /// Reads the text of a file called `path`; fails in words that go on after `FILE: `.
    pub fn read(path: &Path, text: &str) -> Result<Vec<Self>, String> {
        let kept = |taken: Taken| {
            let (mut kept, templates) = match taken.how {
                How::Http { url, headers, .. } => (vec![url], headers),
                How::Stdio(Program {
                    command, args, env, ..
                }) => (std::iter::once(command).chain(args).collect(), env),
            };
            kept.extend(templates.into_iter().map(|(_, value)| value.into()));
            kept
        };
        let shown = |entry: Entry| Self {
            name: entry.name,
            outcome: entry.outcome.map(kept),
        };
        let entries = formats::entries(path, text, &Editor::default())?;
        Ok(entries.into_iter().map(shown).collect())
    }
}

/// Whether the variables in the headers of the server of this name may go to this url.
type Agree<'a> = dyn FnMut(&str, &str, &[(String, Template)]) -> Result<bool, Fail> + 'a;

/// `servers import`.
pub(super) fn import(context: &mut Context<'_>, import: &Import) -> Result<u8, Fail> {
    context.may_act()?;
    let files = match &import.file {
        Some(file) => vec![file.clone()],
        None => places::known(),
    };
    if files.is_empty() {
        context.terminal.remark(&format!(
            "{}; `longhaul servers import FILE` reads any",
            ServerFindings::NONE
        ));
        return Ok(code::OK);
    }
    if let Some(file) = &import.file
        && let Err(why) = read(file)
    {
        let words = format!(
            "could not import {}: {why}; nothing was taken",
            file.display()
        );
        return Err(Fail::usage(text::clean_line(&words)));
    }
    let servers = Known::of(context.config()?, &context.paths);
    let mut agree = |name: &str, url: &str, headers: &[(String, Template)]| {
        if import.yes || !context.terminal.is_for_people() {
            return Ok(import.yes);
        }
        for line in servers::goes_where(url, headers) {
            let line = format!("{}: {line}", text::clean_line(name));
            context.terminal.say(&line);
        }
        says_yes(context, "agree? y/N")
    };
    let (edit, told) = plan(&files, servers, &mut agree)?;
    if told.iter().any(Told::is_taken) {
        edit.save()?;
        super::servers::tell_drivers(context);
    }
    say(context, &told)?;
    let is_refused = told.iter().all(|one| one.outcome == "skipped") && import.file.is_some();
    Ok(if is_refused { code::REFUSED } else { code::OK })
}

/// The same for the screen: what there is, or what became of it. Nothing is agreed to there.
pub(super) fn findings(paths: &Paths, takes: bool) -> Result<ServerFindings, String> {
    let found = || -> Result<ServerFindings, Fail> {
        let path = config::path();
        let config = config::read(path.as_deref()).map_err(Fail::usage)?;
        let (edit, mut told) = plan(
            &places::known(),
            Known::of(&config, paths),
            &mut |_, _, _| Ok(false),
        )?;
        let new = told.iter().filter(|one| one.is_taken()).count();
        if !takes {
            for one in told.iter_mut().filter(|one| one.is_taken()) {
                one.outcome = "new";
            }
        }
        let (mut server_configs, mut waiting) = (ServerConfigs::default(), Vec::new());
        if takes && new > 0 {
            edit.save()?;
            let config = config::read(path.as_deref()).map_err(Fail::usage)?;
            let ours = told.iter().filter(|one| one.is_taken());
            let is_taken = |name: &ServerName| {
                let mut known_as = ours.clone().filter_map(|one| one.known_as.as_deref());
                known_as.any(|known| known == name.as_str())
            };
            let withheld = config.servers.iter();
            let withheld = withheld.filter(|server| server.withheld.is_some());
            let withheld = withheld.map(|server| server.name.clone());
            waiting = withheld.filter(is_taken).collect();
            server_configs = config::server_configs(config.servers);
        }
        Ok(ServerFindings {
            // The screen asks for what the taken ones want at once.
            lines: lines(&told, !takes),
            new,
            server_configs,
            waiting,
        })
    };
    found().map_err(Fail::into_words)
}

fn read(file: &Path) -> Result<Vec<Entry>, String> {
    places::text_of(file).and_then(|text| formats::entries(file, &text, &places::editor_of(file)))
}

/// What becomes of every entry of the files, and the file of configuration with those that are taken.
fn plan(
    files: &[PathBuf],
    mut servers: Known,
    agree: &mut Agree<'_>,
) -> Result<(Edit, Vec<Told>), Fail> {
    let mut edit = Edit::open(config::path())?;
    let mut told = Vec::new();
    for file in files {
        let entries = match read(file) {
            Ok(entries) => entries,
            Err(why) => {
                told.push(Told::skipped(file, String::new(), why));
                continue;
            }
        };
        for entry in entries {
            told.push(match entry.outcome {
                Err(why) => Told::skipped(file, entry.name, why),
                Ok(taken) => take(&mut edit, &mut servers, agree, file, (entry.name, taken))?,
            });
        }
    }
    Ok((edit, told))
}

/// Puts one server into the file of configuration, unless it is there.
fn take(
    edit: &mut Edit,
    servers: &mut Known,
    agree: &mut Agree<'_>,
    file: &Path,
    (name, taken): (String, Taken),
) -> Result<Told, Fail> {
    let Taken { mut how, notes } = taken;
    let at = place_of(&how);
    let mut told = Told {
        outcome: "taken",
        place: Some(at.clone()),
        words: notes,
        ..Told::skipped(file, name, String::new())
    };
    told.describe(&how);
    let headers = match &how {
        How::Http { headers, .. } => headers.clone(),
        How::Stdio { .. } => Vec::new(),
    };
    let mut place = Place {
        name: told.name.trim().to_owned(),
        at,
        headers,
    };
    if let Some(known) = servers.at(&place) {
        told.outcome = "known";
        told.words = vec![format!("is in your configuration already, as {known}")];
        told.known_as = Some(known);
        return Ok(told);
    }
    let own = ServerName::free(told.name.trim(), |name| servers.has(name));
    let own = own.as_str().to_owned();
    if let How::Http {
        url,
        headers,
        consent,
        ..
    } = &mut how
        && !told.variables.is_empty()
    {
        told.is_agreed = agree(&own, url, headers)?;
        if told.is_agreed {
            *consent = Some(digest(url, headers));
            let lines = servers::goes_where(url, headers);
            told.words.extend(
                lines
                    .iter()
                    .map(|line| line.replacen("would go", "goes", 1)),
            );
        } else {
            told.wants = Some(format!(
                "needs consent for {}: longhaul servers consent {}",
                told.variables.join(", "),
                quoted(&own)
            ));
        }
    }
    if let How::Stdio(_) = how {
        told.wants = Some(format!(
            "stdio, not started: needs approval: longhaul servers approve {}",
            quoted(&own)
        ));
    }
    place.name.clone_from(&own);
    servers.places.push(place);
    edit.add(&Written {
        name: own.clone(),
        how,
        // It is read from any directory later.
        imported_from: std::path::absolute(file)
            .ok()
            .map(|file| file.display().to_string()),
    });
    told.known_as = Some(own);
    Ok(told)
}

/// How a server of the configuration is reached.
struct Place {
    name: String,
    /// Its URL or its command line.
    at: String,
    headers: Vec<(String, Template)>,
}

/// The servers that are there.
struct Known {
    /// Those of the configuration.
    places: Vec<Place>,
    /// Those that only a session knows. What the configuration says of such a name would be said of the server that
    /// its tasks mean, so a file of somebody else's must not choose it.
    of_sessions: Vec<String>,
}

impl Known {
    fn of(config: &Config, paths: &Paths) -> Self {
        let places = config.servers.iter().map(|server| Place {
            name: server.name.as_str().to_owned(),
            at: match &server.program {
                Some(program) => servers::command_line(program),
                None => server.url.clone().unwrap_or_default(),
            },
            headers: server.headers.clone(),
        });
        Self {
            places: places.collect(),
            of_sessions: names_in_sessions(paths),
        }
    }

    fn has(&self, name: &str) -> bool {
        self.places.iter().any(|known| known.name == name)
            || self.of_sessions.iter().any(|known| known == name)
    }

    /// The name of the server that is reached in this way. With other headers it may be another account there, unless
    /// it has the same name: then somebody mended what was taken over.
    fn at(&self, place: &Place) -> Option<String> {
        let is_it = |known: &&Place| {
            known.at == place.at && (known.headers == place.headers || known.name == place.name)
        };
        self.places
            .iter()
            .find(is_it)
            .map(|known| known.name.clone())
    }
}

/// The names of the servers that any session knows; one that cannot be read knows none.
fn names_in_sessions(paths: &Paths) -> Vec<String> {
    let sessions = paths.all().unwrap_or_default();
    let links = |paths: &Paths| Reader::open(paths).ok()?.links().ok();
    let all = sessions.iter().filter_map(links).flatten();
    all.map(|link| link.name.as_str().to_owned()).collect()
}

/// A url, or a command as a shell takes it.
fn place_of(how: &How) -> String {
    match how {
        How::Http { url, .. } => url.clone(),
        How::Stdio(program) => servers::command_line(program),
    }
}

impl Told {
    fn skipped(file: &Path, name: String, why: String) -> Self {
        Self {
            file: text::clean_line(&file.display().to_string()).into_owned(),
            name,
            known_as: None,
            outcome: "skipped",
            kind: None,
            place: None,
            variables: Vec::new(),
            is_agreed: false,
            words: vec![why],
            wants: None,
        }
    }

    fn describe(&mut self, how: &How) {
        let variables = |templates: &[(String, Template)]| {
            let mut names: Vec<String> = Vec::new();
            for (_, value) in templates {
                names.extend(value.variables().map(str::to_owned));
            }
            names.sort();
            names.dedup();
            names
        };
        (self.kind, self.variables) = match how {
            How::Http { headers, .. } => (Some("http"), variables(headers)),
            How::Stdio(program) => {
                let mut names = program.variables();
                names.sort();
                (Some("stdio"), names)
            }
        };
    }

    fn is_taken(&self) -> bool {
        self.outcome == "taken"
    }

    /// `taken lab: http://…; a note`.
    fn line(&self, has_wants: bool) -> String {
        let name = match &self.known_as {
            Some(known) if *known != self.name => format!("{} as {known}", self.name),
            _ => self.name.clone(),
        };
        let place = self.place.as_deref().map(place::shown);
        let place = place.into_iter().map(std::borrow::Cow::into_owned);
        let wants = self.wants.iter().filter(|_| has_wants);
        let parts: Vec<String> = place
            .chain(self.words.iter().chain(wants).cloned())
            .collect();
        let name = if name.is_empty() {
            String::new()
        } else {
            format!(" {name}")
        };
        text::clean_line(&format!("{}{name}: {}", self.outcome, parts.join("; "))).into_owned()
    }
}

/// A line for each entry under the name of its file, or one document.
fn say(context: &mut Context<'_>, told: &[Told]) -> Result<(), Fail> {
    if context.global.json {
        let document: Vec<Value> = told
            .iter()
            .map(|one| {
                json!({
                    "file": one.file,
                    "name": one.name,
                    "known_as": one.known_as,
                    "outcome": one.outcome,
                    "kind": one.kind,
                    "place": one.place.as_deref().map(place::shown),
                    "variables": one.variables,
                    "consent": one.is_agreed,
                    "words": one.words.iter().chain(&one.wants).collect::<Vec<_>>(),
                })
            })
            .collect();
        let document = documents::pretty(&Value::Array(document));
        return context.terminal.document(&document);
    }
    for line in lines(told, true) {
        context.terminal.line(&line)?;
    }
    Ok(())
}

/// A line for each entry under the name of its file.
fn lines(told: &[Told], has_wants: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut file = None;
    for one in told {
        if file != Some(&one.file) {
            lines.push(format!("{}:", one.file));
            file = Some(&one.file);
        }
        lines.push(format!("  {}", one.line(has_wants)));
    }
    lines
}
