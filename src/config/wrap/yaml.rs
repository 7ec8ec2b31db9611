//! Entries in Goose's YAML: the members of `extensions`, each on lines of its own.

use serde_json::{Map, Value, json};

use super::entry::{ProxyCommand, WrapError, WrappableEntry};

const SERVERS: &str = "extensions";

/// The keys that say how a server is reached; all others stay. So does `env_keys`: Goose gives their values to the proxy,
/// which passes them on.
const REPLACED: [&str; 7] = ["type", "cmd", "args", "envs", "uri", "headers", "cwd"];

const NOT_BLOCKS: WrapError =
    WrapError::Form("its extensions are not written as one key per line, so edit it by hand");

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// The key of a line `key: ...`.
fn key(line: &str) -> Option<&str> {
    let (key, _) = line.trim().split_once(':')?;
    Some(key.trim_matches(['"', '\'']))
}

pub(super) fn entries(text: &str) -> Result<Vec<WrappableEntry>, WrapError> {
    let parsed: Value =
        serde_saphyr::from_str(text).map_err(|_| WrapError::Form("it is not valid YAML"))?;
    let Some(servers) = parsed.get(SERVERS).and_then(Value::as_object) else {
        return Ok(Vec::new());
    };
    let mut entries: Vec<WrappableEntry> = Vec::new();
    let (mut at, mut is_inside, mut level) = (0, false, None);
    for line in text.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        if !is_content(line) {
            continue;
        }
        if indent(line) == 0 {
            is_inside = key(line) == Some(SERVERS);
            continue;
        }
        if !is_inside {
            continue;
        }
        if indent(line) == *level.get_or_insert(indent(line)) {
            let name = key(line).ok_or(NOT_BLOCKS)?;
            let fields = servers.get(name).and_then(Value::as_object);
            entries.push(WrappableEntry {
                name: name.to_owned(),
                fields: fields.ok_or(NOT_BLOCKS)?.clone(),
                range: begin..at,
                unfit: None,
            });
        } else if let Some(entry) = entries.last_mut() {
            entry.range.end = at;
        }
    }
    if entries.len() == servers.len() {
        Ok(entries)
    } else {
        Err(NOT_BLOCKS)
    }
}

pub(super) fn wrapped(original: &str, name: &str, command: &ProxyCommand) -> String {
    let end = if original.contains("\r\n") {
        "\r\n"
    } else {
        "\n"
    };
    let mut lines = original.split_inclusive('\n');
    let head = lines.next().unwrap_or_default();
    let outer = indent(head);
    if let Some(members) = flow_members(original) {
        let members = members.into_iter();
        let kept = members.filter(|(key, _)| !REPLACED.contains(&key.as_str()));
        let members = Value::Object(replacements(command).into_iter().chain(kept).collect());
        return format!("{}{name}: {members}{end}", " ".repeat(outer));
    }
    let mut level = None;
    let mut kept = String::new();
    let mut is_kept = true;
    for line in lines {
        // The items of a list may have the indentation of its key.
        let is_item = line.trim_start().starts_with('-');
        let is_member =
            is_content(line) && !is_item && indent(line) == *level.get_or_insert(indent(line));
        if is_member {
            is_kept = key(line).is_some_and(|key| !REPLACED.contains(&key));
        }
        if is_kept {
            kept.push_str(line);
        }
    }
    let inner = " ".repeat(level.unwrap_or(outer + 2));
    // JSON is YAML too.
    let lines = replacements(command).into_iter();
    let lines: Vec<String> = lines
        .map(|(key, value)| format!("{inner}{key}: {value}{end}"))
        .collect();
    let members = lines.concat();
    let kept = if kept.is_empty() || kept.ends_with('\n') {
        kept
    } else {
        format!("{kept}{end}")
    };
    format!("{head}{members}{kept}")
}

/// The members of an entry in flow style: `lab: {type: stdio, cmd: npx}`.
fn flow_members(original: &str) -> Option<Map<String, Value>> {
    let head = original.lines().next()?;
    let (_, value) = head.split_once(':')?;
    if value.trim().is_empty() || value.trim_start().starts_with('#') {
        return None;
    }
    let entry: Map<String, Value> = serde_saphyr::from_str(original).ok()?;
    entry.into_iter().next()?.1.as_object().cloned()
}

/// The members that start the proxy.
fn replacements(command: &ProxyCommand) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("type".to_owned(), json!("stdio"));
    members.insert("cmd".to_owned(), json!(command.program));
    members.insert("args".to_owned(), json!(command.args));
    if !command.env.is_empty() {
        let env = command.env.iter();
        let env = env.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        members.insert("envs".to_owned(), Value::Object(env.collect()));
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "GOOSE_MODEL: m\nextensions:\n  # mine\n  lab:\n    enabled: true\n    type: streamable_http\n\
        \x20   uri: https://lab.example/mcp\n    headers:\n      X: y\n    timeout: 300\n  other:\n    type: builtin\nlast: 1\n";

    #[test]
    fn replaces_the_lines_of_one_server() {
        let entries = entries(TEXT).unwrap();
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["lab", "other"]);
        let lab = entries.first().unwrap();
        let original = TEXT.get(lab.range.clone()).unwrap();
        assert!(original.starts_with("  lab:\n") && original.ends_with("timeout: 300\n"));
        let command = ProxyCommand {
            program: "longhaul".to_owned(),
            args: vec!["proxy".to_owned(), "lab".to_owned()],
            env: Vec::new(),
            forwarded: Vec::new(),
        };
        let expected = "  lab:\n    type: \"stdio\"\n    cmd: \"longhaul\"\n    args: [\"proxy\",\"lab\"]\n    enabled: true\n    timeout: 300\n";
        assert_eq!(wrapped(original, "lab", &command), expected);
    }

    #[test]
    fn lists_at_the_indentation_of_their_key_go_with_it() {
        let text = "extensions:\n  lab:\n    type: stdio\n    cmd: npx\n    args:\n    - -y\n    - https://lab.example/mcp\n\
            \x20   env_keys:\n    - LAB_TOKEN\n    timeout: 300\n";
        let entry = entries(text).unwrap().remove(0);
        let original = text.get(entry.range).unwrap();
        let command = ProxyCommand {
            program: "longhaul".to_owned(),
            args: vec!["proxy".to_owned(), "lab".to_owned()],
            env: Vec::new(),
            forwarded: Vec::new(),
        };
        let lab = wrapped(original, "lab", &command);
        let lab = entries(&format!("extensions:\n{lab}")).unwrap().remove(0);
        assert!(lab.is_wrapped());
        assert_eq!(lab.fields.get("args"), Some(&json!(["proxy", "lab"])));
        assert_eq!(lab.fields.get("env_keys"), Some(&json!(["LAB_TOKEN"])));
    }

    #[test]
    fn an_entry_in_flow_style_keeps_its_other_members() {
        let text = "extensions:\n  lab: {type: stdio, cmd: npx, args: [-y], name: lab, enabled: true, timeout: 9}\n";
        let entry = entries(text).unwrap().remove(0);
        let command = ProxyCommand {
            program: "longhaul".to_owned(),
            args: vec!["proxy".to_owned(), "lab".to_owned()],
            env: Vec::new(),
            forwarded: Vec::new(),
        };
        let lab = wrapped(text.get(entry.range).unwrap(), "lab", &command);
        let lab = entries(&format!("extensions:\n{lab}")).unwrap().remove(0);
        assert!(lab.is_wrapped());
        assert_eq!(lab.fields.get("enabled"), Some(&json!(true)));
        assert_eq!(lab.fields.get("timeout"), Some(&json!(9)));
    }

    #[test]
    fn flow_style_of_all_is_refused() {
        assert!(entries("extensions: {lab: {type: stdio}}\n").is_err());
    }
}
