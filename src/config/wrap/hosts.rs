//! The hosts whose configuration can be wrapped, and where they keep it.

use std::path::PathBuf;

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
    /// The same as the common one, with each variable that the server needs in `env`: Gemini CLI passes on no other one whose
    /// name looks like that of a secret.
    Gemini,
    /// `"type": "local"`, `command` with its arguments, and `environment`.
    OpenCode,
}

/// Stands for all projects of a file.
pub(super) const ANY: &str = "*";

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

const fn json(servers: &'static [&'static str], shape: JsonShape) -> Format {
    Format::Json { servers, shape }
}

const COMMON: Format = json(&["mcpServers"], JsonShape::Common);

/// The name of each host, the format of its files, and the files below the home directory, below the directory for
/// settings, and below the current directory.
#[rustfmt::skip]
const HOSTS: [(&str, Format, [&[&str]; 3]); 9] = [
    ("claude-code", COMMON, [&[".claude.json"], &[], &[".mcp.json"]]),
    ("claude-desktop", COMMON, [&[], &["Claude/claude_desktop_config.json"], &[]]),
    ("codex", Format::Toml, [&[".codex/config.toml"], &[], &[".codex/config.toml"]]),
    ("cursor", COMMON, [&[".cursor/mcp.json"], &[], &[".cursor/mcp.json"]]),
    ("vscode", json(&["servers"], JsonShape::Typed), [&[], &["Code/User/mcp.json"], &[".vscode/mcp.json"]]),
    ("gemini", json(&["mcpServers"], JsonShape::Gemini), [&[".gemini/settings.json"], &[], &[".gemini/settings.json"]]),
    ("goose", Format::Yaml, [&[".config/goose/config.yaml"], &["goose/config.yaml"], &[]]),
    ("zed", json(&["context_servers"], JsonShape::Common), [&[], &["zed/settings.json"], &[".zed/settings.json"]]),
    ("opencode", json(&["mcp"], JsonShape::OpenCode), [
        &[],
        &["opencode/opencode.json", "opencode/opencode.jsonc"],
        &["opencode.json", "opencode.jsonc"],
    ]),
];

/// The names of all hosts.
pub(crate) fn host_names() -> impl Iterator<Item = &'static str> {
    HOSTS.into_iter().map(|(name, ..)| name)
}

/// The existing files of a host, or of all hosts; of the current directory too.
pub(crate) fn files_of(host: Option<&str>) -> Vec<HostFile> {
    let home = dirs::home_dir().unwrap_or_default();
    let settings = dirs::config_dir().unwrap_or_else(|| home.join(".config"));
    let here = std::env::current_dir().unwrap_or_default();
    let mut files: Vec<HostFile> = Vec::new();
    let bases = [&home, &settings, &here];
    let is_meant = |name: &str| host.is_none_or(|host| host == name);
    for (name, format, below) in HOSTS.into_iter().filter(|(name, ..)| is_meant(name)) {
        let below = bases.into_iter().zip(below);
        for path in below.flat_map(|(base, names)| names.iter().map(move |it| base.join(it))) {
            let is_known = files.iter().any(|file| file.path == path);
            if !path.is_absolute() || !path.exists() || is_known {
                continue;
            }
            let file = HostFile {
                host: name,
                path,
                project: None,
                format,
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
