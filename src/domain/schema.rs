//! Validates arguments against a tool's whole JSON schema before they are sent.
//!
//! The `jsonschema` crate does the validation. This module protects it from untrusted schemas, which must not loop, use
//! up time or memory, or load other documents, and it writes the error messages. Calls are still allowed if the schema
//! is unusable; a message says that nothing was checked.

use core::fmt;

use jsonschema::{
    Draft, JsonType, PatternOptions, ValidationError as SchemaError, Validator,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::{Map, Value};

use super::text;

/// One segment of a path into the arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathSegment {
    /// A member of an object.
    Key(String),
    /// An item of a list, from 0.
    Index(usize),
}

/// The path as text, such as `address.lines[0]`; not sanitized.
pub fn path_label(path: &[PathSegment]) -> String {
    let mut line = String::new();
    for segment in path {
        match segment {
            PathSegment::Key(key) if line.is_empty() => line.push_str(key),
            PathSegment::Key(key) => {
                line.push('.');
                line.push_str(key);
            }
            PathSegment::Index(index) => line.extend(["[", &index.to_string(), "]"]),
        }
    }
    line
}

/// One error in the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// Where it is; empty for the arguments as a whole.
    pub path: Vec<PathSegment>,
    /// The error, as a phrase that continues the path: `must be a number`.
    pub message: String,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return write!(f, "the arguments {}", self.message);
        }
        write!(f, "{} {}", path_label(&self.path), self.message)
    }
}

/// The result of checking arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentCheck {
    /// The errors found.
    pub errors: Vec<ValidationError>,
    /// Why the schema couldn't be used; then only the names were checked.
    pub unusable: Option<UnusableSchema>,
}

/// Why a schema can't be used to check arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableSchema {
    /// Not parsed, or deeper than a parser follows.
    #[error("it is not valid JSON or nested too deeply")]
    NotJson,
    /// JSON of another kind.
    #[error("it is not an object")]
    NotAnObject,
    /// More values than the limit.
    #[error("it is too large")]
    TooLarge,
    /// A `$ref` to another document; longhaul fetches none.
    #[error("it refers to another document")]
    OtherDocument,
    /// A `$ref` with `%`, which decoders read differently.
    #[error("it has a reference with an escaped name")]
    EscapedName,
    /// A keyword that changes how references are resolved.
    #[error("it uses {0}")]
    Uses(String),
    /// Ids below the top level change how references are resolved.
    #[error("it contains embedded schemas with their own id")]
    EmbeddedIds,
    /// More steps than the limit.
    #[error("checking it would take too long")]
    TooSlow,
    /// Deeper than the limit.
    #[error("it refers to itself endlessly")]
    Endless,
    /// A `$ref` to nothing.
    #[error("it has a reference to a missing part")]
    MissingPart,
    /// What the validator says of it.
    #[error("{0}")]
    Invalid(String),
}

/// The text formats that have a message of their own: those of elicitations (MCP 2025-11-25, client/elicitation).
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum TextFormat {
    /// An email address.
    Email,
    /// An absolute URI.
    Uri,
    /// A calendar date.
    Date,
    /// A time with its time zone (RFC 3339).
    DateTime,
}

impl TextFormat {
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Email => "an email address",
            Self::Uri => "a URL such as https://example.org",
            Self::Date => "a date such as 2026-11-20",
            Self::DateTime => "a time such as 2026-11-20T06:52:00Z",
        }
    }
}

/// Steps of one check, each applying a part of the schema to a part of the arguments; real checks take dozens.
const STEPS: usize = 20_000;
/// Maximum depth; a deeper schema is a loop or an attack on the stack.
const DEPTH: usize = 96;
/// Maximum number of JSON values in a schema.
const PARTS: usize = 20_000;
/// Maximum size of a compiled pattern in bytes.
const PATTERN_BYTES: usize = 256 * 1024;
/// Maximum number of patterns; if a schema has more, none is compiled.
const PATTERNS: usize = 64;
/// Maximum number of errors reported at once.
const MAX_ERRORS: usize = 20;
/// Checks arguments against a schema. The error says why the schema is unusable.
pub(super) fn check(
    schema: &str,
    arguments: &Value,
) -> Result<Vec<ValidationError>, UnusableSchema> {
    // Parsing bounds the depth of what follows.
    let mut schema: Value = serde_json::from_str(schema).map_err(|_| UnusableSchema::NotJson)?;
    let Some(root) = schema.as_object_mut() else {
        return Err(UnusableSchema::NotAnObject);
    };
    let draft = draft(root);
    // Without an id, all references are resolved within the document.
    root.remove("$id");
    root.remove("$schema");
    let mut parts = Parts::default();
    parts.count(&schema, true)?;
    Walk {
        root: &schema,
        left: STEPS,
    }
    .visit(&schema, arguments, 0)?;
    let validator = match build(&schema, draft, parts.patterns <= PATTERNS) {
        Err(_) if parts.patterns > 0 => build(&schema, draft, false),
        other => other,
    }?;
    let mut found = Vec::new();
    for error in validator.iter_errors(arguments).take(MAX_ERRORS) {
        describe(&error, 0, &mut found);
    }
    found.dedup();
    found.truncate(MAX_ERRORS);
    Ok(found)
}

/// The schema's dialect; by default 2020-12 (MCP 2025-11-25, basic, JSON Schema usage).
fn draft(root: &Map<String, Value>) -> Draft {
    let named = root.get("$schema").and_then(Value::as_str).unwrap_or("");
    match named {
        _ if named.contains("draft-04") => Draft::Draft4,
        _ if named.contains("draft-06") => Draft::Draft6,
        _ if named.contains("draft-07") => Draft::Draft7,
        _ if named.contains("2019-09") => Draft::Draft201909,
        _ => Draft::Draft202012,
    }
}

fn build(schema: &Value, draft: Draft, has_patterns: bool) -> Result<Validator, UnusableSchema> {
    let without;
    let schema = if has_patterns {
        schema
    } else {
        let mut copy = schema.clone();
        strip_patterns(&mut copy);
        without = copy;
        &without
    };
    // The linear-time regex engine, so that a pattern can't block the screen.
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES);
    jsonschema::options()
        .with_draft(draft)
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| {
            let message = error.to_string();
            let message = text::clean_line(&message);
            UnusableSchema::Invalid(text::truncate(&message, 120).into_owned())
        })
}

/// Removes patterns, and keywords that would then refuse values that a pattern allowed.
fn strip_patterns(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(strip_patterns),
        Value::Object(members) => {
            if members.get("pattern").is_some_and(Value::is_string) {
                members.remove("pattern");
            }
            if members
                .get("patternProperties")
                .is_some_and(Value::is_object)
            {
                for key in [
                    "patternProperties",
                    "additionalProperties",
                    "unevaluatedProperties",
                ] {
                    members.remove(key);
                }
            }
            members.values_mut().for_each(strip_patterns);
        }
        _ => {}
    }
}

/// Counts of the values in a schema.
#[derive(Default)]
struct Parts {
    all: usize,
    patterns: usize,
}

impl Parts {
    /// Refuses schemas that are too large, and features that [`Walk`] doesn't follow exactly like the crate.
    fn count(&mut self, schema: &Value, is_root: bool) -> Result<(), UnusableSchema> {
        self.all += 1;
        if self.all > PARTS {
            return Err(UnusableSchema::TooLarge);
        }
        match schema {
            Value::Array(items) => items.iter().try_for_each(|item| self.count(item, false)),
            Value::Object(members) => {
                for (key, inner) in members {
                    match (key.as_str(), inner) {
                        ("pattern", Value::String(_)) => self.patterns += 1,
                        ("patternProperties", Value::Object(all)) => self.patterns += all.len(),
                        ("$ref", Value::String(to)) if to != "#" && !to.starts_with("#/") => {
                            return Err(UnusableSchema::OtherDocument);
                        }
                        // The crate might decode it in another way than `Walk`.
                        ("$ref", Value::String(to)) if to.contains('%') => {
                            return Err(UnusableSchema::EscapedName);
                        }
                        (
                            "$id" | "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$recursiveRef",
                            Value::String(_),
                        ) => return Err(UnusableSchema::Uses(key.clone())),
                        // The old name of `$id`; harmless at the top level.
                        ("id", Value::String(_)) if !is_root => {
                            return Err(UnusableSchema::EmbeddedIds);
                        }
                        _ => {}
                    }
                    // Not only keywords: a property can have the name of a keyword and be the target of a reference.
                    self.count(inner, false)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Counts the most steps that a check can take: nested references can multiply them beyond any limit.
struct Walk<'s> {
    root: &'s Value,
    left: usize,
}

impl Walk<'_> {
    fn visit(&mut self, schema: &Value, value: &Value, depth: usize) -> Result<(), UnusableSchema> {
        self.left = self.left.checked_sub(1).ok_or(UnusableSchema::TooSlow)?;
        if depth > DEPTH {
            return Err(UnusableSchema::Endless);
        }
        let depth = depth + 1;
        let Some(schema) = schema.as_object() else {
            return Ok(());
        };
        for (key, inner) in schema {
            match (key.as_str(), inner) {
                ("$ref", Value::String(to)) => {
                    let target = self.root.pointer(to.strip_prefix('#').unwrap_or(to));
                    self.visit(target.ok_or(UnusableSchema::MissingPart)?, value, depth)
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                    all.iter().try_for_each(|one| self.visit(one, value, depth))
                }
                ("not" | "if" | "then" | "else", _) => self.visit(inner, value, depth),
                ("dependentSchemas" | "dependencies", Value::Object(all)) => all
                    .values()
                    .try_for_each(|one| self.visit(one, value, depth)),
                ("properties", Value::Object(all)) => {
                    let mut given = all
                        .iter()
                        .filter_map(|(name, one)| Some((one, value.get(name)?)));
                    given.try_for_each(|(one, child)| self.visit(one, child, depth))
                }
                ("patternProperties", Value::Object(all)) => all
                    .values()
                    .try_for_each(|one| self.visit_members(one, value, depth)),
                ("additionalProperties" | "unevaluatedProperties", _) => {
                    self.visit_members(inner, value, depth)
                }
                ("propertyNames", _) => {
                    let mut names = value.as_object().into_iter().flat_map(Map::keys);
                    names.try_for_each(|_| self.visit(inner, &Value::Null, depth))
                }
                ("prefixItems" | "items", Value::Array(all)) => {
                    let mut pairs = all.iter().zip(value.as_array().into_iter().flatten());
                    pairs.try_for_each(|(one, child)| self.visit(one, child, depth))
                }
                ("items" | "additionalItems" | "unevaluatedItems" | "contains", _) => {
                    let mut children = value.as_array().into_iter().flatten();
                    children.try_for_each(|child| self.visit(inner, child, depth))
                }
                _ => Ok(()),
            }?;
        }
        Ok(())
    }

    fn visit_members(
        &mut self,
        schema: &Value,
        value: &Value,
        depth: usize,
    ) -> Result<(), UnusableSchema> {
        let mut members = value.as_object().into_iter().flat_map(Map::values);
        members.try_for_each(|child| self.visit(schema, child, depth))
    }
}

/// How deep nested alternatives are searched for the best error.
const ALTERNATIVE_DEPTH: usize = 3;

/// Choices listed in an error message; a list of hundreds helps nobody.
pub(super) const CHOICES_LISTED: usize = 12;

/// The first of some choices, for a message.
pub(super) fn listed(choices: &[Value], show: impl Fn(&Value) -> String) -> String {
    let mut texts: Vec<String> = choices.iter().take(CHOICES_LISTED).map(show).collect();
    if choices.len() > CHOICES_LISTED {
        texts.push("...".to_owned());
    }
    texts.join(", ")
}

/// Turns an error into our own messages; the crate's messages quote whole values.
fn describe(error: &SchemaError<'_>, depth: usize, found: &mut Vec<ValidationError>) {
    let path = path_of(error);
    let mut report = |path: &[PathSegment], message: String| {
        found.push(ValidationError {
            path: path.to_vec(),
            message,
        });
    };
    let member = |name: &str| {
        let mut path = path.clone();
        path.push(PathSegment::Key(name.to_owned()));
        path
    };
    let message = match error.kind() {
        Kind::Required { property } => {
            return report(
                &member(property.as_str().unwrap_or_default()),
                "is missing".to_owned(),
            );
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            for name in unexpected.iter().take(CHOICES_LISTED) {
                let message = if path.is_empty() {
                    "is not an argument of this tool".to_owned()
                } else {
                    format!("is not a member of {}", path_label(&path))
                };
                report(&member(name), message);
            }
            return;
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            return describe_alternatives(context, &path, depth, found);
        }
        kind => violation(kind),
    };
    report(&path, message);
}

/// What the value must be.
fn violation(kind: &Kind) -> String {
    let at_least = |limit: u64, one| format!("must have at least {}", text::plural(limit, one));
    let at_most = |limit: u64, one| format!("must have at most {}", text::plural(limit, one));
    match kind {
        Kind::OneOfMultipleValid { .. } => {
            "must match only one alternative, but matches several".to_owned()
        }
        Kind::Type { kind } => format!("must be {}", type_names(kind).join(" or ")),
        Kind::Constant { expected_value } => format!("must be {}", short(expected_value)),
        Kind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            format!("must be one of {}", listed(options, short))
        }
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => at_least(*limit, "character"),
        Kind::MaxLength { limit } => at_most(*limit, "character"),
        Kind::MinItems { limit } => at_least(*limit, "item"),
        Kind::MaxItems { limit } => at_most(*limit, "item"),
        Kind::AdditionalItems { limit } => at_most(*limit as u64, "item"),
        Kind::UnevaluatedItems { .. } => "has too many items".to_owned(),
        Kind::MinProperties { limit } => at_least(*limit, "member"),
        Kind::MaxProperties { limit } => at_most(*limit, "member"),
        Kind::UniqueItems => "must not have duplicate items".to_owned(),
        Kind::Contains => "lacks a required kind of item".to_owned(),
        Kind::Pattern { pattern } => {
            format!("must match the pattern {}", text::truncate(pattern, 60))
        }
        Kind::Format { format } => match format.parse::<TextFormat>() {
            Ok(format) => format!("must be {}", format.message()),
            Err(_) => format!("must have the format {}", text::truncate(format, 40)),
        },
        Kind::PropertyNames { .. } => "has a member whose name is not allowed".to_owned(),
        Kind::FalseSchema => "is not allowed here".to_owned(),
        Kind::Not { .. } => "must not have this value".to_owned(),
        other => format!("violates {} of the schema", other.keyword()),
    }
}

/// No alternative matches. If one was probably meant, reports its errors; else reports the types that are accepted.
fn describe_alternatives(
    context: &[Vec<SchemaError<'static>>],
    path: &[PathSegment],
    depth: usize,
    found: &mut Vec<ValidationError>,
) {
    let is_wrong_type = |error: &SchemaError<'_>| {
        let is_here =
            path_of(error).len() <= path.len() && matches!(error.kind(), Kind::Type { .. });
        is_here || matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. })
    };
    let mut near = context
        .iter()
        .filter(|errors| !errors.is_empty() && !errors.iter().any(is_wrong_type));
    if let (Some(errors), None) = (near.next(), near.next())
        && depth < ALTERNATIVE_DEPTH
    {
        for error in errors.iter().take(MAX_ERRORS) {
            describe(error, depth + 1, found);
        }
        return;
    }
    let mut accepted = Vec::new();
    for error in context.iter().flatten() {
        match error.kind() {
            Kind::Type { kind } if path_of(error).len() == path.len() => {
                accepted.extend(type_names(kind));
            }
            Kind::Constant { expected_value } if path_of(error).len() == path.len() => {
                accepted.push(short(expected_value));
            }
            _ => {
                accepted.clear();
                break;
            }
        }
    }
    accepted.dedup();
    accepted.truncate(CHOICES_LISTED);
    let message = if accepted.is_empty() {
        format!(
            "matches none of its {}",
            text::plural(context.len() as u64, "alternative")
        )
    } else {
        format!("must be {}", accepted.join(" or "))
    };
    found.push(ValidationError {
        path: path.to_vec(),
        message,
    });
}

fn path_of(error: &SchemaError<'_>) -> Vec<PathSegment> {
    error
        .instance_path()
        .into_iter()
        .map(|segment| match segment {
            jsonschema::paths::LocationSegment::Index(index) => PathSegment::Index(index),
            jsonschema::paths::LocationSegment::Property(key) => PathSegment::Key(key.into_owned()),
        })
        .collect()
}

fn type_names(kind: &TypeKind) -> Vec<String> {
    let name = |kind: JsonType| {
        match kind {
            JsonType::Null => "null",
            JsonType::Boolean => "true or false",
            JsonType::Integer => "a whole number",
            JsonType::Number => "a number",
            JsonType::String => "text",
            JsonType::Array => "a list",
            JsonType::Object => "an object",
        }
        .to_owned()
    };
    match kind {
        TypeKind::Single(one) => vec![name(*one)],
        TypeKind::Multiple(all) => all.iter().map(name).collect(),
    }
}

fn short(value: &Value) -> String {
    text::truncate(&value.to_string(), 40).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(schema: &Value, arguments: &Value) -> Result<Vec<String>, UnusableSchema> {
        let found = check(&schema.to_string(), arguments)?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn reports_errors_with_path_and_plain_message() {
        let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.org/tool",
        "$defs": {"street": {"type": "string", "minLength": 3}},
        "type": "object", "required": ["to"], "properties": {
            "to": {"type": "object", "required": ["street"], "additionalProperties": false,
                "properties": {"street": {"$ref": "#/$defs/street"}}},
            "tags": {"type": "array", "maxItems": 2, "uniqueItems": true, "items": {"enum": ["a", "b", 1]}},
            "when": {"type": "string", "format": "date-time"},
            "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]},
            "shape": {"oneOf": [
                {"properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
                {"properties": {"kind": {"const": "box"}, "w": {"type": "number"}}, "required": ["kind", "w"]}]},
        }});
        let wrong = [
            (json!({}), "to is missing"),
            (json!({"to": {}}), "to.street is missing"),
            (
                json!({"to": {"street": "x"}}),
                "to.street must have at least 3 characters",
            ),
            (
                json!({"to": {"street": "abc", "zip": 1}}),
                "to.zip is not a member of to",
            ),
            (
                json!({"to": {"street": "abc"}, "tags": ["a", "c"]}),
                r#"tags[1] must be one of "a", "b", 1"#,
            ),
            (
                json!({"to": {"street": "abc"}, "tags": ["a", "a"]}),
                "tags must not have duplicate items",
            ),
            (
                json!({"to": {"street": "abc"}, "when": "noon"}),
                "when must be a time such as 2026-11-20T06:52:00Z",
            ),
            (
                json!({"to": {"street": "abc"}, "code": "abc"}),
                "code must match the pattern ^[A-Z]{2}$",
            ),
            (
                json!({"to": {"street": "abc"}, "either": true}),
                "either must be text or a whole number",
            ),
            (
                json!({"to": {"street": "abc"}, "either": 0}),
                "either must be at least 1",
            ),
            (
                json!({"to": {"street": "abc"}, "shape": {"kind": "box"}}),
                "shape.w is missing",
            ),
        ];
        for (arguments, message) in wrong {
            assert_eq!(
                lines(&schema, &arguments),
                Ok(vec![message.to_owned()]),
                "{arguments}"
            );
        }
        let fine = json!({"to": {"street": "abc"}, "tags": ["b"], "when": "2026-11-20T06:52:00Z", "code": "AB",
            "either": 3, "shape": {"kind": "circle", "r": 1}});
        assert_eq!(lines(&schema, &fine), Ok(vec![]));
    }

    #[test]
    fn refuses_endless_huge_or_external_schemas() {
        let doubling: Map<String, Value> = (0..40)
            .map(|at| {
                let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
                (format!("a{at}"), json!({"allOf": [next, next]}))
            })
            .chain([("a40".to_owned(), json!({}))])
            .collect();
        let mut deep = json!({});
        for _ in 0..100 {
            deep = json!({"not": deep});
        }
        let many: Vec<Value> = (0..30_000).map(|at| json!({"const": at})).collect();
        for (schema, why) in [
            (json!({"$ref": "#"}), "endlessly"),
            (json!({"allOf": [{"$ref": "#/allOf/0"}]}), "endlessly"),
            (
                json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
                "endlessly",
            ),
            (
                json!({"$defs": doubling.clone(), "$ref": "#/$defs/a0"}),
                "too long",
            ),
            (
                json!({"properties": {"default": {
                    "$id": "urn:x", "$defs": doubling.clone(), "$ref": "#/$defs/a0"
                }}}),
                "$id",
            ),
            (deep, "endlessly"),
            (json!({"anyOf": many}), "too large"),
            (json!({"$ref": "https://example.org/x"}), "another document"),
            (json!({"$ref": "file:///etc/passwd"}), "another document"),
            (json!({"$ref": "#/nowhere"}), "missing part"),
            (json!({"$dynamicRef": "#x"}), "$dynamicRef"),
            (json!({"type": "strange"}), "strange"),
            (json!([]), "not an object"),
        ] {
            let unusable = lines(&schema, &json!({"a": 1})).unwrap_err().to_string();
            assert!(unusable.contains(why), "{why}: {unusable}");
        }
        // The same schemas are fine where no argument reaches them.
        for schema in [
            json!({"$defs": doubling, "properties": {"x": {"$ref": "#/$defs/a0"}}}),
            json!({"properties": {"x": {"$ref": "#/properties/x"}}}),
            json!({"properties": {"x": {"not": {"anyOf": [{"$ref": "#"}, {"$ref": "#/properties/x"}]}}}}),
        ] {
            assert_eq!(lines(&schema, &json!({"a": 1})), Ok(vec![]), "{schema}");
        }
        // A recursive schema is checked as deep as the arguments are.
        let tree = json!({"properties": {"left": {"$ref": "#"}, "n": {"type": "integer"}}});
        assert_eq!(
            lines(&tree, &json!({"left": {"left": {"n": "x"}}})),
            Ok(vec!["left.left.n must be a whole number".to_owned()])
        );
    }

    #[test]
    fn skips_patterns_that_are_expensive_to_compile() {
        for pattern in [
            "(a{1000}){1000}",
            r"^(?=.*\d).{4,8}$",
            r"(a)\1",
            "(((((((((((((((((((((",
        ] {
            let schema = json!({"properties": {"x": {"type": "string", "pattern": pattern}, "n": {"type": "integer"}}});
            match lines(&schema, &json!({"x": "b", "n": "1"})) {
                Ok(said) => assert_eq!(said, ["n must be a whole number"], "{pattern}"),
                Err(why) => panic!("{pattern}: {why}"),
            }
        }
        let hard = json!({"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}});
        let long = "a".repeat(50_000) + "b";
        assert_eq!(
            lines(&hard, &json!({"x": long})).unwrap(),
            ["x must match the pattern ^(a+)+$"]
        );
        let all = json!({"patternProperties": {r"(x)\1": {}}, "additionalProperties": false});
        assert_eq!(lines(&all, &json!({"xx": 1})), Ok(vec![]));
    }
}
