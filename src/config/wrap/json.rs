//! Entries in JSON with comments.

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Object, Value as Node},
    common::Ranged as _,
    parse_to_ast, parse_to_serde_value,
};
use serde_json::{Map, Value, json};

use super::{
    entry::{ProxyCommand, WrapError, WrappableEntry, without_mark},
    hosts::{ANY, JsonShape},
};

/// The members that say how a server is reached; all others stay.
const REPLACED: [&str; 16] = [
    "type",
    "transport",
    "transportType",
    "url",
    "httpUrl",
    "serverUrl",
    "uri",
    "headers",
    "auth",
    "authProviderType",
    "oauth",
    "command",
    "args",
    "env",
    "environment",
    "cwd",
];

const NOT_JSON: WrapError = WrapError::Form("it is not valid JSON");

/// The root object of a text.
fn with_root<T>(
    text: &str,
    read: impl FnOnce(&Object<'_>) -> Result<T, WrapError>,
) -> Result<T, WrapError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    match parsed.map_err(|_| NOT_JSON)?.value {
        Some(Node::Object(root)) => read(&root),
        _ => Err(NOT_JSON),
    }
}

fn member<'o, 'a>(object: &'o Object<'a>, name: &str) -> Option<&'o Node<'a>> {
    let mut members = object.properties.iter();
    let found = members.find(|member| member.name.as_str() == name);
    found.map(|member| &member.value)
}

pub(super) fn entries(text: &str, servers: &[&str]) -> Result<Vec<WrappableEntry>, WrapError> {
    let (text, mark) = without_mark(text);
    with_root(text, |root| {
        let mut tables = vec![root];
        for key in servers {
            let next = tables.iter().flat_map(|table| match *key {
                ANY => table.properties.iter().map(|it| &it.value).collect(),
                key => Vec::from_iter(member(table, key)),
            });
            let next = next.filter_map(|node| match node {
                Node::Object(next) => Some(next),
                _ => None,
            });
            tables = next.collect();
        }
        let members = tables.iter().flat_map(|table| &table.properties);
        let entries = members.filter_map(|member| {
            let Node::Object(value) = &member.value else {
                return None;
            };
            let range = value.range();
            let part = text.get(range.start..range.end)?;
            Some(WrappableEntry {
                name: member.name.as_str().to_owned(),
                fields: parse_to_serde_value(part, &ParseOptions::default()).ok()?,
                range: range.start + mark..range.end + mark,
                unfit: None,
            })
        });
        Ok(entries.collect())
    })
}

/// The text of an entry with the proxy in place of the server. What else it has stays as it is written.
pub(super) fn wrapped(
    original: &str,
    shape: JsonShape,
    command: &ProxyCommand,
) -> Result<String, WrapError> {
    let program = json!(command.program);
    let env = command.env.iter().cloned();
    let mut env: Map<String, Value> = env.map(|(name, value)| (name, value.into())).collect();
    if shape == JsonShape::Gemini {
        for name in &command.forwarded {
            env.entry(name).or_insert(format!("${name}").into());
        }
    }
    let mut members: Vec<String> = match shape {
        JsonShape::Common | JsonShape::Typed | JsonShape::Gemini => {
            let kind = (shape == JsonShape::Typed).then(|| r#""type": "stdio""#.to_owned());
            let words = [
                format!(r#""command": {program}"#),
                format!(r#""args": {}"#, json!(command.args)),
            ];
            kind.into_iter().chain(words).collect()
        }
        JsonShape::OpenCode => {
            let words: Vec<&String> = std::iter::once(&command.program)
                .chain(&command.args)
                .collect();
            vec![
                r#""type": "local""#.to_owned(),
                format!(r#""command": {}"#, json!(words)),
            ]
        }
    };
    if !env.is_empty() {
        let name = match shape {
            JsonShape::OpenCode => "environment",
            _ => "env",
        };
        members.push(format!(r#""{name}": {}"#, Value::Object(env)));
    }
    with_root(original, |root| {
        let kept = root.properties.iter();
        let kept = kept.filter(|member| !REPLACED.contains(&member.name.as_str()));
        let kept = kept.filter_map(|member| original.get(member.range.start..member.range.end));
        members.extend(kept.map(str::to_owned));
        Ok(())
    })?;
    Ok(format!("{{ {} }}", members.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_only_how_the_server_is_reached() {
        let text = "\u{feff}{\r\n  // mine\r\n  \"mcpServers\": {\r\n    \"lab\": {\r\n      \"url\": \"https://lab.example/mcp\", // theirs\r\n      \"timeout\": 5,\r\n    },\r\n  },\r\n}\r\n";
        let entries = entries(text, &["mcpServers"]).unwrap();
        let [entry] = entries.as_slice() else {
            panic!("{entries:?}")
        };
        assert_eq!(
            (entry.name.as_str(), &entry.fields["timeout"]),
            ("lab", &json!(5))
        );
        let original = text.get(entry.range.clone()).unwrap();
        assert!(original.starts_with('{') && original.ends_with('}'));
        let command = ProxyCommand {
            program: "/bin/longhaul".to_owned(),
            args: vec!["proxy".to_owned(), "lab".to_owned()],
            env: vec![("LAB_TOKEN".to_owned(), "x\"y".to_owned())],
            forwarded: Vec::new(),
        };
        let common = wrapped(original, JsonShape::Common, &command).unwrap();
        let expected = r#"{ "command": "/bin/longhaul", "args": ["proxy","lab"], "env": {"LAB_TOKEN":"x\"y"}, "timeout": 5 }"#;
        assert_eq!(common, expected);
        let open_code = wrapped(original, JsonShape::OpenCode, &command).unwrap();
        assert!(
            open_code
                .starts_with(r#"{ "type": "local", "command": ["/bin/longhaul","proxy","lab"]"#)
        );
    }

    #[test]
    fn what_is_no_json_is_refused() {
        assert!(entries("{", &["mcpServers"]).is_err());
        assert!(entries("{}", &["mcpServers"]).unwrap().is_empty());
    }
}
