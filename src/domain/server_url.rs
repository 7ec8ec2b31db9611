//! Server URLs: what may be shown of them, and whether they point to this machine.

use std::{borrow::Cow, net::IpAddr};

use url::{Host, Url};

/// The scheme of stdio servers, whose URL is only an identifier.
const PROCESS: &str = "stdio:";

/// Why a text is not the URL of a server. Completes "invalid server URL: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another machine, and only the user knows whether it takes https.
    #[error("the URL has no scheme; use https://{0} (or http://, which others can read)")]
    NoScheme(String),
    /// `${NAME}`, which is replaced only in headers.
    #[error("the URL contains a variable; use variables only in headers")]
    Variable,
    /// Neither http nor https.
    #[error("the URL must begin with http:// or https://")]
    Scheme,
    /// Credentials in a URL would end up on the screen and in files.
    #[error("the URL contains a password; send it in a header instead, with -H or --bearer-env")]
    Password,
    /// Not a URL.
    #[error(transparent)]
    Syntax(#[from] url::ParseError),
}

/// The URL for display, without query and fragment, which may contain a key.
pub fn redacted(url: &str) -> Cow<'_, str> {
    match url.split_once(['?', '#']) {
        Some((base, _)) if !is_process(url) => Cow::Owned(format!("{base}?…")),
        _ => Cow::Borrowed(url),
    }
}

/// The URL of a stdio server. It contains only the name; the command is in the config file.
pub fn for_process(name: &str) -> String {
    format!("{PROCESS}{name}")
}

/// The URL of a stdio server that runs in a directory because a host does: its entry's name, and the directory.
pub fn for_process_in(name: &str, directory: &str) -> String {
    format!("{PROCESS}{name}#{directory}")
}

/// The entry and the directory in the URL of a stdio server that [`for_process_in`] made.
pub fn process_in(url: &str) -> Option<(&str, &str)> {
    let (name, _) = url.strip_prefix(PROCESS)?.split_once("#/")?;
    let directory = url.get(PROCESS.len() + name.len() + 1..)?;
    Some((name, directory))
}

/// Whether this is the URL of a stdio server.
pub fn is_process(url: &str) -> bool {
    url.starts_with(PROCESS)
}

/// Completes a URL without a scheme, e.g. `localhost:8931/mcp`; `None` if the text is something else. Only a loopback host
/// gets http by default; for others the scheme must be typed.
fn with_scheme(text: &str) -> Option<Result<String, UrlError>> {
    let (authority, _) = text.split_once('/')?;
    if authority.is_empty() || text.contains("://") {
        return None;
    }
    let http = format!("http://{text}");
    let url = Url::parse(&http).ok().filter(Url::has_host)?;
    Some(if is_loopback(&url) {
        Ok(http)
    } else {
        Err(UrlError::NoScheme(text.to_owned()))
    })
}

/// Whether the user typed a URL, valid or not, rather than a name.
pub fn is_url(typed: &str) -> bool {
    typed.contains("://") || with_scheme(typed).is_some()
}

/// Parses a server URL as typed. See [`UrlError`].
pub fn parse(text: &str) -> Result<Url, UrlError> {
    if text.contains("${") {
        return Err(UrlError::Variable);
    }
    let text = match with_scheme(text) {
        Some(completed) => completed?,
        None => text.to_owned(),
    };
    let url = Url::parse(&text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => UrlError::Scheme,
        error => UrlError::Syntax(error),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlError::Scheme);
    }
    if has_userinfo(&url) {
        return Err(UrlError::Password);
    }
    Ok(url)
}

/// Whether it contains a user name or a password.
pub fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// The name of a server that the user gave only by URL: its host and port.
pub fn short_name(url: &Url) -> String {
    let host = url.host_str().unwrap_or("server");
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether two URLs are the same, however they are written.
pub fn is_same(one: &str, other: &str) -> bool {
    one == other || Url::parse(one).is_ok_and(|one| Url::parse(other) == Ok(one))
}

/// Whether two URLs have the same scheme, host and port.
pub fn is_same_origin(one: &str, other: &str) -> bool {
    let origin = |url| Url::parse(url).ok().map(|url| url.origin());
    origin(one) == origin(other)
}

/// Scheme, host and port of a URL; its path and query may contain a key.
pub fn origin(url: &str) -> Option<String> {
    Some(Url::parse(url).ok()?.origin().ascii_serialization())
}

/// Whether the host is this machine: proxies don't apply, and nobody else can read the traffic.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).to_canonical().is_loopback(),
        None => false,
    }
}

/// Whether others on the network can read the traffic: plain http to another machine. Secrets need `--insecure-http`.
pub fn is_cleartext(url: &Url) -> bool {
    url.scheme() == "http" && !is_loopback(url)
}

/// Whether the host is an unspecified address (`0.0.0.0`, `[::]`), which some systems treat as localhost.
pub fn is_unspecified(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_unspecified(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).to_canonical().is_unspecified(),
        Some(Host::Domain(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_server_after_its_host_and_port() {
        for (typed, expected) in [
            ("http://127.0.0.1:8931/mcp", Ok("127.0.0.1:8931")),
            ("https://lab.example/mcp", Ok("lab.example")),
            ("localhost:1/mcp", Ok("localhost:1")),
            ("https://user:hunter2@host/mcp", Err(UrlError::Password)),
            ("host/mcp", Err(UrlError::NoScheme("host/mcp".to_owned()))),
            ("npx", Err(UrlError::Scheme)),
        ] {
            let name = parse(typed).map(|url| short_name(&url));
            assert_eq!(name, expected.map(str::to_owned), "{typed}");
        }
    }

    #[test]
    fn redacts_query_and_fragment() {
        for (url, expected) in [
            ("http://h/mcp", "http://h/mcp"),
            ("http://h/mcp?key=hunter2", "http://h/mcp?…"),
            ("http://h/mcp#hunter2?hunter2", "http://h/mcp?…"),
        ] {
            assert_eq!(redacted(url), expected);
        }
    }

    #[test]
    fn recognizes_every_form_of_localhost() {
        for (url, expected) in [
            ("http://localhost:1/", true),
            ("http://LOCALHOST./", true),
            ("http://a.localhost/", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn only_http_to_other_machines_is_cleartext() {
        for (url, expected) in [
            ("http://lab.example/mcp", true),
            ("http://10.0.0.1/", true),
            ("http://127.0.0.1:1/", false),
            ("https://lab.example/mcp", false),
            ("stdio:lab", false),
        ] {
            assert_eq!(is_cleartext(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn recognizes_unspecified_addresses() {
        for (url, is_it) in [
            ("https://0.0.0.0:1/x", true),
            ("https://[::]/", true),
            ("https://[::ffff:0.0.0.0]/", true),
            ("https://127.0.0.1/", false),
            ("https://lab.example/", false),
        ] {
            assert_eq!(is_unspecified(&Url::parse(url).unwrap()), is_it, "{url}");
        }
    }
}
