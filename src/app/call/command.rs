//! The longhaul command for a call.

use serde_json::{Map, Value};

use crate::{app::State, domain::text};

/// The sanitized longhaul command for a call, quoted for a shell.
pub(in crate::app) fn command(
    state: &State,
    server: &str,
    tool: &str,
    arguments: &Map<String, Value>,
    name: Option<&str>,
) -> String {
    let mut operands = vec![tool.to_owned()];
    let mut options = Vec::new();
    // `key=value` can't express these keys.
    let is_odd = |key: &String| {
        key.is_empty() || key.contains(['=', ':']) || key.starts_with('-') || !is_plain(key)
    };
    if arguments.keys().any(is_odd) {
        let json = plain_json(&Value::Object(arguments.clone()));
        options.extend(["--args".to_owned(), json]);
    } else {
        operands.extend(arguments.iter().map(|(key, value)| match value {
            Value::String(text) if is_plain(text) => format!("{key}={text}"),
            other => format!("{key}:={}", plain_json(other)),
        }));
    }
    options.extend(name.map(|name| format!("--name={name}")));
    let words = if tool.starts_with('-') {
        options.push("--".to_owned());
        [options, operands].concat()
    } else {
        [operands, options].concat()
    };
    let quoted: Vec<String> = words.iter().map(|word| text::shell_word(word)).collect();
    let server = text::shell_word(server);
    let flags = &state.setup.flags;
    let line = format!("longhaul{flags} -s {server} call {}", quoted.join(" "));
    // What is left are the names of the tool, of the server and of the task.
    text::clean_line(&line).into_owned()
}

/// Whether a terminal shows a text as it is.
fn is_plain(text: &str) -> bool {
    text::clean_line(text) == text
}

/// JSON that a terminal shows as it is.
fn plain_json(value: &Value) -> String {
    let json = value.to_string();
    if is_plain(&json) {
        return json;
    }
    text::json_with_escapes(&json, |letter| !letter.is_ascii())
}
