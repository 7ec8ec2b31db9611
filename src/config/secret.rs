//! Detects secrets written as plain text where only the name of a variable belongs.

use std::sync::LazyLock;

use regex::Regex;
use url::Url;

use crate::domain::{is_credential_name, is_variable};

/// The last words of variables and headers that hold secrets; `PWD` alone is a directory.
const SECRET_LAST_WORDS: [&str; 3] = ["pass", "passphrase", "pwd"];

/// Authentication schemes, which precede a credential and are not secret.
const AUTH_SCHEMES: [&str; 5] = ["bearer", "basic", "token", "digest", "apikey"];

/// Prefixes of the keys of well-known services.
const KEY_PREFIXES: [&str; 9] = [
    "sk-",
    "ghp_",
    "gho_",
    "github_pat_",
    "xoxb-",
    "glpat-",
    "eyJ",
    "hf_",
    "AKIA",
];

/// A word of at least this many bytes with at least [`TOKEN_DIGITS`] digits was probably generated.
const TOKEN_LEN: usize = 20;

const TOKEN_DIGITS: usize = 3;

/// A version, a digest or an id as a part of an argument that looks like a key but isn't one.
static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let hash = "([0-9a-f]{40}|[0-9a-f]{64}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})";
    let store = "/(nix|gnu)/store/[0-9a-z]{32}";
    let integrity = "sha(256|384|512)-[A-Za-z0-9+/]+=*";
    Regex::new(&format!(
        r"@[0-9a-z]{{7,64}}\b|[/#?=:-]{hash}\b|{store}|{integrity}"
    ))
    .ok()
});

/// Words of the names of options and variables whose values are secrets.
const SECRET_WORDS: [&str; 10] = [
    "auth",
    "authorization",
    "bearer",
    "cookie",
    "jwt",
    "pass",
    "pat",
    "pwd",
    "session",
    "signature",
];

/// Parts of such words.
const SECRET_PARTS: [&str; 4] = ["credential", "passphrase", "passw", "secret"];

/// What stands before `key` in names that aren't those of secrets, such as `--sort-key`.
const PLAIN_KEYS: [&str; 11] = [
    "cache",
    "foreign",
    "group",
    "hot",
    "index",
    "map",
    "mon",
    "partition",
    "primary",
    "public",
    "sort",
];

/// The last words of names that tell where a secret is, or what it is called.
const PLACES: [&str; 8] = ["file", "path", "dir", "name", "id", "type", "env", "header"];

/// Values of options such as `--auth` that aren't secrets.
const PLAIN_VALUES: [&str; 8] = [
    "none", "basic", "bearer", "oauth", "oauth2", "env", "true", "false",
];

/// Whether any word of the text looks like a key or a token.
pub(crate) fn looks_like_token(text: &str) -> bool {
    text.split(|letter| !is_part(letter)).any(is_token)
}

/// Replaces every word that looks like a key or a token.
pub(crate) fn without_tokens(text: &str, replacement: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(|letter| !is_part(letter)) {
        let word = piece.trim_end_matches(|letter| !is_part(letter));
        if is_token(word) {
            out.push_str(replacement);
            out.push_str(piece.get(word.len()..).unwrap_or_default());
        } else {
            out.push_str(piece);
        }
    }
    out
}

fn is_part(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_-+=".contains(letter)
}

/// Whether the word is made of names and numbers, as in `claude-sonnet-4-5-20250929`.
fn is_composed(word: &str) -> bool {
    let mut parts = word.split(|letter: char| !letter.is_ascii_alphanumeric());
    let is_change = |pair: &&[u8]| {
        pair.iter().all(u8::is_ascii_alphanumeric)
            && pair.iter().filter(|byte| byte.is_ascii_digit()).count() == 1
    };
    let changes = word.as_bytes().windows(2).filter(is_change);
    changes.count() <= 4 && parts.all(|part| part.len() < TOKEN_LEN)
}

/// The number of the first argument that contains a literal secret.
pub(crate) fn secret_argument(args: &[String]) -> Option<usize> {
    let before = std::iter::once("").chain(args.iter().map(String::as_str));
    let is_secret = |(before, arg): (&str, &String)| is_secret_argument(before, arg);
    before.zip(args).position(is_secret).map(|index| index + 1)
}

/// Whether an argument contains a literal secret, after the one `before` it.
fn is_secret_argument(before: &str, arg: &str) -> bool {
    let is_value = before.starts_with('-') && !before.contains('=') && !arg.starts_with('-');
    let parts = std::iter::once(arg).chain(arg.split([';', '&', '?', ',', ' ']));
    let pairs = parts.filter_map(|part| part.split_once(['=', ':']));
    let mut pairs = pairs.chain(is_value.then_some((before, arg)));
    let is_named = |(name, value): (&str, &str)| {
        let value = value.trim();
        let is_variable = value.strip_prefix('$').is_some_and(is_variable);
        let is_plain = is_variable || PLAIN_VALUES.contains(&value);
        !is_plain && has_literal(value) && is_secret_option(name)
    };
    // An id is a key only if its name says so.
    let text = if is_value && before.starts_with("--") {
        format!(":{arg}")
    } else {
        arg.to_owned()
    };
    pairs.any(|pair| is_named(pair) || has_password(pair.1))
        || has_password(arg)
        || has_generated_word(&text)
}

/// Whether an option or a variable with this name has a secret as its value.
fn is_secret_option(name: &str) -> bool {
    let mut text = String::new();
    for letter in name.chars() {
        // `apiKey` has two words.
        if letter.is_ascii_uppercase() && text.ends_with(|last: char| last.is_ascii_lowercase()) {
            text.push('-');
        }
        text.push(letter);
    }
    let text = text.to_ascii_lowercase();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let (last, rest) = words.split_last().unwrap_or((&"", &[]));
    let before_key = match last.strip_suffix("key") {
        Some("") => rest.last().copied().or(Some("")),
        stem => stem,
    };
    let is_key = before_key.is_some_and(|before| !PLAIN_KEYS.contains(&before));
    let is_word = |word: &&str| {
        let has_part = SECRET_PARTS.iter().any(|part| word.contains(part));
        has_part || SECRET_WORDS.contains(word) || word.ends_with("token")
    };
    let is_elsewhere = words.first() == Some(&"no") || PLACES.contains(last);
    !is_elsewhere && (is_key || words.iter().any(is_word))
}

/// Whether any word of an argument looks like a key, and like nothing else.
fn has_generated_word(arg: &str) -> bool {
    let plain = VERSION.as_ref().map(|version| version.replace_all(arg, ""));
    let plain = plain.as_deref().unwrap_or(arg);
    let mut words = plain.split(|letter| letter == '=' || !is_part(letter));
    words.any(|word| is_token(word) && (has_key_prefix(word) || !is_composed(word)))
}

fn has_key_prefix(word: &str) -> bool {
    word.len() > 8 && KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

fn is_token(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    word.len() >= TOKEN_LEN && digits >= TOKEN_DIGITS || has_key_prefix(word)
}

fn is_scheme(word: &str) -> bool {
    AUTH_SCHEMES.contains(&word.to_ascii_lowercase().as_str())
}

/// The authentication scheme in front of a credential, with the space after it, or nothing.
pub(crate) fn scheme_of(value: &str) -> &str {
    let is_it = |word: &&str| is_scheme(word.trim_end());
    let first = value.split_inclusive(' ').next();
    first.filter(is_it).unwrap_or_default()
}

/// Whether a value contains a secret outside its `${VARIABLES}`.
pub(crate) fn is_secret(name: &str, value: &str) -> bool {
    let literal: Vec<&str> = without_variables(value);
    let last = name.to_ascii_lowercase();
    let last = last.rsplit(['_', '-']).next().unwrap_or_default();
    let is_password = SECRET_LAST_WORDS.contains(&last) && !["PWD", "OLDPWD"].contains(&name);
    has_literal(value) && (is_password || is_credential_name(name))
        || literal.iter().any(|text| looks_like_token(text))
        || literal.iter().any(|text| has_secret_pair(text))
        || has_password(value)
}

/// Whether a value has more than `${VARIABLES}` and an authentication scheme.
pub(crate) fn has_literal(value: &str) -> bool {
    let parts = without_variables(value).into_iter();
    let mut words = parts.flat_map(str::split_whitespace);
    words.any(|word| !is_scheme(word))
}

/// Whether the text is a URL with a literal password.
fn has_password(text: &str) -> bool {
    let has_it = |url: Url| url.password().is_some_and(|text| !text.contains('$'));
    Url::parse(text).is_ok_and(has_it)
}

/// Whether a part `NAME=VALUE` of the text, as in a connection string or a query, has the name of a secret.
fn has_secret_pair(text: &str) -> bool {
    let mut parts = text.split([';', '&', '?', ',', ' ']);
    parts.any(|part| {
        let pair = part.split_once('=');
        pair.is_some_and(|(name, value)| {
            !value.trim().is_empty() && is_credential_name(name.trim())
        })
    })
}

fn without_variables(value: &str) -> Vec<&str> {
    let mut pieces = value.split("${");
    let first = pieces.next();
    let after = pieces.map(|piece| piece.split_once('}').map_or("", |(_, text)| text));
    first.into_iter().chain(after).collect()
}

/// The trimmed value of an environment variable that may be sent to a server; `None` if it is unset or blank.
pub(crate) fn env_secret(name: &str) -> Option<secrecy::SecretString> {
    let value = std::env::var_os(name)?.into_string().ok()?;
    let value = value.trim();
    (!value.is_empty()).then(|| secrecy::SecretString::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_tokens_and_keeps_the_words_around_them() {
        assert_eq!(
            without_tokens(
                "key ghp_0123456789, (786512e2-9e0d-4c61-a1b2-5f0e12345678) é.",
                "-"
            ),
            "key -, (-) é."
        );
        assert_eq!(
            without_tokens("2026-11-20T06:00:00Z", "-"),
            "2026-11-20T06:00:00Z"
        );
    }

    #[test]
    fn tells_secrets_from_settings() {
        for (name, value) in [
            ("Authorization", "Bearer hunter2"),
            ("authorization", "hunter2"),
            ("X-Api-Key", "${A}hunter2"),
            ("Cookie", "a=b"),
            ("X-Region", "ghp_0123456789"),
            ("X-Region", "786512e2-9e0d-4c61-a1b2-5f0e12345678"),
            ("DATABASE_URL", "postgres://u:abcdefgh1jklmn0pqrs9@h/"),
            ("DATABASE_URL", "postgres://u:hunter2@h/"),
            ("DB_PASS", "hunter2"),
            ("PG_PWD", "hunter2"),
            ("CONN", "Server=h;User ID=u;Password=hunter2"),
            ("DATABASE_URL", "postgres://h/?user=u&password=hunter2"),
        ] {
            assert!(is_secret(name, value), "{name}: {value}");
        }
        for (name, value) in [
            ("Authorization", "Bearer ${LAB_TOKEN}"),
            ("X-Api-Key", "${A}${B}"),
            ("X-Region", "eu-west-1"),
            ("DEBUG", "mcp:*"),
            ("DATABASE_URL", "postgres://u:${PASSWORD}@h/"),
            ("PATH", "/usr/local/bin"),
            ("X-Tenant", ""),
            ("CONN", "Server=h;User ID=u;Password=${PASSWORD}"),
            ("PASSES", "3"),
            ("PWD", "/srv"),
        ] {
            assert!(!is_secret(name, value), "{name}: {value}");
        }
    }

    #[test]
    fn tells_secret_arguments_from_versions_and_names() {
        let secret_in = |line: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            secret_argument(&args)
        };
        let id = "786512e2-9e0d-4c61-a1b2-5f0e12345678";
        let commit = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567";
        let hash = "0a1b2c3d4e5f60718293a4b5c6d7e8f9";
        for line in [
            format!("run lab/image@sha256:{hash}{hash}"),
            format!("git+https://github.com/lab/server@{commit}"),
            format!("--rev {commit} --tenant={id} --project {id}"),
            "--model claude-sonnet-4-5-20250929 --data /srv/customer-12345-data-2026-11".to_owned(),
            format!("/nix/store/{hash}-python3-3.11.9/bin/python3"),
            format!("github:a/b#{commit} https://a.example/archive/{commit}.tar.gz"),
            "--model qwen3-coder-480b-a35b-instruct --max-tokens 4096 --auth none".to_owned(),
            "--key-file k.pem --sort-key name --author ada --tokenizer x --monkey=1".to_owned(),
            "--token ${TOKEN} --key $KEY".to_owned(),
        ] {
            assert_eq!(secret_in(&line), None, "{line}");
        }
        for line in [
            format!("run {id}"),
            format!("run --token={id}"),
            "run abcdefgh1jklmn0pqrs9".to_owned(),
            "run sk-ant-name-12".to_owned(),
            "run ABCD1-EF2GH-I3JKL-4MNO5-PQ6RS".to_owned(),
            "run Authorization:hunter2".to_owned(),
            "run Server=h;Password=hunter2".to_owned(),
            "run PGPASSWORD=hunter2".to_owned(),
            "run --password=Pa$word".to_owned(),
            "run --password=hunter2${X}".to_owned(),
            "run --x=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".to_owned(),
            "run --url=https://ada:hunter2@a.example/".to_owned(),
        ] {
            assert_eq!(secret_in(&line), Some(2), "{line}");
        }
        assert_eq!(secret_in(&format!("-k {hash}{hash}")), Some(2));
        for flag in [
            "--token",
            "--bearer",
            "--api-key",
            "--key",
            "--githubToken",
            "--openaiKey",
            "--license-key",
            "--clientSecret",
        ] {
            assert_eq!(secret_in(&format!("run {flag} hunter2")), Some(3), "{flag}");
        }
    }
}
