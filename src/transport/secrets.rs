//! The gate for secrets: every text of a server passes it before it is decoded, shown, logged or saved.
//!
//! A server may repeat what it was given in confidence: in a refusal, a redirect, an error, a log, a result. The gate knows
//! the values and puts a marker such as `[redacted:x-api-key]` in their place.
//!
//! What has to go back to the server as it came (an event id that is the cursor of a stream, a task id, a page cursor) may
//! hold a secret too. It is masked like everything else, so that no screen, log or session file has it, and the transport
//! puts the secret back on the way out ([`Secrets::restore`]). The marker names the secret and is not derived from it, so
//! that a saved one gives nothing away; after a restart it is filled in from the header, token or session that the same
//! request carries anyway. A stream is not asked for from an event id whose secret is not known here: the task waits for
//! its credentials. Only what this server was sent, or sent itself, is ever put back.
//!
//! Which values count:
//! - tokens, client secrets, server session ids and what `--bearer-env` names: from 6 bytes, session ids from 8;
//! - what the configuration takes from a variable: from 6 bytes, paths and addresses aside;
//! - headers and variables whose name speaks of credentials (`X-Api-Key`, `GITHUB_TOKEN`): from 6 bytes, media types and
//!   usual words such as `required` aside;
//! - all others: from 8 bytes, if they look like a key ([`is_random`]). `1`, `application/json`, `eu-west-1` and
//!   `/home/ann` stay readable wherever they stand.
//!
//! The recorded traffic is made to be shown to others: there every value from 6 bytes is masked.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use aho_corasick::{AhoCorasick, MatchKind};
use memchr::{memchr, memchr2, memmem};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::IgnoredAny;
use url::{Url, form_urlencoded};

use crate::domain::{decode_base64, replace_lone_surrogates};

/// What a marker begins with.
const MARKER: &str = "[redacted:";
/// The shortest credential that is looked for; a shorter one stands in too many words.
const SHORTEST: usize = 6;
/// The shortest of anything else.
const SHORTEST_OTHER: usize = 8;
/// A part of a path that is longer may be a key.
pub(super) const SEGMENT: usize = 12;
/// Of values that come by themselves, such as tokens, so many of a kind are remembered, the newest.
const LEARNED: usize = 16;
/// A shorter word is part of a name: `4k`, `2nd`.
const SHORT_WORD: usize = 4;
/// A word of so many letters is a key.
const LONG_WORD: usize = 20;

/// A name with one of these in it is that of a credential.
const CREDENTIALS: [&str; 8] = [
    "auth",
    "cookie",
    "credential",
    "key",
    "passw",
    "secret",
    "session",
    "token",
];
/// Values that such headers have and that are no secrets.
const USUAL_WORDS: [&str; 8] = [
    "bearer",
    "default",
    "disabled",
    "enabled",
    "oauth2",
    "optional",
    "required",
    "stateless",
];

/// Whether a header or a variable of this name holds a credential.
pub(super) fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIALS.iter().any(|part| name.contains(part))
}

/// The secrets that are shared with one server; cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: RwLock<Known>,
    /// Rises with each change.
    edition: AtomicUsize,
}

#[derive(Default)]
struct Known {
    secrets: Vec<Secret>,
    mask: Arc<Mask>,
    /// For recorded traffic.
    strict: Arc<Mask>,
}

struct Secret {
    label: String,
    value: String,
    kind: Kind,
}

/// What becomes of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Masked, and put back: the server has it from us, or we have it from the server.
    Shared,
    /// Masked.
    Private,
    /// Masked in recorded traffic alone.
    Ordinary,
}

// By hand: it holds nothing but secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    /// Adds the value of a header or variable.
    pub fn add(&self, name: &str, value: &SecretString) {
        self.add_parts(name, value, is_credential(name));
    }

    /// Adds the value of a variable that the configuration refers to, which is how it says that something is a secret.
    pub fn add_variable(&self, name: &str, value: &SecretString) {
        let is_secret = is_credential(name) || !is_place(value.expose_secret().trim());
        self.add_parts(name, value, is_secret);
    }

    fn add_parts(&self, name: &str, value: &SecretString, is_secret: bool) {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let label = name.trim().to_ascii_lowercase();
        let label = label.replace(|letter| !is_plain(letter), "-");
        for (index, part) in parts(name, value.expose_secret().trim())
            .into_iter()
            .enumerate()
        {
            if part.len() < SHORTEST || is_usual(&part) {
                continue;
            }
            let is_key = part.len() >= SHORTEST_OTHER && is_random(&part);
            let kind = if index > 0 || is_secret || is_key {
                Kind::Shared
            } else {
                Kind::Ordinary
            };
            let label = match index {
                0 => label.clone(),
                index => format!("{label}.{}", index + 1),
            };
            self.insert(label, part, kind, usize::MAX);
        }
    }

    /// Adds what may be a key in the address of the server.
    pub(super) fn add_url(&self, url: &Url) {
        // As the URL has them and decoded, for a server may say either.
        let raw = url.query().unwrap_or_default().split('&');
        let raw = raw
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.into(), value.into()));
        for (name, value) in url.query_pairs().chain(raw) {
            if value.len() >= SHORTEST_OTHER {
                self.add(&format!("url.{name}"), &SecretString::from(value.as_ref()));
            }
        }
        for segment in url.path_segments().into_iter().flatten() {
            if segment.len() > SEGMENT {
                self.add("url", &SecretString::from(segment));
            }
        }
    }

    /// Adds the id of a server session.
    pub(super) fn add_session(&self, id: &str) {
        if id.len() >= SHORTEST_OTHER {
            self.insert(
                "server-session".to_owned(),
                id.to_owned(),
                Kind::Shared,
                LEARNED,
            );
        }
    }

    /// Adds a token that this server is sent.
    pub(super) fn add_token(&self, token: &SecretString) {
        self.add_other("token", token, Kind::Shared);
    }

    /// Adds a secret that this server is not sent; it is masked and never put back.
    pub(super) fn add_private(&self, secret: &SecretString) {
        self.add_other("sign-in", secret, Kind::Private);
    }

    fn add_other(&self, label: &str, secret: &SecretString, kind: Kind) {
        let secret = secret.expose_secret().trim();
        if secret.len() >= SHORTEST {
            self.insert(label.to_owned(), secret.to_owned(), kind, LEARNED);
        }
    }

    /// The newest of a label is its last.
    fn insert(&self, label: String, value: String, kind: Kind, most: usize) {
        let is_it =
            |secret: &Secret| secret.label == label && secret.value == value && secret.kind == kind;
        let newest = |known: &Known| {
            let mut of_label = known.secrets.iter().rev();
            of_label
                .find(|secret| secret.label == label)
                .is_some_and(is_it)
        };
        if newest(&self.0.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        known.secrets.retain(|secret| !is_it(secret));
        let mut of_label = known.secrets.iter().filter(|secret| secret.label == label);
        if of_label.clone().count() >= most
            && let Some(oldest) = of_label.next().map(|secret| secret.value.clone())
        {
            known
                .secrets
                .retain(|secret| secret.label != label || secret.value != oldest);
        }
        known.secrets.push(Secret { label, value, kind });
        let of = |secrets: &[Secret], is_strict: bool| {
            let secrets = secrets.iter().rev();
            Mask::of(secrets.filter(|it| is_strict || it.kind != Kind::Ordinary))
        };
        known.mask = Arc::new(of(&known.secrets, false));
        known.strict = Arc::new(of(&known.secrets, true));
        self.0.edition.fetch_add(1, Ordering::Release);
    }

    /// The gate as it is now.
    pub(super) fn gate(&self) -> Gate {
        let edition = self.0.edition.load(Ordering::Acquire);
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        Gate {
            mask: Arc::clone(&known.mask),
            secrets: self.clone(),
            edition,
        }
    }

    /// A text as recorded traffic has it.
    pub(super) fn mask_strictly<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let strict = Arc::clone(&known.strict);
        drop(known);
        strict.text(text)
    }

    /// A text for people without the secrets in it.
    pub(super) fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.gate().mask.text(text)
    }

    /// Puts secrets back where a text that came through the gate returns to its server.
    pub(super) fn restore<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.restored(text, str::to_owned)
    }

    /// As [`Self::restore`], for JSON.
    pub(super) fn restore_json<'t>(&self, json: &'t str) -> Cow<'t, str> {
        self.restored(json, quoted)
    }

    /// The first marker in a text whose secret is not known here.
    pub(super) fn missing(&self, text: &str) -> Option<String> {
        let restored = self.restore(text);
        let (_, rest) = restored.split_once(MARKER)?;
        let (label, _) = rest.split_once(']')?;
        Some(format!("{MARKER}{label}]"))
    }

    fn restored<'t>(&self, text: &'t str, written: impl Fn(&str) -> String) -> Cow<'t, str> {
        let mut pieces = text.split(MARKER);
        let Some(first) = pieces.next().filter(|first| first.len() < text.len()) else {
            return Cow::Borrowed(text);
        };
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let value_of = |label: &str| {
            let (label, is_encoded) = match label.strip_suffix('%') {
                Some(label) => (label, true),
                None => (label, false),
            };
            let is_it = |secret: &&Secret| secret.label == label && secret.kind == Kind::Shared;
            let value = &known.secrets.iter().rev().find(is_it)?.value;
            Some(if is_encoded {
                encoded(value)
            } else {
                written(value)
            })
        };
        let mut out = first.to_owned();
        for piece in pieces {
            let known = piece
                .split_once(']')
                .and_then(|(label, rest)| Some((value_of(label)?, rest)));
            if let Some((value, rest)) = known {
                out.push_str(&value);
                out.push_str(rest);
            } else {
                out.push_str(MARKER);
                out.push_str(piece);
            }
        }
        Cow::Owned(out)
    }
}

/// The gate of one stream; it keeps what it looks for at hand.
#[derive(Debug)]
pub(super) struct Gate {
    secrets: Secrets,
    mask: Arc<Mask>,
    edition: usize,
}

impl Gate {
    /// A JSON message as it may be decoded: without secrets, and with U+FFFD for lone surrogates.
    pub(super) fn message(&mut self, json: String) -> String {
        self.renew();
        let mut bytes = json.into_bytes();
        let has_escapes = replace_lone_surrogates(&mut bytes);
        let json = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        match self.mask.json(&json, has_escapes) {
            Some(masked) => masked,
            None => json,
        }
    }

    /// Any other text, such as an event id.
    pub(super) fn text<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        self.renew();
        self.mask.text(text)
    }

    fn renew(&mut self) {
        if self.secrets.0.edition.load(Ordering::Acquire) != self.edition {
            *self = self.secrets.gate();
        }
    }
}

/// What is looked for, and what is put there.
#[derive(Debug, Default)]
struct Mask {
    finder: Option<AhoCorasick>,
    markers: Vec<String>,
}

impl Mask {
    /// Looks for these, newest first: where two have the same value, the newest names it.
    fn of<'s>(secrets: impl Iterator<Item = &'s Secret>) -> Self {
        let (mut patterns, mut markers) = (Vec::<String>::new(), Vec::new());
        for Secret { label, value, .. } in secrets {
            let forms = [
                (value.clone(), ""),
                (quoted(value), ""),
                (quoted(value).replace('/', "\\/"), ""),
                (encoded(value), "%"),
            ];
            for (form, suffix) in forms {
                if !patterns.contains(&form) {
                    patterns.push(form);
                    markers.push(format!("{MARKER}{label}{suffix}]"));
                }
            }
        }
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&patterns);
        // It fails for more patterns than fit into the memory of a machine.
        let finder = finder.ok().filter(|_| !patterns.is_empty());
        Self { finder, markers }
    }

    fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.finder {
            Some(finder) if finder.is_match(text) => {
                Cow::Owned(finder.replace_all(text, &self.markers))
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// A JSON text with its secrets masked, if it holds any.
    fn json(&self, json: &str, has_escapes: bool) -> Option<String> {
        let finder = self.finder.as_ref()?;
        let mut masked = None;
        if finder.is_match(json) {
            masked = Some(self.in_strings(finder, json));
        }
        // Some libraries write `=`, `&` and others as escapes.
        if has_escapes && memmem::find(json.as_bytes(), b"\\u00").is_some() {
            let plain = plain(masked.as_deref().unwrap_or(json));
            if finder.is_match(&plain) {
                masked = Some(self.in_strings(finder, &plain));
            }
        }
        masked
    }

    /// Masks within strings alone: a secret of digits could be a part of any number, and a marker there is no JSON.
    fn in_strings(&self, finder: &AhoCorasick, json: &str) -> String {
        let is_json = json.trim_start().starts_with(['{', '[', '"']);
        let mut place = Place::default();
        let mut out = String::with_capacity(json.len());
        finder.replace_all_with(json, &mut out, |found, text, out| {
            let is_whole = !is_json
                || place.is_inside(json.as_bytes(), found.start())
                    && serde_json::from_str::<IgnoredAny>(&format!("\"{text}\"")).is_ok();
            let marker = self.markers.get(found.pattern().as_usize());
            out.push_str(marker.filter(|_| is_whole).map_or(text, String::as_str));
            true
        });
        out
    }
}

/// How far a JSON text was looked at, and whether that is inside a string.
#[derive(Default)]
struct Place {
    at: usize,
    is_in_string: bool,
}

impl Place {
    /// Whether `to` is inside a string and not inside an escape; no earlier place can be asked for after that.
    fn is_inside(&mut self, json: &[u8], to: usize) -> bool {
        while let Some(found) = json
            .get(self.at..to)
            .and_then(|rest| memchr2(b'"', b'\\', rest))
        {
            self.at += found;
            self.at += match json.get(self.at..) {
                Some([b'\\', b'u', ..]) => 6,
                Some([b'\\', ..]) => 2,
                _ => {
                    self.is_in_string = !self.is_in_string;
                    1
                }
            };
        }
        self.is_in_string && self.at <= to
    }
}

/// The same JSON without needless escapes: those of printable ASCII.
fn plain(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = memchr(b'\\', rest.as_bytes()) {
        let (before, escape) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let letter = escape
            .strip_prefix("\\u00")
            .and_then(|rest| u8::from_str_radix(rest.get(..2)?, 16).ok())
            .filter(|byte| (b' '..=b'~').contains(byte) && !matches!(byte, b'"' | b'\\'));
        let length = if let Some(letter) = letter {
            out.push(char::from(letter));
            6
        } else {
            out.extend(escape.chars().take(2));
            escape.chars().take(2).map(char::len_utf8).sum()
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The secrets within a value, the main one first: what stands behind a scheme, the password of `Basic` or of an address,
/// each cookie.
fn parts(name: &str, value: &str) -> Vec<String> {
    if name.trim().eq_ignore_ascii_case("cookie") {
        let cookies = value.split(';').map(str::trim);
        let values =
            cookies.map(|cookie| cookie.split_once('=').map_or(cookie, |(_, value)| value));
        return values.map(str::to_owned).collect();
    }
    if let Some(password) = Url::parse(value)
        .ok()
        .and_then(|url| Some(url.password()?.to_owned()))
    {
        return vec![String::new(), password];
    }
    match value.split_once(' ') {
        Some((scheme, rest)) => {
            let rest = rest.trim();
            let mut parts = vec![rest.to_owned()];
            if scheme.eq_ignore_ascii_case("basic")
                && let Some(login) = decode_base64(rest).and_then(|it| String::from_utf8(it).ok())
                && let Some((_, password)) = login.split_once(':')
            {
                parts.push(password.to_owned());
            }
            parts
        }
        None => vec![value.to_owned()],
    }
}

fn is_usual(value: &str) -> bool {
    let is_media_type = ["application/", "text/", "image/", "audio/", "multipart/"]
        .iter()
        .any(|kind| value.starts_with(kind));
    is_media_type
        || USUAL_WORDS
            .iter()
            .any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether a value is a path or an address.
fn is_place(value: &str) -> bool {
    value.starts_with(['/', '~', '.']) || value.contains("://")
}

/// Whether a value looks like a key: in a word of it a letter follows a digit (`51c7`), or it is very long. Names do not
/// (`eu-west-1`, `arm64`), nor do paths and addresses.
fn is_random(value: &str) -> bool {
    let is_key = |word: &str| {
        let kinds: Vec<bool> = word.chars().map(char::is_numeric).collect();
        let follows = |pair: &[bool]| pair == [true, false];
        word.len() >= SHORT_WORD && kinds.windows(2).any(follows) || word.len() >= LONG_WORD
    };
    !is_place(value)
        && value
            .split(|letter: char| !letter.is_alphanumeric())
            .any(is_key)
}

/// As JSON writes it, without the quotes around it.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let inner = json.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    inner.unwrap_or(&json).to_owned()
}

/// As a URL writes it.
fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A secret, and what of it may stand somewhere by itself: the token of a scheme, and both as JSON writes them.
pub(crate) fn parts_of(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    let token = secret.split_once(' ').map(|(_, token)| token.trim());
    let mut all = Vec::new();
    for part in [Some(secret), token].into_iter().flatten() {
        for part in [part.to_owned(), quoted(part)] {
            if part.len() >= 4 && !all.contains(&part) {
                all.push(part);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(named: &[(&str, &str)]) -> Secrets {
        let secrets = Secrets::default();
        for (name, value) in named {
            secrets.add(name, &SecretString::from(*value));
        }
        secrets
    }

    fn message(secrets: &Secrets, json: &str) -> String {
        secrets.gate().message(json.to_owned())
    }

    #[test]
    fn masks_credentials_and_leaves_ordinary_values() {
        for (name, value, is_masked) in [
            ("X-Api-Key", "hunter2", true),
            ("Authorization", "Bearer hunter2", true),
            ("X-Lab", "canary-51c7", true),
            ("X-Lab", "canary-19aa", true),
            ("X-Lab", "abcdefghijklmnopqrstuvwxyz", true),
            ("X-Tenant", "550e8400-e29b-41d4-a716-446655440000", true),
            ("X-Api-Key", "1", false),
            ("X-Api-Key", "short", false),
            ("X-Auth-Mode", "required", false),
            ("X-Auth-Mode", "application/json", false),
            ("Accept-Kind", "application/json", false),
            ("X-Region", "eu-west-1", false),
            ("X-Tenant", "acme-production", false),
            ("X-Platform", "linux-arm64", false),
            ("X-Version", "v1.2.3-beta2", false),
            ("HOME", "/home/a1b2c3d4", false),
            ("BASE_URL", "https://a1b2c3d4.example", false),
        ] {
            let text = format!("it says {value}.");
            let masked = secrets(&[(name, value)]).mask(&text).into_owned();
            assert_eq!(masked != text, is_masked, "{name}: {masked}");
        }
    }

    #[test]
    fn masks_each_part_of_a_value() {
        for (name, value, said) in [
            ("Authorization", "Bearer sk-canary", "sk-canary"),
            ("Authorization", "Basic YW5uOmNhbmFyeQ==", "canary"),
            ("Cookie", "a=1; sid=canary", "canary"),
            ("DATABASE_URL", "postgres://ann:canary@h/db", "canary"),
        ] {
            let masked = secrets(&[(name, value)]).mask(said).into_owned();
            assert!(!masked.contains("canary"), "{name}: {masked}");
        }
    }

    #[test]
    fn masks_every_way_to_write_a_secret_in_json() {
        let secrets = secrets(&[("X-Key", "a/\"canary\"=é")]);
        for json in [
            r#"{"a":"a/\"canary\"=é"}"#,
            r#"{"a":"a\/\"canary\"=é"}"#,
            r#"{"a":"a/\"\u0063anary\"\u003dé"}"#,
            r#"{"a":"?key=a%2F%22canary%22%3D%C3%A9"}"#,
            r#"{"a\"":"\n\\a/\"canary\"=é"}"#,
        ] {
            let masked = message(&secrets, json);
            assert!(!masked.contains("canary"), "{masked}");
            serde_json::from_str::<serde_json::Value>(&masked).unwrap();
        }
    }

    #[test]
    fn leaves_json_whole_where_a_secret_is_a_number() {
        let secrets = secrets(&[("X-Key", "12345678")]);
        let json = r#"{"at":123456789,"a\"b":"\\","said":"12345678","n":12345678}"#;
        let expected = r#"{"at":123456789,"a\"b":"\\","said":"[redacted:x-key]","n":12345678}"#;
        assert_eq!(message(&secrets, json), expected);
        assert_eq!(secrets.mask("no 12345678"), "no [redacted:x-key]");
    }

    #[test]
    fn leaves_escapes_whole_that_look_like_a_secret() {
        let secrets = secrets(&[("X-Key", "nabcdef"), ("X-Token", "00e9abc")]);
        let json = r#"{"a":"\nabcdef \u00e9abc \\nabcdef"}"#;
        let masked = message(&secrets, json);
        assert_eq!(masked, r#"{"a":"\nabcdef \u00e9abc \\[redacted:x-key]"}"#);
    }

    #[test]
    fn puts_back_what_returns_to_the_server() {
        let secrets = secrets(&[("X-Key", "a/\"canary\"")]);
        secrets.add_session("session-0815");
        secrets.add_private(&SecretString::from("refresh-token"));
        let id = "session-0815:a/\"canary\":a%2F%22canary%22:refresh-token";
        let masked = secrets.mask(id).into_owned();
        assert_eq!(
            masked,
            "[redacted:server-session]:[redacted:x-key]:[redacted:x-key%]:[redacted:sign-in]"
        );
        let back = id.replace("refresh-token", "[redacted:sign-in]");
        assert_eq!(secrets.restore(&masked), back);
        let json =
            secrets.restore_json(r#"{"id":"[redacted:x-key]","b":"[redacted:y] [redacted:"}"#);
        assert_eq!(
            json,
            r#"{"id":"a/\"canary\"","b":"[redacted:y] [redacted:"}"#
        );
        assert!(matches!(secrets.restore("plain"), Cow::Borrowed("plain")));
        assert_eq!(
            secrets
                .missing("1:[redacted:x-key]:[redacted:y]")
                .as_deref(),
            Some("[redacted:y]")
        );
        assert_eq!(secrets.missing("1:[redacted:x-key]:[redacted:"), None);
    }

    #[test]
    fn knows_older_tokens_and_puts_back_the_newest() {
        let secrets = Secrets::default();
        let mut gate = secrets.gate();
        for number in 0..40 {
            secrets.add_token(&SecretString::from(format!("token-{number:02}")));
        }
        secrets.add_token(&SecretString::from("token-38"));
        assert_eq!(
            gate.text("token-38 token-39"),
            "[redacted:token] [redacted:token]"
        );
        assert_eq!(gate.text("token-00"), "token-00", "they are bounded");
        assert_eq!(secrets.restore("[redacted:token]"), "token-38");
    }

    #[test]
    fn masks_variables_of_the_configuration_and_all_values_in_recorded_traffic() {
        let secrets = Secrets::default();
        secrets.add_variable("GIVEN", &SecretString::from("given-canary"));
        secrets.add_variable("HOME", &SecretString::from("/home/ann"));
        secrets.add("X-Tenant", &SecretString::from("acme-production"));
        let text = "given-canary in /home/ann of acme-production";
        assert_eq!(
            secrets.mask(text),
            "[redacted:given] in /home/ann of acme-production"
        );
        let strictly = secrets.mask_strictly(text);
        assert_eq!(
            strictly,
            "[redacted:given] in [redacted:home] of [redacted:x-tenant]"
        );
        assert_eq!(
            secrets.restore("[redacted:x-tenant]"),
            "[redacted:x-tenant]"
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let secrets = secrets(&[("X-Key", "canary")]);
        assert!(!format!("{secrets:?}").contains("canary"));
    }
}
