//! Entries in Codex's TOML: `[mcp_servers.NAME]` and the tables below it, or `NAME = { ... }` below `[mcp_servers]`.

use std::ops::Range;

use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Table, value};

use super::entry::{ProxyCommand, WrapError, WrappableEntry, without_mark};
use crate::config::import::formats;

const SERVERS: &str = "mcp_servers";

/// The keys that say how a server is reached; all others stay.
const REPLACED: [&str; 11] = [
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "bearer_token",
    "bearer_token_env_var",
    "http_headers",
    "env_http_headers",
    "oauth",
    "oauth_resource",
];

const NOT_TOML: WrapError = WrapError::Form("it is not valid TOML");

const SCATTERED: &str = "its tables are not in one place; move them together first";

const NO_TABLE: &str =
    "it is in an inline table or uses dotted keys; move it to a [mcp_servers.NAME] table first";

pub(super) fn entries(text: &str) -> Result<Vec<WrappableEntry>, WrapError> {
    let (text, mark) = without_mark(text);
    let document = Document::parse(text).map_err(|_| NOT_TOML)?;
    let table = document.get(SERVERS);
    let Some(servers) = table.and_then(Item::as_table_like) else {
        return Ok(Vec::new());
    };
    let values = formats::toml(text).map_err(|_| NOT_TOML)?;
    let fields_of = |name: &str| values.get(SERVERS)?.get(name)?.as_object().cloned();
    let mut entries = Vec::new();
    for (name, item) in servers.iter().filter(|(_, item)| item.is_table_like()) {
        let range = match item {
            Item::Table(table) if !table.is_dotted() => region(text, name).ok_or(SCATTERED),
            _ => {
                let servers = table.and_then(Item::as_table);
                let line = servers.and_then(|servers| line(servers, name));
                line.ok_or(NO_TABLE)
            }
        };
        let place = range.clone().unwrap_or_default();
        entries.push(WrappableEntry {
            name: name.to_owned(),
            fields: fields_of(name).unwrap_or_default(),
            range: place.start + mark..place.end + mark,
            unfit: range.err(),
        });
    }
    Ok(entries)
}

/// The name of the table that a line opens, as its keys.
fn header(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    if !line.starts_with('[') {
        return None;
    }
    let document: DocumentMut = line.parse().ok()?;
    let mut keys = Vec::new();
    let mut here = document.as_table();
    while let Some((key, item)) = here.iter().next() {
        keys.push(key.to_owned());
        here = match item {
            Item::Table(table) => table,
            Item::ArrayOfTables(tables) => tables.get(0)?,
            _ => break,
        };
    }
    Some(keys)
}

/// The text of `NAME = { ... }`.
fn line(servers: &Table, name: &str) -> Option<Range<usize>> {
    let (key, item) = servers.get_key_value(name)?;
    item.as_inline_table()?;
    Some(key.span()?.start..item.span()?.end)
}

/// The text of a server's tables, from the first header to the next one of another table; `None` if they are in several
/// places.
fn region(text: &str, name: &str) -> Option<Range<usize>> {
    let mut found: Option<Range<usize>> = None;
    let (mut at, mut is_inside) = (0, false);
    for line in text.split_inclusive('\n') {
        if let Some(keys) = header(line) {
            let is_ours = matches!(keys.as_slice(), [servers, server, ..] if servers == SERVERS && server == name);
            if is_ours && !is_inside && found.is_some() {
                return None;
            }
            if is_ours && found.is_none() {
                found = Some(at..at);
            }
            is_inside = is_ours;
        }
        at += line.len();
        if let Some(found) = found.as_mut().filter(|_| is_inside) {
            // Blank lines and comments before the next table belong to that.
            let is_content = !line.trim().is_empty() && !line.trim_start().starts_with('#');
            if is_content {
                found.end = at;
            }
        }
    }
    found
}

pub(super) fn wrapped(
    original: &str,
    name: &str,
    command: &ProxyCommand,
) -> Result<String, WrapError> {
    let mut document: DocumentMut = original.parse().map_err(|_| NOT_TOML)?;
    let entry = if document.contains_key(SERVERS) {
        (document.get_mut(SERVERS)).and_then(|servers| servers.get_mut(name))
    } else {
        document.get_mut(name)
    };
    let table = entry.and_then(Item::as_table_like_mut).ok_or(NOT_TOML)?;
    for key in REPLACED {
        table.remove(key);
    }
    table.insert("command", value(command.program.as_str()));
    table.insert("args", value(command.args.iter().collect::<Array>()));
    if !command.env.is_empty() {
        let env = command.env.iter();
        let env = env.map(|(name, value)| (name.as_str(), value.as_str()));
        let env: InlineTable = env.collect();
        table.insert("env", value(env));
    }
    let is_new = |name: &&String| !command.env.iter().any(|(own, _)| own == *name);
    let forwarded = command.forwarded.iter().filter(is_new);
    let listed = table.get("env_vars").and_then(Item::as_array);
    let mut variables = listed.cloned().unwrap_or_default();
    let name_of = |it: &toml_edit::Value| {
        let table = it.as_inline_table();
        let name = table.map_or(Some(it), |table| table.get("name"));
        name.and_then(|name| name.as_str().map(str::to_owned))
    };
    for name in forwarded {
        if !variables
            .iter()
            .any(|it| name_of(it).as_ref() == Some(name))
        {
            variables.push(name);
        }
    }
    if !variables.is_empty() {
        table.insert("env_vars", value(variables));
    }
    let mut text = document.to_string();
    if !original.ends_with('\n') {
        text.truncate(text.trim_end().len());
    }
    Ok(if original.contains("\r\n") {
        text.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# mine\nmodel = \"m\"\n\n[mcp_servers.lab]\nurl = \"https://lab.example/mcp\" # theirs\n\
        tool_timeout_sec = 5\n\n[mcp_servers.lab.http_headers]\nX-Key = \"v\"\n\n# next\n[mcp_servers.\"other one\"]\n\
        command = \"x\"\n";

    #[test]
    fn replaces_the_tables_of_one_server() {
        let entries = entries(TEXT).unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["lab", "other one"]);
        let lab = entries.first().unwrap();
        assert_eq!(lab.fields["http_headers"]["X-Key"], "v");
        let original = TEXT.get(lab.range.clone()).unwrap();
        assert!(original.starts_with("[mcp_servers.lab]") && original.ends_with("\"v\"\n"));
        let command = ProxyCommand {
            program: "longhaul".to_owned(),
            args: vec!["proxy".to_owned(), "lab".to_owned()],
            env: vec![("LAB_X_KEY".to_owned(), "v".to_owned())],
            forwarded: Vec::new(),
        };
        let expected = "[mcp_servers.lab]\ntool_timeout_sec = 5\ncommand = \"longhaul\"\nargs = [\"proxy\", \"lab\"]\n\
            env = { LAB_X_KEY = \"v\" }\n";
        assert_eq!(wrapped(original, "lab", &command).unwrap(), expected);
    }

    #[test]
    fn replaces_an_inline_table() {
        let text = "[mcp_servers]\nlab = { url = \"https://lab.example/mcp\", enabled = true } # mine\nother = { command = \"x\" }\n";
        let entries = entries(text).unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["lab", "other"]);
        let original = text.get(entries[0].range.clone()).unwrap();
        assert!(
            original.starts_with("lab = {") && original.ends_with('}'),
            "{original}"
        );
        let command = ProxyCommand {
            program: "longhaul".to_owned(),
            args: vec!["proxy".to_owned(), "lab".to_owned()],
            env: Vec::new(),
            forwarded: Vec::new(),
        };
        let new = wrapped(original, "lab", &command).unwrap();
        assert_eq!(
            new,
            "lab = { enabled = true , command = \"longhaul\", args = [\"proxy\", \"lab\"] }"
        );
    }

    #[test]
    fn only_the_server_that_is_not_in_one_place_is_refused() {
        let scattered =
            "[mcp_servers.a]\ncommand = \"x\"\n[other]\n[mcp_servers.a.env]\nX = \"y\"\n";
        let dotted = "[mcp_servers]\na.command = \"x\"\n";
        for (text, why) in [(scattered, SCATTERED), (dotted, NO_TABLE)] {
            // With a byte order mark.
            let text = format!("\u{feff}[mcp_servers.b]\ncommand = \"x\"\n{text}");
            let entries = entries(&text).unwrap();
            let unfit = |name: &str| entries.iter().find(|it| it.name == name).unwrap().unfit;
            assert_eq!((unfit("a"), unfit("b")), (Some(why), None));
            let other = entries.iter().find(|it| it.name == "b").unwrap();
            let other = text.get(other.range.clone()).unwrap();
            assert_eq!(other, "[mcp_servers.b]\ncommand = \"x\"\n");
        }
        let inline = entries("mcp_servers = { a = { command = \"x\" } }\n").unwrap();
        assert_eq!(inline[0].unfit, Some(NO_TABLE));
    }
}
