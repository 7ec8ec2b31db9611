//! One HTTP exchange with an MCP endpoint, through reqwest.
//!
//! Owns headers, redirects, TLS roots and reading bodies. Must not know what the messages mean. Invariant: nothing here
//! ends a silent exchange; only connecting and reading an error body have a timeout.
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

use super::error_response::{self, media_type, text_of};
use super::error_text;
use super::frame::DEFAULT_CAP_BYTES;
use super::secrets::{Redactor, Secrets};
use super::sse::Sse;
use super::traffic::{DroppedExchange, ExchangeRecorder, TrafficRecorder};
use crate::domain::{ByteShare, SharedByteCount, TaskId, server_url::is_loopback, text};
use crate::protocol::{Body, Challenge, ExchangeEvent, HttpError, Method, Request};

/// Covers DNS, TCP, TLS and a proxy's tunnel together. The only timeout for reaching a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps NAT devices on the path from dropping a silent stream.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// TCP notices a dead network after about five minutes. Resumable streams have a shorter timeout of their own; for the
/// others, a network that recovers within this time costs nothing.
const KEEPALIVE_PROBES: u32 = 8;

/// Bytes of an error response's body that are read.
const ERROR_BODY_CAP_BYTES: usize = 64 * 1024;

/// How long to wait for an error response's body; the status alone says most.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Incomplete events that all exchanges together may buffer: sixteen of the largest. The exchange that would exceed this
/// is cut, and resumed where it can be.
const BUFFERED_BYTES: usize = 16 * DEFAULT_CAP_BYTES;

/// An exchange that buffers no more than this is never cut because of the others.
const SMALL_BYTES: usize = 1 << 20;

/// Redirects that one exchange follows.
const MAX_REDIRECTS: usize = 3;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Headers that users can't set, because the exchange itself depends on them.
const RESERVED_HEADERS: [&str; 12] = [
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

/// Invalid options. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The URL does not parse.
    #[error("invalid URL ({why}); use one such as http://127.0.0.1:8931/mcp")]
    BadUrl {
        /// The parser's message.
        why: String,
    },
    /// The scheme is missing or not HTTP.
    #[error("the URL must start with http:// or https://, such as http://127.0.0.1:8931/mcp")]
    NotHttp,
    /// The URL contains a user name or a password.
    #[error(
        "the URL contains a user name or password, which would be saved and shown; remove it and use -H or --bearer-env"
    )]
    Userinfo,
    /// A header is malformed or reserved.
    #[error("cannot send the header {name}: {why}")]
    BadHeader {
        /// The header's name, or a placeholder if the name itself is invalid.
        name: String,
        /// What is wrong, without the value.
        why: &'static str,
    },
}

/// How to reach one MCP endpoint.
pub struct HttpOptions {
    /// The endpoint, `http://` or `https://`.
    pub url: String,
    /// The user's headers, sent with every request to this origin and never elsewhere.
    pub headers: Vec<(String, SecretString)>,
    /// A token for `Authorization: Bearer`; an `Authorization` header takes precedence.
    pub bearer: Option<SecretString>,
    /// Provides a token from a sign-in; used only without an `Authorization` header and a bearer token.
    pub sign_in: Option<Arc<dyn SignIn>>,
    /// The cap on one event or one JSON body, in bytes.
    pub cap_bytes: usize,
    /// Root certificates to trust besides the system's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Bytes of incomplete events; one tally is shared by all servers of a process.
    pub buffered: SharedByteCount,
    /// Values to redact from what the server sends. The headers and tokens above, session ids and new tokens are added.
    pub secrets: Secrets,
    /// Records the traffic.
    pub traffic: Option<TrafficRecorder>,
}

/// Provides the token of a server's sign-in.
pub trait SignIn: Send + Sync {
    /// The token for the next request, refreshed first if it is about to expire; `None` if nobody is signed in.
    /// `Err` is a message that says why nothing can be sent.
    fn token(&self) -> BoxFuture<'_, Result<Option<SecretString>, String>>;

    /// Other secrets of the sign-in, which only its issuer may see, such as the refresh token.
    fn private_secrets(&self) -> Vec<SecretString> {
        Vec::new()
    }

    /// The server rejected the credentials of a request. `Ok` is another token, which is sent with the same request,
    /// once; `Err` may hold a message to show instead of the server's.
    fn on_rejected<'s>(
        &'s self,
        sent: Option<&'s SecretString>,
        status: StatusCode,
        challenge: Option<Challenge>,
    ) -> BoxFuture<'s, Result<SecretString, Option<String>>>;
}

impl HttpOptions {
    /// Options for `url` without headers or token, with a cap of [`DEFAULT_CAP_BYTES`].
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            bearer: None,
            sign_in: None,
            cap_bytes: DEFAULT_CAP_BYTES,
            extra_roots: Vec::new(),
            buffered: SharedByteCount::default(),
            secrets: Secrets::default(),
            traffic: None,
        }
    }
}

/// A client for one MCP endpoint; cheap to clone.
#[derive(Clone)]
pub struct Http {
    inner: Arc<Inner>,
}

// Manual: headers and the URL's query are secrets.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("origin", &self.inner.url.origin().ascii_serialization())
            .finish_non_exhaustive()
    }
}

impl Http {
    /// Checks the options. Connects and loads nothing yet.
    ///
    /// # Errors
    /// [`TransportError`] if the URL or a header is invalid.
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
                buffered: options.buffered,
                secrets,
                traffic: options.traffic,
                client: Mutex::new(None),
            }),
        })
    }

    /// Starts an exchange. The request is sent when the stream is first polled; dropping the stream closes the
    /// connection.
    ///
    /// The events come in the order that [`ExchangeEvent`] documents. Needs a tokio runtime with time and IO.
    pub fn exchange(&self, request: Request) -> Exchange {
        self.exchange_for(None, request)
    }

    /// Like [`Self::exchange`], recorded as traffic of `task`.
    pub fn exchange_for(&self, task: Option<TaskId>, request: Request) -> Exchange {
        let inner = Arc::clone(&self.inner);
        let traffic = inner.traffic.as_ref();
        let recorder = traffic.map(|traffic| traffic.start_exchange(task, &inner.secrets));
        let end_recorder = recorder.clone().map(DroppedExchange::new);
        Exchange {
            stage: Stage::Sending(Box::pin(async move {
                let mut extra_requests = 0;
                let head = inner.send(request, recorder, &mut extra_requests).await;
                (head, extra_requests)
            })),
            end_recorder,
        }
    }
}

/// Installs the TLS provider (rustls on ring) for this process. Repeated calls do nothing.
pub fn ensure_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A provider that was installed before works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

struct Inner {
    url: Url,
    headers: HeaderMap,
    sign_in: Option<Arc<dyn SignIn>>,
    cap_bytes: usize,
    extra_roots: Vec<CertificateDer<'static>>,
    buffered: SharedByteCount,
    secrets: Secrets,
    traffic: Option<TrafficRecorder>,
    /// Built on first use: loading the system's certificates would delay the first frame on the screen.
    client: Mutex<Option<HttpClient>>,
}

#[derive(Clone)]
pub(super) struct HttpClient {
    pub(super) client: Client,
    /// Whether there are any root certificates to trust.
    pub(super) has_roots: bool,
}

impl Inner {
    /// Sends a request, follows redirects and retries once with new credentials.
    ///
    /// `extra_requests` counts the requests beyond the first.
    async fn send(
        &self,
        request: Request,
        recorder: Option<ExchangeRecorder>,
        extra_requests: &mut u32,
    ) -> Head {
        if let Some(session) = &request.session {
            self.secrets.add_session(session);
        }
        let mut token = match self.token().await {
            Ok(token) => token,
            Err(why) => return Head::Final(not_sent(self.secrets.mask(&why))),
        };
        if let Some(error) = self.unknown_cursor_secret(&request) {
            return Head::Final(error);
        }
        let mut url = match &request.target {
            None => self.url.clone(),
            Some(target) => match resolve_same_origin(&self.url, target.as_bytes()) {
                Ok(url) => url,
                Err(why) => {
                    let why = format!("its endpoint {why}");
                    return Head::Final(not_sent(self.secrets.mask(&why)));
                }
            },
        };
        let (method, mut headers, body) = match self.request_parts(request) {
            Ok(parts) => parts,
            Err(why) => return Head::Final(not_sent(why)),
        };
        let HttpClient { client, has_roots } = match self.client() {
            Ok(client) => client,
            Err(why) => return Head::Final(not_sent(why)),
        };
        // Recorded with its secrets redacted, sent with the real ones.
        let recorded_body = body;
        let body = recorded_body.as_deref();
        let body = body.map(|body| Bytes::from(self.secrets.restore_in_json(body).into_owned()));
        let mut redirects = 0;
        let mut has_retried = false;
        loop {
            if let Some(token) = &token {
                let Some(value) = bearer(token) else {
                    return Head::Final(not_sent(
                        "the sign-in token has characters that a header can't carry",
                    ));
                };
                headers.insert(AUTHORIZATION, value);
                self.secrets.add_token(token);
            }
            if let Some(recorder) = &recorder {
                recorder.request(&method, &url, &headers, recorded_body.as_deref());
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
                    return Head::Final(error_text::no_response(&error, host, has_roots));
                }
            };
            let status = response.status();
            if let Some(session) = text_of(response.headers(), SESSION_ID) {
                self.secrets.add_session(session);
            }
            if let Some(recorder) = &recorder {
                recorder.response_head(status, response.headers());
            }
            if status.is_success() {
                return self.read_body(response, url, recorder);
            }
            if let Some(location) = response
                .headers()
                .get(LOCATION)
                .filter(|_| status.is_redirection())
            {
                match redirect_target(status, &url, location, redirects) {
                    Ok(next) => {
                        redirects += 1;
                        *extra_requests += 1;
                        url = next;
                        continue;
                    }
                    Err(why) => {
                        return Head::Final(ExchangeEvent::Refused(Box::new(HttpError {
                            status: status.as_u16(),
                            retry_after: None,
                            error: None,
                            server_text: Some(self.secrets.mask(&why).into_owned()),
                        })));
                    }
                }
            }
            let is_auth_error = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            let challenge = is_auth_error.then(|| {
                let mut challenge = challenge_in(response.headers())?;
                let scope = challenge.scope.as_deref();
                challenge.scope = scope.map(|scope| self.secrets.mask(scope).into_owned());
                Some(challenge)
            });
            let mut http_error =
                read_error(response, self.secrets.redactor(), recorder.as_ref()).await;
            if let (Some(sign_in), Some(challenge)) = (&self.sign_in, challenge) {
                match sign_in.on_rejected(token.as_ref(), status, challenge).await {
                    // Safe to repeat: a request rejected for its credentials was not acted on.
                    Ok(new_token) if !has_retried => {
                        has_retried = true;
                        *extra_requests += 1;
                        token = Some(new_token);
                        continue;
                    }
                    Ok(_) | Err(None) => {}
                    Err(Some(message)) => {
                        http_error.server_text = Some(self.secrets.mask(&message).into_owned());
                    }
                }
            }
            return Head::Final(ExchangeEvent::Refused(Box::new(http_error)));
        }
    }

    /// The sign-in's token. Fetched before every request, so that an expired one is never sent after a long pause.
    async fn token(&self) -> Result<Option<SecretString>, String> {
        let Some(sign_in) = &self.sign_in else {
            return Ok(None);
        };
        let token = sign_in.token().await?;
        for secret in sign_in.private_secrets() {
            self.secrets.add_private(&secret);
        }
        if let Some(token) = &token {
            self.secrets.add_token(token);
        }
        Ok(token)
    }

    /// Rejects a resume whose event id contains a secret that this process doesn't have: the server would not recognize
    /// the redacted id.
    fn unknown_cursor_secret(&self, request: &Request) -> Option<ExchangeEvent> {
        let Method::Get { cursor } = &request.method else {
            return None;
        };
        let missing = self.secrets.first_unknown(cursor.as_deref()?)?;
        Some(ExchangeEvent::Refused(Box::new(HttpError {
            status: StatusCode::UNAUTHORIZED.as_u16(),
            retry_after: None,
            error: None,
            server_text: Some(format!(
                "not sent: the last event id contains {missing}, and this process does not have that secret"
            )),
        })))
    }

    /// Method, headers and body of a request, or why it can't be sent.
    fn request_parts(
        &self,
        request: Request,
    ) -> Result<(reqwest::Method, HeaderMap, Option<String>), String> {
        let mut headers = self.headers.clone();
        if let Some(session) = request.session {
            let value = sensitive_header(session.as_bytes())
                .ok_or("the server's session id has characters that a header can't carry")?;
            headers.insert(SESSION_ID, value);
        }
        if let Some(version) = request.version {
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.label()));
        }
        // No compression: a megabyte can expand to a gigabyte, and a proxy that compresses a stream holds it back in its
        // buffer.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let both = HeaderValue::from_static("application/json, text/event-stream");
        Ok(match request.method {
            Method::Post { body, routing } => {
                for (name, value) in routing {
                    let name = HeaderName::from_bytes(name.as_bytes())
                        .map_err(|_| format!("{name} is not a valid header name"))?;
                    let value = HeaderValue::from_str(&self.secrets.restore(&value))
                        .map_err(|_| format!("the value of {name} is not a valid header value"))?;
                    headers.insert(name, value);
                }
                headers.insert(ACCEPT, both);
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                (reqwest::Method::POST, headers, Some(body))
            }
            Method::Get { cursor } => {
                headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
                // An empty id resets the cursor, which is what sending no header means.
                if let Some(cursor) = cursor.filter(|cursor| !cursor.is_empty()) {
                    let value = sensitive_header(self.secrets.restore(&cursor).as_bytes()).ok_or(
                        "the event id to resume from has characters that a header can't carry",
                    )?;
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

    fn client(&self) -> Result<HttpClient, String> {
        let mut slot = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = slot.as_ref() {
            return Ok(client.clone());
        }
        let client = build_client(&self.url, &self.extra_roots)?;
        Ok(slot.insert(client).clone())
    }

    fn read_body(&self, response: Response, url: Url, recorder: Option<ExchangeRecorder>) -> Head {
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
        let compressed = text_of(headers, CONTENT_ENCODING)
            .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
            .map(|coding| format!("{} data", coding.to_ascii_lowercase()));
        let body = match media.as_deref() {
            _ if is_bodiless => Body::Empty,
            _ if compressed.is_some() && length != Some(0) => Body::Other { media: compressed },
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
                sse: Box::new(Sse::new(cap).with_redactor(self.secrets.redactor(), recorder)),
                secrets: self.secrets.clone(),
                url,
                share: self.buffered.share(),
            },
            Body::Json | Body::Other { .. } => Reader::Whole {
                bytes: Box::pin(response.bytes_stream()),
                read: Vec::new(),
                seen: 0,
                cap,
                is_kept: body == Body::Json,
                redactor: self.secrets.redactor(),
                recorder,
                share: self.buffered.share(),
            },
        };
        Head::Body(ExchangeEvent::Opened { body, session }, Box::new(reader))
    }
}

/// A client with the certificates and proxy settings for `url`.
pub(super) fn build_client(
    url: &Url,
    extra_roots: &[CertificateDer<'static>],
) -> Result<HttpClient, String> {
    ensure_provider();
    let mut roots = RootCertStore::empty();
    if url.scheme() == "https" {
        let native = rustls_native_certs::load_native_certs();
        for error in &native.errors {
            tracing::warn!(%error, "could not read some root certificates");
        }
        roots.add_parsable_certificates(native.certs);
        roots.add_parsable_certificates(extra_roots.iter().cloned());
    }
    let has_roots = !roots.is_empty();
    // Also for http: by default reqwest loads the system's certificates and fails if there are none.
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
        // A pooled connection may die while a request is being written to it. Nobody knows then whether the server got
        // it, and the call ends as `unknown`. A new connection for each request can't be stale.
        .pool_max_idle_per_host(0)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEPALIVE)
        .tcp_keepalive_interval(KEEPALIVE)
        .tcp_keepalive_retries(KEEPALIVE_PROBES);
    #[cfg(target_os = "linux")]
    {
        // reqwest's default of 30 s would end a silent exchange after a short network outage.
        builder = builder.tcp_user_timeout(None);
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    let client = builder
        .build()
        .map_err(|error| format!("could not build the HTTP client ({})", error.without_url()))?;
    Ok(HttpClient { client, has_roots })
}

/// The target of a redirect, or why it must not be followed.
fn redirect_target(
    status: StatusCode,
    from: &Url,
    location: &HeaderValue,
    followed: usize,
) -> Result<Url, String> {
    let target = resolve_same_origin(from, location.as_bytes())
        .map_err(|why| format!("it {why}; not followed"))?;
    let shown_url = display_url(&target);
    if !matches!(
        status,
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    ) {
        return Err(format!(
            "it redirects to {shown_url} with a status that would drop the request body; not followed"
        ));
    }
    if followed >= MAX_REDIRECTS {
        return Err(format!(
            "too many redirects, the last one to {shown_url}; not followed"
        ));
    }
    Ok(target)
}

/// Resolves a URL that a server sent, and rejects other origins: nothing is ever sent there.
///
/// The error continues a sentence whose subject is what holds the URL: "points to ...".
pub(super) fn resolve_same_origin(from: &Url, text: &[u8]) -> Result<Url, String> {
    let target = std::str::from_utf8(text)
        .ok()
        .and_then(|text| from.join(text).ok());
    let mut target = target.ok_or("points to an invalid URL")?;
    let shown_url = display_url(&target);
    if target.origin() != from.origin() {
        return Err(format!("points to {shown_url}, which is another origin"));
    }
    if has_userinfo(&target) {
        return Err(format!("points to {shown_url} with a user name"));
    }
    target.set_fragment(None);
    Ok(target)
}

/// Reads the body of a response other than 2xx, as far as it arrives in time.
async fn read_error(
    response: Response,
    mut redactor: Redactor,
    recorder: Option<&ExchangeRecorder>,
) -> HttpError {
    let status = response.status();
    let headers = response.headers().clone();
    let mut bytes = response.bytes_stream();
    let mut body = Vec::new();
    let reading = async {
        while let Some(Ok(chunk)) = bytes.next().await {
            let room = ERROR_BODY_CAP_BYTES.saturating_sub(body.len());
            body.extend(chunk.iter().take(room));
            if chunk.len() >= room {
                break;
            }
        }
    };
    // After the timeout, use what has arrived.
    let _ = tokio::time::timeout(ERROR_BODY_TIMEOUT, reading).await;
    let body = redactor.message(String::from_utf8_lossy(&body).into_owned());
    if let Some(recorder) = recorder.filter(|_| !body.is_empty()) {
        recorder.response_body(&body);
    }
    error_response::read(status, &headers, body.as_bytes())
}

/// The events of one exchange; see [`Http::exchange`].
pub struct Exchange {
    stage: Stage,
    end_recorder: Option<DroppedExchange>,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Sending(_) | Stage::Redirected(_) => "sending",
            Stage::Reading(_) => "reading",
            Stage::Ended => "ended",
        };
        f.debug_tuple("Exchange").field(&stage).finish()
    }
}

enum Stage {
    Sending(Pin<Box<dyn Future<Output = (Head, u32)> + Send>>),
    /// [`ExchangeEvent::MoreRequests`] was reported; the head comes next.
    Redirected(Head),
    Reading(Box<Reader>),
    Ended,
}

/// The outcome of sending a request.
enum Head {
    /// The only event there is.
    Final(ExchangeEvent),
    Body(ExchangeEvent, Box<Reader>),
}

type ByteStream = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// Turns a response body into events.
enum Reader {
    Empty,
    TooLarge {
        cap: usize,
    },
    Events {
        bytes: ByteStream,
        sse: Box<Sse>,
        secrets: Secrets,
        /// The base for an `endpoint` event's URL.
        url: Url,
        share: ByteShare,
    },
    /// A body that is one event, or that is only read until it ends.
    Whole {
        bytes: ByteStream,
        read: Vec<u8>,
        seen: usize,
        cap: usize,
        is_kept: bool,
        redactor: Redactor,
        recorder: Option<ExchangeRecorder>,
        share: ByteShare,
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
                share,
            } => loop {
                match sse.take() {
                    Some(ExchangeEvent::Endpoint { target: Ok(text) }) => {
                        let target = resolve_same_origin(url, text.as_bytes());
                        if let Ok(target) = &target {
                            // In HTTP+SSE the endpoint URL carries the session id.
                            secrets.add_url(target);
                        }
                        let target = target.map(String::from).map_err(|why| {
                            let why = format!("its endpoint {why}; nothing is sent there");
                            secrets.mask(&why).into_owned()
                        });
                        return Poll::Ready(ExchangeEvent::Endpoint { target });
                    }
                    Some(event) => return Poll::Ready(event),
                    None => {}
                }
                if over_shared_limit(share, sse.held_bytes()) {
                    return Poll::Ready(shared_limit_exceeded());
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
                redactor,
                recorder,
                share,
            } => loop {
                match ready!(bytes.as_mut().poll_next(cx)) {
                    Some(Ok(chunk)) => {
                        *seen = seen.saturating_add(chunk.len());
                        if *seen > *cap {
                            return Poll::Ready(ExchangeEvent::TooLarge { cap: *cap });
                        }
                        if *is_kept {
                            read.extend_from_slice(&chunk);
                            if over_shared_limit(share, read.len()) {
                                return Poll::Ready(shared_limit_exceeded());
                            }
                        }
                    }
                    Some(Err(error)) => return Poll::Ready(broken(&error)),
                    None if read.is_empty() => return Poll::Ready(ExchangeEvent::Ended),
                    None => {
                        let data = redactor.message(into_text(std::mem::take(read)));
                        if let Some(recorder) = recorder {
                            recorder.response_body(&data);
                        }
                        // Counted until the consumer polls again: it may not have room for this event yet.
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
    fn on_head(&mut self, head: Head) -> ExchangeEvent {
        let (event, next) = match head {
            Head::Final(event) => (event, Stage::Ended),
            Head::Body(event, reader) => (event, Stage::Reading(reader)),
        };
        let is_last = matches!(next, Stage::Ended);
        if let Some(end_recorder) = self.end_recorder.as_mut().filter(|_| is_last) {
            end_recorder.record_end(&event);
        }
        self.stage = next;
        event
    }
}

impl Stream for Exchange {
    type Item = ExchangeEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        match &mut self.stage {
            Stage::Sending(head) => match ready!(head.as_mut().poll(cx)) {
                (head, 0) => Poll::Ready(Some(self.on_head(head))),
                (head, extra_requests) => {
                    self.stage = Stage::Redirected(head);
                    Poll::Ready(Some(ExchangeEvent::MoreRequests(extra_requests)))
                }
            },
            Stage::Redirected(_) => match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Redirected(head) => Poll::Ready(Some(self.on_head(head))),
                _ => Poll::Ready(None),
            },
            Stage::Reading(reader) => {
                let event = ready!(reader.poll(cx));
                if matches!(
                    event,
                    ExchangeEvent::Ended
                        | ExchangeEvent::Broken { .. }
                        | ExchangeEvent::TooLarge { .. }
                ) {
                    if let Some(end_recorder) = &mut self.end_recorder {
                        end_recorder.record_end(&event);
                    }
                    // Dropping the reader closes the connection, even if the stream itself is kept.
                    self.stage = Stage::Ended;
                }
                Poll::Ready(Some(event))
            }
            Stage::Ended => Poll::Ready(None),
        }
    }
}

fn not_sent(why: impl Into<String>) -> ExchangeEvent {
    ExchangeEvent::NotSent {
        why: why.into(),
        is_refused: false,
    }
}

fn broken(error: &reqwest::Error) -> ExchangeEvent {
    ExchangeEvent::Broken {
        why: error_text::broken_body(error),
    }
}

/// Records how much an exchange buffers; true if all exchanges together now buffer too much.
pub(super) fn over_shared_limit(share: &mut ByteShare, bytes: usize) -> bool {
    share.set(bytes);
    bytes > SMALL_BYTES && share.total().sum() > BUFFERED_BYTES
}

pub(super) fn shared_limit_exceeded() -> ExchangeEvent {
    ExchangeEvent::Broken {
        why: format!(
            "more than {} of unfinished events are buffered",
            text::bytes(BUFFERED_BYTES as u64)
        ),
    }
}

/// A JSON body as text, without the byte order mark that some servers prepend.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    let mut text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if text.starts_with('\u{FEFF}') {
        text.remove(0);
    }
    text
}

/// A header value that no debug output shows.
pub(super) fn sensitive_header(bytes: &[u8]) -> Option<HeaderValue> {
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
            // The name is not repeated: it may be a misplaced secret.
            return Err(TransportError::BadHeader {
                name: "with an invalid name".to_owned(),
                why: "use only letters, digits and -, as in -H 'X-Api-Key: ...'",
            });
        };
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(TransportError::BadHeader {
                name: name.to_string(),
                why: "longhaul sets it itself",
            });
        }
        let value = sensitive_header(value.expose_secret().trim().as_bytes());
        let Some(value) = value else {
            return Err(TransportError::BadHeader {
                name: name.to_string(),
                why: "its value contains a line break or another control character",
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
                why: "the token is empty or contains a control character",
            });
        };
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn bearer(token: &SecretString) -> Option<HeaderValue> {
    // A token from a shell or a file often ends with a line break.
    let token = token.expose_secret().trim();
    sensitive_header(format!("Bearer {token}").as_bytes()).filter(|_| !token.is_empty())
}

/// The credentials that a server asks for (RFC 9110, section 11.6.1).
pub(super) fn challenge_in(headers: &HeaderMap) -> Option<Challenge> {
    let values = headers.get_all(WWW_AUTHENTICATE);
    Challenge::parse(values.iter().filter_map(|value| value.to_str().ok()))
}

pub(super) fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// A URL for people: without user info, query and fragment.
fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // These fail only for URLs that can't have them.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_for(url: &str) -> TransportError {
        Http::new(HttpOptions::new(url)).unwrap_err()
    }

    #[test]
    fn a_bad_url_is_rejected_with_an_example() {
        for url in ["localhost:8931/mcp", "ftp://h/mcp", "", "/mcp", "http:/"] {
            let error = error_for(url);
            assert!(matches!(error, TransportError::NotHttp), "{url}: {error}");
            assert!(error.to_string().contains("http://127.0.0.1:8931/mcp"));
        }
        for url in ["http://", "http://[::1/mcp", "https://h:99999/mcp"] {
            assert!(
                matches!(error_for(url), TransportError::BadUrl { .. }),
                "{url}"
            );
        }
    }

    #[test]
    fn a_url_with_a_password_is_rejected_without_showing_it() {
        for url in ["http://ann:hunter2@h/mcp", "https://hunter2@h/mcp"] {
            let error = error_for(url);
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
    fn an_invalid_header_is_rejected_without_showing_its_value() {
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
    fn a_server_url_with_a_user_name_is_rejected() {
        let from = Url::parse("http://h/mcp").unwrap();
        let why = resolve_same_origin(&from, b"http://ann:hunter2@h/mcp").unwrap_err();
        assert!(
            why.contains("with a user name") && !why.contains("hunter2"),
            "{why}"
        );
        assert_eq!(
            resolve_same_origin(&from, b"/there#x").unwrap().as_str(),
            "http://h/there"
        );
    }

    #[test]
    fn debug_output_of_headers_hides_their_values() {
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
            let (_, headers, _) = http.inner.request_parts(request.clone()).unwrap();
            assert!(headers.contains_key("x-key") && headers.contains_key(SESSION_ID));
            assert!(!format!("{headers:?}").contains("hunter2"), "{headers:?}");
            request.method = Method::Delete;
        }
    }

    #[test]
    fn a_bearer_token_is_trimmed_and_yields_to_a_header() {
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
    fn the_client_has_no_timeout_and_no_proxy_for_localhost() {
        for (url, has_proxies) in [("http://127.0.0.1:1/mcp", false), ("http://h/mcp", true)] {
            let http = Http::new(HttpOptions::new(url)).unwrap();
            // The debug output lists only the timeouts that are set.
            let text = format!("{:?}", http.inner.client().unwrap().client).to_lowercase();
            assert!(!text.contains("timeout"), "{text}");
            assert_eq!(text.contains("proxies"), has_proxies, "{text}");
        }
    }
}
