//! A tool as its server describes it, and what its arguments must be.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    ArgumentCheck, ArgumentKind, ArgumentSpec, PathSegment, ValidationError, schema, text,
};

/// One tool of a server; every text in it is the server's and not yet sanitised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// The name to call it by.
    pub name: String,
    /// The name to show.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// The input schema, verbatim JSON.
    pub input_schema: String,
    /// `annotations.readOnlyHint`; a hint of the server, never trusted.
    pub read_only: Option<bool>,
    /// `annotations.destructiveHint`; a hint of the server, never trusted.
    pub destructive: Option<bool>,
    /// `annotations.idempotentHint`; a hint of the server, never trusted.
    #[serde(default)]
    pub idempotent: Option<bool>,
    /// `execution.taskSupport` (2025-11-25); nothing where the server offers no tasks.
    #[serde(default)]
    pub task_support: TaskSupport,
    /// Why it must not be offered, though its server lists it; only a modern server's tool can have such a fault.
    #[serde(default)]
    pub fault: Option<String>,
}

/// Whether a tool may be called as a core task (MCP 2025-11-25, basic/utilities/tasks).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskSupport {
    /// Only plainly.
    #[default]
    Forbidden,
    /// Either way.
    Optional,
    /// Only as a task.
    Required,
}

impl TaskSupport {
    /// Reads the word on the wire; an unknown one counts as forbidden.
    pub fn read(word: &str) -> Self {
        match word {
            "optional" => Self::Optional,
            "required" => Self::Required,
            _ => Self::Forbidden,
        }
    }
}

/// The argument that carries the client id of a checkpoint tool.
pub const CLIENT_ID: &str = "client_id";
/// The companion that lists a client's checkpoints.
const LIST_TOOL: &str = "list_session_tasks";
/// The companion that pauses one.
const PAUSE_TOOL: &str = "pause_task";
/// The further companions take a client id too and are no checkpoint tools.
const COMPANIONS: [&str; 3] = [
    "get_checkpoint_stats",
    "get_session_info",
    "cleanup_checkpoints",
];

/// What the checkpoint convention of the tutorials is called on a server; the configuration can name it otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointConvention {
    /// The argument that carries the client id of a checkpoint tool, and of the companion that lists them.
    pub client_id: String,
    /// The companion that lists a client's checkpoints.
    pub list: String,
    /// The companion that pauses one.
    pub pause: String,
    /// Its argument.
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
    /// Whether this tool, seen in the list that it stands in, follows the checkpoint convention of the tutorials: it
    /// takes a client id that outlives sessions, and the companion that lists its checkpoints stands beside it.
    ///
    /// Nothing of the convention is in the MCP specification.
    pub fn keeps_checkpoint(&self, beside: &[Self], convention: &CheckpointConvention) -> bool {
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
            && beside.iter().any(|other| other.name == *list)
            && self.arguments().iter().any(is_client_id)
    }

    fn schema(&self) -> Map<String, Value> {
        serde_json::from_str(&self.input_schema).unwrap_or_default()
    }

    /// Whether it may be shown and called.
    pub fn is_offered(&self) -> bool {
        self.fault.is_none()
    }

    /// Names and plain values of the `Mcp-Param-*` headers that the schema asks for, for these arguments (MCP
    /// 2026-07-28, transports/streamable-http, schema extension).
    pub fn header_values(&self, arguments: &Map<String, Value>) -> Vec<(String, String)> {
        let mut found = Vec::new();
        header_values(&self.schema(), arguments, 0, &mut found);
        found
    }

    /// Why the header names in the schema break the rules, so that a modern server's tool must not be offered.
    pub fn header_error(&self) -> Option<String> {
        let schema = Value::Object(self.schema());
        let mut names = Vec::new();
        header_names(&schema, true, 0, &mut names)
            .err()
            .or_else(|| {
                let is_double = |(place, name): (usize, &String)| {
                    let others = names.iter().take(place);
                    others
                        .into_iter()
                        .any(|other| other.eq_ignore_ascii_case(name))
                };
                let double = names.iter().enumerate().find(|entry| is_double(*entry));
                double.map(|(_, name)| format!("two of its arguments want the header {name}"))
            })
    }

    /// The arguments in the order of the schema.
    pub fn arguments(&self) -> Vec<ArgumentSpec> {
        let schema = self.schema();
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return Vec::new();
        };
        properties
            .iter()
            .map(|(name, property)| {
                ArgumentSpec::from_property(name, property, required.contains(&name.as_str()))
            })
            .collect()
    }

    /// What is wrong with arguments for this tool, one sentence each; empty when nothing is seen to be.
    ///
    /// Checks presence, the simple types, their bounds and enums; the server checks the rest.
    pub fn argument_errors(&self, arguments: &Map<String, Value>) -> Vec<String> {
        let complaints = self.basic_errors(arguments);
        complaints.iter().map(ToString::to_string).collect()
    }

    /// The same, and all else that the schema says.
    pub fn check(&self, arguments: &Map<String, Value>) -> ArgumentCheck {
        let mut complaints = self.basic_errors(arguments);
        let value = Value::Object(arguments.clone());
        match schema::check(&self.input_schema, &value) {
            Ok(found) => {
                // What was said in the words of the form is not said again; and see above for null.
                let is_null = |name: &str| arguments.get(name).is_some_and(Value::is_null);
                let is_new = |complaint: &ValidationError| match complaint.path.as_slice() {
                    [PathSegment::Key(name)] => {
                        !is_null(name) && !complaints.iter().any(|said| said.path == complaint.path)
                    }
                    _ => true,
                };
                let more: Vec<ValidationError> = found.into_iter().filter(is_new).collect();
                complaints.extend(more);
                ArgumentCheck {
                    complaints,
                    unusable: None,
                }
            }
            Err(why) => ArgumentCheck {
                complaints,
                unusable: Some(why),
            },
        }
    }

    /// Whether its server marks it as a tool that destroys something each time. Only such a repeat asks first: whoever
    /// asks for one has named what is to run again.
    pub fn is_unsafe_to_repeat(&self) -> bool {
        let is_said = |hint: Option<bool>| hint == Some(true);
        is_said(self.destructive) && !is_said(self.read_only) && !is_said(self.idempotent)
    }

    /// Why a repeat of it is asked for, in words that go on after the name of its server. Of a tool that nobody knows
    /// any more its server says nothing.
    pub fn repeat_warning(tool: Option<&Self>) -> &'static str {
        match tool.and_then(|tool| tool.destructive) {
            Some(true) => "calls this tool destructive",
            _ => "does not say that repeating this tool is harmless",
        }
    }

    /// What its server says of it, in words; nothing where it says nothing.
    pub fn hints(&self) -> Vec<&'static str> {
        [
            (self.read_only == Some(true), "read-only"),
            (self.destructive == Some(true), "destructive"),
            (self.destructive == Some(false), "not destructive"),
            (self.idempotent == Some(true), "safe to repeat"),
        ]
        .into_iter()
        .filter_map(|(is_said, words)| is_said.then_some(words))
        .collect()
    }

    fn basic_errors(&self, arguments: &Map<String, Value>) -> Vec<ValidationError> {
        let mut complaints = Vec::new();
        let schema = self.schema();
        let specs = self.arguments();
        for spec in &specs {
            match arguments.get(&spec.name) {
                None if spec.is_required => {
                    complaints.push(ValidationError::of(&spec.name, "is missing"));
                }
                // Servers in Python take null for what is left out.
                Some(value) if !value.is_null() => {
                    if let Some(wanted) = spec.violation(value) {
                        complaints
                            .push(ValidationError::of(&spec.name, format!("must be {wanted}")));
                    }
                }
                _ => {}
            }
        }
        let Some(names) = Members::only(&schema) else {
            return complaints;
        };
        let is_unknown = |key: &&String| !names.contains(&key.as_str());
        let unknown = arguments.keys().filter(is_unknown);
        complaints.extend(unknown.map(|key| {
            let absent = names.iter().filter(|name| !arguments.contains_key(**name));
            let near = match text::nearest(key, absent.copied()) {
                Some(near) => format!(" (did you mean {near}?)"),
                None => String::new(),
            };
            ValidationError::of(key, format!("is not an argument of this tool{near}"))
        }));
        complaints
    }
}

/// The names that a schema gives to members, in its alternatives too.
#[derive(Default)]
struct Members<'s> {
    names: Vec<&'s str>,
    /// Others may stand beside them, or are named where this does not look.
    is_open: bool,
}

impl<'s> Members<'s> {
    /// The only names that arguments may have; `None` where the schema leaves that open, or lists none.
    ///
    /// To JSON Schema, silence about further members allows them. Few servers mean that: most ignore an argument that
    /// they do not know, and run another job than the one that was meant.
    fn only(schema: &'s Map<String, Value>) -> Option<Vec<&'s str>> {
        let mut found = Self::default();
        if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
            found.listed(schema);
            return Some(found.names);
        }
        found.read(schema);
        let is_listed = !found.names.is_empty() && !found.is_open;
        is_listed.then_some(found.names)
    }

    fn listed(&mut self, schema: &'s Map<String, Value>) {
        let members = schema.get("properties").and_then(Value::as_object);
        let names = members.into_iter().flat_map(Map::keys);
        self.names.extend(names.map(String::as_str));
    }

    /// The depth is that of the parsed text, which is bounded.
    fn read(&mut self, schema: &'s Map<String, Value>) {
        self.listed(schema);
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

/// Deeper than this no schema is read for header names.
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

/// Collects the header names of a schema; an error names the first that breaks a rule.
fn header_names(
    schema: &Value,
    is_reachable: bool,
    depth: usize,
    names: &mut Vec<String>,
) -> Result<(), String> {
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
) -> Result<String, String> {
    let is_token =
        |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_|~`".contains(letter);
    let Some(name) = header
        .as_str()
        .filter(|name| !name.is_empty() && name.chars().all(is_token))
    else {
        return Err("one of its arguments wants a header whose name cannot be sent".to_owned());
    };
    let is_simple = kind
        .and_then(Value::as_str)
        .is_some_and(|kind| matches!(kind, "string" | "integer" | "boolean"));
    if !is_simple {
        return Err(format!(
            "the header {name} is wanted for something other than a text, a whole number or a boolean"
        ));
    }
    if !is_reachable {
        return Err(format!(
            "the header {name} is wanted for something that is no plain argument"
        ));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
impl Tool {
    /// A tool of this schema, of which its server says nothing more.
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
    fn a_schema_becomes_form_fields_in_its_order() {
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
    fn the_checkpoint_convention_is_recognised_from_the_tool_list_alone() {
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
            let usual = CheckpointConvention::default();
            assert!(work.keeps_checkpoint(&tools, &usual));
            assert!(!list.keeps_checkpoint(&tools, &usual));
            assert!(!number.keeps_checkpoint(&tools, &usual));
            assert!(!work.keeps_checkpoint(&[work.clone(), number], &usual));
            let other = CheckpointConvention {
                list: "jobs".to_owned(),
                ..usual
            };
            assert!(!work.keeps_checkpoint(&tools, &other));
        }
    }

    #[test]
    fn wrong_arguments_are_named_before_sending() {
        let tool = Tool::taking(
            &json!({"required": ["n"], "additionalProperties": false, "properties": {
            "n": {"type": "integer"}, "mode": {"enum": ["a"]}}}),
        );
        let complaints = |args: Value| tool.argument_errors(args.as_object().unwrap());
        assert_eq!(complaints(json!({})), ["n is missing"]);
        assert_eq!(complaints(json!({"n": "5"})), ["n must be a whole number"]);
        assert_eq!(
            complaints(json!({"n": 5, "mode": "b"})),
            ["mode must be one of \"a\""]
        );
        assert_eq!(
            complaints(json!({"n": 5, "x": 1})),
            ["x is not an argument of this tool"]
        );
        assert!(complaints(json!({"n": 5.0})).is_empty());
    }

    #[test]
    fn refuses_arguments_that_a_schema_does_not_list() {
        let steps = json!({"steps": {"type": "integer"}, "name": {"type": "string"}});
        let complaints = |schema: Value, args: Value| {
            Tool::taking(&schema).argument_errors(args.as_object().unwrap())
        };
        assert_eq!(
            complaints(json!({"properties": steps}), json!({"step": 5, "zebra": 1})),
            [
                "step is not an argument of this tool (did you mean steps?)",
                "zebra is not an argument of this tool"
            ]
        );
        // What is given already was not meant.
        assert_eq!(
            complaints(json!({"properties": steps}), json!({"steps": 1, "step": 5})),
            ["step is not an argument of this tool"]
        );
        let either = json!({"properties": steps, "anyOf": [
            {"required": ["steps"]}, {"properties": {"until": {}}, "required": ["until"]}]});
        assert!(complaints(either.clone(), json!({"until": 5})).is_empty());
        assert_eq!(complaints(either, json!({"zebra": 5})).len(), 1);
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
                complaints(open.clone(), json!({"step": 5})).is_empty(),
                "{open}"
            );
        }
    }

    #[test]
    fn header_names_are_read_to_a_bounded_depth() {
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
