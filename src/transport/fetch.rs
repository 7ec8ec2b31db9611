//! Small documents of servers that are no MCP endpoints: metadata, registrations, tokens.
//!
//! Owns their limits in size and time. Must not know what they mean. Invariant: a redirect is followed for a GET of the
//! same origin only, and nothing of a request reaches an error.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures_util::StreamExt as _;
use reqwest::{
    Response,
    header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, LOCATION},
};
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::{
    http::{Ready, build_client, challenge_of, same_origin, secret},
    messages,
};
use crate::{
    domain::{base64, server_url::is_loopback},
    protocol::{Challenge, ExchangeEvent},
};

/// The largest of these documents seen in the wild is a tenth of it.
const BYTES: usize = 256 * 1024;
/// From the connection to the last byte.
const WITHIN: Duration = Duration::from_secs(30);
/// Redirects of one fetch.
const REDIRECTS: usize = 3;

/// What a fetch sends.
pub enum Sent<'s> {
    /// Nothing.
    Nothing,
    /// A JSON document; accepts what an MCP endpoint answers.
    Json(String),
    /// A form of names and values, with a name and secret for `Authorization: Basic`.
    Form(
        &'s [(&'s str, &'s str)],
        Option<(&'s str, &'s SecretString)>,
    ),
}

/// What came of a fetch.
#[derive(Debug)]
pub struct Fetched {
    /// HTTP status.
    pub status: u16,
    /// The body, which may be a secret.
    pub body: Body,
}

/// The bytes of a document, kept out of debug texts.
pub struct Body(pub Vec<u8>);

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Why there is no document, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// It may come when it is asked for again.
    #[error("{0}")]
    NoAnswer(String),
    /// It will not.
    #[error("{0}")]
    Refused(String),
}

/// Fetches documents; keeps a client for this machine and one for all others, of each scheme.
#[derive(Default)]
pub struct Fetcher {
    clients: Mutex<[Option<Ready>; 4]>,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").finish_non_exhaustive()
    }
}

impl Fetcher {
    /// Fetches one document. Needs a tokio runtime with time and IO.
    ///
    /// # Errors
    /// In words without URL, headers or body.
    pub async fn fetch(&self, url: &Url, sent: Sent<'_>) -> Result<Fetched, FetchError> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS {
            let response = self.send(&url, &sent).await?;
            let location = response.headers().get(LOCATION);
            match location.filter(|_| response.status().is_redirection()) {
                Some(location) if matches!(sent, Sent::Nothing) => {
                    url = same_origin(&url, location.as_bytes())
                        .map_err(|why| FetchError::Refused(format!("it {why}; not followed")))?;
                }
                Some(_) => {
                    let why = "it points elsewhere, and what was sent there goes nowhere else";
                    return Err(FetchError::Refused(why.to_owned()));
                }
                None => return whole(response).await,
            }
        }
        let why = "it points on and on; not followed further";
        Err(FetchError::Refused(why.to_owned()))
    }

    /// Sends a JSON document and reads the head of the answer alone: its status, and what it says of credentials.
    ///
    /// # Errors
    /// As [`Self::fetch`].
    pub async fn probe(
        &self,
        url: &Url,
        json: String,
    ) -> Result<(u16, Option<Challenge>), FetchError> {
        let response = self.send(url, &Sent::Json(json)).await?;
        Ok((response.status().as_u16(), challenge_of(response.headers())))
    }

    async fn send(&self, url: &Url, sent: &Sent<'_>) -> Result<Response, FetchError> {
        let Ready { client, has_roots } = self.client(url).map_err(FetchError::Refused)?;
        let request = match sent {
            Sent::Nothing => client.get(url.clone()).header(ACCEPT, "application/json"),
            Sent::Json(body) => client
                .post(url.clone())
                .header(ACCEPT, "application/json, text/event-stream")
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone()),
            Sent::Form(fields, basic) => {
                let mut form = url::form_urlencoded::Serializer::new(String::new());
                form.extend_pairs(*fields);
                let mut request = client
                    .post(url.clone())
                    .header(ACCEPT, "application/json")
                    .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                    .body(form.finish());
                if let Some((name, password)) = basic {
                    request = request.header(AUTHORIZATION, basic_of(name, password)?);
                }
                request
            }
        };
        let request = request.header(ACCEPT_ENCODING, "identity").timeout(WITHIN);
        request.send().await.map_err(|error| {
            let host = url.host_str().unwrap_or_default();
            if error.is_timeout() && !error.is_connect() {
                return FetchError::NoAnswer(late());
            }
            match messages::before_head(&error, host, has_roots) {
                ExchangeEvent::Untrusted { why } => FetchError::Refused(why),
                ExchangeEvent::NotSent { why, .. } | ExchangeEvent::NoAnswer { why } => {
                    FetchError::NoAnswer(why)
                }
                _ => FetchError::NoAnswer("no answer".to_owned()),
            }
        })
    }

    fn client(&self, url: &Url) -> Result<Ready, String> {
        let kind = 2 * usize::from(is_loopback(url)) + usize::from(url.scheme() == "https");
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = clients.get_mut(kind).ok_or("no such client")?;
        if let Some(ready) = slot {
            return Ok(ready.clone());
        }
        Ok(slot.insert(build_client(url, &[])?).clone())
    }
}

/// `Authorization: Basic`, with both parts in the form of RFC 6749, section 2.3.1.
fn basic_of(
    name: &str,
    password: &SecretString,
) -> Result<reqwest::header::HeaderValue, FetchError> {
    let encoded =
        |text: &str| -> String { url::form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let both = format!("{}:{}", encoded(name), encoded(password.expose_secret()));
    let value = secret(format!("Basic {}", base64(both.as_bytes())).as_bytes());
    value.ok_or_else(|| FetchError::Refused("the client's secret fits into no header".to_owned()))
}

fn late() -> String {
    format!("no answer within {} s", WITHIN.as_secs())
}

async fn whole(response: Response) -> Result<Fetched, FetchError> {
    let status = response.status();
    let mut body = Vec::new();
    let mut bytes = response.bytes_stream();
    while let Some(chunk) = bytes.next().await {
        let chunk = chunk.map_err(|error| {
            FetchError::NoAnswer(if error.is_timeout() {
                late()
            } else {
                messages::in_body(&error)
            })
        })?;
        if body.len() + chunk.len() > BYTES {
            let why = format!("its document is larger than {} KiB", BYTES / 1024);
            return Err(FetchError::Refused(why));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Fetched {
        status: status.as_u16(),
        body: Body(body),
    })
}
