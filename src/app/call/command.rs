//! The longhaul command for a call.

use serde_json::{Map, Value};

use crate::{
    app::{CallForm, State},
    domain::{ServerName, text},
};

impl CallForm {
    /// The longhaul command for this call, or errors for unreadable values.
    pub(super) fn command(&self, state: &State) -> Result<String, Vec<String>> {
        let arguments = self.read()?;
        let server = self.server.as_ref().map_or("", ServerName::as_str);
        let name = self.name.text().trim();
        let name = (!name.is_empty()).then_some(name);
        Ok(command(state, server, &self.tool_name, &arguments, name))
    }
}

/// The sanitized longhaul command for a call, quoted for a shell.
pub(in crate::app) fn command(
    state: &State,
    server: &str,
    tool: &str,
    arguments: &Map<String, Value>,
    name: Option<&str>,
) -> String {
    let mut words = vec![tool.to_owned()];
    for (key, value) in arguments {
        words.push(match value {
            // JSON escapes control characters.
            Value::String(text) if !text.contains(char::is_control) => format!("{key}={text}"),
            other => format!("{key}:={other}"),
        });
    }
    // `key=value` can't express these keys.
    let is_odd = |key: &String| key.is_empty() || key.contains(['=', ':']) || key.starts_with('-');
    if arguments.keys().any(is_odd) {
        let json = Value::Object(arguments.clone()).to_string();
        words = vec![tool.to_owned(), "--args".to_owned(), json];
    }
    if let Some(name) = name {
        words.extend(["--name".to_owned(), name.to_owned()]);
    }
    if words.first().is_some_and(|tool| tool.starts_with('-')) {
        words.insert(0, "--".to_owned());
    }
    let quoted: Vec<String> = words.iter().map(|word| text::shell_word(word)).collect();
    let server = text::shell_word(server);
    let flags = &state.setup.flags;
    let line = format!("longhaul{flags} -s {server} call {}", quoted.join(" "));
    text::clean_line(&line).into_owned()
}
