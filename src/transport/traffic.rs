//! Records a server's traffic, for a writer elsewhere.
//!
//! Owns what is recorded and what is redacted. Must not know about files. Invariants: no header value that may be a secret,
//! and no secret that this process knows, leaves this module. Recording never waits; while it is off, it costs one atomic
//! load. Sign-in requests are never recorded.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use reqwest::{StatusCode, header::HeaderMap};
use serde::Deserialize;
use url::Url;

use super::secrets::{MAX_PATH_SEGMENT_BYTES, Secrets};
use crate::{
    domain::{
        Direction, EventId, ServerName, TaskId, TrafficEntry, TrafficKind, Wall,
        is_credential_name, locked, text,
    },
    protocol::ExchangeEvent,
};

/// Replaces a redacted value.
const REDACTED: &str = "[redacted]";
/// Bytes recorded of one body; the rest is only counted.
const RECORDED_BODY_BYTES: usize = 64 * 1024;
/// Calls that are remembered to attribute messages on a shared stream.
const MAX_KNOWN_CALLS: usize = 1024;
/// Larger messages on a shared stream are not parsed to find their task.
const MAX_PARSED_BYTES: usize = 1 << 20;

/// Headers that look secret by name, but only say which credentials the server wants.
const PUBLIC_HEADERS: [&str; 2] = ["www-authenticate", "proxy-authenticate"];

/// Writes the entries of a [`TrafficRecorder`].
pub trait TrafficWriter: Send + Sync {
    /// Takes an entry without waiting. If its queue is full, the implementation drops and counts the entry.
    fn take(&self, entry: TrafficEntry);
}

/// Turns recording on and off; clones share the switch.
#[derive(Clone, Debug, Default)]
pub struct RecordingSwitch(Arc<AtomicBool>);

impl RecordingSwitch {
    /// Whether traffic is recorded.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the switch and returns the previous value.
    pub fn set(&self, is_on: bool) -> bool {
        self.0.swap(is_on, Ordering::Relaxed)
    }
}

/// Records the traffic of one server; cheap to clone.
#[derive(Clone)]
pub struct TrafficRecorder {
    inner: Arc<Inner>,
}

struct Inner {
    server: ServerName,
    switch: RecordingSwitch,
    writer: Arc<dyn TrafficWriter>,
    now: Box<dyn Fn() -> Wall + Send + Sync>,
    exchanges: AtomicU64,
    /// Request id and task of each call; the request id is also its progress token.
    known: Mutex<VecDeque<(String, TaskId)>>,
}

impl TrafficRecorder {
    /// A recorder for `server`, which passes entries to `writer` while `switch` is on.
    pub fn new(
        server: ServerName,
        switch: RecordingSwitch,
        writer: Arc<dyn TrafficWriter>,
        now: impl Fn() -> Wall + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                server,
                switch,
                writer,
                now: Box::new(now),
                exchanges: AtomicU64::new(0),
                known: Mutex::default(),
            }),
        }
    }

    /// The switch that turns this recorder on and off.
    pub fn switch(&self) -> &RecordingSwitch {
        &self.inner.switch
    }

    /// Adds running calls (request id and task), so that their messages on a shared stream are attributed to them.
    pub fn add_calls(&self, calls: impl IntoIterator<Item = (String, TaskId)>) {
        let mut known = locked(&self.inner.known);
        for call in calls {
            if known.iter().any(|(id, _)| *id == call.0) {
                continue;
            }
            if known.len() == MAX_KNOWN_CALLS {
                known.pop_front();
            }
            known.push_back(call);
        }
    }
}

/// The first [`RECORDED_BODY_BYTES`] of a text, and how many bytes were left out.
fn truncated(text: &str) -> (String, u64) {
    let kept = text::head(text, RECORDED_BODY_BYTES);
    let rest = text.len() - kept.len();
    (kept.to_owned(), u64::try_from(rest).unwrap_or(u64::MAX))
}

/// A URL without the parts that may be keys: query values and long path segments.
fn redacted_url(text: &str) -> String {
    let (path, query) = text
        .split_once('?')
        .map_or((text, None), |(path, query)| (path, Some(query)));
    // Scheme and host are not redacted.
    let first_path_index = if path.contains("://") { 3 } else { 0 };
    let segments = path.split('/').enumerate();
    let segments = segments.map(|(index, segment)| {
        if index >= first_path_index && segment.len() > MAX_PATH_SEGMENT_BYTES {
            REDACTED
        } else {
            segment
        }
    });
    let mut shown = segments.collect::<Vec<_>>().join("/");
    if let Some(query) = query {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) => format!("{name}={REDACTED}"),
            None => REDACTED.to_owned(),
        });
        shown.push('?');
        shown.push_str(&pairs.collect::<Vec<_>>().join("&"));
    }
    shown
}

/// The ids in a message that tell which call it belongs to.
#[derive(Deserialize)]
struct MessageIds<'m> {
    #[serde(borrow)]
    id: Option<RpcId<'m>>,
    #[serde(borrow)]
    params: Option<Params<'m>>,
}

#[derive(Deserialize)]
struct Params<'m> {
    #[serde(borrow, rename = "progressToken")]
    token: Option<RpcId<'m>>,
    #[serde(borrow, rename = "requestId")]
    request: Option<RpcId<'m>>,
}

/// A JSON-RPC request id.
#[derive(Deserialize)]
#[serde(untagged)]
enum RpcId<'m> {
    #[serde(borrow)]
    Text(Cow<'m, str>),
    Number(serde_json::Number),
}

impl RpcId<'_> {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone().into_owned(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// Records one exchange, or nothing.
#[derive(Clone, Default)]
pub(super) struct ExchangeRecorder {
    traffic: Option<TrafficRecorder>,
    secrets: Secrets,
    number: u64,
    task: Option<TaskId>,
}

impl ExchangeRecorder {
    /// Records the next exchange of `traffic`, for `task` if it belongs to only that one.
    pub(super) fn start(
        traffic: Option<&TrafficRecorder>,
        task: Option<TaskId>,
        secrets: &Secrets,
    ) -> Self {
        let next = |it: &TrafficRecorder| it.inner.exchanges.fetch_add(1, Ordering::Relaxed) + 1;
        Self {
            number: traffic.map_or(0, next),
            traffic: traffic.cloned(),
            secrets: secrets.clone(),
            task,
        }
    }

    fn is_on(&self) -> bool {
        self.traffic.as_ref().is_some_and(|it| it.switch().is_on())
    }

    pub(super) fn request(
        &self,
        method: &reqwest::Method,
        url: &Url,
        headers: &HeaderMap,
        body: Option<&str>,
    ) {
        if !self.is_on() {
            return;
        }
        let body = body.unwrap_or_default();
        self.note_call(body);
        let (data, left_out) = self.redacted_start(body);
        let path = match url.query() {
            Some(query) => redacted_url(&format!("{}?{query}", url.path())),
            None => redacted_url(url.path()),
        };
        self.record(
            Direction::Sent,
            TrafficKind::Request {
                method: method.to_string(),
                path: self.redacted_text(&path),
                headers: self.headers(headers),
                data,
                left_out,
            },
        );
    }

    pub(super) fn response_head(&self, status: StatusCode, headers: &HeaderMap) {
        if self.is_on() {
            let what = TrafficKind::Answer {
                status: status.as_u16(),
                headers: self.headers(headers),
            };
            self.record(Direction::Received, what);
        }
    }

    /// Records an SSE event; `event` is its type if that is not `message`.
    pub(super) fn event(
        &self,
        event: Option<&str>,
        id: Option<&EventId>,
        retry_ms: Option<u64>,
        data: &str,
    ) {
        if !self.is_on() {
            return;
        }
        let task = self.task_of(data);
        let (data, left_out) = if event == Some("endpoint") {
            self.redacted_start(&redacted_url(data))
        } else {
            self.redacted_start(data)
        };
        let what = TrafficKind::Event {
            event: event.map(|name| self.redacted_text(name)),
            id: id.map(|id| self.redacted_text(id)),
            retry: retry_ms,
            data,
            left_out,
        };
        self.record_for(task, Direction::Received, what);
    }

    pub(super) fn response_body(&self, text: &str) {
        if self.is_on() {
            let task = self.task_of(text);
            let (data, left_out) = self.redacted_start(text);
            self.record_for(
                task,
                Direction::Received,
                TrafficKind::Body { data, left_out },
            );
        }
    }

    /// Records a line to or from a server process.
    pub(super) fn line(&self, way: Direction, line: &[u8]) {
        if !self.is_on() {
            return;
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        if way == Direction::Sent {
            self.note_call(line);
        }
        let task = self.task_of(line);
        let (data, left_out) = self.redacted_start(line);
        self.record_for(task, way, TrafficKind::Line { data, left_out });
    }

    /// Records the end of the exchange if `event` ends it.
    pub(super) fn record_end(&self, event: &ExchangeEvent) {
        let why: &str = match event {
            ExchangeEvent::Ended => "closed by the server",
            ExchangeEvent::Broken { why }
            | ExchangeEvent::NotSent { why, .. }
            | ExchangeEvent::NoAnswer { why }
            | ExchangeEvent::Untrusted { why } => why,
            ExchangeEvent::TooLarge { .. } => "too large",
            ExchangeEvent::Refused(error) => {
                let said = error.server_text.as_deref().unwrap_or_default();
                &format!("HTTP {} {said}", error.status)
            }
            ExchangeEvent::Opened { .. }
            | ExchangeEvent::Event { .. }
            | ExchangeEvent::ResponseTooLarge { .. }
            | ExchangeEvent::Endpoint { .. }
            | ExchangeEvent::MoreRequests(_)
            | ExchangeEvent::Sent
            | ExchangeEvent::Alive => return,
        };
        self.record_end_reason(Direction::Received, why);
    }

    fn record_end_reason(&self, way: Direction, why: &str) {
        if self.is_on() {
            let why = self.redacted_text(why.trim_end());
            self.record(way, TrafficKind::End { why });
        }
    }

    /// A redacted and truncated text, and how many bytes were left out.
    fn redacted_start(&self, text: &str) -> (String, u64) {
        truncated(&self.secrets.mask_strictly(text))
    }

    fn redacted_text(&self, text: &str) -> String {
        self.redacted_start(text).0
    }

    fn headers(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let recorded = headers.iter().map(|(name, value)| {
            let name = name.as_str();
            // Last-Event-ID is marked as sensitive, but the events show the same id, with its secrets redacted.
            let is_secret = is_credential_name(name) && !PUBLIC_HEADERS.contains(&name)
                || value.is_sensitive() && name != "last-event-id";
            let value = if is_secret {
                REDACTED.to_owned()
            } else {
                let value = String::from_utf8_lossy(value.as_bytes());
                if name == "location" {
                    self.redacted_text(&redacted_url(&value))
                } else {
                    self.redacted_text(&value)
                }
            };
            (name.to_owned(), value)
        });
        recorded.collect()
    }

    /// Remembers the request id of this exchange's task.
    fn note_call(&self, message: &str) {
        let (Some(traffic), Some(task)) = (&self.traffic, &self.task) else {
            return;
        };
        if let Some(RpcId::Text(id)) = parse_ids(message).and_then(|message| message.id) {
            traffic.add_calls([(id.into_owned(), task.clone())]);
        }
    }

    /// The task that a message belongs to; on a shared stream, by the ids in the message.
    fn task_of(&self, message: &str) -> Option<TaskId> {
        if self.task.is_some() {
            return self.task.clone();
        }
        let MessageIds { id, params } = parse_ids(message)?;
        let ids = [
            id,
            params.and_then(|params| params.token.or(params.request)),
        ];
        let known = locked(&self.traffic.as_ref()?.inner.known);
        ids.into_iter().flatten().find_map(|id| {
            let id = id.text();
            let found = known.iter().rev().find(|(call, _)| *call == id);
            found.map(|(_, task)| task.clone())
        })
    }

    fn record(&self, way: Direction, what: TrafficKind) {
        self.record_for(self.task.clone(), way, what);
    }

    fn record_for(&self, task: Option<TaskId>, dir: Direction, what: TrafficKind) {
        let Some(TrafficRecorder { inner }) = &self.traffic else {
            return;
        };
        inner.writer.take(TrafficEntry {
            at: (inner.now)(),
            dir,
            exchange: self.number,
            server: inner.server.clone(),
            task,
            what,
        });
    }
}

fn parse_ids(message: &str) -> Option<MessageIds<'_>> {
    let is_readable = message.len() <= MAX_PARSED_BYTES && message.starts_with('{');
    is_readable
        .then(|| serde_json::from_str(message).ok())
        .flatten()
}

/// Records the end of an exchange, even if it is dropped before its last event.
pub(super) struct DroppedExchange {
    recorder: Option<ExchangeRecorder>,
}

impl DroppedExchange {
    pub(super) fn new(recorder: ExchangeRecorder) -> Self {
        Self {
            recorder: Some(recorder),
        }
    }

    /// Records that `event` was the last one.
    pub(super) fn record_end(&mut self, event: &ExchangeEvent) {
        if let Some(recorder) = self.recorder.take() {
            recorder.record_end(event);
        }
    }
}

impl Drop for DroppedExchange {
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.record_end_reason(Direction::Sent, "closed by longhaul");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[derive(Default)]
    pub(in crate::transport) struct RecordedEntries(Mutex<Vec<TrafficEntry>>);

    impl TrafficWriter for RecordedEntries {
        fn take(&self, entry: TrafficEntry) {
            self.0.lock().unwrap().push(entry);
        }
    }

    impl RecordedEntries {
        pub(in crate::transport) fn all(&self) -> Vec<TrafficEntry> {
            self.0.lock().unwrap().clone()
        }
    }

    pub(in crate::transport) fn traffic() -> (TrafficRecorder, Arc<RecordedEntries>) {
        let kept = Arc::<RecordedEntries>::default();
        let switch = RecordingSwitch::default();
        switch.set(true);
        let writer = Arc::clone(&kept) as Arc<dyn TrafficWriter>;
        let traffic = TrafficRecorder::new(ServerName::new("lab"), switch, writer, || Wall(7));
        (traffic, kept)
    }

    #[test]
    fn truncates_a_long_body() {
        assert_eq!(truncated("abc"), ("abc".to_owned(), 0));
        let long = format!("{}ä", "x".repeat(RECORDED_BODY_BYTES - 1));
        let (kept, left_out) = truncated(&long);
        assert_eq!((kept.len(), left_out), (RECORDED_BODY_BYTES - 1, 2));
    }

    #[test]
    fn redacts_keys_in_urls() {
        for (text, shown) in [
            ("/mcp", "/mcp"),
            ("/mcp?key=a&b", "/mcp?key=[redacted]&[redacted]"),
            ("/u/0123456789abcdef/mcp", "/u/[redacted]/mcp"),
            (
                "http://a-long-host.example:1/x",
                "http://a-long-host.example:1/x",
            ),
            (
                "messages?sessionId=hunter2",
                "messages?sessionId=[redacted]",
            ),
        ] {
            assert_eq!(redacted_url(text), shown);
        }
    }

    #[test]
    fn attributes_messages_on_a_shared_stream_to_their_task() {
        let (traffic, kept) = traffic();
        let task = TaskId::from_bits(5);
        let secrets = Secrets::default();
        let own = ExchangeRecorder::start(Some(&traffic), Some(task.clone()), &secrets);
        own.line(
            Direction::Sent,
            b"{\"id\":\"a-1\",\"method\":\"tools/call\"}\n",
        );
        let shared = ExchangeRecorder::start(Some(&traffic), None, &secrets);
        for message in [
            r#"{"method":"notifications/progress","params":{"progressToken":"a-1"}}"#,
            r#"{"id":"a-1","result":{}}"#,
            r#"{"id":"a-2","result":{}}"#,
            "not a message",
        ] {
            shared.line(Direction::Received, message.as_bytes());
        }
        let tasks: Vec<_> = kept.all().into_iter().map(|it| it.task).collect();
        let ours = || Some(task.clone());
        assert_eq!(tasks, [ours(), ours(), ours(), None, None]);
        traffic.switch().set(false);
        shared.line(Direction::Received, b"x");
        assert_eq!(kept.all().len(), 5, "the switch is off");
    }
}
