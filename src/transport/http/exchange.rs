//! The events of one exchange, in the order that [`ExchangeEvent`] documents.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::Stream;

use crate::{
    protocol::ExchangeEvent,
    transport::{http::body::Reader, traffic::DroppedExchange},
};

/// The events of one exchange; see [`Http::exchange`](super::Http::exchange).
pub struct Exchange {
    stage: Stage,
    end_recorder: DroppedExchange,
}

impl Exchange {
    /// An exchange that begins with `sending`, which also gives the number of requests beyond the first.
    pub(super) fn new(
        sending: impl Future<Output = (Head, u32)> + Send + 'static,
        end_recorder: DroppedExchange,
    ) -> Self {
        Self {
            stage: Stage::Sending(Box::pin(sending)),
            end_recorder,
        }
    }

    fn on_head(&mut self, head: Head) -> ExchangeEvent {
        let (event, next) = match head {
            Head::Final(event) => (event, Stage::Ended),
            Head::Body(event, reader) => (event, Stage::Reading(reader)),
        };
        let is_last = matches!(next, Stage::Ended);
        if is_last {
            self.end_recorder.record_end(&event);
        }
        self.stage = next;
        event
    }
}

impl Stream for Exchange {
    type Item = ExchangeEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ExchangeEvent>> {
        match &mut self.stage {
            Stage::Sending(head) => match ready!(head.as_mut().poll(cx)) {
                (head, 0) => Poll::Ready(Some(self.on_head(head))),
                (head, extra_requests) => {
                    self.stage = Stage::Redirected(head);
                    Poll::Ready(Some(ExchangeEvent::MoreRequests(extra_requests)))
                }
            },
            Stage::Redirected(_) => match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Redirected(head) => Poll::Ready(Some(self.on_head(head))),
                _ => Poll::Ready(None),
            },
            Stage::Reading(reader) => {
                let event = ready!(reader.poll(cx));
                if matches!(
                    event,
                    ExchangeEvent::Ended
                        | ExchangeEvent::Broken { .. }
                        | ExchangeEvent::TooLarge { .. }
                ) {
                    self.end_recorder.record_end(&event);
                    // Dropping the reader closes the connection, even if the stream itself is kept.
                    self.stage = Stage::Ended;
                }
                Poll::Ready(Some(event))
            }
            Stage::Ended => Poll::Ready(None),
        }
    }
}

pub(in crate::transport) enum Stage {
    Sending(Pin<Box<dyn Future<Output = (Head, u32)> + Send>>),
    /// [`ExchangeEvent::MoreRequests`] was reported; the head comes next.
    Redirected(Head),
    Reading(Box<Reader>),
    Ended,
}

/// The outcome of sending a request.
pub(in crate::transport) enum Head {
    /// The only event there is.
    Final(ExchangeEvent),
    Body(ExchangeEvent, Box<Reader>),
}
