//! One HTTP exchange with an MCP endpoint, through reqwest.
//!
//! Owns headers, redirects, TLS roots and reading bodies. Must not know what the messages mean. Invariant: nothing here
//! ends a silent exchange; only connecting and reading an error body have a timeout.
//!
//! Source: MCP 2025-11-25, basic/transports.

pub(in crate::transport) mod body;
pub(in crate::transport) mod client;
pub(in crate::transport) mod error;
pub(in crate::transport) mod exchange;
pub(in crate::transport) mod options;
pub(in crate::transport) mod origin;

use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use reqwest::{
    Response, StatusCode,
    header::{
        ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE,
        HeaderMap, HeaderName, HeaderValue, LOCATION, WWW_AUTHENTICATE,
    },
};
use secrecy::SecretString;
use tokio::sync::oneshot;
use url::Url;

use super::{
    error_response::{self, media_type, text_of},
    error_text,
    secrets::Redactor,
    sse::Sse,
    traffic::{DroppedExchange, ExchangeRecorder},
};
use crate::{
    domain::{TaskId, locked, server_url},
    protocol::{Body, Challenge, ExchangeEvent, HttpError, Method, Request},
    transport::http::{
        body::Reader,
        client::{ClientError, HttpClient, build_client},
        error::SendError,
        exchange::{Exchange, Head},
        options::{
            HttpOptions, NoToken, SignInError, TransportError, bearer, check_headers,
            sensitive_header,
        },
        origin::{RedirectError, redirect_target, resolve_same_origin},
    },
};

/// Bytes of an error response's body that are read.
const ERROR_BODY_CAP_BYTES: usize = 64 * 1024;

/// How long to wait for an error response's body; the status alone says most.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

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
    pub fn new(mut options: HttpOptions) -> Result<Self, TransportError> {
        let mut url = server_url::parse(&options.url)?;
        url.set_fragment(None);
        let headers = check_headers(&options)?;
        for (name, value) in &options.headers {
            options.secrets.add(name, value);
        }
        options.secrets.add_url(&url);
        if headers.contains_key(AUTHORIZATION) {
            options.sign_in = None;
        }
        Ok(Self {
            inner: Arc::new(Inner {
                url,
                headers,
                options,
                client: Mutex::new(None),
            }),
        })
    }

    /// Starts an exchange, recorded as traffic of `task`. The request is sent when the stream is first polled; dropping the
    /// stream closes the connection.
    ///
    /// The events come in the order that [`ExchangeEvent`] documents. Needs a tokio runtime with time and IO.
    pub fn exchange_for(&self, task: Option<TaskId>, request: Request) -> Exchange {
        let inner = Arc::clone(&self.inner);
        let options = &inner.options;
        let recorder = ExchangeRecorder::start(options.traffic.as_ref(), task, &options.secrets);
        let end_recorder = DroppedExchange::new(recorder.clone());
        let (on_sent, sent) = oneshot::channel();
        let sending = async move {
            let mut extra_requests = 0;
            let head = inner
                .send(request, on_sent, &recorder, &mut extra_requests)
                .await;
            (head, extra_requests)
        };
        Exchange::new(sending, sent, end_recorder)
    }
}

struct Inner {
    /// The endpoint, checked.
    url: Url,
    /// The user's headers, checked.
    headers: HeaderMap,
    options: HttpOptions,
    /// Built on first use: loading the system's certificates would delay the first frame on the screen.
    client: Mutex<Option<HttpClient>>,
}

/// A request that is ready to be sent.
struct Outgoing {
    client: HttpClient,
    method: reqwest::Method,
    url: Url,
    headers: HeaderMap,
    /// The body with its secrets redacted.
    recorded_body: Option<String>,
    /// The body with its secrets.
    body: Option<Bytes>,
}

/// A body that fires `on_sent` when it is first asked for its bytes, which is when there is a connection for them.
fn announced(body: Bytes, on_sent: Option<oneshot::Sender<()>>) -> reqwest::Body {
    reqwest::Body::wrap_stream(stream::once(async {
        // Nobody may be listening any more.
        on_sent.map(|on_sent| on_sent.send(()));
        Ok::<_, Infallible>(body)
    }))
}

fn refused(error: HttpError) -> Head {
    Head::Final(ExchangeEvent::Refused(Box::new(error)))
}

impl Inner {
    /// Sends a request, follows redirects and retries once with new credentials.
    ///
    /// `extra_requests` counts the requests beyond the first.
    async fn send(
        &self,
        request: Request,
        on_sent: oneshot::Sender<()>,
        recorder: &ExchangeRecorder,
        extra_requests: &mut u32,
    ) -> Head {
        if let Some(session) = &request.session {
            self.options.secrets.add_session(session);
        }
        let mut token = match self.token().await {
            Ok(token) => token,
            Err(error) => return self.not_sent(&error.into()),
        };
        if let Some(error) = self.unknown_cursor_secret(&request) {
            return Head::Final(error);
        }
        let mut outgoing = match self.prepare(request) {
            Ok(outgoing) => outgoing,
            Err(error) => return self.not_sent(&error),
        };
        let mut on_sent = Some(on_sent);
        let mut redirects = 0;
        let mut has_retried = false;
        loop {
            if let Some(token) = &token {
                let Some(value) = bearer(token) else {
                    return self.not_sent(&SendError::Token);
                };
                outgoing.headers.insert(AUTHORIZATION, value);
                self.options.secrets.add_token(token);
            }
            let response = match self.send_once(&outgoing, &mut on_sent, recorder).await {
                Ok(response) => response,
                Err(event) => return Head::Final(event),
            };
            let status = response.status();
            if status.is_success() {
                return self.read_body(response, outgoing.url, recorder.clone());
            }
            let location = response.headers().get(LOCATION);
            if let Some(location) = location.filter(|_| status.is_redirection()) {
                match redirect_target(status, &outgoing.url, location, redirects) {
                    Ok(next) => outgoing.url = next,
                    Err(error) => return self.not_followed(status, &error),
                }
                redirects += 1;
            } else {
                match self.rejected(response, token.as_ref(), recorder).await {
                    // Safe to repeat: a request rejected for its credentials was not acted on.
                    (_, Ok(new_token)) if !has_retried => {
                        has_retried = true;
                        token = Some(new_token);
                    }
                    (_, Err(Some(NoToken::TryLater(why)))) => {
                        let why = self.options.secrets.mask(&why).into_owned();
                        return Head::Final(ExchangeEvent::not_sent(why));
                    }
                    (error, _) => return refused(error),
                }
            }
            *extra_requests += 1;
        }
    }

    /// Checks a request and everything that sending it needs.
    fn prepare(&self, request: Request) -> Result<Outgoing, SendError> {
        let url = match &request.target {
            None => self.url.clone(),
            Some(target) => resolve_same_origin(&self.url, target.as_bytes())?,
        };
        let (method, headers, recorded_body) = self.request_parts(request)?;
        let body = recorded_body
            .as_deref()
            .map(|body| Bytes::from(self.options.secrets.restore_in_json(body).into_owned()));
        Ok(Outgoing {
            client: self.client()?,
            method,
            url,
            headers,
            recorded_body,
            body,
        })
    }

    /// Sends a request once and returns the response head. `on_sent` fires when the body is being written, the first time.
    async fn send_once(
        &self,
        outgoing: &Outgoing,
        on_sent: &mut Option<oneshot::Sender<()>>,
        recorder: &ExchangeRecorder,
    ) -> Result<Response, ExchangeEvent> {
        let Outgoing {
            method,
            url,
            headers,
            client: HttpClient { client, has_roots },
            ..
        } = outgoing;
        recorder.request(method, url, headers, outgoing.recorded_body.as_deref());
        let mut sending = client
            .request(method.clone(), url.clone())
            .headers(headers.clone());
        if let Some(body) = &outgoing.body {
            let (body, on_sent) = (body.clone(), on_sent.take());
            sending = sending
                .header(CONTENT_LENGTH, body.len())
                .body(announced(body, on_sent));
        }
        let response = sending.send().await.map_err(|error| {
            let host = self.url.host_str().unwrap_or_default();
            error_text::no_response(&error, host, *has_roots)
        })?;
        if let Some(session) = text_of(response.headers(), SESSION_ID) {
            self.options.secrets.add_session(session);
        }
        recorder.response_head(response.status(), response.headers());
        Ok(response)
    }

    /// Reads an error response. If it rejects the credentials, asks the sign-in for another token.
    async fn rejected(
        &self,
        response: Response,
        sent: Option<&SecretString>,
        recorder: &ExchangeRecorder,
    ) -> (HttpError, Result<SecretString, Option<NoToken>>) {
        let status = response.status();
        let is_auth_error = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let challenge = is_auth_error.then(|| {
            let mut challenge = challenge_in(response.headers())?;
            let scope = challenge.scope.as_deref();
            challenge.scope = scope.map(|scope| self.options.secrets.mask(scope).into_owned());
            Some(challenge)
        });
        let mut error = read_error(response, self.options.secrets.redactor(), recorder).await;
        error.lacks_scope = challenge.iter().flatten().any(Challenge::needs_more_scope);
        let (Some(sign_in), Some(challenge)) = (&self.options.sign_in, challenge) else {
            return (error, Err(None));
        };
        let token = sign_in.on_rejected(sent, status, challenge).await;
        if let Err(NoToken::SignInNeeded(Some(message))) = &token {
            error.server_text = Some(self.options.secrets.mask(message).into_owned());
        }
        (error, token.map_err(Some))
    }

    fn not_followed(&self, status: StatusCode, error: &RedirectError) -> Head {
        let why = self.options.secrets.mask(&error.to_string()).into_owned();
        refused(HttpError {
            status: status.as_u16(),
            server_text: Some(why),
            ..HttpError::default()
        })
    }

    /// The sign-in's token. Fetched before every request, so that an expired one is never sent after a long pause.
    async fn token(&self) -> Result<Option<SecretString>, SignInError> {
        let Some(sign_in) = &self.options.sign_in else {
            return Ok(None);
        };
        let token = sign_in.token().await?;
        for secret in sign_in.private_secrets() {
            self.options.secrets.add_private(&secret);
        }
        if let Some(token) = &token {
            self.options.secrets.add_token(token);
        }
        Ok(token)
    }

    /// Rejects a resume whose event id contains a secret that this process doesn't have: the server would not recognize
    /// the redacted id.
    fn unknown_cursor_secret(&self, request: &Request) -> Option<ExchangeEvent> {
        let Method::Get { cursor } = &request.method else {
            return None;
        };
        let missing = self.options.secrets.first_unknown(cursor.as_deref()?)?;
        Some(ExchangeEvent::Refused(Box::new(HttpError {
            status: StatusCode::UNAUTHORIZED.as_u16(),
            server_text: Some(format!(
                "not sent: the last event id contains {missing}, and this process does not have that secret"
            )),
            ..HttpError::default()
        })))
    }

    fn not_sent(&self, error: &SendError) -> Head {
        let why = self.options.secrets.mask(&error.to_string()).into_owned();
        Head::Final(ExchangeEvent::not_sent(why))
    }

    /// Method, headers and body of a request.
    fn request_parts(
        &self,
        request: Request,
    ) -> Result<(reqwest::Method, HeaderMap, Option<String>), SendError> {
        let mut headers = self.headers.clone();
        if let Some(session) = request.session {
            let value = sensitive_header(session.as_bytes()).ok_or(SendError::SessionId)?;
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
                        .map_err(|_| SendError::RoutingName(name))?;
                    let value = HeaderValue::from_str(
                        &self.options.secrets.restore_in_header(&value, &body),
                    )
                    .map_err(|_| SendError::RoutingValue(name.to_string()))?;
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
                    let value = sensitive_header(self.options.secrets.restore(&cursor).as_bytes())
                        .ok_or(SendError::Cursor)?;
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

    fn client(&self) -> Result<HttpClient, ClientError> {
        let mut slot = locked(&self.client);
        if let Some(client) = slot.as_ref() {
            return Ok(client.clone());
        }
        let client = build_client(&self.url, &self.options.extra_roots)?;
        Ok(slot.insert(client).clone())
    }

    fn read_body(&self, response: Response, url: Url, recorder: ExchangeRecorder) -> Head {
        let headers = response.headers();
        let session = text_of(headers, SESSION_ID)
            .filter(|id| !id.is_empty())
            .map(str::to_owned);
        let length = response.content_length();
        let status = response.status().as_u16();
        let is_bodiless = matches!(status, 202 | 204);
        let media = media_type(headers);
        let compressed = text_of(headers, CONTENT_ENCODING)
            .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
            .map(|coding| format!("{} data", coding.to_ascii_lowercase()));
        let body = match media.as_deref() {
            _ if is_bodiless => Body::Empty(status),
            _ if compressed.is_some() && length != Some(0) => Body::Other { media: compressed },
            Some("text/event-stream") => Body::Stream,
            _ if length == Some(0) => Body::Empty(status),
            Some(media) if may_be_json(media) => Body::Json,
            // Some frameworks name no type.
            None => Body::Json,
            _ => Body::Other {
                media: media.map(|media| self.options.secrets.mask(&media).into_owned()),
            },
        };
        let cap = self.options.cap_bytes;
        let reader = match body {
            Body::Empty(_) => Reader::Empty,
            _ if body != Body::Stream && length.is_some_and(|length| length > cap as u64) => {
                Reader::TooLarge { cap }
            }
            Body::Stream => Reader::Events {
                bytes: Box::pin(response.bytes_stream()),
                sse: Box::new(
                    Sse::new(cap).with_redactor(self.options.secrets.redactor(), recorder),
                ),
                secrets: self.options.secrets.clone(),
                url,
                share: self.options.buffered.share(),
            },
            Body::Json | Body::Other { .. } => Reader::Whole {
                bytes: Box::pin(response.bytes_stream()),
                read: Vec::new(),
                seen: 0,
                cap,
                is_kept: body == Body::Json,
                redactor: self.options.secrets.redactor(),
                recorder,
                share: self.options.buffered.share(),
            },
        };
        Head::Body(ExchangeEvent::Opened { body, session }, Box::new(reader))
    }
}

/// Whether servers send JSON-RPC responses under this media type.
fn may_be_json(media: &str) -> bool {
    let is_json = media.starts_with("application/json") || media.ends_with("+json");
    is_json || media == "text/plain"
}

/// Reads the body of a response other than 2xx, as far as it arrives in time.
async fn read_error(
    response: Response,
    mut redactor: Redactor,
    recorder: &ExchangeRecorder,
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
    if !body.is_empty() {
        recorder.response_body(&body);
    }
    error_response::read(status, &headers, body.as_bytes())
}

/// The credentials that a server asks for (RFC 9110, section 11.6.1).
pub(super) fn challenge_in(headers: &HeaderMap) -> Option<Challenge> {
    let values = headers.get_all(WWW_AUTHENTICATE);
    Challenge::parse(values.iter().filter_map(|value| value.to_str().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::server_url::UrlError;

    #[test]
    fn a_bad_url_is_rejected_without_showing_its_password() {
        for url in ["ftp://h/mcp", "", "/mcp", "http://", "https://h:99999/mcp"] {
            let error = Http::new(HttpOptions::new(url)).unwrap_err();
            assert!(matches!(error, TransportError::Url(_)), "{url}: {error}");
        }
        for url in ["http://ann:hunter2@h/mcp", "https://hunter2@h/mcp"] {
            let error = Http::new(HttpOptions::new(url)).unwrap_err();
            assert!(matches!(error, TransportError::Url(UrlError::Password)));
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
    fn a_bearer_token_is_trimmed_and_never_empty() {
        assert_eq!(
            bearer(&SecretString::from("t0ken\n")).unwrap(),
            "Bearer t0ken"
        );
        assert!(bearer(&SecretString::from(" \n")).is_none());
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
