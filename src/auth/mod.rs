//! Sign-in: finds a server's authorization server, gets tokens from it by way of a browser, keeps them and their time.
//!
//! Owns OAuth 2.1 as MCP 2026-07-28, basic/authorization, wants it (RFC 6749, 7009, 7636, 8414, 8707, 9207, 9728) and the
//! file of logins. Must not know of MCP messages, tasks or screens, and opens no browser. Invariants: a token goes to the
//! server that it was made for and to its issuer, and nowhere else; issuer and resource are compared as the strings they
//! came as; no secret is in a debug text, an error or a log.
//!
//! This is not rmcp's `auth`: that accepts a server whose metadata is silent on PKCE, writes the authorization code to its
//! log, takes apart and rebuilds issuers, and keeps its tokens behind no lock that a second process would see. With the
//! discovery, the checks and the keeping done here, one URL and three form posts would be left to it or to the `oauth2`
//! crate, which brings further crates for time, dice and digests.

mod flow;
mod keychain;
mod logins;
mod metadata;
mod registration;
mod seal;
mod token_manager;
mod tokens;

pub use flow::{Begun, SignInOptions, begin};
pub use keychain::Keychain;
pub use logins::{ClientAuth, Login, LoginFile, Logins, OwnClient, TokenState};
pub use token_manager::{Notify, Now, TokenManager};
pub use tokens::revoke;

use url::Url;

use crate::{
    domain::{base64_url, server_url, text},
    store::StoreError,
    transport::FetchError,
};

/// Why there is no sign-in, in words that say what to do next.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Nobody answered; it can be tried again.
    #[error("could not reach {who} ({why}); try again")]
    Unreachable {
        /// Host of who was asked.
        who: String,
        /// Why.
        why: String,
    },
    /// The server does not ask for a sign-in.
    #[error("{0}")]
    NotAsked(String),
    /// What a server says of itself does not hold, or is not enough; nothing was sent to its authorization server.
    #[error("{0}")]
    Distrusted(String),
    /// What the user gave is not enough, or wrong.
    #[error("{0}")]
    Usage(String),
    /// The authorization server, or the person at it, said no.
    #[error("{0}")]
    Denied(String),
    /// Nobody came back from the browser in time.
    #[error(
        "nobody signed in within {}; run it again when you are there",
        text::duration(flow::WITHIN)
    )]
    Late,
    /// The file of logins cannot be used.
    #[error("could not {0}")]
    Store(#[from] StoreError),
    /// What stands at its place is no file of logins, or not all of one.
    #[error("{} is damaged ({why})", path.display())]
    Damaged {
        /// Where.
        path: std::path::PathBuf,
        /// Where in it.
        why: String,
    },
    /// The file of logins cannot be used, for a reason of its own.
    #[error("{0}")]
    Logins(String),
    /// The operating system refuses something that every machine has.
    #[error("{0}")]
    Machine(String),
}

impl AuthError {
    fn of_fetch(url: &Url, error: FetchError) -> Self {
        let who = host(url);
        match error {
            FetchError::NoAnswer(why) => Self::Unreachable { who, why },
            FetchError::Refused(why) => Self::Distrusted(format!("{who}: {why}")),
        }
    }
}

/// The host of a URL for people, with its port where that is not the usual one.
fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or("?");
    match url.port() {
        Some(port) => format!("{name}:{port}"),
        None => name.to_owned(),
    }
}

/// The beginning of a server's text, fit to be shown.
fn said(words: &str) -> String {
    let line = text::clean_line(words).into_owned();
    text::truncate(line.trim(), 200).into_owned()
}

/// Reads an address that a server gives: https, or this machine where the server itself is on it.
fn address(what: &str, given: &str, server: &Url) -> Result<Url, AuthError> {
    let no = |why: &str| {
        AuthError::Distrusted(format!(
            "{} gives an {what} that is not used, because {why}: {}",
            host(server),
            said(given)
        ))
    };
    let url = Url::parse(given).map_err(|_| no("it cannot be read"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(no("there is a user name in it"));
    }
    if server_url::is_unspecified(&url) {
        return Err(no("it is the address of no machine"));
    }
    match (
        url.scheme(),
        server_url::is_loopback(&url),
        server_url::is_loopback(server),
    ) {
        ("http" | "https", true, true) | ("https", false, _) => Ok(url),
        ("http" | "https", true, false) => Err(no("it leads into this machine")),
        ("http", ..) => Err(no("what goes over plain http can be read on the way")),
        _ => Err(no("it is neither http nor https")),
    }
}

/// 256 random bits of the operating system as letters for a URL.
fn random() -> Result<String, AuthError> {
    Ok(base64_url(&random_bytes::<32>()?))
}

/// Random bytes of the operating system.
fn random_bytes<const COUNT: usize>() -> Result<[u8; COUNT], AuthError> {
    let mut bytes = [0; COUNT];
    rustls::crypto::ring::default_provider()
        .secure_random
        .fill(&mut bytes)
        .map_err(|_| AuthError::Machine("the system gives no random numbers".to_owned()))?;
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

    /// A token endpoint on this machine, which answers each request by its number, from 1.
    pub(super) struct Issuer {
        pub(super) url: Url,
        asked: Arc<AtomicUsize>,
    }

    impl Issuer {
        pub(super) fn new(answer: impl Fn(usize) -> (u16, String) + Send + 'static) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/token", listener.local_addr().unwrap());
            let asked = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&asked);
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
                    let (status, body) = answer(number);
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                    );
                    stream.write_all((head + &body).as_bytes()).unwrap();
                }
            });
            Self {
                url: Url::parse(&url).unwrap(),
                asked,
            }
        }

        pub(super) fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    /// A login with tokens of no told end from `issuer`.
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
    fn an_address_of_a_server_leads_neither_into_this_machine_nor_over_plain_http() {
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
                address("address", given, &near).is_ok(),
                from_near,
                "{given}"
            );
            assert_eq!(address("address", given, &far).is_ok(), from_far, "{given}");
        }
    }
}
