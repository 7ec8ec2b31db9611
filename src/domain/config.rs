//! What the user's file of configuration says, as data; `assets/config.toml` documents the file.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{CheckpointConvention, Limits, ProtocolChoice, ServerName, ServerObstacle};

/// What the configuration says of one server. It wins over what the session remembers, and is never saved there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerConfig {
    /// The user's name for it.
    pub name: ServerName,
    /// Its endpoint, without credentials; absent where only the session knows it.
    pub url: Option<String>,
    /// What to start, where the server is a process of ours; `url` then only names it.
    #[serde(default)]
    pub program: Option<Program>,
    /// Headers for every request to the origin of `url` and to no other, by name; their variables are filled in by
    /// whoever connects.
    #[serde(default)]
    pub headers: Vec<(String, Template)>,
    /// Why nothing may be sent there or started yet, in words that say what to do: it came by import, and the user has
    /// not said that its variables may go to its host, or it is a program that nobody approved.
    #[serde(default)]
    pub withheld: Option<String>,
    /// The revision to speak; what was chosen before holds when absent.
    pub protocol: Option<ProtocolChoice>,
    /// Whether a percentage may be read out of its words, where it gives no numbers.
    pub progress_from_text: bool,
    /// Whether what goes over the wire with it is recorded.
    #[serde(default)]
    pub trace: bool,
    /// What a call there gets where nobody says otherwise.
    #[serde(default)]
    pub limits: Limits,
    /// What its checkpoint tools are called.
    #[serde(default)]
    pub checkpoint: CheckpointConvention,
}

impl ServerConfig {
    /// A server of which nothing is said.
    pub fn new(name: ServerName) -> Self {
        Self {
            name,
            url: None,
            program: None,
            headers: Vec::new(),
            withheld: None,
            protocol: None,
            progress_from_text: false,
            trace: false,
            limits: Limits::default(),
            checkpoint: CheckpointConvention::default(),
        }
    }

    /// Whether the other one is the same to whoever calls it: limits are told with every call.
    pub fn matches_except_limits(&self, other: &Self) -> bool {
        let limits = self.limits;
        *self
            == Self {
                limits,
                ..other.clone()
            }
    }

    /// The names of the variables that its headers want, each once, in order.
    pub fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for (_, value) in &self.headers {
            for name in value.variables() {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// What a person has to do before it can be used, where `is_set` knows which variables hold something.
    pub fn obstacle(&self, is_set: impl Fn(&str) -> bool) -> Option<ServerObstacle> {
        let of_headers = self.variables().into_iter().map(str::to_owned);
        if self.withheld.is_some() {
            return Some(match self.program {
                Some(_) => ServerObstacle::Approval,
                None => ServerObstacle::Consent(of_headers.collect()),
            });
        }
        let of_program = self.program.iter().flat_map(Program::variables);
        let wanted = of_headers.chain(of_program);
        let missing: Vec<String> = wanted.filter(|name| !is_set(name)).collect();
        (!missing.is_empty()).then_some(ServerObstacle::Variables(missing))
    }
}

/// The servers of one file of configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerConfigs {
    /// The file, by the path that it has without links; `None` where none was read, which says nothing of any server.
    pub file: Option<String>,
    /// All of them.
    pub servers: Vec<ServerConfig>,
}

/// A text with `${VARIABLE}` in it, as the configuration writes it. What stands around the variables may be a secret too,
/// so `Debug` shows their names only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template(String);

/// A piece of a [`Template`].
enum Piece<'t> {
    Text(&'t str),
    Variable(&'t str),
}

/// Whether this can be the name of a variable of the environment.
pub fn is_variable(name: &str) -> bool {
    let mut letters = name.bytes();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

impl Template {
    /// Reads it. Fails, without repeating the text, where a `${` has no name of a variable and `}` after it.
    pub fn parse(text: impl Into<String>) -> Result<Self, String> {
        let text = text.into();
        let is_whole = |piece: &str| {
            let name = piece.split_once('}').map(|(name, _)| name);
            name.is_some_and(is_variable)
        };
        if text.split("${").skip(1).all(is_whole) {
            Ok(Self(text))
        } else {
            Err("${ begins a variable; write it as ${NAME}".to_owned())
        }
    }

    /// The text as it was written.
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

    /// The text with what the variables hold: a secret. Fails with the name of the first that holds nothing.
    pub fn fill(&self, holds: impl Fn(&str) -> Option<String>) -> Result<String, &str> {
        let mut filled = String::new();
        for piece in self.pieces() {
            match piece {
                Piece::Text(text) => filled.push_str(text),
                Piece::Variable(name) => filled.push_str(&holds(name).ok_or(name)?),
            }
        }
        Ok(filled)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template")
            .field(&self.variables().collect::<Vec<_>>())
            .finish()
    }
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(text)
    }
}

impl From<Template> for String {
    fn from(template: Template) -> Self {
        template.0
    }
}

/// What a server is started with that is a process of ours. None is started before the user approved all of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program.
    pub command: String,
    /// Its arguments; `${VARIABLE}` in them is filled in.
    pub args: Vec<String>,
    /// Variables that it gets beside the usual ones, by name.
    pub env: Vec<(String, Template)>,
    /// Where it is to work; else where longhaul was started.
    pub cwd: Option<String>,
}

// By hand: an argument may be a secret.
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
    /// Its arguments and the values of its environment, as far as variables can stand in them.
    fn templates(&self) -> impl Iterator<Item = Template> + '_ {
        let args = self.args.iter().filter_map(|it| Template::parse(it).ok());
        args.chain(self.env.iter().map(|(_, value)| value.clone()))
    }

    /// The names of the variables of ours that it would be told of, each once, in order.
    pub fn variables(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for template in self.templates() {
            for name in template.variables() {
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_owned());
                }
            }
        }
        names
    }

    /// Its arguments as they are passed: one that is no [`Template`], as scripts are, stays as it stands. Fails with the
    /// name of the first variable that holds nothing.
    pub fn filled_args(
        &self,
        holds: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<String>, String> {
        let fill = |arg: &String| match Template::parse(arg) {
            Ok(template) => template.fill(&holds).map_err(str::to_owned),
            Err(_) => Ok(arg.clone()),
        };
        self.args.iter().map(fill).collect()
    }
}

/// The limits that a call gets where nobody says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultLimits {
    /// On any server.
    pub everywhere: Limits,
    /// What single servers have instead.
    pub of_servers: BTreeMap<ServerName, Limits>,
}

impl DefaultLimits {
    /// On this server.
    pub fn of(&self, server: &ServerName) -> Limits {
        let own = self.of_servers.get(server).copied().unwrap_or_default();
        Limits {
            idle: own.idle.or(self.everywhere.idle),
            hard: own.hard.or(self.everywhere.hard),
        }
    }
}

/// The set of colours that the user prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// For a dark background; the terminal's own colours.
    #[default]
    Dark,
    /// For a light one.
    Light,
    /// No colour at all.
    Mono,
    /// Told apart by people who see few colours.
    Colourblind,
}

impl ThemeName {
    /// Every one with its word in the configuration.
    pub const ALL: [(&str, Self); 4] = [
        ("dark", Self::Dark),
        ("light", Self::Light),
        ("mono", Self::Mono),
        ("colourblind", Self::Colourblind),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_filled_and_keeps_its_secrets() {
        let template = Template::parse("Bearer ${LAB_TOKEN} of $5 ${A}").unwrap();
        assert_eq!(template.variables().collect::<Vec<_>>(), ["LAB_TOKEN", "A"]);
        let holds = |name: &str| (name != "NONE").then(|| format!("<{name}>"));
        assert_eq!(
            template.fill(holds),
            Ok("Bearer <LAB_TOKEN> of $5 <A>".to_owned())
        );
        let missing = Template::parse("${A}${NONE}").unwrap();
        assert_eq!(missing.fill(holds), Err("NONE"));
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
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn a_server_of_its_own_limits_has_the_others_from_everywhere() {
        let minutes = |count: u64| Some(core::time::Duration::from_secs(count * 60));
        let lab = ServerName::new("lab");
        let own = Limits {
            idle: minutes(1),
            hard: None,
        };
        let limits = DefaultLimits {
            everywhere: Limits {
                idle: minutes(5),
                hard: minutes(9),
            },
            of_servers: [(lab.clone(), own)].into(),
        };
        let of_lab = limits.of(&lab);
        assert_eq!((of_lab.idle, of_lab.hard), (minutes(1), minutes(9)));
        assert_eq!(limits.of(&ServerName::new("x")), limits.everywhere);
    }
}
