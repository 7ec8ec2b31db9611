//! Frames become arrivals: the splitter in front, the `eventsource-stream` crate behind it, one frame at a time.
//!
//! Owns the only place that touches that crate. Must not know of HTTP or JSON. Invariant: every frame gives exactly one
//! arrival, in order; an `Event` carries at least one of id, retry and data, an `Endpoint` its address as the server wrote
//! it, everything else is `Alive`.

use std::{
    borrow::Cow,
    convert::Infallible,
    fmt,
    ops::Range,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use eventsource_stream::{Event, EventStream};
use futures_util::Stream;
use memchr::memchr;

use super::{
    frame::{Found, Frame, Splitter},
    secrets::{Gate, Secrets},
    tap::Tapped,
};
use crate::{domain::EventId, protocol::ExchangeEvent};

/// The name of a data line, as the splitter writes it.
const DATA: &[u8] = b"data: ";

/// Turns the bytes of one `text/event-stream` body into arrivals.
pub struct Sse {
    splitter: Splitter,
    events: EventStream<Feed>,
    feed: Feed,
    gate: Gate,
    tapped: Option<Tapped>,
    is_over: bool,
}

impl fmt::Debug for Sse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sse")
            .field("splitter", &self.splitter)
            .field("is_over", &self.is_over)
            .finish_non_exhaustive()
    }
}

/// The way into the crate: holds what it is to read next.
#[derive(Clone, Debug, Default)]
struct Feed(Arc<Mutex<Option<Bytes>>>);

impl Feed {
    fn put(&self, bytes: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
    }
}

impl Stream for Feed {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        next.map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(bytes))))
    }
}

impl Sse {
    /// A reader at the beginning of a body; `cap_bytes` bounds one event.
    pub fn new(cap_bytes: usize) -> Self {
        let feed = Feed::default();
        Self {
            splitter: Splitter::new(cap_bytes),
            events: EventStream::new(feed.clone()),
            feed,
            gate: Secrets::default().gate(),
            tapped: None,
            is_over: false,
        }
    }

    /// Lets no secret through, and tells of every event.
    #[must_use]
    pub(super) fn guarded(mut self, gate: Gate, tapped: Option<Tapped>) -> Self {
        (self.gate, self.tapped) = (gate, tapped);
        self
    }

    /// Hands over the next bytes of the body.
    pub fn feed(&mut self, chunk: Bytes) {
        self.splitter.feed(chunk);
    }

    /// Bytes held of an event that has not come to its end.
    pub fn held(&self) -> usize {
        self.splitter.held()
    }

    /// Takes the next arrival out of what was fed; `None` asks for more bytes.
    ///
    /// Gives `Event`, `Endpoint`, at most one `Alive` for a chunk without an event, and `TooLarge` once, which is the last.
    pub fn take(&mut self) -> Option<ExchangeEvent> {
        if self.is_over {
            return None;
        }
        match self.splitter.take() {
            Ok(Some(Found::Frame(frame))) => Some(self.read(frame)),
            Ok(Some(Found::Alive)) => Some(ExchangeEvent::Alive),
            Ok(None) => None,
            Err(oversize) => {
                self.is_over = true;
                Some(ExchangeEvent::TooLarge { cap: oversize.cap })
            }
        }
    }

    fn read(&mut self, frame: Frame) -> ExchangeEvent {
        let (text, id, retry_ms) = frame.into_parts();
        let id = id.map(|id| match self.gate.text(&id) {
            Cow::Owned(masked) => masked.into(),
            Cow::Borrowed(_) => id,
        });
        // One line of data without a name is what nearly every event is, and leaves nothing to parse.
        let (event, data) = if let Some(data) = one_line(&text) {
            // Copied only where the chunk holds more than this; the splitter lets nothing but UTF-8 through.
            let data = String::from_utf8(text.slice(data).into()).unwrap_or_default();
            (None, data)
        } else {
            let (event, data) = self.parse(text);
            (Some(event).filter(|event| event != "message"), data)
        };
        if event.as_deref() == Some("endpoint") && !data.is_empty() {
            if let Some(tapped) = &self.tapped {
                tapped.event(event.as_deref(), id.as_ref(), retry_ms, &data);
            }
            return ExchangeEvent::Endpoint { target: Ok(data) };
        }
        let data = self.gate.message(data);
        if let Some(tapped) = &self.tapped {
            tapped.event(event.as_deref(), id.as_ref(), retry_ms, &data);
        }
        match event {
            None => arrival(id, retry_ms, data),
            // No other type carries MCP traffic; the id of any still moves the cursor.
            Some(_) => arrival(id, retry_ms, String::new()),
        }
    }

    /// The type and the data of a frame, as the crate says.
    fn parse(&mut self, mut lines: Bytes) -> (String, String) {
        // Line by line: the crate copies the rest of its buffer after each line, which must therefore be empty by then.
        let mut event = None;
        while event.is_none() && !lines.is_empty() {
            let end = memchr(b'\n', &lines).map_or(lines.len(), |end| end + 1);
            event = self.next(lines.split_to(end));
        }
        let Some(event) = event else {
            self.events = EventStream::new(self.feed.clone());
            tracing::warn!("an event could not be read and was passed on without its data");
            return (String::new(), String::new());
        };
        (event.event, event.data)
    }

    fn next(&mut self, text: Bytes) -> Option<Event> {
        self.feed.put(text);
        let mut events = Pin::new(&mut self.events);
        match events
            .as_mut()
            .poll_next(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Some(Ok(event))) => Some(event),
            Poll::Pending => None,
            Poll::Ready(_) => {
                // What it holds of the frame must not get into the next.
                self.events = EventStream::new(self.feed.clone());
                None
            }
        }
    }
}

/// Where the value of a frame stands that is a single line of data.
fn one_line(text: &[u8]) -> Option<Range<usize>> {
    let end = memchr(b'\n', text)?;
    let is_all = text.get(end..) == Some(b"\n\n");
    (is_all && text.starts_with(DATA)).then_some(DATA.len()..end)
}

fn arrival(id: Option<EventId>, retry_ms: Option<u64>, data: String) -> ExchangeEvent {
    if data.is_empty() && id.is_none() && retry_ms.is_none() {
        return ExchangeEvent::Alive;
    }
    ExchangeEvent::Event { id, retry_ms, data }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transport::frame::DEFAULT_CAP_BYTES;

    fn arrivals(bytes: &[u8]) -> Vec<ExchangeEvent> {
        let mut sse = Sse::new(DEFAULT_CAP_BYTES);
        sse.feed(Bytes::copy_from_slice(bytes));
        std::iter::from_fn(|| sse.take()).collect()
    }

    fn event(id: Option<&str>, retry_ms: Option<u64>, data: &str) -> ExchangeEvent {
        ExchangeEvent::Event {
            id: id.map(EventId::new),
            retry_ms,
            data: data.to_owned(),
        }
    }

    #[test]
    fn each_field_order_of_the_real_servers_reads_the_same() {
        let expected = [event(Some("s/1"), None, "{}")];
        for text in [
            "id: s/1\r\nevent: message\r\ndata: {}\r\n\r\n",
            "event: message\nid: s/1\ndata: {}\n\n",
            "data: {}\nid: s/1\n\n",
        ] {
            assert_eq!(arrivals(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn priming_events_bring_their_id_and_retry_without_data() {
        assert_eq!(
            arrivals(b"id: 0\nretry: 3000\ndata: \n\nid: 1\n\nretry: 9\n\n"),
            [
                event(Some("0"), Some(3000), ""),
                event(Some("1"), None, ""),
                event(None, Some(9), "")
            ]
        );
    }

    #[test]
    fn another_type_loses_its_data_and_keeps_its_id() {
        assert_eq!(
            arrivals(b"event: other\nid: 4\ndata: /x\n\nevent:\nid: 5\ndata: y\n\n"),
            [event(Some("4"), None, ""), event(Some("5"), None, "y")]
        );
    }

    #[test]
    fn an_endpoint_is_no_message() {
        let target = Ok("/messages?session_id=1".to_owned());
        assert_eq!(
            arrivals(b"event: endpoint\r\ndata: /messages?session_id=1\r\n\r\nevent: endpoint\ndata:\n\n"),
            [ExchangeEvent::Endpoint { target }, ExchangeEvent::Alive]
        );
    }

    #[test]
    fn an_event_that_carries_nothing_is_no_news() {
        assert_eq!(
            arrivals(b"event: ping\ndata: 1\n\ndata:\n\ndata: x\n\n"),
            [
                ExchangeEvent::Alive,
                ExchangeEvent::Alive,
                event(None, None, "x")
            ]
        );
    }

    #[test]
    fn data_lines_join_with_a_line_feed_and_only_the_last_is_dropped() {
        assert_eq!(
            arrivals(b"data: a\ndata\ndata: b\ndata:\n\n"),
            [event(None, None, "a\n\nb\n")]
        );
    }

    #[test]
    fn the_traps_of_the_crate_do_not_bite() {
        assert_eq!(
            arrivals(b"\xEF\xBB\xBF\xEF\xBB\xBFdata: lost\n\n\xEF\xBB\xBFdata: lost\n\ndata: \xFF\n\ndata: \xEF\xBB\xBFx\n\n"),
            [event(None, None, "\u{FFFD}"), event(None, None, "\u{FEFF}x")]
        );
    }

    #[test]
    fn an_event_over_the_cap_is_the_last_arrival() {
        let mut sse = Sse::new(10);
        sse.feed(Bytes::from_static(
            b"data: a\n\ndata: 0123456789\n\ndata: b\n\n",
        ));
        let all: Vec<ExchangeEvent> = std::iter::from_fn(|| sse.take()).collect();
        assert_eq!(
            all,
            [event(None, None, "a"), ExchangeEvent::TooLarge { cap: 10 }]
        );
        sse.feed(Bytes::from_static(b"data: c\n\n"));
        assert_eq!(sse.take(), None);
    }

    /// What the standard says the data of a block is, written a second time and naively.
    fn data_of(text: &str) -> String {
        let lines: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("data:"))
            .map(|value| value.strip_prefix(' ').unwrap_or(value))
            .collect();
        lines.join("\n")
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            arrivals(&bytes);
        }

        /// What goes round the crate is what the crate would make of it.
        #[test]
        fn one_line_reads_as_the_crate_reads_it(value in "[^\r\n]{0,40}") {
            let mut sse = Sse::new(DEFAULT_CAP_BYTES);
            let parsed = sse.parse(format!("data: {value}\n\n").into());
            prop_assert_eq!(parsed, ("message".to_owned(), value.clone()));
            let arrived = arrivals(format!("id: 1\ndata: {value}\n\n").as_bytes());
            prop_assert_eq!(arrived, [event(Some("1"), None, &value)]);
        }

        #[test]
        fn any_data_comes_through_the_crate_unchanged(lines in proptest::collection::vec("[^\r\n]{0,20}", 1..20)) {
            let text: Vec<String> = lines.iter().map(|line| format!("data: {line}\n")).collect();
            let text = text.concat();
            let arrived = arrivals(format!("id: 1\n{text}\n").as_bytes());
            prop_assert_eq!(arrived, [event(Some("1"), None, &data_of(&text))]);
        }
    }
}
