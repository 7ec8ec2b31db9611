//! The user's config file as data; `assets/config.toml` documents the file.

use core::time::Duration;

use std::{collections::BTreeMap, fmt};

use itertools::Itertools as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{CheckpointConvention, Limits, ProtocolChoice, ServerName, text};

/// One server in the config file. It overrides what the session remembers and is never saved in the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerConfig {
    /// The user's name for it.
    pub name: ServerName,
    /// Its endpoint, without credentials; `None` if only the session knows it.
    pub url: Option<String>,
    /// The command of a stdio server; `url` is then only an identifier (`stdio:NAME`).
    pub program: Option<Program>,
    /// Headers for every request to the origin of `url`, and to no other origin. The connecting process expands their
    /// variables.
    #[serde(default)]
    pub headers: Vec<(String, Template)>,
    /// Whether longhaul may not contact or start it yet. Set for an imported server whose variables the user hasn't
    /// allowed to go to its host, and for a program that hasn't been approved.
    #[serde(default, alias = "withheld", deserialize_with = "is_withheld")]
    pub is_withheld: bool,
    /// The MCP revision to use; if absent, the one from `--protocol`, or an automatic choice.
    pub protocol: Option<ProtocolChoice>,
    /// Whether its traffic is recorded.
    #[serde(default)]
    pub trace: bool,
    /// Default limits for its calls.
    #[serde(default)]
    pub limits: Limits,
    /// The names of its checkpoint tools.
    #[serde(default)]
    pub checkpoint: CheckpointConvention,
    /// How long its program stays without anything to do; [`Self::STOP_WHEN_IDLE`] if absent.
    pub stop_when_idle: Option<Duration>,
}

impl ServerConfig {
    /// How long the program of a stdio server stays without anything to do, unless the configuration says otherwise.
    pub const STOP_WHEN_IDLE: Duration = Duration::from_secs(15 * 60);

    /// A server with no settings.
    pub fn new(name: ServerName) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Whether two entries differ at most in `limits`. A connection doesn't depend on those: they come with each call.
    pub fn matches_except_limits(&self, other: &Self) -> bool {
        let limits = self.limits;
        *self
            == Self {
                limits,
                ..other.clone()
            }
    }

    /// The environment variables in its headers, in order, without duplicates.
    pub fn variables(&self) -> Vec<&str> {
        let values = self.headers.iter().map(|(_, value)| value);
        values.flat_map(Template::variables).unique().collect()
    }

    /// Every environment variable that it names.
    pub fn all_variables(&self) -> impl Iterator<Item = String> {
        let headers = self.variables().into_iter().map(str::to_owned);
        headers.chain(self.program.iter().flat_map(Program::variables))
    }

    /// Why longhaul may not contact or start it yet, and what to do.
    pub fn why_withheld(&self) -> Option<String> {
        let name = text::shell_word(self.name.as_str());
        let needs = ServerObstacle::Approval.message();
        self.is_withheld.then(|| {
            format!(
                "{} {needs}; to review and approve it, run `longhaul servers approve {name}`",
                self.name
            )
        })
    }

    /// What the user has to do before the server can be used. `is_set` tells whether a variable has a value.
    pub fn obstacle(&self, is_set: impl Fn(&str) -> bool) -> Option<ServerObstacle> {
        if self.is_withheld {
            return Some(ServerObstacle::Approval);
        }
        let missing: Vec<String> = self.all_variables().filter(|name| !is_set(name)).collect();
        (!missing.is_empty()).then_some(ServerObstacle::Variables(missing))
    }
}

/// Also reads the sentence that an older longhaul has in its place.
fn is_withheld<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let read = Value::deserialize(from)?;
    Ok(!matches!(read, Value::Null | Value::Bool(false)))
}

/// The servers of one config file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerConfigs {
    /// The canonical path of the file; `None` if no file was read.
    pub file: Option<String>,
    /// All servers in the file.
    pub servers: Vec<ServerConfig>,
    /// What the reader of the file has of the variables that it names. The driver may be a keeper, which has no
    /// environment of its own.
    #[serde(default)]
    pub variables: Variables,
    /// The directory in which a program starts that has no other one.
    pub directory: Option<String>,
    /// Whether credentials may be sent to another machine over plain http.
    #[serde(default)]
    pub insecure_http: bool,
}

/// Values of environment variables, by name. They may be secrets, so `Debug` shows only the names.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Keeps older values of variables that have no newer one here.
    pub fn keep_older(&mut self, older: &Self) {
        for (name, value) in &older.0 {
            self.0.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Config text with `${VARIABLE}` placeholders. The rest of the text may be a secret too, so `Debug` shows only the
/// variable names.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Template(String);

/// A `${` that no variable name and `}` follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid variable after ${{; write it as ${{NAME}}")]
pub struct TemplateError;

/// A piece of a [`Template`].
enum Piece<'t> {
    Text(&'t str),
    Variable(&'t str),
}

/// Whether this is a valid environment variable name.
pub fn is_variable(name: &str) -> bool {
    let mut letters = name.bytes();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

impl Template {
    /// Parses a template. The error never repeats the text, which may be a secret.
    pub fn parse(text: impl Into<String>) -> Result<Self, TemplateError> {
        let text = text.into();
        let is_whole = |piece: &str| {
            let name = piece.split_once('}').map(|(name, _)| name);
            name.is_some_and(is_variable)
        };
        if text.split("${").skip(1).all(is_whole) {
            Ok(Self(text))
        } else {
            Err(TemplateError)
        }
    }

    /// The text as written, with the variables unexpanded.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut rest = self.0.split("${");
        let first = rest.next().unwrap_or_default();
        let following = rest.flat_map(|piece| {
            let (name, text) = piece.split_once('}').unwrap_or((piece, ""));
            [Piece::Variable(name), Piece::Text(text)]
        });
        std::iter::once(Piece::Text(first)).chain(following)
    }

    /// The names of its variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces().filter_map(|piece| match piece {
            Piece::Variable(name) => Some(name),
            Piece::Text(_) => None,
        })
    }

    /// Expands the variables; the result may be a secret. Fails with the first variable without a value.
    pub fn expand(
        &self,
        value_of: impl Fn(&str) -> Option<String>,
    ) -> Result<String, MissingVariable> {
        let mut expanded = String::new();
        for piece in self.pieces() {
            match piece {
                Piece::Text(text) => expanded.push_str(text),
                Piece::Variable(name) => {
                    let value = value_of(name).ok_or_else(|| MissingVariable(name.to_owned()))?;
                    expanded.push_str(&value);
                }
            }
        }
        Ok(expanded)
    }
}

/// The name of an environment variable that is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingVariable(pub String);

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template")
            .field(&self.variables().collect::<Vec<_>>())
            .finish()
    }
}

impl TryFrom<String> for Template {
    type Error = TemplateError;

    fn try_from(text: String) -> Result<Self, TemplateError> {
        Self::parse(text)
    }
}

/// How to start a stdio server. longhaul starts one only after the user approved the whole command.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The executable.
    pub command: String,
    /// Its arguments; `${VARIABLE}` is expanded.
    pub args: Vec<String>,
    /// Environment variables in addition to the inherited ones.
    pub env: Vec<(String, Template)>,
    /// Its working directory; by default, the directory in which longhaul was started.
    pub cwd: Option<String>,
}

// Written by hand: an argument may be a secret.
impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Its arguments and environment values that are valid templates.
    fn templates(&self) -> impl Iterator<Item = Template> + '_ {
        let args = self.args.iter().filter_map(|it| Template::parse(it).ok());
        args.chain(self.env.iter().map(|(_, value)| value.clone()))
    }

    /// The variables of longhaul's own environment that it would receive, in order, without duplicates.
    pub fn variables(&self) -> Vec<String> {
        let names_in = |it: Template| it.variables().map(str::to_owned).collect::<Vec<_>>();
        self.templates().flat_map(names_in).unique().collect()
    }

    /// Its arguments with variables expanded. An argument that isn't a valid [`Template`], such as an inline script,
    /// stays as written. Fails with the first variable without a value.
    pub fn expanded_args(
        &self,
        value_of: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<String>, MissingVariable> {
        let expand = |arg: &String| match Template::parse(arg) {
            Ok(template) => template.expand(&value_of),
            Err(_) => Ok(arg.clone()),
        };
        self.args.iter().map(expand).collect()
    }
}

/// The limits of calls that set none themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultLimits {
    /// For all servers.
    pub global: Limits,
    /// Overrides for single servers.
    pub per_server: BTreeMap<ServerName, Limits>,
}

impl DefaultLimits {
    /// The limits for one server: its own, else the global ones.
    pub fn for_server(&self, server: &ServerName) -> Limits {
        let entry = ServerName::new(server.entry());
        let own = [server, &entry]
            .into_iter()
            .find_map(|it| self.per_server.get(it));
        let own = own.copied().unwrap_or_default();
        Limits {
            idle: own.idle.or(self.global.idle),
            hard: own.hard.or(self.global.hard),
        }
    }
}

/// The color theme that the user prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum ThemeName {
    /// For a dark background, with the terminal's own colors.
    #[default]
    Dark,
    /// For a light background.
    Light,
    /// No colors.
    Mono,
    /// Safe for color-blind users.
    Colorblind,
}

/// What the user has to do before longhaul contacts or starts a configured server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "of")]
pub enum ServerObstacle {
    /// Approve its command, or that its variables are sent to its host.
    Approval,
    /// Set these variables in the environment of the driver.
    Variables(Vec<String>),
}

impl ServerObstacle {
    /// A short label: `needs approval`, `needs $LAB_TOKEN`.
    pub fn message(&self) -> String {
        match self {
            Self::Approval => "needs approval".to_owned(),
            Self::Variables(names) => format!("needs ${}", names.join(", $")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expands_templates_without_leaking_their_text() {
        let template = Template::parse("Bearer ${LAB_TOKEN} of $5 ${A}").unwrap();
        assert_eq!(template.variables().collect::<Vec<_>>(), ["LAB_TOKEN", "A"]);
        let value_of = |name: &str| (name != "NONE").then(|| format!("<{name}>"));
        assert_eq!(
            template.expand(value_of),
            Ok("Bearer <LAB_TOKEN> of $5 <A>".to_owned())
        );
        let missing = Template::parse("${A}${NONE}").unwrap();
        assert_eq!(
            missing.expand(value_of),
            Err(MissingVariable("NONE".to_owned()))
        );
        let literal = Template::parse("hunter2 ${A}").unwrap();
        assert_eq!(format!("{literal:?}"), r#"Template(["A"])"#);
        for wrong in [
            "hunter2 ${",
            "${}",
            "${hunter2-x}",
            "${A",
            "${env:A}",
            "${A${B}}",
        ] {
            let why = Template::parse(wrong).unwrap_err();
            assert!(!why.to_string().contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn an_older_sentence_withholds_a_server_too() {
        for (more, is_withheld) in [
            (r#", "withheld": "lab is not approved""#, true),
            (r#", "withheld": null"#, false),
            (r#", "is_withheld": true"#, true),
            ("", false),
        ] {
            let server = format!(r#"{{"name": "lab"{more}}}"#);
            let server: ServerConfig = serde_json::from_str(&server).unwrap();
            assert_eq!(server.is_withheld, is_withheld, "{more}");
        }
    }

    #[test]
    fn falls_back_to_global_limits_one_by_one() {
        let minutes = |count: u64| Some(core::time::Duration::from_secs(count * 60));
        let lab = ServerName::new("lab");
        let own = Limits {
            idle: minutes(1),
            hard: None,
        };
        let limits = DefaultLimits {
            global: Limits {
                idle: minutes(5),
                hard: minutes(9),
            },
            per_server: [(lab.clone(), own)].into(),
        };
        let of_lab = limits.for_server(&lab);
        assert_eq!((of_lab.idle, of_lab.hard), (minutes(1), minutes(9)));
        assert_eq!(limits.for_server(&ServerName::new("x")), limits.global);
    }
}
