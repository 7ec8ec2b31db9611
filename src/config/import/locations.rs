//! Where other programs keep their MCP servers, and safe reading of files that somebody else may have put there.

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use super::{entry::Editor, reason::FileError};
use crate::{config::wrap::files_of, store::open_directly};

/// The largest file that is read. Claude Code keeps its history in the same file as its servers.
const MAX_BYTES: u64 = 8 << 20;

/// The known files that exist, those of the user before those of the current directory.
pub(crate) fn existing() -> Vec<PathBuf> {
    let home = dirs::home_dir().unwrap_or_default();
    let settings = dirs::config_dir().unwrap_or_else(|| home.join(".config"));
    let mut files: Vec<PathBuf> = files_of(None).into_iter().map(|file| file.path).collect();
    // `wrap` does not change these.
    let only_imported = [
        home.join(".mcp-inspector/mcp.json"),
        home.join(".codeium/windsurf/mcp_config.json"),
        home.join(".cline/data/settings/cline_mcp_settings.json"),
        settings.join(
            "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ),
    ];
    let exists = |file: &PathBuf| file.is_absolute() && file.symlink_metadata().is_ok();
    files.extend(only_imported.into_iter().filter(exists));
    files.sort_by_key(|file| project_directory(file).is_some_and(|it| it != home));
    // A file with servers of several projects is there once for the user and once for this project.
    files.dedup();
    files
}

/// The values that the editor of this file would fill in.
pub(crate) fn editor_for(path: &Path) -> Editor {
    let home = dirs::home_dir();
    let path = std::path::absolute(path).unwrap_or_default();
    let is_in = |folder: &str| path.parent().is_some_and(|parent| parent.ends_with(folder));
    let to_text = |path: PathBuf| path.into_os_string().into_string().ok();
    let directory = project_directory(&path).filter(|it| Some(*it) != home.as_deref());
    let directory = directory.map(Path::to_owned).and_then(to_text);
    Editor {
        workspace: directory
            .clone()
            .filter(|_| is_in(".vscode") || is_in(".cursor")),
        directory,
        home: home.and_then(to_text),
        keeps_values: false,
    }
}

/// The project that a file of servers belongs to; `None` for one that holds the servers of a user.
fn project_directory(file: &Path) -> Option<&Path> {
    let parent = file.parent()?;
    let in_folder = [".vscode", ".cursor", ".gemini", ".codex", ".zed"];
    if in_folder.iter().any(|folder| parent.ends_with(folder)) {
        return parent.parent();
    }
    let settings = dirs::config_dir().unwrap_or_default();
    let is_user_file = parent.ends_with(".config/opencode") || parent == settings.join("opencode");
    let names = [".mcp.json", "opencode.json", "opencode.jsonc"];
    let is_named = names.iter().any(|name| file.ends_with(name));
    (is_named && !is_user_file).then_some(parent)
}

/// Reads a regular file of reasonable size. Errors follow `FILE: ` in a message.
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    if path
        .symlink_metadata()
        .is_ok_and(|found| found.is_symlink())
    {
        // Otherwise the creator of the link could choose which file is read.
        let target = path.canonicalize().unwrap_or_default();
        return Err(FileError::Symlink(target.display().to_string()));
    }
    let failed = |error: io::Error| FileError::Io(error.to_string());
    // The check above has the better message; this also covers a file swapped in since.
    let file = open_directly(path, OpenOptions::new().read(true)).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(FileError::NotRegular);
    }
    if found.len() > MAX_BYTES {
        return Err(FileError::TooLarge);
    }
    let read = io::read_to_string(file.take(MAX_BYTES + 1));
    let text = read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => FileError::NotText,
        _ => failed(error),
    })?;
    if u64::try_from(text.len()).is_ok_and(|read| read > MAX_BYTES) {
        return Err(FileError::TooLarge);
    }
    Ok(text)
}
