//! A look at one server beside any session: nothing is saved but a record of the wire where that is asked for, nothing is
//! called, no task goes on by it.
//!
//! Owns the few exchanges that `doctor` measures. Invariant: a session that the server opens for it is ended by it.

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

/// An answer that takes longer than this is none.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long an idle stream is listened to. What buffers keeps bytes until it has kilobytes of them or the stream ends, so
/// that more patience would show no more.
const LISTEN_FOR: Duration = Duration::from_secs(2);
/// As long as that where a stream ought to begin at once: a slow way to the server is not one that holds back.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);
/// Pages of tools that are asked for.
const PAGES: usize = 16;
const VERSION: ProtocolVersion = ProtocolVersion::V20251125;

/// What was found at a server.
#[derive(Debug)]
pub struct Probe {
    /// What a handshake led to: the answer and how long it took, or what stood in its way.
    pub stateful: Result<Stateful, Obstacle>,
    /// Whether it offers tasks in 2026-07-28; `None` where it does not speak that.
    pub modern: Option<bool>,
    /// Why not all of it was recorded that was to be.
    pub unrecorded: Option<String>,
}

/// Where a look at a server is recorded; nobody else may record that server meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'r> {
    /// The session whose record it is.
    pub paths: &'r Paths,
    /// The server, as the session calls it.
    pub server: &'r ServerName,
    /// Tells when a message passed.
    pub clock: Clock,
}

/// A server that took a handshake.
#[derive(Debug)]
pub struct Stateful {
    /// From the request to the whole answer.
    pub took: Duration,
    /// The revision that it chose, as it wrote it.
    pub version: String,
    /// Its name and version for itself, not sanitised.
    pub server_info: Option<String>,
    /// What it offers of server tasks.
    pub tasks: Option<TaskCapability>,
    /// Its tools.
    pub tools: Vec<Tool>,
    /// Whether what it streams carries event ids; `None` where nothing was streamed.
    pub gives_ids: Option<bool>,
    /// How its own stream flows.
    pub flow: Flow,
}

impl Stateful {
    /// The names of the tools that keep a checkpoint, as far as that is known without a call.
    pub fn checkpoint_tools(&self, convention: &CheckpointConvention) -> Vec<&str> {
        let keeps =
            |tool: &&Tool| tool.is_offered() && tool.keeps_checkpoint(&self.tools, convention);
        let tools = self.tools.iter().filter(keeps);
        tools.map(|tool| tool.name.as_str()).collect()
    }
}

/// How the bytes of an open stream come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The first came while the stream was open.
    AtOnce(Duration),
    /// Other streams of this server begin with an event of their own, and this one showed nothing: somebody between keeps
    /// its bytes back, or it begins only those so.
    HeldBack,
    /// Nothing came, and nothing had to.
    Silent,
    /// The server gives no stream that could be listened to.
    NoStream,
}

/// Why there was no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Nobody is there, or the name leads nowhere.
    Unreachable(String),
    /// It could not prove who it is (TLS).
    Untrusted(String),
    /// It wants credentials.
    NeedsLogin,
    /// It answered with this HTTP status.
    Refused(u16),
    /// It answered, and not as an MCP server does.
    Strange(String),
}

/// Looks at the server at `url`; the headers are secrets and go to it alone.
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
        unrecorded = tracer.record(&tap, []).err();
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

/// What the answer to one request was.
struct Answer {
    result: String,
    session: Option<String>,
    took: Duration,
    was_streamed: bool,
    has_ids: bool,
    /// Whether its stream began with an event that only says where it is.
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
    let mut answer = Answer {
        result: String::new(),
        session: None,
        took: Duration::ZERO,
        was_streamed: false,
        has_ids: false,
        begins_early: false,
    };
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
                | ExchangeEvent::Alive => {}
                ExchangeEvent::Ended => break,
                ExchangeEvent::Broken { why } => return Err(Obstacle::Strange(why)),
                ExchangeEvent::TooLarge { .. } => {
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
    let answer = ask(http, request(initialize("doctor-1", VERSION), None, None)).await?;
    let handshake = parse_initialize_result(&answer.result)
        .ok_or_else(|| Obstacle::Strange("it does not answer as an MCP server".to_owned()))?;
    let version = ProtocolVersion::parse(&handshake.version);
    let session = answer.session.as_deref();
    let of_session = |method| request(method, session, version);
    // A notification has no answer; what follows shows whether it was taken.
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

/// Listens to the server's own stream for a while.
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
