//! The user's file of configuration: where it is, what it says, and which of its lines say nothing.
//!
//! Invariant: one wrong line costs what it says and nothing else; only a file that is no TOML at all is refused whole.

use std::{
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::servers;
use crate::domain::{ServerConfig, ServerName, text};

/// The environment's way to name another file.
pub(super) const PLACE: &str = "LONGHAUL_CONFIG";
/// A file of settings is small; whatever is larger is another file.
const BYTES: u64 = 1 << 20;
/// What can be said of a server.
const KEYS: &str = "url, protocol and progress_from_text";

/// What the file says.
#[derive(Debug, Default, PartialEq)]
pub struct Config {
    /// By name.
    pub servers: Vec<ServerConfig>,
    /// What was passed over, each with its file and line.
    pub remarks: Vec<String>,
}

impl Config {
    /// Reads the text of the file called `file`; `Err` is the line that is no TOML, from 1, and why.
    pub fn parse(file: &str, text: &str) -> Result<Self, (usize, String)> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            (line_of(text, at), error.message().to_owned())
        })?;
        let mut reading = Reading {
            file,
            text,
            servers: Vec::new(),
            remarks: Vec::new(),
        };
        for (key, value) in table.get_ref() {
            if key.get_ref() == "servers" {
                reading.servers(key.span().start, value);
            } else {
                reading.remark(
                    key.span().start,
                    &format!(
                        "{:?} says nothing here; there is [servers.NAME]",
                        key.get_ref()
                    ),
                );
            }
        }
        let Reading {
            servers,
            mut remarks,
            ..
        } = reading;
        remarks.sort_by_key(|(line, _)| *line);
        Ok(Self {
            servers,
            remarks: remarks.into_iter().map(|(_, words)| words).collect(),
        })
    }
}

/// Where the file is, whether it is there or not; `None` on a machine without a home.
pub(super) fn path() -> Option<PathBuf> {
    let named = std::env::var_os(PLACE).filter(|path| !path.is_empty());
    let usual = || Some(dirs::config_dir()?.join("longhaul").join("config.toml"));
    named.map(PathBuf::from).or_else(usual)
}

/// Reads the file; without one nothing is configured. Fails in words that say which line to mend.
pub(super) fn read(path: Option<&Path>) -> Result<Config, String> {
    let Some(path) = path else {
        return Ok(Config::default());
    };
    let file = path.display().to_string();
    let failed = |why: &dyn std::fmt::Display| {
        format!(
            "could not read the configuration {file}: {why}; mend it, or name another file with {PLACE}"
        )
    };
    let mut text = String::new();
    let opened = match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Config::default()),
        opened => opened.map_err(|error| failed(&error))?,
    };
    let read = opened.take(BYTES + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| failed(&error))?;
    if u64::try_from(bytes).is_ok_and(|bytes| bytes > BYTES) {
        return Err(failed(&"it is too large"));
    }
    Config::parse(&file, &text).map_err(|(line, why)| {
        format!(
            "could not read the configuration: {file}:{line}: {}; mend that line, or name another file with {PLACE}",
            text::clean_line(&why)
        )
    })
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.bytes().take(at);
    before.filter(|byte| *byte == b'\n').count() + 1
}

struct Reading<'t> {
    file: &'t str,
    text: &'t str,
    servers: Vec<ServerConfig>,
    /// With their lines.
    remarks: Vec<(usize, String)>,
}

impl Reading<'_> {
    fn remark(&mut self, at: usize, why: &str) {
        let line = line_of(self.text, at);
        let words = format!("{}:{line}: {}", self.file, text::clean_line(why));
        self.remarks.push((line, words));
    }

    fn servers(&mut self, at: usize, value: &Spanned<DeValue<'_>>) {
        let Some(servers) = value.get_ref().as_table() else {
            return self.remark(at, "servers are tables; write [servers.NAME]");
        };
        for (name, value) in servers {
            let at = name.span().start;
            let name = name.get_ref().as_ref();
            // `-s` takes such a word for a URL, and a name is shown in a column.
            if name.trim().is_empty() || name.contains("://") || name.contains(text::is_hostile) {
                self.remark(
                    at,
                    &format!("{name:?} is no name for a server; passed over"),
                );
            } else if let Some(table) = value.get_ref().as_table() {
                self.server(name, table);
            } else {
                self.remark(at, &format!("a server is a table; write [servers.{name}]"));
            }
        }
    }

    fn server(&mut self, name: &str, table: &DeTable<'_>) {
        let mut server = ServerConfig::new(ServerName::new(name));
        for (key, value) in table {
            let at = value.span().start;
            let value = value.get_ref();
            match key.get_ref().as_ref() {
                "url" => match value.as_str().map(servers::url_of) {
                    Some(Ok(url)) => server.url = Some(url.to_string()),
                    Some(Err(why)) => {
                        // Without its place the rest of it would be said of another server of that name.
                        return self.remark(at, &format!("{name} is passed over: {why}"));
                    }
                    None => {
                        let why = format!("{name} is passed over: a url is a text in quotes");
                        return self.remark(at, &why);
                    }
                },
                "protocol" => match value.as_str().map(str::parse) {
                    Some(Ok(choice)) => server.protocol = Some(choice),
                    Some(Err(why)) => {
                        self.remark(at, &format!("protocol is left as it was: {why}"));
                    }
                    None => self.remark(at, "protocol is left as it was: it is a text in quotes"),
                },
                "progress_from_text" => match value.as_bool() {
                    Some(switch) => server.progress_from_text = switch,
                    None => self.remark(at, "progress_from_text is true or false"),
                },
                other => {
                    let words = format!("{other:?} says nothing of a server; there are {KEYS}");
                    self.remark(key.span().start, &words);
                }
            }
        }
        self.servers.push(server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ProtocolChoice, ProtocolVersion};

    const FILE: &str = r#"
[servers.lab]
url = "http://127.0.0.1:8931/mcp"
protocol = "2025-11-25"
progress_from_text = true

[servers."build-box"]
protocol = "auto"
"#;

    #[test]
    fn a_file_says_what_it_says() {
        let config = Config::parse("f", FILE).unwrap();
        assert_eq!(config.remarks, [""; 0]);
        let [build_box, lab] = config.servers.as_slice() else {
            panic!("{config:?}");
        };
        assert_eq!(lab.url.as_deref(), Some("http://127.0.0.1:8931/mcp"));
        let version = ProtocolVersion::V20251125;
        assert_eq!(lab.protocol, Some(ProtocolChoice(Some(version))));
        assert!(lab.progress_from_text && !build_box.progress_from_text);
        assert_eq!(build_box.protocol, Some(ProtocolChoice(None)));
    }

    #[test]
    fn a_wrong_line_is_named_and_costs_only_what_it_says() {
        let text = r#"colour = "red"
[servers.lab]
url = "http://127.0.0.1:1/mcp"
protocl = "auto"
protocol = "2024-01-01"
progress_from_text = "yes"
[servers.bad]
url = "ftp://127.0.0.1"
progress_from_text = true
[servers.secret]
url = "http://me:word@127.0.0.1/"
[servers]
three = 3
"http://x" = {}
"#;
        let config = Config::parse("config.toml", text).unwrap();
        let names: Vec<&str> = config.servers.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["lab"]);
        let begins = [
            "config.toml:1: \"colour\"",
            "config.toml:4: \"protocl\"",
            "config.toml:5: protocol is left as it was: it is one of auto, 2025-03-26",
            "config.toml:6: progress_from_text is true or false",
            "config.toml:8: bad is passed over: it does not begin with http",
            "config.toml:11: secret is passed over: it holds a password",
            "config.toml:13: a server is a table",
            "config.toml:14: \"http://x\" is no name",
        ];
        assert_eq!(config.remarks.len(), begins.len(), "{:?}", config.remarks);
        for (remark, begin) in config.remarks.iter().zip(begins) {
            assert!(remark.starts_with(begin), "{remark} is not {begin}");
        }
    }

    #[test]
    fn a_file_that_is_no_toml_names_the_line() {
        for (text, line) in [("a = 1\nb", 2), ("[servers", 1), ("\n\nx = \"", 3)] {
            let (found, why) = Config::parse("f", text).unwrap_err();
            assert_eq!(found, line, "{why}");
            assert!(!why.is_empty());
        }
        let deep = format!("a = {}", "[".repeat(100_000));
        Config::parse("f", &deep).unwrap_err();
    }

    #[test]
    fn the_file_that_comes_along_says_nothing_and_can_be_switched_on() {
        let shipped = include_str!("../../assets/config.toml");
        assert_eq!(Config::parse("f", shipped).unwrap(), Config::default());
        let switched: Vec<&str> = shipped
            .lines()
            .map(|line| line.strip_prefix("#: ").unwrap_or(line))
            .collect();
        let config = Config::parse("f", &switched.join("\n")).unwrap();
        assert_eq!(config.remarks, [""; 0]);
        assert!(config.servers.iter().any(|it| it.progress_from_text));
        assert!(config.servers.iter().any(|it| it.protocol.is_some()));
    }
}
