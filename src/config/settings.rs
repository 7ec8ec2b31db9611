//! The settings in the file, and notices for lines that are ignored.
//!
//! Invariant: a wrong line loses only its own setting; only a file that is not valid TOML is refused as a whole.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::error::ValueError;
use crate::{
    app::{Keymap, Settings},
    domain::{
        CheckpointConvention, ColorChoice, DefaultLimits, Limits, NotifyConfig, NotifyLevel,
        ProtocolChoice, ProxySettings, ServerConfig, ServerName, TaskView, ThemeName, text,
    },
    engine::Hook,
};

/// The tables of the file, for notices.
pub(crate) const TABLES: &str = "[servers.NAME], [defaults], [keys], [notify], [theme], [proxy]";

/// The settings in the file.
#[derive(Debug, Default, PartialEq)]
pub struct Config {
    /// The servers in order of their names, including stdio servers.
    pub servers: Vec<ServerConfig>,
    /// Used where the command line sets nothing.
    pub(crate) defaults: Defaults,
    pub(crate) theme: Option<ThemeName>,
    pub(crate) keys: Keymap,
    pub(crate) notify: NotifyConfig,
    /// For agents' calls of all servers.
    pub(super) proxy: ProxySettings,
    /// For those of one server.
    pub(super) server_proxies: BTreeMap<ServerName, ProxySettings>,
    /// The files that servers were imported from.
    pub(super) imported_from: BTreeMap<ServerName, String>,
    /// The shell command to run on the events in `hook_on`.
    pub(crate) hook: Option<String>,
    pub(crate) hook_on: NotifyLevel,
    /// The ignored settings, each as `FILE:LINE: why`.
    pub notices: Vec<String>,
}

impl Config {
    /// Parses `text`; `file` is its path, for notices. `Err` is the line of a TOML error, from 1, and its message.
    pub fn parse(file: &str, text: &str) -> Result<Self, (usize, String)> {
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            (line_of(text, at), error.message().to_owned())
        })?;
        let mut parser = Parser {
            file,
            text,
            config: Self::default(),
            notices: Vec::new(),
        };
        for (key, value) in table.get_ref() {
            let at = key.span().start;
            match (key.get_ref().as_ref(), value.get_ref().as_table()) {
                ("servers", Some(table)) => parser.servers(table),
                ("defaults", Some(table)) => parser.defaults(table),
                ("theme", Some(table)) => parser.theme(table),
                ("keys", Some(table)) => parser.keys(at, table),
                ("notify", Some(table)) => parser.notify(table),
                ("proxy", _) => parser.config.proxy = parser.proxy("proxy", value),
                ("servers", None) => {
                    parser.notice(at, "servers must contain tables: [servers.NAME]");
                }
                (name @ ("defaults" | "theme" | "keys" | "notify"), None) => {
                    parser.notice(at, &format!("{name} must be a table: [{name}]"));
                }
                (other, _) => parser.notice(
                    at,
                    &format!("unknown table or key {other:?}; expected one of: {TABLES}"),
                ),
            }
        }
        let Parser {
            mut config,
            mut notices,
            ..
        } = parser;
        // A server's own setting wins over the default.
        for server in &mut config.servers {
            server.protocol = server.protocol.or(config.defaults.protocol);
        }
        notices.sort_by_key(|(line, _)| *line);
        config.notices = notices.into_iter().map(|(_, notice)| notice).collect();
        Ok(config)
    }

    /// The configured server named `name`.
    pub(crate) fn server(&self, name: &str) -> Option<&ServerConfig> {
        self.servers.iter().find(|it| it.name.as_str() == name)
    }

    /// The entry of a server in the session, which may run in a host's directory.
    pub(crate) fn entry(&self, name: &ServerName) -> Option<&ServerConfig> {
        let own = self.server(name.as_str());
        own.or_else(|| self.server(name.entry()))
    }

    /// The names of a server's checkpoint tools and their arguments.
    pub(crate) fn convention(&self, server: &ServerName) -> CheckpointConvention {
        let own = self.entry(server);
        own.map(|it| it.checkpoint.clone()).unwrap_or_default()
    }

    /// The settings for agents' calls of a server.
    pub(crate) fn proxy_settings(&self, server: &ServerName) -> ProxySettings {
        let entry = self.entry(server).map(|it| &it.name);
        let own = entry
            .and_then(|name| self.server_proxies.get(name))
            .cloned();
        own.unwrap_or_default().or(&self.proxy)
    }

    /// The command to run on task events, if one is set.
    pub(crate) fn hook(&self, encode: fn(&TaskView, Option<&str>) -> String) -> Option<Hook> {
        Some(Hook {
            command: self.hook.clone()?,
            on: self.hook_on,
            encode,
        })
    }

    /// Takes out what the screen uses.
    pub(crate) fn take_settings(&mut self) -> Settings {
        Settings {
            limits: self.default_limits(),
            notify: self.notify,
            keys: std::mem::take(&mut self.keys),
        }
    }

    /// The limits of calls that set none of their own.
    pub(crate) fn default_limits(&self) -> DefaultLimits {
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

/// The line at byte `at`, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    let before = text.bytes().take(at);
    before.filter(|byte| *byte == b'\n').count() + 1
}

pub(crate) struct Parser<'t> {
    pub(super) file: &'t str,
    pub(super) text: &'t str,
    pub(super) config: Config,
    /// With their line numbers.
    pub(super) notices: Vec<(usize, String)>,
}

impl Parser<'_> {
    pub(super) fn notice(&mut self, at: usize, why: &str) {
        let line = line_of(self.text, at);
        let notice = format!("{}:{line}: {}", self.file, text::clean_line(why));
        self.notices.push((line, notice));
    }

    /// Parses a string with `read`; adds a notice if it is not a string or `read` fails.
    pub(super) fn text<T, E: Into<ValueError>>(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let read = match value.get_ref().as_str() {
            Some(text) => read(text).map_err(Into::into),
            None => Err(ValueError::NotText),
        };
        read.map_err(|why| {
            self.notice(value.span().start, &format!("{key} is ignored: {why}"));
        })
        .ok()
    }

    /// A string, as it is.
    pub(super) fn string(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<String> {
        self.text(key, value, |text| Ok::<_, ValueError>(text.to_owned()))
    }

    /// A table; any other value gets a notice with an example.
    pub(super) fn table<'v, 't>(
        &mut self,
        path: &str,
        value: &'v Spanned<DeValue<'t>>,
        example: &str,
    ) -> Option<&'v DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let why = format!("{path} must be a table: {path} = {{ {example} }}");
            self.notice(value.span().start, &why);
        }
        table
    }

    /// Adds a notice for a key that means nothing in this place, unlike `keys`.
    pub(super) fn unknown_key(&mut self, key: &Spanned<Cow<'_, str>>, place: &str, keys: &str) {
        let key_text = key.get_ref();
        let why = format!("unknown key {key_text:?} {place}; expected one of: {keys}");
        self.notice(key.span().start, &why);
    }

    pub(super) fn boolean(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<bool> {
        let boolean = value.get_ref().as_bool();
        if boolean.is_none() {
            self.notice(value.span().start, &format!("{key} must be true or false"));
        }
        boolean
    }

    pub(super) fn limit(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        limit: &mut Option<Duration>,
    ) {
        *limit = self.text(key, value, text::parse_duration).or(*limit);
    }
}

/// Replaces a setting, if it could be read.
pub(super) fn set<T>(setting: &mut T, read: Option<T>) {
    if let Some(read) = read {
        *setting = read;
    }
}

/// The settings in `[defaults]`.
#[derive(Debug, Default, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the settings are independent of each other"
)]
pub(crate) struct Defaults {
    /// `--session`.
    pub(crate) session: Option<String>,
    /// The server to use if there are several and `--server` is not set.
    pub(crate) server: Option<String>,
    /// For configured servers without a `protocol` of their own.
    pub(super) protocol: Option<ProtocolChoice>,
    /// `--idle-timeout` and `--max-time`.
    pub(super) limits: Limits,
    /// `--color`.
    pub(crate) color: Option<ColorChoice>,
    /// `--ascii`.
    pub(crate) ascii: bool,
    /// `--no-motion`.
    pub(crate) no_motion: bool,
    /// `keychain = false`: tokens are not encrypted with a key from the keychain.
    pub(crate) no_keychain: bool,
    /// `keeper = false`: each process drives the session itself.
    pub(crate) no_keeper: bool,
    /// The machine whose session is used without `--host`.
    pub(crate) host: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ProtocolChoice, ProtocolVersion};

    const FILE: &str = r#"
[servers.lab]
url = "http://127.0.0.1:8931/mcp"
protocol = "2025-11-25"
trace = true

[servers."build-box"]
protocol = "auto"
"#;

    #[test]
    fn parses_servers() {
        let config = Config::parse("f", FILE).unwrap();
        assert_eq!(config.notices, [""; 0]);
        let [build_box, lab] = config.servers.as_slice() else {
            panic!("{config:?}");
        };
        assert_eq!(lab.url.as_deref(), Some("http://127.0.0.1:8931/mcp"));
        let version = ProtocolVersion::V20251125;
        assert_eq!(lab.protocol, Some(ProtocolChoice(Some(version))));
        assert!(lab.trace && !build_box.trace);
        assert_eq!(build_box.protocol, Some(ProtocolChoice(None)));
    }

    #[test]
    fn wrong_line_loses_only_its_own_setting() {
        let text = r#"colour = "red"
[servers.lab]
url = "http://127.0.0.1:1/mcp"
protocl = "auto"
protocol = "2024-01-01"
trace = "yes"
[servers.bad]
url = "ftp://127.0.0.1"
trace = true
[servers.secret]
url = "http://me:word@127.0.0.1/"
[servers]
three = 3
"http://x" = {}
[defaults]
session = "a/b"
"#;
        let config = Config::parse("config.toml", text).unwrap();
        let names: Vec<&str> = config.servers.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["lab"]);
        let begins = [
            "config.toml:1: unknown table or key \"colour\"",
            "config.toml:4: unknown key \"protocl\"",
            "config.toml:5: protocol is ignored: expected one of auto, 2025-03-26",
            "config.toml:6: trace must be true or false",
            "config.toml:8: bad is ignored: the URL must begin with http",
            "config.toml:11: secret is ignored: the URL contains a password",
            "config.toml:13: server three must be a table",
            "config.toml:14: invalid server name \"http://x\"",
            "config.toml:16: invalid session name \"",
        ];
        assert_eq!(config.notices.len(), begins.len(), "{:?}", config.notices);
        for (notice, begin) in config.notices.iter().zip(begins) {
            assert!(notice.starts_with(begin), "{notice} is not {begin}");
        }
    }

    #[test]
    fn reads_headers_and_limits_of_servers_with_a_url() {
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
        let limits = config.default_limits().for_server(&lab.name);
        let minutes = |count: u64| Some(Duration::from_secs(count * 60));
        assert_eq!((limits.idle, limits.hard), (minutes(10), minutes(60)));
        let mut programs = config.servers.iter().filter_map(|it| it.program.as_ref());
        let files = programs.next().unwrap();
        assert!(programs.next().is_none());
        assert_eq!((files.args.len(), files.env.len()), (2, 1));
        let begins = [
            "f:6: X Y in headers is ignored",
            "f:6: X in headers is ignored",
            "f:6: Z in headers is ignored",
            "f:8: max_time is ignored",
            "f:9: headers need a url",
            "f:11: checkpoint.client_id is ignored",
            "f:11: unknown key \"other\" in checkpoint",
            "f:12: both is ignored: it has both url and command",
            "f:18: a-b in env is ignored",
            "f:20: variable is ignored: the URL contains a variable",
            "f:22: [theme] name is ignored: expected one of: dark",
        ];
        assert_eq!(config.notices.len(), begins.len(), "{:#?}", config.notices);
        for begin in begins {
            let notice = config.notices.iter().find(|it| it.starts_with(begin));
            let notice = notice.unwrap_or_else(|| panic!("{begin}: {:#?}", config.notices));
            assert!(!notice.contains("hunter2"), "{notice}");
        }
    }

    #[test]
    fn imported_servers_wait_for_approval_that_covers_the_host() {
        let url = "https://lab.example/mcp";
        let headers = [(
            "Authorization".to_owned(),
            crate::domain::Template::parse("Bearer ${T}").unwrap(),
        )];
        let is_withheld = |from: &str, approved: &str, url: &str| {
            let text = format!(
                "[servers.lab]\nurl = {url:?}\nheaders = {{ Authorization = \"Bearer ${{T}}\" }}\n{from}{approved}"
            );
            let config = Config::parse("f", &text).unwrap();
            assert_eq!(config.notices, [""; 0]);
            config.servers[0].is_withheld
        };
        let from = "imported_from = \".mcp.json\"\n";
        assert!(!is_withheld("", "", url), "the user wrote it");
        assert!(is_withheld(from, "", url));
        // The second one is the key's older name.
        for key in ["approved", "consent"] {
            let agreed = format!("{key} = {:?}\n", crate::config::digest(url, &headers));
            assert!(!is_withheld(from, &agreed, url));
            assert!(is_withheld(from, &agreed, "https://evil.example/mcp"));
        }
    }

    #[test]
    fn invalid_toml_reports_the_line() {
        for (text, line) in [("a = 1\nb", 2), ("[servers", 1), ("\n\nx = \"", 3)] {
            let (found, why) = Config::parse("f", text).unwrap_err();
            assert_eq!(found, line, "{why}");
            assert!(!why.is_empty());
        }
        let deep = format!("a = {}", "[".repeat(100_000));
        Config::parse("f", &deep).unwrap_err();
    }

    #[test]
    fn shipped_file_sets_nothing_until_uncommented() {
        let shipped = include_str!("../../assets/config.toml");
        assert_eq!(Config::parse("f", shipped).unwrap(), Config::default());
        let switched: Vec<&str> = shipped
            .lines()
            .map(|line| line.strip_prefix("#: ").unwrap_or(line))
            .collect();
        let config = Config::parse("f", &switched.join("\n")).unwrap();
        assert_eq!(config.notices, [""; 0]);
        assert!(config.servers.iter().any(|it| it.trace));
        assert!(config.servers.iter().any(|it| it.protocol.is_some()));
        assert!(config.servers.iter().any(|it| !it.headers.is_empty()));
        let programs = config.servers.iter().filter(|it| it.program.is_some());
        assert_eq!((programs.count(), config.theme), (1, Some(ThemeName::Dark)));
        assert!(config.defaults.session.is_some());
        assert_ne!(config.keys, Keymap::default());
    }
}
