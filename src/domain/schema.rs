//! Arguments against the whole schema of a tool, before they are sent.
//!
//! The checking itself is the work of a crate. Here is what has to stand around it where the schema is a stranger's: it
//! must not loop, blow up or reach out of its document, and what it finds is said in our own words. A schema that cannot
//! be used prevents no call; it is said that nothing was checked.

use core::fmt;

use jsonschema::{
    Draft, JsonType, PatternOptions, ValidationError as SchemaError, Validator,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::{Map, Value};

use super::{argument::TextFormat, text};

/// A step from arguments to a value in them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathSegment {
    /// Into an object.
    Key(String),
    /// Into a list.
    Index(usize),
}

/// A path as people write it: `address.lines[0]`; not sanitised.
pub fn path_label(path: &[PathSegment]) -> String {
    let mut line = String::new();
    for step in path {
        match step {
            PathSegment::Key(key) if line.is_empty() => line.push_str(key),
            PathSegment::Key(key) => {
                line.push('.');
                line.push_str(key);
            }
            PathSegment::Index(place) => line.extend(["[", &place.to_string(), "]"]),
        }
    }
    line
}

/// One thing that is wrong with arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// Where; nothing for the arguments as a whole.
    pub path: Vec<PathSegment>,
    /// What, in words that go on after the path.
    pub words: String,
}

impl ValidationError {
    pub(super) fn of(name: &str, words: impl Into<String>) -> Self {
        Self {
            path: vec![PathSegment::Key(name.to_owned())],
            words: words.into(),
        }
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return write!(f, "the arguments {}", self.words);
        }
        write!(f, "{} {}", path_label(&self.path), self.words)
    }
}

/// What came of checking arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentCheck {
    /// What is wrong with them; empty where nothing is seen to be.
    pub errors: Vec<ValidationError>,
    /// Why the schema could not be used for all of it, so that the server is the first to look.
    pub unusable: Option<String>,
}

/// Steps of one check, each a part of the schema that meets a part of the arguments; an honest check takes dozens.
const STEPS: usize = 20_000;
/// Deeper than this is a loop, or meant to exhaust the stack.
const DEPTH: usize = 96;
/// Parts of a schema, of whatever kind.
const PARTS: usize = 20_000;
/// Bytes that a pattern may take once it is compiled.
const PATTERN_BYTES: usize = 256 * 1024;
/// Patterns that are compiled; with more of them none is.
const PATTERNS: usize = 64;
/// Complaints that are said at once; more help nobody.
const MOST: usize = 20;
/// Choices named in a complaint.
const NAMED: usize = 12;

/// Checks arguments against a schema: what is wrong, or why the schema cannot be used.
pub(super) fn check(schema: &str, arguments: &Value) -> Result<Vec<ValidationError>, String> {
    // Parsing bounds the depth of what follows.
    let mut schema: Value =
        serde_json::from_str(schema).map_err(|_| "it is not valid JSON, or too deep".to_owned())?;
    let Some(root) = schema.as_object_mut() else {
        return Err("it is no object".to_owned());
    };
    let draft = draft(root);
    // References are looked up within the document, whatever it calls itself.
    root.remove("$id");
    root.remove("$schema");
    let mut parts = Parts::default();
    parts.count(&schema, true)?;
    Walk {
        root: &schema,
        left: STEPS,
    }
    .meet(&schema, arguments, 0)?;
    let validator = match build(&schema, draft, parts.patterns <= PATTERNS) {
        Err(_) if parts.patterns > 0 => build(&schema, draft, false),
        other => other,
    }?;
    let mut found = Vec::new();
    for error in validator.iter_errors(arguments).take(MOST) {
        tell(&error, 0, &mut found);
    }
    found.dedup();
    found.truncate(MOST);
    Ok(found)
}

/// The dialect that a schema says it is in; MCP's own where it says nothing (MCP 2025-11-25, basic, JSON Schema usage).
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

fn build(schema: &Value, draft: Draft, has_patterns: bool) -> Result<Validator, String> {
    let without;
    let schema = if has_patterns {
        schema
    } else {
        let mut copy = schema.clone();
        strip_patterns(&mut copy);
        without = copy;
        &without
    };
    // The linear engine: a pattern must not be able to hold up the screen.
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
            let words = error.to_string();
            let words = text::clean_line(&words);
            text::truncate(&words, 120).into_owned()
        })
}

/// Takes out what needs a pattern, and what would then refuse what the pattern allows.
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

/// What a schema is made of.
#[derive(Default)]
struct Parts {
    all: usize,
    patterns: usize,
}

impl Parts {
    /// Refuses what is too large, and what the walk below could not follow as the crate does.
    fn count(&mut self, schema: &Value, is_root: bool) -> Result<(), String> {
        self.all += 1;
        if self.all > PARTS {
            return Err("it is too large".to_owned());
        }
        match schema {
            Value::Array(items) => items.iter().try_for_each(|item| self.count(item, false)),
            Value::Object(members) => {
                for (key, inner) in members {
                    match (key.as_str(), inner) {
                        ("pattern", Value::String(_)) => self.patterns += 1,
                        ("patternProperties", Value::Object(all)) => self.patterns += all.len(),
                        ("$ref", Value::String(to)) if to != "#" && !to.starts_with("#/") => {
                            return Err("it refers to another document".to_owned());
                        }
                        // How an escaped reference is read is nothing to differ about with the crate.
                        ("$ref", Value::String(to)) if to.contains('%') => {
                            return Err("it refers to something with an escaped name".to_owned());
                        }
                        (
                            "$id" | "$anchor" | "$dynamicAnchor" | "$dynamicRef" | "$recursiveRef",
                            Value::String(_),
                        ) => return Err(format!("it uses {key}")),
                        // What old dialects called `$id`; at the top it is a name and nothing else.
                        ("id", Value::String(_)) if !is_root => {
                            return Err("it has documents of its own within".to_owned());
                        }
                        _ => {}
                    }
                    // Also what is data at its place: a property can have the name of a keyword, and be referred to.
                    self.count(inner, false)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Goes the way that a check takes at most, only counting: a schema can ask for more steps than there are atoms.
struct Walk<'s> {
    root: &'s Value,
    left: usize,
}

impl Walk<'_> {
    fn meet(&mut self, schema: &Value, value: &Value, depth: usize) -> Result<(), String> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or("checking it would take too long")?;
        if depth > DEPTH {
            return Err("it refers to itself without end".to_owned());
        }
        let depth = depth + 1;
        let Some(schema) = schema.as_object() else {
            return Ok(());
        };
        for (key, inner) in schema {
            match (key.as_str(), inner) {
                ("$ref", Value::String(to)) => {
                    let target = self.root.pointer(to.strip_prefix('#').unwrap_or(to));
                    let target = target.ok_or("it refers to what it has not")?;
                    self.meet(target, value, depth)?;
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => {
                    for one in all {
                        self.meet(one, value, depth)?;
                    }
                }
                ("not" | "if" | "then" | "else", _) => self.meet(inner, value, depth)?,
                ("dependentSchemas" | "dependencies", Value::Object(all)) => {
                    for one in all.values() {
                        self.meet(one, value, depth)?;
                    }
                }
                ("properties", Value::Object(all)) => {
                    for (name, one) in all {
                        if let Some(child) = value.get(name) {
                            self.meet(one, child, depth)?;
                        }
                    }
                }
                ("patternProperties", Value::Object(all)) => {
                    for one in all.values() {
                        self.meet_members(one, value, depth)?;
                    }
                }
                ("additionalProperties" | "unevaluatedProperties", _) => {
                    self.meet_members(inner, value, depth)?;
                }
                ("propertyNames", _) => {
                    for _ in value.as_object().into_iter().flatten() {
                        self.meet(inner, &Value::Null, depth)?;
                    }
                }
                ("prefixItems" | "items", Value::Array(all)) => {
                    for (one, child) in all.iter().zip(value.as_array().into_iter().flatten()) {
                        self.meet(one, child, depth)?;
                    }
                }
                ("items" | "additionalItems" | "unevaluatedItems" | "contains", _) => {
                    for child in value.as_array().into_iter().flatten() {
                        self.meet(inner, child, depth)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn meet_members(&mut self, schema: &Value, value: &Value, depth: usize) -> Result<(), String> {
        for child in value.as_object().into_iter().flat_map(Map::values) {
            self.meet(schema, child, depth)?;
        }
        Ok(())
    }
}

/// How deep alternatives are looked into for what was meant.
const WITHIN: usize = 3;

/// Says an error in our own words; nothing of the crate's, which quotes whole values.
fn tell(error: &SchemaError<'_>, within: usize, found: &mut Vec<ValidationError>) {
    let path = steps(error);
    let mut say = |path: &[PathSegment], words: String| {
        found.push(ValidationError {
            path: path.to_vec(),
            words,
        });
    };
    let beneath = |name: &str| {
        let mut path = path.clone();
        path.push(PathSegment::Key(name.to_owned()));
        path
    };
    let words = match error.kind() {
        Kind::Required { property } => {
            return say(
                &beneath(property.as_str().unwrap_or_default()),
                "is missing".to_owned(),
            );
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            for name in unexpected.iter().take(NAMED) {
                let of_what = if path.is_empty() {
                    "is not an argument of this tool".to_owned()
                } else {
                    format!("is not asked for in {}", path_label(&path))
                };
                say(&beneath(name), of_what);
            }
            return;
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            return alternatives(context, &path, within, found);
        }
        Kind::OneOfMultipleValid { .. } => {
            "fits more than one of its alternatives, and must fit one".to_owned()
        }
        Kind::Type { kind } => format!("must be {}", kinds(kind).join(" or ")),
        Kind::Constant { expected_value } => format!("must be {}", short(expected_value)),
        Kind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let mut words: Vec<String> = options.iter().take(NAMED).map(short).collect();
            if options.len() > NAMED {
                words.push("...".to_owned());
            }
            format!("must be one of {}", words.join(", "))
        }
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::MinLength { limit } => {
            format!("must have at least {}", text::plural(*limit, "character"))
        }
        Kind::MaxLength { limit } => {
            format!("must have at most {}", text::plural(*limit, "character"))
        }
        Kind::MinItems { limit } => format!("must have at least {}", text::plural(*limit, "item")),
        Kind::MaxItems { limit } => format!("must have at most {}", text::plural(*limit, "item")),
        Kind::AdditionalItems { limit } => {
            format!("must have at most {}", text::plural(*limit as u64, "item"))
        }
        Kind::UnevaluatedItems { .. } => "has more items than are asked for".to_owned(),
        Kind::MinProperties { limit } => {
            format!("must have at least {}", text::plural(*limit, "member"))
        }
        Kind::MaxProperties { limit } => {
            format!("must have at most {}", text::plural(*limit, "member"))
        }
        Kind::UniqueItems => "must not have an item twice".to_owned(),
        Kind::Contains => "lacks an item of the kind that it must have".to_owned(),
        Kind::Pattern { pattern } => {
            format!("must fit the pattern {}", text::truncate(pattern, 60))
        }
        Kind::Format { format } => match TextFormat::parse(format) {
            Some(format) => format!("must be {}", format.message()),
            None => format!("must have the format {}", text::truncate(format, 40)),
        },
        Kind::PropertyNames { .. } => "has a member whose name is not allowed".to_owned(),
        Kind::FalseSchema => "is not allowed here".to_owned(),
        Kind::Not { .. } => "is what it must not be".to_owned(),
        other => format!("breaks the rule {} of the schema", other.keyword()),
    };
    say(&path, words);
}

/// None of the alternatives fits: the one that was nearly met says what is wrong, else the kinds that are taken do.
fn alternatives(
    context: &[Vec<SchemaError<'static>>],
    path: &[PathSegment],
    within: usize,
    found: &mut Vec<ValidationError>,
) {
    let is_other = |error: &SchemaError<'_>| {
        let is_here = steps(error).len() <= path.len() && matches!(error.kind(), Kind::Type { .. });
        is_here || matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. })
    };
    let mut near = context
        .iter()
        .filter(|errors| !errors.is_empty() && !errors.iter().any(is_other));
    if let (Some(errors), None) = (near.next(), near.next())
        && within < WITHIN
    {
        for error in errors.iter().take(MOST) {
            tell(error, within + 1, found);
        }
        return;
    }
    let mut taken = Vec::new();
    for error in context.iter().flatten() {
        match error.kind() {
            Kind::Type { kind } if steps(error).len() == path.len() => taken.extend(kinds(kind)),
            Kind::Constant { expected_value } if steps(error).len() == path.len() => {
                taken.push(short(expected_value));
            }
            _ => {
                taken.clear();
                break;
            }
        }
    }
    taken.dedup();
    taken.truncate(NAMED);
    let words = if taken.is_empty() {
        format!(
            "fits none of its {}",
            text::plural(context.len() as u64, "alternative")
        )
    } else {
        format!("must be {}", taken.join(" or "))
    };
    found.push(ValidationError {
        path: path.to_vec(),
        words,
    });
}

fn steps(error: &SchemaError<'_>) -> Vec<PathSegment> {
    error
        .instance_path()
        .into_iter()
        .map(|segment| match segment {
            jsonschema::paths::LocationSegment::Index(place) => PathSegment::Index(place),
            jsonschema::paths::LocationSegment::Property(key) => PathSegment::Key(key.into_owned()),
        })
        .collect()
}

fn kinds(kind: &TypeKind) -> Vec<String> {
    let word = |kind: JsonType| {
        match kind {
            JsonType::Null => "null",
            JsonType::Boolean => "true or false",
            JsonType::Integer => "a whole number",
            JsonType::Number => "a number",
            JsonType::String => "a text",
            JsonType::Array => "a list",
            JsonType::Object => "an object",
        }
        .to_owned()
    };
    match kind {
        TypeKind::Single(one) => vec![word(*one)],
        TypeKind::Multiple(all) => all.iter().map(word).collect(),
    }
}

fn short(value: &Value) -> String {
    text::truncate(&value.to_string(), 40).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(schema: &Value, arguments: &Value) -> Result<Vec<String>, String> {
        let found = check(&schema.to_string(), arguments)?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_is_wrong_is_said_with_its_path_and_in_our_words() {
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
                "to.zip is not asked for in to",
            ),
            (
                json!({"to": {"street": "abc"}, "tags": ["a", "c"]}),
                r#"tags[1] must be one of "a", "b", 1"#,
            ),
            (
                json!({"to": {"street": "abc"}, "tags": ["a", "a"]}),
                "tags must not have an item twice",
            ),
            (
                json!({"to": {"street": "abc"}, "when": "noon"}),
                "when must be a time such as 2026-11-20T06:52:00Z",
            ),
            (
                json!({"to": {"street": "abc"}, "code": "abc"}),
                "code must fit the pattern ^[A-Z]{2}$",
            ),
            (
                json!({"to": {"street": "abc"}, "either": true}),
                "either must be a text or a whole number",
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
        for (arguments, said) in wrong {
            assert_eq!(
                lines(&schema, &arguments),
                Ok(vec![said.to_owned()]),
                "{arguments}"
            );
        }
        let fine = json!({"to": {"street": "abc"}, "tags": ["b"], "when": "2026-11-20T06:52:00Z", "code": "AB",
            "either": 3, "shape": {"kind": "circle", "r": 1}});
        assert_eq!(lines(&schema, &fine), Ok(vec![]));
    }

    #[test]
    fn a_schema_that_would_loop_blow_up_or_reach_out_is_not_used_and_says_so() {
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
            (json!({"$ref": "#"}), "without end"),
            (json!({"allOf": [{"$ref": "#/allOf/0"}]}), "without end"),
            (
                json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}),
                "without end",
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
            (deep, "without end"),
            (json!({"anyOf": many}), "too large"),
            (json!({"$ref": "https://example.org/x"}), "another document"),
            (json!({"$ref": "file:///etc/passwd"}), "another document"),
            (json!({"$ref": "#/nowhere"}), "what it has not"),
            (json!({"$dynamicRef": "#x"}), "$dynamicRef"),
            (json!({"type": "strange"}), "strange"),
            (json!([]), "no object"),
        ] {
            let unusable = lines(&schema, &json!({"a": 1})).unwrap_err();
            assert!(unusable.contains(why), "{why}: {unusable}");
        }
        // Nor does compiling what no argument meets.
        for schema in [
            json!({"$defs": doubling, "properties": {"x": {"$ref": "#/$defs/a0"}}}),
            json!({"properties": {"x": {"$ref": "#/properties/x"}}}),
            json!({"properties": {"x": {"not": {"anyOf": [{"$ref": "#"}, {"$ref": "#/properties/x"}]}}}}),
        ] {
            assert_eq!(lines(&schema, &json!({"a": 1})), Ok(vec![]), "{schema}");
        }
        // What nobody meets costs nothing, and a schema of trees is checked as deep as the tree is.
        let tree = json!({"properties": {"left": {"$ref": "#"}, "n": {"type": "integer"}}});
        assert_eq!(
            lines(&tree, &json!({"left": {"left": {"n": "x"}}})),
            Ok(vec!["left.left.n must be a whole number".to_owned()])
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_had_cheaply_is_left_to_the_server() {
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
            ["x must fit the pattern ^(a+)+$"]
        );
        let all = json!({"patternProperties": {r"(x)\1": {}}, "additionalProperties": false});
        assert_eq!(lines(&all, &json!({"xx": 1})), Ok(vec![]));
    }
}
