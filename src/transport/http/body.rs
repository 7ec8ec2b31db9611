//! Turns a response body into events.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use url::Url;

use crate::{
    domain::{ByteShare, text},
    protocol::ExchangeEvent,
    transport::{
        error_text,
        frame::DEFAULT_CAP_BYTES,
        http::origin::resolve_same_origin,
        secrets::{Redactor, Secrets},
        sse::Sse,
        traffic::ExchangeRecorder,
    },
};

/// Incomplete events that all exchanges together may buffer: sixteen of the largest. The exchange that would exceed this
/// is cut, and resumed where it can be.
pub(in crate::transport) const BUFFERED_BYTES: usize = 16 * DEFAULT_CAP_BYTES;

/// An exchange that buffers no more than this is never cut because of the others.
pub(in crate::transport) const SMALL_BYTES: usize = 1 << 20;

pub(in crate::transport) type ByteStream =
    Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// Turns a response body into events.
pub(in crate::transport) enum Reader {
    Empty,
    TooLarge {
        cap: usize,
    },
    Events {
        bytes: ByteStream,
        sse: Box<Sse>,
        secrets: Secrets,
        /// The base for an `endpoint` event's URL.
        url: Url,
        share: ByteShare,
    },
    /// A body that is one event, or that is only read until it ends.
    Whole {
        bytes: ByteStream,
        read: Vec<u8>,
        seen: usize,
        cap: usize,
        is_kept: bool,
        redactor: Redactor,
        recorder: ExchangeRecorder,
        share: ByteShare,
    },
}

impl Reader {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ExchangeEvent> {
        match self {
            Self::Empty => Poll::Ready(ExchangeEvent::Ended),
            Self::TooLarge { cap } => Poll::Ready(ExchangeEvent::TooLarge { cap: *cap }),
            Self::Events {
                bytes,
                sse,
                secrets,
                url,
                share,
            } => loop {
                match sse.take() {
                    Some(ExchangeEvent::Endpoint { target: Ok(text) }) => {
                        let target = resolve_same_origin(url, text.as_bytes());
                        if let Ok(target) = &target {
                            // In HTTP+SSE the endpoint URL carries the session id.
                            secrets.add_url(target);
                        }
                        let target = target
                            .map(String::from)
                            .map_err(|error| error.map_url(|url| secrets.mask(url).into_owned()));
                        return Poll::Ready(ExchangeEvent::Endpoint { target });
                    }
                    Some(event) => return Poll::Ready(event),
                    None => {}
                }
                if over_shared_limit(share, sse.held_bytes()) {
                    return Poll::Ready(shared_limit_exceeded());
                }
                match ready!(bytes.as_mut().poll_next(cx)) {
                    Some(Ok(chunk)) => sse.feed(chunk),
                    Some(Err(error)) => return Poll::Ready(broken(&error)),
                    None => return Poll::Ready(ExchangeEvent::Ended),
                }
            },
            Self::Whole {
                bytes,
                read,
                seen,
                cap,
                is_kept,
                redactor,
                recorder,
                share,
            } => loop {
                match ready!(bytes.as_mut().poll_next(cx)) {
                    Some(Ok(chunk)) => {
                        *seen = seen.saturating_add(chunk.len());
                        if *seen > *cap {
                            return Poll::Ready(ExchangeEvent::TooLarge { cap: *cap });
                        }
                        if *is_kept {
                            read.extend_from_slice(&chunk);
                            if over_shared_limit(share, read.len()) {
                                return Poll::Ready(shared_limit_exceeded());
                            }
                        }
                    }
                    Some(Err(error)) => return Poll::Ready(broken(&error)),
                    None if read.is_empty() => return Poll::Ready(ExchangeEvent::Ended),
                    None => {
                        let data = redactor.message(into_text(std::mem::take(read)));
                        recorder.response_body(&data);
                        // Counted until the consumer polls again: it may not have room for this event yet.
                        *bytes = Box::pin(stream::empty());
                        return Poll::Ready(ExchangeEvent::message(data));
                    }
                }
            },
        }
    }
}

pub(in crate::transport) fn broken(error: &reqwest::Error) -> ExchangeEvent {
    ExchangeEvent::Broken {
        why: error_text::broken_body(error),
    }
}

/// Records how much an exchange buffers; true if all exchanges together now buffer too much.
pub(in crate::transport) fn over_shared_limit(share: &mut ByteShare, bytes: usize) -> bool {
    share.set(bytes);
    bytes > SMALL_BYTES && share.total().sum() > BUFFERED_BYTES
}

pub(in crate::transport) fn shared_limit_exceeded() -> ExchangeEvent {
    ExchangeEvent::Broken {
        why: format!(
            "more than {} of unfinished events are buffered",
            text::bytes(BUFFERED_BYTES as u64)
        ),
    }
}

/// A JSON body as text, without the byte order mark that some servers prepend.
pub(in crate::transport) fn into_text(bytes: Vec<u8>) -> String {
    let mut text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if text.starts_with('\u{FEFF}') {
        text.remove(0);
    }
    text
}
