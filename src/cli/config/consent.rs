//! What a person agreed to when variables of theirs may go to a server that somebody else's file named.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::domain::Template;

/// The digest of where the variables go and in what: another host, header or variable makes it another one.
pub(in crate::cli) fn digest(url: &str, headers: &[(String, Template)]) -> String {
    let mut sorted: Vec<(String, &str)> = headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
        .collect();
    sorted.sort_unstable();
    let mut hash = Sha256::new();
    let parts = sorted
        .iter()
        .flat_map(|(name, value)| [name.as_str(), value]);
    for part in ["longhaul headers 1", url].into_iter().chain(parts) {
        // With its length, so that no two lists of parts run into the same bytes.
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let mut text = "sha256:".to_owned();
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_host_header_or_variable_is_another_consent() {
        let of = |url: &str, name: &str, value: &str| {
            digest(url, &[(name.to_owned(), Template::parse(value).unwrap())])
        };
        let agreed = of("https://a.example/mcp", "Authorization", "Bearer ${A}");
        assert_eq!(agreed.len(), "sha256:".len() + 64);
        assert_eq!(
            agreed,
            of("https://a.example/mcp", "authorization", "Bearer ${A}")
        );
        for other in [
            of("https://b.example/mcp", "Authorization", "Bearer ${A}"),
            of("https://a.example/mcp", "X", "Bearer ${A}"),
            of("https://a.example/mcp", "Authorization", "Bearer ${B}"),
            of("https://a.example/mcpauthorization", "", "Bearer ${A}"),
        ] {
            assert_ne!(agreed, other);
        }
    }
}
