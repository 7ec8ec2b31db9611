//! One sign-in with the authorization code flow: the page to open, the browser's redirect to localhost, and the exchange of
//! the code for tokens.
//!
//! Invariants: a callback without our `state` is ignored; the issuer is checked before the code or any text of the callback
//! is used; the code is used once, with a verifier that only this process knows.
//!
//! Sources: RFC 6749, section 4.1; RFC 7636; RFC 8252, section 7.3; RFC 9207.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use url::Url;

use super::{
    AuthError, excerpt, host,
    logins::{Login, Logins, OwnClient},
    metadata::{AuthServer, discover},
    random_text, registration,
    token_manager::Now,
    tokens::{self, Grant, TokenError},
};
use crate::{
    auth::{logins::login_key, registration::SignInOptions},
    domain::base64_url,
    protocol::merge_scopes,
    transport::Fetcher,
};

/// How long the user has to sign in.
pub(super) const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The path of the redirect URI.
const CALLBACK: &str = "/callback";

/// Concurrent connections; browsers open some that they never use.
const MAX_CONNECTIONS: usize = 32;

/// How long a browser may take to send its request, and to read our page.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

const MAX_REQUEST_BYTES: usize = 32 * 1024;

/// The page for a request that is not the expected callback.
const UNEXPECTED: &str = "This is not the response that longhaul is waiting for.";

/// How long to wait after a failed accept, for example when the process has run out of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Parameters that we add to the authorization URL. It must not contain them already: a repeated parameter is ambiguous
/// (RFC 6749, section 3.1).
const OUR_PARAMETERS: [&str; 8] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "code_challenge",
    "code_challenge_method",
    "state",
    "resource",
    "scope",
];

/// How long an issuer may take to say whether it knows a client; the person waits.
const CLIENT_CHECK_WITHIN: Duration = Duration::from_secs(3);

/// A sign-in that waits for the browser.
pub struct PendingSignIn {
    /// The page to open.
    pub page: Url,
    /// The host of that page, for the user to check first.
    pub host: String,
    /// Other hosts that take part, such as a different token endpoint; safe to display.
    pub other_parties: Vec<String>,
    /// A message for the user, such as that a damaged login file was renamed.
    pub notice: Option<String>,
    key: String,
    scope: Option<String>,
    auth_server: AuthServer,
    client: OwnClient,
    redirect_uri: String,
    state: String,
    verifier: SecretString,
    listener: TcpListener,
    fetcher: Arc<Fetcher>,
    logins: Logins,
    now: Now,
}

/// Discovers how to sign in to the MCP endpoint `server`, and starts to listen on localhost for the browser.
///
/// # Errors
/// Any [`AuthError`] except [`AuthError::TimedOut`].
pub async fn begin(
    server: &Url,
    options: &SignInOptions,
    logins: Logins,
    fetcher: Arc<Fetcher>,
    now: Now,
) -> Result<PendingSignIn, AuthError> {
    let key = login_key(server);
    let (previous, notice) = {
        let lock = logins.lock().await?;
        logins.prefetch_read_key().await;
        let (login_file, notice) = logins.read_locked(&lock)?;
        (login_file.logins.get(&key).cloned(), notice)
    };
    let auth_server = discover(&fetcher, server).await?;
    let mut query = auth_server.authorization_endpoint.query_pairs();
    if let Some((name, _)) = query.find(|(name, _)| OUR_PARAMETERS.contains(&&**name)) {
        return Err(AuthError::Untrusted(format!(
            "the authorization URL of {} already contains the parameter {name}, which only longhaul may set; nothing was \
             sent there",
            excerpt(&auth_server.issuer)
        )));
    }
    if let Some(login) = &previous
        && login.issuer != auth_server.issuer
        && options.client_secret.is_some()
    {
        return Err(AuthError::Refused(format!(
            "the authorization server of {} has changed from {} to {}, so the client secret was not sent. If this change is \
             expected, run `longhaul logout` first",
            host(server),
            excerpt(&login.issuer),
            excerpt(&auth_server.issuer)
        )));
    }
    let previous = previous.filter(|login| login.issuer == auth_server.issuer);
    let endpoint = &auth_server.token_endpoint;
    let reusable = reusable_client(previous.as_ref(), options, &fetcher, endpoint).await;
    let (listener, client, redirect_uri) = if let Some(reusable) = reusable {
        reusable
    } else {
        let (listener, redirect_uri) = listen(0).await?;
        let client =
            registration::choose_client(&fetcher, &auth_server, options, &redirect_uri).await?;
        (listener, client, redirect_uri)
    };
    let scope = scope_of(&auth_server, previous.as_ref());
    let (state, verifier) = (random_text()?, SecretString::from(random_text()?));
    let challenge = base64_url(digest(&SHA256, verifier.expose_secret().as_bytes()).as_ref());
    let mut page = auth_server.authorization_endpoint.clone();
    page.set_fragment(None);
    page.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.id)
        .append_pair("redirect_uri", &redirect_uri)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("state", &state)
        .append_pair("resource", &auth_server.resource)
        .extend_pairs(scope.as_ref().map(|scope| ("scope", scope)));
    Ok(PendingSignIn {
        host: host(&page),
        other_parties: other_parties(&auth_server.issuer, &page, &auth_server.token_endpoint),
        page,
        notice,
        key,
        scope,
        auth_server,
        client,
        redirect_uri,
        state,
        verifier,
        listener,
        fetcher,
        logins,
        now,
    })
}

impl PendingSignIn {
    /// Waits for the user to approve in the browser, then gets the tokens and saves them.
    ///
    /// # Errors
    /// [`AuthError::TimedOut`], [`AuthError::Denied`], [`AuthError::Untrusted`], [`AuthError::Unreachable`],
    /// [`AuthError::Unavailable`], and [`AuthError::Store`] if the tokens can't be saved.
    pub async fn finish(self) -> Result<Login, AuthError> {
        let expected = ExpectedCallback {
            state: &self.state,
            issuer: &self.auth_server.issuer,
            sends_iss: self.auth_server.sends_iss,
        };
        let code = tokio::time::timeout(
            SIGN_IN_TIMEOUT,
            wait_for_callback(&self.listener, &expected),
        )
        .await
        .map_err(|_| AuthError::TimedOut)??;
        let grant = Grant::Code {
            code: &code,
            verifier: &self.verifier,
            redirect_uri: &self.redirect_uri,
        };
        let tokens = tokens::request_tokens(
            &self.fetcher,
            &self.auth_server.token_endpoint,
            &self.client,
            &self.auth_server.resource,
            grant,
            (self.now)(),
        )
        .await
        .map_err(|error| match error {
            TokenError::Unreachable(why) => AuthError::Unreachable {
                host: host(&self.auth_server.token_endpoint),
                why,
            },
            TokenError::Transient(why) => AuthError::Unavailable(format!(
                "{} did not issue a token ({why})",
                excerpt(&self.auth_server.issuer)
            )),
            TokenError::Denied(why) | TokenError::Revoked(why) => AuthError::Denied(format!(
                "{} did not issue a token ({why}); sign in again",
                excerpt(&self.auth_server.issuer)
            )),
        })?;
        let login = Login {
            signed_in_at: (self.now)(),
            issuer: self.auth_server.issuer,
            resource: self.auth_server.resource,
            token_endpoint: self.auth_server.token_endpoint,
            revocation_endpoint: self.auth_server.revocation_endpoint,
            client: self.client,
            access: Some(tokens.access),
            refresh: tokens.refresh,
            refresh_at: tokens.refresh_at,
            expires_at: tokens.expires_at,
            // Without a scope in the response, what was requested is granted (RFC 6749, section 5.1).
            scope: tokens.scope.or(self.scope),
            wanted_scope: None,
        };
        let lock = self.logins.lock().await?;
        self.logins.prefetch_read_key().await;
        self.logins.prefetch_write_key().await;
        let (mut login_file, _) = self.logins.read_locked(&lock)?;
        login_file.logins.insert(self.key, login.clone());
        self.logins.write(&lock, &login_file)?;
        Ok(login)
    }
}

/// The issuer and the token endpoint, if their origin differs from that of `page`.
fn other_parties(issuer: &str, page: &Url, token_endpoint: &Url) -> Vec<String> {
    let mut other_parties = Vec::new();
    if !Url::parse(issuer).is_ok_and(|issuer| issuer.origin() == page.origin()) {
        other_parties.push(format!("for {}", excerpt(issuer)));
    }
    if token_endpoint.origin() != page.origin() {
        other_parties.push(format!("with tokens from {}", host(token_endpoint)));
    }
    other_parties
}

/// The client of the previous sign-in, if longhaul registered it, the port of its redirect URI is free, and the issuer
/// still knows it: one that was reinstalled does not.
async fn reusable_client(
    previous: Option<&Login>,
    options: &SignInOptions,
    fetcher: &Fetcher,
    token_endpoint: &Url,
) -> Option<(TcpListener, OwnClient, String)> {
    if options.client_id.is_some() || options.client_metadata_url.is_some() {
        return None;
    }
    // An issuer that rejected the grant may have forgotten the client too.
    let previous = previous.filter(|login| login.access.is_some())?;
    let client = previous.client.clone();
    let registered = Url::parse(client.registered_for.as_deref()?).ok()?;
    let (listener, redirect_uri) = listen(registered.port()?).await.ok()?;
    let asking = tokens::knows_client(fetcher, token_endpoint, &client, &redirect_uri);
    let answer = tokio::time::timeout(CLIENT_CHECK_WITHIN, asking).await;
    answer
        .unwrap_or(true)
        .then_some((listener, client, redirect_uri))
}

/// Listens on localhost; `port` 0 picks a free one. Also returns the redirect URI.
async fn listen(port: u16) -> Result<(TcpListener, String), AuthError> {
    let failed = |error: std::io::Error| {
        AuthError::Refused(format!(
            "could not listen on 127.0.0.1 for the browser: {error}"
        ))
    };
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await
        .map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, format!("http://{address}{CALLBACK}")))
}

/// The scopes to request: what the server asks for now, plus what it had or wanted before, so that a new token never has
/// fewer.
fn scope_of(auth_server: &AuthServer, previous: Option<&Login>) -> Option<String> {
    let mut scope = auth_server.scope.clone().unwrap_or_default();
    if let Some(wanted) = previous.and_then(|login| login.wanted_scope.as_deref()) {
        let had = previous.and_then(|login| login.scope.as_deref());
        scope = merge_scopes(&scope, &merge_scopes(had.unwrap_or_default(), wanted));
    }
    if auth_server.supports_offline_access && !scope.is_empty() {
        // Some issuers give a refresh token only with this scope.
        scope = merge_scopes(&scope, "offline_access");
    }
    (!scope.is_empty()).then_some(scope)
}

/// What a genuine callback must contain.
struct ExpectedCallback<'e> {
    state: &'e str,
    issuer: &'e str,
    sends_iss: bool,
}

/// What a request to the redirect URI is.
enum Callback {
    /// Not the callback, or a forged one; keep waiting. Holds the text of the page to answer with.
    Unrelated(&'static str),
    /// The callback: the code, or why there is none.
    Outcome(Result<SecretString, AuthError>),
}

/// Waits for the callback; any other request gets an error page.
async fn wait_for_callback(
    listener: &TcpListener,
    expected: &ExpectedCallback<'_>,
) -> Result<SecretString, AuthError> {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                match accepted {
                    Ok((stream, _)) => connections.push(handle_connection(stream, expected)),
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await, // sleep: out of file descriptors
                }
            }
            Some(outcome) = connections.next() => {
                if let Some(outcome) = outcome {
                    return outcome;
                }
            }
        }
    }
}

/// Reads one request and responds with a page; `Some` if it was the callback.
async fn handle_connection(
    mut stream: TcpStream,
    expected: &ExpectedCallback<'_>,
) -> Option<Result<SecretString, AuthError>> {
    let head = tokio::time::timeout(REQUEST_TIMEOUT, read_head(&mut stream));
    let head = head.await.ok()??;
    let (status, message, outcome) = match parse_callback(&head, expected) {
        Callback::Unrelated(message) => ("400 Bad Request", message, None),
        Callback::Outcome(Ok(code)) => (
            "200 OK",
            "Return to the terminal to see whether the sign-in succeeded. You can close this page.",
            Some(Ok(code)),
        ),
        Callback::Outcome(Err(error)) => (
            "400 Bad Request",
            "Not signed in. See the terminal for the reason. You can close this page.",
            Some(Err(error)),
        ),
    };
    let page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>longhaul</title><p>{message}</p></html>"
    );
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n",
        page.len()
    );
    let response = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(page.as_bytes()).await?;
        stream.shutdown().await
    };
    // If the browser does not read the page, the terminal still shows the outcome.
    let _ = tokio::time::timeout(REQUEST_TIMEOUT, response).await;
    outcome
}

/// Reads one request up to the end of its head; `None` if it is too large or cut off.
async fn read_head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 2048];
        let count = stream.read(&mut part).await.ok()?;
        head.extend_from_slice(part.get(..count)?);
        if count == 0 || head.len() > MAX_REQUEST_BYTES {
            return None;
        }
    }
    Some(head)
}

fn parse_callback(head: &[u8], expected: &ExpectedCallback<'_>) -> Callback {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut parts = line.split(' ');
    let (method, target) = (parts.next(), parts.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if method != Some("GET") || path != CALLBACK {
        return Callback::Unrelated("Not found.");
    }
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        // A repeated parameter is ambiguous (RFC 6749, section 3.1).
        if fields
            .insert(name.into_owned(), value.into_owned())
            .is_some()
        {
            return Callback::Unrelated(UNEXPECTED);
        }
    }
    if fields.get("state").map(String::as_str) != Some(expected.state) {
        return Callback::Unrelated(UNEXPECTED);
    }
    let untrusted = |what: &str| {
        Callback::Outcome(Err(AuthError::Untrusted(format!(
            "the response in the browser {what} {}; its code was not used",
            excerpt(expected.issuer)
        ))))
    };
    match fields.get("iss") {
        Some(issuer) if issuer != expected.issuer => {
            return untrusted("came from another authorization server, not");
        }
        None if expected.sends_iss => {
            return untrusted("does not name its issuer, unlike a genuine one from");
        }
        _ => {}
    }
    if let Some(error) = fields.get("error") {
        let description = fields.get("error_description").map_or("", String::as_str);
        let reason = if description.is_empty() {
            error
        } else {
            description
        };
        return Callback::Outcome(Err(AuthError::Denied(format!(
            "{} denied the sign-in ({})",
            excerpt(expected.issuer),
            excerpt(reason)
        ))));
    }
    match fields.remove("code") {
        Some(code) if !code.is_empty() => Callback::Outcome(Ok(code.into())),
        _ => Callback::Unrelated(UNEXPECTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome_of(target: &str, sends_iss: bool) -> String {
        let expected = ExpectedCallback {
            state: "s",
            issuer: "https://a",
            sends_iss,
        };
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        match parse_callback(head.as_bytes(), &expected) {
            Callback::Unrelated(_) => "unrelated".to_owned(),
            Callback::Outcome(Ok(code)) => code.expose_secret().to_owned(),
            Callback::Outcome(Err(error)) => error.to_string(),
        }
    }

    #[test]
    fn accepts_only_a_callback_with_our_state_and_issuer() {
        for (target, sends_iss, expected) in [
            ("/callback?code=c&state=s", false, "c"),
            ("/callback?code=c&state=s&iss=https%3A%2F%2Fa", true, "c"),
            ("/callback?code=c&state=t", false, "unrelated"),
            ("/callback?code=c", false, "unrelated"),
            ("/callback?code=c&state=s&state=s", false, "unrelated"),
            ("/callback?code=c&code=d&state=s", false, "unrelated"),
            ("/callback?state=s", false, "unrelated"),
            ("/favicon.ico?code=c&state=s", false, "unrelated"),
            ("/callback?error=access_denied", false, "unrelated"),
        ] {
            assert_eq!(outcome_of(target, sends_iss), expected, "{target}");
        }
        let message = outcome_of(
            "/callback?error=access_denied&error_description=a%1B[2J&state=s",
            false,
        );
        assert!(
            message.contains("denied the sign-in") && !message.contains('\u{1b}'),
            "{message}"
        );
        // The exact issuer string is checked before anything else in the callback.
        for iss in ["https%3A%2F%2Fa%2F", "https%3A%2F%2FA", "x"] {
            let target = format!("/callback?code=c&error=canary&state=s&iss={iss}");
            let message = outcome_of(&target, false);
            assert!(
                message.contains("another authorization server"),
                "{message}"
            );
            assert!(!message.contains("canary"), "{message}");
        }
        let message = outcome_of("/callback?code=c&state=s", true);
        assert!(message.contains("does not name its issuer"), "{message}");
    }

    #[test]
    fn names_other_hosts_that_take_part() {
        let url = |text: &str| Url::parse(text).unwrap();
        for (issuer, tokens, expected) in [
            ("https://a/tenant", "https://a/token", ""),
            ("https://a:443", "https://a/token", ""),
            ("https://a.evil", "https://a/token", "for https://a.evil"),
            ("https://e/a", "https://a/token", "for https://e/a"),
            ("http://a", "https://a/token", "for http://a"),
            ("https://a", "https://e:1/a", "with tokens from e:1"),
            (
                "https://e",
                "https://e/a",
                "for https://e, with tokens from e",
            ),
        ] {
            let other_parties = other_parties(issuer, &url("https://a/page"), &url(tokens));
            assert_eq!(other_parties.join(", "), expected, "{issuer}");
        }
    }

    #[test]
    fn any_request_bytes_are_handled() {
        proptest::proptest!(|(head in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80))| {
            let expected = ExpectedCallback { state: "s", issuer: "i", sends_iss: true };
            let _ = parse_callback(&head, &expected);
        });
    }
}
