//! What a server says about the credentials that it wants: `WWW-Authenticate`.
//!
//! Sources: RFC 9110, section 11.6.1; RFC 6750, section 3; RFC 9728, section 5.1.

/// The challenge of the scheme `Bearer`; every text is the server's and not yet sanitised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Where the server describes itself as a protected resource (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs, separated by spaces; what is no scope was left out.
    pub scope: Option<String>,
    /// `insufficient_scope`, `invalid_token` ...
    pub error: Option<String>,
}

impl Challenge {
    /// Reads the values of all `WWW-Authenticate` headers; `None` if no `Bearer` is among the schemes.
    pub fn read<'h>(values: impl IntoIterator<Item = &'h str>) -> Option<Self> {
        let mut found: Option<Self> = None;
        for value in values {
            let mut rest = value;
            let mut is_bearer = false;
            while let Some((item, after)) = next(rest) {
                rest = after;
                match item {
                    Item::Scheme(scheme) => {
                        is_bearer = scheme.eq_ignore_ascii_case("bearer");
                        if is_bearer {
                            found.get_or_insert_default();
                        }
                    }
                    Item::Parameter(name, text) => {
                        if let Some(found) = found.as_mut().filter(|_| is_bearer) {
                            found.note(name, text);
                        }
                    }
                }
            }
        }
        found
    }

    /// Whether the token is good and does not reach far enough (RFC 6750, section 3.1).
    pub fn needs_more_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    // Of a parameter that is given twice the first counts.
    fn note(&mut self, name: &str, text: String) {
        let place = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "error" => &mut self.error,
            "scope" => {
                let scope = scopes(&text).collect::<Vec<_>>().join(" ");
                self.scope.get_or_insert(scope).truncate(SCOPE_BYTES);
                return;
            }
            _ => return,
        };
        place.get_or_insert(text);
    }
}

/// Longer than any list of scopes that a person would agree to.
const SCOPE_BYTES: usize = 4096;

/// The scopes in a text; what holds other letters than RFC 6749, section 3.3, allows is none.
pub fn scopes(text: &str) -> impl Iterator<Item = &str> {
    let is_scope = |word: &&str| {
        word.bytes()
            .all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
    };
    text.split_ascii_whitespace().filter(is_scope)
}

/// The scopes of both texts, each once, those of `first` first.
pub fn merge_scopes(first: &str, second: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for scope in scopes(first).chain(scopes(second)) {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all.join(" ")
}

enum Item<'t> {
    Scheme(&'t str),
    Parameter(&'t str, String),
}

/// The next scheme or parameter of a list of challenges, and what follows it.
fn next(text: &str) -> Option<(Item<'_>, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find(|letter| !is_token(letter)).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    if word.is_empty() {
        // Neither of both, as a token68 or something broken: on behind it.
        let rest = text.trim_start_matches(|letter| letter != ',');
        return if rest.is_empty() { None } else { next(rest) };
    }
    let value = rest
        .trim_start_matches([' ', '\t'])
        .strip_prefix('=')
        .map(|value| value.trim_start_matches([' ', '\t']));
    match value {
        Some(value) => {
            let (value, rest) = if let Some(quoted) = value.strip_prefix('"') {
                unquoted(quoted)
            } else {
                let end = value.find([',', ' ', '\t']).unwrap_or(value.len());
                let (value, rest) = value.split_at_checked(end)?;
                (value.to_owned(), rest)
            };
            Some((Item::Parameter(word, value), rest))
        }
        None => Some((Item::Scheme(word), rest)),
    }
}

/// A quoted text up to its closing quote, or to the end where there is none.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, text.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            letter => value.push(letter),
        }
    }
    (value, "")
}

fn is_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Option<String>, Option<String>, Option<String>)> {
        let challenge = Challenge::read([text])?;
        Some((
            challenge.resource_metadata,
            challenge.scope,
            challenge.error,
        ))
    }

    #[test]
    fn the_bearer_among_several_challenges_is_found() {
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
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_scope_is_left_out_and_none_comes_twice() {
        let (_, scope, _) = read("Bearer scope=\"a \u{1b}[2J b\u{e4} c\"").unwrap();
        assert_eq!(scope.as_deref(), Some("a c"));
        assert_eq!(merge_scopes("a b", "c b  a d"), "a b c d");
    }

    #[test]
    fn whatever_stands_there_is_read_to_its_end() {
        proptest::proptest!(|(text in ".{0,60}")| {
            let _ = Challenge::read([text.as_str()]);
        });
    }
}
