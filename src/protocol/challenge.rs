//! Parses the `WWW-Authenticate` header.
//!
//! Sources: RFC 9110, section 11.6.1; RFC 6750, section 3; RFC 9728, section 5.1.

use std::sync::LazyLock;

use itertools::Itertools as _;
use regex::Regex;

/// A `Bearer` challenge; no text is sanitized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// The URL of the protected resource metadata (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs, separated by spaces; invalid scopes are removed.
    pub scope: Option<String>,
    /// The error code, such as `insufficient_scope` or `invalid_token`.
    pub error: Option<String>,
}

impl Challenge {
    /// Parses the values of all `WWW-Authenticate` headers; `None` without a `Bearer` challenge.
    pub fn parse<'h>(values: impl IntoIterator<Item = &'h str>) -> Option<Self> {
        let mut found: Option<Self> = None;
        for value in values {
            let mut is_bearer = false;
            for item in ITEM.iter().flat_map(|item| item.captures_iter(value)) {
                let Some(word) = item.name("word") else {
                    continue;
                };
                let quoted = item.name("quoted").map(|it| unquoted(it.as_str()));
                let plain = || Some(item.name("plain")?.as_str().to_owned());
                if let Some(text) = quoted.or_else(plain) {
                    if let Some(found) = found.as_mut().filter(|_| is_bearer) {
                        found.set_parameter(word.as_str(), text);
                    }
                } else {
                    is_bearer = word.as_str().eq_ignore_ascii_case("bearer");
                    if is_bearer {
                        found.get_or_insert_default();
                    }
                }
            }
        }
        found
    }

    /// Whether the token is valid but lacks a scope (RFC 6750, section 3.1).
    pub fn needs_more_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// Sets a parameter; the first one counts if it occurs twice.
    fn set_parameter(&mut self, name: &str, text: String) {
        let field = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "error" => &mut self.error,
            "scope" => {
                let scope = scopes(&text).join(" ");
                self.scope.get_or_insert(scope).truncate(SCOPE_BYTES);
                return;
            }
            _ => return,
        };
        field.get_or_insert(text);
    }
}

/// Maximum length of a list of scopes; nobody would approve more.
const SCOPE_BYTES: usize = 4096;

/// The valid scopes in a text (RFC 6749, section 3.3).
pub fn scopes(text: &str) -> impl Iterator<Item = &str> {
    let is_scope = |word: &&str| {
        word.bytes()
            .all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
    };
    text.split_ascii_whitespace().filter(is_scope)
}

/// The scopes of both texts without duplicates, those of `first` first.
pub fn merge_scopes(first: &str, second: &str) -> String {
    scopes(first).chain(scopes(second)).unique().join(" ")
}

/// A scheme, a parameter whose quoted value may lack its closing quote, or garbage up to the next comma.
static ITEM: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r#"(?xs)
        (?<word> [-!\#$%&'*+.^_`|~0-9A-Za-z]+ )
        (?: [\ \t]* = [\ \t]* (?: "(?<quoted> (?: [^"\\] | \\. )* )"? | (?<plain> [^,\ \t]* ) ) )?
        | [^,\ \t] [^,]*"#;
    Regex::new(pattern).ok()
});

/// The value of a quoted string.
fn unquoted(text: &str) -> String {
    let mut letters = text.chars();
    let value = std::iter::from_fn(|| match letters.next()? {
        '\\' => letters.next(),
        letter => Some(letter),
    });
    value.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(Option<String>, Option<String>, Option<String>)> {
        let challenge = Challenge::parse([text])?;
        Some((
            challenge.resource_metadata,
            challenge.scope,
            challenge.error,
        ))
    }

    #[test]
    fn finds_the_bearer_challenge_among_others() {
        let url = || Some("https://h/m?a=1,b".to_owned());
        let scope = || Some("a b:c".to_owned());
        for (text, expected) in [
            ("Bearer", Some((None, None, None))),
            (
                r#"bEaReR resource_metadata="https://h/m?a=1,b", Scope="a b:c""#,
                Some((url(), scope(), None)),
            ),
            (
                r#"Basic realm="Bearer x=\"1\", y", Bearer scope = "a b:c" , error=invalid_token"#,
                Some((None, scope(), Some("invalid_token".to_owned()))),
            ),
            (
                r#"Negotiate YII/a+b==, Bearer scope="a b:c", Digest scope="d""#,
                Some((None, scope(), None)),
            ),
            (
                r#"Bearer scope="a", scope="b""#,
                Some((None, Some("a".to_owned()), None)),
            ),
            (r#"Basic realm="x", scope="a""#, None),
            ("", None),
            (", ,==,\"", None),
            (r#"Bearer scope="a b:c"#, Some((None, scope(), None))),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn skips_any_amount_of_garbage() {
        let text = format!("Bearer realm=x, {}scope=a", "=,".repeat(100_000));
        let (_, scope, _) = parse(&text).unwrap();
        assert!(scope.as_deref() == Some("a"), "{scope:?}");
    }

    #[test]
    fn drops_invalid_and_duplicate_scopes() {
        let (_, scope, _) = parse("Bearer scope=\"a \u{1b}[2J b\u{e4} c\"").unwrap();
        assert_eq!(scope.as_deref(), Some("a c"));
        assert_eq!(merge_scopes("a b", "c b  a d"), "a b c d");
    }

    #[test]
    fn parses_any_text_without_panic() {
        proptest::proptest!(|(text in ".{0,60}")| {
            let _ = Challenge::parse([text.as_str()]);
        });
    }
}
