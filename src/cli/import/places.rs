//! Where other programs keep their MCP servers, and the careful reading of a file that anybody may have put there.

use std::{
    fs::OpenOptions,
    io::{ErrorKind, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use super::entry::Editor;

/// The largest file that is read: one of these programs keeps its whole history beside its servers.
const BYTES: u64 = 8 << 20;

/// The files that may be there, the user's own before those of the directory that longhaul was started in.
pub(super) fn known() -> Vec<PathBuf> {
    let home = dirs::home_dir().unwrap_or_default();
    let settings = dirs::config_dir().unwrap_or_else(|| home.join(".config"));
    let of_user = [
        settings.join("Claude/claude_desktop_config.json"),
        home.join(".claude.json"),
        home.join(".cursor/mcp.json"),
        settings.join("Code/User/mcp.json"),
        home.join(".mcp-inspector/mcp.json"),
        home.join(".codeium/windsurf/mcp_config.json"),
        settings.join(
            "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        ),
        home.join(".cline/data/settings/cline_mcp_settings.json"),
        home.join(".gemini/settings.json"),
        home.join(".codex/config.toml"),
        home.join(".config/goose/config.yaml"),
    ];
    let of_project = [
        ".mcp.json",
        ".cursor/mcp.json",
        ".vscode/mcp.json",
        ".gemini/settings.json",
        ".codex/config.toml",
    ];
    let here = std::env::current_dir().unwrap_or_default();
    let mut places: Vec<PathBuf> = Vec::new();
    for place in of_user
        .into_iter()
        .chain(of_project.into_iter().map(|place| here.join(place)))
    {
        if place.is_absolute() && !places.contains(&place) && place.symlink_metadata().is_ok() {
            places.push(place);
        }
    }
    places
}

/// What the editor of this file fills into it. Only a file of a project tells which directory it is for.
pub(super) fn editor_of(path: &Path) -> Editor {
    let home = dirs::home_dir();
    let workspace = std::path::absolute(path).ok().and_then(|path| {
        let settings = path.parent()?;
        let is_editors = settings.ends_with(".vscode") || settings.ends_with(".cursor");
        settings.parent().filter(|_| is_editors).map(Path::to_owned)
    });
    let text_of = |path: PathBuf| path.into_os_string().into_string().ok();
    Editor {
        workspace: workspace
            .filter(|workspace| Some(workspace) != home.as_ref())
            .and_then(text_of),
        home: home.and_then(text_of),
    }
}

/// The text of a plain file of a reasonable size; fails in words that go on after `FILE: `.
pub(super) fn text_of(path: &Path) -> Result<String, String> {
    if path
        .symlink_metadata()
        .is_ok_and(|found| found.is_symlink())
    {
        // Whoever put the link into a directory would choose what is read.
        let target = path.canonicalize().unwrap_or_default();
        return Err(format!(
            "it is a link, and none is followed; if you trust it, import {} itself",
            target.display()
        ));
    }
    // Checked above in words; the flags hold even if something is put there in between, and no pipe is waited for.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let too_large = || "it is too large for a list of servers".to_owned();
    if found.len() > BYTES {
        return Err(too_large());
    }
    let mut text = String::new();
    let read = file.take(BYTES + 1).read_to_string(&mut text);
    let read = read.map_err(|error| match error.kind() {
        ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    })?;
    if u64::try_from(read).is_ok_and(|read| read > BYTES) {
        return Err(too_large());
    }
    Ok(text)
}
