//! Server URLs: what may be shown of them, and whether they point to this machine.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr},
};

use url::{Host, Url};

/// The scheme of stdio servers, whose URL is only an identifier.
const PROCESS: &str = "stdio:";

/// The URL for display, without query and fragment, which may contain a key.
pub fn redacted(url: &str) -> Cow<'_, str> {
    match url.split_once(['?', '#']) {
        Some((base, _)) => Cow::Owned(format!("{base}?…")),
        None => Cow::Borrowed(url),
    }
}

/// The URL of a stdio server. It contains only the name; the command is in the config file.
pub fn for_process(name: &str) -> String {
    format!("{PROCESS}{name}")
}

/// Whether this is the URL of a stdio server.
pub fn is_process(url: &str) -> bool {
    url.starts_with(PROCESS)
}

/// Whether the host is this machine: proxies don't apply, and nobody else can read the traffic.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => {
            IpAddr::V6(address).to_canonical().is_loopback()
                || address
                    .to_ipv4_mapped()
                    .is_some_and(|mapped: Ipv4Addr| mapped.is_loopback())
        }
        None => false,
    }
}

/// Whether others on the network can read the traffic: plain http to another machine. Secrets need consent.
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
