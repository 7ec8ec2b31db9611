//! One HTTP exchange with an MCP endpoint, through reqwest.
//!
//! Owns headers, redirects, TLS roots and the reading of bodies. Must not know what the messages mean. Invariant: nothing
//! here ends a silent exchange; only the making of a connection and the body of a refusal have a time limit.
//!
//! Source: MCP 2025-11-25, basic/transports.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, future::BoxFuture, stream};
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName,
    HeaderValue, LOCATION, WWW_AUTHENTICATE,
};
use reqwest::{Client, Response, StatusCode, redirect, retry};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::frame::DEFAULT_CAP_BYTES;
use super::messages;
use super::refusal::{self, media_type, text_of};
use super::secrets::{Gate, Secrets};
use super::sse::Sse;
use super::tap::{DroppedExchange, Tapped, TrafficRecorder};
use crate::domain::{ByteShare, SharedByteCount, TaskId, server_url::is_loopback, text};
use crate::protocol::{Body, Challenge, ExchangeEvent, HttpError, Method, Request};

/// The only limit on reaching a server: name, connection, TLS and a proxy's tunnel together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps the address translators on the way from forgetting a silent stream.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A dead network is noticed after about five minutes; our own clock is faster where a stream can be resumed, and where it
/// cannot, a network that comes back within them has cost nothing.
const KEEPALIVE_PROBES: u32 = 8;

/// How much of a refusal's body is read, in bytes.
const REFUSAL_CAP_BYTES: usize = 64 * 1024;

/// How long a refusal's body is waited for; the status alone says most.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes that all exchanges together hold of events that have not come to their end, sixteen of the largest; the one that
/// would hold more is cut, and asked for again where it can be.
const UNREAD_BYTES: usize = 16 * DEFAULT_CAP_BYTES;

/// An event that is no larger than this is never cut for others.
const SMALL_BYTES: usize = 1 << 20;

/// How many redirects one exchange follows.
const REDIRECTS: usize = 3;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Headers that a user cannot set: the exchange itself depends on them.
const OUR_HEADERS: [&str; 12] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
    "upgrade",
];

/// Why an endpoint cannot be spoken to at all; nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The URL cannot be read.
    #[error("the URL cannot be read ({why}); a good one looks like http://127.0.0.1:8931/mcp")]
    BadUrl {
        /// What is wrong with it.
        why: String,
    },
    /// The URL has another scheme, or none.
    #[error(
        "the URL does not begin with http:// or https://; a good one looks like http://127.0.0.1:8931/mcp"
    )]
    NotHttp,
    /// The URL holds a user name or a password.
    #[error(
        "the URL holds a user name or password, which would be saved and shown; leave it out and use -H or --bearer-env"
    )]
    Userinfo,
    /// A header cannot be sent.
    #[error("the header {name} cannot be sent: {why}")]
    BadHeader {
        /// Its name, or a stand-in if that is what is wrong.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// How to reach one MCP endpoint.
pub struct HttpOptions {
    /// The endpoint, `http://` or `https://`.
    pub url: String,
    /// Headers of the user, sent with every request to this origin and never elsewhere.
    pub headers: Vec<(String, SecretString)>,
    /// A token for `Authorization: Bearer`; an `Authorization` among the headers wins over it.
    pub bearer: Option<SecretString>,
    /// Where the token of a sign-in comes from; asked only while neither of the above is there.
    pub sign_in: Option<Arc<dyn SignIn>>,
    /// The cap on one event or one JSON body, in bytes.
    pub cap_bytes: usize,
    /// Certificates that are trusted beside those of this machine.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// What is held of events that have not come to their end; a process shares one among all its servers.
    pub unread: SharedByteCount,
    /// What the server must not make us show; the headers and tokens above, and what comes by itself, are added.
    pub secrets: Secrets,
    /// Where what goes over the wire is told.
    pub tap: Option<TrafficRecorder>,
}

/// Who knows the token of a server's sign-in.
pub trait SignIn: Send + Sync {
    /// The token to send with the next request, refreshed before if its time is nearly over; `None` before a sign-in.
    /// `Err` says in words why nothing can be sent.
    fn token(&self) -> BoxFuture<'_, Result<Option<SecretString>, String>>;

    /// What else belongs to the sign-in and is shown to its issuer alone.
    fn private(&self) -> Vec<SecretString> {
        Vec::new()
    }

    /// The server refused a request for its credentials. Another token is sent with the same request, once; `Err` may
    /// have words for whoever reads of the refusal.
    fn refused<'s>(
        &'s self,
        sent: Option<&'s SecretString>,
        status: StatusCode,
        challenge: Option<Challenge>,
    ) -> BoxFuture<'s, Result<SecretString, Option<String>>>;
}

impl HttpOptions {
    /// The usual way to reach `url`: no headers, no token, a cap of [`DEFAULT_CAP_BYTES`].
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            bearer: None,
            sign_in: None,
            cap_bytes: DEFAULT_CAP_BYTES,
            extra_roots: Vec::new(),
            unread: SharedByteCount::default(),
            secrets: Secrets::default(),
            tap: None,
        }
    }
}

/// Speaks with one MCP endpoint; cheap to clone.
#[derive(Clone)]
pub struct Http {
    inner: Arc<Inner>,
}

// By hand: headers and the URL's query are secrets.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("origin", &self.inner.url.origin().ascii_serialization())
            .finish_non_exhaustive()
    }
}

impl Http {
    /// Checks the options; nothing is connected, loaded or built yet.
    ///
    /// # Errors
    /// [`TransportError`] says what cannot be sent and what a good value looks like.
    pub fn new(options: HttpOptions) -> Result<Self, TransportError> {
        let url = check_url(&options.url)?;
        let headers = check_headers(&options)?;
        let secrets = options.secrets;
        for (name, value) in &options.headers {
            secrets.add(name, value);
        }
        if let Some(bearer) = &options.bearer {
            secrets.add(AUTHORIZATION.as_str(), bearer);
        }
        secrets.add_url(&url);
        Ok(Self {
            inner: Arc::new(Inner {
                url,
                sign_in: options
                    .sign_in
                    .filter(|_| !headers.contains_key(AUTHORIZATION)),
                headers,
                cap_bytes: options.cap_bytes,
                extra_roots: options.extra_roots,
                unread: options.unread,
                secrets,
                tap: options.tap,
                client: Mutex::new(None),
            }),
        })
    }

    /// Begins an exchange: the request is sent when the stream is first polled, and dropping the stream drops the
    /// connection.
    ///
    /// The arrivals come in the order that [`ExchangeEvent`] promises, every event as an item of its own. Needs a tokio runtime
    /// with time and IO.
    pub fn exchange(&self, request: Request) -> Exchange {
        self.exchange_for(None, request)
    }

    /// As [`Self::exchange`]; the tap tells of it as this task's.
    pub fn exchange_for(&self, task: Option<TaskId>, request: Request) -> Exchange {
        let inner = Arc::clone(&self.inner);
        let tap = inner.tap.as_ref();
        let tapped = tap.map(|tap| tap.exchange(task, &inner.secrets));
        let watched = tapped.clone().map(DroppedExchange::new);
        Exchange {
            stage: Stage::Opening(Box::pin(async move {
                let mut more = 0;
                let opening = inner.open(request, tapped, &mut more).await;
                (opening, more)
            })),
            watched,
        }
    }
}

/// Installs the TLS provider (rustls on ring) for this process; may be called any number of times.
pub fn ensure_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Another provider that somebody installed before serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

struct Inner {
    url: Url,
    headers: HeaderMap,
    sign_in: Option<Arc<dyn SignIn>>,
    cap_bytes: usize,
    extra_roots: Vec<CertificateDer<'static>>,
    unread: SharedByteCount,
    secrets: Secrets,
    tap: Option<TrafficRecorder>,
    /// Built on first use: reading the machine's certificates takes longer than the first frame on the screen may.
    client: Mutex<Option<Ready>>,
}

/// A client, and whether it has certificates to trust.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) client: Client,
    pub(super) has_roots: bool,
}

impl Inner {
    /// Sends a request and follows where it is redirected to; `more` counts the requests beyond the first.
    async fn open(&self, request: Request, tapped: Option<Tapped>, more: &mut u32) -> Opening {
        if let Some(session) = &request.session {
            self.secrets.add_session(session);
        }
        let mut token = match self.token().await {
            Ok(token) => token,
            Err(why) => return Opening::Over(unsent(self.secrets.mask(&why))),
        };
        if let Some(refused) = self.missing_secret(&request) {
            return Opening::Over(refused);
        }
        let mut url = match &request.target {
            None => self.url.clone(),
            Some(target) => match same_origin(&self.url, target.as_bytes()) {
                Ok(url) => url,
                Err(why) => {
                    let why = format!("its endpoint {why}");
                    return Opening::Over(unsent(self.secrets.mask(&why)));
                }
            },
        };
        let (method, mut headers, body) = match self.parts(request) {
            Ok(parts) => parts,
            Err(why) => return Opening::Over(unsent(why)),
        };
        let Ready { client, has_roots } = match self.client() {
            Ok(ready) => ready,
            Err(why) => return Opening::Over(unsent(why)),
        };
        // Told as it was decided, sent as the server knows it.
        let told = body;
        let body = told.as_deref();
        let body = body.map(|body| Bytes::from(self.secrets.restore_json(body).into_owned()));
        let mut redirects = 0;
        let mut has_asked_again = false;
        loop {
            if let Some(token) = &token {
                let Some(value) = bearer(token) else {
                    return Opening::Over(unsent("the token of its sign-in fits into no header"));
                };
                headers.insert(AUTHORIZATION, value);
                self.secrets.add_token(token);
            }
            if let Some(tapped) = &tapped {
                tapped.request(&method, &url, &headers, told.as_deref());
            }
            let mut sending = client
                .request(method.clone(), url.clone())
                .headers(headers.clone());
            if let Some(body) = &body {
                sending = sending.body(body.clone());
            }
            let response = match sending.send().await {
                Ok(response) => response,
                Err(error) => {
                    let host = self.url.host_str().unwrap_or_default();
                    return Opening::Over(messages::before_head(&error, host, has_roots));
                }
            };
            let status = response.status();
            if let Some(session) = text_of(response.headers(), SESSION_ID) {
                self.secrets.add_session(session);
            }
            if let Some(tapped) = &tapped {
                tapped.answer(status, response.headers());
            }
            if status.is_success() {
                return self.opened(response, url, tapped);
            }
            if let Some(location) = response
                .headers()
                .get(LOCATION)
                .filter(|_| status.is_redirection())
            {
                match next_url(status, &url, location, redirects) {
                    Ok(next) => {
                        redirects += 1;
                        *more += 1;
                        url = next;
                        continue;
                    }
                    Err(said) => {
                        return Opening::Over(ExchangeEvent::Refused(Box::new(HttpError {
                            status: status.as_u16(),
                            retry_after: None,
                            error: None,
                            server_text: Some(self.secrets.mask(&said).into_owned()),
                        })));
                    }
                }
            }
            let is_of_credentials =
                matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            let challenge = is_of_credentials.then(|| {
                let mut challenge = challenge_of(response.headers())?;
                let scope = challenge.scope.as_deref();
                challenge.scope = scope.map(|scope| self.secrets.mask(scope).into_owned());
                Some(challenge)
            });
            let mut refusal = refused(response, self.secrets.gate(), tapped.as_ref()).await;
            if let (Some(sign_in), Some(challenge)) = (&self.sign_in, challenge) {
                match sign_in.refused(token.as_ref(), status, challenge).await {
                    // Refused for its credentials alone, a request was not acted upon.
                    Ok(other) if !has_asked_again => {
                        has_asked_again = true;
                        *more += 1;
                        token = Some(other);
                        continue;
                    }
                    Ok(_) | Err(None) => {}
                    Err(words) => {
                        refusal.server_text =
                            words.map(|words| self.secrets.mask(&words).into_owned());
                    }
                }
            }
            return Opening::Over(ExchangeEvent::Refused(Box::new(refusal)));
        }
    }

    /// The token of the sign-in, asked for before every request, so that a long wait between two of them never sends a
    /// token that is over.
    async fn token(&self) -> Result<Option<SecretString>, String> {
        let Some(sign_in) = &self.sign_in else {
            return Ok(None);
        };
        let token = sign_in.token().await?;
        for secret in sign_in.private() {
            self.secrets.add_private(&secret);
        }
        if let Some(token) = &token {
            self.secrets.add_token(token);
        }
        Ok(token)
    }

    /// What is heard instead of an answer where the event id to resume from holds a secret that is not known here: the
    /// server would not know the place.
    fn missing_secret(&self, request: &Request) -> Option<ExchangeEvent> {
        let Method::Get { cursor } = &request.method else {
            return None;
        };
        let missing = self.secrets.missing(cursor.as_deref()?)?;
        Some(ExchangeEvent::Refused(Box::new(HttpError {
            status: StatusCode::UNAUTHORIZED.as_u16(),
            retry_after: None,
            error: None,
            server_text: Some(format!(
                "not asked: the id of the last event holds {missing}, which was not given here"
            )),
        })))
    }

    /// Method, headers and body of a request, or why it cannot be sent.
    fn parts(
        &self,
        request: Request,
    ) -> Result<(reqwest::Method, HeaderMap, Option<String>), String> {
        let mut headers = self.headers.clone();
        if let Some(session) = request.session {
            let value = secret(session.as_bytes())
                .ok_or("the server's session id holds bytes that no header may carry")?;
            headers.insert(SESSION_ID, value);
        }
        if let Some(version) = request.version {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.label()));
        }
        // Nothing is unpacked here: a megabyte of packed zeros is a gigabyte, and a stream that somebody on the way packs
        // stands still in his buffer.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let both = HeaderValue::from_static("application/json, text/event-stream");
        Ok(match request.method {
            Method::Post { body, routing } => {
                for (name, value) in routing {
                    let name = HeaderName::from_bytes(name.as_bytes())
                        .map_err(|_| format!("{name} cannot be the name of a header"))?;
                    let value = HeaderValue::from_str(&self.secrets.restore(&value))
                        .map_err(|_| format!("the value of {name} cannot be sent in a header"))?;
                    headers.insert(name, value);
                }
                headers.insert(ACCEPT, both);
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                (reqwest::Method::POST, headers, Some(body))
            }
            Method::Get { cursor } => {
                headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
                // An empty id takes the cursor back, and no header stands for that.
                if let Some(cursor) = cursor.filter(|cursor| !cursor.is_empty()) {
                    let value = secret(self.secrets.restore(&cursor).as_bytes())
                        .ok_or("the event id to go on from holds bytes that no header may carry")?;
                    headers.insert(LAST_EVENT_ID, value);
                }
                (reqwest::Method::GET, headers, None)
            }
            Method::Delete => {
                headers.insert(ACCEPT, both);
                (reqwest::Method::DELETE, headers, None)
            }
        })
    }

    fn client(&self) -> Result<Ready, String> {
        let mut slot = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = slot.as_ref() {
            return Ok(ready.clone());
        }
        let ready = build_client(&self.url, &self.extra_roots)?;
        Ok(slot.insert(ready).clone())
    }

    fn opened(&self, response: Response, url: Url, tapped: Option<Tapped>) -> Opening {
        let headers = response.headers();
        let session = text_of(headers, SESSION_ID)
            .filter(|id| !id.is_empty())
            .map(str::to_owned);
        let length = response.content_length();
        let is_bodiless = matches!(
            response.status(),
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT
        );
        let media = media_type(headers);
        let packed = text_of(headers, CONTENT_ENCODING)
            .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
            .map(|coding| format!("{} data", coding.to_ascii_lowercase()));
        let body = match media.as_deref() {
            _ if is_bodiless => Body::Empty,
            _ if packed.is_some() && length != Some(0) => Body::Other { media: packed },
            Some("text/event-stream") => Body::Stream,
            _ if length == Some(0) => Body::Empty,
            Some("application/json") => Body::Json,
            _ => Body::Other {
                media: media.map(|media| self.secrets.mask(&media).into_owned()),
            },
        };
        let cap = self.cap_bytes;
        let reader = match body {
            Body::Empty => Reader::Empty,
            _ if body != Body::Stream && length.is_some_and(|length| length > cap as u64) => {
                Reader::TooLarge { cap }
            }
            Body::Stream => Reader::Events {
                bytes: Box::pin(response.bytes_stream()),
                sse: Box::new(Sse::new(cap).guarded(self.secrets.gate(), tapped)),
                secrets: self.secrets.clone(),
                url,
                held: self.unread.share(),
            },
            Body::Json | Body::Other { .. } => Reader::Whole {
                bytes: Box::pin(response.bytes_stream()),
                read: Vec::new(),
                seen: 0,
                cap,
                is_kept: body == Body::Json,
                gate: self.secrets.gate(),
                tapped,
                held: self.unread.share(),
            },
        };
        Opening::Body(ExchangeEvent::Opened { body, session }, Box::new(reader))
    }
}

/// A client for servers like the one of `url`, with its certificates and proxies.
pub(super) fn build_client(
    url: &Url,
    extra_roots: &[CertificateDer<'static>],
) -> Result<Ready, String> {
    ensure_provider();
    let mut roots = RootCertStore::empty();
    if url.scheme() == "https" {
        let native = rustls_native_certs::load_native_certs();
        for error in &native.errors {
            tracing::warn!(%error, "some root certificates could not be read");
        }
        roots.add_parsable_certificates(native.certs);
        roots.add_parsable_certificates(extra_roots.iter().cloned());
    }
    let has_roots = !roots.is_empty();
    // Also for http: left to itself, reqwest would look for the machine's certificates and fail without any.
    let tls = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .referer(false)
        .retry(retry::never())
        // A kept connection may die while a request is on its way into it: then nobody knows whether the server has
        // it, and a call ends as `unknown`. A new connection for each request cannot be stale.
        .pool_max_idle_per_host(0)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEPALIVE)
        .tcp_keepalive_interval(KEEPALIVE)
        .tcp_keepalive_retries(KEEPALIVE_PROBES);
    #[cfg(target_os = "linux")]
    {
        // reqwest's own 30 s would end a silent exchange over a short loss of network.
        builder = builder.tcp_user_timeout(None);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    let client = builder.build().map_err(|error| {
        format!(
            "the HTTP client could not be built ({})",
            error.without_url()
        )
    })?;
    Ok(Ready { client, has_roots })
}

/// Where a redirect leads, if it may be followed; else the words for why not.
fn next_url(
    status: StatusCode,
    from: &Url,
    location: &HeaderValue,
    followed: usize,
) -> Result<Url, String> {
    let target =
        same_origin(from, location.as_bytes()).map_err(|why| format!("it {why}; not followed"))?;
    let place = shown(&target);
    if !matches!(
        status,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    ) {
        return Err(format!(
            "it points to {place} by a way that loses the request; not followed"
        ));
    }
    if followed >= REDIRECTS {
        return Err(format!(
            "it points on and on, last to {place}; not followed further"
        ));
    }
    Ok(target)
}

/// An address that a server gives, if it is of the server's own origin: nothing is sent to any other.
pub(super) fn same_origin(from: &Url, text: &[u8]) -> Result<Url, String> {
    let target = std::str::from_utf8(text)
        .ok()
        .and_then(|text| from.join(text).ok());
    let mut target = target.ok_or("points to an address that cannot be read")?;
    let place = shown(&target);
    if target.origin() != from.origin() {
        return Err(format!("points to {place}, which is another origin"));
    }
    if has_userinfo(&target) {
        return Err(format!("points to {place} with a user name"));
    }
    target.set_fragment(None);
    Ok(target)
}

/// Reads what belongs to a response other than 2xx, as far as it comes in time.
async fn refused(response: Response, mut gate: Gate, tapped: Option<&Tapped>) -> HttpError {
    let status = response.status();
    let headers = response.headers().clone();
    let mut bytes = response.bytes_stream();
    let mut body = Vec::new();
    let reading = async {
        while let Some(Ok(chunk)) = bytes.next().await {
            let room = REFUSAL_CAP_BYTES.saturating_sub(body.len());
            body.extend(chunk.iter().take(room));
            if chunk.len() >= room {
                break;
            }
        }
    };
    // Late is no worse than absent: what has come is read.
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, reading).await;
    let body = gate.message(String::from_utf8_lossy(&body).into_owned());
    if let Some(tapped) = tapped.filter(|_| !body.is_empty()) {
        tapped.body(&body);
    }
    refusal::read(status, &headers, body.as_bytes())
}

/// The arrivals of one exchange; see [`Http::exchange`].
pub struct Exchange {
    stage: Stage,
    watched: Option<DroppedExchange>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Opening(_) | Stage::Begun(_) => "opening",
            Stage::Reading(_) => "reading",
            Stage::Over => "over",
        };
        f.debug_tuple("Exchange").field(&stage).finish()
    }
}

enum Stage {
    Opening(Pin<Box<dyn Future<Output = Opened> + Send>>),
    /// It took more than one request, which is told before what came of it.
    Begun(Opening),
    Reading(Box<Reader>),
    Over,
}

enum Opening {
    Over(ExchangeEvent),
    Body(ExchangeEvent, Box<Reader>),
}

/// How an exchange began, and how many requests that took beyond the first.
type Opened = (Opening, u32);

type ByteStream = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// Turns what is left of a response into arrivals.
enum Reader {
    Empty,
    TooLarge {
        cap: usize,
    },
    Events {
        bytes: ByteStream,
        sse: Box<Sse>,
        secrets: Secrets,
        /// Where it comes from.
        url: Url,
        held: ByteShare,
    },
    /// A body that is one event, or that is only read to see it end.
    Whole {
        bytes: ByteStream,
        read: Vec<u8>,
        seen: usize,
        cap: usize,
        is_kept: bool,
        gate: Gate,
        tapped: Option<Tapped>,
        held: ByteShare,
    },
}

impl Reader {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEvent> {
        match self {
            Self::Empty => Poll::Ready(ExchangeEvent::Ended),
            Self::TooLarge { cap } => Poll::Ready(ExchangeEvent::TooLarge { cap: *cap }),
            Self::Events {
                bytes,
                sse,
                secrets,
                url,
                held,
            } => loop {
                match sse.take() {
                    Some(ExchangeEvent::Endpoint { target: Ok(text) }) => {
                        let target = same_origin(url, text.as_bytes());
                        if let Ok(target) = &target {
                            // The session of this transport.
                            secrets.add_url(target);
                        }
                        let target = target.map(String::from).map_err(|why| {
                            let why = format!("its endpoint {why}; nothing is sent there");
                            secrets.mask(&why).into_owned()
                        });
                        return Poll::Ready(ExchangeEvent::Endpoint { target });
                    }
                    Some(arrival) => return Poll::Ready(arrival),
                    None => {}
                }
                if is_too_much(held, sse.held()) {
                    return Poll::Ready(too_much());
                }
                match ready!(bytes.as_mut().poll_next(cx)) {
                    Some(Ok(chunk)) => sse.feed(chunk),
                    Some(Err(error)) => return Poll::Ready(broken(&error)),
                    None => return Poll::Ready(ExchangeEvent::Ended),
                }
            },
            Self::Whole {
                bytes,
                read,
                seen,
                cap,
                is_kept,
                gate,
                tapped,
                held,
            } => loop {
                match ready!(bytes.as_mut().poll_next(cx)) {
                    Some(Ok(chunk)) => {
                        *seen = seen.saturating_add(chunk.len());
                        if *seen > *cap {
                            return Poll::Ready(ExchangeEvent::TooLarge { cap: *cap });
                        }
                        if *is_kept {
                            read.extend_from_slice(&chunk);
                            if is_too_much(held, read.len()) {
                                return Poll::Ready(too_much());
                            }
                        }
                    }
                    Some(Err(error)) => return Poll::Ready(broken(&error)),
                    None if read.is_empty() => return Poll::Ready(ExchangeEvent::Ended),
                    None => {
                        let data = gate.message(into_text(std::mem::take(read)));
                        if let Some(tapped) = tapped {
                            tapped.body(&data);
                        }
                        // What it took is counted until somebody asks for what follows: he may have no room for it yet.
                        *bytes = Box::pin(stream::empty());
                        return Poll::Ready(ExchangeEvent::Event {
                            id: None,
                            retry_ms: None,
                            data,
                        });
                    }
                }
            },
        }
    }
}

impl Exchange {
    fn begun(&mut self, opening: Opening) -> ExchangeEvent {
        let (arrival, next) = match opening {
            Opening::Over(arrival) => (arrival, Stage::Over),
            Opening::Body(arrival, reader) => (arrival, Stage::Reading(reader)),
        };
        let is_last = matches!(next, Stage::Over);
        if let Some(watched) = self.watched.as_mut().filter(|_| is_last) {
            watched.ended_by(&arrival);
        }
        self.stage = next;
        arrival
    }
}

impl Stream for Exchange {
    type Item = ExchangeEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        match &mut self.stage {
            Stage::Opening(opening) => match ready!(opening.as_mut().poll(cx)) {
                (opening, 0) => Poll::Ready(Some(self.begun(opening))),
                (opening, more) => {
                    self.stage = Stage::Begun(opening);
                    Poll::Ready(Some(ExchangeEvent::MoreRequests(more)))
                }
            },
            Stage::Begun(_) => match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Begun(opening) => Poll::Ready(Some(self.begun(opening))),
                _ => Poll::Ready(None),
            },
            Stage::Reading(reader) => {
                let arrival = ready!(reader.poll(cx));
                if matches!(
                    arrival,
                    ExchangeEvent::Ended
                        | ExchangeEvent::Broken { .. }
                        | ExchangeEvent::TooLarge { .. }
                ) {
                    if let Some(watched) = &mut self.watched {
                        watched.ended_by(&arrival);
                    }
                    // The connection goes with the reader, also if the stream itself is kept.
                    self.stage = Stage::Over;
                }
                Poll::Ready(Some(arrival))
            }
            Stage::Over => Poll::Ready(None),
        }
    }
}

fn unsent(why: impl Into<String>) -> ExchangeEvent {
    ExchangeEvent::NotSent {
        why: why.into(),
        is_refused: false,
    }
}

fn broken(error: &reqwest::Error) -> ExchangeEvent {
    ExchangeEvent::Broken {
        why: messages::in_body(error),
    }
}

/// Notes how much an exchange holds, and tells whether that is more than all may hold.
pub(super) fn is_too_much(held: &mut ByteShare, bytes: usize) -> bool {
    held.set(bytes);
    bytes > SMALL_BYTES && held.total().sum() > UNREAD_BYTES
}

pub(super) fn too_much() -> ExchangeEvent {
    ExchangeEvent::Broken {
        why: format!(
            "more than {} of unfinished events came at once",
            text::bytes(UNREAD_BYTES as u64)
        ),
    }
}

/// A JSON body as text, without the byte order mark that some servers put before it.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    let mut text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if text.starts_with('\u{FEFF}') {
        text.remove(0);
    }
    text
}

pub(super) fn secret(bytes: &[u8]) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(bytes).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn check_url(text: &str) -> Result<Url, TransportError> {
    let text = text.trim();
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    if !lower.starts_with("http://") && !lower.starts_with("https://") {
        return Err(TransportError::NotHttp);
    }
    let mut url = Url::parse(text).map_err(|error| TransportError::BadUrl {
        why: error.to_string(),
    })?;
    if has_userinfo(&url) {
        return Err(TransportError::Userinfo);
    }
    url.set_fragment(None);
    Ok(url)
}

fn check_headers(options: &HttpOptions) -> Result<HeaderMap, TransportError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &options.headers {
        let Ok(name) = HeaderName::from_bytes(name.trim().as_bytes()) else {
            // It may be a secret in the wrong place, so it is not repeated.
            return Err(TransportError::BadHeader {
                name: "without a proper name".to_owned(),
                why: "a name has only letters, digits and -, as in -H 'X-Api-Key: ...'",
            });
        };
        if OUR_HEADERS.contains(&name.as_str()) {
            return Err(TransportError::BadHeader {
                name: name.to_string(),
                why: "longhaul sets it itself",
            });
        }
        let value = secret(value.expose_secret().trim().as_bytes());
        let Some(value) = value else {
            return Err(TransportError::BadHeader {
                name: name.to_string(),
                why: "its value holds a line end or another control character",
            });
        };
        headers.append(name, value);
    }
    if let Some(token) = options
        .bearer
        .as_ref()
        .filter(|_| !headers.contains_key(AUTHORIZATION))
    {
        let Some(value) = bearer(token) else {
            return Err(TransportError::BadHeader {
                name: AUTHORIZATION.to_string(),
                why: "the token is empty or holds a control character",
            });
        };
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn bearer(token: &SecretString) -> Option<HeaderValue> {
    // A token that came through a shell or a file often has a line end behind it.
    let token = token.expose_secret().trim();
    secret(format!("Bearer {token}").as_bytes()).filter(|_| !token.is_empty())
}

/// What a server says of the credentials that it wants.
pub(super) fn challenge_of(headers: &HeaderMap) -> Option<Challenge> {
    let values = headers.get_all(WWW_AUTHENTICATE);
    Challenge::parse(values.iter().filter_map(|value| value.to_str().ok()))
}

pub(super) fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// A URL for people: without user name, query and fragment.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // These fail only for URLs that cannot have them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> TransportError {
        Http::new(HttpOptions::new(url)).unwrap_err()
    }

    #[test]
    fn a_bad_url_is_refused_in_words_that_show_a_good_one() {
        for url in ["localhost:8931/mcp", "ftp://h/mcp", "", "/mcp", "http:/"] {
            let error = refused(url);
            assert!(matches!(error, TransportError::NotHttp), "{url}: {error}");
            assert!(error.to_string().contains("http://127.0.0.1:8931/mcp"));
        }
        for url in ["http://", "http://[::1/mcp", "https://h:99999/mcp"] {
            assert!(
                matches!(refused(url), TransportError::BadUrl { .. }),
                "{url}"
            );
        }
    }

    #[test]
    fn a_url_with_a_password_is_refused_without_repeating_it() {
        for url in ["http://ann:hunter2@h/mcp", "https://hunter2@h/mcp"] {
            let error = refused(url);
            assert!(matches!(error, TransportError::Userinfo));
            assert!(!format!("{error} {error:?}").contains("hunter2"));
        }
    }

    fn with_header(name: &str, value: &str) -> Result<Http, TransportError> {
        let mut options = HttpOptions::new("http://h/mcp?key=query-secret");
        options
            .headers
            .push((name.to_owned(), SecretString::from(value)));
        Http::new(options)
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_refused_without_its_value() {
        for (name, value) in [
            ("X-Key", "hunter2\r\nEvil: 1"),
            ("X Key: hunter2", "x"),
            ("", "hunter2"),
            ("Mcp-Session-ID", "hunter2"),
            ("ACCEPT", "hunter2"),
        ] {
            let error = with_header(name, value).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        assert!(with_header("X-Key", " fine ").is_ok());
    }

    #[test]
    fn debug_shows_the_origin_and_no_secret() {
        let text = format!("{:?}", with_header("X-Key", "hunter2").unwrap());
        assert!(text.contains("http://h"));
        assert!(
            !text.contains("hunter2") && !text.contains("query-secret"),
            "{text}"
        );
    }

    #[test]
    fn no_address_of_a_server_brings_a_user_name_along() {
        let from = Url::parse("http://h/mcp").unwrap();
        let why = same_origin(&from, b"http://ann:hunter2@h/mcp").unwrap_err();
        assert!(
            why.contains("with a user name") && !why.contains("hunter2"),
            "{why}"
        );
        assert_eq!(
            same_origin(&from, b"/there#x").unwrap().as_str(),
            "http://h/there"
        );
    }

    #[test]
    fn no_debug_line_of_a_library_shows_a_header_of_the_user() {
        let http = with_header("X-Key", "hunter2").unwrap();
        let mut request = Request {
            target: None,
            method: Method::Get {
                cursor: Some("cursor".into()),
            },
            session: Some("hunter2".to_owned()),
            version: None,
        };
        for _ in 0..2 {
            let (_, headers, _) = http.inner.parts(request.clone()).unwrap();
            assert!(headers.contains_key("x-key") && headers.contains_key(SESSION_ID));
            assert!(!format!("{headers:?}").contains("hunter2"), "{headers:?}");
            request.method = Method::Delete;
        }
    }

    #[test]
    fn a_token_with_a_line_end_behind_it_is_trimmed_and_a_header_wins_over_it() {
        let mut options = HttpOptions::new("http://h/mcp");
        options.bearer = Some(SecretString::from("t0ken\n"));
        assert_eq!(
            check_headers(&options).unwrap()[AUTHORIZATION],
            "Bearer t0ken"
        );
        options
            .headers
            .push(("authorization".to_owned(), SecretString::from("Basic x")));
        assert_eq!(check_headers(&options).unwrap()[AUTHORIZATION], "Basic x");
        options = HttpOptions::new("http://h/mcp");
        options.bearer = Some(SecretString::from(" \n"));
        assert!(check_headers(&options).is_err());
    }

    #[test]
    fn the_client_has_no_time_limit_and_a_proxy_only_beyond_this_machine() {
        for (url, has_proxies) in [("http://127.0.0.1:1/mcp", false), ("http://h/mcp", true)] {
            let http = Http::new(HttpOptions::new(url)).unwrap();
            // It names the limits that it has.
            let text = format!("{:?}", http.inner.client().unwrap().client).to_lowercase();
            assert!(!text.contains("timeout"), "{text}");
            assert_eq!(text.contains("proxies"), has_proxies, "{text}");
        }
    }
}
