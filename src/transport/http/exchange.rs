//! The events of one exchange, in the order that [`ExchangeEvent`] documents.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::Stream;
use tokio::sync::oneshot;

use crate::{
    protocol::ExchangeEvent,
    transport::{http::body::Reader, traffic::DroppedExchange},
};

/// The events of one exchange; see [`Http::exchange_for`](super::Http::exchange_for).
pub struct Exchange {
    stage: Stage,
    /// Until it has fired.
    sent: Option<oneshot::Receiver<()>>,
    end_recorder: DroppedExchange,
}

impl Exchange {
    /// An exchange that begins with `sending`, which also gives the number of requests beyond the first. `sent` fires
    /// when a body is being written.
    pub(super) fn new(
        sending: impl Future<Output = (Head, u32)> + Send + 'static,
        sent: oneshot::Receiver<()>,
        end_recorder: DroppedExchange,
    ) -> Self {
        Self {
            stage: Stage::Sending(Box::pin(sending)),
            sent: Some(sent),
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
        let this = &mut *self;
        match &mut this.stage {
            Stage::Sending(head) => match head.as_mut().poll(cx) {
                Poll::Ready((head, 0)) => Poll::Ready(Some(self.on_head(head))),
                Poll::Ready((head, extra_requests)) => {
                    self.stage = Stage::Redirected(head);
                    Poll::Ready(Some(ExchangeEvent::MoreRequests(extra_requests)))
                }
                Poll::Pending => match &mut this.sent {
                    Some(sent) => {
                        let sent = ready!(Pin::new(sent).poll(cx));
                        this.sent = None;
                        sent.map_or(Poll::Pending, |()| Poll::Ready(Some(ExchangeEvent::Sent)))
                    }
                    None => Poll::Pending,
                },
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
