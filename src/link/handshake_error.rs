//! Why the negotiation with a server failed, and how it refuses requests.

use core::time::Duration;

use crate::{
    domain::{ServerName, server_url, text},
    protocol::HttpError,
};

/// Why the negotiation failed. The reason in words is for people only.
#[derive(Clone, Debug)]
pub(super) enum HandshakeError {
    /// No answer came.
    NoAnswer { why: String },
    /// The answer has a status other than 2xx, or is a JSON-RPC error.
    Http { refusal: HttpError, why: String },
    /// The answer is not one of an MCP server.
    NotMcp { why: String },
    /// The server redirects its clients to another one.
    LeadsElsewhere { why: String },
    /// There is no revision that both sides speak, or none that is allowed here.
    Incompatible { why: String },
}

impl HandshakeError {
    /// The failure of a request that may have got a status.
    pub(super) fn of_request(why: String, refusal: Option<&HttpError>) -> Self {
        match refusal {
            Some(refusal) => Self::Http {
                refusal: refusal.clone(),
                why,
            },
            None => Self::NoAnswer { why },
        }
    }

    /// A status that needs no further explanation.
    pub(super) fn of_status(refusal: &HttpError) -> Self {
        Self::of_request(format!("HTTP {}", refusal.status), Some(refusal))
    }

    pub(super) fn why(&self) -> &str {
        let (Self::NoAnswer { why }
        | Self::Http { why, .. }
        | Self::NotMcp { why }
        | Self::LeadsElsewhere { why }
        | Self::Incompatible { why }) = self;
        why
    }

    /// Whether the server may just be down or overloaded.
    pub(super) fn is_unreachable(&self) -> bool {
        match self {
            Self::NoAnswer { .. } => true,
            Self::Http { refusal, .. } => refusal.status >= 500 || refusal.status == 429,
            _ => false,
        }
    }

    /// Whether an MCP server said so, and not what answers in its place: a reverse proxy without its server, or the login
    /// page of a network.
    pub(super) fn is_by_server(&self) -> bool {
        match self {
            Self::Incompatible { .. } => true,
            Self::Http { refusal, .. } => refusal.error.is_some(),
            Self::NoAnswer { .. } | Self::NotMcp { .. } | Self::LeadsElsewhere { .. } => false,
        }
    }

    /// The HTTP status, if it is an error.
    pub(super) fn code(&self) -> Option<i64> {
        match self {
            Self::Http { refusal, .. } if refusal.status >= 400 => Some(refusal.status.into()),
            _ => None,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Http { refusal, .. } => refusal.retry_after,
            _ => None,
        }
    }

    pub(super) fn message(&self, name: &ServerName, url: &str) -> String {
        let why = self.why();
        if let (Some(_), true) = (self.code(), self.is_unreachable()) {
            let wait = self.retry_after().map_or(" later".to_owned(), |wait| {
                format!(" in {}, as it requests", text::span(wait))
            });
            return format!("{name} at {url} is not available ({why}); try again{wait}");
        }
        if self.is_unreachable() {
            return out_of_reach(name, url, why);
        }
        let not_mcp = || {
            format!("{name} answered at {url}, but not as an MCP server ({why}); is the URL right?")
        };
        let elsewhere = |place: &str| {
            format!(
                "{name} can't be reached at {url}: {}",
                text::clean_line(place)
            )
        };
        match self {
            Self::NotMcp { .. } => not_mcp(),
            Self::LeadsElsewhere { why } => elsewhere(why),
            Self::Http { refusal, .. } => match refusal.status {
                300..=399 => elsewhere(refusal.server_text.as_deref().unwrap_or(why)),
                200..=299 if refusal.error.is_none() => not_mcp(),
                404 | 405 | 410 => format!(
                    "{name} answered HTTP {} at {url}; check the path (usually /mcp)",
                    refusal.status
                ),
                _ => refused(name, url, why),
            },
            _ => refused(name, url, why),
        }
    }
}

fn refused(name: &ServerName, url: &str, why: &str) -> String {
    if server_url::is_process(url) {
        return format!("{name} refused the MCP handshake ({why})");
    }
    format!("{name} refused the MCP handshake at {url} ({why})")
}

/// The message for a server that can't be reached.
pub(super) fn out_of_reach(name: &ServerName, url: &str, why: &str) -> String {
    if server_url::is_process(url) {
        return format!("could not run {name}: {why}");
    }
    format!("could not reach {name} at {url} ({why}); check the server and the URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(status: u16) -> HandshakeError {
        HandshakeError::of_status(&HttpError {
            status,
            ..HttpError::default()
        })
    }

    #[test]
    fn only_overload_and_silence_count_as_unreachable() {
        for status in [429, 500, 503] {
            assert!(http(status).is_unreachable(), "{status}");
        }
        for status in [200, 301, 400, 404] {
            assert!(!http(status).is_unreachable(), "{status}");
        }
        let why = "timed out".to_owned();
        assert!(HandshakeError::NoAnswer { why }.is_unreachable());
    }

    #[test]
    fn messages_name_the_likely_mistake() {
        let lab = ServerName::new("lab");
        let message = |error: &HandshakeError| error.message(&lab, "http://x/");
        assert!(message(&http(404)).contains("check the path"));
        let why = "its answer is HTML".to_owned();
        assert!(message(&HandshakeError::NotMcp { why }).contains("is the URL right"));
        let why = "no common version".to_owned();
        assert_eq!(
            message(&HandshakeError::Incompatible { why }),
            "lab refused the MCP handshake at http://x/ (no common version)"
        );
    }
}
