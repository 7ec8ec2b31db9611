//! The frame splitter: bytes in any chunking become whole server-sent-event frames, one at a time.
//!
//! Owns line ends, the byte order mark, the size cap, lossy decoding and a frame's own `id:` and `retry:`. Must not know
//! where the bytes come from. It stands before the `eventsource-stream` crate, which panics on a byte order mark, stops at
//! a bad byte, loses frames without data, has no limit and copies the rest of a chunk for each of its lines.
//! Invariant: the frames depend on the bytes only, never on how they were cut into chunks, and each byte is looked at once.
//!
//! Source: WHATWG HTML, "Server-sent events", parsing; MCP 2025-11-25, basic/transports.

use std::{collections::VecDeque, ops::Range};

use bytes::{Buf, Bytes};
use memchr::{memchr, memchr2};

use crate::domain::EventId;

/// The usual cap on one event or one JSON body, in bytes: 16 MiB, as in the official Rust SDK.
pub const DEFAULT_CAP_BYTES: usize = 16 * 1024 * 1024;

/// A line buffer above this many bytes is given back after use; one huge event must not be paid for until the stream ends.
const KEPT_LINE_BYTES: usize = 64 * 1024;

/// The longest event id that is kept, in bytes; a longer one fits no header that a server would take back, and a thousand
/// of them are remembered for each stream.
const ID_BYTES: usize = 1024;

const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// One event is larger than the cap; the stream cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one event is larger than {cap} bytes")]
pub struct Oversize {
    /// The cap in bytes.
    pub cap: usize,
}

/// One whole frame, normalised: it has at least one of data, id and retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Valid UTF-8; a part of the chunk that it came in where it stood there as it has to.
    text: Bytes,
    id: Option<EventId>,
    retry_ms: Option<u64>,
}

impl Frame {
    /// The lines that an event parser needs: `data:` (at least one), then `event:` if it was another than `message`,
    /// which is meant without one, then a blank line.
    ///
    /// Line ends are LF, the text never begins with a byte order mark, comments and unknown fields are gone.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// The frame's own last `id:` line that holds no NUL; an empty one takes the cursor back.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The frame's own last `retry:` line made of digits only, in milliseconds.
    pub fn retry_ms(&self) -> Option<u64> {
        self.retry_ms
    }

    /// Takes the frame apart into text, which is valid UTF-8, id and retry.
    pub fn into_parts(self) -> (Bytes, Option<EventId>, Option<u64>) {
        (self.text, self.id, self.retry_ms)
    }
}

/// What the fed bytes held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A whole frame.
    Frame(Frame),
    /// A chunk came to its end and completed no frame: a comment, or a part of something larger.
    Alive,
}

/// Cuts a byte stream into frames.
#[derive(Debug)]
pub struct Splitter {
    cap: usize,
    chunks: VecDeque<Bytes>,
    /// How many bytes of a leading byte order mark have been seen; `None` once the beginning of the stream is past.
    mark: Option<usize>,
    /// The last line ended with CR; an LF that follows belongs to it, in whatever chunk it comes.
    follows_cr: bool,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    block: Block,
    has_frame_in_chunk: bool,
    is_over: bool,
    /// Bytes searched or copied so far, so that a test can prove the cost to be linear.
    #[cfg(test)]
    work: usize,
}

impl Splitter {
    /// A splitter at the beginning of a stream; `cap_bytes` bounds the lines of one event.
    pub fn new(cap_bytes: usize) -> Self {
        Self {
            cap: cap_bytes,
            chunks: VecDeque::new(),
            mark: Some(0),
            follows_cr: false,
            line: Vec::new(),
            block: Block::default(),
            has_frame_in_chunk: false,
            is_over: false,
            #[cfg(test)]
            work: 0,
        }
    }

    /// Hands over the next bytes; nothing is looked at until [`Self::take`].
    pub fn feed(&mut self, chunk: Bytes) {
        if !chunk.is_empty() && !self.is_over {
            self.chunks.push_back(chunk);
        }
    }

    /// Bytes held of an event that has not come to its end.
    pub fn held(&self) -> usize {
        self.block.held + self.line.len()
    }

    /// Takes the next frame, or the news that a chunk held none; `None` asks for more bytes.
    ///
    /// What is not complete when the stream ends is simply never taken, its id included.
    ///
    /// # Errors
    /// [`Oversize`] if one event is over the cap, and from then on always.
    pub fn take(&mut self) -> Result<Option<Found>, Oversize> {
        while let Some(mut chunk) = self.chunks.pop_front() {
            match self.take_frame(&mut chunk) {
                Ok(Some(frame)) => {
                    self.has_frame_in_chunk = !chunk.is_empty();
                    if !chunk.is_empty() {
                        self.chunks.push_front(chunk);
                    }
                    return Ok(Some(Found::Frame(frame)));
                }
                Ok(None) => {
                    if !std::mem::take(&mut self.has_frame_in_chunk) {
                        return Ok(Some(Found::Alive));
                    }
                }
                Err(oversize) => {
                    self.is_over = true;
                    self.chunks.clear();
                    self.line = Vec::new();
                    self.block = Block::default();
                    return Err(oversize);
                }
            }
        }
        if self.is_over {
            Err(Oversize { cap: self.cap })
        } else {
            Ok(None)
        }
    }

    /// Reads lines from `chunk` until a frame is complete or the chunk is used up.
    fn take_frame(&mut self, chunk: &mut Bytes) -> Result<Option<Frame>, Oversize> {
        self.pass_mark(chunk);
        // How much of the chunk is read; it is cut only once, at the end of a frame.
        let mut at = 0;
        loop {
            let rest = chunk.get(at..).unwrap_or_default();
            let Some(first) = rest.first() else {
                self.block.let_go(chunk);
                return Ok(None);
            };
            if std::mem::take(&mut self.follows_cr) && *first == b'\n' {
                at += 1;
                continue;
            }
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                self.count(rest.len() * 2);
                self.hold(rest)?;
                self.block.let_go(chunk);
                return Ok(None);
            };
            let (line, ended) = rest.split_at(length);
            let end = at + length;
            self.count(length * 2 + 1);
            self.follows_cr = ended.first() == Some(&b'\r');

            if !self.line.is_empty() {
                self.hold(line)?;
                let whole = std::mem::take(&mut self.line);
                self.count(whole.len());
                if whole.len() > KEPT_LINE_BYTES {
                    self.block.add_whole(chunk, whole);
                } else {
                    self.block.add(chunk, &whole);
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
                self.check(length)?;
                if self.follows_cr || !self.block.cut_out(line, at..end + 1) {
                    self.block.add(chunk, line);
                }
            }
            at = end + 1;
        }
    }

    /// Drops one byte order mark at the beginning of the stream; what only began like one is the beginning of a line.
    fn pass_mark(&mut self, chunk: &mut Bytes) {
        while let Some(seen) = self.mark {
            let Some(byte) = chunk.first() else { return };
            if BYTE_ORDER_MARK.get(seen) == Some(byte) {
                chunk.advance(1);
                self.mark = (seen + 1 < BYTE_ORDER_MARK.len()).then_some(seen + 1);
            } else {
                self.line.extend(BYTE_ORDER_MARK.iter().take(seen));
                self.mark = None;
            }
        }
    }

    /// Keeps a part of a line for later.
    fn hold(&mut self, part: &[u8]) -> Result<(), Oversize> {
        self.check(part.len())?;
        self.line.extend_from_slice(part);
        Ok(())
    }

    /// Every line counts while it is read, also one that is dropped at its end: otherwise the chunking would decide.
    fn check(&self, more: usize) -> Result<(), Oversize> {
        if self.held().saturating_add(more) > self.cap {
            return Err(Oversize { cap: self.cap });
        }
        Ok(())
    }

    #[cfg(test)]
    fn count(&mut self, bytes: usize) {
        self.work += bytes;
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "its twin counts in tests")]
    fn count(&mut self, _bytes: usize) {}
}

/// The lines since the last blank one.
#[derive(Debug, Default)]
struct Block {
    /// Where the only data line so far stands in the present chunk, its line end included; nothing of it was copied.
    cut: Option<Range<usize>>,
    text: String,
    event: Option<String>,
    id: Option<EventId>,
    retry_ms: Option<u64>,
    /// Bytes of the lines that were kept; comments do not count, some servers send nothing else for hours.
    held: usize,
}

impl Block {
    /// Takes a data line as it stands in the chunk, where it is as an event parser needs it; else does nothing.
    fn cut_out(&mut self, line: &[u8], place: Range<usize>) -> bool {
        let can = self.cut.is_none()
            && self.text.is_empty()
            && line.starts_with(b"data: ")
            && std::str::from_utf8(line).is_ok();
        if can {
            self.held = self.held.saturating_add(line.len());
            self.cut = Some(place);
        }
        can
    }

    /// Copies what was only pointed at; the chunk goes, or other lines follow.
    fn let_go(&mut self, chunk: &[u8]) {
        if let Some(line) = self.cut.take().and_then(|place| chunk.get(place)) {
            self.text.push_str(&String::from_utf8_lossy(line));
        }
    }

    /// A long line that belongs to nobody else; it is not copied where it can be kept as it is.
    fn add_whole(&mut self, chunk: &[u8], line: Vec<u8>) {
        self.let_go(chunk);
        if !self.text.is_empty() || !line.starts_with(b"data: ") {
            return self.add(chunk, &line);
        }
        let length = line.len();
        match String::from_utf8(line) {
            Ok(mut text) => {
                text.push('\n');
                self.text = text;
                self.held = self.held.saturating_add(length);
            }
            Err(error) => self.add(chunk, error.as_bytes()),
        }
    }

    fn add(&mut self, chunk: &[u8], line: &[u8]) {
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
                self.let_go(chunk);
                self.text.push_str("data: ");
                self.text.push_str(&String::from_utf8_lossy(value));
                self.text.push('\n');
            }
            b"event" => self.event = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if value.len() <= ID_BYTES && memchr(0, value).is_none() => {
                self.id = Some(EventId::from(String::from_utf8_lossy(value)));
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                let digits = std::str::from_utf8(value).unwrap_or_default();
                self.retry_ms = digits.parse().ok().or(self.retry_ms);
            }
            _ => return,
        }
        self.held = self.held.saturating_add(line.len());
    }

    /// The frame, or `None` if there was nothing but comments, unknown fields or a bare `event:`, which dispatch nothing.
    /// `blank` is where the line end of the blank line stands.
    fn finish(mut self, chunk: &Bytes, blank: Range<usize>) -> Option<Frame> {
        let event = self.event.take().filter(|event| event != "message");
        let (id, retry_ms) = (self.id.take(), self.retry_ms);
        if let Some(line) = self.cut.take() {
            let is_one_piece = line.end == blank.start && chunk.get(blank.clone()) == Some(b"\n");
            if event.is_none() && is_one_piece {
                let text = chunk.slice(line.start..blank.end);
                return Some(Frame { text, id, retry_ms });
            }
            self.cut = Some(line);
            self.let_go(chunk);
        }
        if self.text.is_empty() {
            if id.is_none() && retry_ms.is_none() {
                return None;
            }
            // Without a data line the event parser would drop the frame, and its id with it.
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
                    Ok(Some(Found::Frame(frame))) => frames.push(frame),
                    Ok(Some(Found::Alive)) => {}
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
    fn every_kind_of_line_end_ends_a_line() {
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
    fn a_crlf_cut_in_two_is_one_line_end() {
        assert_eq!(
            frames(&[b"data: a\r", b"\ndata: b\r", b"\n\r", b"\ndata: c\n\n"]),
            [
                frame("data: a\ndata: b\n\n", None, None),
                frame("data: c\n\n", None, None)
            ]
        );
    }

    #[test]
    fn one_leading_byte_order_mark_is_dropped_in_any_chunking() {
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
    fn an_id_with_nul_and_a_retry_with_more_than_digits_are_ignored() {
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
    fn bad_utf8_becomes_replacement_characters_and_the_stream_goes_on() {
        assert_eq!(
            frames(&[b"data: a\xFFb\xC3", b"\n\ndata: ok\n\n"]),
            [
                frame("data: a\u{FFFD}b\u{FFFD}\n\n", None, None),
                frame("data: ok\n\n", None, None),
            ]
        );
    }

    #[test]
    fn only_one_space_after_the_colon_is_dropped() {
        assert_eq!(
            frames(&[b"data:  a: b\n\n"]),
            [frame("data:  a: b\n\n", None, None)]
        );
    }

    #[test]
    fn what_the_end_of_the_stream_cuts_off_is_no_frame() {
        assert_eq!(
            frames(&[b"id: 1\ndata: a\n\nid: 2\ndata: b\n"]),
            [frame("data: a\n\n", Some("1"), None)]
        );
    }

    #[test]
    fn comments_and_parts_are_reported_as_alive_once_a_chunk() {
        let mut splitter = Splitter::new(100);
        for (chunk, expected) in [
            (": ping\n\n", vec![Found::Alive]),
            (":\n\n:\n\nevent: ping\n\n\n", vec![Found::Alive]),
            ("data: a", vec![Found::Alive]),
            (
                "\n\n: ping\n\n",
                vec![Found::Frame(frame("data: a\n\n", None, None))],
            ),
            (":", vec![Found::Alive]),
            ("", vec![]),
        ] {
            splitter.feed(Bytes::copy_from_slice(chunk.as_bytes()));
            let found: Vec<Found> = std::iter::from_fn(|| splitter.take().unwrap()).collect();
            assert_eq!(found, expected, "{chunk:?}");
        }
    }

    #[test]
    fn an_event_of_exactly_the_cap_passes_and_one_byte_more_does_not() {
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
    fn an_endless_line_of_any_kind_is_held_back_by_the_cap() {
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
            assert_eq!(splitter.take(), Ok(Some(Found::Alive)));
        }
    }

    #[test]
    fn four_mebibytes_of_small_events_in_one_chunk_cost_linear_work() {
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
                frames += usize::from(matches!(found, Found::Frame(_)));
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

    /// Bytes in which the grammar's own characters are common.
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
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(try_frames(cap, &[&bytes]), try_frames(cap, &chunks));
        }

        #[test]
        fn arbitrary_bytes_never_panic_and_frames_are_normal(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            for frame in frames(&[&bytes]) {
                prop_assert!(frame.text().starts_with("data:"));
                prop_assert!(frame.text().ends_with("\n\n"));
                prop_assert!(!frame.text().contains('\r'));
                prop_assert_eq!(frame.text().matches("\n\n").count(), 1);
            }
        }
    }

    #[test]
    fn an_event_id_that_fits_no_header_is_none() {
        for (length, is_kept) in [(ID_BYTES, true), (ID_BYTES + 1, false)] {
            let id = "x".repeat(length);
            let text = format!("id: {id}\ndata: a\n\n");
            let found = frames(&[text.as_bytes()]);
            assert_eq!(found[0].id(), is_kept.then_some(&*id), "{length}");
        }
    }
}
