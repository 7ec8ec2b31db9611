//! Where a server is: what of its address may be seen, and whether that is this machine.

use std::{
    borrow::Cow,
    net::{IpAddr, Ipv4Addr},
};

use url::{Host, Url};

/// What the address of a server begins with that is spoken to over pipes.
const PROCESS: &str = "stdio:";

/// The address of a server for people: what follows a `?` or `#` may be a key, and is not shown.
pub fn redacted(url: &str) -> Cow<'_, str> {
    match url.split_once(['?', '#']) {
        Some((place, _)) => Cow::Owned(format!("{place}?…")),
        None => Cow::Borrowed(url),
    }
}

/// The address of a server that is a process of ours, by its name; where its program is, the configuration alone says.
pub fn for_process(name: &str) -> String {
    format!("{PROCESS}{name}")
}

/// Whether this is the address of a server that is a process of ours.
pub fn is_process(url: &str) -> bool {
    url.starts_with(PROCESS)
}

/// Whether the host is this machine: no proxy stands before it, and nobody reads what goes there.
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

/// Whether what goes there can be read on the way: plain http to another machine. No secret goes there without a word.
pub fn is_cleartext(url: &Url) -> bool {
    url.scheme() == "http" && !is_loopback(url)
}

/// Whether it is the address of no machine (`0.0.0.0`, `[::]`), by which some systems reach themselves.
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
    fn what_may_be_a_key_is_not_shown() {
        for (url, expected) in [
            ("http://h/mcp", "http://h/mcp"),
            ("http://h/mcp?key=hunter2", "http://h/mcp?…"),
            ("http://h/mcp#hunter2?hunter2", "http://h/mcp?…"),
        ] {
            assert_eq!(redacted(url), expected);
        }
    }

    #[test]
    fn this_machine_is_known_by_all_its_names() {
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
    fn only_plain_http_to_another_machine_is_in_the_clear() {
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
    fn the_address_of_no_machine_is_known() {
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
