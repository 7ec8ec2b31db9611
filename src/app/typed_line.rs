//! A line of the palette in the words of the command line.

use serde_json::Value;

/// The commands that take more than a word and are no key's, each with what it does.
const LINES: [(&str, &str); 7] = [
    (
        "save-view",
        "save-view NAME: keep what is shown now under a name",
    ),
    ("view", "view NAME: show the list in a view of yours"),
    ("attach", "attach ID: go to a task"),
    ("show", "show ID: go to a task"),
    ("watch", "watch ID: go to a task"),
    ("result", "result ID: read the result of a task"),
    ("logs", "logs ID: read the log of a task"),
];

/// What the commands do that begin as what is typed and are no key's.
pub fn lines(typed: &str) -> Vec<&'static str> {
    let word = typed.split_whitespace().next().unwrap_or_default();
    let lines = LINES.iter().filter(|(name, _)| name.starts_with(word));
    lines.map(|(_, help)| *help).collect()
}

/// One `key=value` or `key:=json`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedArgument {
    /// The name of the argument.
    pub(super) key: String,
    /// What is given.
    pub(super) value: TypedValue,
}

/// A value as it is typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TypedValue {
    /// As text; the tool's schema says what it stands for.
    Text(String),
    /// As JSON.
    Json(Value),
}

/// A call as it is typed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TypedCall {
    /// Where, if that is said: a name, or a URL.
    pub(super) server: Option<String>,
    /// What, or words to find it by.
    pub(super) tool: String,
    /// With which arguments.
    pub(super) arguments: Vec<TypedArgument>,
    /// Under which name.
    pub(super) name: String,
}

/// The words of a line, as a shell makes them out. Quotes count where they begin a word or a value only, so that JSON can
/// be typed without more of them; one that is not closed lasts to the end.
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

/// One argument; `None` where a word is none.
pub(super) fn parse_argument(word: &str) -> Result<Option<TypedArgument>, String> {
    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        return Ok(None);
    };
    let (key, value) = match key.strip_suffix(':') {
        Some(key) => {
            let json = serde_json::from_str(value)
                .map_err(|error| format!("the value of {key} is not valid JSON: {error}"))?;
            (key, TypedValue::Json(json))
        }
        None => (key, TypedValue::Text(value.to_owned())),
    };
    let key = key.to_owned();
    Ok(Some(TypedArgument { key, value }))
}

/// What stands behind `call`.
pub(super) fn parse_call(words: &[String]) -> Result<TypedCall, String> {
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
                return Err(format!(
                    "{flag} is not read here; -s, --name and key=value are"
                ));
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
    fn words_are_those_of_a_shell_and_json_needs_no_quotes() {
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
    fn a_call_is_read_as_on_the_command_line() {
        let read = |line: &str| parse_call(&split_words(line));
        let all = read("-s lab t a=1 b:=[2] --name=film").unwrap();
        assert_eq!(all.server.as_deref(), Some("lab"));
        assert_eq!((all.tool.as_str(), all.name.as_str()), ("t", "film"));
        assert_eq!(all.arguments.len(), 2);
        assert_eq!(read("two words").unwrap().tool, "two words");
        assert!(read("t --once x").unwrap_err().contains("--once"));
        assert!(read("t b:={").unwrap_err().contains("not valid JSON"));
    }
}
