//! A check of one server outside any session: it saves nothing except a trace if requested, calls no tool and continues
//! no task.
//!
//! Owns the few exchanges that `doctor` measures. Invariant: it ends every server session that it opened.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt as _};
use secrecy::SecretString;
use tokio::time::timeout;

use super::{clock::Clock, snapshots::Snapshots, tracer::Tracer};
use crate::{
    domain::{
        CheckpointConvention, ProtocolVersion, ServerName, SessionEvent, TaskCapability, Tool,
    },
    protocol::{
        Body, ExchangeEvent, Incoming, Method, Request, decode,
        encode::{discover, initialize, initialized_notification, list_tools},
        parse_discover_result, parse_initialize_result, parse_tool_page,
    },
    store::Paths,
    transport::{Http, HttpOptions},
};

/// The timeout for a response.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long an idle stream is watched. A buffering proxy holds bytes until it has kilobytes or the stream ends, so
/// waiting longer would show nothing more.
const LISTEN_FOR: Duration = Duration::from_secs(2);
/// The same for a stream that should begin at once: a slow network is not a buffering proxy.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);
/// The maximum number of tool pages to request.
const PAGES: usize = 16;
const VERSION: ProtocolVersion = ProtocolVersion::V20251125;

/// What the check found.
#[derive(Debug)]
pub struct Probe {
    /// The outcome of the handshake: the response and its duration, or the failure.
    pub stateful: Result<Stateful, Obstacle>,
    /// Whether it offers tasks in 2026-07-28; `None` if it does not support that revision.
    pub modern: Option<bool>,
    /// Why the trace is incomplete, if it is.
    pub unrecorded: Option<String>,
}

/// Where to trace a check; no other process may trace that server meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'r> {
    /// The session that the trace belongs to.
    pub paths: &'r Paths,
    /// The server's name in the session.
    pub server: &'r ServerName,
    /// The clock for message times.
    pub clock: Clock,
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
    /// Its support for server tasks.
    pub tasks: Option<TaskCapability>,
    /// Its tools.
    pub tools: Vec<Tool>,
    /// Whether its stream events carry ids; `None` if nothing was streamed.
    pub gives_ids: Option<bool>,
    /// How its standalone stream behaves.
    pub flow: Flow,
}

impl Stateful {
    /// The names of the tools that keep a checkpoint, as far as known without a call.
    pub fn checkpoint_tools(&self, convention: &CheckpointConvention) -> Vec<&str> {
        let keeps =
            |tool: &&Tool| tool.is_offered() && tool.keeps_checkpoint(&self.tools, convention);
        let tools = self.tools.iter().filter(keeps);
        tools.map(|tool| tool.name.as_str()).collect()
    }
}

/// How the bytes of an open stream arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The first bytes arrived while the stream was open.
    AtOnce(Duration),
    /// Other streams of this server begin with an initial event, but this one showed nothing: a proxy holds its bytes
    /// back, or the server begins only the others that way.
    HeldBack,
    /// Nothing arrived, and nothing had to.
    Silent,
    /// The server offers no standalone stream.
    NoStream,
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
pub async fn probe(
    url: &str,
    headers: Vec<(String, SecretString)>,
    recording: Option<Recording<'_>>,
) -> Probe {
    let mut options = HttpOptions::new(url);
    options.headers = headers;
    let snapshots = Arc::<Snapshots>::default();
    let mut unrecorded = None;
    let tracer = recording.map(|to| {
        let mut tracer = Tracer::new(to.paths, &snapshots, to.clock);
        let tap = tracer.tap(to.server);
        unrecorded = tracer.record(&tap, []).err().map(|error| error.to_string());
        options.traffic = Some(tap);
        tracer
    });
    let (stateful, modern) = match Http::new(options) {
        Ok(http) => look(&http).await,
        Err(error) => (Err(Obstacle::Unreachable(error.to_string())), None),
    };
    if let Some(tracer) = tracer {
        tracer.close();
    }
    let complaint = snapshots
        .subscribe()
        .take()
        .into_iter()
        .find_map(|news| match news {
            SessionEvent::Notice(notice) => Some(notice.text),
            _ => None,
        });
    Probe {
        stateful,
        modern,
        unrecorded: unrecorded.or(complaint),
    }
}

async fn look(http: &Http) -> (Result<Stateful, Obstacle>, Option<bool>) {
    let stateful = stateful(http).await;
    let is_there = !matches!(
        stateful,
        Err(Obstacle::Unreachable(_) | Obstacle::Untrusted(_) | Obstacle::NeedsLogin)
    );
    let modern = if is_there { modern(http).await } else { None };
    (stateful, modern)
}

/// The outcome of one request.
#[derive(Default)]
struct Answer {
    result: String,
    session: Option<String>,
    took: Duration,
    was_streamed: bool,
    has_ids: bool,
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
    let mut arrivals: Arrivals = Box::pin(http.exchange(request));
    let mut answer = Answer::default();
    let reading = async {
        while let Some(arrival) = arrivals.next().await {
            match arrival {
                ExchangeEvent::Opened { body, session } => {
                    answer.session = session;
                    answer.was_streamed = body == Body::Stream;
                }
                ExchangeEvent::Event { id, data, .. } => {
                    answer.has_ids |= id.is_some();
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
                ExchangeEvent::Endpoint { .. }
                | ExchangeEvent::MoreRequests(_)
                | ExchangeEvent::Sent
                | ExchangeEvent::Alive => {}
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
    let version = ProtocolVersion::parse(&handshake.version);
    let session = answer.session.as_deref();
    let of_session = |method| request(method, session, version);
    // A notification has no response; later requests show whether it was accepted.
    let _ = ask(http, of_session(initialized_notification())).await;
    let mut all = Vec::new();
    let mut cursor = None;
    let mut has_ids = answer.was_streamed.then_some(answer.has_ids);
    for page in 0..PAGES {
        let id = format!("doctor-{}", page + 2);
        let method = list_tools(version.unwrap_or(VERSION), &id, cursor.as_deref());
        let Ok(answer) = ask(http, of_session(method)).await else {
            break;
        };
        if answer.was_streamed {
            has_ids = Some(has_ids.unwrap_or_default() || answer.has_ids);
        }
        let (more, next) = parse_tool_page(&answer.result);
        all.extend(more);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
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
        version: handshake.version,
        server_info: handshake.server_info,
        tasks: handshake.tasks,
        tools: all,
        gives_ids: has_ids,
        flow,
    })
}

/// Listens to the server's standalone stream for a while.
async fn flow(http: &Http, request: Request, begins_early: bool) -> Flow {
    let begun = tokio::time::Instant::now();
    let mut arrivals: Arrivals = Box::pin(http.exchange(request));
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
                _ => return Flow::NoStream,
            }
        }
        Flow::NoStream
    };
    let patience = if begins_early {
        BEGINS_WITHIN
    } else {
        LISTEN_FOR
    };
    match timeout(patience, first).await {
        Ok(flow) => flow,
        Err(_) if begins_early => Flow::HeldBack,
        Err(_) => Flow::Silent,
    }
}

async fn modern(http: &Http) -> Option<bool> {
    let version = ProtocolVersion::V20260728;
    let method = discover("doctor-0", version);
    let answer = ask(http, request(method, None, Some(version))).await.ok()?;
    parse_discover_result(&answer.result).map(|found| found.has_tasks)
}
