//! A host's file: its servers, and the text that takes the place of one.

use std::{
    fs::{self, Permissions},
    path::PathBuf,
    sync::LazyLock,
};

use regex::{Captures, Regex};
use rustix::fs::{Access, access};

use super::{
    backup::Replaced,
    entry::{ProxyCommand, WrapError, WrappableEntry},
    hosts::{ANY, Format, HostFile, files_of},
    json, toml, yaml,
};
use crate::store::write_atomically;

/// Shorter values, such as `1`, would hide half of the change.
const SHORTEST_MASKED: usize = 4;

/// A text in double quotes.
static QUOTED: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#""(?:[^"\\]|\\.)*""#).ok());

/// A host's file as it was read.
#[derive(Debug)]
pub(crate) struct WrapFile {
    pub(crate) file: HostFile,
    /// The file itself, where the host's one is a link.
    pub(crate) target: PathBuf,
    pub(crate) text: String,
    read: String,
    /// What [`Self::changes`] masks.
    secrets: Vec<String>,
}

/// The servers in all files that can be seen from the current directory, of all projects in them; `None` if a file can't be
/// read.
pub(crate) fn seen_entries() -> Option<Vec<WrappableEntry>> {
    let mut seen = Vec::new();
    for mut file in files_of(None) {
        file.project = file.project.map(|_| ANY.to_owned());
        seen.extend(WrapFile::read(file).ok()?.entries().ok()?);
    }
    Some(seen)
}

impl WrapFile {
    /// Reads a file.
    pub(crate) fn read(file: HostFile) -> Result<Self, WrapError> {
        let target = fs::canonicalize(&file.path)?;
        let text = fs::read_to_string(&target)?;
        Ok(Self {
            file,
            target,
            read: text.clone(),
            secrets: Vec::new(),
            text,
        })
    }

    /// Its servers.
    pub(crate) fn entries(&self) -> Result<Vec<WrappableEntry>, WrapError> {
        self.entries_in(&self.text)
    }

    fn entries_in(&self, text: &str) -> Result<Vec<WrappableEntry>, WrapError> {
        match self.file.format {
            Format::Json { servers, .. } => json::entries(text, &self.file.keys(servers)),
            Format::Toml => toml::entries(text),
            Format::Yaml => yaml::entries(text),
        }
    }

    /// The text with the original entry of a server; `None` if the wrapped entry was changed. Only its values count,
    /// because hosts write their files again, with other spaces.
    pub(crate) fn restored(&self, replaced: &Replaced) -> Option<String> {
        let entry_in = |text: &str| {
            let mut entries = self.entries_in(text).ok()?.into_iter();
            entries.find(|entry| entry.name == replaced.server && entry.unfit.is_none())
        };
        if replaced.project != self.file.project {
            return None;
        }
        let entry = entry_in(&self.text)?;
        let with = |part: &str| {
            let mut text = self.text.clone();
            text.replace_range(entry.range.clone(), part);
            text
        };
        let wrapped = entry_in(&with(&replaced.wrapped))?;
        (wrapped.fields == entry.fields).then(|| with(&replaced.original))
    }

    /// Puts the proxy in place of a server. Returns what was replaced, and by what.
    pub(crate) fn wrap(
        &mut self,
        entry: &WrappableEntry,
        command: &ProxyCommand,
    ) -> Result<(String, String), WrapError> {
        let original = self.text.get(entry.range.clone());
        let original = original.ok_or(WrapError::Changed)?.to_owned();
        let wrapped = match self.file.format {
            Format::Json { shape, .. } => json::wrapped(&original, shape, command)?,
            Format::Toml => toml::wrapped(&original, &entry.name, command)?,
            Format::Yaml => yaml::wrapped(&original, &entry.name, command),
        };
        let mut text = self.text.clone();
        text.replace_range(entry.range.clone(), &wrapped);
        if !self.differs_only_in(entry, &text) {
            return Err(WrapError::Form(
                "longhaul can't edit this entry safely, so edit it by hand",
            ));
        }
        self.text = text;
        let secrets = command.env.iter();
        self.secrets
            .extend(secrets.map(|(_, secret)| secret.clone()));
        Ok((original, wrapped))
    }

    /// Whether a changed text still has all servers, with the proxy in place of this one only.
    fn differs_only_in(&self, entry: &WrappableEntry, text: &str) -> bool {
        let (Ok(before), Ok(after)) = (self.entries(), self.entries_in(text)) else {
            return false;
        };
        let is_right = |(old, new): (&WrappableEntry, &WrappableEntry)| {
            let is_proxy = new.name == entry.name && new.is_wrapped();
            old.name == new.name && (old.fields == new.fields || is_proxy)
        };
        before.len() == after.len() && before.iter().zip(&after).all(is_right)
    }

    /// Its mode, if it can be written back: nobody may have changed it since it was read.
    pub(crate) fn check(&self) -> Result<Permissions, WrapError> {
        if fs::read_to_string(&self.target)? != self.read {
            return Err(WrapError::Changed);
        }
        let mode = fs::metadata(&self.target)?.permissions();
        let directory = self.target.parent().unwrap_or(&self.target);
        if mode.readonly() || access(directory, Access::WRITE_OK).is_err() {
            return Err(WrapError::Form("it is read-only; make it writable first"));
        }
        Ok(mode)
    }

    /// Writes it back, unless another program has changed it since it was read. Mode and links stay.
    pub(crate) fn save(&self) -> Result<(), WrapError> {
        let mode = self.check()?;
        write_atomically(&self.target, self.text.as_bytes())?;
        Ok(fs::set_permissions(&self.target, mode)?)
    }

    /// The lines of an entry before (`-`) and after (`+`) it was wrapped, with its secrets masked. What else the file has
    /// is not shown: it may hold secrets that longhaul does not know.
    pub(crate) fn change(&self, replaced: &Replaced) -> Vec<String> {
        let mut lines = vec![format!("  {}:", replaced.server)];
        for (text, sign) in [(&replaced.original, '-'), (&replaced.wrapped, '+')] {
            let part = text.lines().map(|line| self.masked(line));
            lines.extend(part.map(|line| format!("{sign} {line}")));
        }
        lines
    }

    fn masked(&self, line: &str) -> String {
        let secrets = || {
            self.secrets
                .iter()
                .filter(|secret| secret.len() >= SHORTEST_MASKED)
        };
        let without = |text: &str| {
            let text = text.to_owned();
            secrets().fold(text, |text, secret| text.replace(secret, "***"))
        };
        let line = without(line);
        let Some(quoted) = &*QUOTED else { return line };
        // A text has several forms, for each letter can be escaped; TOML and YAML have escapes that JSON doesn't know.
        let line = quoted.replace_all(&line, |quoted: &Captures<'_>| {
            let original = quoted.get(0).map_or("", |it| it.as_str());
            match serde_json::from_str::<String>(original) {
                Ok(text) if without(&text) != text => serde_json::json!(without(&text)).to_string(),
                Err(_) if original.contains('\\') => "\"***\"".to_owned(),
                _ => original.to_owned(),
            }
        });
        line.into_owned()
    }
}
