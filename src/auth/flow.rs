//! One sign-in: the page to open, the browser's way back to this machine, and the code for tokens.
//!
//! Invariants: an answer without our state changes nothing; issuer before code and before any text of the answer; the
//! code is used once, with the verifier that only this process knows.
//!
//! Sources: RFC 6749, section 4.1; RFC 7636; RFC 8252, section 7.3; RFC 9207.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ring::digest::{SHA256, digest};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use url::Url;

use super::{
    AuthError, host,
    logins::{Login, Logins, OwnClient},
    metadata::{Found, discover},
    random, registration, said,
    token_manager::Now,
    tokens::{self, Grant, NoTokens, Tokens},
};
use crate::{domain::base64_url, protocol::merge_scopes, transport::Fetcher};

/// How long a person has at the page.
pub(super) const WITHIN: Duration = Duration::from_secs(15 * 60);
/// The page that the browser comes back to.
const CALLBACK: &str = "/callback";
/// Connections of browsers at a time; they open some that they never use.
const CONNECTIONS: usize = 32;
/// How long the request of one of them may take, and our page back, and how much it may send.
const REQUEST_WITHIN: Duration = Duration::from_secs(3);
const REQUEST_BYTES: usize = 32 * 1024;

/// The system may refuse a connection for a while, as when it has no files left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// What we say to an authorization endpoint; said twice, it could be read in two ways (RFC 6749, section 3.1).
const OURS: [&str; 8] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "code_challenge",
    "code_challenge_method",
    "state",
    "resource",
    "scope",
];

/// How somebody wants to sign in.
#[derive(Clone, Debug, Default)]
pub struct SignInOptions {
    /// An id that is registered by hand.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<SecretString>,
    /// Where a document about this client is.
    pub client_metadata_url: Option<String>,
}

/// A sign-in that waits for a browser.
pub struct Begun {
    /// The page to open.
    pub page: Url,
    /// The host of that page, for the person to look at before.
    pub host: String,
    /// Who else has a part in it, where that is not who has the page; fit to be shown.
    pub beside: Vec<String>,
    /// What a person should hear of, as that a damaged file was set aside.
    pub remark: Option<String>,
    key: String,
    scope: Option<String>,
    found: Found,
    client: OwnClient,
    redirect_uri: String,
    state: String,
    verifier: SecretString,
    listener: TcpListener,
    fetcher: Arc<Fetcher>,
    logins: Logins,
    now: Now,
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

/// Finds out where and how to sign in at the MCP endpoint `server`, and waits on this machine for the browser's answer.
///
/// # Errors
/// Every [`AuthError`] but [`AuthError::Late`].
pub async fn begin(
    server: &Url,
    wish: &SignInOptions,
    logins: Logins,
    fetcher: Arc<Fetcher>,
    now: Now,
) -> Result<Begun, AuthError> {
    let key = key_of(server);
    let (before, remark) = {
        let held = logins.hold().await?;
        logins.key_to_read().await;
        let (book, remark) = logins.read_held(&held)?;
        (book.logins.get(&key).cloned(), remark)
    };
    let found = discover(&fetcher, server).await?;
    let mut own_query = found.authorization_endpoint.query_pairs();
    if let Some((name, _)) = own_query.find(|(name, _)| OURS.contains(&&**name)) {
        return Err(AuthError::Distrusted(format!(
            "the authorization endpoint of {} has a {name} of its own, which is for longhaul to say; nothing was sent to it",
            said(&found.issuer)
        )));
    }
    if let Some(login) = &before
        && login.issuer != found.issuer
        && wish.client_secret.is_some()
    {
        return Err(AuthError::Usage(format!(
            "the last sign-in at {} was by {}, and now it names {} as its authorization server; the client secret was not \
             sent there. If that is right, `longhaul logout` first lets the new one in",
            host(server),
            said(&login.issuer),
            said(&found.issuer)
        )));
    }
    let before = before.filter(|login| login.issuer == found.issuer);
    let own = own_client(before.as_ref(), wish).await;
    let (listener, client, redirect_uri) = if let Some(own) = own {
        own
    } else {
        let (listener, redirect_uri) = listen(0).await?;
        let client = registration::client(&fetcher, &found, wish, &redirect_uri).await?;
        (listener, client, redirect_uri)
    };
    let scope = scope_of(&found, before.as_ref());
    let (state, verifier) = (random()?, SecretString::from(random()?));
    let challenge = base64_url(digest(&SHA256, verifier.expose_secret().as_bytes()).as_ref());
    let mut page = found.authorization_endpoint.clone();
    page.set_fragment(None);
    page.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &client.id)
        .append_pair("redirect_uri", &redirect_uri)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("state", &state)
        .append_pair("resource", &found.resource)
        .extend_pairs(scope.as_ref().map(|scope| ("scope", scope)));
    Ok(Begun {
        host: host(&page),
        beside: beside(&found.issuer, &page, &found.token_endpoint),
        page,
        remark,
        key,
        scope,
        found,
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

impl Begun {
    /// Waits until the person has agreed in the browser, gets the tokens and keeps them.
    ///
    /// # Errors
    /// [`AuthError::Late`], [`AuthError::Denied`], [`AuthError::Distrusted`], [`AuthError::Unreachable`], and
    /// [`AuthError::Store`] if the tokens cannot be kept.
    pub async fn finish(self) -> Result<Login, AuthError> {
        let expected = Expected {
            state: &self.state,
            issuer: &self.found.issuer,
            names_itself: self.found.names_itself,
        };
        let code = tokio::time::timeout(WITHIN, answer(&self.listener, &expected))
            .await
            .map_err(|_| AuthError::Late)??;
        let grant = Grant::Code {
            code: &code,
            verifier: &self.verifier,
            redirect_uri: &self.redirect_uri,
        };
        let tokens = tokens::ask(
            &self.fetcher,
            &self.found.token_endpoint,
            &self.client,
            &self.found.resource,
            grant,
            (self.now)(),
        )
        .await
        .map_err(|error| match error {
            NoTokens::Later(why) => AuthError::Unreachable {
                who: host(&self.found.token_endpoint),
                why,
            },
            NoTokens::No(why) | NoTokens::Never(why) => AuthError::Denied(format!(
                "{} gave no token ({why}); sign in again",
                said(&self.found.issuer)
            )),
        })?;
        let Tokens {
            access,
            refresh,
            refresh_at,
            expires_at,
            scope,
        } = tokens;
        let login = Login {
            signed_in_at: (self.now)(),
            issuer: self.found.issuer,
            resource: self.found.resource,
            token_endpoint: self.found.token_endpoint,
            revocation_endpoint: self.found.revocation_endpoint,
            client: self.client,
            access: Some(access),
            refresh,
            refresh_at,
            expires_at,
            // What was granted; where nothing is said, what was asked for (RFC 6749, section 5.1).
            scope: scope.or(self.scope),
            wanted_scope: None,
        };
        let held = self.logins.hold().await?;
        self.logins.key_to_read().await;
        self.logins.key_to_write().await;
        let (mut book, _) = self.logins.read_held(&held)?;
        book.logins.insert(self.key, login.clone());
        self.logins.write(&held, &book)?;
        Ok(login)
    }
}

/// Who has a part in a sign-in at `page` without being of its origin.
fn beside(issuer: &str, page: &Url, token_endpoint: &Url) -> Vec<String> {
    let mut beside = Vec::new();
    if !Url::parse(issuer).is_ok_and(|issuer| issuer.origin() == page.origin()) {
        beside.push(format!("for {}", said(issuer)));
    }
    if token_endpoint.origin() != page.origin() {
        beside.push(format!("with tokens from {}", host(token_endpoint)));
    }
    beside
}

/// What a login of the MCP endpoint `server` is filed under.
pub(super) fn key_of(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    url.to_string()
}

/// The registration of the last sign-in there, if it is ours and its address on this machine is free.
async fn own_client(
    before: Option<&Login>,
    wish: &SignInOptions,
) -> Option<(TcpListener, OwnClient, String)> {
    if wish.client_id.is_some() || wish.client_metadata_url.is_some() {
        return None;
    }
    // Where the issuer took nothing of it any more, it may not know that client either.
    let before = before.filter(|login| login.access.is_some())?;
    let client = before.client.clone();
    let registered = Url::parse(client.registered_for.as_deref()?).ok()?;
    let (listener, redirect_uri) = listen(registered.port()?).await.ok()?;
    Some((listener, client, redirect_uri))
}

/// Listens on this machine, and says what a browser calls that place.
async fn listen(port: u16) -> Result<(TcpListener, String), AuthError> {
    let failed = |error: std::io::Error| {
        AuthError::Machine(format!(
            "could not listen on 127.0.0.1 for the browser's answer: {error}"
        ))
    };
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await
        .map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, format!("http://{address}{CALLBACK}")))
}

/// What the server asks for now, with what it had or wanted before, so that a new token never reaches less far.
fn scope_of(found: &Found, before: Option<&Login>) -> Option<String> {
    let mut scope = found.scope.clone().unwrap_or_default();
    if let Some(wanted) = before.and_then(|login| login.wanted_scope.as_deref()) {
        let had = before.and_then(|login| login.scope.as_deref());
        scope = merge_scopes(&scope, &merge_scopes(had.unwrap_or_default(), wanted));
    }
    if found.gives_offline_access && !scope.is_empty() {
        // Without it some issuers give nothing to get the next token with.
        scope = merge_scopes(&scope, "offline_access");
    }
    (!scope.is_empty()).then_some(scope)
}

/// What the one true answer looks like.
struct Expected<'e> {
    state: &'e str,
    issuer: &'e str,
    names_itself: bool,
}

/// What a request to this machine means.
enum Verdict {
    /// Somebody else, or a guess: the sign-in goes on.
    Strange(&'static str),
    /// The answer.
    Answer(Result<SecretString, AuthError>),
}

/// Waits for the answer; every other request gets a page that says so.
async fn answer(
    listener: &TcpListener,
    expected: &Expected<'_>,
) -> Result<SecretString, AuthError> {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS => {
                match accepted {
                    Ok((stream, _)) => connections.push(serve(stream, expected)),
                    Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await, // sleep: it fails for want of file handles
                }
            }
            Some(served) = connections.next() => {
                if let Some(answer) = served {
                    return answer;
                }
            }
        }
    }
}

/// Reads one request and answers it with a page; `Some` if it is the answer.
async fn serve(
    mut stream: TcpStream,
    expected: &Expected<'_>,
) -> Option<Result<SecretString, AuthError>> {
    let head = tokio::time::timeout(REQUEST_WITHIN, head_of(&mut stream));
    let head = head.await.ok()??;
    let (status, words, answer) = match judge(&head, expected) {
        Verdict::Strange(words) => ("400 Bad Request", words, None),
        Verdict::Answer(Ok(code)) => (
            "200 OK",
            "Signed in. You may close this page and go back to the terminal.",
            Some(Ok(code)),
        ),
        Verdict::Answer(Err(error)) => (
            "400 Bad Request",
            "Not signed in. The terminal says why; you may close this page.",
            Some(Err(error)),
        ),
    };
    let page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>longhaul</title><p>{words}</p></html>"
    );
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
         Connection: close\r\n\r\n",
        page.len()
    );
    let shown = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(page.as_bytes()).await?;
        stream.shutdown().await
    };
    // A browser that is gone or reads nothing has its answer in the terminal.
    let _ = tokio::time::timeout(REQUEST_WITHIN, shown).await;
    answer
}

/// Reads one request up to the end of its head.
async fn head_of(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 2048];
        let count = stream.read(&mut part).await.ok()?;
        head.extend_from_slice(part.get(..count)?);
        if count == 0 || head.len() > REQUEST_BYTES {
            return None;
        }
    }
    Some(head)
}

fn judge(head: &[u8], expected: &Expected<'_>) -> Verdict {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if method != Some("GET") || path != CALLBACK {
        return Verdict::Strange("There is nothing here.");
    }
    let mut fields: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        // Said twice, it could be read in two ways (RFC 6749, section 3.1).
        if fields
            .insert(name.into_owned(), value.into_owned())
            .is_some()
        {
            return Verdict::Strange("This is not the answer that longhaul waits for.");
        }
    }
    if fields.get("state").map(String::as_str) != Some(expected.state) {
        return Verdict::Strange("This is not the answer that longhaul waits for.");
    }
    let distrusted = |what: &str| {
        Verdict::Answer(Err(AuthError::Distrusted(format!(
            "the answer in the browser {what} {}; its code was not used",
            said(expected.issuer)
        ))))
    };
    match fields.get("iss") {
        Some(issuer) if issuer != expected.issuer => {
            return distrusted("came from another authorization server than");
        }
        None if expected.names_itself => {
            return distrusted(
                "does not say where it comes from, which it always does if it is from",
            );
        }
        _ => {}
    }
    if let Some(error) = fields.get("error") {
        let words = fields.get("error_description").map_or("", String::as_str);
        let words = if words.is_empty() { error } else { words };
        return Verdict::Answer(Err(AuthError::Denied(format!(
            "{} did not agree ({})",
            said(expected.issuer),
            said(words)
        ))));
    }
    match fields.remove("code") {
        Some(code) if !code.is_empty() => Verdict::Answer(Ok(code.into())),
        _ => Verdict::Strange("This is not the answer that longhaul waits for."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(target: &str, names_itself: bool) -> String {
        let expected = Expected {
            state: "s",
            issuer: "https://a",
            names_itself,
        };
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        match judge(head.as_bytes(), &expected) {
            Verdict::Strange(_) => "strange".to_owned(),
            Verdict::Answer(Ok(code)) => code.expose_secret().to_owned(),
            Verdict::Answer(Err(error)) => error.to_string(),
        }
    }

    #[test]
    fn only_the_answer_with_our_state_and_from_our_issuer_counts() {
        for (target, names_itself, expected) in [
            ("/callback?code=c&state=s", false, "c"),
            ("/callback?code=c&state=s&iss=https%3A%2F%2Fa", true, "c"),
            ("/callback?code=c&state=t", false, "strange"),
            ("/callback?code=c", false, "strange"),
            ("/callback?code=c&state=s&state=s", false, "strange"),
            ("/callback?code=c&code=d&state=s", false, "strange"),
            ("/callback?state=s", false, "strange"),
            ("/favicon.ico?code=c&state=s", false, "strange"),
            ("/callback?error=access_denied", false, "strange"),
        ] {
            assert_eq!(judged(target, names_itself), expected, "{target}");
        }
        let words = judged(
            "/callback?error=access_denied&error_description=a%1B[2J&state=s",
            false,
        );
        assert!(
            words.contains("did not agree") && !words.contains('\u{1b}'),
            "{words}"
        );
        // Letter for letter, and before anything else that the answer says.
        for iss in ["https%3A%2F%2Fa%2F", "https%3A%2F%2FA", "x"] {
            let target = format!("/callback?code=c&error=canary&state=s&iss={iss}");
            let words = judged(&target, false);
            assert!(words.contains("another authorization server"), "{words}");
            assert!(!words.contains("canary"), "{words}");
        }
        let words = judged("/callback?code=c&state=s", true);
        assert!(words.contains("does not say where"), "{words}");
    }

    #[test]
    fn whoever_has_a_part_without_having_the_page_is_named() {
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
            let beside = beside(issuer, &url("https://a/page"), &url(tokens));
            assert_eq!(beside.join(", "), expected, "{issuer}");
        }
    }

    #[test]
    fn whatever_comes_from_a_browser_is_no_reason_to_fall_over() {
        proptest::proptest!(|(head in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80))| {
            let expected = Expected { state: "s", issuer: "i", names_itself: true };
            let _ = judge(&head, &expected);
        });
    }
}
