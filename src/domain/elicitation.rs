//! Elicitation requests of a server (on screen: questions): parsing, validation of answers, and safety checks of URLs.
//!
//! Independent of how a request arrives and how the answer is sent. Invariants: parsing never fails, whatever the
//! server sent; content is never sent if the server's own schema refuses it; untouched fields are sent with their
//! defaults.
//!
//! Sources: MCP 2025-06-18, 2025-11-25 and 2026-07-28, client/elicitation.

use serde::Deserialize;
use serde_json::{Map, Value};
use url::{Position, Url};

use super::{
    ArgumentKind, ArgumentSpec,
    argument::{properties, required, whole},
    server_url, text,
};

/// A parsed elicitation request.
#[derive(Clone, Debug, PartialEq)]
pub struct Elicitation {
    /// The server's message; not sanitized, may be empty.
    pub message: String,
    /// What the server asks for.
    pub mode: ElicitationMode,
}

/// The two elicitation modes.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitationMode {
    /// Values to fill in; without fields, the server only wants a confirmation.
    Form {
        /// The fields, in the order of the schema.
        fields: Vec<ArgumentSpec>,
        /// Problems with the schema, for the user.
        warnings: Vec<String>,
    },
    /// A web page to open; longhaul never sees what the user enters there.
    Url {
        /// The URL as sent.
        url: String,
        /// Identifies the page when the server reports later that it is done (2025-11-25 only).
        elicitation_id: Option<String>,
    },
}

impl Elicitation {
    /// Parses the JSON parameters of `elicitation/create`. A field of an unsupported type becomes a text field.
    pub fn parse(params: &str) -> Self {
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

    /// The first line of the message, sanitized; for table rows.
    pub fn message_of(params: &str) -> String {
        #[derive(Deserialize)]
        struct Params {
            message: String,
        }
        let message = serde_json::from_str::<Params>(params).map(|params| params.message);
        let message = message.unwrap_or_default();
        let line = message.lines().find(|line| !line.trim().is_empty());
        text::clean_line(line.unwrap_or("asks something").trim()).into_owned()
    }

    /// The fields of the form; empty in URL mode.
    pub fn fields(&self) -> &[ArgumentSpec] {
        match &self.mode {
            ElicitationMode::Form { fields, .. } => fields,
            ElicitationMode::Url { .. } => &[],
        }
    }

    /// The `content` of an accepting answer, as the text of a JSON object; `None` in URL mode. Fields without a value
    /// get their defaults; a `null` leaves the field out.
    ///
    /// # Errors
    /// One message per invalid field; not sanitized.
    pub fn content(&self, values: &Map<String, Value>) -> Result<Option<String>, Vec<String>> {
        let fields = self.fields();
        let unknown = values
            .keys()
            .filter(|key| !fields.iter().any(|field| field.name == **key));
        let mut errors: Vec<String> = unknown
            .map(|key| format!("{key} is not a field of this question"))
            .collect();
        let mut content = Map::new();
        for field in fields {
            let value = values.get(&field.name).or(field.default.as_ref());
            let Some(value) = value.filter(|value| !value.is_null()) else {
                if field.is_required {
                    errors.push(format!("{} is missing", field.name));
                }
                continue;
            };
            if let Some(error) = field.violation(value) {
                errors.push(format!("{} {error}", field.name));
                continue;
            }
            let is_whole = field.kind == ArgumentKind::Integer;
            let value = whole(value).filter(|_| is_whole).unwrap_or(value.clone());
            content.insert(field.name.clone(), value);
        }
        match self.mode {
            _ if !errors.is_empty() => Err(errors),
            ElicitationMode::Form { .. } => Ok(Some(Value::Object(content).to_string())),
            ElicitationMode::Url { .. } => Ok(None),
        }
    }

    /// The content if every field gets its default. The error lists the required fields without a default; in URL mode
    /// it is always an (empty) error, because a page is never accepted automatically.
    pub fn defaults(&self) -> Result<String, Vec<String>> {
        let missing = self.fields().iter();
        let missing = missing.filter(|field| field.is_required && field.default.is_none());
        let missing: Vec<String> = missing.map(|field| field.name.clone()).collect();
        match self.content(&Map::new()) {
            Ok(Some(content)) => Ok(content),
            _ => Err(missing),
        }
    }

    /// The page to open, split for display; `None` in form mode.
    pub fn url_preview(&self) -> Option<UrlPreview> {
        match &self.mode {
            ElicitationMode::Url { url, .. } => Some(UrlPreview::parse(url)),
            ElicitationMode::Form { .. } => None,
        }
    }
}

fn form(schema: &Value) -> ElicitationMode {
    let required = required(schema);
    let mut warnings = Vec::new();
    let fields = properties(schema)
        .map(|(name, property)| {
            let mut field = ArgumentSpec::from_property(name, property, required.contains(&name.as_str()));
            if field.kind == ArgumentKind::Json {
                warnings.push(format!(
                    "{name} has a type that MCP doesn't allow in questions; your input is sent as text"
                ));
                field.kind = ArgumentKind::Text;
                r#"{"type":"string"}"#.clone_into(&mut field.schema);
            }
            let title = property.get("title").and_then(Value::as_str);
            field.title = title.map(str::to_owned);
            // Ignore a default that the schema itself refuses.
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

/// A URL that a server wants opened, split so that the screen can highlight the host, with security warnings. All texts
/// are sanitized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlPreview {
    /// The text before the host.
    pub before: String,
    /// The host.
    pub host: String,
    /// The text after the host.
    pub after: String,
    /// What the user should know before opening it.
    pub warnings: Vec<String>,
    /// Whether longhaul opens it at all: only http and https.
    pub can_open: bool,
}

impl UrlPreview {
    /// Splits a URL from a server and collects warnings.
    pub fn parse(sent: &str) -> Self {
        let refused = |why: &str| Self {
            before: text::clean_line(sent).into_owned(),
            host: String::new(),
            after: String::new(),
            warnings: vec![why.to_owned()],
            can_open: false,
        };
        let Ok(url) = Url::parse(sent) else {
            return refused("not a valid URL");
        };
        let (Some(host), "http" | "https") = (url.host_str(), url.scheme()) else {
            return refused("only http and https URLs can be opened");
        };
        let mut warnings = Vec::new();
        let is_name = matches!(url.host(), Some(url::Host::Domain(_)));
        let shown = url::quirks::domain_to_unicode(host);
        if is_name && shown != host || host.split('.').any(|label| label.starts_with("xn--")) {
            warnings.push(format!(
                "this name is punycode for {:?} and may imitate another name",
                text::clean_line(&shown)
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            warnings.push("the part before @ is a user name, not the host".to_owned());
        }
        if server_url::is_cleartext(&url) {
            warnings.push("over http, others on the network can read and change it".to_owned());
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

    /// The whole URL.
    pub fn full_url(&self) -> String {
        format!("{}{}{}", self.before, self.host, self.after)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn elicitation(properties: &Value, required: &[&str]) -> Elicitation {
        let params = json!({"message": "How?", "requestedSchema": {
            "type": "object", "properties": properties, "required": required}});
        Elicitation::parse(&params.to_string())
    }

    fn every_kind() -> Elicitation {
        elicitation(
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

    fn content(elicitation: &Elicitation, given: &Value) -> Result<Value, Vec<String>> {
        let content = elicitation.content(given.as_object().unwrap())?;
        Ok(serde_json::from_str(&content.unwrap()).unwrap())
    }

    #[test]
    fn untouched_fields_get_their_defaults_or_are_omitted() {
        let all = json!({"name": "Ada", "mail": "ada@example.org", "count": 3, "share": 0.5, "sure": false,
            "size": "m", "colours": ["r"]});
        assert_eq!(content(&every_kind(), &json!({"name": "Ada"})), Ok(all));
        // An integer is sent without a fraction, and a cleared field is left out.
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
    fn a_text_has_to_match_the_pattern_of_its_field() {
        let code = json!({"code": {"type": "string", "pattern": "^[A-Z]{3}$"}});
        let asks = elicitation(&code, &["code"]);
        let wrong = content(&asks, &json!({"code": "abc"})).unwrap_err();
        assert_eq!(wrong, ["code must match the pattern ^[A-Z]{3}$"]);
        assert!(content(&asks, &json!({"code": "ABC"})).is_ok());
        // A default that doesn't match is none.
        let code = json!({"code": {"type": "string", "pattern": "^[A-Z]{3}$", "default": ""}});
        assert_eq!(elicitation(&code, &[]).defaults().as_deref(), Ok("{}"));
        // Look-ahead is not supported, so only the server checks it.
        let code = json!({"code": {"type": "string", "pattern": "^(?=A)"}});
        let asks = elicitation(&code, &["code"]);
        assert!(content(&asks, &json!({"code": "b"})).is_ok());
    }

    #[test]
    fn reports_each_invalid_field_once() {
        let given = json!({"name": "A", "mail": "x", "count": 12, "sure": "yes", "size": "l", "colours": ["b"], "more": 1});
        assert_eq!(
            content(&every_kind(), &given).unwrap_err(),
            [
                "more is not a field of this question",
                "name must have at least 2 characters",
                "mail must be an email address",
                "count must be at most 9",
                "sure must be true or false",
                r#"size must be one of "s", "m""#,
                r#"colours must be "r" or "g""#,
            ]
        );
        assert_eq!(
            content(&every_kind(), &json!({})),
            Err(vec!["name is missing".to_owned()])
        );
        let one = elicitation(&json!({"name": {"type": "string", "minLength": 1}}), &[]);
        let error = "name must have at least 1 character".to_owned();
        assert_eq!(content(&one, &json!({"name": ""})), Err(vec![error]));
    }

    #[test]
    fn defaults_fail_if_a_required_field_has_none() {
        assert_eq!(every_kind().defaults(), Err(vec!["name".to_owned()]));
        let simple = elicitation(&json!({"n": {"type": "integer", "default": 2}}), &["n"]);
        assert_eq!(simple.defaults(), Ok(r#"{"n":2}"#.to_owned()));
        let nonsense = elicitation(&json!({"n": {"type": "integer", "default": "two"}}), &["n"]);
        assert_eq!(nonsense.defaults(), Err(vec!["n".to_owned()]));
        let page =
            Elicitation::parse(r#"{"mode":"url","message":"m","url":"https://example.org"}"#);
        assert!(page.defaults().is_err());
    }

    #[test]
    fn unsupported_types_become_text_with_a_warning() {
        let ElicitationMode::Form { fields, warnings } = every_kind().mode else {
            panic!("a form");
        };
        assert_eq!(fields[7].kind, ArgumentKind::Text);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("odd has a type"), "{warnings:?}");
        assert_eq!(fields[0].title.as_deref(), Some("Your name"));
    }

    #[test]
    fn url_preview_shows_the_host_and_warnings() {
        let link = |url: &str| {
            let params = json!({"mode": "url", "message": "Open it", "url": url});
            Elicitation::parse(&params.to_string())
                .url_preview()
                .unwrap()
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
        assert!(link("http://example.org").warnings[0].contains("over http,"));
        for never in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "no url",
            "",
            "--help",
            "mailto:a@b",
        ] {
            let link = link(never);
            assert!(!link.can_open && link.full_url() == never, "{link:?}");
        }
    }

    #[test]
    fn message_of_is_one_sanitized_line() {
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
        fn no_input_panics_and_content_always_fits_the_schema(
            schema in any_json(), mode in any_json(), given in any_json(), noise in any::<String>()
        ) {
            Elicitation::parse(&noise);
            let params = json!({"mode": mode, "url": given, "message": noise,
                "requestedSchema": {"properties": schema, "required": given}});
            let elicitation = Elicitation::parse(&params.to_string());
            if let Some(link) = elicitation.url_preview() {
                prop_assert!(!link.full_url().chars().any(char::is_control));
            }
            let given = given.as_object().cloned().unwrap_or_default();
            for given in [Map::new(), given] {
                if let Ok(Some(content)) = elicitation.content(&given) {
                    let content: Map<String, Value> = serde_json::from_str(&content).unwrap();
                    for (key, value) in &content {
                        let field = elicitation.fields().iter().find(|field| field.name == *key).unwrap();
                        prop_assert_eq!(field.violation(value), None);
                    }
                }
            }
            prop_assert_eq!(elicitation.defaults().is_ok(), matches!(elicitation.content(&Map::new()), Ok(Some(_))));
            for field in elicitation.fields() {
                let _ = (field.parse(&noise), field.label(0), field.expected());
            }
        }
    }
}
