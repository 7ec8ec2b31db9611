//! Where a server's messages are told to whoever writes them down.
//!
//! Owns what is told of them and what is hidden. Must not know of files. Invariants: no value of a header that may be a
//! secret and none of the secrets that this process knows leaves here; telling never waits, and costs a look at a switch
//! while nobody listens. What a sign-in says to its own server has no tap.

use std::{
    borrow::Cow,
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use reqwest::{StatusCode, header::HeaderMap};
use serde::Deserialize;
use url::Url;

use super::secrets::{SEGMENT, Secrets, is_credential};
use crate::{
    domain::{Direction, EventId, ServerName, TaskId, TrafficEntry, TrafficKind, Wall},
    protocol::ExchangeEvent,
};

/// What stands where something was taken out.
const GONE: &str = "[redacted]";
/// Bytes told of one body; the rest is counted.
const DATA_BYTES: usize = 64 * 1024;
/// Calls whose messages are known on a stream that many share.
const CALLS: usize = 1024;
/// A longer message of such a stream is not read for whose it is.
const READ_BYTES: usize = 1 << 20;

/// They only say which credentials are wanted.
const SHOWN: [&str; 2] = ["www-authenticate", "proxy-authenticate"];

/// Who writes down what a [`TrafficRecorder`] tells.
pub trait TrafficWriter: Send + Sync {
    /// Takes a message, without waiting; one that finds no room is for him to count.
    fn take(&self, entry: TrafficEntry);
}

/// Whether anybody listens; shared with whoever switches it.
#[derive(Clone, Debug, Default)]
pub struct RecordingSwitch(Arc<AtomicBool>);

impl RecordingSwitch {
    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Switches, and tells how it stood.
    pub fn set(&self, is_on: bool) -> bool {
        self.0.swap(is_on, Ordering::Relaxed)
    }
}

/// The tap of one server; cheap to clone.
#[derive(Clone)]
pub struct TrafficRecorder {
    inner: Arc<Inner>,
}

struct Inner {
    server: ServerName,
    switch: RecordingSwitch,
    scribe: Arc<dyn TrafficWriter>,
    now: Box<dyn Fn() -> Wall + Send + Sync>,
    exchanges: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Calls by the id of their request, which is their progress token too.
    calls: VecDeque<(String, TaskId)>,
}

impl fmt::Debug for TrafficRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("server", &self.inner.server)
            .field("switch", &self.inner.switch)
            .finish_non_exhaustive()
    }
}

impl TrafficRecorder {
    /// A tap for `server`; what it tells goes to `scribe` while the switch is on.
    pub fn new(
        server: ServerName,
        switch: RecordingSwitch,
        scribe: Arc<dyn TrafficWriter>,
        now: impl Fn() -> Wall + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                server,
                switch,
                scribe,
                now: Box::new(now),
                exchanges: AtomicU64::new(0),
                known: Mutex::default(),
            }),
        }
    }

    /// Its switch.
    pub fn switch(&self) -> &RecordingSwitch {
        &self.inner.switch
    }

    /// Calls that are under way, so that what comes for them on a stream of many is told as theirs.
    pub fn knows(&self, calls: impl IntoIterator<Item = (String, TaskId)>) {
        let mut known = self.known();
        for call in calls {
            known.called(call);
        }
    }

    /// A new exchange, for a task where it is one's own, told without these secrets.
    pub(super) fn exchange(&self, task: Option<TaskId>, secrets: &Secrets) -> Tapped {
        Tapped {
            tap: self.clone(),
            secrets: secrets.clone(),
            number: self.inner.exchanges.fetch_add(1, Ordering::Relaxed) + 1,
            task,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.inner
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn called(&mut self, call: (String, TaskId)) {
        if self.calls.iter().any(|known| known.0 == call.0) {
            return;
        }
        if self.calls.len() == CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
    }
}

/// The first bytes of a text, and how many follow.
fn beginning(text: &str) -> (String, u64) {
    let is_end = |end: &usize| text.is_char_boundary(*end);
    let end = (0..=DATA_BYTES.min(text.len())).rev().find(is_end);
    let end = end.unwrap_or_default();
    let kept = text.get(..end).unwrap_or_default();
    let rest = text.len().saturating_sub(end);
    (kept.to_owned(), u64::try_from(rest).unwrap_or(u64::MAX))
}

/// An address without what may be a key in it: the values of its query, and long parts of its path.
fn address(text: &str) -> String {
    let (path, query) = text
        .split_once('?')
        .map_or((text, None), |(path, query)| (path, Some(query)));
    // Scheme and host are told.
    let host = if path.contains("://") { 3 } else { 0 };
    let segments = path.split('/').enumerate();
    let segments = segments.map(|(place, segment)| {
        if place >= host && segment.len() > SEGMENT {
            GONE
        } else {
            segment
        }
    });
    let mut shown = segments.collect::<Vec<_>>().join("/");
    if let Some(query) = query {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) => format!("{name}={GONE}"),
            None => GONE.to_owned(),
        });
        shown.push('?');
        shown.push_str(&pairs.collect::<Vec<_>>().join("&"));
    }
    shown
}

fn is_hidden(name: &str) -> bool {
    is_credential(name) && !SHOWN.contains(&name)
}

/// What a message says of whose it is.
#[derive(Deserialize)]
struct Whose<'m> {
    #[serde(borrow, default)]
    id: Option<Mark<'m>>,
    #[serde(borrow, default)]
    params: Option<Params<'m>>,
}

#[derive(Deserialize)]
struct Params<'m> {
    #[serde(borrow, default, rename = "progressToken")]
    token: Option<Mark<'m>>,
    #[serde(borrow, default, rename = "requestId")]
    request: Option<Mark<'m>>,
}

/// An id of JSON-RPC.
#[derive(Deserialize)]
#[serde(untagged)]
enum Mark<'m> {
    #[serde(borrow)]
    Text(Cow<'m, str>),
    Number(serde_json::Number),
}

impl Mark<'_> {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone().into_owned(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// One exchange as it is told.
#[derive(Clone, Debug)]
pub(super) struct Tapped {
    tap: TrafficRecorder,
    secrets: Secrets,
    number: u64,
    task: Option<TaskId>,
}

impl Tapped {
    /// Whether anybody listens.
    pub(super) fn is_on(&self) -> bool {
        self.tap.inner.switch.is_on()
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
        self.calls(body);
        let (data, left_out) = self.told(body);
        let path = match url.query() {
            Some(query) => address(&format!("{}?{query}", url.path())),
            None => address(url.path()),
        };
        self.tell(
            Direction::Sent,
            TrafficKind::Request {
                method: method.to_string(),
                path: self.short(&path),
                headers: self.headers(headers),
                data,
                left_out,
            },
        );
    }

    pub(super) fn answer(&self, status: StatusCode, headers: &HeaderMap) {
        if self.is_on() {
            let what = TrafficKind::Answer {
                status: status.as_u16(),
                headers: self.headers(headers),
            };
            self.tell(Direction::Received, what);
        }
    }

    /// An event; `event` is its type where that is not `message`.
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
        let task = self.whose(data);
        let (data, left_out) = if event == Some("endpoint") {
            self.told(&address(data))
        } else {
            self.told(data)
        };
        let what = TrafficKind::Event {
            event: event.map(|name| self.short(name)),
            id: id.map(|id| self.short(id)),
            retry: retry_ms,
            data,
            left_out,
        };
        self.tell_of(task, Direction::Received, what);
    }

    /// The body of an answer.
    pub(super) fn body(&self, text: &str) {
        if self.is_on() {
            let task = self.whose(text);
            let (data, left_out) = self.told(text);
            self.tell_of(
                task,
                Direction::Received,
                TrafficKind::Body { data, left_out },
            );
        }
    }

    /// A line that goes to, or comes from, a program.
    pub(super) fn line(&self, way: Direction, line: &[u8]) {
        if !self.is_on() {
            return;
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        if way == Direction::Sent {
            self.calls(line);
        }
        let task = self.whose(line);
        let (data, left_out) = self.told(line);
        self.tell_of(task, way, TrafficKind::Line { data, left_out });
    }

    /// The end of it, if that is what this arrival is.
    pub(super) fn ended_by(&self, arrival: &ExchangeEvent) {
        if !self.is_on() {
            return;
        }
        let why = match arrival {
            ExchangeEvent::Ended => "the server ended it",
            ExchangeEvent::Broken { why }
            | ExchangeEvent::NotSent { why, .. }
            | ExchangeEvent::NoAnswer { why }
            | ExchangeEvent::Untrusted { why } => why,
            ExchangeEvent::TooLarge { .. } => "it was too large",
            ExchangeEvent::Refused(refusal) => {
                let said = refusal.server_text.as_deref().unwrap_or_default();
                return self.end(
                    Direction::Received,
                    &format!("HTTP {} {said}", refusal.status),
                );
            }
            ExchangeEvent::Opened { .. }
            | ExchangeEvent::Event { .. }
            | ExchangeEvent::Endpoint { .. }
            | ExchangeEvent::MoreRequests(_)
            | ExchangeEvent::Alive => return,
        };
        self.end(Direction::Received, why);
    }

    /// The end of it.
    pub(super) fn end(&self, way: Direction, why: &str) {
        if self.is_on() {
            let why = self.short(why.trim_end());
            self.tell(way, TrafficKind::End { why });
        }
    }

    /// A text as it is told: without its secrets, and no longer than it may be.
    fn told(&self, text: &str) -> (String, u64) {
        beginning(&self.secrets.mask_strictly(text))
    }

    fn short(&self, text: &str) -> String {
        self.told(text).0
    }

    fn headers(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let told = headers.iter().map(|(name, value)| {
            let name = name.as_str();
            // The cursor is marked as a secret among the others, and is an id that the events show anyway, but for what
            // is masked in it.
            let is_secret = is_hidden(name) || value.is_sensitive() && name != "last-event-id";
            let value = if is_secret {
                GONE.to_owned()
            } else {
                let value = String::from_utf8_lossy(value.as_bytes());
                if name == "location" {
                    self.short(&address(&value))
                } else {
                    self.short(&value)
                }
            };
            (name.to_owned(), value)
        });
        told.collect()
    }

    /// Notes that a request is this task's.
    fn calls(&self, message: &str) {
        let Some(task) = &self.task else { return };
        if let Some(Mark::Text(id)) = read(message).and_then(|message| message.id) {
            self.tap.knows([(id.into_owned(), task.clone())]);
        }
    }

    /// Whose a message is that came where anybody's may come.
    fn whose(&self, message: &str) -> Option<TaskId> {
        if self.task.is_some() {
            return self.task.clone();
        }
        let Whose { id, params } = read(message)?;
        let marks = [
            id,
            params.and_then(|params| params.token.or(params.request)),
        ];
        let known = self.tap.known();
        marks.into_iter().flatten().find_map(|mark| {
            let mark = mark.text();
            let found = known.calls.iter().rev().find(|(id, _)| *id == mark);
            found.map(|(_, task)| task.clone())
        })
    }

    fn tell(&self, way: Direction, what: TrafficKind) {
        self.tell_of(self.task.clone(), way, what);
    }

    fn tell_of(&self, task: Option<TaskId>, dir: Direction, what: TrafficKind) {
        let inner = &self.tap.inner;
        inner.scribe.take(TrafficEntry {
            at: (inner.now)(),
            dir,
            exchange: self.number,
            server: inner.server.clone(),
            task,
            what,
        });
    }
}

fn read(message: &str) -> Option<Whose<'_>> {
    let is_readable = message.len() <= READ_BYTES && message.starts_with('{');
    is_readable
        .then(|| serde_json::from_str(message).ok())
        .flatten()
}

/// Tells of an exchange that is dropped before its end.
#[derive(Debug)]
pub(super) struct DroppedExchange {
    tapped: Option<Tapped>,
}

impl DroppedExchange {
    /// Watches over it until its end.
    pub(super) fn new(tapped: Tapped) -> Self {
        let tapped = Some(tapped);
        Self { tapped }
    }

    /// This was the last of its arrivals.
    pub(super) fn ended_by(&mut self, arrival: &ExchangeEvent) {
        if let Some(tapped) = self.tapped.take() {
            tapped.ended_by(arrival);
        }
    }
}

impl Drop for DroppedExchange {
    fn drop(&mut self) {
        if let Some(tapped) = self.tapped.take() {
            tapped.end(Direction::Sent, "closed here");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Keeps all that it is told.
    #[derive(Default)]
    pub(in crate::transport) struct Kept(Mutex<Vec<TrafficEntry>>);

    impl TrafficWriter for Kept {
        fn take(&self, entry: TrafficEntry) {
            self.0.lock().unwrap().push(entry);
        }
    }

    impl Kept {
        pub(in crate::transport) fn all(&self) -> Vec<TrafficEntry> {
            self.0.lock().unwrap().clone()
        }
    }

    pub(in crate::transport) fn tap() -> (TrafficRecorder, Arc<Kept>) {
        let kept = Arc::<Kept>::default();
        let switch = RecordingSwitch::default();
        switch.set(true);
        let scribe = Arc::clone(&kept) as Arc<dyn TrafficWriter>;
        let tap = TrafficRecorder::new(ServerName::new("lab"), switch, scribe, || Wall(7));
        (tap, kept)
    }

    #[test]
    fn of_a_long_text_the_beginning_is_told() {
        assert_eq!(beginning("abc"), ("abc".to_owned(), 0));
        let long = format!("{}ä", "x".repeat(DATA_BYTES - 1));
        let (kept, left_out) = beginning(&long);
        assert_eq!((kept.len(), left_out), (DATA_BYTES - 1, 2));
    }

    #[test]
    fn no_key_in_an_address_is_told() {
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
            assert_eq!(address(text), shown);
        }
    }

    #[test]
    fn what_comes_on_a_stream_of_many_is_told_as_the_task_it_is_of() {
        let (tap, kept) = tap();
        let task = TaskId::from_bits(5);
        let secrets = Secrets::default();
        let own = tap.exchange(Some(task.clone()), &secrets);
        own.line(
            Direction::Sent,
            b"{\"id\":\"a-1\",\"method\":\"tools/call\"}\n",
        );
        let shared = tap.exchange(None, &secrets);
        for message in [
            r#"{"method":"notifications/progress","params":{"progressToken":"a-1"}}"#,
            r#"{"id":"a-1","result":{}}"#,
            r#"{"id":"a-2","result":{}}"#,
            "no message",
        ] {
            shared.line(Direction::Received, message.as_bytes());
        }
        let tasks: Vec<_> = kept.all().into_iter().map(|it| it.task).collect();
        let of = || Some(task.clone());
        assert_eq!(tasks, [of(), of(), of(), None, None]);
        tap.switch().set(false);
        shared.line(Direction::Received, b"x");
        assert_eq!(kept.all().len(), 5, "nobody listens");
    }
}
