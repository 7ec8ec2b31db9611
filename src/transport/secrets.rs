//! Redacts secrets in everything that a server sends, before it is decoded, shown, logged or saved.
//!
//! A server may echo a secret in an error, a redirect, a log or a result. The redactor knows the values and replaces them
//! with a marker such as `[redacted:x-api-key]`.
//!
//! Some values must go back to the server unchanged (the event id that is a stream's cursor, a task id, a page cursor), and
//! they may contain a secret too. They are redacted like everything else, so that no screen, log or session file shows it,
//! and the transport restores the secret on the way out ([`Secrets::restore`]). The marker names the secret but is not
//! derived from it, so a saved marker reveals nothing. After a restart it is resolved with the header, token or session id
//! that the same request carries anyway. If this process doesn't know the secret, the stream is not resumed and the task
//! waits for its credentials. Only values that this server sent or received are ever restored, and never in the arguments of
//! a call or in an answer: an agent that was deceived could write a marker there.
//!
//! These values are secrets:
//! - tokens, client secrets, server session ids and the value of `--bearer-env`, from 6 bytes (session ids from 8);
//! - variables that the configuration refers to, from 6 bytes, except paths and URLs;
//! - headers and variables named like credentials (`X-Api-Key`, `GITHUB_TOKEN`), from 6 bytes, except media types and
//!   ordinary values such as `required`;
//! - other values from 8 bytes that look like a key ([`looks_like_key`]). `1`, `application/json`, `eu-west-1` and `/home/ann`
//!   stay readable.
//!
//! Recorded traffic is meant to be shared, so every value from 6 bytes is redacted there.

use std::{
    borrow::Cow,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use aho_corasick::{AhoCorasick, MatchKind};
use memchr::memmem;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use url::{Url, form_urlencoded};

use super::{
    json_text::{StringScanner, json_escaped, unescape_ascii},
    written,
};
use crate::domain::{decode_base64, is_credential_name, replace_lone_surrogates, without_nan};

/// The start of a marker.
const MARKER: &str = "[redacted:";
/// Shorter credentials are not redacted: they occur inside ordinary words.
const MIN_CREDENTIAL_BYTES: usize = 6;
/// As [`MIN_CREDENTIAL_BYTES`], for all other values.
const MIN_OTHER_BYTES: usize = 8;
/// A longer segment of a URL path may be a key.
pub(super) const MAX_PATH_SEGMENT_BYTES: usize = 12;
/// Values remembered per label of those that servers and issuers hand out, such as tokens; the newest are kept.
const MAX_PER_LABEL: usize = 16;
/// Shorter words are parts of names: `4k`, `2nd`.
const MIN_KEY_WORD_BYTES: usize = 4;
/// A word of this length is a key even without digits.
const LONG_KEY_WORD_BYTES: usize = 20;

/// Values of headers and variables with the name of a credential that are not secrets: settings, and the passwords of test
/// databases. These words are also in the names of tools and parameters.
const ORDINARY_VALUES: [&str; 12] = [
    "bearer",
    "changeme",
    "default",
    "disabled",
    "enabled",
    "oauth2",
    "optional",
    "password",
    "postgres",
    "required",
    "secret",
    "stateless",
];

/// The secrets of one server; cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: RwLock<SecretList>,
    /// Incremented with each change.
    version: AtomicUsize,
}

#[derive(Default)]
struct SecretList {
    secrets: Vec<KnownSecret>,
    mask: Arc<Mask>,
    /// For recorded traffic: includes [`SecretKind::Ordinary`] values.
    strict: Arc<Mask>,
}

/// One secret. A keeper that is upgraded passes it on.
#[derive(Clone, Serialize, Deserialize)]
pub struct KnownSecret {
    label: String,
    value: String,
    kind: SecretKind,
}

/// How a value is treated.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SecretKind {
    /// Redacted, and restored on the way out: both sides know it.
    Shared,
    /// Redacted, never restored.
    Private,
    /// Redacted only in recorded traffic.
    Ordinary,
}

// Manual, as that of one secret: they hold nothing else.
impl fmt::Debug for KnownSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    /// All of them, for a process that continues.
    pub fn save(&self) -> Vec<KnownSecret> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        known.secrets.clone()
    }

    /// Adds those of a process that this one continues.
    pub fn restore_saved(&self, saved: Vec<KnownSecret>) {
        for KnownSecret { label, value, kind } in saved {
            self.insert(label, value, kind, usize::MAX);
        }
    }

    /// Adds the value of a header or variable.
    pub fn add(&self, name: &str, value: &SecretString) {
        self.add_value(name, value, is_credential_name(name));
    }

    /// Adds the value of a variable that the configuration refers to; using a variable marks it as a secret.
    pub fn add_variable(&self, name: &str, value: &SecretString) {
        let is_secret = is_credential_name(name) || !is_path_or_url(value.expose_secret().trim());
        self.add_value(name, value, is_secret);
    }

    fn add_value(&self, name: &str, value: &SecretString, is_secret: bool) {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let label = name.trim().to_ascii_lowercase();
        let label = label.replace(|letter| !is_plain(letter), "-");
        for (index, part) in secret_parts(name, value.expose_secret().trim())
            .into_iter()
            .enumerate()
        {
            if part.len() < MIN_CREDENTIAL_BYTES || is_ordinary(&part) {
                continue;
            }
            let is_key = part.len() >= MIN_OTHER_BYTES && looks_like_key(&part);
            let kind = if index > 0 || is_secret || is_key {
                SecretKind::Shared
            } else {
                SecretKind::Ordinary
            };
            let label = match index {
                0 => label.clone(),
                index => format!("{label}.{}", index + 1),
            };
            self.insert(label, part, kind, usize::MAX);
        }
    }

    /// Adds the parts of the server's URL that may be keys.
    pub(super) fn add_url(&self, url: &Url) {
        // Both raw and decoded: a server may echo either.
        let raw = url.query().unwrap_or_default().split('&');
        let raw = raw
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.into(), value.into()));
        for (name, value) in url.query_pairs().chain(raw) {
            if value.len() >= MIN_OTHER_BYTES {
                self.add(&format!("url.{name}"), &SecretString::from(value.as_ref()));
            }
        }
        for segment in url.path_segments().into_iter().flatten() {
            if segment.len() > MAX_PATH_SEGMENT_BYTES {
                self.add("url", &SecretString::from(segment));
            }
        }
    }

    /// Adds a server's session id.
    pub(super) fn add_session(&self, id: &str) {
        if id.len() >= MIN_OTHER_BYTES {
            let label = "server-session".to_owned();
            self.insert(label, id.to_owned(), SecretKind::Shared, MAX_PER_LABEL);
        }
    }

    /// Adds a token that is sent to this server.
    pub(super) fn add_token(&self, token: &SecretString) {
        self.add_other("token", token, SecretKind::Shared);
    }

    /// Adds a secret that this server must not see; it is redacted and never restored.
    pub(super) fn add_private(&self, secret: &SecretString) {
        self.add_other("sign-in", secret, SecretKind::Private);
    }

    fn add_other(&self, label: &str, secret: &SecretString, kind: SecretKind) {
        let secret = secret.expose_secret().trim();
        if secret.len() >= MIN_CREDENTIAL_BYTES {
            self.insert(label.to_owned(), secret.to_owned(), kind, MAX_PER_LABEL);
        }
    }

    /// Keeps at most `limit` values per label, oldest first.
    fn insert(&self, label: String, value: String, kind: SecretKind, limit: usize) {
        let is_same = |it: &KnownSecret| it.label == label && it.value == value && it.kind == kind;
        let is_newest = |known: &SecretList| {
            let mut newest_first = known.secrets.iter().rev();
            newest_first
                .find(|secret| secret.label == label)
                .is_some_and(is_same)
        };
        if is_newest(&self.0.known.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut known = self.0.known.write().unwrap_or_else(PoisonError::into_inner);
        known.secrets.retain(|secret| !is_same(secret));
        let mut same_label = known.secrets.iter().filter(|secret| secret.label == label);
        if same_label.clone().count() >= limit
            && let Some(oldest) = same_label.next().map(|secret| secret.value.clone())
        {
            known
                .secrets
                .retain(|secret| secret.label != label || secret.value != oldest);
        }
        known.secrets.push(KnownSecret { label, value, kind });
        let mask_of = |secrets: &[KnownSecret], is_strict: bool| {
            let secrets = secrets.iter().rev();
            Mask::new(secrets.filter(|it| is_strict || it.kind != SecretKind::Ordinary))
        };
        known.mask = Arc::new(mask_of(&known.secrets, false));
        known.strict = Arc::new(mask_of(&known.secrets, true));
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// A redactor that follows later changes.
    pub(super) fn redactor(&self) -> Redactor {
        let version = self.0.version.load(Ordering::Acquire);
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        Redactor {
            mask: Arc::clone(&known.mask),
            secrets: self.clone(),
            version,
        }
    }

    /// Redacts a text for recorded traffic.
    pub(super) fn mask_strictly<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let known = self.0.known.read().unwrap_or_else(PoisonError::into_inner);
        let strict = Arc::clone(&known.strict);
        drop(known);
        strict.text(text)
    }

    /// Redacts a text for people.
    pub(super) fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redactor().mask.text(text)
    }

    /// Restores the secrets in a redacted text that goes back to its server.
    pub(super) fn restore<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.restore_with(text, str::to_owned)
    }

    /// As [`Self::restore`] for a message, with JSON escapes, but only in what longhaul itself wrote: nobody may have a
    /// secret sent by writing its marker.
    pub(super) fn restore_in_json<'t>(&self, json: &'t str) -> Cow<'t, str> {
        if !json.contains(MARKER) {
            return Cow::Borrowed(json);
        }
        let restored = written::replace_own(json, |part| self.restore_with(part, json_escaped));
        restored.map_or(Cow::Borrowed(json), Cow::Owned)
    }

    /// The first marker in a text whose secret this process does not know.
    pub(super) fn first_unknown(&self, text: &str) -> Option<String> {
        let restored = self.restore(text);
        let (_, rest) = restored.split_once(MARKER)?;
        let (label, _) = rest.split_once(']')?;
        Some(format!("{MARKER}{label}]"))
    }

    fn restore_with<'t>(&self, text: &'t str, escape: impl Fn(&str) -> String) -> Cow<'t, str> {
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
            let is_match =
                |secret: &&KnownSecret| secret.label == label && secret.kind == SecretKind::Shared;
            let value = &known.secrets.iter().rev().find(is_match)?.value;
            Some(if is_encoded {
                url_encoded(value)
            } else {
                escape(value)
            })
        };
        let mut out = first.to_owned();
        for piece in pieces {
            let resolved = piece
                .split_once(']')
                .and_then(|(label, rest)| Some((value_of(label)?, rest)));
            if let Some((value, rest)) = resolved {
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

/// Redacts the text of one stream. It caches the compiled mask, so that most calls take no lock.
#[derive(Debug)]
pub(super) struct Redactor {
    secrets: Secrets,
    mask: Arc<Mask>,
    version: usize,
}

impl Redactor {
    /// Redacts a JSON message, and repairs it so that it can be decoded.
    pub(super) fn message(&mut self, json: String) -> String {
        self.refresh();
        let mut bytes = json.into_bytes();
        let has_escapes = replace_lone_surrogates(&mut bytes);
        let json = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let json = without_nan(json);
        self.mask.json(&json, has_escapes).unwrap_or(json)
    }

    /// Redacts any other text, such as an event id.
    pub(super) fn text<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        self.refresh();
        self.mask.text(text)
    }

    fn refresh(&mut self) {
        if self.secrets.0.version.load(Ordering::Acquire) != self.version {
            *self = self.secrets.redactor();
        }
    }
}

/// Compiled search patterns, and the marker for each.
#[derive(Debug, Default)]
struct Mask {
    finder: Option<AhoCorasick>,
    markers: Vec<String>,
}

impl Mask {
    /// Takes the newest secrets first: the newest label wins if two have the same value.
    fn new<'s>(secrets: impl Iterator<Item = &'s KnownSecret>) -> Self {
        let (mut patterns, mut markers) = (Vec::<String>::new(), Vec::new());
        for KnownSecret { label, value, .. } in secrets {
            let in_json = json_escaped(value);
            let with_slashes = in_json.replace('/', "\\/");
            let forms = [
                (value.clone(), ""),
                // JSON in a text of the JSON.
                (json_escaped(&in_json), ""),
                (json_escaped(&with_slashes), ""),
                (in_json, ""),
                (with_slashes, ""),
                (url_encoded(value), "%"),
                // In the path of a URL.
                (url_encoded(value).replace("%2F", "/"), "%"),
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
        // It fails only for more patterns than fit into memory.
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

    /// The redacted JSON; `None` if it contains no secret.
    fn json(&self, json: &str, has_escapes: bool) -> Option<String> {
        let finder = self.finder.as_ref()?;
        let mut masked = None;
        if finder.is_match(json) {
            masked = Some(self.mask_in_strings(finder, json));
        }
        // Some libraries escape ASCII such as `=` and `&`.
        if has_escapes && memmem::find(json.as_bytes(), b"\\u00").is_some() {
            let plain = unescape_ascii(masked.as_deref().unwrap_or(json));
            if finder.is_match(&plain) {
                masked = Some(self.mask_in_strings(finder, &plain));
            }
        }
        masked
    }

    /// Redacts only inside strings: a secret made of digits could occur in a number, where a marker would break the JSON.
    fn mask_in_strings(&self, finder: &AhoCorasick, json: &str) -> String {
        let is_json = json.trim_start().starts_with(['{', '[', '"']);
        let mut scanner = StringScanner::default();
        let mut out = String::with_capacity(json.len());
        finder.replace_all_with(json, &mut out, |found, text, out| {
            let is_replaceable = !is_json
                || scanner.is_in_string_at(json.as_bytes(), found.start())
                    && serde_json::from_str::<IgnoredAny>(&format!("\"{text}\"")).is_ok();
            let marker = self.markers.get(found.pattern().as_usize());
            out.push_str(
                marker
                    .filter(|_| is_replaceable)
                    .map_or(text, String::as_str),
            );
            true
        });
        out
    }
}

/// The secrets within a value, the main one first: the token after a scheme, the password in `Basic` or a URL, each
/// cookie.
fn secret_parts(name: &str, value: &str) -> Vec<String> {
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

fn is_ordinary(value: &str) -> bool {
    let is_media_type = ["application/", "text/", "image/", "audio/", "multipart/"]
        .iter()
        .any(|kind| value.starts_with(kind));
    is_media_type
        || ORDINARY_VALUES
            .iter()
            .any(|word| value.eq_ignore_ascii_case(word))
}

fn is_path_or_url(value: &str) -> bool {
    value.starts_with(['/', '~', '.']) || value.contains("://")
}

/// Whether one of its words is very long or has a letter after a digit (`51c7`). Names (`eu-west-1`, `arm64`), paths and
/// URLs don't look like keys.
fn looks_like_key(value: &str) -> bool {
    let is_key = |word: &str| {
        let kinds: Vec<bool> = word.chars().map(char::is_numeric).collect();
        let follows = |pair: &[bool]| pair == [true, false];
        word.len() >= MIN_KEY_WORD_BYTES && kinds.windows(2).any(follows)
            || word.len() >= LONG_KEY_WORD_BYTES
    };
    !is_path_or_url(value)
        && value
            .split(|letter: char| !letter.is_alphanumeric())
            .any(is_key)
}

fn url_encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Every form in which a header value may show up in a text: whole and without its scheme, plain and as in JSON.
pub(crate) fn searchable_forms(secret: &str) -> Vec<String> {
    let secret = secret.trim();
    let token = secret.split_once(' ').map(|(_, token)| token.trim());
    let mut all = Vec::new();
    for part in [Some(secret), token].into_iter().flatten() {
        for part in [part.to_owned(), json_escaped(part)] {
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
        secrets.redactor().message(json.to_owned())
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
            ("PGPASSWORD", "postgres", false),
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
        for (name, value, text) in [
            ("Authorization", "Bearer sk-canary", "sk-canary"),
            ("Authorization", "Basic YW5uOmNhbmFyeQ==", "canary"),
            ("Cookie", "a=1; sid=canary", "canary"),
            ("DATABASE_URL", "postgres://ann:canary@h/db", "canary"),
        ] {
            let masked = secrets(&[(name, value)]).mask(text).into_owned();
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
            r#"{"a":"{\"b\":\"a\\/\\\"canary\\\"=é\"}"}"#,
            r#"{"a":"{\"b\":\"a/\\\"\\u0063anary\\\"\\u003Dé\"}"}"#,
        ] {
            let masked = message(&secrets, json);
            assert!(!masked.contains("canary"), "{masked}");
            serde_json::from_str::<serde_json::Value>(&masked).unwrap();
        }
    }

    #[test]
    fn leaves_json_numbers_that_look_like_a_secret() {
        let secrets = secrets(&[("X-Key", "12345678")]);
        let json = r#"{"at":123456789,"a\"b":"\\","said":"12345678","n":12345678}"#;
        let expected = r#"{"at":123456789,"a\"b":"\\","said":"[redacted:x-key]","n":12345678}"#;
        assert_eq!(message(&secrets, json), expected);
        assert_eq!(secrets.mask("no 12345678"), "no [redacted:x-key]");
    }

    #[test]
    fn leaves_json_escapes_that_look_like_a_secret() {
        let secrets = secrets(&[("X-Key", "nabcdef"), ("X-Token", "00e9abc")]);
        let json = r#"{"a":"\nabcdef \u00e9abc \\nabcdef"}"#;
        let masked = message(&secrets, json);
        assert_eq!(masked, r#"{"a":"\nabcdef \u00e9abc \\[redacted:x-key]"}"#);
    }

    #[test]
    fn restores_secrets_for_their_server() {
        let secrets = secrets(&[("X-Key", "a/\"canary\"")]);
        secrets.add_session("session-0815");
        secrets.add_private(&SecretString::from("refresh-token"));
        let id = "session-0815:a/\"canary\":a%2F%22canary%22:refresh-token";
        let masked = secrets.mask(id).into_owned();
        assert_eq!(
            masked,
            "[redacted:server-session]:[redacted:x-key]:[redacted:x-key%]:[redacted:sign-in]"
        );
        assert_eq!(secrets.mask("/a/%22canary%22"), "/[redacted:x-key%]");
        let back = id.replace("refresh-token", "[redacted:sign-in]");
        assert_eq!(secrets.restore(&masked), back);
        let json = secrets.restore_in_json(r#"{"id":"[redacted:x-key] [redacted:y] [redacted:"}"#);
        assert_eq!(json, r#"{"id":"a/\"canary\" [redacted:y] [redacted:"}"#);
        assert!(matches!(secrets.restore("plain"), Cow::Borrowed("plain")));
        let json = r#"{"params":{"arguments":{"url":"[redacted:x-key]"},"cursor":"[redacted:x-key]",
            "inputResponses":"[redacted:x-key]"},"id":"[redacted:server-session]"}"#;
        assert_eq!(
            secrets.restore_in_json(json),
            r#"{"params":{"arguments":{"url":"[redacted:x-key]"},"cursor":"a/\"canary\"",
            "inputResponses":"[redacted:x-key]"},"id":"session-0815"}"#
        );
        assert_eq!(
            secrets
                .first_unknown("1:[redacted:x-key]:[redacted:y]")
                .as_deref(),
            Some("[redacted:y]")
        );
        assert_eq!(secrets.first_unknown("1:[redacted:x-key]:[redacted:"), None);
    }

    #[test]
    fn masks_older_tokens_and_restores_the_newest() {
        let secrets = Secrets::default();
        let mut redactor = secrets.redactor();
        for number in 0..40 {
            secrets.add_token(&SecretString::from(format!("token-{number:02}")));
        }
        secrets.add_token(&SecretString::from("token-38"));
        assert_eq!(
            redactor.text("token-38 token-39"),
            "[redacted:token] [redacted:token]"
        );
        assert_eq!(redactor.text("token-00"), "token-00", "they are bounded");
        assert_eq!(secrets.restore("[redacted:token]"), "token-38");
    }

    #[test]
    fn masks_config_variables_and_every_value_in_recorded_traffic() {
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
