//! A check of one server outside any session: it saves nothing, calls no tool and continues no task.
//!
//! Owns the few exchanges that `doctor` measures. Invariant: it ends every server session that it opened.

use std::{pin::Pin, time::Duration};

use futures_util::{Stream, StreamExt as _};
use secrecy::SecretString;
use tokio::time::timeout;

use crate::{
    domain::ProtocolVersion,
    protocol::{
        Body, ExchangeEvent, Incoming, Method, Request, decode,
        encode::{discover, initialize, initialized_notification},
        parse_discover_result, parse_initialize_result,
    },
    transport::{Http, HttpOptions},
};

/// The timeout for a response.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long an idle stream is watched. A buffering proxy holds bytes until it has kilobytes or the stream ends, so
/// waiting longer would show nothing more.
const LISTEN_FOR: Duration = Duration::from_secs(2);
/// The same for a stream that should begin at once: a slow network is not a buffering proxy.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);
const VERSION: ProtocolVersion = ProtocolVersion::V20251125;

/// What the check found.
#[derive(Debug)]
pub struct Probe {
    /// The outcome of the handshake: the response and its duration, or the failure.
    pub stateful: Result<Stateful, Obstacle>,
    /// Whether it speaks 2026-07-28.
    pub is_modern: bool,
}

/// A server that accepted a handshake.
#[derive(Debug)]
pub struct Stateful {
    /// The time from the request to the complete response.
    pub took: Duration,
    /// The revision that it chose, verbatim.
    pub version: String,
    /// Its own name and version, not sanitized.
    pub server_info: Option<String>,
    /// How its standalone stream behaves.
    pub flow: Flow,
}

/// How the bytes of an open stream arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The first bytes arrived while the stream was open.
    AtOnce(Duration),
    /// Other streams of this server begin with an initial event, but this one showed nothing: a proxy holds its bytes
    /// back, or the server begins only the others that way.
    HeldBack,
    /// Nothing arrived, and nothing had to; or there is no standalone stream.
    Unknown,
}

/// Why there was no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The host cannot be resolved or reached.
    Unreachable(String),
    /// It could not prove its identity (TLS).
    Untrusted(String),
    /// It requires credentials.
    NeedsLogin,
    /// It answered with this HTTP status.
    Refused(u16),
    /// It answered, but not as an MCP server.
    Strange(String),
}

/// Checks the server at `url`; the headers are secrets and go only there.
pub async fn probe(url: &str, headers: Vec<(String, SecretString)>) -> Probe {
    let mut options = HttpOptions::new(url);
    options.headers = headers;
    let http = match Http::new(options) {
        Ok(http) => http,
        Err(error) => {
            return Probe {
                stateful: Err(Obstacle::Unreachable(error.to_string())),
                is_modern: false,
            };
        }
    };
    let stateful = stateful(&http).await;
    let is_there = !matches!(
        stateful,
        Err(Obstacle::Unreachable(_) | Obstacle::Untrusted(_) | Obstacle::NeedsLogin)
    );
    Probe {
        is_modern: is_there && is_modern(&http).await,
        stateful,
    }
}

/// The outcome of one request.
#[derive(Default)]
struct Answer {
    result: String,
    session: Option<String>,
    took: Duration,
    /// Whether its stream began with a priming event.
    begins_early: bool,
}

fn request(method: Method, session: Option<&str>, version: Option<ProtocolVersion>) -> Request {
    Request {
        method,
        session: session.map(str::to_owned),
        version,
        target: None,
    }
}

type Arrivals = Pin<Box<dyn Stream<Item = ExchangeEvent> + Send>>;

async fn ask(http: &Http, request: Request) -> Result<Answer, Obstacle> {
    let begun = tokio::time::Instant::now();
    let mut arrivals: Arrivals = Box::pin(http.exchange_for(None, request));
    let mut answer = Answer::default();
    let reading = async {
        while let Some(arrival) = arrivals.next().await {
            match arrival {
                ExchangeEvent::Opened { session, .. } => answer.session = session,
                ExchangeEvent::Event { data, .. } => {
                    answer.begins_early |= data.is_empty();
                    for message in decode(&data) {
                        match message {
                            Incoming::Response {
                                outcome: Ok(result),
                                ..
                            } => {
                                result.get().clone_into(&mut answer.result);
                                return Ok(());
                            }
                            Incoming::Response {
                                outcome: Err(error),
                                ..
                            } => return Err(Obstacle::Strange(error.message)),
                            _ => {}
                        }
                    }
                }
                ExchangeEvent::Ended => break,
                ExchangeEvent::Broken { why } => return Err(Obstacle::Strange(why)),
                ExchangeEvent::TooLarge { .. } | ExchangeEvent::ResponseTooLarge { .. } => {
                    return Err(Obstacle::Strange("its answer is too large".to_owned()));
                }
                ExchangeEvent::Refused(refusal) if matches!(refusal.status, 401 | 403) => {
                    return Err(Obstacle::NeedsLogin);
                }
                ExchangeEvent::Refused(refusal) => return Err(Obstacle::Refused(refusal.status)),
                ExchangeEvent::NotSent { why, .. } | ExchangeEvent::NoAnswer { why } => {
                    return Err(Obstacle::Unreachable(why));
                }
                ExchangeEvent::Untrusted { why } => return Err(Obstacle::Untrusted(why)),
                _ => {}
            }
        }
        Ok(())
    };
    let outcome = timeout(ANSWER_WITHIN, reading).await.unwrap_or_else(|_| {
        let words = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
        Err(Obstacle::Strange(words))
    });
    outcome?;
    answer.took = begun.elapsed();
    Ok(answer)
}

async fn stateful(http: &Http) -> Result<Stateful, Obstacle> {
    let answer = ask(
        http,
        request(initialize("doctor-1", VERSION, None), None, None),
    )
    .await?;
    let handshake = parse_initialize_result(&answer.result)
        .ok_or_else(|| Obstacle::Strange("it does not answer as an MCP server".to_owned()))?;
    let version = ProtocolVersion::parse(&handshake.versions.concat());
    let session = answer.session.as_deref();
    let of_session = |method| request(method, session, version);
    // A notification has no response; the next request shows whether it was accepted.
    let _ = ask(http, of_session(initialized_notification())).await;
    let flow = flow(
        http,
        of_session(Method::Get { cursor: None }),
        answer.begins_early,
    )
    .await;
    if session.is_some() {
        let _ = ask(http, of_session(Method::Delete)).await;
    }
    Ok(Stateful {
        took: answer.took,
        version: handshake.versions.concat(),
        server_info: handshake.server_info,
        flow,
    })
}

/// Listens to the server's standalone stream for a while.
async fn flow(http: &Http, request: Request, begins_early: bool) -> Flow {
    let begun = tokio::time::Instant::now();
    let mut arrivals: Arrivals = Box::pin(http.exchange_for(None, request));
    let first = async {
        while let Some(arrival) = arrivals.next().await {
            match arrival {
                ExchangeEvent::Opened {
                    body: Body::Stream, ..
                }
                | ExchangeEvent::MoreRequests(_) => {}
                ExchangeEvent::Event { .. } | ExchangeEvent::Alive => {
                    return Flow::AtOnce(begun.elapsed());
                }
                _ => break,
            }
        }
        Flow::Unknown
    };
    let (patience, unheard) = if begins_early {
        (BEGINS_WITHIN, Flow::HeldBack)
    } else {
        (LISTEN_FOR, Flow::Unknown)
    };
    timeout(patience, first).await.unwrap_or(unheard)
}

async fn is_modern(http: &Http) -> bool {
    let version = ProtocolVersion::V20260728;
    let method = discover("doctor-0", version);
    let answer = ask(http, request(method, None, Some(version))).await;
    answer.is_ok_and(|answer| parse_discover_result(&answer.result).is_some())
}
