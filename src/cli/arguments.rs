//! The arguments of a call, as typed on the command line, and the tools that they are for.

use itertools::Itertools as _;
use serde_json::{Map, Value};

use crate::{
    app::{TypedArgument, TypedValue, WrongType, parse_argument},
    cli::{CliError, CliResult, Context, LiveSession, code},
    domain::{
        ArgumentKind, ArgumentSpec, ServerName, SessionRequest, SessionResponse, Tool,
        UnusableSchema, text, unquoted,
    },
};

/// How many tools the "no such tool" error names; `tools` lists them all.
pub(super) const MAX_NAMED_TOOLS: usize = 40;

/// `shard=INTEGER`, in brackets if it is optional.
pub(super) fn argument_usage(spec: &ArgumentSpec) -> String {
    let kind = match &spec.kind {
        ArgumentKind::Text => "TEXT".to_owned(),
        ArgumentKind::Number => "NUMBER".to_owned(),
        ArgumentKind::Integer => "INTEGER".to_owned(),
        ArgumentKind::Boolean => "true|false".to_owned(),
        ArgumentKind::Choice(choices) => choices.iter().map(unquoted).join("|"),
        ArgumentKind::Many(choices) => choices.iter().map(unquoted).join(","),
        ArgumentKind::Json => "JSON".to_owned(),
    };
    let sign = if spec.kind == ArgumentKind::Json {
        ":="
    } else {
        "="
    };
    let default = spec.default.as_ref();
    let default = default.map_or(String::new(), |value| format!(" ({})", unquoted(value)));
    let line = format!("{}{sign}{kind}{default}", spec.name);
    let line = text::clean_line(&line);
    if spec.is_required {
        line.into_owned()
    } else {
        format!("[{line}]")
    }
}

pub(super) async fn list_tools(
    context: &mut Context<'_>,
    live: &mut LiveSession,
    server: &ServerName,
) -> CliResult<Vec<Tool>> {
    let request = SessionRequest::Tools(server.clone());
    if let SessionResponse::Tools(tools) = live.request(context, request).await? {
        return Ok(tools);
    }
    let message = format!("{server} returned no tool list");
    Err(CliError::new(code::BUG, message))
}

pub(super) fn parse_pairs(typed: &[String]) -> CliResult<Vec<TypedArgument>> {
    typed.iter().map(|text| parse_pair(text)).collect()
}

/// One `key=value` or `key:=json`.
fn parse_pair(text: &str) -> CliResult<TypedArgument> {
    let pair = parse_argument(text).map_err(|error| CliError::usage(error.to_string()))?;
    pair.filter(|pair| !pair.key.is_empty()).ok_or_else(|| {
        CliError::usage(format!(
            "invalid argument {text:?}: use key=value or key:=json"
        ))
    })
}

/// Reads `--args`: the text of a JSON object, `@FILE` or `-` for stdin.
pub(super) fn read_args_object(text: &str) -> CliResult<String> {
    let read_error = |error: std::io::Error, what: &str| {
        CliError::usage(format!("could not read {what}: {error}"))
    };
    let json = match text {
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| read_error(error, "the arguments from stdin"))?,
        _ => match text.strip_prefix('@') {
            Some(path) => std::fs::read_to_string(path).map_err(|error| read_error(error, path))?,
            None => text.to_owned(),
        },
    };
    match serde_json::from_str(&json) {
        // Line breaks are only between values, and would end a message to a program.
        Ok(Value::Object(_)) => Ok(json.replace(['\r', '\n'], " ")),
        Ok(_) => Err(CliError::usage(
            "--args is not a JSON object; write it as '{\"key\": value}'",
        )),
        Err(error) => Err(CliError::usage(format!(
            "--args is not valid JSON: {error}"
        ))),
    }
}

/// Adds the pairs to `into`; the specs decide the type of each text value.
pub(super) fn apply_pairs(
    pairs: Vec<TypedArgument>,
    specs: &[ArgumentSpec],
    into: &mut Map<String, Value>,
) -> Result<(), WrongType> {
    for pair in pairs {
        let spec = specs.iter().find(|spec| spec.name == pair.key);
        into.insert(pair.key.clone(), pair.read(spec)?);
    }
    Ok(())
}

/// The arguments of a call, checked against the tool if it is known. The second value says why its schema is unusable, in
/// which case nothing was checked. An error says why the arguments are wrong.
pub(super) fn build_arguments(
    mut base: Map<String, Value>,
    pairs: Vec<TypedArgument>,
    tool: Option<&Tool>,
) -> CliResult<(Map<String, Value>, Option<UnusableSchema>)> {
    let specs = tool.map(Tool::arguments).unwrap_or_default();
    let hint = pairs.iter().find_map(|pair| match &pair.value {
        TypedValue::Text(typed) if typed.starts_with(['{', '[']) => {
            Some(format!("; to pass JSON, use {}:=", pair.key))
        }
        _ => None,
    });
    let hint = hint.unwrap_or_default();
    let applied = apply_pairs(pairs, &specs, &mut base);
    applied.map_err(|error| CliError::usage(error.to_string()))?;
    let checked = tool.map(|tool| tool.check(&base)).unwrap_or_default();
    if checked.errors.is_empty() {
        return Ok((base, checked.unusable));
    }
    let errors = checked.errors.iter().join("; ");
    let tool = tool.map_or("", |tool| &tool.name);
    Err(CliError::usage(format!("{tool}: {errors}{hint}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool() -> Tool {
        Tool {
            name: "t".into(),
            title: None,
            description: None,
            input_schema: json!({"properties": {
                "n": {"type": "integer"}, "x": {"type": "number"}, "b": {"type": "boolean"}, "s": {"type": "string"},
                "c": {"enum": [1, "two"]}, "free": {}, "j": {}}, "required": ["n"]})
            .to_string(),
            read_only: None,
            destructive: None,
            idempotent: None,
            task_support: crate::domain::TaskSupport::Forbidden,
            fault: None,
        }
    }

    fn build(pairs: &[&str]) -> Result<Value, String> {
        let pairs = pairs
            .iter()
            .map(|text| parse_pair(text))
            .collect::<Result<_, _>>()
            .unwrap();
        let (object, _) = build_arguments(Map::new(), pairs, Some(&tool()))
            .map_err(|error| error.message().to_owned())?;
        Ok(Value::Object(object))
    }

    #[test]
    fn converts_typed_values_by_the_schema() {
        assert_eq!(
            build(&["n=50", "x=0.5", "b=yes", "s=50", "c=1", "free=1", "j:=[1]"]).unwrap(),
            json!({"n": 50, "x": 0.5, "b": true, "s": "50", "c": 1, "free": "1", "j": [1]})
        );
        assert_eq!(
            build(&["n=1", "s=a=b"]).unwrap(),
            json!({"n": 1, "s": "a=b"})
        );
    }

    #[test]
    fn rejects_arguments_that_break_the_schema() {
        let error = |pairs: &[&str]| build(pairs).unwrap_err();
        assert!(error(&["n=5.5"]).contains("n must be a whole number"));
        assert!(error(&["n=1", "b=perhaps"]).contains("true or false"));
        let typo = error(&["s=x", "nn=1"]);
        assert!(
            typo.contains("n is missing; nn is not an argument of this tool (did you mean n?)"),
            "{typo}"
        );
        assert!(error(&["s=x"]).contains("n is missing"));
    }

    #[test]
    fn rejects_an_argument_without_a_key() {
        for text in ["novalue", "=x", ":=1", "k:={"] {
            assert!(parse_pair(text).is_err(), "{text}");
        }
    }
}
