//! Splits a byte stream into whole server-sent-event frames, one at a time.
//!
//! Owns line ends, the byte order mark, the size cap, lossy UTF-8 decoding and a frame's own `id:` and `retry:`. Must not
//! know where the bytes come from. It runs before the `eventsource-stream` crate, which panics on a byte order mark, stops
//! at a bad byte, loses frames without data, has no size limit and copies the rest of a chunk for each of its lines.
//! Invariant: the frames depend only on the bytes, never on the chunk boundaries, and each byte is scanned once.
//!
//! Source: WHATWG HTML, "Server-sent events", parsing; MCP 2025-11-25, basic/transports.

use std::{collections::VecDeque, ops::Range};

use bytes::{Buf, Bytes};
use memchr::{memchr, memchr2};

use crate::domain::EventId;

/// The default cap on one event or one JSON body, in bytes: 16 MiB, as in the official Rust SDK.
pub const DEFAULT_CAP_BYTES: usize = 16 * 1024 * 1024;

/// A larger line buffer is freed after use, so that one huge event doesn't cost memory until the stream ends.
const REUSED_LINE_BYTES: usize = 64 * 1024;

/// Longer event ids are ignored: no server would accept them back in a header, and up to a thousand ids are kept for each
/// stream.
const MAX_ID_BYTES: usize = 1024;

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// One event is larger than the cap, which ends the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one event is larger than {cap} bytes")]
pub(super) struct Oversize {
    /// The cap in bytes.
    pub(super) cap: usize,
}

/// One whole normalized frame, with at least one of data, id and retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The lines that an event parser needs: at least one `data:`, then `event:` unless the type is `message` (the
    /// default), then a blank line. Its line ends are LF. It has no byte order mark, comment or unknown field.
    ///
    /// Valid UTF-8; a slice of the received chunk if the frame was in one piece and in normal form.
    pub(super) text: Bytes,
    /// The frame's last `id:` line without NUL; an empty one resets the cursor.
    pub(super) id: Option<EventId>,
    /// The frame's last `retry:` line made of digits only, in milliseconds.
    pub(super) retry_ms: Option<u64>,
}

/// What [`Splitter::take`] finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SplitItem {
    /// A whole frame.
    Frame(Frame),
    /// A chunk was used up without completing a frame: a comment, or part of a larger frame.
    Alive,
}

/// Splits a byte stream into frames.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    cap: usize,
    chunks: VecDeque<Bytes>,
    /// How many bytes of a leading byte order mark have been seen; `None` once past the start of the stream.
    bom_seen: Option<usize>,
    /// The last line ended with CR, so an LF that follows belongs to it, even in the next chunk.
    skip_lf: bool,
    /// The start of a line whose end has not arrived yet.
    line: Vec<u8>,
    block: EventBlock,
    has_frame_in_chunk: bool,
    has_failed: bool,
    /// Bytes searched or copied so far, so that tests can check that the cost is linear.
    #[cfg(test)]
    work: usize,
}

impl Splitter {
    /// A splitter for a new stream; `cap_bytes` bounds the lines of one event.
    pub(super) fn new(cap_bytes: usize) -> Self {
        Self {
            cap: cap_bytes,
            bom_seen: Some(0),
            ..Self::default()
        }
    }

    /// Queues the next bytes; [`Self::take`] scans them.
    pub(super) fn feed(&mut self, chunk: Bytes) {
        if !chunk.is_empty() && !self.has_failed {
            self.chunks.push_back(chunk);
        }
    }

    /// Bytes buffered of an incomplete event.
    pub(super) fn held_bytes(&self) -> usize {
        self.block.kept_bytes + self.line.len()
    }

    /// The next item; `None` if more bytes are needed.
    ///
    /// A frame that is incomplete when the stream ends is dropped, along with its id.
    ///
    /// # Errors
    /// [`Oversize`] once an event exceeds the cap, and for every call after that.
    pub(super) fn take(&mut self) -> Result<Option<SplitItem>, Oversize> {
        while let Some(mut chunk) = self.chunks.pop_front() {
            match self.take_frame(&mut chunk) {
                Ok(Some(frame)) => {
                    self.has_frame_in_chunk = !chunk.is_empty();
                    if !chunk.is_empty() {
                        self.chunks.push_front(chunk);
                    }
                    return Ok(Some(SplitItem::Frame(frame)));
                }
                Ok(None) => {
                    if !std::mem::take(&mut self.has_frame_in_chunk) {
                        return Ok(Some(SplitItem::Alive));
                    }
                }
                Err(oversize) => {
                    self.has_failed = true;
                    self.chunks.clear();
                    self.line = Vec::new();
                    self.block = EventBlock::default();
                    return Err(oversize);
                }
            }
        }
        if self.has_failed {
            Err(Oversize { cap: self.cap })
        } else {
            Ok(None)
        }
    }

    /// Reads lines from `chunk` until a frame is complete or the chunk is used up.
    fn take_frame(&mut self, chunk: &mut Bytes) -> Result<Option<Frame>, Oversize> {
        self.skip_bom(chunk);
        // The read position in the chunk, which is advanced only once, at the end of a frame.
        let mut at = 0;
        loop {
            let rest = chunk.get(at..).unwrap_or_default();
            let Some(first) = rest.first() else {
                self.block.copy_borrowed(chunk);
                return Ok(None);
            };
            if std::mem::take(&mut self.skip_lf) && *first == b'\n' {
                at += 1;
                continue;
            }
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                self.count_work(rest.len() * 2);
                self.append_line(rest)?;
                self.block.copy_borrowed(chunk);
                return Ok(None);
            };
            let (line, ended) = rest.split_at(length);
            let end = at + length;
            self.count_work(length * 2 + 1);
            self.skip_lf = ended.first() == Some(&b'\r');

            if !self.line.is_empty() {
                self.append_line(line)?;
                let whole = std::mem::take(&mut self.line);
                self.count_work(whole.len());
                if whole.len() > REUSED_LINE_BYTES {
                    self.block.add_long(chunk, whole);
                } else {
                    self.block.add_line(chunk, &whole);
                    self.line = whole;
                    self.line.clear();
                }
            } else if line.is_empty() {
                let frame = std::mem::take(&mut self.block).finish(chunk, at..end + 1);
                if frame.is_some() {
                    chunk.advance(end + 1);
                    return Ok(frame);
                }
            } else {
                self.check_cap(length)?;
                if self.skip_lf || !self.block.try_borrow(line, at..end + 1) {
                    self.block.add_line(chunk, line);
                }
            }
            at = end + 1;
        }
    }

    /// Drops a byte order mark at the start of the stream. A partial one turns out to be the start of a line.
    fn skip_bom(&mut self, chunk: &mut Bytes) {
        while let Some(seen) = self.bom_seen {
            let Some(byte) = chunk.first() else { return };
            if BOM.get(seen) == Some(byte) {
                chunk.advance(1);
                self.bom_seen = (seen + 1 < BOM.len()).then_some(seen + 1);
            } else {
                self.line.extend(BOM.iter().take(seen));
                self.bom_seen = None;
            }
        }
    }

    /// Buffers part of a line.
    fn append_line(&mut self, part: &[u8]) -> Result<(), Oversize> {
        self.check_cap(part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// Every line counts while it is read, even one that is dropped at its end. Otherwise the result would depend on the
    /// chunk boundaries.
    fn check_cap(&self, more: usize) -> Result<(), Oversize> {
        if self.held_bytes().saturating_add(more) > self.cap {
            return Err(Oversize { cap: self.cap });
        }
        Ok(())
    }

    #[cfg(test)]
    fn count_work(&mut self, bytes: usize) {
        self.work += bytes;
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "the test version counts")]
    fn count_work(&mut self, _bytes: usize) {}
}

/// The lines since the last blank line.
#[derive(Debug, Default)]
struct EventBlock {
    /// The range in the current chunk of the only data line so far, including its line end. It has not been copied.
    borrowed: Option<Range<usize>>,
    text: String,
    event: Option<String>,
    id: Option<EventId>,
    retry_ms: Option<u64>,
    /// Bytes of the lines that were kept. Comments don't count: some servers send nothing else for hours.
    kept_bytes: usize,
}

/// Whether a header can carry an event id, so that the stream can be resumed after it.
fn fits_header(id: &[u8]) -> bool {
    id.len() <= MAX_ID_BYTES
        && id
            .iter()
            .all(|byte| *byte == b'\t' || !byte.is_ascii_control())
}

impl EventBlock {
    /// Notes a data line by its range if it is in normal form and the first line; false if it must be copied.
    fn try_borrow(&mut self, line: &[u8], range: Range<usize>) -> bool {
        let can_borrow = self.borrowed.is_none()
            && self.text.is_empty()
            && line.starts_with(b"data: ")
            && std::str::from_utf8(line).is_ok();
        if can_borrow {
            self.kept_bytes = self.kept_bytes.saturating_add(line.len());
            self.borrowed = Some(range);
        }
        can_borrow
    }

    /// Copies the borrowed line, because the chunk is about to be dropped or other lines follow.
    fn copy_borrowed(&mut self, chunk: &[u8]) {
        if let Some(line) = self.borrowed.take().and_then(|range| chunk.get(range)) {
            self.text.push_str(&String::from_utf8_lossy(line));
        }
    }

    /// Adds a long owned line, without copying it if it is in normal form.
    fn add_long(&mut self, chunk: &[u8], line: Vec<u8>) {
        self.copy_borrowed(chunk);
        if !self.text.is_empty() || !line.starts_with(b"data: ") {
            return self.add_line(chunk, &line);
        }
        let length = line.len();
        match String::from_utf8(line) {
            Ok(mut text) => {
                text.push('\n');
                self.text = text;
                self.kept_bytes = self.kept_bytes.saturating_add(length);
            }
            Err(error) => self.add_line(chunk, error.as_bytes()),
        }
    }

    fn add_line(&mut self, chunk: &[u8], line: &[u8]) {
        let (name, value) = match memchr(b':', line) {
            Some(0) => return,
            Some(colon) => {
                let (name, rest) = line.split_at(colon);
                let value = rest.strip_prefix(b":").unwrap_or(rest);
                (name, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &b""[..]),
        };
        match name {
            b"data" => {
                self.copy_borrowed(chunk);
                self.text.push_str("data: ");
                self.text.push_str(&String::from_utf8_lossy(value));
                self.text.push('\n');
            }
            b"event" => self.event = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if fits_header(value) => {
                self.id = Some(EventId::from(String::from_utf8_lossy(value)));
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).unwrap_or_default();
                self.retry_ms = digits.parse().ok().or(self.retry_ms);
            }
            _ => return,
        }
        self.kept_bytes = self.kept_bytes.saturating_add(line.len());
    }

    /// The frame; `None` if there were only comments, unknown fields or a bare `event:`, which dispatch nothing.
    /// `blank` is the range of the blank line's line end.
    fn finish(mut self, chunk: &Bytes, blank: Range<usize>) -> Option<Frame> {
        let event = self.event.take().filter(|event| event != "message");
        let (id, retry_ms) = (self.id.take(), self.retry_ms);
        if let Some(line) = self.borrowed.take() {
            let is_one_piece = line.end == blank.start && chunk.get(blank.clone()) == Some(b"\n");
            if event.is_none() && is_one_piece {
                let text = chunk.slice(line.start..blank.end);
                return Some(Frame { text, id, retry_ms });
            }
            self.borrowed = Some(line);
            self.copy_borrowed(chunk);
        }
        if self.text.is_empty() {
            if id.is_none() && retry_ms.is_none() {
                return None;
            }
            // Without a data line the event parser would drop the frame along with its id.
            self.text.push_str("data:\n");
        }
        if let Some(event) = event {
            self.text.push_str("event: ");
            self.text.push_str(&event);
            self.text.push('\n');
        }
        self.text.push('\n');
        let text = self.text.into();
        Some(Frame { text, id, retry_ms })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Frame {
        fn text(&self) -> &str {
            std::str::from_utf8(&self.text).unwrap()
        }
    }

    fn frames(chunks: &[&[u8]]) -> Vec<Frame> {
        try_frames(DEFAULT_CAP_BYTES, chunks).unwrap()
    }

    fn try_frames(cap: usize, chunks: &[&[u8]]) -> Result<Vec<Frame>, (Vec<Frame>, Oversize)> {
        let mut splitter = Splitter::new(cap);
        let mut frames = Vec::new();
        for chunk in chunks {
            splitter.feed(Bytes::copy_from_slice(chunk));
            loop {
                match splitter.take() {
                    Ok(Some(SplitItem::Frame(frame))) => frames.push(frame),
                    Ok(Some(SplitItem::Alive)) => {}
                    Ok(None) => break,
                    Err(oversize) => return Err((frames, oversize)),
                }
            }
        }
        Ok(frames)
    }

    fn frame(text: &str, id: Option<&str>, retry_ms: Option<u64>) -> Frame {
        Frame {
            text: text.to_owned().into(),
            id: id.map(EventId::new),
            retry_ms,
        }
    }

    #[test]
    fn accepts_every_kind_of_line_end() {
        for end in ["\n", "\r", "\r\n"] {
            let text = ["id: 7", "event: other", "data: a", "data:b", "", ""].join(end);
            assert_eq!(
                frames(&[text.as_bytes()]),
                [frame("data: a\ndata: b\nevent: other\n\n", Some("7"), None)],
                "{end:?}"
            );
        }
    }

    #[test]
    fn a_crlf_split_across_chunks_is_one_line_end() {
        assert_eq!(
            frames(&[b"data: a\r", b"\ndata: b\r", b"\n\r", b"\ndata: c\n\n"]),
            [
                frame("data: a\ndata: b\n\n", None, None),
                frame("data: c\n\n", None, None)
            ]
        );
    }

    #[test]
    fn drops_one_leading_byte_order_mark_in_any_chunking() {
        let expected = [frame("data: a\n\n", None, None)];
        assert_eq!(frames(&[b"\xEF\xBB\xBFdata: a\n\n"]), expected);
        assert_eq!(
            frames(&[b"\xEF", b"\xBB", b"\xBF", b"data: a\n\n"]),
            expected
        );
        // A second one is part of the first field's name, which is then unknown.
        assert_eq!(
            frames(&[b"\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\ndata: a\n\n"]),
            expected
        );
        assert_eq!(frames(&[b"\xEF\xBB", b"data: x\n\ndata: a\n\n"]), expected);
    }

    #[test]
    fn a_lone_id_or_retry_is_a_frame() {
        assert_eq!(
            frames(&[b"id: 2/9\n\nretry: 500\n\nid\n\n"]),
            [
                frame("data:\n\n", Some("2/9"), None),
                frame("data:\n\n", None, Some(500)),
                frame("data:\n\n", Some(""), None),
            ]
        );
    }

    #[test]
    fn ignores_an_id_with_nul_and_a_non_numeric_retry() {
        assert_eq!(
            frames(&[
                b"id: a\0b\nretry: 5s\nretry:\nretry: +5\nretry: 99999999999999999999\ndata: x\n\n"
            ]),
            [frame("data: x\n\n", None, None)]
        );
        assert_eq!(
            frames(&[b"id: good\nid: b\0d\nretry: 7\nretry: x\n\n"]),
            [frame("data:\n\n", Some("good"), Some(7))]
        );
    }

    #[test]
    fn an_id_belongs_to_its_own_frame_only() {
        assert_eq!(
            frames(&[b"id: 1\ndata: a\n\ndata: b\n\n"]),
            [
                frame("data: a\n\n", Some("1"), None),
                frame("data: b\n\n", None, None)
            ]
        );
    }

    #[test]
    fn replaces_bad_utf8_and_continues() {
        assert_eq!(
            frames(&[b"data: a\xFFb\xC3", b"\n\ndata: ok\n\n"]),
            [
                frame("data: a\u{FFFD}b\u{FFFD}\n\n", None, None),
                frame("data: ok\n\n", None, None),
            ]
        );
    }

    #[test]
    fn drops_only_one_space_after_the_colon() {
        assert_eq!(
            frames(&[b"data:  a: b\n\n"]),
            [frame("data:  a: b\n\n", None, None)]
        );
    }

    #[test]
    fn drops_an_incomplete_frame_at_the_end() {
        assert_eq!(
            frames(&[b"id: 1\ndata: a\n\nid: 2\ndata: b\n"]),
            [frame("data: a\n\n", Some("1"), None)]
        );
    }

    #[test]
    fn reports_alive_once_per_chunk_without_a_frame() {
        let mut splitter = Splitter::new(100);
        for (chunk, expected) in [
            (": ping\n\n", vec![SplitItem::Alive]),
            (":\n\n:\n\nevent: ping\n\n\n", vec![SplitItem::Alive]),
            ("data: a", vec![SplitItem::Alive]),
            (
                "\n\n: ping\n\n",
                vec![SplitItem::Frame(frame("data: a\n\n", None, None))],
            ),
            (":", vec![SplitItem::Alive]),
            ("", vec![]),
        ] {
            splitter.feed(Bytes::copy_from_slice(chunk.as_bytes()));
            let found: Vec<SplitItem> = std::iter::from_fn(|| splitter.take().unwrap()).collect();
            assert_eq!(found, expected, "{chunk:?}");
        }
    }

    #[test]
    fn accepts_an_event_of_exactly_the_cap_and_no_more() {
        let fits = b"data: 345\ndata: 9\n\n";
        assert_eq!(try_frames(16, &[fits]).unwrap().len(), 1);
        assert_eq!(try_frames(15, &[fits]), Err((vec![], Oversize { cap: 15 })));
        let mut splitter = Splitter::new(4);
        splitter.feed(Bytes::from_static(b"data: too long"));
        assert!(splitter.take().is_err());
        splitter.feed(Bytes::from_static(b"id\n\n"));
        assert!(splitter.take().is_err(), "it stays an error");
    }

    #[test]
    fn the_cap_stops_an_endless_line_of_any_kind() {
        for beginning in ["data: ", ":", "unknown"] {
            let mut splitter = Splitter::new(1_000);
            splitter.feed(Bytes::copy_from_slice(beginning.as_bytes()));
            let chunks = std::iter::repeat_with(|| {
                splitter.feed(Bytes::from_static(&[b'x'; 64]));
                while splitter.take()?.is_some() {}
                Ok::<(), Oversize>(())
            });
            assert!(
                chunks.take(100).any(|outcome| outcome.is_err()),
                "{beginning}"
            );
        }
    }

    #[test]
    fn comments_alone_never_reach_the_cap() {
        let mut splitter = Splitter::new(16);
        for _ in 0..100 {
            splitter.feed(Bytes::from_static(b": keepalive\n"));
            assert_eq!(splitter.take(), Ok(Some(SplitItem::Alive)));
        }
    }

    #[test]
    fn many_small_events_in_one_chunk_cost_linear_work() {
        let event = b"id: 1\ndata: {\"jsonrpc\":\"2.0\"}\n\n";
        let count = 4 * 1024 * 1024 / event.len();
        let bytes = Bytes::from(event.repeat(count));
        let total = bytes.len();

        let mut splitter = Splitter::new(DEFAULT_CAP_BYTES);
        splitter.feed(bytes);
        let frames = std::iter::from_fn(|| splitter.take().unwrap()).count();
        assert_eq!(frames, count);
        assert!(splitter.work <= 3 * total, "{} for {total}", splitter.work);
    }

    #[test]
    fn a_large_event_in_single_bytes_costs_linear_work() {
        let mut splitter = Splitter::new(DEFAULT_CAP_BYTES);
        let text = [b"data: ".as_slice(), &b"x".repeat(256 * 1024), b"\n\n"].concat();
        let bytes = Bytes::from(text);
        let mut frames = 0;
        for at in 0..bytes.len() {
            splitter.feed(bytes.slice(at..=at));
            while let Some(found) = splitter.take().unwrap() {
                frames += usize::from(matches!(found, SplitItem::Frame(_)));
            }
        }
        assert_eq!(frames, 1);
        assert!(
            splitter.work <= 4 * bytes.len(),
            "{} for {}",
            splitter.work,
            bytes.len()
        );
    }

    /// Bytes in which the characters of the SSE grammar are common.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\xEF\xBB\xBF".to_vec()),
            Just(b"data".to_vec()),
            Just(b"data: ".to_vec()),
            Just(b"id: ".to_vec()),
            Just(b"event: ".to_vec()),
            Just(b"retry: ".to_vec()),
            Just(b": ".to_vec()),
            Just(b"message".to_vec()),
            Just(b"42".to_vec()),
            Just(b"\0".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..6),
        ];
        proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_frames(
            bytes in stream(),
            cuts in proptest::collection::vec(1_usize..20, 1..40),
            cap in prop_oneof![Just(DEFAULT_CAP_BYTES), 1_usize..40],
        ) {
            let mut chunks = Vec::new();
            let mut rest = bytes.as_slice();
            for borrowed in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (chunk, after) = rest.split_at((*borrowed).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(try_frames(cap, &[&bytes]), try_frames(cap, &chunks));
        }

        #[test]
        fn any_bytes_give_normalized_frames(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            for frame in frames(&[&bytes]) {
                prop_assert!(frame.text().starts_with("data:"));
                prop_assert!(frame.text().ends_with("\n\n"));
                prop_assert!(!frame.text().contains('\r'));
                prop_assert_eq!(frame.text().matches("\n\n").count(), 1);
            }
        }
    }

    #[test]
    fn ignores_an_event_id_that_is_too_long_for_a_header() {
        for (length, is_kept) in [(MAX_ID_BYTES, true), (MAX_ID_BYTES + 1, false)] {
            let id = "x".repeat(length);
            let text = format!("id: {id}\ndata: a\n\n");
            let found = frames(&[text.as_bytes()]);
            assert_eq!(found[0].id.as_deref(), is_kept.then_some(&*id), "{length}");
        }
    }

    #[test]
    fn ignores_an_event_id_that_no_header_can_carry() {
        for (id, is_kept) in [("a\u{1}b", false), ("a\u{7f}", false), ("a\tb é", true)] {
            let text = format!("id: {id}\ndata: a\n\n");
            let found = frames(&[text.as_bytes()]);
            assert_eq!(found[0].id.as_deref(), is_kept.then_some(id), "{id:?}");
        }
    }
}
