//! Parses lines typed on the screen, in the syntax of the command line.

use serde_json::Value;
use thiserror::Error;

use crate::domain::{ArgumentKind, ArgumentSpec, TaskId, has_large_integer};

/// A typed argument, `key=value` or `key:=json`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedArgument {
    /// The name of the argument.
    pub(crate) key: String,
    /// The value.
    pub(crate) value: TypedValue,
}

/// A typed value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TypedValue {
    /// Text; the tool's schema determines its type.
    Text(String),
    /// JSON.
    Json(Value),
}

/// A text that is no value of its argument's type.
#[derive(Debug, Error)]
#[error("{key} must be {expected}, not {typed:?}")]
pub(crate) struct WrongType {
    key: String,
    expected: String,
    typed: String,
}

impl TypedArgument {
    /// Its value; the spec decides the type of a text.
    pub(crate) fn read(self, spec: Option<&ArgumentSpec>) -> Result<Value, WrongType> {
        match (self.value, spec) {
            (TypedValue::Json(value), _) => Ok(value),
            (TypedValue::Text(typed), Some(spec))
                if matches!(spec.kind, ArgumentKind::Integer | ArgumentKind::Number)
                    && has_large_integer(&typed) =>
            {
                Err(WrongType {
                    key: self.key,
                    expected: "a number that fits in 64 bits (--args takes larger ones)".to_owned(),
                    typed,
                })
            }
            (TypedValue::Text(typed), Some(spec)) => spec.parse(&typed).ok_or_else(|| WrongType {
                key: self.key,
                expected: spec.expected(),
                typed,
            }),
            (TypedValue::Text(typed), None) => Ok(Value::String(typed)),
        }
    }

    /// Its value; text that the spec does not accept stays text.
    pub(crate) fn read_unchecked(self, spec: Option<&ArgumentSpec>) -> Value {
        match self.value {
            TypedValue::Json(value) => value,
            TypedValue::Text(typed) => spec
                .filter(|_| !has_large_integer(&typed))
                .and_then(|spec| spec.parse(&typed))
                .unwrap_or(Value::String(typed)),
        }
    }
}

/// A typed call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TypedCall {
    /// The server's name or URL, if given.
    pub(super) server: Option<String>,
    /// The tool's name, or words to search for.
    pub(super) tool: String,
    /// The arguments.
    pub(super) arguments: Vec<TypedArgument>,
    /// The user's name for the task; empty if not given.
    pub(super) name: String,
}

/// Splits a line into words as a shell does. Quotes only count at the start of a word or value, so that JSON can be typed
/// without extra quoting. An unclosed quote extends to the end.
pub(super) fn split_words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let (mut open, mut is_quoted) = (None, false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let so_far = word.as_deref().unwrap_or_default();
        let is_start = so_far.is_empty() || so_far.ends_with('=') && !so_far.ends_with(":=");
        match (open, letter) {
            (Some(quote), _) if letter == quote => open = None,
            (None, '\'' | '"') if is_start || is_quoted => {
                (open, is_quoted) = (Some(letter), true);
                word.get_or_insert_default();
            }
            (None, '\\') if letters.peek().is_some_and(|it| " '\"\\".contains(*it)) => {
                word.get_or_insert_default().extend(letters.next());
            }
            (None, _) if letter.is_whitespace() => {
                words.extend(word.take());
                is_quoted = false;
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Why a typed line can't be carried out.
#[derive(Debug, Error)]
pub(crate) enum TypedLineError {
    /// The value after `key:=` is no JSON.
    #[error("the value of {key} is not valid JSON ({error}); for text, use {key}=VALUE")]
    Json {
        /// The key.
        key: String,
        /// What is wrong with the value.
        error: serde_json::Error,
    },
    /// It has a whole number that JSON libraries would round.
    #[error(
        "{0} contains a whole number that doesn't fit in 64 bits and would be rounded; use `longhaul call` with --args"
    )]
    TooLarge(String),
    /// A flag that only the command line has.
    #[error("{0} is not supported here; use -s, --name and key=value")]
    Flag(String),
    /// Something else where an argument belongs.
    #[error("{0} is not supported here; use key=value")]
    NotAnArgument(String),
    /// Something else where a task id belongs.
    #[error("{0} is not supported here; give only task ids")]
    NotATask(String),
    /// No task has such an id.
    #[error("no task id starts with {0}; press 1 for the list")]
    UnknownTask(String),
    /// Several tasks have such an id.
    #[error("{0} matches several tasks")]
    AmbiguousTask(String),
    /// The list doesn't show the task.
    #[error("{0} is hidden by the filter or folded")]
    HiddenTask(TaskId),
    /// A command that takes one task has several.
    #[error("{0} takes one task")]
    OneTask(String),
    /// No id is given, and the pane selects something other than tasks. Holds the key that shows the tasks.
    #[error("choose a task first; press {0} for the list")]
    NoTaskHere(String),
    /// No id is given, and the cursor is on no task.
    #[error("no task to act on")]
    NoTask,
}

/// Parses an argument; `None` if the word is not one.
pub(crate) fn parse_argument(word: &str) -> Result<Option<TypedArgument>, TypedLineError> {
    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        return Ok(None);
    };
    let (key, value) = match key.strip_suffix(':') {
        Some(key) => {
            let parsed: Result<Value, _> = serde_json::from_str(value);
            let json = parsed.map_err(|error| TypedLineError::Json {
                key: key.to_owned(),
                error,
            })?;
            if has_large_integer(value) {
                return Err(TypedLineError::TooLarge(key.to_owned()));
            }
            (key, TypedValue::Json(json))
        }
        None => (key, TypedValue::Text(value.to_owned())),
    };
    let key = key.to_owned();
    Ok(Some(TypedArgument { key, value }))
}

/// Parses the words after `call`.
pub(super) fn parse_call(words: &[String]) -> Result<TypedCall, TypedLineError> {
    let mut call = TypedCall::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let mut value = || value.clone().or_else(|| words.next().cloned());
        match flag {
            "-s" | "--server" => call.server = value(),
            "--name" => call.name = value().unwrap_or_default(),
            "--" => {}
            _ if flag.starts_with('-') => {
                return Err(TypedLineError::Flag(flag.to_owned()));
            }
            _ => match parse_argument(word)?.filter(|_| !call.tool.is_empty()) {
                Some(pair) => call.arguments.push(pair),
                None if call.tool.is_empty() => call.tool.clone_from(word),
                None => call.tool = format!("{} {word}", call.tool),
            },
        }
    }
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_words_like_a_shell_and_keeps_json_quotes() {
        for (line, expected) in [
            ("  a  b ", &["a", "b"][..]),
            ("topic='two words' n=1", &["topic=two words", "n=1"]),
            (r#"topic="it's" x=it's"#, &["topic=it's", "x=it's"]),
            (r#"'tags:=["a b"]'"#, &[r#"tags:=["a b"]"#]),
            (r#"tags:=["a","b"]"#, &[r#"tags:=["a","b"]"#]),
            (r"'it'\''s' a\ b", &["it's", "a b"]),
            ("x='open end", &["x=open end"]),
            ("x=''", &["x="]),
        ] {
            assert_eq!(split_words(line), expected, "{line}");
        }
    }

    #[test]
    fn parses_a_call_like_the_command_line() {
        let read = |line: &str| parse_call(&split_words(line));
        let all = read("-s lab t a=1 b:=[2] --name=film").unwrap();
        assert_eq!(all.server.as_deref(), Some("lab"));
        assert_eq!((all.tool.as_str(), all.name.as_str()), ("t", "film"));
        assert_eq!(all.arguments.len(), 2);
        assert_eq!(read("two words").unwrap().tool, "two words");
        assert!(
            read("t --once x")
                .unwrap_err()
                .to_string()
                .contains("--once")
        );
        assert!(
            read("t b:={")
                .unwrap_err()
                .to_string()
                .contains("not valid JSON")
        );
        for large in [
            "12345678901234567890123",
            "[{\"n\":-12345678901234567890123}]",
        ] {
            let refused = read(&format!("t b:={large}")).unwrap_err();
            assert!(refused.to_string().contains("fit in 64 bits"));
        }
        assert!(read("t b:=[1.5e300,18446744073709551615,\"123456789012345678901234\"]").is_ok());
    }
}
