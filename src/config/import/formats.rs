//! Parses the files in which other programs keep their MCP servers: JSON with comments, TOML or YAML, each with its own keys.
//!
//! Must not know of files, screens or the environment: a text goes in, entries come out. Invariants: errors never quote
//! the text, because it may be any file of the user's; variables are never expanded.

use std::path::Path;

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use super::{
    entry::{Editor, read},
    reason::FileError,
    server::ImportEntry,
};
use crate::config::{import::entry::Dialect, settings::line_of};

/// The deepest nesting allowed, well above that of real files.
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
    let options = jsonc_parser::ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..jsonc_parser::ParseOptions::default()
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value =
        jsonc_parser::parse_to_serde_value(text, &options).map_err(|error| FileError::Syntax {
            format: "JSON",
            line: line_of(text, error.range().start),
        })?;
    if is_deeper(&value, MAX_DEPTH) {
        return Err(FileError::TooDeep);
    }
    Ok(value)
}

fn is_deeper(value: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else {
        return value.is_array() || value.is_object();
    };
    match value {
        Value::Array(all) => all.iter().any(|value| is_deeper(value, below)),
        Value::Object(all) => all.values().any(|value| is_deeper(value, below)),
        _ => false,
    }
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
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        FileError::Syntax {
            format: "TOML",
            line: line_of(text, at),
        }
    })?;
    Ok(of_table(table.get_ref()))
}

fn of_table(table: &DeTable<'_>) -> Value {
    let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        (key.to_string(), of_toml(value.get_ref()))
    };
    Value::Object(table.iter().map(entry).collect())
}

/// Numbers and dates become text, which is how a server's settings use them.
fn of_toml(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(switch) => Value::Bool(*switch),
        DeValue::Integer(number) => Value::String(number.as_str().to_owned()),
        DeValue::Float(number) => Value::String(number.as_str().to_owned()),
        DeValue::Datetime(at) => Value::String(at.to_string()),
        DeValue::Array(all) => {
            Value::Array(all.iter().map(|value| of_toml(value.get_ref())).collect())
        }
        DeValue::Table(table) => of_table(table),
    }
}
