//! What the exchanges bring, on its way to the driver: many arrivals, one wake.
//!
//! Each exchange is read by a job of its own on the network thread, because the HTTP library hands over one chunk at a
//! time; if the driver took each of them itself, every event would cost a turn. Invariant: the arrivals of one exchange
//! stay in order, and what waits is bounded in number and in bytes.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{Stream, StreamExt as _};
use tokio::sync::Notify;

use crate::{link::ExchangeId, protocol::Arrival};

/// Arrivals that may wait; a reader that finds so many lets the driver go first.
const WAITING: usize = 1024;
/// Bytes of events that may wait; a single event may be larger.
const WAITING_BYTES: usize = 4 * 1024 * 1024;

/// An arrival, and on which exchange of which link.
pub(super) type Item = (usize, ExchangeId, Arrival);

/// The arrivals that wait for the driver.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    queue: Mutex<Queue>,
    /// Something waits.
    filled: Notify,
    /// The driver took everything.
    emptied: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    is_awaited: bool,
}

/// The job that reads an exchange; dropping this ends both.
#[derive(Debug)]
pub(super) struct Reading(tokio::task::AbortHandle);

impl Reading {
    /// Whether the exchange was read to its end.
    pub(super) fn is_over(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Both threads of the engine are the same one; whoever panicked ends the program.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads an exchange to its end or until the handle is dropped.
    pub(super) fn read(
        self: &Arc<Self>,
        link: usize,
        exchange: ExchangeId,
        arrivals: impl Stream<Item = Arrival> + Send + 'static,
    ) -> Reading {
        let inbox = Arc::clone(self);
        let job = tokio::spawn(async move {
            let mut arrivals = std::pin::pin!(arrivals);
            while let Some(arrival) = arrivals.next().await {
                inbox.put((link, exchange, arrival)).await;
            }
        });
        Reading(job.abort_handle())
    }

    async fn put(&self, item: Item) {
        loop {
            let emptied = {
                let mut queue = self.lock();
                if queue.items.len() < WAITING && queue.bytes < WAITING_BYTES {
                    if queue.items.is_empty() {
                        self.filled.notify_one();
                    }
                    queue.bytes += size(&item);
                    queue.items.push_back(item);
                    return;
                }
                queue.is_awaited = true;
                // Under the lock, so that what is emptied in between is not missed.
                self.emptied.notified()
            };
            emptied.await;
        }
    }

    /// Waits until something is there. Dropping the wait loses nothing.
    pub(super) async fn filled(&self) {
        while self.lock().items.is_empty() {
            self.filled.notified().await;
        }
    }

    /// Takes everything; `into` is empty and lends its room.
    pub(super) fn take(&self, into: &mut VecDeque<Item>) {
        let mut queue = self.lock();
        std::mem::swap(&mut queue.items, into);
        queue.bytes = 0;
        if std::mem::take(&mut queue.is_awaited) {
            self.emptied.notify_waiters();
        }
    }
}

fn size(item: &Item) -> usize {
    match &item.2 {
        Arrival::Event { data, .. } => data.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn event(data: String) -> Arrival {
        Arrival::Event {
            id: None,
            retry_ms: None,
            data,
        }
    }

    #[tokio::test]
    async fn what_waits_is_bounded_and_stays_in_order() {
        let inbox = Arc::new(Inbox::default());
        let many = stream::iter((0..5000).map(|number| event(number.to_string())));
        let _reading = inbox.read(0, 7, many);
        let (mut taken, mut seen) = (VecDeque::new(), 0);
        while seen < 5000 {
            inbox.filled().await;
            inbox.take(&mut taken);
            assert!(taken.len() <= WAITING);
            for (link, exchange, arrival) in taken.drain(..) {
                assert_eq!((link, exchange, arrival), (0, 7, event(seen.to_string())));
                seen += 1;
            }
        }
    }

    #[tokio::test]
    async fn large_events_wait_by_their_bytes() {
        let inbox = Arc::new(Inbox::default());
        let large = stream::iter((0..64).map(|_| event("x".repeat(1024 * 1024))));
        let _reading = inbox.read(0, 7, large);
        let (mut taken, mut seen) = (VecDeque::new(), 0);
        while seen < 64 {
            inbox.filled().await;
            inbox.take(&mut taken);
            assert!(taken.len() <= 4, "{} waited", taken.len());
            seen += taken.drain(..).count();
        }
    }

    #[tokio::test]
    async fn dropping_the_handle_ends_the_exchange() {
        let inbox = Arc::new(Inbox::default());
        let (held, gone) = tokio::sync::oneshot::channel::<()>();
        let endless = stream::once(async move {
            let _held = held;
            std::future::pending::<Arrival>().await
        });
        let reading = inbox.read(0, 7, endless);
        drop(reading);
        assert!(gone.await.is_err());
    }
}
