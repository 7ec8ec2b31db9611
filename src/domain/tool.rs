//! A tool as its server describes it, and the check of its arguments.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    ArgumentCheck, ArgumentKind, ArgumentSpec, PathSegment, ValidationError,
    argument::{properties, required},
    schema, text,
};

/// One tool of a server; no text is sanitized.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The name to call it with.
    pub name: String,
    /// The display name.
    pub title: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The input schema, verbatim JSON.
    pub input_schema: String,
    /// `annotations.readOnlyHint`, an untrusted hint.
    pub read_only: Option<bool>,
    /// `annotations.destructiveHint`, an untrusted hint.
    pub destructive: Option<bool>,
    /// `annotations.idempotentHint`, an untrusted hint.
    pub idempotent: Option<bool>,
    /// `execution.taskSupport` (2025-11-25); has no effect if the server offers no tasks.
    #[serde(default)]
    pub task_support: TaskSupport,
    /// Why the tool can't be used although the server lists it.
    pub fault: Option<String>,
}

/// Whether a tool may be called as a core task (MCP 2025-11-25, basic/utilities/tasks).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum TaskSupport {
    /// Never.
    #[default]
    Forbidden,
    /// As a task or as a plain call.
    Optional,
    /// Always.
    Required,
}

/// The argument that carries the client id of a checkpoint tool.
pub const CLIENT_ID: &str = "client_id";
/// The companion tool that lists a client's checkpoints.
const LIST_TOOL: &str = "list_session_tasks";
/// The companion tool that pauses a checkpoint.
const PAUSE_TOOL: &str = "pause_task";
/// Other companion tools, which take a client id too but keep no checkpoints.
const COMPANIONS: [&str; 3] = [
    "get_checkpoint_stats",
    "get_session_info",
    "cleanup_checkpoints",
];

/// Tool and argument names of the checkpoint convention from the MCP tutorials; the config file can override them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointConvention {
    /// The argument for the client id, of checkpoint tools and of the list tool.
    pub client_id: String,
    /// The companion tool that lists a client's checkpoints.
    pub list: String,
    /// The companion tool that pauses a checkpoint.
    pub pause: String,
    /// The pause tool's argument for the checkpoint's id.
    pub task_id: String,
}

impl Default for CheckpointConvention {
    fn default() -> Self {
        Self {
            client_id: CLIENT_ID.to_owned(),
            list: LIST_TOOL.to_owned(),
            pause: PAUSE_TOOL.to_owned(),
            task_id: "task_id".to_owned(),
        }
    }
}

impl Tool {
    /// Whether this tool follows the checkpoint convention of the MCP tutorials: it takes a client id that survives
    /// sessions, and `tools`, all tools of the server, include the companion that lists checkpoints.
    ///
    /// The convention is not part of the MCP specification.
    pub fn keeps_checkpoint(&self, tools: &[Self], convention: &CheckpointConvention) -> bool {
        let CheckpointConvention {
            client_id,
            list,
            pause,
            ..
        } = convention;
        let is_client_id =
            |spec: &ArgumentSpec| spec.name == *client_id && spec.kind == ArgumentKind::Text;
        self.name != *list
            && self.name != *pause
            && !COMPANIONS.contains(&self.name.as_str())
            && tools.iter().any(|other| other.name == *list)
            && self.arguments().iter().any(is_client_id)
    }

    fn schema(&self) -> Map<String, Value> {
        serde_json::from_str(&self.input_schema).unwrap_or_default()
    }

    /// Whether it may be shown and called.
    pub fn is_offered(&self) -> bool {
        self.fault.is_none()
    }

    /// Names and unencoded values of the `Mcp-Param-*` headers for these arguments (MCP 2026-07-28,
    /// transports/streamable-http, schema extension).
    pub fn header_values(&self, arguments: &Map<String, Value>) -> Vec<(String, String)> {
        let mut found = Vec::new();
        header_values(&self.schema(), arguments, 0, &mut found);
        found
    }

    /// Why the header names in the schema are invalid; the modern era forbids using such a tool.
    pub fn header_error(&self) -> Option<ToolHeaderError> {
        let schema = Value::Object(self.schema());
        let mut names = Vec::new();
        header_names(&schema, true, 0, &mut names)
            .err()
            .or_else(|| {
                let is_duplicate = |(index, name): (usize, &String)| {
                    let mut others = names.iter().take(index);
                    others.any(|other| other.eq_ignore_ascii_case(name))
                };
                let duplicate = names.iter().enumerate().find(|entry| is_duplicate(*entry));
                duplicate.map(|(_, name)| ToolHeaderError::Duplicate(name.clone()))
            })
    }

    /// The arguments in the order of the schema.
    pub fn arguments(&self) -> Vec<ArgumentSpec> {
        let schema = Value::Object(self.schema());
        let required = required(&schema);
        properties(&schema)
            .map(|(name, property)| {
                ArgumentSpec::from_property(name, property, required.contains(&name.as_str()))
            })
            .collect()
    }

    /// Whether its schema allows arguments that it doesn't list.
    pub fn takes_unlisted(&self) -> bool {
        let schema: Value = serde_json::from_str(&self.input_schema).unwrap_or_default();
        let mut members = schema.as_object().into_iter().flatten();
        members.any(|(keyword, value)| match keyword.as_str() {
            "oneOf" | "anyOf" | "allOf" | "if" | "$ref" | "patternProperties" => true,
            "additionalProperties" => *value != Value::Bool(false),
            "required" => value.as_array().is_some_and(|names| !names.is_empty()),
            _ => false,
        })
    }

    /// As [`Self::check`], with one message per error.
    pub fn argument_errors(&self, arguments: &Map<String, Value>) -> Vec<String> {
        let errors = self.check(arguments).errors;
        errors.iter().map(ToString::to_string).collect()
    }

    /// Checks the arguments against the schema, and refuses names that it doesn't list.
    pub fn check(&self, arguments: &Map<String, Value>) -> ArgumentCheck {
        let schema = Value::Object(self.schema());
        let names = schema.as_object().and_then(Members::only);
        let is_listed = |key: &str| names.as_ref().is_none_or(|names| names.contains(&key));
        let (listed, unknown): (Vec<_>, Vec<_>) =
            arguments.iter().partition(|(key, _)| is_listed(key));
        // Python servers treat null as absent.
        let required = required(&schema);
        let is_given =
            |(key, value): &(&String, &Value)| !value.is_null() || required.contains(&key.as_str());
        let given = listed.into_iter().filter(is_given);
        let given = given.map(|(key, value)| (key.clone(), value.clone()));
        let (mut errors, unusable) =
            match schema::check(&self.input_schema, &Value::Object(given.collect())) {
                Ok(found) => (found, None),
                Err(why) => (Vec::new(), Some(why)),
            };
        errors.extend(unknown.into_iter().map(|(key, _)| {
            let absent = names.iter().flatten();
            let absent = absent.filter(|name| !arguments.contains_key(**name));
            let near = match text::nearest(key, absent.copied()) {
                Some(near) => format!(" (did you mean {near}?)"),
                None => String::new(),
            };
            ValidationError {
                path: vec![PathSegment::Key(key.clone())],
                message: format!("is not an argument of this tool{near}"),
            }
        }));
        ArgumentCheck { errors, unusable }
    }

    /// Whether the server marks it as destructive and not idempotent, so that repeating it needs confirmation.
    pub fn is_unsafe_to_repeat(&self) -> bool {
        let is_set = |hint: Option<bool>| hint == Some(true);
        is_set(self.destructive) && !is_set(self.read_only) && !is_set(self.idempotent)
    }

    /// Why a repeat needs confirmation, as a phrase that continues the server's name. `None` is a tool that the server
    /// no longer lists.
    pub fn repeat_warning(tool: Option<&Self>) -> &'static str {
        match tool.and_then(|tool| tool.destructive) {
            Some(true) => "marks this tool as destructive",
            _ => "doesn't list this tool",
        }
    }

    /// The server's hints about it, as labels.
    pub fn hints(&self) -> Vec<&'static str> {
        [
            (self.read_only == Some(true), "read-only"),
            (self.destructive == Some(true), "destructive"),
            (self.destructive == Some(false), "not destructive"),
            (self.idempotent == Some(true), "idempotent"),
        ]
        .into_iter()
        .filter_map(|(is_set, label)| is_set.then_some(label))
        .collect()
    }
}

/// The argument names that a schema lists, including those in its alternatives.
#[derive(Default)]
struct Members<'s> {
    names: Vec<&'s str>,
    /// Whether other names may be allowed too.
    is_open: bool,
}

impl<'s> Members<'s> {
    /// The only names allowed for arguments; `None` if the schema lists none or allows others.
    ///
    /// A schema without `additionalProperties` formally allows other names. Few servers mean that: most ignore unknown
    /// arguments and run something else than the user meant.
    fn only(schema: &'s Map<String, Value>) -> Option<Vec<&'s str>> {
        let mut found = Self::default();
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            found.add_properties(schema);
            return Some(found.names);
        }
        found.read(schema);
        let is_listed = !found.names.is_empty() && !found.is_open;
        is_listed.then_some(found.names)
    }

    fn add_properties(&mut self, schema: &'s Map<String, Value>) {
        let members = schema.get("properties").and_then(Value::as_object);
        let names = members.into_iter().flat_map(Map::keys);
        self.names.extend(names.map(String::as_str));
    }

    /// Recursion is bounded by the JSON parser's depth limit.
    fn read(&mut self, schema: &'s Map<String, Value>) {
        self.add_properties(schema);
        for (key, inner) in schema {
            match (key.as_str(), inner) {
                ("additionalProperties" | "unevaluatedProperties", Value::Bool(false)) => {}
                (
                    "additionalProperties"
                    | "unevaluatedProperties"
                    | "patternProperties"
                    | "$ref"
                    | "$dynamicRef"
                    | "$recursiveRef",
                    _,
                ) => self.is_open = true,
                ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                    let parts = all.iter().filter_map(Value::as_object);
                    parts.for_each(|part| self.read(part));
                }
                ("if" | "then" | "else", Value::Object(part)) => self.read(part),
                ("dependentSchemas" | "dependencies", Value::Object(parts)) => {
                    let parts = parts.values().filter_map(Value::as_object);
                    parts.for_each(|part| self.read(part));
                }
                _ => {}
            }
        }
    }
}

/// Maximum schema depth at which header names are read.
const HEADER_DEPTH: usize = 32;

fn header_values(
    schema: &Map<String, Value>,
    arguments: &Map<String, Value>,
    depth: usize,
    found: &mut Vec<(String, String)>,
) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        let (Some(property), Some(value)) = (property.as_object(), arguments.get(name)) else {
            continue;
        };
        if let Some(header) = property.get("x-mcp-header").and_then(Value::as_str) {
            let plain = match value {
                Value::String(text) => Some(text.clone()),
                Value::Bool(_) => Some(value.to_string()),
                Value::Number(number) => {
                    Some(number.as_i64().map_or(value.to_string(), |n| n.to_string()))
                }
                _ => None,
            };
            found.extend(plain.map(|plain| (header.to_owned(), plain)));
        }
        if let Some(inner) = value.as_object().filter(|_| depth < HEADER_DEPTH) {
            header_values(property, inner, depth + 1, found);
        }
    }
}

/// Why the header names in a schema are invalid (SEP-2243).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolHeaderError {
    /// A name isn't an HTTP token.
    #[error("one of its arguments uses an invalid header name")]
    InvalidName,
    /// The argument has another type.
    #[error("the header {0} is for an argument that is not text, a whole number or a boolean")]
    OtherType(String),
    /// The value may be absent, or there may be several.
    #[error("the header {0} is for a value inside a list or an alternative")]
    Unreachable(String),
    /// The name is used twice, ignoring case.
    #[error("two of its arguments use the header {0}")]
    Duplicate(String),
}

/// Collects the header names of a schema; the error is that of the first invalid one.
fn header_names(
    schema: &Value,
    is_reachable: bool,
    depth: usize,
    names: &mut Vec<String>,
) -> Result<(), ToolHeaderError> {
    if depth > HEADER_DEPTH {
        return Ok(());
    }
    match schema {
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| header_names(item, false, depth + 1, names)),
        Value::Object(fields) => {
            if let Some(header) = fields.get("x-mcp-header") {
                names.push(checked_header(
                    header,
                    fields.get("type"),
                    is_reachable && depth > 0,
                )?);
            }
            for (key, inner) in fields {
                match (key.as_str(), inner) {
                    ("properties", Value::Object(properties)) => {
                        for property in properties.values() {
                            header_names(property, is_reachable, depth + 1, names)?;
                        }
                    }
                    ("default" | "enum" | "const" | "examples", _) => {}
                    _ => header_names(inner, false, depth + 1, names)?,
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn checked_header(
    header: &Value,
    kind: Option<&Value>,
    is_reachable: bool,
) -> Result<String, ToolHeaderError> {
    let Some(name) = header
        .as_str()
        .filter(|name| !name.is_empty() && name.chars().all(text::is_token))
    else {
        return Err(ToolHeaderError::InvalidName);
    };
    let is_simple = kind
        .and_then(Value::as_str)
        .is_some_and(|kind| matches!(kind, "string" | "integer" | "boolean"));
    if !is_simple {
        return Err(ToolHeaderError::OtherType(name.to_owned()));
    }
    if !is_reachable {
        return Err(ToolHeaderError::Unreachable(name.to_owned()));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
impl Tool {
    /// A tool with this schema and no other properties.
    pub(crate) fn taking(schema: &Value) -> Self {
        Self {
            name: "t".into(),
            title: None,
            description: None,
            input_schema: schema.to_string(),
            read_only: None,
            destructive: None,
            idempotent: None,
            task_support: TaskSupport::Forbidden,
            fault: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_have_the_order_of_the_schema() {
        let tool = Tool::taking(
            &json!({"type": "object", "required": ["dataset"], "properties": {
                "dataset": {"type": "string"},
                "total": {"type": "integer", "default": 100},
                "client_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
                "mode": {"enum": ["fast", "slow"]},
                "options": {"type": "object"},
            }}),
        );
        let kinds: Vec<_> = tool.arguments().into_iter().map(|spec| spec.kind).collect();
        assert_eq!(
            kinds,
            [
                ArgumentKind::Text,
                ArgumentKind::Integer,
                ArgumentKind::Text,
                ArgumentKind::Choice(vec![json!("fast"), json!("slow")]),
                ArgumentKind::Json
            ]
        );
    }

    #[test]
    fn recognizes_checkpoint_tools_from_the_tool_list() {
        let named = |name: &str, property: Value| Tool {
            name: name.into(),
            ..Tool::taking(&json!({"properties": {"client_id": property}}))
        };
        for text in [
            json!({"type": "string"}),
            json!({"type": ["string", "null"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ] {
            let work = named("work", text.clone());
            let list = named(LIST_TOOL, text);
            let number = named("number", json!({"type": "integer"}));
            let tools = [work.clone(), list.clone(), number.clone()];
            let default = CheckpointConvention::default();
            assert!(work.keeps_checkpoint(&tools, &default));
            assert!(!list.keeps_checkpoint(&tools, &default));
            assert!(!number.keeps_checkpoint(&tools, &default));
            assert!(!work.keeps_checkpoint(&[work.clone(), number], &default));
            let other = CheckpointConvention {
                list: "jobs".to_owned(),
                ..default
            };
            assert!(!work.keeps_checkpoint(&tools, &other));
        }
    }

    #[test]
    fn names_wrong_arguments() {
        let tool = Tool::taking(
            &json!({"required": ["n"], "additionalProperties": false, "properties": {
            "n": {"type": "integer"}, "mode": {"enum": ["a"]}}}),
        );
        let errors = |args: Value| tool.argument_errors(args.as_object().unwrap());
        assert_eq!(errors(json!({})), ["n is missing"]);
        assert_eq!(errors(json!({"n": "5"})), ["n must be a whole number"]);
        assert_eq!(
            errors(json!({"n": 5, "mode": "b"})),
            ["mode must be one of \"a\""]
        );
        assert_eq!(
            errors(json!({"n": 5, "x": 1})),
            ["x is not an argument of this tool"]
        );
        assert!(errors(json!({"n": 5.0})).is_empty());
    }

    #[test]
    fn rejects_arguments_that_the_schema_does_not_list() {
        let steps = json!({"steps": {"type": "integer"}, "name": {"type": "string"}});
        let errors = |schema: Value, args: Value| {
            Tool::taking(&schema).argument_errors(args.as_object().unwrap())
        };
        assert_eq!(
            errors(json!({"properties": steps}), json!({"step": 5, "zebra": 1})),
            [
                "step is not an argument of this tool (did you mean steps?)",
                "zebra is not an argument of this tool"
            ]
        );
        // Never suggest an argument that is already present.
        assert_eq!(
            errors(json!({"properties": steps}), json!({"steps": 1, "step": 5})),
            ["step is not an argument of this tool"]
        );
        let either = json!({"properties": steps, "anyOf": [
            {"required": ["steps"]}, {"properties": {"until": {}}, "required": ["until"]}]});
        assert!(errors(either.clone(), json!({"until": 5})).is_empty());
        let unknown = "zebra is not an argument of this tool".to_owned();
        assert!(errors(either, json!({"zebra": 5})).contains(&unknown));
        for open in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}}),
            json!({"properties": steps, "additionalProperties": true}),
            json!({"properties": steps, "additionalProperties": {"type": "integer"}}),
            json!({"properties": steps, "patternProperties": {"^x": {}}}),
            json!({"properties": steps, "unevaluatedProperties": {}}),
            json!({"properties": steps, "allOf": [{"$ref": "#/$defs/more"}]}),
            json!({"properties": steps, "oneOf": [{"additionalProperties": {}}]}),
        ] {
            assert!(
                errors(open.clone(), json!({"step": 5})).is_empty(),
                "{open}"
            );
        }
    }

    #[test]
    fn reads_header_values_to_a_limited_depth() {
        let nested = |depth: usize| {
            let mut schema =
                json!({"properties": {"x": {"type": "string", "x-mcp-header": "X-Deep"}}});
            let mut arguments = json!({"x": "v"});
            for _ in 0..depth {
                schema = json!({"properties": {"x": schema}});
                arguments = json!({"x": arguments});
            }
            let arguments = arguments.as_object().cloned().unwrap();
            Tool::taking(&schema).header_values(&arguments).len()
        };
        assert_eq!((nested(10), nested(HEADER_DEPTH + 5)), (1, 0));
    }
}
