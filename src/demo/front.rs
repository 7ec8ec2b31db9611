//! The HTTP layer before the SDK: answers what the SDK cannot know or says too softly.
//!
//! Two answers are given here to a GET that resumes: the rest of a stream that an earlier boot left behind, up to
//! the line that says so, and 400 for an event id that this session has no right to or that is no longer kept. All else
//! goes on to the SDK, Host and Origin checks included: a request that it would refuse is never answered here.
//! Faults that concern requests are here too.

use std::{fmt::Write as _, sync::Arc};

use axum::{
    body::Body,
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;

use super::{
    dialect,
    door::{Hook, Line},
    events::{Events, Place},
    faults::Faults,
    sessions::{HOOK, IS_MODERN, Sessions},
};

/// The names of this machine for itself.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// What the layer needs.
#[derive(Clone)]
pub(super) struct Front {
    /// The origins that a request may come from, where it names one.
    pub(super) origins: Arc<[String]>,
    pub(super) events: Arc<Events>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) faults: Arc<Faults>,
}

/// Answers a request, or lets the SDK answer it.
pub(super) async fn answer(
    State(front): State<Front>,
    ConnectInfo(line): ConnectInfo<Line>,
    request: Request,
    next: Next,
) -> Response {
    if let Some(resumption) = Resumption::of(&request, &front.origins)
        && let Some(response) = front.resumed(&resumption).await
    {
        return response;
    }
    let is_modern = dialect::is_modern(request.headers());
    match dialect::read(request).await {
        Ok((request, method)) => {
            if let Some(failure) = front.failed_poll(&method).await {
                return failure;
            }
            let hook = Arc::clone(&line.0);
            let answer = HOOK.scope(line.0, next.run(request));
            let answer = IS_MODERN.scope(is_modern, answer).await;
            if is_modern {
                front.droppable(answer, hook)
            } else {
                answer
            }
        }
        Err(refusal) => refusal,
    }
}

/// A GET that resumes, from a client that the SDK would let in.
struct Resumption {
    event: String,
    session: String,
}

impl Resumption {
    fn of(request: &Request, origins: &[String]) -> Option<Self> {
        let headers = request.headers();
        let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
        if request.method() != Method::GET || !is_from_here(headers, origins) {
            return None;
        }
        Some(Self {
            event: text("last-event-id")?,
            session: text("mcp-session-id")?,
        })
    }
}

impl Front {
    /// What becomes of a poll of a task while polls are broken.
    async fn failed_poll(&self, method: &str) -> Option<Response> {
        if !matches!(method, "tasks/get" | "tasks/result") {
            return None;
        }
        if self.faults.take_hang() {
            // Until the client gives up: its connection ends, and this with it.
            std::future::pending::<()>().await;
        }
        let refusal = (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")]);
        self.faults
            .are_polls_failing()
            .then(|| refusal.into_response())
    }

    /// A stream of the modern era, which the drop fault can end after an event; others pass through the event store.
    fn droppable(&self, answer: Response, hook: Arc<Hook>) -> Response {
        let kind = answer.headers().get(header::CONTENT_TYPE);
        if kind.is_none_or(|kind| kind != "text/event-stream") {
            return answer;
        }
        let faults = Arc::clone(&self.faults);
        answer.map(|body| {
            Body::from_stream(body.into_data_stream().inspect(move |chunk| {
                // A chunk is an event, or a comment that keeps the connection alive.
                let is_event = chunk.as_ref().is_ok_and(|chunk| !chunk.starts_with(b":"));
                if is_event && faults.take_drop() {
                    hook.drop_after_flush();
                }
            }))
        })
    }

    async fn resumed(&self, asked: &Resumption) -> Option<Response> {
        let session = asked.session.as_str();
        let place = match self.events.locate(&asked.event) {
            Ok(place) => place.filter(|place| place.session.as_deref() == Some(session)),
            Err(error) => {
                tracing::error!(%error, "an event id could not be looked up");
                return Some(StatusCode::INTERNAL_SERVER_ERROR.into_response());
            }
        };
        match place {
            Some(place) if !place.this_boot => self.left_behind(&place),
            // An unknown session is the SDK's to refuse; an unknown id must not reveal whether it is another's.
            None if !self.events.is_cross_stream() && self.sessions.is_live(session).await => {
                Some((StatusCode::BAD_REQUEST, "Bad Request: unknown event id").into_response())
            }
            Some(_) | None => None,
        }
    }

    /// The rest of a stream of an earlier boot; nothing if there is none, so that the SDK says that the session is gone.
    fn left_behind(&self, place: &Place) -> Option<Response> {
        let rest = self
            .events
            .rest(place)
            .inspect_err(|error| tracing::error!(%error, "could not read events"))
            .ok()?;
        if rest.is_empty() {
            return None;
        }
        let mut body = String::new();
        for (id, data) in rest {
            // JSON holds no line ends, and writing to a string cannot fail.
            let _ = write!(body, "data: {data}\nid: {id}\n\n");
        }
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        Some((headers, Body::from(body)).into_response())
    }
}

/// The origins of a page that this server itself would serve. A page of any other origin that reaches this port by a name
/// of its own (DNS rebinding) sends that name, as host and as origin.
pub(super) fn own_origins(port: u16) -> Vec<String> {
    HOSTS
        .iter()
        .map(|host| format!("http://{host}:{port}"))
        .collect()
}

/// Whether a request names a loopback host and comes from no web page but our own.
fn is_from_here(headers: &HeaderMap, origins: &[String]) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let mut named = headers.get_all(header::ORIGIN).iter();
    let is_own = named.all(|origin| {
        origins
            .iter()
            .any(|own| own.as_bytes() == origin.as_bytes())
    });
    is_own && HOSTS.contains(&name)
}
