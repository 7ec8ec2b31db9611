//! One form field: its schema, parsing of typed text, and validation. Used for tool arguments and for elicitation
//! fields.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

use super::{
    json_number,
    schema::{self, TextFormat, listed},
};

/// One property of a schema. All texts come from the server and are not sanitized.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentSpec {
    /// The property's key.
    pub name: String,
    /// The label to show instead of the key.
    pub title: Option<String>,
    /// The server's description.
    pub description: Option<String>,
    /// Whether the schema requires a value.
    pub is_required: bool,
    /// The default value from the schema.
    pub default: Option<Value>,
    /// The type of value it accepts.
    pub kind: ArgumentKind,
    /// Display names of the choices, in the same order; empty if the values are shown.
    pub labels: Vec<String>,
    /// Limits on top of the type.
    pub bounds: Bounds,
    /// Its own schema, which decides what is valid.
    pub schema: String,
    /// The schema's `format` keyword, for text only.
    pub format: Option<String>,
}

/// The type of value that one form field accepts.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgumentKind {
    /// A string.
    Text,
    /// A number.
    Number,
    /// A number without a fraction.
    Integer,
    /// True or false.
    Boolean,
    /// Exactly one of these values.
    Choice(Vec<Value>),
    /// A list of any of these values.
    Many(Vec<Value>),
    /// Anything else; the user types JSON.
    Json,
}

/// Limits from the schema, for hints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Minimum value, length in characters, or number of choices.
    pub least: Option<f64>,
    /// Maximum value, length in characters, or number of choices.
    pub most: Option<f64>,
}

impl ArgumentSpec {
    /// Parses one member of a schema's `properties`.
    pub(super) fn from_property(name: &str, property: &Value, is_required: bool) -> Self {
        let text_of = |key: &str| property.get(key).and_then(Value::as_str);
        let (kind, labels) = kind_of(property);
        let (least, most) = match kind {
            ArgumentKind::Text => ("minLength", "maxLength"),
            ArgumentKind::Many(_) => ("minItems", "maxItems"),
            _ => ("minimum", "maximum"),
        };
        let number = |key: &str| property.get(key).and_then(Value::as_f64);
        Self {
            name: name.to_owned(),
            title: None,
            description: text_of("description").map(str::to_owned),
            is_required,
            default: property
                .get("default")
                .filter(|value| !value.is_null())
                .cloned(),
            format: text_of("format")
                .filter(|_| kind == ArgumentKind::Text)
                .map(str::to_owned),
            kind,
            labels,
            bounds: Bounds {
                least: number(least),
                most: number(most),
            },
            schema: property.to_string(),
        }
    }

    /// The display name of the choice at `index`; not sanitized.
    pub fn label(&self, index: usize) -> String {
        let (ArgumentKind::Choice(choices) | ArgumentKind::Many(choices)) = &self.kind else {
            return String::new();
        };
        match (self.labels.get(index), choices.get(index)) {
            (Some(label), _) => label.clone(),
            (None, Some(choice)) => unquoted(choice),
            (None, None) => String::new(),
        }
    }

    /// Parses typed text. Choices match by value or by label; several are separated by commas. `None` if it is not
    /// what is [expected](Self::expected).
    pub fn parse(&self, typed: &str) -> Option<Value> {
        let number = || {
            serde_json::from_str::<Value>(typed.trim())
                .ok()
                .filter(Value::is_number)
        };
        match &self.kind {
            ArgumentKind::Integer => number().and_then(|value| whole(&value)),
            ArgumentKind::Number => number(),
            ArgumentKind::Boolean => match typed.trim() {
                "true" | "yes" | "1" => Some(Value::Bool(true)),
                "false" | "no" | "0" => Some(Value::Bool(false)),
                _ => None,
            },
            ArgumentKind::Choice(choices) => self.find_choice(choices, typed),
            ArgumentKind::Many(choices) => {
                let parts = typed.split(',').map(str::trim);
                let parts = parts.filter(|part| !part.is_empty());
                parts
                    .map(|part| self.find_choice(choices, part))
                    .collect::<Option<Vec<_>>>()
                    .map(Value::Array)
            }
            ArgumentKind::Text | ArgumentKind::Json => Some(Value::String(typed.to_owned())),
        }
    }

    fn find_choice(&self, choices: &[Value], typed: &str) -> Option<Value> {
        let by_value = choices.iter().find(|choice| unquoted(choice) == typed);
        let by_label = || {
            let index = self.labels.iter().position(|label| label == typed)?;
            choices.get(index)
        };
        by_value.or_else(by_label).cloned()
    }

    /// What is wrong with a value, as a phrase that continues the name: `must be a number`. `None` if it is valid or the
    /// schema is unusable.
    pub fn violation(&self, value: &Value) -> Option<String> {
        let errors = schema::check(&self.schema, value).ok()?;
        errors.into_iter().next().map(|error| error.message)
    }

    /// What a valid value is, as a phrase that continues `must be`.
    pub fn expected(&self) -> String {
        self.described(Value::to_string)
    }

    /// As [`Self::expected`], with the titles of choices that have their own: `one of eu (Europe), us (America)`. Not
    /// sanitized.
    pub fn expected_with_titles(&self) -> String {
        let (ArgumentKind::Choice(choices) | ArgumentKind::Many(choices)) = &self.kind else {
            return self.expected();
        };
        if self.labels.is_empty() {
            return self.expected();
        }
        self.described(|value| {
            let position = choices.iter().position(|choice| choice == value);
            let title = position.and_then(|position| self.labels.get(position));
            match (unquoted(value), title) {
                (value, Some(title)) if value != *title => format!("{value} ({title})"),
                (value, _) => value,
            }
        })
    }

    fn described(&self, show: impl Fn(&Value) -> String) -> String {
        let bounds = |unit: &str| {
            let counted = |count: f64| match (unit, count.to_string()) {
                ("", count) => count,
                (unit, count) if count == "1" => format!("{count} {unit}"),
                (unit, count) => format!("{count} {unit}s"),
            };
            match (self.bounds.least, self.bounds.most) {
                (Some(least), Some(most)) if least >= most => counted(least),
                (Some(least), Some(most)) => format!("{least} to {}", counted(most)),
                (Some(least), None) => format!("at least {}", counted(least)),
                (None, Some(most)) => format!("at most {}", counted(most)),
                (None, None) => String::new(),
            }
        };
        let with_bounds = |what: &str, unit: &str| {
            let of = match (self.bounds.least, self.bounds.most) {
                // "a number from 1 to 5", but "text of 1 to 5 characters".
                (Some(least), Some(most)) if least < most && unit.is_empty() => "from",
                _ => "of",
            };
            match bounds(unit) {
                bounds if bounds.is_empty() => what.to_owned(),
                bounds => format!("{what} {of} {bounds}"),
            }
        };
        match &self.kind {
            ArgumentKind::Text => {
                let format = self.format.as_ref().and_then(|format| format.parse().ok());
                with_bounds(format.map_or("text", TextFormat::message), "character")
            }
            ArgumentKind::Number => with_bounds("a number", ""),
            ArgumentKind::Integer => with_bounds("a whole number", ""),
            ArgumentKind::Boolean => "true or false".to_owned(),
            ArgumentKind::Choice(choices) => {
                format!("one of {}", listed(choices, show))
            }
            ArgumentKind::Many(choices) => {
                let count = match bounds("") {
                    count if count.is_empty() => "any".to_owned(),
                    count => count,
                };
                format!("{count} of {}", listed(choices, show))
            }
            ArgumentKind::Json => "JSON".to_owned(),
        }
    }
}

/// The names of an object's required members.
pub(super) fn required(schema: &Value) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    let names = names.into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

pub(super) fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let members = schema.get("properties").and_then(Value::as_object);
    members.into_iter().flatten()
}

/// The number as an integer, if it has no fraction: `5.0` becomes `5`.
pub(super) fn whole(value: &Value) -> Option<Value> {
    if value.is_i64() || value.is_u64() {
        return Some(value.clone());
    }
    let number = json_number(value.as_f64()?);
    (!number.is_f64()).then_some(number)
}

/// Whether this JSON has a whole number above 64 bits, which a [`Value`] would round.
pub fn has_large_integer(json: &str) -> bool {
    let json = json.trim();
    match json.as_bytes().first() {
        Some(b'{') => {
            serde_json::from_str(json).is_ok_and(|members: BTreeMap<String, &RawValue>| {
                members
                    .values()
                    .any(|member| has_large_integer(member.get()))
            })
        }
        Some(b'[') => serde_json::from_str(json).is_ok_and(|items: Vec<&RawValue>| {
            items.iter().any(|item| has_large_integer(item.get()))
        }),
        Some(b'-' | b'0'..=b'9') => {
            !json.contains(['.', 'e', 'E'])
                && json != "-0"
                && serde_json::from_str(json).is_ok_and(|value: Value| value.is_f64())
        }
        _ => false,
    }
}

/// The value as text, strings without their quotes.
pub fn unquoted(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// The type that a property accepts, and the labels of its choices.
fn kind_of(property: &Value) -> (ArgumentKind, Vec<String>) {
    if let Some((choices, labels)) = choices(property) {
        return (ArgumentKind::Choice(choices), labels);
    }
    if let Some(only) = property.get("const") {
        return (ArgumentKind::Choice(vec![only.clone()]), Vec::new());
    }
    let simple = |name: &str| match name {
        "string" => Some(ArgumentKind::Text),
        "number" => Some(ArgumentKind::Number),
        "integer" => Some(ArgumentKind::Integer),
        "boolean" => Some(ArgumentKind::Boolean),
        _ => None,
    };
    // Python servers write an optional string as anyOf [string, null], others as type [string, null].
    let types: Vec<&str> = match (property.get("type"), property.get("anyOf")) {
        (Some(Value::String(name)), _) => vec![name.as_str()],
        (Some(Value::Array(names)), _) => names.iter().filter_map(Value::as_str).collect(),
        (_, Some(Value::Array(choices))) => choices
            .iter()
            // Keep alternatives without a type, so that two alternatives never look like one.
            .map(|choice| choice.get("type").and_then(Value::as_str).unwrap_or(""))
            .collect(),
        _ => Vec::new(),
    };
    let types: Vec<&str> = types.into_iter().filter(|name| *name != "null").collect();
    match types.as_slice() {
        ["array"] => match property.get("items").and_then(choices) {
            Some((choices, labels)) => (ArgumentKind::Many(choices), labels),
            None => (ArgumentKind::Json, Vec::new()),
        },
        [name] => (simple(name).unwrap_or(ArgumentKind::Json), Vec::new()),
        _ => (ArgumentKind::Json, Vec::new()),
    }
}

/// The choices of a schema and their labels: `enum` with `enumNames`, or `oneOf`/`anyOf` with `const` and `title`.
fn choices(schema: &Value) -> Option<(Vec<Value>, Vec<String>)> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(choices) = list("enum") {
        let names = list("enumNames").map(Vec::as_slice).unwrap_or_default();
        let labels = names.iter().filter_map(Value::as_str);
        let labels: Vec<String> = labels.map(str::to_owned).collect();
        let is_whole = labels.len() == choices.len();
        return Some((choices.clone(), if is_whole { labels } else { Vec::new() }));
    }
    let titled = list("oneOf").or_else(|| list("anyOf"))?;
    titled
        .iter()
        .map(|one| {
            let value = one.get("const")?;
            let title = one.get("title").and_then(Value::as_str);
            Some((
                value.clone(),
                title.map_or_else(|| unquoted(value), str::to_owned),
            ))
        })
        .collect::<Option<Vec<_>>>()
        .filter(|pairs| !pairs.is_empty())
        .map(|pairs| pairs.into_iter().unzip())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(property: &Value) -> ArgumentSpec {
        ArgumentSpec::from_property("x", property, false)
    }

    #[test]
    fn parses_choices_by_value_or_label_in_every_schema_form() {
        for property in [
            json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}),
            json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}),
        ] {
            let spec = spec(&property);
            assert_eq!(spec.label(1), "Green", "{property}");
            assert_eq!(spec.parse("g"), Some(json!("g")));
            assert_eq!(spec.parse("Green"), Some(json!("g")));
            assert_eq!(spec.parse("blue"), None);
            assert_eq!(spec.expected(), r#"one of "r", "g""#);
        }
        for items in [
            json!({"type": "string", "enum": ["r", "g", "b"]}),
            json!({"anyOf": [{"const": "r", "title": "Red"}, {"const": "g"}, {"const": "b"}]}),
        ] {
            let spec =
                spec(&json!({"type": "array", "items": items, "minItems": 1, "maxItems": 2}));
            assert_eq!(spec.parse("g, r"), Some(json!(["g", "r"])));
            assert_eq!(spec.expected(), r#"1 to 2 of "r", "g", "b""#);
            assert_eq!(spec.violation(&json!(["g"])), None);
            for wrong in [json!([]), json!(["r", "g", "b"]), json!(["x"]), json!("r")] {
                assert!(spec.violation(&wrong).is_some(), "{wrong}");
            }
        }
    }

    #[test]
    fn describes_choices_with_their_titles() {
        let titled = |count: usize, more: Value| {
            let choices: Vec<Value> = (0..count)
                .map(|at| json!({"const": format!("v{at}"), "title": format!("V {at}")}))
                .collect();
            let mut property = json!({"type": "array", "items": {"anyOf": choices}});
            for (key, value) in more.as_object().unwrap() {
                property[key] = value.clone();
            }
            spec(&property).expected_with_titles()
        };
        assert_eq!(titled(2, json!({})), "any of v0 (V 0), v1 (V 1)");
        let bounds = json!({"minItems": 1, "maxItems": 2});
        assert_eq!(titled(2, bounds), "1 to 2 of v0 (V 0), v1 (V 1)");
        assert!(titled(13, json!({})).ends_with("v11 (V 11), ..."));
        let plain = spec(&json!({"type": "string", "enum": ["r", "g"]}));
        assert_eq!(plain.expected_with_titles(), plain.expected());
    }

    #[test]
    fn describes_bounds_and_formats_in_one_phrase() {
        let text = |more: Value| {
            let mut property = json!({"type": "string"});
            for (key, value) in more.as_object().unwrap() {
                property[key] = value.clone();
            }
            property
        };
        for (property, value, expected) in [
            (
                text(json!({"minLength": 3, "maxLength": 5})),
                json!("日本"),
                "text of 3 to 5 characters",
            ),
            (
                text(json!({"format": "email"})),
                json!("ada"),
                "an email address",
            ),
            (
                text(json!({"format": "uri"})),
                json!("example"),
                "a URL such as https://example.org",
            ),
            (
                text(json!({"format": "date"})),
                json!("2026-02-30"),
                "a date such as 2026-11-20",
            ),
            (
                text(json!({"format": "date-time"})),
                json!("noon"),
                "a time such as 2026-11-20T06:52:00Z",
            ),
            (
                json!({"type": "integer", "minimum": 1}),
                json!(0),
                "a whole number of at least 1",
            ),
            (
                json!({"type": "number", "maximum": 0.5}),
                json!(0.6),
                "a number of at most 0.5",
            ),
        ] {
            let spec = spec(&property);
            assert_eq!(spec.expected(), expected);
            assert!(spec.violation(&value).is_some(), "{property}");
        }
        for (property, value) in [
            (
                text(json!({"minLength": 3, "maxLength": 5})),
                json!("日本語"),
            ),
            (text(json!({"format": "email"})), json!("ada@example.org")),
            (
                text(json!({"format": "uri"})),
                json!("https://example.org/a?b"),
            ),
            (text(json!({"format": "date"})), json!("2026-02-28")),
            (
                text(json!({"format": "date-time"})),
                json!("2026-11-20T06:52:00+01:00"),
            ),
            (text(json!({"format": "unheard-of"})), json!("anything")),
            (json!({"type": "integer", "minimum": 1}), json!(1.0)),
        ] {
            assert_eq!(spec(&property).violation(&value), None);
        }
    }

    #[test]
    fn accepts_integers_written_with_a_zero_fraction() {
        assert_eq!(whole(&json!(5.0)).unwrap().to_string(), "5");
        assert_eq!(whole(&json!(5.5)), None);
        assert_eq!(whole(&json!(1e300)), None);
        let integer = spec(&json!({"type": "integer"}));
        assert_eq!(integer.parse("5.0"), Some(json!(5)));
    }
}
