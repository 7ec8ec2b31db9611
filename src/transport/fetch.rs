//! Fetches small documents that are not MCP traffic: metadata, registrations, tokens.
//!
//! Owns their size limit and timeout. Must not know what they mean. Invariant: only a GET follows redirects, and only
//! within its origin; no part of a request ends up in an error.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use futures_util::StreamExt as _;
use reqwest::{
    Response,
    header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, LOCATION},
};
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::{error_text, http::challenge_in};
use crate::{
    domain::{base64, locked, server_url::is_loopback},
    protocol::{Challenge, ExchangeEvent},
    transport::http::{
        client::{ClientError, HttpClient, build_client},
        options::sensitive_header,
        origin::{RedirectError, resolve_same_origin},
    },
};

/// Ten times the largest of these documents seen in the wild.
const MAX_BYTES: usize = 256 * 1024;

/// Covers everything from connecting to the last byte.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Redirects that one fetch follows.
const MAX_REDIRECTS: usize = 3;

/// The method and body of a fetch.
pub enum FetchRequest<'s> {
    /// GET.
    Get,
    /// POST of a JSON document; accepts the content types of an MCP endpoint.
    Json(String),
    /// POST of form fields, with an optional user name and password for `Authorization: Basic`.
    Form(
        &'s [(&'s str, &'s str)],
        Option<(&'s str, &'s SecretString)>,
    ),
}

/// A response with any status. Without `Debug`, as its body may contain secrets.
pub struct FetchResponse {
    /// HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no response, as a message for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// A retry may succeed.
    #[error("{0}")]
    Transient(String),
    /// A retry would fail too.
    #[error("{0}")]
    Permanent(String),
}

/// Fetches documents. Keeps an HTTP client for localhost and one for other hosts, each with and without TLS.
#[derive(Default)]
pub struct Fetcher {
    /// By whether the host is this machine, and whether it speaks TLS.
    clients: Mutex<HashMap<(bool, bool), HttpClient>>,
}

impl Fetcher {
    /// Fetches one document. Needs a tokio runtime with time and IO.
    ///
    /// # Errors
    /// [`FetchError`]; its message contains no URL, header or body.
    pub async fn fetch(
        &self,
        url: &Url,
        request: FetchRequest<'_>,
    ) -> Result<FetchResponse, FetchError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send(&url, &request).await?;
            let location = response.headers().get(LOCATION);
            match location.filter(|_| response.status().is_redirection()) {
                Some(location) if matches!(request, FetchRequest::Get) => {
                    url = resolve_same_origin(&url, location.as_bytes()).map_err(|error| {
                        FetchError::Permanent(RedirectError::from(error).to_string())
                    })?;
                }
                Some(_) => {
                    let why = "it redirects a POST, which longhaul doesn't follow";
                    return Err(FetchError::Permanent(why.to_owned()));
                }
                None => return read_document(response).await,
            }
        }
        let why = "too many redirects";
        Err(FetchError::Permanent(why.to_owned()))
    }

    /// Posts a JSON document and reads only the head of the response: its status and `WWW-Authenticate`.
    ///
    /// # Errors
    /// As for [`Self::fetch`].
    pub async fn probe(
        &self,
        url: &Url,
        json: String,
    ) -> Result<(u16, Option<Challenge>), FetchError> {
        let response = self.send(url, &FetchRequest::Json(json)).await?;
        Ok((response.status().as_u16(), challenge_in(response.headers())))
    }

    async fn send(&self, url: &Url, request: &FetchRequest<'_>) -> Result<Response, FetchError> {
        let HttpClient { client, has_roots } = self
            .client(url)
            .map_err(|error| FetchError::Permanent(error.to_string()))?;
        let builder = match request {
            FetchRequest::Get => client.get(url.clone()).header(ACCEPT, "application/json"),
            FetchRequest::Json(body) => client
                .post(url.clone())
                .header(ACCEPT, "application/json, text/event-stream")
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone()),
            FetchRequest::Form(fields, basic) => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(*fields);
                let mut builder = client
                    .post(url.clone())
                    .header(ACCEPT, "application/json")
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(form.finish());
                // Both parts form-encoded (RFC 6749, section 2.3.1).
                if let Some((name, password)) = basic {
                    let [name, password] = [name, password.expose_secret()].map(|text| -> String {
                        url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
                    });
                    let both = base64(format!("{name}:{password}").as_bytes());
                    let value = sensitive_header(format!("Basic {both}").as_bytes());
                    let value = value.ok_or_else(|| {
                        let why = "the client secret has characters that a header can't carry";
                        FetchError::Permanent(why.to_owned())
                    })?;
                    builder = builder.header(AUTHORIZATION, value);
                }
                builder
            }
        };
        let builder = builder.header(ACCEPT_ENCODING, "identity").timeout(TIMEOUT);
        builder.send().await.map_err(|error| {
            let host = url.host_str().unwrap_or_default();
            if error.is_timeout() && !error.is_connect() {
                return FetchError::Transient(timeout_message());
            }
            match error_text::no_response(&error, host, has_roots) {
                ExchangeEvent::Untrusted { why } => FetchError::Permanent(why),
                ExchangeEvent::NotSent { why, .. } | ExchangeEvent::NoAnswer { why } => {
                    FetchError::Transient(why)
                }
                _ => FetchError::Transient("no response".to_owned()),
            }
        })
    }

    fn client(&self, url: &Url) -> Result<HttpClient, ClientError> {
        let kind = (is_loopback(url), url.scheme() == "https");
        let mut clients = locked(&self.clients);
        if let Some(client) = clients.get(&kind) {
            return Ok(client.clone());
        }
        let client = build_client(url, &[])?;
        clients.insert(kind, client.clone());
        Ok(client)
    }
}

fn timeout_message() -> String {
    format!("no response within {} s", TIMEOUT.as_secs())
}

async fn read_document(response: Response) -> Result<FetchResponse, FetchError> {
    let status = response.status();
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(chunk) = bytes.next().await {
        let chunk = chunk.map_err(|error| {
            FetchError::Transient(if error.is_timeout() {
                timeout_message()
            } else {
                error_text::broken_body(&error)
            })
        })?;
        if body.len() + chunk.len() > MAX_BYTES {
            let why = format!("the document is larger than {} KiB", MAX_BYTES / 1024);
            return Err(FetchError::Permanent(why));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(FetchResponse {
        status: status.as_u16(),
        body,
    })
}
