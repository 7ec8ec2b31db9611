//! What the exchanges bring, on its way to the driver: many arrivals, one wake.
//!
//! Each exchange is read by a job of its own on the network thread, because the HTTP library hands over one chunk at a
//! time; if the driver took each of them itself, every event would cost a turn. It hands them over in turns too, one of
//! each stream; here they are put together again, so that the driver stays with one task for a while: what that task
//! needs is then in the processor's cache. Invariant: the arrivals of one exchange stay in order, and what waits is
//! bounded in number and in bytes.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
};

use futures_util::Stream;
use tokio::sync::Notify;

use crate::{link::ExchangeId, protocol::ExchangeEvent};

/// Arrivals that may wait; a reader that finds so many lets the driver go first.
const WAITING: usize = 1024;
/// Bytes of events that may wait; a single event may be larger.
const WAITING_BYTES: usize = 4 * 1024 * 1024;
/// Room for so many arrivals of each exchange is kept for the next ones, of few exchanges for more.
const KEPT: usize = 64;

/// What one exchange brought, in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) link: usize,
    pub(super) exchange: ExchangeId,
    pub(super) arrivals: Vec<ExchangeEvent>,
}

/// The batches that were taken at once; those behind `used` only lend their room.
#[derive(Debug, Default)]
pub(super) struct Batches {
    all: Vec<Batch>,
    used: usize,
}

impl Batches {
    /// Those with something in them, one for each exchange, by the first arrival.
    pub(super) fn used(&mut self) -> impl Iterator<Item = &mut Batch> {
        self.all.iter_mut().take(self.used)
    }

    /// How many arrivals there are.
    pub(super) fn count(&self) -> usize {
        self.all.iter().map(|batch| batch.arrivals.len()).sum()
    }

    /// Empties them for the next.
    fn clear(&mut self) {
        let share = WAITING.checked_div(self.used).unwrap_or(WAITING).max(KEPT);
        for batch in self.used() {
            batch.arrivals.clear();
            batch.arrivals.shrink_to(share);
        }
        self.used = 0;
    }

    /// A place for what an exchange brings.
    fn open(&mut self, link: usize, exchange: ExchangeId) -> usize {
        if self.used == self.all.len() {
            self.all.push(Batch::default());
        }
        if let Some(batch) = self.all.get_mut(self.used) {
            (batch.link, batch.exchange) = (link, exchange);
        }
        self.used += 1;
        self.used - 1
    }
}

/// The arrivals that wait for the driver.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    queue: Mutex<Queue>,
    /// Something waits.
    filled: Notify,
    /// The driver took everything.
    emptied: Notify,
    /// Nothing more is read: it stays in its socket.
    is_shut: AtomicBool,
    opened: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    batches: Batches,
    /// How often everything was taken.
    taken: u64,
    count: usize,
    bytes: usize,
    is_awaited: bool,
}

/// Where a reader put its last arrival; it goes on there until everything is taken.
#[derive(Debug, Default)]
struct StreamSlot {
    taken: u64,
    place: Option<usize>,
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
        arrivals: impl Stream<Item = ExchangeEvent> + Send + 'static,
    ) -> Reading {
        let inbox = Arc::clone(self);
        let job = tokio::spawn(async move {
            let mut arrivals = std::pin::pin!(arrivals);
            let mut lane = StreamSlot::default();
            loop {
                // Looked at whenever bytes have come: who waits for them while the inbox is shut must not take them in.
                let next = poll_fn(|cx| {
                    if inbox.is_shut.load(Ordering::Relaxed) {
                        return Poll::Ready(None);
                    }
                    arrivals.as_mut().poll_next(cx).map(Some)
                });
                match next.await {
                    Some(Some(arrival)) => inbox.put(link, exchange, &mut lane, arrival).await,
                    Some(None) => break,
                    None => inbox.opened().await,
                }
            }
        });
        Reading(job.abort_handle())
    }

    async fn put(
        &self,
        link: usize,
        exchange: ExchangeId,
        lane: &mut StreamSlot,
        arrival: ExchangeEvent,
    ) {
        loop {
            let emptied = {
                let mut queue = self.lock();
                if queue.count < WAITING && queue.bytes < WAITING_BYTES {
                    if queue.count == 0 {
                        self.filled.notify_one();
                    }
                    queue.count += 1;
                    queue.bytes += size(&arrival);
                    if lane.taken != queue.taken {
                        (lane.taken, lane.place) = (queue.taken, None);
                    }
                    let place = lane.place;
                    let place = place.unwrap_or_else(|| queue.batches.open(link, exchange));
                    lane.place = Some(place);
                    if let Some(batch) = queue.batches.all.get_mut(place) {
                        batch.arrivals.push(arrival);
                    }
                    return;
                }
                queue.is_awaited = true;
                // Under the lock, so that what is emptied in between is not missed.
                self.emptied.notified()
            };
            emptied.await;
        }
    }

    /// Whether the readers go on reading, or leave everything in its socket.
    pub(super) fn read_on(&self, does: bool) {
        if self.is_shut.swap(!does, Ordering::Relaxed) && does {
            self.opened.notify_waiters();
        }
    }

    async fn opened(&self) {
        loop {
            // Before the look, so that what opens in between is not missed.
            let opened = self.opened.notified();
            if !self.is_shut.load(Ordering::Relaxed) {
                return;
            }
            opened.await;
        }
    }

    /// Waits until something is there. Dropping the wait loses nothing.
    pub(super) async fn filled(&self) {
        while self.lock().count == 0 {
            self.filled.notified().await;
        }
    }

    /// Takes everything; what `into` held before is gone, and it lends its room.
    pub(super) fn take(&self, into: &mut Batches) {
        into.clear();
        let mut queue = self.lock();
        std::mem::swap(&mut queue.batches, into);
        (queue.count, queue.bytes) = (0, 0);
        queue.taken += 1;
        if std::mem::take(&mut queue.is_awaited) {
            self.emptied.notify_waiters();
        }
    }
}

fn size(arrival: &ExchangeEvent) -> usize {
    match arrival {
        ExchangeEvent::Event { data, .. } => data.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};

    use super::*;

    fn event(data: String) -> ExchangeEvent {
        ExchangeEvent::Event {
            id: None,
            retry_ms: None,
            data,
        }
    }

    /// Reads until so many arrivals have come, and hands over each with its exchange.
    async fn take_all(
        inbox: &Inbox,
        count: usize,
        mut each: impl FnMut(ExchangeId, ExchangeEvent),
    ) {
        let (mut taken, mut seen) = (Batches::default(), 0);
        while seen < count {
            inbox.filled().await;
            inbox.take(&mut taken);
            assert!(taken.count() <= WAITING, "{} waited", taken.count());
            for batch in taken.used() {
                assert!(!batch.arrivals.is_empty());
                for arrival in batch.arrivals.drain(..) {
                    each(batch.exchange, arrival);
                    seen += 1;
                }
            }
        }
    }

    #[tokio::test]
    async fn bounds_waiting_events_and_keeps_their_order() {
        let inbox = Arc::new(Inbox::default());
        let many = |of: u64| {
            let events = stream::iter((0..5000).map(move |number| event(format!("{of}:{number}"))));
            // As it comes from the wire: one, then another stream's turn.
            events.then(|arrival| async {
                tokio::task::yield_now().await;
                arrival
            })
        };
        let _readings: Vec<Reading> = (0..3).map(|of| inbox.read(0, of, many(of))).collect();
        let mut seen = [0; 3];
        take_all(&inbox, 15_000, |exchange, arrival| {
            let of = usize::try_from(exchange).unwrap();
            assert_eq!(arrival, event(format!("{exchange}:{}", seen[of])));
            seen[of] += 1;
        })
        .await;
        assert_eq!(seen, [5000; 3]);
    }

    #[tokio::test]
    async fn batches_interleaved_events_of_many_streams() {
        let inbox = Arc::new(Inbox::default());
        let mut lanes: Vec<StreamSlot> = (0..10).map(|_| StreamSlot::default()).collect();
        let mut taken = Batches::default();
        for round in 0..3 {
            for number in 0..40 {
                let lane = &mut lanes[number % 10];
                let of = u64::try_from(number % 10).unwrap();
                inbox
                    .put(0, of, lane, event(format!("{round}:{number}")))
                    .await;
            }
            inbox.take(&mut taken);
            let sizes: Vec<usize> = taken.used().map(|batch| batch.arrivals.len()).collect();
            assert_eq!(sizes, [4; 10], "round {round}");
        }
    }

    #[tokio::test]
    async fn large_events_wait_by_their_bytes() {
        let inbox = Arc::new(Inbox::default());
        let large = stream::iter((0..64).map(|_| event("x".repeat(1024 * 1024))));
        let _reading = inbox.read(0, 7, large);
        let (mut taken, mut seen) = (Batches::default(), 0);
        while seen < 64 {
            inbox.filled().await;
            inbox.take(&mut taken);
            assert!(taken.count() <= 4, "{} waited", taken.count());
            seen += taken.count();
        }
    }

    #[tokio::test]
    async fn holds_events_while_shut_and_delivers_them_later() {
        let inbox = Arc::new(Inbox::default());
        let (write, mut read) = tokio::sync::mpsc::channel::<u32>(16);
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let asks = Arc::clone(&asked);
        let numbers = stream::poll_fn(move |cx| {
            asks.fetch_add(1, Ordering::Relaxed);
            read.poll_recv(cx)
                .map(|it| it.map(|it| event(it.to_string())))
        });
        let _reading = inbox.read(0, 7, numbers);
        write.try_send(0).unwrap();
        take_all(&inbox, 1, |_, arrival| {
            assert_eq!(arrival, event("0".to_owned()));
        })
        .await;
        // It waits for the next.
        tokio::task::yield_now().await;
        inbox.read_on(false);
        let before = asked.load(Ordering::Relaxed);
        (1..=9).for_each(|number| write.try_send(number).unwrap());
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(asked.load(Ordering::Relaxed), before);
        inbox.read_on(true);
        let mut expected = 1..=9;
        take_all(&inbox, 9, |_, arrival| {
            assert_eq!(arrival, event(expected.next().unwrap().to_string()));
        })
        .await;
    }

    #[tokio::test]
    async fn dropping_the_handle_ends_the_exchange() {
        let inbox = Arc::new(Inbox::default());
        let (held, gone) = tokio::sync::oneshot::channel::<()>();
        let endless = stream::once(async move {
            let _held = held;
            std::future::pending::<ExchangeEvent>().await
        });
        let reading = inbox.read(0, 7, endless);
        drop(reading);
        assert!(gone.await.is_err());
    }
}
