//! Sign-in: finds a server's authorization server, gets tokens through the browser, stores and refreshes them.
//!
//! Owns OAuth 2.1 as required by MCP 2026-07-28, basic/authorization (RFC 6749, 7009, 7636, 8414, 8707, 9207, 9728), and
//! the login file. Must not know about MCP messages, tasks or screens, and opens no browser. Invariants: a token is sent
//! only to the server that it was issued for and to its issuer; issuer and resource are compared as exact strings; no
//! secret appears in debug output, an error or a log.
//!
//! Why not rmcp's `auth`: it accepts a server whose metadata does not mention PKCE, logs the authorization code, parses and
//! rebuilds issuers, and has no lock on its tokens that a second process would see. With discovery, checks and storage done
//! here, only one URL and three form posts would remain for it or for the `oauth2` crate, which adds dependencies for time,
//! random numbers and digests.

mod flow;
mod keychain;
mod logins;
mod metadata;
mod registration;
mod sealing;
mod token_manager;
mod tokens;

use url::Url;

pub use self::registration::SignInOptions;
use crate::{
    domain::{base64_url, server_url, server_url::short_name as host, text},
    store::StoreError,
    transport::FetchError,
};
pub use flow::{PendingSignIn, begin};
pub use keychain::{Keychain, KeychainError};
pub use logins::{ClientAuth, Login, LoginFile, Logins, OwnClient};
pub use token_manager::{NoticeSink, Now, TokenManager};
pub use tokens::revoke;

/// Why a sign-in failed. The message says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// No response; a retry may succeed.
    #[error("could not reach {host} ({why}); check the server and the URL")]
    Unreachable {
        /// The host, with its port if that is not the default.
        host: String,
        /// The network error.
        why: String,
    },
    /// The authorization server answered that it can't help now; a retry may succeed.
    #[error("{0}; try again later")]
    Unavailable(String),
    /// The sign-in can't begin: the server needs none, the user's options are wrong, or this system provides no random
    /// numbers or no local port.
    #[error("{0}")]
    Refused(String),
    /// The server's metadata or responses are wrong or insufficient, so the sign-in was not attempted or not completed.
    #[error("{0}")]
    Untrusted(String),
    /// The authorization server, or the user there, denied the request.
    #[error("{0}")]
    Denied(String),
    /// The browser did not come back in time.
    #[error(
        "no sign-in within {}; run the command again when you're ready",
        text::duration(flow::SIGN_IN_TIMEOUT)
    )]
    TimedOut,
    /// The login file can't be read, written or locked.
    #[error("could not {0}")]
    Store(#[from] StoreError),
    /// The login file is incomplete or has another format.
    #[error("{} is damaged ({why})", path.display())]
    Damaged {
        /// The login file.
        path: std::path::PathBuf,
        /// The position of the error, without any of the text.
        why: String,
    },
    /// The login file can't be used for another reason, such as a locked keychain.
    #[error("{0}")]
    LoginFile(String),
}

impl AuthError {
    fn from_fetch(url: &Url, error: FetchError) -> Self {
        let host = host(url);
        match error {
            FetchError::Transient(why) => Self::Unreachable { host, why },
            FetchError::Permanent(why) => Self::Untrusted(format!("{host}: {why}")),
        }
    }
}

/// The start of a server's text on one line, with control characters replaced.
fn excerpt(server_text: &str) -> String {
    let line = text::clean_line(server_text).into_owned();
    text::truncate(line.trim(), 200).into_owned()
}

/// Parses a URL that a server sent. It must be https, or on localhost if the server is too; `what` names it in the error.
fn check_url(what: &str, given: &str, server: &Url) -> Result<Url, AuthError> {
    let rejected = |why: &str| {
        AuthError::Untrusted(format!(
            "can't use the {what} that {} names ({}): {why}",
            host(server),
            excerpt(given)
        ))
    };
    let url = Url::parse(given).map_err(|_| rejected("it is not a valid URL"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(rejected("it contains a user name"));
    }
    if server_url::is_unspecified(&url) {
        return Err(rejected("it is not the address of a host"));
    }
    match (
        url.scheme(),
        server_url::is_loopback(&url),
        server_url::is_loopback(server),
    ) {
        ("http" | "https", true, true) | ("https", false, _) => Ok(url),
        ("http" | "https", true, false) => Err(rejected("it points to this machine")),
        ("http", ..) => Err(rejected("anyone on the network path can read plain http")),
        _ => Err(rejected("it is neither http nor https")),
    }
}

/// 256 random bits in URL-safe base64.
fn random_text() -> Result<String, AuthError> {
    Ok(base64_url(&random_bytes::<32>()?))
}

/// Random bytes from the operating system.
fn random_bytes<const COUNT: usize>() -> Result<[u8; COUNT], AuthError> {
    let mut bytes = [0; COUNT];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| {
            AuthError::Refused("the system could not provide random numbers".to_owned())
        })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use super::*;

    /// A token endpoint on localhost; its responses depend on the number of the request, from 1.
    pub(super) struct FakeIssuer {
        pub(super) url: Url,
        request_count: Arc<AtomicUsize>,
    }

    impl FakeIssuer {
        pub(super) fn new(respond: impl Fn(usize) -> (u16, String) + Send + 'static) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/token", listener.local_addr().unwrap());
            let request_count = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&request_count);
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                    let (mut request, mut part) = (String::new(), [0; 4096]);
                    while !request.contains("grant_type=") && !request.contains("token_type_hint=")
                    {
                        let length = stream.read(&mut part).unwrap();
                        assert_ne!(length, 0, "{request}");
                        request.push_str(&String::from_utf8_lossy(&part[..length]));
                    }
                    let (status, body) = respond(number);
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                    );
                    stream.write_all((head + &body).as_bytes()).unwrap();
                }
            });
            Self {
                url: Url::parse(&url).unwrap(),
                request_count,
            }
        }

        pub(super) fn request_count(&self) -> usize {
            self.request_count.load(Ordering::SeqCst)
        }
    }

    /// A login with tokens from `issuer` that have no known expiry.
    pub(super) fn login_at(issuer: &Url) -> Login {
        let secret = |text: &str| Some(logins::Secret(text.to_owned().into()));
        Login {
            signed_in_at: crate::domain::Wall(1),
            issuer: issuer.to_string(),
            resource: "https://h/mcp".to_owned(),
            token_endpoint: issuer.clone(),
            revocation_endpoint: Some(issuer.clone()),
            client: OwnClient {
                id: "mine".to_owned(),
                secret: secret("canary-secret/z+9="),
                auth: ClientAuth::ClientSecretPost,
                registered_for: None,
            },
            access: secret("canary-access/x+7="),
            refresh: secret("canary-refresh/q+2="),
            refresh_at: None,
            expires_at: None,
            scope: None,
            wanted_scope: None,
        }
    }

    #[test]
    fn rejects_server_urls_to_localhost_and_over_plain_http() {
        let near = Url::parse("http://127.0.0.1:1/mcp").unwrap();
        let far = Url::parse("https://h/mcp").unwrap();
        for (given, from_near, from_far) in [
            ("https://a/x", true, true),
            ("http://localhost:2/x", true, false),
            ("https://127.0.0.1/x", true, false),
            ("http://a/x", false, false),
            ("https://ann:pw@a/x", false, false),
            ("javascript:alert(1)", false, false),
            ("file:///etc/passwd", false, false),
            ("/x", false, false),
        ] {
            assert_eq!(
                check_url("address", given, &near).is_ok(),
                from_near,
                "{given}"
            );
            assert_eq!(
                check_url("address", given, &far).is_ok(),
                from_far,
                "{given}"
            );
        }
    }
}
