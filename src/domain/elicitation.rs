//! What a server asks a person, read from the parameters of `elicitation/create`, and what may be answered.
//!
//! Must not know how a question came or how its answer goes. Invariants: reading never fails, whatever the server sent;
//! nothing is content that the server's own schema refuses; what a person did not touch goes out with its default.
//!
//! Sources: MCP 2025-06-18, 2025-11-25 and 2026-07-28, client/elicitation.

use serde::Deserialize;
use serde_json::{Map, Value};
use url::{Position, Url};

use super::{
    ArgumentKind, ArgumentSpec,
    argument::{TextFormat, whole},
    server_url, text,
};

/// A question as a person can be asked it.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// What the server says; not yet sanitised, may be empty.
    pub message: String,
    /// What it wants.
    pub mode: ElicitationMode,
}

/// The two modes of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationMode {
    /// Values; none where it only wants a yes.
    Form {
        /// What it asks for, in its order.
        fields: Vec<ArgumentSpec>,
        /// What could not be read of the schema, in words.
        warnings: Vec<String>,
    },
    /// That a page is opened, whose values do not pass through us.
    Url {
        /// The page, as sent.
        url: String,
        /// By which the server tells later that it is done (2025-11-25 only).
        elicitation_id: Option<String>,
    },
}

impl Elicitation {
    /// Reads the parameters of `elicitation/create`, JSON; what cannot be read is asked for as text, or left out.
    pub fn read(params: &str) -> Self {
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        let text_of = |key: &str| params.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            message: text_of("message").unwrap_or_default(),
            mode: if text_of("mode").as_deref() == Some("url") {
                ElicitationMode::Url {
                    url: text_of("url").unwrap_or_default(),
                    elicitation_id: text_of("elicitationId"),
                }
            } else {
                form(params.get("requestedSchema").unwrap_or(&Value::Null))
            },
        }
    }

    /// The message of a question alone, as one clean line; for a row that has no place for more.
    pub fn message_of(params: &str) -> String {
        #[derive(Deserialize)]
        struct Said {
            message: String,
        }
        let said = serde_json::from_str::<Said>(params).map(|said| said.message);
        let message = said.unwrap_or_default();
        let line = message.lines().find(|line| !line.trim().is_empty());
        text::clean_line(line.unwrap_or("asks something").trim()).into_owned()
    }

    /// The fields of the form; empty where a page is to be opened.
    pub fn fields(&self) -> &[ArgumentSpec] {
        match &self.mode {
            ElicitationMode::Form { fields, .. } => fields,
            ElicitationMode::Url { .. } => &[],
        }
    }

    /// The content of an acceptance: what is given, and the defaults of what is not; the text of a JSON object, or
    /// nothing for a page. A `null` that is given leaves the field out.
    ///
    /// Fails with one sentence for each thing that is wrong; not sanitised.
    pub fn content(&self, given: &Map<String, Value>) -> Result<Option<String>, Vec<String>> {
        let fields = self.fields();
        let unknown = given
            .keys()
            .filter(|key| !fields.iter().any(|field| field.name == **key));
        let mut complaints: Vec<String> = unknown
            .map(|key| format!("{key} is not asked for"))
            .collect();
        let mut content = Map::new();
        for field in fields {
            let value = given.get(&field.name).or(field.default.as_ref());
            let Some(value) = value.filter(|value| !value.is_null()) else {
                if field.is_required {
                    complaints.push(format!("{} is missing", field.name));
                }
                continue;
            };
            if let Some(wanted) = field.violation(value) {
                complaints.push(format!("{} must be {wanted}", field.name));
                continue;
            }
            let is_whole = field.kind == ArgumentKind::Integer;
            let value = whole(value).filter(|_| is_whole).unwrap_or(value.clone());
            content.insert(field.name.clone(), value);
        }
        match self.mode {
            _ if !complaints.is_empty() => Err(complaints),
            ElicitationMode::Form { .. } => Ok(Some(Value::Object(content).to_string())),
            ElicitationMode::Url { .. } => Ok(None),
        }
    }

    /// The content where nobody is asked: every default. Fails with the names of what has to be given and has no
    /// default; a page has none and is never agreed to by default.
    pub fn defaults(&self) -> Result<String, Vec<String>> {
        let missing = self
            .fields()
            .iter()
            .filter(|field| field.is_required && field.default.is_none());
        let missing: Vec<String> = missing.map(|field| field.name.clone()).collect();
        match self.content(&Map::new()) {
            Ok(Some(content)) => Ok(content),
            _ => Err(missing),
        }
    }

    /// The page that is to be opened, taken apart for the eye.
    pub fn link(&self) -> Option<UrlPreview> {
        match &self.mode {
            ElicitationMode::Url { url, .. } => Some(UrlPreview::read(url)),
            ElicitationMode::Form { .. } => None,
        }
    }
}

fn form(schema: &Value) -> ElicitationMode {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut warnings = Vec::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    let fields = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let mut field = ArgumentSpec::from_property(name, property, required.contains(&name.as_str()));
            if field.kind == ArgumentKind::Json {
                warnings.push(format!(
                    "{name} is of a kind that no question may ask for; what you type goes out as text"
                ));
                field.kind = ArgumentKind::Text;
            }
            let text_of = |key: &str| property.get(key).and_then(Value::as_str);
            field.title = text_of("title").map(str::to_owned);
            field.bounds.format = text_of("format").and_then(TextFormat::parse);
            // What the schema itself refuses is no default.
            let default = field.default.take();
            field.default = default.filter(|default| field.violation(default).is_none());
            if field.kind == ArgumentKind::Integer {
                field.default = field.default.as_ref().and_then(whole);
            }
            field
        })
        .collect();
    ElicitationMode::Form { fields, warnings }
}

/// A page that a server wants opened: its whole URL, so taken apart that the host can be told from the rest, and what
/// is suspicious of it. All of it is clean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPreview {
    /// What stands before the host.
    pub before: String,
    /// Where it leads.
    pub host: String,
    /// What stands behind it.
    pub after: String,
    /// What a person should know before opening it.
    pub warnings: Vec<String>,
    /// Whether it may be opened at all: only http and https.
    pub can_open: bool,
}

impl UrlPreview {
    /// Takes a URL apart that a server sent.
    pub fn read(sent: &str) -> Self {
        let refused = |why: &str| Self {
            before: text::clean_line(sent).into_owned(),
            host: String::new(),
            after: String::new(),
            warnings: vec![why.to_owned()],
            can_open: false,
        };
        let Ok(url) = Url::parse(sent) else {
            return refused("this is not a URL, so it is not opened");
        };
        let Some(host) = url.host_str() else {
            return refused("it leads to no host, so it is not opened");
        };
        if !matches!(url.scheme(), "http" | "https") {
            return refused("it is neither http nor https, so it is not opened");
        }
        let mut warnings = Vec::new();
        let is_name = matches!(url.host(), Some(url::Host::Domain(_)));
        let shown = url::quirks::domain_to_unicode(host);
        if is_name && shown != host || host.split('.').any(|label| label.starts_with("xn--")) {
            warnings.push(format!(
                "punycode for {:?}: letters can look alike",
                text::clean_line(&shown)
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            warnings.push("what stands before the @ is a user name, not the host".to_owned());
        }
        if server_url::is_cleartext(&url) {
            warnings.push("http: others on the way can read and change it".to_owned());
        }
        let part = |part: &str| text::clean_line(part).into_owned();
        Self {
            before: part(&url[..Position::BeforeHost]),
            host: part(&url[Position::BeforeHost..Position::AfterHost]),
            after: part(&url[Position::AfterHost..]),
            warnings,
            can_open: true,
        }
    }

    /// The whole of it.
    pub fn whole(&self) -> String {
        format!("{}{}{}", self.before, self.host, self.after)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn asked(properties: &Value, required: &[&str]) -> Elicitation {
        let params = json!({"message": "How?", "requestedSchema": {
            "type": "object", "properties": properties, "required": required}});
        Elicitation::read(&params.to_string())
    }

    fn every_kind() -> Elicitation {
        asked(
            &json!({
                "name": {"type": "string", "title": "Your name", "minLength": 2},
                "mail": {"type": "string", "format": "email", "default": "ada@example.org"},
                "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3.0},
                "share": {"type": "number", "default": 0.5},
                "sure": {"type": "boolean", "default": false},
                "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"], "default": "m"},
                "colours": {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
                    "default": ["r"]},
                "odd": {"type": "object"},
                "free": {"type": "string"},
            }),
            &["name", "count"],
        )
    }

    fn content(asked: &Elicitation, given: &Value) -> Result<Value, Vec<String>> {
        let content = asked.content(given.as_object().unwrap())?;
        Ok(serde_json::from_str(&content.unwrap()).unwrap())
    }

    #[test]
    fn what_nobody_touched_goes_out_with_its_default_and_what_has_none_is_left_out() {
        let all = json!({"name": "Ada", "mail": "ada@example.org", "count": 3, "share": 0.5, "sure": false,
            "size": "m", "colours": ["r"]});
        assert_eq!(content(&every_kind(), &json!({"name": "Ada"})), Ok(all));
        // An integer has no fraction on the wire, and a field that was cleared is not there.
        let text = every_kind().content(
            json!({"name": "Ada", "count": 7.0, "mail": null})
                .as_object()
                .unwrap(),
        );
        let text = text.unwrap().unwrap();
        assert!(
            text.contains(r#""count":7,"#) && !text.contains("mail"),
            "{text}"
        );
    }

    #[test]
    fn each_thing_that_is_wrong_is_one_sentence() {
        let given = json!({"name": "A", "mail": "x", "count": 12, "sure": "yes", "size": "l", "colours": ["b"], "more": 1});
        assert_eq!(
            content(&every_kind(), &given).unwrap_err(),
            [
                "more is not asked for",
                "name must be a text of at least 2 characters",
                "mail must be an email address",
                "count must be a whole number of 1 to 9",
                "sure must be true or false",
                r#"size must be one of "s", "m""#,
                r#"colours must be any of "r", "g""#,
            ]
        );
        assert_eq!(
            content(&every_kind(), &json!({})),
            Err(vec!["name is missing".to_owned()])
        );
        let one = asked(&json!({"name": {"type": "string", "minLength": 1}}), &[]);
        let words = "name must be a text of at least 1 character".to_owned();
        assert_eq!(content(&one, &json!({"name": ""})), Err(vec![words]));
    }

    #[test]
    fn defaults_answer_only_where_nothing_else_has_to_be_given() {
        assert_eq!(every_kind().defaults(), Err(vec!["name".to_owned()]));
        let simple = asked(&json!({"n": {"type": "integer", "default": 2}}), &["n"]);
        assert_eq!(simple.defaults(), Ok(r#"{"n":2}"#.to_owned()));
        let nonsense = asked(&json!({"n": {"type": "integer", "default": "two"}}), &["n"]);
        assert_eq!(nonsense.defaults(), Err(vec!["n".to_owned()]));
        let page = Elicitation::read(r#"{"mode":"url","message":"m","url":"https://example.org"}"#);
        assert!(page.defaults().is_err());
    }

    #[test]
    fn a_kind_that_nobody_knows_becomes_text_with_a_warning() {
        let ElicitationMode::Form { fields, warnings } = every_kind().mode else {
            panic!("a form");
        };
        assert_eq!(fields[7].kind, ArgumentKind::Text);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("odd is of a kind"), "{warnings:?}");
        assert_eq!(fields[0].title.as_deref(), Some("Your name"));
    }

    #[test]
    fn a_page_shows_where_it_leads_and_what_is_suspicious() {
        let link = |url: &str| {
            let params = json!({"mode": "url", "message": "Open it", "url": url});
            Elicitation::read(&params.to_string()).link().unwrap()
        };
        let plain = link("https://Example.org:8443/pay?id=1#x");
        assert_eq!(
            (
                plain.before.as_str(),
                plain.host.as_str(),
                plain.after.as_str()
            ),
            ("https://", "example.org", ":8443/pay?id=1#x")
        );
        assert!(plain.warnings.is_empty() && plain.can_open);
        let odd = link("https://bank.example@xn--pypal-4ve.com/");
        assert_eq!(odd.host, "xn--pypal-4ve.com");
        assert_eq!(odd.warnings.len(), 2, "{odd:?}");
        assert!(odd.warnings[0].contains("pаypal.com"), "{odd:?}");
        assert_eq!(link("https://pаypal.com").host, "xn--pypal-4ve.com");
        assert!(link("http://example.org").warnings[0].starts_with("http:"));
        for never in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "no url",
            "",
            "--help",
            "mailto:a@b",
        ] {
            let link = link(never);
            assert!(!link.can_open && link.whole() == never, "{link:?}");
        }
    }

    #[test]
    fn the_message_alone_is_one_clean_line() {
        assert_eq!(
            Elicitation::message_of(r#"{"message":"\n Go?\u001b[2J\nmore"}"#),
            "Go?\u{fffd}[2J"
        );
        assert_eq!(Elicitation::message_of("no json"), "asks something");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let words = prop::sample::select(vec![
            "type",
            "string",
            "integer",
            "number",
            "boolean",
            "array",
            "object",
            "enum",
            "enumNames",
            "oneOf",
            "anyOf",
            "const",
            "title",
            "items",
            "minItems",
            "minLength",
            "maximum",
            "format",
            "email",
            "uri",
            "date",
            "default",
            "properties",
            "required",
            "requestedSchema",
            "mode",
            "url",
            "form",
            "message",
            "https://xn--a.b@c/",
            "x",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            words.clone().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((words.clone(), inner), 0..6).prop_map(
                    |pairs| Value::Object(
                        pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
                    )
                ),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_that_a_server_sends_panics_and_no_content_breaks_its_schema(
            schema in any_json(), mode in any_json(), given in any_json(), noise in any::<String>()
        ) {
            Elicitation::read(&noise);
            let params = json!({"mode": mode, "url": given, "message": noise,
                "requestedSchema": {"properties": schema, "required": given}});
            let asked = Elicitation::read(&params.to_string());
            if let Some(link) = asked.link() {
                prop_assert!(!link.whole().chars().any(char::is_control));
            }
            let given = given.as_object().cloned().unwrap_or_default();
            for given in [Map::new(), given] {
                if let Ok(Some(content)) = asked.content(&given) {
                    let content: Map<String, Value> = serde_json::from_str(&content).unwrap();
                    for (key, value) in &content {
                        let field = asked.fields().iter().find(|field| field.name == *key).unwrap();
                        prop_assert_eq!(field.violation(value), None);
                    }
                }
            }
            prop_assert_eq!(asked.defaults().is_ok(), matches!(asked.content(&Map::new()), Ok(Some(_))));
            for field in asked.fields() {
                let _ = (field.parse(&noise), field.label(0), field.expected());
            }
        }
    }
}
