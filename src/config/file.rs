//! Where the file is, and reading it.

use std::{
    io::{ErrorKind, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use secrecy::ExposeSecret as _;

use super::{error::ConfigError, secret::env_secret};
use crate::{
    app::ConfigReread,
    config::{error::PATH_VARIABLE, settings::Config},
    domain::{ServerConfig, ServerConfigs, Variables, text},
    engine::USUAL_ENVIRONMENT,
};

/// Larger files are refused; they are probably not configuration.
pub(crate) const MAX_BYTES: u64 = 1 << 20;

/// The path of the file, whether it exists or not; `None` without a home directory.
pub(crate) fn path() -> Option<PathBuf> {
    let from_environment = std::env::var_os(PATH_VARIABLE).filter(|path| !path.is_empty());
    let default = || Some(dirs::config_dir()?.join("longhaul").join("config.toml"));
    from_environment.map(PathBuf::from).or_else(default)
}

/// The error for a file that is set in the environment but does not exist; the default file may be missing.
pub(crate) fn missing() -> Option<ConfigError> {
    let path =
        path().filter(|_| std::env::var_os(PATH_VARIABLE).is_some_and(|it| !it.is_empty()))?;
    let found = std::fs::symlink_metadata(&path);
    let is_missing = found.is_err_and(|error| error.kind() == ErrorKind::NotFound);
    is_missing.then(|| ConfigError::Missing {
        path: path.display().to_string(),
    })
}

/// `servers` with the canonical path of the configuration file, to hand to the engine.
pub(crate) fn server_configs(servers: Vec<ServerConfig>) -> ServerConfigs {
    // Through its directory if the file does not exist yet, so that its path stays the same once it does.
    let canonical = |path: &Path| {
        let of_dir = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
        path.canonicalize().ok().or_else(of_dir)
    };
    let file = path().map(|path| std::path::absolute(&path).unwrap_or(path));
    let file = file.map(|path| canonical(&path).unwrap_or(path));
    let directory = std::env::current_dir().ok();
    ServerConfigs {
        file: file.map(|file| file.to_string_lossy().into_owned()),
        variables: variables(&servers),
        servers,
        directory: directory.map(|it| it.to_string_lossy().into_owned()),
        insecure_http: false,
    }
}

/// What this process has of the variables that the servers name. The driver uses none of a server that the user has not
/// allowed yet.
fn variables(servers: &[ServerConfig]) -> Variables {
    let has_program = servers.iter().any(|server| server.program.is_some());
    let usual = USUAL_ENVIRONMENT.iter().filter(|_| has_program);
    servers
        .iter()
        .flat_map(ServerConfig::all_variables)
        .chain(usual.map(|name| (*name).to_owned()))
        .filter_map(|name| {
            let value = env_secret(&name)?.expose_secret().to_owned();
            // Some hosts pass on a reference to a variable that they don't have.
            let is_reference = [format!("${name}"), format!("${{{name}}}")].contains(&value);
            (!is_reference).then_some((name, value))
        })
        .collect()
}

/// Reads the servers from the file; `None` if it cannot be read.
pub(crate) fn read_server_configs() -> Option<ServerConfigs> {
    let config = read(path().as_deref()).ok()?;
    Some(server_configs(config.servers))
}

/// What tells a file from an earlier version of it, without reading it: when it was modified, its length and, as an editor
/// may replace the file by another one, its inode.
pub(crate) type FileMark = Option<(i64, i64, u64, u64)>;

/// The current state of the file, to detect later changes.
pub(crate) fn mark() -> FileMark {
    let found = path()?.metadata().ok()?;
    Some((found.mtime(), found.mtime_nsec(), found.len(), found.ino()))
}

/// The servers, if the file has changed since `mark`. A missing or empty file has not: an editor may be about to write it.
pub(crate) fn changed_servers(mark: &mut FileMark) -> Option<ServerConfigs> {
    let now = self::mark();
    let (.., length, _) = now.filter(|_| now != *mark)?;
    let servers = read_server_configs().filter(|_| length > 0)?;
    *mark = now;
    Some(servers)
}

/// Reads the file; a missing file is an empty configuration. The error names the line to fix.
pub(crate) fn read(path: Option<&Path>) -> Result<Config, ConfigError> {
    let Some(path) = path else {
        return Ok(Config::default());
    };
    let text = load(path)?;
    parse(path, &text)
}

/// Reads the config again for an open TUI. `None` if the file has not changed, unless `force` is set.
pub(crate) fn reread(
    mark: &mut FileMark,
    force: bool,
) -> Option<Result<ConfigReread, ConfigError>> {
    let now = self::mark();
    if std::mem::replace(mark, now) == now && !force {
        return None;
    }
    let path = path();
    Some(read(path.as_deref()).map(|mut config| ConfigReread {
        file: path.map_or(String::new(), |path| path.display().to_string()),
        theme: config.theme.unwrap_or_default(),
        settings: config.take_settings(),
        warnings: config.notices,
        server_configs: server_configs(config.servers),
    }))
}

/// The text of the file, empty if it does not exist.
pub(crate) fn load(path: &Path) -> Result<String, ConfigError> {
    let failed = |why: &dyn std::fmt::Display| ConfigError::Unreadable {
        path: path.display().to_string(),
        why: why.to_string(),
    };
    let opened = match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
        opened => opened.map_err(|error| failed(&error))?,
    };
    let read = std::io::read_to_string(opened.take(MAX_BYTES + 1));
    let text = read.map_err(|error| failed(&error))?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes > MAX_BYTES) {
        return Err(failed(&"it is too large"));
    }
    Ok(text)
}

/// Parses the text of the file at `path`; the error names the line to fix.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let file = path.display().to_string();
    Config::parse(&file, text).map_err(|(line, why)| ConfigError::Syntax {
        path: file,
        line,
        why: text::clean_line(&why).into_owned(),
    })
}
