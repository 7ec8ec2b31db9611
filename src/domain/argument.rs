//! One value of a form: what a schema says of it, how typed text becomes it, and what is wrong with it. Arguments of
//! tools and fields of questions are the same to a person, so they are the same here.

use serde_json::{Number, Value};
use url::Url;

use super::Wall;

/// One value that a schema asks for; every text in it is the server's and not yet sanitised.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentSpec {
    /// Its key.
    pub name: String,
    /// The name to show, where that is not the key.
    pub title: Option<String>,
    /// What it is for, in the server's words.
    pub description: Option<String>,
    /// Whether it is refused to be without it.
    pub is_required: bool,
    /// Its default, as JSON.
    pub default: Option<Value>,
    /// What it takes.
    pub kind: ArgumentKind,
    /// What the choices are called, where that is not what is sent; in their order.
    pub labels: Vec<String>,
    /// What it demands beside the kind.
    pub bounds: Bounds,
    /// The format that a text has, in the word of the schema.
    pub format: Option<String>,
}

/// What a value is, as far as a form of single fields can ask for it.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgumentKind {
    /// Any text.
    Text,
    /// A number.
    Number,
    /// A number without fraction.
    Integer,
    /// Yes or no.
    Boolean,
    /// One of these.
    Choice(Vec<Value>),
    /// Any of these, as a list.
    Many(Vec<Value>),
    /// Anything else; typed as JSON.
    Json,
}

/// What a schema demands beside the kind. Keywords that are not here, `pattern` too, are left to the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounds {
    /// The least number, the fewest characters, or the fewest choices.
    pub least: Option<f64>,
    /// The greatest number, the most characters, or the most choices.
    pub most: Option<f64>,
    /// What the text is. Only a question demands that; in a tool's schema it is a remark.
    pub format: Option<TextFormat>,
}

/// The formats of a text that a question may demand (MCP 2025-11-25, client/elicitation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// An email address.
    Email,
    /// An absolute URI.
    Uri,
    /// A day.
    Date,
    /// A point in time with its zone.
    DateTime,
}

impl TextFormat {
    /// Reads the word of a schema.
    pub(super) fn read(word: &str) -> Option<Self> {
        match word {
            "email" => Some(Self::Email),
            "uri" => Some(Self::Uri),
            "date" => Some(Self::Date),
            "date-time" => Some(Self::DateTime),
            _ => None,
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Email => "an email address",
            Self::Uri => "a URL such as https://example.org",
            Self::Date => "a date such as 2026-11-20",
            Self::DateTime => "a time such as 2026-11-20T06:52:00Z",
        }
    }

    fn fits(self, text: &str) -> bool {
        match self {
            // Only the server knows whether an address is real; this finds what was mistyped.
            Self::Email => text.split_once('@').is_some_and(|(name, host)| {
                let has_blank = text.chars().any(char::is_whitespace);
                !name.is_empty() && !host.is_empty() && !host.contains('@') && !has_blank
            }),
            Self::Uri => Url::parse(text).is_ok(),
            Self::Date => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
            Self::DateTime => Wall::parse_rfc3339(text).is_some(),
        }
    }
}

/// Choices named in a complaint; a list of hundreds helps nobody.
const NAMED: usize = 12;

impl ArgumentSpec {
    /// Reads a member of a schema's `properties`.
    pub(super) fn of(name: &str, property: &Value, is_required: bool) -> Self {
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
                format: None,
            },
        }
    }

    /// What a choice is called; not sanitised.
    pub fn label(&self, place: usize) -> String {
        let (ArgumentKind::Choice(choices) | ArgumentKind::Many(choices)) = &self.kind else {
            return String::new();
        };
        match (self.labels.get(place), choices.get(place)) {
            (Some(label), _) => label.clone(),
            (None, Some(choice)) => plain(choice),
            (None, None) => String::new(),
        }
    }

    /// What typed text stands for: choices by what is sent or by their labels, several of them between commas. What can
    /// be no such value is an error that says what is wanted.
    pub fn read(&self, typed: &str) -> Result<Value, String> {
        let wanted = || self.wanted();
        let number = || {
            serde_json::from_str::<Value>(typed.trim())
                .ok()
                .filter(Value::is_number)
        };
        match &self.kind {
            ArgumentKind::Integer => number().and_then(|value| whole(&value)).ok_or_else(wanted),
            ArgumentKind::Number => number().ok_or_else(wanted),
            ArgumentKind::Boolean => match typed.trim() {
                "true" | "yes" | "1" => Ok(Value::Bool(true)),
                "false" | "no" | "0" => Ok(Value::Bool(false)),
                _ => Err(wanted()),
            },
            ArgumentKind::Choice(choices) => self.choice(choices, typed).ok_or_else(wanted),
            ArgumentKind::Many(choices) => {
                let words = typed.split(',').map(str::trim).filter(|w| !w.is_empty());
                words
                    .map(|word| self.choice(choices, word).ok_or_else(wanted))
                    .collect::<Result<Vec<_>, _>>()
                    .map(Value::Array)
            }
            ArgumentKind::Text | ArgumentKind::Json => Ok(Value::String(typed.to_owned())),
        }
    }

    fn choice(&self, choices: &[Value], typed: &str) -> Option<Value> {
        let by_value = choices.iter().find(|choice| plain(choice) == typed);
        let by_label = || {
            let place = self.labels.iter().position(|label| label == typed)?;
            choices.get(place)
        };
        by_value.or_else(by_label).cloned()
    }

    /// What is wrong with a value, as what it must be; `None` if nothing is seen to be.
    pub fn violation(&self, value: &Value) -> Option<String> {
        (!self.fits(value)).then(|| self.wanted())
    }

    fn fits(&self, value: &Value) -> bool {
        let is_within = |size: f64| {
            self.bounds.least.is_none_or(|least| size >= least)
                && self.bounds.most.is_none_or(|most| size <= most)
        };
        match &self.kind {
            ArgumentKind::Text => value.as_str().is_some_and(|text| {
                is_within(text.chars().count() as f64)
                    && self.bounds.format.is_none_or(|format| format.fits(text))
            }),
            ArgumentKind::Number => value.as_f64().is_some_and(is_within),
            ArgumentKind::Integer => {
                value.as_f64().is_some_and(is_within) && whole(value).is_some()
            }
            ArgumentKind::Boolean => value.is_boolean(),
            ArgumentKind::Choice(choices) => choices.contains(value),
            ArgumentKind::Many(choices) => value.as_array().is_some_and(|chosen| {
                is_within(chosen.len() as f64) && chosen.iter().all(|one| choices.contains(one))
            }),
            ArgumentKind::Json => true,
        }
    }

    /// What it must be, in words that go on after `must be`.
    pub fn wanted(&self) -> String {
        let named = |choices: &[Value]| {
            let mut words: Vec<String> = choices.iter().take(NAMED).map(Value::to_string).collect();
            if choices.len() > NAMED {
                words.push("...".to_owned());
            }
            words.join(", ")
        };
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
        let with = |what: &str, unit: &str| match bounds(unit) {
            bounds if bounds.is_empty() => what.to_owned(),
            bounds => format!("{what} of {bounds}"),
        };
        match &self.kind {
            ArgumentKind::Text => {
                let what = self.bounds.format.map_or("a text", TextFormat::message);
                with(what, "character")
            }
            ArgumentKind::Number => with("a number", ""),
            ArgumentKind::Integer => with("a whole number", ""),
            ArgumentKind::Boolean => "true or false".to_owned(),
            ArgumentKind::Choice(choices) => format!("one of {}", named(choices)),
            ArgumentKind::Many(choices) => {
                let count = match bounds("") {
                    count if count.is_empty() => "any".to_owned(),
                    count => count,
                };
                format!("{count} of {}", named(choices))
            }
            ArgumentKind::Json => "JSON".to_owned(),
        }
    }
}

/// A number without its fraction, if that is nothing: `5.0` is five.
pub(super) fn whole(value: &Value) -> Option<Value> {
    if value.is_i64() || value.is_u64() {
        return Some(value.clone());
    }
    let number = value
        .as_f64()
        .filter(|number| number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and small"
    )]
    let number = number as i64;
    Some(Value::Number(Number::from(number)))
}

/// A value without the quotes of a text.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// What a property takes, and what its choices are called.
fn kind_of(property: &Value) -> (ArgumentKind, Vec<String>) {
    if let Some((choices, labels)) = choices(property) {
        return (ArgumentKind::Choice(choices), labels);
    }
    if let Some(only) = property.get("const") {
        return (ArgumentKind::Choice(vec![only.clone()]), Vec::new());
    }
    let simple = |word: &str| match word {
        "string" => Some(ArgumentKind::Text),
        "number" => Some(ArgumentKind::Number),
        "integer" => Some(ArgumentKind::Integer),
        "boolean" => Some(ArgumentKind::Boolean),
        _ => None,
    };
    // Python servers write an optional string as anyOf [string, null], others as type [string, null].
    let types: Vec<&str> = match (property.get("type"), property.get("anyOf")) {
        (Some(Value::String(word)), _) => vec![word.as_str()],
        (Some(Value::Array(words)), _) => words.iter().filter_map(Value::as_str).collect(),
        (_, Some(Value::Array(choices))) => choices
            .iter()
            // An alternative that names no type is of a kind of its own.
            .map(|choice| choice.get("type").and_then(Value::as_str).unwrap_or(""))
            .collect(),
        _ => Vec::new(),
    };
    let types: Vec<&str> = types.into_iter().filter(|word| *word != "null").collect();
    match types.as_slice() {
        ["array"] => match property.get("items").and_then(choices) {
            Some((choices, labels)) => (ArgumentKind::Many(choices), labels),
            None => (ArgumentKind::Json, Vec::new()),
        },
        [word] => (simple(word).unwrap_or(ArgumentKind::Json), Vec::new()),
        _ => (ArgumentKind::Json, Vec::new()),
    }
}

/// The choices that a schema leaves, and what they are called where it says so: `enum` with `enumNames`, or `oneOf` and
/// `anyOf` with `const` and `title`.
fn choices(schema: &Value) -> Option<(Vec<Value>, Vec<String>)> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(choices) = list("enum") {
        let names = list("enumNames").map(Vec::as_slice).unwrap_or_default();
        let labels: Vec<String> = names
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
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
                title.map_or_else(|| plain(value), str::to_owned),
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
        let mut spec = ArgumentSpec::of("x", property, false);
        spec.bounds.format = property["format"].as_str().and_then(TextFormat::read);
        spec
    }

    #[test]
    fn choices_are_found_in_every_form_and_read_by_value_or_label() {
        for property in [
            json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}),
            json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}),
        ] {
            let spec = spec(&property);
            assert_eq!(spec.label(1), "Green", "{property}");
            assert_eq!(spec.read("g"), Ok(json!("g")));
            assert_eq!(spec.read("Green"), Ok(json!("g")));
            assert_eq!(spec.read("blue"), Err(r#"one of "r", "g""#.to_owned()));
        }
        for items in [
            json!({"type": "string", "enum": ["r", "g", "b"]}),
            json!({"anyOf": [{"const": "r", "title": "Red"}, {"const": "g"}, {"const": "b"}]}),
        ] {
            let spec =
                spec(&json!({"type": "array", "items": items, "minItems": 1, "maxItems": 2}));
            assert_eq!(spec.read("g, r"), Ok(json!(["g", "r"])));
            assert_eq!(spec.violation(&json!(["g"])), None);
            let wanted = r#"1 to 2 of "r", "g", "b""#;
            for wrong in [json!([]), json!(["r", "g", "b"]), json!(["x"]), json!("r")] {
                assert_eq!(spec.violation(&wrong).as_deref(), Some(wanted), "{wrong}");
            }
        }
    }

    #[test]
    fn bounds_and_formats_are_said_in_one_sentence() {
        let wrong = |property: Value, value: Value| spec(&property).violation(&value);
        let text = |more: Value| {
            let mut property = json!({"type": "string"});
            for (key, value) in more.as_object().unwrap() {
                property[key] = value.clone();
            }
            property
        };
        for (property, value, wanted) in [
            (
                text(json!({"minLength": 3, "maxLength": 5})),
                json!("日本"),
                "a text of 3 to 5 characters",
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
            assert_eq!(wrong(property, value).as_deref(), Some(wanted));
        }
        for (property, value) in [
            (
                text(json!({"minLength": 3, "maxLength": 5, "pattern": "^x$"})),
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
            assert_eq!(wrong(property, value), None);
        }
    }

    #[test]
    fn a_whole_number_has_no_fraction_left() {
        assert_eq!(whole(&json!(5.0)).unwrap().to_string(), "5");
        assert_eq!(whole(&json!(5.5)), None);
        assert_eq!(whole(&json!(1e300)), None);
        assert_eq!(spec(&json!({"type": "integer"})).read("5.0"), Ok(json!(5)));
    }
}
