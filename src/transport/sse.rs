//! Turns frames into events: first the splitter, then the `eventsource-stream` crate, one frame at a time.
//!
//! Only this module uses that crate. It must not know about HTTP or JSON. Invariant: every frame becomes exactly one
//! event, in order. An `Event` carries at least one of id, retry and data, an `Endpoint` its URL as the server wrote it;
//! everything else is `Alive`.

use std::{borrow::Cow, convert::Infallible, ops::Range};

use bytes::Bytes;
use eventsource_stream::{Event, EventStream};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use memchr::memchr;

use super::{
    frame::{Frame, SplitItem, Splitter},
    secrets::{Redactor, Secrets},
    traffic::ExchangeRecorder,
};
use crate::{domain::EventId, protocol::ExchangeEvent};

/// The start of a data line, as the splitter writes it.
const DATA_PREFIX: &[u8] = b"data: ";

/// Parses one `text/event-stream` body.
pub struct Sse {
    splitter: Splitter,
    redactor: Redactor,
    recorder: ExchangeRecorder,
    has_ended: bool,
}

impl Sse {
    /// A parser for a new body; `cap_bytes` bounds one event.
    pub fn new(cap_bytes: usize) -> Self {
        Self {
            splitter: Splitter::new(cap_bytes),
            redactor: Secrets::default().redactor(),
            recorder: ExchangeRecorder::default(),
            has_ended: false,
        }
    }

    /// Redacts secrets and records every event.
    #[must_use]
    pub(super) fn with_redactor(mut self, redactor: Redactor, recorder: ExchangeRecorder) -> Self {
        (self.redactor, self.recorder) = (redactor, recorder);
        self
    }

    /// Queues the next bytes of the body.
    pub fn feed(&mut self, chunk: Bytes) {
        self.splitter.feed(chunk);
    }

    /// Bytes buffered of an incomplete event.
    pub fn held_bytes(&self) -> usize {
        self.splitter.held_bytes()
    }

    /// The next event; `None` if more bytes are needed.
    ///
    /// One of `Event`, `Endpoint`, at most one `Alive` for a chunk without an event, and `TooLarge`, which is the last.
    pub fn take(&mut self) -> Option<ExchangeEvent> {
        if self.has_ended {
            return None;
        }
        match self.splitter.take() {
            Ok(Some(SplitItem::Frame(frame))) => Some(self.on_frame(frame)),
            Ok(Some(SplitItem::Alive)) => Some(ExchangeEvent::Alive),
            Ok(None) => None,
            Err(oversize) => {
                self.has_ended = true;
                Some(ExchangeEvent::TooLarge { cap: oversize.cap })
            }
        }
    }

    fn on_frame(&mut self, frame: Frame) -> ExchangeEvent {
        let Frame { text, id, retry_ms } = frame;
        let id = id.map(|id| match self.redactor.text(&id) {
            Cow::Owned(masked) => masked.into(),
            Cow::Borrowed(_) => id,
        });
        // Nearly every event is a single data line without a type. The crate would give the same string, after copying it
        // several times: 0.4 us more for a progress event that takes 0.5 us with its JSON, and 22 ms for one of 8 MB that
        // takes 2.7 ms.
        let (event, data) = if let Some(data) = single_data_line(&text) {
            // Copies only if the chunk contains more than this. The splitter guarantees UTF-8.
            let data = String::from_utf8(text.slice(data).into()).unwrap_or_default();
            (None, data)
        } else {
            let parsed = parse(&text).unwrap_or_else(|| {
                tracing::warn!("could not parse an event; its data was dropped");
                Event::default()
            });
            let event = Some(parsed.event).filter(|event| event != "message");
            (event, parsed.data)
        };
        let is_endpoint = event.as_deref() == Some("endpoint") && !data.is_empty();
        let data = if is_endpoint {
            data
        } else {
            self.redactor.message(data)
        };
        self.recorder
            .event(event.as_deref(), id.as_ref(), retry_ms, &data);
        match event {
            _ if is_endpoint => ExchangeEvent::Endpoint { target: Ok(data) },
            None => event_or_alive(id, retry_ms, data),
            // Other event types carry no MCP traffic, but their ids still move the cursor.
            Some(_) => event_or_alive(id, retry_ms, String::new()),
        }
    }
}

/// The event of a frame, parsed by the crate; `None` if it finds none.
///
/// Each frame has a parser of its own: the crate carries an id forward to the next event, and what is left of a bad frame
/// must not end up in the next one. The lines are fed one by one, because the crate copies the rest of its buffer after
/// each.
fn parse(frame: &[u8]) -> Option<Event> {
    let lines = frame
        .split_inclusive(|byte| *byte == b'\n')
        .map(Ok::<_, Infallible>);
    let mut events = EventStream::new(stream::iter(lines));
    events.next().now_or_never()??.ok()
}

/// The range of the value if the frame is a single data line.
fn single_data_line(text: &[u8]) -> Option<Range<usize>> {
    let end = memchr(b'\n', text)?;
    let is_all = text.get(end..) == Some(b"\n\n");
    (is_all && text.starts_with(DATA_PREFIX)).then_some(DATA_PREFIX.len()..end)
}

fn event_or_alive(id: Option<EventId>, retry_ms: Option<u64>, data: String) -> ExchangeEvent {
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

    fn all_events(bytes: &[u8]) -> Vec<ExchangeEvent> {
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
    fn accepts_every_field_order_of_real_servers() {
        let expected = [event(Some("s/1"), None, "{}")];
        for text in [
            "id: s/1\r\nevent: message\r\ndata: {}\r\n\r\n",
            "event: message\nid: s/1\ndata: {}\n\n",
            "data: {}\nid: s/1\n\n",
        ] {
            assert_eq!(all_events(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn priming_events_carry_id_and_retry_without_data() {
        assert_eq!(
            all_events(b"id: 0\nretry: 3000\ndata: \n\nid: 1\n\nretry: 9\n\n"),
            [
                event(Some("0"), Some(3000), ""),
                event(Some("1"), None, ""),
                event(None, Some(9), "")
            ]
        );
    }

    #[test]
    fn other_event_types_keep_only_their_id() {
        assert_eq!(
            all_events(b"event: other\nid: 4\ndata: /x\n\nevent:\nid: 5\ndata: y\n\n"),
            [event(Some("4"), None, ""), event(Some("5"), None, "y")]
        );
    }

    #[test]
    fn an_endpoint_event_is_not_a_message() {
        let target = Ok("/messages?session_id=1".to_owned());
        assert_eq!(
            all_events(b"event: endpoint\r\ndata: /messages?session_id=1\r\n\r\nevent: endpoint\ndata:\n\n"),
            [ExchangeEvent::Endpoint { target }, ExchangeEvent::Alive]
        );
    }

    #[test]
    fn an_empty_event_is_only_a_sign_of_life() {
        assert_eq!(
            all_events(b"event: ping\ndata: 1\n\ndata:\n\ndata: x\n\n"),
            [
                ExchangeEvent::Alive,
                ExchangeEvent::Alive,
                event(None, None, "x")
            ]
        );
    }

    #[test]
    fn joins_data_lines_with_line_feeds() {
        assert_eq!(
            all_events(b"data: a\ndata\ndata: b\ndata:\n\n"),
            [event(None, None, "a\n\nb\n")]
        );
    }

    #[test]
    fn byte_order_marks_and_bad_utf8_do_not_reach_the_crate() {
        assert_eq!(
            all_events(b"\xEF\xBB\xBF\xEF\xBB\xBFdata: lost\n\n\xEF\xBB\xBFdata: lost\n\ndata: \xFF\n\ndata: \xEF\xBB\xBFx\n\n"),
            [event(None, None, "\u{FFFD}"), event(None, None, "\u{FEFF}x")]
        );
    }

    #[test]
    fn an_event_over_the_cap_is_the_last_event() {
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

    /// A naive second implementation of the standard's rule for the data of a block.
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
            all_events(&bytes);
        }

        /// The shortcut for single data lines gives what the crate would.
        #[test]
        fn the_single_line_shortcut_matches_the_crate(value in "[^\r\n]{0,40}") {
            let parsed = parse(format!("data: {value}\n\n").as_bytes()).unwrap();
            prop_assert_eq!((parsed.event.as_str(), &parsed.data), ("message", &value));
            let events = all_events(format!("id: 1\ndata: {value}\n\n").as_bytes());
            prop_assert_eq!(events, [event(Some("1"), None, &value)]);
        }

        #[test]
        fn any_data_passes_through_unchanged(lines in proptest::collection::vec("[^\r\n]{0,20}", 1..20)) {
            let text: Vec<String> = lines.iter().map(|line| format!("data: {line}\n")).collect();
            let text = text.concat();
            let events = all_events(format!("id: 1\n{text}\n").as_bytes());
            prop_assert_eq!(events, [event(Some("1"), None, &data_of(&text))]);
        }
    }
}
