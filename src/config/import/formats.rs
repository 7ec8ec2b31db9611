//! Parses the files in which other programs keep their MCP servers: JSON with comments, TOML or YAML, each with its own keys.
//!
//! Must not know of files, screens or the environment: a text goes in, entries come out. Invariants: errors never quote
//! the text, because it may be any file of the user's; variables are never expanded.

use std::path::Path;

use serde_json::{Map, Value};

use super::{
    entry::{Editor, read},
    reason::FileError,
    server::ImportEntry,
};
use crate::config::{import::entry::Dialect, settings::line_of};

/// The deepest nesting of a YAML file, well above that of real files; the other parsers have limits of their own.
const MAX_DEPTH: usize = 64;

/// The most aliases in a YAML file; each can expand to the size of the file.
const MAX_ALIASES: usize = 64;

/// Reads the text of the file at `path`, with the values of its editor filled in. Errors follow `FILE: ` in a message.
pub(crate) fn entries(
    path: &Path,
    text: &str,
    editor: &Editor,
) -> Result<Vec<ImportEntry>, FileError> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let (value, dialect) = match extension {
        Some("toml") => (toml(text)?, Dialect::Common),
        Some("yaml" | "yml") => (yaml(text)?, Dialect::Goose),
        _ => (json(text)?, dialect_of(path)),
    };
    let Value::Object(file) = value else {
        return Err(FileError::NotTable);
    };
    let mut groups: Vec<&Map<String, Value>> = Vec::new();
    let table_at = |keys: &[&str]| {
        let mut here = Some(&file);
        for key in keys {
            here = here.and_then(|here| here.get(*key)?.as_object());
        }
        here
    };
    // Claude, Cursor, Windsurf, Cline, Gemini and Inspector; VS Code; its settings; Codex; Goose.
    for keys in [
        &["mcpServers"][..],
        &["servers"],
        &["mcp", "servers"],
        &["mcp_servers"],
        &["extensions"],
        // Zed; opencode.
        &["context_servers"],
        &["mcp"],
    ] {
        groups.extend(table_at(keys));
    }
    // Claude Code keeps the servers of each project under the path of its directory.
    let projects = table_at(&["projects"]).into_iter().flatten();
    let of_projects = projects.filter_map(|(directory, project)| {
        let editor = Editor {
            directory: Some(directory.clone()),
            ..editor.clone()
        };
        Some((editor, project.get("mcpServers")?.as_object()?))
    });
    let groups = groups.into_iter().map(|group| (editor.clone(), group));
    let groups: Vec<(Editor, &Map<String, Value>)> = groups.chain(of_projects).collect();
    if groups.is_empty() {
        return Err(FileError::NoServers);
    }
    let all = groups.iter().flat_map(|(editor, group)| {
        let entries = group.iter();
        entries.map(move |(name, value)| read(name, value, dialect, editor))
    });
    Ok(all.collect())
}

/// Reads one entry of the file at `path`.
pub(crate) fn entry(path: &Path, name: &str, fields: &Value, editor: &Editor) -> ImportEntry {
    read(name, fields, dialect_of(path), editor)
}

fn dialect_of(path: &Path) -> Dialect {
    let extension = path.extension().and_then(|extension| extension.to_str());
    if matches!(extension, Some("yaml" | "yml")) {
        return Dialect::Goose;
    }
    let is_gemini = path.components().any(|part| part.as_os_str() == ".gemini");
    if is_gemini {
        Dialect::Gemini
    } else {
        Dialect::Common
    }
}

fn json(text: &str) -> Result<Value, FileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let options = jsonc_parser::ParseOptions::default();
    jsonc_parser::parse_to_serde_value(text, &options).map_err(|error| FileError::Syntax {
        format: "JSON",
        line: line_of(text, error.range().start),
    })
}

fn yaml(text: &str) -> Result<Value, FileError> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_aliases: MAX_ALIASES,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        FileError::Syntax {
            format: "YAML",
            line: usize::try_from(line).unwrap_or(usize::MAX),
        }
    })
}

pub(in crate::config) fn toml(text: &str) -> Result<Value, FileError> {
    toml::from_str(text).map_err(|error| FileError::Syntax {
        format: "TOML",
        line: line_of(text, error.span().map_or(0, |span| span.start)),
    })
}
