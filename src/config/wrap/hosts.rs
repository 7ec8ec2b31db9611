//! The hosts whose configuration can be wrapped, and where they keep it.

use std::path::{Path, PathBuf};

/// How a host writes down its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON with comments; the servers are the members of the object at this path.
    Json {
        /// The keys that lead to the servers.
        servers: &'static [&'static str],
        shape: JsonShape,
    },
    /// Codex: `[mcp_servers.NAME]`.
    Toml,
    /// Goose: `extensions:`.
    Yaml,
}

/// The members that name a program in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonShape {
    /// `command`, `args` and `env`.
    Common,
    /// The same with `"type": "stdio"`.
    Typed,
    /// `"type": "local"`, `command` with its arguments, and `environment`.
    OpenCode,
}

/// A file of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostFile {
    /// The host's name on the command line.
    pub(crate) host: &'static str,
    pub(crate) path: PathBuf,
    /// The directory whose servers these are, in a file that has servers of several projects: Claude Code's `local` scope.
    pub(crate) project: Option<String>,
    pub(super) format: Format,
}

impl HostFile {
    /// The path, and the project if these are the servers of one.
    pub(crate) fn shown(&self) -> String {
        let path = self.path.display();
        match &self.project {
            Some(project) => format!("{path}, project {project}"),
            None => path.to_string(),
        }
    }

    /// The keys that lead to the servers in JSON.
    pub(super) fn keys<'k>(&'k self, servers: &'k [&'k str]) -> Vec<&'k str> {
        let project = self.project.iter();
        let project = project.flat_map(|project| ["projects", project]);
        project.chain(servers.iter().copied()).collect()
    }
}

struct Host {
    name: &'static str,
    format: Format,
    /// Below the home directory, the directory for settings, and the current directory.
    home: &'static [&'static str],
    settings: &'static [&'static str],
    project: &'static [&'static str],
}

const fn json(servers: &'static [&'static str], shape: JsonShape) -> Format {
    Format::Json { servers, shape }
}

const COMMON: Format = json(&["mcpServers"], JsonShape::Common);

const HOSTS: [Host; 9] = [
    Host {
        name: "claude-code",
        format: COMMON,
        home: &[".claude.json"],
        settings: &[],
        project: &[".mcp.json"],
    },
    Host {
        name: "claude-desktop",
        format: COMMON,
        home: &[],
        settings: &["Claude/claude_desktop_config.json"],
        project: &[],
    },
    Host {
        name: "codex",
        format: Format::Toml,
        home: &[".codex/config.toml"],
        settings: &[],
        project: &[".codex/config.toml"],
    },
    Host {
        name: "cursor",
        format: COMMON,
        home: &[".cursor/mcp.json"],
        settings: &[],
        project: &[".cursor/mcp.json"],
    },
    Host {
        name: "vscode",
        format: json(&["servers"], JsonShape::Typed),
        home: &[],
        settings: &["Code/User/mcp.json"],
        project: &[".vscode/mcp.json"],
    },
    Host {
        name: "gemini",
        format: COMMON,
        home: &[".gemini/settings.json"],
        settings: &[],
        project: &[".gemini/settings.json"],
    },
    Host {
        name: "goose",
        format: Format::Yaml,
        home: &[],
        settings: &["goose/config.yaml"],
        project: &[],
    },
    Host {
        name: "zed",
        format: json(&["context_servers"], JsonShape::Common),
        home: &[],
        settings: &["zed/settings.json"],
        project: &[".zed/settings.json"],
    },
    Host {
        name: "opencode",
        format: json(&["mcp"], JsonShape::OpenCode),
        home: &[],
        settings: &["opencode/opencode.json", "opencode/opencode.jsonc"],
        project: &["opencode.json", "opencode.jsonc"],
    },
];

/// The names of all hosts.
pub(crate) fn host_names() -> impl Iterator<Item = &'static str> {
    HOSTS.iter().map(|host| host.name)
}

/// The existing files of a host, or of all hosts; of the current directory too.
pub(crate) fn files_of(host: Option<&str>) -> Vec<HostFile> {
    let home = dirs::home_dir().unwrap_or_default();
    let settings = dirs::config_dir().unwrap_or_else(|| home.join(".config"));
    let here = std::env::current_dir().unwrap_or_default();
    let mut files: Vec<HostFile> = Vec::new();
    for known in HOSTS
        .iter()
        .filter(|known| host.is_none_or(|name| name == known.name))
    {
        let below = |base: &Path, names: &[&str]| -> Vec<PathBuf> {
            names.iter().map(|name| base.join(name)).collect()
        };
        let paths = [
            below(&home, known.home),
            below(&settings, known.settings),
            below(&here, known.project),
        ];
        for path in paths.concat() {
            let is_known = files.iter().any(|file| file.path == path);
            if !path.is_absolute() || !path.exists() || is_known {
                continue;
            }
            let file = HostFile {
                host: known.name,
                path,
                project: None,
                format: known.format,
            };
            let has_projects = file.path.ends_with(".claude.json");
            let of_project = has_projects.then(|| HostFile {
                project: Some(here.to_string_lossy().into_owned()),
                ..file.clone()
            });
            files.push(file);
            files.extend(of_project);
        }
    }
    files
}
