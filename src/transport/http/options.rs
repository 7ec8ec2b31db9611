//! How to reach an endpoint: its URL, headers and credentials, and whether they can be sent.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use reqwest::{
    StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use rustls::pki_types::CertificateDer;
use secrecy::{ExposeSecret, SecretString};

use crate::{
    domain::{HeaderError, SharedByteCount, check_header, server_url::UrlError},
    protocol::Challenge,
    transport::{frame::DEFAULT_CAP_BYTES, secrets::Secrets, traffic::TrafficRecorder},
};

/// Invalid options. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The URL is not that of an HTTP server.
    #[error("invalid server URL: {0}")]
    Url(#[from] UrlError),
    /// A header is malformed or reserved.
    #[error(transparent)]
    BadHeader(#[from] HeaderError),
}

/// How to reach one MCP endpoint.
#[derive(Default)]
pub struct HttpOptions {
    /// The endpoint, `http://` or `https://`.
    pub url: String,
    /// The user's headers, sent with every request to this origin and never elsewhere.
    pub headers: Vec<(String, SecretString)>,
    /// Provides a token from a sign-in; used only without an `Authorization` header.
    pub sign_in: Option<Arc<dyn SignIn>>,
    /// The cap on one event or one JSON body, in bytes.
    pub cap_bytes: usize,
    /// Root certificates to trust besides the system's.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// Bytes of incomplete events; one tally is shared by all servers of a process.
    pub buffered: SharedByteCount,
    /// Values to redact from what the server sends. The headers above, session ids and new tokens are added.
    pub secrets: Secrets,
    /// Records the traffic.
    pub traffic: Option<TrafficRecorder>,
}

impl HttpOptions {
    /// Options for `url` without headers, with a cap of [`DEFAULT_CAP_BYTES`].
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            cap_bytes: DEFAULT_CAP_BYTES,
            ..Self::default()
        }
    }
}

/// Why a sign-in has no token to send; its message is for people.
pub type SignInError = Box<dyn std::error::Error + Send + Sync>;

/// Why a sign-in has no other token for a rejected request.
#[derive(Debug)]
pub enum NoToken {
    /// A person has to sign in. May hold a message to show instead of the server's.
    SignInNeeded(Option<String>),
    /// The token could not be refreshed, for a reason that passes.
    TryLater(String),
}

/// Provides the token of a server's sign-in.
pub trait SignIn: Send + Sync {
    /// The token for the next request, refreshed first if it is about to expire; `None` if nobody is signed in.
    ///
    /// Without a valid token and a way to get one, nothing can be sent.
    fn token(&self) -> BoxFuture<'_, Result<Option<SecretString>, SignInError>>;

    /// Other secrets of the sign-in, which only its issuer may see, such as the refresh token.
    fn private_secrets(&self) -> Vec<SecretString> {
        Vec::new()
    }

    /// The server rejected the credentials of a request. `Ok` is another token, which is sent with the same request,
    /// once.
    fn on_rejected<'s>(
        &'s self,
        sent: Option<&'s SecretString>,
        status: StatusCode,
        challenge: Option<Challenge>,
    ) -> BoxFuture<'s, Result<SecretString, NoToken>>;
}

pub(in crate::transport) fn check_headers(
    options: &HttpOptions,
) -> Result<HeaderMap, TransportError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &options.headers {
        let (name, value) = (name.trim(), value.expose_secret().trim());
        check_header(name, value)?;
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| HeaderError::Name)?;
        let value = sensitive_header(value.as_bytes());
        headers.append(
            parsed,
            value.ok_or_else(|| HeaderError::Value(name.to_owned()))?,
        );
    }
    Ok(headers)
}

pub(in crate::transport) fn bearer(token: &SecretString) -> Option<HeaderValue> {
    // A token from a shell or a file often ends with a line break.
    let token = token.expose_secret().trim();
    sensitive_header(format!("Bearer {token}").as_bytes()).filter(|_| !token.is_empty())
}

/// A header value that no debug output shows.
pub(in crate::transport) fn sensitive_header(bytes: &[u8]) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(bytes).ok()?;
    value.set_sensitive(true);
    Some(value)
}
