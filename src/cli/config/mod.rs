//! The user's file of configuration: where it is, what it says, and which of its lines say nothing.
//!
//! Invariant: one wrong line costs what it says and nothing else; only a file that is no TOML at all is refused whole.

mod consent;
mod defaults;
mod edit;
mod keys;
mod notify;
mod secret;
mod server;
mod views;

use std::{
    io::{ErrorKind, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

pub(super) use self::{
    consent::{digest, digest_of_program},
    defaults::Defaults,
    edit::{Edit, How, Written},
    secret::{is_secret, is_secret_name, looks_like_token, without_tokens},
    server::{header as template_of, is_name, url_of, with_scheme},
};
use crate::domain::{
    CheckpointConvention, DefaultLimits, Limits, NotifyConfig, NotifyLevel, ServerConfig,
    ServerConfigs, ServerName, ThemeName, text,
};
use crate::{
    app::{Keymap, View},
    cli::{fail::Fail, json},
    engine::Hook,
    shell::real::FileMark,
};

/// The environment's way to name another file.
pub(super) const PLACE: &str = "LONGHAUL_CONFIG";
/// A file of settings is small; whatever is larger is another file.
pub(super) const BYTES: u64 = 1 << 20;
/// What the file can speak of.
const TABLES: &str = "[servers.NAME], [defaults], [keys], [notify], [theme] and [views.NAME]";

/// What the file says.
#[derive(Debug, Default, PartialEq)]
pub struct Config {
    /// The servers by name, those that are processes of ours among them.
    pub servers: Vec<ServerConfig>,
    /// What holds where the command line says nothing.
    pub(super) defaults: Defaults,
    /// The colours that the user prefers.
    pub(super) theme: Option<ThemeName>,
    /// How the list can be shown, by name.
    pub(super) views: Vec<View>,
    /// What each key of the screen does.
    pub(super) keys: Keymap,
    /// What is told beside the screen.
    pub(super) notify: NotifyConfig,
    /// The command that is run for what is worth telling, by `sh`, and on which occasions.
    pub(super) hook: Option<String>,
    pub(super) hook_on: NotifyLevel,
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
            config: Self::default(),
            remarks: Vec::new(),
        };
        for (key, value) in table.get_ref() {
            let at = key.span().start;
            match key.get_ref().as_ref() {
                "servers" => reading.servers(at, value),
                "defaults" => reading.defaults(at, value),
                "theme" => reading.theme(at, value),
                "views" => reading.views(at, value),
                "keys" => reading.keys(at, value),
                "notify" => reading.notify(at, value),
                other => reading.remark(
                    at,
                    &format!("unknown table or key {other:?}; expected one of: {TABLES}"),
                ),
            }
        }
        let Reading {
            mut config,
            mut remarks,
            ..
        } = reading;
        // Of several choices the nearest counts: a server's own, then the one for all.
        for server in &mut config.servers {
            server.protocol = server.protocol.or(config.defaults.protocol);
        }
        remarks.sort_by_key(|(line, _)| *line);
        config.remarks = remarks.into_iter().map(|(_, words)| words).collect();
        Ok(config)
    }

    /// What the checkpoint tools of a server are called.
    pub(super) fn convention(&self, server: &ServerName) -> CheckpointConvention {
        let own = self.servers.iter().find(|it| it.name == *server);
        own.map(|it| it.checkpoint.clone()).unwrap_or_default()
    }

    /// The view of this name.
    pub(super) fn view(&self, name: &str) -> Result<&View, Fail> {
        let found = self.views.iter().find(|view| view.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.views.iter().map(|view| view.name.as_str()).collect();
            let there = if names.is_empty() {
                "it has none; [views.NAME] makes one".to_owned()
            } else {
                format!("it has {}", names.join(", "))
            };
            let name = text::clean_line(name);
            Fail::usage(format!("the configuration has no view {name}; {there}"))
        })
    }

    /// What to run when something is worth telling.
    pub(super) fn hook(&self) -> Option<Hook> {
        Some(Hook {
            command: self.hook.clone()?,
            on: self.hook_on,
            encode: json::told,
        })
    }

    /// The limits that calls get where nobody says otherwise.
    pub(super) fn usual_limits(&self) -> DefaultLimits {
        let own = |server: &ServerConfig| (server.name.clone(), server.limits);
        DefaultLimits {
            global: self.defaults.limits,
            per_server: self
                .servers
                .iter()
                .map(own)
                .filter(|(_, limits)| *limits != Limits::default())
                .collect(),
        }
    }
}

/// Where the file is, whether it is there or not; `None` on a machine without a home.
pub(super) fn path() -> Option<PathBuf> {
    let named = std::env::var_os(PLACE).filter(|path| !path.is_empty());
    let usual = || Some(dirs::config_dir()?.join("longhaul").join("config.toml"));
    named.map(PathBuf::from).or_else(usual)
}

/// Says that the file is not there that the environment names; any other may be missing.
pub(super) fn missing() -> Option<String> {
    let path = path().filter(|_| std::env::var_os(PLACE).is_some_and(|it| !it.is_empty()))?;
    let found = std::fs::symlink_metadata(&path);
    let is_missing = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
    is_missing.then(|| {
        format!(
            "{PLACE} names a file that does not exist: {}; correct or unset the variable, or create the file",
            path.display()
        )
    })
}

/// What the file says of servers; a file that is not there says that there are none.
pub(super) fn server_configs(servers: Vec<ServerConfig>) -> ServerConfigs {
    // By way of its directory where it is not there yet, as it will be called once it is.
    let whole = |path: &Path| {
        let of_dir = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        path.canonicalize().ok().or_else(of_dir)
    };
    let file = path().map(|path| std::path::absolute(&path).unwrap_or(path));
    let file = file.map(|path| whole(&path).unwrap_or(path));
    ServerConfigs {
        file: file.map(|file| file.to_string_lossy().into_owned()),
        servers,
    }
}

/// The same, read now; `None` where it cannot be read.
pub(super) fn read_roster() -> Option<ServerConfigs> {
    let config = read(path().as_deref()).ok()?;
    Some(server_configs(config.servers))
}

/// What tells the file from what it was before.
pub(super) fn mark() -> FileMark {
    path().map_or_else(FileMark::default, |path| FileMark::of(&path))
}

/// Reads the file; without one nothing is configured. Fails in words that say which line to mend.
pub(super) fn read(path: Option<&Path>) -> Result<Config, String> {
    let Some(path) = path else {
        return Ok(Config::default());
    };
    let text = load(path)?;
    parse(path, &text)
}

/// The text of the file, empty without one.
pub(super) fn load(path: &Path) -> Result<String, String> {
    let file = path.display().to_string();
    let failed = |why: &dyn std::fmt::Display| {
        format!(
            "could not read the configuration {file}: {why}; mend it, or name another file with {PLACE}"
        )
    };
    let mut text = String::new();
    let opened = match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(text),
        opened => opened.map_err(|error| failed(&error))?,
    };
    let read = opened.take(BYTES + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| failed(&error))?;
    if u64::try_from(bytes).is_ok_and(|bytes| bytes > BYTES) {
        return Err(failed(&"it is too large"));
    }
    Ok(text)
}

/// Writes a view into the file, and says where.
pub(super) fn save_view(view: &View) -> Result<String, String> {
    let mut edit = Edit::open(path()).map_err(Fail::into_words)?;
    edit.view(view);
    let shown = edit.path().display().to_string();
    edit.save().map_err(Fail::into_words)?;
    Ok(format!("view {} is in {shown}", view.name))
}

/// Reads the text of the file; fails in words that say which line to mend.
pub(super) fn parse(path: &Path, text: &str) -> Result<Config, String> {
    let file = path.display();
    Config::parse(&file.to_string(), text).map_err(|(line, why)| {
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
    config: Config,
    /// With their lines.
    remarks: Vec<(usize, String)>,
}

impl Reading<'_> {
    fn remark(&mut self, at: usize, why: &str) {
        let line = line_of(self.text, at);
        let words = format!("{}:{line}: {}", self.file, text::clean_line(why));
        self.remarks.push((line, words));
    }

    /// What `read` makes of a text; a remark where it is none, or says nothing.
    fn text<T>(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let read = match value.get_ref().as_str() {
            Some(text) => read(text),
            None => Err("it is a text in quotes".to_owned()),
        };
        read.map_err(|why| {
            self.remark(value.span().start, &format!("{key} is ignored: {why}"));
        })
        .ok()
    }

    fn switch(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<bool> {
        let switch = value.get_ref().as_bool();
        if switch.is_none() {
            self.remark(value.span().start, &format!("{key} is true or false"));
        }
        switch
    }

    fn limit(&mut self, key: &str, value: &Spanned<DeValue<'_>>, limit: &mut Option<Duration>) {
        *limit = self.text(key, value, text::parse_duration).or(*limit);
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
            "config.toml:1: unknown table or key \"colour\"",
            "config.toml:4: unknown key \"protocl\"",
            "config.toml:5: protocol is ignored: expected one of auto, 2025-03-26",
            "config.toml:6: progress_from_text is true or false",
            "config.toml:8: bad is ignored: it does not begin with http",
            "config.toml:11: secret is ignored: it holds a password",
            "config.toml:13: a server is a table",
            "config.toml:14: \"http://x\" is not a valid server name",
        ];
        assert_eq!(config.remarks.len(), begins.len(), "{:?}", config.remarks);
        for (remark, begin) in config.remarks.iter().zip(begins) {
            assert!(remark.starts_with(begin), "{remark} is not {begin}");
        }
    }

    #[test]
    fn headers_and_limits_stand_beside_a_url() {
        let text = r#"[defaults]
max_time = "1h"
protocol = "2025-06-18"
[servers.lab]
url = "https://lab.example/mcp"
headers = { Authorization = "Bearer ${LAB_TOKEN}", "X Y" = "hunter2", X = "${", Z = 7 }
idle_timeout = "10m"
max_time = "soon"
[servers.nowhere]
headers = { A = "b" }
checkpoint = { list = "jobs", client_id = 7, other = "x" }
[servers.both]
url = "https://lab.example/mcp"
command = "npx"
[servers.files]
command = "npx"
args = ["-y", "x"]
env = { TOKEN = "${TOKEN}", "a-b" = "c" }
[servers.variable]
url = "https://${LAB_TOKEN}.example/"
[theme]
name = "pink"
"#;
        let config = Config::parse("f", text).unwrap();
        let lab = config.servers.iter().find(|it| it.name.as_str() == "lab");
        let lab = lab.unwrap();
        assert_eq!(lab.variables(), ["LAB_TOKEN"]);
        assert_eq!(lab.headers.len(), 1);
        assert_eq!(
            lab.protocol,
            Some(ProtocolChoice(Some(ProtocolVersion::V20250618)))
        );
        let limits = config.usual_limits().for_server(&lab.name);
        let minutes = |count: u64| Some(Duration::from_secs(count * 60));
        assert_eq!((limits.idle, limits.hard), (minutes(10), minutes(60)));
        let mut programs = config.servers.iter().filter_map(|it| it.program.as_ref());
        let files = programs.next().unwrap();
        assert!(programs.next().is_none());
        assert_eq!((files.args.len(), files.env.len()), (2, 1));
        let begins = [
            "f:6: X Y among the headers is ignored",
            "f:6: X among the headers is ignored",
            "f:6: Z among the headers is ignored",
            "f:8: max_time is ignored",
            "f:9: headers need a url",
            "f:11: client_id of the checkpoint is ignored",
            "f:11: \"other\" is not a checkpoint key",
            "f:12: both is ignored: it has both a url and a command",
            "f:18: a-b among the env is ignored",
            "f:20: variable is ignored: it has a variable in it",
            "f:22: name is ignored: it is one of dark",
        ];
        assert_eq!(config.remarks.len(), begins.len(), "{:#?}", config.remarks);
        for begin in begins {
            let said = config.remarks.iter().find(|it| it.starts_with(begin));
            let said = said.unwrap_or_else(|| panic!("{begin}: {:#?}", config.remarks));
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn what_came_by_import_waits_for_a_consent_that_names_its_host() {
        let url = "https://lab.example/mcp";
        let headers = [(
            "Authorization".to_owned(),
            crate::domain::Template::parse("Bearer ${T}").unwrap(),
        )];
        let file = |from: &str, consent: &str, url: &str| {
            let text = format!(
                "[servers.lab]\nurl = {url:?}\nheaders = {{ Authorization = \"Bearer ${{T}}\" }}\n{from}{consent}"
            );
            let config = Config::parse("f", &text).unwrap();
            assert_eq!(config.remarks, [""; 0]);
            config.servers[0].withheld.clone()
        };
        let from = "imported_from = \".mcp.json\"\n";
        let agreed = format!("consent = {:?}\n", digest(url, &headers));
        assert_eq!(file("", "", url), None, "the user wrote it");
        assert!(file(from, "", url).unwrap().contains("servers consent lab"));
        assert_eq!(file(from, &agreed, url), None);
        let moved = file(from, &agreed, "https://evil.example/mcp");
        assert!(moved.unwrap().contains("T may go there"));
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
        let shipped = include_str!("../../../assets/config.toml");
        assert_eq!(Config::parse("f", shipped).unwrap(), Config::default());
        let switched: Vec<&str> = shipped
            .lines()
            .map(|line| line.strip_prefix("#: ").unwrap_or(line))
            .collect();
        let config = Config::parse("f", &switched.join("\n")).unwrap();
        assert_eq!(config.remarks, [""; 0]);
        assert!(config.servers.iter().any(|it| it.progress_from_text));
        assert!(config.servers.iter().any(|it| it.protocol.is_some()));
        assert!(config.servers.iter().any(|it| !it.headers.is_empty()));
        let programs = config.servers.iter().filter(|it| it.program.is_some());
        assert_eq!((programs.count(), config.theme), (1, Some(ThemeName::Dark)));
        assert!(config.defaults.session.is_some());
        assert_ne!(config.keys, Keymap::default());
    }
}
